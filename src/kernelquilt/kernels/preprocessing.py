"""Centring and scaling of kernels, with statistics of observed training entries, and selection."""

import warnings
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from kernelquilt._messages import unchanged_on_error
from kernelquilt._typing import Bools, Floats, Kernel
from kernelquilt.core.memory import check_memory
from kernelquilt.data.stack import KernelStack, as_stack


class _StackTransformer(TransformerMixin, BaseEstimator, ABC):
    """Skeleton: kernel by kernel, statistics at fit, then one formula at fit and transform."""

    @abstractmethod
    def _statistics(self, kernel: Floats, present: Bools, name: str) -> Any:
        """Return the statistics of a square training kernel that is zero where absent."""

    @abstractmethod
    def _apply(self, kernel: Floats, diag: Floats | None, statistics: Any) -> Any:
        """Change a kernel (n_rows, n_train) in place and return the new `diag` (n_rows,).

        Absent rows and columns are zero on entry and may hold anything finite afterwards.
        """

    def fit(self, X: Any, y: Any = None) -> Any:
        """Compute the statistics of the training kernels.

        Parameters
        ----------
        X : KernelStack of shape (n_train, M), or array-like of shape (n_train, n_train, M)
            Square.
        y : object, default=None
            Ignored.

        Returns
        -------
        self : object
        """
        self._fit(as_stack(X), None)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> KernelStack:
        """Compute the statistics and transform the training kernels.

        Parameters
        ----------
        X, y
            As in `fit`.

        Returns
        -------
        stack : KernelStack of shape (n_train, M)
            Square, zero where absent.
        """
        stack = as_stack(X)
        check_memory(*stack.shape, len(stack) ** 2 * (stack.dtype.itemsize * len(stack.names) + 24))
        K = np.empty((len(stack.names), len(stack), len(stack)), dtype=stack.dtype)
        self._fit(stack, K)
        return KernelStack._computed(K, stack.observed, stack.names, square=True)

    def transform(self, X: Any) -> KernelStack:
        """Transform kernels between samples and the training samples.

        Parameters
        ----------
        X : KernelStack of shape (n_rows, M), or array-like of shape (n_rows, n_train, M)
            Rows of the stack that was given to `fit`, or a stack whose columns are the training
            samples, in order.

        Returns
        -------
        stack : KernelStack of shape (n_rows, M)
            Rectangular with n_train columns, zero where absent.
        """
        check_is_fitted(self, "training_rows_")
        stack, training = as_stack(X), self.training_rows_
        diag = stack.diag_of_rows(training)
        K = np.empty((len(stack.names), len(stack), len(training.ids)), dtype=stack.dtype)
        for m, kernel in enumerate(stack.cross_kernels(training)):
            own = self._transform_kernel(m, kernel, None if diag is None else diag[m], stack, K[m])
            if diag is not None:
                diag[m] = own
        return KernelStack._computed(K, stack.observed, stack.names, square=False, diag=diag)

    def _fit(self, stack: KernelStack, out: Kernel | None) -> None:
        with unchanged_on_error(self):
            self.training_rows_ = stack.training_rows
            self.n_features_in_ = len(stack.names)
            self.statistics_: list[Any] = []
            for m, kernel in enumerate(stack.training_kernels()):
                kernel = kernel.astype(np.float64, copy=False)
                self.statistics_.append(
                    self._statistics(kernel, stack.observed[:, m], stack.names[m])
                )
                if out is not None:
                    self._transform_kernel(m, kernel, kernel.diagonal().copy(), stack, out[m])

    def _transform_kernel(
        self, m: int, kernel: Kernel, diag: Kernel | None, stack: KernelStack, out: Kernel
    ) -> Any:
        """Write the transformed kernel to `out` and return the new `diag`, zero where absent."""
        present = stack.observed[:, m]
        values = kernel.astype(np.float64, copy=False)
        own = None if diag is None else np.where(present, diag, 0).astype(np.float64)
        new_diag = self._apply(values, own, self.statistics_[m])
        out[...] = values
        out[~present] = 0
        out[:, ~self.training_rows_.observed[:, m]] = 0
        return None if diag is None else np.where(present, new_diag, 0)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.three_d_array = True
        return tags


class CentreKernels(_StackTransformer):
    """Centre each kernel in its feature space.

    Subtracts the mean of the observed training samples, so that their kernel has zero row sums:
    ``k(a, b) - mean_j k(a, x_j) - mean_i k(x_i, b) + mean_ij k(x_i, x_j)``.

    Attributes
    ----------
    statistics_ : list of M tuples
        Mean of each column (n_train,), mean of all entries, number of observed samples.
    training_rows_ : TrainingRows
        The training samples.
    n_features_in_ : int
        Number of kernels.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelquilt.data.stack import KernelStack
    >>> from kernelquilt.kernels.preprocessing import CentreKernels
    >>> CentreKernels().fit_transform(KernelStack([[[2.0, 0.0], [0.0, 2.0]]])).gram().tolist()
    [[[1.0, -1.0], [-1.0, 1.0]]]
    """

    def _statistics(self, kernel: Floats, present: Bools, name: str) -> tuple[Floats, float, int]:
        count = max(int(present.sum()), 1)
        columns = kernel.sum(axis=0) / count
        return columns, float(columns.sum()) / count, count

    def _apply(
        self,
        kernel: Floats,
        diag: Floats | None,
        statistics: tuple[Floats, float, int],
    ) -> Floats | None:
        columns, overall, count = statistics
        rows = kernel.sum(axis=1) / count
        kernel -= rows[:, None]
        kernel -= columns
        kernel += overall
        return None if diag is None else diag - 2 * rows + overall


