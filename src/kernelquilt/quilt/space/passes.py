"""Sums over all samples, one pass over their blocks for each stage of a fit.

Each function here takes a block of rows and returns a tuple of arrays that are added up over the
blocks (:mod:`kernelquilt.core.blocks`). Beside the rows of a block are their targets, their weights
in the losses, and the numbers of copies, zero for samples that are left out.
"""

from typing import Any, NamedTuple

import numpy as np

from kernelquilt._typing import Floats
from kernelquilt.core.blocks import Block
from kernelquilt.data.sampling import AllSamples, Names
from kernelquilt.data.training import Samples
from kernelquilt.data.views import MultiView
from kernelquilt.kernels.landmark_features import ViewFeatures
from kernelquilt.quilt.space.regressions import rooted
from kernelquilt.quilt.space.ridge import Sums
from kernelquilt.quilt.space.transfer import PairSums, Transfer


def ridge_sums(everyone: AllSamples, function: Any, *shared: Any, name: str) -> list[Sums]:
    """Add up a function below that returns what ridge regressions need, over all samples."""
    arrays = everyone.sum(function, *shared, name=name)
    return [Sums(*arrays[k : k + 3]) for k in range(0, len(arrays), 3)]


def _rows(block: Block, names: Names) -> tuple[Samples, Floats, Floats, Floats]:
    """Return the samples of a block that count, their targets, weights and numbers of copies."""
    counted = np.flatnonzero(block.beside[2] > 0)
    block = block if len(counted) == len(block.observed) else block.rows(counted)
    Y, weight, number = block.beside
    if names is None:
        return block.views[0], Y, weight, number
    views = dict(zip(names, block.views, strict=True))
    return MultiView._build(views, block.observed, None), Y, weight, number


def view_sums(block: Block, names: Names, views: ViewFeatures) -> tuple[Any, ...]:
    """Return what ridge regression on each view alone needs, over the samples that have it."""
    rows, Y, weight, _ = _rows(block, names)
    Z, observed = views.of(rows)
    return _flattened(Sums.of(z[o], Y[o], weight[o]) for z, o in zip(Z, observed.T, strict=True))


def weighted_sums(block: Block, names: Names, views: ViewFeatures) -> tuple[Any, ...]:
    """Return what ridge regression on all views side by side needs, zero where absent."""
    rows, Y, weight, _ = _rows(block, names)
    return _flattened([Sums.of(np.hstack(views.of(rows)[0]), Y, weight)])


def pair_sums(block: Block, names: Names, views: ViewFeatures) -> tuple[Any, ...]:
    """Return what the regressions between pairs of views need, over the samples that have both.

    For each view l and each other view p: ``Z_l'Z_l`` and ``Z_l'Z_p``.
    """
    rows, _, _, number = _rows(block, names)
    Z, observed = views.of(rows)
    sums: list[Any] = []
    for l, p in pairs(len(Z)):
        J = np.flatnonzero(observed[:, l] & observed[:, p])
        known = rooted(Z[l][J], number[J])
        sums += [known.T @ known, known.T @ rooted(Z[p][J], number[J])]
    return tuple(sums)


def pairs(M: int) -> list[tuple[int, int]]:
    """Return all ordered pairs of different views."""
    return [(l, p) for l in range(M) for p in range(M) if p != l]


def refinement_sums(
    block: Block, names: Names, views: ViewFeatures, transfer: Transfer, shares: Floats
) -> tuple[Any, ...]:
    """Return what the second pass of the transfer needs: ``Q'Q`` and ``Q'Z_p`` for each view p."""
    rows, _, _, number = _rows(block, names)
    Z, observed = views.of(rows)
    once = transfer.complete_once(Z, observed)
    sums = []
    for p, share in enumerate(shares):
        own = np.flatnonzero(observed[:, p])
        known = [np.sqrt(share[l]) * once[l][own] for l in np.flatnonzero(share)]
        Q = np.hstack(known) if known else np.zeros((len(own), 0))
        Q = rooted(Q, number[own])
        sums += [Q.T @ Q, Q.T @ rooted(Z[p][own], number[own])]
    return tuple(sums)


def quilt_sums(
    block: Block, names: Names, views: ViewFeatures, completion: Any, maps: list[Any], pattern: Any
) -> tuple[Any, ...]:
    """Return what the ridges of a quilt need: on each view, on all completed, joint, on patterns.

    Parameters
    ----------
    block, names, views
        As above.
    completion : TransferCompletion
    maps : list of JointMap
        The kernels of all views together.
    pattern : Pattern or None
    """
    rows, Y, weight, _ = _rows(block, names)
    Z, observed = views.of(rows)
    sums = [Sums.of(z[o], Y[o], weight[o]) for z, o in zip(Z, observed.T, strict=True)]
    completed, lengths = completion.complete(Z, observed, views.lengths(rows, Z, observed))
    flat = np.hstack(completed)
    sums.append(Sums.of(flat, Y, weight))
    if maps:
        D = maps[0].distances(flat, lengths.sum(axis=0))
        sums += [Sums.of(each.features(D), Y, weight) for each in maps]
    if pattern is not None:
        sums.append(Sums.of(pattern.features(observed), Y, weight))
    return _flattened(sums)


def _flattened(sums: Any) -> tuple[Any, ...]:
    return tuple(array for each in sums for array in (each.gram, each.moments, each.squares))


class SumsOfTransfer(NamedTuple):
    """The passes that the transfer between views needs (`TransferSums`)."""

    everyone: AllSamples
    views_of: ViewFeatures

    def pairs(self) -> PairSums:
        """Sum over the samples that have two views."""
        arrays = self.everyone.sum(pair_sums, self.views_of, name="pairs of views")
        keys = pairs(len(self.views_of.maps))
        return {key: (arrays[2 * k], arrays[2 * k + 1]) for k, key in enumerate(keys)}

    def views(self, transfer: Transfer, shares: Floats) -> list[tuple[Floats, Floats]]:
        """Sum over the samples that have a view."""
        arrays = self.everyone.sum(
            refinement_sums, self.views_of, transfer, shares, name="views from all others"
        )
        return [arrays[k : k + 2] for k in range(0, len(arrays), 2)]
