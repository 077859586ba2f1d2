"""Tests of whether one method beats another, after Demsar (2006).

Scores are paired: entry by entry, those of all methods come from the same repetition or data set.
J. Demsar, Statistical comparisons of classifiers over multiple data sets, JMLR 7 (2006).

Repetitions are random splits of the same samples. They are not independent, so that the variance of
their mean is larger than the plain t-test takes it to be, and the corrected resampled t-test, after
C. Nadeau and Y. Bengio, Inference for the generalization error, Machine Learning 52 (2003), takes
it to be (1/n + n_test / n_train) times the variance of a repetition, not 1/n times.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from kernelquilt._typing import Floats

# differences that are smaller, relative to the largest score, come from rounding
_ROUNDING = 1e-12
_DIGITS_OF_RANKS = 10
_MOST_EXACT = 50


@dataclass(frozen=True)
class Comparison:
    """All methods against one of them, in arrays of shape (n_methods,)."""

    differences: Floats  # mean of the score minus that of the reference
    # two-sided, after Holm's correction, nan at the reference
    t_p_values: Floats
    corrected_p_values: Floats  # of the corrected resampled t-test
    wilcoxon_p_values: Floats


@dataclass(frozen=True)
class Ranking:
    """Ranks of methods over data sets."""

    average_ranks: Floats  # (n_methods,), 1 is the best; equal scores share their ranks
    statistic: float  # Friedman's chi-squared, corrected for equal ranks
    p_value: float
    critical_difference: float  # Nemenyi's: average ranks further apart differ significantly
    n_datasets: int
    level: float  # of the critical difference


def paired_differences(scores: ArrayLike, reference: int) -> Floats:
    """Return scores (n_methods, n) minus those of a method, zero where only rounding differs."""
    values = np.asarray(scores, dtype=np.float64)
    differences = values - values[reference]
    noise = _ROUNDING * np.max(np.abs(values), initial=0.0)
    return np.where(np.abs(differences) <= noise, 0.0, differences)


def t_p_value(differences: ArrayLike, test_ratio: float = 0.0) -> float:
    """Return the two-sided p-value of the paired t-test, corrected if there is a test ratio.

    Parameters
    ----------
    differences : array-like of shape (n,)
    test_ratio : float, default=0.0
        Test samples for each training sample of a repetition; nan gives nan.

    Returns
    -------
    p_value : float
        1 if all differences are zero, 0 if they are otherwise equal, nan of fewer than 2.
    """
    values = np.asarray(differences, dtype=np.float64)
    n, mean = len(values), values.mean() if len(values) else np.nan
    if n < 2 or np.isnan(test_ratio):
        return np.nan
    error = stats.sem(values) * np.sqrt(1 + n * test_ratio)
    if error <= _ROUNDING * abs(mean):
        return float(mean == 0)
    return float(2 * stats.t.sf(abs(mean) / error, n - 1))


def wilcoxon_p_value(differences: ArrayLike) -> float:
    """Return the two-sided p-value of Wilcoxon's signed-rank test without the zero differences.

    It is exact for up to 50 differences, equal sizes sharing their ranks, otherwise that of the
    normal approximation; 1 if all differences are zero, nan if there are fewer than 2.
    """
    values = np.asarray(differences, dtype=np.float64)
    if len(values) < 2:
        return np.nan
    values = values[values != 0]
    if not len(values):
        return 1.0
    # sizes that only rounding tells apart share their rank
    values = np.round(values / np.abs(values).max(), _DIGITS_OF_RANKS)
    if len(values) > _MOST_EXACT:
        return float(stats.wilcoxon(values, method="approx").pvalue)
    # scipy's exact test takes no equal sizes; here are twice the ranks, which are whole numbers,
    # and how many of the 2^n signs give each sum
    ranks = np.rint(2 * stats.rankdata(np.abs(values))).astype(int)
    counts = np.ones(1)
    for rank in ranks:
        counts = np.append(counts, np.zeros(rank)) + np.append(np.zeros(rank), counts)
    positive = int(ranks[values > 0].sum())
    tail = min(positive, int(ranks.sum()) - positive)
    return float(min(1.0, 2 * counts[: tail + 1].sum() / counts.sum()))


def holm(p_values: ArrayLike) -> Floats:
    """Return p-values (n,) after Holm's step-down correction; nan stay nan and do not count."""
    values = np.asarray(p_values, dtype=np.float64)
    corrected = np.full(len(values), np.nan)
    order = np.argsort(values)[: np.count_nonzero(~np.isnan(values))]
    factors = np.arange(len(order), 0, -1)
    corrected[order] = np.minimum(np.maximum.accumulate(factors * values[order]), 1.0)
    return corrected


def best_method(means: ArrayLike, *, higher_is_better: bool = True) -> int:
    """Return the position of the best of means (n_methods,), nan left aside."""
    return int(np.nanargmax(means) if higher_is_better else np.nanargmin(means))


def compare_with(scores: ArrayLike, reference: int, test_ratio: float = np.nan) -> Comparison:
    """Compare every method with one of them by scores (n_methods, n).

    `test_ratio` is that of `t_p_value`, nan if it is not known or the scores are no repetitions.
    """
    differences = paired_differences(scores, reference)
    others = np.arange(len(differences)) != reference
    tests: tuple[Callable[[ArrayLike], float], ...]
    tests = (t_p_value, partial(t_p_value, test_ratio=test_ratio), wilcoxon_p_value)
    p_values = np.full((len(tests), len(differences)), np.nan)
    for row, test in zip(p_values, tests, strict=True):
        row[others] = holm([test(values) for values in differences[others]])
    return Comparison(differences.mean(axis=1), *p_values)


