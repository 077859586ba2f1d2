"""What a solver is told and what it returns, and the warnings when it had to stop early."""

from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from kernelquilt._messages import warn_user
from kernelquilt._typing import Bools, Floats

TINY = 1e-300  # keeps a division by zero away, and is small in units of any problem


@dataclass(frozen=True)
class Step:
    """One iteration of a solver.

    Attributes
    ----------
    objective : float
        Certified primal value.
    gap : float
        Duality gap, the best lower bound so far taken away from `objective`.
    n_solves : int
        Inner solves used up to here.
    clock : float
        Seconds of a clock when the step was made; differences count.
    """

    objective: float
    gap: float
    n_solves: int
    clock: float = field(default_factory=perf_counter, compare=False, repr=False)


@dataclass(frozen=True)
class Start:
    """Where a solver may start; it chooses for itself what is None.

    Attributes
    ----------
    weights : ndarray of shape (M,) or None
        Kernel weights, a point of the set they come from.
    dual_coef : ndarray of the shape of the labels, or None
        Signed duals; (M, n) where each kernel has a function of its own.
    view_intercepts : ndarray of shape (M,) or None
        Biases of the kernels, where each has a function of its own.
    """

    weights: Floats | None = None
    dual_coef: Floats | None = None
    view_intercepts: Floats | None = None


@dataclass(frozen=True)
class Options:
    """How far a solver goes, where it starts and whom it tells of its steps.

    Attributes
    ----------
    tol : float
        Relative duality gap, or residual where the gap need not close, to reach.
    max_iter : int, or infinite
        Cap on the solves; on the iterations of an outer loop where there is one.
    start : Start
        Where to start.
    on_step : callable or None
        Called with every `Step`.
    """

    tol: float
    max_iter: float = np.inf
    start: Start = Start()
    on_step: Callable[[Step], None] | None = None

    def report(self, step: Step) -> None:
        """Tell of a step whoever wants to know."""
        if self.on_step is not None:
            self.on_step(step)

    def keywords(self, *of_start: str) -> dict[str, Any]:
        """Return the keyword arguments of a ``solve_*``, with the named parts of the start."""
        start = {name: getattr(self.start, name) for name in of_start}
        return {"tol": self.tol, "max_iter": self.max_iter, "on_step": self.on_step, **start}


@dataclass(frozen=True)
class Work:
    """What solves have cost; ``+`` adds up that of several.

    Attributes
    ----------
    n_solves : int
        SVM solves, those of line searches included.
    n_smo_iter : int
        SMO iterations.
    n_passes : float
        Kernel entries read, in units of the whole stack.
    """

    n_solves: int = 0
    n_smo_iter: int = 0
    n_passes: float = 0.0

    def __add__(self, other: "Work") -> "Work":
        return Work(
            self.n_solves + other.n_solves,
            self.n_smo_iter + other.n_smo_iter,
            self.n_passes + other.n_passes,
        )


