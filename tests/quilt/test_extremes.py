"""Inputs at the edge of what the quilt family can take."""

import numpy as np

import kernelquilt as kq


def test_landmarks_of_single_precision_kernels_of_low_rank():
    rng = np.random.default_rng(0)
    y = np.arange(800) % 2
    views = kq.MultiView({"a": rng.standard_normal((800, 1)), "b": rng.standard_normal((800, 2))})
    stack = kq.ViewKernels(["gaussian", "linear"]).fit_transform(views)
    single = kq.KernelStack(stack.gram().astype(np.float32))
    model = kq.LateFusionClassifier(n_landmarks=50).fit(single, y)
    assert np.isfinite(model.predict_proba(single)).all()
