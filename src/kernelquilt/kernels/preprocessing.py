"""Centring and scaling of kernels, with statistics of observed training entries, and selection."""

from abc import abstractmethod
from typing import Any

import numpy as np

from kernelquilt._messages import warn_user
from kernelquilt._typing import Bools, Floats, Kernel
from kernelquilt.core.limits import check_memory
from kernelquilt.data.stack import KernelStack
from kernelquilt.kernels.centring import Centring
from kernelquilt.kernels.stack_transformer import StackTransformer


class _KernelByKernel(StackTransformer):
    """Statistics of each kernel at fit, then one formula for it; zero where absent."""

    @abstractmethod
    def _statistics(self, kernel: Floats, present: Bools, name: str) -> Any:
        """Return the statistics of a square training kernel that is zero where absent."""

    @abstractmethod
    def _apply(self, kernel: Floats, diag: Floats | None, statistics: Any) -> Any:
        """Change a kernel (n_rows, n_train) in place and return the new `diag` (n_rows,).

        Absent rows and columns are zero on entry and may hold anything finite afterwards.
        """

    def _fit(self, stack: KernelStack, out: Kernel | None = None) -> None:
        self.training_rows_ = stack.training_rows
        self.n_features_in_ = len(stack.names)
        self.statistics_: list[Any] = []
        for m, kernel in enumerate(stack.training_kernels()):
            kernel = kernel.astype(np.float64, copy=False)
            self.statistics_.append(self._statistics(kernel, stack.observed[:, m], stack.names[m]))
            if out is not None:
                self._transform_kernel(m, kernel, kernel.diagonal().copy(), stack, out[m])

    def _fit_transform(self, stack: KernelStack) -> KernelStack:
        check_memory(*stack.shape, len(stack) ** 2 * (stack.dtype.itemsize * len(stack.names) + 24))
        K = np.empty((len(stack.names), len(stack), len(stack)), dtype=stack.dtype)
        self._fit(stack, K)
        return KernelStack._computed(K, stack.observed, stack.names, square=True)

    def _transform(self, stack: KernelStack) -> KernelStack:
        training = self.training_rows_
        diag = stack.diag_of_rows(training)
        K = np.empty((len(stack.names), len(stack), len(training.ids)), dtype=stack.dtype)
        for m, kernel in enumerate(stack.cross_kernels(training)):
            own = self._transform_kernel(m, kernel, None if diag is None else diag[m], stack, K[m])
            if diag is not None:
                diag[m] = own
        return KernelStack._computed(K, stack.observed, stack.names, square=False, diag=diag)

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


class CentreKernels(_KernelByKernel):
    """Centre each kernel in its feature space.

    Subtracts the mean of the observed training samples, so that their kernel has zero row sums:
    ``k(a, b) - mean_j k(a, x_j) - mean_i k(x_i, b) + mean_ij k(x_i, x_j)``.

    Attributes
    ----------
    statistics_ : list of M Centring
        Mean of each column and of all entries, over the observed training samples.
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

    def _statistics(self, kernel: Floats, present: Bools, name: str) -> Centring:
        return Centring.of(kernel, present)

    def _apply(self, kernel: Floats, diag: Floats | None, statistics: Centring) -> Floats | None:
        return statistics.centre(kernel, diag, out=kernel)[1]


class ScaleKernels(_KernelByKernel):
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
                warn_user(
                    f"kernel {name!r} has no positive diagonal entry among its {present.sum()} "
                    "observed training samples and is left as it is"
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


class SelectKernels(StackTransformer):
    """Keep some of the kernels, which are not copied.

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

    def _fit(self, stack: KernelStack) -> None:
        self.kernel_names_ = self._transform(stack).names
        self.n_features_in_ = len(stack.names)

    def _transform(self, stack: KernelStack) -> KernelStack:
        return stack if self.kernels is None else stack.select(self.kernels)
