r"""The sets that kernel weights may come from, and the small programmes over them.

A weight set is convex and bounded. It knows a point to start from, the largest value of a linear
function over it (the certificate needs that), and the minimiser of a quadratic model over it
(Newton's method needs that), in coordinates in which it has flat faces. The same Newton solver then
serves every set. For the simplex and the polytope the coordinates are the weights themselves.

The quadratic programmes have a handful of variables,

.. math:: \min_x \tfrac12 x'Hx + c'x \quad\text{s.t.}\quad x \ge l, \; Gx \le h, \; Ax = b,

and are solved by DAQP [1]_, an active set method on the dual. It is exact to rounding, and many
inequalities cost little where few of them hold with equality.

References
----------
.. [1] D. Arnström, A. Bemporad and D. Axehill, "A dual active-set solver for embedded quadratic
   programming using recursive LDL^T updates", IEEE Transactions on Automatic Control 67(8), 2022.
"""

from dataclasses import dataclass
from typing import Protocol

import daqp
import numpy as np
from scipy.optimize import linprog

from kernelquilt._typing import Array, Bools, Floats

MAX_PIVOTS_SHARE = 4  # of the simplex method, per row and column; a few per column is usual
ENTRIES_BY_HAND = 2**16  # of the constraints, up to which it is faster than HiGHS
SHORT = 1e-10  # of the constraints that its rounding may leave open
DOMINATION_ENTRIES = 2**23  # held at a time while constraints are compared
LP_OPTIONS = {  # the smallest tolerances that HiGHS takes
    "primal_feasibility_tolerance": 1e-10,
    "dual_feasibility_tolerance": 1e-10,
}
EQUALITY = 5  # codes of DAQP
SOLVED = 1
QP_ITERATIONS = 100_000
TOLERANCE = 1e-12
SMALL_TERM = 1e-8  # linear terms that are smaller, in units of H, count as none
FEASIBLE = 1e-10  # what a solution may violate of the constraints
RIDGES = (1e-9, 1e-7, 1e-5)  # where H alone will not do, in units of its trace and the linear term
MAX_ROUNDS = 20  # about three are usual


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
    from kernelquilt.core.compiled import packing_multipliers

    pivots = MAX_PIVOTS_SHARE * sum(A.shape) if A.size <= ENTRIES_BY_HAND else 0
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


def solve_qp(
    H: Floats, c: Floats, lower: Floats, G: Floats, h: Floats, A: Floats, b: Floats
) -> Floats:
    """Solve a small dense QP (see the module docstring).

    Parameters
    ----------
    H : ndarray of shape (m, m)
        Positive semi-definite to rounding.
    c : ndarray of shape (m,)
        Linear term.
    lower : ndarray of shape (m,)
        Lower bounds; where they are active they hold exactly.
    G, h : ndarrays of shape (k, m) and (k,)
        Inequalities ``G x <= h``; the feasible set must be bounded and not empty.
    A, b : ndarrays of shape (e, m) and (e,)
        Equalities ``A x = b``.

    Returns
    -------
    ndarray of shape (m,)

    Raises
    ------
    LinAlgError
        If no solution was found.
    """
    # by the linear term: an entry of H is as large as it likes near the edge of the feasible set
    scale = max(float(np.abs(c).max()), SMALL_TERM * float(np.abs(H).max()), 1e-300)
    H, c = H / scale, c / scale
    rows = np.vstack([G, A])
    low = np.concatenate([lower, np.full(len(h), -np.inf), b])
    high = np.concatenate([np.full(len(c), np.inf), h, b])
    kinds = np.where(low == high, EQUALITY, 0).astype(np.int32)

    def solution(H: Floats, c: Floats) -> Floats | None:
        x, _, status, info = daqp.solve(
            H,
            c,
            rows,
            high,
            low,
            kinds,
            primal_tol=TOLERANCE,
            dual_tol=TOLERANCE,
            eps_prox=0.0,
            iter_limit=QP_ITERATIONS,
        )
        if status != SOLVED:
            return None
        x = np.where(info["lam"][: len(c)] < 0.0, lower, x)
        values = np.concatenate([x, rows @ x])
        return x if np.maximum(values - high, low - values).max() <= FEASIBLE else None

    x = solution(H, c)
    for share in RIDGES:
        if x is not None:
            return x
        # H is singular: the ridge is on the distance to the solution before (proximal point method)
        ridge = share * (1.0 + abs(float(np.trace(H))))
        before = lower
        for _ in range(MAX_ROUNDS):
            x = solution(H + ridge * np.eye(len(c)), c - ridge * before)
            if x is None or np.abs(x - before).max() <= TOLERANCE:
                break
            before = x
    if x is None:
        raise np.linalg.LinAlgError("no solution of the quadratic programme was found")
    return x


def simplex_least_squares(gram: Floats, target: int) -> Floats:
    """Combine vectors to come near to one of them: the weights of a convex combination.

    Minimises ``|x_t - sum_l s_l x_l|^2`` over ``s >= 0``, ``sum(s) = 1``, ``s_t = 0``.

    Parameters
    ----------
    gram : ndarray of shape (M, M)
        Inner products of the vectors, M >= 2.
    target : int
        Which vector is approximated by the others.

    Returns
    -------
    ndarray of shape (M,)
    """
    others = np.arange(len(gram)) != target
    H, c = gram[np.ix_(others, others)], gram[others, target]
    m = len(c)
    weights = np.zeros(len(gram))
    scale = float(np.abs(H).max())
    if scale == 0:
        weights[others] = 1 / m
    elif m == 1:
        weights[others] = 1.0
    else:
        none, ones = np.zeros((0, m)), np.ones((1, m))
        found = solve_qp(H / scale, -c / scale, np.zeros(m), none, none[:, 0], ones, ones[:, 0])
        weights[others] = found / found.sum()
    return weights
