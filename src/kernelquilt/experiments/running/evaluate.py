"""One cell of a study of predictions: tune, fit, predict, measure."""

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
from sklearn.metrics import log_loss

import kernelquilt
from kernelquilt.experiments.methods import METHODS_OF, Fitted, ImpossibleError, Tuning
from kernelquilt.experiments.plain import plain
from kernelquilt.experiments.running.store import Row
from kernelquilt.experiments.study.measures import METRICS, calibration_error, measures
from kernelquilt.experiments.study.protocol import Cell
from kernelquilt.experiments.study.splits import Split, seed_of


@cache
def versions() -> dict[str, str]:
    """Return the versions that figures may depend on."""
    packages = (kernelquilt, np, scipy, sklearn, numba, joblib)
    return {"python": platform.python_version()} | {p.__name__: p.__version__ for p in packages}


def predict(cell: Cell, split: Split) -> Row:
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
    study = cell.study
    grid = {**study.grid, study.axis: [cell.setting]}
    metric = study.problem.get("tuned_by", METRICS[study.task][0])
    tuning = Tuning(grid, study.folds, seed_of(cell, with_setting=False), study.task, metric)

    def run() -> dict[str, Any]:
        return _measured(METHODS_OF[study.task][cell.method].recipe(split, tuning), split, tuning)

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


def _measured(fitted: Fitted, split: Split, tuning: Tuning) -> dict[str, Any]:
    classes = np.unique(split.y_train)
    figures = measures(tuning.task, split.y_test, fitted.labels, fitted.scores, classes)
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
