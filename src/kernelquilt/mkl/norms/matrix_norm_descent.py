r"""Two ways over the weights with a bounded (r, p) matrix norm: descent, and the published updates.

`descend` lowers the objective with every step until the optimality conditions hold. The first step
is the exact one of :mod:`kernelquilt.mkl.norms.matrix_norm_set`, which copes with any exponents and
makes fast progress far from the optimum; then Newton's method takes over, which is fast near it
and with exponents near 1, where the exact step takes tens of SVM solves. Where Newton's method
finds no lower objective, the exact step, which cannot raise it, takes its place.

`follow_published` repeats the update of Han et al. (IEEE TNNLS 2018): with

.. math:: v_m = \|w_m\|^2 / ((d_m / \|d\|_p)^p + (d_m / \|d\|_r)^r) \quad (13)

it sets :math:`d_m` to :math:`v_m` over :math:`(\|v\|_p \|v\|_r)^{1/2}` (11), or over
:math:`(\|v\|_p^p \|v\|_r^r)^{1/(p+r)}` (12). Fixed points of (11) meet the optimality conditions.
The map is not the minimiser over d, though, and need not approach one: for r = p and fixed w it
multiplies log d by -p. Update (12) gives the same direction, but its weights have
:math:`\|d\|_r^r \|d\|_p^p = 1`, so that objective and bound are those of that set, and a fixed
point solves the problem of another C.
"""

import numpy as np

from kernelquilt._typing import Bools, Floats, Numbers
from kernelquilt.core.weights.solution import Options, Solution
from kernelquilt.core.weights.solvers import (
    FLOOR_SHARE,
    MAX_FLOOR,
    Certificate,
    SVMAtWeights,
    SVMPoint,
    line_search,
)
from kernelquilt.mkl.norms.matrix_norm_set import MatrixNormSet, log_sum_exp

FLAT_SHARE = 1e-2  # part of the tolerance up to which the weights make no difference


def descend(svm: SVMAtWeights, weight_set: MatrixNormSet, options: Options) -> Solution:
    """Descend to where the optimality conditions hold (a `WeightSolver`).

    The exponents differ, `tol` is the residual of the conditions, and small weights of the start
    are raised, as a weight of zero could not grow.
    """
    tol, max_iter = options.tol, options.max_iter
    equal = weight_set.start()
    u = equal if options.start.weights is None else weight_set.raised(options.start.weights)
    certificate = Certificate(svm, weight_set.support, options)
    point = svm.solve(weight_set.weights(u), options.start.dual_coef, tol)
    level, step = MAX_FLOOR, 1.0
    while True:
        certificate.record(point)
        residual = _residual(weight_set, point, tol)
        if residual <= tol or svm.work.n_solves >= max_iter:
            break
        level = min(level, FLOOR_SHARE * residual)
        floor = np.minimum(level * equal, u)
        first = len(certificate.history) == 1
        found = None if first else line_search(svm, weight_set, options, u, point, floor, step)
        if found is None and svm.work.n_solves < max_iter:
            ahead = svm.solve(weight_set.update(point.squared_norms), point, tol)
            if ahead.primal <= (1.0 + tol) * point.primal:
                found = weight_set.coordinates(ahead.weights), ahead, step
            elif first:  # kernels of such scales that their norms are rounding
                found = line_search(svm, weight_set, options, u, point, floor, step)
        if found is None:
            break
        u, point, step = found
    sparse = min(weight_set.r, weight_set.p) == 1.0
    if sparse and residual <= tol and svm.work.n_solves < max_iter:
        point = _without_negligible(svm, weight_set, point, tol)
        residual = _residual(weight_set, point, tol)
    return certificate.solution(point, residual)


def _residual(weight_set: MatrixNormSet, point: SVMPoint, tol: float) -> float:
    """Return the residual of the optimality conditions; zero where no weights could do better.

    If the classes cannot be told apart, all q are zero but for rounding. As no weight exceeds 1,
    no weights can then lower the objective by more than half the sum of q.
    """
    if 0.5 * float(point.q[weight_set.allowed].sum()) <= FLAT_SHARE * tol * abs(point.primal):
        return 0.0
    return weight_set.residual(point.weights, point.q)


