"""Multi-view data: the container `MultiView` and the door `as_views`.

A view is one source of measurements of the same samples. It is *absent* for a sample when it was
not measured at all; a single cell that was not measured is *missing*. Absence is kept in a boolean
mask that travels with the data, and the rows of absent views are stored as NaN so that no
computation can read them unnoticed.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NoReturn

import numpy as np
from scipy.sparse import issparse
from sklearn.utils.validation import check_array

from kernelquilt._messages import check_mask, check_names, quoted, row_positions, summary, warn_user
from kernelquilt._typing import Bools, Floats, Indices
from kernelquilt.data.columns import (
    ViewColumns,
    has_view_level,
    is_frame,
    resolve_columns,
)

PartialNaN = Literal["raise", "allow"]


class MultiView:
    """Named views of the same samples, some of them absent for some samples.

    Parameters
    ----------
    views : dict of str to array-like, or list of array-like
        Every block has shape (n_samples, n_columns of the view). The blocks of a list are named
        ``view_0``, ``view_1``, ... Data frames must have the same index; frames that hold
        different samples are joined by `from_frames`.
    observed : array-like of bool of shape (n_samples, n_views), default=None
        True where a sample has a view. By default a view is absent for a sample iff all
        its cells are NaN.
    index : array-like of shape (n_samples,), default=None
        Identifiers of the samples; by default the index of the data frames, if there are any.

    Attributes
    ----------
    names : tuple of str
        The names of the views.
    observed : ndarray of bool of shape (n_samples, n_views)
        True where a sample has a view.
    index : ndarray of shape (n_samples,) or None
        Identifiers of the samples.
    shape : tuple
        ``(n_samples, n_views)``.

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

    def __init__(
        self, views: Mapping[Any, Any] | Sequence[Any], observed: Any = None, *, index: Any = None
    ) -> None:
        named = _named(views)
        blocks = {name: as_block(name, block) for name, block in named.items()}
        lengths = {name: len(block) for name, block in blocks.items()}
        if len(set(lengths.values())) > 1:
            counts = ", ".join(f"{name!r} has {length}" for name, length in lengths.items())
            raise ValueError(
                f"views must hold the same samples, but {counts}; "
                "join data frames on their index with MultiView.from_frames"
            )
        all_nan = np.column_stack([np.isnan(block).all(axis=1) for block in blocks.values()])
        if observed is None:
            mask = ~all_nan
        else:
            mask = check_mask(observed, all_nan.shape, "views")
            _check_observed_values(mask & all_nan, tuple(blocks))
        for column, (name, block) in enumerate(blocks.items()):
            absent = ~mask[:, column]
            if not np.isnan(block[absent]).all():
                block = block.copy()
                block[absent] = np.nan
                blocks[name] = block
            _check_finite(name, block)
        self._blocks = blocks
        self._observed = mask
        self._index = _common_index(named) if index is None else np.asarray(index)
        if self._index is not None and self._index.shape != (len(mask),):
            raise ValueError(f"index has shape {self._index.shape} for {len(mask)} samples")

    @classmethod
    def from_frames(cls, frames: Mapping[Any, Any]) -> "MultiView":
        """Join data frames on their index.

        Parameters
        ----------
        frames : dict of str to DataFrame
            The index of each frame holds unique sample identifiers.

        Returns
        -------
        views : MultiView
            The union of the samples in order of first appearance; a view is absent for the
            samples that its frame does not hold. Labels of the samples follow with
            ``y.loc[views.index]``.
        """
        if not isinstance(frames, Mapping):
            raise ValueError("from_frames takes a dict of name to data frame")
        for name, frame in frames.items():
            if not is_frame(frame):
                raise ValueError(f"view {str(name)!r} is not a data frame")
            if not frame.index.is_unique:
                repeated = frame.index[frame.index.duplicated()].nunique()
                raise ValueError(
                    f"view {str(name)!r}: {repeated} sample identifiers occur more than once in "
                    "the index; keep one row per sample"
                )
        samples = list(dict.fromkeys(sample for frame in frames.values() for sample in frame.index))
        if len(frames) > 1 and len(samples) == sum(len(frame) for frame in frames.values()):
            warn_user(
                f"no sample is in more than one of the {len(frames)} frames; check that their "
                "indexes hold the same kind of identifiers"
            )
        position = {sample: i for i, sample in enumerate(samples)}
        blocks = {}
        for name, frame in frames.items():
            block = np.full((len(samples), frame.shape[1]), np.nan)
            block[[position[sample] for sample in frame.index]] = as_block(name, frame)
            blocks[name] = block
        return cls(blocks, index=np.fromiter(samples, dtype=object, count=len(samples)))

    @classmethod
    def from_frame(cls, frame: Any, views: ViewColumns = None) -> "MultiView":
        """Split the columns of one data frame into views.

        Parameters
        ----------
        frame : DataFrame of shape (n_samples, n_columns)
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
        return as_views(frame, views, partial_nan="allow")

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the views."""
        return tuple(self._blocks)

    @property
    def observed(self) -> Bools:
        """Mask of shape (n_samples, n_views), True where a sample has a view."""
        return self._observed

    @property
    def index(self) -> Any:
        """Sample identifiers of shape (n_samples,), or None."""
        return self._index

    @property
    def shape(self) -> tuple[int, int]:
        """Number of samples and of views."""
        return len(self), len(self._blocks)

    def __len__(self) -> int:
        return len(self._observed)

    def __getitem__(self, key: Any) -> Any:
        """Return the block of a view (`key` is its name), or a MultiView of some rows."""
        if isinstance(key, str):
            if key not in self._blocks:
                raise KeyError(f"no view {key!r}; the views are {quoted(self.names)}")
            return self._blocks[key]
        rows = row_positions(key, len(self))
        return self._build(
            {name: block[rows] for name, block in self._blocks.items()},
            self._observed[rows],
            None if self._index is None else self._index[rows],
        )

    def present(self, name: str) -> Bools:
        """Return which samples have a view.

        Parameters
        ----------
        name : str
            The view.

        Returns
        -------
        present : ndarray of bool of shape (n_samples,)
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
        columns = [self.names.index(name) for name in wanted]
        return self._build(
            {name: self._blocks[name] for name in wanted}, self._observed[:, columns], self._index
        )

    def __array__(self, dtype: Any = None, copy: Any = None) -> NoReturn:
        raise TypeError(
            "a MultiView is not an array; take one view as X['name'], or give 2-D data with "
            "views={name: columns} to tools that need an array"
        )

    def __repr__(self) -> str:
        return summary(
            f"MultiView: {len(self)} samples, {len(self._blocks)} views",
            self.names,
            [f"{block.shape[1]:>6} columns  " for block in self._blocks.values()],
            self._observed,
        )

    @classmethod
    def _build(cls, blocks: dict[str, Floats], observed: Bools, index: Any) -> "MultiView":
        made = cls.__new__(cls)
        made._blocks, made._observed, made._index = blocks, observed, index
        return made


def as_views(
    X: Any,
    views: ViewColumns = None,
    *,
    partial_nan: PartialNaN = "raise",
) -> MultiView:
    """Turn any accepted input into a `MultiView`.

    Parameters
    ----------
    X : MultiView, dict, list of 2-D arrays, or array-like of shape (n_samples, n_features)
        A list of 2-D arrays is a list of views; any other list is 2-D data.
    views : dict of str to columns, "columns" or None, default=None
        How the columns of 2-D data form views: labels (data frames), positions, slices of
        positions or boolean masks; ``"columns"`` makes every column a view. None: the top level
        of MultiIndex columns, otherwise one view named ``X`` with all columns, in which NaN is
        refused.
    partial_nan : {"raise", "allow"}, default="raise"
        Whether a view may have NaN in some of the columns of a sample.

    Returns
    -------
    views : MultiView of shape (n_samples, n_views)
    """
    if not has_views(X):
        if not is_frame(X):
            X = _check_2d(X)
        return split_columns(X, resolve_columns(X, views), views, partial_nan)
    if views is not None:
        raise ValueError(
            "views= describes the columns of 2-D data; leave it None when X is a "
            f"{type(X).__name__}, which has its views already"
        )
    made = X if isinstance(X, MultiView) else MultiView(X)
    if partial_nan == "raise":
        _check_partial_nan(made)
    return made


def has_views(X: Any) -> bool:
    """Whether `X` is a MultiView, a dict of views or a list of 2-D arrays."""
    if isinstance(X, MultiView | Mapping):
        # scipy's dictionary-of-keys matrices are mappings too
        return not issparse(X)
    return (
        isinstance(X, list | tuple)
        and len(X) > 0
        and all(len(getattr(block, "shape", ())) == 2 for block in X)
    )


def split_columns(
    X: Any, columns: Mapping[str, Indices], views: ViewColumns, partial_nan: PartialNaN
) -> MultiView:
    """Cut 2-D data into views; with `views=None` a single view X has no absent samples."""
    if is_frame(X):
        made = MultiView({name: X.iloc[:, positions] for name, positions in columns.items()})
    else:
        whole = np.arange(X.shape[1])
        made = MultiView(
            {
                name: X if np.array_equal(positions, whole) else X[:, positions]
                for name, positions in columns.items()
            }
        )
    if partial_nan == "raise":
        _check_partial_nan(made, whole_rows=views is None and list(columns) == ["X"])
    return made


def _named(views: Mapping[Any, Any] | Sequence[Any]) -> dict[str, Any]:
    if not isinstance(views, Mapping | list | tuple):
        raise ValueError(
            f"a MultiView is made of a dict or list of 2-D blocks, got {type(views).__name__}; "
            "as_views splits the columns of 2-D data into views"
        )
    if not isinstance(views, Mapping):
        views = {f"view_{position}": block for position, block in enumerate(views)}
    if not views:
        raise ValueError("a MultiView needs at least one view")
    names = check_names(views, len(views), "view")
    return dict(zip(names, views.values(), strict=True))


def as_block(name: Any, block: Any) -> Floats:
    """Return the block of a view as a 2-D float64 array; errors name the view."""
    try:
        return _check_2d(block, ensure_min_samples=0)
    except (TypeError, ValueError) as error:
        raise ValueError(f"view {str(name)!r}: {error}") from error


def _check_2d(X: Any, **options: Any) -> Floats:
    checked: Floats = check_array(X, dtype=np.float64, ensure_all_finite=False, **options)
    return checked


def _check_observed_values(contradiction: Bools, names: tuple[str, ...]) -> None:
    for name, rows in zip(names, contradiction.T, strict=True):
        if rows.any():
            raise ValueError(
                f"view {name!r} is marked as observed but entirely NaN for {rows.sum()} of "
                f"{len(rows)} samples; mark these samples as absent"
            )


def _check_finite(name: str, block: Floats) -> None:
    infinite = np.isinf(block)
    if infinite.any():
        raise ValueError(
            f"view {name!r} has {infinite.sum()} infinite values (inf) in "
            f"{infinite.any(axis=1).sum()} of {len(block)} samples; replace them, or set the cells "
            "to NaN and impute them with ViewTransformer"
        )


def _check_partial_nan(views: MultiView, *, whole_rows: bool = False) -> None:
    """Refuse views with some NaN in a row, and with `whole_rows` also rows of nothing but NaN."""
    for name, present in zip(views.names, views.observed.T, strict=True):
        affected = np.isnan(views[name]).any(axis=1) & (present | whole_rows)
        if affected.any():
            what = "NaN" if whole_rows else "NaN in some but not all of its columns"
            remedy = (
                "pass views={name: columns} if whole views are absent"
                if whole_rows
                else "set all its columns to NaN where the view is absent"
            )
            raise ValueError(
                f"view {name!r} has {what} for {affected.sum()} of {len(views)} samples; "
                f"impute single cells with ViewTransformer, or {remedy}"
            )


def _common_index(named: Mapping[str, Any]) -> Any:
    """Return the index that all data frames share, None if there is no frame."""
    indexes = {name: block.index for name, block in named.items() if is_frame(block)}
    first = next(iter(indexes), None)
    if first is None:
        return None
    for name, index in indexes.items():
        if not index.equals(indexes[first]):
            raise ValueError(
                f"the data frames of views {first!r} and {name!r} have different indexes; join "
                "them with MultiView.from_frames, or reset the index if the rows correspond"
            )
    return indexes[first].to_numpy()
