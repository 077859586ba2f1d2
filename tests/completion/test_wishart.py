"""Wishart completion: the likelihood, one sweep by its definition, new samples, errors, edges."""

import os
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import check_grad, minimize
from sklearn.base import clone

import kernelquilt as kq
from holes import assert_psd, gaussian_kernels, hide, random_mask, related_kernels, unit
from kernelquilt.completion.wishart_mixture import Mixture, fit_mixture, mixture_objective
from kernelquilt.data.stack import KernelStack
from kernelquilt.metrics import average_relative_error
from problems import random_kernels


class TestMixture:
    @given(seed=st.integers(0, 10**6), q=st.integers(0, 4))
    @settings(max_examples=20, deadline=None)
    def test_gradient_equals_finite_differences(self, seed, q):
        rng = np.random.default_rng(seed)
        bases, K = random_kernels(rng, 9, q)[0].reshape(q, 9, 9), random_kernels(rng, 9, 1)[0][0]
        t = rng.uniform(-2, 1, q + 2)
        error = check_grad(
            lambda x: mixture_objective(x, bases, K)[0],
            lambda x: mixture_objective(x, bases, K)[1],
            t,
            epsilon=1e-7,
        )
        assert error <= 1e-6 * max(1.0, np.linalg.norm(mixture_objective(t, bases, K)[1]))

    def test_value_is_the_likelihood(self):
        rng = np.random.default_rng(0)
        bases, K = random_kernels(rng, 7, 2)[0], random_kernels(rng, 7, 1)[0][0]
        t = np.array([0.2, -0.4, -1.0, -1.5])
        s = np.exp(t)
        C = s[0] * bases[0] + s[1] * bases[1] + s[2] + s[3] * np.eye(7)
        expected = (np.trace(np.linalg.solve(C, K)) + np.linalg.slogdet(C)[1]) / 7
        np.testing.assert_allclose(mixture_objective(t, bases, K)[0], expected, rtol=1e-12)

    def test_fit_finds_the_weights_of_many_draws(self):
        rng = np.random.default_rng(0)
        bases = random_kernels(rng, 30, 2)[0]
        true = Mixture(np.array([2.0, 0.5]), 0.8, 0.3)
        C = np.tensordot(true.kernels, bases, axes=1) + true.constant + true.noise * np.eye(30)
        draws = np.linalg.cholesky(C) @ rng.normal(size=(30, 20_000))
        K = draws @ draws.T / draws.shape[1]
        found, value = fit_mixture(bases, K, Mixture.start(2))
        np.testing.assert_allclose(found.log(), true.log(), atol=0.1)
        assert value <= mixture_objective(true.log(), bases, K)[0]
        gradient = mixture_objective(found.log(), bases, K)[1]
        assert np.abs(gradient).max() < 1e-3


def naive_sweeps(K, mask, n_sweeps, order):
    """Return completed kernels with unit diagonal, by the equations and nothing else."""
    M, n = len(K), len(mask)
    Z = np.array(K)
    for m in range(M):
        A, absent = np.eye(n), np.flatnonzero(~mask[:, m])
        for t in absent:
            a, count = np.zeros(n), 0
            for l in np.flatnonzero(mask[t]):
                J = np.flatnonzero(mask[:, m] & mask[:, l])
                inner = K[l][np.ix_(J, J)] + 1 + 0.1 * np.eye(len(J))
                a[J] += np.linalg.solve(inner, K[l][J, t] + 1)
                count += 1
            A[t] = a / count
            A[t] /= np.sqrt(max(A[t] @ hide(K, mask, mask, 0.0)[m] @ A[t], 1.0))
        Z[m] = A @ hide(K, mask, mask, 0.0)[m] @ A.T
        np.fill_diagonal(Z[m], 1.0)
    start = np.log(np.append(np.full(M - 1, 1 / (M - 1)), [1.0, 0.1]))
    thetas = [start] * M
    for _ in range(n_sweeps):
        for m in order:
            v, h = mask[:, m], ~mask[:, m]
            others = [Z[l] for l in range(M) if l != m]
            bases = [*others, np.ones((n, n)), np.eye(n)]
            known = K[m][np.ix_(v, v)]

            def f(theta, bases=bases, v=v, known=known):
                C = sum(np.exp(t) * B for t, B in zip(theta, bases, strict=True))[np.ix_(v, v)]
                G = np.linalg.inv(C)
                P = G - G @ known @ G
                value = np.trace(G @ known) + np.linalg.slogdet(C)[1]
                gradient = [
                    np.exp(t) * (B[np.ix_(v, v)] * P).sum()
                    for t, B in zip(theta, bases, strict=True)
                ]
                return value / len(known), np.array(gradient) / len(known)

            options = {"maxiter": 30}
            bounds = [(-9, 5)] * (M + 1)
            thetas[m] = minimize(
                f, thetas[m], jac=True, method="L-BFGS-B", bounds=bounds, options=options
            ).x
            C = sum(np.exp(t) * B for t, B in zip(thetas[m], bases, strict=True))
            X = np.linalg.solve(C[np.ix_(v, v)], C[np.ix_(v, h)])
            R = C[np.ix_(h, h)] - C[np.ix_(h, v)] @ X
            q = np.diag(X.T @ known @ X)
            X = X / np.sqrt(np.maximum(q, 1))
            q = np.minimum(q, 1)
            D = np.diag(np.sqrt((1 - q) / np.diag(R)))
            Z[m][np.ix_(v, h)] = known @ X
            Z[m][np.ix_(h, v)] = (known @ X).T
            Z[m][np.ix_(h, h)] = X.T @ known @ X + D @ R @ D
    return Z


