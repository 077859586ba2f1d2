"""Time, memory and accuracy of the quilt as samples get more.

Run with ``python benchmarks/scale.py [sections] [--data-dir DIRECTORY] [--figure FILE]``.
Sections are

* ``small``: 600 samples of ten views, with and without the forest;
* ``medium``: 3000 samples of four views of 100 columns, by default, with and without the forest;
* ``exact``: the same with all samples as landmarks;
* ``letter``: 14 000 samples of four views and 26 classes (the data set ``letter.npz``), beside
  histogram gradient boosting and a random forest on NaN;
* ``boosting``: 5000 samples of five views of 20 columns, 40 % absent, beside boosting on NaN;
* ``growth``: 10 000 to 1 000 000 samples, or ``--samples`` of them, of five views of 20 columns in
  memory-mapped files, 40 % absent, each in a process of its own; ``--figure`` draws them;
* ``threads``: 20 000 of them with one thread and with two;
* ``dask``: 300 000 samples, or ``--samples``, of five views of 100 columns (1.2 GB), on dask's
  threads, on two worker processes of 1 GB, and on these with one killed halfway.

Seconds are those of the processor, with one BLAS thread.
"""

import argparse
import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import json
import pickle
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier

import kernelquilt as kq

N_VIEWS, N_COLUMNS, N_FACTORS = 5, 20, 6
BLOCK = 20_000


def seconds(action):
    start = time.process_time()
    result = action()
    return result, time.process_time() - start


def hidden_factors(n, n_views, n_columns, rng, noise):
    """Return views of hidden factors, and classes that these make."""
    loadings = np.random.default_rng(0).normal(size=(n_views, N_FACTORS, n_columns))
    H = rng.normal(size=(n, N_FACTORS))
    y = (H[:, 0] * H[:, 1] + H[:, 2] + 0.3 * rng.normal(size=n) > 0).astype(int)
    return [H @ each + noise * rng.normal(size=(n, n_columns)) for each in loadings], y


def without_some(views, rng, share):
    """Make views absent, but for one of each sample."""
    n = len(views[0])
    observed = rng.random((n, len(views))) >= share
    observed[np.arange(n), rng.integers(len(views), size=n)] = True
    for view, present in zip(views, observed.T, strict=True):
        view[~present] = np.nan
    return views


def report(name, model, fit, X, y):
    accuracy, predict = seconds(lambda: model.score(X, y))
    size = f"pickle {len(pickle.dumps(model)) / 1e6:.1f} MB"
    if type(model).__module__.startswith("kernelquilt"):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "model.kq"
            kq.save(model, file)
            size += f", file {file.stat().st_size / 1e6:.1f} MB"
    print(
        f"{name}: fit {fit:.1f} s, {len(y)} predictions {predict:.1f} s, accuracy {accuracy:.4f}, "
        f"{size}",
        flush=True,
    )


def small(options):
    X, y = kq.datasets.make_multiview(800, 10, random_state=0)
    X = kq.datasets.make_absent(X, 0.4, random_state=0)
    for experts in (None, "auto"):
        model = kq.QuiltClassifier(experts=experts, random_state=0)
        fits = [seconds(lambda model=model: model.fit(X[:600], y[:600]))[1] for _ in range(3)]
        report(f"600 samples, ten views, experts={experts}", model, min(fits), X[600:], y[600:])


def fit_medium(n_landmarks, experts):
    rng = np.random.default_rng(0)
    views, y = hidden_factors(5000, 4, 100, rng, 3.0)
    X = kq.MultiView(dict(zip("abcd", without_some(views, rng, 0.3), strict=True)))
    model = kq.QuiltClassifier(n_landmarks=n_landmarks, experts=experts, random_state=0)
    _, fit = seconds(lambda: model.fit(X[:3000], y[:3000]))
    name = f"3000 samples, n_landmarks={n_landmarks}, experts={experts}"
    report(name, model, fit, X[3000:], y[3000:])


def medium(options):
    fit_medium("auto", "auto")
    fit_medium("auto", None)


def exact(options):
    fit_medium(3000, None)


