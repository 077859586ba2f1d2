import inspect

import numpy as np
import pytest
from sklearn.base import clone

import kernelquilt as kq
from kernelquilt.core.weights.solvers import SVMPoint
from kernelquilt.mkl.absent.convex import Polytope
from kernelquilt.mkl.absent.shared_coef import SharedCoefSVM
from problems import random_problem

FORMULATIONS = ["exact", "shared_coef", "max_min"]
RATIOS = [0.25, 0.5, 0.75]
every_formulation = pytest.mark.parametrize("formulation", FORMULATIONS)
every_ratio = pytest.mark.parametrize("ratio", RATIOS)


def absent_problem(seed, ratio, n=24, m=4, rank=6):
    """Return masked kernels, explicit features, mask and labels; every sample has a kernel."""
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    observed = rng.random((n, m)) >= ratio
    observed[np.arange(n), rng.integers(0, m, n)] = True
    shift = rng.uniform(0.0, 1.0, m)
    features = [
        (rng.standard_normal((n, rank)) + y[:, None] * shift[p]) * observed[:, [p]] / np.sqrt(rank)
        for p in range(m)
    ]
    return np.array([F @ F.T for F in features]), features, observed, y


def solved(problem):
    import cvxpy as cp

    return problem.solve(
        solver=cp.CLARABEL, tol_gap_abs=1e-9, tol_gap_rel=1e-9, tol_feas=1e-9, max_iter=500
    )


def conic_28(features, observed, y, C):
    """Return optimum, scores and simplex weights of Eq. (28), written out."""
    import cvxpy as cp

    m = len(features)
    w = [cp.Variable(F.shape[1]) for F in features]
    gamma, u, b0 = cp.Variable(m, nonneg=True), cp.Variable(), cp.Variable()
    scores = sum(F @ v for F, v in zip(features, w, strict=True)) + b0
    cost = [cp.quad_over_lin(v, gamma[p]) for p, v in enumerate(w)]
    patterns = np.unique(observed[observed.any(axis=1)], axis=0)
    limits = [0.5 * sum(cost[p] for p in np.flatnonzero(pattern)) <= u for pattern in patterns]
    hinge = cp.pos(1 - cp.multiply(y, scores))
    value = solved(cp.Problem(cp.Minimize(u + C @ hinge), [*limits, cp.sum(gamma) == 1]))
    return value, scores.value, gamma.value


def conic_31(K, observed, y, C, seen):
    """Return optimum and scores of Eq. (31), written out; `seen` masks the coefficients."""
    import cvxpy as cp

    n, m = observed.shape
    alpha, gamma, u, b0 = cp.Variable(n), cp.Variable(m, nonneg=True), cp.Variable(), cp.Variable()
    roots = [np.linalg.eigh(kernel) for kernel in K]
    cost = [
        cp.quad_over_lin((vectors * np.sqrt(np.maximum(values, 0.0))).T @ alpha, gamma[p])
        for p, (values, vectors) in enumerate(roots)
    ]
    A = sum(observed[:, [p]] * K[p] * seen[:, p] for p in range(m))
    limits = [0.5 * sum(cost[p] for p in np.flatnonzero(row)) <= u for row in observed]
    scores = A @ alpha + b0
    hinge = cp.pos(1 - cp.multiply(y, scores))
    value = solved(cp.Problem(cp.Minimize(u + C @ hinge), [*limits, cp.sum(gamma) == 1]))
    return value, scores.value


def conic_25(features, observed, y, C):
    """Return optimum and scores of Eq. (25) with slack variables, written out."""
    import cvxpy as cp

    w = [cp.Variable(F.shape[1]) for F in features]
    v, b0 = cp.Variable(), cp.Variable()
    scores = sum(F @ each for F, each in zip(features, w, strict=True)) + b0
    limits = [sum(cp.norm(w[p]) for p in np.flatnonzero(row)) <= v for row in observed]
    hinge = cp.pos(1 - cp.multiply(y, scores))
    value = solved(cp.Problem(cp.Minimize(0.5 * cp.square(v) + C @ hinge), limits))
    return value, scores.value


def scores_of(solution, K):
    coef = np.atleast_2d(solution.dual_coef)
    products = [kernel @ coef[p if len(coef) > 1 else 0] for p, kernel in enumerate(K)]
    return solution.weights @ np.array(products) + solution.intercept


