"""What the classifier and the regressor share: a quilt fitted to samples in any form."""

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions

from kernelquilt._typing import Floats, Indices
from kernelquilt.kernels.inputs import KernelInput, Samples, fit_input
from kernelquilt.quilt.model import Quilt, TransferCompletion, fit_quilt
from kernelquilt.quilt.ridge_classifier import Targets
from kernelquilt.quilt.space.gram_completion import complete_grams
from kernelquilt.quilt.space.transfer import solve_transfer
from kernelquilt.quilt.space.views import (
    LANDMARK_CONSTRAINTS,
    ViewFeatures,
    check_feature_memory,
    fit_views,
    usable_views,
)
from kernelquilt.quilt.space.weighted import kernels_of
from kernelquilt.quilt.stacking import StackingWeights

POINTS = 3  # landmarks of all views together, for each landmark of a view

CONSTRAINTS: dict[str, Any] = {
    **LANDMARK_CONSTRAINTS,
    "kernels": "no_validation",
    "views": "no_validation",
    "prepare": [StrOptions({"auto"}), None],
    "completion": [HasMethods(["fit_transform", "transform"]), None],
    "pattern": ["boolean"],
    "experts": "no_validation",
    "cross_fit": ["boolean"],
    "max_memory": [Interval(Real, 0, None, closed="neither")],
    "n_jobs": [Integral, None],
    "random_state": ["random_state"],
}


@dataclass(frozen=True)
class FittedQuilt:
    """A quilt, and which of the training samples and kernels it was fitted to.

    Attributes
    ----------
    views : ViewFeatures
        From samples to the features of the kernels in use.
    quilt : Quilt
        On these features.
    samples : ndarray of int
        Training samples by which it was tuned.
    """

    views: ViewFeatures
    quilt: Quilt
    samples: Indices

    @property
    def input(self) -> KernelInput:
        """The landmarks."""
        return self.views.input

    @property
    def kernels(self) -> Indices:
        """Kernels in use."""
        return self.views.kernels

    @property
    def entries_per_row(self) -> int:
        """Numbers that are held for each row while predicting."""
        points = 0 if self.quilt.joint is None else len(self.quilt.joint.lengths)
        return 4 * self.views.n_features + points

    def scores(self, rows: Any) -> tuple[Floats, Floats]:
        """Return scores (1 or 2, n_rows, c) and (M, n_rows, c) of rows in their container."""
        Z, observed = self.views.of(rows)
        return self.quilt.scores(Z, observed, self.views.lengths(rows, Z, observed))


def fit_to_samples(estimator: Any, data: Samples, targets: Targets) -> tuple[FittedQuilt, Targets]:
    """Fit the quilt of an estimator, and return the targets of the samples that tune it.

    Parameters
    ----------
    estimator : QuiltClassifier or QuiltRegressor
    data : MultiView or KernelStack of n samples
    targets : Targets of n samples

    Returns
    -------
    fitted : FittedQuilt
    targets : Targets
        Of ``fitted.samples``.
    """
    rng = check_random_state(estimator.random_state)
    n_landmarks = estimator.n_landmarks if estimator.completion is None else len(data)
    samples = np.flatnonzero(targets.copies > 0)
    check_feature_memory(estimator, data, len(samples), n_landmarks, joint=POINTS)
    held = fit_input(estimator, data, targets.copies)
    counts = held.observed[samples].sum(axis=0)
    used = usable_views(type(estimator).__name__, held.names, counts)
    samples = samples[held.observed[np.ix_(samples, used)].any(axis=1)]
    views, Z = fit_views(
        held,
        data,
        np.flatnonzero(used),
        targets.copies,
        n_landmarks=n_landmarks,
        landmarks=estimator.landmarks,
        rng=rng,
    )
    if len(samples) < len(data):
        data, Z = data[samples], [z[samples] for z in Z]
    observed = held.observed[np.ix_(samples, used)]
    lengths = views.lengths(data, Z, observed)
    part = targets.part(samples)
    if estimator.completion is None:
        kernels = kernels_of(Z)
        transfer, completed = solve_transfer(Z, observed, kernels=kernels, n_jobs=estimator.n_jobs)
        completion: Any = TransferCompletion(transfer)
    else:
        completion, completed = complete_grams(
            clone(estimator.completion), views.names, Z, observed
        )
        kernels = kernels_of(completed)
    own = [
        np.where(present, length, _squares(z))
        for present, length, z in zip(observed.T, lengths, completed, strict=True)
    ]
    quilt = fit_quilt(
        Z,
        observed,
        np.sum(own, axis=0),
        part,
        names=views.names,
        completed=completed,
        kernels=kernels,
        completion=completion,
        points=_points(len(samples), n_landmarks, rng),
        pattern=estimator.pattern,
        n_jobs=estimator.n_jobs,
    )
    return FittedQuilt(views.forget_others(), quilt, samples), part


def _squares(z: Floats) -> Floats:
    return np.asarray(np.einsum("ij,ij->i", z, z))


def _points(n: int, n_landmarks: int, rng: np.random.RandomState) -> Indices:
    """Return the landmarks of all views together."""
    count = POINTS * n_landmarks
    return np.arange(n) if count >= n else np.sort(rng.choice(n, count, replace=False))


def store_attributes(
    estimator: Any, fitted: FittedQuilt, early: StackingWeights, late: StackingWeights
) -> None:
    """Keep a quilt and what it has found out as attributes of its estimator."""
    fitted.input.describe(estimator)
    estimator._fitted = fitted
    quilt, used, M = fitted.quilt, fitted.kernels, len(fitted.input.names)
    estimator.quilt_, estimator.used_kernels_, estimator.used_samples_ = (
        quilt,
        used,
        fitted.samples,
    )
    estimator.early_stacking_, estimator.late_stacking_ = early, late
    estimator.expert_weights_ = early.weights
    estimator.expert_gap_ = quilt.weighted.gap
    estimator.kernel_weights_, estimator.reliability_ = np.zeros(M), np.zeros(M)
    estimator.kernel_weights_[used] = quilt.weighted.kernel_weights
    estimator.reliability_[used] = late.weights[: len(used)]
    estimator.pattern_reliability_ = float(late.weights[-1]) if estimator.pattern else 0.0
    estimator.view_transfer_ = np.full((M, M), np.nan)
    transfer = quilt.completion.shares_explained
    if transfer is not None:
        estimator.view_transfer_[np.ix_(used, used)] = transfer
    np.fill_diagonal(estimator.view_transfer_, 1.0)
