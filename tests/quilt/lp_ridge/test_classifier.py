"""lp-MKL with squared loss against a conic solver, and the classifier made of it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

import kernelquilt as kq
from kernelquilt.data.targets import class_targets
from kernelquilt.quilt.space.ridge import fit_ridge
from kernelquilt.quilt.space.weighted_ridge import WeightedRidge
from problems import random_kernels


def problem(seed, n=18, m=4, L=2):
    rng = np.random.default_rng(seed)
    K, factors = random_kernels(rng, n, m, rank=5)
    observed = rng.random((n, m)) < 0.8
    K = K * observed.T[:, :, None] * observed.T[:, None, :]
    factors = [F * observed[:, [p]] for p, F in enumerate(factors)]
    Y = rng.standard_normal((n, L)) + 2 * factors[0][:, :1]
    weight = rng.uniform(0.3, 2.0, n)
    weight[rng.random(n) < 0.15] = 0.0
    return K, factors, Y, weight


def conic(factors, Y, weight, lam, p):
    """Return the optimum of the primal problem."""
    import cvxpy as cp

    L = Y.shape[1]
    w = [cp.Variable((F.shape[1], L)) for F in factors]
    b, d = cp.Variable(L), cp.Variable(len(factors), nonneg=True)
    scores = sum(F @ v for F, v in zip(factors, w, strict=True))
    residual = Y - scores - np.ones((len(Y), 1)) @ cp.reshape(b, (1, L), order="C")
    loss = cp.sum(cp.multiply(weight[:, None], cp.square(residual))) / (2 * lam)
    size = sum(cp.quad_over_lin(v, d[m]) for m, v in enumerate(w)) + cp.sum_squares(b)
    limit = [] if p == np.inf else [cp.pnorm(d, p) <= 1]
    limit = limit if p < np.inf else [d <= 1]
    return cp.Problem(cp.Minimize(loss + size / 2), limit).solve(solver=cp.CLARABEL)


@pytest.mark.parametrize("p", [1.0, 1.2, 4 / 3, 2.0, 4.0, np.inf])
@pytest.mark.parametrize("seed", range(3))
def test_the_optimum_and_its_certificate_against_a_conic_solver(seed, p):
    K, factors, Y, weight = problem(seed)
    lam = 10.0 ** np.random.default_rng(seed).uniform(-1, 1)
    expected = conic(factors, Y, weight, lam, p)
    methods = ["auto", "alternating"] if p < 1.5 else ["auto"]
    for method in methods:
        solution = kq.quilt.solve_lp_mkl_ridge(
            K, Y, p=p, lam=lam, sample_weight=weight, tol=1e-7, max_iter=3000, method=method
        )
        assert solution.converged
        assert solution.objective == pytest.approx(expected, rel=2e-6)
        assert solution.dual_bound <= expected * (1 + 1e-6)
        norm = solution.weights.max() if p == np.inf else np.linalg.norm(solution.weights, p)
        assert norm == pytest.approx(1.0)
    rough = kq.quilt.solve_lp_mkl_ridge(
        K, Y, p=p, lam=lam, sample_weight=weight, tol=1e-12, max_iter=2
    )
    assert rough.dual_bound <= expected * (1 + 1e-6)
    assert rough.objective >= expected * (1 - 1e-6)


@given(st.integers(0, 10**6), st.sampled_from([1.0, 1.2, 2.0, 5.0]))
@settings(max_examples=25, deadline=None)
def test_objective_falls_and_the_gap_is_never_negative(seed, p):
    K, _, Y, weight = problem(seed)
    solution = kq.quilt.solve_lp_mkl_ridge(K, Y, p=p, sample_weight=weight, tol=1e-9, max_iter=60)
    objectives = [step.objective for step in solution.history]
    assert (np.diff(objectives) <= 1e-9 * objectives[0]).all()
    assert all(step.gap >= -1e-12 * step.objective for step in solution.history)


def test_derivatives_by_finite_differences():
    K, _, Y, _ = problem(0)
    ridge = WeightedRidge(K, Y.T.copy(), 0.7, np.ones(len(Y)))
    d = np.array([0.3, 0.2, 0.4, 0.1])
    point = ridge.solve(d)
    hessian = ridge.hessian(point)
    step = 1e-5
    for m in range(4):
        ahead, behind = (ridge.solve(d + sign * step * np.eye(4)[m]) for sign in (1, -1))
        assert (ahead.dual - behind.dual) / (2 * step) == pytest.approx(-point.q[m] / 2, rel=1e-6)
        np.testing.assert_allclose((behind.q - ahead.q) / (4 * step), hessian[m], rtol=1e-5)


def test_a_kernel_that_is_not_allowed_gets_no_weight():
    K, _, Y, _ = problem(1)
    allowed = np.array([True, False, True, True])
    for p in (1.0, 2.0, np.inf):
        solution = kq.quilt.solve_lp_mkl_ridge(K, Y, p=p, allowed=allowed)
        assert solution.weights[1] == 0
        without = kq.quilt.solve_lp_mkl_ridge(K[allowed], Y, p=p)
        assert solution.objective == pytest.approx(without.objective)


@pytest.mark.parametrize("wrong", [{"p": 0.5}, {"p": np.nan}, {"method": "best"}])
def test_bad_arguments(wrong):
    K, _, Y, _ = problem(1)
    with pytest.raises(ValueError, match=next(iter(wrong))):
        kq.quilt.solve_lp_mkl_ridge(K, Y, **wrong)


def test_one_kernel_is_kernel_ridge_with_leave_one_out():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 3))
    y = rng.integers(0, 3, 40)
    K = X @ X.T
    model = kq.quilt.LpMKLRidgeClassifier().fit(kq.KernelStack(K[None]), y)
    ridge = fit_ridge(K, class_targets(y, 3))
    assert model.weights_.tolist() == [1.0]
    assert model.penalty_ == ridge.fit.lam
    np.testing.assert_allclose(K @ model.dual_coef_.T + model.intercept_, ridge.scores(K))


def test_the_exponent_with_the_least_error_is_chosen():
    X, y = kq.datasets.make_multiview(120, 4, relevance=[2.0, 0.0, 0.0, 0.0], random_state=0)
    model = kq.quilt.LpMKLRidgeClassifier([np.inf, 1.0]).fit(X, y)
    assert model.p_ == 1.0
    assert model.weights_.argmax() == 0
    again = kq.quilt.LpMKLRidgeClassifier(1.0).fit(X, y)
    np.testing.assert_array_equal(model.predict_proba(X), again.predict_proba(X))
    assert model.duality_gap_ <= 1e-3 * model.objective_


def test_an_infinite_exponent_is_equal_weights():
    X, y = kq.datasets.make_multiview(40, 3, random_state=0)
    model = kq.quilt.LpMKLRidgeClassifier(np.inf).fit(X, y)
    np.testing.assert_array_equal(model.weights_, 1.0)
    assert model.duality_gap_ <= 1e-12 * model.objective_


@pytest.mark.parametrize("p", [[], [0.5, 2.0], [np.nan], [[1.0, 2.0]]])
def test_bad_lists_of_exponents(p):
    X, y = kq.datasets.make_multiview(40, 3, random_state=0)
    with pytest.raises(ValueError, match="p must be a number, or a list"):
        kq.quilt.LpMKLRidgeClassifier(p).fit(X, y)


def test_early_stop_warns_and_verbose_reports(capsys):
    X, y = kq.datasets.make_multiview(60, 4, relevance=[2.0, 1.0, 0.5, 0.0], random_state=0)
    with pytest.warns(ConvergenceWarning, match="relative duality gap"):
        model = kq.quilt.LpMKLRidgeClassifier(1.0, tol=1e-10, max_iter=2, verbose=1).fit(X, y)
    assert not model.converged_
    assert len(capsys.readouterr().out.splitlines()) == len(model.history_)
