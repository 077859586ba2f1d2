"""Nearest neighbours, against their definition sample by sample."""

import numpy as np
import pytest

import kernelquilt as kq
from holes import assert_psd, hide, random_mask, related_kernels, unit
from kernelquilt.completion.neighbours import nearest_weights
from kernelquilt.data.stack import KernelStack


def neighbour_weights(K, mask, t, p, k, by_distance):
    """Return the weights of the neighbours of sample t in kernel p."""
    distances = {}
    for i in np.flatnonzero(mask[:, p]):
        shared = np.flatnonzero(mask[t] & mask[i])
        if len(shared):
            distances[i] = np.mean([K[l, i, i] + K[l, t, t] - 2 * K[l, i, t] for l in shared])
    weights = np.zeros(len(mask))
    for i in sorted(distances, key=distances.get)[:k]:
        weights[i] = 1 / distances[i] if by_distance else 1.0
    return weights / weights.sum()


@pytest.mark.parametrize("k", [1, 4, 100])
@pytest.mark.parametrize("weights", ["uniform", "distance"])
@pytest.mark.parametrize("unit_diagonal", ["auto", False])
def test_equals_the_definition(k, weights, unit_diagonal):
    K, mask = unit(related_kernels()), random_mask()
    model = kq.completion.KNNFill(k, weights=weights, unit_diagonal=unit_diagonal)
    got = model.fit_transform(KernelStack(K, mask)).gram()
    for p, kernel in enumerate(got):
        A = np.eye(24)
        for t in np.flatnonzero(~mask[:, p]):
            A[t] = neighbour_weights(K, mask, t, p, k, weights == "distance")
        expected = A @ K[p] @ A.T
        if unit_diagonal == "auto":
            np.fill_diagonal(expected, 1.0)
        np.testing.assert_allclose(kernel, expected, atol=1e-12)
    np.testing.assert_array_equal(hide(got, mask, mask, 0.0), hide(K, mask, mask, 0.0))
    assert_psd(got)


def test_new_samples_have_the_same_neighbours_as_in_training():
    K, mask = unit(related_kernels(30)), random_mask(30)
    stack = KernelStack(K, mask)
    rows = (
        kq.completion.KNNFill(3, unit_diagonal=False).fit(stack[:20]).transform(stack[20:]).gram()
    )
    for p in range(3):
        for t in np.flatnonzero(~mask[20:, p]) + 20:
            seen = np.r_[np.arange(20), t]
            a = neighbour_weights(K[:, seen][:, :, seen], mask[seen], 20, p, 3, False)[:20]
            v = mask[:20, p]
            np.testing.assert_allclose(rows[p, t - 20, v], K[p][:20, :20][v] @ a, atol=1e-12)


def test_samples_without_neighbours_get_the_mean():
    K, mask = unit(related_kernels(m=2)), np.ones((24, 2), dtype=bool)
    mask[:12, 0] = mask[12:, 1] = False
    with pytest.warns(UserWarning, match=r"share none .* \('kernel_0': 12, 'kernel_1': 12\)"):
        got = kq.completion.KNNFill().fit_transform(KernelStack(K, mask)).gram()
    np.testing.assert_allclose(got[0, 3, 12:], K[0][12:, 12:].mean(axis=0), atol=1e-12)


def test_equal_samples_take_all_the_weight():
    weights = nearest_weights(np.array([[0.0, 1.0, 0.0, 2.0]]), 3, True)
    np.testing.assert_array_equal(weights, [[0.5, 0.0, 0.5, 0.0]])
    infinite = nearest_weights(np.array([[np.inf, 4.0, np.inf], [np.inf] * 3]), 2, True)
    np.testing.assert_array_equal(infinite, [[0.0, 1.0, 0.0], [0.0, 0.0, 0.0]])


@pytest.mark.parametrize(("name", "value"), [("n_neighbors", 0), ("weights", "equal")])
def test_bad_parameters(name, value):
    with pytest.raises(ValueError, match=f"'{name}' parameter"):
        kq.completion.KNNFill().set_params(**{name: value}).fit(KernelStack(related_kernels()))
