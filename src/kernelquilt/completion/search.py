"""Choosing the parameters of a completer by hiding what is known.

Some observed cells (sample, kernel) are hidden, the kernels are completed without them, and the
rows of hidden samples are compared with what they were, on the samples that have the kernel:

    error = mean over kernels of the mean over hidden samples t of 100 |kh_t - k_t| / |k_t|,

the average relative error of `kernelquilt.metrics`; rows that are zero are not hidden, because they
have no relative error. No kernel needs to be complete, and what is
absent is never needed. The error is a guide for choosing, not a forecast: what is absent in earnest
may be harder, or easier, than what was hidden.
"""

import time
import warnings
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from joblib import Parallel, delayed
from scipy.stats import rankdata
from sklearn.base import BaseEstimator, MetaEstimatorMixin, TransformerMixin, clone
from sklearn.model_selection import ParameterGrid
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import HasMethods, Interval
from sklearn.utils.validation import check_is_fitted

from kernelquilt._messages import unchanged_on_error
from kernelquilt._typing import Bools
from kernelquilt.data.stack import KernelStack, as_stack
from kernelquilt.metrics import average_relative_error

_LEAST = 3  # samples that a kernel keeps


def hide_cells(
    observed: Bools, share: float, rng: np.random.RandomState, allowed: Bools | None = None
) -> Bools:
    """Return a mask with some more cells absent.

    Parameters
    ----------
    observed : ndarray of bool of shape (n, M)
    share : float
        Of the observed cells, how many are hidden at most: every sample keeps a kernel, and every
        kernel three samples.
    rng : RandomState
    allowed : ndarray of bool of shape (n, M), default=None
        Which observed cells may be hidden, by default all.

    Returns
    -------
    mask : ndarray of bool of shape (n, M)
    """
    mask = observed.copy()
    cells = np.argwhere(observed)
    wanted = max(1, round(share * len(cells)))
    per_sample, per_kernel = mask.sum(axis=1), mask.sum(axis=0)
    for i, m in rng.permutation(cells):
        if wanted == 0:
            break
        if per_sample[i] > 1 and per_kernel[m] > _LEAST and (allowed is None or allowed[i, m]):
            mask[i, m] = False
            per_sample[i] -= 1
            per_kernel[m] -= 1
            wanted -= 1
    return mask


