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
to rounding. Kernels of low rank leave directions among the free samples along which the dual is
linear; `slide` follows these to a bound, and only what stays free after that is a system of
equations. Where both have cost what an interior point method costs
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
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import lapack
from scipy.optimize import linprog

from kernelquilt._typing import Bools, Floats, Indices
from kernelquilt.core.svm.interior_point import interior_point

if TYPE_CHECKING:
    from kernelquilt.core.svm.weighted_svm import CombinedKernel

AT_BOUND = 1e-12  # distance to a bound, in units of the box, that counts as rounding
MAX_DROPS = 4
REFINEMENTS = 3  # solves with a jittered factor, each for what the others have left
RANK_TOLERANCE = 1e-11  # in units of the largest diagonal entry
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


def may_move(b: Floats, lower: Floats, upper: Floats) -> tuple[Bools, Bools]:
    """Return which duals may go up and which may go down; those at a bound to rounding may not."""
    edge = AT_BOUND * (upper - lower)
    return upper - b > edge, b - lower > edge


def slopes(
    b: Floats, f: Floats, lower: Floats, upper: Floats, tube: Floats | None
) -> tuple[Floats, Floats]:
    """Return what each dual gains by going up, and loses by going down; the same but at a kink."""
    if tube is None:
        return f, f
    edge = AT_BOUND * (upper - lower)
    return f + np.where(b < -edge, tube, -tube), f + np.where(b > edge, -tube, tube)


def free_duals(b: Floats, lower: Floats, upper: Floats, tube: Floats | None = None) -> Bools:
    """Return which duals are neither at a bound nor at a kink."""
    up, down = may_move(b, lower, upper)
    if tube is None:
        return up & down
    return up & down & ((tube == 0.0) | (np.abs(b) > AT_BOUND * (upper - lower)))


def free_indices(b: Floats, lower: Floats, upper: Floats, tube: Floats | None = None) -> Indices:
    """Return the indices of `free_duals`."""
    from kernelquilt.core.compiled import free_samples

    return np.asarray(free_samples(b, lower, upper, _width(b, tube)))


def _width(b: Floats, tube: Floats | None) -> Floats:
    return np.zeros(len(b)) if tube is None else tube


def face_bounds(
    b: Floats, lower: Floats, upper: Floats, tube: Floats | None
) -> tuple[Floats, Floats]:
    """Return bounds within which no dual passes its kink."""
    if tube is None:
        return lower, upper
    kinked = tube > 0
    return np.where(kinked & (b >= 0), 0.0, lower), np.where(kinked & (b <= 0), 0.0, upper)


def kkt_interval(
    b: Floats, f: Floats, lower: Floats, upper: Floats, tube: Floats | None = None
) -> tuple[float, float]:
    """Return ``max f[up]`` and ``min f[down]``; -inf and inf where nothing may move."""
    from kernelquilt.core.compiled import kkt_ends

    f_up, f_down = kkt_ends(b, f, lower, upper, _width(b, tube))
    return f_up, f_down


def bias(b: Floats, f: Floats, lower: Floats, upper: Floats, tube: Floats | None = None) -> float:
    """Return the mean of ``f`` over the free samples, else the middle of the KKT interval."""
    from kernelquilt.core.compiled import mean_slope

    slope, n_free = mean_slope(b, f, lower, upper, _width(b, tube))
    if n_free > 0:
        return float(slope)
    ends = [end for end in kkt_interval(b, f, lower, upper, tube) if np.isfinite(end)]
    return float(np.mean(ends)) if ends else 0.0


def signed_bounds(y: Floats, U: Floats) -> tuple[Floats, Floats]:
    """Return lower and upper bounds of the signed duals."""
    return np.where(y > 0, 0.0, -U), np.where(y > 0, U, 0.0)


def feasible_start(b: Floats, lower: Floats, upper: Floats) -> Floats:
    """Clip to the box and repair ``sum(b) = 0`` by shrinking the heavier class."""
    b = np.clip(b, lower, upper)
    positive, negative = b[b > 0].sum(), -b[b < 0].sum()
    scale = min(positive, negative) / max(positive, negative, 1e-300)
    if abs(positive - negative) > 1e-14 * max(positive, negative):
        b = np.where(b > 0 if positive > negative else b < 0, scale * b, b)
    return b


