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
if there are fewer of them than features. All sums and means count copies of samples
(:mod:`kernelquilt.quilt.space.regressions`). With one copy of each, this is what
`kernelquilt.completion.TransferFill` does to kernels, if all samples are landmarks.

=========================  =================================
symbol                     name here
=========================  =================================
W_pl                       ``first[p][l]``
B_p                        ``second[p]``
omega, R2                  ``weights[p, l]``, ``scores[p, l]``
a_l                        ``shares[l]``
=========================  =================================
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
from joblib import Parallel, delayed

from kernelquilt._typing import Bools, Floats, Indices
from kernelquilt.kernels.centring import mean_diagonal
from kernelquilt.kernels.landmark_features import Features
from kernelquilt.quilt.space.pair_maps import ByFeatures, BySamples, PairMap, rounded_map
from kernelquilt.quilt.space.regressions import (
    Copies,
    refine_by_features,
    refine_by_samples,
    solve_by_features,
    solve_by_samples,
    squared_lengths,
)

EPS = 0.1
LEAST_SHARED = 5  # samples from which a leave-one-out error is trusted
SCORES = (0.001, 0.99)


@dataclass(frozen=True)
class Transfer:
    """How absent views are predicted.

    Attributes
    ----------
    weights, scores : ndarrays of shape (M, M)
        omega, zero where l does not serve for p, and R2, nan there.
    means : list of M ndarrays of shape (D_p,)
        Mean features, for samples that nothing serves.
    first : list of M dicts of int to PairMap
        (1), by view p and l.
    second : list of M PairMap or None
        (2), by view p.
    """

    weights: Floats
    scores: Floats
    means: list[Floats]
    first: list[dict[int, PairMap]]
    second: list[PairMap | None]

    @property
    def by_samples(self) -> bool:
        """Whether training samples take part in predictions."""
        made = [*self.second, *(each for maps in self.first for each in maps.values())]
        return any(isinstance(each, BySamples) for each in made)

    def rounded(self) -> "Transfer":
        """Return the same with maps in single precision."""
        return replace(
            self,
            first=[{l: rounded_map(each) for l, each in maps.items()} for maps in self.first],
            second=[None if each is None else rounded_map(each) for each in self.second],
        )

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
        for l, each in self.first[p].items():
            having = observed[rows, l]
            if having.any():
                found.add(having, self.weights[p, l], each.of(_only(Z, [l], rows[having])))
        return _with_rows(Z[p], rows, found.value())

    def _again(self, once: Features, rows: Indices, p: int) -> Floats:
        each = self.second[p]
        if len(rows) == 0 or each is None:
            return once[p]
        others = [l for l in range(len(once)) if l != p]
        return _with_rows(once[p], rows, each.of(_only(once, others, rows)))


def _only(Z: Features, views: list[int], rows: Indices) -> Any:
    """Return the features of some views of some rows, by view."""
    return {l: Z[l][rows] for l in views}


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


class _Found(NamedTuple):
    """What one view says of another: R2, the map, and predictions for rows that lack it."""

    p: int
    score: float
    map: PairMap
    rows: Indices
    predicted: Floats


def solve_transfer(
    Z: Features,
    observed: Bools,
    *,
    copies: Copies | None = None,
    kernels: Floats | None = None,
    sums: "TransferSums | None" = None,
    n_jobs: int | None = None,
) -> tuple[Transfer, Features]:
    """Learn how absent views are predicted, and complete the training samples.

    Parameters
    ----------
    Z : Features of n samples
    observed : ndarray of bool of shape (n, M)
    copies : Copies of n samples, optional
        One of each by default.
    kernels : ndarray of shape (M, n, n), optional
        Products ``Z_p Z_p'``, if there are more features than samples; they are completed, too.
    sums : TransferSums, optional
        Over all samples, if these are only some of them: they decide on weights and ridges.
    n_jobs : int or None, default=None
        Threads over the views.

    Returns
    -------
    transfer : Transfer
    completed : Features of the n samples
    """
    M = len(Z)
    run = Parallel(n_jobs, prefer="threads")
    copies = Copies.one_each(len(observed)) if copies is None else copies
    having = [
        (z[present], copies.number[present]) for z, present in zip(Z, observed.T, strict=True)
    ]
    sizes = np.array([mean_diagonal(squared_lengths(z), number) for z, number in having])
    means = [np.average(z, axis=0, weights=number) for z, number in having]
    pairs = None if sums is None else sums.pairs()
    found = run(
        delayed(_from_view)(Z, observed, copies, l, EPS * sizes[l], kernels, pairs)
        for l in range(M)
    )
    scores = np.full((M, M), np.nan)
    first: list[dict[int, PairMap]] = [{} for _ in range(M)]
    for l, each in enumerate(found):
        for p, score, made, _, _ in each:
            scores[p, l], first[p][l] = score, made
    clipped = np.clip(np.nan_to_num(scores), *SCORES)
    weights = np.where(np.isnan(scores), 0.0, clipped / (1.0 - clipped))
    once = _averaged(Z, observed, means, weights, found)
    _update(kernels, once, observed)
    lengths = np.array([squared_lengths(z) for z in once])
    shares = np.array(
        [
            _shares(w, sizes, lengths[:, o], copies.number[o])
            for w, o in zip(weights, observed.T, strict=True)
        ]
    )
    transfer = Transfer(weights, scores, means, first, [None] * M)
    views = [None] * M if sums is None else sums.views(transfer, shares)
    refined = run(
        delayed(_refined)(once, Z[p], present, copies, shares[p], kernels, views[p])
        for p, present in enumerate(observed.T)
    )
    completed = [
        z if len(filled) == 0 else _with_rows(z, np.flatnonzero(~present), filled)
        for z, present, (_, filled) in zip(once, observed.T, refined, strict=True)
    ]
    _update(kernels, completed, observed)
    return replace(transfer, second=[made for made, _ in refined]), completed


