"""Support vector regression on learned kernel weights: optima, certificates, limits, paths."""

import warnings

import numpy as np
import pytest
from sklearn.multioutput import MultiOutputRegressor, RegressorChain
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVR

import kernelquilt as kq
from inputs import VIEWS
from kernelquilt.core.svm.dual import kkt_interval
from kernelquilt.core.svm.weighted_svr import WeightedSVR
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


@pytest.mark.parametrize("seed", range(25))
def test_optima_are_those_of_a_conic_solver(seed):
    K, factors, observed, y, C, epsilon = regression_problem(seed)
    M = len(K)
    p = (1.25, 2.0, 4.0)[seed % 3]
    everything = np.ones(M, dtype=bool)
    patterns = observed[C > 0].astype(float)
    cases = {
        "simple": (Simplex(everything), {"p": 1}),
        "lp": (NormBall(everything, p), {"p": p}),
        "uniform": (np.full(M, 1.0 / M), {"weights": np.full(M, 1.0 / M)}),
    }
    if patterns.any(axis=0).all():
        cases["convex absent"] = (Polytope(patterns), {"A": np.unique(patterns, axis=0)})
    for name, (weight_set, reference) in cases.items():
        found = solve_mkl_regression(K, y, weight_set, C=C, epsilon=epsilon, tol=1e-5)
        optimum = conic_regression(factors, y, C, epsilon, **reference)
        slack = 2e-6 * abs(optimum) + 1e-9
        assert found.converged, name
        assert found.dual_bound - slack <= optimum <= found.objective + slack, name
        assert found.objective - optimum <= found.duality_gap + slack, name


def test_primal_value_is_that_of_the_function():
    K, _, _, y, C, epsilon = regression_problem(3)
    found = solve_mkl_regression(K, y, C=C, epsilon=epsilon)
    b, d = found.dual_coef, found.weights
    prediction = np.tensordot(d, K, 1) @ b + found.intercept
    loss = C @ np.maximum(np.abs(y - prediction) - epsilon, 0.0)
    np.testing.assert_allclose(0.5 * d @ (K @ b @ b) + loss, found.objective, rtol=1e-9)
    assert abs(b.sum()) <= 1e-9 * np.abs(b).sum()
    assert (np.abs(b) <= C).all()


@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.1, 1.0])
def test_one_kernel_is_the_svr_of_scikit_learn(C, epsilon):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 3))
    y = X[:, 0] + np.sin(3 * X[:, 1]) + 0.2 * rng.standard_normal(80)
    ours = kq.mkl.UniformMKLRegressor(C, epsilon=epsilon, kernels="rbf").fit(X, y)
    theirs = SVR(C=C, epsilon=epsilon, gamma=1 / 3, tol=1e-9).fit(X, y)
    # which keeps its kernel in single precision
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), atol=1e-5 + 1e-6 * C)


def test_duals_meet_their_conditions_exactly():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((150, 4))
    K = np.exp(-0.2 * np.square(X[:, None] - X).sum(axis=2))[None]
    y = X[:, 0] * X[:, 1] + 0.1 * rng.standard_normal(150)
    svr = WeightedSVR(K, y, 5.0, 0.05)
    point = svr.solve(np.ones(1), None, 1e-3)
    b = point.b[0]
    f_up, f_down = kkt_interval(b, y - K[0] @ b, svr.lower[0], svr.upper[0], svr.tube)
    assert f_up - f_down <= 1e-9
    residual = y - K[0] @ b - point.intercept[0]
    within = np.abs(residual) < 0.05 - 1e-8
    assert within.any()
    assert not b[within].any()
    beyond = np.abs(residual) > 0.05 + 1e-8
    np.testing.assert_array_equal(b[beyond], 5.0 * np.sign(residual[beyond]))


@pytest.fixture(scope="module")
def samples():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((90, 8))
    y = X[:, 0] + X[:, 3] ** 2 + 0.1 * rng.standard_normal(90)
    for columns in VIEWS.values():
        X[np.ix_(rng.random(90) < 0.2, columns)] = np.nan
    return X, y


@every_regressor
def test_weights_equal_repetition_with_several_views(regressor, samples):
    X, y = samples
    keep = kq.as_views(X, VIEWS).observed.any(axis=1)
    X, y = X[keep], y[keep]
    counts = np.random.default_rng(3).integers(0, 4, len(y))
    weighted = regressor(views=VIEWS).fit(X, y, sample_weight=counts)
    repeated = regressor(views=VIEWS).fit(np.repeat(X, counts, axis=0), np.repeat(y, counts))
    np.testing.assert_allclose(weighted.predict(X), repeated.predict(X), atol=1e-6)


