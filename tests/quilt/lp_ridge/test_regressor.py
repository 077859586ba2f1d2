"""`LpMKLRidgeRegressor`: what it adds to the solver, which is tested in test_lp_ridge.py."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import kernelquilt as kq
from kernelquilt.quilt import LpMKLRidgeRegressor, solve_lp_mkl_ridge


@pytest.fixture(scope="module")
def data():
    X, _ = kq.datasets.load_example("wdbc")
    y = 1e3 + 20.0 * X["mean"][:, 0]
    return kq.datasets.make_absent(X, 0.3, random_state=0)[:150], y[:150]


def test_weights_are_those_of_the_solver_on_scaled_targets(data):
    X, y = data
    model = LpMKLRidgeRegressor(p=1.3, lam=0.2).fit(X, y)
    K, _ = kq.ViewKernels().fit_transform(X).training_gram()
    target = ((y - y.mean()) / y.std())[:, None]
    expected = solve_lp_mkl_ridge(K, target, p=1.3, lam=0.2)
    np.testing.assert_allclose(model.weights_, expected.weights, atol=1e-8)
    np.testing.assert_allclose(model.objective_, expected.objective)
    assert model.converged_
    assert model.duality_gap_ <= 1e-3 * model.objective_


def test_leave_one_out_is_what_refits_say(data):
    X, y = data[0][:40], data[1][:40]
    X = kq.MultiView({name: X[name] for name in X.names}, X.observed)
    stack = kq.ViewKernels().fit_transform(X)
    model = LpMKLRidgeRegressor(p=float("inf")).fit(stack, y)
    others = np.arange(40) != 7
    # the weights are one and the penalty is held, so that a refit can be done by hand
    K = np.tensordot(model.weights_, stack.training_gram()[0], axes=1)
    scale = np.trace(K) / 40
    G = K[np.ix_(others, others)] / scale + 1.0 + model.penalty_ * np.eye(39)
    target = (y - model.mean_) / model.scale_
    left_out = (K[7, others] / scale + 1.0) @ np.linalg.solve(G, target[others])
    H = K / scale + 1.0
    fit = H @ np.linalg.solve(H + model.penalty_ * np.eye(40), np.eye(40))
    residual = (target - fit @ target) / (1.0 - np.diag(fit))
    np.testing.assert_allclose(target[7] - residual[7], left_out, atol=1e-8)
    score = 1.0 - np.square(residual).mean() / target.var()
    np.testing.assert_allclose(model.loo_score_, score, atol=1e-6)


def test_several_targets_share_the_weights(data):
    X, y = data
    one = LpMKLRidgeRegressor().fit(X, y)
    two = LpMKLRidgeRegressor().fit(X, np.column_stack([y, -3.0 * y]))
    np.testing.assert_allclose(two.weights_, one.weights_, atol=1e-8)
    np.testing.assert_allclose(two.predict(X)[:, 1], -3.0 * one.predict(X), rtol=1e-6)


def test_the_best_of_several_exponents(data):
    X, y = data
    single = {p: LpMKLRidgeRegressor(p=p).fit(X, y).loo_score_ for p in (1.0, 4.0)}
    model = LpMKLRidgeRegressor(p=[1.0, 4.0]).fit(X, y)
    assert model.p_ == max(single, key=single.get)
    assert model.loo_score_ == max(single.values())
    with pytest.raises(ValueError, match="each at least 1"):
        LpMKLRidgeRegressor(p=[0.5]).fit(X, y)


def test_too_few_solves_are_told(data):
    with pytest.warns(ConvergenceWarning, match="LpMKLRidgeRegressor stopped after"):
        LpMKLRidgeRegressor(p=1.2, max_iter=1, tol=1e-9).fit(*data)


def test_progress_is_printed_on_request(data, capsys):
    LpMKLRidgeRegressor(verbose=1).fit(*data)
    assert "LpMKLRidgeRegressor p=2" in capsys.readouterr().out


def test_a_view_without_landmarks():
    rng = np.random.default_rng(0)
    X = kq.MultiView({"a": rng.normal(size=(26, 2)), "b": np.zeros((26, 4))})
    y = X["a"][:, 0]
    for p in (1.0, 2.0, np.inf):
        model = kq.quilt.LpMKLRidgeRegressor(
            p=p, kernels="cosine", landmarks="pivoted_cholesky", n_landmarks=5, random_state=0
        ).fit(X, y)
        assert np.isfinite(model.predict(X)).all()
