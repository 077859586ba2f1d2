"""The Gaussian kernel by default: of standardised columns, its width the median distance.

Laboratories, counts and body masses have columns with a few values far from the others, and lists
of signs and symptoms have columns that are almost always zero. Divided by their standard deviation,
these few would decide on all distances: robust standardisation draws them in.
"""

from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.utils.sparsefuncs import mean_variance_axis
from sklearn.utils.validation import check_is_fitted

from kernelquilt._typing import Floats
from kernelquilt.kernels.functions import (
    ENTRIES,
    SMALL,
    WIDTHS,
    check_scale,
    largest,
    pair_median,
    safe_unit,
    squared_distances,
    with_values,
)

_MEDIAN_SAMPLES = 2000
_FAR = 3.0  # standard deviations that nothing is away after it is drawn in
_NORMAL_QUARTILES = 1.349  # standard deviations between the quartiles of a normal column


class MedianGaussian(BaseEstimator):
    """Gaussian kernel of standardised columns whose width is the median distance.

    ``k(a, b) = exp(-|a - b|^2 / (scale^2 median))``, with the median of the squared distances over
    all pairs of training samples. Needs no preprocessing, which makes it a good default.

    Parameters
    ----------
    scale : float, default=1.0
        Width in units of the square root of the median.
    standardize : {"robust"} or bool, default="robust"
        True centres columns and divides them by their standard deviation. ``"robust"`` takes them
        in units of their quartile range, from their median, and draws in what is far from it: z
        becomes ``z / sqrt(1 + (z / 3)^2)``, so that neither a few large values nor what is rare
        decides on all distances. False takes columns as they are.

    Attributes
    ----------
    centres_, scales_ : ndarrays of shape (n_columns,)
        What columns are centred and divided by: medians and quartile ranges (standard deviations
        of columns whose quartiles are equal) if they are drawn in then, otherwise means and
        standard deviations; 0 and a power of two, as a rule 1, if they are not standardised.
    squared_width_ : float
        What squared distances are divided by. With more than 2000 training samples the median
        is that of 2000 of them, evenly spaced.

    Examples
    --------
    >>> import numpy as np
    >>> import kernelquilt as kq
    >>> A = np.array([[0.0], [1.0], [3.0]])
    >>> kq.kernels.MedianGaussian(standardize=True).fit(A)(A, A).round(2)
    array([[1.  , 0.37, 0.  ],
           [0.37, 1.  , 0.02],
           [0.  , 0.02, 1.  ]])
    """

    def __init__(self, scale: float = 1.0, *, standardize: bool | str = "robust") -> None:
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
        check_scale(self)
        if not (isinstance(self.standardize, bool | np.bool_) or self.standardize == "robust"):
            raise ValueError(
                "standardize of MedianGaussian is 'robust', True or False, "
                f"got {self.standardize!r}"
            )
        n = A.shape[0]
        weight = np.ones(n) if sample_weight is None else np.asarray(sample_weight, np.float64)
        kept = np.flatnonzero(weight > 0) if weight.any() else np.arange(n)
        A, weight = A[kept], weight[kept] if weight.any() else np.ones(n)
        self.centres_ = np.zeros(A.shape[1])
        self.scales_ = np.full(A.shape[1], safe_unit(largest(A)))
        if self.standardize:
            units = _quartiles if self._draws_in else _standard
            self.centres_, self.scales_ = units(A, weight / weight.sum())
        step = -(-A.shape[0] // _MEDIAN_SAMPLES)
        standard = self._standardised(A[::step])
        median = pair_median(squared_distances(standard, standard), weight[::step])
        self.squared_width_ = float(np.clip(self.scale**2 * median, *WIDTHS))
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

    @property
    def _draws_in(self) -> bool:
        return self.standardize == "robust"

    def _standardised(self, A: Any) -> Any:
        centre, scale = self.centres_, self.scales_
        if self._draws_in:
            return drawn_in(A, centre, scale)
        if (scale == 1.0).all() and not centre.any():
            return A
        if issparse(A):  # not centred: distances do not notice
            return with_values(A, A.data / scale[A.indices])
        return np.asarray((A - centre) / scale)


def drawn_in(A: Any, centre: Floats, scale: Floats) -> Any:
    """Centre and scale columns, and draw in what is then far from zero.

    Parameters
    ----------
    A : ndarray or sparse matrix of shape (n, d)
    centre, scale : ndarrays of shape (d,)

    Returns
    -------
    near : ndarray or sparse matrix of shape (n, d)
        Where z was, there is ``z / sqrt(1 + (z / 3)^2)``, never further than 3 from zero. Columns
        of sparse matrices are shifted so that zeros stay zeros; distances do not notice.
    """
    if not issparse(A):
        return _nearer((A - centre) / scale)
    z = A.data - centre[A.indices]
    z /= scale[A.indices]
    _nearer(z)
    z -= _nearer(-centre / scale)[A.indices]
    return with_values(A, z)


def _nearer(z: Floats) -> Floats:
    """Overwrite z with ``z / sqrt(1 + (z / 3)^2)``."""
    np.clip(z, -1.0 / SMALL, 1.0 / SMALL, out=z)
    length = np.square(z / _FAR)
    length += 1.0
    z /= np.sqrt(length, out=length)
    return z


def _quartiles(A: Any, share: Floats) -> tuple[Floats, Floats]:
    """Return medians, and quartile ranges in the unit in which a normal column has deviation 1.

    Where half of a column is one value its range may be zero; then it is the standard deviation.
    """
    middle, scale = np.zeros(A.shape[1]), _standard(A, share)[1]
    columns = np.arange(A.shape[1])
    if issparse(A):  # the quartiles of a column that is mostly zero are zero
        columns = np.flatnonzero(share @ with_values(A, 1.0 * (A.data != 0)) > 0.2)
    step = max(1, ENTRIES // A.shape[0])
    for start in range(0, len(columns), step):
        part = columns[start : start + step]
        block = A[:, part].toarray() if issparse(A) else A[:, part]
        low, middle[part], high = _quantiles(block, share)
        spread = high - low
        known = spread > 1e-12 * np.abs(middle[part])
        scale[part[known]] = spread[known] / _NORMAL_QUARTILES
    return middle, scale


def _quantiles(A: Floats, share: Floats) -> Floats:
    """Return the lower quartiles, medians and upper quartiles (3, d): values of the columns."""
    n = len(A)
    levels = np.array([0.25, 0.5, 0.75]) - 1e-9  # a sum of weights that is level counts as reached
    if (share == share[0]).all():
        ranks = np.ceil(levels * n).astype(int) - 1
        return np.partition(A, ranks, axis=0)[ranks]
    order = np.argsort(A, axis=0)
    reached = np.cumsum(share[order], axis=0)
    at = np.array([np.minimum((reached < level).sum(axis=0), n - 1) for level in levels])
    return np.take_along_axis(A, np.take_along_axis(order, at, axis=0), axis=0)


def _standard(A: Any, share: Floats) -> tuple[Floats, Floats]:
    """Return means and standard deviations (d,) of columns, 1 where these are rounding."""
    mean, deviation = _moments(A, share)
    constant = (deviation <= 1e-12 * np.abs(mean)) | (deviation == 0)
    return mean, np.where(constant, 1.0, deviation)


def _moments(A: Any, share: Floats) -> tuple[Floats, Floats]:
    """Return means and standard deviations (d,) of columns, with weights (n,) that sum to one."""
    if issparse(A):
        mean, variance = mean_variance_axis(A, axis=0, weights=share)
        return mean, np.sqrt(variance)
    mean = share @ A
    centred = A - mean
    unit = safe_unit(float(np.abs(centred).max(initial=0.0)))
    return mean, np.sqrt(share @ np.square(centred / unit)) * unit
