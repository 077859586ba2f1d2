"""Small programmes inside of fits, by the solvers in use and by others.

Run with ``python benchmarks/programmes.py``. The quadratic and linear programmes of a fit are
recorded and solved again by either solver in turn, and so is the whole fit. Times are CPU times,
the best of several repetitions with one BLAS thread.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import time
from contextlib import ExitStack, contextmanager
from unittest import mock

import clarabel
import numpy as np
from scipy import sparse
from scipy.optimize import linprog
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import kernelquilt as kq
from kernelquilt.core.weights import sets
from kernelquilt.mkl.norms.published import cutting_plane
from peers import peak_mb

REPEATS = 5
TOLERANCE = 1e-11  # of Clarabel, so that objectives are exact to about 1e-10
by_daqp, by_simplex = sets.solve_qp, sets._packing_multipliers


def by_clarabel(H, c, lower, G, h, A, b):
    """Solve what `solve_qp` solves."""
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.max_threads = 1
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = TOLERANCE
    scale = max(np.abs(c).max(), 1e-300)
    P = sparse.csc_matrix(np.triu(H / scale))
    rows = sparse.csc_matrix(np.vstack([A, -np.eye(len(c)), G]))
    cones = [clarabel.ZeroConeT(len(b)), clarabel.NonnegativeConeT(len(c) + len(h))]
    right = np.concatenate([b, -lower, h])
    return np.array(clarabel.DefaultSolver(P, c / scale, rows, right, cones, settings).solve().x)


def by_highs(A, q):
    """Solve what the simplex method by hand solves."""
    found = linprog(np.ones(len(A)), A_ub=-A.T, b_ub=-q, method="highs", options=sets.LP_OPTIONS)
    return np.maximum(found.x, 0.0)


def quadratic_value(x, H, c, *constraints):
    return 0.5 * x @ H @ x + c @ x


def linear_value(z, *programme):
    return z.sum()


@contextmanager
def solving(qp=by_daqp, lp=by_simplex):
    """Let these functions solve the programmes."""
    with ExitStack() as stack:
        for module in (sets, cutting_plane):
            stack.enter_context(mock.patch.object(module, "solve_qp", qp))
        stack.enter_context(mock.patch.object(sets, "_packing_multipliers", lp))
        yield


def best_cpu(functions, repeats=REPEATS):
    """Return the least CPU milliseconds of each function, called in turn, and their results."""
    best, results = np.full(len(functions), np.inf), [None] * len(functions)
    for _ in range(repeats):
        for k, function in enumerate(functions):
            start = time.process_time()
            results[k] = function()
            best[k] = min(best[k], 1e3 * (time.process_time() - start))
    return best, results


def compare(name, fit, kind, ours, theirs, value):
    """Print one line: the programmes of a fit, and the fit, by our solver and by another one."""
    programmes = []

    def recorded(*arrays):
        programmes.append([np.array(array) for array in arrays])
        return ours(*arrays)

    def fitted(solver):
        with solving(**{kind: solver}):
            return fit()

    fitted(ours)  # compiles
    fitted(recorded)
    if not programmes:
        print(f"{name:<34} none")
        return
    solvers = [lambda s=s: [s(*programme) for programme in programmes] for s in (ours, theirs)]
    times, (found, other) = best_cpu(solvers)
    values = [
        [value(x, *programme) for x, programme in zip(xs, programmes, strict=True)]
        for xs in (found, other)
    ]
    difference = np.max(np.abs(np.divide(*values) - 1.0))
    whole, _ = best_cpu([lambda s=s: fitted(s) for s in (ours, theirs)])
    rows = max(len(p[3] if kind == "qp" else p[0]) for p in programmes)
    columns = max(len(p[1]) for p in programmes)
    each = times / len(programmes)
    print(
        f"{name:<34} {len(programmes):>4} of {rows:>3} x {columns:<3}"
        f" {each[0]:8.3f} {each[1]:8.3f} ms ({times[1] / times[0]:5.1f} times),"
        f" to {difference:.0e}; fit {whole[0]:6.0f} ms, {100 * times[0] / whole[0]:4.1f} % of it,"
        f" {whole[1] / whole[0]:.2f} times",
        flush=True,
    )


def bank(views, n_kernels):
    """Return Gaussian kernels of many widths for all views."""
    widths = kq.gaussian_bank(-(-n_kernels // len(views.names)), spacing="log")
    stack = kq.ViewKernels(widths).fit_transform(views)
    return stack.select(stack.names[:n_kernels])


def examples():
    """Return views and labels: 569 tumours, and 400 digits, even or odd."""
    tumours, diagnosis = kq.datasets.load_example("wdbc")
    digits, number = kq.datasets.load_example("digits")
    chosen = np.random.default_rng(0).permutation(len(number))[:400]
    scaled = [
        kq.ViewTransformer(StandardScaler()).fit_transform(views)
        for views in (tumours, digits[chosen])
    ]
    return {"wdbc": (scaled[0], diagnosis), "digits": (scaled[1], number[chosen] % 2)}


def programmes_of_fits():
    sets_ = examples()
    absent = {"wdbc": 0.3, "digits": 0.5}
    with_absent, complete = {}, {}
    for n_kernels in (5, 20, 69):
        for name, (views, y) in sets_.items():
            stack = bank(views, n_kernels)
            holes = kq.datasets.make_absent(stack, absent[name], random_state=0)
            with_absent[f"{name}, M = {n_kernels}"] = holes, y
            complete[f"{name}, M = {n_kernels}"] = stack, y
    fits = {
        f"C-AMKL, {name}": (kq.ConvexAbsentMKLClassifier(10.0), *data)
        for name, data in with_absent.items()
    }
    others = {
        "SimpleMKL": kq.SimpleMKLClassifier(10.0),
        "level method": kq.SimpleMKLClassifier(10.0, solver="level"),
        "lp-MKL, p = 1.1": kq.LpMKLClassifier(10.0, p=1.1),
    }
    norms = {
        f"{method}, {name}": (model, *complete[name])
        for method, model in others.items()
        for name in ("wdbc, M = 20", "wdbc, M = 69")
    }
    views, _ = sets_["digits"]
    hundred = kq.datasets.make_absent(bank(views[:100], 5), 0.3, random_state=0)
    completion = {"MKC_sdp, digits, M = 5": (kq.completion.SDPCompletion(), hundred, None)}
    print("Quadratic programmes, rows x weights: DAQP and Clarabel")
    for name, (model, X, y) in (fits | norms | completion).items():
        fit = lambda model=model, X=X, y=y: model.fit(X, y)  # noqa: E731
        compare(name, fit, "qp", by_daqp, by_clarabel, quadratic_value)
    print("Linear programmes, rows x weights: simplex method by hand and HiGHS")
    for name, (model, X, y) in fits.items():
        fit = lambda model=model, X=X, y=y: model.fit(X, y)  # noqa: E731
        compare(name, fit, "lp", by_simplex, by_highs, linear_value)


def agreeing_problem(n, n_views, ratio):
    """Return kernels with absent samples, labels -1 and +1 and the mask (n, n_views)."""
    X, y = kq.datasets.make_multiview(n, n_views, label_noise=0.1, random_state=0)
    rng = np.random.default_rng(0)
    observed = rng.random((n, n_views)) >= ratio
    observed[np.arange(n), rng.integers(0, n_views, n)] = True
    mask = observed.T[:, :, None] & observed.T[:, None, :]
    K = np.where(mask, kq.ViewKernels().fit_transform(X).gram(), 0.0)
    return K, np.where(y == y.max(), 1.0, -1.0), observed


def agreeing_views():
    """Measure the views that are made to agree, and time them against an SVC for each."""
    print("Views that are made to agree, by Clarabel")
    kq.mkl.solve_multiview_svm(*agreeing_problem(50, 3, 0)[:2])
    K, y, _ = agreeing_problem(500, 3, 0)
    before = peak_mb()
    kq.mkl.solve_multiview_svm(K, y)
    memory = 1e6 * (peak_mb() - before) / K.nbytes
    print(f"multi-view SVM, n = 500, 3 views: memory in stacks {memory:.1f}")
    for n in (50, 100, 200, 500):
        for name, n_views, solve in (
            ("SVM-2K", 2, kq.mkl.solve_svm2k),
            ("multi-view SVM", 2, kq.mkl.solve_multiview_svm),
            ("multi-view SVM", 3, kq.mkl.solve_multiview_svm),
        ):
            for ratio in (0, 0.3):
                K, y, observed = agreeing_problem(n, n_views, ratio)

                def together(K=K, y=y, observed=observed, solve=solve):
                    return solve(K, y, observed=observed)

                def alone(K=K, y=y, observed=observed):
                    for kernel, has in zip(K, observed.T, strict=True):
                        svc = SVC(C=1.0, kernel="precomputed", tol=1e-6)
                        svc.fit(kernel[np.ix_(has, has)], y[has])

                times, (solution, _) = best_cpu([together, alone], 3)
                print(
                    f"{name}, n = {n}, {n_views} views, {100 * ratio:.0f} % absent:"
                    f" {times[0]:.0f} ms, {times[0] / times[1]:.0f} times SVC,"
                    f" relative gap {solution.relative_gap:.0e}",
                    flush=True,
                )


if __name__ == "__main__":
    agreeing_views()
    programmes_of_fits()
