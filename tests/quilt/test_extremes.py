"""Inputs at the edge of what the quilt family can take."""

import numpy as np
import pytest
from sklearn.base import clone

import kernelquilt as kq


@pytest.mark.parametrize(
    "model",
    [
        kq.QuiltClassifier(experts=None),
        kq.LateFusionClassifier(),
        kq.quilt.LpMKLRidgeClassifier(),
        kq.QuiltRegressor(experts=None),
    ],
    ids=repr,
)
@pytest.mark.parametrize("n", [30, 400])
def test_a_view_whose_kernel_is_zero_tells_nothing(model, n, capfd):
    rng = np.random.default_rng(0)
    y = np.arange(n) % 2
    blocks = {name: rng.standard_normal((n, 3)) + y[:, None] for name in "ac"}
    observed = rng.random((n, 3)) > 0.3
    observed[:, 0] = True
    blocks = {"a": blocks["a"], "zero": np.zeros((n, 2)), "c": blocks["c"]}
    views = kq.MultiView(blocks, observed=observed)
    kernels = {"a": "gaussian", "zero": "linear", "c": "gaussian"}
    found = clone(model).set_params(kernels=kernels).fit(views, y).predict(views)
    assert (abs(found - y) < 0.5).mean() > 0.8
    # of LAPACK, which says so where it is given arrays without rows
    assert capfd.readouterr() == ("", "")


def test_landmarks_of_single_precision_kernels_of_low_rank():
    rng = np.random.default_rng(0)
    y = np.arange(800) % 2
    views = kq.MultiView({"a": rng.standard_normal((800, 1)), "b": rng.standard_normal((800, 2))})
    stack = kq.ViewKernels(["gaussian", "linear"]).fit_transform(views)
    single = kq.KernelStack(stack.gram().astype(np.float32))
    model = kq.LateFusionClassifier(n_landmarks=50).fit(single, y)
    assert np.isfinite(model.predict_proba(single)).all()
