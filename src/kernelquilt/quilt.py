"""The recommended classifier and regressor for data with absent views.

What they fit is described in :mod:`kernelquilt._quilt`: kernels completed by ridge transfer between
views, kernel ridge experts on the completed kernels, and beside them one on each view alone. All is
closed form or convex and tuned by leave-one-out errors, so that there is nothing to choose.
"""

import warnings
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from kernelquilt._quilt import Quilt, fit_quilt
from kernelquilt._validation import BoolArray, quoted, unchanged_on_error
from kernelquilt.completion.transfer import TransferFill
from kernelquilt.kernels import KernelStack
from kernelquilt.mkl._door import KernelDoor
from kernelquilt.mkl._ridge_base import BaseRidgeClassifier, Targets, loo_accuracy, parts_of
from kernelquilt.mkl.late import LEAST_SAMPLES
from kernelquilt.optim.blas import single_threaded_blas
from kernelquilt.optim.stack import Stack, solve_linear_stack, solve_softmax_stack
from kernelquilt.views import MultiView

Floats = NDArray[np.float64]

SMALL = 1e-9  # added to probabilities before their logarithms are averaged


class _QuiltDoor(KernelDoor):
    """From what a user gives to a fitted quilt, and to the scores of its experts."""

    completion: Any
    max_memory: float
    n_jobs: int | None

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "kernels": "no_validation",
        "views": "no_validation",
        "completion": [HasMethods(["fit_transform", "transform"]), None],
        "max_memory": [Interval(Real, 0, None, closed="neither")],
        "n_jobs": [Integral, None],
    }

    def _fit_quilt(self, data: MultiView | KernelStack, targets: Targets) -> Targets:
        """Fit the quilt and return the targets of the samples that it uses."""
        M = len(data.names)
        if not isinstance(data, KernelStack) and isinstance(self.kernels, list | tuple):
            M *= len(self.kernels)
        self._check_memory(M, int(np.count_nonzero(targets.copies)))
        stack = self._training_stack(data, targets.copies)
        K, observed = stack.training_gram()
        counts = observed[targets.copies > 0].sum(axis=0)
        used = counts >= LEAST_SAMPLES
        self._check_counts(stack.names, counts, used)
        self.kernel_names_ = stack.names
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
        self._unit_diagonals = _constant_diagonals(K, observed)
        self.quilt_: Quilt = fit_quilt(
            K,
            observed,
            part,
            names=tuple(stack.names[m] for m in self.used_kernels_),
            completer=clone(completion),
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
        self.reliability_[self.used_kernels_] = late.weights
        self.view_transfer_ = np.full((M, M), np.nan)
        transfer = getattr(quilt.completer, "transfer_", None)
        if transfer is not None:
            self.view_transfer_[np.ix_(self.used_kernels_, self.used_kernels_)] = transfer
        np.fill_diagonal(self.view_transfer_, 1.0)

    def _check_memory(self, n_kernels: int, n: int) -> None:
        needed = 8 * n**2 * (9 * n_kernels + 6) / 2**30
        if needed > self.max_memory:
            raise ValueError(
                f"{n_kernels} kernels of {n} samples need about {needed:.1f} GiB, above "
                f"max_memory={self.max_memory:g}; use LateFusionClassifier, which is made for "
                "many samples, fewer samples, or raise max_memory"
            )

    def _check_counts(self, names: tuple[str, ...], counts: NDArray[Any], used: BoolArray) -> None:
        if not used.any():
            raise ValueError(
                f"{type(self).__name__} needs a view that at least {LEAST_SAMPLES} training samples"
                f" have; the {len(names)} kernels are observed for at most {counts.max()} samples"
            )
        few = [
            f"{name} ({count})"
            for name, count, ok in zip(names, counts, used, strict=True)
            if not ok and count
        ]
        if few:
            warnings.warn(
                f"{len(few)} of {len(names)} kernels are observed for less than {LEAST_SAMPLES} "
                f"training samples and therefore ignored, now and in new data: {quoted(few)}",
                UserWarning,
                stacklevel=6,
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
        if np.isnan(self._unit_diagonals).any():
            unknown = [self.quilt_.names[m] for m in np.flatnonzero(np.isnan(self._unit_diagonals))]
            raise ValueError(
                f"k(x, x) of the {len(rows)} new samples is needed for the kernels "
                f"{quoted(unknown)}; give it as diag= of the KernelStack, slice training and new "
                "samples from one stack, or scale kernels to unit diagonal"
            )
        diag = np.zeros((len(self.kernel_names_), len(rows)))
        diag[self.used_kernels_] = self._unit_diagonals[:, None]
        return diag


def _constant_diagonals(K: NDArray[np.floating], observed: BoolArray) -> Floats:
    """Return the diagonal of each kernel (M,) if it is the same for all samples, else nan."""
    values = np.full(len(K), np.nan)
    for m, (kernel, present) in enumerate(zip(K, observed.T, strict=True)):
        diag = kernel.diagonal()[present].astype(np.float64)
        tolerance = 1e-5 if K.dtype == np.float32 else 1e-8
        if np.ptp(diag) <= tolerance * np.abs(diag).max():
            values[m] = diag.mean()
    return values


class QuiltClassifier(_QuiltDoor, BaseRidgeClassifier):
    """The classifier to start with when views are absent: tuned by itself, with probabilities.

    Absent views are filled by ridge regression from the views that a sample has, weighted by how
    well they predict each other. Two kernel ridge classifiers learn from the result, and one more
    from each view alone; stacking weighs them by their leave-one-out scores. Nothing has to be
    tuned, all classes are learned in one go, and new samples may have any views.

    It costs O(M^2 n^3) for M views of n samples: seconds up to some hundred samples and ten views.
    `LateFusionClassifier` is the part of it that is fast.

    Parameters
    ----------
    kernels : str, callable, list or dict, default="median_gaussian"
        Kernels of the views, as in `ViewKernels`; "precomputed" for plain arrays of kernels of
        shape (n, n, M). All kernels, those of a `KernelStack` too, are centred and scaled by the
        samples that have them.
    views : dict of str to columns, "columns" or None, default=None
        The views of 2-D data, as in `as_views`.
    completion : completer or None, default=None
        What fills absent kernels, after they are centred; None is ``TransferFill(weighting="loo",
        n_passes=2, constant=0)``.
    class_weight : dict, "balanced" or None, default=None
        Factors on the losses by class.
    max_memory : float, default=4.0
        GiB above which fitting is refused.
    n_jobs : int or None, default=None
        Threads over the machines; results do not depend on it.

    Attributes
    ----------
    view_transfer_ : ndarray of shape (M, M)
        In row p and column l the share of view p that is explained by view l alone, leaving
        samples out; negative if it predicts worse than nothing, nan if it cannot be told.
    kernel_weights_ : ndarray of shape (M,)
        Weights of the completed kernels in the first expert, with sum one.
    expert_weights_ : ndarray of shape (2,), or (1,) for one view
        Stacking weights of the weighted sum of kernels and of their joint Gaussian kernel.
    expert_gap_ : float
        Relative duality gap of `kernel_weights_`; 0 if they are equal by choice.
    reliability_ : ndarray of shape (M,)
        Stacking weights of the machines that see one view each.
    loo_score_ : float
        Leave-one-out accuracy. Completion and stacking weights see all samples, so it is slightly
        optimistic.
    early_stack_, late_stack_ : Stack
        Stacking weights and biases.
    quilt_ : Quilt
        The fitted machines.
    used_kernels_, used_samples_ : ndarrays of int
        Kernels that at least 3 training samples have, and training samples that have one of them.
    kernel_names_ : tuple of str of length M
        Names of the kernels.
    classes_ : ndarray of shape (n_classes,)
        Class labels.
    n_features_in_ : int
        Number of columns of 2-D data, otherwise of views or kernels.

    Notes
    -----
    New samples given as kernels need k(x, x): as `diag` of their `KernelStack`, as rows of the
    training stack, or because all training samples have the same.

    `sample_weight` counts in losses, means and widths of kernels; completion sees every sample of
    positive weight once.

    Examples
    --------
    >>> import kernelquilt as kq
    >>> X, y = kq.datasets.load_example("wdbc")
    >>> X = kq.datasets.make_absent(X, 0.4, random_state=0)
    >>> model = kq.QuiltClassifier().fit(X[:200], y[:200])
    >>> bool(model.score(X[200:], y[200:]) > 0.9)
    True
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **_QuiltDoor._parameter_constraints,
        "class_weight": [dict, StrOptions({"balanced"}), None],
    }

    def __init__(
        self,
        kernels: Any = "median_gaussian",
        *,
        views: Any = None,
        completion: Any = None,
        class_weight: Any = None,
        max_memory: float = 4.0,
        n_jobs: int | None = None,
    ) -> None:
        self.kernels = kernels
        self.views = views
        self.completion = completion
        self.class_weight = class_weight
        self.max_memory = max_memory
        self.n_jobs = n_jobs

    def _learn(self, data: MultiView | KernelStack, targets: Targets) -> None:
        part = self._fit_quilt(data, targets)
        self._check_two_classes(self.classes_, part.codes, part.copies)
        loo = self.quilt_.early_loo, self.quilt_.late_loo
        early, late = (
            solve_softmax_stack(scores, part.codes, sample_weight=part.weight) for scores in loo
        )
        self._store(early, late, loo_accuracy(_mean_log_proba((early, late), loo), part))

    def _log_proba(self, rows: Any) -> Floats:
        return _mean_log_proba((self.early_stack_, self.late_stack_), self._expert_scores(rows))


def _mean_log_proba(stacks: tuple[Stack, Stack], scores: tuple[Floats, Floats]) -> Floats:
    """Return the mean of the logarithms of two sets of probabilities, (n, c)."""
    logs = [np.log(stack.proba(each) + SMALL) for stack, each in zip(stacks, scores, strict=True)]
    return np.asarray(0.5 * (logs[0] + logs[1]))


class QuiltRegressor(_QuiltDoor, RegressorMixin, BaseEstimator):
    """The regressor to start with when views are absent: tuned by itself.

    `QuiltClassifier` with the squared loss throughout, linear stacks, and the mean of the two.

    Parameters
    ----------
    kernels : str, callable, list or dict, default="median_gaussian"
        Kernels of the views, as in `ViewKernels`; "precomputed" for plain arrays of kernels of
        shape (n, n, M). All kernels, those of a `KernelStack` too, are centred and scaled by the
        samples that have them.
    views : dict of str to columns, "columns" or None, default=None
        The views of 2-D data, as in `as_views`.
    completion : completer or None, default=None
        What fills absent kernels, as in `QuiltClassifier`.
    max_memory : float, default=4.0
        GiB above which fitting is refused.
    n_jobs : int or None, default=None
        Threads over the machines; results do not depend on it.

    Attributes
    ----------
    view_transfer_, kernel_weights_, expert_weights_, expert_gap_, reliability_
        As in `QuiltClassifier`.
    loo_score_ : float
        Leave-one-out coefficient of determination.
    early_stack_, late_stack_, quilt_, used_kernels_, used_samples_, kernel_names_, n_features_in_
        As in `QuiltClassifier`.

    Examples
    --------
    >>> import kernelquilt as kq
    >>> X, _ = kq.datasets.load_example("wdbc")
    >>> target = X["mean"][:, 0]
    >>> X = kq.datasets.make_absent(X, 0.4, random_state=0)
    >>> model = kq.QuiltRegressor().fit(X[:200], target[:200])
    >>> bool(model.score(X[200:], target[200:]) > 0.7)
    True
    """

    def __init__(
        self,
        kernels: Any = "median_gaussian",
        *,
        views: Any = None,
        completion: Any = None,
        max_memory: float = 4.0,
        n_jobs: int | None = None,
    ) -> None:
        self.kernels = kernels
        self.views = views
        self.completion = completion
        self.max_memory = max_memory
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "QuiltRegressor":
        """Fit the regressor.

        Parameters
        ----------
        X : array-like of shape (n, n_features), DataFrame, MultiView or KernelStack
            Training samples. Absent views are rows of NaN, or not observed in the container.
        y : array-like of shape (n,)
            Targets.
        sample_weight : array-like of shape (n,), default=None
            Weight of each sample in losses and means, as in `QuiltClassifier`.

        Returns
        -------
        self : QuiltRegressor
        """
        self._validate_params()
        with unchanged_on_error(self), single_threaded_blas():
            data = self._check_training_data(X)
            y, weight = self._check_targets(data, y, sample_weight)
            copies = self._weights_of_seen(weight, data.observed)
            if np.count_nonzero(copies) < LEAST_SAMPLES:
                raise ValueError(
                    f"{type(self).__name__} needs at least {LEAST_SAMPLES} samples with a view and "
                    f"positive weight, got n_samples={np.count_nonzero(copies)}"
                )
            self.mean_ = float(np.average(y, weights=copies))
            spread = float(np.sqrt(np.average(np.square(y - self.mean_), weights=copies)))
            self.scale_ = spread if spread > 1e-12 * abs(self.mean_) else 1.0
            Y = ((y - self.mean_) / self.scale_)[:, None]
            part = self._fit_quilt(data, Targets(Y, np.zeros(len(y), np.intp), copies, copies))
            loo = self.quilt_.early_loo, self.quilt_.late_loo
            early, late = (
                solve_linear_stack(scores[:, :, 0], part.Y[:, 0], sample_weight=part.weight)
                for scores in loo
            )
            found = 0.5 * (early.combine(loo[0]) + late.combine(loo[1]))
            self._store(early, late, _determination(part.Y, found, part.weight))
        return self

    def predict(self, X: Any) -> Floats:
        """Return the predictions for samples.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features), DataFrame, MultiView or KernelStack
            Samples in the form of the training samples, as in `QuiltClassifier`.

        Returns
        -------
        y : ndarray of shape (n_rows,)
        """
        check_is_fitted(self, "quilt_")
        rows = self._check_rows(X)
        with single_threaded_blas():
            found = [self._predict_part(part) for part in parts_of(rows, self)]
        return self.mean_ + self.scale_ * np.concatenate(found)

    def _predict_part(self, rows: Any) -> Floats:
        early, late = self._expert_scores(rows)
        return 0.5 * (self.early_stack_.combine(early) + self.late_stack_.combine(late))[:, 0]

    def _check_target_kind(self, y: NDArray[Any]) -> Floats:
        return np.asarray(y, dtype=np.float64)


def _determination(y: Floats, found: Floats, weight: Floats) -> float:
    """Return the weighted coefficient of determination of predictions (n, 1)."""
    residual = weight @ np.square(y - found)
    total = weight @ np.square(y - np.average(y, axis=0, weights=weight))
    return float(1.0 - residual[0] / total[0]) if total[0] > 0 else 0.0
