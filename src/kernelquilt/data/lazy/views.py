"""Views whose samples are not in memory."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn, Self

import numpy as np
from scipy.sparse import issparse

from kernelquilt._messages import quoted
from kernelquilt._typing import Array, Bools, Indices
from kernelquilt.core.chunks import Chunks
from kernelquilt.core.dask_chunks import dask_chunks, without_rows
from kernelquilt.core.limits import GIB, memory_limit
from kernelquilt.data.blocks import (
    holds_dask,
    in_memory,
    is_dask,
    is_frame,
    names_by_position,
    take,
)
from kernelquilt.data.columns import names_of_columns
from kernelquilt.data.containers import (
    check_mask,
    check_names,
    check_observed_values,
    row_positions,
)
from kernelquilt.data.lazy.assembly import Assembly, assembled, joined_views
from kernelquilt.data.views import MultiView

SHOWN = 12  # views in the text of lazy views


class LazyViews(MultiView):
    """Named views of the same samples that are read, or computed, whenever they are needed.

    Made by `MultiView` of dask collections and by `MultiView.stream`; estimators of the quilt
    family take it in place of a MultiView. ``X[positions]`` loads some samples,
    ``X.compute()`` all of them; slices and masks, ``X[:1000]`` and ``X[mask]``, stay lazy.

    Parameters
    ----------
    views : dict of str to dask array or data frame, or list of these
        With the same chunks of rows. Where dask does not know the lengths of the chunks, as of
        data frames, they are computed once.
    observed, index, columns
        As in `MultiView`; a mask of dask is computed.

    Attributes
    ----------
    chunks : Chunks
        The samples; each chunk is a `MultiView`.
    """

    def __init__(
        self,
        views: Mapping[Any, Any] | Sequence[Any],
        observed: Any = None,
        *,
        index: Any = None,
        columns: Mapping[str, Iterable[Any]] | None = None,
    ) -> None:
        given = views if isinstance(views, Mapping) else dict(enumerate_names(views))
        names = check_names(given, len(given), "view")
        collections = dict(zip(names, given.values(), strict=True))
        blocks = {name: _checked(name, each) for name, each in collections.items()}
        named = names_of_columns(blocks, columns or {})
        chunks = dask_chunks(collections)
        n = len(chunks)
        beside: list[Array] = []
        if observed is not None:
            beside.append(check_mask(in_memory(observed), (n, len(names)), "views"))
        if index is not None:
            beside.append(np.asarray(in_memory(index)))
            if beside[-1].shape != (n,):
                raise ValueError(f"index has shape {beside[-1].shape} for {n} samples")
        assembly = Assembly(names, named, observed is not None, index is not None)
        self._set(blocks, chunks.then(assembled, assembly, beside=beside), named)

    @classmethod
    def of_chunks(cls, blocks: dict[str, Any], chunks: Chunks, columns: Mapping[str, Any]) -> Self:
        """Return the views of chunks that are MultiViews.

        Parameters
        ----------
        blocks : dict of str to block
            What each view is like, without any row.
        chunks : Chunks of MultiViews
        columns : mapping of str to tuple of str or None
            Names of the columns of each view.

        Returns
        -------
        views : LazyViews
        """
        made = cls.__new__(cls)
        made._set(blocks, chunks, columns)
        return made

    def _set(self, blocks: dict[str, Any], chunks: Chunks, columns: Mapping[str, Any]) -> None:
        self._blocks, self._columns, self.chunks = blocks, dict(columns), chunks
        self._seen: tuple[Bools, Array | None] | None = None

    @property
    def observed(self) -> Bools:
        """Mask of shape (n_samples, n_views), True where a sample has a view; computed once."""
        self.look()
        assert self._seen is not None
        return self._seen[0]

    @property
    def index(self) -> Any:
        """Sample identifiers of shape (n_samples,), or None; computed once."""
        self.look()
        assert self._seen is not None
        return self._seen[1]

    def __len__(self) -> int:
        return len(self.chunks)

    def __getitem__(self, key: Any) -> Any:
        """Return some samples: lazily by a slice or a mask, in memory by positions."""
        if isinstance(key, str):
            return self.given(key)
        rows = row_positions(key, len(self))
        if not len(rows):
            raise ValueError("0 samples are selected while a minimum of 1 is required")
        key = key[0] if isinstance(key, tuple) else key  # of the pair that scikit-learn passes
        if isinstance(key, slice) or np.asarray(key).dtype == np.bool_:
            return self._restricted(rows)
        return self._loaded(rows)

    def given(self, name: str) -> NoReturn:
        """Refuse to return a view, which is not in memory.

        Parameters
        ----------
        name : str
            The view.
        """
        if name not in self._blocks:
            raise KeyError(f"no view {name!r}; the views are {quoted(self.names)}")
        raise ValueError(
            f"the {len(self)} samples of view {name!r} are not in memory; load all with "
            "X.compute(), or some with X[positions]. QuiltClassifier, LateFusionClassifier and "
            "their like take such views as they are"
        )

    def compute(self) -> MultiView:
        """Return all samples in memory.

        Returns
        -------
        views : MultiView
        """
        needed = 8 * len(self) * sum(block.shape[1] for block in self._blocks.values()) / GIB
        dense = not any(map(issparse, self._blocks.values()))
        if dense and needed > memory_limit():
            raise ValueError(
                f"{len(self)} samples would take about {needed:.2g} GiB; load some of them with "
                "X[positions]"
            )
        return joined_views(self.chunks.collect(_itself, name="load"))

    def numeric(self) -> "LazyViews":
        """Return the same samples with data frames turned into arrays, once they are read.

        Returns
        -------
        views : LazyViews
        """
        blocks = {
            name: np.empty((0, block.shape[1])) if is_frame(block) else block
            for name, block in self._blocks.items()
        }
        return self._then(blocks, self._columns, MultiView.numeric)

    def nothing(self) -> MultiView:
        """Return one sample that lacks all views.

        Returns
        -------
        views : MultiView of one sample
        """
        none = np.full(1, -1)
        blocks = {name: take(block, none) for name, block in self._blocks.items()}
        return MultiView._build(blocks, np.zeros((1, len(blocks)), bool), None, self._columns)

    def checked(self, check: Callable[[MultiView], None]) -> "LazyViews":
        """Return the same samples, of which each chunk is checked when it is read.

        Parameters
        ----------
        check : callable
            Raises an error if a MultiView is not as it should be.

        Returns
        -------
        views : LazyViews
        """
        return self._then(self._blocks, self._columns, _after_check, check)

    def present(self, name: str) -> Bools:
        """Return which samples have a view.

        Parameters
        ----------
        name : str
            The view.

        Returns
        -------
        present : ndarray of bool of shape (n_samples,)
        """
        return np.asarray(self.observed[:, self.names.index(name)])

    def select(self, names: Iterable[str]) -> "LazyViews":
        """Return some of the views.

        Parameters
        ----------
        names : iterable of str
            The views, in the order wanted.

        Returns
        -------
        views : LazyViews
            Of the same samples.
        """
        like = MultiView._build(self._blocks, np.empty((0, len(self._blocks)), bool), None)
        like = like.select(names)
        columns = {name: self._columns[name] for name in like.names}
        made = self._then(like._blocks, columns, MultiView.select, like.names)
        if self._seen is not None:
            places = [self.names.index(name) for name in like.names]
            made._seen = self._seen[0][:, places], self._seen[1]
        return made

    def with_observed(self, observed: Any) -> "LazyViews":
        """Return the same samples with another mask, which may only hide views.

        Parameters
        ----------
        observed : array-like of bool of shape (n_samples, n_views)

        Returns
        -------
        views : LazyViews
        """
        mask = check_mask(in_memory(observed), self.shape, "views")
        check_observed_values(mask & ~self.observed, self.names)
        chunks = self.chunks.then(MultiView.with_observed, beside=(mask,))
        made = LazyViews.of_chunks(self._blocks, chunks, self._columns)
        made._seen = mask, self.index
        return made

    def _then(
        self,
        blocks: dict[str, Any],
        columns: Mapping[str, Any],
        function: Any,
        *shared: Any,
    ) -> "LazyViews":
        """Return the same samples, with the same views, in other form."""
        made = LazyViews.of_chunks(blocks, self.chunks.then(function, *shared), columns)
        made._seen = self._seen
        return made

    def _loaded(self, rows: Indices) -> MultiView:
        different, order = np.unique(rows, return_inverse=True)
        return joined_views(self.chunks.take(different, MultiView.__getitem__))[order]

    def _restricted(self, rows: Indices) -> "LazyViews":
        if (np.diff(rows) <= 0).any():
            raise IndexError("slices of samples that are not in memory go upwards")
        wanted = np.zeros(len(self), dtype=bool)
        wanted[rows] = True
        chunks = self.chunks.select(wanted, MultiView.__getitem__)
        made = LazyViews.of_chunks(self._blocks, chunks, self._columns)
        if self._seen is not None:
            mask, index = self._seen
            made._seen = mask[wanted], None if index is None else index[wanted]
        return made

    def look(self, function: Callable[[MultiView], Any] | None = None) -> list[Any]:
        """Find out which views the samples have, and how they are called, in one pass.

        Parameters
        ----------
        function : callable, default=None
            What else to find out of each chunk in the same pass; without it a second look is none.

        Returns
        -------
        found : list
            What `function` returned of the chunks.
        """
        if self._seen is not None and function is None:
            return []
        seen = self.chunks.collect(_seen_of, function, name="absent views")
        for position, (mask, *_) in enumerate(seen):
            if len(mask) != self.chunks.lengths[position]:
                raise ValueError(
                    f"chunk {position} has {len(mask)} samples, but is said to have "
                    f"{self.chunks.lengths[position]}; say so with .compute_chunk_sizes()"
                )
        names = [names for _, names, _ in seen if names is not None]
        index = np.concatenate(names) if len(names) == len(seen) else None
        # parts of a collection may count their rows one by one
        unique = index is not None and len(set(index.tolist())) == len(index)
        self._seen = np.concatenate([mask for mask, *_ in seen]), index if unique else None
        return [found for *_, found in seen]

    def __repr__(self) -> str:
        width = max(len(name) for name in self.names[:SHOWN])
        lines = [
            f"MultiView: {len(self)} samples, {len(self.names)} views, not in memory, "
            f"{len(self.chunks.lengths)} chunks of up to {max(self.chunks.lengths)} samples"
        ]
        for place, (name, block) in enumerate(list(self._blocks.items())[:SHOWN]):
            line = f"  {name:<{width}}  {block.shape[1]:>6} columns"
            if self._seen is not None:
                line += f"  {100 * (1 - self._seen[0][:, place].mean()):.1f} % absent"
            lines.append(line)
        if len(self.names) > SHOWN:
            lines.append(f"  ... and {len(self.names) - SHOWN} more")
        return "\n".join(lines)


def as_lazy(X: Any) -> LazyViews | None:
    """Return views that are not in memory, or a dict or list of such, as `LazyViews`, else None."""
    if isinstance(X, LazyViews):
        return X
    return LazyViews(X) if holds_dask(X) else None


def enumerate_names(views: Sequence[Any]) -> Iterable[tuple[str, Any]]:
    """Return the views of a list with their names."""
    return zip(names_by_position(len(views)), views, strict=True)


def _checked(name: str, collection: Any) -> Any:
    """Return what a collection is like, without any row."""
    if not is_dask(collection):
        raise ValueError(
            f"view {name!r} is a {type(collection).__name__} in memory, but others are collections "
            "of dask; make it one too, with dask.array.from_array(X, chunks=...)"
        )
    try:
        return without_rows(collection)
    except ValueError as error:
        raise ValueError(f"view {name!r}: {error}") from error


def _itself(chunk: MultiView) -> MultiView:
    return chunk


def _after_check(chunk: MultiView, check: Callable[[MultiView], None]) -> MultiView:
    check(chunk)
    return chunk


def _seen_of(
    chunk: MultiView, function: Callable[[MultiView], Any] | None
) -> tuple[Bools, Array | None, Any]:
    return chunk.observed, chunk.index, None if function is None else function(chunk)
