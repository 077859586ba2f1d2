import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import kernelquilt as kq

CS = [0.1, 1.0, 10.0]
FOLDS = StratifiedKFold(3, shuffle=True, random_state=0)
CLASSIFIERS = [
    kq.mkl.UniformMKLClassifier(tol=1e-6),
    kq.ObservedFractionMKLClassifier(tol=1e-6),
    kq.SimpleMKLClassifier(tol=1e-6),
    kq.LpMKLClassifier(p=1.2, tol=1e-6),
    kq.LpMKLClassifier(p=2.0, tol=1e-6),
    kq.ConvexAbsentMKLClassifier(tol=1e-6),
    kq.mkl.LocalizedMKLClassifier(tol=1e-6),
    kq.mkl.SampleAdaptiveMKLClassifier(m0=2, tol=1e-6),
]
every_classifier = pytest.mark.parametrize("classifier", CLASSIFIERS, ids=str)


@pytest.fixture(scope="module")
def samples():
    X, y = kq.datasets.make_multiview(120, 4, relevance=[1, 0.7, 0.3, 0], random_state=0)
    return kq.datasets.make_absent(X, 0.3, random_state=0), y


@every_classifier
def test_path_equals_independent_fits(classifier, samples):
    X, y = samples
    models = kq.mkl_path(classifier, X, y, Cs=CS)
    for C, model in zip(CS, models, strict=True):
        alone = type(classifier)(**{**classifier.get_params(), "C": C}).fit(X, y)
        assert model.C == C
        assert model.converged_
        assert model.objective_ == pytest.approx(alone.objective_, rel=2e-6)
        np.testing.assert_allclose(
            model.decision_function(X), alone.decision_function(X), atol=2e-2
        )
        assert (model.predict(X) == alone.predict(X)).mean() > 0.98
    assert not hasattr(classifier, "dual_coef_")


def test_path_over_p_and_c(samples):
    X, y = samples
    models = kq.mkl_path(kq.LpMKLClassifier(tol=1e-6), X, y, Cs=CS, ps=[1.0, 1.3, 3.0])
    assert [(model.p, model.C) for model in models] == [(p, C) for p in (1.0, 1.3, 3.0) for C in CS]
    for model in models:
        alone = kq.LpMKLClassifier(model.C, p=model.p, tol=1e-6).fit(X, y)
        assert model.objective_ == pytest.approx(alone.objective_, rel=2e-6)


@pytest.mark.parametrize("weights", ["per_class", "shared"])
def test_multi_class_path(weights):
    X, y = kq.datasets.make_multiview(90, 3, n_classes=3, random_state=0)
    models = kq.mkl_path(kq.LpMKLClassifier(weights=weights, tol=1e-6), X, y, Cs=CS)
    alone = kq.LpMKLClassifier(CS[-1], weights=weights, tol=1e-6).fit(X, y)
    np.testing.assert_allclose(models[-1].objective_, alone.objective_, rtol=2e-6)


def test_sparse_starts_do_not_stop_the_descent():
    """A start at a vertex may lie on a kink, where no direction seems to lead down."""
    X, y = kq.datasets.load_example("digits")
    chosen = (y == 4) | (y == 9)
    X = kq.ViewTransformer(StandardScaler()).fit_transform(X[chosen])
    stack = kq.ViewKernels(kq.gaussian_bank(20, spacing="log")).fit_transform(X.select(["pixels"]))
    for models in (
        kq.mkl_path(kq.SimpleMKLClassifier(), stack, y[chosen], Cs=2.0 ** np.arange(7, -2, -1)),
        kq.mkl_path(kq.SimpleMKLClassifier(), stack, y[chosen], Cs=2.0 ** np.arange(-1, 8)),
    ):
        assert all(model.converged_ for model in models)


