"""Figures of a study: curves, critical differences, and differences to the paper."""

import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from kernelquilt._typing import Array, Floats
from kernelquilt.experiments.own_data.patterns import literal
from kernelquilt.experiments.reporting.statistics import Ranking, indistinct_groups, mean_interval
from kernelquilt.experiments.reporting.summary import Summary, shared

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's palette without its yellow; markers and dashes tell equal colours apart
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#000000", "#CC79A7", "#E69F00", "#56B4E9")
_MARKERS = "osD^vPX<>p*hd8H"
_DASHES = ("-", "--", ":", "-.")
_PANELS = 9  # of one figure
_LONGEST_NAME = 28
_FONT: Any = {"font.size": 9.0, "axes.titlesize": 10.0, "svg.hashsalt": "kernelquilt"}


@dataclass(frozen=True)
class StudyFigure:
    """A figure of a study.

    Attributes
    ----------
    name : str
        For its file, such as ``"curves-1"``.
    figure : matplotlib Figure
    caption : str
        What it shows and how to read it.
    alternative : str
        For readers who cannot see it.
    """

    name: str
    figure: "Figure"
    caption: str
    alternative: str


def study_figures(summary: Summary) -> list[StudyFigure]:
    """Return the figures that a study has data for.

    Parameters
    ----------
    summary : Summary

    Returns
    -------
    figures : list of StudyFigure
        The repetitions if the table has one line, curves if there are two numeric settings, a
        critical-difference diagram if there are three data sets, differences to the paper if it
        printed any figures.
    """
    import matplotlib

    with matplotlib.rc_context(_FONT):
        return [
            *_repetitions(summary),
            *_curves(summary),
            *_critical_difference(summary),
            *_paper_differences(summary),
        ]


def to_svg(figure: "Figure") -> bytes:
    """Return a new figure as SVG, the same for the same data."""
    return _saved(figure, "svg", metadata={"Date": None})


def to_png(figure: "Figure") -> bytes:
    """Return a figure as PNG."""
    return _saved(figure, "png", dpi=100)


def _saved(figure: "Figure", form: str, **options: Any) -> bytes:
    import matplotlib

    written = io.BytesIO()
    with matplotlib.rc_context(_FONT):
        figure.savefig(written, format=form, bbox_inches="tight", **options)
    return written.getvalue()


def _repetitions(summary: Summary) -> Iterator[StudyFigure]:
    from matplotlib.figure import Figure

    counts = (~np.isnan(summary.scores)).sum(axis=2)
    if len(summary.lines) != 1 or counts.max(initial=0) < 2:
        return
    drawn = np.flatnonzero(counts[:, 0])
    scores = summary.scores[drawn, 0]
    means = np.nanmean(scores, axis=1)
    order = np.argsort(means if summary.study.higher_is_better else -means, kind="stable")
    figure = Figure((6.4, 1.0 + 0.3 * len(drawn)), layout="constrained")
    axes = figure.subplots()
    for place, m in enumerate(order):
        values = scores[m][~np.isnan(scores[m])]
        axes.plot(values, np.full(len(values), place), "o", color=_COLOURS[0], alpha=0.35)
        axes.plot(means[m], place, "|", color=_COLOURS[1], markersize=14, markeredgewidth=2)
    names = [summary.methods[drawn[m]] for m in order]
    axes.set_yticks(range(len(names)), [_label(name) for name in names])
    axes.set_xlabel(_metric(summary))
    _plain(axes)
    yield StudyFigure(
        "repetitions",
        figure,
        "A dot for each repetition, a bar for their mean, the best method on top.",
        f"Scores of {len(names)} methods on {summary.lines[0].label}; the best mean has "
        f"{names[-1]}.",
    )


