import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelquilt.core.svm.dual import face_optimum, feasible_start, kkt_interval, signed_bounds
from kernelquilt.core.svm.weighted_svm import WeightedSVM, solve_svm
from problems import conic_svm, random_kernels, random_problem


def primal_dual_gap(K, y, t, U, result):
    """Primal minus dual, from scratch."""
    scores = K @ result.dual_coef
    quadratic = result.dual_coef @ scores
    primal = 0.5 * quadratic + U @ np.maximum(0, t - y * (scores + result.intercept))
    return primal - ((y * t) @ result.dual_coef - 0.5 * quadratic)


@pytest.mark.parametrize("seed", range(30))
def test_equals_conic_solver(seed):
    rng = np.random.default_rng(seed)
    K, factors, _, y, t, U = random_problem(rng, m=1)
    result = solve_svm(K[0], y, t, U, tol=1e-9, exact=True)
    expected = conic_svm(factors[0], y, t, U)
    assert result.objective == pytest.approx(expected, rel=1e-7, abs=1e-8)
    assert result.violation <= 1e-9
    assert abs(result.dual_coef.sum()) <= 1e-10 * max(1.0, U.max())
    assert (result.dual_coef * y >= 0).all()
    assert (np.abs(result.dual_coef) <= U).all()
    assert primal_dual_gap(K[0], y, t, U, result) <= 1e-6 * max(1.0, abs(expected))


@pytest.mark.parametrize("tol", [1e-1, 1e-3, 1e-6])
def test_violation_is_as_asked(tol):
    rng = np.random.default_rng(0)
    K, _ = random_kernels(rng, 150, 1)
    y = np.where(rng.random(150) < 0.5, 1.0, -1.0)
    result = solve_svm(K[0], y, 1.0, 10.0, tol=tol)
    f = y - K[0] @ result.dual_coef
    lower, upper = signed_bounds(y, np.full(150, 10.0))
    violation = f[result.dual_coef < upper].max() - f[result.dual_coef > lower].min()
    assert violation <= tol + 1e-12
    assert result.violation == pytest.approx(max(violation, 0.0), abs=1e-10)


