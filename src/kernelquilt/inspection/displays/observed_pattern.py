"""Which views the samples have."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kernelquilt._typing import Bools
from kernelquilt.data.columns import ViewColumns
from kernelquilt.data.validation import as_views
from kernelquilt.inspection.pattern_scores import patterns_of
from kernelquilt.inspection.style import ABSENT, BAND, PRESENT, grid_for, rows_of_names


class ObservedPatternDisplay:
    """Patterns of presence: which views samples have, and how many have the same.

    A column is a pattern, with a dark dot for each view that its samples have and a bar for their
    number; the bars on the right are the shares of the samples that have a view.

    Parameters
    ----------
    view_names : sequence of V str
        Names of the views.
    observed : array-like of bool of shape (n, V)
        Which views the samples have.
    max_patterns : int, default=24
        Only the most frequent patterns are drawn.

    Attributes
    ----------
    patterns : ndarray of bool of shape (n_patterns, V)
        All patterns, the most frequent first.
    counts : ndarray of int of shape (n_patterns,)
        How many samples have them.
    shares : ndarray of shape (V,)
        Share of the samples that have a view.
    axes_ : dict of str to matplotlib Axes
        ``"counts"``, ``"matrix"`` and ``"shares"``.
    figure_ : matplotlib Figure

    Examples
    --------
    >>> import kernelquilt as kq
    >>> X, _ = kq.datasets.load_example("wdbc")
    >>> X = kq.datasets.make_absent(X, 0.3, random_state=0)
    >>> kq.inspection.ObservedPatternDisplay.from_views(X).counts.tolist()
    [185, 174, 153, 57]
    """

    def __init__(self, view_names: Any, observed: ArrayLike, *, max_patterns: int = 24) -> None:
        self.view_names = tuple(view_names)
        self.observed: Bools = np.asarray(observed, dtype=np.bool_)
        self.max_patterns = max_patterns
        self.patterns, self.counts = patterns_of(self.observed)[:2]
        self.shares = self.observed.mean(axis=0)

    @classmethod
    def from_views(
        cls, X: Any, views: ViewColumns = None, *, max_patterns: int = 24
    ) -> "ObservedPatternDisplay":
        """Find the patterns of samples.

        Parameters
        ----------
        X : MultiView, KernelStack, dict or 2-D data of n samples
            The samples to look at.
        views : dict of str to columns, "columns" or None, default=None
            The views of 2-D data, as in `as_views`.
        max_patterns : int, default=24
            Only the most frequent patterns are drawn.

        Returns
        -------
        display : ObservedPatternDisplay
            Not drawn yet.
        """
        if not (hasattr(X, "observed") and hasattr(X, "names")):
            X = as_views(X, views, partial_nan="allow")
        return cls(X.names, X.observed, max_patterns=max_patterns)

    @property
    def _size(self) -> tuple[float, float]:
        n_shown = min(len(self.patterns), self.max_patterns)
        return max(2.5, 0.38 * n_shown), max(0.6, 0.28 * len(self.view_names))

    @property
    def figsize(self) -> tuple[float, float]:
        """Inches that the figure wants."""
        width, height = self._size
        return width + 3.6, height + 3.0

    def plot(self, ax: Any = None) -> "ObservedPatternDisplay":
        """Draw the patterns.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Its place is divided into panels; by default that of a new figure.

        Returns
        -------
        display : ObservedPatternDisplay
            Itself, drawn.
        """
        width, height = self._size
        self.figure_, grid = grid_for(
            ax, self.figsize, 2, 2, height_ratios=(2.0, height), width_ratios=(width, 1.6)
        )
        panels = {"counts": grid[0, 0], "matrix": grid[1, 0], "shares": grid[1, 1]}
        self.axes_ = {name: self.figure_.add_subplot(place) for name, place in panels.items()}
        n_shown = min(len(self.patterns), self.max_patterns)
        self._draw_counts(self.axes_["counts"], n_shown)
        self._draw_matrix(self.axes_["matrix"], n_shown)
        self._draw_shares(self.axes_["shares"])
        return self

    def _draw_counts(self, ax: Any, n_shown: int) -> None:
        heights = self.counts[:n_shown]
        bars = ax.bar(range(n_shown), heights, color=PRESENT, width=0.7)
        ax.bar_label(bars, fontsize=8, padding=1)
        ax.set_ylabel("samples")
        ax.set_ylim(0, 1.12 * max(heights))
        ax.set_xlim(-0.6, n_shown - 0.4)
        ax.spines[["top", "right"]].set_visible(False)
        ax.tick_params(bottom=False, labelbottom=False)

    def _draw_matrix(self, ax: Any, n_shown: int) -> None:
        present = self.patterns[:n_shown].T
        for row in range(0, len(present), 2):
            ax.axhspan(row - 0.5, row + 0.5, color=BAND, zorder=0)
        for column, has in enumerate(present.T):
            rows = np.flatnonzero(has)
            if len(rows) > 1:
                ax.plot([column, column], rows[[0, -1]], color=PRESENT, linewidth=1.5, zorder=2)
        for has, colour in ((False, ABSENT), (True, PRESENT)):
            rows, columns = np.nonzero(present == has)
            ax.scatter(columns, rows, s=50, color=colour, zorder=3)
        rows_of_names(ax, self.view_names)
        ax.set_ylim(len(present) - 0.5, -0.5)
        ax.set_xlim(-0.6, n_shown - 0.4)
        ax.tick_params(length=0, labelbottom=False)
        ax.spines[:].set_visible(False)
        text = "patterns"
        if n_shown < len(self.patterns):
            text = (
                f"the {n_shown} most frequent of {len(self.patterns)} patterns,\n"
                f"{self.counts[:n_shown].sum()} of {len(self.observed)} samples"
            )
        ax.set_xlabel(text)

    def _draw_shares(self, ax: Any) -> None:
        bars = ax.barh(range(len(self.shares)), 100 * self.shares, color=PRESENT, height=0.55)
        ax.bar_label(bars, fmt="%.0f %%", fontsize=8, padding=2)
        ax.set_xlim(0, 135)
        ax.set_ylim(len(self.shares) - 0.5, -0.5)
        ax.set_xticks([])
        ax.set_yticks([])
        ax.set_xlabel("samples with view")
        ax.spines[["top", "right", "bottom"]].set_visible(False)
