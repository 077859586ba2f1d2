"""What the finished cells of a study say, beside what the paper printed.

Figures that stand side by side are means over the same repetitions. Methods that have at least half
as many as the method with the most are compared, over the repetitions that all of them have; the
others are shown with their own repetitions and not compared. The same rule picks the data sets that
averages and ranks are over.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from kernelquilt._typing import Array, Bools, Floats
from kernelquilt.experiments.reporting.statistics import (
    Ranking,
    best_method,
    compare_with,
    mean_interval,
    paired_differences,
    rank_methods,
    win_tie_loss,
)
from kernelquilt.experiments.reporting.words import figure_of, setting_of
from kernelquilt.experiments.running.store import Row, Store
from kernelquilt.experiments.study.protocol import ProtocolError, Study

RANK_LEVEL = 0.05  # of the critical difference
COMPARED_SHARE = 0.5
LEAST_TESTED = 5  # repetitions; fewer cannot tell methods apart at the level


@dataclass(frozen=True)
class Entry:
    """A method in one line of the table; nan where there is no figure."""

    mean: float  # over the repetitions, as shown
    std: float
    # 95 % interval of the mean that allows for samples that repetitions share; nan with too few
    low: float
    high: float
    n: int  # repetitions
    paper: float  # what the paper printed
    paper_std: float
    difference: float  # ours minus the paper's
    # against the best, after Holm's correction; nan for the best, and with too few repetitions
    t_p_value: float
    corrected_p_value: float  # nan also if the sizes of the splits are not known
    wilcoxon_p_value: float
    compared: bool  # with the other methods of the line
    best: bool  # of these
    level: bool  # not significantly different from the best
    impossible: int  # cells without figures
    failed: int
    extra: dict[str, float]  # means of the further figures of the study


@dataclass(frozen=True)
class Line:
    """A line of the table: a data set, in one setting unless settings are pooled."""

    dataset: str
    setting: str  # empty if they are pooled
    entries: tuple[Entry, ...]  # one per method
    n_shared: int  # repetitions that all compared methods have
    label: str


@dataclass(frozen=True)
class Standing:
    """A method over the data sets that all compared methods have, nan if it lacks one."""

    average: float = np.nan
    paper_average: float = np.nan
    rank: float = np.nan  # mean over the data sets
    # mean difference to the best method over the data sets, and its 95 % interval
    difference: float = np.nan
    low: float = np.nan
    high: float = np.nan
    # of these differences, after Holm's correction
    t_p_value: float = np.nan
    wilcoxon_p_value: float = np.nan
    # lines against the best method; a tie is a difference that is not significant
    wins: int = 0
    ties: int = 0
    losses: int = 0


@dataclass(frozen=True)
class CellMessage:
    """Cells of one method that failed, were impossible or warned with the same words."""

    status: str
    method: str
    message: str
    n_cells: int
    example: str


@dataclass(frozen=True)
class Summary:
    """A study, its figures and their comparison."""

    study: Study
    methods: tuple[str, ...]  # those of the study, then those that only the paper has
    settings: tuple[str, ...]  # those of the study as text
    repetitions: tuple[tuple[int, int], ...]  # seed and number of each
    # figures as shown, nan where there are none: (n_methods, n_datasets, n_settings, n_repetitions)
    # of the study, and (n_methods, n_lines, n_repetitions), means over settings that are pooled
    values: Floats
    scores: Floats
    lines: tuple[Line, ...]  # those of the study, then those that only the paper has
    by_setting: tuple[Line, ...]  # of the study, one for each data set and setting
    n_cells: int
    n_finished: int  # with those without figures
    n_impossible: int
    n_failed: int
    n_left_out: int  # rows that are no cell of the study as it is defined now
    problems: tuple[CellMessage, ...]  # those of the most cells first
    seeds: tuple[int, ...]
    versions: dict[str, list[str]]
    standings: tuple[Standing, ...]  # one per method
    averaged: tuple[str, ...] = ()  # data sets that averages and ranks are over
    reference: str = ""  # the method with the best average, if there is any
    ranking: Ranking | None = None  # of `ranked`, if there are several on several data sets
    ranked: tuple[str, ...] = ()
    # test samples for each training sample, by data set; of those whose rows have these figures
    test_ratios: dict[str, float] = field(default_factory=dict)


def summaries_of(
    store: Store,
    *,
    protocol: str | None = None,
    study: str | None = None,
    metric: str | None = None,
) -> list[Summary]:
    """Return the summaries of the studies of a store.

    Parameters
    ----------
    store : Store
    protocol, study : str or None, default=None
        Which studies; all if None.
    metric : str or None, default=None
        The figure to compare by, in the place of that of the studies.

    Returns
    -------
    summaries : list of Summary

    Raises
    ------
    ProtocolError
        If the store has no such study, or the metric is no figure of its cells.
    """
    definitions = store.definitions()
    chosen = [
        key for key in sorted(definitions) if protocol in (None, key[0]) and study in (None, key[1])
    ]
    if not chosen:
        wanted = " of ".join(repr(name) for name in (study, protocol) if name is not None)
        there = ", ".join(f"{name!r} of {of!r}" for of, name in sorted(definitions)) or "none"
        raise ProtocolError(
            f"store {str(store.path)!r} has no study{f' {wanted}' if wanted else ''}; "
            f"it has: {there}"
        )
    found = []
    for key in chosen:
        asked, rows = Study.from_dict(definitions[key]), store.rows(*key)
        if metric is not None:
            figures = sorted({name for row in rows for name in row.figures})
            if metric not in figures:
                raise ProtocolError(f"no figure {metric!r}; there are {', '.join(figures)}")
            asked = replace(asked, metric=metric, paper={}, paper_std={})
        found.append(summarise(asked, rows))
    return found


def summarise(study: Study, rows: Sequence[Row]) -> Summary:
    """Summarise the rows of a study.

    Parameters
    ----------
    study : Study
    rows : sequence of Row
        Those that are no cell of the study, as it is defined now, are counted and left out.

    Returns
    -------
    summary : Summary
    """
    asked = {row.seed for row in rows} or {0}
    keys = {cell.key for seed in asked for cell in study.cells(seed)}
    kept = [_checked(row, study.metric) for row in rows if row.key in keys]
    seeds = sorted({row.seed for row in kept} or {min(asked)})
    # what the study has, then what only the paper has
    methods = list(dict.fromkeys([*study.methods, *study.paper]))
    own_datasets = [dataset.name for dataset in study.datasets]
    printed = [name for figures in study.paper.values() for name in figures]
    datasets = list(dict.fromkeys([*own_datasets, *printed]))
    own_settings = [str(setting) for setting in study.settings]
    settings = own_settings if study.pooled else _line_settings(study, own_settings)
    repetitions = [(seed, number) for seed in seeds for number in range(study.repetitions)]
    figures, ended = _arrays(study, (methods, datasets, settings, repetitions), kept)

    lines_of = [""] if study.pooled else settings
    labels = [(dataset, setting) for dataset in datasets for setting in lines_of]
    ratios = _test_ratios(kept)
    lines, scores = _lines(study, methods, labels, figures, ended, ratios)
    by_setting = lines
    if study.pooled:  # what the paper printed is of all settings
        alone = replace(study, paper={}, paper_std={})
        each = [(dataset, setting) for dataset in datasets for setting in settings]
        by_setting, _ = _lines(alone, methods, each, figures, ended, ratios)
    own = [
        [labels.index((d, s)) for s in lines_of if s in ("", *own_settings)] for d in own_datasets
    ]
    values = figures[study.metric][:, : len(own_datasets)]
    return Summary(
        study=study,
        methods=tuple(methods),
        settings=tuple(own_settings),
        repetitions=tuple(repetitions),
        values=values[:, :, [settings.index(setting) for setting in own_settings]],
        scores=scores,
        lines=lines,
        by_setting=tuple(
            line
            for line in by_setting
            if line.dataset in own_datasets and line.setting in own_settings
        ),
        test_ratios=ratios,
        **_overall(study, methods, lines, scores, own),
        n_cells=len(seeds) * sum(1 for _ in study.cells()),
        n_finished=len(kept),
        n_impossible=sum(row.status == "impossible" for row in kept),
        n_failed=sum(row.status == "failed" for row in kept),
        n_left_out=len(rows) - len(kept),
        problems=_problems(kept),
        seeds=tuple(seeds),
        versions=collected(pair for row in kept for pair in row.versions.items()),
    )


def shared(present: Bools) -> tuple[Bools, Bools]:
    """Return which methods to compare, and over which entries.

    Parameters
    ----------
    present : ndarray of bool of shape (n_methods, n)
        What each method has.

    Returns
    -------
    compared : ndarray of bool of shape (n_methods,)
        Methods with at least half as many entries as the one with the most; none if these have no
        entry in common.
    entries : ndarray of bool of shape (n,)
        What all of these have.
    """
    counts = present.sum(axis=1)
    compared = counts >= max(1.0, COMPARED_SHARE * counts.max(initial=0))
    entries = present[compared].all(axis=0) & compared.any()
    return compared & entries.any(), entries


def judged(study: Study, methods: Sequence[str], scores: Floats) -> tuple[Bools, Bools]:
    """Return which methods to compare by scores (n_methods, n), and over which; no diagnostics."""
    return shared(~np.isnan(scores) & ~np.isin(methods, study.diagnostics)[:, None])


def collected(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Return all versions of each package, sorted."""
    found: dict[str, set[str]] = {}
    for name, version in pairs:
        found.setdefault(name, set()).add(version)
    return {name: sorted(versions) for name, versions in sorted(found.items())}


