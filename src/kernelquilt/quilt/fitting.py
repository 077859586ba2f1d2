"""What the classifier and the regressor share: a quilt fitted to samples in any form."""

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions

from kernelquilt._typing import Floats, Indices
from kernelquilt.data.sampling import MOST_SAMPLES, Sample
from kernelquilt.data.targets import Targets
from kernelquilt.data.training import Samples
from kernelquilt.kernels.inputs import KernelInput
from kernelquilt.kernels.landmark_features import (
    LANDMARK_CONSTRAINTS,
    ViewFeatures,
    check_feature_memory,
    fit_features,
    joint_landmark_count,
    landmark_count,
)
from kernelquilt.kernels.subsets import samples_in
from kernelquilt.quilt.space.fitting import copies_of, fit_to_features
from kernelquilt.quilt.space.model import Quilt, TransferCompletion
from kernelquilt.quilt.space.regressions import Copies
from kernelquilt.quilt.space.transfer import solve_transfer
from kernelquilt.quilt.space.weighted import kernels_of
from kernelquilt.quilt.stacking import StackingWeights
from kernelquilt.quilt.subsets import quilt_scores

JUDGES = 3000  # samples that are left out in turn, where not all are landmarks

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
    "verbose": ["verbose"],
}


@dataclass
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
    copies : Copies or None
        As how many copies they count, if the completion can be made again of them.
    """

    views: ViewFeatures
    quilt: Quilt
    samples: Indices
    copies: Copies | None

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

    def __getstate__(self) -> dict[str, Any]:
        state = dict(vars(self))
        if self.quilt.made_of_landmarks:
            state["views"] = self.views.without_projections()
        return state

    def made_again(self) -> "FittedQuilt":
        """Return this one, with what a pickle does not keep: it follows from the landmarks."""
        if self.quilt.completion is not None:
            return self
        self.views, Z = self.views.with_projections()
        observed = self.input.observed[:, self.kernels]
        transfer, filled = solve_transfer(Z, observed, copies=self.copies, kernels=kernels_of(Z))
        if self.quilt.joint is not None:
            self.quilt.joint = self.quilt.joint._replace(points=np.hstack(filled))
        self.quilt.completion = TransferCompletion(transfer)
        return self

    def scores(self, rows: Any, counted: Any = (True, True)) -> tuple[Floats, Floats]:
        """Return scores (1 or 2, n_rows, c) and (M, n_rows, c) of rows in their container.

        Those of expert B may be zero if it is not among the experts that are `counted` (1 or 2,).
        """
        self.made_again()
        samples, sample_of = samples_in(rows)
        Z, observed = self.views.of(samples)
        lengths = self.views.lengths(samples, Z, observed)
        if samples is rows:
            return self.quilt.scores(Z, observed, lengths)
        kept = self.input.observed_of(rows)[:, self.kernels]
        return quilt_scores(self.quilt, Z, observed, lengths, sample_of, kept, bool(counted[-1]))


def fit_to_samples(
    estimator: Any, data: Samples, targets: Targets, sample: Sample
) -> tuple[FittedQuilt, Sample]:
    """Fit the quilt of an estimator, which is given its input, and return the samples of use.

    Parameters
    ----------
    estimator : QuiltClassifier or QuiltRegressor
    data : MultiView or KernelStack of n samples
    targets : Targets of n samples
    sample : Sample
        Those in memory.

    Returns
    -------
    fitted : FittedQuilt
    drawn : Sample
        Those that have a view; of them, ``fitted.samples`` have tuned it.
    """
    exact = estimator.completion is not None
    if exact:
        _check_completion(estimator, targets)
    n_all = int(np.count_nonzero(targets.copies))
    n_landmarks = n_all if exact else landmark_count(estimator, data, n_all)
    n_points = joint_landmark_count(n_all, n_landmarks)
    check_feature_memory(estimator, data, n_all, n_landmarks, n_points)
    with sample.passes.stage("features of views"):
        features = fit_features(estimator, data, sample, n_landmarks)
    some = np.flatnonzero(features.observed.any(axis=1))
    features, drawn, views = features.part(some), sample.part(some), features.views
    whole = views.are_all_of(len(some))
    n_judges = JUDGES if n_landmarks < n_all else len(some)
    if n_judges < len(some):
        drawn = drawn.in_blocks(data, targets, estimator.n_jobs)
    quilt, judges = fit_to_features(
        features,
        drawn,
        n_points=n_points,
        n_judges=n_judges,
        completion=estimator.completion,
        pattern=estimator.pattern,
        n_jobs=estimator.n_jobs,
    )
    quilt.made_of_landmarks = not exact and whole and quilt.completion.transfer.by_samples
    shares = quilt.completion.shares_explained
    estimator.view_transfer_ = _of_all_kernels(shares, views.kernels, len(views.input.names))
    estimator.n_passes_ = sample.passes.count
    copies = copies_of(judges) if quilt.made_of_landmarks else None
    return FittedQuilt(views, quilt, judges.rows, copies), drawn


def _check_completion(estimator: Any, targets: Targets) -> None:
    """Refuse too many samples for a completer, which works on kernels among all of them."""
    n = int(np.count_nonzero(targets.copies))
    if n > MOST_SAMPLES:
        raise ValueError(
            f"completion={estimator.completion!r} works on kernels among all samples, of which "
            f"there are {n}; leave completion=None, which takes any number, or fit to at most "
            f"{MOST_SAMPLES} of them"
        )


def _of_all_kernels(shares: Floats | None, used: Indices, M: int) -> Floats:
    """Return shares explained (M, M), nan where they are not known, from those of used kernels."""
    found = np.full((M, M), np.nan)
    if shares is not None:
        found[np.ix_(used, used)] = shares
    np.fill_diagonal(found, 1.0)
    return found


def store_attributes(
    estimator: Any, fitted: FittedQuilt, early: StackingWeights, late: StackingWeights
) -> None:
    """Keep a quilt and what it has found out as attributes of its estimator."""
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
