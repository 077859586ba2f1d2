r"""Features of a kernel in the span of some of the samples that have it, its landmarks L.

With a factorisation :math:`K(L, L)^{-1} = T T'` on the landmarks that are independent of each
other, the features of a sample are

.. math:: z(x) = s \, (k(x, L) \, T - c), \qquad
          c = \sum_i \omega_i \, k(x_i, L) \, T, \qquad
          s^{-2} = \sum_i \omega_i \, |k(x_i, L) \, T - c|^2,

over the training samples that have the kernel, with weights :math:`\omega` of sum one. If all of
them are landmarks, :math:`z(x)'z(x_i)` is the kernel itself, centred and scaled to mean diagonal 1.
Otherwise it is the Nystroem approximation.

=============  ====================
symbol         name here
=============  ====================
L              ``columns``
T              ``projection``
c, s           ``mean``, ``scale``
=============  ====================
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg.lapack import dpotrf, dpstrf, dtrtri

from kernelquilt._typing import Floats, Indices, Numbers

SMALLEST = 1e-300  # below which kernels have few digits left, and their inverses overflow
NEGLIGIBLE = 1e-12  # remainder of k(x, x), in units of the largest, that counts as rounding
NEGLIGIBLE_SINGLE = 1e-6  # the same for kernels in single precision
INDEPENDENT = 1e-4  # share of what makes directions negligible, below which none may be
INDEFINITE = 1e-6  # remainder of k(x, y) above which a kernel is not positive semi-definite
TOO_INDEFINITE = 0.1  # negative eigenvalue, in units of the mean diagonal, that is refused


@dataclass(frozen=True)
class FeatureMap:
    """From the similarities with landmarks to features.

    Attributes
    ----------
    columns : ndarray of int of shape (m,)
        The landmarks, as positions among the training samples.
    projection : ndarray of shape (m, r), or None until it is made again
    mean : ndarray of shape (r,)
    scale : float
        Zero if nothing is left of the kernel after centring.
    order : ndarray of int of shape (m,) or None
        Of the landmarks, from which the projection follows; None if it does not.
    """

    columns: Indices
    projection: Any
    mean: Floats
    scale: float
    order: Indices | None

    def without_projection(self) -> "FeatureMap":
        """Return the same without what `with_projection` finds again."""
        return self if self.order is None else replace(self, projection=None)

    def with_projection(self, kernel: Floats) -> "tuple[FeatureMap, Floats]":
        """Return the same with the projection, and the features of the landmarks (m, r).

        Both follow from the kernel (m, m) among the landmarks as in `fit_map`.
        """
        if self.order is None:
            return self, self.of(kernel)
        projection, own = _projection(_symmetric(kernel), self.order)
        made = replace(self, projection=projection)
        return made, made.of(kernel) if own is None else made._centred(own)

    def of(self, kernel: Numbers) -> Floats:
        """Return features (n_rows, r) from similarities (n_rows, m) with the landmarks."""
        return self._centred(kernel @ self.projection)

    def _centred(self, features: Floats) -> Floats:
        features -= self.mean
        features *= self.scale
        return np.asarray(features)

    def lengths(self, features: Floats, diag: Numbers) -> Floats:
        """Return squared lengths (n_rows,), with what is outside of the span of the landmarks.

        Parameters
        ----------
        features : ndarray of shape (n_rows, r)
        diag : ndarray of shape (n_rows,)
            k(x, x).
        """
        # a scale may be too large to be squared
        square = self.scale * (self.scale * (diag - self.mean @ self.mean))
        return np.asarray(square - 2.0 * self.scale * (features @ self.mean))

    def back(self, coef: Floats) -> tuple[Floats, Floats]:
        """Return what similarities (m, c) and a constant (c,) are multiplied by, for `coef`."""
        scaled = self.scale * coef
        return self.projection @ scaled, -(self.mean @ scaled)


def fit_map(
    kernel: Numbers,
    chosen: Indices,
    columns: Indices,
    copies: Floats | None,
) -> tuple[FeatureMap, Floats]:
    """Fit the features of a kernel.

    Parameters
    ----------
    kernel : ndarray of shape (n, m)
        Similarities of the samples that have it with the landmarks.
    chosen : ndarray of int of shape (m,)
        Positions of the landmarks among these samples.
    columns : ndarray of int of shape (m,)
        What the landmarks are called.
    copies : ndarray of shape (n,) or None
        As how many copies samples count in the means; None leaves the features as they are.

    Returns
    -------
    FeatureMap
    features : ndarray of shape (n, r)
        Of the n samples.
    """
    everyone = len(chosen) == len(kernel)
    kept, projection, order, own = _directions(kernel if everyone else kernel[chosen])
    if everyone and own is not None:
        features = own  # which are kernel @ projection, up to rounding
    else:
        features = (kernel if len(kept) == len(chosen) else kernel[:, kept]) @ projection
    mean, scale = np.zeros(features.shape[1]), 1.0
    if copies is not None:
        mean, scale = centre_and_scale(features, copies)
        features -= mean
        features *= scale
    return FeatureMap(columns[kept], projection, mean, scale, order), np.asarray(features)


def centre_and_scale(features: Floats, copies: Floats) -> tuple[Floats, float]:
    """Return the weighted mean (r,) of features (n, r), and what gives them mean length one."""
    share = copies / copies.sum()
    mean = np.asarray(share @ features)
    raw = float(share @ np.einsum("ij,ij->i", features, features))
    size = raw - float(mean @ mean)
    return mean, 1.0 / np.sqrt(size) if size > 1e-10 * abs(raw) else 0.0


def independent_directions(kernel: Numbers) -> tuple[Indices, Floats, Indices | None]:
    """Return landmarks that are independent of each other, and T with K^-1 = T T' among them.

    T follows from the kernel and the order in which the landmarks were taken. The order itself may
    be another on another machine, where landmarks are about as good as each other.

    Parameters
    ----------
    kernel : ndarray of shape (m, m)

    Returns
    -------
    kept : ndarray of int of shape (k,)
        In ascending order.
    projection : ndarray of shape (k, r)
    order : ndarray of int of shape (k,) or None
        Positions in `kept`; None if the kernel is indefinite, and T of its positive part.
    """
    return _directions(kernel)[:3]


def _directions(kernel: Numbers) -> tuple[Indices, Floats, Indices | None, Floats | None]:
    """Return the same, and the features (m, r) of the landmarks if all are independent."""
    tolerance = NEGLIGIBLE_SINGLE if kernel.dtype == np.float32 else NEGLIGIBLE
    K = _symmetric(kernel)
    if np.abs(K).max(initial=0.0) < SMALLEST:
        K = np.zeros_like(K)
    largest = float(K.diagonal().max(initial=0.0))
    order = np.arange(len(K))
    least = tolerance / INDEPENDENT * largest
    made = _factored(K, order, least) if largest > 0 else None
    # the trace of the inverse bounds the pivots of all orders
    if made is not None and np.square(made[0]).sum() * least < 1.0:
        return order, made[0], order, made[1]
    factor, pivots, rank, _ = dpstrf(K, tol=tolerance * largest, lower=1)
    rank = rank if largest > 0 else 0
    factor = np.tril(factor[:, :rank])
    rest, kept = pivots[rank:] - 1, pivots[:rank] - 1
    if len(rest):
        left = K[np.ix_(rest, rest)] - factor[rank:] @ factor[rank:].T
        if np.abs(left).max() > max(INDEFINITE, tolerance) * max(largest, np.abs(K).max()):
            return *_positive_part(K), None, None
    ascending = np.sort(kept)
    order = np.searchsorted(ascending, kept)
    projection, own = _projection(K[np.ix_(ascending, ascending)], order)
    return ascending, projection, order, None if len(rest) else own


def _symmetric(kernel: Numbers) -> Floats:
    K = kernel.astype(np.float64)
    return np.asarray((K + K.T) / 2)


def _projection(K: Floats, order: Indices) -> tuple[Floats, Floats | None]:
    """Return T (k, k) with K^-1 = T T', triangular in an order of pivots that are not small.

    And ``K T``, unless the last pivots are about as large as rounding.
    """
    if len(order) == 0:  # which LAPACK refuses
        return np.empty((0, 0)), None
    made = _factored(K, order)
    if made is not None:
        return made
    shifted = K.copy()
    shifted[np.diag_indices(len(K))] += NEGLIGIBLE * K.diagonal().max()
    made = _factored(shifted, order)
    if made is None:
        raise np.linalg.LinAlgError("a kernel is not positive definite on its landmarks")
    return made[0], None


def _factored(K: Floats, order: Indices, least: float = 0.0) -> tuple[Floats, Floats] | None:
    """Return T (k, k) and ``K T``, None if a pivot is not above `least`."""
    natural = bool((order[1:] > order[:-1]).all())
    pivoted = K.copy() if natural else K[np.ix_(order, order)]
    # the transpose of a C-ordered array is what LAPACK takes without a copy
    factor, failed = dpotrf(pivoted.T, lower=0, clean=1, overwrite_a=1)
    if failed or not np.square(factor.diagonal()).min() > least:
        return None
    projection, features = dtrtri(factor, lower=0)[0], factor.T
    if natural:
        return projection, features
    places = np.argsort(order)
    return projection[places], features[places]


def _positive_part(K: Floats) -> tuple[Indices, Floats]:
    """Return all landmarks, and T from the positive eigenvalues."""
    values, vectors = np.linalg.eigh(K)
    if values[0] < -TOO_INDEFINITE * max(float(K.diagonal().mean()), 0.0):
        raise np.linalg.LinAlgError("a kernel is not positive semi-definite")
    positive = values > INDEFINITE * values[-1]
    return np.arange(len(K)), np.asarray(vectors[:, positive] / np.sqrt(values[positive]))
