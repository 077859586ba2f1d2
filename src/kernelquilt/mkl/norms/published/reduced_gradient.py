r"""Kernel weights by reduced gradient, the published SimpleMKL algorithm, as a baseline.

.. math:: \min_{d \in \Delta} J(d), \qquad J(d) = \max_b \; s'b - \tfrac12 \sum_p d_p \, q_p(b),
          \qquad g_p = \frac{\partial J}{\partial d_p} = -\tfrac12 q_p .

With the largest weight :math:`\mu` as the base variable, the direction of descent is

.. math:: D_p = \begin{cases} 0 & d_p = 0, \; g_p > g_\mu \\ g_\mu - g_p & \text{otherwise}
          \end{cases} \quad (p \ne \mu), \qquad D_\mu = -\sum_{p \ne \mu} D_p .

The weights move along D until one of them is zero. As long as that lowers J, the zero weight leaves
the direction, :math:`D_\mu` is summed anew and the move goes on; at the end a golden section finds
the best step on the last stretch. Every trial is an SVM solve.

Departures from the paper:

- It ends with the `Certificate` of :mod:`kernelquilt.core.weights.solvers`, at any trial.
- If the base variable is the one that reaches zero, a new direction is computed.
- Weights below 1e-8 become zero. A stretch along which J rises from its start is not searched.
- An iteration that does not lower J is repeated with a more accurate SVM. If it fails again, J has
  a kink, as it may where a weight is zero and the dual of the SVM is not unique: the search goes
  on over weights ``(1 - e) d + e / M`` with ``e`` a small part of the gap. It gives up after a few
  failures in a row.

References
----------
.. [1] A. Rakotomamonjy, F. Bach, S. Canu and Y. Grandvalet, "SimpleMKL", JMLR 9, 2008,
   Algorithm 1.
"""

import numpy as np

from kernelquilt._typing import Bools, Floats
from kernelquilt.core.limits import single_threaded_blas
from kernelquilt.core.weights.sets import Simplex
from kernelquilt.core.weights.solution import Options, Solution
from kernelquilt.core.weights.solvers import Certificate, SVMAtWeights, SVMPoint

SMALLEST_WEIGHT = 1e-8
GOLDEN = (5.0**0.5 - 1.0) / 2.0
WIDTH = 0.01  # of the bracket that ends a golden section, in units of the first bracket
NEGLIGIBLE = 0.01  # part of the tolerance that a line search may leave on the table
ROUNDING = 1e-14  # relative change of J that is noise
FLOOR_SHARE = 0.05  # part of the relative gap that keeping weights positive may cost
SMALLEST_INNER_TOL = 1e-4  # of the SVM, in units of the tolerance
MAX_FAILURES = 8  # in a row


@single_threaded_blas()
def reduced_gradient(svm: SVMAtWeights, weight_set: Simplex, options: Options) -> Solution:
    """Solve by reduced gradient (a `WeightSolver`); return the point of lowest primal value."""
    u = weight_set.start() if options.start.weights is None else options.start.weights
    search = _Search(svm, weight_set, options, u)
    point = search.best
    failures = 0
    while not search.step_ends() and failures < MAX_FAILURES:
        value = point.dual
        u, point = _descend(search, u, point)
        if point.dual < value - search.negligible:
            failures = 0
        elif not search.ended:
            failures += 1
            search.recover(leave_faces=failures > 1)
            point = search.solve(u, point)
    return search.solution()


