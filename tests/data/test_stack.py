import pickle
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.model_selection import KFold, train_test_split
from sklearn.utils import _safe_indexing

from kernelquilt.data.stack import KernelStack, as_stack

nan = np.nan


def make_kernels(M=3, n=8, seed=0, dtype=np.float64):
    X = np.random.default_rng(seed).normal(size=(M, n, 4))
    return np.ascontiguousarray(X @ X.transpose(0, 2, 1), dtype=dtype)


def make_mask(M=3, n=8):
    mask = np.ones((n, M), dtype=bool)
    mask[[1, 2], 0] = False
    mask[[2, 5, 6], 1] = False
    return mask


def hide(K, mask, value=nan):
    """Put a value into the rows and columns of absent samples."""
    K = K.copy()
    for m, present in enumerate(mask.T):
        K[m, ~present] = value
        K[m, :, ~present] = value
    return K


class TestConstruction:
    def test_shape_names_and_types(self):
        stack = KernelStack(make_kernels())
        assert stack.shape == (8, 3)
        assert len(stack) == stack.n_cols == 8
        assert stack.names == ("kernel_0", "kernel_1", "kernel_2")
        assert stack.dtype == np.float64
        assert stack.square
        assert stack.observed.all()
        assert KernelStack(make_kernels(dtype=np.float32)).dtype == np.float32
        assert KernelStack(np.ones((1, 2, 2), dtype=int)).dtype == np.float64
        assert KernelStack([np.eye(2, dtype=np.float32), np.eye(2)]).dtype == np.float64

    def test_rectangular(self):
        K = make_kernels()
        assert not KernelStack(K[:, :5]).square
        assert KernelStack(K[:, :5]).diag is None
        with_diag = KernelStack(K, diag=np.ones((3, 8)))
        assert not with_diag.square
        assert with_diag[[3, 1]].diag.shape == (3, 2)

    def test_diagonal_of_a_square_stack(self):
        K = make_kernels()
        np.testing.assert_array_equal(KernelStack(K)[[4, 0]].diag, K[:, [4, 0], [4, 0]])

    def test_whole_rows_of_nan_are_absent(self):
        K, mask = make_kernels(), make_mask()
        np.testing.assert_array_equal(KernelStack(hide(K, mask)).observed, mask)
        rectangular = np.where(mask.T[:, :, None], K, nan)[:, :, :5]
        rectangular[:, :, 0] = nan
        np.testing.assert_array_equal(KernelStack(list(rectangular)).observed, mask)

    def test_masked_rows_are_absent(self):
        K = np.ma.array(np.ones((2, 4, 4)), mask=False)
        K[1, 2] = np.ma.masked
        for kernels in (K, list(K)):
            assert (~KernelStack(kernels).observed).nonzero() == (2, 1)

    def test_a_single_nan_is_not_absence(self):
        K = make_kernels()
        K[0, 1, 1] = nan
        assert KernelStack(K).observed.all()

    @pytest.mark.parametrize(
        ("K", "options", "message"),
        [
            ([], {}, "at least one kernel"),
            (np.eye(3), {}, r"\(M, n_rows, n_cols\)"),
            (np.ones((2, 0, 3)), {}, r"\(M, n_rows, n_cols\)"),
            ([np.eye(2), np.eye(3)], {}, r"same shape.*\(2, 2\), \(3, 3\)"),
            (np.ones((1, 2, 2)) * 1j, {}, "real numbers.*complex"),
            (np.ones((1, 2, 2), dtype=object), {}, "real numbers.*object"),
            (np.ones((2, 3, 3)), {"names": ["a"]}, "1 names were given for 2 kernels"),
            (np.ones((2, 3, 3)), {"names": ["a", "a"]}, "repeated: 'a'"),
            (np.ones((2, 3, 3)), {"diag": np.ones((2, 2))}, r"diag must have shape \(2, 3\)"),
            (np.ones((2, 3, 3)), {"observed": np.ones((2, 3), bool)}, r"shape \(3, 2\)"),
            (np.ones((2, 3, 3)), {"observed": np.ones((3, 2))}, "boolean"),
        ],
    )
    def test_wrong_input(self, K, options, message):
        with pytest.raises(ValueError, match=message):
            KernelStack(K, **options)

    def test_is_neither_array_nor_iterable(self):
        with pytest.raises(TypeError, match="not an array"):
            np.asarray(KernelStack(make_kernels()))
        with pytest.raises(TypeError, match="not iterable"):
            iter(KernelStack(make_kernels()))

    def test_repr(self):
        text = repr(KernelStack(make_kernels(M=20), observed=np.ones((8, 20), bool))[:4])
        assert "20 kernels, 4 rows selected of 8 x 4 columns, float64, 0.0 MiB" in text
        assert "0.0 % absent, 1 distinct pattern of absence" in text
        assert "... and 8 more" in text


