"""What the methods share that alternate between a convex problem and the margins of the samples.

The convex problem is multiple kernel learning with the margin ``margins[i]`` asked of sample i. Its
solution says which margins to ask next. Margins that follow the learned norms of the kernels are
kept at `MARGIN_FLOOR` or above: a sample that has none of the kernels that matter would get 0, and
the bound C / 0 of its dual.
"""

import warnings
from collections.abc import Callable
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval

from kernelquilt._typing import Bools, Floats
from kernelquilt.core.solution import Solution, Step, warn_unless_settled
from kernelquilt.mkl.classifier import BaseMKLClassifier

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
    on_step : callable or None
        Called with the :class:`~kernelquilt.core.solution.Step` of every convex problem.
    """

    def __init__(self, on_step: Callable[[Step], None] | None) -> None:
        self.on_step = on_step
        self.history: list[Step] = []
        self.n_solves = 0
        self.n_smo_iter = 0
        self.n_passes = 0.0

    def spend(self, inner: Solution) -> None:
        """Count what a convex problem has cost."""
        self.n_solves += inner.n_solves
        self.n_smo_iter += inner.n_smo_iter
        self.n_passes += inner.n_passes

    def record(self, inner: Solution) -> None:
        """Make a convex problem, already counted, an iteration of the loop."""
        self.history.append(Step(inner.objective, inner.duality_gap, self.n_solves))
        if self.on_step is not None:
            self.on_step(self.history[-1])

    def solution(
        self, inner: Solution, margins: Floats, change: float, outer_tol: float
    ) -> Solution:
        """Return the solution of the last convex problem with the counts of the whole loop."""
        return replace(
            inner,
            n_iter=len(self.history),
            n_solves=self.n_solves,
            n_smo_iter=self.n_smo_iter,
            n_passes=self.n_passes,
            history=tuple(self.history),
            margins=margins,
            outer_change=change,
            outer_tol=outer_tol,
        )


class OuterLoopClassifier(BaseMKLClassifier):
    """Base of the classifiers that choose the margins of their samples in an outer loop."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **BaseMKLClassifier._parameter_constraints,
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "outer_tol": [Interval(Real, 0, np.inf, closed="left")],
    }

    _change: ClassVar[str]  # what is compared with outer_tol
    _remedy: ClassVar[str]  # what to do if it stays above

    def _store(self, solutions: list[Solution]) -> None:
        super()._store(solutions)
        margins = np.array([solution.margins for solution in solutions])
        self.margins_ = margins[0] if len(solutions) == 1 else margins
        self._warn_of_margins(margins)
        warn_unless_settled(type(self).__name__, solutions, self._change, self._remedy)

    def _warn_of_margins(self, margins: Floats) -> None:
        """Say so where the margins, (n_problems, n), are not those that the method asks for."""


class NormMarginsClassifier(OuterLoopClassifier):
    """Base of the classifiers whose margins follow the learned norms of the kernels."""

    _remedy = (
        "the alternation need not converge: raise max_iter or outer_tol, or use "
        "PenalizedAbsentMKLClassifier"
    )

    def _warn_of_margins(self, margins: Floats) -> None:
        floored = np.any(margins <= MARGIN_FLOOR, axis=0)
        if floored.any():
            warnings.warn(
                f"{floored.sum()} of {margins.shape[1]} training samples have next to none of the "
                f"kernels with weight; their margin was raised to {MARGIN_FLOOR:g}, which lets "
                "them dominate the fit; PenalizedAbsentMKLClassifier does not have this problem",
                UserWarning,
                stacklevel=5,
            )
