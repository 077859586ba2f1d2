"""Kernels of samples times coefficients, computed once where views are left out in many ways."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from kernelquilt._typing import Floats, Indices
from kernelquilt.kernels.factor_input import FactorInput
from kernelquilt.kernels.inputs import KernelInput
from kernelquilt.kernels.subsets import samples_in


def kernel_products(
    held: KernelInput, rows: Any, right: Sequence[Floats | None]
) -> Iterator[tuple[int, Floats]]:
    """Iterate over kernels, or factors, times coefficients.

    Parameters
    ----------
    held : KernelInput
        Of n training samples.
    rows : container of n_rows samples, or ViewSubsets
        From ``held.rows``.
    right : sequence of M ndarrays of shape (n, L), or None
        Coefficients of the training samples, or of the columns of the factors; None for kernels
        that are not needed.

    Yields
    ------
    m : int
        The kernel.
    product : ndarray of shape (n_rows, L)
        Zero where it is absent.
    """
    samples, sample_of = samples_in(rows)
    observed = held.observed_of(rows)
    needed = np.array([each is not None for each in right])
    numbers = np.flatnonzero(needed).tolist()
    if isinstance(held, FactorInput):
        factors = held.factors(samples)
        kernels: Iterator[Any] = (factors.factor(m) for m in numbers)
    else:
        kernels = held.kernels(samples, needed)
    for m, kernel in zip(numbers, kernels, strict=True):
        yield m, np.where(observed[:, [m]], (kernel @ right[m])[sample_of], 0.0)


def landmark_scores(
    held: KernelInput,
    rows: Any,
    m: int,
    columns: Indices,
    score: Callable[[Floats], Floats],
) -> Floats | float:
    """Return a function of one kernel with some training samples.

    Parameters
    ----------
    held : KernelInput
    rows : container of n_rows samples, or ViewSubsets
        From ``held.rows``.
    m : int
        The kernel.
    columns : ndarray of int of shape (n_columns,)
        Training samples that have it.
    score : callable
        From similarities (k, n_columns) to scores (k, c).

    Returns
    -------
    scores : ndarray of shape (n_rows, c), or 0.0 if no sample has the kernel
        Zero where it is absent.
    """
    samples, sample_of = samples_in(rows)
    having = np.flatnonzero(held.observed_of(samples)[:, m])
    if len(having) == 0:
        return 0.0
    found = score(held.between(held.narrowed(samples, m)[having], m, columns))
    scores = np.zeros((len(samples), found.shape[1]))
    scores[having] = found
    return np.where(held.observed_of(rows)[:, [m]], scores[sample_of], 0.0)
