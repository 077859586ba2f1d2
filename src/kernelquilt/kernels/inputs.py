"""What an estimator holds of its training samples, and how it gets to kernels of new ones.

`check_samples` checks what a user hands over to ``fit``. `fit_input` makes the `KernelInput` of it
that the estimator keeps: of views, whose kernels are computed, or of a stack, whose kernels are
looked up. Only here it matters which of the two it is.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from functools import wraps
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from kernelquilt._messages import quoted
from kernelquilt._typing import Bools, Floats, Indices, Numbers
from kernelquilt.core.blocks import Block, Blocks, array_blocks
from kernelquilt.core.limits import check_memory
from kernelquilt.core.passes import Passes
from kernelquilt.data.blocks import is_frame
from kernelquilt.data.containers import warn_all_absent
from kernelquilt.data.gram import check_kernel
from kernelquilt.data.lazy.preparation import fit_preparation
from kernelquilt.data.lazy.sources import slices_of
from kernelquilt.data.lazy.views import LazyViews, as_lazy
from kernelquilt.data.low_rank import LowRankStack
from kernelquilt.data.new_samples import match_views
from kernelquilt.data.preparation import ColumnPreparation, PreparedViews
from kernelquilt.data.stack import KernelStack, TrainingRows, as_stack
from kernelquilt.data.transformer import ViewTransformer
from kernelquilt.data.validation import LEARNED, remember_views, training_summary, validate_views
from kernelquilt.data.views import MultiView
from kernelquilt.kernels.subsets import ViewSubsets
from kernelquilt.kernels.view_kernels import GAUSSIANS, ViewKernels, kernels_of_views

Samples = MultiView | KernelStack | LowRankStack

MANY_SAMPLES = (
    "LateFusionClassifier is made for many samples; kernels of float32 take half of the memory; "
)
ON_FACTORS = "n_landmarks=300 or a LowRankStack needs memory in proportion to the samples; "
IN_SLICES = 10_000  # samples above which prepared columns are not held beside those given
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
        # kernels need no source of prepared views
        self.view_kernels = ViewKernels(kernels)._fit_views(data.select(data.names), weight)
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
        return rows.select([self.view_kernels.view_of(m)])

    def views_of(self, kernels: Indices) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.view_kernels.view_of(int(m)) for m in kernels))

    def keep_only(self, columns: list[Indices]) -> list[Indices]:
        kept = np.unique(np.concatenate([np.empty(0, dtype=np.intp), *columns]))
        self.view_kernels.training_views_ = self.views[kept]
        self.observed = self.observed[kept]
        return [np.searchsorted(kept, each) for each in columns]


def check_samples(estimator: Any, X: Any, *, lazy: bool = False) -> Samples:
    """Return the training samples of an estimator with the parameters `kernels` and `views`.

    Sets the attributes of the estimator that describe them. If it has the parameter ``prepare``,
    views stay as they were given, and `prepare_samples` is next. With `lazy` they need not be in
    memory, and may be `LazyViews`.
    """
    for name in LEARNED:
        vars(estimator).pop(name, None)
    data = _checked(estimator, X, lazy)
    estimator.training_summary_ = training_summary(data)
    return data


def _checked(estimator: Any, X: Any, lazy: bool) -> Samples:
    if isinstance(X, LowRankStack):
        return _check_factors(estimator, X)
    if isinstance(X, KernelStack) or is_precomputed(estimator.kernels):
        if estimator.views is not None:
            raise ValueError("views= describes the columns of 2-D data; leave it None for kernels")
        stack = as_stack(X)
        stack.check_square()
        estimator.n_features_in_ = stack.shape[1]
        return stack
    return validate_views(
        estimator, X, estimator.views, as_given=prepares_itself(estimator), lazy=lazy
    )


def _check_factors(estimator: Any, stack: LowRankStack) -> LowRankStack:
    """Return factors, if the estimator works on factors and nothing is said about views."""
    if not getattr(estimator, "_takes_factors", False):
        raise ValueError(
            f"X is a LowRankStack of {len(stack.names)} factors, which {type(estimator).__name__} "
            "does not work on; give it views or a KernelStack"
        )
    if estimator.views is not None or getattr(estimator, "n_landmarks", None) is not None:
        raise ValueError("views= and n_landmarks= are for views; leave them None for factors")
    estimator.n_features_in_ = stack.shape[1]
    return stack


def prepare_samples(estimator: Any, data: Samples, weight: Floats) -> Samples:
    """Fill the missing cells and encode the categories of training samples, if asked for.

    Sets ``preparation_`` of the estimator, the fitted transformer or None.

    Parameters
    ----------
    estimator : estimator
        With the parameter ``prepare``.
    data : MultiView or KernelStack of n samples
        From `check_samples`.
    weight : ndarray of shape (n,)
        Weights of the samples in means.

    Returns
    -------
    data : MultiView or KernelStack of n samples
        Complete numeric views are what they were; `PreparedViews`, or `PreparedLazyViews` of more
        samples, if there are views.
    """
    estimator.preparation_ = None
    if not isinstance(data, MultiView) or not prepares_itself(estimator):
        return data
    estimator.preparation_ = ViewTransformer(ColumnPreparation(scale=False))
    estimator.preparation_.n_features_in_ = len(data.names)
    remember_views(estimator.preparation_, data)
    in_memory = not isinstance(data, LazyViews)
    if in_memory and len(data) > IN_SLICES and not any(map(is_frame, data._blocks.values())):
        data = slices_of(data)
    if isinstance(data, LazyViews):
        return fit_preparation(estimator.preparation_, data, weight)
    return PreparedViews(estimator.preparation_._fit_views(data, weight=weight), data)


def sample_blocks(
    data: MultiView, *, n_jobs: int | None = None, passes: Passes | None = None
) -> Blocks:
    """Return the rows of numeric views in blocks, to be summed over.

    Parameters
    ----------
    data : MultiView of n samples
        From `prepare_samples`; in memory or not.
    n_jobs : int or None, default=None
        Number of threads; dask knows its own workers.
    passes : Passes or None, default=None
        Counts the passes over the samples.

    Returns
    -------
    blocks : Blocks of n rows
    """
    if isinstance(data, LazyViews):
        counted = data.chunks.working(Passes() if passes is None else passes, n_jobs)
        return Blocks(counted.then(_as_block))
    views = [data[name] for name in data.names]
    return array_blocks(views, data.observed, n_jobs=n_jobs, passes=passes)


def _as_block(chunk: MultiView) -> Block:
    return Block(tuple(chunk[name] for name in chunk.names), chunk.observed)


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


def without_view(data: Samples, name: str, parameter: str) -> MultiView:
    """Return training samples without a view that a parameter names and that has other uses."""
    if not isinstance(data, MultiView):
        raise ValueError(
            f"{parameter}={name!r} names a view, but X holds {data.shape[1]} kernels; give views, "
            f"or leave {parameter} None"
        )
    if name not in data.names:
        raise ValueError(
            f"{parameter}={name!r} is not among the {len(data.names)} views {quoted(data.names)}"
        )
    others = [other for other in data.names if other != name]
    if not others:
        raise ValueError(
            f"{parameter}={name!r} is the only view, which leaves no view for the kernels; give it "
            f"twice under two names, or leave {parameter} None"
        )
    return data.select(others)


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


def is_precomputed(kernels: Any) -> bool:
    """Whether `kernels` says that plain arrays of kernels are given."""
    return isinstance(kernels, str) and kernels == "precomputed"


def prepares_itself(estimator: Any) -> bool:
    """Whether an estimator fills missing cells and encodes categories by itself."""
    return getattr(estimator, "prepare", None) == "auto"


def input_tags(estimator: Any, tags: Any) -> Any:
    """Return scikit-learn's tags of an estimator with the parameters `kernels` and `views`."""
    tags.input_tags.allow_nan = estimator.views is not None or prepares_itself(estimator)
    tags.input_tags.sparse = not is_precomputed(estimator.kernels)
    tags.input_tags.pairwise = is_precomputed(estimator.kernels)
    return tags
