"""Checks of samples and of their labels against what an estimator knows of its views."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from kernelquilt._messages import quoted
from kernelquilt.data.columns import ViewColumns, is_frame, resolve_columns, with_string_labels
from kernelquilt.data.views import MultiView, PartialNaN, as_views, has_views, split_columns

# what an estimator knows about the form of its training samples
LEARNED = ("n_features_in_", "feature_names_in_", "view_columns_", "view_names_", "view_sizes_")


def validate_views(
    estimator: Any,
    X: Any,
    views: ViewColumns,
    *,
    reset: bool,
    partial_nan: PartialNaN = "raise",
) -> MultiView:
    """Do `as_views` for an estimator, with scikit-learn's bookkeeping.

    With `reset`, sets ``n_features_in_`` (columns of 2-D data, otherwise views), ``view_names_``,
    ``view_sizes_``, for 2-D data also ``view_columns_`` (positions, so that arrays can follow data
    frames) and ``feature_names_in_``. Without `reset`, checks `X` against them.

    Parameters
    ----------
    estimator : estimator
    X : as in `as_views`
    views : as in `as_views`
        The parameter of the estimator.
    reset : bool
        True in ``fit``, False in ``predict`` and ``transform``.
    partial_nan : {"raise", "allow"}, default="raise"

    Returns
    -------
    views : MultiView of shape (n_samples, n_views)
        Without `reset`, in the order of the views at fit.
    """
    if reset:
        for name in ("view_columns_", "feature_names_in_"):
            vars(estimator).pop(name, None)
    if not has_views(X) and (reset or hasattr(estimator, "view_columns_")):
        frame = is_frame(X)
        checked = validate_data(
            estimator,
            with_string_labels(X) if frame else X,
            reset=reset,
            # columns that belong to no view need not be numeric
            skip_check_array=frame,
            dtype=np.float64,
            ensure_all_finite=False,
        )
        if reset:
            estimator.view_columns_ = resolve_columns(X if frame else checked, views)
        made = split_columns(checked, estimator.view_columns_, views, partial_nan)
    else:
        made = as_views(X, views if reset else None, partial_nan=partial_nan)
        if reset:
            estimator.n_features_in_ = len(made.names)
    if len(made) == 0:
        raise ValueError("X has 0 samples while a minimum of 1 is required")
    if not reset:
        return _as_fitted(made, estimator.view_sizes_)
    estimator.view_names_ = made.names
    estimator.view_sizes_ = {name: made[name].shape[1] for name in made.names}
    return made


def check_alignment(data: Any, y: Any) -> None:
    """Refuse labels whose index holds the samples of the views in another order."""
    index = getattr(data, "index", None)
    labels = getattr(y, "index", None)
    if index is None or labels is None or callable(labels) or len(labels) != len(index):
        return
    order = np.asarray(labels)
    if (order == index).all() or set(order.tolist()) != set(index.tolist()):
        return
    raise ValueError(
        f"the index of y holds the same {len(index)} samples as X, but in another order; "
        "pass y.loc[X.index]"
    )


def _as_fitted(made: MultiView, sizes: Mapping[str, int]) -> MultiView:
    if set(made.names) != set(sizes):
        raise ValueError(
            f"X has {len(made.names)} views ({quoted(made.names)}), but the estimator was fitted "
            f"with {len(sizes)} ({quoted(sizes)}); pass a view that is absent for all {len(made)} "
            "samples as rows of NaN"
        )
    for name, size in sizes.items():
        if made[name].shape[1] != size:
            raise ValueError(
                f"view {name!r} has {made[name].shape[1]} columns, but was fitted with {size}"
            )
    return made.select(sizes)
