r"""Experts on the columns as they are, beside the kernels of a quilt.

Any scikit-learn estimator that takes NaN may be one: it sees the columns of all views side by
side, NaN where a view is absent or a cell is missing, and tells its predictions for training
samples out of sample: out of bag if it can, otherwise by five folds. By default it is a random
forest. Categories are numbers to it, NaN where they are not known from training. Sparse views have
too many columns for that.

The members of a classifier, with out-of-sample probabilities :math:`P_k`, are joined as

.. math:: P(x) \propto \exp\bigl(\textstyle\sum_k a_k \log P_k(x)\bigr), \qquad
          \min_{a \ge 0} \; -\frac{\sum_i \omega_i \log P_{y_i}(x_i)}{\sum_i \omega_i}
          + \Bigl(\rho + \frac{\kappa}{\sum_i \omega_i}\Bigr) \sum_k (a_k - 1/K)^2,

those of a regressor, with predictions f_k, as :math:`\sum_k a_k f_k` with the squared loss. The two
parts of the quilt that learn from kernels, early and late, are one member, their geometric mean:
leave-one-out scores flatter them in different measure, so that free weights would favour the one
that is flattered more. Where the weights are learned from refits they are two. The probabilities of
the experts are mixed with 2 % of the uniform ones, so that no logarithm is infinite.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.utils import check_random_state, get_tags
from sklearn.utils.validation import has_fit_parameter

from kernelquilt._messages import quoted
from kernelquilt._typing import Bools, Floats, Indices
from kernelquilt.data.preparation import as_given
from kernelquilt.data.views import MultiView
from kernelquilt.kernels.inputs import Samples
from kernelquilt.quilt.expert_columns import Columns
from kernelquilt.quilt.ridge_classifier import Targets

N_TREES = 400
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
    for expert in experts:
        right = is_classifier(expert) if classify else is_regressor(expert)
        if not right:
            kind = "classifiers" if classify else "regressors"
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
    return [name for name in data.names if issparse(data.given(name))]


def _takes_nan(expert: Any) -> bool:
    """Try it: pipelines and searches have no tag that says so."""
    X = np.random.RandomState(0).normal(size=(40, 2))
    X[::3, 0] = np.nan
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            clone(expert).fit(X, np.arange(40) % 2)
    except ValueError as error:
        return "NaN" not in str(error)
    return True


def chosen_experts(experts: Any, n: int, random_state: int, *, classify: bool) -> list[Any]:
    """Return unfitted copies of the experts asked for, with a fixed state of their own."""
    if isinstance(experts, str):
        kind, leaf = (RandomForestClassifier, 2) if classify else (RandomForestRegressor, 5)
        share = None if n <= MOST_ROWS else MOST_ROWS
        options = {"min_samples_leaf": leaf, "oob_score": True, "max_samples": share}
        experts = [kind(N_TREES, bootstrap=True, **options)]
    made = [clone(expert) for expert in experts or ()]
    for expert in made:
        parameters = expert.get_params()
        if parameters.get("random_state", 0) is None:
            expert.set_params(random_state=random_state)
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
        Probabilities, or predictions, of the training samples.
    """

    estimator: Any
    columns: Columns
    out_of_sample: Floats

    @property
    def views(self) -> tuple[str, ...]:
        """The views whose columns it sees."""
        return self.columns.views

    @property
    def name(self) -> str:
        """The class of the estimator."""
        return type(self.estimator).__name__

    def outputs(self, rows: MultiView) -> Floats:
        """Return probabilities or predictions (n_rows, c), even for samples without views."""
        X = self.columns.of(rows)
        c = self.out_of_sample.shape[1]
        having = np.flatnonzero(~np.isnan(X).all(axis=1))
        found = np.full((len(X), c), 1.0 / c if c > 1 else 0.0)
        if len(having):
            found[having] = _outputs(self.estimator, X[having], c)
        return found


def fit_experts(
    estimator: Any, fitted: Any, data: Samples, part: Targets, *, classify: bool
) -> list[ColumnExpert]:
    """Fit the experts of a quilt estimator to the samples that its quilt uses.

    Parameters
    ----------
    estimator : QuiltClassifier or QuiltRegressor
    fitted : FittedQuilt
    data : MultiView or KernelStack
        All training samples.
    part : Targets
        Of the samples that it uses.
    classify : bool
        Whether these are classes.

    Returns
    -------
    experts : list of ColumnExpert
        None without columns, with less than two views, or where a view is sparse.
    """
    views = fitted.input.views_of(fitted.kernels)
    if estimator.experts is None or len(views) < 2 or sparse_views(data):
        return []
    rng = check_random_state(estimator.random_state)
    seed = rng.randint(np.iinfo(np.int32).max)
    source = as_given(data)
    columns = Columns(source, fitted.samples, views)
    X = columns.of(source[fitted.samples])
    return [
        fit_expert(
            expert,
            columns,
            X,
            part.codes if classify else _rounded(part.Y[:, 0]),
            part.Y.shape[1],
            sample_weight=_rounded(part.weight),
            n_jobs=estimator.n_jobs,
            rng=rng,
        )
        for expert in chosen_experts(estimator.experts, len(X), seed, classify=classify)
    ]


