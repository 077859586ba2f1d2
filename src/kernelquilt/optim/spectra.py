r"""Eigendecompositions of centred kernels, and least squares in several views that are to agree.

A function of view l is :math:`f = K \beta + b` with penalty :math:`c \beta' K \beta`. In values
times the roots of the sample weights, :math:`\tilde f = V^{1/2} f`, and with the unit vector
:math:`q \propto V^{1/2} 1` of the bias projected out,

.. math:: (I - qq') V^{1/2} K V^{1/2} (I - qq') = U \operatorname{diag}(s) U',

ridge regression with a free bias is the smoother :math:`S_\gamma = qq' + U \operatorname{diag}(s /
(s + \gamma)) U'`. The decomposition depends neither on labels nor on c and lambda, so one serves
all of them. All arrays below are in these weighted values.
"""

import threading
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve, qr

Floats = NDArray[np.float64]

NEGATIVE = {np.dtype(np.float64): 1e-8, np.dtype(np.float32): 1e-4}  # more than rounding, relative
STORED_BYTES = 2**30  # decompositions kept for the next fit on the same samples


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

    rows: NDArray[np.intp]
    q: Floats
    U: Floats
    s: Floats
    mean_row: Floats
    positive: Floats | None

    @property
    def nbytes(self) -> int:
        """Size in memory."""
        return sum(part.nbytes for part in self if part is not None)


def spectrum_of_kernel(
    K: NDArray[np.floating], root: Floats, rows: NDArray[np.intp], negative: float | None = None
) -> Spectrum:
    """Decompose a kernel.

    Parameters
    ----------
    K : ndarray of shape (n_l, n_l)
        Symmetric. If it is not positive semi-definite, its positive part is used.
    root : ndarray of shape (n_l,)
        Roots of the weights, positive.
    rows : ndarray of shape (n_l,), int
        Kept as they are.
    negative : float, optional
        Share of the largest eigenvalue from which on a negative one is no rounding.

    Returns
    -------
    Spectrum
    """
    negative = NEGATIVE[K.dtype] if negative is None else negative
    A = root[:, None] * K.astype(np.float64) * root
    q = root / np.linalg.norm(root)
    s, U, Aq = _centred(A, q)
    positive = None
    if len(s) and s[0] < -negative * max(s[-1], -s[0]):
        values, vectors = np.linalg.eigh(A)
        kept = values > len(A) * np.finfo(np.float64).eps * np.abs(values).max()
        positive = vectors[:, kept]
        s, U, Aq = _centred((positive * values[kept]) @ positive.T, q)
    kept = _above_rounding(s, len(A))
    return Spectrum(
        rows,
        q,
        np.asfortranarray(U[:, kept]),
        s[kept],
        Aq / (root * np.linalg.norm(root)),
        positive,
    )


def _centred(A: Floats, q: Floats) -> tuple[Floats, Floats, Floats]:
    """Return eigenvalues and eigenvectors of ``(I - qq') A (I - qq')``, and ``A q``.

    A reflection takes q to the first axis, and what is left of A in the other axes is decomposed:
    so the eigenvectors are orthogonal to q to rounding, also those of tiny eigenvalues.
    """
    u = q.copy()
    u[0] += 1.0
    u /= np.linalg.norm(u)
    Au = A @ u
    shift = 2.0 * (Au - (u @ Au) * u)
    s, inner = np.linalg.eigh((A - np.outer(u, shift) - np.outer(shift, u))[1:, 1:])
    U = np.vstack([np.zeros(len(s)), inner])
    U -= 2.0 * np.outer(u, u @ U)
    return s, U, A @ q


def spectrum_of_features(X: Floats, root: Floats, rows: NDArray[np.intp]) -> Spectrum:
    """Decompose the linear kernel ``X X'``, without computing it if X has few columns.

    Parameters
    ----------
    X : ndarray of shape (n_l, d)
        Features.
    root, rows
        As in `spectrum_of_kernel`.

    Returns
    -------
    Spectrum
    """
    n, d = X.shape
    if d + 1 >= n:
        return spectrum_of_kernel(X @ X.T, root, rows, negative=np.inf)
    q = root / np.linalg.norm(root)
    mean = np.square(q) @ X
    B = root[:, None] * (X - mean)
    basis, R = qr(np.column_stack([q, B]), mode="economic")
    s, V = np.linalg.eigh(R[1:, 1:] @ R[1:, 1:].T)
    kept = _above_rounding(s, n)
    U = np.asfortranarray(basis[:, 1:] @ V[:, kept])
    return Spectrum(rows, q, U, s[kept], X @ mean, None)


