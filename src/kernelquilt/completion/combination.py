"""Absent samples as combinations of the samples that have a kernel, and what is left of them.

With v the n_v samples that have a kernel, h the n_h others and a_t the coefficients of t in h,

    phi(t) = sum_{i in v} a_ti phi(x_i) + d_t psi_t,    <psi_s, psi_t> = R_st,

and psi orthogonal to the features of v. With a_t in the rows of A, the completed kernel is

    Z_vv = K_vv,   Z_vh = K_vv A',   Z_hh = A K_vv A' + D R D,    D = diag(d),    (1)

which is positive semi-definite, and exact on v. If the coordinates of the features are draws from
N(0, C) over the samples, it is expected to be (1) with A = C_hv C_vv^-1, R = C_hh - A C_vh, D = I.
Methods without such a model leave nothing, R = 0.

If the kernel is to have unit diagonal, a_t is divided by the root of q_t = a_t' K_vv a_t if that is
above 1, and d_t = sqrt((1 - q_t) / R_tt); without a model R_st is then 1 for samples s and t of
which the same is known, and 0 for others. A further sample, with coefficients a, residuals r to h
and r_0 to itself, is completed in the same way. Training samples of which the same is known are
the same sample in Z.
"""

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from kernelquilt._typing import Bools, Floats, Kernel
from kernelquilt.completion.linalg import block
from kernelquilt.completion.scaled_kernels import Keys, training_places


