"""Users' data files: NumPy archives, tables and MuData.

========================  ==========================================================================
``.npz``                  ``X``, or ``view_0``, ``view_1``, ... with ``view_names``; labels ``y``;
                          names of the columns of ``X`` in ``feature_names``
``.csv .tsv .parquet``    a row per sample, a column per feature, a column of labels
``.h5mu``                 MuData: a modality is a view, labels are a column of ``obs``
========================  ==========================================================================

A view is absent for a sample if all its cells are empty (NaN), or if its modality lacks the sample.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kernelquilt._typing import Array
from kernelquilt.data.views import MultiView
from kernelquilt.experiments.own_data.formats import (
    READERS,
    DataFileError,
    RawData,
    ViewPatterns,
    first_line,
)

__all__ = ["DataFileError", "UserData", "ViewPatterns", "read_data"]


@dataclass(frozen=True)
class UserData:
    """The content of a data file.

    Attributes
    ----------
    name : str
        Name of the file, without its suffix.
    views : MultiView of shape (n_samples, n_views)
        A view may have NaN in some of its cells.
    y : ndarray of shape (n_samples,) or None
        Labels, as integers or text.
    notes : tuple of str
        What was done to the data that a reader should know.
    """

    name: str
    views: MultiView
    y: Array | None = None
    notes: tuple[str, ...] = ()

    def labels(self) -> Array:
        """Return the labels (n_samples,), or raise `DataFileError` if there are none."""
        if self.y is None:
            raise DataFileError(f"{self.name} has no labels; name their column with --label")
        return self.y


def read_data(
    path: str | Path,
    *,
    label: str | None = None,
    views: ViewPatterns | None = None,
    index: str | None = None,
) -> UserData:
    """Read a data file.

    Parameters
    ----------
    path : path-like
        Its suffix says what it is, see the head of this module.
    label : str or None, default=None
        The column (or array) of the labels; by default ``y``, if there is one. Samples without a
        label are left out.
    views : dict of str to list of str or None, default=None
        Which columns of a table form a view: names, patterns such as ``"rna_*"``, or ranges
        ``"first:last"``, which include the last. Other columns are left out. By default the text
        before the first ``__``, ``:`` or ``.`` is the view of a column, if most columns have one of
        these, and the others are left out; otherwise all columns form one view, ``X``.
    index : str or None, default=None
        The column of a table that holds the names of the samples.

    Returns
    -------
    data : UserData

    Raises
    ------
    DataFileError
        If the file cannot be read or does not hold what it should.
    """
    path = Path(path)
    reader = READERS.get(path.suffix.lower())
    if path.is_dir():
        raise DataFileError(f"{str(path)!r} is a directory; name a file in it")
    if not path.is_file():
        raise DataFileError(f"there is no file {str(path)!r}")
    if reader is None:
        raise DataFileError(
            f"cannot tell what {path.name!r} is; its name must end in {', '.join(READERS)}"
        )
    if path.stat().st_size == 0:
        raise DataFileError(f"{path.name!r} is empty")
    raw = reader(path, label, views, index)
    try:
        found = MultiView(raw.blocks, index=raw.index)
    except ValueError as error:
        raise DataFileError(f"{path.name!r}: {first_line(error)}") from error
    if not len(found):
        raise DataFileError(f"{path.name!r} has no samples")
    return _with_labels(path, found, raw)


def _with_labels(path: Path, views: MultiView, raw: RawData) -> UserData:
    if raw.labels is None or raw.unlabelled is None:
        return UserData(path.stem, views, None, raw.notes)
    if raw.labels.shape != (len(views),):
        raise DataFileError(
            f"{path.name!r} has labels of shape {raw.labels.shape} for {len(views)} samples; "
            "give one label per sample"
        )
    notes, kept = raw.notes, ~raw.unlabelled
    if not kept.any():
        raise DataFileError(f"{path.name!r} has no sample with a label; name another --label")
    if not kept.all():
        views = views[kept]
        notes += (f"{np.count_nonzero(~kept)} of {len(kept)} samples left out: no label",)
    y = _as_classes(path, raw.labels[kept])
    if len(np.unique(y)) < 2:
        raise DataFileError(f"{path.name!r} has only the class {str(y[0])!r}; two are needed")
    return UserData(path.stem, views, y, notes)


def _as_classes(path: Path, labels: Array) -> Array:
    if labels.dtype.kind in "iu":
        return labels
    if labels.dtype.kind != "f":
        return labels.astype(str)
    if not np.all(np.isfinite(labels) & (labels == np.round(labels))):
        raise DataFileError(
            f"the labels of {path.name!r} are numbers such as {labels[0]:g}, not classes; "
            "cut them into classes, or name another --label"
        )
    return labels.astype(np.int64)
