"""From any accepted input to a `MultiView`, checked against what an estimator knows of views."""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy.sparse import csr_array, issparse
from sklearn.utils.validation import validate_data

from kernelquilt._messages import quoted, warn_user
from kernelquilt._typing import Bools, Indices
from kernelquilt.data.blocks import (
    as_array,
    as_csr,
    column_names,
    holds_dask,
    is_annotated,
    is_dask,
    is_frame,
    missing_cells,
    names_by_position,
    naming_text,
    nothing,
    with_nan,
)
from kernelquilt.data.columns import (
    ViewColumns,
    blocks_of_columns,
    has_view_level,
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
    estimator: Any,
    X: Any,
    views: ViewColumns,
    *,
    reset: bool,
    as_given: bool = False,
    lazy: bool = False,
) -> MultiView:
    """Do `as_views` for an estimator, with scikit-learn's bookkeeping.

    With `reset`, sets ``n_features_in_`` (columns of 2-D data, otherwise views), ``view_names_``,
    ``view_sizes_``, ``view_forms_``, for 2-D data also ``view_columns_`` (positions, so that arrays
    can follow data frames) and ``feature_names_in_``. Without `reset`, checks `X` against them: a
    view that is not there is absent, unknown views and other columns are errors.

    Parameters
    ----------
    estimator : estimator
    X : as in `as_views`
    views : as in `as_views`
        The parameter of the estimator.
    reset : bool
        True in ``fit``, False in ``predict`` and ``transform``.
    as_given : bool, default=False
        Whether views stay as they were given; otherwise they become numbers, and single missing
        cells are refused.
    lazy : bool, default=False
        Whether samples need not be in memory.

    Returns
    -------
    views : MultiView of shape (n_samples, n_views)
        Without `reset`, with the views at fit, in their order.
    """
    if reset:
        for name in ("view_columns_", "feature_names_in_"):
            vars(estimator).pop(name, None)
    two_dimensional = not has_views(X)
    if not lazy:
        _check_in_memory(estimator, X)
    if two_dimensional and (reset or hasattr(estimator, "view_columns_")):
        made = _split(estimator, X, views, reset)
    else:
        X = _recognised(X, getattr(estimator, "view_forms_", {})) if not reset else X
        made = as_views(X, views if reset else None, partial_nan="allow")
        if reset:
            estimator.n_features_in_ = len(made.names)
    if len(made) == 0:
        raise ValueError("X has 0 samples while a minimum of 1 is required")
    if reset:
        remember_views(estimator, made)
    else:
        given, made = made, _as_fitted(made, estimator.view_forms_)
        if not two_dimensional:  # of 2-D data scikit-learn warns
            _warn_of_names(given, estimator.view_forms_)
    if as_given:
        return made
    made = made.numeric()
    if isinstance(made, LazyViews):
        return made.checked(check_complete)
    check_complete(made, whole_rows=two_dimensional and views is None and made.names == ("X",))
    return made


def _check_in_memory(estimator: Any, X: Any) -> None:
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


def _split(estimator: Any, X: Any, views: ViewColumns, reset: bool) -> MultiView:
    """Split 2-D data into views, with scikit-learn's checks of its columns."""
    if is_dask(X) or not is_frame(X):
        if is_dask(X) or len(getattr(X, "shape", ())) > 2:
            as_views(X)  # which says what to do
        X = with_nan(X)
        with naming_text(X):
            X = validate_data(
                estimator,
                X,
                reset=reset,
                accept_sparse="csr",
                dtype=np.float64,
                ensure_all_finite=False,
            )
    else:
        flat = with_string_labels(X)
        at_hand = {} if reset else _views_at_hand(estimator, flat)
        if at_hand:
            return MultiView(blocks_of_columns(X, at_hand))
        # columns that belong to no view need not be numeric
        validate_data(estimator, flat, reset=reset, skip_check_array=True)
    if reset:
        estimator.view_columns_ = resolve_columns(X, views)
    return MultiView(blocks_of_columns(X, estimator.view_columns_))


