"""The alternation of sample-adaptive MKL, and the limits of its switches.

Equation numbers are those of :mod:`kernelquilt.mkl.per_sample.sample_adaptive`.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np

from kernelquilt._messages import warn_user
from kernelquilt._typing import Bools, Floats, Indices, Numbers
from kernelquilt.core.weights.solution import TINY, Solution, Work
from kernelquilt.mkl.norms.simple import solve_simple_mkl
from kernelquilt.mkl.per_sample.switch_step import switch_step, switched_kernels, switched_products

MAX_SOLVES = 200  # cap on the SVM solves of one MKL problem
LIFT = 0.1  # added in equal parts to the weights that an MKL problem starts from
MIN_MARGIN = 1e-3  # asked of a sample, as a share of what its kernels could supply

TIES: dict[str, Callable[[Floats, np.random.RandomState], Floats]] = {
    "influence": lambda c, rng: np.abs(c),
    "max": lambda c, rng: c,
    "random": lambda c, rng: rng.uniform(size=c.shape),
}


class SwitchedProblem(NamedTuple):
    """A binary problem with the limits of its switches.

    Attributes
    ----------
    K : ndarray of shape (M, n, n)
        Kernels, zero where absent.
    y, C : ndarrays of shape (n,)
        Labels -1 and +1, and penalties, 0 for samples left out.
    observed : ndarray of shape (n, M), bool
        True where a kernel observes a sample.
    h0 : ndarray of shape (n, M), bool
        Switches that those of the samples may not be far from, absent kernels included.
    m0 : int
        How far they may be from it.
    """

    K: Numbers
    y: Floats
    C: Floats
    observed: Bools
    h0: Bools
    m0: int

    @property
    def reference(self) -> Bools:
        """`h0` restricted to observed kernels, or all of these where that leaves none, (n, M)."""
        reference = self.h0 & self.observed
        return np.where(reference.any(axis=1, keepdims=True), reference, self.observed)

    @property
    def budget(self) -> Indices:
        """Number of switches of each sample that may differ from the reference, (n,).

        A sample that lacks kernels may have too few left for `m0`: one of them stays on.
        """
        at_most = np.maximum(self.reference.sum(axis=1) - 1, 0)
        return np.where(self.observed.all(axis=1), self.m0, np.minimum(self.m0, at_most))

    def patterns(self, switches: Bools) -> Bools:
        """Return the different switches of samples that take part, (n_patterns, M).

        What a sample lacks says nothing about the kernels that others should use, so absent
        kernels count as in `h0`.
        """
        return np.unique(np.where(self.observed, switches, self.h0)[self.C > 0], axis=0)


class Iterate(NamedTuple):
    """An MKL solution with the switches and margins of its problem.

    Attributes
    ----------
    solution : Solution
        Weights, duals and intercept.
    switches, margins : ndarrays of shape (n, M) and (n,)
        What they are the solution for.
    parts : ndarray of shape (n, M)
        What each kernel adds to the score of a sample, if it is on.
    norms : ndarray of shape (M,)
        Of the ``w_p``.
    settled : bool
        Whether the iteration ends here.
    """

    solution: Solution
    switches: Bools
    margins: Floats
    parts: Floats
    norms: Floats
    settled: bool


def adapt_switches(
    problem: SwitchedProblem, tie: str, rng: np.random.RandomState, tol: float, outer_tol: float
) -> Iterator[Iterate]:
    """Yield an MKL solution after the other, each for the switches that the last one led to.

    The iteration ends where switches and margins stay the same, or the objective within
    `outer_tol`. It holds one stack beside `problem.K`.
    """
    K, y, C, observed, *_ = problem
    switches, margins = problem.reference, np.ones(len(y))
    weights = dual_coef = buffer = None
    objective = np.inf
    while True:
        switched = K
        if not np.array_equal(switches, observed):
            buffer = np.empty_like(K) if buffer is None else buffer
            switched = switched_kernels(K, switches, buffer)
        allowed = np.asarray(switches[C > 0].any(axis=0))
        if weights is not None:
            # at zero weights the objective may have kinks, at which Newton's method would stall
            weights = np.where(allowed, weights + LIFT / np.count_nonzero(allowed), 0.0)
            weights = weights / weights.sum()
        solution = solve_simple_mkl(
            switched,
            y,
            C=C,
            margins=margins,
            allowed=allowed,
            tol=tol,
            max_iter=MAX_SOLVES,
            weights=weights,
            dual_coef=dual_coef,
        )
        weights, dual_coef = solution.weights, solution.dual_coef
        products = switched_products(K, dual_coef, switches, weights > 0)
        read = (switches & (dual_coef != 0.0)[:, None] & (weights > 0)).mean()
        passes = float(read) + (switched is not K)
        solution = replace(solution, work=solution.work + Work(n_passes=passes))
        squared = np.einsum("pi,ip,i->p", products, switches, dual_coef)
        it = Iterate(
            solution,
            switches,
            margins,
            weights * products.T,
            weights * np.sqrt(np.maximum(squared, 0.0)),
            False,
        )
        new_switches, new_margins = _updated(problem, it, tie, rng)
        same = np.array_equal(new_switches, switches) and np.array_equal(new_margins, margins)
        change = abs(objective - solution.objective)
        settled = same or change <= outer_tol * max(solution.objective, TINY)
        yield it._replace(settled=settled)
        if settled:
            return
        switches, margins, objective = new_switches, new_margins, solution.objective


def _updated(
    problem: SwitchedProblem, it: Iterate, tie: str, rng: np.random.RandomState
) -> tuple[Bools, Floats]:
    """Return the switches (15) and margins (16) that an MKL solution leads to."""
    scale = problem.y / it.margins
    c = scale[:, None] * it.parts
    # not the slacks of the solver: with them the present switches could look infeasible
    supplied = np.where(it.switches, c, 0.0).sum(axis=1)
    r = np.minimum(supplied, 1.0 - scale * it.solution.intercept)
    switches, _ = switch_step(
        c,
        r,
        problem.reference,
        problem.budget,
        previous=it.switches,
        available=problem.observed,
        priority=TIES[tie](c, rng),
    )
    margins = _margins(problem.observed, switches, it.norms)
    kept = (margins <= MIN_MARGIN) | (problem.C == 0.0)
    switches[kept] = it.switches[kept]
    margins[kept] = _margins(problem.observed, switches, it.norms)[kept]
    return switches, np.maximum(margins, MIN_MARGIN)


def _margins(observed: Bools, switches: Bools, norms: Floats) -> Floats:
    """Return the share of the norms of the observed kernels that is on, (n,)."""
    whole = observed @ norms
    off = (observed & ~switches) @ norms
    return np.asarray(1.0 - off / np.where(whole > 0.0, whole, 1.0))


def switch_count(m0: Any, M: int) -> int:
    """Return the number of switches that may differ, from a number or a fraction of M kernels."""
    whole = isinstance(m0, Integral) and not isinstance(m0, bool)
    if whole and 0 <= int(m0) < M:
        return int(m0)
    if isinstance(m0, Real) and not isinstance(m0, Integral) and 0.0 <= float(m0) < 1.0:
        count = int(np.floor(float(m0) * M + 1e-9))  # 0.29 * 100 is meant to be 29
        if count == 0 and float(m0) > 0.0 and M > 1:
            warn_user(
                f"m0={float(m0):g} of {M} kernels, rounded down, is 0: no kernel is switched and "
                "the fit is that of SimpleMKL; give m0 as an int, or a larger fraction"
            )
        return count
    raise ValueError(
        f"m0 must be an int from 0 to {M - 1}, the number of the {M} kernels that a sample may "
        f"switch, or a float in [0, 1), their fraction; got {m0!r}"
    )


def reference_switches(h0: Any, shape: tuple[int, int]) -> Bools:
    """Return `h0`, "ones" or an array of shape (M,) or (n, M), as an array of `shape` (n, M)."""
    n, M = shape
    if isinstance(h0, str) and h0 == "ones":
        return np.ones(shape, dtype=np.bool_)
    given = np.asarray(h0)
    if given.dtype.kind not in "buif" or given.shape not in ((M,), shape):
        what = f"shape {given.shape}" if given.dtype.kind in "buif" and given.ndim else repr(h0)
        raise ValueError(
            "h0 must be 'ones', 'sparse', or an array of 0 and 1 with a switch for each kernel, "
            f"shape {(M,)}, or for each sample and kernel, shape {shape}; got {what}"
        )
    if not np.isin(given, (0, 1)).all():
        raise ValueError(f"h0 must hold 0 and 1 only, got {np.unique(given)[:5].tolist()}")
    switches = np.broadcast_to(given.astype(np.bool_), shape)
    empty = ~switches.any(axis=1)
    if empty.any():
        raise ValueError(
            f"h0 switches all {M} kernels off for {empty.sum()} of {n} samples; leave one on"
        )
    return switches


def held_out(y: Floats, C: Floats, fraction: float, rng: np.random.RandomState) -> Bools:
    """Return a mask of samples to leave out, this fraction of either class that takes part."""
    mask = np.zeros(len(y), dtype=np.bool_)
    for sign in (-1.0, 1.0):
        members = rng.permutation(np.flatnonzero((y == sign) & (C > 0)))
        if len(members) < 2:
            raise ValueError(
                "validation_fraction needs two samples or more on either side of every binary "
                f"problem, got {len(members)} of {len(y)}; leave it None"
            )
        number = min(max(round(fraction * len(members)), 1), len(members) - 1)
        mask[members[:number]] = True
    return mask
