"""Figures that put ours beside those that a paper printed."""

from collections.abc import Iterator

import numpy as np

from kernelquilt.experiments.reporting.drawing import (
    WIDTH,
    StudyFigure,
    label,
    legend,
    metric_of,
    set_log_x,
    spans_decades,
)
from kernelquilt.experiments.reporting.readings import compared_readings
from kernelquilt.experiments.reporting.summary import Summary
from kernelquilt.inspection.style import COLOURS, MARKERS, line_style, literal, plain


def paper_figures(summary: Summary) -> Iterator[StudyFigure]:
    """Yield the distances of readings, or differences to the paper and what a leak explains."""
    if summary.study.axis == "reading":
        yield from _readings(summary)
    else:
        yield from _differences(summary)
        yield from _leaks(summary)


def _readings(summary: Summary) -> Iterator[StudyFigure]:
    """Draw what each reading is away from the paper, the nearest on top."""
    from matplotlib.figure import Figure

    found = compared_readings(summary)
    if found is None:
        return
    figure = Figure((WIDTH, 1.2 + 0.34 * len(found.names)), layout="constrained")
    axes = figure.subplots()
    axes.axvline(0, color="#444444", linewidth=1)
    heights = -np.arange(len(found.names))
    for m, method in enumerate(summary.methods):
        style = line_style(m) | {"linestyle": ""}
        apart = heights + 0.12 * (0.5 * (len(summary.methods) - 1) - m)
        at = np.broadcast_to(apart[:, None], found.differences.shape[:2])
        axes.plot(
            found.differences[:, :, m].ravel(), at.ravel(), alpha=0.6, markersize=5,
            label=label(method), **style,
        )  # fmt: skip
    names = [f"{n}: {x:.1f}" for n, x in zip(found.names, found.distances, strict=True)]
    axes.set_yticks(heights, [literal(name) for name in names])
    axes.set_ylim(heights[-1] - 0.6, 0.6)
    axes.set_xlabel(literal(f"{metric_of(summary)}: ours minus the paper's"))
    plain(axes)
    legend(figure, axes, WIDTH)
    yield StudyFigure(
        "paper",
        figure,
        f"Our {metric_of(summary)} minus the paper's in each reading, a mark for each data set and "
        "method; the number behind a reading is the mean of the absolute differences.",
        f"Mean absolute difference to the paper: {', '.join(names)}.",
    )


def _differences(summary: Summary) -> Iterator[StudyFigure]:
    from matplotlib.figure import Figure

    # figures that span decades are compared by their ratio
    log = spans_decades(summary)
    table = np.array(
        [[e.mean / e.paper if log else e.difference for e in x.entries] for x in summary.lines]
    )
    rows = np.flatnonzero(~np.isnan(table).all(axis=0)) if table.size else np.array([], dtype=int)
    if not len(rows):
        return
    lines = np.flatnonzero(~np.isnan(table).all(axis=1))
    told_apart = len(lines) <= len(MARKERS)
    figure = Figure((WIDTH, 1.2 + 0.34 * len(rows)), layout="constrained")
    axes = figure.subplots()
    axes.axvline(1 if log else 0, color="#444444", linewidth=1)
    heights = -np.arange(len(rows))
    for number, line in enumerate(lines):
        style = line_style(number if told_apart else 0) | {"linestyle": ""}
        name = label(summary.lines[line].label)
        axes.plot(table[line, rows], heights, markersize=6, alpha=0.75, label=name, **style)
    scale = np.log(table[:, rows]) if log else table[:, rows]
    means = np.nanmean(scale, axis=0)
    means = np.exp(means) if log else means
    axes.plot(means, heights, "|", color="black", markersize=16, markeredgewidth=2)
    axes.set_yticks(heights, [label(summary.methods[m]) for m in rows])
    axes.set_ylim(heights[-1] - 0.6, 0.6)
    if log:
        set_log_x(axes)
    words = "divided by" if log else "minus"
    axes.set_xlabel(literal(f"{metric_of(summary)}: ours {words} the paper's"))
    plain(axes)
    if told_apart:
        legend(figure, axes, WIDTH)
    form = ".3g" if log else "+.3g"
    told = [f"{summary.methods[m]} {x:{form}}" for m, x in zip(rows, means, strict=True)]
    mean, compared = ("geometric mean", "ratio") if log else ("mean", "difference")
    yield StudyFigure(
        "paper",
        figure,
        f"Our {metric_of(summary)} {words} the paper's, a mark for each line of the table; the bar "
        f"is their {mean}.",
        f"{mean.capitalize()} {compared} to the paper: {', '.join(told)}.",
    )


def _leaks(summary: Summary) -> Iterator[StudyFigure]:
    """Draw printed figures beside ours with and without what a method must not read."""
    from matplotlib.figure import Figure

    pairs = _honest_and_leaky(summary)
    table = np.array(
        [
            [[x.entries[m].paper, x.entries[m].mean, x.entries[leaky].mean] for m, leaky in pairs]
            for x in summary.lines
        ]
    ).reshape(len(summary.lines), len(pairs), 3)
    lines = np.flatnonzero(~np.isnan(table).any(axis=2).all(axis=1))
    panels = np.flatnonzero(~np.isnan(table).any(axis=2).all(axis=0))
    if not len(lines):
        return
    table = table[lines]
    log = spans_decades(summary)
    width = WIDTH if len(panels) == 1 else 1.6 + 3.2 * len(panels)
    figure = Figure((width, 1.4 + 0.3 * len(lines)), layout="constrained")
    grid = figure.subplots(1, len(panels), squeeze=False, sharey=True)[0]
    heights = -np.arange(len(lines))
    styles = {
        "printed": {"color": COLOURS[3], "marker": "|", "markersize": 13, "markeredgewidth": 2},
        "ours": {"color": COLOURS[0], "marker": "o", "markersize": 7},
        "ours with the leak": {"color": COLOURS[1], "marker": "s", "markersize": 6},
    }
    for axes, pair in zip(grid, panels, strict=True):
        axes.hlines(
            heights, table[:, pair].min(axis=1), table[:, pair].max(axis=1), "#CCCCCC", zorder=1
        )
        for k, (name, style) in enumerate(styles.items()):
            axes.plot(table[:, pair, k], heights, linestyle="", alpha=0.85, label=name, **style)
        axes.set_title(label(summary.methods[pairs[pair][0]]))
        axes.set_yticks(heights, [label(summary.lines[line].label) for line in lines])
        axes.set_ylim(heights[-1] - 0.6, 0.6)
        if log:
            set_log_x(axes)
        axes.set_xlabel(literal(metric_of(summary)))
        plain(axes)
    legend(figure, grid[0], width)
    names = " and ".join(summary.methods[pairs[pair][0]] for pair in panels)
    yield StudyFigure(
        "leak",
        figure,
        f"{metric_of(summary)} of {names}: what the paper printed, ours, and ours if the method "
        "may read what it must not.",
        f"{names} on {len(lines)} lines, printed, ours, and ours with the leak.",
    )


def _honest_and_leaky(summary: Summary) -> list[tuple[int, int]]:
    """Return the positions of methods and of their diagnostics, whose names begin with theirs."""
    found = []
    for name in summary.study.diagnostics:
        same = [m for m in summary.methods if name.startswith(f"{m} ")]
        if name in summary.methods and same:
            own = max(same, key=len)
            found.append((summary.methods.index(own), summary.methods.index(name)))
    return found
