r"""Dense quadratic programmes with a handful of variables.

.. math:: \min_x \tfrac12 x'Hx + c'x \quad\text{s.t.}\quad Gx \le h, \; Ax = b

by Mehrotra's predictor-corrector interior point method, followed by one solve on the constraints
found active, which makes vanishing variables exactly zero and the rest exact to rounding.
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

MAX_ITER = 60
TOLERANCE = 1e-11
SHORTEN = 0.995


def solve_qp(H: Floats, c: Floats, G: Floats, h: Floats, A: Floats, b: Floats) -> Floats:
    """Solve a small dense QP (see the module docstring).

    Parameters
    ----------
    H : ndarray of shape (m, m)
        Positive semi-definite.
    c : ndarray of shape (m,)
        Linear term.
    G, h : ndarrays of shape (k, m) and (k,)
        Inequalities ``G x <= h``; the feasible set must be bounded and not empty.
    A, b : ndarrays of shape (e, m) and (e,)
        Equalities ``A x = b`` with independent rows, possibly none.

    Returns
    -------
    ndarray of shape (m,)
    """
    scale = max(float(np.abs(c).max()), float(np.abs(H).max()), 1e-300)
    H, c = H / scale, c / scale
    x, slack, dual, _ = _interior_point(H, c, G, h, A, b)
    active = slack < dual
    snapped = _solve_on_active(H, c, G[active], h[active], A, b)
    feasible = (G @ snapped <= h + 1e-10).all() and np.abs(A @ snapped - b).max(initial=0.0) < 1e-10

    def value(point: Floats) -> float:
        return float(0.5 * point @ H @ point + c @ point)

    if feasible and value(snapped) <= value(x) + 1e-9 * max(1.0, abs(value(x))):
        return snapped
    return x


def _interior_point(
    H: Floats, c: Floats, G: Floats, h: Floats, A: Floats, b: Floats
) -> tuple[Floats, Floats, Floats, Floats]:
    """Return primal point, slacks and the multipliers of inequalities and equalities."""
    m, k, e = len(c), len(h), len(b)
    x = np.zeros(m)
    slack = np.maximum(h, 1.0)
    dual = np.ones(k)
    multiplier = np.zeros(e)
    ridge = 1e-14 * np.eye(m)
    for _ in range(MAX_ITER):
        residual_dual = H @ x + c + G.T @ dual + A.T @ multiplier
        residual_in = G @ x + slack - h
        residual_eq = A @ x - b
        mu = float(slack @ dual) / k
        if max(mu, *(np.abs(r).max(initial=0.0) for r in
                     (residual_dual, residual_in, residual_eq))) < TOLERANCE:  # fmt: skip
            break
        system = np.zeros((m + e, m + e))
        system[:m, :m] = H + ridge + (G.T * (dual / slack)) @ G
        system[:m, m:] = A.T
        system[m:, :m] = A

        def direction(
            complementarity: Floats,
            system: Floats = system,
            slack: Floats = slack,
            dual: Floats = dual,
            residual_dual: Floats = residual_dual,
            residual_in: Floats = residual_in,
            residual_eq: Floats = residual_eq,
        ) -> tuple[Floats, Floats, Floats, Floats]:
            right = np.concatenate([
                -residual_dual - G.T @ ((dual * residual_in - complementarity) / slack),
                -residual_eq,
            ])  # fmt: skip
            try:
                solution = np.linalg.solve(system, right)
            except np.linalg.LinAlgError:
                solution = np.linalg.lstsq(system, right, rcond=None)[0]
            dx, d_multiplier = solution[:m], solution[m:]
            d_slack = -residual_in - G @ dx
            return dx, d_slack, -(complementarity + dual * d_slack) / slack, d_multiplier

        _, d_slack, d_dual, _ = direction(slack * dual)
        length = min(_longest(slack, d_slack), _longest(dual, d_dual))
        mu_affine = float((slack + length * d_slack) @ (dual + length * d_dual)) / k
        centring = (mu_affine / mu) ** 3 * mu
        dx, d_slack, d_dual, d_multiplier = direction(slack * dual + d_slack * d_dual - centring)
        length = min(1.0, SHORTEN * min(_longest(slack, d_slack), _longest(dual, d_dual)))
        x = x + length * dx
        slack = slack + length * d_slack
        dual = dual + length * d_dual
        multiplier = multiplier + length * d_multiplier
    return x, slack, dual, multiplier


def _longest(values: Floats, steps: Floats) -> float:
    """Return the longest step up to about 1 that keeps all values non-negative."""
    shrinking = steps < 0
    ratios = values[shrinking] / -steps[shrinking]
    return min(1.0 / SHORTEN, float(ratios.min(initial=np.inf)))


def _solve_on_active(H: Floats, c: Floats, G: Floats, h: Floats, A: Floats, b: Floats) -> Floats:
    """Solve with the given inequalities as equalities; variables held at zero stay exactly zero."""
    m = len(c)
    pinned = (np.count_nonzero(G, axis=1) == 1) & (h == 0.0)
    keep = np.ones(m, dtype=np.bool_)
    keep[np.nonzero(G[pinned])[1]] = False
    constraints = np.vstack([A, G[~pinned]])[:, keep]
    right = np.concatenate([-c[keep], b, h[~pinned]])
    size = int(keep.sum())
    system = np.zeros((size + len(constraints), size + len(constraints)))
    system[:size, :size] = H[np.ix_(keep, keep)]
    system[:size, size:] = constraints.T
    system[size:, :size] = constraints
    x = np.zeros(m)
    x[keep] = np.linalg.lstsq(system, right, rcond=1e-15)[0][:size]
    return x
