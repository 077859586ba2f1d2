"""The dual of completing a matrix by its nuclear norm, when whole blocks of it are known.

    min_X  |X|_* + 1/2 |X|_F^2    subject to  X_p = B_p on the rows o_p,  p = 1 ... M,    (1)

for X = [X_1 ... X_M] with n rows, each block of which is known in some rows but there in all of its
columns. With D(Y) = U max(S - 1, 0) V' for Y = U S V', the dual is

    max_Y  <Y, B> - 1/2 |D(Y)|_F^2    over Y that are zero where X is not known,    (2)

whose gradient is B - X on the known rows, X = D(Y). For a symmetric block B_p = E diag(l) E' the
orthogonal E drops out of (1), so that B_p may be replaced by E diag(l), and columns of l near 0 be
left out. Singular values are found from the n x n matrix Y Y'.
"""

from collections.abc import Callable, Sequence

import numpy as np
import scipy.optimize

from kernelquilt._typing import Floats, Indices

_CORRECTIONS = 5  # pairs that L-BFGS keeps; more did not save iterations
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
        self._ends = np.cumsum([E.size for E in self._bases])
        self.target = np.concatenate([(E * l)[:, l**2 >= least].ravel() for l, E in spectra])
        self._norm = float(np.sqrt(energy[-1]))
        self._left_out = float(np.sqrt(max(energy[-1] - self.target @ self.target, 0.0)))

    def maximise(self, tol: float, max_iter: int, record: Callable[[float, float], None]) -> Floats:
        """Return the duals.

        Parameters
        ----------
        tol, max_iter
            As in `solve_svt`.
        record : callable
            Called with the value of (2) and the residual after every iteration, at least once.
        """
        latest = (0.0, np.inf)

        def negative(duals: Floats) -> tuple[float, Floats]:
            nonlocal latest
            value, gradient = self._evaluate(duals)
            latest = value, self._residual(gradient)
            return -value, -gradient

        def stop(_: Floats) -> None:
            record(*latest)
            if latest[1] <= tol:
                raise StopIteration

        found = scipy.optimize.minimize(
            negative,
            # the least multiple of B for which X is not 0, and a little more
            1.2 / self._spectrum(self.target, 0.0)[0][-1] * self.target,
            jac=True,
            method="L-BFGS-B",
            callback=stop,
            options={
                "maxcor": _CORRECTIONS,
                "maxiter": max_iter,
                "maxfun": 2 * max_iter,
                "ftol": 0.0,
                "gtol": 0.0,
            },
        )
        if found.nit == 0:  # not even one step succeeded
            record(*latest)
        return np.asarray(found.x)

    def factors(self, duals: Floats, threshold: float) -> tuple[Floats, Floats]:
        """Return P (n, r) and Q (M, n, r) of the duals after thresholding."""
        values, vectors = self._spectrum(duals, threshold)
        kept = values - threshold > _NEGLIGIBLE * values.max(initial=0.0)
        values, vectors = values[kept], vectors[:, kept]
        root = np.sqrt(values - threshold)
        columns = np.zeros((len(self.present), self.n, len(values)))
        for column, block, E, o in zip(
            columns, self._blocks(duals), self._bases, self.present, strict=True
        ):
            column[o] = E @ ((block.T @ vectors[o]) * (root / values))
        return vectors * root, columns

    def _blocks(self, flat: Floats) -> list[Floats]:
        parts = np.split(flat, self._ends[:-1])
        return [part.reshape(E.shape) for part, E in zip(parts, self._bases, strict=True)]

    def _spectrum(self, duals: Floats, threshold: float) -> tuple[Floats, Floats]:
        """Return singular values above `threshold` and left vectors, through the n x n Gram."""
        gram = np.zeros((self.n, self.n))
        for block, o in zip(self._blocks(duals), self.present, strict=True):
            gram[np.ix_(o, o)] += block @ block.T
        squares, vectors = np.linalg.eigh(gram)
        above = squares > threshold**2
        return np.sqrt(squares[above]), vectors[:, above]

    def _residual(self, gradient: Floats) -> float:
        return float(np.hypot(np.linalg.norm(gradient), self._left_out)) / self._norm

    def _evaluate(self, duals: Floats) -> tuple[float, Floats]:
        """Return the value and the gradient of (2)."""
        values, vectors = self._spectrum(duals, 1.0)
        shrink = (vectors * (1.0 - 1.0 / values)) @ vectors.T
        gradient = self.target.copy()
        for out, block, o in zip(
            self._blocks(gradient), self._blocks(duals), self.present, strict=True
        ):
            out -= shrink[np.ix_(o, o)] @ block
        return float(duals @ self.target - 0.5 * ((values - 1.0) ** 2).sum()), gradient
