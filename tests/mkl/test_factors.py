"""Models on factors: the same as on kernels, and the same contracts."""

import pickle

import numpy as np
import pytest
from sklearn.base import ClassifierMixin, clone
from sklearn.kernel_approximation import Nystroem
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline

import kernelquilt as kq
from discovery import predictors
from inputs import VIEWS, as_input
from kernelquilt.bounds import kernel_sizes
from kernelquilt.kernels import factor_input

ALL_TAKERS = [each for each in predictors() if getattr(each, "_takes_factors", False)]
TAKERS = [each for each in ALL_TAKERS if issubclass(each, ClassifierMixin)]
ALL_OF_THREE = [each for each in ALL_TAKERS if each is not kq.mkl.SVM2KClassifier]
THREE = [each for each in TAKERS if each is not kq.mkl.SVM2KClassifier]
MADE_INSIDE = [each for each in ALL_TAKERS if "n_landmarks" in each().get_params()]
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*no observed view:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*need not converge:sklearn.exceptions.ConvergenceWarning"),
]


@pytest.fixture(scope="module")
def samples():
    rng = np.random.default_rng(0)
    y = np.repeat(["x", "y", "z"], 30)
    X = rng.standard_normal((90, 8)) + np.outer(np.repeat([0, 2, 4], 30), [1, 0, 0, 1, 0, 0, 1, 0])
    for columns in VIEWS.values():
        X[np.ix_(rng.random(90) < 0.2, columns)] = np.nan
    return X, y


def targets_for(predictor, y):
    """Return labels, or numbers that go with them."""
    if issubclass(predictor, ClassifierMixin):
        return y
    return np.searchsorted(["x", "y", "z"], y) + 0.2 * np.sin(np.arange(len(y)))


def outputs(model, X):
    return getattr(model, "decision_function", model.predict)(X)


def of_two_views(classifier, data):
    return data.select(data.names[:2]) if classifier is kq.mkl.SVM2KClassifier else data


def test_which_classifiers_take_factors():
    names = {each.__name__.removesuffix("Classifier") for each in TAKERS}
    assert len(ALL_TAKERS) == len(TAKERS) + 5  # and the regressors
    assert names == {
        *("UniformMKL", "ObservedFractionMKL", "SimpleMKL", "LpMKL", "ConvexAbsentMKL"),
        *("PenalizedAbsentMKL", "IterativeAbsentMKL", "MHKS", "MultiKernelMHKS", "SVM2K"),
    }


@pytest.mark.parametrize("classifier", TAKERS)
def test_full_rank_gives_the_model_of_the_kernels(classifier, samples):
    X, y = samples
    stack, factors = (
        of_two_views(classifier, as_input(kind, X)[0]) for kind in ("stack", "factors")
    )
    one = classifier(tol=1e-6).fit(stack, y)
    other = classifier(tol=1e-6).fit(factors, y)
    assert other.converged_
    np.testing.assert_allclose(other.objective_, one.objective_, rtol=2e-6)
    np.testing.assert_allclose(
        other.decision_function(factors), one.decision_function(stack), atol=2e-3
    )
    np.testing.assert_allclose(other.explained_trace_, 1.0)
    assert (other.duality_gap_ >= -1e-12 * np.abs(other.objective_)).all()
    assert len(pickle.dumps(other)) < 100 * 90 * 6
    again = pickle.loads(pickle.dumps(other))
    np.testing.assert_array_equal(
        again.decision_function(factors[::2]), other.decision_function(factors)[::2]
    )


@pytest.mark.parametrize("classifier", THREE)
def test_scikit_learn_tools(classifier, samples):
    X, y = samples
    factors, _ = as_input("factors", X)
    assert cross_val_score(classifier(), factors, y, cv=3).mean() > 0.7
    assert cross_val_predict(classifier(), factors, y, cv=3).shape == y.shape
    search = GridSearchCV(classifier(), {classifier._penalty: [0.1, 10.0]}, cv=2).fit(factors, y)
    assert search.predict(factors).shape == y.shape


