"""What happens around a solver, for classifiers and regressors alike: options, results, scores."""

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs

from kernelquilt._messages import print_progress, quoted, warn_user
from kernelquilt._typing import Floats, Numbers
from kernelquilt.core.in_step import in_step
from kernelquilt.core.solution import TINY, Options, Solution, Start, Step, Work
from kernelquilt.core.svm.factor_reading import read_together
from kernelquilt.core.svm.factors import Factors
from kernelquilt.core.weights.solvers import diagonals
from kernelquilt.data.low_rank import LowRankStack
from kernelquilt.data.views import MultiView
from kernelquilt.kernels.factor_input import FactorInput, coefficients
from kernelquilt.kernels.inputs import KernelInput, Samples, check_gram_memory, fit_input
from kernelquilt.kernels.products import kernel_products

LARGEST_PENALTY = 1e140  # for kernels of size 1; its square must not overflow


def hold_samples(
    model: Any, data: Samples, weight: Floats, arrays_beside: Callable[[int], float]
) -> KernelInput:
    """Return what a model is to hold of its training samples: factors of kernels, or kernels.

    `arrays_beside` is how many (n, n) arrays a fit holds at a time beside so many kernels.
    """
    if isinstance(data, LowRankStack) or (
        model.n_landmarks is not None and isinstance(data, MultiView)
    ):
        return FactorInput(model, data)
    check_gram_memory(model, data, arrays_beside)
    return fit_input(model, data, weight)


def forget_factors(model: Any) -> None:
    """Remove what an earlier fit on factors has left."""
    for name in ("coef_", "explained_trace_"):
        model.__dict__.pop(name, None)


def store_coefficients(model: Any, K: Any) -> None:
    """Keep the functions of a model in the columns of the factors, if there are factors."""
    if isinstance(K, Factors):
        # functions of the kernels' own are not weighted
        weights = None if model.dual_coef_.ndim == 3 else np.atleast_2d(model.weights_)
        model.coef_ = coefficients(K, model.dual_coef_, weights)


def run_solvers(solvers: Sequence[Callable[[], Any]], K: Any, n_jobs: int | None) -> list[Any]:
    """Return the results of solvers on kernels, or factors, in so many threads.

    On factors those of a thread run in step, so that they share the passes.
    """
    parallel = Parallel(n_jobs=n_jobs, prefer="threads")
    if not isinstance(K, Factors):
        return list(parallel(delayed(solver)() for solver in solvers))
    step = min(effective_n_jobs(n_jobs), len(solvers))
    results: list[Any] = [None] * len(solvers)
    parts = parallel(delayed(in_step)(solvers[k::step], read_together) for k in range(step))
    for k, part in enumerate(parts):
        results[k::step] = part
    return results


def solver_options(model: Any, start: Start, number: int = 0, n_problems: int = 1) -> Options:
    """Return what a model asks of the solver of one of its problems."""
    name = f" {number + 1}/{n_problems}" if n_problems > 1 else ""
    return Options(model.tol, solve_cap(model), start, progress_reporter(model, name))


def solve_cap(model: Any) -> int:
    """Return the cap on the solves of each problem."""
    # an attribute max_iter that is no parameter is more than scikit-learn's checks can take
    return int(model.get_params(deep=False).get("max_iter", sys.maxsize))


def progress_reporter(model: Any, what: str = "") -> Callable[[Step], None] | None:
    """Return what prints the steps of a solver if the model is verbose; `what` names a part."""
    if not model.verbose:
        return None
    name = type(model).__name__ + what

    def report(step: Step) -> None:
        relative = step.gap / max(abs(step.objective), TINY)
        print_progress(name, f"solve {step.n_solves}", step.objective, "relative gap", relative)

    return report


def store_solutions(model: Any, solutions: list[Solution]) -> None:
    """Keep solutions, one of each problem, as attributes of a model."""
    model.dual_coef_ = np.vstack([solution.dual_coef for solution in solutions])
    model.intercept_ = np.concatenate([np.ravel(solution.intercept) for solution in solutions])
    model.n_support_ = np.count_nonzero(model.dual_coef_, axis=1)
    model.weights_ = gathered(solutions, "weights")
    if len(model.intercept_) > len(solutions):
        model.weights_ = np.tile(model.weights_, (len(model.intercept_), 1))
    model.objective_ = gathered(solutions, "objective")
    model.duality_gap_ = gathered(solutions, "duality_gap")
    model.n_iter_ = max(solution.n_iter for solution in solutions)
    work = sum((solution.work for solution in solutions), Work())
    model.n_solves_, model.n_smo_iter_ = work.n_solves, work.n_smo_iter
    model.n_passes_ = work.n_passes
    model.history_ = [solution.history for solution in solutions]


def forget_others(model: Any) -> None:
    """Let a model forget the training samples whose duals are all zero."""
    duals = model.dual_coef_
    model.input_ = model.input_.supported_by(duals.any(axis=tuple(range(duals.ndim - 1))))


def gathered(solutions: Sequence[Solution], name: str) -> Any:
    """Return an attribute of solutions, stacked along a first axis unless there is only one."""
    values = np.array([getattr(solution, name) for solution in solutions])
    return values[0] if len(solutions) == 1 else values


def warn_if_indefinite(model: Any, solutions: list[Solution]) -> None:
    """Say so where the duals prove that a kernel is not positive semi-definite."""
    proved = np.zeros(len(model.kernel_names_), dtype=np.bool_)
    for solution in solutions:
        proved |= solution.indefinite
    names = [name for name, bad in zip(model.kernel_names_, proved, strict=True) if bad]
    if names:
        warn_user(
            f"not positive semi-definite, so that the duality gap certifies nothing: "
            f"{quoted(names)}; see KernelStack.check_psd, and choose another kernel or "
            "clip its negative eigenvalues"
        )


def weighted_scores(model: Any, rows: Any) -> Floats:
    """Return the scores of samples by all problems of a model, shape (n_rows, n_problems)."""
    weights = np.atleast_2d(model.weights_)
    needed = np.asarray(weights.any(axis=0))
    scores = np.tile(model.intercept_, (len(rows), 1))
    if isinstance(model.input_, FactorInput):  # whose coefficients are weighted
        right = [coef.T if use else None for coef, use in zip(model.coef_, needed, strict=True)]
        weights = np.ones_like(weights)
    else:
        right = [model.dual_coef_.T if use else None for use in needed]
    for m, product in kernel_products(model.input_, rows, right):
        scores += product * weights[:, m]
    return scores


def check_penalties(penalty: Floats, K: Numbers | Factors) -> None:
    """Refuse penalties (n,) at which ``b'K_p b`` of duals at their bounds leaves all numbers."""
    diag = K.diag if isinstance(K, Factors) else diagonals(K)
    size = float(np.abs(diag).max(initial=1.0))
    largest = LARGEST_PENALTY / np.sqrt(size)
    if penalty.max() > largest:
        raise ValueError(
            f"the largest penalty of {len(penalty)} samples, C times their weights, is "
            f"{penalty.max():.3g}, above the {largest:.3g} that can be computed with; lower C, "
            "from some size on it means that no error is allowed"
        )
