"""Accuracy and time of `QuiltClassifier` beside its parts and the usual ways of handling absence.

Run with ``python benchmarks/quilt.py --data-dir DIRECTORY`` (or the variable KERNELQUILT_DATA); see
``quilt_protocol.py`` for the data sets. ``--sections`` chooses among accuracy, complete,
improvements, mnar and timing. Figures of cells are kept in ``--results`` (lines of JSON), so that a
run that was stopped goes on where it was; remove the file to start again. Views that are absent by
nature, and what users would run instead, are studies of ``kq reproduce quilt``.
"""

import argparse
import os
import sys

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import time
import warnings

import numpy as np
from scipy import stats
from sklearn.metrics import balanced_accuracy_score, log_loss, roc_auc_score
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC

import kernelquilt as kq
from core import best_times, cpu_seconds, report
from quilt_protocol import MAIN, RATIOS, Results, cell, kernels_of, stack_of

PENALTIES = np.logspace(-2, 3, 12)
QUILT, KERNELS, LATE = "quilt", "quilt, kernels alone", "late fusion"
FRACTION, ZERO = "observed fraction", "zero-filled OvR SVM"
BASELINES = (QUILT, KERNELS, LATE, FRACTION, ZERO)
TRANSFER = {"constant": 0.0, "unit_diagonal": False}
VARIANTS = {
    QUILT: dict,
    KERNELS: lambda: {"experts": None},
    "quilt, one pass": lambda: {"completion": kq.TransferFill(weighting="loo", **TRANSFER)},
    "quilt, plain transfer": lambda: {"completion": kq.TransferFill(**TRANSFER)},
    "quilt, zero filling": lambda: {"completion": kq.completion.ZeroFill()},
    "quilt, Wishart": lambda: {"completion": kq.WishartCompletion(random_state=0)},
    "quilt, shared factor": lambda: {"completion": kq.completion.SharedFactorCompletion()},
    "quilt, balanced": lambda: {"class_weight": "balanced"},
    "quilt, pattern": lambda: {"pattern": True},
}
PATTERN = "quilt, pattern"


def model_of(method, kernels):
    if method in (FRACTION, ZERO):
        kind = (
            kq.ObservedFractionMKLClassifier if method == FRACTION else kq.mkl.UniformMKLClassifier
        )
        return kq.MKLSearchCV(kind(), {"C": PENALTIES}, cv=5)
    if method == LATE:
        return kq.LateFusionClassifier()
    return kq.QuiltClassifier(kernels, random_state=0, **VARIANTS[method]())


def calibration_error(proba, right, bins=10):
    """Return the expected calibration error of the largest probability, in equal bins."""
    top = proba.max(axis=1)
    which = np.minimum((top * bins).astype(int), bins - 1)
    return sum(
        abs(right[which == b].mean() - top[which == b].mean()) * (which == b).mean()
        for b in np.unique(which)
    )


def figures_of(method, directory, name, ratio, repetition, mechanism="mcar"):
    """Return the figures of a method on the test samples of one cell."""
    X, y, train, test = cell(directory, name, ratio, repetition, mechanism)
    data = X if method in VARIANTS else stack_of(X, name, train)
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = model_of(method, kernels_of(name, "robust")).fit(data[train], y[train])
        predicted = model.predict(data[test])
    seconds = time.process_time() - start
    right = predicted == y[test]
    found = {
        "accuracy": right.mean(),
        "balanced": balanced_accuracy_score(y[test], predicted),
        "seconds": seconds,
    }
    if hasattr(model, "predict_proba"):
        proba = model.predict_proba(data[test])
        binary = proba.shape[1] == 2
        found["log loss"] = log_loss(y[test], proba, labels=model.classes_)
        found["calibration error"] = calibration_error(proba, right)
        score = proba[:, 1] if binary else proba
        found["auc"] = roc_auc_score(
            y[test], score, multi_class="ovr", labels=None if binary else model.classes_
        )
    return {key: float(value) for key, value in found.items()}


class Progress:
    """A line on a terminal that says how far a run is; nothing in a pipe."""

    def __init__(self, total):
        self.total, self.done, self.start = total, 0, time.perf_counter()

    def step(self, text):
        """Say what comes next."""
        self.done += 1
        if sys.stderr.isatty():
            elapsed = time.perf_counter() - self.start
            end = "\n" if self.done == self.total else ""
            sys.stderr.write(f"\r\033[K{self.done}/{self.total} {elapsed:5.0f} s  {text}{end}")


