"""Numeric views in blocks of rows, and sums over them.

Rows come in chunks that are read at once: slices of arrays, parts of files, chunks of dask
collections (:mod:`kernelquilt.core.chunks`). `Blocks` cut them into blocks of at most `BLOCK_ROWS`
rows, so that what a function makes of one is small, and add the results in a tree that the lengths
of the chunks determine.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

from kernelquilt._typing import Array, Bools, Indices
from kernelquilt.core.chunks import Chunks, Function, LocalChunks, combined
from kernelquilt.core.passes import Passes

BLOCK_ROWS = 2048


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
        Arrays of numbers, or sparse matrices in CSR format.
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
    return Blocks(sliced_chunks(partial(_read, whole), lengths, n_jobs=n_jobs, passes=passes))


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


def _bounds(n: int) -> Indices:
    """Return where blocks of n rows begin and end: at most BLOCK_ROWS, about the same number."""
    count = max(1, -(-n // BLOCK_ROWS))
    return np.arange(count + 1) * n // count


def _cut(chunk: Block) -> Iterator[Block]:
    bounds = _bounds(len(chunk.observed)).tolist()
    for start, stop in itertools.pairwise(bounds):
        yield chunk.rows(slice(start, stop))


def _read(whole: Block, rows: slice) -> Block:
    cut = whole.rows(rows)
    return cut._replace(views=tuple(map(_floats, cut.views)))


def _floats(view: Any) -> Any:
    if scipy.sparse.issparse(view):
        return view
    return np.asarray(view, dtype=np.float64)


def _sum_over(chunk: Block, function: Function, *shared: Any) -> tuple[Any, ...]:
    return tuple(combined((function(block, *shared) for block in _cut(chunk)), added))


def _map_over(chunk: Block, function: Function, *shared: Any) -> tuple[Array, ...]:
    return _stacked([function(block, *shared) for block in _cut(chunk)])


def _stacked(results: Sequence[tuple[Array, ...]]) -> tuple[Array, ...]:
    return tuple(np.concatenate(parts) for parts in zip(*results, strict=True))


def _below(parts: Sequence[Any]) -> Any:
    if scipy.sparse.issparse(parts[0]):
        return scipy.sparse.vstack(parts, format="csr")
    return np.concatenate(parts)


def _with_beside(chunk: Block, *pieces: Array) -> Block:
    return chunk._replace(beside=chunk.beside + pieces)
