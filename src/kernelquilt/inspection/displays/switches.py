"""Which kernels are switched on for which training samples."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from kernelquilt._typing import Array, Bools
from kernelquilt.inspection.style import PRESENT, grid_for, plain, rows_of_names


class SwitchDisplay:
    """The switches of sample-adaptive MKL: a row for each kernel, a column for each sample.

    Blue where a kernel is on; the bars are the shares of the samples for which it is.

    Parameters
    ----------
    kernel_names : sequence of M str
        Names of the kernels.
    switches : array-like of bool of shape (n, M)
        True where a kernel is on for a sample.
    y : array-like of shape (n,), default=None
        Classes to sort samples by.

    Attributes
    ----------
    order : ndarray of int of shape (n,)
        Samples from left to right: by class, and by their switches within.
    shares : ndarray of shape (M,)
        Share of the samples for which a kernel is on.
    axes_ : tuple of two matplotlib Axes
        The image and the bars.
    figure_ : matplotlib Figure
    image_ : matplotlib AxesImage

    Examples
    --------
    >>> import kernelquilt as kq
    >>> X, y = kq.datasets.load_example("wdbc")
    >>> model = kq.mkl.SampleAdaptiveMKLClassifier(m0=1).fit(X, y)
    >>> display = kq.inspection.SwitchDisplay.from_estimator(model, y)
    >>> display.shares.shape
    (3,)
    """

    def __init__(self, kernel_names: Any, switches: ArrayLike, y: ArrayLike | None = None) -> None:
        self.kernel_names = tuple(kernel_names)
        self.switches: Bools = np.asarray(switches, dtype=np.bool_)
        self.y: Array = np.zeros(len(self.switches)) if y is None else np.asarray(y)
        if len(self.y) != len(self.switches):
            raise ValueError(
                f"there are switches of {len(self.switches)} samples, but {len(self.y)} labels"
            )
        self.order = np.lexsort((*~self.switches.T[::-1], self.y))
        self.shares = self.switches.mean(axis=0)

    @classmethod
    def from_estimator(
        cls, model: Any, y: ArrayLike | None = None, *, problem: int = 0
    ) -> "SwitchDisplay":
        """Take the switches of a fitted `SampleAdaptiveMKLClassifier`.

        Parameters
        ----------
        model : fitted SampleAdaptiveMKLClassifier
            The model to look at.
        y : array-like of shape (n,), default=None
            Labels of the training samples, to sort them by.
        problem : int, default=0
            Which one, if there are several classes.

        Returns
        -------
        display : SwitchDisplay
            Not drawn yet.
        """
        check_is_fitted(model)
        if not hasattr(model, "switches_"):
            raise ValueError(
                f"{type(model).__name__} has no switches; SampleAdaptiveMKLClassifier has"
            )
        switches = model.switches_
        if switches.ndim == 3:
            switches = switches[problem]
        return cls(model.kernel_names_, switches, y)

    @property
    def figsize(self) -> tuple[float, float]:
        """Inches that the figure wants."""
        return 7.0, 1.2 + 0.26 * len(self.kernel_names)

    def plot(self, ax: Any = None) -> "SwitchDisplay":
        """Draw the switches.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Its place is divided into panels; by default that of a new figure.

        Returns
        -------
        display : SwitchDisplay
            Itself, drawn.
        """
        from matplotlib.colors import ListedColormap

        self.figure_, grid = grid_for(ax, self.figsize, 1, 2, width_ratios=(4.0, 1.0))
        left, right = (self.figure_.add_subplot(grid[0, k]) for k in range(2))
        self.image_ = left.imshow(
            self.switches[self.order].T,
            cmap=ListedColormap(["white", PRESENT]),
            aspect="auto",
            interpolation="nearest",
            vmin=0,
            vmax=1,
        )
        rows_of_names(left, self.kernel_names)
        left.set_ylim(len(self.kernel_names) - 0.5, -0.5)
        classes, starts = np.unique(self.y[self.order], return_index=True)
        if len(classes) > 1:
            for start in starts[1:]:
                left.axvline(start - 0.5, color="black", linewidth=1.2)
            middle = (starts + np.append(starts[1:], len(self.y))) / 2
            left.set_xticks(middle, [str(each) for each in classes])
            left.tick_params(axis="x", length=0)
        left.set_xlabel("training samples" + (" by class" if len(classes) > 1 else ""))
        right.barh(range(len(self.shares)), 100 * self.shares, color=PRESENT, height=0.6)
        right.set(xlim=(0, 100), ylim=left.get_ylim(), yticks=[], xlabel="on (%)")
        plain(right, grid="x")
        self.axes_ = left, right
        return self
