"""The table of a study as Markdown, CSV and LaTeX, and for a terminal.

Lines are data sets, or data sets and settings, and columns are methods. Markdown, LaTeX and the
terminal are for reading; CSV has one line per data set, setting and method with all figures in full
precision.
"""

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np

from kernelquilt.experiments.reporting.summary import Entry, Summary
from kernelquilt.experiments.reporting.table import (
    DASH,
    LEVEL_MARK,
    STANDING_HEAD,
    STANDING_WORDS,
    TableLine,
    closing_lines,
    extra_lines,
    legend,
    plural,
    remarks,
    stand_ins,
    standing_lines,
    status,
    table_lines,
)
from kernelquilt.experiments.reporting.words import figure_of

if TYPE_CHECKING:
    from rich.console import Console

# of the columns, where the names in an entry say too little
_CSV_NAMES = {
    "mean": "ours_mean",
    "std": "ours_std",
    "low": "ours_low",
    "high": "ours_high",
    "t_p_value": "p_value",
    "level": "level_with_best",
}
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_HTML = {"<": "&lt;", ">": "&gt;", "&": "&amp;"}
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
# of the terminal: characters of a column with its margin, messages, and the mark of the best
_NAME_WIDTH, _CELL_WIDTH = 20, 15
_SHOWN_FAILURES = 5
_BEST = "*"


def to_markdown(summary: Summary) -> str:
    """Return a summary as Markdown: title, table, and what a reader must know."""
    blocks = [f"# {_markdown(summary.study.title)}", _markdown(status(summary))]
    lines = [*table_lines(summary), *closing_lines(summary)]
    blocks.append(_markdown_table(summary.methods, lines))
    standings = standing_lines(summary)
    if standings:
        blocks.append(f"Against {_markdown(summary.reference)}, {STANDING_WORDS}:")
        blocks.append(_markdown_table(STANDING_HEAD, standings))
    for name in summary.study.extra:
        blocks.append(f"Mean of {_markdown(figure_of(name).words)}:")
        blocks.append(_markdown_table(summary.methods, extra_lines(summary, name)))
    blocks.append("\n".join(f"- {_markdown(text)}" for text in _below(summary)))
    return "\n\n".join(blocks) + "\n"


def to_latex(summary: Summary) -> str:
    """Return a summary as a LaTeX table; it needs the package booktabs."""
    below = r" \\ ".join(_latex(text) for text in [status(summary), *_below(summary)])
    return "\n".join(
        [
            "% needs \\usepackage{booktabs}",
            r"\begin{table}",
            rf"\caption{{{_latex(summary.study.title)}}}",
            rf"\begin{{tabular}}{{l{'r' * len(summary.methods)}}}",
            r"\toprule",
            _latex_row("", map(_latex, summary.methods)),
            r"\midrule",
            *_latex_rows(table_lines(summary)),
            r"\midrule",
            *_latex_rows(closing_lines(summary)),
            r"\bottomrule",
            r"\end{tabular}",
            "",
            rf"\footnotesize {below}",
            r"\end{table}",
            "",
        ]
    )


def to_csv(summary: Summary, *, by_setting: bool = False) -> str:
    """Return a summary as CSV: one line per data set, method and, if not pooled, setting.

    With `by_setting` settings that are pooled in the table have lines of their own.
    """
    study = summary.study
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    names = [field.name for field in fields(Entry) if field.name != "extra"]
    where = ["protocol", "study", "dataset", "setting", "method", "metric"]
    own = [_CSV_NAMES.get(name, name) for name in names]
    writer.writerow([*where, *own, *map(_csv, study.extra)])
    for line in summary.by_setting if by_setting else summary.lines:
        for method, entry in zip(summary.methods, line.entries, strict=True):
            where = [study.protocol, study.name, line.dataset, line.setting, method, study.metric]
            figures = [getattr(entry, name) for name in names]
            figures += [entry.extra[name] for name in study.extra]
            figures = ["" if np.isnan(x) else +x for x in figures]
            writer.writerow([*map(_csv, where), *figures])
    return text.getvalue()


def _csv(text: str) -> str:
    """Return a name that no spreadsheet takes for a formula."""
    return f"'{text}" if text.startswith(_FORMULA) else text


