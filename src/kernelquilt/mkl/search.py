"""Grid search that fits the candidates of each fold as a path."""

import time
from collections.abc import Mapping
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone, is_classifier
from sklearn.metrics import check_scoring
from sklearn.model_selection import ParameterGrid, check_cv
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing, get_tags
from sklearn.utils.metaestimators import _safe_split, available_if
from sklearn.utils.validation import indexable

from kernelquilt._messages import quoted, warn_once, with_warnings
from kernelquilt._typing import Array, Floats, Indices
from kernelquilt.core.limits import unchanged_on_error
from kernelquilt.core.search_results import BestCandidate
from kernelquilt.data.validation import check_alignment
from kernelquilt.data.views import MultiView
from kernelquilt.mkl.path import PathEstimator, path_fits


class MKLSearchCV(BestCandidate, MetaEstimatorMixin, BaseEstimator):
    """Grid search with cross-validation that warm-starts from candidate to candidate.

    Finds what `sklearn.model_selection.GridSearchCV` finds, to the certified tolerance of the fits,
    for a fraction of the work: in each fold the kernels are computed once, and each candidate
    starts where the one before ended. On factors the candidates of a fold share the passes over
    them instead, as in `mkl_path`, and equal parts of the time.

    Parameters
    ----------
    estimator : classifier or regressor of this package, or Pipeline that ends with one
        What to tune. The steps before it are fitted once per fold.
    param_grid : dict of str to list, or list of such dicts
        Candidates, as in `GridSearchCV`: parameters of the solver such as ``C`` and ``p``, in a
        pipeline with their prefix. For parameters of kernels or of other steps use `GridSearchCV`.
    scoring : str, callable or None, default=None
        As in scikit-learn; None is the accuracy, or R^2 for a regressor.
    cv : int, splitter or iterable, default=None
        As in scikit-learn; None is five folds, stratified for a classifier.
    refit : bool, default=True
        Whether to fit the best candidate to all samples.
    n_jobs : int or None, default=None
        Processes over the folds.
    verbose : int, default=0
        Passed on to joblib.

    Attributes
    ----------
    best_params_ : dict
        The candidate with the highest mean score.
    best_score_ : float
        Its mean score.
    best_index_ : int
        Its position in `cv_results_`.
    best_estimator_ : estimator
        Fitted to all samples with `best_params_`, if `refit`.
    cv_results_ : dict of ndarrays
        As in `GridSearchCV`, and ``mean_n_solves`` and ``mean_n_smo_iter`` of the fits.
    n_splits_ : int
        Number of folds.
    refit_time_ : float
        Seconds of the last fit.
    classes_ : ndarray of shape (n_classes,)
        Class labels of `best_estimator_`, if it is a classifier.

    Examples
    --------
    >>> import kernelquilt as kq
    >>> X, y = kq.datasets.load_example("wdbc")
    >>> search = kq.MKLSearchCV(kq.SimpleMKLClassifier(), {"C": [0.1, 1, 10]}).fit(X, y)
    >>> search.best_params_
    {'C': 10}
    """

    def __init__(
        self,
        estimator: Any,
        param_grid: Any,
        *,
        scoring: Any = None,
        cv: Any = None,
        refit: bool = True,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.estimator = estimator
        self.param_grid = param_grid
        self.scoring = scoring
        self.cv = cv
        self.refit = refit
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "MKLSearchCV":
        """Evaluate all candidates and fit the best one.

        Parameters
        ----------
        X : array-like of shape (n, n_features), DataFrame, dict of views, MultiView or KernelStack
            Training samples.
        y : array-like of shape (n,)
            Class labels, or targets.
        sample_weight : array-like of shape (n,), default=None
            Weights that the model is fitted with; scores count every sample alike.

        Returns
        -------
        self : MKLSearchCV
            The fitted search.
        """
        with unchanged_on_error(self):
            steps, model, prefix = _split_pipeline(self.estimator)
            candidates = list(ParameterGrid(self.param_grid))
            grid = [_solver_parameters(candidate, model, prefix) for candidate in candidates]
            order = sorted(range(len(grid)), key=lambda k: _sort_key(grid[k]))
            scorer = check_scoring(self.estimator, scoring=self.scoring)
            # a dict has no rows; some sparse matrices are dicts
            X = MultiView(X) if isinstance(X, Mapping) and not issparse(X) else X
            check_alignment(X, sample_weight, "sample_weight")
            X, y, sample_weight = indexable(X, y, sample_weight)
            # scikit-learn compares labels with their integers to tell what they are
            with np.errstate(invalid="ignore"):
                splitter = check_cv(self.cv, y, classifier=is_classifier(self.estimator))
                splits = list(splitter.split(X, y))
            done = Parallel(n_jobs=self.n_jobs, verbose=self.verbose)(
                delayed(with_warnings)(
                    _evaluate, steps, model, X, y, sample_weight, *split, grid, order, scorer
                )
                for split in splits
            )
            folds, said = zip(*done, strict=True)
            warn_once(said)
            self.scorer_ = scorer
            # score, fit time, score time, solves and iterations of candidates and folds
            scores, fit_time, score_time, solves, iterations = np.array(folds).transpose(1, 2, 0)
            self._keep_results(
                candidates,
                scores,
                {"fit_time": fit_time, "score_time": score_time},
                {"n_solves": solves, "n_smo_iter": iterations},
            )
            if self.refit:
                weights = {} if sample_weight is None else {f"{prefix}sample_weight": sample_weight}
                self._refit(self.estimator, "fit", X, y, **weights)
        return self

    @property
    def classes_(self) -> Array:
        """Class labels."""
        return np.asarray(self._best.classes_)

    def predict(self, X: Any) -> Array:
        """Return the classes, or numbers, that the best estimator predicts.

        Parameters
        ----------
        X : as in `fit`, of n_rows samples
            Samples, as in `fit`.

        Returns
        -------
        y : ndarray of shape (n_rows,)
            The predicted classes.
        """
        return np.asarray(self._best.predict(X))

    @available_if(lambda search: hasattr(search.estimator, "decision_function"))
    def decision_function(self, X: Any) -> Floats:
        """Return the scores of the best estimator, of classifiers.

        Parameters
        ----------
        X : as in `fit`, of n_rows samples
            Samples, as in `fit`.

        Returns
        -------
        scores : ndarray of shape (n_rows,), or (n_rows, n_classes) if multi-class
            The scores.
        """
        return np.asarray(self._best.decision_function(X))

    def score(self, X: Any, y: Any) -> float:
        """Return the score of the best estimator by `scoring`.

        Parameters
        ----------
        X : as in `fit`, of n_rows samples
            Samples, as in `fit`.
        y : array-like of shape (n_rows,)
            Class labels, or targets.

        Returns
        -------
        score : float
            The score.
        """
        return float(self.scorer_(self._best, X, y))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = get_tags(self.estimator)
        tags.estimator_type = inner.estimator_type
        tags.classifier_tags = inner.classifier_tags
        tags.regressor_tags = inner.regressor_tags
        tags.input_tags.pairwise = inner.input_tags.pairwise
        tags.input_tags.allow_nan = inner.input_tags.allow_nan
        tags.input_tags.sparse = inner.input_tags.sparse
        return tags


def _split_pipeline(estimator: Any) -> tuple[Pipeline | None, PathEstimator, str]:
    """Return the steps before the last one, the last one, and the prefix of its parameters."""
    steps, model, prefix = None, estimator, ""
    if isinstance(estimator, Pipeline):
        steps, (name, model) = estimator[:-1], estimator.steps[-1]
        prefix = f"{name}__"
    if not isinstance(model, PathEstimator):
        raise ValueError(
            "MKLSearchCV tunes classifiers and regressors of this package that learn from kernels, "
            f"and pipelines that end with one, got {type(model).__name__}; use GridSearchCV"
        )
    return steps, model, prefix


def _solver_parameters(
    candidate: Mapping[str, Any], model: PathEstimator, prefix: str
) -> dict[str, Any]:
    """Return the parameters of a candidate without their prefix."""
    usable = set(model.get_params(deep=False)) - model._data_parameters
    foreign = [
        name
        for name in candidate
        if not name.startswith(prefix) or name.removeprefix(prefix) not in usable
    ]
    if foreign:
        raise ValueError(
            f"MKLSearchCV tunes the parameters of the solver of {type(model).__name__}, "
            f"{quoted(sorted(prefix + name for name in usable))}, but the grid has "
            f"{quoted(foreign)}; parameters of kernels and of other steps are for GridSearchCV"
        )
    return {name.removeprefix(prefix): value for name, value in candidate.items()}


def _sort_key(candidate: Mapping[str, Any]) -> tuple[str, float]:
    """Keep candidates together that differ in C only, from the largest C down.

    Going down, most duals at their bound stay there, which takes fewer iterations than going up.
    """
    others = sorted((name, repr(value)) for name, value in candidate.items() if name != "C")
    return repr(others), -float(candidate.get("C", 0.0))


def _evaluate(
    steps: Pipeline | None,
    model: PathEstimator,
    X: Any,
    y: Any,
    weight: Any,
    train: Indices,
    test: Indices,
    grid: list[dict[str, Any]],
    order: list[int],
    scorer: Any,
) -> Floats:
    """Return score, fit time, score time, solves and iterations of all candidates, (5, n)."""
    X_train, y_train = _safe_split(model, X, y, train)
    X_test, y_test = _safe_split(model, X, y, test, train)
    begun = time.perf_counter()
    if steps is not None:
        steps = clone(steps)
        X_train = steps.fit_transform(X_train, y_train)
        X_test = steps.transform(X_test)
    spent = time.perf_counter() - begun
    out = np.empty((5, len(grid)))
    weight = None if weight is None else _safe_indexing(weight, train)
    fits = path_fits(model, X_train, y_train, [grid[k] for k in order], weight)
    score = np.nan
    for k, (fitted, seconds, is_new) in zip(order, fits, strict=True):
        begun = time.perf_counter()
        score = scorer(fitted, X_test, y_test) if is_new else score
        scored = time.perf_counter() - begun
        out[:, k] = score, seconds + spent, scored, fitted.n_solves_, fitted.n_smo_iter_
        spent = 0.0
    return out
