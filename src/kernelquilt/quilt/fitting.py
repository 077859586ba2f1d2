"""What the classifier and the regressor share: a quilt fitted to samples in any form."""

from dataclasses import dataclass
from functools import partial
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions

from kernelquilt._typing import Bools, Floats, Indices
from kernelquilt.kernels.inputs import KernelInput, Samples
from kernelquilt.kernels.subsets import samples_in
from kernelquilt.quilt.model import Completed, Landmarks, Quilt, TransferCompletion, fit_quilt
from kernelquilt.quilt.ridge_classifier import Targets
from kernelquilt.quilt.space.gram_completion import complete_grams
from kernelquilt.quilt.space.pair_maps import Features
from kernelquilt.quilt.space.passes import (
    Sample,
    SumsOfTransfer,
    fit_sample_input,
    fit_sample_views,
    quilt_sums,
    take_sample,
)
from kernelquilt.quilt.space.regressions import Copies
from kernelquilt.quilt.space.transfer import solve_transfer
from kernelquilt.quilt.space.views import (
    LANDMARK_CONSTRAINTS,
    MOST_SAMPLES,
    ViewFeatures,
    check_feature_memory,
    landmark_count,
    usable_views,
)
from kernelquilt.quilt.space.weighted import kernels_of
from kernelquilt.quilt.stacking import StackingWeights
from kernelquilt.quilt.subsets import quilt_scores

POINTS = (3, 10)  # least and most landmarks of all views together, for each landmark of a view
POINT_SHARE = 6  # between them, one of so many samples
MOST_POINTS = 2400  # but no more of them
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


def fit_to_samples(estimator: Any, data: Samples, targets: Targets) -> tuple[FittedQuilt, Sample]:
    """Fit the quilt of an estimator, and return the samples in memory.

    Parameters
    ----------
    estimator : QuiltClassifier or QuiltRegressor
    data : MultiView or KernelStack of n samples
    targets : Targets of n samples

    Returns
    -------
    fitted : FittedQuilt
    drawn : Sample
        Of them, ``fitted.samples`` have tuned it.
    """
    rng = check_random_state(estimator.random_state)
    exact = estimator.completion is not None
    if exact:
        _check_completion(estimator, targets)
    drawn = take_sample(estimator, data, targets, rng)
    n_all = int(np.count_nonzero(targets.copies))
    n_landmarks = n_all if exact else landmark_count(estimator, data, n_all)
    check_feature_memory(estimator, data, n_all, n_landmarks, n_points(n_all, n_landmarks))
    held = fit_sample_input(estimator, data, drawn)
    observed = held.observed[drawn.columns]
    used = usable_views(type(estimator).__name__, held.names, observed.sum(axis=0))
    with drawn.passes.stage("features of views"):
        views, Z = fit_sample_views(estimator, held, drawn, np.flatnonzero(used), n_landmarks, rng)
    some = np.flatnonzero(observed[:, used].any(axis=1))
    drawn, observed = drawn.part(some), observed[np.ix_(some, used)]
    Z = Z if len(some) == len(Z[0]) else [z[some] for z in Z]
    points = _drawn(rng, len(some), n_points(n_all, n_landmarks))
    judges = np.arange(len(some))
    if len(some) > JUDGES and n_landmarks < n_all:
        judges = _drawn(rng, len(some), JUDGES)
        drawn = drawn.in_blocks(data, targets, estimator.n_jobs)
    landmarks = None
    if len(points) < len(some) or drawn.everyone is not None:
        landmarks = Landmarks(*_of_rows(points, Z, observed), drawn.targets.copies[points])
    sample, (Z, observed) = drawn.part(judges), _of_rows(judges, Z, observed)
    lengths = views.lengths(sample.data, Z, observed)
    views = views.forget_others()
    with sample.passes.stage("completion of views"):
        completed = _completed(estimator, sample, views, Z, observed, lengths)
    sum_over_all = None
    if sample.everyone is not None:
        sum_over_all = partial(
            sample.everyone.sums, quilt_sums, views, name="experts on completed views"
        )
    with sample.passes.stage("experts on kernels"):
        quilt = fit_quilt(
            completed,
            sample.targets,
            names=views.names,
            landmarks=landmarks,
            pattern=estimator.pattern,
            sum_over_all=sum_over_all,
            n_jobs=estimator.n_jobs,
        )
    estimator.n_passes_ = sample.passes.count
    if estimator.completion is None:
        transfer = quilt.completion.transfer
        quilt.made_of_landmarks = transfer.by_samples and views.are_all_of(len(some))
        if quilt.joint is not None and len(points) < len(some):
            quilt = quilt.rounded()
    copies = _copies(sample) if quilt.made_of_landmarks else None
    return FittedQuilt(views, quilt, sample.rows, copies), drawn


def _drawn(rng: np.random.RandomState, n: int, count: int) -> Indices:
    """Return some of n samples, all of them if they are no more."""
    return np.arange(n) if count >= n else np.sort(rng.choice(n, count, replace=False))


def _of_rows(rows: Indices, Z: Features, observed: Bools) -> tuple[Features, Bools]:
    return (Z, observed) if len(rows) == len(observed) else ([z[rows] for z in Z], observed[rows])


def _copies(sample: Sample) -> Copies:
    return Copies(sample.targets.copies, sample.targets.held_out)


def _completed(
    estimator: Any,
    sample: Sample,
    views: ViewFeatures,
    Z: Features,
    observed: Bools,
    lengths: Floats,
) -> Completed:
    """Fill in the absent views of samples."""
    if estimator.completion is None:
        everyone = sample.everyone
        kernels = kernels_of(Z) if everyone is None else None
        transfer, filled = solve_transfer(
            Z,
            observed,
            copies=_copies(sample),
            kernels=kernels,
            sums=None if everyone is None else SumsOfTransfer(everyone, views),
            n_jobs=estimator.n_jobs,
        )
        completion: Any = TransferCompletion(transfer)
    else:
        completion, filled = complete_grams(clone(estimator.completion), views.names, Z, observed)
        kernels = kernels_of(filled)
    own = [
        np.where(present, length, _squares(z))
        for present, length, z in zip(observed.T, lengths, filled, strict=True)
    ]
    return Completed(Z, filled, observed, np.sum(own, axis=0), kernels, completion)


def _check_completion(estimator: Any, targets: Targets) -> None:
    """Refuse too many samples for a completer, which works on kernels among all of them."""
    n = int(np.count_nonzero(targets.copies))
    if n > MOST_SAMPLES:
        raise ValueError(
            f"completion={estimator.completion!r} works on kernels among all samples, of which "
            f"there are {n}; leave completion=None, which takes any number, or fit to at most "
            f"{MOST_SAMPLES} of them"
        )


def _squares(z: Floats) -> Floats:
    return np.asarray(np.einsum("ij,ij->i", z, z))


def n_points(n: int, n_landmarks: int) -> int:
    """Return how many landmarks all views together have."""
    least, most = POINTS[0] * n_landmarks, min(POINTS[1] * n_landmarks, MOST_POINTS)
    return min(n, max(least, min(most, n // POINT_SHARE)))


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
