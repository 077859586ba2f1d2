"""Views and labels from files.

========================  ==========================================================================
``.csv .tsv .parquet``    a row per sample, a column per feature; one table with all views, or
                          several, one for each view, joined on the identifiers of the samples
``.npz``                  ``X`` with ``feature_names``; or ``view_0``, ``view_1``, ... with
                          ``view_names`` and ``feature_names_0``, ...; or kernels ``K`` (M, n, n)
                          with ``kernel_names``; labels ``y``, names of the samples ``sample_ids``
``.h5mu``                 MuData: a modality is a view, labels are a column of ``obs``
``.mat``                  MATLAB: kernels (n, n, M), a cell array of them, or a variable for each
========================  ==========================================================================

A view is absent for a sample if all its cells are empty (NaN), or if its table or modality lacks
the sample.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

from kernelquilt._messages import warn_user
from kernelquilt.data.files.formats import READERS, Reader
from kernelquilt.data.files.tables import (
    LABELS,
    TABLES,
    Content,
    ReadingError,
    ViewPatterns,
    join_tables,
    some,
)

Source = str | PathLike[str] | Sequence[str | PathLike[str]] | Mapping[str, str | PathLike[str]]


def read_views(
    source: Source,
    *,
    label: str | None = None,
    views: ViewPatterns | None = None,
    index: str | None = None,
) -> Any:
    r"""Read views from a folder, from several files or from one.

    Parameters
    ----------
    source : path, list of paths, or dict of str to path
        A folder with one table (``.csv``, ``.tsv``, ``.parquet``) for each view, a list of such
        tables, or a dict of them by name of the view; otherwise the name of a file is that of its
        view. They may hold different samples and are joined on the identifiers of these. Or one
        file: a table with the columns of all views, ``.npz``, ``.h5mu`` or ``.mat``.
    label : str or None, default=None
        The column, in one of the tables, or the array that holds the labels. Samples without a
        label are left out with a warning. A table that holds labels only is no view.
    views : dict of str to list of str or None, default=None
        Which columns of a single table form a view: names, patterns such as ``"rna_*"``, or ranges
        ``"first:last"``, which include the last. Other columns are left out. By default the text
        before the first ``__``, ``:`` or ``.`` is the view of a column, if most columns have one of
        these, and the others are left out; otherwise all columns form one view, ``X``. In a
        ``.mat`` file: the variables that hold kernels.
    index : str or None, default=None
        The column of a table that holds the identifiers of the samples. By default the first
        column of several tables, if it has the same name in all, or the only one that all have.

    Returns
    -------
    views : MultiView or KernelStack of shape (n_samples, n_views)
        The views of tables are data frames with all columns as they are, text and missing cells
        included; several tables give their samples sorted by identifier. A KernelStack if the file
        holds kernels.
    y : Series of shape (n_samples,)
        Only with `label`; its index is ``views.index``.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ImportError
        If a package is needed to read the file; the message names it.
    ValueError
        If the file does not hold what it should.

    Notes
    -----
    A column or array ``y`` is not taken as a feature. Nothing in a file is executed: archives with
    pickled objects are refused.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import kernelquilt as kq
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "rna.csv").write_text("id,g1,g2\np1,0.1,0.7\np3,0.4,\n")
    >>> _ = (folder / "clinic.csv").write_text("id,sex,ill\np1,f,no\np2,m,yes\np3,f,yes\n")
    >>> X, y = kq.read_views(folder, label="ill")
    >>> X.names, X.observed.tolist()
    (('clinic', 'rna'), [[True, True], [True, False], [True, True]])
    >>> y.to_dict()
    {'p1': 'no', 'p2': 'yes', 'p3': 'yes'}
    """
    content = read_content(source, label=label, views=views, index=index)
    if views is None:
        for note in content.notes:
            warn_user(note)
    if label is None:
        if content.from_table and content.labels is not None:
            warn_user(f"column {LABELS!r} left out: taken for labels; say label={LABELS!r}")
        return content.samples
    samples, y = content.labelled(name_of(source))
    n_lost = len(content.samples) - len(samples)
    if n_lost:
        warn_user(f"{n_lost} of {len(content.samples)} samples left out: no label {label!r}")
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError(
            'labels are a Series of pandas: pip install pandas, or "kernelquilt[frames]"'
        ) from error
    return samples, pd.Series(y, index=getattr(samples, "index", None), name=label)


def read_content(
    source: Source, *, label: str | None, views: ViewPatterns | None, index: str | None
) -> Content:
    """Read files as `read_views` does, and return labels also where they are not asked for."""
    found = _files(source)
    if isinstance(found, Path):
        content = _reader_of(found)(found, label, views, index)
    else:
        if views is not None:
            raise ReadingError(f"{name_of(source)} has its views already; leave views= out")
        for path in found.values():
            _reader_of(path)
            if path.suffix.lower() not in TABLES:
                raise ReadingError(
                    f"only tables ({', '.join(TABLES)}) are joined; read {path.name!r} on its own"
                )
        content = join_tables(found, label, index)
    content = replace(content, notes=content.notes + _unread(source))
    if not len(content.samples):
        raise ReadingError(f"{name_of(source)} has no samples")
    return content


def _unread(source: Source) -> tuple[str, ...]:
    """Return a note about the files of a folder that are not read, if there are any."""
    folder = Path(source) if isinstance(source, str | PathLike) else None
    if folder is None or not folder.is_dir():
        return ()
    others = [
        path.name
        for path in sorted(folder.iterdir())
        if path.is_file()
        and path.suffix.lower() not in READERS
        and not path.name.upper().startswith((".", "README", "LICENSE"))
    ]
    return (f"files not read: {some(others)}",) if others else ()


def name_of(source: Source) -> str:
    """Return how a message calls a source."""
    if isinstance(source, str | PathLike):
        return repr(Path(source).name)
    return "the list of files"


def _files(source: Source) -> Path | dict[str, Path]:
    """Return the tables of views by name, or one file."""
    if isinstance(source, Mapping):
        found = {str(name): Path(path) for name, path in source.items()}
    elif not isinstance(source, str | PathLike):
        found = _by_stem([Path(path) for path in source])
    elif Path(source).is_dir():
        paths = sorted(
            path
            for path in Path(source).iterdir()
            if path.suffix.lower() in READERS and not path.name.startswith(".")
        )
        if len(paths) == 1 and paths[0].suffix.lower() not in TABLES:
            return paths[0]
        found = _by_stem(paths)
    else:
        return Path(source)
    if not found:
        raise ReadingError(f"no files to read; their names must end in {', '.join(READERS)}")
    return found


def _by_stem(paths: Sequence[Path]) -> dict[str, Path]:
    found = {path.stem: path for path in paths}
    if len(found) < len(paths):
        names = [path.name for path in paths if found[path.stem] != path]
        raise ReadingError(
            f"several files would be the same view: {some(names)}; name views with a dict of paths"
        )
    return found


def _reader_of(path: Path) -> Reader:
    if not path.exists():
        raise FileNotFoundError(f"there is no file {str(path)!r}")
    reader = READERS.get(path.suffix.lower())
    if reader is None or not path.is_file():
        raise ReadingError(
            f"cannot tell what {path.name!r} is; its name must end in {', '.join(READERS)}"
        )
    if path.stat().st_size == 0:
        raise ReadingError(f"{path.name!r} is empty")
    return reader
