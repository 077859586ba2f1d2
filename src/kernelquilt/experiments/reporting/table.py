"""The table of a study in words: its cells, and what a reader must know of them."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from kernelquilt.experiments.reporting.readings import compared_readings
from kernelquilt.experiments.reporting.statistics import best_method, compare_with
from kernelquilt.experiments.reporting.summary import LEAST_TESTED, Entry, Summary, judged
from kernelquilt.experiments.reporting.words import figure_of, with_unit

DASH = "-"
LEVEL_MARK, ALONE_MARK, DIAGNOSTIC_MARK = "†", "‡", "§"
STANDING_HEAD = (
    "difference",
    "95 % interval",
    "p, t-test",
    "p, Wilcoxon",
    "average rank",
    "win-tie-loss",
)
STANDING_WORDS = (
    "the method with the best average: mean difference over the data sets; p-values of the paired "
    "tests over the data sets after Holm's correction"
)


@dataclass(frozen=True)
class CellText:
    """A cell of the table in words: ours with its mark, the paper's and the difference."""

    ours: str
    best: bool = False
    mark: str = ""
    paper: str = ""
    difference: str = ""


@dataclass(frozen=True)
class TableLine:
    """A line of the table in words."""

    label: str
    cells: list[CellText]


def table_lines(summary: Summary) -> list[TableLine]:
    """Return the lines of the table, without averages."""
    decimals = decimals_of(summary)
    return [
        TableLine(
            line.label,
            [
                _cell(entry, decimals, method in summary.study.diagnostics)
                for method, entry in zip(summary.methods, line.entries, strict=True)
            ],
        )
        for line in summary.lines
    ]


def closing_lines(summary: Summary) -> list[TableLine]:
    """Return the average and the win-tie-loss line of the table."""
    if len(summary.lines) == 1:
        return []
    decimals = decimals_of(summary)
    averages = [
        CellText(
            number_text(standing.average, f".{decimals}f"),
            method == summary.reference,
            "",
            *_paper_texts(standing.average, standing.paper_average, decimals),
        )
        for method, standing in zip(summary.methods, summary.standings, strict=True)
    ]
    lines = [TableLine("average", averages)]
    if _over_datasets(summary):
        cells = [CellText(_win_tie_loss(summary, method)) for method in summary.methods]
        lines.append(TableLine("win-tie-loss", cells))
    return lines


def extra_lines(summary: Summary, name: str) -> list[TableLine]:
    """Return the means of a further figure, line by line."""
    return [
        TableLine(line.label, [CellText(number_text(e.extra[name], ".3g")) for e in line.entries])
        for line in summary.lines
        if any(np.isfinite(entry.extra[name]) for entry in line.entries)
    ]


def p_value_lines(summary: Summary) -> list[TableLine]:
    """Return the p-values of the three tests for each line that has any."""
    return [
        TableLine(line.label, [CellText(_p_values(entry)) for entry in line.entries])
        for line in summary.lines
        if any(not np.isnan(entry.t_p_value) for entry in line.entries)
    ]


def standing_lines(summary: Summary) -> list[TableLine]:
    """Return how each method compares with the one with the best average.

    The cells are those of `STANDING_HEAD`.
    """
    signed = f"+.{decimals_of(summary)}f"
    lines: list[TableLine] = []
    if not _over_datasets(summary):
        return lines
    for method, found in zip(summary.methods, summary.standings, strict=True):
        if method == summary.reference or np.isnan(found.average):
            continue
        texts = (
            number_text(found.difference, signed),
            f"{number_text(found.low, signed)} to {number_text(found.high, signed)}",
            p_value_text(found.t_p_value),
            p_value_text(found.wilcoxon_p_value),
            number_text(found.rank, ".2f"),
            _win_tie_loss(summary, method),
        )
        lines.append(TableLine(method, [CellText(text) for text in texts]))
    return lines


def method_lines(summary: Summary) -> list[TableLine]:
    """Return the only line of a table turned by a quarter: a line per method, the best first.

    The cells are the figure, the p-values of the three tests and the further figures.
    """
    (texts,), (line,) = table_lines(summary), summary.lines
    sign = -1 if summary.study.higher_is_better else 1
    order = np.argsort([sign * entry.mean for entry in line.entries], kind="stable")
    lines = []
    for m in order:
        entry = line.entries[m]
        p_values = entry.t_p_value, entry.corrected_p_value, entry.wilcoxon_p_value
        extra = [number_text(entry.extra[name], ".3g") for name in summary.study.extra]
        cells = [CellText(text) for text in [*map(p_value_text, p_values), *extra]]
        lines.append(TableLine(summary.methods[m], [texts.cells[m], *cells]))
    return lines