def test_warm_starts_save_most_of_the_iterations():
    X, y = kq.datasets.load_example("wdbc")
    X = kq.ViewTransformer(StandardScaler()).fit_transform(X)
    stack = kq.ViewKernels(kq.gaussian_bank(6, 2**-3, 2**3, spacing="log")).fit_transform(X)
    Cs = 2.0 ** np.arange(7, -2, -1)
    path = kq.mkl_path(kq.LpMKLClassifier(), stack, y, Cs=Cs)
    alone = [kq.LpMKLClassifier(C).fit(stack, y) for C in Cs]
    assert sum(m.n_smo_iter_ for m in alone) > 2 * sum(m.n_smo_iter_ for m in path)


@every_classifier
@pytest.mark.parametrize("kind", ["views", "stack", "array", "precomputed"])
def test_search_equals_grid_search(classifier, kind, samples):
    X, y = samples
    parameters = {}
    if kind == "array":
        X = np.hstack([X[name] for name in X.names])
        parameters = {"views": {f"v{k}": range(5 * k, 5 * k + 5) for k in range(4)}}
    elif kind != "views":
        X = kq.ViewKernels().fit_transform(X)
        if kind == "precomputed":
            K = np.moveaxis(X.gram(), 0, -1).copy()
            K[~X.observed[:, None] | ~X.observed[None]] = np.nan
            X, parameters = K, {"kernels": "precomputed"}
    model = type(classifier)(**{**classifier.get_params(), **parameters})
    ours = kq.MKLSearchCV(model, {"C": CS}, cv=FOLDS).fit(X, y)
    theirs = GridSearchCV(model, {"C": CS}, cv=FOLDS).fit(X, y)
    assert set(ours.cv_results_) >= set(theirs.cv_results_)
    for name in ("mean_test_score", "std_test_score", "split0_test_score", "rank_test_score"):
        np.testing.assert_allclose(ours.cv_results_[name], theirs.cv_results_[name], atol=1e-12)
    assert ours.cv_results_["params"] == theirs.cv_results_["params"]
    assert ours.best_params_ == theirs.best_params_
    assert ours.best_score_ == pytest.approx(theirs.best_score_)
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-8)
    assert ours.score(X, y) == theirs.score(X, y)


def test_search_in_a_pipeline_and_by_another_score(samples):
    X, y = samples
    model = make_pipeline(
        kq.ViewTransformer(StandardScaler()),
        kq.ViewKernels(),
        kq.CentreKernels(),
        kq.LpMKLClassifier(),
    )
    grid = {"lpmklclassifier__C": CS, "lpmklclassifier__p": [1, 2]}
    ours = kq.MKLSearchCV(model, grid, cv=FOLDS, scoring="roc_auc", n_jobs=2).fit(X, y)
    theirs = GridSearchCV(model, grid, cv=FOLDS, scoring="roc_auc").fit(X, y)
    assert ours.best_params_ == theirs.best_params_
    np.testing.assert_allclose(
        ours.cv_results_["mean_test_score"], theirs.cv_results_["mean_test_score"], atol=5e-3
    )
    assert ours.score(X, y) == pytest.approx(theirs.score(X, y), abs=1e-9)
    assert list(ours.classes_) == [0, 1]


def test_search_is_an_estimator_itself(samples):
    X, y = samples
    search = kq.MKLSearchCV(kq.SimpleMKLClassifier(), {"C": CS}, cv=3)
    with pytest.raises(NotFittedError):
        search.predict(X)
    assert cross_val_score(search, X, y, cv=3).mean() > 0.7


def test_search_over_lists_of_grids_and_other_parameters(samples):
    X, y = samples
    grid = [{"C": [1.0], "class_weight": [None, "balanced"]}, {"C": CS, "tol": [1e-4]}]
    search = kq.MKLSearchCV(kq.SimpleMKLClassifier(), grid, cv=3, refit=False).fit(X, y)
    assert len(search.cv_results_["params"]) == 5
    assert search.cv_results_["param_tol"].mask.tolist() == [True, True, False, False, False]
    assert not hasattr(search, "best_estimator_")
    with pytest.raises(NotFittedError, match="fitted with refit=False"):
        search.predict(X)


