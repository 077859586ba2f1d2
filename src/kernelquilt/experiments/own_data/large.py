"""Parquet files that do not fit into memory: read piece by piece."""

from pathlib import Path
from typing import Any

from kernelquilt.core.limits import GIB, memory_limit
from kernelquilt.data.files.tables import (
    LABELS,
    Content,
    ReadingError,
    ViewPatterns,
    explained,
    group_columns,
    left_out,
    unknown,
)
from kernelquilt.data.views import MultiView

COPIES = 3  # of the numbers in a file, while it is read as a whole


def is_large(path: Path) -> bool:
    """Whether a path is a parquet file that would take too much memory."""
    return path.suffix.lower() == ".parquet" and path.is_file() and _size(path) > memory_limit()


def check_joined(path: Path) -> None:
    """Refuse a folder of parquet files that would take too much memory: they are joined there."""
    if path.is_dir():
        size = sum(_size(each) for each in path.glob("*.parquet"))
        if size > memory_limit():
            raise ReadingError(
                f"the tables in {path.name!r} need about {size:.2g} GiB to be joined, above the "
                f"limit of {memory_limit():.2g} GiB; write one parquet file with all views, which "
                "is read piece by piece"
            )


def read_large(
    path: Path,
    label: str | None,
    views: ViewPatterns | None,
    index: str | None,
    *,
    beside: str | None = None,
) -> Content:
    """Return the content of a parquet file with views that are not in memory.

    Parameters
    ----------
    path : Path
    label, views, index
        As in `kernelquilt.read_views`.
    beside : str or None, default=None
        A column that is no feature either.

    Returns
    -------
    content : Content
        With labels in memory.
    """
    stored = _stored(path)
    names = [str(name) for name in stored.schema_arrow.names]
    for column in (label, index):
        if column is not None and column not in names:
            raise ReadingError(unknown(path, "column", column, names))
    label = LABELS if label is None and LABELS in names else label
    written = (stored.schema_arrow.pandas_metadata or {}).get("index_columns", [])
    kept = [name for name in names if name not in (label, index, beside, *map(str, written))]
    columns = group_columns(kept, views)
    with explained(path):
        made = MultiView.stream(
            dict.fromkeys(columns, path),
            columns={view: [kept[p] for p in positions] for view, positions in columns.items()},
        )
    notes = (
        f"the file is read piece by piece: as a whole it would take about {_size(path):.2g} GiB",
        *left_out(kept, columns),
    )
    if label is None:
        return Content(made, notes=notes)
    with explained(path):
        labels = stored.read(columns=[label]).to_pandas()[label]
    return Content(made, labels.to_numpy(), labels.isna().to_numpy(), notes, from_table=True)


def _size(path: Path) -> float:
    """Return the GiB that a parquet file takes while it is read."""
    stored = _stored(path)
    return COPIES * 8 * stored.metadata.num_rows * stored.metadata.num_columns / GIB


def _stored(path: Path) -> Any:
    with explained(path):
        import pyarrow.parquet

        return pyarrow.parquet.ParquetFile(path)
