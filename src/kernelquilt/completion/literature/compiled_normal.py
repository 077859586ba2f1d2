"""The compiled loops of the Gaussian with missing entries; imported lazily, as it imports numba."""

import numpy as np

from kernelquilt.core.compiled import compiled


@compiled
def invert_block(S, columns, q, L, G):  # type: ignore[no-untyped-def]
    """Write the inverse of ``S[columns[:q], columns[:q]]`` to G and return its log determinant.

    L is a workspace for the Cholesky factor, which is then inverted in place.
    """
    log_det = 0.0
    for i in range(q):
        for j in range(i + 1):
            value = S[columns[i], columns[j]]
            for k in range(j):
                value -= L[i, k] * L[j, k]
            if i == j:
                log_det += np.log(value)
                L[i, i] = np.sqrt(value)
            else:
                L[i, j] = value / L[j, j]
    for j in range(q):
        L[j, j] = 1.0 / L[j, j]
        for i in range(j + 1, q):
            value = 0.0
            for k in range(j, i):
                value -= L[i, k] * L[k, j]
            L[i, j] = value / L[i, i]
    for i in range(q):
        for j in range(i + 1):
            value = 0.0
            for k in range(i, q):
                value += L[k, i] * L[k, j]
            G[i, j] = value
            G[j, i] = value
    return log_det


@compiled
def accumulate(X, starts, columns, counts, mean, S, total, outer, inverse):  # type: ignore[no-untyped-def]
    """Add up what an EM step needs, over the rows of X grouped by pattern.

    With o the observed entries of a row x and G the inverse of S_oo, `total` is the sum of
    a = G (x - mean)_o, `outer` that of a a', `inverse` that of G, each put at the places o.
    Returns the sum of log det S_oo + (x - mean)_o'a.
    """
    m = S.shape[0]
    L = np.empty((m, m))
    G = np.empty((m, m))
    r = np.empty(m)
    a = np.empty(m)
    value = 0.0
    for k in range(counts.shape[0]):
        q = counts[k]
        o = columns[k]
        size = starts[k + 1] - starts[k]
        value += size * invert_block(S, o, q, L, G)
        for i in range(q):
            for j in range(q):
                inverse[o[i], o[j]] += size * G[i, j]
        for t in range(starts[k], starts[k + 1]):
            for i in range(q):
                r[i] = X[t, o[i]] - mean[o[i]]
            for i in range(q):
                product = 0.0
                for j in range(q):
                    product += G[i, j] * r[j]
                a[i] = product
                value += product * r[i]
            for i in range(q):
                total[o[i]] += a[i]
                for j in range(q):
                    outer[o[i], o[j]] += a[i] * a[j]
    return value


@compiled
def innovations(X, starts, columns, counts, mean, S, out):  # type: ignore[no-untyped-def]
    """Write a of `accumulate` for every row to `out`, zero where nothing is observed."""
    m = S.shape[0]
    L = np.empty((m, m))
    G = np.empty((m, m))
    for k in range(counts.shape[0]):
        q = counts[k]
        o = columns[k]
        invert_block(S, o, q, L, G)
        for t in range(starts[k], starts[k + 1]):
            for i in range(m):
                out[t, i] = 0.0
            for i in range(q):
                product = 0.0
                for j in range(q):
                    product += G[i, j] * (X[t, o[j]] - mean[o[j]])
                out[t, o[i]] = product
