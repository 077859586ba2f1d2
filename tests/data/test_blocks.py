"""Frames of pandas and polars: what is missing, what is a number, and samples by identifier."""

import datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import kernelquilt as kq
from kernelquilt.data import blocks
from kernelquilt.data.views import MultiView

pl = pytest.importorskip("polars")

nan = np.nan
date = datetime.date(2020, 2, 3)

COLUMNS = [
    (pd.Series([1.0, nan]), "number"),
    (pd.Series([1, 2]), "number"),
    (pd.Series([True, False]), "number"),
    (pd.Series([True, None]), "number"),
    (pd.Series([1, None], dtype="Int64"), "number"),
    (pd.Series([1.5, None], dtype="Float32"), "number"),
    (pd.Series([True, None], dtype="boolean"), "number"),
    (pd.Series([Decimal("1.5"), None]), "number"),
    (pd.Series([np.float32(1.5), 2], dtype=object), "number"),
    (pd.Series(["x", None]), "category"),
    (pd.Series(["x", pd.NA], dtype="string"), "category"),
    (pd.Series(["x", nan], dtype="category"), "category"),
    (pd.Series([1, 2], dtype="category"), "category"),
    (pd.Series([1, "x"]), "category"),
    (pd.Series([None, None]), "category"),
    (pd.Series(pd.to_datetime(["2020-02-03", None])), "date"),
    (pd.Series(pd.to_datetime(["2020-02-03", None], utc=True)), "date"),
    (pd.Series([date, None]), "date"),
    (pd.Series(pd.to_timedelta([1, None], unit="D")), "date"),
    (pl.Series([1.0, None]), "number"),
    (pl.Series([1, None]), "number"),
    (pl.Series([True, None]), "number"),
    (pl.Series([Decimal("1.5"), None]), "number"),
    (pl.Series(["x", None]), "category"),
    (pl.Series(["x", None], dtype=pl.Categorical), "category"),
    (pl.Series(["x", None], dtype=pl.Enum(["x", "y"])), "category"),
    (pl.Series([None, None]), "number"),
    (pl.Series([date, None]), "date"),
    (pl.Series([datetime.timedelta(1), None]), "date"),
]


def as_frame(column):
    return (
        pl.DataFrame({"c": column})
        if isinstance(column, pl.Series)
        else pd.DataFrame({"c": column})
    )


@pytest.mark.parametrize(("column", "kind"), COLUMNS)
def test_kinds_of_columns(column, kind):
    frame = as_frame(column)
    assert blocks.is_frame(frame)
    assert blocks.kind_of(frame, 0) == kind
    missing = [bool(pd.isna(value)) for value in column]
    np.testing.assert_array_equal(blocks.missing_rows(frame), missing)
    np.testing.assert_array_equal(blocks.missing_cells(frame).ravel(), missing)
    first = blocks.cells(frame, 0)[0]
    if kind == "number":
        found = blocks.numbers_of(frame).ravel()
        np.testing.assert_array_equal(np.isnan(found), missing)
        assert list(missing) == [True, True] or found[0] == float(first)
    elif kind == "date":
        with pytest.raises(ValueError, match="'c' holds dates or times"):
            blocks.numbers_of(frame)
    elif "x" in list(column):
        with pytest.raises(ValueError, match=r"'c' is not numeric.*'x'.*ViewTransformer"):
            blocks.numbers_of(frame)


def test_wide_numeric_frames_of_both_libraries():
    values = np.random.default_rng(0).standard_normal((5, 300))
    names = [f"c{j}" for j in range(300)]
    for frame in (pd.DataFrame(values, columns=names), pl.DataFrame(values, schema=names)):
        np.testing.assert_array_equal(MultiView({"a": frame})["a"], values)
        integers = MultiView({"a": frame * 0})
        assert integers["a"].flags.c_contiguous


def test_lazy_frames_are_not_read():
    with pytest.raises(ValueError, match=r"LazyFrame.*collect\(\)"):
        kq.as_views(pl.DataFrame({"a": [1.0]}).lazy())