def _test_ratios(rows: Sequence[Row]) -> dict[str, float]:
    found: dict[str, list[float]] = {}
    for row in rows:
        if "n_test" in row.figures and row.figures.get("n_train"):
            ratio = row.figures["n_test"] / row.figures["n_train"]
            found.setdefault(row.dataset, []).append(ratio)
    return {dataset: float(np.mean(ratios)) for dataset, ratios in found.items()}


def _checked(row: Row, metric: str) -> Row:
    """Return a row as failed if it lacks the figure that is compared."""
    if row.status != "ok" or np.isfinite(row.figures.get(metric, np.nan)):
        return row
    return replace(row, status="failed", message=f"has no finite figure {metric!r}")


def bounds(study: Study) -> tuple[float, float]:
    """Return what the metric of a study cannot be below and above, as shown."""
    figure = figure_of(study.metric)
    return study.scale * figure.low, study.scale * figure.high


def _line_settings(study: Study, own: list[str]) -> list[str]:
    printed = [str(setting) for setting in study.paper_settings] if study.paper else []
    ordered = [*printed, *own] if set(own) <= set(printed) else [*own, *printed]
    return list(dict.fromkeys(ordered))


def _arrays(
    study: Study, axes: tuple[list[Any], ...], rows: Sequence[Row]
) -> tuple[dict[str, Floats], dict[str, Bools]]:
    """Return figures and marks of cells without figures, by name, with an axis for each of `axes`.

    These are methods, data sets, settings and repetitions.
    """
    shape = [len(names) for names in axes]
    figures = {name: np.full(shape, np.nan) for name in (study.metric, *study.extra)}
    ended = {status: np.zeros(shape, dtype=np.bool_) for status in ("impossible", "failed")}
    for row in rows:
        where = row.method, row.dataset, row.setting, (row.seed, row.repetition)
        at = tuple(names.index(name) for names, name in zip(axes, where, strict=True))
        if row.status in ended:
            ended[row.status][at] = True
            continue
        for name, values in figures.items():
            values[at] = row.figures.get(name, np.nan)
    figures[study.metric] *= study.scale
    return figures, ended


