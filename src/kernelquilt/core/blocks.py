"""Functions over blocks of rows: in memory, read piece by piece, or on dask.

Rows come in chunks that are read at once: slices of arrays, parts of files, chunks of dask
collections. `Chunks` run a function over all of them, a *pass*, in threads (`LocalChunks`) or where
dask runs it (`DaskChunks`). `Blocks` are chunks of numeric views, cut into blocks of at most
`BLOCK_ROWS` rows, so that what a function makes of one is small.

Results are added in a fixed tree, neighbours first, which the lengths of the chunks determine: a
sum has the same bits for any number of threads, and on dask. No other module knows dask.
"""

import itertools
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from joblib import Parallel, delayed

from kernelquilt._typing import Array, Bools, Indices
from kernelquilt.core.blas import single_threaded_blas
from kernelquilt.core.passes import Passes

BLOCK_ROWS = 2048

Function = Callable[..., Any]
Combine = Callable[[Any, Any], Any]


class Block(NamedTuple):
    """Some rows, next to each other.

    Attributes
    ----------
    views : tuple of V matrices of shape (b, d_p)
        Dense (float64) or in CSR format. The rows of a view that is absent hold NaN, or nothing
        where they are sparse: take ``views[p][observed[:, p]]``.
    observed : ndarray of bool of shape (b, V)
        Which rows have which views.
    beside : tuple of ndarrays of shape (b, ...)
        What else there is to each row: targets, weights.
    """

    views: tuple[Any, ...]
    observed: Bools
    beside: tuple[Array, ...] = ()

    def rows(self, rows: Any) -> "Block":
        """Return some of the rows, by a slice or by positions."""
        return Block(
            tuple(view[rows] for view in self.views),
            self.observed[rows],
            tuple(array[rows] for array in self.beside),
        )


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
        bounds = itertools.pairwise(self.starts.tolist())
        pieces = [tuple(array[slice(*each)] for array in beside) for each in bounds]
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
            return list(results) if combine is None else _combined(results, combine)


class DaskChunks(Chunks):
    """Chunks that dask computes: on the distributed client, if there is one, or on its own threads.

    Parameters
    ----------
    parts : sequence of dask Delayed
        The chunks.
    lengths, passes
        As in `Chunks`.
    """

    def __init__(
        self, parts: Sequence[Any], lengths: Sequence[int], passes: Passes | None = None
    ) -> None:
        super().__init__(lengths, passes)
        self.parts = list(parts)

    def array(self, function: Function, *shared: Any, dtype: Any, width: int | None = None) -> Any:
        """Return what a function makes of the rows as a dask array (n,) or (n, width)."""
        tail = () if width is None else (width,)
        arrays = import_module("dask.array")
        return arrays.concatenate(
            [
                arrays.from_delayed(result, (length, *tail), dtype=dtype)
                for result, length in zip(self._called(function, shared), self.lengths, strict=True)
            ]
        )

    def _changed(
        self, function: Function, shared: tuple[Any, ...], pieces: list[tuple[Array, ...]]
    ) -> "DaskChunks":
        return DaskChunks(self._called(function, shared, pieces), self.lengths, self.passes)

    def _run(
        self,
        function: Function,
        shared: tuple[Any, ...],
        positions: Sequence[int],
        name: str,
        combine: Combine | None,
    ) -> Any:
        dask = import_module("dask")
        results = self._called(function, shared)
        wanted = [results[position] for position in positions]
        if combine is not None:
            wanted = [_combined(wanted, dask.delayed(combine, pure=False, traverse=False))]
        with self.passes.running(name, len(positions)), _large_arguments(dask):
            found = list(dask.compute(*wanted))
        return found if combine is None else found[0]

    def _called(
        self,
        function: Function,
        shared: tuple[Any, ...],
        pieces: Sequence[tuple[Array, ...]] | None = None,
    ) -> list[Any]:
        """Return ``function(chunk, *pieces, *shared)`` of all chunks as Delayed."""
        lazily = partial(import_module("dask").delayed, pure=False, traverse=False)
        # one key of the graph, so that they are sent once, and anew if a worker is lost
        arguments = lazily(_Opaque((function, shared)))
        call = lazily(_result_of_part)
        each = [()] * len(self.parts) if pieces is None else pieces
        return [
            call(part, arguments, _Opaque(own)) for part, own in zip(self.parts, each, strict=True)
        ]


