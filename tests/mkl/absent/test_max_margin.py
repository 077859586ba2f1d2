"""MMAF: the alternation against explicit features, for views and for single features."""

import numpy as np
import pytest
from sklearn.svm import SVC

import kernelquilt as kq
from problems import absent_problem


def primal_svm(X, y, C, tau):
    """Return optimum, weight vector and bias of ``|w|^2 / 2 + C sum max(0, 1 - y f / tau)``."""
    import cvxpy as cp

    w, b, xi = cp.Variable(X.shape[1]), cp.Variable(), cp.Variable(len(y), nonneg=True)
    value = cp.Problem(
        cp.Minimize(0.5 * cp.sum_squares(w) + C * cp.sum(xi)),
        [cp.multiply(y, X @ w + b) >= cp.multiply(tau, 1 - xi)],
    ).solve(solver=cp.CLARABEL, tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
    return value, w.value, b.value


@pytest.mark.parametrize("ratio", [0.25, 0.5, 0.75])
@pytest.mark.parametrize(("seed", "C"), [(0, 0.3), (1, 10.0)])
def test_iterations_equal_conic_solver(seed, ratio, C):
    K, factors, observed, y = absent_problem(seed, ratio)
    joint = np.hstack(factors)
    ends = np.cumsum([F.shape[1] for F in factors])[:-1]
    found = kq.mkl.solve_max_margin_absent(K, y, observed, C=C, tol=1e-9, outer_tol=0.0, max_iter=5)
    tau = np.ones(len(y))
    for step in found.history:
        last = tau
        expected, w, _ = primal_svm(joint, y, C, tau)
        assert step.objective == pytest.approx(expected, rel=1e-5)
        squares = np.array([part @ part for part in np.split(w, ends)])
        tau = np.maximum(np.sqrt(observed @ squares / squares.sum()), 1e-3)
    np.testing.assert_allclose(found.margins, last, atol=1e-4)
    np.testing.assert_array_equal(found.weights, 1.0)
    assert len(found.history) == found.n_iter == found.n_solves == 5
    assert found.objective == pytest.approx(expected, rel=1e-5)


def test_complete_data_is_the_svm_on_the_sum_kernel():
    K, _, observed, y = absent_problem(4, 0.0, n=60)
    stack = kq.KernelStack(K, observed)
    ours = kq.mkl.MaxMarginAbsentClassifier(2.0).fit(stack, y)
    theirs = SVC(C=2.0, kernel="precomputed", tol=1e-8).fit(K.sum(axis=0), y)
    assert ours.n_iter_ == ours.n_solves_ == 1
    np.testing.assert_allclose(
        ours.decision_function(stack), theirs.decision_function(K.sum(axis=0)), atol=1e-6
    )


def test_columns_as_views_are_the_method_for_features():
    rng = np.random.default_rng(0)
    y = np.tile([1.0, -1.0], 30)
    X = rng.standard_normal((60, 6)) + np.outer(y, [1.0, 0.5, 0.5, 0.0, 0.0, 0.3])
    X[rng.random(X.shape) < 0.3] = np.nan
    X[np.isnan(X).all(axis=1), 0] = 1.0
    model = kq.mkl.MaxMarginAbsentClassifier(
        views="columns", kernels="linear", tol=1e-9, outer_tol=1e-7, max_iter=200
    ).fit(X, y)
    filled, tau = np.nan_to_num(X), np.ones(60)
    for _ in range(model.n_iter_):
        last = tau
        value, w, b = primal_svm(filled, y, 1.0, tau)
        tau = np.sqrt(~np.isnan(X) @ w**2 / (w @ w))
    assert model.converged_
    assert model.n_iter_ > 2
    assert model.objective_ == pytest.approx(value, rel=1e-6)
    np.testing.assert_allclose(model.margins_, last, atol=1e-5)
    new = rng.standard_normal((20, 6))
    new[rng.random(new.shape) < 0.3] = np.nan
    np.testing.assert_allclose(model.decision_function(new), np.nan_to_num(new) @ w + b, atol=1e-4)


@pytest.mark.filterwarnings("ignore:.*need not converge:sklearn.exceptions.ConvergenceWarning")
def test_margins_near_zero_are_raised_and_counted():
    rng = np.random.default_rng(0)
    y = np.tile([1.0, -1.0], 20)
    good, tiny = np.c_[y, 0.3 * rng.standard_normal((40, 3))], 1e-5 * rng.standard_normal((40, 3))
    observed = np.ones((40, 2), dtype=bool)
    observed[:5, 0] = False
    stack = kq.KernelStack(np.array([good @ good.T, tiny @ tiny.T]), observed)
    with pytest.warns(UserWarning, match="^5 of 40 training samples have next to none"):
        model = kq.mkl.MaxMarginAbsentClassifier(max_iter=2).fit(stack, y)
    np.testing.assert_array_equal(model.margins_[:5], 1e-3)
    assert np.isfinite(model.decision_function(stack)).all()
    assert 0 <= model.duality_gap_ <= 1e-3 * model.objective_


def test_one_vs_rest_is_made_of_binary_fits():
    X, y = kq.datasets.make_multiview(90, 3, n_classes=3, random_state=0)
    X = kq.datasets.make_absent(X, 0.4, random_state=0)
    model = kq.mkl.MaxMarginAbsentClassifier(max_iter=50).fit(X, y)
    assert model.margins_.shape == (3, 90)
    for k, label in enumerate(model.classes_):
        binary = kq.mkl.MaxMarginAbsentClassifier(max_iter=50).fit(X, y == label)
        np.testing.assert_allclose(
            model.decision_function(X)[:, k], binary.decision_function(X), atol=1e-10
        )
    assert model.score(X, y) > 0.8


@pytest.mark.parametrize(
    "solve",
    [
        kq.mkl.solve_iterative_absent_mkl,
        kq.mkl.solve_penalized_absent_mkl,
        kq.mkl.solve_max_margin_absent,
    ],
)
def test_single_precision_and_samples_without_kernels(solve):
    K, _, observed, y = absent_problem(9, 0.4, n=40)
    full = solve(K, y, observed, C=2.0)
    single = solve(K.astype(np.float32), y, observed, C=2.0)
    assert single.objective == pytest.approx(full.objective, rel=1e-4)
    wider = np.zeros((4, 42, 42))
    wider[:, :40, :40] = K
    seen = np.vstack([observed, np.zeros((2, 4), dtype=bool)])
    more = solve(wider, np.r_[y, 1.0, -1.0], seen, C=2.0)
    assert more.objective == pytest.approx(full.objective, rel=1e-9)
    np.testing.assert_array_equal(more.dual_coef[40:], 0.0)
    np.testing.assert_array_equal(more.margins[40:], 1.0)
