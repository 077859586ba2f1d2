r"""An SVM on a weighted sum of kernels, solved again and again as the weights change.

For weights ``d`` it maximises over signed duals ``b`` (see :mod:`kernelquilt.core.svm.dual`)

.. math:: J(d) = \max_b \; s'b - \tfrac12 \sum_p d_p \, q_p(b), \qquad q_p(b) = b'K_p b .

Several problems on the same samples, such as those of one-vs-rest, may share the weights: ``J`` is
then the sum of theirs, and one combined kernel serves them all.

Reading the kernels is what costs, not the SVM. Between two weight vectors few duals change, so
`WeightedSVM` keeps ``K_p b`` for every kernel and updates it with the rows whose dual changed,
and combines only the rows of the kernel that the SVM looks at.
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import lapack

from kernelquilt._typing import Bools, Floats, Indices, Numbers
from kernelquilt.core.svm.dual import (
    MAX_ITER,
    BoxDual,
    bias,
    box_gap,
    feasible_start,
    free_indices,
    largest_share,
    signed_bounds,
    sum_factor,
    tube_cost,
)
from kernelquilt.core.svm.factor_reading import FactorReader
from kernelquilt.core.svm.factors import Factors
from kernelquilt.core.weights.solution import Work
from kernelquilt.core.weights.solvers import (
    SVMAtWeights,
    SVMPoint,
    clearly_negative,
    diagonals,
)

INNER_SHARE = 0.1  # part of the gap asked for that the inner SVM may use up
BATCH_FROM = 2.0  # rows to read, in units of n, from which a matrix product is cheaper


def quadratic_forms(K: Numbers | Factors, b: Floats) -> Floats:
    """Return ``b'K_p b`` for every kernel, shape (M,); only the rows with duals are read."""
    if isinstance(K, Factors):
        return K.squared_norms(FactorReader(K).combine(b))
    support = np.flatnonzero(b)
    return np.array([b[support] @ (kernel[support] @ b) for kernel in K])


def combined_product(K: Numbers | Factors, weights: Floats, b: Floats) -> Floats:
    """Return ``sum_p weights[p] K_p b``, shape (n,); only the rows with duals are read."""
    if isinstance(K, Factors):
        reader = FactorReader(K)
        return reader.scores(K.spread(weights) * reader.combine(b))
    support = np.flatnonzero(b)
    total = np.zeros(len(b))
    for p in np.flatnonzero(weights):
        total += weights[p] * (b[support] @ K[p, support])
    return total


class CombinedKernel:
    """Rows of ``sum_p weights[p] K[p]``, each built when it is first needed.

    Parameters
    ----------
    K : ndarray of shape (M, n, n), float32 or float64
        The kernels, symmetric.
    weights : ndarray of shape (M,)
        Non-negative kernel weights.
    diag : ndarray of shape (M, n)
        The diagonals of the kernels.
    present : ndarray of shape (M, n), bool, optional
        False for rows that are zero; found out by default.
    buffer : ndarray of shape (n, n), optional
        Where to build the rows; reused from one weight vector to the next.
    """

    def __init__(
        self,
        K: Numbers,
        weights: Floats,
        diag: Floats,
        present: Bools | None = None,
        buffer: Floats | None = None,
    ) -> None:
        from kernelquilt.core.compiled import present_rows

        self.K = K
        self.present: Bools = present_rows(K) if present is None else present
        self.weights = weights
        self.active = np.flatnonzero(weights)
        self.diag = weights @ diag
        n = K.shape[1]
        if len(K) == 1 and weights[0] == 1.0 and K.dtype == np.float64 and K.flags.writeable:
            self.rows: Floats = K[0]
            self.have = np.ones(n, dtype=np.bool_)
        else:
            self.rows = np.empty((n, n)) if buffer is None else buffer
            self.have = np.zeros(n, dtype=np.bool_)
        self.n_built = 0
        self._factored: tuple[Indices, Floats, Floats | None] | None = None

    @property
    def n_passes(self) -> float:
        """Kernel entries read so far, in units of the whole stack."""
        return self.n_built * len(self.active) / (self.K.shape[0] * self.K.shape[1])

    def need(self, wanted: Indices) -> Floats:
        """Build the wanted rows where they are not there yet; return all rows."""
        from kernelquilt.core.compiled import combine_rows

        self.n_built += combine_rows(
            self.K, self.active, self.weights, self.present, wanted, self.have, self.rows
        )
        return self.rows

    def block(self, indices: Indices) -> Floats:
        """Copy the square block of the given indices."""
        from kernelquilt.core.compiled import square_block

        return np.asarray(square_block(self.need(indices), indices))

    def factored(self, indices: Indices) -> tuple[Floats, Floats | None]:
        """Return the square block of the given indices and its `sum_factor`; the last is kept."""
        if self._factored is None or not np.array_equal(self._factored[0], indices):
            block = self.block(indices)
            self._factored = indices, block, sum_factor(block)
        return self._factored[1:]

    def subtract_product(self, rows: Indices, steps: Floats, f: Floats) -> None:
        """Take ``K[:, rows] @ steps`` away from `f`."""
        from kernelquilt.core.compiled import accumulate_rows

        accumulate_rows(self.need(rows)[np.newaxis], rows, -steps, f[np.newaxis])


