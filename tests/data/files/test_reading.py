import subprocess
import sys

import numpy as np
import pytest
from scipy.io import savemat
from sklearn.model_selection import cross_val_score

import kernelquilt as kq

pd = pytest.importorskip("pandas")


@pytest.fixture
def folder(tmp_path):
    """Two tables of different patients, one with text and a missing cell, and their labels."""
    (tmp_path / "clinic.csv").write_text("id,age,sex\np1,60,f\np2,,m\np4,71,f\n")
    (tmp_path / "rna.tsv").write_text("id\tg1\tg2\np3\t0.5\t1\np1\t0.1\t2\n")
    (tmp_path / "outcome.csv").write_text("id,ill\np4,1\np3,0\np1,0\np9,1\n")
    (tmp_path / "README.txt").write_text("no data")
    (tmp_path / "._clinic.csv").write_bytes(b"\x00left behind by a file system")
    return tmp_path


@pytest.mark.parametrize("first", ["p1 p2 p3", "1 2 3"], ids=["texts", "numbers"])
def test_a_column_that_may_name_the_samples_is_noticed(tmp_path, first):
    rows = [f"{name},{value},{value % 2}" for value, name in enumerate(first.split())]
    (tmp_path / "table.csv").write_text("\n".join(["name,value,ill", *rows]))
    # texts have a type of their own from pandas 3 on
    with (
        pd.option_context("future.infer_string", True),
        pytest.warns(UserWarning, match="'name' is a feature, but differs in every row"),
    ):
        kq.read_views(tmp_path / "table.csv", label="ill")


