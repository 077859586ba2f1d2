import numpy as np
import pytest

import kernelquilt as kq
from kernelquilt.core.weights.sets import NormBall, lp_weights
from problems import random_problem


def conic_lp(factors, y, t, U, p):
    """Return the optimum of lp-norm MKL."""
    import cvxpy as cp

    conjugate = p / (p - 1)
    unit = min(U.max(), 1.0 / max(np.square(F).sum(axis=1).mean() for F in factors))
    a = cp.Variable(len(y))
    b = cp.multiply(y, a)
    z = cp.Variable(len(factors), nonneg=True)
    constraints = [a >= 0, a <= U / unit, y @ a == 0]
    constraints += [unit * cp.sum_squares(F.T @ b) <= z[m] for m, F in enumerate(factors)]
    problem = cp.Problem(cp.Maximize(t @ a - 0.5 * cp.pnorm(z, conjugate)), constraints)
    return unit * problem.solve(solver=cp.CLARABEL)


@pytest.mark.parametrize("p", [1.1, 1.3, 1.5, 2.0, 4.0, 8.0])
@pytest.mark.parametrize("seed", range(8))
def test_equals_conic_solver(p, seed):
    rng = np.random.default_rng(seed)
    K, factors, _, y, t, C = random_problem(rng, m=int(rng.integers(2, 6)))
    solution = kq.mkl.solve_lp_mkl(K, y, p=p, C=C, margins=t, tol=1e-7, max_iter=500)
    expected = conic_lp(factors, y, t, C / t, p)
    assert solution.converged
    # generic conic solvers meet the power cones of a norm only to about 1e-6
    assert solution.objective == pytest.approx(expected, rel=1e-5, abs=1e-6)
    assert solution.duality_gap >= -1e-12 * abs(solution.objective)
    assert (solution.weights**p).sum() == pytest.approx(1.0, abs=1e-9)


def test_p_of_one_is_simple_mkl():
    K, _, _, y, t, C = random_problem(np.random.default_rng(0), n=25, m=4)
    one = kq.mkl.solve_lp_mkl(K, y, p=1.0, C=C, margins=t)
    other = kq.mkl.solve_simple_mkl(K, y, C=C, margins=t)
    np.testing.assert_array_equal(one.weights, other.weights)


def test_both_algorithms_agree_where_they_meet(monkeypatch):
    K, _, _, y, t, C = random_problem(np.random.default_rng(1), n=25, m=4)
    closed_form = kq.mkl.solve_lp_mkl(K, y, p=1.6, C=C, margins=t, tol=1e-8, max_iter=1000)
    monkeypatch.setattr("kernelquilt.mkl.norms.lp.CLOSED_FORM_FROM", 2.0)
    by_newton = kq.mkl.solve_lp_mkl(K, y, p=1.6, C=C, margins=t, tol=1e-8)
    assert by_newton.objective == pytest.approx(closed_form.objective, rel=2e-8)
    assert by_newton.n_solves < closed_form.n_solves


@pytest.mark.parametrize("p", [1.1, 2.0])
def test_objective_never_rises(p):
    K, _, _, y, t, C = random_problem(np.random.default_rng(2), n=30, m=5)
    solution = kq.mkl.solve_lp_mkl(K, y, p=p, C=C, margins=t, tol=1e-8, max_iter=500)
    objectives = [step.objective for step in solution.history]
    assert all(np.diff(objectives) <= 1e-9 * objectives[0])


def test_smaller_p_has_larger_objective_and_sparser_weights():
    X, y = kq.datasets.make_multiview(120, 4, relevance=[2, 1, 0, 0], random_state=0)
    models = [kq.LpMKLClassifier(p=p, tol=1e-6).fit(X, y) for p in (1.0, 1.2, 2.0, 8.0)]
    objectives = [model.objective_ for model in models]
    assert all(np.diff(objectives) < 0)
    shares = [(model.weights_ / model.weights_.sum()).max() for model in models]
    assert all(np.diff(shares) < 0)


def test_closed_form_update_minimises():
    rng = np.random.default_rng(3)
    squared = rng.exponential(size=5)
    for p in (1.0, 1.5, 3.0):
        best = lp_weights(squared, p)
        assert (best**p).sum() == pytest.approx(1.0)
        for _ in range(200):
            other = np.abs(best + 0.1 * rng.standard_normal(5)) + 1e-9
            other /= (other**p).sum() ** (1 / p)
            assert (squared / best).sum() <= (squared / other).sum() + 1e-12


def test_coordinates_pull_derivatives_back():
    rng = np.random.default_rng(4)
    ball = NormBall(np.ones(4, dtype=bool), 1.3)
    u = rng.dirichlet(np.ones(4))
    F = rng.standard_normal((4, 4))
    H, g = F @ F.T, -rng.exponential(size=4)

    def value(v):
        d = ball.weights(v) - ball.weights(u)
        return g @ d + 0.5 * d @ H @ d

    gradient, hessian = ball.pull_back(u, g, H)
    step = 1e-4 * np.eye(4)
    numeric = np.array([(value(u + e) - value(u - e)) / 2e-4 for e in step])
    np.testing.assert_allclose(gradient, numeric, rtol=1e-4, atol=1e-6)
    second = np.array(
        [
            [
                value(u + e + f) - value(u + e - f) - value(u - e + f) + value(u - e - f)
                for e in step
            ]
            for f in step
        ]
    ) / (4e-8)
    np.testing.assert_allclose(hessian, second, rtol=1e-2, atol=1e-2)


def test_bad_exponents():
    X, y = kq.datasets.make_multiview(30, 2, random_state=0)
    for p in (0.5, np.nan, np.inf, "2"):
        with pytest.raises(ValueError, match="'p' parameter"):
            kq.LpMKLClassifier(p=p).fit(X, y)
    with pytest.raises(ValueError, match="p must be at least 1"):
        kq.mkl.solve_lp_mkl(np.eye(4)[None], np.array([1.0, 1, -1, -1]), p=0.9)