class _Search:
    """The SVM as a function of the weights, with the certificate and the best point so far.

    Attributes
    ----------
    best : SVMPoint
        Lowest primal value so far.
    floor : float
        Share of equal weights that is mixed into all weights.
    inner_tol : float
        Accuracy asked of the SVM.
    """

    def __init__(self, svm: SVMAtWeights, weight_set: Simplex, options: Options, u: Floats) -> None:
        self.svm = svm
        self.weight_set = weight_set
        self.options = options
        self.certificate = Certificate(svm, weight_set.support, options)
        self.floor = 0.0
        self.inner_tol = options.tol
        self.best = svm.solve(u, options.start.dual_coef, options.tol)
        self._bound_by(self.best)

    def solve(self, u: Floats, start: SVMPoint) -> SVMPoint:
        """Solve at the weights that `u` stands for."""
        weights = (1.0 - self.floor) * u + self.floor * self.weight_set.start()
        point = self.svm.solve(weights, start, self.inner_tol)
        self._bound_by(point)
        self.best = min(self.best, point, key=lambda candidate: candidate.primal)
        return point

    def _bound_by(self, point: SVMPoint) -> None:
        self.certificate.raise_bound(point.linear - 0.5 * self.weight_set.support(point.q))

    @property
    def gap(self) -> float:
        """Relative gap of the best point."""
        return self.certificate.gap(self.best)

    @property
    def ended(self) -> bool:
        """Whether the certificate is met or the cap on solves reached."""
        return self.gap <= self.options.tol or self.exhausted

    @property
    def exhausted(self) -> bool:
        """Whether the cap on solves is reached."""
        return self.svm.work.n_solves >= self.options.max_iter

    @property
    def negligible(self) -> float:
        """A change of J that is too small to matter."""
        return max(NEGLIGIBLE * self.inner_tol, ROUNDING) * abs(self.best.primal)

    def step_ends(self) -> bool:
        """Make the best point a step of the history and return whether the search has ended."""
        self.certificate.record(self.best)
        return self.ended

    def recover(self, leave_faces: bool) -> None:
        """Prepare another attempt after an iteration that failed."""
        tol = self.options.tol
        self.inner_tol = max(0.1 * self.inner_tol, SMALLEST_INNER_TOL * tol)
        if leave_faces:
            self.floor = FLOOR_SHARE * min(1.0, max(self.gap, tol))

    def solution(self) -> Solution:
        """Return the best point, without the weights that the floor keeps if that is better."""
        best, weights = self.best, self.best.weights
        kept_up = (weights > 0.0) & (weights <= 2.0 * self.floor * self.weight_set.start())
        if kept_up.any() and not kept_up[weights > 0.0].all() and not self.exhausted:
            self.floor = 0.0
            self.solve(self.weight_set.without(weights, kept_up), best)
            if self.best is not best:
                self.certificate.record(self.best)
        return self.certificate.solution(self.best)


def _direction(u: Floats, gradient: Floats, allowed: Bools, base: int) -> Floats:
    """Return the reduced-gradient direction with the given base variable."""
    direction = gradient[base] - gradient
    direction[~allowed | ((u <= 0.0) & (direction < 0.0))] = 0.0
    direction[base] = 0.0
    direction[base] = -direction.sum()
    return direction


def _descend(search: _Search, u: Floats, point: SVMPoint) -> tuple[Floats, SVMPoint]:
    """Do one iteration: moves to the boundary while J falls, then a golden section."""
    base = int(u.argmax())
    direction = _direction(u, -0.5 * point.q, search.weight_set.allowed, base)
    while not search.ended and -0.5 * point.q @ direction < 0.0 < u[base]:
        shrinking = np.flatnonzero(direction < 0.0)
        ratios = u[shrinking] / -direction[shrinking]
        longest = float(ratios.min())
        ahead = _moved(u, direction, longest, blocked=int(shrinking[ratios.argmin()]))
        trial = search.solve(ahead, point)
        if trial.dual >= point.dual:
            return _golden_section(search, u, point, direction, longest, trial)
        u, point = ahead, trial
        direction[(u == 0.0) & (direction < 0.0)] = 0.0
        direction[base] = 0.0
        direction[base] = -direction.sum()
    return u, point


def _moved(u: Floats, direction: Floats, step: float, blocked: int | None = None) -> Floats:
    """Return the weights a step further, on the simplex and without tiny ones."""
    ahead = u + step * direction
    ahead[ahead < SMALLEST_WEIGHT] = 0.0
    if blocked is not None:
        ahead[blocked] = 0.0
    return ahead / ahead.sum()


def _golden_section(
    search: _Search, u: Floats, point: SVMPoint, direction: Floats, longest: float, end: SVMPoint
) -> tuple[Floats, SVMPoint]:
    """Return the best point found on the way to the longest step, whose end is known."""
    slope = -0.5 * float(point.q @ direction)
    low, high = 0.0, longest
    best, nearest = (u, point), end

    def at(step: float) -> float:
        nonlocal best, nearest
        if search.ended:
            return np.inf
        ahead = _moved(u, direction, step)
        nearest = search.solve(ahead, nearest)
        if nearest.dual < best[1].dual:
            best = (ahead, nearest)
        return nearest.dual

    left, right = (1.0 - GOLDEN) * high, GOLDEN * high
    value_left, value_right = at(left), at(right)
    while not search.ended:
        searched = high - low <= WIDTH * longest and best[1] is not point
        # J is convex: over a bracket it cannot fall by more than the first slope says
        if searched or -slope * (high - low) <= search.negligible:
            break
        if value_left <= value_right:
            high, right, value_right = right, left, value_left
            left = high - GOLDEN * (high - low)
            value_left = at(left)
        else:
            low, left, value_left = left, right, value_right
            right = low + GOLDEN * (high - low)
            value_right = at(right)
    return best
