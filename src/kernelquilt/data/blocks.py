"""The block of a view: a float64 array, a data frame or a sparse matrix, a row for each sample.

A sample that lacks the view has a row without any value: of NaN, of missing cells, or, in a sparse
matrix, where zeros are values, an empty one that the mask of the container marks.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse
from sklearn.utils.validation import check_array

from kernelquilt._messages import check_names, quoted
from kernelquilt._typing import Bools, Floats, Indices
from kernelquilt.core.memory import release_pages
from kernelquilt.data import frames

LARGEST = 1e151  # values whose squares may be summed


def as_blocks(views: Mapping[Any, Any] | Sequence[Any]) -> dict[str, Any]:
    """Return the blocks of views by name after checking that they have the same number of rows."""
    if not isinstance(views, Mapping | list | tuple):
        raise ValueError(
            f"a MultiView is made of a dict or list of 2-D blocks, got {type(views).__name__}; "
            "as_views splits the columns of 2-D data into views"
        )
    if not isinstance(views, Mapping):
        views = dict(zip(names_by_position(len(views)), views, strict=True))
    if not views:
        raise ValueError("a MultiView needs at least one view")
    names = check_names(views, len(views), "view")
    blocks = {
        name: as_block(name, block) for name, block in zip(names, views.values(), strict=True)
    }
    lengths = {name: block.shape[0] for name, block in blocks.items()}
    if len(set(lengths.values())) > 1:
        counts = ", ".join(f"{name!r} has {length}" for name, length in lengths.items())
        raise ValueError(
            f"views must hold the same samples, but {counts}; "
            "join data frames on their index with MultiView.from_frames"
        )
    return blocks


def names_by_position(count: int) -> tuple[str, ...]:
    """Return the names of the views of a list."""
    return tuple(f"view_{position}" for position in range(count))


def as_block(name: Any, block: Any) -> Any:
    """Return the block of a view: frames as they are, sparse matrices as CSR, others as arrays."""
    try:
        if block is None:
            raise ValueError("there is None instead of data; leave the view out")
        if frames.is_annotated(block):
            raise ValueError(frames.annotated_message(block))
        if frames.is_frame(block):
            return _with_columns(block)
        if issparse(block):
            return as_csr(block)
        return as_array(block, ensure_min_samples=0)
    except (TypeError, ValueError) as error:
        raise ValueError(f"view {str(name)!r}: {error}") from error


def as_array(X: Any, **options: Any) -> Floats:
    """Return 2-D data as a float64 array, which may hold NaN."""
    shape = getattr(X, "shape", ())
    if len(shape) > 2:
        raise ValueError(
            f"Found array with dim {len(shape)} (shape {tuple(shape)}), but 2-D data are needed; "
            "images and the like are flattened by X.reshape(len(X), -1), kernels (M, n, n) are "
            "KernelStack(X), and kernels (n, n, M) go with kernels='precomputed'"
        )
    X = with_nan(X)
    with naming_text(X):
        # one order, so that the same numbers give the same bits whatever they came in
        checked: Floats = check_array(
            X, dtype=np.float64, order="C", ensure_all_finite=False, **options
        )
    return checked


def with_nan(X: Any) -> Any:
    """Return an array with NaN for masked cells, and for objects that are missing in other ways."""
    if isinstance(X, np.ma.MaskedArray):
        X = np.ma.filled(X.astype(object if X.dtype.kind == "O" else np.float64), np.nan)
    if isinstance(X, np.ndarray) and X.dtype.kind == "O":
        gaps = frames.missing(X.ravel()).reshape(X.shape)
        X = np.where(gaps, np.nan, X) if gaps.any() else X
    return X


@contextmanager
def naming_text(X: Any) -> Iterator[None]:
    """Name the first cell of 2-D data that is text, if that is why they do not become numbers."""
    try:
        yield
    except ValueError as error:
        values = np.asarray(X, dtype=object)
        for row, column in np.ndindex(values.shape) if values.ndim == 2 else ():
            cell: Any = values[row, column]
            if isinstance(cell, str) and not _reads_as_number(cell):
                raise ValueError(
                    f"column {column} is not numeric, its first such value is {str(cell)!r}; pass "
                    "a data frame, the text of which ViewTransformer() encodes and the quilt by "
                    "itself, or leave the column out"
                ) from error
        raise


def _reads_as_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def as_csr(X: Any) -> Any:
    """Return a sparse matrix in canonical CSR format, the same object if it is in it already."""
    if X.ndim != 2:
        raise ValueError(f"Found sparse array with dim {X.ndim}, but 2-D data are needed")
    if X.dtype.kind not in "fiub":
        raise ValueError(f"sparse matrices must hold real numbers, got dtype {X.dtype}")
    made = _with_columns(X.tocsr().astype(np.float64, copy=False))
    if not made.has_canonical_format:
        made = made.copy()
        made.sum_duplicates()
    return made


def names_of_columns(
    blocks: Mapping[str, Any], given: Mapping[str, Any]
) -> dict[str, tuple[str, ...] | None]:
    """Return the names of the columns of each view: those given, or those of a frame."""
    named = {str(name): tuple(map(str, columns)) for name, columns in given.items()}
    for name, columns in named.items():
        if name not in blocks:
            raise ValueError(f"columns of {name!r} are named; the views are {quoted(blocks)}")
        if len(columns) != blocks[name].shape[1]:
            raise ValueError(
                f"view {name!r} has {blocks[name].shape[1]} columns, but {len(columns)} are named"
            )
    return {name: named.get(name, _own_names(block)) for name, block in blocks.items()}


def take(block: Any, rows: Indices) -> Any:
    """Return rows by position; the row -1 is one without any value."""
    if frames.is_frame(block):
        return frames.take_rows(block, rows)
    gaps = rows < 0
    if issparse(block) and np.array_equal(rows, np.arange(block.shape[0])):
        return block  # which may be large, and nobody changes it
    if not gaps.any():
        found = block[rows]
        release_pages(block)
        return found
    if issparse(block):
        found = block[rows[~gaps]]
        lengths = np.zeros(len(rows), dtype=found.indptr.dtype)
        lengths[~gaps] = np.diff(found.indptr)
        indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(found.indptr.dtype)
        shape = len(rows), block.shape[1]
        return type(found)((found.data, found.indices, indptr), shape=shape)
    made = np.full((len(rows), block.shape[1]), np.nan)
    made[~gaps] = block[rows[~gaps]]
    release_pages(block)
    return made


def nothing(n: int, n_columns: int, *, sparse: bool) -> Any:
    """Return the block of n samples that all lack the view."""
    return csr_array((n, n_columns)) if sparse else np.full((n, n_columns), np.nan)


def rows_without_values(block: Any) -> Bools:
    """Return the rows (n,) that show that the sample lacks the view."""
    if frames.is_frame(block):
        return frames.missing_rows(block)
    if issparse(block):
        return np.zeros(block.shape[0], dtype=bool)
    empty = np.isnan(block).all(axis=1)
    release_pages(block)
    return np.asarray(empty)


def without_rows(block: Any, absent: Bools) -> Any:
    """Return a block with no value in some rows; the same object if there is none already."""
    if not absent.any():
        return block
    if issparse(block):
        empty = block[absent].nnz == 0
    else:
        empty = rows_without_values(take(block, np.flatnonzero(absent))).all()
    if empty:
        return block
    made = take(block, np.where(absent, -1, np.arange(len(absent))))
    if frames.is_frame(block) and frames.has_index(block):
        return made.set_axis(block.index, axis=0)
    return made


def numbers(name: str, block: Any) -> Any:
    """Return the block of a view as numbers: a float64 array, or a sparse matrix as it is."""
    if not frames.is_frame(block):
        return block
    try:
        made = frames.numbers_of(block)
    except (TypeError, ValueError) as error:
        raise ValueError(f"view {name!r}: {error}") from error
    check_finite(name, made)
    return made


def missing_cells(block: Any) -> Bools:
    """Return which cells of a block that is not sparse are missing, (n, d)."""
    return frames.missing_cells(block) if frames.is_frame(block) else np.isnan(block)


def check_finite(name: str, block: Any) -> None:
    """Refuse infinite values, those too large to square, and missing cells in sparse matrices."""
    values = block.data if issparse(block) else block
    infinite = np.isinf(values)
    if infinite.any():
        if issparse(block):
            rows = np.searchsorted(block.indptr, np.flatnonzero(infinite), side="right")
        else:
            rows = np.nonzero(infinite)[0]
        raise ValueError(
            f"view {name!r} has {infinite.sum()} infinite values (inf) in {len(np.unique(rows))} "
            f"of {block.shape[0]} samples; replace them, or set the cells to NaN and impute them "
            "with ViewTransformer"
        )
    size = max(
        float(np.fmax.reduce(values, axis=None, initial=0.0)),
        -float(np.fmin.reduce(values, axis=None, initial=0.0)),
    )
    release_pages(values)
    if size > LARGEST:
        raise ValueError(
            f"view {name!r} has values up to {size:.3g}, whose squares are too large for a number; "
            "divide it by its largest value"
        )
    if issparse(block) and np.isnan(values).any():
        raise ValueError(
            f"view {name!r} is sparse and has {np.isnan(values).sum()} cells of NaN; mark samples "
            "that lack the view with observed=, and fill single cells"
        )


def _with_columns(block: Any) -> Any:
    if block.shape[1] == 0:
        raise ValueError(
            f"Found array with 0 feature(s) (shape={block.shape}) while a minimum of 1 is required."
        )
    return block


def _own_names(block: Any) -> tuple[str, ...] | None:
    return frames.column_names(block) if frames.is_frame(block) else None
