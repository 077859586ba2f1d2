"""Users' data files, as the commands need them: views of numbers, and what is to be predicted."""

import re
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
from scipy.sparse import issparse

from kernelquilt._typing import Array, Bools, Floats
from kernelquilt.data.blocks import is_frame
from kernelquilt.data.files.reading import read_content
from kernelquilt.data.files.tables import Content, ReadingError, ViewPatterns, first_line, some
from kernelquilt.data.lazy.views import LazyViews
from kernelquilt.data.stack import KernelStack
from kernelquilt.data.views import MultiView
from kernelquilt.experiments.errors import UserError
from kernelquilt.experiments.own_data.large import check_joined, is_large, read_large

__all__ = ["DataFileError", "UserData", "ViewPatterns", "read_data"]

FIRST = 1000  # samples of a large file that tell whether its columns are numbers


class DataFileError(UserError):
    """What is wrong with a data file, and what to do about it, in one line."""


@dataclass(frozen=True)
class UserData:
    """The content of a data file.

    Attributes
    ----------
    name : str
        Name of the file, without its suffix, or of the folder.
    views : MultiView of shape (n_samples, n_views)
        A view may have NaN in some of its cells. Not in memory if the file is large.
    y : ndarray of shape (n_samples,) or None
        Labels, as integers or text; numbers; or events and times, a structured array.
    notes : tuple of str
        What was done to the data that a reader should know.
    task : {"classification", "regression", "survival"}
        Which of them.
    """

    name: str
    views: MultiView
    y: Array | None = None
    notes: tuple[str, ...] = ()
    task: str = "classification"

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
    time: str | None = None,
    task: str | None = None,
) -> UserData:
    """Read a data file, or a folder of tables.

    Parameters
    ----------
    path : path-like
    label : str or None, default=None
        The column (or array) of the labels; by default ``y``, if there is one. Samples without a
        label are left out.
    views, index
        As in `kernelquilt.read_views`.
    time : str or None, default=None
        The column of the times of a survival study, whose labels are events.
    task : {"classification", "regression", "survival"} or None, default=None
        What is to be predicted. By default survival with `time`, regression if labels are numbers
        that are not whole, otherwise classification.

    Returns
    -------
    data : UserData

    Raises
    ------
    DataFileError
        If the file cannot be read or does not hold what it should.
    """
    path = Path(path)
    if (time is not None) != (task == "survival") and not (time is not None and task is None):
        raise DataFileError(
            "survival needs the columns of events and of times: --label EVENT --time TIME, and "
            "--time is for nothing else"
        )
    try:
        check_joined(path)
        read = partial(read_large, beside=time) if is_large(path) else read_content
        content = read(path, label=label, views=views, index=index)
        if time is not None:
            content = _with_times(content, read(path, label=time, views=views, index=index), time)
        samples, y, notes = content.samples, None, content.notes
        if isinstance(samples, KernelStack):
            raise ReadingError(f"{path.name!r} holds kernels; a file with the views is needed")
        numbers = _numbers(path, samples, labelled=content.labels is not None)
        if content.labels is not None:
            kept, labels = replace(content, samples=numbers).labelled(repr(path.name))
            task = _task_of(labels) if task is None else task
            y, numbers = TARGETS[task](path, labels), cast(MultiView, kept)
            n_lost = len(samples) - len(numbers)
            if n_lost:
                notes += (f"{n_lost} of {len(samples)} samples left out: no label",)
    except (ReadingError, OSError, ImportError) as error:
        raise DataFileError(_with_options(first_line(error))) from error
    name = path.name if path.is_dir() else path.stem
    return UserData(name, numbers, y, notes, task or "classification")


def _with_times(content: Content, times: Content, column: str) -> Content:
    """Return the content with events and times for labels, and without times among the features."""
    if content.labels is None or times.labels is None:
        raise ReadingError("survival needs a column of events; name it with label=")
    assert content.unlabelled is not None
    assert times.unlabelled is not None
    views = content.samples
    if isinstance(views, MultiView) and not isinstance(views, LazyViews):
        blocks = {name: _without(views.given(name), column) for name in views.names}
        kept = {name: block for name, block in blocks.items() if block.shape[1]}
        present = [_present(block, views, name) for name, block in kept.items()]
        views = MultiView(kept, np.column_stack(present), index=views.index)
    labels = np.empty(len(content.labels), dtype=[("event", object), ("time", object)])
    labels["event"], labels["time"] = content.labels, times.labels
    return replace(
        content, samples=views, labels=labels, unlabelled=content.unlabelled | times.unlabelled
    )


