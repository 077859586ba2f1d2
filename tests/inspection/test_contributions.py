"""Contributions of views: the axioms of Shapley values, every form of input, bad input."""

from dataclasses import replace
from itertools import combinations
from math import factorial

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.ensemble import ExtraTreesRegressor, HistGradientBoostingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import kernelquilt as kq
from discovery import held_to, instances, predictors
from holes import hide
from kernelquilt.inspection import contributions, view_contributions
from kernelquilt.inspection.contributions import exact_game, sampled_game
from kernelquilt.inspection.samples import Cohort

VIEWS = {"a": [0, 1], "b": [2, 3, 4], "c": [5]}


def make_samples(n=90, share=0.3, seed=0, n_classes=2):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 6))
    y = np.digitize(X[:, 0] + X[:, 2] + X[:, 5], [-0.7, 0.7][: n_classes - 1])
    for columns in VIEWS.values():
        X[np.ix_(rng.random(n) < share, columns)] = np.nan
    X[np.isnan(X).all(axis=1), 5] = 0.0
    return X, y


class Sum(RegressorMixin, BaseEstimator):
    """Predicts a known game of the first columns of the views: their sum and some products."""

    def __init__(self, products=0.0):
        self.products = products

    def fit(self, X, y=None):
        self.n_views_ = X.shape[1]
        return self

    def predict(self, X):
        parts = np.stack([np.nan_to_num(X[name][:, 0]) for name in X.names], axis=1)
        pairs = parts[:, :1] * parts[:, 1:]
        return 3.0 + parts.sum(axis=1) + self.products * pairs.sum(axis=1)


class Triples(Sum):
    """A game that pairs of orders do not solve exactly, as they do with products of two."""

    def predict(self, X):
        parts = parts_of(X)
        return super().predict(X) + (parts[:, :-2] * parts[:, 1:-1] * parts[:, 2:]).sum(axis=1)


def many_views(n, n_views, share=0.0, seed=0):
    rng = np.random.default_rng(seed)
    blocks = {f"v{j}": rng.normal(size=(n, 1)) for j in range(n_views)}
    return kq.MultiView(blocks).with_observed(rng.random((n, n_views)) >= share)


def parts_of(X):
    return np.stack([np.nan_to_num(X[name][:, 0]) for name in X.names], axis=1)


def by_hand(model, X, response):
    """The definition, one sample and one subset at a time."""
    values = np.zeros(X.shape)
    for i, present in enumerate(X.observed):
        own = np.flatnonzero(present)

        def output(views, i=i):
            mask = np.zeros((1, X.shape[1]), dtype=bool)
            mask[0, list(views)] = True
            return response(model, X[[i]].with_observed(mask))[0]

        for p in own:
            others = [view for view in own if view != p]
            for size in range(len(others) + 1):
                share = factorial(size) * factorial(len(own) - size - 1) / factorial(len(own))
                for chosen in combinations(others, size):
                    values[i, p] += share * (output((*chosen, p)) - output(chosen))
    return values


def test_additive_parts_are_found():
    X = many_views(50, 6, share=0.3)
    found = view_contributions(Sum().fit(X), X)
    np.testing.assert_allclose(found.values, parts_of(X), atol=1e-12)
    assert found.base == 3.0
    assert found.what == "prediction"
    assert not found.standard_errors.any()
    assert not found.values[~X.observed].any()


def test_half_of_a_product_goes_to_each_factor():
    X = many_views(50, 4)
    parts = parts_of(X)
    found = view_contributions(Sum(products=2.0).fit(X), X).values
    pairs = parts[:, :1] * parts[:, 1:]
    np.testing.assert_allclose(found[:, 1:], parts[:, 1:] + pairs, atol=1e-12)
    np.testing.assert_allclose(found[:, 0], parts[:, 0] + pairs.sum(axis=1), atol=1e-12)


def test_the_definition():
    X, y = make_samples()
    X = kq.as_views(X, VIEWS)
    model = kq.QuiltClassifier(experts=None).fit(X[:60], y[:60])

    def log_odds(model, X):
        proba = model.predict_proba(X)
        return np.log(proba[:, 1] / proba[:, 0])

    found = view_contributions(model, X[60:70])
    np.testing.assert_allclose(found.values, by_hand(model, X[60:70], log_odds), atol=1e-9)
    np.testing.assert_allclose(found.output, log_odds(model, X[60:70]), atol=1e-9)


