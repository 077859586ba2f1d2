"""The compiled loops of the Gaussian with missing entries; imported lazily, as it imports numba."""

import numpy as np

from kernelquilt.core.compiled import compiled

LANES = 8  # matrices that are inverted side by side, so that processors work on several at once


@compiled
def negative_inverses(A, q, column, ratio, log_det):  # type: ignore[no-untyped-def]
    """Turn the matrices ``A[:q, :q, lane]`` into their negative inverses, and tell their log det.

    Only lower triangles are read and written. Sweeps one index after the other: with k swept,
    a_kk becomes -1 / a_kk, a_ik becomes a_ik / a_kk and a_ij becomes a_ij - a_ik a_kj / a_kk.
    """
    for lane in range(LANES):
        log_det[lane] = 0.0
    for k in range(q):
        for i in range(q):
            for lane in range(LANES):
                column[i, lane] = A[i, k, lane] if i >= k else A[k, i, lane]
        for i in range(q):
            if i == k:
                continue
            for lane in range(LANES):
                ratio[lane] = column[i, lane] / column[k, lane]
            for j in range(i + 1):
                for lane in range(LANES):
                    A[i, j, lane] -= ratio[lane] * column[j, lane]
            for lane in range(LANES):
                A[max(i, k), min(i, k), lane] = ratio[lane]
        for lane in range(LANES):
            log_det[lane] += np.log(column[k, lane])
            A[k, k, lane] = -1.0 / column[k, lane]


@compiled
def innovations(X, starts, columns, counts, by_count, mean, S, out, inverse):  # type: ignore[no-untyped-def]
    """Write a = G (x - mean)_o of every row x of X, grouped by pattern, to `out`, which is zero.

    Here o are the observed entries of the row and G is the inverse of S_oo. `by_count` are the
    patterns, those with equally many entries next to each other. The lower triangle of the sum of
    all G, each put at the places o, is added to `inverse`; returned is the sum of
    log det S_oo + (x - mean)_o'a.
    """
    m = S.shape[0]
    A = np.empty((m, m, LANES))
    r = np.empty((m, LANES))
    a = np.empty((m, LANES))
    ratio = np.empty(LANES)
    log_det = np.empty(LANES)
    value = 0.0
    first = 0
    while first < by_count.shape[0]:
        q = counts[by_count[first]]
        used = 1
        while used < min(LANES, by_count.shape[0] - first) and counts[by_count[first + used]] == q:
            used += 1
        for lane in range(LANES):  # those left over repeat the last pattern
            o = columns[by_count[first + min(lane, used - 1)]]
            for i in range(q):
                for j in range(i + 1):
                    A[i, j, lane] = S[o[i], o[j]]
        negative_inverses(A, q, r, ratio, log_det)
        most = 0
        for lane in range(used):
            k = by_count[first + lane]
            o = columns[k]
            size = starts[k + 1] - starts[k]
            most = max(most, size)
            value += size * log_det[lane]
            for i in range(q):
                for j in range(i + 1):
                    inverse[o[i], o[j]] -= size * A[i, j, lane]
        for step in range(most):
            for lane in range(used):
                k = by_count[first + lane]
                t, o = min(starts[k] + step, starts[k + 1] - 1), columns[k]
                for i in range(q):
                    r[i, lane] = X[t, o[i]] - mean[o[i]]
            for i in range(q):
                for lane in range(LANES):
                    a[i, lane] = 0.0
                for j in range(q):
                    for lane in range(LANES):
                        a[i, lane] -= A[max(i, j), min(i, j), lane] * r[j, lane]
            for lane in range(used):
                k = by_count[first + lane]
                t, o = starts[k] + step, columns[k]
                if t < starts[k + 1]:
                    for i in range(q):
                        out[t, o[i]] = a[i, lane]
                        value += a[i, lane] * r[i, lane]
        first += used
    return value
