"""Completing a matrix by its nuclear norm, when whole blocks of it are known.

    min_X  |X|_* + 1/2 |X|_F^2    subject to  X_p = B_p on the rows o_p,  p = 1 ... M,    (1)

for X = [X_1 ... X_M] with n rows, each block of which is known in some rows but there in all of its
columns. With D(Y) = U max(S - 1, 0) V' for Y = U S V', the dual is

    max_Y  <Y, B> - 1/2 |D(Y)|_F^2    over Y that are zero where X is not known,    (2)

whose gradient is B - X on the known rows, X = D(Y). For a symmetric block B_p = E diag(l) E' the
orthogonal E drops out of (1), so that B_p may be replaced by E diag(l), and columns of l near 0 be
left out. Singular values are found from n x n matrices.

The alternating direction method of multipliers splits (1) into X and a copy Z of it that is B where
X is known: with penalty r it repeats

    X = D_r(Z + Y / r),    Z = X where not known,    Y = Y + r (B - X) where known,

the last two over-relaxed, where D_r(V) = argmin |X|_* + 1/2 |X|_F^2 + r/2 |X - V|_F^2 has the
singular values max(r S - 1, 0) / (1 + r). Y / r is zero where Z is to be found and Z is B where Y
is, so that one matrix, ``state``, has both, and Z + Y / r is B + ``state``. Y is always admissible
in (2); what is reported is its value there and how far D(Y) is from B. Methods that climb (2)
itself need more iterations, since its curvature is as small as the least singular values of X.
"""

from collections.abc import Callable, Sequence

import numpy as np

from kernelquilt._typing import Floats, Indices

RELAXATION = 1.9
UPDATES = 10  # between two looks at the penalty
ROUNDS = 5  # of these at most between two looks at the residual, which cost as much as two updates
NEAR = 2.0  # in units of the tolerance: expected residual at which to look
PENALTY = 30.0  # at first, in units of the inverse size of X
BALANCE = 5.0  # weight of the residual where known against the change elsewhere
MOST = 3.0  # factor by which the penalty may change at once
LEAST_SPARE = 8  # vectors beyond those above the threshold that a basis has
_NEGLIGIBLE = 1e-8


