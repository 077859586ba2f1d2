"""A page about a fitted model: what views are worth to it, and to single samples.

The page needs nothing but itself: its style and its figures are part of it.
"""

import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from zipfile import is_zipfile

import numpy as np
from sklearn.base import is_classifier

from kernelquilt._messages import quoted
from kernelquilt._typing import Floats, Indices
from kernelquilt.data.files.tables import first_line
from kernelquilt.experiments.own_data.files import DataFileError, UserData
from kernelquilt.experiments.own_data.sections import Image, Section, Table, write_page
from kernelquilt.experiments.reporting.page import load_template
from kernelquilt.inspection.contributions import ViewContributions, view_contributions
from kernelquilt.inspection.displays.calibration import CalibrationByPatternDisplay
from kernelquilt.inspection.displays.contributions import ViewContributionsDisplay
from kernelquilt.inspection.displays.importance import ViewImportanceDisplay
from kernelquilt.inspection.displays.observed_pattern import ObservedPatternDisplay
from kernelquilt.inspection.next_view import NextView, next_view
from kernelquilt.inspection.pattern_scores import PatternScores, pattern_name, score_by_pattern
from kernelquilt.inspection.samples import samples_of
from kernelquilt.persistence.files import foreign_to, load

MOST_EXPLAINED = 200  # samples of the figure of all contributions
SHOWN_PATTERNS = 12


def load_model(path: str | Path, trusted: Sequence[str] = ()) -> Any:
    """Return a fitted model from a file that `kq.save`, joblib or pickle has written.

    The first executes nothing when it is read. The others can run any code: only those of people
    one trusts are to be read.

    Parameters
    ----------
    path : path-like
        An archive, or a name that ends in ``.kq``, is of `kq.save`.
    trusted : sequence of str, default=()
        As in `kq.load`.

    Returns
    -------
    model : estimator

    Raises
    ------
    DataFileError
        If it cannot be read, holds no estimator, or something that is not trusted.
    """
    import joblib

    path = Path(path)
    try:
        if path.exists() and (path.suffix == ".kq" or is_zipfile(path)):
            _check_trusted(path, trusted)
            model = load(path, trusted=trusted)
        else:
            model = joblib.load(path)
    except DataFileError:
        raise
    except Exception as error:  # a damaged pickle can raise anything
        raise DataFileError(
            f"cannot read a model from {str(path)!r}: {first_line(error)}"
        ) from error
    if not hasattr(model, "predict"):
        raise DataFileError(
            f"{path.name!r} holds a {type(model).__name__}, which predicts nothing; save a fitted "
            "model with kq.save(model, path)"
        )
    return model


def _check_trusted(path: Path, trusted: Sequence[str]) -> None:
    """Say with which options a file can be read."""
    unknown = [name for name in foreign_to(path) if name not in trusted]
    if unknown:
        raise DataFileError(
            f"{path.name!r} holds {len(unknown)} classes or functions of other packages, "
            f"{quoted(unknown)}; if you know what they are, and who wrote the file, add "
            + " ".join(f"--trust {name}" for name in unknown)
        )


def write_explanation(
    model: Any, data: UserData, output: str | Path, *, samples: Sequence[str] = ()
) -> Path:
    """Write the page about a model and samples that it has not seen.

    Parameters
    ----------
    model : fitted estimator
    data : UserData
        With labels there are scores, calibration and expected gains of views.
    output : path-like
        The file.
    samples : sequence of str, default=()
        Identifiers of the samples that get a section, or positions where they have none.

    Returns
    -------
    page : Path

    Raises
    ------
    DataFileError
        If the data do not fit the model, or there is no such sample.
    """
    load_template("explain.html")  # which says what is missing before the work
    try:
        cohort = samples_of(model, data.views)
    except ValueError as error:
        raise DataFileError(f"{data.name} does not fit the model: {first_line(error)}") from error
    check_known_labels(model, data)
    rows = [_row(cohort.index, each, data.name) for each in samples]
    with warnings.catch_warnings():
        # what is absent is told by the page
        warnings.simplefilter("ignore", UserWarning)
        sections = [pattern_section(data), *_scores(model, data), _contributions(model, data)]
        sections += [_sample(model, data, row, str(cohort.index[row])) for row in rows]
    title = f"{type(model).__name__} on {data.name}"
    return write_page(output, title, _facts(model, data), sections)


