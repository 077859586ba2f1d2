"""The compiled loops of the SVM on factors: what is done on rows, and the duals at given scores.

Like :mod:`kernelquilt.core.compiled`, imported by the functions that need it.
"""

import numpy as np

from kernelquilt.core.compiled import compiled

MAX_ROOT_STEPS = 200


@compiled
def inner_product(row, u, zero):  # type: ignore[no-untyped-def]
    """Return the inner product of two vectors in their own precision."""
    total = zero
    for k in range(u.shape[0]):
        total += row[k] * u[k]
    return total


@compiled
def add_multiple(u, row, step):  # type: ignore[no-untyped-def]
    """Add a multiple of `row` to `u`."""
    for k in range(u.shape[0]):
        u[k] += step * row[k]


@compiled
def add_rows(Z, rows, b, v):  # type: ignore[no-untyped-def]
    """Add ``b[i] Z[i]`` over the rows to `v`, which may be more precise than Z."""
    for i in rows:
        if b[i] != 0.0:
            add_multiple(v, Z[i], b[i])


@compiled
def multiply_rows(Z, rows, v, starts, products):  # type: ignore[no-untyped-def]
    """Write the inner products of the rows with `v`, between any two starts, to `products`."""
    zero = v[0] * 0
    for i in rows:
        for p in range(products.shape[0]):
            part = slice(starts[p], starts[p + 1])
            products[p, i] = inner_product(Z[i, part], v[part], zero)


@compiled
def soft(x, threshold):  # type: ignore[no-untyped-def]
    """Return `x` brought towards zero by a threshold."""
    return max(x - threshold, 0.0) + min(x + threshold, 0.0)


@compiled
def epoch(  # type: ignore[no-untyped-def]
    Z, observed, diag, s, lower, upper, tube, b, starts, kernels, weights, rows, active, u,
    bias, pull, firm, sums,
):  # fmt: skip
    """Visit the samples `rows` that are active, each to its best dual with the others held.

    Samples that are held at a bound or a kink by slopes of more than `firm` become inactive. `sums`
    are the sum of the duals, the largest slope met, and the gap that the samples had when they were
    visited.
    """
    total, largest, gap = sums
    zero = u[0] * 0
    cell = u[:1].copy()
    for i in rows:
        if not active[i]:
            continue
        row = Z[i]
        score = 0.0
        for a in range(kernels.shape[0]):
            p = kernels[a]
            if observed[i, p]:
                part = slice(starts[p], starts[p + 1])
                score += inner_product(row[part], u[part], zero)
        off = s[i] - score - bias - pull * total
        above, below = off - tube[i], off + tube[i]
        rise = above if b[i] >= 0.0 else below
        fall = above if b[i] > 0.0 else below
        if (b[i] >= upper[i] or rise < -firm) and (b[i] <= lower[i] or fall > firm):
            active[i] = False
            continue
        gap += upper[i] * max(above, 0.0) + lower[i] * min(below, 0.0)
        gap -= b[i] * (above if b[i] > 0.0 else below)
        new = soft(b[i] + off / (diag[i] + pull), tube[i] / (diag[i] + pull))
        new = min(max(new, lower[i]), upper[i])
        step = new - b[i]
        if step == 0.0:
            continue
        largest = max(largest, rise, -fall)
        b[i] = new
        total += step
        for a in range(kernels.shape[0]):
            p = kernels[a]
            if observed[i, p]:
                part = slice(starts[p], starts[p + 1])
                cell[0] = step * weights[p]
                add_multiple(u[part], row[part], cell[0])
    sums[0], sums[1], sums[2] = total, largest, gap


@compiled
def balanced_duals(f, centre, slopes, lower, upper, tube, bias, b):  # type: ignore[no-untyped-def]
    """Set ``b = clip(soft(centre + slopes (f - bias)))`` with the bias that makes its sum vanish.

    The threshold is ``slopes tube``. Returns this bias, found by Newton's method on the sum, which
    falls with it, between bounds.
    """
    n = f.shape[0]
    low, high = -np.inf, np.inf
    jump = 1.0
    for _ in range(MAX_ROOT_STEPS):
        total = 0.0
        steepness = 0.0
        size = 0.0
        for i in range(n):
            x = soft(centre[i] + slopes[i] * (f[i] - bias), slopes[i] * tube[i])
            if x >= upper[i]:
                x = upper[i]
            elif x <= lower[i]:
                x = lower[i]
            elif x != 0.0 or tube[i] == 0.0:
                steepness += slopes[i]
            b[i] = x
            total += x
            size += abs(x)
        if abs(total) <= 1e-15 * size:
            break
        if total > 0.0:
            low = bias
        else:
            high = bias
        new = bias + total / steepness if steepness > 0.0 else low
        if not low < new < high:
            if low > -np.inf and high < np.inf:
                new = 0.5 * (low + high)
            else:
                new = bias + jump if total > 0.0 else bias - jump
                jump *= 2.0
        if new == bias:
            break
        bias = new
    return bias
