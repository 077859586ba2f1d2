"""Tests of significance against scipy, hand-computed values and published examples."""

import warnings
from itertools import product

import numpy as np
import pytest
from scipy import stats

from kernelquilt.experiments.reporting.statistics import (
    best_method,
    compare_with,
    holm,
    indistinct_groups,
    mean_interval,
    paired_differences,
    rank_methods,
    t_p_value,
    wilcoxon_p_value,
    win_tie_loss,
)

# Demsar 2006, table 6: ranks of C4.5, C4.5+m, C4.5+cf and C4.5+m+cf on 14 data sets
DEMSAR_RANKS = np.array(
    [
        [4, 1, 4, 4, 4, 1, 3, 2.5, 4, 2.5, 4, 3, 4, 3],
        [3, 2, 1, 1, 2, 2.5, 2, 2.5, 3, 2.5, 2.5, 2, 1, 1],
        [2, 3, 2, 3, 3, 4, 4, 4, 2, 2.5, 1, 4, 2, 4],
        [1, 4, 3, 2, 1, 2.5, 1, 1, 1, 2.5, 2.5, 1, 3, 2],
    ]
)


@pytest.fixture(autouse=True)
def warnings_are_errors():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def test_t_test_equals_scipy(rng):
    for n in (2, 5, 30):
        first, second = rng.normal(size=(2, n))
        expected = stats.ttest_rel(first, second).pvalue
        assert t_p_value(first - second) == pytest.approx(expected)


def test_wilcoxon_equals_scipy_and_the_exact_value_by_hand(rng):
    differences = rng.normal(size=20)
    assert wilcoxon_p_value(differences) == pytest.approx(stats.wilcoxon(differences).pvalue)
    # of the 32 signs of five ranks only two are as extreme as all positive
    assert wilcoxon_p_value([1, 2, 3, 4, 5]) == pytest.approx(2 / 32)
    # zeros are left out
    assert wilcoxon_p_value([0, 1, 2, 3, 0, 4, 5]) == pytest.approx(2 / 32)


def test_wilcoxon_with_equal_sizes_is_exact():
    differences = np.array([0.1, 0.1, 0.1, -0.2, 0.3, 0.2])
    ranks = np.array([2, 2, 2, 4.5, 6, 4.5])
    signs = np.array(list(product([0, 1], repeat=6)))
    # the sum of the negative ranks is 4.5, and 21 - 4.5 is as extreme
    sums = signs @ ranks
    expected = np.mean((sums <= 4.5) | (sums >= 16.5))
    assert wilcoxon_p_value(differences) == pytest.approx(expected)
    assert wilcoxon_p_value(differences * (1 + 1e-14 * np.arange(6))) == pytest.approx(expected)
    assert wilcoxon_p_value([0.01] * 5) == pytest.approx(2 / 32)


def test_ranks_do_not_tell_rounding_errors_apart():
    scores = np.array([[0.1 + 0.2, 0.5, 0.7], [0.3, 0.5, 0.7]])
    assert rank_methods(scores).average_ranks.tolist() == [1.5, 1.5]


@pytest.mark.parametrize("test", [t_p_value, wilcoxon_p_value])
def test_degenerate_differences(test):
    assert test(np.zeros(8)) == 1
    assert np.isnan(test([0.3]))
    assert np.isnan(test([]))


def test_equal_differences_are_certain_for_the_t_test():
    assert t_p_value(np.full(10, 0.1)) == 0


def test_holm_by_hand():
    np.testing.assert_allclose(
        holm([0.01, 0.04, 0.03, 0.005]), [0.03, 0.06, 0.06, 0.02], rtol=1e-12
    )
    np.testing.assert_allclose(holm([0.6, np.nan, 0.7]), [1, np.nan, 1])
    assert holm([]).shape == (0,)


def test_compare_with_corrects_over_the_other_methods(rng):
    scores = rng.normal(size=(4, 12)) + np.array([[0], [1], [2], [0.2]])
    comparison = compare_with(scores, 2)
    raw = [stats.ttest_rel(scores[m], scores[2]).pvalue for m in (0, 1, 3)]
    np.testing.assert_allclose(comparison.t_p_values[[0, 1, 3]], holm(raw))
    assert np.isnan(comparison.t_p_values[2])
    assert np.isnan(comparison.wilcoxon_p_values[2])
    np.testing.assert_allclose(comparison.differences, (scores - scores[2]).mean(axis=1))


def test_compare_with_takes_degenerate_scores():
    alone = compare_with([[0.5, 0.6]], 0)
    assert np.isnan(alone.t_p_values).all()
    once = compare_with([[0.5], [0.6]], 1)
    assert np.isnan(once.t_p_values).all()
    equal = compare_with([[0.5, 0.7], [0.5, 0.7]], 1)
    assert equal.t_p_values[0] == equal.wilcoxon_p_values[0] == 1


def test_rounding_is_no_difference():
    assert (paired_differences([[0.1 + 0.2], [0.3]], 1) == 0).all()
    assert (paired_differences([[0.3001], [0.3]], 1)[0] > 0).all()


@pytest.mark.parametrize("higher", [True, False])
def test_best_method_leaves_nan_aside(higher):
    assert best_method([1, np.nan, 3], higher_is_better=higher) == (2 if higher else 0)


