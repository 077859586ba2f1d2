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
- ``sites``: the key of the sites that samples come from, for studies that leave one out;
- ``published``: true if the file has ``train_idx`` and ``test_idx``, the split to use.
"""

import hashlib
import io
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from kernelquilt._typing import Array, Indices
from kernelquilt.data.stack import KernelStack
from kernelquilt.data.views import MultiView
from kernelquilt.experiments.errors import UserError
from kernelquilt.experiments.study.protocol import DataSet, ProtocolError


class DataMissingError(UserError):
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
    digest : str
        Of the file that they come from, if there is one.
    sites : ndarray of shape (n,) or None
        Where samples come from.
    """

    data: Any
    y: Array
    published: tuple[Indices, Indices] | None = None
    digest: str = ""
    sites: Array | None = None


class Archive(dict[str, Any]):
    """The arrays of a data file by name, and a digest of the file."""

    digest: str = ""


class Load(Protocol):
    """Where the data sets of a study come from."""

    def __call__(self, dataset: DataSet) -> Source:
        """Return the samples of a data set, or raise `DataMissingError`."""

    def archive(self, dataset: DataSet) -> Archive:
        """Return the arrays of a data set as they are, or raise `DataMissingError`."""


@dataclass(frozen=True)
class UserSource:
    """The user's own data, whatever the data set."""

    views: MultiView
    y: Array

    def __call__(self, dataset: DataSet) -> Source:
        """Return the data."""
        return Source(self.views, self.y)

    def archive(self, dataset: DataSet) -> Archive:
        """Refuse: there are views, not arrays of kernels."""
        raise ProtocolError("completion needs kernels of a data directory")


_UNREADABLE = (ValueError, OSError, EOFError, zipfile.BadZipFile, zlib.error)


@dataclass(frozen=True)
class DataDirectory:
    """A directory of ``.npz`` files; one that does not change is read once."""

    path: Path
    _archives: dict[tuple[str, int, int], Archive] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def __call__(self, dataset: DataSet) -> Source:
        """Read a data set.

        Raises
        ------
        DataMissingError
            If the file is not there or cannot be read.
        """
        try:
            return _source(self.archive(dataset), dataset.options)
        except KeyError as error:
            raise DataMissingError(
                f"{dataset.name}: {dataset.filename} has no entry {error}"
            ) from error
        except (IndexError, TypeError, ValueError) as error:
            raise DataMissingError(
                f"{dataset.name}: {dataset.filename} is not what the protocol expects: {error}"
            ) from error

    def archive(self, dataset: DataSet) -> Archive:
        """Return the arrays of the file of a data set; raises as a call does."""
        path = Path(self.path) / dataset.filename
        if not path.is_file():
            raise DataMissingError(
                f"{dataset.name}: skipped, the data directory has no {path.name}"
            )
        state = path.stat()
        key = path.name, state.st_mtime_ns, state.st_size
        if key not in self._archives:
            try:
                self._archives[key] = _read(path)
            except (*_UNREADABLE, NotImplementedError) as error:
                raise DataMissingError(
                    f"{dataset.name}: {path.name} cannot be read: {error}"
                ) from error
        return self._archives[key]


def _read(path: Path) -> Archive:
    content = path.read_bytes()
    with np.load(io.BytesIO(content), allow_pickle=False) as stored:
        if not hasattr(stored, "files"):
            raise ValueError("it is one array, not an archive of arrays")
        archive = Archive(stored)
    archive.digest = hashlib.sha256(content).hexdigest()
    return archive


def _source(stored: Archive, options: Mapping[str, Any]) -> Source:
    y = np.asarray(stored[options.get("labels", "y")])
    kept = _kept_rows(stored, y, options)
    published = None
    if options.get("published"):
        train, test = (_positions(stored[key], kept) for key in ("train_idx", "test_idx"))
        published = train, test
    if "K" in stored:
        kernels = KernelStack(np.asarray(stored["K"], float))
        if len(kernels) != len(y):
            raise ValueError(f"its kernels have {len(kernels)} rows for {len(y)} labels")
        kernels = kernels[kept]
        return Source(kernels, y[kept], published, stored.digest)
    blocks = _blocks(stored, options)
    roots = options.get("roots", [])
    for name in blocks if roots is True else roots:
        blocks[name] = np.sqrt(blocks[name])
    for name, block in blocks.items():
        if len(block) != len(y):
            raise ValueError(f"view {name!r} has {len(block)} rows for {len(y)} labels")
    views = {name: blocks[name][kept] for name in options.get("views", blocks)}
    observed = np.column_stack([~np.isnan(block).all(axis=1) for block in views.values()])
    sites = np.asarray(stored[options["sites"]])[kept] if "sites" in options else None
    return Source(MultiView(views, observed), y[kept], published, stored.digest, sites)


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
