"""The linear algebra of a face step: the optimum over the free samples of the SVM dual."""

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cholesky, solve_triangular

Floats = NDArray[np.float64]

MAX_DROPS = 4


def face_optimum(
    K: Floats, f: Floats, start: Floats, lower: Floats, upper: Floats
) -> Floats | None:
    """Return the optimum over free samples with the sum kept, or None where there is none."""
    n = len(start)
    target = start.copy()
    inside = np.arange(n)
    for _ in range(MAX_DROPS):
        held = np.ones(n, dtype=np.bool_)
        held[inside] = False
        shift = np.where(held, target - start, 0.0)
        whole = len(inside) == n
        block = K if whole else K[np.ix_(inside, inside)]
        right = f[inside] - (0.0 if whole else K[inside] @ shift)
        step = _solve_sum_constrained(block, right, -float(shift.sum()))
        if step is None:
            return None
        target[inside] = start[inside] + step
        out = (target < lower) | (target > upper)
        if not out.any():
            return target
        target[out] = np.clip(target[out], lower[out], upper[out])
        inside = inside[~out[inside]]
        if len(inside) < 2:
            return None
    return None


def jittered_cholesky(K: Floats) -> Floats | None:
    """Return the lower Cholesky factor of K plus the least jitter that works, or None."""
    mean_diagonal = float(np.trace(K)) / len(K)
    if not mean_diagonal > 0.0:
        return None
    jitter = 1e-12 * mean_diagonal
    while jitter < 1e-2 * mean_diagonal:
        shifted = K.copy()
        shifted.flat[:: len(K) + 1] += jitter
        try:
            return cholesky(shifted, lower=True, overwrite_a=True, check_finite=False)
        except LinAlgError:
            jitter *= 100.0
    return None


def _solve_sum_constrained(K: Floats, right: Floats, total: float) -> Floats | None:
    """Solve ``K x = right + multiplier`` with ``sum(x) = total``, refined against the jitter."""
    factor = jittered_cholesky(K)
    if factor is None:
        return None
    ones = np.ones(len(K))

    def solve(v: Floats) -> Floats:
        half = solve_triangular(factor, v, lower=True, check_finite=False)
        return solve_triangular(factor, half, lower=True, trans=1, check_finite=False)

    inverse_ones = solve(ones)
    denominator = float(inverse_ones.sum())
    x = np.zeros(len(K))
    residual = right
    missing = total
    for _ in range(3):
        step = solve(residual)
        x += step + (missing - step.sum()) / denominator * inverse_ones
        residual = right - K @ x
        residual -= residual.mean()
        missing = total - float(x.sum())
    return x if np.isfinite(x).all() else None
