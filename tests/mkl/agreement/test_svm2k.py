"""SVM-2K and the multi-view SVM: the optimum, its certificate, absent views and the classifiers."""

import warnings

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.svm import SVC

import kernelquilt as kq
from kernelquilt.mkl.agreement.disagreement import Band, Squares
from kernelquilt.mkl.agreement.interior_point import _certified, agree
from problems import random_kernels

TIGHT = {"tol_gap_abs": 1e-10, "tol_gap_rel": 1e-10, "tol_feas": 1e-10}


def views_problem(seed, n_views, n=None, absent=0.3, rank=None):
    """Return kernels with absent samples, factors, mask (n, M) and labels."""
    rng = np.random.default_rng(seed)
    n = n or int(rng.integers(12, 32))
    y = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    y[:4] = 1.0, -1.0, 1.0, -1.0
    observed = rng.random((n, n_views)) >= absent
    observed[np.arange(n), rng.integers(0, n_views, n)] = True
    observed[:4] = True
    _, factors = random_kernels(rng, n, n_views, rank or int(rng.integers(2, n)))
    factors = [(F + 0.3 * y[:, None]) * observed[:, [l]] for l, F in enumerate(factors)]
    return np.array([F @ F.T for F in factors]), factors, observed, y


def primal(factors, observed, y, hinge, ridge, disagreement):
    """Return the optimum by a conic solver, and the biases; `disagreement` is of outputs."""
    import cvxpy as cp

    w = [cp.Variable(F.shape[1]) for F in factors]
    b = [cp.Variable() for _ in factors]
    f = [F @ v + s for F, v, s in zip(factors, w, b, strict=True)]
    value = disagreement(cp, f)
    for l, output in enumerate(f):
        have = np.flatnonzero(observed[:, l])
        value += hinge[l][have] @ cp.pos(1 - cp.multiply(y[have], output[have]))
        value += ridge[l] * cp.sum_squares(w[l])
    return cp.Problem(cp.Minimize(value)).solve(solver=cp.CLARABEL, **TIGHT)


def primal_svm2k(factors, observed, y, C_a, C_b, D, eps):
    both = np.flatnonzero(observed.all(axis=1))

    def disagreement(cp, f):
        return D[both] @ cp.pos(cp.abs(f[0] - f[1])[both] - eps)

    return primal(factors, observed, y, (C_a, C_b), (0.5, 0.5), disagreement)


def primal_multiview(factors, observed, y, C, c, lam):
    count = observed.sum(axis=1)

    def disagreement(cp, f):
        mean = sum(cp.multiply(observed[:, l] / count, f[l]) for l in range(len(f)))
        return sum(
            cp.sum(cp.multiply(lam * observed[:, l], cp.square(f[l] - mean))) for l in range(len(f))
        )

    return primal(factors, observed, y, [C] * len(factors), c, disagreement)


@pytest.mark.parametrize("seed", range(12))
def test_svm2k_equals_conic_solver(seed):
    K, factors, observed, y = views_problem(seed, 2)
    rng = np.random.default_rng(1000 + seed)
    n = len(y)
    C_a, C_b, D = (10.0 ** rng.uniform(-2, 2) * rng.uniform(0.5, 2, n) for _ in range(3))
    eps = float(rng.choice([0.0, 0.05, 0.5]))
    solution = kq.mkl.solve_svm2k(K, y, observed=observed, C_a=C_a, C_b=C_b, D=D, eps=eps)
    expected = primal_svm2k(factors, observed, y, C_a, C_b, D, eps)
    assert solution.objective == pytest.approx(expected, rel=1e-6)
    assert solution.dual_bound == pytest.approx(expected, rel=1e-6)
    assert solution.relative_gap < 1e-6


@pytest.mark.parametrize("seed", range(12))
def test_multiview_svm_equals_conic_solver(seed):
    n_views = 2 + seed % 3
    K, factors, observed, y = views_problem(seed, n_views)
    rng = np.random.default_rng(2000 + seed)
    C, lam = (10.0 ** rng.uniform(-2, 2) * rng.uniform(0.5, 2, len(y)) for _ in range(2))
    c = 10.0 ** rng.uniform(-2, 1, n_views)
    solution = kq.mkl.solve_multiview_svm(K, y, observed=observed, c=c, lam=lam, C=C)
    expected = primal_multiview(factors, observed, y, C, c, lam)
    assert solution.objective == pytest.approx(expected, rel=1e-6)
    assert solution.dual_bound == pytest.approx(expected, rel=1e-6)
    assert solution.relative_gap < 1e-8


