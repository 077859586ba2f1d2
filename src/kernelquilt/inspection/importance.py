"""What views are worth to a model: how far its score falls without them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone, is_classifier
from sklearn.model_selection import check_cv
from sklearn.utils.metaestimators import _safe_split

from kernelquilt._typing import Array, Bools, Floats, Indices
from kernelquilt.data.validation import as_views, check_alignment, has_views
from kernelquilt.inspection.samples import Response, response_without_views, samples_of
from kernelquilt.inspection.scoring import groups_of, jackknife_error, name_of, scores_of


@dataclass(frozen=True, eq=False)
class ViewImportance:
    """How far a score falls without views.

    Attributes
    ----------
    view_names : tuple of V str
        Names of the views.
    score : float
        With all views that samples have.
    score_without_views : float
        Without any.
    drop : ndarray of shape (V,)
        How far the score falls without a view.
    drop_errors : ndarray of shape (V,)
        Standard errors of `drop`.
    drop_others : ndarray of shape (V,)
        How far the score falls without all other views.
    drop_others_errors : ndarray of shape (V,)
        Standard errors of `drop_others`.
    n_present : ndarray of int of shape (V,)
        How many of the samples have a view; without it nothing changes for the others.
    n_samples : int
        Of how many samples the scores are.
    what : str
        What the score is.

    Examples
    --------
    >>> import kernelquilt as kq
    >>> X, y = kq.datasets.load_example("wdbc")
    >>> X = kq.datasets.make_absent(X, 0.3, random_state=0)
    >>> model = kq.LateFusionClassifier().fit(X[:100], y[:100])
    >>> found = kq.inspection.view_importance(model, X[100:], y[100:])
    >>> found.drop.shape
    (3,)
    """

    view_names: tuple[str, ...]
    score: float
    score_without_views: float
    drop: Floats
    drop_errors: Floats
    drop_others: Floats
    drop_others_errors: Floats
    n_present: Indices
    n_samples: int
    what: str


def view_importance(
    model: Any,
    X: Any,
    y: Any,
    *,
    scoring: Any = None,
    cv: Any = None,
    n_jobs: int | None = None,
    random_state: Any = 0,
) -> ViewImportance:
    """Return how far the score of a model falls without each view, and without all others.

    The model is not fitted anew: it is asked about samples that lack the view, as it may be in use.
    Of two views that tell the same neither is missed (`drop`), but each does alone
    (`drop_others`).

    Kernel weights are no importances. They belong to kernels as they are scaled, say nothing
    about how often a view is there, share what views have in common among them at will, and
    follow the fit to the training samples; the importances are about the score on others.

    Parameters
    ----------
    model : estimator
        Fitted, but with `cv`. Any estimator of this package, a pipeline that ends in one, or a
        search of these.
    X : MultiView, dict, KernelStack, DataFrame or array of n samples
        Cohort that the model has not seen; with `cv`, those it learns from.
    y : array-like of shape (n,)
        Their labels or targets.
    scoring : str, callable or None, default=None
        As in scikit-learn, such as ``"neg_log_loss"``; by default accuracy, R2, or what the
        ``score`` of the model is.
    cv : int, splitter or None, default=None
        Folds: clones of the model learn from all but one fold and are scored on it.
    n_jobs : int or None, default=None
        Threads over folds; results do not depend on it.
    random_state : int, RandomState instance or None, default=0
        For the groups of samples that standard errors come from.

    Returns
    -------
    importance : ViewImportance
        Standard errors are by the jackknife over 20 groups of samples, those of `cv` from the
        differences between folds, whose training samples overlap, which makes them somewhat small.

    Examples
    --------
    >>> import kernelquilt as kq
    >>> X, y = kq.datasets.load_example("wdbc")
    >>> model = kq.LateFusionClassifier().fit(X[:200], y[:200])
    >>> found = kq.inspection.view_importance(model, X[200:], y[200:], scoring="neg_log_loss")
    >>> found.view_names[found.drop.argmax()]
    'worst'
    """
    check_alignment(X, y, "y")
    what, y = name_of(model, scoring), np.asarray(y)
    if cv is None:
        names, figures, observed = _held_out(model, X, y, scoring)
        groups = groups_of(len(y), random_state)
        found = figures(np.arange(len(y)))
        errors = jackknife_error(np.array([_falls(figures(rows)) for rows in groups]))
        return _importance(names, found, errors, observed, what)
    if has_views(X):
        X = as_views(X, partial_nan="allow")
    splits = check_cv(cv, y, classifier=is_classifier(model)).split(np.zeros(len(y)), y)
    folds = Parallel(n_jobs, prefer="threads")(
        delayed(_fold)(model, X, y, *split, scoring) for split in splits
    )
    found = np.array([each for _, each, _ in folds])
    errors = np.std([_falls(each) for each in found], axis=0, ddof=1) / np.sqrt(len(folds))
    observed = np.concatenate([each for *_, each in folds])
    return _importance(folds[0][0], found.mean(axis=0), errors, observed, what)


def _held_out(
    model: Any, X: Any, y: Array, scoring: Any
) -> tuple[tuple[str, ...], Callable[[Indices], Floats], Bools]:
    """Return the views, a function from positions of samples to scores, and the mask (n, V).

    The scores (2 + 2 V,) are those with all views, with none, without each and with each alone.
    """
    samples = samples_of(model, X)
    response_without_views(model, samples, Response("", None, model.predict))
    V = len(samples.names)
    each = np.eye(V, dtype=np.bool_)
    left = [np.ones(V, dtype=np.bool_), np.zeros(V, dtype=np.bool_), *~each, *each]
    scores = [scores_of(model, samples, y, samples.observed & views, scoring) for views in left]
    return samples.names, lambda rows: np.array([s(rows) for s in scores]), samples.observed


def _fold(
    model: Any, X: Any, y: Array, train: Indices, test: Indices, scoring: Any
) -> tuple[tuple[str, ...], Floats, Bools]:
    """Return the views, the scores (2 + 2 V,) on a fold and its mask."""
    fitted = clone(model).fit(*_safe_split(model, X, y, train))
    X_test, y_test = _safe_split(model, X, y, test, train)
    names, figures, observed = _held_out(fitted, X_test, y_test, scoring)
    return names, figures(np.arange(len(test))), observed


def _falls(figures: Floats) -> Floats:
    """Return how far the score falls without each view and without all others, (2, V)."""
    return np.asarray(figures[0] - figures[2:].reshape(2, -1))


def _importance(
    names: tuple[str, ...], figures: Floats, errors: Floats, observed: Bools, what: str
) -> ViewImportance:
    falls = _falls(figures)
    return ViewImportance(
        names,
        float(figures[0]),
        float(figures[1]),
        falls[0],
        errors[0],
        falls[1],
        errors[1],
        np.count_nonzero(observed, axis=0),
        len(observed),
        what,
    )
