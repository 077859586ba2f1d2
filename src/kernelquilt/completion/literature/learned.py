"""What completers share that learn coefficients of absent samples by iteration.

Training samples that lack kernel m get the features sum_i a_i phi_m(x_i) from learned coefficients
a over the samples I_m that have it (`kernelquilt.completion.combination`). For new samples there
are none; they get those of the ridge regressions of `kernelquilt.completion.transfer` from the
kernels l that they have, averaged with weights s_ml if the method has learned how similar the
kernels are,

    a = sum_l s_ml (K_l[J, J] + ...)^-1 (K_l[J, t] + ...) / sum_l s_ml,    J = I_m & I_l.

A new sample of which the same is known as of a training sample is completed as that one was.
"""

from abc import abstractmethod
from dataclasses import replace

import numpy as np

from kernelquilt._typing import Bools, Floats, Indices, Kernel
from kernelquilt.completion.combination import (
    Combination,
    mean_diagonal,
    places_of_first,
    row_keys,
    training_places,
    unit_kernels,
)
from kernelquilt.completion.completer import IterativeCompleter
from kernelquilt.completion.transfer_regression import Transfer, solve_transfer


class LearnedCompleter(IterativeCompleter):
    """Base of the completers that learn coefficients for the training samples."""

    @abstractmethod
    def _learn(self, K: Kernel, observed: Bools, sizes: Floats) -> list[Floats]:
        """Return the coefficients (n_absent, n_m) of the samples that lack each kernel.

        Parameters
        ----------
        K : ndarray of shape (M, n, n)
            Zero where absent; not to be changed.
        observed : ndarray of bool of shape (n, M)
        sizes : ndarray of shape (M,)
            Mean diagonals, the units of the kernels.
        """

    def _complete(self, K: Kernel, observed: Bools) -> None:
        self._unit = unit_kernels(K, observed, "auto", self._kernel_names())
        self._keys = row_keys(K, observed)
        self._transfer = solve_transfer(K, observed)
        self._mixed = self._transfer
        sizes = [mean_diagonal(k[np.ix_(o, o)]) for k, o in zip(K, observed.T, strict=True)]
        coefs = self._learn(K, observed, np.array(sizes))
        self._combine(K, observed, coefs)
        together = self.training_rows_.observed.astype(np.float64)
        self.undetermined_ = together @ together.T == 0

    def _combine(self, K: Kernel, observed: Bools, coefs: list[Floats]) -> None:
        """Complete the training kernels in place, alike where the same is known of samples."""
        self._combinations = []
        for kernel, present, coef, unit in zip(K, observed.T, coefs, self._unit, strict=True):
            alike = coef[places_of_first(self._keys, ~present)]
            keys = self._keys if unit else None
            self._combinations.append(Combination.complete(kernel, present, alike, keys))

    def _complete_rows(self, K: Kernel, observed: Bools, diag: Floats | None) -> Floats | None:
        keys = row_keys(K, observed)
        own = np.ones((len(K), len(observed))) if diag is None else diag.copy()
        trained = training_places(keys, self._keys)
        coefs = [self._new_coefficients(K, observed, m, trained) for m in range(len(K))]
        for m, (combination, coef) in enumerate(zip(self._combinations, coefs, strict=True)):
            present = observed[:, m]
            own[m, ~present] = combination.complete_rows(K[m], present, coef, keys, self._keys)
        return None if diag is None and not self._unit.all() else own

    def _new_coefficients(self, K: Kernel, observed: Bools, m: int, trained: Indices) -> Floats:
        """Return the coefficients (n_absent_rows, n_m) of rows in kernel m."""
        rows = np.flatnonzero(~observed[:, m])
        present = self._transfer.sources[m].present
        coef = np.empty((len(rows), int(present.sum())))
        known = trained[rows] >= 0
        if known.any():
            among_absent = np.cumsum(~present) - 1
            coef[known] = self._combinations[m].coef[among_absent[trained[rows[known]]]]
        new = rows[~known]
        if len(new):
            coef[~known] = _with_fallback(self._mixed, self._transfer, K[:, new], observed[new], m)
        return coef

    def _mix(self, between: Floats, observed: Bools) -> None:
        """Let new samples be completed with learned weights (M, M) between the kernels."""
        shared = observed.T.astype(np.float64) @ observed > 0
        self._mixed = replace(self._transfer, weights=between * shared)
        self.between_weights_ = self._of_all_kernels(between)

    def _of_all_kernels(self, pairs: Floats) -> Floats:
        """Add kernels that no sample has to a matrix of all pairs, with zeros."""
        seen = np.asarray(self.training_rows_.observed.any(axis=0))
        whole = np.zeros((len(seen), len(seen)))
        whole[np.ix_(seen, seen)] = pairs
        return whole

    def _warn_little_known(self, observed: Bools) -> None:
        self._warn_few(observed)
        self._warn_alone(observed)


def _with_fallback(first: Transfer, second: Transfer, K: Kernel, observed: Bools, m: int) -> Floats:
    """Return coefficients of rows in kernel m by `first`, or by `second` where that fails."""
    coef, served = first.coefficients(K, observed, m)
    if not served.all():
        coef[~served] = second.coefficients(K[:, ~served], observed[~served], m)[0]
    return coef
