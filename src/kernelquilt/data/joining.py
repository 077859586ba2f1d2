"""Samples by their identifiers: joining frames, identifiers of views, MuData and AnnData."""

import warnings
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import csr_array, issparse

from kernelquilt._messages import quoted, warn_user
from kernelquilt._typing import Array, Bools, Indices
from kernelquilt.data.blocks import (
    annotated_message,
    as_block,
    cells,
    has_index,
    is_annotated,
    is_frame,
    is_missing,
    is_number,
    rows_without_values,
    take,
    take_rows,
)

if TYPE_CHECKING:
    from kernelquilt.data.views import MultiView


class ByIdentifier:
    """What ``X.loc`` of a MultiView is."""

    def __init__(self, views: "MultiView") -> None:
        self._views = views

    def __getitem__(self, identifiers: Any) -> "MultiView":
        """Return the samples with these identifiers, in their order."""
        index = self._views.index
        if index is None:
            raise ValueError("the samples have no identifiers; give them as index=")
        found: MultiView = self._views[_positions(index, identifiers)]
        return found


def join_frames(frames: Mapping[Any, Any], on: str | None) -> tuple[dict[str, Any], Array]:
    """Return the frames with the same rows, and their identifiers in ascending order.

    Parameters
    ----------
    frames : dict of str to DataFrame
    on : str or None
        The column of the identifiers; None for the index.

    Returns
    -------
    frames : dict of str to DataFrame of n rows
        Cells are missing where a frame does not hold a sample.
    identifiers : ndarray of shape (n,)
    """
    if not isinstance(frames, Mapping):
        raise ValueError("from_frames takes a dict of name to data frame")
    keyed = {str(name): _with_identifiers(str(name), frame, on) for name, frame in frames.items()}
    samples = sorted_identifiers(each for _, identifiers in keyed.values() for each in identifiers)
    filled = [identifiers for _, identifiers in keyed.values() if identifiers]
    alike = _alike(samples)
    if alike:
        warn_user(
            f"{len(alike)} identifiers of samples are written in several ways, such as "
            f"{quoted(alike[0])}, and are taken for different samples"
        )
    elif len(filled) > 1 and len(samples) == sum(map(len, filled)):
        warn_user(f"no sample is in more than one of the {len(filled)} frames")
    joined = {}
    for name, (frame, identifiers) in keyed.items():
        position = {each: row for row, each in enumerate(identifiers)}
        rows = np.array([position.get(each, -1) for each in samples], dtype=np.intp)
        joined[name] = take_rows(frame, rows)
        if has_index(frame):
            joined[name] = joined[name].set_axis(samples, axis=0)
    return joined, np.fromiter(samples, dtype=object, count=len(samples))


def common_index(blocks: Mapping[str, Any]) -> Any:
    """Return the index (n,) that all data frames share, None if no frame has one."""
    indexes = {
        name: block.index for name, block in blocks.items() if is_frame(block) and has_index(block)
    }
    first = next(iter(indexes), None)
    if first is None:
        return None
    for name, index in indexes.items():
        if not index.equals(indexes[first]):
            raise ValueError(
                f"the data frames of views {first!r} and {name!r} have different indexes; join "
                "them with MultiView.from_frames, or reset the index if the rows correspond"
            )
    index = indexes[first]
    # dates as objects, which are equal to those in the index of y
    return index.to_numpy(dtype=object if index.dtype.kind in "Mm" else None)


def side_by_side(views: "MultiView") -> Any:
    """Return views as one data frame of pandas with MultiIndex columns."""
    import pandas as pd

    parts = {}
    for name in views.names:
        block = views.given(name)
        labels = views.columns[name] or range(block.shape[1])
        if is_frame(block):
            columns = {j: cells(block, j) for j in range(block.shape[1])}
            part = block.copy() if has_index(block) else pd.DataFrame(columns)
        elif issparse(block):
            part = pd.DataFrame.sparse.from_spmatrix(  # type: ignore[attr-defined]
                _with_missing_rows(block, ~views.present(name))
            )
        else:
            part = pd.DataFrame(block)
        parts[name] = part.set_axis(pd.RangeIndex(len(views)), axis=0).set_axis(labels, axis=1)
    made = pd.concat(parts, axis=1)
    return made if views.index is None else made.set_axis(list(views.index), axis=0)


def _with_missing_rows(block: Any, absent: Bools) -> Any:
    """Return a sparse matrix with NaN in all cells of some rows."""
    rows = np.flatnonzero(absent)
    gaps = csr_array(np.full((len(rows), block.shape[1]), np.nan))
    places = csr_array((np.ones(len(rows)), (rows, np.arange(len(rows)))), (len(absent), len(rows)))
    return csr_array(block) + places @ gaps


def _with_identifiers(name: str, frame: Any, on: str | None) -> tuple[Any, list[Any]]:
    """Return a frame without its column of identifiers, and these."""
    if not is_frame(frame):
        remedy = f"; {annotated_message(frame)}" if is_annotated(frame) else ""
        raise ValueError(f"view {name!r} is not a data frame{remedy}")
    if on is not None:
        labels = list(frame.columns)
        if on not in labels:
            raise ValueError(
                f"view {name!r} has no column {on!r} to join on; it has {quoted(map(str, labels))}"
            )
        identifiers, place = cells(frame, labels.index(on)).tolist(), f"the column {on!r}"
        frame = frame.drop(columns=on) if has_index(frame) else frame.drop(on)
    elif has_index(frame):
        identifiers, place = list(frame.index), "the index"
    else:
        raise ValueError(
            f"view {name!r} is a {type(frame).__name__}, which has no index; name the column of "
            "the identifiers with on="
        )
    unnamed = sum(map(is_missing, identifiers))
    repeated = [each for each, count in Counter(identifiers).items() if count > 1]
    problem = f"{unnamed} sample identifiers are missing in {place}" if unnamed else ""
    if repeated and not unnamed:
        problem = (
            f"{len(repeated)} sample identifiers occur more than once in {place}, such as "
            f"{repeated[0]!r}"
        )
    if problem:
        raise ValueError(f"view {name!r}: {problem}; keep one row per sample, with its identifier")
    return frame, identifiers


