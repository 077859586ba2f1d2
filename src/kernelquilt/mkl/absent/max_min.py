r"""The largest smallest margin of samples with absent kernels, as a second-order cone programme.

Eq. (25) of the paper with slack variables:

.. math:: \min_{w, b_0, v} \; \tfrac12 v^2 + \sum_i C_i \max(0, 1 - y_i f(x_i)) \quad
          \text{s.t.} \quad \sum_p s_{ip} \|w_p\| \le v \;\; \text{for all } i .

Its dual is, with :math:`q_p(b) = b'K_p b` and :math:`\mathcal D = \{d \ge 0, S d \le 1\}`,

.. math:: \max_b \; s'b - \tfrac12
          \Bigl( \max_{d \in \mathcal D} \sum_p d_p \sqrt{q_p(b)} \Bigr)^2

over the usual box, so that any duals give a certificate by one small linear programme.
"""

from typing import NamedTuple

import numpy as np
from scipy import sparse

from kernelquilt._typing import Floats, Numbers
from kernelquilt.core.svm.dual import feasible_start, signed_bounds
from kernelquilt.mkl.absent.convex import Polytope

MAX_PENALTY = 1e5
RANK_TOLERANCE = 1e-11  # eigenvalues below this share of the largest count as zero


class MaxMinPoint(NamedTuple):
    """Solution of the cone programme.

    Attributes
    ----------
    coef : ndarray of shape (M, n)
        Coefficients of each ``w_p`` in the samples.
    norms : ndarray of shape (M,)
        Norms of the ``w_p``.
    intercept : float
        Bias.
    primal, bound : float
        Value of the point, and lower bound of the optimum.
    n_iter : int
        Interior-point iterations.
    """

    coef: Floats
    norms: Floats
    intercept: float
    primal: float
    bound: float
    n_iter: int


def max_min_margin(K: Numbers, y: Floats, C: Floats, polytope: Polytope, tol: float) -> MaxMinPoint:
    """Solve the cone programme (see the module docstring); n M variables, for small problems.

    Parameters
    ----------
    K : ndarray of shape (M, n, n)
        Kernels, zero where absent.
    y, C : ndarrays of shape (n,)
        Labels -1 and +1, and penalties, positive.
    polytope : Polytope
        The patterns of observation of the samples.
    tol : float
        Relative duality gap.

    Returns
    -------
    MaxMinPoint
    """
    import clarabel

    allowed = np.flatnonzero(polytope.allowed)
    bases = [_basis(K[p]) for p in allowed]
    # the cone solver has absolute tolerances: in these units the features are of size one, unless
    # the penalties were too large then
    unit = max(float(kernel.diagonal().mean()) for kernel in K) or 1.0
    unit = min(unit, MAX_PENALTY / float(C.max()))
    ranks = [vectors.shape[1] for vectors, _ in bases]
    n, m, rank = len(y), len(allowed), sum(ranks)
    patterns = polytope.A[:, allowed]
    features = np.hstack([vectors * scales for vectors, scales in bases]) / np.sqrt(unit)
    # variables: all w, their norms, v, the bias, the slacks
    margins = sparse.hstack(
        [
            sparse.csc_matrix(-y[:, None] * features),
            sparse.csc_matrix((n, m + 1)),
            -y[:, None],
            -sparse.identity(n),
        ]
    )
    slacks = sparse.hstack([sparse.csc_matrix((n, rank + m + 2)), -sparse.identity(n)])
    within = sparse.hstack(
        [
            sparse.csc_matrix((len(patterns), rank)),
            patterns,
            -np.ones((len(patterns), 1)),
            sparse.csc_matrix((len(patterns), 1 + n)),
        ]
    )
    cones, blocks, first = [], [margins, slacks, within], 0
    cones.append(clarabel.NonnegativeConeT(2 * n + len(patterns)))
    width = rank + m + 2 + n
    for p, size in enumerate(ranks):
        rows = np.arange(size + 1)
        columns = np.concatenate([[rank + p], first + np.arange(size)])
        blocks.append(
            sparse.csc_matrix((-np.ones(size + 1), (rows, columns)), shape=(size + 1, width))
        )
        cones.append(clarabel.SecondOrderConeT(size + 1))
        first += size
    A = sparse.csc_matrix(sparse.vstack(blocks))
    right = np.concatenate([-np.ones(n), np.zeros(A.shape[0] - n)])
    curvature = np.zeros(width)
    curvature[rank + m] = 1.0
    cost = np.concatenate([np.zeros(rank + m + 2), unit * C])
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.max_threads = 1
    settings.tol_gap_rel = settings.tol_gap_abs = settings.tol_feas = min(1e-2 * tol, 1e-8)
    solver = clarabel.DefaultSolver(
        sparse.diags(curvature, format="csc"), cost, A, right, cones, settings
    )
    result = solver.solve()
    x, multipliers = np.array(result.x), np.array(result.z)[:n] / unit
    x[:rank] /= np.sqrt(unit)
    return _measured(K, y, C, polytope, bases, x, multipliers, int(result.iterations))


def _measured(
    K: Numbers,
    y: Floats,
    C: Floats,
    polytope: Polytope,
    bases: list[tuple[Floats, Floats]],
    x: Floats,
    multipliers: Floats,
    n_iter: int,
) -> MaxMinPoint:
    """Return the point with its value and bound, whatever the accuracy of the cone solver."""
    allowed = np.flatnonzero(polytope.allowed)
    coef, norms = np.zeros(K.shape[:2]), np.zeros(len(K))
    b = feasible_start(y * multipliers, *signed_bounds(y, C))
    scores, roots = np.zeros(len(y)), np.zeros(len(K))
    first = 0
    for p, (vectors, scales) in zip(allowed, bases, strict=True):
        w = x[first : first + len(scales)]
        first += len(scales)
        coef[p] = vectors @ (w / scales)
        norms[p] = np.linalg.norm(w)
        scores += vectors @ (scales * w)
        roots[p] = np.linalg.norm(scales * (b @ vectors))  # b'Kb would lose digits
    intercept = float(x[first + len(allowed) + 1])
    largest = float((polytope.A @ norms).max())
    short = np.maximum(0.0, 1.0 - y * (scores + intercept))
    primal = 0.5 * largest**2 + float(C @ short)
    bound = float(y @ b) - 0.5 * polytope.support(roots) ** 2
    return MaxMinPoint(coef, norms, intercept, primal, bound, n_iter)


def _basis(kernel: Numbers) -> tuple[Floats, Floats]:
    """Return eigenvectors (n, k) and square roots of the eigenvalues (k,) that are not zero."""
    values, vectors = np.linalg.eigh(kernel.astype(np.float64, copy=False))
    kept = values > RANK_TOLERANCE * max(float(values[-1]), 1e-300)
    return vectors[:, kept], np.sqrt(values[kept])
