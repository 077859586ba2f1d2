"""The block of a view: a float64 array, a data frame or a sparse matrix, a row for each sample.

A sample that lacks the view has a row without any value: of NaN, of missing cells, or, in a sparse
matrix, where zeros are values, an empty one that the mask of the container marks.

Data frames are told by their interface, those of pandas, polars, and whatever behaves like one of
the two; no library of frames is imported here. A cell is missing if it is None, NaN, NaT, pandas'
NA or polars' null.
"""

import mmap
import re
import sys
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence, ValuesView
from contextlib import contextmanager
from decimal import Decimal
from numbers import Real
from typing import Any, Literal

import numpy as np
from scipy.sparse import csr_array, issparse
from sklearn.utils.validation import check_array

from kernelquilt._typing import Array, Bools, Floats, Indices
from kernelquilt.data.containers import check_names

Kind = Literal["number", "category", "date"]
_NUMERIC = "fiub"
_DATES = "Mm"
_DATE_TEXT = re.compile(r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}.*)?")
LARGEST = 1e151  # values whose squares may be summed


def is_frame(X: Any) -> bool:
    """Whether `X` is a data frame, judged by its interface."""
    if hasattr(X, "collect") and hasattr(X, "collect_schema") and not hasattr(X, "get_column"):
        raise ValueError(f"X is a {type(X).__name__}, which holds no data yet; pass X.collect()")
    return (hasattr(X, "iloc") or hasattr(X, "get_column")) and hasattr(X, "columns")


def is_annotated(X: Any) -> bool:
    """Whether `X` is a MuData or an AnnData; numpy would iterate over it without end."""
    return hasattr(X, "obs") and (hasattr(X, "mod") or (hasattr(X, "var") and hasattr(X, "X")))


def annotated_message(X: Any) -> str:
    """Return what to do with a MuData or an AnnData."""
    return f"{type(X).__name__} objects are for MultiView.from_mudata, alone or within a MuData"


def is_dask(X: Any) -> bool:
    """Whether `X` is a collection of dask."""
    return "dask" in sys.modules and bool(sys.modules["dask"].is_dask_collection(X))


def holds_dask(X: Any) -> bool:
    """Whether `X` is a dict or list that holds a collection of dask."""
    parts = X.values() if isinstance(X, Mapping) else X
    return isinstance(parts, ValuesView | list | tuple) and any(map(is_dask, parts))


def in_memory(X: Any) -> Any:
    """Return what dask computes of `X`, or `X` itself if it is no collection."""
    return X.compute() if is_dask(X) else X


def has_index(frame: Any) -> bool:
    """Whether a frame has names of its rows, as pandas' frames have."""
    return hasattr(frame, "iloc")


def column_names(frame: Any) -> tuple[str, ...] | None:
    """Return the names of the columns, None unless all are strings (as in scikit-learn)."""
    names = tuple(frame.columns)
    return names if all(isinstance(name, str) for name in names) else None


def select_columns(frame: Any, positions: Indices) -> Any:
    """Return some columns, by position."""
    return frame.iloc[:, positions] if has_index(frame) else frame[:, positions.tolist()]


def take_rows(frame: Any, rows: Indices) -> Any:
    """Return some rows, by position; all cells of the row -1 are missing."""
    gaps = rows < 0
    if has_index(frame):
        if not gaps.any():
            return frame.iloc[rows]
        return frame.set_axis(range(len(frame)), axis=0).reindex(rows)
    if not gaps.any():
        return frame[rows]
    return frame.vstack(frame.clear(1))[np.where(gaps, len(frame), rows)]


def cells(frame: Any, position: int) -> Array:
    """Return a column as an array (n,)."""
    column = frame.iloc[:, position] if has_index(frame) else frame.to_series(position)
    return np.asarray(column.to_numpy())


def is_missing(value: Any) -> bool:
    """Whether a cell is missing."""
    if value is None:
        return True
    try:
        return bool(value != value)
    except TypeError:  # pandas' NA is neither equal to itself nor different
        return True
    except ValueError:  # an array
        return False


def missing(values: Array) -> Bools:
    """Return which values of a column (n,) are missing."""
    if values.dtype.kind == "f":
        return np.isnan(values)
    if values.dtype.kind in _DATES:
        return np.isnat(values)
    if values.dtype.kind != "O":
        return np.zeros(len(values), dtype=bool)
    return np.fromiter(map(is_missing, values), dtype=bool, count=len(values))


def missing_rows(frame: Any) -> Bools:
    """Return the rows (n,) of which all cells are missing."""
    rows = np.arange(len(frame))
    for position in range(frame.shape[1]):
        if not len(rows):
            break
        rows = rows[missing(cells(frame, position)[rows])]
    found = np.zeros(len(frame), dtype=bool)
    found[rows] = True
    return found


def kind_of(frame: Any, position: int) -> Kind:
    """Return what a column holds; one without any value that is not typed holds categories."""
    column = frame.iloc[:, position] if has_index(frame) else frame.to_series(position)
    if str(column.dtype) == "category":
        return "category"
    values = np.asarray(column.to_numpy())
    if values.dtype.kind in _NUMERIC:
        return "number"
    if values.dtype.kind in _DATES:
        return "date"
    if values.dtype.kind == "O":
        present = values[~missing(values)]
        if len(present) and all(map(is_number, present)):
            return "number"
        if 2 * sum(map(_is_date, present)) > len(present):
            return "date"
        for value in present:
            if not isinstance(value, Hashable):
                raise ValueError(
                    f"column {frame.columns[position]!r} holds cells of type "
                    f"{type(value).__name__}, such as {str(value)[:40]!r}; make columns of numbers "
                    "or text of it, or leave it out"
                )
    return "category"


