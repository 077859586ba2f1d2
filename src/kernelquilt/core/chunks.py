"""Rows in chunks that are read at once, and functions over them.

A *pass* is a function over all chunks. Results are combined in a fixed tree, neighbours first,
which the number of chunks determines: the order of a sum depends neither on threads nor on dask.
"""

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from kernelquilt._typing import Array, Bools, Indices
from kernelquilt.core.limits import single_threaded_blas
from kernelquilt.core.passes import Passes

Function = Callable[..., Any]
Combine = Callable[[Any, Any], Any]


class Chunks(ABC):
    """Rows in chunks of any kind, and functions over them.

    Parameters
    ----------
    lengths : sequence of int
        Number of rows of each chunk.
    passes : Passes or None, default=None
        Counts the passes over the rows.
    """

    def __init__(self, lengths: Sequence[int], passes: Passes | None = None) -> None:
        self.lengths = tuple(int(length) for length in lengths)
        self.starts = np.concatenate([[0], np.cumsum(self.lengths)]).astype(np.intp)
        self.passes = Passes() if passes is None else passes

    def __len__(self) -> int:
        return int(self.starts[-1])

    def then(self, function: Function, *shared: Any, beside: Sequence[Array] = ()) -> "Chunks":
        """Return the same rows in other chunks, ``function(chunk, *pieces, *shared)``.

        Nothing is computed yet. The pieces are the rows of the arrays `beside`, (n, ...), that
        belong to the chunk.
        """
        pieces = [tuple(array[i:j] for array in beside) for i, j in self._bounds()]
        return self._changed(function, shared, pieces)

    def fold(self, function: Function, *shared: Any, combine: Combine, name: str = "") -> Any:
        """Combine ``function(chunk, *shared)`` over all chunks in a fixed tree, in one pass."""
        return self._run(function, shared, range(len(self.lengths)), name, combine)

    def collect(
        self, function: Function, *shared: Any, only: Sequence[int] | None = None, name: str = ""
    ) -> list[Any]:
        """Return ``function(chunk, *shared)`` of all chunks, or of some, in order, in one pass."""
        positions = range(len(self.lengths)) if only is None else only
        found: list[Any] = self._run(function, shared, positions, name, None)
        return found

    def take(self, rows: Indices, pick: Function, *, name: str = "") -> list[Any]:
        """Return ``pick(chunk, positions)`` of the chunks that hold some rows, in ascending order.

        Parameters
        ----------
        rows : ndarray of int of shape (k,)
            Positions among all rows.
        pick : callable
            Gets a chunk and positions in it.
        name : str, default=""
            What the pass is called.
        """
        if len(rows) and not (rows.min() >= 0 and rows.max() < len(self)):
            raise IndexError(f"there are {len(self)} rows, asked for {rows.min()} to {rows.max()}")
        wanted = np.zeros(len(self), dtype=bool)
        wanted[rows] = True
        only = np.unique(np.searchsorted(self.starts, rows, side="right") - 1).tolist()
        return self.then(_picked, pick, beside=(wanted,)).collect(_same, only=only, name=name)

    def select(self, wanted: Bools, pick: Function) -> "Chunks":
        """Return chunks of some rows, ``pick(chunk, positions)``; nothing is computed yet."""
        counts = np.array([np.count_nonzero(wanted[i:j]) for i, j in self._bounds()], dtype=np.intp)
        positions = np.flatnonzero(counts).tolist()
        return self.then(_picked, pick, beside=(wanted,))._some(
            positions, counts[positions].tolist()
        )

    def _bounds(self) -> Iterator[tuple[int, int]]:
        return itertools.pairwise(self.starts.tolist())

    @abstractmethod
    def rowwise(self, function: Function, *shared: Any, like: Array) -> Any:
        """Return ``function(chunk, *shared)``, which has as many rows, as one array.

        Parameters
        ----------
        function : callable
        *shared : object
            Further arguments.
        like : ndarray of shape (1, ...)
            What it returns for one row.

        Returns
        -------
        array : ndarray of shape (n, ...), or array of dask
        """

    @abstractmethod
    def working(self, passes: Passes, n_jobs: int | None) -> "Chunks":
        """Return the same chunks with another counter of passes and number of threads."""

    @abstractmethod
    def _some(self, positions: list[int], lengths: Sequence[int]) -> "Chunks":
        """Return some chunks, which turn out to have these lengths."""

    @abstractmethod
    def _changed(
        self, function: Function, shared: tuple[Any, ...], pieces: list[tuple[Array, ...]]
    ) -> "Chunks": ...

    @abstractmethod
    def _run(
        self,
        function: Function,
        shared: tuple[Any, ...],
        positions: Sequence[int],
        name: str,
        combine: Combine | None,
    ) -> Any:
        """Return the results at ascending positions, in a list if they are not combined."""


