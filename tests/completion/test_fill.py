"""The contracts of every completer, and the mathematics of the four fillers."""

import inspect
import pickle

import numpy as np
import pytest
import scipy.optimize
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline

import kernelquilt as kq
from discovery import held_to, instances, transformers
from holes import assert_psd, hide, random_mask, related_kernels, unit
from kernelquilt.data.stack import KernelStack
from kernelquilt.kernels.preprocessing import CentreKernels, ScaleKernels
from problems import random_kernels

nan = np.nan
FILLERS = held_to(transformers("completion"), "completion without help")
every_filler = pytest.mark.parametrize("filler", instances(FILLERS), ids=repr)


@every_filler
class TestEveryFiller:
    @pytest.mark.parametrize("normalise", [unit, np.asarray], ids=["unit_diagonal", "any"])
    def test_output_is_observed_symmetric_and_psd(self, filler, normalise):
        K, mask = normalise(related_kernels()), random_mask()
        stack = clone(filler).fit_transform(KernelStack(K, mask, names=["a", "b", "c"]))
        assert stack.square
        assert stack.names == ("a", "b", "c")
        assert stack.observed.all()
        assert stack.training_gram()[0].shape == K.shape
        assert_psd(stack.gram())

    @pytest.mark.parametrize("normalise", [unit, np.asarray], ids=["unit_diagonal", "any"])
    def test_fit_transform_equals_transform(self, filler, normalise):
        stack = KernelStack(normalise(related_kernels()), random_mask())[4:]
        square = clone(filler).fit_transform(stack)
        rectangular = clone(filler).fit(stack).transform(stack)
        assert not rectangular.square
        assert rectangular.observed.all()
        np.testing.assert_allclose(rectangular.gram(), square.gram(), atol=1e-10)
        np.testing.assert_allclose(rectangular.diag, square.diag, atol=1e-10)

    def test_plain_arrays_have_the_kernels_last(self, filler):
        K, mask = related_kernels(), random_mask()
        plain = np.moveaxis(hide(K, mask, mask, nan), 0, -1)
        expected = clone(filler).fit_transform(KernelStack(K, mask)).gram()
        model = clone(filler)
        np.testing.assert_allclose(model.fit_transform(plain).gram(), expected, atol=1e-12)
        np.testing.assert_allclose(model.transform(plain).gram(), expected, atol=1e-10)

    def test_same_stack_and_other_stack_agree(self, filler):
        K, mask = related_kernels(), random_mask()
        whole = KernelStack(K, mask)
        same = clone(filler).fit(whole[:16]).transform(whole[16:])
        test = KernelStack(K[:, 16:, :16], mask[16:], diag=np.diagonal(K, axis1=1, axis2=2)[:, 16:])
        other = clone(filler).fit(KernelStack(K[:, :16, :16], mask[:16])).transform(test)
        assert same.shape == (8, 3)
        assert same.n_cols == 16
        np.testing.assert_array_equal(same.gram(), other.gram())
        np.testing.assert_array_equal(same.diag, other.diag)

    def test_absent_entries_are_never_used(self, filler):
        K, mask = related_kernels(), random_mask()
        outputs = []
        for value in (nan, 0.0, 1e9):
            stack = KernelStack(hide(K, mask, mask, value), mask)
            model = clone(filler)
            train, test = model.fit_transform(stack[:16]), model.transform(stack[16:])
            outputs.append((train.gram(), test.gram(), test.diag))
        for output in outputs[1:]:
            for got, expected in zip(output, outputs[0], strict=True):
                np.testing.assert_array_equal(got, expected)

    def test_nothing_absent_changes_nothing(self, filler):
        K = related_kernels()
        stack = KernelStack(K)
        model = clone(filler)
        np.testing.assert_array_equal(model.fit_transform(stack[:16]).gram(), K[:, :16, :16])
        new = model.transform(stack[16:])
        np.testing.assert_allclose(new.gram(), K[:, 16:, :16], atol=1e-12)
        np.testing.assert_allclose(new.diag, stack[16:].diag, atol=1e-12)

    def test_permuting_samples_permutes_the_output(self, filler):
        K, mask = related_kernels(), random_mask()
        order = np.random.default_rng(1).permutation(len(mask))
        stack = KernelStack(K, mask)
        expected = clone(filler).fit_transform(stack).gram()[:, order][:, :, order]
        got = clone(filler).fit_transform(stack[order]).gram()
        np.testing.assert_allclose(got, expected, atol=1e-8)

    def test_samples_without_any_kernel(self, filler):
        K, mask = related_kernels(), random_mask()
        mask[[5, 6, 20]] = False
        stack = KernelStack(K, mask)
        known = np.delete(np.arange(16), [5, 6])
        model = clone(filler)
        with pytest.warns(UserWarning, match="2 of 16 training samples have no observed kernel"):
            train = model.fit_transform(stack[:16])
        with pytest.warns(UserWarning, match="1 of 8 samples have no observed kernel"):
            test = model.transform(stack[16:])
        with pytest.warns(UserWarning, match="2 of 16 samples"):
            again = model.transform(stack[:16])
        np.testing.assert_allclose(again.gram(), train.gram(), atol=1e-10)
        np.testing.assert_allclose(again.diag, train.diag, atol=1e-10)
        assert_psd(train.gram())
        # they leave no trace in the rest
        without = clone(filler).fit(stack[known])
        expected = without.transform(stack[np.delete(np.arange(16, 24), 4)]).gram()
        got = test.gram()[:, np.arange(8) != 4][:, :, known]
        np.testing.assert_allclose(got, expected, atol=1e-12)
        # and are the mean of the samples that have the kernel, or zero
        for m, kernel in enumerate(train.gram()):
            mean = kernel[:, mask[:16, m]].mean(axis=1) * (
                not isinstance(filler, kq.completion.ZeroFill)
            )
            for row in (5, 6):
                np.testing.assert_allclose(kernel[row], mean, atol=1e-12)
            np.testing.assert_allclose(test.gram()[m, 4], mean, atol=1e-12)

    @pytest.mark.parametrize("normalise", [True, False])
    def test_samples_that_occur_twice(self, filler, normalise):
        K = unit(related_kernels()) if normalise else related_kernels()
        stack = KernelStack(K, random_mask())[np.r_[np.arange(24), 4, 9, 4]]
        model = clone(filler)
        got = model.fit_transform(stack).gram()
        np.testing.assert_allclose(got[:, 24:], got[:, [4, 9, 4]], atol=1e-8)
        np.testing.assert_allclose(model.transform(stack).gram(), got, atol=1e-8)

    def test_kernel_without_training_samples_stays_absent(self, filler):
        K, mask = related_kernels(), random_mask(m=2)
        mask = np.insert(mask, 1, False, axis=1)
        mask[16:, 1] = True
        stack = KernelStack(K, mask)
        model = clone(filler)
        with pytest.warns(UserWarning, match="1 of 3 kernels absent for all 16 .* 'kernel_1'"):
            train = model.fit_transform(stack[:16])
        test = model.transform(stack[16:])
        for output in (train, test):
            np.testing.assert_array_equal(
                output.observed, np.tile([True, False, True], (len(output), 1))
            )
            assert not output.gram()[1].any()
        rest = KernelStack(K[[0, 2]], mask[:, [0, 2]])
        other = clone(filler)
        np.testing.assert_array_equal(other.fit_transform(rest[:16]).gram(), train.gram()[[0, 2]])
        np.testing.assert_array_equal(other.transform(rest[16:]).gram(), test.gram()[[0, 2]])

    def test_single_kernel(self, filler):
        K, mask = related_kernels(m=1), random_mask(m=1)
        mask[[3, 7]] = False
        with pytest.warns(UserWarning, match="no observed kernel"):
            stack = clone(filler).fit_transform(KernelStack(K, mask))
        np.testing.assert_allclose(
            stack.gram()[0][np.ix_(mask[:, 0], mask[:, 0])],
            K[0][np.ix_(mask[:, 0], mask[:, 0])],
            atol=1e-12,
        )

    def test_float32_is_kept(self, filler):
        K, mask = unit(related_kernels()), random_mask()
        outputs = []
        for dtype in (np.float32, np.float64):
            stack = KernelStack(K.astype(dtype), mask)
            model = clone(filler)
            train, test = model.fit_transform(stack[:16]), model.transform(stack[16:])
            assert train.dtype == test.dtype == test.diag.dtype == dtype
            assert_psd(train.gram(), tol=1e-5)
            outputs.append((train.gram(), test.gram(), test.diag))
        for low, high in zip(*outputs, strict=True):
            np.testing.assert_allclose(low, high, atol=1e-3)

    def test_input_is_not_changed(self, filler):
        K, mask = related_kernels(), random_mask()
        K = hide(K, mask, mask, 0.0)
        before = K.copy()
        model = clone(filler)
        model.fit_transform(KernelStack(K, mask))
        model.transform(KernelStack(K, mask, diag=np.ones((3, 24))))
        np.testing.assert_array_equal(K, before)

    def test_pickle_holds_no_training_stack(self, filler):
        stack = KernelStack(related_kernels(), random_mask())
        model = clone(filler).fit(stack[:16])
        held = [value for value in vars(model).values() if isinstance(value, KernelStack)]
        assert not held
        again = pickle.loads(pickle.dumps(model))
        np.testing.assert_array_equal(
            again.transform(stack[16:]).gram(), model.transform(stack[16:]).gram()
        )

    def test_errors_leave_the_state(self, filler):
        K, mask = related_kernels(), random_mask()
        model = clone(filler)
        with pytest.raises(NotFittedError):
            model.transform(KernelStack(K, mask))
        before = dict(vars(model))
        with pytest.raises(ValueError, match="square"):
            model.fit(KernelStack(K[:, :4]))
        broken = K.copy()
        broken[1, 0, 0] = nan
        with pytest.raises(ValueError, match="'kernel_1'"):
            model.fit(KernelStack(broken, mask))
        with pytest.raises(ValueError, match="all 3 kernels are absent for all 24"):
            model.fit(KernelStack(K, np.zeros_like(mask)))
        assert vars(model) == before
        model.fit(KernelStack(K, mask))
        with pytest.raises(ValueError, match="fitted on 24 samples"):
            model.transform(KernelStack(K[:, :, :4]))
        with pytest.raises(ValueError, match="fitted with the 3 kernels"):
            model.transform(KernelStack(K[:2]))

    def test_rows_without_diag(self, filler):
        K, mask = related_kernels(), random_mask()
        model = clone(filler).fit(KernelStack(K[:, :16, :16], mask[:16]))
        new = model.transform(KernelStack(K[:, 16:, :16], mask[16:]))
        assert new.diag is None
        expected = model.transform(KernelStack(K[:, 16:, :16], mask[16:], diag=np.ones((3, 8))))
        if isinstance(filler, kq.completion.ZeroFill | kq.completion.MeanFill):
            np.testing.assert_array_equal(new.gram(), expected.gram())

    def test_no_rows(self, filler):
        stack = KernelStack(related_kernels(), random_mask())
        assert clone(filler).fit(stack).transform(stack[[]]).shape == (0, 3)

    def test_unit_diagonal_scaling_follows(self, filler):
        stack = KernelStack(related_kernels(), random_mask())
        model = make_pipeline(clone(filler), ScaleKernels("unit_diagonal"))
        train, test = model.fit_transform(stack[:16]), model.transform(stack[16:])
        assert np.isfinite(test.gram()).all()
        np.testing.assert_allclose(model.transform(stack[:16]).gram(), train.gram(), atol=1e-8)

    def test_classifiers_and_searches_follow(self, filler):
        rng = np.random.default_rng(0)
        y = np.repeat([0, 1], 20)
        X = kq.MultiView(
            {name: rng.normal(size=(40, 3)) + 2.5 * y[:, None] for name in "abc"},
            random_mask(40),
        )
        from_views = make_pipeline(kq.ViewKernels(), clone(filler), kq.SimpleMKLClassifier())
        stack = kq.ViewKernels().fit_transform(X)
        from_stack = make_pipeline(clone(filler), kq.SimpleMKLClassifier())
        for model, data in ((from_views, X), (from_stack, stack)):
            assert cross_val_score(model, data, y, cv=3).mean() > 0.75
        search = GridSearchCV(from_stack, {"simplemklclassifier__C": [0.1, 1.0]}, cv=2)
        assert search.fit(stack, y).predict(stack).shape == (40,)
        step = type(filler).__name__.lower()
        search = GridSearchCV(from_stack, {step: [kq.completion.ZeroFill(), filler]}, cv=2)
        assert search.fit(stack, y).best_score_ > 0.75

    def test_tags(self, filler):
        assert not filler.__sklearn_tags__().input_tags.two_d_array