@pytest.mark.parametrize("model", instances(held_to(predictors(), "more than two views")), ids=str)
def test_contributions_of_every_estimator_add_up(model):
    X, y = make_samples(share=0.2)
    X = kq.as_views(X, VIEWS)
    model.fit(X[:70], y[:70])
    found = view_contributions(model, X[70:])
    np.testing.assert_allclose(found.values.sum(axis=1) + found.base, found.output, atol=1e-10)
    method = "predict_proba" if hasattr(model, "predict_proba") else "decision_function"
    expected = getattr(model, method if hasattr(model, method) else "predict")(X[70:])
    if method == "predict_proba":
        expected = np.log(expected[:, 1] / expected[:, 0])
    np.testing.assert_allclose(found.output, expected, atol=1e-8)
    assert not found.values[~X[70:].observed].any()


def asked_rows(monkeypatch):
    """Count the rows of plain samples that models are asked about."""
    counted, subset = [], Cohort.subset

    def counting(self, rows, kept):
        counted.append(len(rows))
        return subset(self, rows, kept)

    monkeypatch.setattr(Cohort, "subset", counting)
    return counted


@pytest.mark.parametrize("model", instances(held_to(predictors(), "more than two views")), ids=str)
def test_what_subsets_share_changes_nothing(model, monkeypatch):
    X, y = make_samples(share=0.2, seed=1)
    X = kq.as_views(X, VIEWS)
    model.fit(X[:60], y[:60])
    counted = asked_rows(monkeypatch)
    found = view_contributions(model, X[60:])
    # only a sample without views is then asked about on its own
    assert (sum(counted) == 1) == getattr(model, "_shares_subsets", False)
    monkeypatch.setattr(contributions, "WAYS", np.inf)
    one_by_one = view_contributions(model, X[60:])
    assert sum(counted) > 100
    np.testing.assert_allclose(found.values, one_by_one.values, atol=1e-12)
    np.testing.assert_allclose(found.output, one_by_one.output, atol=1e-12)


@pytest.mark.parametrize(
    "model",
    [
        kq.QuiltClassifier(pattern=True, kernels=["gaussian", "linear"], random_state=0),
        kq.QuiltClassifier(n_landmarks=10, random_state=0),
        kq.QuiltClassifier(completion=kq.TransferFill(), experts=None),
        kq.QuiltClassifier(experts=[HistGradientBoostingClassifier(max_iter=5)], random_state=0),
        kq.QuiltRegressor(experts=[ExtraTreesRegressor(10)], random_state=0),
        kq.LateFusionClassifier(kernels={"a": "linear", "b": ["gaussian", "linear"], "c": "rbf"}),
        kq.SimpleMKLClassifier(n_landmarks=10),
        kq.ConvexAbsentMKLClassifier(formulation="shared_coef"),
        kq.mkl.MHKSClassifier(kernels="linear"),
        kq.mkl.SampleAdaptiveMKLClassifier(m0=1),
    ],
    ids=str,
)
def test_what_subsets_share_in_models_with_other_parameters(model, monkeypatch):
    X, y = make_samples(share=0.2, seed=2, n_classes=3)
    X = kq.as_views(X, VIEWS)
    model.fit(X[:60], y[:60])
    found = view_contributions(model, X[60:]).values
    for n_rows in (1, 20):  # blocks are cut between samples
        monkeypatch.setattr(contributions, "ROWS", n_rows)
        again, threads = (view_contributions(model, X[60:], n_jobs=k).values for k in (1, 2))
        np.testing.assert_array_equal(again, threads)
        np.testing.assert_allclose(again, found, atol=1e-12)
    monkeypatch.setattr(contributions, "WAYS", np.inf)
    one_by_one = view_contributions(model, X[60:]).values
    np.testing.assert_allclose(found, one_by_one, atol=1e-12)