def cross_fitted(estimator: Any, data: Samples, y: Any, part: Any, outputs: Floats) -> Floats:
    """Return the outputs of members for samples that had no part in fitting them.

    Parameters
    ----------
    estimator : QuiltClassifier or QuiltRegressor
        With `_member_outputs`.
    data : MultiView or KernelStack of n samples
    y : ndarray of shape (n,)
        Their targets.
    part : Targets of n samples
    outputs : ndarray of shape (K, n, c)
        What remains where a fold is too small for all members.

    Returns
    -------
    outputs : ndarray of shape (K, n, c)
    """
    outputs = outputs.copy()
    data = as_given(data)
    rng = check_random_state(estimator.random_state)
    for held_out in folds(part.codes, rng):
        model = clone(estimator).set_params(cross_fit=False, views=None)
        try:
            model.fit(data[~held_out], y[~held_out], sample_weight=part.copies[~held_out])
        except ValueError:
            continue
        found = model._member_outputs(model.input_.rows(model, data[held_out]))
        if found.shape[::2] == outputs.shape[::2]:
            outputs[:, held_out] = found
    return outputs


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
    sample_weight: Floats,
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
    targets : ndarray of shape (n,)
        Codes of classes, or numbers.
    n_outputs : int
        Number of classes, or 1.
    sample_weight : ndarray of shape (n,)
        Positive.
    n_jobs : int or None
        Given to the estimator while it is fitted, if it has the parameter.
    rng : RandomState
        Draws folds.

    Returns
    -------
    ColumnExpert
    """
    own = estimator.get_params().get("n_jobs", 0)
    if own is None:
        estimator.set_params(n_jobs=n_jobs)
    with warnings.catch_warnings():
        # samples that are never out of bag, and classes with few samples, are provided for
        warnings.simplefilter("ignore", UserWarning)
        _fit(estimator, X, targets, sample_weight)
        found = _out_of_bag(estimator, n_outputs)
        if found is None:
            found = _by_folds(estimator, X, targets, sample_weight, n_outputs, rng)
    if own is None:
        # sums over trees in threads would depend on their order in the last bits
        estimator.set_params(n_jobs=None)
    return ColumnExpert(estimator, columns, found)


def _fit(estimator: Any, X: Floats, targets: Any, sample_weight: Floats) -> None:
    weighted = has_fit_parameter(estimator, "sample_weight")
    estimator.fit(X, targets, **({"sample_weight": sample_weight} if weighted else {}))


def _outputs(estimator: Any, X: Floats, n_outputs: int) -> Floats:
    """Return probabilities of all classes, or predictions, (n, c)."""
    if n_outputs == 1:
        return np.asarray(estimator.predict(X), dtype=np.float64).reshape(-1, 1)
    return _mixed(estimator.predict_proba(X), estimator.classes_, n_outputs)


def _mixed(found: Floats, classes: Indices, n_outputs: int) -> Floats:
    """Return probabilities of all classes from those of some, never zero; uniform where nan."""
    P = np.zeros((len(found), n_outputs))
    P[:, classes] = found
    total = P.sum(axis=1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        P = np.where(total > 0, P / total, 1.0 / n_outputs)
    return (1.0 - MIXED) * P + MIXED / n_outputs


def _out_of_bag(estimator: Any, n_outputs: int) -> Floats | None:
    """Return out-of-bag outputs (n, c), None if the estimator has none."""
    if n_outputs > 1 and hasattr(estimator, "oob_decision_function_"):
        return _mixed(estimator.oob_decision_function_, estimator.classes_, n_outputs)
    if n_outputs == 1 and hasattr(estimator, "oob_prediction_"):
        found = np.asarray(estimator.oob_prediction_, dtype=np.float64).reshape(-1, 1)
        return np.where(np.isnan(found), 0.0, found)
    return None


def _by_folds(
    estimator: Any,
    X: Floats,
    targets: Any,
    sample_weight: Floats,
    n_outputs: int,
    rng: np.random.RandomState,
) -> Floats:
    """Return outputs (n, c) of samples by estimators that did not see them."""
    found = np.full((len(X), n_outputs), 1.0 / n_outputs if n_outputs > 1 else 0.0)
    for held_out in folds(targets if n_outputs > 1 else np.zeros(len(X)), rng):
        others = ~held_out
        if held_out.any() and others.any() and (n_outputs == 1 or np.ptp(targets[others]) > 0):
            part = clone(estimator)
            _fit(part, X[others], targets[others], sample_weight[others])
            found[held_out] = _outputs(part, X[held_out], n_outputs)
    return found


def folds(codes: Any, rng: np.random.RandomState) -> list[Bools]:
    """Return five masks (n,), the samples of each class spread evenly over them."""
    number = np.zeros(len(codes), dtype=np.intp)
    dealt = 0
    for code in np.unique(codes):
        rows = rng.permutation(np.flatnonzero(codes == code))
        number[rows] = (dealt + np.arange(len(rows))) % N_FOLDS
        dealt += len(rows)
    return [number == fold for fold in range(N_FOLDS)]


def member_weights(outputs: Floats, solve: Callable[[Floats], Floats], *, tied: bool) -> Floats:
    """Return the weights (K,) of members, the first two of them early and late.

    Parameters
    ----------
    outputs : ndarray of shape (K, n, ...)
        Out of sample.
    solve : callable
        From the outputs of members to their weights.
    tied : bool
        Whether the first two are one member.

    Returns
    -------
    weights : ndarray of shape (K,)
    """
    if not tied:
        return solve(outputs)
    if len(outputs) == 2:
        return np.array([0.5, 0.5])
    both, *others = solve(np.array([outputs[:2].mean(axis=0), *outputs[2:]]))
    return np.array([0.5 * both, 0.5 * both, *others])


def member_names(experts: list[ColumnExpert]) -> tuple[str, ...]:
    """Return the names of all members, numbered where a class of experts occurs again."""
    made = ["early", "late"]
    for expert in experts:
        again = sum(name.partition(" ")[0] == expert.name for name in made)
        made.append(f"{expert.name} {again + 1}" if again else expert.name)
    return tuple(made)