PairSums = dict[tuple[int, int], tuple[Floats, Floats]]


class TransferSums(Protocol):
    """Sums over all samples that the transfer is learned from."""

    def pairs(self) -> "PairSums":
        """Return ``Z_l'Z_l`` and ``Z_l'Z_p`` over the samples J, by view l and p."""

    def views(self, transfer: Transfer, shares: Floats) -> list[tuple[Floats, Floats]]:
        """Return ``Q'Q`` and ``Q'Z_p`` of (2) for each view p, after (1) as in `transfer`."""


def _update(kernels: Floats | None, Z: Features, observed: Bools) -> None:
    """Make kernels (M, n, n) those of features that have changed where absent."""
    for kernel, z, present in zip(() if kernels is None else kernels, Z, observed.T, strict=False):
        absent = np.flatnonzero(~present)
        if len(absent):
            rows = z[absent] @ z.T
            kernel[absent] = rows
            kernel[:, absent] = rows.T


def _shares(weights: Floats, sizes: Floats, lengths: Floats, number: Floats) -> Floats:
    """Return a_l of (2), from squared lengths (M, n_p) of the samples that have the view."""
    if not weights.any():
        return np.zeros(len(weights))
    shares = weights / weights.sum() / sizes
    return np.asarray(shares / mean_diagonal(shares @ lengths, number))


def _from_view(
    Z: Features,
    observed: Bools,
    copies: Copies,
    l: int,
    eps: float,
    kernels: Floats | None,
    pairs: PairSums | None,
) -> list[_Found]:
    """Regress all other views on view l."""
    found = []
    # a kernel that is zero has no features: nothing is predicted from it, nor needs to be of it
    others = [p for p, z in enumerate(Z) if p != l and z.shape[1] and Z[l].shape[1]]
    for targets, J in _groups(observed, l, others, apart=pairs is not None):
        counted = copies.part(J)
        if counted.total < LEAST_SHARED:
            continue
        wanted = Z[targets[0]][J] if len(targets) == 1 else np.hstack([Z[p][J] for p in targets])
        wanted = counted.rooted(wanted)
        by_samples = pairs is None and len(J) <= Z[l].shape[1]
        if by_samples:
            kernel = Z[l] @ Z[l].T if kernels is None else kernels[l]
            among = counted.rooted_kernel(kernel[np.ix_(J, J)])
            regression = solve_by_samples(among, wanted, eps, counted.held_out)
            W = counted.rooted(regression.map)
        else:
            sums = None if pairs is None else pairs[l, targets[0]]
            known = counted.rooted(Z[l][J])
            regression = solve_by_features(known, wanted, eps, counted.held_out, sums)
            W = regression.map
        for p, columns in _columns(Z, targets):
            total = float(squared_lengths(wanted[:, columns]).sum())
            score = 1.0 - regression.error(columns) / total if total > 0 else 0.0
            rows = np.flatnonzero(~observed[:, p] & observed[:, l])
            part = W if W.shape[1] == Z[p].shape[1] else np.ascontiguousarray(W[:, columns])
            made: PairMap = ByFeatures({l: part})
            if by_samples:
                predicted = kernel[np.ix_(rows, J)] @ part
                made = BySamples(Z, J, {l: 1.0}, part)
            else:
                predicted = Z[l][rows] @ part
            found.append(_Found(p, score, made, rows, predicted))
    return found


def _groups(
    observed: Bools, l: int, others: list[int], *, apart: bool
) -> Iterator[tuple[list[int], Indices]]:
    """Yield other views and the samples that have them and l; those of the same samples at once."""
    shared = observed & observed[:, [l]]
    if apart:
        yield from (([p], np.flatnonzero(shared[:, p])) for p in others)
        return
    # views that the same samples have share what is expensive
    alike: dict[bytes, list[int]] = {}
    for p in others:
        alike.setdefault(shared[:, p].tobytes(), []).append(p)
    yield from ((targets, np.flatnonzero(shared[:, targets[0]])) for targets in alike.values())


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


def _refined(
    once: Features,
    z: Floats,
    present: Bools,
    copies: Copies,
    shares: Floats,
    kernels: Floats | None,
    sums: tuple[Floats, Floats] | None,
) -> tuple[PairMap | None, Floats]:
    """Return (2) for a view with features z, and the features of samples that lack it."""
    if not shares.any():
        return None, np.empty((0, z.shape[1]))
    views = np.flatnonzero(shares).tolist()
    own, absent = np.flatnonzero(present), np.flatnonzero(~present)
    counted = copies.part(own)
    known = counted.rooted(z[own])
    if kernels is not None and len(own) <= sum(once[l].shape[1] for l in views):
        Q = np.tensordot(shares, kernels, axes=1)[:, own]
        coef = refine_by_samples(counted.rooted_kernel(Q[own]), known, counted.held_out)
        coef = counted.rooted(coef)
        made = BySamples(once, own, {l: float(shares[l]) for l in views}, coef)
        return made, Q[absent] @ coef
    Q = np.hstack([np.sqrt(shares[l]) * once[l] for l in views])
    B = refine_by_features(counted.rooted(Q[own]), known, counted.held_out, sums)
    maps = {l: np.sqrt(shares[l]) * B[columns] for l, columns in _columns(once, views)}
    return ByFeatures(maps), Q[absent] @ B
