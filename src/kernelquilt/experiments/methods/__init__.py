"""The methods of the comparisons, by name."""

from kernelquilt.experiments.methods import absent, adaptive, agreement, baselines, matrix_norm
from kernelquilt.experiments.methods._recipes import Fitted, ImpossibleError, Method, Tuning

METHODS: dict[str, Method] = {
    **baselines.METHODS,
    **absent.METHODS,
    **adaptive.METHODS,
    **agreement.METHODS,
    **matrix_norm.METHODS,
}

__all__ = ["METHODS", "Fitted", "ImpossibleError", "Method", "Tuning"]
