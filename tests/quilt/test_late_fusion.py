"""Late fusion, exact and with landmarks."""

import numpy as np
import pytest

import kernelquilt as kq
from kernelquilt.data.targets import Targets, class_targets
from kernelquilt.kernels.centring import Centring
from kernelquilt.kernels.landmark_maps import fit_map
from kernelquilt.quilt.space.ridge import fit_ridge
from kernelquilt.quilt.view_ridge import fit_view_ridge


def targets_of(codes, weight=None):
    weight = np.ones(len(codes)) if weight is None else weight
    return Targets.of(class_targets(codes, codes.max() + 1), codes, weight)


@pytest.mark.parametrize("columns", [1, 4])
def test_all_samples_as_landmarks_are_the_exact_ridge(columns):
    # with one column there are fewer features than samples
    rng = np.random.default_rng(0)
    A = rng.standard_normal((50, columns))
    codes = rng.integers(0, 3, 50)
    function = kq.kernels.MedianGaussian().fit(A)
    kernel, new = function(A), function(rng.standard_normal((7, columns)), A)
    targets = targets_of(codes, rng.uniform(0.5, 3.0, 50))
    rows = np.arange(50)
    made, z = fit_map(kernel, rows, rows, targets.copies)
    assert (z.shape[1] < 50) == (columns == 1)
    landmarks, loo = fit_view_ridge(made, z, targets)
    centring = Centring.of(kernel, np.ones(50, dtype=bool), targets.copies)
    centred, _ = centring.centre(kernel)
    size = np.average(centred.diagonal(), weights=targets.copies)
    exact = fit_ridge(
        centred / size,
        targets.Y,
        sample_weight=targets.weight,
        held_out=targets.held_out,
    )
    assert landmarks.lam == exact.fit.lam
    np.testing.assert_allclose(loo, exact.fit.loo, atol=1e-7)
    expected = exact.scores(centring.centre(new)[0] / size)
    np.testing.assert_allclose(landmarks.scores(new[:, landmarks.rows]), expected, atol=1e-7)


def test_landmarks_cost_little_accuracy_and_are_reproducible():
    X, y = kq.datasets.make_multiview(600, 3, n_classes=3, random_state=0)
    X = kq.datasets.make_absent(X, 0.3, random_state=0)
    train, test = np.arange(400), np.arange(400, 600)
    exact = kq.LateFusionClassifier(1000).fit(X[train], y[train])
    one, two = (
        kq.LateFusionClassifier(60, random_state=3, n_jobs=n_jobs).fit(X[train], y[train])
        for n_jobs in (None, 2)
    )
    np.testing.assert_array_equal(one.predict_proba(X[test]), two.predict_proba(X[test]))
    assert [len(ridge.rows) for ridge in one.view_ridges_] == [60, 60, 60]
    assert one.score(X[test], y[test]) > exact.score(X[test], y[test]) - 0.04


def test_a_stack_and_its_views_give_the_same_landmarks_and_scores():
    X, y = kq.datasets.make_multiview(120, 2, random_state=1)
    X = kq.datasets.make_absent(X, 0.3, random_state=1)
    stack = kq.ViewKernels("median_gaussian").fit_transform(X)
    one = kq.LateFusionClassifier(30, random_state=0).fit(X, y)
    other = kq.LateFusionClassifier(30, random_state=0).fit(stack, y)
    np.testing.assert_allclose(one.predict_proba(X), other.predict_proba(stack), atol=1e-8)


def test_score_is_made_of_the_views_that_a_sample_has():
    X, y = kq.datasets.make_multiview(80, 3, n_classes=3, random_state=2)
    model = kq.LateFusionClassifier().fit(X, y)
    total = np.tile(model.stacking_.bias, (80, 1))
    for name, ridge, weight in zip(X.names, model.view_ridges_, model.reliability_, strict=True):
        function = kq.kernels.MedianGaussian().fit(X[name])
        total += weight * ridge.scores(function(X[name], X[name]))
    total -= np.log(np.exp(total).sum(axis=1, keepdims=True))
    np.testing.assert_allclose(model.decision_function(X), total, atol=1e-9)
    gone = kq.MultiView({name: np.full_like(X[name], np.nan) for name in X.names})
    bias = np.exp(model.stacking_.bias)
    np.testing.assert_allclose(model.predict_proba(gone)[0], bias / bias.sum())


def test_useful_views_are_more_reliable():
    X, y = kq.datasets.make_multiview(200, 3, relevance=[2.0, 0.5, 0.0], random_state=0)
    model = kq.LateFusionClassifier().fit(X, y)
    assert model.view_loo_score_.argmax() == 0
    assert model.reliability_[0] > 2 * model.reliability_[2]


def test_an_asymmetric_kernel_is_refused():
    K = np.random.default_rng(0).standard_normal((1, 20, 20))
    with pytest.raises(ValueError, match="not symmetric"):
        kq.LateFusionClassifier().fit(kq.KernelStack(K), np.arange(20) % 2)
    with pytest.raises(ValueError, match="square"):
        kq.LateFusionClassifier().fit(kq.KernelStack(K[:, :, :5]), np.arange(20) % 2)


def test_views_of_too_few_samples_are_named():
    X, y = kq.datasets.make_multiview(30, 3, random_state=0)
    observed = np.ones((30, 3), dtype=bool)
    observed[2:, 1] = False
    data = kq.MultiView({name: X[name] for name in X.names}, observed)
    with pytest.warns(UserWarning, match=r"1 of 3 kernels.*less than 3.*\(2\)") as caught:
        model = kq.LateFusionClassifier().fit(data, y)
    assert [each.filename for each in caught] == [__file__]
    assert model.view_ridges_[1] is None
    assert model.reliability_[1] == 0
    few = np.repeat(np.eye(3, dtype=bool), 2, axis=0)
    data = kq.MultiView({name: X[name][:6] for name in X.names}, few)
    with pytest.raises(ValueError, match=r"at least 3 training samples have.*at most 2"):
        kq.LateFusionClassifier().fit(data, [0, 1] * 3)