class TestSlicing:
    @pytest.mark.parametrize(
        ("rows", "expected"),
        [
            (3, [3]),
            (slice(2, 6, 2), [2, 4]),
            ([True] + [False] * 6 + [True], [0, 7]),
            ([5, 5, 0], [5, 5, 0]),
            ((np.array([1, 7]), ...), [1, 7]),
            ([], []),
        ],
    )
    def test_rows(self, rows, expected):
        K, mask = make_kernels(), make_mask()
        part = KernelStack(K, mask)[rows]
        assert part.shape == (len(expected), 3)
        assert part.ids.tolist() == expected
        np.testing.assert_array_equal(part.observed, mask[expected])
        np.testing.assert_array_equal(part.gram(), K[:, expected][:, :, expected])

    def test_out_of_range(self):
        with pytest.raises(IndexError):
            KernelStack(make_kernels())[[0, 8]]

    @given(
        first=st.lists(st.integers(0, 7), min_size=1, max_size=9),
        picks=st.lists(st.integers(0, 100), max_size=6),
    )
    def test_slices_compose(self, first, picks):
        second = [pick % len(first) for pick in picks]
        stack = KernelStack(make_kernels(), make_mask())
        part, direct = stack[first][second], stack[[first[i] for i in second]]
        np.testing.assert_array_equal(part.ids, direct.ids)
        np.testing.assert_array_equal(part.observed, direct.observed)
        np.testing.assert_array_equal(part.gram(), direct.gram())
        assert part.token == stack.token

    def test_gram_of_positions(self):
        K = make_kernels()
        part = KernelStack(K)[[7, 2, 4]]
        np.testing.assert_array_equal(part.gram(rows=[2, 0]), K[:, [4, 7]][:, :, [7, 2, 4]])
        np.testing.assert_array_equal(part.gram([1], slice(0, 2)), K[:, [2]][:, :, [7, 2]])
        rectangular = KernelStack(K[:, :, :5])[[7, 2]]
        np.testing.assert_array_equal(rectangular.gram(), K[:, [7, 2], :5])
        np.testing.assert_array_equal(rectangular.gram(0, [4, 0]), K[:, [7]][:, :, [4, 0]])

    def test_cross_validation_copies_no_kernel(self):
        K = np.zeros((8, 1200, 1200))
        stack = KernelStack(K, observed=np.ones((1200, 8), dtype=bool))
        tracemalloc.start()
        parts = [_safe_indexing(stack, ids) for pair in KFold(5).split(stack) for ids in pair]
        parts += train_test_split(stack, random_state=0)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert len(parts) == 12
        assert peak < 0.05 * K.nbytes

    def test_token_survives_pickling_and_differs_between_stacks(self):
        stack = KernelStack(make_kernels())
        assert pickle.loads(pickle.dumps(stack[:3])).token == stack.token
        assert KernelStack(make_kernels()).token != stack.token


