r"""Solvers over kernel weights: what they ask of the SVM inside, how they end, and two of them.

.. math:: \min_{d \in \mathcal D} J(d), \qquad
          J(d) = \max_b \; s'b - \tfrac12 \sum_p d_p \, q_p(b)

The SVM, or ridge regression, knows ``J`` and its derivatives (`SVMAtWeights`, such as
:mod:`kernelquilt.core.svm.weighted_svm`), the `WeightSet` knows :math:`\mathcal D` (such as those
of :mod:`kernelquilt.core.weights.sets`), and a solver (`WeightSolver`) brings the two together.
Every solver ends with a `Certificate`, a duality gap.

**Projected Newton** works in coordinates of the set that may differ from the weights. One iteration
solves the SVM at ``d``, minimises a second-order model over the set, and searches along the way to
that minimiser until ``J`` has fallen enough (Armijo). ``J`` is smooth inside the set but may have a
kink where a weight is zero: the dual of a sample that only kernels without weight observe is not
unique, and neither is that of low-rank kernels. Newton's method would stall there. Weights
therefore stay above a small fraction of their start, which costs the same fraction of the objective
at most and shrinks with the gap. Once the certificate is reached, weights that ended there are set
to zero, if it still holds without them.

**Alternation** takes turns with a closed-form update. For fixed weights the SVM gives the norms
:math:`\|w_p\|^2 = d_p^2 q_p`; for fixed norms the weights that minimise
:math:`\tfrac12 \sum_p \|w_p\|^2 / d_p` over the weight set are known. Both steps minimise the
same objective over one block of variables, so it never rises.

**The quadratic programmes** of Newton's method have a handful of variables,

.. math:: \min_x \tfrac12 x'Hx + c'x \quad\text{s.t.}\quad x \ge l, \; Gx \le h, \; Ax = b,

and are solved by DAQP [1]_, an active set method on the dual. It is exact to rounding, and many
inequalities cost little where few of them hold with equality.

References
----------
.. [1] D. Arnström, A. Bemporad and D. Axehill, "A dual active-set solver for embedded quadratic
   programming using recursive LDL^T updates", IEEE Transactions on Automatic Control 67(8), 2022.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

import daqp
import numpy as np

from kernelquilt._typing import Bools, Floats, Numbers
from kernelquilt.core.limits import single_threaded_blas
from kernelquilt.core.weights.solution import TINY, Options, Solution, Step, Work

Set_contra = TypeVar("Set_contra", contravariant=True)
ARMIJO = 1e-4
MAX_UNSOLVED = 5  # SVMs in a row beyond what rounding lets it solve, after which more are in vain
MAX_BACKTRACKS = 12
ROUNDING = 1e-14  # relative error of J
STEP_GROWTH = 2.0  # a step may be this much longer than the last one
FLOOR_SHARE = 0.02  # part of the relative gap that keeping weights positive may cost
RECIPROCAL_SHARE = 0.9  # part of the curvature along the gradient that may be taken away
MAX_FLOOR = 0.01  # in units of the start
EQUALITY = 5  # codes of DAQP
SOLVED = 1
QP_ITERATIONS = 100_000
TOLERANCE = 1e-12
SMALL_TERM = 1e-8  # linear terms that are smaller, in units of H, count as none
FEASIBLE = 1e-10  # what a solution may violate of the constraints
RIDGES = (1e-9, 1e-7, 1e-5)  # where H alone will not do, in units of its trace and the linear term
MAX_ROUNDS = 20  # about three are usual


@dataclass(frozen=True)
class SVMPoint:
    """The SVMs at one weight vector; L is the number of problems that share it.

    Attributes
    ----------
    weights : ndarray of shape (M,)
        The weights.
    b : ndarray of shape (L, n)
        Signed duals.
    products : ndarray of shape (L, M, n)
        ``K_p b`` for every kernel.
    q : ndarray of shape (M,)
        ``b'K_p b``, summed over the problems.
    linear : float
        ``s'b``, summed over the problems.
    intercept : ndarray of shape (L,)
        Biases.
    dual, primal : float
        Value of the SVM dual and primal for these weights; ``primal >= dual``.
    """

    weights: Floats
    b: Floats
    products: Floats
    q: Floats
    linear: float
    intercept: Floats
    dual: float
    primal: float

    @property
    def squared_norms(self) -> Floats:
        """``||w_p||^2 = d_p^2 q_p``, shape (M,)."""
        return np.asarray(self.weights**2 * np.maximum(self.q, 0.0))


class SVMAtWeights(Protocol):
    """What a solver over kernel weights asks of the SVM, or ridge regression, inside.

    Attributes
    ----------
    work : Work
        What all solves so far have cost.
    diag : ndarray of shape (M, n)
        Diagonals of the kernels.
    reach : float
        Largest share of its bound that a dual has come to in any of them, infinite if not known.
    """

    work: Work
    diag: Floats
    reach: float

    def solve(self, weights: Floats, start: SVMPoint | Floats | None, tol: float) -> SVMPoint:
        """Solve for one weight vector (M,), to a tenth of the relative gap `tol`."""

    def hessian(self, point: SVMPoint) -> Floats:
        """Return the second derivatives by the weights at the point solved last, (M, M)."""


class WeightSet(ABC):
    """Where kernel weights may lie, a convex and bounded set; M is the number of kernels.

    In its coordinates, which are the weights themselves unless a set says otherwise, it has flat
    faces: they are not negative, zero where not allowed, and meet the constraints below.

    Attributes
    ----------
    allowed : ndarray of shape (M,), bool
        Kernels that may have weight.
    can_vanish : bool
        Whether weights may be zero at the optimum.
    """

    allowed: Bools
    can_vanish: bool = True

    @property
    def at_most_one(self) -> Floats:
        """Rows (k, M) whose products with the coordinates are at most one."""
        return np.zeros((0, len(self.allowed)))

    @property
    def equal_to_one(self) -> Floats:
        """Rows (e, M) whose products with the coordinates are one."""
        return np.zeros((0, len(self.allowed)))

    @abstractmethod
    def start(self) -> Floats:
        """Return coordinates (M,) of a point at which every allowed weight is positive."""

    @abstractmethod
    def support(self, q: Floats) -> float:
        """Return an upper bound of ``max d'q`` over the set, tight to rounding; q is (M,)."""

    @abstractmethod
    def without(self, u: Floats, negligible: Bools) -> Floats:
        """Return coordinates close to `u` with the negligible ones zero."""

    def weights(self, u: Floats) -> Floats:
        """Return the weights (M,) of coordinates."""
        return u

    def coordinates(self, weights: Floats) -> Floats:
        """Return the coordinates (M,) of weights."""
        return weights

    def pull_back(self, u: Floats, gradient: Floats, hessian: Floats) -> tuple[Floats, Floats]:
        """Turn derivatives by the weights into derivatives by the coordinates."""
        return gradient, hessian


