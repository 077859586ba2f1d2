r"""Kernel weights by projected Newton with a duality-gap certificate.

.. math:: \min_{d \in \mathcal D} J(d), \qquad
          J(d) = \max_b \; s'b - \tfrac12 \sum_p d_p \, q_p(b)

for a convex bounded set of weights (:mod:`kernelquilt.core.weights.sets`), in coordinates of the
set that may differ from the weights. One iteration solves the SVM at ``d``, minimises a
second-order model over the set, and searches along the way to that minimiser until ``J`` has fallen
enough (Armijo). It ends with the certificate of :mod:`kernelquilt.core.weights.certificate`.

``J`` is smooth inside the set but may have a kink where a weight is zero: the dual of a sample
that only kernels without weight observe is not unique, and neither is that of low-rank kernels.
Newton's method would stall there. Weights therefore stay above a small fraction of their start,
which costs the same fraction of the objective at most and shrinks with the gap. Once the
certificate is reached, weights that ended there are set to zero, if it still holds without them.
"""

import numpy as np

from kernelquilt._typing import Floats
from kernelquilt.core.blas import single_threaded_blas
from kernelquilt.core.solution import TINY, Options, Solution
from kernelquilt.core.weights.certificate import Certificate
from kernelquilt.core.weights.inner import SVMAtWeights, SVMPoint
from kernelquilt.core.weights.sets import WeightSet

ARMIJO = 1e-4
MAX_BACKTRACKS = 12
ROUNDING = 1e-14  # relative error of J
STEP_GROWTH = 2.0  # a step may be this much longer than the last one
FLOOR_SHARE = 0.02  # part of the relative gap that keeping weights positive may cost
RECIPROCAL_SHARE = 0.9  # part of the curvature along the gradient that may be taken away
MAX_FLOOR = 0.01  # in units of the start


@single_threaded_blas()
def newton(svm: SVMAtWeights, weight_set: WeightSet, options: Options) -> Solution:
    """Solve by projected Newton, over any set (a `WeightSolver`)."""
    tol, max_iter = options.tol, options.max_iter
    start = weight_set.start()
    given = options.start.weights
    u = start if given is None else weight_set.coordinates(given)
    point = svm.solve(weight_set.weights(u), options.start.dual_coef, tol)
    certificate = Certificate(svm, weight_set.support, options)
    share, step, stalled, last_gap = MAX_FLOOR, 1.0, False, np.inf
    while (gap := certificate.record(point)) > tol and svm.work.n_solves < max_iter:
        if stalled and gap > 0.5 * last_gap:
            break
        last_gap = gap
        share = min(share, FLOOR_SHARE * max(gap, tol))
        floor = share * start
        if (u < 0.5 * floor).any():  # only where the given start was sparse
            u = (1.0 - share) * u + floor
            point = svm.solve(weight_set.weights(u), point, tol)
            continue
        rounding = ROUNDING * abs(point.dual)
        found = line_search(svm, weight_set, options, u, point, floor, step, rounding)
        if found is None:
            break
        stalled = found[1].dual > point.dual - rounding
        u, point, step = found
    reached = certificate.gap(point) <= tol
    if reached and weight_set.can_vanish and 1 < svm.work.n_solves < max_iter:
        negligible = (u > 0) & (u <= 2.0 * floor)
        if negligible.any():
            weights = weight_set.weights(weight_set.without(u, negligible))
            sparse = svm.solve(weights, point, tol)
            if certificate.gap(sparse) <= tol:
                certificate.record(sparse)
                point = sparse
    return certificate.solution(point)


def line_search(
    svm: SVMAtWeights,
    weight_set: WeightSet,
    options: Options,
    u: Floats,
    point: SVMPoint,
    floor: Floats,
    last_step: float,
    rounding: float = 0.0,
) -> tuple[Floats, SVMPoint, float] | None:
    """Return coordinates, point and step of a sufficiently lower J, or None if there is none.

    Close to the optimum the gap still shrinks where J no longer does to `rounding`.
    """
    gradient, hessian = weight_set.pull_back(u, -0.5 * point.q, svm.hessian(point))
    hessian = _reciprocal_hessian(hessian, gradient, point.dual)
    try:
        direction = weight_set.step(gradient, hessian, u, floor)
    except np.linalg.LinAlgError:  # of kernels of such scales that their curvature is rounding
        return None
    slope = float(gradient @ direction)
    step = min(1.0, STEP_GROWTH * last_step)
    start = point
    for _ in range(MAX_BACKTRACKS if slope < rounding else 0):
        ahead = np.maximum(u + step * direction, 0.0)
        trial = svm.solve(weight_set.weights(ahead), start, options.tol)
        change = trial.dual - point.dual
        if change <= ARMIJO * step * slope + rounding:
            return ahead, trial, step
        if svm.work.n_solves >= options.max_iter:
            break
        start = trial
        interpolated = -slope * step**2 / (2.0 * (change - slope * step))
        step = min(max(interpolated, 0.1 * step), 0.6 * step)
    return None


def _reciprocal_hessian(hessian: Floats, gradient: Floats, value: float) -> Floats:
    """Return the curvature of ``-1 / J`` in units of J, as far as it is positive.

    Where few duals are bounded, J falls like one over the weights: ``1 / J`` is nearly linear and
    Newton's method gets in one step where on J it would take many. The correction
    ``2 gradient gradient' / J`` is limited so that the result stays positive semi-definite.
    """
    scale = float(np.trace(hessian))
    if not scale > 0.0:
        return hessian
    ridge = 1e-12 * np.eye(len(gradient))
    size = float(gradient @ np.linalg.solve(hessian / scale + ridge, gradient)) / scale
    factor = min(2.0 / max(value, TINY), RECIPROCAL_SHARE / max(size, TINY))
    return hessian - factor * np.outer(gradient, gradient)
