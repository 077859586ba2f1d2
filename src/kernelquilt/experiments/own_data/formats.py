"""The formats of data files: from a path to blocks of views and raw labels."""

import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from kernelquilt._messages import quoted
from kernelquilt._typing import Array, Bools, Floats
from kernelquilt.experiments.errors import UserError, remedy

LABELS = "y"  # where labels are looked for if nothing else is said
_PREFIX = re.compile(r"(.+?)(?:__|:|\.).+")
ViewPatterns = Mapping[str, Sequence[str]]


class DataFileError(UserError):
    """What is wrong with a data file, and what to do about it, in one line."""


@dataclass(frozen=True)
class RawData:
    """Blocks (n_samples, n_columns) by view, labels (n_samples,), and where these are missing."""

    blocks: Mapping[str, Any]
    labels: Array | None
    unlabelled: Bools | None
    index: Any = None
    notes: tuple[str, ...] = ()


def _read_npz(
    path: Path, label: str | None, views: ViewPatterns | None, index: str | None
) -> RawData:
    _refuse(path, index=index)
    with _explained(path), np.load(path, allow_pickle=False) as stored:
        keys = list(stored.files)
        wanted = {"X", "feature_names", "view_names", label or LABELS}
        arrays = {
            key: stored[key] for key in keys if key in wanted or re.fullmatch(r"view_\d+", key)
        }
    if "X" in arrays:
        X = arrays["X"]
        if X.ndim != 2 or X.dtype.kind not in "fiub":
            raise DataFileError(
                f"X of {path.name!r} must be a table of numbers, not {X.dtype} of shape {X.shape}"
            )
        names = [str(name) for name in arrays.get("feature_names", range(X.shape[1]))]
        if len(names) != X.shape[1]:
            raise DataFileError(
                f"{path.name!r} has {len(names)} feature_names for {X.shape[1]} columns of X"
            )
        columns = group_columns(names, views)
        notes = _left_out(names, columns)
        blocks = {name: X[:, positions] for name, positions in columns.items()}
    elif "view_0" in arrays:
        _refuse(path, views=views)
        blocks = _numbered_views(path, arrays)
        notes = ()
    else:
        raise DataFileError(
            f"{path.name!r} has neither X nor view_0 but {quoted(keys) or 'nothing'}; save it as "
            "np.savez(file, X=X, y=y) or with view_0, view_1, ..., view_names"
        )
    if label is not None and label not in arrays:
        raise DataFileError(_unknown(path, "array", label, keys))
    labels = arrays.get(label or LABELS)
    if labels is None:
        return RawData(blocks, None, None, notes=notes)
    labels = labels.reshape(-1) if labels.shape[1:] == (1,) else labels
    missing = np.isnan(labels) if labels.dtype.kind == "f" else np.zeros(labels.shape, bool)
    return RawData(blocks, labels, missing, notes=notes)


def _numbered_views(path: Path, arrays: Mapping[str, Array]) -> dict[str, Array]:
    count = sum(re.fullmatch(r"view_\d+", key) is not None for key in arrays)
    gaps = [key for key in map("view_{}".format, range(count)) if key not in arrays]
    names = [str(name) for name in arrays.get("view_names", map("view_{}".format, range(count)))]
    if gaps:
        raise DataFileError(f"{path.name!r} has {count} views but no {gaps[0]}; number them from 0")
    if len(set(names)) != count or len(names) != count:
        raise DataFileError(
            f"{path.name!r} has {count} views, but view_names are {quoted(names)}; give one "
            "different name to each"
        )
    return {name: arrays[f"view_{number}"] for number, name in enumerate(names)}


def _read_table(
    path: Path, label: str | None, views: ViewPatterns | None, index: str | None
) -> RawData:
    suffix = path.suffix.lower()
    with _explained(path):
        import pandas as pd

        if suffix == ".parquet":
            frame = pd.read_parquet(path)
        else:
            separator = "\t" if suffix == ".tsv" else ","
            header = pd.read_csv(path, sep=separator, header=None, nrows=1, dtype=str).iloc[0]
            twice = header[header.duplicated() & header.notna()]
            frame = pd.read_csv(path, sep=separator, low_memory=False)
    if suffix != ".parquet" and len(twice):
        raise DataFileError(f"{path.name!r} has columns of the same name: {_some(list(twice))}")
    names = [str(name) for name in frame.columns]
    frame.columns = names
    if index is None and names[0].startswith("Unnamed:"):
        index = names[0]  # row numbers that a data frame left behind
    if len(names) == 1 and {";", "\t"} & set(names[0]):
        raise DataFileError(
            f"{path.name!r} is one column, {names[0]!r}; separate by commas in .csv, tabs in .tsv"
        )
    for column in (label, index):
        if column is not None and column not in frame:
            raise DataFileError(_unknown(path, "column", column, names))
    label = LABELS if label is None and LABELS in frame else label
    features = frame.drop(columns=[column for column in (label, index) if column is not None])
    if features.empty:
        raise DataFileError(
            f"{path.name!r} has {len(frame)} samples and {features.shape[1]} columns of features; "
            f"a {suffix} file has a row of names, then a row per sample"
        )
    kept = [name for name in names if name not in (label, index)]
    columns = group_columns(kept, views)
    used = sorted(set().union(*columns.values()))
    numbers = np.full(features.shape, np.nan)
    numbers[:, used] = _numeric(path, features.iloc[:, used], label)
    blocks = {name: numbers[:, positions] for name, positions in columns.items()}
    samples = None if index is None else frame[index].to_numpy()
    notes = _left_out(kept, columns)
    if label is None:
        return RawData(blocks, None, None, samples, notes)
    return RawData(blocks, frame[label].to_numpy(), frame[label].isna().to_numpy(), samples, notes)


