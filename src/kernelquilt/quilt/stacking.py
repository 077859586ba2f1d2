r"""Stacking: few non-negative weights that turn the scores of experts into one prediction.

Classification, with scores :math:`F_j(x)` of c classes by expert j, is softmax regression

.. math:: P(x) \propto \exp\bigl(\textstyle\sum_j v_j F_j(x) + b\bigr), \qquad
          \min_{v \ge 0, \, b} \; -\frac{\sum_i \omega_i \log P_{y_i}(x_i)}{\sum_i \omega_i}
          + \mu \bigl(\rho \, v'v + b'b\bigr) + \frac{\kappa}{\sum_i \omega_i} v'v,          (1)

and regression, with scores :math:`F_j(x)` and targets y, is least squares

.. math:: \min_{v \ge 0, \, b} \; \frac{\sum_i \omega_i (y_i - \sum_j v_j F_j(x_i) - b)^2}
          {\sum_i \omega_i} + \mu \bigl(\rho \, v'v + b^2\bigr).                          (2)

The scores must be out of sample, such as leave-one-out scores. Few samples are easily told apart by
chance: the last term of (1) is a normal prior of the weights, which keeps probabilities modest
where there are some tens of samples and vanishes where there are many. Both problems are strictly
convex: projected Newton steps with a line search end at the one optimum whatever the start. With
constant columns added for b, both are :math:`\min_x \phi(Ax) + x'Dx/2` over a box.

=====================  ===========================
symbol                 name here
=====================  ===========================
F_j(x_i)               ``F[j, i]``
v, b                   ``weights``, ``bias``
omega                  ``sample_weight``
mu, rho, kappa         ``PENALTY``, ``RELATIVE``, ``PRIOR``
=====================  ===========================
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import softmax

from kernelquilt._typing import Bools, Floats, Indices

PENALTY = 0.005
RELATIVE = 0.01
PRIOR = 0.05
EVEN = 6.0  # pull of the weights of members towards equal ones, divided by the number of samples
EVEN_LINEAR = 0.01  # the same in regression, whatever the number
START = 3.0  # sum of the weights to start from
MAX_ITER = 200
TOLERANCE = 1e-12  # of the projected gradient
ARMIJO = 1e-4
MAX_BACKTRACKS = 40
ROUNDING = 1e-14  # relative error of the value


@dataclass(frozen=True)
class StackingWeights:
    """Weights of experts.

    Attributes
    ----------
    weights : ndarray of shape (J,)
        Non-negative weight of each expert.
    bias : ndarray of shape (c,)
        Biases of the outputs.
    objective : float
        Value of (1) or (2).
    residual : float
        Largest entry of the projected gradient.
    """

    weights: Floats
    bias: Floats
    objective: float
    residual: float

    def combine(self, F: Floats) -> Floats:
        """Return ``sum_j v_j F_j + b`` of shape (n, c) for scores (J, n, c)."""
        return np.asarray(np.tensordot(self.weights, F, axes=1) + self.bias)

    def proba(self, F: Floats) -> Floats:
        """Return class probabilities (n, c) for scores (J, n, c)."""
        return np.asarray(softmax(self.combine(F), axis=1))


def solve_softmax_stacking(
    F: Floats,
    codes: Indices,
    *,
    sample_weight: Floats | None = None,
    start: Floats | None = None,
) -> StackingWeights:
    """Solve (1) of the module docstring.

    Parameters
    ----------
    F : ndarray of shape (J, n, c)
        Out-of-sample scores of the experts.
    codes : ndarray of shape (n,)
        Position of the class of each sample, 0 to c - 1.
    sample_weight : ndarray of shape (n,), optional
        As how many samples each counts, 1 by default.
    start : ndarray of shape (J + c,), optional
        Weights and biases to start from.

    Returns
    -------
    StackingWeights
    """
    J, _, c = F.shape
    x = np.r_[np.full(J, START / J), np.zeros(c)] if start is None else np.asarray(start, float)
    penalty = _penalties(J, c)
    penalty[:J] += 2.0 * PRIOR / _count(sample_weight, F.shape[1])
    return _softmax_regression(F, codes, sample_weight, penalty, np.zeros(J + c), x)


def solve_member_weights(
    logs: Floats, codes: Indices, *, sample_weight: Floats | None = None
) -> Floats:
    """Join members by a product of powers of their probabilities (:mod:`.members`).

    Parameters
    ----------
    logs : ndarray of shape (K, n, c)
        Logarithms of the out-of-sample probabilities of the members.
    codes, sample_weight
        As in `solve_softmax_stacking`.

    Returns
    -------
    weights : ndarray of shape (K,)
    """
    K = len(logs)
    even = np.full(K, 1.0 / K)
    pull = np.full(K, 2.0 * EVEN / _count(sample_weight, logs.shape[1]))
    return _softmax_regression(logs, codes, sample_weight, pull, even, even).weights


def solve_linear_members(F: Floats, y: Floats, *, sample_weight: Floats | None = None) -> Floats:
    """Join members by a weighted sum of their predictions, (K, n) or (K, n, c)."""
    K = len(F)
    even = np.full(K, 1.0 / K)
    weight = _of_entries(sample_weight, y.size // len(y))
    return _linear_regression(
        F.reshape(K, -1), y.ravel(), weight, np.full(K, 2 * EVEN_LINEAR), even, K
    ).weights


def _softmax_regression(
    F: Floats,
    codes: Indices,
    sample_weight: Floats | None,
    penalty: Floats,
    centre: Floats,
    start: Floats,
) -> StackingWeights:
    """Minimise the mean log loss + (x - centre)'D(x - centre)/2 over x, weights and any biases."""
    J, n, c = F.shape
    biased = len(start) > J
    used, share = _shares(sample_weight, n)
    F, codes = F[:, used], codes[used]
    label = np.arange(len(codes)), codes
    at_label = F[:, label[0], label[1]]
    counts = np.bincount(codes, share, minlength=c)

    def scores(x: Floats) -> Floats:
        return np.tensordot(x[:J], F, axes=1) + (x[J:] if biased else 0.0)

    def value(x: Floats) -> float:
        z = scores(x)
        z -= z[label][:, None]
        z[label] = -np.inf
        # log(1 + sum_c exp(z_c)), exact to rounding also where it is tiny
        top = np.maximum(z.max(axis=1), 0.0)
        others = np.exp(z - top[:, None]).sum(axis=1)
        losses = np.where(top > 0, top + np.log(np.exp(-top) + others), np.log1p(others))
        return float(share @ losses + 0.5 * (x - centre) @ (penalty * (x - centre)))

    def derivatives(x: Floats) -> tuple[Floats, Floats]:
        P = softmax(scores(x), axis=1)
        weighted = share[:, None] * P
        flat = F.reshape(J, -1)
        expected = np.einsum("jic,ic->ji", F, P)
        gradient = penalty * (x - centre)
        gradient[:J] += (expected - at_label) @ share
        H = np.zeros((len(x), len(x)))
        H[:J, :J] = (flat * weighted.ravel()) @ flat.T - (expected * share) @ expected.T
        if biased:
            gradient[J:] += weighted.sum(axis=0) - counts
            H[:J, J:] = np.einsum("jic,ic->jc", F, weighted) - expected @ weighted
            H[J:, :J] = H[:J, J:].T
            H[J:, J:] = np.diag(weighted.sum(axis=0)) - weighted.T @ P
        H[np.diag_indices(len(x))] += penalty
        return gradient, H

    x, residual = box_newton(value, derivatives, start, J)
    return StackingWeights(x[:J], x[J:] if biased else np.zeros(c), value(x), residual)


