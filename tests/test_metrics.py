"""Errors of completed kernels, and alignment."""

import numpy as np
import pytest
from sklearn.preprocessing import KernelCenterer

import kernelquilt as kq
from kernelquilt.metrics import alignment, average_relative_error
from problems import random_kernels


def test_average_relative_error_by_its_definition():
    rng = np.random.default_rng(0)
    K, Z = rng.normal(size=(2, 3, 8, 8))
    mask = np.ones((8, 3), dtype=bool)
    mask[[1, 4, 5], 0] = mask[[2], 2] = False
    ratio = np.linalg.norm(Z - K, axis=2) / np.linalg.norm(K, axis=2)
    expected = 100 * (ratio[0, [1, 4, 5]].mean() + ratio[2, 2]) / 2
    np.testing.assert_allclose(average_relative_error(K, Z, mask), expected)
    squared = 100 * ((ratio[0, [1, 4, 5]] ** 2).mean() + ratio[2, 2] ** 2) / 2
    np.testing.assert_allclose(average_relative_error(K, Z, mask, squared=True), squared)
    stacks = kq.KernelStack(K), kq.KernelStack(Z)
    np.testing.assert_allclose(average_relative_error(*stacks, mask), expected)


def test_rows_of_new_samples():
    K, Z = np.ones((1, 2, 5)), np.full((1, 2, 5), 1.5)
    np.testing.assert_allclose(average_relative_error(K, Z, [[False], [True]]), 50.0)


def test_errors():
    K = np.ones((2, 3, 3))
    assert np.isnan(average_relative_error(K, K, np.ones((3, 2), dtype=bool)))
    with pytest.raises(ValueError, match=r"\(2, 3, 3\), the completed ones \(2, 3, 2\)"):
        average_relative_error(K, K[:, :, :2], np.ones((3, 2), dtype=bool))
    with pytest.raises(ValueError, match="2 of 2 absent rows"):
        average_relative_error(0 * K, K, [[True, True], [False, True], [False, True]])
    with pytest.raises(ValueError, match="observed must have shape"):
        average_relative_error(K, K, np.ones((2, 2), dtype=bool))


def test_alignment_of_centred_kernels():
    K = random_kernels(np.random.default_rng(0), 12, 2, rank=4)[0]
    a, b = (KernelCenterer().fit_transform(k) for k in K)
    expected = (a * b).sum() / np.sqrt((a**2).sum() * (b**2).sum())
    np.testing.assert_allclose(alignment(K, K[1]), [expected, 1.0])
    plain = (K[0] * K[1]).sum() / np.sqrt((K[0] ** 2).sum() * (K[1] ** 2).sum())
    np.testing.assert_allclose(alignment(K[0], K[1], centred=False), [plain])


def test_alignment_with_labels():
    y = np.repeat([-1.0, 1.0], 6)
    K = random_kernels(np.random.default_rng(0), 12, 1)[0]
    # centred, the kernel of two classes is that of their labels
    np.testing.assert_allclose(alignment(K, y), alignment(K, np.outer(y, y)))
    assert np.isnan(alignment(np.ones((1, 12, 12)), y)).all()
    with pytest.raises(ValueError, match=r"shape \(5, 5\)"):
        alignment(K, y[:5])


def test_alignment_uses_observed_samples_only():
    K = random_kernels(np.random.default_rng(0), 12, 1)[0]
    y = np.arange(12) % 3
    mask = np.ones((12, 1), dtype=bool)
    mask[[2, 7]] = False
    expected = alignment(K[:, mask[:, 0]][:, :, mask[:, 0]], y[mask[:, 0]])
    for value in (0.0, 1e9):
        Z = K.copy()
        Z[:, ~mask[:, 0]] = value
        np.testing.assert_allclose(alignment(kq.KernelStack(Z, mask), y), expected)
