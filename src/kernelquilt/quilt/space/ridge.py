r"""Kernel ridge regression with closed-form leave-one-out over all penalties at once.

.. math:: \min_f \; \sum_i w_i \, |y_i - f(x_i)|^2 + \lambda \|f\|^2, \qquad
          f = \sum_j c_j \, k(\cdot, x_j),

for vector targets :math:`y_i`. With :math:`A = W^{1/2} K W^{1/2} = U \,\mathrm{diag}(s)\, U'` (one
eigendecomposition) every :math:`\lambda` costs a matrix product,

.. math:: c = W^{1/2} U (s + \lambda)^{-1} U' W^{1/2} y, \qquad
          y - f = \lambda W^{-1} c, \qquad
          1 - h_i = \lambda \sum_k U_{ik}^2 / (s_k + \lambda),

and so do the scores of each sample by the ridge that was trained without it:

.. math:: y_i - f_{-i}(x_i) = (y_i - f(x_i)) / (1 - \theta_i h_i) .                     (1)

:math:`\theta_i` is the share of the weight of sample i that is held out. A sample weight can mean
two things. As a factor of importance the whole sample is left out, :math:`\theta = 1`. As a number
of copies one copy is left out and the others stay, :math:`\theta_i = 1 / w_i`, which is what
happens to repeated samples.

=============  ==============================
symbol         name here
=============  ==============================
K, y           ``K``, ``Y``
w, theta       ``sample_weight``, ``held_out``
c              ``coef``
f_{-i}(x_i)    ``loo``
=============  ==============================
"""

from dataclasses import dataclass

import numpy as np

from kernelquilt._typing import Floats
from kernelquilt.kernels.centring import mean_diagonal
from kernelquilt.quilt.space.search import FEW, MANY, SAFE, LeftOut, least_near, leave_out

PENALTIES = np.logspace(-3.0, 1.5, 12)
NEGLIGIBLE = 1e-12  # eigenvalue, in units of the largest, below which a direction is rounding


@dataclass(frozen=True)
class RidgeFit:
    """Kernel ridge regression at the penalty with the least leave-one-out error.

    Attributes
    ----------
    coef : ndarray of shape (n, c)
        Coefficients of the training samples, zero for those of weight 0.
    lam : float
        The penalty.
    loo : ndarray of shape (n, c)
        Score of each sample by the ridge without it; of samples of weight 0, the score itself.
    error : float
        Weighted mean squared error of `loo`, summed over the outputs.
    errors : ndarray of shape (n_lams,)
        The same for every penalty, inf for those that were not tried.
    """

    coef: Floats
    lam: float
    loo: Floats
    error: float
    errors: Floats


def solve_ridge_loo(
    K: Floats,
    Y: Floats,
    lams: Floats = PENALTIES,
    *,
    sample_weight: Floats | None = None,
    held_out: Floats | None = None,
) -> RidgeFit:
    """Solve kernel ridge regression (see the module docstring) for the best of some penalties.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        Positive semi-definite kernel; negative eigenvalues count as zero.
    Y : ndarray of shape (n, c)
        Targets.
    lams : ndarray of shape (n_lams,), default=PENALTIES
        Positive penalties.
    sample_weight : ndarray of shape (n,), optional
        Weights, 1 by default; 0 leaves a sample out.
    held_out : ndarray of shape (n,), optional
        Share of the weight of a sample that is held out in its score, 1 by default.

    Returns
    -------
    RidgeFit
    """
    n = len(K)
    weight = np.ones(n) if sample_weight is None else sample_weight
    used = np.flatnonzero(weight > 0)
    whole = len(used) == n
    root = np.sqrt(weight[used])
    A = K if whole else K[np.ix_(used, used)]
    if (root != 1.0).any():
        A = root[:, None] * A * root
    target = Y if whole else Y[used]
    share = None if held_out is None else held_out[used]
    found = None
    if len(used) > MANY:
        found = _search(A, target, lams, weight[used], share)
    if found is None:
        s, U = np.linalg.eigh(A)
        found = solve_spectral_loo(U, s, target, lams, weight[used], share)
    if whole:
        return found
    coef, loo = np.zeros(Y.shape), np.empty(Y.shape)
    coef[used], loo[used] = found.coef, found.loo
    unused = np.flatnonzero(weight <= 0)
    loo[unused] = K[np.ix_(unused, used)] @ found.coef
    return RidgeFit(coef, found.lam, loo, found.error, found.errors)


