"""What the lp-MKL ridge classifier and regressor share: fitted weights, and scores of samples."""

from functools import partial
from numbers import Integral, Real
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.utils._param_validation import Interval, StrOptions

from kernelquilt._typing import Floats
from kernelquilt.core.weights.solution import Options, Solution, warn_unless_converged
from kernelquilt.data.sampling import Sample
from kernelquilt.data.targets import Targets
from kernelquilt.data.training import Samples
from kernelquilt.kernels.landmark_features import (
    LANDMARK_CONSTRAINTS,
    check_feature_memory,
    fit_features,
    landmark_count,
)
from kernelquilt.kernels.products import landmark_scores
from kernelquilt.mkl.fitting import progress_reporter
from kernelquilt.mkl.norms.lp import CLOSED_FORM_FROM
from kernelquilt.quilt.space.passes import ridge_sums, weighted_sums
from kernelquilt.quilt.space.ridge import FeatureRidge, RidgeFit
from kernelquilt.quilt.space.weighted import WeightedSums, default_penalty, kernels_of

CONSTRAINTS: dict[str, Any] = {
    "p": [Interval(Real, 1, np.inf, closed="both"), "array-like"],
    "lam": [Interval(Real, 0, np.inf, closed="neither"), None],
    "kernels": "no_validation",
    "views": "no_validation",
    "prepare": [StrOptions({"auto"}), None],
    **LANDMARK_CONSTRAINTS,
    "tol": [Interval(Real, 0, np.inf, closed="neither")],
    "max_iter": [Interval(Integral, 1, None, closed="left")],
    "n_jobs": [Integral, None],
    "random_state": ["random_state"],
    "verbose": ["verbose"],
}


def learn_lp_ridge(
    model: Any, data: Samples, targets: Targets, sample: Sample
) -> tuple[Floats, Targets]:
    """Learn weights and ridge of a model, and keep them as its attributes.

    Parameters
    ----------
    model : LpMKLRidgeClassifier or LpMKLRidgeRegressor
    data : MultiView or KernelStack of n samples
    targets : Targets of n samples
    sample : Sample
        Those in memory.

    Returns
    -------
    loo : ndarray of shape (n_seen, c)
        Leave-one-out scores of the samples that were looked at one by one.
    seen : Targets of n_seen samples
        Theirs.
    """
    exponents = np.atleast_1d(np.asarray(model.p, dtype=np.float64))
    if exponents.ndim != 1 or len(exponents) == 0 or not (exponents >= 1.0).all():
        raise ValueError(
            f"p must be a number, or a list of at least one, each at least 1; got {model.p!r}"
        )
    n_all = int(np.count_nonzero(targets.copies))
    n_landmarks = landmark_count(model, data, n_all)
    check_feature_memory(model, data, n_all, n_landmarks)
    views, Z, _, _ = fit_features(model, data, sample, n_landmarks, least=1, centred=False)
    part, everyone, sums, kernels = sample.targets, sample.everyone, None, None
    if everyone is None:
        kernels = kernels_of(Z)
    else:
        (sums,) = ridge_sums(everyone, weighted_sums, views, name="all views side by side")
    weighted = WeightedSums(np.hstack(Z), [z.shape[1] for z in Z], part, kernels, sums)
    fits = Parallel(model.n_jobs, prefer="threads")(
        delayed(_fit_exponent)(model, float(p), weighted, part) for p in exponents
    )
    best = min(range(len(fits)), key=lambda number: fits[number][2].error)
    model.lam_, solution, ridge, fit = fits[best]
    model.p_ = float(exponents[best])
    model.weights_ = np.zeros(len(views.input.names))
    model.weights_[views.kernels] = solution.weights
    model.objective_ = solution.objective
    model.duality_gap_ = solution.duality_gap
    model.n_iter_, model.n_solves_ = solution.n_iter, solution.n_solves
    model.converged_ = solution.converged
    model.n_passes_ = sample.passes.count
    model.history_ = solution.history
    model.intercept_, model.penalty_ = ridge.bias, ridge.lam
    model.dual_coef_ = None
    if everyone is None:
        model.dual_coef_ = np.zeros((targets.Y.shape[1], len(targets.Y)))
        model.dual_coef_[:, sample.rows] = fit.coef.T / ridge.scale
    model._views = views
    model._coef = [
        made.back(coef)[0]
        for made, coef in zip(views.maps, weighted.by_kernel(ridge.coef), strict=True)
    ]
    warn_unless_converged(type(model).__name__, [solution], model.max_iter)
    return fit.loo, part


def _fit_exponent(
    model: Any, p: float, weighted: WeightedSums, targets: Targets
) -> tuple[float, Solution, FeatureRidge, RidgeFit]:
    """Return penalty and solution of the weights, and the ridge on them."""
    size = weighted.mean_length(targets.copies)
    lam = default_penalty(p, weighted.n_kernels, size) if model.lam is None else model.lam
    options = Options(model.tol, model.max_iter, on_step=progress_reporter(model, f" p={p:g}"))
    solution = weighted.solve(p, lam, options, newton_below=CLOSED_FORM_FROM)
    return lam, solution, *weighted.fit(solution.weights)


def entries_per_row(model: Any) -> int:
    """Return how many kernel entries are held for each row while predicting."""
    return sum(map(len, model._coef))


def lp_ridge_scores(model: Any, rows: Any) -> Floats:
    """Return the scores (n_rows, c) of samples in their container."""
    scores = np.tile(model.intercept_, (len(rows), 1))
    for m, made, coef in zip(model._views.kernels, model._views.maps, model._coef, strict=True):
        if model.weights_[m] > 0 and len(made.columns):
            scores += landmark_scores(
                model.input_, rows, int(m), made.columns, partial(_times, coef)
            )
    return scores


def _times(coef: Floats, kernel: Floats) -> Floats:
    return np.asarray(kernel @ coef)
