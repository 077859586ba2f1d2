"""`kq compare`: methods on the user's own data."""

import math
from pathlib import Path
from typing import Any

import click

from kernelquilt.cli._common import check_directory, epilog, split_names
from kernelquilt.cli._data import data_options, load
from kernelquilt.cli._running import RunOptions, run_and_show, run_options
from kernelquilt.experiments.errors import UserError
from kernelquilt.experiments.own_data.compare import (
    DEFAULT_METHODS,
    comparable,
    comparison_study,
)
from kernelquilt.experiments.study.measures import METRICS
from kernelquilt.experiments.study.sources import UserSource

MECHANISMS = ("mcar", "balanced", "per_sample", "block", "mnar")


def _numbers(context: Any, parameter: Any, values: tuple[float, ...]) -> tuple[float, ...]:
    """Refuse nan, which is in every range."""
    if any(math.isnan(value) for value in values):
        raise UserError("--ratio must be a number from 0 to less than 1")
    return values


@click.command(
    epilog=epilog(
        "kq compare patients.csv --label diagnosis",
        "kq compare omics.h5mu --label type --metric balanced_accuracy --jobs 4",
        "kq compare towns.csv --label crime_rate --task regression --metric mae",
        "kq compare trial.csv --label died --time months",
        "kq compare omics.npz --methods 'quilt,late fusion,HGB' --ratio 0.2 --ratio 0.5",
        "kq compare omics.csv --label type --view 'rna=rna_*' --view 'clinic=age,stage'",
    )
)
@data_options
@click.option(
    "--methods",
    metavar="NAME,...",
    help="What to compare, see kq methods.  [default for classes: "
    f"{', '.join(DEFAULT_METHODS['classification'])}]",
)
@click.option(
    "--ratio",
    "ratios",
    type=click.FloatRange(0, 1, max_open=True),
    callback=_numbers,
    multiple=True,
    help="Share of the views to make absent in addition. May be repeated; by default the data "
    "are taken as they are.",
)
@click.option(
    "--mechanism",
    type=click.Choice(MECHANISMS),
    default=MECHANISMS[0],
    show_default=True,
    help="How views are made absent.",
)
@click.option(
    "--repetitions",
    type=click.IntRange(1),
    default=10,
    show_default=True,
    help="Random splits into training and test samples.",
)
@click.option(
    "--metric",
    type=click.Choice([name for names in METRICS.values() for name in names]),
    help="What to compare by, and to tune parameters by.  [default: "
    f"{', '.join(names[0] for names in METRICS.values())}, by task]",
)
@click.option(
    "--store",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("kq-compare.sqlite"),
    show_default=True,
    help="File for finished cells; a later run goes on from there.",
)
@run_options
def compare(
    data: Path,
    label: str | None,
    views: tuple[str, ...],
    index: str | None,
    task: str | None,
    time: str | None,
    methods: str | None,
    ratios: tuple[float, ...],
    mechanism: str,
    repetitions: int,
    metric: str | None,
    **run: Any,
) -> None:
    """Compare methods on DATA.

    Every method is tuned and fitted on random parts of the samples and scored on the others.
    Finished cells are kept in a store: stop with Ctrl-C at any time, and run the same command
    again to go on. Of a parquet file that does not fit into memory, some samples are drawn.
    """
    options = RunOptions(**run)
    check_directory(options.output)
    user_data = comparable(load(data, label, views, index, task, time), seed=options.seed)
    study = comparison_study(
        user_data,
        methods=split_names(methods),
        ratios=ratios,
        mechanism=mechanism,
        repetitions=repetitions,
        metric=metric,
    )
    run_and_show([study], UserSource(user_data.views, user_data.labels()), options)
