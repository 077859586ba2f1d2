import pickle

import numpy as np
import pytest
from sklearn.model_selection import KFold, train_test_split
from sklearn.utils import _safe_indexing

import kernelquilt as kq
from kernelquilt.data.low_rank import LowRankStack

nan = np.nan


def make_factors(n=8, ranks=(3, 2), seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    return {f"k{p}": rng.standard_normal((n, r)).astype(dtype) for p, r in enumerate(ranks)}


def test_shape_names_and_types():
    stack = LowRankStack(make_factors())
    assert stack.shape == (8, 2)
    assert stack.names == ("k0", "k1")
    assert stack.ranks.tolist() == [3, 2]
    assert stack.observed.all()
    assert stack.dtype == np.float64
    assert LowRankStack(make_factors(dtype=np.float32)).dtype == np.float32
    assert LowRankStack(np.ones((3, 2), dtype=int)).names == ("kernel_0",)
    assert np.isnan(stack.explained_trace).all()
    assert "8 rows" in repr(stack)
    assert "rank 3" in repr(stack)
    with pytest.raises(TypeError, match="not an array"):
        np.asarray(stack)
    with pytest.raises(TypeError):
        iter(stack)


def test_absent_rows_are_zero_whatever_they_hold():
    factors = make_factors()
    factors["k0"][2] = nan
    by_nan = LowRankStack(factors)
    assert by_nan.observed[:, 0].tolist() == [True] * 2 + [False] + [True] * 5
    factors["k0"][2] = np.inf, 1e9, nan
    by_mask = LowRankStack(factors, by_nan.observed)
    for stack in (by_nan, by_mask):
        assert not stack.factor("k0")[2].any()
        assert not stack.training_factors().Z[2, :3].any()
    np.testing.assert_array_equal(by_nan.training_factors().Z, by_mask.training_factors().Z)


def test_slices_compose_and_copy_nothing():
    stack = LowRankStack(make_factors())
    part = stack[2:][[3, 0, 0]]
    assert part.ids.tolist() == [5, 2, 2]
    np.testing.assert_array_equal(part.factor(1), make_factors()["k1"][[5, 2, 2]])
    np.testing.assert_array_equal(part.select(["k1"]).factor("k1"), part.factor("k1"))
    assert part._shared is stack._shared
    assert _safe_indexing(stack, np.array([True, False] * 4)).shape == (4, 2)
    train, test = train_test_split(stack, random_state=0)
    assert len(train) + len(test) == 8
    assert [len(test) for _, test in KFold(4).split(stack)] == [2] * 4
    again = pickle.loads(pickle.dumps(part))
    np.testing.assert_array_equal(again.factor(0), part.factor(0))


def test_one_array_of_all_factors_is_not_copied(tmp_path):
    path = tmp_path / "factors.npy"
    np.save(path, np.random.default_rng(0).standard_normal((20, 5)).astype(np.float32))
    mapped = np.load(path, mmap_mode="r")
    stack = LowRankStack(np.split(mapped, [3], axis=1))
    factors = stack.training_factors()
    assert np.shares_memory(factors.Z, mapped)
    assert factors.starts.tolist() == [0, 3, 5]
    np.testing.assert_array_equal(factors.Z, mapped)
    apart = LowRankStack([np.array(mapped[:, :3]), np.array(mapped[:, 3:])])
    np.testing.assert_array_equal(apart.training_factors().Z, mapped)
    # a sample that lacks a kernel but has numbers there needs a clean copy
    observed = np.ones((20, 2), dtype=bool)
    observed[4, 1] = False
    dirty = LowRankStack(np.split(mapped, [3], axis=1), observed).training_factors()
    assert not np.shares_memory(dirty.Z, mapped)
    assert not dirty.Z[4, 3:].any()


@pytest.mark.parametrize(
    ("factors", "options", "message"),
    [
        ({"a": np.ones((4, 0))}, {}, r"'a' must have shape .* rank of at least 1, got \(4, 0\)"),
        ({"a": np.ones(4)}, {}, r"'a' must have shape"),
        ({"a": np.ones((4, 2)), "b": np.ones((5, 2))}, {}, "'a' has 4, 'b' has 5"),
        ({"a": np.array([["x"]])}, {}, "'a' must hold real numbers"),
        ([], {}, "at least one factor"),
        ([np.ones((4, 2))], {"names": ["a", "b"]}, "2 names were given for 1 kernel"),
        ([np.ones((4, 2))], {"observed": np.ones((4, 2), bool)}, r"must have shape \(4, 1\)"),
    ],
)
def test_bad_factors(factors, options, message):
    with pytest.raises(ValueError, match=message):
        LowRankStack(factors, **options)


def test_nan_in_observed_rows_names_the_kernel():
    factors = make_factors()
    factors["k1"][[1, 4], 0] = nan
    with pytest.raises(ValueError, match=r"'k1' has 2 entries .* in 2 of its 8 observed"):
        LowRankStack(factors).training_factors()


def test_factors_of_kernels():
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((30, 4))
    K = np.array([Z @ Z.T, np.exp(-np.square(Z[:, None] - Z).sum(axis=2) / 50)])
    observed = np.ones((30, 2), dtype=bool)
    observed[3, 0] = False
    stack = kq.KernelStack(K, observed, names=["linear", "gaussian"])
    exact = LowRankStack.from_kernels(stack, 1e-12)
    assert exact.ranks[0] == 4
    for m, kernel in enumerate(stack.training_kernels()):
        np.testing.assert_allclose(exact.factor(m) @ exact.factor(m).T, kernel, atol=1e-9)
    rough = LowRankStack.from_kernels(stack, 0.3)
    assert (rough.ranks < exact.ranks).all()
    traces = np.array([np.trace(kernel) for kernel in stack.training_kernels()])
    shares = [np.square(rough.factor(m)).sum() for m in range(2)] / traces
    np.testing.assert_allclose(rough.explained_trace, shares)
    assert (shares >= 0.7).all()
    assert LowRankStack.from_kernels(stack, max_rank=2).ranks.tolist() == [2, 2]
    with pytest.raises(ValueError, match="'kernel_0' of 3 samples is not positive semi-definite"):
        LowRankStack.from_kernels(kq.KernelStack(-np.eye(3)[None]))
