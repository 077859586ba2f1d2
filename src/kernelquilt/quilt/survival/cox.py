r"""The proportional hazards model on a handful of scores.

The hazard of sample i is :math:`h_0(t) \exp(\eta_i)` with :math:`\eta_i = \sum_j a_j F_j(x_i)`. The
weights minimise the partial likelihood with Efron's correction for tied events,

.. math:: \min_{a \ge 0} \; -\frac1n \sum_t \Bigl[ \sum_{i \in D_t} \eta_i -
          \sum_{l=0}^{d_t - 1} \log\Bigl( \sum_{i \in R_t} e^{\eta_i}
          - \frac{l}{d_t} \sum_{i \in D_t} e^{\eta_i} \Bigr) \Bigr] + \mu \, a'a,          (1)

where :math:`D_t` are the :math:`d_t` samples with an event at time t and :math:`R_t` those whose
time is t or later. It is strictly convex. Breslow's estimator of the baseline on the result is

.. math:: H_0(t) = \sum_{s \le t} d_s \Big/ \sum_{i \in R_s} e^{\eta_i} ;                     (2)

with :math:`\eta = 0` it is the Nelson-Aalen estimator, and
:math:`m_i = \mathrm{event}_i - H_0(\mathrm{time}_i)` are the martingale residuals of the model
without scores, the gradient of the likelihood at zero.

=====================  ===========================
symbol                 name here
=====================  ===========================
F_j(x_i)               ``F[j, i]``
a                      ``weights``
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
    """

    order: Indices
    event: Bools
    last: Indices
    at: Indices
    share: Floats


def _terms(event: Bools, time: Floats) -> _Terms:
    order = np.argsort(-time, kind="stable")
    event, time = event[order], time[order]
    last = np.searchsorted(-time, -time, side="right") - 1
    at = last[event]
    _, start, number, count = np.unique(
        at, return_index=True, return_inverse=True, return_counts=True
    )
    share = (np.arange(len(at)) - start[number]) / count[number]
    return _Terms(order, event, last, at, share)


def solve_cox_stacking(F: Floats, event: Bools, time: Floats) -> Floats:
    """Solve (1) of the module docstring.

    Parameters
    ----------
    F : ndarray of shape (J, n)
        Out-of-sample scores.
    event : ndarray of shape (n,), bool
        Whether an event was seen.
    time : ndarray of shape (n,)
        When, or until when none was.

    Returns
    -------
    weights : ndarray of shape (J,)
        Non-negative.
    """
    terms = _terms(event, time)
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
    denominators = _denominators(np.exp(eta - top), terms)
    loss = np.sum(np.log(denominators) + top) - eta[terms.event].sum()
    return float(loss / len(X) + PENALTY * a @ a)


def cox_derivatives(a: Floats, X: Floats, terms: _Terms) -> tuple[Floats, Floats]:
    """Return gradient (J,) and Hessian (J, J) of (1)."""
    n = len(X)
    eta = X @ a
    risk = np.exp(eta - eta.max(initial=0.0))
    inverse = 1.0 / _denominators(risk, terms)
    # how often each sample counts: in all terms of its time and earlier, less at its own event
    total = np.zeros(n)
    np.add.at(total, terms.at, inverse)
    counted = np.cumsum(total[::-1])[::-1]
    own, tied = np.zeros(n), np.zeros(n)
    np.add.at(tied, terms.at, inverse * terms.share)
    own[terms.event] = tied[terms.at]
    counted = risk * (counted - own)
    gradient = counted @ X - X[terms.event].sum(axis=0)
    weighted = risk[:, None] * X
    means = (_sums(weighted, terms)) * inverse[:, None]
    hessian = X.T @ (counted[:, None] * X) - means.T @ means
    return (
        gradient / n + 2.0 * PENALTY * a,
        hessian / n + 2.0 * PENALTY * np.eye(len(a)),
    )


def _denominators(risk: Floats, terms: _Terms) -> Floats:
    return _sums(risk[:, None], terms)[:, 0]


def _sums(values: Floats, terms: _Terms) -> Floats:
    """Return sums (T, k) over the samples at risk, less a share of those with the same event."""
    at_risk = np.cumsum(values, axis=0)[terms.at]
    tied = np.zeros(values.shape)
    np.add.at(tied, terms.last[terms.event], values[terms.event])
    return np.asarray(at_risk - terms.share[:, None] * tied[terms.at])


def breslow_hazard(eta: Floats, event: Bools, time: Floats) -> tuple[Floats, Floats]:
    """Return the times that occur, ascending, and the cumulative baseline hazard (2) there.

    Parameters
    ----------
    eta : ndarray of shape (n,)
        Logarithms of the relative hazards.
    event, time : ndarrays of shape (n,)
        As in `solve_cox_stacking`.
    """
    times, number = np.unique(time, return_inverse=True)
    events = np.bincount(number, event, minlength=len(times))
    top = float(eta.max(initial=0.0))
    risk = np.bincount(number, np.exp(eta - top), minlength=len(times))
    at_risk = np.cumsum(risk[::-1])[::-1]
    return times, np.cumsum(events / at_risk) * np.exp(-top)


def martingale_residuals(event: Bools, time: Floats) -> Floats:
    """Return those of the model without scores, shape (n,)."""
    times, hazard = breslow_hazard(np.zeros(len(time)), event, time)
    return event - hazard[np.searchsorted(times, time)]


def concordance(risk: Floats, event: Bools, time: Floats) -> float:
    """Return the share of comparable pairs in which the higher risk has the earlier event.

    Two samples can be compared if the earlier one had an event, or at the same time only one of
    them had. Ties of the risk count one half.

    Parameters
    ----------
    risk, event, time : ndarrays of shape (n,)

    Returns
    -------
    float
        Of 0.5 for risks by chance; nan if no two samples can be compared.
    """
    right, pairs = 0.0, 0
    rows = np.flatnonzero(event)
    size = max(1, PAIRS // max(1, len(time)))
    for start in range(0, len(rows), size):
        part = rows[start : start + size, None]
        later = (time[part] < time) | ((time[part] == time) & ~event)
        pairs += int(np.count_nonzero(later))
        right += float(np.count_nonzero(later & (risk[part] > risk)))
        right += 0.5 * float(np.count_nonzero(later & (risk[part] == risk)))
    return right / pairs if pairs else float("nan")