def _lines(
    study: Study,
    methods: list[str],
    labels: list[tuple[str, str]],
    figures: dict[str, Floats],
    ended: dict[str, Bools],
    test_ratios: dict[str, float],
) -> tuple[tuple[Line, ...], Floats]:
    """Return a line for each label, and the scores (n_methods, n_lines, n_repetitions).

    Settings are pooled if there are fewer labels than data sets and settings.
    """
    _, n_datasets, n_settings, n_repetitions = figures[study.metric].shape
    n_pooled = n_datasets * n_settings // len(labels) if labels else 1
    shape = len(methods), len(labels), n_pooled, n_repetitions
    shown = {name: values.reshape(shape).mean(axis=2) for name, values in figures.items()}
    counts = {status: marks.reshape(shape).sum(axis=(2, 3)) for status, marks in ended.items()}
    lines = tuple(
        _line(study, methods, at, label, shown, counts, test_ratios)
        for at, label in enumerate(labels)
    )
    return lines, shown[study.metric]


def _line(
    study: Study,
    methods: list[str],
    position: int,
    label: tuple[str, str],
    figures: dict[str, Floats],
    ended: dict[str, Array],
    test_ratios: dict[str, float],
) -> Line:
    """Return a line from figures (n_methods, n_lines, n_repetitions) and counts of cells."""
    scores = figures[study.metric][:, position]
    compared, common = judged(study, methods, scores)
    best = np.zeros(len(methods), dtype=np.bool_)
    p_values = np.full((3, len(methods)), np.nan)
    if compared.sum() >= 2:
        means = scores[compared][:, common].mean(axis=1)
        first = best_method(means, higher_is_better=study.higher_is_better)
        best[compared] = np.isclose(means, means[first], rtol=1e-12, atol=0)
        if common.sum() >= LEAST_TESTED:
            ratio = test_ratios.get(label[0], np.nan)
            found = compare_with(scores[compared][:, common], first, ratio)
            p_values[:, compared] = (
                found.t_p_values,
                found.corrected_p_values,
                found.wilcoxon_p_values,
            )
    entries = []
    least, most = bounds(study)
    for m, method in enumerate(methods):
        used = common if compared[m] else ~np.isnan(scores[m])
        n = int(used.sum())
        mean = float(scores[m, used].mean()) if n else np.nan
        low, high = np.nan, np.nan
        if n >= LEAST_TESTED:
            ratio = test_ratios.get(label[0], 0.0)
            _, low, high = mean_interval(scores[m, used], test_ratio=ratio, low=least, high=most)
        paper = _printed(study, study.paper, method, *label)
        entry = Entry(
            mean=mean,
            low=low,
            high=high,
            std=float(scores[m, used].std(ddof=1)) if n > 1 else np.nan,
            n=n,
            compared=bool(compared[m]),
            best=bool(best[m]),
            level=bool(not best[m] and p_values[0, m] > study.level),
            t_p_value=float(p_values[0, m]),
            corrected_p_value=float(p_values[1, m]),
            wilcoxon_p_value=float(p_values[2, m]),
            paper=paper,
            paper_std=_printed(study, study.paper_std, method, *label),
            difference=mean - paper,
            impossible=int(ended["impossible"][m, position]),
            failed=int(ended["failed"][m, position]),
            extra={
                name: float(figures[name][m, position, used].mean()) if n else np.nan
                for name in study.extra
            },
        )
        entries.append(entry)
    dataset, setting = label
    words = f"{dataset}, {setting_of(study.axis, setting)}" if setting else dataset
    return Line(dataset, setting, tuple(entries), int(common.sum()), words)


