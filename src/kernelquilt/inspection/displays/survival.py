"""What the views of a patient do to a survival curve."""

from typing import Any

import numpy as np

from kernelquilt._typing import Floats
from kernelquilt.inspection.samples import samples_of
from kernelquilt.inspection.style import BEHIND, axes_for, label, line_style, plain


class SurvivalByViewDisplay:
    """The survival curve of one sample with all its views, and without each of them.

    Parameters
    ----------
    curves : dict of str to pair of array-like of shape (n_times,)
        Times and probabilities of survival; the first one is that with all views.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    lines_ : dict of str to matplotlib Line2D

    Examples
    --------
    >>> from kernelquilt.inspection import SurvivalByViewDisplay
    >>> curves = {"all views": ([0, 1, 2], [1, 0.8, 0.5]), "without rna": ([0, 1], [1, 0.7])}
    >>> SurvivalByViewDisplay(curves).plot().ax_.get_xlabel()
    'time'
    """

    def __init__(self, curves: dict[str, tuple[Any, Any]]) -> None:
        self.curves: dict[str, tuple[Floats, Floats]] = {
            name: (np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64))
            for name, (x, y) in curves.items()
        }

    @classmethod
    def from_estimator(cls, model: Any, X: Any, *, sample: int = 0) -> "SurvivalByViewDisplay":
        """Ask a fitted model for the curves of a sample.

        Parameters
        ----------
        model : fitted estimator
            With ``predict_survival_function``, which returns step functions with times ``x`` and
            probabilities ``y``.
        X : MultiView, dict, KernelStack, DataFrame or array of n samples
            Samples, of which one is drawn.
        sample : int, default=0
            Position of the sample.

        Returns
        -------
        display : SurvivalByViewDisplay
            Not drawn yet.
        """
        if not hasattr(model, "predict_survival_function"):
            raise ValueError(f"{type(model).__name__} has no predict_survival_function")
        samples = samples_of(model, X)
        present = samples.observed[sample]
        own = np.flatnonzero(present)
        kept = np.array([present, *(present & (np.arange(len(present)) != p) for p in own)])
        rows = np.full(len(kept), range(len(samples.observed))[sample])
        functions = model.predict_survival_function(samples.subset(rows, kept))
        names = ["all its views", *(f"without {samples.names[p]}" for p in own)]
        return cls({name: (f.x, f.y) for name, f in zip(names, functions, strict=True)})

    @property
    def figsize(self) -> tuple[float, float]:
        """Inches that the figure wants."""
        return 5.6, 3.8

    def plot(self, ax: Any = None) -> "SurvivalByViewDisplay":
        """Draw the curves.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; by default in a new figure.

        Returns
        -------
        display : SurvivalByViewDisplay
            Itself, drawn.
        """
        ax = axes_for(ax, self.figsize)
        self.lines_ = {}
        for position, (name, (times, probabilities)) in enumerate(self.curves.items()):
            # the first one is broad and below, so that it is seen where others coincide with it
            style = {"color": BEHIND, "linewidth": 5.0}
            if position:
                style = line_style(position - 1) | {"linewidth": 1.4, "markersize": 4}
                style["markevery"] = (position, max(1, len(times) // 6))
            (self.lines_[name],) = ax.step(
                times, probabilities, where="post", label=label(name), **style
            )
        ax.set(xlabel="time", ylabel="probability of survival", ylim=(0, 1.02))
        ax.legend(frameon=False, fontsize=8)
        plain(ax)
        self.ax_, self.figure_ = ax, ax.figure
        return self
