"""The table of a study as Markdown, CSV and LaTeX.

Lines are data sets, or data sets and settings, and columns are methods. Markdown and LaTeX are for
reading; CSV has one line per data set, setting and method with all figures in full precision.
"""

import csv
import io
import re
from collections.abc import Callable, Iterable

import numpy as np

from kernelquilt.experiments.reporting.remarks import legend, remarks, stand_ins, status
from kernelquilt.experiments.reporting.summary import Summary
from kernelquilt.experiments.reporting.table_text import (
    CellText,
    TableLine,
    closing_lines,
    extra_lines,
    table_lines,
)

_CSV_COLUMNS = {
    "ours_mean": "mean",
    "ours_std": "std",
    "n": "n",
    "paper": "paper",
    "paper_std": "paper_std",
    "difference": "difference",
    "p_value": "t_p_value",
    "wilcoxon_p_value": "wilcoxon_p_value",
    "compared": "compared",
    "best": "best",
    "level_with_best": "level",
    "impossible": "impossible",
    "failed": "failed",
}
_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    # after a line break LaTeX would read an option
    "[": "{[}",
    "±": r"$\pm$",
    "†": r"$\dagger$",
    "‡": r"$\ddagger$",
    "§": r"\S{}",
    **{character: "\\" + character for character in "&%$#_{}"},
}
_HTML = {"<": "&lt;", ">": "&gt;", "&": "&amp;"}


def to_markdown(summary: Summary) -> str:
    """Return a summary as Markdown: title, table, and what a reader must know."""
    blocks = [f"# {_markdown(summary.study.title)}", _markdown(status(summary))]
    lines = [*table_lines(summary), *closing_lines(summary)]
    blocks.append(_markdown_table(summary, lines))
    for name in summary.study.extra:
        blocks.append(f"Mean of {_markdown(name)}:")
        blocks.append(_markdown_table(summary, extra_lines(summary, name)))
    blocks.append("\n".join(f"- {_markdown(text)}" for text in _below(summary)))
    return "\n\n".join(blocks) + "\n"


def to_latex(summary: Summary) -> str:
    """Return a summary as a LaTeX table; it needs the package booktabs."""
    rows = [_latex_row(["", *summary.methods]), r"\midrule"]
    for line in table_lines(summary):
        rows += _latex_lines(line)
    rows.append(r"\midrule")
    for line in closing_lines(summary):
        rows += _latex_lines(line)
    below = r" \\ ".join(_latex(text) for text in [status(summary), *_below(summary)])
    return "\n".join(
        [
            "% needs \\usepackage{booktabs}",
            r"\begin{table}",
            rf"\caption{{{_latex(summary.study.title)}}}",
            rf"\begin{{tabular}}{{l{'r' * len(summary.methods)}}}",
            r"\toprule",
            *rows,
            r"\bottomrule",
            r"\end{tabular}",
            "",
            rf"\footnotesize {below}",
            r"\end{table}",
            "",
        ]
    )


def to_csv(summary: Summary) -> str:
    """Return a summary as CSV, one line per data set, setting and method."""
    study = summary.study
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    names = ["protocol", "study", "dataset", "setting", "method", "metric"]
    writer.writerow([*names, *_CSV_COLUMNS, *study.extra])
    for line in summary.lines:
        for method, entry in zip(summary.methods, line.entries, strict=True):
            where = [study.protocol, study.name, line.dataset, line.setting, method, study.metric]
            values = [getattr(entry, name) for name in _CSV_COLUMNS.values()]
            figures = [*values, *(entry.extra[name] for name in study.extra)]
            writer.writerow([*where, *(_csv(value) for value in figures)])
    return text.getvalue()


def _below(summary: Summary) -> list[str]:
    replaced = [f"Stand-in, {text}" for text in stand_ins(summary)]
    return [*legend(summary), *remarks(summary), *replaced, *summary.study.notes]


def _replaced(text: str, table: dict[str, str]) -> str:
    return " ".join("".join(table.get(character, character) for character in text).split())


def _markdown(text: str) -> str:
    return re.sub(r"([\\`*_\[\]|~#])", r"\\\1", _replaced(text, _HTML))


def _markdown_table(summary: Summary, lines: Iterable[TableLine]) -> str:
    rows = [["", *map(_markdown, summary.methods)], ["---", *["---:"] * len(summary.methods)]]
    rows += [[_markdown(line.label), *map(_markdown_cell, line.cells)] for line in lines]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _markdown_cell(cell: CellText) -> str:
    ours = (f"**{cell.ours}**" if cell.best else cell.ours) + cell.mark
    printed = ", ".join(text for text in (cell.paper, cell.difference) if text)
    return f"{ours} [{printed}]" if printed else ours


def _latex(text: str) -> str:
    return _replaced(text, _LATEX)


def _latex_row(cells: Iterable[str], write: Callable[[str], str] = _latex) -> str:
    return " & ".join(write(cell) for cell in cells) + r" \\"


def _latex_lines(line: TableLine) -> list[str]:
    """Return ours and, if the paper printed any figures, these in a line of their own."""
    ours = [
        (rf"\textbf{{{_latex(cell.ours)}}}" if cell.best else _latex(cell.ours)) + _latex(cell.mark)
        for cell in line.cells
    ]
    rows = [_latex_row([_latex(line.label), *ours], str)]
    if any(cell.paper for cell in line.cells):
        printed = [
            f"{cell.paper} ({cell.difference})" if cell.difference else cell.paper
            for cell in line.cells
        ]
        rows.append(_latex_row([r"\quad paper (difference)", *printed], str))
    return rows


def _csv(value: float | bool | int) -> str:
    if isinstance(value, bool | int):
        return str(int(value))
    return "" if np.isnan(value) else repr(float(value))
