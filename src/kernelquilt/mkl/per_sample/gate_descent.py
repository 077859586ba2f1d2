"""Descent on gate weights: limited-memory BFGS with a backtracking line search.

The objective is not convex. Every trial of the line search is an SVM solve, started from the duals
of the point before; a step is taken only if it lowers the objective enough (Armijo), so that the
objective never rises. No step moves the score of any gate by more than `REACH`, which keeps gates
from closing for good in one long step.
"""

from collections import deque
from collections.abc import Callable

import numpy as np

from kernelquilt._typing import Bools, Floats
from kernelquilt.core.solution import TINY
from kernelquilt.mkl.per_sample.gating import GatedSVM, GatePoint

REACH = 2.0  # by which a step may move the scores of gates
SUFFICIENT = 1e-4  # part of the decrease promised by the slope that a step has to bring
NEGLIGIBLE = 0.1  # part of the tolerance below which a promised decrease is not worth a solve
MEMORY = 10  # pairs of steps and changes of the gradient
PATIENCE = 2  # iterations in a row that have to bring little, because one alone often does
MAX_TRIALS = 30


class CurvatureMemory:
    """The last steps and the changes of the gradient along them."""

    def __init__(self) -> None:
        self.pairs: deque[tuple[Floats, Floats]] = deque(maxlen=MEMORY)

    def add(self, step: Floats, change: Floats) -> None:
        """Remember a step, unless the objective is not convex along it."""
        if np.vdot(step, change) > 1e-10 * np.linalg.norm(step) * np.linalg.norm(change):
            self.pairs.append((step, change))

    def direction(self, gradient: Floats) -> Floats:
        """Return the quasi-Newton direction of descent by the two-loop recursion."""
        direction = -gradient
        shares = []
        for step, change in reversed(self.pairs):
            share = np.vdot(step, direction) / np.vdot(step, change)
            direction = direction - share * change
            shares.append(share)
        if self.pairs:
            step, change = self.pairs[-1]
            direction = direction * (np.vdot(step, change) / np.vdot(change, change))
        for (step, change), share in zip(self.pairs, reversed(shares), strict=True):
            back = np.vdot(change, direction) / np.vdot(step, change)
            direction = direction + (share - back) * step
        return direction


def descend(
    machine: GatedSVM,
    gate_weights: Floats,
    *,
    outer_tol: float,
    max_iter: int,
    record: Callable[[GatePoint], None],
) -> tuple[GatePoint, float]:
    """Lower the objective until two iterations in a row bring next to nothing.

    Parameters
    ----------
    machine : GatedSVM
        The objective.
    gate_weights : ndarray of shape (M, d + 1)
        Where to start.
    outer_tol : float
        Relative decrease in an iteration that counts as next to nothing.
    max_iter : int
        Cap on the iterations.
    record : callable
        Called with the start and with the point after every iteration.

    Returns
    -------
    point : GatePoint
        The last and best point.
    decrease : float
        The larger relative decrease of the last two iterations, 0 if no step could be found,
        infinite if there were not two.
    """
    memory = CurvatureMemory()
    decreases = deque([np.inf] * PATIENCE, maxlen=PATIENCE)
    point = machine.solve(gate_weights, None)
    record(point)
    gradient = machine.gradient(point)
    for _ in range(max_iter):
        better = _search(machine, point, gradient, memory, outer_tol)
        if better is None and memory.pairs:
            memory.pairs.clear()
            better = _search(machine, point, gradient, memory, outer_tol)
        if better is None:
            return point, 0.0
        record(better)
        decreases.append((point.value - better.value) / max(abs(point.value), TINY))
        if max(decreases) <= outer_tol:
            return better, max(decreases)
        before, point = (point, gradient), better
        gradient = machine.gradient(point)
        memory.add(point.gate_weights - before[0].gate_weights, gradient - before[1])
    return point, max(decreases)


def random_starts(
    count: int, features: Floats, allowed: Bools, rng: np.random.RandomState
) -> list[Floats]:
    """Draw gate weights that give scores of about unit variance.

    Nothing is drawn for features that are 0 and for kernels that are not allowed, so that adding
    such features or kernels changes nothing.

    Parameters
    ----------
    count : int
        Number of starts.
    features : ndarray of shape (n, d)
        Inputs of the gates.
    allowed : ndarray of shape (M,), bool
        Kernels that may be opened.
    rng : RandomState
        Source of the numbers.

    Returns
    -------
    starts : list of ndarrays of shape (M, d + 1)
    """
    where = np.ix_(allowed, np.append(features.any(axis=0), True))
    starts = [np.zeros((len(allowed), features.shape[1] + 1)) for _ in range(count)]
    for start in starts:
        shape = start[where].shape
        start[where] = rng.standard_normal(shape) / np.sqrt(shape[1])
    return starts


def _search(
    machine: GatedSVM,
    point: GatePoint,
    gradient: Floats,
    memory: CurvatureMemory,
    outer_tol: float,
) -> GatePoint | None:
    """Return a point with a lower value along the direction of descent, None if there seems none.

    Without curvature the length of a direction means nothing and the search starts at `REACH`.
    """
    direction = memory.direction(gradient)
    slope = float(np.vdot(gradient, direction))
    move = machine.longest_move(direction)
    if slope >= 0.0 or move == 0.0:
        return None
    length = min(1.0, REACH / move) if memory.pairs else REACH / move
    for _ in range(MAX_TRIALS):
        if -length * slope <= NEGLIGIBLE * outer_tol * abs(point.value):
            return None
        trial = machine.solve(point.gate_weights + length * direction, point)
        if trial.value <= point.value + SUFFICIENT * length * slope:
            return trial
        curved = trial.value - point.value - length * slope
        length *= float(np.clip(-length * slope / (2.0 * curved), 0.1, 0.6))
    return None
