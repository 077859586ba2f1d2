"""The data file of a command, and the options that say how it is read."""

from collections.abc import Sequence
from pathlib import Path

import click

from kernelquilt.cli._common import add_options, split_names
from kernelquilt.experiments.errors import UserError
from kernelquilt.experiments.own_data.files import UserData, read_data

TASKS = ("classification", "regression", "survival")

data_options = add_options(
    click.argument("data", type=click.Path(path_type=Path)),
    click.option(
        "--label", metavar="COL", help="Column or array of the labels; 'y' if there is one."
    ),
    click.option(
        "--view",
        "views",
        multiple=True,
        metavar="NAME=PATTERN,...",
        help="Columns of a view of a table: names, patterns such as 'rna_*', ranges "
        "'first:last'. Once for each view. By default the text before the first '__', ':' or "
        "'.' of a name is its view.",
    ),
    click.option("--index", metavar="COL", help="Column with the names of the samples."),
    click.option(
        "--task",
        type=click.Choice(TASKS),
        help="What the labels are: classes, numbers, or events. By default numbers that are not "
        "whole are a regression, and --time means survival.",
    ),
    click.option("--time", metavar="COL", help="Column of the times, if labels are events."),
)

model_options = add_options(
    click.argument("model", type=click.Path(path_type=Path)),
    click.option(
        "--trust",
        "trusted",
        multiple=True,
        metavar="NAME",
        help="A class or function of another package that MODEL holds and you know. May be "
        "repeated.",
    ),
)


def load(
    path: Path,
    label: str | None,
    views: Sequence[str],
    index: str | None,
    task: str | None,
    time: str | None,
) -> UserData:
    """Read a data file as the options of the command line say."""
    patterns: dict[str, list[str]] = {}
    for text in views:
        name, equals, columns = text.partition("=")
        if not (name and equals and columns):
            raise UserError(
                f"--view {text!r} is not NAME=PATTERN,...; for example --view 'rna=rna_*'"
            )
        patterns.setdefault(name, []).extend(split_names(columns) or [])
    return read_data(path, label=label, views=patterns or None, index=index, time=time, task=task)
