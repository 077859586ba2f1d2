"""More samples than are held at a time: the same numbers from sums over blocks."""

import pickle
import tracemalloc

import numpy as np
import pytest
from scipy.sparse import csr_array

import kernelquilt as kq
from kernelquilt.data import sampling

ESTIMATORS = [
    pytest.param(kq.QuiltClassifier, {"experts": None, "pattern": True}, id="QuiltClassifier"),
    pytest.param(kq.QuiltRegressor, {"experts": None}, id="QuiltRegressor"),
    pytest.param(kq.LateFusionClassifier, {}, id="LateFusionClassifier"),
    pytest.param(kq.LateFusionRegressor, {}, id="LateFusionRegressor"),
    pytest.param(kq.quilt.LpMKLRidgeClassifier, {"p": [1.0, 2.0]}, id="LpMKLRidgeClassifier"),
]
every_estimator = pytest.mark.parametrize(("estimator", "options"), ESTIMATORS)
N = 400


@pytest.fixture
def few_at_a_time(monkeypatch):
    monkeypatch.setattr("kernelquilt.data.sampling.MOST_SAMPLES", 150)
    monkeypatch.setattr("kernelquilt.core.blocks.BLOCK_ROWS", 64)


@pytest.fixture(scope="module")
def samples():
    X, y = kq.datasets.make_multiview(N + 50, 3, n_classes=3, random_state=0)
    return kq.datasets.make_absent(X, 0.4, random_state=0), y


def fitted(estimator, options, X, y, **more):
    return estimator(n_landmarks=25, random_state=0, **options, **more).fit(X, y)


def outputs(model, X):
    return model.predict_proba(X) if hasattr(model, "predict_proba") else model.predict(X)


@every_estimator
def test_sums_over_blocks_are_the_same_fit(estimator, options, samples, monkeypatch):
    X, y = samples
    weight = np.random.default_rng(0).integers(0, 3, N)
    whole = estimator(n_landmarks=25, random_state=0, **options)
    expected = outputs(whole.fit(X[:N], y[:N], sample_weight=weight), X[N:])
    take = sampling.take_sample

    def in_blocks(model, data, targets, passes):
        taken = take(model, data, targets, passes)
        everyone = sampling._in_blocks(data, targets, model.n_jobs, taken.passes)
        return taken._replace(everyone=everyone)

    for module in ("ridge_classifier", "ridge_regressor"):
        monkeypatch.setattr(f"kernelquilt.quilt.{module}.take_sample", in_blocks)
    for rows in (2048, 64, 7):
        monkeypatch.setattr("kernelquilt.core.blocks.BLOCK_ROWS", rows)
        model = estimator(n_landmarks=25, random_state=0, **options)
        found = outputs(model.fit(X[:N], y[:N], sample_weight=weight), X[N:])
        np.testing.assert_allclose(found, expected, atol=1e-9)


@every_estimator
@pytest.mark.usefixtures("few_at_a_time")
def test_threads_change_no_bit_and_accuracy_suffers_little(estimator, options, samples):
    X, y = samples
    one = fitted(estimator, options, X[:N], y[:N])
    two = fitted(estimator, options, X[:N], y[:N], n_jobs=2)
    np.testing.assert_array_equal(outputs(one, X), outputs(two, X))
    again = pickle.loads(pickle.dumps(one))
    np.testing.assert_array_equal(outputs(one, X), outputs(again, X))
    exact = estimator(n_landmarks=N, **options).fit(X[:150], y[:150])
    assert one.score(X[N:], y[N:]) > exact.score(X[N:], y[N:]) - 0.05