class Blocks:
    """Numeric views in blocks of rows.

    Parameters
    ----------
    chunks : Chunks
        Each chunk is a `Block` of any length.
    """

    def __init__(self, chunks: Chunks) -> None:
        self.chunks = chunks

    def __len__(self) -> int:
        return len(self.chunks)

    def sum(self, function: Function, *shared: Any, name: str = "") -> tuple[Any, ...]:
        """Add up what a function makes of the blocks, in one pass.

        Parameters
        ----------
        function : callable
            ``function(block, *shared)`` returns a tuple of arrays or numbers; a pure function, of
            a module if it is to run on dask.
        *shared : object
            Further arguments, the same for all blocks.
        name : str, default=""
            What the pass is called where progress is shown.

        Returns
        -------
        sums : tuple
            Independent of the number of threads to the last bit.
        """
        return self.chunks.fold(_sum_over, function, *shared, combine=added, name=name)

    def map(self, function: Function, *shared: Any, name: str = "") -> tuple[Array, ...]:
        """Return what a function makes of the blocks, one below the other, in one pass.

        Parameters
        ----------
        function : callable
            ``function(block, *shared)`` returns a tuple of arrays (b', ...); b' may be less than
            the number of rows in the block.
        *shared, name
            As in `sum`.

        Returns
        -------
        arrays : tuple of ndarrays
        """
        return _stacked(self.chunks.collect(_map_over, function, *shared, name=name))

    def take(self, rows: Any, *, name: str = "") -> Block:
        """Return some rows, at positions (k,) in any order, as one block in memory."""
        rows = np.asarray(rows, dtype=np.intp)
        different, order = np.unique(rows, return_inverse=True)
        return joined(self.chunks.take(different, Block.rows, name=name)).rows(order)

    def beside(self, *arrays: Array) -> "Blocks":
        """Return the same blocks with further arrays (n, ...) beside the rows."""
        for array in arrays:
            if len(array) != len(self):
                raise ValueError(f"there are {len(self)} rows, but an array of {len(array)}")
        return Blocks(self.chunks.then(_with_beside, beside=arrays))


def array_blocks(
    views: Sequence[Any],
    observed: Bools,
    *,
    lengths: Sequence[int] | None = None,
    n_jobs: int | None = None,
    passes: Passes | None = None,
) -> Blocks:
    """Return the rows of arrays in blocks.

    Parameters
    ----------
    views : sequence of V matrices of shape (n, d_p)
        Arrays of numbers, also memory-mapped ones, or sparse matrices in CSR format.
    observed : ndarray of bool of shape (n, V)
    lengths : sequence of int or None, default=None
        Number of rows of each chunk; by default at most `BLOCK_ROWS`, all about the same.
    n_jobs : int or None, default=None
        Number of threads.
    passes : Passes or None, default=None
        Counts the passes.

    Returns
    -------
    blocks : Blocks
    """
    if lengths is None:
        lengths = default_lengths(len(observed))
    whole = Block(tuple(views), observed)
    return Blocks(sliced_chunks(partial(_as_floats, whole), lengths, n_jobs=n_jobs, passes=passes))


def sliced_chunks(
    cut: Callable[[slice], Any],
    lengths: Sequence[int],
    *,
    n_jobs: int | None = None,
    passes: Passes | None = None,
) -> LocalChunks:
    """Return chunks that `cut` makes of slices of rows; calls overlap if there are threads."""
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(int).tolist()

    def read(positions: Sequence[int]) -> Iterator[Callable[[], Any]]:
        return (partial(cut, slice(starts[k], starts[k + 1])) for k in positions)

    return LocalChunks(read, lengths, passes, n_jobs=n_jobs)


