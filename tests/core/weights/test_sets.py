"""The small quadratic programmes over sets of weights."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from kernelquilt.core.weights.sets import simplex_least_squares
from kernelquilt.core.weights.solvers import solve_qp
from problems import random_polytope


@settings(max_examples=80, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_quadratic_programme_meets_its_conditions(seed):
    rng = np.random.default_rng(seed)
    m, on_simplex = int(rng.integers(1, 15)), bool(rng.random() < 0.5)
    F = rng.standard_normal((int(rng.integers(1, m + 2)), m)) * 10.0 ** rng.uniform(-3, 3)
    H, c = F.T @ F + 1e-8 * np.eye(m), rng.standard_normal(m)
    more = np.zeros((0, m)) if on_simplex else random_polytope(rng)[:, :m]
    more = np.pad(more, ((0, 0), (0, m - more.shape[1])))
    if not on_simplex:
        more = np.vstack([more, np.ones(m)])  # so that the set is bounded
    G, h = np.vstack([-np.eye(m), more]), np.concatenate([np.zeros(m), np.ones(len(more))])
    A = np.ones((1, m)) if on_simplex else np.zeros((0, m))
    x = solve_qp(H, c, np.zeros(m), more, np.ones(len(more)), A, np.ones(len(A)))
    assert (G @ x <= h + 1e-9).all()
    np.testing.assert_allclose(A @ x, np.ones(len(A)), atol=1e-9)
    # no feasible point is better to first order
    gradient = H @ x + c
    best = linprog(
        gradient, A_ub=G, b_ub=h, A_eq=A if len(A) else None, b_eq=np.ones(1) if len(A) else None
    )
    size = np.abs(gradient).max() * max(1.0, np.abs(x).max())
    assert gradient @ x - best.fun <= 1e-6 * max(size, np.abs(c).max())


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_convex_combinations_of_vectors_however_dependent(seed):
    """Repeated vectors, few dimensions, and targets that are tiny or orthogonal to the others."""
    rng = np.random.default_rng(seed)
    m = int(rng.integers(2, 12))
    vectors = rng.standard_normal((m, int(rng.integers(1, 15))))
    vectors[rng.random(m) < 0.3] = vectors[-1]
    vectors[0] *= 10.0 ** rng.uniform(-16, 0) * rng.integers(0, 2)
    gram = vectors @ vectors.T * 10.0 ** rng.uniform(-20, 20)
    weights = simplex_least_squares(gram, 0)
    assert weights[0] == 0
    assert (weights >= 0).all()
    assert weights.sum() == pytest.approx(1.0, abs=1e-12)
    # no other vector is nearer to the target, to first order
    slopes = (gram @ weights - gram[0])[1:]
    assert weights[1:] @ slopes - slopes.min() <= 1e-9 * np.abs(gram[1:, 1:]).max()


def test_bounds_hold_exactly_where_they_are_active():
    lower = np.array([-0.3, 0.1, 0.0])
    none = np.zeros((0, 3))
    x = solve_qp(np.eye(3), np.array([1.0, 2.0, -3.0]), lower, none, none[:, 0], none, none[:, 0])
    np.testing.assert_array_equal(x[:2], lower[:2])
    assert x[2] == pytest.approx(3.0)


def test_an_empty_set_is_an_error():
    ones = np.ones((1, 2))
    with pytest.raises(np.linalg.LinAlgError, match="quadratic programme"):
        solve_qp(np.eye(2), ones[0], np.ones(2), ones, np.ones(1), ones[:0], np.zeros(0))
