"""The compiled loops of the small programmes in the weights: simplex and interior point method.

Like :mod:`kernelquilt.optim._compiled`, imported by the functions that need it.
"""

import numpy as np

from kernelquilt.optim._compiled import BIG, compiled

PIVOT = 1e-10  # entries below are no pivots
REDUCED_COST = 1e-12  # at which a variable is worth entering
PERTURBATION = 1e-11  # of the right-hand sides, so that ties are rare


@compiled
def packing_multipliers(A, q, max_pivots):  # type: ignore[no-untyped-def]
    """Return multipliers of ``max q'd`` over ``d >= 0, A d <= 1``, and whether they are optimal.

    The simplex method on a dictionary: one row for each basic variable, one column for each other
    one, all slacks basic at first. `A` is (k, m) and non-negative, and `q` is (m,).
    """
    k, m = A.shape
    table = np.empty((k + 1, m + 1))
    for i in range(k):
        for j in range(m):
            table[i, j] = A[i, j]
        table[i, m] = 1.0 + PERTURBATION * (1.0 + (i * 7919) % 1009) / 1009.0
    for j in range(m):
        table[k, j] = q[j]
    table[k, m] = 0.0
    column_of = np.arange(m)  # variables below m are weights, the others slacks
    row_of = m + np.arange(k)
    done = False
    for _ in range(max_pivots):
        enter = -1
        best = REDUCED_COST
        for j in range(m):
            if table[k, j] > best:
                best = table[k, j]
                enter = j
        if enter < 0:
            done = True
            break
        leave = -1
        least = BIG
        for i in range(k):
            if table[i, enter] > PIVOT:
                ratio = table[i, m] / table[i, enter]
                if ratio < least:
                    least = ratio
                    leave = i
        if leave < 0:
            break
        pivot = table[leave, enter]
        for j in range(m + 1):
            table[leave, j] /= pivot
        table[leave, enter] = 1.0 / pivot
        for i in range(k + 1):
            factor = table[i, enter]
            if i != leave and factor != 0.0:
                table[i, enter] = 0.0
                for j in range(m + 1):
                    table[i, j] -= factor * table[leave, j]
        column_of[enter], row_of[leave] = row_of[leave], column_of[enter]
    multipliers = np.zeros(k)
    for j in range(m):
        if column_of[j] >= m and table[k, j] < 0.0:
            multipliers[column_of[j] - m] = -table[k, j]
    return multipliers, done


@compiled
def normal_matrix(H, G, scale):  # type: ignore[no-untyped-def]
    """Return ``H + G' diag(scale) G``; rows of G may be mostly zero."""
    k, m = G.shape
    out = H.copy()
    places = np.empty(m, dtype=np.int64)
    for i in range(k):
        count = 0
        for j in range(m):
            if G[i, j] != 0.0:
                places[count] = j
                count += 1
        for a in range(count):
            value = scale[i] * G[i, places[a]]
            for b in range(count):
                out[places[a], places[b]] += value * G[i, places[b]]
    return out


@compiled
def longest_step(values, steps, limit):  # type: ignore[no-untyped-def]
    """Return the longest step up to `limit` that keeps all values non-negative."""
    longest = limit
    for i in range(values.shape[0]):
        if steps[i] < 0.0 and values[i] < -longest * steps[i]:
            longest = values[i] / -steps[i]
    return longest


@compiled
def interior_point(H, c, G, h, A, b, tolerance, shorten, max_iter):  # type: ignore[no-untyped-def]
    """Return primal point, slacks and multipliers of a QP by Mehrotra's predictor-corrector."""
    m, k, e = c.shape[0], h.shape[0], b.shape[0]
    x = np.zeros(m)
    slack = np.maximum(h, 1.0)
    dual = np.ones(k)
    multiplier = np.zeros(e)
    system = np.zeros((m + e, m + e))
    right = np.empty(m + e)
    for _ in range(max_iter):
        residual_dual = H @ x + c + G.T @ dual + A.T @ multiplier
        residual_in = G @ x + slack - h
        residual_eq = A @ x - b
        mu = (slack @ dual) / k
        worst = max(mu, np.abs(residual_dual).max(), np.abs(residual_in).max())
        if e > 0:
            worst = max(worst, np.abs(residual_eq).max())
        if worst < tolerance:
            break
        system[:m, :m] = normal_matrix(H, G, dual / slack)
        for j in range(m):
            system[j, j] += 1e-14
        system[:m, m:] = A.T
        system[m:, :m] = A
        complementarity = slack * dual
        d_slack, d_dual, dx, d_multiplier = slack, dual, x, multiplier
        for corrector in range(2):
            right[:m] = -residual_dual - G.T @ ((dual * residual_in - complementarity) / slack)
            right[m:] = -residual_eq
            solution = np.linalg.solve(system, right)
            dx, d_multiplier = solution[:m], solution[m:]
            d_slack = -residual_in - G @ dx
            d_dual = -(complementarity + dual * d_slack) / slack
            if corrector == 0:
                length = min(
                    longest_step(slack, d_slack, 1.0 / shorten),
                    longest_step(dual, d_dual, 1.0 / shorten),
                )
                ahead = ((slack + length * d_slack) @ (dual + length * d_dual)) / k
                centring = (ahead / mu) ** 3 * mu
                complementarity = slack * dual + d_slack * d_dual - centring
        length = shorten * min(
            longest_step(slack, d_slack, 1.0 / shorten), longest_step(dual, d_dual, 1.0 / shorten)
        )
        length = min(1.0, length)
        x = x + length * dx
        slack = slack + length * d_slack
        dual = dual + length * d_dual
        multiplier = multiplier + length * d_multiplier
    return x, slack, dual
