r"""An SVM on a weighted sum of kernels, solved again and again as the weights change.

For weights ``d`` the machine maximises over signed duals ``b`` (see :mod:`kernelquilt.optim.smo`)

.. math:: J(d) = \max_b \; s'b - \tfrac12 \sum_p d_p \, q_p(b), \qquad q_p(b) = b'K_p b .

Reading the kernels is what costs, not the SVM. Between two weight vectors few duals change, so
the machine keeps ``K_p b`` for every kernel and updates it with the rows whose dual changed, and
it combines only the rows of the kernel that the SVM looks at.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from kernelquilt.optim.combined import CombinedKernel, diagonals
from kernelquilt.optim.face import jittered_cholesky
from kernelquilt.optim.smo import (
    MAX_ITER,
    BoxDual,
    bias,
    duality_gap,
    feasible_start,
    signed_bounds,
)

Floats = NDArray[np.float64]

INNER_SHARE = 0.1  # part of the gap asked for that the inner SVM may use up


@dataclass(frozen=True)
class Point:
    """The SVM at one weight vector.

    Attributes
    ----------
    weights : ndarray of shape (M,)
        The weights.
    b : ndarray of shape (n,)
        Signed duals.
    products : ndarray of shape (M, n)
        ``K_p b`` for every kernel.
    q : ndarray of shape (M,)
        ``b'K_p b``.
    linear : float
        ``s'b``.
    intercept : float
        Bias.
    dual, primal : float
        Value of the SVM dual and primal for these weights; ``primal >= dual``.
    """

    weights: Floats
    b: Floats
    products: Floats
    q: Floats
    linear: float
    intercept: float
    dual: float
    primal: float


class StackSVM:
    """SVM on ``sum_p d_p K_p`` with warm starts between weight vectors.

    Parameters
    ----------
    K : ndarray of shape (M, n, n), float32 or float64
        Kernels, C-contiguous, symmetric, zero where absent.
    y : ndarray of shape (n,)
        Labels -1 and +1.
    t : ndarray of shape (n,)
        Margins asked of the samples.
    U : ndarray of shape (n,)
        Upper bounds of the duals.
    """

    def __init__(self, K: NDArray[np.floating], y: Floats, t: Floats, U: Floats) -> None:
        self.K = K
        self.y = y
        self.s = y * t
        self.lower, self.upper = signed_bounds(y, U)
        self.U = U
        self.diag = diagonals(K)
        self.margin_scale = float(t[U > 0].mean()) if (U > 0).any() else 1.0
        self.n_solves = 0
        self.n_smo_iter = 0
        self.n_passes = 0.0
        self._buffer = np.empty(K.shape[1:]) if len(K) > 1 or K.dtype != np.float64 else None
        self._kernel: CombinedKernel | None = None

    def solve(self, weights: Floats, start: Point | Floats | None, tol: float) -> Point:
        """Solve for one weight vector.

        Parameters
        ----------
        weights : ndarray of shape (M,)
            Non-negative weights.
        start : Point, ndarray of shape (n,) or None
            Where to start: an earlier point, any signed duals, or nothing.
        tol : float
            Relative duality gap that the SVM has to undercut by a factor of ten.
        """
        b, products = self._start(start)
        f = self.s - weights @ products
        kernel = CombinedKernel(self.K, weights, self.diag, self._buffer)
        state = BoxDual(kernel, self.lower, self.upper, b.copy(), f)
        kkt_tol = INNER_SHARE * tol * self.margin_scale
        for _ in range(5):
            state.solve(kkt_tol, MAX_ITER)
            point = self._point(weights, state.b, b, products)
            if point.primal - point.dual <= INNER_SHARE * tol * abs(point.primal):
                break
            kkt_tol *= 0.1
        self._kernel = kernel
        self.n_solves += 1
        self.n_smo_iter += state.n_iter
        self.n_passes += kernel.n_passes
        return point

    def hessian(self, point: Point) -> Floats:
        """Return the generalised Hessian of J at the point solved last, shape (M, M).

        With F the free samples, ``L L' = K_FF`` and ``Z = L^-1 [K_1 b, ..., K_M b]_F``, it is the
        Gram matrix of the columns of Z after their component along ``L^-1 1`` is removed.
        """
        free = np.flatnonzero((point.b > self.lower) & (point.b < self.upper))
        zero = np.zeros((len(self.K), len(self.K)))
        if len(free) < 2 or self._kernel is None:
            return zero
        factor = jittered_cholesky(self._kernel.block(free))
        if factor is None:
            return zero
        right = np.column_stack([point.products[:, free].T, np.ones(len(free))])
        Z = solve_triangular(factor, right, lower=True, check_finite=False)
        columns, along = Z[:, :-1], Z[:, -1]
        columns = columns - np.outer(along, (along @ columns) / (along @ along))
        return columns.T @ columns

    def _start(self, start: Point | Floats | None) -> tuple[Floats, Floats]:
        if isinstance(start, Point):
            return start.b, start.products
        b = np.zeros(len(self.s))
        products = np.zeros((len(self.K), len(self.s)))
        if start is not None:
            feasible = feasible_start(start, self.lower, self.upper)
            products = self._updated(products, feasible)
            b = feasible
        return b, products

    def _updated(self, products: Floats, steps: Floats) -> Floats:
        """Return ``products + K steps``, reading only the rows of non-zero steps."""
        from kernelquilt.optim import _compiled

        rows = np.flatnonzero(steps)
        products = products.copy()
        _compiled.accumulate_rows(self.K, rows, steps[rows], products)
        self.n_passes += len(rows) / len(steps)
        return products

    def _point(self, weights: Floats, b: Floats, b_before: Floats, products: Floats) -> Point:
        """Measure both objectives at b, from products brought up to date."""
        products = self._updated(products, b - b_before)
        q = products @ b
        scores = weights @ products
        f = self.s - scores
        intercept = bias(b, f, self.lower, self.upper)
        linear = float(self.s @ b)
        dual = linear - 0.5 * float(weights @ q)
        gap = duality_gap(self.y, self.U, b, f, intercept)
        return Point(weights, b.copy(), products, q, linear, intercept, dual, dual + gap)
