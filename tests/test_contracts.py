"""Every estimator through scikit-learn's own tools, with every kind of input."""

import pickle
import re
import sys
from collections import Counter

import numpy as np
import pytest
from sklearn.base import ClassifierMixin, clone, is_regressor
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
from discovery import EXCEPTIONS, estimators, held_to, instances, predictors, transformers
from inputs import CONTAINERS, INPUTS, VIEWS, as_input, as_names

PREDICTORS = held_to(predictors(), "more than two views")
CLASSIFIERS = held_to(
    estimators(ClassifierMixin, "mkl"), "weights of kernels", "more than two views"
)
# the contracts of completers are in test_fill.py
TRANSFORMERS = [each for each in transformers() if each not in transformers("completion")]
# the samples include one without any view, and not every method is sure to settle on them
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*no observed view:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*need not converge:sklearn.exceptions.ConvergenceWarning"),
]


CHECKED = instances(held_to(estimators(), "targets that are classes or numbers"))
# a second variant of a class takes the same ways, but for a search around another kind
CHECKED = [
    each
    for number, each in enumerate(CHECKED)
    if type(each) is not type(CHECKED[number - 1]) or isinstance(each, kq.MKLSearchCV)
]


def not_for(estimator):
    """Return the checks that are not for an estimator: scikit-learn 1.6 does not ask its tags."""
    if estimator.__sklearn_tags__().input_tags.sparse:
        return {}
    return {"check_sample_weight_equivalence_on_sparse_data": "it takes no sparse data"}


@parametrize_with_checks(CHECKED, expected_failed_checks=not_for)
def test_scikit_learn_checks(estimator, check):
    try:
        check(estimator)
    except (TypeError, AttributeError) as error:
        no_array = re.search("is not an array|'MultiView' object has no attribute", str(error))
        if no_array and type(estimator) in EXCEPTIONS["outputs that are arrays"]:
            pytest.skip(str(error))
        raise


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


every_predictor = pytest.mark.parametrize("predictor", instances(PREDICTORS), ids=repr)
every_classifier = pytest.mark.parametrize("classifier", CLASSIFIERS)
# for each way in which containers are taken, an estimator that is tried with every kind of input
OF_EVERY_KIND = {
    kq.SimpleMKLClassifier,
    kq.SimpleMKLRegressor,
    kq.mkl.MHKSClassifier,
    kq.mkl.LocalizedMKLClassifier,
    kq.mkl.CCAFusion,
    kq.QuiltClassifier,
    kq.LateFusionRegressor,
}


def with_inputs(name, candidates, kinds):
    """Parametrise by estimators and kinds of input: all of them for some, two for the others."""
    cases = []
    for each in candidates:
        kind_of = each if isinstance(each, type) else type(each)
        few = [kind for kind in kinds if kind in ("array", "stack")]
        for kind in kinds if kind_of in OF_EVERY_KIND else few:
            label = each.__name__ if isinstance(each, type) else repr(each)
            cases.append(pytest.param(each, kind, id=f"{label}-{kind}"))
    return pytest.mark.parametrize((name, "kind"), cases)


def targets(predictor, y):
    """Return the labels, or for a regressor numbers."""
    return np.unique(y, return_inverse=True)[1] + 0.5 if is_regressor(predictor) else y


def outputs(model, data):
    """Return everything that a fitted model says about samples."""
    methods = ("decision_function", "predict_proba", "predict", "transform")
    return [getattr(model, name)(data) for name in methods if hasattr(model, name)]


def assert_same_bits(ones, others):
    for one, other in zip(ones, others, strict=True):
        np.testing.assert_array_equal(one, other)


def with_garbage(kind, data, observed):
    """Return a container of the same samples with garbage in absent cells."""
    if kind == "views":
        rng = np.random.default_rng(1)
        filled = {
            name: np.where(
                observed[:, [p]], data[name], 1e6 * rng.standard_normal(data[name].shape)
            )
            for p, name in enumerate(data.names)
        }
        return kq.MultiView(filled, observed)
    K = (data.gram() if kind == "stack" else np.moveaxis(data, -1, 0)).copy()
    absent = ~(observed.T[:, :, None] & observed.T[:, None, :])
    K[absent] = np.resize([np.nan, np.inf, -1e9, 7.0], absent.sum())
    return kq.KernelStack(K, observed, names=as_names(data, kind))


