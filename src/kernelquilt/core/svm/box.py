"""The feasible set of the SVM dual: a box, with a kink at zero where there is a tube.

Signed duals ``b`` lie between ``lower`` and ``upper`` and sum to zero; ``f = s - Kb`` is the
gradient of the dual without the tube (:mod:`kernelquilt.core.svm.smo`).
"""

import numpy as np

from kernelquilt._typing import Bools, Floats

AT_BOUND = 1e-12  # distance to a bound, in units of the box, that counts as rounding


def may_move(b: Floats, lower: Floats, upper: Floats) -> tuple[Bools, Bools]:
    """Return which duals may go up and which may go down; those at a bound to rounding may not."""
    edge = AT_BOUND * (upper - lower)
    return upper - b > edge, b - lower > edge


def slopes(
    b: Floats, f: Floats, lower: Floats, upper: Floats, tube: Floats | None
) -> tuple[Floats, Floats]:
    """Return what each dual gains by going up, and loses by going down; the same but at a kink."""
    if tube is None:
        return f, f
    edge = AT_BOUND * (upper - lower)
    return f + np.where(b < -edge, tube, -tube), f + np.where(b > edge, -tube, tube)


def free_duals(b: Floats, lower: Floats, upper: Floats, tube: Floats | None = None) -> Bools:
    """Return which duals are neither at a bound nor at a kink."""
    up, down = may_move(b, lower, upper)
    if tube is None:
        return up & down
    return up & down & ((tube == 0.0) | (np.abs(b) > AT_BOUND * (upper - lower)))


def face_bounds(
    b: Floats, lower: Floats, upper: Floats, tube: Floats | None
) -> tuple[Floats, Floats]:
    """Return bounds within which no dual passes its kink."""
    if tube is None:
        return lower, upper
    kinked = tube > 0
    return np.where(kinked & (b >= 0), 0.0, lower), np.where(kinked & (b <= 0), 0.0, upper)


def kkt_interval(
    b: Floats, f: Floats, lower: Floats, upper: Floats, tube: Floats | None = None
) -> tuple[float, float]:
    """Return ``max f[up]`` and ``min f[down]``; -inf and inf where nothing may move."""
    up, down = may_move(b, lower, upper)
    rise, fall = slopes(b, f, lower, upper, tube)
    return (
        float(np.max(rise, where=up, initial=-np.inf)),
        float(np.min(fall, where=down, initial=np.inf)),
    )


def bias(b: Floats, f: Floats, lower: Floats, upper: Floats, tube: Floats | None = None) -> float:
    """Return the mean of ``f`` over the free samples, else the middle of the KKT interval."""
    free = free_duals(b, lower, upper, tube)
    if free.any():
        return float(slopes(b, f, lower, upper, tube)[0][free].mean())
    ends = [end for end in kkt_interval(b, f, lower, upper, tube) if np.isfinite(end)]
    return float(np.mean(ends)) if ends else 0.0


def signed_bounds(y: Floats, U: Floats) -> tuple[Floats, Floats]:
    """Return lower and upper bounds of the signed duals."""
    return np.where(y > 0, 0.0, -U), np.where(y > 0, U, 0.0)


def feasible_start(b: Floats, lower: Floats, upper: Floats) -> Floats:
    """Clip to the box and repair ``sum(b) = 0`` by shrinking the heavier class."""
    b = np.clip(b, lower, upper)
    positive, negative = b[b > 0].sum(), -b[b < 0].sum()
    scale = min(positive, negative) / max(positive, negative, 1e-300)
    if abs(positive - negative) > 1e-14 * max(positive, negative):
        b = np.where(b > 0 if positive > negative else b < 0, scale * b, b)
    return b


def tube_cost(b: Floats, tube: Floats | None) -> float:
    """Return what the tube takes away from the dual value of duals (n,) or (L, n)."""
    return 0.0 if tube is None else float(np.sum(np.abs(b) * tube))


def box_gap(
    b: Floats,
    f: Floats,
    lower: Floats,
    upper: Floats,
    intercept: float,
    tube: Floats | None = None,
) -> float:
    """Return the primal minus the dual value, as a sum of terms none of which is negative.

    A sample is off by ``f - intercept``. What this is above the tube costs ``upper``, what it is
    below costs ``-lower``, whatever the kernel and however exact the duals.
    """
    width = 0.0 if tube is None else tube
    above, below = f - intercept - width, intercept - f - width
    losses = upper * np.maximum(above, 0.0) - lower * np.maximum(below, 0.0)
    return float(np.sum(losses - np.maximum(b, 0.0) * above - np.maximum(-b, 0.0) * below))


def best_bias(
    f: Floats, lower: Floats, upper: Floats, tube: Floats | None = None
) -> tuple[float, float]:
    """Return the bias with the smallest loss, in the middle of where there are many, and the loss.

    The loss is ``sum_i max(upper_i (f_i - bias), lower_i (f_i - bias))``, what is beyond the tube
    counting.
    """
    if tube is not None:  # two samples at its ends, each with a loss on one side
        f = np.concatenate([f - tube, f + tube])
        nothing = np.zeros(len(tube))
        lower, upper = np.concatenate([nothing, lower]), np.concatenate([upper, nothing])
    used = np.flatnonzero(upper > lower)
    if len(used) == 0:
        return 0.0, 0.0
    order = used[np.argsort(f[used], kind="stable")]
    ordered = f[order]
    room = (upper - lower)[order]
    slope = np.cumsum(room) - float(upper[order].sum())
    flat = 1e-13 * float(room.sum())
    first = min(int(np.searchsorted(slope, -flat)), len(order) - 1)
    last = min(int(np.searchsorted(slope, flat, side="right")), len(order) - 1)
    bias = 0.5 * float(ordered[first] + ordered[last])
    off = f - bias
    return bias, float(np.sum(np.maximum(upper * off, lower * off)))


def balanced(b: Floats, lower: Floats, upper: Floats) -> Floats:
    """Return duals close to b with sum zero, taken from those between their bounds if possible."""
    total = float(b.sum())
    room = (b - lower) * (upper - b)
    room = np.where(room > 0, b - lower if total > 0 else upper - b, 0.0)
    available = float(room.sum())
    if abs(total) <= available:
        b = b - total * room / max(available, 1e-300)
        return np.clip(b, lower, upper)
    return feasible_start(b, lower, upper)
