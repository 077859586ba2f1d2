"""Samples in memory cut into blocks of rows, for threads."""

from collections.abc import Callable

import numpy as np

from kernelquilt._typing import Floats
from kernelquilt.core.blocks import Block, Blocks, array_blocks
from kernelquilt.quilt.space.ridge import Sums


def _blocks(Z: Floats, n_jobs: int | None) -> Blocks:
    return array_blocks((Z,), np.ones((len(Z), 1), dtype=np.bool_), n_jobs=n_jobs)


def summed(Z: Floats, Y: Floats, weight: Floats, n_jobs: int | None) -> Sums:
    """Return `Sums` of features (n, D), the same whatever the number of threads."""
    return Sums(*_blocks(Z, n_jobs).beside(Y, weight).sum(_sums))


def mapped(
    function: Callable[..., Floats], Z: Floats, *beside: Floats, n_jobs: int | None
) -> Floats:
    """Return a function (n, k) of rows (n, D), and of what is beside them."""
    return np.asarray(_blocks(Z, n_jobs).beside(*beside).map(_values, function)[0])


def _sums(block: Block) -> tuple[Floats, Floats, Floats]:
    found = Sums.of(block.views[0], *block.beside)
    return found.gram, found.moments, found.squares


def _values(block: Block, function: Callable[..., Floats]) -> tuple[Floats]:
    return (function(block.views[0], *block.beside),)
