"""Which columns of 2-D data belong to which view."""

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np

from kernelquilt._messages import quoted, remedy
from kernelquilt._typing import Bools, Indices
from kernelquilt.data.blocks import column_names, is_frame, select_columns
from kernelquilt.data.containers import check_names, row_positions

ViewColumns = Mapping[Any, Any] | str | None


def has_view_level(X: Any) -> bool:
    """Whether the columns of `X` have several levels, of which the top one names views."""
    return is_frame(X) and getattr(X.columns, "nlevels", 1) > 1


def with_string_labels(frame: Any) -> Any:
    """Flatten MultiIndex columns to strings, the only labels that scikit-learn compares."""
    if not has_view_level(frame):
        return frame
    return frame.set_axis(["__".join(map(str, label)) for label in frame.columns], axis=1)


def resolve_columns(X: Any, views: ViewColumns) -> dict[str, Indices]:
    """Turn the `views` of 2-D data into column positions.

    Parameters
    ----------
    X : ndarray, sparse matrix or DataFrame of shape (n_samples, n_features)
    views : dict of str to columns, "columns" or None
        As in `as_views`.

    Returns
    -------
    columns : dict of str to ndarray of int
    """
    n_columns = X.shape[1]
    labels = list(X.columns) if is_frame(X) else []
    if views is None:
        if has_view_level(X):
            tops = [label[0] for label in labels]
            return {
                str(top): np.flatnonzero([other == top for other in tops])
                for top in dict.fromkeys(tops)
            }
        return {"X": np.arange(n_columns)}
    if isinstance(views, str) and views == "columns":
        names = check_names(
            labels or [f"column_{j}" for j in range(n_columns)], n_columns, "column"
        )
        return {name: np.array([j]) for j, name in enumerate(names)}
    if not isinstance(views, Mapping) or not views:
        raise ValueError(f"views must be a dict of name to columns or 'columns', got {views!r}")
    names = check_names(views, len(views), "view")
    position = {label: j for j, label in enumerate(labels)}
    if len(position) < len(labels):
        raise ValueError(f"{len(labels) - len(position)} column labels of X are repeated")
    return {
        name: _positions(name, key(X) if callable(key) else key, position, n_columns)
        for name, key in zip(names, views.values(), strict=True)
    }


def blocks_of_columns(X: Any, columns: Mapping[str, Indices]) -> dict[str, Any]:
    """Return the block of each view of 2-D data, from `resolve_columns`."""
    whole = np.arange(X.shape[1])
    blocks = {}
    for name, positions in columns.items():
        if is_frame(X):
            blocks[name] = _named_in_view(select_columns(X, positions))
        else:
            blocks[name] = X if np.array_equal(positions, whole) else X[:, positions]
    return blocks


def without_columns(X: Any, columns: Mapping[str, Indices], observed: Bools) -> Any:
    """Return 2-D data with missing cells where samples are to lack a view.

    Parameters
    ----------
    X : ndarray or DataFrame of shape (n_samples, n_features)
    columns : dict of str to ndarray of int
        From `resolve_columns`.
    observed : ndarray of bool of shape (n_samples, n_views)
        False where the view is to be absent.

    Returns
    -------
    X : object of the type of the input
    """
    absent = np.zeros(X.shape, dtype=np.bool_)
    times_used = np.zeros(X.shape[1], dtype=int)
    for positions, present in zip(columns.values(), observed.T, strict=True):
        absent[:, positions] = ~present[:, None]
        times_used[positions] += 1
    if (times_used > 1).any():
        raise ValueError(
            f"{(times_used > 1).sum()} columns belong to several views, so that one of these "
            "cannot be absent alone; use a MultiView"
        )
    return X.mask(absent) if is_frame(X) else np.where(absent, np.nan, X)


def _named_in_view(frame: Any) -> Any:
    """Drop the level of columns that names the view."""
    if not has_view_level(frame):
        return frame
    labels = list(frame.columns)
    if len({label[0] for label in labels}) == 1:
        labels = [label[1:] for label in labels]
    return frame.set_axis(
        [label[0] if len(label) == 1 else "__".join(map(str, label)) for label in labels], axis=1
    )


def _positions(view: str, key: Any, position: Mapping[Any, int], n_columns: int) -> Indices:
    """Find the columns of one view; a label of the frame wins over a position."""
    if isinstance(key, slice) and isinstance(key.start or key.stop, str):
        key = _between_labels(view, key, position)
    elif not isinstance(key, slice):
        # a tuple may be the label of a single column
        single = np.ndim(key) == 0 or (isinstance(key, tuple) and key in position)
        key = [key] if single else list(key)
        known = [_is_label(entry, position) for entry in key]
        if key and all(known):
            key = [position[entry] for entry in key]
        for entry, is_known in zip(key, known, strict=True):
            if not is_known and not isinstance(entry, int | np.integer | np.bool_):
                raise ValueError(_unknown(view, entry, position))
    try:
        found = row_positions(key, n_columns)
    except (IndexError, TypeError) as error:
        raise ValueError(
            f"view {view!r}: its columns do not fit the {n_columns} columns of X: {error}"
        ) from error
    if len(found) == 0:
        raise ValueError(f"view {view!r} has no columns")
    return found


def _between_labels(view: str, key: slice, position: Mapping[Any, int]) -> slice:
    """Return the positions of a slice of labels, which includes the last one."""
    for label in (key.start, key.stop):
        if label is not None and label not in position:
            raise ValueError(_unknown(view, label, position))
    last = None if key.stop is None else position[key.stop] + 1
    return slice(None if key.start is None else position[key.start], last, key.step)


def _unknown(view: str, label: Any, position: Mapping[Any, int]) -> str:
    columns = [str(each) for each in position]
    meant = (
        remedy(str(label), columns, f"it has {quoted(columns)}") if columns else "X has no names"
    )
    return f"view {view!r}: column {label!r} is not in X; {meant}"


def _is_label(entry: Any, position: Mapping[Any, int]) -> bool:
    # True == 1, so a mask could be taken for the labels 0 and 1
    is_mask = isinstance(entry, bool | np.bool_)
    return isinstance(entry, Hashable) and not is_mask and entry in position


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


def _own_names(block: Any) -> tuple[str, ...] | None:
    return column_names(block) if is_frame(block) else None