def test_objectives_are_those_of_the_functions():
    K, _, observed, y = views_problem(3, 2)
    absent = ~observed.T
    solution = kq.mkl.solve_svm2k(K, y, observed=observed, C_a=2.0, C_b=0.5, D=3.0, eps=0.1)
    f = np.einsum("lij,lj->li", K, solution.dual_coef) + solution.view_intercepts[:, None]
    norms = np.einsum("li,lij,lj->l", solution.dual_coef, K, solution.dual_coef)
    hinge = np.where(absent, 0.0, np.maximum(0, 1 - y * f)).sum(axis=1)
    apart = np.maximum(0, np.abs(f[0] - f[1]) - 0.1)[observed.all(axis=1)].sum()
    value = 0.5 * norms.sum() + 2.0 * hinge[0] + 0.5 * hinge[1] + 3.0 * apart
    assert solution.objective == pytest.approx(value, rel=1e-10)
    np.testing.assert_allclose(solution.dual_coef.sum(axis=1), 0.0, atol=1e-10)
    assert (solution.dual_coef[absent] == 0).all()

    c = np.array([0.3, 2.0])
    solution = kq.mkl.solve_multiview_svm(K, y, observed=observed, c=c, lam=0.7)
    f = np.einsum("lij,lj->li", K, solution.dual_coef) + solution.view_intercepts[:, None]
    norms = np.einsum("li,lij,lj->l", solution.dual_coef, K, solution.dual_coef)
    hinge = np.where(absent, 0.0, np.maximum(0, 1 - y * f)).sum()
    masked = np.where(absent, np.nan, f)
    value = hinge + c @ norms + 0.7 * np.nansum((masked - np.nanmean(masked, axis=0)) ** 2)
    assert solution.objective == pytest.approx(value, rel=1e-10)


@given(seed=st.integers(0, 10_000), log_C=st.floats(-4, 4), log_lam=st.floats(-4, 4))
@example(seed=4993, log_C=-3.03125, log_lam=2.623046875)  # duals that are anywhere up to rounding
@example(seed=3770, log_C=-0.27861306831446875, log_lam=3.6462667585059316)
@settings(max_examples=40, deadline=None)
def test_certified_whatever_the_penalties(seed, log_C, log_lam):
    rng = np.random.default_rng(seed)
    K, _, observed, y = views_problem(seed, 2, absent=rng.uniform(0, 0.6))
    C, lam = 10.0**log_C, 10.0**log_lam
    eps = float(rng.choice([0.0, 0.1]))
    for solution in (
        kq.mkl.solve_svm2k(K, y, observed=observed, C_a=C, C_b=C, D=lam, eps=eps),
        kq.mkl.solve_multiview_svm(K, y, observed=observed, C=C, lam=lam),
    ):
        assert -1e-12 * solution.objective <= solution.duality_gap
        # what rounding leaves of a difference costs D however small the rest of the objective
        assert solution.relative_gap < 1e-6 * max(1.0, 1e-2 * lam / C)


def test_no_penalty_on_disagreement_leaves_separate_svms():
    K, _, observed, y = views_problem(5, 3)
    apart = kq.mkl.solve_multiview_svm(K, y, observed=observed, c=0.25, lam=0.0)
    nearly = kq.mkl.solve_multiview_svm(K, y, observed=observed, c=0.25, lam=1e-9)
    assert nearly.objective == pytest.approx(apart.objective, rel=1e-7)
    for l in range(3):
        have = observed[:, l]
        svc = SVC(C=2.0, kernel="precomputed", tol=1e-8).fit(K[l][np.ix_(have, have)], y[have])
        f = K[l] @ apart.dual_coef[l] + apart.view_intercepts[l]
        expected = svc.decision_function(K[l][:, have])
        np.testing.assert_allclose(f[have], expected[have], atol=1e-6)
    two = kq.mkl.solve_svm2k(K[:2], y, observed=observed[:, :2], C_a=2.0, C_b=2.0, D=0.0)
    np.testing.assert_allclose(two.dual_coef, apart.dual_coef[:2], atol=1e-8)


