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
from sklearn.base import MetaEstimatorMixin, clone
from sklearn.model_selection import ParameterGrid
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import HasMethods, Interval

from kernelquilt._typing import Bools
from kernelquilt.core.search_results import BestCandidate
from kernelquilt.data.stack import KernelStack
from kernelquilt.kernels.stack_transformer import StackTransformer
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


class CompletionSearchCV(BestCandidate, MetaEstimatorMixin, StackTransformer):
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
    >>> bool(search.fit_transform(stack).observed.all())
    True
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

    def _fit(self, stack: KernelStack) -> None:
        self._search(stack)
        if self.refit:
            self._refit(self.completer, "fit", stack)

    def _fit_transform(self, stack: KernelStack) -> KernelStack:
        if not self.refit:
            raise ValueError("with refit=False there is no completer to transform with")
        self._search(stack)
        completed: KernelStack = self._refit(self.completer, "fit_transform", stack)
        return completed

    def _transform(self, stack: KernelStack) -> KernelStack:
        completed: KernelStack = self._best.transform(stack)
        return completed

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
        table = np.array(found).reshape(len(candidates), self.n_splits, -1)
        errors, fit_time, score_time, converged = table.transpose(2, 0, 1)
        self._keep_results(
            candidates,
            -errors,
            {"fit_time": fit_time, "score_time": score_time},
            {"converged": converged},
        )


def _evaluate(completer: Any, stack: KernelStack, mask: Bools) -> tuple[float, ...]:
    """Return the error on hidden cells, fit and score time, and whether the completer converged."""
    begun = time.perf_counter()
    with warnings.catch_warnings():
        # of candidates: what the chosen one has to say is said when it is fitted to all
        warnings.simplefilter("ignore")
        completed = completer.fit_transform(stack._with_observed(mask))
    fitted = time.perf_counter()
    errors = []
    for m, (kernel, known) in enumerate(
        zip(stack.training_kernels(), stack.observed.T, strict=True)
    ):
        hidden = known & ~mask[:, m]
        if hidden.any():
            rows = np.ix_(known, known)
            filled = completed.gram()[m][rows]
            errors.append(average_relative_error(kernel[rows], filled, mask[known, m][:, None]))
    seconds = fitted - begun, time.perf_counter() - fitted
    return float(np.mean(errors)), *seconds, float(getattr(completer, "converged_", np.nan))
