"""Descent on gate weights: limited-memory BFGS with a backtracking line search.

The objective is not convex. Every trial of the line search is an SVM solve, started from the duals
of the point before; a step is taken only if it lowers the objective enough (Armijo), so that the
objective never rises. No step moves the score of any gate by more than `REACH`, which keeps gates
from closing for good in one long step.
"""

from collections import deque

import numpy as np

from kernelquilt._typing import Bools, Floats
from kernelquilt.core.lbfgs import Pair, apply_inverse_hessian
from kernelquilt.core.weights.solution import TINY, Options, Step
from kernelquilt.mkl.per_sample.gating import GatedSVM, GatePoint

REACH = 2.0  # by which a step may move the scores of gates
SUFFICIENT = 1e-4  # part of the decrease promised by the slope that a step has to bring
NEGLIGIBLE = 0.1  # part of the tolerance below which a promised decrease is not worth a solve
MEMORY = 10  # pairs of steps and changes of the gradient
PATIENCE = 2  # iterations in a row that have to bring little, because one alone often does
MAX_TRIALS = 30
CONVEX = 1e-10  # cosine of a step and the change of the gradient from which on it counts


def descend_gates(
    svm: GatedSVM, gate_weights: Floats, options: Options
) -> tuple[GatePoint, float, tuple[Step, ...]]:
    """Lower the objective until two iterations in a row bring next to nothing.

    Parameters
    ----------
    svm : GatedSVM
        The objective.
    gate_weights : ndarray of shape (M, d + 1)
        Where to start.
    options : Options
        ``tol`` is the relative decrease in an iteration that counts as next to nothing,
        ``max_iter`` the cap on the iterations.

    Returns
    -------
    point : GatePoint
        The last and best point.
    decrease : float
        The larger relative decrease of the last two iterations, 0 if no step could be found,
        infinite if there were not two.
    history : tuple of Step
        The start, and the point after every iteration.
    """
    history: list[Step] = []

    def record(point: GatePoint) -> None:
        history.append(Step(point.value, point.svm.primal - point.svm.dual, svm.work.n_solves))
        options.report(history[-1])

    pairs: deque[Pair] = deque(maxlen=MEMORY)
    decreases = deque([np.inf] * PATIENCE, maxlen=PATIENCE)
    point = svm.solve(gate_weights, None)
    record(point)
    gradient = svm.gradient(point)
    while len(history) <= options.max_iter:
        better = _search(svm, point, gradient, pairs, options.tol)
        if better is None and pairs:
            pairs.clear()
            better = _search(svm, point, gradient, pairs, options.tol)
        if better is None:
            return point, 0.0, tuple(history)
        record(better)
        decreases.append((point.value - better.value) / max(abs(point.value), TINY))
        if max(decreases) <= options.tol:
            return better, max(decreases), tuple(history)
        before, point = (point, gradient), better
        gradient = svm.gradient(point)
        step = (point.gate_weights - before[0].gate_weights).ravel()
        change = (gradient - before[1]).ravel()
        product = float(step @ change)
        # a step along which the objective is not convex says nothing of its curvature
        if product > CONVEX * np.linalg.norm(step) * np.linalg.norm(change):
            pairs.append((step, change, product))
    return point, max(decreases), tuple(history)


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
    svm: GatedSVM, point: GatePoint, gradient: Floats, pairs: deque[Pair], outer_tol: float
) -> GatePoint | None:
    """Return a point with a lower value along the direction of descent, None if there seems none.

    Without curvature the length of a direction means nothing and the search starts at `REACH`.
    """
    flat = -gradient.ravel()
    if pairs:
        _, change, product = pairs[-1]
        apply_inverse_hessian(flat, pairs, product / float(change @ change))
    direction = flat.reshape(gradient.shape)
    slope = float(np.vdot(gradient, direction))
    move = svm.longest_move(direction)
    if slope >= 0.0 or move == 0.0:
        return None
    length = min(1.0, REACH / move) if pairs else REACH / move
    for _ in range(MAX_TRIALS):
        if -length * slope <= NEGLIGIBLE * outer_tol * abs(point.value):
            return None
        trial = svm.solve(point.gate_weights + length * direction, point)
        if trial.value <= point.value + SUFFICIENT * length * slope:
            return trial
        curved = trial.value - point.value - length * slope
        length *= float(np.clip(-length * slope / (2.0 * curved), 0.1, 0.6))
    return None
