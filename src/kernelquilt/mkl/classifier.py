"""What the kernel classifiers share: from data to kernels to binary problems, and back.

A subclass says how one binary problem is solved (`_solve`). Everything else, from validation to
attributes, class and sample weights, one-vs-rest and one-vs-one, and prediction, is here.
"""

import warnings
from abc import abstractmethod
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from kernelquilt._messages import print_progress, quoted, unchanged_on_error
from kernelquilt._typing import Bools, Floats, Indices, Numbers
from kernelquilt.core.blas import single_threaded_blas
from kernelquilt.core.solution import TINY, Solution, Step, warn_unless_converged
from kernelquilt.data.stack import KernelStack
from kernelquilt.data.views import MultiView
from kernelquilt.mkl.doors import ClassifierDoor
from kernelquilt.mkl.multiclass import (
    BinaryProblem,
    Prepared,
    Start,
    signs_of,
    svm_at_weights,
    votes_of,
)


class BaseMKLClassifier(ClassifierDoor, ClassifierMixin, BaseEstimator):
    """Base of the classifiers that learn from a stack of kernels."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "C": [Interval(Real, 0, np.inf, closed="neither")],
        "kernels": "no_validation",
        "views": "no_validation",
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

    _same_weights_for_all: ClassVar[bool] = True  # samples have the same kernel weights
    _penalty: ClassVar[str] = "C"  # the parameter that a path varies first
    # what the kernels depend on, and a path of solves cannot vary
    _data_parameters: ClassVar[frozenset[str]] = frozenset({"kernels", "views"})

    @abstractmethod
    def _solve(self, problem: BinaryProblem, on_step: Callable[[Step], None] | None) -> Solution:
        """Solve one binary problem; must not change the estimator."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Fit the classifier.

        Parameters
        ----------
        X : array-like of shape (n, n_features), DataFrame, MultiView or KernelStack
            Training samples. Absent views are rows of NaN, or not observed in the container.
        y : array-like of shape (n,)
            Class labels.
        sample_weight : array-like of shape (n,), default=None
            Factors on the penalty of each sample.

        Returns
        -------
        self : object
            The fitted classifier.
        """
        self._validate_params()
        with unchanged_on_error(self), single_threaded_blas():
            self._solve_and_store(self._prepare(X, y, sample_weight))
        return self

    def _prepare(self, X: Any, y: Any, sample_weight: Any) -> Prepared:
        """Check the data, compute the kernels, and keep what prediction needs of them."""
        data = self._check_training_data(X)
        y, weight = self._check_targets(data, y, sample_weight)
        classes, codes = np.unique(y, return_inverse=True)
        self._check_two_classes(classes, codes, weight)
        K, observed = self._training_gram(data, weight)
        self.classes_ = classes
        weight = self._without_empty(codes, weight, observed)
        features = self._gate_features(data, K, observed, weight)
        return Prepared(K, observed, classes, codes, weight, features)

    def _solve_and_store(self, data: Prepared, starts: list[Start] | None = None) -> list[Solution]:
        """Solve the binary problems, each from its start, and return what gave the weights."""
        signs = list(signs_of(data.codes, len(data.classes), self.multi_class))
        if len(signs) > 1 and getattr(self, "weights", "per_class") == "shared":
            signs = [np.array(signs)]
        penalty = self._penalties(data)
        problems = [
            BinaryProblem(
                data.K,
                data.observed,
                sign,
                np.where(sign == 0.0, 0.0, penalty),
                np.where(sign == 0.0, 0.0, data.sample_weight),
                features=data.features,
            )
            for sign in signs
        ]
        if starts is not None:
            problems = [
                problem._replace(start=start)
                for problem, start in zip(problems, starts, strict=True)
            ]
        fits: list[tuple[Solution, Solution]] = Parallel(n_jobs=self.n_jobs, prefer="threads")(
            delayed(self._learn)(problem, self._reporter(number, len(problems)))
            for number, problem in enumerate(problems)
        )
        learned = [weights for weights, _ in fits]
        self._store([final for _, final in fits])
        self.converged_ = all(solution.converged for stages in fits for solution in stages)
        self._warn_if_indefinite(learned)
        self._warn_unless_converged(learned)
        return learned

    def _warn_unless_converged(self, solutions: list[Solution]) -> None:
        warn_unless_converged(type(self).__name__, solutions, getattr(self, "max_iter", None))

    def _learn(
        self, problem: BinaryProblem, on_step: Callable[[Step], None] | None
    ) -> tuple[Solution, Solution]:
        """Return the solution that gives the kernel weights, and the one to predict with."""
        penalty = getattr(self, "C_weights", None)
        if penalty is None:
            solution = self._solve(problem, on_step)
            return solution, solution
        learned = self._solve(problem._replace(C=problem.C * (penalty / self.C)), on_step)
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
        rows = self._check_rows(X)
        n_classes = len(self.classes_)
        with single_threaded_blas():
            scores = np.concatenate([self._scores(part) for part in self._parts_of(rows)])
        if n_classes == 2:
            return scores[:, 0]
        return scores if self.multi_class == "ovr" else votes_of(scores, n_classes)

    def _gate_features(
        self,
        data: MultiView | KernelStack,
        K: Numbers,
        observed: Bools,
        weight: Floats,
    ) -> Any:
        """Return what a subclass has to know of the samples beside their kernels."""
        return None

    @property
    def _entries_per_row(self) -> int:
        return int(self.dual_coef_.shape[-1])

    def _scores(self, rows: Any) -> Floats:
        """Return the scores of all problems, shape (n_rows, n_problems)."""
        weights = np.atleast_2d(self.weights_)
        needed = np.asarray(weights.any(axis=0))
        scores = np.tile(self.intercept_, (len(rows), 1))
        kernels = self._kernels_of(rows, needed)
        for m, kernel in zip(np.flatnonzero(needed), kernels, strict=True):
            scores += (kernel @ self.dual_coef_.T) * weights[:, m]
        return scores

    def _kernel_sizes(self, X: Any) -> tuple[Floats, float, Indices]:
        """Return norms of the functions, the largest k(x, x) and how many samples have a kernel.

        For a binary problem and the training samples X, in their order: shapes (M,), () and (M,).
        """
        if not self._same_weights_for_all:
            raise ValueError(
                f"the kernels of {type(self).__name__} have weights that depend on the sample, "
                "which this is not for"
            )
        rows = self._check_rows(X)
        n = self.dual_coef_.shape[-1]
        if len(rows) != n:
            raise ValueError(f"X has {len(rows)} samples, but the model was fitted on {n}")
        needed = np.ones(len(self.kernel_names_), dtype=np.bool_)
        coef = self.weights_[:, None] * np.broadcast_to(self.dual_coef_, (len(needed), n))
        norms, largest = np.zeros(len(needed)), 0.0
        for p, kernel in enumerate(self._kernels_of(rows, needed)):
            norms[p] = np.sqrt(max(float(coef[p] @ kernel @ coef[p]), 0.0))
            largest = max(largest, float(kernel.diagonal().max()))
        views = self.view_kernels_
        observed = rows.observed if views is None else views.kernel_observed(rows)
        return norms, largest, np.count_nonzero(observed, axis=0)

    def _penalties(self, data: Prepared) -> Floats:
        """Return the penalty of each sample."""
        return self.C * self._class_factors(data) * data.sample_weight

    def _class_factors(self, data: Prepared) -> Floats:
        """Return the class weight of each sample."""
        factor = self._factors_of_classes(data.classes, data.codes, data.sample_weight)
        return np.asarray(factor[data.codes])

    def _reporter(self, number: int, n_problems: int) -> Callable[[Step], None] | None:
        if not self.verbose:
            return None
        name = type(self).__name__ + (f" {number + 1}/{n_problems}" if n_problems > 1 else "")

        def report(step: Step) -> None:
            relative = step.gap / max(abs(step.objective), TINY)
            print_progress(name, f"solve {step.n_solves}", step.objective, "relative gap", relative)

        return report

    def _warn_if_indefinite(self, solutions: list[Solution]) -> None:
        """Say so where the duals prove that a kernel is not positive semi-definite."""
        proved = np.zeros(len(self.kernel_names_), dtype=np.bool_)
        for solution in solutions:
            proved |= solution.indefinite
        names = [name for name, bad in zip(self.kernel_names_, proved, strict=True) if bad]
        if names:
            warnings.warn(
                f"not positive semi-definite, so that the duality gap certifies nothing: "
                f"{quoted(names)}; see KernelStack.check_psd, and choose another kernel or "
                "clip its negative eigenvalues",
                UserWarning,
                stacklevel=4,
            )

    def _store(self, solutions: list[Solution]) -> None:
        def gathered(name: str) -> Any:
            values = np.array([getattr(solution, name) for solution in solutions])
            return values[0] if len(solutions) == 1 else values

        self.dual_coef_ = np.vstack([solution.dual_coef for solution in solutions])
        self.intercept_ = np.concatenate([np.ravel(solution.intercept) for solution in solutions])
        self.n_support_ = np.count_nonzero(self.dual_coef_, axis=1)
        self.weights_ = gathered("weights")
        if len(self.intercept_) > len(solutions):
            self.weights_ = np.tile(self.weights_, (len(self.intercept_), 1))
        self.objective_ = gathered("objective")
        self.duality_gap_ = gathered("duality_gap")
        self.n_iter_ = max(solution.n_iter for solution in solutions)
        self.n_solves_ = sum(solution.n_solves for solution in solutions)
        self.n_smo_iter_ = sum(solution.n_smo_iter for solution in solutions)
        self.n_passes_ = sum(solution.n_passes for solution in solutions)
        self.history_ = [solution.history for solution in solutions]
