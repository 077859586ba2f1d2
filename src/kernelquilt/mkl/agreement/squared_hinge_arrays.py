"""Between arrays and Solutions and the problem that :mod:`.squared_hinge` solves."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kernelquilt._typing import Floats
from kernelquilt.core.weights.solution import Solution, Work
from kernelquilt.mkl.agreement.averaging import check_penalties
from kernelquilt.mkl.agreement.spectra import SpectrumStore
from kernelquilt.mkl.agreement.squared_hinge import AgreementProblem, Minimum, Outputs


def as_problem(
    K: Any, y: Floats, observed: Any, c: ArrayLike, lam: float, sample_weight: Floats | None
) -> tuple[SpectrumStore, AgreementProblem]:
    """Return the problem of `solve_mhks`, and where its decompositions are kept."""
    if isinstance(K, SpectrumStore):
        store = K
    else:
        everywhere = np.ones((len(y), len(K)), dtype=np.bool_)
        store = SpectrumStore(K, everywhere if observed is None else observed)
    penalties = check_penalties(c, lam, store.observed.shape[1])
    weight = np.ones(len(y)) if sample_weight is None else np.asarray(sample_weight, np.float64)
    views = store.weighted(weight)
    return store, AgreementProblem(views, y[views.used], penalties, float(lam))


def as_outputs(problem: AgreementProblem, dual_coef: Floats, view_intercepts: Floats) -> Outputs:
    """Return functions given by coefficients and biases, in weighted values."""
    at = problem.zero()
    for l, one in enumerate(problem.views.spectra):
        # coefficients of a positive part do not determine those that the spectrum refers to
        if one is None or one.positive is not None:
            continue
        root = problem.views.root[one.rows]
        coef = dual_coef[l, problem.views.used[one.rows]]
        inner = one.U.T @ (coef / root)
        mean = view_intercepts[l] + one.mean_row @ coef
        at.f[l, one.rows] = one.U @ (one.s * inner) + np.linalg.norm(root) * mean * one.q
        at.e[l, one.rows] = problem.c[l] * (one.U @ inner)
    return at


def as_solution(problem: AgreementProblem, minimum: Minimum, n: int, tol: float) -> Solution:
    """Return the functions as coefficients and biases, with zeros for samples left out."""
    views, M = problem.views, len(problem.c)
    dual_coef, biases = np.zeros((M, n)), np.zeros(M)
    trained = np.array([one is not None for one in views.spectra])
    indefinite = np.array([one is not None and one.positive is not None for one in views.spectra])
    for l, one in enumerate(views.spectra):
        if one is None:
            continue
        root = views.root[one.rows]
        inner = minimum.at.e[l, one.rows] / problem.c[l]
        mean = (one.q @ minimum.at.f[l, one.rows]) / np.linalg.norm(root)
        biases[l] = mean - one.mean_row @ (root * inner)
        if one.positive is not None:
            inner = one.positive @ (one.positive.T @ inner)
        dual_coef[l, views.used[one.rows]] = root * inner
    return Solution(
        weights=trained / np.count_nonzero(trained),
        dual_coef=dual_coef,
        intercept=float(biases[trained].mean()),
        objective=minimum.objective,
        dual_bound=minimum.bound,
        tol=tol,
        n_iter=len(minimum.history),
        work=Work(minimum.n_passes),
        history=minimum.history,
        residual=minimum.gradient,
        indefinite=indefinite,
        view_intercepts=biases,
    )
