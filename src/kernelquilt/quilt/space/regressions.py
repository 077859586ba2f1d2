r"""Ridge regressions between features, and what they leave when a sample is left out.

A sample that counts as w copies is one whose features are multiplied by :math:`\sqrt w`, and so are
its residuals. With h its leverage then, the residual without the share :math:`\theta` of its copies
is that with all of them over :math:`1 - \theta h`, as in :mod:`kernelquilt.quilt.space.ridge`.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import get_blas_funcs, get_lapack_funcs

from kernelquilt._typing import Floats, Numbers
from kernelquilt.quilt.space.search import MANY, SAFE, least_near

RIDGES = (0.01, 0.03, 0.1, 0.3, 1.0)
START = 3  # of them, where the search for the best begins


def squared_lengths(z: Floats) -> Floats:
    """Return the squared lengths (n,) of rows."""
    return np.asarray(np.einsum("ij,ij->i", z, z))


class Copies(NamedTuple):
    """As how many copies samples count, and which share of them is left out at a time.

    Attributes
    ----------
    number, held_out : ndarrays of shape (n,)
    """

    number: Floats
    held_out: Floats

    @classmethod
    def one_each(cls, n: int) -> "Copies":
        """Return one copy of each of n samples."""
        return cls(np.ones(n), np.ones(n))

    @property
    def total(self) -> float:
        """How many may be left out."""
        return float(np.round(1.0 / self.held_out).sum())

    def part(self, rows: Any) -> "Copies":
        """Return those of some samples."""
        return Copies(self.number[rows], self.held_out[rows])

    def rooted(self, rows: Floats) -> Floats:
        """Return rows (n, k) times the roots of the numbers."""
        return rooted(rows, self.number)

    def rooted_kernel(self, kernel: Floats) -> Floats:
        """Return the kernel (n, n) of rows times the roots."""
        return self.rooted(self.rooted(kernel).T).T


def rooted(rows: Floats, weight: Floats) -> Floats:
    """Return rows (n, k) times the roots of weights (n,), the same rows if all weights are one."""
    return rows if (weight == 1.0).all() else np.sqrt(weight)[:, None] * rows


class Regression(NamedTuple):
    """Ridge regression of wanted features on known ones.

    Attributes
    ----------
    map : ndarray of shape (n, k) or (D, k)
        Coefficients of the samples, or of the features.
    residuals : ndarray of shape (n, k)
    free : ndarray of shape (n,)
        What they are divided by when samples are left out.
    """

    map: Floats
    residuals: Floats
    free: Floats

    def error(self, columns: slice) -> float:
        """Return the sum of the squares of some residuals when left out."""
        return float((squared_lengths(self.residuals[:, columns]) / self.free**2).sum())


def solve_by_samples(kernel: Floats, wanted: Floats, eps: float, held_out: Floats) -> Regression:
    """Regress features (n, k) on those of a kernel (n, n), which is overwritten."""
    kernel[np.diag_indices(len(kernel))] += eps
    coef, diagonal = _solved(kernel, wanted, overwrite=True)
    return Regression(coef, coef, _free(diagonal, eps, held_out))


def _free(diagonal: Floats, eps: float, held_out: Floats) -> Floats:
    """Return ``(1 - held_out h) / eps``, from the diagonal of the inverse, ``(1 - h) / eps``."""
    return (1.0 - held_out) / eps + held_out * diagonal


def _solved(A: Numbers, B: Numbers, *, overwrite: bool = False) -> tuple[Floats, Floats]:
    """Return ``A^-1 B`` and the diagonal of ``A^-1``, for a positive definite matrix."""
    potrf, potri = get_lapack_funcs(("potrf", "potri"), (A,))
    (symm,) = get_blas_funcs(("symm",), (A,))
    # the transpose of a C-ordered array is what LAPACK takes without a copy
    factor, info = potrf(A.T, lower=1, clean=0, overwrite_a=overwrite)
    if info == 0:
        half, info = potri(factor, lower=1, overwrite_c=1)
    if info != 0:
        raise np.linalg.LinAlgError("features are not finite, or too large for their ridge")
    return symm(1.0, half, np.ascontiguousarray(B).T, side=1, lower=1).T, half.diagonal()


def solve_by_features(
    known: Floats,
    wanted: Floats,
    eps: float,
    held_out: Floats,
    sums: tuple[Floats, Floats] | None = None,
) -> Regression:
    """Regress features (n, k) on others (n, D); `sums` if these are not all samples."""
    gram, cross = (known.T @ known, known.T @ wanted) if sums is None else sums
    shifted = gram.copy()
    shifted[np.diag_indices(len(shifted))] += eps
    # numpy lets other threads work meanwhile, which scipy's Cholesky factors do not
    inverse = np.linalg.inv(shifted)
    W = inverse @ cross
    free = 1.0 - held_out * np.einsum("ij,ij->i", known @ inverse, known)
    return Regression(W, wanted - known @ W, np.maximum(free, 1e-12))


def refine_by_samples(Q: Floats, known: Floats, held_out: Floats) -> Floats:
    """Return the coefficients (n, D_p) of the ridge with the least error."""
    diagonal = Q.diagonal().copy()
    least = SAFE * float(diagonal.sum())

    def tried(k: int, Q: Numbers = Q, known: Numbers = known) -> tuple[float, Floats]:
        np.fill_diagonal(Q, diagonal + RIDGES[k])
        coef, inverse = _solved(Q, known)
        free = _free(inverse, RIDGES[k], held_out)
        return float((squared_lengths(coef) / free**2).sum()), coef

    single = (Q.astype(np.float32), known.astype(np.float32)) if len(Q) > MANY else None

    def rough(k: int) -> float | None:
        return tried(k, *single)[0] if single and RIDGES[k] >= least else None

    return least_near(rough, tried, len(RIDGES), START)[1]


def refine_by_features(
    Q: Floats, known: Floats, held_out: Floats, sums: tuple[Floats, Floats] | None = None
) -> Floats:
    """Return B of the ridge with the least error; `sums` if these are not all samples."""
    gram, cross = (Q.T @ Q, Q.T @ known) if sums is None else sums
    s, V = np.linalg.eigh(gram)
    s = np.maximum(s, 0.0)
    inside, rows = V.T @ cross, Q @ V
    squared = np.square(rows)
    best, chosen = np.inf, RIDGES[-1]
    for eps in RIDGES:
        free = 1.0 - held_out * (squared @ (1.0 / (s + eps)))
        residual = known - rows @ (inside / (s + eps)[:, None])
        error = float((squared_lengths(residual) / np.maximum(free, 1e-12) ** 2).sum())
        if error < best:
            best, chosen = error, eps
    return V @ (inside / (s + chosen)[:, None])