@pytest.mark.parametrize("weights", [(1.0, 2.0), (1.0, 0.0), (0.0, 1.0)])
def test_experts_on_completed_kernels_with_and_without_a_weight(weights, monkeypatch):
    X, y = make_samples(share=0.2, seed=3)
    X = kq.as_views(X, VIEWS)
    model = kq.QuiltClassifier(experts=None).fit(X[:60], y[:60])
    model.early_stacking_ = replace(model.early_stacking_, weights=np.array(weights))
    found = view_contributions(model, X[60:]).values
    monkeypatch.setattr(contributions, "WAYS", np.inf)
    one_by_one = view_contributions(model, X[60:]).values
    np.testing.assert_allclose(found, one_by_one, atol=1e-12)


@pytest.mark.parametrize(
    ("method", "what"),
    [("auto", "log probability"), ("predict_proba", "log probability")],
)
def test_several_classes(method, what):
    X, y = make_samples(n_classes=3)
    model = kq.LateFusionClassifier(views=VIEWS).fit(X, y)
    found = view_contributions(model, X[:20], response_method=method)
    assert found.values.shape == (20, 3, 3)
    assert found.output_names == ("0", "1", "2")
    assert found.what == what
    np.testing.assert_allclose(found.output, np.log(model.predict_proba(X[:20])), atol=1e-9)
    np.testing.assert_allclose(found.values.sum(axis=1) + found.base, found.output, atol=1e-10)


def test_scores_of_several_classes():
    X, y = make_samples(n_classes=3)
    model = kq.SimpleMKLClassifier(views=VIEWS).fit(X, y)
    found = view_contributions(model, X[:20])
    assert found.what == "score"
    np.testing.assert_allclose(found.output, model.decision_function(X[:20]), atol=1e-9)


