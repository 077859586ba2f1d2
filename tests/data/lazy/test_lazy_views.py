"""Views that are not in memory: of dask, of files, of arrays on disk and of functions."""

import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy.sparse import csr_array, issparse
from sklearn.model_selection import train_test_split

import kernelquilt as kq
from kernelquilt.data.lazy.views import LazyViews
from kernelquilt.data.sampling import sample_blocks

pd = pytest.importorskip("pandas", reason="pandas is not installed")


def _arrays(n=100, seed=0):
    rng = np.random.default_rng(seed)
    a, b = rng.standard_normal((n, 3)), rng.standard_normal((n, 2))
    a[rng.random(n) < 0.4] = np.nan
    b[rng.random(n) < 0.2] = np.nan
    return {"a": a, "b": b}


def _frames(n=60, seed=0):
    rng = np.random.default_rng(seed)
    clinic = pd.DataFrame(
        {
            "age": rng.normal(60, 10, n),
            "sex": rng.choice(["f", "m"], n),
            "stage": rng.choice(["I", "II", "III"], n),
        },
        index=[f"p{i}" for i in range(n)],
    )
    clinic.loc[rng.random(n) < 0.2, "age"] = np.nan
    clinic.loc[rng.random(n) < 0.2, "sex"] = None
    rna = pd.DataFrame(rng.standard_normal((n, 2)), columns=["g1", "g2"], index=clinic.index)
    rna[rng.random(n) < 0.3] = np.nan
    return {"clinic": clinic, "rna": rna}


def _on_dask(views, rows):
    da = pytest.importorskip("dask.array", reason="dask is not installed")
    return kq.MultiView(
        {name: da.from_array(each, chunks=(rows, 2)) for name, each in views.items()}
    )


def _from_function(views, rows):
    def function():
        whole = kq.MultiView(views)
        return (whole[i : i + rows] for i in range(0, len(whole), rows))

    return kq.MultiView.stream(function)


def _from_files(views, rows, folder):
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    for name, each in views.items():
        pd.DataFrame(each).rename(columns=str).to_parquet(
            folder / f"{name}.parquet", row_group_size=rows
        )
    return kq.MultiView.stream({name: folder / f"{name}.parquet" for name in views})


SOURCES = ["dask", "arrays", "files", "function"]


@pytest.fixture
def lazy(request, tmp_path):
    views = _arrays()
    made = {
        "dask": lambda: _on_dask(views, 30),
        "arrays": lambda: kq.MultiView.stream(views),
        "files": lambda: _from_files(views, 30, tmp_path),
        "function": lambda: _from_function(views, 30),
    }
    return made[request.param]()


@pytest.mark.parametrize("lazy", SOURCES, indirect=True)
def test_every_source_holds_the_same_samples(lazy):
    whole = kq.MultiView(_arrays())
    assert isinstance(lazy, LazyViews)
    assert lazy.shape == whole.shape == (100, 2)
    assert lazy.names == whole.names
    assert_array_equal(lazy.observed, whole.observed)
    loaded = lazy.compute()
    assert not isinstance(loaded, LazyViews)
    assert_array_equal(loaded["a"], whole["a"])
    rows = [99, 0, 31, 31]
    assert_array_equal(lazy[rows]["b"], whole[rows]["b"])
    assert_array_equal(lazy[20:70:7].compute()["b"], whole[20:70:7]["b"])
    mask = np.arange(100) % 3 == 0
    assert_array_equal(lazy[mask].observed, whole.observed[mask])
    assert_array_equal(lazy[mask][[5]]["a"], whole[mask][[5]]["a"])
    assert_array_equal(lazy.select(["b"]).compute()["b"], whole["b"])
    hidden = whole.observed & (np.arange(100) % 2 == 0)[:, None]
    assert_array_equal(lazy.with_observed(hidden).compute()["a"], whole.with_observed(hidden)["a"])
    assert lazy.select(["b"]).with_observed(hidden[:, 1:]).observed.sum() == hidden[:, 1].sum()


@pytest.mark.parametrize("lazy", SOURCES, indirect=True)
def test_blocks_of_every_source_are_those_of_the_samples_in_memory(lazy):
    whole = kq.MultiView(_arrays())
    expected, found = sample_blocks(whole).take(range(100)), sample_blocks(lazy).take(range(100))
    for left, right in zip(expected.views, found.views, strict=True):
        assert_array_equal(left, right)
    assert_array_equal(found.observed, whole.observed)


