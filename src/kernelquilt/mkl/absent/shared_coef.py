r"""The SVM of convex absent MKL with one coefficient per sample for all kernels.

For weights ``d > 0`` it solves Eq. (31) of the paper with its weights eliminated,

.. math:: F(d) = \min_{\alpha, b_0} \; \tfrac12 \alpha' M(d) \alpha
          + \sum_i C_i \max(0, 1 - y_i ((A \alpha)_i + b_0)), \qquad
          M(d) = \sum_p R_p / d_p, \quad A = \sum_p S_p K_p ,

where :math:`S_p` keeps the rows of the samples that have kernel p, and
:math:`R_p = K_p + \epsilon_p I` with :math:`\epsilon_p` 1e-10 of the mean diagonal of
the kernel, so that M can be inverted: what is certified is the problem with this regulariser. Its
dual is an SVM,

.. math:: F(d) = \max_b \; s'b - \tfrac12 \varphi(d, b), \qquad
          \varphi(d, b) = b' A M(d)^{-1} A' b, \qquad \alpha = M(d)^{-1} A' b .

:math:`\varphi` is concave in d, with :math:`\partial \varphi / \partial d_p = q_p =
\alpha' R_p \alpha / d_p^2` and :math:`\varphi = d'q`. Therefore

.. math:: \min_{d \in \mathcal D} F(d) \;\ge\; s'b - \tfrac12 \max_{d \in \mathcal D} d'q ,

the same certificate as that of ordinary multiple kernel learning, and the same Newton solver serves
(:mod:`kernelquilt.core.weights.solvers`). Each solve costs one Cholesky factorisation, O(n^3).
"""

import numpy as np
from scipy.linalg import LinAlgError, cholesky, solve_triangular

from kernelquilt._typing import Bools, Floats, Numbers
from kernelquilt.core.svm.dual import (
    bias,
    box_gap,
    free_duals,
    largest_share,
    signed_bounds,
    sum_factor,
)
from kernelquilt.core.svm.weighted_svm import INNER_SHARE, response, solve_svm
from kernelquilt.core.weights.solution import Work
from kernelquilt.core.weights.solvers import SVMPoint, diagonals

JITTER = 1e-10  # epsilon in units of the mean diagonal of a kernel
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

    def __init__(self, K: Numbers, observed: Bools, y: Floats, U: Floats) -> None:
        self.K = K
        self.y = y
        self.U = U
        self.lower, self.upper = signed_bounds(y, U)
        self.diag = diagonals(K)
        self.work = Work(n_passes=1.0)
        self.reach = 0.0
        self.A = np.zeros(K.shape[1:])
        for p, kernel in enumerate(K):
            self.A += observed[:, [p]] * kernel
        sizes = self.diag.mean(axis=1)
        self.epsilon = JITTER * np.maximum(sizes, JITTER * (float(sizes.max()) or 1.0))

    def solve(self, weights: Floats, start: SVMPoint | Floats | None, tol: float) -> SVMPoint:
        """Solve for one weight vector (M,) without zeros; see `WeightedSVM.solve`."""
        self._factorise(weights)
        before = start.b[0] if isinstance(start, SVMPoint) else start
        svm = solve_svm(
            self._gram, self.y, 1.0, self.U, tol=INNER_SHARE * tol, exact=True, dual_coef=before
        )
        self.work += Work(1, svm.n_iter)
        self.reach = max(self.reach, largest_share(svm.dual_coef, self.lower, self.upper))
        return self._point(weights, svm.dual_coef)

    def _point(self, weights: Floats, b: Floats) -> SVMPoint:
        """Measure both objectives at b, with the factors of the weights at hand."""
        alpha = self._alpha(b)
        products = (self.K @ alpha + np.outer(self.epsilon, alpha)) / weights[:, None] ** 2
        q = products @ alpha
        linear = float(self.y @ b)
        dual = linear - 0.5 * float(weights @ q)
        f = self.y - self._gram @ b
        intercept = bias(b, f, self.lower, self.upper)
        primal = dual + box_gap(b, f, self.lower, self.upper, intercept)
        self.work += Work(n_passes=2.0)
        return SVMPoint(
            weights, b[None], products[None], q, linear, np.array([intercept]), dual, primal
        )

    def hessian(self, point: SVMPoint) -> Floats:
        r"""Return the second derivatives of F, shape (M, M).

        With :math:`v_p = R_p \alpha / d_p^2` they are, at fixed duals,
        :math:`\operatorname{diag}(q / d) - v'M^{-1}v`; the free duals add to that.
        """
        X = solve_triangular(self._factor, point.products[0].T, lower=True, check_finite=False)
        free = np.flatnonzero(free_duals(point.b[0], self.lower, self.upper))
        fixed = np.diag(point.q / point.weights) - X.T @ X
        factor = sum_factor(self._gram[np.ix_(free, free)])
        return fixed + response(factor, self._Z[:, free].T @ X)

    def coefficients(self, weights: Floats, dual_coef: Floats) -> Floats:
        """Return the coefficients alpha (n,) of the duals at given weights."""
        self._factorise(weights)
        return self._alpha(dual_coef)

    def _alpha(self, b: Floats) -> Floats:
        right = self._Z @ b
        return np.asarray(
            solve_triangular(self._factor, right, lower=True, trans="T", check_finite=False)
        )

    def _factorise(self, weights: Floats) -> None:
        """Keep the Cholesky factor L of M, ``Z = L^-1 A'`` and ``Z'Z``.

        Rounding may ask for a larger epsilon. It then stays: the bounds found before are those of
        a smaller problem and remain valid.
        """
        M = np.tensordot(1.0 / weights, self.K, 1).astype(np.float64, copy=False)
        diagonal = M.diagonal().copy()
        for _ in range(MAX_RAISES):
            M[np.diag_indices_from(M)] = diagonal + float((self.epsilon / weights).sum())
            try:
                self._factor = cholesky(M, lower=True, check_finite=False)
            except LinAlgError:
                self.epsilon = 10.0 * self.epsilon
            else:
                self._Z = solve_triangular(self._factor, self.A.T, lower=True, check_finite=False)
                self._gram = self._Z.T @ self._Z
                return
        raise ValueError(
            "the kernels are not positive semi-definite; see KernelStack.check_psd, and choose "
            "other kernels or clip their negative eigenvalues"
        )
