r"""An SVM on a weighted sum of kernels that are given as factors, ``K_p = Z_p Z_p'``.

What :class:`~kernelquilt.core.svm.weighted_svm.WeightedSVM` is on Grams: the same problem, the same
points, and for the solvers over kernel weights the same object. No array of n x n is made; the
dual is solved by :mod:`kernelquilt.core.svm.factor_dual`, and :math:`q_p(b) = \|Z_p'b\|^2`.
"""

from dataclasses import dataclass, replace

import numpy as np

from kernelquilt._typing import Floats, Indices
from kernelquilt.core.svm.dual import (
    feasible_start,
    free_duals,
    signed_bounds,
    sum_factor,
    tube_cost,
)
from kernelquilt.core.svm.factor_dual import FactorDual
from kernelquilt.core.svm.factor_reading import FactorReader
from kernelquilt.core.svm.factors import Factors
from kernelquilt.core.svm.weighted_svm import response
from kernelquilt.core.weights.solution import Work
from kernelquilt.core.weights.solvers import SVMPoint

EXACT_ENTRIES = 2**22  # of the factors up to which every SVM is solved to rounding
INNER_SHARE = 1e-3  # part of the gap asked for: q is known to the root of that of J
PRECISION = 8.0  # relative gap that can be reached, in units of the rounding of the factors
RESPONSE_ROWS = 2  # free samples that the curvature is computed from, in units of D
RIDGE = 1e-10  # relative to the largest curvature


@dataclass(frozen=True)
class FactorPoint(SVMPoint):
    """The SVMs at one weight vector, with what has been read of the factors.

    Attributes
    ----------
    v : ndarray of shape (L, D)
        ``Z'b``.
    """

    v: Floats


class FactorSVM:
    """SVM on ``sum_p d_p Z_p Z_p'`` with warm starts between weight vectors.

    Parameters
    ----------
    factors : Factors
        The kernels.
    y : ndarray of shape (n,) or (L, n)
        Labels -1 and +1 of one problem or of several that share the weights.
    t : ndarray of shape (n,) or (L, n)
        Margins asked of the samples.
    U : ndarray of shape (n,) or (L, n)
        Upper bounds of the duals.
    """

    tube: Floats | None = None

    def __init__(self, factors: Factors, y: Floats, t: Floats, U: Floats) -> None:
        y, U = np.atleast_2d(y), np.atleast_2d(U)
        self._hold(factors, y * t, *signed_bounds(y, U))

    def _hold(self, factors: Factors, s: Floats, lower: Floats, upper: Floats) -> None:
        """Keep the factors, and the dual problems of shape (L, n)."""
        self.factors, self.reader = factors, FactorReader(factors)
        self.s, self.lower, self.upper = s, lower, upper
        self.diag = factors.diag
        self.exact = factors.Z.size <= EXACT_ENTRIES
        self.work = Work()
        self.reach = np.inf

    def solve(self, weights: Floats, start: SVMPoint | Floats | None, tol: float) -> SVMPoint:
        """Solve for one weight vector, as `WeightedSVM.solve` does."""
        states = [self._state(weights, start, row) for row in range(len(self.s))]
        goal = max(INNER_SHARE * tol, PRECISION * float(np.finfo(self.factors.Z.dtype).eps))
        for state in states:
            state.solve(goal, exact=self.exact)
        b = np.array([state.b for state in states])
        v = np.array([state.v for state in states])
        products = np.array([state.products for state in states])
        self._count(1, sum(state.n_steps for state in states))
        q = np.sum([self.factors.squared_norms(each) for each in v], axis=0)
        linear = float(np.sum(self.s * b)) - tube_cost(b, self.tube)
        dual = linear - 0.5 * float(weights @ q)
        gap = sum(state.gap for state in states)
        intercept = np.array([state.bias for state in states])
        return FactorPoint(weights, b, products, q, linear, intercept, dual, dual + gap, v)

    def _state(self, weights: Floats, start: SVMPoint | Floats | None, row: int) -> FactorDual:
        """Return one of the problems with its duals at the start."""
        s, lower, upper = self.s[row], self.lower[row], self.upper[row]
        Z = self.factors.Z
        if start is None:
            b, v, products = (
                np.zeros(len(s)),
                np.zeros(Z.shape[1]),
                np.zeros((len(self.factors), len(Z))),
            )
        elif isinstance(start, SVMPoint):
            assert isinstance(start, FactorPoint)
            b, v, products = start.b[row].copy(), start.v[row], start.products[row]
        else:
            b = feasible_start(np.atleast_2d(start)[row], lower, upper)
            v = self.reader.combine(b)
            growth = self._growth(weights, b, v, row)
            b, v = growth * b, growth * v
            products = self.reader.products(v)
        return FactorDual(self.reader, weights, s, lower, upper, b, self.tube, (v, products))

    def _growth(self, weights: Floats, b: Floats, v: Floats, row: int) -> float:
        """Return the factor that brings duals for narrower bounds to these, if it pays, else 1."""
        room = np.maximum(self.upper[row], -self.lower[row])
        reach = float(np.max(np.abs(b) / np.where(room > 0, room, 1.0)))
        if not 0.0 < reach < 1.0:
            return 1.0
        linear = float(self.s[row] @ b) - tube_cost(b, self.tube)
        quadratic = float(weights @ self.factors.squared_norms(v))
        values = {k: k * linear - 0.5 * k**2 * quadratic for k in (1.0, 1.0 / reach)}
        return max(values, key=lambda k: values[k])

    def hessian(self, point: SVMPoint) -> Floats:
        """Return the generalised Hessian of J at a point, shape (M, M)."""
        assert isinstance(point, FactorPoint)
        total = np.zeros((len(self.factors), len(self.factors)))
        for row, b in enumerate(point.b):
            free = np.flatnonzero(free_duals(b, self.lower[row], self.upper[row], self.tube))
            if len(free) > 1:
                total += self._response(point, row, free)
        self._count(0, 0)
        return total

    def _count(self, solves: int, steps: int) -> None:
        """Add to the work, and take the passes so far from who reads."""
        self.work = replace(self.work + Work(solves, steps), n_passes=self.reader.n_passes)

    def _response(self, point: FactorPoint, row: int, free: Indices) -> Floats:
        """Return the curvature that the free duals add when the weights move, (M, M).

        Where there are more of them than columns, the system has the size of D. With the features
        F of the free samples, centred because of the bias, the scores change by ``F G`` when the
        weights do, and the curvature is ``G'G`` but for what F does not span.
        """
        scale = np.sqrt(self.factors.spread(point.weights))
        D = np.count_nonzero(scale)
        if len(free) <= D:
            X = self.reader.features(free) * scale
            return response(sum_factor(X @ X.T), point.products[row][:, free].T)
        F = self.reader.features(free[:: max(1, len(free) // (RESPONSE_ROWS * D))]) * scale
        F -= F.mean(axis=0)
        A = F.T @ F
        ridge = RIDGE * float(np.trace(A)) + np.finfo(np.float64).tiny
        A[np.diag_indices(len(A))] += ridge
        v = np.divide(point.v[row], scale, out=np.zeros(len(scale)), where=scale > 0)
        G = np.zeros((len(scale), len(self.factors)))
        for p, (begin, end) in enumerate(
            zip(self.factors.starts[:-1], self.factors.starts[1:], strict=True)
        ):
            G[begin:end, p] = v[begin:end]
        return np.asarray(G.T @ G - ridge * (G.T @ np.linalg.solve(A, G)))