@every_regressor
def test_shifted_and_scaled_targets(regressor):
    X, y = kq.datasets.make_multiview(60, 3, random_state=0)
    y = np.random.default_rng(0).standard_normal(60) + y
    X = kq.datasets.make_absent(X, 0.3, random_state=0)
    one = regressor(C=2.0, epsilon=0.1, tol=1e-6).fit(X, y)
    shifted = regressor(C=2.0, epsilon=0.1, tol=1e-6).fit(X, y + 1e6)
    np.testing.assert_allclose(shifted.predict(X) - 1e6, one.predict(X), atol=1e-5)
    scaled = regressor(C=200.0, epsilon=10.0, tol=1e-6).fit(X, 100.0 * y)
    np.testing.assert_allclose(scaled.predict(X) / 100.0, one.predict(X), atol=1e-5)
    mirrored = regressor(C=2.0, epsilon=0.1, tol=1e-6).fit(X, -y)
    np.testing.assert_allclose(-mirrored.predict(X), one.predict(X), atol=1e-5)


@pytest.mark.parametrize(
    ("absent", "complete"),
    [
        (kq.mkl.ObservedFractionMKLRegressor, kq.mkl.UniformMKLRegressor),
        (kq.mkl.ConvexAbsentMKLRegressor, kq.SimpleMKLRegressor),
    ],
)
def test_nothing_absent_equals_the_complete_method(absent, complete):
    X, _ = kq.datasets.make_multiview(50, 3, random_state=1)
    y = X["view0"][:, 0] if "view0" in X.names else X[X.names[0]][:, 0]
    one, other = (each(tol=1e-6).fit(X, y).predict(X) for each in (absent, complete))
    np.testing.assert_allclose(one, other, atol=1e-6)


def test_observed_fraction_averages_over_the_kernels_that_a_sample_has():
    X, _ = kq.datasets.make_multiview(60, 4, random_state=0)
    y = sum(X[name][:, 0] for name in X.names)
    X = kq.datasets.make_absent(X, 0.4, random_state=0)
    stack = kq.ViewKernels().fit_transform(X)
    tau = stack.observed.mean(axis=1)
    K = np.where(stack.observed.T[:, :, None] & stack.observed.T[:, None, :], stack.gram(), 0.0)
    kernel = K.mean(axis=0) / np.outer(tau, tau)
    model = kq.mkl.ObservedFractionMKLRegressor(C=3.0).fit(X, y)
    reference = SVR(kernel="precomputed", C=3.0, tol=1e-9).fit(kernel, y)
    np.testing.assert_allclose(model.predict(X), reference.predict(kernel), atol=1e-5)
    assert model.duality_gap_ <= 1e-3 * model.objective_


def test_convex_absent_weights_sum_to_one_where_seen():
    X, _ = kq.datasets.make_multiview(80, 4, random_state=0)
    y = X[X.names[0]][:, 0]
    observed = np.zeros((80, 4), dtype=bool)
    observed[:40, :2] = observed[40:, 2:] = True
    X = kq.MultiView({name: X[name] for name in X.names}, observed)
    model = kq.mkl.ConvexAbsentMKLRegressor().fit(X, y)
    sums = [model.weights_[:2].sum(), model.weights_[2:].sum()]
    np.testing.assert_allclose(sums, 1.0, atol=model.tol)
    np.testing.assert_allclose(model.simplex_weights_.sum(), 1.0)


@every_regressor
def test_kernels_in_single_precision(regressor):
    X, _ = kq.datasets.make_multiview(60, 3, random_state=0)
    y = X[X.names[0]][:, 0]
    stack = kq.ViewKernels().fit_transform(kq.datasets.make_absent(X, 0.3, random_state=0))
    single = kq.KernelStack(stack.gram().astype(np.float32), stack.observed)
    one, other = (regressor(tol=1e-5).fit(each, y).predict(each) for each in (stack, single))
    np.testing.assert_allclose(other, one, atol=1e-3)


@every_regressor
def test_a_sample_without_views_gets_the_intercept(regressor, samples):
    X, y = samples
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = regressor(views=VIEWS).fit(X, y)
    np.testing.assert_array_equal(model.predict(np.full((2, 8), np.nan)), model.intercept_[0])


@every_regressor
@pytest.mark.parametrize("y", [np.full(20, 3.0), np.linspace(2.9, 3.1, 20)])
def test_targets_within_epsilon_give_a_constant_and_a_warning(regressor, y):
    X = np.random.default_rng(0).standard_normal((20, 8))
    with pytest.warns(UserWarning, match="within epsilon=0.5 of their middle"):
        model = regressor(epsilon=0.5, views=VIEWS).fit(X, y)
    np.testing.assert_allclose(model.predict(X), 3.0)
    assert model.converged_
    assert model.objective_ == 0.0


