"""What SVMs on kernel weights share: from data to kernels to solvers to attributes, and back.

`BaseMKLClassifier` is the base of the classifiers: a subclass says how one binary problem is solved
(`_solve`). Everything else, from validation to attributes, class and sample weights, one-vs-rest
and one-vs-one, and prediction, is here. The functions below it are what happens around a solver,
for classifiers and regressors alike.
"""

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from kernelquilt._messages import print_progress, quoted, warn_user
from kernelquilt._typing import Array, Bools, Floats, Numbers
from kernelquilt.core.in_step import in_step
from kernelquilt.core.limits import single_threaded_blas, unchanged_on_error
from kernelquilt.core.svm.factor_reading import read_together
from kernelquilt.core.svm.factors import Factors
from kernelquilt.core.svm.weighted_svm import svm_with_margins
from kernelquilt.core.weights.solution import (
    TINY,
    Options,
    Solution,
    Start,
    Step,
    Work,
    warn_unless_converged,
)
from kernelquilt.core.weights.solvers import certified_at, diagonals
from kernelquilt.data.low_rank import LowRankStack
from kernelquilt.data.training import (
    Labels,
    Samples,
    check_labels,
    check_samples,
    class_scores,
    classes_of,
    input_tags,
    moderate,
)
from kernelquilt.data.validation import check_alignment
from kernelquilt.data.views import MultiView
from kernelquilt.kernels.factor_input import FactorInput, coefficients
from kernelquilt.kernels.inputs import KernelInput, check_gram_memory, fit_input
from kernelquilt.kernels.products import kernel_products

LARGEST_PENALTY = 1e140  # for kernels of size 1; its square must not overflow


class BinaryProblem(NamedTuple):
    """One binary problem as arrays, or L of them that share the kernel weights.

    Attributes
    ----------
    K : ndarray of shape (M, n, n), or Factors
        Kernels, zero where absent.
    observed : ndarray of shape (n, M), bool
        True where a kernel observes a sample.
    y : ndarray of shape (n,), or (L, n)
        Labels -1 and +1.
    C : ndarray of the shape of y
        Penalty of each sample, 0 for those left out.
    sample_weight : ndarray of the shape of y
        How often each sample counts in a mean over the samples, 0 for those left out.
    extra : object, or None
        What a method needs beside the kernels: inputs of gates, or decompositions of the kernels.
    """

    K: Any
    observed: Bools
    y: Floats
    C: Floats
    sample_weight: Floats
    extra: Any = None

    @property
    def allowed(self) -> Bools:
        """Kernels that at least one sample that takes part has, shape (M,)."""
        used = np.atleast_2d(self.C > 0).any(axis=0)
        return np.asarray(self.observed[used].any(axis=0))


class Prepared(NamedTuple):
    """Training data after everything that does not depend on the parameters of the solver.

    Attributes
    ----------
    input : KernelInput
        What a classifier holds of the samples.
    K : ndarray of shape (M, n, n), or Factors
        Kernels, zero where absent.
    labels : Labels
        Classes and weights, 0 for samples without any view.
    extra : object, or None
        As in `BinaryProblem`.
    """

    input: KernelInput
    K: Any
    labels: Labels
    extra: Any = None