def _above_rounding(s: Floats, n: int) -> NDArray[np.bool_]:
    """Return which eigenvalues, ascending, are above the rounding that makes others negative."""
    if len(s) == 0:
        return np.zeros(0, dtype=np.bool_)
    return np.asarray(s > max(n * np.finfo(np.float64).eps * s[-1], -s[0], 0.0))


class JointRidge:
    r"""Ridge regression in several views with a penalty on their disagreement, solved exactly.

    For targets r of shape (M, n) the solver returns the z and the :math:`e = c \beta` with

    .. math:: (1 + \lambda) z_l - \lambda \bar z + e_l = r_l

    on the samples that have view l, where :math:`\bar z` is the mean over the views that a sample
    has: the minimiser of :math:`\sum_l \|z_l - r_l\|^2 + c_l \|w_l\|^2 + \lambda \sum_l \|z_l -
    \bar z\|^2`. One Cholesky factor R of the system for :math:`\bar z`, in the samples or in the
    eigenvectors, whichever are fewer, serves all right-hand sides.

    Parameters
    ----------
    spectra : sequence of Spectrum or None
        One for each view, None for views that nobody has.
    n : int
        Samples that take part.
    c : ndarray of shape (M,)
        Penalties of the views.
    lam : float
        Penalty on the disagreement.
    """

    def __init__(self, spectra: Sequence[Spectrum | None], n: int, c: Floats, lam: float) -> None:
        self.spectra = spectra
        self.counts = np.zeros(n)
        for one in spectra:
            if one is not None:
                self.counts[one.rows] += 1.0
        # views that share no sample cannot disagree
        self.lam = lam if (self.counts > 1).any() else 0.0
        self.shrunk = [
            None
            if one is None
            else np.column_stack([one.s, np.full(len(one.s), g)]) / (one.s + g)[:, None]
            for one, g in zip(spectra, c / (1.0 + self.lam), strict=True)
        ]
        if self.lam > 0:
            self._factorise(n, self.lam / (1.0 + self.lam))

    def _factorise(self, n: int, kappa: float) -> None:
        parts = []
        for one, shrunk in zip(self.spectra, self.shrunk, strict=True):
            if one is not None and shrunk is not None:
                part = np.zeros((n, len(one.s) + 1))
                part[one.rows, 0] = one.q
                part[one.rows, 1:] = one.U * np.sqrt(shrunk[:, 0])
                parts.append(part)
        self.kappa = kappa
        self.low_rank = sum(part.shape[1] for part in parts) < n
        if self.low_rank:
            self.W = np.hstack(parts)
            inner = self.W.T @ (self.W / self.counts[:, None])
            inner *= -kappa
            inner[np.diag_indices(len(inner))] += 1.0
            self.factor = cho_factor(inner, overwrite_a=True, check_finite=False)
            return
        system = np.zeros((n, n))
        for part in parts:
            system -= part @ part.T
        system *= kappa
        system[np.diag_indices(n)] += self.counts
        self.factor = cho_factor(system, overwrite_a=True, check_finite=False)

    def _mean(self, smoothed: Floats) -> Floats:
        """Return the mean output of the solution for the sum over the views of S r."""
        right = smoothed / (1.0 + self.lam)
        if not self.low_rank:
            return np.asarray(cho_solve(self.factor, right, check_finite=False))
        right = right / self.counts
        inner = cho_solve(self.factor, self.W.T @ right, check_finite=False)
        return np.asarray(right + self.kappa * (self.W @ inner) / self.counts)

    def __call__(self, r: Floats) -> tuple[Floats, Floats]:
        """Return z and e, both (M, n), zero where absent, for targets r (M, n)."""
        if self.lam > 0:
            total = np.zeros(r.shape[1])
            for one, shrunk, target in zip(self.spectra, self.shrunk, r, strict=True):
                if one is not None and shrunk is not None:
                    t = target[one.rows]
                    total[one.rows] += one.q * (one.q @ t) + one.U @ (shrunk[:, 0] * (one.U.T @ t))
            r = r + self.lam * self._mean(total)
        z, e = np.zeros(r.shape), np.zeros(r.shape)
        for l, (one, shrunk) in enumerate(zip(self.spectra, self.shrunk, strict=True)):
            if one is not None and shrunk is not None:
                t = r[l, one.rows]
                both = one.U @ (shrunk * (one.U.T @ t)[:, None])
                z[l, one.rows] = (one.q * (one.q @ t) + both[:, 0]) / (1.0 + self.lam)
                e[l, one.rows] = both[:, 1]
        return z, e


