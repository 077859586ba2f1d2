"""The sets that kernel weights may come from.

A weight set is convex and bounded. It knows a point to start from, the largest value of a linear
function over it (the certificate needs that), and the minimiser of a quadratic model over it
(Newton's method needs that), in coordinates in which it has flat faces. The same Newton solver then
serves every set. For the simplex and the polytope the coordinates are the weights themselves.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.optimize import linprog

from kernelquilt._typing import Array, Bools, Floats
from kernelquilt.core.weights.small_qp import solve_qp

MAX_PIVOTS_SHARE = (
    4  # of the simplex method, in units of rows and columns; a few per column is usual
)
SMALL = 2**16  # entries of the constraints up to which it is faster than HiGHS
SHORT = 1e-10  # of the constraints that its rounding may leave open
DOMINATION_ENTRIES = 2**23  # held at a time while constraints are compared
LP_OPTIONS = {  # the smallest tolerances that HiGHS takes
    "primal_feasibility_tolerance": 1e-10,
    "dual_feasibility_tolerance": 1e-10,
}


class WeightSet(Protocol):
    """What a solver asks of a set of weights; M is the number of kernels."""

    @property
    def can_vanish(self) -> bool:
        """Whether weights may be zero at the optimum."""

    def start(self) -> Floats:
        """Return coordinates (M,) of a point at which every allowed weight is positive."""

    def weights(self, u: Floats) -> Floats:
        """Return the weights (M,) of coordinates."""

    def coordinates(self, weights: Floats) -> Floats:
        """Return the coordinates (M,) of weights."""

    def pull_back(self, u: Floats, gradient: Floats, hessian: Floats) -> tuple[Floats, Floats]:
        """Turn derivatives by the weights into derivatives by the coordinates."""

    def support(self, q: Floats) -> float:
        """Return an upper bound of ``max d'q`` over the set, tight to rounding; q is (M,)."""

    def step(self, gradient: Floats, hessian: Floats, u: Floats, floor: Floats) -> Floats:
        """Return the e that minimises ``gradient'e + e'hessian e / 2``, in coordinates.

        ``u + e`` lies in the set and is nowhere below `floor`, itself a point of the set or
        smaller.
        """

    def without(self, u: Floats, negligible: Bools) -> Floats:
        """Return coordinates close to `u` with the negligible ones zero."""


class _OwnCoordinates:
    """Weights that are their own coordinates."""

    can_vanish: bool = True

    def weights(self, u: Floats) -> Floats:
        """Return the coordinates."""
        return u

    def coordinates(self, weights: Floats) -> Floats:
        """Return the weights."""
        return weights

    def pull_back(self, u: Floats, gradient: Floats, hessian: Floats) -> tuple[Floats, Floats]:
        """Return the derivatives as they are."""
        return gradient, hessian


@dataclass(frozen=True)
class Simplex(_OwnCoordinates):
    """Weights that are non-negative and sum to one; those not allowed stay zero.

    Parameters
    ----------
    allowed : ndarray of shape (M,), bool
        Kernels that may have weight.
    """

    allowed: Bools

    def start(self) -> Floats:
        """Return equal weights."""
        return self.allowed / np.count_nonzero(self.allowed)

    def support(self, q: Floats) -> float:
        """Return the largest allowed entry of q."""
        return float(q[self.allowed].max())

    def step(self, gradient: Floats, hessian: Floats, u: Floats, floor: Floats) -> Floats:
        """Minimise a quadratic model over the simplex."""
        sums = np.ones((1, len(u)))
        none = np.zeros((0, len(u)))
        return _step(self.allowed, gradient, hessian, u, floor, none, sums)

    def update(self, squared_norms: Floats) -> Floats:
        """Return the weights that minimise ``sum_p squared_norms[p] / weights[p]``, (M,)."""
        updated = np.zeros(len(self.allowed))
        updated[self.allowed] = self._minimiser(squared_norms[self.allowed])
        return updated

    def _minimiser(self, squared_norms: Floats) -> Floats:
        return lp_weights(squared_norms, 1.0)

    def without(self, u: Floats, negligible: Bools) -> Floats:
        """Drop the negligible weights and scale the others to sum one."""
        kept = np.where(negligible, 0.0, u)
        return kept / kept.sum()


