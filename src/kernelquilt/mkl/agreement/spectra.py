r"""Eigendecompositions of centred kernels, and where they are kept.

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

import numpy as np
from scipy.linalg import qr

from kernelquilt._typing import Bools, Floats, Indices, Numbers
from kernelquilt.mkl.agreement.joint_ridge import JointRidge, Smoother, Spectrum

NEGATIVE = {np.dtype(np.float64): 1e-8, np.dtype(np.float32): 1e-4}  # more than rounding, relative
KEPT_SMOOTHERS = 2**28
STORED_BYTES = 2**30  # decompositions kept for the next fit on the same samples


def spectrum_of_kernel(
    K: Numbers, root: Floats, rows: Indices, negative: float | None = None
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


def spectrum_of_features(X: Floats, root: Floats, rows: Indices) -> Spectrum:
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
        # what is negative here is rounding, and never more than all of the largest
        return spectrum_of_kernel(X @ X.T, root, rows, negative=1.0)
    q = root / np.linalg.norm(root)
    mean = np.square(q) @ X
    B = root[:, None] * (X - mean)
    basis, R = qr(np.column_stack([q, B]), mode="economic")
    s, V = np.linalg.eigh(R[1:, 1:] @ R[1:, 1:].T)
    kept = _above_rounding(s, n)
    U = np.asfortranarray(basis[:, 1:] @ V[:, kept])
    return Spectrum(rows, q, U, s[kept], X @ mean, None)


def _above_rounding(s: Floats, n: int) -> Bools:
    """Return which eigenvalues, ascending, are above the rounding that makes others negative."""
    if len(s) == 0:
        return np.zeros(0, dtype=np.bool_)
    return np.asarray(s > max(n * np.finfo(np.float64).eps * s[-1], -s[0], 0.0))


class SmootherStore:
    """Keeps the smoothers that were used last, at most `KEPT_SMOOTHERS` bytes of them."""

    def __init__(self) -> None:
        self._kept: dict[tuple[int, float], Smoother] = {}
        self._lock = threading.Lock()

    def smoother(self, spectrum: Spectrum, gamma: float, n: int) -> Smoother:
        """Return the smoother of one of the spectra, which must outlive this store."""
        key = id(spectrum), gamma
        with self._lock:
            made = self._kept.pop(key, None) or Smoother(spectrum, gamma, n)
            self._kept[key] = made
            room = KEPT_SMOOTHERS
            for old in reversed(list(self._kept)):
                room -= 8 * len(self._kept[old].q) ** 2
                if room < 0 and old != key:
                    del self._kept[old]
        return made


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
    recent : list
        Where the solver made last is kept, for the next labels; shared, because one takes as much
        memory as the spectra.
    """

    def __init__(
        self,
        used: Indices,
        root: Floats,
        spectra: list[Spectrum | None],
        recent: list[tuple["WeightedViews", Floats, float, JointRidge]],
    ) -> None:
        self.used, self.root, self.spectra = used, root, spectra
        self.observed = np.zeros((len(spectra), len(used)), dtype=np.bool_)
        for mask, one in zip(self.observed, spectra, strict=True):
            if one is not None:
                mask[one.rows] = True
        # views that share no sample cannot disagree
        self.coupled = bool((self.observed.sum(axis=0) > 1).any())
        self._recent = recent
        self._smoothers = SmootherStore()

    def joint_ridge(self, c: Floats, lam: float) -> JointRidge:
        """Return the solver for the penalties c (M,) and lam, the recent one if it is the same."""
        for views, old_c, old_lam, ridge in list(self._recent):
            if views is self and old_lam == lam and np.array_equal(old_c, c):
                return ridge
        n = len(self.used)
        smoothers = [
            None if one is None else self._smoothers.smoother(one, gamma, n)
            for one, gamma in zip(self.spectra, c / (1.0 + lam), strict=True)
        ]
        ridge = JointRidge(smoothers, n, lam)
        self._recent[:] = [(self, c, lam, ridge)]
        return ridge


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
        views: Sequence[Numbers] | Numbers,
        observed: Bools,
        *,
        features: bool = False,
    ) -> None:
        self.views, self.observed, self.features = views, observed, features
        self._kept: dict[bytes, WeightedViews] = {}
        self._locks: dict[bytes, threading.Lock] = {}
        self._recent: list[tuple[WeightedViews, Floats, float, JointRidge]] = []
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
        return WeightedViews(used, root, spectra, self._recent)
