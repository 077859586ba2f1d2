"""A picture of which views the samples have."""

from typing import TYPE_CHECKING, Any

import numpy as np

from kernelquilt.experiments.own_data.describe import Description, Pattern

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHOWN = 24  # patterns
LONGEST_NAME = 24  # characters
PRESENT, ABSENT, BAND = "#0072B2", "#D9D9D9", "#F5F5F5"


def plot_patterns(description: Description) -> "Figure":
    """Draw the patterns of absence.

    A column is a pattern, with a blue dot for each view that its samples have and a bar for their
    number; the bars on the right are the shares of the samples that have a view.

    Parameters
    ----------
    description : Description

    Returns
    -------
    figure : matplotlib Figure
    """
    from matplotlib.figure import Figure

    patterns = description.patterns[:SHOWN]
    width, height = max(2.5, 0.38 * len(patterns)), max(0.6, 0.28 * len(description.views))
    figure = Figure(figsize=(width + 3.6, height + 3.0), layout="constrained")
    (counts, corner), (matrix, shares) = figure.subplots(
        2, 2, gridspec_kw={"height_ratios": (2.0, height), "width_ratios": (width, 1.6)}
    )
    corner.axis("off")
    _draw_counts(counts, patterns)
    _draw_matrix(matrix, patterns, description)
    _draw_shares(shares, description)
    figure.suptitle(
        f"{literal(description.name)}: {description.n_complete} of {description.n_samples} samples "
        "have every view",
        fontsize=11,
    )
    return figure


def _draw_counts(ax: Any, patterns: tuple[Pattern, ...]) -> None:
    heights = [pattern.count for pattern in patterns]
    bars = ax.bar(range(len(heights)), heights, color=PRESENT, width=0.7)
    ax.bar_label(bars, fontsize=8, padding=1)
    ax.set_ylabel("samples")
    ax.set_ylim(0, 1.12 * max(heights))
    ax.set_xlim(-0.6, len(heights) - 0.4)
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(bottom=False, labelbottom=False)


def _draw_matrix(ax: Any, patterns: tuple[Pattern, ...], description: Description) -> None:
    names = [view.name for view in description.views]
    present = np.array([[name in pattern.present for pattern in patterns] for name in names])
    for row in range(0, len(names), 2):
        ax.axhspan(row - 0.5, row + 0.5, color=BAND, zorder=0)
    for column, has in enumerate(present.T):
        rows = np.flatnonzero(has)
        if len(rows) > 1:
            ax.plot([column, column], rows[[0, -1]], color=PRESENT, linewidth=1.5, zorder=2)
    for has, colour in ((False, ABSENT), (True, PRESENT)):
        rows, columns = np.nonzero(present == has)
        ax.scatter(columns, rows, s=50, color=colour, zorder=3)
    ax.set_yticks(range(len(names)), [literal(_shortened(name)) for name in names])
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.set_xlim(-0.6, len(patterns) - 0.4)
    ax.tick_params(length=0, labelbottom=False)
    ax.spines[:].set_visible(False)
    label, n_patterns = "patterns", len(description.patterns)
    if n_patterns > len(patterns):
        n_shown = sum(pattern.count for pattern in patterns)
        label = (
            f"the {len(patterns)} most frequent of {n_patterns} patterns, "
            f"{n_shown} of {description.n_samples} samples"
        )
    ax.set_xlabel(label)


def _draw_shares(ax: Any, description: Description) -> None:
    shares = [100 * (1 - view.absent) for view in description.views]
    bars = ax.barh(range(len(shares)), shares, color=PRESENT, height=0.55)
    ax.bar_label(bars, fmt="%.0f %%", fontsize=8, padding=2)
    ax.set_xlim(0, 135)
    ax.set_ylim(len(shares) - 0.5, -0.5)
    ax.set_xticks([])
    ax.set_yticks([])
    ax.set_xlabel("samples with view")
    ax.spines[["top", "right", "bottom"]].set_visible(False)


def literal(text: str) -> str:
    """Return a text that matplotlib shows as it is: $ would begin a formula."""
    return text.replace("$", r"\$")


def _shortened(name: str) -> str:
    if len(name) <= LONGEST_NAME:
        return name
    half = LONGEST_NAME // 2
    return f"{name[: half - 1]}…{name[-half:]}"