@pytest.mark.parametrize("filler", instances(held_to(FILLERS, "relations of kernels")), ids=repr)
class TestTooLittleKnown:
    def test_kernel_of_two_samples_is_named(self, filler):
        K, mask = unit(related_kernels()), np.ones((24, 3), dtype=bool)
        mask[2:, 1] = False
        with pytest.warns(UserWarning, match=r"fewer than 3 of 24 .* kernels 'mri'"):
            clone(filler).fit(KernelStack(K, mask, names=["rna", "mri", "dna"]))

    def test_kernels_that_do_not_meet_are_named(self, filler):
        K, mask = unit(related_kernels()), np.ones((24, 3), dtype=bool)
        mask[:12, 2], mask[12:, :2] = False, False
        with pytest.warns(UserWarning, match=r"'mri'.*(in common|: 12\))"):
            clone(filler).fit(KernelStack(K, mask, names=["rna", "dna", "mri"]))


class TestZero:
    def test_is_zero_where_absent(self):
        K, mask = related_kernels(), random_mask()
        stack = KernelStack(K, mask)
        model = kq.completion.ZeroFill()
        np.testing.assert_array_equal(
            model.fit_transform(stack[:16]).gram(),
            hide(K[:, :16, :16], mask[:16], mask[:16], 0.0),
        )
        new = model.transform(stack[16:])
        np.testing.assert_array_equal(new.gram(), hide(K[:, 16:, :16], mask[16:], mask[:16], 0.0))
        np.testing.assert_array_equal(new.diag, np.where(mask[16:].T, stack[16:].diag, 0.0))


