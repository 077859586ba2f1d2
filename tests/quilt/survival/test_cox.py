"""The proportional hazards model on scores: likelihood, weights, baseline, concordance."""

import numpy as np
import pytest

from kernelquilt.quilt.survival.cox import (
    PENALTY,
    _terms,
    breslow_hazard,
    concordance,
    cox_derivatives,
    cox_value,
    martingale_residuals,
    solve_cox_stacking,
)


def survival_data(seed, n=40, J=3, ties=True):
    rng = np.random.default_rng(seed)
    F = rng.standard_normal((J, n))
    time = rng.exponential(np.exp(-F[0]))
    if ties:
        time = np.ceil(4 * time) / 4
    return F, rng.random(n) < 0.7, time


def brute_force(a, F, event, time, v):
    """Return the objective by loops over times and tied events."""
    eta = a @ F
    risk = v * np.exp(eta)
    loss = 0.0
    for t in np.unique(time[event]):
        dead = event & (time == t)
        d = dead.sum()
        for number in range(d):
            at_risk = risk[time >= t].sum() - number / d * risk[dead].sum()
            loss += v[dead].mean() * np.log(at_risk / v.sum())
        loss -= v[dead] @ eta[dead]
    return loss / v.sum() + PENALTY * a @ a


def weights_of(kind, n=40):
    return np.ones(n) if kind == "equal" else np.random.default_rng(9).uniform(0.1, 5.0, n)


either_weights = pytest.mark.parametrize("kind", ["equal", "unequal"])


def in_order(F, event, time, v=None):
    terms = _terms(event, time, np.ones(len(time)) if v is None else v)
    return np.ascontiguousarray(F[:, terms.order].T), terms


@pytest.mark.parametrize("seed", range(10))
@either_weights
def test_value_is_that_of_loops_over_ties(seed, kind):
    problem = *survival_data(seed), weights_of(kind)
    a = np.random.default_rng(seed).uniform(0, 2, 3)
    np.testing.assert_allclose(
        cox_value(a, *in_order(*problem)), brute_force(a, *problem), rtol=1e-12
    )


@pytest.mark.parametrize("seed", range(5))
@either_weights
def test_derivatives_are_those_of_differences(seed, kind):
    problem = in_order(*survival_data(seed), weights_of(kind))
    a = np.random.default_rng(seed).uniform(0, 2, 3)
    gradient, hessian = cox_derivatives(a, *problem)
    step = 1e-6
    for j, unit in enumerate(step * np.eye(3)):
        up, down = a + unit, a - unit
        slope = (cox_value(up, *problem) - cox_value(down, *problem)) / (2 * step)
        np.testing.assert_allclose(gradient[j], slope, atol=1e-8)
        curve = (cox_derivatives(up, *problem)[0] - cox_derivatives(down, *problem)[0]) / (2 * step)
        np.testing.assert_allclose(hessian[j], curve, atol=1e-7)


@pytest.mark.parametrize("seed", range(10))
@either_weights
def test_weights_are_optimal(seed, kind):
    problem = *survival_data(seed, J=4), weights_of(kind)
    a = solve_cox_stacking(*problem)
    gradient, _ = cox_derivatives(a, *in_order(*problem))
    assert (a >= 0).all()
    np.testing.assert_allclose(gradient[a > 0], 0.0, atol=1e-9)
    assert (gradient[a == 0] >= -1e-9).all()


def test_weights_do_not_depend_on_the_order_or_the_unit_of_time():
    F, event, time = survival_data(0)
    order = np.random.default_rng(1).permutation(len(time))
    one = solve_cox_stacking(F, event, time)
    np.testing.assert_allclose(solve_cox_stacking(F[:, order], event[order], time[order]), one)
    np.testing.assert_allclose(solve_cox_stacking(F, event, 365.25 * time), one)


def test_sample_weights_are_copies_and_only_their_ratios_count():
    F, event, time = survival_data(5, ties=False)
    v = np.where(event, 1, np.random.default_rng(1).integers(1, 4, 40)).astype(float)
    rows = np.repeat(np.arange(40), v.astype(int))
    one = solve_cox_stacking(F, event, time, v)
    # copies of events would be ties
    np.testing.assert_allclose(solve_cox_stacking(F[:, rows], event[rows], time[rows]), one)
    np.testing.assert_allclose(solve_cox_stacking(F, event, time, 7.3 * v), one)
    v = np.random.default_rng(2).integers(1, 4, 40).astype(float)
    rows = np.repeat(np.arange(40), v.astype(int))
    for found, expected in zip(
        breslow_hazard(F[0], event, time, v),
        breslow_hazard(F[0, rows], event[rows], time[rows]),
        strict=True,
    ):
        np.testing.assert_allclose(found, expected)
    np.testing.assert_allclose(
        concordance(F[0], event, time, 0.1 * v), concordance(F[0, rows], event[rows], time[rows])
    )


def test_times_of_samples_that_do_not_count():
    event, time = np.array([True, True, False]), np.array([1.0, 2.0, 5.0])
    found = martingale_residuals(event, time, np.array([1.0, 1.0, 0.0]))
    np.testing.assert_allclose(found[:2], martingale_residuals(event[:2], time[:2]))
    assert np.isfinite(found).all()


def test_huge_scores_do_not_overflow():
    F, event, time = survival_data(0)
    assert np.isfinite(solve_cox_stacking(1e3 * F, event, time)).all()


def test_useless_scores_get_no_weight():
    F, event, time = survival_data(3, n=200)
    F[1] = -F[0]
    F[2] = 0.0
    a = solve_cox_stacking(F, event, time)
    assert a[0] > 0.3
    np.testing.assert_allclose(a[1:], 0.0, atol=1e-9)


def test_baseline_without_scores_is_nelson_aalen():
    _, event, time = survival_data(1)
    times, hazard = breslow_hazard(np.zeros(40), event, time)
    expected = np.cumsum([(event & (time == t)).sum() / (time >= t).sum() for t in times])
    np.testing.assert_allclose(hazard, expected)


def test_expected_events_are_those_seen():
    F, event, time = survival_data(2)
    eta = F[0]
    times, hazard = breslow_hazard(eta, event, time)
    expected = np.exp(eta) * hazard[np.searchsorted(times, time)]
    np.testing.assert_allclose(expected.sum(), event.sum())
    np.testing.assert_allclose(martingale_residuals(event, time).sum(), 0.0, atol=1e-12)


def test_residuals_are_the_gradient_at_zero():
    # without ties, where Efron's correction is none
    F, event, time = survival_data(4, ties=False)
    gradient, _ = cox_derivatives(np.zeros(3), *in_order(F, event, time))
    np.testing.assert_allclose(-F @ martingale_residuals(event, time) / 40, gradient, atol=1e-12)


def test_concordance_counts_pairs():
    rng = np.random.default_rng(0)
    risk, event, time = rng.integers(0, 4, 30), rng.random(30) < 0.5, rng.integers(0, 6, 30)
    right = pairs = 0.0
    for i in range(30):
        for j in range(30):
            if event[i] and (time[i] < time[j] or (time[i] == time[j] and not event[j])):
                pairs += 1
                right += (risk[i] > risk[j]) + 0.5 * (risk[i] == risk[j])
    assert concordance(risk, event, time) == right / pairs
    assert np.isnan(concordance(risk, np.zeros(30, dtype=bool), time))
