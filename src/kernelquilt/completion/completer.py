"""What the completers share: from a stack with absent samples to one without, and back for rows.

A subclass says how the training kernels are completed (`_complete`) and how new rows are
(`_complete_rows`). It meets neither kernels that no training sample has, which stay absent, nor
samples without any kernel: these get the mean feature vector of the observed training samples,

    phi_p(x) = sum_i w_pi phi_p(x_i),    w_pi = s_ip / n_p,

in every completed kernel p. Nothing here depends on how such samples are arranged in the stack.
"""

import sys
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from kernelquilt._messages import quoted, unchanged_on_error, warn_all_absent
from kernelquilt._typing import Bools, Floats, Kernel
from kernelquilt.core.blas import single_threaded_blas
from kernelquilt.core.memory import check_memory
from kernelquilt.data.stack import KernelStack, as_stack

FEW = 3  # samples from which on a kernel can be completed in earnest


def _not_empty(observed: Bools) -> tuple[Bools, Bools]:
    """Return which kernels have a sample, and which samples have a kernel."""
    return np.asarray(observed.any(axis=0)), np.asarray(observed.any(axis=1))


class BaseCompleter(TransformerMixin, BaseEstimator, ABC):
    """Base of the transformers that complete kernels."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {}
    _empty_get = "the mean of each kernel"
    # (n, n) arrays that completing takes at a time: for each kernel, and beside
    _arrays: ClassVar[tuple[float, float]] = (1.0, 3.0)

    @abstractmethod
    def _complete(self, K: Kernel, observed: Bools) -> None:
        """Complete training kernels in place and keep what `_complete_rows` needs.

        Parameters
        ----------
        K : ndarray of shape (M, n, n)
            Finite and zero where absent; of the kernels and samples that are not left out.
        observed : ndarray of bool of shape (n, M)
            With at least one entry in every row and column.
        """

    @abstractmethod
    def _complete_rows(self, K: Kernel, observed: Bools, diag: Floats | None) -> Floats | None:
        """Complete rows against the training samples in place and return their `diag`.

        Parameters
        ----------
        K : ndarray of shape (M, n_rows, n)
            Finite and zero where the row or the column is absent.
        observed : ndarray of bool of shape (n_rows, M)
            With at least one entry in every row.
        diag : ndarray of shape (M, n_rows) or None
            Similarity of each row with itself, zero where absent; None if it is not known.
        """

    def _warn_little_known(self, observed: Bools) -> None:
        """Warn about kernels of which too little is known by the training mask (n, M)."""

    def _arrays_needed(self) -> tuple[float, float]:
        """Return `_arrays`, or what a parameter makes of them."""
        return self._arrays

    def _empty_weights(self, observed: Bools) -> Floats:
        """Return the weights (M, n) that make the features of samples without any kernel."""
        return np.asarray((observed / observed.sum(axis=0)).T)

    def fit(self, X: Any, y: Any = None) -> Any:
        """Learn from the training kernels how absent entries are completed.

        Parameters
        ----------
        X : KernelStack of shape (n_train, M), or array-like of shape (n_train, n_train, M)
            Square.
        y : object, default=None
            Ignored.

        Returns
        -------
        self : object
        """
        self._fit(as_stack(X))
        return self

    def fit_transform(self, X: Any, y: Any = None) -> KernelStack:
        """Complete the training kernels.

        Parameters
        ----------
        X, y
            As in `fit`.

        Returns
        -------
        stack : KernelStack of shape (n_train, M)
            Square and observed throughout, but for kernels that no sample has.
        """
        stack = as_stack(X)
        K = self._fit(stack)
        return KernelStack._computed(K, self._filled(len(stack)), stack.names, square=True)

    def transform(self, X: Any) -> KernelStack:
        """Complete kernels between samples and the training samples.

        Parameters
        ----------
        X : KernelStack of shape (n_rows, M), or array-like of shape (n_rows, n_train, M)
            Rows of the stack that was given to `fit`, or a stack whose columns are the training
            samples, in order.

        Returns
        -------
        stack : KernelStack of shape (n_rows, M)
            Rectangular with n_train columns, observed throughout but for kernels that no
            training sample has. It has `diag` if that of `X` is known, or follows.
        """
        check_is_fitted(self, "training_rows_")
        stack, training = as_stack(X), self.training_rows_
        seen, known = _not_empty(training.observed)
        diag = stack.diag_of_rows(training)
        K = np.empty((seen.sum(), len(stack), known.sum()), dtype=stack.dtype)
        for out, kernel in zip(K, stack.cross_kernels(training, seen), strict=True):
            out[...] = kernel[:, known]
        observed = stack.observed[:, seen]
        if diag is not None:
            diag = np.where(observed.T, diag[seen], 0).astype(np.float64)
        with single_threaded_blas():
            diag = self._complete_and_fill_empty(K, observed, diag)
            K = self._with_empty_columns(K, seen, known)
        if diag is not None:
            own = np.zeros((len(seen), len(stack)), dtype=stack.dtype)
            own[seen] = diag
            diag = own
        return KernelStack._computed(
            K, self._filled(len(stack)), stack.names, square=False, diag=diag
        )

    def _fit(self, stack: KernelStack) -> Kernel:
        """Fit to a square stack and return its completed kernels (M, n_train, n_train)."""
        self._validate_params()
        with unchanged_on_error(self), single_threaded_blas():
            seen, known = _not_empty(stack.observed)
            if not seen.any():
                raise ValueError(
                    f"all {len(seen)} kernels are absent for all {len(known)} training samples; "
                    "nothing can be completed from nothing"
                )
            part = stack if known.all() else stack[known]
            per_kernel, beside = self._arrays_needed()
            needed = 8 * len(part) ** 2 * (per_kernel * seen.sum() + beside)
            check_memory(*part.shape, needed)
            K = np.empty((seen.sum(), len(part), len(part)), dtype=stack.dtype)
            outs = iter(K)
            for kernel, used in zip(part.training_kernels(), seen, strict=True):
                if used:
                    next(outs)[...] = kernel
            warn_all_absent(stack.observed, stack.names, "kernel")
            self._warn_empty(known, "training samples")
            self.training_rows_ = stack.training_rows
            self.n_features_in_ = len(stack.names)
            observed = part.observed[:, seen]
            self._warn_little_known(observed)
            try:
                self._complete(K, observed)
            except np.linalg.LinAlgError:
                part.check_psd()  # names the kernel at fault
                raise
            weights = self._empty_weights(observed)
            self._empty_rows = np.array([kernel @ w for kernel, w in zip(K, weights, strict=True)])
            self._empty_diag = (self._empty_rows * weights).sum(axis=1)
            if not known.all():
                whole = np.empty((len(K), len(known), len(part)), dtype=K.dtype)
                whole[:, known] = K
                whole[:, ~known] = self._empty_rows[:, None]
                K = whole
            return self._with_empty_columns(K, seen, known)

    def _complete_and_fill_empty(
        self, K: Kernel, observed: Bools, diag: Floats | None
    ) -> Floats | None:
        """Complete rows (M, n_rows, n) of which some may have no kernel."""
        _, known = _not_empty(observed)
        if known.all():
            return self._complete_rows(K, observed, diag)
        self._warn_empty(known, "samples")
        part = K[:, known]
        found = self._complete_rows(part, observed[known], None if diag is None else diag[:, known])
        K[:, known] = part
        K[:, ~known] = self._empty_rows[:, None]
        if found is None:
            return None
        whole = np.empty(K.shape[:2])
        whole[:, known] = found
        whole[:, ~known] = self._empty_diag[:, None]
        return whole

    def _with_empty_columns(self, K: Kernel, seen: Bools, known: Bools) -> Kernel:
        """Add kernels that stay absent, and columns of training samples without any kernel."""
        if seen.all() and known.all():
            return K
        whole = np.zeros((len(seen), K.shape[1], len(known)), dtype=K.dtype)
        weights = self._empty_weights(self._known_observed())
        for m, kernel, weight in zip(np.flatnonzero(seen), K, weights, strict=True):
            whole[m][:, known] = kernel
            whole[m][:, ~known] = (kernel @ weight)[:, None]
        return whole

    def _known_observed(self) -> Bools:
        """Return the mask (n, M) of the kernels and training samples that are not left out."""
        seen, known = _not_empty(self.training_rows_.observed)
        return np.asarray(self.training_rows_.observed[known][:, seen])

    def _kernel_names(self) -> list[str]:
        """Return the names of the kernels that are not left out."""
        seen, _ = _not_empty(self.training_rows_.observed)
        return [name for name, used in zip(self.training_rows_.names, seen, strict=True) if used]

    def _filled(self, n_rows: int) -> Bools:
        """Return the mask of a completed stack."""
        return np.tile(self.training_rows_.observed.any(axis=0), (n_rows, 1))

    def _warn_empty(self, known: Bools, what: str) -> None:
        if not known.all():
            warnings.warn(
                f"{(~known).sum()} of {len(known)} {what} have no observed kernel and get "
                f"{self._empty_get}",
                UserWarning,
                stacklevel=5,
            )

    def _warn_few(self, observed: Bools) -> None:
        """Warn about kernels that hardly any sample has."""
        names, counts = self._kernel_names(), observed.sum(axis=0)
        few = [name for name, count in zip(names, counts, strict=True) if count < FEW]
        if few and not observed.all():
            warnings.warn(
                f"fewer than {FEW} of {len(observed)} training samples have the kernels "
                f"{quoted(few)}; what is completed there has little to rest on, and leaving them "
                "out may be better",
                UserWarning,
                stacklevel=6,
            )

    def _warn_alone(self, observed: Bools) -> None:
        """Warn about kernels that share no sample with another."""
        shared = observed.T.astype(np.float64) @ observed
        np.fill_diagonal(shared, 0.0)
        alone = [
            name
            for name, others, present in zip(self._kernel_names(), shared, observed.T, strict=True)
            if not present.all() and not others.any()
        ]
        if alone:
            warnings.warn(
                f"the kernels {quoted(alone)} have none of the {len(observed)} training samples in "
                "common with another kernel, so that nothing can be learned about what is absent "
                "in them; it starts from their mean",
                UserWarning,
                stacklevel=6,
            )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.three_d_array = True
        return tags


@dataclass(frozen=True)
class CompletionStep:
    """One iteration of a completion.

    Attributes
    ----------
    objective : float
        What the method optimises.
    distance : float
        What is compared with `tol`.
    """

    objective: float
    distance: float


class IterativeCompleter(BaseCompleter):
    """Base of the completers that iterate, with `tol`, `max_iter` and `verbose`."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "tol": [Interval(Real, 0, np.inf, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "verbose": ["verbose"],
    }
    _distance_name: ClassVar[str]
    _remedy = "raise max_iter or tol"

    def _store_history(self, history: tuple[CompletionStep, ...]) -> None:
        """Keep the iterations, and warn if the last one does not meet `tol`."""
        self.history_ = history
        self.n_iter_ = len(history)
        self.converged_ = bool(history[-1].distance <= self.tol)
        if not self.converged_:
            warnings.warn(
                f"{type(self).__name__} stopped after {self.n_iter_} iterations at a "
                f"{self._distance_name} of {history[-1].distance:.2g}, above tol={self.tol:.2g}; "
                f"{self._remedy}",
                ConvergenceWarning,
                stacklevel=6,
            )

    def _reporter(self) -> Callable[[int, CompletionStep], None] | None:
        if not self.verbose:
            return None

        def report(number: int, step: CompletionStep) -> None:
            sys.stdout.write(
                f"[{type(self).__name__}] iteration {number}: objective {step.objective:.8g}, "
                f"{self._distance_name} {step.distance:.2g}\n"
            )

        return report
