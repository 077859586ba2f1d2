"""The smooth parts of multi-view kernel completion, as functions of the weights A.

View m of M observes the samples I_m, of which B_m make up its basis (all, by default). Row i in B_m
of the matrix A_m holds the weights of basis sample i in all n samples, so that

    Khat_m = A_m' K_m[B_m, B_m] A_m,    E_m = (Khat_m - K_m) on I_m x I_m, zero elsewhere.

With S (M, M), rows on the simplex and zero on the diagonal, B = I - S applied across the views, and
A_m zero in the rows outside of B_m,

    heterogeneous  sum_m |E_m|^2 + lam1 sum_m |((B A)_m)_{rows R_m}|^2,
                   R_m = I_m or all samples;
                   gradient 4 K_m A_m E_m + 2 lam1 (B' C)_m with C = B A on the rows R_m
    approximation  sum_m |E_m|^2 + lam1 sum_m |(B Khat)_m|^2;
                   gradient 4 K_m A_m (E_m + lam1 (B' B Khat)_m)
    homogeneous    sum_m |E_m|^2 with one A for all views; gradient sum_m 4 K_m A E_m

each of which a class evaluates. Only rows B_m are stored. With K_m[B_m, B_m] = L L' the products
take L' A, so that kernels of low rank are cheap, and E_m of the first and the third need only the
observed columns of A. What couples the views is done for a few rows of all views at a time, which
needs no memory worth mention. For a single view there is no coupling.
"""

from collections.abc import Callable, Sequence

import numpy as np

from kernelquilt._typing import Array, Bools, Floats, Indices
from kernelquilt.core.weights.sets import simplex_least_squares

ENTRIES = 2**19  # of all views held at a time where they are coupled
RIDGES = (0.01, 1.0)  # least and largest mu, for kernels with diagonals about 1
NEGLIGIBLE = 1e-13  # eigenvalues of kernels, relative to the largest


def factor(K: Floats) -> Floats:
    """Return L (n, r) with L L' = K to rounding, r <= n, for a positive semi-definite K (n, n).

    Negative eigenvalues are taken for zero.
    """
    values, vectors = np.linalg.eigh(K)
    kept = values > NEGLIGIBLE * max(float(values[-1]), 0.0) if len(values) else values > 0
    return np.asarray(vectors[:, kept] * np.sqrt(values[kept]))


