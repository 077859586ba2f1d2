"""Kernels that are completed from coefficients which a method learned by iteration.

Training samples that lack kernel m get the features sum_i a_i phi_m(x_i) from learned coefficients
a over the samples I_m that have it (`kernelquilt.completion.combination`). For new samples there
are none; they get those of the ridge regressions of `kernelquilt.completion.transfer` from the
kernels l that they have, averaged with weights s_ml if the method has learned how similar the
kernels are,

    a = sum_l s_ml (K_l[J, J] + ...)^-1 (K_l[J, t] + ...) / sum_l s_ml,    J = I_m & I_l.

A new sample of which the same is known as of a training sample is completed as that one was.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from kernelquilt._typing import Bools, Floats, Indices, Kernel
from kernelquilt.completion.combination import (
    CombinedKernels,
    Keys,
    known_diagonal,
    places_of_first,
    row_keys,
    start_diagonal,
    training_places,
    unit_kernels,
)
from kernelquilt.completion.transfer_regression import Transfer, solve_transfer


def undetermined_pairs(observed: Bools) -> Bools:
    """Return the pairs (n, n) of samples that no kernel of the mask (n, M) observes together."""
    together = observed.astype(np.float64)
    return np.asarray(together @ together.T == 0)


class WeightedTransfer(NamedTuple):
    """Coefficients of new samples, with learned weights between the kernels where these serve.

    Attributes
    ----------
    weighted, plain : Transfer
        With the learned weights, and for samples that these do not serve.
    """

    weighted: Transfer
    plain: Transfer

    @classmethod
    def of(cls, K: Kernel, observed: Bools, between: Floats | None) -> "WeightedTransfer":
        """Prepare the regressions on training kernels (M, n, n), with weights (M, M) if given."""
        plain = solve_transfer(K, observed)
        if between is None:
            return cls(plain, plain)
        shared = observed.T.astype(np.float64) @ observed > 0
        return cls(replace(plain, weights=between * shared), plain)

    def coefficients(self, K: Kernel, observed: Bools, m: int) -> Floats:
        """Return the coefficients (k, n_m) of the k rows (M, n_rows, n) that lack kernel m."""
        coef, served = self.weighted.coefficients(K, observed, m)
        if not served.all():
            rows = np.flatnonzero(~observed[:, m])[~served]
            coef[~served] = self.plain.coefficients(K[:, rows], observed[rows], m)[0]
        return coef


class LearnedKernels(NamedTuple):
    """How kernels were completed from learned coefficients.

    Attributes
    ----------
    combined : CombinedKernels
    keys : ndarray of shape (n,)
        From `row_keys`.
    transfer : WeightedTransfer
        For new samples.
    """

    combined: CombinedKernels
    keys: Keys
    transfer: WeightedTransfer

    @classmethod
    def complete(
        cls, K: Kernel, observed: Bools, coefs: list[Floats], between: Floats | None = None
    ) -> "LearnedKernels":
        """Complete training kernels in place, alike where the same is known of samples.

        Parameters
        ----------
        K : ndarray of shape (M, n, n)
            Zero where absent.
        observed : ndarray of bool of shape (n, M)
        coefs : list of M ndarrays of shape (n_absent, n_m)
            Coefficients of the samples that lack each kernel.
        between : ndarray of shape (M, M), default=None
            Learned weights between the kernels.
        """
        transfer, keys = WeightedTransfer.of(K, observed, between), row_keys(K, observed)
        unit = unit_kernels(K, observed, "auto", ())
        alike = [
            coef[places_of_first(keys, ~present)]
            for coef, present in zip(coefs, observed.T, strict=True)
        ]
        return cls(CombinedKernels.complete(K, observed, alike, unit, keys), keys, transfer)

    def complete_rows(self, K: Kernel, observed: Bools, diag: Floats | None) -> Floats | None:
        """Complete rows (M, n_rows, n) in place and return their diagonal, if it is known."""
        keys, own = row_keys(K, observed), start_diagonal(K, diag)
        trained = training_places(keys, self.keys)
        coefs = [self._coefficients(K, observed, m, trained) for m in range(len(K))]
        self.combined.complete_rows(K, observed, coefs, keys, own)
        return known_diagonal(own, diag, self.combined.unit)

    def _coefficients(self, K: Kernel, observed: Bools, m: int, trained: Indices) -> Floats:
        """Return the coefficients (n_absent_rows, n_m) of rows in kernel m."""
        rows, done = np.flatnonzero(~observed[:, m]), self.combined.combinations[m]
        coef = np.empty((len(rows), int(done.present.sum())))
        known = trained[rows] >= 0
        among_absent = np.cumsum(~done.present) - 1
        coef[known] = done.coef[among_absent[trained[rows[known]]]]
        new = rows[~known]
        if len(new):
            coef[~known] = self.transfer.coefficients(K[:, new], observed[new], m)
        return coef
