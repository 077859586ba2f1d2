r"""The SVM dual with a general linear term and per-sample bounds.

With signed duals ``b = y * a`` the problem is

.. math:: \max_b \; s'b - \tfrac12 b'Kb, \qquad \sum_i b_i = 0, \quad l_i \le b_i \le u_i,

where ``s = y * t``, and ``[l_i, u_i]`` is ``[0, U_i]`` for a positive and ``[-U_i, 0]`` for a
negative sample. ``t = 1, U = C`` is the SVM; ``t = tau, U = C / tau`` gives margins that differ
from sample to sample; weights on samples and classes scale `U`.

Regression has ``s = y``, the targets, bounds of both signs, and a tube around the targets in which
errors cost nothing: ``sum_i tube_i |b_i|`` is taken away. It is the same problem but for a kink at
zero, where a dual that goes up gains less than one that goes down loses. All functions here take
the tube as an option.

Optimality: with ``f = s - Kb``, less or more the tube on this or that side of the kink, no sample
that may go up has a larger ``f`` than one that may go down. The violation of this, ``max f[up] -
min f[down]``, is the KKT gap.

The solver alternates two steps, both of which only ever increase the dual objective. SMO moves
pairs and finds out which samples sit at a bound; samples that sit there firmly are left out of
the copy it works on (shrinking). A *face step* then solves for all free samples at once with one
Cholesky factorisation, which replaces the long tail of SMO iterations and makes the result exact
to rounding. Where both have cost what an interior point method costs
(:mod:`kernelquilt.core.svm.interior_point`), and penalties that are large in units of the kernel
are why, its solution is where they go on from, within a limit.

=============  =============================================
paper symbol   name here
=============  =============================================
alpha_i y_i    ``b[i]`` (times tau_i where the paper uses it)
tau            ``t``
C / tau_i      ``U[i]``
b              ``intercept``
=============  =============================================
"""

from dataclasses import dataclass

import numpy as np

from kernelquilt._typing import Floats, Indices, Numbers
from kernelquilt.core.svm.box import (
    bias,
    box_gap,
    face_bounds,
    feasible_start,
    free_duals,
    kkt_interval,
    may_move,
    signed_bounds,
    slopes,
    tube_cost,
)
from kernelquilt.core.svm.combined_kernel import CombinedKernel
from kernelquilt.core.svm.face_step import face_optimum
from kernelquilt.core.svm.interior_point import interior_point
from kernelquilt.core.weights.solvers import clearly_negative, diagonals

EXACT = 1e-10  # KKT gap, relative to the scale of t, that counts as solved to rounding
FLOPS_PER_ENTRY = 20.0  # what a factorisation can do while SMO visits one kernel entry
FACE_OVERHEAD = 5e4  # entries SMO could visit while a face step of any size is set up
ROUND_OVERHEAD = 1e3  # the same for a round of SMO, which may end after few iterations
MIN_ROUND = 2000  # SMO iterations below which a round is not worth its overhead
MAX_ITER = 10_000_000
MAX_EXACT_ROUNDS = 12
INTERIOR_FACTORS = 30.0  # factorisations of all samples that an interior point method takes
INTERIOR_UP_TO = 5000  # samples, for the memory of two more kernels
PATIENCE = 5.0  # what a solve may cost, in units of an interior point method


