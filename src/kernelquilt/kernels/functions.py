"""Kernel functions of two blocks of samples, for use in `ViewKernels` or on their own.

A kernel function is any callable ``k(A, B)`` that returns the (len(A), len(B)) similarities. The
ones here are fitted first, with the training samples that have the view and their weights. All but
`LatentSemantic` take sparse matrices too.

They are made of inner products and distances between rows. Of sparse matrices a few rows are taken
at a time: nothing of their full width is ever made, and nothing larger than the result.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.linalg import svd
from scipy.sparse import csr_array, issparse
from scipy.spatial.distance import cdist
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from kernelquilt._typing import Floats

WIDTHS = 1e-300, 1e300  # what a width may be, so that it is neither zero nor infinite
_CHUNK = 256
ENTRIES = 2**20  # of a result between sparse rows that are made at a time
SMALL = 1e-100  # sizes of numbers from here to its inverse may be squared and summed
_PAIRS = 4096  # close pairs of sparse rows that are compared at a time


class Gaussian(BaseEstimator):
    """Gaussian kernel whose width follows the spread of the training samples.

    ``k(a, b) = exp(-|a - b|^2 / (2 width^2))``, where the width is `scale` times the weighted mean
    distance ``sum_ij w_i w_j |a_i - a_j| / (sum_i w_i)^2`` over all pairs of training samples,
    each sample with itself included: repeating a sample is then the same as doubling its weight.

    Parameters
    ----------
    scale : float, default=1.0
        Width in units of the mean distance.

    Attributes
    ----------
    unit_ : float
        What samples are divided by first, 1 unless their squares would leave the range of numbers.
    width_ : float
        The width; 1.0 if all training samples are equal.

    Examples
    --------
    >>> import numpy as np
    >>> import kernelquilt as kq
    >>> A = np.array([[0.0], [1.0], [3.0]])
    >>> kernel = kq.Gaussian().fit(A)
    >>> round(kernel.width_, 2)
    1.33
    >>> kernel(A, A).round(2)
    array([[1.  , 0.75, 0.08],
           [0.75, 1.  , 0.32],
           [0.08, 0.32, 1.  ]])
    """

    def __init__(self, scale: float = 1.0) -> None:
        self.scale = scale

    @property
    def name(self) -> str:
        """Short name, such as ``gaussian_0.25``."""
        return f"gaussian_{self.scale:g}"

    def fit(self, A: Any, sample_weight: Floats | None = None) -> "Gaussian":
        """Set the width.

        Parameters
        ----------
        A : ndarray or sparse matrix of shape (n_samples, n_columns)
            The training samples.
        sample_weight : ndarray of shape (n_samples,), default=None
            How much each sample counts, equally by default.

        Returns
        -------
        self : Gaussian
            The kernel itself.
        """
        return self.fit_mean_distance(mean_distance(A, sample_weight))

    def fit_mean_distance(self, mean: float) -> "Gaussian":
        """Set the width from the mean distance, which several kernels can share.

        Parameters
        ----------
        mean : float
            From `mean_distance`.

        Returns
        -------
        self : Gaussian
            The kernel itself.
        """
        check_scale(self)
        self.width_ = float(np.clip(self.scale * mean, *WIDTHS)) if mean > 0 else 1.0
        self.unit_ = safe_unit(mean)
        return self

    def __call__(self, A: Any, B: Any = None) -> Floats:
        """Return the similarities, shape (len(A), len(B)); `B` is `A` by default."""
        squared = self.squared_distances(A, A if B is None else B)
        return self.of_squared_distances(squared, out=squared)

    def squared_distances(self, A: Any, B: Any) -> Floats:
        """Return what `of_squared_distances` takes, which several kernels can share.

        Parameters
        ----------
        A : ndarray or sparse matrix of shape (n, n_columns)
            Samples of the rows.
        B : ndarray or sparse matrix of shape (m, n_columns)
            Samples of the columns.

        Returns
        -------
        squared : ndarray of shape (n, m)
            Squared distances, in units of ``unit_`` squared.
        """
        check_is_fitted(self, "width_")
        if self.unit_ == 1.0:
            return squared_distances(A, B)
        scaled = A / self.unit_
        return squared_distances(scaled, scaled if B is A else B / self.unit_)

    def of_squared_distances(self, squared: Floats, out: Floats | None = None) -> Floats:
        """Return the similarities at given squared distances.

        Parameters
        ----------
        squared : ndarray of shape (n, m)
            From `squared_distances`.
        out : ndarray of shape (n, m), default=None
            Where to write the result; may be `squared` itself.

        Returns
        -------
        K : ndarray of shape (n, m)
            The similarities.
        """
        check_is_fitted(self, "width_")
        width = min(max(self.width_ / self.unit_, 1e-150), 1e150)
        with np.errstate(over="ignore"):
            exponent = np.multiply(squared, -0.5 / width**2, out=out)
        return np.exp(exponent, out=exponent)


def gaussian_bank(
    n: int = 20, low: float = 2**-7, high: float = 2**7, spacing: str = "linear"
) -> list[Gaussian]:
    """Return Gaussian kernels whose scales go from `low` to `high`.

    Parameters
    ----------
    n : int, default=20
        Number of kernels.
    low, high : float, default=2**-7, 2**7
        The smallest and the largest scale.
    spacing : {"linear", "log"}, default="linear"
        Whether neighbours have the same difference or the same ratio.

    Returns
    -------
    kernels : list of Gaussian
        The kernels, not fitted.

    Examples
    --------
    >>> from kernelquilt.kernels.functions import gaussian_bank
    >>> [kernel.scale for kernel in gaussian_bank(3, 0.25, 4, spacing="log")]
    [0.25, 1.0, 4.0]
    """
    if spacing not in ("linear", "log"):
        raise ValueError(f"spacing must be 'linear' or 'log', got {spacing!r}")
    if n < 1 or not 0 < low <= high < np.inf:
        raise ValueError(f"need n >= 1 and 0 < low <= high, got n={n}, low={low}, high={high}")
    scales = np.linspace(low, high, n) if spacing == "linear" else np.geomspace(low, high, n)
    return [Gaussian(float(scale)) for scale in scales]


class Jaccard(BaseEstimator):
    """Jaccard kernel of the sets of non-zero columns.

    The number of columns that are non-zero in both samples divided by the number that are
    non-zero in at least one; 1 for two samples without any.

    Examples
    --------
    >>> import numpy as np
    >>> import kernelquilt as kq
    >>> kq.kernels.Jaccard()(np.array([[1, 1, 0]]), np.array([[0, 1, 1], [1, 1, 0]])).round(2)
    array([[0.33, 1.  ]])
    """

    name = "jaccard"

    def __call__(self, A: Any, B: Any = None) -> Floats:
        """Return the similarities, shape (len(A), len(B)); `B` is `A` by default."""
        in_a = self._as_sets(A)
        in_b = in_a if B is None else self._as_sets(B)
        both = inner_products(in_a, in_b)
        sizes = [np.asarray(each.sum(axis=1)).ravel() for each in (in_a, in_b)]
        either = np.add.outer(*sizes) - both
        return np.divide(both, either, out=np.ones_like(both), where=either > 0)

    @staticmethod
    def _as_sets(A: Any) -> Any:
        if issparse(A):
            return with_values(A, (A.data != 0).astype(np.float64))
        return (np.asarray(A) != 0).astype(np.float64)


class LatentSemantic(BaseEstimator):
    """Cosine of the projections on the leading singular directions of the training samples.

    Parameters
    ----------
    n_components : int, default=100
        Number of directions; fewer if the training samples span fewer.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_columns)
        The directions, orthonormal rows.

    Examples
    --------
    >>> import numpy as np
    >>> import kernelquilt as kq
    >>> A = np.random.default_rng(0).random((20, 5))
    >>> kernel = kq.kernels.LatentSemantic(2).fit(A)
    >>> kernel(A, A).shape, kernel.components_.shape
    ((20, 20), (2, 5))
    """

    def __init__(self, n_components: int = 100) -> None:
        self.n_components = n_components

    @property
    def name(self) -> str:
        """Short name, such as ``latent_semantic_100``."""
        return f"latent_semantic_{self.n_components}"

    def fit(self, A: Any, sample_weight: Floats | None = None) -> "LatentSemantic":
        """Find the directions.

        Parameters
        ----------
        A : ndarray of shape (n_samples, n_columns)
            The training samples.
        sample_weight : ndarray of shape (n_samples,), default=None
            How much each sample counts, equally by default.

        Returns
        -------
        self : LatentSemantic
            The kernel itself.
        """
        if self.n_components < 1:
            raise ValueError(f"n_components must be at least 1, got {self.n_components}")
        if issparse(A):
            raise TypeError("LatentSemantic needs dense data; of TruncatedSVD take the cosine")
        weighted = A if sample_weight is None else np.sqrt(sample_weight)[:, None] * A
        _, singular, directions = svd(weighted, full_matrices=False)
        rounding = singular[0] * max(A.shape) * np.finfo(np.float64).eps
        rank = int(np.count_nonzero(singular > rounding))
        self.components_ = directions[: min(rank, self.n_components)]
        return self

    def __call__(self, A: Any, B: Any = None) -> Floats:
        """Return the similarities, shape (len(A), len(B)); `B` is `A` by default."""
        unit_a = self._project(A)
        unit_b = unit_a if B is None else self._project(B)
        return unit_a @ unit_b.T

    def _project(self, A: Floats) -> Floats:
        """Return unit projections, zero for samples orthogonal to all directions."""
        check_is_fitted(self, "components_")
        projected = A @ self.components_.T
        length = np.linalg.norm(projected, axis=1)
        # what is left of an orthogonal sample is rounding, which must not be blown up to length 1
        length[length <= 1e-10 * np.linalg.norm(A, axis=1)] = np.inf
        return np.asarray(projected / length[:, None])


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
    if size == 0.0 or SMALL <= size <= 1.0 / SMALL:
        return 1.0
    return float(2.0 ** np.floor(np.log2(size)))


def largest(A: Any) -> float:
    """Return the largest size of the entries of an array or sparse matrix, 0 if there are none."""
    return max(float(A.max()), -float(A.min())) if min(A.shape) else 0.0


def check_scale(kernel: Any) -> None:
    """Refuse a kernel whose scale is not a positive number."""
    if not (np.isfinite(kernel.scale) and kernel.scale > 0):
        raise ValueError(
            f"scale of {type(kernel).__name__} must be positive and finite, got {kernel.scale!r}"
        )


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
    step = max(1, ENTRIES // max(1, result.shape[1]))
    return (slice(start, start + step) for start in range(0, len(result), step))
