"""Kernels that are approximated everywhere, where they are observed too.

With coefficients w_t of every training sample t over the samples v that have the kernel,

    K <- W K_vv W' + remainder,    remainder as in `kernelquilt.completion.combination`,

and k(x, t) = sum_i w_ti k(x, x_i) for a new sample x that has the kernel.
"""

from dataclasses import dataclass

import numpy as np

from kernelquilt._typing import Bools, Floats, Indices, Kernel
from kernelquilt.completion.combination import Keys, shared_remainder


@dataclass(frozen=True)
class Approximation:
    """How one kernel was approximated.

    Attributes
    ----------
    present : ndarray of bool of shape (n,)
        The n_v training samples that have the kernel.
    coef : ndarray of shape (n, n_v)
        W, shortened where a diagonal of 1 asks for it.
    known : ndarray of shape (n_v, n_v)
        K_vv.
    whole : ndarray of shape (n, n)
        The approximate kernel of the training samples.
    unit : bool
        Whether its diagonal is 1.
    """

    present: Bools
    coef: Floats
    known: Floats
    whole: Kernel
    unit: bool

    @classmethod
    def complete(
        cls, kernel: Kernel, present: Bools, coef: Floats, keys: Keys | None
    ) -> "Approximation":
        """Approximate a training kernel (n, n) in place, with diagonal 1 if there are keys."""
        known = kernel[np.ix_(present, present)].astype(np.float64)
        inner = coef @ known @ coef.T
        if keys is not None:
            lengths = np.sqrt(np.maximum(inner.diagonal(), 1.0))
            coef = coef / lengths[:, None]
            inner /= lengths[:, None] * lengths
            remainder = np.sqrt(np.maximum(1.0 - inner.diagonal(), 0.0))
            inner += shared_remainder(keys, keys, remainder)
            np.fill_diagonal(inner, 1.0)
        kernel[...] = (inner + inner.T) / 2
        return cls(present, coef, known, kernel.copy(), keys is not None)

    def complete_rows(
        self, kernel: Kernel, present: Bools, coef: Floats, trained: Indices
    ) -> Floats:
        """Complete rows (n_rows, n) in place; return the diagonal of those that lack the kernel.

        Parameters
        ----------
        kernel : ndarray of shape (n_rows, n)
        present : ndarray of bool of shape (n_rows,)
            Which rows have the kernel.
        coef : ndarray of shape (n_absent_rows, n_v)
            Coefficients of the others.
        trained : ndarray of int of shape (n_rows,)
            Which training sample each row equals, -1 for none.
        """
        kernel[present] = kernel[np.ix_(present, self.present)] @ self.coef.T
        half = coef @ self.known
        diag = (half * coef).sum(axis=1)
        if self.unit:
            half /= np.sqrt(np.maximum(diag, 1.0))[:, None]
            diag[:] = 1.0
        kernel[~present] = half @ self.coef.T
        same = trained >= 0
        kernel[same] = self.whole[trained[same]]
        twins = trained[~present]
        diag[twins >= 0] = self.whole.diagonal()[twins[twins >= 0]]
        return np.asarray(diag)
