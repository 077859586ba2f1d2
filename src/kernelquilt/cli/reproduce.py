"""`kq reproduce`: the experiments of papers, again."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from kernelquilt.cli._common import (
    check_directory,
    epilog,
    print_json,
    split_names,
)
from kernelquilt.cli._running import RunOptions, run_and_show, run_options
from kernelquilt.experiments.errors import UserError
from kernelquilt.experiments.own_data.compare import check_name
from kernelquilt.experiments.study.protocol import PROTOCOLS, Study, load_forms
from kernelquilt.experiments.study.sources import DataDirectory


@click.command(
    epilog=epilog(
        "kq reproduce --list",
        "kq reproduce absent-mkl --data-dir data",
        "kq reproduce absent-mkl --table 1 --full --jobs 4 --output report",
        "kq reproduce absent-mkl --figure 2 --datasets protein --methods quilt,MF",
    )
)
@click.argument("protocol", required=False)
@click.option("--list", "listed", is_flag=True, help="List protocols and their studies.")
@click.option("--table", "tables", type=click.IntRange(1), multiple=True, help="Only this table.")
@click.option(
    "--figure", "figures", type=click.IntRange(1), multiple=True, help="Only this figure."
)
@click.option("--study", "studies", multiple=True, help="Only this study, see --list.")
@click.option("--full/--quick", default=False, help="As in the paper, or small.  [default: quick]")
@click.option(
    "--data-dir",
    type=click.Path(path_type=Path),
    envvar="KERNELQUILT_DATA",
    show_envvar=True,
    help="Directory of the data sets, .npz files.",
)
@click.option("--datasets", metavar="NAME,...", help="Only these data sets.")
@click.option("--methods", metavar="NAME,...", help="Only these methods.")
@click.option("--reading", help="In the place of the protocol's reading of the paper.")
@click.option("--repetitions", type=click.IntRange(1), help="In the place of the protocol's.")
@click.option(
    "--store",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File for finished cells; a later run goes on from there.  [default: kq-PROTOCOL.sqlite]",
)
@run_options
def reproduce(
    protocol: str | None,
    listed: bool,
    tables: tuple[int, ...],
    figures: tuple[int, ...],
    studies: tuple[str, ...],
    full: bool,
    data_dir: Path | None,
    datasets: str | None,
    methods: str | None,
    reading: str | None,
    repetitions: int | None,
    store: Path | None,
    **run: Any,
) -> None:
    """Rerun the experiments of a paper and put its figures beside ours.

    The quick form takes minutes and shows the way; --full is what the paper did. Finished cells
    are kept in a store: stop with Ctrl-C at any time, and run the same command again to go on.
    Quick and full form share their cells.
    """
    if listed:
        _list([protocol] if protocol else PROTOCOLS, run["as_json"])
        return
    if protocol is None:
        raise UserError("name a protocol, or list them with kq reproduce --list")
    check_name(protocol, PROTOCOLS, "protocol")
    forms = load_forms(protocol, reading=reading)
    for name in studies:
        check_name(name, [whole.name for whole, _ in forms], "study")
    forms = [pair for pair in forms if not studies or pair[0].name in studies]
    forms = _showing(forms, tables, figures)
    names = split_names(datasets), split_names(methods)
    _check_names([whole for whole, _ in forms], *names)
    chosen = _selected([whole if full else quick for whole, quick in forms], *names)
    if repetitions is not None:
        chosen = [replace(study, repetitions=repetitions) for study in chosen]
    load = _directory(data_dir)
    options = RunOptions(store=store or Path(f"kq-{protocol}.sqlite"), **run)
    check_directory(options.output)
    run_and_show(chosen, load, options)


def _list(protocols: Sequence[str], as_json: bool) -> None:
    found: list[dict[str, Any]] = [
        {
            "protocol": name,
            "study": full.name,
            "title": full.title,
            "shows": full.shows,
            "datasets": [dataset.name for dataset in full.datasets],
            "methods": full.methods,
            "cells_quick": _size(quick),
            "cells_full": _size(full),
        }
        for name in protocols
        for full, quick in load_forms(name)
    ]
    if as_json:
        print_json(found)
        return
    for entry in found:
        shows = f" ({', '.join(entry['shows'])})" if entry["shows"] else ""
        click.echo(
            f"{entry['protocol']}, {entry['study']}: {entry['title']}{shows}; "
            f"{entry['cells_quick']} cells quick, {entry['cells_full']} full"
        )


def _size(study: Study) -> int:
    return len(study.datasets) * len(study.settings) * len(study.methods) * study.repetitions


def _showing(
    forms: list[tuple[Study, Study]], tables: Sequence[int], figures: Sequence[int]
) -> list[tuple[Study, Study]]:
    wanted = [f"Table {number}" for number in tables] + [f"Figure {number}" for number in figures]
    there = [shown for full, _ in forms for shown in full.shows]
    for name in wanted:
        if name not in there:
            raise UserError(
                f"{forms[0][0].protocol} has no study of {name}; it has "
                f"{', '.join(dict.fromkeys(there))}"
            )
    return [pair for pair in forms if not wanted or set(wanted) & set(pair[0].shows)]


def _check_names(
    studies: list[Study], datasets: list[str] | None, methods: list[str] | None
) -> None:
    known = {
        "data set": dict.fromkeys(entry.name for study in studies for entry in study.datasets),
        "method": dict.fromkeys(name for study in studies for name in study.methods),
    }
    for kind, names in (("data set", datasets), ("method", methods)):
        for name in names or []:
            check_name(name, known[kind], kind)


def _selected(
    studies: list[Study], datasets: list[str] | None, methods: list[str] | None
) -> list[Study]:
    chosen = [study.select(datasets, methods) for study in studies]
    chosen = [study for study in chosen if study.datasets and study.methods]
    if not chosen:
        raise UserError("no study has such cells in this form; try --full, or see --list")
    return chosen


def _directory(path: Path | None) -> DataDirectory:
    if path is None:
        raise UserError("name the directory of the data with --data-dir or KERNELQUILT_DATA")
    if not path.is_dir():
        raise UserError(f"there is no data directory {str(path)!r}")
    return DataDirectory(path)
