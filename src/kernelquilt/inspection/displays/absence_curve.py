"""Accuracy against the share of absent views."""

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kernelquilt._typing import Floats
from kernelquilt.data.views import MultiView
from kernelquilt.datasets import make_absent
from kernelquilt.inspection.samples import samples_of
from kernelquilt.inspection.scoring import name_of, scores_of
from kernelquilt.inspection.style import axes_for, label, line_style, plain


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

    @classmethod
    def from_estimator(
        cls,
        model: Any,
        X: Any,
        y: Any,
        *,
        ratios: ArrayLike = (0.0, 0.2, 0.4, 0.6, 0.8),
        n_repeats: int = 5,
        scoring: Any = None,
        random_state: int = 0,
    ) -> "AbsenceCurveDisplay":
        """Score fitted models on samples of which more and more views are left out.

        Parameters
        ----------
        model : fitted estimator, or dict of str to fitted estimators
            Models that take absent views, by the name of their line.
        X : MultiView, dict, KernelStack, DataFrame or array of n samples
            Samples that the models have not seen.
        y : array-like of shape (n,)
            Their labels or targets.
        ratios : array-like of shape (n_ratios,), default=(0.0, 0.2, 0.4, 0.6, 0.8)
            Shares of the views that are left out of those that samples have.
        n_repeats : int, default=5
            How often views are drawn.
        scoring : str, callable or None, default=None
            As in scikit-learn.
        random_state : int, default=0
            Seed of the draws.

        Returns
        -------
        display : AbsenceCurveDisplay
            Not drawn yet. The shares are those of all views of all samples that are absent, and
            standard deviations those over draws, by which samples and models do not differ.
        """
        models = model if isinstance(model, Mapping) else {type(model).__name__: model}
        y, given = np.asarray(y), np.ravel(ratios)
        shares = np.zeros((len(given), n_repeats))
        found = {name: np.zeros((len(given), n_repeats)) for name in models}
        for name, each in models.items():
            samples = samples_of(each, X)
            views = MultiView(
                {view: np.ones((len(y), 1)) for view in samples.names}, samples.observed
            )
            for k, r in np.ndindex(shares.shape):
                seed = random_state + 1000 * r + k
                with warnings.catch_warnings():
                    # the axis has what was reached
                    warnings.simplefilter("ignore", UserWarning)
                    left = make_absent(views, float(given[k]), random_state=seed).observed
                shares[k, r] = 1.0 - left.mean()
                score = scores_of(each, samples, y, left, scoring)
                found[name][k, r] = score(np.arange(len(y)))
        first = next(iter(models.values()))
        scores = {name: (all_.mean(axis=1), all_.std(axis=1)) for name, all_ in found.items()}
        return cls(shares.mean(axis=1), scores, score_name=f"test {name_of(first, scoring)}")

    @property
    def figsize(self) -> tuple[float, float]:
        """Inches that the figure wants."""
        return 6.4, 4.4

    def plot(self, ax: Any = None) -> "AbsenceCurveDisplay":
        """Draw the curves.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; by default in a new figure.

        Returns
        -------
        display : AbsenceCurveDisplay
            Itself, drawn.
        """
        ax = axes_for(ax, self.figsize)
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
                label=label(name),
                **line_style(position),
            )
            self.lines_[name] = self.errorbars_[name].lines[0]
        ax.set_xlabel("absent views (% of all views of all samples)")
        ax.set_ylabel(f"{self.score_name} (%)")
        plain(ax)
        ax.legend(frameon=False)
        self.ax_, self.figure_ = ax, ax.figure
        return self
