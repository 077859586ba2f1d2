"""Inputs that are small, rare, huge or empty, to a quilt with its forest."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.ensemble import (
    BaggingClassifier,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
)
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

import kernelquilt as kq

BOOSTING = HistGradientBoostingClassifier(max_iter=5, min_samples_leaf=2)


@pytest.fixture(autouse=True, scope="module")
def few_trees():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kernelquilt.quilt.experts.N_TREES", 15)
        yield


def views_of(codes, n_views=3, share=0.2, seed=0, scale=1.0):
    rng = np.random.default_rng(seed)
    blocks = {
        f"v{k}": scale * (codes[:, None] + rng.normal(size=(len(codes), 2))) for k in range(n_views)
    }
    return kq.datasets.make_absent(kq.MultiView(blocks), share, random_state=seed)


def assert_sensible(model, X):
    proba = model.predict_proba(X)
    assert np.isfinite(proba).all()
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    assert np.isfinite(model.member_weights_).all()
    assert np.isfinite([*model.member_scores_.values(), model.loo_score_]).all()


@st.composite
def problems(draw):
    """Views with holes, missing cells and categories, labels with rare classes, and weights."""
    n, c = draw(st.integers(3, 24)), draw(st.integers(2, 5))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    codes = rng.permutation(np.r_[:c, rng.choice(c, n, p=rng.dirichlet(np.ones(c)))][:n])
    share, cells = draw(st.sampled_from([0.0, 0.3, 0.7])), draw(st.sampled_from([0.0, 0.3]))
    blocks = {}
    for k in range(draw(st.integers(1, 5))):
        scale = draw(st.sampled_from([1e-30, 1e-9, 1.0, 1e9, 1e30, 1e60]))
        block = rng.normal(size=(n, draw(st.integers(1, 3)))) + codes[:, None]
        block = scale * np.round(block, draw(st.integers(0, 3)))
        block[rng.random(block.shape) < cells] = np.nan
        block[rng.random(n) < share] = np.nan
        blocks[f"v{k}"] = block
    if draw(st.booleans()):
        blocks["words"] = pd.DataFrame({"word": rng.choice(["a", "b", "c", None], n)}, dtype=object)
    weight = draw(st.sampled_from([None, rng.random(n), rng.integers(0, 3, n) * 1.0]))
    return blocks, codes, weight


@settings(max_examples=15, deadline=None)
@given(
    problem=problems(),
    cross_fit=st.booleans(),
    experts=st.sampled_from(["auto", [BOOSTING]]),
    class_weight=st.sampled_from([None, "balanced"]),
)
def test_probabilities_or_a_clear_error(problem, cross_fit, experts, class_weight):
    blocks, codes, weight = problem
    model = kq.QuiltClassifier(
        cross_fit=cross_fit, experts=experts, class_weight=class_weight, random_state=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        warnings.simplefilter("ignore", UserWarning)
        try:
            model.fit(blocks, codes, sample_weight=weight)
        except ValueError as error:
            told = ("two classes", "observed view", "training samples have", "positive weight")
            if not any(each in str(error) for each in told):
                raise
        else:
            assert_sensible(model, blocks)


@settings(max_examples=8, deadline=None)
@given(problem=problems(), cross_fit=st.booleans(), size=st.sampled_from([1e-200, 1.0, 1e200]))
def test_predictions_or_a_clear_error(problem, cross_fit, size):
    blocks, codes, weight = problem
    target = size * (codes + np.random.default_rng(0).normal(size=len(codes)))
    model = kq.QuiltRegressor(cross_fit=cross_fit, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        warnings.simplefilter("ignore", UserWarning)
        try:
            model.fit(blocks, target, sample_weight=weight)
        except ValueError as error:
            if not any(each in str(error) for each in ("training samples have", "with a view")):
                raise
        else:
            assert np.isfinite(model.predict(blocks)).all()
            assert np.isfinite([*model.member_weights_, *model.member_scores_.values()]).all()


class TestUnits:
    @pytest.mark.parametrize("scale", [2.0**-40, 2.0**40, 2.0**200])
    def test_units_of_columns_do_not_matter_to_the_forest(self, scale):
        codes = np.arange(60) % 2
        models = [
            kq.QuiltClassifier(random_state=0).fit(views_of(codes, scale=unit), codes)
            for unit in (1.0, scale)
        ]
        one, other = (model.experts_[0].out_of_sample for model in models)
        np.testing.assert_array_equal(one, other)
        proba = [
            model.predict_proba(views_of(codes, seed=1, scale=unit))
            for model, unit in zip(models, (1.0, scale), strict=True)
        ]
        np.testing.assert_allclose(*proba, atol=1e-6)

    def test_small_differences_of_large_numbers(self):
        codes = np.arange(60) % 2
        blocks = {name: 1e9 + codes[:, None] + 0.1 * np.eye(60)[:, :2] for name in "ab"}
        model = kq.QuiltClassifier(random_state=0).fit(blocks, codes)
        assert (model.experts_[0].out_of_sample.argmax(axis=1) == codes).mean() > 0.95

    @pytest.mark.parametrize("experts", ["auto", [RandomForestClassifier(5, random_state=0)]])
    def test_new_values_beyond_single_precision(self, experts):
        codes = np.arange(30) % 2
        X = views_of(codes, share=0.0)
        model = kq.QuiltClassifier(experts=experts, random_state=0).fit(X, codes)
        blocks = {name: X[name].copy() for name in X.names}
        blocks["v0"][0] = 1e60, -1e60
        with warnings.catch_warnings(action="error"):
            assert_sensible(model, blocks)

    @pytest.mark.parametrize("size", [1e-300, 1e300])
    def test_units_of_targets(self, size):
        codes = np.arange(40) % 2
        X, y = views_of(codes), codes + np.random.default_rng(0).normal(size=40)
        one = kq.QuiltRegressor(random_state=0).fit(X, y).predict(X)
        with warnings.catch_warnings(action="error"):
            other = kq.QuiltRegressor(random_state=0).fit(X, size * y).predict(X)
        np.testing.assert_allclose(other / size, one, rtol=1e-6)


class TestRandomness:
    def test_random_state_is_that_of_scikit_learn(self):
        codes = np.arange(40) % 2
        X = views_of(codes)

        def fitted(state):
            model = kq.QuiltClassifier(random_state=state).fit(X, codes)
            # the forest itself, as it may have no weight
            return np.hstack([model.predict_proba(X), model.experts_[0].out_of_sample])

        np.testing.assert_array_equal(fitted(3), fitted(3))
        assert (fitted(None) != fitted(None)).any()
        state = np.random.RandomState(3)
        first = fitted(state)
        np.testing.assert_array_equal(first, fitted(3))
        assert (fitted(state) != first).any()
        model = kq.QuiltClassifier(random_state=3).fit(X, codes)
        again = pickle.loads(pickle.dumps(model)), clone(model).fit(X, codes)
        for other in again:
            np.testing.assert_array_equal(other.predict_proba(X), first[:, :2])

    def test_experts_draw_each_for_itself_and_repeatably(self):
        codes = np.random.default_rng(0).integers(2, size=40)
        X = views_of(codes)
        bags = BaggingClassifier(DecisionTreeClassifier(max_features=1), 5)
        pipeline = make_pipeline(SimpleImputer(keep_empty_features=True), bags)
        model = kq.QuiltClassifier(experts=[pipeline, pipeline], random_state=0)
        one, other = (each.out_of_sample for each in model.fit(X, codes).experts_)
        assert (one != other).any()
        np.testing.assert_array_equal(clone(model).fit(X, codes).experts_[0].out_of_sample, one)

    @pytest.mark.parametrize("experts", ["auto", [BOOSTING]])
    def test_n_jobs_changes_no_bit(self, experts):
        codes = np.arange(50) % 3
        X = views_of(codes)
        one, two = (
            kq.QuiltClassifier(experts=experts, random_state=0, n_jobs=n_jobs).fit(X, codes)
            for n_jobs in (None, 2)
        )
        np.testing.assert_array_equal(one.predict_proba(X), two.predict_proba(X))
        np.testing.assert_array_equal(one.experts_[0].out_of_sample, two.experts_[0].out_of_sample)

    def test_the_order_of_views_does_not_matter(self):
        codes = np.arange(50) % 3
        X = views_of(codes)
        turned = X.select(X.names[::-1])
        one, other = (
            kq.QuiltClassifier(random_state=0).fit(data, codes).predict_proba(data)
            for data in (X, turned)
        )
        np.testing.assert_allclose(one, other, atol=1e-8)


class TestWeights:
    def test_a_constant_factor_changes_nothing(self):
        codes = np.arange(40) % 2
        X, weight = views_of(codes), np.random.default_rng(0).random(40)
        one = kq.QuiltClassifier(random_state=0).fit(X, codes, sample_weight=weight)
        for factor in (1e-9, 3.0, 1e9):
            other = kq.QuiltClassifier(random_state=0).fit(X, codes, sample_weight=factor * weight)
            np.testing.assert_allclose(other.predict_proba(X), one.predict_proba(X), atol=1e-7)
            np.testing.assert_array_equal(
                other.experts_[0].out_of_sample, one.experts_[0].out_of_sample
            )

    def test_a_weight_is_a_repetition_for_the_members_that_are_kernels(self):
        codes = np.arange(40) % 2
        X, counts = views_of(codes, share=0.0), np.random.default_rng(0).integers(0, 4, 40)
        rows = np.repeat(np.arange(40), counts)
        weighted = kq.QuiltClassifier(random_state=0).fit(X, codes, sample_weight=counts)
        repeated = kq.QuiltClassifier(random_state=0).fit(X[rows], codes[rows])
        for name in ("early", "late"):
            assert weighted.member_scores_[name] == pytest.approx(
                repeated.member_scores_[name], rel=1e-6
            )
        np.testing.assert_allclose(weighted.reliability_, repeated.reliability_, rtol=1e-5)

    def test_a_class_without_weight(self):
        codes = np.arange(60) % 3
        X = views_of(codes)
        model = kq.QuiltClassifier(random_state=0, cross_fit=True)
        model.fit(X, codes, sample_weight=1.0 * (codes < 2))
        assert_sensible(model, X)
        assert 2 not in model.predict(X)


@pytest.mark.parametrize(
    "labels", [["b", "a"], [True, False], [7, -3], np.array(["x", "y"], dtype=object), [2.0, 1.0]]
)
def test_labels_of_any_kind(labels):
    codes = np.arange(30) % 2
    X, y = views_of(codes), np.asarray(labels)[codes]
    model = kq.QuiltClassifier(random_state=0).fit(X, y)
    np.testing.assert_array_equal(model.classes_, np.unique(y))
    assert model.predict(X).dtype == y.dtype
    assert model.score(X, y) > 0.7


@pytest.mark.parametrize("experts", ["auto", [BOOSTING]])
@pytest.mark.parametrize("cross_fit", [False, True])
@pytest.mark.parametrize("counts", [[30, 1], [2, 1], [1, 1, 1], [5, 2, 1, 1], [3] * 8])
def test_few_samples_of_a_class(counts, cross_fit, experts):
    codes = np.repeat(np.arange(len(counts)), counts)
    X = views_of(codes, share=0.0)
    with warnings.catch_warnings(action="error"):
        if len(counts) > len(codes) / 2:
            warnings.filterwarnings("ignore", ".*greater than 50% of the number of samples")
        model = kq.QuiltClassifier(experts=experts, cross_fit=cross_fit, random_state=0)
        model.fit(X, codes)
    assert_sensible(model, X)


def test_no_one_expects_the_only_sample_of_a_class():
    codes = np.r_[np.zeros(20, int), 1]
    model = kq.QuiltClassifier(experts=[BOOSTING], random_state=0)
    model.fit(views_of(codes, share=0.0), codes)
    np.testing.assert_allclose(model.experts_[0].out_of_sample[-1], [0.99, 0.01])


def test_refits_repeat_no_warning():
    codes = np.arange(40) % 2
    X = views_of(codes)
    blocks = {name: X[name] for name in X.names}
    blocks["rare"] = np.where(np.arange(40)[:, None] < 2, 1.0, np.nan)
    with pytest.warns(UserWarning, match="rare") as caught:
        kq.QuiltClassifier(cross_fit=True, random_state=0).fit(blocks, codes)
    assert len(caught) == 1


def test_columns_without_a_value_in_a_fold():
    # boosting fails on such columns
    codes = np.arange(40) % 2
    blocks = {"a": np.random.default_rng(0).normal(size=(40, 3)) + codes[:, None]}
    blocks["b"] = blocks["a"].copy()
    blocks["b"][1:, 1] = np.nan
    with warnings.catch_warnings(action="error"):
        model = kq.QuiltClassifier(experts=[BOOSTING], random_state=0).fit(blocks, codes)
    assert_sensible(model, blocks)


def test_hundreds_of_categories_and_new_ones():
    codes = np.arange(300) % 2
    rng = np.random.default_rng(0)
    words = pd.DataFrame({"word": rng.choice([f"w{k}" for k in range(250)], 300)})
    blocks = {"words": words, "numbers": rng.normal(size=(300, 2)) + codes[:, None]}
    with warnings.catch_warnings(action="ignore"):
        model = kq.QuiltClassifier(random_state=0).fit(blocks, codes)
    with warnings.catch_warnings(action="error"):
        assert_sensible(model, {**blocks, "words": words.assign(word="new")})


class TestRefused:
    @pytest.mark.parametrize(
        ("experts", "message"),
        [
            ([SVC(probability=True)], r"SVC.*make_pipeline\(SimpleImputer\(\), SVC"),
            ([make_pipeline(LogisticRegression())], "cannot take NaN"),
            ([RandomForestClassifier], r"not classes: RandomForestClassifier\(\)"),
            ([None], "must be classifiers, got None"),
            (["auto"], "must be classifiers, got 'auto'"),
            ([HistGradientBoostingRegressor()], "must be classifiers"),
            ({"forest": RandomForestClassifier()}, "'auto', None or a list"),
            (RandomForestClassifier(), "'auto', None or a list"),
            ("forest", "'auto', None or a list"),
        ],
    )
    def test_before_anything_is_fitted(self, experts, message, monkeypatch):
        codes = np.arange(30) % 2
        monkeypatch.setattr(
            "kernelquilt.quilt.classifier.fit_to_samples", lambda *a, **k: pytest.fail("fitted")
        )
        model = kq.QuiltClassifier(experts=experts)
        with warnings.catch_warnings(action="ignore"), pytest.raises(ValueError, match=message):
            model.fit(views_of(codes), codes)
        assert not hasattr(model, "classes_")

    def test_what_an_expert_says_is_told_with_its_name(self):
        codes = np.arange(30) % 2
        expert = HistGradientBoostingClassifier(max_iter=0)
        with pytest.raises(ValueError, match=r"HistGradient.*6 columns of 30 samples.*max_iter"):
            kq.QuiltClassifier(experts=[expert]).fit(views_of(codes), codes)
