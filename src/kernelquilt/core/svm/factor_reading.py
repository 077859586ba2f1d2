"""Passes over factors: all that solvers read of them, counted and shared.

A pass takes the rows in a random order, unless nobody minds which. Solvers in step
(:mod:`kernelquilt.core.in_step`) get some rows at a time, which a cache can hold, one after the
other, so that memory, or a disk, is read once for all. What a solver does does not depend on how
many share its passes, and neither does any bit of its result.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kernelquilt._typing import Bools, Floats, Indices, Numbers
from kernelquilt.core.in_step import current_reader
from kernelquilt.core.svm.factors import Factors
from kernelquilt.core.weights.solution import TINY

BYTES_AT_A_TIME = 2**20  # fewer take longer to hand over, more do not stay in a cache
SEED = 20


@dataclass(frozen=True, eq=False)
class Reading:
    """What one solver does in a pass.

    Attributes
    ----------
    factors : Factors
        What is read.
    visit : callable
        Called with some of the rows at a time, and with rows that others read.
    rows : ndarray of shape (n,), bool
        Rows that are read.
    kernels : ndarray of shape (M,), bool
        Kernels whose columns are read.
    any_order : bool
        Whether the order of the rows does not matter, not even to rounding.
    """

    factors: Factors
    visit: Callable[[Indices], None]
    rows: Bools
    kernels: Bools
    any_order: bool


class FactorReader:
    """Reads factors for one solver, and counts its passes.

    Parameters
    ----------
    factors : Factors
        The kernels.

    Attributes
    ----------
    n_passes : float
        Entries read, in units of all of them. What is read for several solvers at once is shared
        out among them, so that their sum is what was read.
    """

    def __init__(self, factors: Factors) -> None:
        self.factors = factors
        self.n_passes = 0.0
        self._reader = current_reader(read_together)
        n, M = factors.observed.shape
        self._all_rows, self._all_kernels = np.ones(n, dtype=np.bool_), np.ones(M, dtype=np.bool_)

    def visit(
        self,
        visit: Callable[[Indices], None],
        rows: Bools | None = None,
        kernels: Bools | None = None,
        *,
        any_order: bool = False,
    ) -> None:
        """Make a pass over some rows (n,) and kernels (M,), all by default."""
        rows = self._all_rows if rows is None else rows
        kernels = self._all_kernels if kernels is None else kernels
        self.n_passes += self._reader.ask(Reading(self.factors, visit, rows, kernels, any_order))

    def combine(self, b: Floats) -> Floats:
        """Return ``Z'b`` in float64, (D,)."""
        from kernelquilt.core.svm.factor_compiled import add_rows

        v = np.zeros(self.factors.Z.shape[1])
        self.visit(lambda rows: add_rows(self.factors.Z, rows, b, v), b != 0.0)
        return v

    def scores(self, v: Floats) -> Floats:
        """Return ``Z v`` in float64, (n,)."""
        return self._products(v, np.array([0, len(v)]))[0]

    def products(self, v: Floats) -> Floats:
        """Return ``Z_p v_p`` for every kernel in float64, shape (M, n)."""
        return self._products(v, self.factors.starts)

    def _products(self, v: Floats, starts: Indices) -> Floats:
        from kernelquilt.core.svm.factor_compiled import multiply_rows

        Z = self.factors.Z
        v = v.astype(Z.dtype)
        found = np.empty((len(starts) - 1, len(Z)))
        self.visit(lambda rows: multiply_rows(Z, rows, v, starts, found), any_order=True)
        return found

    def features(self, rows: Indices) -> Numbers:
        """Return a copy of different rows."""
        Z = self.factors.Z
        X = np.empty((len(rows), Z.shape[1]), dtype=Z.dtype)
        chosen = np.zeros(len(Z), dtype=np.bool_)
        chosen[rows] = True
        places = np.empty(len(Z), dtype=np.intp)
        places[rows] = np.arange(len(rows))

        def take(some: Indices) -> None:
            some = some[chosen[some]]
            X[places[some]] = Z[some]

        self.visit(take, chosen, any_order=True)
        return X


def read_together(readings: list[Reading], number: int) -> list[float]:
    """Make one pass over each of the factors, in the order of a number; return who read how much.

    That is the passes of each reading, which add up to those that were made.
    """
    passes = np.zeros(len(readings))
    for factors in {id(each.factors): each.factors for each in readings}.values():
        own = [k for k, each in enumerate(readings) if each.factors is factors]
        group = [readings[k] for k in own]
        rows = np.any([each.rows for each in group], axis=0)
        kernels = np.any([each.kernels for each in group], axis=0)
        alone = np.array([_entries(factors, each.rows, each.kernels) for each in group])
        passes[own] = alone * (_entries(factors, rows, kernels) / max(float(alone.sum()), TINY))
        order = np.arange(len(rows))
        if not all(each.any_order for each in group):
            np.random.default_rng([SEED, number]).shuffle(order)
        order = order[rows[order]]
        at_a_time = max(len(order), 1)
        if len(group) > 1:
            at_a_time = max(1, BYTES_AT_A_TIME // max(factors.Z.itemsize * factors.Z.shape[1], 1))
        for first in range(0, len(order), at_a_time):
            for each in group:
                each.visit(order[first : first + at_a_time])
    return [float(each) for each in passes]


def _entries(factors: Factors, rows: Bools, kernels: Bools) -> float:
    """Return the entries in some rows and kernels, in units of all of them."""
    return float(rows.mean() * factors.spread(kernels).mean())
