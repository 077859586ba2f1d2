"""Kernel ridge regression, its leave-one-out scores, and stacking, against brute force."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import approx_fprime, minimize

from kernelquilt.quilt.space.ridge import (
    PENALTIES,
    fit_feature_ridge,
    fit_ridge,
    solve_ridge_loo,
    solve_spectral_loo,
)
from kernelquilt.quilt.space.search import CLOSE, least_near
from kernelquilt.quilt.stacking import (
    PENALTY,
    RELATIVE,
    solve_linear_stacking,
    solve_softmax_stacking,
)
from problems import random_kernels


def ridge(K, Y, lam, weight):
    """Return the coefficients by the normal equations of the samples that count."""
    used = weight > 0
    coef = np.zeros(Y.shape)
    coef[used] = np.linalg.solve(K[np.ix_(used, used)] + np.diag(lam / weight[used]), Y[used])
    return coef


@given(st.integers(0, 10**6), st.integers(4, 15), st.integers(1, 4))
@settings(max_examples=40, deadline=None)
def test_leave_one_out_equals_refitting(seed, n, c):
    rng = np.random.default_rng(seed)
    K = random_kernels(rng, n, 1, rank=int(rng.integers(1, n + 1)))[0][0] + 1.0
    Y = rng.standard_normal((n, c))
    weight = rng.uniform(0.1, 3.0, n)
    weight[rng.random(n) < 0.2] = 0.0
    weight[:2] = 1.0
    share = rng.uniform(0.1, 1.0, n)
    fit = solve_ridge_loo(K, Y, sample_weight=weight, held_out=share)
    np.testing.assert_allclose(fit.coef, ridge(K, Y, fit.lam, weight), atol=1e-7)
    for lam, error in zip(PENALTIES, fit.errors, strict=True):
        total = 0.0
        for i in range(n):
            without = weight.copy()
            without[i] *= 1.0 - share[i]
            without[i] = 0.0 if share[i] == 1.0 else without[i]
            score = K[i] @ ridge(K, Y, lam, without)
            total += weight[i] * np.square(Y[i] - score).sum()
            if lam == fit.lam:
                np.testing.assert_allclose(fit.loo[i], score, atol=1e-6)
        assert error == pytest.approx(total / weight.sum(), rel=1e-6)
    assert fit.error == fit.errors.min()


def test_weights_are_repetitions_when_one_copy_is_held_out():
    rng = np.random.default_rng(0)
    K = random_kernels(rng, 12, 1)[0][0]
    Y = rng.standard_normal((12, 2))
    counts = rng.integers(0, 4, 12)
    where = np.repeat(np.arange(12), counts)
    one = fit_ridge(K, Y, sample_weight=counts.astype(float), held_out=1.0 / np.maximum(counts, 1))
    other = fit_ridge(K[np.ix_(where, where)], Y[where])
    assert one.fit.lam == other.fit.lam
    np.testing.assert_allclose(one.fit.loo[where], other.fit.loo, atol=1e-10)
    np.testing.assert_allclose(one.scores(K), other.scores(K[:, where]), atol=1e-10)


@pytest.mark.parametrize("seed", range(4))
def test_penalties_of_many_samples_are_searched(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(300, 3))
    K = np.exp(-np.square(x[:, None] - x).sum(axis=2) / 3) + 1.0
    Y = np.c_[x[:, 0] * x[:, 1], x[:, 2]] + [0.1, 1.0, 3.0, 10.0][seed] * rng.normal(size=(300, 2))
    weight, share = rng.integers(0, 3, 300).astype(float), rng.uniform(0.1, 1.0, 300)
    every = solve_ridge_loo(K, Y, sample_weight=weight, held_out=share)
    monkeypatch.setattr("kernelquilt.quilt.space.ridge.MANY", 100)
    monkeypatch.setattr("kernelquilt.quilt.space.ridge.FEW", 70)
    some = solve_ridge_loo(K, Y, sample_weight=weight, held_out=share)
    assert some.lam == every.lam
    tried = np.isfinite(some.errors)
    assert tried.sum() < 8
    np.testing.assert_allclose(some.errors[tried], every.errors[tried], rtol=1e-8)
    np.testing.assert_allclose(some.loo, every.loo, atol=1e-8)
    np.testing.assert_allclose(some.coef, every.coef, atol=1e-6)


def test_an_indefinite_kernel_of_many_samples_needs_all_eigenvectors(monkeypatch):
    rng = np.random.default_rng(0)
    K, Y = random_kernels(rng, 60, 1)[0][0] - 40.0 * np.eye(60), rng.normal(size=(60, 1))
    every = solve_ridge_loo(K, Y)
    monkeypatch.setattr("kernelquilt.quilt.space.ridge.MANY", 10)
    np.testing.assert_array_equal(solve_ridge_loo(K, Y).loo, every.loo)


def settled(errors):
    return lambda k: (errors[k], str(k))


def never(k):
    return None


@given(
    st.lists(st.floats(0.1, 5), min_size=1, max_size=12),
    st.integers(0, 11),
    st.lists(st.floats(-0.9, 0.9), min_size=12, max_size=12),
)
def test_the_search_ends_where_neighbours_are_no_better(errors, start, wrong):
    known = [error * (1.0 + CLOSE / 4 * by) for error, by in zip(errors, wrong, strict=False)]
    for rough in (never, lambda k: known[k]):
        place, found = least_near(rough, settled(errors), len(errors), start % len(errors))
        assert found == str(place)
        assert errors[place] == min(errors[max(place - 1, 0) : place + 2])
    falling = sorted(errors, reverse=True)
    place, _ = least_near(never, settled(falling), len(errors), 0)
    assert falling[place] == falling[-1] or falling[place] == falling[place + 1]


def test_only_the_best_and_what_is_close_to_it_is_settled():
    errors, asked = [5.0, 3.0, 2.0, 2.00001, 4.0], []

    def exact(k):
        asked.append(k)
        return errors[k], k

    assert least_near(lambda k: errors[k], exact, 5, 0) == (2, 2)
    assert sorted(asked) == [2, 3]
    asked.clear()
    assert least_near(lambda k: errors[k] + (k == 3), exact, 5, 4) == (2, 2)
    assert asked == [2]


def test_low_rank_eigenvectors_suffice():
    rng = np.random.default_rng(1)
    Z = rng.standard_normal((30, 5))
    Y = rng.standard_normal((30, 2))
    weight = rng.uniform(0.5, 2.0, 30)
    U, root, _ = np.linalg.svd(np.sqrt(weight)[:, None] * Z, full_matrices=False)
    low = solve_spectral_loo(U, root**2, Y, PENALTIES, weight)
    full = solve_ridge_loo(Z @ Z.T, Y, sample_weight=weight)
    np.testing.assert_allclose(low.errors, full.errors, rtol=1e-9)
    np.testing.assert_allclose(low.loo, full.loo, atol=1e-9)
    np.testing.assert_allclose(low.coef, full.coef, atol=1e-8)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("size", [1e-1, 1e-3, 3e-5])
def test_a_direction_that_hardly_matters_does_not_blur_leave_one_out_scores(seed, size):
    rng = np.random.default_rng(seed)
    Z = rng.standard_normal((20, 6))
    Z[:, 5] = 0.0
    Z[3, 5] = size  # of one sample alone, whose direction is known to rounding / size^2
    Y = rng.standard_normal((20, 2))
    ones = np.ones(20)
    _, fit = fit_feature_ridge(Z, Y, sample_weight=ones, held_out=ones)
    other = fit_ridge(Z @ Z.T, Y).fit
    assert fit.lam == other.lam
    np.testing.assert_allclose(fit.errors, other.errors, rtol=1e-10)
    np.testing.assert_allclose(fit.loo, other.loo, atol=1e-10)


def test_the_scale_of_the_kernel_does_not_matter():
    rng = np.random.default_rng(2)
    K = random_kernels(rng, 20, 1)[0][0]
    Y = rng.standard_normal((20, 1))
    one, other = fit_ridge(K, Y), fit_ridge(1e3 * K, Y)
    np.testing.assert_allclose(one.scores(K), other.scores(1e3 * K), atol=1e-10)
    np.testing.assert_allclose(one.scores(np.zeros((1, 20)))[0], one.bias)


def stack_problem(seed, J=3, n=40, c=3):
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, c, n)
    codes[:c] = np.arange(c)
    strength = rng.uniform(-0.5, 2.0, J)
    F = rng.standard_normal((J, n, c)) + strength[:, None, None] * np.eye(c)[codes]
    return F, codes, rng.uniform(0.0, 2.0, n)


def stack_value(x, F, codes, weight):
    J = len(F)
    z = np.tensordot(x[:J], F, axes=1) + x[J:]
    log_p = z - np.log(np.exp(z).sum(axis=1, keepdims=True))
    loss = -(weight @ log_p[np.arange(len(codes)), codes]) / weight.sum()
    penalty = PENALTY * (RELATIVE * x[:J] @ x[:J] + x[J:] @ x[J:])
    return loss + penalty + 0.05 * x[:J] @ x[:J] / weight.sum()


@pytest.mark.parametrize("seed", range(8))
def test_softmax_stack_is_the_optimum_from_every_start(seed):
    F, codes, weight = stack_problem(seed)
    J, _, c = F.shape
    stack = solve_softmax_stacking(F, codes, sample_weight=weight)
    x = np.r_[stack.weights, stack.bias]
    assert (stack.weights >= 0).all()
    assert stack.objective == pytest.approx(stack_value(x, F, codes, weight), rel=1e-12)
    gradient = approx_fprime(x, stack_value, 1e-7, F, codes, weight)
    assert np.abs(gradient[x > 0]).max() < 1e-5
    assert (gradient[:J][stack.weights == 0] > -1e-5).all()
    bounds = [(0, None)] * J + [(None, None)] * c
    reference = minimize(
        stack_value, np.r_[np.ones(J), np.zeros(c)], (F, codes, weight), bounds=bounds
    )
    assert stack.objective <= reference.fun + 1e-12
    rng = np.random.default_rng(seed)
    for _ in range(4):
        start = np.r_[rng.uniform(0, 10, J), rng.normal(0, 3, c)]
        again = solve_softmax_stacking(F, codes, sample_weight=weight, start=start)
        np.testing.assert_allclose(again.weights, stack.weights, atol=1e-8)
        np.testing.assert_allclose(again.bias, stack.bias, atol=1e-8)


def test_few_samples_give_modest_probabilities():
    F, codes, _ = stack_problem(0)
    F[0] = np.eye(3)[codes]
    many = solve_softmax_stacking(np.tile(F, (1, 50, 1)), np.tile(codes, 50))
    few = solve_softmax_stacking(F, codes)
    assert few.weights[0] < 0.8 * many.weights[0]
    weighted = solve_softmax_stacking(F, codes, sample_weight=np.full(len(codes), 50.0))
    np.testing.assert_allclose(weighted.weights, many.weights, atol=1e-8)


def test_separable_scores_and_useless_experts():
    F, codes, _ = stack_problem(0)
    F[0] = 10 * np.eye(3)[codes]
    F[1] = -F[0]
    F[2] = 0.0
    stack = solve_softmax_stacking(F, codes)
    assert stack.weights[1] == 0
    assert stack.weights[2] == 0
    assert stack.residual < 1e-9
    proba = stack.proba(F)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    assert (proba.argmax(axis=1) == codes).all()


@pytest.mark.parametrize("seed", range(5))
def test_linear_stack_equals_the_normal_equations(seed):
    rng = np.random.default_rng(seed)
    F = rng.standard_normal((4, 30))
    y = F[0] - F[1] + 2.0 + 0.1 * rng.standard_normal(30)
    weight = rng.uniform(0.0, 2.0, 30)
    stack = solve_linear_stacking(F, y, sample_weight=weight)

    def value(x):
        loss = weight @ np.square(y - x[:4] @ F - x[4]) / weight.sum()
        return loss + PENALTY * (RELATIVE * x[:4] @ x[:4] + x[4] ** 2)

    bounds = [(0, None)] * 4 + [(None, None)]
    reference = minimize(value, np.zeros(5), bounds=bounds, tol=1e-14)
    assert stack.weights[1] == 0
    assert value(np.r_[stack.weights, stack.bias]) == pytest.approx(stack.objective, rel=1e-10)
    assert stack.objective <= reference.fun + 1e-12
    np.testing.assert_allclose(stack.combine(F[:, :, None])[:, 0], stack.weights @ F + stack.bias)
