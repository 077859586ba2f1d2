"""EM with a complete auxiliary kernel: the iteration, new samples, what it refuses."""

import pickle
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kernelquilt as kq
from holes import assert_psd, gaussian_kernels, hide, random_mask, related_kernels, unit
from kernelquilt.data.stack import KernelStack
from problems import random_kernels


def mask_with_complete(n=24, m=3, seed=0, share=0.6):
    mask = random_mask(n, m, seed, share)
    mask[:, 1] = True
    return mask


def plain_em(K, v, auxiliary, n_iter):
    """Return b and the completed kernel, with full matrices."""
    values, V = np.linalg.eigh(auxiliary)
    b = np.maximum(values, 1e-6)
    for iteration in range(n_iter + 1):
        C = V @ np.diag(b) @ V.T
        inverse = np.linalg.inv(C[np.ix_(v, v)])
        known, Cvh = K[np.ix_(v, v)], C[np.ix_(v, ~v)]
        full = np.array(K)
        full[np.ix_(v, ~v)] = known @ inverse @ Cvh
        full[np.ix_(~v, v)] = full[np.ix_(v, ~v)].T
        full[np.ix_(~v, ~v)] = (
            C[np.ix_(~v, ~v)] - Cvh.T @ (inverse - inverse @ known @ inverse) @ Cvh
        )
        if iteration < n_iter:
            b = np.maximum(np.diag(V.T @ full @ V), 1e-6)
    return b, full


class TestSolver:
    def test_equals_plain_em(self):
        K = gaussian_kernels(18, 2)
        v = random_mask(18, 2)[:, 0]
        values, vectors = np.linalg.eigh(K[1])
        found = kq.completion.solve_auxiliary_em(K[0], v, values, vectors, tol=1e-15, max_iter=6)
        b, _ = plain_em(K[0], v, K[1], 6)
        np.testing.assert_allclose(found.spectrum, b, rtol=1e-8)

    @given(seed=st.integers(0, 10**6), rank=st.integers(2, 12), share=st.floats(0.3, 1.0))
    @settings(max_examples=15, deadline=None)
    def test_objective_never_increases(self, seed, rank, share):
        rng = np.random.default_rng(seed)
        K = unit(random_kernels(rng, 12, 2, rank)[0])
        v = random_mask(12, 1, seed, share)[:, 0]
        values, vectors = np.linalg.eigh(K[1])
        found = kq.completion.solve_auxiliary_em(K[0], v, values, vectors, tol=1e-9, max_iter=100)
        objective = np.array([step.objective for step in found.history])
        assert (np.diff(objective) <= 1e-8 * np.abs(objective).max()).all()


