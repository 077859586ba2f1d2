"""Missing cells and categories of views that are not in memory."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array, issparse

import kernelquilt as kq
from kernelquilt.data.lazy import preparation
from kernelquilt.data.preparation import as_given
from kernelquilt.data.sampling import sample_blocks
from kernelquilt.data.training import check_samples, prepare_samples

pd = pytest.importorskip("pandas", reason="pandas is not installed")


def _frames(n=80, seed=0):
    rng = np.random.default_rng(seed)
    clinic = pd.DataFrame(
        {
            "age": rng.normal(60, 10, n),
            "sex": rng.choice(["f", "m"], n),
            "stage": rng.choice(["I", "II", "III"], n),
            "code": [None if u < 0.5 else 7 for u in rng.random(n)],
            "empty": np.nan,
        }
    )
    clinic.loc[rng.random(n) < 0.2, "age"] = np.nan
    clinic.loc[rng.random(n) < 0.2, "sex"] = None
    clinic.loc[rng.random(n) < 0.2] = np.nan
    clinic["code"] = clinic["code"].astype(object)
    rna = pd.DataFrame(rng.standard_normal((n, 2)), columns=["g1", "g2"])
    rna[rng.random(n) < 0.3] = np.nan
    return {"clinic": clinic, "rna": rna}


def _streamed(views, rows):
    def function():
        whole = kq.MultiView(views)
        return (whole[i : i + rows] for i in range(0, len(whole), rows))

    return kq.MultiView.stream(function)


def _prepared(X, weight):
    estimator = kq.LateFusionClassifier()
    data = check_samples(estimator, X, lazy=True)
    return prepare_samples(estimator, data, weight), estimator.preparation_


@pytest.mark.parametrize(("rows", "weighted"), [(1, True), (7, False), (7, True), (80, False)])
def test_preparation_in_chunks_is_that_in_memory(rows, weighted):
    views, n = _frames(), 80
    weight = np.random.default_rng(1).integers(0, 3, n).astype(float) if weighted else np.ones(n)
    expected, transformer = _prepared(kq.MultiView(views), weight)
    found, lazily = _prepared(_streamed(views, rows), weight)
    assert_array_equal(found.observed, expected.observed)
    loaded = found.compute()
    for name in expected.names:
        assert_allclose(loaded[name], expected[name], rtol=1e-13)
    encoder = transformer.transformers_["clinic"].encoder_
    for a, b in zip(
        encoder.categories_, lazily.transformers_["clinic"].encoder_.categories_, strict=True
    ):
        assert_array_equal(a, b)
    assert lazily.outputs_ == transformer.outputs_
    blocks = sample_blocks(found).take(range(n))
    assert_allclose(blocks.views[0], expected["clinic"], rtol=1e-13)
    # samples as they were given stay beside
    rows = [5, 70, 5]
    for some in (found[rows], found[3:][[2, 67, 2]]):
        assert_allclose(some["clinic"], expected[rows]["clinic"], rtol=1e-13)
        assert as_given(some).given("clinic").equals(views["clinic"].iloc[rows])
    assert as_given(found).columns == kq.MultiView(views).columns


def test_preparation_on_dask_is_that_in_memory():
    dd = pytest.importorskip("dask.dataframe", reason="dask is not installed")
    views = {"clinic": _frames()["clinic"].drop(columns="code"), "rna": _frames()["rna"]}
    lazy = kq.MultiView({name: dd.from_pandas(each, 5) for name, each in views.items()})
    expected, _ = _prepared(kq.MultiView(views), np.ones(80))
    found, _ = _prepared(lazy, np.ones(80))
    for name in expected.names:
        assert_allclose(found.compute()[name], expected[name], rtol=1e-13)


def test_complete_and_sparse_views_stay_what_they_are():
    dense = np.random.default_rng(0).standard_normal((30, 2))
    sparse = csr_array(np.round(dense))
    found, _ = _prepared(_streamed({"a": dense, "s": sparse}, 8), np.ones(30))
    loaded = found.compute()
    assert_array_equal(loaded["a"], dense)
    assert issparse(loaded["s"])
    assert_array_equal(loaded["s"].toarray(), sparse.toarray())


def test_a_view_that_no_counted_sample_has_is_absent():
    a, b = np.ones((6, 1)), np.ones((6, 1))
    b[:4] = np.nan
    found, transformer = _prepared(_streamed({"a": a, "b": b}, 2), np.array([1.0] * 4 + [0.0] * 2))
    assert transformer.absent_views_ == ("b",)
    assert not found.observed[:, 1].any()
    assert np.isnan(found.compute()["b"]).all()


def test_without_preparation_missing_cells_are_refused_when_they_are_read():
    views = {"a": np.array([[1.0, 2.0], [1.0, np.nan]])}
    estimator = kq.LateFusionClassifier(prepare=None)
    with pytest.raises(ValueError, match="view 'a' has NaN in some but not all"):
        check_samples(estimator, _streamed(views, 1), lazy=True)


def test_columns_that_cannot_be_prepared(monkeypatch):
    dates = pd.DataFrame({"day": pd.to_datetime(["2020-01-01", "2020-01-02"])})
    with pytest.raises(ValueError, match="view 'd': column 'day' holds dates"):
        _prepared(_streamed({"d": dates}, 1), np.ones(2))
    chunks = [{"m": pd.DataFrame({"x": [1.0]})}, {"m": pd.DataFrame({"x": ["a"]})}]
    with pytest.raises(ValueError, match=r"view 'm': column 'x' holds numbers in some chunks"):
        _prepared(kq.MultiView.stream(lambda: chunks), np.ones(2))
    monkeypatch.setattr(preparation, "MOST_CATEGORIES", 3)
    names = pd.DataFrame({"id": list("abcdef")})
    with pytest.raises(ValueError, match="more than 3 different values, such as 'a'"):
        _prepared(_streamed({"n": names}, 1), np.ones(6))
    infinite = pd.DataFrame({"x": [1.0, np.inf]})
    with pytest.raises(ValueError, match="infinite"):
        _prepared(_streamed({"i": infinite}, 1), np.ones(2))
