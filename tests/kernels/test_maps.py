"""The empirical kernel map: inner products, new samples, landmarks, absence and errors."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks

import kernelquilt as kq
from problems import random_kernels

LANDMARKS = ["uniform", "kmeans", "pivoted_cholesky"]


@pytest.fixture
def views():
    rng = np.random.default_rng(0)
    X = kq.MultiView({"a": rng.standard_normal((60, 3)), "b": rng.standard_normal((60, 5))})
    return kq.datasets.make_absent(X, 0.3, random_state=0)


def inner_products(features):
    return np.array([features[name] @ features[name].T for name in features.names])


@given(seed=st.integers(0, 10_000))
@settings(max_examples=30, deadline=None)
def test_inner_products_are_the_kernel_where_it_is_observed(seed):
    rng = np.random.default_rng(seed)
    n, rank = int(rng.integers(3, 25)), int(rng.integers(1, 8))
    K, _ = random_kernels(rng, n, 2, rank)
    observed = rng.random((n, 2)) < 0.8
    observed[0] = True
    features = kq.EmpiricalKernelMap().fit_transform(kq.KernelStack(K, observed))
    np.testing.assert_array_equal(features.observed, observed)
    for m, name in enumerate(features.names):
        present = observed[:, m]
        block = features[name][present]
        np.testing.assert_allclose(
            block @ block.T, K[m][np.ix_(present, present)], atol=1e-8 * np.abs(K[m]).max() * n
        )
        assert np.isnan(features[name][~present]).all()
        assert block.shape[1] <= rank


def test_new_samples_are_mapped_consistently(views):
    stack = kq.ViewKernels("linear").fit_transform(views)
    ekm = kq.EmpiricalKernelMap().fit(stack[:40])
    train, new = ekm.transform(stack[:40]), ekm.transform(stack[40:])
    K = stack.gram()
    for m, name in enumerate(stack.names):
        row, col = stack.observed[40:, m], stack.observed[:40, m]
        # linear kernels of fewer columns than samples: new samples lie in the span
        np.testing.assert_allclose(
            new[name][row] @ train[name][col].T, K[m, 40:, :40][np.ix_(row, col)], atol=1e-8
        )
    rectangular = kq.KernelStack(K[:, 40:, :40], stack.observed[40:], names=stack.names)
    again = ekm.transform(rectangular)
    for name in stack.names:
        np.testing.assert_array_equal(again[name], new[name])


@pytest.mark.parametrize("kernels", ["gaussian", "linear"])
@pytest.mark.parametrize("method", ["exact", "nystroem", "proximity"])
def test_views_and_their_kernels_give_the_same_features(views, method, kernels):
    stack = kq.ViewKernels(kernels).fit_transform(views)
    options = {"method": method, "n_components": 3, "random_state": 0}
    of_kernels = kq.EmpiricalKernelMap(**options).fit(stack[:40])
    of_views = kq.EmpiricalKernelMap(kernels=kernels, **options).fit(views[:40])
    if kernels == "gaussian":  # whose width follows the training samples
        of_kernels = kq.EmpiricalKernelMap(**options).fit(stack)
        of_views = kq.EmpiricalKernelMap(kernels=kernels, **options).fit(views)
    one, other = of_kernels.transform(stack[40:]), of_views.transform(views[40:])
    for name in one.names:
        np.testing.assert_allclose(one[name], other[name], atol=1e-8)


@pytest.mark.parametrize("landmarks", LANDMARKS)
def test_all_samples_as_landmarks_make_nystroem_exact(views, landmarks):
    stack = kq.ViewKernels().fit_transform(views)
    every = kq.EmpiricalKernelMap(method="nystroem", landmarks=landmarks).fit_transform(stack)
    exact = kq.EmpiricalKernelMap().fit_transform(stack)
    for name in exact.names:
        np.testing.assert_allclose(every[name], exact[name], atol=1e-12)


@pytest.mark.parametrize("landmarks", LANDMARKS)
def test_nystroem_reproduces_the_kernel_of_its_landmarks(landmarks):
    X, _ = kq.datasets.make_multiview(150, 2, random_state=0)
    K = kq.ViewKernels().fit_transform(X).gram()
    ekm = kq.EmpiricalKernelMap(
        1e-12,
        n_components=30,
        method="nystroem",
        landmarks=landmarks,
        kernels="gaussian",
        random_state=0,
    )
    features = ekm.fit_transform(X)
    approximation = inner_products(features)
    for m, rows in enumerate(ekm.landmarks_):
        assert len(np.unique(rows)) == 30
        np.testing.assert_allclose(approximation[m][rows], K[m][rows], atol=1e-8)
    # the remainder of a Nystroem approximation is positive semi-definite
    assert np.linalg.eigvalsh(K - approximation).min() > -1e-8
    again = clone(ekm).fit_transform(X)
    np.testing.assert_array_equal(again[features.names[0]], features[features.names[0]])


def test_fitted_map_holds_the_landmarks_only():
    X = np.random.default_rng(0).standard_normal((2000, 6))
    ekm = kq.EmpiricalKernelMap(
        n_components=10, method="nystroem", kernels="gaussian", views={"a": [0, 1], "b": [2, 3, 4]}
    ).fit(X)
    stored = pickle.dumps(ekm)
    assert len(stored) < X.nbytes / 4
    features, again = ekm.transform(X), pickle.loads(stored).transform(X)
    for name in features.names:
        np.testing.assert_array_equal(again[name], features[name])


def test_pivots_approximate_better_than_chance():
    rng = np.random.default_rng(0)
    X = np.vstack([rng.standard_normal((190, 2)) * 0.05, 5 + rng.standard_normal((10, 2))])
    K = kq.ViewKernels(kq.Gaussian(0.3)).fit_transform(X).gram()[0]
    error = {}
    for landmarks in LANDMARKS:
        errors = []
        for seed in range(5):
            ekm = kq.EmpiricalKernelMap(
                n_components=25, method="nystroem", landmarks=landmarks, random_state=seed
            )
            B = ekm.fit_transform(K)["kernel_0"]
            errors.append(np.trace(K - B @ B.T))
        error[landmarks] = np.mean(errors)
    assert error["pivoted_cholesky"] < 0.5 * error["uniform"]
    assert error["kmeans"] < error["uniform"]


def test_leading_components_are_the_best_low_rank_approximation():
    K, _ = random_kernels(np.random.default_rng(1), 20, 1)
    B = kq.EmpiricalKernelMap(n_components=4).fit_transform(kq.KernelStack(K))["kernel_0"]
    values = np.linalg.eigvalsh(K[0])[::-1]
    assert B.shape == (20, 4)
    assert np.square(K[0] - B @ B.T).sum() == pytest.approx(np.square(values[4:]).sum())


@pytest.mark.parametrize("method", ["exact", "nystroem", "proximity"])
def test_garbage_in_absent_cells_changes_no_bit(views, method):
    stack = kq.ViewKernels().fit_transform(views)
    K = stack.gram().copy()
    absent = ~(stack.observed.T[:, :, None] & stack.observed.T[:, None, :])
    K[absent] = np.resize([np.nan, np.inf, -1e9, 7.0], absent.sum())
    dirty = kq.KernelStack(K, stack.observed, names=stack.names)
    ekm = kq.EmpiricalKernelMap(n_components=10, method=method, random_state=0)
    clean, changed = ekm.fit_transform(stack), clone(ekm).fit_transform(dirty)
    for name in stack.names:
        np.testing.assert_array_equal(clean[name], changed[name])


def test_indefinite_similarities():
    rng = np.random.default_rng(2)
    A = rng.standard_normal((20, 20))
    K = (A + A.T) / 2
    with pytest.warns(UserWarning, match=r"'similarity' is not positive.*proximity"):
        B = kq.EmpiricalKernelMap().fit_transform(kq.KernelStack(K[None], names=["similarity"]))
    values, vectors = np.linalg.eigh(K)
    positive = (vectors * np.maximum(values, 0)) @ vectors.T
    np.testing.assert_allclose(B["similarity"] @ B["similarity"].T, positive, atol=1e-10)
    rows = kq.EmpiricalKernelMap(method="proximity").fit_transform(kq.KernelStack(K[None]))
    np.testing.assert_array_equal(rows["kernel_0"], K)


def test_linear_svm_on_the_features_is_the_kernel_svm():
    X, y = kq.datasets.make_multiview(80, 1, random_state=0)
    stack = kq.ViewKernels().fit_transform(X)
    B = kq.EmpiricalKernelMap().fit_transform(stack)[stack.names[0]]
    ours = SVC(kernel="linear", tol=1e-9).fit(B, y).decision_function(B)
    theirs = SVC(kernel="precomputed", tol=1e-9).fit(stack.gram()[0], y)
    np.testing.assert_allclose(ours, theirs.decision_function(stack.gram()[0]), atol=1e-5)


def test_kernel_that_nobody_has_stays_absent(views):
    K = kq.ViewKernels().fit_transform(views).gram()
    observed = np.column_stack([views.observed[:, 0], np.zeros(60, dtype=bool)])
    for factors in (False, True):
        with pytest.warns(UserWarning, match="absent for all 60"):
            ekm = kq.EmpiricalKernelMap(factors=factors).fit(kq.KernelStack(K, observed))
        later = ekm.transform(kq.KernelStack(K, np.ones((60, 2), dtype=bool)))
        assert not later.observed[:, 1].any()


def test_bad_requests_leave_the_map_alone(views):
    K, _ = random_kernels(np.random.default_rng(3), 20, 1, rank=3)
    ekm = kq.EmpiricalKernelMap().fit(kq.KernelStack(K))
    before = dict(vars(ekm))
    ekm.n_components = before["n_components"] = 4
    with pytest.raises(ValueError, match=r"n_components=4 is more than the rank 3 of.*'kernel_0'"):
        ekm.fit(kq.KernelStack(K))
    assert vars(ekm) == before
    with pytest.raises(ValueError, match="only 20 training samples have kernel 'kernel_0'"):
        kq.EmpiricalKernelMap(n_components=21, method="nystroem").fit(kq.KernelStack(K))
    with pytest.raises(ValueError, match="ViewKernels makes them"):
        kq.EmpiricalKernelMap().fit(views)
    with pytest.raises(ValueError, match=r"KernelStack of 20 samples.*leave kernels=None"):
        kq.EmpiricalKernelMap(kernels="gaussian").fit(kq.KernelStack(K))
    with pytest.raises(ValueError, match="'rank_tol' parameter"):
        kq.EmpiricalKernelMap(-1.0).fit(kq.KernelStack(K))
    with pytest.raises(ValueError, match="'landmarks' parameter"):
        kq.EmpiricalKernelMap(landmarks="best").fit(kq.KernelStack(K))


def test_a_list_gives_features_that_can_be_sliced_and_learned_from():
    rng = np.random.default_rng(0)
    blocks, y = [rng.standard_normal((30, 2)), rng.standard_normal((30, 3))], np.arange(30) % 2
    kernels = np.stack([block @ block.T for block in blocks], axis=2)
    for features in (
        kq.EmpiricalKernelMap(kernels="linear").fit_transform(blocks),
        kq.EmpiricalKernelMap().fit_transform(kernels.tolist()),
        kq.EmpiricalKernelMap().fit_transform([block @ block.T for block in blocks]),
    ):
        assert features.index is None
        assert len(features[:7]) == 7
        assert (
            kq.SimpleMKLClassifier(kernels="linear").fit(features, y).predict(features).size == 30
        )


class TestConcatenate:
    @pytest.mark.parametrize("method", ["exact", "nystroem", "proximity"])
    def test_the_features_side_by_side(self, views, method):
        parameters = {"kernels": "gaussian", "method": method, "random_state": 0}
        apart = kq.EmpiricalKernelMap(**parameters).fit(views[:40])
        together = kq.EmpiricalKernelMap(**parameters, concatenate=True).fit(views[:40])
        for rows in (views[:40], views[40:]):
            expected = apart.transform(rows)
            found = together.transform(rows)
            assert type(found) is np.ndarray
            blocks = [np.nan_to_num(expected[name]) for name in expected.names]
            np.testing.assert_array_equal(found, np.hstack(blocks))

    def test_names(self, views):
        ekm = kq.EmpiricalKernelMap(kernels={"a": ["linear", "cosine"], "b": "linear"})
        ekm.set_params(concatenate=True, n_components=2)
        names = ekm.fit(views).get_feature_names_out().tolist()
        assert len(names) == ekm.transform(views).shape[1]
        assert names == [
            f"{name}__{number}" for name in ("a__linear", "a__cosine", "b") for number in range(2)
        ]

    def test_inner_products_are_the_sum_of_zero_filled_kernels(self, views):
        stack = kq.ViewKernels().fit_transform(views)
        Z = kq.EmpiricalKernelMap(concatenate=True).fit_transform(stack)
        np.testing.assert_allclose(Z @ Z.T, stack.gram().sum(axis=0), atol=1e-8)

    @pytest.mark.parametrize("last", [LogisticRegression(), RandomForestClassifier(10)])
    def test_any_estimator_can_follow(self, views, last):
        y = (views["a"][:, 0] > 0).astype(int)
        ekm = kq.EmpiricalKernelMap(kernels="gaussian", method="nystroem", concatenate=True)
        model = make_pipeline(ekm.set_params(random_state=0), last)
        assert cross_val_score(model, views, y).shape == (5,)
        grid = {"empiricalkernelmap__n_components": [3, 10]}
        assert GridSearchCV(model, grid, cv=3).fit(views, y).predict(views).shape == y.shape

    def test_it_can_follow_a_completer(self, views):
        y = np.arange(60) % 2
        steps = kq.ViewKernels(), kq.TransferFill(), kq.EmpiricalKernelMap(concatenate=True)
        assert make_pipeline(*steps, LogisticRegression()).fit(views, y).predict(views).size == 60

    def test_a_kernel_that_nobody_has(self, views):
        gone = views.observed & [True, False]
        X = kq.MultiView({name: views[name] for name in views.names}, gone)[gone[:, 0]]
        with pytest.warns(UserWarning, match="absent for all"):
            ekm = kq.EmpiricalKernelMap(kernels="linear", concatenate=True).fit(X)
        found = ekm.transform(views)
        assert np.isfinite(found).all()
        assert not found[:, -1].any()


@parametrize_with_checks(
    [
        kq.EmpiricalKernelMap(kernels="gaussian", concatenate=True),
        kq.EmpiricalKernelMap(kernels="gaussian", method="nystroem", concatenate=True),
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
