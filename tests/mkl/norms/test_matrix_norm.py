import warnings

import numpy as np
import pytest
from scipy.optimize import minimize, minimize_scalar
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import StandardScaler

import kernelquilt as kq
from kernelquilt.core.weights.sets import lp_weights
from kernelquilt.mkl.norms.matrix_norm import MatrixNormMKLClassifier, solve_matrix_norm_mkl
from kernelquilt.mkl.norms.matrix_norm_descent import published_weights
from kernelquilt.mkl.norms.matrix_norm_set import MatrixNormSet, matrix_norm_weights
from problems import random_problem

PAIRS = [(1, 1.1), (1, 4), (1, 100), (1.2, 3), (2, 4), (4, 5), (10, 100), (5, 1.5)]
NOT_CONVERGED = "ignore::sklearn.exceptions.ConvergenceWarning"


def norm(d, r, p):
    return np.linalg.norm(d, r) * np.linalg.norm(d, p)


def a_set(m, r, p, **parameters):
    return MatrixNormSet(np.ones(m, dtype=bool), float(r), float(p), **parameters)


def columns_of_wdbc(n=200):
    """Return one Gaussian kernel per column, and the labels."""
    X, y = load_breast_cancer(return_X_y=True)
    X = StandardScaler().fit_transform(X[:n])
    D = np.square(X.T[:, :, None] - X.T[:, None, :])
    return np.exp(-2.0 * D / D.mean(axis=(1, 2), keepdims=True)), np.where(y[:n] == 1, 1.0, -1.0)


def global_optimum(factors, y, t, U, r, p):
    """Return the optimum of the whole problem by a scan over its convex slices.

    A slice has ``||d||_r <= rho^(1/2)`` and ``||d||_p <= rho^(-1/2)``; the largest ``d'q`` over it
    is the infimal convolution of the two dual norms.
    """
    import cvxpy as cp

    r, p = min(r, p), max(r, p)
    dual = [np.inf if e == 1 else e / (e - 1) for e in (r, p)]
    unit = min(U.max(), 1.0 / max(np.square(F).sum(axis=1).mean() for F in factors))
    a = cp.Variable(len(y))
    u, v = cp.Variable(len(factors), nonneg=True), cp.Variable(len(factors), nonneg=True)
    constraints = [a >= 0, a <= U / unit, y @ a == 0]
    constraints += [
        unit * cp.sum_squares(F.T @ cp.multiply(y, a)) <= u[m] + v[m] for m, F in enumerate(factors)
    ]
    first, second = cp.Parameter(nonneg=True), cp.Parameter(nonneg=True)
    penalty = first * cp.pnorm(u, dual[0]) + second * cp.pnorm(v, dual[1])
    problem = cp.Problem(cp.Maximize(t @ a - 0.5 * penalty), constraints)

    def value(log_rho, step=1e-9):
        first.value, second.value = np.exp(0.5 * log_rho), np.exp(-0.5 * log_rho)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of values that are close, not exact
            try:
                return unit * problem.solve(solver=cp.CLARABEL)
            except cp.SolverError:  # some versions give up on a slice, but not on its neighbour
                assert step < 1e-5
                return value(log_rho + step, 10 * step)

    grid = np.linspace(0.0, (1 / r - 1 / p) * np.log(len(factors)), 9)
    values = [value(x) for x in grid]
    at = int(np.argmin(values))
    bounds = (grid[max(at - 1, 0)], grid[min(at + 1, 8)])
    refined = minimize_scalar(value, bounds=bounds, method="bounded", options={"xatol": 1e-3})
    return min([*values, refined.fun])


@pytest.mark.parametrize(("r", "p"), [(1, 2), (1, 4), (1.2, 3), (2, 4), (5, 1.5)])
@pytest.mark.parametrize("seed", range(3))
def test_equals_conic_solver(r, p, seed):
    K, factors, _, y, t, C = random_problem(np.random.default_rng(seed), n=15, m=3)
    solution = solve_matrix_norm_mkl(K, y, r=r, p=p, C=C, margins=t, tol=1e-6)
    expected = global_optimum(factors, y, t, C / t, r, p)
    assert solution.converged
    assert solution.residual <= 1e-6
    assert solution.objective == pytest.approx(expected, rel=2e-5, abs=1e-6)
    assert solution.dual_bound <= expected * (1 + 1e-6) + 1e-6
    assert solution.duality_gap >= -1e-12 * abs(solution.objective)
    assert norm(solution.weights, r, p) == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize(("r", "p"), PAIRS)
