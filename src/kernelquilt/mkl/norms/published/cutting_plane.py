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

import numpy as np
from scipy.optimize import linprog

from kernelquilt._typing import Floats
from kernelquilt.core.limits import single_threaded_blas
from kernelquilt.core.weights.sets import LP_OPTIONS, Simplex
from kernelquilt.core.weights.solution import TINY, Options, Solution
from kernelquilt.core.weights.solvers import Certificate, SVMAtWeights, SVMPoint, solve_qp

LEVEL = 0.5
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

    def add(self, point: SVMPoint) -> None:
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


def silp(svm: SVMAtWeights, weight_set: Simplex, options: Options) -> Solution:
    """Solve by the semi-infinite linear programme (a `WeightSolver`)."""
    return _cutting_plane(svm, weight_set, options, None)


def level_method(svm: SVMAtWeights, weight_set: Simplex, options: Options) -> Solution:
    """Solve by the level method (a `WeightSolver`)."""
    return _cutting_plane(svm, weight_set, options, LEVEL)


@single_threaded_blas()
def _cutting_plane(
    svm: SVMAtWeights, weight_set: Simplex, options: Options, level: float | None
) -> Solution:
    """Solve, cut, move on until the certificate is met, and return the best point.

    The next weights are the projection onto the level between the lower bound (0) and the best
    value (1); the minimiser of the cuts without a level, or where the projection fails.
    """
    tol = options.tol
    weights = weight_set.start() if options.start.weights is None else options.start.weights
    certificate = Certificate(svm, weight_set.support, options)
    cuts = Cuts(weight_set)
    point = best = svm.solve(weights, options.start.dual_coef, tol)
    while True:
        best = min(best, point, key=lambda candidate: candidate.primal)
        cuts.add(point)
        certificate.raise_bound(point.linear - 0.5 * weight_set.support(point.q))
        minimiser, bound = cuts.minimise(max(abs(best.primal), TINY))
        certificate.raise_bound(bound)
        exhausted = svm.work.n_solves >= options.max_iter
        if certificate.record(best) <= tol or exhausted or _stalled(certificate):
            break
        projected = None
        if level is not None:
            height = (1.0 - level) * certificate.bound + level * best.primal
            projected = cuts.project(point.weights, height)
        candidates = [
            w for w in (projected, minimiser) if w is not None and _differ(w, point.weights)
        ]
        if not candidates:  # the same weights would give the same cut
            break
        point = svm.solve(candidates[0], point, tol)
    return certificate.solution(best)


def _stalled(certificate: Certificate) -> bool:
    """Return whether only rounding is left between the bound and the best value."""
    gaps = [step.gap for step in certificate.history[-PATIENCE - 1 :]]
    return len(gaps) > PATIENCE and gaps[-1] > 0.99 * gaps[0]


def _differ(weights: Floats, others: Floats) -> bool:
    return float(np.abs(weights - others).max()) > SAME
