"""Ratios of the methods for absent views, all taken in one run.

Run with ``python benchmarks/absent.py --data-dir DIRECTORY``; the directory (or the variable
KERNELQUILT_DATA) holds vector sets as ``<name>.npz`` with ``X`` and ``y``. What needs them is
skipped with a line saying so if they are not there.
"""

import argparse
import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import time
from pathlib import Path

import numpy as np
from scipy.optimize import linprog
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import kernelquilt as kq
from core import best_times, cpu_seconds, noisy_sines, report
from kernelquilt.core.svm.weighted_svm import svm_with_margins
from kernelquilt.kernels.preprocessing import CentreKernels, ScaleKernels
from kernelquilt.mkl.absent.convex import Polytope

SETS = ("heart", "ionosphere", "sonar", "wdbc", "pima")
RATIOS = np.arange(1, 10) / 10


def load(directory, name):
    """Return features and labels -1, +1 of a stored set, or None with a line saying so."""
    path = Path(directory or "") / f"{name}.npz"
    if not path.is_file():
        print(f"     {name}: no {path.name} in the data directory, skipped")
        return None
    with np.load(path, allow_pickle=False) as stored:
        return np.asarray(stored["X"], dtype=float), np.asarray(stored["y"], dtype=float)


def absent_bank(X, ratio, seed=0, spacing="linear", prepared=False):
    """Return 20 Gaussian kernels of X, each absent for a share of the samples."""
    views = kq.MultiView({"x": StandardScaler().fit_transform(X)})
    stack = kq.ViewKernels(kq.gaussian_bank(20, spacing=spacing)).fit_transform(views)
    mask = kq.datasets.make_absent(stack, ratio, mechanism="per_sample", random_state=seed)
    if prepared:
        mask = ScaleKernels().fit_transform(CentreKernels().fit_transform(mask))
    return mask


def factors_of(stack):
    """Return explicit features of every kernel, zero where absent, shapes (n, rank)."""
    K, observed = stack.training_gram()
    factors = []
    for p, kernel in enumerate(K):
        values, vectors = np.linalg.eigh(kernel)
        kept = values > 1e-12 * values[-1]
        factors.append(observed[:, [p]] * vectors[:, kept] * np.sqrt(values[kept]))
    return K, observed, factors


def solves(directory):
    """Count the SVM solves of C-AMKL on real sets, over ratios, penalties and kinds of kernels."""
    for tol, most in ((1e-3, 12), (1e-6, 20)):
        for name in SETS:
            data = load(directory, name)
            if data is None:
                continue
            X, y = data
            counts, totals, where = [], [], []
            for spacing in ("linear", "log"):
                for prepared in (False, True):
                    for ratio in RATIOS:
                        stack = absent_bank(X, ratio, spacing=spacing, prepared=prepared)
                        for C in (1.0, 100.0):
                            model = kq.ConvexAbsentMKLClassifier(C, tol=tol).fit(stack, y)
                            met = [
                                step.n_solves
                                for step in model.history_[0]
                                if step.gap <= tol * step.objective
                            ]
                            counts.append(min(met, default=10_000))
                            totals.append(model.n_solves_)
                            where.append((spacing, prepared, float(ratio), C))
            worst = int(np.argmax(counts))
            report(
                f"C-AMKL, {name}, gap {tol:g}: most SVM solves to it, {len(counts)} fits",
                f"{counts[worst]} ({max(totals)} in all, median {np.median(totals):g}; "
                f"{where[worst]})",
                f"<= {most}",
                counts[worst] <= most,
            )


