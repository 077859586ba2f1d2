r"""Squared hinge in several views that are to agree: Newton's method in function values.

.. math:: P(f) = \sum_l \sum_{i \in l} \max(0, 1 - y_i f_{il})^2 + c_l \|w_l\|^2
          + \lambda \sum_i \sum_{l \in i} (f_{il} - \bar f_i)^2

over functions :math:`f_l = K_l \beta_l + b_l`, a piecewise quadratic and jointly convex problem
without constraints. With :math:`h = \max(0, 1 - y f)` and :math:`e = c \beta` half its gradient is
the functional :math:`\rho = -y h + \lambda (f - \bar f) + e`. Replacing the curvature of the hinge
by one everywhere gives a quadratic that majorises P and whose minimiser is one `JointRidge`; it
preconditions the conjugate gradients that solve for each Newton step (where many are needed, one
factorisation is cheaper and takes over), and an exact line search makes P fall. The last steps find
the exact minimiser of the final quadratic piece.

Any :math:`h \ge 0` and g with :math:`\sum_l g_{il} = 0` bound the minimum from below,

.. math:: P \ge \sum_{il} 2 h_{il} - h_{il}^2 - \frac{g_{il}^2}{\lambda}
          - \sum_l \frac1{c_l} (y h_l - g_l)' K_l (y h_l - g_l),

provided that :math:`\sum_i y_i h_{il} - g_{il} = 0` in each view; `lower_bound` takes
:math:`g = \lambda (f - \bar f)` and lowers the h of one class, or raises that of the other, where
that sum is not zero.

Weights multiply the samples' terms. All arrays are (M, n), zero where absent, in values times the
roots of the weights (see :mod:`kernelquilt.mkl.agreement.spectra`).
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from kernelquilt._typing import Floats
from kernelquilt.core.weights.solution import TINY, Step
from kernelquilt.mkl.agreement.spectra import WeightedViews

QUICK = 1e-7  # gradient norm, as a share of the residual, above which quick solves will do
POLISH = 1e-9  # relative gradient norm at which to stop, well below any tol
DENSE = 6000  # most unknowns of a Newton system that is factorised
CLOSED = 1e-8  # relative gap to reach if rounding allows
SLOW_POLISH = 4  # steps once tol is met, after which conjugate gradients are not exact enough
MOST_POLISHING = 100  # of these steps; the rounding of kernels far beyond c can shrink for ever
EPS = float(np.finfo(np.float64).eps)
ROUNDING = 1e-12
LONGEST = 1e3  # times a Newton step
BIAS_RIDGE = 1e-12  # where no sample of a view misses its margin, nothing else holds its bias


class Outputs(NamedTuple):
    """Functions as their values f and their scaled coefficients e, both (M, n)."""

    f: Floats
    e: Floats


class Minimum(NamedTuple):
    """Where `minimise` stopped: functions, value, bound, relative gradient norm and effort."""

    at: Outputs
    objective: float
    bound: float
    gradient: float
    n_passes: int
    history: tuple[Step, ...]


class AgreementProblem:
    """The problem of the module docstring.

    Parameters
    ----------
    views : WeightedViews
        Samples that take part, with their weights and the spectra of M views.
    y : ndarray of shape (n,)
        Labels -1 and +1 of these samples.
    c : ndarray of shape (M,)
        Penalties of the views, positive.
    lam : float
        Penalty on the disagreement.
    """

    def __init__(self, views: WeightedViews, y: Floats, c: Floats, lam: float) -> None:
        self.views, self.y, self.c, self.lam = views, y, c, lam if views.coupled else 0.0
        near = nearby(c, self.lam) if self.lam > 0 else c
        self.counts = views.observed.sum(axis=0)
        self._ridge, self._ratio = views.joint_ridge(near, self.lam), (c / near)[:, None]
        self.margin = np.where(views.observed, views.root, 0.0)
        self.start_norm = self.descent(-y * self.margin, quick=True)[1]

    def solve(self, r: Floats, *, quick: bool = False) -> Outputs:
        """Return the minimiser of the majorant, with nearby c, for targets r (M, n)."""
        f, e = self._ridge(r, quick=quick)
        return Outputs(f, self._ratio * e)

    def zero(self) -> Outputs:
        """Return the functions that are zero."""
        return Outputs(np.zeros(self.margin.shape), np.zeros(self.margin.shape))

    def hinge(self, f: Floats) -> Floats:
        """Return how much is missing from the margin of 1."""
        return np.maximum(0.0, self.margin - self.y * f)

    def apart(self, f: Floats) -> Floats:
        """Return the difference to the mean over the views that a sample has."""
        return np.where(self.views.observed, f - f.sum(axis=0) / self.counts, 0.0)

    def objective(self, at: Outputs) -> float:
        """Return P."""
        spread = self.lam * np.square(self.apart(at.f)).sum()
        return float(np.square(self.hinge(at.f)).sum() + (at.f * at.e).sum() + spread)

    def residual(self, at: Outputs) -> Floats:
        """Return half the gradient as a functional."""
        return -self.y * self.hinge(at.f) + self.lam * self.apart(at.f) + at.e

    def descent(self, residual: Floats, *, quick: bool = False) -> tuple[Outputs, float]:
        """Return the step to the minimiser of the majorant, and the norm of the gradient.

        The norm is that of the gradient in the metric of the majorant, over two: its square is
        what the step to the minimiser of the majorant gains, in any units of the kernels.
        """
        z = self.solve(-residual, quick=quick)
        return z, float(np.sqrt(max(-(residual * z.f).sum(), 0.0)))

    def renewed(self, at: Outputs) -> Outputs:
        """Return the minimiser of the majorant at given functions, free of the rounding in them."""
        target = self.y * np.maximum(self.margin, self.y * at.f)
        return self.solve(target + (1.0 / self._ratio - 1.0) * at.e)

    def lower_bound(self, f: Floats) -> float:
        """Return a lower bound of the minimum, 0 if none better is found."""
        apart, h = self.apart(f), self.hinge(f)
        g = self.lam * apart
        # h and g are small differences, g times lam
        rounding = 16.0 * EPS * float(self.lam * np.square(f).sum() + np.square(self.margin).sum())
        for l, one in enumerate(self.views.spectra):
            if one is None:
                continue
            excess = float(self.margin[l] @ (self.y * h[l] - g[l]))
            side = self.y * excess > 0
            mass = float(self.margin[l, side] @ h[l, side])
            if mass > 0:
                h[l, side] *= max(0.0, 1.0 - abs(excess) / mass)
            rest = abs(excess) - mass
            if rest > 0:
                against = np.where(side, 0.0, self.margin[l])
                if against.any():
                    h[l] += rest * against / (against @ against)
                elif rest > ROUNDING * (1.0 + self.lam) * float(self.margin[l] @ np.abs(f[l])):
                    return 0.0
                else:
                    rounding += 4.0 * rest * float(np.abs(f[l]).max())
        value = 2.0 * (self.margin * h).sum() - np.square(h).sum() - (g * apart).sum()
        for l, one in enumerate(self.views.spectra):
            if one is not None:
                pulled = one.U.T @ (self.y * h[l] - g[l])[one.rows]
                value -= float(one.s @ np.square(pulled)) / self.c[l]
        return max(float(value) - rounding, 0.0)

    def direction(
        self, at: Outputs, residual: Floats, z: Outputs, tol: float, cap: int, quick: bool
    ) -> tuple[Outputs, int, bool]:
        """Return the Newton direction by conjugate gradients, how many, and if they sufficed.

        Parameters
        ----------
        at, residual, z
            Functions, half their gradient, and the step from `descent`.
        tol : float
            How much smaller the norm of the gradient of the quadratic is to be.
        cap : int
            Most conjugate gradients.
        quick : bool
            Whether rounding of the order of `QUICK` does not matter.
        """
        active = self.hinge(at.f) > 0
        step, r = self.zero(), -residual
        p, rz = z, float((r * z.f).sum())
        goal, passes = tol**2 * rz, 0
        while True:
            curved = active * p.f + self.lam * self.apart(p.f) + p.e
            curvature = float((p.f * curved).sum())
            if not curvature > 0.0:
                return step, passes, True
            length = rz / curvature
            step = Outputs(step.f + length * p.f, step.e + length * p.e)
            if passes >= cap:
                return step, passes, False
            r = r - length * curved
            z = self.solve(r, quick=quick)
            passes += 1
            before, rz = rz, float((r * z.f).sum())
            if not rz > goal:
                return step, passes, True
            p = Outputs(z.f + rz / before * p.f, z.e + rz / before * p.e)

    def dense_direction(self, at: Outputs, residual: Floats) -> Outputs:
        """Return the Newton direction by one factorisation in the axes of the spectra.

        The unknowns are the bias and the weight vector of each view, R in all: the views of a
        problem without coupling are solved one by one.
        """
        active = self.hinge(at.f) > 0
        step = self.zero()
        chosen = [l for l, one in enumerate(self.views.spectra) if one is not None]
        for block in [chosen] if self.lam > 0 else [[l] for l in chosen]:
            axes, ends = [], [0]
            for l in block:
                one = self.views.spectra[l]
                assert one is not None
                B = np.zeros((len(self.y), len(one.s) + 1))
                B[one.rows, 0], B[one.rows, 1:] = one.q, one.U * np.sqrt(one.s)
                axes.append(B)
                ends.append(ends[-1] + B.shape[1])
            joint = np.hstack(axes)
            H = joint.T @ (joint * (-self.lam / self.counts)[:, None])
            right = np.empty(ends[-1])
            for l, B, start, end in zip(block, axes, ends[:-1], ends[1:], strict=True):
                part = slice(start, end)
                H[part, part] += B.T @ (B * (active[l] + self.lam)[:, None])
                H[np.arange(start + 1, end), np.arange(start + 1, end)] += self.c[l]
                H[start, start] += BIAS_RIDGE
                right[part] = -(B.T @ residual[l])
            try:
                w = cho_solve(cho_factor(H, check_finite=False), right, check_finite=False)
            except np.linalg.LinAlgError:  # penalties beyond what rounding leaves of the others
                w = np.linalg.lstsq(H, right, rcond=None)[0]
            for l, B, start, end in zip(block, axes, ends[:-1], ends[1:], strict=True):
                one = self.views.spectra[l]
                assert one is not None
                step.f[l] = B @ w[start:end]
                step.e[l, one.rows] = one.U @ (self.c[l] * w[start + 1 : end] / np.sqrt(one.s))
        return step

    def moved(self, at: Outputs, step: Outputs) -> Outputs:
        """Return the minimiser of P along a direction, of views without coupling one by one."""
        smooth = self.lam * self.apart(at.f) + at.e
        curved = self.lam * self.apart(step.f) + step.e
        length = np.ones((len(at.f), 1))
        M = len(at.f)
        for part in [slice(0, M)] if self.lam > 0 else [slice(l, l + 1) for l in range(M)]:
            length[part] = _step_length(
                (self.margin - self.y * at.f)[part],
                (self.y * step.f)[part],
                float((smooth * step.f)[part].sum()),
                float((curved * step.f)[part].sum()),
            )
        return Outputs(at.f + length * step.f, at.e + length * step.e)


def nearby(c: Floats, lam: float) -> Floats:
    """Return c (M,) with ``c / (1 + lam)`` raised to powers of two, for which smoothers are kept.

    A majorant with larger c is one still, and many c and lam have these in common.
    """
    return np.asarray((1.0 + lam) * np.exp2(np.ceil(np.log2(c / (1.0 + lam)))))


def _step_length(short: Floats, gain: Floats, slope0: float, curvature: float) -> float:
    """Return the minimiser t >= 0 of ``sum max(0, short - t gain)^2`` plus a quadratic.

    Half the slope of the quadratic is ``slope0 + t curvature``. The whole is convex with a
    piecewise linear slope, whose root is found by Newton's method between bounds.
    """
    low, high, length = 0.0, np.inf, 1.0
    for _ in range(60):
        h = np.maximum(0.0, short - length * gain)
        slope = slope0 + length * curvature - float((h * gain).sum())
        low, high = (length, high) if slope < 0 else (low, length)
        bend = curvature + float(np.square(gain[h > 0]).sum())
        new = length - slope / bend if bend > 0 else 2.0 * length
        if not low < new < high:
            new = 2.0 * length if high == np.inf else 0.5 * (low + high)
        # a direction that is nothing but rounding may seem to lead down for ever
        new = min(new, LONGEST)
        if abs(new - length) <= 1e-12 * length:
            return new
        length = new
    return length


def minimise(
    problem: AgreementProblem,
    start: Outputs,
    *,
    tol: float,
    max_iter: int,
    on_step: Callable[[Step], None] | None = None,
) -> Minimum:
    """Minimise P by Newton's method.

    Parameters
    ----------
    problem : AgreementProblem
        What to minimise.
    start : Outputs
        Where to start.
    tol : float
        Norm of the gradient, relative to that of the functions that are zero, at which all is
        well. The iterations go on to rounding, which takes one or two more.
    max_iter : int
        Cap on the joint ridge regressions.
    on_step : callable, optional
        Called after every Newton step.

    Returns
    -------
    Minimum
    """
    at, passes, history, stalled, polished, quick = start, 1, list[Step](), 0, 0, True
    objective, bound = problem.objective(at), problem.lower_bound(at.f)
    residual = problem.residual(at)
    z, norm = problem.descent(residual, quick=True)
    scale = max(problem.start_norm, TINY)
    sizes = [len(one.s) + 1 for one in problem.views.spectra if one is not None]
    size = sum(sizes) if problem.lam > 0 else max(sizes)
    enough = 20 + size // 15 if size <= DENSE else max_iter
    while passes < max_iter and stalled < 3 and polished < MOST_POLISHING:
        if norm <= POLISH * scale and objective - bound <= CLOSED * objective:
            break
        # a residual that the functions can hardly follow is large beside its norm
        rounding = QUICK * max(scale, float(np.linalg.norm(residual)))
        if quick and norm <= rounding:
            at, quick = problem.renewed(at), False
            residual = problem.residual(at)
            z, norm = problem.descent(residual)
            passes += 2
        # as exact as Newton's method can make use of, and no more than is asked for
        least = max(1e-4, 0.5 * (rounding if quick else 0.1 * POLISH * scale) / max(norm, TINY))
        forcing = float(np.clip(norm / scale, min(least, 0.1), 0.1))
        cap = min(enough, max_iter - passes)
        step, spent, solved = problem.direction(at, residual, z, forcing, cap, quick)
        if not solved and cap == enough:
            step, enough = problem.dense_direction(at, residual), 0
        at = problem.moved(at, step)
        residual = problem.residual(at)
        before, (z, norm) = norm, problem.descent(residual, quick=quick)
        passes += spent + 1
        last, objective = objective, problem.objective(at)
        bound = max(bound, problem.lower_bound(at.f))
        history.append(Step(objective, objective - bound, passes))
        if on_step is not None:
            on_step(history[-1])
        no_gain = norm > 0.5 * before and objective >= last * (1.0 - 1e-14)
        stalled = stalled + 1 if no_gain else 0
        if norm <= tol * scale:
            if no_gain and (enough == 0 or size > DENSE):
                break
            polished += 1
            if (no_gain or polished > SLOW_POLISH) and size <= DENSE:
                enough = 0
    # leaves the rounding of the steps behind
    at = problem.renewed(at)
    objective, bound = problem.objective(at), max(bound, problem.lower_bound(at.f))
    history.append(Step(objective, objective - bound, passes + 1))
    return Minimum(at, objective, bound, norm / scale, passes + 1, tuple(history))
