"""What all figures of a study share: their type, names, legends and scales."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kernelquilt.experiments.reporting.summary import Summary, bounds
from kernelquilt.experiments.reporting.words import with_unit
from kernelquilt.inspection.style import literal

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH = 6.8  # inches of a figure with one panel
_DECADES = 30.0  # ratio of the largest to the smallest figure from which on an axis is logarithmic
_FEW_DECADES = 300.0  # ratio of the ends of an axis up to which 1, 2 and 5 times 10^k have ticks
_LONGEST_NAME = 28
_LEGEND_ROW = 0.2  # inches


@dataclass(frozen=True)
class StudyFigure:
    """A figure of a study."""

    name: str  # for its file, such as "curves-1"
    figure: "Figure"
    caption: str  # what it shows and how to read it
    alternative: str  # for readers who cannot see it


def metric_of(summary: Summary) -> str:
    """Return the figure that methods are compared by, with its unit."""
    return with_unit(summary.study.metric, summary.study.scale)


def label(name: str) -> str:
    """Return a name for a figure: not too long, without mathematics, shown in legends."""
    short = name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 1] + "…"
    # matplotlib leaves a leading underscore out of legends
    return (" " if short.startswith("_") else "") + literal(short)


def legend(figure: "Figure", axes: "Axes", width: float) -> None:
    """Put the names of the lines of axes below a figure, which grows with their rows."""
    handles, labels = axes.get_legend_handles_labels()
    longest = max(map(len, labels))
    n_columns = max(1, min(len(labels), int(width / (0.5 + 0.075 * longest))))
    further_rows = (len(labels) - 1) // n_columns
    figure.set_figheight(figure.get_figheight() + _LEGEND_ROW * further_rows)
    figure.legend(
        handles,
        labels,
        loc="outside lower center",
        ncols=n_columns,
        frameon=False,
        handlelength=3,
    )


def spans_decades(summary: Summary) -> bool:
    """Return whether figures that are positive, and have no other bound, span decades."""
    values = summary.values[~np.isnan(summary.values)]
    if not len(values) or values.min() <= 0 or bounds(summary.study) != (0.0, np.inf):
        return False
    return bool(values.max() >= _DECADES * values.min())


def set_log_x(axes: "Axes") -> None:
    """Make the horizontal axis logarithmic, with plain numbers that do not collide."""
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    axes.set_xscale("log")
    low, high = axes.get_xlim()
    subs = (1.0, 2.0, 5.0) if high < _FEW_DECADES * low else (1.0,)
    axes.xaxis.set_major_locator(LogLocator(subs=subs))
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
