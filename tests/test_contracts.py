"""Every classifier through scikit-learn's own tools, with every kind of input."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import StackingClassifier, VotingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    GridSearchCV,
    StratifiedKFold,
    cross_val_predict,
    cross_val_score,
    train_test_split,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import kernelquilt as kq
from inputs import CONTAINERS, INPUTS, VIEWS, as_input, as_names

CLASSIFIERS = [
    kq.mkl.UniformMKLClassifier,
    kq.ObservedFractionMKLClassifier,
    kq.SimpleMKLClassifier,
    kq.LpMKLClassifier,
    kq.mkl.MatrixNormMKLClassifier,
    kq.ConvexAbsentMKLClassifier,
    kq.mkl.IterativeAbsentMKLClassifier,
    kq.mkl.PenalizedAbsentMKLClassifier,
    kq.mkl.MaxMarginAbsentClassifier,
    kq.mkl.LocalizedMKLClassifier,
    kq.mkl.SampleAdaptiveMKLClassifier,
    kq.mkl.MHKSClassifier,
    kq.mkl.MultiKernelMHKSClassifier,
    kq.mkl.MultiViewSVMClassifier,
]
FOR_TWO_VIEWS = [kq.mkl.SVM2KClassifier]  # whose other contracts are in test_svm2k.py
OWN_FUNCTIONS = (kq.mkl.MHKSClassifier, kq.mkl.MultiViewSVMClassifier)
# the samples include one without any view, and not every method is sure to settle on them
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*no observed view:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*need not converge:sklearn.exceptions.ConvergenceWarning"),
]


@parametrize_with_checks([classifier() for classifier in CLASSIFIERS + FOR_TWO_VIEWS])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def samples():
    """Return an array with absent views as NaN, and labels of three classes."""
    rng = np.random.default_rng(0)
    n = 90
    y = np.repeat(["x", "y", "z"], n // 3)
    X = rng.standard_normal((n, 8)) + np.outer(
        np.repeat([0, 2, 4], n // 3), [1, 0, 0, 1, 0, 0, 1, 0]
    )
    for columns in VIEWS.values():
        X[np.ix_(rng.random(n) < 0.2, columns)] = np.nan
    return X, y


every_classifier = pytest.mark.parametrize("classifier", CLASSIFIERS)


def with_penalty(classifier, C):
    """Return the penalty as a parameter, on the loss or the other way round on the norm."""
    return {classifier._penalty: C if classifier._penalty == "C" else 1 / C}


@every_classifier
@pytest.mark.parametrize("kind", [*INPUTS, "multi_index"])
def test_fit_and_predict(classifier, kind, samples):
    X, y = samples
    data, parameters = as_input(kind, X)
    model = classifier(**parameters).fit(data, y)
    assert model.score(data, y) > 0.8
    assert model.decision_function(data).shape == (90, 3)
    assert model.weights_.shape == (3, 3)
    # where every kernel has a function of its own it has coefficients of its own
    of_each_kernel = isinstance(model, OWN_FUNCTIONS)
    assert model.dual_coef_.shape == ((3, 3, 90) if of_each_kernel else (3, 90))
    assert model.converged_
    assert (model.duality_gap_ >= -1e-12 * np.abs(model.objective_)).all()
    assert set(model.classes_) == {"x", "y", "z"}


@every_classifier
def test_all_inputs_give_the_same_scores(classifier, samples):
    X, y = samples
    scores = {}
    for kind in INPUTS:
        data, parameters = as_input(kind, X)
        scores[kind] = classifier(tol=1e-6, **parameters).fit(data, y).decision_function(data)
    for kind in INPUTS[1:]:
        # localized MKL looks at the columns of views where there are any
        of_kernels = classifier is kq.mkl.LocalizedMKLClassifier and kind in (
            "stack",
            "precomputed",
        )
        expected = scores["stack" if of_kernels else "array"]
        np.testing.assert_allclose(scores[kind], expected, atol=1e-8)


@every_classifier
@pytest.mark.parametrize("kind", [*INPUTS, "multi_index"])
def test_cross_validation(classifier, kind, samples):
    X, y = samples
    data, parameters = as_input(kind, X)
    model = classifier(**parameters)
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    scores = cross_val_score(model, data, y, cv=folds)
    assert scores.shape == (3,)
    assert scores.mean() > 0.6
    assert cross_val_predict(model, data, y, cv=folds).shape == y.shape


@every_classifier
@pytest.mark.parametrize("kind", INPUTS)
def test_grid_search(classifier, kind, samples):
    X, y = samples
    data, parameters = as_input(kind, X)
    grid = {classifier._penalty: [0.1, 10.0]}
    search = GridSearchCV(classifier(**parameters), grid, cv=3, n_jobs=2).fit(data, y)
    assert search.best_params_[classifier._penalty] in (0.1, 10.0)
    assert search.predict(data).shape == y.shape


@every_classifier
@pytest.mark.parametrize("kind", CONTAINERS)
def test_meta_estimators(classifier, kind, samples):
    X, y = samples
    data, parameters = as_input(kind, X)
    model = classifier(**parameters)
    calibrated = CalibratedClassifierCV(model, cv=3, ensemble=False).fit(data, y)
    np.testing.assert_allclose(calibrated.predict_proba(data).sum(axis=1), 1.0)
    members = [("one", model), ("two", clone(model).set_params(**with_penalty(classifier, 10.0)))]
    stacked = StackingClassifier(members, LogisticRegression(), cv=3).fit(data, y)
    assert stacked.score(data, y) > 0.8
    assert VotingClassifier(members).fit(data, y).score(data, y) > 0.8
    train, test, y_train, y_test = train_test_split(data, y, random_state=0, stratify=y)
    assert clone(model).fit(train, y_train).score(test, y_test) > 0.6


@every_classifier
@pytest.mark.parametrize("kind", INPUTS)
def test_clone_and_pickle(classifier, kind, samples):
    X, y = samples
    data, parameters = as_input(kind, X)
    model = classifier(3.0, **parameters).fit(data, y)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.decision_function(data), model.decision_function(data))
    fresh = clone(model)
    assert fresh.get_params()[classifier._penalty] == 3.0
    with pytest.raises(NotFittedError):
        fresh.predict(data)


@every_classifier
def test_a_model_of_a_stack_keeps_no_kernels(classifier, samples):
    X, y = samples
    stack, _ = as_input("stack", X)
    model = classifier().fit(stack, y)
    n, M = stack.shape
    assert len(pickle.dumps(model)) < 100 * n * (M + 3) < stack.gram().nbytes


@every_classifier
def test_pipelines(classifier, samples):
    X, y = samples
    data = kq.as_views(X, VIEWS)
    from_views = make_pipeline(
        kq.ViewTransformer(StandardScaler()),
        kq.ViewKernels(kq.gaussian_bank(2, 0.5, 2.0)),
        kq.CentreKernels(),
        kq.ScaleKernels("unit_diagonal"),
        classifier(),
    )
    assert cross_val_score(from_views, data, y, cv=3).mean() > 0.6
    stack = kq.ViewKernels().fit_transform(data)
    strong = classifier(**with_penalty(classifier, 100.0))
    from_stack = make_pipeline(kq.CentreKernels(), kq.ScaleKernels("unit_trace"), strong)
    assert cross_val_score(from_stack, stack, y, cv=3).mean() > 0.6
    search = GridSearchCV(from_views, {"viewkernels__kernels": ["gaussian", "linear"]}, cv=3)
    assert search.fit(data, y).best_score_ > 0.6


@every_classifier
@pytest.mark.parametrize("multi_class", ["ovr", "ovo"])
def test_results_do_not_depend_on_n_jobs(classifier, multi_class, samples):
    X, y = samples
    one = classifier(views=VIEWS, multi_class=multi_class).fit(X, y)
    two = classifier(views=VIEWS, multi_class=multi_class, n_jobs=2).fit(X, y)
    np.testing.assert_array_equal(one.dual_coef_, two.dual_coef_)
    np.testing.assert_array_equal(one.weights_, two.weights_)
    np.testing.assert_array_equal(one.decision_function(X), two.decision_function(X))


@every_classifier
@pytest.mark.parametrize("kind", ["array", "views", "stack", "precomputed"])
def test_garbage_in_absent_cells_changes_no_bit(classifier, kind, samples):
    X, y = samples
    data, parameters = as_input(kind, X)
    observed = kq.as_views(X, VIEWS).observed
    garbage = np.random.default_rng(1).standard_normal(X.shape) * 1e6
    if kind in ("array", "views"):
        filled = {
            name: np.where(np.isnan(X[:, c]), garbage[:, c], X[:, c]) for name, c in VIEWS.items()
        }
        dirty, dirty_parameters = kq.MultiView(filled, observed), {}
    else:
        K = (data.gram() if kind == "stack" else np.moveaxis(data, -1, 0)).copy()
        absent = ~(observed.T[:, :, None] & observed.T[:, None, :])
        K[absent] = np.resize([np.nan, np.inf, -1e9, 7.0], absent.sum())
        dirty, dirty_parameters = kq.KernelStack(K, observed, names=as_names(data, kind)), {}
    clean_model = classifier(**parameters).fit(data, y)
    dirty_model = classifier(**dirty_parameters).fit(dirty, y)
    np.testing.assert_array_equal(clean_model.dual_coef_, dirty_model.dual_coef_)
    np.testing.assert_array_equal(
        clean_model.decision_function(data), dirty_model.decision_function(dirty)
    )


@every_classifier
def test_permuting_samples_permutes_scores(classifier, samples):
    X, y = samples
    order = np.random.default_rng(2).permutation(len(y))
    one = classifier(views=VIEWS, tol=1e-8).fit(X, y)
    other = classifier(views=VIEWS, tol=1e-8).fit(X[order], y[order])
    np.testing.assert_allclose(one.objective_, other.objective_, rtol=1e-7)
    np.testing.assert_allclose(other.decision_function(X), one.decision_function(X), atol=1e-4)


@every_classifier
def test_weights_equal_repetition_with_several_views(classifier, samples):
    X, y = samples
    counts = np.random.default_rng(3).integers(0, 4, len(y))
    weighted = classifier(views=VIEWS).fit(X, y, sample_weight=counts)
    repeated = classifier(views=VIEWS).fit(np.repeat(X, counts, axis=0), np.repeat(y, counts))
    np.testing.assert_allclose(
        weighted.decision_function(X), repeated.decision_function(X), atol=1e-6
    )


@every_classifier
def test_nothing_absent_equals_the_complete_method(classifier):
    rng = np.random.default_rng(4)
    X = rng.standard_normal((60, 8))
    y = (X[:, 0] + X[:, 3] > 0).astype(int)
    # the sum of three kernels is three times their mean, and C counts for as much
    complete, C = {
        kq.ObservedFractionMKLClassifier: (kq.mkl.UniformMKLClassifier, 1.0),
        kq.mkl.IterativeAbsentMKLClassifier: (kq.SimpleMKLClassifier, 1.0),
        kq.mkl.PenalizedAbsentMKLClassifier: (kq.SimpleMKLClassifier, 1.0),
        kq.mkl.MaxMarginAbsentClassifier: (kq.mkl.UniformMKLClassifier, 3.0),
    }.get(classifier, (classifier, 1.0))
    one = classifier(views=VIEWS).fit(X, y)
    counterpart = complete() if complete is classifier else complete(C)
    other = counterpart.fit(kq.MultiView({k: X[:, c] for k, c in VIEWS.items()}), y)
    np.testing.assert_allclose(
        one.decision_function(X), other.decision_function(kq.as_views(X, VIEWS))
    )
