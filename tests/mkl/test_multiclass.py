"""Classes that take no part in a fit, one against one and one against the rest."""

import numpy as np
import pytest
from sklearn.base import ClassifierMixin

import kernelquilt as kq
from discovery import estimators

CLASSIFIERS = [each for each in estimators(ClassifierMixin, "mkl") if each is not kq.mkl.CCAFusion]
# of the solvers inside a fit on so few samples; what is tested is who votes
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*no observed view:UserWarning"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]
every_classifier = pytest.mark.parametrize("classifier", CLASSIFIERS)
both_schemes = pytest.mark.parametrize("multi_class", ["ovo", "ovr"])


def problem(n_classes=4):
    rng = np.random.default_rng(0)
    y = np.arange(6 * n_classes) % n_classes
    views = [rng.standard_normal((len(y), 3)) + y[:, None] for _ in range(2)]
    absent = rng.random((len(y), 2)) < 0.2
    return kq.MultiView(views, ~(absent & ~absent[:, ::-1])), y


def new_samples():
    """Return samples near and far, and one without any view."""
    rng = np.random.default_rng(1)
    blocks = [rng.standard_normal((40, 3)) * np.logspace(-1, 2, 40)[:, None] for _ in range(2)]
    observed = np.ones((40, 2), dtype=bool)
    observed[0] = False
    return kq.MultiView(blocks, observed)


def without_view(X, rows):
    return kq.MultiView([X[name] for name in X.names], X.observed & ~rows[:, None])


@every_classifier
@both_schemes
@pytest.mark.parametrize("active", [[0, 1], [0, 1, 3], [1, 3]])
@pytest.mark.parametrize("idle_by", ["weight", "view"])
def test_idle_classes_are_never_predicted(classifier, multi_class, active, idle_by):
    X, y = problem()
    used = np.isin(y, active)
    model = classifier(multi_class=multi_class)
    if idle_by == "weight":
        model.fit(X, y, sample_weight=used.astype(float))
    else:
        model.fit(without_view(X, ~used), y)
    np.testing.assert_array_equal(model.classes_, [0, 1, 2, 3])
    for samples in (X, new_samples()):
        scores = model.decision_function(samples)
        assert scores.shape == (len(samples), 4)
        assert np.isfinite(scores).all()
        found = model.predict(samples)
        assert np.isin(found, active).all()
        np.testing.assert_array_equal(scores.argmax(axis=1), found)


@every_classifier
@pytest.mark.parametrize("active", [[0, 1], [0, 1, 3]])
def test_pairs_with_an_idle_class_do_not_vote(classifier, active):
    X, y = problem()
    used = np.isin(y, active)
    model = classifier(multi_class="ovo").fit(X, y, sample_weight=used.astype(float))
    alone = classifier(multi_class="ovo").fit(X[used], y[used])
    np.testing.assert_array_equal(model.predict(new_samples()), alone.predict(new_samples()))


@both_schemes
@pytest.mark.parametrize("fusion", ["concatenate", "vote"])
def test_idle_classes_of_cca_fusion(multi_class, fusion):
    X, y = problem()
    used = y < 2
    # most samples are of a class that nothing is known of
    X, y = without_view(X, ~used), np.where(used, y, 3)
    inner = kq.mkl.MHKSClassifier(kernels="linear", multi_class=multi_class)
    model = kq.mkl.CCAFusion(2, fusion=fusion, estimator=inner).fit(X, y)
    np.testing.assert_array_equal(model.classes_, [0, 1, 3])
    for samples in (X, new_samples()):
        assert np.isfinite(model.decision_function(samples)).all()
        assert (model.predict(samples) < 2).all()


def test_shared_weights_with_an_idle_class():
    X, y = problem()
    for multi_class in ("ovo", "ovr"):
        model = kq.SimpleMKLClassifier(weights="shared", multi_class=multi_class)
        model.fit(X, y, sample_weight=(y < 3).astype(float))
        assert (model.predict(new_samples()) < 3).all()


def test_a_path_with_an_idle_class():
    X, y = problem()
    path = kq.mkl_path(
        kq.SimpleMKLClassifier(multi_class="ovo"),
        X,
        y,
        Cs=[0.1, 1.0],
        sample_weight=(y < 3).astype(float),
    )
    assert all((model.predict(X) < 3).all() for model in path)
