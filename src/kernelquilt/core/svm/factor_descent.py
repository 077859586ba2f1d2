"""Coordinate descent on the SVM dual on factors, pass by pass."""

from typing import Any

import numpy as np

from kernelquilt._typing import Floats, Indices
from kernelquilt.core.svm.box import tube_cost
from kernelquilt.core.svm.factor_reading import FactorReader

STAGE = 3  # passes in which descent has to halve the gap to be worth going on with
HELD_BYTES = 2**24  # of samples that are copied, to be visited without another pass
SEED = 20


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
    kernels = np.flatnonzero(used)
    u = (factors.spread(weights) * v).astype(factors.Z.dtype)
    Z, own = factors.Z, b
    samples = [np.ascontiguousarray(factors.observed), diag, *problem]
    active = np.ones(n, dtype=np.bool_)
    held: Indices | None = None
    sums = np.array([b.sum(), 0.0, 0.0])
    firm = last_gap = np.inf
    value_of_others, rng = 0.0, np.random.default_rng(SEED)
    visits, next_look = 0, STAGE * n

    def visit(rows: Indices) -> None:
        epoch(
            Z, factors.starts, kernels, weights, *samples, rows, active, own, u, bias, pull, firm, sums
        )  # fmt: skip

    while True:
        n_active = int(np.count_nonzero(active))
        if held is None and n_active * Z.itemsize * Z.shape[1] <= HELD_BYTES:
            held = np.flatnonzero(active)
            value_of_others = _linear(samples, own) 
            Z, own, active = reader.features(held), b[held], active[held]
            samples = [each[held] for each in samples]
            value_of_others -= _linear(samples, own)
        visits += n_active
        if held is None:
            reader.visit(visit, active.copy(), used)
        else:
            visit(rng.permutation(np.flatnonzero(active)))
        total, firm, gap = sums.tolist()
        sums[1:] = 0.0
        bias += pull * total
        norms = factors.squared_norms(u.astype(np.float64))[used] / weights[used]
        value = value_of_others + _linear(samples, own) - 0.5 * float(norms.sum())
        close, look = gap <= goal * (value + gap), visits >= next_look
        slow = look and gap > 0.5 * last_gap
        if close or slow:
            break
        if look:
            last_gap, next_look = gap, visits + STAGE * n
    if held is not None:
        b[held] = own
    return slow and not close


def _linear(samples: list[Any], b: Floats) -> float:
    """Return ``s'b - tube'|b|``."""
    _, _, s, _, _, tube = samples
    return float(s @ b) - tube_cost(b, tube)
