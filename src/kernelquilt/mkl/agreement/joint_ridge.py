r"""Least squares in several views that are to agree, on the spectra of their kernels.

See :mod:`kernelquilt.mkl.agreement.spectra` for the decomposition and the weighted values.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import cho_factor
from scipy.linalg.blas import dsymv, dsyrk, dtrsv

from kernelquilt._typing import Floats, Indices


class Spectrum(NamedTuple):
    """A centred kernel between the samples that take part and have the view.

    Attributes
    ----------
    rows : ndarray of shape (n_l,), int
        These samples, among those that take part.
    q : ndarray of shape (n_l,)
        Unit vector of the bias.
    U, s : ndarrays of shape (n_l, r) and (r,)
        Eigenvectors and positive eigenvalues.
    mean_row : ndarray of shape (n_l,)
        Weighted mean of the rows of the kernel as it was given.
    positive : ndarray of shape (n_l, k), or None
        Eigenvectors of the positive part of a kernel that is not positive semi-definite.
    """

    rows: Indices
    q: Floats
    U: Floats
    s: Floats
    mean_row: Floats
    positive: Floats | None

    @property
    def nbytes(self) -> int:
        """Size in memory."""
        return sum(part.nbytes for part in self if part is not None)


class Smoother:
    """Ridge regression of one view with a free bias: ``S = qq' + U diag(s / (s + gamma)) U'``.

    Parameters
    ----------
    spectrum : Spectrum
        The view.
    gamma : float
        Penalty, positive.
    n : int
        Samples that take part, of which the view may lack some.
    """

    def __init__(self, spectrum: Spectrum, gamma: float, n: int) -> None:
        # the rows of a slice are not copied
        self.rows: Any = slice(None) if len(spectrum.rows) == n else spectrum.rows
        self.q, self.U = spectrum.q, spectrum.U
        self.kept, self.lost = spectrum.s / (spectrum.s + gamma), gamma / (spectrum.s + gamma)
        self.S: Floats | None = None

    @property
    def factor(self) -> Floats:
        """W with ``S = W W'``."""
        return np.column_stack([self.q, self.U * np.sqrt(self.kept)])

    def lower(self) -> Floats:
        """Return the lower triangle of S, and use it from now on if it is cheaper than U."""
        if self.S is not None:
            return self.S
        S = np.asarray(dsyrk(1.0, self.factor, lower=True))
        if 2 * len(self.kept) > len(S):
            self.S = S
        return S

    def __call__(self, t: Floats) -> Floats:
        """Return ``S t``."""
        if self.S is not None:
            return np.asarray(dsymv(1.0, self.S, t, lower=True))
        return self.split(t)[0]

    def split(self, t: Floats) -> tuple[Floats, Floats]:
        """Return ``S t``, and the part of ``t - S t`` that functions of the view can take up."""
        inner = self.U.T @ t
        return self.q * (self.q @ t) + self.U @ (self.kept * inner), self.U @ (self.lost * inner)

    def quick_split(self, t: Floats) -> tuple[Floats, Floats]:
        """Return what `split` does, up to the rounding of S, which is not that of its factors."""
        if self.S is None:
            return self.split(t)
        smoothed = self(t)
        # values that no function takes must stay out of the second part: conjugate gradients do
        # not see them, and would let them grow
        full = len(self.kept) + 1 == len(self.q)
        return smoothed, t - smoothed if full else self.U @ (self.lost * (self.U.T @ t))


