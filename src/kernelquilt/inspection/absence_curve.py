"""Accuracy against the share of absent views."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kernelquilt._typing import Floats
from kernelquilt.inspection.style import line_style


class AbsenceCurveDisplay:
    """Scores of methods against the share of absent views.

    Parameters
    ----------
    ratios : array-like of shape (n_ratios,)
        Shares of absent views, from 0 to 1.
    scores : dict of str to pair of array-like of shape (n_ratios,)
        For each method the means and the standard deviations of its score, such as accuracy, as
        fractions. NaN where a method has no score.
    score_name : str, default="test accuracy"
        What the vertical axis shows.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    lines_ : dict of str to matplotlib Line2D
        The line of each method.
    errorbars_ : dict of str to matplotlib ErrorbarContainer
        The same with error bars, one standard deviation up and down.

    Examples
    --------
    >>> from kernelquilt.inspection import AbsenceCurveDisplay
    >>> display = AbsenceCurveDisplay([0, 0.5], {"uniform": ([0.97, 0.88], [0.01, 0.02])})
    >>> display.plot().ax_.get_ylabel()
    'test accuracy (%)'
    """

    def __init__(
        self,
        ratios: ArrayLike,
        scores: Mapping[str, tuple[ArrayLike, ArrayLike]],
        *,
        score_name: str = "test accuracy",
    ) -> None:
        self.ratios: Floats = np.asarray(ratios, dtype=np.float64)
        self.scores = scores
        self.score_name = score_name

    def plot(self, ax: Any = None) -> "AbsenceCurveDisplay":
        """Draw the curves.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; by default in a new figure.

        Returns
        -------
        display : AbsenceCurveDisplay
            The display itself, with what was drawn.
        """
        if ax is None:
            ax = _new_axes()
        self.errorbars_: dict[str, Any] = {}
        self.lines_: dict[str, Any] = {}
        for position, (name, (mean, std)) in enumerate(self.scores.items()):
            self.errorbars_[name] = ax.errorbar(
                100 * self.ratios,
                100 * np.asarray(mean, dtype=np.float64),
                yerr=100 * np.asarray(std, dtype=np.float64),
                markersize=6,
                linewidth=1.8,
                elinewidth=1.2,
                capsize=3.5,
                label=name,
                **line_style(position),
            )
            self.lines_[name] = self.errorbars_[name].lines[0]
        ax.set_xlabel("absent views (% of all views of all samples)")
        ax.set_ylabel(f"{self.score_name} (%)")
        ax.grid(alpha=0.3)
        ax.spines[["top", "right"]].set_visible(False)
        ax.legend(frameon=False)
        self.ax_, self.figure_ = ax, ax.figure
        return self


def _new_axes() -> Any:
    try:
        import matplotlib.pyplot as plt
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            'figures need matplotlib: pip install "kernelquilt[plot]"'
        ) from error
    return plt.subplots(layout="constrained")[1]
