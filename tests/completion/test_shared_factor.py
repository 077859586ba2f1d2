"""The shared factor: likelihood, closed form without absence, new samples."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kernelquilt as kq
from holes import assert_psd, gaussian_kernels, hide, random_mask, related_kernels, unit
from kernelquilt.data.stack import KernelStack
from kernelquilt.metrics import average_relative_error
from problems import random_kernels


def likelihood(K, mask, W, noise):
    """Return the objective with full matrices."""
    C = W @ W.T + noise * np.eye(len(W))
    total = 0.0
    for kernel, v in zip(K, mask.T, strict=True):
        inner = C[np.ix_(v, v)]
        total += np.trace(np.linalg.solve(inner, kernel[np.ix_(v, v)]))
        total += np.linalg.slogdet(inner)[1]
    return total / mask.sum()


class TestSolver:
    @given(seed=st.integers(0, 10**6), share=st.floats(0.3, 1.0), rank=st.integers(1, 12))
    @settings(max_examples=15, deadline=None)
    def test_objective_is_the_likelihood_and_never_increases(self, seed, share, rank):
        rng = np.random.default_rng(seed)
        K, mask = unit(random_kernels(rng, 12, 3)[0]), random_mask(12, 3, seed, share)
        found = kq.completion.solve_shared_factor(K, mask, rank, tol=1e-9, max_iter=60)
        values = np.array([step.objective for step in found.history])
        assert (np.diff(values) <= 1e-10 * np.abs(values).max()).all()
        expected = likelihood(K, mask, found.factor, found.noise)
        np.testing.assert_allclose(values[-1], expected, rtol=1e-8)

    def test_equals_principal_components_without_absence(self):
        K = gaussian_kernels(20, 3)
        found = kq.completion.solve_shared_factor(
            K, np.ones((20, 3), dtype=bool), 4, tol=1e-14, max_iter=5000
        )
        values, vectors = np.linalg.eigh(K.mean(axis=0))
        noise = values[:16].mean()
        np.testing.assert_allclose(found.noise, noise, rtol=1e-5)
        C = (vectors[:, 16:] * (values[16:] - noise)) @ vectors[:, 16:].T
        np.testing.assert_allclose(found.factor @ found.factor.T, C, atol=1e-4)

    def test_ends_where_the_gradient_is_zero(self):
        K, mask = gaussian_kernels(14, 3), random_mask(14, 3)
        found = kq.completion.solve_shared_factor(K, mask, 2, tol=1e-14, max_iter=5000)
        step = 1e-5
        for i, j in [(0, 0), (3, 1), (9, 0), (13, 1)]:
            values = []
            for sign in (1, -1):
                W = found.factor.copy()
                W[i, j] += sign * step
                values.append(likelihood(K, mask, W, found.noise))
            assert abs(values[0] - values[1]) / (2 * step) < 1e-5
        lower, upper = (likelihood(K, mask, found.factor, found.noise * f) for f in (0.999, 1.001))
        assert min(lower, upper) >= found.history[-1].objective - 1e-12

    def test_kernels_of_the_rank_asked_for(self):
        # the noise goes to its floor, where nothing may break
        K = unit(random_kernels(np.random.default_rng(0), 20, 1, rank=3)[0].repeat(3, axis=0))
        mask = random_mask(20, 3, share=0.7)
        model = kq.completion.SharedFactorCompletion(3, tol=1e-8)
        Z = model.fit_transform(KernelStack(K, mask)).gram()
        np.testing.assert_allclose(Z, K, atol=1e-2)
        assert model.noise_ <= 1e-4


class TestCompletion:
    def test_is_the_expectation_under_the_model(self):
        K, mask = related_kernels(), random_mask()
        sizes = [np.diag(k)[v].mean() for k, v in zip(K, mask.T, strict=True)]
        model = kq.completion.SharedFactorCompletion(4)
        got = model.fit_transform(KernelStack(K, mask)).gram()
        C = model.factor_ @ model.factor_.T + model.noise_ * np.eye(24)
        for kernel, v, size, filled in zip(K, mask.T, sizes, got, strict=True):
            known = kernel[np.ix_(v, v)]
            X = np.linalg.solve(C[np.ix_(v, v)], C[np.ix_(v, ~v)])
            R = C[np.ix_(~v, ~v)] - C[np.ix_(~v, v)] @ X
            np.testing.assert_allclose(filled[np.ix_(v, ~v)], known @ X, atol=1e-9)
            inner = X.T @ known @ X + size * R
            np.testing.assert_allclose(filled[np.ix_(~v, ~v)], inner, atol=1e-9)
        np.testing.assert_array_equal(hide(got, mask, mask, 0.0), hide(K, mask, mask, 0.0))

    def test_permuting_kernels_permutes_the_output(self):
        K, mask = gaussian_kernels(24, 4), random_mask(24, 4)
        order = [2, 0, 3, 1]
        expected = (
            kq.completion.SharedFactorCompletion().fit_transform(KernelStack(K, mask)).gram()[order]
        )
        got = kq.completion.SharedFactorCompletion().fit_transform(
            KernelStack(K[order], mask[:, order])
        )
        np.testing.assert_allclose(got.gram(), expected, atol=1e-8)

    def test_unit_diagonal_and_accuracy(self):
        K, mask = gaussian_kernels(60, 4, noise=0.1), random_mask(60, 4)
        stack = KernelStack(K, mask)
        filled = kq.completion.SharedFactorCompletion().fit_transform(stack)
        np.testing.assert_allclose(filled.diag, 1.0, atol=1e-12)
        assert_psd(filled.gram())
        mean = average_relative_error(K, kq.completion.MeanFill().fit_transform(stack), mask)
        assert average_relative_error(K, filled, mask) < 0.5 * mean

    def test_new_samples_are_as_good_as_in_a_joint_fit(self):
        K, mask = gaussian_kernels(80, 4, noise=0.1), random_mask(80, 4)
        stack, true = KernelStack(K, mask), K[:, 60:, :60]
        new = kq.completion.SharedFactorCompletion().fit(stack[:60]).transform(stack[60:])
        joint = kq.completion.SharedFactorCompletion().fit_transform(stack).gram()[:, 60:, :60]
        errors = [average_relative_error(true, Z, mask[60:]) for Z in (new, joint)]
        assert errors[0] < 1.1 * errors[1]
        np.testing.assert_allclose(new.diag, 1.0, atol=1e-12)

    def test_rank(self):
        stack = KernelStack(gaussian_kernels(24, 3), random_mask())
        assert kq.completion.SharedFactorCompletion().fit(stack).factor_.shape == (24, 8)
        assert kq.completion.SharedFactorCompletion(5).fit(stack).factor_.shape == (24, 5)
        assert kq.completion.SharedFactorCompletion(99).fit(stack).factor_.shape == (24, 24)
        with pytest.raises(ValueError, match="'rank' parameter"):
            kq.completion.SharedFactorCompletion(0).fit(stack)
