"""Run studies with a progress bar, then print what came of them."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from kernelquilt.cli._common import (
    CELLS_FAILED,
    F,
    bad_input,
    installed,
    json_option,
    print_json,
    say,
    seed_option,
    user_errors,
    writing,
)
from kernelquilt.experiments.reporting.page import write_report
from kernelquilt.experiments.reporting.summary import Summary, summarise
from kernelquilt.experiments.reporting.writers import to_terminal
from kernelquilt.experiments.running.runner import BACKENDS, Load, available, count_open, run_study
from kernelquilt.experiments.running.store import Store
from kernelquilt.experiments.study.protocol import Study

SECONDS_BETWEEN_LINES = 30.0  # of progress, where there is no terminal


@dataclass(frozen=True)
class RunOptions:
    """How and where studies are run, and what is done with the result."""

    store: Path
    jobs: int
    backend: str
    seed: int
    output: Path | None
    as_json: bool


def run_options(function: F) -> F:
    """Add the options of `RunOptions`, apart from the store."""
    import click

    for decorate in (
        json_option,
        click.option(
            "--output",
            type=click.Path(path_type=Path, file_okay=False),
            help="Directory for a report: tables, figures, HTML.",
        ),
        seed_option,
        click.option(
            "--backend",
            type=click.Choice(BACKENDS),
            default=BACKENDS[0],
            show_default=True,
            help="What runs the jobs: processes, threads, or dask (with the scheduler that "
            "DASK_SCHEDULER_ADDRESS names, otherwise a local one).",
        ),
        click.option(
            "--jobs",
            type=click.IntRange(1),
            default=1,
            show_default=True,
            help="Number of cells that are computed at once.",
        ),
    ):
        function = decorate(function)
    return function


def run_and_show(studies: Sequence[Study], load: Load, options: RunOptions) -> None:
    """Run the cells that the store does not have, print the tables, and write the report.

    Parameters
    ----------
    studies : sequence of Study
        With data sets that are there.
    load : callable
        As in `run_study`.
    options : RunOptions
    """
    import click

    with installed():
        import rich  # noqa: F401
    there, skipped = _available(studies, load)
    if not there:
        raise bad_input(f"none of the data sets is there; the first is {skipped[0]}")
    with user_errors():
        # a store that cannot be written is found before anything is computed
        Store(options.store).close()
        n_open = sum(count_open(study, options.store, options.seed) for study in there)
        n_failed = 0
        with _workers(options), _progress(n_open) as advance:
            for study in studies:
                n_failed += run_study(
                    study,
                    options.store,
                    load,
                    n_jobs=options.jobs,
                    backend=options.backend,
                    seed=options.seed,
                    on_cells=advance,
                ).n_failed
        with Store(options.store) as store:
            summaries = [_summary(study, store, options.seed) for study in there]
        if options.output is not None:
            with installed(), writing(options.output):
                write_report(summaries, options.output)
        if options.as_json:
            print_json({"store": str(options.store), "studies": summaries, "skipped": skipped})
        else:
            _show(summaries, skipped, options)
    if n_failed:
        click.get_current_context().exit(CELLS_FAILED)


def _available(studies: Sequence[Study], load: Load) -> tuple[list[Study], list[str]]:
    """Return the studies with those data sets that are there, and a line for each other one."""
    found: list[Study] = []
    lines: dict[str, None] = {}
    for study in studies:
        there, skipped = available(study, load)
        lines |= dict.fromkeys(skipped)
        if there.datasets:
            found.append(there)
    return found, list(lines)


def _workers(options: RunOptions) -> AbstractContextManager[Any]:
    if options.backend != "dask":
        return nullcontext()
    with installed():
        distributed: Any = import_module("distributed")
    client: AbstractContextManager[Any] = distributed.Client(
        n_workers=options.jobs, threads_per_worker=1, dashboard_address=None
    )
    return client


@contextmanager
def _progress(total: int) -> Iterator[Callable[[int], None]]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    console = Console(stderr=True)
    if not console.is_terminal:
        yield _line_now_and_then(total)
        return
    with Progress(
        TextColumn("cells"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
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
    """Return the summary of what was asked for, not of all that the store has."""
    rows = store.rows(study.protocol, study.name)
    return summarise(study, [row for row in rows if row.seed == seed])


def _show(summaries: Sequence[Summary], skipped: Sequence[str], options: RunOptions) -> None:
    from rich.console import Console

    console = Console()
    for summary in summaries:
        say(console, *to_terminal(summary, console))
    say(console, *skipped)
    console.print(f"Store: {options.store}", highlight=False, markup=False, soft_wrap=True)
