"""The linear algebra of a face step: the optimum over the free samples of the SVM dual.

Kernels of low rank leave directions among the free samples along which the dual is linear. The
optimum then lies at a bound: `slide` follows these directions to their end, and only what stays
free after that is a system of equations.
"""

import numpy as np
from scipy.linalg import lapack
from scipy.optimize import linprog

from kernelquilt._typing import Floats

MAX_DROPS = 4
RANK_TOLERANCE = 1e-11  # in units of the largest diagonal entry


def face_optimum(K: Floats, f: Floats, start: Floats, lower: Floats, upper: Floats) -> Floats:
    """Return the optimum over the free samples with the sum kept, or the best point on the way.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        Kernel of the free samples.
    f : ndarray of shape (n,)
        Negative gradient at `start`.
    start, lower, upper : ndarrays of shape (n,)
        Where the samples are, strictly between their bounds.
    """

    def gain(point: Floats) -> float:
        steps = point - start
        return float(f @ steps - 0.5 * steps @ K @ steps)

    target, reached = _towards_optimum(K, f, start, lower, upper)
    # a nearly singular system may send the samples anywhere within their bounds
    if reached and gain(target) > 0.0:
        return target
    flat = slide(low_rank_factor(K), f, start, lower, upper)
    further, _ = _towards_optimum(K, f - K @ (flat - start), flat, lower, upper)
    return max((start, target, flat, further), key=gain)


def _towards_optimum(
    K: Floats, f: Floats, start: Floats, lower: Floats, upper: Floats
) -> tuple[Floats, bool]:
    """Return the optimum and True, or where the way there first meets a bound and False.

    Samples that the optimum sends beyond a bound are put there, and the rest is solved again.
    """
    inside = np.flatnonzero((start > lower) & (start < upper))
    held = np.zeros(len(start))
    on_the_way = start
    for attempt in range(MAX_DROPS):
        if len(inside) < 2:
            break
        block = K if len(inside) == len(K) else K[np.ix_(inside, inside)]
        right = f[inside] - K[inside] @ held if attempt else f[inside]
        free = _solve_sum_constrained(block, right, -float(held.sum()))
        if free is None:
            break
        steps = held.copy()
        steps[inside] = free
        out = (start + steps < lower) | (start + steps > upper)
        if not out.any():
            return start + steps, True
        if attempt == 0:
            room = np.where(free > 0, (upper - start)[inside], (start - lower)[inside])
            moves = np.abs(free)
            length = float(np.min(room[moves > 0] / moves[moves > 0], initial=1.0))
            on_the_way = np.clip(start + length * steps, lower, upper)
        held[out] = np.clip(start + steps, lower, upper)[out] - start[out]
        inside = inside[~out[inside]]
    return on_the_way, False


def low_rank_factor(K: Floats) -> Floats:
    """Return G of shape (n, rank) with ``G G' = K`` to rounding, by pivoted Cholesky."""
    tolerance = RANK_TOLERANCE * float(np.diagonal(K).max())
    factor, pivots, rank, _ = lapack.dpstrf(K, tol=tolerance, lower=1)
    G = np.zeros((len(K), rank))
    G[pivots - 1] = np.tril(factor)[:, :rank]
    return G


def slide(G: Floats, f: Floats, start: Floats, lower: Floats, upper: Floats) -> Floats:
    """Go as far as directions lead that change neither the kernel products nor the sum.

    Along ``d`` with ``G'd = 0`` and ``sum(d) = 0`` the dual rises by ``f'd``, `f` stays the same.
    The best such ``d`` within the bounds is a linear programme, whose solution leaves no more
    samples free than G has columns, and one.
    """
    if len(start) <= G.shape[1] + 1:
        return start
    unit = float((upper - lower).max())
    basis, _ = np.linalg.qr(np.column_stack([G, np.ones(len(start))]))
    bounds = np.column_stack([lower - start, upper - start]) / unit
    result = linprog(-f, A_eq=basis.T, b_eq=np.zeros(basis.shape[1]), bounds=bounds)
    if result.x is None:
        return start
    steps = np.clip(unit * result.x, lower - start, upper - start)
    edge = 1e-7 * (upper - lower)
    at_lower, at_upper = start + steps - lower <= edge, upper - start - steps <= edge
    steps = np.where(at_lower, lower - start, np.where(at_upper, upper - start, steps))
    free = ~(at_lower | at_upper)
    # the programme is solved to a tolerance; the free samples make up for it
    excess = basis.T @ steps
    steps[free] -= np.linalg.lstsq(basis[free].T, excess, rcond=None)[0]
    return np.clip(start + steps, lower, upper)


def jittered_cholesky(K: Floats) -> Floats | None:
    """Return the lower Cholesky factor of K plus the least jitter that works, or None."""
    mean_diagonal = float(np.trace(K)) / len(K)
    if not mean_diagonal > 0.0:
        return None
    jitter = 1e-12 * mean_diagonal
    while jitter < 1e-2 * mean_diagonal:
        shifted = K.copy()
        shifted.flat[:: len(K) + 1] += jitter
        # straight to LAPACK: for some ten samples scipy's checks take longer than the algebra
        factor, failed = lapack.dpotrf(shifted.T, lower=1, overwrite_a=1)
        if not failed:
            return np.asarray(factor)
        jitter *= 100.0
    return None


def _solve_sum_constrained(K: Floats, right: Floats, total: float) -> Floats | None:
    """Solve ``K x = right + multiplier`` with ``sum(x) = total``, refined against the jitter."""
    # a constant added to K only changes the multiplier, and helps where the rank is one short
    factor = jittered_cholesky(K + float(np.trace(K)) / len(K))
    if factor is None:
        return None
    ones = np.ones(len(K))

    def solve(v: Floats) -> Floats:
        return np.asarray(lapack.dpotrs(factor, v, lower=1)[0])

    inverse_ones = solve(ones)
    denominator = float(inverse_ones.sum())
    x = np.zeros(len(K))
    residual = right - right.mean()
    missing = total
    for _ in range(3):
        step = solve(residual)
        x += step + (missing - step.sum()) / denominator * inverse_ones
        residual = right - K @ x
        residual -= residual.mean()
        missing = total - float(x.sum())
    return x if np.isfinite(x).all() else None
