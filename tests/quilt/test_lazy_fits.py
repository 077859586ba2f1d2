"""Fits to samples that are not in memory equal fits to the same samples in memory."""

import os
import signal
import tracemalloc
from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array

import kernelquilt as kq
from kernelquilt.data import sampling, training

N = 420
FEW = {"n_landmarks": 40, "random_state": 0}
CLASSIFIERS = [
    kq.LateFusionClassifier(**FEW),
    kq.QuiltClassifier(experts=None, **FEW),
    kq.quilt.LpMKLRidgeClassifier(**FEW),
]
REGRESSORS = [
    kq.LateFusionRegressor(**FEW),
    kq.QuiltRegressor(experts=None, **FEW),
]


def named(model):
    return type(model).__name__


@pytest.fixture(autouse=True)
def few_held(monkeypatch):
    """Let choices be made by some of the samples, as with many of them."""
    monkeypatch.setattr(sampling, "MOST_SAMPLES", 150)


def _samples(n=N, seed=0):
    X, y = kq.datasets.make_multiview(
        n, 3, n_features=4, relevance=[1, 0.7, 0.4], redundancy=0.3, random_state=seed
    )
    X = kq.datasets.make_absent(X, 0.4, random_state=seed)
    return X, y


def _streamed(X):
    return kq.MultiView.stream({name: X.given(name) for name in X.names})


def _on_dask(X, rows):
    da = pytest.importorskip("dask.array", reason="dask is not installed")
    return kq.MultiView({name: da.from_array(X.given(name), chunks=(rows, -1)) for name in X.names})


def _output(model, X):
    return model.predict_proba(X) if hasattr(model, "predict_proba") else model.predict(X)


def _targets(model, X, y):
    return y if hasattr(model, "predict_proba") else y + np.nan_to_num(X["view_0"]).sum(axis=1)


@pytest.mark.parametrize("model", CLASSIFIERS + REGRESSORS, ids=named)
def test_a_stream_gives_the_same_bits(model):
    X, y = _samples()
    y = _targets(model, X, y)
    expected = _output(model.fit(X, y), X)
    assert_array_equal(_output(model.fit(_streamed(X), y), X), expected)


@pytest.mark.parametrize("model", CLASSIFIERS + REGRESSORS, ids=named)
@pytest.mark.parametrize("rows", [37, 200])
def test_dask_gives_the_same_model(model, rows):
    da = pytest.importorskip("dask.array", reason="dask is not installed")
    X, y = _samples()
    y = _targets(model, X, y)
    expected = _output(model.fit(X, y), X)
    lazy = _on_dask(X, rows)
    model.fit(lazy, da.from_array(y, chunks=50))
    assert_allclose(_output(model, X), expected, rtol=1e-8, atol=1e-10)
    found = _output(model, lazy)
    assert isinstance(found, da.Array)
    assert_allclose(found.compute(), expected, rtol=1e-8, atol=1e-10)
    assert model.score(lazy, y) == pytest.approx(model.score(X, y), rel=1e-8)


@pytest.mark.parametrize("model", CLASSIFIERS, ids=named)
def test_few_samples_are_loaded(model):
    X, y = _samples(120)
    expected = _output(model.fit(X, y), X)
    assert_array_equal(_output(model.fit(_streamed(X), y), X), expected)


def test_the_number_of_threads_changes_no_bit():
    X, y = _samples()
    lazy = _on_dask(X, 37)
    pieces = [X[i:j] for i, j in pairwise([*range(0, N, 37), N])]
    fits = [
        kq.LateFusionClassifier(n_jobs=n_jobs, **FEW).fit(data, y)
        for data, n_jobs in (
            (kq.MultiView.stream(lambda: pieces), 1),
            (kq.MultiView.stream(lambda: pieces), 3),
            (lazy, None),
        )
    ]
    expected = fits[0].predict_proba(X)
    for model in fits[1:]:
        assert_array_equal(model.predict_proba(X), expected)


