"""What the regressors made of kernel ridges share: scaled targets, weights and predictions."""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from kernelquilt._typing import Floats
from kernelquilt.core.limits import single_threaded_blas, unchanged_on_error
from kernelquilt.core.passes import Passes
from kernelquilt.data.sampling import Sample, take_sample
from kernelquilt.data.targets import Targets
from kernelquilt.data.training import (
    Samples,
    as_numbers,
    check_samples,
    check_targets,
    explained_share,
    input_tags,
    prepare_samples,
    weights_of_seen,
)
from kernelquilt.data.validation import check_alignment
from kernelquilt.kernels.inputs import KernelInput, predicts_lazily
from kernelquilt.kernels.landmark_features import LEAST_SAMPLES
from kernelquilt.quilt.ridge_classifier import naming_indefinite


class BaseRidgeRegressor(RegressorMixin, BaseEstimator, ABC):
    """Base of the regressors made of kernel ridges."""

    _shares_subsets = True  # takes `ViewSubsets`
    verbose: int
    input_: KernelInput

    @abstractmethod
    def _learn(self, data: Samples, y: Floats, targets: Targets, sample: Sample) -> None:
        """Learn from checked data, a sample of it in memory; keep what `_predict_part` needs."""

    @property
    @abstractmethod
    def _entries_per_row(self) -> int:
        """Numbers that are held for each row while predicting."""

    @abstractmethod
    def _predict_part(self, rows: Any) -> Floats:
        """Return predictions (n_rows, c) in units of the scaled targets."""

    def _check_before(self, data: Samples) -> None:
        """Refuse parameters that do not go with the samples."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Fit the regressor.

        Parameters
        ----------
        X : array-like of shape (n, n_features), DataFrame, MultiView or KernelStack
            Training samples. Absent views are rows of NaN, or not observed in the container.
        y : array-like of shape (n,), or (n, n_targets)
            Targets.
        sample_weight : array-like of shape (n,), default=None
            Weight of each sample in losses and means, of which only ratios count, as in
            `QuiltClassifier`.

        Returns
        -------
        self : object
            The fitted regressor.
        """
        self._validate_params()
        with unchanged_on_error(self), single_threaded_blas():
            passes = Passes(type(self).__name__, self.verbose)
            data = check_samples(self, X, lazy=True)
            self._check_before(data)
            y, weight = check_targets(self, data, y, sample_weight, as_numbers, several=True)
            copies = weights_of_seen(weight, data.observed)
            if np.count_nonzero(copies) < LEAST_SAMPLES:
                raise ValueError(
                    f"at least {LEAST_SAMPLES} samples with a view and positive weight are needed, "
                    f"got n_samples={np.count_nonzero(copies)}"
                )
            copies = copies / copies.max()
            Y, self.mean_, self.scale_ = standardised(y, copies)
            targets = Targets.of(Y.reshape(len(y), -1), np.zeros(len(y), np.intp), copies)
            data = prepare_samples(self, data, targets.copies)
            sample = take_sample(self, data, targets, passes)
            with naming_indefinite(self, data):
                self._learn(data, y, targets, sample)
        return self

    @predicts_lazily
    def predict(self, X: Any) -> Floats:
        """Return the predictions for samples.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features), DataFrame, MultiView or KernelStack
            Samples in the form of the training samples, as in `QuiltClassifier`.

        Returns
        -------
        y : ndarray of shape (n_rows,), or (n_rows, n_targets)
            The predictions.
        """
        check_is_fitted(self, "input_")
        rows = self.input_.rows(self, X)
        with single_threaded_blas():
            parts = self.input_.parts(rows, self._entries_per_row)
            found = np.concatenate([self._predict_part(part) for part in parts])
        return self.mean_ + self.scale_ * (found if np.ndim(self.mean_) else found[:, 0])

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the R^2 of predictions.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features), DataFrame, MultiView or KernelStack
            As in `predict`.
        y : array-like of shape (n_rows,), or (n_rows, n_targets)
            True targets; refused if their index has the samples of X in another order.
        sample_weight : array-like of shape (n_rows,), optional
            How much each sample counts, equally by default.

        Returns
        -------
        score : float
            Share of the variance of the targets that is explained.
        """
        check_alignment(X, y, "y")
        return explained_share(y, self.predict(X), sample_weight)

    def __sklearn_tags__(self) -> Any:
        tags = input_tags(self, super().__sklearn_tags__())
        tags.target_tags.multi_output = True
        return tags


def standardised(y: Floats, weight: Floats) -> tuple[Floats, Floats, Floats]:
    """Return targets with mean 0 and variance 1, what was subtracted and what divided by."""
    # a power of two changes no digit, and squares of what is left neither overflow nor vanish
    unit = np.ldexp(1.0, np.frexp(np.abs(y).max(axis=0))[1] - 1)
    values = y / unit
    mean = np.average(values, axis=0, weights=weight)
    spread = np.sqrt(np.average(np.square(values - mean), axis=0, weights=weight))
    spread = np.where(spread <= 1e-12 * np.abs(mean), 1.0, spread)
    return (values - mean) / spread, unit * mean, unit * spread


def determination(y: Floats, found: Floats, weight: Floats) -> float:
    """Return the mean of the weighted coefficients of determination of predictions (n, c)."""
    residual = weight @ np.square(y - found)
    total = weight @ np.square(y - np.average(y, axis=0, weights=weight))
    return float(
        np.mean(np.where(total > 0, 1.0 - residual / np.where(total > 0, total, 1.0), 0.0))
    )
