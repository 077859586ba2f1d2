"""A quilt fitted to features: absent views filled in, then the experts."""

from functools import partial
from typing import Any

import numpy as np
from sklearn.base import clone

from kernelquilt._typing import Indices
from kernelquilt.data.sampling import Sample
from kernelquilt.kernels.landmark_features import FittedFeatures
from kernelquilt.quilt.space.gram_completion import complete_grams
from kernelquilt.quilt.space.model import Completed, Landmarks, Quilt, TransferCompletion, fit_quilt
from kernelquilt.quilt.space.passes import SumsOfTransfer, quilt_sums, ridge_sums
from kernelquilt.quilt.space.regressions import Copies, squared_lengths
from kernelquilt.quilt.space.transfer import solve_transfer
from kernelquilt.quilt.space.weighted import kernels_of


def fit_to_features(
    features: FittedFeatures,
    drawn: Sample,
    *,
    n_points: int,
    n_judges: int,
    completion: Any = None,
    pattern: bool = False,
    n_jobs: int | None = None,
) -> tuple[Quilt, Sample]:
    """Fit a quilt.

    Parameters
    ----------
    features : FittedFeatures of n samples
        Each of which has a view.
    drawn : Sample of n samples
    n_points : int
        Landmarks of all views together.
    n_judges : int
        Samples that are left out in turn, all if there are no more.
    completion : completer or None, default=None
        What fills in absent views; None is the transfer between features.
    pattern : bool, default=False
        Whether to fit a ridge to the pattern of absence.
    n_jobs : int or None, default=None
        Threads over the views and the ridges.

    Returns
    -------
    quilt : Quilt
    judges : Sample
        The samples that are left out in turn.
    """
    n = len(features.observed)
    points = _some_of(n, n_points, drawn.rng)
    chosen = _some_of(n, n_judges, drawn.rng)
    landmarks = None
    if len(points) < n or drawn.everyone is not None:
        part = features.part(points)
        landmarks = Landmarks(part.Z, part.observed, drawn.targets.copies[points])
    views, judges = features.views, drawn.part(chosen)
    with judges.passes.stage("completion of views"):
        completed = _completed(features.part(chosen), judges, completion, n_jobs)
    sum_over_all = None
    if judges.everyone is not None:
        sum_over_all = partial(
            ridge_sums, judges.everyone, quilt_sums, views, name="experts on completed views"
        )
    with judges.passes.stage("experts on kernels"):
        quilt = fit_quilt(
            completed,
            judges.targets,
            names=views.names,
            landmarks=landmarks,
            pattern=pattern,
            sum_over_all=sum_over_all,
            n_jobs=n_jobs,
        )
    if completion is None and quilt.joint is not None and len(points) < n:
        quilt = quilt.rounded()
    return quilt, judges


def _some_of(n: int, count: int, rng: np.random.RandomState) -> Indices:
    """Return some of n samples, all of them if they are no more."""
    return np.arange(n) if count >= n else np.sort(rng.choice(n, count, replace=False))


def copies_of(sample: Sample) -> Copies:
    """Return as how many copies samples count."""
    return Copies(sample.targets.copies, sample.targets.held_out)


def _completed(
    features: FittedFeatures, sample: Sample, completion: Any, n_jobs: int | None
) -> Completed:
    """Fill in the absent views of samples."""
    views, Z, observed, lengths = features
    if completion is None:
        everyone = sample.everyone
        kernels = kernels_of(Z) if everyone is None else None
        transfer, filled = solve_transfer(
            Z,
            observed,
            copies=copies_of(sample),
            kernels=kernels,
            sums=None if everyone is None else SumsOfTransfer(everyone, views),
            n_jobs=n_jobs,
        )
        made: Any = TransferCompletion(transfer)
    else:
        made, filled = complete_grams(clone(completion), views.names, Z, observed)
        kernels = kernels_of(filled)
    own = [
        np.where(present, length, squared_lengths(z))
        for present, length, z in zip(observed.T, lengths, filled, strict=True)
    ]
    return Completed(Z, filled, observed, np.sum(own, axis=0), kernels, made)