class TestForms:
    X, y = make_samples()

    @pytest.fixture(scope="class")
    def expected(self):
        X = kq.as_views(self.X, VIEWS)
        model = kq.SimpleMKLClassifier().fit(X[:60], self.y[:60])
        return view_contributions(model, X[60:]).values

    def test_arrays_frames_and_dicts(self, expected):
        frame = pd.DataFrame(self.X, columns=list("uvwxyz"))
        labels = {name: list(frame.columns[columns]) for name, columns in VIEWS.items()}
        blocks = {name: self.X[60:, columns] for name, columns in VIEWS.items()}
        model = kq.SimpleMKLClassifier(views=VIEWS).fit(self.X[:60], self.y[:60])
        for X in (self.X[60:], blocks, kq.MultiView(blocks)):
            np.testing.assert_allclose(view_contributions(model, X).values, expected, atol=1e-12)
        model = kq.SimpleMKLClassifier(views=labels).fit(frame[:60], self.y[:60])
        found = view_contributions(model, frame[60:])
        np.testing.assert_allclose(found.values, expected, atol=1e-12)
        assert found.index.tolist() == list(range(60, 90))

    def test_kernels(self, expected):
        X = kq.as_views(self.X, VIEWS)
        kernels = kq.ViewKernels().fit(X[:60])
        stack, new = kernels.transform(X[:60]), kernels.transform(X[60:])
        model = kq.SimpleMKLClassifier().fit(kernels.fit_transform(X[:60]), self.y[:60])
        found = view_contributions(model, new)
        assert found.view_names == tuple(VIEWS)
        np.testing.assert_allclose(found.values, expected, atol=1e-9)
        square = kq.KernelStack(stack.gram(), stack.observed)
        plain = np.moveaxis(square.gram(), 0, -1)
        model = kq.SimpleMKLClassifier(kernels="precomputed").fit(plain, self.y[:60])
        assert view_contributions(model, plain).values.shape == (60, 3)

    def test_factors(self, expected):
        X = kq.as_views(self.X, VIEWS)
        maps = kq.EmpiricalKernelMap(kernels="gaussian", factors=True).fit(X[:60])
        model = kq.SimpleMKLClassifier().fit(maps.transform(X[:60]), self.y[:60])
        new = maps.transform(X[60:])
        found = view_contributions(model, new)
        assert found.view_names == tuple(VIEWS)
        np.testing.assert_allclose(found.values, expected, atol=0.05)
        np.testing.assert_allclose(found.output, model.decision_function(new), atol=1e-12)
        assert (found.values[~X.observed[60:]] == 0).all()

    def test_risks(self):
        X = kq.as_views(self.X, VIEWS)
        targets = self.y > 0, 1.0 + np.arange(90)
        model = kq.QuiltSurvival(experts=None).fit(X, targets)
        found = view_contributions(model, X[:9])
        np.testing.assert_allclose(found.output, model.predict(X[:9]), atol=1e-12)
        np.testing.assert_allclose(found.values.sum(axis=1) + found.base, found.output, atol=1e-12)

    def test_pipelines_and_searches(self, expected):
        views = kq.as_views(self.X, VIEWS)
        pipeline = make_pipeline(kq.ViewKernels(), kq.SimpleMKLClassifier())
        search = GridSearchCV(pipeline, {"simplemklclassifier__C": [1.0]}, cv=2)
        for model in (pipeline, search):
            model.fit(views[:60], self.y[:60])
            found = view_contributions(model, views[60:]).values
            np.testing.assert_allclose(found, expected, atol=1e-9)

    def test_steps_before_the_views(self):
        model = make_pipeline(StandardScaler(), kq.SimpleMKLClassifier(views=VIEWS))
        model.fit(self.X[:60], self.y[:60])
        scaler = StandardScaler().fit(self.X[:60])
        alone = kq.SimpleMKLClassifier(views=VIEWS).fit(scaler.transform(self.X[:60]), self.y[:60])
        expected = view_contributions(alone, scaler.transform(self.X[60:])).values
        for X in (self.X[60:], pd.DataFrame(self.X[60:])):
            found = view_contributions(model, X).values
            np.testing.assert_allclose(found, expected, atol=1e-10)

    def test_text_columns_and_missing_cells(self):
        rng = np.random.default_rng(0)
        clinic = pd.DataFrame({"age": rng.normal(size=90), "sex": rng.choice(["f", "m"], 90)})
        clinic.loc[:10, "age"] = np.nan
        clinic.loc[80:] = np.nan
        rna = pd.DataFrame(self.X[:, :3]).fillna(0.0).add_prefix("g")
        X = kq.MultiView({"clinic": clinic, "rna": rna})
        for model in (kq.QuiltClassifier(random_state=0), kq.LateFusionClassifier()):
            model.fit(X[:60], self.y[:60])
            found = view_contributions(model, X[60:])
            proba = model.predict_proba(X[60:])
            np.testing.assert_allclose(found.output, np.log(proba[:, 1] / proba[:, 0]), atol=1e-8)
            assert not found.values[20:, 0].any()

    def test_completion_before_the_classifier(self):
        X = kq.as_views(self.X, VIEWS)
        model = make_pipeline(kq.ViewKernels(), kq.TransferFill(), kq.SimpleMKLClassifier())
        found = view_contributions(model.fit(X, self.y), X[:10])
        np.testing.assert_allclose(found.output, model.decision_function(X[:10]), atol=1e-8)


def test_sampled_contributions_are_right_within_their_errors():
    X = many_views(40, 12, share=0.05)
    model = Triples(products=1.0).fit(X)
    exact = view_contributions(model, X, method="exact")
    for options in ({}, {"method": "sampling"}):
        found = view_contributions(model, X, random_state=0, **options)
        np.testing.assert_allclose(found.values.sum(axis=1) + found.base, found.output, atol=1e-10)
        sampled = found.standard_errors > 1e-12
        assert sampled[X.observed.sum(axis=1) > 10].any()
        away = np.abs(found.values - exact.values)
        np.testing.assert_allclose(away[~sampled & X.observed], 0.0, atol=1e-10)
        assert np.mean(away[sampled] < 2 * found.standard_errors[sampled]) > 0.85
    assert not view_contributions(model, X, random_state=0).standard_errors[~X.observed].any()


def test_games():
    exact = exact_game(3)
    assert not exact.subsets[0].any()
    np.testing.assert_allclose(exact.coef.sum(axis=2), 0.0, atol=1e-15)
    sampled = sampled_game(np.array([[4, 1, 7], [7, 1, 4]]), np.array([1, 4, 7]))
    assert sampled.coef.shape[0] == 1
    assert not sampled.subsets[0].any()
    table = np.random.default_rng(0).normal(size=len(sampled.subsets))
    everything = sampled.subsets.all(axis=1).argmax()
    np.testing.assert_allclose((sampled.coef @ table).sum(), table[everything] - table[0])


