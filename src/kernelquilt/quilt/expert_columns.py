"""What experts on columns see of views: numbers side by side, NaN where nothing is known.

Trees hold numbers in single precision and do not tell apart what is closer than 1e-7. Columns for
them are therefore taken in units of their own, from their own middle.
"""

from typing import Any

import numpy as np

from kernelquilt._typing import Array, Bools, Floats, Indices
from kernelquilt.data.blocks import cells, is_frame, kind_of, numbers_in, texts_in
from kernelquilt.data.preparation import as_given
from kernelquilt.data.views import MultiView
from kernelquilt.kernels.subsets import ViewSubsets

LARGEST = 1e38  # in single precision, about


class Columns:
    """The columns of views as they were given, side by side, as numbers.

    Categories are numbered in the order of their names. Columns without any value in training are
    left out, and numbers are at most 1e38.

    Parameters
    ----------
    data : MultiView
        All training samples.
    samples : ndarray of int
        Those to learn from.
    views : tuple of str
        Whose columns to take.
    scaled : bool
        Whether columns count from their median, in units of the median distance of other values
        from it.
    """

    def __init__(
        self, data: MultiView, samples: Indices, views: tuple[str, ...], *, scaled: bool
    ) -> None:
        self.views = views
        self.codes: dict[str, dict[int, dict[str, int]]] = {
            name: _codes_of(data.given(name), samples) for name in views
        }
        found = self._side_by_side(data[samples])
        self.used = ~np.isnan(found).all(axis=0)
        # of halves, whose differences cannot overflow
        self.middle: Floats | float = 0.0
        self.unit: Floats | float = 0.5
        if scaled:
            halves = found[:, self.used] / 2
            self.middle = _medians(halves)
            distances = np.abs(halves - self.middle)
            unit = _medians(np.where(distances > 0, distances, np.nan))
            self.unit = np.where(np.isnan(unit), 0.5, unit)

    def of(self, rows: MultiView) -> Floats:
        """Return the columns of samples (n_rows, d), NaN where a value is not known."""
        found = self._side_by_side(as_given(rows))[:, self.used]
        with np.errstate(over="ignore"):
            found = (found / 2 - self.middle) / self.unit
        return np.clip(found, -LARGEST, LARGEST)

    def of_subsets(self, rows: ViewSubsets) -> tuple[Floats, Indices, Bools]:
        """Return the columns of samples of which views are left out.

        Parameters
        ----------
        rows : ViewSubsets of P rows
            Of n samples.

        Returns
        -------
        X : ndarray of shape (n, d)
            The columns of the samples.
        view_of : ndarray of int of shape (d,)
            The view of each.
        kept : ndarray of bool of shape (P, n_views)
            The views that are left in each row.
        """
        widths = [as_given(rows.samples).given(name).shape[1] for name in self.views]
        view_of = np.repeat(np.arange(len(widths)), widths)[self.used]
        kept = rows.observed[:, [rows.names.index(name) for name in self.views]]
        return self.of(rows.samples), view_of, kept

    def _side_by_side(self, rows: MultiView) -> Floats:
        return np.hstack([self._numbers(rows, name) for name in self.views])

    def _numbers(self, rows: MultiView, name: str) -> Floats:
        codes = self.codes[name]
        if not codes:
            return rows[name]
        block = rows.given(name)
        found = np.empty(block.shape)
        for j in range(block.shape[1]):
            values = _values(block, j)
            if j in codes:
                found[:, j] = [codes[j].get(text, np.nan) for text in texts_in(values)]
            else:
                found[:, j] = numbers_in(values, j)
        return found


def _medians(values: Floats) -> Floats:
    """Return the middle one of the numbers in each column, the lower of two; nan if there is none.

    Parameters
    ----------
    values : ndarray of shape (n, d)
        NaN does not count.

    Returns
    -------
    medians : ndarray of shape (d,)
    """
    counts = np.count_nonzero(~np.isnan(values), axis=0)
    ordered = np.sort(values, axis=0)  # NaN last
    return np.asarray(ordered[(counts - 1) // 2, np.arange(values.shape[1])])


def _codes_of(block: Any, samples: Indices) -> dict[int, dict[str, int]]:
    """Return a number for each category in each column of categories."""
    if not is_frame(block):
        return {}
    known = {
        j: {text for text in texts_in(_values(block, j)[samples]) if text is not None}
        for j in range(block.shape[1])
        if kind_of(block, j) == "category"
    }
    return {
        j: {text: code for code, text in enumerate(sorted(texts))} for j, texts in known.items()
    }


def _values(block: Any, j: int) -> Array:
    return cells(block, j) if is_frame(block) else block[:, j]
