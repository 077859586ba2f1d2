"""The compiled sums and comparisons over the samples of one dual, as `core.svm.dual` defines them.

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