@every_predictor
@pytest.mark.parametrize("kind", ["array", "views", "stack", "precomputed"])
def test_garbage_in_absent_cells_changes_no_bit(predictor, kind, samples):
    X, y = samples
    y = targets(predictor, y)
    data, parameters = as_input(kind, X)
    views = kq.as_views(X, VIEWS)
    dirty = (
        with_garbage("views", views, views.observed)
        if kind == "array"
        else with_garbage(kind, data, views.observed)
    )
    clean_model = clone(predictor).set_params(**parameters).fit(data, y)
    dirty_model = clone(predictor).fit(dirty, y)
    assert_same_bits(outputs(clean_model, data), outputs(dirty_model, dirty))
    if hasattr(clean_model, "dual_coef_"):
        np.testing.assert_array_equal(clean_model.dual_coef_, dirty_model.dual_coef_)


@with_inputs("predictor", instances(PREDICTORS), INPUTS)
def test_clone_and_pickle(predictor, kind, samples):
    X, y = samples
    data, parameters = as_input(kind, X)
    model = clone(predictor).set_params(**parameters).fit(data, targets(predictor, y))
    again = pickle.loads(pickle.dumps(model))
    assert_same_bits(outputs(again, data), outputs(model, data))
    fresh = clone(model)
    assert repr(fresh) == repr(model)
    with pytest.raises(NotFittedError):
        fresh.predict(data)


def calls_of(call):
    """Return how often each function of the package runs during a call, by its name."""
    counts = Counter()

    def count(frame, event, _):
        ours = frame.f_globals.get("__name__", "").startswith("kernelquilt.")
        counts[frame.f_code.co_name] += event == "call" and ours

    sys.setprofile(count)
    try:
        call()
    finally:
        sys.setprofile(None)
    return counts


@pytest.mark.parametrize(
    "predictor", instances(held_to(PREDICTORS, "checks of the data in one place")), ids=repr
)
@pytest.mark.parametrize("kind", ["array", "views", "stack"])
@pytest.mark.parametrize("kernels", ["polynomial", "gaussian"])
def test_data_are_checked_once(predictor, kind, kernels, samples):
    X, y = samples[0][::3], targets(predictor, samples[1][::3])
    data, parameters = as_input(kind, X)
    parameters.setdefault("kernels", kernels)
    model = clone(predictor).set_params(**parameters)
    counts = calls_of(lambda: model.fit(data, y))
    assert counts["validate_views"] == (kind != "stack")
    assert counts["check_targets"] == 1
    # of each of three kernels whether it is finite and symmetric; Gaussians of views cannot but be
    needless = kind != "stack" and kernels == "gaussian"
    assert counts["check_kernel"] in ((0, 3) if needless else (3,))


@every_predictor
def test_all_inputs_give_the_same_scores(predictor, samples):
    X, y = samples
    scores = {}
    for kind in INPUTS:
        data, parameters = as_input(kind, X)
        parameters.setdefault("kernels", "gaussian")
        model = clone(predictor).set_params(**parameters)
        if hasattr(model, "tol"):
            model.set_params(tol=1e-6)
        scores[kind] = outputs(model.fit(data, targets(predictor, y)), data)[0]
    for kind in INPUTS[1:]:
        # localized MKL looks at the columns of views where there are any
        of_kernels = isinstance(predictor, kq.mkl.LocalizedMKLClassifier) and kind in (
            "stack",
            "precomputed",
        )
        expected = scores["stack" if of_kernels else "array"]
        np.testing.assert_allclose(scores[kind], expected, atol=1e-8)


@with_inputs("predictor", instances(PREDICTORS), [*INPUTS, "multi_index"])
def test_cross_validation(predictor, kind, samples):
    X, y = samples
    y = targets(predictor, y)
    data, parameters = as_input(kind, X)
    model = clone(predictor).set_params(**parameters)
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    if is_regressor(predictor):
        folds = list(folds.split(X, samples[1]))
    scores = cross_val_score(model, data, y, cv=folds)
    assert scores.shape == (3,)
    # localized MKL learns too much from 60 samples
    assert scores.mean() > (0.6 if isinstance(predictor, kq.mkl.LocalizedMKLClassifier) else 0.7)


@every_predictor
@pytest.mark.parametrize("kind", ["views", "stack"])
def test_predictions_of_folds(predictor, kind, samples):
    X, y = samples[0][::2], targets(predictor, samples[1][::2])
    data, _ = as_input(kind, X)
    assert cross_val_predict(clone(predictor), data, y, cv=3).shape == y.shape


