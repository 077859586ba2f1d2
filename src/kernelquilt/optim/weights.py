"""The sets that kernel weights may come from.

A weight set is convex and bounded, and knows three things: a point to start from, the largest
value of a linear function over it (the certificate needs that), and the minimiser of a quadratic
model over it (Newton's method needs that). The same Newton solver then serves every set.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

from kernelquilt.optim.qp import solve_qp

Floats = NDArray[np.float64]


class WeightSet(Protocol):
    """What a solver asks of a set of weights."""

    def start(self) -> Floats:
        """Return a point of the set with every allowed weight positive, shape (M,)."""

    def support(self, q: Floats) -> float:
        """Return an upper bound of ``max d'q`` over the set, tight to rounding; q is (M,)."""

    def step(self, gradient: Floats, hessian: Floats, centre: Floats, floor: Floats) -> Floats:
        """Return the e that minimises ``gradient'e + e'hessian e / 2``.

        ``centre + e`` lies in the set and is nowhere below `floor`, itself a point of the set or
        smaller; all shapes are (M,) and (M, M).
        """

    def without(self, weights: Floats, negligible: NDArray[np.bool_]) -> Floats:
        """Return a point of the set close to `weights` with the negligible ones zero."""


@dataclass(frozen=True)
class Simplex:
    """Weights that are non-negative and sum to one; those not allowed stay zero.

    Parameters
    ----------
    allowed : ndarray of shape (M,), bool
        Kernels that may have weight.
    """

    allowed: NDArray[np.bool_]

    def start(self) -> Floats:
        """Return equal weights."""
        return self.allowed / np.count_nonzero(self.allowed)

    def support(self, q: Floats) -> float:
        """Return the largest allowed entry of q."""
        return float(q[self.allowed].max())

    def step(self, gradient: Floats, hessian: Floats, centre: Floats, floor: Floats) -> Floats:
        """Minimise a quadratic model over the simplex."""
        sums = np.ones((1, len(centre)))
        none = np.zeros((0, len(centre)))
        return _step(self.allowed, gradient, hessian, centre, floor, none, sums)

    def without(self, weights: Floats, negligible: NDArray[np.bool_]) -> Floats:
        """Drop the negligible weights and scale the others to sum one."""
        kept = np.where(negligible, 0.0, weights)
        return kept / kept.sum()


class Polytope:
    """Weights ``d >= 0`` with ``A d <= 1`` for a non-negative matrix A.

    A column of zeros would leave its weight unbounded; such a weight is held at zero.

    Parameters
    ----------
    A : ndarray of shape (k, M)
        Non-negative; a row is one constraint. Rows that others dominate are dropped.
    """

    def __init__(self, A: Floats) -> None:
        A = np.asarray(A, dtype=np.float64)
        if A.ndim != 2 or not (A >= 0).all():
            raise ValueError("A must be a two-dimensional array without negative entries")
        self.allowed: NDArray[np.bool_] = np.asarray((A > 0).any(axis=0))
        if not self.allowed.any():
            raise ValueError("every column of A is zero: no weight is bounded")
        self.A: Floats = _undominated(A)

    def start(self) -> Floats:
        """Return equal weights, as large as the constraints allow."""
        return self.allowed / self.A.sum(axis=1).max()

    def support(self, q: Floats) -> float:
        """Return the value of one small linear programme, from its dual so that it is safe."""
        q = np.where(self.allowed, np.maximum(q, 0.0), 0.0)
        top = float(q.max())
        if top == 0.0:
            return 0.0
        result = linprog(np.ones(len(self.A)), A_ub=-self.A.T, b_ub=-q / top, method="highs")
        z = np.maximum(result.x, 0.0)
        covered = self.A.T @ z
        needed = q > 0
        return top * float(z.sum()) * max(1.0, float((q[needed] / top / covered[needed]).max()))

    def step(self, gradient: Floats, hessian: Floats, centre: Floats, floor: Floats) -> Floats:
        """Minimise a quadratic model over the polytope."""
        none = np.zeros((0, len(centre)))
        return _step(self.allowed, gradient, hessian, centre, floor, self.A, none)

    def without(self, weights: Floats, negligible: NDArray[np.bool_]) -> Floats:
        """Drop the negligible weights."""
        return np.where(negligible, 0.0, weights)


def _undominated(A: Floats) -> Floats:
    """Drop repeated rows and rows that are nowhere larger than another row."""
    A = np.unique(A[A.any(axis=1)], axis=0)
    A = A[np.argsort(-A.sum(axis=1), kind="stable")]
    kept: list[Floats] = []
    for row in A:
        if not kept or not (np.array(kept) >= row).all(axis=1).any():
            kept.append(row)
    return np.array(kept)


def _step(
    allowed: NDArray[np.bool_],
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
        np.vstack([-np.eye(m), at_most_one[:, allowed]]),
        np.concatenate([(centre - floor)[allowed], 1.0 - at_most_one @ centre]),
        equal_to_one[:, allowed],
        1.0 - equal_to_one @ centre,
    )
    return steps
