"""SVMs and MKL on factors against scikit-learn's LinearSVC, in one run.

    python benchmarks/factors.py [svm] [mkl] [path] [accuracy]

LinearSVC(loss="hinge", dual=True) is given the tolerance, of a few, at which it is fastest among
those whose primal value (with the best bias for its weights) is within 1e-3 of ours. Seconds are
CPU seconds of one thread; only ratios mean something on a busy machine. "accuracy" needs
``letter.npz`` and ``uci_multiple_features.npz`` in the directory named by KERNELQUILT_DATA.
"""

import os
import resource
import sys
import time
import warnings
from functools import partial
from pathlib import Path

import numpy as np
from sklearn.svm import LinearSVC

import kernelquilt as kq
from kernelquilt.core.limits import single_threaded_blas
from kernelquilt.core.svm.dual import best_bias, signed_bounds
from kernelquilt.core.svm.factor_dual import FactorDual
from kernelquilt.core.svm.factor_reading import FactorReader

VIEWS, RANK, HIDDEN, COLUMNS = 5, 200, 6, 20


def views_of(n, seed=0):
    """Return views of hidden factors and labels, a tenth of them wrong."""
    rng = np.random.default_rng(seed)
    hidden = rng.standard_normal((n, HIDDEN))
    score = hidden[:, 0] * hidden[:, 1] + hidden[:, 2] + 0.5 * np.sin(2 * hidden[:, 3])
    y = np.where(score > np.median(score), 1.0, -1.0)
    y[rng.random(n) < 0.1] *= -1
    made = {}
    for p in range(VIEWS):
        mixed = hidden @ rng.standard_normal((HIDDEN, COLUMNS))
        made[f"view {p}"] = mixed + rng.standard_normal((n, COLUMNS))
    return made, y


def factors_of(n):
    """Return float32 factors of Gaussian kernels on landmarks, and labels."""
    views, y = views_of(n)
    maps = kq.EmpiricalKernelMap(
        kernels=kq.Gaussian(),
        method="nystroem",
        n_components=RANK,
        factors=True,
        dtype=np.float32,
        random_state=0,
    )
    start = time.process_time()
    # the widths of Gaussian kernels come from all pairs, so that a part of the samples has to do
    maps.fit({name: view[:5000] for name, view in views.items()})
    factors = maps.transform(views)
    explained = factors.explained_trace.min()
    seconds = time.process_time() - start
    print(f"n = {n}: factors of rank {factors.ranks.sum()}, {seconds:.1f} s, {explained:.3f}")
    return factors, y


def cpu(call):
    start = time.process_time()
    result = call()
    return result, time.process_time() - start


def primal(X, y, w, C):
    f = y - X @ w
    return 0.5 * w @ w + best_bias(f, *signed_bounds(y, np.full(len(y), C)))[1]