class TestCompletion:
    @pytest.mark.parametrize("n_sweeps", [1, 3])
    def test_equals_the_definition(self, n_sweeps):
        K, mask = gaussian_kernels(24, 3), random_mask()
        got = kq.WishartCompletion(n_sweeps).fit_transform(KernelStack(K, mask)).gram()
        counts = mask.sum(axis=0)
        assert len(set(counts)) == 3
        expected = naive_sweeps(K, mask, n_sweeps, np.argsort(-counts))
        np.testing.assert_allclose(got, expected, atol=1e-5)

    @given(seed=st.integers(0, 10**6), share=st.floats(0.3, 0.95))
    @settings(max_examples=10, deadline=None)
    def test_exact_on_observed_unit_diagonal_and_psd(self, seed, share):
        K, mask = gaussian_kernels(20, 3, seed), random_mask(20, 3, seed, share)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            Z = kq.WishartCompletion().fit_transform(KernelStack(K, mask)).gram()
        np.testing.assert_array_equal(hide(Z, mask, mask, 0.0), hide(K, mask, mask, 0.0))
        np.testing.assert_allclose(np.diagonal(Z, axis1=1, axis2=2), 1.0, atol=1e-12)
        assert_psd(Z)

    def test_permuting_kernels_permutes_the_output(self):
        K, mask = gaussian_kernels(24, 4), random_mask(24, 4)
        order = [2, 0, 3, 1]
        model = kq.WishartCompletion()
        expected = model.fit_transform(KernelStack(K, mask)).gram()[order]
        weights = model.between_weights_[np.ix_(order, order)]
        got = model.fit_transform(KernelStack(K[order], mask[:, order])).gram()
        np.testing.assert_allclose(got, expected, atol=1e-6)
        np.testing.assert_allclose(model.between_weights_, weights, atol=1e-4)

    def test_better_than_the_start_and_than_means(self):
        K, mask = gaussian_kernels(60, 4, noise=0.1), random_mask(60, 4)
        stack = KernelStack(K, mask)
        errors = [
            average_relative_error(K, model.fit_transform(stack), mask)
            for model in (kq.WishartCompletion(), kq.TransferFill(), kq.completion.MeanFill())
        ]
        assert errors[0] < errors[1] < errors[2]

    def test_a_kernel_that_tells_nothing_gets_no_weight(self):
        rng = np.random.default_rng(0)
        K = gaussian_kernels(80, 3, noise=0.2)
        X = rng.normal(size=(80, 4))
        K[2] = np.exp(-((X[:, None] - X) ** 2).sum(axis=2) / 8)
        model = kq.WishartCompletion().fit(KernelStack(K, random_mask(80, 3, share=0.8)))
        S = model.between_weights_
        assert not S.diagonal().any()
        assert S[0, 1] > 20 * S[0, 2]

    @pytest.mark.parametrize("normalise", [unit, np.asarray], ids=["unit_diagonal", "any"])
    def test_scale_of_a_kernel_does_not_matter(self, normalise):
        K, mask = normalise(related_kernels()), random_mask()
        factor = np.array([1e-6, 1.0, 1e6])[:, None, None]
        one = kq.WishartCompletion().fit_transform(KernelStack(K, mask)).gram()
        scaled = kq.WishartCompletion().fit_transform(KernelStack(factor * K, mask)).gram()
        if normalise is np.asarray:
            np.testing.assert_allclose(scaled / factor, one, atol=1e-5)
        else:
            # without unit diagonal as the input it is not imposed
            np.testing.assert_allclose(np.diagonal(one, axis1=1, axis2=2), 1.0, atol=1e-12)
            assert_psd(scaled)

    def test_fewer_samples_for_the_weights_change_little(self):
        K, mask = gaussian_kernels(90, 3, noise=0.2), random_mask(90, 3, share=0.7)
        stack = KernelStack(K, mask)
        models = [kq.WishartCompletion(n_fit=n, random_state=0) for n in (300, 40, 40)]
        full, some, again = (model.fit_transform(stack).gram() for model in models)
        np.testing.assert_array_equal(some, again)
        assert np.abs(some - full).max() > 1e-6
        errors = [average_relative_error(K, Z, mask) for Z in (full, some)]
        assert errors[1] < 1.1 * errors[0]

    def test_without_residual(self):
        K, mask = gaussian_kernels(30, 3), random_mask(30, 3)
        stack = KernelStack(K, mask)
        whole = kq.WishartCompletion().fit_transform(stack[:24]).gram()
        model = kq.WishartCompletion(residual=False)
        part = model.fit_transform(stack[:24])
        for m, v in enumerate(mask[:24].T):
            np.testing.assert_array_equal(part.gram()[m][:, v], whole[m][:, v])
            known = whole[m][np.ix_(v, v)]
            half = np.linalg.solve(known, whole[m][np.ix_(v, ~v)])
            np.testing.assert_allclose(part.gram()[m][np.ix_(~v, ~v)], half.T @ known @ half)
        assert_psd(part.gram())
        np.testing.assert_array_equal(part.gram(), part.gram().transpose(0, 2, 1))
        again = model.transform(stack[:24])
        np.testing.assert_allclose(again.gram(), part.gram(), atol=1e-12)
        np.testing.assert_allclose(again.diag, part.diag, atol=1e-12)
        new = model.transform(stack[24:])
        assert (new.diag <= 1 + 1e-12).all()
        assert (new.diag[~mask[24:].T] < 0.999).all()

    def test_slightly_indefinite_kernels(self):
        K, mask = gaussian_kernels(60, 3), random_mask(60, 3)
        noise = np.random.default_rng(0).normal(size=K.shape)
        K = unit(K + 0.006 * (noise + noise.transpose(0, 2, 1)))
        assert -0.1 < np.linalg.eigvalsh(K[0])[0] < -0.02
        stack = KernelStack(K, mask)
        model = kq.WishartCompletion(n_fit=10, random_state=0)
        assert np.isfinite(model.fit_transform(stack[:50]).gram()).all()
        assert np.isfinite(model.transform(stack[50:]).gram()).all()

    @pytest.mark.parametrize(
        "model",
        [
            kq.WishartCompletion(),
            kq.completion.SharedFactorCompletion(),
            kq.completion.AuxiliaryEMCompletion(),
        ],
        ids=lambda model: type(model).__name__,
    )
    def test_diagonal_is_imposed_if_asked_for(self, model):
        K, mask = gaussian_kernels(24, 3), random_mask()
        mask[:, 0] = True
        stack = KernelStack(K, mask)
        free = clone(model).set_params(unit_diagonal=False).fit_transform(stack)
        assert_psd(free.gram())
        assert np.ptp(free.diag[1:], axis=1).min() > 1e-3
        fixed = clone(model).set_params(unit_diagonal=True).fit_transform(stack)
        np.testing.assert_allclose(fixed.diag, 1.0, atol=1e-12)
        with pytest.raises(ValueError, match="not 1 in the kernels 'kernel_0'"):
            clone(model).set_params(unit_diagonal=True).fit(KernelStack(2 * K, mask))

    def test_likelihood_is_kept(self):
        model = kq.WishartCompletion(2).fit(KernelStack(gaussian_kernels(24, 3), random_mask()))
        assert model.objective_.shape == (2, 3)
        assert np.isfinite(model.objective_).all()
        assert (model.noise_ > 0).all()
        assert (model.constant_weights_ > 0).all()

    def test_progress_is_printed_when_asked_for(self, capsys):
        stack = KernelStack(gaussian_kernels(24, 3), random_mask())
        kq.WishartCompletion(2, verbose=1).fit(stack)
        lines = capsys.readouterr().out.splitlines()
        assert [line.split(":")[0] for line in lines] == [
            "[WishartCompletion] sweep 1 of 2",
            "[WishartCompletion] sweep 2 of 2",
        ]

    @pytest.mark.parametrize(("name", "value"), [("n_sweeps", 0), ("n_fit", 2), ("residual", "no")])
    def test_bad_parameters(self, name, value):
        model = kq.WishartCompletion().set_params(**{name: value})
        with pytest.raises(ValueError, match=f"'{name}' parameter"):
            model.fit(KernelStack(related_kernels()))


