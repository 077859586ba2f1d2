"""Errors and times of kernel completion, on the public kernels and on a larger set.

Run with ``python benchmarks/completion.py --data-dir DIRECTORY``; the directory (or the variable
KERNELQUILT_DATA) holds ``mkc_*.npz``, the kernels and masks published with Bhadra, Kaski and Rousu,
"Multi-view kernel completion", Machine Learning 2017 (``K``, ``tr_idx``, ``val_idx``, ``test_idx``,
``observed_val``, ``observed_test``), and the sets ``uci_multiple_features``, ``three_sources``,
``breast_tcga`` and ``cll_multiomics``. What is not there is skipped with a line saying so.
``--splits 2`` and ``--only replay`` make it shorter.

A method is a name and candidates, of which one is chosen on four tuning problems (other samples and
masks than the test problems) by its error there; no completer sees more than what is observed.
Another method is one more line in METHODS.
"""

import argparse
import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import sys
import time
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV, RepeatedStratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

import kernelquilt as kq
from core import cpu_seconds, noisy_sines, report
from kernelquilt.metrics import average_relative_error

SETS = {
    "TOYL": "toyl",
    "TOYG1": "toyg1",
    "TOYG0.1": "toyg01",
    "TOYLG1": "toylg1",
    "DREAM": "dream25",
}
LEVELS = {"DREAM": (1, 3, 5)}  # absent kernels for each sample; 1, 2 and 3 in the others

# rows of Table 1, by all appearance squared errors, for 1/2/3 (DREAM 1/3/5) absent kernels
PAPER = {
    "MKC_embd(ht)": {
        "TOYL": (0.07, 0.08, 0.05),
        "TOYG1": (7.40, 9.43, 12.87),
        "TOYG0.1": (84.91, 86.72, 89.88),
        "TOYLG1": (4.50, 3.26, 5.13),
        "DREAM": (13.36, 16.13, 20.04),
    },
    "MKC_app": {
        "TOYL": (0.09, 0.07, 0.10),
        "TOYG1": (5.02, 6.89, 12.04),
        "TOYG0.1": (76.24, 84.40, 89.69),
        "TOYLG1": (2.11, 4.01, 5.72),
        "DREAM": (14.46, 17.51, 20.43),
    },
    "Knn": {
        "TOYL": (0.34, 0.26, 0.39),
        "TOYG1": (42.89, 52.18, 62.32),
        "TOYG0.1": (62.69, 97.65, 112.79),
        "TOYLG1": (11.27, 19.64, 24.93),
        "DREAM": (14.94, 22.04, 27.54),
    },
}


@dataclass(frozen=True)
class Method:
    """What is compared: candidates of one kind, and the most that its error may be on each set."""

    name: str
    candidates: tuple[BaseEstimator, ...]
    targets: dict[str, tuple[float, ...]] | None = None


METHODS = [
    Method("MeanFill", (kq.completion.MeanFill(),)),
    Method(
        "KNNFill, no diagonal",
        tuple(kq.completion.KNNFill(k, unit_diagonal=False) for k in (1, 2, 3, 5, 7, 10)),
    ),
    Method("KNNFill", tuple(kq.completion.KNNFill(k) for k in (1, 2, 3, 5, 7, 10))),
    Method(
        "TransferFill",
        tuple(kq.TransferFill(eps) for eps in (0.001, 0.01, 0.03, 0.1, 0.3, 1.0)),
        {
            "TOYL": (2.72, 2.85, 3.37),
            "TOYG1": (53.7, 53.6, 62.7),
            "TOYG0.1": (26.6, 29.0, 35.7),
            "TOYLG1": (26.9, 28.5, 31.5),
            "DREAM": (15.3, 19.0, 21.1),
        },
    ),
    Method("SharedFactorCompletion", (kq.completion.SharedFactorCompletion(),)),
    Method(
        "WishartCompletion",
        (kq.WishartCompletion(),),
        {
            "TOYL": (1.8, 1.9, 3.2),
            "TOYG1": (22.0, 32.5, 52.0),
            "TOYG0.1": (5.7, 9.5, 31.0),
            "TOYLG1": (13.0, 21.5, 26.0),
            "DREAM": (11.8, 14.8, 15.2),
        },
    ),
]


