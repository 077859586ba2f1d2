r"""The SVM dual by an interior point method, for problems on which SMO does not settle.

.. math:: \max_x \; f'x - \tfrac12 x'Kx, \qquad \sum_i x_i = 0, \quad l \le x \le u

with :math:`l \le 0 \le u`. SMO takes the longer the larger penalties are in units of the kernel,
and may take forever if the kernel has a low rank; the steps of Mehrotra's predictor-corrector
method [1]_ are some thirty whatever the units. Each is one Cholesky factorisation of
:math:`I + D^{-1/2} K D^{-1/2}`, whose eigenvalues are at least one.

References
----------
.. [1] S. Mehrotra, "On the implementation of a primal-dual interior point method", SIAM Journal on
   Optimization 2(4), 1992.
"""

from collections.abc import Callable

import numpy as np
from scipy.linalg import lapack

from kernelquilt._typing import Floats

Solve = Callable[[Floats, float], tuple[Floats, float]]
MAX_STEPS = 60
ROUNDING = 1e-15  # complementarity of a sample, in units of the linear term, that counts as none
TO_THE_BOUND = 0.995  # share of the way to the nearest bound that a step may go
SHORT = 1e-8  # a step that leads nowhere
NEAR = 1e-6  # distance to a bound, in units of the largest, that may be the method's own


@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def interior_point(K: Floats, f: Floats, lower: Floats, upper: Floats) -> Floats:
    """Return a point near the optimum, at a bound where the optimum is there.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        Kernel, positive semi-definite to rounding.
    f : ndarray of shape (n,)
        Linear term.
    lower, upper : ndarrays of shape (n,)
        Bounds, ``lower < upper`` and 0 between them.

    Returns
    -------
    ndarray of shape (n,)
        Within the bounds; its sum is zero as nearly as the method got. Zeros where numbers leave
        their range.
    """
    width = upper - lower
    # in units of the boxes and of the linear term: x = lower + width v, 0 <= v <= 1
    unit = float(np.abs(f * width).max())
    Q = K * (width / unit) * width[:, np.newaxis]
    c = (f - K @ lower) * width / unit
    a, total = width / width.max(), -float(lower.sum()) / float(width.max())
    v = np.full(len(f), 0.5)
    room = 1.0 - v  # kept beside v, as it may be less than rounding lets v tell
    z, w, multiplier = np.ones(len(f)), np.ones(len(f)), 0.0  # of v >= 0, v <= 1 and the sum
    for _ in range(MAX_STEPS):
        residual = c - Q @ v + z - w - multiplier * a
        mean_gap = float(z @ v + w @ room) / (2 * len(v))
        if mean_gap <= ROUNDING:
            break
        solve = _newton_system(Q, z / v + w / room, a)
        if solve is None:
            break
        state = v, room, z, w
        right = residual, total - float(a @ v)
        dv, dz, dw, _ = _direction(solve, state, right, -z * v, -w * room)
        length = _longest((v, dv), (room, -dv), (z, dz), (w, dw))
        ahead = (z + length * dz) @ (v + length * dv) + (w + length * dw) @ (room - length * dv)
        target = float(ahead / (2 * len(v) * mean_gap)) ** 3 * mean_gap
        to_z, to_w = target - z * v - dz * dv, target - w * room + dw * dv
        dv, dz, dw, step = _direction(solve, state, right, to_z, to_w)
        length = TO_THE_BOUND * _longest((v, dv), (room, -dv), (z, dz), (w, dw))
        if length < SHORT:
            break
        v, room = v + length * dv, room - length * dv
        z, w = z + length * dz, w + length * dw
        multiplier += length * step
    if not np.isfinite(v).all():
        return np.zeros(len(f))
    # what its multiplier holds at a bound is put there
    at_lower = (z > v) & (v <= NEAR * v.max())
    at_upper = (w > room) & (room <= NEAR * room.max())
    v = np.where(at_lower, 0.0, np.where(at_upper, 1.0, v))
    return np.clip(lower + width * v, lower, upper)


def _direction(
    solve: Solve,
    state: tuple[Floats, Floats, Floats, Floats],
    right: tuple[Floats, float],
    to_z: Floats,
    to_w: Floats,
) -> tuple[Floats, Floats, Floats, float]:
    """Return the changes of v, z, w and of the multiplier that change z v and w room as asked."""
    v, room, z, w = state
    dv, step = solve(right[0] + to_z / v - to_w / room, right[1])
    return dv, (to_z - z * dv) / v, (to_w + w * dv) / room, step


def _newton_system(Q: Floats, D: Floats, a: Floats) -> Solve | None:
    """Return the solver of ``(Q + diag(D)) x + a t = r, a'x = s``, or None if there is none."""
    scale = 1.0 / np.sqrt(D)
    system = Q * scale * scale[:, np.newaxis]
    system.flat[:: len(a) + 1] += 1.0
    factor, failed = lapack.dpotrf(system.T, lower=1, overwrite_a=1)
    if failed:
        return None

    def inverse(r: Floats) -> Floats:
        return np.asarray(scale * lapack.dpotrs(factor, scale * r, lower=1)[0])

    of_a = inverse(a)
    size = float(a @ of_a)

    def solve(r: Floats, s: float) -> tuple[Floats, float]:
        x = inverse(r)
        t = (float(a @ x) - s) / size
        return x - t * of_a, t

    return solve


def _longest(*ways: tuple[Floats, Floats]) -> float:
    """Return the longest step, 1 at most, along which all pairs (value, change) stay positive."""
    shares = [float(np.max(-change / value)) for value, change in ways]
    return 1.0 / max(1.0, *shares)
