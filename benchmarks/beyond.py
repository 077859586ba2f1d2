"""Regression and survival: speed of the solver, and accuracy beside trees and Cox models.

Run with ``python benchmarks/beyond.py [SECTION ...] --data-dir DIRECTORY``; the directory (or the
variable KERNELQUILT_DATA) holds ``communities_crime.npz`` and ``pbc_mayo.npz``, each with views
``view_0``, ``view_1`` and so on. Survival is compared with scikit-survival, which is to be there.
"""

import argparse
import os
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.impute import SimpleImputer
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR

import kernelquilt as kq
from kernelquilt.core.limits import single_threaded_blas
from kernelquilt.core.svm.dual import MAX_ITER, BoxDual
from kernelquilt.core.svm.weighted_svm import CombinedKernel
from kernelquilt.core.weights.solvers import diagonals

KKT = 1e-3  # the tolerance of both solvers


def load(directory, name):
    """Return the views of a set and everything else that its file holds."""
    with np.load(Path(directory or "") / f"{name}.npz") as file:
        columns = dict(file)
    views = {str(each): columns[f"view_{k}"] for k, each in enumerate(columns["view_names"])}
    observed = np.column_stack([~np.isnan(view).all(axis=1) for view in views.values()])
    return kq.MultiView(views, observed), columns


def table_of(X):
    """Return the columns side by side, NaN where a view is absent."""
    return np.column_stack(
        [np.where(X.observed[:, [v]], X[name], np.nan) for v, name in enumerate(X.names)]
    )


def cpu_time(call, repetitions=3):
    """Return the least CPU time of a call."""
    times = []
    for _ in range(repetitions):
        begun = time.process_time()
        call()
        times.append(time.process_time() - begun)
    return min(times)


def solver(directory, splits):
    """SMO for regression against scikit-learn's SVR, on the same kernel and tolerance."""
    rng = np.random.default_rng(0)
    for n in (200, 1000, 2000):
        X = rng.standard_normal((n, 8))
        y = np.sin(X[:, 0]) + 0.5 * X[:, 1] * X[:, 2] + 0.3 * rng.standard_normal(n)
        squares = np.square(X).sum(axis=1)
        K = np.exp(-(squares[:, None] + squares - 2 * X @ X.T) / 16)
        for C in (0.1, 1.0, 10.0, 100.0):

            def ours(C=C, y=y, K=K):
                kernel = CombinedKernel(K[None], np.ones(1), diagonals(K[None]))
                U, b = np.full(len(y), C), np.zeros(len(y))
                BoxDual(kernel, -U, U, b, y.copy(), np.full(len(y), 0.1)).solve(
                    KKT, MAX_ITER, exact=False
                )

            def theirs(C=C, y=y, K=K):
                SVR(kernel="precomputed", C=C, epsilon=0.1, tol=KKT, cache_size=1000).fit(K, y)

            ours()
            one, other = cpu_time(ours), cpu_time(theirs)
            print(f"n = {n:4d}, C = {C:5g}: {1e3 * one:7.1f} ms, SVR {other / one:4.1f} times that")


def solves(directory, splits):
    """SVR solves of `SimpleMKLRegressor` to a relative gap of 1e-3."""
    bank = kq.gaussian_bank(5, 0.25, 4.0, spacing="log")
    for name, target in (
        ("communities_crime", "target"),
        ("pbc_mayo", "time"),
        ("pantheria_trophic", "view_0"),
        ("nutrimouse", "view_0"),
        ("gestational_diabetes", "view_1"),
    ):
        X, columns = load(directory, name)
        y = columns[target]
        if y.ndim > 1:  # a column of the first view, which the others are to tell
            X = X.select([each for each in X.names if each != X.names[int(target[-1])]])
            y = y[:, 0]
        keep = np.flatnonzero(np.isfinite(y) & X.observed.any(axis=1))[:600]
        X, y = kq.ViewTransformer().fit_transform(X[keep]), y[keep]
        y = (y - y.mean()) / y.std()
        for C in (1.0, 100.0):
            model = kq.SimpleMKLRegressor(C, kernels=bank).fit(X, y)
            gap = model.duality_gap_ / model.objective_
            print(
                f"{name}, n = {len(y)}, {len(model.weights_)} kernels, C = {C:g}: "
                f"{model.n_solves_} solves, relative gap {gap:.1e}"
            )