def _curves(summary: Summary) -> Iterator[StudyFigure]:
    from matplotlib.figure import Figure

    study = summary.study
    numeric = all(isinstance(s, int | float) and not isinstance(s, bool) for s in study.settings)
    if not numeric or len(study.settings) < 2:
        return
    has_any = ~np.isnan(summary.values).all(axis=(0, 2, 3))
    panels = [(d, study.datasets[d].name) for d in np.flatnonzero(has_any)]
    drawn = np.flatnonzero(~np.isnan(summary.values).all(axis=(1, 2, 3)))
    for number, start in enumerate(range(0, len(panels), _PANELS), start=1):
        chosen = panels[start : start + _PANELS]
        n_columns = min(3, len(chosen))
        n_rows = -(-len(chosen) // n_columns)
        width = 6.4 if n_columns == 1 else 3.6 * n_columns
        figure = Figure((width, 4.0 if n_columns == 1 else 3.0 * n_rows), layout="constrained")
        grid = figure.subplots(n_rows, n_columns, squeeze=False).ravel()
        for axes, (d, name) in zip(grid, chosen, strict=False):
            _curve_panel(axes, summary, int(d), drawn)
            axes.set_title(_label(name))
        for position, axes in enumerate(grid[: len(chosen)]):
            if position % n_columns == 0:
                axes.set_ylabel(_metric(summary))
            if position + n_columns >= len(chosen):
                axes.set_xlabel(_label(study.axis))
        for axes in grid[len(chosen) :]:
            axes.set_visible(False)
        _legend(figure, grid[0], [summary.methods[m] for m in drawn], width)
        where = ", ".join(name for _, name in chosen)
        yield StudyFigure(
            f"curves-{number}",
            figure,
            f"{study.metric} against {study.axis}: mean over the repetitions with its 95 % "
            "interval.",
            f"Curves of {study.metric} against {study.axis}, one panel for each of: {where}; one "
            f"line for each of {len(drawn)} methods.",
        )


def _curve_panel(axes: "Axes", summary: Summary, dataset: int, drawn: Array) -> None:
    settings = np.array(summary.study.settings, dtype=np.float64)
    order = np.argsort(settings)
    opacity = min(0.14, 0.7 / len(drawn))
    for m, (mean, low, high) in enumerate(_intervals(summary.values[:, dataset])):
        if m in drawn:
            style = _style(m)
            axes.fill_between(
                settings[order], low[order], high[order], color=style["color"], alpha=opacity, lw=0
            )
            axes.plot(settings[order], mean[order], markersize=4, linewidth=1.3, **style)
    axes.set_xticks(settings)
    axes.tick_params(axis="x", rotation=90 if len(settings) > 10 else 0)
    _plain(axes)


def _intervals(values: Floats) -> Floats:
    """Return mean, low and high (n_methods, 3, n_settings) over the shared repetitions."""
    n_methods, n_settings, _ = values.shape
    intervals = np.full((n_methods, 3, n_settings), np.nan)
    for s in range(n_settings):
        present = ~np.isnan(values[:, s])
        compared, common = shared(present)
        for m in range(n_methods):
            used = common if compared[m] else present[m]
            intervals[m, :, s] = mean_interval(values[m, s, used])
    return intervals


def _critical_difference(summary: Summary) -> Iterator[StudyFigure]:
    from matplotlib.figure import Figure

    ranking = summary.ranking
    if ranking is None or ranking.n_datasets < 3:
        return
    order = np.argsort(ranking.average_ranks, kind="stable")
    n_left = (len(order) + 1) // 2
    groups = indistinct_groups(ranking.average_ranks, ranking.critical_difference)
    depth = 0.28 * len(groups) + 0.9
    figure = Figure((7.2, 1.1 + 0.24 * (depth + n_left)))
    axes = figure.add_axes((0.26, 0.02, 0.48, 0.96))
    axes.set_axis_off()
    axes.set_xlim(1, len(order))
    axes.set_ylim(-(depth + n_left), 2.6)
    _rank_axis(axes, ranking)
    for level, group in enumerate(groups):
        ends = ranking.average_ranks[group]
        height = -0.4 - 0.28 * level
        axes.plot([ends.min(), ends.max()], [height] * 2, color="#D55E00", linewidth=3.2)
    for position, m in enumerate(order):
        left = position < n_left
        height = -depth - (position if left else len(order) - 1 - position)
        edge, side, shift = (1, "right", -4) if left else (len(order), "left", 4)
        rank = ranking.average_ranks[m]
        axes.plot([rank, rank, edge], [0, height, height], color="#444444", linewidth=0.9)
        axes.annotate(
            f"{_label(summary.ranked[m])} ({rank:.2f})",
            (edge, height),
            xytext=(shift, 0),
            textcoords="offset points",
            ha=side,
            va="center",
        )
    told = [f"{summary.ranked[m]} {ranking.average_ranks[m]:.2f}" for m in order]
    yield StudyFigure(
        "ranks",
        figure,
        f"Average ranks over {ranking.n_datasets} data sets, the best on the left. Bars join "
        "methods that do not differ significantly: their ranks are closer than the critical "
        f"difference (CD) of {ranking.critical_difference:.2f} of Nemenyi's test at level "
        f"{ranking.level:g}. Friedman's test: chi-squared {ranking.statistic:.2f}, p = "
        f"{ranking.p_value:.2g}.",
        f"Critical-difference diagram, average ranks: {', '.join(told)}.",
    )


def _rank_axis(axes: "Axes", ranking: Ranking) -> None:
    """Draw the axis of ranks and the critical difference above it."""
    last = len(ranking.average_ranks)
    axes.plot([1, last], [0, 0], color="black", linewidth=1.2, clip_on=False)
    for rank in range(1, last + 1):
        axes.plot([rank, rank], [0, 0.25], color="black", linewidth=1.2, clip_on=False)
        axes.text(rank, 0.4, str(rank), ha="center", va="bottom")
    end = 1 + ranking.critical_difference
    axes.plot([1, end], [1.7, 1.7], color="black", linewidth=1.2, marker="|", clip_on=False)
    axes.text((1 + end) / 2, 1.85, f"CD = {ranking.critical_difference:.2f}", ha="center")


def _paper_differences(summary: Summary) -> Iterator[StudyFigure]:
    from matplotlib.figure import Figure

    table = np.array([[e.difference for e in line.entries] for line in summary.lines])
    rows = np.flatnonzero(~np.isnan(table).all(axis=0)) if table.size else np.array([], dtype=int)
    if not len(rows):
        return
    lines = np.flatnonzero(~np.isnan(table).all(axis=1))
    told_apart = len(lines) <= len(_MARKERS)
    figure = Figure((6.8, 1.2 + 0.34 * len(rows)), layout="constrained")
    axes = figure.subplots()
    axes.axvline(0, color="#444444", linewidth=1)
    heights = -np.arange(len(rows))
    for number, line in enumerate(lines):
        style = _style(number if told_apart else 0) | {"linestyle": ""}
        axes.plot(table[line, rows], heights, markersize=6, alpha=0.75, **style)
    means = [np.nanmean(table[:, m]) for m in rows]
    axes.plot(means, heights, "|", color="black", markersize=16, markeredgewidth=2)
    axes.set_yticks(heights, [_label(summary.methods[m]) for m in rows])
    axes.set_ylim(heights[-1] - 0.6, 0.6)
    axes.set_xlabel(f"{_metric(summary)}: ours minus the paper's")
    _plain(axes)
    if told_apart:
        _legend(figure, axes, [summary.lines[p].label for p in lines], 6.8, skip=1)
    told = [f"{summary.methods[m]} {x:+.3g}" for m, x in zip(rows, means, strict=True)]
    yield StudyFigure(
        "paper",
        figure,
        f"Our {summary.study.metric} minus the paper's, a mark for each line of the table; the bar "
        "is their mean.",
        f"Mean difference to the paper: {', '.join(told)}.",
    )


def _style(position: int) -> dict[str, Any]:
    return {
        "color": _COLOURS[position % len(_COLOURS)],
        "marker": _MARKERS[position % len(_MARKERS)],
        "linestyle": _DASHES[position // len(_COLOURS) % len(_DASHES)],
    }


def _legend(
    figure: "Figure", axes: "Axes", names: list[str], width: float, *, skip: int = 0
) -> None:
    """Put names of the lines of axes, from the one after `skip`, below a figure."""
    labels = [_label(name) for name in names]
    longest = max(len(label) for label in labels)
    figure.legend(
        axes.lines[skip : skip + len(labels)],
        labels,
        loc="outside lower center",
        ncols=max(1, min(len(labels), int(width / (0.5 + 0.075 * longest)))),
        frameon=False,
        handlelength=3,
    )


def _label(name: str) -> str:
    """Return a name for a figure: not too long, without mathematics, shown in legends."""
    short = name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 1] + "…"
    # matplotlib leaves a leading underscore out of legends
    return (" " if short.startswith("_") else "") + literal(short)


def _metric(summary: Summary) -> str:
    units: dict[float, str] = {1: "", 100: " (%)"}
    scale = summary.study.scale
    return _label(summary.study.metric) + units.get(scale, f" (times {scale:g})")


def _plain(axes: "Axes") -> None:
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
