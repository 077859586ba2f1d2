"""Samples of which views are left out in many ways, so that what they share is computed once."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kernelquilt._typing import Bools, Indices


@dataclass(frozen=True, eq=False)
class ViewSubsets:
    """Samples, each with several subsets of its views: rows that a model is asked about.

    Estimators with `_shares_subsets` take it in the place of the P samples that it stands for.

    Attributes
    ----------
    samples : MultiView, KernelStack or LowRankStack of n samples
        With all the views that they have.
    sample_of : ndarray of int of shape (P,)
        The sample of each row, in ascending order.
    observed : ndarray of bool of shape (P, V)
        The views that are left, among those that the sample has.
    """

    samples: Any
    sample_of: Indices
    observed: Bools

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the views."""
        return tuple(self.samples.names)

    def __len__(self) -> int:
        return len(self.sample_of)

    def of(self, samples: Any) -> "ViewSubsets":
        """Return the same subsets of the same samples in another container."""
        return replace(self, samples=samples)

    def parts(self, n_samples: int) -> Iterator["ViewSubsets"]:
        """Yield the rows of at most `n_samples` samples at a time."""
        for start in range(0, len(self.samples), n_samples):
            begin, end = np.searchsorted(self.sample_of, [start, start + n_samples])
            yield ViewSubsets(
                self.samples[start : start + n_samples],
                self.sample_of[begin:end] - start,
                self.observed[begin:end],
            )


def samples_in(rows: Any) -> tuple[Any, Any]:
    """Return the samples that rows are of, and which of them each row is of.

    Parameters
    ----------
    rows : ViewSubsets of P rows, or any container of samples

    Returns
    -------
    samples : MultiView, KernelStack or LowRankStack of n samples
    sample_of : ndarray of int of shape (P,), or a slice of all
        What turns an array of n samples into one of the rows.
    """
    if isinstance(rows, ViewSubsets):
        return rows.samples, rows.sample_of
    return rows, slice(None)
