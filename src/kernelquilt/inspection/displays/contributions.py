"""What the views of samples add to the output of a model."""

from typing import Any

import numpy as np

from kernelquilt._typing import Floats, Indices
from kernelquilt.inspection.contributions import ViewContributions, view_contributions
from kernelquilt.inspection.style import (
    ABSENT,
    COLOURS,
    FAINT,
    RULE,
    axes_for,
    label,
    literal,
    plain,
    rows_of_names,
)

UP, DOWN = COLOURS[0], COLOURS[1]


class ViewContributionsDisplay:
    """Contributions of views: of one sample as a waterfall, of many as a strip for each view.

    A waterfall leads from the output without any view to that of the sample, a view at a time, the
    largest contribution first. A strip has a dot for each sample that has the view, and a bar for
    the mean size of the contributions.

    Parameters
    ----------
    contributions : ViewContributions
        From `view_contributions`.
    sample : int, str or None, default=None
        Identifier of the one sample to draw, or its position where samples have none; None for
        all, unless there is only one.
    target : str, int or None, default=None
        The class whose output is drawn, where there are several; by default for each sample the
        one with the largest output.

    Attributes
    ----------
    values : ndarray of shape (n, V)
        What is drawn.
    order : ndarray of int of shape (V,)
        Views from top to bottom.
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    bars_ : matplotlib BarContainer
        Of a waterfall.
    strips_ : list of matplotlib PathCollection
        Of many samples, in the order of `order`.

    Examples
    --------
    >>> import kernelquilt as kq
    >>> X, y = kq.datasets.load_example("wdbc")
    >>> model = kq.LateFusionClassifier().fit(X[:200], y[:200])
    >>> display = kq.inspection.ViewContributionsDisplay.from_estimator(model, X[200:205], sample=3)
    >>> display.plot().ax_.get_xlabel()
    'log odds of malignant'
    """

    def __init__(
        self, contributions: ViewContributions, *, sample: Any = None, target: Any = None
    ) -> None:
        self.contributions = contributions
        self.sample = sample
        self.target = target
        rows = self._rows()
        self.values, self.base, self.output, self.what = self._chosen(rows)
        self.observed = contributions.observed[rows]
        size = np.where(self.observed, np.abs(self.values), 0.0).sum(axis=0)
        if self.single:  # absent views last
            size = np.where(self.observed[0], size, -1.0)
        self.order: Indices = np.argsort(-size, kind="stable")

    @classmethod
    def from_estimator(
        cls, model: Any, X: Any, *, sample: Any = None, target: Any = None, **options: Any
    ) -> "ViewContributionsDisplay":
        """Compute the contributions.

        Parameters
        ----------
        model : fitted estimator
            As in `view_contributions`.
        X : MultiView, dict, KernelStack, DataFrame or array of n samples
            Samples to explain.
        sample : int, str or None, default=None
            Identifier of the one sample to draw, or its position where samples have none.
        target : str, int or None, default=None
            The class whose output is drawn.
        **options : dict
            Of `view_contributions`.

        Returns
        -------
        display : ViewContributionsDisplay
            Not drawn yet.
        """
        return cls(view_contributions(model, X, **options), sample=sample, target=target)

    def _rows(self) -> Indices:
        index = self.contributions.index
        if self.sample is None:
            return np.arange(len(index))
        found = np.flatnonzero([str(each) == str(self.sample) for each in index])
        if len(found) != 1:
            raise ValueError(
                f"{len(found)} of {len(index)} samples are called {self.sample!r}; they are called "
                f"{index[0]!r} to {index[-1]!r}"
            )
        return found

    def _chosen(self, rows: Indices) -> tuple[Floats, Floats, Floats, str]:
        """Return values (n, V), bases (n,) and outputs (n,) of one output each, and its name."""
        known = self.contributions
        if known.output_names is None:
            if self.target is not None:
                raise ValueError(f"there is one output, {known.what!r}; leave target None")
            base = np.full(len(rows), known.base)
            return known.values[rows], base, known.output[rows], known.what
        if self.target is None:
            places = known.output[rows].argmax(axis=1)
            of = "the predicted class"
        else:
            if str(self.target) not in known.output_names:
                raise ValueError(
                    f"there is no output {self.target!r}; they are {known.output_names}"
                )
            places = np.full(len(rows), known.output_names.index(str(self.target)))
            of = str(self.target)
        if len(rows) == 1:
            of = known.output_names[places[0]]
        return (
            known.values[rows, :, places],
            known.base[places],
            known.output[rows, places],
            f"{known.what} of {of}",
        )

    @property
    def single(self) -> bool:
        """Whether one sample is drawn."""
        return len(self.values) == 1

    @property
    def figsize(self) -> tuple[float, float]:
        """Inches that the figure wants."""
        return 6.4, 1.3 + 0.34 * (len(self.order) + (2 if self.single else 0))

    def plot(self, ax: Any = None) -> "ViewContributionsDisplay":
        """Draw the contributions.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; by default in a new figure.

        Returns
        -------
        display : ViewContributionsDisplay
            Itself, drawn.
        """
        ax = axes_for(ax, self.figsize)
        (self._draw_waterfall if self.single else self._draw_strips)(ax)
        plain(ax, grid="x")
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _draw_waterfall(self, ax: Any) -> None:
        values = self.values[0][self.order]
        ends = self.base[0] + np.cumsum(values)
        starts = ends - values
        heights = np.arange(1, len(values) + 1)
        colours = [UP if value >= 0 else DOWN for value in values]
        self.bars_ = ax.barh(heights, values, left=starts, color=colours, height=0.6)
        for bar, value in zip(self.bars_, values, strict=True):
            bar.set_hatch("" if value >= 0 else "///")
            bar.set_edgecolor("white")
        steps = np.array([self.base[0], *ends])
        for height, x in enumerate(steps):
            ax.plot([x, x], [height, height + 1], color=RULE, linewidth=0.8, zorder=3)
        ax.plot([steps[0]], [0], "o", color=RULE)
        ax.plot([steps[-1]], [len(values) + 1], "D", color=RULE)
        texts = [f"{steps[0]:.2f}", *(f"{value:+.2f}" for value in values), f"{steps[-1]:.2f}"]
        right = [steps[0], *np.maximum(starts, ends), steps[-1]]
        for height, (text, x) in enumerate(zip(texts, right, strict=True)):
            absent = 0 < height <= len(values) and not self.observed[0][self.order[height - 1]]
            ax.annotate(
                "absent" if absent else text,
                (x, height),
                xytext=(5, 0),
                textcoords="offset points",
                va="center",
                fontsize=9,
                color=FAINT if absent else "black",
            )
        names = [self.contributions.view_names[p] for p in self.order]
        rows_of_names(ax, ["no view", *names, "all its views"])
        ax.use_sticky_edges = False
        ax.margins(x=0.14)
        ax.set_xlabel(literal(self.what))
        if len(self.contributions.index) > 1:
            ax.set_title(f"sample {label(self.sample)}", loc="left", fontsize=10)

    def _draw_strips(self, ax: Any) -> None:
        self.strips_ = []
        ax.axvline(0, color=RULE, linewidth=1)
        for height, p in enumerate(self.order):
            own = self.values[self.observed[:, p], p]
            # spread by rank, so that the same samples give the same figure
            rank = np.argsort(np.argsort(own, kind="stable"))
            shift = 0.56 * ((rank * 0.618034) % 1.0 - 0.5)
            dots = ax.scatter(own, height + shift, s=9, color=UP, alpha=0.45, linewidth=0)
            self.strips_.append(dots)
            mean = np.abs(own).mean() if len(own) else 0.0
            ax.plot([0, mean], [height + 0.4] * 2, color=DOWN, linewidth=3, solid_capstyle="butt")
        counts = self.observed.sum(axis=0)
        names = self.contributions.view_names
        rows_of_names(ax, [f"{label(names[p])} ({counts[p]})" for p in self.order])
        for height in range(1, len(self.order), 2):
            ax.axhspan(height - 0.5, height + 0.5, color=ABSENT, alpha=0.25, zorder=0, linewidth=0)
        ax.set_xlabel(literal(f"contribution to the {self.what}\n(bar: mean size)"))
        ax.set_ylabel("view (samples with it)", fontsize=8)
