r"""Whether new samples are of another kind than those a model was fitted to.

Three questions, each with the counts that the answer rests on:

* *Patterns.* Which combinations of views occur that no training sample had?
* *Presence.* Do other shares of the samples have a view? Fisher's exact test of the two counts.
* *Columns.* How many values are outside of those in training? If all samples are of one kind, their
  order is a matter of chance: that the k largest of :math:`n + m` values are all among the m new
  ones has the probability :math:`\prod_{i < k} (m - i) / (n + m - i)`, whatever the distribution.

Probabilities are multiplied by the number of views, or of columns (Bonferroni), so that all views,
and all columns, raise a false alarm as rarely as is asked for. A pattern or category that is new is
a fact, and no test: rare ones turn up by chance.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from scipy.sparse import issparse
from scipy.special import gammaln
from scipy.stats import fisher_exact
from sklearn.utils.validation import check_is_fitted

from kernelquilt._typing import Bools, Floats, Indices
from kernelquilt.data.blocks import cells, is_frame, missing, numbers_in, texts_in
from kernelquilt.data.lazy.views import as_lazy
from kernelquilt.data.new_samples import match_views
from kernelquilt.data.validation import (
    ColumnRanges,
    TrainingSummary,
    frequent_patterns,
    ranges_of,
)
from kernelquilt.inspection.pattern_scores import pattern_name
from kernelquilt.inspection.samples import parts_of, samples_of

SHOWN = 10  # lines of each kind in the text


@dataclass(frozen=True)
class Change:
    """One thing in which new samples may differ.

    Attributes
    ----------
    kind : {"pattern", "view", "column", "category"}
        What is compared.
    name : str
        Of the pattern, the view, or ``view: column``.
    training, new : float
        Share of the samples: that have the pattern or the view, or, of those that have the view,
        values outside of the range (categories that are not known) of training.
    n_new : int
        How many new samples these are.
    p_value : float
        Probability of as much by chance, corrected for the number of comparisons; NaN for
        patterns and categories, of which one new is a fact.
    detail : str
        What was seen.

    Examples
    --------
    >>> import kernelquilt as kq
    >>> X, y = kq.datasets.load_example("wdbc")
    >>> model = kq.LateFusionClassifier().fit(X[:300], y[:300])
    >>> first = kq.inspection.drift(model, {"mean": X["mean"][300:]}).moved[0]
    >>> first.kind, first.name, first.n_new
    ('pattern', 'mean', 269)
    """

    kind: str
    name: str
    training: float
    new: float
    n_new: int
    p_value: float
    detail: str


_TITLES = {
    "pattern": "unseen patterns",
    "view": "views that fewer or more samples have",
    "column": "columns out of range more often than by chance",
    "category": "columns with categories that are not known",
}


@dataclass(frozen=True, eq=False)
class Drift:
    """In what new samples differ from the training samples of a model.

    Attributes
    ----------
    n_samples, n_training : int
        How many there are of both.
    changes : tuple of Change
        Patterns, categories and values that training samples did not have, and all views.
    alpha : float
        Level of the tests.
    counts : dict of str to int
        How many patterns, views and columns were compared.

    Examples
    --------
    >>> import kernelquilt as kq
    >>> X, y = kq.datasets.load_example("wdbc")
    >>> model = kq.LateFusionClassifier().fit(X[:300], y[:300])
    >>> print(kq.inspection.drift(model, {"mean": X["mean"][300:], "worst": X["worst"][300:]}))
    269 new samples, 300 in training
    unseen patterns: 1 of 1
      without error: 269 samples
    views that fewer or more samples have: 1 of 3
      error: 100.0 % in training, 0.0 % now, p < 1e-16
    columns out of range more often than by chance: 0 of 30
    """

    n_samples: int
    n_training: int
    changes: tuple[Change, ...]
    alpha: float
    counts: dict[str, int]

    @property
    def moved(self) -> tuple[Change, ...]:
        """Those of the changes that are not chance."""
        return tuple(each for each in self.changes if not each.p_value >= self.alpha)

    def to_frame(self) -> Any:
        """Return all changes as a data frame of pandas, a row for each.

        Returns
        -------
        frame : DataFrame
            With the attributes of `Change` as columns, and ``moved``.
        """
        import pandas as pd

        names = list(Change.__dataclass_fields__)
        frame = pd.DataFrame([vars(each) for each in self.changes], columns=names)
        return frame.assign(moved=~(frame["p_value"] >= self.alpha))

    def __str__(self) -> str:
        lines = [f"{self.n_samples} new samples, {self.n_training} in training"]
        for kind, title in _TITLES.items():
            found = [each for each in self.moved if each.kind == kind]
            if not found and kind == "category":
                continue
            lines.append(f"{title}: {len(found)} of {self.counts[kind]}")
            lines += [f"  {each.name}: {each.detail}" for each in found[:SHOWN]]
            if len(found) > SHOWN:
                lines.append(f"  ... and {len(found) - SHOWN} more")
        return "\n".join(lines)


def drift(model: Any, X: Any, *, alpha: float = 0.01) -> Drift:
    """Compare new samples with the training samples of a model, of which nothing more is needed.

    A fitted model remembers which views its training samples had, and between which values
    their columns were. Nothing is refused: the model predicts for such samples all the same, and
    whether to believe it is for the user to say.

    Parameters
    ----------
    model : fitted estimator
        Any estimator of this package, a pipeline that ends in one, or a search of these. In a
        pipeline, views are compared as the first step that remembers them gets them.
    X : MultiView, dict, KernelStack, DataFrame or array of n samples
        New samples; if they are not in memory, they are read chunk by chunk, once.
    alpha : float, default=0.01
        Level of the tests: how often the views, and the columns, of samples of the same kind may
        raise an alarm.

    Returns
    -------
    drift : Drift
        What has moved; it prints as a short report, and `to_frame` has all of it.

    Examples
    --------
    >>> import kernelquilt as kq
    >>> X, y = kq.datasets.load_example("wdbc")
    >>> model = kq.LateFusionClassifier().fit(X[:300], y[:300])
    >>> found = kq.inspection.drift(model, {name: 2 * X[name][300:] for name in X.names})
    >>> found.moved[0].name, found.moved[0].n_new
    ('mean: column 0', 91)
    """
    check_is_fitted(model)
    for own in parts_of(model):
        if hasattr(own, "training_summary_"):
            break
        if not hasattr(own, "transform"):
            raise ValueError(f"{type(own).__name__} does not remember its training samples")
        X = own.transform(X)
    trained: TrainingSummary = own.training_summary_
    seen: dict[str, _Seen] = {}
    if trained.ranges:
        lazy, look = as_lazy(X), _Look(own)
        parts = [look(X)] if lazy is None else lazy.chunks.collect(look, name="drift")
        names, observed = trained.names, np.concatenate([mask for mask, _ in parts])
        seen = {name: reduce(_Seen.joined, [each[name] for _, each in parts]) for name in names}
    else:
        samples = samples_of(own, X)
        names, observed = samples.names, samples.observed
    counts = {
        "pattern": len(frequent_patterns(observed)[0]),
        "view": len(names),
        "column": sum(int(np.sum(r.n_values > 0)) for r in trained.ranges.values()),
        "category": sum(len(each.texts) for each in trained.ranges.values()),
    }
    changes = [*_patterns(trained, names, observed), *_presence(trained, observed)]
    for name, ranges in trained.ranges.items():
        labels = own.view_forms_[name].columns or [f"column {j}" for j in range(len(ranges.low))]
        changes += _columns(name, labels, ranges, seen[name], counts["column"])
    return Drift(len(observed), trained.n_samples, tuple(changes), alpha, counts)


def _patterns(trained: TrainingSummary, names: tuple[str, ...], observed: Bools) -> list[Change]:
    """Return patterns that no training sample has, the most frequent first."""
    if not trained.knows_all_patterns:
        return []
    known = {tuple(pattern.tolist()) for pattern in trained.patterns}
    return [
        Change(
            "pattern",
            pattern_name(names, pattern),
            0.0,
            count / len(observed),
            int(count),
            np.nan,
            f"{count} sample{'s' if count > 1 else ''}",
        )
        for pattern, count in zip(*frequent_patterns(observed), strict=True)
        if tuple(pattern.tolist()) not in known
    ]


def _presence(trained: TrainingSummary, observed: Bools) -> list[Change]:
    """Compare how many samples have each view."""
    n, m, found = trained.n_samples, len(observed), []
    for name, before, now in zip(
        trained.names, trained.present.tolist(), observed.sum(axis=0).tolist(), strict=True
    ):
        p = float(fisher_exact([[before, n - before], [now, m - now]])[1]) * len(trained.names)
        p = min(1.0, p)
        shares = f"{before / n:.1%} in training, {now / m:.1%} now".replace("%", " %")
        found.append(Change("view", name, before / n, now / m, now, p, f"{shares}, {_told(p)}"))
    return found


def _told(p: float) -> str:
    return f"p = {p:.1g}" if p >= 1e-16 else "p < 1e-16"


@dataclass
class _Seen:
    """What new samples have in the columns of a view: numbers, and categories not known."""

    n_present: int
    n_values: Indices
    below: Indices
    above: Indices
    low: Floats
    high: Floats
    unknown: dict[int, dict[str, int]]

    def joined(self, other: "_Seen") -> "_Seen":
        unknown = {j: dict(counts) for j, counts in self.unknown.items()}
        for j, counts in other.unknown.items():
            for text, count in counts.items():
                unknown[j][text] = unknown[j].get(text, 0) + count
        return _Seen(
            self.n_present + other.n_present,
            self.n_values + other.n_values,
            self.below + other.below,
            self.above + other.above,
            np.fmin(self.low, other.low),
            np.fmax(self.high, other.high),
            unknown,
        )


@dataclass(frozen=True)
class _Look:
    """Looks at samples in memory, as a model takes them."""

    model: Any

    def __call__(self, X: Any) -> tuple[Bools, dict[str, _Seen]]:
        own = self.model
        views = match_views(own, X, own.views, as_given=True)
        return views.observed, {
            name: _seen(views.given(name), int(views.present(name).sum()), ranges)
            for name, ranges in own.training_summary_.ranges.items()
        }


def _seen(block: Any, n_present: int, known: ColumnRanges) -> _Seen:
    """Compare the columns of a view (n, d) with those of training."""
    own, d = ranges_of(block), len(known.low)
    below, above = np.zeros((2, d), dtype=np.intp)
    moved = np.flatnonzero((own.low < known.low) | (own.high > known.high))
    for j in moved.tolist():
        values = _numbers(block, j)
        below[j] = np.count_nonzero(values < known.low[j])
        above[j] = np.count_nonzero(values > known.high[j])
    unknown = {j: _unknown(block, j, set(texts)) for j, texts in known.texts.items()}
    return _Seen(n_present, own.n_values, below, above, own.low, own.high, unknown)


def _numbers(block: Any, j: int) -> Floats:
    if is_frame(block):
        return numbers_in(cells(block, j), j)
    return np.asarray(block[:, [j]].toarray() if issparse(block) else block[:, j]).ravel()


def _unknown(block: Any, j: int, known: set[str]) -> dict[str, int]:
    """Return how often categories occur in a column that are not among those of training."""
    values = cells(block, j) if is_frame(block) else block[:, j]
    texts = texts_in(values[~missing(values)])
    new, counts = np.unique([text for text in texts if text not in known], return_counts=True)
    return dict(zip(new.tolist(), counts.tolist(), strict=True))


def _columns(
    view: str, labels: Sequence[str], known: ColumnRanges, seen: _Seen, n_columns: int
) -> Iterator[Change]:
    """Yield the columns of a view with values that training samples did not have."""
    for j in np.flatnonzero(seen.below + seen.above).tolist():
        n, m = int(known.n_values[j]), int(seen.n_values[j])
        sides = [_extreme(int(k), n, m) for k in (seen.below[j], seen.above[j])]
        p = min(1.0, 2.0 * min(sides) * n_columns)
        count = int(seen.below[j] + seen.above[j])
        detail = (
            f"{count} of {m} outside of {known.low[j]:.4g} to {known.high[j]:.4g}, from "
            f"{seen.low[j]:.4g} to {seen.high[j]:.4g}, {_told(p)}"
        )
        yield Change("column", f"{view}: {labels[j]}", 0.0, count / m, count, p, detail)
    for j, new in seen.unknown.items():
        if new:
            count = sum(new.values())
            told = ", ".join(f"{text!r} ({times})" for text, times in list(new.items())[:5])
            share = count / max(seen.n_present, 1)
            yield Change("category", f"{view}: {labels[j]}", 0.0, share, count, np.nan, told)


def _extreme(k: int, n: int, m: int) -> float:
    """Return the probability that the k largest of n and m values are all among the m."""
    logs = gammaln(m + 1) - gammaln(m - k + 1) - gammaln(n + m + 1) + gammaln(n + m - k + 1)
    return float(np.exp(logs))
