"""The same data in every container give the same model, and a model knows its views."""

import os
import pickle
import re
import subprocess
import sys
import warnings
from functools import partial

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import kernelquilt as kq

pl = pytest.importorskip("polars")
mudata = pytest.importorskip("mudata")

nan = np.nan
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*pull_on_update:FutureWarning"),
    pytest.mark.filterwarnings("ignore:Cannot join columns:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*less than 3 training samples:UserWarning"),
]

# the wide view is one whose distances come from matrix products
SIZES = {"narrow": 2, "wide": 40, "single": 1}
COLUMNS = {name: [f"{name}_{j}" for j in range(size)] for name, size in SIZES.items()}
LABELS = [label for labels in COLUMNS.values() for label in labels]
POSITIONS = {name: [LABELS.index(label) for label in labels] for name, labels in COLUMNS.items()}
ESTIMATORS = [
    kq.LateFusionClassifier(),
    kq.QuiltClassifier(experts=[RandomForestClassifier(30, oob_score=True)], random_state=0),
    kq.mkl.UniformMKLClassifier(),
    kq.mkl.CCAFusion(1, eps=1.0, fusion="vote"),
]


def make_data(seed, n=24):
    """Return identifiers, blocks by view with rows of NaN, and labels; no sample lacks all."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    blocks = {name: rng.standard_normal((n, d)) + y[:, None] for name, d in SIZES.items()}
    absent = rng.random((n, len(SIZES))) < 0.3
    absent[np.arange(n), rng.integers(len(SIZES), size=n)] = False
    absent[:4] = False
    for block, gone in zip(blocks.values(), absent.T, strict=True):
        block[gone] = nan
    return np.array([f"p{i:03d}" for i in range(n)]), blocks, y


def frames_of(samples, blocks):
    return {
        name: pd.DataFrame(block, index=samples, columns=COLUMNS[name])
        for name, block in blocks.items()
    }


def as_two_dimensional(samples, blocks):
    return np.hstack(list(blocks.values()))


def as_frame(samples, blocks):
    return pd.DataFrame(np.hstack(list(blocks.values())), index=samples, columns=LABELS)


def as_multi_index(samples, blocks):
    return pd.concat(frames_of(samples, blocks), axis=1)


def as_joined(samples, blocks):
    """Frames that hold the samples that have the view, in an order of their own."""
    return kq.MultiView.from_frames(
        {name: frame.dropna().iloc[::-1] for name, frame in frames_of(samples, blocks).items()}
    )


def as_polars(samples, blocks):
    return pl.DataFrame(np.hstack(list(blocks.values())), schema=LABELS)


def as_polars_by_view(samples, blocks):
    return {name: pl.DataFrame(block, schema=COLUMNS[name]) for name, block in blocks.items()}


def as_polars_joined(samples, blocks):
    return kq.MultiView.from_frames(
        {
            name: pl.DataFrame(block, schema=COLUMNS[name])
            .with_columns(pl.Series("id", list(samples)))
            .filter(pl.Series(~np.isnan(block).all(axis=1)))
            .reverse()
            for name, block in blocks.items()
        },
        on="id",
    )


def as_arrays(samples, blocks):
    return blocks


def as_round_trip(samples, blocks):
    return kq.MultiView(frames_of(samples, blocks)).to_frame()


def as_garbage(samples, blocks):
    rng = np.random.default_rng(1)
    observed = np.column_stack([~np.isnan(block).all(axis=1) for block in blocks.values()])
    filled = {
        name: np.where(np.isnan(block), 1e6 * rng.standard_normal(block.shape), block)
        for name, block in blocks.items()
    }
    return kq.MultiView(frames_of(samples, filled), observed)


CONTAINERS = {
    as_frame: COLUMNS,
    as_multi_index: None,
    frames_of: None,
    as_joined: None,
    as_polars: COLUMNS,
    as_polars_by_view: None,
    as_polars_joined: None,
    as_arrays: None,
    as_round_trip: None,
    as_garbage: None,
}


def scores_of(estimator, views, X, y, new):
    model = clone(estimator).set_params(views=views).fit(X, y)
    return model.decision_function(new)


@given(seed=st.integers(0, 2**20))
@settings(max_examples=5, deadline=None)
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda each: type(each).__name__)
def test_every_container_gives_the_same_bits(estimator, seed):
    samples, blocks, y = make_data(seed)
    _, new, _ = make_data(seed + 1)
    expected = scores_of(
        estimator,
        POSITIONS,
        as_two_dimensional(samples, blocks),
        y,
        as_two_dimensional(samples, new),
    )
    for container, views in CONTAINERS.items():
        found = scores_of(estimator, views, container(samples, blocks), y, container(samples, new))
        np.testing.assert_array_equal(found, expected, err_msg=container.__name__)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda each: type(each).__name__)
def test_annotated_data_give_the_same_bits(estimator):
    samples, blocks, y = make_data(0)
    # MuData has an order of samples of its own
    mdata = kq.MultiView(frames_of(samples, blocks)).to_mudata()
    X = kq.MultiView(frames_of(samples, blocks)).loc[mdata.obs_names]
    y = pd.Series(y, index=samples).loc[mdata.obs_names]
    np.testing.assert_array_equal(
        scores_of(estimator, None, mdata, y, mdata), scores_of(estimator, None, X, y, X)
    )


@given(seed=st.integers(0, 2**20))
@example(seed=35387)  # a sample alone in a direction that hardly matters
@settings(max_examples=5, deadline=None)
@pytest.mark.parametrize("kernels", ["linear", "median_gaussian", "gaussian", "cosine"])
def test_sparse_views_give_the_same_scores(kernels, seed):
    _, blocks, y = make_data(seed)
    views = kq.MultiView(blocks)
    rng = np.random.default_rng(seed)
    zeros = {
        name: np.where(rng.random(block.shape) < 0.6, 0.0, block) for name, block in blocks.items()
    }
    zeros = {n: np.where(views.present(n)[:, None], b, nan) for n, b in zeros.items()}
    stored = {n: sparse.csr_array(np.nan_to_num(b)) for n, b in zeros.items()}
    dense = kq.MultiView(zeros)
    thin = kq.MultiView(stored, dense.observed)
    for estimator in (
        kq.LateFusionClassifier(kernels=kernels),
        kq.SimpleMKLClassifier(kernels=kernels),
    ):
        one = clone(estimator).fit(dense, y)
        other = clone(estimator).fit(thin, y)
        expected = one.decision_function(dense)
        for model, X in ((other, thin), (other, dense), (one, thin)):
            np.testing.assert_allclose(model.decision_function(X), expected, atol=1e-6)


class TestColumnsAreKnown:
    """What a fitted model is given must have the columns and the views that it knows."""

    @pytest.fixture
    def frames(self):
        samples, blocks, y = make_data(0)
        return frames_of(samples, blocks), y

    @pytest.mark.parametrize(
        "estimator",
        [
            kq.LateFusionClassifier(),
            kq.SimpleMKLClassifier(),
            kq.mkl.CCAFusion(1, eps=1.0),
            make_pipeline(kq.ViewTransformer(), kq.SimpleMKLClassifier()),
            make_pipeline(kq.ViewKernels(), kq.SimpleMKLClassifier()),
            make_pipeline(kq.EmpiricalKernelMap(kernels="linear"), kq.LateFusionClassifier()),
            make_pipeline(kq.mkl.NmCCA(1), kq.LateFusionClassifier()),
        ],
        ids=lambda each: type(each).__name__,
    )
    @pytest.mark.parametrize(
        "container", [kq.MultiView, dict, lambda frames: list(frames.values())]
    )
    def test_other_columns_are_refused(self, estimator, container, frames):
        frames, y = frames
        model = clone(estimator).fit(container(frames), y)
        turned = {**frames, "narrow": frames["narrow"].iloc[:, ::-1]}
        renamed = {**frames, "narrow": frames["narrow"].rename(columns={"narrow_0": "other"})}
        fewer = {**frames, "wide": frames["wide"].drop(columns="wide_7")}
        # a list names its views by position
        name = {"narrow": "view_0", "wide": "view_1"}
        if not isinstance(container(frames), list):
            name = {"narrow": "narrow", "wide": "wide"}
        for wrong, message in (
            (turned, f"'{name['narrow']}' must be in the same order.*'narrow_0', 'narrow_1'"),
            (renamed, f"'{name['narrow']}' .*missing: 'narrow_0'; new: 'other'"),
            (fewer, f"'{name['wide']}' has 39 columns.*fitted with 40; missing: 'wide_7'"),
        ):
            with pytest.raises(ValueError, match=message):
                model.predict(container(wrong))

    def test_unnamed_columns_are_taken_in_their_order_with_a_warning(self, frames):
        frames, y = frames
        arrays = {name: frame.to_numpy() for name, frame in frames.items()}
        of_frames = kq.LateFusionClassifier().fit(frames, y)
        of_arrays = kq.LateFusionClassifier().fit(arrays, y)
        with pytest.warns(UserWarning, match=r"'narrow', .* have no names, but had them at fit"):
            found = of_frames.predict_proba(arrays)
        with pytest.warns(UserWarning, match=r"'narrow', .* have names, but had none at fit"):
            np.testing.assert_array_equal(of_arrays.predict_proba(frames), found)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            of_arrays.predict_proba(arrays)
            of_frames.predict_proba(frames)

    def test_columns_that_change_their_order_do_not_change_the_result_in_silence(self):
        rng = np.random.default_rng(0)
        signs = np.array([1.0, 1, 1, -1, -1, -1])
        y = np.repeat([0, 1], 40)
        frame = pd.DataFrame(
            rng.standard_normal((80, 6)) + np.outer(2 * y, signs), columns=list("abcdef")
        )
        model = kq.LateFusionClassifier().fit(kq.MultiView({"a": frame}), y)
        assert model.score({"a": frame}, y) > 0.9
        with pytest.raises(ValueError, match="same order"):
            model.score({"a": frame[frame.columns[::-1]]}, y)

    def test_an_unknown_view_is_an_error_that_lists_the_known_ones(self, frames):
        frames, y = frames
        model = kq.LateFusionClassifier().fit(frames, y)
        with pytest.raises(
            ValueError, match=r"fitted with 3 \('narrow', 'wide', 'single'\).*'pet'"
        ):
            model.predict({"pet": frames["single"], "narrow": frames["narrow"]})

    @pytest.mark.parametrize(
        "estimator", [*ESTIMATORS, make_pipeline(kq.ViewTransformer(), kq.SimpleMKLClassifier())]
    )
    def test_a_view_that_is_not_handed_over_is_absent(self, estimator, frames):
        frames, y = frames
        model = clone(estimator).fit(frames, y)
        without = {name: frame for name, frame in frames.items() if name != "wide"}
        gone = {**frames, "wide": frames["wide"] * nan}
        expected = model.decision_function(gone)
        for X in (
            without,
            kq.MultiView(without),
            kq.MultiView(frames).select(["single", "narrow"]),
            {name: without[name] for name in reversed(without)},
        ):
            np.testing.assert_array_equal(model.decision_function(X), expected)

    def test_a_shorter_list_is_recognised_by_its_columns(self, frames):
        frames, y = frames
        model = kq.LateFusionClassifier().fit(list(frames.values()), y)
        expected = model.predict_proba(
            [frames["narrow"] * nan, frames["wide"] * nan, frames["single"]]
        )
        np.testing.assert_array_equal(model.predict_proba([frames["single"]]), expected)
        with pytest.raises(ValueError, match=r"list of 1 views.*fitted with 3.*pass a dict"):
            model.predict([frames["single"].to_numpy()])

    def test_a_view_that_is_none_is_absent(self, frames):
        frames, y = frames
        model = kq.LateFusionClassifier().fit(frames, y)
        np.testing.assert_array_equal(
            model.predict_proba({**frames, "wide": None}),
            model.predict_proba({**frames, "wide": frames["wide"] * nan}),
        )

    def test_frames_without_names_of_views_are_recognised_by_their_columns(self, frames):
        frames, y = frames
        model = kq.LateFusionClassifier().fit(frames, y)
        expected = model.predict_proba({"narrow": frames["narrow"]})
        np.testing.assert_array_equal(model.predict_proba(frames["narrow"]), expected)
        np.testing.assert_array_equal(model.predict_proba([frames["narrow"]]), expected)
        np.testing.assert_array_equal(
            model.predict_proba([frames["wide"], frames["single"], frames["narrow"]]),
            model.predict_proba(frames),
        )
        for wrong, what in (
            (pd.concat(frames.values(), axis=1), "2-D data"),
            (frames["narrow"].to_numpy(), "2-D data"),
            ([frame.to_numpy() for frame in frames.values()], "a list of 3 views"),
        ):
            with pytest.raises(ValueError, match=rf"X is {what}.*'narrow', .*pass a dict"):
                model.predict(wrong)

    @pytest.mark.parametrize("container", [as_frame, as_multi_index, as_polars])
    def test_a_frame_without_the_columns_of_a_view(self, container):
        samples, blocks, y = make_data(3)
        whole = container(samples, blocks)
        model = kq.LateFusionClassifier(views=CONTAINERS[container]).fit(whole, y)
        gone = container(samples, {**blocks, "single": blocks["single"] * nan})
        part = whole[:, :-1] if container is as_polars else whole.iloc[:, :-1]
        np.testing.assert_array_equal(model.predict_proba(part), model.predict_proba(gone))
        in_part = part[:, 1:] if container is as_polars else part.iloc[:, 1:]
        with pytest.raises(ValueError, match="feature names should match"):
            model.predict(in_part)

    def test_sparse_views_that_are_not_handed_over(self):
        rng = np.random.default_rng(0)
        words = sparse.random_array((30, 50), density=0.2, rng=rng, format="csr")
        views = {"text": words, "age": rng.standard_normal((30, 1))}
        model = kq.LateFusionClassifier(kernels="linear").fit(views, np.arange(30) % 2)
        assert model.predict_proba({"age": views["age"]}).shape == (30, 2)
        assert model.predict_proba({"text": words.tocoo()[:3]}).shape == (3, 2)


class TestLabelsBelongToSamples:
    @pytest.fixture
    def data(self):
        samples, blocks, y = make_data(0, n=40)
        return as_frame(samples, blocks), pd.Series(y, index=samples)

    @pytest.mark.parametrize("form", ["frame", "views", "mudata"])
    @pytest.mark.parametrize("estimator", [kq.LateFusionClassifier(), kq.SimpleMKLClassifier()])
    def test_another_order(self, data, form, estimator):
        frame, y = data
        X = frame
        if form == "frame":
            estimator = clone(estimator).set_params(views=COLUMNS)
        else:
            X = kq.MultiView.from_frame(frame, COLUMNS)
            X = X.to_mudata() if form == "mudata" else X
        y = y.loc[X.obs_names if form == "mudata" else frame.index]
        other = y.sample(frac=1, random_state=0)
        with pytest.raises(ValueError, match=r"same 40 samples.*another order.*y\.loc\[X\.index\]"):
            estimator.fit(X, other)
        # the parts of a fold hold other samples, so that neither holds all of the other
        with pytest.raises(ValueError, match=r"in common.*y\.loc\[X\.index\]"):
            cross_val_score(estimator, X, other, cv=3, error_score="raise")
        assert estimator.fit(X, other.loc[y.index]).score(X, y) > 0.6
        with pytest.raises(ValueError, match=r"another order.*y\.loc\[X\.index\]"):
            estimator.score(X, other)
        assert len(cross_val_score(estimator, X, y, cv=3, error_score="raise")) == 3

    def test_lists_have_no_index(self, data):
        frame, y = data
        blocks = [frame.iloc[:, :2].to_numpy(), frame.iloc[:, 2:].to_numpy()]
        model = kq.LateFusionClassifier().fit(blocks, y)
        assert model.score(blocks, y) == model.score(blocks, y.to_list())

    def test_labels_of_some_samples(self, data):
        frame, y = data
        X = kq.MultiView.from_frame(frame, COLUMNS)
        some = y.iloc[[3, 2, 9, 10, 11, 20, 21, 30, 33]]
        with pytest.raises(ValueError, match=r"only 9 of the 40 .*X\.loc\[y\.index\] and y$"):
            kq.LateFusionClassifier().fit(X, some)
        assert kq.LateFusionClassifier().fit(X.loc[some.index], some).classes_.tolist() == [0, 1]
        with pytest.raises(ValueError, match=r"31 samples more than X.*y\.loc\[X\.index\]"):
            kq.LateFusionClassifier().fit(X.loc[some.index], y)
        with pytest.raises(ValueError, match=r"y\.loc\[X\.index\]"):
            kq.ViewTransformer().fit(X, y.iloc[::-1])

    @pytest.mark.parametrize(
        "transformer",
        [kq.ViewKernels(), kq.EmpiricalKernelMap(kernels="linear"), kq.mkl.NmCCA(1)],
        ids=lambda each: type(each).__name__,
    )
    def test_transformers_know_names_that_their_output_lacks(self, data, transformer):
        frame, y = data
        X = kq.MultiView.from_frame(frame, COLUMNS)
        for fit in (clone(transformer).fit, clone(transformer).fit_transform):
            with pytest.raises(ValueError, match=r"another order; pass y\.loc\[X\.index\]"):
                fit(X, y.iloc[::-1])
            fit(X, y)

    def test_weights_belong_to_samples_too(self, data):
        frame, y = data
        X = kq.MultiView.from_frame(frame, COLUMNS)
        weight = pd.Series(np.arange(1.0, 41.0), index=y.index)
        for model in (kq.LateFusionClassifier(), kq.SimpleMKLClassifier(), kq.ViewKernels()):
            with pytest.raises(ValueError, match=r"pass sample_weight\.loc\[X\.index\]"):
                model.fit(X, y, sample_weight=weight.iloc[::-1])

    def test_names_of_other_samples_are_noticed(self, data):
        frame, y = data
        X = kq.MultiView.from_frame(frame, COLUMNS)
        with pytest.warns(UserWarning, match=r"none of the names.*'q000', ... instead of 'p000'"):
            kq.LateFusionClassifier().fit(X, y.rename("q{0[1]}{0[2]}{0[3]}".format))

    @pytest.mark.parametrize("kind", ["string", "Int64", "object", "float64", "category"])
    def test_missing_labels_are_counted(self, data, kind):
        frame, y = data
        X = kq.MultiView.from_frame(frame, COLUMNS)
        y = y.astype(kind) if kind in ("Int64", "float64") else y.astype(str).astype(kind)
        y.iloc[[3, 5]] = None
        with pytest.raises(ValueError, match=r"y contains NaN: 2 of 40 samples.*y\.notna\(\)"):
            kq.LateFusionClassifier().fit(X, y)
        keep = y.notna().to_numpy()
        assert len(kq.LateFusionClassifier().fit(X[keep], y[keep]).classes_) == 2

    def test_what_has_no_names_is_taken_in_its_order(self, data):
        frame, y = data
        model = kq.LateFusionClassifier(views=COLUMNS)
        plain = model.fit(frame, y.to_numpy()).predict_proba(frame)
        for X, labels in (
            (frame, y.reset_index(drop=True)),
            (frame.reset_index(drop=True), y),
            (frame.reset_index(drop=True), y.reset_index(drop=True)),
            (frame, y.to_list()),
            (frame.to_numpy(), y),
        ):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # feature names
                views = POSITIONS if isinstance(X, np.ndarray) else COLUMNS
                found = kq.LateFusionClassifier(views=views).fit(X, labels).predict_proba(X)
            np.testing.assert_array_equal(found, plain)
            assert len(cross_val_score(model, frame, labels, cv=3, error_score="raise")) == 3

    def test_dates_are_identifiers(self, data):
        frame, y = data
        days = pd.date_range("2020-01-01", periods=len(y))
        X = kq.MultiView.from_frames({"a": frame.set_axis(days)[COLUMNS["narrow"]].dropna()})
        dated = y.set_axis(days)
        kq.LateFusionClassifier().fit(X, dated.loc[X.index])
        with pytest.raises(ValueError, match="another order"):
            kq.LateFusionClassifier().fit(X, dated.loc[X.index].iloc[::-1])
        plain = frame.set_axis(days).fillna(0.0)
        with pytest.raises(ValueError, match="another order"):
            kq.LateFusionClassifier().fit(plain, dated.iloc[::-1])


def clinical_frame(n, seed=0):
    """Return a frame with columns of every type, with missing cells, and labels."""
    rng = np.random.default_rng(seed)
    y = rng.integers(2, size=n)
    frame = pd.DataFrame(
        {
            "age": 60 + 5 * y + rng.standard_normal(n),
            "sex": rng.choice(["f", "m"], n),
            "smoker": rng.choice([True, False], n),
            "children": pd.array(rng.integers(0, 4, n), dtype="Int64"),
            "stage": pd.Categorical(np.where(y + rng.integers(2, size=n) > 1, "II", "I")),
            "grade": pd.Categorical(rng.integers(1, 4, n)),
            "treated": pd.array(rng.choice([True, False], n), dtype="boolean"),
        }
    )
    frame.loc[3, "age"] = nan
    frame.loc[[4, 9], "sex"] = None
    frame.loc[5, "children"] = pd.NA
    frame.loc[6, "stage"] = nan
    frame.loc[7, "treated"] = pd.NA
    return frame, y


QUILTS = [
    pytest.param(partial(kq.QuiltClassifier, random_state=0), id="QuiltClassifier"),
    kq.LateFusionClassifier,
    kq.quilt.LpMKLRidgeClassifier,
]
every_quilt = pytest.mark.parametrize("classifier", QUILTS)


class TestPreparation:
    @pytest.fixture
    def data(self):
        clinic, y = clinical_frame(60)
        rna = pd.DataFrame(np.random.default_rng(1).standard_normal((60, 3)) + y[:, None])
        rna.iloc[:50:4] = nan
        clinic = clinic.iloc[:50].reindex(range(60))
        return kq.MultiView({"clinic": clinic, "rna": rna.rename(columns="g{}".format)}), y

    @every_quilt
    def test_raw_frames(self, classifier, data):
        X, y = data
        assert not X.observed.all()
        assert cross_val_score(classifier(), X, y, cv=3, error_score="raise").mean() > 0.6
        model = classifier().fit(X, y)
        again = pickle.loads(pickle.dumps(model))
        np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
        assert model.preparation_.transform(X)["clinic"].shape[0] == 60
        search = GridSearchCV(classifier(), {"class_weight": [None, "balanced"]}, cv=3).fit(X, y)
        assert search.predict(X[:2]).shape == (2,)

    def test_regression(self, data):
        X, y = data
        assert kq.QuiltRegressor().fit(X, y).score(X, y) > 0.3
        with pytest.raises(ValueError, match=r"'clinic': column 'sex' .*'[fm]'.*ViewTransformer"):
            kq.QuiltRegressor(prepare=None).fit(X, y)

    @every_quilt
    def test_categories_and_cells_that_are_not_known_from_training(self, classifier, data):
        X, y = data
        model = classifier().fit(X[:40], y[:40])
        clinic = X.given("clinic").iloc[40:45]
        new = clinic.astype({"stage": str, "grade": object}).assign(stage="IV", grade=9, sex="x")
        assert np.isfinite(model.predict_proba({"clinic": new})).all()
        complete = X["rna"].copy()
        complete[:, 0] = nan
        assert np.isfinite(
            model.predict_proba({"rna": pd.DataFrame(complete, columns=["g0", "g1", "g2"])})
        ).all()

    @every_quilt
    def test_garbage_in_absent_cells_changes_no_bit(self, classifier, data):
        X, y = data
        clinic, _ = clinical_frame(60, seed=5)
        dirty = X.given("clinic").copy()
        dirty.iloc[50:] = clinic.astype(dirty.dtypes).iloc[50:]
        garbage = kq.MultiView({"clinic": dirty, "rna": X.given("rna")}, X.observed)
        np.testing.assert_array_equal(
            classifier().fit(garbage, y).predict_proba(garbage),
            classifier().fit(X, y).predict_proba(X),
        )

    @every_quilt
    def test_complete_numbers_stay_as_they_are(self, classifier):
        _, blocks, y = make_data(0)
        alone = classifier(prepare=None).fit(blocks, y).predict_proba(blocks)
        np.testing.assert_array_equal(classifier().fit(blocks, y).predict_proba(blocks), alone)

    @every_quilt
    def test_statistics_are_those_of_training_samples_with_weight(self, classifier, data):
        X, y = data
        counts = np.random.default_rng(0).integers(0, 3, len(y))
        rows = np.repeat(np.arange(len(y)), counts)
        weighted = classifier().fit(X, y, sample_weight=counts).preparation_
        repeated = classifier().fit(X[rows], y[rows]).preparation_
        for name in X.names:
            np.testing.assert_allclose(weighted.transform(X)[name], repeated.transform(X)[name])

    @pytest.mark.parametrize("library", [pd, pl])
    def test_both_libraries_of_frames_are_prepared_alike(self, library):
        clinic, _ = clinical_frame(60)
        if library is pl:
            values = {c: [None if pd.isna(v) else v for v in clinic[c]] for c in clinic}
            values["grade"] = [None if v is None else str(v) for v in values["grade"]]
            found = kq.ViewTransformer().fit_transform({"clinic": pl.DataFrame(values)})
        else:
            found = kq.ViewTransformer().fit_transform({"clinic": clinic})
        block = found["clinic"]
        # age, smoker, children, treated; f, m, none; I, II, none; 1, 2, 3
        assert block.shape == (60, 4 + 3 + 3 + 3)
        np.testing.assert_allclose(block[:, :4].mean(axis=0), 0.0, atol=1e-12)
        assert block[3, 0] == pytest.approx(0.0, abs=1e-12)
        np.testing.assert_array_equal(block[:, 4:].sum(axis=1), 3.0)
        assert block[[4, 9], 6].tolist() == [1.0, 1.0]

    def test_any_encoder_sees_names_and_types(self, data):
        X, y = data
        seen = []

        class Encoder(OneHotEncoder):
            def fit(self, X, y=None):
                seen.append((type(X), list(X.columns), X["stage"].dtype.name))
                return super().fit(X, y)

        encode = kq.ViewTransformer({"clinic": Encoder(handle_unknown="ignore"), "rna": "auto"})
        model = make_pipeline(encode, kq.SimpleMKLClassifier(kernels="linear"))
        assert cross_val_score(model, X, y, cv=3, error_score="raise").mean() > 0.6
        assert seen[0] == (pd.DataFrame, list(X.columns["clinic"]), "category")

    def test_dates_are_refused_with_the_remedy(self, data):
        X, y = data
        dated = X.given("clinic").assign(visit=pd.Timestamp("2020-02-03"))
        for model in (kq.LateFusionClassifier(), kq.SimpleMKLClassifier(), kq.ViewTransformer()):
            with pytest.raises(ValueError, match=r"'clinic': column '(visit|sex)'"):
                model.fit({"clinic": dated}, y)
        with pytest.raises(ValueError, match=r"'c': column 'visit' holds dates.*'2020-02-03.*days"):
            kq.SimpleMKLClassifier().fit({"c": dated[["visit"]]}, y)

    @pytest.mark.parametrize("library", [pd, pl])
    def test_dates_as_text(self, library):
        days = [f"2020-01-{day:02}" for day in range(1, 31)]
        frame = library.DataFrame({"visit": days, "age": np.arange(30.0)})
        with pytest.raises(ValueError, match=r"'c': column 'visit' holds dates.*'2020-01-01'"):
            kq.LateFusionClassifier().fit({"c": frame}, np.arange(30) % 2)

    @pytest.mark.parametrize("library", [pd, pl])
    def test_cells_that_are_neither_numbers_nor_text(self, library):
        frame = library.DataFrame({"scan": [[1.0, 2.0]] * 30})
        with pytest.raises(ValueError, match=r"'c': column 'scan' holds cells of type"):
            kq.LateFusionClassifier().fit({"c": frame}, np.arange(30) % 2)

    @pytest.mark.parametrize(
        ("written", "other"), [("{}", "?"), ("<{}.5", "unknown"), ("{},5", None), ("{} %", "n.d.")]
    )
    def test_numbers_that_are_text_are_noticed(self, written, other):
        column = [written.format(number) for number in range(12)] * 3 + [other] * 4
        frame = pd.DataFrame({"lab": column, "age": np.arange(40.0)})
        why = f"because of values such as '{re.escape(other)}', " if other else ""
        with pytest.warns(UserWarning, match=f"'lab' is taken as categories, {why}but most of its"):
            kq.ViewTransformer().fit({"c": frame})
        few = pd.DataFrame({"grade": ["1", "2", "3", "?"] * 10})
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            kq.ViewTransformer().fit({"c": few})

    def test_identifiers_among_the_columns_are_noticed(self, data):
        X, y = data
        named = X.given("clinic").assign(name=[f"patient {i}" for i in range(60)])
        with pytest.warns(UserWarning, match="'name' has 60 different values in 60 samples"):
            kq.LateFusionClassifier().fit({"clinic": named}, y)

    def test_numbers_that_become_strings(self, data):
        X, y = data
        model = kq.LateFusionClassifier().fit(X, y)
        with pytest.raises(ValueError, match=r"'clinic': column 'age' is not numeric.*'old'"):
            model.predict({"clinic": X.given("clinic").assign(age="old")})
        with pytest.raises(ValueError, match="'clinic': columns 'age' have infinite"):
            model.predict({"clinic": X.given("clinic").assign(age=np.inf)})

    def test_columns_without_any_value_in_training_do_not_count(self):
        rng = np.random.default_rng(0)
        frame = pd.DataFrame({"a": rng.standard_normal(30), "b": nan, "c": None})
        y = (frame["a"] > 0).to_numpy()
        model = kq.LateFusionClassifier().fit({"x": frame}, y)
        other = frame.assign(b=1e9, c="word")
        np.testing.assert_array_equal(
            model.predict_proba({"x": other}), model.predict_proba({"x": frame})
        )

    @every_quilt
    def test_one_view_with_missing_cells(self, classifier):
        rng = np.random.default_rng(0)
        y = np.arange(50) % 2
        X = rng.standard_normal((50, 4)) + 2 * y[:, None]
        X[rng.random(X.shape) < 0.1] = nan
        X[7] = nan
        with pytest.warns(UserWarning, match="1 of 50 training samples have no observed view"):
            assert classifier().fit(X, y).score(X, y) > 0.8
        assert classifier().__sklearn_tags__().input_tags.allow_nan
        assert not classifier(prepare=None).__sklearn_tags__().input_tags.allow_nan
        with pytest.raises(ValueError, match="NaN for"), warnings.catch_warnings():
            classifier(prepare=None).fit(X, y)
        with pytest.raises(ValueError, match="prepare"):
            classifier(prepare="all").fit(X, y)


def test_sparse_pipelines():
    from sklearn.decomposition import TruncatedSVD

    words = sparse.random_array((40, 200), density=0.1, rng=np.random.default_rng(0), format="csr")
    y = (np.asarray(words[:, :20].sum(axis=1)).ravel() > 1.0).astype(int)
    views = kq.MultiView({"text": words, "age": np.arange(40.0)[:, None]})
    reduced = kq.ViewTransformer({"text": TruncatedSVD(5, random_state=0)})
    assert (
        cross_val_score(make_pipeline(reduced, kq.SimpleMKLClassifier()), views, y, cv=3).mean() > 0
    )
    assert cross_val_score(kq.LateFusionClassifier(kernels="cosine"), words, y, cv=3).mean() > 0
    with pytest.raises(
        ValueError, match=r"'text' \(sparse; dense it would take .* GiB\): Cannot center"
    ):
        kq.ViewTransformer({"text": StandardScaler()}).fit(views)
    with pytest.raises(ValueError, match=r"'text' is sparse, but NmCCA needs dense.*TruncatedSVD"):
        kq.mkl.NmCCA(1).fit(views)
    with pytest.raises(ValueError, match=r"'text' is sparse, but LocalizedMKLClassifier"):
        kq.mkl.LocalizedMKLClassifier().fit(views, y)
    assert kq.mkl.MHKSClassifier(kernels="linear").fit(words, y).score(words, y) > 0.5


@pytest.mark.parametrize("classifier", [kq.SimpleMKLClassifier, kq.QuiltClassifier])
def test_arrays_with_three_dimensions(classifier):
    K = np.array([np.eye(12), np.ones((12, 12)), np.eye(12)])
    y = np.arange(12) % 2
    with pytest.raises(ValueError, match=r"dim 3 \(shape \(3, 12, 12\)\).*KernelStack\(X\)"):
        classifier().fit(K, y)
    with pytest.raises(ValueError, match=r"\(M, n, n\), make a KernelStack\(K\)"):
        classifier(kernels="precomputed").fit(K, y)
    model = kq.SimpleMKLClassifier(kernels="precomputed").fit(np.moveaxis(K, 0, -1), y)
    with pytest.raises(ValueError, match=r"\(n_rows, n_train, M\), kernels last"):
        model.predict(K)
    with pytest.raises(ValueError, match=r"view 'mri'.*dim 4.*reshape\(len\(X\), -1\)"):
        classifier().fit({"mri": np.ones((12, 2, 2, 2))}, y)


def test_annotated_data_are_never_iterated():
    samples, blocks, y = make_data(0)
    mdata = kq.MultiView(frames_of(samples, blocks)).to_mudata()
    y = pd.Series(y, index=samples).loc[mdata.obs_names]
    assert kq.LateFusionClassifier().fit(mdata, y).score(mdata, y) > 0.8
    assert cross_val_score(kq.LateFusionClassifier(), mdata, y, cv=3).mean() > 0.5
    alone = mdata.mod["wide"]
    assert kq.as_views(alone).names == ("X",)
    for wrong in (
        lambda: kq.SimpleMKLClassifier(kernels="precomputed").fit(mdata, y),
        lambda: kq.MultiView(dict(mdata.mod)),
        lambda: kq.MultiView.from_frames(dict(mdata.mod)),
        lambda: kq.MultiView(mdata),
    ):
        with pytest.raises(ValueError, match=r"MuData|from_mudata"):
            wrong()


IN_ARRAY_API = """
import numpy as np
import sklearn
import kernelquilt as kq