class TestMultiViewOfFrames:
    @pytest.fixture
    def X(self):
        clinic = pd.DataFrame({"sex": ["f", None, "m"], "age": [60, 0, 70]}, index=["u", "v", "w"])
        clinic["age"] = pd.array([60, None, 70], dtype="Int64")
        words = pl.DataFrame({"n": [1, 2, None]})
        return MultiView({"clinic": clinic, "words": words, "rna": np.ones((3, 2))})

    def test_views_stay_as_they_are(self, X):
        assert X.observed.tolist() == [[1, 1, 1], [0, 1, 1], [1, 0, 1]]
        assert X.columns == {"clinic": ("sex", "age"), "words": ("n",), "rna": None}
        part = X[[2, 0]]
        assert part.given("clinic")["sex"].tolist() == ["m", "f"]
        assert part.given("clinic").dtypes.tolist() == X.given("clinic").dtypes.tolist()
        assert isinstance(part.given("words"), pl.DataFrame)
        np.testing.assert_array_equal(X["words"], [[1], [2], [nan]])
        with pytest.raises(ValueError, match=r"view 'clinic': column 'sex' is not numeric.*'f'"):
            X["clinic"]
        with pytest.raises(ValueError, match="view 'clinic': column 'sex'"):
            X.numeric()
        numbers = X.select(["words", "rna"]).numeric()
        assert isinstance(numbers.given("words"), np.ndarray)
        assert numbers.columns["words"] == ("n",)
        assert numbers.numeric() is numbers

    def test_a_mask_hides_values_of_every_type(self, X):
        hidden = X.with_observed([[False, True, True], [False, False, True], [True, False, False]])
        assert hidden.given("clinic")["sex"].isna().tolist() == [True, True, False]
        assert hidden.given("clinic").index.tolist() == ["u", "v", "w"]
        assert hidden.given("words")["n"].to_list() == [1, None, None]
        assert np.isnan(hidden["rna"][2]).all()
        assert hidden.columns == X.columns
        with pytest.raises(ValueError, match="'clinic' is marked as observed but entirely NaN"):
            hidden.with_observed(np.ones((3, 3), dtype=bool))

    def test_infinite_values(self):
        with pytest.raises(ValueError, match="'a' has 1 infinite values"):
            MultiView({"a": pd.DataFrame({"x": [1.0, np.inf]})})["a"]

    def test_names_of_columns(self):
        X = MultiView({"a": np.ones((2, 2)), "b": np.ones((2, 1))}, columns={"a": ["x", "y"]})
        assert X[[0]].columns == {"a": ("x", "y"), "b": None}
        assert MultiView({"a": pd.DataFrame([[1.0, 2.0]])}).columns == {"a": None}
        with pytest.raises(ValueError, match="'a' has 2 columns, but 1 are named"):
            MultiView({"a": np.ones((2, 2))}, columns={"a": ["x"]})
        with pytest.raises(ValueError, match="columns of 'c' are named; the views are 'a'"):
            MultiView({"a": np.ones((2, 2))}, columns={"c": ["x"]})

    def test_one_frame_and_back(self, X):
        frame = X.to_frame()
        assert list(frame.columns) == [
            ("clinic", "sex"),
            ("clinic", "age"),
            ("words", "n"),
            ("rna", 0),
            ("rna", 1),
        ]
        assert frame.index.tolist() == ["u", "v", "w"]
        back = MultiView.from_frame(frame)
        assert back.columns == X.columns
        np.testing.assert_array_equal(back.observed, X.observed)
        np.testing.assert_array_equal(back["words"], X["words"])

    def test_absent_samples_of_a_sparse_view_stay_absent(self):
        observed = np.array([[True, True], [False, True], [True, False]])
        X = MultiView({"words": sparse.csr_array(np.eye(3)), "b": np.ones((3, 1))}, observed)
        frame = X.to_frame()
        assert frame["words"].isna().all(axis=1).tolist() == [False, True, False]
        assert all(isinstance(dtype, pd.SparseDtype) for dtype in frame["words"].dtypes)
        np.testing.assert_array_equal(MultiView.from_frame(frame).observed, observed)

    def test_samples_by_identifier(self, X):
        assert X.loc[["w", "u"]].index.tolist() == ["w", "u"]
        assert X.loc["v"].shape == (1, 3)
        assert X.loc[pd.Index(["u"])].given("clinic")["sex"].tolist() == ["f"]
        assert X.loc[[True, False, True]].index.tolist() == ["u", "w"]
        assert len(X.loc[[]]) == 0
        with pytest.raises(KeyError, match="2 of 3 samples are not there: 'p', 'q'"):
            X.loc[["u", "p", "q"]]
        with pytest.raises(ValueError, match="1 of 4 identifiers of the samples are repeated"):
            X[[0, 0, 1, 2]].loc[["u"]]
        with pytest.raises(ValueError, match="no identifiers; give them as index="):
            MultiView({"a": np.ones((2, 1))}).loc[[0]]
        with pytest.raises(TypeError, match="list of identifiers"):
            X.loc["u":"v"]


