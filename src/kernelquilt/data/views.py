"""Multi-view data: the container `MultiView`.

A view is one source of measurements of the same samples. It is *absent* for a sample when it was
not measured at all; a single cell that was not measured is *missing*. Absence is kept in a boolean
mask that travels with the data, and absent views hold no value, so that no computation can read
one unnoticed. Views stay what they were, data frames with their types or sparse matrices, until
numbers are asked for.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn, Self

import numpy as np

from kernelquilt._messages import quoted
from kernelquilt._typing import Bools
from kernelquilt.data.blocks import (
    as_blocks,
    check_finite,
    holds_dask,
    is_frame,
    numbers,
    rows_without_values,
    take,
    without_rows,
)
from kernelquilt.data.columns import (
    ViewColumns,
    blocks_of_columns,
    has_view_level,
    names_of_columns,
    resolve_columns,
)
from kernelquilt.data.containers import (
    check_mask,
    check_observed_values,
    container_html,
    container_text,
    row_positions,
)
from kernelquilt.data.joining import (
    ByIdentifier,
    as_mudata,
    blocks_of,
    common_index,
    join_frames,
    labels_of,
    side_by_side,
)


class MultiView:
    """Named views of the same samples, some of them absent for some samples.

    Parameters
    ----------
    views : dict of str to block, or list of blocks
        Every block has shape (n_samples, n_columns of the view): an array-like of numbers, a data
        frame of pandas or polars with columns of any type, or a SciPy sparse matrix. Arrays and
        data frames of dask, with the same chunks of rows, make views that are not in memory:
        see `stream`. The blocks of a list are named ``view_0``, ``view_1``, ... Data frames with an
        index must have the same one; frames that hold different samples are joined by
        `from_frames`.
    observed : array-like of bool of shape (n_samples, n_views), default=None
        True where a sample has a view. By default a view is absent for a sample iff all
        its cells are missing (NaN, None, NaT, NA or null). Zeros are values: samples that lack a
        sparse view must be marked here.
    index : array-like of shape (n_samples,), default=None
        Identifiers of the samples; by default the index of the data frames, if there are any.
    columns : dict of str to sequence of str, default=None
        Names of the columns of views that are not data frames.

    Attributes
    ----------
    names : tuple of str
        The names of the views.
    columns : dict of str to tuple of str or None
        The names of the columns of each view, None where they are not known.
    observed : ndarray of bool of shape (n_samples, n_views)
        True where a sample has a view.
    index : ndarray of shape (n_samples,) or None
        Identifiers of the samples.
    loc : object
        ``X.loc[identifiers]`` selects samples by identifier.
    shape : tuple
        ``(n_samples, n_views)``.

    Notes
    -----
    ``X["name"]`` returns the numbers of a view, a float64 array with rows of NaN where it is absent
    (a sparse view stays sparse), ``X.given("name")`` the view as it was given, and ``X[rows]`` a
    MultiView of some samples.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelquilt.data.views import MultiView
    >>> mri = np.array([[1.0, 2.0], [np.nan, np.nan], [0.0, 1.0]])
    >>> X = MultiView({"mri": mri, "age": np.array([[60.0], [71.0], [64.0]])})
    >>> X[[0, 1]].observed.tolist()
    [[True, True], [False, True]]
    """

    # Iteration could mean samples or views; without this line Python would try X[0], X[1], ...
    __iter__ = None

    def __new__(
        cls,
        views: Mapping[Any, Any] | Sequence[Any] = (),
        observed: Any = None,
        *,
        index: Any = None,
        columns: Mapping[str, Iterable[Any]] | None = None,
    ) -> Self:
        """Make an object for views that are not in memory where dask computes them."""
        kind: Any = cls
        if cls is MultiView and holds_dask(views):
            from kernelquilt.data.lazy.views import LazyViews

            kind = LazyViews
        made: Self = object.__new__(kind)
        return made

    def __init__(
        self,
        views: Mapping[Any, Any] | Sequence[Any],
        observed: Any = None,
        *,
        index: Any = None,
        columns: Mapping[str, Iterable[Any]] | None = None,
    ) -> None:
        blocks = as_blocks(views)
        empty = np.column_stack([rows_without_values(b) for b in blocks.values()])
        if observed is None:
            mask = ~empty
        else:
            mask = check_mask(observed, empty.shape, "views")
            check_observed_values(mask & empty, tuple(blocks))
        for (name, block), present in zip(list(blocks.items()), mask.T, strict=True):
            blocks[name] = without_rows(block, ~present)
            if not is_frame(block):
                check_finite(name, blocks[name])
        self._blocks = blocks
        self._observed = mask
        self._index = common_index(blocks) if index is None else np.asarray(index)
        self._columns = names_of_columns(blocks, columns or {})
        if self._index is not None and self._index.shape != (len(mask),):
            raise ValueError(f"index has shape {self._index.shape} for {len(mask)} samples")

    @classmethod
    def from_frames(cls, frames: Mapping[Any, Any], *, on: str | None = None) -> "MultiView":
        """Join data frames that hold different samples.

        Parameters
        ----------
        frames : dict of str to DataFrame
            Each holds unique identifiers of its samples.
        on : str or None, default=None
            The column with the identifiers; None takes the index, which frames of polars do not
            have.

        Returns
        -------
        views : MultiView
            The union of the samples, sorted by identifier (numbers before strings where there are
            both); a view is absent for the samples that its frame does not hold. Labels of the
            samples follow with ``y.loc[views.index]``.

        Examples
        --------
        >>> import pandas as pd
        >>> from kernelquilt import MultiView
        >>> rna = pd.DataFrame({"g1": [0.2, 0.5]}, index=["p3", "p1"])
        >>> clinic = pd.DataFrame({"age": [60, 71], "sex": ["f", "m"]}, index=["p1", "p2"])
        >>> X = MultiView.from_frames({"rna": rna, "clinic": clinic})
        >>> X.index.tolist(), X.observed.tolist()
        (['p1', 'p2', 'p3'], [[True, True], [False, True], [True, False]])
        """
        blocks, samples = join_frames(frames, on)
        return cls(blocks, index=samples)

    @classmethod
    def from_frame(cls, frame: Any, views: ViewColumns = None) -> "MultiView":
        """Split the columns of one data frame into views.

        Parameters
        ----------
        frame : DataFrame of shape (n_samples, n_columns)
            One row for each sample.
        views : dict of str to columns, "columns" or None
            As in `as_views`; None takes the top level of MultiIndex columns.

        Returns
        -------
        views : MultiView
        """
        if views is None and not has_view_level(frame):
            raise ValueError(
                "from_frame needs views={name: columns} or a frame with MultiIndex columns "
                "whose top level names the views"
            )
        return cls(blocks_of_columns(frame, resolve_columns(frame, views)))

    @classmethod
    def from_mudata(
        cls, mdata: Any, *, label: str | None = None, layers: Mapping[str, str] | str | None = None
    ) -> Any:
        """Take the modalities of a MuData, or an AnnData, as views.

        Parameters
        ----------
        mdata : MuData or AnnData
            An AnnData is one view, ``X``.
        label : str or None, default=None
            A column of ``mdata.obs`` to return beside the views.
        layers : dict of str to str, str or None, default=None
            The layer to take instead of ``.X``, by view or for all views.

        Returns
        -------
        views : MultiView
            The samples in the order of ``mdata.obs_names``; a view is absent for those that its
            modality does not hold. Sparse modalities stay sparse.
        labels : Series of shape (n_samples,)
            Only with `label`.
        """
        blocks, observed, columns = blocks_of(mdata, layers)
        made = cls(blocks, observed, index=mdata.obs_names.to_numpy(), columns=columns)
        return made if label is None else (made, labels_of(mdata, label))

    @classmethod
    def read(cls, source: Any, **options: Any) -> Any:
        """Read views from a folder, from several files or from one.

        Parameters
        ----------
        source : path, list of paths, or dict of str to path
            Where the views are, as in `read_views`.
        **options : dict
            ``label``, ``views`` and ``index``, as in `kernelquilt.read_views`, which this is.

        Returns
        -------
        views : MultiView of shape (n_samples, n_views)
        y : Series of shape (n_samples,)
            Only with ``label``.
        """
        from kernelquilt.data.files.reading import read_views

        return read_views(source, **options)

    @classmethod
    def stream(
        cls,
        source: Any,
        *,
        observed: Any = None,
        columns: Mapping[str, Iterable[Any]] | None = None,
    ) -> "MultiView":
        """Return views that are read piece by piece whenever they are needed.

        For more samples than memory holds. Estimators of the quilt family read them in some
        passes and keep no more than a few pieces; ``X[positions]`` loads some samples,
        ``X.compute()`` all, slices and masks stay as they are.

        Parameters
        ----------
        source : dict of str to paths or arrays, or callable
            For each view a parquet file or a list of such, in which the samples stand in the same
            order and in row groups of the same lengths; or arrays (n_samples, n_columns) of any
            kind that can be sliced, such as memory-mapped ones. A callable returns an iterator over
            MultiViews (or dicts of views) with some samples each, the same whenever it is called,
            which is checked.
        observed : array-like of bool of shape (n_samples, n_views), default=None
            As in `MultiView`, for files and arrays.
        columns : dict of str to sequence of str, default=None
            The columns of each view to take from its files, by default all; names of the columns
            of arrays.

        Returns
        -------
        views : LazyViews

        Examples
        --------
        >>> import numpy as np
        >>> import kernelquilt as kq
        >>> rna, clinic = np.ones((9000, 20)), np.zeros((9000, 3))
        >>> rna[:900] = np.nan
        >>> X = kq.MultiView.stream({"rna": rna, "clinic": clinic})
        >>> X
        MultiView: 9000 samples, 2 views, not in memory, 5 chunks of up to 1800 samples
          rna         20 columns
          clinic       3 columns
        >>> X.observed.mean(axis=0).tolist(), len(X[[0, 8999]])
        ([0.9, 1.0], 2)
        """
        from kernelquilt.data.lazy.sources import stream_views

        return stream_views(source, observed, columns or {})

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the views."""
        return tuple(self._blocks)

    @property
    def columns(self) -> dict[str, tuple[str, ...] | None]:
        """The names of the columns of each view, None where they are not known."""
        return dict(self._columns)

    @property
    def observed(self) -> Bools:
        """Mask of shape (n_samples, n_views), True where a sample has a view."""
        return self._observed

    @property
    def index(self) -> Any:
        """Sample identifiers of shape (n_samples,), or None."""
        return self._index

    @property
    def loc(self) -> ByIdentifier:
        """Select samples by identifier, as ``X.loc[identifiers]``."""
        return ByIdentifier(self)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of samples and of views."""
        return len(self), len(self._blocks)

    def __len__(self) -> int:
        return len(self._observed)

    def __getitem__(self, key: Any) -> Any:
        """Return the numbers of a view (`key` is its name), or a MultiView of some rows."""
        if isinstance(key, str):
            return numbers(key, self.given(key))
        if isinstance(key, list) and any(isinstance(each, str) for each in key):
            raise IndexError(
                f"rows are selected by position; views are X.select({key}), samples X.loc[{key}]"
            )
        rows = row_positions(key, len(self))
        return self._build(
            {name: take(block, rows) for name, block in self._blocks.items()},
            self._observed[rows],
            None if self._index is None else self._index[rows],
            self._columns,
        )

    def given(self, name: str) -> Any:
        """Return the block of a view as it was given.

        Parameters
        ----------
        name : str
            The view.

        Returns
        -------
        block : ndarray, DataFrame or sparse matrix of shape (n_samples, n_columns)
            Without values where the view is absent.
        """
        if name not in self._blocks:
            raise KeyError(f"no view {name!r}; the views are {quoted(self.names)}")
        return self._blocks[name]

    def numeric(self) -> "MultiView":
        """Return the same samples with data frames turned into arrays.

        Returns
        -------
        views : MultiView
            This one, if it has no frames.

        Raises
        ------
        ValueError
            Names the first column that is not numeric.
        """
        if not any(map(is_frame, self._blocks.values())):
            return self
        blocks = {name: self[name] for name in self.names}
        return self._build(blocks, self._observed, self._index, self._columns)

    def present(self, name: str) -> Bools:
        """Return which samples have a view.

        Parameters
        ----------
        name : str
            The view.

        Returns
        -------
        present : ndarray of bool of shape (n_samples,)
            True for the samples that have it.
        """
        return np.asarray(self._observed[:, self.names.index(name)])

    def select(self, names: Iterable[str]) -> "MultiView":
        """Return some of the views; nothing is copied.

        Parameters
        ----------
        names : iterable of str
            The views, in the order wanted.

        Returns
        -------
        views : MultiView
            Of the same samples.
        """
        wanted = list(names)
        unknown = [name for name in wanted if name not in self._blocks]
        if unknown:
            raise ValueError(f"no view {quoted(unknown)}; the views are {quoted(self.names)}")
        places = [self.names.index(name) for name in wanted]
        return self._build(
            {name: self._blocks[name] for name in wanted},
            self._observed[:, places],
            self._index,
            {name: self._columns[name] for name in wanted},
        )

    def with_observed(self, observed: Any) -> "MultiView":
        """Return the same samples with another mask, which may only hide views.

        Parameters
        ----------
        observed : array-like of bool of shape (n_samples, n_views)
            The new mask.

        Returns
        -------
        views : MultiView
            The same values under the new mask.
        """
        mask = check_mask(observed, self.shape, "views")
        check_observed_values(mask & ~self._observed, self.names)
        blocks = {
            name: without_rows(block, ~present)
            for (name, block), present in zip(self._blocks.items(), mask.T, strict=True)
        }
        return self._build(blocks, mask, self._index, self._columns)

    def to_frame(self) -> Any:
        """Return one data frame of pandas with the views side by side.

        Returns
        -------
        frame : DataFrame of shape (n_samples, n_columns)
            With MultiIndex columns, whose top level names the views: `from_frame` is the way back.
            All cells of an absent view are missing.
        """
        return side_by_side(self)

    def to_mudata(self) -> Any:
        """Return a MuData with a modality for each view, which must be numeric.

        Returns
        -------
        mdata : MuData
            A modality holds the samples that have the view, samples without any view are lost, and
            MuData orders them by modality: labels follow as ``y.loc[mdata.obs_names]``.
        """
        return as_mudata(self)

    def __array__(self, dtype: Any = None, copy: Any = None) -> NoReturn:
        raise TypeError(
            "a MultiView is not an array; take one view as X['name'], or give 2-D data with "
            "views={name: columns} to tools that need an array"
        )

    def __repr__(self) -> str:
        return container_text(*self._told())

    def _repr_html_(self) -> str:
        return container_html(*self._told())

    def _told(self) -> tuple[str, tuple[str, ...], list[str], Bools]:
        """Return title, names, sizes and presence of the views."""
        n_views = len(self._blocks)
        return (
            f"MultiView: {len(self)} samples, {n_views} view{'s' * (n_views != 1)}",
            self.names,
            [f"{block.shape[1]:>6} columns  " for block in self._blocks.values()],
            self._observed,
        )

    @classmethod
    def _build(
        cls, blocks: dict[str, Any], observed: Bools, index: Any, columns: Any = None
    ) -> "MultiView":
        made = cls.__new__(cls)
        made._blocks, made._observed, made._index = blocks, observed, index
        made._columns = dict.fromkeys(blocks) if columns is None else columns
        return made