@every_estimator
def test_passes_are_counted_and_shown(estimator, options, samples, monkeypatch, capsys):
    X, y = samples
    held = fitted(estimator, options, X[:N], y[:N], verbose=1)
    assert held.n_passes_ == 0
    assert "pass 1" not in capsys.readouterr().out
    monkeypatch.setattr("kernelquilt.data.sampling.MOST_SAMPLES", 150)
    model = fitted(estimator, options, X[:N], y[:N])
    assert capsys.readouterr().out == ""
    assert fitted(estimator, options, X[:N], y[:N], verbose=1).n_passes_ == model.n_passes_ > 0
    printed = capsys.readouterr().out
    assert f"[{estimator.__name__}] 150 of {N} samples drawn and read: " in printed
    for number in range(1, model.n_passes_ + 1):
        assert f"[{estimator.__name__}] pass {number} (" in printed


@every_estimator
@pytest.mark.usefixtures("few_at_a_time")
def test_what_absent_views_hold_does_not_matter(estimator, options, samples):
    X, y = samples
    rng = np.random.default_rng(0)
    garbage = {
        name: np.where(X.present(name)[:, None], X[name], 1e6 * rng.random(X[name].shape))
        for name in X.names
    }
    dirty = kq.MultiView(garbage, X.observed)
    one, other = (outputs(fitted(estimator, options, data[:N], y[:N]), X) for data in (X, dirty))
    np.testing.assert_array_equal(one, other)


@every_estimator
@pytest.mark.usefixtures("few_at_a_time")
def test_sparse_views_and_kernels_as_views(estimator, options, samples):
    _, y = samples
    rng = np.random.default_rng(0)
    blocks = {
        name: np.where(rng.random((N, 4)) < 0.5, 0.0, rng.normal(size=(N, 4))) for name in "ab"
    }
    blocks["a"] += np.where(blocks["a"] == 0, 0.0, y[:N, None])
    observed = rng.random((N, 2)) < 0.7
    observed[:, 0] |= ~observed.any(axis=1)
    dense = kq.MultiView(blocks, observed)
    sparse = kq.MultiView({name: csr_array(block) for name, block in blocks.items()}, observed)
    one, other = (
        outputs(fitted(estimator, options, data, y[:N], kernels="linear"), data)
        for data in (dense, sparse)
    )
    np.testing.assert_allclose(one, other, atol=1e-8)
    stack = kq.ViewKernels("linear").fit_transform(dense)
    found = outputs(fitted(estimator, options, stack, y[:N]), stack)
    np.testing.assert_allclose(found, one, atol=1e-8)


@pytest.mark.usefixtures("few_at_a_time")
def test_memory_does_not_grow_with_the_samples(samples):
    peaks = []
    for n in (1000, 8000):
        X, y = kq.datasets.make_multiview(n, 3, random_state=0)
        tracemalloc.start()
        kq.QuiltClassifier(n_landmarks=30, experts=None, random_state=0).fit(X, y)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    # targets, weights and masks of 7000 further samples take 1 MB, their features would take 5
    assert peaks[1] - peaks[0] < 2.5e6


@pytest.mark.usefixtures("few_at_a_time")
def test_a_fitted_model_holds_landmarks_and_coefficients(samples):
    X, y = samples
    model = fitted(kq.QuiltClassifier, {"experts": None}, X[:N], y[:N])
    assert len(model.input_.views) <= 75
    assert len(model.used_samples_) == 150
    assert len(pickle.dumps(model)) < 3e5


def test_all_samples_as_landmarks_are_kept_once(samples):
    X, y = samples
    model = kq.QuiltClassifier(experts=None).fit(X[:200], y[:200])
    stored = pickle.dumps(model)
    assert len(stored) < 16 * 200 * (15 + 40)
    again = pickle.loads(stored)
    np.testing.assert_array_equal(again.predict_proba(X[N:]), model.predict_proba(X[N:]))
    np.testing.assert_array_equal(
        pickle.loads(pickle.dumps(again)).predict_proba(X[N:]), model.predict_proba(X[N:])
    )


