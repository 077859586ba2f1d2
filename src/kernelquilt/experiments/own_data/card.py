"""A card of a fitted model: what it was fitted to, how good it is, and with what it was made."""

import hashlib
import platform
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.base import is_classifier, is_regressor

from kernelquilt import __version__
from kernelquilt._typing import Array
from kernelquilt.data.blocks import cells, is_frame, kind_of, numbers_in, texts_in
from kernelquilt.data.files.tables import first_line
from kernelquilt.data.validation import check_alignment
from kernelquilt.data.views import MultiView
from kernelquilt.experiments.own_data.explain import check_known_labels, score_tables
from kernelquilt.experiments.own_data.files import DataFileError, UserData
from kernelquilt.experiments.own_data.sections import Image, Section, Table, write_page
from kernelquilt.experiments.reporting.page import load_template
from kernelquilt.inspection.displays.calibration import CalibrationByPatternDisplay
from kernelquilt.inspection.displays.importance import ViewImportanceDisplay
from kernelquilt.inspection.displays.observed_pattern import ObservedPatternDisplay
from kernelquilt.inspection.drifting import Drift, drift
from kernelquilt.inspection.importance import view_importance
from kernelquilt.inspection.pattern_scores import pattern_name, patterns_of, score_by_pattern
from kernelquilt.inspection.samples import Cohort, parts_of, samples_of
from kernelquilt.persistence.versions import version_of

SHOWN_PATTERNS = 12
PACKAGES = ("numpy", "scipy", "scikit-learn", "numba")


def card(
    model: Any,
    X: Any,
    y: Any,
    path: Any = "card.html",
    *,
    train: tuple[Any, Any] | None = None,
    scoring: Any = None,
    notes: str = "",
) -> Path:
    """Write a page about a model for those who are to rely on it.

    It tells what the model was fitted to, which views samples have, scores by pattern with their
    intervals, calibration, what views are worth, in what the samples differ from those of
    training, versions, and fingerprints of the data.

    Parameters
    ----------
    model : fitted estimator
        Any estimator of this package, a pipeline that ends in one, or a search of these.
    X : MultiView, dict, KernelStack, DataFrame or array of n samples
        Samples that the model has not seen.
    y : array-like of shape (n,)
        Their labels or targets.
    path : str or Path, default="card.html"
        The file: Markdown if it ends with ``.md``, otherwise one page of HTML with figures, which
        needs the extra ``report``.
    train : pair of X and y, default=None
        The training samples, whose fingerprint is to stand on the card; others than those that
        the model remembers are refused.
    scoring : str, callable or None, default=None
        As in scikit-learn; by default accuracy, R2, or what the ``score`` of the model is.
    notes : str, default=""
        What else a reader should know, such as what the model is for.

    Returns
    -------
    path : Path
        The file.

    Examples
    --------
    >>> import tempfile
    >>> import kernelquilt as kq
    >>> X, y = kq.datasets.load_example("wdbc")
    >>> X = kq.datasets.make_absent(X, 0.3, random_state=0)
    >>> model = kq.LateFusionClassifier().fit(X[:300], y[:300])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = kq.card(model, X[300:], y[300:], f"{folder}/card.md", train=(X[:300], y[:300]))
    ...     print(page.read_text().splitlines()[0])
    # LateFusionClassifier
    """
    if Path(path).suffix.lower() != ".md":
        load_template("explain.html")  # which says what is missing before the work
    check_alignment(X, y, "y")
    samples, y = samples_of(model, X), np.asarray(y)
    with warnings.catch_warnings():
        # what is absent is told by the card
        warnings.simplefilter("ignore", UserWarning)
        moved = drift(model, X)
        facts = _facts(model, samples, y, moved, train)
        if notes:
            facts["Notes"] = notes
        sections = [
            _data(model, samples),
            _patterns(samples),
            Section(
                "How good it is, by what samples have",
                tables=score_tables(score_by_pattern(model, X, y, scoring=scoring)),
            ),
        ]
        if is_classifier(model) and hasattr(model, "predict_proba"):
            sections.append(_calibration(model, X, y))
        if is_classifier(model) or is_regressor(model):
            sections.append(_importance(model, X, y, scoring))
        sections.append(_drift(moved))
    return write_page(path, _name(model), facts, sections)