class LocalChunks(Chunks):
    """Chunks that are read and worked on in threads of this process.

    Parameters
    ----------
    read : callable
        ``read(positions)`` iterates over functions without arguments that return the chunks at
        these positions, in ascending order. It is called once in each pass, from one thread.
    lengths, passes
        As in `Chunks`.
    n_jobs : int or None, default=None
        Number of threads.
    """

    def __init__(
        self,
        read: Callable[[Sequence[int]], Iterator[Callable[[], Any]]],
        lengths: Sequence[int],
        passes: Passes | None = None,
        *,
        n_jobs: int | None = None,
    ) -> None:
        super().__init__(lengths, passes)
        self._read, self.n_jobs = read, n_jobs

    def rowwise(self, function: Function, *shared: Any, like: Array) -> Any:
        """Return what a function makes of the rows as an array."""
        return np.concatenate(self.collect(function, *shared))

    def working(self, passes: Passes, n_jobs: int | None) -> "LocalChunks":
        """Return the same chunks with another counter of passes and number of threads."""
        return LocalChunks(self._read, self.lengths, passes, n_jobs=n_jobs)

    def _some(self, positions: list[int], lengths: Sequence[int]) -> "LocalChunks":
        def read(chosen: Sequence[int]) -> Iterator[Callable[[], Any]]:
            return self._read([positions[k] for k in chosen])

        return LocalChunks(read, lengths, self.passes, n_jobs=self.n_jobs)

    def _changed(
        self, function: Function, shared: tuple[Any, ...], pieces: list[tuple[Array, ...]]
    ) -> "LocalChunks":
        def read(positions: Sequence[int]) -> Iterator[Callable[[], Any]]:
            for position, chunk in zip(positions, self._read(positions), strict=True):
                yield partial(_result, chunk, function, pieces[position] + shared)

        return LocalChunks(read, self.lengths, self.passes, n_jobs=self.n_jobs)

    def _run(
        self,
        function: Function,
        shared: tuple[Any, ...],
        positions: Sequence[int],
        name: str,
        combine: Combine | None,
    ) -> Any:
        # a backend that the caller has chosen may send the chunks elsewhere
        parallel = Parallel(self.n_jobs, require="sharedmem", return_as="generator")
        with self.passes.running(name, len(positions)) as advance, single_threaded_blas():
            tasks = (delayed(_result)(chunk, function, shared) for chunk in self._read(positions))
            results = map(advance, parallel(tasks))
            return list(results) if combine is None else combined(results, combine)


def combined(results: Iterable[Any], combine: Combine) -> Any:
    """Combine results: neighbours, then neighbours of these, and so on; few are held at a time."""
    waiting: list[tuple[int, Any]] = []  # sums of 2^level results
    for result in results:
        level = 0
        while waiting and waiting[-1][0] == level:
            result = combine(waiting.pop()[1], result)
            level += 1
        waiting.append((level, result))
    if not waiting:
        raise ValueError("there are no rows")
    total = waiting.pop()[1]
    while waiting:
        total = combine(waiting.pop()[1], total)
    return total


def _result(read: Callable[[], Any], function: Function, shared: tuple[Any, ...]) -> Any:
    return function(read(), *shared)


def _picked(chunk: Any, wanted: Bools, pick: Function) -> Any:
    return pick(chunk, np.flatnonzero(wanted))


def _same(chunk: Any) -> Any:
    return chunk
