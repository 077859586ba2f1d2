"""Kernel weights bounded by a norm: the simplex and the balls of lp-norms.

The coordinates of the simplex are the weights themselves, those of a ball are a point of the
simplex, too. Other sets stand beside their methods.
"""

from dataclasses import dataclass

import numpy as np

from kernelquilt._typing import Bools, Floats
from kernelquilt.core.weights.solution import Options, Solution
from kernelquilt.core.weights.solvers import (
    SVMAtWeights,
    UpdatedSet,
    WeightSolver,
    alternate,
    certified_at,
    newton,
    solve_qp,
)

LP_OPTIONS = {  # the smallest tolerances that HiGHS takes
    "primal_feasibility_tolerance": 1e-10,
    "dual_feasibility_tolerance": 1e-10,
}


@dataclass(frozen=True)
class Simplex(UpdatedSet):
    """Weights that are non-negative and sum to one; those not allowed stay zero.

    Parameters
    ----------
    allowed : ndarray of shape (M,), bool
        Kernels that may have weight.
    """

    allowed: Bools

    def start(self) -> Floats:
        """Return equal weights."""
        return self.allowed / np.count_nonzero(self.allowed)

    def support(self, q: Floats) -> float:
        """Return the largest allowed entry of q."""
        return float(q[self.allowed].max())

    @property
    def equal_to_one(self) -> Floats:
        """The sum of all coordinates."""
        return np.ones((1, len(self.allowed)))

    def update(self, squared_norms: Floats) -> Floats:
        """Return the weights that minimise ``sum_p squared_norms[p] / weights[p]``, (M,)."""
        updated = np.zeros(len(self.allowed))
        updated[self.allowed] = self._minimiser(squared_norms[self.allowed])
        return updated

    def _minimiser(self, squared_norms: Floats) -> Floats:
        return lp_weights(squared_norms, 1.0)

    def without(self, u: Floats, negligible: Bools) -> Floats:
        """Drop the negligible weights and scale the others to sum one."""
        kept = np.where(negligible, 0.0, u)
        return kept / kept.sum()


@dataclass(frozen=True)
class NormBall(Simplex):
    r"""Weights ``d >= 0`` with ``sum_p d_p^p <= 1``, p > 1; those not allowed stay zero.

    The coordinates are :math:`u_p = d_p^p`, a point of the simplex. As ``J`` is convex and falls
    with every weight, and the weights are concave in u, ``J`` is convex in u too.

    Parameters
    ----------
    allowed : ndarray of shape (M,), bool
        Kernels that may have weight.
    p : float
        Exponent of the norm, above 1.
    """

    p: float

    can_vanish = False

    def weights(self, u: Floats) -> Floats:
        """Return ``u^(1/p)``."""
        return u ** (1.0 / self.p)

    def coordinates(self, weights: Floats) -> Floats:
        """Return ``d^p``."""
        return weights**self.p

    def pull_back(self, u: Floats, gradient: Floats, hessian: Floats) -> tuple[Floats, Floats]:
        """Apply the chain rule; the second derivatives of the weights add a positive diagonal."""
        power = 1.0 / self.p
        v = np.where(self.allowed, np.maximum(u, 1e-300), 1.0)
        slope = np.where(self.allowed, power * v ** (power - 1.0), 0.0)
        curvature = np.where(self.allowed, power * (power - 1.0) * v ** (power - 2.0), 0.0)
        return gradient * slope, hessian * np.outer(slope, slope) + np.diag(gradient * curvature)

    def support(self, q: Floats) -> float:
        """Return the dual norm of q."""
        return dual_norm(q[self.allowed], self.p)

    def _minimiser(self, squared_norms: Floats) -> Floats:
        return lp_weights(squared_norms, self.p)


def solve_in_norm(
    svm: SVMAtWeights, p: float, allowed: Bools, options: Options, *, newton_below: float
) -> Solution:
    """Minimise ``J`` over the weights whose lp-norm is at most one.

    Parameters
    ----------
    svm : SVMAtWeights
        Not solved before.
    p : float
        Exponent of the norm, at least 1; infinite for weights of 1.
    allowed : ndarray of bool of shape (M,)
        Kernels that may have weight.
    options : Options
    newton_below : float
        Exponent below which Newton's method takes over from the closed-form update.

    Returns
    -------
    Solution
        With the certificate it ended with.
    """
    if p == np.inf:
        return certified_at(svm, allowed.astype(np.float64), options)
    solver: WeightSolver[Simplex] = newton if p < newton_below else alternate
    return solver(svm, Simplex(allowed) if p == 1.0 else NormBall(allowed, p), options)


def lp_weights(squared_norms: Floats, p: float) -> Floats:
    """Return the weights of lp-norm one that minimise ``sum_m squared_norms[m] / weights[m]``.

    Parameters
    ----------
    squared_norms : ndarray of shape (M,)
        Non-negative.
    p : float
        Exponent, at least 1.
    """
    top = float(squared_norms.max())
    if top == 0.0:
        return np.full(len(squared_norms), len(squared_norms) ** (-1.0 / p))
    weights = (squared_norms / top) ** (1.0 / (p + 1.0))
    return weights / float((weights**p).sum()) ** (1.0 / p)


def dual_norm(q: Floats, p: float) -> float:
    """Return the largest ``d'q`` over ``d >= 0``, ``||d||_p <= 1``, for p > 1; q is (M,)."""
    q = np.maximum(q, 0.0)
    top = float(q.max())
    conjugate = p / (p - 1.0)
    return top * float(((q / top) ** conjugate).sum()) ** (1.0 / conjugate) if top > 0.0 else 0.0


def simplex_least_squares(gram: Floats, target: int) -> Floats:
    """Combine vectors to come near to one of them: the weights of a convex combination.

    Minimises ``|x_t - sum_l s_l x_l|^2`` over ``s >= 0``, ``sum(s) = 1``, ``s_t = 0``.

    Parameters
    ----------
    gram : ndarray of shape (M, M)
        Inner products of the vectors, M >= 2.
    target : int
        Which vector is approximated by the others.

    Returns
    -------
    ndarray of shape (M,)
    """
    others = np.arange(len(gram)) != target
    H, c = gram[np.ix_(others, others)], gram[others, target]
    m = len(c)
    weights = np.zeros(len(gram))
    scale = float(np.abs(H).max())
    if scale == 0:
        weights[others] = 1 / m
    elif m == 1:
        weights[others] = 1.0
    else:
        none, ones = np.zeros((0, m)), np.ones((1, m))
        found = solve_qp(H / scale, -c / scale, np.zeros(m), none, none[:, 0], ones, ones[:, 0])
        weights[others] = found / found.sum()
    return weights