def against_cones():
    """Compare C-AMKL with the printed problems, (28) and (31), in cvxpy with Clarabel."""
    import cvxpy as cp

    X, y = kq.datasets.make_multiview(200, 20, relevance=np.linspace(1, 0, 20), random_state=0)
    stack = kq.datasets.make_absent(
        kq.ViewKernels().fit_transform(X), 0.5, mechanism="per_sample", random_state=0
    )
    K, observed, factors = factors_of(stack)
    m, n = len(K), len(y)
    patterns = np.unique(observed, axis=0)
    labels = np.where(y == y.max(), 1.0, -1.0)

    def conic(formulation):
        gamma, u, b0 = cp.Variable(m, nonneg=True), cp.Variable(), cp.Variable()
        if formulation == "exact":
            w = [cp.Variable(F.shape[1]) for F in factors]
            scores = sum(F @ v for F, v in zip(factors, w, strict=True)) + b0
            cost = [cp.quad_over_lin(v, gamma[p]) for p, v in enumerate(w)]
        else:
            alpha = cp.Variable(n)
            scores = K.sum(axis=0) @ alpha + b0
            cost = [cp.quad_over_lin(F.T @ alpha, gamma[p]) for p, F in enumerate(factors)]
        each = cp.Variable(m)
        limits = [cost[p] <= each[p] for p in range(m)] + [0.5 * patterns @ each <= u]
        hinge = cp.sum(cp.pos(1 - cp.multiply(labels, scores)))
        problem = cp.Problem(cp.Minimize(u + hinge), [*limits, cp.sum(gamma) == 1])
        seconds, value = cpu_seconds(lambda: problem.solve(solver=cp.CLARABEL), repeats=1)
        return value, seconds

    for formulation, tol, least, close in (
        ("exact", 1e-6, 100, 1e-6),
        ("shared_coef", 1e-6, 50, 1e-4),
    ):
        value, theirs = conic(formulation)

        def ours(formulation=formulation, tol=tol):
            return kq.mkl.solve_convex_absent_mkl(
                K, labels, observed=observed, tol=tol, formulation=formulation
            )

        ours()
        seconds, solution = cpu_seconds(ours, repeats=5)
        difference = abs(solution.objective - value) / value
        report(
            f"C-AMKL {formulation}, n = 200, M = 20: times as fast as cvxpy + Clarabel",
            f"{theirs / seconds:.0f} ({seconds * 1e3:.1f} ms, {solution.n_solves} solves)",
            f">= {least}",
            theirs / seconds >= least,
        )
        report(
            "    objectives differ by, relatively",
            f"{difference:.1e} (certified gap {solution.relative_gap:.0e})",
            f"<= {close:g}",
            difference <= close,
        )


def against_simple_mkl():
    """Compare the cost of C-AMKL with that of SimpleMKL on the same zero-filled stack."""
    K, y = noisy_sines(1000)
    for ratio in (0.1, 0.5, 0.9):
        stack = kq.datasets.make_absent(
            kq.KernelStack(K), ratio, mechanism="per_sample", random_state=0
        )
        models = kq.SimpleMKLClassifier(), kq.ConvexAbsentMKLClassifier()
        times, fitted = best_times(
            [lambda model=model, stack=stack: model.fit(stack, y) for model in models], repeats=5
        )
        report(
            f"C-AMKL, n = 1000, M = 20, {ratio:.0%} absent: times one SimpleMKL fit",
            f"{times[1] / times[0]:.2f} ({times[1]:.2f} s, {fitted[1].n_solves_} solves)",
            "<= 3",
            times[1] <= 3 * times[0],
        )


def kelley(K, observed, y, C, tol, max_solves=400):
    """Return the SVM solves that plain cutting planes take for C-AMKL."""
    svm = svm_with_margins(K, y, C)
    polytope = Polytope(observed.astype(float))
    k, m = polytope.A.shape
    point, best, linear, forms = None, np.inf, [], []
    weights = polytope.start()
    while svm.work.n_solves < max_solves:
        point = svm.solve(weights, point, tol)
        best = min(best, point.primal)
        linear.append(point.linear)
        forms.append(point.q)
        unit = best
        result = linprog(
            np.append(np.zeros(m), 1.0),
            A_ub=np.vstack(
                [
                    np.column_stack([-0.5 * np.array(forms) / unit, -np.ones(len(forms))]),
                    np.column_stack([polytope.A, np.zeros(k)]),
                ]
            ),
            b_ub=np.concatenate([-np.array(linear) / unit, np.ones(k)]),
            bounds=[(0.0, None)] * m + [(None, None)],
            method="highs",
        )
        if best - unit * result.fun <= tol * best:
            break
        weights = result.x[:m]
    return svm.work.n_solves


def against_cutting_planes(directory):
    """Count the solves of cutting planes, which the paper proposes as future work."""
    for name in SETS[:3]:
        data = load(directory, name)
        if data is None:
            continue
        X, y = data
        for ratio in (0.2, 0.5):
            stack = absent_bank(X, ratio, spacing="log")
            K, observed = stack.training_gram()
            counts = []
            for tol in (1e-3, 1e-6):
                newton = kq.mkl.solve_convex_absent_mkl(K, y, observed=observed, tol=tol).n_solves
                counts.append(f"{kelley(K, observed, y, 1.0, tol)} / {newton}")
            print(
                f"     {name}, {ratio:.0%} absent, SVM solves of cutting planes / Newton to 1e-3: "
                f"{counts[0]}, to 1e-6: {counts[1]}",
                flush=True,
            )


