"""MuData and AnnData: to views and back."""

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from kernelquilt._messages import quoted
from kernelquilt._typing import Bools
from kernelquilt.data.blocks import as_block, rows_without_values, take
from kernelquilt.data.frames import is_annotated

if TYPE_CHECKING:
    from kernelquilt.data.views import MultiView


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
