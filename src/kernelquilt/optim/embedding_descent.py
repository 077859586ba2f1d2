"""How the weights of multi-view kernel completion are found.

    min_{A, S}  f(A; S) + lam2 sum_m |A_m|_{2,1}

with f one of `kernelquilt.optim.embedding`: L-BFGS on the smoothed norm, S set to its minimiser
every few iterations, which lowers the same objective; then the exact norm, by proximal steps, so
that rows that are not needed vanish (`kernelquilt.optim.proximal`). As the smoothed norm is above
the exact one, the objective falls throughout. The problem is not convex: what is found is near a
stationary point, that of the start.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from kernelquilt.optim.embedding import EmbeddingProblem
from kernelquilt.optim.lbfgs import LBFGS, SINGLE
from kernelquilt.optim.proximal import ProximalDescent, add_smoothed_norm

Floats = NDArray[np.float64]
Record = Callable[[float, float], None]

SMOOTHING = 1e-4
ROUND = 10  # iterations between updates of S, and over which progress is averaged
EXACT_STEPS = 50
TINY = 1e-300
N_PAIRS = 6
N_PAIRS_LARGE = 4  # of vectors that are kept in single precision, to save memory


def minimise(
    problem: EmbeddingProblem,
    x: Floats,
    lam2: float,
    *,
    tol: float,
    max_iter: int,
    record: Record,
) -> None:
    """Minimise over A and S, in place.

    Parameters
    ----------
    problem : EmbeddingProblem
        Its `mixing` is left at the S found.
    x : ndarray
        The weights A to start from, packed by `problem`; left at those found.
    lam2 : float
        Weight of the l2,1 norm.
    tol : float
        Mean relative decrease of the objective by one iteration at which to stop.
    max_iter : int
        Cap on the iterations of L-BFGS; at most 50 proximal steps follow.
    record : callable
        Called with the objective and its mean relative decrease over the last ten iterations,
        inf before there are ten, after every iteration and at least once.
    """
    problem.mix(x)

    def smoothed(point: Floats, gradient: Floats) -> float:
        value = problem.evaluate(point, gradient)
        if lam2 > 0:
            for A, g in zip(problem.split(point), problem.split(gradient), strict=True):
                value += add_smoothed_norm(A, g, lam2, SMOOTHING)
        return value

    n_pairs = N_PAIRS_LARGE if len(x) >= SINGLE else N_PAIRS
    descent = LBFGS(smoothed, x, n_pairs, problem.preconditioner(lam2))
    _descend(descent, problem, tol, max_iter, record)
    if lam2 > 0:
        del descent  # and its memory
        exact = ProximalDescent(problem.evaluate, problem.split, x, lam2)
        exact.drop_short_rows()
        _descend(exact, problem, tol, EXACT_STEPS, record)


def _descend(
    descent: LBFGS | ProximalDescent,
    problem: EmbeddingProblem,
    tol: float,
    n_steps: int,
    record: Record,
) -> None:
    values = [descent.value]
    for number in range(1, n_steps + 1):
        moved = descent.step()
        if number % ROUND == 0 or not moved:
            problem.mix(descent.x)
            descent.evaluate()
        values = [*values[-ROUND:], descent.value]
        size = max(abs(descent.value), TINY)
        decrease = np.inf
        if not moved:
            decrease = (values[-2] - values[-1]) / size
        elif number >= ROUND:
            decrease = (values[0] - values[-1]) / ROUND / size
        record(descent.value, decrease)
        if decrease <= tol:
            break