class TestCompletion:
    def test_equals_plain_em(self):
        K, mask = 5 * gaussian_kernels(24, 3), mask_with_complete()
        model = kq.completion.AuxiliaryEMCompletion(1, tol=1e-15, max_iter=5)
        with pytest.warns(UserWarning, match="stopped after 5"):
            got = model.fit_transform(KernelStack(K, mask)).gram()
        scale = [np.diag(k)[v].mean() for k, v in zip(K, mask.T, strict=True)]
        for m in (0, 2):
            v = mask[:, m]
            _, expected = plain_em(K[m] / scale[m], v, K[1] / scale[1], 5)
            np.testing.assert_allclose(got[m] / scale[m], expected, atol=1e-7)

    @pytest.mark.parametrize("normalise", [unit, np.asarray], ids=["unit_diagonal", "any"])
    def test_contracts(self, normalise):
        K, mask = normalise(related_kernels(30)), mask_with_complete(30)
        outputs = []
        for value in (np.nan, 0.0, 1e9):
            stack = KernelStack(hide(K, mask, mask, value), mask)
            model = kq.completion.AuxiliaryEMCompletion()
            train, test = model.fit_transform(stack[:20]), model.transform(stack[20:])
            outputs.append((train.gram(), test.gram(), test.diag))
            again = model.transform(stack[:20])
            np.testing.assert_allclose(again.gram(), train.gram(), atol=1e-10)
            np.testing.assert_allclose(again.diag, train.diag, atol=1e-10)
        for output in outputs[1:]:
            for got, expected in zip(output, outputs[0], strict=True):
                np.testing.assert_array_equal(got, expected)
        Z, rows, diag = outputs[0]
        some = mask[:20]
        np.testing.assert_array_equal(
            hide(Z, some, some, 0.0), hide(K[:, :20, :20], some, some, 0.0)
        )
        assert_psd(Z)
        if normalise is unit:
            np.testing.assert_allclose(np.diagonal(Z, axis1=1, axis2=2), 1.0, atol=1e-12)
            np.testing.assert_allclose(diag, 1.0, atol=1e-12)
        loaded = pickle.loads(pickle.dumps(model)).transform(stack[20:])
        np.testing.assert_array_equal(loaded.gram(), rows)

    def test_permuting_samples_permutes_the_output_of_singular_kernels(self):
        K, mask = related_kernels(), mask_with_complete()
        order = np.random.default_rng(1).permutation(24)
        stack = KernelStack(K, mask)
        expected = (
            kq.completion.AuxiliaryEMCompletion().fit_transform(stack).gram()[:, order][:, :, order]
        )
        got = kq.completion.AuxiliaryEMCompletion().fit_transform(stack[order]).gram()
        np.testing.assert_allclose(got, expected, atol=1e-6)

    def test_samples_that_occur_twice(self):
        K, mask = gaussian_kernels(24, 3), mask_with_complete()
        stack = KernelStack(K, mask)[np.r_[np.arange(24), 4, 9, 4]]
        model = kq.completion.AuxiliaryEMCompletion()
        got = model.fit_transform(stack).gram()
        np.testing.assert_allclose(got[:, 24:], got[:, [4, 9, 4]], atol=1e-12)
        np.testing.assert_allclose(model.transform(stack).gram(), got, atol=1e-12)

    def test_nothing_absent_changes_nothing(self):
        K = related_kernels()
        stack = KernelStack(K)
        model = kq.completion.AuxiliaryEMCompletion()
        np.testing.assert_array_equal(model.fit_transform(stack[:16]).gram(), K[:, :16, :16])
        np.testing.assert_array_equal(model.transform(stack[16:]).gram(), K[:, 16:, :16])

    def test_single_kernel(self):
        K = related_kernels(m=1)
        model = kq.completion.AuxiliaryEMCompletion()
        np.testing.assert_array_equal(model.fit_transform(KernelStack(K)).gram(), K)
        assert model.auxiliary_ == {}
        assert model.converged_

    def test_the_more_likely_kernel_is_taken(self):
        K = gaussian_kernels(40, 3, noise=0.1)
        X = np.random.default_rng(0).normal(size=(40, 4))
        K[1] = np.exp(-((X[:, None] - X) ** 2).sum(axis=2) / 8)
        mask = np.ones((40, 3), dtype=bool)
        mask[::3, 0] = False
        stack = KernelStack(K, mask, names=["a", "noise", "c"])
        assert kq.completion.AuxiliaryEMCompletion().fit(stack).auxiliary_["a"] == "c"
        assert kq.completion.AuxiliaryEMCompletion("noise").fit(stack).auxiliary_["a"] == "noise"

    def test_new_samples_without_the_auxiliary_kernel_get_the_mean(self):
        K, mask = unit(related_kernels()), mask_with_complete()
        mask[20:] = [True, False, False]
        stack = KernelStack(K, mask)
        model = kq.completion.AuxiliaryEMCompletion().fit(stack[:20])
        with pytest.warns(UserWarning, match=r"\('kernel_1': 4, 'kernel_2': 4\)"):
            new = model.transform(stack[20:])
        np.testing.assert_allclose(new.gram()[1], np.tile(K[1, :20, :20].mean(axis=0), (4, 1)))
        np.testing.assert_allclose(new.diag, 1.0, atol=1e-12)

    def test_float32(self):
        K, mask = unit(related_kernels()).astype(np.float32), mask_with_complete()
        filled = kq.completion.AuxiliaryEMCompletion().fit_transform(KernelStack(K, mask))
        assert filled.dtype == np.float32
        assert_psd(filled.gram(), tol=1e-5)


class TestErrors:
    def test_no_complete_kernel(self):
        stack = KernelStack(related_kernels(), random_mask(), names=["a", "b", "c"])
        with pytest.raises(ValueError, match=r"each of 'a', 'b', 'c' is absent for some of the 24"):
            kq.completion.AuxiliaryEMCompletion().fit(stack)

    def test_kernel_that_is_not_complete_or_not_there(self):
        mask = mask_with_complete()
        stack = KernelStack(related_kernels(), mask, names=["a", "b", "c"])
        n_absent = (~mask[:, 0]).sum()
        for name in ("a", 0):
            with pytest.raises(ValueError, match=f"'a' is absent for {n_absent} of 24"):
                kq.completion.AuxiliaryEMCompletion(name).fit(stack)
        for name in ("d", 3):
            with pytest.raises(ValueError, match=f"auxiliary={name!r} is none of the 3"):
                kq.completion.AuxiliaryEMCompletion(name).fit(stack)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            kq.completion.AuxiliaryEMCompletion("b").fit(stack)
