r"""Dense quadratic programmes with a handful of variables.

.. math:: \min_x \tfrac12 x'Hx + c'x \quad\text{s.t.}\quad Gx \le h, \; Ax = b

by Mehrotra's predictor-corrector interior point method, followed by solves on the constraints found
active, which make vanishing variables exactly zero and the rest exact to rounding.
"""

import numpy as np

from kernelquilt._typing import Bools, Floats

MAX_ITER = 60
MAX_ROUNDS = 10
FEASIBLE = 1e-10
CLOSE = 1e-9  # difference in value that is worth exactly vanishing variables
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
        The equality ``A x = b``, e = 1, or none, e = 0.

    Returns
    -------
    ndarray of shape (m,)
    """
    # by the linear term: an entry of H is as large as it likes near the edge of the feasible set
    scale = max(float(np.abs(c).max()), 1e-300)
    H, c = H / scale, c / scale
    x, slack, dual = _interior_point(H, c, G, h, A, b)
    return _polished(H, c, G, h, A, b, x, slack < dual)


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
        found = solve_qp(
            H / scale, -c / scale, -np.eye(m), np.zeros(m), np.ones((1, m)), np.ones(1)
        )
        found = np.maximum(found, 0.0)
        weights[others] = found / found.sum()
    return weights


def _polished(
    H: Floats, c: Floats, G: Floats, h: Floats, A: Floats, b: Floats, x: Floats, active: Bools
) -> Floats:
    """Return the exact solution if the active constraints can be found in a few rounds, else x."""

    def value(point: Floats) -> float:
        return float(0.5 * point @ H @ point + c @ point)

    for _ in range(MAX_ROUNDS):
        snapped, multipliers = _solve_on_active(H, c, G[active], h[active], A, b)
        if np.abs(A @ snapped - b).max(initial=0.0) >= FEASIBLE:
            return x
        violated = G @ snapped > h + FEASIBLE
        wrong = np.zeros(len(h), dtype=np.bool_)
        wrong[active] = multipliers < -FEASIBLE
        if not violated.any() and (not wrong.any() or value(snapped) <= value(x) + CLOSE):
            x = snapped
            if not wrong.any():
                break
        active = (active & ~wrong) | violated
    return x


def _interior_point(
    H: Floats, c: Floats, G: Floats, h: Floats, A: Floats, b: Floats
) -> tuple[Floats, Floats, Floats]:
    """Return the primal point, the slacks and the multipliers of the inequalities."""
    from kernelquilt.core.weights.compiled import interior_point

    equality = (A[0], float(b[0])) if len(b) else (np.zeros(len(c)), 0.0)
    arrays = [np.ascontiguousarray(array) for array in (H, c, G, h, equality[0])]
    x, slack, dual = interior_point(*arrays, equality[1], TOLERANCE, SHORTEN, MAX_ITER)
    return x, slack, dual


def _solve_on_active(
    H: Floats, c: Floats, G: Floats, h: Floats, A: Floats, b: Floats
) -> tuple[Floats, Floats]:
    """Solve with the inequalities as equalities, and return x and their multipliers.

    Bounds on one variable hold exactly.
    """
    m = len(c)
    is_bound = np.count_nonzero(G, axis=1) == 1
    bounds, others = np.flatnonzero(is_bound), np.flatnonzero(~is_bound)
    held = np.argmax(G[bounds] != 0, axis=1)
    x = np.zeros(m)
    x[held] = h[bounds] / G[bounds, held]
    keep = np.ones(m, dtype=np.bool_)
    keep[held] = False
    constraints = np.vstack([A, G[others]])
    right = np.concatenate([-(c + H @ x)[keep], np.concatenate([b, h[others]]) - constraints @ x])
    size, k = int(keep.sum()), len(constraints)
    system = np.zeros((size + k, size + k))
    system[:size, :size] = H[np.ix_(keep, keep)]
    system[:size, size:] = constraints[:, keep].T
    system[size:, :size] = constraints[:, keep]
    solution = np.linalg.lstsq(system, right, rcond=1e-15)[0]
    x[keep] = solution[:size]
    multipliers = np.empty(len(h))
    multipliers[others] = solution[size + len(b) :]
    pull = c + H @ x + constraints.T @ solution[size:]
    multipliers[bounds] = -pull[held] / G[bounds, held]
    return x, multipliers
