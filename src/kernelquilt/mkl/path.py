"""Paths of fits over C and other parameters of the solver, which share most of the work.

Checking the data, computing the kernels and cleaning them is done once per training set, whatever
the number of candidates; each candidate then starts from the weights and duals of the one before.
Every fit still ends with its own certificate, so a path gives the same models as independent fits,
to the tolerance of that certificate. Where no dual comes to its bound, neither before nor with the
C of the next candidate, the model is the same and nothing is solved. On factors, where a start
saves little, the candidates run in step instead, and each pass over the factors serves all of them:
the models are those of independent fits, bit for bit.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone

from kernelquilt.core.limits import single_threaded_blas
from kernelquilt.core.svm.factors import Factors
from kernelquilt.core.weights.solution import Solution, Start, Work
from kernelquilt.mkl.fitting import BaseMKLClassifier, run_solvers
from kernelquilt.mkl.regression.regressor import BaseMKLRegressor

NEAR_BOUND = 1.0 - 1e-9  # share of its bound from which on a dual counts as being there

PathEstimator = BaseMKLClassifier | BaseMKLRegressor


def mkl_path(
    estimator: PathEstimator,
    X: Any,
    y: Any,
    *,
    Cs: ArrayLike,
    ps: ArrayLike | None = None,
    lams: ArrayLike | None = None,
    epsilons: ArrayLike | None = None,
    sample_weight: Any = None,
) -> list[Any]:
    """Fit for several values of C, and of p, lam or epsilon if there is one.

    On kernels each fit starts from the one before. On a `LowRankStack`, or with `n_landmarks`, all
    run in step, at most 32 binary problems at a time: a pass over the factors serves them all, and
    the models are those of separate fits to the last bit. MHKS classifiers start from the one
    before there too.

    Parameters
    ----------
    estimator : classifier or regressor of this package
        Its other parameters hold for all fits; it is not changed.
    X : array-like, DataFrame, MultiView, KernelStack or LowRankStack of n samples
        Training samples, as in the ``fit`` of the estimator.
    y : array-like of shape (n,)
        Class labels, or targets.
    Cs : array-like of shape (n_C,)
        Penalties `C`, or `c` of the MHKS family, fitted in this order; ascending is fastest on
        kernels.
    ps : array-like of shape (n_p,), default=None
        Exponents; all penalties are fitted for each of them.
    lams : array-like of shape (n_lam,), default=None
        Penalties `lam`; all of the others are fitted for each of them.
    epsilons : array-like of shape (n_epsilon,), default=None
        Errors that cost nothing to a regressor; all of the others are fitted for each of them.
    sample_weight : array-like of shape (n,), default=None
        As in the ``fit`` of the estimator.

    Returns
    -------
    models : list of fitted estimators
        One for each epsilon, lam, p and C, C varying fastest. They share what they keep of the
        training data. On factors, what one pass reads for several models is shared out among them
        in proportion to what each would have read: `n_passes_` summed over the models are the
        passes that were made.

    Examples
    --------
    >>> import kernelquilt as kq
    >>> X, y = kq.datasets.load_example("wdbc")
    >>> models = kq.mkl_path(kq.SimpleMKLClassifier(), X, y, Cs=[0.1, 1, 10])
    >>> [model.C for model in models]
    [0.1, 1.0, 10.0]
    """
    _check_estimator(estimator)
    grid: list[dict[str, float]] = [{estimator._penalty: float(C)} for C in np.ravel(Cs)]
    for name, values in (("p", ps), ("lam", lams), ("epsilon", epsilons)):
        if values is not None:
            grid = [{name: float(value), **point} for value in np.ravel(values) for point in grid]
    if not grid:
        raise ValueError("Cs, ps, lams and epsilons must hold at least one value each")
    # there and back, so that the next candidate is always a neighbour
    rows = np.arange(len(grid)).reshape(-1, np.size(Cs))
    if lams is not None or epsilons is not None:
        rows[1::2] = rows[1::2, ::-1]
    order = rows.ravel()
    fits = path_fits(estimator, X, y, [grid[k] for k in order], sample_weight)
    models = {int(k): model for k, (model, *_) in zip(order, fits, strict=True)}
    return [models[k] for k in range(len(grid))]


def path_fits(
    estimator: PathEstimator,
    X: Any,
    y: Any,
    grid: Sequence[Mapping[str, Any]],
    sample_weight: Any,
) -> Iterator[tuple[PathEstimator, float, bool]]:
    """Yield a fitted model, its seconds and whether it is another than the one before.

    On kernels each starts from the one before; on factors all are fitted in step.
    """
    _check_estimator(estimator)
    first = clone(estimator)
    first._validate_params()
    begun = time.perf_counter()
    with single_threaded_blas():
        data = first._prepare(X, y, sample_weight)
    models = [clone(estimator).set_params(**candidate) for candidate in grid]
    if isinstance(data.K, Factors) and estimator._shares_passes:
        _fit_in_step(models, data)
        seconds = (time.perf_counter() - begun) / len(models)
        yield from ((model, seconds, True) for model in models)
        return
    last: tuple[Mapping[str, Any], list[Solution]] | None = None
    for candidate, model in zip(grid, models, strict=True):
        model._validate_params()
        model._take(data)
        again = False
        if last is not None and (again := _is_same(*last, candidate)):
            model._keep_again(data, [replace(solution, work=Work()) for solution in last[1]])
        else:
            starts = None if last is None else _starts(*last, candidate)
            with single_threaded_blas():
                last = candidate, model._solve_and_store(data, starts)
        yield model, time.perf_counter() - begun, not again
        begun = time.perf_counter()


def _fit_in_step(models: list[Any], data: Any) -> None:
    """Fit models on factors, with passes that serve all of them."""
    for model in models:
        model._validate_params()
        model._take(data)
    solvers = [model._solvers(data) for model in models]
    with single_threaded_blas():
        fits = iter(run_solvers([*chain(*solvers)], data.K, getattr(models[0], "n_jobs", None)))
        for model, own in zip(models, solvers, strict=True):
            model._keep(data, [next(fits) for _ in own])


def _check_estimator(estimator: Any) -> None:
    if not isinstance(estimator, PathEstimator):
        raise ValueError(
            "a path is of MKL classifiers and regressors of this package, got "
            f"{type(estimator).__name__}; MKLSearchCV takes pipelines that end with one too"
        )


def _starts(
    before: Mapping[str, Any], solutions: list[Solution], candidate: Mapping[str, Any]
) -> list[Start] | None:
    """Return where the problems of a candidate may start, None for nowhere.

    The weights carry over only if nothing but the loss changes, because another exponent means
    another set of weights.
    """
    changed = _changed(before, candidate)
    own_functions = solutions[0].view_intercepts is not None
    if not changed <= ({"c", "lam"} if own_functions else {"C", "C_weights", "epsilon", "p", "r"}):
        return None
    same_set = changed <= {"C", "C_weights", "epsilon"}
    return [
        Start(solution.weights if same_set else None, solution.dual_coef, solution.view_intercepts)
        for solution in solutions
    ]


def _is_same(
    before: Mapping[str, Any], solutions: list[Solution], candidate: Mapping[str, Any]
) -> bool:
    """Return whether the problems of a candidate have the solutions of the one before."""
    reach = max(solution.reach for solution in solutions)
    certified = all(solution.distance <= solution.tol for solution in solutions)
    only_C = candidate.keys() == before.keys() and _changed(before, candidate) == {"C"}
    if reach >= NEAR_BOUND or not (certified and only_C):
        return False
    return bool(reach * before["C"] < NEAR_BOUND * candidate["C"])


def _changed(before: Mapping[str, Any], candidate: Mapping[str, Any]) -> set[str]:
    return {name for name in candidate if not _same(candidate[name], before.get(name))}


def _same(value: Any, other: Any) -> bool:
    # penalties may be arrays, one for each kernel
    return bool(np.array_equal(value, other))
