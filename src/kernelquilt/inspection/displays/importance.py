"""How far a score falls without views."""

from typing import Any

import numpy as np

from kernelquilt.inspection.importance import ViewImportance, view_importance
from kernelquilt.inspection.style import COLOURS, RULE, grid_for, literal, plain, rows_of_names


class ViewImportanceDisplay:
    """Importance of views: how far the score falls without each, and how good each is alone.

    Bars are one standard error up and down. On the right the lines are the scores with all views
    (solid) and without any (dashed).

    Parameters
    ----------
    importance : ViewImportance
        From `view_importance`.

    Attributes
    ----------
    order : ndarray of int of shape (V,)
        Views from top to bottom, by `drop`.
    axes_ : tuple of two matplotlib Axes
        Without the view, and with the view alone.
    figure_ : matplotlib Figure
    errorbars_ : tuple of two matplotlib ErrorbarContainer

    Examples
    --------
    >>> import kernelquilt as kq
    >>> X, y = kq.datasets.load_example("wdbc")
    >>> model = kq.LateFusionClassifier().fit(X[:200], y[:200])
    >>> display = kq.inspection.ViewImportanceDisplay.from_estimator(model, X[200:], y[200:])
    >>> display.plot().axes_[0].get_xlabel()
    'fall of accuracy without it'
    """

    def __init__(self, importance: ViewImportance) -> None:
        self.importance = importance
        self.order = np.argsort(-importance.drop, kind="stable")

    @classmethod
    def from_estimator(cls, model: Any, X: Any, y: Any, **options: Any) -> "ViewImportanceDisplay":
        """Compute the importance of views.

        Parameters
        ----------
        model : estimator
            As in `view_importance`.
        X : MultiView, dict, KernelStack, DataFrame or array of n samples
            Samples to score.
        y : array-like of shape (n,)
            Their labels or targets.
        **options : dict
            Of `view_importance`, such as ``scoring`` and ``cv``.

        Returns
        -------
        display : ViewImportanceDisplay
            Not drawn yet.
        """
        return cls(view_importance(model, X, y, **options))

    @property
    def figsize(self) -> tuple[float, float]:
        """Inches that the figure wants."""
        return 7.0, 1.2 + 0.34 * len(self.order)

    def plot(self, ax: Any = None) -> "ViewImportanceDisplay":
        """Draw the importance.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Its place is divided into panels; by default that of a new figure.

        Returns
        -------
        display : ViewImportanceDisplay
            Itself, drawn.
        """
        self.figure_, grid = grid_for(ax, self.figsize, 1, 2)
        left = self.figure_.add_subplot(grid[0, 0])
        right = self.figure_.add_subplot(grid[0, 1], sharey=left)
        known, heights = self.importance, np.arange(len(self.order))
        left.axvline(0, color=RULE, linewidth=1)
        right.axvline(known.score, color=RULE, linewidth=1.2)
        right.axvline(known.score_without_views, color=RULE, linewidth=1.2, linestyle="--")
        tops = (known.score, "all", "right"), (known.score_without_views, "none", "left")
        for x, text, side in tops:
            place = right.get_xaxis_transform()
            right.text(x, 1.01, text, transform=place, ha=side, va="bottom", fontsize=8)
        style = {"linestyle": "", "capsize": 3, "markersize": 6}
        drop, alone = known.drop[self.order], (known.score - known.drop_others)[self.order]
        errors = known.drop_errors[self.order], known.drop_others_errors[self.order]
        self.errorbars_ = (
            left.errorbar(drop, heights, xerr=errors[0], fmt="o", color=COLOURS[0], **style),
            right.errorbar(alone, heights, xerr=errors[1], fmt="s", color=COLOURS[1], **style),
        )
        rows_of_names(left, [known.view_names[p] for p in self.order])
        right.tick_params(axis="y", labelleft=False, length=0)
        left.set_xlabel(literal(f"fall of {known.what} without it"))
        right.set_xlabel(literal(f"{known.what} with it alone"))
        for panel in (left, right):
            plain(panel, grid="x")
        self.axes_ = left, right
        return self
