r"""lp-norm multiple kernel learning with the squared loss.

.. math:: \min_{d \ge 0, \, \|d\|_p \le 1} \; \min_f \; \frac{1}{2\lambda} \sum_{i,l} w_i \,
          (y_{il} - f_l(x_i))^2 + \tfrac12 \sum_l \Bigl[ b_l^2 +
          \sum_m \frac{\|f_{ml}\|^2}{d_m} \Bigr], \qquad f_l = \sum_m f_{ml} + b_l,

for L outputs that share the weights, with absent kernels filled with zeros. For fixed d it is
kernel ridge regression on :math:`\sum_m d_m K_m + 1` with penalty lambda, whose dual coefficients
are :math:`a = (\sum_m d_m K_m + 11' + \lambda W^{-1})^{-1} Y`. With
:math:`q_m = \mathrm{tr}(a'K_m a)` its value is :math:`J(d) = \tfrac12 \mathrm{tr}(Y'a)` and

.. math:: J(d) - \min J \;\le\; \tfrac12 \bigl( \|q\|_{p^*} - d'q \bigr), \quad
          p^* = p/(p-1), \qquad (1)

because a is a dual feasible point for every d. The update :math:`d_m \propto (d_m^2 q_m)^{1/(p+1)}`
with :math:`\|d\|_p = 1` never raises J; below p = 1.5 it gets slow, and projected Newton
(:mod:`kernelquilt.core.weights.solvers`) takes over. For p to infinity all weights are 1.

=============  ==============================================
symbol         name here
=============  ==============================================
K_m            ``K[m]`` (zero where absent)
d_m            ``weights[m]``
a              ``dual_coef.T``
b_l            ``intercept[l]``, the sum of the coefficients
w_i            ``sample_weight[i]``
=============  ==============================================

References
----------
.. [1] C. Cortes, M. Mohri and A. Rostamizadeh, "L2 regularization for learning kernels", UAI 2009.
.. [2] M. Kloft, U. Brefeld, S. Sonnenburg and A. Zien, "lp-norm multiple kernel learning",
   JMLR 12, 2011.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import StrOptions

from kernelquilt._typing import Bools, Floats, Numbers
from kernelquilt.core.limits import single_threaded_blas
from kernelquilt.core.weights.sets import solve_in_norm
from kernelquilt.core.weights.solution import Options, Solution, Step
from kernelquilt.data.sampling import Sample
from kernelquilt.data.targets import Targets
from kernelquilt.data.training import Samples
from kernelquilt.mkl.norms.lp import CLOSED_FORM_FROM
from kernelquilt.quilt.lp_ridge.fitting import (
    CONSTRAINTS,
    entries_per_row,
    learn_lp_ridge,
    lp_ridge_scores,
)
from kernelquilt.quilt.ridge_classifier import BaseRidgeClassifier, loo_accuracy
from kernelquilt.quilt.space.weighted import (
    DEFAULT_PENALTY,
)
from kernelquilt.quilt.space.weighted_ridge import WeightedRidge
from kernelquilt.quilt.stacking import solve_softmax_stacking


@single_threaded_blas()
def solve_lp_mkl_ridge(
    K: Numbers,
    Y: Floats,
    *,
    p: float = 2.0,
    lam: float = DEFAULT_PENALTY,
    sample_weight: Floats | None = None,
    allowed: Bools | None = None,
    tol: float = 1e-3,
    max_iter: int = 200,
    method: str = "auto",
    on_step: Callable[[Step], None] | None = None,
) -> Solution:
    """Solve lp-norm MKL with the squared loss (see the module docstring for the objective).

    Parameters
    ----------
    K : ndarray of shape (M, n, n)
        Kernels, positive semi-definite, zero where absent.
    Y : ndarray of shape (n, L)
        Targets.
    p : float, default=2.0
        Exponent of the norm, at least 1; infinite for weights of 1.
    lam : float, default=0.3
        Penalty.
    sample_weight : ndarray of shape (n,), optional
        Weights, 1 by default; 0 leaves a sample out.
    allowed : ndarray of shape (M,), bool, optional
        Kernels that may have weight, all by default.
    tol : float, default=1e-3
        Relative duality gap.
    max_iter : int, default=200
        Cap on the ridge regressions solved.
    method : {"auto", "alternating"}, default="auto"
        Newton's method below p = 1.5, or the closed-form update for every p.
    on_step : callable, optional
        Called with every :class:`~kernelquilt.core.weights.solution.Step`.

    Returns
    -------
    Solution
        With `dual_coef` of shape (L, n) and `intercept` of shape (L,).

    Examples
    --------
    >>> import kernelquilt as kq
    >>> X, y = kq.datasets.make_multiview(40, 3, random_state=0)
    >>> K = kq.ViewKernels().fit_transform(X).gram()
    >>> solution = kq.quilt.solve_lp_mkl_ridge(K, (2.0 * y - 1)[:, None], p=2)
    >>> solution.converged, solution.weights.round(1)
    (True, array([0.6, 0.5, 0.6]))
    """
    if not p >= 1.0:
        raise ValueError(f"p must be at least 1 for the problem to be convex, got {p}")
    if method not in ("auto", "alternating"):
        raise ValueError(f"method must be 'auto' or 'alternating', got {method!r}")
    n = len(Y)
    weight = np.ones(n) if sample_weight is None else sample_weight
    allowed = np.ones(len(K), dtype=np.bool_) if allowed is None else allowed
    used = np.flatnonzero(weight > 0)
    part = K if len(used) == n else np.array([kernel[np.ix_(used, used)] for kernel in K])
    ridge = WeightedRidge(part, np.ascontiguousarray(Y[used].T), lam, weight[used])
    options = Options(tol, max_iter, on_step=on_step)
    solution = solve_in_norm(ridge, p, allowed, options, newton_below=_below(method))
    dual_coef = np.zeros((Y.shape[1], n))
    dual_coef[:, used] = solution.dual_coef
    return replace(solution, dual_coef=dual_coef, intercept=np.atleast_1d(solution.intercept))


def _below(method: str) -> float:
    return CLOSED_FORM_FROM if method == "auto" else 0.0


class LpMKLRidgeClassifier(BaseRidgeClassifier):
    """Kernel ridge classifier on a combination of kernels whose weights have lp-norm one.

    The squared loss makes everything closed form: all classes are learned in one go, the penalty
    is chosen by leave-one-out error at no cost, and there are probabilities. Use it like
    `LpMKLClassifier` where tuning by cross-validation takes too long. The weights are certified by
    `duality_gap_`. Absent kernels count as zero.

    It takes any number of samples, as `QuiltClassifier` does.

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
    class_weight : dict, "balanced" or None, default=None
        Factors on the losses by class.
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
    dual_coef_ : ndarray of shape (n_classes, n), or None
        Coefficients of the training samples, without the weights; at the penalty `penalty_`. None
        for more than 10 000 samples.
    intercept_ : ndarray of shape (n_classes,)
        Biases.
    p_, lam_ : float
        Exponent, and penalty at which the weights were learned.
    penalty_ : float
        Penalty chosen by leave-one-out error, of the kernel scaled to mean diagonal 1.
    loo_score_ : float
        Leave-one-out accuracy.
    objective_, duality_gap_ : float
        Value of the problem of the weights, and how far it may be above the optimum.
    n_iter_, n_solves_ : int
        Iterations, and ridge regressions solved for the weights.
    converged_ : bool
        Whether `tol` was met.
    history_ : tuple of Step
        Objective and gap by iteration.
    stacking_ : StackingWeights
        What turns scores into probabilities.
    preparation_ : ViewTransformer or None
        What fills cells and encodes categories.
    kernel_names_ : tuple of str of length M
        Names of the kernels.
    classes_ : ndarray of shape (n_classes,)
        Class labels.
    n_passes_ : int
        How often all samples were read in blocks; 0 where they were held in memory.
    n_features_in_ : int
        Number of columns of 2-D data, otherwise of views or kernels.

    Examples
    --------
    >>> import kernelquilt as kq
    >>> X, y = kq.datasets.load_example("wdbc")
    >>> model = kq.quilt.LpMKLRidgeClassifier(p=[1.0, 2.0, float("inf")]).fit(X, y)
    >>> bool(model.loo_score_ > 0.9), bool(model.duality_gap_ <= 1e-3 * model.objective_)
    (True, True)
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **CONSTRAINTS,
        "class_weight": [dict, StrOptions({"balanced"}), None],
    }

    def __init__(
        self,
        p: Any = 2.0,
        *,
        lam: float | None = None,
        kernels: Any = "gaussian",
        views: Any = None,
        prepare: str | None = "auto",
        n_landmarks: int | str = "auto",
        landmarks: str = "uniform",
        tol: float = 1e-3,
        max_iter: int = 200,
        class_weight: Any = None,
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
        self.class_weight = class_weight
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _learn(self, data: Samples, targets: Targets, sample: Sample) -> None:
        loo, part = learn_lp_ridge(self, data, targets, sample)
        self.stacking_ = solve_softmax_stacking(loo[None], part.codes, sample_weight=part.weight)
        self.loo_score_ = loo_accuracy(self.stacking_.combine(loo[None]), part)

    @property
    def _entries_per_row(self) -> int:
        return entries_per_row(self)

    def _log_proba(self, rows: Any) -> Floats:
        return self.stacking_.combine(lp_ridge_scores(self, rows)[None])