class BaseMKLClassifier(ClassifierMixin, BaseEstimator, ABC):
    """Base of the classifiers that learn from a stack of kernels."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "C": [Interval(Real, 0, np.inf, closed="neither")],
        "kernels": "no_validation",
        "views": "no_validation",
        "n_landmarks": [Interval(Integral, 1, None, closed="left"), None],
        "tol": [Interval(Real, 0, np.inf, closed="neither")],
        "multi_class": [StrOptions({"ovr", "ovo"})],
        "class_weight": [dict, StrOptions({"balanced"}), None],
        "n_jobs": [Integral, None],
        "verbose": ["verbose"],
    }
    _learned_weights_constraints: ClassVar[dict[str, Any]] = {
        **_parameter_constraints,
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "weights": [StrOptions({"per_class", "shared"})],
        "C_weights": [Interval(Real, 0, np.inf, closed="neither"), None],
    }

    # what holds for classifiers that do not have these parameters
    weights: str = "per_class"
    C_weights: float | None = None
    n_landmarks: int | None = None

    _takes_factors: ClassVar[bool] = False
    _shares_passes: ClassVar[bool] = True  # over factors, with others of a path
    _shares_subsets: ClassVar[bool] = True  # takes `ViewSubsets`
    input_: KernelInput
    _same_weights_for_all: ClassVar[bool] = True  # samples have the same kernel weights
    _penalty: ClassVar[str] = "C"  # the parameter that a path varies first
    # what the kernels depend on, and a path of solves cannot vary
    _data_parameters: ClassVar[frozenset[str]] = frozenset({"kernels", "views", "n_landmarks"})

    @abstractmethod
    def _solve(self, problem: BinaryProblem, options: Options) -> Solution:
        """Solve one binary problem; must not change the estimator."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Fit the classifier.

        Parameters
        ----------
        X : array-like of shape (n, n_features), DataFrame, MultiView, KernelStack or LowRankStack
            Training samples. Absent views are rows of NaN, or not observed in the container.
        y : array-like of shape (n,)
            Class labels.
        sample_weight : array-like of shape (n,), default=None
            Factors on the penalty of each sample. A class without samples of positive weight that
            have a view takes no part: it is among `classes_`, but is never predicted.

        Returns
        -------
        self : object
            The fitted classifier.
        """
        self._validate_params()
        with unchanged_on_error(self), single_threaded_blas():
            data = self._prepare(X, y, sample_weight)
            self._take(data)
            self._solve_and_store(data)
        return self

    def _prepare(self, X: Any, y: Any, sample_weight: Any) -> Prepared:
        """Check the data and compute the kernels."""
        data = check_samples(self, X)
        labels = check_labels(self, data, y, sample_weight)
        labels = labels._replace(weight=moderate(labels.weight))
        labels.check_two_classes(self)
        held = self._fit_input(data, labels.weight)
        K, observed = self._training_gram(held, data)
        labels = labels.without_empty(self, observed)
        return Prepared(held, K, labels, self._extra(held, data, K, labels.weight))

    def _fit_input(self, data: Samples, weight: Floats) -> KernelInput:
        """Return what the classifier is to hold of the training samples."""
        return hold_samples(self, data, weight, self._arrays_beside)

    def _training_gram(self, held: KernelInput, data: Samples) -> tuple[Numbers, Bools]:
        """Return the kernels (M, n, n) that the solver needs, and the mask (n, M)."""
        return held.training_gram(data)

    @staticmethod
    def _arrays_beside(n_kernels: int) -> float:
        """Return how many (n, n) arrays a fit holds at a time beside the kernels."""
        return 2.0

    def _extra(self, held: KernelInput, data: Samples, K: Numbers, weight: Floats) -> Any:
        """Return what the solver needs of the samples beside their kernels."""
        return None

    def _take(self, data: Prepared) -> None:
        """Keep what prediction needs of the training data."""
        forget_factors(self)
        data.input.describe(self)
        self.classes_ = data.labels.classes
        self._active_classes = data.labels.active

    def _solve_and_store(self, data: Prepared, starts: list[Start] | None = None) -> list[Solution]:
        """Solve the binary problems, each from its start, and return what gave the weights."""
        return self._keep(data, run_solvers(self._solvers(data, starts), data.K, self.n_jobs))

    def _solvers(
        self, data: Prepared, starts: list[Start] | None = None
    ) -> list[Callable[[], tuple[Solution, Solution]]]:
        """Return what solves the binary problems, each from its start."""
        labels = data.labels
        signs = list(labels.signs(self.multi_class))
        if len(signs) > 1 and self.weights == "shared":
            signs = [np.array(signs)]
        penalty = self._penalties(data)
        larger = 1.0 if self.C_weights is None else max(1.0, self.C_weights / self.C)
        check_penalties(larger * penalty, data.K)
        problems = [
            BinaryProblem(
                data.K,
                data.input.observed,
                sign,
                np.where(sign == 0.0, 0.0, penalty),
                np.where(sign == 0.0, 0.0, labels.weight),
                extra=data.extra,
            )
            for sign in signs
        ]
        starts = [Start()] * len(problems) if starts is None else starts
        options = [
            solver_options(self, start, number, len(problems))
            for number, start in enumerate(starts)
        ]
        return [partial(self._learn, *each) for each in zip(problems, options, strict=True)]

    def _keep(self, data: Prepared, fits: list[tuple[Solution, Solution]]) -> list[Solution]:
        """Store what the solvers of the binary problems found, and return what gave the weights."""
        learned = [weights for weights, _ in fits]
        self.input_ = data.input
        self._store([final for _, final in fits])
        store_coefficients(self, data.K)
        forget_others(self)
        self.converged_ = all(solution.converged for stages in fits for solution in stages)
        warn_if_indefinite(self, learned)
        # the last SVM is another one where the weights were learned with another penalty
        self._warn_unless_converged(learned + [last for first, last in fits if last is not first])
        return [
            first if last is first else replace(first, reach=np.inf)  # its bounds are others
            for first, last in fits
        ]

    def _keep_again(self, data: Prepared, solutions: list[Solution]) -> None:
        """Store solutions of binary problems that were found before."""
        self._keep(data, [(solution, solution) for solution in solutions])

    def _warn_unless_converged(self, solutions: list[Solution]) -> None:
        warn_unless_converged(type(self).__name__, solutions, solve_cap(self))

    def _learn(self, problem: BinaryProblem, options: Options) -> tuple[Solution, Solution]:
        """Return the solution that gives the kernel weights, and the one to predict with."""
        penalty = self.C_weights
        if penalty is None:
            solution = self._solve(problem, options)
            return solution, solution
        learned = self._solve(problem._replace(C=problem.C * (penalty / self.C)), options)
        return learned, svm_at_weights(problem, learned)

    def decision_function(self, X: Any) -> Floats:
        """Return the scores of samples.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features), DataFrame, MultiView or KernelStack
            Samples in the form of the training samples; a stack has the same kernels, either
            sliced from the training stack or with the training samples as its columns.

        Returns
        -------
        scores : ndarray of shape (n_rows,), or (n_rows, n_classes) if multi-class
            Positive for ``classes_[1]`` if binary; the largest decides otherwise. A sample
            without any observed view gets the intercept.
        """
        check_is_fitted(self, "dual_coef_")
        rows = self.input_.rows(self, X)
        n_classes = len(self.classes_)
        with single_threaded_blas():
            parts = self.input_.parts(rows, self.dual_coef_.shape[-1])
            scores = np.concatenate([self._scores(part) for part in parts])
        if n_classes == 2:
            return scores[:, 0]
        return class_scores(scores, self._active_classes, n_classes, self.multi_class)

    def predict(self, X: Any) -> Array:
        """Return the class of samples.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features), DataFrame, MultiView or KernelStack
            As in `decision_function`.

        Returns
        -------
        y : ndarray of shape (n_rows,)
            Class labels.
        """
        return classes_of(self.decision_function(X), self.classes_)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy of predictions.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features), DataFrame, MultiView or KernelStack
            As in `predict`.
        y : array-like of shape (n_rows,)
            True labels; refused if their index has the samples of X in another order.
        sample_weight : array-like of shape (n_rows,), optional
            How much each sample counts, equally by default.

        Returns
        -------
        score : float
            Share of samples whose class is predicted.
        """
        check_alignment(X, y, "y")
        return float(super().score(X, y, sample_weight))

    def _scores(self, rows: Any) -> Floats:
        """Return the scores of all problems, shape (n_rows, n_problems)."""
        return weighted_scores(self, rows)

    def _penalties(self, data: Prepared) -> Floats:
        """Return the penalty of each sample."""
        labels = data.labels
        return self.C * labels.factors(self.class_weight) * labels.weight

    def _store(self, solutions: list[Solution]) -> None:
        store_solutions(self, solutions)

    def __sklearn_tags__(self) -> Any:
        return input_tags(self, super().__sklearn_tags__())


def svm_at_weights(problem: BinaryProblem, learned: Solution) -> Solution:
    """Solve the SVM on kernels whose weights were learned, perhaps with other penalties.

    The effort spent on the weights is counted in what is returned.
    """
    svm = svm_with_margins(problem.K, problem.y, problem.C)
    options = Options(learned.tol, start=Start(dual_coef=learned.dual_coef))
    solution = certified_at(svm, learned.weights, options)
    work = learned.work + solution.work
    return replace(solution, n_iter=learned.n_iter, work=work, history=learned.history)


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
