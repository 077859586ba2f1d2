import numpy as np
import pytest
from sklearn.preprocessing import StandardScaler

from kernelquilt.core.svm.weighted_svm import WeightedSVM
from kernelquilt.core.weights.sets import Simplex
from kernelquilt.core.weights.solution import Options, Start
from kernelquilt.core.weights.solvers import newton, solve_qp
from kernelquilt.data.transformer import ViewTransformer
from kernelquilt.datasets import load_example, make_absent
from kernelquilt.kernels.view_kernels import ViewKernels
from problems import absent_problem, conic_mkl, mostly_absent_problem, random_problem


def everything(m):
    return Simplex(np.ones(m, dtype=bool))


def primal_from_scratch(K, y, t, U, solution):
    combined = np.tensordot(solution.weights, K, 1)
    scores = combined @ solution.dual_coef
    hinge = np.maximum(0, t - y * (scores + solution.intercept))
    return 0.5 * solution.dual_coef @ scores + U @ hinge


@pytest.mark.parametrize("seed", range(30))
def test_simplex_equals_conic_solver(seed):
    rng = np.random.default_rng(seed)
    K, factors, _, y, t, U = random_problem(rng)
    solution = newton(WeightedSVM(K, y, t, U), everything(len(K)), Options(1e-7, 100))
    expected = conic_mkl(factors, y, t, U)
    assert solution.converged
    assert solution.objective == pytest.approx(expected, rel=1e-6, abs=1e-7)
    assert solution.dual_bound <= expected + 1e-6 * abs(expected) + 1e-7
    assert solution.duality_gap >= -1e-12 * abs(solution.objective)
    assert solution.weights.sum() == pytest.approx(1.0)
    assert solution.objective == pytest.approx(
        primal_from_scratch(K, y, t, U, solution), rel=1e-9, abs=1e-10
    )


@pytest.mark.parametrize("seed", range(30))
def test_low_rank_kernels_with_most_entries_absent(seed):
    K, factors, y, t, C = mostly_absent_problem(2000 + seed)
    solution = newton(WeightedSVM(K, y, t, C), everything(len(K)), Options(1e-6, 200))
    assert solution.converged
    assert solution.objective == pytest.approx(conic_mkl(factors, y, t, C), rel=2e-6)


@pytest.mark.parametrize(("ratio", "digit", "C"), [(0.6, 7, 10.0), (0.8, 3, 10.0), (0.8, 0, 1.0)])
@pytest.mark.parametrize("tol", [1e-3, 1e-6])
def test_kinks_at_zero_weights_do_not_stop_the_descent(ratio, digit, C, tol):
    """Samples that only kernels without weight observe have no unique dual."""
    X, y = load_example("digits")
    X = make_absent(X[:400], ratio, mechanism="mcar", random_state=0)
    X = ViewTransformer(StandardScaler()).fit_transform(X)
    K, _ = ViewKernels().fit_transform(X).training_gram()
    svm = WeightedSVM(K, np.where(y[:400] == digit, 1.0, -1.0), np.ones(400), np.full(400, C))
    solution = newton(svm, everything(5), Options(tol, 20))
    assert solution.converged


def test_objective_falls_and_certificate_holds_on_the_way():
    rng = np.random.default_rng(5)
    K, factors, _, y, t, U = random_problem(rng, n=30, m=5)
    expected = conic_mkl(factors, y, t, U)
    steps = []
    newton(WeightedSVM(K, y, t, U), everything(5), Options(1e-9, 100, on_step=steps.append))
    objectives = [step.objective for step in steps]
    assert all(np.diff(objectives) <= 1e-9 * objectives[0])
    for step in steps:
        assert step.objective - step.gap <= expected * (1 + 1e-7)
        assert step.objective >= expected * (1 - 1e-7)


def test_certificate_is_valid_for_inexact_inner_solves(monkeypatch):
    from kernelquilt.core.svm import dual

    monkeypatch.setattr(dual, "MAX_EXACT_ROUNDS", 0)
    rng = np.random.default_rng(6)
    for _ in range(10):
        K, factors, _, y, t, U = random_problem(rng, n=30, m=4)
        svm = WeightedSVM(K, y, t, U)
        expected = conic_mkl(factors, y, t, U)
        point = svm.solve(everything(4).start(), None, tol=10.0)
        bound = point.linear - 0.5 * everything(4).support(point.q)
        assert bound <= expected + 1e-7 * abs(expected)
        assert point.primal >= expected - 1e-7 * abs(expected)
        assert point.primal >= point.dual


