"""A Gaussian fitted to vectors with missing entries, by the EM algorithm.

The vectors x_1 ... x_N have m entries of which o_t are observed. Maximised is the mean penalised
log likelihood of what is observed,

    -1/2N sum_t [ log det S_oo + (x - mean)_o' S_oo^-1 (x - mean)_o ] - ridge/2 tr S^-1,    (1)

o = o_t; the constant log 2 pi is left out. With a_t = S_oo^-1 (x_t - mean)_o and G_t = S_oo^-1, put
at the places o and zero elsewhere, the conditional mean of x_t is mean + S a_t and its conditional
covariance S - S G_t S. Both enter the M step, which becomes

    mean <- mean + S avg(a),    S <- S + S avg(a a' - G) S - (S avg(a))(S avg(a))' + ridge I.    (2)

So no vector is completed before the end, and a step costs one small Cholesky factor per pattern of
missing entries. Every step increases (1). Since the steps get small long before the end, an
iteration is two of them and a third from their extrapolation (SQUAREM, Varadhan and Roland, Scand.
J. Stat. 2008, in the Cholesky factor of S), which is kept if (1) is not smaller there.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from kernelquilt._typing import Bools, Floats, Indices

_WORD = 64


class Patterns(NamedTuple):
    """Vectors grouped by which of their entries are observed.

    Attributes
    ----------
    order : ndarray of shape (N,)
        The vectors, those of a pattern next to each other.
    starts : ndarray of shape (P + 1,)
        Where in `order` the patterns begin.
    columns : ndarray of shape (P, m)
        The observed entries of each pattern, then the others.
    counts : ndarray of shape (P,)
        Number of observed entries of each pattern.
    by_count : ndarray of shape (P,)
        The patterns, those with few observed entries first, and of these with few vectors.
    """

    order: Indices
    starts: Indices
    columns: Indices
    counts: Indices
    by_count: Indices

    @classmethod
    def of_pairs(cls, rows: Bools, cols: Bools, i: Indices, j: Indices) -> "Patterns":
        """Group pairs (i_t, j_t), which observe what both `rows[i_t]` and `cols[j_t]` (., m) do."""
        words = [
            _pack(rows[:, part : part + _WORD])[i] & _pack(cols[:, part : part + _WORD])[j]
            for part in range(0, rows.shape[1], _WORD)
        ]
        order = np.lexsort(words)
        new = np.zeros(len(order), dtype=np.bool_)
        new[:1] = True
        for word in words:
            ordered = word[order]
            new[1:] |= ordered[1:] != ordered[:-1]
        first = np.flatnonzero(new)
        present = rows[i[order[first]]] & cols[j[order[first]]]
        columns = np.argsort(~present, axis=1, kind="stable")
        return cls._grouped(order, np.append(first, len(order)), columns, present.sum(axis=1))

    @classmethod
    def _grouped(
        cls, order: Indices, starts: Indices, columns: Indices, counts: Indices
    ) -> "Patterns":
        return cls(order, starts, columns, counts, np.lexsort((np.diff(starts), counts)))

    def without_empty(self) -> "Patterns":
        """Leave out the vectors of which nothing is observed."""
        if len(self.counts) == 0 or self.counts[0] > 0:  # the word 0 sorts first
            return self
        first = self.starts[1]
        return self._grouped(
            self.order[first:], self.starts[1:] - first, self.columns[1:], self.counts[1:]
        )


def _pack(observed: Bools) -> Any:
    bits = np.left_shift(np.uint64(1), np.arange(observed.shape[1], dtype=np.uint64))
    return np.where(observed, bits, np.uint64(0)).sum(axis=1, dtype=np.uint64)


class NormalWithMissing(NamedTuple):
    """Mean (m,) and covariance (m, m)."""

    mean: Floats
    covariance: Floats

    def complete(self, X: Floats, patterns: Patterns) -> Floats:
        """Return the conditional means (N, m) given the observed entries of X (N, m)."""
        means = np.empty(X.shape)
        found = self.innovations(X[patterns.order], patterns)
        means[patterns.order] = self.mean + found.a @ self.covariance
        return means

    def innovations(self, X: Floats, patterns: Patterns) -> "Innovations":
        """Return what the observed entries of X (N, m), in the order of the patterns, tell."""
        from kernelquilt.completion.literature.compiled_normal import innovations

        a, inverse = np.zeros(X.shape), np.zeros(self.covariance.shape)
        value = innovations(X, *patterns[1:], self.mean, self.covariance, a, inverse)
        return Innovations(a, inverse + np.tril(inverse, -1).T, float(value))


class Innovations(NamedTuple):
    """How far vectors are from what a Gaussian lets expect.

    Attributes
    ----------
    a : ndarray of shape (N, m)
        a_t of (2).
    inverse : ndarray of shape (m, m)
        Sum of the G_t.
    value : float
        Sum of log det S_oo + (x - mean)_o' a.
    """

    a: Floats
    inverse: Floats
    value: float


def fit_normal(
    X: Floats,
    patterns: Patterns,
    *,
    ridge: float,
    tol: float,
    max_iter: int,
    record: Callable[[float, float], None],
) -> NormalWithMissing:
    """Maximise (1) from mean 0 and covariance I.

    Parameters
    ----------
    X : ndarray of shape (N, m)
        Ordered as `patterns.order`, with something observed of each vector. Of moderate scale,
        because of the start and the ridge. Missing entries may hold anything.
    patterns : Patterns
    ridge, tol, max_iter
        As in `solve_em_fill`; see (1).
    record : callable
        Called in every iteration with the value of (1) and its increase by a plain step.

    Returns
    -------
    NormalWithMissing
    """
    m = X.shape[1]
    current, reach = NormalWithMissing(np.zeros(m), np.eye(m)), 1.0
    for _ in range(max_iter):
        before, first = _em_step(X, patterns, current, ridge)
        value, second = _em_step(X, patterns, first, ridge)
        record(value, value - before)
        if value - before <= tol:
            return second
        trial, stretch = _extrapolate(current, first, second, reach)
        current = second
        if np.linalg.eigvalsh(trial.covariance)[0] > ridge / 2:
            reached, third = _em_step(X, patterns, trial, ridge)
            if reached >= value:
                current = third
                reach *= 4.0 if stretch == reach else 1.0
                continue
        reach = max(1.0, reach / 4.0)
    return current


def _em_step(
    X: Floats, patterns: Patterns, at: NormalWithMissing, ridge: float
) -> tuple[float, NormalWithMissing]:
    """Return the value of (1) and the Gaussian of (2)."""
    N, m = X.shape
    S = at.covariance
    a, inverse, value = at.innovations(X, patterns)
    shift = S @ a.sum(axis=0) / N
    new = S + S @ (a.T @ a - inverse) @ S / N - np.outer(shift, shift) + ridge * np.eye(m)
    penalty = ridge * np.trace(np.linalg.inv(S))
    return -0.5 * (value / N + penalty), NormalWithMissing(at.mean + shift, (new + new.T) / 2)


def _extrapolate(
    start: NormalWithMissing, first: NormalWithMissing, second: NormalWithMissing, reach: float
) -> tuple[NormalWithMissing, float]:
    """Follow two steps further, `stretch` times, which is returned and at most `reach`."""
    m = len(start.mean)
    x0, x1, x2 = (
        np.concatenate([at.mean, np.linalg.cholesky(at.covariance).ravel()])
        for at in (start, first, second)
    )
    step, bend = x1 - x0, x2 - 2 * x1 + x0
    ratio = np.linalg.norm(step) / max(float(np.linalg.norm(bend)), 1e-300)
    stretch = float(np.clip(ratio, 1.0, reach))
    x = x0 + 2 * stretch * step + stretch**2 * bend
    L = x[m:].reshape(m, m)
    return NormalWithMissing(x[:m], L @ L.T), stretch
