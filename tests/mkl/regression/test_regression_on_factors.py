"""Regressors on factors; what they share with classifiers is in ``mkl/test_factors.py``."""

import pickle

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score

import kernelquilt as kq
from inputs import VIEWS, as_input
from kernelquilt.core.svm.factors import Factors
from kernelquilt.core.weights.sets import NormBall, Simplex
from kernelquilt.mkl import solve_mkl_regression
from kernelquilt.mkl.absent.convex import Polytope
from problems import conic_regression, regression_problem

REGRESSORS = [
    kq.SimpleMKLRegressor,
    kq.LpMKLRegressor,
    kq.mkl.UniformMKLRegressor,
    kq.mkl.ObservedFractionMKLRegressor,
    kq.mkl.ConvexAbsentMKLRegressor,
]
every_regressor = pytest.mark.parametrize("regressor", REGRESSORS)
pytestmark = pytest.mark.filterwarnings("ignore:.*no observed view:UserWarning")


@pytest.fixture(scope="module")
def samples():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((90, 8))
    y = X[:, 0] + X[:, 3] ** 2 + 0.1 * rng.standard_normal(90)
    for columns in VIEWS.values():
        X[np.ix_(rng.random(90) < 0.2, columns)] = np.nan
    return X, y


@pytest.mark.parametrize("seed", range(25))
def test_objective_is_that_of_kernels(seed):
    K, factors, observed, y, C, epsilon = regression_problem(seed)
    rng = np.random.default_rng(seed)
    if seed % 2:  # some samples more than once, in another order, and some that have nothing
        rows = rng.permutation(rng.integers(0, len(y), int(1.5 * len(y))))
        factors, observed = [F[rows] for F in factors], observed[rows].copy()
        y, C = y[rows], C[rows]
        gone = np.flatnonzero(rng.random(len(rows)) < 0.1)
        observed[gone] = False
        for F in factors:
            F[gone] = 0.0
        K = np.array([F @ F.T for F in factors])
    starts = np.cumsum([0, *(F.shape[1] for F in factors)])
    held = Factors(np.ascontiguousarray(np.hstack(factors)), starts, observed)
    everything = np.ones(len(K), dtype=bool)
    p = (1.25, 2.0, 4.0)[seed % 3]
    sets = [(Simplex(everything), {"p": 1}), (NormBall(everything, p), {"p": p})]
    patterns = observed[(C > 0) & observed.any(axis=1)].astype(float)
    if len(patterns) and patterns.any(axis=0).all():
        sets.append((Polytope(patterns), {"A": np.unique(patterns, axis=0)}))
    for weight_set, reference in sets:
        options = {"C": C, "epsilon": epsilon, "tol": 1e-5}
        one, other = (solve_mkl_regression(each, y, weight_set, **options) for each in (K, held))
        assert other.converged
        slack = 1e-9 * (C @ np.abs(y - np.median(y)))
        assert abs(other.objective - one.objective) <= one.duality_gap + other.duality_gap + slack
        if seed < 12:
            optimum = conic_regression(factors, y, C, epsilon, **reference)
            slack += 2e-6 * abs(optimum)
            assert other.dual_bound - slack <= optimum <= other.objective + slack


@every_regressor
def test_full_rank_gives_the_model_of_the_kernels(regressor, samples):
    X, y = samples
    (stack, _), (factors, _) = as_input("stack", X), as_input("factors", X)
    one = regressor(tol=1e-6).fit(stack, y)
    other = regressor(tol=1e-6).fit(factors, y)
    assert other.converged_
    assert other.n_passes_ > 0
    assert other.duality_gap_ <= 1e-6 * other.objective_
    np.testing.assert_allclose(other.objective_, one.objective_, rtol=2e-6)
    np.testing.assert_allclose(other.predict(factors), one.predict(stack), atol=2e-3)
    np.testing.assert_allclose(other.explained_trace_, 1.0)
    again = pickle.loads(pickle.dumps(other))
    np.testing.assert_array_equal(again.predict(factors), other.predict(factors))
    np.testing.assert_allclose(other.predict(factors[::2]), other.predict(factors)[::2], rtol=1e-12)