y = np.arange(40) % 2
rng = np.random.default_rng(0)
views = kq.MultiView({name: rng.standard_normal((40, 2)) + y[:, None] for name in "ab"})
inputs = [views, kq.ViewKernels().fit_transform(views), np.hstack([views["a"], views["b"]])]
try:
    sklearn.set_config(array_api_dispatch=True)
except ImportError as error:
    raise SystemExit(f"left out: {error}")
for model in (
    kq.SimpleMKLClassifier(),
    kq.LpMKLRegressor(),
    kq.QuiltClassifier(experts=None),
    kq.QuiltRegressor(experts=None),
    kq.LateFusionClassifier(),
    kq.mkl.CCAFusion(),
):
    for X in inputs:
        assert model.fit(X, y).predict(X).shape == (40,), model
        assert model.score(X, y) > 0.6, model
"""


def test_array_api_dispatch_of_scikit_learn_is_of_no_consequence():
    done = subprocess.run(
        [sys.executable, "-c", IN_ARRAY_API],
        env={**os.environ, "SCIPY_ARRAY_API": "1"},
        capture_output=True,
        encoding="utf-8",
        timeout=300,
    )
    if done.stderr.startswith("left out"):
        pytest.skip(done.stderr)
    assert done.returncode == 0, done.stderr