def warnings_of(search, X, y):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        search.fit(X, y)
    return caught


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_a_warning_of_all_folds_is_given_once(samples, n_jobs):
    X, y = samples
    observed = X.observed.copy()
    observed[::9] = False
    X = kq.MultiView({name: X[name] for name in X.names}, observed)
    search = kq.MKLSearchCV(kq.SimpleMKLClassifier(), {"C": CS}, cv=5, n_jobs=n_jobs)
    caught = warnings_of(search.set_params(refit=False), X, y)
    assert len(caught) == 1
    text = str(caught[0].message)
    assert "training samples have no observed view" in text
    assert text.endswith("(in 5 of 5 folds)")
    assert caught[0].filename == __file__
    assert len(warnings_of(search.set_params(refit=True), X, y)) == 2


def test_warnings_of_folds_keep_their_category_and_differ_by_names(samples):
    X, y = samples
    model = kq.SimpleMKLClassifier(max_iter=1, tol=1e-9)
    caught = warnings_of(kq.MKLSearchCV(model, {"C": CS}, cv=3, refit=False), X, y)
    assert [each.category for each in caught] == [ConvergenceWarning]
    assert "in 3 of 3 folds" in str(caught[0].message)
    # one view lacks all but the samples of one fold
    observed = X.observed.copy()
    observed[:, 0], observed[:, 1] = False, True
    observed[:3, 0] = True
    X = kq.MultiView({name: np.nan_to_num(X[name]) for name in X.names}, observed)
    folds = [(np.arange(3, 60), np.arange(3)), (np.arange(60), np.arange(60, 90))]
    search = kq.MKLSearchCV(kq.SimpleMKLClassifier(), {"C": CS}, cv=folds, refit=False)
    caught = warnings_of(search, X, y)
    assert len(caught) == 1
    assert f"{X.names[0]!r} (in 1 of 2 folds)" in str(caught[0].message)


def test_filters_of_the_user_hold_in_a_search(samples):
    X, y = samples
    search = kq.MKLSearchCV(kq.SimpleMKLClassifier(max_iter=1, tol=1e-9), {"C": CS}, cv=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        search.fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ConvergenceWarning):
            search.fit(X, y)


def test_bad_searches(samples):
    X, y = samples
    with pytest.raises(ValueError, match="SVC; use GridSearchCV"):
        kq.MKLSearchCV(SVC(), {"C": CS}).fit(X, y)
    with pytest.raises(ValueError, match="the grid has 'kernels'; parameters of kernels"):
        kq.MKLSearchCV(kq.SimpleMKLClassifier(), {"kernels": ["rbf"]}).fit(X, y)
    with pytest.raises(ValueError, match="'C' parameter"):
        kq.mkl_path(kq.SimpleMKLClassifier(), X, y, Cs=[1.0, -1.0])
    with pytest.raises(ValueError, match="at least one value"):
        kq.mkl_path(kq.SimpleMKLClassifier(), X, y, Cs=[])
    with pytest.raises(ValueError, match="Invalid parameter 'p'"):
        kq.mkl_path(kq.SimpleMKLClassifier(), X, y, Cs=CS, ps=[2.0])


def test_path_with_weights_learned_elsewhere(samples):
    X, y = samples
    classifier = kq.LpMKLClassifier(p=1.2, C_weights=0.1, tol=1e-6)
    models = kq.mkl_path(classifier, X, y, Cs=CS)
    np.testing.assert_allclose(models[-1].weights_, models[0].weights_, atol=1e-4)
    for C, model in zip(CS, models, strict=True):
        alone = kq.LpMKLClassifier(C, p=1.2, C_weights=0.1, tol=1e-6).fit(X, y)
        assert model.objective_ == pytest.approx(alone.objective_, rel=1e-4)
    grid = {"C": CS, "C_weights": [0.05, 0.5]}
    ours = kq.MKLSearchCV(kq.SimpleMKLClassifier(tol=1e-6), grid, cv=FOLDS).fit(X, y)
    theirs = GridSearchCV(kq.SimpleMKLClassifier(tol=1e-6), grid, cv=FOLDS).fit(X, y)
    np.testing.assert_allclose(
        ours.cv_results_["mean_test_score"], theirs.cv_results_["mean_test_score"], atol=0.02
    )


