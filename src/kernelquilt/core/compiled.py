"""The compiled loops: combining kernel rows, SMO and sums over one dual, the simplex method.

For some hundred samples the small arrays that numpy makes on the way take longer than the rest of a
solve, which is why sums and comparisons over the samples of a dual are here too.
Importing this module imports numba, so it is imported by the functions that need it and never at
package import. All loops are single-threaded and release the GIL. Reductions go through LLVM's
``maxnum``/``minnum`` because a comparison in Python syntax does not vectorise, and run over whole
arrays, slices where blocks are wanted: between computed ends some processors get scalar code.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import config, njit, types
from numba.extending import intrinsic

from kernelquilt.core.svm.dual import AT_BOUND

FAST = {"nnan", "nsz", "arcp", "contract", "reassoc"}
BIG = 1e300  # stands for infinity, which FAST would be allowed to ignore
BLOCK = 256
MIN_CURVATURE = 1e-12  # in units of the largest diagonal entry
INTERPRETED: bool = getattr(config, "DISABLE_JIT", False)
PIVOT = 1e-10  # entries below are no pivots
REDUCED_COST = 1e-12  # at which a variable is worth entering
PERTURBATION = 1e-11  # of the right-hand sides, so that ties are rare


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile on first call, cached on disk where a cache directory can be written."""
    options: Any = {"nogil": True, "fastmath": FAST, "error_model": "numpy"}
    try:
        return njit(cache=True, **options)(function)
    except RuntimeError:  # numba found no writable place for its cache
        return njit(**options)(function)


