import numpy as np
import pytest

from kernelquilt.core.compiled import present_rows, size_of_terms, sum_constrained
from kernelquilt.core.svm.dual import (
    free_duals,
    free_indices,
    jittered_cholesky,
    largest_share,
    signed_bounds,
    sum_factor,
)
from kernelquilt.core.svm.weighted_svm import response


def duals(rng, n=60):
    """Return duals with their bounds, some of them at a bound, at zero or left out."""
    y = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    U = np.where(rng.random(n) < 0.2, 0.0, rng.uniform(0.5, 2.0, n))
    return y * U * rng.choice([0.0, 0.3, 1.0 - 1e-14, 1.0], n), *signed_bounds(y, U)


@pytest.mark.parametrize("with_tube", [False, True])
def test_free_indices_are_those_of_free_duals(with_tube):
    rng = np.random.default_rng(0)
    b, lower, upper = duals(rng)
    tube = None
    if with_tube:
        lower, upper = -upper.clip(0.5), upper.clip(0.5)
        tube = np.where(rng.random(len(b)) < 0.5, 0.1, 0.0)
    expected = np.flatnonzero(free_duals(b, lower, upper, tube))
    assert 0 < len(expected) < len(b)
    np.testing.assert_array_equal(free_indices(b, lower, upper, tube), expected)


def test_largest_share_of_one_problem_and_of_several():
    rng = np.random.default_rng(1)
    problems = [duals(rng) for _ in range(3)]
    for b, lower, upper in problems:
        assert largest_share(b, lower, upper) == 1.0
        assert largest_share(0.25 * b, lower, upper) == pytest.approx(0.25)
        assert largest_share(0.0 * b, lower, upper) == 0.0
    b, lower, upper = map(np.array, zip(*problems, strict=True))
    b *= np.array([[0.25], [0.75], [0.5]])
    assert largest_share(b, lower, upper) == pytest.approx(0.75)


def test_the_size_of_the_terms_of_the_slopes():
    rng = np.random.default_rng(2)
    diag, b, f = rng.uniform(0.1, 3.0, 50), rng.normal(size=50), rng.normal(size=50)
    expected = diag.max() * np.abs(b).sum() + np.abs(f).max()
    assert size_of_terms(diag, b, f) == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize("n", [2, 7, 90])
@pytest.mark.parametrize("total", [0.0, -1.3])
def test_sums_are_kept_and_the_jitter_is_made_up_for(n, total):
    rng = np.random.default_rng(n)
    F = rng.normal(size=(n, n + 3))
    K = F @ F.T / n
    right = rng.normal(size=n)
    jitter = 1e-4 * np.trace(K) / n
    factor = jittered_cholesky(K + np.trace(K) / n + jitter * np.eye(n))
    bordered = np.block([[K, -np.ones((n, 1))], [np.ones((1, n)), np.zeros((1, 1))]])
    expected = np.linalg.solve(bordered, np.append(right, total))[:n]
    errors = [
        np.abs(sum_constrained(K, factor, right, total, rounds) - expected).max()
        for rounds in (1, 3, 30)
    ]
    assert errors[1] < 0.5 * errors[0]
    assert errors[2] <= 1e-8 * np.abs(expected).max()
    assert sum_constrained(K, factor, right, total, 3).sum() == pytest.approx(total, abs=1e-10)


def test_rows_are_present_though_their_diagonal_or_their_sum_is_zero():
    K = np.zeros((2, 4, 4))
    K[0, 1, 1] = 1.0
    K[1, 0, 2] = K[1, 2, 0] = 1.0
    K[1, 0, 3] = K[1, 3, 0] = -1.0
    expected = [[False, True, False, False], [True, False, True, True]]
    for dtype in (np.float64, np.float32):
        np.testing.assert_array_equal(present_rows(K.astype(dtype)), expected)


def test_the_response_is_that_of_the_equations():
    rng = np.random.default_rng(3)
    F, slopes = rng.normal(size=(20, 25)), rng.normal(size=(20, 4))
    block = F @ F.T
    inverse = np.linalg.inv(block)
    along = inverse.sum(axis=0)
    projected = inverse - np.outer(along, along) / along.sum()
    given = slopes.copy()
    found = response(sum_factor(block), slopes)
    np.testing.assert_allclose(found, slopes.T @ projected @ slopes, rtol=1e-8)
    np.testing.assert_array_equal(slopes, given)
