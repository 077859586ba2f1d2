"""One cell of a completion study: tune on some samples, complete the kernels of others, measure."""

import time
import warnings
from functools import partial
from typing import Any

import numpy as np

from kernelquilt._typing import Floats
from kernelquilt.experiments.methods.completers import COMPLETERS, Completer
from kernelquilt.experiments.running.evaluate import finished_row
from kernelquilt.experiments.running.store import Row
from kernelquilt.experiments.study.completion_measures import RANK, heterogeneity, nonlinearity
from kernelquilt.experiments.study.completion_splits import CompletionSplit, Part
from kernelquilt.experiments.study.protocol import Cell
from kernelquilt.metrics import average_relative_error


def complete(cell: Cell, split: CompletionSplit) -> Row:
    """Run one completer on a split.

    Parameters
    ----------
    cell : Cell
    split : CompletionSplit
        Of this cell.

    Returns
    -------
    row : Row
        With status "failed" and the message if the completer raised an error. Errors are fractions.
    """
    return finished_row(cell, partial(_completed, cell, split))


def _completed(cell: Cell, split: CompletionSplit) -> dict[str, Any]:
    method = COMPLETERS[cell.method]
    begun = time.perf_counter()
    parameters = _chosen(method, cell, split.tuning)
    completer = method.make(parameters)
    tuned = time.perf_counter()
    figures = _errors(completer, method, split.test)
    figures["train_seconds"] = time.perf_counter() - tuned
    figures["search_seconds"] = tuned - begun
    figures["n_test"] = float((~split.test.observed).any(axis=1).sum())
    if len(split.spectra) > 1:
        figures["heterogeneity"] = heterogeneity(split.spectra)
    if split.spectra.shape[1] >= RANK:
        figures["nonlinearity"] = nonlinearity(split.spectra)
    for name, attribute in (("iterations", "n_iter_"), ("converged", "converged_")):
        if hasattr(completer, attribute):
            figures[name] = float(getattr(completer, attribute))
    return {"figures": figures, "parameters": parameters}


def _chosen(method: Completer, cell: Cell, tuning: Part) -> dict[str, Any]:
    """Return the parameters with the least error on the tuning part."""
    candidates = method.candidates(cell.study.grid)
    if len(candidates) == 1:
        return candidates[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of candidates
        errors = [
            _errors(method.make(parameters), method, tuning)[cell.study.metric]
            for parameters in candidates
        ]
    return candidates[int(np.argmin(errors))]


def _errors(completer: Any, method: Completer, part: Part) -> dict[str, float]:
    """Return the errors of a completer, which is fitted."""
    if method.first_complete:
        part = part.with_first_complete()
    filled = completer.fit_transform(part.leaky_stack if method.leaky else part.stack).gram()
    return {
        "squared_relative_error": _error(part, filled, squared=True),
        "average_relative_error": _error(part, filled, squared=False),
    }


def _error(part: Part, filled: Floats, *, squared: bool) -> float:
    return average_relative_error(part.K, filled, part.observed, squared=squared) / 100
