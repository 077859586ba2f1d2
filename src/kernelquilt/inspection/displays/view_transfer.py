"""Which view predicts which."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from kernelquilt._typing import Floats
from kernelquilt.inspection.displays.kernel_stack import annotate
from kernelquilt.inspection.style import ABSENT, axes_for, label


class ViewTransferDisplay:
    """How much of each view is explained by each other view alone, leaving samples out.

    Parameters
    ----------
    view_names : sequence of M str
        Names of the views or kernels.
    transfer : array-like of shape (M, M)
        In row p and column l the share of view p that view l explains; nan if it cannot be told.

    Attributes
    ----------
    transfer : ndarray of shape (M, M)
        What is drawn, without the diagonal.
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    image_ : matplotlib AxesImage

    Examples
    --------
    >>> import kernelquilt as kq
    >>> X, y = kq.datasets.load_example("wdbc")
    >>> model = kq.QuiltClassifier(experts=None).fit(X[:100], y[:100])
    >>> kq.inspection.ViewTransferDisplay.from_estimator(model).transfer.shape
    (3, 3)
    """

    def __init__(self, view_names: Any, transfer: ArrayLike) -> None:
        self.view_names = tuple(view_names)
        self.transfer: Floats = np.array(transfer, dtype=np.float64)
        np.fill_diagonal(self.transfer, np.nan)

    @classmethod
    def from_estimator(cls, model: Any) -> "ViewTransferDisplay":
        """Take what a fitted estimator knows.

        Parameters
        ----------
        model : fitted QuiltClassifier, QuiltRegressor or TransferFill
            `TransferFill` with ``weighting="loo"``.

        Returns
        -------
        display : ViewTransferDisplay
            Not drawn yet.
        """
        check_is_fitted(model)
        if hasattr(model, "view_transfer_"):
            return cls(model.kernel_names_, model.view_transfer_)
        if hasattr(model, "transfer_"):
            return cls(model.training_rows_.names, model.transfer_)
        raise ValueError(
            f"{type(model).__name__} does not tell which view predicts which; the quilt does, and "
            "TransferFill(weighting='loo')"
        )

    @property
    def figsize(self) -> tuple[float, float]:
        """Inches that the figure wants."""
        side = 0.5 * len(self.view_names)
        return 2.6 + side, 1.6 + side

    def plot(self, ax: Any = None) -> "ViewTransferDisplay":
        """Draw what views explain.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; by default in a new figure.

        Returns
        -------
        display : ViewTransferDisplay
            Itself, drawn.
        """
        ax = axes_for(ax, self.figsize)
        M = len(self.view_names)
        names = [label(name) for name in self.view_names]
        ax.set_facecolor(ABSENT)
        self.image_ = ax.imshow(np.maximum(self.transfer, 0.0), cmap="viridis", vmin=0.0, vmax=1.0)
        ax.set_xticks(range(M), names, rotation=45, ha="right")
        ax.set_yticks(range(M), names)
        ax.set(xlabel="by this view", ylabel="share explained of this view")
        if M <= 12:
            annotate(ax, self.transfer, 0.6)
        ax.figure.colorbar(self.image_, ax=ax, shrink=0.8, label="leave-one-out R²")
        self.ax_, self.figure_ = ax, ax.figure
        return self