@dataclass
class BoxDual:
    """State of the dual problem on one combined kernel: `b` and ``f = s - Kb`` change in place.

    Parameters
    ----------
    kernel : CombinedKernel
        The kernel.
    lower, upper : ndarray of shape (n,)
        Bounds of the signed duals.
    b, f : ndarray of shape (n,)
        A feasible point and its ``s - Kb``.
    tube : ndarray of shape (n,), optional
        Half widths of the tubes of a regression.
    """

    kernel: CombinedKernel
    lower: Floats
    upper: Floats
    b: Floats
    f: Floats
    tube: Floats | None = None
    n_iter: int = 0
    smo_cost: float = 0.0
    face_cost: float = 0.0
    centred: bool = False  # whether it has been through the interior

    @property
    def free(self) -> Indices:
        """Indices strictly between their bounds, and not at a kink."""
        return np.flatnonzero(free_duals(self.b, self.lower, self.upper, self.tube))

    @property
    def violation(self) -> float:
        """The KKT gap, 0 if optimal."""
        f_up, f_down = kkt_interval(self.b, self.f, self.lower, self.upper, self.tube)
        return max(0.0, f_up - f_down)

    @property
    def rounding(self) -> float:
        """The error to expect in `f`, below which no KKT gap can be brought."""
        largest = float(self.kernel.diag.max()) * float(np.abs(self.b).sum())
        return 4.0 * float(np.finfo(np.float64).eps) * (largest + float(np.abs(self.f).max()))

    @property
    def cost(self) -> float:
        """What it has cost so far, in units of kernel entries visited by SMO."""
        return self.smo_cost + self.face_cost

    def solve(self, tol: float, max_iter: int, exact: bool = True) -> None:
        """Go on until the KKT gap is at most `tol`, then if `exact` as far as rounding lets it.

        The first part ends early if `max_iter` SMO iterations, or a few times the cost of an
        interior point method, do not suffice; the second is an effort of a few rounds and never
        makes the point worse.
        """
        n = len(self.b)
        tol = max(tol, self.rounding)
        gap = self.violation
        interior = INTERIOR_FACTORS * _face_cost(n) if n <= INTERIOR_UP_TO else np.inf
        stuck = False
        while gap > tol and self.n_iter < max_iter and self.cost <= PATIENCE * interior:
            if (stuck or self.cost > interior) and not self.centred:
                self._through_the_interior()
            elif stuck:
                break
            before = self.n_iter
            self._smo(tol, min(max(2 * n, MIN_ROUND), max_iter - self.n_iter))
            stuck = self.n_iter == before
            gap = self.violation
            # neither half may cost much more than the other, whichever of them is the fast one
            if gap > tol and self.face_cost + _face_cost(len(self.free)) <= self.smo_cost:
                stuck = not self._face_step() and stuck
                gap = self.violation
        if not exact:
            return
        goal = max(EXACT * float(np.abs(self.f).max()), self.rounding)
        for _ in range(MAX_EXACT_ROUNDS):
            moved = self._face_step()
            if (gap := self.violation) <= goal:
                return
            before = self.n_iter
            self._smo(max(goal, 0.01 * gap), 2 * n)
            if not moved and self.n_iter == before:
                return

    def _smo(self, tol: float, max_iter: int) -> None:
        """Run SMO, on a compact copy of the samples that may still move if they are few."""
        from kernelquilt.core.compiled import smo

        f_up, f_down = kkt_interval(self.b, self.f, self.lower, self.upper, self.tube)
        up, down = may_move(self.b, self.lower, self.upper)
        rise, fall = slopes(self.b, self.f, self.lower, self.upper, self.tube)
        firm = (~up | (rise < f_down)) & (~down | (fall > f_up))
        firm &= ~free_duals(self.b, self.lower, self.upper, self.tube)
        loose = np.flatnonzero(~firm)
        kernel = self.kernel
        tube = np.zeros(len(self.b)) if self.tube is None else self.tube
        if len(loose) > 0.7 * len(self.b):
            n_iter, _, built = smo(
                kernel.rows,
                kernel.have,
                kernel.K,
                kernel.active,
                kernel.weights,
                kernel.diag,
                self.lower,
                self.upper,
                tube,
                self.b,
                self.f,
                tol,
                max_iter,
            )
            kernel.n_built += built
        else:
            b = self.b[loose]
            n_iter, _, _ = smo(
                kernel.block(loose),
                np.ones(len(loose), dtype=np.bool_),
                kernel.K,
                kernel.active,
                kernel.weights,
                kernel.diag[loose],
                self.lower[loose],
                self.upper[loose],
                tube[loose],
                b,
                self.f[loose],
                tol,
                max_iter,
            )
            self._move(loose, b - self.b[loose], b)
        self.n_iter += n_iter
        self.smo_cost += n_iter * len(loose) + len(loose) ** 2 + ROUND_OVERHEAD

    def _move(self, indices: Indices, steps: Floats, b: Floats) -> None:
        """Set ``b[indices]``, which differ by `steps` from before, and keep `f` consistent."""
        changed = np.flatnonzero(steps)
        self.kernel.subtract_product(indices[changed], steps[changed], self.f)
        self.b[indices] = b

    def _through_the_interior(self) -> None:
        """Go to the solution of an interior point method, if the objective is higher there."""
        self.centred = True
        movable = np.flatnonzero(self.upper > self.lower)
        start, lower, upper = self.b[movable], self.lower[movable], self.upper[movable]
        block = self.kernel.block(movable)
        found = interior_point(block, self.f[movable] + block @ start, lower, upper)
        target = feasible_start(found, lower, upper)
        steps = target - start
        tube = None if self.tube is None else self.tube[movable]
        cost = tube_cost(target, tube) - tube_cost(start, tube)
        if self.f[movable] @ steps - 0.5 * steps @ block @ steps > cost:
            self._move(movable, steps, target)

    def _face_step(self) -> bool:
        """Optimise over all free samples at once, holding the others; True if it moved.

        Samples that the free optimum sends beyond a bound are put on the bound and the rest is
        solved again. The way to the feasible point found is searched exactly, so the objective
        cannot fall.
        """
        free = self.free
        self.face_cost += _face_cost(len(free))
        if len(free) < 2:
            return False
        start, lower, upper = self.b[free], self.lower[free], self.upper[free]
        f = self.f[free]
        if self.tube is not None:
            f = f - np.sign(start) * self.tube[free]
            lower, upper = face_bounds(start, lower, upper, self.tube[free])
        block = self.kernel.block(free)
        target = face_optimum(block, f, start, lower, upper)
        steps = target - start
        gradient = float(f @ steps)
        curvature = float(steps @ block @ steps)
        if gradient <= 0.0:
            return False
        if curvature > gradient:
            steps *= gradient / curvature
            target = np.clip(start + steps, lower, upper)
        self._move(free, steps, target)
        return True


