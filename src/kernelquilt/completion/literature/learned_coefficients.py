"""Kernels that are completed from coefficients which a method learned by iteration.

Training samples that lack kernel m get the features sum_i a_i phi_m(x_i) from learned coefficients
a over the samples I_m that have it (`kernelquilt.completion.combination`). For new samples there
are none; they get those of the ridge regressions of `kernelquilt.completion.transfer` from the
kernels l that they have, averaged with weights s_ml if the method has learned how similar the
kernels are,

    a = sum_l s_ml (K_l[J, J] + ...)^-1 (K_l[J, t] + ...) / sum_l s_ml,    J = I_m & I_l.
"""

from typing import NamedTuple

import numpy as np

from kernelquilt._typing import Bools, Floats
from kernelquilt.completion.combination import Combination, combine, combine_rows
from kernelquilt.completion.scaled_kernels import ScaledKernels
from kernelquilt.completion.transfer_regression import Transfer, solve_transfer


def undetermined_pairs(observed: Bools) -> Bools:
    """Return the pairs (n, n) of samples that no kernel of the mask (n, M) observes together."""
    together = observed.astype(np.float64)
    return np.asarray(together @ together.T == 0)


def transfer_of(scaled: ScaledKernels, between: Floats | None) -> Transfer:
    """Return what completes new samples, with learned weights (M, M) between the kernels if any."""
    transfer = solve_transfer(scaled.kernels, scaled.observed)
    return transfer if between is None else transfer.weighted(between)


class LearnedCombinations(NamedTuple):
    """How kernels were completed from learned coefficients, and how rows are."""

    combinations: list[Combination]
    transfer: Transfer

    @classmethod
    def complete(
        cls, scaled: ScaledKernels, coefs: list[Floats], between: Floats | None = None
    ) -> "LearnedCombinations":
        """Complete training kernels in place.

        Parameters
        ----------
        scaled : ScaledKernels
        coefs : list of M ndarrays of shape (n_absent, n_m)
            Coefficients of the samples that lack each kernel.
        between : ndarray of shape (M, M), default=None
            Learned weights between the kernels.
        """
        transfer = transfer_of(scaled, between)  # of what is observed
        done = combine(scaled.kernels, scaled.observed, coefs, scaled.unit, scaled.keys)
        return cls(done, transfer)

    def complete_rows(self, Z: Floats, rows: Floats, observed: Bools, own: Floats) -> None:
        """Complete rows and their diagonal in place, as in `ScaledKernels.complete_rows`."""
        coefs = [self.transfer.coefficients(rows, observed, m)[0] for m in range(len(Z))]
        combine_rows(self.combinations, Z, rows, observed, own, coefs)