def run(results, directory, names, ratios, repetitions, methods, mechanism="mcar"):
    """Return the figures, by method: a list over sets of lists over ratios of lists."""
    present = [name for name in names if os.path.isfile(f"{directory}/{name}.npz")]
    for name in set(names) - set(present):
        print(f"     {name}: not in the data directory, skipped")
    progress = Progress(len(present) * len(ratios) * repetitions * len(methods))
    table = {method: [[[] for _ in ratios] for _ in present] for method in methods}
    for repetition in range(repetitions):
        for s, name in enumerate(present):
            for r, ratio in enumerate(ratios):
                for method in methods:
                    progress.step(f"{name} {ratio} {method}")
                    arguments = (name, ratio, repetition, mechanism)
                    found = results.get(
                        (method, *arguments),
                        lambda method=method, a=arguments: figures_of(method, directory, *a),
                    )
                    table[method][s][r].append(found)
    return present, table


def values(table, method, figure):
    """Return one figure as an array (sets, ratios, repetitions)."""
    return np.array([[[f.get(figure, np.nan) for f in c] for c in row] for row in table[method]])


def compare(names, table, methods, ratios):
    """Print accuracies by ratio, and differences of the first method over data sets."""
    first = 100 * values(table, methods[0], "accuracy")
    print(
        f"     {'method':<28}{'mean':>7}" + "".join(f"{r!s:>7}" for r in ratios) + "   difference"
    )
    for method in methods:
        each = 100 * values(table, method, "accuracy")
        line = f"     {method:<28}{each.mean():7.2f}"
        line += "".join(f"{v:7.1f}" for v in each.mean(axis=(0, 2)))
        if method != methods[0]:
            lead = (first - each).mean(axis=(1, 2))
            half = stats.t.ppf(0.975, len(lead) - 1) * lead.std(ddof=1) / np.sqrt(len(lead))
            won = int((lead > 0).sum())
            line += f"   {lead.mean():+.2f} +- {half:.2f}, better on {won} of {len(lead)} sets"
        print(line, flush=True)
    for s, name in enumerate(names):
        by_method = "  ".join(
            f"{100 * values(table, method, 'accuracy')[s].mean():5.1f}" for method in methods
        )
        print(f"         {name:<28} {by_method}")


def accuracy(results, directory, repetitions):
    """Compare accuracies under absence at random on the 14 sets."""
    names, table = run(results, directory, MAIN, RATIOS, repetitions, BASELINES)
    if not names:
        return
    compare(names, table, BASELINES, RATIOS)
    probabilities(table, (QUILT, KERNELS, LATE))


def probabilities(table, methods):
    """Print balanced accuracy, and how good the probabilities are, of some methods."""
    print(f"     {'method':<28}{'balanced':>10}{'AUC':>8}{'log loss':>10}{'calibration':>13}")
    for method in methods:
        each = [
            np.nanmean(values(table, method, key))
            for key in ("balanced", "auc", "log loss", "calibration error")
        ]
        print(f"     {method:<28}{100 * each[0]:10.2f}{each[1]:8.4f}{each[2]:10.4f}{each[3]:13.4f}")