def test_weights_and_missing_cells_count_as_in_memory():
    dd = pytest.importorskip("dask.dataframe", reason="dask is not installed")
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    X, y = _samples()
    rng = np.random.default_rng(0)
    frames = {name: pd.DataFrame(X.given(name)).rename(columns=str) for name in X.names}
    gaps = rng.random(N) < 0.2
    frames["view_1"].loc[gaps & X.present("view_1"), "2"] = np.nan
    kind = np.where(y == 1, "a", "b").astype(object)
    kind[rng.random(N) < 0.3] = "c"
    frames["view_0"]["kind"] = np.where(X.present("view_0"), kind, None)
    weight = rng.integers(0, 3, N).astype(float)
    lazy = kq.MultiView({name: dd.from_pandas(each, 5) for name, each in frames.items()})
    model = kq.LateFusionClassifier(**FEW)
    expected = model.fit(frames, y, weight).predict_proba(frames)
    labels = dd.from_pandas(pd.Series(y), 5)
    found = model.fit(lazy, labels, weight).predict_proba(lazy)
    assert_allclose(found.compute(), expected, rtol=1e-8, atol=1e-10)


def test_the_forest_learns_from_columns_as_they_are():
    X, y = _samples()
    model = kq.QuiltClassifier(**FEW)
    expected = _output(model.fit(X, y), X)
    assert len(model.member_names_) == 3
    assert_array_equal(_output(model.fit(_streamed(X), y), X), expected)


def test_chunks_without_any_observed_view_do_not_count():
    X, y = _samples()
    hidden = X.with_observed(X.observed & (np.arange(N) >= 80)[:, None])
    model = kq.LateFusionClassifier(**FEW)
    with pytest.warns(UserWarning, match="of 420 training samples have no observed view"):
        model.fit(_on_dask(hidden, 40), y)
    found = model.predict_proba(X)
    with pytest.warns(UserWarning, match="have no observed view"):
        model.fit(hidden, y)
    assert_allclose(found, model.predict_proba(X), rtol=1e-8)