def row_errors(K, rows, mask, t):
    """Return the relative errors of the absent rows of sample t, without the diagonal."""
    others = np.arange(K.shape[1]) != t
    return [
        np.linalg.norm((rows[m] - K[m, t])[others]) / np.linalg.norm(K[m, t, others])
        for m in np.flatnonzero(~mask[t])
    ]


class TestNewSamples:
    @pytest.mark.parametrize("scale", [1.0, 5.0], ids=["unit_diagonal", "other"])
    def test_replay_is_close_to_a_joint_fit(self, scale):
        K, mask = scale * gaussian_kernels(40, 4, noise=0.2), random_mask(40, 4)
        stack = KernelStack(K, mask)
        joint = kq.WishartCompletion().fit_transform(stack).gram()
        replayed, jointly = [], []
        for t in np.flatnonzero(~mask.all(axis=1))[:12]:
            rest = np.delete(np.arange(40), t)
            row = np.zeros((4, 40))
            row[:, rest] = (
                kq.WishartCompletion().fit(stack[rest]).transform(stack[[t]]).gram()[:, 0]
            )
            replayed += row_errors(K, row, mask, t)
            jointly += row_errors(K, joint[:, t], mask, t)
        assert np.mean(replayed) < 1.1 * np.mean(jointly)

    @pytest.mark.parametrize("normalise", [unit, np.asarray], ids=["unit_diagonal", "any"])
    def test_rows_fit_the_training_kernels(self, normalise):
        K, mask = normalise(related_kernels(30)), random_mask(30)
        stack = KernelStack(K, mask)
        model = kq.WishartCompletion()
        train, new = model.fit_transform(stack[:20]).gram(), model.transform(stack[20:])
        for i in range(10):
            for m in np.flatnonzero(~mask[20 + i]):
                k = new.gram()[m, i]
                bordered = np.block([[train[m], k[:, None]], [k, new.diag[m, i]]])
                assert np.linalg.eigvalsh(bordered)[0] > -1e-6 * np.trace(train[m])
        if normalise is unit:
            np.testing.assert_allclose(new.diag, 1.0, atol=1e-8)

    def test_samples_do_not_depend_on_each_other(self):
        stack = KernelStack(gaussian_kernels(30, 3), random_mask(30))
        model = kq.WishartCompletion().fit(stack[:20])
        together = model.transform(stack[20:]).gram()
        for i in range(10):
            alone = model.transform(stack[[20 + i]]).gram()
            np.testing.assert_allclose(alone[:, 0], together[:, i], atol=1e-12)

    def test_kernels_complete_in_training_may_be_absent_later(self):
        K, mask = gaussian_kernels(50, 3, noise=0.1), np.ones((50, 3), dtype=bool)
        mask[40:, 1] = False
        model = kq.WishartCompletion().fit(KernelStack(K, mask)[:40])
        rows = KernelStack(K[:, 40:, :40], mask[40:], diag=np.ones((3, 10)))
        error = average_relative_error(K[:, 40:, :40], model.transform(rows), mask[40:])
        baseline = kq.completion.MeanFill().fit(KernelStack(K[:, :40, :40])).transform(rows)
        assert error < 0.5 * average_relative_error(K[:, 40:, :40], baseline, mask[40:])