@dataclass(frozen=True)
class NormBall(Simplex):
    r"""Weights ``d >= 0`` with ``sum_p d_p^p <= 1``, p > 1; those not allowed stay zero.

    The coordinates are :math:`u_p = d_p^p`, a point of the simplex. As ``J`` is convex and falls
    with every weight, and the weights are concave in u, ``J`` is convex in u too.

    Parameters
    ----------
    allowed : ndarray of shape (M,), bool
        Kernels that may have weight.
    p : float
        Exponent of the norm, above 1.
    """

    p: float

    can_vanish = False

    def weights(self, u: Floats) -> Floats:
        """Return ``u^(1/p)``."""
        return u ** (1.0 / self.p)

    def coordinates(self, weights: Floats) -> Floats:
        """Return ``d^p``."""
        return weights**self.p

    def pull_back(self, u: Floats, gradient: Floats, hessian: Floats) -> tuple[Floats, Floats]:
        """Apply the chain rule; the second derivatives of the weights add a positive diagonal."""
        power = 1.0 / self.p
        v = np.where(self.allowed, np.maximum(u, 1e-300), 1.0)
        slope = np.where(self.allowed, power * v ** (power - 1.0), 0.0)
        curvature = np.where(self.allowed, power * (power - 1.0) * v ** (power - 2.0), 0.0)
        return gradient * slope, hessian * np.outer(slope, slope) + np.diag(gradient * curvature)

    def support(self, q: Floats) -> float:
        """Return the dual norm of q."""
        return dual_norm(q[self.allowed], self.p)

    def _minimiser(self, squared_norms: Floats) -> Floats:
        return lp_weights(squared_norms, self.p)


def lp_weights(squared_norms: Floats, p: float) -> Floats:
    """Return the weights of lp-norm one that minimise ``sum_m squared_norms[m] / weights[m]``.

    Parameters
    ----------
    squared_norms : ndarray of shape (M,)
        Non-negative.
    p : float
        Exponent, at least 1.
    """
    top = float(squared_norms.max())
    if top == 0.0:
        return np.full(len(squared_norms), len(squared_norms) ** (-1.0 / p))
    weights = (squared_norms / top) ** (1.0 / (p + 1.0))
    return weights / float((weights**p).sum()) ** (1.0 / p)


def dual_norm(q: Floats, p: float) -> float:
    """Return the largest ``d'q`` over ``d >= 0``, ``||d||_p <= 1``, for p > 1; q is (M,)."""
    q = np.maximum(q, 0.0)
    top = float(q.max())
    conjugate = p / (p - 1.0)
    return top * float(((q / top) ** conjugate).sum()) ** (1.0 / conjugate) if top > 0.0 else 0.0


