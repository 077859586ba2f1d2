"""Inner products and distances between rows of arrays or of sparse matrices, their mean and median.

Of sparse matrices a few rows are taken at a time: nothing of their full width is ever made, and
nothing larger than the result.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse
from scipy.spatial.distance import cdist

from kernelquilt._typing import Floats

_CHUNK = 256
_ENTRIES = 2**20  # of a result between sparse rows that are made at a time
_SMALL = 1e-100  # sizes of numbers from here to its inverse may be squared and summed
_PAIRS = 4096  # close pairs of sparse rows that are compared at a time


def safe_unit(size: float) -> float:
    """Return what to divide numbers of a size by before they are squared.

    Parameters
    ----------
    size : float
        The size of the numbers, not negative.

    Returns
    -------
    unit : float
        A power of two, so that nothing is rounded; 1 where squares are far from the limits.
    """
    if size == 0.0 or _SMALL <= size <= 1.0 / _SMALL:
        return 1.0
    return float(2.0 ** np.floor(np.log2(size)))


def largest(A: Any) -> float:
    """Return the largest size of the entries of an array or sparse matrix, 0 if there are none."""
    return max(float(A.max()), -float(A.min())) if min(A.shape) else 0.0


def mean_distance(A: Any, sample_weight: Floats | None = None) -> float:
    """Return the weighted mean Euclidean distance over all ordered pairs of rows.

    Parameters
    ----------
    A : ndarray or sparse matrix of shape (n_samples, n_columns)
    sample_weight : ndarray of shape (n_samples,), default=None
    """
    n = A.shape[0]
    weight = np.ones(n) if sample_weight is None else np.asarray(sample_weight, np.float64)
    if not weight.any():
        return 0.0
    weight = weight / weight.sum()
    unit = safe_unit(largest(A))
    A = A if unit == 1.0 else A / unit
    total = 0.0
    for start in range(0, n, _CHUNK):
        stop = start + _CHUNK
        distances = squared_distances(A[start:stop], A[start:])
        np.sqrt(distances, out=distances)
        # pairs with later rows count twice, pairs within the chunk appear in both orders
        pairs = weight[start:].copy()
        pairs[_CHUNK:] *= 2
        total += float(weight[start:stop] @ (distances @ pairs))
    return total * unit


def pair_median(D: Floats, weight: Floats | None = None) -> float:
    """Return the lower median of the entries of D over all ordered pairs of samples.

    A sample makes a pair with itself, and a pair counts as the product of two weights: repeating a
    sample is then the same as raising its weight.

    Parameters
    ----------
    D : ndarray of shape (n, n)
        Not negative.
    weight : ndarray of shape (n,), optional
        Weights of the samples, 1 by default.

    Returns
    -------
    median : float
        If the median is zero, the mean, and if that is zero too, 1.0.
    """
    if weight is None or (weight == weight[0]).all():
        middle = (D.size + 1) // 2 - 1
        median = float(np.partition(D, middle, axis=None)[middle])
        mean = D.mean()
    else:
        order = np.argsort(D, axis=None)
        total = np.cumsum(np.outer(weight, weight).ravel()[order])
        median = float(D.ravel()[order[np.searchsorted(total, 0.5 * total[-1])]])
        mean = weight @ D @ weight / total[-1]
    return median or float(mean) or 1.0


def squared_distances(A: Any, B: Any) -> Floats:
    """Return squared Euclidean distances, exactly 0 between equal rows.

    Parameters
    ----------
    A : ndarray or sparse matrix of shape (n_a, n_columns)
    B : ndarray or sparse matrix of shape (n_b, n_columns), sparse if `A` is

    Returns
    -------
    squared : ndarray of shape (n_a, n_b)
        Exactly symmetric if `A` is `B`.
    """
    if issparse(A):
        return _sparse_squared_distances(A, B)
    if A.shape[1] <= 32:
        return np.asarray(cdist(A, B, "sqeuclidean"))
    # Many columns: a matrix product is much faster, but cancels for close pairs.
    centre = B.mean(axis=0)
    same, A, B = A is B, A - centre, B - centre
    B = A if same else B
    lengths = np.add.outer(np.einsum("ij,ij->i", A, A), np.einsum("ij,ij->i", B, B))
    squared = A @ B.T
    squared *= -2
    squared += lengths
    rows, cols = np.nonzero(squared <= 1e-2 * lengths)
    for start in range(0, len(rows), _CHUNK):
        i, j = rows[start : start + _CHUNK], cols[start : start + _CHUNK]
        squared[i, j] = np.square(A[i] - B[j]).sum(axis=1)
    return np.asarray(squared)


def inner_products(A: Any, B: Any) -> Floats:
    """Return the inner products (n_a, n_b) of the rows of two arrays or two sparse matrices."""
    if not issparse(A):
        return np.asarray(A @ B.T)
    columns = B.T.tocsr()
    products = np.empty((A.shape[0], B.shape[0]))
    for part in _parts(products):
        products[part] = (A[part] @ columns).toarray()
    return products


def squared_lengths(A: Any) -> Floats:
    """Return the squared lengths (n,) of the rows of a sparse matrix."""
    return with_values(A, np.square(A.data)) @ np.ones(A.shape[1])


def with_values(A: Any, values: Floats) -> Any:
    """Return a CSR matrix with other values in the same places, which are shared."""
    return csr_array((values, A.indices, A.indptr), shape=A.shape)


def _sparse_squared_distances(A: Any, B: Any) -> Floats:
    squared = inner_products(A, B)
    of_a, of_b = squared_lengths(A), squared_lengths(B)
    for part in _parts(squared):
        out, lengths = squared[part], np.add.outer(of_a[part], of_b)
        out *= -2
        out += lengths
        # the difference cancels for close pairs, but not for two rows of zeros
        rows, cols = np.nonzero((out <= 1e-2 * lengths) & (lengths > 0))
        for first in range(0, len(rows), _PAIRS):
            i, j = rows[first : first + _PAIRS], cols[first : first + _PAIRS]
            out[i, j] = squared_lengths(A[part.start + i] - B[j])
    return squared


def _parts(result: Floats) -> Iterator[slice]:
    """Cut the rows of a result into parts of a moderate number of entries."""
    step = max(1, _ENTRIES // max(1, result.shape[1]))
    return (slice(start, start + step) for start in range(0, len(result), step))
