"""Predictions for views that are not in memory, of models that were fitted in memory."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import NotFittedError

import kernelquilt as kq


def _assert_same(found, expected):
    """Products of other numbers of rows are rounded in other ways."""
    if expected.dtype.kind == "f":
        assert_allclose(found, expected, rtol=1e-12)
    else:
        assert_array_equal(found, expected)


@pytest.fixture(scope="module")
def fitted():
    X, y = kq.datasets.make_multiview(120, 3, random_state=0)
    X = kq.datasets.make_absent(X, 0.3, random_state=0)
    return kq.LateFusionClassifier().fit(X[:80], np.array(["no", "yes"])[y[:80]]), X[80:], y[80:]


@pytest.mark.parametrize("method", ["predict", "predict_proba", "decision_function"])
def test_predictions_in_chunks_are_those_in_memory(fitted, method):
    model, X, _ = fitted
    arrays = {name: X.given(name) for name in X.names}
    expected = getattr(model, method)(X)
    found = getattr(model, method)(kq.MultiView.stream(arrays))
    assert isinstance(found, np.ndarray)
    assert found.dtype == expected.dtype
    _assert_same(found, expected)


@pytest.mark.parametrize("method", ["predict", "predict_proba", "decision_function"])
def test_predictions_on_dask_are_lazy(fitted, method):
    da = pytest.importorskip("dask.array", reason="dask is not installed")
    model, X, _ = fitted
    views = {name: da.from_array(X.given(name), chunks=(15, -1)) for name in X.names}
    expected = getattr(model, method)(X)
    found = getattr(model, method)(views)
    assert isinstance(found, da.Array)
    assert found.shape == expected.shape
    assert found.dtype == expected.dtype
    assert found.chunks[0] == (15, 15, 10)
    _assert_same(found.compute(), expected)
    # a view that is not handed over is absent, there too
    del views["view_2"]
    part = X.select(["view_0", "view_1"])
    _assert_same(getattr(model, method)(views).compute(), getattr(model, method)(part))


def test_scores_on_dask(fitted):
    da = pytest.importorskip("dask.array", reason="dask is not installed")
    model, X, y = fitted
    labels = np.array(["no", "yes"])[y]
    views = {name: da.from_array(X.given(name), chunks=(15, -1)) for name in X.names}
    expected = model.score(X, labels)
    assert model.score(views, labels) == expected
    assert model.score(views, da.from_array(labels, chunks=15)) == expected
    assert model.score(kq.MultiView(views), labels, np.ones(40)) == expected


def test_views_that_do_not_fit_are_refused_at_once(fitted):
    da = pytest.importorskip("dask.array", reason="dask is not installed")
    model, _, _ = fitted
    with pytest.raises(ValueError, match="view 'view_0' has 2 columns, but was fitted with 5"):
        model.predict({"view_0": da.ones((10, 2))})
    with pytest.raises(ValueError, match="does not know 'other'"):
        model.predict({"other": da.ones((10, 2))})
    with pytest.raises(NotFittedError):
        kq.LateFusionClassifier().predict({"view_0": da.ones((10, 2))})
