"""New samples in the form of the training samples: the same views and columns, in their order."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse

from kernelquilt._messages import quoted, warn_user
from kernelquilt._typing import Bools, Indices
from kernelquilt.data.blocks import column_names, is_dask, is_frame, names_by_position, nothing
from kernelquilt.data.columns import (
    ViewColumns,
    blocks_of_columns,
    has_view_level,
    with_string_labels,
)
from kernelquilt.data.validation import (
    ViewForm,
    as_numeric,
    as_views,
    check_any,
    check_in_memory,
    check_two_dimensional,
    has_views,
)
from kernelquilt.data.views import MultiView


def match_views(estimator: Any, X: Any, views: ViewColumns, *, as_given: bool = False) -> MultiView:
    """Check new samples against what an estimator has learned of views in `validate_views`.

    A view that is not there is absent, unknown views and other columns are errors.

    Parameters
    ----------
    estimator : estimator
    X : as in `as_views`
    views : as in `as_views`
        The parameter of the estimator.
    as_given : bool, default=False
        As in `validate_views`.

    Returns
    -------
    views : MultiView of shape (n_samples, n_views)
        With the views at fit, in their order.
    """
    two_dimensional = not has_views(X)
    check_in_memory(estimator, X)
    if two_dimensional and hasattr(estimator, "view_columns_"):
        given = _split(estimator, X)
    else:
        known = getattr(estimator, "view_forms_", {})
        given = as_views(_recognised(X, known), partial_nan="allow")
    check_any(given)
    made = _as_fitted(given, estimator.view_forms_)
    if not two_dimensional:  # of 2-D data scikit-learn warns
        _warn_of_names(given, estimator.view_forms_)
    return made if as_given else as_numeric(made, whole_rows=two_dimensional and views is None)


def _split(estimator: Any, X: Any) -> MultiView:
    """Split 2-D data into the views at fit, of which a frame may lack some as a whole."""
    at_hand = {}
    if is_frame(X) and not is_dask(X):
        at_hand = _views_at_hand(estimator, with_string_labels(X))
    if at_hand:
        return MultiView(blocks_of_columns(X, at_hand))
    X = check_two_dimensional(estimator, X, reset=False)
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