def _views_at_hand(estimator: Any, frame: Any) -> dict[str, Indices]:
    """Return the columns of the views in a frame that lacks the others as a whole, else nothing."""
    names = getattr(estimator, "feature_names_in_", ())
    place = {label: position for position, label in enumerate(frame.columns)}
    if not set(place) < set(names):
        return {}
    found = {
        view: np.array([place.get(names[position], -1) for position in positions])
        for view, positions in estimator.view_columns_.items()
    }
    in_part = [
        view for view, columns in found.items() if (columns < 0).any() and columns.max() >= 0
    ]
    return {} if in_part else {view: each for view, each in found.items() if each.min() >= 0}


def _recognised(X: Any, forms: Mapping[str, ViewForm]) -> Any:
    """Return the views that are there; without names they are recognised by their columns."""
    if isinstance(X, Mapping) and has_views(X):
        return {name: block for name, block in X.items() if block is not None}
    if has_views(X):
        what, blocks = f"a list of {len(X)} views", X
        if not isinstance(X, list | tuple) or tuple(forms) == names_by_position(len(X)):
            return X
    elif has_view_level(X):
        return X
    else:
        what, blocks = "2-D data", [X]
    views: dict[Any, str] = {form.columns: name for name, form in forms.items() if form.columns}
    named = {views.get(column_names(each)): each for each in blocks if is_frame(each)}
    if len(named) < len(blocks) or None in named or len(set(views.values())) < len(forms):
        raise ValueError(
            f"X is {what}, but the estimator was fitted with {len(forms)} views "
            f"({quoted(forms)}), and its columns do not tell which are there; pass a dict of views"
        )
    return named


def _as_fitted(made: MultiView, forms: Mapping[str, ViewForm]) -> MultiView:
    """Return the views at fit, in their order, absent where they are not given."""
    unknown = [name for name in made.names if name not in forms]
    if unknown:
        raise ValueError(
            f"X has {len(made.names)} views ({quoted(made.names)}), but the estimator was fitted "
            f"with {len(forms)} ({quoted(forms)}) and does not know {quoted(unknown)}; rename "
            "views, or leave them out: views that are not there are absent"
        )
    blocks, observed = {}, np.zeros((len(made), len(forms)), dtype=bool)
    for place, (name, form) in enumerate(forms.items()):
        if name not in made.names:
            blocks[name] = nothing(len(made), form.size, sparse=form.sparse)
            continue
        blocks[name] = made.given(name)
        observed[:, place] = made.present(name)
        _check_columns(name, blocks[name].shape[1], made.columns[name], form)
        if issparse(blocks[name]) != form.sparse:
            blocks[name] = _as_sparse_or_dense(made[name], observed[:, place], form.sparse)
    columns = {name: form.columns for name, form in forms.items()}
    return MultiView._build(blocks, observed, made.index, columns)


def _warn_of_names(views: MultiView, forms: Mapping[str, ViewForm]) -> None:
    """Warn of views whose columns have names now or had them at fit, but not both."""
    named = [name for name in views.names if views.columns[name] and not forms[name].columns]
    unnamed = [name for name in views.names if forms[name].columns and not views.columns[name]]
    for names, text in ((named, "names, but had none"), (unnamed, "no names, but had them")):
        if names:
            warn_user(
                f"the columns of the views {quoted(names)} have {text} at fit; they are taken in "
                "the order given"
            )


def _check_columns(name: str, size: int, columns: tuple[str, ...] | None, form: ViewForm) -> None:
    """Compare the columns of a view with those at fit, as scikit-learn compares feature names."""
    if columns is None or form.columns is None:
        if size != form.size:
            raise ValueError(f"view {name!r} has {size} columns, but was fitted with {form.size}")
        return
    if columns == form.columns:
        return
    missing = [each for each in form.columns if each not in columns]
    new = [each for each in columns if each not in form.columns]
    problem = f"view {name!r} has {size} columns, but was fitted with {form.size}"
    if missing or new:
        problem += "".join(
            f"; {text}: {quoted(each)}"
            for text, each in (("missing", missing), ("new", new))
            if each
        )
    elif size == form.size:
        problem = (
            f"the columns of view {name!r} must be in the same order as they were in fit: "
            f"{quoted(form.columns)}"
        )
    raise ValueError(problem)


def _as_sparse_or_dense(block: Any, present: Bools, sparse: bool) -> Any:
    """Return numbers (n, d) in the other form."""
    if sparse:
        return csr_array(np.where(present[:, None], block, 0.0))
    dense = block.toarray()
    dense[~present] = np.nan
    return dense