def tube_cost(b: Floats, tube: Floats | None) -> float:
    """Return what the tube takes away from the dual value of duals (n,) or (L, n)."""
    return 0.0 if tube is None else float(np.sum(np.abs(b) * tube))


def box_gap(
    b: Floats,
    f: Floats,
    lower: Floats,
    upper: Floats,
    intercept: float,
    tube: Floats | None = None,
) -> float:
    """Return the primal minus the dual value, as a sum of terms none of which is negative.

    A sample is off by ``f - intercept``. What this is above the tube costs ``upper``, what it is
    below costs ``-lower``, whatever the kernel and however exact the duals.
    """
    from kernelquilt.core.compiled import summed_gap

    return float(summed_gap(b, f, lower, upper, intercept, _width(b, tube)))


def best_bias(
    f: Floats, lower: Floats, upper: Floats, tube: Floats | None = None
) -> tuple[float, float]:
    """Return the bias with the smallest loss, in the middle of where there are many, and the loss.

    The loss is ``sum_i max(upper_i (f_i - bias), lower_i (f_i - bias))``, what is beyond the tube
    counting.
    """
    if tube is not None:  # two samples at its ends, each with a loss on one side
        f = np.concatenate([f - tube, f + tube])
        nothing = np.zeros(len(tube))
        lower, upper = np.concatenate([nothing, lower]), np.concatenate([upper, nothing])
    used = np.flatnonzero(upper > lower)
    if len(used) == 0:
        return 0.0, 0.0
    order = used[np.argsort(f[used], kind="stable")]
    ordered = f[order]
    room = (upper - lower)[order]
    slope = np.cumsum(room) - float(upper[order].sum())
    flat = 1e-13 * float(room.sum())
    first = min(int(np.searchsorted(slope, -flat)), len(order) - 1)
    last = min(int(np.searchsorted(slope, flat, side="right")), len(order) - 1)
    bias = 0.5 * float(ordered[first] + ordered[last])
    off = f - bias
    return bias, float(np.sum(np.maximum(upper * off, lower * off)))


def largest_share(b: Floats, lower: Floats, upper: Floats) -> float:
    """Return how much of its bound the dual has used up that has used most, at most 1."""
    from kernelquilt.core.compiled import largest_used

    return float(largest_used(b.ravel(), lower.ravel(), upper.ravel()))


def balanced(b: Floats, lower: Floats, upper: Floats) -> Floats:
    """Return duals close to b with sum zero, taken from those between their bounds if possible."""
    total = float(b.sum())
    room = (b - lower) * (upper - b)
    room = np.where(room > 0, b - lower if total > 0 else upper - b, 0.0)
    available = float(room.sum())
    if abs(total) <= available:
        b = b - total * room / max(available, 1e-300)
        return np.clip(b, lower, upper)
    return feasible_start(b, lower, upper)


def face_optimum(
    K: Floats,
    f: Floats,
    start: Floats,
    lower: Floats,
    upper: Floats,
    steps: Floats | None = None,
) -> Floats:
    """Return the optimum over the free samples with the sum kept, or the best point on the way.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        Kernel of the free samples.
    f : ndarray of shape (n,)
        Negative gradient at `start`.
    start, lower, upper : ndarrays of shape (n,)
        Where the samples are, strictly between their bounds.
    steps : ndarray of shape (n,), optional
        From `start` to the optimum without bounds, if known.
    """

    def gain(point: Floats) -> float:
        steps = point - start
        return float(f @ steps - 0.5 * steps @ K @ steps)

    target, reached = _towards_optimum(K, f, start, lower, upper, steps)
    # a nearly singular system may send the samples anywhere within their bounds
    if reached and gain(target) > 0.0:
        return target
    flat = slide(low_rank_factor(K), f, start, lower, upper)
    further, _ = _towards_optimum(K, f - K @ (flat - start), flat, lower, upper)
    return max((start, target, flat, further), key=gain)


