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

    def minimise_quadratic(self, gradient: Floats, hessian: Floats, centre: Floats) -> Floats:
        """Return the minimiser over the set of ``gradient'e + e'hessian e / 2``, e = d - centre."""


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

    def minimise_quadratic(self, gradient: Floats, hessian: Floats, centre: Floats) -> Floats:
        """Minimise a quadratic model over the simplex."""
        m = int(np.count_nonzero(self.allowed))
        return _reduced_qp(
            self.allowed, gradient, hessian, centre,
            G=-np.eye(m), h=np.zeros(m), A=np.ones((1, m)), b=np.ones(1),
        )  # fmt: skip


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
        self.A: Floats = _undominated(A)[:, self.allowed]

    def start(self) -> Floats:
        """Return equal weights, as large as the constraints allow."""
        d: Floats = np.zeros(len(self.allowed))
        d[self.allowed] = 1.0 / self.A.sum(axis=1).max()
        return d

    def support(self, q: Floats) -> float:
        """Return the value of one small linear programme, from its dual so that it is safe."""
        q = np.maximum(q[self.allowed], 0.0)
        top = float(q.max())
        if top == 0.0:
            return 0.0
        result = linprog(np.ones(len(self.A)), A_ub=-self.A.T, b_ub=-q / top, method="highs")
        z = np.maximum(result.x, 0.0)
        covered = self.A.T @ z
        needed = q > 0
        return top * float(z.sum()) * max(1.0, float((q[needed] / top / covered[needed]).max()))

    def minimise_quadratic(self, gradient: Floats, hessian: Floats, centre: Floats) -> Floats:
        """Minimise a quadratic model over the polytope."""
        k, m = self.A.shape
        return _reduced_qp(
            self.allowed, gradient, hessian, centre,
            G=np.vstack([-np.eye(m), self.A]), h=np.concatenate([np.zeros(m), np.ones(k)]),
            A=np.zeros((0, m)), b=np.zeros(0),
        )  # fmt: skip


def _undominated(A: Floats) -> Floats:
    """Drop repeated rows and rows that are nowhere larger than another row."""
    A = np.unique(A[A.any(axis=1)], axis=0)
    A = A[np.argsort(-A.sum(axis=1), kind="stable")]
    kept: list[Floats] = []
    for row in A:
        if not kept or not (np.array(kept) >= row).all(axis=1).any():
            kept.append(row)
    return np.array(kept)


def _reduced_qp(
    allowed: NDArray[np.bool_], gradient: Floats, hessian: Floats, centre: Floats,
    *, G: Floats, h: Floats, A: Floats, b: Floats,
) -> Floats:  # fmt: skip
    """Minimise the model over the allowed weights; constraints are in these weights only."""
    H = hessian[np.ix_(allowed, allowed)]
    trace = float(np.trace(H))
    H = H + (1e-10 * trace + 1e-14 * float(np.abs(gradient).max())) * np.eye(len(H))
    d = np.zeros(len(allowed))
    solution = solve_qp(H, gradient[allowed] - H @ centre[allowed], G, h, A, b)
    d[allowed] = np.maximum(solution, 0.0)
    return d