@pytest.mark.parametrize("C", [1e-6, 1e-3, 1.0, 1e3, 1e6])
@pytest.mark.parametrize(
    "kind", ["full", "low_rank", "duplicates", "zero_rows", "wide", "indefinite"]
)
def test_hard_kernels_end_finite_and_optimal(C, kind):
    rng = np.random.default_rng(1)
    n = 80
    F = rng.standard_normal((n, 3 if kind == "low_rank" else n)) / np.sqrt(n)
    if kind == "duplicates":
        F = np.repeat(F[: n // 4], 4, axis=0)
    if kind == "zero_rows":
        F[::3] = 0.0
    K = F @ F.T
    if kind == "wide":
        d2 = np.square(F[:, :2, None] - F[:, :2].T[None]).sum(1)
        K = np.exp(-d2 / 2e4)
    if kind == "indefinite":
        K -= 1e-8 * np.eye(n)
    y = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    result = solve_svm(K, y, 1.0, C, tol=1e-3, exact=True)
    assert np.isfinite(result.dual_coef).all()
    assert np.isfinite(result.intercept)
    assert result.violation <= 1e-3
    gap = primal_dual_gap(K, y, np.ones(n), np.full(n, C), result)
    assert -1e-9 * C * n <= gap <= 1e-3 * np.abs(result.dual_coef).sum() + 1e-9 * C * n


def test_two_samples_have_the_closed_form():
    K = np.array([[2.0, 0.5], [0.5, 1.0]])
    result = solve_svm(K, np.array([1.0, -1.0]), np.array([1.0, 0.5]), 100.0, tol=1e-12)
    expected = 1.5 / (2.0 + 1.0 - 1.0)
    np.testing.assert_allclose(result.dual_coef, [expected, -expected], rtol=1e-12)
    np.testing.assert_allclose(result.scores + result.intercept, [1.0, -0.5], atol=1e-12)


def test_all_bounded_solution_takes_the_middle_of_the_interval():
    K = np.eye(4)
    y = np.array([1.0, 1.0, -1.0, -1.0])
    result = solve_svm(K, y, 1.0, 0.1, tol=1e-9, exact=True)
    np.testing.assert_allclose(result.dual_coef, 0.1 * y)
    assert result.intercept == pytest.approx(0.0, abs=1e-12)


def test_duals_at_a_bound_to_rounding_do_not_set_the_intercept():
    K = np.eye(4)
    y = np.array([1.0, 1.0, -1.0, -1.0])
    start = 0.1 * y * np.array([1 - 1e-15, 1, 1, 1 - 1e-15])
    cold = solve_svm(K, y, np.array([1.0, 0.5, 1.0, 0.8]), 0.1, tol=1e-9, exact=True)
    warm = solve_svm(
        K, y, np.array([1.0, 0.5, 1.0, 0.8]), 0.1, tol=1e-9, exact=True, dual_coef=start
    )
    assert warm.intercept == pytest.approx(cold.intercept, abs=1e-12)


def test_class_without_weight_leaves_nothing_to_move():
    y = np.array([1.0, 1.0, -1.0])
    result = solve_svm(np.eye(3), y, 1.0, np.array([1.0, 1.0, 0.0]))
    np.testing.assert_array_equal(result.dual_coef, 0.0)
    assert np.isfinite(result.intercept)


def test_float32_kernel_gives_float64_duals():
    rng = np.random.default_rng(2)
    K, _ = random_kernels(rng, 60, 1)
    y = np.where(rng.random(60) < 0.5, 1.0, -1.0)
    single = solve_svm(K[0].astype(np.float32), y, 1.0, 5.0, tol=1e-6, exact=True)
    double = solve_svm(K[0], y, 1.0, 5.0, tol=1e-6, exact=True)
    assert single.dual_coef.dtype == np.float64
    assert single.objective == pytest.approx(double.objective, rel=1e-5)


def test_exact_solution_of_a_larger_problem_is_above_the_loose_one():
    rng = np.random.default_rng(3)
    n = 500
    X = rng.standard_normal((n, 4))
    y = np.where(np.sin(2 * X[:, 0]) + 0.5 * rng.standard_normal(n) > 0, 1.0, -1.0)
    K = np.exp(-np.square(X[:, None] - X[None]).sum(-1) / 4)
    loose = solve_svm(K, y, 1.0, 50.0, tol=1e-4)
    exact = solve_svm(K, y, 1.0, 50.0, tol=1e-8, exact=True)
    assert exact.violation <= 1e-8
    assert 0 <= exact.objective - loose.objective <= 1e-4 * np.abs(loose.dual_coef).sum()


def test_warm_start_at_the_solution_needs_no_iterations():
    rng = np.random.default_rng(4)
    K, _ = random_kernels(rng, 100, 1)
    y = np.where(rng.random(100) < 0.5, 1.0, -1.0)
    cold = solve_svm(K[0], y, 1.0, 3.0, tol=1e-6, exact=True)
    warm = solve_svm(K[0], y, 1.0, 3.0, tol=1e-6, dual_coef=cold.dual_coef)
    assert warm.n_iter == 0
    np.testing.assert_allclose(warm.dual_coef, cold.dual_coef, atol=1e-12)


@given(seed=st.integers(0, 10_000), factor=st.sampled_from([0.01, 0.5, 3.0, 100.0]))
@settings(max_examples=40, deadline=None)
def test_scaling_kernel_up_and_bounds_down_scales_duals_down(seed, factor):
    rng = np.random.default_rng(seed)
    K, _, _, y, t, U = random_problem(rng, m=1)
    one = solve_svm(K[0], y, t, U, tol=1e-9, exact=True)
    other = solve_svm(factor * K[0], y, t, U / factor, tol=1e-9, exact=True)
    assert factor * other.objective == pytest.approx(one.objective, rel=1e-8, abs=1e-9)
    np.testing.assert_allclose(other.scores, one.scores, atol=2e-6)


@given(seed=st.integers(0, 10_000))
@settings(max_examples=40, deadline=None)
def test_permuting_samples_permutes_scores(seed):
    rng = np.random.default_rng(seed)
    K, _, _, y, t, U = random_problem(rng, m=1)
    order = rng.permutation(len(y))
    one = solve_svm(K[0], y, t, U, tol=1e-9, exact=True)
    other = solve_svm(
        K[0][np.ix_(order, order)], y[order], t[order], U[order], tol=1e-9, exact=True
    )
    assert other.objective == pytest.approx(one.objective, rel=1e-8, abs=1e-9)
    np.testing.assert_allclose(other.scores, one.scores[order], atol=2e-6)


@given(seed=st.integers(0, 10_000))
@settings(max_examples=30, deadline=None)
def test_any_start_is_made_feasible(seed):
    rng = np.random.default_rng(seed)
    n = 12
    y = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    lower, upper = signed_bounds(y, rng.uniform(0, 2, n))
    b = feasible_start(3 * rng.standard_normal(n), lower, upper)
    assert (b >= lower).all()
    assert (b <= upper).all()
    assert abs(b.sum()) <= 1e-12


@pytest.mark.parametrize("seed", [12, 19, 45, 93, 105, 138])
def test_the_face_optimum_of_a_singular_kernel_is_no_worse_than_its_start(seed):
    """More free samples than the rank allows: the equations then have arbitrary solutions."""
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(1, 16))
    n = rank + 1 + int(rng.integers(0, 3))
    G = rng.standard_normal((n, rank))
    lower, upper = signed_bounds(
        np.where(rng.random(n) < 0.5, 1.0, -1.0), 10.0 ** rng.uniform(0, 7)
    )
    start = lower + (upper - lower) * rng.uniform(1e-4, 1 - 1e-4, n)
    f = rng.normal() + 10.0 ** rng.uniform(-6, 0) * rng.standard_normal(n)
    steps = face_optimum(G @ G.T, f, start, lower, upper) - start
    assert f @ steps - 0.5 * np.square(G.T @ steps).sum() >= 0.0


def test_rows_with_a_diagonal_of_zero_are_not_left_out():
    rng = np.random.default_rng(0)
    K, _ = random_kernels(rng, 40, 1)
    y = np.where(rng.random(40) < 0.5, 1.0, -1.0)
    diagonal = np.diag(np.diag(K[0]))
    whole = solve_svm(K[0], y, 1.0, 10.0, tol=1e-9, exact=True)
    parts = np.array([K[0] - diagonal, diagonal])
    found = solve_svm(parts, y, 1.0, 10.0, weights=np.ones(2), tol=1e-9, exact=True)
    np.testing.assert_allclose(found.dual_coef, whole.dual_coef, atol=1e-8)


@pytest.mark.parametrize("share", [0.3, 0.8])
def test_rows_that_are_zero_change_nothing(share):
    rng = np.random.default_rng(1)
    K, _ = random_kernels(rng, 50, 4)
    observed = rng.random((4, 50)) > share
    K = K * observed[:, :, None] * observed[:, None]
    y = np.where(rng.random(50) < 0.5, 1.0, -1.0)
    weights = np.array([0.4, 0.3, 0.2, 0.1])
    svm = WeightedSVM(K, y, np.ones(50), np.full(50, 5.0))
    np.testing.assert_array_equal(svm.present, observed)
    point = svm.solve(weights[::-1], None, 1e-6)
    point = svm.solve(weights, point, 1e-6)
    np.testing.assert_allclose(point.products[0], K @ point.b[0], atol=1e-10)
    whole = solve_svm(np.tensordot(weights, K, 1), y, 1.0, 5.0, tol=1e-9, exact=True)
    assert point.dual == pytest.approx(whole.objective, rel=1e-9)
    assert svm.reach == pytest.approx(np.abs(point.b).max() / 5.0, rel=1e-6) or svm.reach > 0.99


def slow_interval(b, f, lower, upper, tube):
    """The KKT interval by its definition, sample by sample."""
    ups, downs = [-np.inf], [np.inf]
    for one, slope, low, high, width in zip(b, f, lower, upper, tube, strict=True):
        if one < high:
            ups.append(slope + width if one < 0 else slope - width)
        if one > low:
            downs.append(slope - width if one > 0 else slope + width)
    return max(ups), min(downs)


@pytest.mark.parametrize("seed", range(5))
def test_the_interval_and_the_loose_samples_of_a_tube(seed):
    from kernelquilt.core.compiled import loose_samples

    rng = np.random.default_rng(seed)
    upper = rng.uniform(0.5, 2.0, size=40)
    b = np.clip(rng.normal(size=40), -upper, upper) * (rng.random(40) < 0.7)
    f, tube = rng.normal(size=40), rng.uniform(0, 0.5, size=40)
    f_up, f_down = kkt_interval(b, f, -upper, upper, tube)
    assert (f_up, f_down) == pytest.approx(slow_interval(b, f, -upper, upper, tube))
    loose = loose_samples(b, f, -upper, upper, tube)
    assert set(np.flatnonzero((b != 0) & (np.abs(b) < upper))) <= set(loose)
    violating = (b < upper) & (f + np.where(b < 0, tube, -tube) >= f_down)
    assert set(np.flatnonzero(violating)) <= set(loose)
