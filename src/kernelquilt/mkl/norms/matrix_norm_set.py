r"""Weights with a bounded (r, p) matrix norm: steps, optimality conditions and support function.

The set is :math:`\{d \ge 0, \; h(d) \le 1\}` with :math:`h(d) = \|d d'\|_{r,p} = \|d\|_r \|d\|_p`.
It is convex for r = p, and for r != p only if the exponents are close or the kernels few.

**Step.** For fixed :math:`\|w_m\|` the weights that minimise :math:`\sum_m \|w_m\|^2 / d_m` are a
geometric programme, with one solution. Its optimality conditions say that
:math:`\|w_m\|^2 = \lambda (z_m^{r+1} + z_m^{p+1})` for a multiple z of d that satisfies
:math:`\sum_m z_m^r = \sum_m z_m^p`. For given :math:`\lambda` each z_m is the root of an increasing
function, and :math:`\log (\sum_m z_m^p / \sum_m z_m^r)` falls with :math:`\lambda`, so
one-dimensional root finding solves the programme to rounding, whatever the exponents.

**Support.** The set is the union over :math:`\rho = \|d\|_r / \|d\|_p` of the convex sets
:math:`\|d\|_r \le \rho^{1/2}, \; \|d\|_p \le \rho^{-1/2}`. With dual exponents r*, p* any split
q = u + v gives :math:`d'q \le \|u\|_{r^*} \rho^{1/2} + \|v\|_{p^*} \rho^{-1/2}` there. The splits
:math:`u_m = \lambda z_m^{r-1}, \; v_m = \lambda z_m^{p-1}` are the best ones as :math:`\lambda`
varies; a grid of them bounds the support from above, and closely.
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq

from kernelquilt._typing import Floats
from kernelquilt.core.weights.sets import Simplex, dual_norm

N_SPLITS = 128  # of q, for the support
MAX_LOGIT = 18.0  # of the shares of the largest entry in the first and the last split
DENSITY = 4.0  # how much denser the splits are in the middle
N_SLICES = 512  # intervals of log rho
MIN_START = 0.02  # in units of equal weights; a weight of zero could not grow
CURVATURE_SHARE = 0.9  # part of the curvature along one direction that may be taken away

LARGEST_EXPONENT = 1e8  # beyond which a norm is the largest weight to rounding


def log_sum_exp(t: Floats) -> float:
    """Return ``log(sum(exp(t)))`` for finite t of shape (M,)."""
    top = float(t.max())
    return top + float(np.log(np.exp(t - top).sum()))


def log_matrix_norm(weights: Floats, r: float, p: float) -> float:
    """Return the logarithm of ``||weights||_r ||weights||_p``; some weight must be positive."""
    t = np.log(weights[weights > 0.0])
    return log_sum_exp(r * t) / r + log_sum_exp(p * t) / p


def invert_power_sum(log_x: Floats, low: float, high: float) -> Floats:
    """Return the logarithms of the z with ``z**low + z**high = x``, for ``0 < low < high``.

    In logarithms the left side is convex and increasing, so Newton's method from above descends
    to the root without a line search.
    """
    z = np.minimum(log_x / low, log_x / high)
    for _ in range(60):
        value = np.logaddexp(low * z, high * z)
        slope = low + (high - low) * np.exp(high * z - value)
        step = (value - log_x) / slope
        z = z - step
        if (np.abs(step) <= 1e-14 * np.maximum(np.abs(z), 1.0)).all():
            break
    return z


def matrix_norm_weights(squared_norms: Floats, r: float, p: float) -> Floats:
    """Return the weights with matrix norm one that minimise ``sum(squared_norms / weights)``.

    Parameters
    ----------
    squared_norms : ndarray of shape (M,)
        Non-negative; where zero, so is the weight, unless all are.
    r, p : float
        Different exponents, at least 1.

    Returns
    -------
    weights : ndarray of shape (M,)
    """
    r, p = min(r, p, LARGEST_EXPONENT / 2), min(max(r, p), LARGEST_EXPONENT)
    used = squared_norms > 0.0
    weights = used.astype(np.float64) if used.any() else np.ones(len(used))
    n_used = np.count_nonzero(used)
    if n_used > 1:
        log_x = np.log(squared_norms[used])
        log_x -= log_x.max()

        def imbalance(shift: float) -> float:
            z = invert_power_sum(log_x + shift, r + 1.0, p + 1.0)
            return log_sum_exp(p * z) - log_sum_exp(r * z)

        # the largest z is at least 1, and at n_used**(1 / (p - r)) the p-th powers prevail
        top = np.log(n_used) / (p - r)
        right = float(np.logaddexp((r + 1.0) * top, (p + 1.0) * top)) + 1e-9
        shift = brentq(imbalance, np.log(2.0) - 1e-9, right, xtol=1e-13, maxiter=500)
        z = invert_power_sum(log_x + shift, r + 1.0, p + 1.0)
        weights[used] = np.exp(z - z.max())
    return weights * np.exp(-0.5 * log_matrix_norm(weights, r, p))


@dataclass(frozen=True)
class MatrixNormSet(Simplex):
    """Weights ``d >= 0`` with ``||d||_r ||d||_p <= 1``; those not allowed stay zero.

    The coordinates are the weights scaled to sum one, so that the set has the flat faces of the
    simplex. Unless r = p, functions that are convex in the weights need not be so in them.

    Parameters
    ----------
    allowed : ndarray of shape (M,), bool
        Kernels that may have weight.
    r, p : float
        Exponents, at least 1.
    powers : bool, default=False
        Whether to bound ``||d||_r^r ||d||_p^p`` instead.
    """

    r: float
    p: float
    powers: bool = False

    def scaled(self, weights: Floats) -> Floats:
        """Return the multiple of the weights at which the constraint is active."""
        if self.powers:
            t = np.log(weights[weights > 0.0])
            total = log_sum_exp(self.r * t) + log_sum_exp(self.p * t)
            return weights * np.exp(-total / (self.r + self.p))
        return weights * np.exp(-0.5 * log_matrix_norm(weights, self.r, self.p))

    def weights(self, u: Floats) -> Floats:
        """Scale to matrix norm one."""
        return self.scaled(u)

    def coordinates(self, weights: Floats) -> Floats:
        """Scale to sum one."""
        return weights / weights.sum()

    def raised(self, weights: Floats) -> Floats:
        """Return the coordinates of weights, where allowed at least a small part of the start."""
        kept = np.where(self.allowed, weights, 0.0)
        if not kept.any():
            return self.start()
        return self.coordinates(np.maximum(self.coordinates(kept), MIN_START * self.start()))

    def _minimiser(self, squared_norms: Floats) -> Floats:
        return matrix_norm_weights(squared_norms, self.r, self.p)

    def normals(self, weights: Floats) -> tuple[Floats, Floats]:
        """Return the gradients of ``log ||d||_r`` and ``log ||d||_p``, both of shape (M,)."""
        t = np.log(weights[weights > 0.0])
        norms = [np.exp(log_sum_exp(e * t) / e) for e in (self.r, self.p)]
        r_part, p_part = (
            (weights / norm) ** (e - 1.0) / norm
            for e, norm in zip((self.r, self.p), norms, strict=True)
        )
        return r_part, p_part

    def residual(self, weights: Floats, q: Floats) -> float:
        r"""Return how far weights are from the optimality conditions, relative to the largest q.

        They are :math:`q_m = \tfrac12 (d'q) (d_m^{r-1} / \|d\|_r^r + d_m^{p-1} / \|d\|_p^p)`, or
        :math:`\le` where d_m = 0. Too large a q counts in full, too small a q as much as the
        weight relative to the largest one if that is less: such a weight is zero to that accuracy.
        """
        d, q = weights[self.allowed], np.maximum(q[self.allowed], 0.0)
        top = float(q.max())
        if top == 0.0:
            return 0.0
        r_part, p_part = self.normals(d)
        excess = (q - 0.5 * float(d @ q) * (r_part + p_part)) / top
        violation = np.where(excess > 0.0, excess, np.minimum(np.abs(excess), d / d.max()))
        return float(violation.max())

    def pull_back(self, u: Floats, gradient: Floats, hessian: Floats) -> tuple[Floats, Floats]:
        r"""Apply the chain rule to ``d = u / h(u)^(1/2)``.

        With :math:`n = \nabla \log h = n_r + n_p` and :math:`S = I - \tfrac12 d n'`, the
        Hessian is :math:`S'(H - \tfrac12 (d'g) \nabla^2 \log h) S` wherever the gradient
        :math:`S'g` vanishes, and is taken to be that elsewhere. :math:`\nabla^2 \log h` is a
        diagonal less a rank-one term, which counts only as far as the sum stays positive.
        """
        d = self.scaled(u)
        # where a weight is zero the curvature of the norm may be infinite
        d = np.where(self.allowed, np.maximum(d, 1e-12 * d.max()), 0.0)
        r_part, p_part = (np.where(self.allowed, part, 0.0) for part in self.normals(d))
        factor = -0.5 * float(d @ gradient)
        safe = np.where(self.allowed, d, 1.0)
        diagonal = ((self.r - 1.0) * r_part + (self.p - 1.0) * p_part) / safe
        S = np.eye(len(d)) - 0.5 * np.outer(d, r_part + p_part)
        S *= float(d.sum() / u.sum())
        curved = S.T @ (hessian + factor * np.diag(diagonal)) @ S
        across = S.T @ (0.5 * (r_part - p_part))
        ridge = 1e-12 * float(np.trace(curved)) + 1e-300
        size = float(across @ np.linalg.solve(curved + ridge * np.eye(len(d)), across))
        amount = min(factor * (self.r + self.p), CURVATURE_SHARE / max(size, 1e-300))
        return S.T @ gradient, curved - amount * np.outer(across, across)

    def support(self, q: Floats) -> float:
        """Return an upper bound of ``max d'q`` over the set, tight to about 1e-4."""
        q = np.maximum(q[self.allowed], 0.0)
        top = float(q.max())
        if top == 0.0:
            return 0.0
        q = q[q > 0.0] / top
        r, p = min(self.r, self.p), max(self.r, self.p)
        if r == p:
            return top * _dual(q, p)
        share = p / (r + p) if self.powers else 0.5
        u = _splits(q, r, p)
        first = np.array([_dual(row, r) for row in u])[:, None]
        second = np.array([_dual(row, p) for row in q - u])[:, None]
        log_rho = np.linspace(0.0, (1.0 / r - 1.0 / p) * np.log(len(q)), N_SLICES + 1)
        # convex in log rho, so that on an interval one of its ends is the largest
        values = first * np.exp(share * log_rho) + second * np.exp((share - 1.0) * log_rho)
        return top * float(np.maximum(values[:, 1:], values[:, :-1]).min(axis=0).max())


def _dual(q: Floats, e: float) -> float:
    """Return the norm dual to the e-norm."""
    return float(q.max()) if e == 1.0 else dual_norm(q, e)


def _splits(q: Floats, r: float, p: float) -> Floats:
    """Return first parts u of splits of q (M,), none of it to all of it, shape (k, M)."""
    logits = np.sinh(np.linspace(-DENSITY, DENSITY, N_SPLITS)) * (MAX_LOGIT / np.sinh(DENSITY))
    log_z = logits / (p - r)
    log_scale = -np.logaddexp((r - 1.0) * log_z, (p - 1.0) * log_z)[:, None]
    if r == 1.0:
        u = np.minimum(np.exp(log_scale), q)
    else:
        log_z = invert_power_sum(np.log(q) - log_scale, r - 1.0, p - 1.0)
        u = np.minimum(np.exp(log_scale + (r - 1.0) * log_z), q)
    return np.vstack([q, u, np.zeros(len(q))])
