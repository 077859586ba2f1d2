r"""Views with a classifier each that are made to agree, by the interior point method of Clarabel.

With :math:`f_l = K_l g_l + b_l` the outputs of view l on the samples,

.. math:: \min_{g, b} \; \tfrac12 \sum_l g_l' K_l g_l
          + \sum_{l, i} U_{li} \max(0, 1 - y_i f_{li}) + A(f),

where A is what disagreement costs, one of

.. math:: A(f) = \tfrac12 \sum_i q_i \sum_{l \in O_i} \bigl(f_{li} - \bar f_i\bigr)^2
          \qquad\text{or}\qquad
          A(f) = \sum_i D_i \max(0, |f_{1i} - f_{2i}| - \epsilon),

:math:`O_i` the views that sample i has, :math:`\bar f_i` the mean over them. The dual variables are
:math:`0 \le a_{li} \le U_{li}` of the margins and either :math:`v_i`, which sum to zero over
:math:`O_i`, or :math:`0 \le d^\pm_i \le D_i`, and then

.. math:: g_l = y \circ a_l - v_l \quad\text{or}\quad
          g_1 = y \circ a_1 - d^+ + d^-, \; g_2 = y \circ a_2 + d^+ - d^-,
          \qquad \sum_i g_{li} = 0 .

The dual objective is :math:`\sum a - \tfrac12 \sum_l g_l' K_l g_l` less :math:`\sum v_{li}^2 / 2
q_i` or :math:`\epsilon \sum (d^+ + d^-)`: a quadratic programme in g and v or d. The gap between
the two objectives is a sum of terms of which none is negative
(:mod:`kernelquilt.mkl.agreement.disagreement`), and valid for inexact solutions.
"""

from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from scipy import sparse

from kernelquilt._typing import Floats
from kernelquilt.mkl.agreement.disagreement import Band, Squares

Disagreement = Band | Squares
# what is tried in turn: bounds on the duals of the disagreement in units of all penalties together,
# where they are lower than its cost; tolerances of the programme; and whether its unit balances
# kernels and bounds (1/2) or is that of the kernels (0). Which of these rounding allows depends on
# the penalties, and the first nearly always
SHARES = (np.inf, 100.0, 10.0, 1.0, 0.1)
TOLERANCES = (1e-12, 1e-10, 1e-8)
POWERS = (0.5, 0.0)
ENOUGH = 1e-9  # relative gap at which nothing else is tried
FAIR = 1e-7  # the same for lower bounds
FREE = 1e-6  # share of its bound that a dual is away from either end
HARMLESS = 1e-6  # negative eigenvalues, in units of the diagonal


@dataclass(frozen=True)
class Agreement:
    """A solution with its certificate.

    Attributes
    ----------
    g : ndarray of shape (M, n)
        Signed duals of the views.
    intercepts : ndarray of shape (M,)
        Biases of the views.
    objective, gap : float
        Primal value, and how far it may be above the optimum.
    n_iter : int
        Interior point iterations.
    """

    g: Floats
    intercepts: Floats
    objective: float
    gap: float
    n_iter: int = 0


def agree(K: Floats, y: Floats, U: Floats, disagreement: Disagreement) -> Agreement:
    """Solve the problem as exactly as rounding allows.

    Parameters
    ----------
    K : ndarray of shape (M, n, n)
        Kernels, positive semi-definite; if they are not, the gap may be infinite.
    y : ndarray of shape (n,)
        Labels -1 and +1.
    U : ndarray of shape (M, n)
        Penalties of the margins, 0 for samples that a view lacks; every view has some.
    disagreement : Band or Squares
        What disagreement costs.

    Returns
    -------
    Agreement
        The point with the smallest gap.
    """
    best = _certified(K, y, U, disagreement, np.zeros(U.shape), np.zeros(U.shape), np.zeros(len(K)))
    n_iter = 0
    for share, tolerance, power in product(SHARES, TOLERANCES, POWERS):
        if best.gap <= (ENOUGH if share == np.inf else FAIR) * abs(best.objective):
            break
        most = share * float(U.sum())
        if share < np.inf and not disagreement.duals.upper.max(initial=0.0) > most:
            continue
        g, v, b, steps = _solution(K, y, U, disagreement, tolerance, power, most)
        n_iter += steps
        found = _certified(K, y, U, disagreement, g, v, b)
        best = found if found.gap < best.gap else best
    return replace(best, n_iter=n_iter)