@every_ratio
@pytest.mark.parametrize("C", [0.1, 3.0])
def test_exact_against_the_printed_problem(ratio, C):
    for seed in range(3):
        K, features, observed, y = absent_problem(seed, ratio)
        penalty = np.full(len(y), C)
        value, scores, gamma = conic_28(features, observed, y, penalty)
        solution = kq.mkl.solve_convex_absent_mkl(K, y, observed=observed, C=C, tol=1e-8)
        assert solution.converged
        assert solution.objective == pytest.approx(value, rel=1e-6)
        np.testing.assert_allclose(scores_of(solution, K), scores, atol=2e-3)
        np.testing.assert_allclose(solution.simplex_weights, gamma, atol=5e-3)
        assert (observed @ solution.weights).max() <= 1 + 1e-9


@every_ratio
@pytest.mark.parametrize("leaky", [False, True])
def test_shared_coef_against_the_printed_problem(ratio, leaky):
    for seed in range(3):
        K, features, observed, y = absent_problem(seed, ratio, n=16, rank=16)
        if leaky:
            rng = np.random.default_rng(seed)
            features = [rng.standard_normal(F.shape) / 4.0 for F in features]
            K = np.array([F @ F.T for F in features])
        seen = np.ones_like(observed) if leaky else observed
        value, scores = conic_31(K, observed, y, np.full(len(y), 2.0), seen)
        solution = kq.mkl.solve_convex_absent_mkl(
            K, y, observed=observed, C=2.0, tol=1e-6, formulation="shared_coef", _leaky=leaky
        )
        assert solution.converged
        assert solution.objective == pytest.approx(value, rel=2e-5)
        assert solution.dual_bound <= value * (1 + 1e-5)
        A = np.sum(observed.T[:, :, None] * K, axis=0)
        alpha = solution.dual_coef[observed.T.argmax(axis=0), np.arange(len(y))]
        np.testing.assert_array_equal(solution.dual_coef, np.where(seen.T, alpha, 0.0))
        np.testing.assert_allclose(A @ alpha + solution.intercept, scores, atol=5e-3)


@every_ratio
def test_max_min_against_the_printed_problem(ratio):
    for seed in range(3):
        K, features, observed, y = absent_problem(seed, ratio)
        value, scores = conic_25(features, observed, y, np.full(len(y), 2.0))
        solution = kq.mkl.solve_convex_absent_mkl(
            K, y, observed=observed, C=2.0, tol=1e-6, formulation="max_min"
        )
        assert solution.converged
        assert solution.objective == pytest.approx(value, rel=1e-6)
        np.testing.assert_allclose(scores_of(solution, K), scores, atol=1e-3)
        assert (solution.dual_coef[~observed.T] == 0).all()


def test_the_counter_example_separates_the_formulations():
    # each sample has one of two kernels: for two unit norms Eq. (25) pays 1/2, Eq. (28) pays 1
    x = np.array([1.0, -1.0, 1.0, -1.0])
    observed = np.array([[True, False]] * 2 + [[False, True]] * 2)
    K = np.array([np.outer(x * mask, x * mask) for mask in observed.T])
    exact, largest = (
        kq.mkl.solve_convex_absent_mkl(
            K, x, observed=observed, C=100.0, tol=1e-8, formulation=formulation
        ).objective
        for formulation in ("exact", "max_min")
    )
    assert exact == pytest.approx(1.0, rel=1e-6)
    assert largest == pytest.approx(0.5, rel=1e-6)


@every_formulation
def test_bounds_hold_with_penalties_of_each_sample(formulation):
    for seed in range(4):
        rng = np.random.default_rng(seed)
        K, features, observed, y, _, U = random_problem(rng, n=20, m=3)
        if not observed[U > 0].any():
            continue
        K, features = K + 0.0, [F * (U > 0)[:, None] for F in features]
        used = (U > 0) & observed.any(axis=1)
        solution = kq.mkl.solve_convex_absent_mkl(
            K, y, observed=observed, C=U, tol=1e-5, formulation=formulation
        )
        alone = kq.mkl.solve_convex_absent_mkl(
            np.ascontiguousarray(K[:, used][:, :, used]), y[used], observed=observed[used],
            C=U[used], tol=1e-5, formulation=formulation,
        )  # fmt: skip
        assert solution.duality_gap >= -1e-12 * solution.objective
        assert solution.objective == pytest.approx(alone.objective, rel=2e-5)
        assert (np.atleast_2d(solution.dual_coef)[:, ~used] == 0).all()
        if formulation == "exact":
            C = np.where(used, U, 0.0)
            value = conic_28(features, observed[used | ~observed.any(axis=1)], y, C)[0]
            assert solution.objective == pytest.approx(value, rel=1e-4)