class TestMean:
    def test_equals_filling_features_with_their_mean(self):
        rng = np.random.default_rng(0)
        K, features = random_kernels(rng, 20, 3, rank=5)
        mask = random_mask(20)
        stack = KernelStack(K, mask)
        model = kq.completion.MeanFill()
        train, test = model.fit_transform(stack[:12]), model.transform(stack[12:])
        for m, F in enumerate(features):
            mean = F[:12][mask[:12, m]].mean(axis=0)
            F = np.where(mask[:, [m]], F, mean)
            np.testing.assert_allclose(train.gram()[m], F[:12] @ F[:12].T, atol=1e-13)
            np.testing.assert_allclose(test.gram()[m], F[12:] @ F[:12].T, atol=1e-13)
            np.testing.assert_allclose(test.diag[m], (F[12:] ** 2).sum(axis=1), atol=1e-13)

    @given(seed=st.integers(0, 10**6), share=st.floats(0.1, 1.0))
    @settings(max_examples=25, deadline=None)
    def test_equals_zero_fill_on_centred_kernels(self, seed, share):
        rng = np.random.default_rng(seed)
        stack = KernelStack(random_kernels(rng, 15, 2)[0], random_mask(15, 2, seed, share))
        outputs = []
        for filler in (kq.completion.MeanFill(), kq.completion.ZeroFill()):
            model = make_pipeline(CentreKernels(), filler)
            train, test = model.fit_transform(stack[:10]), model.transform(stack[10:])
            outputs.append((train.gram(), test.gram(), test.diag))
        for mean, zero in zip(*outputs, strict=True):
            np.testing.assert_allclose(mean, zero, atol=1e-12)