class UpdatedSet(WeightSet):
    """A set over which alternation has a closed form."""

    @abstractmethod
    def update(self, squared_norms: Floats) -> Floats:
        """Return the weights that minimise ``sum_p squared_norms[p] / weights[p]``, (M,)."""


def diagonals(K: Numbers) -> Floats:
    """Return the diagonals of the kernels in float64, shape (M, n)."""
    return np.ascontiguousarray(np.diagonal(K, axis1=1, axis2=2), dtype=np.float64)


def clearly_negative(q: Floats, b: Floats, diag: Floats) -> Bools:
    """Return which quadratic forms ``b'K_p b`` are negative beyond rounding; diag is (M, n)."""
    scale = np.abs(diag).max(axis=1) * float(np.abs(b).sum()) ** 2
    return np.asarray(q < -1e-9 * scale)


class Certificate:
    r"""Best lower bound seen so far, and how far a point is above it.

    Any dual point ``b`` bounds the optimum over the weight set from below by
    :math:`s'b - \tfrac12 \max_d \sum_p d_p q_p(b)`, whether or not its SVM was solved exactly.

    Parameters
    ----------
    svm : SVMAtWeights
        The SVM whose solves are counted.
    support : callable
        Returns the largest ``d'q`` over the weight set, for q of shape (M,).
    options : Options
        Relative gap to reach, and whom to tell of every step.
    """

    def __init__(
        self, svm: SVMAtWeights, support: Callable[[Floats], float], options: Options
    ) -> None:
        self.svm = svm
        self.support = support
        self.options = options
        self.bound = -np.inf
        self.history: list[Step] = []

    def record(self, point: SVMPoint) -> float:
        """Improve the bound by a point, make it a step of the history, return its gap."""
        self.raise_bound(point.linear - 0.5 * self.support(point.q))
        step = Step(point.primal, point.primal - self.bound, self.svm.work.n_solves)
        self.history.append(step)
        self.options.report(step)
        return self.gap(point)

    def raise_bound(self, bound: float) -> None:
        """Take note of a lower bound from elsewhere."""
        self.bound = max(self.bound, bound)

    def gap(self, point: SVMPoint) -> float:
        """Return the gap of a point relative to its primal value."""
        return (point.primal - self.bound) / max(abs(point.primal), TINY)

    def solution(self, point: SVMPoint, residual: float | None = None) -> Solution:
        """Return the solution at a point; `residual` replaces the gap as the test of success.

        It tells of the weights only, so that the SVM itself is asked, too.
        """
        single = len(point.b) == 1
        if residual is not None:
            residual = max(residual, (point.primal - point.dual) / max(abs(point.primal), TINY))
        return Solution(
            weights=point.weights,
            dual_coef=point.b[0] if single else point.b,
            intercept=float(point.intercept[0]) if single else point.intercept,
            objective=point.primal,
            dual_bound=self.bound,
            tol=self.options.tol,
            residual=residual,
            n_iter=len(self.history),
            work=self.svm.work,
            history=tuple(self.history),
            indefinite=clearly_negative(point.q, point.b, self.svm.diag),
            slopes=point.q,
            reach=self.svm.reach,
        )