class TestJoining:
    def test_samples_without_the_first_view_do_not_come_last(self):
        rng = np.random.default_rng(0)
        samples = [f"p{i:02d}" for i in range(60)]
        rna = pd.DataFrame(rng.standard_normal((40, 2)), index=rng.permutation(samples)[:40])
        clinic = pd.DataFrame(rng.standard_normal((60, 1)), index=samples)
        X = MultiView.from_frames({"rna": rna, "clinic": clinic})
        assert X.index.tolist() == samples
        shares = [part.mean() for part in np.split(X.present("rna"), 5)]
        assert min(shares) > 0.3

    @pytest.mark.parametrize("on", [None, "patient"])
    def test_types_of_columns_survive(self, on):
        clinic = pd.DataFrame(
            {
                "patient": ["b", "a"],
                "sex": pd.Categorical(["f", "m"]),
                "n": pd.array([1, 2], dtype="Int64"),
                "yes": [True, False],
            }
        )
        rna = pd.DataFrame({"patient": ["c", "a"], "x": [1.0, 2.0]})
        if on is None:
            clinic, rna = clinic.set_index("patient"), rna.set_index("patient")
        X = MultiView.from_frames({"clinic": clinic, "rna": rna}, on=on)
        assert X.index.tolist() == ["a", "b", "c"]
        kept = X.given("clinic")
        assert kept["sex"].dtype == "category"
        assert kept["n"].dtype == "Int64"
        assert kept["yes"].tolist()[:2] == [False, True]
        assert X.select(["rna"]).columns == {"rna": ("x",)}
        np.testing.assert_array_equal(
            MultiView({"v": kept[["n", "yes"]]})["v"], [[2, 0], [1, 1], [nan, nan]]
        )

    def test_polars_needs_a_column(self):
        a = pl.DataFrame({"id": [2, 1], "x": [1.0, 2.0]})
        b = pl.DataFrame({"id": [3, 1], "w": ["u", "v"]})
        X = MultiView.from_frames({"a": a, "b": b}, on="id")
        assert X.index.tolist() == [1, 2, 3]
        np.testing.assert_array_equal(X["a"], [[2], [1], [nan]])
        assert X.given("b")["w"].to_list() == ["v", None, "u"]
        with pytest.raises(ValueError, match=r"'a' is a DataFrame, which has no index.*on="):
            MultiView.from_frames({"a": a})
        with pytest.raises(
            ValueError, match="'a' has no column 'pid' to join on; it has 'id', 'x'"
        ):
            MultiView.from_frames({"a": a}, on="pid")

    @pytest.mark.parametrize(
        ("identifiers", "message"),
        [
            (["s", "s", "t", "t"], "'a': 2 .* more than once in the index, such as 's'"),
            (["s", None, "t", "u"], "'a': 1 sample identifiers are missing in the index"),
        ],
    )
    def test_one_row_per_sample(self, identifiers, message):
        frame = pd.DataFrame({"x": np.arange(4.0)}, index=pd.Index(identifiers, dtype=object))
        with pytest.raises(ValueError, match=message):
            MultiView.from_frames({"a": frame})

    def test_no_sample_in_common(self):
        a = pd.DataFrame({"x": [1.0, 2.0]}, index=["1", "2"])
        b = pd.DataFrame({"x": [1.0, 2.0]}, index=[1, 2])
        with pytest.warns(UserWarning, match="2 identifiers .* several ways, such as 1, '1'"):
            X = MultiView.from_frames({"a": a, "b": b})
        assert X.index.tolist() == [1, 2, "1", "2"]
        with pytest.warns(UserWarning, match="no sample is in more than one of the 2 frames"):
            MultiView.from_frames({"a": a, "b": b.set_axis([3, 4])})

    @pytest.mark.parametrize("other", ["P1", "p1 ", "001", "1.0", 1])
    def test_samples_that_are_written_in_several_ways(self, other):
        own = "p1" if str(other).lower().startswith("p") else "1"
        a = pd.DataFrame({"x": [1.0, 2.0]}, index=[own, "both"])
        b = pd.DataFrame({"z": [1.0, 2.0]}, index=[other, "both"])
        with pytest.warns(UserWarning, match="1 identifiers of samples are written in several"):
            assert len(MultiView.from_frames({"a": a, "b": b})) == 3

    @pytest.mark.filterwarnings("error")
    def test_a_frame_without_samples(self):
        a = pd.DataFrame({"x": [1.0, 2.0]}, index=["1", "2"])
        X = MultiView.from_frames({"a": a, "b": a[:0].rename(columns={"x": "z"})})
        assert X.observed.tolist() == [[True, False], [True, False]]

    @given(
        st.lists(
            st.one_of(st.integers(-5, 5), st.text(max_size=2), st.tuples(st.integers(0, 3))),
            min_size=1,
            unique=True,
        ),
        st.randoms(),
    )
    @settings(max_examples=50, deadline=None)
    def test_the_order_depends_on_the_identifiers_alone(self, identifiers, random):
        # True and 1 are the same identifier to Python, as are 1 and 1.0
        values = dict(zip(identifiers, np.arange(len(identifiers), dtype=float), strict=True))
        orders = []
        for _ in range(2):
            random.shuffle(identifiers)
            index = pd.Index(
                np.fromiter(identifiers, dtype=object, count=len(identifiers)), tupleize_cols=False
            )
            frame = pd.DataFrame({"x": [values[each] for each in identifiers]}, index=index)
            X = MultiView.from_frames({"a": frame})
            orders.append(X.index.tolist())
            assert X["a"].ravel().tolist() == [values[each] for each in X.index]
        assert orders[0] == orders[1]
        numbers = [each for each in orders[0] if isinstance(each, int)]
        assert orders[0][: len(numbers)] == sorted(numbers)