@every_regressor
def test_bad_input(regressor, samples):
    X, y = samples
    model = regressor(views=VIEWS)
    with pytest.raises(ValueError, match="Input y contains NaN: 1 of 90 samples"):
        model.fit(X, np.where(np.arange(90) == 4, np.nan, y))
    with pytest.raises(ValueError, match="contains infinity"):
        model.fit(X, np.where(np.arange(90) == 4, np.inf, y))
    with pytest.raises(ValueError, match="X has 90 samples, but y has 89"):
        model.fit(X, y[:-1])
    with pytest.raises(ValueError, match="'epsilon' parameter"):
        regressor(epsilon=-0.1, views=VIEWS).fit(X, y)
    nothing = kq.MultiView({"a": np.ones((2, 1)), "b": np.ones((2, 1))}, np.zeros((2, 2), bool))
    with (
        pytest.warns(UserWarning, match="have no observed view"),
        pytest.raises(ValueError, match="none of 2 samples is one"),
    ):
        regressor().fit(nothing, [1.0, 2.0])
    assert not hasattr(model, "dual_coef_")


def test_a_kernel_that_is_not_positive_semi_definite_is_named():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((30, 30))
    stack = kq.KernelStack(np.array([np.eye(30), A + A.T]), names=["good", "bad"])
    with (
        pytest.warns(UserWarning, match="not positive semi-definite.*'bad'"),
        warnings.catch_warnings(),
    ):
        kq.mkl.UniformMKLRegressor(10.0).fit(stack, rng.standard_normal(30))


@every_regressor
def test_paths_are_independent_fits(regressor, samples):
    X, y = samples[0][1:], samples[1][1:]
    X = kq.as_views(X, VIEWS)
    keep = X.observed.any(axis=1)
    X, y = X[keep], y[keep]
    Cs, epsilons = [0.1, 1.0, 10.0], [0.05, 0.3]
    models = kq.mkl_path(regressor(tol=1e-6), X, y, Cs=Cs, epsilons=epsilons)
    assert [(m.epsilon, m.C) for m in models] == [(e, C) for e in epsilons for C in Cs]
    for model in models:
        alone = regressor(model.C, epsilon=model.epsilon, tol=1e-6).fit(X, y)
        np.testing.assert_allclose(model.objective_, alone.objective_, rtol=2e-6)
        np.testing.assert_allclose(model.predict(X), alone.predict(X), atol=1e-2)


def test_warm_starts_save_solves(samples):
    X = kq.as_views(samples[0], VIEWS)
    keep = X.observed.any(axis=1)
    X, y = X[keep], samples[1][keep]
    Cs = np.logspace(-1, 2, 7)
    path = kq.mkl_path(kq.SimpleMKLRegressor(), X, y, Cs=Cs)
    alone = [kq.SimpleMKLRegressor(C).fit(X, y) for C in Cs]
    assert sum(m.n_smo_iter_ for m in path) < sum(m.n_smo_iter_ for m in alone)


def test_search_tunes_both_parameters_and_pipelines(samples):
    X = kq.as_views(samples[0], VIEWS)
    keep = X.observed.any(axis=1)
    X, y = X[keep], samples[1][keep]
    grid = {"C": [0.01, 10.0], "epsilon": [0.1, 3.0]}
    search = kq.MKLSearchCV(kq.LpMKLRegressor(), grid, cv=3).fit(X, y)
    assert search.best_params_ == {"C": 10.0, "epsilon": 0.1}
    assert search.score(X, y) == search.best_estimator_.score(X, y)
    assert not hasattr(search, "decision_function")
    steps = make_pipeline(kq.ViewKernels(), kq.CentreKernels(), kq.SimpleMKLRegressor())
    found = kq.MKLSearchCV(steps, {"simplemklregressor__C": [0.01, 10.0]}, cv=3).fit(X, y)
    assert found.best_params_ == {"simplemklregressor__C": 10.0}
    with pytest.raises(ValueError, match="parameters of the solver of LpMKLRegressor"):
        kq.MKLSearchCV(kq.LpMKLRegressor(), {"kernels": ["linear"]}, cv=3).fit(X, y)


@every_regressor
@pytest.mark.filterwarnings("ignore:.*no observed view:UserWarning")
def test_several_targets_by_the_wrappers_of_scikit_learn(regressor, samples):
    X, y = samples
    Y = np.column_stack([y, -2.0 * y])
    model = regressor(views=VIEWS)
    found = MultiOutputRegressor(model).fit(X, Y).predict(X)
    np.testing.assert_array_equal(found[:, 0], regressor(views=VIEWS).fit(X, y).predict(X))
    assert found.shape == (90, 2)
    complete = np.nan_to_num(X)
    chain = RegressorChain(regressor()).fit(complete, Y)
    assert chain.score(complete, Y) > 0.3


def test_the_gap_of_real_sets_closes_within_few_solves():
    for name, column in [("wdbc", 0), ("wdbc", 3)]:
        X, _ = kq.datasets.load_example(name)
        y = X["mean"][:, column]
        X = kq.datasets.make_absent(X, 0.3, random_state=0)
        for C in (1.0, 100.0):
            model = kq.SimpleMKLRegressor(C * y.std(), epsilon=0.1 * y.std()).fit(X, y)
            assert model.converged_
            assert model.n_solves_ <= 15
