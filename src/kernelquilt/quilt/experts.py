"""Experts on the columns as they are, beside the kernels of a quilt.

Any scikit-learn estimator that takes NaN may be one: it sees the columns of all views side by
side, NaN where a view is absent or a cell is missing, and tells its predictions for training
samples out of sample: out of bag if it can, otherwise by five folds. By default it is a random
forest; of more than 1000 samples it is a small one if that does not count beside the kernels.
Categories are numbers to it, NaN where they are not known from training. Sparse views have too
many columns for that. Probabilities are mixed with 2 % of the uniform ones, so that no logarithm is
infinite.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from scipy.sparse import issparse
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.utils import check_random_state, get_tags
from sklearn.utils.validation import has_fit_parameter

from kernelquilt._messages import quoted
from kernelquilt._typing import Bools, Floats, Indices
from kernelquilt.core.passes import Passes
from kernelquilt.data.preparation import as_given
from kernelquilt.data.sampling import Sample
from kernelquilt.data.training import Samples
from kernelquilt.data.views import MultiView
from kernelquilt.kernels.subsets import ViewSubsets
from kernelquilt.quilt.expert_columns import Columns
from kernelquilt.quilt.forests import FORESTS, TreeArrays
from kernelquilt.quilt.subsets import raw_outputs, subset_outputs

N_TREES = 200
FEW_SAMPLES = 1000  # above which a smaller forest tells whether that one is needed:
TRIAL = {"n_estimators": 50, "max_samples": 3000}  # trees, and samples at most that each sees
MOST_ROWS = 50_000  # that a tree of the default forest sees
MIXED = 0.02  # share of the uniform probabilities
N_FOLDS = 5


def check_experts(experts: Any, data: Samples, *, classify: bool) -> None:
    """Refuse experts of the wrong kind, that cannot take NaN, or for sparse views, before a fit."""
    if experts is None or (isinstance(experts, str) and experts == "auto"):
        return
    if isinstance(experts, str) or not isinstance(experts, list | tuple):
        raise ValueError(
            f"experts is 'auto', None or a list of scikit-learn estimators, got {experts!r}"
        )
    sparse = sparse_views(data)
    if experts and sparse:
        raise ValueError(
            f"experts learn from columns side by side, which the sparse views {quoted(sparse)} of "
            f"{len(data)} samples have too many of; leave experts at 'auto' or None, or reduce "
            "these views with ViewTransformer(TruncatedSVD())"
        )
    kind, is_kind = ("classifiers", is_classifier) if classify else ("regressors", is_regressor)
    for expert in experts:
        if isinstance(expert, type):
            raise ValueError(f"experts are estimators, not classes: {expert.__name__}()")
        if not (hasattr(expert, "get_params") and is_kind(expert)):
            raise ValueError(f"experts must be {kind}, got {expert!r}")
        if classify and not hasattr(expert, "predict_proba"):
            raise ValueError(f"the expert {expert!r} has no predict_proba")
        if not (get_tags(expert).input_tags.allow_nan or _takes_nan(expert)):
            raise ValueError(
                f"the expert {expert!r} cannot take NaN, which stands for absent views; use "
                f"make_pipeline(SimpleImputer(), {type(expert).__name__}(...))"
            )


def sparse_views(data: Samples) -> list[str]:
    """Return the names of the sparse views."""
    if not isinstance(data, MultiView):
        return []
    return [name for name in data.names if issparse(data._blocks[name])]


def _takes_nan(expert: Any) -> bool:
    """Try it: pipelines and searches have no tag that says so."""
    X = np.random.RandomState(0).normal(size=(40, 2))
    X[::3, 0] = np.nan
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            clone(expert).fit(X, np.arange(40) % 2)
    except Exception as error:  # it may expect other columns than these two
        return "NaN" not in str(error)
    return True


def chosen_experts(
    experts: Any, n: int, rng: np.random.RandomState, *, classify: bool
) -> list[Any]:
    """Return unfitted copies of the experts asked for, with fixed states of their own."""
    if isinstance(experts, str):
        share = None if n <= MOST_ROWS else MOST_ROWS
        options = {"n_estimators": N_TREES, "oob_score": True, "max_samples": share}
        forest = (
            RandomForestClassifier(min_samples_leaf=2, **options)
            if classify
            else RandomForestRegressor(min_samples_leaf=5, max_features=1 / 3, **options)
        )
        experts = [forest]
    made = [clone(expert) for expert in experts or ()]
    for expert in made:
        parameters = sorted(expert.get_params().items())
        unset = [name for name, value in parameters if value is None]
        states = [name for name in unset if name.rpartition("__")[2] == "random_state"]
        expert.set_params(**{name: rng.randint(np.iinfo(np.int32).max) for name in states})
    return made


@dataclass(frozen=True)
class ColumnExpert:
    """A fitted estimator on the columns of views.

    Attributes
    ----------
    estimator : estimator
        Fitted to the columns side by side.
    columns : Columns
        What it sees of samples.
    out_of_sample : ndarray of shape (n, c)
        Probabilities, or predictions, of the training samples that have tuned the quilt.
    classify : bool
        Whether these are probabilities of c classes, or predictions of c targets.
    """

    estimator: Any
    columns: Columns
    out_of_sample: Floats
    classify: bool

    def __getstate__(self) -> dict[str, Any]:
        forest = type(self.estimator) in FORESTS
        estimator = TreeArrays.of(self.estimator) if forest else self.estimator
        return {**vars(self), "estimator": estimator}

    def __setstate__(self, state: dict[str, Any]) -> None:
        estimator = state["estimator"]
        if isinstance(estimator, TreeArrays):
            estimator = estimator.forest(int(np.count_nonzero(state["columns"].used)))
        vars(self).update(state, estimator=estimator)

    @property
    def views(self) -> tuple[str, ...]:
        """The views whose columns it sees."""
        return self.columns.views

    @property
    def name(self) -> str:
        """The class of the estimator."""
        return type(self.estimator).__name__

    def outputs(self, rows: Any) -> Floats:
        """Return probabilities or predictions (n_rows, c), even for samples without views."""
        c = self.out_of_sample.shape[1]
        having, raw = self._of_subsets(rows) if isinstance(rows, ViewSubsets) else self._of(rows)
        found = np.full((len(rows), c), 1.0 / c if self.classify else 0.0)
        if len(having):
            found[having] = _told(self.estimator, raw, c, self.classify)
        return found

    def _of(self, rows: MultiView) -> tuple[Indices, Any]:
        """Return the samples that have a value, and what the estimator says of them."""
        X = self.columns.of(rows)
        having = np.flatnonzero(~np.isnan(X).all(axis=1))
        return having, raw_outputs(self.estimator, X[having]) if len(having) else None

    def _of_subsets(self, rows: ViewSubsets) -> tuple[Indices, Any]:
        X, view_of, kept = self.columns.of_subsets(rows)
        known = [~np.isnan(X[:, view_of == v]).all(axis=1) for v in range(len(self.views))]
        having = np.flatnonzero((kept & np.transpose(known)[rows.sample_of]).any(axis=1))
        told = rows.sample_of[having], kept[having]
        return having, subset_outputs(self.estimator, X, view_of, *told) if len(having) else None


def fit_experts(
    estimator: Any,
    fitted: Any,
    drawn: Sample,
    counts: Callable[[Floats], bool],
    *,
    classify: bool,
) -> list[ColumnExpert]:
    """Fit the experts of a quilt estimator to the samples in memory.

    Parameters
    ----------
    estimator : QuiltClassifier or QuiltRegressor
    fitted : FittedQuilt
    drawn : Sample
        Those that have tuned the quilt among them.
    counts : callable
        Tells of out-of-sample outputs (n, c) of these whether they count beside the kernels.
    classify : bool
        Whether these are classes.

    Returns
    -------
    experts : list of ColumnExpert
        None without columns, with less than two views, or where a view is sparse.
    """
    views = fitted.input.views_of(fitted.kernels)
    source, part = as_given(drawn.data), drawn.targets
    if estimator.experts is None or len(views) < 2 or sparse_views(source):
        return []
    rng = check_random_state(estimator.random_state)
    # experts that are given may know columns by their number; the forest draws the same columns
    # whatever the order of the views
    by_default = isinstance(estimator.experts, str)
    views = tuple(sorted(views)) if by_default else views
    columns = Columns(source, np.arange(len(source)), views, scaled=by_default)
    X = columns.of(source)
    with Passes(type(estimator).__name__, estimator.verbose).stage("experts on columns"):
        chosen = chosen_experts(estimator.experts, len(X), rng, classify=classify)
        single = part.Y[:, 0] if part.Y.shape[1] == 1 else part.Y
        learn = partial(
            fit_expert,
            columns=columns,
            X=X,
            targets=part.codes if classify else _rounded(single),
            n_outputs=part.Y.shape[1],
            classify=classify,
            sample_weight=_rounded(part.weight),
            judges=np.searchsorted(drawn.rows, fitted.samples),
            n_jobs=estimator.n_jobs,
            rng=rng,
        )
        if not by_default or len(X) <= FEW_SAMPLES:
            return [learn(expert) for expert in chosen]
        (forest,) = chosen
        # half of the samples: each is then out of bag of enough of few trees
        few = {**TRIAL, "max_samples": min(len(X) // 2, TRIAL["max_samples"])}
        found = learn(clone(forest).set_params(**few))
        return [learn(forest) if counts(found.out_of_sample) else found]


def _rounded(values: Floats) -> Floats:
    """Round to single precision, so that weights in other units make the same trees."""
    return values.astype(np.float32).astype(np.float64)


def fit_expert(
    estimator: Any,
    columns: Columns,
    X: Floats,
    targets: Any,
    n_outputs: int,
    *,
    classify: bool,
    sample_weight: Floats,
    judges: Indices,
    n_jobs: int | None,
    rng: np.random.RandomState,
) -> ColumnExpert:
    """Fit an expert to the columns of training samples.

    Parameters
    ----------
    estimator : estimator
        Unfitted.
    columns : Columns
    X : ndarray of shape (n, d)
        Of the training samples.
    targets : ndarray of shape (n,), or (n, c)
        Codes of classes, or numbers.
    n_outputs : int
        Number of classes, or of targets.
    classify : bool
        Whether they are classes.
    sample_weight : ndarray of shape (n,)
        Positive.
    judges : ndarray of int of shape (k,)
        The samples whose outputs are kept.
    n_jobs : int or None
        Given to the estimator while it is fitted, if it has the parameter.
    rng : RandomState
        Draws folds.

    Returns
    -------
    ColumnExpert
    """
    own = estimator.get_params().get("n_jobs", 0)
    with warnings.catch_warnings():
        # samples that are never out of bag, and classes with few samples, are provided for
        warnings.simplefilter("ignore", UserWarning)
        warnings.simplefilter("ignore", RuntimeWarning)
        if own is None:
            estimator.set_params(n_jobs=n_jobs)
        _fit(estimator, X, targets, sample_weight)
        if own is None:
            # sums over trees in threads would depend on their order in the last bits
            estimator.set_params(n_jobs=None)
        found = _out_of_bag(estimator, n_outputs, classify)
        if found is None:
            found = _by_folds(
                estimator, X, targets, sample_weight, n_outputs, classify, n_jobs=n_jobs, rng=rng
            )
    return ColumnExpert(estimator, columns, found[judges], classify)


def _fit(estimator: Any, X: Floats, targets: Any, sample_weight: Floats) -> None:
    weighted = has_fit_parameter(estimator, "sample_weight")
    try:
        estimator.fit(X, targets, **({"sample_weight": sample_weight} if weighted else {}))
    except ValueError as error:
        raise ValueError(
            f"the expert {estimator!r} cannot learn from {X.shape[1]} columns of {len(X)} samples: "
            f"{error}"
        ) from error


def _told(estimator: Any, raw: Floats, n_outputs: int, classify: bool) -> Floats:
    """Return probabilities of all classes, or predictions, (n, c)."""
    return _mixed(raw, estimator.classes_, n_outputs) if classify else raw


def _mixed(found: Floats, classes: Indices, n_outputs: int) -> Floats:
    """Return probabilities of all classes from those of some, never zero; uniform where nan."""
    P = np.zeros((len(found), n_outputs))
    P[:, classes] = found
    total = P.sum(axis=1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        P = np.where(total > 0, P / total, 1.0 / n_outputs)
    return (1.0 - MIXED) * P + MIXED / n_outputs


def _out_of_bag(estimator: Any, n_outputs: int, classify: bool) -> Floats | None:
    """Return out-of-bag outputs (n, c), None if the estimator has none."""
    if classify and hasattr(estimator, "oob_decision_function_"):
        return _mixed(estimator.oob_decision_function_, estimator.classes_, n_outputs)
    if not classify and hasattr(estimator, "oob_prediction_"):
        found = np.asarray(estimator.oob_prediction_, dtype=np.float64).reshape(-1, n_outputs)
        return np.where(np.isnan(found), 0.0, found)
    return None


def _by_folds(
    estimator: Any,
    X: Floats,
    targets: Any,
    sample_weight: Floats,
    n_outputs: int,
    classify: bool,
    *,
    n_jobs: int | None,
    rng: np.random.RandomState,
) -> Floats:
    """Return outputs (n, c) of samples by estimators that did not see them."""

    def outputs_of(held_out: Bools) -> Floats:
        others = ~held_out
        part = clone(estimator)
        # not every expert takes columns without a value, and some know columns by their number
        known = np.where(np.isnan(X[others]).all(axis=0), 0.0, X)
        _fit(part, known[others], targets[others], sample_weight[others])
        return _told(part, raw_outputs(part, known[held_out]), n_outputs, classify)

    masks = folds(targets if classify else np.zeros(len(X)), rng)
    # the only samples of a class are left with what one says who does not know the class
    found = np.zeros((len(X), n_outputs))
    if classify:
        classes = np.arange(n_outputs)
        found = _mixed(1.0 * (targets[:, None] != classes), classes, n_outputs)
    outputs = Parallel(n_jobs, prefer="threads")(delayed(outputs_of)(mask) for mask in masks)
    for mask, output in zip(masks, outputs, strict=True):
        found[mask] = output
    return found


def folds(codes: Any, rng: np.random.RandomState) -> list[Bools]:
    """Return at most five masks (n,), the samples of each class spread evenly over them.

    The only sample of a class is in none, so that whoever learns from the others knows all classes.
    """
    number = np.full(len(codes), -1)
    dealt = 0
    for code in np.unique(codes):
        rows = rng.permutation(np.flatnonzero(codes == code))
        if len(rows) > 1:
            number[rows] = (dealt + np.arange(len(rows))) % N_FOLDS
            dealt += len(rows)
    return [number == fold for fold in range(min(dealt, N_FOLDS))]
