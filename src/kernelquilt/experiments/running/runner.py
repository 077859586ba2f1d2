"""Run the cells of a study that a store does not have yet, in parallel.

Cells with the same data set, setting and repetition form a batch: their kernels are made once and
shared by all methods. A worker asks the store for what is missing when it begins a batch and writes
each cell as soon as it is finished, so that any number of processes may fill one store and each may
be killed at any time.
"""

import os
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from joblib import Parallel, delayed, parallel_config
from threadpoolctl import threadpool_limits

from kernelquilt.experiments.running.completion import complete
from kernelquilt.experiments.running.evaluate import finished_row, predict
from kernelquilt.experiments.running.store import Row, Store
from kernelquilt.experiments.study.completion_splits import make_completion_split, read_archive
from kernelquilt.experiments.study.protocol import Cell, DataSet, ProtocolError, Study
from kernelquilt.experiments.study.sources import DataMissingError, Load
from kernelquilt.experiments.study.splits import make_split

BACKENDS = ("loky", "threading", "dask")


class Task(NamedTuple):
    """What the cells of a study do."""

    read: Callable[[DataSet, Load], Any]  # a source: data, and the digest of their file
    make: Callable[[Cell, Any], Any]  # from it what cells that differ only in the method share
    run: Callable[[Cell, Any], Row]  # one of these cells


_PREDICTION = Task(lambda dataset, load: load(dataset), make_split, predict)
TASKS = {
    "classification": _PREDICTION,
    "regression": _PREDICTION,
    "survival": _PREDICTION,
    "completion": Task(read_archive, make_completion_split, complete),
}


@dataclass
class RunSummary:
    """How a run ended.

    Attributes
    ----------
    n_cells : int
        Cells of the study whose data are there.
    n_new : int
        Those that this run has finished.
    n_impossible, n_failed : int
        Those of the whole study that have no figures.
    skipped : list of str
        A line for each data set that is not there.
    """

    n_cells: int = 0
    n_new: int = 0
    n_impossible: int = 0
    n_failed: int = 0
    skipped: list[str] = field(default_factory=list)


def run_study(study: Study, store_path: Path, load: Load, **options: Any) -> RunSummary:
    """Read the data of a study and finish its cells, with the options of `finish_study`."""
    sources, skipped = available(study, load)
    with Store(store_path) as store:
        return replace(finish_study(study, sources, store, **options), skipped=skipped)


def available(study: Study, load: Load) -> tuple[dict[str, Any], list[str]]:
    """Return the sources of the data sets that are there, and a line for each of the others."""
    sources, skipped = {}, []
    for dataset in study.datasets:
        try:
            sources[dataset.name] = TASKS[study.task].read(dataset, load)
        except DataMissingError as line:
            skipped.append(str(line))
    return sources, skipped


def finish_study(
    study: Study,
    sources: Mapping[str, Any],
    store: Store,
    *,
    n_jobs: int = 1,
    backend: str = "loky",
    seed: int = 0,
    on_cells: Callable[[int], None] = lambda count: None,
) -> RunSummary:
    """Finish the cells of a study; those that failed before are tried again.

    Parameters
    ----------
    study : Study
    sources : mapping of str to Source or Archive
        Of its data sets, from `available`.
    store : Store
    n_jobs : int, default=1
        Workers.
    backend : {"loky", "threading", "dask"}, default="loky"
        Of joblib; with "dask" the workers of the current `distributed.Client` are used.
    seed : int, default=0
        Of splits and masks.
    on_cells : callable, optional
        Called with the number of cells that have just been finished.

    Returns
    -------
    summary : RunSummary
    """
    there = study.select(list(sources))
    store.define(
        study.protocol,
        study.name,
        study.to_dict(),
        lambda earlier: study.united(Study.from_dict(earlier)).to_dict(),
    )
    for dataset in there.datasets:
        if sources[dataset.name].digest:
            store.check_source(dataset.filename, sources[dataset.name].digest)
    keys = {cell.key for cell in there.cells(seed)}
    store.forget_failed(keys)
    summary = RunSummary(n_cells=len(keys))
    batches = _batches(open_cells(there, store, seed))
    for finished in _results(batches, store.path, sources, n_jobs, backend):
        summary.n_new += finished
        on_cells(finished)
    for row in store.rows(study.protocol, study.name):
        if row.key in keys:
            summary.n_impossible += row.status == "impossible"
            summary.n_failed += row.status == "failed"
    return summary


def open_cells(study: Study, store: Store, seed: int = 0) -> list[Cell]:
    """Return the cells of a study that a run would have to finish."""
    cells = list(study.cells(seed))
    done = store.finished((cell.key for cell in cells), failed=False)
    return [cell for cell in cells if cell.key not in done]


def count_open(study: Study, store_path: Path, seed: int = 0) -> int:
    """Return how many cells of a study a run would have to finish."""
    if not Path(store_path).is_file():
        return len(list(study.cells(seed)))
    with Store(store_path) as store:
        return len(open_cells(study, store, seed))


def _batches(cells: list[Cell]) -> list[list[Cell]]:
    """Return cells with the same kernels together, repetition by repetition.

    Within a repetition the order is that of the process, so that two that fill the same store
    seldom meet.
    """
    rng = random.Random(os.getpid())
    batches: list[list[Cell]] = []
    for _, repetition in groupby(cells, key=lambda cell: cell.repetition):
        own = [list(group) for _, group in groupby(repetition, key=lambda cell: cell.split)]
        rng.shuffle(own)
        batches += own
    return batches


def _results(
    batches: list[list[Cell]],
    store_path: Path,
    sources: Mapping[str, Any],
    n_jobs: int,
    backend: str,
) -> Iterator[int]:
    """Yield the number of cells of each batch as it ends."""
    calls = ((batch, store_path, sources[batch[0].dataset.name]) for batch in batches)
    if n_jobs == 1 and backend != "dask":
        yield from (run_batch(*call) for call in calls)
        return
    limits: dict[str, Any] = {"inner_max_num_threads": 1} if backend == "loky" else {}
    # the outer limit keeps a thread that ends from lifting that of the others
    with threadpool_limits(1), parallel_config(backend, n_jobs=n_jobs, **limits):
        parallel = Parallel(return_as="generator_unordered", pre_dispatch="2*n_jobs", batch_size=1)
        yield from parallel(delayed(run_batch)(*call) for call in calls)


def run_batch(batch: list[Cell], store_path: Path, source: Any) -> int:
    """Finish the cells of one batch, all of the same source, and return how many there were."""
    with threadpool_limits(1), Store(store_path) as store:
        run = None
        for cell in batch:
            if store.finished([cell.key]):  # by another process, meanwhile
                continue
            if run is None:
                run = _prepared(cell, source)
            store.add(run(cell))
    return len(batch)


def _prepared(cell: Cell, source: Any) -> Callable[[Cell], Row]:
    """Return what finishes a cell of the same batch as the given one."""
    task = TASKS[cell.study.task]
    try:
        made = task.make(cell, source)
    except ProtocolError:
        raise
    except Exception as error:
        return partial(finished_row, run=partial(_fail, error))
    return lambda other: task.run(other, made)


def _fail(error: Exception) -> dict[str, Any]:
    raise error
