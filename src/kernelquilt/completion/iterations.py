"""What completers share that iterate: their steps, what is told of them, and when to stop."""

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval

from kernelquilt._messages import print_progress, warn_user


@dataclass(frozen=True)
class CompletionStep:
    """One iteration of a completion.

    Attributes
    ----------
    objective : float
        What the method optimises.
    distance : float
        What is compared with `tol`.
    """

    objective: float
    distance: float


OnStep = Callable[[int, CompletionStep], None] | None


class History(list[CompletionStep]):
    """The iterations of a solver, each told to `on_step` with its number."""

    def __init__(self, on_step: OnStep) -> None:
        super().__init__()
        self._on_step = on_step

    def record(self, objective: float, distance: float) -> None:
        """Add an iteration."""
        self.append(CompletionStep(objective, distance))
        if self._on_step is not None:
            self._on_step(len(self), self[-1])


@dataclass(frozen=True)
class Iterations:
    """How a completer with `tol`, `max_iter` and `verbose` iterates.

    Attributes
    ----------
    distance : str
        What is compared with `tol`, for messages.
    remedy : str
        What to do if it is not met.
    """

    distance: str
    remedy: str = "raise max_iter or tol"

    constraints: ClassVar[dict[str, Any]] = {
        "tol": [Interval(Real, 0, np.inf, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "verbose": ["verbose"],
    }

    def options(self, completer: Any) -> dict[str, Any]:
        """Return the arguments `tol`, `max_iter` and `on_step` of a solver."""
        name = type(completer).__name__

        def report(number: int, step: CompletionStep) -> None:
            print_progress(
                name, f"iteration {number}", step.objective, self.distance, step.distance
            )

        return {
            "tol": completer.tol,
            "max_iter": completer.max_iter,
            "on_step": report if completer.verbose else None,
        }

    def store(self, completer: Any, history: tuple[CompletionStep, ...]) -> None:
        """Keep the iterations, and warn if the last one does not meet `tol`."""
        last = history[-1].distance
        completer.history_ = history
        completer.n_iter_ = len(history)
        completer.converged_ = bool(last <= completer.tol)
        if not completer.converged_:
            warn_user(
                f"{type(completer).__name__} stopped after {len(history)} iterations at a "
                f"{self.distance} of {last:.2g}, above tol={completer.tol:.2g}; {self.remedy}",
                ConvergenceWarning,
            )
