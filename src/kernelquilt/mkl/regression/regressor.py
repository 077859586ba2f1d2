"""What the kernel regressors share: from data to kernels to one problem, and back.

A subclass says over which kernel weights the problem is solved (`_weight_set`).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from kernelquilt._messages import warn_user
from kernelquilt._typing import Bools, Floats, Numbers
from kernelquilt.core.limits import single_threaded_blas, unchanged_on_error
from kernelquilt.core.svm.factors import Factors
from kernelquilt.core.weights.solution import Options, Solution, Start, warn_unless_converged
from kernelquilt.data.training import (
    as_numbers,
    check_samples,
    check_targets,
    explained_share,
    input_tags,
    moderate,
    weights_of_seen,
)
from kernelquilt.data.validation import check_alignment
from kernelquilt.kernels.inputs import KernelInput
from kernelquilt.mkl.fitting import (
    forget_factors,
    forget_others,
    hold_samples,
    run_solvers,
    solve_cap,
    solver_options,
    store_coefficients,
    store_solutions,
    warn_if_indefinite,
    weighted_scores,
)
from kernelquilt.mkl.regression.solver import solve_mkl_regression


class PreparedTargets(NamedTuple):
    """Training data after everything that does not depend on the parameters of the solver.

    Attributes
    ----------
    input : KernelInput
        What a regressor holds of the samples.
    K : ndarray of shape (M, n, n), or Factors
        Kernels, zero where absent.
    y : ndarray of shape (n,)
        Targets.
    weight : ndarray of shape (n,)
        Factors on the penalty, 0 for samples without any view.
    """

    input: KernelInput
    K: Numbers | Factors
    y: Floats
    weight: Floats

    @property
    def observed(self) -> Bools:
        """Which samples have which kernel, (n, M)."""
        return self.input.observed

    @property
    def allowed(self) -> Bools:
        """Kernels that at least one sample that takes part has, shape (M,)."""
        return np.asarray(self.observed[self.weight > 0].any(axis=0))


class BaseMKLRegressor(RegressorMixin, BaseEstimator, ABC):
    """Base of the regressors that learn from a stack of kernels."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "C": [Interval(Real, 0, np.inf, closed="neither")],
        "epsilon": [Interval(Real, 0, np.inf, closed="left")],
        "kernels": "no_validation",
        "views": "no_validation",
        "n_landmarks": [Interval(Integral, 1, None, closed="left"), None],
        "tol": [Interval(Real, 0, np.inf, closed="neither")],
        "verbose": ["verbose"],
    }
    _learned_weights_constraints: ClassVar[dict[str, Any]] = {
        **_parameter_constraints,
        "max_iter": [Interval(Integral, 1, None, closed="left")],
    }

    n_landmarks: int | None
    input_: KernelInput
    _takes_factors: ClassVar[bool] = True
    _shares_subsets: ClassVar[bool] = True  # takes `ViewSubsets`
    _shares_passes: ClassVar[bool] = True  # over factors, with others of a path
    _penalty: ClassVar[str] = "C"  # the parameter that a path varies first
    # what the kernels depend on, and a path of solves cannot vary
    _data_parameters: ClassVar[frozenset[str]] = frozenset({"kernels", "views", "n_landmarks"})

    @abstractmethod
    def _weight_set(self, data: PreparedTargets) -> Any:
        """Return where the kernel weights may lie, or the weights (M,) themselves."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Fit the regressor.

        Parameters
        ----------
        X : array-like of shape (n, n_features), DataFrame, MultiView, KernelStack or LowRankStack
            Training samples. Absent views are rows of NaN, or not observed in the container.
        y : array-like of shape (n,)
            Targets.
        sample_weight : array-like of shape (n,), default=None
            Factors on the penalty of each sample.

        Returns
        -------
        self : object
            The fitted regressor.
        """
        self._validate_params()
        with unchanged_on_error(self), single_threaded_blas():
            data = self._prepare(X, y, sample_weight)
            self._take(data)
            self._solve_and_store(data)
        return self

    def _prepare(self, X: Any, y: Any, sample_weight: Any) -> PreparedTargets:
        """Check the data and compute the kernels."""
        data = check_samples(self, X)
        y, weight = check_targets(self, data, y, sample_weight, as_numbers)
        weight = moderate(weight)
        held = hold_samples(self, data, weight, lambda _: 2.0)
        K, observed = held.training_gram(data)
        weight = weights_of_seen(weight, observed)
        if not weight.any():
            raise ValueError(
                f"{type(self).__name__} needs samples with an observed view and positive weight; "
                f"none of {len(weight)} samples is one"
            )
        return PreparedTargets(held, K, y, weight)

    def _take(self, data: PreparedTargets) -> None:
        """Keep what prediction needs of the training data."""
        forget_factors(self)
        data.input.describe(self)

    def _solve_and_store(
        self, data: PreparedTargets, starts: list[Start] | None = None
    ) -> list[Solution]:
        """Solve the problem from its start, and return the solution as the only one of a list."""
        return self._keep(data, run_solvers(self._solvers(data, starts), data.K, None))

    def _solvers(
        self, data: PreparedTargets, starts: list[Start] | None = None
    ) -> list[Callable[[], Solution]]:
        """Return what solves the problem from its start, as the only one of a list."""
        start = Start() if starts is None else starts[0]
        return [partial(self._solve, data, solver_options(self, start))]

    def _keep(self, data: PreparedTargets, solutions: list[Solution]) -> list[Solution]:
        """Store the solution, the only one of a list, and return it."""
        _warn_if_trivial(self, data)
        self.input_ = data.input
        self._store(solutions[0])
        store_coefficients(self, data.K)
        forget_others(self)
        return solutions

    def _keep_again(self, data: PreparedTargets, solutions: list[Solution]) -> None:
        """Store a solution that was found before, the only one of a list."""
        self._keep(data, solutions)

    def _solve(self, data: PreparedTargets, options: Options) -> Solution:
        """Solve the problem; must not change the estimator."""
        return solve_mkl_regression(
            data.K,
            data.y,
            self._weight_set(data),
            C=self.C * data.weight,
            epsilon=self.epsilon,
            **options.keywords("weights", "dual_coef"),
        )

    def _store(self, solution: Solution) -> None:
        store_solutions(self, [solution])
        self.converged_ = solution.converged
        warn_if_indefinite(self, [solution])
        warn_unless_converged(type(self).__name__, [solution], solve_cap(self))

    def predict(self, X: Any) -> Floats:
        """Return the predictions for samples.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features), DataFrame, MultiView or KernelStack
            Samples in the form of the training samples; a stack has the same kernels, either
            sliced from the training stack or with the training samples as its columns.

        Returns
        -------
        y : ndarray of shape (n_rows,)
            A sample without any observed view gets the intercept.
        """
        check_is_fitted(self, "dual_coef_")
        rows = self.input_.rows(self, X)
        with single_threaded_blas():
            parts = self.input_.parts(rows, self.dual_coef_.shape[-1])
            return np.concatenate([self._scores(part) for part in parts])

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the R^2 of predictions.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features), DataFrame, MultiView or KernelStack
            As in `predict`.
        y : array-like of shape (n_rows,)
            True targets; refused if their index has the samples of X in another order.
        sample_weight : array-like of shape (n_rows,), optional
            How much each sample counts, equally by default.

        Returns
        -------
        score : float
            Share of the variance of the targets that is explained.
        """
        check_alignment(X, y, "y")
        return explained_share(y, self.predict(X), sample_weight)

    def _scores(self, rows: Any) -> Floats:
        """Return the predictions for some samples, shape (n_rows,)."""
        return weighted_scores(self, rows)[:, 0]

    def __sklearn_tags__(self) -> Any:
        return input_tags(self, super().__sklearn_tags__())


def _warn_if_trivial(model: BaseMKLRegressor, data: PreparedTargets) -> None:
    """Say so where a constant is within epsilon of all targets, which nothing can improve."""
    used = data.y[data.weight > 0]
    half = 0.5 * float(np.ptp(used))
    if len(used) > 1 and half <= model.epsilon:
        warn_user(
            f"the targets of {len(used)} samples are all between {used.min():g} and "
            f"{used.max():g}, within epsilon={model.epsilon:g} of their middle, which is what "
            f"{type(model).__name__} predicts for every sample; choose an epsilon below {half:g}"
        )
