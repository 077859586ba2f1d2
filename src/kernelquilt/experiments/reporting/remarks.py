"""What a reader of a table must know, in sentences."""

from collections.abc import Iterator

import numpy as np

from kernelquilt.experiments.reporting.statistics import best_method, compare_with
from kernelquilt.experiments.reporting.summary import LEAST_TESTED, Summary, shared


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
        f"Bold is the best of a line; † is not significantly different from the best (paired "
        f"t-test over the repetitions, Holm's correction, level {study.level:g}).",
    ]
    if study.paper:
        lines.append("Beside ours: the paper's figure, and ours minus the paper's.")
    shown = [name for name in study.diagnostics if name in summary.methods]
    if shown:
        lines.append(
            f"Marked § and compared with nothing: {', '.join(shown)}, which reads what a method "
            "must not read."
        )
    if summary.reference:
        lines.append(
            f"Win-tie-loss counts lines against {summary.reference}, the method with the best "
            "average; a tie is a difference that is not significant or, where there are fewer than "
            f"{LEAST_TESTED} repetitions and so no tests, no difference."
        )
    return lines


def remarks(summary: Summary) -> list[str]:
    """Return what is particular about the figures: gaps, and whether the paper's winner wins."""
    return [*_gaps(summary), *_paper(summary)]


def stand_ins(summary: Summary) -> list[str]:
    """Return which data sets are not those of the paper, and why."""
    return [f"{d.name}: {d.stand_in}" for d in summary.study.datasets if d.stand_in]


def _gaps(summary: Summary) -> Iterator[str]:
    n_full = len(summary.repetitions)
    tested = [line.n_shared for line in summary.lines if line.n_shared]
    if tested and max(tested) < LEAST_TESTED:
        yield (
            f"There are no tests within a line: {plural(max(tested), 'repetition')} cannot tell "
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
            "Marked ‡ and not compared, with their own and too few repetitions: "
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


def _paper(summary: Summary) -> Iterator[str]:
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
    agreed = [_winner_holds(summary, position) for position in range(len(summary.lines))]
    judged = [holds for holds in agreed if holds is not None]
    if judged:
        yield (
            "Among the methods that both have, the paper's best of a line is our best, or not "
            f"significantly different from it, in {sum(judged)} of {len(judged)} lines."
        )
    differences = [
        abs(entry.difference)
        for line in summary.lines
        for entry in line.entries
        if not np.isnan(entry.difference)
    ]
    if differences:
        yield (
            f"Our figures and the paper's are {np.mean(differences):.3g} apart on average and "
            f"{np.max(differences):.3g} at most."
        )


def _winner_holds(summary: Summary, position: int) -> bool | None:
    """Return whether the paper's best method of a line does as well here, None if unknown."""
    higher = summary.study.higher_is_better
    entries = summary.lines[position].entries
    both = [m for m, e in enumerate(entries) if e.compared and not np.isnan(e.paper)]
    scores = summary.scores[:, position]
    _, repetitions = shared(~np.isnan(scores) & summary.competing)
    if len(both) < 2 or repetitions.sum() < LEAST_TESTED:
        return None
    winner = best_method([entries[m].paper for m in both], higher_is_better=higher)
    ours = best_method([entries[m].mean for m in both], higher_is_better=higher)
    p_values = compare_with(scores[both][:, repetitions], ours).t_p_values
    return bool(winner == ours or p_values[winner] > summary.study.level)


def plural(count: int, noun: str) -> str:
    """Return how many there are, such as "2 rows"."""
    return f"{count} {noun}" + ("" if count == 1 else "s")
