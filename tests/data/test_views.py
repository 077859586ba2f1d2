import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.compose import make_column_selector
from sklearn.exceptions import NotFittedError
from sklearn.feature_selection import SelectKBest
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV, KFold, train_test_split
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils import _safe_indexing

import kernelquilt as kq
from kernelquilt.core.limits import unchanged_on_error
from kernelquilt.data.new_samples import match_views
from kernelquilt.data.transformer import ViewTransformer
from kernelquilt.data.validation import as_views, validate_views
from kernelquilt.data.views import MultiView

nan = np.nan


@pytest.fixture
def blocks():
    rng = np.random.default_rng(0)
    mri, rna = rng.normal(size=(6, 3)), rng.normal(size=(6, 2))
    mri[[1, 4]] = nan
    return {"mri": mri, "rna": rna}


@pytest.fixture
def frame():
    return pd.DataFrame(
        {"a": [1.0, nan, 3.0], "b": [4.0, nan, 6.0], "c": [7.0, 8.0, 9.0], "label": list("xyz")},
        index=["s1", "s2", "s3"],
    )


class TestMultiView:
    def test_dict_infers_absence_from_nan_rows(self, blocks):
        X = MultiView(blocks)
        assert X.shape == (6, 2)
        assert len(X) == 6
        assert X.names == ("mri", "rna")
        assert X.index is None
        assert X.observed[:, 0].tolist() == [True, False, True, True, False, True]
        assert X.observed[:, 1].all()
        np.testing.assert_array_equal(X["mri"], blocks["mri"])

    def test_list_is_named_by_position_and_converted(self):
        X = MultiView([np.ones((2, 1), dtype=int), [[1, 2], [3, 4]]])
        assert X.names == ("view_0", "view_1")
        assert X["view_0"].dtype == X["view_1"].dtype == np.float64

    def test_partial_nan_is_allowed_and_observed(self):
        X = MultiView({"a": [[1.0, nan], [nan, nan]]})
        assert X.observed.ravel().tolist() == [True, False]

    def test_explicit_mask_hides_garbage_without_changing_the_input(self):
        block = np.array([[1.0, 2.0], [np.inf, 5.0]])
        X = MultiView({"a": block}, observed=[[True], [False]])
        assert np.isnan(X["a"][1]).all()
        assert block[1, 1] == 5.0

    def test_block_is_not_copied_without_need(self, blocks):
        X = MultiView(blocks, observed=MultiView(blocks).observed)
        assert np.shares_memory(X["mri"], blocks["mri"])

    @pytest.mark.parametrize(
        ("observed", "message"),
        [
            (np.ones((6, 3), dtype=bool), r"shape \(6, 2\) .*views.*got \(6, 3\)"),
            (np.ones((6, 2)), "boolean.*float64"),
            (np.ones((6, 2), dtype=bool), "'mri' is marked as observed.*NaN for 2 of 6 samples"),
        ],
    )
    def test_wrong_mask(self, blocks, observed, message):
        with pytest.raises(ValueError, match=message):
            MultiView(blocks, observed=observed)

    @pytest.mark.parametrize(
        ("block", "message"),
        [
            (np.arange(3.0), "(?s)'bad'.*[Rr]eshape"),
            (np.ones((3, 1, 1)), "'bad'.*dim 3"),
            (np.ones((3, 2)) * 1j, "'bad'.*[Cc]omplex"),
            (np.array([["u"], ["v"], ["w"]]), "'bad'"),
            (1j * sparse.eye(3), "'bad'.*real numbers"),
            (sparse.csr_array((3, 0)), "'bad'.*0 feature"),
            (sparse.csr_array([[nan], [1.0], [0.0]]), "'bad' is sparse and has 1 cells of NaN"),
            (sparse.csr_array([[np.inf], [1.0], [0.0]]), "'bad' has 1 infinite.* in 1 of 3"),
            (pd.DataFrame(index=range(3)), "'bad'.*0 feature"),
            (np.ones((3, 0)), "'bad'.*0 feature"),
            ([[1.0], [np.inf], [-np.inf]], "'bad' has 2 infinite values .*inf.* in 2 of 3 samples"),
        ],
    )
    def test_wrong_block(self, block, message):
        with pytest.raises(ValueError, match=message):
            MultiView({"good": np.ones((3, 1)), "bad": block})

    def test_no_views_and_no_collection(self):
        with pytest.raises(ValueError, match="at least one view"):
            MultiView({})
        with pytest.raises(ValueError, match="as_views"):
            MultiView(np.ones((3, 2)))

    def test_different_lengths_are_named(self):
        with pytest.raises(ValueError, match="'a' has 3, 'b' has 2"):
            MultiView({"a": np.ones((3, 1)), "b": np.ones((2, 1))})

    def test_names_that_become_equal(self):
        with pytest.raises(ValueError, match="repeated: '1'"):
            MultiView({1: np.ones((2, 1)), "1": np.ones((2, 1))})

    @pytest.mark.parametrize(
        ("rows", "expected"),
        [
            (2, [2]),
            (-1, [5]),
            (np.int64(3), [3]),
            (slice(1, 4), [1, 2, 3]),
            (slice(None, None, -2), [5, 3, 1]),
            ([0, 0, 5], [0, 0, 5]),
            ([], []),
            (np.array([4, 1]), [4, 1]),
            ([True, False, False, True, False, False], [0, 3]),
            ((np.array([1, 2]), ...), [1, 2]),
            ((1, ...), [1]),
        ],
    )
    def test_rows(self, blocks, rows, expected):
        X = MultiView(blocks, index=list("uvwxyz"))[rows]
        assert X.shape == (len(expected), 2)
        np.testing.assert_array_equal(X["mri"], blocks["mri"][expected])
        np.testing.assert_array_equal(X.observed, MultiView(blocks).observed[expected])
        assert X.index.tolist() == [list("uvwxyz")[i] for i in expected]

    @pytest.mark.parametrize("rows", [6, -7, [0, 6], [True, False], 1.5, None, (1, 2), [[0, 1]]])
    def test_wrong_rows(self, blocks, rows):
        with pytest.raises(IndexError):
            MultiView(blocks)[rows]

    def test_unknown_view(self, blocks):
        with pytest.raises(KeyError, match=r"no view 'pet'.*'mri', 'rna'"):
            MultiView(blocks)["pet"]
        with pytest.raises(ValueError, match="no view 'pet'"):
            MultiView(blocks).select(["pet"])

    def test_select_reorders_without_copy(self, blocks):
        X = MultiView(blocks).select(["rna", "mri"])
        assert X.names == ("rna", "mri")
        assert X.observed[1].tolist() == [True, False]
        assert np.shares_memory(X["mri"], blocks["mri"])

    def test_is_neither_array_nor_iterable(self, blocks):
        X = MultiView(blocks)
        with pytest.raises(TypeError, match="not an array"):
            np.asarray(X)
        with pytest.raises(TypeError, match="not iterable"):
            iter(X)

    def test_repr(self, blocks):
        text = repr(MultiView(blocks))
        assert "6 samples, 2 views, 16.7 % absent, 2 distinct patterns" in text
        assert "mri       3 columns  33.3 % absent" in text
        assert "0 samples" in repr(MultiView(blocks)[:0])
        assert "6 samples, 1 view, " in repr(MultiView(blocks).select(["mri"]))

    def test_pickle(self, blocks):
        X = pickle.loads(pickle.dumps(MultiView(blocks, index=range(6))))
        np.testing.assert_array_equal(X["mri"], blocks["mri"])
        assert X.index.tolist() == list(range(6))

    def test_scikit_learn_slicing(self, blocks):
        X = MultiView(blocks)
        for train, test in KFold(3).split(X):
            assert len(_safe_indexing(X, train)) == 4
            assert len(_safe_indexing(X, test)) == 2
        assert len(train_test_split(X, test_size=2, random_state=0)[1]) == 2

    @given(
        block=arrays(np.float64, (5, 2), elements=st.floats(-1e6, 1e6)),
        mask=arrays(np.bool_, (5, 1)),
        rows=st.lists(st.integers(0, 4), max_size=7),
    )
    def test_garbage_in_absent_rows_leaves_no_trace(self, block, mask, rows):
        other = np.where(mask, block, -block + 1)
        views = [MultiView({"a": b}, observed=mask)[rows] for b in (block, other)]
        np.testing.assert_array_equal(views[0]["a"], views[1]["a"])
        np.testing.assert_array_equal(np.isnan(views[0]["a"]).all(axis=1), ~mask[rows, 0])


