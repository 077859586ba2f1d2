r"""Solvers over kernel weights: what they ask of the SVM inside, how they end, and two of them.

.. math:: \min_{d \in \mathcal D} J(d), \qquad
          J(d) = \max_b \; s'b - \tfrac12 \sum_p d_p \, q_p(b)

The SVM, or ridge regression, knows ``J`` and its derivatives (`SVMAtWeights`, such as
:mod:`kernelquilt.core.svm.weighted_svm`), the weight set knows :math:`\mathcal D`
(:mod:`kernelquilt.core.weights.sets`), and a solver (`WeightSolver`) brings the two together. Every
solver ends with a `Certificate`, a duality gap.

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
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np

from kernelquilt._typing import Bools, Floats, Numbers
from kernelquilt.core.limits import single_threaded_blas
from kernelquilt.core.solution import TINY, Options, Solution, Step, Work
from kernelquilt.core.weights.sets import Simplex, WeightSet

Set_contra = TypeVar("Set_contra", contravariant=True)
ARMIJO = 1e-4
MAX_UNSOLVED = 5  # SVMs in a row beyond what rounding lets it solve, after which more are in vain
MAX_BACKTRACKS = 12
ROUNDING = 1e-14  # relative error of J
STEP_GROWTH = 2.0  # a step may be this much longer than the last one
FLOOR_SHARE = 0.02  # part of the relative gap that keeping weights positive may cost
RECIPROCAL_SHARE = 0.9  # part of the curvature along the gradient that may be taken away
MAX_FLOOR = 0.01  # in units of the start


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
    """

    work: Work
    diag: Floats

    def solve(self, weights: Floats, start: SVMPoint | Floats | None, tol: float) -> SVMPoint:
        """Solve for one weight vector (M,), to a tenth of the relative gap `tol`."""

    def hessian(self, point: SVMPoint) -> Floats:
        """Return the second derivatives by the weights at the point solved last, (M, M)."""


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
        direction = weight_set.step(gradient, hessian, u, floor)
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
    ridge = 1e-12 * np.eye(len(gradient))
    size = float(gradient @ np.linalg.solve(hessian / scale + ridge, gradient)) / scale
    factor = min(2.0 / max(value, TINY), RECIPROCAL_SHARE / max(size, TINY))
    return hessian - factor * np.outer(gradient, gradient)


@single_threaded_blas()
def alternate(svm: SVMAtWeights, weight_set: Simplex, options: Options) -> Solution:
    """Solve by alternation, over sets that have an `update` (a `WeightSolver`)."""
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