def _search(
    A: Floats, Y: Floats, lams: Floats, weight: Floats, held_out: Floats | None
) -> RidgeFit | None:
    """Do the same for the weighted kernel of many samples; None if it is indefinite."""
    root = np.sqrt(weight)[:, None]
    some = np.arange(0, len(A), -(-len(A) // FEW))
    s, U = np.linalg.eigh(A[np.ix_(some, some)])
    share = None if held_out is None else held_out[some]
    start = solve_spectral_loo(U, s, Y[some], lams, weight[some], share).errors.argmin()
    errors = np.full(len(lams), np.inf)
    weighted, least = root * Y, SAFE * float(np.trace(A))
    single = A.astype(np.float32)
    space, single_space = np.empty(A.shape), np.empty(A.shape, dtype=np.float32)

    def rough(k: int) -> float | None:
        if lams[k] < least:
            return None
        found = leave_out(single, weighted, lams[k], held_out, single_space)
        return None if found is None or not np.isfinite(found.error) else found.error

    def exact(k: int) -> tuple[float, LeftOut | None]:
        found = leave_out(A, weighted, lams[k], held_out, space)
        errors[k] = np.inf if found is None else found.error / weight.sum()
        return np.inf if found is None else found.error, found

    best, found = least_near(rough, exact, len(lams), int(start))
    if found is None:
        return None
    loo = Y - lams[best] * found.coef / root / found.free[:, None]
    return RidgeFit(root * found.coef, float(lams[best]), loo, float(errors[best]), errors)


def solve_spectral_loo(
    U: Floats,
    s: Floats,
    Y: Floats,
    lams: Floats,
    weight: Floats,
    held_out: Floats | None = None,
    inside: Floats | None = None,
) -> RidgeFit:
    """Do the work of `solve_ridge_loo` from the eigenvectors of the weighted kernel.

    Parameters
    ----------
    U, s : ndarrays of shape (n, r) and (r,)
        Orthonormal eigenvectors and eigenvalues of ``W^1/2 K W^1/2``; those of eigenvalue zero
        may be left out.
    Y : ndarray of shape (n, c)
        Targets.
    lams : ndarray of shape (n_lams,)
        Positive penalties.
    weight : ndarray of shape (n,)
        Positive weights.
    held_out : ndarray of shape (n,), optional
        As in `solve_ridge_loo`.
    inside : ndarray of shape (r, c), optional
        ``U' W^1/2 Y`` of all samples, if these are only some of them; scores and errors are then
        those of these samples, and the coefficients mean nothing.

    Returns
    -------
    RidgeFit
    """
    n, c = Y.shape
    s = np.maximum(s, 0.0)
    root = np.sqrt(weight)[:, None]
    weighted = root * Y
    inside = U.T @ weighted if inside is None else inside
    factor = 1.0 / (s[:, None] + lams)
    # what eigenvectors that were left out would add, both zero if there are none
    complete = U.shape[1] == n
    residue = np.zeros((n, c)) if complete else weighted - U @ inside
    kept = (factor * lams).T[:, :, None] * inside  # (n_lams, r, c)
    residuals = (U @ np.concatenate(list(kept), axis=1)).reshape(n, len(lams), c)
    residuals += residue[:, None]
    squared = U * U
    free = squared @ (factor * lams)  # 1 - h
    if not complete:
        # eigenvectors of small eigenvalues are inexact, but hardly count in h
        least = lams / (s.max(initial=0.0) + lams)
        free = np.maximum(1.0 - squared @ (factor * s[:, None]), least)
    if held_out is not None:
        free = 1.0 - held_out[:, None] * (1.0 - free)
    errors_of = np.square(residuals / free[:, :, None]).sum(axis=2)  # times the weight already
    errors = errors_of.sum(axis=0) / weight.sum()
    best = int(np.argmin(errors))
    residual = residuals[:, best]
    return RidgeFit(
        coef=root * residual / lams[best],
        lam=float(lams[best]),
        loo=Y - residual / root / free[:, [best]],
        error=float(errors[best]),
        errors=errors,
    )


@dataclass(frozen=True)
class FittedRidge:
    """Kernel ridge regression on a kernel of its own scale, with a constant as the bias.

    The kernel is ``K / scale + 1``; a penalty then means the same whatever the size of K.

    Attributes
    ----------
    coef : ndarray of shape (n, c)
        Coefficients of the training samples.
    scale : float
        What the kernel is divided by, its mean diagonal.
    fit : RidgeFit
        Penalty and leave-one-out scores.
    """

    coef: Floats
    scale: float
    fit: RidgeFit

    @property
    def bias(self) -> Floats:
        """Score of a sample whose similarities are all zero, shape (c,)."""
        return np.asarray(self.coef.sum(axis=0))

    def scores(self, K: Floats) -> Floats:
        """Return scores (n_rows, c) of samples with the similarities `K` (n_rows, n)."""
        return np.asarray(K @ (self.coef / self.scale) + self.bias)

    def on_features(
        self, Z: Floats, factors: Floats | float = 1.0
    ) -> "tuple[FeatureRidge, RidgeFit]":
        """Return the same ridge on features (n, D) of the kernel ``Z diag(factors) Z'``."""
        coef = (Z.T @ (self.coef / self.scale)) * np.reshape(factors, (-1, 1))
        return FeatureRidge(coef, self.bias, self.scale, self.fit.lam, self.fit.error), self.fit


def fit_ridge(
    K: Floats,
    Y: Floats,
    lams: Floats = PENALTIES,
    *,
    sample_weight: Floats | None = None,
    held_out: Floats | None = None,
) -> FittedRidge:
    """Fit kernel ridge regression with a bias, at the penalty with the least error.

    Parameters
    ----------
    K, Y, lams, sample_weight, held_out
        As in `solve_ridge_loo`.

    Returns
    -------
    FittedRidge
    """
    scale = mean_diagonal(K.diagonal(), sample_weight)
    biased = K / scale
    biased += 1.0
    fit = solve_ridge_loo(biased, Y, lams, sample_weight=sample_weight, held_out=held_out)
    return FittedRidge(fit.coef, scale, fit)


@dataclass(frozen=True)
class FeatureRidge:
    """Ridge regression on features of their own scale, with a constant as the bias.

    It is kernel ridge regression on ``Z Z' / scale + 1``, where the scale is the mean squared
    length: a penalty then means the same whatever the size of the features.

    Attributes
    ----------
    coef : ndarray of shape (D, c)
        What features are multiplied by.
    bias : ndarray of shape (c,)
        Score of a sample whose features are all zero.
    scale : float
        Mean squared length of the features.
    lam, error : float
        The penalty, and its leave-one-out error.
    """

    coef: Floats
    bias: Floats
    scale: float
    lam: float
    error: float

    def scores(self, Z: Floats) -> Floats:
        """Return scores (n_rows, c) of features (n_rows, D)."""
        return np.asarray(Z @ self.coef + self.bias)


@dataclass(frozen=True)
class Sums:
    """What ridge regression on features needs to know of all samples: weighted sums of products.

    Attributes
    ----------
    gram : ndarray of shape (D + 1, D + 1)
        ``F' W F`` of the features and a constant, ``F = [Z, 1]``.
    moments : ndarray of shape (D + 1, c)
        ``F' W Y``.
    squares : ndarray of shape (c,)
        Diagonal of ``Y' W Y``.
    """

    gram: Floats
    moments: Floats
    squares: Floats

    @classmethod
    def of(cls, Z: Floats, Y: Floats, weight: Floats) -> "Sums":
        """Sum over samples with features (n, D), targets (n, c) and weights (n,)."""
        D = Z.shape[1]
        gram, moments = np.empty((D + 1, D + 1)), np.empty((D + 1, Y.shape[1]))
        weighted = weight[:, None] * Y
        np.matmul(Z.T, weighted, out=moments[:-1])
        moments[-1] = weighted.sum(axis=0)
        gram[-1, -1] = weight.sum()
        gram[-1, :-1] = gram[:-1, -1] = weight @ Z
        rooted = Z if (weight == 1.0).all() else np.sqrt(weight)[:, None] * Z
        np.matmul(rooted.T, rooted, out=gram[:-1, :-1])
        return cls(gram, moments, np.einsum("il,il->l", weighted, Y))

    def of_outputs(self, outputs: slice) -> "Sums":
        """Return the sums of some of the targets."""
        return Sums(self.gram, self.moments[:, outputs], self.squares[outputs])


def fit_feature_ridge(
    Z: Floats,
    Y: Floats,
    lams: Floats = PENALTIES,
    *,
    sample_weight: Floats,
    held_out: Floats,
    sums: Sums | None = None,
    factors: Floats | None = None,
) -> tuple[FeatureRidge, RidgeFit]:
    """Fit ridge regression on features, at the penalty with the least leave-one-out error.

    It is solved by the samples if there are fewer of them than features, and by the features
    otherwise; both are the same regression.

    Parameters
    ----------
    Z : ndarray of shape (n, D)
        Features.
    Y, lams, sample_weight, held_out
        As in `solve_ridge_loo`, of the same samples; weights are positive.
    sums : Sums, optional
        Of all samples; by default of these.
    factors : ndarray of shape (D,), optional
        What features are multiplied by first, 1 by default.

    Returns
    -------
    ridge : FeatureRidge
        On the features before they are multiplied.
    fit : RidgeFit
        Leave-one-out scores of the samples, and their coefficients if there are no `sums`.
    """
    n, D = Z.shape
    if sums is None and n <= D:
        squares = 1.0 if factors is None else np.square(factors)
        # a product with the own transpose is half of the work
        kernel = Z @ Z.T if factors is None else (Z * squares) @ Z.T
        dual = fit_ridge(kernel, Y, lams, sample_weight=sample_weight, held_out=held_out)
        return dual.on_features(Z, squares)
    sums = Sums.of(Z, Y, sample_weight) if sums is None else sums
    multiplied = np.ones(D) if factors is None else factors
    return _fit_by_features(Z, Y, lams, sample_weight, held_out, sums, multiplied)


def _fit_by_features(
    Z: Floats,
    Y: Floats,
    lams: Floats,
    weight: Floats,
    held_out: Floats,
    sums: Sums,
    factors: Floats,
) -> tuple[FeatureRidge, RidgeFit]:
    lengths = factors**2 @ sums.gram.diagonal()[:-1]
    scale = float(lengths / sums.gram[-1, -1]) if lengths > 0 else 1.0
    multiplied = np.append(factors / np.sqrt(scale), 1.0)
    A = multiplied[:, None] * sums.gram * multiplied
    s, V = np.linalg.eigh(A)
    kept = s > NEGLIGIBLE * s[-1]
    s, V = s[kept], V[:, kept] / np.sqrt(s[kept])
    V *= multiplied[:, None]
    inside = V.T @ sums.moments
    U = Z @ V[:-1]
    U += V[-1]
    U *= np.sqrt(weight)[:, None]
    fit = solve_spectral_loo(U, s, Y, lams, weight, held_out, inside)
    beta = V @ ((s / (s + fit.lam))[:, None] * inside)
    return FeatureRidge(beta[:-1], beta[-1], scale, fit.lam, fit.error), fit
