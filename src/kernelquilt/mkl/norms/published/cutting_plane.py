r"""Kernel weights from a bundle of cuts: the semi-infinite linear programme and the level method.

The duals ``b_t`` of every SVM solved so far bound

.. math:: J(d) = \max_b \; s'b - \tfrac12 \sum_p d_p \, q_p(b)

from below by a cut that is linear in the weights, and all of them together by a polyhedron,

.. math:: J(d) \ge \hat J(d) = \max_t \; s'b_t - \tfrac12 \sum_p d_p \, q_p(b_t) .

Its minimum over the simplex is a linear programme, from whose multipliers :math:`\lambda` comes a
lower bound of the optimum that holds however accurate the programme was solved:

.. math:: \min_{d \in \Delta} J(d) \;\ge\; \sum_t \lambda_t \, s'b_t
          - \tfrac12 \max_p \sum_t \lambda_t \, q_p(b_t),
          \qquad \lambda \ge 0, \; \sum_t \lambda_t = 1 .

The next weights are

- the minimiser of :math:`\hat J`, in the semi-infinite linear programme [1]_ (column generation).
  They jump from vertex to vertex while there are few cuts;
- the projection of the last weights onto
  :math:`\{d \in \Delta : \hat J(d) \le (1 - \ell) \, \text{bound} + \ell \, J_{best}\}`,
  in the level method [2]_, which does not jump. The paper takes :math:`\ell = 0.9`; 0.5 needs
  fewer solves.

Neither lowers J in every step; the history therefore follows the best weights so far.

References
----------
.. [1] S. Sonnenburg, G. Raetsch, C. Schaefer and B. Schoelkopf, "Large scale multiple kernel
   learning", JMLR 7, 2006.
.. [2] Z. Xu, R. Jin, I. King and M. Lyu, "An extended level method for efficient multiple kernel
   learning", NIPS 21, 2008.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.optimize import linprog

from kernelquilt._typing import Floats
from kernelquilt.core.blas import single_threaded_blas
from kernelquilt.core.solution import TINY, Solution, Step
from kernelquilt.core.svm.weighted_svm import Point, StackSVM
from kernelquilt.core.weights.certificate import Certificate
from kernelquilt.core.weights.sets import LP_OPTIONS, Simplex
from kernelquilt.core.weights.small_qp import solve_qp

LEVEL = 0.5  # between the lower bound (0) and the best value (1)
SAME = 1e-13  # weights that differ by no more are the same
PATIENCE = 50  # solves within which the gap has to shrink by a percent; a handful is usual


class Cuts:
    """Linear functions below ``J``, in the weights that are allowed.

    Parameters
    ----------
    weight_set : Simplex
        Where the weights may lie.
    """

    def __init__(self, weight_set: Simplex) -> None:
        self.allowed = weight_set.allowed
        self._linear: list[float] = []
        self._q: list[Floats] = []

    def add(self, point: Point) -> None:
        """Add the cut of the duals of a point."""
        self._linear.append(point.linear)
        self._q.append(point.q[self.allowed])

    def minimise(self, scale: float) -> tuple[Floats | None, float]:
        """Minimise the largest cut over the simplex.

        Parameters
        ----------
        scale : float
            Size of the values that matter, which the linear programme sees as one.

        Returns
        -------
        weights : ndarray of shape (M,) or None
            The minimiser; None if the linear programme was not solved.
        bound : float
            A lower bound of J over the simplex.
        """
        linear = np.array(self._linear) / scale
        Q = np.array(self._q) / scale
        k, m = Q.shape
        result = linprog(
            np.append(np.zeros(m), 1.0),
            A_ub=np.column_stack([-0.5 * Q, np.full(k, -1.0)]),
            b_ub=-linear,
            A_eq=np.append(np.ones(m), 0.0)[None],
            b_eq=np.ones(1),
            bounds=[(0.0, None)] * m + [(None, None)],
            method="highs",
            options=LP_OPTIONS,
        )
        if result.x is None:
            return None, -np.inf
        multipliers = np.maximum(-result.ineqlin.marginals, 0.0)
        total = float(multipliers.sum())
        bound = -np.inf
        if total > 0.0:
            multipliers /= total
            bound = float(multipliers @ linear - 0.5 * (multipliers @ Q).max())
        return self._on_simplex(result.x[:m]), scale * bound

    def project(self, weights: Floats, level: float) -> Floats | None:
        """Return the nearest weights at which no cut is above the level, or None on failure."""
        Q = np.array(self._q)
        sizes = Q.max(axis=1)
        bounding = sizes > 0.0
        Q, sizes = Q[bounding], sizes[bounding]
        heights = (np.array(self._linear)[bounding] - level) / sizes
        m = Q.shape[1]
        try:
            projected = solve_qp(
                np.eye(m),
                -weights[self.allowed],
                np.zeros(m),
                -0.5 * Q / sizes[:, None],
                -heights,
                np.ones((1, m)),
                np.ones(1),
            )
        except np.linalg.LinAlgError:
            return None
        return self._on_simplex(projected)

    def _on_simplex(self, values: Floats) -> Floats | None:
        """Return allowed values as weights, without the errors of the optimiser."""
        values = np.maximum(values, 0.0)
        total = float(values.sum())
        if not 0.0 < total < np.inf:
            return None
        weights = np.zeros(len(self.allowed))
        weights[self.allowed] = values / total
        return weights


class State(NamedTuple):
    """What the rule for the next weights sees.

    Attributes
    ----------
    cuts : Cuts
        The cuts so far.
    minimiser : ndarray of shape (M,) or None
        Where the largest cut is smallest.
    point : Point
        The last point.
    best, bound : float
        Lowest value and lower bound so far.
    """

    cuts: Cuts
    minimiser: Floats | None
    point: Point
    best: float
    bound: float


def _at_minimiser(state: State) -> Floats | None:
    return state.minimiser


def _at_projection(state: State) -> Floats | None:
    level = (1.0 - LEVEL) * state.bound + LEVEL * state.best
    return state.cuts.project(state.point.weights, level)


def silp(
    machine: StackSVM,
    weight_set: Simplex,
    *,
    tol: float,
    max_iter: int,
    weights: Floats | None = None,
    dual_coef: Floats | None = None,
    on_step: Callable[[Step], None] | None = None,
) -> Solution:
    """Minimise ``J`` over the simplex by the semi-infinite linear programme.

    Parameters
    ----------
    machine : StackSVM
        The SVM with its kernels.
    weight_set : Simplex
        Where the weights may lie.
    tol : float
        Relative duality gap to reach.
    max_iter : int
        Cap on the SVM solves.
    weights : ndarray of shape (M,), optional
        Weights to start from, a point of the set.
    dual_coef : ndarray of shape (n,), optional
        Signed duals to start from.
    on_step : callable, optional
        Called with every :class:`~kernelquilt.core.solution.Step`.

    Returns
    -------
    Solution
        At the lowest primal value seen.
    """
    certificate = Certificate(machine, weight_set.support, tol, on_step)
    start = weight_set.start() if weights is None else weights
    return _cutting_plane(certificate, weight_set, _at_minimiser, start, dual_coef, max_iter)


def level_method(
    machine: StackSVM,
    weight_set: Simplex,
    *,
    tol: float,
    max_iter: int,
    weights: Floats | None = None,
    dual_coef: Floats | None = None,
    on_step: Callable[[Step], None] | None = None,
) -> Solution:
    """Minimise ``J`` over the simplex by the level method.

    Parameters
    ----------
    machine : StackSVM
        The SVM with its kernels.
    weight_set : Simplex
        Where the weights may lie.
    tol : float
        Relative duality gap to reach.
    max_iter : int
        Cap on the SVM solves.
    weights : ndarray of shape (M,), optional
        Weights to start from, a point of the set.
    dual_coef : ndarray of shape (n,), optional
        Signed duals to start from.
    on_step : callable, optional
        Called with every :class:`~kernelquilt.core.solution.Step`.

    Returns
    -------
    Solution
        At the lowest primal value seen.
    """
    certificate = Certificate(machine, weight_set.support, tol, on_step)
    start = weight_set.start() if weights is None else weights
    return _cutting_plane(certificate, weight_set, _at_projection, start, dual_coef, max_iter)


@single_threaded_blas()
def _cutting_plane(
    certificate: Certificate,
    weight_set: Simplex,
    following: Callable[[State], Floats | None],
    weights: Floats,
    dual_coef: Floats | None,
    max_iter: int,
) -> Solution:
    """Solve, cut and move to the weights that `following` says until the certificate is met."""
    machine, tol = certificate.machine, certificate.tol
    cuts = Cuts(weight_set)
    point = best = machine.solve(weights, dual_coef, tol)
    while True:
        best = min(best, point, key=lambda candidate: candidate.primal)
        cuts.add(point)
        certificate.raise_bound(point.linear - 0.5 * weight_set.support(point.q))
        minimiser, bound = cuts.minimise(max(abs(best.primal), TINY))
        certificate.raise_bound(bound)
        if certificate.record(best) <= tol or machine.n_solves >= max_iter or _stalled(certificate):
            break
        ahead = following(State(cuts, minimiser, point, best.primal, certificate.bound))
        candidates = [w for w in (ahead, minimiser) if w is not None and _differ(w, point.weights)]
        if not candidates:  # the same weights would give the same cut
            break
        point = machine.solve(candidates[0], point, tol)
    return certificate.solution(best)


def _stalled(certificate: Certificate) -> bool:
    """Return whether only rounding is left between the bound and the best value."""
    gaps = [step.gap for step in certificate.history[-PATIENCE - 1 :]]
    return len(gaps) > PATIENCE and gaps[-1] > 0.99 * gaps[0]


def _differ(weights: Floats, others: Floats) -> bool:
    return float(np.abs(weights - others).max()) > SAME
