"""A study of methods on the user's own data."""

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np

from kernelquilt._messages import remedy
from kernelquilt.data.lazy.views import LazyViews
from kernelquilt.experiments.methods import METHODS_OF
from kernelquilt.experiments.own_data.describe import FEW_IN_CLASS
from kernelquilt.experiments.own_data.files import DataFileError, UserData
from kernelquilt.experiments.reporting.words import figure_of
from kernelquilt.experiments.study.measures import LOWER_IS_BETTER, METRICS
from kernelquilt.experiments.study.protocol import DataSet, ProtocolError, Study

PROTOCOL = "compare"
DEFAULT_METHODS = {
    "classification": (
        "quilt",
        "late fusion",
        "observed fraction",
        "zero SVC",
        "kNN SVC",
        "HGB",
        "complete only",
        "majority",
    ),
    "regression": ("quilt", "observed fraction", "kNN SVR", "HGB", "forest", "ridge", "mean"),
    "survival": ("quilt", "HGB", "forest", "ridge", "no model"),
}
TRAIN_SHARE = 0.6
LARGEST_FOLDS = 5
SAMPLE = 3000  # of data that are not in memory
FEW = 10  # samples, or events, below which nothing can be compared


def comparison_study(
    data: UserData,
    *,
    methods: Sequence[str] | None = None,
    ratios: Sequence[float] = (),
    mechanism: str = "mcar",
    repetitions: int = 10,
    metric: str | None = None,
) -> Study:
    """Return the study that compares methods on a data set.

    Parameters
    ----------
    data : UserData
        With labels.
    methods : sequence of str or None, default=None
        Names in `kernelquilt.experiments.methods.METHODS_OF` the task; by default those that are
        worth a try.
    ratios : sequence of float, default=()
        Shares of the views that are made absent, in addition to those that are; by default the
        data are taken as they are.
    mechanism : str, default="mcar"
        How views are made absent, see `make_absent`.
    repetitions : int, default=10
        Random splits into training and test samples.
    metric : str or None, default=None
        One of `METRICS` of the task, the first by default; parameters are tuned by it too.

    Returns
    -------
    study : Study
        Its name has a digest of the data, so that equal names of files do not mix.

    Raises
    ------
    DataFileError
        If the data have no labels, or too few samples of a class.
    ProtocolError
        If there is no such method, or no such metric for the task.
    """
    smallest = _smallest_part(data)
    known = METHODS_OF[data.task]
    metric = METRICS[data.task][0] if metric is None else metric
    check_name(metric, METRICS[data.task], f"metric of {data.task}")
    notes = list(data.notes)
    chosen = list(dict.fromkeys(DEFAULT_METHODS[data.task] if methods is None else methods))
    for name in chosen:
        check_name(name, known, f"method of {data.task}")
    notes.append(
        f"{TRAIN_SHARE:.0%} of the samples train, the others test; parameters are tuned by the "
        f"{figure_of(metric).words} in cross-validation within the training samples"
    )
    if ratios:
        notes.append(f"Views are made absent by the mechanism {mechanism!r}")
    return Study(
        protocol=PROTOCOL,
        name="-".join([data.name, *([mechanism] if ratios else []), _digest(data)]),
        title=f"{data.name}: {len(data.views)} samples, {data.views.shape[1]} views",
        datasets=[DataSet(data.name, about=_about(data))],
        methods=chosen,
        diagnostics=[name for name in chosen if known[name].leaky],
        task=data.task,
        axis="ratio" if ratios else "none",
        settings=list(dict.fromkeys(ratios)) or ["as is"],
        repetitions=repetitions,
        problem={
            "kernels": "standard_gaussian",
            "own_kernels": "median_gaussian",
            "train": TRAIN_SHARE,
            "mask": {"mechanism": mechanism},
            "scale": "mean_diagonal",
            "seeds": [_digest(data)],  # the name of the file changes nothing
            "tuned_by": metric,
        },
        grid={"C": [0.1, 1.0, 10.0, 100.0]},
        folds=min(LARGEST_FOLDS, int(TRAIN_SHARE * smallest)),
        metric=metric,
        higher_is_better=metric not in LOWER_IS_BETTER,
        scale=1.0 if metric in LOWER_IS_BETTER else 100.0,
        extra=["train_seconds", "search_seconds", "test_seconds"],
        pooled=not ratios,
        notes=notes,
    )


