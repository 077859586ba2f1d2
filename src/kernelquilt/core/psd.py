"""The nearest positive semi-definite matrix, and the same projection for new rows.

With K = U diag(l) U' and U+ the eigenvectors of positive eigenvalues, the nearest positive
semi-definite matrix is K+ = K P with P = U+ U+'. So a row k of similarities to the same samples is
projected as k P, which is what happens to the rows of K. Its embedding z = k U+ diag(l+)^-1/2
satisfies k P = z Z' for the embedding Z of the samples, and needs a diagonal of at least |z|^2.
"""

from dataclasses import dataclass

import numpy as np
import scipy.linalg

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