def complete(results, directory, repetitions):
    """Compare accuracies with nothing absent."""
    names, table = run(results, directory, MAIN, (0.0,), max(repetitions // 2, 1), BASELINES)
    if names:
        compare(names, table, BASELINES, (0.0,))


def improvements(results, directory, repetitions):
    """Compare other completions, balanced classes and the pattern with the default."""
    some, few = max(repetitions // 2, 1), max(repetitions // 4, 1)
    for group, ratios, times in (
        (("quilt, one pass", "quilt, plain transfer", "quilt, zero filling"), RATIOS, some),
        (("quilt, Wishart", "quilt, shared factor"), (0.4, 0.8), few),
        (("quilt, balanced", PATTERN), RATIOS, some),
    ):
        methods = (QUILT, *group)
        names, table = run(results, directory, MAIN, ratios, times, methods)
        if not names:
            return
        compare(names, table, methods, ratios)
        probabilities(table, methods)


def mnar(results, directory, repetitions):
    """Make absence depend on the class, and compare with and without the pattern."""
    methods = (QUILT, PATTERN, LATE, FRACTION, ZERO)
    names, table = run(results, directory, MAIN, (0.4,), max(repetitions // 2, 1), methods, "mnar")
    if names:
        compare(names, table, methods, (0.4,))


def timing(results, directory, repetitions):
    """Take the times of fit and predict, on one thread."""
    X, y = absent_views(900, 10)
    kq.QuiltClassifier().fit(X[:60], y[:60])
    seconds, _ = cpu_seconds(
        lambda: kq.QuiltClassifier().fit(X[:600], y[:600]).predict(X[600:]), repeats=3
    )
    report("quilt, n = 600, 10 views, 3 classes, 40 % absent: s", f"{seconds:.2f}", "< 2.5",
           seconds < 2.5)  # fmt: skip
    seconds, _ = cpu_seconds(
        lambda: kq.QuiltClassifier(experts=None).fit(X[:600], y[:600]).predict(X[600:]), repeats=3
    )
    print(f"     the same without the forest: {seconds:.2f} s")
    against_grid_search()
    for n in (150, 300, 600, 1200):
        X, y = absent_views(n, 6)
        each = [
            cpu_seconds(lambda model=model, X=X, y=y: model.fit(X, y), repeats=2)[0]
            for model in (kq.QuiltClassifier(), kq.LateFusionClassifier())
        ]
        print(f"     n = {n}, 6 views: quilt {each[0]:.2f} s, late fusion {each[1]:.2f} s")
    for views in (2, 5, 10, 20, 40):
        X, y = absent_views(300, views)
        seconds, _ = cpu_seconds(lambda X=X, y=y: kq.QuiltClassifier().fit(X, y), repeats=2)
        print(f"     n = 300, {views} views: quilt {seconds:.2f} s", flush=True)
    X, y = absent_views(6000, 6)
    for n_landmarks in (350, 700, 1400):
        model = kq.LateFusionClassifier(n_landmarks, random_state=0)
        seconds, _ = cpu_seconds(lambda m=model, X=X, y=y: m.fit(X[:5000], y[:5000]), repeats=1)
        score = 100 * model.score(X[5000:], y[5000:])
        report(
            f"late fusion, n = 5000, 6 views, {n_landmarks} landmarks: s, accuracy in %",
            f"{seconds:.1f}, {score:.1f}", "< 10", n_landmarks > 700 or seconds < 10,
        )  # fmt: skip


def absent_views(n, views, ratio=0.4):
    X, y = kq.datasets.make_multiview(n, views, n_classes=3, random_state=0)
    return kq.datasets.make_absent(X, ratio, mechanism="per_sample", random_state=0), y


def against_grid_search():
    """Compare fit and predict with the tuning of scikit-learn's SVC on the mean kernel."""
    X, y = absent_views(300, 6)
    train, test = np.arange(180), np.arange(180, 300)
    stack = stack_of(X, "", train)
    mean = stack.gram().mean(axis=0)

    def quilt():
        return kq.QuiltClassifier().fit(stack[train], y[train]).predict(stack[test])

    def grid():
        search = GridSearchCV(SVC(kernel="precomputed"), {"C": PENALTIES}, cv=5)
        search.fit(mean[np.ix_(train, train)], y[train])
        return search.predict(mean[np.ix_(test, train)])

    quilt()
    (ours, theirs), _ = best_times([quilt, grid], repeats=5)
    report(
        "quilt, 180 samples, 6 views, against GridSearchCV of SVC: times as fast",
        f"{theirs / ours:.2f} ({ours:.3f} s, {theirs:.3f} s)", ">= 1", ours <= theirs,
    )  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", default=os.environ.get("KERNELQUILT_DATA", ""))
    parser.add_argument("--results", default="quilt_results.jsonl")
    parser.add_argument("--repetitions", type=int, default=8)
    sections = {
        "accuracy": accuracy,
        "complete": complete,
        "improvements": improvements,
        "mnar": mnar,
        "timing": timing,
    }
    parser.add_argument("--sections", nargs="+", default=list(sections), choices=list(sections))
    arguments = parser.parse_args()
    results = Results(arguments.results)
    for name in arguments.sections:
        print(f"-- {name}", flush=True)
        sections[name](results, arguments.data_dir, arguments.repetitions)


if __name__ == "__main__":
    main()
