"""How a solver came to its solution."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from kernelquilt.core.weights.solution import TINY, Step
from kernelquilt.inspection.style import COLOURS, RULE, grid_for, label, line_style, plain

AXES = {"solves": "SVM solves", "seconds": "seconds since the first step"}


class ConvergenceDisplay:
    """Objective, bound and relative gap of a solver, step by step.

    Parameters
    ----------
    histories : dict of str to sequence of Step
        The steps of each problem or method.
    against : {"solves", "seconds"}, default="solves"
        What the horizontal axis is.
    tol : float or None, default=None
        The relative gap that was asked for, drawn as a line.

    Attributes
    ----------
    axes_ : tuple of two matplotlib Axes
        Objective and bound, and the relative gap.
    figure_ : matplotlib Figure
    lines_ : dict of str to tuple of three matplotlib Line2D
        Objective, bound and gap of each history.

    Examples
    --------
    >>> import kernelquilt as kq
    >>> X, y = kq.datasets.load_example("wdbc")
    >>> model = kq.SimpleMKLClassifier(tol=1e-6).fit(X, y)
    >>> display = kq.inspection.ConvergenceDisplay.from_estimator(model)
    >>> display.plot().axes_[1].get_yscale()
    'log'
    """

    def __init__(
        self,
        histories: Mapping[str, Sequence[Step]],
        *,
        against: str = "solves",
        tol: float | None = None,
    ) -> None:
        if against not in AXES:
            raise ValueError(f"against must be one of {tuple(AXES)}, got {against!r}")
        self.histories = histories
        self.against = against
        self.tol = tol

    @classmethod
    def from_estimator(cls, model: Any, *, against: str = "solves") -> "ConvergenceDisplay":
        """Take the steps of a fitted estimator.

        Parameters
        ----------
        model : fitted estimator of `kernelquilt.mkl`
            The model to look at.
        against : {"solves", "seconds"}, default="solves"
            What the horizontal axis is.

        Returns
        -------
        display : ConvergenceDisplay
            Not drawn yet.
        """
        check_is_fitted(model)
        histories = getattr(model, "history_", None)
        if not histories or not all(isinstance(each, Step) for own in histories for each in own):
            raise ValueError(f"{type(model).__name__} keeps no steps with objective and gap")
        names = ["problem"] if len(histories) == 1 else [f"{k}" for k in range(len(histories))]
        if len(histories) == len(getattr(model, "classes_", ())):
            names = [str(each) for each in model.classes_]
        own = {name: tuple(each) for name, each in zip(names, histories, strict=True)}
        return cls(own, against=against, tol=getattr(model, "tol", None))

    @property
    def figsize(self) -> tuple[float, float]:
        """Inches that the figure wants."""
        return 7.4, 3.2

    def plot(self, ax: Any = None) -> "ConvergenceDisplay":
        """Draw the steps.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Its place is divided into panels; by default that of a new figure.

        Returns
        -------
        display : ConvergenceDisplay
            Itself, drawn.
        """
        self.figure_, grid = grid_for(ax, self.figsize, 1, 2)
        left, right = (self.figure_.add_subplot(grid[0, k]) for k in range(2))
        self.lines_ = {}
        for position, (name, steps) in enumerate(self.histories.items()):
            style = line_style(position)
            objective = np.array([step.objective for step in steps])
            gap = np.array([step.gap for step in steps])
            x = self._places(steps)
            # the two meet in the end: a broad line and a thin one on it
            (upper,) = left.plot(x, objective, **style | {"linewidth": 3.2, "alpha": 0.45})
            (lower,) = left.plot(
                x, objective - gap, **style | {"linestyle": "--", "markerfacecolor": "white"}
            )
            relative = np.maximum(gap / np.maximum(np.abs(objective), TINY), 1e-16)
            (gaps,) = right.plot(x, relative, label=label(name), **style)
            self.lines_[name] = upper, lower, gaps
        left.plot([], [], color=COLOURS[3], linewidth=3.2, alpha=0.45, label="objective")
        left.plot([], [], color=COLOURS[3], linestyle="--", label="lower bound")
        left.legend(frameon=False)
        right.set_yscale("log")
        if self.tol is not None:
            right.axhline(self.tol, color=RULE, linewidth=1, linestyle=":")
        if len(self.histories) > 1:
            right.legend(frameon=False, fontsize=8)
        left.set_ylabel("objective")
        right.set_ylabel("relative gap")
        for panel in (left, right):
            panel.set_xlabel(AXES[self.against])
            plain(panel)
        self.axes_ = left, right
        return self

    def _places(self, steps: Sequence[Step]) -> Any:
        if self.against == "solves":
            return np.array([step.n_solves for step in steps])
        clock = np.array([step.clock for step in steps])
        return clock - clock[:1]
