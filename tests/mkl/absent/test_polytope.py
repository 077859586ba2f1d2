"""The set of weights of convex absent MKL, and the linear programmes over it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from kernelquilt.core.svm.weighted_svm import WeightedSVM
from kernelquilt.core.weights.sets import LP_OPTIONS
from kernelquilt.core.weights.solution import Options
from kernelquilt.core.weights.solvers import newton
from kernelquilt.mkl.absent import convex
from kernelquilt.mkl.absent.convex import Polytope
from problems import conic_mkl, random_polytope, random_problem


def random_forms(rng, m):
    q = rng.random(m) ** rng.integers(1, 8)
    q[rng.random(m) < 0.2] = 0.0
    return q * 10.0 ** rng.uniform(-8, 8)


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_support_is_the_linear_programme(seed):
    rng = np.random.default_rng(seed)
    A = random_polytope(rng)
    q = random_forms(rng, A.shape[1])
    polytope = Polytope(A)
    scale = q.max() or 1.0
    result = linprog(-q / scale, A_ub=A, b_ub=np.ones(len(A)), options=LP_OPTIONS)
    best = -result.fun * scale
    z = polytope.multipliers(q)
    assert (z >= 0).all()
    assert (polytope.A.T @ z >= q * (1 - 1e-12)).all()
    assert polytope.support(q) == pytest.approx(best, rel=1e-8)


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_dropped_constraints_change_nothing(seed):
    rng = np.random.default_rng(seed)
    A = random_polytope(rng)
    polytope = Polytope(np.vstack([A, 0.5 * A, A, np.zeros_like(A)]))
    assert len(polytope.A) <= len(A)
    for d in rng.random((20, A.shape[1])):
        assert (polytope.A @ d).max() == pytest.approx((A @ d).max())


def test_support_without_pivots_falls_back(monkeypatch):
    rng = np.random.default_rng(0)
    A = random_polytope(rng)
    q = rng.random(A.shape[1])
    direct = Polytope(A).support(q)
    monkeypatch.setattr(convex, "MAX_PIVOTS_SHARE", 0)
    assert Polytope(A).support(q) == pytest.approx(direct, rel=1e-9)


@pytest.mark.parametrize("seed", range(30))
def test_polytope_equals_conic_solver(seed):
    rng = np.random.default_rng(1000 + seed)
    K, factors, observed, y, t, U = random_problem(rng, m=int(rng.integers(2, 6)))
    observed[0] = True
    A = observed.astype(float)
    solution = newton(WeightedSVM(K, y, t, U), Polytope(A), Options(1e-7, 100))
    expected = conic_mkl(factors, y, t, U, A)
    assert solution.converged
    assert solution.objective == pytest.approx(expected, rel=1e-6, abs=1e-7)
    assert solution.duality_gap >= -1e-12 * abs(solution.objective)
    assert (A @ solution.weights <= 1 + 1e-9).all()
    assert (solution.weights >= 0).all()


@pytest.mark.parametrize("seed", range(20))
def test_polytope_support_is_a_tight_upper_bound(seed):
    rng = np.random.default_rng(seed)
    A = (rng.random((12, 6)) < 0.6).astype(float)
    A[0] = 1.0
    q = rng.exponential(size=6)
    value = -linprog(-q, A_ub=A, b_ub=np.ones(12), method="highs").fun
    support = Polytope(A).support(q)
    assert value * (1 - 1e-12) <= support <= value * (1 + 1e-8)


def test_polytope_drops_dominated_rows_and_unbounded_columns():
    A = np.array([[1, 1, 0], [1, 0, 0], [1, 1, 0], [0, 0, 0]], dtype=float)
    polytope = Polytope(A)
    np.testing.assert_array_equal(polytope.A, [[1, 1, 0]])
    np.testing.assert_array_equal(polytope.allowed, [True, True, False])
    np.testing.assert_array_equal(polytope.start(), [0.5, 0.5, 0.0])


def test_polytope_refuses_negative_or_empty_constraints():
    with pytest.raises(ValueError, match="negative"):
        Polytope(np.array([[1.0, -1.0]]))
    with pytest.raises(ValueError, match="bounded"):
        Polytope(np.zeros((2, 3)))
