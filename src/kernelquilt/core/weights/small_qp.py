r"""Dense quadratic programmes with a handful of variables.

.. math:: \min_x \tfrac12 x'Hx + c'x \quad\text{s.t.}\quad x \ge l, \; Gx \le h, \; Ax = b

by DAQP [1]_, an active set method on the dual. It is exact to rounding, and many inequalities cost
little where few of them hold with equality.

References
----------
.. [1] D. Arnström, A. Bemporad and D. Axehill, "A dual active-set solver for embedded quadratic
   programming using recursive LDL^T updates", IEEE Transactions on Automatic Control 67(8), 2022.
"""

import daqp
import numpy as np

from kernelquilt._typing import Floats

EQUALITY = 5  # codes of DAQP
SOLVED = 1
MAX_ITER = 100_000
TOLERANCE = 1e-12
SMALL = 1e-8  # linear terms that are smaller, in units of H, count as none
FEASIBLE = 1e-10  # what a solution may violate of the constraints
RIDGES = (1e-9, 1e-7, 1e-5)  # where H alone will not do, in units of its trace and the linear term
MAX_ROUNDS = 20  # about three are usual


def solve_qp(
    H: Floats, c: Floats, lower: Floats, G: Floats, h: Floats, A: Floats, b: Floats
) -> Floats:
    """Solve a small dense QP (see the module docstring).

    Parameters
    ----------
    H : ndarray of shape (m, m)
        Positive semi-definite to rounding.
    c : ndarray of shape (m,)
        Linear term.
    lower : ndarray of shape (m,)
        Lower bounds; where they are active they hold exactly.
    G, h : ndarrays of shape (k, m) and (k,)
        Inequalities ``G x <= h``; the feasible set must be bounded and not empty.
    A, b : ndarrays of shape (e, m) and (e,)
        Equalities ``A x = b``.

    Returns
    -------
    ndarray of shape (m,)

    Raises
    ------
    LinAlgError
        If no solution was found.
    """
    # by the linear term: an entry of H is as large as it likes near the edge of the feasible set
    scale = max(float(np.abs(c).max()), SMALL * float(np.abs(H).max()), 1e-300)
    H, c = H / scale, c / scale
    rows = np.vstack([G, A])
    low = np.concatenate([lower, np.full(len(h), -np.inf), b])
    high = np.concatenate([np.full(len(c), np.inf), h, b])
    kinds = np.where(low == high, EQUALITY, 0).astype(np.int32)

    def solution(H: Floats, c: Floats) -> Floats | None:
        x, _, status, info = daqp.solve(
            H, c, rows, high, low, kinds,
            primal_tol=TOLERANCE, dual_tol=TOLERANCE, eps_prox=0.0, iter_limit=MAX_ITER,
        )  # fmt: skip
        if status != SOLVED:
            return None
        x = np.where(info["lam"][: len(c)] < 0.0, lower, x)
        values = np.concatenate([x, rows @ x])
        return x if np.maximum(values - high, low - values).max() <= FEASIBLE else None

    x = solution(H, c)
    for share in RIDGES:
        if x is not None:
            return x
        # H is singular: the ridge is on the distance to the solution before (proximal point method)
        ridge = share * (1.0 + abs(float(np.trace(H))))
        before = lower
        for _ in range(MAX_ROUNDS):
            x = solution(H + ridge * np.eye(len(c)), c - ridge * before)
            if x is None or np.array_equal(x, before):
                break
            before = x
    if x is None:
        raise np.linalg.LinAlgError("no solution of the quadratic programme was found")
    return x


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
