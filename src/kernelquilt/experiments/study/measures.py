"""What is measured of predictions, by task."""

import warnings
from typing import Any

import numpy as np
from sklearn.metrics import (
    accuracy_score,
    balanced_accuracy_score,
    f1_score,
    matthews_corrcoef,
    r2_score,
    roc_auc_score,
)

from kernelquilt._typing import Array
from kernelquilt.quilt.survival.cox import concordance
from kernelquilt.quilt.survival.targets import survival_targets

METRICS = {
    "classification": ("accuracy", "balanced_accuracy", "f1", "mcc", "auc"),
    "regression": ("r2", "rmse", "mae"),
    "survival": ("concordance",),
}
LOWER_IS_BETTER = {"rmse", "mae"}


def measures(
    task: str, y: Array, labels: Array, scores: Array | None, classes: Array
) -> dict[str, float]:
    """Return what a task measures of predictions.

    Parameters
    ----------
    task : {"classification", "regression", "survival"}
    y, labels : ndarrays of shape (n,)
        What was to be predicted, and what was: classes, numbers, or risks of events and times.
    scores, classes
        As in `class_measures`.

    Returns
    -------
    figures : dict of str to float
    """
    if task == "survival":
        return {"concordance": concordance(labels, *survival_targets(y))}
    if task == "regression":
        squared = float(np.square(y - labels).mean())
        return {
            "r2": float(r2_score(y, labels)),
            "rmse": float(np.sqrt(squared)),
            "mae": float(np.abs(y - labels).mean()),
        }
    return class_measures(y, labels, scores, classes)


def class_measures(
    y: Array, labels: Array, scores: Array | None, classes: Array
) -> dict[str, float]:
    """Return accuracy and the like of predictions.

    Parameters
    ----------
    y, labels : ndarrays of shape (n,)
        True and predicted classes.
    scores : ndarray of shape (n,) or (n, n_classes), or None
        The larger, the more likely; of the last class if one column.
    classes : ndarray of shape (n_classes,)

    Returns
    -------
    figures : dict of str to float
        F1 is that of the last class if there are two, otherwise the mean over the classes; the area
        under the curve is the mean of each class against the rest.
    """
    binary = len(classes) == 2
    averaging: Any = {"pos_label": classes[1]} if binary else {"average": "macro"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # classes without test samples or predictions
        found = {
            "accuracy": accuracy_score(y, labels),
            "balanced_accuracy": balanced_accuracy_score(y, labels),
            "f1": f1_score(y, labels, zero_division=0.0, **averaging),
            "mcc": matthews_corrcoef(y, labels),
        }
        if scores is not None and len(np.unique(y)) == len(classes):
            found["auc"] = _area(y, scores, classes)
    return {name: float(value) for name, value in found.items()}


def calibration_error(confidence: Array, right: Array, n_bins: int = 10) -> float:
    """Return the expected calibration error of the predicted classes.

    Parameters
    ----------
    confidence : ndarray of shape (n,)
        Probability of the class that is predicted.
    right : ndarray of bool of shape (n,)
        Whether it is the true one.
    n_bins : int, default=10
        Equal parts of the range from 0 to 1.

    Returns
    -------
    error : float
        The difference between mean confidence and accuracy in a part, averaged over samples.
    """
    part = np.minimum((confidence * n_bins).astype(int), n_bins - 1)
    surplus = np.bincount(part, confidence - right, minlength=n_bins)
    return float(np.abs(surplus).sum() / len(right))


def _area(y: Array, scores: Array, classes: Array) -> float:
    if scores.ndim == 1:
        return float(roc_auc_score(y == classes[1], scores))
    if len(classes) == 2:
        return float(roc_auc_score(y == classes[1], scores[:, 1]))
    areas = [roc_auc_score(y == c, column) for c, column in zip(classes, scores.T, strict=True)]
    return float(np.mean(areas))
