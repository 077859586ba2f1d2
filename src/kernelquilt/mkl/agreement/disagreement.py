"""What disagreement of views costs, as terms of :mod:`kernelquilt.mkl.agreement.interior_point`.

Each has a `stiffness` (n,): the factor of the centring in how its duals follow the outputs.
"""

import numpy as np

from kernelquilt._typing import Bools, Floats
from kernelquilt.mkl.agreement.loss_terms import BoxTerm, Change, Term


class Band(BoxTerm):
    """The distance of two views beyond a band, ``sum_i D_i max(0, |f_1i - f_2i| - eps)``.

    Either side of the band has a dual of its own, of which one is zero in the end.

    Parameters
    ----------
    used : ndarray of shape (2, n), bool
        The samples of either view; those with one view cannot disagree.
    D : ndarray of shape (n,)
        Costs.
    eps : float
        Half the width of the band, positive.
    size : float
        Size of the duals to start from.
    """

    SIDES = np.array([[1.0], [-1.0]])

    def __init__(self, used: Bools, D: Floats, eps: float, size: float) -> None:
        cost = np.where(used.all(axis=0), D, 0.0)
        super().__init__(np.tile(cost, (2, 1)), size)
        self.eps = eps

    def _gradient(self, f: Floats) -> Floats:
        return self.SIDES * (f[0] - f[1]) - self.eps

    def _slope(self, change: Change) -> Floats:
        return self.SIDES * change.difference

    def _spread(self, x: Floats) -> Floats:
        return self.SIDES * (x[1] - x[0])

    @property
    def stiffness(self) -> Floats:
        """The factor q (n,) of the centring in how the pull follows the outputs."""
        return np.asarray(2.0 * self.give.sum(axis=0))


class Distance(BoxTerm):
    """The distance of two views, ``sum_i D_i |f_1i - f_2i|``: a band without width.

    The two duals of a sample would count only by their difference d, between -D and D. The box
    variable is ``x = d + D``, and the loss ``2 D max(0, f_1 - f_2) - D (f_1 - f_2)``. d is kept
    beside x, since a small one would be lost in a large D.

    Parameters
    ----------
    used : ndarray of shape (2, n), bool
        The samples of either view.
    D : ndarray of shape (n,)
        Costs.
    """

    def __init__(self, used: Bools, D: Floats) -> None:
        self.D = np.where(used.all(axis=0), D, 0.0)
        super().__init__(2.0 * self.D, np.inf)
        self.d = np.zeros(len(D))

    def _gradient(self, f: Floats) -> Floats:
        return np.asarray(f[0] - f[1])

    def _slope(self, change: Change) -> Floats:
        return change.difference

    def _spread(self, x: Floats) -> Floats:
        return np.array([-x, x])

    def pull(self) -> Floats:
        """Return the coefficients of d."""
        return self._spread(self.d)

    def value(self, f: Floats) -> float:
        """Return ``sum D |f_1 - f_2|``."""
        return float(np.sum(self.D * np.abs(self._gradient(f))))

    def gap(self, f: Floats) -> float:
        """Return ``sum D |f_1 - f_2| - d (f_1 - f_2)``, of which no summand is negative."""
        return self.value(f) - float(self.d @ self._gradient(f))

    def move(self, length: float) -> None:
        """Take the step, also of d."""
        super().move(length)
        self.d = self.d + length * self._step.x

    @property
    def stiffness(self) -> Floats:
        """The factor q (n,) of the centring in how the pull follows the outputs."""
        return 2.0 * self.give


class Squares(Term):
    """Squared distances to the mean, ``1/2 sum_i q_i sum_l (f_li - mean_l f_li)^2``.

    Its duals v sum to zero over the views that a sample has, and are free otherwise.

    Parameters
    ----------
    used : ndarray of shape (M, n), bool
        The samples of the views.
    stiffness : ndarray of shape (n,)
        Costs q.
    """

    def __init__(self, used: Bools, stiffness: Floats) -> None:
        self.used = used
        self.stiffness = np.where(used.sum(axis=0) > 1, stiffness, 0.0)
        self.count = np.maximum(used.sum(axis=0), 1)
        self.v = np.zeros(used.shape)

    def centred(self, f: Floats) -> Floats:
        """Return the distances to the mean over the views that a sample has, (M, n)."""
        mean = np.sum(f, axis=0, where=self.used) / self.count
        return np.where(self.used, f - mean, 0.0)

    def pull(self) -> Floats:
        """Return ``-v``."""
        return -self.v

    def value(self, f: Floats) -> float:
        """Return half the weighted sum of the squared distances."""
        return 0.5 * float(np.sum(self.stiffness * self.centred(f) ** 2))

    def gap(self, f: Floats) -> float:
        """Return ``sum (v - q P f)^2 / 2 q``."""
        stiff = np.where(self.stiffness > 0.0, self.stiffness, 1.0)
        return 0.5 * float(np.sum((self.v - self.stiffness * self.centred(f)) ** 2 / stiff))

    def linearise(self, f: Floats) -> None:
        """Keep what is missing between v and the distances times q."""
        self._missing = self.stiffness * self.centred(f) - self.v

    def aim(self, mu: float) -> Floats:
        """Return minus what is missing: v is free, and the centre of no concern to it."""
        return -self._missing

    def step(self, mu: float, change: Change) -> None:
        """Set the step that makes v follow the distances."""
        self._step = self._missing + self.stiffness * self.centred(change.df)

    def move(self, length: float) -> None:
        """Take the step."""
        self.v = self.v + length * self._step
