r"""Absent multiple kernel learning by alternation (I-AMKL).

The margin of a sample is measured in the space of the kernels it has: the smallest of
:math:`y_i f(x_i) / \sum_p s_{ip} \|w_p\|` over the samples is to be as large as possible (7). With

.. math:: \tau_i = \frac{\sum_p s_{ip} \|w_p\|}{\sum_p \|w_p\|} \tag{8}

held fixed this is l1-norm MKL that asks the margin :math:`\tau_i` of sample i,

.. math:: \min_{d \in \Delta} \min_{w, b} \; \tfrac12 \sum_p \frac{\|w_p\|^2}{d_p}
          + \sum_i C_i \max\bigl(0,\, 1 - y_i f(x_i) / \tau_i\bigr), \tag{14}

with absent kernels filled with zeros, whose solution has

.. math:: \|w_p\| = d_p \sqrt{b' K_p b}. \tag{15}

The method alternates between (14) and (8), from :math:`\tau = 1`, until no weight changes by more
than `outer_tol`. The objectives of different :math:`\tau` cannot be compared; they need not fall,
and the alternation need not converge. Score, objective and gap are those of the last problem (14),
at the :math:`\tau` that it was solved with.

=============  ==============================================
paper symbol   name here
=============  ==============================================
K_p, s_ip      ``K[p]`` (zero where absent), ``observed[i, p]``
gamma_p        ``weights[p]``
tau_i          ``margins[i]``
alpha_i y_i    ``dual_coef[i]`` times ``margins[i]``
eta_0          ``outer_tol``
=============  ==============================================

References
----------
.. [1] X. Liu et al., "Absent multiple kernel learning algorithms", IEEE TPAMI 42(6), 2020,
   Algorithm 1. The score (16) takes the margins that the duals were computed with, not the
   updated ones that Algorithm 1 returns.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from kernelquilt._typing import Bools, Floats, Numbers
from kernelquilt.core.limits import single_threaded_blas
from kernelquilt.core.svm.factors import Factors
from kernelquilt.core.svm.weighted_svm import svm_with_margins
from kernelquilt.core.weights.sets import Simplex
from kernelquilt.core.weights.solution import Options, Solution, Start, Step
from kernelquilt.core.weights.solvers import SVMAtWeights, newton
from kernelquilt.mkl.absent.margin_loop import (
    INNER_MAX_ITER,
    MARGIN_FLOOR,
    ROUNDING,
    OuterLoop,
    OuterLoopClassifier,
    observed_share,
    taking_part,
)
from kernelquilt.mkl.fitting import BinaryProblem


@single_threaded_blas()
def solve_iterative_absent_mkl(
    K: Numbers | Factors,
    y: Floats,
    observed: Bools,
    *,
    C: float | Floats = 1.0,
    tol: float = 1e-3,
    outer_tol: float = 1e-3,
    max_iter: int = 20,
    dual_coef: Floats | None = None,
    on_step: Callable[[Step], None] | None = None,
) -> Solution:
    """Alternate between MKL and the margins (see the module docstring).

    Parameters
    ----------
    K, y, observed, C
        As in `solve_convex_absent_mkl`.
    tol : float, default=1e-3
        Relative duality gap of each MKL problem.
    outer_tol : float, default=1e-3
        Largest change of a weight at which to stop.
    max_iter : int, default=20
        Cap on the MKL problems.
    dual_coef : ndarray of shape (n,), optional
        Signed duals to start the first MKL problem from.
    on_step : callable, optional
        Called with the :class:`~kernelquilt.core.weights.solution.Step` of every MKL problem.

    Returns
    -------
    Solution
        Of the last MKL problem; `margins` are those it was solved with.

    Examples
    --------
    >>> import kernelquilt as kq
    >>> X, y = kq.datasets.make_multiview(40, 3, random_state=0)
    >>> X = kq.datasets.make_absent(X, 0.3, random_state=0)
    >>> K = kq.ViewKernels().fit_transform(X).gram()
    >>> solution = kq.mkl.solve_iterative_absent_mkl(K, 2.0 * y - 1, X.observed)
    >>> solution.weights.round(1)
    array([0.5, 0.4, 0.1])
    """
    C, used, allowed = taking_part(C, observed)
    margins = np.ones(len(y))
    weights: Floats | None = None
    svm: SVMAtWeights | None = None
    loop = OuterLoop(Options(outer_tol, max_iter, on_step=on_step))
    while True:
        # that of l1-norm MKL with these margins
        svm = svm_with_margins(K, y, C, margins, like=svm)
        options = Options(tol, INNER_MAX_ITER, Start(weights, dual_coef))
        inner = newton(svm, Simplex(allowed), options)
        loop.count(inner)
        loop.record(inner)
        assert inner.slopes is not None
        norms = inner.weights * np.sqrt(np.maximum(inner.slopes, 0.0))
        share = np.maximum(observed_share(observed, norms), MARGIN_FLOOR)
        updated = np.where(used, share, 1.0)
        change = np.inf if weights is None else float(np.abs(inner.weights - weights).max())
        if np.abs(updated - margins).max() <= ROUNDING:
            change = 0.0
        if loop.ends(change):
            return loop.solution(inner, margins, change)
        margins, weights, dual_coef = updated, inner.weights, inner.dual_coef


class IterativeAbsentMKLClassifier(OuterLoopClassifier):
    """MKL whose margins are measured by the learned norms of the views that a sample has (I-AMKL).

    Asks less margin of a sample the less its views matter to the decision. Use it to compare with
    the literature: the alternation has no convergence guarantee (a `ConvergenceWarning` says when
    it was cut off), and samples that have none of the kernels with weight can dominate the fit (a
    warning counts them). `PenalizedAbsentMKLClassifier` has neither problem. Equal to
    `SimpleMKLClassifier` when nothing is absent.

    Parameters
    ----------
    C : float, default=1.0
        Penalty on margin violations.
    kernels : str, callable, list or dict, default="gaussian"
        Kernels of the views, as in `ViewKernels`; "precomputed" for plain arrays of kernels of
        shape (n, n, M). A `KernelStack` is always used as it is.
    views : dict of str to columns, "columns" or None, default=None
        The views of 2-D data, as in `as_views`.
    n_landmarks : int or None, default=None
        Landmarks of each kernel at most: kernels of views then become factors, as by
        `EmpiricalKernelMap`, and memory grows with n instead of n squared. None computes kernels.
    tol : float, default=1e-3
        Relative duality gap of each MKL problem, which may take 200 SVM solves.
    outer_tol : float, default=1e-3
        Largest change of a weight at which to stop.
    max_iter : int, default=20
        Cap on the MKL problems that each binary problem is made of.
    multi_class : {"ovr", "ovo"}, default="ovr"
        One-vs-rest or one-vs-one for more than two classes.
    class_weight : dict, "balanced" or None, default=None
        Factors on `C` by class.
    n_jobs : int or None, default=None
        Threads over the binary problems of a multi-class fit.
    verbose : int, default=0
        Whether to print the progress of the solver.

    Attributes
    ----------
    weights_ : ndarray of shape (M,), or (n_problems, M) if multi-class
        Kernel weights, non-negative with sum 1.
    margins_ : ndarray of shape (n,), or (n_problems, n) if multi-class
        Margins asked of the training samples in the last MKL problem; 1 for those left out.
    dual_coef_ : ndarray of shape (n_problems, n)
        Signed duals of the training samples, without the weights.
    intercept_ : ndarray of shape (n_problems,)
        Biases.
    n_support_ : ndarray of shape (n_problems,)
        Number of support vectors.
    objective_, duality_gap_ : float, or ndarray of shape (n_problems,) if multi-class
        Certified primal value of the last MKL problem, and how far it may be above its optimum.
    n_iter_, n_solves_, n_smo_iter_, n_passes_ : int, int, int, float
        MKL problems, SVM solves in all of them, SMO iterations, and passes over the kernels.
    converged_ : bool
        Whether every problem met `tol` and `outer_tol`.
    history_ : list of tuple of Step
        Objective and gap of each MKL problem, for each binary problem.
    coef_ : list of M ndarrays of shape (n_problems, r_p), only for factors
        Weight vectors in the columns of the factors.
    explained_trace_ : ndarray of shape (M,), only for factors
        Share of the trace of each kernel that its factor explains on held-out samples, if known.
    kernel_names_ : tuple of str of length M
        Names of the kernels.
    classes_ : ndarray of shape (n_classes,)
        Class labels.
    n_features_in_ : int
        Number of columns of 2-D data, otherwise of views or kernels.

    Examples
    --------
    >>> import kernelquilt as kq
    >>> X, y = kq.datasets.load_example("wdbc")
    >>> X = kq.datasets.make_absent(X, 0.3, random_state=0)
    >>> model = kq.mkl.IterativeAbsentMKLClassifier().fit(X, y)
    >>> model.margins_.shape
    (569,)
    """

    _takes_factors = True
    _change = "a largest change of the weights"

    def __init__(
        self,
        C: float = 1.0,
        *,
        kernels: Any = "gaussian",
        views: Any = None,
        n_landmarks: int | None = None,
        tol: float = 1e-3,
        outer_tol: float = 1e-3,
        max_iter: int = 20,
        multi_class: str = "ovr",
        class_weight: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.C = C
        self.kernels = kernels
        self.views = views
        self.n_landmarks = n_landmarks
        self.tol = tol
        self.outer_tol = outer_tol
        self.max_iter = max_iter
        self.multi_class = multi_class
        self.class_weight = class_weight
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _solve(self, problem: BinaryProblem, options: Options) -> Solution:
        # a start from other weights ends elsewhere within tol, and the loop goes on from there
        return solve_iterative_absent_mkl(
            problem.K,
            problem.y,
            problem.observed,
            C=problem.C,
            outer_tol=self.outer_tol,
            **options.keywords("dual_coef"),
        )