def _alike(samples: list[Any]) -> list[list[Any]]:
    """Return identifiers that differ in type, case, spaces or the form of a number only."""
    groups: dict[Any, list[Any]] = {}
    for each in samples:
        key: Any = str(each).strip().casefold()
        with suppress(ValueError):
            key = float(key)
        groups.setdefault(key, []).append(each)
    return [group for group in groups.values() if len(group) > 1]


def _positions(index: Array, identifiers: Any) -> Indices:
    """Return where identifiers, one or several, or a mask of the samples, are in an index (n,)."""
    if isinstance(identifiers, slice):
        raise TypeError("samples are selected by a list of identifiers; slice X by position")
    scalar = np.ndim(identifiers) == 0 or isinstance(identifiers, tuple)
    wanted = [identifiers] if scalar else list(identifiers)
    if len(wanted) == len(index) and all(isinstance(each, bool | np.bool_) for each in wanted):
        return np.flatnonzero(wanted)
    position = {each: row for row, each in enumerate(index.tolist())}
    if len(position) < len(index):
        raise ValueError(
            f"{len(index) - len(position)} of {len(index)} identifiers of the samples are repeated"
        )
    unknown = [each for each in wanted if each not in position]
    if unknown:
        raise KeyError(f"{len(unknown)} of {len(wanted)} samples are not there: {quoted(unknown)}")
    return np.array([position[each] for each in wanted], dtype=np.intp)


def blocks_of(X: Any, layers: Mapping[str, str] | str | None) -> tuple[Any, Bools, Any]:
    """Return blocks by view, the mask (n_samples, n_views) and names of columns by view."""
    if not is_annotated(X):
        raise ValueError(f"a MuData or AnnData is needed, got {type(X).__name__}")
    if getattr(X, "axis", 0) != 0:
        raise ValueError(f"the modalities must share samples (axis=0), got axis={X.axis}")
    modalities = dict(X.mod) if hasattr(X, "mod") else {"X": X}
    if isinstance(layers, Mapping) and not set(layers) <= set(modalities):
        raise ValueError(f"layers= names {quoted(layers)}; the views are {quoted(modalities)}")
    blocks, masks, columns = {}, [], {}
    for name, modality in modalities.items():
        if not (X.obs_names.is_unique and modality.obs_names.is_unique):
            raise ValueError(f"view {name!r}: obs_names must be unique; see obs_names_make_unique")
        rows = modality.obs_names.get_indexer(X.obs_names)
        blocks[name] = take(as_block(name, _matrix_of(name, modality, layers)), rows)
        masks.append((rows >= 0) & ~rows_without_values(blocks[name]))
        columns[name] = modality.var_names
    return blocks, np.column_stack(masks), columns


def _matrix_of(name: str, modality: Any, layers: Mapping[str, str] | str | None) -> Any:
    layer = layers.get(name) if isinstance(layers, Mapping) else layers
    if getattr(modality, "isbacked", False):
        modality = modality.to_memory()
    if layer is not None and layer not in modality.layers:
        raise ValueError(
            f"view {name!r} has no layer {layer!r}; its layers are {quoted(modality.layers)}"
        )
    matrix = modality.X if layer is None else modality.layers[layer]
    if matrix is None:
        raise ValueError(f"view {name!r} has no matrix X; name one of its layers with layers=")
    return matrix


def labels_of(X: Any, label: str) -> Any:
    """Return a column of the annotation of the samples."""
    if label not in X.obs:
        raise ValueError(f"there is no column {label!r} in obs; it has {quoted(map(str, X.obs))}")
    return X.obs[label]


def as_mudata(views: "MultiView") -> Any:
    """Return views as a MuData, each with the samples that have it."""
    try:
        from anndata import AnnData
        from mudata import MuData
    except ImportError as error:
        raise ImportError(
            'to_mudata needs the package mudata: pip install "kernelquilt[omics]"'
        ) from error
    identifiers = np.arange(len(views)) if views.index is None else views.index
    samples = np.array([str(each) for each in identifiers], dtype=object)
    if len(set(samples)) < len(samples):
        raise ValueError("the samples of a MuData need different names; give them as index=")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # mudata announces its own changes
        modalities = {}
        for name in views.names:
            present, columns = views.present(name), views.columns[name]
            modalities[name] = AnnData(views[name][present])
            modalities[name].obs_names = samples[present]
            if columns is not None:
                modalities[name].var_names = list(columns)
        return MuData(modalities)


def sorted_identifiers(identifiers: Iterable[Any]) -> list[Any]:
    """Return different names of samples in ascending order.

    Names that cannot be compared are sorted by type first: numbers, then the others by the name of
    their type.
    """
    unique = list(dict.fromkeys(identifiers))
    try:
        return sorted(unique)
    except TypeError:
        return sorted(unique, key=_identifier_key)


def _identifier_key(identifier: Any) -> tuple[Any, ...]:
    if is_number(identifier):
        return "", float(identifier)
    if isinstance(identifier, str):
        return "str", identifier
    return type(identifier).__name__, repr(identifier)