def _towards_optimum(
    K: Floats,
    f: Floats,
    start: Floats,
    lower: Floats,
    upper: Floats,
    newton: Floats | None = None,
) -> tuple[Floats, bool]:
    """Return the optimum and True, or where the way there first meets a bound and False.

    Samples that the optimum sends beyond a bound are put there, and the rest is solved again. The
    steps to the optimum without bounds are taken from `newton` if given.
    """
    inside = np.flatnonzero((start > lower) & (start < upper))
    held = np.zeros(len(start))
    on_the_way = start
    for attempt in range(MAX_DROPS):
        if len(inside) < 2:
            break
        block = K if len(inside) == len(K) else K[np.ix_(inside, inside)]
        right = f[inside] - K[inside] @ held if attempt else f[inside]
        free = newton if attempt == 0 else None
        if free is None:
            free = _solve_by_factor(block, sum_factor(block), right, -float(held.sum()))
        if free is None:
            break
        steps = held.copy()
        steps[inside] = free
        out = (start + steps < lower) | (start + steps > upper)
        if not out.any():
            return start + steps, True
        if attempt == 0:
            room = np.where(free > 0, (upper - start)[inside], (start - lower)[inside])
            moves = np.abs(free)
            length = float(np.min(room[moves > 0] / moves[moves > 0], initial=1.0))
            on_the_way = np.clip(start + length * steps, lower, upper)
        held[out] = np.clip(start + steps, lower, upper)[out] - start[out]
        inside = inside[~out[inside]]
    return on_the_way, False


def low_rank_factor(K: Floats) -> Floats:
    """Return G of shape (n, rank) with ``G G' = K`` to rounding, by pivoted Cholesky."""
    tolerance = RANK_TOLERANCE * float(np.diagonal(K).max())
    factor, pivots, rank, _ = lapack.dpstrf(K, tol=tolerance, lower=1)
    G = np.zeros((len(K), rank))
    G[pivots - 1] = np.tril(factor)[:, :rank]
    return G


def slide(G: Floats, f: Floats, start: Floats, lower: Floats, upper: Floats) -> Floats:
    """Go as far as directions lead that change neither the kernel products nor the sum.

    Along ``d`` with ``G'd = 0`` and ``sum(d) = 0`` the dual rises by ``f'd``, `f` stays the same.
    The best such ``d`` within the bounds is a linear programme, whose solution leaves no more
    samples free than G has columns, and one.
    """
    if len(start) <= G.shape[1] + 1:
        return start
    unit = float((upper - lower).max())
    basis, _ = np.linalg.qr(np.column_stack([G, np.ones(len(start))]))
    bounds = np.column_stack([lower - start, upper - start]) / unit
    result = linprog(-f, A_eq=basis.T, b_eq=np.zeros(basis.shape[1]), bounds=bounds)
    if result.x is None:
        return start
    steps = np.clip(unit * result.x, lower - start, upper - start)
    edge = 1e-7 * (upper - lower)
    at_lower, at_upper = start + steps - lower <= edge, upper - start - steps <= edge
    steps = np.where(at_lower, lower - start, np.where(at_upper, upper - start, steps))
    free = ~(at_lower | at_upper)
    # the programme is solved to a tolerance; the free samples make up for it
    excess = basis.T @ steps
    steps[free] -= np.linalg.lstsq(basis[free].T, excess, rcond=None)[0]
    return np.clip(start + steps, lower, upper)


def jittered_cholesky(K: Floats, constant: float = 0.0) -> Floats | None:
    """Return the lower Cholesky factor of K + `constant` and the least jitter that works, or None.

    K is (n, n) and symmetric, the constant is added to all entries and not negative.
    """
    from kernelquilt.core.compiled import shifted

    mean_diagonal = float(K.trace()) / len(K) + constant
    if not mean_diagonal > 0.0:
        return None
    jitter = 1e-12 * mean_diagonal
    while jitter < 1e-2 * mean_diagonal:
        # straight to LAPACK: for some ten samples scipy's checks take longer than the algebra
        factor, failed = lapack.dpotrf(shifted(K, constant, jitter).T, lower=1, overwrite_a=1)
        if not failed:
            return np.asarray(factor)
        jitter *= 100.0
    return None


def sum_factor(K: Floats) -> Floats | None:
    """Return the factor of K with which systems are solved that keep the sum, or None.

    A constant added to K only changes their multiplier, and helps where the rank is one short.
    Fewer than two samples cannot move.
    """
    if len(K) < 2:
        return None
    return jittered_cholesky(K, max(float(K.trace()) / len(K), 0.0))


