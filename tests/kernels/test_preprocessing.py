import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import KernelCenterer

from kernelquilt.data.stack import KernelStack
from kernelquilt.kernels.preprocessing import CentreKernels, ScaleKernels
from kernelquilt.kernels.view_kernels import ViewKernels

nan = np.nan
TRANSFORMERS = [CentreKernels(), ScaleKernels(), ScaleKernels("unit_trace")]


def features(n=10, seed=0):
    return np.random.default_rng(seed).normal(size=(2, n, 4)) + 1


def linear(X, Y=None):
    return X @ (X if Y is None else Y).transpose(0, 2, 1)


def make_mask(n=10):
    mask = np.ones((n, 2), dtype=bool)
    mask[[0, 3], 0] = False
    mask[[3, 9], 1] = False
    return mask


def hide(K, rows, cols, value):
    K = K.copy()
    for m in range(len(K)):
        K[m, ~rows[:, m]] = value
        K[m, :, ~cols[:, m]] = value
    return K


@pytest.mark.parametrize("transformer", TRANSFORMERS, ids=repr)
class TestEveryTransformer:
    def test_fit_transform_equals_transform(self, transformer):
        stack = KernelStack(linear(features()), make_mask(), names=["a", "b"])[[0, 1, 2, 3, 5, 9]]
        square = clone(transformer).fit_transform(stack)
        rectangular = clone(transformer).fit(stack).transform(stack)
        assert square.square
        assert not rectangular.square
        assert square.names == ("a", "b")
        np.testing.assert_array_equal(square.gram(), rectangular.gram())
        np.testing.assert_allclose(square.diag, rectangular.diag, atol=1e-14)
        np.testing.assert_array_equal(square.observed, stack.observed)

    def test_absent_entries_are_never_used(self, transformer):
        K, mask = linear(features()), make_mask()
        outputs = []
        for value in (nan, 0.0, 1e9):
            stack = KernelStack(hide(K, mask, mask, value), mask)
            model = clone(transformer)
            outputs.append((model.fit_transform(stack[:6]), model.transform(stack[6:])))
        for train, test in outputs:
            np.testing.assert_array_equal(train.gram(), outputs[0][0].gram())
            np.testing.assert_array_equal(test.gram(), outputs[0][1].gram())
            np.testing.assert_array_equal(test.diag, outputs[0][1].diag)
            assert not train.gram()[0, 0].any()
            assert not train.gram()[0, :, 0].any()
            assert not test.gram()[1, 3].any()

    def test_same_stack_and_other_stack_agree(self, transformer):
        X = features()
        K = linear(X)
        whole = KernelStack(K)
        same = clone(transformer).fit(whole[:6]).transform(whole[6:])
        train = KernelStack(K[:, :6, :6])
        test = KernelStack(K[:, 6:, :6], diag=np.diagonal(K, axis1=1, axis2=2)[:, 6:])
        other = clone(transformer).fit(train).transform(test)
        assert same.shape == (4, 2)
        assert same.n_cols == 6
        np.testing.assert_allclose(same.gram(), other.gram())
        np.testing.assert_allclose(same.diag, other.diag)

    def test_output_feeds_a_model_fitted_to_the_square_output(self, transformer):
        stack = KernelStack(linear(features()), make_mask())
        model = clone(transformer)
        train, test = model.fit_transform(stack[:6]), model.transform(stack[6:])
        for kernel, expected in zip(
            test.cross_kernels(train.training_rows), test.gram(), strict=True
        ):
            np.testing.assert_array_equal(kernel, expected)

    def test_float32_is_kept(self, transformer):
        K = linear(features())
        low = clone(transformer).fit_transform(KernelStack(K.astype(np.float32)))
        assert low.dtype == np.float32
        high = clone(transformer).fit_transform(KernelStack(K))
        np.testing.assert_allclose(low.gram(), high.gram(), atol=1e-4)

    def test_input_is_not_changed(self, transformer):
        K = linear(features())
        before = K.copy()
        clone(transformer).fit_transform(KernelStack(K))
        clone(transformer).fit(KernelStack(K)).transform(KernelStack(K, diag=np.ones((2, 10))))
        np.testing.assert_array_equal(K, before)

    def test_plain_arrays_have_the_kernels_last(self, transformer):
        K = linear(features())
        plain = clone(transformer).fit_transform(np.moveaxis(K, 0, -1))
        np.testing.assert_allclose(
            plain.gram(), clone(transformer).fit_transform(KernelStack(K)).gram()
        )

    def test_errors_leave_the_state(self, transformer):
        model = clone(transformer)
        with pytest.raises(NotFittedError):
            model.transform(KernelStack(linear(features())))
        before = dict(vars(model))
        with pytest.raises(ValueError, match="square"):
            model.fit(KernelStack(linear(features())[:, :4]))
        broken = linear(features())
        broken[1, 2, 2] = nan
        with pytest.raises(ValueError, match="'kernel_1'"):
            model.fit(KernelStack(broken))
        assert vars(model) == before
        model.fit(KernelStack(linear(features())))
        with pytest.raises(ValueError, match="fitted on 10 samples"):
            model.transform(KernelStack(linear(features())[:, :, :4]))

    def test_kernel_without_observed_samples(self, transformer):
        mask = make_mask()
        mask[:, 1] = False
        stack = clone(transformer).fit_transform(KernelStack(linear(features()), mask))
        assert not stack.gram()[1].any()
        assert stack.gram()[0].any()

    def test_follows_view_kernels(self, transformer):
        X = {"a": features()[0], "b": features(seed=1)[1]}
        model = make_pipeline(ViewKernels("linear"), clone(transformer))
        np.testing.assert_allclose(
            model.fit_transform(X).gram(), model.transform(X).gram(), atol=1e-12
        )

    def test_tags(self, transformer):
        assert not transformer.__sklearn_tags__().input_tags.two_d_array


