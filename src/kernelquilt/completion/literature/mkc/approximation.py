"""Kernels that are approximated everywhere, where they are observed too.

With coefficients w_t of every training sample t over the samples v that have the kernel,

    K <- W K_vv W' + remainder,    remainder as in `kernelquilt.completion.combination`,

and k(x, t) = sum_i w_ti k(x, x_i) for a new sample x that has the kernel.
"""

from typing import NamedTuple

import numpy as np

from kernelquilt._typing import Bools, Floats
from kernelquilt.completion.combination import shortened
from kernelquilt.completion.linalg import block
from kernelquilt.completion.literature.learned_coefficients import transfer_of
from kernelquilt.completion.scaled_kernels import ScaledKernels, training_places
from kernelquilt.completion.transfer_regression import Transfer


class Approximations(NamedTuple):
    """How all kernels were approximated, and how rows are.

    Attributes
    ----------
    coefs : list of M ndarrays of shape (n, n_v)
        W, shortened where a diagonal of 1 asks for it.
    known : list of M ndarrays of shape (n_v, n_v)
        K_vv.
    scaled : ScaledKernels
    transfer : Transfer
        For new samples.
    """

    coefs: list[Floats]
    known: list[Floats]
    scaled: ScaledKernels
    transfer: Transfer

    @classmethod
    def complete(
        cls, scaled: ScaledKernels, coefs: list[Floats], between: Floats | None = None
    ) -> "Approximations":
        """Approximate training kernels in place.

        Parameters
        ----------
        scaled, between
            As in `LearnedCombinations`.
        coefs : list of M ndarrays of shape (n, n_v)
            W.
        """
        assert scaled.keys is not None
        first = training_places(scaled.keys, scaled.keys)
        alike = np.equal.outer(first, first).astype(np.float64)
        transfer = transfer_of(scaled, between)
        used, known = [], []
        for kernel, v, coef, unit in zip(
            scaled.kernels, scaled.observed.T, coefs, scaled.unit, strict=True
        ):
            W = coef[first]
            known.append(block(kernel, v, v))
            inner = W @ known[-1] @ W.T
            if unit:
                lengths, spread = shortened(inner.diagonal(), alike, 0.0)
                W = W / lengths[:, None]
                inner = inner / (lengths[:, None] * lengths) + spread[:, None] * alike * spread
                np.fill_diagonal(inner, 1.0)
            kernel[...] = (inner + inner.T) / 2
            used.append(W)
        return cls(used, known, scaled, transfer)

    def complete_rows(self, Z: Floats, rows: Floats, observed: Bools, own: Floats) -> None:
        """Complete rows and their diagonal in place, as in `ScaledKernels.complete_rows`."""
        new = [self.transfer.coefficients(rows, observed, m)[0] for m in range(len(Z))]
        for m, (W, known, coef, unit) in enumerate(
            zip(self.coefs, self.known, new, self.scaled.unit, strict=True)
        ):
            present, v = observed[:, m], self.scaled.observed[:, m]
            half = coef @ known
            norms = (half * coef).sum(axis=1)
            if unit:
                half /= np.sqrt(np.maximum(norms, 1.0))[:, None]
                norms[:] = 1.0
            rows[m, present] = block(rows[m], present, v) @ W.T
            rows[m, ~present] = half @ W.T
            own[m, ~present] = norms