@pytest.mark.parametrize("lazy", SOURCES, indirect=True)
def test_what_needs_samples_in_memory_says_so(lazy):
    y = np.arange(100) % 2
    for refused in (lambda: lazy["a"], lambda: lazy.given("a"), lambda: lazy.to_frame()):
        with pytest.raises(ValueError, match=r"not in memory; load all with X.compute\(\)"):
            refused()
    with pytest.raises(ValueError, match="LpMKLClassifier needs samples in memory"):
        kq.LpMKLClassifier().fit(lazy, y)
    with pytest.raises(ValueError, match="ViewTransformer needs samples in memory"):
        kq.ViewTransformer().fit(lazy)
    with pytest.raises(KeyError, match="no view 'c'"):
        lazy.given("c")
    with pytest.raises(IndexError, match="go upwards"):
        lazy[::-1]
    with pytest.raises(ValueError, match="0 samples are selected"):
        lazy[:0]


@pytest.mark.parametrize("lazy", SOURCES, indirect=True)
def test_splits_of_scikit_learn_load_samples(lazy):
    whole, y = kq.MultiView(_arrays()), np.arange(100)
    train, test, y_train, _ = train_test_split(lazy, y, random_state=0)
    assert not isinstance(train, LazyViews)
    assert len(test) == 25
    assert_array_equal(train["a"], whole[y_train]["a"])


def test_the_text_tells_what_is_known():
    lazy = kq.MultiView.stream({f"v{i}": np.ones((10, 2)) for i in range(14)})
    assert "10 samples, 14 views, not in memory, 1 chunks of up to 10" in repr(lazy)
    assert "absent" not in repr(lazy)
    assert "... and 2 more" in repr(lazy)
    assert lazy.observed.all()
    assert "0.0 % absent" in repr(lazy)


def test_the_mask_is_computed_once():
    calls = []

    def function():
        calls.append(1)
        yield kq.MultiView({"a": np.ones((3, 1))})

    lazy = kq.MultiView.stream(function)
    before = len(calls)
    assert lazy.observed.all()
    assert lazy[:2].observed.all()
    assert lazy.present("a").all()
    assert lazy.index is None
    assert len(calls) == before + 1


def test_data_frames_of_dask_keep_names_and_types():
    dd = pytest.importorskip("dask.dataframe", reason="dask is not installed")
    frames = _frames()
    lazy = kq.MultiView({name: dd.from_pandas(each, 4) for name, each in frames.items()})
    whole = kq.MultiView(frames)
    assert lazy.columns == whole.columns
    # dask sorts the index
    assert sorted(lazy.index) == sorted(whole.index)
    assert_array_equal(lazy.observed, whole.loc[lazy.index].observed)
    assert_array_equal(lazy.loc[["p7"]]["rna"], whole.loc[["p7"]]["rna"])


def test_masks_and_columns_of_arrays_are_kept():
    da = pytest.importorskip("dask.array", reason="dask is not installed")
    views, n = _arrays(), 100
    observed = kq.MultiView(views).observed & (np.arange(n) > 50)[:, None]
    expected = kq.MultiView(views, observed, columns={"a": "xyz"}, index=np.arange(n) + 5)
    lazy = kq.MultiView(
        {name: da.from_array(each, chunks=(25, -1)) for name, each in views.items()},
        da.from_array(observed, chunks=10),
        columns={"a": "xyz"},
        index=np.arange(n) + 5,
    )
    assert_array_equal(lazy.observed, observed)
    assert lazy.columns == {"a": ("x", "y", "z"), "b": None}
    assert lazy[[60]].columns == lazy.columns
    assert_array_equal(lazy.index, expected.index)
    assert_array_equal(lazy.compute()["a"], expected["a"])
    streamed = kq.MultiView.stream(views, observed=observed, columns={"a": "xyz"})
    assert_array_equal(streamed.compute()["a"], expected["a"])
    assert streamed.columns == lazy.columns


