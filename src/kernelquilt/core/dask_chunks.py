"""Chunks of rows that dask computes; no other module of the numerics knows dask."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse

from kernelquilt._typing import Array
from kernelquilt.core.chunks import Chunks, Combine, Function, combined
from kernelquilt.core.limits import single_threaded_blas
from kernelquilt.core.passes import Passes


def is_frame_of_dask(X: Any) -> bool:
    """Whether a collection of dask is a data frame."""
    return hasattr(X, "npartitions") and hasattr(X, "columns")


def without_rows(collection: Any) -> Any:
    """Return what a collection is like: a data frame, array or sparse matrix without any row."""
    if is_frame_of_dask(collection):
        return collection._meta
    shape: tuple[Any, ...] = getattr(collection, "shape", ())
    if len(shape) != 2 or shape[1] != shape[1]:
        raise ValueError(
            f"2-D arrays and data frames of dask with a known number of columns are needed, got "
            f"{type(collection).__name__} of shape {shape}"
        )
    return csr_array((0, shape[1])) if issparse(collection._meta) else np.empty((0, shape[1]))


def dask_chunks(collections: Mapping[str, Any], passes: Passes | None = None) -> "DaskChunks":
    """Return chunks of arrays (n, d_p) and data frames of dask, with a tuple of parts in each.

    Parameters
    ----------
    collections : mapping of str to dask array or data frame
        With the same rows in the same chunks, in any chunks of columns.
    passes : Passes or None, default=None
        Counts the pass that finds lengths that dask does not know.

    Returns
    -------
    chunks : DaskChunks
    """
    dask = import_module("dask")
    parts: dict[str, Any] = {}
    lengths: dict[str, tuple[Any, ...]] = {}
    for name, given in collections.items():
        if is_frame_of_dask(given):
            parts[name], lengths[name] = given.to_delayed(), (None,) * given.npartitions
            continue
        rows = given if given.numblocks[1] == 1 else given.rechunk({1: -1})
        parts[name] = rows.to_delayed().ravel().tolist()
        lengths[name] = tuple(None if n != n else n for n in rows.chunks[0])
    _check_alike(lengths)
    together = [dask.delayed(_tuple)(*each) for each in zip(*parts.values(), strict=True)]
    sizes = lengths[next(iter(lengths))]
    if any(None in each for each in lengths.values()):
        found = DaskChunks(together, [0] * len(together), passes).collect(
            _lengths_of, name="lengths"
        )
        _check_alike(dict(zip(lengths, zip(*found, strict=True), strict=True)))
        sizes = tuple(each[0] for each in found)
    return DaskChunks(together, sizes, passes, held=list(collections.values()))


def arrays_of_calls(
    function: Function,
    calls: Sequence[tuple[Any, ...]],
    lengths: Sequence[int],
    like: Sequence[Array],
) -> list[Any]:
    """Return arrays of dask whose chunks a function computes.

    Parameters
    ----------
    function : callable
        Returns a tuple of arrays (length of the chunk, ...).
    calls : sequence of tuples
        Its arguments for each chunk.
    lengths : sequence of int
        Number of rows of each chunk.
    like : sequence of ndarrays of shape (0, ...)
        What the arrays are like.

    Returns
    -------
    arrays : list of arrays of dask
    """
    try:
        dask, array = import_module("dask"), import_module("dask.array")
    except ImportError as error:
        raise ImportError('chunks need dask: pip install "kernelquilt[scale]"') from error
    made = [dask.delayed(function, pure=False, traverse=False)(*each) for each in calls]
    return [
        array.concatenate(
            [
                array.from_delayed(chunk[k], (length, *each.shape[1:]), dtype=each.dtype)
                for chunk, length in zip(made, lengths, strict=True)
            ]
        )
        for k, each in enumerate(like)
    ]


def _check_alike(lengths: Mapping[str, tuple[Any, ...]]) -> None:
    """Refuse collections with other chunks of rows, where they are known."""
    first, *others = lengths
    for other in others:
        a, b = lengths[first], lengths[other]
        same = len(a) == len(b) and all(
            None in pair or pair[0] == pair[1] for pair in zip(a, b, strict=True)
        )
        if not same:
            raise ValueError(
                f"views must have the same chunks of rows, but {first!r} has {_told(a)} and "
                f"{other!r} {_told(b)}; rechunk arrays with .rechunk({{0: rows}}), and repartition "
                "data frames at the same rows"
            )


def _told(lengths: tuple[Any, ...]) -> str:
    shown = ", ".join("unknown" if n is None else str(n) for n in lengths[:5])
    more = ", ..." if len(lengths) > 5 else ""
    return f"{len(lengths)} chunks ({shown}{more})"


def _tuple(*parts: Any) -> tuple[Any, ...]:
    return parts


def _lengths_of(parts: tuple[Any, ...]) -> tuple[int, ...]:
    return tuple(part.shape[0] for part in parts)


class DaskChunks(Chunks):
    """Chunks that dask computes: on the distributed client, if there is one, or on its own threads.

    Parameters
    ----------
    parts : sequence of dask Delayed
        The chunks.
    lengths, passes
        As in `Chunks`.
    held : object, default=None
        What must not be forgotten, such as collections whose chunks workers hold.
    """

    def __init__(
        self,
        parts: Sequence[Any],
        lengths: Sequence[int],
        passes: Passes | None = None,
        *,
        held: Any = None,
    ) -> None:
        super().__init__(lengths, passes)
        self.parts, self.held = list(parts), held

    def rowwise(self, function: Function, *shared: Any, like: Array) -> Any:
        """Return what a function makes of the rows as a dask array, which is not computed."""
        arrays = import_module("dask.array")
        return arrays.concatenate(
            [
                arrays.from_delayed(result, (length, *like.shape[1:]), dtype=like.dtype)
                for result, length in zip(self._called(function, shared), self.lengths, strict=True)
            ]
        )

    def working(self, passes: Passes, n_jobs: int | None) -> "DaskChunks":
        """Return the same chunks with another counter of passes; dask knows its workers."""
        return DaskChunks(self.parts, self.lengths, passes, held=self.held)

    def _some(self, positions: list[int], lengths: Sequence[int]) -> "DaskChunks":
        parts = [self.parts[k] for k in positions]
        return DaskChunks(parts, lengths, self.passes, held=self.held)

    def _changed(
        self, function: Function, shared: tuple[Any, ...], pieces: list[tuple[Array, ...]]
    ) -> "DaskChunks":
        parts = self._called(function, shared, pieces)
        return DaskChunks(parts, self.lengths, self.passes, held=self.held)

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
            wanted = [combined(wanted, dask.delayed(combine, pure=False, traverse=False))]
        with self.passes.running(name, len(positions)), _large_arguments(dask), _lost():
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


class _Opaque:
    """Arguments in which dask does not look for collections."""

    def __init__(self, content: Any) -> None:
        self.content = content


def _large_arguments(dask: Any) -> AbstractContextManager[Any]:
    """Silence the advice to scatter large arguments, which a lost worker would take with it."""
    if "distributed" not in sys.modules:  # which brings its settings along
        return nullcontext()
    return dask.config.set({"distributed.admin.large-graph-warning-threshold": "1GB"})


_CLOSED = "Missing dependency", "no Client active"  # in errors of dask


@contextmanager
def _lost() -> Iterator[None]:
    """Say what to do where a client is closed, or has taken chunks along."""
    try:
        yield
    except Exception as error:
        gone = type(error).__name__ in (
            "ClosedClientError",
            "CancelledError",
            "FutureCancelledError",
        )
        if not gone and not any(text in str(error) for text in _CLOSED):
            raise
        raise ValueError(
            "the client of dask is closed, or the one that held chunks of the views was; open "
            "another, and make the views again from their source"
        ) from error


def _result_of_part(chunk: Any, arguments: _Opaque, pieces: _Opaque) -> Any:
    function, shared = arguments.content
    with single_threaded_blas():
        return function(chunk, *pieces.content, *shared)
