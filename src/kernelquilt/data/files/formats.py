"""The formats of data files: from a path to views or kernels, and labels.

Nothing in a file is executed: pickled objects are refused.
"""

import re
import warnings
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from kernelquilt._messages import quoted
from kernelquilt._typing import Array
from kernelquilt.data.containers import distinct_names
from kernelquilt.data.files.tables import (
    LABELS,
    TABLES,
    Content,
    ReadingError,
    ViewPatterns,
    explained,
    group_columns,
    left_out,
    read_table,
    some,
    unknown,
)
from kernelquilt.data.stack import KernelStack
from kernelquilt.data.views import MultiView

_VIEW = re.compile(r"view_\d+")
_NAMES = re.compile(r"(feature|view|kernel)_names(_\d+)?|sample_ids")


def _read_npz(
    path: Path, label: str | None, views: ViewPatterns | None, index: str | None
) -> Content:
    _refuse(path, index=index)
    with explained(path), np.load(path, allow_pickle=False) as stored:
        keys = list(stored.files)
        arrays = {
            key: stored[key]
            for key in keys
            if key in ("X", "K", label or LABELS) or _VIEW.fullmatch(key) or _NAMES.fullmatch(key)
        }
    notes: tuple[str, ...] = ()
    with explained(path):
        samples: MultiView | KernelStack
        if "X" in arrays:
            samples, notes = _columns_of(path, arrays, views)
        elif "view_0" in arrays:
            _refuse(path, views=views)
            samples = _numbered_views(path, arrays)
        elif "K" in arrays:
            _refuse(path, views=views)
            names = arrays.get("kernel_names")
            distinct = None if names is None else distinct_names(map(str, names))
            samples = KernelStack(arrays["K"], names=distinct)
        else:
            raise ReadingError(
                f"{path.name!r} has neither X nor view_0 but {quoted(keys) or 'nothing'}; save it "
                "as np.savez(file, X=X, y=y) or with view_0, view_1, ..., view_names; kernels "
                "(M, n, n) as K"
            )
    if label is not None and label not in arrays:
        raise ReadingError(unknown(path, "array", label, keys))
    return _with_labels(samples, arrays.get(label or LABELS), notes)


def _columns_of(
    path: Path, arrays: Mapping[str, Array], views: ViewPatterns | None
) -> tuple[MultiView, tuple[str, ...]]:
    X = arrays["X"]
    if X.ndim != 2 or X.dtype.kind not in "fiub":
        raise ReadingError(
            f"X of {path.name!r} must be a table of numbers, not {X.dtype} of shape {X.shape}"
        )
    names = [str(name) for name in arrays.get("feature_names", range(X.shape[1]))]
    if len(names) != X.shape[1]:
        raise ReadingError(
            f"{path.name!r} has {len(names)} feature_names for {X.shape[1]} columns of X"
        )
    columns = group_columns(names, views)
    made = MultiView(
        {name: X[:, positions] for name, positions in columns.items()},
        index=arrays.get("sample_ids"),
        columns={view: [names[p] for p in positions] for view, positions in columns.items()},
    )
    return made, left_out(names, columns)


def _numbered_views(path: Path, arrays: Mapping[str, Array]) -> MultiView:
    count = sum(_VIEW.fullmatch(key) is not None for key in arrays)
    gaps = [key for key in map("view_{}".format, range(count)) if key not in arrays]
    names = [str(name) for name in arrays.get("view_names", map("view_{}".format, range(count)))]
    if gaps:
        raise ReadingError(f"{path.name!r} has {count} views but no {gaps[0]}; number them from 0")
    if len(set(names)) != count or len(names) != count:
        raise ReadingError(
            f"{path.name!r} has {count} views, but view_names are {quoted(names)}; give one "
            "different name to each"
        )
    named = {name: f"feature_names_{number}" for number, name in enumerate(names)}
    return MultiView(
        {name: arrays[f"view_{number}"] for number, name in enumerate(names)},
        index=arrays.get("sample_ids"),
        columns={name: arrays[key] for name, key in named.items() if key in arrays},
    )


def _with_labels(
    samples: MultiView | KernelStack, labels: Array | None, notes: tuple[str, ...] = ()
) -> Content:
    if labels is None:
        return Content(samples, notes=notes)
    labels = labels.reshape(-1) if labels.shape[1:] == (1,) else labels
    missing = np.isnan(labels) if labels.dtype.kind == "f" else np.zeros(labels.shape, bool)
    return Content(samples, labels, missing, notes)


