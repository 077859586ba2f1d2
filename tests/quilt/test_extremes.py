"""Inputs at the edge of what the quilt family can take."""

import numpy as np
import pytest

import kernelquilt as kq


def test_landmarks_of_single_precision_kernels_of_low_rank():
    rng = np.random.default_rng(0)
    y = np.arange(800) % 2
    views = kq.MultiView({"a": rng.standard_normal((800, 1)), "b": rng.standard_normal((800, 2))})
    stack = kq.ViewKernels(["gaussian", "linear"]).fit_transform(views)
    single = kq.KernelStack(stack.gram().astype(np.float32))
    model = kq.LateFusionClassifier(n_landmarks=50).fit(single, y)
    assert np.isfinite(model.predict_proba(single)).all()


@pytest.mark.xfail(strict=True, reason="completion sees a sample once, whatever its weight")
def test_a_sample_of_weight_two_is_two_samples_where_views_are_absent():
    rng = np.random.default_rng(0)
    y = np.arange(40) % 2
    blocks = {
        name: rng.standard_normal((40, d)) + 0.7 * y[:, None] for name, d in (("a", 2), ("b", 3))
    }
    observed = rng.random((40, 2)) > 0.3
    observed[np.arange(40), np.arange(40) % 2] = True
    views = kq.MultiView(blocks, observed=observed)
    weight = np.ones(40)
    weight[3] = 2.0
    twice = [*range(40), 3]
    weighted = kq.QuiltClassifier(experts=None).fit(views, y, sample_weight=weight)
    repeated = kq.QuiltClassifier(experts=None).fit(views[twice], y[twice])
    np.testing.assert_allclose(
        weighted.predict_proba(views), repeated.predict_proba(views), atol=1e-6
    )
