r"""Kernels that every sample switches on or off for itself.

Row i of a boolean matrix ``H (n, M)`` says which kernels sample i uses: kernel p becomes
``H[i, p] K_p(x_i, x_j) H[j, p]``. The switch step finds for each sample the fewest kernels that
keep its margin and differ from a reference in a limited number of places,

.. math:: \min_{h \in \{0, 1\}^M} \; |h|_1 \quad \text{s.t.} \quad c'h \ge r, \quad
          |h - h_0|_1 \le m_0 .

This is an integer programme, but one that sorting solves: among the kernels of the reference, and
among the others, those with the largest c are the best to have on, so that only the two
numbers of kernels remain to be found.

Its solution is not unique: usually many sets of the smallest size reach r. A priority chooses
among them. Sets of the same composition with the highest priorities are taken, and made to reach r
by as few swaps as needed.
"""

import numpy as np

from kernelquilt._typing import Bools, Floats, Indices, Numbers

SLACK = 1e-9  # by which c'h may miss r


def switch_step(
    c: Floats,
    r: Floats,
    reference: Bools,
    budget: Indices,
    *,
    previous: Bools,
    available: Bools | None = None,
    priority: Floats | None = None,
) -> tuple[Bools, Bools]:
    """Switch on the fewest kernels, for all samples at once (see the module docstring).

    Parameters
    ----------
    c : ndarray of shape (n, M)
        What each kernel adds to the margin of each sample.
    r : ndarray of shape (n,)
        What the kernels that are on have to add up to.
    reference : ndarray of shape (n, M), bool
        Switches from which only so many may differ; on only where available.
    budget : ndarray of shape (n,)
        Number of switches that may differ from the reference.
    previous : ndarray of shape (n, M), bool
        Switches of the samples that no choice satisfies.
    available : ndarray of shape (n, M), bool, optional
        Kernels that may be on, all by default.
    priority : ndarray of shape (n, M), optional
        Which kernels to have on among solutions of the same size; by default `c`, which gives
        the one of largest margin.

    Returns
    -------
    switches : ndarray of shape (n, M), bool
    feasible : ndarray of shape (n,), bool
        False where `previous` was kept.
    """
    others = ~reference if available is None else available & ~reference
    kept, added = _composition(c, r, reference, others, budget)
    priority = c if priority is None else priority
    groups = (reference, others)
    switches = _highest(priority, reference, kept) | _highest(priority, others, added)
    _swap_until_reached(switches, c, r, groups)
    feasible = kept >= 0
    return np.where(feasible[:, None], switches, previous), feasible


def _composition(
    c: Floats, r: Floats, reference: Bools, others: Bools, budget: Indices
) -> tuple[Indices, Indices]:
    """Return how many kernels of the reference and how many others are on, (n,) each.

    The smallest sum that can reach r, among equals the one that reaches highest; -1 if none.
    """
    size = reference.sum(axis=1)
    limit = int(budget.max(initial=0))
    dropped = np.arange(limit + 1)
    remaining = size[:, None] - dropped
    values = np.take_along_axis(_top_sums(c, reference), np.maximum(remaining, 0), axis=1)
    values[remaining < 0] = -np.inf
    other_values = _top_sums(c, others)
    most = min(limit, int(others.sum(axis=1).max(initial=0)))
    every = np.arange(len(c))
    needed = (r - SLACK)[:, None]
    within = dropped <= budget[:, None]
    drops = np.empty((most + 1, len(c)), dtype=np.intp)
    reach = np.empty((most + 1, len(c)))
    for number in range(most + 1):
        fewer = limit + 1 - number  # as more are added, fewer may be dropped
        value = values[:, :fewer] + other_values[:, [number]]
        enough = (value >= needed) & within[:, number:]
        drops[number] = fewer - 1 - enough[:, ::-1].argmax(axis=1)
        reach[number] = np.where(enough.any(axis=1), value[every, drops[number]], -np.inf)
    total = size + np.arange(most + 1)[:, None] - drops
    total[reach == -np.inf] = c.shape[1] + 1
    added = np.where(total == total.min(axis=0), reach, -np.inf).argmax(axis=0)
    feasible = reach[added, every] > -np.inf
    kept = size - drops[added, every]
    return np.where(feasible, kept, -1), np.where(feasible, added, -1)