@every_regressor
def test_order_of_samples_and_columns_does_not_matter(regressor, samples):
    X, y = samples
    factors, _ = as_input("factors", X)
    rng = np.random.default_rng(1)
    order = rng.permutation(90)
    blocks = [factors.factor(m) for m in range(3)]
    turned = [block[:, rng.permutation(block.shape[1])][order] for block in blocks]
    other = kq.LowRankStack(turned, factors.observed[order], factors.names)
    one = regressor(tol=1e-6).fit(factors, y).predict(factors)[order]
    found = regressor(tol=1e-6).fit(other, y[order]).predict(other)
    np.testing.assert_allclose(found, one, atol=1e-4)


@every_regressor
def test_paths_over_both_parameters(regressor, samples):
    X, y = samples
    factors, _ = as_input("factors", X)
    Cs, epsilons = [0.1, 1.0, 10.0], [0.05, 0.3]
    for model in kq.mkl_path(regressor(tol=1e-6), factors, y, Cs=Cs, epsilons=epsilons):
        alone = regressor(model.C, epsilon=model.epsilon, tol=1e-6).fit(factors, y)
        np.testing.assert_allclose(model.objective_, alone.objective_, rtol=2e-6)
        np.testing.assert_allclose(model.predict(factors), alone.predict(factors), atol=1e-2)


def test_tools_of_scikit_learn_and_search(samples):
    X, y = samples
    factors, _ = as_input("factors", X)
    model = kq.LpMKLRegressor(10.0)
    assert cross_val_score(model, factors, y, cv=3).mean() > 0.3
    assert cross_val_predict(model, factors, y, cv=3).shape == y.shape
    grid = {"C": [0.01, 10.0], "epsilon": [0.1, 3.0]}
    best = {"C": 10.0, "epsilon": 0.1}
    assert GridSearchCV(model, grid, cv=3).fit(factors, y).best_params_ == best
    search = kq.MKLSearchCV(model, grid, cv=3).fit(factors, y)
    assert search.best_params_ == best
    assert search.score(factors, y) > 0.7
    with pytest.raises(ValueError, match="n_landmarks"):
        kq.MKLSearchCV(model, {"n_landmarks": [5, 10]}).fit(factors, y)


@every_regressor
def test_targets_within_epsilon_and_samples_without_views(regressor, samples):
    X, y = samples
    factors, _ = as_input("factors", X)
    with pytest.warns(UserWarning, match="within epsilon=50 of their middle"):
        constant = regressor(epsilon=50.0).fit(factors, y)
    assert constant.objective_ == 0.0
    np.testing.assert_allclose(constant.predict(factors), constant.intercept_[0])
    model = regressor(n_landmarks=20, views=VIEWS).fit(X, y)
    np.testing.assert_array_equal(model.predict(np.full((2, 8), np.nan)), model.intercept_[0])


def test_many_samples_go_through_all_stages():
    rng = np.random.default_rng(0)
    blocks = [rng.standard_normal((3000, 20)) / np.sqrt(20) for _ in range(3)]
    y = 3.0 * blocks[0][:, 0] + np.sin(blocks[1][:, 0]) + 0.3 * rng.standard_normal(3000)
    for dtype, tol in ((np.float32, 1e-3), (np.float64, 1e-6)):
        stack = kq.LowRankStack([block.astype(dtype) for block in blocks])
        for C, epsilon in ((0.1, 0.1), (100.0, 0.0), (100.0, 0.5)):
            model = kq.SimpleMKLRegressor(C, epsilon=epsilon, tol=tol).fit(stack, y)
            assert model.converged_
            assert model.duality_gap_ <= tol * model.objective_
            assert model.weights_.argmax() == 0
