r"""Losses of the outputs of views and their duals, for :mod:`.interior_point`.

A term is a convex function of the outputs f (M, n) of all views. It holds the current value of its
dual variables, which pull at the coefficients g of the views, and says how they follow when the
outputs change. Most of the terms have dual variables in a box, with loss and gradient

.. math:: \sum_j U_j \max(0, s_j(f)), \qquad
          0 \le x_j \le U_j, \quad z_j - \zeta_j = -s_j(f), \quad
          x_j z_j = (U_j - x_j) \zeta_j = \mu,

the last two of which an interior point method brings about, with :math:`\mu \to 0`.
"""

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np

from kernelquilt._typing import Floats


class Change(NamedTuple):
    """A change of the outputs.

    Attributes
    ----------
    df : ndarray of shape (M, n)
        By view.
    difference : ndarray of shape (n,)
        Of two views, ``df[0] - df[1]`` without the rounding of this subtraction.
    """

    df: Floats
    difference: Floats


class Term(ABC):
    """A loss of the outputs, with its dual variables."""

    @abstractmethod
    def pull(self) -> Floats:
        """Return what the duals add to the coefficients g, shape (M, n)."""

    @abstractmethod
    def value(self, f: Floats) -> float:
        """Return the loss."""

    @abstractmethod
    def gap(self, f: Floats) -> float:
        """Return by how much loss and conjugate exceed what the duals account for; >= 0."""

    @abstractmethod
    def linearise(self, f: Floats) -> None:
        """Prepare steps from here, where the outputs are `f`."""

    @abstractmethod
    def aim(self, mu: float) -> Floats:
        """Return the change of `pull` on the way to the centre `mu` if f stays, (M, n)."""

    @abstractmethod
    def step(self, mu: float, change: Change) -> None:
        """Set the step to the centre `mu` when the outputs change."""

    @abstractmethod
    def move(self, length: float) -> None:
        """Take the step."""

    def start(self, f: Floats) -> None:  # noqa: B027
        """Choose multipliers that go with the outputs."""

    def correct(self) -> None:  # noqa: B027
        """Take into account what the step set last changes to second order."""

    def longest(self) -> float:
        """Return the longest step that keeps the duals feasible."""
        return np.inf

    def complementarity(self, length: float) -> float:
        """Return the sum of the products of duals and multipliers after a step."""
        return 0.0

    @property
    def n_products(self) -> int:
        """Number of these products."""
        return 0


class _Step(NamedTuple):
    x: Floats
    below: Floats
    above: Floats


class BoxTerm(Term):
    """Loss ``sum U max(0, s(f))`` of gradients s, affine in f, of which each has one dual.

    Parameters
    ----------
    upper : ndarray
        Bounds U; entries with 0 take no part.
    size : float
        Size of the duals to start from.
    """

    def __init__(self, upper: Floats, size: float) -> None:
        self.upper = upper
        self.used = upper > 0.0
        self.x = 0.5 * np.minimum(upper, size)
        self.room = upper - self.x  # kept beside x, since near the bound a difference loses it
        self._z = self._zeta = np.zeros_like(upper)

    @abstractmethod
    def _gradient(self, f: Floats) -> Floats:
        """Return s(f), of the shape of `upper`."""

    @abstractmethod
    def _slope(self, change: Change) -> Floats:
        """Return by how much s changes."""

    @abstractmethod
    def _spread(self, x: Floats) -> Floats:
        """Return the coefficients that duals x amount to: minus the adjoint of `_slope`."""

    def start(self, f: Floats) -> None:
        """Choose multipliers that go with the outputs."""
        s = self._gradient(f)
        self._z = np.where(self.used, 1.0 + np.maximum(-s, 0.0), 0.0)
        self._zeta = np.where(self.used, 1.0 + np.maximum(s, 0.0), 0.0)

    def pull(self) -> Floats:
        """Return the coefficients of the duals."""
        return self._spread(self.x)

    def value(self, f: Floats) -> float:
        """Return ``sum U max(0, s)``."""
        return float(np.sum(self.upper * np.maximum(self._gradient(f), 0.0)))

    def gap(self, f: Floats) -> float:
        """Return ``sum U max(0, s) - x s``, of which no summand is negative."""
        s = self._gradient(f)
        return float(np.sum(self.upper * np.maximum(s, 0.0) - self.x * s))

    def linearise(self, f: Floats) -> None:
        """Keep how far the duals follow their gradients (`give`), and what is not met yet."""
        self._x = np.where(self.used, self.x, 1.0)
        self._room = np.where(self.used, self.room, 1.0)
        curvature = np.where(self.used, self._z / self._x + self._zeta / self._room, 1.0)
        self.give = np.where(self.used, 1.0 / curvature, 0.0)
        self._residual = self._gradient(f) + self._z - self._zeta
        self._second = np.zeros_like(self.x), np.zeros_like(self.x)

    def aim(self, mu: float) -> Floats:
        """Return the change of `pull` on the way to the centre if f stays."""
        return self._spread(self._aim(mu))

    def _aim(self, mu: float) -> Floats:
        low, high = self._targets(mu)
        return self.give * (low / self._x - high / self._room + self._residual)

    def _targets(self, mu: float) -> tuple[Floats, Floats]:
        return (
            mu - self._x * self._z - self._second[0],
            mu - self._room * self._zeta - self._second[1],
        )

    def step(self, mu: float, change: Change) -> None:
        """Set the steps of the duals and of the multipliers of both bounds."""
        low, high = self._targets(mu)
        dx = self._aim(mu) + self.give * self._slope(change)
        below = np.where(self.used, (low - self._z * dx) / self._x, 0.0)
        above = np.where(self.used, (high + self._zeta * dx) / self._room, 0.0)
        self._step = _Step(dx, below, above)

    def correct(self) -> None:
        """Take the products of the steps into account."""
        self._second = self._step.x * self._step.below, -self._step.x * self._step.above

    def longest(self) -> float:
        """Return the longest step that leaves duals inside the box, multipliers positive."""
        dx, below, above = self._step
        length = np.inf
        for value, step in (
            (self._x, dx),
            (self._room, -dx),
            (self._z, below),
            (self._zeta, above),
        ):
            shrinks = self.used & (step < 0.0)
            length = min(length, float(np.min(-value[shrinks] / step[shrinks], initial=np.inf)))
        return length

    def complementarity(self, length: float) -> float:
        """Return the sum of ``x z + (U - x) zeta`` after a step."""
        dx, below, above = (length * step for step in self._step) if length else (0.0, 0.0, 0.0)
        products = (self._x + dx) * (self._z + below) + (self._room - dx) * (self._zeta + above)
        return float(np.sum(products, where=self.used))

    @property
    def n_products(self) -> int:
        """Two for each dual."""
        return 2 * int(np.count_nonzero(self.used))

    def move(self, length: float) -> None:
        """Take the step."""
        self.x = self.x + length * self._step.x
        self.room = self.room - length * self._step.x
        self._z = self._z + length * self._step.below
        self._zeta = self._zeta + length * self._step.above


class Margins(BoxTerm):
    """The hinge loss of every view, ``sum U max(0, 1 - y f)``; `upper` is (M, n)."""

    def __init__(self, y: Floats, upper: Floats, size: float) -> None:
        super().__init__(upper, size)
        self.y = y

    def _gradient(self, f: Floats) -> Floats:
        return 1.0 - self.y * f

    def _slope(self, change: Change) -> Floats:
        return -self.y * change.df

    def _spread(self, x: Floats) -> Floats:
        return self.y * x
