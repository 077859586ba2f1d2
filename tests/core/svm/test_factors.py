"""The SVM on factors against the one on Grams and a conic solver."""

import numpy as np
import pytest

from kernelquilt.core.in_step import in_step
from kernelquilt.core.svm import factor_descent, factor_dual, factor_reading
from kernelquilt.core.svm.dual import signed_bounds
from kernelquilt.core.svm.factor_dual import FactorDual
from kernelquilt.core.svm.factor_reading import FactorReader, read_together
from kernelquilt.core.svm.factor_svm import FactorSVM
from kernelquilt.core.svm.factors import Factors
from kernelquilt.core.svm.weighted_svm import WeightedSVM
from kernelquilt.core.svm.weighted_svr import FactorSVR, WeightedSVR
from problems import conic_regression, conic_svm, random_problem


def as_factors(factors, observed, dtype=np.float64):
    starts = np.cumsum([0, *(F.shape[1] for F in factors)])
    return Factors(np.ascontiguousarray(np.hstack(factors), dtype=dtype), starts, observed)


def with_duplicates(rng, factors, observed, y, t, U):
    """Return the problem with some samples repeated and some that have nothing."""
    rows = rng.integers(0, len(y), int(1.5 * len(y)))
    rows[:2] = 0, 1
    factors, observed = [F[rows] for F in factors], observed[rows].copy()
    gone = np.flatnonzero(rng.random(len(rows)) < 0.1)
    observed[gone] = False
    for F in factors:
        F[gone] = 0.0
    return factors, observed, y[rows], t[rows], U[rows]


def problem_of(seed):
    rng = np.random.default_rng(seed)
    _, factors, observed, y, t, U = random_problem(rng)
    if seed % 2:
        factors, observed, y, t, U = with_duplicates(rng, factors, observed, y, t, U)
    weights = rng.random(len(factors))
    if len(weights) > 2:
        weights[0] = 0.0
    return factors, observed, y, t, U, weights / weights.sum()


@pytest.fixture
def by_stages(monkeypatch):
    """Make coordinate descent and Newton's method do the work that SMO does for few samples."""
    monkeypatch.setattr(factor_dual, "SMALL", 4)


@pytest.fixture
def in_small_pieces(monkeypatch):
    """Make passes take a few rows at a time, and descent go on with passes for longer."""
    monkeypatch.setattr(factor_reading, "BYTES_AT_A_TIME", 2**7)
    monkeypatch.setattr(factor_descent, "HELD_BYTES", 2**9)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_what_is_read_of_factors(dtype, in_small_pieces):
    factors, observed, *_ = problem_of(3)
    held = as_factors(factors, observed, dtype)
    n, D = held.Z.shape
    rng = np.random.default_rng(0)
    b, v, rows = rng.standard_normal(n), rng.standard_normal(D), rng.permutation(n)[:5]
    b[: n // 3] = 0.0
    reader = FactorReader(held)
    found = [reader.combine(b), reader.scores(v), reader.products(v), reader.features(rows)]
    blocks = np.split(v, held.starts[1:-1])
    parts = [F @ part for F, part in zip(held.blocks, blocks, strict=True)]
    expected = [held.Z.T @ b, held.Z @ v, parts, held.Z[rows]]
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5 if dtype == np.float32 else 1e-12)
    assert reader.n_passes == pytest.approx(np.mean(b != 0) + 2 + 5 / n)