def write_card(model: Any, data: UserData, output: str | Path, *, notes: str = "") -> Path:
    """Write the card of a model and of a data file.

    Parameters
    ----------
    model : fitted estimator
    data : UserData
        With labels.
    output : path-like
        As in `card`.
    notes : str, default=""
        As in `card`.

    Returns
    -------
    page : Path

    Raises
    ------
    DataFileError
        If the data do not fit the model, or have no labels.
    """
    y = data.labels()
    check_known_labels(model, data)
    try:
        samples_of(model, data.views)
    except ValueError as error:
        raise DataFileError(f"{data.name} does not fit the model: {first_line(error)}") from error
    return card(model, data.views, y, output, notes=notes)


def _name(model: Any) -> str:
    return type(list(parts_of(model))[-1]).__name__


def _facts(
    model: Any, samples: Cohort, y: Array, moved: Drift, train: tuple[Any, Any] | None
) -> dict[str, str]:
    versions = {name: version_of(name) for name in PACKAGES}
    told = ", ".join(f"{name} {version}" for name, version in versions.items())
    facts = {
        "Model": " ".join(repr(model).split()),
        "Fitted to": f"{moved.n_training} samples, {_fingerprint_of_training(model, train)}",
        "Scored on": f"{len(y)} other samples, SHA-256 {fingerprint(samples.data, y)}",
        "Versions": f"kernelquilt {__version__}, python {platform.python_version()}, {told}",
    }
    if is_classifier(model):
        classes, counts = np.unique(y, return_counts=True)
        shares = (f"{label} {n / len(y):.1%}" for label, n in zip(classes, counts, strict=True))
        facts["Classes"] = ", ".join(shares)
    return facts


def _fingerprint_of_training(model: Any, train: tuple[Any, Any] | None) -> str:
    if train is None:
        return "of which no fingerprint was taken; train=(X, y) takes it"
    X, y = train
    found = drift(model, X)
    different = [each for each in found.changes if each.new != each.training]
    if found.n_samples != found.n_training or different:
        what = f": {different[0].name}, {different[0].detail}" if different else ""
        raise ValueError(
            f"train has {found.n_samples} samples, but not the {found.n_training} that the model "
            f"was fitted to{what}; pass the data that were given to fit"
        )
    return f"SHA-256 {fingerprint(samples_of(model, X).data, y)}"


def fingerprint(data: Any, y: Any) -> str:
    """Return the SHA-256 of samples and labels.

    It depends on names, values, their order and what is absent, and not on the container of the
    numbers or on bits that make no difference.

    Parameters
    ----------
    data : MultiView, KernelStack, LowRankStack, DataFrame or array of n samples
    y : array-like of shape (n,)

    Returns
    -------
    digest : str
        In hexadecimal digits.
    """
    digest = hashlib.sha256()
    if isinstance(data, MultiView):
        for name in data.names:
            digest.update(repr((name, data.columns[name], data.shape)).encode())
            digest.update(np.packbits(data.present(name)).tobytes())
            _hash_block(digest, data.given(name))
    elif hasattr(data, "observed"):
        digest.update(repr((data.names, data.shape)).encode())
        digest.update(np.packbits(data.observed).tobytes())
        for m in range(len(data.names)):
            one = data.factor(m) if hasattr(data, "factor") else data.select([m]).gram()[0]
            _hash_numbers(digest, np.where(data.observed[:, [m]], one, np.nan))
    else:
        _hash_block(digest, data)
    labels = np.asarray(y)
    digest.update(repr((labels.dtype.names, labels.tolist())).encode())
    return digest.hexdigest()


def _hash_block(digest: Any, block: Any) -> None:
    if issparse(block):
        for part in (block.indptr.astype(np.int64), block.indices.astype(np.int64), block.data):
            _hash_numbers(digest, part)
    elif not is_frame(block):
        _hash_numbers(digest, np.asarray(block))
    else:
        for j in range(block.shape[1]):
            values = cells(block, j)
            if kind_of(block, j) == "number":
                _hash_numbers(digest, numbers_in(values, j))
            else:
                digest.update(repr(texts_in(values).tolist()).encode())


