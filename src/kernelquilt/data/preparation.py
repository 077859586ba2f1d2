"""What is done to the columns of a view by their type, if nothing else is asked for."""

import re
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from kernelquilt._messages import quoted, warn_user
from kernelquilt._typing import Array, Bools, Floats, Indices, UnsignedIntegers
from kernelquilt.data.blocks import (
    cells,
    is_frame,
    kind_of,
    numbers_of,
    select_columns,
    texts_in,
)
from kernelquilt.data.views import MultiView

MANY_CATEGORIES = 30
FEW_NUMBERS = 10  # as many categories may well be called by numbers
TELLING = 0.05  # share of the samples that lack a cell, or have it, for gaps to tell something
_NUMBER = re.compile(r"\s*[<>~]?\s*[+-]?\d+([.,]\d+)*(e[+-]?\d+)?\s*%?\s*", re.IGNORECASE)


class PreparedViews(MultiView):
    """Views after preparation, beside the samples as they were given.

    Parameters
    ----------
    prepared, source : MultiView
        Of the same samples.

    Attributes
    ----------
    source : MultiView
        The samples as they were given.
    """

    _build = MultiView._build  # a selection of views, or other masks, are views as all others

    def __init__(self, prepared: MultiView, source: MultiView) -> None:
        vars(self).update(vars(prepared))
        self.source = source

    def __getitem__(self, key: Any) -> Any:
        """Return the prepared numbers of a view, or some of the samples."""
        found = super().__getitem__(key)
        return found if isinstance(key, str) else PreparedViews(found, self.source[key])


def as_given(samples: Any) -> Any:
    """Return samples as they were before any preparation."""
    source = getattr(samples, "source", None)
    return samples if source is None else source


