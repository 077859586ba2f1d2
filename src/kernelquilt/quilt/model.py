r"""The quilt: views completed by transfer, two ridge experts on them, and late fusion beside.

1. Each view has features in the span of its landmarks, centred and scaled to mean squared length 1
   over the training samples that have it (:mod:`kernelquilt.quilt.space.maps`).
2. Absent views are filled in (:mod:`kernelquilt.quilt.space.transfer`), without looking at targets:
   :math:`z_p`, and :math:`\hat K_p` for the kernels of all samples that belong to them.
3. Expert A is a ridge regression (:mod:`kernelquilt.quilt.ridge`) on :math:`[\sqrt{g_p} z_p]_p`,
   with equal weights or those of lp-MKL with squared loss (:mod:`kernelquilt.quilt.lp_ridge`), p of
   1, 4/3, 2 or 4, whichever has the least leave-one-out error; only p = 4/3 where expert B has
   fewer landmarks than there are samples.
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

from kernelquilt._typing import Bools, Floats, Indices
from kernelquilt.core.solution import Options
from kernelquilt.kernels.distances import pair_median
from kernelquilt.quilt.ridge import PENALTIES, FeatureRidge, Sums, fit_feature_ridge, fit_ridge
from kernelquilt.quilt.ridge_classifier import Targets
from kernelquilt.quilt.space.maps import centre_and_scale, compact, independent_directions, rounded
from kernelquilt.quilt.space.threads import mapped, summed
from kernelquilt.quilt.space.transfer import Features, Transfer
from kernelquilt.quilt.space.weighted import WeightedSums, default_penalty

EXPONENTS = (np.inf, 1.0, 4.0 / 3.0, 2.0, 4.0)
FEW_EXPONENTS = (np.inf, 4.0 / 3.0)  # where samples are many, and each costs more than it brings
RATES = (0.3, 1.0)
FEW_POINTS = 500  # landmarks by which a rate is chosen, where not all samples are landmarks
WEIGHT_STEPS, WEIGHT_GAP = 8, 1e-3  # when to stop learning weights; predictions hardly notice


class Weighted(NamedTuple):
    """Expert A: weights of the kernels with sum one, their relative gap, and the ridge."""

    kernel_weights: Floats
    gap: float
    ridge: FeatureRidge


class JointMap(NamedTuple):
    """The Gaussian kernel of all views together in the span of landmarks.

    Attributes
    ----------
    rate : float
        What distances are multiplied by.
    points : ndarray of shape (n_points, D)
        The landmarks.
    lengths : ndarray of shape (n_points,)
        Their squared lengths.
    kept : ndarray of int
        Those that are independent of each other.
    projection : ndarray of shape (k, r)
        From similarities with these to features.
    """

    rate: float
    points: Floats
    lengths: Floats
    kept: Indices
    projection: Floats

    def distances(self, flat: Floats, lengths: Floats) -> Floats:
        """Return squared distances (n_rows, n_points) from the landmarks."""
        return joint_distances(lengths, self.lengths, flat @ self.points.T)

    def features(self, D: Floats) -> Floats:
        """Return features (n_rows, r) from squared distances (n_rows, n_points)."""
        return np.asarray(np.exp(-self.rate * D[:, self.kept]) @ self.projection)


class Joint(NamedTuple):
    """Expert B: what distances are multiplied by, its landmarks, and the ridge on them.

    Attributes
    ----------
    rate : float
    points : ndarray of shape (n_points, D), or None until they are made again
        Landmarks among the completed samples.
    lengths : ndarray of shape (n_points,)
        Their squared lengths.
    ridge : FeatureRidge
        On the similarities with them.
    """

    rate: float
    points: Any
    lengths: Floats
    ridge: FeatureRidge

    def __reduce__(self) -> Any:
        points = None if self.points is None else compact(self.points)
        return Joint._of_compact, (self.rate, points, self.lengths, self.ridge)

    @staticmethod
    def _of_compact(rate: float, points: Any, lengths: Floats, ridge: FeatureRidge) -> "Joint":
        points = None if points is None else points.astype(np.float64)
        return Joint(rate, points, lengths, ridge)

    def scores(self, flat: Floats, lengths: Floats) -> Floats:
        """Return scores (n_rows, c) of completed features and their squared lengths."""
        D = joint_distances(lengths, self.lengths, flat @ self.points.T)
        D *= -self.rate
        return self.ridge.scores(np.exp(D, out=D))


class PatternMap(NamedTuple):
    """From the kernels that a sample has to features."""

    mean: Floats
    scale: float

    def features(self, observed: Bools) -> Floats:
        """Return features (n_rows, M) whose products are shares of kernels that agree, centred."""
        return np.asarray((observed - self.mean) * self.scale)


class Pattern(NamedTuple):
    """The ridge that sees only which kernels a sample has."""

    map: PatternMap
    ridge: FeatureRidge

    def scores(self, observed: Bools) -> Floats:
        """Return scores (n_rows, c) of the patterns (n_rows, M)."""
        return self.ridge.scores(self.map.features(observed))


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
        n_late = len(self.late) + (self.pattern is not None)
        late = np.zeros((n_late, n_rows, n_outputs))
        for out, ridge, z, present in zip(late, self.late, Z, observed.T, strict=False):
            out[present] = ridge.scores(z[present])
        early = np.zeros((1 if self.joint is None else 2, n_rows, n_outputs))
        some = np.flatnonzero(observed.any(axis=1))
        if self.pattern is not None:
            late[-1, some] = self.pattern.scores(observed[some])
        if len(some):
            if len(some) < n_rows:
                Z, observed, lengths = [z[some] for z in Z], observed[some], lengths[:, some]
            completed, lengths = self.completion.complete(Z, observed, lengths)
            flat = np.hstack(completed)
            early[0, some] = self.weighted.ridge.scores(flat)
            if self.joint is not None:
                early[1, some] = self.joint.scores(flat, lengths.sum(axis=0))
        return early, late


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


SumOverAll = Callable[[Any, list[JointMap], PatternMap | None], list[Sums]]


def fit_quilt(
    data: Completed,
    targets: Targets,
    *,
    names: tuple[str, ...],
    points: Indices,
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
    points : ndarray of int
        The landmarks of expert B, among the n samples.
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
    own = np.einsum("ij,ij->i", flat[points], flat[points])
    exact = len(points) == len(flat) and sum_over_all is None
    joint: list[JointMap] = []
    if M > 1:
        products = None if data.kernels is None else data.kernels.sum(axis=0)[:, points]
        if products is None:
            products = mapped(partial(_products, flat[points]), flat, n_jobs=n_jobs)
        D = joint_distances(data.lengths, own, products)
        among = D if exact else _among(D[points])
        rates = np.array(RATES) / pair_median(among, targets.copies[points])
        if not exact:
            rates = _best_rate(D, among, rates, targets, n_jobs)
        joint = [_joint_map(rate, flat[points], own, among, exact) for rate in rates]
    by_pattern = None
    if pattern:
        by_pattern = PatternMap(*centre_and_scale(observed.astype(np.float64), targets.copies))
    sums: list[Any] = [None] * (M + 1 + len(joint) + pattern)
    if sum_over_all is not None:
        sums = sum_over_all(data.completion, joint, by_pattern)
    sizes = [z.shape[1] for z in data.filled]
    weighted = WeightedSums(flat, sizes, targets, data.kernels, sums[M], n_jobs)
    exponents = (EXPONENTS if exact else FEW_EXPONENTS) if M > 1 else EXPONENTS[:1]
    having = [np.flatnonzero(present) for present in observed.T]
    tasks: list[Any] = [
        delayed(_fit_ridge)(z[rows], targets.part(rows), sums=each)
        for z, rows, each in zip(data.Z, having, sums[:M], strict=True)
    ]
    tasks += [delayed(_fit_weighted)(weighted, p) for p in exponents]
    for made, each in zip(joint, sums[M + 1 : M + 1 + len(joint)], strict=True):
        if exact:
            tasks.append(delayed(_fit_joint_exactly)(made, D, targets))
            continue
        features = mapped(made.features, D, n_jobs=n_jobs)
        total = summed(features, targets.Y, targets.weight, n_jobs) if each is None else each
        tasks.append(delayed(_fit_joint)(made, features, targets, total))
    if by_pattern is not None:
        tasks.append(delayed(_fit_ridge)(by_pattern.features(observed), targets, sums=sums[-1]))
    done = Parallel(n_jobs, prefer="threads")(tasks)
    late_loo = np.zeros((M + pattern, *targets.Y.shape))
    for out, rows, (_, loo) in zip(late_loo, having, done, strict=False):
        out[rows] = loo
    A, loo = min(done[M : M + len(exponents)], key=lambda each: each[0].ridge.error)
    early_loo = [loo]
    found = done[M + len(exponents) : M + len(exponents) + len(joint)]
    B = None
    if found:
        B, loo = min(found, key=lambda each: each[0].ridge.error)
        early_loo.append(loo)
    late, of_pattern = [ridge for ridge, _ in done[:M]], None
    if by_pattern is not None:
        ridge, late_loo[-1] = done[-1]
        of_pattern = Pattern(by_pattern, ridge)
    return Quilt(names, data.completion, A, B, late, of_pattern, np.array(early_loo), late_loo)


def joint_distances(lengths: Floats, point_lengths: Floats, products: Floats) -> Floats:
    """Return squared distances (n_rows, n_points) of samples from landmarks in the span.

    Parameters
    ----------
    lengths : ndarray of shape (n_rows,)
        Squared lengths of the samples, with what is outside of the span.
    point_lengths : ndarray of shape (n_points,)
        Those of the landmarks.
    products : ndarray of shape (n_rows, n_points)
        Of their features; overwritten.
    """
    products *= -2.0
    products += lengths[:, None]
    products += point_lengths
    return np.maximum(products, 0.0, out=products)


def _products(points: Floats, flat: Floats) -> Floats:
    return np.asarray(flat @ points.T)


def _among(D: Floats) -> Floats:
    """Return distances (k, k) between landmarks, which have nothing outside of the span."""
    return np.asarray(np.maximum(D - D.diagonal()[:, None], 0.0))


def _fit_ridge(
    z: Floats, targets: Targets, lams: Floats = PENALTIES, sums: Sums | None = None
) -> tuple[FeatureRidge, Floats]:
    ridge, fit = fit_feature_ridge(
        z, targets.Y, lams, sample_weight=targets.weight, held_out=targets.held_out, sums=sums
    )
    return ridge, fit.loo


def _fit_weighted(weighted: WeightedSums, p: float) -> tuple[Weighted, Floats]:
    """Fit expert A with the exponent p."""
    M = weighted.n_kernels
    weights, gap = np.full(M, 1.0 / M), 0.0
    if p < np.inf:
        options = Options(WEIGHT_GAP, WEIGHT_STEPS)
        outputs = slice(1 if _two_classes(weighted.targets.Y) else 0, None)
        solution = weighted.solve(
            p, default_penalty(p, M), options, newton_below=0.0, outputs=outputs
        )
        weights, gap = solution.weights / solution.weights.sum(), solution.relative_gap
    ridge, fit = weighted.fit(weights)
    return Weighted(weights, gap, ridge), fit.loo


def _two_classes(Y: Floats) -> bool:
    """Whether the first of the outputs (n, c) is minus the other."""
    return Y.shape[1] == 2 and bool((Y[:, 0] == -Y[:, 1]).all())


def _best_rate(
    D: Floats, among: Floats, rates: Floats, targets: Targets, n_jobs: int | None
) -> Floats:
    """Return the rate of the least error where expert B has fewer landmarks."""
    few = np.arange(0, D.shape[1], -(-D.shape[1] // FEW_POINTS))
    maps = [_joint_map(rate, few, few, among[np.ix_(few, few)], exact=False) for rate in rates]
    found = Parallel(n_jobs, prefer="threads")(
        delayed(_fit_ridge)(each.features(D[:, few]), targets, PENALTIES[::2]) for each in maps
    )
    return rates[[int(np.argmin([ridge.error for ridge, _ in found]))]]


def _joint_map(
    rate: float, points: Floats, lengths: Floats, among: Floats, exact: bool
) -> JointMap:
    if exact:  # the kernel is solved by the samples, without features
        return JointMap(rate, points, lengths, np.arange(len(points)), np.empty((0, 0)))
    return JointMap(rate, points, lengths, *independent_directions(np.exp(-rate * among)))


def _fit_joint(
    made: JointMap, features: Floats, targets: Targets, sums: Sums
) -> tuple[Joint, Floats]:
    """Fit expert B at one rate, on features of its kernel."""
    ridge, loo = _fit_ridge(features, targets, PENALTIES[::2], sums)
    coef = np.zeros((len(made.points), targets.Y.shape[1]))
    coef[made.kept] = made.projection @ ridge.coef
    return Joint(made.rate, made.points, made.lengths, replace(ridge, coef=coef)), loo


def _fit_joint_exactly(made: JointMap, D: Floats, targets: Targets) -> tuple[Joint, Floats]:
    """Fit expert B at one rate, on the kernel of all samples."""
    found = fit_ridge(
        np.exp(-made.rate * D),
        targets.Y,
        PENALTIES[::2],
        sample_weight=targets.weight,
        held_out=targets.held_out,
    )
    coef, fit = found.coef / found.scale, found.fit
    ridge = FeatureRidge(coef, found.bias, found.scale, fit.lam, fit.error)
    return Joint(made.rate, made.points, made.lengths, ridge), fit.loo