def to_terminal(summary: Summary, console: "Console") -> Iterator[Any]:
    """Yield what to print of a study: tables, what they mean, and what is not in them.

    Parameters
    ----------
    summary : Summary
    console : rich Console
        Its width says how many methods stand side by side.

    Yields
    ------
    part : str or rich Table
    """
    study = summary.study
    shows = f" ({', '.join(study.shows)})" if study.shows else ""
    yield f"{study.protocol}, {study.name}: {study.title}{shows}"
    lines = [line for line in table_lines(summary) if any(cell.ours != DASH for cell in line.cells)]
    if len(lines) > 1:
        lines += closing_lines(summary)
    own = [summary.methods.index(method) for method in study.methods]
    per_table = max(1, (console.width - _NAME_WIDTH) // _CELL_WIDTH)
    for start in range(0, len(own), per_table):
        yield ""
        yield _terminal_table(summary.methods, lines, own[start : start + per_table])
    yield ""
    unit = study.metric if study.scale == 1 else f"{study.metric} x {study.scale:g}"
    yield (
        f"{unit}: mean and standard deviation of {plural(len(summary.repetitions), 'repetition')}; "
        f"{_BEST} best of its line, {LEVEL_MARK} not significantly different from it"
    )
    yield from _notes(summary)
    yield status(summary)
    failed = [problem for problem in summary.problems if problem.status == "failed"]
    for problem in failed[:_SHOWN_FAILURES]:
        yield f"failed: {problem.method}, {problem.n_cells} cells: {problem.message}"
    yield ""


def _below(summary: Summary) -> list[str]:
    return [*legend(summary), *_notes(summary)]


def _notes(summary: Summary) -> list[str]:
    replaced = [f"Stand-in, {text}" for text in stand_ins(summary)]
    return [*remarks(summary), *replaced, *summary.study.notes]


def _replaced(text: str, table: dict[str, str]) -> str:
    return " ".join("".join(table.get(character, character) for character in text).split())


def _markdown(text: str) -> str:
    return re.sub(r"([\\`*_\[\]|~#])", r"\\\1", _replaced(text, _HTML))


def _markdown_table(head: Sequence[str], lines: Iterable[TableLine]) -> str:
    rows = [["", *map(_markdown, head)], ["---", *["---:"] * len(head)]]
    for line in lines:
        row = [_markdown(line.label)]
        for cell in line.cells:
            printed = ", ".join(text for text in (cell.paper, cell.difference) if text)
            ours = (f"**{cell.ours}**" if cell.best else cell.ours) + cell.mark
            row.append(f"{ours} [{printed}]" if printed else ours)
        rows.append(row)
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _latex(text: str) -> str:
    return _replaced(text, _LATEX)


def _latex_row(label: str, cells: Iterable[str]) -> str:
    return " & ".join([label, *cells]) + r" \\"


def _latex_rows(lines: Iterable[TableLine]) -> Iterator[str]:
    """Yield ours and, if the paper printed any figures, these in a row of their own."""
    for line in lines:
        ours = [
            (rf"\textbf{{{_latex(cell.ours)}}}" if cell.best else _latex(cell.ours))
            + _latex(cell.mark)
            for cell in line.cells
        ]
        yield _latex_row(_latex(line.label), ours)
        if any(cell.paper for cell in line.cells):
            printed = [
                f"{cell.paper} ({cell.difference})" if cell.difference else cell.paper
                for cell in line.cells
            ]
            yield _latex_row(r"\quad paper (difference)", printed)


def _terminal_table(methods: tuple[str, ...], lines: list[TableLine], shown: list[int]) -> Any:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    table.add_column("", overflow="fold", max_width=_NAME_WIDTH)
    for position in shown:
        table.add_column(methods[position], justify="right", max_width=_CELL_WIDTH)
    for line in lines:
        cells = [line.cells[position] for position in shown]
        ours = [cell.ours + (_BEST if cell.best else cell.mark or " ") for cell in cells]
        table.add_row(line.label, *ours)
        if any(cell.paper for cell in cells):
            table.add_row("  paper", *(f"{cell.paper} " if cell.paper else "" for cell in cells))
            table.add_row("  difference", *(f"{cell.difference} " for cell in cells))
    return table
