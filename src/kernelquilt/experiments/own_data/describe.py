"""What a data set with absent views looks like, and what to try on it."""

from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import random_table

from kernelquilt._messages import quoted
from kernelquilt._typing import Array, Bools, Floats
from kernelquilt.data.lazy.views import LazyViews
from kernelquilt.data.views import MultiView
from kernelquilt.experiments.own_data.files import UserData
from kernelquilt.inspection.pattern_scores import patterns_of

FEW_IN_CLASS = 5
RARE_VIEW = 0.05  # share of the samples
IMBALANCE = 3.0  # largest class by smallest
SIGNIFICANT = 0.05
N_TABLES = 4999  # random tables of the association test
WORDS = {"classification": "class", "regression": "target", "survival": "event"}
QUILTS = {
    "classification": "QuiltClassifier",
    "regression": "QuiltRegressor",
    "survival": "QuiltSurvival",
}


@dataclass(frozen=True)
class ViewSummary:
    """One view: how many features, samples that have it, and empty cells among these."""

    name: str
    n_features: int
    n_present: int
    absent: float
    n_missing_cells: int


@dataclass(frozen=True)
class Pattern:
    """The samples that have exactly the views `present`."""

    present: tuple[str, ...]
    count: int


@dataclass(frozen=True)
class Association:
    """Whether the classes differ in which views they have.

    `p_value` is that of a permutation test of independence between patterns of absence and classes;
    `cramers_v` is the strength, between 0 and 1. Numbers are cut into thirds, times are classes by
    whether there was an event.
    """

    p_value: float
    cramers_v: float

    @property
    def found(self) -> bool:
        """Whether the test speaks against independence."""
        return self.p_value < SIGNIFICANT


@dataclass(frozen=True)
class Suggestion:
    """Something to try, in code, and why."""

    method: str
    reason: str