def progress(text):
    """Show what is being done, where somebody watches."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\033[K{text}")
        sys.stderr.flush()


def load(directory, name):
    """Return the arrays of a stored set, or None with a line saying so."""
    path = Path(directory or "") / f"{name}.npz"
    if not path.is_file():
        print(f"     no {path.name} in the data directory, skipped")
        return None
    with np.load(path, allow_pickle=False) as stored:
        return dict(stored)


def problem(stored, part, split, level):
    """Return kernels (M, n, n) and mask: complete samples, then those of the part."""
    complete, rest = stored["tr_idx"][split], stored[f"{part}_idx"][split]
    observed = stored[f"observed_{part}"]
    observed = observed[split] if observed.ndim == 4 else observed
    rows = np.concatenate([complete, rest]).astype(int)
    mask = np.ones((len(rows), observed.shape[1]), dtype=bool)
    mask[len(complete) :] = observed[:, :, level]
    return stored["K"].astype(float)[:, rows][:, :, rows], mask


def errors(completer, K, mask):
    """Return the error of a completion, the squared one, and the seconds it took."""
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        Z = completer.fit_transform(kq.KernelStack(K, mask)).gram()
    seconds = time.perf_counter() - start
    return (
        average_relative_error(K, Z, mask),
        average_relative_error(K, Z, mask, squared=True),
        seconds,
    )


def tuned(method, stored, level):
    """Return the candidate of least error on four tuning problems."""
    if len(method.candidates) == 1:
        return method.candidates[0]
    tuning = [problem(stored, "val", split, level) for split in range(4)]
    means = [np.mean([errors(c, *each)[0] for each in tuning]) for c in method.candidates]
    return method.candidates[int(np.argmin(means))]


def row(name, figures, digits):
    """Print one row of a table."""
    print(f"     {name:<26}" + "  ".join(f"{figure:8.{digits}f}" for figure in figures), flush=True)


def published(directory, n_splits):
    """Complete the published test problems by every method."""
    for title, name in SETS.items():
        stored = load(directory, f"mkc_{name}")
        if stored is None:
            continue
        levels = LEVELS.get(title, (1, 2, 3))
        print(f"\n{title}, absent kernels {levels}, {n_splits} splits: error (squared error) in %")
        for method in METHODS:
            found = np.empty((3, n_splits, 3))
            for level in range(3):
                progress(f"{title}, {method.name}, {levels[level]} absent")
                completer = tuned(method, stored, level)
                found[level] = [
                    errors(completer, *problem(stored, "test", split, level))
                    for split in range(n_splits)
                ]
            progress("")
            plain, squared, seconds = found.mean(axis=1).T
            figures = "/".join(f"{e:.2f}" for e in plain)
            squares = "/".join(f"{e:.2f}" for e in squared)
            text = f"{figures} ({squares})"
            if method.targets is None:
                print(f"     {method.name:<28}{text:<44} {seconds.mean():.3f} s", flush=True)
            else:
                limit = method.targets[title]
                report(
                    method.name,
                    f"{text}, {seconds.mean():.3f} s",
                    "/".join(f"{e:g}" for e in limit),
                    bool((plain <= limit).all()),
                )
        for name, table in PAPER.items():
            print(f"     paper, {name:<21}({'/'.join(f'{e:g}' for e in table[title])})")


def auxiliary(directory, n_splits):
    """Compare EM with an auxiliary kernel, each kernel in turn made complete."""
    for title in ("TOYG1", "DREAM"):
        stored = load(directory, f"mkc_{SETS[title]}")
        if stored is None:
            continue
        print(f"\n{title}, one kernel complete, mean over which: AuxiliaryEM / WishartCompletion")
        for level, count in enumerate(LEVELS.get(title, (1, 2, 3))):
            found = []
            for split in range(min(n_splits, 3)):
                K, mask = problem(stored, "test", split, level)
                for a in range(len(K)):
                    progress(f"{title}, auxiliary kernel {a}, {count} absent")
                    known = mask.copy()
                    known[:, a] = True
                    found.append(
                        [
                            errors(completer, K, known)[0]
                            for completer in (
                                kq.completion.AuxiliaryEMCompletion(a),
                                kq.WishartCompletion(),
                            )
                        ]
                    )
            progress("")
            row(f"{count} absent", np.mean(found, axis=0), 2)


def replay(directory, n_splits):
    """Compare new samples completed on their own with a joint fit."""
    for title in ("TOYG1", "DREAM"):
        stored = load(directory, f"mkc_{SETS[title]}")
        if stored is None:
            continue
        for level, count in enumerate(LEVELS.get(title, (1, 2, 3))):
            alone, joint = [], []
            for split in range(min(n_splits, 3)):
                K, mask = problem(stored, "test", split, level)
                stack = kq.KernelStack(K, mask)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", UserWarning)
                    together = kq.WishartCompletion().fit_transform(stack).gram()
                    for t in np.flatnonzero(~mask.all(axis=1)):
                        progress(f"{title}, {count} absent, split {split}, sample {t}")
                        rest = np.delete(np.arange(len(mask)), t)
                        new = kq.WishartCompletion().fit(stack[rest]).transform(stack[[t]]).gram()
                        for m in np.flatnonzero(~mask[t]):
                            true = K[m, t, rest]
                            size = np.linalg.norm(true)
                            alone.append(np.linalg.norm(new[m, 0] - true) / size)
                            joint.append(np.linalg.norm(together[m, t, rest] - true) / size)
            progress("")
            figures = 100 * np.mean(alone), 100 * np.mean(joint)
            report(
                f"{title}, {count} absent: new samples alone, times the error of a joint fit",
                f"{figures[0] / figures[1]:.3f} ({figures[0]:.1f} and {figures[1]:.1f} %)",
                "<= 1.1",
                figures[0] <= 1.1 * figures[1],
            )


def large(directory, n_splits):
    """Complete five kernels of 1500 handwritten digits, two absent for each."""
    stored = load(directory, "uci_multiple_features")
    if stored is None:
        return
    rng = np.random.default_rng(0)
    chosen = rng.choice(len(stored["y"]), 1500, replace=False)
    views = [np.asarray(stored[f"view_{v}"], dtype=float)[chosen] for v in range(5)]
    X = kq.MultiView([(x - x.mean(axis=0)) / (x.std(axis=0) + 1e-12) for x in views])
    stack = kq.ViewKernels().fit_transform(X)
    K = stack.gram()
    mask = np.ones((1500, 5), dtype=bool)
    for row_mask in mask:
        row_mask[rng.choice(5, 2, replace=False)] = False
    print("\n1500 digits, 5 kernels, 2 absent: error (squared error) in %")
    for completer in (
        kq.completion.MeanFill(),
        kq.completion.KNNFill(),
        kq.TransferFill(),
        kq.completion.SharedFactorCompletion(),
        kq.WishartCompletion(2, random_state=0),
        kq.WishartCompletion(random_state=0),
    ):
        progress(type(completer).__name__)
        plain, squared, seconds = errors(completer, K, mask)
        progress("")
        text = f"{plain:.2f} ({squared:.2f}), {seconds:.1f} s"
        if isinstance(completer, kq.WishartCompletion):
            report(str(completer), text, "< 60 s", seconds < 60)
        else:
            print(f"     {completer!s:<62} {text}", flush=True)


def transfer(directory, n_splits):
    """Time transfer with leave-one-out weights and two passes, as before a classifier."""
    K = noisy_sines(600)[0][:10]
    for ratio in (0.2, 0.4, 0.8):
        stack = kq.datasets.make_absent(
            kq.KernelStack(K), ratio, mechanism="per_sample", random_state=0
        )
        stack = make_pipeline(kq.CentreKernels(), kq.ScaleKernels("unit_trace")).fit_transform(
            stack
        )
        model = kq.TransferFill(weighting="loo", n_passes=2, constant=0.0)
        seconds, _ = cpu_seconds(lambda model=model, stack=stack: model.fit(stack))
        report(
            f"TransferFill in two passes, n = 600, M = 10, {ratio:.0%} absent: seconds",
            f"{seconds:.2f}",
            "< 1.5",
            seconds < 1.5,
        )


def natural(directory, n_splits):
    """Classify sets in which views are absent by nature, with and without completion."""
    learners = kq.mkl.UniformMKLClassifier(), kq.SimpleMKLClassifier()
    completers = (
        kq.completion.ZeroFill(),
        kq.completion.MeanFill(),
        kq.completion.KNNFill(),
        kq.TransferFill(),
        kq.completion.SharedFactorCompletion(),
        kq.WishartCompletion(random_state=0),
        kq.WishartCompletion(residual=False, random_state=0),
    )
    folds = RepeatedStratifiedKFold(n_splits=5, n_repeats=2, random_state=0)
    for name in ("three_sources", "breast_tcga", "cll_multiomics"):
        stored = load(directory, name)
        if stored is None:
            continue
        names = [str(view) for view in stored["view_names"]]
        views = kq.MultiView(
            {view: np.asarray(stored[f"view_{v}"], float) for v, view in enumerate(names)}
        )
        cosine = name == "three_sources"
        cells = SimpleImputer(keep_empty_features=True)
        prepare = FunctionTransformer(np.sqrt) if cosine else make_pipeline(cells, StandardScaler())
        kernels = kq.ViewTransformer(prepare), kq.ViewKernels("cosine" if cosine else "gaussian")
        scaled = kq.CentreKernels(), kq.ScaleKernels("unit_trace")
        rows = [(str(c), make_pipeline(*kernels, c, *scaled), learners) for c in completers]
        without = (kq.ConvexAbsentMKLClassifier(),)
        rows.append(("none, C-AMKL", make_pipeline(*kernels, *scaled), without))
        print(f"\n{name}: accuracy in % over 2 x 5 folds; mean kernel / SimpleMKL")
        for title, pipeline, each in rows:
            scores = []
            for number, (train, test) in enumerate(folds.split(views, stored["y"])):
                progress(f"{name}, {title}, fold {number}")
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", UserWarning)
                    known = pipeline.fit_transform(views[train])
                    new = pipeline.transform(views[test])
                    # the penalty is chosen inside the training part, after its completion
                    tuned = [
                        GridSearchCV(learner, {"C": [1.0, 10.0, 100.0]}, cv=3) for learner in each
                    ]
                    scores.append(
                        [
                            search.fit(known, stored["y"][train]).score(new, stored["y"][test])
                            for search in tuned
                        ]
                    )
            progress("")
            figures = " / ".join(f"{100 * score:.1f}" for score in np.mean(scores, axis=0))
            print(f"     {title:<58}{figures}", flush=True)


SECTIONS = {
    "published": published,
    "auxiliary": auxiliary,
    "replay": replay,
    "large": large,
    "transfer": transfer,
    "natural": natural,
}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data-dir", default=os.environ.get("KERNELQUILT_DATA"))
    parser.add_argument("--splits", type=int, default=10, help="published splits, at most 10")
    parser.add_argument("--only", choices=SECTIONS, nargs="+", default=list(SECTIONS))
    arguments = parser.parse_args()
    for section in arguments.only:
        SECTIONS[section](arguments.data_dir, arguments.splits)