def comparable(data: UserData, *, seed: int) -> UserData:
    """Return data to compare methods on: all, or a sample of what is not in memory.

    Parameters
    ----------
    data : UserData
    seed : int
        Of the choice of samples.

    Returns
    -------
    data : UserData
        In memory, with a note about the choice.
    """
    if not isinstance(data.views, LazyViews):
        return data
    n = len(data.views)
    if n <= SAMPLE:
        return replace(data, views=data.views.compute().numeric())
    rows = np.sort(np.random.default_rng(seed).choice(n, SAMPLE, replace=False))
    note = f"{SAMPLE} of {n} samples, drawn at random, are compared on: the file is large"
    return replace(
        data,
        views=data.views[rows].numeric(),
        y=data.labels()[rows],
        notes=(*data.notes, note),
    )


def _about(data: UserData) -> list[str]:
    """Return what the samples are, in lines of a report."""
    observed = data.views.observed
    n_samples, n_views = observed.shape
    absent = 1 - observed.mean(axis=0)
    views = [
        f"{name} ({data.views[name].shape[1]} columns, {share:.0%} absent)"
        for name, share in zip(data.views.names, absent, strict=True)
    ]
    n_patterns = len(np.unique(observed, axis=0))
    return [
        f"{n_samples} samples, {observed.all(axis=1).sum()} of them with all {n_views} views; "
        f"{n_patterns} patterns of absence",
        _about_targets(data),
        "Views: " + ", ".join(views),
    ]


def _about_targets(data: UserData) -> str:
    y = data.labels()
    if data.task == "regression":
        return f"Targets: {y.min():g} to {y.max():g}, mean {y.mean():g}"
    if data.task == "survival":
        seen = int(y["event"].sum())
        return f"Events: {seen} of {len(y)} seen, times up to {y['time'].max():g}"
    classes, counts = np.unique(y, return_counts=True)
    return "Classes: " + ", ".join(f"{c} ({n})" for c, n in zip(classes, counts, strict=True))


def check_name(name: str, known: Collection[str], kind: str) -> None:
    """Raise `ProtocolError` with the nearest names if `name` is not a known one.

    Parameters
    ----------
    name : str
    known : collection of str
    kind : str
        What it names, such as ``"method"``.
    """
    if name not in known:
        meant = remedy(name, known, f"there are {', '.join(known)}", cutoff=0.5)
        raise ProtocolError(f"there is no {kind} {name!r}; {meant}")


def _smallest_part(data: UserData) -> int:
    """Return how many samples the smallest class has, or how many there are, or events."""
    y = data.labels()
    if data.task != "classification":
        count = len(y) if data.task == "regression" else int(y["event"].sum())
        if count < FEW:
            what = "samples" if data.task == "regression" else "events"
            raise DataFileError(f"{data.name} has {count} {what}, fewer than {FEW}")
        return count
    names, counts = np.unique(y, return_counts=True)
    smallest = int(counts.min())
    if smallest < FEW_IN_CLASS:
        hint = "; if labels are numbers to be predicted, say --task regression"
        raise DataFileError(
            f"class {str(names[counts.argmin()])!r} of {data.name} has {smallest} samples, fewer "
            f"than {FEW_IN_CLASS}; join it with another class or leave its samples out"
            + (hint if y.dtype.kind in "iu" else "")
        )
    return smallest


def _digest(data: UserData) -> str:
    found = hashlib.sha256()
    for name in data.views.names:
        block = data.views[name]
        found.update(f"{name}{block.shape}".encode())
        found.update(block.tobytes())
    found.update("\n".join(map(str, data.labels())).encode())
    return found.hexdigest()[:8]