class TestFrames:
    def test_from_frames_joins_on_the_index(self):
        a = pd.DataFrame({"x": [1.0, 2.0]}, index=["s2", "s1"])
        b = pd.DataFrame({"y": [3.0, 4.0], "z": [5.0, 6.0]}, index=["s3", "s2"])
        X = MultiView.from_frames({"a": a, "b": b})
        assert X.index.tolist() == ["s1", "s2", "s3"]
        np.testing.assert_array_equal(X["a"], [[2], [1], [nan]])
        np.testing.assert_array_equal(X["b"], [[nan, nan], [4, 6], [3, 5]])
        assert X[[2]].index.tolist() == ["s3"]

    def test_from_frames_with_tuples_as_identifiers(self):
        index = pd.MultiIndex.from_tuples([("p", 1), ("q", 2)])
        X = MultiView.from_frames({"a": pd.DataFrame({"x": [1.0, 2.0]}, index=index)})
        assert X.index.tolist() == [("p", 1), ("q", 2)]

    def test_from_frames_refuses_repeated_samples(self):
        frame = pd.DataFrame({"x": [1.0, 2.0, 3.0]}, index=["s", "s", "t"])
        with pytest.raises(ValueError, match="'a': 1 sample identifiers"):
            MultiView.from_frames({"a": frame})
        with pytest.raises(ValueError, match="'b' is not a data frame"):
            MultiView.from_frames({"b": np.ones((2, 2))})

    def test_frames_with_different_indexes_are_not_put_side_by_side(self):
        a = pd.DataFrame({"x": [1.0, 2.0]}, index=["s1", "s2"])
        with pytest.raises(ValueError, match=r"'a' and 'b'.*from_frames"):
            MultiView({"a": a, "b": a.iloc[::-1]})
        assert MultiView({"a": a, "b": a, "c": np.ones((2, 1))}).index.tolist() == ["s1", "s2"]
        with pytest.raises(ValueError, match="index has shape"):
            MultiView({"a": a}, index=["s1"])

    def test_from_frame(self, frame):
        X = MultiView.from_frame(frame, {"ab": ["a", "b"], "c": "c"})
        assert X.index.tolist() == ["s1", "s2", "s3"]
        assert X.observed.tolist() == [[True, True], [False, True], [True, True]]
        with pytest.raises(ValueError, match="views="):
            MultiView.from_frame(frame[["a", "b"]])

    def test_from_frame_keeps_partial_nan(self):
        frame = pd.DataFrame({"a": [1.0, nan], "b": [3.0, 4.0]})
        assert MultiView.from_frame(frame, {"v": ["a", "b"]}).observed.all()

    def test_nullable_columns(self):
        frame = pd.DataFrame({"a": pd.array([1, None], dtype="Int64"), "b": [1.0, 2.0]})
        X = as_views(frame, {"a": ["a"], "b": ["b"]})
        assert X.observed.tolist() == [[True, True], [False, True]]


