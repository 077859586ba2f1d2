"""Run the cells of a study that a store does not have yet, in parallel.

Cells with the same data set, setting and repetition form a task: their kernels are made once and
shared by all methods. A worker asks the store for what is missing when it begins a task and writes
each cell as soon as it is finished, so that any number of processes may fill one store and each may
be killed at any time.
"""

import os
import random
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

from joblib import Parallel, delayed, parallel_config
from threadpoolctl import threadpool_limits

from kernelquilt.experiments.running.evaluate import classify, finished_row
from kernelquilt.experiments.running.store import Row, Store
from kernelquilt.experiments.study.completion import complete, make_completion_problem, read_archive
from kernelquilt.experiments.study.problems import make_problem
from kernelquilt.experiments.study.protocol import Cell, DataSet, ProtocolError, Study
from kernelquilt.experiments.study.sources import DataDirectory, DataMissingError, Source

BACKENDS = ("loky", "threading", "dask")
Load = Callable[[DataSet], Source]


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


def run_study(
    study: Study,
    store_path: Path,
    load: Load,
    *,
    n_jobs: int = 1,
    backend: str = "loky",
    seed: int = 0,
    on_cells: Callable[[int], None] | None = None,
) -> RunSummary:
    """Finish the cells of a study; those that failed before are tried again.

    Parameters
    ----------
    study : Study
    store_path : path-like
        Of the store; made if it is not there.
    load : callable
        Returns the `Source` of a `DataSet` or raises `DataMissingError`; must be picklable.
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
    summary = RunSummary()
    there, summary.skipped = available(study, load)
    cells = list(there.cells(seed))
    summary.n_cells = len(cells)
    keys = {cell.key for cell in cells}
    with Store(store_path) as store:
        store.define(
            study.protocol,
            study.name,
            study.to_dict(),
            lambda earlier: study.united(Study.from_dict(earlier)).to_dict(),
        )
        _check_sources(there, load, store)
        store.forget_failed(keys)
        done = store.finished(keys)
        todo = [cell for cell in cells if cell.key not in done]
        for finished in _results(_tasks(todo), store_path, load, n_jobs, backend):
            summary.n_new += finished
            if on_cells is not None:
                on_cells(finished)
        for row in store.rows(study.protocol, study.name):
            if row.key in keys:
                summary.n_impossible += row.status == "impossible"
                summary.n_failed += row.status == "failed"
    return summary


def _check_sources(study: Study, load: Load, store: Store) -> None:
    """Refuse data that are not those which the store has cells of."""
    if isinstance(load, DataDirectory):
        for dataset in study.datasets:
            store.check_source(dataset.filename, load.fingerprint(dataset))


def _tasks(cells: list[Cell]) -> list[list[Cell]]:
    """Return cells with the same kernels together, repetition by repetition.

    Within a repetition the order is that of the process, so that two that fill the same store
    seldom meet.
    """
    rng = random.Random(os.getpid())
    tasks: list[list[Cell]] = []
    for _, repetition in groupby(cells, key=lambda cell: cell.repetition):
        own = [list(group) for _, group in groupby(repetition, key=lambda cell: cell.split)]
        rng.shuffle(own)
        tasks += own
    return tasks


def count_open(study: Study, store_path: Path, seed: int = 0) -> int:
    """Return how many cells of a study a run would have to finish."""
    keys = {cell.key for cell in study.cells(seed)}
    if not Path(store_path).is_file():
        return len(keys)
    with Store(store_path) as store:
        return len(keys) - len(store.finished(keys, failed=False))


def available(study: Study, load: Load) -> tuple[Study, list[str]]:
    """Return a study with the data sets that are there, and a line for each of the others."""
    names, skipped = [], []
    for dataset in study.datasets:
        try:
            _read(study, dataset, load)
        except DataMissingError as line:
            skipped.append(str(line))
        else:
            names.append(dataset.name)
    return study.select(names), skipped


def _read(study: Study, dataset: DataSet, load: Load) -> Any:
    """Return what the problems of a study are made of."""
    return read_archive(dataset, load) if study.task == "completion" else load(dataset)


def _results(
    tasks: list[list[Cell]], store_path: Path, load: Load, n_jobs: int, backend: str
) -> Iterator[int]:
    """Yield the number of cells of each task as it ends."""
    if n_jobs == 1 and backend != "dask":
        yield from (run_task(task, store_path, load) for task in tasks)
        return
    limits: dict[str, Any] = {"inner_max_num_threads": 1} if backend == "loky" else {}
    # the outer limit keeps a thread that ends from lifting that of the others
    with threadpool_limits(1), parallel_config(backend, n_jobs=n_jobs, **limits):
        parallel = Parallel(return_as="generator_unordered", pre_dispatch="2*n_jobs", batch_size=1)
        yield from parallel(delayed(run_task)(task, store_path, load) for task in tasks)


def run_task(task: list[Cell], store_path: Path, load: Load) -> int:
    """Finish the cells of one task and return how many there were.

    Parameters
    ----------
    task : list of Cell
        With the same data set, setting and repetition.
    store_path : path-like
    load : callable
        As in `run_study`.

    Returns
    -------
    n_cells : int
    """
    with threadpool_limits(1), Store(store_path) as store:
        finish = None
        for cell in task:
            if store.finished([cell.key]):  # by another process, meanwhile
                continue
            if finish is None:
                finish = _prepared(cell, load)
            store.add(finish(cell))
    return len(task)


def _prepared(cell: Cell, load: Load) -> Callable[[Cell], Row]:
    """Return what finishes a cell with the same problem as the given one."""
    try:
        source = _read(cell.study, cell.dataset, load)
        if cell.study.task == "completion":
            return partial(complete, problem=make_completion_problem(cell, source))
        problem = make_problem(cell, source)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of views that no training sample has
            problem.stacks  # noqa: B018 - made now, so that no cell is timed with it
        return partial(classify, problem=problem)
    except (DataMissingError, ProtocolError):
        raise
    except Exception as error:
        return partial(finished_row, run=partial(_fail, error))


def _fail(error: Exception) -> dict[str, Any]:
    raise error
