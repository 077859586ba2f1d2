"""How far the readings of a text are from what the paper printed."""

from typing import NamedTuple

import numpy as np

from kernelquilt._typing import Floats
from kernelquilt.experiments.reporting.summary import Summary


class Readings(NamedTuple):
    """Readings, the nearest first, with their differences to the paper.

    Attributes
    ----------
    names : list of str
    differences : ndarray of shape (n_readings, n_datasets, n_methods)
        Ours minus the paper's, on the data sets that all readings have in full.
    distances : ndarray of shape (n_readings,)
        Means of the absolute differences.
    """

    names: list[str]
    differences: Floats
    distances: Floats


def compared_readings(summary: Summary) -> Readings | None:
    """Return the readings that a study compares, None if no data set has all of them in full.

    Repetitions may differ in the share of views absent, so that a part of them tells nothing.
    """
    entries = {(line.dataset, line.setting): line.entries for line in summary.lines}
    by_reading = [
        [entries[dataset.name, setting] for dataset in summary.study.datasets]
        for setting in summary.settings
    ]
    table = np.array([[[e.difference for e in line] for line in lines] for lines in by_reading])
    counts = np.array([[[e.n for e in line] for line in lines] for lines in by_reading])
    used = (counts == len(summary.repetitions)).all(axis=(0, 2))
    used &= ~np.isnan(table).any(axis=(0, 2))
    if not used.any():
        return None
    distances = np.abs(table[:, used]).mean(axis=(1, 2))
    order = np.argsort(distances, kind="stable")
    names = [summary.settings[k] for k in order]
    return Readings(names, table[:, used][order], distances[order])
