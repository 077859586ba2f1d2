"""A report of the studies of a store: one page, and tables and figures in files.

The page needs nothing but itself: its style and its figures are part of it.
"""

import base64
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, is_dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from kernelquilt.experiments.reporting.figures import StudyFigure, study_figures, to_png, to_svg
from kernelquilt.experiments.reporting.remarks import legend, remarks, stand_ins, status
from kernelquilt.experiments.reporting.summarise import summarise
from kernelquilt.experiments.reporting.summary import Summary
from kernelquilt.experiments.reporting.table_text import (
    closing_lines,
    decimals_of,
    extra_lines,
    number_text,
    p_value_text,
    table_lines,
    win_tie_loss_text,
)
from kernelquilt.experiments.reporting.tables import to_csv, to_latex, to_markdown
from kernelquilt.experiments.running.store import Store
from kernelquilt.experiments.study.protocol import ProtocolError, Study


@dataclass(frozen=True)
class Report:
    """What was written.

    Attributes
    ----------
    page : Path
        The report as one page.
    files : tuple of Path
        Tables and figures.
    summaries : tuple of Summary
        One per study.
    """

    page: Path
    files: tuple[Path, ...]
    summaries: tuple[Summary, ...]


def write_report(summaries: Sequence[Summary], output: str | Path) -> Report:
    """Write the report of studies.

    Parameters
    ----------
    summaries : sequence of Summary
        Such as those of `summaries_of`.
    output : path-like
        A directory, made if it is not there: ``report.html``, and for each study
        ``<protocol>-<study>`` with the endings ``.md``, ``.csv``, ``.tex`` and for each figure
        ``.svg`` and ``.png``.

    Returns
    -------
    report : Report
    """
    environment = _environment()
    directory = Path(output)
    directory.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    sections = []
    for summary, stem in zip(summaries, _stems(summaries), strict=True):
        figures = study_figures(summary)
        contents = _contents(summary, stem, figures)
        for name, content in contents.items():
            (directory / name).write_bytes(content)
            written.append(directory / name)
        sections.append(_section(summary, stem, figures, contents))
    page = directory / "report.html"
    text = environment.get_template("report.html").render(
        sections=sections, seeds=_seeds(summaries), versions=_versions(summaries)
    )
    page.write_text(text, encoding="utf-8")
    return Report(page, tuple(written), tuple(summaries))


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


def report_json(summaries: Sequence[Summary]) -> dict[str, Any]:
    """Return summaries as plain data for JSON, nan as None.

    Parameters
    ----------
    summaries : sequence of Summary

    Returns
    -------
    report : dict
        With the summaries as ``"studies"``.
    """
    return {"studies": [_plain(summary) for summary in summaries]}


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return _plain(asdict(value))
    if isinstance(value, dict):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _environment() -> Any:
    try:
        import jinja2
        import matplotlib  # noqa: F401
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f'reports need {error.name}: pip install "kernelquilt[report]"'
        ) from error
    folder = files("kernelquilt.experiments.reporting") / "templates"
    text = (folder / "report.html").read_text("utf-8")
    return jinja2.Environment(
        loader=jinja2.DictLoader({"report.html": text}),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _stems(summaries: Iterable[Summary]) -> list[str]:
    """Return names of files, distinct where two studies would share one."""
    stems: list[str] = []
    for summary in summaries:
        name = f"{summary.study.protocol}-{summary.study.name}"
        stem = plain = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.") or "study"
        while stem.lower() in {other.lower() for other in stems}:
            stem = f"{plain}-{len(stems) + 1}"
        stems.append(stem)
    return stems


def _contents(summary: Summary, stem: str, figures: list[StudyFigure]) -> dict[str, bytes]:
    contents = {
        f"{stem}.md": to_markdown(summary).encode(),
        f"{stem}.csv": to_csv(summary).encode(),
        f"{stem}.tex": to_latex(summary).encode(),
    }
    for drawn in figures:
        contents[f"{stem}-{drawn.name}.svg"] = to_svg(drawn.figure)
        contents[f"{stem}-{drawn.name}.png"] = to_png(drawn.figure)
    return contents


def _section(
    summary: Summary, stem: str, figures: list[StudyFigure], contents: dict[str, bytes]
) -> dict[str, Any]:
    """Return what the template shows of a study."""
    return {
        "id": stem,
        "study": summary.study,
        "methods": summary.methods,
        "status": status(summary),
        "complete": summary.n_finished == summary.n_cells,
        "lines": table_lines(summary),
        "closing": closing_lines(summary),
        "extras": [(name, extra_lines(summary, name)) for name in summary.study.extra],
        "legend": legend(summary),
        "remarks": remarks(summary),
        "stand_ins": stand_ins(summary),
        "figures": [
            {
                "source": _data_uri(contents[f"{stem}-{drawn.name}.svg"]),
                "caption": drawn.caption,
                "alternative": drawn.alternative,
            }
            for drawn in figures
        ],
        "reference": summary.reference,
        "standings": _standings(summary),
        "p_values": _p_values(summary),
        "problems": summary.problems,
        "files": list(contents),
    }


def _data_uri(svg: bytes) -> str:
    return f"data:image/svg+xml;base64,{base64.b64encode(svg).decode()}"


def _standings(summary: Summary) -> list[list[str]]:
    decimals = decimals_of(summary)
    rows = []
    for method, standing in zip(summary.methods, summary.standings, strict=True):
        if math.isnan(standing.average) or method == summary.reference:
            continue
        ends = (number_text(x, decimals, signed=True) for x in (standing.low, standing.high))
        rows.append(
            [
                method,
                number_text(standing.difference, decimals, signed=True),
                " to ".join(ends),
                p_value_text(standing.t_p_value),
                p_value_text(standing.wilcoxon_p_value),
                number_text(standing.rank, 2),
                win_tie_loss_text(summary, method),
            ]
        )
    return rows


def _p_values(summary: Summary) -> list[tuple[str, list[str]]]:
    """Return the p-values of both tests for each line that has any."""
    return [
        (
            line.label,
            [
                "best"
                if entry.best
                else f"{p_value_text(entry.t_p_value)} / {p_value_text(entry.wilcoxon_p_value)}"
                for entry in line.entries
            ],
        )
        for line in summary.lines
        if any(entry.best for entry in line.entries)
    ]


def _seeds(summaries: Iterable[Summary]) -> list[int]:
    return sorted({seed for summary in summaries for seed in summary.seeds})


def _versions(summaries: Iterable[Summary]) -> dict[str, list[str]]:
    found: dict[str, set[str]] = {}
    for summary in summaries:
        for name, versions in summary.versions.items():
            found.setdefault(name, set()).update(versions)
    return {name: sorted(versions) for name, versions in sorted(found.items())}
