"""What an estimator is given to learn from: samples, targets, classes and weights, checked.

`check_samples` and `check_labels` or `check_targets` check what a user hands over to ``fit``,
`prepare_samples` fills cells and encodes categories if the estimator does so by itself.
"""

from collections.abc import Callable, Iterator
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from sklearn.metrics import r2_score
from sklearn.utils import column_or_1d
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, assert_all_finite

from kernelquilt._messages import quoted, warn_user
from kernelquilt._typing import Array, Bools, Floats, Indices
from kernelquilt.core.weights.solution import TINY
from kernelquilt.data.blocks import in_memory, is_frame, missing
from kernelquilt.data.lazy.preparation import fit_preparation
from kernelquilt.data.lazy.sources import slices_of
from kernelquilt.data.lazy.views import LazyViews
from kernelquilt.data.low_rank import LowRankStack
from kernelquilt.data.preparation import ColumnPreparation, PreparedViews
from kernelquilt.data.stack import KernelStack, as_stack
from kernelquilt.data.transformer import ViewTransformer
from kernelquilt.data.validation import (
    LEARNED,
    check_alignment,
    remember_views,
    training_summary,
    validate_views,
)
from kernelquilt.data.views import MultiView

Samples = MultiView | KernelStack | LowRankStack

LARGEST_WEIGHT = 1e50  # of a sample; squares of penalties must not overflow
NEGLIGIBLE = 1e-30  # a weight, in units of the largest, that changes no bit of a sum
IN_SLICES = 10_000  # samples above which prepared columns are not held beside those given


def check_samples(estimator: Any, X: Any, *, lazy: bool = False) -> Samples:
    """Return the training samples of an estimator with the parameters `kernels` and `views`.

    Sets the attributes of the estimator that describe them. If it has the parameter ``prepare``,
    views stay as they were given, and `prepare_samples` is next. With `lazy` they need not be in
    memory, and may be `LazyViews`.
    """
    for name in LEARNED:
        vars(estimator).pop(name, None)
    data = _checked(estimator, X, lazy)
    estimator.training_summary_ = training_summary(data)
    return data


def _checked(estimator: Any, X: Any, lazy: bool) -> Samples:
    if isinstance(X, LowRankStack):
        return _check_factors(estimator, X)
    if isinstance(X, KernelStack) or is_precomputed(estimator.kernels):
        if estimator.views is not None:
            raise ValueError("views= describes the columns of 2-D data; leave it None for kernels")
        stack = as_stack(X)
        stack.check_square()
        estimator.n_features_in_ = stack.shape[1]
        return stack
    return validate_views(
        estimator, X, estimator.views, as_given=prepares_itself(estimator), lazy=lazy
    )


def _check_factors(estimator: Any, stack: LowRankStack) -> LowRankStack:
    """Return factors, if the estimator works on factors and nothing is said about views."""
    if not getattr(estimator, "_takes_factors", False):
        raise ValueError(
            f"X is a LowRankStack of {len(stack.names)} factors, which {type(estimator).__name__} "
            "does not work on; give it views or a KernelStack"
        )
    if estimator.views is not None or getattr(estimator, "n_landmarks", None) is not None:
        raise ValueError("views= and n_landmarks= are for views; leave them None for factors")
    estimator.n_features_in_ = stack.shape[1]
    return stack


def is_precomputed(kernels: Any) -> bool:
    """Whether `kernels` says that plain arrays of kernels are given."""
    return isinstance(kernels, str) and kernels == "precomputed"


def prepares_itself(estimator: Any) -> bool:
    """Whether an estimator fills missing cells and encodes categories by itself."""
    return getattr(estimator, "prepare", None) == "auto"


def prepare_samples(estimator: Any, data: Samples, weight: Floats) -> Samples:
    """Fill the missing cells and encode the categories of training samples, if asked for.

    Sets ``preparation_`` of the estimator, the fitted transformer or None.

    Parameters
    ----------
    estimator : estimator
        With the parameter ``prepare``.
    data : MultiView or KernelStack of n samples
        From `check_samples`.
    weight : ndarray of shape (n,)
        Weights of the samples in means.

    Returns
    -------
    data : MultiView or KernelStack of n samples
        Complete numeric views are what they were; `PreparedViews`, or `PreparedLazyViews` of more
        samples, if there are views.
    """
    estimator.preparation_ = None
    if not isinstance(data, MultiView) or not prepares_itself(estimator):
        return data
    estimator.preparation_ = ViewTransformer(ColumnPreparation(scale=False, indicators=True))
    estimator.preparation_.n_features_in_ = len(data.names)
    remember_views(estimator.preparation_, data)
    in_memory = not isinstance(data, LazyViews)
    if in_memory and len(data) > IN_SLICES and not any(map(is_frame, data._blocks.values())):
        data = slices_of(data)
    if isinstance(data, LazyViews):
        return fit_preparation(estimator.preparation_, data, weight)
    return PreparedViews(estimator.preparation_._fit_views(data, weight=weight), data)


