"""A weighted sum of kernels of which only the rows that are needed get built."""

import numpy as np

from kernelquilt._typing import Floats, Indices, Numbers
from kernelquilt.core.svm.factor_reading import FactorReader
from kernelquilt.core.svm.factors import Factors


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
    buffer : ndarray of shape (n, n), optional
        Where to build the rows; reused from one weight vector to the next.
    """

    def __init__(
        self, K: Numbers, weights: Floats, diag: Floats, buffer: Floats | None = None
    ) -> None:
        self.K = K
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

    @property
    def n_passes(self) -> float:
        """Kernel entries read so far, in units of the whole stack."""
        return self.n_built * len(self.active) / (self.K.shape[0] * self.K.shape[1])

    def need(self, wanted: Indices) -> Floats:
        """Build the wanted rows where they are not there yet; return all rows."""
        from kernelquilt.core.svm import compiled as _compiled

        self.n_built += _compiled.combine_rows(
            self.K, self.active, self.weights, wanted, self.have, self.rows
        )
        return self.rows

    def block(self, indices: Indices) -> Floats:
        """Copy the square block of the given indices."""
        return self.need(indices)[np.ix_(indices, indices)]

    def subtract_product(self, rows: Indices, steps: Floats, f: Floats) -> None:
        """Take ``K[:, rows] @ steps`` away from `f`."""
        from kernelquilt.core.svm import compiled as _compiled

        _compiled.accumulate_rows(self.need(rows)[np.newaxis], rows, -steps, f[np.newaxis])
