"""What sample weights mean to the estimators made of ridges."""

import pickle
import warnings

import numpy as np
import pytest
from sklearn.base import clone, is_classifier
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

import kernelquilt as kq
from kernelquilt.data.targets import count_copies

CLASSIFIERS = [kq.QuiltClassifier, kq.LateFusionClassifier, kq.quilt.LpMKLRidgeClassifier]
every_estimator = pytest.mark.parametrize("estimator", [*CLASSIFIERS, kq.QuiltRegressor])
KINDS = {
    "equal": lambda rng, n: np.ones(n),
    "copies": lambda rng, n: rng.integers(0, 5, n).astype(float),
    "importances": lambda rng, n: rng.exponential(size=n),
}
SCALES = [100.0, 1e-8, 1.7, 1e-170, 1e300]
# the same forests as by default, but of fewer trees
FORESTS = {
    kq.QuiltClassifier: RandomForestClassifier(15, min_samples_leaf=2, oob_score=True),
    kq.QuiltRegressor: RandomForestRegressor(15, min_samples_leaf=5, oob_score=True),
}


def problem(n=60, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    X = kq.MultiView([rng.standard_normal((n, 3)) + y[:, None] for _ in range(2)])
    return kq.datasets.make_absent(X, 0.3, random_state=seed), y


def predictions(estimator, X, y, weight, **parameters):
    if estimator in FORESTS:
        parameters |= {"experts": [FORESTS[estimator]], "random_state": 0}
    model = estimator(**parameters).fit(X, y, sample_weight=weight)
    return model.predict(X) if estimator is kq.QuiltRegressor else model.predict_proba(X)


@every_estimator
@pytest.mark.parametrize("kind", KINDS)
def test_the_scale_of_all_weights_changes_nothing(estimator, kind):
    X, y = problem()
    weight = KINDS[kind](np.random.default_rng(1), len(y))
    expected = predictions(estimator, X, y, weight)
    for scale in SCALES:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = predictions(estimator, X, y, scale * weight)
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-11, err_msg=f"{scale}")


@every_estimator
def test_weights_of_one_are_no_weights(estimator):
    X, y = problem()
    expected = predictions(estimator, X, y, None)
    np.testing.assert_array_equal(predictions(estimator, X, y, np.full(60, 0.1)), expected)


@pytest.mark.parametrize("estimator", CLASSIFIERS)
def test_the_scale_of_class_weights_changes_nothing(estimator):
    X, y = problem()
    expected = predictions(estimator, X, y, None, class_weight={0: 1.0, 1: 3.0})
    found = predictions(estimator, X, y, None, class_weight={0: 1e-3, 1: 3e-3})
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    none = predictions(estimator, X, y, None)
    hundred = predictions(estimator, X, y, None, class_weight={0: 100.0, 1: 100.0})
    np.testing.assert_allclose(hundred, none, rtol=1e-9)


REPEATED = [
    kq.QuiltClassifier(experts=None),
    # more samples than features, so that the regressions between views are solved by the features
    kq.QuiltClassifier("linear", experts=None, pattern=True),
    kq.QuiltRegressor(experts=None),
    kq.LateFusionClassifier(),
    kq.LateFusionRegressor(),
    kq.quilt.LpMKLRidgeClassifier(),
    kq.quilt.LpMKLRidgeRegressor(),
]


@pytest.mark.parametrize("stacked", [False, True])
@pytest.mark.parametrize("estimator", REPEATED, ids=repr)
def test_multiples_of_copies_are_repetitions(estimator, stacked):
    X, y = problem()
    if stacked:
        X = kq.ViewKernels(["gaussian", "linear"]).fit_transform(X)
        estimator = clone(estimator).set_params(kernels="median_gaussian")
    counts = np.random.default_rng(2).integers(0, 4, len(y))
    counts[0] = 1
    rows = np.repeat(np.arange(len(y)), counts)
    expected, found = (
        clone(estimator).fit(X[rows], y[rows]),
        clone(estimator).fit(X, y, sample_weight=0.3 * counts),
    )
    method = "predict_proba" if is_classifier(estimator) else "predict"
    expected = getattr(expected, method)(X)
    np.testing.assert_allclose(getattr(found, method)(X), expected, atol=1e-7)
    again = pickle.loads(pickle.dumps(found))
    np.testing.assert_allclose(getattr(again, method)(X), expected, atol=1e-7)


@every_estimator
def test_a_negligible_weight_is_no_weight(estimator):
    X, y = problem()
    weight = np.random.default_rng(0).uniform(0.5, 2.0, len(y))
    weight[::5] = 0.0
    expected = predictions(estimator, X, y, weight)
    weight[::5] = 1e-170
    np.testing.assert_allclose(predictions(estimator, X, y, weight), expected, rtol=1e-9)


class TestCountCopies:
    def test_whole_numbers(self):
        copies, held_out = count_copies(np.array([0.0, 1.0, 2.0, 5.0]))
        assert copies.tolist() == [0, 1, 2, 5]
        assert held_out.tolist() == [1, 1, 1 / 2, 1 / 5]

    @pytest.mark.parametrize("scale", [1 / 3, 0.1, 1e-200, 7e120])
    def test_multiples_are_the_same_bit_by_bit(self, scale):
        weight = np.random.default_rng(0).integers(1, 9, 50).astype(float)
        weight[0] = 1.0
        for one, other in zip(count_copies(weight), count_copies(scale * weight), strict=True):
            np.testing.assert_array_equal(one, other)

    def test_others_have_mean_one_and_are_whole(self):
        copies, held_out = count_copies(np.array([0.0, 1.0, 2.5, 5.5]))
        np.testing.assert_allclose(copies, [0, 1 / 3, 2.5 / 3, 5.5 / 3])
        assert held_out.tolist() == [1, 1, 1, 1]

    def test_very_different_weights_are_importances(self):
        copies, held_out = count_copies(np.array([1.0, 1e9]))
        assert copies.mean() == pytest.approx(1.0)
        assert held_out.tolist() == [1, 1]