def _hash_numbers(digest: Any, values: Any) -> None:
    # one bit pattern for all that is missing, and one for zero
    numbers = np.where(np.isnan(values), np.nan, values) + 0.0
    digest.update(np.ascontiguousarray(numbers, dtype="<f8").tobytes())


def _data(model: Any, samples: Cohort) -> Section:
    own = next(each for each in parts_of(model) if hasattr(each, "training_summary_"))
    trained = own.training_summary_
    before = (f"{share:.1%}" for share in trained.present / trained.n_samples)
    shares = dict(zip(trained.names, before, strict=True))
    sizes = {name: len(ranges.low) for name, ranges in trained.ranges.items()}
    rows = [
        [name, str(sizes.get(name, "")), shares.get(name, ""), f"{share:.1%}"]
        for name, share in zip(samples.names, samples.observed.mean(axis=0), strict=True)
    ]
    head = ["view", "columns", "in training", "here"]
    return Section("Data", tables=[Table("Share of the samples that have a view", head, rows)])


def _patterns(samples: Cohort) -> Section:
    patterns, counts, _ = patterns_of(samples.observed)
    more = len(patterns) - SHOWN_PATTERNS
    rest = f", the most frequent; there are {more} more" if more > 0 else ""
    rows = [
        [pattern_name(samples.names, pattern), str(count), f"{count / counts.sum():.1%}"]
        for pattern, count in zip(patterns[:SHOWN_PATTERNS], counts, strict=False)
    ]
    table = Table(f"Patterns of presence{rest}", ["pattern", "samples", "share"], rows)
    image = Image(
        ObservedPatternDisplay(samples.names, samples.observed),
        "A column is a pattern: dark dots are the views that its samples have.",
        f"{len(patterns)} patterns, the most frequent one of {counts[0]} samples.",
    )
    return Section("Which views samples have", images=[image], tables=[table])


def _calibration(model: Any, X: Any, y: Array) -> Section:
    display = CalibrationByPatternDisplay.from_estimator(model, X, y)
    rows = [
        [
            name,
            str(curve.counts.sum()),
            f"{np.average(curve.probability, weights=curve.counts):.3f}",
            f"{np.average(curve.right, weights=curve.counts):.3f}",
            f"{curve.error:.3f}",
        ]
        for name, curve in display.curves.items()
    ]
    head = ["samples with", "samples", "mean probability", "share right", "calibration error"]
    image = Image(
        display,
        "How often predictions of a given probability are right; on the line, as often as they "
        "say.",
        "The table has the errors.",
    )
    table = Table("Probabilities of predicted classes", head, rows)
    return Section("How far probabilities can be trusted", images=[image], tables=[table])


def _importance(model: Any, X: Any, y: Array, scoring: Any) -> Section:
    found = view_importance(model, X, y, scoring=scoring)
    order = np.argsort(-found.drop, kind="stable")
    rows = [
        [
            found.view_names[p],
            str(found.n_present[p]),
            f"{found.drop[p]:+.3f} ± {found.drop_errors[p]:.3f}",
            f"{found.score - found.drop_others[p]:.3f} ± {found.drop_others_errors[p]:.3f}",
        ]
        for p in order
    ]
    head = ["view", "samples that have it", f"fall of {found.what} without it", "with it alone"]
    caption = (
        f"The {found.what} is {found.score:.3f} with all views and {found.score_without_views:.3f} "
        "without any; figures have one standard error"
    )
    image = Image(
        ViewImportanceDisplay(found),
        "Left: the fall without a view. Right: what is left with it alone.",
        "Views that tell the same are not missed one at a time, but are good alone.",
    )
    return Section("What views are worth", images=[image], tables=[Table(caption, head, rows)])


def _drift(moved: Drift) -> Section:
    rows = [
        [each.kind, each.name, f"{each.training:.1%}", f"{each.new:.1%}", each.detail]
        for each in moved.moved
    ]
    text = (
        "Nothing but chance tells these samples from those of training: neither patterns, nor "
        "shares of views, nor ranges of columns."
        if not rows
        else f"{len(rows)} patterns, views or columns are not as they were in training."
    )
    head = ["what", "name", "in training", "here", "details"]
    tables = [Table("What moved", head, rows)] if rows else []
    return Section("In what these samples differ from those of training", [text], tables=tables)