def _solution(
    K: Floats,
    y: Floats,
    U: Floats,
    disagreement: Disagreement,
    tolerance: float,
    power: float,
    most: float,
) -> tuple[Floats, Floats, Floats, int]:
    """Return g and v (M, n) and the biases (M,) by the dual programme, and the iterations.

    Where disagreement costs far more than margins, its duals are far from their bounds and up to
    rounding anywhere in between; bounds `most` nearer to them have the same optimum and are exact.
    """
    import clarabel

    used, duals = U > 0, disagreement.duals
    views, samples = np.nonzero(used)
    n_g = len(views)
    size = max(float(np.einsum("lii->li", K)[used].mean()), 1e-300)
    unit = (size * float(U.max())) ** power / size
    curvature = [
        *(np.triu(unit * kernel[np.ix_(has, has)]) for kernel, has in zip(K, used, strict=True)),
        sparse.diags_array(unit * duals.curvature),
    ]
    margins = sparse.diags_array(y[samples]) @ sparse.hstack([sparse.eye_array(n_g), duals.pull])
    sums = sparse.csr_array(np.arange(len(K))[:, None] == views, dtype=np.float64)
    equalities = sparse.block_diag([sums, duals.equalities])
    within = sparse.vstack(
        [margins, sparse.eye_array(len(duals.upper), margins.shape[1], k=n_g, dtype=np.float64)]
    )
    lower = np.concatenate([np.zeros(n_g), np.maximum(duals.lower, -most)]) / unit
    upper = np.concatenate([U[used], np.minimum(duals.upper, most)]) / unit
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.max_threads = 1
    settings.equilibrate_enable = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = tolerance
    solver = clarabel.DefaultSolver(
        sparse.csc_matrix(sparse.block_diag(curvature)),
        np.concatenate([np.zeros(n_g), duals.linear]) - margins.sum(axis=0),
        sparse.csc_matrix(sparse.vstack([equalities, -within, within])),
        np.concatenate([np.zeros(equalities.shape[0]), -lower, upper]),
        [clarabel.ZeroConeT(equalities.shape[0]), clarabel.NonnegativeConeT(2 * len(upper))],
        settings,
    )
    result = solver.solve()
    x = unit * np.array(result.x)
    g = np.zeros(U.shape)
    g[used] = x[:n_g]
    v = disagreement.coefficients(x[n_g:])
    return g, v, np.array(result.z)[: len(K)], int(result.iterations)


def _certified(
    K: Floats, y: Floats, U: Floats, disagreement: Disagreement, g: Floats, v: Floats, b: Floats
) -> Agreement:
    """Return the feasible point next to g and v; its gap is infinite if it is not convex there."""
    a = np.clip(y * (g + v), 0.0, U)
    g = y * a - v
    Kg = np.array([kernel @ each for kernel, each in zip(K, g, strict=True)])
    f = Kg + b[:, None]
    short = 1.0 - y * f
    hinge = U * np.maximum(short, 0.0)
    objective = 0.5 * float(np.sum(g * Kg)) + float(hinge.sum()) + disagreement.value(f)
    gap = float(np.sum(hinge - a * short)) + disagreement.gap(f, v)
    # where the coefficients do not sum to zero, the biases are not accounted for
    gap += float(np.abs(b) @ np.abs(g.sum(axis=1)))
    free = (a > FREE * U) & (a < (1.0 - FREE) * U)
    convex = all(_is_positive(kernel[np.ix_(i, i)]) for kernel, i in zip(K, free, strict=True))
    return Agreement(g, b, objective, gap if convex else np.inf)


def _is_positive(K: Floats) -> bool:
    """Return whether K (m, m) has no eigenvalue that is negative enough to do harm."""
    try:
        np.linalg.cholesky(K + HARMLESS * np.trace(K) / max(len(K), 1) * np.eye(len(K)))
    except np.linalg.LinAlgError:
        return False
    return True