def test_large_penalties_on_disagreement_drive_the_views_together():
    K, _, _, y = views_problem(6, 3, absent=0.0)
    distances = []
    for lam in (0.1, 10.0, 1e3, 1e6):
        solution = kq.mkl.solve_multiview_svm(K, y, lam=lam)
        f = np.einsum("lij,lj->li", K, solution.dual_coef) + solution.view_intercepts[:, None]
        distances.append(np.ptp(f, axis=0).max())
    assert distances == sorted(distances, reverse=True)
    assert distances[-1] < 1e-4
    solution = kq.mkl.solve_svm2k(K[:2], y, D=1e3, eps=0.0)
    f = np.einsum("lij,lj->li", K[:2], solution.dual_coef) + solution.view_intercepts[:, None]
    assert np.ptp(f, axis=0).max() < 1e-8


def test_a_wide_band_is_no_band():
    K, _, observed, y = views_problem(7, 2)
    wide = kq.mkl.solve_svm2k(K, y, observed=observed, D=10.0, eps=1e3)
    none = kq.mkl.solve_svm2k(K, y, observed=observed, D=0.0)
    assert wide.objective == pytest.approx(none.objective, rel=1e-9)


def test_two_equal_views_are_one():
    K, _, _, y = views_problem(8, 1, absent=0.0)
    twice = np.concatenate([K, K])
    one = kq.mkl.solve_multiview_svm(K, y, c=0.2)
    for solution in (
        kq.mkl.solve_multiview_svm(twice, y, c=0.2, lam=5.0),
        kq.mkl.solve_svm2k(twice, y, C_a=2.5, C_b=2.5, D=5.0, eps=0.01),
    ):
        for l in range(2):
            np.testing.assert_allclose(
                K[0] @ solution.dual_coef[l] + solution.view_intercepts[l],
                K[0] @ one.dual_coef[0] + one.view_intercepts[0],
                atol=1e-6,
            )


def test_views_that_share_no_sample_do_not_know_of_each_other():
    K, _, _, y = views_problem(9, 4, n=40, absent=0.0)
    observed = np.zeros((40, 4), dtype=bool)
    observed[:20, :2] = observed[20:, 2:] = True
    K = K * observed.T[:, :, None] * observed.T[:, None, :]
    together = kq.mkl.solve_multiview_svm(K, y, observed=observed)
    halves = [
        kq.mkl.solve_multiview_svm(K[:2, :20, :20], y[:20]),
        kq.mkl.solve_multiview_svm(K[2:, 20:, 20:], y[20:]),
    ]
    assert together.objective == pytest.approx(sum(half.objective for half in halves), rel=1e-9)
    np.testing.assert_allclose(together.dual_coef[:2, :20], halves[0].dual_coef, atol=1e-7)
    assert (together.dual_coef[:2, 20:] == 0).all()


@pytest.mark.parametrize("lam", [0.0, 1.0])
def test_views_of_samples_of_one_class_are_constant(lam):
    K, _, _, _ = views_problem(10, 4, n=40, absent=0.0)
    y = np.r_[np.tile([1.0, -1.0], 10), -np.ones(20)]
    observed = np.zeros((40, 4), dtype=bool)
    observed[:20, :2] = observed[20:, 2:] = True
    K = K * observed.T[:, :, None] * observed.T[:, None, :]
    solution = kq.mkl.solve_multiview_svm(K, y, observed=observed, lam=lam)
    assert (solution.dual_coef[2:] == 0).all()
    np.testing.assert_allclose(solution.view_intercepts[2:], -1.0)
    half = kq.mkl.solve_multiview_svm(K[:2, :20, :20], y[:20], lam=lam)
    assert solution.objective == pytest.approx(half.objective, rel=1e-9)


def test_single_precision_and_low_rank_kernels_converge():
    for dtype, rank in ((np.float32, None), (np.float64, 1), (np.float64, 2)):
        K, _, observed, y = views_problem(11, 2, n=60, rank=rank)
        for C in (0.1, 1e3):
            one = kq.mkl.solve_svm2k(K.astype(dtype), y, observed=observed, C_a=C, C_b=C, D=C)
            two = kq.mkl.solve_multiview_svm(K.astype(dtype), y, observed=observed, c=1 / C)
            assert one.converged
            assert two.converged


