"""I-AMKL-lambda: both steps against generic solvers, the descent, and what counts in kappa."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

import kernelquilt as kq
from kernelquilt.mkl.absent.penalized import penalty_factor, tau_step
from problems import absent_problem, primal_mkl

RATIOS = [0.25, 0.5, 0.75]


def explicit_kappa(tau, observed, lam):
    return 1 + lam / len(tau) * np.sum((tau[:, None] - observed) ** 2)


@pytest.mark.parametrize("ratio", RATIOS)
@pytest.mark.parametrize("tau0", ["observed", "ones"])
@pytest.mark.parametrize(("seed", "C", "lam"), [(0, 1.0, 1.0), (1, 10.0, 0.1), (2, 30.0, 8.0)])
def test_certified_optimum_equals_conic_solver(seed, ratio, tau0, C, lam):
    K, factors, observed, y = absent_problem(seed, ratio)
    found = kq.mkl.solve_penalized_absent_mkl(K, y, observed, C=C, lam=lam, tau0=tau0, tol=1e-8)
    kappa = explicit_kappa(found.margins, observed, lam)
    expected, _ = primal_mkl(factors, y, C, found.margins, kappa)
    assert found.converged
    assert found.objective == pytest.approx(expected, rel=1e-6)
    assert 0 <= found.duality_gap <= 1e-8 * found.objective
    scores = np.tensordot(found.weights, K @ found.dual_coef, 1) + found.intercept
    size = found.dual_coef @ (scores - found.intercept)
    loss = np.maximum(0.0, 1.0 - y * scores / found.margins).sum()
    assert 0.5 * kappa * size + C * loss == pytest.approx(found.objective, rel=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_tau_step_equals_a_quadratic_programme(seed):
    import cvxpy as cp

    rng = np.random.default_rng(seed)
    n = 60
    v = rng.choice([-1.0, 0.0, 1.0], n) * rng.uniform(0.1, 2.0, n)
    u = np.where(v == 0.0, rng.uniform(0.0, 1.0, n), rng.standard_normal(n))
    fraction = rng.uniform(0.1, 1.0, n)
    tau = cp.Variable(n)
    cp.Problem(cp.Minimize(cp.sum_squares(tau - fraction)), [cp.multiply(v, tau) <= u]).solve(
        solver=cp.CLARABEL, tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11
    )
    found = tau_step(u, v, fraction)
    np.testing.assert_allclose(found, tau.value, atol=1e-6)
    assert (v * found <= u + 1e-12).all()
    for sign in (-1, 0, 1):
        assert (np.sign(v) == sign).sum() > 5


def test_tau_step_by_hand():
    u, v = np.array([0.2, 2.0, -0.9, -0.1, 0.0, 0.3]), np.array([1.0, 1.0, -1.0, -1.0, 0.0, 0.0])
    found = tau_step(u, v, np.full(6, 0.5))
    np.testing.assert_array_equal(found, [0.2, 0.5, 0.9, 0.5, 0.5, 0.5])


@given(seed=st.integers(0, 10_000), tol=st.sampled_from([1e-2, 1e-3, 1e-6]))
@settings(max_examples=30, deadline=None)
def test_objective_never_rises(seed, tol):
    rng = np.random.default_rng(seed)
    K, _, observed, y = absent_problem(seed, rng.uniform(0.1, 0.8), n=30, m=5)
    C, lam = 10.0 ** rng.uniform(-2, 2), 10.0 ** rng.uniform(-2, 1)
    found = kq.mkl.solve_penalized_absent_mkl(
        K, y, observed, C=C, lam=lam, tau0="ones", tol=tol, outer_tol=1e-8, max_iter=50
    )
    objectives = [step.objective for step in found.history]
    assert (np.diff(objectives) <= 0).all()
    assert found.objective == objectives[-1]
    assert found.n_iter == len(objectives)
    assert (found.margins > 0).all()
    assert found.duality_gap >= -1e-12 * found.objective


def test_only_samples_on_the_wrong_side_keep_their_margin():
    K, _, observed, y = absent_problem(1, 0.5, n=40)
    first = kq.mkl.solve_penalized_absent_mkl(K, y, observed, C=0.5, tau0="ones", max_iter=1)
    second = kq.mkl.solve_penalized_absent_mkl(K, y, observed, C=0.5, tau0="ones", max_iter=2)
    scores = np.tensordot(first.weights, K @ first.dual_coef, 1) + first.intercept
    wrong = y * scores < 0
    assert 0 < wrong.sum() < 40
    np.testing.assert_allclose(second.margins, np.where(wrong, 1.0, observed.mean(axis=1)))


@pytest.mark.parametrize("ratio", RATIOS)
def test_observed_fractions_are_a_fixed_point(ratio):
    K, _, observed, y = absent_problem(5, ratio)
    found = kq.mkl.solve_penalized_absent_mkl(K, y, observed, C=2.0, tol=1e-6)
    np.testing.assert_array_equal(found.margins, observed.mean(axis=1))
    assert found.n_iter == 1
    assert found.converged


@pytest.mark.parametrize("tau0", ["observed", "ones"])
def test_lambda_only_divides_the_penalty(tau0):
    K, _, observed, y = absent_problem(6, 0.5)
    one = kq.mkl.solve_penalized_absent_mkl(
        K, y, observed, C=2.0, lam=3.0, tau0=tau0, tol=1e-9, max_iter=1
    )
    kappa = explicit_kappa(one.margins, observed, 3.0)
    other = kq.mkl.solve_penalized_absent_mkl(
        K, y, observed, C=2.0 / kappa, lam=0.0, tau0=tau0, tol=1e-9, max_iter=1
    )
    np.testing.assert_allclose(one.dual_coef, other.dual_coef, atol=1e-7)
    assert one.objective == pytest.approx(kappa * other.objective, rel=1e-9)


@pytest.mark.parametrize("tau0", ["observed", "ones"])
def test_complete_data_is_one_fit_of_simple_mkl(tau0):
    K, _, observed, y = absent_problem(4, 0.0)
    found = kq.mkl.solve_penalized_absent_mkl(K, y, observed, C=3.0, lam=5.0, tau0=tau0)
    simple = kq.mkl.solve_simple_mkl(K, y, C=3.0)
    assert found.n_iter == 1
    np.testing.assert_array_equal(found.dual_coef, simple.dual_coef)
    assert found.objective == simple.objective


def test_kappa_counts_samples_by_their_weight_and_not_by_their_class():
    rng = np.random.default_rng(0)
    observed = rng.random((12, 3)) < 0.6
    observed[:, 0] = True
    tau, fraction = rng.uniform(0.2, 1.0, 12), observed.mean(axis=1)
    counts = rng.integers(0, 4, 12)
    assert penalty_factor(tau, fraction, 3, 2.0, counts.astype(float)) == pytest.approx(
        explicit_kappa(np.repeat(tau, counts), np.repeat(observed, counts, axis=0), 2.0)
    )
    K, _, observed, y = absent_problem(7, 0.5)
    stack = kq.KernelStack(K, observed)
    factors = {-1.0: 2.0, 1.0: 2.0}
    one = kq.mkl.PenalizedAbsentMKLClassifier(1.0, lam=4.0, class_weight=factors).fit(stack, y)
    other = kq.mkl.PenalizedAbsentMKLClassifier(2.0, lam=4.0).fit(stack, y)
    assert one.objective_ == other.objective_


@pytest.mark.parametrize("tau0", ["observed", "ones"])
def test_weights_equal_repetition(tau0):
    K, _, observed, y = absent_problem(8, 0.5, n=30)
    counts = np.random.default_rng(0).integers(0, 4, 30)
    index = np.repeat(np.arange(30), counts)
    stack = kq.KernelStack(K, observed)
    classifier = kq.mkl.PenalizedAbsentMKLClassifier(0.5, lam=3.0, tau0=tau0, tol=1e-8)
    one = classifier.fit(stack, y, sample_weight=counts)
    scores, objective = one.decision_function(stack), one.objective_
    other = classifier.fit(stack[index], y[index])
    assert objective == pytest.approx(other.objective_, rel=1e-7)
    np.testing.assert_allclose(other.decision_function(stack), scores, atol=1e-4)


def test_one_vs_one_counts_only_the_samples_of_the_pair():
    X, y = kq.datasets.make_multiview(90, 3, n_classes=3, random_state=0)
    X = kq.datasets.make_absent(X, 0.4, random_state=0)
    X = kq.ViewKernels().fit_transform(X)
    model = kq.mkl.PenalizedAbsentMKLClassifier(multi_class="ovo", lam=5.0).fit(X, y)
    pair = np.isin(y, model.classes_[:2])
    binary = kq.mkl.PenalizedAbsentMKLClassifier(lam=5.0).fit(X[pair], y[pair])
    assert model.objective_[0] == pytest.approx(binary.objective_, rel=1e-9)
    np.testing.assert_array_equal(model.margins_[0, ~pair], 1.0)
    np.testing.assert_allclose(model.margins_[0, pair], binary.margins_)


def test_a_cut_off_loop_says_so():
    K, _, observed, y = absent_problem(1, 0.5, n=40)
    with pytest.warns(
        ConvergenceWarning, match=r"relative decrease of the objective .*; raise max_iter"
    ):
        kq.mkl.PenalizedAbsentMKLClassifier(0.5, tau0="ones", max_iter=2, outer_tol=1e-9).fit(
            kq.KernelStack(K, observed), y
        )
    for bad in ({"lam": -1.0}, {"tau0": "zeros"}, {"outer_tol": -1.0}, {"max_iter": 0}):
        with pytest.raises(ValueError, match=next(iter(bad))):
            kq.mkl.PenalizedAbsentMKLClassifier(**bad).fit(kq.KernelStack(K, observed), y)


def test_a_small_observed_fraction_is_no_reason_to_warn(monkeypatch):
    K, _, observed, y = absent_problem(2, 0.75)
    monkeypatch.setattr("kernelquilt.mkl.absent.margin_loop.MARGIN_FLOOR", 0.3)
    with warnings.catch_warnings(action="error"):
        model = kq.mkl.PenalizedAbsentMKLClassifier().fit(kq.KernelStack(K, observed), y)
    assert (model.margins_ <= 0.3).any()
