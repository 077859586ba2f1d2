import warnings
from dataclasses import replace

import numpy as np
import pytest

import kernelquilt as kq
from kernelquilt.experiments.own_data.compare import comparison_study
from kernelquilt.experiments.own_data.describe import describe
from kernelquilt.experiments.own_data.files import DataFileError, UserData, read_data
from kernelquilt.experiments.study.protocol import ProtocolError

pd = pytest.importorskip("pandas")


def make_data(n=40, seed=0):
    """Two views, the second absent for the last quarter of the samples."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    a, b = rng.normal(size=(n, 3)) + y[:, None], rng.normal(size=(n, 2))
    b[-n // 4 :] = np.nan
    return a, b, y


def make_frame(**options):
    a, b, y = make_data(**options)
    frame = pd.DataFrame(np.column_stack([a, b]), columns=["a_0", "a_1", "a_2", "b_0", "b_1"])
    return frame.assign(kind=np.where(y == 1, "ill", "well"))


BY_PREFIX = {"a": ["a_*"], "b": ["b_0:b_1"]}


def check(data, names=("a", "b")):
    a, b, y = make_data()
    assert data.views.names == names
    np.testing.assert_allclose(data.views[names[0]], a)
    np.testing.assert_allclose(data.views[names[1]], b)
    assert data.views.observed.sum(axis=0).tolist() == [40, 30]
    assert data.y.tolist() in (y.tolist(), np.where(y == 1, "ill", "well").tolist())


class TestFormats:
    @pytest.mark.parametrize("suffix", ["csv", "tsv", "parquet"])
    def test_tables(self, tmp_path, suffix):
        path = tmp_path / f"data.{suffix}"
        if suffix == "parquet":
            pytest.importorskip("pyarrow")
            make_frame().to_parquet(path)
        else:
            make_frame().to_csv(path, index=False, sep="," if suffix == "csv" else "\t")
        data = read_data(path, label="kind", views=BY_PREFIX)
        check(data)
        assert data.name == "data"
        assert data.notes == ()

    def test_npz_of_views(self, tmp_path):
        a, b, y = make_data()
        path = tmp_path / "data.npz"
        np.savez(path, view_0=a, view_1=b, view_names=["a", "b"], y=y)
        named = read_data(path)
        check(named)
        np.savez(path, view_0=a, view_1=b, y=y)
        unnamed = read_data(path)
        check(unnamed, ("view_0", "view_1"))
        assert named.y.tolist() == unnamed.y.tolist() == y.tolist()

    def test_npz_of_features(self, tmp_path):
        a, b, y = make_data()
        path = tmp_path / "data.npz"
        np.savez(path, X=np.column_stack([a, b]), y=y[:, None])
        check(read_data(path, views={"a": ["0:2"], "b": ["3", "4"]}))
        names = ["a__0", "a__1", "a.2", "b:0", "b:1"]
        np.savez(path, X=np.column_stack([a, b]), kind=y, feature_names=names)
        check(read_data(path, label="kind"))
        assert read_data(path).y is None

    def test_small_types_of_numbers(self, tmp_path):
        path = tmp_path / "data.npz"
        counts = np.array([[1, 250], [3, 4]], dtype=np.uint8)
        halves = np.array([[0.5], [np.nan]], dtype=np.float16)
        np.savez(path, view_0=counts, view_1=halves, y=np.array([0.0, 1.0], dtype=np.float32))
        data = read_data(path)
        assert data.views["view_0"].tolist() == [[1, 250], [3, 4]]
        assert data.views.observed.tolist() == [[True, True], [True, False]]
        assert data.y.dtype.kind == "i"

    @pytest.mark.filterwarnings("ignore")
    def test_mudata(self, tmp_path):
        mudata, anndata = pytest.importorskip("mudata"), pytest.importorskip("anndata")
        sparse = pytest.importorskip("scipy.sparse")
        a, b, y = make_data()
        samples = [f"s{i:02}" for i in range(40)]
        rna = anndata.AnnData(sparse.csr_matrix(a), obs=pd.DataFrame(index=samples))
        rna.var_names = ["g0", "g1", "g2"]
        protein = anndata.AnnData(b[:30][::-1].copy(), obs=pd.DataFrame(index=samples[:30][::-1]))
        protein.var_names = ["p0", "p1"]
        whole = mudata.MuData({"a": rna, "b": protein})
        whole.obs["kind"] = np.where(y == 1, "ill", "well")
        whole.write(tmp_path / "data.h5mu")
        data = read_data(tmp_path / "data.h5mu", label="kind")
        check(data)
        assert data.views.index.tolist() == samples
        with pytest.raises(DataFileError, match=r"views already; leave --view out"):
            read_data(tmp_path / "data.h5mu", views=BY_PREFIX)
        with pytest.raises(DataFileError, match="did you mean 'kind'"):
            read_data(tmp_path / "data.h5mu", label="knid")


class TestTables:
    def write(self, tmp_path, frame):
        path = tmp_path / "data.csv"
        frame.to_csv(path, index=False)
        return path

    def test_default_views(self, tmp_path):
        frame = make_frame()
        one = read_data(self.write(tmp_path, frame), label="kind")
        assert one.views.names == ("X",)
        renamed = frame.rename(columns=lambda name: name.replace("_", "."))
        check(read_data(self.write(tmp_path, renamed), label="kind"))

    def test_label_y_is_found(self, tmp_path):
        path = self.write(tmp_path, make_frame().rename(columns={"kind": "y"}))
        data = read_data(path, views=BY_PREFIX)
        check(data)
        assert data.y.tolist() == make_frame()["kind"].tolist()

    def test_numbers_that_no_integer_holds_stay_classes_of_their_own(self, tmp_path):
        codes = np.arange(40) % 3
        path = self.write(tmp_path, make_frame().assign(kind=(codes + 1) * 1e19))
        with warnings.catch_warnings(action="error"):
            data = read_data(path, label="kind")
        assert sorted(np.unique(data.y)) == ["1e+19", "2e+19", "3e+19"]

    def test_index_and_other_columns_are_no_features(self, tmp_path):
        frame = make_frame().assign(id=[f"s{i}" for i in range(40)])
        path = self.write(tmp_path, frame)
        data = read_data(path, label="kind", index="id")
        assert data.views["X"].shape == (40, 5)
        assert data.views.index[1] == "s1"
        data = read_data(path, label="kind", views={"a": ["a_*"]})
        assert data.notes == ("3 of 6 columns left out, in no view: 'b_0', 'b_1', 'id'",)

    def test_row_numbers_that_pandas_left_are_no_features(self, tmp_path):
        make_frame().to_csv(tmp_path / "data.csv")
        check(read_data(tmp_path / "data.csv", label="kind", views=BY_PREFIX))
        assert read_data(tmp_path / "data.csv", label="kind").views["X"].shape[1] == 5

    def test_columns_without_a_view_are_left_out_with_a_note(self, tmp_path):
        frame = make_frame().rename(columns=lambda name: name.replace("_", "__"))
        frame.assign(number=np.arange(40)).to_csv(tmp_path / "data.csv", index=False)
        data = read_data(tmp_path / "data.csv", label="kind")
        check(data)
        assert data.notes == ("1 of 6 columns left out, in no view: 'number'",)

    @pytest.mark.parametrize(
        ("label", "column", "message"),
        [
            (None, None, "if 'kind' is the label, say --label 'kind'"),
            ("kind", [f"P{k}" for k in range(40)], "names the samples, say --index 'who'"),
            ("kind", ["n/d", "2.5"] * 20, r"\(such as 'n/d'\); encode them"),
        ],
    )
    def test_columns_of_text(self, tmp_path, label, column, message):
        frame = make_frame() if column is None else make_frame().assign(who=column)
        frame.to_csv(tmp_path / "data.csv", index=False)
        with pytest.raises(DataFileError, match=message):
            read_data(tmp_path / "data.csv", label=label)

    def test_columns_of_the_same_name(self, tmp_path):
        lines = ["y,a,y"] + [f"{k % 2},{k},{k % 2}" for k in range(20)]
        (tmp_path / "data.csv").write_text("\n".join(lines))
        with pytest.raises(DataFileError, match="columns of the same name: 'y'"):
            read_data(tmp_path / "data.csv")

    def test_samples_without_label_are_dropped(self, tmp_path):
        frame = make_frame()
        frame.loc[[0, 5], "kind"] = None
        data = read_data(self.write(tmp_path, frame), label="kind")
        assert len(data.views) == len(data.y) == 38
        assert data.notes == ("2 of 40 samples left out: no label",)

    def test_single_empty_cells_are_kept(self, tmp_path):
        frame = make_frame()
        frame.loc[3, "a_1"] = np.nan
        data = read_data(self.write(tmp_path, frame), label="kind", views=BY_PREFIX)
        assert np.isnan(data.views["a"]).sum() == 1
        assert data.views.observed[3].all()

    @pytest.mark.parametrize(
        ("change", "options", "message"),
        [
            ({}, {"label": "knd"}, r"no column 'knd'; did you mean 'kind'\?"),
            ({}, {"label": "zzz"}, r"no column 'zzz'; it has 'a_0'"),
            ({}, {"index": "id"}, "no column 'id'"),
            ({}, {"views": {"c": ["c_*"]}}, r"view 'c': no column fits 'c_\*'"),
            ({"a_0": "red"}, {"label": "kind"}, "not numeric: 'a_0'.*'red'.*one-hot"),
            ({"a_0": np.inf}, {"label": "kind"}, "view 'X' has 40 infinite values"),
            ({"kind": "ill"}, {"label": "kind"}, "only the class 'ill'; two are needed"),
            ({"kind": None}, {"label": "kind"}, "no sample with a label"),
            ({"kind": 0.5}, {"label": "kind"}, "are 0.5: nothing to learn"),
        ],
    )
    def test_wrong(self, tmp_path, change, options, message):
        path = self.write(tmp_path, make_frame().assign(**change))
        with pytest.raises(DataFileError, match=message) as caught:
            read_data(path, **options)
        assert "\n" not in str(caught.value)


class TestBadFiles:
    @pytest.mark.parametrize(
        ("name", "content", "message"),
        [
            ("data.xlsx", b"x", r"must end in .npz, .csv"),
            ("data.csv", b"", "is empty"),
            ("data.csv", b"\n\n", "cannot read"),
            ("data.csv", b"a,b\n", "0 samples and 2 columns"),
            ("data.csv", b"a;b\n1;2\n", "one column, 'a;b'; separate by commas"),
            ("data.csv", b"\xff\xfe\x00\x81", "cannot read 'data.csv'"),
            ("data.npz", b"no archive", "cannot read 'data.npz'"),
            ("data.parquet", b"no parquet", "cannot read 'data.parquet'"),
            ("data.h5mu", b"no hdf5", "cannot read 'data.h5mu'"),
        ],
    )
    def test_content(self, tmp_path, name, content, message):
        for package in {"parquet": ["pyarrow"], "h5mu": ["mudata"]}.get(name.split(".")[1], []):
            pytest.importorskip(package)
        (tmp_path / name).write_bytes(content)
        with pytest.raises(DataFileError, match=message) as caught:
            read_data(tmp_path / name)
        assert "\n" not in str(caught.value)

    def test_path(self, tmp_path):
        with pytest.raises(DataFileError, match="there is no file"):
            read_data(tmp_path / "none.csv")
        with pytest.raises(DataFileError, match="no files to read; their names must end in"):
            read_data(tmp_path)

    @pytest.mark.parametrize(
        ("arrays", "message"),
        [
            ({"Q": np.eye(3)}, "neither X nor view_0 but 'Q'"),
            ({"K": np.ones((2, 3, 3))}, "holds kernels; a file with the views is needed"),
            ({"X": np.empty((0, 2)), "y": []}, "no samples"),
            ({"X": np.array([["a"]])}, "must be a table of numbers"),
            ({"X": np.array([[1, None]], dtype=object)}, "cannot read"),
            ({"X": np.eye(3), "y": [0, 1]}, r"labels of shape \(2,\) for 3 samples"),
            ({"X": np.eye(3), "feature_names": ["a"]}, "1 feature_names for 3 columns"),
            ({"view_0": np.eye(3), "view_2": np.eye(3)}, "no view_1; number them from 0"),
            ({"view_0": np.eye(3), "view_1": np.eye(2)}, "same samples"),
            ({"view_0": np.eye(3), "view_names": ["a", "b"]}, "give one different name"),
        ],
    )
    def test_arrays(self, tmp_path, arrays, message):
        np.savez(tmp_path / "data.npz", **arrays)
        with pytest.raises(DataFileError, match=message) as caught:
            read_data(tmp_path / "data.npz")
        assert "\n" not in str(caught.value)

    def test_labels_where_needed(self):
        data = UserData("mine", kq.MultiView([np.eye(3)]))
        with pytest.raises(DataFileError, match="mine has no labels; name their column"):
            data.labels()


class TestDescribe:
    def data(self, y=None, **blocks):
        a, b, labels = make_data()
        return UserData(
            "mine", kq.MultiView({"a": a, "b": b, **blocks}), labels if y is None else y
        )

    def test_counts(self):
        a, b, y = make_data()
        a[0, 1] = np.nan
        found = describe(UserData("mine", kq.MultiView({"a": a, "b": b}), y, ("a note",)))
        assert (found.n_samples, found.n_complete) == (40, 30)
        assert [view.n_features for view in found.views] == [3, 2]
        assert [view.n_present for view in found.views] == [40, 30]
        assert [view.absent for view in found.views] == [0, 0.25]
        assert [view.n_missing_cells for view in found.views] == [1, 0]
        assert [(p.present, p.count) for p in found.patterns] == [(("a", "b"), 30), (("a",), 10)]
        assert found.classes == {"0": 20, "1": 20}
        assert found.notes == ("a note",)
        assert found.to_dict()["views"][1]["name"] == "b"
        assert any("SimpleImputer" in entry.method for entry in found.suggestions)
        assert found.suggestions[0].method == "QuiltClassifier()"

    def test_absence_that_depends_on_the_class(self):
        found = describe(self.data(y=(np.arange(40) >= 30).astype(int)))
        assert found.association.cramers_v == pytest.approx(1)
        assert found.association.p_value < 0.001
        assert "depends on its class" in found.hints[0]
        methods = [entry.method for entry in found.suggestions]
        assert "QuiltClassifier(pattern=True)" in methods
        assert 'class_weight="balanced"' in methods

    def test_absence_that_does_not(self):
        found = describe(self.data())
        assert found.association.p_value > 0.5
        assert "no sign" in found.hints[0]
        assert not any("pattern" in entry.method for entry in found.suggestions)

    def test_absence_tells_nothing_of_events_that_were_all_seen(self):
        y = np.zeros(40, dtype=[("event", bool), ("time", float)])
        y["event"], y["time"] = True, np.arange(40)
        with warnings.catch_warnings(action="error"):
            found = describe(replace(self.data(y=y), task="survival"))
        assert found.association is None

    def test_p_value_is_that_of_fishers_test(self):
        # of two patterns and two classes, where Fisher's exact test orders tables as chi-square
        from scipy.stats import fisher_exact

        y = np.array([1] * 7 + [0] * 23 + [1] * 6 + [0] * 4)
        exact = fisher_exact([[7, 23], [6, 4]])[1]
        assert describe(self.data(y=y)).association.p_value == pytest.approx(exact, abs=0.015)

    def test_complete_and_unlabelled_data(self):
        data = UserData("mine", kq.MultiView({"a": np.eye(4), "b": np.eye(4) + 1}))
        found = describe(data)
        assert found.association is None
        assert found.classes is None
        assert found.hints == ("no view is absent",)
        assert any("'a', 'b'" in entry.reason for entry in found.suggestions)

    def test_many_samples(self):
        y = np.arange(3001) % 2
        found = describe(UserData("mine", kq.MultiView([y[:, None] + 0.5]), y))
        methods = [entry.method for entry in found.suggestions]
        assert methods == ["QuiltClassifier()", "LateFusionClassifier()"]

    def test_warnings(self):
        a, b, _ = make_data()
        a[:, 1] = 7.0
        a[-1] = np.nan
        rare = np.full((40, 1), np.nan)
        rare[0] = 1.0
        y = np.array(["x"] * 36 + ["z"] * 4)
        found = describe(UserData("mine", kq.MultiView({"a": a, "b": b, "r": rare}), y))
        text = "\n".join(found.warnings)
        assert "1 samples have no view at all" in text
        assert "fewer than 5% of the samples have: 'r'" in text
        assert "fewer than 5 samples: 'z'" in text
        assert "view 'a': 1 of 3 columns are constant" in text
        assert "one view only" in describe(UserData("m", kq.MultiView([a]))).warnings[0]


class TestComparisonStudy:
    def study(self, seed=0, **options):
        a, b, y = make_data(seed=seed)
        return comparison_study(UserData("mine", kq.MultiView({"a": a, "b": b}), y), **options)

    def test_the_name_is_of_the_content(self):
        first, again, other = self.study(), self.study(), self.study(seed=1)
        assert first.name == again.name != other.name
        assert next(first.cells()).key == next(again.cells()).key != next(other.cells()).key

    def test_settings(self):
        assert self.study().settings == ["as is"]
        study = self.study(ratios=(0.2, 0.4), mechanism="mnar", methods=["quilt", "quilt"])
        assert (study.axis, study.settings, study.methods) == ("ratio", [0.2, 0.4], ["quilt"])
        assert study.problem["mask"] == {"mechanism": "mnar"}

    def test_wrong(self):
        with pytest.raises(ProtocolError, match=r"'quit'; did you mean 'quilt'"):
            self.study(methods=["quit"])
        a, b, _ = make_data()
        rare = UserData("mine", kq.MultiView({"a": a, "b": b}), np.arange(40) // 36)
        with pytest.raises(DataFileError, match="class '1' of mine has 4 samples"):
            comparison_study(rare)
