"""Which view to take next: the gain in loss to be expected from it.

For a sample with the views S and a view p that it lacks, the gain is the mean of

    loss(model with the views S) - loss(model with S and p)

over labelled samples that have S and p and that the model has not seen. Where fewer than
`min_samples` have all of them, it is the mean over all labelled samples that have p, of which those
of S that they have are kept.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.model_selection import check_cv
from sklearn.utils.metaestimators import _safe_split

from kernelquilt._messages import quoted
from kernelquilt._typing import Array, Bools, Floats, Indices
from kernelquilt.data.validation import as_views, check_alignment, has_views
from kernelquilt.inspection.contributions import Asked
from kernelquilt.inspection.samples import (
    SMALLEST,
    Cohort,
    Response,
    response_without_views,
    samples_of,
)


@dataclass(frozen=True, eq=False)
class NextView:
    """What is to be expected of views that samples lack.

    Attributes
    ----------
    view_names : tuple of V str
        Names of the views.
    gains : ndarray of shape (n, V)
        Expected gains in loss; nan where a sample has the view, or nothing is known.
    standard_errors : ndarray of shape (n, V)
        Of the means that `gains` are; nan where they are, and of a single sample.
    n_samples : ndarray of int of shape (n, V)
        How many labelled samples a gain rests on.
    same_views : ndarray of bool of shape (n, V)
        Whether these have all views of the sample; False where there were too few of them.
    best : ndarray of shape (n,)
        Name of the view with the largest gain, None where there is none.
    what : str
        Which loss it is.
    index : ndarray of shape (n,)
        Identifiers of the samples.

    Examples
    --------
    >>> import kernelquilt as kq
    >>> X, y = kq.datasets.load_example("wdbc")
    >>> X = kq.datasets.make_absent(X, 0.3, random_state=0)
    >>> model = kq.LateFusionClassifier().fit(X[:100], y[:100])
    >>> found = kq.inspection.next_view(model, X[200:203], X[100:200], y[100:200])
    >>> found.gains.shape
    (3, 3)
    """

    view_names: tuple[str, ...]
    gains: Floats
    standard_errors: Floats
    n_samples: Indices
    same_views: Bools
    best: Array
    what: str
    index: Array


def next_view(
    model: Any,
    X: Any,
    X_labelled: Any,
    y_labelled: Any,
    *,
    cv: Any = 5,
    min_samples: int = 30,
    n_jobs: int | None = None,
) -> NextView:
    """Return what each view that samples lack is expected to gain, and which gains most.

    The gain is in log loss of the probabilities of a classifier, in squared error of a regressor.
    It depends on which views a sample has, not on their values, and is learned from labelled
    samples that have these views and the one in question.

    Parameters
    ----------
    model : fitted estimator
        Any classifier with probabilities or regressor of this package, a pipeline that ends in
        one, or a search of these.
    X : MultiView, dict, KernelStack, DataFrame or array of n samples
        Cohort that may lack views.
    X_labelled : as `X`, of n_labelled samples
        Cohort with known labels or targets, such as the training samples.
    y_labelled : array-like of shape (n_labelled,)
        Their labels or targets.
    cv : int, splitter or None, default=5
        What a model says of its own training samples is too good, and so would be the gains.
        Therefore clones of the model learn from all folds but one and are asked about that one.
        None if the model has not seen the labelled samples, and can be asked itself.
    min_samples : int, default=30
        Where fewer labelled samples have all views of a sample and the one in question, all that
        have that one count.
    n_jobs : int or None, default=None
        Threads over folds; results do not depend on it.

    Returns
    -------
    found : NextView

    Examples
    --------
    >>> import kernelquilt as kq
    >>> X, y = kq.datasets.load_example("wdbc")
    >>> train = kq.datasets.make_absent(X[:200], 0.3, random_state=0)
    >>> model = kq.LateFusionClassifier().fit(train, y[:200])
    >>> new = X[200:203].with_observed([[True, False, False]] * 3)
    >>> kq.inspection.next_view(model, new, train, y[:200]).best.tolist()
    ['worst', 'worst', 'worst']
    """
    check_alignment(X_labelled, y_labelled, "y_labelled")
    samples, y = samples_of(model, X), np.asarray(y_labelled)
    what = _loss_of(model)
    if cv is None:
        folds = [_Fold(model, samples_of(model, X_labelled), y)]
    else:
        if has_views(X_labelled):
            X_labelled = as_views(X_labelled, partial_nan="allow")
        splitter = check_cv(cv, y, classifier=is_classifier(model))
        folds = Parallel(n_jobs, prefer="threads")(
            delayed(_refitted)(model, X_labelled, y, *split)
            for split in splitter.split(np.zeros(len(y)), y)
        )
    asked = folds[0]
    response_without_views(model, asked.samples, Response("", None, asked.model.predict))
    if asked.samples.names != samples.names:
        raise ValueError(
            f"X has the views {quoted(samples.names)}, but X_labelled {quoted(asked.samples.names)}"
        )
    patterns, group = np.unique(samples.observed, axis=0, return_inverse=True)
    group = group.reshape(-1)
    gains, errors, counts, same = _expected(folds, patterns, min_samples, n_jobs)
    known = ~np.isnan(gains)
    place = np.where(known, gains, -np.inf).argmax(axis=1)
    names = np.array(samples.names, dtype=object)
    best = np.where(known.any(axis=1), names[place], None)
    return NextView(
        samples.names,
        gains[group],
        errors[group],
        counts[group],
        same[group],
        best[group],
        what,
        samples.index,
    )


class _Fold(NamedTuple):
    """A model and labelled samples that it has not seen."""

    model: Any
    samples: Cohort
    y: Array

    def losses(self, rows: Indices, kept: Bools) -> Floats:
        """Return the losses (n_rows,) of samples (n_rows,) with the views kept (n_rows, V)."""
        if not is_classifier(self.model):
            predicted = Asked(self.samples, Response("", None, self.model.predict))
            return np.asarray((predicted.about(rows, kept) - self.y[rows]) ** 2)
        asked = Asked(self.samples, Response("", None, self.model.predict_proba))
        # a class that the fold did not show has no probability
        places = {each: place for place, each in enumerate(self.model.classes_.tolist())}
        codes = np.array([places.get(each, -1) for each in self.y[rows].tolist()])
        proba = asked.about(rows, kept)
        found = np.where(codes < 0, 0.0, proba[np.arange(len(rows)), codes])
        return np.asarray(-np.log(np.maximum(found, SMALLEST)))


def _refitted(model: Any, X: Any, y: Array, train: Indices, test: Indices) -> _Fold:
    fitted = clone(model).fit(*_safe_split(model, X, y, train))
    X_test, y_test = _safe_split(model, X, y, test, train)
    return _Fold(fitted, samples_of(fitted, X_test), y_test)


def _loss_of(model: Any) -> str:
    """Return the name of the loss of a model, which must have one."""
    if is_classifier(model) and hasattr(model, "predict_proba"):
        return "log loss"
    if is_regressor(model):
        return "squared error"
    raise ValueError(
        f"{type(model).__name__} has no probabilities, of which the gain in log loss would be; "
        "take QuiltClassifier, or put the model into CalibratedClassifierCV"
    )


def _expected(
    folds: list[_Fold], patterns: Bools, min_samples: int, n_jobs: int | None
) -> tuple[Floats, Floats, Indices, Bools]:
    """Return gains, standard errors, counts and whether views are the same, (n_patterns, V) each.

    Parameters
    ----------
    folds : list of _Fold
        With n labelled samples together.
    patterns : ndarray of bool of shape (n_patterns, V)
        Which views samples have.
    min_samples, n_jobs
        As in `next_view`.
    """
    observed = np.concatenate([fold.samples.observed for fold in folds])
    shape = patterns.shape
    gains, errors = np.full(shape, np.nan), np.full(shape, np.nan)
    counts, same = np.zeros(shape, dtype=np.intp), np.zeros(shape, dtype=np.bool_)
    for g, pattern in enumerate(patterns):
        asked = []
        for p in np.flatnonzero(~pattern):
            wanted = pattern | (np.arange(len(pattern)) == p)
            rows = np.flatnonzero(observed[:, wanted].all(axis=1))
            same[g, p] = len(rows) >= min_samples
            if not same[g, p]:
                rows = np.flatnonzero(observed[:, p])
            counts[g, p] = len(rows)
            asked.append((p, rows, observed[rows] & pattern, observed[rows] & wanted))
        if not any(len(rows) for _, rows, *_ in asked):
            continue
        losses = _losses(
            folds,
            np.concatenate([each for _, rows, *_ in asked for each in (rows, rows)]),
            np.concatenate([each for *_, before, after in asked for each in (before, after)]),
            n_jobs,
        )
        start = 0
        for p, rows, *_ in asked:
            before, after = losses[start : start + 2 * len(rows)].reshape(2, -1)
            start += 2 * len(rows)
            if len(rows):
                gains[g, p] = (before - after).mean()
            if len(rows) > 1:
                errors[g, p] = (before - after).std(ddof=1) / np.sqrt(len(rows))
    return gains, errors, counts, same


def _losses(folds: list[_Fold], rows: Indices, kept: Bools, n_jobs: int | None) -> Floats:
    """Return the losses (P,) of labelled samples (P,), numbered through all folds."""
    pairs, number = np.unique(np.column_stack([rows, kept]), axis=0, return_inverse=True)
    starts = np.cumsum([0, *(len(fold.y) for fold in folds)])
    bounds = np.searchsorted(pairs[:, 0], starts)
    done = Parallel(n_jobs, prefer="threads")(
        delayed(fold.losses)(pairs[low:high, 0] - start, pairs[low:high, 1:].astype(np.bool_))
        for fold, start, low, high in zip(folds, starts, bounds, bounds[1:], strict=False)
        if high > low
    )
    return np.asarray(np.concatenate(done)[number.reshape(-1)])