def _printed(
    study: Study, table: dict[str, dict[str, Any]], method: str, dataset: str, setting: str
) -> float:
    value = table.get(method, {}).get(dataset)
    if isinstance(value, list):
        settings = [str(s) for s in study.paper_settings or study.settings]
        value = dict(zip(settings, value, strict=False)).get(setting)
    return float(value) if isinstance(value, int | float) else np.nan


def _overall(
    study: Study, methods: list[str], lines: Sequence[Line], scores: Floats, own: list[list[int]]
) -> dict[str, Any]:
    """Return how the methods stand over all data sets, by the names of `Summary`.

    `scores` has the shape (n_methods, n_lines, n_repetitions), and `own` the positions of the lines
    of each data set of the study.
    """
    shape = len(lines), len(methods)
    entries = [entry for line in lines for entry in line.entries]
    means = np.reshape([e.mean if e.compared else np.nan for e in entries], shape).T
    printed = np.reshape([e.paper for e in entries], shape).T
    by_set = np.reshape([means[:, at].mean(axis=1) for at in own], (len(own), len(methods))).T
    compared, used = shared(~np.isnan(by_set))
    at = [
        position
        for positions, kept in zip(own, used, strict=True)
        if kept
        for position in positions
    ]
    # the paper's average is over the same lines as ours, if there are any of ours
    chosen = printed[:, at] if at else printed
    paper = chosen.mean(axis=1) if chosen.size else np.full(len(methods), np.nan)
    standings = [Standing(paper_average=float(value)) for value in paper]
    if not at:
        return {"standings": tuple(standings)}
    higher = study.higher_is_better
    by_set = by_set[compared][:, used]
    averages = by_set.mean(axis=1)
    reference = best_method(averages, higher_is_better=higher)
    overall = compare_with(by_set, reference)
    differences = paired_differences(by_set, reference)
    ranking = rank_methods(by_set, level=RANK_LEVEL, higher_is_better=higher)
    by_line = [_against(study, methods, scores[:, line], compared, reference) for line in at]
    counts = win_tie_loss(*np.stack(by_line, axis=-1), level=study.level, higher_is_better=higher)
    for i, m in enumerate(np.flatnonzero(compared)):
        standings[m] = Standing(
            float(averages[i]),
            float(paper[m]),
            float(ranking.average_ranks[i]),
            *mean_interval(differences[i]),
            float(overall.t_p_values[i]),
            float(overall.wilcoxon_p_values[i]),
            *map(int, counts[i]),
        )
    ranked = tuple(method for method, kept in zip(methods, compared, strict=True) if kept)
    return {
        "standings": tuple(standings),
        "averaged": tuple(d.name for d, kept in zip(study.datasets, used, strict=True) if kept),
        "reference": ranked[reference],
        "ranking": ranking if min(by_set.shape) > 1 else None,
        "ranked": ranked,
    }


def _against(
    study: Study, methods: list[str], scores: Floats, compared: Bools, reference: int
) -> tuple[Floats, Floats]:
    """Return differences and p-values (n_compared,) against the reference in a line."""
    _, repetitions = judged(study, methods, scores)
    comparison = compare_with(scores[compared][:, repetitions], reference)
    tested = repetitions.sum() >= LEAST_TESTED
    return comparison.differences, np.where(tested, comparison.t_p_values, np.nan)


def _problems(rows: Sequence[Row]) -> tuple[CellMessage, ...]:
    told = [row for row in rows if row.message or row.status != "ok"]
    counts = Counter((row.status, row.method, row.message) for row in told)
    first = {(row.status, row.method, row.message): row for row in reversed(told)}
    return tuple(
        CellMessage(*key, n_cells, f"{first[key].dataset}, setting {first[key].setting}")
        for key, n_cells in counts.most_common()
    )
