"""Kernel ridge regressions that see one view each, exact or in the span of landmarks."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import cholesky, eigh, solve_triangular

from kernelquilt._messages import quoted, warn_user
from kernelquilt._typing import Bools, Floats, Indices
from kernelquilt.kernels.centring import Centring
from kernelquilt.quilt.ridge import (
    PENALTIES,
    FittedRidge,
    RidgeFit,
    fit_ridge,
    solve_spectral_loo,
)
from kernelquilt.quilt.ridge_classifier import Targets

LEAST_SAMPLES = 3  # that a view must have to be of use
JITTER = 1e-9  # of the mean diagonal of the landmarks, for their Cholesky factor
NEGLIGIBLE = 1e-12  # eigenvalue, in units of the largest, below which a direction is rounding


@dataclass(frozen=True)
class ViewRidge:
    """The ridge of one view.

    Attributes
    ----------
    rows : ndarray of shape (n_v,)
        Training samples whose similarities it needs: those that have the view.
    centring : Centring
        Of the kernel among them.
    ridge : FittedRidge
        On the centred kernel.
    """

    rows: Indices
    centring: Centring
    ridge: FittedRidge

    @property
    def fit(self) -> RidgeFit:
        """Penalty and leave-one-out scores of the samples that have the view."""
        return self.ridge.fit

    def scores(self, kernel: Floats) -> Floats:
        """Return scores (n_rows, c) from similarities (n_rows, n_v) with the samples `rows`."""
        return self.ridge.scores(self.centring.apply(kernel)[0])


@dataclass(frozen=True)
class LandmarkRidge:
    """The ridge of one view in the span of some of its samples.

    Attributes
    ----------
    rows : ndarray of shape (m,)
        The landmarks.
    projection : ndarray of shape (m, c)
        What turns similarities with the landmarks into scores.
    bias : ndarray of shape (c,)
        What is added.
    fit : RidgeFit
        Penalty and leave-one-out scores of the samples that have the view.
    """

    rows: Indices
    projection: Floats
    bias: Floats
    fit: RidgeFit

    def scores(self, kernel: Floats) -> Floats:
        """Return scores (n_rows, c) from similarities (n_rows, m) with the landmarks."""
        return np.asarray(kernel @ self.projection + self.bias)


def fit_view_ridge(kernel: Floats, rows: Indices, targets: Targets) -> ViewRidge:
    """Fit the ridge of a view.

    Parameters
    ----------
    kernel : ndarray of shape (n_v, n_v)
        Kernel of the samples that have the view.
    rows : ndarray of shape (n_v,)
        These samples.
    targets : Targets of n_v samples

    Returns
    -------
    ViewRidge
    """
    centring = Centring.of(kernel, np.ones(len(rows), dtype=bool), targets.copies)
    ridge = fit_ridge(
        centring.apply(kernel)[0],
        targets.Y,
        sample_weight=targets.weight,
        held_out=targets.held_out,
    )
    return ViewRidge(rows, centring, ridge)


def fit_landmark_ridge(
    kernel: Floats, landmarks: Indices, rows: Indices, targets: Targets
) -> LandmarkRidge:
    """Fit the ridge of a view in the span of landmarks.

    Parameters
    ----------
    kernel : ndarray of shape (n_v, m)
        Similarities of the samples that have the view with the landmarks.
    landmarks : ndarray of shape (m,)
        Positions of the landmarks among these samples.
    rows : ndarray of shape (n_v,)
        These samples.
    targets : Targets of n_v samples

    Returns
    -------
    LandmarkRidge
    """
    among = kernel[landmarks].astype(np.float64)
    among = (among + among.T) / 2
    among[np.diag_indices(len(among))] += JITTER * max(float(among.diagonal().mean()), 1e-300)
    factor = cholesky(among, lower=True, check_finite=False)
    features = solve_triangular(factor, kernel.T, lower=True, check_finite=False).T
    share = targets.copies / targets.copies.sum()
    mean = share @ features
    features = features - mean
    size = float(share @ np.square(features).sum(axis=1))
    scale = 1.0 / np.sqrt(size) if size > 0 else 0.0
    features = np.column_stack([scale * features, np.ones(len(features))])
    weighted = np.sqrt(targets.weight)[:, None] * features
    s, V = eigh(weighted.T @ weighted, driver="evd", check_finite=False)
    kept = s > NEGLIGIBLE * s[-1]
    U = weighted @ (V[:, kept] / np.sqrt(s[kept]))
    fit = solve_spectral_loo(U, s[kept], targets.Y, PENALTIES, targets.weight, targets.held_out)
    coef = features.T @ fit.coef
    whitened = scale * coef[:-1]
    projection = solve_triangular(factor, whitened, lower=True, trans="T", check_finite=False)
    return LandmarkRidge(rows[landmarks], projection, coef[-1] - mean @ whitened, fit)


def usable_views(owner: str, names: tuple[str, ...], counts: Indices) -> Bools:
    """Return which kernels (M,) enough samples have; warn of the others.

    Parameters
    ----------
    owner : str
        Name of the estimator, for the error if there are none.
    names : tuple of M str
        Names of the kernels.
    counts : ndarray of int of shape (M,)
        How many training samples have each.

    Returns
    -------
    used : ndarray of bool of shape (M,)
    """
    used = np.asarray(counts >= LEAST_SAMPLES)
    if not used.any():
        raise ValueError(
            f"{owner} needs a view that at least {LEAST_SAMPLES} training samples have; the "
            f"{len(names)} kernels are observed for at most {counts.max()} samples"
        )
    few = [
        f"{name} ({count})"
        for name, count, ok in zip(names, counts, used, strict=True)
        if not ok and count
    ]
    if few:
        warn_user(
            f"{len(few)} of {len(names)} kernels are observed for less than {LEAST_SAMPLES} "
            f"training samples and therefore ignored, now and in new data: {quoted(few)}"
        )
    return used


def loo_scores(ridges: list[Any], rows: list[Indices], n: int, n_outputs: int) -> Floats:
    """Return leave-one-out scores (V, n, c) of ridges, zero for samples without the view.

    Parameters
    ----------
    ridges : list of V ridges, or None for views of no use
    rows : list of V ndarrays of int
        The samples that have each view.
    n, n_outputs : int

    Returns
    -------
    scores : ndarray of shape (V, n, c)
    """
    scores = np.zeros((len(ridges), n, n_outputs))
    for out, ridge, having in zip(scores, ridges, rows, strict=True):
        if ridge is not None:
            out[having] = ridge.fit.loo
    return scores
