"""Samples in memory by which choices are made, beside all samples in blocks."""

from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import issparse
from sklearn.utils import check_random_state

from kernelquilt._typing import Indices
from kernelquilt.core.blocks import Block, Blocks, default_lengths, sliced_chunks
from kernelquilt.core.passes import Passes
from kernelquilt.data.blocks import in_copy_of_file
from kernelquilt.data.lazy.views import LazyViews
from kernelquilt.data.stack import KernelStack
from kernelquilt.data.targets import Targets
from kernelquilt.data.training import Samples
from kernelquilt.data.views import MultiView

MOST_SAMPLES = 10_000  # that are held at a time, and that choices are made by

Names = tuple[str, ...] | None


class AllSamples(NamedTuple):
    """All samples in blocks.

    Attributes
    ----------
    blocks : Blocks
        With targets, weights and numbers of copies beside.
    names : tuple of str, or None for kernels
        Names of the views.
    """

    blocks: Blocks
    names: Names

    def sum(self, function: Any, *shared: Any, name: str) -> tuple[Any, ...]:
        """Add up what a function makes of the blocks and the names (`Blocks.sum`)."""
        return self.blocks.sum(function, self.names, *shared, name=name)


class Sample(NamedTuple):
    """Samples in memory by which choices are made: all of them, or some.

    Attributes
    ----------
    rows : ndarray of int of shape (n,)
        Their positions among the training samples.
    data : MultiView or KernelStack of n samples
    targets : Targets of n samples
    columns : ndarray of int of shape (n,)
        What they are called by the input from `fit_input`.
    everyone : AllSamples or None
        None if these are all that count.
    passes : Passes
        Tells how far a fit is.
    rng : RandomState
        Has drawn them, and draws what is chosen next.
    """

    rows: Indices
    data: Samples
    targets: Targets
    columns: Indices
    everyone: AllSamples | None
    passes: Passes
    rng: np.random.RandomState

    def in_blocks(self, data: Samples, targets: Targets, n_jobs: int | None) -> "Sample":
        """Return the same, beside all training samples in blocks."""
        if self.everyone is not None:
            return self
        return self._replace(everyone=_in_blocks(data, targets, n_jobs, self.passes))

    def part(self, rows: Indices) -> "Sample":
        """Return some of the samples, in ascending order."""
        whole = len(rows) == len(self.rows) and not isinstance(self.data, LazyViews)
        return self._replace(
            rows=self.rows[rows],
            data=self.data if whole else self.data[rows],
            targets=self.targets.part(rows),
            columns=self.columns[rows],
        )


def take_sample(estimator: Any, data: Samples, targets: Targets, passes: Passes) -> Sample:
    """Take at most `MOST_SAMPLES` of the training samples that count into memory.

    Parameters
    ----------
    estimator : estimator
        With `n_jobs`, the threads over the blocks of all samples, and `random_state`.
    data : MultiView, LazyViews or KernelStack of n samples
    targets : Targets of n samples
    passes : Passes
        Told of what is read.

    Returns
    -------
    Sample
    """
    rng = check_random_state(estimator.random_state)
    numbers = np.arange(len(data))
    everyone = Sample(numbers, data, targets, numbers, None, passes, rng)
    rows = np.flatnonzero(targets.copies > 0)
    if len(rows) > MOST_SAMPLES:
        everyone = everyone.in_blocks(data, targets, estimator.n_jobs)
        rows = rows[np.sort(rng.choice(len(rows), MOST_SAMPLES, replace=False))]
    elif len(rows) == len(data) and not isinstance(data, LazyViews):
        return everyone.part(rows)
    with passes.stage(f"{len(rows)} of {len(data)} samples drawn and read"):
        drawn = everyone.part(rows)
    if isinstance(data, KernelStack):
        return drawn  # new samples given as kernels have all training samples as their columns
    return drawn._replace(columns=np.arange(len(rows)))


def _in_blocks(data: Samples, targets: Targets, n_jobs: int | None, passes: Passes) -> AllSamples:
    if isinstance(data, KernelStack):

        def cut(rows: slice) -> Block:
            part = data[rows]
            return Block((part,), part.observed)

        chunks = sliced_chunks(cut, default_lengths(len(data)), n_jobs=n_jobs, passes=passes)
        made, names = Blocks(chunks), None
    else:
        assert isinstance(data, MultiView)
        made, names = sample_blocks(data, n_jobs=n_jobs, passes=passes), data.names
    return AllSamples(made.beside(targets.Y, targets.weight, targets.copies), names)


def sample_blocks(
    data: MultiView, *, n_jobs: int | None = None, passes: Passes | None = None
) -> Blocks:
    """Return the rows of numeric views in blocks, to be summed over.

    Parameters
    ----------
    data : MultiView of n samples
        From `prepare_samples`; in memory or not.
    n_jobs : int or None, default=None
        Number of threads; dask knows its own workers.
    passes : Passes or None, default=None
        Counts the passes over the samples.

    Returns
    -------
    blocks : Blocks of n rows
    """
    if isinstance(data, LazyViews):
        counted = data.chunks.working(Passes() if passes is None else passes, n_jobs)
        return Blocks(counted.then(_as_block))
    views, observed = [data[name] for name in data.names], data.observed

    def cut(rows: slice) -> Block:
        return Block(tuple(_read(view, rows) for view in views), observed[rows])

    chunks = sliced_chunks(cut, default_lengths(len(observed)), n_jobs=n_jobs, passes=passes)
    return Blocks(chunks)


def _read(view: Any, rows: slice) -> Any:
    """Return some rows of numbers, none of which stay in memory if they are those of a file."""
    part = view[rows]
    return part if issparse(part) else np.asarray(in_copy_of_file(part), dtype=np.float64)


def _as_block(chunk: MultiView) -> Block:
    return Block(tuple(chunk[name] for name in chunk.names), chunk.observed)