class WeightSolver(Protocol[Set_contra]):
    """A method that minimises ``J`` over sets of weights of some kind."""

    def __call__(self, svm: SVMAtWeights, weight_set: Set_contra, options: Options) -> Solution:
        """Minimise ``J`` over a weight set.

        Parameters
        ----------
        svm : SVMAtWeights
            The SVM with its kernels, not solved before.
        weight_set : WeightSet
            Where the weights may lie.
        options : Options
            ``tol`` is the relative duality gap to reach, ``max_iter`` the cap on the SVM solves,
            those of line searches included. The weights to start from are a point of the set,
            the duals have the shape of the labels.

        Returns
        -------
        Solution
            With the certificate it ended with, met or not.
        """


def certified_at(svm: SVMAtWeights, weights: Floats, options: Options) -> Solution:
    """Solve at given weights (M,), as a `WeightSolver` would over the set of these alone."""
    certificate = Certificate(svm, lambda q: float(weights @ q), options)
    point = svm.solve(weights, options.start.dual_coef, options.tol)
    certificate.record(point)
    return certificate.solution(point)


@single_threaded_blas()
def newton(svm: SVMAtWeights, weight_set: WeightSet, options: Options) -> Solution:
    """Solve by projected Newton, over any set (a `WeightSolver`)."""
    tol, max_iter = options.tol, options.max_iter
    start = weight_set.start()
    given = options.start.weights
    u = start if given is None else weight_set.coordinates(given)
    point = svm.solve(weight_set.weights(u), options.start.dual_coef, tol)
    certificate = Certificate(svm, weight_set.support, options)
    share, step, stalled, last_gap, unsolved = MAX_FLOOR, 1.0, False, np.inf, 0
    while (gap := certificate.record(point)) > tol and svm.work.n_solves < max_iter:
        unsolved = 0 if _is_solved(point, tol) else unsolved + 1
        if (stalled and gap > 0.5 * last_gap) or unsolved == MAX_UNSOLVED:
            break
        last_gap = gap
        share = min(share, FLOOR_SHARE * max(gap, tol))
        floor = share * start
        if (u < 0.5 * floor).any():  # only where the given start was sparse
            u = (1.0 - share) * u + floor
            point = svm.solve(weight_set.weights(u), point, tol)
            continue
        rounding = ROUNDING * abs(point.dual)
        found = line_search(svm, weight_set, options, u, point, floor, step, rounding)
        if found is None:
            break
        stalled = found[1].dual > point.dual - rounding
        u, point, step = found
    reached = certificate.gap(point) <= tol
    if reached and weight_set.can_vanish and 1 < svm.work.n_solves < max_iter:
        negligible = (u > 0) & (u <= 2.0 * floor)
        if negligible.any():
            weights = weight_set.weights(weight_set.without(u, negligible))
            sparse = svm.solve(weights, point, tol)
            if certificate.gap(sparse) <= tol:
                certificate.record(sparse)
                point = sparse
    return certificate.solution(point)


