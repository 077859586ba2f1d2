"""What an estimator holds of its training samples, and how it gets to kernels of new ones.

`fit_input` makes the `KernelInput` that an estimator keeps of checked samples: of views, whose
kernels are computed, or of a stack, whose kernels are looked up. Only here it matters which of the
two it is.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from copy import copy
from functools import wraps
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from kernelquilt._typing import Bools, Floats, Indices, Numbers
from kernelquilt.core.limits import check_memory
from kernelquilt.data.containers import warn_all_absent
from kernelquilt.data.gram import check_kernel
from kernelquilt.data.lazy.views import as_lazy
from kernelquilt.data.low_rank import LowRankStack
from kernelquilt.data.new_samples import match_views
from kernelquilt.data.preparation import PreparedViews
from kernelquilt.data.stack import KernelStack, TrainingRows, as_stack
from kernelquilt.data.training import Samples
from kernelquilt.data.transformer import ViewTransformer
from kernelquilt.data.validation import LEARNED
from kernelquilt.data.views import MultiView
from kernelquilt.kernels.subsets import ViewSubsets
from kernelquilt.kernels.view_kernels import GAUSSIANS, ViewKernels, kernels_of_views

MANY_SAMPLES = (
    "LateFusionClassifier is made for many samples; kernels of float32 take half of the memory; "
)
ON_FACTORS = "n_landmarks=300 or a LowRankStack needs memory in proportion to the samples; "
PART_ENTRIES = 2**23  # kernel entries held at a time while predicting


class KernelInput(ABC):
    """The training samples of a fitted estimator, and kernels of samples with them.

    Attributes
    ----------
    names : tuple of M str
        Names of the kernels.
    observed : ndarray of bool of shape (n, M)
        Which training samples have which kernel.
    views : MultiView or None
        The training samples; None where only kernels are known.
    """

    names: tuple[str, ...]
    observed: Bools
    views: MultiView | None = None

    def __init__(self, estimator: Any) -> None:
        learned = vars(estimator)
        self._learned = {name: learned[name] for name in LEARNED if name in learned}

    def describe(self, estimator: Any) -> None:
        """Give an estimator this input and the attributes that scikit-learn expects with it."""
        for name in LEARNED:
            vars(estimator).pop(name, None)
        vars(estimator).update(self._learned, input_=self, kernel_names_=self.names)

    @abstractmethod
    def training_gram(self, data: Any) -> tuple[Numbers, Bools]:
        """Return the kernels (M, n, n) of the training samples, zero where absent, and their mask.

        Whether the memory suffices is asked by `check_gram_memory`, before `fit_input`.
        """

    def rows(self, estimator: Any, X: Any) -> Any:
        """Return new samples for `estimator` in the container that the other methods take."""
        if isinstance(X, ViewSubsets):
            return X.of(self._rows(estimator, X.samples))
        return self._rows(estimator, X)

    @abstractmethod
    def _rows(self, estimator: Any, X: Any) -> Samples:
        """Return samples of which no views are left out as `rows`."""

    @abstractmethod
    def observed_of(self, rows: Any) -> Bools:
        """Return which kernels samples have, (n_rows, M)."""

    @abstractmethod
    def kernels(self, rows: Any, needed: Bools | None = None) -> Iterator[Numbers]:
        """Iterate over the needed kernels (n_rows, n) with the training samples, zero if absent."""

    @abstractmethod
    def between(self, rows: Any, m: int, columns: Indices) -> Floats:
        """Return kernel m of samples that have it with some training samples that have it."""

    @abstractmethod
    def diag(self, rows: Any, m: int) -> Numbers | None:
        """Return k(x, x) of samples in kernel m, zero where absent, or None if it is not known."""

    def narrowed(self, rows: Any, m: int) -> Any:
        """Return samples with no more than kernel m needs, so that slicing them is cheap."""
        return rows

    def views_of(self, kernels: Indices) -> tuple[str, ...]:
        """Return the names of the views that some of the kernels are of; none for a stack."""
        return ()

    def keep_only(self, columns: list[Indices]) -> list[Indices]:
        """Forget the training samples that `between` will not be asked for.

        Parameters
        ----------
        columns : list of M ndarrays of int
            The training samples that stay, for each kernel.

        Returns
        -------
        columns : list of M ndarrays of int
            What they are called from now on.
        """
        return columns

    def supported_by(self, used: Bools) -> "KernelInput":
        """Return the same without the training samples (n,) that scores do not depend on.

        The columns of the others are zero in `kernels` from then on.
        """
        return self

    def parts(self, rows: Any, entries_per_row: int) -> list[Any]:
        """Cut samples into parts whose kernels take a moderate amount of memory."""
        if len(rows) == 0:
            raise ValueError("X has 0 samples while a minimum of 1 is required")
        size = max(1, PART_ENTRIES // max(1, entries_per_row))
        if isinstance(rows, ViewSubsets):
            return list(rows.parts(size))
        return [rows[start : start + size] for start in range(0, len(rows), size)]


class _StackInput(KernelInput):
    """The input of an estimator that was given a stack: which samples of which stack."""

    def __init__(self, estimator: Any, stack: KernelStack) -> None:
        super().__init__(estimator)
        warn_all_absent(stack.observed, stack.names, "kernel")
        self.training: TrainingRows = stack.training_rows
        self.names, self.observed = stack.names, stack.observed

    def training_gram(self, data: Any) -> tuple[Numbers, Bools]:
        return data.training_gram()

    def _rows(self, estimator: Any, X: Any) -> KernelStack:
        stack = as_stack(X)
        if len(stack) == 0:
            raise ValueError("X has 0 samples while a minimum of 1 is required")
        return stack

    def observed_of(self, rows: KernelStack) -> Bools:
        return rows.observed

    def kernels(self, rows: KernelStack, needed: Bools | None = None) -> Iterator[Numbers]:
        return rows.cross_kernels(self.training, needed)

    def between(self, rows: KernelStack, m: int, columns: Indices) -> Floats:
        return rows.cross_kernel(self.training, m, columns).astype(np.float64, copy=False)

    def diag(self, rows: KernelStack, m: int) -> Numbers | None:
        diag = rows.diag_of_rows(self.training)
        return None if diag is None else np.where(rows.observed[:, m], diag[m], 0.0)


class _ViewInput(KernelInput):
    """The input of an estimator that was given views: their kernels, fitted to these samples."""

    def __init__(
        self, estimator: Any, data: MultiView, kernels: Any, weight: Floats | None
    ) -> None:
        super().__init__(estimator)
        self.preparation: ViewTransformer | None = vars(estimator).get("preparation_")
        self.view_kernels = ViewKernels(kernels)._fit_views(data, weight)
        self.names = self.view_kernels.kernel_names_
        self.observed = self.view_kernels.kernel_observed(data)
        self.held: Indices | None = None  # the training samples that are left, None for all

    @property
    def views(self) -> MultiView:  # type: ignore[override]
        """The training samples, or those that are left of them."""
        return self.view_kernels.training_views_

    def training_gram(self, data: Any) -> tuple[Numbers, Bools]:
        K = self.view_kernels._stacked(self.views)
        for m, kernel in enumerate(self.view_kernels.kernels_):
            if type(kernel) not in GAUSSIANS:  # a subclass may be anything
                check_kernel(K[m], self.names[m])
        return K, self.observed

    def _rows(self, estimator: Any, X: Any) -> MultiView:
        if isinstance(X, KernelStack | LowRankStack):
            raise ValueError(
                f"X is a {type(X).__name__}, but {type(estimator).__name__} was fitted on views; "
                "pass samples in the form of the training samples"
            )
        if self.preparation is None:
            return match_views(estimator, X, estimator.views)
        data = match_views(estimator, X, estimator.views, as_given=True)
        return PreparedViews(self.preparation._transform_views(data), data)

    def observed_of(self, rows: MultiView) -> Bools:
        return self.view_kernels.kernel_observed(rows)

    def kernels(self, rows: MultiView, needed: Bools | None = None) -> Iterator[Numbers]:
        made = self.view_kernels.iter_kernels(rows, needed)
        return made if self.held is None else map(self._with_others, made)

    def _with_others(self, kernel: Numbers) -> Numbers:
        """Return a kernel (n_rows, n) from that with the training samples that are left."""
        found = np.zeros((len(kernel), len(self.observed)), dtype=kernel.dtype)
        found[:, self.held] = kernel
        return found

    def supported_by(self, used: Bools) -> KernelInput:
        if used.all():
            return self
        made = copy(self)
        made.held = np.flatnonzero(used)
        made.view_kernels = copy(self.view_kernels)
        made.view_kernels.training_views_ = self.views[made.held]
        return made

    def between(self, rows: MultiView, m: int, columns: Indices) -> Floats:
        return self.view_kernels.kernel_between(rows, m, columns)

    def diag(self, rows: MultiView, m: int) -> Numbers:
        return self.view_kernels.kernel_diag(rows, m)

    def narrowed(self, rows: MultiView, m: int) -> MultiView:
        return rows.select(self.views_of(np.array([m])))

    def views_of(self, kernels: Indices) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.view_kernels.view_of(int(m)) for m in kernels))

    def keep_only(self, columns: list[Indices]) -> list[Indices]:
        kept = np.unique(np.concatenate([np.empty(0, dtype=np.intp), *columns]))
        self.view_kernels.training_views_ = self.views[kept]
        self.observed = self.observed[kept]
        return [np.searchsorted(kept, each) for each in columns]


def predicts_lazily(method: Callable[..., Any]) -> Callable[..., Any]:
    """Let a method of predictions take views that are not in memory, chunk by chunk.

    Parameters
    ----------
    method : callable
        ``method(estimator, X)`` returns an array (n,) or (n, c).

    Returns
    -------
    method : callable
        Returns an array of dask, which is not computed, for views that dask computes, and an array
        in memory for others.
    """

    @wraps(method)
    def predict(estimator: Any, X: Any) -> Any:
        lazy = as_lazy(X)
        if lazy is None:
            return method(estimator, X)
        check_is_fitted(estimator)
        # a sample without any view tells whether the views fit, and what will come out
        like = method(estimator, lazy.nothing())
        return lazy.chunks.rowwise(_predicted, estimator, method.__name__, like=like)

    return predict


def _predicted(chunk: MultiView, estimator: Any, method: str) -> Any:
    return getattr(estimator, method)(chunk)


def check_gram_memory(estimator: Any, data: Samples, beside: Callable[[int], float]) -> None:
    """Refuse training samples whose kernels would not fit into memory.

    To be asked before `fit_input`: already the widths of Gaussian kernels come from all pairs.

    Parameters
    ----------
    estimator : estimator
        With the parameter `kernels`.
    data : MultiView or KernelStack of n samples
    beside : callable
        From the number of kernels to that of the (n, n) arrays of float64 that are needed beside.
    """
    n, M = len(data), count_kernels(data, estimator.kernels)
    instead = ON_FACTORS if getattr(estimator, "_takes_factors", False) else ""
    size = 8 if isinstance(data, MultiView) else data.dtype.itemsize
    check_memory(n, M, n**2 * (size * M + 8 * beside(M)), instead=instead + MANY_SAMPLES)


def fit_input(
    estimator: Any, data: Samples, weight: Floats | None, *, kernels: Any = None
) -> KernelInput:
    """Fit the kernels of training samples from `check_samples`.

    Parameters
    ----------
    estimator : estimator
    data : MultiView or KernelStack of n samples
    weight : ndarray of shape (n,) or None
        Weights of the samples in the statistics of the kernels; their scale does not matter.
    kernels : as in `ViewKernels`, default=None
        By default those of the estimator.

    Returns
    -------
    KernelInput
    """
    if isinstance(data, KernelStack):
        return _StackInput(estimator, data)
    assert isinstance(data, MultiView)  # factors have an input of their own
    weight = weight if weight is None else weight / weight.max()
    return _ViewInput(estimator, data, estimator.kernels if kernels is None else kernels, weight)


def count_kernels(data: Samples, kernels: Any) -> int:
    """Return how many kernels there will be of samples from `check_samples`."""
    if not isinstance(data, MultiView):
        return len(data.names)
    return sum(map(len, kernels_of_views(kernels, data.names).values()))
