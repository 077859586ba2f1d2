import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline

import kernelquilt as kq
from kernelquilt.bounds import absent_mkl_bound, lp_mkl_bound, rp_mkl_bound


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


@pytest.mark.parametrize("formulation", ["exact", "shared_coef"])
def test_absent_bound_by_hand(formulation):
    X, y = kq.datasets.make_multiview(80, 3, random_state=0)
    X = kq.datasets.make_absent(X, 0.5, random_state=0)
    model = kq.ConvexAbsentMKLClassifier(2.0, formulation=formulation).fit(X, y)
    bound = absent_mkl_bound(model, X, y, rho=0.5, delta=0.1)
    stack = kq.ViewKernels().fit_transform(X)
    K, observed = stack.training_gram()
    coef = model.weights_[:, None] * np.broadcast_to(model.dual_coef_, (3, 80))
    norms = np.sqrt(np.einsum("mi,mij,mj->m", coef, K, coef))
    mu = 0.5 * norms.sum() ** 2
    most = observed.sum(axis=0).max()
    assert bound.mu == pytest.approx(mu)
    assert bound.largest == pytest.approx(1.0)
    assert bound.complexity == pytest.approx(2 * np.sqrt(2 * mu) / (80 * 0.5) * np.sqrt(most))
    assert bound.confidence == pytest.approx(3 * np.sqrt(np.log(10) / 160))
    assert bound.remainder == pytest.approx(16 / 0.5 * np.sqrt(mu * np.log(40) / 80))
    signs = np.where(y == model.classes_[1], 1, -1)
    error = np.mean(signs * model.decision_function(X) <= 0.5)
    assert bound.margin_error == error
    assert bound.value == pytest.approx(
        error + bound.complexity + bound.confidence + bound.remainder
    )
    # the same from a stack of the kernels
    again = kq.ConvexAbsentMKLClassifier(2.0, formulation=formulation).fit(stack, y)
    assert absent_mkl_bound(again, stack, y, rho=0.5, delta=0.1).value == pytest.approx(bound.value)
    # no tighter than the weights of the paper, which give a larger mu
    gamma = model.simplex_weights_
    assert bound.mu <= 0.5 * (norms[gamma > 0] ** 2 / gamma[gamma > 0]).sum() * (1 + 1e-9)


def test_absent_bound_refuses_what_it_is_not_for():
    X, y = kq.datasets.make_multiview(60, 2, n_classes=3, random_state=0)
    with pytest.raises(ValueError, match="two classes, got 3"):
        absent_mkl_bound(kq.SimpleMKLClassifier().fit(X, y), X, y)
    model = kq.SimpleMKLClassifier().fit(X, y == 1)
    with pytest.raises(ValueError, match="fitted on 60"):
        absent_mkl_bound(model, X[:10], y[:10] == 1)
    for bad in ({"rho": 0.0}, {"delta": 0.5}, {"delta": 0.0}):
        with pytest.raises(ValueError, match="rho must be positive"):
            absent_mkl_bound(model, X, y == 1, **bad)
    with pytest.raises(ValueError, match=r"not fitted with: \[2\]"):
        absent_mkl_bound(model, X, y)
    with pytest.raises(ValueError, match="of a pipeline give the last step"):
        absent_mkl_bound(make_pipeline(model), X, y == 1)
    with pytest.raises(NotFittedError):
        absent_mkl_bound(kq.SimpleMKLClassifier(), X, y == 1)
    with pytest.raises(ValueError, match="depend on the sample"):
        absent_mkl_bound(kq.mkl.LocalizedMKLClassifier().fit(X, y == 1), X, y == 1)
