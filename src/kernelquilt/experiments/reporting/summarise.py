"""From the rows of a store to the summary of a study."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kernelquilt._typing import Array, Bools, Floats
from kernelquilt.experiments.reporting.standings import with_standings
from kernelquilt.experiments.reporting.statistics import best_method, compare_with
from kernelquilt.experiments.reporting.summary import (
    LEAST_TESTED,
    Entry,
    Line,
    Problem,
    Standing,
    Summary,
    competing,
    shared,
)
from kernelquilt.experiments.running.store import Row
from kernelquilt.experiments.study.protocol import Cell, Study


@dataclass(frozen=True)
class _Found:
    """The rows of a study by (method, data set, setting, repetition)."""

    methods: list[str]
    settings: list[str]
    repetitions: list[tuple[int, int]]
    figures: dict[str, Floats]
    impossible: Bools
    failed: Bools


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
    seeds = {row.seed for row in rows} or {0}
    cells = {cell.key: cell for seed in seeds for cell in study.cells(seed)}
    kept = {row.key: _checked(row, study.metric) for row in rows if row.key in cells}
    seeds = {cells[key].seed for key in kept} or {min(seeds)}
    found = _find(study, {key: cells[key] for key in kept}, kept, seeds)
    lines, scores = _lines(study, found, study.pooled)
    summary = Summary(
        study=study,
        methods=tuple(found.methods),
        settings=tuple(found.settings),
        repetitions=tuple(found.repetitions),
        values=found.figures[study.metric],
        scores=scores,
        lines=tuple(lines),
        standings=tuple(Standing() for _ in found.methods),
        averaged=(),
        reference="",
        ranking=None,
        ranked=(),
        n_cells=sum(cell.seed in seeds for cell in cells.values()),
        n_finished=len(kept),
        n_impossible=sum(row.status == "impossible" for row in kept.values()),
        n_failed=sum(row.status == "failed" for row in kept.values()),
        n_left_out=len(rows) - len(kept),
        problems=_problems(kept.values()),
        seeds=tuple(sorted(seeds)),
        versions=_versions(kept.values()),
    )
    return with_standings(summary)


def _checked(row: Row, metric: str) -> Row:
    """Return a row as failed if it lacks the figure that is compared."""
    if row.status != "ok" or np.isfinite(row.figures.get(metric, np.nan)):
        return row
    return replace(row, status="failed", message=f"has no finite figure {metric!r}")


def _find(study: Study, cells: dict[str, Cell], rows: dict[str, Row], seeds: set[int]) -> _Found:
    methods = list(dict.fromkeys([*study.methods, *study.paper]))
    settings = [str(setting) for setting in study.settings]
    repetitions = [(seed, number) for seed in sorted(seeds) for number in range(study.repetitions)]
    positions = [
        {name: position for position, name in enumerate(names)}
        for names in (methods, [d.name for d in study.datasets], settings, repetitions)
    ]
    shape = (len(methods), len(study.datasets), len(settings), len(repetitions))
    names = dict.fromkeys([study.metric, *study.extra])
    found = _Found(
        methods,
        settings,
        repetitions,
        {name: np.full(shape, np.nan) for name in names},
        np.zeros(shape, dtype=np.bool_),
        np.zeros(shape, dtype=np.bool_),
    )
    for key, row in rows.items():
        where: tuple[Any, ...] = (
            row.method,
            row.dataset,
            row.setting,
            (cells[key].seed, row.repetition),
        )
        at = tuple(table[name] for table, name in zip(positions, where, strict=True))
        if row.status == "ok":
            for name, figures in found.figures.items():
                scale = study.scale if name == study.metric else 1.0
                figures[at] = scale * row.figures.get(name, np.nan)
        found.impossible[at] = row.status == "impossible"
        found.failed[at] = row.status == "failed"
    return found


def _lines(study: Study, found: _Found, pooled: bool) -> tuple[list[Line], Floats]:
    """Return the lines and their scores (n_methods, n_lines, n_repetitions)."""
    own = [dataset.name for dataset in study.datasets]
    printed = [name for figures in study.paper.values() for name in figures]
    settings = [""] if pooled else _line_settings(study)
    lines, scores = [], []
    for name in dict.fromkeys([*own, *printed]):
        places = [own.index(name)] if name in own else []
        for setting in settings:
            columns = [
                position for position, s in enumerate(found.settings) if pooled or s == setting
            ]
            figures = {
                key: _pooled(values[:, places][:, :, columns])
                for key, values in found.figures.items()
            }
            ended = [
                marks[:, places][:, :, columns].sum(axis=(1, 2, 3))
                for marks in (found.impossible, found.failed)
            ]
            lines.append(_line(study, found.methods, name, setting, figures, ended))
            scores.append(figures[study.metric])
    shape = (len(lines), len(found.methods), len(found.repetitions))
    return lines, np.array(scores).reshape(shape).swapaxes(0, 1)


def _pooled(values: Floats) -> Floats:
    """Return the mean over data set and settings, nan where one is lacking."""
    n_methods, n_places, n_columns, n_repetitions = values.shape
    if not n_places * n_columns:
        return np.full((n_methods, n_repetitions), np.nan)
    return np.asarray(values.mean(axis=(1, 2)))


def _line_settings(study: Study) -> list[str]:
    own = [str(setting) for setting in study.settings]
    printed = [str(setting) for setting in study.paper_settings] if study.paper else []
    ordered = [*printed, *own] if set(own) <= set(printed) else [*own, *printed]
    return list(dict.fromkeys(ordered))


def _line(
    study: Study,
    methods: list[str],
    dataset: str,
    setting: str,
    figures: dict[str, Floats],
    ended: list[Array],
) -> Line:
    scores = figures[study.metric]
    present = ~np.isnan(scores)
    compared, common = shared(present & competing(study, methods))
    best = np.zeros(len(methods), dtype=np.bool_)
    p_values = np.full((2, len(methods)), np.nan)
    if compared.sum() >= 2:
        means = scores[compared][:, common].mean(axis=1)
        first = best_method(means, higher_is_better=study.higher_is_better)
        comparison = compare_with(scores[compared][:, common], first)
        best[compared] = np.isclose(means, means[first], rtol=1e-12, atol=0)
        if common.sum() >= LEAST_TESTED:
            p_values[:, compared] = comparison.t_p_values, comparison.wilcoxon_p_values
    entries = []
    for m, method in enumerate(methods):
        used = common if compared[m] else present[m]
        n = int(used.sum())
        mean = float(scores[m, used].mean()) if n else np.nan
        paper = _printed(study, study.paper, method, dataset, setting)
        entry = Entry(
            mean=mean,
            std=float(scores[m, used].std(ddof=1)) if n > 1 else np.nan,
            n=n,
            compared=bool(compared[m]),
            best=bool(best[m]),
            level=bool(not best[m] and p_values[0, m] > study.level),
            t_p_value=float(p_values[0, m]),
            wilcoxon_p_value=float(p_values[1, m]),
            paper=paper,
            paper_std=_printed(study, study.paper_std, method, dataset, setting),
            difference=mean - paper,
            impossible=int(ended[0][m]),
            failed=int(ended[1][m]),
            extra={
                name: float(figures[name][m, used].mean()) if n else np.nan for name in study.extra
            },
        )
        entries.append(entry)
    return Line(dataset, setting, tuple(entries), int(common.sum()))


def _printed(
    study: Study, table: dict[str, dict[str, Any]], method: str, dataset: str, setting: str
) -> float:
    value = table.get(method, {}).get(dataset)
    if isinstance(value, list):
        settings = [str(s) for s in study.paper_settings or study.settings]
        value = dict(zip(settings, value, strict=False)).get(setting)
    return float(value) if isinstance(value, int | float) else np.nan


def _problems(rows: Iterable[Row]) -> tuple[Problem, ...]:
    """Return the messages, those of the most cells first."""
    told = [row for row in rows if row.message or row.status != "ok"]
    counts = Counter((row.status, row.method, row.message) for row in told)
    first = {(row.status, row.method, row.message): row for row in reversed(told)}
    return tuple(
        Problem(*key, n_cells, f"{first[key].dataset}, setting {first[key].setting}")
        for key, n_cells in counts.most_common()
    )


def _versions(rows: Iterable[Row]) -> dict[str, list[str]]:
    found: dict[str, set[str]] = {}
    for row in rows:
        for name, version in row.versions.items():
            found.setdefault(name, set()).add(version)
    return {name: sorted(versions) for name, versions in sorted(found.items())}
