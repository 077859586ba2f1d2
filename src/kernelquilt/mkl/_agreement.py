"""What methods with a classifier per view share: how they are solved, stored and averaged."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from kernelquilt._validation import BoolArray
from kernelquilt.mkl._base import BaseMKLClassifier
from kernelquilt.optim.hinge_agreement import Agreement, Disagreement, agree
from kernelquilt.optim.agreement_terms import Margins
from kernelquilt.optim.machine import INNER_SHARE
from kernelquilt.optim.psd import PositivePart
from kernelquilt.optim.smo import solve_svm
from kernelquilt.solution import Solution, Step

Floats = NDArray[np.float64]

PASSES_PER_ITERATION = 8.0  # products with the kernels, and the system they are part of

# from the samples of some views (M', n'), the positions of the samples and the size of duals
MakeDisagreement = Callable[[BoolArray, NDArray[np.intp], float], Disagreement]


@dataclass(frozen=True, kw_only=True)
class ViewsSolution(Solution):
    """Solution with a classifier per view, whose `dual_coef` has shape (M, n).

    Attributes
    ----------
    intercepts : ndarray of shape (M,)
        Biases of the views; `intercept` is their mean.
    """

    intercepts: Floats


def solve_views(
    K: NDArray[np.floating],
    y: Floats,
    U: Floats,
    coupled: BoolArray,
    disagreement: MakeDisagreement,
    *,
    scale: Floats,
    tol: float,
) -> ViewsSolution:
    """Solve a problem of :mod:`kernelquilt.optim.hinge_agreement`, group by group of coupled views.

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
    ViewsSolution
    """
    allowed = (U > 0).any(axis=1)
    coef, intercepts = np.zeros(U.shape), np.zeros(len(K))
    objective = gap = n_passes = 0.0
    n_iter = n_smo_iter = 0
    indefinite = np.zeros(len(K), dtype=np.bool_)
    groups = list(_groups(U > 0, coupled))
    for views in groups:
        rows = np.flatnonzero((U[views] > 0).any(axis=0))
        if len(views) == 1:
            view = views[0]
            svm = solve_svm(
                K[[view]], y, 1.0, U[view], weights=scale[[view]], tol=INNER_SHARE * tol, exact=True
            )
            coef[view], intercepts[view] = svm.dual_coef, svm.intercept
            objective, gap = objective + svm.objective + svm.gap, gap + svm.gap
            n_smo_iter += svm.n_iter
            n_passes += svm.n_passes / len(K)
            indefinite[view] = svm.indefinite
        elif len(set(y[rows])) == 1:
            intercepts[views] = y[rows[0]]
        else:
            solved, indefinite[views] = _agree(
                scale[views, None, None] * K[np.ix_(views, rows, rows)],
                y[rows],
                U[np.ix_(views, rows)],
                lambda used, size, rows=rows: disagreement(used, rows, size),  # type: ignore[misc]
                tol,
            )
            coef[np.ix_(views, rows)], intercepts[views] = solved.g, solved.intercepts
            objective, gap = objective + solved.objective, gap + solved.gap
            n_iter = max(n_iter, solved.n_iter)
            n_passes += PASSES_PER_ITERATION * solved.n_iter * len(views) / len(K)
    return ViewsSolution(
        weights=np.asarray(allowed / np.count_nonzero(allowed)),
        dual_coef=scale[:, None] * coef,
        intercept=float(intercepts[allowed].mean()),
        intercepts=intercepts,
        objective=objective,
        dual_bound=objective - gap,
        tol=tol,
        n_iter=max(n_iter, 1),
        n_solves=len(groups),
        n_smo_iter=n_smo_iter,
        n_passes=n_passes,
        history=(Step(objective, gap, len(groups)),),
        indefinite=indefinite,
    )


def _groups(used: BoolArray, coupled: BoolArray) -> Iterator[NDArray[np.intp]]:
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
    disagreement: Callable[[BoolArray, float], Disagreement],
    tol: float,
) -> tuple[Agreement, BoolArray]:
    """Return the solution, and which kernels had to be made positive semi-definite for it."""
    used = U > 0
    size = 1.0 / max(float(np.einsum("lii->li", K)[used].mean()), 1e-300)

    def solution(K: Floats) -> Agreement:
        return agree(K, Margins(y, U, size), disagreement(used, size))

    found = solution(K)
    indefinite = np.zeros(len(K), dtype=np.bool_)
    if found.gap > tol * abs(found.objective):
        parts = [PositivePart.of(kernel) for kernel in K]
        indefinite = np.array([part is not None for part in parts])
        if indefinite.any():
            pairs = zip(K, parts, strict=True)
            found = solution(np.array([k if part is None else part.matrix() for k, part in pairs]))
    return found, indefinite


class ViewAverageClassifier(BaseMKLClassifier):
    """Base of the classifiers that average the outputs of the views that a sample has."""

    _same_weights_for_all: ClassVar[bool] = False
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        name: constraint
        for name, constraint in BaseMKLClassifier._parameter_constraints.items()
        if name != "C"
    }

    @property
    def _penalty(self) -> float:
        """Penalties are the factors by class and sample; the views have their own besides."""
        return 1.0

    def _store(self, solutions: list[Any]) -> None:
        super()._store(solutions)
        coef = np.array([solution.dual_coef for solution in solutions])
        intercepts = np.array([solution.intercepts for solution in solutions])
        single = len(solutions) == 1
        self.dual_coef_ = coef[0] if single else coef
        self.view_intercepts_ = intercepts[0] if single else intercepts
        self.n_support_ = np.count_nonzero(coef.any(axis=1), axis=1)

    def _scores(self, rows: Any) -> Floats:
        """Return the mean outputs of the views that the samples have, (n_rows, n_problems)."""
        n_problems = len(self.intercept_)
        coef = self.dual_coef_.reshape(n_problems, *self.dual_coef_.shape[-2:])
        intercepts = np.atleast_2d(self.view_intercepts_)
        taught = np.atleast_2d(self.weights_) > 0
        views = self.view_kernels_
        observed = rows.observed if views is None else views.kernel_observed(rows)
        total, count = np.zeros((len(rows), n_problems)), np.zeros((len(rows), n_problems))
        needed = np.asarray(taught.any(axis=0))
        kernels = self._kernels_of(rows, needed)
        for m, kernel in zip(np.flatnonzero(needed), kernels, strict=True):
            counts = observed[:, [m]] & taught[:, m]
            total += np.where(counts, kernel @ coef[:, m].T + intercepts[:, m], 0.0)
            count += counts
        return np.where(count > 0, total / np.maximum(count, 1.0), self.intercept_)