class TestCentre:
    def test_equals_centring_of_the_features(self):
        X, mask = features(), make_mask()
        train, test = slice(0, 6), slice(6, 10)
        model = CentreKernels()
        stack = KernelStack(linear(X), mask)
        fitted, new = model.fit_transform(stack[train]), model.transform(stack[test])
        for m in range(2):
            present = mask[train, m]
            centred = X[m] - X[m, train][present].mean(axis=0)
            expected = np.where(np.outer(present, present), centred[train] @ centred[train].T, 0)
            np.testing.assert_allclose(fitted.gram()[m], expected, atol=1e-12)
            inside = np.outer(mask[test, m], present)
            expected = np.where(inside, centred[test] @ centred[train].T, 0)
            np.testing.assert_allclose(new.gram()[m], expected, atol=1e-12)
            own = np.where(mask[test, m], (centred[test] ** 2).sum(axis=1), 0)
            np.testing.assert_allclose(new.diag[m], own, atol=1e-12)

    def test_without_absence_equals_scikit_learn(self):
        K = linear(features())
        reference = KernelCenterer().fit(K[0, :6, :6])
        stack = KernelStack(K[:1])
        new = CentreKernels().fit(stack[:6]).transform(stack[6:])
        np.testing.assert_allclose(new.gram()[0], reference.transform(K[0, 6:, :6]))

    def test_works_without_diag(self):
        K = linear(features())
        new = CentreKernels().fit(KernelStack(K[:, :5, :5])).transform(KernelStack(K[:, 5:, :5]))
        assert new.diag is None
        assert not new.square


class TestScale:
    def test_unit_diagonal(self):
        X, mask = features(), make_mask()
        stack = ScaleKernels("unit_diagonal").fit_transform(KernelStack(linear(X), mask))
        np.testing.assert_allclose(stack.diag, mask.T)
        unit = X / np.linalg.norm(X, axis=2, keepdims=True)
        np.testing.assert_allclose(stack.gram(), hide(linear(unit), mask, mask, 0.0), atol=1e-14)

    def test_unit_trace(self):
        X, mask = features(), make_mask()
        stack = ScaleKernels("unit_trace").fit_transform(KernelStack(linear(X), mask))
        np.testing.assert_allclose(stack.diag.sum(axis=1), 1.0)

    def test_unit_diagonal_needs_diag(self):
        K = linear(features())
        model = ScaleKernels().fit(KernelStack(K[:, :5, :5]))
        # the second one is as tall as wide, but its diagonal is not k(x, x)
        with pytest.raises(ValueError, match="diag="):
            model.transform(KernelStack(K[:, 5:8, :5]))
        with pytest.raises(ValueError, match="diag="):
            model.transform(KernelStack(K[:, 5:, :5]))

    def test_zero_samples_stay_zero(self):
        K = np.diag([1.0, 0.0])[None]
        np.testing.assert_array_equal(ScaleKernels().fit_transform(KernelStack(K)).gram(), K)

    @pytest.mark.parametrize("method", ["unit_diagonal", "unit_trace"])
    def test_zero_kernel(self, method):
        K = np.stack([np.eye(3), np.zeros((3, 3))])
        with pytest.warns(UserWarning, match=r"'kernel_1' has no positive diagonal.*3 observed"):
            stack = ScaleKernels(method).fit_transform(KernelStack(K))
        assert not stack.gram()[1].any()

    def test_wrong_method(self):
        with pytest.raises(ValueError, match="unit_norm"):
            ScaleKernels("unit_norm").fit(KernelStack(np.eye(2)[None]))

    @given(
        factor=st.floats(1e-6, 1e6),
        X=arrays(np.float64, (1, 5, 2), elements=st.floats(0.1, 10)),
        method=st.sampled_from(["unit_diagonal", "unit_trace"]),
    )
    @settings(max_examples=30, deadline=None)
    def test_scale_of_the_kernel_does_not_matter(self, factor, X, method):
        one, other = (
            ScaleKernels(method).fit_transform(KernelStack(f * linear(X))).gram()
            for f in (1, factor)
        )
        np.testing.assert_allclose(one, other, rtol=1e-9)
