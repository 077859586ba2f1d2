"""What data are, by their interface: frames of pandas or polars, of MuData, collections of dask.

No library of frames is imported here. A cell is missing if it is None, NaN, NaT, pandas' NA or
polars' null.
"""

import re
import sys
from collections.abc import Hashable, Iterable, Mapping, ValuesView
from decimal import Decimal
from numbers import Real
from typing import Any, Literal

import numpy as np

from kernelquilt._typing import Array, Bools, Floats, Indices

Kind = Literal["number", "category", "date"]

_NUMERIC = "fiub"
_DATES = "Mm"
_DATE_TEXT = re.compile(r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}.*)?")


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


def missing_cells(frame: Any) -> Bools:
    """Return which cells are missing, (n, d)."""
    return np.column_stack([missing(cells(frame, j)) for j in range(frame.shape[1])])


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
        if len(present) and all(map(_is_number, present)):
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
    if len(present) and not (values.dtype.kind == "O" and all(map(_is_number, present))):
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


def sorted_identifiers(identifiers: Iterable[Any]) -> list[Any]:
    """Return different names of samples in ascending order.

    Names that cannot be compared are sorted by type first: numbers, then the others by the name of
    their type.
    """
    unique = list(dict.fromkeys(identifiers))
    try:
        return sorted(unique)
    except TypeError:
        return sorted(unique, key=_identifier_key)


def _identifier_key(identifier: Any) -> tuple[Any, ...]:
    if _is_number(identifier):
        return "", float(identifier)
    if isinstance(identifier, str):
        return "str", identifier
    return type(identifier).__name__, repr(identifier)


def _numeric_frame(frame: Any) -> Floats | None:
    if has_index(frame):
        return np.asarray(frame.to_numpy(dtype=np.float64, na_value=np.nan))
    values = frame.to_numpy()
    return values.astype(np.float64, copy=False) if values.dtype.kind in _NUMERIC else None


def _is_numeric(dtype: Any) -> bool:
    if hasattr(dtype, "is_numeric"):
        return bool(dtype.is_numeric())
    return getattr(dtype, "kind", "O") in _NUMERIC


def _is_number(value: Any) -> bool:
    # numpy takes durations for integers
    return isinstance(value, Real | Decimal | np.bool_) and not isinstance(value, np.timedelta64)


def _is_date(value: Any) -> bool:
    if isinstance(value, str):
        return _DATE_TEXT.fullmatch(value) is not None
    return hasattr(value, "strftime") or hasattr(value, "total_seconds")


def _not_numbers(present: Iterable[Any], label: Any) -> str:
    first = next(value for value in present if not _is_number(value))
    if _is_date(first) or isinstance(first, np.datetime64 | np.timedelta64):
        return (
            f"column {label!r} holds dates or times such as {str(first)!r}; turn it into a number, "
            "such as days since a fixed date, or leave it out"
        )
    return (
        f"column {label!r} is not numeric, its first such value is {str(first)!r}; encode it with "
        "ViewTransformer(), which takes every kind of column, or leave it out"
    )