def test_step_minimises(r, p):
    rng = np.random.default_rng(0)
    squared = rng.exponential(size=5) ** 3
    best = matrix_norm_weights(squared, r, p)
    assert norm(best, r, p) == pytest.approx(1.0)
    # the gradient of the scale-free convex function of log d of which this is the minimiser
    shares = [d / d.sum() for d in (squared / best, best**r, best**p)]
    np.testing.assert_allclose(shares[0], (shares[1] + shares[2]) / 2, atol=1e-12)
    if max(r, p) <= 10:
        starts = [np.ones(5), *rng.uniform(0.1, 1.0, (4, 5))]
        constraint = {"type": "ineq", "fun": lambda d: -np.log(norm(d, r, p))}
        found = [
            minimize(
                lambda d: (squared / d).sum(), start / norm(start, r, p) ** 0.5, method="SLSQP",
                bounds=[(1e-6, None)] * 5, constraints=constraint, options={"maxiter": 500},
            ).fun
            for start in starts
        ]  # fmt: skip
        assert (squared / best).sum() == pytest.approx(min(found), rel=1e-5)


def test_step_tends_to_the_closed_form_of_lp():
    squared = np.random.default_rng(1).exponential(size=6)
    for p in (1.0, 2.0, 50.0):
        near = matrix_norm_weights(squared, p, p * (1 + 1e-9))
        np.testing.assert_allclose(near, lp_weights(squared, p), rtol=1e-7)


def test_step_gives_no_weight_where_nothing_is():
    weights = matrix_norm_weights(np.array([0.0, 1e-200, 3.0]), 1.0, 4.0)
    assert weights[0] == 0.0
    assert 0.0 < weights[1] < 1e-90
    np.testing.assert_allclose(matrix_norm_weights(np.zeros(3), 1, 4), 3 ** (-5 / 8))
    assert matrix_norm_weights(np.array([7.0]), 3.0, 100.0) == pytest.approx(1.0)


@pytest.mark.parametrize(("r", "p"), PAIRS)
@pytest.mark.parametrize("powers", [False, True])
def test_support_is_a_tight_upper_bound(r, p, powers):
    counts = np.indices((301, 301)).reshape(2, -1)
    counts = np.vstack([counts, 300 - counts.sum(axis=0)])
    directions = counts[:, counts[2] >= 0] / counts[:, counts[2] >= 0].max(axis=0)
    norms = [(directions**e).sum(axis=0) ** (1 / e) for e in (r, p)]
    exponents = np.array([r, p]) / (r + p) if powers else [0.5, 0.5]
    scale = norms[0] ** exponents[0] * norms[1] ** exponents[1]
    for q in ([1.0, 0.7, 0.1], [1.0, 1.0, 1.0], [1.0, 0.0, 0.4], [0.0, 0.0, 2.0], [3.0, 2.9, 2.0]):
        support = a_set(3, r, p, powers=powers).support(np.array(q))
        found = (np.array(q) @ directions / scale).max()
        assert found <= support * (1 + 1e-12)
        assert found >= support * (1 - 2e-3)


def test_equal_exponents_are_lp_mkl():
    K, _, _, y, t, C = random_problem(np.random.default_rng(3), n=25, m=4)
    for p in (1.0, 1.2, 2.0, 8.0):
        one = solve_matrix_norm_mkl(K, y, r=p, p=p, C=C, margins=t, tol=1e-6)
        other = kq.mkl.solve_lp_mkl(K, y, p=p, C=C, margins=t, tol=1e-6)
        np.testing.assert_array_equal(one.weights, other.weights)
        assert one.residual is None
        near = solve_matrix_norm_mkl(K, y, r=p, p=p * (1 + 1e-6), C=C, margins=t, tol=1e-4)
        assert near.objective == pytest.approx(one.objective, rel=1e-4)
    simple = kq.mkl.solve_simple_mkl(K, y, C=C, margins=t, tol=1e-6)
    one = solve_matrix_norm_mkl(K, y, r=1, p=1, C=C, margins=t, tol=1e-6)
    assert one.objective == pytest.approx(simple.objective, rel=1e-6)