class TestTrainingGram:
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_no_copy_of_usable_kernels(self, dtype):
        K = make_kernels(dtype=dtype)
        result, observed = KernelStack(K).training_gram()
        assert result is K
        assert observed.all()

    def test_no_copy_if_absent_entries_are_zero_already(self):
        K = hide(make_kernels(), make_mask(), 0.0)
        assert KernelStack(K, make_mask()).training_gram()[0] is K
        K[0, 0, 1] = K[0, 1, 0] = 1.0
        assert KernelStack(K, make_mask()).training_gram()[0] is not K

    @pytest.mark.parametrize("value", [nan, np.inf, 7.0])
    def test_absent_entries_become_zero(self, value):
        K, mask = make_kernels(), make_mask()
        stored = hide(K, mask, value)
        result, observed = KernelStack(stored, mask).training_gram()
        np.testing.assert_array_equal(result, hide(K, mask, 0.0))
        np.testing.assert_array_equal(observed, mask)
        assert not np.shares_memory(result, stored)

    @pytest.mark.parametrize(
        "store",
        [
            lambda K: K.transpose(0, 2, 1),
            lambda K: list(K),
            lambda K: K.astype(">f8"),
            lambda K: K.astype(np.longdouble),
            lambda K: [K[0].astype(np.float32), *K[1:]],
        ],
    )
    def test_other_storage_is_copied(self, store):
        K = make_kernels()
        result, _ = KernelStack(store(K)).training_gram()
        assert result.flags.c_contiguous
        assert result.dtype == np.float64
        assert result.dtype.isnative
        np.testing.assert_allclose(result, K, rtol=1e-6)

    def test_slices_with_repeated_rows(self):
        K, ids = make_kernels(), [3, 3, 0, 6]
        result, _ = KernelStack(K)[ids].training_gram()
        np.testing.assert_array_equal(result, K[:, ids][:, :, ids])
        np.testing.assert_array_equal(list(KernelStack(K)[ids].training_kernels()), result)

    def test_one_copy_and_small_temporaries(self):
        K = np.zeros((6, 400, 400))
        mask = np.ones((400, 6), dtype=bool)
        mask[:100, 0] = False
        for stack in (KernelStack(K, mask)[50:], KernelStack(hide(K, mask), mask)):
            n = len(stack)
            tracemalloc.start()
            stack.training_gram()
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            assert peak < 8 * n * n * (6 + 2)

    def test_memory_mapped_kernels(self, tmp_path):
        K = make_kernels(n=300)
        stored = np.memmap(tmp_path / "K.bin", np.float64, "w+", shape=K.shape)
        stored[:] = K
        stored.flush()
        singles = []
        for m in range(3):
            np.save(tmp_path / f"{m}.npy", K[m])
            singles.append(np.load(tmp_path / f"{m}.npy", mmap_mode="r"))
        for source in (stored, singles):
            stack = KernelStack(source)
            assert stack.observed.all()
            result, _ = stack.training_gram()
            assert not isinstance(result, np.memmap)
            np.testing.assert_array_equal(result, K)
            np.testing.assert_array_equal(stack[::7].gram(), K[:, ::7, ::7])

    def test_rectangular_stack(self):
        for stack in (
            KernelStack(make_kernels()[:, :5]),
            KernelStack(make_kernels(), diag=np.ones((3, 8))),
        ):
            with pytest.raises(ValueError, match="fit needs a square stack"):
                stack.training_gram()

    def test_asymmetric_kernel(self):
        K = make_kernels(n=600)
        K[1, 590, 3] += 1e-3
        with pytest.raises(ValueError, match=r"'kernel_1' of 600 samples is not symmetric.*0.001"):
            KernelStack(K).training_gram()
        K = make_kernels()
        K[1, 0, 1] *= 1 + 1e-9
        assert KernelStack(K).training_gram()[0] is K
        K = make_kernels(dtype=np.float32)
        K[1, 0, 1] *= 1 + 1e-6
        assert KernelStack(K).training_gram()[0] is K

    @pytest.mark.parametrize("value", [nan, np.inf, -np.inf])
    def test_non_finite_observed_entries(self, value):
        K, mask = make_kernels(n=300), make_mask(n=300)
        K[1, 7, 280] = K[1, 280, 7] = value
        message = "'kernel_1' has 2 entries.*in 2 of 300 rows"
        with pytest.raises(ValueError, match=message):
            KernelStack(K, mask).training_gram()
        with pytest.raises(ValueError, match=message):
            KernelStack(hide(K, mask), mask).training_gram()
        mask[7, 1] = False
        KernelStack(K, mask).training_gram()


