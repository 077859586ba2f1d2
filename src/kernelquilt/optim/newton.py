r"""Kernel weights by projected Newton with a duality-gap certificate.

.. math:: \min_{d \in \mathcal D} J(d), \qquad
          J(d) = \max_b \; s'b - \tfrac12 \sum_p d_p \, q_p(b)

for a convex bounded set of weights (:mod:`kernelquilt.optim.weights`). One iteration solves the
SVM at ``d``, minimises the second-order model of ``J`` over the set, and searches along the way
to that minimiser until ``J`` has fallen enough (Armijo). Any dual point ``b`` gives the bound

.. math:: D(b) = s'b - \tfrac12 \max_{d \in \mathcal D} \sum_p d_p \, q_p(b) \le \min J ,

whether or not the SVM was solved exactly. The certificate is the primal value minus the best
bound seen.
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
    weights = weight_set.start() if weights is None else weights
    point = machine.solve(weights, dual_coef, tol)
    bound = -np.inf
    history: list[Step] = []
    while True:
        bound = max(bound, point.linear - 0.5 * weight_set.support(point.q))
        history.append(Step(point.primal, point.primal - bound, machine.n_solves))
        if on_step is not None:
            on_step(history[-1])
        reached = point.primal - bound <= tol * max(abs(point.primal), TINY)
        if reached or machine.n_solves >= max_iter:
            break
        trial = _line_search(machine, weight_set, point, tol, max_iter)
        if trial is None:
            break
        point = trial
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
    machine: StackSVM, weight_set: WeightSet, point: Point, tol: float, max_iter: int
) -> Point | None:
    """Return a point with a sufficiently lower J, or None where rounding ends the descent."""
    gradient = -0.5 * point.q
    target = weight_set.minimise_quadratic(gradient, machine.hessian(point), point.weights)
    direction = target - point.weights
    slope = float(gradient @ direction)
    if slope >= 0.0:
        return None
    step = 1.0
    start = point
    for _ in range(MAX_BACKTRACKS):
        weights = target if step == 1.0 else point.weights + step * direction
        trial = machine.solve(weights, start, tol)
        change = trial.dual - point.dual
        if change <= ARMIJO * step * slope:
            return trial
        if machine.n_solves >= max_iter:
            return None
        start = trial
        interpolated = -slope * step**2 / (2.0 * (change - slope * step))
        step = min(max(interpolated, 0.1 * step), 0.6 * step)
    return None