def _numeric(path: Path, frame: Any, label: str | None) -> Floats:
    text = [name for name, kind in frame.dtypes.items() if getattr(kind, "kind", "O") not in "fiub"]
    if text:
        first = frame[text[0]].dropna()
        example = [value for value in first if not _is_number(value)][:1]
        remedy = "encode them one-hot, or leave them out by naming the others with --view"
        if first.is_unique and len(first) > 1:
            remedy = f"if {text[0]!r} names the samples, say --index {text[0]!r}"
        elif label is None:
            remedy = f"if {text[0]!r} is the label, say --label {text[0]!r}; otherwise {remedy}"
        raise DataFileError(
            f"{path.name!r} has columns that are not numeric: {_some(text)}"
            + (f" (such as {str(example[0])!r})" if example else " (empty)")
            + f"; {remedy}"
        )
    numbers: Floats = frame.to_numpy(dtype=np.float64, na_value=np.nan)
    return numbers


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


def _read_mudata(
    path: Path, label: str | None, views: ViewPatterns | None, index: str | None
) -> RawData:
    _refuse(path, views=views, index=index)
    with _explained(path), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # mudata announces its own changes
        stored = import_module("mudata").read_h5mu(path)
    samples = stored.obs_names
    if not samples.is_unique:
        raise DataFileError(f"{path.name!r} names some samples twice; make obs_names unique")
    blocks = {}
    for name, modality in stored.mod.items():
        block = np.full((len(samples), modality.n_vars), np.nan)
        X = modality.X
        block[samples.get_indexer(modality.obs_names)] = X.toarray() if hasattr(X, "toarray") else X
        blocks[name] = block
    if label is not None and label not in stored.obs:
        raise DataFileError(_unknown(path, "column", label, list(stored.obs)))
    label = LABELS if label is None and LABELS in stored.obs else label
    if label is None:
        return RawData(blocks, None, None, samples.to_numpy())
    labels = stored.obs[label]
    return RawData(blocks, labels.to_numpy(), labels.isna().to_numpy(), samples.to_numpy())


def group_columns(names: Sequence[str], views: ViewPatterns | None) -> dict[str, list[int]]:
    """Return the positions of the columns of each view.

    Parameters
    ----------
    names : sequence of str of length n_columns
    views : dict of str to list of str or None
        As in `kernelquilt.experiments.own_data.files.read_data`.

    Returns
    -------
    columns : dict of str to list of int
    """
    if views is not None:
        return {
            view: list(
                dict.fromkeys(p for pattern in patterns for p in _match(view, pattern, names))
            )
            for view, patterns in views.items()
        }
    grouped: dict[str, list[int]] = {}
    for position, name in enumerate(names):
        prefix = _PREFIX.fullmatch(name)
        if prefix is not None:
            grouped.setdefault(prefix[1], []).append(position)
    if 2 * sum(map(len, grouped.values())) <= len(names):
        return {"X": list(range(len(names)))}
    return grouped


def _match(view: str, pattern: str, names: Sequence[str]) -> list[int]:
    if pattern in names:
        return [names.index(pattern)]
    first, _, last = pattern.partition(":")
    if first in names and last in names:
        return list(range(names.index(first), names.index(last) + 1))
    found = [p for p, name in enumerate(names) if fnmatchcase(name, pattern)]
    if not found:
        meant = remedy(pattern, names, f"it has {_some(names)}")
        raise DataFileError(f"view {view!r}: no column fits {pattern!r}; {meant}")
    return found


def _left_out(names: Sequence[str], columns: Mapping[str, list[int]]) -> tuple[str, ...]:
    used = set().union(*columns.values())
    rest = [name for position, name in enumerate(names) if position not in used]
    if not rest:
        return ()
    return (f"{len(rest)} of {len(names)} columns left out, in no view: {_some(rest)}",)


def _unknown(path: Path, kind: str, name: str, names: Sequence[str]) -> str:
    meant = remedy(name, names, f"it has {_some(names)}")
    return f"{path.name!r} has no {kind} {name!r}; {meant}"


def _some(names: Sequence[str]) -> str:
    return quoted(names[:6]) + (f" and {len(names) - 6} more" if names[6:] else "")


def _refuse(path: Path, **given: Any) -> None:
    for name, value in given.items():
        if value is not None:
            option = {"views": "--view", "index": "--index"}[name]
            what = {"views": "has its views already", "index": "has no columns to name samples by"}
            raise DataFileError(f"{path.name!r} {what[name]}; leave {option} out")


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Turn whatever the libraries raise on a damaged file into a line that names the file."""
    try:
        yield
    except ImportError as error:
        needed = error.name or "pyarrow"
        raise DataFileError(
            f"reading {path.suffix} files needs {needed}: pip install {needed}"
        ) from error
    except Exception as error:
        raise DataFileError(f"cannot read {path.name!r}: {first_line(error)}") from error


def first_line(error: Exception) -> str:
    """Return the first line of the text of an error, its type if there is none."""
    return next(iter(str(error).splitlines()), "") or type(error).__name__


READERS: dict[str, Callable[[Path, str | None, ViewPatterns | None, str | None], RawData]] = {
    ".npz": _read_npz,
    ".csv": _read_table,
    ".tsv": _read_table,
    ".parquet": _read_table,
    ".h5mu": _read_mudata,
}
