r"""Kernel ridge regression on a weighted sum of kernels, solved again as the weights change.

For weights ``d``, targets Y of L outputs and positive sample weights w, the dual is

.. math:: J(d) = \max_b \; \sum_l \Bigl[ y_l'b_l - \tfrac{\lambda}{2} \sum_i b_{li}^2 / w_i
          - \tfrac12 (1'b_l)^2 - \tfrac12 \sum_p d_p \, b_l'K_p b_l \Bigr] ,

where the constant kernel that is the bias has weight 1. Its solution, its gradient
:math:`-q_p / 2` and its Hessian are in closed form with
:math:`G = \sum_p d_p K_p + 11' + \lambda W^{-1}`:

.. math:: b_l = G^{-1} y_l, \qquad q_p = \sum_l b_l'K_p b_l, \qquad
          \partial^2 J / \partial d_p \partial d_r = \sum_l b_l'K_p G^{-1} K_r b_l .
"""

from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from kernelquilt._typing import Floats, Indices, Numbers
from kernelquilt.core.weights.solution import Work
from kernelquilt.core.weights.solvers import SVMPoint, diagonals
from kernelquilt.quilt.space.ridge import Sums


class WeightedRidge:
    """Kernel ridge regression as the ridge inside a solver over kernel weights.

    Parameters
    ----------
    K : ndarray of shape (M, n, n)
        Kernels, symmetric, zero where absent.
    Y : ndarray of shape (L, n)
        Targets.
    lam : float
        Positive penalty.
    weight : ndarray of shape (n,)
        Positive weights of the samples.
    """

    def __init__(self, K: Numbers, Y: Floats, lam: float, weight: Floats) -> None:
        self.K = K
        self.Y = Y
        self.ridge = lam / weight
        self.diag = diagonals(K)
        self.work = Work()
        self.reach = np.inf
        self._factor: Any = None

    def solve(self, weights: Floats, start: Any = None, tol: float = 0.0) -> SVMPoint:
        """Solve for one weight vector (M,), exactly; `start` and `tol` are not needed."""
        G = np.tensordot(weights.astype(self.K.dtype), self.K, axes=1).astype(
            np.float64, copy=False
        )
        G += 1.0
        G[np.diag_indices(len(G))] += self.ridge
        # the transpose of a C-ordered array is what LAPACK takes without a copy
        self._factor = cho_factor(G.T, lower=True, overwrite_a=True, check_finite=False)
        b = cho_solve(self._factor, self.Y.T, check_finite=False)
        products = np.array([kernel @ b for kernel in self.K]).transpose(2, 0, 1)
        b = np.ascontiguousarray(b.T)
        q = np.einsum("lmi,li->m", products, b)
        intercept = b.sum(axis=1)
        fit = float(np.vdot(self.Y, b))
        linear = fit - 0.5 * float(np.square(b).sum(axis=0) @ self.ridge + intercept @ intercept)
        value = linear - 0.5 * float(weights @ q)
        self.work += Work(1, 0, 2.0)
        return SVMPoint(weights, b, products, q, linear, intercept, value, value)

    def hessian(self, point: SVMPoint) -> Floats:
        """Return the second derivatives by the weights at the point solved last, (M, M)."""
        M = len(self.K)
        total = np.zeros((M, M))
        for slopes in point.products:
            total += slopes @ cho_solve(self._factor, slopes.T, check_finite=False)
        return (total + total.T) / 2


class WeightedFeatureRidge:
    """The same on features of the kernels, from sums over samples.

    Parameters
    ----------
    sums : Sums
        Of the features of all kernels side by side.
    kernel_of : ndarray of int of shape (D,)
        The kernel of each feature.
    n_kernels : int
    lam : float
        Positive penalty.
    """

    def __init__(self, sums: Sums, kernel_of: Indices, n_kernels: int, lam: float) -> None:
        self.sums = sums
        self.kernel_of = kernel_of
        self.lam = lam
        self.diag = self._by_kernel(sums.gram.diagonal()[:-1], n_kernels)[:, None]
        self.n_kernels = n_kernels
        self.work = Work()
        self.reach = np.inf
        self._factor: Any = None

    def _by_kernel(self, values: Floats, n_kernels: int) -> Floats:
        return np.bincount(self.kernel_of, values, minlength=n_kernels).astype(np.float64)

    def solve(self, weights: Floats, start: Any = None, tol: float = 0.0) -> SVMPoint:
        """Solve for one weight vector (M,), exactly; `start` and `tol` are not needed.

        The point has ``v`` (L, D) instead of duals, and no products.
        """
        gram, moments = self.sums.gram, self.sums.moments
        root = np.append(np.sqrt(weights)[self.kernel_of], 1.0)
        A = root[:, None] * gram * root
        A[np.diag_indices(len(A))] += self.lam
        self._root = root
        self._factor = cho_factor(A.T, lower=True, overwrite_a=True, check_finite=False)
        beta = cho_solve(self._factor, root[:, None] * moments, check_finite=False)
        spread = root[:, None] * beta
        inner = gram @ spread
        v = (moments - inner)[:-1] / self.lam
        q = self._by_kernel(np.square(v).sum(axis=1), self.n_kernels)
        along = float(np.vdot(moments, spread))
        squares = float(self.sums.squares.sum())
        fit = (squares - along) / self.lam  # y'b
        residual = squares - 2.0 * along + float(np.vdot(spread, inner))
        intercept = beta[-1]
        linear = fit - 0.5 * (residual / self.lam + float(intercept @ intercept))
        value = linear - 0.5 * float(weights @ q)
        self.work += Work(1, 0, 0.0)
        return SVMPoint(
            weights, v.T, np.empty((len(v.T), 0, 0)), q, linear, intercept, value, value
        )

    def hessian(self, point: SVMPoint) -> Floats:
        """Return the second derivatives by the weights at the point solved last, (M, M)."""
        total = np.zeros((self.n_kernels, self.n_kernels))
        for v in point.b:
            slopes = np.zeros((len(v) + 1, self.n_kernels))
            slopes[np.arange(len(v)), self.kernel_of] = v
            inner = self.sums.gram @ slopes
            through = self._root[:, None] * inner
            solved = cho_solve(self._factor, through, check_finite=False)
            total += (slopes.T @ inner - through.T @ solved) / self.lam
        return (total + total.T) / 2
