"""One cell of a classification study: tune, fit, predict, measure."""

import platform
import time
import traceback
import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import joblib
import numba
import numpy as np
import scipy
import sklearn
from sklearn.metrics import (
    accuracy_score,
    balanced_accuracy_score,
    f1_score,
    log_loss,
    matthews_corrcoef,
    roc_auc_score,
)

import kernelquilt
from kernelquilt._typing import Array
from kernelquilt.experiments.methods import METHODS, Fitted, ImpossibleError, Tuning
from kernelquilt.experiments.plain import plain
from kernelquilt.experiments.running.store import Row
from kernelquilt.experiments.study.protocol import Cell
from kernelquilt.experiments.study.splits import Split, seed_of


@cache
def versions() -> dict[str, str]:
    """Return the versions that figures may depend on."""
    packages = (kernelquilt, np, scipy, sklearn, numba, joblib)
    return {"python": platform.python_version()} | {p.__name__: p.__version__ for p in packages}


def classify(cell: Cell, split: Split) -> Row:
    """Run one method on a split.

    Parameters
    ----------
    cell : Cell
    split : Split
        Of this cell.

    Returns
    -------
    row : Row
        With status "failed" and the message if the method raised an error.
    """
    # an axis that is a parameter of methods has the setting as its only candidate
    grid = {**cell.study.grid, cell.study.axis: [cell.setting]}
    tuning = Tuning(grid, cell.study.folds, seed_of(cell, with_setting=False))

    def run() -> dict[str, Any]:
        return _measured(METHODS[cell.method].recipe(split, tuning), split)

    return finished_row(cell, run)


def finished_row(cell: Cell, run: Callable[[], dict[str, Any]]) -> Row:
    """Run a cell and return its row, whatever happens.

    Parameters
    ----------
    cell : Cell
    run : callable
        Returns figures, parameters and the like, by the names of `Row`.

    Returns
    -------
    row : Row
        If there are no figures, its message says why.
    """
    begun = time.perf_counter()
    result: dict[str, Any]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # fits that do not converge have a figure for that
        try:
            result = run()
        except ImpossibleError as reason:
            result = {"status": "impossible", "message": str(reason)}
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            text = f"{type(error).__name__}: {error} ({where.name}, line {where.lineno})"
            result = {"status": "failed", "message": text}
    return Row(
        cell.key,
        cell.study.protocol,
        cell.study.name,
        cell.dataset.name,
        str(cell.setting),
        cell.repetition,
        cell.method,
        seconds=time.perf_counter() - begun,
        seed=cell.seed,
        versions=versions(),
        **result,
    )


def _measured(fitted: Fitted, split: Split) -> dict[str, Any]:
    classes = np.unique(split.y_train)
    figures = measures(split.y_test, fitted.labels, fitted.scores, classes)
    if fitted.proba is not None:
        figures["log_loss"] = float(log_loss(split.y_test, fitted.proba, labels=classes))
        right = fitted.labels == split.y_test
        figures["calibration_error"] = calibration_error(fitted.proba.max(axis=1), right)
    figures["n_train"], figures["n_test"] = float(len(split.y_train)), float(len(split.y_test))
    return {
        "figures": {**figures, **fitted.figures},
        "parameters": plain(fitted.parameters),
        "n_solves": fitted.n_solves,
        "gap": fitted.gap,
    }


def measures(y: Array, labels: Array, scores: Array | None, classes: Array) -> dict[str, float]:
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
