"""The duality-gap certificate that every solver over kernel weights keeps."""

from collections.abc import Callable

import numpy as np

from kernelquilt._typing import Floats
from kernelquilt.core.solution import TINY, Options, Solution, Step
from kernelquilt.core.weights.inner import SVMAtWeights, SVMPoint, clearly_negative


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
        """Return the solution at a point; `residual` replaces the gap as the test of success."""
        single = len(point.b) == 1
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
