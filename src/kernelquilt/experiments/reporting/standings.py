"""How the methods of a study stand over all of its data sets."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from kernelquilt._typing import Bools, Floats
from kernelquilt.experiments.reporting.statistics import (
    best_method,
    compare_with,
    mean_interval,
    paired_differences,
    rank_methods,
    win_tie_loss,
)
from kernelquilt.experiments.reporting.summary import (
    LEAST_TESTED,
    RANK_LEVEL,
    Standing,
    Summary,
    shared,
)


def with_standings(summary: Summary) -> Summary:
    """Return a summary with the averages, ranks and comparisons over the data sets.

    Parameters
    ----------
    summary : Summary
        With its lines.

    Returns
    -------
    summary : Summary
    """
    datasets = [dataset.name for dataset in summary.study.datasets]
    lines_of = [_own_lines(summary, name) for name in datasets]
    shape = len(summary.lines), len(summary.methods)
    entries = [entry for line in summary.lines for entry in line.entries]
    means = np.reshape([e.mean if e.compared else np.nan for e in entries], shape).T
    printed = np.reshape([e.paper for e in entries], shape).T
    scores = np.full((len(summary.methods), len(datasets)), np.nan)
    for column, at in zip(scores.T, lines_of, strict=True):
        column[:] = means[:, at].mean(axis=1)
    compared, used = shared(~np.isnan(scores))
    at = [p for places, kept in zip(lines_of, used, strict=True) if kept for p in places]
    # the paper's average is over the same lines as ours, if there are any of ours
    chosen = printed[:, at] if at else printed
    paper = chosen.mean(axis=1) if chosen.shape[1] else np.full(len(chosen), np.nan)
    summary = replace(
        summary,
        standings=tuple(Standing(paper_average=float(value)) for value in paper),
        averaged=tuple(name for name, kept in zip(datasets, used, strict=True) if kept),
    )
    return _compared(summary, scores[compared][:, used], compared, at) if at else summary


def _own_lines(summary: Summary, dataset: str) -> list[int]:
    """Return the positions of the lines that the study has for a data set."""
    return [
        position
        for position, line in enumerate(summary.lines)
        if line.dataset == dataset and line.setting in ("", *summary.settings)
    ]


def _compared(summary: Summary, scores: Floats, compared: Bools, lines: list[int]) -> Summary:
    """Return the summary with the standings of the compared methods.

    `scores` (n_compared, n_datasets) are their means on the data sets that all of them have, and
    `lines` the positions of the lines of these data sets.
    """
    higher = summary.study.higher_is_better
    averages = scores.mean(axis=1)
    reference = best_method(averages, higher_is_better=higher)
    overall = compare_with(scores, reference)
    intervals = [mean_interval(values) for values in paired_differences(scores, reference)]
    ranking = rank_methods(scores, level=RANK_LEVEL, higher_is_better=higher)
    counts = _counts(summary, compared, reference, lines)
    standings = list(summary.standings)
    for i, m in enumerate(np.flatnonzero(compared)):
        mean, low, high = intervals[i]
        standings[m] = replace(
            standings[m],
            average=float(averages[i]),
            rank=float(ranking.average_ranks[i]),
            difference=mean,
            low=low,
            high=high,
            t_p_value=float(overall.t_p_values[i]),
            wilcoxon_p_value=float(overall.wilcoxon_p_values[i]),
            wins=int(counts[i, 0]),
            ties=int(counts[i, 1]),
            losses=int(counts[i, 2]),
        )
    ranked = tuple(m for m, kept in zip(summary.methods, compared, strict=True) if kept)
    return replace(
        summary,
        standings=tuple(standings),
        reference=ranked[reference],
        ranking=ranking if min(scores.shape) > 1 else None,
        ranked=ranked,
    )


def _counts(
    summary: Summary, compared: Bools, reference: int, lines: list[int]
) -> NDArray[np.int64]:
    """Return wins, ties and losses (n_compared, 3) against the reference over lines."""
    differences, p_values = [], []
    for position in lines:
        scores = summary.scores[:, position]
        _, repetitions = shared(~np.isnan(scores) & summary.competing)
        comparison = compare_with(scores[compared][:, repetitions], reference)
        tested = repetitions.sum() >= LEAST_TESTED
        differences.append(comparison.differences)
        p_values.append(comparison.t_p_values if tested else np.full(compared.sum(), np.nan))
    return win_tie_loss(
        np.stack(differences, axis=1),
        np.stack(p_values, axis=1),
        level=summary.study.level,
        higher_is_better=summary.study.higher_is_better,
    )