def _facts(model: Any, data: UserData) -> dict[str, str]:
    found = {
        "Model": " ".join(repr(model).split()),
        "Samples": f"{len(data.views)} with {len(data.views.names)} views",
    }
    if data.y is None:
        found["Labels"] = "none, so that there are no scores; name their column with --label"
    else:
        found["Scores"] = "are worth something if the model has not seen these samples"
    return found


def check_known_labels(model: Any, data: UserData) -> None:
    """Refuse labels that a classifier does not know."""
    if data.y is None or not is_classifier(model):
        return
    unknown = sorted(set(data.y.tolist()) - set(model.classes_.tolist()))
    if unknown:
        raise DataFileError(
            f"{data.name} has the labels {unknown[:5]}, which the model does not know; its classes "
            f"are {model.classes_.tolist()[:5]}"
        )


def _row(index: Any, wanted: str, name: str) -> int:
    found = [row for row, each in enumerate(index) if str(each) == wanted]
    if len(found) != 1:
        raise DataFileError(
            f"{len(found)} samples of {name} are called {wanted!r}; they are called "
            f"{str(index[0])!r} to {str(index[-1])!r}; name their column with --index"
        )
    return found[0]


def pattern_section(data: UserData) -> Section:
    """Return which views samples have."""
    display = ObservedPatternDisplay.from_views(data.views)
    caption = (
        "A column is a pattern: dark dots are the views that its samples have, the bar above is "
        "their number. On the right the share of the samples that have a view."
    )
    told = f"Patterns of presence, the most frequent one of {display.counts[0]} samples."
    return Section("Which views there are", images=[Image(display, caption, told)])


def _scores(model: Any, data: UserData) -> Iterator[Section]:
    """Yield what needs labels."""
    if data.y is None or not is_classifier(model):
        return
    importance = ViewImportanceDisplay.from_estimator(model, data.views, data.y)
    known = importance.importance
    caption = (
        f"Left: how far the {known.what} falls when the model has to do without a view. Right: the "
        f"{known.what} with this view alone, the lines are all views ({known.score:.3f}) and none "
        f"({known.score_without_views:.3f}). Bars are standard errors."
    )
    told = ", ".join(f"{known.view_names[p]} {known.drop[p]:+.3f}" for p in importance.order)
    yield Section(
        "What views are worth",
        ["Views that tell the same are not missed one at a time, but are good alone."],
        [Image(importance, caption, f"Fall of the {known.what} without views: {told}.")],
    )
    scores = score_by_pattern(model, data.views, data.y)
    yield Section("How good it is, by what samples have", tables=score_tables(scores))
    if hasattr(model, "predict_proba"):
        display = CalibrationByPatternDisplay.from_estimator(model, data.views, data.y)
        errors = ", ".join(f"{name} {curve.error:.3f}" for name, curve in display.curves.items())
        caption = (
            "How often predictions of a given probability are right; on the line, as often as "
            "they say."
        )
        yield Section(
            "How far probabilities can be trusted",
            images=[Image(display, caption, f"Calibration errors: {errors}.")],
        )