@pytest.mark.usefixtures("few_at_a_time")
def test_the_forest_joins(samples, monkeypatch):
    X, y = samples
    monkeypatch.setattr("kernelquilt.quilt.experts.N_TREES", 10)
    model = kq.QuiltClassifier(n_landmarks=25, random_state=0).fit(X[:N], y[:N])
    assert model.experts_[0].out_of_sample.shape == (150, 3)
    assert model.score(X[N:], y[N:]) > 0.6


def test_some_samples_judge_what_all_have_taught(samples, monkeypatch):
    monkeypatch.setattr("kernelquilt.quilt.fitting.JUDGES", 120)
    monkeypatch.setattr("kernelquilt.core.blocks.BLOCK_ROWS", 64)
    monkeypatch.setattr("kernelquilt.quilt.experts.N_TREES", 10)
    X, y = samples
    one, two = (
        fitted(kq.QuiltClassifier, {"pattern": True}, X[:N], y[:N], n_jobs=n_jobs)
        for n_jobs in (None, 2)
    )
    np.testing.assert_array_equal(one.predict_proba(X), two.predict_proba(X))
    assert one.n_passes_ == 3
    assert len(one.used_samples_) == one.quilt_.late_loo.shape[1] == 120
    assert len(one.experts_[0].out_of_sample) == 120
    assert len(one.experts_[0].estimator.oob_decision_function_) == N
    # ridges are learned from all samples, whoever judges them
    Z, observed = one._fitted.views.of(X[:N])
    present, late = observed[:, 0], one.quilt_.late[0]
    gram = np.hstack([Z[0][present], np.ones((present.sum(), 1))])
    targets = np.where(y[:N][present, None] == one.classes_, 1.0, -0.5)
    scale = np.r_[np.full(gram.shape[1] - 1, 1 / np.sqrt(late.scale)), 1.0]
    coef = (
        scale
        * np.linalg.solve(
            (gram * scale).T @ (gram * scale) + late.lam * np.eye(len(scale)),
            (gram * scale).T @ targets,
        ).T
    )
    np.testing.assert_allclose(late.coef.T, coef[:, :-1], atol=1e-8)
    whole = fitted(kq.QuiltClassifier, {"pattern": True}, X[:N], y[:N])
    monkeypatch.setattr("kernelquilt.quilt.fitting.JUDGES", N)
    held = fitted(kq.QuiltClassifier, {"pattern": True}, X[:N], y[:N])
    assert held.n_passes_ == 0
    assert whole.score(X[N:], y[N:]) > held.score(X[N:], y[N:]) - 0.05


def test_all_samples_as_landmarks_judge_all(samples, monkeypatch):
    X, y = samples
    options = {"experts": None, "n_landmarks": N}
    expected = kq.QuiltClassifier(**options).fit(X[:N], y[:N]).predict_proba(X[N:])
    monkeypatch.setattr("kernelquilt.quilt.fitting.JUDGES", 120)
    found = kq.QuiltClassifier(**options).fit(X[:N], y[:N]).predict_proba(X[N:])
    np.testing.assert_array_equal(found, expected)


def test_ridges_are_searched_where_landmarks_are_many(samples, monkeypatch):
    X, y = samples
    options = {"experts": None, "n_landmarks": N}
    expected = kq.QuiltClassifier(**options).fit(X[:N], y[:N]).predict_proba(X[N:])
    for module in ("space.ridge", "space.regressions"):
        monkeypatch.setattr(f"kernelquilt.quilt.{module}.MANY", 100)
    found = kq.QuiltClassifier(**options).fit(X[:N], y[:N]).predict_proba(X[N:])
    np.testing.assert_allclose(found, expected, atol=1e-9)


@every_estimator
def test_views_share_landmarks_whatever_their_order(estimator, options, samples):
    X, y = samples
    model = fitted(estimator, options, X[:N], y[:N])
    assert len(model.input_.views) < 2 * 25  # of three views with 25 landmarks each
    turned = fitted(estimator, options, X[:N].select(X.names[::-1]), y[:N])
    np.testing.assert_allclose(outputs(turned, X[N:]), outputs(model, X[N:]), atol=1e-8)
