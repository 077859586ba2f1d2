"""Scores of a model on samples of which views are left out."""

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import is_classifier, is_regressor
from sklearn.metrics import check_scoring, get_scorer
from sklearn.model_selection import KFold
from sklearn.utils import get_tags

from kernelquilt._typing import Array, Bools, Floats, Indices
from kernelquilt.inspection.contributions import Asked
from kernelquilt.inspection.samples import Cohort, Response

GROUPS = 20  # of samples, which the jackknife leaves out in turn


class _Remembered:
    """What a model says of samples with some of their views, asked once; X is their positions."""

    def __init__(self, model: Any, samples: Cohort, kept: Bools) -> None:
        self.model = model
        self.samples = samples
        self.kept = kept
        self._said: dict[str, Array] = {}

    def __getattr__(self, name: str) -> Any:
        if name == "classes_":
            return self.model.classes_
        if name not in ("predict", "predict_proba", "decision_function"):
            raise AttributeError(name)
        call = getattr(self.model, name)

        def answer(rows: Indices) -> Array:
            if name not in self._said:
                asked = Asked(self.samples, Response(name, None, call))
                self._said[name] = asked.about(np.arange(len(self.kept)), self.kept)
            return np.asarray(self._said[name][rows])

        answer.__name__ = name  # by which scikit-learn caches
        return answer

    def __sklearn_tags__(self) -> Any:
        return get_tags(self.model)


def name_of(model: Any, scoring: Any) -> str:
    """Return what a score is called."""
    if isinstance(scoring, str):
        return scoring.removeprefix("neg_").replace("_", " ").replace("roc auc", "AUC")
    if scoring is None and (is_classifier(model) or is_regressor(model)):
        return "accuracy" if is_classifier(model) else "R²"
    return "score"


def asked_once(model: Any, scoring: Any) -> bool:
    """Whether `scores_of` asks a model once for all scores."""
    if scoring is None:
        return is_classifier(model) or is_regressor(model)
    return isinstance(scoring, str) or hasattr(scoring, "_score_func")


def scores_of(
    model: Any, samples: Cohort, y: Array, kept: Bools, scoring: Any = None
) -> Callable[[Indices], float]:
    """Return a function from positions of samples to the score of a model on them.

    Parameters
    ----------
    model : fitted estimator
    samples : Cohort
        Of n samples.
    y : ndarray of shape (n,)
    kept : ndarray of bool of shape (n, V)
        The views that are left to the samples.
    scoring : str, callable or None
        As in scikit-learn. Where it is a name or made by `make_scorer`, and by default where the
        model is a classifier or regressor, the model is asked once for all calls.

    Returns
    -------
    score : callable
    """
    if asked_once(model, scoring):
        by_default = "accuracy" if is_classifier(model) else "r2"
        scorer = get_scorer(by_default if scoring is None else scoring)
        remembered = _Remembered(model, samples, kept)
        return lambda rows: float(scorer(remembered, rows, y[rows]))
    scorer = check_scoring(model, scoring)
    return lambda rows: float(scorer(model, samples.subset(rows, kept[rows]), y[rows]))


def groups_of(n_samples: int, random_state: Any) -> list[Indices]:
    """Return the samples without one of up to `GROUPS` groups each.

    Classes are not spread evenly over the groups, as they are not over new samples.
    """
    folds = KFold(min(GROUPS, n_samples), shuffle=True, random_state=random_state)
    return [kept for kept, _ in folds.split(np.zeros(n_samples))]


def jackknife_error(estimates: Floats) -> Floats:
    """Return the standard error (...) of a figure from those without one group each, (G, ...)."""
    n_groups = len(estimates)
    spread = ((estimates - estimates.mean(axis=0)) ** 2).sum(axis=0)
    return np.asarray(np.sqrt((n_groups - 1) / n_groups * spread))
