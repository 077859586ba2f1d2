"""What a solver over kernel weights asks of the problem inside: an SVM, or ridge regression."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from kernelquilt._typing import Bools, Floats, Numbers
from kernelquilt.core.solution import Work


@dataclass(frozen=True)
class SVMPoint:
    """The SVMs at one weight vector; L is the number of problems that share it.

    Attributes
    ----------
    weights : ndarray of shape (M,)
        The weights.
    b : ndarray of shape (L, n)
        Signed duals.
    products : ndarray of shape (L, M, n)
        ``K_p b`` for every kernel.
    q : ndarray of shape (M,)
        ``b'K_p b``, summed over the problems.
    linear : float
        ``s'b``, summed over the problems.
    intercept : ndarray of shape (L,)
        Biases.
    dual, primal : float
        Value of the SVM dual and primal for these weights; ``primal >= dual``.
    """

    weights: Floats
    b: Floats
    products: Floats
    q: Floats
    linear: float
    intercept: Floats
    dual: float
    primal: float

    @property
    def squared_norms(self) -> Floats:
        """``||w_p||^2 = d_p^2 q_p``, shape (M,)."""
        return np.asarray(self.weights**2 * np.maximum(self.q, 0.0))


class SVMAtWeights(Protocol):
    """What a solver over kernel weights asks of the SVM, or ridge regression, inside.

    Attributes
    ----------
    work : Work
        What all solves so far have cost.
    diag : ndarray of shape (M, n)
        Diagonals of the kernels.
    """

    work: Work
    diag: Floats

    def solve(self, weights: Floats, start: SVMPoint | Floats | None, tol: float) -> SVMPoint:
        """Solve for one weight vector (M,), to a tenth of the relative gap `tol`."""

    def hessian(self, point: SVMPoint) -> Floats:
        """Return the second derivatives by the weights at the point solved last, (M, M)."""


def diagonals(K: Numbers) -> Floats:
    """Return the diagonals of the kernels in float64, shape (M, n)."""
    return np.ascontiguousarray(np.diagonal(K, axis1=1, axis2=2), dtype=np.float64)


def clearly_negative(q: Floats, b: Floats, diag: Floats) -> Bools:
    """Return which quadratic forms ``b'K_p b`` are negative beyond rounding; diag is (M, n)."""
    scale = np.abs(diag).max(axis=1) * float(np.abs(b).sum()) ** 2
    return np.asarray(q < -1e-9 * scale)