def plain_em(X, present, ridge, n_iter):
    """Return mean and covariance by EM as the textbook has it, one vector at a time."""
    X, present = X[present.any(axis=1)], present[present.any(axis=1)]
    m = X.shape[1]
    mean, S = np.zeros(m), np.eye(m)
    for _ in range(n_iter):
        completed, extra = [], np.zeros((m, m))
        for x, o in zip(X, present, strict=True):
            gain = S[:, o] @ np.linalg.inv(S[np.ix_(o, o)])
            completed.append(mean + gain @ (x[o] - mean[o]))
            extra += S - gain @ S[o]
        mean = np.mean(completed, axis=0)
        S = np.cov(np.transpose(completed), bias=True) + extra / len(X) + ridge * np.eye(m)
    return mean, S


class TestEM:
    def test_gaussian_equals_textbook_em(self):
        n, m = 9, 3
        K, mask = related_kernels(n, m), random_mask(n, m)
        i, j = np.triu_indices(n)
        X, present = K[:, i, j].T, mask[i] & mask[j]
        centre = np.array([x[o].mean() for x, o in zip(X.T, present.T, strict=True)])
        spread = np.array([x[o].std() for x, o in zip(X.T, present.T, strict=True)])
        mean, S = plain_em((X - centre) / spread, present, 1e-6, 700)
        found = kq.completion.solve_em_fill(K, mask, tol=1e-15, max_iter=3000)
        np.testing.assert_allclose(found.mean, centre + spread * mean, atol=1e-5)
        np.testing.assert_allclose(found.covariance, spread[:, None] * S * spread, atol=1e-5)

    def test_complete_pairs_have_the_sample_covariance(self):
        K = related_kernels(12)
        found = kq.completion.solve_em_fill(K, np.ones((12, 3), dtype=bool), ridge=1e-9, tol=1e-12)
        pairs = K[:, *np.triu_indices(12)]
        np.testing.assert_allclose(found.mean, pairs.mean(axis=1), atol=1e-8)
        np.testing.assert_allclose(found.covariance, np.cov(pairs, bias=True), rtol=1e-6)

    def test_more_kernels_than_bits_in_a_word(self):
        # the patterns of 70 kernels need two words; kernels repeat, so one is known from another
        K = np.tile(related_kernels(10, 2), (35, 1, 1))
        mask = np.ones((10, 70), dtype=bool)
        mask[3, 69] = mask[5, 1] = False
        model = kq.completion.EMFill(ridge=1e-8, tol=1e-9)
        np.testing.assert_allclose(model.fit_transform(KernelStack(K, mask)).gram(), K, atol=1e-3)

    @given(seed=st.integers(0, 10**6), share=st.floats(0.2, 1.0))
    @settings(max_examples=15, deadline=None)
    def test_likelihood_never_decreases(self, seed, share):
        rng = np.random.default_rng(seed)
        K = random_kernels(rng, 12, 4, rank=6)[0]
        found = kq.completion.solve_em_fill(K, random_mask(12, 4, seed, share), tol=1e-8)
        objective = np.array([step.objective for step in found.history])
        assert (np.diff(objective) >= -1e-10).all()
        assert min(step.distance for step in found.history) >= -1e-10

    def test_missing_entries_are_conditional_means(self):
        K, mask = related_kernels(10), random_mask(10)
        model = kq.completion.EMFill().fit(KernelStack(K, mask))
        rows = KernelStack(K[:, :4], mask[:4])
        # no kernel is projected or scaled: what is left is the first of the three steps
        model._parts = [None] * 3
        got = model.transform(rows).gram()
        for i in range(4):
            for j in range(10):
                o = mask[i] & mask[j]
                gain = model.covariance_[:, o] @ np.linalg.inv(model.covariance_[np.ix_(o, o)])
                expected = model.mean_ + gain @ (K[o, i, j] - model.mean_[o])
                np.testing.assert_allclose(got[:, i, j], np.where(o, K[:, i, j], expected))

    def test_output_is_the_projection_of_the_filled_kernels(self):
        K, mask = related_kernels(15), random_mask(15)
        stack = KernelStack(K, mask)
        model = kq.completion.EMFill()
        got = model.fit_transform(stack).gram()
        model._parts = [None] * 3
        for kernel, expected in zip(got, model.transform(stack).gram(), strict=True):
            values, vectors = np.linalg.eigh(expected)
            assert values[0] < -1e-3
            expected = (vectors * np.maximum(values, 0)) @ vectors.T
            np.testing.assert_allclose(kernel, expected, atol=1e-9)

    def test_unit_diagonal_is_restored(self):
        K, mask = related_kernels(), random_mask()
        mask[~mask[:, :2].any(axis=1), 0] = True
        K[:2] = unit(K[:2])
        stack = KernelStack(K, mask)
        model = kq.completion.EMFill()
        train, test = model.fit_transform(stack[:16]), model.transform(stack[16:])
        np.testing.assert_allclose(train.diag[:2], 1.0, atol=1e-12)
        np.testing.assert_array_equal(test.diag[:2], 1.0)
        assert np.abs(test.gram()[:2]).max() <= 1 + 1e-12
        assert np.ptp(train.diag[2]) > 0.1
        # k(x, x) of new rows is then known without being told
        rows = KernelStack(K[:2, 16:, :16], mask[16:, :2])
        model = kq.completion.EMFill().fit(KernelStack(K[:2, :16, :16], mask[:16, :2]))
        np.testing.assert_array_equal(model.transform(rows).diag, 1.0)

    def test_scale_of_a_kernel_does_not_matter(self):
        K, mask = related_kernels(), random_mask()
        factor = np.array([1e-6, 1.0, 1e6])[:, None, None]
        one = kq.completion.EMFill().fit_transform(KernelStack(K, mask)).gram()
        other = kq.completion.EMFill().fit_transform(KernelStack(factor * K, mask)).gram() / factor
        np.testing.assert_allclose(other, one, atol=1e-7)

    def test_constant_kernel(self):
        K = np.stack([np.ones((12, 12)), related_kernels(12, 1)[0]])
        stack = kq.completion.EMFill().fit_transform(KernelStack(K, random_mask(12, 2)))
        np.testing.assert_allclose(stack.gram()[0], 1.0, atol=1e-6)


