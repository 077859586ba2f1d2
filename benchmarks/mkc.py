"""Errors, times and memory of the completers of "Multi-view kernel completion".

Run with ``python benchmarks/mkc.py --data-dir DIRECTORY``; the directory (or the variable
KERNELQUILT_DATA) holds the sets of benchmarks/completion.py and ``reuters_multilingual_1200.npz``.
What is not there is skipped with a line saying so; ``--splits 1`` or ``--only speed`` is shorter.
Parameters are chosen on two tuning problems, from the candidates in METHODS, and every fit goes on
to a relative decrease of the objective of 1e-6, or for 2000 iterations.
"""

import argparse
import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import time
import tracemalloc
import warnings

import numpy as np
from sklearn.base import clone
from sklearn.metrics.pairwise import euclidean_distances

import kernelquilt as kq
from completion import LEVELS, PAPER, SETS, Method, errors, load, problem, progress
from core import cpu_seconds, report
from kernelquilt.metrics import average_relative_error

PAPER = {
    **PAPER,
    "MKC_sdp": {
        "TOYL": (0.22, 0.34, 0.41),
        "TOYG1": (11.29, 19.87, 86.21),
        "TOYG0.1": (7.83, 18.30, 17.59),
        "TOYLG1": (6.06, 37.88, 438.92),
        "DREAM": (20.19, 32.86, 97.79),
    },
    "MKC_embd(hm)": {
        "TOYL": (0.19, 0.14, 0.16),
        "TOYG1": (27.54, 29.69, 32.70),
        "TOYG0.1": (86.08, 96.19, 95.43),
        "TOYLG1": (8.93, 13.78, 15.91),
        "DREAM": (16.12, 18.33, 22.13),
    },
    "MKC_rnd": {
        "TOYL": (0.08, 0.08, 0.08),
        "TOYG1": (16.79, 17.94, 20.56),
        "TOYG0.1": (93.36, 93.24, 94.54),
        "TOYLG1": (4.50, 6.96, 7.95),
        "DREAM": (16.00, 17.70, 21.04),
    },
    "MLFS": {
        "TOYL": (0.28, 0.58, 8.55),
        "TOYG1": (79.20, 79.54, 99.92),
        "TOYG0.1": (100.0, 100.0, 100.0),
        "TOYLG1": (25.34, 30.86, 32.17),
        "DREAM": (11.69, 16.59, 21.54),
    },
}
HT, APP = kq.completion.EmbeddingCompletion, kq.completion.ApproximationCompletion
PAIRS = [(lam1, lam2) for lam1 in (0.1, 1.0, 100.0) for lam2 in (0.003, 0.1)]

# by name in the paper: candidates
METHODS = [
    Method("MKC_embd(ht)", tuple(HT(lam1, lam2=lam2) for lam1, lam2 in PAIRS)),
    Method(
        "the same, no self weights",
        tuple(HT(lam1, lam2=lam2, self_weights=False) for lam1, lam2 in PAIRS),
    ),
    Method(
        "MKC_app",
        tuple(APP(lam1, lam2=lam2) for lam1 in (0.01, 0.1, 1.0) for lam2 in (0.003, 0.1)),
    ),
    Method("MKC_sdp", tuple(kq.completion.SDPCompletion(lam1) for lam1 in (1e-5, 1e-3, 0.1))),
    Method(
        "MKC_embd(hm)", tuple(HT(lam2=lam2, sharing="homogeneous") for lam2 in (0.01, 0.1, 1.0))
    ),
    Method(
        "MKC_rnd",
        tuple(HT(lam1, basis="random", random_state=0) for lam1 in (0.1, 1.0, 10.0)),
    ),
    Method(
        "MLFS-like",
        tuple(
            kq.completion.LatentFactorCompletion(rank, coupling=coupling)
            for rank in (5, 10)
            for coupling in (0.1, 1.0)
        ),
    ),
]


def chosen(method, stored, level):
    """Return the candidate of least error on two tuning problems."""
    tuning = [problem(stored, "val", split, level) for split in range(2)]
    means = [np.mean([errors(c, *each)[0] for each in tuning]) for c in method.candidates]
    return method.candidates[int(np.argmin(means))]


