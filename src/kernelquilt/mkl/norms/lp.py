r"""lp-norm multiple kernel learning.

.. math:: \min_{d \ge 0, \, \|d\|_p \le 1} \; \min_{w, b} \; \tfrac12 \sum_m \frac{\|w_m\|^2}{d_m}
          + \sum_i C_i \max\bigl(0,\, 1 - y_i f(x_i) / \tau_i\bigr), \qquad p \ge 1,

with absent kernels filled with zeros. For p = 1 this is :mod:`kernelquilt.mkl.norms.simple`. Large
p spreads the weights; for p to infinity they tend to 1 each, not to 1/M as in uniform MKL, so the
same C does not mean the same thing there. With :math:`q_m = b'K_m b` and the conjugate exponent
:math:`p^* = p / (p - 1)` the certificate is

.. math:: J(d) = \max_b \; s'b - \tfrac12 \sum_m d_m q_m \;\ge\; s'b - \tfrac12 \|q\|_{p^*} .

For p of 1.5 and more the closed-form update alternates with the SVM,

.. math:: d_m \propto \|w_m\|^{2 / (p + 1)}, \qquad \|d\|_p = 1,

and takes a handful of SVM solves. Below that it takes tens, and projected Newton
(:mod:`kernelquilt.core.weights.solvers`) in the coordinates :math:`u_m = d_m^p`, in which the
problem is convex over the simplex, takes over.

=============  ==============================================
paper symbol   name here
=============  ==============================================
K_m            ``K[m]`` (zero where absent)
theta_m, d_m   ``weights[m]``
alpha_i y_i    ``dual_coef[i]`` times ``margins[i]``
=============  ==============================================

References
----------
.. [1] M. Kloft, U. Brefeld, S. Sonnenburg and A. Zien, "lp-norm multiple kernel learning",
   JMLR 12, 2011.
.. [2] Z. Xu, R. Jin, H. Yang, I. King and M. Lyu, "Simple and efficient multiple kernel learning
   by group lasso", ICML 2010.
"""

from collections.abc import Callable
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval

from kernelquilt._typing import Bools, Floats, Numbers
from kernelquilt.core.svm.factors import Factors
from kernelquilt.core.svm.weighted_svm import svm_with_margins
from kernelquilt.core.weights.sets import NormBall
from kernelquilt.core.weights.solution import Options, Solution, Start, Step
from kernelquilt.core.weights.solvers import WeightSolver, alternate, newton
from kernelquilt.mkl.fitting import BaseMKLClassifier, BinaryProblem
from kernelquilt.mkl.norms.simple import solve_simple_mkl

CLOSED_FORM_FROM = 1.5


def solve_lp_mkl(
    K: Numbers | Factors,
    y: Floats,
    *,
    p: float = 2.0,
    C: float | Floats = 1.0,
    margins: Floats | None = None,
    allowed: Bools | None = None,
    tol: float = 1e-3,
    max_iter: int = 200,
    weights: Floats | None = None,
    dual_coef: Floats | None = None,
    on_step: Callable[[Step], None] | None = None,
) -> Solution:
    """Solve lp-norm MKL (see the module docstring for the objective).

    Parameters
    ----------
    p : float, default=2.0
        Exponent of the norm, at least 1.
    K, y, C, margins, allowed, tol, max_iter, weights, dual_coef, on_step
        As in `solve_simple_mkl`.

    Returns
    -------
    Solution
        Weights, duals and certificate.

    Examples
    --------
    >>> import kernelquilt as kq
    >>> X, y = kq.datasets.make_multiview(40, 3, random_state=0)
    >>> K = kq.ViewKernels().fit_transform(X).gram()
    >>> solution = kq.mkl.solve_lp_mkl(K, 2.0 * y - 1, p=2)
    >>> solution.converged, solution.weights.round(1)
    (True, array([0.8, 0.5, 0.4]))
    """
    if p < 1.0:
        raise ValueError(f"p must be at least 1 for the problem to be convex, got {p}")
    if p == 1.0:
        return solve_simple_mkl(
            K,
            y,
            C=C,
            margins=margins,
            allowed=allowed,
            tol=tol,
            max_iter=max_iter,
            weights=weights,
            dual_coef=dual_coef,
            on_step=on_step,
        )
    allowed = np.ones(len(K), dtype=np.bool_) if allowed is None else allowed
    solver: WeightSolver[NormBall] = newton if p < CLOSED_FORM_FROM else alternate
    return solver(
        svm_with_margins(K, y, C, margins),
        NormBall(allowed, p),
        Options(tol, max_iter, Start(weights, dual_coef), on_step),
    )