def without_view(data: Samples, name: str, parameter: str) -> MultiView:
    """Return training samples without a view that a parameter names and that has other uses."""
    if not isinstance(data, MultiView):
        raise ValueError(
            f"{parameter}={name!r} names a view, but X holds {data.shape[1]} kernels; give views, "
            f"or leave {parameter} None"
        )
    if name not in data.names:
        raise ValueError(
            f"{parameter}={name!r} is not among the {len(data.names)} views {quoted(data.names)}"
        )
    others = [other for other in data.names if other != name]
    if not others:
        raise ValueError(
            f"{parameter}={name!r} is the only view, which leaves no view for the kernels; give it "
            f"twice under two names, or leave {parameter} None"
        )
    return data.select(others)


def input_tags(estimator: Any, tags: Any) -> Any:
    """Return scikit-learn's tags of an estimator with the parameters `kernels` and `views`."""
    tags.input_tags.allow_nan = estimator.views is not None or prepares_itself(estimator)
    tags.input_tags.sparse = not is_precomputed(estimator.kernels)
    tags.input_tags.pairwise = is_precomputed(estimator.kernels)
    return tags


def explained_share(y: Any, predicted: Any, sample_weight: Any = None) -> float:
    """Return the share of the variance of targets that is explained, whatever their unit.

    Parameters
    ----------
    y, predicted : array-likes of shape (n,) or (n, c)
    sample_weight : array-like of shape (n,), optional
    """
    y, predicted = np.asarray(y, dtype=np.float64), np.asarray(predicted)
    # squares of very large or small targets would leave the range of numbers
    exponent = np.frexp(np.abs(y).max(axis=0, initial=0.0))[1]
    y, predicted = (np.ldexp(values, -exponent) for values in (y, predicted))
    return float(r2_score(y, predicted, sample_weight=sample_weight))


def check_targets(
    estimator: Any,
    data: Any,
    y: Any,
    sample_weight: Any,
    kind: Callable[[Array], Array],
    *,
    several: bool = False,
) -> tuple[Array, Floats]:
    """Return targets (n,) and weights (n,) of the samples `data` after checking them.

    Parameters
    ----------
    estimator : estimator
        For the messages.
    data : MultiView or KernelStack of n samples
    y, sample_weight
        As the user gave them; collections of dask are computed.
    kind : callable
        `as_classes`, `as_numbers` or the like: turns targets (n,) into those to be learned.
    several : bool, default=False
        Whether there may be several targets, (n, c).
    """
    if y is None:
        raise ValueError(
            f"{type(estimator).__name__} requires y to be passed, but the target y is None"
        )
    y, sample_weight = in_memory(y), in_memory(sample_weight)
    check_alignment(data, y, "y")
    check_alignment(data, sample_weight, "sample_weight")
    columns = np.asarray(y) if several else None
    if columns is None or columns.ndim != 2 or columns.shape[1] < 2:
        columns = column_or_1d(y, warn=True)
    y = columns
    _check_labelled(y)
    assert_all_finite(y, input_name="y")
    y = kind(y)
    if len(y) != len(data):
        raise ValueError(
            f"X has {len(data)} samples, but y has {len(y)} labels; give one label per sample"
        )
    return y, check_weights(sample_weight, y)


def check_weights(sample_weight: Any, y: Array) -> Floats:
    """Return the weights (n,) of samples with targets (n,) or (n, c), 1 by default."""
    weight = _check_sample_weight(sample_weight, y, dtype=np.float64)
    if (weight < 0).any():
        raise ValueError(
            f"{(weight < 0).sum()} of {len(weight)} sample weights are negative; "
            "leave samples out with a weight of 0"
        )
    return np.asarray(weight)


def _check_labelled(y: Array) -> None:
    """Refuse missing labels, which scikit-learn finds among numbers only."""
    gaps = missing(y.ravel()).reshape(len(y), -1).any(axis=1)
    if gaps.any():
        raise ValueError(
            f"Input y contains NaN: {gaps.sum()} of {len(y)} samples have no label; leave them out "
            "with keep = y.notna().to_numpy(), X[keep] and y[keep]"
        )


def as_classes(y: Array) -> Array:
    """Return labels (n,) after checking that they are classes."""
    # scikit-learn compares labels with their integers to tell what they are
    with np.errstate(invalid="ignore"):
        check_classification_targets(y)
    return y


def as_numbers(y: Array) -> Floats:
    """Return targets (n,), or (n, c), of a regression."""
    return np.asarray(y, dtype=np.float64)


