"""The hinge loss in views that are made to agree, for every group of views that know each other."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
from scipy.sparse.csgraph import connected_components

from kernelquilt._typing import Bools, Floats, Indices, Numbers
from kernelquilt.core.psd import PositivePart
from kernelquilt.core.svm.weighted_svm import INNER_SHARE, solve_svm
from kernelquilt.core.weights.solution import Solution, Step, Work
from kernelquilt.mkl.agreement.interior_point import Agreement, Disagreement, agree

PASSES_PER_ITERATION = 8.0  # products with the kernels, and the system they are part of

# from the samples of some views (M', n') and their positions
MakeDisagreement = Callable[[Bools, Indices], Disagreement]


def solve_views(
    K: Numbers,
    y: Floats,
    U: Floats,
    coupled: Bools,
    disagreement: MakeDisagreement,
    *,
    scale: Floats,
    tol: float,
) -> Solution:
    """Solve a problem of :mod:`.interior_point`, group by group of coupled views.

    Views that no sample has in common do not know of each other. A view alone is an SVM.

    Parameters
    ----------
    K : ndarray of shape (M, n, n)
        Kernels, zero where absent.
    y : ndarray of shape (n,)
        Labels -1 and +1.
    U : ndarray of shape (M, n)
        Penalties of the margins, 0 for samples that a view lacks or that are left out.
    coupled : ndarray of shape (n,), bool
        Samples whose views are made to agree.
    disagreement : callable
        Returns the term for some views and some of the samples.
    scale : ndarray of shape (M,)
        Factors on the kernels.
    tol : float
        Relative duality gap.

    Returns
    -------
    Solution
    """
    allowed = (U > 0).any(axis=1)
    coef, intercepts = np.zeros(U.shape), np.zeros(len(K))
    objective = gap = 0.0
    n_iter = 0
    indefinite = np.zeros(len(K), dtype=np.bool_)
    groups = list(_groups(U > 0, coupled))
    work = Work(len(groups))
    for views in groups:
        rows = np.flatnonzero((U[views] > 0).any(axis=0))
        if len(views) == 1:
            view = views[0]
            svm = solve_svm(
                K[[view]], y, 1.0, U[view], weights=scale[[view]], tol=INNER_SHARE * tol, exact=True
            )
            coef[view], intercepts[view] = svm.dual_coef, svm.intercept
            objective, gap = objective + svm.objective + svm.gap, gap + svm.gap
            work += Work(n_smo_iter=svm.n_iter, n_passes=svm.n_passes / len(K))
            indefinite[view] = svm.indefinite
        elif len(set(y[rows])) == 1:
            intercepts[views] = y[rows[0]]
        else:
            solved, indefinite[views] = _agree(
                scale[views, None, None] * K[np.ix_(views, rows, rows)],
                y[rows],
                U[np.ix_(views, rows)],
                disagreement(U[np.ix_(views, rows)] > 0, rows),
                tol,
            )
            coef[np.ix_(views, rows)], intercepts[views] = solved.g, solved.intercepts
            objective, gap = objective + solved.objective, gap + solved.gap
            n_iter = max(n_iter, solved.n_iter)
            passes = PASSES_PER_ITERATION * solved.n_iter * len(views) / len(K)
            work += Work(n_passes=passes)
    return Solution(
        weights=np.asarray(allowed / np.count_nonzero(allowed)),
        dual_coef=scale[:, None] * coef,
        intercept=float(intercepts[allowed].mean()),
        view_intercepts=intercepts,
        objective=objective,
        dual_bound=objective - gap,
        tol=tol,
        n_iter=max(n_iter, 1),
        work=work,
        history=(Step(objective, gap, len(groups)),),
        indefinite=indefinite,
    )


def _groups(used: Bools, coupled: Bools) -> Iterator[Indices]:
    """Yield the views (positions) that are made to agree with each other, if only by others."""
    common = used[:, coupled].astype(np.float64)
    n_groups, group = connected_components(common @ common.T > 0, directed=False)
    for number in range(n_groups):
        views = np.flatnonzero(group == number)
        if used[views].any():
            yield views


def _agree(
    K: Floats,
    y: Floats,
    U: Floats,
    disagreement: Disagreement,
    tol: float,
) -> tuple[Agreement, Bools]:
    """Return the solution, and which kernels had to be made positive semi-definite for it."""
    found = agree(K, y, U, disagreement)
    indefinite = np.zeros(len(K), dtype=np.bool_)
    if found.gap > tol * abs(found.objective):
        parts = [PositivePart.of(kernel) for kernel in K]
        indefinite = np.array([part is not None for part in parts])
        if indefinite.any():
            pairs = list(zip(K, parts, strict=True))
            positive = np.array([k if part is None else part.matrix() for k, part in pairs])
            found = agree(positive, y, U, disagreement)
            # new samples come with the kernels as they were given, of which P g takes the
            # positive part
            g = [
                each if part is None else part.vectors @ (part.vectors.T @ each)
                for each, part in zip(found.g, parts, strict=True)
            ]
            found = replace(found, g=np.where(U > 0, g, 0.0))
    return found, indefinite