def letter(options):
    with np.load(Path(options.data_dir) / "letter.npz", allow_pickle=True) as file:
        order = np.random.default_rng(0).permutation(len(file["y"]))
        columns, y = file["X"][order].astype(float), file["y"][order]
    X = kq.MultiView({f"columns {k}": columns[:, k : k + 4] for k in range(0, 16, 4)})
    X = kq.datasets.make_absent(X, 0.4, random_state=0)
    side_by_side = np.hstack([X[name] for name in X.names])
    train, test = np.arange(14_000), np.arange(14_000, 20_000)
    models = {
        "histogram gradient boosting": (HistGradientBoostingClassifier(random_state=0), True),
        "random forest": (RandomForestClassifier(250, min_samples_leaf=2, random_state=0), True),
        "late fusion": (kq.LateFusionClassifier(random_state=0), False),
        "quilt, kernels alone": (kq.QuiltClassifier(experts=None, random_state=0), False),
        "quilt": (kq.QuiltClassifier(random_state=0), False),
    }
    for name, (model, flat) in models.items():
        data = side_by_side if flat else X
        _, fit = seconds(lambda model=model, data=data: model.fit(data[train], y[train]))
        report(f"letter, {name}", model, fit, data[test], y[test])


def boosting(options):
    rng = np.random.default_rng(1)
    views, y = hidden_factors(10_000, N_VIEWS, N_COLUMNS, rng, 2.0)
    X = kq.MultiView(dict(zip("abcde", without_some(views, rng, 0.4), strict=True)))
    side_by_side = np.hstack([X[name] for name in X.names])
    for name, model, data in (
        ("quilt", kq.QuiltClassifier(random_state=0), X),
        ("boosting", HistGradientBoostingClassifier(random_state=0), side_by_side),
    ):
        _, fit = seconds(lambda model=model, data=data: model.fit(data[:5000], y[:5000]))
        report(f"5000 samples, {name}", model, fit, data[5000:], y[5000:])


def write_views(folder, n):
    """Write views to memory-mapped files, some samples at a time."""
    files = [
        np.lib.format.open_memmap(folder / f"{k}.npy", "w+", np.float64, (n, N_COLUMNS))
        for k in range(N_VIEWS)
    ]
    labels = np.empty(n, dtype=int)
    for start in range(0, n, BLOCK):
        rng, rows = np.random.default_rng([1, start]), slice(start, min(n, start + BLOCK))
        views, labels[rows] = hidden_factors(rows.stop - start, N_VIEWS, N_COLUMNS, rng, 2.0)
        for file, view in zip(files, without_some(views, rng, 0.4), strict=True):
            file[rows] = view
    np.save(folder / "labels.npy", labels)


def fit_files(folder, n_jobs, experts):
    """Fit to the files of a folder, and print what it took."""
    folder = Path(folder)
    views = {f"view {k}": np.load(folder / f"{k}.npy", mmap_mode="r") for k in range(N_VIEWS)}
    y = np.load(folder / "labels.npy")
    start, used = time.perf_counter(), time.process_time()
    model = kq.QuiltClassifier(
        random_state=0, n_jobs=n_jobs, experts="auto" if experts else None
    ).fit(kq.MultiView(views), y)
    took = time.perf_counter() - start, time.process_time() - used
    rng = np.random.default_rng(77)
    test, labels = hidden_factors(5000, N_VIEWS, N_COLUMNS, rng, 2.0)
    named = dict(zip(views, without_some(test, rng, 0.4), strict=True))
    found = {
        "n": len(y),
        "seconds": took[1],
        "elapsed": took[0],
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
        "accuracy": model.score(kq.MultiView(named), labels),
    }
    print(json.dumps(found), flush=True)