@dataclass(frozen=True)
class Solution:
    """Solution of one binary multiple kernel learning problem, or of L that share the weights.

    Attributes
    ----------
    weights : ndarray of shape (M,)
        Kernel weights: what multiplies each kernel in the score.
    dual_coef : ndarray of shape (n,), or (L, n)
        Signed duals, without the weights.
    intercept : float, or ndarray of shape (L,)
        Bias of the decision function.
    objective : float
        Primal value at the solution.
    dual_bound : float
        Best certified lower bound of the optimum.
    tol : float
        Relative gap, or residual, that was asked for.
    n_iter : int
        Iterations over the weights.
    work : Work
        What it has cost, all solves together; read as `n_solves`, `n_smo_iter` and `n_passes` too.
    history : tuple of Step
        One entry per iteration.
    residual : float or None
        KKT residual that `tol` is compared with, for problems whose gap need not close.
    indefinite : ndarray of shape (M,), bool, or False
        Kernels, or sums of kernels, that the duals prove not to be positive semi-definite.
    slopes : ndarray of shape (M,) or None
        Minus twice the derivatives of the objective by the weights; ``b'K_p b`` as a rule.
    simplex_weights : ndarray of shape (M,) or None
        Kernel weights that sum to one, where `weights` do not.
    margins : ndarray of shape (n,) or None
        Margins that were asked of the samples, where the method chooses them in an outer loop.
    outer_change : float
        Last change that the outer loop saw.
    outer_tol : float or None
        Change that the outer loop had to get down to, None if there is none.
    view_intercepts : ndarray of shape (M,) or None
        Biases of the kernels, where each has a function of its own; `dual_coef` is then (M, n).
    reach : float
        Largest share of its bound that a dual has come to in any solve, infinite if not known.
        Below 1 no bound mattered: with bounds that are the same multiple of these, `reach` or
        more, every solve and so the solution is the same.

    Examples
    --------
    >>> import kernelquilt as kq
    >>> X, y = kq.datasets.make_multiview(40, 3, random_state=0)
    >>> K = kq.ViewKernels().fit_transform(X).gram()
    >>> solution = kq.mkl.solve_simple_mkl(K, 2.0 * y - 1)
    >>> solution.converged, solution.n_solves > 1
    (True, True)
    """

    weights: Floats
    dual_coef: Floats
    intercept: float | Floats
    objective: float
    dual_bound: float
    tol: float
    n_iter: int = 1
    work: Work = Work(1)
    history: tuple[Step, ...] = ()
    residual: float | None = None
    indefinite: Bools | bool = False
    slopes: Floats | None = None
    simplex_weights: Floats | None = None
    margins: Floats | None = None
    outer_change: float = 0.0
    outer_tol: float | None = None
    view_intercepts: Floats | None = None
    reach: float = np.inf

    @property
    def n_solves(self) -> int:
        """SVM solves, those of line searches included."""
        return self.work.n_solves

    @property
    def n_smo_iter(self) -> int:
        """SMO iterations summed over all solves."""
        return self.work.n_smo_iter

    @property
    def n_passes(self) -> float:
        """Kernel entries read, in units of the whole stack."""
        return self.work.n_passes

    @property
    def duality_gap(self) -> float:
        """Absolute gap between the primal value and the lower bound."""
        return self.objective - self.dual_bound

    @property
    def relative_gap(self) -> float:
        """Gap relative to the primal value."""
        return self.duality_gap / max(abs(self.objective), TINY)

    @property
    def distance(self) -> float:
        """What is compared with `tol`: the residual if there is one, else the relative gap."""
        return self.relative_gap if self.residual is None else self.residual

    @property
    def settled(self) -> bool:
        """Whether the outer loop, if there is one, meets its tolerance."""
        return self.outer_tol is None or self.outer_change <= self.outer_tol

    @property
    def converged(self) -> bool:
        """Whether the gap, or the residual if there is one, and any outer loop meet theirs."""
        return self.distance <= self.tol and self.settled


def warn_unless_converged(name: str, solutions: list[Solution], max_iter: float) -> None:
    """Give one ConvergenceWarning that says how far the worst problem is from its tolerance."""
    failed = [solution for solution in solutions if solution.distance > solution.tol]
    if not failed:
        return
    worst = max(failed, key=lambda solution: solution.distance)
    what = "relative duality gap" if worst.residual is None else "KKT residual"
    # with an outer loop max_iter counts its iterations
    capped = worst.outer_tol is None and worst.n_solves >= max_iter
    of_problems = f" in {len(failed)} of {len(solutions)} problems" if len(solutions) > 1 else ""
    warn_user(
        f"{name} stopped after {worst.n_solves} SVM solves at a {what} of "
        f"{worst.distance:.2g}, above tol={worst.tol:.2g}{of_problems}; "
        f"raise {'max_iter or ' if capped else ''}tol, lower C, or scale the data or the kernels",
        ConvergenceWarning,
    )


def warn_unless_settled(name: str, solutions: list[Solution], what: str, remedy: str) -> None:
    """Give one ConvergenceWarning about the outer loops that did not meet their tolerance."""
    failed = [solution for solution in solutions if not solution.settled]
    if not failed:
        return
    worst = max(failed, key=lambda solution: solution.outer_change)
    of_problems = f" in {len(failed)} of {len(solutions)} problems" if len(solutions) > 1 else ""
    warn_user(
        f"{name} stopped after {worst.n_iter} outer iterations at {what} of "
        f"{worst.outer_change:.2g}, above outer_tol={worst.outer_tol:.2g}{of_problems}; {remedy}",
        ConvergenceWarning,
    )