@pytest.mark.parametrize("kind", ["band", "distance", "squares"])
def test_gaps_of_disagreement_are_fenchel_gaps(kind):
    """``value(f) + conjugate(v) - <f, v>`` by maximising over f on a fine grid."""
    rng = np.random.default_rng(2)
    used = np.ones((2, 1), dtype=bool)
    cost, duals = {
        "band": (Band(used, np.array([2.0]), 0.3), [0.7, 0.0]),
        "distance": (Band(used, np.array([2.0]), 0.0), [-1.3]),
        "squares": (Squares(used, np.array([2.0])), [0.7, -0.7]),
    }[kind]
    v = cost.coefficients(np.array(duals))
    grid = np.arange(-400, 401, 10) / 100.0
    # the conjugates are finite, and attained in this range
    conjugate = max(
        float((v[:, 0] * (a, b)).sum()) - cost.value(np.array([[a], [b]]))
        for a in grid
        for b in grid
    )
    for f in rng.uniform(-2, 2, (5, 2, 1)):
        expected = cost.value(f) + conjugate - float((v * f).sum())
        assert cost.gap(f, v) >= 0
        assert cost.gap(f, v) == pytest.approx(expected, abs=2e-2)


@pytest.mark.parametrize("kind", ["band", "distance", "squares"])
def test_gaps_of_inexact_solutions_are_valid(kind):
    K, _, observed, y = views_problem(14, 2)
    rng = np.random.default_rng(3)
    used, n = observed.T, len(y)
    cost = {
        "band": lambda: Band(used, np.full(n, 2.0), 0.1),
        "distance": lambda: Band(used, np.full(n, 2.0), 0.0),
        "squares": lambda: Squares(used, np.full(n, 2.0)),
    }[kind]()
    U = 3.0 * used
    best = agree(K, y, U, cost)
    assert best.gap <= 1e-9 * best.objective
    for size in (1e-3, 1.0, 10.0):
        g = best.g + size * np.where(used, rng.standard_normal((2, n)), 0.0)
        v = cost.coefficients(size * rng.standard_normal(len(cost.duals.linear)))
        point = _certified(K, y, U, cost, g, v, best.intercepts + size)
        assert point.objective - point.gap <= best.objective <= point.objective


def test_duals_stay_within_their_bounds():
    K, _, observed, y = views_problem(12, 2)
    solution = kq.mkl.solve_svm2k(K, y, observed=observed, C_a=3.0, C_b=3.0, D=2.0)
    single = observed.sum(axis=1) == 1
    margins = y * solution.dual_coef
    # what disagreement adds to one view it takes off the other
    assert (margins.sum(axis=0) >= -1e-12).all()
    assert (margins.sum(axis=0) <= 3.0 * observed.sum(axis=1) + 1e-12).all()
    assert (margins[:, single] >= 0).all()
    assert (margins[:, single] <= 3.0).all()
    assert (np.abs(margins[:, ~single] - 1.5) <= 1.5 + 2.0 + 1e-12).all()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_indefinite_kernels_among_several_are_named():
    rng = np.random.default_rng(8)
    K, _ = random_kernels(rng, 30, 2)
    A = rng.standard_normal((30, 30))
    K[1] = A + A.T
    stack = kq.KernelStack(K, names=["good", "similarity"])
    for model in (kq.mkl.SVM2KClassifier(), kq.mkl.MultiViewSVMClassifier()):
        with pytest.warns(UserWarning, match=r"not positive semi-definite.*: 'similarity';"):
            model.fit(stack, np.arange(30) % 2)


@pytest.mark.parametrize("absent", [0.0, 0.3])
def test_functions_of_indefinite_kernels_are_those_of_their_positive_parts(absent):
    rng = np.random.default_rng(3)
    K, _, observed, y = views_problem(13, 2, n=30, absent=absent)
    A = rng.standard_normal((30, 30))
    K[1] = (A + A.T) * observed[:, 1] * observed[:, [1]]
    values, vectors = np.linalg.eigh(K[1])
    positive = K.copy()
    positive[1] = (vectors * np.maximum(values, 0.0)) @ vectors.T
    for solve in (kq.mkl.solve_svm2k, kq.mkl.solve_multiview_svm):
        solution, expected = solve(K, y, observed=observed), solve(positive, y, observed=observed)
        assert solution.indefinite.tolist() == [False, True]
        assert solution.objective == pytest.approx(expected.objective, rel=1e-8)
        for l in range(2):
            outputs = K[l] @ solution.dual_coef[l] + solution.view_intercepts[l]
            reference = positive[l] @ expected.dual_coef[l] + expected.view_intercepts[l]
            np.testing.assert_allclose(outputs, reference, atol=1e-5)


TWO_VIEWS = {"a": [0, 1, 2], "b": [3, 4]}