class Labels(NamedTuple):
    """The classes of n samples and their weights.

    Attributes
    ----------
    classes : ndarray of shape (n_classes,)
        Class labels.
    codes : ndarray of shape (n,)
        Position of the label of each sample in `classes`.
    weight : ndarray of shape (n,)
        Weight of each sample, 0 for those left out.
    """

    classes: Array
    codes: Indices
    weight: Floats

    @property
    def active(self) -> Indices:
        """Positions of the classes of which samples take part in the fit."""
        return np.unique(self.codes[self.weight > 0])

    def signs(self, multi_class: str) -> Iterator[Floats]:
        """Yield the labels of each binary problem: -1, +1, and 0 for samples that take no part.

        One against one, a class without samples that take part is in no problem.
        """
        if len(self.classes) == 2:
            yield np.where(self.codes == 1, 1.0, -1.0)
        elif multi_class == "ovr":
            for positive in range(len(self.classes)):
                yield np.where(self.codes == positive, 1.0, -1.0)
        else:
            for negative, positive in _pairs(self.active):
                others = np.where(self.codes == negative, -1.0, 0.0)
                yield np.where(self.codes == positive, 1.0, others)

    def check_two_classes(self, estimator: Any) -> None:
        """Refuse to learn from less than two classes."""
        present = self.active
        if len(present) < 2:
            weighted = "" if self.weight.all() else " with positive weight"
            raise ValueError(
                f"{type(estimator).__name__} needs samples of at least two classes{weighted}, got "
                f"{len(present)} class among {len(self.codes)} samples: "
                f"{self.classes[present].tolist()}"
            )

    def without_empty(self, estimator: Any, observed: Bools) -> "Labels":
        """Return the labels with weight 0 for samples that have no view."""
        made = self._replace(weight=weights_of_seen(self.weight, observed))
        if len(made.active) < 2:
            empty = np.asarray(~observed.any(axis=1))
            raise ValueError(
                f"{type(estimator).__name__} needs samples with an observed view of at least two "
                f"classes; {empty.sum()} of {len(empty)} samples have none"
            )
        return made

    def factors(self, class_weight: Any) -> Floats:
        """Return the factor (n,) of the class of each sample on its penalty."""
        if class_weight == "balanced":
            totals = np.bincount(self.codes, self.weight)
            factor = totals.sum() / (np.count_nonzero(totals) * np.maximum(totals, TINY))
        else:
            factor = compute_class_weight(
                class_weight, classes=self.classes, y=self.classes[self.codes]
            )
        if not (np.isfinite(factor).all() and (factor > 0).all()):
            raise ValueError(
                f"class_weight must be positive and finite for every class, got {class_weight}"
            )
        return np.asarray(factor)[self.codes]


def check_labels(estimator: Any, data: Any, y: Any, sample_weight: Any = None) -> Labels:
    """Return the labels of the samples `data`, of two classes at least."""
    y, weight = check_targets(estimator, data, y, sample_weight, as_classes)
    labels = Labels(*np.unique(y, return_inverse=True), weight)
    labels.check_two_classes(estimator)
    return labels


def weights_of_seen(weight: Floats, observed: Bools) -> Floats:
    """Return the sample weights with 0 for samples that have no view, with a warning."""
    empty = np.asarray(~observed.any(axis=1))
    if empty.any():
        warn_user(
            f"{empty.sum()} of {len(empty)} training samples have no observed view and are "
            "left out of the fit"
        )
    return np.where(empty, 0.0, weight)


def without_negligible(weight: Floats) -> Floats:
    """Return sample weights (n,), zero where they are too small to make a difference."""
    return np.where(weight < NEGLIGIBLE * weight.max(), 0.0, weight)


def moderate(weight: Floats) -> Floats:
    """Return sample weights, zero where negligible, after checking that penalties can be made."""
    largest = float(weight.max())
    if not 1.0 / LARGEST_WEIGHT <= largest <= LARGEST_WEIGHT:
        raise ValueError(
            f"sample weights multiply the penalty, and the largest of {len(weight)} is {largest:g};"
            " divide them by their mean, so that the penalty means what it does without weights"
        )
    return without_negligible(weight)


def classes_of(scores: Floats, classes: Array) -> Array:
    """Return the class of each sample: by the sign of scores (n,), or the largest of (n, c)."""
    codes = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
    return np.asarray(classes[codes])


def _pairs(active: Indices) -> list[tuple[int, int]]:
    return list(combinations(active.tolist(), 2))


def class_scores(scores: Floats, active: Indices, n_classes: int, multi_class: str) -> Floats:
    """Return the scores of classes (n_rows, n_classes) from those of the binary problems.

    Those of classes that took no part are below all others, so that these are never predicted.
    """
    if multi_class == "ovo":
        scores = _votes_of(scores, active, n_classes)
    idle = np.setdiff1d(np.arange(n_classes), active)
    scores[:, idle] = scores[:, active].min(axis=1, keepdims=True) - 1.0
    return scores


def _votes_of(scores: Floats, active: Indices, n_classes: int) -> Floats:
    """Return one-vs-one votes (n_rows, n_classes), ties broken by the sum of the scores."""
    votes = np.zeros((len(scores), n_classes))
    confidence = np.zeros((len(scores), n_classes))
    for score, (negative, positive) in zip(scores.T, _pairs(active), strict=True):
        votes[:, positive] += score > 0
        votes[:, negative] += score <= 0
        confidence[:, positive] += score
        confidence[:, negative] -= score
    return votes + confidence / (3.0 * (np.abs(confidence) + 1.0))