def response(factor: Floats | None, slopes: Floats) -> Floats:
    """Return the curvature that the free duals add when the weights move.

    Parameters
    ----------
    factor : ndarray of shape (k, k)
        `sum_factor` L of the kernel of the free samples.
    slopes : ndarray of shape (k, M)
        Derivatives of their scores by the weights, the duals held.

    Returns
    -------
    curvature : ndarray of shape (M, M)
        The Gram matrix of the columns of ``Z = L^-1 slopes`` after their component along
        ``L^-1 1`` is removed; zero if there is nothing to move.
    """
    if factor is None:
        return np.zeros((slopes.shape[1], slopes.shape[1]))
    right = np.ones((len(factor), slopes.shape[1] + 1), order="F")
    right[:, :-1] = slopes
    Z, _ = lapack.dtrtrs(factor, right, lower=1, overwrite_b=1)
    columns, along = Z[:, :-1], Z[:, -1]
    columns -= along[:, None] * ((along @ columns) / (along @ along))
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
    present : ndarray of shape (M, n), bool, optional
        False for rows of kernels that are zero; found out by default.
    """

    tube: Floats | None = None

    def __init__(
        self, K: Numbers, y: Floats, t: Floats, U: Floats, present: Bools | None = None
    ) -> None:
        y, U = np.atleast_2d(y), np.atleast_2d(U)
        used = np.broadcast_to(t, U.shape)[U > 0]
        scale = float(used.mean()) if len(used) else 1.0
        self._hold(K, y * t, *signed_bounds(y, U), scale, present)

    def _hold(
        self,
        K: Numbers,
        s: Floats,
        lower: Floats,
        upper: Floats,
        scale: float,
        present: Bools | None = None,
    ) -> None:
        """Keep kernels, the dual problems of shape (L, n), and the size of what is learned."""
        from kernelquilt.core.compiled import present_rows

        self.K = K
        self.present: Bools = present_rows(K) if present is None else present
        self.s, self.lower, self.upper = s, lower, upper
        self.scale = scale
        self.diag = diagonals(K)
        self.work = Work()
        self.reach = 0.0
        self._buffer = np.empty(K.shape[1:]) if len(K) > 1 or K.dtype != np.float64 else None
        self._kernel: CombinedKernel | None = None

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
        kernel = CombinedKernel(self.K, weights, self.diag, self.present, self._buffer)
        n_iter = sum(self._solve_one(kernel, row, b[row], f[row], tol) for row in range(len(b)))
        self._kernel = kernel
        self.work += Work(1, n_iter, kernel.n_passes)
        self.reach = max(self.reach, largest_share(b, self.lower, self.upper))
        return self._point(weights, b, self._updated(products, b - before))

    def hessian(self, point: SVMPoint) -> Floats:
        """Return the generalised Hessian of J at the point solved last, shape (M, M)."""
        total = np.zeros((len(self.K), len(self.K)))
        for row, b in enumerate(point.b):
            free = free_indices(b, self.lower[row], self.upper[row], self.tube)
            if len(free) > 1 and self._kernel is not None:
                _, factor = self._kernel.factored(free)
                total += response(factor, point.products[row][:, free].T)
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
        from kernelquilt.core.compiled import accumulate_present

        products = products.copy()
        rows_read = 0
        changed = [np.flatnonzero(step) for step in steps]
        if sum(map(len, changed)) <= BATCH_FROM * steps.shape[1]:
            for row, indices in enumerate(changed):
                accumulate_present(
                    self.K, self.present, indices, steps[row, indices], products[row]
                )
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


def svm_with_margins(
    K: Numbers | Factors,
    y: Floats,
    C: float | Floats,
    margins: Floats | None = None,
    *,
    like: SVMAtWeights | None = None,
) -> SVMAtWeights:
    """Return the SVM on Grams (M, n, n) or factors with penalties C and margins, 1 by default.

    What one with other margins on the same Grams, `like`, has found out about them is not looked
    for again.
    """
    margins = np.ones(y.shape) if margins is None else margins
    U = np.broadcast_to(C, y.shape) / margins
    if not isinstance(K, Factors):
        return WeightedSVM(
            K, y, margins, U, like.present if isinstance(like, WeightedSVM) else None
        )
    from kernelquilt.core.svm.factor_svm import FactorSVM  # which builds on this file

    return FactorSVM(K, y, margins, U)


@dataclass(frozen=True)
class SVMResult:
    """Solution of one SVM dual.

    Attributes
    ----------
    dual_coef : ndarray of shape (n,)
        Signed duals ``b``.
    intercept : float
        Bias of the decision function.
    scores : ndarray of shape (n,)
        ``Kb``, without the intercept.
    objective : float
        Dual objective ``t'a - 1/2 b'Kb``.
    gap : float
        Primal minus dual objective, never negative.
    violation : float
        KKT gap reached.
    n_iter : int
        SMO iterations.
    n_passes : float
        Kernel entries read to combine the kernels, in units of the whole stack.
    indefinite : bool
        Whether the duals prove that the kernel is not positive semi-definite.
    """

    dual_coef: Floats
    intercept: float
    scores: Floats
    objective: float
    gap: float
    violation: float
    n_iter: int
    n_passes: float
    indefinite: bool


def solve_svm(
    K: Numbers,
    y: Floats,
    t: Floats | float = 1.0,
    U: Floats | float = 1.0,
    *,
    weights: Floats | None = None,
    tol: float = 1e-3,
    exact: bool = False,
    dual_coef: Floats | None = None,
    max_iter: int = MAX_ITER,
) -> SVMResult:
    """Solve one SVM dual (see :mod:`kernelquilt.core.svm.dual`).

    Parameters
    ----------
    K : ndarray of shape (n, n), or of shape (M, n, n) with `weights`
        Kernel, symmetric; positive semi-definite for the optimum to be global.
    y : ndarray of shape (n,)
        Labels -1 and +1.
    t : float or ndarray of shape (n,), default=1.0
        Linear term, the margin asked of each sample.
    U : float or ndarray of shape (n,), default=1.0
        Upper bounds of the duals ``a``; 0 leaves a sample out.
    weights : ndarray of shape (M,), optional
        Use ``sum_p weights[p] K[p]``, of which only the rows needed are built.
    tol : float, default=1e-3
        KKT gap at which to stop.
    exact : bool, default=False
        Go on to rounding accuracy by solving for the free samples at once.
    dual_coef : ndarray of shape (n,), optional
        Signed duals to start from; made feasible first.
    max_iter : int, default=10_000_000
        Cap on the SMO iterations.

    Returns
    -------
    SVMResult
    """
    y = np.asarray(y, dtype=np.float64)
    n = len(y)
    s = y * np.broadcast_to(np.asarray(t, dtype=np.float64), (n,))
    U = np.broadcast_to(np.asarray(U, dtype=np.float64), (n,))
    lower, upper = signed_bounds(y, U)
    stack = np.ascontiguousarray(K if K.ndim == 3 else K[np.newaxis])
    weights = np.ones(len(stack)) if weights is None else weights
    kernel = CombinedKernel(stack, weights, diagonals(stack))
    b = np.zeros(n)
    f = s.copy()
    if dual_coef is not None:
        b = feasible_start(np.asarray(dual_coef, dtype=np.float64), lower, upper)
        support = np.flatnonzero(b)
        kernel.subtract_product(support, b[support], f)
    state = BoxDual(kernel, lower, upper, b, f)
    state.solve(tol, max_iter, exact)
    intercept = bias(b, f, lower, upper)
    return SVMResult(
        dual_coef=b,
        intercept=intercept,
        scores=s - f,
        objective=0.5 * float((s + f) @ b),
        gap=box_gap(b, f, lower, upper, intercept),
        violation=state.violation,
        n_iter=state.n_iter,
        n_passes=kernel.n_passes,
        indefinite=bool(clearly_negative((s - f) @ b, b, kernel.diag[np.newaxis])[0]),
    )
