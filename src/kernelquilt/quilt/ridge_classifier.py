"""What the classifiers made of kernel ridges share: how they are fitted, and predictions.

All classes are learned in one go: the target of a sample is 1 for its class and -1/(c - 1) for
the others. A subclass says how it learns (`_learn`) and how it scores rows (`_log_proba`).
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from kernelquilt._typing import Array, Floats
from kernelquilt.core.limits import single_threaded_blas, unchanged_on_error
from kernelquilt.core.passes import Passes
from kernelquilt.data.sampling import Sample, take_sample
from kernelquilt.data.stack import KernelStack
from kernelquilt.data.targets import Targets, class_targets
from kernelquilt.data.training import (
    Samples,
    check_labels,
    check_samples,
    classes_of,
    input_tags,
    prepare_samples,
)
from kernelquilt.data.validation import check_alignment
from kernelquilt.kernels.inputs import KernelInput, predicts_lazily
from kernelquilt.kernels.view_kernels import ViewKernels


class BaseRidgeClassifier(ClassifierMixin, BaseEstimator, ABC):
    """Base of the classifiers made of kernel ridges, with probabilities."""

    _shares_subsets = True  # takes `ViewSubsets`
    class_weight: Any
    verbose: int
    input_: KernelInput

    @abstractmethod
    def _learn(self, data: Samples, targets: Targets, sample: Sample) -> None:
        """Learn from checked data, of which a sample is in memory; keep what `_log_proba` needs."""

    @property
    @abstractmethod
    def _entries_per_row(self) -> int:
        """Kernel entries that are held for each row while predicting."""

    @abstractmethod
    def _log_proba(self, rows: Any) -> Floats:
        """Return the logarithms of class probabilities (n_rows, c), up to a constant per row."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Fit the classifier.

        Parameters
        ----------
        X : array-like of shape (n, n_features), DataFrame, MultiView or KernelStack
            Training samples. Absent views are rows of NaN, or not observed in the container.
        y : array-like of shape (n,)
            Class labels.
        sample_weight : array-like of shape (n,), default=None
            Weight of each sample in losses and means. Only ratios count: all weights times a
            constant give the same model. Weights that are multiples of the smallest positive one
            are numbers of copies, of which leave-one-out scores leave out one: then a weight of k
            is the same as k repetitions, if some sample has a weight of 1. With other weights,
            leave-one-out scores leave a sample out as a whole.

        Returns
        -------
        self : object
            The fitted classifier.
        """
        self._validate_params()
        with unchanged_on_error(self), single_threaded_blas():
            passes = Passes(type(self).__name__, self.verbose)
            data = check_samples(self, X, lazy=True)
            labels = check_labels(self, data, y, sample_weight).without_empty(self, data.observed)
            self.classes_, codes, weight = labels
            factors = labels.factors(self.class_weight)
            Y = class_targets(codes, len(self.classes_))
            targets = Targets.of(Y, codes, weight, factors)
            data = prepare_samples(self, data, targets.copies)
            sample = take_sample(self, data, targets, passes)
            with naming_indefinite(self, data):
                self._learn(data, targets, sample)
        return self

    @predicts_lazily
    def decision_function(self, X: Any) -> Floats:
        """Return the scores of samples.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features), DataFrame, MultiView or KernelStack
            Samples in the form of the training samples; a stack has the same kernels, either
            sliced from the training stack or with the training samples as its columns.

        Returns
        -------
        scores : ndarray of shape (n_rows,), or (n_rows, n_classes) if multi-class
            Logarithm of the odds of ``classes_[1]`` if binary, otherwise of each probability.
        """
        log_proba = self._normalised(X)
        return log_proba[:, 1] - log_proba[:, 0] if len(self.classes_) == 2 else log_proba

    @predicts_lazily
    def predict_proba(self, X: Any) -> Floats:
        """Return class probabilities.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features), DataFrame, MultiView or KernelStack
            As in `decision_function`.

        Returns
        -------
        proba : ndarray of shape (n_rows, n_classes)
            Probabilities, in the order of `classes_`.
        """
        return np.asarray(np.exp(self._normalised(X)))

    @predicts_lazily
    def predict(self, X: Any) -> Array:
        """Return the class of samples.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features), DataFrame, MultiView or KernelStack
            As in `decision_function`.

        Returns
        -------
        y : ndarray of shape (n_rows,)
            Class labels.
        """
        return classes_of(self.decision_function(X), self.classes_)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy of predictions.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features), DataFrame, MultiView or KernelStack
            As in `predict`.
        y : array-like of shape (n_rows,)
            True labels; refused if their index has the samples of X in another order.
        sample_weight : array-like of shape (n_rows,), optional
            How much each sample counts, equally by default.

        Returns
        -------
        score : float
            Share of samples whose class is predicted.
        """
        check_alignment(X, y, "y")
        return float(super().score(X, y, sample_weight))

    def __sklearn_tags__(self) -> Any:
        return input_tags(self, super().__sklearn_tags__())

    def _normalised(self, X: Any) -> Floats:
        """Return logarithms of probabilities (n_rows, c), some rows at a time."""
        check_is_fitted(self, "classes_")
        rows = self.input_.rows(self, X)
        with single_threaded_blas():
            parts = self.input_.parts(rows, self._entries_per_row)
            log_proba = np.concatenate([self._log_proba(part) for part in parts])
        largest = log_proba.max(axis=1, keepdims=True)
        log_proba -= largest
        return np.asarray(log_proba - np.log(np.exp(log_proba).sum(axis=1, keepdims=True)))


def loo_accuracy(log_proba: Floats, targets: Targets) -> float:
    """Return the weighted accuracy of leave-one-out scores (n, c)."""
    right = log_proba.argmax(axis=1) == targets.codes
    return float(np.average(right, weights=targets.weight))


@contextmanager
def naming_indefinite(estimator: Any, data: Samples) -> Iterator[None]:
    """Turn a factorisation that fails into an error that names the kernel."""
    try:
        yield
    except np.linalg.LinAlgError as error:
        stack = (
            data
            if isinstance(data, KernelStack)
            else ViewKernels(estimator.kernels).fit_transform(data)
        )
        stack.check_psd()
        raise ValueError(
            f"the {len(stack.names)} kernels of {len(data)} samples are too ill-conditioned: "
            f"{error}; scale them, or choose other kernels"
        ) from error
