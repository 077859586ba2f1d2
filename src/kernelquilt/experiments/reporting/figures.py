"""Figures of a study: curves, critical differences, and differences to the paper."""

import io
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from kernelquilt._typing import Floats
from kernelquilt.experiments.reporting.drawing import (
    WIDTH,
    StudyFigure,
    label,
    legend,
    metric_of,
    set_log_x,
    spans_decades,
)
from kernelquilt.experiments.reporting.paper_figures import paper_figures
from kernelquilt.experiments.reporting.statistics import indistinct_groups, mean_interval
from kernelquilt.experiments.reporting.summary import LEAST_TESTED, Entry, Summary, bounds
from kernelquilt.experiments.reporting.table import plural
from kernelquilt.experiments.reporting.words import axis_of
from kernelquilt.inspection.style import COLOURS, FAINT, line_style, literal, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_PANELS = 9  # of one figure
_LINES = 6  # of one panel
_ROWS = 40  # of one panel; more are read in the table
_FONT: Any = {"font.size": 9.0, "axes.titlesize": 10.0, "svg.hashsalt": "kernelquilt"}


def study_figures(summary: Summary) -> list[StudyFigure]:
    """Return the figures that a study has data for.

    These are the repetitions if the table has one line, curves if there are two numeric settings,
    the lines of the table if settings are words, what the best method is ahead of the others and a
    critical-difference diagram if there are three data sets, and if the paper printed any figures
    the differences to them, with a leak if there is one, or how far each reading is from them.
    """
    import matplotlib

    with matplotlib.rc_context(_FONT):
        return [
            *_repetitions(summary),
            *_curves(summary),
            *_lines(summary),
            *_leads(summary),
            *_critical_difference(summary),
            *paper_figures(summary),
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
        axes.plot(values, [place] * len(values), "o", color=COLOURS[0], alpha=0.35, clip_on=False)
        axes.plot(means[m], place, "|", color=COLOURS[1], markersize=14, markeredgewidth=2)
    names = [summary.methods[drawn[m]] for m in order]
    axes.set_yticks(range(len(names)), [label(name) for name in names])
    axes.set(xlim=np.clip(axes.get_xlim(), *bounds(summary.study)), ylim=(-0.6, len(names) - 0.4))
    axes.set_xlabel(literal(metric_of(summary)))
    plain(axes)
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
    if not _numeric(study.settings) or len(study.settings) < 2:
        return
    words, scale, _ = axis_of(study.axis)
    order = np.argsort(study.settings)
    places = scale * np.array(study.settings, dtype=np.float64)[order]
    present = ~np.isnan(summary.values)
    panels = np.flatnonzero(present.any(axis=(0, 2, 3)))
    drawn = _drawn(summary)
    log = spans_decades(summary)
    for number, start in enumerate(range(0, len(panels), _PANELS), start=1):
        chosen = panels[start : start + _PANELS]
        n_columns = min(3, len(chosen))
        n_rows = -(-len(chosen) // n_columns)
        width, height = (6.4, 4.0) if n_columns == 1 else (3.6 * n_columns, 3.0 * n_rows)
        figure = Figure((width, height), layout="constrained")
        grid = figure.subplots(n_rows, n_columns, squeeze=False).ravel()
        for axes in grid[len(chosen) :]:
            axes.remove()
        for axes, d in zip(grid, chosen, strict=False):
            name = study.datasets[d].name
            lines = [line for line in summary.by_setting if line.dataset == name]
            entries = [[lines[s].entries[m] for s in order] for m in drawn]
            _draw_typical_interval(axes, places, entries)
            for k, m in enumerate(drawn):
                style = line_style(k) | {"label": label(summary.methods[m])}
                _draw_curve(axes, places, entries[k], summary.values[m, d, order], style)
            axes.set_title(label(name))
            axes.set_yscale("log" if log else "linear")
            axes.set_ylim(np.clip(axes.get_ylim(), *bounds(summary.study)) if not log else None)
            # shares stay on a scale of shares, counts and weights may span decades
            decades = scale == 1 and 0 < 10 * places[0] <= places[-1]
            _set_ticks(axes, places, width / n_columns - 0.7, log=decades)
            plain(axes)
        for axes in grid[: len(chosen) : n_columns]:
            axes.set_ylabel(literal(metric_of(summary)))
        for axes in grid[len(chosen) - n_columns : len(chosen)]:
            axes.set_xlabel(literal(words))
        legend(figure, grid[0], width)
        what = f"{metric_of(summary)} against {words}"
        n_left = int(np.count_nonzero(present.any(axis=(1, 2, 3)))) - len(drawn)
        others = f" {plural(n_left, 'other method')} in the table only." if n_left else ""
        names = ", ".join(study.datasets[d].name for d in chosen)
        yield StudyFigure(
            f"curves-{number}",
            figure,
            f"{what}: mean over the repetitions. The grey bar is the 95 % interval of one of the "
            "means, that of median width; it allows for samples that repetitions share, as all "
            "methods do. Where there are fewer than "
            f"{LEAST_TESTED} repetitions there is a dot for each.{others}",
            f"Curves of {what}, one panel for each of: {names}; one line for each of {len(drawn)} "
            "methods.",
        )


def _lines(summary: Summary) -> Iterator[StudyFigure]:
    """Draw the methods in each line of the table, where settings are words."""
    from matplotlib.figure import Figure

    lines = [line for line in summary.lines if not all(np.isnan(e.mean) for e in line.entries)]
    drawn = _drawn(summary)
    if _numeric(summary.study.settings) or not 1 < len(lines) <= _ROWS or len(drawn) < 2:
        return
    figure = Figure((WIDTH, 1.2 + 0.28 * len(lines)), layout="constrained")
    axes = figure.subplots()
    heights = -np.arange(len(lines))
    for k, m in enumerate(drawn):
        style = line_style(k) | {"linestyle": ""}
        means = [line.entries[m].mean for line in lines]
        name = label(summary.methods[m])
        axes.plot(means, heights, markersize=6, alpha=0.75, label=name, clip_on=False, **style)
    axes.set_yticks(heights, [label(line.label) for line in lines])
    axes.set_ylim(heights[-1] - 0.6, 0.6)
    if spans_decades(summary):
        set_log_x(axes)
    else:
        axes.set(xlim=np.clip(axes.get_xlim(), *bounds(summary.study)))
    axes.set_xlabel(literal(metric_of(summary)))
    plain(axes)
    legend(figure, axes, WIDTH)
    yield StudyFigure(
        "lines",
        figure,
        f"{metric_of(summary)} of {len(drawn)} methods: means over the repetitions of each line.",
        f"{metric_of(summary)} in {len(lines)} lines: {', '.join(line.label for line in lines)}.",
    )


def _leads(summary: Summary) -> Iterator[StudyFigure]:
    """Draw what the best method is ahead of the others on each data set."""
    from matplotlib.figure import Figure

    reference, named = summary.reference, summary.study.drawn
    others = [m for m in summary.ranked if m != reference and (m in named or not named)]
    if len(summary.averaged) < 3 or not others:
        return
    sign = 1 if summary.study.higher_is_better else -1
    leads = np.array([sign * (_by_set(summary, reference) - _by_set(summary, m)) for m in others])
    order = np.argsort(leads.mean(axis=1), kind="stable")
    figure = Figure((WIDTH, 1.2 + 0.34 * len(others)), layout="constrained")
    axes = figure.subplots()
    axes.axvline(0, color="#444444", linewidth=1)
    for place, m in enumerate(order):
        mean, low, high = mean_interval(leads[m])
        axes.plot(leads[m], [-place] * leads.shape[1], "o", color=COLOURS[0], alpha=0.35)
        axes.plot([low, high], [-place, -place], color=COLOURS[1], linewidth=2)
        axes.plot(mean, -place, "|", color=COLOURS[1], markersize=14, markeredgewidth=2)
    axes.set_yticks(-np.arange(len(others)), [label(others[m]) for m in order])
    axes.set_ylim(0.4 - len(others), 0.6)
    axes.set_xlabel(literal(f"{metric_of(summary)}: {reference} ahead of the other"))
    plain(axes)
    told = [f"{others[m]} {leads[m].mean():+.3g}" for m in order]
    yield StudyFigure(
        "leads",
        figure,
        f"How far {reference} is ahead of each other method: a dot for each of "
        f"{leads.shape[1]} data sets, a bar for their mean with its 95 % interval over them.",
        f"Mean lead of {reference} over {', '.join(told)}.",
    )


def _by_set(summary: Summary, method: str) -> Floats:
    """Return the means of a method on the data sets that all compared methods have."""
    m = summary.methods.index(method)
    lines = [[e for e in summary.lines if e.dataset == name] for name in summary.averaged]
    return np.array([np.mean([line.entries[m].mean for line in own]) for own in lines])


def _numeric(settings: list[Any]) -> bool:
    return all(isinstance(s, int | float) and not isinstance(s, bool) for s in settings)


def _drawn(summary: Summary) -> list[int]:
    """Return the methods of the curves: those that the study names, or the best on average."""
    there = (~np.isnan(summary.values)).any(axis=(1, 2, 3))
    own = [int(m) for m in np.flatnonzero(there)]
    named = [m for m in own if summary.methods[m] in summary.study.drawn]
    if named or len(own) <= _LINES:
        return named or own
    sign = -1 if summary.study.higher_is_better else 1
    means = {m: sign * np.nanmean(summary.values[m]) for m in own}
    return sorted(sorted(own, key=means.__getitem__)[:_LINES])


def _draw_curve(
    axes: "Axes", places: Floats, entries: list[Entry], values: Floats, style: dict[str, Any]
) -> None:
    """Draw the means of a method at places (n_settings,).

    Repetitions `values` (n_settings, n_repetitions) are drawn where they are too few for intervals.
    """
    few = np.isnan([entry.low for entry in entries])
    at = np.broadcast_to(places[:, None], values.shape)
    axes.scatter(at[few], values[few], s=7, color=style["color"], alpha=0.4, clip_on=False)
    means = [entry.mean for entry in entries]
    axes.plot(places, means, markersize=4, linewidth=1.3, clip_on=False, **style)


def _draw_typical_interval(axes: "Axes", places: Floats, entries: list[list[Entry]]) -> None:
    """Draw the interval of median width: all of them would hide each other and the means."""
    intervals = [
        (entry.high - entry.low, place, entry.low, entry.high)
        for curve in entries
        for place, entry in zip(places, curve, strict=True)
        if not np.isnan(entry.low)
    ]
    if intervals:
        _, place, low, high = sorted(intervals)[len(intervals) // 2]
        axes.plot([place, place], [low, high], "_-", color=FAINT, lw=3, alpha=0.6, markersize=9)


def _set_ticks(axes: "Axes", places: Floats, inches: float, *, log: bool) -> None:
    """Put a tick at each place of an axis so long, with a text where it has room."""
    positions = np.log(places) if log else places
    axes.set_xscale("log" if log else "linear")
    texts: list[str] = []
    end = -np.inf
    for position in inches * (positions - positions[0]) / (positions[-1] - positions[0]):
        text = f"{places[len(texts)]:g}"
        half = 0.04 * len(text)
        texts.append(text if position - half > end else "")
        end = position + half + 0.04 if texts[-1] else end
    axes.set_xticks(places, texts)
    axes.minorticks_off()


def _critical_difference(summary: Summary) -> Iterator[StudyFigure]:
    from matplotlib.figure import Figure

    ranking = summary.ranking
    if ranking is None or ranking.n_datasets < 3:
        return
    ranks, n_methods = ranking.average_ranks, len(summary.ranked)
    order = np.argsort(ranks, kind="stable")
    n_left = (n_methods + 1) // 2
    groups = indistinct_groups(ranks, ranking.critical_difference)
    depth = 0.28 * len(groups) + 0.9
    figure = Figure((7.2, 1.1 + 0.24 * (depth + n_left)))
    axes = figure.add_axes((0.26, 0.02, 0.48, 0.96))
    axes.set(xlim=(1, n_methods), ylim=(-(depth + n_left), 2.6), yticks=[])
    axes.spines[["left", "right", "bottom"]].set_visible(False)
    axes.spines["top"].set_position(("data", 0))
    axes.xaxis.tick_top()
    axes.set_xticks(range(1, n_methods + 1, -(-n_methods // 20)))
    end = 1 + ranking.critical_difference
    axes.plot([1, end], [1.7, 1.7], color="black", linewidth=1.2, marker="|", clip_on=False)
    axes.text((1 + end) / 2, 1.85, f"CD = {ranking.critical_difference:.2f}", ha="center")
    for level, group in enumerate(groups):
        height = -0.4 - 0.28 * level
        axes.plot(ranks[group][[0, -1]], [height] * 2, color=COLOURS[1], linewidth=3.2)
    for position, m in enumerate(order):
        left = position < n_left
        height = -depth - (position if left else n_methods - 1 - position)
        edge, side, shift = (1, "right", -4) if left else (n_methods, "left", 4)
        axes.plot([ranks[m], ranks[m], edge], [0, height, height], color="#444444", linewidth=0.9)
        axes.annotate(
            f"{label(summary.ranked[m])} ({ranks[m]:.2f})",
            (edge, height),
            xytext=(shift, 0),
            textcoords="offset points",
            ha=side,
            va="center",
        )
    told = [f"{summary.ranked[m]} {ranks[m]:.2f}" for m in order]
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
