"""Run studies with a progress bar, then print what came of them."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kernelquilt.cli._common import (
    CELLS_FAILED,
    add_options,
    json_option,
    print_json,
    say,
    seed_option,
    writing,
)
from kernelquilt.experiments.errors import UserError
from kernelquilt.experiments.reporting.page import write_report
from kernelquilt.experiments.reporting.summary import Summary, summarise
from kernelquilt.experiments.reporting.writers import to_terminal
from kernelquilt.experiments.running.runner import BACKENDS, available, finish_study, open_cells
from kernelquilt.experiments.running.store import Store
from kernelquilt.experiments.study.protocol import Study
from kernelquilt.experiments.study.sources import Load

if TYPE_CHECKING:
    from rich.console import Console

SECONDS_BETWEEN_LINES = 30.0  # of progress, where there is no terminal


run_options = add_options(
    click.option(
        "--jobs",
        type=click.IntRange(1),
        default=1,
        show_default=True,
        help="Number of cells that are computed at once.",
    ),
    click.option(
        "--backend",
        type=click.Choice(BACKENDS),
        default=BACKENDS[0],
        show_default=True,
        help="What runs the jobs: processes, threads, or dask (with the scheduler that "
        "DASK_SCHEDULER_ADDRESS names, otherwise a local one).",
    ),
    seed_option,
    click.option(
        "--output",
        type=click.Path(path_type=Path, file_okay=False),
        help="Directory for a report: tables, figures, HTML.",
    ),
    json_option,
)


@dataclass(frozen=True)
class RunOptions:
    """How and where studies are run, and what is done with the result."""

    store: Path
    seed: int
    jobs: int = 1
    backend: str = BACKENDS[0]
    output: Path | None = None
    as_json: bool = False


@dataclass(frozen=True)
class Results:
    """What came of studies: summaries, a line for each data set that was skipped, failed cells."""

    summaries: list[Summary]
    skipped: list[str]
    n_failed: int


def run_and_show(studies: Sequence[Study], load: Load, options: RunOptions) -> None:
    """Run studies, print their tables, write the report, and exit with 1 if cells failed.

    Parameters
    ----------
    studies : sequence of Study
    load : Load
        Where their data sets come from.
    options : RunOptions
    """
    found = run(studies, load, options)
    if options.output is not None:
        with writing(options.output):
            write_report(found.summaries, options.output)
    if options.as_json:
        store, skipped = str(options.store), found.skipped
        print_json({"store": store, "studies": found.summaries, "skipped": skipped})
    else:
        from rich.console import Console

        console = Console()
        show_tables(found.summaries, console)
        say(console, *found.skipped)
        say(console, f"Store: {options.store}", soft_wrap=True)
    if found.n_failed:
        click.get_current_context().exit(CELLS_FAILED)


def run(studies: Sequence[Study], load: Load, options: RunOptions) -> Results:
    """Run the cells that the store does not have; the results are of what was asked for only."""
    import rich  # noqa: F401 - it had better be missed before anything is computed

    data = [(study, *available(study, load)) for study in studies]
    skipped = list(dict.fromkeys(line for *_, lines in data for line in lines))
    there = [study.select(list(sources)) for study, sources, _ in data if sources]
    if not there:
        raise UserError(f"none of the data sets is there; the first is {skipped[0]}")
    n_failed = 0
    with Store(options.store) as store:
        n_open = sum(len(open_cells(study, store, options.seed)) for study in there)
        with _workers(options), _progress(n_open) as advance:
            for study, sources, _ in data:
                n_failed += finish_study(
                    study,
                    sources,
                    store,
                    n_jobs=options.jobs,
                    backend=options.backend,
                    seed=options.seed,
                    on_cells=advance,
                ).n_failed
        summaries = [_summary(study, store, options.seed) for study in there]
    return Results(summaries, skipped, n_failed)


def _workers(options: RunOptions) -> AbstractContextManager[Any]:
    if options.backend != "dask":
        return nullcontext()
    distributed: Any = import_module("distributed")
    # a cluster of its own takes other options than one that is there
    if address := import_module("dask").config.get("scheduler-address", None):
        there: AbstractContextManager[Any] = distributed.Client(address)
        return there
    client: AbstractContextManager[Any] = distributed.Client(
        n_workers=options.jobs, threads_per_worker=1, dashboard_address=None
    )
    return client


@contextmanager
def _progress(total: int) -> Iterator[Callable[[int], None]]:
    from rich import progress as parts
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield _line_now_and_then(total)
        return
    with parts.Progress(
        *("cells", parts.BarColumn(), parts.MofNCompleteColumn(), parts.TimeElapsedColumn()),
        *("left", parts.TimeRemainingColumn()),
        console=console,
        transient=True,
        disable=not total,
    ) as progress:
        task = progress.add_task("cells", total=total)
        yield lambda count: progress.advance(task, count)


def _line_now_and_then(total: int) -> Callable[[int], None]:
    """Return what tells the progress to a file or a pipe."""
    begun = told = time.monotonic()
    done = 0

    def advance(count: int) -> None:
        nonlocal done, told
        done += count
        now = time.monotonic()
        if now - told > SECONDS_BETWEEN_LINES:
            told = now
            left = (now - begun) / done * (total - done)
            print(f"{done} of {total} cells, about {left / 60:.0f} min left", file=sys.stderr)

    return advance


def _summary(study: Study, store: Store, seed: int) -> Summary:
    rows = store.rows(study.protocol, study.name)
    return summarise(study, [row for row in rows if row.seed == seed])


def show_tables(summaries: Sequence[Summary], console: "Console") -> None:
    """Print the tables of studies and what they mean."""
    for summary in summaries:
        say(console, *to_terminal(summary, console))