def crime(directory, splits):
    """R2 on communities_crime, 60 % for training, beside trees on NaN."""
    X, columns = load(directory, "communities_crime")
    y, table = columns["target"], table_of(X)
    scores = {}
    for seed in range(splits):
        order = np.random.default_rng(seed).permutation(len(y))
        train, test = np.split(order, [int(0.6 * len(y))])
        models = {
            "QuiltRegressor": (kq.QuiltRegressor(random_state=seed), X),
            "HistGradientBoostingRegressor": (
                HistGradientBoostingRegressor(random_state=seed),
                table,
            ),
            "RandomForestRegressor": (RandomForestRegressor(400, random_state=seed), table),
        }
        for name, (model, data) in models.items():
            found = model.fit(data[train], y[train]).score(data[test], y[test])
            scores.setdefault(name, []).append(found)
    tell(scores, "R2")


def survival(directory, splits):
    """Concordance and integrated Brier score on pbc_mayo beside scikit-survival."""
    from sksurv.ensemble import GradientBoostingSurvivalAnalysis, RandomSurvivalForest
    from sksurv.linear_model import CoxPHSurvivalAnalysis
    from sksurv.metrics import concordance_index_censored, integrated_brier_score
    from sksurv.util import Surv

    X, columns = load(directory, "pbc_mayo")
    y = Surv.from_arrays(columns["event"], columns["time"])
    table = table_of(X)
    concordances, brier = {}, {}
    folds = StratifiedShuffleSplit(splits, train_size=0.6, random_state=0)
    for seed, (train, test) in enumerate(folds.split(table, columns["event"])):
        models = {
            "QuiltSurvival": (kq.QuiltSurvival(random_state=seed), X),
            "RandomSurvivalForest": (
                make_pipeline(
                    SimpleImputer(),
                    RandomSurvivalForest(400, min_samples_leaf=5, random_state=seed),
                ),
                table,
            ),
            "GradientBoostingSurvivalAnalysis": (
                make_pipeline(SimpleImputer(), GradientBoostingSurvivalAnalysis(random_state=seed)),
                table,
            ),
            "CoxPHSurvivalAnalysis, ridge": (
                make_pipeline(SimpleImputer(), StandardScaler(), CoxPHSurvivalAnalysis(alpha=10.0)),
                table,
            ),
        }
        # times at which all of them, and the censoring of the test samples, are known
        inside = y["time"][test] < y["time"][train].max()
        test = test[inside]
        times = np.quantile(y["time"][test][y["event"][test]], np.linspace(0.05, 0.95, 40))
        for name, (model, data) in models.items():
            model.fit(data[train], y[train])
            truth = y[test]
            found = concordance_index_censored(
                truth["event"], truth["time"], model.predict(data[test])
            )[0]
            concordances.setdefault(name, []).append(found)
            functions = model.predict_survival_function(data[test])
            estimates = np.array([each(times) for each in functions])
            found = integrated_brier_score(y[train], truth, estimates, times)
            brier.setdefault(name, []).append(found)
    tell(concordances, "concordance")
    tell(brier, "integrated Brier score")


def tell(scores, what):
    """Print means, and in how many splits the first method is not worse than each other one."""
    first = np.array(next(iter(scores.values())))
    sign = -1.0 if "Brier" in what else 1.0
    for name, values in scores.items():
        values = np.array(values)
        error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
        ahead = np.count_nonzero(sign * (first - values) >= 0)
        print(f"{what}, {name}: {values.mean():.4f} +- {error:.4f}, first ahead in {ahead}")


SECTIONS = {each.__name__: each for each in (solver, solves, crime, survival)}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sections", nargs="*", choices=[*SECTIONS, []], default=[])
    parser.add_argument("--data-dir", default=os.environ.get("KERNELQUILT_DATA"))
    parser.add_argument("--splits", type=int, default=10)
    arguments = parser.parse_args()
    with warnings.catch_warnings(), single_threaded_blas():
        warnings.simplefilter("ignore", UserWarning)
        for section in arguments.sections or SECTIONS:
            print(f"{section}: {SECTIONS[section].__doc__}")
            SECTIONS[section](arguments.data_dir, arguments.splits)