class TestAsViews:
    def test_containers_pass(self, blocks):
        X = MultiView(blocks)
        assert as_views(X) is X
        assert as_views(blocks).names == ("mri", "rna")
        assert as_views(list(blocks.values())).names == ("view_0", "view_1")
        for data in (X, blocks):
            with pytest.raises(ValueError, match="views="):
                as_views(data, {"mri": [0]})

    def test_other_lists_are_two_dimensional_data(self):
        assert as_views([[1, 2], [3, 4]]).names == ("X",)
        assert as_views([np.ones(2), np.ones(2)]).shape == (2, 1)

    @pytest.mark.parametrize(
        "columns",
        [[0, 2], np.array([0, 2]), (0, 2), slice(0, 3, 2), [True, False, True], [-3, -1]],
    )
    def test_column_specifications_of_arrays(self, columns):
        X = np.arange(6.0).reshape(2, 3)
        views = as_views(X, {"a": columns, "b": 1})
        np.testing.assert_array_equal(views["a"], X[:, [0, 2]])
        np.testing.assert_array_equal(views["b"], X[:, [1]])

    @pytest.mark.parametrize(
        "columns", [["a", "c"], pd.Index(["a", "c"]), [0, 2], [True, False, True, False]]
    )
    def test_column_specifications_of_frames(self, frame, columns):
        frame = frame.fillna(0.0)
        views = as_views(frame, {"v": columns})
        np.testing.assert_array_equal(views["v"], frame[["a", "c"]])

    def test_integer_labels_win_over_positions(self):
        frame = pd.DataFrame(np.arange(6.0).reshape(2, 3), columns=[2, 1, 0])
        np.testing.assert_array_equal(as_views(frame, {"v": [2]})["v"], [[0.0], [3.0]])

    @pytest.mark.parametrize(
        ("columns", "message"),
        [
            (["a", "nope"], "view 'v': column 'nope'"),
            ("nope", "view 'v': column 'nope'"),
            ([0, 9], "view 'v'.*4 columns"),
            ([True], "view 'v'.*4 columns"),
            ([], "view 'v' has no columns"),
            (slice(4, None), "view 'v' has no columns"),
            ([0.5], "view 'v': column 0.5"),
            (["label"], "view 'v': column 'label' is not numeric.*'x'.*ViewTransformer"),
        ],
    )
    def test_wrong_columns(self, frame, columns, message):
        with pytest.raises(ValueError, match=message):
            as_views(frame, {"v": columns})["v"]

    @pytest.mark.parametrize("views", [{}, "rows", ["a"], 3])
    def test_wrong_views(self, frame, views):
        with pytest.raises(ValueError, match="views must be a dict"):
            as_views(frame, views)

    def test_labels_of_an_array(self):
        with pytest.raises(ValueError, match="view 'v': column 'a'"):
            as_views(np.ones((2, 2)), {"v": ["a"]})

    def test_repeated_labels(self):
        frame = pd.DataFrame(np.ones((2, 3)), columns=["a", "a", "b"])
        with pytest.raises(ValueError, match=r"1 column labels.*repeated"):
            as_views(frame, {"v": ["a"]})

    def test_every_column_a_view(self, frame):
        X = as_views(frame[["a", "c"]], "columns")
        assert X.names == ("a", "c")
        assert X.observed.tolist() == [[True, True], [False, True], [True, True]]
        assert as_views(np.ones((2, 3)), "columns").names == ("column_0", "column_1", "column_2")

    def test_multi_index_columns(self):
        columns = pd.MultiIndex.from_tuples([("mri", 1), ("rna", "g"), ("mri", 2)])
        frame = pd.DataFrame([[1.0, 2.0, 3.0], [nan, 5.0, nan]], columns=columns)
        X = as_views(frame)
        assert X.names == ("mri", "rna")
        np.testing.assert_array_equal(X["mri"], [[1, 3], [nan, nan]])
        np.testing.assert_array_equal(as_views(frame, {"v": [("mri", 2)]})["v"], [[3], [nan]])

    def test_partial_nan(self):
        X = np.array([[1.0, nan, 0.0], [nan, nan, 0.0], [1.0, 2.0, 0.0]])
        views = {"mri": [0, 1], "age": [2]}
        with pytest.raises(ValueError, match=r"'mri' has NaN .*1 of 3 samples.*ViewTransformer"):
            as_views(X, views)
        assert as_views(X, views, partial_nan="allow").observed[:, 0].tolist() == [1, 0, 1]
        with pytest.raises(ValueError, match="'mri' has NaN"):
            as_views({"mri": X[:, :2]})

    def test_without_views_every_nan_is_refused(self):
        with pytest.raises(ValueError, match="NaN for 1 of 2 samples"):
            as_views([[1.0, 2.0], [nan, nan]])
        assert not as_views(MultiView({"X": [[1.0], [nan]]})).observed.all()