@dataclass(frozen=True)
class Description:
    """A data set in numbers and words.

    Attributes
    ----------
    name : str
    n_samples, n_complete : int
        All samples, and those that have every view.
    views : tuple of ViewSummary
    patterns : tuple of Pattern
        The most frequent first.
    task : {"classification", "regression", "survival"}
    classes : dict of str to int or None
        Samples of each class, None without labels or if these are no classes.
    targets : dict of str to float or None
        Of numbers their least, mean and largest; of times the number of events and the largest.
    association : Association or None
        None without labels or without absent views.
    hints : tuple of str
        What the pattern of absence suggests about how it came about.
    suggestions : tuple of Suggestion
    warnings, notes : tuple of str
    """

    name: str
    n_samples: int
    n_complete: int
    views: tuple[ViewSummary, ...]
    patterns: tuple[Pattern, ...]
    task: str
    classes: dict[str, int] | None
    targets: dict[str, float] | None
    association: Association | None
    hints: tuple[str, ...]
    suggestions: tuple[Suggestion, ...]
    warnings: tuple[str, ...]
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the description as a mapping of plain values."""
        return asdict(self)


def describe(data: UserData) -> Description:
    """Describe a data set.

    Parameters
    ----------
    data : UserData

    Returns
    -------
    description : Description
    """
    observed = data.views.observed
    facts = _facts_of(data.views)
    views = tuple(
        _summary(name, present, each)
        for name, present, each in zip(data.views.names, observed.T, facts, strict=True)
    )
    classes = None
    if data.y is not None and data.task == "classification":
        names, counts = np.unique(data.y, return_counts=True)
        classes = {str(name): int(count) for name, count in zip(names, counts, strict=True)}
    association = None
    if data.y is not None and not observed.all():
        association = _association(observed, _groups(data.y, data.task))
    return Description(
        name=data.name,
        n_samples=len(data.views),
        n_complete=int(observed.all(axis=1).sum()),
        views=views,
        patterns=_patterns(data.views),
        task=data.task,
        classes=classes,
        targets=_targets(data),
        association=association,
        hints=_hints(association, observed, data.task),
        suggestions=_suggestions(views, data, classes, association),
        warnings=_warnings(observed, views, facts, classes),
        notes=data.notes,
    )


def _targets(data: UserData) -> dict[str, float] | None:
    y = data.y
    if y is None or data.task == "classification":
        return None
    if data.task == "regression":
        return {"least": float(y.min()), "mean": float(y.mean()), "largest": float(y.max())}
    return {"events": float(y["event"].sum()), "largest time": float(y["time"].max())}


def _groups(y: Array, task: str) -> Array:
    """Return classes for the test of independence."""
    if task == "regression":
        return np.searchsorted(np.quantile(y, [1 / 3, 2 / 3]), y)
    return np.asarray(y["event"]) if task == "survival" else y


class _Facts(NamedTuple):
    """What the samples that have a view tell: empty cells, and the range of each column."""

    n_missing_cells: int
    low: Floats
    high: Floats


def _facts_of(views: MultiView) -> list[_Facts]:
    """Return the facts of each view, from one pass over samples that are not in memory."""
    if not isinstance(views, LazyViews):
        return _facts(views)
    found: list[_Facts] = views.chunks.fold(_facts, combine=_together)
    return found


def _facts(views: MultiView) -> list[_Facts]:
    found = []
    for name in views.names:
        block = views[name][views.present(name)]
        known = ~np.isnan(block)
        low = np.where(known, block, np.inf).min(axis=0, initial=np.inf)
        high = np.where(known, block, -np.inf).max(axis=0, initial=-np.inf)
        found.append(_Facts(int(np.count_nonzero(~known)), low, high))
    return found


def _together(left: list[_Facts], right: list[_Facts]) -> list[_Facts]:
    return [
        _Facts(
            a.n_missing_cells + b.n_missing_cells, np.minimum(a[1], b[1]), np.maximum(a[2], b[2])
        )
        for a, b in zip(left, right, strict=True)
    ]


def _summary(name: str, present: Bools, facts: _Facts) -> ViewSummary:
    return ViewSummary(
        name=name,
        n_features=len(facts.low),
        n_present=int(present.sum()),
        absent=float(1 - present.mean()),
        n_missing_cells=facts.n_missing_cells,
    )


def _patterns(data: MultiView) -> tuple[Pattern, ...]:
    patterns, counts, _ = patterns_of(data.observed)
    return tuple(
        Pattern(tuple(name for name, has in zip(data.names, row, strict=True) if has), int(count))
        for row, count in zip(patterns, counts, strict=True)
    )


def _association(observed: Bools, y: Array) -> Association | None:
    """Test independence of patterns and classes with random tables of the same margins.

    The chi-square distribution would not do: patterns that few samples have are the rule.
    """
    patterns = np.unique(observed, axis=0, return_inverse=True)[1].reshape(-1)
    labels = np.unique(y, return_inverse=True)[1]
    table = np.zeros((patterns.max() + 1, labels.max() + 1))
    np.add.at(table, (patterns, labels), 1)
    if min(table.shape) == 1:  # one pattern, or all events seen
        return None
    rows, columns = table.sum(axis=1), table.sum(axis=0)
    expected = np.outer(rows, columns) / len(y)

    def chi_square(tables: Array) -> Any:
        return ((tables - expected) ** 2 / expected).sum(axis=(-2, -1))

    found = chi_square(table)
    drawn = chi_square(random_table(rows, columns, seed=0).rvs(N_TABLES))
    # a table equal to ours may differ in the last digits
    as_large = np.count_nonzero(drawn >= found * (1 - 1e-9))
    return Association(
        p_value=float((1 + as_large) / (1 + N_TABLES)),
        cramers_v=float(np.sqrt(found / (len(y) * (min(table.shape) - 1)))),
    )


def _hints(association: Association | None, observed: Bools, task: str) -> tuple[str, ...]:
    if observed.all():
        return ("no view is absent",)
    if association is None:
        return ()
    what = WORDS[task]
    strength = f"p = {association.p_value:.2g}, Cramér's V = {association.cramers_v:.2f}"
    if association.found:
        return (
            f"which views a sample has depends on its {what} ({strength}): absence tells something "
            f"about the {what} here, by its cause or by how the data were gathered; use that only "
            "if it will be so for new samples",
        )
    return (
        f"no sign that which views a sample has depends on its {what} ({strength}); this does not "
        "rule out that it depends on the values that are absent",
    )


def _suggestions(
    views: tuple[ViewSummary, ...],
    data: UserData,
    classes: dict[str, int] | None,
    association: Association | None,
) -> tuple[Suggestion, ...]:
    n_samples = len(data.views)
    classify = data.task == "classification"
    quilt = QUILTS[data.task]
    complete = [view.name for view in views if view.n_present == n_samples]
    cells = [view.name for view in views if view.n_missing_cells]
    sizes = list((classes or {"": 1}).values())
    possible = [
        (True, f"{quilt}()", "the default: tunes itself, fills what is absent"),
        (classify, "LateFusionClassifier()", "a model per view: fast, hard to break"),
        (
            len(complete) >= 2 and data.task != "survival",
            "ObservedFractionMKLClassifier()" if classify else "ObservedFractionMKLRegressor()",
            f"{len(complete)} views are never absent ({quoted(complete)}): a plain sum of kernels "
            "may do as well",
        ),
        (
            max(sizes) >= IMBALANCE * min(sizes),
            'class_weight="balanced"',
            "classes differ in size; compare balanced accuracy",
        ),
        (
            association is not None and association.found,
            f"{quilt}(pattern=True)",
            f"learns from which views a sample has, if absence will depend on the "
            f"{WORDS[data.task]} in new samples too",
        ),
        (
            bool(cells),
            "make_pipeline(ViewTransformer(SimpleImputer()), ...)",
            f"single cells are missing in {quoted(cells)}",
        ),
    ]
    return tuple(Suggestion(method, reason) for holds, method, reason in possible if holds)


def _warnings(
    observed: Bools,
    views: tuple[ViewSummary, ...],
    facts: list[_Facts],
    classes: dict[str, int] | None,
) -> tuple[str, ...]:
    found = []
    if len(views) == 1:
        found.append("there is one view only: name views with --view if the columns form several")
    empty = int((~observed.any(axis=1)).sum())
    if empty:
        found.append(f"{empty} samples have no view at all: nothing can be predicted for them")
    rare = [view.name for view in views if view.n_present < RARE_VIEW * len(observed)]
    if rare:
        found.append(f"views that fewer than {RARE_VIEW:.0%} of the samples have: {quoted(rare)}")
    small = [name for name, count in (classes or {}).items() if count < FEW_IN_CLASS]
    if small:
        found.append(
            f"classes with fewer than {FEW_IN_CLASS} samples: {quoted(small)}; join or drop them"
        )
    for view, each in zip(views, facts, strict=True):
        constant = int(np.count_nonzero(each.low >= each.high))
        if constant and view.n_present:
            found.append(
                f"view {view.name!r}: {constant} of {view.n_features} columns are constant"
            )
    return tuple(found)
