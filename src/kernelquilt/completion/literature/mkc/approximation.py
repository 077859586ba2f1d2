"""Kernels that are approximated everywhere, where they are observed too.

With coefficients w_t of every training sample t over the samples v that have the kernel,

    K <- W K_vv W' + remainder,    remainder as in `kernelquilt.completion.combination`,

and k(x, t) = sum_i w_ti k(x, x_i) for a new sample x that has the kernel.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from kernelquilt._typing import Bools, Floats, Indices, Kernel
from kernelquilt.completion.combination import (
    Keys,
    known_diagonal,
    row_keys,
    shared_remainder,
    start_diagonal,
    training_places,
    unit_kernels,
)
from kernelquilt.completion.literature.learned_coefficients import WeightedTransfer


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
        return np.asarray(diag)


class ApproximatedKernels(NamedTuple):
    """How all kernels were approximated, and how new rows are.

    Attributes
    ----------
    approximations : tuple of M Approximation
    keys : ndarray of shape (n,)
        From `row_keys`.
    transfer : WeightedTransfer
        For new samples.
    """

    approximations: tuple[Approximation, ...]
    keys: Keys
    transfer: WeightedTransfer

    @classmethod
    def complete(
        cls, K: Kernel, observed: Bools, coefs: list[Floats], between: Floats | None = None
    ) -> "ApproximatedKernels":
        """Approximate training kernels in place, as in `LearnedKernels`.

        Coefficients (n, n_m) are those of all samples.
        """
        transfer, keys = WeightedTransfer.of(K, observed, between), row_keys(K, observed)
        unit, first = unit_kernels(K, observed, "auto", ()), training_places(keys, keys)
        done = (
            Approximation.complete(kernel, present, coef[first], keys if one else None)
            for kernel, present, coef, one in zip(K, observed.T, coefs, unit, strict=True)
        )
        return cls(tuple(done), keys, transfer)

    def complete_rows(self, K: Kernel, observed: Bools, diag: Floats | None) -> Floats | None:
        """Complete rows (M, n_rows, n) in place and return their diagonal, if it is known."""
        trained, own = training_places(row_keys(K, observed), self.keys), start_diagonal(K, diag)
        coefs = [self.transfer.coefficients(K, observed, m) for m in range(len(K))]
        for m, (approximation, coef) in enumerate(zip(self.approximations, coefs, strict=True)):
            absent = ~observed[:, m]
            own[m, absent] = approximation.complete_rows(K[m], ~absent, coef, trained)
            same = trained >= 0
            own[m, same] = approximation.whole.diagonal()[trained[same]]
        unit = np.array([approximation.unit for approximation in self.approximations])
        return known_diagonal(own, diag, unit)
