r"""The proportional hazards model on a handful of scores.

The hazard of sample i is :math:`h_0(t) \exp(\eta_i)` with :math:`\eta_i = \sum_j a_j F_j(x_i)`. The
weights minimise the partial likelihood with Efron's correction for tied events, in which sample i
counts :math:`v_i` times,

.. math:: \min_{a \ge 0} \; -\frac{1}{\sum_i v_i} \sum_t \Bigl[ \sum_{i \in D_t} v_i \eta_i -
          \bar v_t \sum_{l=0}^{d_t - 1} \log\Bigl( \sum_{i \in R_t} v_i e^{\eta_i}
          - \frac{l}{d_t} \sum_{i \in D_t} v_i e^{\eta_i} \Bigr) \Bigr] + \mu \, a'a,          (1)

where :math:`D_t` are the :math:`d_t` samples with an event at time t, :math:`\bar v_t` is the mean
of their :math:`v_i`, and :math:`R_t` are those whose time is t or later. It is strictly convex, and
the same for :math:`v` times a constant. Breslow's estimator of the baseline on the result is

.. math:: H_0(t) = \sum_{s \le t} \sum_{i \in D_s} v_i \Big/ \sum_{i \in R_s} v_i e^{\eta_i} ;   (2)

with :math:`\eta = 0` it is the Nelson-Aalen estimator, and
:math:`m_i = \mathrm{event}_i - H_0(\mathrm{time}_i)` are the martingale residuals of the model
without scores, the gradient of the likelihood at zero.

=====================  ===========================
symbol                 name here
=====================  ===========================
F_j(x_i)               ``F[j, i]``
a                      ``weights``
v_i                    ``sample_weight[i]``
mu                     ``PENALTY``
=====================  ===========================
"""

from typing import NamedTuple

import numpy as np

from kernelquilt._typing import Bools, Floats, Indices
from kernelquilt.quilt.stacking import box_newton

PENALTY = 0.005
PAIRS = 2**24  # compared at a time


class _Terms(NamedTuple):
    """The logarithms of (1), one for each event, of samples in order of their times.

    Attributes
    ----------
    order : ndarray of shape (n,)
        Samples by descending time.
    event : ndarray of shape (n,), bool
        In this order.
    last : ndarray of shape (n,)
        For each position the last one of the same time.
    at : ndarray of shape (T,)
        For each event the last position of its time.
    share : ndarray of shape (T,)
        ``l / d`` of each event.
    counts : ndarray of shape (n,)
        How often samples count, in this order; they sum to one.
    mean_counts : ndarray of shape (T,)
        For each event the mean of those that it is tied with.
    """

    order: Indices
    event: Bools
    last: Indices
    at: Indices
    share: Floats
    counts: Floats
    mean_counts: Floats


def _terms(event: Bools, time: Floats, sample_weight: Floats) -> _Terms:
    order = np.argsort(-time, kind="stable")
    event, time = event[order], time[order]
    counts = sample_weight[order] / sample_weight.sum()
    last = np.searchsorted(-time, -time, side="right") - 1
    at = last[event]
    _, start, number, count = np.unique(
        at, return_index=True, return_inverse=True, return_counts=True
    )
    share = (np.arange(len(at)) - start[number]) / count[number]
    mean_counts = (np.bincount(number, counts[event]) / count)[number]
    return _Terms(order, event, last, at, share, counts, mean_counts)


def solve_cox_stacking(
    F: Floats, event: Bools, time: Floats, sample_weight: Floats | None = None
) -> Floats:
    """Solve (1) of the module docstring.

    Parameters
    ----------
    F : ndarray of shape (J, n)
        Out-of-sample scores.
    event : ndarray of shape (n,), bool
        Whether an event was seen.
    time : ndarray of shape (n,)
        When, or until when none was.
    sample_weight : ndarray of shape (n,), optional
        How often each sample counts, positive; only ratios matter.

    Returns
    -------
    weights : ndarray of shape (J,)
        Non-negative.
    """
    terms = _terms(event, time, np.ones(len(time)) if sample_weight is None else sample_weight)
    X = np.ascontiguousarray(F[:, terms.order].T)
    weights, _ = box_newton(
        lambda a: cox_value(a, X, terms),
        lambda a: cox_derivatives(a, X, terms),
        np.full(len(F), 1.0 / len(F)),
        len(F),
    )
    return weights


def cox_value(a: Floats, X: Floats, terms: _Terms) -> float:
    """Return the value of (1) for scores X (n, J) in the order of the terms."""
    eta = X @ a
    top = float(eta.max(initial=0.0))
    denominators = _sums(np.exp(eta - top)[:, None], terms)[:, 0]
    loss = terms.mean_counts @ (np.log(denominators) + top)
    loss -= terms.counts[terms.event] @ eta[terms.event]
    return float(loss + PENALTY * a @ a)