@dataclass(frozen=True)
class Combination:
    """How (1) completed one kernel.

    Attributes
    ----------
    present : ndarray of bool of shape (n,)
        v.
    coef : ndarray of shape (n_h, n_v)
        A, with rows shortened to give at most unit diagonal.
    lengths : ndarray of shape (n_h,)
        By what rows of it were divided.
    spread : ndarray of shape (n_h,)
        d.
    unit : bool
        Whether the kernel has unit diagonal.
    """

    present: Bools
    coef: Floats
    lengths: Floats
    spread: Floats
    unit: bool

    @classmethod
    def complete(
        cls,
        kernel: Kernel,
        present: Bools,
        coef: Floats,
        unit: bool = False,
        keys: Keys | None = None,
        R: Floats | None = None,
        least: float = 0.0,
    ) -> "Combination":
        """Complete a training kernel in place.

        Parameters
        ----------
        kernel : ndarray of shape (n, n)
        present : ndarray of bool of shape (n,)
        coef : ndarray of shape (n_h, n_v)
            A.
        unit : bool, default=False
        keys : ndarray of shape (n,), default=None
            From `row_keys`; needed for a unit diagonal without R.
        R : ndarray of shape (n_h, n_h), default=None
        least : float, default=0
            What the diagonal of R cannot be below but by rounding, or if kernels are not positive
            semi-definite.
        """
        absent = ~present
        if keys is not None:
            # samples are alike if the same is known of them, so that all or none of them are absent
            first = np.searchsorted(np.flatnonzero(absent), training_places(keys[absent], keys))
            coef, R = coef[first], R if R is None else R[np.ix_(first, first)]
            if unit and R is None:
                R = np.equal.outer(first, first).astype(np.float64)
        half = coef @ block(kernel, present, present)
        inner = half @ coef.T
        lengths = spread = np.ones(len(coef))
        if R is not None:
            if unit:
                lengths, spread = shortened(inner.diagonal(), R, least)
                coef, half = coef / lengths[:, None], half / lengths[:, None]
                inner /= lengths[:, None] * lengths
            inner += spread[:, None] * R * spread
        inner = (inner + inner.T) / 2
        if unit:
            np.fill_diagonal(inner, 1.0)
        kernel[np.ix_(absent, present)], kernel[np.ix_(present, absent)] = half, half.T
        kernel[np.ix_(absent, absent)] = inner
        return cls(present, coef, lengths, spread, unit)

    def complete_rows(
        self,
        kernel: Kernel,
        known: Floats,
        present: Bools,
        coef: Floats,
        R: Floats | None = None,
        left: Floats | float = 0.0,
        *,
        residual: bool = True,
    ) -> Floats:
        """Complete rows in place and return the diagonal (k,) of those that lack the kernel.

        Parameters
        ----------
        kernel : ndarray of shape (n_rows, n)
        known : ndarray of shape (n_v, n_v)
            K_vv.
        present : ndarray of bool of shape (n_rows,)
            Which rows have the kernel; k others lack it.
        coef : ndarray of shape (k, n_v)
            a of these.
        R : ndarray of shape (k, n_h), default=None
            r of these, in a model C_th - a' C_vh.
        left : ndarray of shape (k,), default=0
            r_0 of these, positive.
        residual : bool, default=True
            Whether what is left is added.
        """
        v, h = self.present, ~self.present
        kernel[np.ix_(present, h)] = block(kernel, present, v) @ self.coef.T
        filled = np.empty((len(coef), len(v)))
        filled[:, v] = coef @ known
        norms = (filled[:, v] * coef).sum(axis=1)
        if self.unit:
            lengths = np.sqrt(np.maximum(norms, 1.0))
            filled[:, v] /= lengths[:, None]
            norms /= lengths**2
        filled[:, h] = filled[:, v] @ self.coef.T
        if residual and R is not None:
            spread = np.sqrt(np.maximum(1.0 - norms, 0.0) / left) if self.unit else np.ones(len(R))
            filled[:, h] += spread[:, None] * R * self.spread
        if residual:
            norms = np.ones(len(norms)) if self.unit else norms + left
        kernel[~present] = filled
        return norms

    def regressed(
        self, factor: Floats, C: Floats, total: Floats, least: float
    ) -> tuple[Floats, Floats, Floats]:
        """Return a (k, n_v), r (k, n_h) and r_0 (k,), at least `least`, of further samples.

        C (k, n) are their covariances with the training samples in the model, `total` (k,) their
        variances, and `factor` (n_v, n_v) is the lower Cholesky factor of C_vv.
        """
        v = self.present
        a = scipy.linalg.cho_solve((factor, True), C[:, v].T, check_finite=False).T
        R = C[:, ~v] - (C[:, v] @ self.coef.T) * self.lengths
        return a, R, np.maximum(total - (C[:, v] * a).sum(axis=1), least)

    def without_residual(self, kernel: Kernel) -> None:
        """Take D R D out of the completed training kernel (n, n)."""
        v = self.present
        inner = self.coef @ block(kernel, v, v) @ self.coef.T
        kernel[np.ix_(~v, ~v)] = (inner + inner.T) / 2


def shortened(norms: Floats, R: Floats, least: float) -> tuple[Floats, Floats]:
    """Return what coefficients with squared norms (k,) are divided by, and d, for unit diagonal."""
    lengths = np.sqrt(np.maximum(norms, 1.0))
    left = np.maximum(R.diagonal(), least)
    return lengths, np.sqrt(np.maximum(1.0 - norms / lengths**2, 0.0) / left)


def combine(
    Z: Floats, observed: Bools, coefs: list[Floats], unit: Bools, keys: Keys | None
) -> list[Combination]:
    """Complete training kernels (M, n, n) in place from the coefficients of each."""
    return [
        Combination.complete(kernel, present, coef, bool(one), keys)
        for kernel, present, coef, one in zip(Z, observed.T, coefs, unit, strict=True)
    ]


def combine_rows(
    combinations: list[Combination],
    Z: Floats,
    rows: Floats,
    observed: Bools,
    own: Floats,
    coefs: list[Floats],
) -> None:
    """Complete rows (M, n_rows, n) and their diagonal `own` (M, n_rows) in place.

    Z (M, n, n) are the training kernels, of which observed entries are used.
    """
    for m, (done, coef) in enumerate(zip(combinations, coefs, strict=True)):
        v, present = done.present, observed[:, m]
        own[m, ~present] = done.complete_rows(rows[m], block(Z[m], v, v), present, coef)
