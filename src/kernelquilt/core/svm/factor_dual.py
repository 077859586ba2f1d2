r"""The SVM dual on factors: coordinate descent first, then Newton's method.

With ``K = X X'`` for features ``X (n, D)`` the dual of :mod:`kernelquilt.core.svm.dual`

.. math:: \max_b \; s'b - \tfrac12 \|X'b\|^2, \qquad \sum_i b_i = 0, \quad l_i \le b_i \le u_i,

less ``sum_i tube_i |b_i|`` in regression, needs no kernel: a sample costs O(D), and both objectives
one product with X. Coordinate descent (:mod:`kernelquilt.core.svm.factor_descent`) gets to a
moderate gap in some ten passes, unless the bounds are wide. From where it gets slow, the proximal
point method goes on: with a centre ``c`` and a width ``h``

.. math:: \max_b \; s'b - \tfrac12 \|X'b\|^2 - \tfrac{h}{2} \sum_i \frac{(b_i - c_i)^2}{u_i - l_i}

has the smooth dual

.. math:: \min_{w, \beta} \; \tfrac12 \|w\|^2 + \sum_i \varphi_i(s_i - x_i'w - \beta), \qquad
          b_i = \varphi_i'(f) = \mathrm{clip}\bigl(c_i + (u_i - l_i) f / h, \, l_i, u_i\bigr),

which a few steps of Newton's method solve: only samples strictly between their bounds curve it, so
that a step is a linear system of the size of D or of the number of these samples. Its solution is
the next centre. The duals end at the optimum to rounding, also where they are not unique. A tube
brings :math:`c_i + (u_i - l_i) f / h` towards zero by ``(u_i - l_i) tube_i / h`` before it is
clipped; samples that this leaves at zero do not curve the smooth dual.
"""

from collections.abc import Callable
from dataclasses import InitVar, dataclass, field

import numpy as np
from scipy.linalg import blas, lapack

from kernelquilt._typing import Floats, Indices
from kernelquilt.core.svm.dual import (
    EXACT,
    MAX_ITER,
    BoxDual,
    balanced,
    best_bias,
    face_bounds,
    free_duals,
    kkt_interval,
    may_move,
    slopes,
    tube_cost,
)
from kernelquilt.core.svm.factor_descent import descend
from kernelquilt.core.svm.factor_reading import FactorReader
from kernelquilt.core.svm.weighted_svm import CombinedKernel
from kernelquilt.core.weights.solution import TINY
from kernelquilt.core.weights.solvers import diagonals

MAX_DESCENTS = 4
MAX_CENTRES = 40
MAX_NEWTON = 30
MANY_STEPS = 12  # of Newton's method, from which on a width is narrow enough
MAX_LINE_SEARCH = 12
MAX_POLISHES = 20
NEWTON_GAP = 1e-3  # from which on few samples are left that may move
FIRST_GAP = 0.1  # relative, at which the first centre is near enough for few of Newton's steps
WIDE = 10.0  # bounds times the diagonal of the kernel from which on coordinate descent is slow
EASY_GAP = 1e-2  # at which the solution for narrower bounds is good enough to start from
SMALL = 256  # samples that are solved for at once
MANY_FREE = 1.5  # samples between their bounds, in units of D: at the optimum there are D at most
INNER_SHARE = 0.3  # part of the way to the next centre by which that may be off
HESSIAN_ROWS = 2  # samples that the second derivatives are summed over, in units of D
ROUNDING = 1e-14  # of sums of squares, relative
SEED = 20