class Fitter(ClassifierMixin, BaseEstimator):
    """The least that uses validate_views and match_views."""

    def __init__(self, views=None):
        self.views = views

    def fit(self, X, y=None):
        with unchanged_on_error(self):
            self.data_ = validate_views(self, X, self.views)
        return self

    def check(self, X):
        return match_views(self, X, self.views)


class TestValidateViews:
    def test_two_dimensional_bookkeeping(self):
        fitter = Fitter({"a": [0, 2], "b": [1]}).fit(np.ones((4, 3)))
        assert fitter.n_features_in_ == 3
        assert fitter.view_names_ == ("a", "b")
        assert fitter.view_sizes_ == {"a": 2, "b": 1}
        assert fitter.view_columns_["a"].tolist() == [0, 2]
        with pytest.raises(ValueError, match="X has 2 features, but Fitter is expecting 3"):
            fitter.check(np.ones((4, 2)))

    def test_array_after_frame(self, frame):
        fitter = Fitter({"ab": ["a", "b"], "c": ["c"]}).fit(frame)
        assert fitter.feature_names_in_.tolist() == ["a", "b", "c", "label"]
        assert fitter.check(frame).index.tolist() == ["s1", "s2", "s3"]
        with pytest.warns(UserWarning, match="feature names"):
            X = fitter.check(np.arange(8.0).reshape(2, 4))
        np.testing.assert_array_equal(X["c"], [[2.0], [6.0]])
        with pytest.raises(ValueError, match="feature names should match"):
            fitter.check(frame[["b", "a", "c", "label"]])

    def test_multi_index_frames_are_compared_by_label(self):
        columns = pd.MultiIndex.from_tuples([("mri", "u"), ("rna", "g"), ("mri", "v")])
        frame = pd.DataFrame(np.arange(6.0).reshape(2, 3), columns=columns)
        fitter = Fitter().fit(frame)
        assert fitter.feature_names_in_.tolist() == ["mri__u", "rna__g", "mri__v"]
        with pytest.raises(ValueError, match="same order"):
            fitter.check(frame.iloc[:, ::-1])
        absent = frame.to_numpy().copy()
        absent[0, [0, 2]] = nan
        with pytest.warns(UserWarning, match="feature names"):
            assert not fitter.check(absent).observed[0, 0]

    def test_containers(self, blocks):
        fitter = Fitter().fit(pd.DataFrame({"u": [1.0, 2.0]})).fit(blocks)
        assert fitter.n_features_in_ == 2
        assert not hasattr(fitter, "feature_names_in_")
        assert not hasattr(fitter, "view_columns_")
        assert fitter.check(MultiView(blocks).select(["rna", "mri"])).names == ("mri", "rna")
        alone = fitter.check({"mri": blocks["mri"]})
        assert alone.names == ("mri", "rna")
        assert not alone.observed[:, 1].any()
        assert alone["rna"].shape == (6, 2)
        with pytest.raises(ValueError, match=r"'pet', 'rna'.*fitted with 2 \('mri', 'rna'\)"):
            fitter.check({"pet": blocks["mri"], "rna": blocks["rna"]})
        with pytest.raises(ValueError, match="view 'rna' has 3 columns, but was fitted with 2"):
            fitter.check({"mri": blocks["mri"], "rna": np.ones((6, 3))})
        with pytest.raises(ValueError, match=r"2-D data.*2 views .'mri'.*pass a dict"):
            fitter.check(np.ones((6, 5)))

    def test_container_after_two_dimensional_data(self, blocks):
        X = np.hstack(list(blocks.values()))
        fitter = Fitter({"mri": [0, 1, 2], "rna": [3, 4]}).fit(X)
        assert fitter.check(blocks).names == ("mri", "rna")
        with pytest.raises(ValueError, match="views="):
            fitter.fit(blocks)

    @pytest.mark.parametrize("X", [np.ones((0, 3)), {"a": np.ones((0, 3))}])
    def test_no_samples(self, X):
        with pytest.raises(ValueError, match="0 sample"):
            Fitter().fit(X)

    def test_failed_fit_changes_nothing(self, blocks):
        fitter = Fitter()
        with pytest.raises(ValueError, match="NaN"):
            fitter.fit([[nan, 1.0]])
        assert vars(fitter) == {"views": None}
        before = dict(vars(fitter.fit(blocks)))
        with pytest.raises(ValueError, match="inf"):
            fitter.fit([[np.inf, 1.0]])
        assert vars(fitter) == before


