"""The compiled loops of the SVM on factors: coordinate descent, and the duals at given scores.

Like :mod:`kernelquilt.core.compiled`, imported by the functions that need it.
"""

import numpy as np

from kernelquilt.core.compiled import compiled

STAGE = 3  # passes in which descent has to halve the gap to be worth going on with
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
def shuffle(order, count, state):  # type: ignore[no-untyped-def]
    """Permute the first entries of `order` in place, and return the next state of the dice."""
    for i in range(count - 1, 0, -1):
        state ^= state << np.uint64(13)
        state ^= state >> np.uint64(7)
        state ^= state << np.uint64(17)
        j = np.int64(state % np.uint64(i + 1))
        order[i], order[j] = order[j], order[i]
    return state


@compiled
def soft(x, threshold):  # type: ignore[no-untyped-def]
    """Return `x` brought towards zero by a threshold."""
    return max(x - threshold, 0.0) + min(x + threshold, 0.0)


@compiled
def epoch(  # type: ignore[no-untyped-def]
    Z, observed, starts, kernels, weights, diag, problem, order, count, b, u, terms, firm
):
    """Visit the first `count` samples of `order`, each to its best dual with the others held.

    `problem` is linear term, bounds and tube, `terms` are bias, pull and the sum of the duals.
    Returns how many samples are left at the front of `order`, the largest slope met, the gap that
    the samples had when they were visited, and the sum of the duals.
    """
    s, lower, upper, tube = problem
    bias, pull, total = terms
    left = 0
    largest = 0.0
    gap = 0.0
    zero = u[0] * 0
    cell = u[:1].copy()
    for position in range(count):
        i = order[position]
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
            continue
        order[left], order[position] = i, order[left]
        left += 1
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
    return left, largest, gap, total


@compiled
def descend(  # type: ignore[no-untyped-def]
    Z, observed, starts, kernels, weights, diag, problem, b, u, bias, pull, goal
):
    """Run coordinate descent until its relative gap seems to be `goal`, or it gets too slow.

    Maximises ``s'b - tube'|b| - b'Kb / 2`` over the box with ``sum(b) = 0``, in place, where K is
    the sum of ``weights[p] Z_p Z_p'`` over `kernels`, and ``u[k] = weights[p] (Z'b)[k]``. The sum
    is brought to zero by the method of multipliers: `bias` is the multiplier and `pull` the
    penalty. Samples that are held firmly at a bound or a kink are left out, so that the gap is to
    be checked afterwards. `problem` is s, the lower and the upper bounds, and the tube.

    Returns the bias, the visits to samples in units of all of them, and whether it got too slow.
    """
    n = b.shape[0]
    s, tube = problem[0], problem[3]
    order = np.arange(n)
    count = n
    state = np.uint64(88172645463325252)
    firm = np.inf
    visits = 0
    total = b.sum()
    last_gap = np.inf
    next_look = STAGE * n
    slow = False
    while True:
        state = shuffle(order, count, state)
        visits += count
        count, largest, gap, total = epoch(
            Z, observed, starts, kernels, weights, diag, problem, order, count, b, u,
            (bias, pull, total), firm,
        )  # fmt: skip
        firm = largest
        bias += pull * total
        value = 0.0
        for a in range(kernels.shape[0]):
            p = kernels[a]
            part = u[starts[p] : starts[p + 1]]
            value -= 0.5 * inner_product(part, part, 0.0) / weights[p]
        for i in range(n):
            value += s[i] * b[i] - tube[i] * abs(b[i])
        if gap <= goal * (value + gap):
            break
        if visits >= next_look:
            if gap > 0.5 * last_gap:
                slow = True
                break
            last_gap = gap
            next_look = visits + STAGE * n
    return bias, visits / n, slow


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