@pytest.mark.parametrize(
    "other", [make_pipeline(StandardScaler(), kq.SimpleMKLClassifier()), kq.mkl.CCAFusion()]
)
def test_path_of_another_estimator_is_refused(samples, other):
    with pytest.raises(ValueError, match="MKLSearchCV takes pipelines"):
        kq.mkl_path(other, *samples, Cs=CS)


def test_searches_take_a_dict_of_views():
    X, y = kq.datasets.make_multiview(30, 2, random_state=0)
    search = kq.MKLSearchCV(kq.SimpleMKLClassifier(), {"C": [0.1, 10.0]}, cv=2)
    expected = search.fit(X, y).decision_function(X)
    given = {name: X[name] for name in X.names}
    found = search.fit(given, y).decision_function(given)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    "classifier",
    [
        kq.ObservedFractionMKLClassifier(),
        kq.SimpleMKLClassifier(),
        kq.LpMKLClassifier(p=1.5),
        kq.ConvexAbsentMKLClassifier(),
        kq.ConvexAbsentMKLClassifier(formulation="shared_coef"),
        kq.mkl.PenalizedAbsentMKLClassifier(),
        kq.mkl.PenalizedAbsentMKLClassifier(tau0="ones"),
        kq.mkl.IterativeAbsentMKLClassifier(),
        kq.mkl.MaxMarginAbsentClassifier(),
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore:.*(outer iterations|margin was raised)")
@pytest.mark.parametrize("Cs", [[1e5, 1e4, 0.02], [1e4, 1e5, 0.02]], ids=["down", "up"])
def test_what_no_bound_changes_is_solved_once(classifier, Cs, samples):
    X, y = samples
    models = kq.mkl_path(classifier, X[:60], y[:60], Cs=Cs)
    first, again, bounded = models
    assert again.n_solves_ == 0
    assert first.n_solves_ > 0
    assert bounded.n_solves_ > 0
    assert Cs[1] == again.C
    alone = clone(classifier).set_params(C=Cs[1]).fit(X[:60], y[:60])
    np.testing.assert_allclose(again.weights_, alone.weights_, atol=1e-6)
    np.testing.assert_allclose(
        again.decision_function(X), alone.decision_function(X), rtol=1e-6, atol=1e-6
    )
    assert np.abs(bounded.decision_function(X) - again.decision_function(X)).max() > 1e-3


@pytest.mark.filterwarnings("ignore:.*(outer iterations|margin was raised)")
def test_duals_on_the_way_that_meet_a_bound_count(samples):
    X, y = samples
    model = kq.mkl.IterativeAbsentMKLClassifier()
    (free,) = kq.mkl_path(model, X, y, Cs=[1e5])
    K = kq.ViewKernels().fit_transform(X).gram()
    found = kq.mkl.solve_iterative_absent_mkl(K, 2.0 * y - 1, X.observed, C=1e5)
    on_the_way = found.reach * 1e5
    at_the_end = float(np.abs(found.dual_coef * found.margins).max())
    assert at_the_end < on_the_way < 1e5
    between = 0.5 * (at_the_end + on_the_way)
    models = kq.mkl_path(model, X, y, Cs=[1e5, between])
    assert models[1].n_solves_ > 0
    np.testing.assert_array_equal(models[0].weights_, free.weights_)


def test_weights_learned_with_their_own_penalty_are_no_reason_not_to_solve(samples):
    X, y = samples
    model = kq.SimpleMKLClassifier(C_weights=1e5)
    models = kq.mkl_path(model, X, y, Cs=[1e5, 0.1])
    assert all(model.n_solves_ > 0 for model in models)
    assert np.abs(models[1].dual_coef_).max() <= 0.1