def block_matrix(K):
    return np.concatenate(list(K), axis=1)


def observed_entries(mask):
    return np.concatenate([np.outer(s, s) for s in mask.T], axis=1)


class TestSVT:
    @pytest.mark.parametrize("tau", [0.5, 5.0, None])
    @pytest.mark.parametrize("share", [0.5, 0.8])
    def test_solves_the_nuclear_norm_problem(self, tau, share):
        import cvxpy as cp

        K, mask = related_kernels(8, 2), random_mask(8, 2, share=share)
        A, O = block_matrix(K), observed_entries(mask)
        found = kq.completion.solve_svt(K, mask, tau=tau, tol=1e-9)
        X = cp.Variable(A.shape)
        objective = found.tau * cp.normNuc(X) + 0.5 * cp.sum_squares(X)
        cp.Problem(cp.Minimize(objective), [X[O] == A[O]]).solve(solver=cp.CLARABEL)
        got = block_matrix(found.rows @ found.columns.transpose(0, 2, 1))
        np.testing.assert_allclose(got, X.value, atol=1e-4 * np.abs(A).max())
        value = found.tau * np.linalg.norm(got, "nuc") + 0.5 * (got**2).sum()
        np.testing.assert_allclose(value, objective.value, rtol=1e-6)
        np.testing.assert_allclose(found.history[-1].objective, value, rtol=1e-6)

    def test_equals_singular_value_thresholding(self):
        K, mask = related_kernels(10, 3), random_mask(10, 3)
        A, O = block_matrix(K), observed_entries(mask)
        found = kq.completion.solve_svt(K, mask, tol=1e-10)
        Y = np.zeros_like(A)
        for _ in range(20000):
            U, s, Vt = np.linalg.svd(Y, full_matrices=False)
            X = (U * np.maximum(s - found.tau, 0)) @ Vt
            if np.linalg.norm((X - A)[O]) <= 1e-7 * np.linalg.norm(A[O]):
                break
            Y += min(1.2 / O.mean(), 1.9) * np.where(O, A - X, 0)
        got = block_matrix(found.rows @ found.columns.transpose(0, 2, 1))
        np.testing.assert_allclose(got, X, atol=1e-4)

    @pytest.mark.parametrize("share", [0.15, 0.5, 0.9])
    def test_equals_ascent_on_the_dual_for_kernels_of_many_widths(self, share):
        # singular values of such kernels decay over many orders of magnitude
        rng = np.random.default_rng(0)
        F = rng.normal(size=(24, 3))
        distances = ((F[:, None] - F) ** 2).sum(axis=2)
        K = np.array([np.exp(-distances / width) for width in (0.1, 1.0, 10.0, 100.0)])
        mask = random_mask(24, 4, share=share)
        A, O = block_matrix(K), observed_entries(mask)
        found = kq.completion.solve_svt(K, mask, tol=1e-6)

        def thresholded(flat):
            Y = np.zeros_like(A)
            Y[O] = flat
            U, s, Vt = np.linalg.svd(Y, full_matrices=False)
            return (U * np.maximum(s - found.tau, 0)) @ Vt

        def negative(flat):
            X = thresholded(flat)
            return 0.5 * (X**2).sum() - flat @ A[O], (X - A)[O]

        options = {"maxiter": 5000, "maxfun": 20000, "ftol": 0.0, "gtol": 1e-7}
        start = found.tau / np.linalg.norm(np.where(O, A, 0.0), 2) * A[O]
        best = scipy.optimize.minimize(
            negative, start, jac=True, method="L-BFGS-B", options=options
        )
        expected = thresholded(best.x)
        np.testing.assert_allclose(expected[O], A[O], atol=1e-4)
        got = block_matrix(found.rows @ found.columns.transpose(0, 2, 1))
        np.testing.assert_allclose(got, expected, atol=2e-3)
        np.testing.assert_allclose(found.history[-1].objective, -best.fun, rtol=1e-6)

    def test_leading_vectors_alone_lead_to_the_same_matrix(self, monkeypatch):
        from kernelquilt.completion.literature import nuclear_norm

        rng = np.random.default_rng(0)
        F = rng.normal(size=(90, 3))
        distances = ((F[:, None] - F) ** 2).sum(axis=2)
        K = np.array([np.exp(-distances / width) for width in (100.0, 300.0, 1e3, 3e3)])
        mask = random_mask(90, 4, share=0.3)
        sizes = []
        spectrum = nuclear_norm._spectrum

        def counted(V, basis=None):
            sizes.append(len(V) if basis is None else basis.shape[1])
            return spectrum(V, basis)

        monkeypatch.setattr(nuclear_norm, "_spectrum", counted)
        some = kq.completion.solve_svt(K, mask)
        assert np.mean(np.array(sizes) <= 30) > 0.5
        monkeypatch.setattr(nuclear_norm, "LEAST_SPARE", 90)
        sizes.clear()
        every = kq.completion.solve_svt(K, mask)
        assert set(sizes) == {90}
        X, expected = (
            block_matrix(found.rows @ found.columns.transpose(0, 2, 1)) for found in (some, every)
        )
        assert np.linalg.norm(X - expected) <= 1e-3 * np.linalg.norm(expected)

    @given(seed=st.integers(0, 10**6), share=st.floats(0.2, 0.9))
    @example(seed=4269, share=0.875)  # nothing absent
    @settings(max_examples=10, deadline=None)
    def test_dual_values_are_bounds_that_meet_the_optimum(self, seed, share):
        rng = np.random.default_rng(seed)
        K = random_kernels(rng, 10, 3, rank=4)[0]
        found = kq.completion.solve_svt(K, random_mask(10, 3, seed, share), tol=1e-6)
        X = block_matrix(found.rows @ found.columns.transpose(0, 2, 1))
        optimum = found.tau * np.linalg.norm(X, "nuc") + 0.5 * (X**2).sum()
        values = np.array([step.objective for step in found.history])
        assert (values <= optimum * (1 + 1e-5)).all()
        np.testing.assert_allclose(values[-1], optimum, rtol=1e-5)
        assert found.history[-1].distance <= 1e-6

    def test_recovers_kernels_of_the_same_features(self):
        rng = np.random.default_rng(0)
        F = rng.normal(size=(50, 3))
        K = np.array([F @ np.diag(rng.uniform(0.5, 2, 3)) @ F.T for _ in range(4)])
        mask = random_mask(50, 4, share=0.7)
        stack, train, new = KernelStack(K, mask), K[:, :40, :40], K[:, 40:, :40]
        found = kq.completion.solve_svt(train, mask[:40], tau=1500.0, tol=1e-6)
        assert found.rows.shape == (40, 3)
        X = found.rows @ found.columns.transpose(0, 2, 1)
        for low_rank, kernel, present in zip(X, train, mask[:40].T, strict=True):
            np.testing.assert_allclose(low_rank[:, present], kernel[:, present], atol=1e-3)
            # nothing is known of the columns of absent samples
            assert not low_rank[:, ~present].any()
        model = kq.completion.SVTFill(1500.0, tol=1e-6)
        np.testing.assert_allclose(model.fit_transform(stack[:40]).gram(), train, atol=1e-3)
        test = model.transform(stack[40:])
        np.testing.assert_allclose(test.gram(), new, atol=1e-3)
        np.testing.assert_allclose(test.diag, stack[40:].diag, atol=1e-3)

    def test_observed_entries_stay(self):
        K, mask = related_kernels(), random_mask()
        filled = kq.completion.SVTFill().fit_transform(KernelStack(K, mask)).gram()
        np.testing.assert_array_equal(hide(filled, mask, mask, 0.0), hide(K, mask, mask, 0.0))

    def test_tiny_tau_leaves_zeros(self):
        K, mask = related_kernels(), random_mask()
        found = kq.completion.solve_svt(K, mask, tau=1e-6)
        X = found.rows @ found.columns.transpose(0, 2, 1)
        np.testing.assert_allclose(X, hide(K, mask, mask, 0.0), atol=1e-3)
        tiny = kq.completion.solve_svt(K, mask, tau=1e-200)
        X = tiny.rows @ tiny.columns.transpose(0, 2, 1)
        np.testing.assert_allclose(X, hide(K, mask, mask, 0.0), atol=1e-3)

    def test_kernels_that_are_zero(self):
        stack = kq.completion.SVTFill().fit_transform(
            KernelStack(np.zeros((2, 6, 6)), random_mask(6, 2))
        )
        assert not stack.gram().any()


