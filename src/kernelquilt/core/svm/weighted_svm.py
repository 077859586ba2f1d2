r"""An SVM on a weighted sum of kernels, solved again and again as the weights change.

For weights ``d`` it maximises over signed duals ``b`` (see :mod:`kernelquilt.core.svm.smo`)

.. math:: J(d) = \max_b \; s'b - \tfrac12 \sum_p d_p \, q_p(b), \qquad q_p(b) = b'K_p b .

Several problems on the same samples, such as those of one-vs-rest, may share the weights: ``J`` is
then the sum of theirs, and one combined kernel serves them all.

Reading the kernels is what costs, not the SVM. Between two weight vectors few duals change, so
`WeightedSVM` keeps ``K_p b`` for every kernel and updates it with the rows whose dual changed,
and combines only the rows of the kernel that the SVM looks at.
"""

import numpy as np
from scipy.linalg import solve_triangular

from kernelquilt._typing import Floats, Numbers
from kernelquilt.core.solution import Work
from kernelquilt.core.svm.box import (
    bias,
    box_gap,
    feasible_start,
    free_duals,
    signed_bounds,
    tube_cost,
)
from kernelquilt.core.svm.combined_kernel import CombinedKernel
from kernelquilt.core.svm.face_step import jittered_cholesky
from kernelquilt.core.svm.smo import MAX_ITER, BoxDual
from kernelquilt.core.weights.solvers import SVMPoint, diagonals

INNER_SHARE = 0.1  # part of the gap asked for that the inner SVM may use up
BATCH_FROM = 2.0  # rows to read, in units of n, from which a matrix product is cheaper


def response(block: Floats, slopes: Floats) -> Floats:
    """Return the curvature that the free duals add when the weights move.

    Parameters
    ----------
    block : ndarray of shape (k, k)
        Kernel of the free samples.
    slopes : ndarray of shape (k, M)
        Derivatives of their scores by the weights, the duals held.

    Returns
    -------
    curvature : ndarray of shape (M, M)
        With ``L L' = block``, the Gram matrix of the columns of ``Z = L^-1 slopes`` after their
        component along ``L^-1 1`` is removed; zero if there is nothing to move.
    """
    factor = jittered_cholesky(block) if len(block) > 1 else None
    if factor is None:
        return np.zeros((slopes.shape[1], slopes.shape[1]))
    right = np.column_stack([slopes, np.ones(len(block))])
    Z = solve_triangular(factor, right, lower=True, check_finite=False)
    columns, along = Z[:, :-1], Z[:, -1]
    columns = columns - np.outer(along, (along @ columns) / (along @ along))
    return np.asarray(columns.T @ columns)