def cox_derivatives(a: Floats, X: Floats, terms: _Terms) -> tuple[Floats, Floats]:
    """Return gradient (J,) and Hessian (J, J) of (1)."""
    n = len(X)
    eta = X @ a
    risk = np.exp(eta - eta.max(initial=0.0))
    denominators = _sums(risk[:, None], terms)[:, 0]
    inverse = terms.mean_counts / denominators
    # how often each sample counts: in all terms of its time and earlier, less at its own event
    total = np.zeros(n)
    np.add.at(total, terms.at, inverse)
    counted = np.cumsum(total[::-1])[::-1]
    own, tied = np.zeros(n), np.zeros(n)
    np.add.at(tied, terms.at, inverse * terms.share)
    own[terms.event] = tied[terms.at]
    counted = terms.counts * risk * (counted - own)
    gradient = counted @ X - terms.counts[terms.event] @ X[terms.event]
    means = _sums(risk[:, None] * X, terms) / denominators[:, None]
    hessian = X.T @ (counted[:, None] * X) - means.T @ (terms.mean_counts[:, None] * means)
    return gradient + 2.0 * PENALTY * a, hessian + 2.0 * PENALTY * np.eye(len(a))


def _sums(values: Floats, terms: _Terms) -> Floats:
    """Return sums (T, k) over the samples at risk, less a share of those with the same event."""
    values = terms.counts[:, None] * values
    at_risk = np.cumsum(values, axis=0)[terms.at]
    tied = np.zeros(values.shape)
    np.add.at(tied, terms.last[terms.event], values[terms.event])
    return np.asarray(at_risk - terms.share[:, None] * tied[terms.at])


def breslow_hazard(
    eta: Floats, event: Bools, time: Floats, sample_weight: Floats | None = None
) -> tuple[Floats, Floats]:
    """Return the times that occur, ascending, and the cumulative baseline hazard (2) there.

    Parameters
    ----------
    eta : ndarray of shape (n,)
        Logarithms of the relative hazards.
    event, time, sample_weight : ndarrays of shape (n,)
        As in `solve_cox_stacking`.
    """
    counts = np.ones(len(time)) if sample_weight is None else sample_weight
    times, number = np.unique(time, return_inverse=True)
    events = np.bincount(number, counts * event, minlength=len(times))
    top = float(eta.max(initial=0.0))
    risk = np.bincount(number, counts * np.exp(eta - top), minlength=len(times))
    at_risk = np.cumsum(risk[::-1])[::-1]
    # nobody is left at times of samples that do not count
    steps = np.divide(events, at_risk, out=np.zeros(len(times)), where=at_risk > 0)
    return times, np.cumsum(steps) * np.exp(-top)


def martingale_residuals(event: Bools, time: Floats, sample_weight: Floats | None = None) -> Floats:
    """Return those of the model without scores, shape (n,)."""
    times, hazard = breslow_hazard(np.zeros(len(time)), event, time, sample_weight)
    return event - hazard[np.searchsorted(times, time)]


def concordance(
    risk: Floats, event: Bools, time: Floats, sample_weight: Floats | None = None
) -> float:
    """Return the share of comparable pairs in which the higher risk has the earlier event.

    Two samples can be compared if the earlier one had an event, or at the same time only one of
    them had. Ties of the risk count one half.

    Parameters
    ----------
    risk, event, time : ndarrays of shape (n,)
    sample_weight : ndarray of shape (n,), optional
        A pair counts as often as the product of those of its samples.

    Returns
    -------
    float
        Of 0.5 for risks by chance; nan if no two samples can be compared.
    """
    right, pairs = 0.0, 0.0
    rows = np.flatnonzero(event)
    size = max(1, PAIRS // max(1, len(time)))
    for start in range(0, len(rows), size):
        part = rows[start : start + size, None]
        later = (time[part] < time) | ((time[part] == time) & ~event)
        pairs += _total(later, part, sample_weight)
        right += _total(later & (risk[part] > risk), part, sample_weight)
        right += 0.5 * _total(later & (risk[part] == risk), part, sample_weight)
    return right / pairs if pairs else float("nan")


def _total(pairs: Bools, rows: Indices, sample_weight: Floats | None) -> float:
    """Return how much pairs count, of samples `rows` (r, 1) with all samples, (r, n)."""
    if sample_weight is None:
        return float(np.count_nonzero(pairs))
    return float(sample_weight[rows[:, 0]] @ (pairs @ sample_weight))
