"""Samples with views left out, and what a model says of them.

Everything here goes through what a model has in public: it is handed samples that lack views, in
the form in which a user would hand them over, or as `ViewSubsets` if it takes these.
"""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from kernelquilt._messages import quoted
from kernelquilt._typing import Array, Bools, Floats, Indices
from kernelquilt.data.blocks import take
from kernelquilt.data.columns import without_columns
from kernelquilt.data.new_samples import match_views
from kernelquilt.data.stack import as_stack
from kernelquilt.data.training import is_precomputed
from kernelquilt.data.validation import as_two_dimensional, as_views, has_views
from kernelquilt.data.views import MultiView
from kernelquilt.kernels.subsets import ViewSubsets

SMALLEST = 1e-15  # probabilities are not taken for smaller before their logarithms


@dataclass(frozen=True, eq=False)
class Cohort:
    """Samples of which views can be left out.

    Attributes
    ----------
    data : MultiView, KernelStack, ndarray or DataFrame of n samples
        What a model takes.
    names : tuple of V str
        Names of the views, of the kernels if there are only these.
    observed : ndarray of bool of shape (n, V)
        Which views the samples have.
    columns : dict of str to ndarray of int, or None
        Of the views, where the model needs 2-D data.
    shared : bool
        Whether the model takes `ViewSubsets` of them.
    """

    data: Any
    names: tuple[str, ...]
    observed: Bools
    columns: dict[str, Indices] | None = None
    shared: bool = False

    def subset(self, rows: Indices, kept: Bools) -> Any:
        """Return some of the samples (n_rows,), which may be repeated, with the views `kept`.

        Those are a mask (n_rows, V), and True only where the samples have the view.
        """
        if self.columns is not None:
            return without_columns(take(self.data, rows), self.columns, kept)
        part = self.data[rows]
        return (
            part.with_observed(kept) if isinstance(part, MultiView) else part._with_observed(kept)
        )

    def subsets(self, rows: Indices, kept: Bools) -> ViewSubsets:
        """Return the same as `subset`, of rows (n_rows,) in which samples stand together."""
        first = np.diff(rows, prepend=-1) != 0
        return ViewSubsets(self.data[rows[first]], np.cumsum(first) - 1, kept)

    @property
    def n_cells(self) -> int:
        """Size of a sample, in numbers."""
        if isinstance(self.data, MultiView):
            return sum(self.data.given(name).shape[1] for name in self.names)
        return int(self.data.shape[1])

    @property
    def index(self) -> Array:
        """Identifiers (n,) of the samples, their positions where they have none."""
        found = getattr(self.data, "index", None)
        return np.arange(len(self.observed)) if found is None else np.asarray(found)


def samples_of(model: Any, X: Any) -> Cohort:
    """Return samples in a form in which views can be left out before a model sees them.

    Parameters
    ----------
    model : fitted estimator, pipeline or search
    X : MultiView, dict, KernelStack or 2-D data
        In the form of the training samples.

    Returns
    -------
    samples : Cohort

    Raises
    ------
    ValueError
        If the model does not say which columns form views, or knows other views.
    """
    check_is_fitted(model)
    parts = list(parts_of(model))
    shared = len(parts) == 1 and getattr(parts[0], "_shares_subsets", False)
    if hasattr(X, "observed") and not isinstance(X, MultiView):  # kernels, as Grams or factors
        return Cohort(X, X.names, X.observed, shared=shared)
    if is_precomputed(getattr(parts[0], "kernels", None)):
        stack = as_stack(X)
        return Cohort(stack, stack.names, stack.observed, shared=shared)
    knowing = [part for part in parts if hasattr(part, "view_forms_")]
    if knowing and (has_views(X) or knowing[0] is parts[0]):
        own = knowing[0]
        views = match_views(own, X, getattr(own, "views", None), as_given=True)
    elif has_views(X):
        views = as_views(X, partial_nan="allow")
    elif knowing and hasattr(knowing[0], "view_columns_"):
        X = as_two_dimensional(X)
        columns = knowing[0].view_columns_
        if X.shape[1] != knowing[0].n_features_in_:
            raise ValueError(
                f"X has {X.shape[1]} columns, but the step with the {len(columns)} views "
                f"({quoted(columns)}) gets {knowing[0].n_features_in_}, so that it cannot be told "
                "which columns of X are of which view; give the pipeline a MultiView"
            )
        views = as_views(X, columns, partial_nan="allow")
        return Cohort(X, views.names, views.observed, columns)
    else:
        raise ValueError(
            f"{type(model).__name__} does not say which columns of 2-D data form views; pass X as "
            "a MultiView"
        )
    return Cohort(views, views.names, views.observed, shared=shared)


