"""What a model remembers of its training samples beside what it predicts with.

Which views they had, and between which values their columns were: enough to tell whether new
samples are of another kind.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import issparse

from kernelquilt._typing import Bools, Floats, Indices
from kernelquilt.core.limits import release_pages
from kernelquilt.data.blocks import (
    cells,
    is_frame,
    is_numeric,
    kind_of,
    missing,
    numbers_in,
    numbers_of,
    texts_in,
)
from kernelquilt.data.lazy.views import LazyViews
from kernelquilt.data.views import MultiView

MOST_PATTERNS = 1000  # that are remembered
MOST_CATEGORIES = 1000  # of a column that is looked at


class ColumnRanges(NamedTuple):
    """The values of the columns of a view.

    Attributes
    ----------
    low, high : ndarrays of shape (d,)
        The smallest and the largest number, NaN where there is none.
    n_values : ndarray of int of shape (d,)
        How many numbers there are.
    texts : dict of int to list of str
        Categories of the columns that hold such, sorted; none of columns with more than 1000.
    """

    low: Floats
    high: Floats
    n_values: Indices
    texts: dict[int, list[str]]


@dataclass(frozen=True)
class TrainingSummary:
    """Patterns of presence and ranges of values of training samples.

    Attributes
    ----------
    names : tuple of V str
        Views, or kernels where there are only these.
    n_samples : int
    present : ndarray of int of shape (V,)
        How many samples have each.
    patterns : ndarray of bool of shape (n_patterns, V)
        The views that samples have, the most frequent first; at most 1000.
    counts : ndarray of int of shape (n_patterns,)
        How many samples have exactly these.
    ranges : dict of str to ColumnRanges
        By view; none of kernels.
    """

    names: tuple[str, ...]
    n_samples: int
    present: Indices
    patterns: Bools
    counts: Indices
    ranges: dict[str, ColumnRanges]

    @property
    def knows_all_patterns(self) -> bool:
        """Whether no pattern of the training samples was left out."""
        return int(self.counts.sum()) == self.n_samples


def summarise(data: Any) -> TrainingSummary:
    """Return what a model is to remember of training samples in their container.

    Samples that are not in memory are read once, together with which views they have.
    """
    ranges = {}
    if isinstance(data, LazyViews):
        parts = data.look(_ranges_of_views)
        ranges = {name: joined([part[name] for part in parts]) for name in data.names}
    elif isinstance(data, MultiView):
        ranges = _ranges_of_views(data)
    observed = data.observed
    patterns, counts = frequent_patterns(observed)
    present = np.count_nonzero(observed, axis=0)
    kept = slice(MOST_PATTERNS)
    return TrainingSummary(
        tuple(data.names), len(observed), present, patterns[kept], counts[kept], ranges
    )


def frequent_patterns(observed: Bools) -> tuple[Bools, Indices]:
    """Return different rows of a mask (n, V), the most frequent first, and how often they occur."""
    packed = np.packbits(observed, axis=1)
    rows = np.ascontiguousarray(packed).view(np.dtype((np.void, packed.shape[1]))).ravel()
    _, first, counts = np.unique(rows, return_index=True, return_counts=True)
    order = np.lexsort((first, -counts))
    return observed[first[order]], counts[order]


def _ranges_of_views(views: MultiView) -> dict[str, ColumnRanges]:
    return {name: ranges_of(views.given(name)) for name in views.names}


def ranges_of(block: Any) -> ColumnRanges:
    """Return the values of the columns of a view, (n, d); never an error, others find those."""
    if issparse(block) and block.shape[0]:
        # rows of samples without the view are zeros here, which are values of sparse columns
        low, high = (each.toarray().ravel() for each in (block.min(axis=0), block.max(axis=0)))
        return ColumnRanges(low, high, np.full(len(low), block.shape[0]), {})
    if not is_frame(block) or is_numeric(block):
        return ColumnRanges(*_extremes(numbers_of(block) if is_frame(block) else block), {})
    low, high = np.full((2, block.shape[1]), np.nan)
    n_values, texts = np.zeros(block.shape[1], dtype=np.intp), {}
    for j in range(block.shape[1]):
        kind = _kind(block, j)
        if kind == "number":
            numbers = numbers_in(cells(block, j), j)[:, None]
            (low[j],), (high[j],), (n_values[j],) = _extremes(numbers)
        elif kind == "category":
            texts[j] = sorted(texts_of(block, j))
    return ColumnRanges(low, high, n_values, _few(texts))


def texts_of(frame: Any, j: int) -> set[str]:
    """Return the categories in a column."""
    values = cells(frame, j)
    different = dict.fromkeys(values[~missing(values)].tolist())
    made = np.empty(len(different), dtype=object)
    made[:] = list(different)
    return set(texts_in(made).tolist())


def joined(parts: list[ColumnRanges]) -> ColumnRanges:
    """Return the ranges of samples that came in parts."""
    low = np.fmin.reduce([part.low for part in parts], axis=0)
    high = np.fmax.reduce([part.high for part in parts], axis=0)
    columns = set.intersection(*(set(part.texts) for part in parts))
    texts = {j: sorted(set().union(*(part.texts[j] for part in parts))) for j in sorted(columns)}
    n_values = np.sum([part.n_values for part in parts], axis=0)
    return ColumnRanges(low, high, n_values, _few(texts))


def _few(texts: dict[int, list[str]]) -> dict[int, list[str]]:
    return {j: known for j, known in texts.items() if len(known) <= MOST_CATEGORIES}


def _kind(frame: Any, j: int) -> str:
    try:
        return kind_of(frame, j)
    except ValueError:
        return "unknown"


def _extremes(numbers: Floats) -> tuple[Floats, Floats, Indices]:
    """Return the smallest and the largest number of columns, NaN if there is none, and counts."""
    counts = np.count_nonzero(~np.isnan(numbers), axis=0)
    if numbers.shape[0] == 0:
        nothing = np.full(numbers.shape[1], np.nan)
        return nothing, nothing, counts
    low, high = np.fmin.reduce(numbers, axis=0), np.fmax.reduce(numbers, axis=0)
    release_pages(numbers)
    return low, high, counts