class TestViewTransformer:
    def test_fits_on_the_samples_that_have_the_view(self, blocks):
        transformer = ViewTransformer({"mri": StandardScaler()})
        X = transformer.fit_transform(MultiView(blocks, index=list("uvwxyz")))
        present = [0, 2, 3, 5]
        expected = StandardScaler().fit_transform(blocks["mri"][present])
        np.testing.assert_allclose(X["mri"][present], expected)
        np.testing.assert_array_equal(X["rna"], blocks["rna"])
        np.testing.assert_array_equal(X.observed, MultiView(blocks).observed)
        assert X.index.tolist() == list("uvwxyz")
        assert set(transformer.transformers_) == {"mri"}
        again = transformer.transform(blocks)
        np.testing.assert_array_equal(again["mri"], X["mri"])

    def test_one_transformer_for_all_imputes_cells_and_changes_sizes(self):
        X = np.array([[1.0, nan, 5.0], [3.0, 4.0, 6.0], [nan, nan, 7.0]])
        transformer = ViewTransformer(
            SimpleImputer(add_indicator=True), views={"a": [0, 1], "b": [2]}
        ).fit(X)
        result = transformer.transform(X)
        np.testing.assert_array_equal(result["a"], [[1, 4, 1], [3, 4, 0], [nan] * 3])
        absent = transformer.transform(X[[2]])
        assert absent["a"].shape == (1, 3)
        assert absent.observed.tolist() == [[False, True]]

    def test_one_view_may_hold_nan(self):
        X = [[1.0, nan], [3.0, 4.0]]
        assert ViewTransformer(SimpleImputer()).fit_transform(X)["X"].tolist() == [[1, 4], [3, 4]]

    def test_target_follows_the_rows(self):
        X = MultiView({"a": [[0.0, 9.0], [nan, nan], [1.1, 9.5], [0.1, 8.0], [1.0, 9.0]]})
        chosen = ViewTransformer(SelectKBest(k=1)).fit_transform(X, pd.Series([0, 1, 1, 0, 1]))
        np.testing.assert_array_equal(chosen["a"].ravel(), [0, nan, 1.1, 0.1, 1])
        with pytest.raises(ValueError, match="inconsistent"):
            ViewTransformer(SelectKBest(k=1)).fit(X, [0, 1])

    def test_view_absent_for_all_training_samples(self, blocks):
        never = {"mri": np.full((6, 3), nan), "rna": blocks["rna"]}
        transformer = ViewTransformer(StandardScaler())
        with pytest.warns(UserWarning, match=r"1 of 2 views absent for all 6 .*'mri'"):
            transformer.fit(never)
        assert transformer.absent_views_ == ("mri",)
        assert not transformer.transform(blocks).observed[:, 0].any()

    def test_errors(self, blocks):
        with pytest.raises(ValueError, match="'pet', but the views are 'mri', 'rna'"):
            ViewTransformer({"pet": StandardScaler()}).fit(blocks)
        with pytest.raises(NotFittedError):
            ViewTransformer(StandardScaler()).transform(blocks)
        with pytest.raises(ValueError, match="'pet'; rename"):
            ViewTransformer({}).fit(blocks).transform({"pet": blocks["mri"]})

    def test_sparse_output_stays_sparse(self, blocks):
        codes = {"mri": blocks["mri"], "rna": np.array([[0.0], [1], [1], [nan], [0], [2]])}
        X = ViewTransformer({"rna": OneHotEncoder()}).fit_transform(codes)
        assert sparse.issparse(X["rna"])
        assert X.observed[:, 1].tolist() == [1, 1, 1, 0, 1, 1]
        expected = [[1, 0, 0], [0, 1, 0], [0, 1, 0], [0, 0, 0], [1, 0, 0], [0, 0, 1]]
        np.testing.assert_array_equal(X["rna"].toarray(), expected)

    def test_parameters_of_the_transformers(self, blocks):
        transformer = ViewTransformer(
            {"mri": make_pipeline(SimpleImputer(), StandardScaler()), "rna": StandardScaler()}
        )
        copy = clone(transformer).set_params(
            mri__simpleimputer__strategy="median", rna="passthrough"
        )
        assert copy.transformers["mri"][0].strategy == "median"
        assert copy.transformers["rna"] == "passthrough"
        assert transformer.transformers["mri"][0].strategy == "mean"
        assert "rna__with_mean" in transformer.get_params()
        with pytest.raises(ValueError, match="Invalid parameter 'pet'"):
            transformer.set_params(pet=StandardScaler())

    def test_grid_search_and_pickle(self, blocks):
        X = {"mri": np.vstack([blocks["mri"]] * 3), "rna": np.vstack([blocks["rna"]] * 3)}
        y = np.array([0, 1, 0, 1, 0, 1] * 3)
        model = Pipeline([("prep", ViewTransformer({"rna": StandardScaler()})), ("clf", Scorer())])
        grid = [{"prep__rna__with_mean": [True, False]}, {"prep__rna": ["passthrough"]}]
        search = GridSearchCV(model, grid, cv=3).fit(MultiView(X), y)
        assert search.best_score_ == 1.0
        restored = pickle.loads(pickle.dumps(search.best_estimator_))
        assert len(restored.predict(MultiView(X))) == 18