def solve_linear_stacking(
    F: Floats, y: Floats, *, sample_weight: Floats | None = None
) -> StackingWeights:
    """Solve (2) of the module docstring.

    Parameters
    ----------
    F : ndarray of shape (J, n), or (J, n, c)
        Out-of-sample scores of the experts.
    y : ndarray of shape (n,), or (n, c)
        Targets; several of them share the weights, but not the bias.
    sample_weight : ndarray of shape (n,), optional
        Weights of the samples, 1 by default.

    Returns
    -------
    StackingWeights
    """
    J, n, c = len(F), len(y), y.size // len(y)
    A = np.vstack([F.reshape(J, -1), np.tile(np.eye(c), n)])
    start = np.r_[np.full(J, 1.0 / J), np.zeros(c)]
    penalty = _penalties(J, c) / np.r_[np.ones(J), np.full(c, c)]
    weight = _of_entries(sample_weight, c)
    return _linear_regression(A, y.ravel(), weight, penalty, np.zeros(J + c), J, start)


def _of_entries(sample_weight: Floats | None, c: int) -> Floats | None:
    """Return the weights of all targets of all samples, (n * c,)."""
    return None if sample_weight is None else np.repeat(sample_weight, c)


def _linear_regression(
    A: Floats,
    y: Floats,
    sample_weight: Floats | None,
    penalty: Floats,
    centre: Floats,
    J: int,
    start: Floats | None = None,
) -> StackingWeights:
    """Minimise the mean square of y - A'x + (x - centre)'D(x - centre)/2, the first J positive."""
    used, share = _shares(sample_weight, A.shape[1])
    A, y = A[:, used], y[used]
    H = 2.0 * (A * share) @ A.T + np.diag(penalty)
    linear = 2.0 * (A * share) @ y + penalty * centre
    constant = float(share @ y**2 + 0.5 * centre @ (penalty * centre))

    def value(x: Floats) -> float:
        return float(0.5 * x @ H @ x - linear @ x + constant)

    x, residual = box_newton(
        value, lambda x: (H @ x - linear, H), centre if start is None else start, J
    )
    return StackingWeights(x[:J], x[J:] if len(x) > J else np.zeros(1), value(x), residual)


