"""The summary of a study as tables for a terminal."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from kernelquilt.experiments.reporting.remarks import plural, remarks, stand_ins, status
from kernelquilt.experiments.reporting.summary import Summary
from kernelquilt.experiments.reporting.table_text import (
    DASH,
    CellText,
    TableLine,
    closing_lines,
    table_lines,
)

if TYPE_CHECKING:
    from rich.console import Console

NAME_WIDTH, CELL_WIDTH = 20, 15  # characters of a column, with its margin
SHOWN_PROBLEMS = 5
BEST = "*"


def study_parts(summary: Summary, console: "Console") -> Iterator[Any]:
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
    per_table = max(1, (console.width - NAME_WIDTH) // CELL_WIDTH)
    for start in range(0, len(own), per_table):
        yield ""
        yield _table(summary.methods, lines, own[start : start + per_table])
    yield ""
    yield from _below(summary)
    yield ""


def _table(methods: tuple[str, ...], lines: list[TableLine], shown: list[int]) -> Any:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    table.add_column("", overflow="fold", max_width=NAME_WIDTH)
    for position in shown:
        table.add_column(methods[position], justify="right", max_width=CELL_WIDTH)
    for line in lines:
        cells = [line.cells[position] for position in shown]
        table.add_row(line.label, *map(_ours, cells))
        if any(cell.paper for cell in cells):
            table.add_row("  paper", *(f"{cell.paper} " if cell.paper else "" for cell in cells))
            table.add_row("  difference", *(f"{cell.difference} " for cell in cells))
    return table


def _ours(cell: CellText) -> str:
    return cell.ours + (BEST if cell.best else cell.mark or " ")


def _below(summary: Summary) -> Iterator[str]:
    study = summary.study
    unit = study.metric if study.scale == 1 else f"{study.metric} x {study.scale:g}"
    yield (
        f"{unit}: mean and standard deviation of {plural(len(summary.repetitions), 'repetition')}; "
        f"{BEST} best of its line, † not significantly different from it"
    )
    yield from remarks(summary)
    yield from (f"Stand-in, {text}" for text in stand_ins(summary))
    yield from study.notes
    yield status(summary)
    failed = [problem for problem in summary.problems if problem.status == "failed"]
    for problem in failed[:SHOWN_PROBLEMS]:
        yield f"failed: {problem.method}, {problem.n_cells} cells: {problem.message}"
