"""Coordinate descent on the SVM dual on factors, pass by pass."""

from typing import Any, NamedTuple

import numpy as np

from kernelquilt._typing import Bools, Floats, Indices, Numbers
from kernelquilt.core.svm.dual import tube_cost
from kernelquilt.core.svm.factor_reading import FactorReader

STAGE = 3  # passes in which descent has to halve the gap to be worth going on with
HELD_BYTES = 2**24  # of samples that are copied, to be visited without another pass
SEED = 20


class _Samples(NamedTuple):
    """What coordinate descent needs of samples: their rows, and arrays of shape (n,)."""

    Z: Numbers
    observed: Bools
    diag: Floats
    s: Floats
    lower: Floats
    upper: Floats
    tube: Floats
    b: Floats

    @property
    def linear(self) -> float:
        """``s'b - tube'|b|``."""
        return float(self.s @ self.b) - tube_cost(self.b, self.tube)

    def at(self, rows: Indices, Z: Numbers) -> "_Samples":
        """Return copies for some samples, whose rows are Z."""
        arrays: list[Any] = [each[rows] for each in self[1:]]
        return _Samples(Z, *arrays)


def descend(
    reader: FactorReader,
    weights: Floats,
    diag: Floats,
    problem: tuple[Floats, Floats, Floats, Floats],
    b: Floats,
    v: Floats,
    bias: float,
    goal: float,
) -> bool:
    """Run coordinate descent until its relative gap seems to be `goal`, or it gets too slow.

    Maximises ``s'b - tube'|b| - b'Kb / 2`` over the box with ``sum(b) = 0``, in place, where K is
    the sum of ``weights[p] Z_p Z_p'`` with the diagonal `diag`. The sum is brought to zero by the
    method of multipliers, of which `bias` is the first. Samples that are held firmly at a bound or
    a kink are left out, so that the gap is to be checked afterwards. As soon as few are left, their
    rows are copied, and no more passes are needed.

    Parameters
    ----------
    reader : FactorReader
        Where the factors come from.
    weights, diag : ndarrays of shape (M,) and (n,)
        Kernel weights, not all zero, and the diagonal of K, not all zero.
    problem : tuple of ndarrays of shape (n,)
        s, lower and upper bounds, and tube.
    b, v : ndarrays of shape (n,) and (D,)
        Duals, and ``Z'b``.
    bias, goal : float
        First multiplier, and the relative gap to reach.

    Returns
    -------
    slow : bool
        Whether it got too slow.
    """
    from kernelquilt.core.svm.factor_compiled import epoch

    factors = reader.factors
    n, pull, used = len(b), float(diag.mean()), weights > 0
    kernels, rng = np.flatnonzero(used), np.random.default_rng(SEED)
    u = (factors.spread(weights) * v).astype(factors.Z.dtype)
    whole = _Samples(factors.Z, np.ascontiguousarray(factors.observed), diag, *problem, b)
    part, value_of_others = whole, 0.0
    active = np.ones(n, dtype=np.bool_)
    sums = np.array([b.sum(), 0.0, 0.0])
    firm = last_gap = np.inf
    visits, next_look = 0, STAGE * n

    def visit(rows: Indices) -> None:
        epoch(*part, factors.starts, kernels, weights, rows, active, u, bias, pull, firm, sums)

    while True:
        n_active = int(np.count_nonzero(active))
        if part is whole and n_active * u.nbytes <= HELD_BYTES:
            held = np.flatnonzero(active)
            part, active = whole.at(held, reader.features(held)), active[held]
            value_of_others = whole.linear - part.linear
        visits += n_active
        if part is whole:
            reader.visit(visit, active.copy(), used)
        else:
            visit(rng.permutation(np.flatnonzero(active)))
        total, firm, gap = sums.tolist()
        sums[1:] = 0.0
        bias += pull * total
        norms = factors.squared_norms(u.astype(np.float64))[used] / weights[used]
        value = value_of_others + part.linear - 0.5 * float(norms.sum())
        close = gap <= goal * (value + gap)
        slow = not close and visits >= next_look and gap > 0.5 * last_gap
        if close or slow:
            break
        if visits >= next_look:
            last_gap, next_look = gap, visits + STAGE * n
    if part is not whole:
        b[held] = part.b
    return slow
