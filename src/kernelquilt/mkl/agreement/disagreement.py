"""What disagreement of views costs, as part of :mod:`kernelquilt.mkl.agreement.interior_point`.

A cost is a convex function of the outputs f (M, n) of the views. Its dual variables amount to
coefficients v (M, n), which are taken off those of the views, and it has a gap: by how much cost
and conjugate exceed ``<f, v>``, a sum of terms of which none is negative.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from kernelquilt._typing import Bools, Floats, Indices


class Duals(NamedTuple):
    """The T dual variables of a cost in a quadratic programme.

    Attributes
    ----------
    pull : sparse array of shape (N, T)
        From dual variables to the N coefficients that are used, view by view.
    curvature, linear : ndarrays of shape (T,)
        The conjugate of the cost is ``sum(curvature t^2 / 2 + linear t)``.
    equalities : sparse array of shape (E, T)
        Its products with t are zero.
    lower, upper : ndarrays of shape (T,), or (0,) if there are none
        Bounds.
    """

    pull: Any
    curvature: Floats
    linear: Floats
    equalities: Any
    lower: Floats
    upper: Floats


class Band:
    """The distance of two views beyond a band, ``sum_i D_i max(0, |f_1i - f_2i| - eps)``.

    Either side of the band has a dual of its own, between 0 and D. Without width the two would
    count only by their difference, and there is one between -D and D.

    Parameters
    ----------
    used : ndarray of shape (2, n), bool
        The samples of either view; those with one view cannot disagree.
    D : ndarray of shape (n,)
        Costs.
    eps : float
        Half the width of the band.
    """

    def __init__(self, used: Bools, D: Floats, eps: float) -> None:
        self.both = np.flatnonzero(used.all(axis=0) & (D > 0.0))
        self.shape, self.D, self.eps = used.shape, D[self.both], eps
        self.sides = np.array([1.0, -1.0] if eps > 0.0 else [1.0])
        n_duals = len(self.sides) * len(self.both)
        first, second = (_selection(used, l, self.both) for l in range(2))
        self.duals = Duals(
            pull=sparse.hstack([side * (first - second) for side in self.sides]),
            curvature=np.zeros(n_duals),
            linear=np.full(n_duals, eps),
            equalities=sparse.csr_array((0, n_duals)),
            lower=np.zeros(n_duals) if eps > 0.0 else -self.D,
            upper=np.tile(self.D, len(self.sides)),
        )

    def coefficients(self, t: Floats) -> Floats:
        """Return v (2, n) of the nearest feasible duals."""
        d = np.clip(self.sides @ t.reshape(len(self.sides), -1), -self.D, self.D)
        v = np.zeros(self.shape)
        v[:, self.both] = d, -d
        return v

    def value(self, f: Floats) -> float:
        """Return the cost."""
        return float(self.D @ np.maximum(np.abs(self._difference(f)) - self.eps, 0.0))

    def gap(self, f: Floats, v: Floats) -> float:
        """Return ``sum D max(0, |f_1 - f_2| - eps) + eps |d| - d (f_1 - f_2)``."""
        difference, d = self._difference(f), v[0, self.both]
        short = self.eps * np.abs(d) - d * difference
        return float(np.sum(self.D * np.maximum(np.abs(difference) - self.eps, 0.0) + short))

    def _difference(self, f: Floats) -> Floats:
        return np.asarray((f[0] - f[1])[self.both])


class Squares:
    """Squared distances to the mean, ``1/2 sum_i q_i sum_l (f_li - mean_l f_li)^2``.

    Its duals sum to zero over the views that a sample has, and are free otherwise.

    Parameters
    ----------
    used : ndarray of shape (M, n), bool
        The samples of the views; those with one view cannot disagree.
    stiffness : ndarray of shape (n,)
        Costs q.
    """

    def __init__(self, used: Bools, stiffness: Floats) -> None:
        self.shared = used & (stiffness > 0.0) & (used.sum(axis=0) > 1)
        self.q = np.where(self.shared, stiffness, 0.0)
        samples = np.nonzero(self.shared)[1]
        self.duals = Duals(
            pull=sparse.hstack(
                [_selection(used, l, np.flatnonzero(s)) for l, s in enumerate(self.shared)]
            ),
            curvature=1.0 / self.q[self.shared],
            linear=np.zeros(len(samples)),
            equalities=sparse.csr_array(np.unique(samples)[:, None] == samples, dtype=np.float64),
            lower=np.zeros(0),
            upper=np.zeros(0),
        )

    def coefficients(self, t: Floats) -> Floats:
        """Return v (M, n) of the nearest feasible duals."""
        v = np.zeros(self.shared.shape)
        v[self.shared] = t
        return self._centred(v)

    def value(self, f: Floats) -> float:
        """Return the cost."""
        return 0.5 * float(np.sum(self.q * self._centred(f) ** 2))

    def gap(self, f: Floats, v: Floats) -> float:
        """Return ``sum (v - q P f)^2 / 2 q`` with the centring P."""
        missing = (v - self.q * self._centred(f))[self.shared]
        return 0.5 * float(np.sum(np.square(missing / np.sqrt(self.q[self.shared]))))

    def _centred(self, f: Floats) -> Floats:
        """Return the distances (M, n) to the mean over the views that a sample has."""
        count = np.maximum(self.shared.sum(axis=0), 1)
        return np.where(self.shared, f - np.sum(f, axis=0, where=self.shared) / count, 0.0)


def _selection(used: Bools, view: int, samples: Indices) -> Any:
    """Return the sparse array (N, k) that puts k values where the samples of a view are."""
    places = (np.cumsum(used) - 1).reshape(used.shape)[view, samples]
    k = len(samples)
    return sparse.csr_array((np.ones(k), (places, np.arange(k))), shape=(int(used.sum()), k))
