"""The cells of the table of a study in words, whatever it is written as."""

from dataclasses import dataclass

import numpy as np

from kernelquilt.experiments.reporting.summary import Entry, Standing, Summary

DASH = "-"
LEVEL_MARK, ALONE_MARK, DIAGNOSTIC_MARK = "†", "‡", "§"


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
    """Return the lines of the table, without averages.

    Parameters
    ----------
    summary : Summary

    Returns
    -------
    lines : list of TableLine
    """
    decimals = decimals_of(summary)
    return [
        TableLine(
            line.label,
            [
                _cell(entry, decimals, ALONE_MARK if rival else DIAGNOSTIC_MARK)
                for entry, rival in zip(line.entries, summary.competing[:, 0], strict=True)
            ],
        )
        for line in summary.lines
    ]


def closing_lines(summary: Summary) -> list[TableLine]:
    """Return the average and the win-tie-loss line of the table.

    Parameters
    ----------
    summary : Summary

    Returns
    -------
    lines : list of TableLine
    """
    pairs = list(zip(summary.methods, summary.standings, strict=True))
    decimals = decimals_of(summary)
    lines = [
        TableLine("average", [_average(s, decimals, best=m == summary.reference) for m, s in pairs])
    ]
    if summary.reference:
        cells = [CellText(win_tie_loss_text(summary, m)) for m in summary.methods]
        lines.append(TableLine("win-tie-loss", cells))
    return lines


def extra_lines(summary: Summary, name: str) -> list[TableLine]:
    """Return the means of a further figure, line by line.

    Parameters
    ----------
    summary : Summary
    name : str

    Returns
    -------
    lines : list of TableLine
    """
    return [
        TableLine(
            line.label, [CellText(significant_text(entry.extra[name])) for entry in line.entries]
        )
        for line in summary.lines
        if any(np.isfinite(entry.extra[name]) for entry in line.entries)
    ]


def decimals_of(summary: Summary) -> int:
    """Return how many decimals to show: as many as the paper, or three significant digits."""
    entries = [entry for line in summary.lines for entry in line.entries]
    printed = [entry.paper for entry in entries if not np.isnan(entry.paper)]
    if printed:
        return min(6, max(_decimals(value) for value in printed))
    sizes = [abs(entry.mean) for entry in entries if entry.mean and not np.isnan(entry.mean)]
    typical = float(np.median(sizes)) if sizes else 1.0
    return int(np.clip(2 - np.floor(np.log10(typical)), 1, 6))


def number_text(value: float, decimals: int, *, signed: bool = False) -> str:
    """Return a number with so many decimals, a dash for nan."""
    if np.isnan(value):
        return DASH
    return f"{value:{'+' if signed else ''}.{decimals}f}"


def significant_text(value: float) -> str:
    """Return a number with three significant digits, a dash for nan."""
    return DASH if np.isnan(value) else f"{value:.3g}"


def p_value_text(value: float) -> str:
    """Return a p-value with three decimals, a dash for nan."""
    if np.isnan(value):
        return DASH
    return "<0.001" if value < 0.001 else f"{value:.3f}"


def win_tie_loss_text(summary: Summary, method: str) -> str:
    """Return the counts of a method, a dash for the reference and methods without an average."""
    standing = summary.standings[summary.methods.index(method)]
    if method == summary.reference or np.isnan(standing.average):
        return DASH
    return f"{standing.wins}-{standing.ties}-{standing.losses}"


def _cell(entry: Entry, decimals: int, alone: str) -> CellText:
    """Return a cell, with the mark `alone` if it has figures that are not compared."""
    if entry.n:
        ours = number_text(entry.mean, decimals)
        if not np.isnan(entry.std):
            ours += f" ± {number_text(entry.std, decimals)}"
    else:
        ours = "failed" if entry.failed else "impossible" if entry.impossible else DASH
    lonely = alone if entry.n and not entry.compared else ""
    return CellText(
        ours,
        entry.best,
        LEVEL_MARK if entry.level else lonely,
        *_paper(entry.paper, entry.difference, decimals),
    )


def _average(standing: Standing, decimals: int, *, best: bool) -> CellText:
    difference = standing.average - standing.paper_average
    paper = _paper(standing.paper_average, difference, decimals)
    return CellText(number_text(standing.average, decimals), best, "", *paper)


def _paper(paper: float, difference: float, decimals: int) -> tuple[str, str]:
    if np.isnan(paper):
        return "", ""
    signed = "" if np.isnan(difference) else number_text(difference, decimals, signed=True)
    return number_text(paper, decimals), signed


def _decimals(value: float) -> int:
    return len(np.format_float_positional(value, trim="-").partition(".")[2])
