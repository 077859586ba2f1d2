"""C_weights: weights learned at one penalty, the SVM on them at another."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC

import kernelquilt as kq

LEARNERS = [
    kq.SimpleMKLClassifier(tol=1e-7),
    kq.LpMKLClassifier(p=1.3, tol=1e-7),
    kq.mkl.MatrixNormMKLClassifier(r=2, p=4, tol=1e-7),
]
every_learner = pytest.mark.parametrize("learner", LEARNERS, ids=str)


@pytest.fixture(scope="module")
def samples():
    X, y = kq.datasets.make_multiview(100, 4, relevance=[1, 0.7, 0.3, 0], random_state=3)
    return kq.ViewKernels().fit_transform(kq.datasets.make_absent(X, 0.3, random_state=1)), y


@every_learner
def test_is_an_svm_on_weights_of_another_fit(learner, samples):
    stack, y = samples
    learned = learner.set_params(C=0.05, C_weights=None).fit(stack, y).weights_
    model = learner.set_params(C=20.0, C_weights=0.05).fit(stack, y)
    np.testing.assert_array_equal(model.weights_, learned)
    combined = np.tensordot(learned, stack.training_gram()[0], 1)
    svc = SVC(C=20.0, kernel="precomputed", tol=1e-8).fit(combined, y)
    np.testing.assert_allclose(
        model.decision_function(stack), svc.decision_function(combined), atol=1e-4
    )
    b = model.dual_coef_[0]
    f = combined @ b + model.intercept_
    signs = np.where(y == model.classes_[1], 1.0, -1.0)
    primal = 0.5 * b @ combined @ b + 20.0 * np.maximum(0.0, 1.0 - signs * f).sum()
    assert model.objective_ == pytest.approx(primal, rel=1e-9)
    assert 0 <= model.duality_gap_ + 1e-12 * primal <= 1e-6 * primal


@every_learner
def test_the_same_penalty_changes_nothing(learner, samples):
    stack, y = samples
    plain = learner.set_params(C=1.0, C_weights=None).fit(stack, y)
    scores, solves = plain.decision_function(stack), plain.n_solves_
    held = learner.set_params(C_weights=1.0).fit(stack, y)
    np.testing.assert_allclose(held.decision_function(stack), scores, atol=1e-4)
    assert held.n_solves_ == solves + 1


def test_shared_weights_are_held_for_all_classes():
    X, y = kq.datasets.make_multiview(90, 3, n_classes=3, random_state=0)
    learned = kq.LpMKLClassifier(0.1, weights="shared").fit(X, y).weights_
    model = kq.LpMKLClassifier(10.0, weights="shared", C_weights=0.1).fit(X, y)
    np.testing.assert_array_equal(model.weights_, learned)
    each = kq.LpMKLClassifier(10.0, C_weights=0.1, multi_class="ovo").fit(X, y)
    assert each.weights_.shape == (3, 3)
    assert model.score(X, y) > 0.9


def test_weights_that_did_not_converge_are_reported(samples):
    with pytest.warns(ConvergenceWarning, match="relative duality gap"):
        model = kq.SimpleMKLClassifier(5.0, C_weights=0.5, max_iter=1, tol=1e-9).fit(*samples)
    assert not model.converged_


@pytest.mark.parametrize("bad", [0.0, -1.0, "C"])
def test_bad_penalty_is_refused(bad, samples):
    with pytest.raises(ValueError, match="C_weights"):
        kq.SimpleMKLClassifier(C_weights=bad).fit(*samples)
