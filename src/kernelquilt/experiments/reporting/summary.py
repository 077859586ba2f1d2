"""What the finished cells of a study say, beside what the paper printed.

Figures that stand side by side are means over the same repetitions. Methods that have at least half
as many as the method with the most are compared, over the repetitions that all of them have; the
others are shown with their own repetitions and not compared. The same rule picks the data sets that
averages and ranks are over.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kernelquilt._typing import Bools, Floats
from kernelquilt.experiments.reporting.statistics import Ranking
from kernelquilt.experiments.study.protocol import Study

RANK_LEVEL = 0.05  # of the critical difference
COMPARED_SHARE = 0.5
LEAST_TESTED = 5  # repetitions; fewer cannot tell methods apart at the level


@dataclass(frozen=True)
class Entry:
    """A method in one line of the table.

    Attributes
    ----------
    mean, std : float
        Over the repetitions, as shown; nan if there are none, or one for `std`.
    n : int
        Repetitions.
    compared : bool
        Whether it is compared with the other methods of the line.
    best, level : bool
        Whether it is the best of those, or not significantly different from the best.
    t_p_value, wilcoxon_p_value : float
        Against the best, after Holm's correction; nan for the best one, and for all if there
        are too few repetitions.
    paper, paper_std, difference : float
        What the paper printed, and ours minus that; nan if it printed nothing.
    impossible, failed : int
        Cells without figures.
    extra : dict of str to float
        Means of the further figures of the study.
    """

    mean: float
    std: float
    n: int
    compared: bool
    best: bool
    level: bool
    t_p_value: float
    wilcoxon_p_value: float
    paper: float
    paper_std: float
    difference: float
    impossible: int
    failed: int
    extra: dict[str, float]


@dataclass(frozen=True)
class Line:
    """A line of the table: a data set, in one setting unless settings are pooled.

    Attributes
    ----------
    dataset, setting : str
        No setting if they are pooled.
    entries : tuple of Entry
        One per method.
    n_shared : int
        Repetitions that all compared methods have.
    """

    dataset: str
    setting: str
    entries: tuple[Entry, ...]
    n_shared: int

    @property
    def label(self) -> str:
        """Name of the line."""
        return f"{self.dataset}, {self.setting}" if self.setting else self.dataset


@dataclass(frozen=True)
class Standing:
    """A method over the data sets that all compared methods have.

    Attributes
    ----------
    average, paper_average : float
        Means over these data sets; nan if one is lacking.
    rank : float
        Average rank.
    difference, low, high : float
        Mean difference to the best method over the data sets with its 95 % interval.
    t_p_value, wilcoxon_p_value : float
        Of these differences, after Holm's correction.
    wins, ties, losses : int
        Lines against the best method; a tie is a difference that is not significant.
    """

    average: float = np.nan
    paper_average: float = np.nan
    rank: float = np.nan
    difference: float = np.nan
    low: float = np.nan
    high: float = np.nan
    t_p_value: float = np.nan
    wilcoxon_p_value: float = np.nan
    wins: int = 0
    ties: int = 0
    losses: int = 0


@dataclass(frozen=True)
class Problem:
    """Cells of one method that ended with the same message."""

    status: str
    method: str
    message: str
    n_cells: int
    example: str


@dataclass(frozen=True)
class Summary:
    """A study, its figures and their comparison.

    Attributes
    ----------
    study : Study
    methods : tuple of str
        Those of the study, then those that only the paper has.
    settings : tuple of str
        Those of the study as text.
    repetitions : tuple of pair of int
        Seed and number of each repetition.
    values : ndarray of shape (n_methods, n_datasets, n_settings, n_repetitions)
        Figures of the data sets of the study, as shown; nan where there are none.
    scores : ndarray of shape (n_methods, n_lines, n_repetitions)
        What the lines are of: means over the settings if they are pooled.
    lines : tuple of Line
        Those of the study, then those that only the paper has.
    standings : tuple of Standing
        One per method.
    averaged : tuple of str
        Data sets that averages and ranks are over.
    reference : str
        The method with the best average; empty if there is none.
    ranking : Ranking or None
        Of `ranked` methods, if there are several on several data sets.
    ranked : tuple of str
    n_cells, n_finished, n_impossible, n_failed : int
        Finished cells include those without figures.
    n_left_out : int
        Rows that are no cell of the study as it is defined now.
    problems : tuple of Problem
    seeds : tuple of int
    versions : dict of str to list of str
    """

    study: Study
    methods: tuple[str, ...]
    settings: tuple[str, ...]
    repetitions: tuple[tuple[int, int], ...]
    values: Floats
    scores: Floats
    lines: tuple[Line, ...]
    standings: tuple[Standing, ...]
    averaged: tuple[str, ...]
    reference: str
    ranking: Ranking | None
    ranked: tuple[str, ...]
    n_cells: int
    n_finished: int
    n_impossible: int
    n_failed: int
    n_left_out: int
    problems: tuple[Problem, ...]
    seeds: tuple[int, ...]
    versions: dict[str, list[str]]

    @property
    def competing(self) -> Bools:
        """Which methods may be compared, shape (n_methods, 1): those that are no diagnostics."""
        return competing(self.study, self.methods)


def competing(study: Study, methods: Sequence[str]) -> Bools:
    """Return which methods are no diagnostics, shape (n_methods, 1)."""
    return ~np.isin(methods, study.diagnostics)[:, None]


def shared(present: Bools) -> tuple[Bools, Bools]:
    """Return which methods to compare, and over which entries.

    Parameters
    ----------
    present : ndarray of bool of shape (n_methods, n)
        What each method has.

    Returns
    -------
    compared : ndarray of bool of shape (n_methods,)
        Methods with at least half as many entries as the one with the most; none if these have no
        entry in common.
    entries : ndarray of bool of shape (n,)
        What all of these have.
    """
    counts = present.sum(axis=1)
    compared = counts >= max(1.0, COMPARED_SHARE * counts.max(initial=0))
    entries = present[compared].all(axis=0) & compared.any()
    return compared & entries.any(), entries