class TestFolder:
    def test_tables_are_joined_on_the_samples(self, folder):
        with pytest.warns(UserWarning, match="left out") as caught:
            X, y = kq.read_views(folder, label="ill")
        assert [str(each.message) for each in caught] == [
            "1 of 4 labelled samples left out: in no view",
            "1 of 4 samples left out: no label 'ill'",
        ]
        assert {each.filename for each in caught} == {__file__}
        assert X.names == ("clinic", "rna")
        assert X.index.tolist() == y.index.tolist() == ["p1", "p3", "p4"]
        assert X.observed.tolist() == [[True, True], [False, True], [True, False]]
        assert y.tolist() == [0, 0, 1]
        assert y.dtype.kind == "i"
        assert y.name == "ill"

    def test_cells_stay_as_they_are(self, folder):
        X = kq.read_views([folder / "clinic.csv", folder / "rna.tsv"])
        clinic = X.given("clinic")
        assert clinic["sex"].tolist()[:2] == ["f", "m"]
        assert np.isnan(clinic["age"].tolist()[1])
        assert X.columns == {"clinic": ("age", "sex"), "rna": ("g1", "g2")}

    def test_without_a_label_all_tables_are_views(self, folder):
        X = kq.MultiView.read(folder)
        assert X.names == ("clinic", "outcome", "rna")
        assert X.index.tolist() == ["p1", "p2", "p3", "p4", "p9"]

    def test_names_of_views(self, folder):
        X = kq.read_views({"a": folder / "rna.tsv", "b": str(folder / "clinic.csv")})
        assert X.names == ("a", "b")
        assert kq.read_views([folder / "rna.tsv"]).names == ("rna",)

    def test_parquet_with_an_index(self, folder):
        pytest.importorskip("pyarrow")
        frame = pd.DataFrame({"p": [1.0, 2.0]}, index=pd.Index(["p1", "p4"], name="id"))
        frame.to_parquet(folder / "protein.parquet")
        X = kq.read_views([folder / "clinic.csv", folder / "protein.parquet"])
        assert X.index.tolist() == ["p1", "p2", "p4"]
        assert X.present("protein").tolist() == [True, False, True]

    @pytest.mark.parametrize(
        ("written", "found"),
        [
            (("10", "9"), [9, 10, 11]),
            (("010", "9"), ["010", "11", "9"]),
            (("a", "9"), ["11", "9", "a"]),
        ],
    )
    def test_identifiers_are_compared_as_written(self, tmp_path, written, found):
        # a column of 9 and 11 would be of numbers, one of 9 and "a" of text
        (tmp_path / "a.csv").write_text("id,x\n" + "".join(f"{each},1\n" for each in written))
        (tmp_path / "b.csv").write_text("id,z\n9,1\n11,2\n")
        X = kq.read_views(tmp_path)
        assert X.index.tolist() == found
        assert X.observed.all(axis=1).sum() == 1

    def test_the_index_that_pandas_writes_without_a_name(self, tmp_path):
        for name, samples in (("a", ["s1", "s2"]), ("b", ["s2", "s3"])):
            pd.DataFrame({name: [1.0, 2.0]}, index=samples).to_csv(tmp_path / f"{name}.csv")
        assert kq.read_views(tmp_path).index.tolist() == ["s1", "s2", "s3"]

    def test_row_numbers_are_no_identifiers(self, tmp_path):
        for name in "ab":
            frame = pd.DataFrame({name: [1.0, 2.0], "who": ["s1", "s2"]})
            frame.to_csv(tmp_path / f"{name}.csv")
        with pytest.raises(ValueError, match="numbers the rows; name the column"):
            kq.read_views(tmp_path)
        X = kq.read_views(tmp_path, index="who")
        assert X.columns == {"a": ("a",), "b": ("b",)}
        X = kq.read_views(tmp_path / "a.csv", index="who")
        assert X.columns == {"X": ("a",)}

    def test_names_of_rows_without_a_name_of_their_column(self, tmp_path):
        (tmp_path / "a.csv").write_text('"g1","g2"\n"01",1,2\n"02",3,4\n')
        (tmp_path / "b.csv").write_text('"sex"\n"02",f\n')
        X = kq.read_views(tmp_path)
        assert X.index.tolist() == ["01", "02"]
        assert X.columns == {"a": ("g1", "g2"), "b": ("sex",)}

    def test_other_files_are_not_passed_over_in_silence(self, folder):
        (folder / "protein.xlsx").write_bytes(b"")
        (folder / "mri.csv.gz").write_bytes(b"")
        with pytest.warns(UserWarning, match=r"files not read: 'mri.csv.gz', 'protein.xlsx'"):
            kq.read_views(folder)

    def test_other_encodings(self, tmp_path):
        (tmp_path / "a.csv").write_bytes("id,town\n1,K\xf6ln\n".encode("latin-1"))
        with pytest.raises(ValueError, match=r"cannot read 'a\.csv'.*; save it as UTF-8"):
            kq.read_views(tmp_path)

    @pytest.mark.parametrize(
        ("files", "options", "message"),
        [
            ({"a": "i,x\n1,1\n", "b": "j,x2\n1,1\n"}, {}, "a.csv, b.csv have no column in common"),
            (
                {"a": "x,i,j\n1,1,2\n", "b": "z,j,i\n1,1,1\n"},
                {},
                "the columns 'i', 'j' in common; name .* with index=",
            ),
            ({"a": "i,x\n1,1\n", "b": "i,z\n1,1\n"}, {"index": "j"}, "'a.csv' has no column 'j'"),
            (
                {"a": "i,x\n1,1\n1,2\n", "b": "i,z\n1,1\n"},
                {},
                "occur more than once.*joined on 'i'",
            ),
            ({"a": "i,x\n1,1\n,2\n", "b": "i,z\n1,1\n"}, {}, "are missing"),
            (
                {"a": "i,x\n1,1\n", "b": "i,ill\n1,1\n1,0\n"},
                {"label": "ill"},
                "'b.csv': 1 of 2 identifiers are missing or repeated",
            ),
            (
                {"a": "i,x,k\n1,1,1\n", "b": "i,z,k\n1,1,1\n"},
                {"label": "k"},
                "the column 'k' is in 'a', 'b'; keep it in one",
            ),
            ({"a": "i,kind\n1,1\n"}, {"label": "kinf"}, "none of the files .* did you mean 'kind'"),
            ({"a": "i,x\n1,1\n", "b": "i\n1\n"}, {}, "'b.csv' has no column but 'i'"),
            ({"a": "i,k\n1,1\n"}, {"label": "k"}, "but no views"),
            ({"a": "i,x\n1,1\n"}, {"views": {"a": ["x"]}}, "leave views= out"),
            ({}, {}, "no files to read; their names must end in .npz, .csv"),
        ],
    )
    def test_wrong(self, tmp_path, files, options, message):
        for name, text in files.items():
            (tmp_path / f"{name}.csv").write_text(text)
        with pytest.raises(ValueError, match=message) as caught:
            kq.read_views(tmp_path, **options)
        assert "\n" not in str(caught.value)

    def test_files_that_cannot_be_joined(self, folder):
        with pytest.raises(FileNotFoundError, match="there is no file"):
            kq.read_views([folder / "rna.tsv", folder / "none.csv"])
        np.savez(folder / "more.npz", X=np.eye(2))
        with pytest.raises(ValueError, match=r"only tables .* read 'more.npz' on its own"):
            kq.read_views(folder)
        (folder / "more.npz").unlink()
        (folder / "rna.csv").write_text("id,g\np1,1\n")
        with pytest.raises(ValueError, match=r"same view: 'rna.csv'; name views with a dict"):
            kq.read_views(folder)

    def test_an_archive_alone_in_a_folder(self, tmp_path):
        np.savez(tmp_path / "data.npz", X=np.eye(2))
        assert kq.read_views(tmp_path).names == ("X",)


