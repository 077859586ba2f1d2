"""`kq describe`: what a data file looks like, and what to try on it."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from kernelquilt.cli._common import (
    check_png,
    epilog,
    json_option,
    print_json,
    say,
    writing,
)
from kernelquilt.cli._data import data_options, load
from kernelquilt.experiments.own_data.describe import Description
from kernelquilt.experiments.own_data.describe import describe as describe_data
from kernelquilt.inspection import ObservedPatternDisplay
from kernelquilt.inspection.style import figure_of

SHOWN_PATTERNS = 10


@click.command(
    epilog=epilog(
        "kq describe patients.csv --label diagnosis",
        "kq describe omics.csv --label type --view 'rna=rna_*' --view 'clinic=age,stage'",
        "kq describe omics.h5mu --label type --figure patterns.png",
        "kq describe folder_of_tables --label type --index patient",
        "kq describe trial.csv --label died --time months",
        "kq describe patients.npz --json",
    )
)
@data_options
@click.option(
    "--figure",
    type=click.Path(path_type=Path),
    help="Where to draw the patterns of absence (PNG).",
)
@json_option
def describe(
    data: Path,
    label: str | None,
    views: tuple[str, ...],
    index: str | None,
    task: str | None,
    time: str | None,
    figure: Path | None,
    as_json: bool,
) -> None:
    """Describe the views of DATA, what is absent, and what to try.

    DATA is .npz, .csv, .tsv, .parquet or .h5mu, or a folder with a table for each view. A view
    is absent for a sample if all its cells are empty, or if its table lacks the sample. A
    parquet file that does not fit into memory is read piece by piece.
    """
    if figure is not None:
        check_png(figure)
        import matplotlib.figure  # noqa: F401
    user_data = load(data, label, views, index, task, time)
    description = describe_data(user_data)
    if figure is not None:
        title = (
            f"{description.name}: {description.n_complete} of {description.n_samples} samples "
            "have every view"
        )
        with writing(figure):
            display = ObservedPatternDisplay.from_views(user_data.views)
            figure_of(display, title=title).savefig(figure, dpi=150)
    if as_json:
        print_json(description.to_dict())
        return
    from rich.console import Console

    console = Console()
    say(console, *_parts(description))
    if figure is not None:
        say(console, f"\nFigure: {figure}", soft_wrap=True)


def _parts(description: Description) -> Iterator[Any]:
    yield (
        f"{description.name}: {description.n_samples} samples, {description.n_complete} of them "
        f"with all of {len(description.views)} views"
    )
    yield ""
    yield _views(description)
    yield ""
    yield _patterns(description)
    if description.classes is not None:
        sizes = ", ".join(f"{name} {count}" for name, count in description.classes.items())
        yield f"\nSamples by class: {sizes}"
    elif description.targets is not None:
        sizes = ", ".join(f"{name} {value:g}" for name, value in description.targets.items())
        yield f"\nTargets of the {description.task}: {sizes}"
    else:
        yield "\nNo labels: name their column with --label."
    for title, lines in (
        ("Absence", description.hints),
        ("Try", [f"{entry.method}: {entry.reason}" for entry in description.suggestions]),
        ("Take care", description.warnings),
        ("Notes", description.notes),
    ):
        if lines:
            yield f"\n{title}"
            yield from (f"- {line}" for line in lines)


def _views(description: Description) -> Any:
    rows = [
        [v.name, str(v.n_features), str(v.n_present), f"{v.absent:.1%}", str(v.n_missing_cells)]
        for v in description.views
    ]
    return _table(["view", "features", "samples", "absent", "empty cells"], rows, names="view")


def _patterns(description: Description) -> Any:
    rows = []
    for pattern in description.patterns[:SHOWN_PATTERNS]:
        complete = len(pattern.present) == len(description.views)
        text = "all views" if complete else ", ".join(pattern.present) or "no view"
        rows.append([str(pattern.count), text])
    rest = description.patterns[SHOWN_PATTERNS:]
    if rest:
        count = sum(pattern.count for pattern in rest)
        rows.append([str(count), f"one of {len(rest)} other patterns"])
    return _table(["samples", "that have"], rows, names="that have")


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]], *, names: str) -> Any:
    """Return a table of numbers, but for the column of names."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    for heading in headings:
        if heading == names:
            table.add_column(heading, overflow="fold")
        else:
            table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    return table
