"""How good a model is on samples that have the same views, or as many."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import binomtest, norm

from kernelquilt._typing import Bools, Floats, Indices
from kernelquilt.data.validation import check_alignment
from kernelquilt.inspection.samples import samples_of
from kernelquilt.inspection.scoring import (
    asked_once,
    groups_of,
    jackknife_error,
    name_of,
    scores_of,
)

LEVEL = 0.95
LEAST_SAMPLES = 5  # of which the uncertainty of a score can be told
UNKNOWN = np.full(2, np.nan)


@dataclass(frozen=True, eq=False)
class PatternScores:
    """Scores by pattern of presence, and by number of views.

    Attributes
    ----------
    view_names : tuple of V str
        Names of the views.
    patterns : ndarray of bool of shape (n_patterns, V)
        Which views samples have, the most frequent pattern first.
    pattern_counts : ndarray of int of shape (n_patterns,)
        How many samples have exactly these.
    pattern_scores : ndarray of shape (n_patterns,)
        The score on them; nan where it is not defined.
    pattern_intervals : ndarray of shape (n_patterns, 2)
        Its interval of 95 %: of accuracy that of Wilson, of other scores two standard errors by
        the jackknife to both sides; nan where there are too few samples to tell, and where a
        model would have to be asked again for each score.
    n_views : ndarray of int of shape (n_numbers,)
        Numbers of views that samples have, ascending.
    n_views_counts : ndarray of int of shape (n_numbers,)
        How many samples have as many.
    n_views_scores : ndarray of shape (n_numbers,)
        The score on them; nan where it is not defined.
    n_views_intervals : ndarray of shape (n_numbers, 2)
        Its interval.
    score : float
        On all samples.
    interval : ndarray of shape (2,)
        Its interval.
    what : str
        What the score is.

    Examples
    --------
    >>> import kernelquilt as kq
    >>> X, y = kq.datasets.load_example("wdbc")
    >>> X = kq.datasets.make_absent(X, 0.3, random_state=0)
    >>> model = kq.LateFusionClassifier().fit(X[:100], y[:100])
    >>> found = kq.inspection.score_by_pattern(model, X[100:], y[100:])
    >>> int(found.pattern_counts.sum()) == len(y) - 100
    True
    """

    view_names: tuple[str, ...]
    patterns: Bools
    pattern_counts: Indices
    pattern_scores: Floats
    pattern_intervals: Floats
    n_views: Indices
    n_views_counts: Indices
    n_views_scores: Floats
    n_views_intervals: Floats
    score: float
    interval: Floats
    what: str


def score_by_pattern(model: Any, X: Any, y: Any, *, scoring: Any = None) -> PatternScores:
    """Return the score of a model on samples by which views they have, and by how many.

    Parameters
    ----------
    model : fitted estimator
        Any estimator of this package, a pipeline that ends in one, or a search of these.
    X : MultiView, dict, KernelStack, DataFrame or array of n samples
        Cohort that the model has not seen.
    y : array-like of shape (n,)
        Their labels or targets.
    scoring : str, callable or None, default=None
        As in scikit-learn; by default accuracy, R2, or what the ``score`` of the model is.

    Returns
    -------
    scores : PatternScores
        Scores and counts.

    Examples
    --------
    >>> import kernelquilt as kq
    >>> X, y = kq.datasets.load_example("wdbc")
    >>> X = kq.datasets.make_absent(X, 0.3, random_state=0)
    >>> model = kq.LateFusionClassifier().fit(X[:200], y[:200])
    >>> found = kq.inspection.score_by_pattern(model, X[200:], y[200:])
    >>> found.n_views.tolist(), int(found.n_views_counts.sum())
    ([2, 3], 369)
    """
    check_alignment(X, y, "y")
    samples, y = samples_of(model, X), np.asarray(y)
    score = scores_of(model, samples, y, samples.observed, scoring)
    patterns, counts, group = patterns_of(samples.observed)
    numbers = samples.observed.sum(axis=1)
    n_views, n_views_counts = np.unique(numbers, return_counts=True)
    what = name_of(model, scoring)
    groups = [
        np.ones(len(y), dtype=np.bool_),
        *(group == g for g in range(len(patterns))),
        *(numbers == number for number in n_views),
    ]
    rows = [np.flatnonzero(each) for each in groups]
    found = np.array([_score(score, each) for each in rows])
    between = np.full((len(rows), 2), np.nan)
    if asked_once(model, scoring):  # others would be asked too often
        between = np.array([_interval(score, each, what) for each in rows])
    first, last = slice(1, 1 + len(patterns)), slice(1 + len(patterns), None)
    return PatternScores(
        samples.names,
        patterns,
        counts,
        found[first],
        between[first],
        n_views,
        n_views_counts,
        found[last],
        between[last],
        score(rows[0]),
        between[0],
        what,
    )


def patterns_of(observed: Bools) -> tuple[Bools, Indices, Indices]:
    """Return patterns of presence, how many samples have them, and which one each sample has.

    Shapes (n_patterns, V), (n_patterns,) and (n,), the most frequent pattern first; of patterns as
    frequent the one with the first views.
    """
    patterns, group, counts = np.unique(observed, axis=0, return_inverse=True, return_counts=True)
    order = np.lexsort((*~patterns.T[::-1], -counts))
    return patterns[order], counts[order], np.argsort(order)[group.reshape(-1)]


def pattern_name(names: Sequence[str], pattern: Bools) -> str:
    """Return what a pattern (V,) is called: by its views, or by those it lacks if fewer."""
    own, lacking = (
        [name for name, has in zip(names, pattern, strict=True) if has == wanted]
        for wanted in (True, False)
    )
    if not own or not lacking:
        return "all views" if own else "no view"
    return f"without {' + '.join(lacking)}" if len(lacking) < len(own) else " + ".join(own)


def _score(score: Callable[[Indices], float], rows: Indices) -> float:
    """Return the score on some samples, nan where scikit-learn finds it not defined."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        try:
            return score(rows)
        except ValueError:
            return np.nan


def _interval(score: Callable[[Indices], float], rows: Indices, what: str) -> Floats:
    """Return the interval (2,) of the score on some samples, nan if it is not known."""
    found = _score(score, rows)
    if np.isnan(found) or len(rows) < LEAST_SAMPLES:
        return UNKNOWN
    if what == "accuracy":
        right = round(found * len(rows))
        return np.array(binomtest(right, len(rows)).proportion_ci(LEVEL, method="wilson"))
    without = np.array([_score(score, rows[kept]) for kept in groups_of(len(rows), 0)])
    return found + np.array([-1.0, 1.0]) * norm.ppf((1 + LEVEL) / 2) * jackknife_error(without)
