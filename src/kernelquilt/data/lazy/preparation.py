"""What is learned of the columns of views that are not in memory, in one pass.

The statistics of a chunk are sums and sets, so that those of all samples come from those of the
chunks.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import issparse
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from kernelquilt._typing import Bools, Floats, Indices, UnsignedIntegers
from kernelquilt.data.blocks import cells, is_frame, kind_of, nothing, take, texts_in
from kernelquilt.data.lazy.views import LazyViews
from kernelquilt.data.preparation import (
    ColumnPreparation,
    PreparedViews,
    gap_codes,
    numbers_of_columns,
    telling_gaps,
    warn_of_categories,
)
from kernelquilt.data.transformer import ViewTransformer
from kernelquilt.data.views import MultiView

MOST_CATEGORIES = 10_000


class ColumnStatistics(NamedTuple):
    """What some samples tell of the d columns of a view.

    Attributes
    ----------
    n : int
        Number of samples that have the view.
    is_number, is_text : ndarrays of bool of shape (d,)
        Whether there are values of this kind.
    weight, total : ndarrays of shape (d,)
        Sum of the weights of the numbers, and of the numbers times these.
    everyone : float
        Sum of the weights of all these samples.
    gaps : ndarray of uint64 of shape (d,)
        Which of them lack a number, as `gap_codes`.
    texts : tuple of d frozensets of str or None, or None
        Different values as text, with None for a missing one; None where the type says that there
        are numbers.
    """

    n: int
    is_number: Bools
    is_text: Bools
    weight: Floats
    total: Floats
    everyone: float
    gaps: UnsignedIntegers
    texts: tuple[frozenset[str | None] | None, ...]


def fit_preparation(transformer: ViewTransformer, data: LazyViews, weight: Floats) -> LazyViews:
    """Fit a ViewTransformer that prepares columns by their type, and return the prepared samples.

    Parameters
    ----------
    transformer : ViewTransformer
        Of `ColumnPreparation`, which does not scale but tells of gaps.
    data : LazyViews of n samples
    weight : ndarray of shape (n,)
        Weights in means; samples without weight do not count.

    Returns
    -------
    prepared : LazyViews of n samples
    """
    found = data.chunks.then(_statistics_of_views, beside=(weight,)).fold(
        _itself, combine=_merged, name="columns"
    )
    transformer.transformers_, transformer.outputs_ = {}, {}
    blocks, columns = dict(data._blocks), data.columns
    for name, statistics in zip(data.names, found, strict=True):
        if statistics is None:
            continue
        try:
            made, size = _preparation(blocks[name], statistics)
        except ValueError as error:
            raise ValueError(f"view {name!r}: {error}") from error
        transformer.transformers_[name], columns[name] = made, None
        transformer.outputs_[name] = size, issparse(blocks[name])
        blocks[name] = nothing(0, size, sparse=issparse(blocks[name]))
    seen = np.isin(data.names, list(transformer.transformers_))
    transformer.absent_views_ = tuple(np.asarray(data.names)[~seen].tolist())
    prepared = data._then(blocks, columns, _transformed, transformer)
    return PreparedLazyViews.beside(data, prepared, transformer)


class PreparedLazyViews(LazyViews):
    """Views after preparation that are not in memory, beside the samples as they were given.

    Attributes
    ----------
    source : LazyViews
        The samples as they were given.
    transformer : ViewTransformer
        What prepares them.
    """

    source: LazyViews
    transformer: ViewTransformer

    @classmethod
    def beside(
        cls, source: LazyViews, prepared: LazyViews, transformer: ViewTransformer
    ) -> "PreparedLazyViews":
        """Return prepared samples that know where they come from."""
        made = cls.__new__(cls)
        vars(made).update(vars(prepared), source=source, transformer=transformer)
        seen = ~np.isin(made.names, transformer.absent_views_)
        made._seen = source.observed & seen, source.index
        return made

    def _loaded(self, rows: Indices) -> MultiView:
        found = self.source[rows]
        return PreparedViews(self.transformer._transform_views(found), found)

    def _restricted(self, rows: Indices) -> LazyViews:
        restricted = super()._restricted(rows)
        return self.beside(self.source._restricted(rows), restricted, self.transformer)


def _transformed(chunk: MultiView, transformer: ViewTransformer) -> MultiView:
    return transformer._transform_views(chunk)


def _itself(statistics: Any) -> Any:
    return statistics


def _statistics_of_views(chunk: MultiView, weight: Floats) -> tuple[ColumnStatistics | None, ...]:
    """Return the statistics of each view, None where no sample of positive weight has it."""
    found: list[ColumnStatistics | None] = []
    for name, present in zip(chunk.names, chunk.observed.T, strict=True):
        rows = np.flatnonzero(present & (weight > 0))
        if not len(rows):
            found.append(None)
            continue
        try:
            found.append(statistics_of(take(chunk.given(name), rows), weight[rows]))
        except ValueError as error:
            raise ValueError(f"view {name!r}: {error}") from error
    return tuple(found)


def statistics_of(X: Any, weight: Floats) -> ColumnStatistics:
    """Return what samples tell of the columns of a view.

    Parameters
    ----------
    X : ndarray, DataFrame or sparse matrix of shape (b, d)
    weight : ndarray of shape (b,)
        Positive.

    Returns
    -------
    statistics : ColumnStatistics
        Of no column if `X` is sparse.
    """
    n, d = X.shape
    if issparse(X):
        d = 0
    kinds = [kind_of(X, j) if is_frame(X) else "number" for j in range(d)]
    as_numbers = np.flatnonzero([kind != "category" for kind in kinds])
    values = np.full((n, d), np.nan)
    values[:, as_numbers] = numbers_of_columns(X, as_numbers) if d else values
    there = ~np.isnan(values)
    texts: list[frozenset[str | None] | None] = []
    for j in range(d):
        typed = not is_frame(X) or cells(X, j).dtype.kind in "fiub"
        # a column without any value has the type of numbers in some files
        texts.append(None if typed and there[:, j].any() else _different(X, j))
    return ColumnStatistics(
        n,
        np.asarray(there.any(axis=0)),
        np.array(
            [
                kind == "category" and each is not None and each != {None}
                for kind, each in zip(kinds, texts, strict=True)
            ],
            dtype=bool,
        ),
        weight @ there,
        weight @ np.where(there, values, 0.0),
        float(weight.sum()),
        gap_codes(~there),
        tuple(texts),
    )


def _different(X: Any, column: int) -> frozenset[str | None]:
    values = cells(X, column) if is_frame(X) else X[:, column]
    return frozenset(texts_in(values).tolist())


def _merged(
    left: tuple[ColumnStatistics | None, ...], right: tuple[ColumnStatistics | None, ...]
) -> tuple[ColumnStatistics | None, ...]:
    return tuple(_both(a, b) for a, b in zip(left, right, strict=True))


def _both(a: ColumnStatistics | None, b: ColumnStatistics | None) -> ColumnStatistics | None:
    if a is None or b is None:
        return a if b is None else b
    is_text = a.is_text | b.is_text
    texts = [
        None if s is None or t is None else s | t for s, t in zip(a.texts, b.texts, strict=True)
    ]
    for j, each in enumerate(texts):
        if each is None or len(each) <= MOST_CATEGORIES:
            continue
        if is_text[j]:
            raise ValueError(
                f"the column of text at position {j} has more than {MOST_CATEGORIES} different "
                f"values, such as {min(filter(None, each))!r}, each of which would become a "
                "column; leave it out"
            )
        texts[j] = None  # numbers
    return ColumnStatistics(
        a.n + b.n,
        a.is_number | b.is_number,
        is_text,
        a.weight + b.weight,
        a.total + b.total,
        a.everyone + b.everyone,
        a.gaps + b.gaps,
        tuple(texts),
    )


def _preparation(like: Any, found: ColumnStatistics) -> tuple[ColumnPreparation, int]:
    """Return the preparation of a view by its statistics, and how many columns it makes."""
    made = ColumnPreparation(scale=False, indicators=True)
    if issparse(like):
        return made, like.shape[1]
    both = np.flatnonzero(found.is_text & np.array([each is None for each in found.texts]))
    if len(both):
        raise ValueError(
            f"column {like.columns[both[0]]!r} holds numbers in some chunks and text in others; "
            "give it one type"
        )
    made.number_columns_ = np.flatnonzero(found.is_number & ~found.is_text)
    made.category_columns_ = np.flatnonzero(found.is_text)
    made.scaler_ = made.encoder_ = None
    if len(made.number_columns_):
        means = (found.total / np.maximum(found.weight, np.finfo(float).tiny))[made.number_columns_]
        made.scaler_ = StandardScaler(with_std=False).fit(means[None])
    missing = 1.0 - found.weight[made.number_columns_] / found.everyone
    made.gap_columns_ = telling_gaps(missing, found.gaps[made.number_columns_])
    size = len(made.number_columns_) + len(made.gap_columns_)
    if len(made.category_columns_):
        made.encoder_ = _encoder([found.texts[j] or frozenset() for j in made.category_columns_])
        size += sum(map(len, made.encoder_.categories_))
        names = [like.columns[j] for j in made.category_columns_]
        warn_of_categories(made.encoder_, names, found.n)
    return made, size


def _encoder(texts: list[frozenset[str | None]]) -> OneHotEncoder:
    """Return an encoder of columns that hold these texts."""
    longest = max(map(len, texts))
    shown = np.empty((longest, len(texts)), dtype=object)
    for k, each in enumerate(texts):
        values = list(each)
        shown[:, k] = values + values[:1] * (longest - len(values))
    return OneHotEncoder(handle_unknown="ignore", sparse_output=False).fit(shown)
