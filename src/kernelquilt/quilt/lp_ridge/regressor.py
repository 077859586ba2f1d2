"""lp-norm multiple kernel learning with the squared loss, for regression.

The problem, its certificate and its solvers are those of :mod:`kernelquilt.quilt.lp_ridge`, with
the targets, scaled to variance one, in the place of codes of classes.
"""

from collections.abc import Sequence
from typing import Any, ClassVar

from kernelquilt._typing import Floats
from kernelquilt.data.sampling import Sample
from kernelquilt.data.targets import Targets
from kernelquilt.data.training import Samples
from kernelquilt.quilt.lp_ridge.fitting import (
    CONSTRAINTS,
    entries_per_row,
    learn_lp_ridge,
    lp_ridge_scores,
)
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
        ``"auto"`` fills single missing cells with the mean of their column, with a further column
        that tells where they were if 5 to 95 % of the samples lack them, and encodes categories
        one-hot, by what the training samples show; complete numeric views stay as they are. None
        refuses both.
    n_landmarks : int or "auto", default="auto"
        Each view is learned in the span of at most so many of the samples that have it; with as
        many as there are samples, nothing is approximated. ``"auto"`` takes all of up to 1000
        samples, 240 of 10 000 and 333 of a million, fewer where kernels are more than nine.
    landmarks : {"uniform", "kmeans", "pivoted_cholesky"}, default="uniform"
        How landmarks are chosen among the training samples: at random, as those nearest to the
        centres of clusters, or one after the other where the kernel is approximated worst.
    tol : float, default=1e-3
        Relative duality gap of the weights.
    max_iter : int, default=200
        Cap on the ridge regressions solved for the weights.
    n_jobs : int or None, default=None
        Threads over the exponents and over blocks of samples.
    random_state : int, RandomState instance or None, default=None
        For the choice of landmarks.
    verbose : int, default=0
        Whether to print the progress of the solver.

    Attributes
    ----------
    weights_ : ndarray of shape (M,)
        Kernel weights, non-negative with lp-norm 1.
    dual_coef_ : ndarray of shape (n_targets, n), or None
        Coefficients of the training samples, without the weights, of targets in units of their
        standard deviation; at the penalty `penalty_`. None for more than 10 000 samples.
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
    n_passes_ : int
        How often all samples were read in blocks; 0 where they were held in memory.
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

    _parameter_constraints: ClassVar[dict[str, Any]] = CONSTRAINTS

    def __init__(
        self,
        p: float | Sequence[float] = 2.0,
        *,
        lam: float | None = None,
        kernels: Any = "gaussian",
        views: Any = None,
        prepare: str | None = "auto",
        n_landmarks: int | str = "auto",
        landmarks: str = "uniform",
        tol: float = 1e-3,
        max_iter: int = 200,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.p = p
        self.lam = lam
        self.kernels = kernels
        self.views = views
        self.prepare = prepare
        self.n_landmarks = n_landmarks
        self.landmarks = landmarks
        self.tol = tol
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _learn(self, data: Samples, y: Floats, targets: Targets, sample: Sample) -> None:
        loo, part = learn_lp_ridge(self, data, targets, sample)
        self.loo_score_ = determination(part.Y, loo, part.weight)

    @property
    def _entries_per_row(self) -> int:
        return entries_per_row(self)

    def _predict_part(self, rows: Any) -> Floats:
        return lp_ridge_scores(self, rows)
