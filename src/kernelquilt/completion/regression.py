"""Completion by regression under a Gaussian model of the features.

If the coordinates of the features of a kernel are draws from N(0, C) over the samples, of which v
have the kernel and h lack it, then with X = C_vv^-1 C_vh and R = C_hh - C_hv X the kernel is
expected to be

    Z_vv = K_vv,   Z_vh = K_vv X,   Z_hh = X' K_vv X + D R D,    (1)

where D = I. If it has unit diagonal, so has Z: a column x_t of X is divided by the root of
q_t = x_t' K_vv x_t if that is above 1, and D_tt = sqrt((1 - q_t) / R_tt). A further sample, with
coefficients x, residuals r to h and r_0 to itself, is completed in the same way. Training samples
of which the same is known are the same sample in Z.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kernelquilt._typing import Bools, Floats, Kernel
from kernelquilt.completion.combination import (
    Keys,
    known_diagonal,
    mean_diagonals,
    places_of_first,
    row_keys,
    training_places,
)
from kernelquilt.completion.linalg import block


@dataclass(frozen=True)
class Regression:
    """How (1) completed one kernel.

    Attributes
    ----------
    present : ndarray of bool of shape (n,)
        The n_v training samples that have the kernel.
    coef : ndarray of shape (n_h, n_v)
        X', shortened to give at most unit diagonal.
    lengths : ndarray of shape (n_h,)
        By what rows of it were divided.
    spread : ndarray of shape (n_h,)
        D_tt.
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
        R: Floats,
        least: float,
        unit: bool,
        keys: Keys,
    ) -> "Regression":
        """Complete a training kernel (n, n) in place, from X' and R as they are in (1).

        `least` is what the diagonal of R cannot be below but by rounding, or if kernels are not
        positive semi-definite. `keys` (n,) are from `row_keys`.
        """
        first = places_of_first(keys, ~present)
        if (first != np.arange(len(first))).any():
            coef, R = coef[first], R[np.ix_(first, first)]
        half = coef @ block(kernel, present, present)
        inner = half @ coef.T
        lengths, spread = np.ones(len(coef)), np.ones(len(coef))
        if unit:
            norms = inner.diagonal().copy()
            lengths = np.sqrt(np.maximum(norms, 1.0))
            coef, half = coef / lengths[:, None], half / lengths[:, None]
            inner /= lengths[:, None] * lengths
            left = np.maximum(R.diagonal(), least)
            spread = np.sqrt(np.maximum(1.0 - norms / lengths**2, 0.0) / left)
        inner += spread[:, None] * R * spread
        inner = (inner + inner.T) / 2
        if unit:
            np.fill_diagonal(inner, 1.0)
        absent = ~present
        kernel[np.ix_(absent, present)], kernel[np.ix_(present, absent)] = half, half.T
        kernel[np.ix_(absent, absent)] = inner
        return cls(present, coef, lengths, spread, unit)

    def complete_rows(
        self,
        kernel: Kernel,
        known: Floats,
        present: Bools,
        coef: Floats,
        R: Floats,
        left: Floats,
        *,
        residual: bool = True,
    ) -> Floats:
        """Complete rows (n_rows, n) in place; return the diagonal of those that lack the kernel.

        Parameters
        ----------
        kernel : ndarray of shape (n_rows, n)
        known : ndarray of shape (n_v, n_v)
            K_vv.
        present : ndarray of bool of shape (n_rows,)
            Which rows have the kernel; k others lack it.
        coef : ndarray of shape (k, n_v)
            x of these.
        R : ndarray of shape (k, n_h)
            Products of the rows x with C_vh taken from C, that is C_th - x' C_vh.
        left : ndarray of shape (k,)
            Their residuals to themselves, positive.
        residual : bool, default=True
            Whether D R D is added.
        """
        v, h = self.present, ~self.present
        kernel[np.ix_(present, h)] = block(kernel, present, v) @ self.coef.T
        filled = np.empty((len(coef), len(v)))
        filled[:, v] = coef @ known
        norms = (filled[:, v] * coef).sum(axis=1)
        spread = np.ones(len(coef))
        if self.unit:
            lengths = np.sqrt(np.maximum(norms, 1.0))
            filled[:, v] /= lengths[:, None]
            norms /= lengths**2
            spread = np.sqrt(np.maximum(1.0 - norms, 0.0) / left)
        filled[:, h] = filled[:, v] @ self.coef.T
        if residual:
            filled[:, h] += spread[:, None] * R * self.spread
            norms = np.ones(len(norms)) if self.unit else norms + left
        kernel[~present] = filled
        return norms

    def without_residual(self, kernel: Kernel) -> None:
        """Take D R D out of the completed training kernel (n, n)."""
        v = self.present
        inner = self.coef @ block(kernel, v, v) @ self.coef.T
        kernel[np.ix_(~v, ~v)] = (inner + inner.T) / 2


CompleteRows = Callable[[Floats, Floats, Bools, Floats], None]


@dataclass(frozen=True)
class ScaledKernels:
    """Training kernels in units of their mean diagonals, and rows against them.

    Attributes
    ----------
    kernels : ndarray of shape (M, n, n)
        To be completed in place.
    observed : ndarray of bool of shape (n, M)
    unit : ndarray of bool of shape (M,)
        Which kernels are to have unit diagonal; these are as they were.
    sizes : ndarray of shape (M,)
        The units.
    keys : ndarray of shape (n,)
        From `row_keys`.
    """

    kernels: Floats
    observed: Bools
    unit: Bools
    sizes: Floats
    keys: Keys

    @classmethod
    def of(cls, K: Kernel, observed: Bools, unit: Bools) -> "ScaledKernels":
        """Scale training kernels (M, n, n) that are zero where absent."""
        sizes = np.where(unit, 1.0, mean_diagonals(K, observed))
        return cls(K / sizes[:, None, None], observed, unit, sizes, row_keys(K, observed))

    def write(self, K: Kernel) -> None:
        """Copy what was absent in the training kernels to K (M, n, n)."""
        self._write(K, self.kernels, self.observed)

    def complete_rows(
        self, K: Kernel, observed: Bools, diag: Floats | None, complete: CompleteRows
    ) -> Floats | None:
        """Complete rows (M, n_rows, n) in place and return their diagonal, if it is known.

        Parameters
        ----------
        K, observed, diag
            As for the rows of `BaseCompleter`.
        complete : callable
            Takes the training kernels, rows in the same units, `observed`, and the diagonal
            (M, n_rows) of the rows, which is 1 where it is not known; completes rows and diagonal
            in place. Training samples among them get the rows they have.
        """
        keys, sizes = row_keys(K, observed), self.sizes[:, None]
        own = np.where(observed.T, 1.0 if diag is None else diag / sizes, 0.0)
        rows = K / sizes[:, :, None]
        complete(self.kernels, rows, observed, own)
        place = training_places(keys, self.keys)
        again, which = place >= 0, place[place >= 0]
        rows[:, again] = self.kernels[:, which]
        own[:, again] = self.kernels[:, which, which]
        self._write(K, rows, observed)
        if diag is not None:
            own = np.where(observed.T, diag, own * sizes)
        return known_diagonal(own, diag, self.unit)

    def _write(self, K: Kernel, Z: Floats, observed: Bools) -> None:
        for kernel, filled, present, columns, size in zip(
            K, Z, observed.T, self.observed.T, self.sizes, strict=True
        ):
            kernel[~present] = filled[~present] * size
            kernel[:, ~columns] = filled[:, ~columns] * size
