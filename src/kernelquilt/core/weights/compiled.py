"""The small linear programme in the weights, compiled.

By hand because a call of HiGHS takes longer than many of these programmes
(``benchmarks/programmes.py``). Like :mod:`kernelquilt.core.svm.compiled`, imported by the functions
that need it.
"""

import numpy as np

from kernelquilt.core.svm.compiled import BIG, compiled

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
