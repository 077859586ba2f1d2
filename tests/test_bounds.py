import numpy as np
import pytest

import kernelquilt as kq
from kernelquilt.bounds import lp_mkl_bound, rp_mkl_bound


def ones(n=100, M=8):
    return np.ones((n, n, M))


def test_terms_are_those_of_the_formula():
    bound = lp_mkl_bound(ones(), p=2.0, radius=3.0)
    t = bound.exponent
    star = t / (t - 1)
    main = 3.0 * star * np.sqrt(np.e / 100 * 8 ** (2 / star))
    remainder = np.sqrt(np.e) * 3.0 * 8 ** (1 / star) * star / 100
    assert bound.main == pytest.approx(main)
    assert bound.remainder == pytest.approx(remainder)
    assert bound.value == pytest.approx(main + remainder)
    assert t >= 2.0


def test_complexity_bounds_a_simulation():
    """For p = 2 the supremum over the ball is a norm, which can be simulated."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (60, 5))
    K = np.stack([np.outer(x, x) for x in X.T], axis=-1)
    signs = rng.choice([-1.0, 1.0], (4000, 60))
    simulated = np.linalg.norm(signs @ X, axis=1).mean() / 60
    assert simulated <= lp_mkl_bound(K, p=2.0).value


def test_order_of_the_classes():
    K = ones()
    low, high = lp_mkl_bound(K, p=1.5), lp_mkl_bound(K, p=4.0)
    assert low.value <= high.value
    mixed = rp_mkl_bound(K, r=1.5, p=4.0)
    assert low.value <= mixed.value <= high.value
    assert mixed == rp_mkl_bound(K, r=4.0, p=1.5)
    assert rp_mkl_bound(K, r=2.0, p=2.0) == lp_mkl_bound(K, p=2.0)
    factor = 8 ** ((1 / 1.5 - 1 / 4.0) / 4)
    assert mixed.value == pytest.approx(min(factor * low.value, high.value))


def test_falls_with_samples_and_grows_with_radius_and_absence_lowers_it():
    assert lp_mkl_bound(ones(400), p=2.0).value < lp_mkl_bound(ones(100), p=2.0).value
    assert lp_mkl_bound(ones(), p=2.0, radius=2.0).value == pytest.approx(
        2 * lp_mkl_bound(ones(), p=2.0).value
    )
    observed = np.ones((100, 8), dtype=bool)
    observed[50:, :4] = False
    K = np.ones((8, 100, 100))
    K[:, 50:, :] = K[:, :, 50:] = np.nan
    K[4:] = 1.0
    absent = lp_mkl_bound(kq.KernelStack(K, observed), p=2.0).value
    assert absent < lp_mkl_bound(ones(), p=2.0).value


@pytest.mark.parametrize("bad", [{"p": 0.5}, {"p": np.nan}, {"p": 2.0, "radius": -1.0}])
def test_bad_numbers(bad):
    with pytest.raises(ValueError, match="must be finite and at least"):
        lp_mkl_bound(ones(10, 2), **bad)
    with pytest.raises(ValueError, match="r must be"):
        rp_mkl_bound(ones(10, 2), r=0.0, p=2.0)