class Scorer(ClassifierMixin, BaseEstimator):
    """Takes a MultiView and nothing else."""

    def fit(self, X, y):
        assert isinstance(X, MultiView)
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return np.arange(len(X)) % 2

    def score(self, X, y):
        return 1.0


class TestArraysWithGaps:
    def test_masked_cells_are_missing(self):
        values = np.arange(12.0).reshape(4, 3)
        mask = np.zeros((4, 3), dtype=bool)
        mask[1], mask[2, 0] = True, True
        masked = np.ma.array(values, mask=mask)
        X = MultiView({"a": masked, "whole": np.ma.array(values.astype(int))})
        assert X.observed.tolist() == [[True, True], [False, True], [True, True], [True, True]]
        np.testing.assert_array_equal(X["a"], np.where(mask, nan, values))
        np.testing.assert_array_equal(as_views(masked, partial_nan="allow")["X"], X["a"])
        whole_rows = np.ma.array(values, mask=mask & mask.all(axis=1)[:, None])
        model = Fitter(views={"a": [0], "b": [1, 2]}).fit(whole_rows)
        assert model.data_.observed.all(axis=1).tolist() == [True, False, True, True]

    @pytest.mark.parametrize("gap", [None, pd.NA, pd.NaT, float("nan")])
    def test_missing_objects(self, gap):
        values = np.array([[1, 2.5], [gap, gap], [3, gap]], dtype=object)
        X = MultiView({"a": values})
        np.testing.assert_array_equal(X["a"], [[1, 2.5], [nan, nan], [3, nan]])
        assert X.observed[:, 0].tolist() == [True, False, True]

    @pytest.mark.parametrize("kind", [object, str, list])
    def test_text_is_named(self, kind):
        values = [["1", "2", "3"], ["4", "male", "5"]]
        block = values if kind is list else np.array(values, dtype=kind)
        message = "column 1 is not numeric, its first such value is 'male'; pass a data frame"
        with pytest.raises(ValueError, match=f"view 'clinic': {message}"):
            MultiView({"clinic": block})
        with pytest.raises(ValueError, match=message):
            Fitter(views=None).fit(block)

    def test_nothing_instead_of_a_view(self):
        with pytest.raises(ValueError, match=r"view 'b': there is None.*leave the view out"):
            MultiView({"a": np.ones((2, 2)), "b": None})


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_columns_by_slices_of_labels_and_callables(library):
    frame = pd.DataFrame(np.arange(10.0).reshape(2, 5), columns=["a1", "a2", "b1", "b2", "c"])
    expected = as_views(frame, {"a": ["a1", "a2"], "b": ["b1", "b2", "c"]})
    selector = make_column_selector(pattern="^a")
    if library == "polars":
        frame = pytest.importorskip("polars").from_pandas(frame)
        selector = lambda X: [name for name in X.columns if name.startswith("a")]  # noqa: E731
    for views in (
        {"a": slice("a1", "a2"), "b": slice("b1", None)},
        {"a": slice(None, "a2"), "b": slice("b1", "c")},
        {"a": selector, "b": slice(2, None)},
    ):
        found = as_views(frame, views)
        for name in "ab":
            np.testing.assert_array_equal(found[name], expected[name])
    for wrong in (slice("a1", "zz"), ["a1", "zz"], "zz"):
        with pytest.raises(ValueError, match=r"view 'a': column 'zz' is not in X; it has 'a1', "):
            as_views(frame, {"a": wrong})


def test_rows_are_not_selected_by_names():
    with pytest.raises(IndexError, match=r"X\.select\(\['a'\]\).*X\.loc\[\['a'\]\]"):
        MultiView({"a": np.ones((2, 2))})[["a"]]


def test_views_named_by_numbers_are_found_by_numbers():
    X = np.random.default_rng(0).standard_normal((20, 4))
    y = np.arange(20) % 2
    data = MultiView({0: X[:, :2], 1: X[:, 2:]})
    scaled = ViewTransformer({0: StandardScaler()}).fit_transform(data)
    np.testing.assert_allclose(scaled["0"].mean(axis=0), 0.0, atol=1e-12)
    model = kq.mkl.UniformMKLClassifier(kernels={0: "linear", 1: "rbf"}).fit(data, y)
    assert model.kernel_names_ == ("0", "1")