@pytest.mark.parametrize("seed", range(4))
def test_between_the_lp_problems_and_symmetric(seed):
    K, _, _, y, t, C = random_problem(np.random.default_rng(seed), n=25, m=5)
    for r, p in ((1.0, 3.0), (1.3, 1.7), (2.0, 4.0), (3.0, 60.0)):
        inner, outer = (
            kq.mkl.solve_lp_mkl(K, y, p=e, C=C, margins=t, tol=1e-6, max_iter=1000) for e in (r, p)
        )
        one = solve_matrix_norm_mkl(K, y, r=r, p=p, C=C, margins=t, tol=1e-5)
        two = solve_matrix_norm_mkl(K, y, r=p, p=r, C=C, margins=t, tol=1e-5)
        assert outer.dual_bound <= one.objective * (1 + 1e-9)
        assert one.dual_bound <= inner.objective * (1 + 1e-9)
        assert one.objective <= inner.objective * (1 + 1e-4) + 1e-9
        assert one.objective == pytest.approx(two.objective, rel=1e-5)


@pytest.mark.parametrize(("r", "p"), [(1, 2), (1, 4), (1.1, 1.3), (2, 4), (4, 5), (10, 100)])
@pytest.mark.parametrize("C", [1.0, 10.0])
def test_few_solves_and_no_rise_on_real_data(r, p, C):
    K, y = columns_of_wdbc()
    solution = solve_matrix_norm_mkl(K, y, r=r, p=p, C=C)
    assert solution.converged
    assert solution.n_solves <= 15
    objectives = [step.objective for step in solution.history]
    assert all(np.diff(objectives) <= 1e-4 * objectives[0])
    assert solution.relative_gap < 1e-3
    if min(r, p) > 1:
        assert (solution.weights > 0).all()


def test_objective_never_rises():
    K, _, _, y, t, C = random_problem(np.random.default_rng(2), n=30, m=5)
    for r, p in PAIRS:
        solution = solve_matrix_norm_mkl(K, y, r=r, p=p, C=C, margins=t, tol=1e-8)
        assert solution.converged
        objectives = [step.objective for step in solution.history]
        assert all(np.diff(objectives) <= 1e-9 * objectives[0])


def test_vanishing_weights_meet_the_conditions():
    K, y = columns_of_wdbc()
    solution = solve_matrix_norm_mkl(K, y, r=1, p=3, tol=1e-5)
    d = solution.weights
    q = np.einsum("mij,i,j->m", K, solution.dual_coef, solution.dual_coef)
    allowed = d @ q / 2 * (1 / d.sum() + d**2 / (d**3).sum())
    assert 0 < (d == 0).sum() < len(d)
    assert (q[d == 0] <= allowed[d == 0]).all()
    np.testing.assert_allclose(q[d > 0], allowed[d > 0], atol=2e-5 * q.max())


def test_several_starts_find_the_better_minimum():
    # a kernel and 0.4 times the same: all weight on the first is best, equal weights are a trap
    rng = np.random.default_rng(0)
    F = rng.standard_normal((40, 5))
    K = np.array([F @ F.T, 0.4 * F @ F.T]) / 5
    y = np.where(F[:, 0] + rng.standard_normal(40) > 0, 1.0, -1.0)
    trapped = solve_matrix_norm_mkl(K, y, r=1, p=10, weights=np.ones(2))
    solution = solve_matrix_norm_mkl(K, y, r=1, p=10)
    assert trapped.converged
    assert trapped.objective > solution.objective * 1.001
    np.testing.assert_allclose(solution.weights, [1.0, 0.0], atol=1e-6)
    assert solution.n_solves > trapped.n_solves
    assert solution.relative_gap < 1e-3 < trapped.relative_gap


def test_published_updates_differ_where_they_should():
    K, _, _, y, t, C = random_problem(np.random.default_rng(4), n=25, m=4)
    for r, p in ((2.0, 4.0), (1.5, 3.0), (3.0, 3.0 + 1e-9)):
        solution = solve_matrix_norm_mkl(K, y, r=r, p=p, C=C, margins=t, tol=1e-8)
        b, d = solution.dual_coef, solution.weights
        squared = d**2 * np.einsum("mij,i,j->m", K, b, b)
        # a solution is a fixed point of the first update and of the exact step
        np.testing.assert_allclose(published_weights(squared, d, r, p, equation=11), d, rtol=1e-5)
        np.testing.assert_allclose(matrix_norm_weights(squared, r, p), d, rtol=1e-5)
        # elsewhere the first update is another map, with the right scale
        other = a_set(4, r, p).scaled(np.array([1.0, 2.0, 3.0, 4.0]))
        first = published_weights(squared, other, r, p, equation=11)
        assert norm(first, r, p) == pytest.approx(1.0)
        assert np.abs(first - d).max() > 1e-2
        # and the second one has its direction, but its scale only for r = p
        second = published_weights(squared, other, r, p, equation=12)
        ratio = second / first
        np.testing.assert_allclose(ratio, ratio[0], rtol=1e-9)
        assert (second**r).sum() * (second**p).sum() == pytest.approx(1.0)
        assert (ratio[0] > 1 + 1e-4) == (p - r > 0.1)


