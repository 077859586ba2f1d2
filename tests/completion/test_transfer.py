"""Transfer between kernels, against its definition sample by sample."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

import kernelquilt as kq
from holes import assert_psd, hide, random_mask, related_kernels, unit
from kernelquilt.completion.linalg import inverse_of, restricted_inverse, restricted_solve
from kernelquilt.data.stack import KernelStack

LOO = kq.TransferFill(weighting="loo", n_passes=2, constant=0.0, unit_diagonal=False)


def centred(K, mask):
    """Return kernels centred and scaled to mean diagonal 1 over what is observed of them."""
    out = np.zeros_like(K)
    for new, kernel, s in zip(out, K, mask.T, strict=True):
        inner = kernel[np.ix_(s, s)]
        H = np.eye(len(inner)) - 1 / len(inner)
        inner = H @ inner @ H
        new[np.ix_(s, s)] = inner / np.trace(inner) * len(inner)
    return out


def transferred(K, mask, t, p, eps, constant, weights=None):
    """Return the coefficients of sample t in kernel p, one kernel after the other."""
    n = len(mask)
    total, weight = np.zeros(n), 0.0
    for l in range(len(K)):
        J = np.flatnonzero(mask[:, p] & mask[:, l])
        om = float(len(J) > 0) if weights is None else weights[p, l]
        if l == p or not mask[t, l] or om == 0:
            continue
        A = K[l][np.ix_(J, J)] + constant + eps * np.eye(len(J))
        total[J] += om * np.linalg.solve(A, K[l][J, t] + constant)
        weight += om
    return total / weight


def left_out_residual(A, K):
    """Return the mean squared residual of predictions from samples left out one by one."""
    total = 0.0
    for i in range(len(A)):
        rest = np.arange(len(A)) != i
        a = np.linalg.solve(A[np.ix_(rest, rest)], A[rest, i])
        total += K[i, i] - 2 * a @ K[rest, i] + a @ K[np.ix_(rest, rest)] @ a
    return total / np.trace(K)


class TestUniform:
    @given(seed=st.integers(0, 10**6), eps=st.floats(1e-3, 10), constant=st.sampled_from([0, 1]))
    @settings(max_examples=20, deadline=None)
    def test_equals_the_definition(self, seed, eps, constant):
        K, mask = unit(related_kernels(16, 3, seed)), random_mask(16, 3, seed)
        stack = kq.TransferFill(eps, constant=constant).fit_transform(KernelStack(K, mask))
        for p, got in enumerate(stack.gram()):
            A = np.eye(16)
            for t in np.flatnonzero(~mask[:, p]):
                A[t] = transferred(K, mask, t, p, eps, constant)
                length = A[t] @ K[p] @ A[t]
                A[t] /= np.sqrt(max(length, 1.0))
            expected = A @ K[p] @ A.T
            np.fill_diagonal(expected, 1.0)
            np.testing.assert_allclose(got, expected, atol=1e-9)

    def test_diagonal_that_is_not_imposed(self):
        K, mask = unit(related_kernels()), random_mask()
        model = kq.TransferFill(unit_diagonal=False)
        got = model.fit_transform(KernelStack(K, mask))
        for p, kernel in enumerate(got.gram()):
            A = np.eye(24)
            for t in np.flatnonzero(~mask[:, p]):
                A[t] = transferred(K, mask, t, p, 0.1, 1.0)
            np.testing.assert_allclose(kernel, A @ K[p] @ A.T, atol=1e-10)

    def test_only_kernels_with_unit_diagonal_get_one(self):
        K, mask = related_kernels(), random_mask()
        K[1] = unit(K[1:2])[0]
        diag = kq.TransferFill().fit_transform(KernelStack(K, mask)).diag
        np.testing.assert_allclose(diag[1], 1.0, atol=1e-15)
        assert (np.ptp(diag, axis=1) > 0.1).tolist() == [True, False, True]
        with pytest.raises(ValueError, match="not 1 in the kernels 'kernel_0', 'kernel_2'"):
            kq.TransferFill(unit_diagonal=True).fit(KernelStack(K, mask))

    def test_observed_blocks_stay_bit_by_bit(self):
        K, mask = unit(related_kernels()), random_mask()
        filled = kq.TransferFill().fit_transform(KernelStack(K, mask)).gram()
        np.testing.assert_array_equal(hide(filled, mask, mask, 0.0), hide(K, mask, mask, 0.0))

    def test_permuting_kernels_permutes_the_output(self):
        K, mask = unit(related_kernels()), random_mask()
        order = [2, 0, 1]
        got = kq.TransferFill().fit_transform(KernelStack(K[order], mask[:, order])).gram()
        expected = kq.TransferFill().fit_transform(KernelStack(K, mask)).gram()[order]
        np.testing.assert_allclose(got, expected, atol=1e-12)

    def test_scale_of_a_kernel_does_not_matter(self):
        K, mask = related_kernels(), random_mask()
        factor = np.array([1e-6, 1.0, 1e6])[:, None, None]
        for model in (kq.TransferFill(), kq.TransferFill(weighting="loo", n_passes=2)):
            one = model.fit_transform(KernelStack(K, mask)).gram()
            other = model.fit_transform(KernelStack(factor * K, mask)).gram() / factor
            np.testing.assert_allclose(other, one, rtol=1e-8, atol=1e-8)

    def test_samples_of_which_the_same_is_known_stay_the_same(self):
        K, mask = unit(related_kernels()), random_mask()
        mask[4] = [True, False, True]
        rows = np.r_[np.arange(24), 4, 4]
        stack = KernelStack(K, mask)[rows]
        got = kq.TransferFill().fit_transform(stack).gram()
        np.testing.assert_allclose(got[:, 24], got[:, 4], atol=1e-12)
        np.testing.assert_allclose(kq.TransferFill().fit(stack).transform(stack).gram(), got)

    def test_indefinite_kernels_are_refused(self):
        K, mask = related_kernels(), random_mask()
        K[1] -= 5 * np.eye(24)
        with pytest.raises(ValueError, match="'pet' is not positive semi-definite"):
            kq.TransferFill().fit(KernelStack(K, mask, names=["mri", "pet", "ct"]))

    @pytest.mark.parametrize(
        "model",
        [
            kq.TransferFill(weighting="loo", n_passes=2, constant=0),
            kq.WishartCompletion(1, error_estimates=True, n_fit=8, random_state=0),
        ],
        ids=["transfer", "Wishart"],
    )
    @pytest.mark.parametrize("seed", range(4))
    def test_slightly_indefinite_kernels_are_not(self, model, seed):
        K, mask = unit(related_kernels(24, 3, seed)), random_mask(24, 3, seed)
        for kernel in K:
            values, vectors = np.linalg.eigh(kernel)
            values[:8] = -0.09
            kernel[...] = (vectors * values) @ vectors.T
        completed = clone(model).fit_transform(KernelStack(K, mask))
        assert np.isfinite(completed.gram()).all()

    def test_kernels_that_do_not_meet(self):
        K, mask = unit(related_kernels(m=2)), np.ones((24, 2), dtype=bool)
        mask[:12, 0] = mask[12:, 1] = False
        stack = KernelStack(K, mask, names=["mri", "pet"])
        for model in (kq.TransferFill(), LOO):
            with pytest.warns(UserWarning, match=r"mean of that kernel \('mri': 12, 'pet': 12\)"):
                got = model.fit_transform(stack).gram()
            mean = K[0][:, 12:].mean(axis=1)
            np.testing.assert_allclose(got[0, 3, 12:], mean[12:], atol=1e-12)
            assert_psd(got)


class TestLeaveOneOut:
    @pytest.mark.parametrize("seed", range(4))
    def test_equals_the_definition(self, seed):
        mask = random_mask(20, 4, seed)
        K = centred(related_kernels(20, 4, seed), mask)
        model = kq.TransferFill(weighting="loo", n_passes=2, constant=0.0, unit_diagonal=False)
        got = model.fit_transform(KernelStack(K, mask)).gram()
        r2 = np.full((4, 4), np.nan)
        for p in range(4):
            for l in range(4):
                J = mask[:, p] & mask[:, l]
                if p != l and J.sum() >= 5:
                    J = np.ix_(J, J)
                    A = K[l][J] + 0.1 * np.eye(len(K[l][J]))
                    # the ridge is no similarity of a sample with itself
                    r2[p, l] = 1 - left_out_residual(A, K[p][J])
        np.testing.assert_allclose(model.transfer_, r2, atol=1e-10)
        clipped = np.clip(np.nan_to_num(r2), 0.001, 0.99)
        om = np.where(np.isnan(r2), 0.0, clipped / (1 - clipped))
        np.testing.assert_allclose(model.transfer_weights_, om, rtol=1e-9)

        first = []
        for p in range(4):
            A = np.eye(20)
            for t in np.flatnonzero(~mask[:, p]):
                A[t] = transferred(K, mask, t, p, 0.1, 0.0, om)
            first.append(A @ K[p] @ A.T)
        for p in range(4):
            I, absent = np.flatnonzero(mask[:, p]), np.flatnonzero(~mask[:, p])
            Q = np.tensordot(om[p], first, axes=1) / om[p].sum()
            Q /= np.mean(Q[I, I])
            errors = {
                eps: left_out_residual(Q[np.ix_(I, I)] + eps * np.eye(len(I)), K[p][np.ix_(I, I)])
                for eps in (0.01, 0.03, 0.1, 0.3, 1.0)
            }
            eps = min(errors, key=errors.get)
            assert model.eps_[1, p] == eps
            A = np.eye(20)
            A[absent] = 0.0
            A[np.ix_(absent, I)] = np.linalg.solve(
                Q[np.ix_(I, I)] + eps * np.eye(len(I)), Q[np.ix_(I, absent)]
            ).T
            np.testing.assert_allclose(got[p], A @ K[p] @ A.T, atol=1e-10)

    def test_new_samples_do_not_depend_on_each_other(self):
        mask = random_mask(30, 3)
        K = centred(related_kernels(30, 3), mask)
        stack = KernelStack(K, mask)
        model = kq.TransferFill(weighting="loo", n_passes=2, constant=0.0).fit(stack[:20])
        together = model.transform(stack[20:])
        for i in range(10):
            alone = model.transform(stack[[20 + i]])
            np.testing.assert_allclose(alone.gram()[:, 0], together.gram()[:, i], atol=1e-12)
            np.testing.assert_allclose(alone.diag[:, 0], together.diag[:, i], atol=1e-12)

    def test_diagonal_of_new_samples_fits_their_rows(self):
        mask = random_mask(30, 3)
        K = centred(related_kernels(30, 3), mask)
        model = kq.TransferFill(weighting="loo", n_passes=2, constant=0.0)
        stack = KernelStack(K, mask)
        train, new = model.fit_transform(stack[:20]), model.transform(stack[20:])
        for i in range(10):
            for p in range(3):
                k = new.gram()[p, i]
                bordered = np.block([[train.gram()[p], k[:, None]], [k, new.diag[p, i]]])
                assert np.linalg.eigvalsh(bordered)[0] > -1e-10

    def test_a_kernel_that_tells_nothing_counts_for_little(self):
        rng = np.random.default_rng(0)
        K = np.concatenate([related_kernels(60, 2), [(F := rng.normal(size=(60, 9))) @ F.T]])
        mask = random_mask(60, 3, share=0.8)
        model = kq.TransferFill(weighting="loo").fit(KernelStack(centred(K, mask), mask))
        assert model.transfer_[0, 1] > 0.7
        assert model.transfer_[0, 2] < 0.1
        assert model.transfer_weights_[0, 1] > 20 * model.transfer_weights_[0, 2]

    def test_kernels_that_no_sample_has(self):
        mask = random_mask(20, 3)
        mask[:, 1] = False
        mask[~mask.any(axis=1), 0] = True
        with pytest.warns(UserWarning, match="'kernel_1'"):
            model = LOO.fit(KernelStack(related_kernels(20), mask))
        assert model.transfer_.shape == (3, 3)
        assert np.isnan(model.transfer_[1]).all()
        assert np.isnan(model.transfer_[:, 1]).all()
        assert not model.transfer_weights_[1].any()


class TestInverses:
    @given(seed=st.integers(0, 10**6), share=st.floats(0.1, 1.0))
    @settings(max_examples=25, deadline=None)
    def test_restrictions_equal_the_direct_way(self, seed, share):
        rng = np.random.default_rng(seed)
        F = rng.normal(size=(12, 12))
        A = F @ F.T + 0.1 * np.eye(12)
        kept = rng.random(12) < share
        kept[0] = True
        direct = np.linalg.inv(A[np.ix_(kept, kept)])
        B = rng.normal(size=(kept.sum(), 3))
        G = inverse_of(A)
        np.testing.assert_allclose(restricted_inverse(G, kept), direct, atol=1e-8)
        np.testing.assert_allclose(restricted_solve(G, kept, B), direct @ B, atol=1e-8)

    def test_indefinite_matrices_are_refused(self):
        with pytest.raises(np.linalg.LinAlgError):
            inverse_of(np.diag([1.0, -1.0]))