def _solve_by_factor(
    K: Floats, factor: Floats | None, right: Floats, total: float
) -> Floats | None:
    """Solve ``K x = right + multiplier`` with ``sum(x) = total``, refined against the jitter."""
    from kernelquilt.core.compiled import sum_constrained

    if factor is None:
        return None
    x = sum_constrained(K, factor, right, total, REFINEMENTS)
    return x if np.isfinite(x).all() else None


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

    kernel: "CombinedKernel"
    lower: Floats
    upper: Floats
    b: Floats
    f: Floats
    tube: Floats | None = None
    n_iter: int = 0
    smo_cost: float = 0.0
    face_cost: float = 0.0
    centred: bool = False  # whether it has been through the interior

    def __post_init__(self) -> None:
        self.width = _width(self.b, self.tube)

    @property
    def free(self) -> Indices:
        """Indices strictly between their bounds, and not at a kink."""
        from kernelquilt.core.compiled import free_samples

        return np.asarray(free_samples(self.b, self.lower, self.upper, self.width))

    @property
    def violation(self) -> float:
        """The KKT gap, 0 if optimal."""
        f_up, f_down = kkt_interval(self.b, self.f, self.lower, self.upper, self.width)
        return max(0.0, f_up - f_down)

    @property
    def rounding(self) -> float:
        """The error to expect in `f`, below which no KKT gap can be brought."""
        from kernelquilt.core.compiled import size_of_terms

        size = float(size_of_terms(self.kernel.diag, self.b, self.f))
        return 4.0 * float(np.finfo(np.float64).eps) * size

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
        if exact and gap > tol and self._face_step(slide=False):
            gap = self.violation  # often nothing: duals of similar weights have the same bounds
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
        from kernelquilt.core.compiled import loose_samples, smo

        loose = loose_samples(self.b, self.f, self.lower, self.upper, self.width)
        kernel, everything = self.kernel, len(loose) > 0.7 * len(self.b)
        some = slice(None) if everything else loose
        b = self.b[some]
        n_iter, _, built = smo(
            kernel.rows if everything else kernel.block(loose),
            kernel.have if everything else np.ones(len(loose), dtype=np.bool_),
            kernel.K,
            kernel.active,
            kernel.weights,
            kernel.present,
            kernel.diag[some],
            self.lower[some],
            self.upper[some],
            self.width[some],
            b,
            self.f[some],
            tol,
            max_iter,
        )
        kernel.n_built += built
        if not everything:
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

    def _face_step(self, *, slide: bool = True) -> bool:
        """Optimise over all free samples at once, holding the others; True if it moved.

        Samples that the free optimum sends beyond a bound are put on the bound and the rest is
        solved again; `slide` is whether directions without curvature are followed then. The way to
        the feasible point found is searched exactly, so the objective cannot fall.
        """
        from kernelquilt.core.compiled import face, gain_of_step, take_step

        free, start, f, lower, upper = face(self.b, self.f, self.lower, self.upper, self.width)
        self.face_cost += _face_cost(len(free))
        if len(free) < 2:
            return False
        block, factor = self.kernel.factored(free)
        steps = _solve_by_factor(block, factor, f, 0.0)
        within, gradient, curvature = False, 0.0, 0.0
        if steps is not None:
            within, gradient, curvature = gain_of_step(block, f, start, steps, lower, upper)
        # a nearly singular system may send the samples anywhere within their bounds
        if not within or gradient <= 0.5 * curvature:
            if slide:
                target = face_optimum(block, f, start, lower, upper, steps)
            else:
                target, _ = _towards_optimum(block, f, start, lower, upper, steps)
            steps = target - start
            _, gradient, curvature = gain_of_step(block, f, start, steps, lower, upper)
        if steps is None or gradient <= 0.0:
            return False
        if curvature > gradient:
            steps *= gradient / curvature
        ends = np.clip(start + steps, lower, upper)
        take_step(self.kernel.rows, free, steps, ends, self.b, self.f)
        return True


def _face_cost(n_free: int) -> float:
    """Cost of a face step in units of kernel entries visited by SMO."""
    return n_free**3 / 3 / FLOPS_PER_ENTRY + 3 * n_free**2 + FACE_OVERHEAD