def test_nothing_absent_is_simple_mkl():
    X, y = kq.datasets.make_multiview(80, 4, relevance=[1, 0.5, 0.2, 0], random_state=0)
    ours = kq.ConvexAbsentMKLClassifier(2.0, tol=1e-7).fit(X, y)
    theirs = kq.SimpleMKLClassifier(2.0, tol=1e-7).fit(X, y)
    assert ours.objective_ == pytest.approx(theirs.objective_, rel=1e-6)
    np.testing.assert_allclose(ours.weights_, theirs.weights_, atol=1e-3)
    np.testing.assert_allclose(ours.simplex_weights_, ours.weights_, atol=1e-4)


def test_patterns_that_constrain_nothing():
    K, _, observed, y = absent_problem(5, 0.5, n=30, m=5)
    observed[3] = observed[4] = False  # empty
    observed[:, 2] = False  # nobody has it
    observed[5] = [True, True, False, True, True]  # dominates every other pattern
    K = K * observed.T[:, :, None] * observed.T[:, None, :]
    solution = kq.mkl.solve_convex_absent_mkl(K, y, observed=observed, tol=1e-8)
    assert solution.weights[2] == solution.simplex_weights[2] == 0
    assert (solution.dual_coef[3:5] == 0).all()
    # one pattern that dominates makes the set that of SimpleMKL on zero-filled kernels
    C = np.where(observed.any(axis=1), 1.0, 0.0)
    simple = kq.mkl.solve_simple_mkl(K, y, C=C, allowed=observed.any(axis=0), tol=1e-8)
    assert solution.objective == pytest.approx(simple.objective, rel=1e-7)
    assert len(Polytope(observed.astype(float)).A) == 1


@every_formulation
def test_predictions_use_what_a_sample_has(formulation):
    X, y = kq.datasets.make_multiview(70, 3, random_state=0)
    X = kq.datasets.make_absent(X, 0.5, random_state=0)
    train, test = np.arange(50), np.arange(50, 70)
    stack = kq.ViewKernels().fit_transform(X)
    model = kq.ConvexAbsentMKLClassifier(formulation=formulation).fit(stack[train], y[train])
    coef = np.broadcast_to(model.dual_coef_, (3, 50))
    masked = stack.gram(test, train) * stack.observed[test].T[:, :, None]
    masked = masked * stack.observed[train].T[:, None, :]
    by_hand = np.einsum("m,mij,mj->i", model.weights_, masked, coef) + model.intercept_
    np.testing.assert_allclose(model.decision_function(stack[test]), by_hand, atol=1e-10)
    assert model.score(stack[train], y[train]) > 0.8
    assert "leaky" not in "".join(inspect.signature(type(model)).parameters)


def test_patterns_of_new_samples_may_be_new():
    X, y = kq.datasets.make_multiview(60, 3, random_state=0)
    stack = kq.ViewKernels().fit_transform(X)
    observed = np.ones((60, 3), dtype=bool)
    observed[np.arange(60), np.arange(60) % 3] = False  # two of three
    whole = kq.KernelStack(stack.gram(), observed=observed)
    model = kq.ConvexAbsentMKLClassifier().fit(whole[:40], y[:40])
    for pattern in ([1, 0, 0], [0, 0, 1], [1, 1, 1], [0, 0, 0]):
        observed[40:] = pattern
        rows = kq.KernelStack(stack.gram(range(60), range(40)), observed=observed)[40:]
        masked = rows.gram() * np.array(pattern)[:, None, None] * observed[:40].T[:, None, :]
        by_hand = np.einsum("m,mij,j->i", model.weights_, masked, model.dual_coef_[0])
        np.testing.assert_allclose(
            model.decision_function(rows), by_hand + model.intercept_, atol=1e-10
        )