@pytest.fixture(scope="module")
def samples():
    """Return an array with absent views as NaN, and labels of three classes."""
    rng = np.random.default_rng(0)
    y = np.repeat(["x", "y", "z"], 25)
    X = rng.standard_normal((75, 5)) + np.outer(np.repeat([0, 2, 4], 25), [1, 0, 0, 1, 0])
    for columns in TWO_VIEWS.values():
        X[np.ix_(rng.random(75) < 0.2, columns)] = np.nan
    X[0] = 0.1
    return X[~np.isnan(X).all(axis=1)], y[~np.isnan(X).all(axis=1)]


def classifiers():
    return [kq.mkl.SVM2KClassifier(views=TWO_VIEWS), kq.mkl.MultiViewSVMClassifier(views=TWO_VIEWS)]


each_classifier = pytest.mark.parametrize("model", classifiers(), ids=lambda m: type(m).__name__)


@each_classifier
def test_score_is_the_mean_over_the_views_a_sample_has(model, samples):
    X, y = samples
    n = len(y)
    model.fit(X, y)
    data = kq.as_views(X, TWO_VIEWS)
    stack = kq.ViewKernels().fit_transform(data)
    K, observed = stack.training_gram()
    assert model.dual_coef_.shape == (3, 2, n)
    outputs = np.einsum("lij,plj->pli", K, model.dual_coef_) + model.view_intercepts_[:, :, None]
    outputs[:, ~observed.T] = np.nan
    np.testing.assert_allclose(
        model.decision_function(X), np.nanmean(outputs, axis=1).T, atol=1e-10
    )
    from_stack = type(model)().fit(stack, y)
    np.testing.assert_allclose(
        from_stack.decision_function(stack), model.decision_function(X), atol=1e-7
    )
    nothing = np.full((1, 5), np.nan)
    np.testing.assert_allclose(
        model.decision_function(nothing)[0], model.view_intercepts_.mean(axis=1)
    )


@each_classifier
def test_garbage_in_absent_cells_changes_no_bit(model, samples):
    X, y = samples
    data = kq.as_views(X, TWO_VIEWS)
    garbage = np.random.default_rng(1).standard_normal(X.shape) * 1e6
    filled = {
        name: np.where(np.isnan(X[:, c]), garbage[:, c], X[:, c]) for name, c in TWO_VIEWS.items()
    }
    dirty = kq.MultiView(filled, data.observed)
    clean_model = model.fit(X, y)
    clean = clean_model.dual_coef_, clean_model.decision_function(X)
    other = type(model)().fit(dirty, y)
    np.testing.assert_array_equal(clean[0], other.dual_coef_)
    np.testing.assert_array_equal(clean[1], other.decision_function(dirty))


@each_classifier
def test_permuting_samples_permutes_scores(model, samples):
    X, y = samples
    order = np.random.default_rng(2).permutation(len(y))
    scores = model.fit(X, y).decision_function(X)
    np.testing.assert_allclose(
        model.fit(X[order], y[order]).decision_function(X), scores, atol=1e-6
    )


@each_classifier
def test_weights_equal_repetition(model, samples):
    X, y = samples
    counts = np.random.default_rng(3).integers(0, 4, len(y))
    weighted = model.fit(X, y, sample_weight=counts).decision_function(X)
    repeated = model.fit(np.repeat(X, counts, axis=0), np.repeat(y, counts)).decision_function(X)
    np.testing.assert_allclose(weighted, repeated, atol=1e-6)


@each_classifier
@pytest.mark.parametrize("multi_class", ["ovr", "ovo"])
def test_multi_class_does_not_depend_on_n_jobs(model, multi_class, samples):
    X, y = samples
    one = model.set_params(multi_class=multi_class, n_jobs=None).fit(X, y).decision_function(X)
    two = model.set_params(n_jobs=2).fit(X, y).decision_function(X)
    np.testing.assert_array_equal(one, two)
    assert model.score(X, y) > 0.7
    model.set_params(multi_class="ovr", n_jobs=None)


def test_svm2k_through_the_tools_of_scikit_learn(samples):
    X, y = samples
    data = kq.as_views(X, TWO_VIEWS)
    for form in (data, kq.ViewKernels().fit_transform(data)):
        search = GridSearchCV(kq.mkl.SVM2KClassifier(), {"C_a": [0.1, 10.0], "D": [0.0, 1.0]}, cv=3)
        assert search.fit(form, y).predict(form).shape == y.shape
        assert cross_val_score(kq.mkl.SVM2KClassifier(), form, y, cv=3).mean() > 0.6