class ScaleKernels(_StackTransformer):
    """Bring kernels to a common scale.

    Parameters
    ----------
    method : {"unit_diagonal", "unit_trace"}, default="unit_diagonal"
        ``"unit_diagonal"`` divides k(a, b) by the square root of k(a, a) k(b, b), each at least
        1e-10 of the largest of the training samples; new samples need the `diag` of their
        stack. ``"unit_trace"`` divides by the sum of k(x, x) over the observed training samples.

    Attributes
    ----------
    statistics_ : list of M floats or tuples
        The trace; or the square roots of the training diagonal (n_train,) and its lower bound.
    training_rows_ : TrainingRows
        The training samples.
    n_features_in_ : int
        Number of kernels.

    Examples
    --------
    >>> from kernelquilt.data.stack import KernelStack
    >>> from kernelquilt.kernels.preprocessing import ScaleKernels
    >>> ScaleKernels("unit_diagonal").fit_transform(KernelStack([[[4.0, 1.0], [1.0, 1.0]]])).gram()
    array([[[1. , 0.5],
            [0.5, 1. ]]])
    """

    def __init__(self, method: str = "unit_diagonal") -> None:
        self.method = method

    def _statistics(self, kernel: Floats, present: Bools, name: str) -> Any:
        if self.method not in ("unit_diagonal", "unit_trace"):
            raise ValueError(f"method must be 'unit_diagonal' or 'unit_trace', got {self.method!r}")
        diag = kernel.diagonal()
        if diag.max(initial=0.0) <= 0:
            if present.any():
                warnings.warn(
                    f"kernel {name!r} has no positive diagonal entry among its {present.sum()} "
                    "observed training samples and is left as it is",
                    UserWarning,
                    stacklevel=5,
                )
            return 1.0
        if self.method == "unit_trace":
            return float(diag.sum())
        lowest = 1e-10 * float(diag.max())
        return np.sqrt(np.maximum(diag, lowest)), lowest

    def _apply(self, kernel: Floats, diag: Floats | None, statistics: Any) -> Floats | None:
        if isinstance(statistics, float):
            kernel /= statistics
            return None if diag is None else diag / statistics
        if diag is None:
            raise ValueError(
                "unit_diagonal needs k(x, x) of the new samples; give it as diag= of the "
                "KernelStack, or slice training and new samples from one stack"
            )
        columns, lowest = statistics
        own = np.maximum(diag, lowest)
        kernel /= np.sqrt(own)[:, None]
        kernel /= columns
        return np.asarray(diag / own)


class SelectKernels(TransformerMixin, BaseEstimator):
    """Keep some of the kernels.

    In a grid search it finds the best kernel, or the best pair of kernels::

        svm = make_pipeline(SelectKernels(), UniformMKLClassifier())
        GridSearchCV(svm, {"selectkernels__kernels": [[0], [1], [2]]})

    Parameters
    ----------
    kernels : sequence of int or str, or None, default=None
        Positions or names of the kernels to keep; None keeps all.

    Attributes
    ----------
    kernel_names_ : tuple of str
        Names of the kernels that are kept.
    n_features_in_ : int
        Number of kernels.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelquilt.data.stack import KernelStack
    >>> from kernelquilt.kernels.preprocessing import SelectKernels
    >>> stack = KernelStack(np.ones((3, 4, 4)), names=["a", "b", "c"])
    >>> SelectKernels(["c", "a"]).fit_transform(stack).names
    ('c', 'a')
    """

    def __init__(self, kernels: Any = None) -> None:
        self.kernels = kernels

    def fit(self, X: Any, y: Any = None) -> "SelectKernels":
        """Check that the kernels are there.

        Parameters
        ----------
        X : KernelStack of shape (n, M), or array-like of shape (n, n, M)
            Kernels.
        y : object, default=None
            Ignored.

        Returns
        -------
        self : SelectKernels
        """
        stack = as_stack(X)
        self.kernel_names_ = self._select(stack).names
        self.n_features_in_ = len(stack.names)
        return self

    def transform(self, X: Any) -> KernelStack:
        """Select the kernels.

        Parameters
        ----------
        X : KernelStack of shape (n_rows, M), or array-like of shape (n_rows, n_train, M)
            With the kernels that were there at fit.

        Returns
        -------
        stack : KernelStack of shape (n_rows, number of kernels kept)
            Not copied.
        """
        check_is_fitted(self, "kernel_names_")
        return self._select(as_stack(X))

    def _select(self, stack: KernelStack) -> KernelStack:
        return stack if self.kernels is None else stack.select(self.kernels)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.three_d_array = True
        return tags
