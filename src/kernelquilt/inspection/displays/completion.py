"""A kernel with holes, completed."""

from typing import Any

import numpy as np
from sklearn.base import clone

from kernelquilt._typing import Bools, Floats
from kernelquilt.data.stack import KernelStack
from kernelquilt.inspection.style import ABSENT, grid_for, label


class CompletionDisplay:
    """A kernel as it is, with samples hidden, completed, and what the completion missed.

    Parameters
    ----------
    true : ndarray of shape (n, n)
        The kernel.
    completed : ndarray of shape (n, n)
        What a completer made of it when samples were hidden.
    observed : ndarray of bool of shape (n,)
        The samples that were not hidden.
    name : str, default=""
        Of the kernel.

    Attributes
    ----------
    relative_error : float
        Frobenius norm of the error over that of the kernel, both on the hidden entries.
    axes_ : tuple of four matplotlib Axes
        True, hidden, completed, error.
    figure_ : matplotlib Figure
    images_ : tuple of four matplotlib AxesImage

    Examples
    --------
    >>> import kernelquilt as kq
    >>> X, _ = kq.datasets.load_example("wdbc")
    >>> stack = kq.ViewKernels().fit_transform(X[:60])
    >>> holes = kq.datasets.make_absent(stack, 0.3, random_state=0)
    >>> display = kq.inspection.CompletionDisplay.from_estimator(
    ...     kq.TransferFill(), stack, holes.observed, kernel="mean"
    ... )
    >>> display.relative_error < 0.5
    True
    """

    def __init__(self, true: Floats, completed: Floats, observed: Bools, *, name: str = "") -> None:
        self.true = np.asarray(true, dtype=np.float64)
        self.completed = np.asarray(completed, dtype=np.float64)
        self.observed: Bools = np.asarray(observed, dtype=np.bool_)
        self.name = name
        self.error = np.abs(self.completed - self.true)
        hidden = ~np.outer(self.observed, self.observed)
        size = np.linalg.norm(self.true[hidden]) if hidden.any() else 0.0
        self.relative_error = float(np.linalg.norm(self.error[hidden]) / size) if size else 0.0

    @classmethod
    def from_estimator(
        cls, completer: Any, stack: KernelStack, observed: Any, *, kernel: int | str = 0
    ) -> "CompletionDisplay":
        """Hide samples of a stack and complete it.

        Parameters
        ----------
        completer : completer
            A copy is fitted.
        stack : KernelStack of n samples
            The kernels as they are.
        observed : array-like of bool of shape (n, M)
            What stays; only samples that the kernel has are drawn.
        kernel : int or str, default=0
            Position or name of the kernel that is drawn.

        Returns
        -------
        display : CompletionDisplay
            Not drawn yet.
        """
        mask = np.asarray(observed, dtype=np.bool_) & stack.observed
        completed = clone(completer).fit_transform(stack._with_observed(mask))
        one = stack.select([kernel])
        m = stack.names.index(one.names[0])
        known = np.flatnonzero(stack.observed[:, m])
        part = np.ix_(known, known)
        return cls(
            one.gram()[0][part],
            completed.select([kernel]).gram()[0][part],
            mask[known, m],
            name=one.names[0],
        )

    @property
    def figsize(self) -> tuple[float, float]:
        """Inches that the figure wants."""
        return 9.6, 2.9

    def plot(self, ax: Any = None) -> "CompletionDisplay":
        """Draw the kernel and its completion, hidden samples last.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Its place is divided into panels; by default that of a new figure.

        Returns
        -------
        display : CompletionDisplay
            Itself, drawn.
        """
        from matplotlib import colormaps

        self.figure_, grid = grid_for(ax, self.figsize, 1, 4)
        axes = [self.figure_.add_subplot(grid[0, k]) for k in range(4)]
        order = np.argsort(~self.observed, kind="stable")
        part, n_left = np.ix_(order, order), int(self.observed.sum())
        true, completed, error = self.true[part], self.completed[part], self.error[part]
        hidden = true.copy()
        hidden[n_left:] = hidden[:, n_left:] = np.nan
        colours = colormaps["viridis"].copy()
        colours.set_bad(ABSENT)
        low, high = float(self.true.min()), float(self.true.max())
        images = []
        titles = "true", "hidden", "completed", f"error ({100 * self.relative_error:.0f} %)"
        for panel, values, title in zip(
            axes, (true, hidden, completed, error), titles, strict=True
        ):
            of_error = values is error
            image = panel.imshow(
                values,
                cmap="magma" if of_error else colours,
                vmin=0.0 if of_error else low,
                vmax=None if of_error else high,
                interpolation="nearest",
            )
            panel.set(xticks=[], yticks=[])
            panel.set_title(title, fontsize=10)
            images.append(image)
        self.figure_.colorbar(images[2], ax=axes[:3], shrink=0.6)
        self.figure_.colorbar(images[3], ax=axes[3], shrink=0.6)
        axes[0].set_ylabel(label(self.name))
        self.axes_, self.images_ = tuple(axes), tuple(images)
        return self
