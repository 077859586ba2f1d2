"""What the classifier and the regressor share: a quilt fitted to samples in any form."""

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions

from kernelquilt._messages import quoted
from kernelquilt._typing import Bools, Floats, Indices, Numbers
from kernelquilt.completion.transfer import TransferFill
from kernelquilt.core.memory import check_memory
from kernelquilt.kernels.inputs import KernelInput, Samples, count_kernels, fit_input
from kernelquilt.quilt.model import Quilt, fit_quilt
from kernelquilt.quilt.ridge_classifier import Targets
from kernelquilt.quilt.stacking import StackingWeights
from kernelquilt.quilt.view_ridge import usable_views

CONSTRAINTS: dict[str, Any] = {
    "kernels": "no_validation",
    "views": "no_validation",
    "prepare": [StrOptions({"auto"}), None],
    "completion": [HasMethods(["fit_transform", "transform"]), None],
    "pattern": ["boolean"],
    "experts": "no_validation",
    "cross_fit": ["boolean"],
    "max_memory": [Interval(Real, 0, None, closed="neither")],
    "n_jobs": [Integral, None],
    "random_state": ["random_state"],
}


@dataclass(frozen=True)
class FittedQuilt:
    """A quilt, and which of the training samples and kernels it was fitted to.

    Attributes
    ----------
    input : KernelInput
        All training samples and kernels.
    quilt : Quilt
        Of some of them.
    kernels, samples : ndarrays of int
        Which ones.
    diagonals : ndarray of shape (len(kernels),)
        k(x, x) if it is the same for all training samples, else nan.
    """

    input: KernelInput
    quilt: Quilt
    kernels: Indices
    samples: Indices
    diagonals: Floats

    @property
    def entries_per_row(self) -> int:
        """Kernel entries that are held for each row while predicting."""
        return 4 * int(self.quilt.observed.size)

    def scores(self, rows: Any) -> tuple[Floats, Floats]:
        """Return scores (1 or 2, n_rows, c) and (M, n_rows, c) of rows in their container."""
        needed = np.isin(np.arange(len(self.input.names)), self.kernels)
        kernels = self.input.kernels(rows, needed)
        K = np.array([kernel[:, self.samples] for kernel in kernels], dtype=np.float64)
        observed = self.input.observed_of(rows)[:, self.kernels]
        return self.quilt.scores(K, observed, self._diag(rows, observed))

    def _diag(self, rows: Any, observed: Bools) -> Floats:
        """Return k(x, x) of rows, (M, n_rows); known, too, if it is the same for all samples."""
        found = [self.input.diag(rows, m) for m in self.kernels]
        unknown = [
            name
            for name, diag, same in zip(self.quilt.names, found, self.diagonals, strict=True)
            if diag is None and np.isnan(same)
        ]
        if unknown:
            raise ValueError(
                f"k(x, x) of the {len(rows)} new samples is needed for the kernels "
                f"{quoted(unknown)}; give it as diag= of the KernelStack, slice training and new "
                "samples from one stack, or scale kernels to unit diagonal"
            )
        filled = [
            np.full(len(rows), same) if diag is None else diag
            for diag, same in zip(found, self.diagonals, strict=True)
        ]
        return np.where(observed.T, np.array(filled, dtype=np.float64), 0.0)


def fit_to_samples(
    estimator: Any, data: Samples, targets: Targets, *, instead: str = ""
) -> tuple[FittedQuilt, Targets]:
    """Fit the quilt of an estimator, and return the targets of the samples that it uses.

    Parameters
    ----------
    estimator : QuiltClassifier or QuiltRegressor
    data : MultiView or KernelStack of n samples
    targets : Targets of n samples
    instead : str, default=""
        What to do if there are too many samples.

    Returns
    -------
    fitted : FittedQuilt
    targets : Targets
    """
    n_kernels = count_kernels(data, estimator.kernels)
    n = int(np.count_nonzero(targets.copies))
    needed = 8 * n**2 * (9 * n_kernels + 6)
    check_memory(n, n_kernels, needed, max_memory=estimator.max_memory, instead=instead)
    held = fit_input(estimator, data, targets.copies)
    K, observed = held.training_gram(data)
    counts = observed[targets.copies > 0].sum(axis=0)
    used = usable_views(type(estimator).__name__, held.names, counts)
    kernels = np.flatnonzero(used)
    samples = np.flatnonzero((targets.copies > 0) & observed[:, used].any(axis=1))
    part = targets.part(samples)
    if not (used.all() and len(part.Y) == len(observed)):
        block = np.ix_(samples, samples)
        K = np.array([kernel[block] for kernel in K[used]])
        observed = observed[np.ix_(samples, kernels)]
    completion = estimator.completion
    if completion is None:
        completion = TransferFill(weighting="loo", n_passes=2, constant=0.0, unit_diagonal=False)
    quilt = fit_quilt(
        K,
        observed,
        part,
        names=tuple(held.names[m] for m in kernels),
        completer=clone(completion),
        pattern=estimator.pattern,
        n_jobs=estimator.n_jobs,
    )
    return FittedQuilt(held, quilt, kernels, samples, _constant_diagonals(K, observed)), part


def store_attributes(
    estimator: Any, fitted: FittedQuilt, early: StackingWeights, late: StackingWeights
) -> None:
    """Keep a quilt and what it has found out as attributes of its estimator."""
    fitted.input.describe(estimator)
    estimator._fitted = fitted
    quilt, used, M = fitted.quilt, fitted.kernels, len(fitted.input.names)
    estimator.quilt_, estimator.used_kernels_, estimator.used_samples_ = (
        quilt,
        used,
        fitted.samples,
    )
    estimator.early_stacking_, estimator.late_stacking_ = early, late
    estimator.expert_weights_ = early.weights
    estimator.expert_gap_ = quilt.weighted.gap
    estimator.kernel_weights_, estimator.reliability_ = np.zeros(M), np.zeros(M)
    estimator.kernel_weights_[used] = quilt.weighted.kernel_weights
    estimator.reliability_[used] = late.weights[: len(used)]
    estimator.pattern_reliability_ = float(late.weights[-1]) if estimator.pattern else 0.0
    estimator.view_transfer_ = np.full((M, M), np.nan)
    transfer = getattr(quilt.completer, "transfer_", None)
    if transfer is not None:
        estimator.view_transfer_[np.ix_(used, used)] = transfer
    np.fill_diagonal(estimator.view_transfer_, 1.0)


def _constant_diagonals(K: Numbers, observed: Bools) -> Floats:
    """Return the diagonal of each kernel (M,) if it is the same for all samples, else nan."""
    values = np.full(len(K), np.nan)
    for m, (kernel, present) in enumerate(zip(K, observed.T, strict=True)):
        diag = kernel.diagonal()[present].astype(np.float64)
        tolerance = 1e-5 if K.dtype == np.float32 else 1e-8
        if np.ptp(diag) <= tolerance * np.abs(diag).max():
            values[m] = diag.mean()
    return values
