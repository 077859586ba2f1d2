"""The solvers of SimpleMKL from the literature against projected Newton."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import kernelquilt as kq
from kernelquilt.core.svm.weighted_svm import WeightedSVM
from kernelquilt.core.weights.sets import Simplex
from kernelquilt.core.weights.solution import Options, Start
from kernelquilt.mkl.norms.published import cutting_plane
from kernelquilt.mkl.norms.published.cutting_plane import Cuts
from kernelquilt.mkl.norms.simple import SOLVERS
from problems import mostly_absent_problem, random_kernels, random_problem

every_solver = pytest.mark.parametrize("solver", sorted(SOLVERS))
baselines = pytest.mark.parametrize("solver", sorted(set(SOLVERS) - {"newton"}))


def solve(name, K, y, t, U, allowed=None, tol=1e-4, max_iter=2000, on_step=None, **start):
    allowed = np.ones(len(K), dtype=bool) if allowed is None else allowed
    given = Options(tol, max_iter, Start(**start), on_step)
    return SOLVERS[name](WeightedSVM(K, y, t, U), Simplex(allowed), given)


def full_rank_problem(seed, n=40, m=5):
    rng = np.random.default_rng(seed)
    K, _ = random_kernels(rng, n, m)
    y = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    return K, y, np.ones(n), np.full(n, 10.0)


def primal_from_scratch(K, y, t, U, solution):
    scores = np.tensordot(solution.weights, K, 1) @ solution.dual_coef
    hinge = np.maximum(0, t - y * (scores + solution.intercept))
    return 0.5 * solution.dual_coef @ scores + U @ hinge


@baselines
@pytest.mark.parametrize("seed", range(20))
def test_reaches_the_certified_optimum_of_newton(solver, seed):
    """Low-rank kernels with absent rows, so that J has kinks where weights are zero."""
    K, _, _, y, t, U = random_problem(np.random.default_rng(seed))
    optimum = solve("newton", K, y, t, U, tol=1e-10).objective
    solution = solve(solver, K, y, t, U)
    assert solution.converged
    assert solution.objective == pytest.approx(optimum, rel=1e-4)
    assert solution.dual_bound <= optimum + 1e-9 * abs(optimum)
    assert solution.objective >= optimum - 1e-9 * abs(optimum)
    assert solution.objective == pytest.approx(
        primal_from_scratch(K, y, t, U, solution), rel=1e-9, abs=1e-10
    )
    assert solution.weights.sum() == pytest.approx(1.0)
    assert (solution.weights >= 0).all()


@every_solver
@pytest.mark.parametrize("seed", [2000, 2001, 2002])
def test_kinks_at_zero_weights_do_not_stop_the_descent(solver, seed):
    """With 2000 the reduced gradient fails unless it leaves the faces of the simplex."""
    K, _, *problem = mostly_absent_problem(seed)
    assert solve(solver, K, *problem, tol=1e-3).converged


@baselines
def test_certificate_holds_on_the_way_and_the_best_point_is_returned(solver):
    for seed in range(3):
        problem = full_rank_problem(seed)
        optimum = solve("newton", *problem, tol=1e-10).objective
        for max_iter in (1, 2, 5, 12, 1000):
            steps = []
            solution = solve(solver, *problem, max_iter=max_iter, on_step=steps.append)
            assert tuple(steps) == solution.history
            objectives = [step.objective for step in steps]
            assert solution.objective <= min(objectives)
            assert (np.diff(objectives) <= 0).all()
            for step in steps:
                assert step.objective - step.gap <= optimum * (1 + 1e-9)
                assert step.objective >= optimum * (1 - 1e-9)


@every_solver
@pytest.mark.parametrize("max_iter", [1, 2, 3, 4, 6, 9, 15])
def test_cap_on_solves_is_kept(solver, max_iter):
    solution = solve(solver, *full_rank_problem(1), tol=1e-15, max_iter=max_iter)
    assert solution.n_solves <= max_iter
    assert not solution.converged


@every_solver
def test_ends_although_the_tolerance_is_out_of_reach(solver):
    for problem in (full_rank_problem(2, n=20, m=3), full_rank_problem(3, n=20, m=1)):
        solution = solve(solver, *problem, tol=1e-18, max_iter=10**6)
        assert solution.relative_gap < 1e-5


@every_solver
def test_warm_start_at_the_optimum_ends_at_once(solver):
    problem = full_rank_problem(4)
    cold = solve("newton", *problem, tol=1e-9)
    warm = solve(solver, *problem, weights=cold.weights, dual_coef=cold.dual_coef)
    assert warm.n_solves == 1
    assert warm.converged


@every_solver
def test_kernels_not_allowed_get_no_weight(solver):
    K, y, t, U = full_rank_problem(5)
    allowed = np.array([True, False, True, False, True])
    solution = solve(solver, K, y, t, U, allowed)
    assert (solution.weights[~allowed] == 0).all()
    expected = solve("newton", K[allowed], y, t, U, tol=1e-9).objective
    assert solution.converged
    assert solution.objective == pytest.approx(expected, rel=1e-4)


@every_solver
def test_one_kernel_takes_one_solve(solver):
    K, y, t, U = full_rank_problem(6)
    alone = solve(solver, K[:1], y, t, U)
    np.testing.assert_array_equal(alone.weights, [1.0])
    only = solve(solver, K, y, t, U, np.arange(5) == 0)
    np.testing.assert_array_equal(only.weights, [1, 0, 0, 0, 0])
    assert alone.n_solves == only.n_solves == 1
    assert alone.converged
    assert only.converged


@every_solver
def test_kernels_that_are_absent_everywhere(solver):
    K, y, t, U = full_rank_problem(7)
    padded = np.concatenate([K, np.zeros((2, *K.shape[1:]))])
    solution = solve(solver, padded, y, t, U)
    assert solution.converged
    assert solution.objective == pytest.approx(solve("newton", K, y, t, U).objective, rel=1e-3)
    assert solve(solver, 0.0 * K, y, t, U).converged


@every_solver
@pytest.mark.parametrize("factor", [1e-6, 1e6])
def test_scale_of_the_kernels_does_not_matter(solver, factor):
    K, y, t, U = full_rank_problem(8)
    one = solve(solver, K, y, t, U)
    other = solve(solver, factor * K, y, t, U / factor)
    assert other.converged
    assert other.objective * factor == pytest.approx(one.objective, rel=1e-4)


@baselines
def test_base_variable_may_reach_zero(solver):
    """The kernel with the largest weight at the start is useless."""
    K, y, t, U = full_rank_problem(9)
    K[0] *= 1e-3
    start = np.array([0.96, 0.01, 0.01, 0.01, 0.01])
    solution = solve(solver, K, y, t, U, weights=start)
    assert solution.converged
    assert solution.objective == pytest.approx(solve("newton", K, y, t, U).objective, rel=1e-3)


def test_bound_of_the_cuts_needs_no_exact_linear_programme(monkeypatch):
    problem = full_rank_problem(10)
    optimum = solve("newton", *problem, tol=1e-9).objective
    svm = WeightedSVM(*problem)
    cuts = Cuts(Simplex(np.ones(5, dtype=bool)))
    rng = np.random.default_rng(0)
    for weights in rng.dirichlet(np.ones(5), 20):
        cuts.add(svm.solve(weights, None, 1e-6))
    exact = cutting_plane.linprog

    def noisy(*args, **options):
        result = exact(*args, **options)
        result.ineqlin.marginals -= 0.1 * rng.random(len(result.ineqlin.marginals))
        return result

    _, bound = cuts.minimise(optimum)
    assert bound <= optimum
    monkeypatch.setattr(cutting_plane, "linprog", noisy)
    _, worse = cuts.minimise(optimum)
    assert worse <= bound + 1e-9 * optimum


def test_projection_is_on_the_level_and_nearest():
    cvxpy = pytest.importorskip("cvxpy")
    problem = full_rank_problem(11)
    svm = WeightedSVM(*problem)
    cuts = Cuts(Simplex(np.ones(5, dtype=bool)))
    points = [svm.solve(w, None, 1e-6) for w in np.random.default_rng(0).dirichlet(np.ones(5), 8)]
    for point in points:
        cuts.add(point)
    _, bound = cuts.minimise(points[0].primal)
    level = 0.5 * bound + 0.5 * min(point.primal for point in points)
    for point in points:
        found = cuts.project(point.weights, level)
        d = cvxpy.Variable(5, nonneg=True)
        limits = [p.linear - 0.5 * p.q @ d <= level for p in points]
        distance = cvxpy.Problem(
            cvxpy.Minimize(cvxpy.norm(d - point.weights)), [cvxpy.sum(d) == 1, *limits]
        ).solve(solver=cvxpy.CLARABEL)
        assert np.linalg.norm(found - point.weights) == pytest.approx(distance, abs=1e-6)
        assert max(p.linear - 0.5 * p.q @ found for p in points) <= level * (1 + 1e-8)


@every_solver
def test_estimator(solver):
    X, y = kq.datasets.make_multiview(80, 3, relevance=[2.0, 0.5, 0.0], random_state=0)
    reference = kq.SimpleMKLClassifier(tol=1e-6).fit(X, y)
    model = kq.SimpleMKLClassifier(solver=solver, max_iter=1000).fit(X, y)
    assert model.converged_
    assert model.objective_ == pytest.approx(reference.objective_, rel=1e-3)
    K, _ = kq.ViewKernels("gaussian").fit_transform(X).training_gram()
    signs = np.where(y == model.classes_[1], 1.0, -1.0)
    solution = kq.mkl.solve_simple_mkl(K, signs, solver=solver, max_iter=1000)
    np.testing.assert_allclose(solution.weights, model.weights_, atol=1e-12)


def test_estimator_warns_at_the_cap():
    X, y = kq.datasets.make_multiview(80, 3, relevance=[2.0, 0.5, 0.0], random_state=0)
    model = kq.SimpleMKLClassifier(solver="reduced_gradient", max_iter=3, tol=1e-9)
    with pytest.warns(ConvergenceWarning, match="after 3 SVM solves"):
        model.fit(X, y)


def test_unknown_solver():
    with pytest.raises(ValueError, match="solver"):
        kq.SimpleMKLClassifier(solver="magic").fit(np.eye(4), [0, 1, 0, 1])
    with pytest.raises(ValueError, match=r"one of \['level', 'newton'"):
        kq.mkl.solve_simple_mkl(np.eye(4)[None], np.array([1.0, -1, 1, -1]), solver="magic")
