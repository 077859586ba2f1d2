"""The door of the estimators: from what a user gives to kernels, and to new rows of them.

A subclass has the parameters `kernels` and `views`, and says what it does with the kernels.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from sklearn.utils import column_or_1d
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, assert_all_finite

from kernelquilt._messages import warn_all_absent, warn_user
from kernelquilt._typing import Array, Bools, Floats, Numbers
from kernelquilt.core.solution import TINY
from kernelquilt.data.stack import KernelStack, TrainingRows, as_stack
from kernelquilt.data.validation import check_alignment, validate_views
from kernelquilt.data.views import MultiView
from kernelquilt.kernels.view_kernels import ViewKernels

PREDICTION_ENTRIES = 2**23  # kernel entries held at a time while predicting


class KernelDoor(ABC):
    """Checks of samples, targets and weights, and the kernels between samples."""

    kernels: Any
    views: Any

    def _check_training_data(self, X: Any) -> MultiView | KernelStack:
        if isinstance(X, KernelStack) or self._precomputed:
            if self.views is not None:
                raise ValueError(
                    "views= describes the columns of 2-D data; leave it None for kernels"
                )
            stack = as_stack(X)
            self.n_features_in_ = stack.shape[1]
            for name in ("feature_names_in_", "view_columns_", "view_names_", "view_sizes_"):
                if hasattr(self, name):
                    delattr(self, name)
            return stack
        return validate_views(self, X, self.views, reset=True)

    def _check_targets(
        self, data: MultiView | KernelStack, y: Any, sample_weight: Any
    ) -> tuple[Array, Floats]:
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None"
            )
        check_alignment(data, y)
        y = column_or_1d(y, warn=True)
        assert_all_finite(y, input_name="y")
        y = self._check_target_kind(y)
        if len(y) != len(data):
            raise ValueError(
                f"X has {len(data)} samples, but y has {len(y)} labels; give one label per sample"
            )
        weight = _check_sample_weight(sample_weight, y, dtype=np.float64)
        if (weight < 0).any():
            raise ValueError(
                f"{(weight < 0).sum()} of {len(weight)} sample weights are negative; "
                "leave samples out with a weight of 0"
            )
        return y, weight

    def _check_target_kind(self, y: Array) -> Array:
        """Return targets (n,) after checking that they are of the kind to be learned."""
        check_classification_targets(y)
        return y

    def _training_gram(
        self, data: MultiView | KernelStack, weight: Floats
    ) -> tuple[Numbers, Bools]:
        """Return the kernels (M, n, n) and the mask (n, M), and keep the names of the kernels."""
        stack = self._training_stack(data, weight)
        self.kernel_names_ = stack.names
        return stack.training_gram()

    def _training_stack(self, data: MultiView | KernelStack, weight: Floats) -> KernelStack:
        """Return the training kernels and keep what prediction needs of them."""
        if isinstance(data, KernelStack):
            warn_all_absent(data.observed, data.names, "kernel")
            self.view_kernels_: ViewKernels | None = None
            self.training_rows_: TrainingRows | None = data.training_rows
            return data
        view_kernels = ViewKernels(self.kernels)
        stack = view_kernels.fit_transform(data, sample_weight=weight)
        self.view_kernels_ = view_kernels
        self.training_rows_ = None
        return stack

    def _check_rows(self, X: Any) -> Any:
        """Return new samples as the container that `_scores` slices."""
        if self.view_kernels_ is None:
            return as_stack(X)
        if isinstance(X, KernelStack):
            raise ValueError(
                f"X is a KernelStack, but {type(self).__name__} was fitted on views; "
                "pass samples in the form of the training samples"
            )
        return validate_views(self, X, self.views, reset=False)

    def _kernels_of(self, rows: Any, needed: Bools) -> Iterator[Numbers]:
        if self.view_kernels_ is None:
            return rows.cross_kernels(self.training_rows_, needed)
        return self.view_kernels_.iter_kernels(rows, needed)

    def _parts_of(self, rows: Any) -> list[Any]:
        """Cut rows into parts whose kernels take a moderate amount of memory."""
        size = max(1, PREDICTION_ENTRIES // self._entries_per_row)
        return [rows[start : start + size] for start in range(0, len(rows), size)]

    @property
    @abstractmethod
    def _entries_per_row(self) -> int:
        """Kernel entries that are held for each row while predicting."""

    @contextmanager
    def _naming_indefinite(self, data: MultiView | KernelStack) -> Iterator[None]:
        """Turn a factorisation that fails into an error that names the kernel."""
        try:
            yield
        except np.linalg.LinAlgError as error:
            stack = (
                data
                if isinstance(data, KernelStack)
                else ViewKernels(self.kernels).fit_transform(data)
            )
            stack.check_psd()
            raise ValueError(
                f"the {len(stack.names)} kernels of {len(data)} samples are too ill-conditioned: "
                f"{error}; scale them, or choose other kernels"
            ) from error

    def _weights_of_seen(self, weight: Floats, observed: Bools) -> Floats:
        """Return the sample weights with 0 for samples that have no view, with a warning."""
        empty = np.asarray(~observed.any(axis=1))
        if empty.any():
            warn_user(
                f"{empty.sum()} of {len(empty)} training samples have no observed view and are "
                "left out of the fit"
            )
        return np.where(empty, 0.0, weight)

    @property
    def _precomputed(self) -> bool:
        return isinstance(self.kernels, str) and self.kernels == "precomputed"

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.allow_nan = self.views is not None
        tags.input_tags.pairwise = self._precomputed
        return tags


class DecidesByScores(ABC):
    """Classes from the scores of a classifier."""

    classes_: Array

    @abstractmethod
    def decision_function(self, X: Any) -> Floats:
        """Return the scores of samples, (n_rows,) if binary, otherwise (n_rows, n_classes)."""

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
        scores = self.decision_function(X)
        codes = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        return np.asarray(self.classes_[codes])


class ClassifierDoor(DecidesByScores, KernelDoor):
    """The same for classifiers with the parameter `class_weight`."""

    class_weight: Any

    def _check_two_classes(self, classes: Array, codes: Any, weight: Floats) -> None:
        present = np.unique(codes[weight > 0])
        if len(present) < 2:
            raise ValueError(
                f"{type(self).__name__} needs samples of at least two classes with positive "
                f"weight, got {len(present)} class among {len(codes)} samples: "
                f"{classes[present].tolist()}"
            )

    def _without_empty(self, codes: Any, weight: Floats, observed: Bools) -> Floats:
        """Return the sample weights with 0 for samples that have no view."""
        weight = self._weights_of_seen(weight, observed)
        if len(np.unique(codes[weight > 0])) < 2:
            empty = np.asarray(~observed.any(axis=1))
            raise ValueError(
                f"{type(self).__name__} needs samples with an observed view of at least two "
                f"classes; {empty.sum()} of {len(empty)} samples have none"
            )
        return weight

    def _factors_of_classes(self, classes: Array, codes: Any, weight: Floats) -> Floats:
        """Return the factor (n_classes,) on the penalty of each class."""
        if self.class_weight == "balanced":
            totals = np.bincount(codes, weight)
            factor = totals.sum() / (np.count_nonzero(totals) * np.maximum(totals, TINY))
        else:
            factor = compute_class_weight(self.class_weight, classes=classes, y=classes[codes])
        if not (np.isfinite(factor).all() and (factor > 0).all()):
            raise ValueError(
                f"class_weight must be positive and finite for every class, got {self.class_weight}"
            )
        return np.asarray(factor)