def _top_sums(c: Floats, group: Bools) -> Floats:
    """Return the sum of the k largest c of a group for k = 0..M, -inf for k beyond its size."""
    order = np.sort(np.where(group, -c, np.inf), axis=1)
    sums = np.zeros((len(c), c.shape[1] + 1))
    np.cumsum(-order, axis=1, out=sums[:, 1:])
    return sums


def _highest(priority: Floats, group: Bools, count: Indices) -> Bools:
    """Return the `count` members of a group with the highest priority, the first among equals."""
    if count.max(initial=0) <= 0:
        return np.zeros(group.shape, dtype=np.bool_)
    ranking = np.where(group, -priority, np.inf)
    # a threshold and a count of those equal to it are much faster to have than an argsort
    last = np.maximum(count - 1, 0)[:, None]
    threshold = np.take_along_axis(np.sort(ranking, axis=1), last, axis=1)
    chosen = ranking < threshold
    equal = ranking == threshold
    left = count - chosen.sum(axis=1)
    chosen |= equal & (equal.cumsum(axis=1) <= left[:, None])
    return np.asarray(chosen & (count > 0)[:, None])


def _swap_until_reached(switches: Bools, c: Floats, r: Floats, groups: tuple[Bools, ...]) -> None:
    """Swap the lowest c that is on for the highest of its group that is off, while r is missed.

    The group that gains more goes first. Compositions that can reach r do so at the latest when
    no swap gains anything.
    """
    rows = np.flatnonzero(np.where(switches, c, 0.0).sum(axis=1) < r - SLACK)
    while len(rows):
        on, values = switches[rows], c[rows]
        every = np.arange(len(rows))
        best = np.full(len(rows), 0.0)
        to_off, to_on = np.full(len(rows), -1), np.full(len(rows), -1)
        for group in groups:
            members = group[rows]
            low = np.where(on & members, values, np.inf)
            high = np.where(members & ~on, values, -np.inf)
            lowest, highest = low.argmin(axis=1), high.argmax(axis=1)
            gain = high[every, highest] - low[every, lowest]
            better = gain > best
            best[better] = gain[better]
            to_off[better], to_on[better] = lowest[better], highest[better]
        gained = best > 0.0
        rows, to_off, to_on = rows[gained], to_off[gained], to_on[gained]
        switches[rows, to_off] = False
        switches[rows, to_on] = True
        rows = rows[np.where(switches[rows], c[rows], 0.0).sum(axis=1) < r[rows] - SLACK]


def switched_kernels(K: Numbers, switches: Bools, out: Numbers) -> Numbers:
    """Write the kernels with the switches applied, shape (M, n, n), into `out` and return it."""
    for kernel, on, into in zip(K, switches.T, out, strict=True):
        np.multiply(kernel, on[:, None], out=into)
        into[:, ~on] = 0
    return out


def switched_products(K: Numbers, b: Floats, switches: Bools, wanted: Bools) -> Floats:
    """Return ``sum_j b_j H_jp K_p(x_j, x_i)`` for all samples, shape (M, n), 0 if not wanted.

    The switches of sample i itself are not applied: they are what a switch step looks for.
    """
    from kernelquilt.core.compiled import accumulate_rows

    products = np.zeros(K.shape[:2])
    for p in np.flatnonzero(wanted):
        rows = np.flatnonzero(switches[:, p] & (b != 0.0))
        accumulate_rows(K[p : p + 1], rows, b[rows], products[p : p + 1])
    return products