@pytest.mark.parametrize(
    "filler",
    [kq.completion.EMFill(), kq.completion.SVTFill(), kq.completion.SharedFactorCompletion()],
    ids=lambda f: type(f).__name__,
)
class TestIteration:
    def test_too_few_iterations_are_told(self, filler):
        model = clone(filler).set_params(max_iter=2)
        with pytest.warns(ConvergenceWarning, match=r"stopped after .* raise max_iter or tol"):
            stack = model.fit_transform(KernelStack(related_kernels(), random_mask()))
        assert not model.converged_
        assert_psd(stack.gram())

    def test_attributes(self, filler):
        model = clone(filler).fit(KernelStack(related_kernels(), random_mask()))
        assert model.converged_
        assert model.n_iter_ == len(model.history_) > 1
        assert model.history_[-1].distance <= model.tol < model.history_[0].distance

    def test_progress_is_printed_when_asked_for(self, filler, capsys):
        stack = KernelStack(related_kernels(), random_mask())
        clone(filler).fit(stack)
        assert capsys.readouterr().out == ""
        model = clone(filler).set_params(verbose=1).fit(stack)
        lines = capsys.readouterr().out.splitlines()
        assert len(lines) == model.n_iter_
        assert lines[0].startswith(f"[{type(filler).__name__}] iteration 1: objective")

    @pytest.mark.parametrize(
        ("name", "value"), [("tol", 0.0), ("max_iter", 0), ("ridge", -1.0), ("tau", "large")]
    )
    def test_bad_parameters(self, filler, name, value):
        if name not in filler.get_params():
            return
        with pytest.raises(ValueError, match=f"'{name}' parameter"):
            clone(filler).set_params(**{name: value}).fit(KernelStack(related_kernels()))


@pytest.mark.parametrize(
    "name",
    [name for name in kq.completion.__all__ if inspect.isclass(getattr(kq.completion, name))],
)
def test_at_most_two_classes_of_ours_stand_above_a_completer(name):
    above = getattr(kq.completion, name).__mro__[1:]
    assert sum(each.__module__.startswith("kernelquilt") for each in above) <= 2