class NuclearDual:
    """Problem (2) over the columns that are not negligible.

    Parameters
    ----------
    spectra : sequence of M pairs
        Eigenvalues l (n_p,) and eigenvectors E (n_p, n_p) of the known blocks.
    present : list of M ndarrays of shape (n_p,)
        The rows of each block.
    n : int
        Number of rows of X.
    negligible : float
        Columns are left out that together make up for less than this part of the norm.
    """

    def __init__(
        self,
        spectra: Sequence[tuple[Floats, Floats]],
        present: list[Indices],
        n: int,
        negligible: float,
    ) -> None:
        self.present = present
        self.n = n
        squares = np.sort(np.concatenate([values for values, _ in spectra]) ** 2)
        energy = np.cumsum(squares)
        n_left_out = int((energy <= negligible**2 * energy[-1]).sum())
        least = squares[min(n_left_out, len(squares) - 1)]
        self._bases = [E[:, l**2 >= least] for l, E in spectra]
        self._ends = np.cumsum([E.shape[1] for E in self._bases])
        self.target = np.zeros((n, self._ends[-1]))
        self.known = np.zeros(self.target.shape, dtype=bool)
        for (l, _), E, o, end in zip(spectra, self._bases, present, self._ends, strict=True):
            columns = slice(end - E.shape[1], end)
            self.target[o, columns] = E * l[l**2 >= least]
            self.known[o, columns] = True
        self._norm = float(np.sqrt(energy[-1]))
        left_out = energy[-1] - float((self.target**2).sum())
        self._left_out = float(np.sqrt(max(left_out, 0.0)))

    def maximise(self, tol: float, max_iter: int, record: Callable[[float, float], None]) -> Floats:
        """Return the duals (n, q).

        Parameters
        ----------
        tol, max_iter
            As in `solve_svt`.
        record : callable
            Called with the value of (2) and the residual after every iteration.
        """
        from kernelquilt.completion.literature.compiled_relaxation import relax

        state = np.zeros_like(self.target)
        sums = self.target.copy()
        penalty = 1.0 + PENALTY * np.sqrt(self.known.mean()) / self._norm
        factor, ratio = 1.0, 0.0  # of the residual to that of the updates, when last looked at
        for _ in range(max_iter):
            for _ in range(ROUNDS):
                penalty *= factor
                state[self.known] /= factor
                np.add(self.target, state, out=sums)
                basis = None
                for _ in range(UPDATES):
                    X, basis = _shrunk(sums, penalty, basis)
                    primal, dual = relax(self.target, self.known, X, RELAXATION, state, sums)
                factor = self._balance(state, np.sqrt(primal), np.sqrt(dual))
                if ratio * np.sqrt(primal) <= NEAR * tol * self._norm:
                    break
            duals = np.where(self.known, penalty * state, 0.0)
            value, residual = self._evaluate(duals)
            record(value, residual)
            if residual <= tol:
                break
            ratio = residual * self._norm / np.sqrt(primal) if primal > 0.0 else 0.0
        return duals

    def factors(self, duals: Floats, threshold: float) -> tuple[Floats, Floats]:
        """Return P (n, r) and Q (M, n, r) of the duals after thresholding."""
        values, vectors = _spectrum(duals)
        kept = values - threshold > _NEGLIGIBLE * values.max(initial=0.0)
        values, vectors = values[kept], vectors[:, kept]
        root = np.sqrt(values - threshold)
        right = (duals.T @ vectors) * (root / values)
        columns = np.zeros((len(self.present), self.n, len(values)))
        parts = np.split(right, self._ends[:-1])
        for column, part, E, o in zip(columns, parts, self._bases, self.present, strict=True):
            column[o] = E @ part
        return vectors * root, columns

    def _balance(self, state: Floats, primal: float, dual: float) -> float:
        """Return the factor on the penalty that makes the relative changes of Y and Z alike."""
        size = [float(np.linalg.norm(state[where])) for where in (self.known, ~self.known)]
        primal /= np.hypot(self._norm, size[1])
        dual /= size[0]
        if primal == 0.0 or dual == 0.0:
            return 1.0
        return float(np.clip(np.sqrt(BALANCE * primal / dual), 1.0 / MOST, MOST))

    def _evaluate(self, duals: Floats) -> tuple[float, float]:
        """Return the value of (2) and the relative residual."""
        values, vectors = _spectrum(duals)
        values, vectors = values[values > 1.0], vectors[:, values > 1.0]
        X = (vectors * (1.0 - 1.0 / values)) @ (vectors.T @ duals)
        away = float(np.linalg.norm((self.target - X)[self.known]))
        value = float((duals * self.target).sum() - 0.5 * ((values - 1.0) ** 2).sum())
        return value, float(np.hypot(away, self._left_out)) / self._norm


def _shrunk(V: Floats, penalty: float, basis: Floats | None) -> tuple[Floats, Floats | None]:
    """Return D_r(V) for the penalty r, and the basis for a V close by.

    Where few singular values are above the threshold the basis (n, m) has their left vectors and
    some more, otherwise it is None. What it misses are vectors near the threshold, which hardly
    count, and as V settles it comes to have them.
    """
    values, vectors = _spectrum(V, basis)
    count = int((penalty * values > 1.0).sum())
    size = count + max(LEAST_SPARE, count // 4)
    enough = size <= len(V) / 3 and (basis is None or count + LEAST_SPARE // 2 <= len(values))
    basis = vectors[:, -size:] if enough else None
    kept = slice(len(values) - count, None)
    values, vectors = values[kept], vectors[:, kept]
    factor = (penalty - 1.0 / values) / (1.0 + penalty)
    if count < len(V) / 2:
        return np.asarray((vectors * factor) @ (vectors.T @ V)), basis
    return np.asarray(((vectors * factor) @ vectors.T) @ V), basis


def _spectrum(V: Floats, basis: Floats | None = None) -> tuple[Floats, Floats]:
    """Return the singular values of V (n, q), ascending, and the left vectors.

    From a basis (n, m) of vectors near the leading ones it takes one step of subspace iteration,
    and returns m of both.
    """
    squared = V @ V.T
    if basis is None:
        squares, vectors = np.linalg.eigh(squared)
    else:
        span, _ = np.linalg.qr(squared @ basis)
        squares, turned = np.linalg.eigh(span.T @ (squared @ span))
        vectors = span @ turned
    return np.sqrt(np.maximum(squares, 0.0)), vectors
