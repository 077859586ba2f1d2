"""What is to be learned of samples: targets, classes and weights."""

from collections.abc import Callable, Iterator
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from sklearn.metrics import r2_score
from sklearn.utils import column_or_1d
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, assert_all_finite

from kernelquilt._messages import warn_user
from kernelquilt._typing import Array, Bools, Floats, Indices
from kernelquilt.core.solution import TINY
from kernelquilt.data.blocks import in_memory, missing
from kernelquilt.data.validation import check_alignment

LARGEST_WEIGHT = 1e50  # of a sample; squares of penalties must not overflow
NEGLIGIBLE = 1e-30  # a weight, in units of the largest, that changes no bit of a sum


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