def _face_cost(n_free: int) -> float:
    """Cost of a face step in units of kernel entries visited by SMO."""
    return n_free**3 / 3 / FLOPS_PER_ENTRY + 3 * n_free**2 + FACE_OVERHEAD


@dataclass(frozen=True)
class SVMResult:
    """Solution of one SVM dual.

    Attributes
    ----------
    dual_coef : ndarray of shape (n,)
        Signed duals ``b``.
    intercept : float
        Bias of the decision function.
    scores : ndarray of shape (n,)
        ``Kb``, without the intercept.
    objective : float
        Dual objective ``t'a - 1/2 b'Kb``.
    gap : float
        Primal minus dual objective, never negative.
    violation : float
        KKT gap reached.
    n_iter : int
        SMO iterations.
    n_passes : float
        Kernel entries read to combine the kernels, in units of the whole stack.
    indefinite : bool
        Whether the duals prove that the kernel is not positive semi-definite.
    """

    dual_coef: Floats
    intercept: float
    scores: Floats
    objective: float
    gap: float
    violation: float
    n_iter: int
    n_passes: float
    indefinite: bool


def solve_svm(
    K: Numbers,
    y: Floats,
    t: Floats | float = 1.0,
    U: Floats | float = 1.0,
    *,
    weights: Floats | None = None,
    tol: float = 1e-3,
    exact: bool = False,
    dual_coef: Floats | None = None,
    max_iter: int = MAX_ITER,
) -> SVMResult:
    """Solve one SVM dual (see the module docstring).

    Parameters
    ----------
    K : ndarray of shape (n, n), or of shape (M, n, n) with `weights`
        Kernel, symmetric; positive semi-definite for the optimum to be global.
    y : ndarray of shape (n,)
        Labels -1 and +1.
    t : float or ndarray of shape (n,), default=1.0
        Linear term, the margin asked of each sample.
    U : float or ndarray of shape (n,), default=1.0
        Upper bounds of the duals ``a``; 0 leaves a sample out.
    weights : ndarray of shape (M,), optional
        Use ``sum_p weights[p] K[p]``, of which only the rows needed are built.
    tol : float, default=1e-3
        KKT gap at which to stop.
    exact : bool, default=False
        Go on to rounding accuracy by solving for the free samples at once.
    dual_coef : ndarray of shape (n,), optional
        Signed duals to start from; made feasible first.
    max_iter : int, default=10_000_000
        Cap on the SMO iterations.

    Returns
    -------
    SVMResult
    """
    y = np.asarray(y, dtype=np.float64)
    n = len(y)
    s = y * np.broadcast_to(np.asarray(t, dtype=np.float64), (n,))
    U = np.broadcast_to(np.asarray(U, dtype=np.float64), (n,))
    lower, upper = signed_bounds(y, U)
    stack = np.ascontiguousarray(K if K.ndim == 3 else K[np.newaxis])
    weights = np.ones(len(stack)) if weights is None else weights
    kernel = CombinedKernel(stack, weights, diagonals(stack))
    b = np.zeros(n)
    f = s.copy()
    if dual_coef is not None:
        b = feasible_start(np.asarray(dual_coef, dtype=np.float64), lower, upper)
        support = np.flatnonzero(b)
        kernel.subtract_product(support, b[support], f)
    state = BoxDual(kernel, lower, upper, b, f)
    state.solve(tol, max_iter, exact)
    intercept = bias(b, f, lower, upper)
    return SVMResult(
        dual_coef=b,
        intercept=intercept,
        scores=s - f,
        objective=0.5 * float((s + f) @ b),
        gap=box_gap(b, f, lower, upper, intercept),
        violation=state.violation,
        n_iter=state.n_iter,
        n_passes=kernel.n_passes,
        indefinite=bool(clearly_negative((s - f) @ b, b, kernel.diag[np.newaxis])[0]),
    )