class EmbeddingObjective:
    """What the three objectives share: the layout of A in one vector, and the kernels.

    Parameters
    ----------
    K, observed, basis, lam1, sizes
        As in `solve_embedding`.
    frozen : ndarray of bool of shape (n,), default=None
        Samples that may have no weight in themselves.

    Attributes
    ----------
    mixing : ndarray of shape (M, M)
        S, the weights of the views in each other.
    """

    def __init__(
        self,
        K: Array,
        observed: Bools,
        basis: list[Indices],
        lam1: float,
        frozen: Bools | None = None,
        sizes: Floats | None = None,
    ) -> None:
        M, n = K.shape[:2]
        sizes = np.ones(M) if sizes is None else sizes
        self.n = n
        self.basis = basis
        self.observed = observed
        self.present = [np.flatnonzero(column) for column in observed.T]
        self.lam1 = lam1 if M > 1 else 0.0
        self.mixing = (1 - np.eye(M)) / max(M - 1, 1)
        self._known = [
            k[np.ix_(o, o)].astype(np.float64) / size
            for k, o, size in zip(K, self.present, sizes, strict=True)
        ]
        self._factors = [
            factor(k[np.ix_(b, b)].astype(np.float64) / size)
            for k, b, size in zip(K, basis, sizes, strict=True)
        ]
        self._ends = np.cumsum([len(b) * n for b in self.blocks]).tolist()
        self._frozen = self._frozen_entries(frozen)

    @property
    def blocks(self) -> list[Indices]:
        """The samples that the rows of each block of A stand for."""
        return self.basis

    @property
    def value_of_nothing(self) -> float:
        """The value for weights that are all zero."""
        return sum(float(np.vdot(known, known)) for known in self._known)

    def split(self, x: Floats) -> list[Floats]:
        """Return the blocks (b_m, n) of a vector, which share its memory."""
        starts = (0, *self._ends[:-1])
        return [
            x[start:end].reshape(-1, self.n) for start, end in zip(starts, self._ends, strict=True)
        ]

    def pack(self, blocks: list[Floats]) -> Floats:
        """Return blocks (b_m, n) as one vector, with zeros where no weight may be."""
        x = np.concatenate([block.ravel() for block in blocks])
        x[self._frozen] = 0.0
        return x

    def evaluate(self, x: Floats, gradient: Floats) -> float:
        """Write the gradient at x and return the value."""
        value = self._evaluate(self.split(x), self.split(gradient))
        gradient[self._frozen] = 0.0
        return value

    def mix(self, x: Floats) -> None:
        """Set S to the minimiser for these weights."""
        if self.lam1 > 0:
            grams = self._grams(self.split(x))
            self.mixing = np.array([simplex_least_squares(g, m) for m, g in enumerate(grams)])

    def preconditioner(self, lam2: float) -> Callable[[Floats], None]:
        """Return a product in place with (K_m + mu I)^-1 by blocks, a crude inverse Hessian.

        Parameters
        ----------
        lam2 : float
            Weight of the norm of A, part of mu.
        """
        mu = float(np.clip(lam2 + self._flat_curvature, *RIDGES))
        inverses = [np.linalg.inv(G + mu * np.eye(len(G))) for G in self._grams_of_blocks()]

        def multiply(x: Floats) -> None:
            for block, inverse in zip(self.split(x), inverses, strict=True):
                block[...] = inverse @ block
            x[self._frozen] = 0.0

        return multiply

    @property
    def _flat_curvature(self) -> float:
        """Curvature that all weights have alike."""
        return 0.0

    def _grams_of_blocks(self) -> list[Floats]:
        return [L @ L.T for L in self._factors]

    def _evaluate(self, A: list[Floats], gradient: list[Floats]) -> float:
        raise NotImplementedError

    def _grams(self, A: list[Floats]) -> list[Floats]:
        """Return for each view the inner products (M, M) between all as its coupling sees them."""
        raise NotImplementedError

    def _frozen_entries(self, frozen: Bools | None) -> Indices:
        if frozen is None:
            return np.empty(0, dtype=np.intp)
        starts = np.concatenate([[0], self._ends[:-1]])
        own = [
            start + np.flatnonzero(frozen[b]) * self.n + b[frozen[b]]
            for start, b in zip(starts, self.blocks, strict=True)
        ]
        return np.concatenate(own).astype(np.intp)

    def _within_all(self, A: list[Floats], gradient: list[Floats]) -> float:
        """Write the gradient of all |E_m|^2, for own weights of each view; return their sum."""
        value = 0.0
        for m, (a, g, o) in enumerate(zip(A, gradient, self.present, strict=True)):
            within, slope = self._within(m, a[:, o])
            value += within
            g[...] = 0.0
            g[:, o] = slope
        return value

    def _within(self, m: int, A: Floats) -> tuple[float, Floats]:
        """Return |E_m|^2 and its gradient by the columns A (b, n_m) of the observed samples."""
        L = self._factors[m]
        P = L.T @ A
        E = P.T @ P
        E -= self._known[m]
        return float(np.vdot(E, E)), 4 * (L @ (P @ E))


