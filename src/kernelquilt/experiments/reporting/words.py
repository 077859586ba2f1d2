"""Names of settings and figures in words, and what figures cannot be below or above."""

from typing import NamedTuple

import numpy as np


class Axis(NamedTuple):
    """What a setting is, what it is multiplied with to be shown, and how one is told."""

    words: str
    scale: float = 1.0
    one: str = "{}"


class Figure(NamedTuple):
    """What a figure is, and its bounds."""

    words: str
    low: float = -np.inf
    high: float = np.inf


AXES = {
    "ratio": Axis("share of views absent (%)", 100.0),
    "missing": Axis("kernels absent per sample", one="{} absent"),
    "m0": Axis("kernels that a sample may turn off", one="{} off at most"),
    "lam": Axis("weight of the agreement (lambda)", one="lambda {}"),
    "max_iter": Axis("iterations at most", one="iteration {}"),
}
_KERNELS = {"polynomial_3": "cubic", "unit_gaussian": "Gaussian"}
FIGURES = {
    "accuracy": Figure("accuracy", 0.0, 1.0),
    "balanced_accuracy": Figure("balanced accuracy", 0.0, 1.0),
    "cv_accuracy": Figure("accuracy in cross-validation", 0.0, 1.0),
    "f1": Figure("F1 score", 0.0, 1.0),
    "auc": Figure("area under the ROC curve", 0.0, 1.0),
    "mcc": Figure("Matthews correlation", -1.0, 1.0),
    "r2": Figure("R2", -np.inf, 1.0),
    "rmse": Figure("root mean squared error", 0.0),
    "mae": Figure("mean absolute error", 0.0),
    "concordance": Figure("concordance", 0.0, 1.0),
    "log_loss": Figure("log loss", 0.0),
    "calibration_error": Figure("calibration error", 0.0, 1.0),
    "squared_relative_error": Figure("squared relative error", 0.0),
    "average_relative_error": Figure("average relative error", 0.0),
    "train_seconds": Figure("seconds to train", 0.0),
    "test_seconds": Figure("seconds to predict", 0.0),
    "search_seconds": Figure("seconds to tune", 0.0),
    "fill_seconds": Figure("seconds to fill", 0.0),
    "support_share": Figure("share of support vectors", 0.0, 1.0),
    "active_share": Figure("share of switches that are off", 0.0, 1.0),
    "effective_kernels": Figure("effective number of kernels", 0.0),
    "log_objective": Figure("logarithm of the objective"),
}
_UNITS: dict[float, str] = {1: "", 100: " (%)"}


def axis_of(name: str) -> Axis:
    """Return what the settings of a study are."""
    return AXES.get(name) or Axis(name.replace("_", " "))


def setting_of(axis: str, setting: str) -> str:
    """Return one setting of a study in words."""
    return axis_of(axis).one.format(_KERNELS.get(setting, setting))


def figure_of(name: str) -> Figure:
    """Return what a figure of a row is."""
    return FIGURES.get(name) or Figure(name.replace("_", " "))


def with_unit(name: str, scale: float) -> str:
    """Return a figure in words with its unit, if it is multiplied with `scale` to be shown."""
    return figure_of(name).words + _UNITS.get(scale, f" (times {scale:g})")