class LpMKLClassifier(BaseMKLClassifier):
    """SVM on a combination of kernels whose weights have lp-norm one.

    Between `SimpleMKLClassifier` (p = 1, sparse) and equal weights (p to infinity): use it when
    most views help, though not equally. The optimum is certified by `duality_gap_`. Absent kernels
    count as zero.

    Parameters
    ----------
    C : float, default=1.0
        Penalty on margin violations.
    p : float, default=2.0
        Exponent of the norm of the weights, at least 1.
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
    max_iter : int, default=200
        Cap on the SVM solves of each binary problem.
    multi_class : {"ovr", "ovo"}, default="ovr"
        One-vs-rest or one-vs-one for more than two classes.
    weights : {"per_class", "shared"}, default="per_class"
        Whether each of these binary problems has its own weights or all have the same.
    C_weights : float or None, default=None
        Penalty at which the kernel weights are learned; None is `C` itself. Where labels are noisy,
        a small one with a much larger `C` keeps the weights from fitting the noise: they are then
        held, and one more SVM is solved with `C`, to which `objective_` and `duality_gap_` refer.
    class_weight : dict, "balanced" or None, default=None
        Factors on the penalties by class.
    n_jobs : int or None, default=None
        Threads over the binary problems of a multi-class fit.
    verbose : int, default=0
        Whether to print the progress of the solver.

    Attributes
    ----------
    weights_ : ndarray of shape (M,), or (n_problems, M) if multi-class
        Kernel weights, non-negative with lp-norm 1.
    dual_coef_ : ndarray of shape (n_problems, n)
        Signed duals of the training samples, without the weights.
    intercept_ : ndarray of shape (n_problems,)
        Biases.
    n_support_ : ndarray of shape (n_problems,)
        Number of support vectors.
    objective_, duality_gap_ : float, or ndarray of shape (n_problems,) if multi-class
        Certified primal value, and how far it may be above the optimum; of the sum of all
        problems if they share the weights.
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
    >>> model = kq.LpMKLClassifier(p=2).fit(X, y)
    >>> float((model.weights_**2).sum().round(6))
    1.0
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **BaseMKLClassifier._learned_weights_constraints,
        "p": [Interval(Real, 1, np.inf, closed="left")],
    }

    _takes_factors = True

    def __init__(
        self,
        C: float = 1.0,
        *,
        p: float = 2.0,
        kernels: Any = "gaussian",
        views: Any = None,
        n_landmarks: int | None = None,
        tol: float = 1e-3,
        max_iter: int = 200,
        multi_class: str = "ovr",
        weights: str = "per_class",
        C_weights: float | None = None,
        class_weight: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.C = C
        self.p = p
        self.kernels = kernels
        self.views = views
        self.n_landmarks = n_landmarks
        self.tol = tol
        self.max_iter = max_iter
        self.multi_class = multi_class
        self.weights = weights
        self.C_weights = C_weights
        self.class_weight = class_weight
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _solve(self, problem: BinaryProblem, options: Options) -> Solution:
        return solve_lp_mkl(
            problem.K,
            problem.y,
            p=self.p,
            C=problem.C,
            allowed=problem.allowed,
            **options.keywords("weights", "dual_coef"),
        )
