"""Tables in files: csv, tsv and parquet, one with all columns or one for each view."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np

from kernelquilt._messages import quoted, remedy
from kernelquilt._typing import Array, Bools
from kernelquilt.data.blocks import is_missing, texts_in
from kernelquilt.data.stack import KernelStack
from kernelquilt.data.views import MultiView

LABELS = "y"  # where labels are looked for if nothing else is said
SEPARATORS = {".csv": ",", ".tsv": "\t"}
TABLES = (*SEPARATORS, ".parquet")
ViewPatterns = Mapping[str, Sequence[str]]

_PREFIX = re.compile(r"(.+?)(?:__|:|\.).+")
_WHOLE_NUMBER = re.compile(r"0|-?[1-9]\d{0,17}")
_EXTRAS = {"pandas": "frames", "mudata": "omics", "anndata": "omics"}  # the others are in files


class ReadingError(ValueError):
    """What is wrong with a data file, and what to do about it, in one line."""


@dataclass(frozen=True)
class Content:
    """What a file holds.

    `samples` are n, `labels` (n,) belong to them and mean nothing where `unlabelled` (n,).
    """

    samples: MultiView | KernelStack
    labels: Array | None = None
    unlabelled: Bools | None = None
    notes: tuple[str, ...] = ()
    from_table: bool = False

    def labelled(self, name: str) -> tuple[MultiView | KernelStack, Array]:
        """Return the samples that have a label, and their labels; `name` is for the messages."""
        if self.labels is None or self.unlabelled is None:
            raise ReadingError(f"{name} has no labels; name their column with label=")
        n_samples, kept = len(self.samples), ~self.unlabelled
        if self.labels.shape != (n_samples,):
            raise ReadingError(
                f"{name} has labels of shape {self.labels.shape} for {n_samples} samples; give one "
                "label per sample"
            )
        if not kept.any():
            raise ReadingError(f"{name} has no sample with a label; name another label=")
        return (self.samples if kept.all() else self.samples[kept]), self.labels[kept]


@dataclass(frozen=True)
class _Table:
    """A frame with strings as names of its columns; `index` is the one that it was written with."""

    path: Path
    frame: Any
    index: str | None

    def column(self, name: str) -> Any:
        if name not in self.frame:
            raise ReadingError(unknown(self.path, "column", name, list(self.frame)))
        return self.frame[name]

    def identifiers(self, name: str) -> list[str | None]:
        """Return a column as it is written: 007 is not 7."""
        values = self.column(name)
        separator = SEPARATORS.get(self.path.suffix.lower())
        if separator is not None:
            import pandas as pd

            # R writes names of rows without a name of their column
            unnamed = self.index == name and not name.startswith("Unnamed:")
            place: dict[str, Any] = {"header": None, "skiprows": 1} if unnamed else {}
            values = pd.read_csv(
                self.path,
                sep=separator,
                usecols=[0 if unnamed else name],
                dtype=str,
                keep_default_na=False,
                na_values=[""],
                **place,
            ).iloc[:, 0]
        return list(texts_in(values.to_numpy(dtype=object)))

    def without(self, *names: str | None) -> Any:
        """Return the features: neither some columns nor those that name or number the rows."""
        names = (*names, self.index)
        return self.frame.drop(columns=[name for name in names if name in self.frame])


def read_table(
    path: Path, label: str | None, views: ViewPatterns | None, index: str | None
) -> Content:
    """Read one table with the columns of all views."""
    table = _load(path)
    frame = table.frame
    index = table.index if index is None else index
    for column in (label, index):
        if column is not None:
            table.column(column)
    label = LABELS if label is None and LABELS in frame else label
    features = table.without(label, index)
    if features.empty:
        raise ReadingError(
            f"{path.name!r} has {len(frame)} samples and {features.shape[1]} columns of features; "
            f"a {path.suffix.lower()} file has a row of names, then a row per sample"
        )
    kept = list(features)
    columns = group_columns(kept, views)
    samples = None if index is None else _numbers_if_all([table.identifiers(index)])[0]
    with explained(path):
        made = MultiView(
            {name: features.iloc[:, positions] for name, positions in columns.items()},
            index=None if samples is None else np.fromiter(samples, dtype=object),
        )
    notes = left_out(kept, columns) + _note_of_names(features, columns)
    if label is None:
        return Content(made, notes=notes)
    unlabelled = frame[label].isna().to_numpy()
    return Content(made, frame[label].to_numpy(), unlabelled, notes, from_table=True)


def join_tables(paths: Mapping[str, Path], label: str | None, index: str | None) -> Content:
    """Read one table for each view, and join them by the identifiers of the samples.

    Parameters
    ----------
    paths : dict of str to Path
        By name of the view. A table with labels only is no view.
    label, index : str or None
        As in `kernelquilt.read_views`.

    Returns
    -------
    content : Content
    """
    tables = {name: _load(path) for name, path in paths.items()}
    key = _common_column(tables.values()) if index is None else index
    named = _numbers_if_all([table.identifiers(key) for table in tables.values()])
    home = _home_of_labels(tables, label, key)
    label = LABELS if label is None else label
    frames = {}
    for (name, table), samples in zip(tables.items(), named, strict=True):
        features = table.without(key, label if name == home else None)
        if features.shape[1]:
            frames[name] = features.set_axis(samples, axis=0)
        elif name != home:
            raise ReadingError(f"{table.path.name!r} has no column but {key!r}")
    if not frames:
        raise ReadingError(f"there are labels in {tables[home or ''].path.name!r}, but no views")
    try:
        views = MultiView.from_frames(frames)
    except ValueError as error:
        raise ReadingError(f"{first_line(error)} (they are joined on {key!r})") from error
    if home is None:
        return Content(views)
    return _labelled(views, tables[home], dict(zip(tables, named, strict=True))[home], label)


def _labelled(views: MultiView, table: _Table, samples: list[Any], label: str) -> Content:
    """Return views with the labels of a table, which may hold more or fewer samples."""
    labels = table.frame[label]
    rows = {each: row for row, each in enumerate(samples) if not is_missing(each)}
    if len(rows) < len(samples):
        raise ReadingError(
            f"{table.path.name!r}: {len(samples) - len(rows)} of {len(samples)} identifiers are "
            "missing or repeated; keep one row per sample, with its identifier"
        )
    taken = np.array([rows.get(each, -1) for each in views.index], dtype=np.intp)
    lost = len(rows) - np.count_nonzero(taken >= 0)
    notes = (f"{lost} of {len(rows)} labelled samples left out: in no view",) if lost else ()
    unlabelled = (taken < 0) | labels.isna().to_numpy()[taken]
    return Content(views, labels.to_numpy()[taken], unlabelled, notes, from_table=True)


def _load(path: Path) -> _Table:
    suffix = path.suffix.lower()
    with explained(path):
        import pandas as pd

        twice: list[str] = []
        if suffix == ".parquet":
            frame = pd.read_parquet(path)
        else:
            separator = SEPARATORS[suffix]
            header = pd.read_csv(path, sep=separator, header=None, nrows=1, dtype=str).iloc[0]
            twice = list(header[header.duplicated() & header.notna()])
            frame = pd.read_csv(path, sep=separator, low_memory=False)
        index = None
        # names of rows that are numbers are a range from pandas 3 on
        named = suffix != ".parquet" and not frame.index.equals(pd.RangeIndex(len(frame)))
        if named or not isinstance(frame.index, pd.RangeIndex):
            index = str(frame.index.name or "index")
            frame = frame.reset_index(names=index)
        frame.columns = pd.Index([str(name) for name in frame.columns])
    names = list(frame.columns)
    if twice:
        raise ReadingError(f"{path.name!r} has columns of the same name: {some(twice)}")
    if names and names[0].startswith("Unnamed:"):
        index = names[0]  # an index without a name, or row numbers, that a data frame left behind
    if len(names) == 1 and {";", "\t"} & set(names[0]):
        raise ReadingError(
            f"{path.name!r} is one column, {names[0]!r}; separate by commas in .csv, tabs in .tsv"
        )
    return _Table(path, frame, index)


def _common_column(tables: Iterable[_Table]) -> str:
    """Return the column that names the samples of all tables."""
    tables = list(tables)
    firsts = {table.index or next(iter(table.frame), "") for table in tables}
    shared = [name for name in tables[0].frame if all(name in table.frame for table in tables)]
    if len(firsts) > 1 and len(shared) != 1:
        names = ", ".join(table.path.name for table in tables)
        common = f"the columns {some(shared)}" if shared else "no column"
        raise ReadingError(
            f"{names} have {common} in common; name the column of the identifiers of the samples "
            "with index="
        )
    key = firsts.pop() if len(firsts) == 1 else shared[0]
    if key.startswith("Unnamed:") and all(
        np.array_equal(table.frame[key], np.arange(len(table.frame))) for table in tables
    ):
        raise ReadingError(
            f"the first column of {tables[0].path.name!r} numbers the rows; name the column of the "
            "identifiers of the samples with index="
        )
    return key


def _home_of_labels(tables: Mapping[str, _Table], label: str | None, key: str) -> str | None:
    wanted = LABELS if label is None else label
    homes = [name for name, table in tables.items() if wanted in table.frame and wanted != key]
    if len(homes) == 1:
        return homes[0]
    if label is None:
        return None
    if homes:
        raise ReadingError(f"the column {label!r} is in {quoted(homes)}; keep it in one of them")
    columns = [name for table in tables.values() for name in table.frame if name != key]
    meant = remedy(label, columns, f"they have {some(columns)}")
    raise ReadingError(f"none of the files has a column {label!r}; {meant}")


def _numbers_if_all(named: Sequence[Sequence[str | None]]) -> list[list[Any]]:
    """Return identifiers as numbers if those of all tables are, so that they sort as such."""
    given = [each for identifiers in named for each in identifiers if each is not None]
    if not all(map(_WHOLE_NUMBER.fullmatch, given)):
        return [list(identifiers) for identifiers in named]
    return [[None if each is None else int(each) for each in ids] for ids in named]


def group_columns(names: Sequence[str], views: ViewPatterns | None) -> dict[str, list[int]]:
    """Return the positions of the columns of each view.

    Parameters
    ----------
    names : sequence of str of length n_columns
    views : dict of str to list of str or None
        As in `kernelquilt.read_views`.

    Returns
    -------
    columns : dict of str to list of int
    """
    if views is not None:
        return {
            view: list(
                dict.fromkeys(
                    p
                    for pattern in ([patterns] if isinstance(patterns, str) else patterns)
                    for p in _match(view, pattern, names)
                )
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
        meant = remedy(pattern, names, f"it has {some(names)}")
        raise ReadingError(f"view {view!r}: no column fits {pattern!r}; {meant}")
    return found


def _note_of_names(features: Any, columns: Mapping[str, list[int]]) -> tuple[str, ...]:
    """Return a note if the first column seems to name or to number the samples."""
    first = features.iloc[:, 0]
    if not any(0 in positions for positions in columns.values()) or len(first) < 2:
        return ()
    # types of texts and of numbers with gaps are pandas' own
    values = first.to_numpy()
    numbered = values.dtype.kind in "iu" and (np.diff(values) == 1).all()
    if not (numbered or (values.dtype.kind == "O" and first.is_unique)):
        return ()
    return (
        f"column {first.name!r} is a feature, but differs in every row; if it names the samples, "
        f"say index={first.name!r}",
    )


def left_out(names: Sequence[str], columns: Mapping[str, list[int]]) -> tuple[str, ...]:
    """Return a note about the columns that are in no view, if there are any."""
    used = set().union(*columns.values())
    rest = [name for position, name in enumerate(names) if position not in used]
    if not rest:
        return ()
    return (f"{len(rest)} of {len(names)} columns left out, in no view: {some(rest)}",)


def unknown(path: Path, kind: str, name: str, names: Sequence[str]) -> str:
    """Return the message about a column or an array that a file does not have."""
    meant = remedy(name, names, f"it has {some(names)}")
    return f"{path.name!r} has no {kind} {name!r}; {meant}"


def some(names: Sequence[str]) -> str:
    """Return the first of some names for a message."""
    return quoted(names[:6]) + (f" and {len(names) - 6} more" if names[6:] else "")


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn whatever the libraries raise on a damaged file into a line that names the file."""
    try:
        yield
    except ReadingError:
        raise
    except ImportError as error:
        needed = error.name or "pyarrow"
        extra = _EXTRAS.get(needed, "files")
        raise ImportError(
            f"reading {path.name!r} needs {needed}: pip install {needed}, or "
            f'"kernelquilt[{extra}]"',
            name=needed,
        ) from error
    except Exception as error:
        utf8 = "; save it as UTF-8" if isinstance(error, UnicodeDecodeError) else ""
        raise ReadingError(f"cannot read {path.name!r}: {first_line(error)}{utf8}") from error


def first_line(error: Exception) -> str:
    """Return the first line of the text of an error, its type if there is none."""
    return next(iter(str(error).splitlines()), "") or type(error).__name__