def default_lengths(n: int) -> tuple[int, ...]:
    """Return the rows of each chunk where nothing else determines them."""
    return tuple(np.diff(_bounds(n)).tolist())


def added(left: tuple[Any, ...], right: tuple[Any, ...]) -> tuple[Any, ...]:
    """Add two tuples of arrays."""
    return tuple(a + b for a, b in zip(left, right, strict=True))


def joined(blocks: Sequence[Block]) -> Block:
    """Return blocks one below the other as one."""
    first = blocks[0]
    if len(blocks) == 1:
        return first
    return Block(
        tuple(_below(parts) for parts in zip(*(each.views for each in blocks), strict=True)),
        np.concatenate([each.observed for each in blocks]),
        tuple(
            np.concatenate(parts) for parts in zip(*(each.beside for each in blocks), strict=True)
        ),
    )


def is_dask(X: Any) -> bool:
    """Whether `X` is a collection of dask."""
    return "dask" in sys.modules and bool(sys.modules["dask"].is_dask_collection(X))


class _Opaque:
    """Arguments in which dask does not look for collections."""

    def __init__(self, content: Any) -> None:
        self.content = content


def _large_arguments(dask: Any) -> AbstractContextManager[Any]:
    """Silence the advice to scatter large arguments, which a lost worker would take with it."""
    if "distributed" not in sys.modules:  # which brings its settings along
        return nullcontext()
    return dask.config.set({"distributed.admin.large-graph-warning-threshold": "1GB"})


def _result_of_part(chunk: Any, arguments: _Opaque, pieces: _Opaque) -> Any:
    function, shared = arguments.content
    with single_threaded_blas():
        return function(chunk, *pieces.content, *shared)


def _result(read: Callable[[], Any], function: Function, shared: tuple[Any, ...]) -> Any:
    return function(read(), *shared)


def _combined(results: Iterable[Any], combine: Combine) -> Any:
    """Combine neighbours, then neighbours of these, and so on; few are held at a time."""
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


def _bounds(n: int) -> Indices:
    """Return where blocks of n rows begin and end: at most BLOCK_ROWS, about the same number."""
    count = max(1, -(-n // BLOCK_ROWS))
    return np.arange(count + 1) * n // count


def _cut(chunk: Block) -> Iterator[Block]:
    bounds = _bounds(len(chunk.observed)).tolist()
    for start, stop in itertools.pairwise(bounds):
        yield chunk.rows(slice(start, stop))


def _as_floats(whole: Block, rows: slice) -> Block:
    cut = whole.rows(rows)
    return cut._replace(
        views=tuple(
            view if scipy.sparse.issparse(view) else np.asarray(view, dtype=np.float64)
            for view in cut.views
        )
    )


def _sum_over(chunk: Block, function: Function, *shared: Any) -> tuple[Any, ...]:
    return tuple(_combined((function(block, *shared) for block in _cut(chunk)), added))


def _map_over(chunk: Block, function: Function, *shared: Any) -> tuple[Array, ...]:
    return _stacked([function(block, *shared) for block in _cut(chunk)])


def _stacked(results: Sequence[tuple[Array, ...]]) -> tuple[Array, ...]:
    return tuple(np.concatenate(parts) for parts in zip(*results, strict=True))


def _below(parts: Sequence[Any]) -> Any:
    if scipy.sparse.issparse(parts[0]):
        return scipy.sparse.vstack(parts, format="csr")
    return np.concatenate(parts)


def _picked(chunk: Any, wanted: Bools, pick: Function) -> Any:
    return pick(chunk, np.flatnonzero(wanted))


def _same(chunk: Any) -> Any:
    return chunk


def _with_beside(chunk: Block, *pieces: Array) -> Block:
    return chunk._replace(beside=chunk.beside + pieces)