class TestOneTable:
    def test_views_and_labels(self, tmp_path):
        path = tmp_path / "data.csv"
        path.write_text("who,rna.1,rna.2,clinic.sex,kind\na,1,,f,x\nb,,,m,z\nc,3,4,,\n")
        with pytest.warns(UserWarning, match="1 of 3 samples left out: no label 'kind'"):
            X, y = kq.read_views(path, label="kind", index="who")
        assert X.names == ("rna", "clinic")
        assert X.observed.tolist() == [[True, True], [False, True]]
        assert y.to_dict() == {"a": "x", "b": "z"}

    @pytest.mark.parametrize("names", [["x", "y", "z"], [3, 4, 5]])
    def test_a_column_that_names_the_samples(self, tmp_path, names):
        path = tmp_path / "table.csv"
        pd.DataFrame({"who": names, "age": [60.0, 50.0, 60.0]}).to_csv(path, index=False)
        with pytest.warns(UserWarning, match="'who' is a feature.* say index='who'"):
            assert kq.read_views(path).columns == {"X": ("who", "age")}
        assert kq.read_views(path, index="who").columns == {"X": ("age",)}

    def test_one_pattern_for_a_view(self, tmp_path):
        path = tmp_path / "table.csv"
        pd.DataFrame({"rna_1": [1.0], "rna_2": [2.0], "age": [3.0]}).to_csv(path, index=False)
        X = kq.read_views(path, views={"rna": "rna_*", "clinic": "age"})
        assert X.columns == {"rna": ("rna_1", "rna_2"), "clinic": ("age",)}

    def test_columns_in_no_view(self, tmp_path):
        path = tmp_path / "data.csv"
        path.write_text("rna.1,rna.2,other\n1,2,3\n")
        with pytest.warns(UserWarning, match="1 of 3 columns left out, in no view: 'other'"):
            kq.read_views(path)

    def test_a_column_y_is_no_feature(self, tmp_path):
        path = tmp_path / "data.csv"
        path.write_text("a,b,y\n1,2,3\n4,5,\n")
        with pytest.warns(UserWarning, match="column 'y' left out: taken for labels"):
            X = kq.read_views(path)
        assert X.columns == {"X": ("a", "b")}
        assert len(X) == 2