class TestMuData:
    @pytest.fixture
    def mdata(self):
        mudata = pytest.importorskip("mudata")
        anndata = pytest.importorskip("anndata")
        from scipy import sparse

        rna = anndata.AnnData(sparse.csr_matrix(np.eye(3, 4)))
        rna.obs_names, rna.var_names = ["c1", "c2", "c3"], list("wxyz")
        rna.layers["log"] = np.log1p(np.eye(3, 4))
        protein = anndata.AnnData(np.array([[1.0, 2.0], [nan, nan], [5.0, 6.0]]))
        protein.obs_names, protein.var_names = ["c3", "c4", "c5"], ["p", "q"]
        made = mudata.MuData({"rna": rna, "protein": protein})
        made.obs["type"] = list("aabba")
        return made

    pytestmark = pytest.mark.filterwarnings("ignore")

    def test_modalities_are_views(self, mdata):
        X, y = MultiView.from_mudata(mdata, label="type")
        assert X.index.tolist() == list(mdata.obs_names) == y.index.tolist()
        assert X.columns == {"rna": tuple("wxyz"), "protein": ("p", "q")}
        assert X.loc[["c1", "c3", "c4", "c5"]].observed.tolist() == [[1, 0], [1, 1], [0, 0], [0, 1]]
        assert X["rna"].format == "csr"
        np.testing.assert_array_equal(X.loc[["c3", "c5"]]["rna"].toarray(), [[0, 0, 1, 0], [0] * 4])
        logs = MultiView.from_mudata(mdata, layers={"rna": "log"})
        assert logs.loc["c1"]["rna"][0, 0] == pytest.approx(np.log(2))
        back = MultiView.from_mudata(X.to_mudata()).loc[X.index[X.observed.any(axis=1)]]
        np.testing.assert_array_equal(back["protein"], X.loc[back.index]["protein"])

    def test_errors(self, mdata):
        for wrong, message in (
            ({"label": "typ"}, "no column 'typ' in obs; it has .*'type'"),
            ({"layers": "log"}, "'protein' has no layer 'log'"),
            ({"layers": {"dna": "log"}}, "layers= names 'dna'; the views are 'rna', 'protein'"),
        ):
            with pytest.raises(ValueError, match=message):
                MultiView.from_mudata(mdata, **wrong)
        with pytest.raises(ValueError, match="MuData or AnnData is needed, got dict"):
            MultiView.from_mudata({})
        with pytest.raises(ValueError, match="need different names"):
            MultiView({"a": np.ones((2, 1))}, index=["u", "u"]).to_mudata()
