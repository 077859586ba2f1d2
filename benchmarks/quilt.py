"""Accuracy and time of `QuiltClassifier` beside its parts and the usual ways of handling absence.

Run with ``python benchmarks/quilt.py --data-dir DIRECTORY`` (or the variable KERNELQUILT_DATA); see
``quilt_protocol.py`` for the data sets. ``--sections`` chooses among accuracy, fresh, natural,
improvements, mnar and timing. Figures of cells are kept in ``--results`` (lines of JSON), so that a
run that was stopped goes on where it was; remove the file to start again.
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
from core import cpu_seconds, report
from quilt_protocol import FRESH, MAIN, NATURAL, RATIOS, Results, cell, stack_of

PENALTIES = np.logspace(-2, 3, 12)
QUILT, LATE, FRACTION, ZERO = "quilt", "late fusion", "observed fraction", "zero-filled OvR SVM"
BASELINES = (QUILT, LATE, FRACTION, ZERO)
COMPLETIONS = {
    "quilt, one pass": lambda: kq.TransferFill(weighting="loo", constant=0.0, unit_diagonal=False),
    "quilt, plain transfer": lambda: kq.TransferFill(constant=0.0, unit_diagonal=False),
    "quilt, zero filling": kq.ZeroFill,
}


def model_of(method):
    if method in (FRACTION, ZERO):
        kind = kq.ObservedFractionMKLClassifier if method == FRACTION else kq.UniformMKLClassifier
        return kq.MKLSearchCV(kind(), {"C": PENALTIES}, cv=5)
    if method == LATE:
        return kq.LateFusionClassifier()
    return kq.QuiltClassifier(completion=COMPLETIONS[method]() if method != QUILT else None)


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
    stack = stack_of(X, name, train)
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = model_of(method).fit(stack[train], y[train])
        predicted = model.predict(stack[test])
    seconds = time.process_time() - start
    right = predicted == y[test]
    found = {
        "accuracy": right.mean(),
        "balanced": balanced_accuracy_score(y[test], predicted),
        "seconds": seconds,
    }
    if hasattr(model, "predict_proba"):
        proba = model.predict_proba(stack[test])
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
    ours = 100 * values(table, QUILT, "accuracy")
    report("14 sets, mean accuracy of quilt", f"{ours.mean():.2f}", "78.67 +- 0.4",
           abs(ours.mean() - 78.67) <= 0.4)  # fmt: skip
    for method in (FRACTION, ZERO):
        lead = (ours - 100 * values(table, method, "accuracy")).mean(axis=(1, 2))
        won = int((lead > 0).sum())
        report(f"    minus {method}, and sets won", f"{lead.mean():+.2f}, {won} of {len(lead)}",
               ">= 1.8, >= 12", lead.mean() >= 1.8 and won >= 12)  # fmt: skip
    probabilities(table, (QUILT, LATE))


def probabilities(table, methods):
    """Print balanced accuracy, and how good the probabilities are, of some methods."""
    print(f"     {'method':<28}{'balanced':>10}{'AUC':>8}{'log loss':>10}{'calibration':>13}")
    for method in methods:
        each = [
            np.nanmean(values(table, method, key))
            for key in ("balanced", "auc", "log loss", "calibration error")
        ]
        print(f"     {method:<28}{100 * each[0]:10.2f}{each[1]:8.4f}{each[2]:10.4f}{each[3]:13.4f}")


def fresh(results, directory, repetitions):
    """Compare accuracies on six sets that had no part in any choice."""
    names, table = run(results, directory, FRESH, RATIOS, repetitions, BASELINES)
    if names:
        compare(names, table, BASELINES, RATIOS)
        for method in (FRACTION, ZERO):
            lead = 100 * (values(table, QUILT, "accuracy") - values(table, method, "accuracy"))
            report(f"6 fresh sets: quilt minus {method}", f"{lead.mean():+.2f}", "> 0",
                   lead.mean() > 0)  # fmt: skip


def natural(results, directory, repetitions):
    """Compare accuracies where views are absent by nature."""
    names, table = run(results, directory, NATURAL, (None,), 2 * repetitions, BASELINES)
    if names:
        compare(names, table, BASELINES, (None,))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", default=os.environ.get("KERNELQUILT_DATA", ""))
    parser.add_argument("--results", default="quilt_results.jsonl")
    parser.add_argument("--repetitions", type=int, default=4)
    sections = {"accuracy": accuracy, "fresh": fresh, "natural": natural}
    parser.add_argument("--sections", nargs="+", default=list(sections), choices=list(sections))
    arguments = parser.parse_args()
    results = Results(arguments.results)
    for name in arguments.sections:
        print(f"-- {name}", flush=True)
        sections[name](results, arguments.data_dir, arguments.repetitions)


if __name__ == "__main__":
    main()
