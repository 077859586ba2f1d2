"""The recommended classifier and regressor for data with absent views.

What they fit is described in :mod:`kernelquilt.quilt.model`: kernels completed by ridge transfer
between views, kernel ridge experts on the completed kernels, and beside them one on each view
alone. All is closed form or convex and tuned by leave-one-out errors, so that there is nothing to
choose.
"""

from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted

from kernelquilt._messages import unchanged_on_error
from kernelquilt._typing import Array, Floats
from kernelquilt.core.blas import single_threaded_blas
from kernelquilt.data.stack import KernelStack
from kernelquilt.data.views import MultiView
from kernelquilt.quilt.quilt_door import QuiltDoor
from kernelquilt.quilt.ridge_classifier import BaseRidgeClassifier, Targets, loo_accuracy
from kernelquilt.quilt.stacking import Stack, solve_linear_stack, solve_softmax_stack
from kernelquilt.quilt.view_ridge import LEAST_SAMPLES

SMALL = 1e-9  # added to probabilities before their logarithms are averaged


class QuiltClassifier(QuiltDoor, BaseRidgeClassifier):
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
    pattern : bool, default=False
        Whether one more machine learns from which views a sample has: for absence that depends
        on what is predicted, as it will for new samples.
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
    pattern_reliability_ : float
        Stacking weight of the machine that sees which views there are; 0 without `pattern`.
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
        **QuiltDoor._parameter_constraints,
        "class_weight": [dict, StrOptions({"balanced"}), None],
    }
    _instead = "LateFusionClassifier is made for many samples; "

    def __init__(
        self,
        kernels: Any = "median_gaussian",
        *,
        views: Any = None,
        completion: Any = None,
        pattern: bool = False,
        class_weight: Any = None,
        max_memory: float = 4.0,
        n_jobs: int | None = None,
    ) -> None:
        self.kernels = kernels
        self.views = views
        self.completion = completion
        self.pattern = pattern
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


class QuiltRegressor(QuiltDoor, RegressorMixin, BaseEstimator):
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
    pattern : bool, default=False
        Whether one more machine learns from which views a sample has: for absence that depends
        on what is predicted, as it will for new samples.
    max_memory : float, default=4.0
        GiB above which fitting is refused.
    n_jobs : int or None, default=None
        Threads over the machines; results do not depend on it.

    Attributes
    ----------
    view_transfer_, kernel_weights_, expert_weights_, expert_gap_
        As in `QuiltClassifier`.
    reliability_, pattern_reliability_
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
        pattern: bool = False,
        max_memory: float = 4.0,
        n_jobs: int | None = None,
    ) -> None:
        self.kernels = kernels
        self.views = views
        self.completion = completion
        self.pattern = pattern
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
            targets = Targets(Y, np.zeros(len(y), np.intp), copies, copies)
            with self._naming_indefinite(data):
                part = self._fit_quilt(data, targets)
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
            found = [self._predict_part(part) for part in self._parts_of(rows)]
        return self.mean_ + self.scale_ * np.concatenate(found)

    def _predict_part(self, rows: Any) -> Floats:
        early, late = self._expert_scores(rows)
        return 0.5 * (self.early_stack_.combine(early) + self.late_stack_.combine(late))[:, 0]

    def _check_target_kind(self, y: Array) -> Floats:
        return np.asarray(y, dtype=np.float64)


def _determination(y: Floats, found: Floats, weight: Floats) -> float:
    """Return the weighted coefficient of determination of predictions (n, 1)."""
    residual = weight @ np.square(y - found)
    total = weight @ np.square(y - np.average(y, axis=0, weights=weight))
    return float(1.0 - residual[0] / total[0]) if total[0] > 0 else 0.0