def win_tie_loss(
    differences: ArrayLike,
    p_values: ArrayLike,
    *,
    level: float,
    tolerance: float = 0.0,
    higher_is_better: bool = True,
) -> NDArray[np.int64]:
    """Count the data sets on which methods win, tie and lose against another one.

    Parameters
    ----------
    differences, p_values : array-like of shape (n_methods, n_datasets)
        Of the mean scores to those of the other method.
    level, tolerance : float
        A tie is a data set whose difference is at most `tolerance` in size or has a p-value above
        `level`; where the p-value is nan, as with one repetition, the difference alone decides.
    higher_is_better : bool, default=True

    Returns
    -------
    counts : ndarray of shape (n_methods, 3)
    """
    gains = np.asarray(differences, dtype=np.float64) * (1 if higher_is_better else -1)
    tie = (np.abs(gains) <= tolerance) | (np.asarray(p_values) > level)
    outcomes = [~tie & (gains > 0), tie, ~tie & (gains < 0)]
    return np.stack([outcome.sum(axis=1) for outcome in outcomes], axis=1)


def rank_methods(
    scores: ArrayLike, *, level: float = 0.05, higher_is_better: bool = True
) -> Ranking:
    """Rank methods over data sets, with the tests of Friedman and Nemenyi.

    Parameters
    ----------
    scores : array-like of shape (n_methods, n_datasets)
        At least one method and one data set, no nan.
    level : float, default=0.05
        Of the critical difference.
    higher_is_better : bool, default=True

    Returns
    -------
    ranking : Ranking
        With p-value 1 if the methods are equal on all data sets, nan if there is one method.
    """
    values = np.asarray(scores, dtype=np.float64) * (-1 if higher_is_better else 1)
    largest = np.max(np.abs(values), initial=0.0) or 1.0
    values = np.asarray(np.round(values / largest, _DIGITS_OF_RANKS))  # no ranks of rounding
    n_methods, n_datasets = values.shape
    ranks = stats.rankdata(values, axis=0)
    average = ranks.mean(axis=1)
    if n_methods < 2:
        return Ranking(average, np.nan, np.nan, np.nan, n_datasets, level)
    # scipy's friedmanchisquare takes neither two methods nor equal ones; the variance is that of
    # the ranks that are there, which equal ranks make smaller
    spread = np.sum((ranks - (n_methods + 1) / 2) ** 2)
    between = n_datasets * np.sum((average - (n_methods + 1) / 2) ** 2)
    statistic = n_datasets * (n_methods - 1) * between / spread if spread > 0 else 0.0
    quantile = stats.studentized_range.ppf(1 - level, n_methods, np.inf) / np.sqrt(2)
    critical = quantile * np.sqrt(n_methods * (n_methods + 1) / (6 * n_datasets))
    p_value = float(stats.chi2.sf(statistic, n_methods - 1))
    return Ranking(average, float(statistic), p_value, float(critical), n_datasets, level)


def indistinct_groups(average_ranks: ArrayLike, critical_difference: float) -> list[list[int]]:
    """Return the largest groups of methods whose average ranks do not differ significantly.

    Each has at least two positions in `average_ranks` (n_methods,), the best rank first.
    """
    ranks = np.asarray(average_ranks, dtype=np.float64)
    order = np.argsort(ranks, kind="stable")
    groups: list[list[int]] = []
    last_end = 0
    for start, method in enumerate(order):
        end = int(np.count_nonzero(ranks[order] <= ranks[method] + critical_difference))
        if end > max(last_end, start + 1):
            groups.append([int(position) for position in order[start:end]])
            last_end = end
    return groups


def mean_interval(
    values: ArrayLike, *, test_ratio: float = 0.0, low: float = -np.inf, high: float = np.inf
) -> tuple[float, float, float]:
    """Return the mean of values (n,) and its 95 % t interval, nan where there are too few.

    Parameters
    ----------
    values : array-like of shape (n,)
    test_ratio : float, default=0.0
        As in `t_p_value`; nan counts as 0.
    low, high : float
        What a value can be. The interval is computed of the logarithm of the distance to a bound,
        or to both of them, so that it stays within.

    Returns
    -------
    mean, lower, upper : float
    """
    given = np.asarray(values, dtype=np.float64)
    mean = float(given.mean()) if len(given) else np.nan
    if len(given) < 2:
        return mean, np.nan, np.nan
    error = stats.sem(given) * np.sqrt(1 + len(given) * np.nan_to_num(test_ratio))
    half = float(stats.t.ppf(0.975, len(given) - 1) * error)
    if half == 0 or mean in (low, high) or np.isinf(low):
        return mean, mean - half, mean + half
    if np.isinf(high):
        factor = np.exp(half / (mean - low))
        return mean, low + (mean - low) / factor, low + (mean - low) * factor
    # of log((x - low) / (high - x))
    factor = np.exp(half * (high - low) / ((mean - low) * (high - mean)))
    odds = (mean - low) / (high - mean)
    ends = [low + (high - low) * x / (1 + x) for x in (odds / factor, odds * factor)]
    return mean, float(ends[0]), float(ends[1])
