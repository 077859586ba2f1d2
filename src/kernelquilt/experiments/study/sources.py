"""Where the data of an experiment come from: the data directory, or the user's own views.

A data directory holds ``<name>.npz`` files with ``y`` and

- ``X (n, d)``: features, one view unless the options say otherwise, or
- ``view_0 (n, d_0)``, ``view_1``, ... and ``view_names``: views; a sample whose row is all NaN
  lacks the view, or
- ``K (M, n, n)``: kernels.

`DataSet.options` may have

- ``labels``: the key of the labels, ``"y"`` if not given;
- ``rows``: the key of the numbers of the rows to keep;
- ``classes``: the classes to keep; ``first_classes``, ``largest_classes``: how many;
- ``groups``: into how many contiguous groups of columns ``X`` is split, each a view;
  ``"columns"`` for one view per column, constant columns left out;
- ``roots``: the views whose square root is taken, ``true`` for all: counts and histograms;
- ``views``: the views to keep;
- ``published``: true if the file has ``train_idx`` and ``test_idx``, the split to use.
"""

import hashlib
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kernelquilt._typing import Array, Indices
from kernelquilt.data.stack import KernelStack
from kernelquilt.data.views import MultiView
from kernelquilt.experiments.study.protocol import DataSet


class DataMissingError(Exception):
    """A line that says which data are not there."""


@dataclass(frozen=True)
class Source:
    """Data as they are before anything is made absent.

    Attributes
    ----------
    data : MultiView or KernelStack of n samples
    y : ndarray of shape (n,)
    published : (train, test) or None
        Row numbers of the split that was published with the data.
    """

    data: Any
    y: Array
    published: tuple[Indices, Indices] | None = None


@dataclass(frozen=True)
class UserSource:
    """The user's own data, whatever the data set."""

    views: MultiView
    y: Array

    def __call__(self, dataset: DataSet) -> Source:
        """Return the data."""
        return Source(self.views, self.y)


@dataclass(frozen=True)
class DataDirectory:
    """A directory of ``.npz`` files."""

    path: Path

    def __call__(self, dataset: DataSet) -> Source:
        """Read a data set.

        Raises
        ------
        DataMissingError
            If the file is not there or cannot be read.
        """
        with self.open(dataset) as stored:
            try:
                return _read(stored, dataset.options)
            except KeyError as error:
                raise DataMissingError(
                    f"{dataset.name}: {dataset.filename} has no entry {error}"
                ) from error

    def fingerprint(self, dataset: DataSet) -> str:
        """Return a digest of the file of a data set, nothing if it has none."""
        path = Path(self.path) / dataset.filename
        if not path.is_file():
            return ""
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def open(self, dataset: DataSet) -> Any:
        """Return the open archive of a data set."""
        path = Path(self.path) / dataset.filename
        if not path.is_file():
            raise DataMissingError(
                f"{dataset.name}: skipped, the data directory has no {path.name}"
            )
        try:
            return np.load(path, allow_pickle=False)
        except (ValueError, OSError, zipfile.BadZipFile) as error:
            raise DataMissingError(
                f"{dataset.name}: {path.name} cannot be read: {error}"
            ) from error


def _read(stored: Mapping[str, Any], options: Mapping[str, Any]) -> Source:
    y = np.asarray(stored[options.get("labels", "y")])
    kept = _kept_rows(stored, y, options)
    published = None
    if options.get("published"):
        train, test = (_positions(stored[key], kept) for key in ("train_idx", "test_idx"))
        published = train, test
    if "K" in stored:
        return Source(KernelStack(np.asarray(stored["K"], float))[kept], y[kept], published)
    blocks = _blocks(stored, options)
    roots = options.get("roots", [])
    for name in blocks if roots is True else roots:
        blocks[name] = np.sqrt(blocks[name])
    views = {name: blocks[name][kept] for name in options.get("views", blocks)}
    observed = np.column_stack([~np.isnan(block).all(axis=1) for block in views.values()])
    return Source(MultiView(views, observed), y[kept], published)


def _kept_rows(stored: Mapping[str, Any], y: Array, options: Mapping[str, Any]) -> Indices:
    rows = np.asarray(stored[options["rows"]]) if "rows" in options else np.arange(len(y))
    labels, counts = np.unique(y[rows], return_counts=True)
    if "classes" in options:
        labels = np.asarray(options["classes"])
    elif "first_classes" in options:
        labels = labels[: options["first_classes"]]
    elif "largest_classes" in options:
        labels = labels[np.argsort(-counts, kind="stable")[: options["largest_classes"]]]
    return np.asarray(rows[np.isin(y[rows], labels)])


def _positions(rows: Array, kept: Indices) -> Indices:
    """Return where in `kept` those of the rows are that are there."""
    return np.flatnonzero(np.isin(kept, rows))


def _blocks(stored: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Array]:
    if "X" not in stored:
        return {
            str(name): np.asarray(stored[f"view_{k}"], float)
            for k, name in enumerate(stored["view_names"])
        }
    X = np.asarray(stored["X"], dtype=float)
    groups = options.get("groups", 1)
    if groups == "columns":
        varying = np.flatnonzero(X.min(axis=0) < X.max(axis=0))
        return {f"column_{k}": X[:, [k]] for k in varying}
    columns = np.array_split(np.arange(X.shape[1]), groups)
    return {f"group_{k}": X[:, chosen] for k, chosen in enumerate(columns)}