def parts_of(model: Any) -> Iterator[Any]:
    """Yield the fitted estimators of a model in the order in which samples go through them."""
    if hasattr(model, "best_estimator_"):
        yield from parts_of(model.best_estimator_)
    elif hasattr(model, "steps"):
        for _, step in model.steps:
            if step is not None and step != "passthrough":
                yield from parts_of(step)
    else:
        yield model


class Response(NamedTuple):
    """What is looked at of a model.

    Attributes
    ----------
    what : str
        Its name.
    outputs : tuple of str or None
        Names of the outputs where there are several.
    of : callable
        From samples to an array of shape (n,) or (n, n_outputs).
    """

    what: str
    outputs: tuple[str, ...] | None
    of: Callable[[Any], Floats]


def response_of(model: Any, response_method: str = "auto") -> Response:
    """Return what is looked at of a fitted model.

    Parameters
    ----------
    model : estimator
    response_method : {"auto", "predict_proba", "decision_function", "predict"}, default="auto"
        ``"auto"`` takes the first of these that the model has. Of probabilities the log odds are
        taken if there are two classes, and their logarithms otherwise.

    Returns
    -------
    response : Response
    """
    known = ("predict_proba", "decision_function", "predict")
    if response_method not in ("auto", *known):
        raise ValueError(
            f"response_method must be 'auto' or one of {quoted(known)}, got {response_method!r}"
        )
    method = response_method
    if method == "auto":
        method = next((name for name in known if hasattr(model, name)), "predict")
    if not hasattr(model, method):
        raise ValueError(f"{type(model).__name__} has no {method}")
    call = getattr(model, method)
    if method == "predict":
        if is_classifier(model):
            raise ValueError(
                f"{type(model).__name__} predicts classes, which are no numbers that views could "
                "add to; it needs predict_proba or decision_function"
            )
        return Response("prediction", None, call)
    classes = tuple(map(str, getattr(model, "classes_", ())))
    outputs = classes if len(classes) > 2 else None
    if method == "decision_function":
        return Response("score", outputs, call)
    if outputs is None:
        return Response(f"log odds of {classes[-1]}", None, lambda X: _log_odds(call(X)))
    return Response("log probability", outputs, lambda X: _logarithms(call(X)))


def _logarithms(proba: Floats) -> Floats:
    return np.log(np.maximum(proba, SMALLEST))


def _log_odds(proba: Floats) -> Floats:
    logs = _logarithms(proba)
    return np.asarray(logs[:, -1] - logs[:, 0])


def response_without_views(model: Any, samples: Cohort, response: Response) -> Array:
    """Return what a model says of a sample without any view, shape () or (n_outputs,)."""
    first = np.zeros(1, dtype=np.intp)
    nothing = samples.subset(first, np.zeros((1, len(samples.names)), dtype=np.bool_))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            return np.asarray(response.of(nothing)[0])
    except (ValueError, TypeError) as error:
        text = str(error).partition("\n")[0]
        raise ValueError(
            f"{type(model).__name__} cannot be asked about samples without their views, so that "
            f"nothing can be said about what these are worth: {text}"
        ) from error
