"""What the classifiers made of kernel ridges share: targets, weights and predictions.

All classes are learned in one go: the target of a sample is 1 for its class and -1/(c - 1) for
the others. A subclass says how it learns (`_learn`) and how it scores rows (`_log_proba`).
"""

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from kernelquilt._typing import Array, Floats, Indices
from kernelquilt.core.limits import single_threaded_blas, unchanged_on_error
from kernelquilt.data.labels import check_labels, classes_of, without_negligible
from kernelquilt.data.validation import check_alignment
from kernelquilt.kernels.inputs import (
    KernelInput,
    Samples,
    check_samples,
    input_tags,
    naming_indefinite,
    predicts_lazily,
    prepare_samples,
)

MOST_COPIES = 1e6  # more stand for importance
WHOLE = 1e-9  # from a whole number that rounding may take a number of copies


class Targets(NamedTuple):
    """What is to be learned of n samples.

    Attributes
    ----------
    Y : ndarray of shape (n, c)
        Targets.
    codes : ndarray of shape (n,)
        Position of the class of each sample; zero in regression.
    copies : ndarray of shape (n,)
        As how many copies each sample counts in means, 0 for those left out.
    held_out : ndarray of shape (n,)
        Share of the weight that leave-one-out scores leave out.
    weight : ndarray of shape (n,)
        Weight in the losses: `copies`, times the weight of the class.
    """

    Y: Floats
    codes: Indices
    copies: Floats
    held_out: Floats
    weight: Floats

    @classmethod
    def of(cls, Y: Floats, codes: Indices, weight: Floats, factors: Any = 1.0) -> "Targets":
        """Return the targets of samples with weights (n,) and factors (n,) of their classes.

        Neither the scale of the weights nor that of the factors makes a difference.
        """
        copies, held_out = count_copies(weight)
        weighted = factors * copies
        return cls(Y, codes, copies, held_out, weighted * (copies.sum() / weighted.sum()))

    def part(self, rows: Any) -> "Targets":
        """Return the targets of some samples."""
        return Targets(*(array[rows] for array in self))


def count_copies(weight: Floats) -> tuple[Floats, Floats]:
    """Return as how many copies samples count, and which share of them one leaves out.

    Only ratios of weights mean something. If all are multiples of the smallest positive one, they
    are numbers of copies, and one copy is left out. Otherwise they say how important samples are:
    their mean is made one, and a sample is left out as a whole.

    Parameters
    ----------
    weight : ndarray of shape (n,)
        Not negative, some of them positive.

    Returns
    -------
    copies, held_out : ndarrays of shape (n,)
        The same for all multiples of `weight`.
    """
    weight = without_negligible(weight / weight.max())
    used = weight[weight > 0]
    if MOST_COPIES * used.min() >= 1.0:
        multiples = weight / used.min()
        copies = multiples.round()
        if np.abs(multiples - copies).max() <= WHOLE:
            return copies, 1.0 / np.maximum(copies, 1.0)
    return weight / used.mean(), np.ones(len(weight))


def class_targets(codes: Indices, n_classes: int) -> Floats:
    """Return 1 for the class of a sample and -1/(c - 1) for the others, shape (n, c)."""
    return np.where(codes[:, None] == np.arange(n_classes), 1.0, -1.0 / (n_classes - 1))


class BaseRidgeClassifier(ClassifierMixin, BaseEstimator, ABC):
    """Base of the classifiers made of kernel ridges, with probabilities."""

    _shares_subsets = True  # takes `ViewSubsets`
    class_weight: Any
    input_: KernelInput

    @abstractmethod
    def _learn(self, data: Samples, targets: Targets) -> None:
        """Learn from checked data and keep what `_log_proba` needs, and the input."""

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
            data = check_samples(self, X, lazy=True)
            labels = check_labels(self, data, y, sample_weight).without_empty(self, data.observed)
            self.classes_, codes, weight = labels
            factors = labels.factors(self.class_weight)
            Y = class_targets(codes, len(self.classes_))
            targets = Targets.of(Y, codes, weight, factors)
            data = prepare_samples(self, data, targets.copies)
            with naming_indefinite(self, data):
                self._learn(data, targets)
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