def visible(output, rows):
    """Return what can be seen of the output of a transformer for `rows` (n_samples, M)."""
    if isinstance(output, kq.KernelStack):
        seen = output.observed.T[:, :, None] & rows.T[:, None, :]
        return [np.where(seen, output.gram(), 0.0), output.observed]
    if isinstance(output, kq.MultiView):
        return [output[name] for name in output.names]
    if isinstance(output, kq.LowRankStack):
        return [output.factor(name) for name in output.names]
    return [output]


@pytest.mark.parametrize("transformer", instances(TRANSFORMERS), ids=repr)
def test_transformers(transformer, samples):
    X, y = samples
    kind = "views" if transformer.__sklearn_tags__().input_tags.two_d_array else "stack"
    data, _ = as_input(kind, X)
    observed = kq.as_views(X, VIEWS).observed
    dirty = with_garbage(kind, data, observed)
    model = clone(transformer).fit(data, y)
    clean = visible(model.transform(data), observed)
    assert_same_bits(clean, visible(clone(transformer).fit(dirty, y).transform(dirty), observed))
    assert_same_bits(clean, visible(clone(transformer).fit_transform(data, y), observed))
    again = pickle.loads(pickle.dumps(model))
    assert_same_bits(clean, visible(again.transform(data), observed))
    with pytest.raises(NotFittedError):
        clone(model).transform(data)


def with_penalty(classifier, C):
    """Return the penalty as a parameter, on the loss or the other way round on the norm."""
    return {classifier._penalty: C if classifier._penalty == "C" else 1 / C}


@with_inputs("classifier", CLASSIFIERS, [*INPUTS, "multi_index"])
def test_fit_and_predict(classifier, kind, samples):
    X, y = samples
    data, parameters = as_input(kind, X)
    model = classifier(**parameters).fit(data, y)
    assert model.score(data, y) > 0.8
    assert model.decision_function(data).shape == (90, 3)
    assert model.weights_.shape == (3, 3)
    in_common = held_to([classifier], "duals in common")
    assert model.dual_coef_.shape == ((3, 90) if in_common else (3, 3, 90))
    assert model.converged_
    assert (model.duality_gap_ >= -1e-12 * np.abs(model.objective_)).all()
    assert set(model.classes_) == {"x", "y", "z"}


@with_inputs("classifier", CLASSIFIERS, INPUTS)
def test_grid_search(classifier, kind, samples):
    X, y = samples
    data, parameters = as_input(kind, X)
    grid = {classifier._penalty: [0.1, 10.0]}
    n_jobs = 2 if classifier is kq.SimpleMKLClassifier else None
    search = GridSearchCV(classifier(**parameters), grid, cv=3, n_jobs=n_jobs).fit(data, y)
    assert search.best_params_[classifier._penalty] in (0.1, 10.0)
    assert search.predict(data).shape == y.shape


@with_inputs("classifier", CLASSIFIERS, CONTAINERS)
def test_meta_estimators(classifier, kind, samples):
    # three classes of one kind of input, two of the others
    X, y = samples
    if kind != "array":
        X, y = X[y != "y"], y[y != "y"]
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
def test_the_first_parameter_is_the_penalty(classifier):
    assert clone(classifier(3.0)).get_params()[classifier._penalty] == 3.0


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
def test_permuting_samples_permutes_scores(classifier, samples):
    X, y = samples
    order = np.random.default_rng(2).permutation(len(y))
    one = classifier(views=VIEWS, tol=1e-8).fit(X, y)
    other = classifier(views=VIEWS, tol=1e-8).fit(X[order], y[order])
    np.testing.assert_allclose(one.objective_, other.objective_, rtol=1e-7)
    np.testing.assert_allclose(other.decision_function(X), one.decision_function(X), atol=1e-4)


@every_classifier
@pytest.mark.filterwarnings("ignore:LocalizedMKLClassifier stopped after")
def test_weights_equal_repetition_with_several_views(classifier, samples):
    X, y = samples
    counts = np.random.default_rng(3).integers(0, 4, len(y))
    # a long descent that is not convex magnifies rounding: 1e-12 after 10 steps, 1e-6 after 80
    steps = {"max_iter": 20} if classifier is kq.mkl.LocalizedMKLClassifier else {}
    weighted = classifier(views=VIEWS, **steps).fit(X, y, sample_weight=counts)
    repeated = classifier(views=VIEWS, **steps).fit(
        np.repeat(X, counts, axis=0), np.repeat(y, counts)
    )
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
