r"""Absent views predicted from those that a sample has, in features.

With J the samples that have views p and l, the features of p are regressed on those of l,

.. math:: W_{pl} = (Z_l'Z_l + \epsilon_l I)^{-1} Z_l' Z_p \quad \text{over J}, \qquad
          \epsilon_l = 0.1 \; \mathrm{mean}\,|z_l|^2,                                      (1)

and a sample t that lacks p gets :math:`z_p(t) = \sum_l \omega_{pl} W_{pl}' z_l(t) / \sum_l
\omega_{pl}` over the views l that it has. With R2 the share of p that (1) explains when samples are
left out, :math:`\omega_{pl} = r / (1 - r)` where r is R2 between .001 and .99, for at least 5
samples in J. Where no view serves, samples get the mean.

A second pass regresses on all other views at once, completed by the first: on the features
:math:`q = [\sqrt{a_l} \, z_l]_{l \ne p}`, with :math:`a_l` proportional to :math:`\omega_{pl} /
\mathrm{mean}\,|z_l|^2` and mean squared length 1 over the samples that have p,

.. math:: z_p(t) = B_p' q(t), \qquad B_p = (Q'Q + \epsilon_p I)^{-1} Q' Z_p,               (2)

:math:`\epsilon_p` from {.01, .03, .1, .3, 1} by leave-one-out error. Both are solved by the samples
if there are fewer of them than features. This is what `kernelquilt.completion.TransferFill` does to
kernels, if all samples are landmarks.

=========================  =================================
symbol                     name here
=========================  =================================
W_pl                       ``first[p][l]``
sqrt(a_l) B_p, rows of l   ``second[p][l]``
omega, R2                  ``weights[p, l]``, ``scores[p, l]``
=========================  =================================
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from scipy.linalg import cholesky, eigh, solve_triangular

from kernelquilt._typing import Bools, Floats, Indices
from kernelquilt.completion.linalg import inverse_of
from kernelquilt.kernels.centring import mean_diagonal

EPS = 0.1
LEAST_SHARED = 5  # samples from which a leave-one-out error is trusted
SCORES = (0.001, 0.99)
RIDGES = (0.01, 0.03, 0.1, 0.3, 1.0)

Features = list[Floats]  # of M views, (n_rows, D_p) each, zero where absent
Maps = list[dict[int, Floats]]  # [p][l] of shape (D_l, D_p)
PairSums = dict[tuple[int, int], tuple[Floats, Floats]]  # [p, l]: Z_l'Z_l and Z_l'Z_p over J
ViewSums = dict[int, tuple[Floats, Floats]]  # [p]: Q'Q and Q'Z_p over the samples that have p


class Training(NamedTuple):
    """Training samples with fewer rows than features, from which maps are made when needed."""

    Z: Features
    once: Features
    observed: Bools


@dataclass
class Transfer:
    """How absent views are predicted.

    Attributes
    ----------
    weights, scores : ndarrays of shape (M, M)
        omega, zero where l does not serve for p, and R2, nan there.
    sizes : ndarray of shape (M,)
        Mean squared lengths of the features of each view.
    means : list of M ndarrays of shape (D_p,)
        Mean features, for samples that nothing serves.
    shares : ndarray of shape (M, M)
        a_l of view p in row p, zero if nothing serves for p.
    ridges : ndarray of shape (M,)
        eps_p of (2).
    first, second : Maps
        What features of l are multiplied by in (1) and (2) to get those of p. Where there are fewer
        samples than features, they are made when they are needed first.
    training : Training or None
        To make them of.
    """

    weights: Floats
    scores: Floats
    sizes: Floats
    means: list[Floats]
    shares: Floats
    ridges: Floats
    first: Maps = field(repr=False)
    second: Maps = field(repr=False)
    training: Training | None = field(repr=False)

    def complete(self, Z: Features, observed: Bools) -> Features:
        """Return the features of all views.

        Parameters
        ----------
        Z : Features of n_rows samples
        observed : ndarray of bool of shape (n_rows, M)

        Returns
        -------
        completed : Features
        """
        return self.complete_again(self.complete_once(Z, observed), observed)

    def complete_once(self, Z: Features, observed: Bools) -> Features:
        """Return the features of all views after (1)."""
        return [self._once(Z, observed, p) for p in range(len(Z))]

    def complete_again(self, once: Features, observed: Bools) -> Features:
        """Return the features of all views after (2), from those after (1)."""
        return [self._again(once, np.flatnonzero(~observed[:, p]), p) for p in range(len(once))]

    def _once(self, Z: Features, observed: Bools, p: int) -> Floats:
        rows = np.flatnonzero(~observed[:, p])
        if len(rows) == 0:
            return Z[p]
        found = _Mean(self.means[p], len(rows))
        for l in np.flatnonzero(self.weights[p]).tolist():
            having = observed[rows, l]
            if having.any():
                found.add(having, self.weights[p, l], Z[l][rows[having]] @ self._first(p, l))
        return _with_rows(Z[p], rows, found.value())

    def _again(self, once: Features, rows: Indices, p: int) -> Floats:
        others = np.flatnonzero(self.shares[p]).tolist()
        if len(rows) == 0 or not others:
            return once[p]
        maps = self._second(p)
        return _with_rows(once[p], rows, sum(once[l][rows] @ maps[l] for l in others))

    def _first(self, p: int, l: int) -> Floats:
        if l not in self.first[p] and self.training is not None:
            Z, _, observed = self.training
            J = np.flatnonzero(observed[:, p] & observed[:, l])
            known = Z[l][J]
            solved = _BySamples(known, Z[p][J], EPS * self.sizes[l])
            self.first[p][l] = known.T @ solved.coef
        return self.first[p][l]

    def _second(self, p: int) -> dict[int, Floats]:
        if not self.second[p] and self.training is not None:
            Z, once, observed = self.training
            own, shares = np.flatnonzero(observed[:, p]), self.shares[p]
            others = np.flatnonzero(shares).tolist()
            Q = sum(shares[l] * (once[l][own] @ once[l][own].T) for l in others)
            Q[np.diag_indices(len(own))] += self.ridges[p]
            coef = inverse_of(Q) @ Z[p][own]
            self.second[p] = {l: shares[l] * (once[l][own].T @ coef) for l in others}
        return self.second[p]


class _Mean:
    """The weighted mean of predictions for rows, each from the views that it has."""

    def __init__(self, otherwise: Floats, n_rows: int) -> None:
        self.otherwise = otherwise
        self.sum, self.total = np.zeros((n_rows, len(otherwise))), np.zeros(n_rows)

    def add(self, having: Bools, weight: float, found: Floats) -> None:
        self.sum[having] += weight * found
        self.total[having] += weight

    def value(self) -> Floats:
        served = self.total > 0
        self.sum[served] /= self.total[served, None]
        self.sum[~served] = self.otherwise
        return self.sum


def _with_rows(Z: Floats, rows: Indices, values: Floats) -> Floats:
    filled = Z.copy()
    filled[rows] = values
    return filled


class _BySamples:
    """Ridge regression of `wanted` (n, k) on `known` (n, D), solved by the samples."""

    def __init__(self, known: Floats, wanted: Floats, eps: float) -> None:
        A = known @ known.T
        A[np.diag_indices(len(A))] += eps
        inverse = inverse_of(A)
        self.known = known
        self.coef = inverse @ wanted
        self.left_out = self.coef / inverse.diagonal()[:, None]

    def predicted(self, rows: Floats, columns: slice) -> Floats:
        return np.asarray((rows @ self.known.T) @ self.coef[:, columns])

    def map(self, columns: slice) -> None:
        """Return nothing: the map is made when it is needed."""


class _ByFeatures:
    """The same solved by the features, from sums over all samples of which `known` are some."""

    def __init__(
        self, known: Floats, wanted: Floats, eps: float, sums: tuple[Floats, Floats] | None = None
    ) -> None:
        gram, cross = (known.T @ known, known.T @ wanted) if sums is None else sums
        factor = gram.copy()
        factor[np.diag_indices(len(factor))] += eps
        factor = cholesky(factor, lower=True, overwrite_a=True, check_finite=False)
        half = solve_triangular(factor, cross, lower=True, check_finite=False)
        self.W = solve_triangular(factor, half, lower=True, trans="T", check_finite=False)
        rows = solve_triangular(factor, known.T, lower=True, check_finite=False)
        free = 1.0 - np.einsum("ji,ji->i", rows, rows)
        self.left_out = (wanted - known @ self.W) / np.maximum(free, 1e-12)[:, None]

    def predicted(self, rows: Floats, columns: slice) -> Floats:
        return np.asarray(rows @ self.W[:, columns])

    def map(self, columns: slice) -> Floats:
        return np.ascontiguousarray(self.W[:, columns])


class _Found(NamedTuple):
    """What one view says of another: R2, the map, and predictions for rows that lack it."""

    p: int
    score: float
    map: Floats | None
    rows: Indices
    predicted: Floats


def solve_transfer(
    Z: Features,
    observed: Bools,
    *,
    n_jobs: int | None = None,
) -> tuple[Transfer, Features]:
    """Learn how absent views are predicted, and complete the training samples.

    Parameters
    ----------
    Z : Features of n samples
    observed : ndarray of bool of shape (n, M)
    n_jobs : int or None, default=None
        Threads over the views.

    Returns
    -------
    transfer : Transfer
    completed : Features of the n samples
    """
    M = len(Z)
    sizes = np.array([_size(z, present) for z, present in zip(Z, observed.T, strict=True)])
    means = [z[present].mean(axis=0) for z, present in zip(Z, observed.T, strict=True)]
    run = Parallel(n_jobs, prefer="threads")
    found = run(delayed(_from_view)(Z, observed, l, EPS * sizes[l]) for l in range(M))
    scores = np.full((M, M), np.nan)
    first: Maps = [{} for _ in range(M)]
    for l, each in enumerate(found):
        for p, score, W, _, _ in each:
            scores[p, l] = score
            if W is not None:
                first[p][l] = W
    clipped = np.clip(np.nan_to_num(scores), *SCORES)
    weights = np.where(np.isnan(scores), 0.0, clipped / (1.0 - clipped))
    once = _averaged(Z, observed, means, weights, found)
    lengths = np.array([_lengths(z) for z in once])
    shares = np.array(
        [_shares(w, sizes, lengths[:, o]) for w, o in zip(weights, observed.T, strict=True)]
    )
    by_samples = [observed[:, p].sum() <= _others(Z, shares[p]) for p in range(M)]
    kernels = np.array([z @ z.T for z in once]) if any(by_samples) else None
    again = run(
        delayed(_refined_by_samples)(kernels, Z[p], observed[:, p], shares[p])
        if by_samples[p]
        else delayed(_refined_by_features)(once, Z[p], observed[:, p], shares[p])
        for p in range(M)
    )
    completed = [
        z if filled is None else _with_rows(z, np.flatnonzero(~o), filled)
        for z, o, (_, _, filled) in zip(once, observed.T, again, strict=True)
    ]
    transfer = Transfer(
        weights,
        scores,
        sizes,
        means,
        shares,
        np.array([eps for eps, _, _ in again]),
        first,
        [maps for _, maps, _ in again],
        Training(Z, once, observed),
    )
    return transfer, completed


def _size(z: Floats, present: Bools) -> float:
    return mean_diagonal(_lengths(z[present]))


def _lengths(z: Floats) -> Floats:
    return np.asarray(np.einsum("ij,ij->i", z, z))


def _shares(weights: Floats, sizes: Floats, lengths: Floats) -> Floats:
    """Return a_l of (2), from squared lengths (M, n_p) of the samples that have the view."""
    if not weights.any():
        return np.zeros(len(weights))
    shares = weights / weights.sum() / sizes
    return np.asarray(shares / mean_diagonal(shares @ lengths))


def _others(Z: Features, shares: Floats) -> int:
    """Return the number of features in (2)."""
    return sum(z.shape[1] for z, share in zip(Z, shares, strict=True) if share > 0)


def _from_view(Z: Features, observed: Bools, l: int, eps: float) -> list[_Found]:
    """Regress all other views on view l."""
    found = []
    shared = observed & observed[:, [l]]
    # views that the same samples have share what is expensive
    patterns, which = np.unique(shared.T, axis=0, return_inverse=True)
    for number, pattern in enumerate(patterns):
        targets = [p for p in np.flatnonzero(which.ravel() == number).tolist() if p != l]
        J = np.flatnonzero(pattern)
        if len(J) < LEAST_SHARED or not targets:
            continue
        known, wanted = Z[l][J], np.hstack([Z[p][J] for p in targets])
        method = _BySamples if len(J) <= known.shape[1] else _ByFeatures
        solved = method(known, wanted, eps)
        for p, columns in _columns(Z, targets):
            total = float(np.square(wanted[:, columns]).sum())
            error = float(np.square(solved.left_out[:, columns]).sum())
            rows = np.flatnonzero(~observed[:, p] & observed[:, l])
            predicted = solved.predicted(Z[l][rows], columns)
            score = 1.0 - error / total if total > 0 else 0.0
            found.append(_Found(p, score, solved.map(columns), rows, predicted))
    return found


def _columns(Z: Features, views: list[int]) -> Iterator[tuple[int, slice]]:
    """Yield where the features of each view are, if they stand side by side."""
    start = 0
    for p in views:
        yield p, slice(start, start + Z[p].shape[1])
        start += Z[p].shape[1]


def _averaged(
    Z: Features,
    observed: Bools,
    means: list[Floats],
    weights: Floats,
    found: list[list[_Found]],
) -> Features:
    """Return the features after (1)."""
    absent = [np.flatnonzero(~present) for present in observed.T]
    averages = [_Mean(mean, len(rows)) for mean, rows in zip(means, absent, strict=True)]
    for l, each in enumerate(found):
        for p, _, _, rows, predicted in each:
            having = np.zeros(len(absent[p]), dtype=bool)
            having[np.searchsorted(absent[p], rows)] = True
            averages[p].add(having, weights[p, l], predicted)
    return [
        _with_rows(z, rows, average.value()) if len(rows) else z
        for z, rows, average in zip(Z, absent, averages, strict=True)
    ]


Refined = tuple[float, dict[int, Floats], Floats | None]


def _refined_by_samples(kernels: Floats, z: Floats, present: Bools, shares: Floats) -> Refined:
    """Return eps_p of (2), no maps, and the features of samples that lack the view."""
    if not shares.any():
        return np.nan, {}, None
    own, absent = np.flatnonzero(present), np.flatnonzero(~present)
    Q = np.tensordot(shares, kernels, axes=1)[:, own]
    within, known = Q[own], z[own]
    diagonal = within.diagonal().copy()
    best, chosen, coef = np.inf, RIDGES[-1], known
    for eps in RIDGES:
        np.fill_diagonal(within, diagonal + eps)
        try:
            inverse = inverse_of(within)
        except np.linalg.LinAlgError:
            # features of hundreds of views may be singular to rounding; larger ones are not
            continue
        found = inverse @ known
        error = float((_lengths(found) / inverse.diagonal() ** 2).sum())
        if error < best:
            best, chosen, coef = error, eps, found
    return chosen, {}, Q[absent] @ coef


def _refined_by_features(
    once: Features, z: Floats, present: Bools, shares: Floats, sums: Any = None
) -> Refined:
    """Return eps_p and the maps of (2), and the features of samples that lack the view."""
    if not shares.any():
        return np.nan, {}, None
    views = np.flatnonzero(shares).tolist()
    Q = np.hstack([np.sqrt(shares[l]) * once[l] for l in views])
    own, known = Q[present], z[present]
    gram, cross = (own.T @ own, own.T @ known) if sums is None else sums
    s, V = eigh(gram, driver="evd", check_finite=False)
    s = np.maximum(s, 0.0)
    inside, rows = V.T @ cross, own @ V
    squared = np.square(rows)
    best, chosen = np.inf, RIDGES[-1]
    for eps in RIDGES:
        free = 1.0 - squared @ (1.0 / (s + eps))
        residual = known - rows @ (inside / (s + eps)[:, None])
        error = float((_lengths(residual) / np.maximum(free, 1e-12) ** 2).sum())
        if error < best:
            best, chosen = error, eps
    B = V @ (inside / (s + chosen)[:, None])
    maps = {l: np.sqrt(shares[l]) * B[columns] for l, columns in _columns(once, views)}
    return chosen, maps, Q[~present] @ B