def test_sparse_views_stay_sparse():
    da = pytest.importorskip("dask.array", reason="dask is not installed")
    dense = np.round(np.random.default_rng(0).standard_normal((50, 4)))
    streamed = kq.MultiView.stream({"s": csr_array(dense)})
    lazy = kq.MultiView(
        {"s": da.from_array(dense, chunks=(20, 4)).map_blocks(csr_array, meta=csr_array((0, 0)))}
    )
    for views in (streamed, lazy):
        assert issparse(views[[1, 2]]["s"])
        assert issparse(views.compute()["s"])
        assert_array_equal(views.compute()["s"].toarray(), dense)
        assert issparse(sample_blocks(views).take([3]).views[0])


def test_samples_are_not_loaded_by_sums(tmp_path):
    n = 100_000
    shape = n, 20
    disk = np.lib.format.open_memmap(tmp_path / "a.npy", "w+", dtype=np.float32, shape=shape)
    disk[:] = 1.0
    disk.flush()
    tracemalloc.start()
    lazy = kq.MultiView.stream({"a": np.load(tmp_path / "a.npy", mmap_mode="r")})
    total = sample_blocks(lazy).sum(_gram)[0]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert_array_equal(total, np.full((20, 20), float(n)))
    assert peak < 4e6


def _gram(block):
    return (block.views[0].T @ block.views[0],)