def _without(block: Any, column: str) -> Any:
    return block.drop(columns=[column]) if is_frame(block) and column in block.columns else block


def _present(block: Any, views: MultiView, name: str) -> Bools:
    """Return which samples have a view that may have lost a column."""
    if block is views.given(name):
        return views.present(name)
    return np.asarray(~block.isna().all(axis=1))


def _with_options(message: str) -> str:
    """Name options of the command line instead of parameters."""
    message = re.sub(r"\b(label|view|index)s?=(?=')", r"--\1 ", message)
    return re.sub(r"\b(label|view|index)s?=", r"--\1", message)


def _numbers(path: Path, views: MultiView, *, labelled: bool) -> MultiView:
    if isinstance(views, LazyViews):
        _numbers(path, views[np.arange(min(len(views), FIRST))], labelled=labelled)
        return views.numeric()
    frames = [views.given(name) for name in views.names if is_frame(views.given(name))]
    _refuse_text(path, frames, labelled)
    try:
        blocks = {name: _dense(views, name) for name in views.names}
        return MultiView(blocks, views.observed, index=views.index)
    except ValueError as error:
        raise ReadingError(f"{path.name!r}: {first_line(error)}") from error


def _dense(views: MultiView, name: str) -> Floats:
    block = views[name]
    if issparse(block):
        block = np.where(views.present(name)[:, None], block.toarray(), np.nan)
    return np.asarray(block)


def _refuse_text(path: Path, frames: list[Any], labelled: bool) -> None:
    text = {
        name: frame[name]
        for frame in frames
        for name, kind in frame.dtypes.items()
        if getattr(kind, "kind", "O") not in "fiub"
    }
    if not text:
        return
    name, column = next(iter(text.items()))
    values = column.dropna()
    example = [value for value in values if not _is_number(value)][:1]
    remedy = "encode them one-hot, or leave them out by naming the others with views="
    if values.is_unique and len(values) > 1:
        remedy = f"if {name!r} names the samples, say index={name!r}"
    elif not labelled:
        remedy = f"if {name!r} is the label, say label={name!r}; otherwise {remedy}"
    raise ReadingError(
        f"{path.name!r} has columns that are not numeric: {some(list(text))}"
        + (f" (such as {str(example[0])!r})" if example else " (empty)")
        + f"; {remedy}"
    )


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


def _task_of(labels: Array) -> str:
    if labels.dtype.names is not None:
        return "survival"
    whole = labels.dtype.kind != "f" or bool(
        np.all(np.isfinite(labels) & (labels == np.round(labels)))
    )
    return "classification" if whole else "regression"


def _as_classes(path: Path, labels: Array) -> Array:
    if labels.dtype.kind == "f":
        if not np.all(np.isfinite(labels) & (labels == np.round(labels))):
            raise ReadingError(
                f"the labels of {path.name!r} are numbers such as {labels[0]:g}, not classes; "
                "cut them into classes, say --task regression, or name another label="
            )
        # as text, what no integer can hold stays apart
        labels = labels.astype(np.int64 if np.abs(labels).max() < 2.0**63 else str)
    elif labels.dtype.kind not in "iu":
        labels = labels.astype(str)
    if len(np.unique(labels)) < 2:
        raise ReadingError(f"{path.name!r} has only the class {str(labels[0])!r}; two are needed")
    return labels


def _as_numbers(path: Path, labels: Array) -> Array:
    odd = [value for value in labels if not _is_number(value) or not np.isfinite(float(value))]
    if odd:
        raise ReadingError(
            f"{len(odd)} of {len(labels)} labels of {path.name!r} are no numbers, such as "
            f"{str(odd[0])!r}; name another label=, or say --task classification"
        )
    numbers = labels.astype(np.float64)
    if np.ptp(numbers) == 0:
        raise ReadingError(f"all labels of {path.name!r} are {numbers[0]:g}: nothing to learn")
    return numbers


def _as_survival(path: Path, labels: Array) -> Array:
    from kernelquilt.quilt.survival.targets import survival_targets

    try:
        event, time = survival_targets((_plain(labels["event"]), _plain(labels["time"])))
    except ValueError as error:
        raise ReadingError(f"{path.name!r}: {first_line(error)}") from error
    if not event.any():
        raise ReadingError(f"the times of all {len(event)} samples of {path.name!r} are censored")
    y = np.empty(len(event), dtype=[("event", bool), ("time", float)])
    y["event"], y["time"] = event, time
    return y


def _plain(values: Array) -> Array:
    return np.array(values.tolist())


TARGETS = {"classification": _as_classes, "regression": _as_numbers, "survival": _as_survival}