class TestCrossKernels:
    def test_same_stack(self):
        K, mask = make_kernels(), make_mask()
        stack = KernelStack(hide(K, mask))
        train, test = stack[[6, 0, 3, 1]], stack[[2, 4]]
        expected = hide(K, mask, 0.0)[:, [2, 4]][:, :, [6, 0, 3, 1]]
        np.testing.assert_array_equal(list(test.cross_kernels(train.training_rows)), expected)

    def test_same_stack_after_pickling(self):
        stack = KernelStack(make_kernels())
        reference = pickle.loads(pickle.dumps(stack[:3].training_rows))
        assert len(pickle.dumps(reference)) < 1000
        test = pickle.loads(pickle.dumps(stack[5:]))
        kernels = list(test.cross_kernels(reference))
        np.testing.assert_array_equal(kernels, stack.gram(slice(5, 8), slice(0, 3)))

    def test_other_stack_has_the_training_samples_as_columns(self):
        K, mask = make_kernels(), make_mask()
        train = KernelStack(K[:, :5, :5], mask[:5])
        test = KernelStack(K[:, 5:, :5], mask[5:])
        expected = hide(K, mask, 0.0)[:, 5:, :5]
        np.testing.assert_array_equal(list(test.cross_kernels(train.training_rows)), expected)
        np.testing.assert_array_equal(
            list(test[[2, 0]].cross_kernels(train.training_rows)), expected[:, [2, 0]]
        )

    def test_only_needed_kernels_are_read(self):
        K = make_kernels()
        K[0, 6, 1] = nan
        train, test = KernelStack(K[:, :5, :5]), KernelStack(K[:, 5:, :5])
        kernels = list(test.cross_kernels(train.training_rows, np.array([False, True, True])))
        np.testing.assert_array_equal(kernels, K[1:, 5:, :5])

    def test_wrong_stacks(self):
        K = make_kernels()
        reference = KernelStack(K)[:5].training_rows
        with pytest.raises(ValueError, match=r"X has 8 columns, but .*fitted on 5 samples"):
            KernelStack(K).cross_kernels(reference)
        with pytest.raises(ValueError, match=r"2 kernels .*fitted with the 3 kernels"):
            KernelStack(K[:2, :, :5]).cross_kernels(reference)
        with pytest.raises(ValueError, match=r"'a', 'b', 'c'.*'kernel_0'"):
            KernelStack(K[:, :, :5], names="abc").cross_kernels(reference)

    def test_non_finite(self):
        K = make_kernels()
        K[2, 6, 1] = nan
        test = KernelStack(K[:, 5:, :5])
        with pytest.raises(ValueError, match=r"'kernel_2' has 1 entries.*1 of 3 rows"):
            list(test.cross_kernels(KernelStack(K[:, :5, :5]).training_rows))


class TestCheckPsd:
    def test_names_the_kernel_and_its_eigenvalue(self):
        K = np.stack([np.eye(3), np.diag([1.0, 2.0, -0.5])])
        with pytest.raises(ValueError, match=r"'kernel_1'.*eigenvalue is -0\.5"):
            KernelStack(K).check_psd()

    def test_only_observed_samples_count(self):
        K = np.stack([np.eye(3), np.diag([1.0, 2.0, -0.5])])
        mask = np.array([[True, True], [True, True], [True, False]])
        stack = KernelStack(K, mask)
        assert stack.check_psd() is stack
        assert KernelStack(K)[:2].check_psd()
        KernelStack(K[1:], np.zeros((3, 1), dtype=bool)).check_psd()

    def test_tolerance(self):
        K = np.diag([1.0, -1e-4])[None]
        KernelStack(K).check_psd(tol=1e-3)
        with pytest.raises(ValueError, match="semi-definite"):
            KernelStack(K).check_psd(tol=1e-5)
        with pytest.raises(ValueError, match="semi-definite"):
            KernelStack(-np.eye(2)[None]).check_psd()


class TestAsStack:
    def test_plain_arrays(self):
        K = make_kernels()
        stack = KernelStack(K)
        assert as_stack(stack) is stack
        last = np.moveaxis(K, 0, -1)
        assert as_stack(last).shape == (8, 3)
        np.testing.assert_array_equal(as_stack(last).training_gram()[0], K)
        assert as_stack(K[0]).shape == (8, 1)
        assert as_stack(last[:3]).n_cols == 8
        with pytest.raises(ValueError, match="1 dimensions"):
            as_stack(np.ones(3))
