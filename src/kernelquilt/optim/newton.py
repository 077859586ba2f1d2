r"""Kernel weights by projected Newton with a duality-gap certificate.

.. math:: \min_{d \in \mathcal D} J(d), \qquad
          J(d) = \max_b \; s'b - \tfrac12 \sum_p d_p \, q_p(b)

for a convex bounded set of weights (:mod:`kernelquilt.optim.weights`). One iteration solves the
SVM at ``d``, minimises a second-order model over the set, and searches along the way to that
minimiser until ``J`` has fallen enough (Armijo). Any dual point ``b`` gives the bound

.. math:: D(b) = s'b - \tfrac12 \max_{d \in \mathcal D} \sum_p d_p \, q_p(b) \le \min J ,

whether or not the SVM was solved exactly. The certificate is the primal value minus the best
bound seen.

``J`` is smooth inside the set but may have a kink where a weight is zero: the dual of a sample
that only kernels without weight observe is not unique, and neither is that of low-rank kernels.
Newton's method would stall there. Weights therefore stay above a small fraction of their start,
which costs the same fraction of the objective at most and shrinks with the gap. Once the
certificate is reached, weights that ended there are set to zero, if it still holds without them.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from kernelquilt.optim.machine import Point, StackSVM
from kernelquilt.optim.weights import WeightSet
from kernelquilt.solution import TINY, Solution, Step

Floats = NDArray[np.float64]

ARMIJO = 1e-4
MAX_BACKTRACKS = 12
STEP_GROWTH = 4.0  # a step may be this much longer than the last one
FLOOR_SHARE = 0.05  # part of the relative gap that keeping weights positive may cost
RECIPROCAL_SHARE = 0.9  # part of the curvature along the gradient that may be taken away
MAX_FLOOR = 0.02  # in units of the start


def newton(
    machine: StackSVM,
    weight_set: WeightSet,
    *,
    tol: float,
    max_iter: int,
    weights: Floats | None = None,
    dual_coef: Floats | None = None,
    on_step: Callable[[Step], None] | None = None,
) -> Solution:
    """Minimise ``J`` over a weight set (see the module docstring).

    Parameters
    ----------
    machine : StackSVM
        The SVM with its kernels.
    weight_set : WeightSet
        Where the weights may lie.
    tol : float
        Relative duality gap to reach.
    max_iter : int
        Cap on the SVM solves.
    weights : ndarray of shape (M,), optional
        Weights to start from, a point of the set.
    dual_coef : ndarray of shape (n,), optional
        Signed duals to start from.
    on_step : callable, optional
        Called with every :class:`~kernelquilt.solution.Step`.

    Returns
    -------
    Solution
    """
    start = weight_set.start()
    point = machine.solve(start if weights is None else weights, dual_coef, tol)
    bound = -np.inf
    step = 1.0
    history: list[Step] = []

    def gap_of(point: Point) -> float:
        return (point.primal - bound) / max(abs(point.primal), TINY)

    while True:
        bound = max(bound, point.linear - 0.5 * weight_set.support(point.q))
        history.append(Step(point.primal, point.primal - bound, machine.n_solves))
        if on_step is not None:
            on_step(history[-1])
        if gap_of(point) <= tol or machine.n_solves >= max_iter:
            break
        floor = min(MAX_FLOOR, FLOOR_SHARE * max(gap_of(point), tol)) * start
        trial, step = _line_search(machine, weight_set, point, floor, step, tol, max_iter)
        if trial is None:
            break
        point = trial
    if len(history) > 1 and gap_of(point) <= tol and machine.n_solves < max_iter:
        negligible = (point.weights > 0) & (point.weights <= 2.0 * floor)
        if negligible.any():
            sparse = machine.solve(weight_set.without(point.weights, negligible), point, tol)
            point = sparse if gap_of(sparse) <= tol else point
    return Solution(
        weights=point.weights,
        dual_coef=point.b,
        intercept=point.intercept,
        objective=point.primal,
        dual_bound=bound,
        tol=tol,
        n_iter=len(history),
        n_solves=machine.n_solves,
        n_smo_iter=machine.n_smo_iter,
        n_passes=machine.n_passes,
        history=tuple(history),
    )


def _line_search(
    machine: StackSVM,
    weight_set: WeightSet,
    point: Point,
    floor: Floats,
    last_step: float,
    tol: float,
    max_iter: int,
) -> tuple[Point | None, float]:
    """Return a point with a sufficiently lower J and the step there, or None if there is none."""
    gradient = -0.5 * point.q
    hessian = _reciprocal_hessian(machine.hessian(point), gradient, point.dual)
    direction = weight_set.step(gradient, hessian, point.weights, floor)
    slope = float(gradient @ direction)
    step = min(1.0, STEP_GROWTH * last_step)
    start = point
    for _ in range(MAX_BACKTRACKS if slope < 0.0 else 0):
        trial = machine.solve(np.maximum(point.weights + step * direction, 0.0), start, tol)
        change = trial.dual - point.dual
        if change <= ARMIJO * step * slope:
            return trial, step
        if machine.n_solves >= max_iter:
            break
        start = trial
        interpolated = -slope * step**2 / (2.0 * (change - slope * step))
        step = min(max(interpolated, 0.1 * step), 0.6 * step)
    return None, step


def _reciprocal_hessian(hessian: Floats, gradient: Floats, value: float) -> Floats:
    """Return the curvature of ``-1 / J`` in units of J, as far as it is positive.

    Where few duals are bounded, J falls like one over the weights: ``1 / J`` is nearly linear and
    Newton's method gets in one step where on J it would take many. The correction
    ``2 gradient gradient' / J`` is limited so that the result stays positive semi-definite.
    """
    ridge = 1e-12 * float(np.trace(hessian)) + TINY
    size = float(gradient @ np.linalg.solve(hessian + ridge * np.eye(len(gradient)), gradient))
    factor = min(2.0 / max(value, TINY), RECIPROCAL_SHARE / max(size, TINY))
    return hessian - factor * np.outer(gradient, gradient)