def is_numeric(frame: Any) -> bool:
    """Whether the types of all columns are numeric."""
    return all(map(_is_numeric, frame.dtypes))


def numbers_of(frame: Any) -> Floats:
    """Return a frame as an array (n, d), NaN where cells are missing; errors name the column."""
    if is_numeric(frame):
        as_whole = _numeric_frame(frame)
        if as_whole is not None:
            return np.ascontiguousarray(as_whole)
    found = np.empty(frame.shape)
    for position, label in enumerate(frame.columns):
        found[:, position] = numbers_in(cells(frame, position), label)
    return found


def numbers_in(values: Array, label: Any) -> Floats:
    """Return a column (n,) as numbers, NaN where missing; errors name it."""
    if values.dtype.kind in _NUMERIC:
        return np.asarray(values, dtype=np.float64)
    gaps = missing(values)
    present = values[~gaps]
    if len(present) and not (values.dtype.kind == "O" and all(map(is_number, present))):
        raise ValueError(_not_numbers(present, label))
    found = np.full(len(values), np.nan)
    found[~gaps] = present.astype(np.float64)
    return found


def texts_in(values: Array) -> Array:
    """Return a column (n,) as strings, None where missing; 1 and 1.0 are the same."""
    found = np.empty(len(values), dtype=object)
    for row in np.flatnonzero(~missing(values)):
        value = values[row]
        whole = isinstance(value, float | np.floating) and float(value).is_integer()
        found[row] = str(int(value)) if whole else str(value)
    return found


def _numeric_frame(frame: Any) -> Floats | None:
    if has_index(frame):
        return np.asarray(frame.to_numpy(dtype=np.float64, na_value=np.nan))
    values = frame.to_numpy()
    return values.astype(np.float64, copy=False) if values.dtype.kind in _NUMERIC else None


def _is_numeric(dtype: Any) -> bool:
    if hasattr(dtype, "is_numeric"):
        return bool(dtype.is_numeric())
    return getattr(dtype, "kind", "O") in _NUMERIC


def is_number(value: Any) -> bool:
    """Whether a cell is a number."""
    # numpy takes durations for integers
    return isinstance(value, Real | Decimal | np.bool_) and not isinstance(value, np.timedelta64)


def _is_date(value: Any) -> bool:
    if isinstance(value, str):
        return _DATE_TEXT.fullmatch(value) is not None
    return hasattr(value, "strftime") or hasattr(value, "total_seconds")


def _not_numbers(present: Iterable[Any], label: Any) -> str:
    first = next(value for value in present if not is_number(value))
    if _is_date(first) or isinstance(first, np.datetime64 | np.timedelta64):
        return (
            f"column {label!r} holds dates or times such as {str(first)!r}; turn it into a number, "
            "such as days since a fixed date, or leave it out"
        )
    return (
        f"column {label!r} is not numeric, its first such value is {str(first)!r}; encode it with "
        "ViewTransformer(), which takes every kind of column, or leave it out"
    )


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
        if is_annotated(block):
            raise ValueError(annotated_message(block))
        if is_frame(block):
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
        gaps = missing(X.ravel()).reshape(X.shape)
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


def take(block: Any, rows: Indices) -> Any:
    """Return rows by position; the row -1 is one without any value."""
    if is_frame(block):
        return take_rows(block, rows)
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
    if is_frame(block):
        return missing_rows(block)
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
    if is_frame(block) and has_index(block):
        return made.set_axis(block.index, axis=0)
    return made


def numbers(name: str, block: Any) -> Any:
    """Return the block of a view as numbers: a float64 array, or a sparse matrix as it is."""
    if not is_frame(block):
        return block
    try:
        made = numbers_of(block)
    except (TypeError, ValueError) as error:
        raise ValueError(f"view {name!r}: {error}") from error
    check_finite(name, made)
    return made


def missing_cells(block: Any) -> Bools:
    """Return which cells of a block that is not sparse are missing, (n, d)."""
    if not is_frame(block):
        return np.isnan(block)
    return np.column_stack([missing(cells(block, j)) for j in range(block.shape[1])])


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


def in_copy_of_file(array: Any) -> Any:
    """Return an array, or a copy in memory if it maps a file, of which no page stays."""
    if _mapped_file(array) is None:
        return array
    made = np.array(array)
    release_pages(array)
    return made


def release_pages(array: Any) -> None:
    """Let go of the pages of a file that an array maps into memory.

    Reading would otherwise leave the whole file there; what is needed again is read again. Files
    that may be written to, and other arrays, stay as they are.
    """
    file = _mapped_file(array)
    if file is not None and file.mode == "r" and hasattr(mmap, "MADV_DONTNEED"):
        file._mmap.madvise(mmap.MADV_DONTNEED)


def _mapped_file(array: Any) -> Any:
    while array is not None and not isinstance(array, np.memmap):
        array = getattr(array, "base", None)
    return array