def score_tables(scores: PatternScores) -> list[Table]:
    """Return scores with their intervals by number of views and by pattern."""
    names = [pattern_name(scores.view_names, pattern) for pattern in scores.patterns]
    head = ["samples", scores.what, "95 % interval"]
    n_more = len(names) - SHOWN_PATTERNS
    more = f", the most frequent; there are {n_more} more" if n_more > 0 else ""
    by_number = zip(
        scores.n_views,
        scores.n_views_counts,
        scores.n_views_scores,
        scores.n_views_intervals,
        strict=True,
    )
    by_pattern = zip(
        names,
        scores.pattern_counts,
        scores.pattern_scores,
        scores.pattern_intervals,
        strict=True,
    )
    return [
        Table("By the number of views", ["views", *head], [_cells(*each) for each in by_number]),
        Table(
            f"By pattern{more}",
            ["pattern", *head],
            [_cells(*each) for each in by_pattern][:SHOWN_PATTERNS],
        ),
    ]


def _cells(name: Any, count: int, score: float, interval: Floats) -> list[str]:
    found = "" if np.isnan(score) else f"{score:.3f}"
    between = "" if np.isnan(interval).any() else f"{interval[0]:.3f} to {interval[1]:.3f}"
    return [str(name), str(count), found, between]


def _contributions(model: Any, data: UserData) -> Section:
    n = len(data.views)
    rows: Indices = np.arange(n)
    if n > MOST_EXPLAINED:
        rows = np.sort(np.random.default_rng(0).permutation(n)[:MOST_EXPLAINED])
    found = view_contributions(model, data.views[rows], random_state=0)
    display = ViewContributionsDisplay(found)
    caption = (
        f"What each view adds to the {display.what}, a dot for each of {len(rows)} samples"
        + (f", drawn from {n}" if len(rows) < n else "")
        + ". The bar is the mean size."
    )
    means = np.abs(display.values).sum(axis=0) / np.maximum(display.observed.sum(axis=0), 1)
    told = ", ".join(f"{found.view_names[p]} {means[p]:.2f}" for p in display.order)
    image = Image(display, caption, f"Mean size of contributions: {told}.")
    return Section("What views say about samples", images=[image])


def _sample(model: Any, data: UserData, row: int, name: str) -> Section:
    one = data.views[[row]]
    found = view_contributions(model, one, random_state=0)
    display = ViewContributionsDisplay(found)
    caption = (
        f"From the {display.what} without any view ({display.base[0]:.2f}) to that of the sample "
        f"({display.output[0]:.2f}), a view at a time."
    )
    texts = []
    if is_classifier(model):
        texts.append(f"Predicted: {model.predict(one)[0]}")
        if hasattr(model, "predict_proba"):
            order = np.argsort(-model.predict_proba(one)[0], kind="stable")[:5]
            told = (f"{model.classes_[k]} {model.predict_proba(one)[0][k]:.3f}" for k in order)
            texts.append(f"Probabilities: {', '.join(told)}")
    tables = []
    lacking = not one.observed.all()
    if data.y is not None and hasattr(model, "predict_proba") and lacking:
        gains = next_view(model, one, data.views, data.y, cv=None)
        tables.append(_gain_table(gains))
        if gains.best[0] is not None:
            texts.append(f"View to take next: {gains.best[0]}")
    return Section(
        f"Sample {name}", texts, [Image(display, caption, _told(found, display))], tables
    )


def _told(found: ViewContributions, display: ViewContributionsDisplay) -> str:
    parts = (f"{found.view_names[p]} {display.values[0, p]:+.2f}" for p in display.order)
    return f"Contributions to the {display.what}: {', '.join(parts)}."


def _gain_table(gains: NextView) -> Table:
    rows = []
    for p in np.argsort(-np.nan_to_num(gains.gains[0], nan=-np.inf), kind="stable"):
        if np.isnan(gains.gains[0, p]):
            continue
        rests = "" if gains.same_views[0, p] else " (with other views)"
        rows.append(
            [
                gains.view_names[p],
                f"{gains.gains[0, p]:+.3f}",
                f"{gains.standard_errors[0, p]:.3f}",
                f"{gains.n_samples[0, p]}{rests}",
            ]
        )
    return Table(
        f"Gain in {gains.what} to be expected of views that the sample lacks",
        ["view", "gain", "standard error", "rests on samples"],
        rows,
    )
