"""Ridge regressions that see one view each, in the span of its landmarks."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed

from kernelquilt._typing import Bools, Floats, Indices
from kernelquilt.data.sampling import Sample
from kernelquilt.data.targets import Targets
from kernelquilt.data.training import Samples
from kernelquilt.kernels.landmark_features import check_feature_memory, fit_features, landmark_count
from kernelquilt.kernels.landmark_maps import FeatureMap
from kernelquilt.kernels.products import landmark_scores
from kernelquilt.quilt.space.passes import ridge_sums, view_sums
from kernelquilt.quilt.space.ridge import Sums, fit_feature_ridge


@dataclass(frozen=True)
class ViewRidge:
    """The ridge of one view.

    Attributes
    ----------
    rows : ndarray of shape (m,)
        The landmarks.
    projection : ndarray of shape (m, c)
        What turns similarities with the landmarks into scores.
    bias : ndarray of shape (c,)
        What is added.
    lam : float
        The penalty.
    """

    rows: Indices
    projection: Floats
    bias: Floats
    lam: float

    def scores(self, kernel: Floats) -> Floats:
        """Return scores (n_rows, c) from similarities (n_rows, m) with the landmarks."""
        return np.asarray(kernel @ self.projection + self.bias)


def fit_view_ridge(
    made: FeatureMap, z: Floats, targets: Targets, sums: Sums | None = None
) -> tuple[ViewRidge, Floats]:
    """Fit the ridge of a view.

    Parameters
    ----------
    made : FeatureMap
        Of the view.
    z : ndarray of shape (n_v, D)
        Features of the samples that have it.
    targets : Targets of n_v samples
    sums : Sums, optional
        Of all samples that have it, if these are only some.

    Returns
    -------
    ridge : ViewRidge
    loo : ndarray of shape (n_v, c)
        Leave-one-out scores.
    """
    ridge, fit = fit_feature_ridge(
        z, targets.Y, sample_weight=targets.weight, held_out=targets.held_out, sums=sums
    )
    projection, constant = made.back(ridge.coef)
    return ViewRidge(made.columns, projection, ridge.bias + constant, ridge.lam), fit.loo


class FittedViews(NamedTuple):
    """The ridges of all views of an estimator.

    Attributes
    ----------
    ridges : list of M ViewRidge, None for views of no use
    scores : ndarray of shape (M, n, c)
        Leave-one-out scores, zero for samples without the view.
    observed : ndarray of bool of shape (n, M)
        The samples that the ridges have seen.
    targets : Targets of the n samples
    """

    ridges: list[ViewRidge | None]
    scores: Floats
    observed: Bools
    targets: Targets

    def by_view(self, score: Callable[[Floats, Targets], float]) -> Floats:
        """Return the score (M,) of each ridge on the samples that have its view, nan for None."""
        return np.array(
            [
                np.nan if ridge is None else score(scores[present], self.targets.part(present))
                for ridge, scores, present in zip(
                    self.ridges, self.scores, self.observed.T, strict=True
                )
            ]
        )


def fit_view_ridges(estimator: Any, data: Samples, targets: Targets, sample: Sample) -> FittedViews:
    """Fit the ridges of all views of an estimator.

    Parameters
    ----------
    estimator : LateFusionClassifier or LateFusionRegressor
    data : MultiView or KernelStack of n samples
    targets : Targets of n samples
    sample : Sample
        Those in memory.

    Returns
    -------
    FittedViews
    """
    n_all = int(np.count_nonzero(targets.copies))
    n_landmarks = landmark_count(estimator, data, n_all)
    check_feature_memory(estimator, data, n_all, n_landmarks)
    views, Z, observed, _ = fit_features(estimator, data, sample, n_landmarks)
    sums: list[Any] = [None] * len(Z)
    if sample.everyone is not None:
        sums = ridge_sums(sample.everyone, view_sums, views, name="experts on views")
    present = [np.flatnonzero(each) for each in observed.T]
    with sample.passes.stage("experts on views"):
        found = Parallel(estimator.n_jobs, prefer="threads")(
            delayed(fit_view_ridge)(made, z[rows], sample.targets.part(rows), each)
            for made, z, rows, each in zip(views.maps, Z, present, sums, strict=True)
        )
    estimator.n_passes_ = sample.passes.count
    M = len(views.input.names)
    ridges: list[ViewRidge | None] = [None] * M
    scores = np.zeros((M, *sample.targets.Y.shape))
    for m, rows, (ridge, loo) in zip(views.kernels, present, found, strict=True):
        ridges[m], scores[m, rows] = ridge, loo
    having = np.zeros((len(observed), M), dtype=np.bool_)
    having[:, views.kernels] = observed
    return FittedViews(ridges, scores, having, sample.targets)


def fused_scores(estimator: Any, rows: Any) -> Floats:
    """Return the weighted sum (n_rows, c) of the scores of the views that samples have."""
    total = np.tile(estimator.stacking_.bias, (len(rows), 1))
    for m, (ridge, weight) in enumerate(
        zip(estimator.view_ridges_, estimator.reliability_, strict=True)
    ):
        if ridge is not None and weight > 0:
            total += weight * landmark_scores(estimator.input_, rows, m, ridge.rows, ridge.scores)
    return total


def landmarks_of(ridges: list[ViewRidge | None]) -> int:
    """Return the largest number of landmarks of a view."""
    return max([1, *(len(each.rows) for each in ridges if each is not None)])
