import numpy as np
import pytest

import kernelquilt as kq
from kernelquilt.core.svm import weighted_svm
from kernelquilt.core.svm.weighted_svm import WeightedSVM
from problems import random_problem


def conic_joint(factors, Y, C):
    """Return the optimum of l1-MKL with one weight vector for all rows of Y."""
    import cvxpy as cp

    L, n = Y.shape
    A = cp.Variable((L, n), nonneg=True)
    B = cp.multiply(Y, A)
    top = cp.Variable()
    constraints = [A <= C, cp.sum(B, axis=1) == 0]
    constraints += [cp.sum_squares(B @ F) <= top for F in factors]
    problem = cp.Problem(cp.Maximize(cp.sum(A) - 0.5 * top), constraints)
    return problem.solve(solver=cp.CLARABEL)


@pytest.mark.parametrize("seed", range(8))
def test_joint_problem_equals_conic_solver(seed):
    rng = np.random.default_rng(seed)
    K, factors, _, _, _, _ = random_problem(rng, n=24, m=4)
    codes = rng.integers(0, 3, 24)
    Y = np.where(codes == np.arange(3)[:, None], 1.0, -1.0)
    solution = kq.mkl.solve_simple_mkl(K, Y, C=2.0, tol=1e-7)
    assert solution.dual_coef.shape == (3, 24)
    assert solution.converged
    assert solution.objective == pytest.approx(conic_joint(factors, Y, 2.0), rel=1e-5)


def test_shared_weights_of_equal_problems_are_those_of_one():
    K, _, _, y, _, C = random_problem(np.random.default_rng(0), n=25, m=4)
    one = kq.mkl.solve_lp_mkl(K, y, p=2.0, C=C, tol=1e-9)
    three = kq.mkl.solve_lp_mkl(K, np.array([y, y, -y]), p=2.0, C=np.array([C, C, C]), tol=1e-9)
    np.testing.assert_allclose(three.weights, one.weights, atol=1e-6)
    assert three.objective == pytest.approx(3 * one.objective, rel=1e-8)


@pytest.mark.parametrize("classifier", [kq.SimpleMKLClassifier, kq.LpMKLClassifier])
@pytest.mark.parametrize("multi_class", ["ovr", "ovo"])
def test_classifier_with_shared_weights(classifier, multi_class):
    X, y = kq.datasets.make_multiview(120, 4, n_classes=4, relevance=[2, 1, 0, 0], random_state=0)
    X = kq.datasets.make_absent(X, 0.2, random_state=0)
    shared = classifier(weights="shared", multi_class=multi_class).fit(X, y)
    own = classifier(multi_class=multi_class).fit(X, y)
    assert shared.weights_.shape == own.weights_.shape
    assert (shared.weights_ == shared.weights_[0]).all()
    assert shared.weights_[0].argmax() == 0
    assert shared.score(X, y) > 0.8
    assert shared.converged_
    # one weight vector for all can only do worse than one for each
    assert shared.objective_ >= own.objective_.sum() * (1 - 2e-3)


def test_binary_problems_have_nothing_to_share():
    X, y = kq.datasets.make_multiview(60, 3, random_state=0)
    one = kq.SimpleMKLClassifier(weights="shared").fit(X, y)
    other = kq.SimpleMKLClassifier().fit(X, y)
    np.testing.assert_array_equal(one.weights_, other.weights_)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_products_by_rows_and_at_once_agree(dtype, monkeypatch):
    rng = np.random.default_rng(1)
    K, _, _, _, _, _ = random_problem(rng, n=30, m=4)
    Y = np.where(rng.integers(0, 3, 30) == np.arange(3)[:, None], 1.0, -1.0)
    points = []
    for limit in (0.0, 100.0):
        monkeypatch.setattr(weighted_svm, "BATCH_FROM", limit)
        svm = WeightedSVM(K.astype(dtype), Y, np.ones(30), np.full(Y.shape, 2.0))
        points.append(svm.solve(np.full(4, 0.25), None, 1e-6))
    np.testing.assert_allclose(points[0].products, points[1].products, atol=1e-5)
    np.testing.assert_allclose(points[0].b, points[1].b, atol=1e-12)