class Polytope(_OwnCoordinates):
    """Weights ``d >= 0`` with ``A d <= 1`` for a non-negative matrix A.

    A column of zeros would leave its weight unbounded; such a weight is held at zero.

    Parameters
    ----------
    A : ndarray of shape (k, M)
        Non-negative; a row is one constraint. Rows that others dominate are dropped.
    can_vanish : bool, default=True
        Whether weights may be zero at the optimum.
    """

    def __init__(self, A: Floats, *, can_vanish: bool = True) -> None:
        A = np.asarray(A, dtype=np.float64)
        if A.ndim != 2 or not (A >= 0).all():
            raise ValueError("A must be a two-dimensional array without negative entries")
        self.allowed: Bools = np.asarray((A > 0).any(axis=0))
        if not self.allowed.any():
            raise ValueError("every column of A is zero: no weight is bounded")
        self.A: Floats = _undominated(A)
        self.can_vanish = can_vanish

    def start(self) -> Floats:
        """Return equal weights, as large as the constraints allow."""
        return self.allowed / self.A.sum(axis=1).max()

    def support(self, q: Floats) -> float:
        """Return the value of one small linear programme, from its dual so that it is safe."""
        return float(self.multipliers(q).sum())

    def multipliers(self, q: Floats) -> Floats:
        """Return the ``z >= 0`` (k,) with the smallest sum and ``A'z >= q`` where allowed."""
        q = np.where(self.allowed, np.maximum(q, 0.0), 0.0)
        top = float(q.max())
        if top == 0.0:
            return np.zeros(len(self.A))
        z = _packing_multipliers(self.A, q / top)
        # where the solver falls short of A'z >= q by rounding, one constraint makes up for it
        short = np.maximum(q / top - self.A.T @ z, 0.0)
        for p in np.flatnonzero(short):
            k = int(self.A[:, p].argmax())
            z[k] += short[p] / self.A[k, p]
        return np.asarray(top * z)

    def step(self, gradient: Floats, hessian: Floats, u: Floats, floor: Floats) -> Floats:
        """Minimise a quadratic model over the polytope."""
        none = np.zeros((0, len(u)))
        return _step(self.allowed, gradient, hessian, u, floor, self.A, none)

    def without(self, u: Floats, negligible: Bools) -> Floats:
        """Drop the negligible weights."""
        return np.where(negligible, 0.0, u)


def _packing_multipliers(A: Floats, q: Floats) -> Floats:
    """Return the multipliers of ``max q'd`` over ``d >= 0, A d <= 1``, to rounding."""
    from kernelquilt.core.weights.compiled import packing_multipliers

    pivots = MAX_PIVOTS_SHARE * sum(A.shape) if A.size <= SMALL else 0
    z, optimal = packing_multipliers(A, q, pivots)
    if optimal and float(np.maximum(q - A.T @ z, 0.0).sum()) <= SHORT * float(q.sum()):
        return np.asarray(z)
    result = linprog(np.ones(len(A)), A_ub=-A.T, b_ub=-q, method="highs", options=LP_OPTIONS)
    return np.maximum(result.x, 0.0)


def _undominated(A: Floats) -> Floats:
    """Drop repeated rows and rows that are nowhere larger than another row."""
    A = np.unique(A[A.any(axis=1)], axis=0)
    entries: Array = (
        A.astype(np.bool_) if np.isin(A, (0.0, 1.0)).all() else A
    )  # bytes compare faster
    size = max(1, DOMINATION_ENTRIES // A.size)
    kept = [
        # every row is nowhere larger than itself, and none of the others equals it
        np.count_nonzero((part[:, None] <= entries).all(axis=2), axis=1) == 1
        for part in np.array_split(entries, -(-len(A) // size))
    ]
    return A[np.concatenate(kept)]


def _step(
    allowed: Bools,
    gradient: Floats,
    hessian: Floats,
    centre: Floats,
    floor: Floats,
    at_most_one: Floats,
    equal_to_one: Floats,
) -> Floats:
    """Minimise the model with ``at_most_one @ d <= 1`` and ``equal_to_one @ d = 1``."""
    H = hessian[np.ix_(allowed, allowed)]
    ridge = 1e-10 * float(np.trace(H)) + 1e-14 * float(np.abs(gradient).max())
    m = len(H)
    steps = np.zeros(len(allowed))
    steps[allowed] = solve_qp(
        H + ridge * np.eye(m),
        gradient[allowed],
        (floor - centre)[allowed],
        at_most_one[:, allowed],
        1.0 - at_most_one @ centre,
        equal_to_one[:, allowed],
        1.0 - equal_to_one @ centre,
    )
    return steps
