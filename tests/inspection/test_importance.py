"""Importance of views, scores by pattern, and the view to take next."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.metrics import accuracy_score, log_loss, make_scorer, roc_auc_score
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline

import kernelquilt as kq
from kernelquilt.inspection import next_view, score_by_pattern, view_importance

KEPT = np.array([[True, False, False], [False, True, False], [False, False, True]])


def make_samples(n=300, share=0.2, seed=0, n_classes=2):
    """Return a strong view, its copy and noise."""
    rng = np.random.default_rng(seed)
    strong = rng.normal(size=(n, 2))
    y = np.digitize(strong[:, 0], [0.0, 1.0][: n_classes - 1])
    views = {"strong": strong, "copy": strong.copy(), "noise": rng.normal(size=(n, 3))}
    observed = rng.random((n, 3)) >= share
    observed[:, 2] |= ~observed.any(axis=1)
    return kq.MultiView(views).with_observed(observed), y


@pytest.fixture(scope="module")
def fitted():
    X, y = make_samples()
    return kq.LateFusionClassifier().fit(X[:150], y[:150]), X[150:], y[150:]


def without(X, p):
    return X.with_observed(X.observed & (np.arange(3) != p))


def alone(X, p):
    return X.with_observed(X.observed & KEPT[p])


class TestImportance:
    def test_falls_are_differences_of_scores(self, fitted):
        model, X, y = fitted
        found = view_importance(model, X, y)
        assert found.view_names == X.names
        assert found.score == model.score(X, y)
        assert found.what == "accuracy"
        assert found.n_samples == 150
        assert found.n_present.tolist() == X.observed.sum(axis=0).tolist()
        for p in range(3):
            assert found.drop[p] == pytest.approx(found.score - model.score(without(X, p), y))
            assert found.drop_others[p] == pytest.approx(found.score - model.score(alone(X, p), y))
        nothing = X.with_observed(np.zeros_like(X.observed))
        assert found.score_without_views == pytest.approx(model.score(nothing, y))

    def test_of_two_equal_views_neither_is_missed_but_both_do_alone(self, fitted):
        found = view_importance(*fitted, scoring="neg_log_loss")
        assert found.drop_others[:2].max() < 0.5 * found.drop_others[2]
        assert found.drop[0] < 0.5 * found.drop_others[2]
        assert abs(found.drop[2]) < 3 * found.drop_errors[2] + 0.05

    def test_errors_are_those_of_repeated_samples(self):
        X, y = make_samples(2500)
        model = kq.LateFusionClassifier().fit(X[:100], y[:100])
        parts = [slice(start, start + 100) for start in range(100, 2500, 100)]
        found = [view_importance(model, X[part], y[part]) for part in parts]
        spread = np.std([each.drop_others for each in found], axis=0, ddof=1)
        told = np.mean([each.drop_others_errors for each in found], axis=0)
        np.testing.assert_allclose(told, spread, rtol=0.4)

    @pytest.mark.parametrize(
        "scoring", ["roc_auc", make_scorer(accuracy_score), lambda model, X, y: model.score(X, y)]
    )
    def test_any_scorer(self, fitted, scoring):
        model, X, y = fitted
        found = view_importance(model, X, y, scoring=scoring)
        expected = model.score(without(X, 0), y)
        if scoring == "roc_auc":
            expected = roc_auc_score(y, model.predict_proba(without(X, 0))[:, 1])
        assert found.score - found.drop[0] == pytest.approx(expected)

    def test_regression(self):
        X, _ = make_samples()
        y = np.nan_to_num(X["strong"][:, 0])
        model = kq.QuiltRegressor(experts=None).fit(X[:150], y[:150])
        found = view_importance(model, X[150:], y[150:])
        assert found.what == "R²"
        assert found.score == pytest.approx(model.score(X[150:], y[150:]))
        assert found.drop.argmax() == 0

    def test_cross_validation_is_the_mean_over_folds(self):
        X, y = make_samples(120)
        model = make_pipeline(kq.ViewKernels(), kq.SimpleMKLClassifier())
        folds = StratifiedKFold(3)
        found = view_importance(model, X, y, cv=folds)
        falls = []
        for train, test in folds.split(y, y):
            one = clone(model).fit(X[train], y[train])
            falls.append(view_importance(one, X[test], y[test]).drop)
        np.testing.assert_allclose(found.drop, np.mean(falls, axis=0))
        np.testing.assert_allclose(found.drop_errors, np.std(falls, axis=0, ddof=1) / np.sqrt(3))
        assert found.n_samples == 120
        again = view_importance(model, X, y, cv=folds, n_jobs=2)
        np.testing.assert_array_equal(again.drop, found.drop)

    def test_stacks_and_columns(self):
        X, y = make_samples(120)
        stack = kq.ViewKernels().fit_transform(X)
        views = {"strong": [0, 1], "copy": [2, 3], "noise": [4, 5, 6]}
        columns = np.hstack([X[name] for name in X.names])
        by_views = view_importance(kq.SimpleMKLClassifier(), X, y, cv=3)
        for model, form in (
            (kq.SimpleMKLClassifier(views=views), columns),
            (kq.SimpleMKLClassifier(), dict(zip(X.names, map(X.given, X.names), strict=True))),
        ):
            np.testing.assert_allclose(view_importance(model, form, y, cv=3).drop, by_views.drop)
        assert view_importance(kq.SimpleMKLClassifier(), stack, y, cv=3).drop.shape == (3,)


class TestPatterns:
    def test_every_sample_counts_once(self, fitted):
        model, X, y = fitted
        found = score_by_pattern(model, X, y)
        assert found.pattern_counts.sum() == found.n_views_counts.sum() == len(y)
        assert (np.diff(found.pattern_counts) <= 0).all()
        assert found.score == model.score(X, y)
        for pattern, score in zip(found.patterns, found.pattern_scores, strict=True):
            members = (X.observed == pattern).all(axis=1)
            assert score == pytest.approx(model.score(X[members], y[members]))
        share = found.n_views_counts / len(y)
        assert (share * found.n_views_scores).sum() == pytest.approx(found.score)

    def test_scores_that_are_not_defined_are_nan(self, fitted):
        model, X, y = fitted
        rare = (X.observed == score_by_pattern(model, X, y).patterns[-1]).all(axis=1)
        one_class = np.where(rare, 0, y)
        found = score_by_pattern(model, X, one_class, scoring="roc_auc")
        assert np.isnan(found.pattern_scores[-1])
        assert found.score > 0.5


class TestNextView:
    def test_gains_of_samples_not_seen(self, fitted):
        model, X, y = fitted
        new = X[:4].with_observed(X.observed[:4] & [False, False, True])
        found = next_view(model, new, X, y, cv=None, min_samples=5)
        having = X.observed[:, [0, 2]].all(axis=1)
        before = X[having].with_observed(np.tile([False, False, True], (having.sum(), 1)))
        after = X[having].with_observed(np.tile([True, False, True], (having.sum(), 1)))
        losses = [
            -np.log(model.predict_proba(each)[np.arange(having.sum()), y[having]])
            for each in (before, after)
        ]
        place = np.flatnonzero(new.observed[:, 2])[0]
        difference = losses[0] - losses[1]
        assert found.gains[place, 0] == pytest.approx(difference.mean())
        error = difference.std(ddof=1) / np.sqrt(having.sum())
        assert found.standard_errors[place, 0] == pytest.approx(error)
        assert found.n_samples[place, 0] == having.sum()
        assert found.same_views[place, 0]
        assert np.isnan(found.gains[new.observed]).all()
        assert (found.n_samples[new.observed] == 0).all()
        assert found.best[place] in ("strong", "copy")
        assert found.what == "log loss"

    def test_mean_loss_is_that_of_scikit_learn(self, fitted):
        model, X, y = fitted
        full = X[X.observed.all(axis=1)]
        labels = y[X.observed.all(axis=1)]
        new = full[:1].with_observed([[False, True, True]])
        found = next_view(model, new, full, labels, cv=None, min_samples=1)
        before = model.predict_proba(without(full, 0))
        gain = log_loss(labels, before) - log_loss(labels, model.predict_proba(full))
        assert found.gains[0, 0] == pytest.approx(gain)

    def test_few_samples_are_replaced_by_all_that_have_the_view(self, fitted):
        model, X, y = fitted
        new = X[:1].with_observed([[True, False, False]])
        found = next_view(model, new, X, y, cv=None, min_samples=10**6)
        assert not found.same_views.any()
        assert found.n_samples[0, 1] == X.observed[:, 1].sum()

    def test_gains_by_refits_are_less_than_those_of_training_samples(self):
        X, y = make_samples(80, share=0.3)
        model = kq.QuiltClassifier(experts=None, random_state=0).fit(X, y)
        new = X[:1].with_observed([[False, False, True]])
        honest, flattered = (next_view(model, new, X, y, cv=cv).gains[0, 0] for cv in (5, None))
        assert honest > 0
        assert honest != flattered
        again = next_view(model, new, X, y, cv=5, n_jobs=2).gains[0, 0]
        assert again == honest

    def test_a_class_that_a_fold_lacks_and_complete_samples(self):
        X, y = make_samples(60, n_classes=3)
        y[y == 2] = 1
        y[0] = 2
        model = kq.LateFusionClassifier().fit(X, y)
        new = X[:2].with_observed([[True] * 3, [True, False, True]] & X.observed[:2])
        with pytest.warns(UserWarning, match="least populated class"):
            found = next_view(model, new, X, y, cv=3)
        assert np.isfinite(found.gains[1, 1])
        if new.observed[0].all():
            assert found.best[0] is None

    def test_regression_gains_are_of_squared_errors(self):
        X, _ = make_samples(120)
        y = np.nan_to_num(X["strong"][:, 0])
        model = kq.QuiltRegressor(experts=None).fit(X, y)
        new = X[X.observed.all(axis=1)][:1].with_observed([[False, False, True]])
        found = next_view(model, new, X, y, cv=3)
        assert found.what == "squared error"
        assert found.best[0] == "strong"

    def test_models_without_probabilities_are_refused(self, fitted):
        _, X, y = fitted
        svm = kq.SimpleMKLClassifier().fit(X, y)
        with pytest.raises(ValueError, match=r"no probabilities.*CalibratedClassifierCV"):
            next_view(svm, X, X, y)

    def test_other_views_are_refused(self, fitted):
        model, X, y = fitted
        with pytest.raises(ValueError, match="does not know 'other'"):
            next_view(model, X, {"other": X["noise"]}, y, cv=None)
