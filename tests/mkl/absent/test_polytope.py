"""The set of weights of convex absent MKL, and the linear programmes over it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from kernelquilt.core.weights.sets import LP_OPTIONS
from kernelquilt.mkl.absent import convex
from kernelquilt.mkl.absent.convex import Polytope
from problems import random_polytope


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
