"""The members of a quilt: a forest on the columns, other experts, and how they are joined."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.optimize import minimize
from scipy.special import logsumexp
from sklearn.base import clone
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline

import kernelquilt as kq
from kernelquilt.quilt import experts
from kernelquilt.quilt.experts import folds
from kernelquilt.quilt.stacking import solve_linear_members, solve_member_weights

FOREST = RandomForestClassifier(30, oob_score=True, random_state=0)


@pytest.fixture(scope="module")
def wdbc():
    X, y = kq.datasets.load_example("wdbc")
    return kq.datasets.make_absent(X, 0.4, random_state=0), y


def log_probabilities(K, n, c, seed):
    scores = np.random.default_rng(seed).normal(size=(K, n, c))
    return scores - logsumexp(scores, axis=2, keepdims=True)


@pytest.mark.parametrize(("K", "c", "seed"), [(2, 2, 0), (3, 2, 1), (3, 5, 2), (5, 3, 3)])
def test_weights_of_members_minimise_the_log_loss(K, c, seed):
    logs = log_probabilities(K, 80, c, seed)
    codes = np.random.default_rng(seed).integers(c, size=80)
    logs[0, np.arange(80), codes] += 1.0
    weight = np.random.default_rng(seed + 9).random(80)

    def objective(a):
        z = np.tensordot(a, logs, axes=1)
        losses = logsumexp(z, axis=1) - z[np.arange(80), codes]
        pull = 6 / weight.sum()
        return np.average(losses, weights=weight) + pull * np.square(a - 1 / K).sum()

    found = solve_member_weights(logs, codes, sample_weight=weight)
    expected = minimize(objective, np.full(K, 1 / K), bounds=[(0, None)] * K, tol=1e-14)
    assert objective(found) <= expected.fun + 1e-12
    np.testing.assert_allclose(found, expected.x, atol=1e-4)


def test_weights_of_predictions_minimise_the_squared_loss():
    rng = np.random.default_rng(0)
    y = rng.normal(size=60)
    F = np.array([y + rng.normal(size=60), -y, 0.1 * rng.normal(size=60)])
    weight = rng.random(60)

    def objective(a):
        return np.average((y - a @ F) ** 2, weights=weight) + 0.01 * np.square(a - 1 / 3).sum()

    found = solve_linear_members(F, y, sample_weight=weight)
    expected = minimize(objective, np.full(3, 1 / 3), bounds=[(0, None)] * 3, tol=1e-14)
    np.testing.assert_allclose(found, expected.x, atol=1e-5)
    assert found[1] == 0.0


def test_a_forest_joins_where_there_are_columns_of_two_views(wdbc):
    X, y = wdbc
    model = kq.QuiltClassifier(random_state=0).fit(X[:150], y[:150])
    assert model.member_names_ == ("early", "late", "RandomForestClassifier")
    assert model.member_weights_.shape == (3,)
    assert (model.member_weights_ >= 0).all()
    assert set(model.member_scores_) == {*model.member_names_, "all"}
    stack = kq.ViewKernels("median_gaussian").fit_transform(X[:150])
    one_view = X.select(["mean"])
    one_view = one_view[one_view.observed[:, 0]]
    for alone, data, labels in (
        (kq.QuiltClassifier(experts=None), X[:150], y[:150]),
        (kq.QuiltClassifier(), stack, y[:150]),
        (kq.QuiltClassifier(), one_view[:100], y[X.observed[:, X.names.index("mean")]][:100]),
    ):
        alone.fit(data, labels)
        assert alone.member_names_ == ("early", "late")
        np.testing.assert_array_equal(alone.member_weights_, [0.5, 0.5])


def test_the_product_of_powers_of_the_members(wdbc):
    X, y = wdbc
    model = kq.QuiltClassifier(experts=[FOREST]).fit(X[:120], y[:120])
    rows = X[120:150]
    columns = np.hstack([rows[name] for name in rows.names])
    forest = 0.98 * model.experts_[0].estimator.predict_proba(columns) + 0.01
    early, late = (
        stacking.proba(scores)
        for stacking, scores in zip(
            (model.early_stacking_, model.late_stacking_), model._fitted.scores(rows), strict=True
        )
    )
    logs = np.log([early + 1e-9, late + 1e-9, forest])
    z = np.tensordot(model.member_weights_, logs, axes=1)
    expected = np.exp(z - logsumexp(z, axis=1, keepdims=True))
    np.testing.assert_allclose(model.predict_proba(rows), expected, rtol=1e-10)
    # the forest tells what it would have said of samples it did not see
    oob = 0.98 * model.experts_[0].estimator.oob_decision_function_ + 0.01
    np.testing.assert_allclose(model.experts_[0].out_of_sample, oob)


def test_scores_of_members_are_out_of_sample(wdbc):
    X, y = wdbc
    rng = np.random.default_rng(0)
    noise = rng.permutation(y[:150])
    model = kq.QuiltClassifier(random_state=0).fit(X[:150], noise)
    assert min(model.member_scores_.values()) > 0.5  # log 2 is 0.69
    assert model.loo_score_ < 0.75


@pytest.mark.parametrize(
    "expert",
    [
        HistGradientBoostingClassifier(max_iter=20, min_samples_leaf=5, random_state=0),
        make_pipeline(SimpleImputer(keep_empty_features=True), LogisticRegression(max_iter=1000)),
    ],
    ids=["boosting", "pipeline"],
)
def test_other_experts_by_five_folds(wdbc, expert):
    X, y = wdbc
    model = kq.QuiltClassifier(experts=[expert, FOREST], random_state=0).fit(X[:120], y[:120])
    assert len(model.member_weights_) == 4
    assert model.experts_[0].out_of_sample.shape == (len(model.used_samples_), 2)
    kernels = kq.QuiltClassifier(experts=None).fit(X[:120], y[:120])
    assert model.score(X[120:], y[120:]) >= kernels.score(X[120:], y[120:]) - 0.01


@pytest.mark.parametrize("serves", [True, False])
@pytest.mark.parametrize("classify", [True, False])
def test_a_forest_of_many_samples_grows_if_it_counts(monkeypatch, serves, classify):
    monkeypatch.setattr(experts, "FEW_SAMPLES", 100)
    monkeypatch.setattr(experts, "N_TREES", 60)
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 400, 6))
    y = a.sum(axis=1) + b.sum(axis=1) + 2 * rng.normal(size=400)
    if serves:
        y = 1.0 * ((a[:, 0] > 0) != (b[:, 0] > 0))
    y = (y > 0).astype(int) if classify else y
    model = (kq.QuiltClassifier if classify else kq.QuiltRegressor)("linear", random_state=0)
    model.fit(kq.MultiView({"a": a, "b": b}), y)
    assert (model.member_weights_[2] > 0) == serves
    forest = model.experts_[0].estimator
    assert len(forest.estimators_) == (60 if serves else 50)
    assert forest.max_samples == (None if serves else 200)
    if serves:
        monkeypatch.setattr(experts, "FEW_SAMPLES", 1000)
        whole = clone(model).fit(kq.MultiView({"a": a, "b": b}), y)
        np.testing.assert_array_equal(
            model.experts_[0].out_of_sample, whole.experts_[0].out_of_sample
        )


def test_names_of_equal_experts_are_numbered(wdbc):
    X, y = wdbc
    model = kq.QuiltClassifier(experts=[FOREST, FOREST]).fit(X[:80], y[:80])
    assert model.member_names_[2:] == ("RandomForestClassifier", "RandomForestClassifier 2")


@pytest.mark.parametrize("expert", [LogisticRegression(), LinearRegression(), "forest", 3])
def test_experts_that_cannot_serve_are_refused_first(wdbc, expert):
    X, y = wdbc
    given = expert if isinstance(expert, str | int) else [expert]
    message = {
        LogisticRegression: r"make_pipeline\(SimpleImputer\(\), LogisticRegression",
        LinearRegression: "must be classifiers",
    }.get(type(expert), "'auto', None or a list")
    model = kq.QuiltClassifier(experts=given)
    with pytest.raises(ValueError, match=message):
        model.fit(X, y)
    assert not hasattr(model, "classes_")


def test_results_depend_on_the_random_state_alone(wdbc):
    X, y = wdbc
    forest = clone(FOREST).set_params(random_state=None)
    models = [
        kq.QuiltClassifier(experts=[forest], random_state=state, n_jobs=jobs).fit(X[:120], y[:120])
        for state, jobs in ((0, None), (0, 2), (1, None))
    ]
    one, same, other = (model.predict_proba(X[120:]) for model in models)
    np.testing.assert_array_equal(one, same)
    assert (one != other).any()


def test_garbage_in_absent_cells_changes_no_bit(wdbc):
    X, y = wdbc
    dirty = {
        name: np.where(X.observed[:, [column]], X[name], 1e9) for column, name in enumerate(X.names)
    }
    clean, garbled = (
        kq.QuiltClassifier(experts=[FOREST]).fit(data[:100], y[:100]).predict_proba(data[100:])
        for data in (X, kq.MultiView(dirty, X.observed))
    )
    np.testing.assert_array_equal(clean, garbled)


def test_samples_without_views_get_even_odds_of_the_experts(wdbc):
    X, y = wdbc
    model = kq.QuiltClassifier(random_state=0).fit(X[:120], y[:120])
    nothing = kq.MultiView({name: np.full((2, X[name].shape[1]), np.nan) for name in X.names})
    np.testing.assert_array_equal(model.experts_[0].outputs(nothing), 0.5)
    assert np.isfinite(model.predict_proba(nothing)).all()


def test_weights_from_five_refits(wdbc):
    X, y = wdbc
    model = kq.QuiltClassifier(experts=[FOREST], cross_fit=True, random_state=0)
    model.fit(X[:120], y[:120])
    again = kq.QuiltClassifier(experts=[FOREST], random_state=0).fit(X[:120], y[:120])
    assert (model.member_weights_ != again.member_weights_).all()
    assert model.score(X[120:], y[120:]) > 0.9
    stack = kq.ViewKernels("median_gaussian").fit_transform(X[:120])
    assert kq.QuiltClassifier(cross_fit=True).fit(stack, y[:120]).member_weights_.shape == (2,)


@pytest.mark.parametrize("counts", [[20, 1], [12, 3, 1, 1], [2] * 5, [3] * 40])
def test_rare_classes(counts):
    codes = np.repeat(np.arange(len(counts)), counts)
    rng = np.random.default_rng(0)
    X = kq.MultiView(
        {name: codes[:, None] + rng.normal(size=(len(codes), 3)) for name in ("a", "b")}
    )
    X = kq.datasets.make_absent(X, 0.2, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = kq.QuiltClassifier(experts=[FOREST], random_state=0).fit(X, codes)
    proba = model.predict_proba(X)
    assert proba.shape == (len(codes), len(counts))
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)


def test_ten_samples_of_sixty_views():
    rng = np.random.default_rng(0)
    y = np.arange(10) % 2
    X = kq.MultiView({f"v{k}": y[:, None] + rng.normal(size=(10, 1)) for k in range(60)})
    X = kq.datasets.make_absent(X, 0.3, random_state=0)
    model = kq.QuiltClassifier(random_state=0).fit(X, y)
    assert model.score(X, y) > 0.7


def test_columns_that_tell_nothing():
    X, y = kq.datasets.make_multiview(60, 2, random_state=0)
    blocks = {name: X[name].copy() for name in X.names}
    blocks["constant"] = np.ones((60, 2))
    blocks["absent"] = np.full((60, 2), np.nan)
    with pytest.warns(UserWarning, match="'absent'"):
        model = kq.QuiltClassifier(random_state=0).fit(kq.MultiView(blocks), y)
    assert model.experts_[0].views == ("constant", *X.names)
    assert model.score(kq.MultiView(blocks), y) > 0.8


def test_folds_spread_every_class():
    codes = np.repeat([0, 1, 2], [11, 5, 2])
    masks = folds(codes, np.random.RandomState(0))
    assert (np.sum(masks, axis=0) == 1).all()
    counts = np.array([np.bincount(codes[mask], minlength=3) for mask in masks])
    assert (np.ptp(counts, axis=0) <= 1).all()
    assert np.ptp(counts.sum(axis=1)) <= 1


def mixed_views(n=80):
    rng = np.random.default_rng(0)
    y = np.arange(n) % 2
    clinic = pd.DataFrame(
        {
            "age": np.where(rng.random(n) < 0.2, np.nan, 60 + 5 * y + rng.normal(size=n)),
            "sex": rng.choice(["m", "f"], n),
            "empty": np.full(n, np.nan),
        }
    )
    clinic.loc[::9, "sex"] = None
    return {"clinic": clinic, "rna": rng.normal(size=(n, 3)) + y[:, None]}, y


class TestColumns:
    def test_experts_see_missing_cells_and_categories(self):
        blocks, y = mixed_views()
        X = kq.MultiView(blocks)
        model = kq.QuiltClassifier(experts=[FOREST]).fit(X[:60], y[:60])
        new = {name: block[60:] for name, block in blocks.items()}
        new["clinic"] = new["clinic"].assign(sex=["m", "f", "x", None] * 5)
        found = model.experts_[0].columns.of(model.input_.rows(model, new))
        codes = np.array([1, 0, np.nan, np.nan] * 5)
        expected = np.column_stack([new["clinic"]["age"], codes, new["rna"]])
        np.testing.assert_array_equal(found, expected)
        logs = model._member_outputs(model.input_.rows(model, new))
        forest = 0.98 * model.experts_[0].estimator.predict_proba(expected) + 0.01
        np.testing.assert_allclose(np.exp(logs[2]), forest)

    def test_refits_see_them_too(self):
        blocks, y = mixed_views()
        model = kq.QuiltClassifier(experts=[FOREST], cross_fit=True, random_state=0)
        assert model.fit(blocks, y).score(blocks, y) > 0.8

    def test_views_that_are_not_prepared(self):
        blocks, y = mixed_views()
        blocks["clinic"] = blocks["clinic"][["age"]].fillna(60.0)
        model = kq.QuiltClassifier(prepare=None, experts=[FOREST]).fit(blocks, y)
        assert model.member_names_[2] == "RandomForestClassifier"
        assert model.predict(blocks).shape == (80,)

    def test_models_do_not_hold_the_samples_twice(self):
        blocks, y = mixed_views()
        model = kq.QuiltClassifier(experts=[FOREST]).fit(blocks, y)
        assert type(model.input_.views) is kq.MultiView
        restored = pickle.loads(pickle.dumps(model))
        np.testing.assert_array_equal(restored.predict_proba(blocks), model.predict_proba(blocks))

    @pytest.mark.parametrize("estimator", [kq.QuiltClassifier, kq.QuiltRegressor])
    def test_sparse_views(self, estimator):
        blocks, y = mixed_views()
        blocks["words"] = sparse.csr_array(np.random.default_rng(1).poisson(0.3, (80, 9)) * 1.0)
        assert estimator().fit(blocks, y).member_names_ == ("early", "late")
        forest = FOREST if estimator is kq.QuiltClassifier else RandomForestRegressor(5)
        with pytest.raises(ValueError, match=r"sparse views 'words' of 80 samples.*'auto' or None"):
            estimator(experts=[forest]).fit(blocks, y)


class TestRegressor:
    def test_a_forest_joins(self, wdbc):
        X, _ = wdbc
        target = np.arange(569.0) + 100 * np.nan_to_num(X["mean"][:, 0])
        model = kq.QuiltRegressor(random_state=0).fit(X[:150], target[:150])
        assert model.member_names_[2] == "RandomForestRegressor"
        assert model.loo_score_ == model.member_scores_["all"]
        again = kq.QuiltRegressor(random_state=0, n_jobs=2).fit(X[:150], target[:150])
        np.testing.assert_array_equal(model.predict(X[150:]), again.predict(X[150:]))

    def test_without_experts_it_is_the_mean_of_two(self, wdbc):
        X, _ = wdbc
        target = np.nan_to_num(X["mean"][:, 0])
        model = kq.QuiltRegressor(experts=None).fit(X[:100], target[:100])
        np.testing.assert_array_equal(model.member_weights_, [0.5, 0.5])

    def test_cross_fit(self, wdbc):
        X, _ = wdbc
        target = np.nan_to_num(X["mean"][:, 0])
        forest = RandomForestRegressor(20, oob_score=True)
        model = kq.QuiltRegressor(experts=[forest], cross_fit=True, random_state=0)
        model.fit(X[:80], target[:80])
        assert model.member_weights_.shape == (3,)

    def test_classifiers_are_refused(self, wdbc):
        X, y = wdbc
        with pytest.raises(ValueError, match="must be regressors"):
            kq.QuiltRegressor(experts=[FOREST]).fit(X, y)