def test_svm2k_of_one_view_is_the_svm_of_that_view():
    rng = np.random.default_rng(4)
    X = rng.standard_normal((60, 4))
    y = (X[:, 0] > 0).astype(int)
    theirs = SVC(gamma=1 / 4, C=2.0, tol=1e-8).fit(X, y)
    ours = kq.mkl.SVM2KClassifier(2.0, C_b=7.0, kernels="rbf").fit(X, y)
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-6)
    with pytest.warns(UserWarning, match="'second'"):
        absent = kq.mkl.SVM2KClassifier(2.0, C_b=7.0, kernels="rbf").fit(
            {"first": X, "second": np.full((60, 1), np.nan)}, y
        )
    scores = absent.decision_function({"first": X, "second": np.zeros((60, 1))})
    np.testing.assert_allclose(scores, theirs.decision_function(X), atol=1e-6)


def test_penalty_of_either_view():
    X, y = kq.datasets.make_multiview(60, 2, random_state=0)
    backwards = X.select(list(reversed(X.names)))
    one = kq.mkl.SVM2KClassifier(0.3, C_b=5.0).fit(X, y)
    other = kq.mkl.SVM2KClassifier(5.0, C_b=0.3).fit(backwards, y)
    assert one.objective_ == pytest.approx(other.objective_, rel=1e-8)
    assert kq.mkl.SVM2KClassifier(5.0, C_b=0.3).fit(X, y).objective_ != pytest.approx(
        one.objective_, rel=1e-3
    )


def test_one_ridge_for_each_view():
    X, y = kq.datasets.make_multiview(60, 2, random_state=0)
    same = kq.mkl.MultiViewSVMClassifier([0.2, 0.2]).fit(X, y)
    assert same.objective_ == kq.mkl.MultiViewSVMClassifier(0.2).fit(X, y).objective_
    other = kq.mkl.MultiViewSVMClassifier([0.02, 20.0]).fit(X, y)
    assert np.linalg.norm(other.dual_coef_[0, 0]) > 3 * np.linalg.norm(other.dual_coef_[0, 1])


@pytest.mark.parametrize("C", [1e2, 1e6])
def test_linear_kernels_at_large_penalties(C):
    X, y = kq.datasets.make_multiview(150, 2, relevance=[0.3, 0.2], label_noise=0.1, random_state=0)
    for model in (
        kq.mkl.SVM2KClassifier(C, C_b=C, D=C, kernels="linear"),
        kq.mkl.MultiViewSVMClassifier(1 / C, kernels="linear"),
    ):
        with warnings.catch_warnings(action="error", category=ConvergenceWarning):
            model.fit(X, y)
        assert model.converged_
        assert abs(model.duality_gap_) <= model.tol * model.objective_


def test_three_views_are_refused_by_svm2k():
    X, y = kq.datasets.make_multiview(30, 3, random_state=0)
    model = kq.mkl.SVM2KClassifier().fit(X.select(X.names[:2]), y)
    before = model.dual_coef_
    with pytest.raises(ValueError, match=r"two kernels, got 3 of 30 samples.*MultiViewSVM"):
        model.fit(X, y)
    assert model.dual_coef_ is before
    K = kq.ViewKernels().fit_transform(X).gram()
    with pytest.raises(ValueError, match="two kernels, got 3"):
        kq.mkl.solve_svm2k(K, np.ones(30))


@pytest.mark.parametrize(
    "model",
    [
        kq.mkl.SVM2KClassifier(C_b=0.0),
        kq.mkl.SVM2KClassifier(D=-1.0),
        kq.mkl.SVM2KClassifier(eps=-0.1),
        kq.mkl.SVM2KClassifier(eps=np.nan),
        kq.mkl.MultiViewSVMClassifier(lam=-1.0),
        kq.mkl.MultiViewSVMClassifier([0.1, -1.0]),
        kq.mkl.MultiViewSVMClassifier([0.1, 1.0, 1.0]),
    ],
)
def test_bad_parameters(model):
    X, y = kq.datasets.make_multiview(30, 2, random_state=0)
    with pytest.raises(ValueError, match=r"parameter|c must be|c has shape"):
        model.fit(X, y)
    for name in ("C_a", "C_b", "D", "eps"):
        for value in (-1.0, np.nan):
            with pytest.raises(ValueError, match=f"{name} must be finite and not negative"):
                kq.mkl.solve_svm2k(np.ones((2, 4, 4)), np.ones(4), **{name: value})