def test_hessian_is_the_derivative_of_the_gradient():
    rng = np.random.default_rng(7)
    n, m = 40, 3
    F = rng.standard_normal((m, n, n))
    K = F @ F.transpose(0, 2, 1) / n
    y = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    svm = WeightedSVM(K, y, np.ones(n), np.full(n, 2.0))
    d = np.array([0.5, 0.3, 0.2])
    step = 1e-5
    numeric = np.empty((m, m))
    for p in range(m):
        ahead = svm.solve(d + step * np.eye(m)[p], None, 1e-12).q
        behind = svm.solve(d - step * np.eye(m)[p], None, 1e-12).q
        numeric[p] = -0.5 * (ahead - behind) / (2 * step)
    analytic = svm.hessian(svm.solve(d, None, 1e-12))
    np.testing.assert_allclose(analytic, numeric, rtol=1e-4, atol=1e-6 * np.abs(numeric).max())


def test_warm_start_reaches_the_same_optimum_with_less_work():
    rng = np.random.default_rng(8)
    K, _, _, y, t, U = random_problem(rng, n=29, m=5)
    cold = newton(WeightedSVM(K, y, t, U), everything(5), Options(1e-8, 100))
    options = Options(1e-8, 100, Start(cold.weights, cold.dual_coef))
    warm = newton(WeightedSVM(K, y, t, U), everything(5), options)
    assert warm.n_solves <= 2
    assert warm.objective == pytest.approx(cold.objective, rel=1e-8)


def test_cap_on_solves_is_kept_and_reported():
    rng = np.random.default_rng(9)
    K, _, _, y, t, U = random_problem(rng, n=30, m=5)
    solution = newton(WeightedSVM(K, y, t, U), everything(5), Options(1e-15, 2))
    assert solution.n_solves == 2
    assert not solution.converged


def test_disallowed_kernels_stay_at_zero():
    rng = np.random.default_rng(10)
    K, factors, _, y, t, U = random_problem(rng, n=25, m=4)
    allowed = np.array([True, False, True, False])
    solution = newton(WeightedSVM(K, y, t, U), Simplex(allowed), Options(1e-7, 100))
    assert (solution.weights[~allowed] == 0).all()
    expected = conic_mkl([factors[0], factors[2]], y, t, U)
    assert solution.objective == pytest.approx(expected, rel=1e-6)


def test_unused_kernels_get_exactly_zero_weight():
    rng = np.random.default_rng(11)
    n = 60
    X = rng.standard_normal((n, 1))
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    noise = rng.standard_normal((4, n, n))
    K = np.concatenate(
        [np.exp(-((X - X.T) ** 2))[None], 0.01 * noise @ noise.transpose(0, 2, 1) / n]
    )
    solution = newton(WeightedSVM(K, y, np.ones(n), np.ones(n)), everything(5), Options(1e-8, 99))
    np.testing.assert_array_equal(solution.weights[1:], 0.0)
    assert solution.weights[0] == pytest.approx(1.0)


@pytest.mark.parametrize("seed", range(20))
def test_qp_equals_conic_solver(seed):
    import cvxpy as cp

    rng = np.random.default_rng(seed)
    m = int(rng.integers(1, 12))
    F = rng.standard_normal((int(rng.integers(1, m + 1)), m))
    c = rng.standard_normal(m)
    H = F.T @ F
    x = solve_qp(H, c, np.zeros(m), np.zeros((0, m)), np.zeros(0), np.ones((1, m)), np.ones(1))
    v = cp.Variable(m)
    problem = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(F @ v) + c @ v), [v >= 0, cp.sum(v) == 1])
    expected = problem.solve(solver=cp.CLARABEL)
    assert 0.5 * x @ H @ x + c @ x == pytest.approx(expected, rel=1e-7, abs=1e-7)
    assert x.sum() == pytest.approx(1.0, abs=1e-12)
    assert (x >= 0).all()


@pytest.mark.parametrize("seed", range(4))
def test_a_start_at_a_vertex_that_some_samples_do_not_see(seed):
    """Only the vertex has a bad bound; the point next to it may already be good enough."""
    K, _, observed, y = absent_problem(seed, 0.5, n=40, m=3)
    for p in range(3):
        margins = np.where(observed[:, p], 1.0, 1e-3)
        svm = WeightedSVM(K, y, margins, 0.1 / margins)
        solution = newton(svm, everything(3), Options(1e-3, 200, Start(np.eye(3)[p])))
        assert solution.converged
