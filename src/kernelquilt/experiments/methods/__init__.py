"""The methods of the comparisons, by name."""

from kernelquilt.experiments.methods import (
    absent,
    adaptive,
    agreement,
    baselines,
    matrix_norm,
    regression,
    survival,
)
from kernelquilt.experiments.methods._recipes import Fitted, ImpossibleError, Method, Tuning

METHODS: dict[str, Method] = {
    **baselines.METHODS,
    **absent.METHODS,
    **adaptive.METHODS,
    **agreement.METHODS,
    **matrix_norm.METHODS,
}

METHODS_OF: dict[str, dict[str, Method]] = {
    "classification": METHODS,
    "regression": regression.METHODS,
    "survival": survival.METHODS,
}

__all__ = ["METHODS", "METHODS_OF", "Fitted", "ImpossibleError", "Method", "Tuning"]
