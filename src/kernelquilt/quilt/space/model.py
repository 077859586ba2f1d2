r"""The quilt: views completed by transfer, two ridge experts on them, and late fusion beside.

1. Each view has features in the span of its landmarks, centred and scaled to mean squared length 1
   over the training samples that have it (:mod:`kernelquilt.kernels.landmark_maps`).
2. Absent views are filled in (:mod:`kernelquilt.quilt.space.transfer`), without looking at targets:
   :math:`z_p`, and :math:`\hat K_p` for the kernels of all samples that belong to them.
3. Expert A is a ridge regression (:mod:`kernelquilt.quilt.space.ridge`) on
   :math:`[\sqrt{g_p} z_p]_p`, with equal weights or those of lp-MKL with squared loss
   (:mod:`kernelquilt.quilt.lp_ridge`), p of 1 or 4/3, whichever has the least leave-one-out
   error; only p = 4/3 where expert B has fewer landmarks than there are samples.
4. Expert B is a ridge regression on :math:`\exp(-\gamma D / \mathrm{median}\,D)`, the Gaussian
   kernel of all views together, :math:`D_{ij} = \sum_p |z_p(i) - z_p(j)|^2`, gamma of .3 or 1 by
   the same error, in the span of some of the samples (gamma is then chosen with 500 of them). With
   one view there is nothing to join, and no expert B.
5. Beside them a ridge regression on each view alone, of the samples that have it
   (:mod:`kernelquilt.quilt.late_fusion`), and, if the pattern of absence may tell the target, one
   on the share of kernels that two samples both have or both lack.

Predictions are made of the scores of A and B by one stack, of those of 5. by another, each trained
on leave-one-out scores (:mod:`kernelquilt.quilt.stacking`), and the two are averaged. A sample
without any view has scores zero.

=====================  ===========================================
symbol                 name here
=====================  ===========================================
z_p side by side       ``flat``
g                      ``kernel_weights``
gamma / median D       ``Joint.rate``
=====================  ===========================================
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed

from kernelquilt._typing import Bools, Floats
from kernelquilt.data.targets import Targets
from kernelquilt.kernels.functions import pair_median
from kernelquilt.kernels.landmark_features import Features
from kernelquilt.kernels.landmark_maps import centre_and_scale
from kernelquilt.quilt.space.experts import (
    EXPONENTS,
    FEW_EXPONENTS,
    RATES,
    Joint,
    JointMap,
    Pattern,
    PatternMap,
    Weighted,
    best_rate,
    fit_expert_ridge,
    fit_joint,
    fit_joint_exactly,
    fit_kernel_ridge,
    fit_weighted,
    joint_distances,
    joint_map,
    products_with,
)
from kernelquilt.quilt.space.pair_maps import rounded
from kernelquilt.quilt.space.regressions import squared_lengths
from kernelquilt.quilt.space.ridge import FeatureRidge, Sums
from kernelquilt.quilt.space.threads import mapped, summed
from kernelquilt.quilt.space.transfer import Transfer
from kernelquilt.quilt.space.weighted import WeightedSums


class TransferCompletion(NamedTuple):
    """The transfer between features, with lengths."""

    transfer: Transfer

    @property
    def shares_explained(self) -> Floats:
        """Share of each view that each other explains, (M, M)."""
        return self.transfer.scores

    def complete(self, Z: Features, observed: Bools, lengths: Floats) -> tuple[Features, Floats]:
        """Return completed features, and squared lengths (M, n_rows)."""
        filled = self.transfer.complete(Z, observed)
        lengths = lengths.copy()
        for p, z in enumerate(filled):
            absent = ~observed[:, p]
            lengths[p, absent] = np.square(z[absent]).sum(axis=1)
        return filled, lengths


@dataclass
class Quilt:
    """A fitted quilt of M kernels.

    If all training samples are landmarks, what is made of them alone is not kept in a pickle.

    Attributes
    ----------
    names : tuple of M str
        Names of the kernels.
    completion : TransferCompletion or GramCompletion, or None until it is made again
        What fills in absent views.
    weighted : Weighted
        Expert A.
    joint : Joint or None
        Expert B, None for one kernel.
    late : list of M FeatureRidge
        The ridges of single kernels.
    pattern : Pattern or None
        The ridge of the pattern of absence.
    early_loo : ndarray of shape (1 or 2, n, c), or None
        Leave-one-out scores of the experts on completed kernels; not kept in a pickle.
    late_loo : ndarray of shape (M or M + 1, n, c), or None
        Those of the ridges beside, zero where absent.
    made_of_landmarks : bool
        Whether the completion and the points can be made again of the landmarks.
    """

    names: tuple[str, ...]
    completion: Any
    weighted: Weighted
    joint: Joint | None
    late: list[FeatureRidge]
    pattern: Pattern | None
    early_loo: Any
    late_loo: Any
    made_of_landmarks: bool = False

    def __getstate__(self) -> dict[str, Any]:
        state = {**vars(self), "early_loo": None, "late_loo": None}
        if self.made_of_landmarks:
            joint = None if self.joint is None else self.joint._replace(points=None)
            state |= {"completion": None, "joint": joint}
        return state

    def rounded(self) -> "Quilt":
        """Return the same with its largest arrays in single precision."""
        transfer = self.completion.transfer.rounded()
        joint = self.joint and self.joint._replace(points=rounded(self.joint.points))
        return replace(self, completion=TransferCompletion(transfer), joint=joint)

    def scores(self, Z: Features, observed: Bools, lengths: Floats) -> tuple[Floats, Floats]:
        """Return the scores of new samples.

        Parameters
        ----------
        Z : Features of n_rows samples
            Zero where absent.
        observed : ndarray of bool of shape (n_rows, M)
        lengths : ndarray of shape (M, n_rows)
            Squared lengths, zero where absent.

        Returns
        -------
        early : ndarray of shape (1 or 2, n_rows, c)
            Scores of the experts on completed kernels.
        late : ndarray of shape (M, n_rows, c), or (M + 1, n_rows, c)
            Scores of the ridges of single kernels, and of that of the pattern.
        """
        n_rows, n_outputs = len(observed), len(self.weighted.ridge.bias)
        late = np.zeros((len(self.late), n_rows, n_outputs))
        for out, ridge, z, present in zip(late, self.late, Z, observed.T, strict=True):
            out[present] = ridge.scores(z[present])
        late = self.with_pattern(late, observed)
        early = np.zeros((1 if self.joint is None else 2, n_rows, n_outputs))
        some = np.flatnonzero(observed.any(axis=1))
        if len(some):
            if len(some) < n_rows:
                Z, observed, lengths = [z[some] for z in Z], observed[some], lengths[:, some]
            completed, lengths = self.completion.complete(Z, observed, lengths)
            flat = np.hstack(completed)
            early[0, some] = self.weighted.ridge.scores(flat)
            if self.joint is not None:
                early[1, some] = self.joint.scores(flat, lengths.sum(axis=0))
        return early, late

    def with_pattern(self, late: Floats, observed: Bools) -> Floats:
        """Return scores (M, n_rows, c) with those of the pattern, if there is a ridge of it."""
        if self.pattern is None:
            return late
        scores = self.pattern.scores(observed)
        scores[~observed.any(axis=1)] = 0.0
        return np.concatenate([late, scores[None]])


class Completed(NamedTuple):
    """Training samples after absent views have been filled in.

    Attributes
    ----------
    Z, filled : Features of n samples
        Before and after.
    observed : ndarray of bool of shape (n, M)
        With a kernel for every sample and at least 3 samples for every kernel.
    lengths : ndarray of shape (n,)
        Squared lengths over all kernels, after.
    kernels : ndarray of shape (M, n, n) or None
        Products of the features after, if there are fewer samples than features.
    completion : TransferCompletion or GramCompletion
        What has filled them in.
    """

    Z: Features
    filled: Features
    observed: Bools
    lengths: Floats
    kernels: Floats | None
    completion: Any


class Landmarks(NamedTuple):
    """The landmarks of expert B before absent views are filled in.

    Attributes
    ----------
    Z : Features of k samples
    observed : ndarray of bool of shape (k, M)
    copies : ndarray of shape (k,)
        As how many copies they count.
    """

    Z: Features
    observed: Bools
    copies: Floats

    def completed(self, completion: Any) -> Floats:
        """Return their features (k, D) afterwards."""
        unused = np.zeros(self.observed.T.shape)
        return np.hstack(completion.complete(self.Z, self.observed, unused)[0])


SumOverAll = Callable[[Any, list[JointMap], PatternMap | None], list[Sums]]


def fit_quilt(
    data: Completed,
    targets: Targets,
    *,
    names: tuple[str, ...],
    landmarks: Landmarks | None = None,
    pattern: bool = False,
    sum_over_all: SumOverAll | None = None,
    n_jobs: int | None = None,
) -> Quilt:
    """Fit a quilt (see the module docstring) to completed features.

    Parameters
    ----------
    data : Completed of n samples
    targets : Targets of n samples
        With positive weights.
    names : tuple of M str
        Names of the kernels.
    landmarks : Landmarks, optional
        Those of expert B; by default all samples.
    pattern : bool, default=False
        Whether to fit a ridge to the pattern of absence.
    sum_over_all : callable, optional
        From the completion, the joint kernels and the map of patterns to the sums of all samples,
        if these are only some of them.
    n_jobs : int or None, default=None
        Threads over the ridges.

    Returns
    -------
    Quilt
    """
    M, observed = len(data.Z), data.observed
    flat = np.hstack(data.filled)
    exact = landmarks is None
    D, joint = _joint_maps(data, flat, landmarks, targets, n_jobs)
    by_pattern = None
    if pattern:
        by_pattern = PatternMap(*centre_and_scale(observed.astype(np.float64), targets.copies))
    sums: list[Any] = [None] * (M + 1 + len(joint) + pattern)
    if sum_over_all is not None:
        sums = sum_over_all(data.completion, joint, by_pattern)
    sizes = [z.shape[1] for z in data.filled]
    weighted = WeightedSums(flat, sizes, targets, data.kernels, sums[M], n_jobs)
    exponents = (EXPONENTS if exact else FEW_EXPONENTS) if M > 1 else EXPONENTS[-1:]
    having = [np.flatnonzero(present) for present in observed.T]
    # a transfer leaves the kernels of samples that have them as they are
    kernels = data.kernels if isinstance(data.completion, TransferCompletion) else None
    tasks: list[Any] = []
    for m, (z, rows, each) in enumerate(zip(data.Z, having, sums[:M], strict=True)):
        if kernels is not None and len(rows) <= z.shape[1]:
            tasks.append(delayed(fit_kernel_ridge)(kernels[m], z, rows, targets))
        else:
            tasks.append(delayed(fit_expert_ridge)(z[rows], targets.part(rows), sums=each))
    tasks += [delayed(fit_weighted)(weighted, p) for p in exponents]
    for made, each in zip(joint, sums[M + 1 : M + 1 + len(joint)], strict=True):
        if exact:
            tasks.append(delayed(fit_joint_exactly)(made, D, targets))
            continue
        features = mapped(made.features, D, n_jobs=n_jobs)
        total = summed(features, targets.Y, targets.weight, n_jobs) if each is None else each
        tasks.append(delayed(fit_joint)(made, features, targets, total))
    if by_pattern is not None:
        tasks.append(
            delayed(fit_expert_ridge)(by_pattern.features(observed), targets, sums=sums[-1])
        )
    # the longest stand last: begun first, none of them is waited for in the end
    done = Parallel(n_jobs, prefer="threads")(reversed(tasks))[::-1]
    late_loo = np.zeros((M + pattern, *targets.Y.shape))
    for out, rows, (_, loo) in zip(late_loo, having, done, strict=False):
        out[rows] = loo
    # equal weights, whose gap is zero, where learned ones are no better
    A, loo = min(done[M : M + len(exponents)], key=lambda each: (each[0].ridge.error, each[0].gap))
    early_loo = [loo]
    found = done[M + len(exponents) : M + len(exponents) + len(joint)]
    B = None
    if found:
        B, loo = min(found, key=lambda each: each[0].ridge.error)
        early_loo.append(loo)
    late, seeing = [ridge for ridge, _ in done[:M]], None
    if by_pattern is not None:
        ridge, late_loo[-1] = done[-1]
        seeing = Pattern(by_pattern, ridge)
    return Quilt(names, data.completion, A, B, late, seeing, np.array(early_loo), late_loo)


def _joint_maps(
    data: Completed,
    flat: Floats,
    landmarks: Landmarks | None,
    targets: Targets,
    n_jobs: int | None,
) -> tuple[Any, list[JointMap]]:
    """Return distances from the landmarks of expert B, and its kernels; none for one view."""
    if len(data.Z) == 1:
        return None, []
    points = flat if landmarks is None else landmarks.completed(data.completion)
    own = squared_lengths(points)
    if landmarks is None and data.kernels is not None:
        products = data.kernels.sum(axis=0)
    else:
        products = mapped(partial(products_with, points), flat, n_jobs=n_jobs)
    D = joint_distances(data.lengths, own, products)
    if landmarks is None:
        rates = np.array(RATES) / pair_median(D, targets.copies)
        return D, [joint_map(rate, points, own, D, exact=True) for rate in rates]
    among = joint_distances(own, own, mapped(partial(products_with, points), points, n_jobs=n_jobs))
    np.fill_diagonal(among, 0.0)
    rates = np.array(RATES) / pair_median(among, landmarks.copies)
    (rate,) = best_rate(D, among, rates, targets, n_jobs)
    return D, [joint_map(rate, points, own, among, exact=False)]