def _without_negligible(
    svm: SVMAtWeights, weight_set: MatrixNormSet, point: SVMPoint, tol: float
) -> SVMPoint:
    """Set weights to zero that are so to the tolerance, if the conditions still hold then."""
    share = min(tol, 0.5)  # the largest weight never is
    negligible = (point.weights > 0.0) & (point.weights <= share * point.weights.max())
    if not negligible.any():
        return point
    weights = weight_set.scaled(np.where(negligible, 0.0, point.weights))
    sparse = svm.solve(weights, point, tol)
    return sparse if _residual(weight_set, sparse, tol) <= tol else point


def published_weights(
    squared_norms: Floats, weights: Floats, r: float, p: float, *, equation: int
) -> Floats:
    """Return the published update of the weights, equation 11 or 12 with 13.

    Parameters
    ----------
    squared_norms, weights : ndarrays of shape (M,)
        Squared norms, and the weights they belong to.
    r, p : float
        Exponents, at least 1.
    equation : {11, 12}
        Which of the two scales to take.

    Returns
    -------
    weights : ndarray of shape (M,)
        Not finite if the update breaks down.
    """
    with np.errstate(all="ignore"):
        t = np.log(weights)
        log_w = np.log(squared_norms) - np.logaddexp(
            p * t - log_sum_exp(p * t), r * t - log_sum_exp(r * t)
        )
        log_p, log_r = log_sum_exp(p * log_w), log_sum_exp(r * log_w)
        scale = 0.5 * (log_p / p + log_r / r) if equation == 11 else (log_p + log_r) / (p + r)
        return np.exp(log_w - scale)


def follow_published(svm: SVMAtWeights, weight_set: MatrixNormSet, options: Options) -> Solution:
    """Repeat the published update until the conditions hold or it breaks down (a `WeightSolver`).

    Equation 12 if the set bounds ``||d||_r^r ||d||_p^p``, otherwise equation 11. The start is
    scaled back if it is outside the set, and `tol` is the residual of the optimality conditions
    unless r = p. The last point is returned if it meets `tol`, otherwise the best one.
    """
    tol = options.tol
    allowed, r, p = weight_set.allowed, weight_set.r, weight_set.p
    given = options.start.weights
    start = weight_set.start() if given is None else np.where(allowed, given, 0.0)
    largest = weight_set.scaled(start)
    point = svm.solve(np.minimum(start, largest), options.start.dual_coef, tol)
    certificate = Certificate(svm, weight_set.support, options)

    def residual(point: SVMPoint) -> float | None:
        return None if r == p else _residual(weight_set, point, tol)

    best = point
    while True:
        gap, distance = certificate.record(point), residual(point)
        if (gap if distance is None else distance) <= tol:
            return certificate.solution(point, distance)
        best = point if point.primal < best.primal else best
        updated = np.zeros(len(allowed))
        updated[allowed] = published_weights(
            point.squared_norms[allowed],
            point.weights[allowed],
            r,
            p,
            equation=12 if weight_set.powers else 11,
        )
        if svm.work.n_solves >= options.max_iter or not np.isfinite(updated).all():
            return certificate.solution(best, residual(best))
        point = svm.solve(updated, point, tol)


def nonzero_kernels(K: Numbers, penalty: Floats, allowed: Bools | None) -> Bools:
    """Return the allowed kernels that are not zero on the samples with a penalty, if any are.

    Parameters
    ----------
    K : ndarray of shape (M, n, n)
        Kernels.
    penalty : ndarray of shape (n,) or (L, n)
        Penalty of each sample.
    allowed : ndarray of shape (M,), bool, or None
        Kernels that may have weight, all by default.

    Returns
    -------
    allowed : ndarray of shape (M,), bool
    """
    allowed = np.ones(len(K), dtype=np.bool_) if allowed is None else allowed
    used = (np.atleast_2d(penalty) > 0.0).any(axis=0)
    nonzero = allowed & (np.diagonal(K, axis1=1, axis2=2)[:, used] > 0.0).any(axis=1)
    return nonzero if nonzero.any() else allowed
