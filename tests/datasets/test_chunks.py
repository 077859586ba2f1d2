"""Synthetic views that dask draws when they are needed."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import kernelquilt as kq
from kernelquilt.data.lazy.views import LazyViews
from kernelquilt.datasets import make_absent, make_multiview

da = pytest.importorskip("dask.array", reason="dask is not installed")


def test_samples_are_the_same_whenever_they_are_drawn():
    X, y = make_multiview(250, 3, n_features=[2, 3, 4], chunks=100, random_state=0)
    assert isinstance(X, LazyViews)
    assert isinstance(y, da.Array)
    assert X.shape == (250, 3)
    assert X.chunks.lengths == y.chunks[0] == (100, 100, 50)
    again, labels = make_multiview(
        250, 3, n_features=[2, 3, 4], chunks=[100, 100, 50], random_state=0
    )
    assert_array_equal(X.compute()["view_2"], again.compute()["view_2"])
    assert_array_equal(y.compute(), y.compute())
    assert_array_equal(y.compute(), labels.compute())
    assert np.bincount(y.compute()).tolist() == [125, 125]
    other = make_multiview(250, 3, n_features=[2, 3, 4], chunks=100, random_state=1)[0]
    assert not np.array_equal(X[[0]]["view_0"], other[[0]]["view_0"])


def test_all_chunks_hold_the_same_problem():
    X, y = make_multiview(3000, 2, chunks=1000, n_classes=3, random_state=0)
    X, y = X.compute(), y.compute()
    means = [
        [X["view_0"][s : s + 1000][y[s : s + 1000] == k].mean(axis=0) for k in range(3)]
        for s in (0, 1000, 2000)
    ]
    for each in means[1:]:
        np.testing.assert_allclose(each, means[0], atol=0.4)
    assert not np.array_equal(X["view_0"][:1000], X["view_0"][1000:2000])
    # what is learned of one chunk holds in another
    model = kq.LateFusionClassifier().fit(X[:300], y[:300])
    same, other = model.score(X[300:1000], y[300:1000]), model.score(X[2000:], y[2000:])
    assert abs(same - other) < 0.06
    assert other > 0.6


def test_absence_stays_lazy():
    X, _ = make_multiview(300, 3, chunks=100, random_state=0)
    made = make_absent(X, 0.4, random_state=0)
    assert isinstance(made, LazyViews)
    assert_array_equal(made.observed, make_absent(X.compute(), 0.4, random_state=0).observed)
    assert np.isnan(made.compute()["view_1"][~made.observed[:, 1]]).all()


@pytest.mark.parametrize("chunks", [0, [10, 80], [50, 50, 0], []])
def test_chunks_that_do_not_fit(chunks):
    with pytest.raises(ValueError, match="chunks must be"):
        make_multiview(100, chunks=chunks)
