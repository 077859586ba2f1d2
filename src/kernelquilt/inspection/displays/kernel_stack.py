"""Kernels: what they look like, their spectra, and how alike they are."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kernelquilt._typing import Array, Floats
from kernelquilt.data.columns import ViewColumns
from kernelquilt.data.stack import KernelStack
from kernelquilt.data.validation import as_views
from kernelquilt.inspection.style import ABSENT, RULE, grid_for, label, line_style, plain
from kernelquilt.kernels.view_kernels import ViewKernels
from kernelquilt.metrics import alignment

SHOWN = 6  # kernels


class KernelStackDisplay:
    """Kernels sorted by class, their spectra, and their alignment with each other.

    Samples that lack a kernel are grey. Spectra and alignments are those of the samples that
    have the kernels.

    Parameters
    ----------
    stack : KernelStack of n samples
        Square.
    y : array-like of shape (n,), default=None
        Classes to sort samples by.

    Attributes
    ----------
    order : ndarray of int of shape (n,)
        Samples in the order in which they are drawn.
    spectra : list of M ndarrays
        Eigenvalues of each kernel by their sum, descending.
    alignments : ndarray of shape (M, M)
        Centred alignment of pairs of kernels, nan where fewer than 3 samples have both.
    axes_ : dict of str to matplotlib Axes
        ``"spectra"``, ``"alignments"`` and those of the kernels, by their names.
    figure_ : matplotlib Figure

    Examples
    --------
    >>> import kernelquilt as kq
    >>> X, y = kq.datasets.load_example("wdbc")
    >>> display = kq.inspection.KernelStackDisplay.from_views(X[:80], y[:80])
    >>> display.alignments.shape
    (3, 3)
    """

    def __init__(self, stack: KernelStack, y: ArrayLike | None = None) -> None:
        self.stack = stack
        self.K, self.observed = stack.training_gram()
        n = len(stack)
        self.y: Array | None = None if y is None else np.asarray(y)
        if self.y is not None and len(self.y) != n:
            raise ValueError(f"the stack has {n} samples, but y has {len(self.y)} labels")
        self.order = np.arange(n) if self.y is None else np.argsort(self.y, kind="stable")
        self.spectra = [
            _spectrum(kernel[np.ix_(present, present)])
            for kernel, present in zip(self.K, self.observed.T, strict=True)
        ]
        self.alignments = self._alignments()

    @classmethod
    def from_views(
        cls,
        X: Any,
        y: ArrayLike | None = None,
        *,
        kernels: Any = "gaussian",
        views: ViewColumns = None,
    ) -> "KernelStackDisplay":
        """Compute the kernels of samples.

        Parameters
        ----------
        X : MultiView, KernelStack, dict or 2-D data of n samples
            Kernels, or what they are computed from.
        y : array-like of shape (n,), default=None
            Classes to sort samples by.
        kernels : str, callable, list or dict, default="gaussian"
            As in `ViewKernels`; a stack has its own.
        views : dict of str to columns, "columns" or None, default=None
            The views of 2-D data, as in `as_views`.

        Returns
        -------
        display : KernelStackDisplay
            Not drawn yet.
        """
        if isinstance(X, KernelStack):
            return cls(X, y)
        return cls(ViewKernels(kernels).fit_transform(as_views(X, views)), y)

    def _alignments(self) -> Floats:
        M = len(self.K)
        found = np.full((M, M), np.nan)
        for p in range(M):
            for q in range(p + 1):
                both = np.flatnonzero(self.observed[:, p] & self.observed[:, q])
                if len(both) >= 3:
                    part = np.ix_(both, both)
                    value = alignment(self.K[p][part][None], self.K[q][part])
                    found[p, q] = found[q, p] = np.ravel(value)[0]
        return found

    @property
    def figsize(self) -> tuple[float, float]:
        """Inches that the figure wants."""
        return 1.2 + 1.9 * max(min(len(self.K), SHOWN), 3), 5.6

    def plot(self, ax: Any = None) -> "KernelStackDisplay":
        """Draw the kernels.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Its place is divided into panels; by default that of a new figure.

        Returns
        -------
        display : KernelStackDisplay
            Itself, drawn.
        """
        names, n_shown = self.stack.names, min(len(self.K), SHOWN)
        self.figure_, grid = grid_for(ax, self.figsize, 2, 2 * n_shown, height_ratios=(1.0, 1.5))
        self.axes_ = {}
        for m in range(n_shown):
            panel = self.figure_.add_subplot(grid[0, 2 * m : 2 * m + 2])
            self._draw_kernel(panel, m)
            self.axes_[names[m]] = panel
        self.axes_["spectra"] = self.figure_.add_subplot(grid[1, :n_shown])
        self.axes_["alignments"] = self.figure_.add_subplot(grid[1, n_shown:])
        self._draw_spectra(self.axes_["spectra"])
        self._draw_alignments(self.axes_["alignments"])
        return self

    def _draw_kernel(self, ax: Any, m: int) -> None:
        present = self.observed[self.order, m]
        kernel = self.K[m][np.ix_(self.order, self.order)].astype(np.float64)
        kernel[~present] = np.nan
        kernel[:, ~present] = np.nan
        ax.set_facecolor(ABSENT)
        ax.imshow(kernel, cmap="viridis", interpolation="nearest")
        if self.y is not None:
            for edge in np.unique(self.y[self.order], return_index=True)[1][1:] - 1:
                ax.axhline(edge + 0.5, color="white", linewidth=0.8)
                ax.axvline(edge + 0.5, color="white", linewidth=0.8)
        ax.set(xticks=[], yticks=[])
        ax.set_title(label(self.stack.names[m]), fontsize=10)

    def _draw_spectra(self, ax: Any) -> None:
        for m, (name, values) in enumerate(zip(self.stack.names, self.spectra, strict=True)):
            shown = np.maximum(values, 1e-8)
            style = line_style(m) | {"markevery": (m, max(1, len(shown) // 8)), "markersize": 4}
            ax.plot(np.arange(1, len(shown) + 1), shown, label=label(name), **style)
        ax.set(
            xscale="log",
            yscale="log",
            xlabel="number of the eigenvalue",
            ylabel="share of the trace",
        )
        if len(self.K) <= 10:
            ax.legend(frameon=False, fontsize=8)
        plain(ax)

    def _draw_alignments(self, ax: Any) -> None:
        M = len(self.K)
        image = ax.imshow(self.alignments, cmap="viridis", vmin=0.0, vmax=1.0)
        ax.set_xticks(range(M), [label(name) for name in self.stack.names], rotation=45, ha="right")
        ax.set_yticks(range(M), [label(name) for name in self.stack.names])
        if M <= 8:
            annotate(ax, self.alignments, 0.6)
        bar = self.figure_.colorbar(image, ax=ax, shrink=0.8)
        bar.set_label("centred alignment")
        bar.outline.set_edgecolor(RULE)


def annotate(ax: Any, values: Floats, bright: float) -> None:
    """Write the numbers of an image into its cells, black where they are above `bright`."""
    for (row, column), value in np.ndenumerate(values):
        if not np.isnan(value):
            colour = "black" if value > bright else "white"
            ax.text(column, row, f"{value:.2f}", ha="center", va="center", color=colour, fontsize=8)


def _spectrum(kernel: Floats) -> Floats:
    """Return the eigenvalues by their sum, descending."""
    if not len(kernel):
        return np.zeros(0)
    values = np.linalg.eigvalsh(kernel.astype(np.float64))[::-1]
    return values / max(values.sum(), np.finfo(np.float64).tiny)
