"""Sums over all samples, one pass over their blocks for each stage of a fit.

Each function here takes a block of rows and returns a tuple of arrays that are added up over the
blocks (:mod:`kernelquilt.core.blocks`). Beside the rows of a block are their targets, their weights
in the losses, and the numbers of copies, zero for samples that are left out.
"""

from typing import Any, NamedTuple

import numpy as np

from kernelquilt._typing import Floats, Indices
from kernelquilt.core.blocks import Block, Blocks, default_lengths, sliced_chunks
from kernelquilt.core.passes import Passes
from kernelquilt.data.lazy.views import LazyViews
from kernelquilt.data.stack import KernelStack
from kernelquilt.data.views import MultiView
from kernelquilt.kernels.inputs import KernelInput, Samples, fit_input, sample_blocks
from kernelquilt.quilt.ridge import Sums
from kernelquilt.quilt.ridge_classifier import Targets
from kernelquilt.quilt.space.pair_maps import Features
from kernelquilt.quilt.space.regressions import rooted
from kernelquilt.quilt.space.transfer import PairSums, Transfer
from kernelquilt.quilt.space.views import MOST_SAMPLES, ViewFeatures, fit_views

Names = tuple[str, ...] | None


class AllSamples(NamedTuple):
    """All samples in blocks.

    Attributes
    ----------
    blocks : Blocks
        With targets, weights and numbers of copies beside.
    names : tuple of str, or None for kernels
        Names of the views.
    """

    blocks: Blocks
    names: Names

    def sum(self, function: Any, *shared: Any, name: str) -> tuple[Any, ...]:
        """Add up one of the functions below over the blocks."""
        return self.blocks.sum(function, self.names, *shared, name=name)

    def sums(self, function: Any, *shared: Any, name: str) -> list[Sums]:
        """Do so with a function that returns sums for ridge regressions."""
        arrays = self.sum(function, *shared, name=name)
        return [Sums(*arrays[k : k + 3]) for k in range(0, len(arrays), 3)]


class Sample(NamedTuple):
    """Samples in memory by which choices are made: all of them, or some.

    Attributes
    ----------
    rows : ndarray of int of shape (n,)
        Their positions among the training samples.
    data : MultiView or KernelStack of n samples
    targets : Targets of n samples
    columns : ndarray of int of shape (n,)
        What they are called by the input from `fit_input`.
    everyone : AllSamples or None
        None if these are all that count.
    passes : Passes
        Tells how far a fit is.
    """

    rows: Indices
    data: Samples
    targets: Targets
    columns: Indices
    everyone: AllSamples | None
    passes: Passes

    def in_blocks(self, data: Samples, targets: Targets, n_jobs: int | None) -> "Sample":
        """Return the same, beside all training samples in blocks."""
        if self.everyone is not None:
            return self
        return self._replace(everyone=_in_blocks(data, targets, n_jobs, self.passes))

    def part(self, rows: Indices) -> "Sample":
        """Return some of the samples."""
        if len(rows) == len(self.rows):
            return self
        return Sample(
            self.rows[rows],
            self.data[rows],
            self.targets.part(rows),
            self.columns[rows],
            self.everyone,
            self.passes,
        )


def take_sample(
    estimator: Any, data: Samples, targets: Targets, rng: np.random.RandomState
) -> Sample:
    """Take at most `MOST_SAMPLES` of the training samples that count into memory.

    Parameters
    ----------
    estimator : estimator
        With `n_jobs`, the threads over the blocks of all samples, and `verbose`.
    data : MultiView, LazyViews or KernelStack of n samples
    targets : Targets of n samples
    rng : RandomState
        Draws them.

    Returns
    -------
    Sample
    """
    passes = Passes(type(estimator).__name__, estimator.verbose)
    rows, everyone = np.flatnonzero(targets.copies > 0), None
    if len(rows) > MOST_SAMPLES:
        everyone = _in_blocks(data, targets, estimator.n_jobs, passes)
        rows = rows[np.sort(rng.choice(len(rows), MOST_SAMPLES, replace=False))]
    elif len(rows) == len(data) and not isinstance(data, LazyViews):
        return Sample(rows, data, targets, rows, None, passes)
    # new samples given as kernels have all training samples as their columns
    columns = rows if isinstance(data, KernelStack) else np.arange(len(rows))
    with passes.stage(f"{len(rows)} of {len(data)} samples drawn and read"):
        part = data[rows]
    return Sample(rows, part, targets.part(rows), columns, everyone, passes)


def fit_sample_input(estimator: Any, data: Samples, sample: Sample) -> KernelInput:
    """Fit the kernels of training samples `data` to some of them."""
    if isinstance(data, KernelStack):
        return fit_input(estimator, data, None)
    return fit_input(estimator, sample.data, sample.targets.copies)


def fit_sample_views(
    estimator: Any,
    held: KernelInput,
    sample: Sample,
    kernels: Indices,
    n_landmarks: int,
    rng: np.random.RandomState,
    *,
    centred: bool = True,
) -> tuple[ViewFeatures, Features]:
    """Fit the features of some kernels as an estimator asks for; see `fit_views`."""
    return fit_views(
        held,
        sample.data,
        sample.columns,
        kernels,
        sample.targets.copies,
        n_landmarks=n_landmarks,
        landmarks=estimator.landmarks,
        rng=rng,
        centred=centred,
        n_jobs=estimator.n_jobs,
    )


def _in_blocks(data: Samples, targets: Targets, n_jobs: int | None, passes: Passes) -> AllSamples:
    if isinstance(data, KernelStack):

        def cut(rows: slice) -> Block:
            part = data[rows]
            return Block((part,), part.observed)

        chunks = sliced_chunks(cut, default_lengths(len(data)), n_jobs=n_jobs, passes=passes)
        made, names = Blocks(chunks), None
    else:
        assert isinstance(data, MultiView)
        made, names = sample_blocks(data, n_jobs=n_jobs, passes=passes), data.names
    return AllSamples(made.beside(targets.Y, targets.weight, targets.copies), names)


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
