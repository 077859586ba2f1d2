"""From any accepted input to a `MultiView`, and what a model remembers of its training samples.

It remembers the columns of their views, to which new samples are compared
(:mod:`kernelquilt.data.new_samples`); which views they had, and between which values their columns
were: enough to tell whether new samples are of another kind.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy.sparse import issparse
from sklearn.utils.validation import validate_data

from kernelquilt._messages import quoted, warn_user
from kernelquilt._typing import Bools, Floats, Indices
from kernelquilt.data.blocks import (
    as_array,
    as_csr,
    cells,
    holds_dask,
    is_annotated,
    is_dask,
    is_frame,
    is_numeric,
    kind_of,
    missing,
    missing_cells,
    naming_text,
    numbers_in,
    numbers_of,
    release_pages,
    texts_in,
    with_nan,
)
from kernelquilt.data.columns import (
    ViewColumns,
    blocks_of_columns,
    resolve_columns,
    with_string_labels,
)
from kernelquilt.data.lazy.views import LazyViews
from kernelquilt.data.views import MultiView

# what an estimator knows about the form of its training samples
LEARNED = (
    "n_features_in_",
    "feature_names_in_",
    "view_columns_",
    "view_names_",
    "view_sizes_",
    "view_forms_",
    "preparation_",
    "training_summary_",
)
MOST_PATTERNS = 1000  # that are remembered
MOST_CATEGORIES = 1000  # of a column that is looked at


def as_views(
    X: Any,
    views: ViewColumns = None,
    *,
    partial_nan: Literal["raise", "allow"] = "raise",
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
        gaps = missing_cells(block) & (present | whole_rows)[:, None]
        if not gaps.any():
            continue
        what = "NaN" if whole_rows else "NaN in some but not all of its columns"
        remedy = (
            "pass views={name: columns} if whole views are absent"
            if whole_rows
            else "set all its columns to NaN where the view is absent"
        )
        positions = np.flatnonzero(gaps.any(axis=0)).tolist()
        names = views.columns[name]
        columns = quoted(str(j) if names is None else names[j] for j in positions)
        raise ValueError(
            f"view {name!r} has {what} for {gaps.any(axis=1).sum()} of {len(views)} samples, "
            f"in columns {columns}; impute single cells with ViewTransformer, or {remedy}"
        )


class ViewForm(NamedTuple):
    """What a model knows of the columns of a view.

    Attributes
    ----------
    size : int
        How many there are.
    columns : tuple of str or None
        Their names.
    sparse : bool
        Whether they were given as a sparse matrix.
    """

    size: int
    columns: tuple[str, ...] | None
    sparse: bool


def validate_views(
    estimator: Any, X: Any, views: ViewColumns, *, as_given: bool = False, lazy: bool = False
) -> MultiView:
    """Do `as_views` for an estimator in ``fit``, with scikit-learn's bookkeeping.

    Sets ``n_features_in_`` (columns of 2-D data, otherwise views), ``view_names_``,
    ``view_sizes_``, ``view_forms_``, for 2-D data also ``view_columns_`` (positions, so that arrays
    can follow data frames) and ``feature_names_in_``. `match_views` is for new samples.

    Parameters
    ----------
    estimator : estimator
    X : as in `as_views`
    views : as in `as_views`
        The parameter of the estimator.
    as_given : bool, default=False
        Whether views stay as they were given; otherwise they become numbers, and single missing
        cells are refused.
    lazy : bool, default=False
        Whether samples need not be in memory.

    Returns
    -------
    views : MultiView of shape (n_samples, n_views)
    """
    for name in ("view_columns_", "feature_names_in_"):
        vars(estimator).pop(name, None)
    if not lazy:
        check_in_memory(estimator, X)
    two_dimensional = not has_views(X)
    if two_dimensional:
        X = check_two_dimensional(estimator, X, reset=True)
        estimator.view_columns_ = resolve_columns(X, views)
        made = MultiView(blocks_of_columns(X, estimator.view_columns_))
    else:
        made = as_views(X, views, partial_nan="allow")
        estimator.n_features_in_ = len(made.names)
    check_any(made)
    remember_views(estimator, made)
    return made if as_given else as_numeric(made, whole_rows=two_dimensional and views is None)


def as_numeric(views: MultiView, *, whole_rows: bool) -> MultiView:
    """Return views as numbers; single missing cells are refused.

    With `whole_rows`, those of 2-D data that are all one view, so are rows without any value.
    """
    made = views.numeric()
    if isinstance(made, LazyViews):
        return made.checked(check_complete)
    check_complete(made, whole_rows=whole_rows and made.names == ("X",))
    return made


def check_two_dimensional(estimator: Any, X: Any, *, reset: bool) -> Any:
    """Return 2-D data after scikit-learn's checks of its columns, learned with `reset`."""
    if is_frame(X) and not is_dask(X):
        # columns that belong to no view need not be numeric
        validate_data(estimator, with_string_labels(X), reset=reset, skip_check_array=True)
        return X
    if is_dask(X) or len(getattr(X, "shape", ())) > 2:
        as_views(X)  # which says what to do
    X = with_nan(X)
    with naming_text(X):
        return validate_data(
            estimator,
            X,
            reset=reset,
            accept_sparse="csr",
            dtype=np.float64,
            ensure_all_finite=False,
        )