@pytest.mark.parametrize("formulation", ["shared_coef", "max_min"])
def test_multi_class_coefficients(formulation):
    X, y = kq.datasets.make_multiview(60, 3, n_classes=3, random_state=0)
    X = kq.datasets.make_absent(X, 0.3, random_state=0)
    model = kq.ConvexAbsentMKLClassifier(formulation=formulation).fit(X, y)
    assert model.dual_coef_.shape == (3, 3, 60)
    assert model.simplex_weights_.shape == model.weights_.shape == (3, 3)
    np.testing.assert_allclose(model.simplex_weights_.sum(axis=1), 1.0)
    assert model.n_support_.shape == (3,)
    assert model.score(X, y) > 0.75
    again = clone(model).fit(X, y)
    np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))


def test_derivatives_of_the_shared_coefficients():
    K, _, observed, y = absent_problem(1, 0.4, n=14, m=3, rank=14)
    svm = SharedCoefSVM(K, observed, y, np.full(14, 0.5))
    d = np.array([0.5, 0.3, 0.6])
    point = svm.solve(d, None, 1e-10)
    hessian = svm.hessian(point)
    step = 1e-5

    def at(weights) -> SVMPoint:
        return svm.solve(weights, point, 1e-12)

    for p in range(3):
        e = np.eye(3)[p] * step
        ahead, behind = at(d + e), at(d - e)
        slope = (ahead.dual - behind.dual) / (2 * step)
        assert slope == pytest.approx(-0.5 * point.q[p], rel=1e-6)
        curvature = -0.5 * (ahead.q - behind.q) / (2 * step)
        np.testing.assert_allclose(hessian[p], curvature, rtol=1e-4, atol=1e-5)


def test_bad_formulation_is_refused():
    K, _, observed, y = absent_problem(0, 0.5)
    with pytest.raises(ValueError, match="formulation must be one of"):
        kq.mkl.solve_convex_absent_mkl(K, y, observed=observed, formulation="other")
    with pytest.raises(ValueError, match="not positive semi-definite"):
        kq.mkl.solve_convex_absent_mkl(-K, y, observed=observed, formulation="shared_coef")


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_max_min_does_not_depend_on_the_scale(scale):
    K, _, observed, y = absent_problem(0, 0.5)
    one, other = (
        kq.mkl.solve_convex_absent_mkl(
            K * factor, y, observed, C=2.0 / factor, formulation="max_min", tol=1e-6
        )
        for factor in (1.0, scale)
    )
    assert one.converged
    assert other.converged
    assert other.objective * scale == pytest.approx(one.objective, rel=1e-6)


def test_certificate_with_kernels_of_different_scale():
    K, _, observed, y = absent_problem(0, 0.5, n=16, rank=3)
    K *= np.array([1.0, 0.1, 10.0, 100.0])[:, None, None]
    value, _ = conic_31(K, observed, y, np.full(16, 2.0), observed)
    solution = kq.mkl.solve_convex_absent_mkl(
        K, y, observed, C=2.0, formulation="shared_coef", tol=1e-6
    )
    assert solution.dual_bound <= value * (1 + 1e-5)
    assert solution.objective >= value * (1 - 1e-5)


def test_zero_kernels_are_no_error():
    observed = np.ones((6, 2), dtype=bool)
    y = np.array([1.0, -1.0] * 3)
    for formulation in FORMULATIONS:
        solution = kq.mkl.solve_convex_absent_mkl(
            np.zeros((2, 6, 6)), y, observed, formulation=formulation
        )
        assert solution.objective == pytest.approx(6.0)


@pytest.mark.parametrize("seed", range(4))
def test_weights_of_samples_are_repetitions(seed):
    rng = np.random.default_rng(seed)
    X, y = kq.datasets.make_multiview(60, 4, relevance=[1, 0.5, 0, 0], random_state=seed)
    stack = kq.ViewKernels().fit_transform(kq.datasets.make_absent(X, 0.3, random_state=seed))
    times = rng.integers(0, 4, 60)
    rows = np.repeat(np.arange(60), times)
    for model in (kq.ConvexAbsentMKLClassifier(2.0), kq.SimpleMKLClassifier(2.0)):
        weighted = clone(model).fit(stack, y, sample_weight=times)
        repeated = clone(model).fit(stack[rows], y[rows])
        np.testing.assert_allclose(
            weighted.decision_function(stack), repeated.decision_function(stack), atol=1e-7
        )