def test_order_garbage_and_threads_change_nothing():
    X, y = make_samples()
    X = kq.as_views(X, VIEWS)
    model = kq.QuiltClassifier(random_state=0).fit(X[:60], y[:60])
    new = X[60:]
    found = view_contributions(model, new)
    for n_jobs in (1, 2):
        again = view_contributions(model, new, n_jobs=n_jobs)
        np.testing.assert_array_equal(again.values, found.values)
    order = np.random.default_rng(0).permutation(len(new))
    shuffled = view_contributions(model, new[order])
    np.testing.assert_allclose(shuffled.values, found.values[order], atol=1e-10)
    stack = kq.ViewKernels().fit_transform(X)
    garbage = hide(stack.gram(), stack.observed, stack.observed, 1e6)
    for other in (kq.SimpleMKLClassifier(), kq.LateFusionClassifier(), kq.QuiltClassifier()):
        values = []
        for each in (stack, kq.KernelStack(garbage, stack.observed)):
            other.fit(each[:60], y[:60])
            values.append(view_contributions(other, each[60:]).values)
        np.testing.assert_array_equal(*values)


def test_a_sample_without_views_gets_the_base():
    X = many_views(3, 3).with_observed([[True] * 3, [False] * 3, [False, True, False]])
    found = view_contributions(Sum().fit(X), X)
    assert found.output[1] == found.base
    assert not found.values[1].any()
    nothing = view_contributions(Sum().fit(X), X[[1]])
    assert nothing.output.tolist() == [3.0]


class Complete(ClassifierMixin, BaseEstimator):
    """A classifier that cannot do without a view."""

    def fit(self, X, y):
        self.model_ = LogisticRegression().fit(np.hstack([X[name] for name in X.names]), y)
        self.classes_ = self.model_.classes_
        return self

    def predict_proba(self, X):
        return self.model_.predict_proba(np.hstack([X[name] for name in X.names]))


class TestBadInput:
    X, y = make_samples(share=0.0)

    def test_unfitted(self):
        with pytest.raises(NotFittedError):
            view_contributions(kq.LateFusionClassifier(), self.X)

    def test_a_model_that_needs_all_views(self):
        views = kq.as_views(self.X, VIEWS)
        with pytest.raises(ValueError, match=r"Complete cannot be asked .*without their views"):
            view_contributions(Complete().fit(views, self.y), views)

    def test_other_views_than_in_training(self):
        views = kq.as_views(self.X, VIEWS)
        model = kq.LateFusionClassifier().fit(views, self.y)
        with pytest.raises(ValueError, match="does not know 'd'"):
            view_contributions(model, {"d": self.X})

    def test_columns_of_no_known_view(self):
        with pytest.raises(ValueError, match="does not say which columns"):
            view_contributions(LogisticRegression().fit(self.X, self.y), self.X)

    def test_too_many_views(self):
        X = many_views(2, 21)
        model = Sum().fit(X)
        for method in ("auto", "exact"):
            with pytest.raises(ValueError, match=r"up to 21 views.*method='sampling'"):
                view_contributions(model, X, method=method)
        found = view_contributions(model, X, method="sampling", random_state=0)
        np.testing.assert_allclose(found.values, parts_of(X), atol=1e-12)

    def test_options(self):
        X = many_views(2, 2)
        model = Sum().fit(X)
        with pytest.raises(ValueError, match="method must be one of"):
            view_contributions(model, X, method="all")
        with pytest.raises(ValueError, match="even number"):
            view_contributions(model, X, n_permutations=5)
        with pytest.raises(ValueError, match="response_method"):
            view_contributions(model, X, response_method="score")
        with pytest.raises(ValueError, match="has no decision_function"):
            view_contributions(model, X, response_method="decision_function")
        views = kq.as_views(self.X, VIEWS)
        svm = kq.SimpleMKLClassifier().fit(views, self.y)
        with pytest.raises(ValueError, match="predicts classes"):
            view_contributions(svm, views, response_method="predict")