def check_any(views: MultiView) -> None:
    """Refuse views of no samples."""
    if len(views) == 0:
        raise ValueError("X has 0 samples while a minimum of 1 is required")


def check_in_memory(estimator: Any, X: Any) -> None:
    """Refuse views that are not in memory."""
    if isinstance(X, LazyViews) or holds_dask(X):
        raise ValueError(
            f"{type(estimator).__name__} needs samples in memory, but the views are lazy; load "
            "them with MultiView(views).compute(), some of them with X[positions], or use "
            "QuiltClassifier, LateFusionClassifier or their like"
        )


def remember_views(estimator: Any, views: MultiView) -> None:
    """Let an estimator know the views of checked samples, and their columns."""
    estimator.view_names_ = views.names
    estimator.view_forms_ = forms_of(views)
    estimator.view_sizes_ = {name: form.size for name, form in estimator.view_forms_.items()}


def forms_of(views: MultiView) -> dict[str, ViewForm]:
    """Return what a model is to know of the columns of views."""
    return {
        name: ViewForm(views._blocks[name].shape[1], columns, issparse(views._blocks[name]))
        for name, columns in views.columns.items()
    }


def check_dense(estimator: Any, views: MultiView) -> None:
    """Refuse sparse views before they are made dense."""
    for name, form in forms_of(views).items():
        if form.sparse:
            size = 8 * len(views) * form.size / 2**30
            raise ValueError(
                f"view {name!r} is sparse, but {type(estimator).__name__} needs dense columns, "
                f"which would take {size:.2g} GiB for {len(views)} samples and {form.size} columns;"
                " reduce them with ViewTransformer({" + repr(name) + ": TruncatedSVD(100)})"
            )


def check_alignment(data: Any, y: Any, what: str) -> None:
    """Refuse what has an index that speaks of the samples of the views, but in another order.

    Parameters
    ----------
    data : object
        Samples in any form.
    y : object
        Labels or weights.
    what : {"y", "sample_weight"}
        How the user calls them.
    """
    index = getattr(data, "index", getattr(data, "obs_names", None))
    labels = getattr(y, "index", None)
    if index is None or labels is None or callable(index) or callable(labels):
        return
    samples, labelled = list(index), list(labels)
    if samples == labelled:
        return
    known, of_labels = set(samples), set(labelled)
    shared = known & of_labels
    if not shared:
        # numbers may just count the samples, names do not
        if all(isinstance(each, str) for each in labelled):
            warn_user(
                f"the index of {what} has none of the names in X.index ({labelled[0]!r}, ... "
                f"instead of {samples[0]!r}, ...); its values are taken in the order of X"
            )
        return
    aligned = f"pass {what}.loc[X.index]"
    if known == of_labels:
        problem = f"the same {len(known)} samples as X, but in another order; {aligned}"
    elif of_labels < known:
        problem = (
            f"only {len(of_labels)} of the {len(known)} samples of X; pass X.loc[{what}.index] and "
            f"{what}"
        )
    elif known < of_labels:
        problem = f"{len(of_labels - known)} samples more than X; {aligned}"
    else:  # as in a fold, if y was in another order before
        problem = f"other samples than X, {len(shared)} in common; {aligned}"
    if len(samples) == len(labelled):
        problem += f" (or {what}.to_numpy(), if its values are in the order of X)"
    raise ValueError(f"the index of {what} holds {problem}")


class ColumnRanges(NamedTuple):
    """The values of the columns of a view.

    Attributes
    ----------
    low, high : ndarrays of shape (d,)
        The smallest and the largest number, NaN where there is none.
    n_values : ndarray of int of shape (d,)
        How many numbers there are.
    texts : dict of int to list of str
        Categories of the columns that hold such, sorted; none of columns with more than 1000.
    """

    low: Floats
    high: Floats
    n_values: Indices
    texts: dict[int, list[str]]


