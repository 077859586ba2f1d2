"""Run the cells of a study that a store does not have yet, in parallel.

Cells with the same data set, setting and repetition form a task: their kernels are made once and
shared by all methods. A worker asks the store for what is missing when it begins a task and writes
each cell as soon as it is finished, so that any number of processes may fill one store and each may
be killed at any time.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

from joblib import Parallel, delayed, parallel_config
from threadpoolctl import threadpool_limits

from kernelquilt.experiments.completion import complete, make_completion_problem, read_archive
from kernelquilt.experiments.evaluate import classify
from kernelquilt.experiments.problems import make_problem
from kernelquilt.experiments.protocol import Cell, DataSet, Study
from kernelquilt.experiments.sources import DataMissingError, Source
from kernelquilt.experiments.store import Row, Store

BACKENDS = ("loky", "threading", "dask")
Load = Callable[[DataSet], Source]

# by task: how problems are made, and how a cell is finished
_STEPS: dict[str, tuple[Callable[..., Any], Callable[..., Row]]] = {
    "classification": (make_problem, classify),
    "completion": (make_completion_problem, complete),
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
        _define(study, store)
        store.forget_failed(keys)
        done = store.finished(keys)
        tasks = [
            [cell for cell in group if cell.key not in done]
            for _, group in groupby(cells, key=lambda cell: cell.split)
        ]
        for finished in _results(
            [task for task in tasks if task], store_path, load, n_jobs, backend
        ):
            summary.n_new += finished
            if on_cells is not None:
                on_cells(finished)
        for row in store.rows(study.protocol, study.name):
            if row.key in keys:
                summary.n_impossible += row.status == "impossible"
                summary.n_failed += row.status == "failed"
    return summary


def _define(study: Study, store: Store) -> None:
    """Write what the study is, together with what the store has of it already."""
    earlier = store.definitions().get((study.protocol, study.name))
    whole = study if earlier is None else study.united(Study.from_dict(earlier))
    store.define(study.protocol, study.name, whole.to_dict())


def count_open(study: Study, store_path: Path, seed: int = 0) -> int:
    """Return how many cells of a study the store does not have yet."""
    keys = {cell.key for cell in study.cells(seed)}
    if not Path(store_path).is_file():
        return len(keys)
    with Store(store_path) as store:
        return len(keys) - len(store.finished(keys))


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
        done = store.finished(cell.key for cell in task)
        missing = [cell for cell in task if cell.key not in done]
        if missing:
            make, finish = _STEPS[missing[0].study.task]
            problem = make(missing[0], _read(missing[0].study, missing[0].dataset, load))
            for cell in missing:
                store.add(finish(cell, problem))
    return len(task)