def in_a_process(n, n_jobs=1):
    """Return what a fit to n samples took in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        write_views(Path(folder), n)
        command = [sys.executable, __file__, "files", "--folder", folder, "--n-jobs", str(n_jobs)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    print(
        f"{n} samples, n_jobs={n_jobs}: {found['seconds']:.0f} s of the processor, "
        f"{found['elapsed']:.0f} s elapsed, peak {found['peak']:.2f} GiB, "
        f"accuracy {found['accuracy']:.4f}",
        flush=True,
    )
    return found


def growth(options):
    sizes = options.samples or (10_000, 30_000, 100_000, 300_000, 1_000_000)
    found = [in_a_process(n, 2) for n in sizes]
    for name in ("seconds", "elapsed") if len(found) > 1 else ():
        n, t = (np.log([each[key] for each in found]) for key in ("n", name))
        print(f"slope of log {name} against log n: {np.polyfit(n, t, 1)[0]:.2f}", flush=True)
    if options.figure:
        draw(found, options.figure)


def draw(found, path):
    """Draw time and memory against the number of samples."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(7, 2.8), layout="constrained")
    n = [each["n"] for each in found]
    for ax, name, label in zip(
        axes, ("seconds", "peak"), ("processor time (s)", "peak memory (GiB)"), strict=True
    ):
        ax.loglog(n, [each[name] for each in found], "o-")
        ax.set(xlabel="training samples", ylabel=label)
        ax.grid(alpha=0.3)
    axes[1].set_ylim(0.1, 10)
    figure.savefig(path, metadata={"Date": None})


def on_dask(name, n):
    """Fit to views that are made chunk by chunk, and return the model and the time it took."""
    X, y = kq.datasets.make_multiview(n, 5, n_features=100, chunks=10_000, random_state=0)
    observed = np.random.default_rng(0).random((n, 5)) >= 0.4
    observed[~observed.any(axis=1), 0] = True
    start = time.perf_counter()
    model = kq.QuiltClassifier(n_landmarks=100, experts=None, random_state=0, n_jobs=2)
    model.fit(X.with_observed(observed), y)
    elapsed = time.perf_counter() - start
    print(
        f"dask, {n} samples, {name}: {elapsed:.0f} s elapsed, {model.n_passes_} passes, "
        f"accuracy when left out {model.loo_score_:.4f}",
        flush=True,
    )
    return model, elapsed


def kill_one(cluster):
    """Kill a worker process that is in the middle of its work."""
    os.kill(next(iter(cluster.workers.values())).pid, signal.SIGKILL)
    print("dask: a worker was killed", flush=True)


def workers(options):
    from distributed import Client, LocalCluster

    (n,) = options.samples or (300_000,)
    expected, elapsed = on_dask("threads of one process", n)
    for name, killed in (("two workers of 1 GB", False), ("one of them killed", True)):
        with (
            LocalCluster(
                n_workers=2, threads_per_worker=1, memory_limit="1GB", dashboard_address=None
            ) as cluster,
            Client(cluster),
        ):
            death = threading.Timer(elapsed / 2, kill_one, [cluster])
            if killed:
                death.start()
            found, elapsed = on_dask(name, n)
            death.cancel()
        difference = max(
            float(np.abs(one - other).max())
            for one, other in zip(coefficients(expected), coefficients(found), strict=True)
        )
        print(f"dask, {name}: coefficients differ by {difference:.1e}", flush=True)


def coefficients(model):
    """Return the coefficients of all ridges of a quilt."""
    quilt = model.quilt_
    return [each.coef for each in (quilt.weighted.ridge, quilt.joint.ridge, *quilt.late)]


def threads(options):
    one, two = (in_a_process(20_000, n_jobs)["elapsed"] for n_jobs in (1, 2))
    print(f"two threads: {one / two:.2f} times as fast", flush=True)


SECTIONS = {
    "small": small,
    "medium": medium,
    "exact": exact,
    "letter": letter,
    "boosting": boosting,
    "growth": growth,
    "threads": threads,
    "dask": workers,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sections", nargs="*", default=list(SECTIONS))
    parser.add_argument("--data-dir", default=os.environ.get("KERNELQUILT_DATA", "."))
    parser.add_argument("--samples", type=int, nargs="+", help="sizes of growth, or that of dask")
    parser.add_argument("--figure")
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    parser.add_argument("--n-jobs", type=int, default=1, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.folder:
        fit_files(options.folder, options.n_jobs, experts=True)
        return
    for section in options.sections:
        SECTIONS[section](options)


if __name__ == "__main__":
    main()
