"""What experts on columns see of views: numbers side by side, NaN where nothing is known."""

from typing import Any

import numpy as np

from kernelquilt._typing import Array, Floats, Indices
from kernelquilt.data.frames import cells, is_frame, kind_of, numbers_in, texts_in
from kernelquilt.data.preparation import as_given
from kernelquilt.data.views import MultiView


class Columns:
    """The columns of views as they were given, side by side, as numbers.

    Categories are numbered in the order of their names. Columns without any value in training are
    left out.

    Parameters
    ----------
    data : MultiView
        All training samples.
    samples : ndarray of int
        Those to learn from.
    views : tuple of str
        Whose columns to take.
    """

    def __init__(self, data: MultiView, samples: Indices, views: tuple[str, ...]) -> None:
        self.views = views
        self._codes: dict[str, dict[int, dict[str, int]]] = {
            name: _codes_of(data.given(name), samples) for name in views
        }
        self._used: Any = slice(None)
        self._used = ~np.isnan(self.of(data[samples])).all(axis=0)

    def of(self, rows: MultiView) -> Floats:
        """Return the columns of samples (n_rows, d), NaN where a value is not known."""
        return self._side_by_side(as_given(rows))[:, self._used]

    def _side_by_side(self, rows: MultiView) -> Floats:
        return np.hstack([self._numbers(rows, name) for name in self.views])

    def _numbers(self, rows: MultiView, name: str) -> Floats:
        codes = self._codes[name]
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