@dataclass(frozen=True)
class TrainingSummary:
    """Patterns of presence and ranges of values of training samples.

    Attributes
    ----------
    names : tuple of V str
        Views, or kernels where there are only these.
    n_samples : int
    present : ndarray of int of shape (V,)
        How many samples have each.
    patterns : ndarray of bool of shape (n_patterns, V)
        The views that samples have, the most frequent first; at most 1000.
    counts : ndarray of int of shape (n_patterns,)
        How many samples have exactly these.
    ranges : dict of str to ColumnRanges
        By view; none of kernels.
    """

    names: tuple[str, ...]
    n_samples: int
    present: Indices
    patterns: Bools
    counts: Indices
    ranges: dict[str, ColumnRanges]

    @property
    def knows_all_patterns(self) -> bool:
        """Whether no pattern of the training samples was left out."""
        return int(self.counts.sum()) == self.n_samples


def training_summary(data: Any) -> TrainingSummary:
    """Return what a model is to remember of training samples in their container.

    Samples that are not in memory are read once, together with which views they have.
    """
    ranges = {}
    if isinstance(data, LazyViews):
        parts = data.look(_ranges_of_views)
        ranges = {name: joined([part[name] for part in parts]) for name in data.names}
    elif isinstance(data, MultiView):
        ranges = _ranges_of_views(data)
    observed = data.observed
    patterns, counts = frequent_patterns(observed)
    present = np.count_nonzero(observed, axis=0)
    kept = slice(MOST_PATTERNS)
    return TrainingSummary(
        tuple(data.names), len(observed), present, patterns[kept], counts[kept], ranges
    )


def frequent_patterns(observed: Bools) -> tuple[Bools, Indices]:
    """Return different rows of a mask (n, V), the most frequent first, and how often they occur."""
    packed = np.packbits(observed, axis=1)
    rows = np.ascontiguousarray(packed).view(np.dtype((np.void, packed.shape[1]))).ravel()
    _, first, counts = np.unique(rows, return_index=True, return_counts=True)
    order = np.lexsort((first, -counts))
    return observed[first[order]], counts[order]


def _ranges_of_views(views: MultiView) -> dict[str, ColumnRanges]:
    return {name: ranges_of(views.given(name)) for name in views.names}


def ranges_of(block: Any) -> ColumnRanges:
    """Return the values of the columns of a view, (n, d); never an error, others find those."""
    if issparse(block) and block.shape[0]:
        # rows of samples without the view are zeros here, which are values of sparse columns
        low, high = (each.toarray().ravel() for each in (block.min(axis=0), block.max(axis=0)))
        return ColumnRanges(low, high, np.full(len(low), block.shape[0]), {})
    if not is_frame(block) or is_numeric(block):
        return ColumnRanges(*_extremes(numbers_of(block) if is_frame(block) else block), {})
    low, high = np.full((2, block.shape[1]), np.nan)
    n_values, texts = np.zeros(block.shape[1], dtype=np.intp), {}
    for j in range(block.shape[1]):
        kind = _kind(block, j)
        if kind == "number":
            numbers = numbers_in(cells(block, j), j)[:, None]
            (low[j],), (high[j],), (n_values[j],) = _extremes(numbers)
        elif kind == "category":
            texts[j] = sorted(texts_of(block, j))
    return ColumnRanges(low, high, n_values, _few(texts))


def texts_of(frame: Any, j: int) -> set[str]:
    """Return the categories in a column."""
    values = cells(frame, j)
    different = dict.fromkeys(values[~missing(values)].tolist())
    made = np.empty(len(different), dtype=object)
    made[:] = list(different)
    return set(texts_in(made).tolist())


def joined(parts: list[ColumnRanges]) -> ColumnRanges:
    """Return the ranges of samples that came in parts."""
    low = np.fmin.reduce([part.low for part in parts], axis=0)
    high = np.fmax.reduce([part.high for part in parts], axis=0)
    columns = set.intersection(*(set(part.texts) for part in parts))
    texts = {j: sorted(set().union(*(part.texts[j] for part in parts))) for j in sorted(columns)}
    n_values = np.sum([part.n_values for part in parts], axis=0)
    return ColumnRanges(low, high, n_values, _few(texts))


def _few(texts: dict[int, list[str]]) -> dict[int, list[str]]:
    return {j: known for j, known in texts.items() if len(known) <= MOST_CATEGORIES}


def _kind(frame: Any, j: int) -> str:
    try:
        return kind_of(frame, j)
    except ValueError:
        return "unknown"


def _extremes(numbers: Floats) -> tuple[Floats, Floats, Indices]:
    """Return the smallest and the largest number of columns, NaN if there is none, and counts."""
    counts = np.count_nonzero(~np.isnan(numbers), axis=0)
    if numbers.shape[0] == 0:
        nothing = np.full(numbers.shape[1], np.nan)
        return nothing, nothing, counts
    low, high = np.fmin.reduce(numbers, axis=0), np.fmax.reduce(numbers, axis=0)
    release_pages(numbers)
    return low, high, counts
