"""How the weights of multi-view kernel completion are found.

    min_{A, S}  f(A; S) + lam2 sum_m |A_m|_{2,1}

with f one of `kernelquilt.completion.literature.mkc.objectives`. First L-BFGS on the smoothed norm.
Then, until these proximal steps find nothing more to do, the exact norm: rows that are not needed
vanish (`kernelquilt.completion.literature.proximal`), and L-BFGS goes on with the others, where the
norm is smooth. S is set to its minimiser every few iterations, which lowers the same objective. As
the smoothed norm is above the exact one, the objective falls throughout. The problem is not convex:
what is found is near a stationary point, that of the start.
"""

from collections.abc import Callable

import numpy as np

from kernelquilt._typing import Bools, Floats
from kernelquilt.completion.literature.mkc.objectives import EmbeddingObjective
from kernelquilt.completion.literature.proximal import ProximalDescent, add_smoothed_norm
from kernelquilt.core.lbfgs import LBFGS, SINGLE, Evaluate

Record = Callable[[float, float], None]

SMOOTHING = 1e-4
ROUND = 10  # iterations between updates of S, and over which progress is averaged
EXACT_STEPS = 50
LEAST = 1e-4
N_PAIRS = 6
N_PAIRS_LARGE = 2  # of vectors that are kept in single precision, to save memory


def minimise_embedding(
    objective: EmbeddingObjective,
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
    objective : EmbeddingObjective
        Its `mixing` is left at the S found.
    x : ndarray
        The weights A to start from, packed by `objective`; left at those found.
    lam2, tol, max_iter
        As in `solve_embedding`. Where the objective itself vanishes, its decrease is relative to
        1e-4 of what it is for A = 0.
    record : callable
        Called with the objective and its mean relative decrease over the last ten iterations,
        inf before there are ten, after every iteration.
    """
    objective.mix(x)
    least = LEAST * objective.value_of_nothing
    left = max_iter
    smoothing, rows = SMOOTHING, None
    while True:
        n_pairs = N_PAIRS_LARGE if len(x) >= SINGLE else N_PAIRS
        evaluate, precondition = _penalised(objective, lam2, smoothing, rows)
        descent = LBFGS(evaluate, x, n_pairs, precondition)
        used, _ = _descend(descent, objective, tol, left, least, record)
        del descent  # and its memory
        if lam2 == 0:
            return
        left -= used
        exact = ProximalDescent(objective.evaluate, objective.split, x, lam2)
        exact.drop_short_rows()
        _, converged = _descend(exact, objective, tol, EXACT_STEPS, least, record)
        del exact
        if converged or left <= 0:
            return
        smoothing, rows = 0.0, [np.asarray(A.any(axis=1)) for A in objective.split(x)]


def _penalised(
    objective: EmbeddingObjective, lam2: float, smoothing: float, rows: list[Bools] | None
) -> tuple[Evaluate, Callable[[Floats], None]]:
    """Return the objective and the preconditioner, both for some rows only if these are given."""
    precondition = objective.preconditioner(lam2)

    def only_rows(x: Floats) -> None:
        if rows is not None:
            for A, kept in zip(objective.split(x), rows, strict=True):
                A[~kept] = 0.0

    def evaluate(x: Floats, gradient: Floats) -> float:
        value = objective.evaluate(x, gradient)
        if lam2 > 0:
            for A, g in zip(objective.split(x), objective.split(gradient), strict=True):
                value += add_smoothed_norm(A, g, lam2, smoothing)
        only_rows(gradient)
        return value

    def multiply(x: Floats) -> None:
        precondition(x)
        only_rows(x)

    return evaluate, multiply


def _descend(
    descent: LBFGS | ProximalDescent,
    objective: EmbeddingObjective,
    tol: float,
    n_steps: int,
    least: float,
    record: Record,
) -> tuple[int, bool]:
    """Return the number of steps, and whether the decrease has fallen below `tol`."""
    values = [descent.value]
    for number in range(1, n_steps + 1):
        moved = descent.step()
        if number % ROUND == 0 or not moved:
            objective.mix(descent.x)
            descent.evaluate()
        values = [*values[-ROUND:], descent.value]
        size = max(descent.value, least) or 1.0
        decrease = np.inf
        if not moved:
            decrease = (values[-2] - values[-1]) / size
        elif number >= ROUND:
            decrease = (values[0] - values[-1]) / ROUND / size
        record(descent.value, decrease)
        if decrease <= tol:
            return number, True
    return n_steps, False