def linear_svc(X, y, C, value):
    """Return the CPU seconds of the fastest LinearSVC that gets to within 1e-3 of a value."""
    best = np.inf
    for tol, max_iter in ((1.0, 1000), (0.3, 1000), (0.1, 1000), (0.01, 3000), (0.001, 3000)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = LinearSVC(C=C, loss="hinge", dual=True, tol=tol, max_iter=max_iter)
            model, seconds = cpu(lambda model=model: model.set_params(random_state=0).fit(X, y))
        reached = primal(X, y, model.coef_[0], C)
        print(f"    LinearSVC tol={tol:g}: {seconds:.2f} s, primal {reached / value - 1:+.1e}")
        if reached <= (1 + 1e-3) * value:
            best = min(best, seconds)
            break
    return best


def svm():
    factors, y = factors_of(20_000)
    held = factors.training_factors()
    weights = np.full(VIEWS, 1 / VIEWS)
    X = np.asarray(held.Z * np.sqrt(held.spread(weights)), dtype=np.float64)
    warm_up(held, y)
    for C in (1.0, 100.0):
        bounds = signed_bounds(y, np.full(len(y), C))

        def solve(bounds=bounds):
            held.__dict__.pop("diag", None)
            state = FactorDual(FactorReader(held), weights, y, *bounds, np.zeros(len(y)))
            state.solve(1e-3)
            return state

        state, seconds = cpu(solve)
        print(f"C = {C:g}: {seconds:.2f} s, gap {state.relative_gap:.1e}, "
              f"{state.reader.n_passes:.0f} passes, {state.n_steps} Newton steps")  # fmt: skip
        theirs = linear_svc(X, y, C, state.dual + state.gap)
        print(f"  LinearSVC / ours = {theirs / seconds:.2f}")


def warm_up(held, y):
    """Compile."""
    part = kq.LowRankStack([np.array(held.Z[:300])])
    kq.mkl.UniformMKLClassifier(C=1000.0).fit(part, y[:300])


def mkl():
    times = {}
    for n in (5_000, 20_000, 100_000):
        factors, y = factors_of(n)
        if not times:
            warm_up(factors.training_factors(), y)
        model, times[n] = cpu(lambda data=factors, y=y: kq.SimpleMKLClassifier().fit(data, y))
        relative = model.duality_gap_ / model.objective_
        print(f"l1-MKL n = {n}: {times[n]:.1f} s, relative gap {relative:.1e}, {model.n_solves_} "
              f"solves, {model.n_passes_:.0f} passes, weights {model.weights_.round(3)}, peak "
              f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB")  # fmt: skip
    slope = np.polyfit(np.log(list(times)), np.log(list(times.values())), 1)[0]
    print(f"slope in n: {slope:.2f}")
    Z = factors.training_factors()
    weights = np.full(VIEWS, 1 / VIEWS)
    state = FactorDual(
        FactorReader(Z), weights, y, *signed_bounds(y, np.ones(len(y))), np.zeros(len(y))
    )
    state.solve(1e-3)
    X = np.asarray(Z.Z * np.sqrt(Z.spread(weights)), dtype=np.float64)
    theirs = linear_svc(X, y, 1.0, state.dual + state.gap)
    print(f"l1-MKL / one LinearSVC at n = {n}: {times[n] / theirs:.1f}")


def path():
    factors, y = factors_of(20_000)
    warm_up(factors.training_factors(), y)
    Cs = np.logspace(-2, 1, 9)
    models, along = cpu(lambda: kq.mkl_path(kq.SimpleMKLClassifier(), factors, y, Cs=Cs))
    alone, apart = cpu(lambda: [kq.SimpleMKLClassifier(C).fit(factors, y) for C in Cs])
    passes = [sum(model.n_passes_ for model in each) for each in (models, alone)]
    print(f"path of 9: {passes[0]:.0f} passes, {along:.1f} s; alone {passes[1]:.0f}, {apart:.1f} "
          f"s; ratios {passes[1] / passes[0]:.1f} and {apart / along:.1f}")  # fmt: skip
    print("alone, by C:", " ".join(f"{model.n_passes_:.0f}" for model in alone))
    equal = all((a.dual_coef_ == b.dual_coef_).all() for a, b in zip(models, alone, strict=True))
    print("the path has the same bits:", equal)


def sets():
    """Yield names, views, labels and the sizes to train on; letter as four views of 4 columns."""
    folder = Path(os.environ["KERNELQUILT_DATA"])
    with np.load(folder / "letter.npz") as data:
        X, y = data["X"].astype(float), data["y"]
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    views = {f"columns {k}": X[:, k : k + 4] for k in range(0, 16, 4)}
    yield "letter", kq.MultiView(views), y, (4000, 14_000)
    with np.load(folder / "uci_multiple_features.npz") as data:
        blocks = [data[name].astype(float) for name in data.files if data[name].ndim == 2]
        y = data["y"]
    views = [block / np.maximum(block.std(axis=0), 1e-9) for block in blocks]
    yield "mfeat", kq.MultiView(views), y, (1000,)


def accuracy():
    """Compare 500 landmarks a view with the kernels themselves where there are up to 4000."""
    for name, views, y, sizes in sets():
        order = np.random.default_rng(0).permutation(len(y))
        test = order[-4000 if name == "letter" else -1000 :]
        for n in sizes:
            train = order[:n]
            for estimator in (kq.SimpleMKLClassifier(10.0), kq.LpMKLClassifier(10.0)):
                for landmarks in (500, None):
                    if landmarks is None and n > 4000:
                        continue
                    estimator.set_params(n_landmarks=landmarks)
                    model, seconds = cpu(partial(estimator.fit, views[train], y[train]))
                    score = 100 * model.score(views[test], y[test])
                    print(f"{name} n = {n} {type(model).__name__} landmarks {landmarks}: "
                          f"{score:.2f} %, {seconds:.0f} s", flush=True)  # fmt: skip


if __name__ == "__main__":
    for name in sys.argv[1:] or ["svm", "mkl", "path"]:
        with single_threaded_blas():
            {"svm": svm, "mkl": mkl, "path": path, "accuracy": accuracy}[name]()
