"""Ridge regression on features of several kernels, at weights of the kernels that are learned."""

from typing import Any

import numpy as np

from kernelquilt._typing import Floats
from kernelquilt.core.weights.sets import solve_in_norm
from kernelquilt.core.weights.solution import Options, Solution
from kernelquilt.data.targets import Targets
from kernelquilt.kernels.centring import mean_diagonal
from kernelquilt.kernels.landmark_features import Features
from kernelquilt.quilt.space.ridge import FeatureRidge, RidgeFit, Sums, fit_feature_ridge, fit_ridge
from kernelquilt.quilt.space.threads import summed
from kernelquilt.quilt.space.weighted_ridge import WeightedFeatureRidge, WeightedRidge

DEFAULT_PENALTY = 0.3


def default_penalty(p: float, n_kernels: int, size: float = 1.0) -> float:
    """Return a penalty for kernels whose mean diagonal is `size`."""
    even = n_kernels ** (-1.0 / p) if p > 1.0 else 1.0
    return DEFAULT_PENALTY * size * even


def kernels_of(Z: Features) -> Floats | None:
    """Return the products ``Z_p Z_p'`` (M, n, n), None if there are more samples than features."""
    n = len(Z[0])
    if n > sum(z.shape[1] for z in Z):
        return None
    kernels = np.zeros((len(Z), n, n))
    for kernel, z in zip(kernels, Z, strict=True):
        having = np.flatnonzero(z.any(axis=1))
        known = z[having]
        kernel[np.ix_(having, having)] = known @ known.T
    return kernels


class WeightedSums:
    """Features of M kernels, weighted in more than one way.

    Everything is solved by the samples or by the features, whichever are fewer.

    Parameters
    ----------
    flat : ndarray of shape (n, D)
        Features of all kernels side by side.
    sizes : list of M int
        How many features each has.
    targets : Targets of n samples
        With positive weights.
    kernels : ndarray of shape (M, n, n), optional
        Products ``Z_p Z_p'``, if there are fewer samples than features.
    sums : Sums or None, default=None
        Of all samples, if these are only some of them.
    n_jobs : int or None, default=None
        Threads over blocks of samples.
    """

    def __init__(
        self,
        flat: Floats,
        sizes: list[int],
        targets: Targets,
        kernels: Floats | None = None,
        sums: Sums | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.flat, self.targets = flat, targets
        self.n_kernels = len(sizes)
        self.kernel_of = np.repeat(np.arange(len(sizes)), sizes)
        self.kernels = kernels
        self.sums = sums
        if kernels is None and sums is None:
            self.sums = summed(self.flat, targets.Y, targets.weight, n_jobs)

    def mean_length(self, copies: Floats) -> float:
        """Return the mean squared length of the features of a kernel."""
        squares = np.einsum("ij,ij->i", self.flat, self.flat)
        return mean_diagonal(squares / self.n_kernels, copies)

    def by_kernel(self, coef: Floats) -> list[Floats]:
        """Cut coefficients (D, c) by kernel."""
        return [coef[self.kernel_of == m] for m in range(self.n_kernels)]

    def solve(
        self,
        p: float,
        lam: float,
        options: Options,
        *,
        newton_below: float,
        outputs: slice = slice(None),
    ) -> Solution:
        """Learn the weights, as in :mod:`kernelquilt.quilt.lp_ridge`, for some of the outputs."""
        if self.kernels is None:
            assert self.sums is not None
            sums = self.sums.of_outputs(outputs)
            ridge: Any = WeightedFeatureRidge(sums, self.kernel_of, self.n_kernels, lam)
        else:
            Y = np.ascontiguousarray(self.targets.Y[:, outputs].T)
            ridge = WeightedRidge(self.kernels, Y, lam, self.targets.weight)
        everyone = np.ones(self.n_kernels, dtype=np.bool_)
        return solve_in_norm(ridge, p, everyone, options, newton_below=newton_below)

    def fit(self, weights: Floats) -> tuple[FeatureRidge, RidgeFit]:
        """Fit the ridge at given weights (M,)."""
        targets, factors = self.targets, weights[self.kernel_of]
        options = {"sample_weight": targets.weight, "held_out": targets.held_out}
        if self.kernels is None:
            return fit_feature_ridge(
                self.flat, targets.Y, sums=self.sums, factors=np.sqrt(factors), **options
            )
        kernel = np.tensordot(weights, self.kernels, axes=1)
        return fit_ridge(kernel, targets.Y, **options).on_features(self.flat, factors)
