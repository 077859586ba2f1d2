"""Paths of fits over C and other parameters of the solver, each started from its neighbour.

Checking the data, computing the kernels and cleaning them is done once per training set, whatever
the number of candidates; each candidate then starts from the weights and duals of the one before.
Every fit still ends with its own certificate, so a path gives the same models as independent fits,
to the tolerance of that certificate.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone

from kernelquilt.core.blas import single_threaded_blas
from kernelquilt.core.solution import Solution, Start
from kernelquilt.mkl.classifier import BaseMKLClassifier


def mkl_path(
    estimator: BaseMKLClassifier,
    X: Any,
    y: Any,
    *,
    Cs: ArrayLike,
    ps: ArrayLike | None = None,
    lams: ArrayLike | None = None,
    sample_weight: Any = None,
) -> list[Any]:
    """Fit a classifier for several values of C, and of p or lam if it has one, with warm starts.

    Parameters
    ----------
    estimator : classifier of this package
        Its other parameters hold for all fits; it is not changed.
    X, y, sample_weight
        As in `fit` of the classifier.
    Cs : array-like of shape (n_C,)
        Penalties `C`, or `c` of the MHKS family, fitted in this order; ascending is fastest.
    ps : array-like of shape (n_p,), default=None
        Exponents; all penalties are fitted for each of them.
    lams : array-like of shape (n_lam,), default=None
        Penalties `lam`; all of the others are fitted for each of them.

    Returns
    -------
    models : list of fitted classifiers
        One for each lam, p and C, C varying fastest. They share what they keep of the training
        data.

    Examples
    --------
    >>> import kernelquilt as kq
    >>> X, y = kq.datasets.load_example("wdbc")
    >>> models = kq.mkl_path(kq.SimpleMKLClassifier(), X, y, Cs=[0.1, 1, 10])
    >>> [model.C for model in models]
    [0.1, 1.0, 10.0]
    """
    _check_classifier(estimator)
    grid: list[dict[str, float]] = [{estimator._penalty: float(C)} for C in np.ravel(Cs)]
    for name, values in (("p", ps), ("lam", lams)):
        if values is not None:
            grid = [{name: float(value), **point} for value in np.ravel(values) for point in grid]
    if not grid:
        raise ValueError("Cs, ps and lams must hold at least one value each")
    # there and back, so that the next candidate is always a neighbour
    rows = np.arange(len(grid)).reshape(-1, np.size(Cs))
    if lams is not None:
        rows[1::2] = rows[1::2, ::-1]
    order = rows.ravel()
    fits = path_fits(estimator, X, y, [grid[k] for k in order], sample_weight)
    models = {int(k): model for k, (model, _) in zip(order, fits, strict=True)}
    return [models[k] for k in range(len(grid))]


def path_fits(
    estimator: BaseMKLClassifier,
    X: Any,
    y: Any,
    grid: Sequence[Mapping[str, Any]],
    sample_weight: Any,
) -> Iterator[tuple[BaseMKLClassifier, float]]:
    """Yield a fitted model and its seconds for each candidate, each started from the one before."""
    _check_classifier(estimator)
    first = clone(estimator)
    first._validate_params()
    begun = time.perf_counter()
    with single_threaded_blas():
        data = first._prepare(X, y, sample_weight)
    last: tuple[Mapping[str, Any], list[Solution]] | None = None
    for candidate in grid:
        model = clone(estimator).set_params(**candidate)
        model._validate_params()
        model._take(data)
        starts = None if last is None else _starts(*last, candidate)
        with single_threaded_blas():
            solutions = model._solve_and_store(data, starts)
        last = candidate, solutions
        yield model, time.perf_counter() - begun
        begun = time.perf_counter()


def _check_classifier(estimator: Any) -> None:
    if not isinstance(estimator, BaseMKLClassifier):
        raise ValueError(
            "a path is of classifiers of this package, got "
            f"{type(estimator).__name__}; MKLSearchCV takes pipelines that end with one too"
        )


def _starts(
    before: Mapping[str, Any], solutions: list[Solution], candidate: Mapping[str, Any]
) -> list[Start] | None:
    """Return where the binary problems of a candidate may start, None for nowhere.

    The weights carry over only if nothing but penalties change, because another exponent means
    another set of weights.
    """
    changed = {name for name in candidate if not _same(candidate[name], before.get(name))}
    own_functions = solutions[0].view_intercepts is not None
    if not changed <= ({"c", "lam"} if own_functions else {"C", "C_weights", "p", "r"}):
        return None
    same_set = changed <= {"C", "C_weights"}
    return [
        Start(solution.weights if same_set else None, solution.dual_coef, solution.view_intercepts)
        for solution in solutions
    ]


def _same(value: Any, other: Any) -> bool:
    # penalties may be arrays, one for each kernel
    return bool(np.array_equal(value, other))
