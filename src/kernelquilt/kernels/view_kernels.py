"""From views to kernels: the transformer `ViewKernels`.

Which kernels are computed of which view, and how a kernel function is fitted and called.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import DTypeLike
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from kernelquilt._messages import quoted
from kernelquilt._typing import Bools, Floats, Indices, Kernel
from kernelquilt.core.limits import check_memory, unchanged_on_error
from kernelquilt.data.columns import ViewColumns
from kernelquilt.data.containers import distinct_names, warn_all_absent
from kernelquilt.data.gram import check_finite
from kernelquilt.data.new_samples import match_views
from kernelquilt.data.stack import KernelStack
from kernelquilt.data.validation import check_alignment, validate_views
from kernelquilt.data.views import MultiView
from kernelquilt.kernels.functions import (
    Gaussian,
    Jaccard,
    LatentSemantic,
    mean_distance,
)
from kernelquilt.kernels.median_gaussian import MedianGaussian

_OWN_KERNELS = {
    "gaussian": Gaussian,
    "median_gaussian": MedianGaussian,
    "jaccard": Jaccard,
    "latent_semantic": LatentSemantic,
}
GAUSSIANS = Gaussian, MedianGaussian  # symmetric, between 0 and 1, and 1 of a sample with itself
_DIAGONAL_BLOCK = 64
_FOR_MANY_SAMPLES = "dtype=np.float32 takes half; EmpiricalKernelMap is made for many samples; "
_REMEDY = "scale the columns of the view, or choose another kernel"


class ViewKernels(TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    """Compute one or several kernels of each view.

    Kernels are fitted to the samples that have the view, and are zero and marked as absent for
    the others.

    Parameters
    ----------
    kernels : str, callable, list or dict, default="gaussian"
        A name (``"gaussian"``, ``"median_gaussian"``, ``"jaccard"``, ``"latent_semantic"`` or one
        of scikit-learn's pairwise kernels), a callable ``k(A, B)`` such as `Gaussian` or a kernel
        of `sklearn.gaussian_process.kernels`, a list of these for several kernels per view, or a
        dict of these with an entry for every view. A callable is always called with two blocks, so
        the noise of a ``WhiteKernel`` is not added. A callable with a ``fit`` method is fitted.
    views : dict of str to columns, "columns" or None, default=None
        The views of 2-D data, as in `as_views`.
    dtype : {np.float64, np.float32}, default=np.float64
        The type in which kernels are stored.

    Attributes
    ----------
    kernels_ : list of M fitted kernel functions
        In the order of `kernel_names_`.
    kernel_names_ : tuple of str
        ``view__kernel``, such as ``mri__gaussian_0.25``, or the name of the view where it has one
        kernel.
    kernel_views_ : ndarray of int of shape (M,)
        The position of the view of each kernel.
    training_views_ : MultiView
        The training samples.
    seen_views_ : ndarray of bool of shape (V,)
        The views that at least one of them has.
    view_names_ : tuple of str
        The names of the views.
    n_features_in_ : int
        Number of columns of 2-D data, otherwise of views.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelquilt.kernels.functions import gaussian_bank
    >>> from kernelquilt.kernels.view_kernels import ViewKernels
    >>> X = {"mri": np.arange(8.0).reshape(4, 2), "age": np.array([[60.0], [71], [64], [80]])}
    >>> ViewKernels({"mri": gaussian_bank(2, 0.5, 2), "age": "linear"}).fit_transform(X).names
    ('mri__gaussian_0.5', 'mri__gaussian_2', 'age')
    """

    def __init__(
        self,
        kernels: Any = "gaussian",
        *,
        views: ViewColumns = None,
        dtype: DTypeLike = np.float64,
    ) -> None:
        self.kernels = kernels
        self.views = views
        self.dtype = dtype

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> "ViewKernels":
        """Fit the kernels to the training samples.

        Parameters
        ----------
        X : MultiView, or any input of `as_views`, of n_train samples
            The training samples.
        y : object, default=None
            Ignored, unless its index says that its samples are in another order than those of `X`.
        sample_weight : array-like of shape (n_train,), default=None
            Weights of the samples in the statistics of the kernels.

        Returns
        -------
        self : ViewKernels
            The fitted transformer.
        """
        with unchanged_on_error(self):
            self._fit_views(*self._checked(X, y, sample_weight))
        return self

    def _checked(self, X: Any, y: Any, sample_weight: Any) -> tuple[MultiView, Floats | None]:
        """Return the training samples and their weights."""
        data = validate_views(self, X, self.views)
        check_alignment(data, y, "y")
        if np.dtype(self.dtype) not in (np.dtype(np.float32), np.dtype(np.float64)):
            raise ValueError(f"dtype must be float32 or float64, got {self.dtype!r}")
        if sample_weight is None:
            return data, None
        check_alignment(data, sample_weight, "sample_weight")
        weight: Floats = _check_sample_weight(sample_weight, data, dtype=np.float64)
        if (weight < 0).any():
            raise ValueError(f"{(weight < 0).sum()} of {len(data)} sample weights are negative")
        return data, weight

    def _fit_views(self, data: MultiView, sample_weight: Floats | None) -> "ViewKernels":
        """Fit the kernels to checked samples with checked weights."""
        chosen = kernels_of_views(self.kernels, data.names)
        functions = {view: [as_function(kernel) for kernel in chosen[view]] for view in chosen}
        self.kernels_: list[Any] = [kernel for each in functions.values() for _, kernel in each]
        self.kernel_views_ = np.repeat(np.arange(len(chosen)), [*map(len, chosen.values())])
        self.kernel_names_ = distinct_names(
            view if len(each) == 1 else f"{view}__{name}"
            for view, each in functions.items()
            for name, _ in each
        )
        warn_all_absent(data.observed, data.names, "view")
        # kernels need no source of prepared views
        self.training_views_ = data.select(data.names)
        self.seen_views_ = np.asarray(data.observed.any(axis=0))
        for view, present in zip(data.names, data.observed.T, strict=True):
            if present.any():
                having = self.training_views_.select([view])[np.flatnonzero(present)]
                weight = None if sample_weight is None else sample_weight[present]
                fit_kernels([kernel for _, kernel in functions[view]], having[view], weight)
        return self

    def fit_transform(self, X: Any, y: Any = None, sample_weight: Any = None) -> KernelStack:
        """Fit the kernels and return those among the training samples.

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`.

        Returns
        -------
        stack : KernelStack of shape (n_train, M)
            Square, zero where absent.
        """
        with unchanged_on_error(self):
            data, weight = self._checked(X, y, sample_weight)
            kernels = kernels_of_views(self.kernels, data.names)
            # before the widths are found, for which all samples are compared
            self._check_memory(sum(map(len, kernels.values())), len(data), len(data))
            K = self._fit_views(data, weight)._stacked(self.training_views_)
        observed = self.kernel_observed(data)
        return KernelStack._computed(K, observed, self.kernel_names_, square=True)

    def transform(self, X: Any) -> KernelStack:
        """Return the kernels of samples against the training samples.

        Parameters
        ----------
        X : MultiView, or any input of `as_views`, of n_rows samples
            Samples to compare with the training samples.

        Returns
        -------
        stack : KernelStack of shape (n_rows, M)
            Rectangular with n_train columns and with `diag`, zero where absent.
        """
        data = self.check_views(X)
        return KernelStack._computed(
            self._stacked(data),
            self.kernel_observed(data),
            self.kernel_names_,
            square=False,
            diag=np.array([self.kernel_diag(data, m) for m in range(len(self.kernels_))]),
        )

    def check_views(self, X: Any) -> MultiView:
        """Return new samples as a MultiView with the views of the training samples.

        Parameters
        ----------
        X : MultiView, or any input of `as_views`, of n_rows samples
            New samples.

        Returns
        -------
        views : MultiView of n_rows samples
            The views in the order of the training samples.
        """
        check_is_fitted(self, "training_views_")
        return match_views(self, X, self.views)

    def kernel_observed(self, data: MultiView) -> Bools:
        """Return which kernels the samples have.

        Parameters
        ----------
        data : MultiView of n_rows samples
            From `check_views`.

        Returns
        -------
        observed : ndarray of bool of shape (n_rows, M)
            True where a sample has the view of a kernel.
        """
        places = [data.names.index(name) for name in self.training_views_.names]
        seen = data.observed[:, places] & self.seen_views_
        return np.asarray(seen[:, self.kernel_views_])

    def iter_kernels(self, data: MultiView, needed: Bools | None = None) -> Iterator[Kernel]:
        """Iterate over the kernels of samples against the training samples, made one at a time.

        Parameters
        ----------
        data : MultiView of n_rows samples
            From `check_views`.
        needed : ndarray of bool of shape (M,), default=None
            Which kernels are computed, by default all.

        Yields
        ------
        kernel : ndarray of shape (n_rows, n_train)
            Zero where the view is absent for the row or the column.
        """
        chosen = range(len(self.kernels_)) if needed is None else np.flatnonzero(needed).tolist()
        shape = len(data), len(self.training_views_)
        return self._filled(data, chosen, (np.zeros(shape, dtype=self.dtype) for _ in chosen))

    def kernel_between(self, data: MultiView, m: int, columns: Indices) -> Kernel:
        """Return one kernel between samples and some training samples, all of which have its view.

        Parameters
        ----------
        data : MultiView of n_rows samples
            From `check_views`.
        m : int
            The kernel.
        columns : ndarray of int of shape (n_columns,)
            The training samples.

        Returns
        -------
        kernel : ndarray of shape (n_rows, n_columns)
            The similarities.
        """
        view, name = self.view_of(m), self.kernel_names_[m]
        block = self.training_views_[view][columns]
        values = call_kernel(name, self.kernels_[m], data[view], block)
        check_finite(values, name, _REMEDY)
        return values

    def kernel_diag(self, data: MultiView, m: int) -> Kernel:
        """Return the similarity of samples with themselves.

        Parameters
        ----------
        data : MultiView of n_rows samples
            From `check_views`.
        m : int
            The kernel.

        Returns
        -------
        diag : ndarray of shape (n_rows,)
            Zero where absent.
        """
        view = self.view_of(m)
        diag = np.zeros(len(data), dtype=self.dtype)
        if isinstance(self.kernels_[m], GAUSSIANS):
            diag[data.present(view)] = 1.0
        elif self.seen_views_[self.kernel_views_[m]]:
            rows, block = np.flatnonzero(data.present(view)), data[view]
            for start in range(0, len(rows), _DIAGONAL_BLOCK):
                part = rows[start : start + _DIAGONAL_BLOCK]
                A = block[part]
                values = call_kernel(self.kernel_names_[m], self.kernels_[m], A, A)
                check_finite(values, self.kernel_names_[m], _REMEDY)
                diag[part] = np.diagonal(values)
        return diag

    def view_of(self, m: int) -> str:
        """Return the name of the view of a kernel.

        Parameters
        ----------
        m : int
            The kernel.

        Returns
        -------
        view : str
            The name of the view.
        """
        return self.training_views_.names[self.kernel_views_[m]]

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Return the names of the kernels.

        Parameters
        ----------
        input_features : object, default=None
            Ignored.

        Returns
        -------
        names : ndarray of str of shape (M,)
            Names such as ``rna__gaussian``.
        """
        check_is_fitted(self, "kernel_names_")
        return np.array(self.kernel_names_, dtype=object)

    def _stacked(self, data: MultiView) -> Kernel:
        shape = len(self.kernels_), len(data), len(self.training_views_)
        self._check_memory(*shape)
        K = np.zeros(shape, dtype=self.dtype)
        for _ in self._filled(data, range(len(K)), K):
            pass
        return K

    def _check_memory(self, n_kernels: int, n_rows: int, n_columns: int) -> None:
        n_bytes = float(n_kernels) * n_rows * n_columns * np.dtype(self.dtype).itemsize
        check_memory(max(n_rows, n_columns), n_kernels, n_bytes, instead=_FOR_MANY_SAMPLES)

    def _filled(
        self, data: MultiView, chosen: Iterable[int], outs: Iterable[Kernel]
    ) -> Iterator[Kernel]:
        """Yield `outs`, an array of zeros for each chosen kernel, after filling them."""
        training = self.training_views_
        previous, squared = None, None
        for m, out in zip(chosen, outs, strict=True):
            kernel, name, view = self.kernels_[m], self.kernel_names_[m], self.view_of(m)
            rows, cols = data.present(view), training.present(view)
            if not (rows.any() and cols.any()):
                yield out
                continue
            if view != previous:
                A = _observed_rows(data, view)
                B = A if data is training else _observed_rows(training, view)
                previous, squared = view, None
            if isinstance(kernel, Gaussian):
                # all Gaussian kernels of a view share the distances, and none can leave [0, 1]
                squared = kernel.squared_distances(A, B) if squared is None else squared
                direct = out.shape == squared.shape and out.dtype == squared.dtype
                values = kernel.of_squared_distances(squared, out=out if direct else None)
            else:
                values = call_kernel(name, kernel, A, B)
                check_finite(values, name, _REMEDY)
            if values is not out:
                out[np.ix_(rows, cols)] = values
            yield out

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.views is not None
        tags.input_tags.sparse = True
        return tags


def _observed_rows(data: MultiView, view: str) -> Any:
    block, present = data[view], data.present(view)
    return block if present.all() else block[present]


def kernels_of_views(kernels: Any, names: tuple[str, ...]) -> dict[str, list[Any]]:
    """Return the kernels asked for, a list for every view.

    Parameters
    ----------
    kernels : str, callable, list or dict
        As in `ViewKernels`.
    names : tuple of str
        Names of the views.

    Returns
    -------
    kernels : dict of str to list
    """
    if isinstance(kernels, Mapping):
        kernels = {str(view): kernel for view, kernel in kernels.items()}
    else:
        kernels = dict.fromkeys(names, kernels)
    unknown = [str(view) for view in kernels if view not in names]
    uncovered = [view for view in names if view not in kernels]
    for wrong, text in ((unknown, "are given for unknown"), (uncovered, "are not given for")):
        if wrong:
            raise ValueError(f"kernels {text} views {quoted(wrong)}; X has {quoted(names)}")
    lists = {
        view: list(kernels[view]) if isinstance(kernels[view], list | tuple) else [kernels[view]]
        for view in names
    }
    empty = [view for view in names if not lists[view]]
    if empty:
        raise ValueError(f"the list of kernels is empty for views {quoted(empty)}")
    return lists


def as_function(kernel: Any) -> tuple[str, Any]:
    """Return the name and an unfitted copy of a kernel function."""
    if isinstance(kernel, str):
        if kernel in _OWN_KERNELS:
            kernel = _OWN_KERNELS[kernel]()
            return kernel.name, kernel
        from sklearn.metrics.pairwise import PAIRWISE_KERNEL_FUNCTIONS

        if kernel in PAIRWISE_KERNEL_FUNCTIONS:
            return kernel, PAIRWISE_KERNEL_FUNCTIONS[kernel]
        valid = sorted([*_OWN_KERNELS, *PAIRWISE_KERNEL_FUNCTIONS])
        close = get_close_matches(kernel, valid)
        ordered = [*close, *(name for name in valid if name not in close)]
        raise ValueError(f"unknown kernel {kernel!r}; the names are {quoted(ordered)}")
    if isinstance(kernel, type) or not callable(kernel):
        raise ValueError(
            f"a kernel is a name, a callable k(A, B) or a kernel object, got {kernel!r}"
        )
    return kernel_name(kernel), clone(kernel, safe=False)


def kernel_name(kernel: Any) -> str:
    """Return a short name of a kernel function."""
    if isinstance(kernel, partial):
        return kernel_name(kernel.func)
    for attribute in ("name", "__name__"):
        name = getattr(kernel, attribute, None)
        if isinstance(name, str):
            return name.strip("<>")
    return type(kernel).__name__


def fit_kernels(kernels: list[Any], A: Any, sample_weight: Floats | None) -> None:
    """Fit the kernels of a view to the samples that have it."""
    mean = None
    for kernel in kernels:
        if isinstance(kernel, Gaussian):
            mean = mean_distance(A, sample_weight) if mean is None else mean
            kernel.fit_mean_distance(mean)
        elif hasattr(kernel, "fit"):
            with _named(kernel_name(kernel), A):
                kernel.fit(A, **({} if sample_weight is None else {"sample_weight": sample_weight}))


def call_kernel(name: str, kernel: Any, A: Any, B: Any) -> Floats:
    """Return the similarities (n_a, n_b) of a kernel function; errors name it."""
    shape = A.shape[0], B.shape[0]
    with _named(name, A):
        values = kernel(A, B)
        values = np.asarray(values.toarray() if issparse(values) else values, dtype=np.float64)
    if values.shape != shape:
        raise ValueError(
            f"kernel {name!r} must return shape {shape} for blocks of shape {A.shape} "
            f"and {B.shape}, got {values.shape}"
        )
    return values


@contextmanager
def _named(name: str, A: Any) -> Iterator[None]:
    """Name the kernel in errors, and what can be done if it cannot take sparse data."""
    try:
        with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is refused
            yield
    except (TypeError, ValueError) as error:
        if issparse(A):
            raise ValueError(
                f"kernel {name!r} cannot be computed of a sparse view, but 'linear', 'cosine', "
                "'polynomial', 'gaussian', 'median_gaussian' and 'jaccard' can; choose one, or "
                "reduce the view with ViewTransformer(TruncatedSVD(100)): "
                + " ".join(str(error).split())
            ) from error
        if isinstance(error, TypeError):
            raise TypeError(f"kernel {name!r} cannot be called as k(A, B): {error}") from error
        raise ValueError(f"kernel {name!r} could not be computed: {error}") from error