class JointRidge:
    r"""Ridge regression in several views with a penalty on their disagreement, solved exactly.

    For targets r of shape (M, n) the solver returns the z and the :math:`e = c \beta` with

    .. math:: (1 + \lambda) z_l - \lambda \bar z + e_l = r_l

    on the samples that have view l, where :math:`\bar z` is the mean over the views that a sample
    has: the minimiser of :math:`\sum_l \|z_l - r_l\|^2 + c_l \|w_l\|^2 + \lambda \sum_l \|z_l -
    \bar z\|^2`. The equations hold for functionals of the functions of each view. One factor of
    the system for :math:`\bar z`, in the samples or in the eigenvectors, whichever are fewer,
    serves all right-hand sides; it is well conditioned.

    Parameters
    ----------
    smoothers : sequence of Smoother or None
        One for each view, of penalty ``c / (1 + lam)``; None for views that nobody has.
    n : int
        Samples that take part.
    lam : float
        Penalty on the disagreement.
    """

    def __init__(self, smoothers: Sequence[Smoother | None], n: int, lam: float) -> None:
        self.counts, self.lam = np.zeros(n), lam
        self.smoothers = [(l, one) for l, one in enumerate(smoothers) if one is not None]
        for _, one in self.smoothers:
            self.counts[one.rows] += 1.0
        if lam > 0:
            self._factorise(n, self.lam / (1.0 + self.lam))

    def _factorise(self, n: int, kappa: float) -> None:
        """Factorise ``diag(counts) - kappa sum_l S_l``, by Woodbury's formula if it pays."""
        self.low_rank = sum(len(one.kept) + 1 for _, one in self.smoothers) < n
        if not self.low_rank:
            system = np.asfortranarray(np.diag(self.counts))
            for _, one in self.smoothers:
                S = kappa * one.lower()
                if len(S) == n:
                    system -= S
                else:
                    system[np.ix_(one.rows, one.rows)] -= S
            self.triangle = _cholesky(system)
            return
        parts = []
        for _, one in self.smoothers:
            part = np.zeros((n, len(one.kept) + 1))
            part[one.rows] = one.factor
            parts.append(part)
        self.W = np.sqrt(kappa) * np.hstack(parts) / self.counts[:, None]
        inner = -(self.W.T * self.counts) @ self.W
        inner[np.diag_indices(len(inner))] += 1.0
        self.triangle = _cholesky(inner)

    def _targets(self, r: Floats) -> Floats:
        """Return ``r + lam zbar``, which leaves one ridge regression for each view."""
        if self.lam == 0:
            return r
        right = np.zeros(r.shape[1])
        for l, one in self.smoothers:
            right[one.rows] += one(r[l, one.rows])
        right /= 1.0 + self.lam
        if self.low_rank:
            inner = _solved(self.triangle, self.W.T @ right)
            mean = right / self.counts + self.W @ inner
        else:
            mean = _solved(self.triangle, right)
        return r + self.lam * mean

    def __call__(self, r: Floats, *, quick: bool = False) -> tuple[Floats, Floats]:
        """Return z and e, both (M, n), zero where absent, for targets r (M, n).

        With `quick` the product of r and z has an error of the order of rounding times ``|r|^2``;
        otherwise it is as small as r is as a functional of the functions of the views.
        """
        t = self._targets(r)
        z, e = np.zeros(r.shape), np.zeros(r.shape)
        for l, one in self.smoothers:
            split = one.quick_split if quick else one.split
            smoothed, e[l, one.rows] = split(t[l, one.rows])
            z[l, one.rows] = smoothed / (1.0 + self.lam)
        return z, e


def _cholesky(A: Floats) -> Floats:
    """Return the lower factor of a positive definite matrix, whose upper triangle is not used."""
    try:
        factor, _ = cho_factor(A, lower=True, overwrite_a=True, check_finite=False)
    except np.linalg.LinAlgError as error:
        raise ValueError(
            "lam is so large beside c that rounding hides everything but disagreement; lower lam, "
            "or raise c"
        ) from error
    return np.asarray(factor)


def _solved(factor: Floats, right: Floats) -> Floats:
    """Return ``(L L')^-1 right``; for one right-hand side faster than LAPACK's own."""
    return np.asarray(dtrsv(factor, dtrsv(factor, right, lower=1), lower=1, trans=1))