def method_head(summary: Summary) -> list[str]:
    """Return the names of the columns of `method_lines`."""
    study = summary.study
    extra = [figure_of(name).words for name in study.extra]
    tests = ["p, t-test", "p, corrected t-test", "p, Wilcoxon"]
    return ["method", with_unit(study.metric, study.scale), *tests, *extra]


def decimals_of(summary: Summary) -> int:
    """Return how many decimals to show: as many as the paper, or three significant digits."""
    entries = [entry for line in summary.lines for entry in line.entries]
    printed = [entry.paper for entry in entries if not np.isnan(entry.paper)]
    if printed:
        texts = [np.format_float_positional(value, trim="-") for value in printed]
        return min(6, max(len(text.partition(".")[2]) for text in texts))
    sizes = [abs(entry.mean) for entry in entries if entry.mean and not np.isnan(entry.mean)]
    typical = float(np.median(sizes)) if sizes else 1.0
    return int(np.clip(2 - np.floor(np.log10(typical)), 1, 6))


def number_text(value: float, form: str) -> str:
    """Return a number in a form such as ``".2f"``, a dash for nan."""
    return DASH if np.isnan(value) else format(value, form)


def p_value_text(value: float) -> str:
    """Return a p-value with three decimals, a dash for nan."""
    return "<0.001" if value < 0.001 else number_text(value, ".3f")


def plural(count: int, noun: str) -> str:
    """Return how many there are, such as "2 rows"."""
    return f"{count} {noun}" + ("" if count == 1 else "s")


def status(summary: Summary) -> str:
    """Return how much of a study is finished."""
    text = f"{summary.n_finished} of {summary.n_cells} cells finished"
    for count, name in ((summary.n_impossible, "impossible"), (summary.n_failed, "failed")):
        if count:
            text += f", {count} {name}"
    return f"{text}."


def legend(summary: Summary) -> list[str]:
    """Return what the figures and marks of the table mean."""
    study = summary.study
    what = study.metric if study.scale == 1 else f"{study.metric} times {study.scale:g}"
    better = "higher" if study.higher_is_better else "lower"
    each = (
        f", each the mean over the {len(study.settings)} settings of {study.axis!r}"
        if study.pooled and len(study.settings) > 1
        else ""
    )
    lines = [
        f"Figures are {what}, {better} is better: mean and standard deviation over "
        f"{plural(len(summary.repetitions), 'repetition')}{each}.",
        f"Bold is the best of a line; {LEVEL_MARK} is not significantly different from the best "
        f"(paired t-test over the repetitions, Holm's correction, level {study.level:g}).",
    ]
    if summary.test_ratios and len(summary.repetitions) >= LEAST_TESTED:
        lines.append(
            "Repetitions share their samples, for which the corrected resampled t-test (Nadeau "
            "and Bengio 2003) allows and the plain one does not."
        )
    if study.paper:
        lines.append("Beside ours: the paper's figure, and ours minus the paper's.")
    shown = [name for name in study.diagnostics if name in summary.methods]
    if shown:
        lines.append(
            f"Marked {DIAGNOSTIC_MARK} and compared with nothing: {', '.join(shown)}, which reads "
            "what a method must not read."
        )
    if _over_datasets(summary):
        lines.append(
            f"Win-tie-loss counts lines against {summary.reference}, the method with the best "
            "average; a tie is a difference that is not significant or, where there are fewer than "
            f"{LEAST_TESTED} repetitions and so no tests, no difference."
        )
    return lines


def remarks(summary: Summary) -> list[str]:
    """Return what is particular about the figures: gaps, and whether the paper's winner wins."""
    return [*_gaps(summary), *_against_paper(summary)]


def stand_ins(summary: Summary) -> list[str]:
    """Return which data sets are not those of the paper, and why."""
    return [f"{d.name}: {d.stand_in}" for d in summary.study.datasets if d.stand_in]


def _over_datasets(summary: Summary) -> bool:
    """Return whether there is something to say of several data sets."""
    return bool(summary.reference) and len(summary.study.datasets) > 1


def _cell(entry: Entry, decimals: int, diagnostic: bool) -> CellText:
    ours = "failed" if entry.failed else "impossible" if entry.impossible else DASH
    mark = LEVEL_MARK if entry.level else ""
    if entry.n:
        spread = "" if np.isnan(entry.std) else f" ± {entry.std:.{decimals}f}"
        ours = f"{entry.mean:.{decimals}f}{spread}"
        if not entry.compared:
            mark = DIAGNOSTIC_MARK if diagnostic else ALONE_MARK
    return CellText(ours, entry.best, mark, *_paper_texts(entry.mean, entry.paper, decimals))