class ColumnPreparation(TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    """Fill missing cells, encode categories and scale numbers.

    Numbers (booleans too) get the mean of the column where they are missing, and are then
    standardised. With `indicators`, what is missing is told by further columns of zeros and ones:
    one for each column of numbers that 5 to 95 % of the samples lack, and only one for columns that
    the same samples lack. Categories (strings, and columns of a categorical type) are encoded
    one-hot; a missing one is a category of its own if there are some in training, and one that is
    not known is none of the others. Columns without any value in training are left out. Dates are
    refused. Sparse matrices pass as they are.

    Parameters
    ----------
    scale : bool, default=True
        Whether numbers are standardised.
    indicators : bool, default=False
        Whether further columns tell where numbers are missing.

    Attributes
    ----------
    number_columns_, category_columns_ : ndarrays of int
        Positions of the columns in use.
    gap_columns_ : ndarray of int
        Those of `number_columns_`, by their place there, whose gaps are columns too.
    scaler_ : StandardScaler
        Means of the columns of numbers, and standard deviations if they are scaled.
    encoder_ : OneHotEncoder or None
        Of the columns of categories.
    """

    def __init__(self, scale: bool = True, indicators: bool = False) -> None:
        self.scale = scale
        self.indicators = indicators

    def fit(self, X: Any, y: Any = None, sample_weight: Floats | None = None) -> Any:
        """Learn means and categories.

        Parameters
        ----------
        X : ndarray, DataFrame or sparse matrix of shape (n_samples, n_columns)
        y : object, default=None
            Ignored.
        sample_weight : ndarray of shape (n_samples,), default=None
            Weights of the samples in means; those without weight do not count.

        Returns
        -------
        self : ColumnPreparation
        """
        if issparse(X):
            return self
        weight = None if sample_weight is None or not sample_weight.any() else sample_weight
        counted = np.arange(X.shape[0]) if weight is None else np.flatnonzero(weight)
        # columns of dates are refused with those of numbers
        is_category = [is_frame(X) and kind_of(X, j) == "category" for j in range(X.shape[1])]
        self.number_columns_ = np.flatnonzero(~np.array(is_category))
        self.category_columns_ = np.flatnonzero(is_category)
        numbers = numbers_of_columns(X, self.number_columns_)[counted]
        seen = ~np.isnan(numbers).all(axis=0)
        self.number_columns_ = self.number_columns_[seen]
        self.gap_columns_ = np.arange(0)
        self.scaler_ = self.encoder_ = None
        if seen.any():
            weight = None if weight is None else weight[counted]
            if self.indicators:
                gaps = np.isnan(numbers[:, seen])
                share = np.average(gaps, axis=0, weights=weight)
                self.gap_columns_ = telling_gaps(share, gap_codes(gaps))
            scaler = StandardScaler(with_std=self.scale)
            self.scaler_ = scaler.fit(numbers[:, seen], sample_weight=weight)
        texts = texts_of_columns(X, self.category_columns_)[counted]
        seen = np.array([any(each is not None for each in column) for column in texts.T], bool)
        self.category_columns_, texts = self.category_columns_[seen], texts[:, seen]
        if seen.any():
            self.encoder_ = OneHotEncoder(handle_unknown="ignore", sparse_output=False).fit(texts)
            warn_of_categories(
                self.encoder_, [X.columns[j] for j in self.category_columns_], len(texts)
            )
        return self

    def transform(self, X: Any) -> Any:
        """Prepare samples.

        Parameters
        ----------
        X : as in `fit`, with the same columns

        Returns
        -------
        prepared : ndarray of shape (n_samples, n_columns_out), or `X` itself if it is sparse
            The columns of numbers, those of their gaps, and then those of the categories.
        """
        if issparse(X):
            return X
        parts = []
        if self.scaler_ is not None:
            numbers = numbers_of_columns(X, self.number_columns_)
            gaps = np.isnan(numbers)
            if gaps.any():
                numbers = np.where(gaps, self.scaler_.mean_, numbers)
            parts.append(self.scaler_.transform(numbers) if self.scale else numbers)
            if len(self.gap_columns_):
                parts.append(gaps[:, self.gap_columns_].astype(np.float64))
        if self.encoder_ is not None:
            parts.append(self.encoder_.transform(texts_of_columns(X, self.category_columns_)))
        return parts[0] if len(parts) == 1 else np.hstack(parts)


def gap_codes(gaps: Bools) -> UnsignedIntegers:
    """Return a number for each column that is the same where the same samples lack it.

    Parameters
    ----------
    gaps : ndarray of bool of shape (n, d)
        Where cells are missing.

    Returns
    -------
    codes : ndarray of uint64 of shape (d,)
        Sums over samples, modulo 2^64, of a hash of what each lacks: those of two parts of the
        samples add up to those of all, and different sets of samples hardly ever have equal sums.
    """
    n, d = gaps.shape
    some = np.flatnonzero(gaps.any(axis=0))
    keys, rows = _scrambled(np.arange(d, dtype=np.uint64)), np.zeros(n, dtype=np.uint64)
    for j in some:
        rows[gaps[:, j]] += keys[j]
    rows = _scrambled(rows)
    codes = np.zeros(d, dtype=np.uint64)
    for j in some:
        codes[j] = rows[gaps[:, j]].sum(dtype=np.uint64)
    return codes


def _scrambled(values: UnsignedIntegers) -> UnsignedIntegers:
    """Hash each of the values (splitmix64)."""
    z = values + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def telling_gaps(share: Floats, codes: UnsignedIntegers) -> Indices:
    """Return the columns whose gaps are neither rare nor the rule, the first of those alike.

    Parameters
    ----------
    share : ndarray of shape (d,)
        Share of the samples that lack each column.
    codes : ndarray of uint64 of shape (d,)
        From `gap_codes`.

    Returns
    -------
    columns : ndarray of int
    """
    telling = np.flatnonzero((share >= TELLING) & (share <= 1.0 - TELLING))
    first = np.unique(codes[telling], return_index=True)[1]
    return np.sort(telling[first])


def numbers_of_columns(X: Any, columns: Indices) -> Floats:
    """Return some columns as numbers (n, k), `X` itself if it is an array and these are all."""
    if len(columns) == 0:
        return np.empty((X.shape[0], 0))
    if not is_frame(X):
        return X if len(columns) == X.shape[1] else X[:, columns]
    found = numbers_of(select_columns(X, columns))
    infinite = np.isinf(found).any(axis=0)
    if infinite.any():
        names = quoted(str(X.columns[j]) for j in columns[infinite])
        raise ValueError(f"columns {names} have infinite values; replace them by missing cells")
    return found


def texts_of_columns(X: Any, columns: Indices) -> Array:
    """Return some columns as strings (n, k), None where missing."""
    texts = np.empty((X.shape[0], len(columns)), dtype=object)
    for k, j in enumerate(columns):
        texts[:, k] = texts_in(cells(X, j) if is_frame(X) else X[:, j])
    return texts


def warn_of_categories(encoder: OneHotEncoder, names: list[Any], n: int) -> None:
    """Warn of columns of text that may hold numbers, or that may name the samples."""
    for name, categories in zip(names, encoder.categories_, strict=True):
        texts = [each for each in categories if each is not None]
        others = [each for each in texts if not _NUMBER.fullmatch(each)]
        if len(texts) - len(others) > max(FEW_NUMBERS, len(others)):
            cause = f", because of values such as {others[0]!r}" if others else ""
            warn_user(
                f"column {name!r} is taken as categories{cause}, but most of its different values "
                "are written as numbers; turn it into numbers, with missing cells where there is "
                "none, if it measures something"
            )
        elif len(categories) > max(MANY_CATEGORIES, n // 2):
            warn_user(
                f"column {name!r} has {len(categories)} different values in {n} samples, each of "
                "which becomes a column; leave it out if it names the samples"
            )