def test_passes_of_several_are_shared_out(in_small_pieces):
    factors, observed, *_ = problem_of(3)
    held, copy = (as_factors(factors, observed) for _ in range(2))
    n = len(held.Z)
    readers = []

    def reading(factors, rows):
        def solve():
            readers.append(FactorReader(factors))
            return readers[-1].features(rows)

        return solve

    half = np.arange(n // 2)
    parts = [(held, half), (held, half[:3]), (held, half + n // 2), (copy, half)]
    found = in_step([reading(*part) for part in parts], read_together)
    for rows, (_, expected) in zip(found, parts, strict=True):
        np.testing.assert_array_equal(rows, held.Z[expected])
    passes = np.array([reader.n_passes for reader in readers])
    assert passes[:3].sum() == pytest.approx(2 * len(half) / n)
    np.testing.assert_allclose(passes[:3] / passes[0], [1.0, 3 / len(half), 1.0])
    assert passes[3] == pytest.approx(len(half) / n)


@pytest.mark.parametrize("seed", range(50))
def test_gap_and_value_are_those_of_grams(seed):
    factors, observed, y, t, U, weights = problem_of(seed)
    K = np.array([F @ F.T for F in factors])
    gram = WeightedSVM(K, y, t, U).solve(weights, None, 1e-8)
    point = FactorSVM(as_factors(factors, observed), y, t, U).solve(weights, None, 1e-8)
    scale = max(gram.primal, 1e-12)
    assert abs(point.b.sum()) <= 1e-12 * max(np.abs(point.b).sum(), 1.0)
    assert (np.abs(point.b[0]) <= U * (1 + 1e-12)).all()
    assert (point.b[0] * y >= -1e-15).all()
    assert -1e-12 * scale <= point.primal - point.dual <= 1e-9 * scale
    np.testing.assert_allclose(point.dual, gram.dual, atol=1e-8 * scale)
    # that of a kernel without weight need not be unique
    used = weights > 0
    np.testing.assert_allclose(point.q[used], gram.q[used], atol=1e-5 * max(gram.q.max(), 1e-12))
    expected = K @ point.b[0]
    np.testing.assert_allclose(point.products[0], expected, atol=1e-9 * (1 + expected.max()))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_stages_for_many_samples_on_few(seed, dtype, by_stages, in_small_pieces):
    factors, observed, y, t, U, weights = problem_of(seed)
    X = np.hstack([np.sqrt(d) * F for d, F in zip(weights, factors, strict=True)])
    expected = conic_svm(X, y, t, U)
    reader = FactorReader(as_factors(factors, observed, dtype))
    state = FactorDual(reader, weights, y * t, *signed_bounds(y, U), np.zeros(len(y)))
    state.solve(1e-4)
    assert state.relative_gap <= 1e-4
    np.testing.assert_allclose(state.dual, expected, rtol=2e-4, atol=1e-9)


@pytest.mark.parametrize("seed", range(12))
def test_second_derivatives(seed):
    factors, observed, y, t, U, weights = problem_of(2 * seed)
    if (weights == 0).any():
        weights = np.full(len(weights), 1 / len(weights))
    K = np.array([F @ F.T for F in factors])
    one = WeightedSVM(K, y, t, U)
    other = FactorSVM(as_factors(factors, observed), y, t, U)
    expected = one.hessian(one.solve(weights, None, 1e-8))
    found = other.hessian(other.solve(weights, None, 1e-8))
    np.testing.assert_allclose(found, expected, atol=1e-5 * max(np.abs(expected).max(), 1e-9))


def regression_of(seed):
    """Return factors, mask, targets of some size, penalties, a tube or none, and weights."""
    factors, observed, _, _, C, weights = problem_of(seed)
    rng = np.random.default_rng(100 + seed)
    y = 10.0 ** rng.uniform(-1, 1) * rng.standard_normal(len(C))
    tube = rng.choice([0.0, 0.1, 0.5, 2.0]) * y.std() * rng.uniform(0.5, 1.0, len(C))
    return factors, observed, y, C, tube, weights


@pytest.mark.parametrize("seed", range(25))
def test_regression_has_gap_and_value_of_grams(seed):
    factors, observed, y, C, tube, weights = regression_of(seed)
    K = np.array([F @ F.T for F in factors])
    gram = WeightedSVR(K, y, C, tube).solve(weights, None, 1e-8)
    svr = FactorSVR(as_factors(factors, observed), y, C, tube)
    point = svr.solve(weights, None, 1e-8)
    scale = max(gram.primal, 1e-12 * C @ np.abs(y))
    assert abs(point.b.sum()) <= 1e-12 * max(np.abs(point.b).sum(), 1.0)
    assert (np.abs(point.b[0]) <= C * (1 + 1e-12)).all()
    assert -1e-12 * scale <= point.primal - point.dual <= 1e-9 * scale
    np.testing.assert_allclose(point.dual, gram.dual, atol=1e-8 * scale)
    b, off = point.b[0], y - weights @ (K @ point.b[0]) - point.intercept[0]
    loss = C @ np.maximum(np.abs(off) - tube, 0.0)
    np.testing.assert_allclose(0.5 * weights @ (K @ b @ b) + loss, point.primal, atol=1e-8 * scale)
    # from there to other bounds and another tube
    again = FactorSVR(as_factors(factors, observed), y, 0.3 * C, 0.5 * tube)
    moved, alone = (again.solve(weights, start, 1e-8) for start in (point.b, None))
    np.testing.assert_allclose(moved.dual, alone.dual, atol=1e-8 * scale)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_stages_of_regression_for_many_samples_on_few(seed, dtype, by_stages, in_small_pieces):
    factors, observed, y, C, tube, weights = regression_of(seed)
    expected = conic_regression(factors, y, C, tube, weights)
    tol = 1e-4 if dtype == np.float64 else 1e-3
    reader = FactorReader(as_factors(factors, observed, dtype))
    state = FactorDual(reader, weights, y, -C, C.copy(), np.zeros(len(y)), tube)
    state.solve(tol)
    assert state.relative_gap <= tol
    np.testing.assert_allclose(state.dual, expected, rtol=2 * tol, atol=1e-9 * C @ np.abs(y))


@pytest.mark.parametrize("seed", range(12))
def test_second_derivatives_of_regression(seed):
    factors, observed, y, C, tube, weights = regression_of(2 * seed)
    if (weights == 0).any():
        weights = np.full(len(weights), 1 / len(weights))
    one = WeightedSVR(np.array([F @ F.T for F in factors]), y, C, tube)
    other = FactorSVR(as_factors(factors, observed), y, C, tube)
    expected = one.hessian(one.solve(weights, None, 1e-8))
    found = other.hessian(other.solve(weights, None, 1e-8))
    np.testing.assert_allclose(found, expected, atol=1e-5 * max(np.abs(expected).max(), 1e-9))
