"""The compiled loops of the small programmes in the weights: simplex and interior point method.

Like :mod:`kernelquilt.core.svm.compiled`, imported by the functions that need it.
"""

import numpy as np

from kernelquilt.core.svm.compiled import BIG, compiled

PIVOT = 1e-10  # entries below are no pivots
REDUCED_COST = 1e-12  # at which a variable is worth entering
MANY = 2**14  # entries of G from which a matrix product pays
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
def _solve_factored(factor, b):  # type: ignore[no-untyped-def]
    """Solve ``L L' x = b`` in place."""
    m = b.shape[0]
    for i in range(m):
        total = b[i]
        for j in range(i):
            total -= factor[i, j] * b[j]
        b[i] = total / factor[i, i]
    for i in range(m - 1, -1, -1):
        b[i] /= factor[i, i]
        value = b[i]
        for j in range(i):
            b[j] -= factor[i, j] * value


@compiled
def _longest(values, steps, limit):  # type: ignore[no-untyped-def]
    """Return the longest step up to `limit` that keeps all values non-negative."""
    for i in range(values.shape[0]):
        if steps[i] < 0.0 and values[i] < -limit * steps[i]:
            limit = values[i] / -steps[i]
    return limit


@compiled
def _normal_matrix(H, G, scale, out):  # type: ignore[no-untyped-def]
    """Write ``H + G' diag(scale) G`` to `out`, with a ridge; rows of G may be mostly zero."""
    k, m = G.shape
    if k * m > MANY:
        scaled = np.empty((k, m))
        for i in range(k):
            for j in range(m):
                scaled[i, j] = scale[i] * G[i, j]
        out[:, :] = np.dot(G.T, scaled)
        for a in range(m):
            for b in range(m):
                out[a, b] += H[a, b]
    else:
        places = np.empty(m, dtype=np.int64)
        for a in range(m):
            for b in range(m):
                out[a, b] = H[a, b]
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
    for a in range(m):
        out[a, a] += 1e-14 * (1.0 + out[a, a])


@compiled
def _residuals(H, c, G, h, a, b, x, slack, dual, nu, out_dual, out_in):  # type: ignore[no-untyped-def]
    """Write the residuals of stationarity and inequalities; return the largest of all, and two."""
    k, m = G.shape
    largest = 0.0
    for j in range(m):
        total = c[j] + a[j] * nu
        for i in range(m):
            total += H[j, i] * x[i]
        out_dual[j] = total
    gap = 0.0
    for i in range(k):
        total = slack[i] - h[i]
        for j in range(m):
            total += G[i, j] * x[j]
            out_dual[j] += G[i, j] * dual[i]
        out_in[i] = total
        largest = max(largest, abs(total))
        gap += slack[i] * dual[i]
    equality = -b
    for j in range(m):
        equality += a[j] * x[j]
        largest = max(largest, abs(out_dual[j]))
    return max(largest, abs(equality), gap / k), gap / k, equality


@compiled
def _direction(G, a, factor, pulled, slack, dual, r_dual, r_in, r_eq, comp, dx, ds, dz):  # type: ignore[no-untyped-def]
    """Write the step of x, slacks and multipliers; return that of the equality's multiplier."""
    k, m = G.shape
    for j in range(m):
        dx[j] = -r_dual[j]
    for i in range(k):
        value = (dual[i] * r_in[i] - comp[i]) / slack[i]
        for j in range(m):
            dx[j] -= G[i, j] * value
    _solve_factored(factor, dx)
    step = 0.0
    along = 0.0
    for j in range(m):
        step += a[j] * dx[j]
        along += a[j] * pulled[j]
    nu = (step + r_eq) / along if along > 0.0 else 0.0
    for j in range(m):
        dx[j] -= nu * pulled[j]
    for i in range(k):
        total = -r_in[i]
        for j in range(m):
            total -= G[i, j] * dx[j]
        ds[i] = total
        dz[i] = -(comp[i] + dual[i] * total) / slack[i]
    return nu


@compiled
def interior_point(H, c, G, h, a, b, tolerance, shorten, max_iter):  # type: ignore[no-untyped-def]
    """Minimise ``x'Hx / 2 + c'x`` over ``G x <= h, a'x = b`` by Mehrotra's predictor-corrector.

    Returns the primal point, the slacks and the multipliers of the inequalities; there is no
    equality if `a` is zero. Ends early where rounding leaves no step.
    """
    k, m = G.shape
    x, slack, dual, nu = np.zeros(m), np.maximum(h, 1.0), np.ones(k), 0.0
    r_dual, r_in, comp, scale = np.empty(m), np.empty(k), np.empty(k), np.empty(k)
    dx, ds, dz = np.empty(m), np.empty(k), np.empty(k)
    matrix = np.empty((m, m))
    for _ in range(max_iter):
        worst, mu, r_eq = _residuals(H, c, G, h, a, b, x, slack, dual, nu, r_dual, r_in)
        if worst < tolerance:
            break
        for i in range(k):
            scale[i] = dual[i] / slack[i]
            comp[i] = slack[i] * dual[i]
        _normal_matrix(H, G, scale, matrix)
        solved = True
        factor = matrix
        try:
            factor = np.linalg.cholesky(matrix)
        except Exception:
            solved = False
        if not solved:
            break
        pulled = a.copy()
        _solve_factored(factor, pulled)
        _direction(G, a, factor, pulled, slack, dual, r_dual, r_in, r_eq, comp, dx, ds, dz)
        length = min(_longest(slack, ds, 1.0 / shorten), _longest(dual, dz, 1.0 / shorten))
        ahead = 0.0
        for i in range(k):
            ahead += (slack[i] + length * ds[i]) * (dual[i] + length * dz[i]) / k
        centring = (ahead / mu) ** 3 * mu
        for i in range(k):
            comp[i] += ds[i] * dz[i] - centring
        d_nu = _direction(G, a, factor, pulled, slack, dual, r_dual, r_in, r_eq, comp, dx, ds, dz)
        length = min(_longest(slack, ds, 1.0 / shorten), _longest(dual, dz, 1.0 / shorten))
        length = min(1.0, shorten * length)
        for j in range(m):
            x[j] += length * dx[j]
        for i in range(k):
            slack[i] += length * ds[i]
            dual[i] += length * dz[i]
        nu += length * d_nu
    return x, slack, dual
