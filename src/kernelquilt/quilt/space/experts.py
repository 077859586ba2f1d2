"""The experts of a quilt: what they are, and how each is fitted.

What they are for is told in :mod:`kernelquilt.quilt.space.model`.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed

from kernelquilt._typing import Bools, Floats, Indices
from kernelquilt.core.weights.solution import Options
from kernelquilt.data.targets import Targets
from kernelquilt.kernels.landmark_maps import independent_directions
from kernelquilt.quilt.space.pair_maps import compact
from kernelquilt.quilt.space.ridge import (
    PENALTIES,
    FeatureRidge,
    Sums,
    fit_feature_ridge,
    fit_ridge,
)
from kernelquilt.quilt.space.weighted import WeightedSums, default_penalty

EXPONENTS = (1.0, 4.0 / 3.0, np.inf)
FEW_EXPONENTS = (4.0 / 3.0, np.inf)  # where samples are many, and each costs more than it brings
RATES = (0.3, 1.0)
STRIP = 256  # columns of a triangular matrix that are multiplied at a time
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
    triangular : bool
        Whether it is zero below its diagonal.
    """

    rate: float
    points: Floats
    lengths: Floats
    kept: Indices
    projection: Floats
    triangular: bool

    def distances(self, flat: Floats, lengths: Floats) -> Floats:
        """Return squared distances (n_rows, n_points) from the landmarks."""
        return joint_distances(lengths, self.lengths, flat @ self.points.T)

    def features(self, D: Floats) -> Floats:
        """Return features (n_rows, r) from squared distances (n_rows, n_points)."""
        kernel = D if len(self.kept) == D.shape[1] else D[:, self.kept]
        kernel = kernel * -self.rate
        np.exp(kernel, out=kernel)
        if not self.triangular:
            return np.asarray(kernel @ self.projection)
        return times_triangular(kernel, self.projection)


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

    def scores_of_products(self, products: Floats, lengths: Floats) -> Floats:
        """Return the same from products (n_rows, n_points) with the points, in one pass."""
        from kernelquilt.quilt.space.compiled import add_joint_scores

        ridge = self.ridge
        scores = np.tile(ridge.bias, (len(products), 1))
        add_joint_scores(products, lengths, self.lengths, self.rate, ridge.coef, scores)
        return scores


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


def products_with(points: Floats, flat: Floats) -> Floats:
    """Return the products (n_rows, n_points) of features."""
    return np.asarray(flat @ points.T)


def fit_expert_ridge(
    z: Floats, targets: Targets, lams: Floats = PENALTIES, sums: Sums | None = None
) -> tuple[FeatureRidge, Floats]:
    """Return a ridge on features (n, D), and its leave-one-out scores (n, c)."""
    ridge, fit = fit_feature_ridge(
        z, targets.Y, lams, sample_weight=targets.weight, held_out=targets.held_out, sums=sums
    )
    return ridge, fit.loo


def fit_kernel_ridge(
    kernel: Floats, z: Floats, rows: Indices, targets: Targets
) -> tuple[FeatureRidge, Floats]:
    """Do the same for some samples, from the kernel (n, n) of all and its features (n, D)."""
    part = targets.part(rows)
    found = fit_ridge(
        kernel[np.ix_(rows, rows)], part.Y, sample_weight=part.weight, held_out=part.held_out
    )
    ridge, fit = found.on_features(z[rows])
    return ridge, fit.loo


def fit_weighted(weighted: WeightedSums, p: float) -> tuple[Weighted, Floats]:
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


def best_rate(
    D: Floats, among: Floats, rates: Floats, targets: Targets, n_jobs: int | None
) -> Floats:
    """Return the rate of the least error where expert B has fewer landmarks."""
    few = np.arange(0, D.shape[1], -(-D.shape[1] // FEW_POINTS))
    maps = [joint_map(rate, few, few, among[np.ix_(few, few)], exact=False) for rate in rates]
    found = Parallel(n_jobs, prefer="threads")(
        delayed(fit_expert_ridge)(each.features(D[:, few]), targets, PENALTIES[::2])
        for each in maps
    )
    return rates[[int(np.argmin([ridge.error for ridge, _ in found]))]]


def joint_map(rate: float, points: Floats, lengths: Floats, among: Floats, exact: bool) -> JointMap:
    """Return the kernel of all views at one rate, from distances `among` the landmarks."""
    if exact:  # the kernel is solved by the samples, without features
        return JointMap(rate, points, lengths, np.arange(len(points)), np.empty((0, 0)), True)
    kept, projection, order = independent_directions(np.exp(-rate * among))
    if order is None:
        return JointMap(rate, points, lengths, kept, projection, False)
    return JointMap(rate, points, lengths, kept[order], projection[order], True)


def fit_joint(
    made: JointMap, features: Floats, targets: Targets, sums: Sums
) -> tuple[Joint, Floats]:
    """Fit expert B at one rate, on features of its kernel."""
    ridge, loo = fit_expert_ridge(features, targets, PENALTIES[::2], sums)
    coef = np.zeros((len(made.points), targets.Y.shape[1]))
    coef[made.kept] = made.projection @ ridge.coef
    return Joint(made.rate, made.points, made.lengths, replace(ridge, coef=coef)), loo


def fit_joint_exactly(made: JointMap, D: Floats, targets: Targets) -> tuple[Joint, Floats]:
    """Fit expert B at one rate, on the kernel of all samples."""
    kernel = D * -made.rate
    found = fit_ridge(
        np.exp(kernel, out=kernel),
        targets.Y,
        PENALTIES[::2],
        sample_weight=targets.weight,
        held_out=targets.held_out,
    )
    coef, fit = found.coef / found.scale, found.fit
    ridge = FeatureRidge(coef, found.bias, found.scale, fit.lam, fit.error)
    return Joint(made.rate, made.points, made.lengths, ridge), fit.loo


def _two_classes(Y: Floats) -> bool:
    """Whether the first of the outputs (n, c) is minus the other."""
    return Y.shape[1] == 2 and bool((Y[:, 0] == -Y[:, 1]).all())


def times_triangular(rows: Floats, upper: Floats) -> Floats:
    """Return the product of rows (n, k) with a matrix (k, k) that is zero below its diagonal."""
    product = np.empty(rows.shape)
    for start in range(0, len(upper), STRIP):
        stop = min(start + STRIP, len(upper))
        np.matmul(rows[:, :stop], upper[:stop, start:stop], out=product[:, start:stop])
    return product