def test_win_tie_loss_by_hand():
    differences = [[0.2, 0.2, 0.001, -0.3, -0.3]]
    p_values = [[0.001, 0.5, 0.001, np.nan, 0.001]]
    np.testing.assert_array_equal(
        win_tie_loss(differences, p_values, level=0.01, tolerance=0.01), [[1, 2, 2]]
    )
    np.testing.assert_array_equal(
        win_tie_loss(differences, p_values, level=0.01, higher_is_better=False), [[2, 1, 2]]
    )


def test_ranking_of_demsars_example():
    ranking = rank_methods(DEMSAR_RANKS, higher_is_better=False)
    np.testing.assert_allclose(ranking.average_ranks, [3.143, 2.000, 2.893, 1.964], atol=5e-4)
    # he leaves equal ranks uncorrected: three pairs and one of four
    correction = 1 - (3 * (2**3 - 2) + (4**3 - 4)) / (14 * 4 * (4**2 - 1))
    assert ranking.statistic * correction == pytest.approx(9.28, abs=0.005)
    assert ranking.critical_difference == pytest.approx(1.25, abs=0.005)
    loose = rank_methods(DEMSAR_RANKS, higher_is_better=False, level=0.1)
    assert loose.critical_difference == pytest.approx(1.12, abs=0.005)


@pytest.mark.parametrize(
    ("n_methods", "quantile"), [(2, 1.960), (3, 2.343), (5, 2.728), (10, 3.164)]
)
def test_critical_difference_uses_the_published_quantiles(n_methods, quantile):
    scores = np.arange(6.0 * n_methods).reshape(n_methods, 6)
    ranking = rank_methods(scores)
    expected = quantile * np.sqrt(n_methods * (n_methods + 1) / 36)
    assert ranking.critical_difference == pytest.approx(expected, abs=2e-3)


def test_friedman_equals_scipy(rng):
    scores = rng.integers(0, 4, size=(5, 9))
    expected = stats.friedmanchisquare(*scores)
    ranking = rank_methods(scores)
    assert ranking.statistic == pytest.approx(expected.statistic)
    assert ranking.p_value == pytest.approx(expected.pvalue)


def test_ranking_takes_degenerate_scores():
    equal = rank_methods(np.ones((3, 4)))
    assert equal.p_value == 1
    np.testing.assert_array_equal(equal.average_ranks, [2, 2, 2])
    assert np.isnan(rank_methods(np.ones((1, 4))).p_value)


def test_indistinct_groups_of_demsars_example():
    ranks = DEMSAR_RANKS.mean(axis=1)
    assert indistinct_groups(ranks, 1.12) == [[3, 1, 2], [2, 0]]
    assert indistinct_groups([1, 3, 5], 1) == []
    assert indistinct_groups([2, 1, 1.5], 2) == [[1, 2, 0]]


def test_interval_equals_scipy(rng):
    values = rng.normal(size=7)
    mean, low, high = mean_interval(values)
    expected = stats.t.interval(0.95, 6, loc=values.mean(), scale=stats.sem(values))
    np.testing.assert_allclose([mean, low, high], [values.mean(), *expected])
    assert mean_interval([0.5])[0] == 0.5
    assert np.isnan(mean_interval([0.5])[1:]).all()
    assert np.isnan(mean_interval([])).all()
    assert mean_interval(np.zeros(3)) == (0, 0, 0)


def test_the_corrected_t_test_by_hand():
    values = np.array([1.0, 2.0, 4.0, 0.5, 1.5, 3.0])
    error = np.sqrt((1 / 6 + 0.4 / 0.6) * values.var(ddof=1))
    expected = 2 * stats.t.sf(values.mean() / error, 5)
    assert t_p_value(values, 0.4 / 0.6) == pytest.approx(expected)
    assert t_p_value(values) == pytest.approx(stats.ttest_1samp(values, 0.0).pvalue)
    assert t_p_value(values) < expected
    assert np.isnan(t_p_value(values, np.nan))


def test_corrected_p_values_are_corrected_for_the_number_of_methods_too():
    scores = np.random.default_rng(0).normal(size=(3, 8)) + np.arange(3)[:, None]
    found = compare_with(scores, 2, test_ratio=0.5)
    raw = [t_p_value(scores[m] - scores[2], 0.5) for m in range(2)]
    np.testing.assert_allclose(found.corrected_p_values[:2], holm(raw))
    assert np.isnan(found.corrected_p_values[2])
    assert np.isnan(compare_with(scores, 2).corrected_p_values).all()


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (0.0, np.inf), (-1.0, 1.0)])
def test_intervals_near_a_bound_stay_within_it_and_around_the_mean(low, high):
    values = np.array([0.99, 0.999, 0.9, 0.95, 1.0])
    mean, lower, upper = mean_interval(values, test_ratio=0.7, low=low, high=high)
    assert low < lower < mean < upper < high
    wide = mean_interval(values, test_ratio=0.7)
    assert wide[2] > 1.0
    assert wide[2] - wide[1] > np.subtract(*mean_interval(values)[:0:-1])


def test_an_interval_at_its_bound_has_no_width():
    assert mean_interval(np.ones(4), low=0.0, high=1.0) == (1.0, 1.0, 1.0)
