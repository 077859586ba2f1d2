r"""The SVM of convex absent MKL with one coefficient per sample for all kernels.

For weights ``d > 0`` the machine solves Eq. (31) of the paper with its weights eliminated,

.. math:: F(d) = \min_{\alpha, b_0} \; \tfrac12 \alpha' M(d) \alpha
          + \sum_i C_i \max(0, 1 - y_i ((A \alpha)_i + b_0)), \qquad
          M(d) = \sum_p K_p / d_p + \epsilon I, \quad A = \sum_p S_p K_p ,

where :math:`S_p` keeps the rows of the samples that have kernel p. Its dual is an SVM,

.. math:: F(d) = \max_b \; s'b - \tfrac12 \varphi(d, b), \qquad
          \varphi(d, b) = b' A M(d)^{-1} A' b, \qquad \alpha = M(d)^{-1} A' b .

:math:`\varphi` is concave in d, with :math:`\partial \varphi / \partial d_p = q_p =
\alpha' K_p \alpha / d_p^2` and :math:`\varphi = d'q + \epsilon \|\alpha\|^2`. Therefore

.. math:: \min_{d \in \mathcal D} F(d) \;\ge\;
          s'b - \tfrac12 \epsilon \|\alpha\|^2 - \tfrac12 \max_{d \in \mathcal D} d'q ,

the same certificate as that of ordinary multiple kernel learning, and the same Newton solver serves
(:mod:`kernelquilt.optim.newton`). Each solve costs one Cholesky factorisation, O(n^3).
"""

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cholesky, solve_triangular

from kernelquilt.optim.combined import diagonals
from kernelquilt.optim.machine import INNER_SHARE, Point, response
from kernelquilt.optim.smo import duality_gap, may_move, signed_bounds, solve_svm

Floats = NDArray[np.float64]

JITTER = 1e-8  # in units of the mean diagonal of M at equal weights
MAX_RAISES = 6


class SharedCoefSVM:
    """SVM of Eq. (31) at given weights, solved again and again as they change.

    Parameters
    ----------
    K : ndarray of shape (M, n, n)
        Kernels, zero where absent.
    observed : ndarray of shape (n, M), bool
        True where a kernel observes a sample.
    y : ndarray of shape (n,)
        Labels -1 and +1.
    U : ndarray of shape (n,)
        Penalties.
    """

    def __init__(
        self, K: NDArray[np.floating], observed: NDArray[np.bool_], y: Floats, U: Floats
    ) -> None:
        self.K = K
        self.y = y
        self.U = U
        self.lower, self.upper = signed_bounds(y, U)
        self.diag = diagonals(K)
        self.n_solves = 0
        self.n_smo_iter = 0
        self.n_passes = 1.0
        self.A = np.zeros(K.shape[1:])
        for p, kernel in enumerate(K):
            self.A += observed[:, [p]] * kernel
        self.epsilon = JITTER * float(self.diag.sum()) / K.shape[1] * len(K)

    def solve(self, weights: Floats, start: Point | Floats | None, tol: float) -> Point:
        """Solve for one weight vector (M,) without zeros; see `StackSVM.solve`."""
        factor, Z = self._factorise(weights)
        gram = Z.T @ Z
        before = start.b[0] if isinstance(start, Point) else start
        svm = solve_svm(
            gram, self.y, 1.0, self.U, tol=INNER_SHARE * tol, exact=True, dual_coef=before
        )
        b = svm.dual_coef
        alpha = solve_triangular(factor, Z @ b, lower=True, trans="T", check_finite=False)
        products = (self.K @ alpha) / weights[:, None] ** 2
        q = products @ alpha
        linear = float(self.y @ b) - 0.5 * self.epsilon * float(alpha @ alpha)
        dual = linear - 0.5 * float(weights @ q)
        f = self.y - svm.scores
        primal = dual + duality_gap(self.y, self.U, b, f, svm.intercept)
        self._last = factor, Z, gram
        self.n_solves += 1
        self.n_smo_iter += svm.n_iter
        self.n_passes += 2.0
        intercept = np.array([svm.intercept])
        return Point(weights, b[None], products[None], q, linear, intercept, dual, primal)

    def hessian(self, point: Point) -> Floats:
        r"""Return the second derivatives of F, shape (M, M).

        With :math:`v_p = K_p \alpha / d_p^2` they are, at fixed duals,
        :math:`\operatorname{diag}(q / d) - v'M^{-1}v`; the free duals add to that.
        """
        factor, Z, gram = self._last
        X = solve_triangular(factor, point.products[0].T, lower=True, check_finite=False)
        up, down = may_move(point.b[0], self.lower, self.upper)
        free = np.flatnonzero(up & down)
        fixed = np.diag(point.q / point.weights) - X.T @ X
        return fixed + response(gram[np.ix_(free, free)], Z[:, free].T @ X)

    def coefficients(self, weights: Floats, dual_coef: Floats) -> Floats:
        """Return the coefficients alpha (n,) of the duals at given weights."""
        factor, Z = self._factorise(weights)
        return np.asarray(
            solve_triangular(factor, Z @ dual_coef, lower=True, trans="T", check_finite=False)
        )

    def _factorise(self, weights: Floats) -> tuple[Floats, Floats]:
        """Return the Cholesky factor L of M and ``L^-1 A'``.

        Rounding may ask for a larger epsilon. It then stays: the bounds found before are those of
        a smaller problem and remain valid.
        """
        M = np.tensordot(1.0 / weights, self.K, 1).astype(np.float64, copy=False)
        diagonal = M.diagonal().copy()
        for _ in range(MAX_RAISES):
            M[np.diag_indices_from(M)] = diagonal + self.epsilon
            try:
                factor = cholesky(M, lower=True, check_finite=False)
            except LinAlgError:
                self.epsilon *= 10.0
            else:
                return factor, solve_triangular(factor, self.A.T, lower=True, check_finite=False)
        raise ValueError(
            "the kernels are not positive semi-definite; see KernelStack.check_psd, and choose "
            "other kernels or clip their negative eigenvalues"
        )