def line_search(
    svm: SVMAtWeights,
    weight_set: WeightSet,
    options: Options,
    u: Floats,
    point: SVMPoint,
    floor: Floats,
    last_step: float,
    rounding: float = 0.0,
) -> tuple[Floats, SVMPoint, float] | None:
    """Return coordinates, point and step of a sufficiently lower J, or None if there is none.

    Close to the optimum the gap still shrinks where J no longer does to `rounding`.
    """
    gradient, hessian = weight_set.pull_back(u, -0.5 * point.q, svm.hessian(point))
    hessian = _reciprocal_hessian(hessian, gradient, point.dual)
    try:
        direction = _model_step(weight_set, gradient, hessian, u, floor)
    except np.linalg.LinAlgError:  # of kernels of such scales that their curvature is rounding
        return None
    slope = float(gradient @ direction)
    step = min(1.0, STEP_GROWTH * last_step)
    start = point
    for _ in range(MAX_BACKTRACKS if slope < rounding else 0):
        ahead = np.maximum(u + step * direction, 0.0)
        trial = svm.solve(weight_set.weights(ahead), start, options.tol)
        change = trial.dual - point.dual
        if change <= ARMIJO * step * slope + rounding:
            return ahead, trial, step
        comparable = _is_solved(point, options.tol) or _is_solved(trial, options.tol)
        if svm.work.n_solves >= options.max_iter or not comparable:
            break
        start = trial
        interpolated = -slope * step**2 / (2.0 * (change - slope * step))
        step = min(max(interpolated, 0.1 * step), 0.6 * step)
    return None


def _model_step(
    weight_set: WeightSet, gradient: Floats, hessian: Floats, u: Floats, floor: Floats
) -> Floats:
    """Return the e that minimises ``gradient'e + e'hessian e / 2``, in coordinates.

    ``u + e`` lies in the set and is nowhere below `floor`, itself a point of the set or smaller.
    """
    allowed, at_most, equal = weight_set.allowed, weight_set.at_most_one, weight_set.equal_to_one
    H = hessian[allowed][:, allowed]
    H.flat[:: len(H) + 1] += 1e-10 * float(H.trace()) + 1e-14 * float(np.abs(gradient).max())
    steps = np.zeros(len(allowed))
    steps[allowed] = solve_qp(
        H,
        gradient[allowed],
        (floor - u)[allowed],
        at_most[:, allowed],
        1.0 - at_most @ u,
        equal[:, allowed],
        1.0 - equal @ u,
    )
    return steps


def _is_solved(point: SVMPoint, tol: float) -> bool:
    """Whether the SVM at its weights is solved to the relative gap `tol`."""
    return point.primal - point.dual <= tol * abs(point.primal)


def _reciprocal_hessian(hessian: Floats, gradient: Floats, value: float) -> Floats:
    """Return the curvature of ``-1 / J`` in units of J, as far as it is positive.

    Where few duals are bounded, J falls like one over the weights: ``1 / J`` is nearly linear and
    Newton's method gets in one step where on J it would take many. The correction
    ``2 gradient gradient' / J`` is limited so that the result stays positive semi-definite.
    """
    scale = float(np.trace(hessian))
    if not scale > 0.0:
        return hessian
    shifted = hessian / scale
    shifted.flat[:: len(gradient) + 1] += 1e-12
    size = float(gradient @ np.linalg.solve(shifted, gradient)) / scale
    factor = min(2.0 / max(value, TINY), RECIPROCAL_SHARE / max(size, TINY))
    return hessian - (factor * gradient[:, None]) * gradient


@single_threaded_blas()
def alternate(svm: SVMAtWeights, weight_set: UpdatedSet, options: Options) -> Solution:
    """Solve by alternation (a `WeightSolver`)."""
    start = options.start.weights
    weights = weight_set.weights(weight_set.start()) if start is None else start
    point = svm.solve(weights, options.start.dual_coef, options.tol)
    certificate = Certificate(svm, weight_set.support, options)
    unsolved = 0
    while certificate.record(point) > options.tol and svm.work.n_solves < options.max_iter:
        if unsolved == MAX_UNSOLVED:
            break
        point = svm.solve(weight_set.update(_norms_to_rounding(svm, point)), point, options.tol)
        unsolved = 0 if _is_solved(point, options.tol) else unsolved + 1
    return certificate.solution(point)


def _norms_to_rounding(svm: SVMAtWeights, point: SVMPoint) -> Floats:
    """Return the squared norms, none of which is less than its rounding error.

    A weight that is set to zero stays there, and the functions of kernels with large entries are
    small beside what rounding leaves of ``b'K_p b``.
    """
    error = np.finfo(np.float64).eps * svm.diag.max(axis=1) * float(np.abs(point.b).sum()) ** 2
    return np.asarray(point.weights**2 * np.maximum(point.q, error))


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