class TestBadInput:
    def test_other_chunks(self):
        da = pytest.importorskip("dask.array", reason="dask is not installed")
        with pytest.raises(ValueError, match=r"'a' has 2 chunks \(5, 5\) and 'b' 3 .*rechunk"):
            kq.MultiView(
                {"a": da.ones((10, 2), chunks=(5, 2)), "b": da.ones((10, 2), chunks=(4, 2))}
            )

    def test_unknown_chunks_are_computed_and_compared(self):
        da = pytest.importorskip("dask.array", reason="dask is not installed")
        a = da.from_array(np.arange(20.0).reshape(10, 2), chunks=(5, 2))
        kept = a[a[:, 0] > 4]
        assert len(kq.MultiView({"a": kept, "b": kept})) == 7
        with pytest.raises(
            ValueError, match=r"'a' has 2 chunks \(2, 5\) and 'b' 2 chunks \(5, 5\)"
        ):
            kq.MultiView({"a": kept, "b": a})

    def test_some_views_in_memory(self):
        da = pytest.importorskip("dask.array", reason="dask is not installed")
        with pytest.raises(ValueError, match=r"view 'b' is a ndarray in memory.*from_array"):
            kq.MultiView({"a": da.ones((4, 1)), "b": np.ones((4, 1))})
        with pytest.raises(ValueError, match="view 'a': 2-D arrays and data frames"):
            kq.MultiView({"a": da.ones(4)})

    def test_two_dimensional_data_of_dask(self):
        da = pytest.importorskip("dask.array", reason="dask is not installed")
        for model in (kq.QuiltClassifier(), kq.SimpleMKLClassifier(views={"a": [0], "b": [1]})):
            with pytest.raises(ValueError, match="say which columns are which view"):
                model.fit(da.ones((10, 2)), np.arange(10) % 2)

    def test_a_chunk_of_another_length(self):
        da = pytest.importorskip("dask.array", reason="dask is not installed")
        dask = pytest.importorskip("dask")
        part = dask.delayed(np.ones)((3, 2))
        lazy = kq.MultiView({"a": da.from_delayed(part, (4, 2), dtype=float)})
        with pytest.raises(ValueError, match="chunk 0 has 3 samples, but is said to have 4"):
            lazy.observed  # noqa: B018

    def test_infinite_values_are_found_when_they_are_read(self):
        lazy = kq.MultiView.stream({"a": np.array([[1.0], [np.inf]])})
        with pytest.raises(ValueError, match="view 'a' has 1 infinite values"):
            lazy.observed  # noqa: B018

    def test_a_function_that_cannot_start_anew(self):
        once = iter([kq.MultiView({"a": np.ones((3, 1))})])
        lazy = kq.MultiView.stream(lambda: once)
        with pytest.raises(ValueError, match=r"must make a new iterator.*there are 0 only"):
            lazy.observed  # noqa: B018

    def test_a_function_that_draws_anew(self):
        rng = np.random.default_rng(0)
        lazy = kq.MultiView.stream(lambda: iter([{"a": rng.standard_normal((3, 1))}]))
        with pytest.raises(ValueError, match="number 0 has other values"):
            lazy.observed  # noqa: B018
        lengths = iter([3, 4])
        lazy = kq.MultiView.stream(lambda: iter([{"a": np.ones((next(lengths), 1))}]))
        with pytest.raises(ValueError, match="number 0 has 4 samples instead of 3"):
            lazy.observed  # noqa: B018
        times = iter([1, 2])
        lazy = kq.MultiView.stream(lambda: iter([{"a": np.ones((3, 1))}] * next(times)))
        with pytest.raises(ValueError, match="more than 1 of them"):
            lazy.observed  # noqa: B018

    def test_a_function_that_yields_other_views_or_nothing(self):
        chunks = [{"a": np.ones((3, 1))}, {"b": np.ones((3, 1))}]
        with pytest.raises(ValueError, match="'b' in number 1, but 'a' before"):
            kq.MultiView.stream(lambda: chunks)
        with pytest.raises(ValueError, match="yields no samples"):
            kq.MultiView.stream(list)
        with pytest.raises(ValueError, match="give no others"):
            kq.MultiView.stream(list, columns={"a": ["x"]})

    def test_what_is_no_source(self):
        with pytest.raises(ValueError, match="dict of view to files or arrays"):
            kq.MultiView.stream(np.ones((3, 2)))
        with pytest.raises(ValueError, match="view 'a': an array of shape"):
            kq.MultiView.stream({"a": np.ones(3)})
        with pytest.raises(ValueError, match="'a' has 3, 'b' has 2"):
            kq.MultiView.stream({"a": np.ones((3, 1)), "b": np.ones((2, 1))})

    def test_a_file_that_goes_or_changes(self, tmp_path):
        lazy = _from_files(_arrays(), 30, tmp_path)
        assert lazy.observed.any()
        path = tmp_path / "b.parquet"
        content = path.read_bytes()
        path.unlink()
        with pytest.raises(FileNotFoundError, match=r"view 'b', file .*b.parquet' is not there"):
            lazy.compute()
        path.write_bytes(content + b"x")
        with pytest.raises(ValueError, match=r"view 'b', file .*: it has changed since"):
            lazy.compute()
        with pytest.raises(FileNotFoundError, match="view 'c'"):
            kq.MultiView.stream({"c": tmp_path / "c.parquet"})

    def test_files_with_other_row_groups(self, tmp_path):
        pytest.importorskip("pyarrow", reason="pyarrow is not installed")
        frame = pd.DataFrame({"x": np.arange(10.0)})
        frame.to_parquet(tmp_path / "a.parquet", row_group_size=5)
        frame.to_parquet(tmp_path / "b.parquet", row_group_size=4)
        with pytest.raises(ValueError, match=r"'a' have 2 of 10 samples \(5, 5\).*row_group_size"):
            kq.MultiView.stream({"a": tmp_path / "a.parquet", "b": tmp_path / "b.parquet"})
        renamed = frame.rename(columns={"x": "z"})
        renamed.to_parquet(tmp_path / "c.parquet", row_group_size=5)
        with pytest.raises(ValueError, match=r"view 'a': file 'c.parquet' has other columns"):
            kq.MultiView.stream({"a": [tmp_path / "a.parquet", tmp_path / "c.parquet"]})

    def test_more_than_memory_is_not_loaded(self, monkeypatch):
        monkeypatch.setenv("KERNELQUILT_MAX_MEMORY", "1e-6")
        lazy = kq.MultiView.stream(_arrays(1000))
        with pytest.raises(ValueError, match=r"1000 samples would take about .* GiB"):
            lazy.compute()


def test_columns_of_one_file_become_several_views(tmp_path):
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    frame = pd.DataFrame(np.arange(12.0).reshape(4, 3), columns=["x", "y", "z"])
    frame.to_parquet(tmp_path / "all.parquet", row_group_size=3)
    file = tmp_path / "all.parquet"
    lazy = kq.MultiView.stream({"a": [file], "b": file}, columns={"a": ["z", "x"], "b": ["y"]})
    assert lazy.columns == {"a": ("z", "x"), "b": ("y",)}
    assert_array_equal(lazy.compute()["a"], frame[["z", "x"]])


def test_no_samples_are_refused():
    lazy = kq.MultiView.stream({"a": np.ones((6, 2))})
    with pytest.raises(ValueError, match="0 samples are selected"):
        lazy[[]]
