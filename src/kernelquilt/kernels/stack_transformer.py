"""What the transformers from stacks of kernels to stacks of kernels share."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from kernelquilt.core.limits import single_threaded_blas, unchanged_on_error
from kernelquilt.data.stack import KernelStack, as_stack


class StackTransformer(TransformerMixin, BaseEstimator, ABC):
    """Base of the transformers that learn from a square stack and transform rows against it."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {}

    @abstractmethod
    def _fit(self, stack: KernelStack) -> None:
        """Learn from the training kernels."""

    @abstractmethod
    def _transform(self, stack: KernelStack) -> KernelStack:
        """Transform kernels between samples and the training samples."""

    def _fit_transform(self, stack: KernelStack) -> KernelStack:
        """Learn from the training kernels and return them transformed."""
        self._fit(stack)
        return self._transform(stack)

    def fit(self, X: Any, y: Any = None) -> Any:
        """Learn from the training kernels.

        Parameters
        ----------
        X : KernelStack of shape (n_train, M), or array-like of shape (n_train, n_train, M)
            Square.
        y : object, default=None
            Ignored.

        Returns
        -------
        self : object
            The fitted transformer.
        """
        self._validate_params()
        with unchanged_on_error(self), single_threaded_blas():
            self._fit(as_stack(X))
        return self

    def fit_transform(self, X: Any, y: Any = None) -> KernelStack:
        """Learn from the training kernels and transform them.

        Parameters
        ----------
        X, y
            As in `fit`.

        Returns
        -------
        stack : KernelStack of shape (n_train, number of kernels)
            Square. Completers leave nothing absent but kernels that no training sample has; the
            others leave absent what was.
        """
        self._validate_params()
        with unchanged_on_error(self), single_threaded_blas():
            return self._fit_transform(as_stack(X))

    def transform(self, X: Any) -> KernelStack:
        """Transform kernels between samples and the training samples.

        Parameters
        ----------
        X : KernelStack of shape (n_rows, M), or array-like of shape (n_rows, n_train, M)
            Rows of the stack that was given to `fit`, or a stack whose columns are the training
            samples, in order.

        Returns
        -------
        stack : KernelStack of shape (n_rows, number of kernels)
            Rectangular with n_train columns, absent as in `fit_transform`. It has `diag` if that
            of `X` is known, or follows.
        """
        check_is_fitted(self)
        with single_threaded_blas():
            return self._transform(as_stack(X))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.three_d_array = True
        return tags
