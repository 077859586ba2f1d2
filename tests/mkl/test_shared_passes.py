"""Paths on factors: passes that serve all candidates, and models that do not notice."""

import threading

import numpy as np
import pytest
from sklearn.base import clone, is_regressor

import kernelquilt as kq
from inputs import VIEWS, as_input
from kernelquilt.core import in_step
from kernelquilt.core.svm import factor_descent, factor_dual, factor_reading
from kernelquilt.mkl import fitting

CS = [10.0, 0.1, 1.0]
MODELS = [
    kq.SimpleMKLClassifier(),
    kq.SimpleMKLClassifier(multi_class="ovo", class_weight="balanced"),
    kq.SimpleMKLClassifier(C_weights=0.1),
    kq.SimpleMKLClassifier(n_jobs=2),
    kq.LpMKLClassifier(weights="shared"),
    kq.mkl.UniformMKLClassifier(),
    kq.ObservedFractionMKLClassifier(),
    kq.ConvexAbsentMKLClassifier(),
    kq.mkl.IterativeAbsentMKLClassifier(),
    kq.mkl.PenalizedAbsentMKLClassifier(),
    kq.SimpleMKLRegressor(),
    kq.mkl.ObservedFractionMKLRegressor(),
]
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*no observed view:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*next to none of the kernels:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*need not converge:sklearn.exceptions.ConvergenceWarning"),
]


@pytest.fixture(autouse=True)
def by_stages(monkeypatch):
    """Make passes in small pieces do the work that SMO does for few samples."""
    monkeypatch.setattr(factor_dual, "SMALL", 4)
    monkeypatch.setattr(factor_descent, "HELD_BYTES", 2**12)
    monkeypatch.setattr(factor_reading, "BYTES_AT_A_TIME", 2**10)


@pytest.fixture(scope="module")
def samples():
    rng = np.random.default_rng(0)
    codes = np.repeat([0, 1, 2], 30)
    X = rng.standard_normal((90, 8)) + np.outer(2 * codes, [1, 0, 0, 1, 0, 0, 1, 0])
    for columns in VIEWS.values():
        X[np.ix_(rng.random(90) < 0.2, columns)] = np.nan
    factors, _ = as_input("factors", X)
    return factors, codes, rng.integers(1, 4, 90)


def assert_same(one, other):
    for name in ("weights_", "dual_coef_", "intercept_", "objective_", "duality_gap_"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
    for name in ("n_iter_", "n_solves_", "n_smo_iter_", "converged_", "n_support_"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)


def passes(models):
    return sum(model.n_passes_ for model in models)


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_a_path_has_the_bits_of_fits_and_fewer_passes(model, samples):
    factors, codes, weight = samples
    y = codes + 0.1 * weight if is_regressor(model) else np.array(["x", "y", "z"])[codes]
    path = kq.mkl_path(model, factors, y, Cs=CS, sample_weight=weight)
    alone = [clone(model).set_params(C=C).fit(factors, y, sample_weight=weight) for C in CS]
    for one, other in zip(path, alone, strict=True):
        assert_same(one, other)
    assert 0 < passes(path) < 0.8 * passes(alone)


@pytest.mark.parametrize("kind", ["single", "mapped", "landmarks"])
def test_kinds_of_factors(kind, samples, tmp_path):
    factors, codes, _ = samples
    Z, cuts = factors.training_factors().Z, np.cumsum(factors.ranks)[:-1]
    model = kq.SimpleMKLClassifier()
    if kind == "single":
        Z = Z.astype(np.float32)
    elif kind == "mapped":
        np.save(tmp_path / "Z.npy", Z)
        Z = np.load(tmp_path / "Z.npy", mmap_mode="r")
    X = kq.LowRankStack(np.split(Z, cuts, axis=1), factors.observed, factors.names)
    if kind == "landmarks":
        X = {"a": Z[:, :5], "b": Z[:, 5:9]}
        model.set_params(n_landmarks=20)
    path = kq.mkl_path(model, X, codes, Cs=CS)
    alone = [clone(model).set_params(C=C).fit(X, codes) for C in CS]
    for one, other in zip(path, alone, strict=True):
        assert_same(one, other)
    assert passes(path) < 0.8 * passes(alone)


def test_order_groups_and_company_do_not_matter(samples, monkeypatch):
    factors, codes, _ = samples
    model = kq.SimpleMKLClassifier()
    path = kq.mkl_path(model, factors, codes > 0, Cs=CS)
    for one, other in zip(
        path, kq.mkl_path(model, factors, codes > 0, Cs=CS[::-1])[::-1], strict=True
    ):
        assert_same(one, other)
        assert one.n_passes_ == pytest.approx(other.n_passes_)
    (single,) = kq.mkl_path(model, factors, codes > 0, Cs=CS[:1])
    fitted = kq.SimpleMKLClassifier(CS[0]).fit(factors, codes > 0)
    assert_same(single, fitted)
    assert single.n_passes_ == fitted.n_passes_
    monkeypatch.setattr(in_step, "AT_ONCE", 2)
    in_groups = kq.mkl_path(model, factors, codes > 0, Cs=CS)
    for one, other in zip(path, in_groups, strict=True):
        assert_same(one, other)
    assert passes(path) < passes(in_groups)


def test_classes_of_a_fit_share_passes(samples):
    factors, codes, _ = samples
    together = kq.SimpleMKLClassifier().fit(factors, codes)
    apart = [kq.SimpleMKLClassifier().fit(factors, codes == k) for k in range(3)]
    # what they read in one pass may be other rows
    assert max(model.n_passes_ for model in apart) <= together.n_passes_ < passes(apart)
    for k, model in enumerate(apart):
        np.testing.assert_array_equal(together.dual_coef_[k], model.dual_coef_[0])


def test_search_has_the_scores_of_fits(samples):
    factors, codes, _ = samples
    grid = {"C": CS, "p": [1.0, 2.0]}
    search = kq.MKLSearchCV(kq.LpMKLClassifier(), grid, cv=2).fit(factors, codes)
    half = np.arange(90) % 2 == 0
    splits = [(np.flatnonzero(half), np.flatnonzero(~half))]
    ours = kq.MKLSearchCV(kq.LpMKLClassifier(), grid, cv=splits).fit(factors, codes).cv_results_
    for params, score in zip(ours["params"], ours["mean_test_score"], strict=True):
        model = kq.LpMKLClassifier(**params).fit(factors[half], codes[half])
        assert score == model.score(factors[~half], codes[~half])
    assert search.best_score_ > 0.7


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_an_error_of_one_candidate_leaves_no_threads(error, samples, monkeypatch):
    factors, codes, _ = samples
    said = []

    def fail(*what):
        said.append(what)
        if len(said) == 5:
            raise error("stop")

    monkeypatch.setattr(fitting, "print_progress", fail)
    before = threading.active_count()
    with pytest.raises(error, match="stop"):
        kq.mkl_path(kq.SimpleMKLClassifier(verbose=1), factors, codes > 0, Cs=CS)
    assert len(said) == 5
    assert threading.active_count() == before


def test_warnings_name_the_line_of_the_caller(samples):
    factors, codes, _ = samples
    with pytest.warns(match="above tol") as caught:
        kq.mkl_path(kq.SimpleMKLClassifier(max_iter=1, tol=1e-9), factors, codes > 0, Cs=CS)
    assert {each.filename for each in caught} == {__file__}