def published(directory, n_splits):
    """Complete the published test problems by every method of the paper."""
    for title, name in SETS.items():
        stored = load(directory, f"mkc_{name}")
        if stored is None:
            continue
        levels = LEVELS.get(title, (1, 2, 3))
        print(
            f"\n{title}, absent kernels {levels}, {n_splits} splits: error (squared error) in %, "
            "seconds, share converged; paper (squared)"
        )
        for method in METHODS:
            found, converged, seconds = np.empty((3, n_splits, 2)), [], []
            for level in range(3):
                progress(f"{title}, {method.name}, {levels[level]} absent")
                completer = chosen(method, stored, level)
                for split in range(n_splits):
                    fitted = clone(completer)
                    *found[level, split], spent = errors(
                        fitted, *problem(stored, "test", split, level)
                    )
                    converged.append(fitted.converged_)
                    seconds.append(spent)
            progress("")
            plain, squared = found.mean(axis=1).T
            text = "/".join(f"{e:.2f}" for e in plain)
            squares = "/".join(f"{e:.2f}" for e in squared)
            table = PAPER[
                "MLFS"
                if method.name == "MLFS-like"
                else method.name.replace("the same, no self weights", "MKC_embd(ht)")
            ][title]
            print(
                f"     {method.name:<26}{text:<18} {'(' + squares + ')':<22}"
                f"{np.mean(seconds):6.2f} s  {np.mean(converged):4.2f}  "
                f"({'/'.join(f'{e:g}' for e in table)})",
                flush=True,
            )


def early(directory, n_splits):
    """Show objective and error against the number of iterations."""
    counts = (1, 10, 30, 100, 300, 1000, 2000)
    print(
        f"\nerror in % (objective) after {counts} iterations and, but for the SDP, up to 50 "
        "proximal steps; 1 kernel absent, split 0"
    )
    for title in ("TOYG1", "TOYL", "DREAM"):
        stored = load(directory, f"mkc_{SETS[title]}")
        if stored is None:
            continue
        K, mask = problem(stored, "test", 0, 0)
        for name, completer in (
            ("start (transfer)", kq.TransferFill()),
            ("MKC_embd(ht)", HT(0.1, tol=1e-12)),
            ("MKC_app", APP(0.1, tol=1e-12)),
            ("MKC_sdp", kq.completion.SDPCompletion(0.1, tol=1e-12)),
        ):
            if isinstance(completer, kq.TransferFill):
                print(f"     {title} {name:<18}{errors(completer, K, mask)[0]:.1f}")
                continue
            texts = []
            for count in counts:
                fitted = clone(completer).set_params(max_iter=count)
                error = errors(fitted, K, mask)[0]
                texts.append(f"{error:.1f} ({fitted.history_[-1].objective:.4g})")
            print(f"     {title} {name:<18}" + "  ".join(texts), flush=True)


def absent_views(K, n_absent, seed=0):
    """Return a mask with some kernels absent for each sample, as many for all."""
    rng = np.random.default_rng(seed)
    mask = np.ones((K.shape[1], len(K)), dtype=bool)
    for row in mask:
        row[rng.choice(len(K), n_absent, replace=False)] = False
    return mask


def speed(directory, n_splits):
    """Time fits at 100 samples, and the semi-definite programme beside a conic solver."""
    print("\n100 samples, 5 kernels, 2 absent; processor seconds of a fit with default settings")
    for kind in ("TOYG1", "TOYL"):
        truth = kq.datasets.make_toy_kernels(kind, 100, random_state=0)
        K = truth.gram()
        mask = absent_views(K, 2)
        for name, completer in (
            ("MKC_embd(ht)", HT()),
            ("MKC_app", APP()),
            ("MKC_sdp", kq.completion.SDPCompletion()),
        ):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                start = time.process_time()
                completer.fit(kq.KernelStack(K, mask))
                seconds = time.process_time() - start
            text = f"{seconds:.2f} s, {completer.n_iter_} iterations"
            report(f"{kind}, {name}", text, "< 5 s", seconds < 5)
    conic()