@pytest.mark.parametrize("made", [kq.MultiView, kq.MultiView.stream])
def test_the_samples_are_not_loaded(tmp_path, made):
    n, d = 60_000, 30
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, n)
    views = {}
    for name in "ab":
        path = tmp_path / f"{name}.npy"
        disk = np.lib.format.open_memmap(path, "w+", dtype=np.float64, shape=(n, d))
        disk[:] = rng.standard_normal((n, d)) + y[:, None]
        disk[rng.random(n) < 0.4] = np.nan
        disk.flush()
        views[name] = np.load(path, mmap_mode="r")
    model = kq.LateFusionClassifier(n_landmarks=30, random_state=0)
    tracemalloc.start()
    X = made(views)
    model.fit(X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.5 * 2 * n * d * 8
    assert model.score(X[:2000], y[:2000]) > 0.9


@pytest.mark.parametrize("form", [np.asarray, csr_array])
def test_columns_are_prepared_in_slices_as_all_at_once(monkeypatch, form):
    X, y = _samples()
    views = {name: X.given(name).copy() for name in X.names}
    views["view_0"][::7, 1] = np.nan
    views["view_1"][:, 3] = np.nan  # which is left out
    views["view_2"] = form(np.nan_to_num(views["view_2"]))
    X = kq.MultiView(views, X.observed)
    models = [kq.QuiltClassifier(**FEW).fit(X, y)]
    monkeypatch.setattr(training, "IN_SLICES", 100)
    models.append(kq.QuiltClassifier(**FEW).fit(X, y))
    assert models[0].n_passes_ == models[1].n_passes_
    found = [each.predict_proba(X) for each in models]
    assert_allclose(*found, rtol=1e-8)
    assert models[0].training_summary_.n_samples == models[1].training_summary_.n_samples


def test_pages_of_a_file_that_may_be_written_stay(tmp_path):
    disk = np.lib.format.open_memmap(tmp_path / "a.npy", "w+", dtype=np.float64, shape=(50, 2))
    disk[:] = 1.0
    X = kq.MultiView({"a": disk})
    assert X[[3, 4]]["a"].tolist() == [[1.0, 1.0], [1.0, 1.0]]
    private = np.load(tmp_path / "a.npy", mmap_mode="c")
    private[0] = 5.0
    assert kq.MultiView({"a": private})[[0]]["a"].tolist() == [[5.0, 5.0]]


class TestErrorsLeaveTheEstimatorAsItWas:
    @pytest.fixture
    def fitted(self):
        X, y = _samples()
        model = kq.LateFusionClassifier(**FEW).fit(X, y)
        return model, X, y, dict(vars(model))

    def test_labels_of_another_length(self, fitted):
        model, X, y, before = fitted
        with pytest.raises(ValueError, match="X has 420 samples, but y has 419 labels"):
            model.fit(_streamed(X), y[1:])
        assert vars(model) == before

    def test_a_file_that_goes_between_two_passes(self, fitted, tmp_path, monkeypatch):
        pd = pytest.importorskip("pandas", reason="pandas is not installed")
        pytest.importorskip("pyarrow", reason="pyarrow is not installed")
        model, X, y, before = fitted
        files = {name: tmp_path / f"{name}.parquet" for name in X.names}
        for name, path in files.items():
            pd.DataFrame(X.given(name)).rename(columns=str).to_parquet(path, row_group_size=100)
        lazy = kq.MultiView.stream(files)
        assert lazy.observed.any()
        files["view_1"].unlink()
        with pytest.raises(FileNotFoundError, match=r"view 'view_1'.*is not there"):
            model.fit(lazy, y)
        assert vars(model) == before

    def test_labels_in_another_order(self, fitted):
        dd = pytest.importorskip("dask.dataframe", reason="dask is not installed")
        pd = pytest.importorskip("pandas", reason="pandas is not installed")
        model, X, y, before = fitted
        frames = {name: pd.DataFrame(X.given(name)).rename(columns=str) for name in X.names}
        lazy = kq.MultiView({name: dd.from_pandas(each, 4) for name, each in frames.items()})
        labels = pd.Series(y).sample(frac=1, random_state=0)
        for call in (model.fit, model.score):
            for given in (labels, dd.from_pandas(labels, 2, sort=False)):
                with pytest.raises(ValueError, match="in another order"):
                    call(lazy, given)
        assert vars(model) == before

    def test_a_function_that_yields_other_samples(self, fitted):
        model, X, y, before = fitted
        calls = []

        def function():
            calls.append(1)
            rows = np.arange(N) if len(calls) < 4 else np.roll(np.arange(N), 1)
            return iter([X[rows[:200]], X[rows[200:]]])

        lazy = kq.MultiView.stream(function)
        with pytest.raises(ValueError, match="number 0 has other values"):
            model.fit(lazy, y)
        assert vars(model) == before

    def test_views_that_the_model_does_not_know(self, fitted):
        model = fitted[0]
        with pytest.raises(ValueError, match="does not know 'other'"):
            model.predict(kq.MultiView.stream({"other": np.ones((3, 2))}))


@pytest.mark.kill
def test_a_worker_that_dies_in_the_middle_changes_nothing(tmp_path):
    dask = pytest.importorskip("dask", reason="dask is not installed")
    distributed = pytest.importorskip("distributed", reason="dask's distributed is not installed")
    X, y = _samples()
    bounds = list(pairwise([*range(0, N, 70), N]))
    pieces = [X[i:j] for i, j in bounds]

    def load(block, folder, deadly):
        """Count how often chunks are read; one of these times takes its worker along."""
        for count in range(10_000):
            try:
                (folder / str(count)).touch(exist_ok=False)
                break
            except FileExistsError:
                continue
        if count == deadly:
            os.kill(os.getpid(), signal.SIGKILL)
        return block

    def lazy(folder, deadly):
        da = pytest.importorskip("dask.array")
        folder.mkdir()
        return kq.MultiView(
            {
                name: da.concatenate(
                    [
                        da.from_delayed(
                            dask.delayed(load, pure=False)(piece.given(name), folder, deadly),
                            piece.given(name).shape,
                            dtype=float,
                        )
                        for piece in pieces
                    ]
                )
                for name in X.names
            }
        )

    model = kq.QuiltClassifier(experts=None, **FEW)
    expected = model.fit(kq.MultiView.stream(lambda: pieces), y).predict_proba(X)
    cluster = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
    )
    with cluster, distributed.Client(cluster):
        undisturbed = model.fit(lazy(tmp_path / "a", -1), y).predict_proba(X)
        reads = len(list((tmp_path / "a").iterdir()))
        model.fit(lazy(tmp_path / "b", reads // 2), y)
        assert len(list((tmp_path / "b").iterdir())) > reads
    # another process may round in another way
    assert_allclose(undisturbed, expected, rtol=1e-8, atol=1e-10)
    assert_allclose(model.predict_proba(X), expected, rtol=1e-8, atol=1e-10)
