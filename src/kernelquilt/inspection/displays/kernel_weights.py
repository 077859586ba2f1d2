"""Weights of kernels."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from kernelquilt._typing import Floats
from kernelquilt.inspection.style import COLOURS, axes_for, plain, rows_of_names


class KernelWeightsDisplay:
    """Kernel weights as bars, with a dot for each fit or class that they are the mean of.

    Weights tell what a model does with kernels as they are scaled, not what views are worth: see
    `view_importance`.

    Parameters
    ----------
    kernel_names : sequence of M str
        Names of the kernels.
    weights : array-like of shape (n_fits, M) or (M,)
        Kernel weights of one fit or class in each row.

    Attributes
    ----------
    weights : ndarray of shape (n_fits, M)
        Kernel weights.
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    bars_ : matplotlib BarContainer
        Of the means.
    dots_ : matplotlib Line2D or None
        Of the fits, if there are several.

    Examples
    --------
    >>> import kernelquilt as kq
    >>> from sklearn.model_selection import cross_validate
    >>> X, y = kq.datasets.load_example("wdbc")
    >>> model = kq.SimpleMKLClassifier()
    >>> fits = cross_validate(model, X, y, return_estimator=True)["estimator"]
    >>> kq.inspection.KernelWeightsDisplay.from_estimator(fits).weights.shape
    (5, 3)
    """

    def __init__(self, kernel_names: Any, weights: ArrayLike) -> None:
        self.kernel_names = tuple(kernel_names)
        self.weights: Floats = np.atleast_2d(np.asarray(weights, dtype=np.float64))

    @classmethod
    def from_estimator(cls, model: Any) -> "KernelWeightsDisplay":
        """Take the kernel weights of fitted estimators.

        Parameters
        ----------
        model : fitted estimator, or list of these
            A list has the fits of one model to several folds, such as those of
            ``cross_validate(..., return_estimator=True)``.

        Returns
        -------
        display : KernelWeightsDisplay
            Not drawn yet.
        """
        fits = [_last(each) for each in (model if isinstance(model, Sequence) else [model])]
        names = fits[0].kernel_names_
        for each in fits:
            if each.kernel_names_ != names:
                raise ValueError(
                    f"fits have different kernels, {names} and {each.kernel_names_}; draw those "
                    "of one model"
                )
        return cls(names, np.vstack([_weights(each) for each in fits]))

    @property
    def figsize(self) -> tuple[float, float]:
        """Inches that the figure wants."""
        return 5.0, 1.0 + 0.3 * len(self.kernel_names)

    def plot(self, ax: Any = None) -> "KernelWeightsDisplay":
        """Draw the weights.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; by default in a new figure.

        Returns
        -------
        display : KernelWeightsDisplay
            Itself, drawn.
        """
        ax = axes_for(ax, self.figsize)
        heights = np.arange(len(self.kernel_names))
        self.bars_ = ax.barh(heights, self.weights.mean(axis=0), color=COLOURS[0], height=0.6)
        self.dots_ = None
        if len(self.weights) > 1:
            places = np.tile(heights, (len(self.weights), 1))
            (self.dots_,) = ax.plot(
                self.weights.ravel(),
                places.ravel(),
                "o",
                color=COLOURS[5],
                markeredgecolor="black",
                markersize=4.5,
                markeredgewidth=0.6,
                clip_on=False,
            )
        rows_of_names(ax, self.kernel_names)
        ax.set_xlabel("kernel weight")
        plain(ax, grid="x")
        self.ax_, self.figure_ = ax, ax.figure
        return self


def _last(model: Any) -> Any:
    """Return the estimator with the weights of a search or pipeline."""
    check_is_fitted(model)
    if hasattr(model, "best_estimator_"):
        return _last(model.best_estimator_)
    return _last(model.steps[-1][1]) if hasattr(model, "steps") else model


def _weights(model: Any) -> Floats:
    for name in ("weights_", "kernel_weights_"):
        if hasattr(model, name) and hasattr(model, "kernel_names_"):
            return np.atleast_2d(getattr(model, name))
    raise ValueError(f"{type(model).__name__} has no kernel weights")
