"""The compiled loops over the samples of one dual, as `core.svm.dual` defines them.

In numpy each of them takes a dozen small arrays, and for some hundred samples making these takes
longer than the rest of a solve. Imported by the functions that need it, as `core.compiled`.
"""

import numpy as np

from kernelquilt.core.compiled import compiled
from kernelquilt.core.svm.dual import AT_BOUND


@compiled
def _side(b, f, lower, upper, tube):  # type: ignore[no-untyped-def]
    """Return of one dual whether it may go up and down, its two slopes, and whether it is free."""
    edge = AT_BOUND * (upper - lower)
    up = upper - b > edge
    down = b - lower > edge
    rise = f + (tube if b < -edge else -tube)
    fall = f + (-tube if b > edge else tube)
    return up, down, rise, fall, up and down and (tube == 0.0 or abs(b) > edge)


@compiled
def kkt_ends(b, f, lower, upper, tube):  # type: ignore[no-untyped-def]
    """Return ``max f[up]`` and ``min f[down]``; -inf and inf where nothing may move."""
    f_up, f_down = -np.inf, np.inf
    for i in range(b.shape[0]):
        up, down, rise, fall, _ = _side(b[i], f[i], lower[i], upper[i], tube[i])
        if up and rise > f_up:
            f_up = rise
        if down and fall < f_down:
            f_down = fall
    return f_up, f_down


@compiled
def loose_samples(b, f, lower, upper, tube):  # type: ignore[no-untyped-def]
    """Return the indices of those that are free, or not firmly held by a bound or a kink."""
    f_up, f_down = kkt_ends(b, f, lower, upper, tube)
    loose = np.empty(b.shape[0], dtype=np.int64)
    count = 0
    for i in range(b.shape[0]):
        up, down, rise, fall, free = _side(b[i], f[i], lower[i], upper[i], tube[i])
        if free or (up and rise >= f_down) or (down and fall <= f_up):
            loose[count] = i
            count += 1
    return loose[:count]


@compiled
def free_samples(b, lower, upper, tube):  # type: ignore[no-untyped-def]
    """Return the indices of those that are neither at a bound nor at a kink."""
    found = np.empty(b.shape[0], dtype=np.int64)
    count = 0
    for i in range(b.shape[0]):
        if _side(b[i], 0.0, lower[i], upper[i], tube[i])[4]:
            found[count] = i
            count += 1
    return found[:count]


@compiled
def largest_used(b, lower, upper):  # type: ignore[no-untyped-def]
    """Return the largest share of its bound that a dual has used up; b, lower, upper are (n,)."""
    share = 0.0
    for i in range(b.shape[0]):
        bound = upper[i] if b[i] > 0.0 else -lower[i]
        share = max(share, abs(b[i]) / (bound if bound > 0.0 else 1.0))
    return share


@compiled
def size_of_terms(diag, b, f):  # type: ignore[no-untyped-def]
    """Return how large the terms are whose difference `f` is."""
    diagonal, duals, slope = diag[0], 0.0, 0.0
    for i in range(b.shape[0]):
        diagonal = max(diagonal, diag[i])
        duals += abs(b[i])
        slope = max(slope, abs(f[i]))
    return diagonal * duals + slope


@compiled
def mean_slope(b, f, lower, upper, tube):  # type: ignore[no-untyped-def]
    """Return the mean slope of the free duals, and how many there are."""
    total, count = 0.0, 0
    for i in range(b.shape[0]):
        _, _, rise, _, free = _side(b[i], f[i], lower[i], upper[i], tube[i])
        if free:
            total += rise
            count += 1
    return total / max(count, 1), count


@compiled
def summed_gap(b, f, lower, upper, intercept, tube):  # type: ignore[no-untyped-def]
    """Return the sum over the samples of what each adds to the duality gap."""
    gap = 0.0
    for i in range(b.shape[0]):
        above = f[i] - intercept - tube[i]
        below = intercept - f[i] - tube[i]
        gap += upper[i] * max(above, 0.0) - lower[i] * max(below, 0.0)
        gap -= max(b[i], 0.0) * above + max(-b[i], 0.0) * below
    return gap


@compiled
def square_block(K, indices):  # type: ignore[no-untyped-def]
    """Return the rows and columns of K that the indices name."""
    n = indices.shape[0]
    block = np.empty((n, n))
    for i in range(n):
        row = K[indices[i]]
        for j in range(n):
            block[i, j] = row[indices[j]]
    return block


@compiled
def _solve_by_factor(factor, v):  # type: ignore[no-untyped-def]
    """Solve ``L L' x = v`` in place; `factor` is L, stored by columns."""
    n = v.shape[0]
    for j in range(n):
        column, below = factor[j + 1 :, j], v[j + 1 :]
        v[j] /= factor[j, j]
        for k in range(below.shape[0]):
            below[k] -= v[j] * column[k]
    for j in range(n - 1, -1, -1):
        column, below = factor[j + 1 :, j], v[j + 1 :]
        total = 0.0
        for k in range(below.shape[0]):
            total += column[k] * below[k]
        v[j] = (v[j] - total) / factor[j, j]


@compiled
def sum_constrained(K, factor, right, total, rounds):  # type: ignore[no-untyped-def]
    """Solve ``K x = right + multiplier`` with ``sum(x) = total``.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        Symmetric.
    factor : ndarray of shape (n, n)
        Lower Cholesky factor of K plus a constant and a jitter, stored by columns.
    right : ndarray of shape (n,)
        Right-hand side.
    total : float
        What x sums to.
    rounds : int
        Solves by the factor; those after the first make up for the jitter.
    """
    n = right.shape[0]
    inverse_ones = np.ones(n)
    _solve_by_factor(factor, inverse_ones)
    denominator = inverse_ones.sum()
    x = np.zeros(n)
    residual = right - right.sum() / n
    missing = total
    for _ in range(rounds):
        _solve_by_factor(factor, residual)
        shift = (missing - residual.sum()) / denominator
        for i in range(n):
            x[i] += residual[i] + shift * inverse_ones[i]
        for i in range(n):
            row, product = K[i], 0.0
            for k in range(n):
                product += row[k] * x[k]
            residual[i] = right[i] - product
        residual -= residual.sum() / n
        missing = total - x.sum()
    return x