class WeightedSVM:
    """SVM on ``sum_p d_p K_p`` with warm starts between weight vectors.

    Parameters
    ----------
    K : ndarray of shape (M, n, n), float32 or float64
        Kernels, C-contiguous, symmetric, zero where absent.
    y : ndarray of shape (n,) or (L, n)
        Labels -1 and +1 of one problem or of several that share the weights.
    t : ndarray of shape (n,) or (L, n)
        Margins asked of the samples.
    U : ndarray of shape (n,) or (L, n)
        Upper bounds of the duals.
    """

    tube: Floats | None = None

    def __init__(self, K: Numbers, y: Floats, t: Floats, U: Floats) -> None:
        y, U = np.atleast_2d(y), np.atleast_2d(U)
        used = np.broadcast_to(t, U.shape)[U > 0]
        self._hold(K, y * t, *signed_bounds(y, U), float(used.mean()) if len(used) else 1.0)

    def _hold(self, K: Numbers, s: Floats, lower: Floats, upper: Floats, scale: float) -> None:
        """Keep kernels, the dual problems of shape (L, n), and the size of what is learned."""
        self.K = K
        self.s, self.lower, self.upper = s, lower, upper
        self.scale = scale
        self.diag = diagonals(K)
        self.work = Work()
        self._buffer = np.empty(K.shape[1:]) if len(K) > 1 or K.dtype != np.float64 else None
        self._kernel: CombinedKernel | None = None

    @classmethod
    def with_margins(
        cls, K: Numbers, y: Floats, C: float | Floats, margins: Floats | None = None
    ) -> "WeightedSVM":
        """Return the SVM with penalties C, of all or of each sample, and margins, 1 by default."""
        margins = np.ones(y.shape) if margins is None else margins
        return cls(K, y, margins, np.broadcast_to(C, y.shape) / margins)

    def solve(self, weights: Floats, start: SVMPoint | Floats | None, tol: float) -> SVMPoint:
        """Solve for one weight vector.

        Parameters
        ----------
        weights : ndarray of shape (M,)
            Non-negative weights.
        start : SVMPoint, ndarray of shape (n,) or (L, n), or None
            Where to start: an earlier point, any signed duals, or nothing.
        tol : float
            Relative duality gap that the SVM has to undercut by a factor of ten.
        """
        before, products = self._start(start)
        b = before.copy()
        f = self.s - weights @ products
        kernel = CombinedKernel(self.K, weights, self.diag, self._buffer)
        n_iter = sum(self._solve_one(kernel, row, b[row], f[row], tol) for row in range(len(b)))
        self._kernel = kernel
        self.work += Work(1, n_iter, kernel.n_passes)
        return self._point(weights, b, self._updated(products, b - before))

    def hessian(self, point: SVMPoint) -> Floats:
        """Return the generalised Hessian of J at the point solved last, shape (M, M)."""
        total = np.zeros((len(self.K), len(self.K)))
        for row, b in enumerate(point.b):
            free = np.flatnonzero(free_duals(b, self.lower[row], self.upper[row], self.tube))
            if len(free) > 1 and self._kernel is not None:
                total += response(self._kernel.block(free), point.products[row][:, free].T)
        return total

    def _solve_one(self, kernel: CombinedKernel, row: int, b: Floats, f: Floats, tol: float) -> int:
        """Solve one problem in place to a small enough gap; return the SMO iterations it took."""
        lower, upper, tube = self.lower[row], self.upper[row], self.tube
        state = BoxDual(kernel, lower, upper, b, f, tube)
        kkt_tol = INNER_SHARE * tol * self.scale
        for _ in range(5):
            state.solve(kkt_tol, MAX_ITER)
            gap = box_gap(b, f, lower, upper, bias(b, f, lower, upper, tube), tube)
            dual = 0.5 * float((self.s[row] + f) @ b) - tube_cost(b, tube)
            if gap <= INNER_SHARE * tol * (abs(dual) + gap):
                break
            kkt_tol *= 0.1
        return state.n_iter

    def _start(self, start: SVMPoint | Floats | None) -> tuple[Floats, Floats]:
        if isinstance(start, SVMPoint):
            return start.b, start.products
        b = np.zeros(self.s.shape)
        products = np.zeros((len(b), *self.diag.shape))
        if start is not None:
            for row, duals in enumerate(np.atleast_2d(start)):
                b[row] = feasible_start(duals, self.lower[row], self.upper[row])
            products = self._updated(products, b)
        return b, products

    def _updated(self, products: Floats, steps: Floats) -> Floats:
        """Return ``products + K steps``: by rows for few changes, else one product per kernel."""
        from kernelquilt.core.compiled import accumulate_rows

        products = products.copy()
        rows_read = 0
        changed = [np.flatnonzero(step) for step in steps]
        if sum(map(len, changed)) <= BATCH_FROM * steps.shape[1]:
            for row, indices in enumerate(changed):
                accumulate_rows(self.K, indices, steps[row, indices], products[row])
                rows_read += len(indices)
        else:
            for p, kernel in enumerate(self.K):
                products[:, p] += steps @ kernel
            rows_read = steps.shape[1]
        self.work += Work(n_passes=rows_read / steps.shape[1])
        return products

    def _point(self, weights: Floats, b: Floats, products: Floats) -> SVMPoint:
        """Measure both objectives at b."""
        q = np.einsum("lmn,ln->m", products, b)
        f = self.s - weights @ products
        linear = float(np.sum(self.s * b)) - tube_cost(b, self.tube)
        dual = linear - 0.5 * float(weights @ q)
        intercept = np.empty(len(b))
        gap = 0.0
        for row in range(len(b)):
            dual_problem = b[row], f[row], self.lower[row], self.upper[row]
            intercept[row] = bias(*dual_problem, self.tube)
            gap += box_gap(*dual_problem, float(intercept[row]), self.tube)
        return SVMPoint(weights, b, products, q, linear, intercept, dual, dual + gap)
