"""The steps of the Wishart completion, for training samples and again for new ones.

Equations are those of `kernelquilt.completion.wishart`.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.linalg

from kernelquilt._typing import Bools, Floats, Indices, Kernel
from kernelquilt.completion.combination import Combination, combine, combine_rows
from kernelquilt.completion.linalg import block
from kernelquilt.completion.scaled_kernels import Keys, row_keys
from kernelquilt.completion.transfer_regression import Transfer, solve_transfer
from kernelquilt.completion.wishart_mixture import Mixture, fit_mixture

_LEAST_FITTED = 3  # samples from which a mixture is fitted


@dataclass(frozen=True)
class KernelUpdate:
    """How one kernel was completed from the others.

    Attributes
    ----------
    target : int
        The kernel m.
    mixture : Mixture
        With a weight for each of M kernels, 0 for the target.
    value : float
        (2) at the mixture, nan if it was not fitted.
    factor : ndarray of shape (n_v, n_v)
        Lower Cholesky factor of C_vv.
    combination : Combination
    """

    target: int
    mixture: Mixture
    value: float
    factor: Floats
    combination: Combination

    def complete_rows(
        self, Z: Floats, rows: Floats, observed: Bools, own: Floats, residual: bool
    ) -> None:
        """Update rows of the target in place, as in `Replay`, with or without the residual."""
        m, done = self.target, self.combination
        v, present = done.present, observed[:, m]
        s = self.mixture
        C = np.tensordot(s.kernels, rows[:, ~present], axes=1) + s.constant
        total = s.kernels @ own[:, ~present] + s.constant + s.noise
        known, found = block(Z[m], v, v), done.regressed(self.factor, C, total, s.noise)
        own[m, ~present] = done.complete_rows(rows[m], known, present, *found, residual=residual)


def update_kernel(
    Z: Floats, present: Bools, m: int, fitted: Indices, start: Mixture, unit: bool, keys: Keys
) -> KernelUpdate:
    """Fit the mixture (2) for kernel m and complete Z[m] by (3) in place.

    Parameters
    ----------
    Z : ndarray of shape (M, n, n)
        Completed kernels.
    present, unit, keys
        As in `Combination`.
    m : int
    fitted : ndarray of int of shape (n_fit,)
        Samples, of those that have the kernel, on which the mixture is fitted.
    start : Mixture
        Where to start, as in KernelUpdate.
    """
    mixture, value = _fitted_mixture(Z, m, fitted, start)
    v, h = present, ~present
    mixture, C, factor = _factored(Z, mixture, v)
    to_absent = block(C, v, h)
    coef = scipy.linalg.cho_solve((factor, True), to_absent, check_finite=False).T
    R = block(C, h, h) - coef @ to_absent
    done = Combination.complete(Z[m], v, coef, unit, keys, R, mixture.noise)
    return KernelUpdate(m, mixture, value, factor, done)


def _first_mixture(M: int, m: int) -> Mixture:
    """Return where to start for kernel m of M, with weight 0 for itself."""
    start = Mixture.start(M - 1)
    return start._replace(kernels=np.insert(start.kernels, m, 0.0))


def _fitted_mixture(Z: Floats, m: int, fitted: Indices, start: Mixture) -> tuple[Mixture, float]:
    """Return the mixture for kernel m, with weight 0 for itself, and the value of (2)."""
    if len(fitted) < _LEAST_FITTED:
        return start, float("nan")
    others = np.arange(len(Z)) != m
    bases = np.array([kernel[fitted][:, fitted] for kernel in Z[others]])
    bases = bases.reshape(-1, len(fitted), len(fitted))
    found, value = fit_mixture(
        bases, Z[m][fitted][:, fitted], start._replace(kernels=start.kernels[others])
    )
    weights = np.zeros(len(Z))
    weights[others] = found.kernels
    return found._replace(kernels=weights), value


def _factored(Z: Floats, mixture: Mixture, v: Bools) -> tuple[Mixture, Floats, Floats]:
    """Return the mixture, C (n, n) of (1) and the lower Cholesky factor of C_vv."""
    while True:
        C = np.asarray(np.tensordot(mixture.kernels, Z, axes=1) + mixture.constant)
        C[np.diag_indices(len(C))] += mixture.noise
        try:
            return mixture, C, np.asarray(np.linalg.cholesky(block(C, v, v)), dtype=np.float64)
        except np.linalg.LinAlgError:
            # a kernel is not positive semi-definite beyond the samples of the fit
            mixture = mixture._replace(noise=10 * mixture.noise)


@dataclass(frozen=True)
class Replay:
    """Everything that was done to training kernels, to be done again to new rows.

    Attributes
    ----------
    transfer : Transfer
    combinations : list of M Combination
        The start, and how it completed each kernel.
    updates : tuple of KernelUpdate
    """

    transfer: Transfer
    combinations: list[Combination]
    updates: tuple[KernelUpdate, ...]

    def complete_rows(
        self, Z: Floats, rows: Floats, observed: Bools, own: Floats, *, residual: bool
    ) -> None:
        """Complete rows (M, n_rows, n) and their diagonal `own` (M, n_rows) in place.

        Z (M, n, n) are the training kernels, of which observed entries are used.
        """
        coefs = [self.transfer.coefficients(rows, observed, p)[0] for p in range(len(Z))]
        combine_rows(self.combinations, Z, rows, observed, own, coefs)
        last = len(self.updates) - len(Z)
        for number, update in enumerate(self.updates):
            update.complete_rows(Z, rows, observed, own, residual or number < last)


def complete_by_sweeps(
    Z: Floats,
    observed: Bools,
    unit: Bools,
    *,
    n_sweeps: int,
    subsets: list[Indices],
    on_sweep: Callable[[int, float], None] | None = None,
) -> Replay:
    """Complete kernels in place, from a transfer start, by sweeps over them.

    Parameters
    ----------
    Z : ndarray of shape (M, n, n)
        Of mean diagonal 1, zero where absent.
    observed : ndarray of bool of shape (n, M)
    unit : ndarray of bool of shape (M,)
        Which kernels have unit diagonal.
    n_sweeps : int
    subsets : list of M ndarrays of int
        The samples on which the mixture for each kernel is fitted.
    on_sweep : callable, optional
        Called after each sweep with its number and the mean of (2).
    """
    keys = row_keys(Z, observed)
    transfer = solve_transfer(Z, observed)
    order = _order(Z, observed)
    coefs = [transfer.coefficients(Z, observed, p)[0] for p in range(len(Z))]
    combinations = combine(Z, observed, coefs, unit, keys)
    mixtures = [_first_mixture(len(Z), m) for m in range(len(Z))]
    updates = []
    for sweep in range(n_sweeps):
        for m in order:
            present, one = observed[:, m], bool(unit[m])
            update = update_kernel(Z, present, m, subsets[m], mixtures[m], one, keys)
            mixtures[m] = update.mixture
            updates.append(update)
        if on_sweep is not None:
            on_sweep(sweep + 1, float(np.mean([each.value for each in updates[-len(Z) :]])))
    return Replay(transfer, combinations, tuple(updates))


def _order(Z: Floats, observed: Bools) -> list[int]:
    """Return the order of a sweep, which does not depend on how kernels are numbered."""
    counts = observed.sum(axis=0)
    squares = [float(np.vdot(kernel, kernel)) for kernel in Z]
    return sorted(range(len(Z)), key=lambda m: (-counts[m], -squares[m]))


def forecast_errors(Z: Kernel, observed: Bools, unit: Bools, subsets: list[Indices]) -> Floats:
    """Return (4), the expected error of an entry of the row of each sample in each kernel (n, M).

    The other kernels are completed without kernel m first: rows that were completed from it
    would agree with it too well.
    """
    errors = np.zeros(observed.shape)
    for m in range(len(Z)):
        v = observed[:, m]
        if v.all():
            continue
        others = np.arange(len(Z)) != m
        without = Z.copy()
        if others.any():
            rest = without[others]
            complete_by_sweeps(
                rest,
                observed[:, others],
                unit[others],
                n_sweeps=1,
                subsets=[subset for subset, used in zip(subsets, others, strict=True) if used],
            )
            without[others] = rest
        mixture, _ = _fitted_mixture(without, m, subsets[m], _first_mixture(len(Z), m))
        _, C, factor = _factored(without, mixture, v)
        G = scipy.linalg.cho_solve((factor, True), np.eye(len(factor)), check_finite=False)
        residuals = (G @ block(Z[m], v, v)) / G.diagonal()[:, None]
        np.fill_diagonal(residuals, 0.0)
        n_v = len(G)
        level = (residuals**2).sum() / max(n_v * (n_v - 1), 1) / np.mean(1 / G.diagonal())
        to_absent = block(C, v, ~v)
        left = C.diagonal()[~v] - (to_absent * (G @ to_absent)).sum(axis=0)
        errors[~v, m] = np.sqrt(level * np.maximum(left, 0.0))
    return errors
