"""lp-norm multiple kernel learning with the squared loss, for regression.

The problem, its certificate and its solvers are those of :mod:`kernelquilt.quilt.lp_ridge`, with
the targets, scaled to variance one, in the place of codes of classes.
"""

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from joblib import Parallel, delayed
from sklearn.utils._param_validation import Interval, StrOptions

from kernelquilt._typing import Bools, Floats, Numbers
from kernelquilt.core.solution import Solution, warn_unless_converged
from kernelquilt.kernels.centring import mean_diagonal
from kernelquilt.kernels.inputs import Samples, check_gram_memory, fit_input
from kernelquilt.mkl.fitting import progress_reporter
from kernelquilt.quilt.lp_ridge import default_penalty, solve_lp_mkl_ridge
from kernelquilt.quilt.ridge import FittedRidge, fit_ridge
from kernelquilt.quilt.ridge_classifier import Targets
from kernelquilt.quilt.ridge_regressor import BaseRidgeRegressor, determination


class LpMKLRidgeRegressor(BaseRidgeRegressor):
    """Kernel ridge regression on a combination of kernels whose weights have lp-norm one.

    `LpMKLRidgeClassifier` for numbers: everything is closed form, the penalty is chosen by
    leave-one-out error at no cost, and several targets share the weights. Use it like
    `LpMKLRegressor` where tuning by cross-validation takes too long. The weights are certified by
    `duality_gap_`. Absent kernels count as zero.

    Parameters
    ----------
    p : float or list of float, default=2.0
        Exponent of the norm of the weights, at least 1, infinite for equal weights; of a list, the
        one with the least leave-one-out error.
    lam : float or None, default=None
        Penalty at which the weights are learned, in units of the kernels. None is 0.3 times
        their mean diagonal, and for p > 1 times M^(-1/p).
    kernels : str, callable, list or dict, default="gaussian"
        Kernels of the views, as in `ViewKernels`; "precomputed" for plain arrays of kernels of
        shape (n, n, M). A `KernelStack` is always used as it is.
    views : dict of str to columns, "columns" or None, default=None
        The views of 2-D data, as in `as_views`.
    prepare : {"auto"} or None, default="auto"
        ``"auto"`` fills single missing cells with the mean of their column and encodes categories
        one-hot, by what the training samples show; complete numeric views stay as they are. None
        refuses both.
    tol : float, default=1e-3
        Relative duality gap of the weights.
    max_iter : int, default=200
        Cap on the ridge regressions solved for the weights.
    n_jobs : int or None, default=None
        Threads over the exponents.
    verbose : int, default=0
        Whether to print the progress of the solver.

    Attributes
    ----------
    weights_ : ndarray of shape (M,)
        Kernel weights, non-negative with lp-norm 1.
    dual_coef_ : ndarray of shape (n_targets, n)
        Coefficients of the training samples, without the weights, of targets in units of their
        standard deviation; at the penalty `penalty_`.
    intercept_ : ndarray of shape (n_targets,)
        Biases, in the same units, of targets less their mean.
    p_, lam_ : float
        Exponent, and penalty at which the weights were learned.
    penalty_ : float
        Penalty chosen by leave-one-out error, of the kernel scaled to mean diagonal 1.
    loo_score_ : float
        Leave-one-out coefficient of determination.
    objective_, duality_gap_ : float
        Value of the problem of the weights, and how far it may be above the optimum.
    n_iter_, n_solves_ : int
        Iterations, and ridge regressions solved for the weights.
    converged_ : bool
        Whether `tol` was met.
    history_ : tuple of Step
        Objective and gap by iteration.
    preparation_ : ViewTransformer or None
        What fills cells and encodes categories.
    kernel_names_ : tuple of str of length M
        Names of the kernels.
    n_features_in_ : int
        Number of columns of 2-D data, otherwise of views or kernels.

    Examples
    --------
    >>> import kernelquilt as kq
    >>> X, _ = kq.datasets.load_example("wdbc")
    >>> target = X["mean"][:, 0]
    >>> model = kq.quilt.LpMKLRidgeRegressor(p=[1.0, 2.0]).fit(X[:200], target[:200])
    >>> bool(model.loo_score_ > 0.9), bool(model.duality_gap_ <= 1e-3 * model.objective_)
    (True, True)
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "p": [Interval(Real, 1, np.inf, closed="both"), "array-like"],
        "lam": [Interval(Real, 0, np.inf, closed="neither"), None],
        "kernels": "no_validation",
        "views": "no_validation",
        "prepare": [StrOptions({"auto"}), None],
        "tol": [Interval(Real, 0, np.inf, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "n_jobs": [Integral, None],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        p: float | Sequence[float] = 2.0,
        *,
        lam: float | None = None,
        kernels: Any = "gaussian",
        views: Any = None,
        prepare: str | None = "auto",
        tol: float = 1e-3,
        max_iter: int = 200,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.p = p
        self.lam = lam
        self.kernels = kernels
        self.views = views
        self.prepare = prepare
        self.tol = tol
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _learn(self, data: Samples, y: Floats, targets: Targets) -> None:
        check_gram_memory(self, data, lambda _: 6.0)
        held = fit_input(self, data, targets.copies)
        held.describe(self)
        K, observed = held.training_gram(data)
        seen = observed[targets.copies > 0].any(axis=0)
        exponents = np.atleast_1d(np.asarray(self.p, dtype=np.float64))
        if exponents.ndim != 1 or len(exponents) == 0 or not (exponents >= 1.0).all():
            raise ValueError(
                f"p must be a number, or a list of at least one, each at least 1; got {self.p!r}"
            )
        fits: list[tuple[float, Solution, FittedRidge]] = Parallel(self.n_jobs, prefer="threads")(
            delayed(self._fit_exponent)(float(p), K, seen, targets) for p in exponents
        )
        best = min(range(len(fits)), key=lambda number: fits[number][2].fit.error)
        self.lam_, solution, ridge = fits[best]
        self.p_ = float(exponents[best])
        self.weights_ = solution.weights
        self.objective_, self.duality_gap_ = solution.objective, solution.duality_gap
        self.n_iter_, self.n_solves_ = solution.n_iter, solution.n_solves
        self.converged_, self.history_ = solution.converged, solution.history
        self.dual_coef_, self.intercept_ = ridge.coef.T / ridge.scale, ridge.bias
        self.penalty_ = ridge.fit.lam
        self.loo_score_ = determination(targets.Y, ridge.fit.loo, targets.weight)
        warn_unless_converged(type(self).__name__, [solution], self.max_iter)

    def _fit_exponent(
        self, p: float, K: Numbers, seen: Bools, targets: Targets
    ) -> tuple[float, Solution, FittedRidge]:
        """Return penalty and solution of the weights, and the ridge on them."""
        size = mean_diagonal(np.einsum("mii->mi", K[seen]).mean(axis=0), targets.copies)
        lam = default_penalty(p, int(seen.sum()), size) if self.lam is None else self.lam
        solution = solve_lp_mkl_ridge(
            K,
            targets.Y,
            p=p,
            lam=lam,
            sample_weight=targets.weight,
            allowed=seen,
            tol=self.tol,
            max_iter=self.max_iter,
            on_step=progress_reporter(self, f" p={p:g}"),
        )
        ridge = fit_ridge(
            np.tensordot(solution.weights, K, axes=1),
            targets.Y,
            sample_weight=targets.weight,
            held_out=targets.held_out,
        )
        return lam, solution, ridge

    @property
    def _entries_per_row(self) -> int:
        return int(self.dual_coef_.shape[1])

    def _predict_part(self, rows: Any) -> Floats:
        scores = np.tile(self.intercept_, (len(rows), 1))
        needed = self.weights_ > 0
        kernels = self.input_.kernels(rows, needed)
        for weight, kernel in zip(self.weights_[needed], kernels, strict=True):
            scores += weight * (kernel @ self.dual_coef_.T)
        return scores