def test_published_update_inverts_the_weights():
    # for r = p and fixed norms the logarithm of the weights is multiplied by -p
    rng = np.random.default_rng(5)
    p, optimum = 3.0, rng.dirichlet(np.ones(4))
    squared = optimum ** (p + 1)
    d = optimum * np.exp(1e-3 * rng.standard_normal(4))
    updated = published_weights(squared, d, p, p, equation=11)
    before, after = (np.log(x / optimum) for x in (d, updated))
    np.testing.assert_allclose(after - after[0], -p * (before - before[0]), atol=1e-9)


@pytest.mark.parametrize(("r", "p"), [(2, 4), (4, 5), (10, 10), (2, 2), (1, 4), (1, 1), (100, 50)])
@pytest.mark.parametrize("update", ["paper_11", "paper_12"])
def test_published_updates_are_unstable_but_never_fail(r, p, update):
    K, y = columns_of_wdbc(120)
    exact = solve_matrix_norm_mkl(K, y, r=r, p=p)
    solution = solve_matrix_norm_mkl(K, y, r=r, p=p, update=update, max_iter=15)
    for value in (solution.weights, solution.dual_coef, solution.objective, solution.dual_bound):
        assert np.isfinite(value).all()
    assert solution.n_solves <= 15
    assert solution.duality_gap >= -1e-12 * solution.objective
    objectives = [step.objective for step in solution.history]
    if not solution.converged:
        assert solution.objective == min(objectives)
    if min(r, p) > 1:
        assert not solution.converged
        assert any(np.diff(objectives) > 0)
    if update == "paper_11":
        assert solution.objective >= exact.objective * (1 - 1e-3)
        if solution.converged:
            assert solution.objective == pytest.approx(exact.objective, rel=1e-2)


def test_kernels_without_content_get_no_weight():
    K, _, _, y, t, C = random_problem(np.random.default_rng(6), n=20, m=3)
    zero = np.zeros((1, 20, 20))
    noise = np.eye(20)[None]
    allowed = np.array([True, True, True, True, False])
    for r, p in ((1, 4), (2, 4), (3, 3)):
        for update in ("exact", "paper_11", "paper_12"):
            options = {"r": r, "p": p, "C": C, "margins": t, "update": update, "max_iter": 10}
            more = solve_matrix_norm_mkl(
                np.concatenate([K, zero, noise]), y, allowed=allowed, **options
            )
            less = solve_matrix_norm_mkl(K, y, **options)
            assert (more.weights[3:] == 0).all()
            np.testing.assert_allclose(more.weights[:3], less.weights, atol=1e-3)


