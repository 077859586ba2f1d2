"""Multi-view kernel completion: objectives, steps, and the completers built on them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize, rosen, rosen_der
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import kernelquilt as kq
from holes import assert_psd, hide, random_mask, related_kernels, unit
from kernelquilt.completion.literature.latent_factor import LatentObjective
from kernelquilt.completion.literature.mkc.embedding import solve_embedding
from kernelquilt.completion.literature.mkc.objectives import (
    ApproximationObjective,
    HeterogeneousObjective,
    HomogeneousObjective,
)
from kernelquilt.completion.literature.mkc.start import draw_basis, own_start, shared_start
from kernelquilt.completion.literature.proximal import (
    ProximalDescent,
    add_smoothed_norm,
    shrink_rows,
)
from kernelquilt.completion.transfer_regression import solve_transfer
from kernelquilt.core import lbfgs
from kernelquilt.core.lbfgs import LBFGS
from kernelquilt.core.weights.sets import simplex_least_squares
from kernelquilt.data.stack import KernelStack
from problems import random_kernels

PROBLEMS = {
    "ht": (HeterogeneousObjective, {}),
    "ht, all rows": (HeterogeneousObjective, {"all_rows": True}),
    "app": (ApproximationObjective, {}),
    "hm": (HomogeneousObjective, {}),
}
VARIANTS = {
    "ht": {"coupling": "weights"},
    "ht, all rows": {"coupling": "weights", "between": "all"},
    "ht, no self": {"coupling": "weights", "self_weights": False},
    "app": {"coupling": "kernels"},
    "hm": {"coupling": "shared"},
}
# tolerances at which rounding has not had the time to grow in these far from convex problems
COMPLETERS = {
    "ht": kq.completion.EmbeddingCompletion(tol=1e-3),
    "hm": kq.completion.EmbeddingCompletion(sharing="homogeneous", tol=1e-3),
    "rnd": kq.completion.EmbeddingCompletion(basis="random", random_state=0, tol=0.03),
    "all rows": kq.completion.EmbeddingCompletion(between="all", tol=1e-3),
    "no self": kq.completion.EmbeddingCompletion(self_weights=False, tol=1e-3),
    "identity": kq.completion.EmbeddingCompletion(init="identity", tol=1e-3),
    "random": kq.completion.EmbeddingCompletion(init="random", random_state=0, tol=1e-3),
    "between": kq.completion.EmbeddingCompletion(predict="between", tol=1e-3),
    "landmarks": kq.completion.EmbeddingCompletion(n_basis=8, random_state=0, tol=1e-3),
    "approximate": kq.completion.EmbeddingCompletion(exact_observed=False, tol=1e-3),
    "app": kq.completion.ApproximationCompletion(tol=1e-3),
    "app approximate": kq.completion.ApproximationCompletion(exact_observed=False, tol=1e-3),
    "sdp": kq.completion.SDPCompletion(tol=1e-4),
    "latent": kq.completion.LatentFactorCompletion(3, tol=1e-3),
}
every_completer = pytest.mark.parametrize("model", COMPLETERS.values(), ids=COMPLETERS.keys())
every_problem = pytest.mark.parametrize("kind", PROBLEMS)


def masked(n=12, m=3, seed=0, share=0.6):
    """Return kernels that are zero where absent, and their mask."""
    mask = random_mask(n, m, seed, share)
    return hide(unit(related_kernels(n, m, seed)), mask, mask, 0.0), mask


def finite_differences(function, x, step=1e-5):
    gradient = np.empty_like(x)
    for i in range(len(x)):
        e = np.zeros_like(x)
        e[i] = step
        gradient[i] = (function(x + e) - function(x - e)) / (2 * step)
    return gradient


def value_of(kind, K, mask, weights, basis, S, lam1):
    """Return the smooth part as it is written, from weights padded to all rows."""
    n, M = mask.shape
    A = np.zeros((M, n, n))
    for m, b in enumerate(basis):
        rows = np.searchsorted(np.unique(np.concatenate(basis)), b)
        A[m, b] = weights[0][rows] if kind == "hm" else weights[m]
    approximate = [a.T @ k @ a for a, k in zip(A, K, strict=True)]
    value = sum(
        (((kh - k)[np.ix_(o, o)]) ** 2).sum()
        for kh, k, o in zip(approximate, K, mask.T, strict=True)
    )
    for m in range(M):
        if kind == "app":
            rest = approximate[m] - sum(S[m, l] * approximate[l] for l in range(M))
            value += lam1 * (rest**2).sum()
        elif kind != "hm":
            rest = A[m] - sum(S[m, l] * A[l] for l in range(M))
            rows = mask[:, m] if kind == "ht" else np.ones(n, dtype=bool)
            value += lam1 * (rest[rows] ** 2).sum()
    return value


class TestObjectives:
    @every_problem
    @pytest.mark.parametrize("small_basis", [False, True])
    @pytest.mark.parametrize("entries", [2**19, 50])
    def test_value_and_gradient(self, kind, small_basis, entries, monkeypatch):
        monkeypatch.setattr("kernelquilt.completion.literature.mkc.objectives.ENTRIES", entries)
        K, mask = masked(9)
        rng = np.random.default_rng(1)
        basis = [np.flatnonzero(o)[:: 2 if small_basis else 1] for o in mask.T]
        cls, options = PROBLEMS[kind]
        problem = cls(K, mask, basis, 0.7, **options)
        x = problem.pack([rng.normal(size=(len(b), 9)) for b in problem.blocks])
        problem.mix(x)
        gradient = np.empty_like(x)
        value = problem.evaluate(x, gradient)
        expected = value_of(kind, K, mask, problem.split(x), basis, problem.mixing, 0.7)
        np.testing.assert_allclose(value, expected, rtol=1e-12)
        differences = finite_differences(lambda z: problem.evaluate(z, np.empty_like(z)), x)
        np.testing.assert_allclose(gradient, differences, atol=1e-7 * np.abs(gradient).max())

    @every_problem
    def test_frozen_entries_stay_zero(self, kind):
        K, mask = masked(9)
        incomplete = ~mask.all(axis=1)
        cls, options = PROBLEMS[kind]
        problem = cls(K, mask, [np.flatnonzero(o) for o in mask.T], 0.5, incomplete, **options)
        x = problem.pack([np.ones((len(b), 9)) for b in problem.blocks])
        gradient = np.empty_like(x)
        problem.evaluate(x, gradient)
        step = gradient.copy()
        problem.preconditioner(0.1)(step)
        for vector in (x, gradient, step):
            for block, rows in zip(problem.split(vector), problem.blocks, strict=True):
                own = block[np.arange(len(rows)), rows]
                assert not own[incomplete[rows]].any()
                assert own[~incomplete[rows]].all()

    def test_smoothed_norm(self):
        rng = np.random.default_rng(0)
        A = rng.normal(size=(4, 5))
        gradient = np.zeros_like(A)
        value = add_smoothed_norm(A, gradient, 0.3, 0.1)

        def flat(x):
            return add_smoothed_norm(x.reshape(A.shape), np.zeros_like(A), 0.3, 0.1)

        assert value >= 0.3 * np.linalg.norm(A, axis=1).sum()
        np.testing.assert_allclose(gradient.ravel(), finite_differences(flat, A.ravel()), atol=1e-9)

    def test_latent_factors(self):
        K, mask = masked(8)
        problem = LatentObjective(K, mask, 2, 0.5, 0.2, 0.3, np.ones(3))
        x = np.random.default_rng(0).normal(size=problem._ends[-1])
        gradient = np.empty_like(x)
        problem.evaluate(x, gradient)
        differences = finite_differences(lambda z: problem.evaluate(z, np.empty_like(z)), x)
        np.testing.assert_allclose(gradient, differences, atol=1e-7 * np.abs(gradient).max())


class TestSteps:
    @given(seed=st.integers(0, 10**6), threshold=st.floats(0.01, 3.0))
    @settings(max_examples=10, deadline=None)
    def test_prox_of_the_rows(self, seed, threshold):
        import cvxpy as cp

        A = np.random.default_rng(seed).normal(size=(5, 4))
        X = cp.Variable(A.shape)
        cost = cp.sum_squares(X - A) / 2 + threshold * cp.sum(cp.norm(X, axis=1))
        cp.Problem(cp.Minimize(cost)).solve(solver=cp.CLARABEL)
        found = shrink_rows(A, threshold)
        np.testing.assert_allclose(found, X.value, atol=1e-4)
        short = np.linalg.norm(A, axis=1) <= threshold
        np.testing.assert_array_equal(found.any(axis=1), ~short)

    @given(seed=st.integers(0, 10**6), m=st.integers(2, 6), rank=st.integers(1, 8))
    @settings(max_examples=15, deadline=None)
    def test_weights_between_views(self, seed, m, rank):
        import cvxpy as cp

        V = np.random.default_rng(seed).normal(size=(m, rank))
        weights = simplex_least_squares(V @ V.T, 1)
        assert weights[1] == 0
        assert (weights >= 0).all()
        np.testing.assert_allclose(weights.sum(), 1, atol=1e-12)
        s = cp.Variable(m)
        cost = cp.sum_squares(V[1] - V.T @ s)
        constraints = [s >= 0, cp.sum(s) == 1, s[1] == 0]
        cp.Problem(cp.Minimize(cost), constraints).solve(solver=cp.CLARABEL)
        value = ((V[1] - V.T @ weights) ** 2).sum()
        assert value <= cost.value + 1e-7 * (1 + abs(cost.value))

    @pytest.mark.parametrize("single", [10**6, 1])
    @pytest.mark.parametrize("preconditioned", [False, True])
    def test_lbfgs_finds_minima(self, single, preconditioned, monkeypatch):
        monkeypatch.setattr(lbfgs, "SINGLE", single)

        def evaluate(x, gradient):
            gradient[:] = rosen_der(x)
            return rosen(x)

        def scale(x):
            x *= np.arange(1, 7)

        descent = LBFGS(evaluate, np.zeros(6), 5, scale if preconditioned else None)
        values = [descent.value]
        while descent.step() and len(values) < 500:
            values.append(descent.value)
        assert (np.diff(values) <= 0).all()
        np.testing.assert_allclose(descent.x, 1.0, atol=1e-5 if single > 1 else 1e-3)
        expected = minimize(rosen, np.zeros(6), jac=rosen_der, method="L-BFGS-B")
        assert len(values) < 3 * expected.nit

    def test_proximal_descent_solves_the_group_lasso(self):
        import cvxpy as cp

        rng = np.random.default_rng(0)
        D, T, lam = rng.normal(size=(12, 6)), rng.normal(size=(12, 3)), 8.0

        def evaluate(x, gradient):
            E = D @ x.reshape(6, 3) - T
            gradient[:] = (2 * D.T @ E).ravel()
            return float((E**2).sum())

        descent = ProximalDescent(evaluate, lambda x: [x.reshape(6, 3)], np.ones(18), lam)
        values = [descent.value]
        descent.drop_short_rows()
        for _ in range(400):
            values.append(descent.value)
            if not descent.step():
                break
        assert (np.diff(values) <= 0).all()
        X = cp.Variable((6, 3))
        cost = cp.sum_squares(D @ X - T) + lam * cp.sum(cp.norm(X, axis=1))
        cp.Problem(cp.Minimize(cost)).solve(solver=cp.CLARABEL)
        np.testing.assert_allclose(descent.value, cost.value, rtol=1e-7)
        kept = descent.x.reshape(6, 3).any(axis=1)
        assert 0 < kept.sum() < 6
        np.testing.assert_array_equal(kept, np.linalg.norm(X.value, axis=1) > 1e-4)


class TestSolver:
    @pytest.mark.parametrize("variant", VARIANTS)
    @pytest.mark.parametrize("lam2", [0.0, 0.3])
    def test_objective_falls(self, variant, lam2):
        K, mask = masked(14)
        found = solve_embedding(K, mask, lam1=0.3, lam2=lam2, tol=1e-5, **VARIANTS[variant])
        values = np.array([step.objective for step in found.history])
        assert (np.diff(values) <= 1e-12 * values[0]).all()
        assert values[-1] < values[0]
        assert found.history[-1].distance <= 1e-5

    @pytest.mark.parametrize("variant", VARIANTS)
    def test_solution_is_stationary(self, variant):
        K, mask = masked(8)
        lam2 = 0.4
        found = solve_embedding(
            K, mask, lam1=0.3, lam2=lam2, tol=1e-9, max_iter=3000, **VARIANTS[variant]
        )
        kind = variant.split(", no")[0]
        cls, options = PROBLEMS[kind]
        frozen = ~mask.all(axis=1) if "no self" in variant else None
        problem = cls(K, mask, list(found.basis), 0.3, frozen, **options)
        weights = list(found.weights)
        if kind == "hm":
            weights = [np.zeros((len(problem.blocks[0]), 8))]
            for A, b in zip(found.weights, found.basis, strict=True):
                weights[0][np.searchsorted(problem.blocks[0], b)] = A
        x = problem.pack(weights)
        problem.mix(x)
        np.testing.assert_allclose(problem.mixing, found.between, atol=1e-3)
        gradient = np.empty_like(x)
        smooth = problem.evaluate(x, gradient)
        norms = sum(np.linalg.norm(A, axis=1).sum() for A in problem.split(x))
        np.testing.assert_allclose(found.history[-1].objective, smooth + lam2 * norms, rtol=1e-9)
        for A, g in zip(problem.split(x), problem.split(gradient), strict=True):
            lengths = np.linalg.norm(A, axis=1)
            zero = lengths == 0
            assert (np.linalg.norm(g[zero], axis=1) <= lam2 * 1.01).all()
            rest = g[~zero] + lam2 * A[~zero] / lengths[~zero, None]
            assert np.abs(rest).max(initial=0.0) < 5e-3

    def test_more_weight_on_the_norm_means_fewer_basis_samples(self):
        K, mask = masked(20)
        sizes = [
            sum(map(len, solve_embedding(K, mask, lam2=lam2, tol=1e-5).selected))
            for lam2 in (0.1, 3.0, 10.0)
        ]
        assert sizes[0] > sizes[1] > sizes[2]

    def test_absent_entries_are_not_used(self):
        K, mask = masked(10)
        for options in VARIANTS.values():
            results = [
                solve_embedding(hide(K, mask, mask, value), mask, tol=1e-3, **options)
                for value in (0.0, np.nan)
            ]
            for one, other in zip(results[0].weights, results[1].weights, strict=True):
                np.testing.assert_array_equal(one, other)

    def test_prediction_from_the_other_views(self):
        K, mask = masked(10)
        found = solve_embedding(K, mask, tol=1e-3)
        absent = ~mask[:, 0]
        expected = np.zeros((absent.sum(), 10))
        for l in (1, 2):
            expected[:, found.basis[l]] += found.between[0, l] * found.weights[l][:, absent].T
        got = found.mixed_columns(0, absent, mask[:, 0])
        np.testing.assert_allclose(got, expected[:, mask[:, 0]], atol=1e-14)

    def test_one_view_has_no_coupling(self):
        K = unit(related_kernels(10, 1))
        mask = np.ones((10, 1), dtype=bool)
        results = [solve_embedding(K, mask, lam1=lam1, tol=1e-6) for lam1 in (0.0, 10.0)]
        np.testing.assert_array_equal(results[0].weights[0], results[1].weights[0])


class TestStarts:
    def test_transfer_is_the_fill_of_that_name(self):
        K, mask = masked(12)
        transfer = solve_transfer(K, mask)
        basis = [np.flatnonzero(o) for o in mask.T]
        rng = np.random.RandomState(0)
        start = own_start(K, mask, basis, transfer, init="transfer", self_weights=True, rng=rng)
        for m, (A, o) in enumerate(zip(start, mask.T, strict=True)):
            np.testing.assert_array_equal(A[:, o], np.eye(o.sum()))
            np.testing.assert_allclose(A[:, ~o].T, transfer.coefficients(K, mask, m)[0])

    def test_projection_on_a_basis_keeps_what_it_spans(self):
        K = unit(related_kernels(12, 2))  # of rank 5
        mask = np.ones((12, 2), dtype=bool)
        basis = [np.arange(7), np.arange(7)]
        rng = np.random.RandomState(0)
        start = own_start(
            K, mask, basis, solve_transfer(K, mask), init="transfer", self_weights=True, rng=rng
        )
        for A, kernel in zip(start, K, strict=True):
            np.testing.assert_allclose(A.T @ kernel[:7, :7] @ A, kernel, atol=1e-4)

    @pytest.mark.parametrize("shared", [False, True])
    def test_without_weight_in_oneself_others_stand_in(self, shared):
        K, mask = masked(12)
        basis, rng = [np.flatnonzero(o) for o in mask.T], np.random.RandomState(0)
        how = {"init": "transfer", "self_weights": False, "rng": rng}
        incomplete = np.flatnonzero(~mask.all(axis=1))
        if shared:
            starts = [shared_start(K, mask, basis, np.ones(3), **how)]
            blocks = [np.arange(12)]
        else:
            starts = own_start(K, mask, basis, solve_transfer(K, mask), **how)
            blocks = basis
        for A, b in zip(starts, blocks, strict=True):
            for t in np.intersect1d(incomplete, b):
                column = A[:, t]
                assert column[np.searchsorted(b, t)] == 0
                assert np.abs(column).max() > 0.05

    def test_basis_is_drawn_for_all_views_together(self):
        mask = random_mask(30, 4, share=0.5)
        basis = draw_basis(mask, 10, np.random.RandomState(0))
        together = np.unique(np.concatenate(basis))
        assert len(together) == 10
        for b, o in zip(basis, mask.T, strict=True):
            np.testing.assert_array_equal(b, together[o[together]])
        # a view that the draw would leave out gets a sample
        mask[:, 3] = False
        mask[7, 3] = True
        assert draw_basis(mask, 1, np.random.RandomState(1))[3].tolist() == [7]


class TestSparseBasis:
    @given(seed=st.integers(0, 10**6), b=st.integers(1, 10), rank=st.integers(1, 14))
    @settings(max_examples=20, deadline=None)
    def test_never_worse_than_nystroem_on_the_same_basis(self, seed, b, rank):
        rng = np.random.default_rng(seed)
        K = random_kernels(rng, 14, 1, rank=rank)[0][0]
        basis = rng.choice(14, b, replace=False)
        inner = np.linalg.pinv(K[np.ix_(basis, basis)], hermitian=True)
        nystroem = K[:, basis] @ inner @ K[basis]
        found = kq.completion.sparse_basis(K, basis=basis, tol=1e-5)
        np.testing.assert_array_equal(found.basis, np.sort(basis))
        error = np.linalg.norm(found.approximate(K) - K)
        assert error <= np.linalg.norm(nystroem - K) * (1 + 1e-9) + 1e-9 * np.linalg.norm(K)

    def test_reaches_the_best_approximation_of_its_rank(self):
        rng = np.random.default_rng(0)
        K = unit(random_kernels(rng, 15, 1, rank=15)[0])[0]
        found = kq.completion.sparse_basis(K, basis=np.arange(5), tol=1e-12, max_iter=5000)
        best = np.sqrt((np.linalg.eigvalsh(K)[:-5] ** 2).sum())
        error = np.linalg.norm(found.approximate(K) - K)
        assert best * (1 - 1e-9) <= error <= 1.001 * best

    def test_norm_selects_the_basis(self):
        K = related_kernels(30, 1)[0]  # of rank 5
        found = kq.completion.sparse_basis(K, 3.0)
        assert 4 <= len(found.basis) < 20
        assert found.weights.shape == (len(found.basis), 30)
        assert np.linalg.norm(found.approximate(K) - K) < 0.05 * np.linalg.norm(K)


def sdp_objective(X, K, mask, S, lam1, ridge):
    within = sum((((x - k)[np.ix_(o, o)]) ** 2).sum() for x, k, o in zip(X, K, mask.T, strict=True))
    C = X - np.tensordot(S, X, axes=1)
    return within + lam1 * (C**2).sum() + ridge * (X**2).sum()


class TestSDP:
    @pytest.mark.parametrize(("n", "lam1"), [(10, 0.1), (20, 1.0), (12, 0.01)])
    def test_equals_a_conic_solver(self, n, lam1):
        import cvxpy as cp

        K, mask = masked(n)
        rng = np.random.default_rng(0)
        S = rng.random((3, 3)) * (1 - np.eye(3))
        S /= S.sum(axis=1, keepdims=True)
        ridge = 1e-4
        found = kq.completion.solve_sdp(
            K, mask, lam1=lam1, ridge=ridge, between=S, tol=1e-11, max_iter=20000
        )
        np.testing.assert_array_equal(found.between, S)
        X = [cp.Variable((n, n), PSD=True) for _ in range(3)]
        cost = ridge * sum(cp.sum_squares(x) for x in X)
        for m, o in enumerate(np.flatnonzero(column) for column in mask.T):
            cost += cp.sum_squares(X[m][np.ix_(o, o)] - K[m][np.ix_(o, o)])
            cost += lam1 * cp.sum_squares(X[m] - sum(S[m, l] * X[l] for l in range(3)))
        # as cones: cvxpy 1.6 misses the optimum of this objective as a quadratic form
        cp.Problem(cp.Minimize(cost)).solve(solver=cp.CLARABEL, use_quad_obj=False)
        value = sdp_objective(found.kernels, K, mask, S, lam1, ridge)
        np.testing.assert_allclose(found.history[-1].objective, value, rtol=1e-10)
        np.testing.assert_allclose(value, cost.value, rtol=1e-6)
        assert_psd(found.kernels, 1e-12)

    def test_objective_falls_while_weights_are_learned(self):
        K, mask = masked(15)
        found = kq.completion.solve_sdp(K, mask, lam1=0.5, tol=1e-8)
        values = np.array([step.objective for step in found.history])
        assert (np.diff(values) <= 1e-12 * values[0]).all()
        np.testing.assert_allclose(found.between.sum(axis=1), 1.0)
        assert not found.between.diagonal().any()
        value = sdp_objective(found.kernels, K, mask, found.between, 0.5, 1e-8)
        np.testing.assert_allclose(values[-1], value, rtol=1e-10)

    def test_what_nothing_determines_tends_to_zero_and_is_told(self):
        # samples 0-4 and 5-9 are never observed together
        mask = np.ones((10, 2), dtype=bool)
        mask[:5, 0] = mask[5:, 1] = False
        K = hide(unit(related_kernels(10, 2)), mask, mask, 0.0)
        with pytest.warns(UserWarning, match="'kernel_0', 'kernel_1'.*in common"):
            model = kq.completion.SDPCompletion().fit(KernelStack(K, mask))
        expected = np.zeros((10, 10), dtype=bool)
        expected[:5, 5:] = expected[5:, :5] = True
        np.testing.assert_array_equal(model.undetermined_, expected)
        found = kq.completion.solve_sdp(K, mask, lam1=1.0, ridge=0.1, tol=1e-10, max_iter=20000)
        assert np.abs(found.kernels[:, :5, 5:]).max() < 1e-3


class TestLatentFactors:
    def test_objective_falls(self):
        K, mask = masked(14)
        found = kq.completion.solve_latent_factors(K, mask, 3)
        values = np.array([step.objective for step in found.history])
        assert (np.diff(values) <= 0).all()

    def test_recovers_kernels_of_shared_factors(self):
        rng = np.random.default_rng(0)
        F = rng.normal(size=(40, 3))
        K = np.array([F @ np.diag(rng.uniform(0.5, 2, 3)) @ F.T for _ in range(4)])
        mask = random_mask(40, 4, share=0.7)
        model = kq.completion.LatentFactorCompletion(3, coupling=0.1, ridge=1e-3, lam=1e-3)
        filled = model.fit_transform(KernelStack(K, mask))
        assert kq.metrics.average_relative_error(K, filled, mask) < 5
        assert model.factors_.shape == (40, 3)
        assert (model.factor_norms_ > 0.1).all()


@every_completer
class TestEveryVariant:
    @pytest.mark.parametrize("normalise", [unit, np.asarray], ids=["unit_diagonal", "any"])
    def test_output(self, model, normalise):
        K, mask = normalise(related_kernels()), random_mask()
        stack = KernelStack(hide(K, mask, mask, np.nan), mask)[:18]
        model = clone(model)
        train = model.fit_transform(stack)
        assert_psd(train.gram())
        if normalise is unit:
            np.testing.assert_allclose(train.diag, 1.0, rtol=1e-15)
        if getattr(model, "exact_observed", True):
            for got, k, o in zip(train.gram(), K, mask[:18].T, strict=True):
                o = np.flatnonzero(o)
                np.testing.assert_array_equal(got[np.ix_(o, o)], k[np.ix_(o, o)])
        again = clone(model).fit(stack).transform(stack)
        np.testing.assert_allclose(again.gram(), train.gram(), atol=1e-10)
        np.testing.assert_allclose(again.diag, train.diag, atol=1e-10)

    def test_absent_entries_are_never_used(self, model):
        K, mask = related_kernels(), random_mask()
        outputs = []
        for value in (np.nan, 0.0, 1e9):
            stack = KernelStack(hide(K, mask, mask, value), mask)
            fitted = clone(model)
            train, test = fitted.fit_transform(stack[:16]), fitted.transform(stack[16:])
            outputs.append((train.gram(), test.gram(), test.diag))
        for output in outputs[1:]:
            for got, expected in zip(output, outputs[0], strict=True):
                np.testing.assert_array_equal(got, expected)

    def test_permuting_views_permutes_the_output(self, model):
        if model.get_params().get("init") == "random":
            pytest.skip("the start is drawn view by view")
        K, mask = unit(related_kernels()), random_mask()
        order = [2, 0, 1]
        one, other = clone(model), clone(model)
        expected = one.fit_transform(KernelStack(K, mask)).gram()[order]
        got = other.fit_transform(KernelStack(K[order], mask[:, order])).gram()
        np.testing.assert_allclose(got, expected, atol=1e-6)
        if hasattr(one, "between_weights_"):
            np.testing.assert_allclose(
                other.between_weights_, one.between_weights_[np.ix_(order, order)], atol=1e-6
            )

    def test_scale_of_a_kernel_does_not_matter(self, model):
        K, mask = related_kernels(), random_mask()
        factor = np.array([1e-6, 1.0, 1e6])[:, None, None]
        one = clone(model).fit_transform(KernelStack(K, mask)).gram()
        other = clone(model).fit_transform(KernelStack(factor * K, mask)).gram() / factor
        np.testing.assert_allclose(other, one, atol=1e-5)

    def test_pairs_that_nothing_determines(self, model):
        mask = random_mask()
        mask[3:6] = [True, False, False]
        mask[6:8] = [False, True, True]
        mask[9] = False
        with pytest.warns(UserWarning, match="no observed kernel"):
            fitted = clone(model).fit(KernelStack(related_kernels(), mask))
        expected = ~(mask[:, None] & mask).any(axis=2)
        assert expected[3, 6]
        np.testing.assert_array_equal(fitted.undetermined_, expected)

    def test_kernel_with_two_samples_is_named(self, model):
        K, mask = unit(related_kernels()), random_mask()
        mask[2:, 1] = False
        mask[:, 0] = True
        stack = KernelStack(K, mask, names=["mri", "rna", "dna"])
        with pytest.warns(UserWarning, match=r"fewer than 3 of 24 .* 'rna'"):
            completed = clone(model).fit_transform(stack)
        assert_psd(completed.gram())

    def test_views_without_a_common_sample_are_named(self, model):
        K, mask = unit(related_kernels()), random_mask()
        mask[:, 2] = False
        mask[:12, 2] = True
        mask[:12, :2] = False
        mask[12:, :2] |= ~mask[12:, :2].any(axis=1, keepdims=True)
        with pytest.warns(UserWarning, match=r"kernels 'kernel_2' have none of the 24"):
            completed = clone(model).fit_transform(KernelStack(K, mask))
        assert np.isfinite(completed.gram()).all()
        assert_psd(completed.gram())


class TestEmbeddingCompletion:
    def test_kernels_that_are_zero(self):
        stack = KernelStack(np.zeros((3, 24, 24)), random_mask())
        for model in (
            kq.completion.EmbeddingCompletion(),
            kq.completion.EmbeddingCompletion(sharing="homogeneous"),
            kq.completion.EmbeddingCompletion(basis="random"),
            kq.completion.ApproximationCompletion(),
        ):
            assert not model.fit_transform(stack).gram().any()

    def test_attributes(self):
        mask = np.insert(random_mask(m=3), 1, False, axis=1)
        mask[5] = False
        K = unit(related_kernels(m=4))
        with pytest.warns(UserWarning, match="observed kernel|absent for all"):
            model = kq.completion.EmbeddingCompletion(lam2=5.0, tol=1e-4).fit(KernelStack(K, mask))
        assert model.converged_
        assert model.n_iter_ == len(model.history_)
        assert model.between_weights_.shape == (4, 4)
        np.testing.assert_allclose(model.between_weights_.sum(axis=1), [1, 0, 1, 1])
        assert not model.between_weights_[:, 1].any()
        for basis, o in zip(model.basis_, mask.T, strict=True):
            assert set(basis) <= set(np.flatnonzero(o))
        assert len(model.basis_[1]) == 0
        assert 0 < len(model.basis_[0]) < mask[:, 0].sum()

    @pytest.mark.parametrize("exact", [True, False])
    def test_samples_that_occur_twice_from_a_random_start(self, exact):
        stack = KernelStack(unit(related_kernels()), random_mask())[np.r_[np.arange(24), 4, 9, 4]]
        model = kq.completion.EmbeddingCompletion(
            init="random", exact_observed=exact, tol=1e-2, random_state=0
        )
        got = model.fit_transform(stack).gram()
        np.testing.assert_allclose(got[:, 24:], got[:, [4, 9, 4]], atol=1e-12)
        np.testing.assert_allclose(model.transform(stack).gram(), got, atol=1e-12)

    def test_views_that_share_weights_have_no_mixture(self):
        model = kq.completion.EmbeddingCompletion(sharing="homogeneous", predict="between")
        with pytest.raises(ValueError, match="sharing='homogeneous'"):
            model.fit(KernelStack(related_kernels(), random_mask()))
        assert not hasattr(model, "training_rows_")

    def test_random_basis_has_half_of_the_samples(self):
        K, mask = unit(related_kernels()), random_mask()
        model = kq.completion.EmbeddingCompletion(basis="random", random_state=0, tol=1e-3)
        model.fit(KernelStack(K, mask))
        assert len(np.unique(np.concatenate(model.basis_))) == 12

    def test_new_samples_mix_the_regressions_of_their_views(self):
        K, mask = unit(related_kernels()), random_mask()
        mask[20] = [False, True, True]
        model = kq.completion.EmbeddingCompletion(tol=1e-3)
        train = model.fit_transform(KernelStack(K[:, :16, :16], mask[:16])).gram()
        new = model.transform(KernelStack(K[:, [20], :16], mask[[20]])).gram()[0, 0]
        coef, o = np.zeros(16), np.flatnonzero(mask[:16, 0])
        for l in (1, 2):
            J = np.flatnonzero(mask[:16, 0] & mask[:16, l])
            ridge = K[l][np.ix_(J, J)] + 1 + 0.1 * np.eye(len(J))
            s = model.between_weights_[0, l] / model.between_weights_[0, 1:].sum()
            coef[J] += s * np.linalg.solve(ridge, K[l, 20, J] + 1)
        length = max(1.0, np.sqrt(coef @ K[0, :16, :16] @ coef))
        np.testing.assert_allclose(new, coef[o] @ train[0][o] / length, atol=1e-10)

    def test_without_agreement_absent_samples_stay_where_they_start(self):
        K, mask = masked(14)
        weights = solve_embedding(K, mask, lam1=0.0, lam2=0.0, tol=1e-8).weights
        start = own_start(
            K,
            mask,
            [np.flatnonzero(o) for o in mask.T],
            solve_transfer(K, mask),
            init="transfer",
            self_weights=True,
            rng=np.random.RandomState(0),
        )
        for A, B, o in zip(weights, start, mask.T, strict=True):
            np.testing.assert_allclose(A[:, ~o], B[:, ~o], atol=1e-12)


class TestSearch:
    def stack(self):
        return KernelStack(unit(related_kernels(20)), random_mask(20, share=0.8))

    def test_chooses_the_candidate_that_restores_what_was_hidden(self):
        stack = self.stack()
        grid = {"eps": [1e-3, 0.1, 100.0], "constant": [0.0, 1.0]}
        search = kq.completion.CompletionSearchCV(kq.TransferFill(), grid, random_state=0)
        completed = search.fit_transform(stack)
        scores = search.cv_results_["mean_test_score"]
        assert search.best_index_ == scores.argmax()
        assert search.best_score_ == scores.max() < 0
        assert search.best_params_ == search.cv_results_["params"][search.best_index_]
        assert search.cv_results_["rank_test_score"][search.best_index_] == 1
        assert search.best_params_["eps"] < 100
        splits = np.array([search.cv_results_[f"split{k}_test_score"] for k in range(3)])
        np.testing.assert_allclose(splits.mean(axis=0), scores)
        best = kq.TransferFill(**search.best_params_)
        np.testing.assert_array_equal(completed.gram(), best.fit_transform(stack).gram())
        np.testing.assert_array_equal(search.transform(stack).gram(), best.transform(stack).gram())
        assert search.n_features_in_ == 3

    def test_score_is_the_error_on_hidden_rows(self):
        from kernelquilt.completion.search import hide_cells

        stack = self.stack()
        K, observed = stack.gram(), stack.observed
        search = kq.completion.CompletionSearchCV(
            kq.completion.MeanFill(), {}, n_splits=1, random_state=3
        ).fit(stack)
        mask = hide_cells(observed, 0.15, np.random.RandomState(3))
        filled = kq.completion.MeanFill().fit_transform(KernelStack(K, mask)).gram()
        errors = []
        for m, o in enumerate(observed.T):
            hidden = np.flatnonzero(o & ~mask[:, m])
            o = np.flatnonzero(o)
            if len(hidden):
                rows, true = filled[m][hidden][:, o], K[m][hidden][:, o]
                norms = np.linalg.norm(true, axis=1)
                errors.append(100 * np.mean(np.linalg.norm(rows - true, axis=1) / norms))
        np.testing.assert_allclose(search.best_score_, -np.mean(errors))

    @given(seed=st.integers(0, 10**6), share=st.floats(0.05, 0.95))
    @settings(max_examples=25, deadline=None)
    def test_hidden_cells_leave_enough(self, seed, share):
        from kernelquilt.completion.search import hide_cells

        observed = random_mask(15, 4, seed, 0.5)
        mask = hide_cells(observed, share, np.random.RandomState(seed))
        assert not (mask & ~observed).any()
        assert mask.any(axis=1).all()
        assert (mask.sum(axis=0) >= np.minimum(observed.sum(axis=0), 3)).all()
        assert 0 < (observed & ~mask).sum() <= max(1, round(share * observed.sum()))

    def test_absent_entries_are_never_used(self):
        K, mask = unit(related_kernels(20)), random_mask(20, share=0.8)
        scores = []
        for value in (np.nan, 0.0, 1e9):
            search = kq.completion.CompletionSearchCV(
                kq.completion.KNNFill(), {"n_neighbors": [1, 3]}, random_state=0
            )
            search.fit(KernelStack(hide(K, mask, mask, value), mask))
            scores.append(search.cv_results_["mean_test_score"])
        np.testing.assert_array_equal(scores[1], scores[0])
        np.testing.assert_array_equal(scores[2], scores[0])

    def test_rows_that_are_zero_are_not_hidden(self):
        K, mask = unit(related_kernels(20)), random_mask(20, share=0.8)
        K[1] = 0.0
        K[2, 5], K[2, :, 5] = 0.0, 0.0
        search = kq.completion.CompletionSearchCV(
            kq.TransferFill(), {"eps": [0.01, 1.0]}, hidden=0.9, random_state=0
        )
        assert np.isfinite(search.fit(KernelStack(K, mask)).cv_results_["mean_test_score"]).all()
        with pytest.raises(ValueError, match=r"none can be hidden: .* or zero"):
            search.fit(KernelStack(np.zeros_like(K), mask))

    def test_result_does_not_depend_on_the_number_of_processes(self):
        scores = []
        for n_jobs in (None, 2):
            search = kq.completion.CompletionSearchCV(
                kq.TransferFill(), {"eps": [0.01, 1.0]}, n_jobs=n_jobs, random_state=0
            )
            scores.append(search.fit(self.stack()).cv_results_["mean_test_score"])
        np.testing.assert_array_equal(*scores)

    def test_only_the_chosen_completer_warns(self):
        stack = self.stack()
        observed = stack.observed.copy()
        observed[4] = False
        stack = KernelStack(stack.gram(), observed)
        search = kq.completion.CompletionSearchCV(
            kq.TransferFill(), {"eps": [0.01, 1.0]}, random_state=0
        )
        with pytest.warns(UserWarning, match="1 of 20 training samples have no") as caught:
            search.fit(stack)
        assert len(caught) == 1

    def test_in_a_pipeline(self):
        from sklearn.pipeline import make_pipeline

        stack, y = self.stack(), np.arange(20) % 2
        search = kq.completion.CompletionSearchCV(
            kq.TransferFill(), {"eps": [0.1, 1.0]}, random_state=0
        )
        model = make_pipeline(clone(search), kq.SimpleMKLClassifier()).fit(stack, y)
        assert model.predict(stack).shape == (20,)
        assert not search.__sklearn_tags__().input_tags.two_d_array

    def test_errors(self):
        mask = np.eye(3, dtype=bool)
        stack = KernelStack(unit(related_kernels(3)), mask)
        search = kq.completion.CompletionSearchCV(kq.TransferFill(), {"eps": [0.1]})
        with pytest.raises(ValueError, match="none can be hidden"):
            search.fit(stack)
        assert not hasattr(search, "cv_results_")
        with pytest.raises(ValueError, match="'hidden' parameter"):
            clone(search).set_params(hidden=1.5).fit(self.stack())
        search = kq.completion.CompletionSearchCV(kq.TransferFill(), {"eps": [0.1]}, refit=False)
        with pytest.raises(ValueError, match="refit=False"):
            search.fit_transform(self.stack())
        assert search.fit(self.stack()).best_params_ == {"eps": 0.1}
        with pytest.raises(NotFittedError, match="fitted with refit=False"):
            search.transform(self.stack())
