"""Which kernels are computed of which view, and how a kernel function is fitted and called."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.base import clone

from kernelquilt._messages import quoted
from kernelquilt._typing import Floats
from kernelquilt.kernels.distances import mean_distance
from kernelquilt.kernels.functions import (
    Gaussian,
    Jaccard,
    LatentSemantic,
    MedianGaussian,
    kernel_name,
)

_OWN_KERNELS = {
    "gaussian": Gaussian,
    "median_gaussian": MedianGaussian,
    "jaccard": Jaccard,
    "latent_semantic": LatentSemantic,
}


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