@pytest.mark.parametrize("predictor", ALL_OF_THREE)
def test_garbage_in_absent_rows_changes_no_bit(predictor, samples):
    X, y = samples
    y = targets_for(predictor, y)
    clean, _ = as_input("factors", X)
    blocks = [clean.factor(m) for m in range(3)]
    for m, block in enumerate(blocks):
        block[~clean.observed[:, m]] = np.resize([np.nan, np.inf, -1e9], block.shape[1])
    dirty = kq.LowRankStack(blocks, clean.observed, clean.names)
    one, other = predictor().fit(clean, y), predictor().fit(dirty, y)
    np.testing.assert_array_equal(one.dual_coef_, other.dual_coef_)
    np.testing.assert_array_equal(outputs(one, clean), outputs(other, dirty))


@pytest.mark.parametrize("predictor", ALL_OF_THREE)
def test_weights_equal_repetition(predictor, samples):
    X, y = samples
    y = targets_for(predictor, y)
    factors, _ = as_input("factors", X)
    counts = np.random.default_rng(3).integers(0, 4, len(y))
    weighted = predictor().fit(factors, y, sample_weight=counts)
    rows = np.repeat(np.arange(len(y)), counts)
    repeated = predictor().fit(factors[rows], y[rows])
    np.testing.assert_allclose(outputs(weighted, factors), outputs(repeated, factors), atol=1e-6)


@pytest.mark.parametrize("options", [{"class_weight": "balanced"}, {"multi_class": "ovo"}])
def test_options_of_classifiers(options, samples):
    X, y = samples
    (stack, _), (factors, _) = as_input("stack", X), as_input("factors", X)
    one = kq.SimpleMKLClassifier(tol=1e-6, **options).fit(stack[:70], y[:70])
    other = kq.SimpleMKLClassifier(tol=1e-6, **options).fit(factors[:70], y[:70])
    np.testing.assert_allclose(
        other.decision_function(factors), one.decision_function(stack), atol=1e-3
    )


@pytest.mark.parametrize("options", [{"weights": "shared"}, {"C_weights": 0.1, "C": 10.0}])
def test_weights_in_common_and_of_another_penalty(options, samples):
    X, y = samples
    (stack, _), (factors, _) = as_input("stack", X), as_input("factors", X)
    one = kq.LpMKLClassifier(tol=1e-6, **options).fit(stack, y)
    other = kq.LpMKLClassifier(tol=1e-6, **options).fit(factors, y)
    np.testing.assert_allclose(other.objective_, one.objective_, rtol=2e-6)
    np.testing.assert_allclose(other.weights_, one.weights_, atol=1e-3)