class TestErrors:
    @pytest.mark.parametrize("noise", [0.1, 0.5, 2.0])
    def test_forecast_has_the_level_of_the_error(self, noise):
        ratios = []
        for seed in range(3):
            K = gaussian_kernels(50, 4, seed, noise)
            mask = random_mask(50, 4, seed, share=0.7)
            model = kq.WishartCompletion(error_estimates=True)
            Z = model.fit_transform(KernelStack(K, mask)).gram()
            squares = ((Z - K) ** 2).mean(axis=2).T
            assert not model.error_[mask].any()
            ratios.append(squares[~mask].mean() / (model.error_[~mask] ** 2).mean())
        assert 0.4 < np.mean(ratios) < 2.0

    def test_estimates_change_nothing_else(self):
        stack = KernelStack(gaussian_kernels(24, 3), random_mask())
        one = kq.WishartCompletion().fit_transform(stack).gram()
        other = kq.WishartCompletion(error_estimates=True).fit_transform(stack).gram()
        np.testing.assert_array_equal(one, other)

    def test_what_has_no_model_has_no_estimate(self):
        mask = np.insert(random_mask(m=2), 1, False, axis=1)
        mask[5] = False
        with pytest.warns(UserWarning, match="absent"):
            model = kq.WishartCompletion(error_estimates=True).fit(
                KernelStack(related_kernels(), mask)
            )
        assert np.isnan(model.error_[:, 1]).all()
        assert np.isnan(model.error_[5]).all()
        assert np.isfinite(model.error_[np.arange(24) != 5][:, [0, 2]]).all()

    def test_errors_are_in_units_of_the_kernel(self):
        K, mask = related_kernels(), random_mask()
        errors = [
            kq.WishartCompletion(error_estimates=True).fit(KernelStack(f * K, mask)).error_
            for f in (1.0, 100.0)
        ]
        np.testing.assert_allclose(errors[1], 100 * errors[0], rtol=1e-3)