@dataclass
class FactorDual:
    """State of the dual problem at one weight vector: the duals `b` change in place.

    Parameters
    ----------
    reader : FactorReader
        Reads the kernels, and counts the passes over them.
    weights : ndarray of shape (M,)
        Non-negative weights.
    s, lower, upper : ndarrays of shape (n,)
        Linear term and bounds.
    b : ndarray of shape (n,)
        A feasible point.
    tube : ndarray of shape (n,), optional
        Half widths of the tubes of a regression.
    known : tuple of ndarrays of shape (D,) and (M, n), optional
        ``Z'b`` and ``K_p b``, where they are known; read from the factors otherwise.

    Attributes
    ----------
    v : ndarray of shape (D,)
        ``Z'b``.
    products : ndarray of shape (M, n)
        ``K_p b``.
    f : ndarray of shape (n,)
        ``s - Kb``.
    bias : float
        The bias with the smallest primal value at b.
    dual, gap : float
        Dual value and duality gap.
    n_steps : int
        Newton steps.
    """

    reader: FactorReader
    weights: Floats
    s: Floats
    lower: Floats
    upper: Floats
    b: Floats
    tube: Floats | None = None
    known: InitVar[tuple[Floats, Floats] | None] = None
    n_steps: int = 0
    v: Floats = field(init=False)
    products: Floats = field(init=False)
    f: Floats = field(init=False)
    bias: float = field(init=False)
    dual: float = field(init=False)
    gap: float = field(init=False)

    def __post_init__(self, known: tuple[Floats, Floats] | None) -> None:
        self.factors = self.reader.factors
        self._root = np.sqrt(self.factors.spread(self.weights))
        self._columns = np.flatnonzero(self._root)
        self._diag = self.weights @ self.factors.diag
        self._tube = np.zeros(len(self.b)) if self.tube is None else self.tube
        if known is None:
            self.measure()
        else:
            self._judge(*known)

    @property
    def relative_gap(self) -> float:
        """The gap in units of the primal value."""
        return self.gap / max(self.dual + self.gap, 1e-300)

    @property
    def violation(self) -> float:
        """The KKT gap, 0 if optimal."""
        f_up, f_down = kkt_interval(self.b, self.f, self.lower, self.upper, self.tube)
        return max(0.0, f_up - f_down)

    def measure(self) -> None:
        """Compute everything that depends on `b`, from scratch."""
        v = self.reader.combine(self.b)
        self._judge(v, self.reader.products(v))

    def _judge(self, v: Floats, products: Floats) -> None:
        """Compute what depends on `b`, given what has to be read from the factors."""
        self.v, self.products = v, products
        self.f = self.s - self.weights @ products
        self._w = self._root * v
        cost = tube_cost(self.b, self.tube)
        self.dual = float(self.s @ self.b) - cost - 0.5 * float(self._w @ self._w)
        self.bias, loss = best_bias(self.f, self.lower, self.upper, self.tube)
        self.gap = loss + cost - float(self.b @ (self.f - self.bias))

    def solve(self, tol: float, *, exact: bool = False) -> None:
        """Go on until the relative gap is at most `tol`, if `exact` as far as rounding lets."""
        if len(self.b) > SMALL:
            self._widen()
        goal, slow = tol, len(self.b) <= SMALL
        for _ in range(MAX_DESCENTS):
            if slow or self.relative_gap <= tol:
                break
            slow = self._descend(goal)
            goal *= 0.5
        if len(self.b) > SMALL and self.relative_gap > max(tol, NEWTON_GAP):
            self._newton(max(tol, NEWTON_GAP))
        if exact or self.relative_gap > tol:
            self._polish(0.0 if exact else tol)
        if self.relative_gap > tol:
            self._newton(tol)

    def _widen(self) -> None:
        """Start from a solution for narrower bounds, which is easy to find, if they are wide."""
        size = max(float(np.abs(self.s).sum()), TINY)
        wide = float(self._diag @ (self.upper - self.lower)) / size
        if wide <= WIDE or self.b.any():
            return
        lower, upper, share = self.lower, self.upper, 1.0 / wide
        while share < 1.0:
            self.lower, self.upper = share * lower, share * upper
            self.measure()
            self._descend(EASY_GAP)
            grown = min(10.0, 1.0 / share)
            self.b, share = grown * self.b, share * grown
        self.lower, self.upper = lower, upper
        self.measure()

    @property
    def _solved_to_rounding(self) -> bool:
        norm = np.sqrt(float(self._diag.max()))
        size = norm * float(np.linalg.norm(self._w) + norm * np.linalg.norm(self.b))
        largest = float(np.abs(self.f).max())
        eps = float(np.finfo(self.factors.Z.dtype).eps)
        return self.violation <= max(EXACT * largest, 4.0 * eps * (size + largest))

    def _descend(self, goal: float) -> bool:
        """Run coordinate descent; return whether it got too slow."""
        if not self._diag.any():
            return True
        problem = self.s, self.lower, self.upper, self._tube
        slow = descend(
            self.reader, self.weights, self._diag, problem, self.b, self.v, self.bias, goal
        )
        self.b = balanced(self.b, *face_bounds(self.b, self.lower, self.upper, self.tube))
        self.measure()
        return slow

    def _polish(self, tol: float) -> None:
        """Solve for the samples that are not held firmly at a bound, by SMO on their kernel."""
        for _ in range(MAX_POLISHES):
            if self.relative_gap <= tol or self._solved_to_rounding:
                return
            loose = self._loose()
            if len(loose) == 0:
                return
            X = self._features(loose)
            K = (X @ X.T)[np.newaxis]
            kernel = CombinedKernel(K, np.ones(1), diagonals(K))
            b = self.b[loose]
            tube = None if self.tube is None else self.tube[loose]
            part = BoxDual(kernel, self.lower[loose], self.upper[loose], b, self.f[loose], tube)
            part.solve(0.1 * self.violation, MAX_ITER)
            self.n_steps += part.n_iter
            self.b = self.b.copy()
            self.b[loose] = b
            self.measure()

    def _loose(self) -> Indices:
        """Return the samples between their bounds and as many of those that may leave theirs."""
        free = free_duals(self.b, self.lower, self.upper, self.tube)
        n_free = int(np.count_nonzero(free))
        if n_free > max(MANY_FREE * len(self._columns), SMALL):
            return np.empty(0, dtype=np.intp)
        up, down = may_move(self.b, self.lower, self.upper)
        rise, fall = slopes(self.b, self.f - self.bias, self.lower, self.upper, self.tube)
        firmness = np.minimum(np.where(up, -rise, np.inf), np.where(down, fall, np.inf))
        firmness[free] = -np.inf
        count: int = min(len(free), 2 * n_free + SMALL)
        nearest = np.argpartition(firmness, count - 1)[:count]
        return np.sort(nearest[firmness[nearest] < np.inf])

    def _newton(self, tol: float) -> None:
        """Go from centre to centre until the relative gap is at most `tol`."""
        room = self.upper - self.lower
        far = self.relative_gap > NEWTON_GAP
        width = max(self.gap, FIRST_GAP * (self.dual + self.gap) if far else 0.0)
        width /= max(float(room.sum()), TINY)
        for _ in range(MAX_CENTRES):
            if self.relative_gap <= tol or self._solved_to_rounding or width < TINY:
                return
            b, dual, steps = self.b, self.dual, self.n_steps
            self._next_centre(room / width)
            self.measure()
            steps = self.n_steps - steps
            if self.dual < dual:  # too far at a time
                self.b = b
                self.measure()
                width *= 5.0
            elif steps < MANY_STEPS:
                width *= 0.2
            self._descend(tol)

    def _next_centre(self, steepness: Floats) -> None:
        """Set `b` to the maximiser of the proximal problem, nearly, by Newton's method."""
        from kernelquilt.core.svm.factor_compiled import balanced_duals

        centre, bias, w, f = self.b, self.bias, self._w, self.f
        b = np.empty(len(centre))
        box = self.lower, self.upper, self._tube

        def slope_at(step: float) -> float:
            balanced_duals(f - step * ahead, centre, steepness, *box, bias, b)
            return float((w + step * direction) @ direction) - float(b @ ahead)

        moved = np.divide(1.0, steepness, out=np.zeros(len(steepness)), where=steepness > 0)
        for _ in range(MAX_NEWTON):
            bias = balanced_duals(f, centre, steepness, *box, bias, b)
            gradient = w - self._root * self.reader.combine(b)
            way = float(moved @ np.square(b - centre))
            if gradient @ gradient <= INNER_SHARE**2 * way:
                break
            inside = (b > self.lower) & (b < self.upper) & ((b != 0.0) | (self._tube == 0.0))
            direction = -self._inverse_times(np.flatnonzero(inside), steepness, gradient)
            ahead = self.reader.scores(self._root * direction)
            self.n_steps += 1
            step = line_search(slope_at, float(gradient @ direction))
            w = w + step * direction
            f = f - step * ahead
        self.b = b

    def _inverse_times(self, inside: Indices, steepness: Floats, gradient: Floats) -> Floats:
        """Return the inverse second derivatives, with the bias eliminated, times a vector (D,)."""
        columns = self._columns
        if len(inside) == 0:
            return gradient
        most = HESSIAN_ROWS * len(columns)
        S = steepness[inside]
        if len(inside) > most:
            chosen = np.random.default_rng(SEED).choice(len(inside), most, replace=False)
            inside, S = inside[chosen], S[chosen] * (len(inside) / most)
        X = self._features(inside)
        X -= (S @ X) / S.sum()
        X *= np.sqrt(S)[:, None]
        g = gradient[columns]
        result = np.zeros(len(gradient))
        if len(X) >= len(columns):
            result[columns] = solve_shifted(blas.dsyrk(1.0, X.T, lower=1), g)
        else:
            inner = solve_shifted(blas.dsyrk(1.0, X.T, trans=1, lower=1), X @ g)
            result[columns] = g - inner @ X
        return result

    def _features(self, rows: Indices) -> Floats:
        """Return the features of some samples, without the columns that have no weight."""
        X = self.reader.features(rows)[:, self._columns].astype(np.float64)
        X *= self._root[self._columns]
        return np.asarray(X)


def solve_shifted(A: Floats, right: Floats) -> Floats:
    """Solve ``(I + A) x = right``, A positive semi-definite, of which the lower half counts."""
    A[np.diag_indices(len(A))] += 1.0 + ROUNDING * float(np.trace(A))
    return np.asarray(lapack.dposv(A, right, lower=1, overwrite_a=1)[1])


def line_search(slope_at: Callable[[float], float], start: float) -> float:
    """Return a step along which the slope has risen from `start` below 0 to about 0, at most 1."""
    low, high, below, above = 0.0, 1.0, start, slope_at(1.0)
    if above <= 0.5 * abs(start):
        return 1.0
    step = 1.0
    for _ in range(MAX_LINE_SEARCH):
        step = low + (high - low) * min(max(below / (below - above), 0.1), 0.9)
        slope = slope_at(step)
        if abs(slope) <= 0.3 * abs(start):
            break
        if slope > 0.0:
            high, above = step, slope
        else:
            low, below = step, slope
    return step