def digit_stacks(n=500, ratio=0.5):
    """Yield stacks of 20 Gaussian kernels of digits with absent kernels, and complete ones."""
    rng = np.random.default_rng(0)
    X, _ = load_digits(return_X_y=True)
    X = StandardScaler().fit_transform(X[rng.permutation(len(X))[:n]])
    views = {f"pixels_{v}": X[:, rng.permutation(64)[:16]] for v in range(20)}
    stacks = {"20 subsets of pixels": kq.ViewKernels().fit_transform(views)}
    for spacing in ("log", "linear"):
        bank = kq.gaussian_bank(20, 2**-3, 2**3, spacing=spacing)
        stacks[f"20 widths, {spacing}"] = kq.ViewKernels(bank).fit_transform({"digits": X})
    for name, stack in stacks.items():
        yield (
            name,
            kq.datasets.make_absent(stack, ratio, mechanism="per_sample", random_state=0),
            stack,
        )


def fillers():
    for name, stack, complete in digit_stacks():
        kq.completion.EMFill().fit(stack[:20])  # compiles
        for filler in (kq.completion.MeanFill(), kq.completion.EMFill(), kq.completion.SVTFill()):
            start = time.process_time()
            filled = filler.fit_transform(stack).gram()
            seconds = time.process_time() - start
            error = np.linalg.norm(filled - complete.gram()) / np.linalg.norm(complete.gram())
            iterations = f", {filler.n_iter_} iterations" if hasattr(filler, "n_iter_") else ""
            report(
                f"{name}: {type(filler).__name__}, n = 500, 50 % absent, seconds",
                f"{seconds:.1f}{iterations}, relative error of the kernels {error:.3f}",
                "< 120",
                seconds < 120 and getattr(filler, "converged_", True),
            )


def methods():
    """Return the methods to compare, but SVT filling, which would take longer than all others."""
    centred = CentreKernels(), ScaleKernels()
    simple = kq.SimpleMKLClassifier()
    return {
        "uniform, zero filling": (*centred, kq.mkl.UniformMKLClassifier()),
        "observed fraction": (*centred, kq.ObservedFractionMKLClassifier()),
        "SimpleMKL, zero filling": (*centred, kq.completion.ZeroFill(), simple),
        "SimpleMKL, mean filling": (ScaleKernels(), kq.completion.MeanFill(), simple),
        "SimpleMKL, EM filling": (*centred, kq.completion.EMFill(), simple),
        "MMAF": (*centred, kq.mkl.MaxMarginAbsentClassifier()),
        "I-AMKL": (*centred, kq.mkl.IterativeAbsentMKLClassifier()),
        "I-AMKL-lambda": (*centred, kq.mkl.PenalizedAbsentMKLClassifier()),
        "C-AMKL": (*centred, kq.ConvexAbsentMKLClassifier()),
        "C-AMKL, Eq. (31)": (*centred, kq.ConvexAbsentMKLClassifier(formulation="shared_coef")),
        "C-AMKL, radius": (
            CentreKernels(),
            ScaleKernels("unit_trace"),
            kq.ConvexAbsentMKLClassifier(),
        ),
    }


def accuracy(directory, repetitions=3):
    """Compare the test accuracy of the methods, C tuned in the training part by 5 folds."""
    ratios = (0.2, 0.5, 0.8)
    names = list(methods())
    means = {name: [] for name in names}
    for data_name in SETS[:3]:
        data = load(directory, data_name)
        if data is None:
            continue
        X, y = data
        figures = np.zeros((len(names), len(ratios), repetitions))
        for k, ratio in enumerate(ratios):
            for seed in range(repetitions):
                stack = absent_bank(X, ratio, seed=seed)
                train, test = train_test_split(
                    np.arange(len(y)), train_size=0.6, stratify=y, random_state=seed
                )
                for row, steps in enumerate(methods().values()):
                    # unit trace leaves kernels n times smaller
                    unit = 1.0 if "unit_trace" not in str(steps) else float(len(train))
                    pipeline = make_pipeline(*steps)
                    grid = {f"{pipeline.steps[-1][0]}__C": unit * np.array([0.5, 4.0, 32.0])}
                    search = kq.MKLSearchCV(pipeline, grid).fit(stack[train], y[train])
                    figures[row, k, seed] = 100 * search.score(stack[test], y[test])
        print(f"     {data_name}: test accuracy in % at {ratios} absent, and mean", flush=True)
        for name, row in zip(names, figures, strict=True):
            by_ratio = " ".join(f"{value:6.1f}" for value in row.mean(axis=1))
            means[name].append(row.mean(axis=(0)))
            print(f"         {name:<26} {by_ratio} {row.mean():7.2f}", flush=True)
    if means[names[0]]:
        print("     mean of the sets, and its standard deviation over the repetitions")
        for name, row in means.items():
            each = np.mean(row, axis=0)
            print(f"         {name:<26} {each.mean():6.2f} {each.std(ddof=1):5.2f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", default=os.environ.get("KERNELQUILT_DATA"))
    directory = parser.parse_args().data_dir
    against_cones()
    against_simple_mkl()
    solves(directory)
    against_cutting_planes(directory)
    fillers()
    accuracy(directory)
