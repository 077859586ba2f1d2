"""Localized MKL: gates, their gradient, the descent, and what the classifier makes of them."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from sklearn.base import clone
from sklearn.decomposition import KernelPCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC

import kernelquilt as kq
from kernelquilt.mkl.per_sample.gate_inputs import KernelFeatures, ViewFeatures
from kernelquilt.mkl.per_sample.gating import GATINGS, GatedSVM
from problems import conic_svm, random_kernels

every_gating = pytest.mark.parametrize("gating", ["softmax", "sigmoid"])


def problem(seed, n=24, M=3, d=2, absent=0.3):
    """Return kernels, their factors, labels, features and a mask that leaves no sample empty."""
    rng = np.random.default_rng(seed)
    K, factors = random_kernels(rng, n, M)
    observed = rng.random((n, M)) >= absent
    observed[np.arange(n), rng.integers(0, M, n)] = True
    K = K * observed.T[:, :, None] * observed.T[:, None, :]
    factors = [F * observed[:, [m]] for m, F in enumerate(factors)]
    y = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    return K, factors, y, rng.standard_normal((n, d)), observed


def regions(n, seed):
    """Return views of which `where` says whether `a` or `b` tells the class."""
    rng = np.random.default_rng(seed)
    where, a, b = (rng.standard_normal((n, d)) for d in (1, 3, 3))
    y = (np.where(where[:, 0] > 0, a[:, 0], b[:, 0]) > 0).astype(int)
    return kq.MultiView({"where": where, "a": a, "b": b}), y


@pytest.fixture(scope="module")
def samples():
    X, y = regions(90, 0)
    return kq.datasets.make_absent(X, 0.25, random_state=0), y


@every_gating
@pytest.mark.parametrize("absent", [0.0, 0.4])
@pytest.mark.parametrize("seed", range(3))
def test_gradient_equals_finite_differences(gating, absent, seed):
    K, _, y, features, observed = problem(seed, absent=absent)
    C = np.random.default_rng(seed).uniform(0.5, 5.0, len(y))
    svm = GatedSVM(K, y, C, features, observed, GATINGS[gating], 1e-10)
    point = np.random.default_rng(seed).standard_normal((3, 3))

    def value(flat):
        return svm.solve(flat.reshape(3, 3), None).svm.dual

    flat, h = point.ravel(), 1e-5
    expected = [(value(flat + step) - value(flat - step)) / (2 * h) for step in h * np.eye(9)]
    gradient = svm.gradient(svm.solve(point, None))
    np.testing.assert_allclose(gradient.ravel(), expected, atol=1e-7 * np.abs(expected).max())
    assert np.abs(gradient).max() > 1e-2


@every_gating
def test_derivative_of_the_gates(gating):
    rng = np.random.default_rng(0)
    scores, slopes = rng.standard_normal((2, 5, 4))
    present = rng.random((5, 4)) < 0.6
    present[0] = False

    def total(flat):
        return np.sum(slopes * GATINGS[gating].gates(flat.reshape(5, 4), present))

    gates = GATINGS[gating].gates(scores, present)
    expected = approx_fprime(scores.ravel(), total, 1e-7).reshape(5, 4)
    np.testing.assert_allclose(GATINGS[gating].chain(gates, slopes), expected, atol=1e-6)


@every_gating
def test_gates_are_safe_at_extreme_scores(gating):
    scores = np.array([[1e4, -1e4, 0.0], [-1e4, -2e4, 1e4], [0.0, 0.0, 0.0]])
    present = np.array([[True, True, True], [True, True, False], [False, False, False]])
    with np.errstate(all="raise", under="ignore"):
        gates = GATINGS[gating].gates(scores, present)
    assert np.isfinite(gates).all()
    assert (gates[~present] == 0).all()
    if gating == "softmax":
        np.testing.assert_array_equal(gates, [[1, 0, 0], [1, 0, 0], [0, 0, 0]])


@every_gating
@pytest.mark.parametrize("seed", range(4))
def test_svm_at_the_gates_equals_conic_solver(gating, seed):
    K, factors, y, features, observed = problem(seed)
    C = 10.0 ** np.random.default_rng(seed).uniform(-1, 2)
    solution = kq.mkl.solve_localized_mkl(
        K, y, features, C=C, observed=observed, gating=gating, tol=1e-8, max_iter=2
    )
    joint = np.hstack([solution.gates[:, [m]] * F for m, F in enumerate(factors)])
    expected = conic_svm(joint, y, np.ones(len(y)), np.full(len(y), C))
    assert solution.objective == pytest.approx(expected, rel=1e-6)
    assert 0.0 <= solution.duality_gap <= 1e-6 * solution.objective
    scores = joint @ joint.T @ solution.dual_coef + solution.intercept
    regularizer = 0.5 * solution.dual_coef @ (scores - solution.intercept)
    primal = regularizer + C * np.maximum(0.0, 1.0 - y * scores).sum()
    assert solution.objective == pytest.approx(primal, rel=1e-9)


@every_gating
@pytest.mark.parametrize("seed", range(3))
def test_objective_never_rises_and_ends_in_a_local_minimum(gating, seed):
    K, _, y, features, observed = problem(seed, M=2, d=1)
    K = K + 0.1 * np.eye(len(y)) * observed.T[:, :, None] * observed.T[:, None, :]
    solution = kq.mkl.solve_localized_mkl(
        K, y, features, observed=observed, gating=gating, tol=1e-8, outer_tol=1e-7
    )
    values = [step.objective for step in solution.history]
    assert (np.diff(values) <= 0).all()
    assert values[-1] == solution.objective < values[0]
    assert solution.history[-1].n_solves == solution.n_solves >= len(values)
    assert solution.converged

    def value_by_svc(flat):
        scores = features @ flat[:2].reshape(1, 2) + flat[2:]
        gates = GATINGS[gating].gates(scores, observed)
        combined = np.einsum("im,mij,jm->ij", gates, K, gates)
        svc = SVC(C=1.0, kernel="precomputed", tol=1e-8).fit(combined, y)
        duals = svc.dual_coef_[0]
        return (
            np.abs(duals).sum() - 0.5 * duals @ combined[np.ix_(svc.support_, svc.support_)] @ duals
        )

    found = solution.gate_weights.T.ravel()
    assert value_by_svc(found) == pytest.approx(solution.objective, rel=1e-6)
    for step in np.random.default_rng(seed).standard_normal((40, 4)):
        assert value_by_svc(found + 0.1 * step) >= solution.objective * (1 - 1e-5)


def test_a_solution_is_a_start_even_with_kernels_that_stay_closed():
    K, _, y, features, observed = problem(0)
    observed = observed & [True, True, False]
    K[2] = 0.0
    one = kq.mkl.solve_localized_mkl(K, y, features, observed=observed, outer_tol=1e-3)
    assert (one.gate_weights[2, -1], one.weights[2]) == (-np.inf, 0.0)
    other = kq.mkl.solve_localized_mkl(
        K, y, features, observed=observed, gate_weights=one.gate_weights
    )
    assert other.history[0].objective == pytest.approx(one.objective, rel=1e-9)
    assert other.objective <= one.objective
    assert np.isfinite(other.gate_weights[:2]).all()


def test_one_kernel_is_the_plain_svm():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 4))
    y = (X[:, 0] + X[:, 1] ** 2 > 0.5).astype(int)
    ours = kq.mkl.LocalizedMKLClassifier(3.0, n_restarts=2, random_state=0).fit(X, y)
    plain = kq.mkl.UniformMKLClassifier(3.0).fit(X, y)
    assert ours.objective_ == pytest.approx(plain.objective_, rel=1e-9)
    np.testing.assert_allclose(ours.decision_function(X), plain.decision_function(X), atol=1e-9)
    assert (ours.gates(X) == 1.0).all()
    assert ours.n_solves_ == 3


@every_gating
def test_gates_without_inputs_that_vary_are_the_same_for_all(gating):
    X, y = regions(60, 1)
    constant = kq.MultiView({"where": np.ones((60, 2)), "a": X["a"], "b": X["b"]})
    model = kq.mkl.LocalizedMKLClassifier(gating=gating, gating_view="where").fit(constant, y)
    assert np.ptp(model.gates(constant), axis=0).max() == 0.0
    assert (model.gate_weights_[:, :-1] == 0).all()
    moved = kq.MultiView({"where": np.full((60, 2), 5.0), "a": X["a"], "b": X["b"]})
    np.testing.assert_array_equal(model.gates(moved), model.gates(constant))


@every_gating
@pytest.mark.parametrize("gating_view", [None, "where"])
def test_beats_global_weights_where_the_useful_view_depends_on_the_region(gating, gating_view):
    X, y = regions(250, 0)
    new, labels = regions(1000, 1)
    model = kq.mkl.LocalizedMKLClassifier(kernels="linear", gating=gating, gating_view=gating_view)
    score = model.fit(X, y).score(new, labels)
    for rival in (kq.SimpleMKLClassifier, kq.mkl.UniformMKLClassifier):
        best = max(rival(C, kernels="linear").fit(X, y).score(new, labels) for C in (0.1, 1, 10))
        assert score > best + 0.15
    assert score > 0.92
    of = model.kernel_names_
    opened = model.gates(new)[:, of.index("a")] > model.gates(new)[:, of.index("b")]
    assert (opened == (new["where"][:, 0] > 0)).mean() > 0.9


def test_a_gating_view_is_no_kernel_unless_given_twice():
    X, y = regions(60, 2)
    model = kq.mkl.LocalizedMKLClassifier(gating_view="where").fit(X, y)
    assert model.kernel_names_ == ("a", "b")
    assert model.gate_weights_.shape == (2, 2)
    twice = kq.MultiView({"position": X["where"], "where": X["where"], "a": X["a"]})
    names = kq.mkl.LocalizedMKLClassifier(gating_view="where").fit(twice, y).kernel_names_
    assert names == ("position", "a")
    columns = np.hstack([X[name] for name in X.names])
    views = {"where": [0], "a": [1, 2, 3], "b": [4, 5, 6]}
    same = kq.mkl.LocalizedMKLClassifier(gating_view="where", views=views).fit(columns, y)
    np.testing.assert_allclose(
        same.decision_function(columns), model.decision_function(X), atol=1e-7
    )


@every_gating
def test_absent_kernels_are_closed(gating, samples):
    X, y = samples
    for data in (X, kq.ViewKernels().fit_transform(X)):
        model = kq.mkl.LocalizedMKLClassifier(gating=gating).fit(data, y)
        gates = model.gates(data)
        assert (gates[~data.observed] == 0).all()
        assert (gates[data.observed] > 0).all()
        np.testing.assert_allclose(gates, model.training_gates_, atol=1e-9)
        if gating == "softmax":
            np.testing.assert_allclose(gates.sum(axis=1), data.observed.any(axis=1))
        np.testing.assert_allclose(model.weights_, gates[data.observed.any(axis=1)].mean(axis=0))


def test_an_absent_gating_view_counts_as_the_mean(samples):
    X, y = samples
    model = kq.mkl.LocalizedMKLClassifier(gating_view="where").fit(X, y)
    present = X.observed[:, 0]
    mean = X["where"][present].mean(axis=0)
    filled = kq.MultiView(
        {"where": np.where(present[:, None], X["where"], mean), "a": X["a"], "b": X["b"]}
    )
    np.testing.assert_allclose(model.gates(filled), model.gates(X), atol=1e-12)
    garbage = np.where(present[:, None], X["where"], 1e9)
    dirty = kq.MultiView({"where": garbage, "a": X["a"], "b": X["b"]}, X.observed)
    again = kq.mkl.LocalizedMKLClassifier(gating_view="where").fit(dirty, y)
    np.testing.assert_array_equal(again.gate_weights_, model.gate_weights_)
    np.testing.assert_array_equal(again.decision_function(dirty), model.decision_function(X))


def test_view_features_are_standardised_over_the_samples_that_have_the_view(samples):
    X, _ = samples
    weight = np.random.default_rng(0).uniform(0.0, 2.0, len(X))
    features = ViewFeatures.fit(X, weight).of_samples(X)
    assert features.shape == (90, 7)
    for columns, present in zip(([0], [1, 2, 3], [4, 5, 6]), X.observed.T, strict=True):
        assert (features[np.ix_(~present, columns)] == 0).all()
        block, share = features[np.ix_(present, columns)], weight[present] / weight[present].sum()
        np.testing.assert_allclose(share @ block, 0.0, atol=1e-12)
        np.testing.assert_allclose(share @ block**2, 1.0)


def test_kernel_features_are_those_of_kernel_pca():
    X, _ = regions(80, 3)
    stack = kq.ViewKernels().fit_transform(X)
    K = stack.gram()
    train = stack[:60]
    embedding = KernelFeatures.fit(K[:, :60, :60], train.observed, np.ones(60), 4)
    pca = KernelPCA(4, kernel="precomputed").fit(K[:, :60, :60].mean(axis=0))
    scale = np.sqrt(60 / pca.eigenvalues_)
    for rows in (slice(0, 60), slice(60, 80)):
        ours = embedding.of_samples(stack[rows], embedding.projections(K[:, rows, :60]))
        theirs = pca.transform(K[:, rows, :60].mean(axis=0)) * scale
        np.testing.assert_allclose(ours * np.sign(ours[0] * theirs[0]), theirs, atol=1e-8)


@every_gating
def test_scores_are_gated_sums_over_kernels(gating):
    X, y = regions(80, 4)
    X = kq.datasets.make_absent(X, 0.2, random_state=1)
    stack = kq.ViewKernels().fit_transform(X)
    model = kq.mkl.LocalizedMKLClassifier(5.0, gating=gating).fit(stack[:50], y[:50])
    K = stack.gram()
    coef = model.dual_coef_[0][:, None] * model.training_gates_
    for rows in (slice(0, 50), slice(50, 80)):
        parts = np.einsum("mij,jm->im", K[:, rows, :50], coef)
        expected = np.sum(model.gates(stack[rows]) * parts, axis=1) + model.intercept_
        np.testing.assert_allclose(model.decision_function(stack[rows]), expected, atol=1e-10)
    rectangular = kq.KernelStack(K[:, 50:, :50], stack.observed[50:], stack.names)
    np.testing.assert_allclose(
        model.decision_function(rectangular), model.decision_function(stack[50:]), atol=1e-12
    )


@pytest.mark.parametrize("gating_view", [None, "where"])
def test_prediction_on_training_rows_reproduces_the_training_scores(gating_view, samples):
    X, y = samples
    model = kq.mkl.LocalizedMKLClassifier(2.0, gating_view=gating_view, tol=1e-8).fit(X, y)
    scores = model.decision_function(X)
    hinge = np.maximum(0.0, 1.0 - np.where(y == 1, 1, -1) * scores)[model.gates(X).any(axis=1)]
    primal = 0.5 * model.dual_coef_[0] @ (scores - model.intercept_) + 2.0 * hinge.sum()
    assert model.objective_ == pytest.approx(primal, rel=1e-9)


# far down the descent the rounding of either order has grown: a few iterations show equivariance
FEW_ITERATIONS = 8
stopped_early = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@stopped_early
@pytest.mark.parametrize("kind", ["views", "stack"])
def test_permuting_samples_permutes_scores_with_restarts(kind, samples):
    X, y = samples
    order = np.random.default_rng(5).permutation(len(y))
    data = X if kind == "views" else kq.ViewKernels().fit_transform(X)
    model = kq.mkl.LocalizedMKLClassifier(max_iter=FEW_ITERATIONS, n_restarts=2, random_state=3)
    one, other = (clone(model).fit(data[rows], y[rows]) for rows in (np.arange(len(y)), order))
    np.testing.assert_allclose(other.objective_, one.objective_, rtol=1e-8)
    np.testing.assert_allclose(
        other.decision_function(data), one.decision_function(data), atol=1e-6
    )
    np.testing.assert_allclose(other.gates(data), one.gates(data), atol=1e-6)


@stopped_early
def test_sample_weights_equal_repetition_with_kernels_only(samples):
    X, y = samples
    stack = kq.ViewKernels().fit_transform(X)
    counts = np.random.default_rng(6).integers(0, 3, len(y))
    rows = np.repeat(np.arange(len(y)), counts)
    model = kq.mkl.LocalizedMKLClassifier(max_iter=FEW_ITERATIONS, n_restarts=2, random_state=3)
    weighted = clone(model).fit(stack, y, sample_weight=counts)
    repeated = clone(model).fit(stack[rows], y[rows])
    np.testing.assert_allclose(
        weighted.decision_function(stack), repeated.decision_function(stack), atol=1e-6
    )
    np.testing.assert_allclose(weighted.weights_, repeated.weights_, atol=1e-6)


def test_multi_class_problems_have_gates_of_their_own():
    X, y = kq.datasets.make_multiview(90, 3, n_classes=3, random_state=0)
    model = kq.mkl.LocalizedMKLClassifier().fit(X, y)
    assert model.gates(X).shape == (3, 90, 3)
    assert model.gate_weights_.shape == (3, 3, 16)
    assert model.score(X, y) > 0.9
    for label in range(3):
        alone = kq.mkl.LocalizedMKLClassifier().fit(X, y == label)
        np.testing.assert_array_equal(model.gate_weights_[label], alone.gate_weights_)
        np.testing.assert_array_equal(model.gates(X)[label], alone.gates(X))
        np.testing.assert_allclose(
            model.decision_function(X)[:, label], alone.decision_function(X), atol=1e-12
        )


def test_restarts_keep_the_best_and_do_not_depend_on_n_jobs():
    X, y = kq.datasets.make_multiview(75, 3, n_classes=3, random_state=1)
    single = kq.mkl.LocalizedMKLClassifier().fit(X, y)
    source = np.random.RandomState(0)
    models = [
        kq.mkl.LocalizedMKLClassifier(n_restarts=2, random_state=source, n_jobs=n_jobs).fit(X, y)
        for n_jobs in (1, 2, 3)
    ]
    assert (models[0].objective_ <= single.objective_).all()
    assert models[0].n_solves_ > 2 * single.n_solves_
    for other in models[1:]:
        np.testing.assert_array_equal(other.gate_weights_, models[0].gate_weights_)
        np.testing.assert_array_equal(other.decision_function(X), models[0].decision_function(X))
    fresh = kq.mkl.LocalizedMKLClassifier(n_restarts=2, random_state=0).fit(X, y)
    np.testing.assert_array_equal(fresh.gate_weights_, models[0].gate_weights_)


def test_float32_kernels_give_the_same_gates():
    X, y = regions(100, 7)
    double = kq.ViewKernels().fit_transform(X)
    single = kq.ViewKernels(dtype=np.float32).fit_transform(X)
    one, other = (kq.mkl.LocalizedMKLClassifier().fit(stack, y) for stack in (double, single))
    assert other.dual_coef_.dtype == np.float64
    assert other.objective_ == pytest.approx(one.objective_, rel=1e-3)
    assert (one.predict(double) == other.predict(single)).mean() > 0.97


def test_a_path_gives_exactly_the_independent_fits(samples):
    X, y = samples
    for model in kq.mkl_path(kq.mkl.LocalizedMKLClassifier(), X, y, Cs=[0.1, 10.0]):
        alone = kq.mkl.LocalizedMKLClassifier(model.C).fit(X, y)
        np.testing.assert_array_equal(model.gate_weights_, alone.gate_weights_)
        np.testing.assert_array_equal(model.decision_function(X), alone.decision_function(X))
    search = kq.MKLSearchCV(
        kq.mkl.LocalizedMKLClassifier(), {"gating": ["softmax", "sigmoid"]}, cv=3
    )
    assert search.fit(X, y).best_params_["gating"] in ("softmax", "sigmoid")
    with pytest.raises(ValueError, match="the grid has 'gating_view'"):
        kq.MKLSearchCV(kq.mkl.LocalizedMKLClassifier(), {"gating_view": ["a"]}).fit(X, y)


def test_early_stop_names_the_outer_tolerance(samples):
    X, y = samples
    with pytest.warns(
        ConvergenceWarning,
        match=r"relative decrease.*above outer_tol=0.0001.*max_iter or outer_tol",
    ):
        model = kq.mkl.LocalizedMKLClassifier(max_iter=2).fit(X, y)
    assert not model.converged_
    assert len(model.history_[0]) == model.n_iter_ == 3


def test_bad_gating_is_named_and_leaves_the_model_alone(samples):
    X, y = samples
    model = kq.mkl.LocalizedMKLClassifier().fit(X, y)
    stack = kq.ViewKernels().fit_transform(X)
    cases = [
        ({"gating_view": "wher"}, X, r"gating_view='wher'.*3 views 'where', 'a', 'b'"),
        ({"gating_view": "where"}, stack, r"gating_view='where'.*X holds 3 kernels"),
        ({"gating_view": "a"}, X.select(["a"]), r"gating_view='a' is the only view"),
        ({"gating": "linear"}, X, "'gating' parameter"),
        ({"n_restarts": -1}, X, "'n_restarts' parameter"),
        ({"n_components": 0}, X, "'n_components' parameter"),
        ({"outer_tol": 0.0}, X, "'outer_tol' parameter"),
    ]
    for parameters, data, message in cases:
        other = kq.mkl.LocalizedMKLClassifier(**parameters)
        vars(other).update({name: value for name, value in vars(model).items() if name[-1] == "_"})
        before = dict(vars(other))
        with pytest.raises(ValueError, match=message):
            other.fit(data, y)
        assert vars(other) == before
    with pytest.raises(ValueError, match=r"features must have shape \(90, d\)"):
        kq.mkl.solve_localized_mkl(stack.gram(), np.where(y == 1, 1.0, -1.0), np.zeros((80, 2)))
    with pytest.raises(ValueError, match="gating must be one of"):
        kq.mkl.solve_localized_mkl(
            stack.gram(), np.where(y == 1, 1.0, -1.0), np.zeros((90, 2)), gating="hard"
        )
