"""Recipes: how a method is tuned, fitted and asked for predictions on a `Split`.

A recipe is called with a `Split` and a `Tuning` and returns a `Fitted`. Whatever is tuned is
tuned by cross-validation within the training samples; completion of kernels uses no labels and
happens once, before the folds.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold
from sklearn.preprocessing import FunctionTransformer

from kernelquilt._typing import Array
from kernelquilt.experiments.study.measures import LOWER_IS_BETTER, METRICS, measures
from kernelquilt.experiments.study.splits import Split, Stacks
from kernelquilt.mkl.search import MKLSearchCV

TINY = np.finfo(np.float64).tiny


class ImpossibleError(Exception):
    """A method cannot be fitted to these samples; the text says why."""


@dataclass(frozen=True)
class Tuning:
    """Candidates, folds and the figure of the cross-validation."""

    grid: Mapping[str, list[Any]]
    folds: int
    seed: int
    task: str = "classification"
    metric: str = "accuracy"

    def candidates(self, names: tuple[str, ...], prefix: str = "") -> dict[str, list[Any]]:
        """Return the candidates of those parameters that the study has."""
        return {prefix + name: list(self.grid[name]) for name in names if name in self.grid}

    @property
    def splitter(self) -> StratifiedKFold | KFold:
        """The folds, the same for all methods."""
        kind = StratifiedKFold if self.task == "classification" else KFold
        return kind(self.folds, shuffle=True, random_state=self.seed)

    def scorer(self, model: Any, X: Any, y: Any) -> float:
        """Return the figure of a fitted model, negative if less is better."""
        fitted = predictions(model, X)
        classes = getattr(model, "classes_", np.unique(y))
        found = measures(self.task, y, fitted.labels, fitted.scores, classes)
        value = found.get(self.metric, np.nan)
        return -value if self.metric in LOWER_IS_BETTER else value


@dataclass(frozen=True)
class Fitted:
    """Predictions for the test samples, and what they cost.

    Attributes
    ----------
    labels : ndarray of shape (n_test,)
        Or numbers, or risks.
    scores : ndarray of shape (n_test,) or (n_test, n_classes), or None
        Decision values or probabilities.
    proba : ndarray of shape (n_test, n_classes) or None
        Probabilities, if the method has them.
    parameters : dict
        What was chosen.
    figures : dict of str to float
        ``train_seconds`` of the final fit, ``search_seconds``, ``test_seconds``; the
        ``cv_accuracy``, or another figure, of what was chosen; of the final model, where it has
        them, ``support_share``, ``iterations``, ``converged``, ``log_objective``,
        ``effective_kernels`` (the squared sum of the weights over the sum of their squares) and
        ``active_share`` (of the switches that are off and make a difference); means over its
        binary problems.
    n_solves : int or None
    gap : float or None
        Relative duality gap of the final fit.
    """

    labels: Array
    scores: Array | None
    proba: Array | None
    parameters: dict[str, Any]
    figures: dict[str, float]
    n_solves: int | None = None
    gap: float | None = None


Recipe = Callable[[Split, Tuning], Fitted]


@dataclass(frozen=True)
class Method:
    """A method of a comparison."""

    summary: str
    recipe: Recipe
    leaky: bool = False  # a diagnostic that reads what should be absent


@dataclass(frozen=True)
class OnKernels:
    """Tune an estimator of this package along warm-started paths and fit it to kernels.

    Attributes
    ----------
    classifier : estimator
    tuned : tuple of str
        Parameters to tune, of those that the study has candidates for.
    filler : transformer or None
        Completes the kernels first.
    """

    classifier: Any
    tuned: tuple[str, ...] = ("C",)
    filler: Any = None

    def __call__(self, split: Split, tuning: Tuning) -> Fitted:
        """Fit and predict."""
        stacks = split.stacks  # made before the clock starts
        if self.filler is None:
            return self._fitted(stacks, split, tuning)
        begun = time.perf_counter()
        stacks = split.filled(clone(self.filler))
        seconds = time.perf_counter() - begun
        return with_figures(self._fitted(stacks, split, tuning), fill_seconds=seconds)

    def _fitted(self, stacks: Stacks, split: Split, tuning: Tuning) -> Fitted:
        candidates = tuning.candidates(self.tuned)
        if not candidates:
            return fit_and_predict(clone(self.classifier), stacks, split)
        search = MKLSearchCV(self.classifier, candidates, cv=tuning.splitter)
        return from_search(search, stacks, split, tuning)


@dataclass(frozen=True)
class OnViews:
    """Fit an estimator of this package that tunes itself to the views as they are.

    It makes the kernels of the study itself; where there are only kernels it is given these.
    """

    classifier: Any

    def __call__(self, split: Split, tuning: Tuning) -> Fitted:
        """Fit and predict."""
        classifier = clone(self.classifier)
        if not split.has_features:
            return fit_and_predict(classifier, split.stacks, split)
        classifier.set_params(kernels=split.own_kernels)
        return fit_and_predict(classifier, (split.train, split.test), split)


@dataclass(frozen=True)
class OnFeatures:
    """Fit a scikit-learn estimator to features with NaN, tuned by grid search if it has a grid.

    Attributes
    ----------
    classifier : estimator
    grid : dict of str to list
    prepare : transformer
        Such as an imputer; fitted once, to all training samples, as it sees no labels.
    """

    classifier: Any
    grid: dict[str, list[Any]] = field(default_factory=dict)
    prepare: Any = field(default_factory=FunctionTransformer)

    def __call__(self, split: Split, tuning: Tuning) -> Fitted:
        """Fit and predict."""
        train, test = split.features
        begun = time.perf_counter()
        prepare = clone(self.prepare)
        features = prepare.fit_transform(train), prepare.transform(test)
        seconds = time.perf_counter() - begun
        if self.grid:
            search = GridSearchCV(self.classifier, self.grid, cv=tuning.splitter)
            fitted = from_search(search, features, split, tuning)
        else:
            fitted = fit_and_predict(clone(self.classifier), features, split)
        return with_figures(fitted, fill_seconds=seconds)


def from_search(search: Any, stacks: tuple[Any, Any], split: Split, tuning: Tuning) -> Fitted:
    """Fit a search by the figure asked for and return the predictions of its best estimator."""
    train, test = stacks
    begun = time.perf_counter()
    own = tuning.metric == METRICS[tuning.task][0]  # which estimators score themselves by
    search.set_params(scoring=None if own else tuning.scorer)
    search.fit(train, split.y_train)
    searched = time.perf_counter() - begun - search.refit_time_
    fitted = predictions(search.best_estimator_, test)
    solves = fitted.n_solves
    if solves is not None and "mean_n_solves" in search.cv_results_:
        solves += round(search.cv_results_["mean_n_solves"].sum() * search.n_splits_)
    chosen = {name.split("__")[-1]: value for name, value in search.best_params_.items()}
    figures = {"train_seconds": search.refit_time_, "search_seconds": searched}
    figures[f"cv_{tuning.metric}"] = float(search.best_score_)
    return replace(
        fitted, parameters=chosen, figures={**fitted.figures, **figures}, n_solves=solves
    )


def fit_and_predict(classifier: Any, stacks: Stacks | tuple[Any, Any], split: Split) -> Fitted:
    """Fit an estimator that needs no tuning, or tunes itself, and return its predictions."""
    train, test = stacks
    begun = time.perf_counter()
    classifier.fit(train, split.y_train)
    trained = time.perf_counter() - begun
    return with_figures(predictions(classifier, test), train_seconds=trained)


def predictions(model: Any, test: Any) -> Fitted:
    """Return what a fitted model says of test samples."""
    begun = time.perf_counter()
    labels = model.predict(test)
    figures = {"test_seconds": time.perf_counter() - begun}
    last = model[-1] if hasattr(model, "steps") else model
    proba = model.predict_proba(test) if hasattr(last, "predict_proba") else None
    scores = model.decision_function(test) if hasattr(last, "decision_function") else proba
    if hasattr(last, "n_support_") and hasattr(last, "n_solves_"):
        figures["support_share"] = float(np.mean(last.n_support_) / last.dual_coef_.shape[-1])
    if hasattr(last, "n_iter_") and hasattr(last, "n_solves_"):
        figures["iterations"] = float(np.mean(last.n_iter_))
    if hasattr(last, "converged_"):
        figures["converged"] = float(np.all(last.converged_))
    if hasattr(last, "weights_"):
        d = np.atleast_2d(last.weights_)
        figures["effective_kernels"] = float(np.mean(d.sum(axis=1) ** 2 / (d**2).sum(axis=1)))
    if hasattr(last, "active_"):
        figures["active_share"] = float(np.mean(last.active_))
    gap = None
    if hasattr(last, "duality_gap_"):
        figures["log_objective"] = float(np.log(np.maximum(last.objective_, TINY)).mean())
        gap = float(np.max(np.asarray(last.duality_gap_) / np.asarray(last.objective_)))
    solves = getattr(last, "n_solves_", None)
    solves = None if solves is None else int(solves)
    return Fitted(labels, scores, proba, {}, figures, solves, gap)


def with_figures(fitted: Fitted, **figures: float) -> Fitted:
    """Return the same with further figures."""
    return replace(fitted, figures={**fitted.figures, **figures})
