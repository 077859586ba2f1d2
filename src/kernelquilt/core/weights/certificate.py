"""The duality-gap certificate that every solver over kernel weights keeps."""

from collections.abc import Callable

import numpy as np

from kernelquilt._typing import Floats
from kernelquilt.core.solution import TINY, Solution, Step
from kernelquilt.core.svm.smo import clearly_negative
from kernelquilt.core.svm.weighted_svm import Machine, Point


class Certificate:
    r"""Best lower bound seen so far, and how far a point is above it.

    Any dual point ``b`` bounds the optimum over the weight set from below by
    :math:`s'b - \tfrac12 \max_d \sum_p d_p q_p(b)`, whether or not its SVM was solved exactly.

    Parameters
    ----------
    machine : Machine
        The SVM whose solves are counted.
    support : callable
        Returns the largest ``d'q`` over the weight set, for q of shape (M,).
    tol : float
        Relative gap to reach.
    on_step : callable or None
        Called with every :class:`~kernelquilt.core.solution.Step`.
    """

    def __init__(
        self,
        machine: Machine,
        support: Callable[[Floats], float],
        tol: float,
        on_step: Callable[[Step], None] | None,
    ) -> None:
        self.machine = machine
        self.support = support
        self.tol = tol
        self.on_step = on_step
        self.bound = -np.inf
        self.history: list[Step] = []

    def record(self, point: Point) -> float:
        """Improve the bound by a point, make it a step of the history, return its gap."""
        self.raise_bound(point.linear - 0.5 * self.support(point.q))
        self.history.append(Step(point.primal, point.primal - self.bound, self.machine.n_solves))
        if self.on_step is not None:
            self.on_step(self.history[-1])
        return self.gap(point)

    def raise_bound(self, bound: float) -> None:
        """Take note of a lower bound from elsewhere."""
        self.bound = max(self.bound, bound)

    def gap(self, point: Point) -> float:
        """Return the gap of a point relative to its primal value."""
        return (point.primal - self.bound) / max(abs(point.primal), TINY)

    def solution(self, point: Point, residual: float | None = None) -> Solution:
        """Return the solution at a point; `residual` replaces the gap as the test of success."""
        single = len(point.b) == 1
        return Solution(
            weights=point.weights,
            dual_coef=point.b[0] if single else point.b,
            intercept=float(point.intercept[0]) if single else point.intercept,
            objective=point.primal,
            dual_bound=self.bound,
            tol=self.tol,
            residual=residual,
            n_iter=len(self.history),
            n_solves=self.machine.n_solves,
            n_smo_iter=self.machine.n_smo_iter,
            n_passes=self.machine.n_passes,
            history=tuple(self.history),
            indefinite=clearly_negative(point.q, point.b, self.machine.diag),
            slopes=point.q,
        )
