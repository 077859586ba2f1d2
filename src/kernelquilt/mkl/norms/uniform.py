r"""Uniform multiple kernel learning: an SVM on the mean kernel.

.. math:: \min_{w, b} \; \tfrac12 \sum_p \frac{\|w_p\|^2}{d_p}
          + \sum_i C_i \max\bigl(0,\, 1 - y_i f(x_i) / \tau_i\bigr), \qquad d_p = 1/M,

with absent kernels filled with zeros. The plain method asks the same margin of every sample
(``tau = 1``). A sample that lacks half of its views has a score made of the other half only; the
observed-fraction method asks of it only the fraction of the margin that its views can supply.

=============  ==============================================
paper symbol   name here
=============  ==============================================
K_p, s_ip      ``K[p]`` (zero where absent), ``observed[i, p]``
gamma_p        ``weights[p]``
tau_i          ``margins[i]``
alpha_i y_i    ``dual_coef[i]`` times ``margins[i]``
=============  ==============================================

References
----------
.. [1] X. Liu et al., "Absent multiple kernel learning algorithms", IEEE TPAMI 42(6), 2020,
   Eq. (14), with the weights fixed.
"""

from typing import Any

import numpy as np

from kernelquilt._typing import Bools, Floats, Numbers
from kernelquilt.core.limits import single_threaded_blas
from kernelquilt.core.svm.dual import largest_share, signed_bounds
from kernelquilt.core.svm.factors import Factors
from kernelquilt.core.svm.weighted_svm import INNER_SHARE, solve_svm, svm_with_margins
from kernelquilt.core.weights.solution import Options, Solution, Start, Step, Work
from kernelquilt.core.weights.solvers import certified_at
from kernelquilt.mkl.fitting import BaseMKLClassifier, BinaryProblem


@single_threaded_blas()
def solve_uniform_mkl(
    K: Numbers | Factors,
    y: Floats,
    *,
    C: float | Floats = 1.0,
    margins: Floats | None = None,
    allowed: Bools | None = None,
    tol: float = 1e-3,
    dual_coef: Floats | None = None,
) -> Solution:
    """Solve the SVM on the mean kernel (see the module docstring for the objective).

    Parameters
    ----------
    K, y, C, margins, tol, dual_coef
        As in `solve_simple_mkl`, for one problem.
    allowed : ndarray of shape (M,), bool, optional
        Kernels to average, all by default.

    Returns
    -------
    Solution
        Weights of 1/M, duals and certificate.

    Examples
    --------
    >>> import kernelquilt as kq
    >>> X, y = kq.datasets.make_multiview(40, 3, random_state=0)
    >>> K = kq.ViewKernels().fit_transform(X).gram()
    >>> solution = kq.mkl.solve_uniform_mkl(K, 2.0 * y - 1)
    >>> solution.converged, solution.weights.round(1)
    (True, array([0.3, 0.3, 0.3]))
    """
    margins = np.ones(len(y)) if margins is None else margins
    allowed = np.ones(len(K), dtype=np.bool_) if allowed is None else allowed
    weights = allowed / np.count_nonzero(allowed)
    if isinstance(K, Factors):
        svm_on_factors = svm_with_margins(K, y, C, margins)
        return certified_at(svm_on_factors, weights, Options(tol, start=Start(dual_coef=dual_coef)))
    kkt_tol = INNER_SHARE * tol * float(margins.mean())
    U = np.broadcast_to(C, y.shape) / margins
    svm = solve_svm(K, y, margins, U, weights=weights, tol=kkt_tol, exact=True, dual_coef=dual_coef)
    primal = svm.objective + svm.gap
    return Solution(
        weights=weights,
        dual_coef=svm.dual_coef,
        intercept=svm.intercept,
        objective=primal,
        dual_bound=svm.objective,
        tol=tol,
        work=Work(1, svm.n_iter, svm.n_passes),
        history=(Step(primal, svm.gap, 1),),
        indefinite=allowed & svm.indefinite,
        reach=largest_share(svm.dual_coef, *signed_bounds(y, U)),
    )


class UniformMKLClassifier(BaseMKLClassifier):
    """SVM on the mean of the kernels.

    The baseline every other method has to beat, and hard to beat when the views are about
    equally useful. Absent kernels count as zero.

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
        Relative duality gap.
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
        Kernel weights.
    dual_coef_ : ndarray of shape (n_problems, n)
        Signed duals of the training samples, without the weights.
    intercept_ : ndarray of shape (n_problems,)
        Biases.
    n_support_ : ndarray of shape (n_problems,)
        Number of support vectors.
    objective_, duality_gap_ : float, or ndarray of shape (n_problems,) if multi-class
        Certified primal value, and how far it may be above the optimum.
    n_iter_, n_solves_, n_smo_iter_, n_passes_ : int, int, int, float
        Iterations, SVM solves, SMO iterations, and passes over the kernels.
    converged_ : bool
        Whether every problem met `tol`.
    history_ : list of tuple of Step
        Objective and gap by iteration, for each problem.
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
    >>> bool(kq.mkl.UniformMKLClassifier().fit(X, y).score(X, y) > 0.9)
    True
    """

    _takes_factors = True

    def __init__(
        self,
        C: float = 1.0,
        *,
        kernels: Any = "gaussian",
        views: Any = None,
        n_landmarks: int | None = None,
        tol: float = 1e-3,
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
        self.multi_class = multi_class
        self.class_weight = class_weight
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _solve(self, problem: BinaryProblem, options: Options) -> Solution:
        solution = solve_uniform_mkl(
            problem.K,
            problem.y,
            C=problem.C,
            margins=self._margins(problem),
            allowed=problem.allowed,
            tol=options.tol,
            dual_coef=options.start.dual_coef,
        )
        options.report(solution.history[-1])
        return solution

    def _margins(self, problem: BinaryProblem) -> Floats | None:
        """Return the margin asked of each sample, None for 1."""
        return None


class ObservedFractionMKLClassifier(UniformMKLClassifier):
    """SVM on the mean kernel that asks less margin of samples with fewer observed views.

    The margin of a sample is the fraction of its kernels that are observed. As simple and fast as
    `UniformMKLClassifier`, whose parameters and attributes it has, equal to it when nothing is
    absent, and a strong baseline otherwise.

    Examples
    --------
    >>> import kernelquilt as kq
    >>> X, y = kq.datasets.load_example("wdbc")
    >>> X = kq.datasets.make_absent(X, 0.3, random_state=0)
    >>> bool(kq.ObservedFractionMKLClassifier().fit(X, y).score(X, y) > 0.9)
    True
    """

    def _margins(self, problem: BinaryProblem) -> Floats:
        fraction = problem.observed[:, problem.allowed].mean(axis=1)
        return np.where(fraction > 0, fraction, 1.0)