class TestTooLittleKnown:
    def test_kernels_of_few_samples_are_named(self):
        K, mask = gaussian_kernels(24, 3), random_mask()
        mask[:, 1] = False
        mask[:2, 1] = True
        mask[~mask.any(axis=1), 0] = True
        stack = KernelStack(K, mask, names=["rna", "mri", "pet"])
        with pytest.warns(UserWarning, match="fewer than 3 of 24 .* kernels 'mri'"):
            Z = kq.WishartCompletion().fit_transform(stack).gram()
        assert_psd(Z)
        np.testing.assert_allclose(np.diagonal(Z, axis1=1, axis2=2), 1.0)

    def test_disjoint_kernels_are_named(self):
        K, mask = gaussian_kernels(24, 3), np.ones((24, 3), dtype=bool)
        mask[:12, 2] = False
        mask[12:, :2] = False
        stack = KernelStack(K, mask, names=["rna", "mri", "pet"])
        with pytest.warns(UserWarning, match="not shared with others: the kernels 'pet'"):
            assert_psd(kq.WishartCompletion().fit_transform(stack).gram())

    def test_no_two_kernels_meet(self):
        K, mask = gaussian_kernels(24, 3), np.eye(3, dtype=bool)[np.arange(24) % 3]
        with pytest.warns(UserWarning, match="no two kernels share"):
            model = kq.WishartCompletion(error_estimates=True).fit(KernelStack(K, mask))
        assert np.isfinite(model.error_).all()

    def test_complete_kernels_raise_no_warning(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for n_kernels in (3, 1):
                K = gaussian_kernels(12, n_kernels)
                np.testing.assert_array_equal(
                    kq.WishartCompletion().fit_transform(KernelStack(K)).gram(), K
                )


def published(name, level, split):
    """Return kernels (M, n, n) and mask of one of the published completion problems."""
    path = Path(os.environ.get("KERNELQUILT_DATA", "")) / f"mkc_{name}.npz"
    if not path.is_file():
        pytest.skip(f"KERNELQUILT_DATA names no directory with {path.name}")
    with np.load(path, allow_pickle=False) as stored:
        complete, rest = stored["tr_idx"][split], stored["test_idx"][split]
        observed = stored["observed_test"]
        observed = observed[split] if observed.ndim == 4 else observed
        rows = np.concatenate([complete, rest]).astype(int)
        mask = np.ones((len(rows), observed.shape[1]), dtype=bool)
        mask[len(complete) :] = observed[:, :, level]
        return stored["K"].astype(float)[:, rows][:, :, rows], mask


@pytest.mark.shared_data
@pytest.mark.filterwarnings("ignore:.*samples in common with any other:UserWarning")
@pytest.mark.parametrize(
    ("name", "most"),
    [
        # over these splits; 10 % (TOYL 20 %) above what the algorithm reaches
        ("toyl", (1.8, 1.9, 3.2)),
        ("toyg1", (22.0, 32.5, 52.0)),
        ("toyg01", (5.7, 9.5, 31.0)),
        ("toylg1", (13.0, 21.5, 26.0)),
        ("dream25", (11.8, 14.8, 15.2)),
    ],
)
def test_published_problems(name, most):
    for level, limit in enumerate(most):
        errors = []
        for split in range(0, 10, 2):
            K, mask = published(name, level, split)
            Z = kq.WishartCompletion().fit_transform(KernelStack(K, mask)).gram()
            errors.append(average_relative_error(K, Z, mask))
            assert min(np.linalg.eigvalsh(kernel)[0] for kernel in Z) >= -1e-6
        assert np.mean(errors) <= limit
