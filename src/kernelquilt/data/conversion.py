"""From any accepted input to a `MultiView`."""

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from scipy.sparse import issparse

from kernelquilt._messages import quoted
from kernelquilt.core.dask_chunks import is_dask
from kernelquilt.data.blocks import as_array, as_csr, missing_cells
from kernelquilt.data.columns import ViewColumns, blocks_of_columns, resolve_columns
from kernelquilt.data.frames import is_annotated, is_frame
from kernelquilt.data.views import MultiView

PartialNaN = Literal["raise", "allow"]


def as_views(
    X: Any,
    views: ViewColumns = None,
    *,
    partial_nan: PartialNaN = "raise",
) -> MultiView:
    """Turn any accepted input into a `MultiView`.

    Parameters
    ----------
    X : MultiView, dict, list of 2-D arrays, MuData, or 2-D data of shape (n_samples, n_features)
        2-D data are an array-like, a data frame or a sparse matrix. A list of 2-D arrays or frames
        is a list of views; any other list is 2-D data.
    views : dict of str to columns, "columns" or None, default=None
        How the columns of 2-D data form views: labels (data frames), positions, slices of
        positions or of labels (which include the last), boolean masks, or a callable that finds
        them in `X`, such as ``make_column_selector(pattern="^rna_")`` of scikit-learn.
        ``"columns"`` makes every column a view. None: the top level of MultiIndex columns,
        otherwise one view named ``X`` with all columns, in which NaN is refused.
    partial_nan : {"raise", "allow"}, default="raise"
        Whether a view may have missing cells in some of the columns of a sample.

    Returns
    -------
    views : MultiView of shape (n_samples, n_views)
        The views, and which of them each sample has.

    Examples
    --------
    >>> import numpy as np
    >>> import kernelquilt as kq
    >>> table = np.array([[1.0, 2.0, 3.0], [4.0, np.nan, np.nan]])
    >>> kq.as_views(table, {"age": [0], "scan": [1, 2]}).observed
    array([[ True,  True],
           [ True, False]])
    """
    if not has_views(X):
        X = as_two_dimensional(X)
        columns = resolve_columns(X, views)
        made = MultiView(blocks_of_columns(X, columns))
        if partial_nan == "raise":
            check_complete(made, whole_rows=views is None and list(columns) == ["X"])
        return made
    if views is not None:
        raise ValueError(
            "views= describes the columns of 2-D data; leave it None when X is a "
            f"{type(X).__name__}, which has its views already"
        )
    if is_annotated(X):
        made = MultiView.from_mudata(X)
    else:
        made = X if isinstance(X, MultiView) else MultiView(X)
    if partial_nan == "raise":
        check_complete(made)
    return made


def has_views(X: Any) -> bool:
    """Whether `X` is a MultiView, a dict of views, a list of 2-D arrays, a MuData or an AnnData."""
    if isinstance(X, MultiView | Mapping) or is_annotated(X):
        # scipy's dictionary-of-keys matrices are mappings too
        return not issparse(X)
    return (
        isinstance(X, list | tuple)
        and len(X) > 0
        and all(len(getattr(block, "shape", ())) == 2 for block in X)
    )


def as_two_dimensional(X: Any) -> Any:
    """Return 2-D data as a frame, a sparse matrix or an array."""
    if is_dask(X):
        raise ValueError(
            f"X is a collection of dask ({type(X).__name__}); say which columns are which view "
            "with MultiView({name: X[columns]}), or load it with X.compute()"
        )
    if is_frame(X):
        return X
    return as_csr(X) if issparse(X) else as_array(X)


def check_complete(views: MultiView, *, whole_rows: bool = False) -> None:
    """Refuse views with some missing cells, and with `whole_rows` also rows without any value."""
    for name, present in zip(views.names, views.observed.T, strict=True):
        block = views.given(name)
        if issparse(block):
            continue
        cells = missing_cells(block) & (present | whole_rows)[:, None]
        if not cells.any():
            continue
        what = "NaN" if whole_rows else "NaN in some but not all of its columns"
        remedy = (
            "pass views={name: columns} if whole views are absent"
            if whole_rows
            else "set all its columns to NaN where the view is absent"
        )
        positions = np.flatnonzero(cells.any(axis=0)).tolist()
        names = views.columns[name]
        columns = quoted(str(j) if names is None else names[j] for j in positions)
        raise ValueError(
            f"view {name!r} has {what} for {cells.any(axis=1).sum()} of {len(views)} samples, "
            f"in columns {columns}; impute single cells with ViewTransformer, or {remedy}"
        )