class WeightedViews:
    """Samples that take part, the roots of their weights and the spectra of their views.

    Parameters
    ----------
    used : ndarray of shape (n_used,), int
        Samples that take part, among all.
    root : ndarray of shape (n_used,)
        Roots of their weights.
    spectra : list of Spectrum or None
        One for each view.
    """

    def __init__(
        self, used: NDArray[np.intp], root: Floats, spectra: list[Spectrum | None]
    ) -> None:
        self.used, self.root, self.spectra = used, root, spectra
        self.observed = np.zeros((len(spectra), len(used)), dtype=np.bool_)
        for mask, one in zip(self.observed, spectra, strict=True):
            if one is not None:
                mask[one.rows] = True
        self._last: tuple[Floats, float, JointRidge] | None = None

    def joint_ridge(self, c: Floats, lam: float) -> JointRidge:
        """Return the solver for the penalties c (M,) and lam, the last one if they are the same."""
        last = self._last
        if last is None or last[1] != lam or not np.array_equal(last[0], c):
            last = c, lam, JointRidge(self.spectra, len(self.used), c, lam)
            self._last = last
        return last[2]


class SpectrumStore:
    """Makes `WeightedViews` of kernels or features, and keeps them for fits with the same weights.

    Parameters
    ----------
    views : sequence of M arrays
        Kernels (n, n), or features (n, d) of linear kernels; anything where absent.
    observed : ndarray of shape (n, M), bool
        True where a sample has a view.
    features : bool, default=False
        Whether the arrays hold features.
    """

    def __init__(
        self,
        views: Sequence[NDArray[np.floating]] | NDArray[np.floating],
        observed: NDArray[np.bool_],
        *,
        features: bool = False,
    ) -> None:
        self.views, self.observed, self.features = views, observed, features
        self._kept: dict[bytes, WeightedViews] = {}
        self._locks: dict[bytes, threading.Lock] = {}
        self._size = 0

    def weighted(self, weight: Floats) -> WeightedViews:
        """Return the views of the samples with positive weight (n,)."""
        key = weight.tobytes()
        # of several threads that need the same decomposition only the first computes it
        with self._locks.setdefault(key, threading.Lock()):
            made = self._kept.get(key)
            if made is None:
                made = self.decompose(weight)
                size = sum(one.nbytes for one in made.spectra if one is not None)
                if self._size + size <= STORED_BYTES:
                    self._kept[key] = made
                    self._size += size
        return made

    def decompose(self, weight: Floats) -> WeightedViews:
        """Return the views of the samples with positive weight (n,), computed anew."""
        used = np.flatnonzero((weight > 0) & self.observed.any(axis=1))
        root = np.sqrt(weight[used])
        spectra: list[Spectrum | None] = []
        for view, has in zip(self.views, self.observed.T, strict=True):
            rows = np.flatnonzero(has[used])
            chosen = used[rows]
            if len(rows) == 0:
                spectra.append(None)
            elif self.features:
                spectra.append(spectrum_of_features(view[chosen], root[rows], rows))
            else:
                spectra.append(spectrum_of_kernel(view[np.ix_(chosen, chosen)], root[rows], rows))
        return WeightedViews(used, root, spectra)
