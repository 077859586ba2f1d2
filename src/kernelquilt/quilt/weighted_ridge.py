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

from kernelquilt._typing import Floats, Numbers
from kernelquilt.core.solution import Work
from kernelquilt.core.weights.inner import SVMPoint, diagonals


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
        self._factor: Any = None

    def solve(self, weights: Floats, start: Any = None, tol: float = 0.0) -> SVMPoint:
        """Solve for one weight vector (M,), exactly; `start` and `tol` are not needed."""
        G = np.tensordot(weights.astype(self.K.dtype), self.K, axes=1).astype(
            np.float64, copy=False
        )
        G += 1.0
        G[np.diag_indices(len(G))] += self.ridge
        self._factor = cho_factor(G, lower=True, overwrite_a=True, check_finite=False)
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