class TestArchives:
    def test_names(self, tmp_path):
        path = tmp_path / "data.npz"
        np.savez(
            path,
            view_0=np.eye(2),
            view_names=["a"],
            feature_names_0=["f", "g"],
            sample_ids=["s1", "s2"],
            target=[0.5, 1.5],
        )
        X, y = kq.read_views(path, label="target")
        assert X.columns == {"a": ("f", "g")}
        assert y.to_dict() == {"s1": 0.5, "s2": 1.5}

    def test_kernels(self, tmp_path):
        K = np.stack([np.eye(3), np.ones((3, 3))])
        np.savez(tmp_path / "data.npz", K=K, y=[0, 1, 0], kernel_names=["a", "b"])
        stack, y = kq.read_views(tmp_path / "data.npz", label="y")
        assert isinstance(stack, kq.KernelStack)
        assert stack.names == ("a", "b")
        np.testing.assert_array_equal(stack.gram(), K)
        assert y.tolist() == [0, 1, 0]
        assert len(kq.read_views(tmp_path / "data.npz")) == 3
        np.savez(tmp_path / "data.npz", K=K, kernel_names=["a", "a"])
        assert kq.read_views(tmp_path / "data.npz").names == ("a", "a_2")

    def test_objects_are_refused(self, tmp_path):
        np.savez(tmp_path / "data.npz", X=np.array([[1, None]], dtype=object))
        with pytest.raises(ValueError, match=r"cannot read 'data.npz'.*allow_pickle=False"):
            kq.read_views(tmp_path / "data.npz")


def kernels(n=6):
    """Three kernels (3, n, n) that cannot be mistaken for each other."""
    rng = np.random.default_rng(0)
    factors = rng.normal(size=(3, n, 4))
    return factors @ factors.transpose(0, 2, 1)


def cell(kernels):
    made = np.empty((1, len(kernels)), dtype=object)
    made[0] = list(kernels)
    return made


