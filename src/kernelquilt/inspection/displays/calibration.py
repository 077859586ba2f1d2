"""How far probabilities can be trusted, by which views samples have."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from kernelquilt._typing import Bools, Floats, Indices
from kernelquilt.data.validation import check_alignment
from kernelquilt.inspection.pattern_scores import pattern_name
from kernelquilt.inspection.samples import samples_of
from kernelquilt.inspection.style import RULE, axes_for, label, line_style, plain


@dataclass(frozen=True, eq=False)
class Calibration:
    """Probabilities of predicted classes, and how often these are right, in groups of equal size.

    Attributes
    ----------
    probability : ndarray of shape (n_bins,)
        Mean probability of the predicted class.
    right : ndarray of shape (n_bins,)
        Share of the samples whose class it is.
    counts : ndarray of int of shape (n_bins,)
        Samples in each group.
    """

    probability: Floats
    right: Floats
    counts: Indices

    @property
    def error(self) -> float:
        """Expected calibration error: the mean distance of the two, over samples."""
        away = np.abs(self.probability - self.right)
        return float(np.average(away, weights=self.counts))


class CalibrationByPatternDisplay:
    """Calibration of a classifier for samples with the same number of views, or the same views.

    Parameters
    ----------
    curves : dict of str to Calibration
        For each group of samples.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    lines_ : dict of str to matplotlib Line2D

    Examples
    --------
    >>> import kernelquilt as kq
    >>> X, y = kq.datasets.load_example("wdbc")
    >>> X = kq.datasets.make_absent(X, 0.4, random_state=0)
    >>> model = kq.LateFusionClassifier().fit(X[:200], y[:200])
    >>> display = kq.inspection.CalibrationByPatternDisplay.from_estimator(model, X[200:], y[200:])
    >>> sorted(display.curves)
    ['1 view', '2 views']
    """

    def __init__(self, curves: dict[str, Calibration]) -> None:
        self.curves = curves

    @classmethod
    def from_estimator(
        cls,
        model: Any,
        X: Any,
        y: Any,
        *,
        by: str = "n_views",
        n_bins: int = 5,
        min_samples: int = 30,
    ) -> "CalibrationByPatternDisplay":
        """Compute how far the probabilities of a classifier can be trusted.

        Parameters
        ----------
        model : fitted classifier with probabilities
            The model to look at.
        X : MultiView, dict, KernelStack, DataFrame or array of n samples
            Samples that the model has not seen.
        y : array-like of shape (n,)
            Their labels.
        by : {"n_views", "pattern"}, default="n_views"
            Whether samples with as many views make a group, or those with the same views.
        n_bins : int, default=5
            Points of a curve; samples are sorted by probability and divided evenly.
        min_samples : int, default=30
            Groups with fewer samples are joined, as "others".

        Returns
        -------
        display : CalibrationByPatternDisplay
            Not drawn yet.
        """
        if by not in ("n_views", "pattern"):
            raise ValueError(f"by must be 'n_views' or 'pattern', got {by!r}")
        if not (is_classifier(model) and hasattr(model, "predict_proba")):
            raise ValueError(f"{type(model).__name__} has no probabilities")
        check_alignment(X, y, "y")
        samples, y = samples_of(model, X), np.asarray(y)
        proba = model.predict_proba(samples.data)
        top, right = proba.max(axis=1), model.classes_[proba.argmax(axis=1)] == y
        curves, rest = {}, np.zeros(len(y), dtype=np.bool_)
        for name, members in _groups(samples.names, samples.observed, by):
            if members.sum() < min_samples:
                rest |= members
            else:
                curves[name] = _calibration(top[members], right[members], n_bins)
        if rest.any():
            curves["others"] = _calibration(top[rest], right[rest], n_bins)
        return cls(curves)

    @property
    def figsize(self) -> tuple[float, float]:
        """Inches that the figure wants."""
        return 5.2, 4.2

    def plot(self, ax: Any = None) -> "CalibrationByPatternDisplay":
        """Draw the curves.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; by default in a new figure.

        Returns
        -------
        display : CalibrationByPatternDisplay
            Itself, drawn.
        """
        ax = axes_for(ax, self.figsize)
        lowest = min((float(c.probability.min()) for c in self.curves.values()), default=0.0)
        low = min([lowest, *(float(c.right.min()) for c in self.curves.values())])
        ax.plot([low, 1], [low, 1], color=RULE, linewidth=1, zorder=1)
        self.lines_ = {}
        for position, (name, curve) in enumerate(self.curves.items()):
            text = f"{label(name)}, n = {curve.counts.sum()}, error {curve.error:.3f}"
            (self.lines_[name],) = ax.plot(
                curve.probability, curve.right, label=text, markersize=6, **line_style(position)
            )
        ax.set(xlabel="probability of the predicted class", ylabel="share right")
        ax.legend(frameon=False, fontsize=8)
        plain(ax)
        self.ax_, self.figure_ = ax, ax.figure
        return self


def _groups(names: tuple[str, ...], observed: Bools, by: str) -> Any:
    """Yield a name and a mask (n,) for each group, the most complete first."""
    if by == "n_views":
        numbers = observed.sum(axis=1)
        for number in np.unique(numbers)[::-1]:
            yield f"{number} view{'' if number == 1 else 's'}", numbers == number
        return
    patterns = np.unique(observed, axis=0)
    for pattern in patterns[np.argsort(-patterns.sum(axis=1), kind="stable")]:
        yield pattern_name(names, pattern), (observed == pattern).all(axis=1)


def _calibration(top: Floats, right: Bools, n_bins: int) -> Calibration:
    parts = np.array_split(np.argsort(top, kind="stable"), min(n_bins, len(top)))
    return Calibration(
        np.array([top[part].mean() for part in parts]),
        np.array([right[part].mean() for part in parts]),
        np.array([len(part) for part in parts]),
    )