def _count(sample_weight: Floats | None, n: int) -> float:
    """Return as how many samples all count."""
    return n if sample_weight is None else float(sample_weight.sum())


def _shares(sample_weight: Floats | None, n: int) -> tuple[Indices, Floats]:
    """Return the samples of positive weight, and their weights with sum one."""
    weight = np.ones(n) if sample_weight is None else sample_weight
    used = np.flatnonzero(weight > 0)
    return used, weight[used] / weight[used].sum()


def _penalties(n_weights: int, n_biases: int) -> Floats:
    """Return the diagonal of D."""
    return 2.0 * PENALTY * np.r_[np.full(n_weights, RELATIVE), np.ones(n_biases)]


def box_newton(
    value: Callable[[Floats], float],
    derivatives: Callable[[Floats], tuple[Floats, Floats]],
    x: Floats,
    n_bounded: int,
) -> tuple[Floats, float]:
    """Minimise a strictly convex function with the first `n_bounded` variables non-negative.

    A variable that the gradient holds at its bound stays there, the others make a Newton step that
    is bent at the bounds (Bertsekas 1982).
    """
    bounded = np.arange(len(x)) < n_bounded
    x = np.where(bounded, np.maximum(x, 0.0), x)
    height = value(x)
    for _ in range(MAX_ITER):
        gradient, H = derivatives(x)
        residual = _projected(x, gradient, bounded)
        if residual <= TOLERANCE:
            break
        held = bounded & (x <= min(1e-3, residual)) & (gradient > 0)
        free = np.flatnonzero(~held)
        direction = np.where(held, -x, 0.0)
        direction[free] = np.linalg.solve(H[np.ix_(free, free)], -gradient[free])
        slope = -float(gradient @ direction)
        exact = slope <= ROUNDING * abs(height)  # the value no longer tells better from worse
        step = 1.0
        for _ in range(MAX_BACKTRACKS):
            ahead = x + step * direction
            ahead[bounded] = np.maximum(ahead[bounded], 0.0)
            there = value(ahead)
            if exact or there <= height - ARMIJO * step * slope:
                break
            step *= 0.5
        else:
            break
        if exact and _projected(ahead, derivatives(ahead)[0], bounded) >= residual:
            break
        x, height = ahead, there
    gradient, _ = derivatives(x)
    return x, _projected(x, gradient, bounded)


def _projected(x: Floats, gradient: Floats, bounded: Bools) -> float:
    ahead = np.where(bounded, np.maximum(x - gradient, 0.0), x - gradient)
    return float(np.abs(x - ahead).max())