class HeterogeneousObjective(EmbeddingObjective):
    """Own weights for each view, similar to those of the others.

    Parameters
    ----------
    K, observed, basis, lam1, frozen, sizes
        As in `EmbeddingObjective`.
    all_rows : bool, default=False
        Whether the views are compared in all rows rather than in those that a view observes.
    """

    def __init__(
        self,
        K: Array,
        observed: Bools,
        basis: list[Indices],
        lam1: float,
        frozen: Bools | None = None,
        sizes: Floats | None = None,
        *,
        all_rows: bool = False,
    ) -> None:
        super().__init__(K, observed, basis, lam1, frozen, sizes)
        self._compared = np.ones_like(observed) if all_rows else observed

    def _evaluate(self, A: list[Floats], gradient: list[Floats]) -> float:
        value = self._within_all(A, gradient)
        return value + self._couple(A, gradient) if self.lam1 > 0 else value

    @property
    def _flat_curvature(self) -> float:
        return self.lam1

    def _couple(self, A: list[Floats], gradient: list[Floats]) -> float:
        B = np.eye(len(A)) - self.mixing
        value = 0.0

        def add(rows: slice, T: Floats, places: list[tuple[slice, Indices]]) -> None:
            nonlocal value
            C = (B @ T.reshape(len(A), -1)).reshape(T.shape)
            C *= self._compared.T[:, rows, None]
            value += float(np.vdot(C, C))
            C = (2 * self.lam1 * B.T @ C.reshape(len(A), -1)).reshape(T.shape)
            for g, c, (part, at) in zip(gradient, C, places, strict=True):
                g[part] += c[at]

        self._by_rows(A, add)
        return self.lam1 * value

    def _grams(self, A: list[Floats]) -> list[Floats]:
        grams = np.zeros((len(A), len(A), len(A)))

        def add(rows: slice, T: Floats, places: list[tuple[slice, Indices]]) -> None:
            by_row = T.transpose(1, 0, 2)
            products = by_row @ by_row.transpose(0, 2, 1)
            grams[...] += np.tensordot(self._compared[rows].T.astype(np.float64), products, axes=1)

        self._by_rows(A, add)
        return list(grams)

    def _by_rows(
        self, A: list[Floats], use: Callable[[slice, Floats, list[tuple[slice, Indices]]], None]
    ) -> None:
        """Call `use` with some rows of all views (M, c, n), and where they are in the blocks."""
        size = max(1, ENTRIES // (len(A) * self.n))
        for start in range(0, self.n, size):
            rows = slice(start, min(start + size, self.n))
            T = np.zeros((len(A), rows.stop - start, self.n))
            places = []
            for a, b, t in zip(A, self.basis, T, strict=True):
                part = slice(*np.searchsorted(b, [start, rows.stop]))
                at = b[part] - start
                t[at] = a[part]
                places.append((part, at))
            use(rows, T, places)


class ApproximationObjective(EmbeddingObjective):
    """Own weights for each view, with similar approximate kernels."""

    def _evaluate(self, A: list[Floats], gradient: list[Floats]) -> float:
        if self.lam1 == 0:  # without coupling no kernels of all samples are needed
            return self._within_all(A, gradient)
        # L' A is kept where the gradient will be, which saves the memory
        P = [g[: L.shape[1]] for g, L in zip(gradient, self._factors, strict=True)]
        Khat = self._approximate(A, P)
        B = np.eye(len(A)) - self.mixing
        value = 0.0
        size = max(1, ENTRIES // (len(A) * self.n))
        for start in range(0, self.n, size):
            rows = slice(start, min(start + size, self.n))
            T = Khat[:, rows].reshape(len(A), -1)
            C = B @ T
            value += self.lam1 * float(np.vdot(C, C))
            C = (self.lam1 * B.T @ C).reshape(len(A), -1, self.n)
            for m, o in enumerate(self.present):
                part = slice(*np.searchsorted(o, [start, rows.stop]))
                at = np.ix_(o[part] - start, o)
                E = Khat[m, rows][at] - self._known[m][part]
                value += float(np.vdot(E, E))
                C[m][at] += E
            Khat[:, rows] = C
        for g, p, L, kernel in zip(gradient, P, self._factors, Khat, strict=True):
            product = p @ kernel
            np.matmul(L, product, out=g)
            g *= 4
        return value

    def _grams(self, A: list[Floats]) -> list[Floats]:
        flat = self._approximate(A, [None] * len(A)).reshape(len(A), -1)
        return [flat @ flat.T] * len(A)

    def _approximate(self, A: list[Floats], products: Sequence[Floats | None]) -> Floats:
        """Return the approximate kernels (M, n, n), and write L' A (r_m, n) where it is wanted."""
        Khat = np.empty((len(A), self.n, self.n))
        for a, L, product, out in zip(A, self._factors, products, Khat, strict=True):
            P = np.matmul(L.T, a, out=product)
            np.matmul(P.T, P, out=out)
        return Khat


class HomogeneousObjective(EmbeddingObjective):
    """The same weights for all views."""

    @property
    def blocks(self) -> list[Indices]:
        """All basis samples, the rows of the only block."""
        return [np.unique(np.concatenate(self.basis))]

    def mix(self, x: Floats) -> None:
        """Do nothing: the views are not compared."""

    def _grams_of_blocks(self) -> list[Floats]:
        rows = self.blocks[0]
        total = np.zeros((len(rows), len(rows)))
        for b, L in zip(self.basis, self._factors, strict=True):
            at = np.searchsorted(rows, b)
            total[np.ix_(at, at)] += L @ L.T
        return [total]

    def _evaluate(self, A: list[Floats], gradient: list[Floats]) -> float:
        value = 0.0
        rows = self.blocks[0]
        gradient[0][...] = 0.0
        for m, (b, o) in enumerate(zip(self.basis, self.present, strict=True)):
            at = np.ix_(np.searchsorted(rows, b), o)
            within, slope = self._within(m, A[0][at])
            value += within
            gradient[0][at] += slope
        return value
