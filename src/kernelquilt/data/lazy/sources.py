"""Views from files, from arrays that can be sliced, and from functions that yield them."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
from scipy.sparse import csr_array, issparse

from kernelquilt._messages import quoted
from kernelquilt._typing import Array, Indices
from kernelquilt.core.blocks import default_lengths, sliced_chunks
from kernelquilt.core.chunks import Chunks, LocalChunks
from kernelquilt.data.blocks import as_csr, cells, in_copy_of_file, is_frame
from kernelquilt.data.columns import names_of_columns
from kernelquilt.data.containers import check_mask, check_names
from kernelquilt.data.lazy.assembly import Assembly, assembled
from kernelquilt.data.lazy.views import LazyViews
from kernelquilt.data.views import MultiView


def stream_views(source: Any, observed: Any, columns: Mapping[str, Iterable[Any]]) -> LazyViews:
    """Do what `MultiView.stream` says."""
    if callable(source):
        if observed is not None or columns:
            raise ValueError("a function yields views with their masks and columns; give no others")
        return _from_function(source)
    if not isinstance(source, Mapping) or not source:
        raise ValueError(
            "a stream is made of a dict of view to files or arrays, or of a function that yields "
            f"MultiViews, got {type(source).__name__}"
        )
    names = check_names(source, len(source), "view")
    given = dict(zip(names, source.values(), strict=True))
    from_files = [isinstance(each, str | PathLike | list | tuple) for each in given.values()]
    if all(from_files):
        chunks, blocks = _parquet_chunks(given, columns)
        named = names_of_columns(blocks, {})
    else:
        chunks, blocks = _array_chunks(given)
        named = names_of_columns(blocks, columns)
    beside: list[Array] = []
    if observed is not None:
        beside.append(check_mask(observed, (len(chunks), len(names)), "views"))
    assembly = Assembly(names, named, has_mask=bool(beside))
    return LazyViews.of_chunks(blocks, chunks.then(assembled, assembly, beside=beside), named)


def _array_chunks(arrays: Mapping[str, Any]) -> tuple[Chunks, dict[str, Any]]:
    """Return chunks of arrays (n, d_p), and what these are like."""
    held, blocks = {}, {}
    for name, given in arrays.items():
        shape: tuple[int, ...] = getattr(given, "shape", ())
        if len(shape) != 2:
            raise ValueError(
                f"view {name!r}: an array of shape (n_samples, n_columns) or parquet files are "
                f"needed, got {type(given).__name__} of shape {shape}"
            )
        held[name] = as_csr(given) if issparse(given) else given
        blocks[name] = csr_array((0, shape[1])) if issparse(given) else np.empty((0, shape[1]))
    lengths = {name: each.shape[0] for name, each in held.items()}
    if len(set(lengths.values())) > 1:
        counts = ", ".join(f"{name!r} has {length}" for name, length in lengths.items())
        raise ValueError(f"views must hold the same samples, but {counts}")
    cut = partial(_sliced, tuple(held.values()))
    return sliced_chunks(cut, default_lengths(next(iter(lengths.values())))), blocks


def _sliced(arrays: tuple[Any, ...], rows: slice) -> tuple[Any, ...]:
    return tuple(
        each[rows] if issparse(each) else np.asarray(in_copy_of_file(each[rows])) for each in arrays
    )


def slices_of(data: MultiView) -> LazyViews:
    """Return views in memory, or in mapped files, that are read in slices of rows.

    Parameters
    ----------
    data : MultiView
        Of arrays and sparse matrices.

    Returns
    -------
    views : LazyViews
        Of the same samples.
    """
    blocks = {name: block[:0] for name, block in data._blocks.items()}
    cut = partial(_slice_of, data)
    made = _Slices.of_chunks(blocks, sliced_chunks(cut, default_lengths(len(data))), data.columns)
    made._seen, made.held = (data.observed, data.index), data
    return made


def _slice_of(data: MultiView, rows: slice) -> MultiView:
    blocks = {name: in_copy_of_file(block[rows]) for name, block in data._blocks.items()}
    return MultiView._build(blocks, data.observed[rows], None, data.columns)


class _Slices(LazyViews):
    """Samples of which single ones are found without reading all others."""

    held: MultiView

    def _loaded(self, rows: Indices) -> MultiView:
        return self.held[rows]


class _RowGroup(NamedTuple):
    """Some rows of a parquet file, and by what the file is recognised."""

    path: Path
    number: int
    columns: tuple[str, ...] | None
    stamp: tuple[int, int]


def _parquet_chunks(
    files: Mapping[str, Any], columns: Mapping[str, Iterable[Any]]
) -> tuple[Chunks, dict[str, Any]]:
    """Return chunks of the row groups of parquet files, and what the views are like."""
    unknown = set(columns) - set(files)
    if unknown:
        raise ValueError(f"columns are given of {sorted(unknown)}, which are not among the views")
    groups: dict[str, list[_RowGroup]] = {}
    lengths: dict[str, list[int]] = {}
    blocks: dict[str, Any] = {}
    for name, given in files.items():
        paths = [given] if isinstance(given, str | PathLike) else list(given)
        if not paths:
            raise ValueError(f"view {name!r} has no files")
        chosen = tuple(map(str, columns[name])) if name in columns else None
        groups[name], lengths[name] = [], []
        for path in map(Path, paths):
            with _naming(name, path):
                stored, stamp = _parquet(path), _stamp(path)
                sizes = [
                    stored.metadata.row_group(k).num_rows for k in range(stored.num_row_groups)
                ]
                like = stored.schema_arrow.empty_table()
                like = (like if chosen is None else like.select(chosen)).to_pandas()
            if name in blocks and list(blocks[name].columns) != list(like.columns):
                raise ValueError(f"view {name!r}: file {path.name!r} has other columns than before")
            blocks.setdefault(name, like)
            groups[name] += [_RowGroup(path, k, chosen, stamp) for k in range(len(sizes))]
            lengths[name] += sizes
    _check_row_groups(lengths)
    together = list(zip(*groups.values(), strict=True))
    sizes = next(iter(lengths.values()))
    kept = [k for k, size in enumerate(sizes) if size]
    names = tuple(files)

    def read(positions: Sequence[int]) -> Iterator[Callable[[], Any]]:
        return (partial(_read_row_groups, names, together[kept[k]]) for k in positions)

    return LocalChunks(read, [sizes[k] for k in kept]), blocks


def _check_row_groups(lengths: Mapping[str, list[int]]) -> None:
    first, *others = lengths
    for other in others:
        if lengths[other] != lengths[first]:
            raise ValueError(
                f"the files of the views must have the same row groups, but those of {first!r} "
                f"have {_told(lengths[first])} and those of {other!r} {_told(lengths[other])}; "
                "write them with the same row_group_size"
            )


def _told(lengths: list[int]) -> str:
    shown = ", ".join(map(str, lengths[:5])) + (", ..." if len(lengths) > 5 else "")
    return f"{len(lengths)} of {sum(lengths)} samples ({shown})"


def _read_row_groups(names: tuple[str, ...], groups: tuple[_RowGroup, ...]) -> tuple[Any, ...]:
    found = []
    for name, group in zip(names, groups, strict=True):
        with _naming(name, group.path):
            if _stamp(group.path) != group.stamp:
                raise ValueError("it has changed since the views were made; make them again")
            columns = None if group.columns is None else list(group.columns)
            table = _parquet(group.path).read_row_group(group.number, columns=columns)
        found.append(table.to_pandas())
    return tuple(found)


@contextmanager
def _naming(view: str, path: Path) -> Iterator[None]:
    """Name the view and the file in errors."""
    where = f"view {view!r}, file {str(path)!r}"
    try:
        yield
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"{where} is not there; samples that are not in memory are read in each pass, so that "
            "files must stay while a model is fitted"
        ) from error
    except (ValueError, KeyError, OSError) as error:
        raise ValueError(f"{where}: {error}") from error


def _parquet(path: Path) -> Any:
    try:
        return import_module("pyarrow.parquet").ParquetFile(path)
    except ImportError as error:
        raise ImportError('parquet files need pyarrow: pip install "kernelquilt[files]"') from error


def _stamp(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_size, found.st_mtime_ns


def _from_function(function: Callable[[], Iterable[Any]]) -> LazyViews:
    """Return the views that a function yields, after calling it once."""
    like: MultiView | None = None
    seen: list[tuple[int, int]] = []
    for chunk in map(_as_views, function()):
        like = chunk[:0] if like is None else like
        if chunk.columns != like.columns:
            raise ValueError(
                f"the function yields views {quoted(chunk.names)} in number {len(seen)}, but "
                f"{quoted(like.names)} before, or views with other columns; views that are absent "
                "are rows of NaN"
            )
        seen.append((len(chunk), _stamp_of(chunk)))
    if like is None:
        raise ValueError(
            "the function yields no samples; it returns an iterator over MultiViews, a new one "
            "whenever it is called"
        )

    def read(positions: Sequence[int]) -> Iterator[Callable[[], Any]]:
        wanted, called = set(positions), iter(function())
        for position, (length, stamp) in enumerate(seen):
            chunk = next(called, None)
            if position in wanted:
                yield partial(_same_again, chunk, position, length, stamp)
        if len(wanted) == len(seen) and next(called, None) is not None:
            raise ValueError(f"{_OTHER_ROWS}: there are more than {len(seen)} of them")

    chunks = LocalChunks(read, [length for length, _ in seen])
    return LazyViews.of_chunks(dict(like._blocks), chunks, like.columns)


_OTHER_ROWS = (
    "the function that yields the samples yields others than when it was first called; it must "
    "make a new iterator over the same MultiViews whenever it is called"
)


def _as_views(chunk: Any) -> MultiView:
    made = chunk if isinstance(chunk, MultiView) else MultiView(chunk)
    if isinstance(made, LazyViews):
        raise ValueError("a function yields views in memory, not such that are lazy themselves")
    return made


def _stamp_of(chunk: MultiView) -> int:
    """Return a number that tells whether a chunk has the same values again."""
    stamp = crc32(chunk.observed.tobytes())
    for block in chunk._blocks.values():
        if is_frame(block):
            columns = [cells(block, j) for j in range(block.shape[1])]
        else:
            columns = [block.indices, block.data] if issparse(block) else [block]
        for values in columns:
            if values.dtype.kind == "O":
                stamp = crc32("\0".join(map(str, values)).encode(), stamp)
            else:
                stamp = crc32(np.ascontiguousarray(values).view(np.uint8).data, stamp)
    return stamp


def _same_again(chunk: Any, position: int, length: int, stamp: int) -> MultiView:
    if chunk is None:
        raise ValueError(f"{_OTHER_ROWS}: there are {position} only")
    made = _as_views(chunk)
    if len(made) != length:
        raise ValueError(
            f"{_OTHER_ROWS}: number {position} has {len(made)} samples instead of {length}"
        )
    if _stamp_of(made) != stamp:
        raise ValueError(f"{_OTHER_ROWS}: number {position} has other values")
    return made
