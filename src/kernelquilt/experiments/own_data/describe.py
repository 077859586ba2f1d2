"""What a data set with absent views looks like, and what to try on it."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.stats import random_table

from kernelquilt._messages import quoted
from kernelquilt._typing import Array, Bools
from kernelquilt.data.views import MultiView
from kernelquilt.experiments.own_data.files import UserData
from kernelquilt.inspection.pattern_scores import patterns_of

MANY_SAMPLES = 3000  # above this the quilt, of cost n^3, takes minutes
FEW_IN_CLASS = 5
RARE_VIEW = 0.05  # share of the samples
IMBALANCE = 3.0  # largest class by smallest
SIGNIFICANT = 0.05
N_TABLES = 4999  # random tables of the association test


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
    `cramers_v` is the strength, between 0 and 1.
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
    classes : dict of str to int or None
        Samples of each class, None without labels.
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
    classes: dict[str, int] | None
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
    views = tuple(_summary(data.views, name) for name in data.views.names)
    classes = None
    if data.y is not None:
        names, counts = np.unique(data.y, return_counts=True)
        classes = {str(name): int(count) for name, count in zip(names, counts, strict=True)}
    association = None
    if data.y is not None and not observed.all():
        association = _association(observed, data.y)
    return Description(
        name=data.name,
        n_samples=len(data.views),
        n_complete=int(observed.all(axis=1).sum()),
        views=views,
        patterns=_patterns(data.views),
        classes=classes,
        association=association,
        hints=_hints(association, observed),
        suggestions=_suggestions(views, len(data.views), classes, association),
        warnings=_warnings(data.views, views, classes),
        notes=data.notes,
    )


def _summary(data: MultiView, name: str) -> ViewSummary:
    block = data[name]
    present = ~np.isnan(block).all(axis=1)
    return ViewSummary(
        name=name,
        n_features=block.shape[1],
        n_present=int(present.sum()),
        absent=float(1 - present.mean()),
        n_missing_cells=int(np.isnan(block[present]).sum()),
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
    if len(table) == 1:
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


def _hints(association: Association | None, observed: Bools) -> tuple[str, ...]:
    if observed.all():
        return ("no view is absent",)
    if association is None:
        return ()
    strength = f"p = {association.p_value:.2g}, Cramér's V = {association.cramers_v:.2f}"
    if association.found:
        return (
            f"which views a sample has depends on its class ({strength}): absence tells something "
            "about the class here, by its cause or by how the data were gathered; use that only if "
            "it will be so for new samples",
        )
    return (
        f"no sign that which views a sample has depends on its class ({strength}); this does not "
        "rule out that it depends on the values that are absent",
    )


def _suggestions(
    views: tuple[ViewSummary, ...],
    n_samples: int,
    classes: dict[str, int] | None,
    association: Association | None,
) -> tuple[Suggestion, ...]:
    many = n_samples > MANY_SAMPLES
    complete = [view.name for view in views if view.n_present == n_samples]
    cells = [view.name for view in views if view.n_missing_cells]
    sizes = list((classes or {"": 1}).values())
    possible = [
        (many, "LateFusionClassifier()", f"fast; the quilt is slow with {n_samples} samples"),
        (not many, "QuiltClassifier()", "the default: tunes itself, fills what is absent"),
        (not many, "LateFusionClassifier()", "a model per view: fast, hard to break"),
        (
            len(complete) >= 2,
            "ObservedFractionMKLClassifier()",
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
            "QuiltClassifier(pattern=True)",
            "learns from which views a sample has, if absence will depend on the class in new "
            "samples too",
        ),
        (
            bool(cells),
            "make_pipeline(ViewTransformer(SimpleImputer()), ...)",
            f"single cells are missing in {quoted(cells)}",
        ),
    ]
    return tuple(Suggestion(method, reason) for holds, method, reason in possible if holds)


def _warnings(
    data: MultiView, views: tuple[ViewSummary, ...], classes: dict[str, int] | None
) -> tuple[str, ...]:
    found = []
    if len(views) == 1:
        found.append("there is one view only: name views with --view if the columns form several")
    empty = int((~data.observed.any(axis=1)).sum())
    if empty:
        found.append(f"{empty} samples have no view at all: nothing can be predicted for them")
    rare = [view.name for view in views if view.n_present < RARE_VIEW * len(data)]
    if rare:
        found.append(f"views that fewer than {RARE_VIEW:.0%} of the samples have: {quoted(rare)}")
    small = [name for name, count in (classes or {}).items() if count < FEW_IN_CLASS]
    if small:
        found.append(
            f"classes with fewer than {FEW_IN_CLASS} samples: {quoted(small)}; join or drop them"
        )
    for view in views:
        block = data[view.name]
        block = block[~np.isnan(block).all(axis=1)]
        known = ~np.isnan(block)
        low = np.where(known, block, np.inf).min(axis=0, initial=np.inf)
        high = np.where(known, block, -np.inf).max(axis=0, initial=-np.inf)
        constant = int(np.count_nonzero(low >= high))
        if constant and view.n_present:
            found.append(
                f"view {view.name!r}: {constant} of {view.n_features} columns are constant"
            )
    return tuple(found)