def conic():
    """Compare the semi-definite programme for given S with cvxpy and SCS."""
    try:
        import cvxpy as cp
    except ImportError:
        print("     cvxpy is not installed, skipped")
        return
    n, M, lam1, ridge = 30, 5, 0.1, 1e-8
    K = kq.datasets.make_toy_kernels("TOYG1", n, random_state=0).gram()
    mask = absent_views(K, 2)
    S = (1 - np.eye(M)) / (M - 1)

    def ours():
        found = kq.completion.solve_sdp(K, mask, lam1=lam1, ridge=ridge, between=S)
        return found.history[-1].objective

    def theirs():
        X = [cp.Variable((n, n), PSD=True) for _ in range(M)]
        cost = ridge * sum(cp.sum_squares(x) for x in X)
        for m, o in enumerate(np.flatnonzero(column) for column in mask.T):
            cost += cp.sum_squares(X[m][np.ix_(o, o)] - K[m][np.ix_(o, o)])
            cost += lam1 * cp.sum_squares(X[m] - sum(S[m, l] * X[l] for l in range(M)))
        return cp.Problem(cp.Minimize(cost)).solve(solver=cp.SCS, eps=1e-6, max_iters=50000)

    seconds, value = cpu_seconds(ours)
    other, reference = cpu_seconds(theirs, 3)
    ratio = other / seconds
    text = f"{ratio:.1f} x faster ({seconds:.3f} s)"
    report("SDP, 30 samples, 5 kernels, against cvxpy + SCS", text, ">= 3", ratio >= 3)
    apart = abs(value / reference - 1)
    report("relative difference of the objectives", f"{apart:.1e}", "<= 1e-6", apart <= 1e-6)


def large(directory, n_splits):
    """Complete about 1500 samples, with all samples or some in the basis."""
    rng = np.random.default_rng(0)
    latent = rng.normal(size=(1500, 10))
    kernels = []
    for _ in range(5):
        D = euclidean_distances(
            latent @ rng.normal(size=(10, 30)) + rng.normal(size=(1500, 30)), squared=True
        )
        kernels.append(np.exp(-D / np.median(D)))
    sets = {"synthetic, 1500 samples": np.array(kernels)}
    stored = load(directory, "reuters_multilingual_1200")
    if stored is not None:
        X = [np.sqrt(np.abs(stored[f"view_{m}"].astype(float))) for m in range(5)]
        X = [x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12) for x in X]
        sets["Reuters, 1200 samples"] = np.array([x @ x.T for x in X])
    for title, K in sets.items():
        for kernel in K:
            np.fill_diagonal(kernel, 1.0)
        mask = absent_views(K, 2)
        print(f"\n{title}, 5 kernels, 2 absent; to a relative decrease of 1e-4")
        for completer in (
            kq.TransferFill(),
            HT(n_basis=300, tol=1e-4, random_state=0),
            APP(n_basis=300, tol=1e-4, random_state=0),
            HT(tol=1e-4),
            APP(tol=1e-4),
        ):
            progress(str(completer))
            start = time.process_time()
            tracemalloc.start()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                Z = completer.fit_transform(kq.KernelStack(K, mask)).gram()
            memory = tracemalloc.get_traced_memory()[1] / K.nbytes
            tracemalloc.stop()
            seconds = time.process_time() - start
            progress("")
            text = (
                f"{average_relative_error(K, Z, mask):.2f} %, {seconds:.0f} s processor time, "
                f"{getattr(completer, 'n_iter_', 1)} iterations, {memory:.1f} x the stack"
            )
            report(str(completer), text, "< 900 s, < 8 x", seconds < 900 and memory < 8)


SECTIONS = {"published": published, "early": early, "speed": speed, "large": large}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data-dir", default=os.environ.get("KERNELQUILT_DATA"))
    parser.add_argument("--splits", type=int, default=3, help="published splits, at most 10")
    parser.add_argument("--only", choices=SECTIONS, nargs="+", default=list(SECTIONS))
    arguments = parser.parse_args()
    for section in arguments.only:
        SECTIONS[section](arguments.data_dir, arguments.splits)
