"""What the methods share that alternate between a convex problem and the margins of the samples.

The convex problem is multiple kernel learning with the margin ``margins[i]`` asked of sample i. Its
solution says which margins to ask next. Margins that follow the learned norms of the kernels are
kept at `MARGIN_FLOOR` or above: a sample that has none of the kernels that matter would get 0, and
the bound C / 0 of its dual.
"""

from dataclasses import replace
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval

from kernelquilt._messages import warn_user
from kernelquilt._typing import Bools, Floats
from kernelquilt.core.weights.solution import Options, Solution, Step, Work, warn_unless_settled
from kernelquilt.mkl.fitting import BaseMKLClassifier, gathered

MARGIN_FLOOR = 1e-3
INNER_MAX_ITER = 200  # cap on the SVM solves of one convex problem
ROUNDING = 1e-12  # change of the margins that leaves the convex problem as it is


def taking_part(C: float | Floats, observed: Bools) -> tuple[Floats, Bools, Bools]:
    """Return the penalties, 0 for samples without any kernel, and who takes part.

    Parameters
    ----------
    C : float or ndarray of shape (n,)
        Penalty, of all or of each sample; 0 leaves a sample out.
    observed : ndarray of shape (n, M), bool
        True where a kernel observes a sample.

    Returns
    -------
    C : ndarray of shape (n,)
        Penalty of each sample.
    used : ndarray of shape (n,), bool
        Samples with a positive penalty.
    allowed : ndarray of shape (M,), bool
        Kernels that at least one of them has.
    """
    penalties = np.where(observed.any(axis=1), C, 0.0)
    used = penalties > 0
    return penalties, used, np.asarray(observed[used].any(axis=0))


def observed_share(observed: Bools, sizes: Floats) -> Floats:
    """Return the share of ``sum(sizes)`` that is observed, exactly 1 where everything is.

    Parameters
    ----------
    observed : ndarray of shape (n, M), bool
        True where a kernel observes a sample.
    sizes : ndarray of shape (M,)
        Non-negative.

    Returns
    -------
    share : ndarray of shape (n,)
        Between 0 and 1; 1 if all sizes are 0.
    """
    total = float(sizes.sum())
    if total == 0.0:
        return np.ones(len(observed))
    return np.asarray(np.maximum(1.0 - (~observed @ sizes) / total, 0.0))


class OuterLoop:
    """The books of an outer loop: what its convex problems have cost and where they ended.

    Parameters
    ----------
    options : Options
        Change at which to stop, cap on the convex problems, and whom to tell of each of them.

    Attributes
    ----------
    work : Work
        What all convex problems have cost.
    reach : float
        Largest share of its bound that a dual has come to in any of them.
    """

    def __init__(self, options: Options) -> None:
        self.options = options
        self.history: list[Step] = []
        self.work = Work()
        self.reach = 0.0

    def count(self, inner: Solution) -> None:
        """Take note of what a convex problem has cost, and of how near its duals came to bounds."""
        self.work += inner.work
        self.reach = max(self.reach, inner.reach)

    def record(self, inner: Solution) -> None:
        """Make a convex problem, whose work is already counted, an iteration of the loop."""
        self.history.append(Step(inner.objective, inner.duality_gap, self.work.n_solves))
        self.options.report(self.history[-1])

    def ends(self, change: float) -> bool:
        """Return whether a change is small enough, or the cap reached."""
        return change <= self.options.tol or len(self.history) >= self.options.max_iter

    def solution(self, inner: Solution, margins: Floats, change: float) -> Solution:
        """Return the solution of the last convex problem with the work of the whole loop."""
        return replace(
            inner,
            n_iter=len(self.history),
            work=self.work,
            history=tuple(self.history),
            margins=margins,
            outer_change=change,
            outer_tol=self.options.tol,
            reach=self.reach,
        )


class OuterLoopClassifier(BaseMKLClassifier):
    """Base of the classifiers that choose the margins of their samples in an outer loop."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **BaseMKLClassifier._parameter_constraints,
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "outer_tol": [Interval(Real, 0, np.inf, closed="left")],
    }

    _change: ClassVar[str]  # what is compared with outer_tol
    _remedy: ClassVar[str] = (
        "the alternation need not converge: raise max_iter or outer_tol, or use "
        "PenalizedAbsentMKLClassifier"
    )

    def _store(self, solutions: list[Solution]) -> None:
        super()._store(solutions)
        self.margins_ = gathered(solutions, "margins")
        self._warn_of_margins(np.atleast_2d(self.margins_))
        warn_unless_settled(type(self).__name__, solutions, self._change, self._remedy)

    def _warn_of_margins(self, margins: Floats) -> None:
        """Say so where the margins, (n_problems, n), are not those that the method asks for."""
        floored = np.any(margins <= MARGIN_FLOOR, axis=0)
        if floored.any():
            warn_user(
                f"{floored.sum()} of {margins.shape[1]} training samples have next to none of the "
                f"kernels with weight; their margin was raised to {MARGIN_FLOOR:g}, which lets "
                "them dominate the fit; PenalizedAbsentMKLClassifier does not have this problem"
            )