@pytest.mark.parametrize(
    "predictor", [kq.SimpleMKLClassifier, *(each for each in ALL_TAKERS if each not in TAKERS)]
)
def test_single_precision_and_factors_on_disk(predictor, samples, tmp_path):
    X, y = samples
    y = targets_for(predictor, y)
    factors, _ = as_input("factors", X)
    Z = factors.training_factors().Z
    cuts = np.cumsum(factors.ranks)[:-1]
    np.save(tmp_path / "Z.npy", Z)
    mapped = np.load(tmp_path / "Z.npy", mmap_mode="r")
    on_disk, single = (
        kq.LowRankStack(np.split(each, cuts, axis=1), factors.observed, factors.names)
        for each in (mapped, Z.astype(np.float32))
    )
    one, other, third = (predictor().fit(each, y) for each in (factors, on_disk, single))
    # where an array begins in memory decides on the last bits of some products
    np.testing.assert_allclose(one.dual_coef_, other.dual_coef_, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(outputs(other, on_disk), outputs(one, factors), atol=1e-10)
    assert single.dtype == np.float32
    assert third.converged_
    assert third.n_passes_ > 0
    np.testing.assert_allclose(third.objective_, one.objective_, rtol=2e-3)


def test_path_and_search(samples):
    X, y = samples
    factors, _ = as_input("factors", X)
    Cs = [0.1, 1.0, 10.0]
    for C, model in zip(Cs, kq.mkl_path(kq.SimpleMKLClassifier(), factors, y, Cs=Cs), strict=True):
        alone = kq.SimpleMKLClassifier(C).fit(factors, y)
        np.testing.assert_allclose(model.objective_, alone.objective_, rtol=2e-3)
    search = kq.MKLSearchCV(kq.LpMKLClassifier(), {"C": Cs}, cv=3).fit(factors, y)
    assert search.score(factors, y) > 0.8
    inside = kq.mkl_path(kq.LpMKLClassifier(n_landmarks=20, views=VIEWS), X, y, Cs=Cs)
    assert [model.C for model in inside] == Cs
    assert inside[-1].score(X, y) > 0.8
    with pytest.raises(ValueError, match="n_landmarks"):
        kq.MKLSearchCV(kq.LpMKLClassifier(), {"n_landmarks": [5, 10]}).fit(factors, y)


@pytest.mark.parametrize("predictor", MADE_INSIDE)
def test_landmarks_inside_fit(predictor, samples):
    X, y = samples
    y = targets_for(predictor, y)
    model = predictor(n_landmarks=30, views=VIEWS).fit(X, y)
    assert model.score(X, y) > (0.8 if predictor in TAKERS else 0.4)
    n_problems = 3 if predictor in TAKERS else 1
    assert all(len(coef) == n_problems and coef.shape[1] <= 30 for coef in model.coef_)
    assert (model.explained_trace_ > 0.5).all()
    assert (model.explained_trace_ < 1.0).all()
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(outputs(again, X), outputs(model, X))
    # as many landmarks as samples have the view are the kernels themselves
    whole = predictor(n_landmarks=90, views=VIEWS, tol=1e-6).fit(X, y)
    exact = predictor(views=VIEWS, tol=1e-6).fit(X, y)
    assert not hasattr(exact, "coef_")
    np.testing.assert_allclose(whole.objective_, exact.objective_, rtol=1e-4)
    refitted = model.set_params(n_landmarks=None, tol=1e-6).fit(X, y)
    assert not hasattr(refitted, "coef_")
    assert not hasattr(refitted, "explained_trace_")
    np.testing.assert_array_equal(outputs(refitted, X), outputs(exact, X))


def test_kernels_are_fitted_to_a_part_of_many_samples(samples, monkeypatch):
    X, y = samples
    monkeypatch.setattr(factor_input, "FITTED", 40)
    views = kq.as_views(X, VIEWS)
    model = kq.SimpleMKLClassifier(n_landmarks=20).fit(views, y)
    fitted = model.input_.map.input_.observed
    assert (fitted.sum(axis=0) >= 20).all()
    assert model.dual_coef_.shape == (3, 90)
    assert model.score(views, y) > 0.8
    # all of those that have a view, where these are few
    rows = factor_input._some_rows(views.observed, 20)
    assert 40 <= len(rows) < 90
    monkeypatch.setattr(factor_input, "FITTED", 90)
    assert len(factor_input._some_rows(views.observed, 20)) == views.observed.any(axis=1).sum()


@pytest.mark.parametrize("predictor", [each for each in predictors() if each not in ALL_TAKERS])
def test_others_refuse_factors(predictor, samples):
    X, _ = samples
    factors, _ = as_input("factors", X)
    if predictor in (kq.MKLSearchCV, kq.mkl.CCAFusion):
        pytest.skip("hands the data on to another estimator")
    with pytest.raises(ValueError, match="LowRankStack"):
        predictor().fit(factors, np.arange(90) % 2)


@pytest.mark.parametrize("predictor", [kq.SimpleMKLClassifier, kq.SimpleMKLRegressor])
def test_fit_and_predict_on_the_same_kind(predictor, samples):
    X, y = samples
    y = targets_for(predictor, y)
    (stack, _), (factors, _) = as_input("stack", X), as_input("factors", X)
    views = kq.as_views(X, VIEWS)
    on_factors = predictor().fit(factors, y)
    for other in (stack, views, X):
        with pytest.raises(ValueError, match=f"{predictor.__name__} was fitted on a LowRankStack"):
            on_factors.predict(other)
    with pytest.raises(ValueError, match="LowRankStack"):
        predictor().fit(stack, y).predict(factors)
    for model in (predictor(), predictor(n_landmarks=9)):
        with pytest.raises(ValueError, match=r"LowRankStack.*fitted on views"):
            model.fit(views, y).predict(factors)
    with pytest.raises(ValueError, match="fitted with the 3 factors"):
        on_factors.predict(factors.select([0, 1]))
    blocks = {name: factors.factor(name) for name in factors.names}
    narrow = {**blocks, "b": blocks["b"][:, 1:]}
    with pytest.raises(ValueError, match=r"'b' has .* columns, but .* fitted with"):
        on_factors.predict(kq.LowRankStack(narrow))
    with pytest.raises(ValueError, match="leave them None for factors"):
        predictor(n_landmarks=9).fit(factors, y)
    with pytest.raises(ValueError, match="'n_landmarks' parameter"):
        predictor(n_landmarks=0).fit(views, y)


def test_other_formulations_need_kernels(samples):
    factors, _ = as_input("factors", samples[0])
    with pytest.raises(ValueError, match="formulation='exact' works on factors"):
        kq.ConvexAbsentMKLClassifier(formulation="max_min").fit(factors, np.arange(90) % 2)


def test_factors_of_another_map_are_refused(samples):
    X, y = samples
    views = kq.as_views(X, VIEWS)
    maps = [
        kq.EmpiricalKernelMap(
            kernels="gaussian", method="nystroem", n_components=20, factors=True, random_state=0
        ).fit(views)
        for _ in range(2)
    ]
    model = kq.SimpleMKLClassifier().fit(maps[0].transform(views), y)
    assert model.predict(maps[0].transform(views[:5])).shape == (5,)
    with pytest.raises(ValueError, match="made by another map"):
        model.predict(maps[1].transform(views[:5]))


def test_features_of_transformers(samples):
    X, y = samples
    features = kq.kernels.FeatureKernels(Nystroem(n_components=20, random_state=0), views=VIEWS)
    stack = features.fit_transform(X)
    assert stack.names == tuple(VIEWS)
    assert stack.ranks.tolist() == [20] * 3
    np.testing.assert_array_equal(stack.observed, kq.as_views(X, VIEWS).observed)
    pipeline = make_pipeline(features, kq.SimpleMKLClassifier())
    assert cross_val_score(pipeline, X, y, cv=3).mean() > 0.7
    of_one = clone(features).set_params(transformers={"a": Nystroem(n_components=5)})
    assert of_one.fit_transform(X).ranks.tolist() == [5, 2, 3]


def test_map_to_factors(samples):
    X, _ = samples
    views = kq.as_views(X, VIEWS)
    features = kq.EmpiricalKernelMap(kernels="gaussian").fit(views)
    factors = kq.EmpiricalKernelMap(kernels="gaussian", factors=True, dtype=np.float32).fit(views)
    stack = factors.transform(views[:9])
    assert stack.dtype == np.float32
    for name in stack.names:
        expected = np.nan_to_num(features.transform(views[:9])[name])
        np.testing.assert_allclose(stack.factor(name), expected, atol=1e-5)
    np.testing.assert_array_equal(stack.explained_trace, 1.0)
    with pytest.raises(ValueError, match="neither with concatenate=True nor"):
        kq.EmpiricalKernelMap(factors=True, concatenate=True).fit(views)


@pytest.mark.parametrize("predictor", [kq.SimpleMKLClassifier, kq.SimpleMKLRegressor])
def test_memory_error_points_to_landmarks(predictor, monkeypatch, samples):
    X, y = samples
    y = targets_for(predictor, y)
    monkeypatch.setenv("KERNELQUILT_MAX_MEMORY", "0.0001")
    with pytest.raises(ValueError, match="n_landmarks=300 or a LowRankStack"):
        predictor(views=VIEWS).fit(X, y)
    least = 0.7 if predictor in TAKERS else 0.3
    assert predictor(views=VIEWS, n_landmarks=10).fit(X, y).score(X, y) > least


def test_bounds_know_factors(samples):
    X, y = samples
    two = np.arange(90) % 3 < 2
    (stack, _), (factors, _) = as_input("stack", X[two]), as_input("factors", X[two])
    one, other = (
        kq.SimpleMKLClassifier(tol=1e-6).fit(each, y[two] == "x") for each in (stack, factors)
    )
    for found, expected in zip(kernel_sizes(other, factors), kernel_sizes(one, stack), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("model", [kq.SimpleMKLClassifier(), kq.SimpleMKLRegressor()])
def test_no_samples_are_refused(model):
    rng = np.random.default_rng(0)
    factors = kq.LowRankStack({"a": rng.normal(size=(12, 2)), "b": rng.normal(size=(12, 3))})
    model = clone(model).fit(factors, np.arange(12) % 2)
    with pytest.raises(ValueError, match="X has 0 samples"):
        model.predict(factors[[]])