def inlined(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function part of those that call it, for sums over samples.

    Compiled by itself it would be part of them or not, depending on what the cache has when they
    are compiled, and sums would have other last bits.
    """
    return njit(inline="always", nogil=True, fastmath=FAST, error_model="numpy")(function)


def _float_reduction(name: str) -> Any:
    @intrinsic
    def reduction(typing_context: Any, a: Any, b: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            double = ir.DoubleType()
            kind = ir.FunctionType(double, [double, double])
            function = builder.module.declare_intrinsic(name, [double], kind)
            return builder.call(function, arguments, fastmath=("nnan", "nsz"))

        return types.float64(types.float64, types.float64), generate

    return reduction


_max: Any = max if INTERPRETED else _float_reduction("llvm.maxnum")
_min: Any = min if INTERPRETED else _float_reduction("llvm.minnum")


@compiled
def present_rows(K):  # type: ignore[no-untyped-def]
    """Return which rows of the kernels are not zero, (M, n)."""
    present = np.empty(K.shape[:2], dtype=np.bool_)
    for p in range(K.shape[0]):
        for i in range(K.shape[1]):
            size = abs(K[p, i, i])
            if size == 0.0:  # that of most rows is told by one entry
                for k in range(K.shape[2]):
                    size += abs(K[p, i, k])
            present[p, i] = size != 0.0
    return present


@compiled
def combine_row(K, active, weights, present, i, out):  # type: ignore[no-untyped-def]
    """Write row i of ``sum_p weights[p] K[p]`` over the active kernels into `out`."""
    n = out.shape[0]
    for k in range(n):
        out[k] = 0.0
    for a in range(active.shape[0]):
        p = active[a]
        if present[p, i]:
            weight = weights[p]
            for k in range(n):
                out[k] += weight * K[p, i, k]


@compiled
def combine_rows(  # type: ignore[no-untyped-def]
    K, active, weights, present, wanted, have, combined
):
    """Combine those `wanted` rows that `combined` does not have yet; return how many were new."""
    new = 0
    for r in range(wanted.shape[0]):
        i = wanted[r]
        if not have[i]:
            combine_row(K, active, weights, present, i, combined[i])
            have[i] = True
            new += 1
    return new


@compiled
def combine_gated(K, gates, out):  # type: ignore[no-untyped-def]
    """Write ``sum_m gates[m, i] gates[m, j] K[m, i, j]`` into `out`."""
    n = out.shape[0]
    for i in range(n):
        for j in range(n):
            out[i, j] = 0.0
        for m in range(K.shape[0]):
            gate = gates[m, i]
            if gate != 0.0:
                for j in range(n):
                    out[i, j] += (gate * gates[m, j]) * K[m, i, j]


@compiled
def accumulate_rows(K, rows, steps, products):  # type: ignore[no-untyped-def]
    """Add ``sum_r steps[r] K[p, rows[r], :]`` to ``products[p]`` for every kernel p."""
    n = products.shape[1]
    whole = rows.shape[0] - rows.shape[0] % 4
    for p in range(K.shape[0]):
        for r in range(0, whole, 4):
            i0, i1, i2, i3 = rows[r], rows[r + 1], rows[r + 2], rows[r + 3]
            s0, s1, s2, s3 = steps[r], steps[r + 1], steps[r + 2], steps[r + 3]
            for k in range(n):
                products[p, k] += (s0 * K[p, i0, k] + s1 * K[p, i1, k]) + (
                    s2 * K[p, i2, k] + s3 * K[p, i3, k]
                )
        for r in range(whole, rows.shape[0]):
            i0, s0 = rows[r], steps[r]
            for k in range(n):
                products[p, k] += s0 * K[p, i0, k]


@compiled
def accumulate_present(K, present, rows, steps, products):  # type: ignore[no-untyped-def]
    """Do the same without the rows that are zero."""
    own_rows = np.empty_like(rows)
    own_steps = np.empty_like(steps)
    for p in range(K.shape[0]):
        count = 0
        for r in range(rows.shape[0]):
            if present[p, rows[r]]:
                own_rows[count] = rows[r]
                own_steps[count] = steps[r]
                count += 1
        accumulate_rows(K[p : p + 1], own_rows[:count], own_steps[:count], products[p : p + 1])


@compiled
def _rise(b, upper, tube):  # type: ignore[no-untyped-def]
    """Return what the tube adds to `f` for a dual that goes up; -BIG if it may not."""
    if b >= upper:
        return -BIG
    return tube if b < 0.0 else -tube


@compiled
def _fall(b, lower, tube):  # type: ignore[no-untyped-def]
    """Return what the tube adds to `f` for a dual that goes down; BIG if it may not."""
    if b <= lower:
        return BIG
    return -tube if b > 0.0 else tube


@compiled
def _extremes(f, up_off, down_off):  # type: ignore[no-untyped-def]
    """Return ``max f[up]`` and ``min f[down]``."""
    f_up = -BIG
    f_down = BIG
    for k in range(f.shape[0]):
        f_up = _max(f_up, f[k] + up_off[k])
        f_down = _min(f_down, f[k] + down_off[k])
    return f_up, f_down


@compiled
def _ends(f, up_off, down_off):  # type: ignore[no-untyped-def]
    """Return ``max f[up]`` and ``min f[down]``, and where the block begins that has the first."""
    f_up = -BIG
    f_down = BIG
    best_block = 0
    for start in range(0, f.shape[0], BLOCK):
        part = slice(start, start + BLOCK)
        block_up, block_down = _extremes(f[part], up_off[part], down_off[part])
        f_down = min(f_down, block_down)
        if block_up > f_up:
            f_up = block_up
            best_block = start
    return f_up, f_down, best_block


@compiled
def _gains(f, f_up, down_off, diag, diag_i, row_i, least, gain):  # type: ignore[no-untyped-def]
    """Write the second-order decreases into `gain`, and return the largest."""
    largest = -1.0
    for k in range(f.shape[0]):
        violation = _max(0.0, f_up - f[k] - down_off[k])
        curvature = _max(least, diag_i + diag[k] - 2.0 * row_i[k])
        gain[k] = violation * violation / curvature
        largest = _max(largest, gain[k])
    return largest


@compiled
def _partner(f, f_up, down_off, diag, diag_i, row_i, least, gain):  # type: ignore[no-untyped-def]
    """Return the j that may go down with the largest second-order decrease."""
    best_gain = -1.0
    j = 0
    for start in range(0, f.shape[0], BLOCK):
        part = slice(start, start + BLOCK)
        largest = _gains(
            f[part], f_up, down_off[part], diag[part], diag_i, row_i[part], least, gain[part]
        )
        if largest > best_gain:
            best_gain = largest
            j = start
    while gain[j] < best_gain:
        j += 1
    return j


@compiled
def smo(  # type: ignore[no-untyped-def]
    combined, have, K, active, weights, present, diag, lower, upper, tube, b, f, tol, max_iter
):
    """Run SMO on ``min 1/2 b'Kb - s'b + tube'|b|, sum(b) = const, lower <= b <= upper`` in place.

    `f` is ``s - Kb``, the negative gradient without the tube. The working set is the most violating
    index i that may go up and the j that may go down with the largest second-order decrease; a step
    ends where one of them meets a bound, or zero if it has a tube. Rows of the combined kernel are
    built when they are first needed. Returns the number of iterations, the violation
    ``max f[up] - min f[down]``, the tube counted, and the number of rows built.
    """
    n = b.shape[0]
    up_off = np.empty(n)
    down_off = np.empty(n)
    gain = np.empty(n)
    least = 1.0 / BIG
    for k in range(n):
        up_off[k] = _rise(b[k], upper[k], tube[k])
        down_off[k] = _fall(b[k], lower[k], tube[k])
        least = max(least, MIN_CURVATURE * diag[k])
    f_up, f_down, best_block = _ends(f, up_off, down_off)
    iteration = 0
    built = 0
    while f_up - f_down > tol and f_up > -BIG / 2 and f_down < BIG / 2 and iteration < max_iter:
        iteration += 1
        i = best_block
        while f[i] + up_off[i] < f_up:
            i += 1
        if not have[i]:
            combine_row(K, active, weights, present, i, combined[i])
            have[i] = True
            built += 1
        row_i = combined[i]
        j = _partner(f, f_up, down_off, diag, diag[i], row_i, least, gain)
        if not have[j]:
            combine_row(K, active, weights, present, j, combined[j])
            have[j] = True
            built += 1
        row_j = combined[j]

        slope = f_up - f[j] - down_off[j]
        step = slope / _max(least, diag[i] + diag[j] - 2.0 * row_i[j])
        end_up = 0.0 if b[i] < 0.0 and tube[i] > 0.0 else upper[i]
        end_down = 0.0 if b[j] > 0.0 and tube[j] > 0.0 else lower[j]
        room_up = end_up - b[i]
        room_down = b[j] - end_down
        step = min(step, room_up, room_down)
        b[i] = end_up if step >= room_up else b[i] + step
        b[j] = end_down if step >= room_down else b[j] - step
        for k in (i, j):
            up_off[k] = _rise(b[k], upper[k], tube[k])
            down_off[k] = _fall(b[k], lower[k], tube[k])
        for k in range(n):
            f[k] -= step * (row_i[k] - row_j[k])
        f_up, f_down, best_block = _ends(f, up_off, down_off)
    return iteration, f_up - f_down, built


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
def face(b, f, lower, upper, tube):  # type: ignore[no-untyped-def]
    """Return of the free duals the indices, values and slopes, and bounds up to their kinks."""
    found = np.empty(b.shape[0], dtype=np.int64)
    values = np.empty((4, b.shape[0]))
    count = 0
    for i in range(b.shape[0]):
        _, _, rise, _, free = _side(b[i], f[i], lower[i], upper[i], tube[i])
        if free:
            found[count] = i
            values[0, count] = b[i]
            values[1, count] = rise
            values[2, count] = 0.0 if tube[i] > 0.0 and b[i] > 0.0 else lower[i]
            values[3, count] = 0.0 if tube[i] > 0.0 and b[i] < 0.0 else upper[i]
            count += 1
    return found[:count], values[0, :count], values[1, :count], values[2, :count], values[3, :count]


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
def shifted(K, constant, jitter):  # type: ignore[no-untyped-def]
    """Return K plus a constant, and more on the diagonal."""
    n = K.shape[0]
    out = np.empty((n, n))
    for i in range(n):
        for j in range(n):
            out[i, j] = K[i, j] + constant
        out[i, i] += jitter
    return out


@compiled
def gain_of_step(K, f, start, steps, lower, upper):  # type: ignore[no-untyped-def]
    """Return whether a step stays within the bounds, its slope f'x and its curvature x'Kx."""
    within = True
    slope = 0.0
    curvature = 0.0
    for i in range(steps.shape[0]):
        end = start[i] + steps[i]
        within = within and end >= lower[i] and end <= upper[i]
        row, product = K[i], 0.0
        for k in range(steps.shape[0]):
            product += row[k] * steps[k]
        slope += f[i] * steps[i]
        curvature += steps[i] * product
    return within, slope, curvature


@compiled
def take_step(combined, indices, steps, ends, b, f):  # type: ignore[no-untyped-def]
    """Set ``b[indices]`` to the `ends` of steps, and take what their rows add away from f."""
    for r in range(indices.shape[0]):
        i, step = indices[r], steps[r]
        b[i] = ends[r]
        row = combined[i]
        for k in range(f.shape[0]):
            f[k] -= step * row[k]


@inlined
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
