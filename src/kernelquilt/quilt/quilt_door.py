"""The door of the quilt: from what a user gives to a fitted quilt, and to scores of new samples."""

from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone
from sklearn.utils._param_validation import HasMethods, Interval

from kernelquilt._messages import quoted
from kernelquilt._typing import Bools, Floats, Numbers
from kernelquilt.completion.transfer import TransferFill
from kernelquilt.data.stack import KernelStack
from kernelquilt.data.views import MultiView
from kernelquilt.kernels.view_kernels import kernels_of_views
from kernelquilt.mkl.doors import KernelDoor
from kernelquilt.quilt.model import Quilt, fit_quilt
from kernelquilt.quilt.ridge_classifier import Targets
from kernelquilt.quilt.stacking import Stack
from kernelquilt.quilt.view_ridge import usable_views


class QuiltDoor(KernelDoor):
    """Kernels, checks and attributes of the estimators made of a quilt."""

    completion: Any
    pattern: bool
    max_memory: float
    n_jobs: int | None
    _instead: ClassVar[str] = ""  # what to do with too many samples

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "kernels": "no_validation",
        "views": "no_validation",
        "completion": [HasMethods(["fit_transform", "transform"]), None],
        "pattern": ["boolean"],
        "max_memory": [Interval(Real, 0, None, closed="neither")],
        "n_jobs": [Integral, None],
    }

    def _fit_quilt(self, data: MultiView | KernelStack, targets: Targets) -> Targets:
        """Fit the quilt and return the targets of the samples that it uses."""
        M = len(data.names)
        if not isinstance(data, KernelStack):
            M = sum(map(len, kernels_of_views(self.kernels, data.names).values()))
        self._check_memory(M, int(np.count_nonzero(targets.copies)))
        K, observed = self._training_gram(data, targets.copies)
        counts = observed[targets.copies > 0].sum(axis=0)
        used = usable_views(type(self).__name__, self.kernel_names_, counts)
        self.used_kernels_ = np.flatnonzero(used)
        self.used_samples_ = np.flatnonzero((targets.copies > 0) & observed[:, used].any(axis=1))
        part = targets.part(self.used_samples_)
        if not (used.all() and len(part.Y) == len(observed)):
            block = np.ix_(self.used_samples_, self.used_samples_)
            K = np.array([kernel[block] for kernel in K[used]])
            observed = observed[np.ix_(self.used_samples_, self.used_kernels_)]
        completion = self.completion
        if completion is None:
            completion = TransferFill(
                weighting="loo", n_passes=2, constant=0.0, unit_diagonal=False
            )
        self._known_diagonals = _constant_diagonals(K, observed)
        self.quilt_: Quilt = fit_quilt(
            K,
            observed,
            part,
            names=tuple(self.kernel_names_[m] for m in self.used_kernels_),
            completer=clone(completion),
            pattern=self.pattern,
            n_jobs=self.n_jobs,
        )
        return part

    def _store(self, early: Stack, late: Stack, loo: Any) -> None:
        quilt, M = self.quilt_, len(self.kernel_names_)
        self.early_stack_, self.late_stack_ = early, late
        self.expert_weights_ = early.weights
        self.expert_gap_ = quilt.weighted.gap
        self.loo_score_ = loo
        self.kernel_weights_, self.reliability_ = np.zeros(M), np.zeros(M)
        self.kernel_weights_[self.used_kernels_] = quilt.weighted.kernel_weights
        self.reliability_[self.used_kernels_] = late.weights[: len(self.used_kernels_)]
        self.pattern_reliability_ = float(late.weights[-1]) if self.pattern else 0.0
        self.view_transfer_ = np.full((M, M), np.nan)
        transfer = getattr(quilt.completer, "transfer_", None)
        if transfer is not None:
            self.view_transfer_[np.ix_(self.used_kernels_, self.used_kernels_)] = transfer
        np.fill_diagonal(self.view_transfer_, 1.0)

    def _check_memory(self, n_kernels: int, n: int) -> None:
        needed = 8 * n**2 * (9 * n_kernels + 6) / 2**30
        if needed > self.max_memory:
            raise ValueError(
                f"{n_kernels} kernels of {n} samples need about {needed:.2g} GiB, above "
                f"max_memory={self.max_memory:g}; {self._instead}use fewer samples or kernels, or "
                "raise max_memory"
            )

    @property
    def _entries_per_row(self) -> int:
        return 4 * int(self.quilt_.observed.size)

    def _expert_scores(self, rows: Any) -> tuple[Floats, Floats]:
        """Return scores (1 or 2, n_rows, c) and (M, n_rows, c) of rows in their container."""
        if self.view_kernels_ is not None:
            rows = self.view_kernels_.transform(rows)
            kernels, diag = iter(rows.gram()), rows.diag
        else:
            kernels, diag = rows.cross_kernels(self.training_rows_), self._diag_of(rows)
        K = np.array(
            [
                kernel[:, self.used_samples_]
                for m, kernel in enumerate(kernels)
                if m in self.used_kernels_
            ],
            dtype=np.float64,
        )
        observed = rows.observed[:, self.used_kernels_]
        own = np.where(observed.T, diag[self.used_kernels_], 0.0).astype(np.float64)
        return self.quilt_.scores(K, observed, own)

    def _diag_of(self, rows: KernelStack) -> Any:
        """Return k(x, x) (M, n_rows) of rows; known, too, if it is the same for all samples."""
        diag = rows.diag_of_rows(self.training_rows_)  # type: ignore[arg-type]
        if diag is not None:
            return diag
        if np.isnan(self._known_diagonals).any():
            unknown = [
                self.quilt_.names[m] for m in np.flatnonzero(np.isnan(self._known_diagonals))
            ]
            raise ValueError(
                f"k(x, x) of the {len(rows)} new samples is needed for the kernels "
                f"{quoted(unknown)}; give it as diag= of the KernelStack, slice training and new "
                "samples from one stack, or scale kernels to unit diagonal"
            )
        diag = np.zeros((len(self.kernel_names_), len(rows)))
        diag[self.used_kernels_] = self._known_diagonals[:, None]
        return diag


def _constant_diagonals(K: Numbers, observed: Bools) -> Floats:
    """Return the diagonal of each kernel (M,) if it is the same for all samples, else nan."""
    values = np.full(len(K), np.nan)
    for m, (kernel, present) in enumerate(zip(K, observed.T, strict=True)):
        diag = kernel.diagonal()[present].astype(np.float64)
        tolerance = 1e-5 if K.dtype == np.float32 else 1e-8
        if np.ptp(diag) <= tolerance * np.abs(diag).max():
            values[m] = diag.mean()
    return values
