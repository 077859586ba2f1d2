"""A report of studies: one page, and tables and figures in files.

The page needs nothing but itself: its style and its figures are part of it.
"""

import base64
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from kernelquilt.experiments.reporting import table, words
from kernelquilt.experiments.reporting.figures import study_figures, to_png, to_svg
from kernelquilt.experiments.reporting.summary import Summary, collected
from kernelquilt.experiments.reporting.writers import to_csv, to_latex, to_markdown

BY_SETTING = "by-setting"  # what files of settings that are pooled in the table end with


class Report(NamedTuple):
    """What was written: the page, tables and figures, and what they are of."""

    page: Path
    files: tuple[Path, ...]
    summaries: tuple[Summary, ...]


def write_report(summaries: Sequence[Summary], output: str | Path) -> Report:
    """Write the report of studies.

    Parameters
    ----------
    summaries : sequence of Summary
    output : path-like
        A directory, made if it is not there: ``report.html``, and for each study
        ``<protocol>-<study>`` with the endings ``.md``, ``.csv``, ``.tex``, for settings that are
        pooled in the table ``-by-setting.csv``, and for each figure ``.svg`` and ``.png``.

    Returns
    -------
    report : Report
    """
    template = load_template("report.html")
    directory = Path(output)
    directory.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    sections = []
    for summary, stem in zip(summaries, _stems(summaries), strict=True):
        contents = {
            f"{stem}.md": to_markdown(summary).encode(),
            f"{stem}.csv": to_csv(summary).encode(),
            f"{stem}.tex": to_latex(summary).encode(),
        }
        if len(summary.by_setting) > len(summary.lines):
            contents[f"{stem}-{BY_SETTING}.csv"] = to_csv(summary, by_setting=True).encode()
        figures = []
        for drawn in study_figures(summary):
            svg = contents[f"{stem}-{drawn.name}.svg"] = to_svg(drawn.figure)
            contents[f"{stem}-{drawn.name}.png"] = to_png(drawn.figure)
            figures.append((drawn, as_address(svg)))
        for name, content in contents.items():
            (directory / name).write_bytes(content)
            written.append(directory / name)
        sections.append({"id": stem, "summary": summary, "figures": figures, "files": contents})
    page = directory / "report.html"
    versions = collected(
        (name, version)
        for summary in summaries
        for name, found in summary.versions.items()
        for version in found
    )
    seeds = sorted({seed for summary in summaries for seed in summary.seeds})
    text = template.render(
        sections=sections, seeds=seeds, versions=versions, table=table, words=words
    )
    page.write_text(text, encoding="utf-8")
    return Report(page, tuple(written), tuple(summaries))


def as_address(svg: bytes) -> str:
    """Return an image as an address, which makes it part of the page."""
    return f"data:image/svg+xml;base64,{base64.b64encode(svg).decode()}"


def load_template(name: str) -> Any:
    """Return a template of a page in this folder."""
    try:
        import jinja2
        import matplotlib  # noqa: F401
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f'reports need {error.name}: pip install "kernelquilt[report]"'
        ) from error
    return jinja2.Environment(
        loader=jinja2.PackageLoader("kernelquilt.experiments.reporting", ""),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    ).get_template(name)


def _stems(summaries: Sequence[Summary]) -> list[str]:
    """Return names of files, distinct where two studies would share one."""
    stems: list[str] = []
    for summary in summaries:
        name = f"{summary.study.protocol}-{summary.study.name}"
        stem = plain = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.") or "study"
        while stem.lower() in {other.lower() for other in stems}:
            stem = f"{plain}-{len(stems) + 1}"
        stems.append(stem)
    return stems
