"""Kernel functions of two blocks of samples, for use in `ViewKernels` or on their own.

A kernel function is any callable ``k(A, B)`` that returns the (len(A), len(B)) similarities. The
ones here are fitted first, with the training samples that have the view and their weights. All but
`LatentSemantic` take sparse matrices too.
"""

from typing import Any

import numpy as np
from scipy.linalg import svd
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.utils.sparsefuncs import mean_variance_axis
from sklearn.utils.validation import check_is_fitted

from kernelquilt._typing import Floats
from kernelquilt.kernels.distances import (
    inner_products,
    largest,
    mean_distance,
    pair_median,
    safe_unit,
    squared_distances,
    with_values,
)

_MEDIAN_SAMPLES = 2000
_WIDTHS = 1e-300, 1e300  # what a width may be, so that it is neither zero nor infinite


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
        if not (np.isfinite(self.scale) and self.scale > 0):
            raise ValueError(f"scale of Gaussian must be positive and finite, got {self.scale!r}")
        self.width_ = float(np.clip(self.scale * mean, *_WIDTHS)) if mean > 0 else 1.0
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


class MedianGaussian(BaseEstimator):
    """Gaussian kernel of standardised columns whose width is the median distance.

    ``k(a, b) = exp(-|a - b|^2 / (scale^2 median))``, with the median of the squared distances over
    all pairs of training samples. Needs no preprocessing, which makes it a good default.

    Parameters
    ----------
    scale : float, default=1.0
        Width in units of the square root of the median.
    standardize : bool, default=True
        Whether columns are centred and divided by their standard deviation.

    Attributes
    ----------
    mean_, deviation_ : ndarrays of shape (n_columns,)
        What columns are centred and divided by; 0 and a power of two, as a rule 1, if they are not
        standardised.
    squared_width_ : float
        What squared distances are divided by. With more than 2000 training samples the median
        is that of 2000 of them, evenly spaced.

    Examples
    --------
    >>> import numpy as np
    >>> import kernelquilt as kq
    >>> A = np.array([[0.0], [1.0], [3.0]])
    >>> kq.kernels.MedianGaussian().fit(A)(A, A).round(2)
    array([[1.  , 0.37, 0.  ],
           [0.37, 1.  , 0.02],
           [0.  , 0.02, 1.  ]])
    """

    def __init__(self, scale: float = 1.0, *, standardize: bool = True) -> None:
        self.scale = scale
        self.standardize = standardize

    @property
    def name(self) -> str:
        """Short name, such as ``median_gaussian_1``."""
        return f"median_gaussian_{self.scale:g}"

    def fit(self, A: Any, sample_weight: Floats | None = None) -> "MedianGaussian":
        """Set location, scale and width.

        Parameters
        ----------
        A : ndarray or sparse matrix of shape (n_samples, n_columns)
            The training samples.
        sample_weight : ndarray of shape (n_samples,), default=None
            How much each sample counts, equally by default.

        Returns
        -------
        self : MedianGaussian
            The kernel itself.
        """
        if not (np.isfinite(self.scale) and self.scale > 0):
            raise ValueError(
                f"scale of MedianGaussian must be positive and finite, got {self.scale!r}"
            )
        n = A.shape[0]
        weight = np.ones(n) if sample_weight is None else np.asarray(sample_weight, np.float64)
        kept = np.flatnonzero(weight > 0) if weight.any() else np.arange(n)
        A, weight = A[kept], weight[kept] if weight.any() else np.ones(n)
        self.mean_ = np.zeros(A.shape[1])
        self.deviation_ = np.full(A.shape[1], safe_unit(largest(A)))
        if self.standardize:
            self.mean_, deviation = _moments(A, weight / weight.sum())
            # what is left of a constant column is rounding
            constant = deviation <= 1e-12 * np.abs(self.mean_)
            self.deviation_ = np.where(constant | (deviation == 0), 1.0, deviation)
        step = -(-A.shape[0] // _MEDIAN_SAMPLES)
        standard = self._standardised(A[::step])
        median = pair_median(squared_distances(standard, standard), weight[::step])
        self.squared_width_ = float(np.clip(self.scale**2 * median, *_WIDTHS))
        return self

    def __call__(self, A: Any, B: Any = None) -> Floats:
        """Return the similarities, shape (len(A), len(B)); `B` is `A` by default."""
        check_is_fitted(self, "squared_width_")
        standard = self._standardised(A)
        other = standard if B is None or B is A else self._standardised(B)
        exponent = squared_distances(standard, other)
        with np.errstate(over="ignore"):
            exponent /= -self.squared_width_
        return np.exp(exponent, out=exponent)

    def _standardised(self, A: Any) -> Any:
        if (self.deviation_ == 1.0).all() and not self.mean_.any():
            return A
        if issparse(A):  # not centred: distances do not notice
            return with_values(A, A.data / self.deviation_[A.indices])
        return np.asarray((A - self.mean_) / self.deviation_)


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


def _moments(A: Any, share: Floats) -> tuple[Floats, Floats]:
    """Return means and standard deviations (d,) of columns, with weights (n,) that sum to one."""
    if issparse(A):
        mean, variance = mean_variance_axis(A, axis=0, weights=share)
        return mean, np.sqrt(variance)
    mean = share @ A
    centred = A - mean
    unit = safe_unit(float(np.abs(centred).max(initial=0.0)))
    return mean, np.sqrt(share @ np.square(centred / unit)) * unit