@pytest.mark.parametrize(("r", "p"), PAIRS)
def test_classes_that_cannot_be_told_apart(r, p):
    # linear kernels cannot separate the middle from both sides, and no weights are better
    rng = np.random.default_rng(0)
    x = np.linspace(-1, 1, 30) + 0.05 * rng.standard_normal((3, 30))
    x -= x.mean(axis=1, keepdims=True)
    K = x[:, :, None] * x[:, None, :]
    y = np.where(np.arange(30) // 10 == 1, 1.0, -1.0)
    solution = solve_matrix_norm_mkl(K, y, r=r, p=p, C=0.1)
    assert solution.converged
    assert solution.relative_gap <= 1e-4
    assert solution.n_solves <= 15


@pytest.mark.parametrize(("r", "p"), PAIRS)
def test_one_kernel(r, p):
    K, _, _, y, t, C = random_problem(np.random.default_rng(7), n=20, m=1)
    for update in ("exact", "paper_11", "paper_12"):
        solution = solve_matrix_norm_mkl(K, y, r=r, p=p, C=C, margins=t, update=update)
        np.testing.assert_allclose(solution.weights, [1.0])
        assert solution.converged
        assert solution.n_solves == 1


def test_warm_start_and_cap():
    K, y = columns_of_wdbc()
    first = solve_matrix_norm_mkl(K, y, r=1, p=3, C=1.0)
    cold = solve_matrix_norm_mkl(K, y, r=1, p=3, C=1.5)
    warm = solve_matrix_norm_mkl(
        K, y, r=1, p=3, C=1.5, weights=first.weights, dual_coef=first.dual_coef
    )
    assert warm.objective == pytest.approx(cold.objective, rel=1e-3)
    for max_iter in (1, 2, 3):
        capped = solve_matrix_norm_mkl(K, y, r=2, p=4, tol=1e-9, max_iter=max_iter)
        assert capped.n_solves == max_iter
        assert not capped.converged


def test_shared_weights_lie_between():
    K, _, _, y, _, _ = random_problem(np.random.default_rng(8), n=30, m=4)
    other = np.roll(y, 7)
    joint = solve_matrix_norm_mkl(K, np.array([y, other]), r=1, p=3, tol=1e-5)
    apart = [solve_matrix_norm_mkl(K, labels, r=1, p=3, tol=1e-5) for labels in (y, other)]
    assert joint.converged
    assert joint.dual_coef.shape == (2, 30)
    assert joint.objective >= sum(each.dual_bound for each in apart)


@pytest.mark.filterwarnings(NOT_CONVERGED)
@pytest.mark.parametrize(
    ("init", "update"),
    [("random", "paper_12"), ("uniform", "paper_11"), ("lp", "paper_11"), ("lp", "paper_12")],
)
def test_variants_of_the_paper(init, update):
    X, y = kq.datasets.load_example("wdbc")
    model = MatrixNormMKLClassifier(init=init, update=update, max_iter=5, random_state=0)
    assert model.fit(X, y).score(X, y) > 0.9
    assert np.isfinite(model.objective_)


@pytest.mark.parametrize("init", ["auto", "uniform", "random", "lp"])
@pytest.mark.parametrize(("r", "p"), [(2, 4), (1, 3), (2, 2), (1, 1)])
def test_every_start_reaches_the_same_optimum(init, r, p):
    X, y = kq.datasets.make_multiview(80, 4, relevance=[2, 1, 0, 0], random_state=0)
    reference = MatrixNormMKLClassifier(r=r, p=p, tol=1e-5).fit(X, y)
    model = MatrixNormMKLClassifier(r=r, p=p, init=init, tol=1e-5, random_state=0).fit(X, y)
    assert model.converged_
    assert model.objective_ == pytest.approx(reference.objective_, rel=1e-4)


@pytest.mark.filterwarnings(NOT_CONVERGED)
def test_random_starts_depend_on_the_seed_alone():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 6))
    X[:20] += 1.0
    y = np.repeat([0, 1, 2], 20)

    def fit(random_state, **parameters):
        model = MatrixNormMKLClassifier(
            init="random", max_iter=2, tol=0.5, views="columns", random_state=random_state,
            **parameters,
        )  # fmt: skip
        return model.fit(X, y)

    one = fit(3).weights_
    np.testing.assert_array_equal(one, fit(3, n_jobs=2).weights_)
    state = np.random.RandomState(3)
    np.testing.assert_array_equal(one, fit(state).weights_)
    np.testing.assert_array_equal(one, fit(state, n_jobs=2).weights_)
    assert state.uniform() == np.random.RandomState(3).uniform()
    assert np.abs(one - fit(4).weights_).max() > 0


def test_bad_parameters():
    X, y = kq.datasets.make_multiview(30, 2, random_state=0)
    K, labels = np.eye(4)[None], np.array([1.0, 1, -1, -1])
    for value in (0.5, np.nan, np.inf):
        for name in ("r", "p"):
            with pytest.raises(ValueError, match=f"'{name}' parameter"):
                MatrixNormMKLClassifier(**{name: value}).fit(X, y)
            with pytest.raises(ValueError, match="finite and at least 1"):
                solve_matrix_norm_mkl(K, labels, **{name: value})
    with pytest.raises(ValueError, match="'init' parameter"):
        MatrixNormMKLClassifier(init="ones").fit(X, y)
    with pytest.raises(ValueError, match="update must be one of"):
        solve_matrix_norm_mkl(K, labels, update="paper_13")


@pytest.mark.parametrize("exponents", [(2.0, 1e161), (1e161, 1e200), (1.0, 1e9)])
def test_huge_exponents_are_the_largest_weight(exponents):
    weights = matrix_norm_weights(np.array([1.0, 4.0, 0.5]), *exponents)
    assert np.isfinite(weights).all()
    assert 0 < weights.max() <= 1 + 1e-6


def test_a_tolerance_above_one_keeps_a_kernel():
    X, y = kq.datasets.make_multiview(24, 2, random_state=0)
    model = MatrixNormMKLClassifier(r=1.03, p=1.0, tol=12.0, kernels=["gaussian", "linear"])
    assert model.fit(X, y).weights_.max() > 0
