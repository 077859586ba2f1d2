"""Ridge regression from the samples of one kernel to those of another.

Within kernel l, a sample t is approximated by samples J that another kernel has as well,

    x = (K_l[J, J] + c 11' + eps I)^-1 (K_l[J, t] + c),    (1)

and the coefficients x serve in the other kernel. J differs from pair to pair of kernels, but the
matrix of (1) is inverted once for each kernel, on all its samples: with the blocks of J and of the
others, d, of the inverse G,

    (K_l[J, J] + ...)^-1 = G_JJ - G_Jd G_dd^-1 G_dJ.    (2)

How well (1) predicts the features phi of another kernel K on J is known in closed form. With R the
inverse in (2), the residual of sample i when it is left out is (R Phi)_i / R_ii, whence

    error = sum_i (R K R)_ii / R_ii^2 = < K, B B' >,    B = R diag(R)^-1.    (3)
"""

import numpy as np
import scipy.linalg
from scipy.linalg.lapack import dpotrf, dpotri

from kernelquilt._typing import Bools, Floats

_TILE = 64


def inverse_of(A: Floats) -> Floats:
    """Return the inverse of a positive definite matrix (n, n)."""
    return inverse_and_log_det(A)[0]


def inverse_and_log_det(A: Floats) -> tuple[Floats, float]:
    """Return the inverse of a positive definite matrix (n, n), and its log determinant."""
    # the transpose of a C-ordered array is what LAPACK takes without a copy
    factor, info = dpotrf(A.T, lower=1, clean=0)
    log_det = 2 * np.log(factor.diagonal()).sum() if info == 0 else np.nan
    if info == 0:
        half, info = dpotri(factor, lower=1, overwrite_c=1)
    if info != 0:
        raise np.linalg.LinAlgError("the matrix is not positive definite")
    return mirrored(half.T), float(log_det)


def mirrored(A: Floats) -> Floats:
    """Copy the upper triangle of a matrix (n, n) to the lower one, in place."""
    # in tiles, because a transposed read of the whole is three times as slow
    for i in range(0, len(A), _TILE):
        rows = slice(i, i + _TILE)
        for j in range(0, i, _TILE):
            A[rows, j : j + _TILE] = A[j : j + _TILE, rows].T
        tile = np.triu(A[rows, rows])
        A[rows, rows] = tile + np.triu(tile, 1).T
    return A


def block(A: Floats, rows: Bools, columns: Bools) -> Floats:
    """Return the chosen rows and columns of a matrix; much faster than ``A[np.ix_(...)]``."""
    return np.asarray(A[rows][:, columns])


def restricted_inverse(G: Floats, kept: Bools) -> Floats:
    """Return (2), the inverse of the block `kept` (n,) of the matrix with inverse G (n, n)."""
    if kept.all():
        return G
    left_out = ~kept
    removed = G[left_out]
    factor = np.linalg.cholesky(removed[:, left_out])
    half = scipy.linalg.solve_triangular(factor, removed[:, kept], lower=True, check_finite=False)
    return np.asarray(block(G, kept, kept) - half.T @ half)


def restricted_solve(G: Floats, kept: Bools, B: Floats) -> Floats:
    """Return (2) times B (n_kept, k)."""
    rows = G[kept]
    product = rows.T @ B
    if kept.all():
        return np.asarray(product)
    left_out = ~kept
    factor = scipy.linalg.cho_factor(block(G, left_out, left_out), lower=True, check_finite=False)
    correction = scipy.linalg.cho_solve(factor, product[left_out], check_finite=False)
    return np.asarray(product[kept] - rows[:, left_out] @ correction)


def left_out_metric(R: Floats, workspace: Floats) -> Floats:
    """Return B B' of (3), whose inner product with a kernel is the leave-one-out error.

    Parameters
    ----------
    R : ndarray of shape (n, n)
    workspace : ndarray of shape (2, size)
        With size at least n^2. What is returned is there and is overwritten by the next call: fresh
        memory would cost as much as the product.
    """
    n = len(R)
    B, metric = workspace[:, : n * n].reshape(2, n, n)
    np.divide(R, R.diagonal(), out=B)
    return np.matmul(B, B.T, out=metric)


def solve_by_pattern(A: Floats, observed: Bools, B: Floats, ridge: Floats | float = 0.0) -> Floats:
    """Solve for every sample a system with the sum of the matrices of the kernels that it has.

    Parameters
    ----------
    A : ndarray of shape (M, r, r)
    observed : ndarray of bool of shape (n, M)
    B : ndarray of shape (n, r)
        Right hand sides.
    ridge : ndarray of shape (r, r), default=0
        Added to every sum.

    Returns
    -------
    solutions : ndarray of shape (n, r)
    """
    solutions = np.empty_like(B)
    patterns, which = np.unique(observed, axis=0, return_inverse=True)
    for number, pattern in enumerate(patterns):
        rows = which.ravel() == number
        total = np.tensordot(pattern.astype(A.dtype), A, 1)
        solutions[rows] = np.linalg.solve(total + ridge, B[rows].T).T
    return solutions