class CompletionSearchCV(TransformerMixin, MetaEstimatorMixin, BaseEstimator):
    """Grid search for the parameters of a completer, by hiding observed cells.

    No ground truth is needed. After the search it completes like the best completer, fitted to
    all that is observed, so that it can stand in its place in a pipeline.

    Parameters
    ----------
    completer : completer
        What to tune.
    param_grid : dict of str to list, or list of such dicts
        Candidates, as in `GridSearchCV`.
    n_splits : int, default=3
        How often cells are hidden; the same ones for all candidates.
    hidden : float, default=0.15
        Share of the observed cells that is hidden each time, if samples and kernels keep enough.
    refit : bool, default=True
        Whether to fit the best candidate to all that is observed.
    n_jobs : int or None, default=None
        Processes over candidates and splits.
    random_state : int, RandomState instance or None, default=None
        For the hidden cells.
    verbose : int, default=0
        Passed on to joblib.

    Attributes
    ----------
    best_params_ : dict
        The candidate with the lowest mean error.
    best_score_ : float
        Minus its mean error, in per cent.
    best_index_ : int
        Its position in `cv_results_`.
    best_estimator_ : completer
        Fitted to all that is observed, if `refit`.
    cv_results_ : dict of ndarrays
        As in `GridSearchCV`; scores are minus errors. ``mean_converged`` is the share of the fits
        that met their tolerance, for completers that tell.
    n_splits_ : int
        Number of splits.
    refit_time_ : float
        Seconds of the last fit.

    Examples
    --------
    >>> import kernelquilt as kq
    >>> X, y = kq.datasets.load_example("wdbc")
    >>> stack = kq.ViewKernels().fit_transform(X)[:60]
    >>> stack = kq.datasets.make_absent(stack, 0.3, random_state=0)
    >>> grid = {"eps": [0.01, 0.1, 1]}
    >>> search = kq.completion.CompletionSearchCV(kq.TransferFill(), grid, random_state=0)
    >>> search.fit_transform(stack).observed.all()
    np.True_
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "completer": [HasMethods(["fit_transform", "transform"])],
        "param_grid": [dict, list],
        "n_splits": [Interval(Integral, 1, None, closed="left")],
        "hidden": [Interval(Real, 0, 1, closed="neither")],
        "refit": ["boolean"],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        completer: Any,
        param_grid: Any,
        *,
        n_splits: int = 3,
        hidden: float = 0.15,
        refit: bool = True,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.completer = completer
        self.param_grid = param_grid
        self.n_splits = n_splits
        self.hidden = hidden
        self.refit = refit
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None) -> "CompletionSearchCV":
        """Evaluate all candidates and fit the best one.

        Parameters
        ----------
        X : KernelStack of shape (n_train, M), or array-like of shape (n_train, n_train, M)
            Square.
        y : object, default=None
            Ignored.

        Returns
        -------
        self : CompletionSearchCV
        """
        self._validate_params()
        with unchanged_on_error(self):
            stack = as_stack(X)
            self._search(stack)
            if self.refit:
                self._refit("fit", stack)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> KernelStack:
        """Evaluate all candidates and complete the training kernels with the best one.

        Parameters
        ----------
        X, y
            As in `fit`.

        Returns
        -------
        stack : KernelStack of shape (n_train, M)
        """
        self._validate_params()
        if not self.refit:
            raise ValueError("with refit=False there is no completer to transform with")
        with unchanged_on_error(self):
            stack = as_stack(X)
            self._search(stack)
            completed: KernelStack = self._refit("fit_transform", stack)
        return completed

    def transform(self, X: Any) -> KernelStack:
        """Complete kernels between samples and the training samples.

        Parameters
        ----------
        X : KernelStack of shape (n_rows, M), or array-like of shape (n_rows, n_train, M)
            As for the completer.

        Returns
        -------
        stack : KernelStack of shape (n_rows, M)
        """
        check_is_fitted(self, "best_estimator_")
        completed: KernelStack = self.best_estimator_.transform(X)
        return completed

    @property
    def n_features_in_(self) -> int:
        """Number of kernels."""
        check_is_fitted(self, "best_estimator_")
        return int(self.best_estimator_.n_features_in_)

    def _refit(self, method: str, stack: KernelStack) -> Any:
        started = time.perf_counter()
        self.best_estimator_ = clone(self.completer).set_params(**self.best_params_)
        result = getattr(self.best_estimator_, method)(stack)
        self.refit_time_ = time.perf_counter() - started
        return result

    def _search(self, stack: KernelStack) -> None:
        rng = check_random_state(self.random_state)
        allowed = np.column_stack([kernel.any(axis=1) for kernel in stack.training_kernels()])
        masks = [
            hide_cells(stack.observed, self.hidden, rng, allowed) for _ in range(self.n_splits)
        ]
        if (masks[0] == stack.observed).all():
            raise ValueError(
                f"of the {stack.observed.sum()} observed cells of {len(stack)} training samples "
                f"and {len(stack.names)} kernels none can be hidden: each is the last kernel of "
                f"its sample, of a kernel with {_LEAST} samples or fewer, or zero"
            )
        candidates = list(ParameterGrid(self.param_grid))
        found = Parallel(n_jobs=self.n_jobs, verbose=self.verbose)(
            delayed(_evaluate)(clone(self.completer).set_params(**candidate), stack, mask)
            for candidate in candidates
            for mask in masks
        )
        table = np.array(found).reshape(len(candidates), self.n_splits, 3)
        errors, seconds, converged = table[:, :, 0], table[:, :, 1], table[:, :, 2]
        results: dict[str, Any] = {
            "mean_fit_time": seconds.mean(axis=1),
            "std_fit_time": seconds.std(axis=1),
            "params": candidates,
            "mean_converged": converged.mean(axis=1),
            "mean_test_score": -errors.mean(axis=1),
            "std_test_score": errors.std(axis=1),
        }
        for name in sorted({name for candidate in candidates for name in candidate}):
            values: Any = np.ma.array([None] * len(candidates), mask=True, dtype=object)
            for k, candidate in enumerate(candidates):
                if name in candidate:
                    values[k] = candidate[name]
            results[f"param_{name}"] = values
        for k in range(self.n_splits):
            results[f"split{k}_test_score"] = -errors[:, k]
        ranked = np.where(np.isnan(errors.mean(axis=1)), np.inf, errors.mean(axis=1))
        results["rank_test_score"] = rankdata(ranked, method="min").astype(np.int32)
        self.cv_results_ = results
        self.n_splits_ = self.n_splits
        self.best_index_ = int(ranked.argmin())
        self.best_params_ = candidates[self.best_index_]
        self.best_score_ = float(results["mean_test_score"][self.best_index_])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.three_d_array = True
        return tags


def _evaluate(completer: Any, stack: KernelStack, mask: Bools) -> tuple[float, float, float]:
    """Return the error on hidden cells, seconds, and whether the completer converged."""
    started = time.perf_counter()
    with warnings.catch_warnings():
        # of candidates: what the chosen one has to say is said when it is fitted to all
        warnings.simplefilter("ignore")
        completed = completer.fit_transform(stack._with_observed(mask))
    seconds = time.perf_counter() - started
    errors = []
    for m, (kernel, known) in enumerate(
        zip(stack.training_kernels(), stack.observed.T, strict=True)
    ):
        hidden = known & ~mask[:, m]
        if hidden.any():
            rows = np.ix_(known, known)
            filled = completed.gram()[m][rows]
            errors.append(average_relative_error(kernel[rows], filled, mask[known, m][:, None]))
    return float(np.mean(errors)), seconds, float(getattr(completer, "converged_", np.nan))
