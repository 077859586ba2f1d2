"""The nearest positive semi-definite matrix, and the same projection for new rows.

With K = U diag(l) U' and U+ the eigenvectors of positive eigenvalues, the nearest positive
semi-definite matrix is K+ = K P with P = U+ U+'. So a row k of similarities to the same samples is
projected as k P, which is what happens to the rows of K. Its embedding z = k U+ diag(l+)^-1/2
satisfies k P = z Z' for the embedding Z of the samples, and needs a diagonal of at least |z|^2.
"""

from dataclasses import dataclass

import numpy as np
import scipy.linalg
from scipy.linalg import lapack

from kernelquilt._typing import Floats, Kernel


@dataclass(frozen=True)
class PositivePart:
    """The projection of symmetric matrices (n, n), and of further rows, that a matrix defines.

    Attributes
    ----------
    vectors : ndarray of shape (n, r)
        Eigenvectors of the positive eigenvalues.
    values : ndarray of shape (r,)
        These eigenvalues.
    diag : ndarray of shape (n,)
        Diagonal of the projected matrix.
    """

    vectors: Floats
    values: Floats
    diag: Floats

    @classmethod
    def of(cls, K: Kernel) -> "PositivePart | None":
        """Return the projection, None if K (n, n) is positive semi-definite up to rounding."""
        # eigenvalues below this may be rounding, and their eigenvectors mean nothing
        rounding = 10 * len(K) * float(np.finfo(K.dtype).eps)
        K = K.astype(np.float64)
        try:
            np.linalg.cholesky(K + rounding * max(np.trace(K) / len(K), 0.0) * np.eye(len(K)))
        except np.linalg.LinAlgError:
            values, vectors = scipy.linalg.eigh(K)
            positive = values > rounding * np.abs(values).max()
            values, vectors = values[positive], np.ascontiguousarray(vectors[:, positive])
            return cls(vectors, values, (vectors**2) @ values)
        return None

    def matrix(self) -> Floats:
        """Return the projected matrix."""
        root = self.vectors * np.sqrt(self.values)
        return np.asarray(root @ root.T)

    def rows(self, k: Floats, diag: Floats) -> tuple[Floats, Floats]:
        """Project rows k (n_rows, n) with diagonal `diag` (n_rows,); return both.

        The new diagonal is what the embedding needs, if that is more than before. But it is not
        more than the largest of the samples themselves: a row that fits ill with them would
        otherwise get a diagonal beyond all measure from the smallest eigenvalues.
        """
        scores = k @ self.vectors
        needed = ((scores**2) / self.values).sum(axis=1)
        limit = self.diag.max(initial=0.0)
        return scores @ self.vectors.T, np.maximum(np.minimum(needed, limit), diag)


def pivoted_factor(K: Kernel, tol: float, max_rank: int | None = None) -> tuple[Floats, float]:
    """Return a factor Z (n, r) with ``Z Z'`` close to K, and the share of the trace it explains.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        Positive semi-definite; the negative part of one that is not is left out.
    tol : float
        Share of the trace that may be left out.
    max_rank : int, optional
        Cap on r, which is at least 1; more may then be left out.
    """
    total = float(np.trace(K))
    if total <= 0.0:
        return np.zeros((len(K), 1)), 1.0
    factor, pivots, rank, _ = lapack.dpstrf(K.astype(np.float64), lower=1)
    explained = np.cumsum(np.square(np.tril(factor)[:, :rank]).sum(axis=0)) / total
    enough = int(np.searchsorted(explained, 1.0 - tol)) + 1
    rank = min(enough, rank, len(K) if max_rank is None else max_rank)
    Z = np.empty((len(K), rank))
    Z[pivots - 1] = np.tril(factor)[:, :rank]
    return Z, min(float(explained[rank - 1]), 1.0)