class TestMatlab:
    def variables(self, form):
        K = kernels()
        return {
            "array": {"KH": np.moveaxis(K, 0, 2)},
            "kernels first": {"KH": K},
            "cell": {"KH": cell(K)},
            "variables": {f"K{m}": kernel for m, kernel in enumerate(K)},
        }[form]

    @pytest.mark.parametrize("form", ["array", "kernels first", "cell", "variables"])
    def test_forms(self, tmp_path, form):
        y = np.array([[1.0, 2, 1, 2, 1, np.nan]])
        more = {"Y": y, "sigma": 0.5, "note": "by the authors", "idx": np.arange(5)}
        savemat(tmp_path / "data.mat", {**self.variables(form), **more})
        stack = kq.read_views(tmp_path / "data.mat")
        np.testing.assert_array_equal(stack.gram(), kernels())
        assert stack.names[0] == ("K0" if form == "variables" else "kernel_0")
        with pytest.warns(UserWarning, match="1 of 6 samples left out"):
            stack, labels = kq.read_views(tmp_path / "data.mat", label="Y")
        assert len(stack) == 5
        assert labels.tolist() == [1, 2, 1, 2, 1]

    def test_choice(self, tmp_path):
        K = np.moveaxis(kernels(), 0, 2)
        savemat(tmp_path / "data.mat", {"train": K, "other": 2 * K})
        with pytest.raises(ValueError, match=r"choose with views=\{'K': \['train'\]\}"):
            kq.read_views(tmp_path / "data.mat")
        stack = kq.read_views(tmp_path / "data.mat", views={"K": ["train"]})
        np.testing.assert_array_equal(stack.gram(), kernels())

    def test_no_kernels(self, tmp_path):
        savemat(tmp_path / "data.mat", {"X": np.ones((3, 4))})
        with pytest.raises(ValueError, match=r"'data.mat' has no kernels.*but 'X'"):
            kq.read_views(tmp_path / "data.mat")
        with pytest.raises(ValueError, match="no variable 'y'; it has 'X'"):
            kq.read_views(tmp_path / "data.mat", label="y")

    def write_new(self, path):
        """Write a file of version 7.3: HDF5 behind 512 bytes, axes reversed, cells by reference."""
        h5py = pytest.importorskip("h5py")
        K = kernels()
        with h5py.File(path, "w", userblock_size=512) as file:
            file["KH"] = np.moveaxis(K, 0, 2).T
            file["Y"] = np.array([[1.0, 2, 1, 2, 1, 2]])
            names = [f"#refs#/{m}" for m in range(3)]
            for name, kernel in zip(names, K, strict=True):
                file[name] = kernel.T
            file["cells"] = np.array([[file[name].ref] for name in names], dtype=h5py.ref_dtype)
        with path.open("r+b") as raw:
            raw.write(b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM")

    @pytest.mark.parametrize("variable", ["KH", "cells"])
    def test_version_7_3(self, tmp_path, variable):
        self.write_new(tmp_path / "data.mat")
        stack, y = kq.read_views(tmp_path / "data.mat", label="Y", views={"K": [variable]})
        np.testing.assert_array_equal(stack.gram(), kernels())
        assert y.tolist() == [1, 2, 1, 2, 1, 2]

    def test_version_7_3_without_h5py(self, tmp_path, monkeypatch):
        self.write_new(tmp_path / "data.mat")
        monkeypatch.setitem(sys.modules, "h5py", None)
        with pytest.raises(ImportError, match=r"'data.mat' needs h5py: .*kernelquilt\[files\]"):
            kq.read_views(tmp_path / "data.mat")


@pytest.mark.filterwarnings("ignore")
def test_sparse_modalities_of_mudata_stay_sparse(tmp_path):
    mudata, anndata = pytest.importorskip("mudata"), pytest.importorskip("anndata")
    sparse = pytest.importorskip("scipy.sparse")
    made = anndata.AnnData(sparse.csr_matrix(np.eye(3)), obs=pd.DataFrame(index=["a", "b", "c"]))
    whole = mudata.MuData({"rna": made})
    whole.obs["kind"] = ["x", "z", "x"]
    whole.write(tmp_path / "data.h5mu")
    X, y = kq.read_views(tmp_path / "data.h5mu", label="kind")
    assert sparse.issparse(X["rna"])
    assert y.to_dict() == {"a": "x", "b": "z", "c": "x"}


def test_missing_pandas(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"needs pandas: .*kernelquilt\[frames\]"):
        kq.read_views(folder)


def test_importing_the_reader_imports_no_library_of_files():
    # scikit-learn imports pandas where there is one, and pandas pyarrow
    code = (
        "import sys, sklearn.base; there = set(sys.modules); "
        "import kernelquilt as kq; kq.read_views; "
        "assert not {'pyarrow', 'h5py', 'mudata'} & (set(sys.modules) - there)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_what_is_read_goes_into_a_classifier(tmp_path):
    rng = np.random.default_rng(0)
    y = np.arange(40) % 2
    index = pd.Index([f"p{row:02}" for row in range(40)], name="id")
    clinic = pd.DataFrame(
        {"age": y + rng.normal(size=40), "sex": rng.choice(["f", "m"], 40)}, index
    )
    clinic.iloc[3, 0] = np.nan
    rna = pd.DataFrame(y[:, None] + rng.normal(size=(40, 3)), index, columns=["a", "b", "c"])
    clinic.iloc[:30].assign(ill=y[:30]).to_csv(tmp_path / "clinic.csv")
    rna.iloc[rng.permutation(40)[:30]].to_csv(tmp_path / "rna.csv")
    with pytest.warns(UserWarning, match="no label"):
        X, labels = kq.read_views(tmp_path, label="ill")
    assert cross_val_score(kq.LateFusionClassifier(), X, labels, cv=3).mean() > 0.6