def _paper_texts(ours: float, paper: float, decimals: int) -> tuple[str, str]:
    """Return the paper's figure and ours minus that, empty where there is none."""
    if np.isnan(paper):
        return "", ""
    return f"{paper:.{decimals}f}", "" if np.isnan(ours) else f"{ours - paper:+.{decimals}f}"


def _p_values(entry: Entry) -> str:
    if entry.best:
        return "best"
    tests = entry.t_p_value, entry.corrected_p_value, entry.wilcoxon_p_value
    return " / ".join(map(p_value_text, tests))


def _win_tie_loss(summary: Summary, method: str) -> str:
    """Return the counts of a method, a dash for the reference and methods without an average."""
    standing = summary.standings[summary.methods.index(method)]
    if method == summary.reference or np.isnan(standing.average):
        return DASH
    return f"{standing.wins}-{standing.ties}-{standing.losses}"


def _gaps(summary: Summary) -> Iterator[str]:
    n_full = len(summary.repetitions)
    shared = [line.n_shared for line in summary.lines if line.n_shared]
    if shared and max(shared) < LEAST_TESTED:
        yield (
            f"There are no tests within a line: {plural(max(shared), 'repetition')} cannot tell "
            "methods apart."
        )
    fewer = [
        f"{line.label} ({line.n_shared})" for line in summary.lines if 0 < line.n_shared < n_full
    ]
    if fewer:
        yield (
            f"Over fewer than {n_full} repetitions, those that all compared methods have: "
            f"{', '.join(fewer)}."
        )
    alone = [
        f"{method} on {line.label} ({entry.n})"
        for line in summary.lines
        for method, entry in zip(summary.methods, line.entries, strict=True)
        if entry.n and not entry.compared and method not in summary.study.diagnostics
    ]
    if alone:
        yield (
            f"Marked {ALONE_MARK} and not compared, with their own and too few repetitions: "
            f"{', '.join(alone)}."
        )
    n_datasets = len(summary.study.datasets)
    if summary.reference and len(summary.averaged) < n_datasets:
        yield (
            f"Averages, ranks and win-tie-loss are over the {len(summary.averaged)} of "
            f"{n_datasets} data sets that all compared methods have: {', '.join(summary.averaged)}."
        )
    if summary.n_left_out:
        yield (
            f"Left out: {plural(summary.n_left_out, 'row')} of the store for cells that the "
            "study, as it is defined now, does not have."
        )


def _against_paper(summary: Summary) -> Iterator[str]:
    study = summary.study
    if not study.paper:
        return
    own, printed = {str(s) for s in study.settings}, {str(s) for s in study.paper_settings}
    if study.pooled and printed and own != printed:
        yield (
            f"Our means are over {plural(len(own), 'setting')} of {study.axis!r}, "
            f"{', '.join(sorted(own))}, the paper's over {len(printed)}: differences are partly "
            "due to that."
        )
    if study.axis == "reading":
        yield _readings(summary)
        return
    agreed = [_winner_holds(summary, position) for position in range(len(summary.lines))]
    known = [holds for holds in agreed if holds is not None]
    if known:
        yield (
            "Among the methods that both have, the paper's best of a line is our best, or not "
            f"significantly different from it, in {sum(known)} of {len(known)} lines."
        )
    table = np.array([entry.difference for line in summary.lines for entry in line.entries])
    differences = np.abs(table[~np.isnan(table)])
    if len(differences):
        yield (
            f"Our figures and the paper's are {differences.mean():.3g} apart on average and "
            f"{differences.max():.3g} at most."
        )


def _readings(summary: Summary) -> str:
    """Tell how far each reading is from the paper."""
    found = compared_readings(summary)
    if found is None:
        return "No data set has all repetitions in all readings yet: there is nothing to compare."
    told = [f"{name}: {x:.2f}" for name, x in zip(found.names, found.distances, strict=True)]
    return (
        f"Mean absolute difference to the printed {' and '.join(summary.methods)} over "
        f"{plural(found.differences.shape[1], 'data set')}, the nearest reading first: "
        f"{'; '.join(told)}."
    )


def _winner_holds(summary: Summary, position: int) -> bool | None:
    """Return whether the paper's best method of a line does as well here, None if unknown."""
    higher = summary.study.higher_is_better
    entries = summary.lines[position].entries
    both = [m for m, e in enumerate(entries) if e.compared and not np.isnan(e.paper)]
    scores = summary.scores[:, position]
    _, repetitions = judged(summary.study, summary.methods, scores)
    if len(both) < 2 or repetitions.sum() < LEAST_TESTED:
        return None
    winner = best_method([entries[m].paper for m in both], higher_is_better=higher)
    ours = best_method([entries[m].mean for m in both], higher_is_better=higher)
    p_values = compare_with(scores[both][:, repetitions], ours).t_p_values
    return bool(winner == ours or p_values[winner] > summary.study.level)