def _read_mudata(
    path: Path, label: str | None, views: ViewPatterns | None, index: str | None
) -> Content:
    _refuse(path, views=views, index=index)
    with explained(path), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # mudata announces its own changes
        stored = import_module("mudata").read_h5mu(path)
        made = MultiView.from_mudata(stored)
    if label is not None and label not in stored.obs:
        raise ReadingError(unknown(path, "column", label, list(stored.obs)))
    label = LABELS if label is None and LABELS in stored.obs else label
    if label is None:
        return Content(made)
    labels = stored.obs[label]
    return Content(made, labels.to_numpy(), labels.isna().to_numpy())


def _read_matlab(
    path: Path, label: str | None, views: ViewPatterns | None, index: str | None
) -> Content:
    """Read kernels as MATLAB has them: an array (n, n, M), a cell array, or a variable for each."""
    _refuse(path, index=index)
    with explained(path):
        arrays = _matlab_variables(path)
    if label is not None and label not in arrays:
        raise ReadingError(unknown(path, "variable", label, list(arrays)))
    found = [key for key in (label, LABELS, LABELS.upper()) if key in arrays][:1]
    labels = arrays.pop(found[0]) if found else None
    if views is not None:
        names = list(arrays)
        chosen = sorted({p for each in group_columns(names, views).values() for p in each})
        arrays = {names[p]: arrays[names[p]] for p in chosen}
    kernels = _kernels_of(path, arrays)
    with explained(path):
        stack = KernelStack(list(kernels.values()), names=kernels)
    return _with_labels(stack, None if labels is None else np.reshape(labels, -1))


def _matlab_variables(path: Path) -> dict[str, Any]:
    from scipy.io import loadmat

    try:
        stored = loadmat(path)
    except NotImplementedError:  # version 7.3, which is HDF5
        h5py = import_module("h5py")
        with h5py.File(path) as file:
            return {
                key: _from_hdf5(file, item[()])
                for key, item in file.items()
                if isinstance(item, h5py.Dataset)
            }
    return {
        key: [np.asarray(each) for each in value.flat] if value.dtype == object else value
        for key, value in stored.items()
        if isinstance(value, np.ndarray)
    }


def _from_hdf5(file: Any, value: Array) -> Any:
    """Return a variable with its axes in MATLAB's order, the cells of a cell array as a list."""
    if value.dtype == object:
        return [np.asarray(file[each][()]).T for each in value.T.flat]
    return value.T


def _kernels_of(path: Path, arrays: Mapping[str, Any]) -> dict[str, Array]:
    many = {name: kernels for name, value in arrays.items() if (kernels := _as_kernels(value))}
    if len(many) == 1:
        return {f"kernel_{m}": kernel for m, kernel in enumerate(next(iter(many.values())))}
    single = {name: value for name, value in arrays.items() if _is_kernel(value)}
    if many or len({value.shape for value in single.values()}) != 1:
        names = list(many) or list(single)
        remedy = (
            f"kernels of several kinds in {some(names)}; choose with views={{'K': {names[:1]}}}"
            if names
            else f"no kernels, which are (n, n, M), but {some(list(arrays)) or 'nothing'}"
        )
        raise ReadingError(f"{path.name!r} has {remedy}")
    return single


def _as_kernels(value: Any) -> list[Array]:
    """Return the kernels in an array of three axes or a cell array, none if it is neither."""
    if isinstance(value, list):
        alike = all(map(_is_kernel, value)) and len({each.shape for each in value}) == 1
        return value if alike else []
    if value.ndim != 3 or value.dtype.kind not in "fiub":
        return []
    if value.shape[0] == value.shape[1]:
        return list(np.moveaxis(value, 2, 0))
    return list(value) if value.shape[1] == value.shape[2] else []


def _is_kernel(value: Any) -> bool:
    shape: tuple[int, ...] = getattr(value, "shape", ())
    square = len(shape) == 2 and shape[0] == shape[1] > 1
    return bool(square and value.dtype.kind in "fiub")


def _refuse(path: Path, **given: Any) -> None:
    for name, value in given.items():
        if value is not None:
            what = {"views": "has its views already", "index": "has no columns to name samples by"}
            raise ReadingError(f"{path.name!r} {what[name]}; leave {name}= out")


Reader = Callable[[Path, str | None, ViewPatterns | None, str | None], Content]
READERS: dict[str, Reader] = {
    ".npz": _read_npz,
    **dict.fromkeys(TABLES, read_table),
    ".h5mu": _read_mudata,
    ".mat": _read_matlab,
}
