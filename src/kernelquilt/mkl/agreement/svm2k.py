r"""SVM-2K: two views with an SVM each, whose outputs may differ by little.

.. math:: \min \; \tfrac12 \|w_A\|^2 + \tfrac12 \|w_B\|^2
          + \sum_i C_{Ai} \max(0, 1 - y_i f_A(x_i)) + \sum_i C_{Bi} \max(0, 1 - y_i f_B(x_i))
          + \sum_i D_i \max(0, |f_A(x_i) - f_B(x_i)| - \epsilon)

with biases that are not penalised, :math:`f_A = \langle w_A, \phi_A \rangle + b_A`. The sums are
over the samples that have the view, or both. The decision is that of
:math:`\tfrac12 (f_A + f_B)`, or of the one view that a sample has. The dual, solved by
:mod:`kernelquilt.mkl.agreement.interior_point`, is

.. math:: \max \; \sum_i (a_{Ai} + a_{Bi}) - \epsilon \sum_i (d^+_i + d^-_i)
          - \tfrac12 g_A' K_A g_A - \tfrac12 g_B' K_B g_B, \\
          g_A = a_A \circ y - d^+ + d^-, \quad g_B = a_B \circ y + d^+ - d^-, \quad
          1'g_A = 1'g_B = 0, \\
          0 \le a_A \le C_A, \quad 0 \le a_B \le C_B, \quad 0 \le d^\pm, \; d^+ + d^- \le D .

=====================  ==================================================
paper symbol           name here
=====================  ==================================================
kappa_A, kappa_B       ``K[0]``, ``K[1]`` (zero where absent)
C_A, C_B, D, epsilon   ``C_a``, ``C_b``, ``D``, ``eps``
g_A, g_B               ``dual_coef[0]``, ``dual_coef[1]``
b_A, b_B               ``view_intercepts[0]``, ``view_intercepts[1]``
beta+, beta-           d+, d-
=====================  ==================================================

References
----------
.. [1] J. Farquhar, D. Hardoon, H. Meng, J. Shawe-Taylor and S. Szedmak, "Two view learning:
   SVM-2K, theory and practice", NIPS 2005.
"""

from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval

from kernelquilt._messages import quoted
from kernelquilt._typing import Bools, Floats, Indices, Numbers
from kernelquilt.core.limits import single_threaded_blas
from kernelquilt.core.svm.factors import Factors
from kernelquilt.core.weights.solution import Options, Solution
from kernelquilt.data.low_rank import LowRankStack
from kernelquilt.data.training import Samples
from kernelquilt.kernels.inputs import KernelInput, check_gram_memory
from kernelquilt.mkl.agreement.averaging import ViewAverageClassifier
from kernelquilt.mkl.agreement.coupled_views import solve_views
from kernelquilt.mkl.agreement.disagreement import Band
from kernelquilt.mkl.fitting import BinaryProblem


@single_threaded_blas()
def solve_svm2k(
    K: Numbers,
    y: Floats,
    *,
    observed: Bools | None = None,
    C_a: float | Floats = 1.0,
    C_b: float | Floats = 1.0,
    D: float | Floats = 1.0,
    eps: float = 0.1,
    tol: float = 1e-3,
) -> Solution:
    """Solve SVM-2K (see the module docstring for the objective).

    Parameters
    ----------
    K : ndarray of shape (2, n, n), or (1, n, n)
        Kernels of the two views, zero where absent; with one it is its SVM.
    y : ndarray of shape (n,)
        Labels -1 and +1.
    observed : ndarray of shape (n, 2), bool, optional
        True where a sample has a view, everywhere by default.
    C_a, C_b : float or ndarray of shape (n,), default=1.0
        Penalties of the margins of the first and the second view; 0 leaves a sample out.
    D : float or ndarray of shape (n,), default=1.0
        Penalty on disagreement.
    eps : float, default=0.1
        Disagreement that costs nothing.
    tol : float, default=1e-3
        Relative duality gap; what is reached is far smaller as a rule.

    Returns
    -------
    Solution
        With `dual_coef` of shape (M, n) and the biases of the views as `view_intercepts`.

    Examples
    --------
    >>> import kernelquilt as kq
    >>> X, y = kq.datasets.make_multiview(40, 3, random_state=0)
    >>> K = kq.ViewKernels().fit_transform(X).gram()
    >>> solution = kq.mkl.solve_svm2k(K[:2], 2.0 * y - 1)
    >>> solution.converged, solution.dual_coef.shape
    (True, (2, 40))
    """
    if len(K) > 2:
        raise ValueError(f"SVM-2K is for two kernels, got {len(K)}")
    for name, value in (("C_a", C_a), ("C_b", C_b), ("D", D), ("eps", eps)):
        if not (np.isfinite(value).all() and np.min(value) >= 0):
            raise ValueError(f"{name} must be finite and not negative, got {np.min(value)}")
    n = len(y)
    observed = np.ones((n, len(K)), dtype=np.bool_) if observed is None else observed
    U = np.array([np.broadcast_to(C, n) for C in (C_a, C_b)[: len(K)]]) * observed.T
    cost = np.broadcast_to(np.asarray(D, dtype=np.float64), n)

    def disagreement(used: Bools, rows: Indices) -> Band:
        return Band(used, cost[rows], eps)

    return solve_views(K, y, U, cost > 0, disagreement, scale=np.ones(len(K)), tol=tol)


class SVM2KClassifier(ViewAverageClassifier):
    """Two views with an SVM each that are made to agree up to a small distance.

    For two views each of which could tell the classes alone. `MultiViewSVMClassifier` is for any
    number of views. A sample that lacks a view is learned from the other one and classified by
    it. With one view it is the SVM of that view.

    The solver needs the two kernels themselves: of a `LowRankStack` it makes them, n x n each, and
    refuses what is above the memory limit. `MultiKernelMHKSClassifier` does without.

    Parameters
    ----------
    C_a, C_b : float, default=1.0
        Penalties on margin violations of the first and the second view.
    D : float, default=1.0
        Penalty on disagreement beyond `eps`.
    eps : float, default=0.1
        Difference of the outputs that costs nothing.
    kernels : str, callable, list or dict, default="gaussian"
        Kernels of the views, as in `ViewKernels`; "precomputed" for plain arrays of kernels of
        shape (n, n, M). A `KernelStack` is always used as it is. At most two in all.
    views : dict of str to columns, "columns" or None, default=None
        The views of 2-D data, as in `as_views`.
    tol : float, default=1e-3
        Relative duality gap to warn above; what is reached is far smaller as a rule.
    multi_class : {"ovr", "ovo"}, default="ovr"
        One-vs-rest or one-vs-one for more than two classes.
    class_weight : dict, "balanced" or None, default=None
        Factors on `C_a`, `C_b` and `D` by class.
    n_jobs : int or None, default=None
        Threads over the binary problems of a multi-class fit.
    verbose : int, default=0
        Whether to print the progress of the solver.

    Attributes
    ----------
    dual_coef_ : ndarray of shape (n_problems, M, n)
        Signed duals of the training samples, for each view.
    view_intercepts_ : ndarray of shape (n_problems, M)
        Biases of the views.
    intercept_ : ndarray of shape (n_problems,)
        Their means, which are the scores of samples without any view.
    weights_ : ndarray of shape (M,), or (n_problems, M) if multi-class
        Share of each view in the score of a sample that has all.
    n_support_ : ndarray of shape (n_problems,)
        Number of samples with a coefficient; an interior point method leaves tiny ones where an
        SVM has none.
    objective_, duality_gap_ : float, or ndarray of shape (n_problems,) if multi-class
        Certified primal value, and how far it may be above the optimum.
    n_iter_, n_solves_, n_smo_iter_, n_passes_ : int, int, int, float
        Interior point iterations, groups of views solved, SMO iterations of views alone, and
        passes over the kernels.
    converged_ : bool
        Whether every problem met `tol`.
    history_ : list of tuple of Step
        Objective and gap at the end, for each problem.
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
    >>> X = X.select(["mean", "worst"])
    >>> bool(kq.mkl.SVM2KClassifier(D=0.1).fit(X, y).score(X, y) > 0.9)
    True
    """

    _penalty = "C_a"
    _takes_factors = True
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **ViewAverageClassifier._parameter_constraints,
        "C_a": [Interval(Real, 0, np.inf, closed="neither")],
        "C_b": [Interval(Real, 0, np.inf, closed="neither")],
        "D": [Interval(Real, 0, np.inf, closed="left")],
        "eps": [Interval(Real, 0, np.inf, closed="left")],
    }

    def __init__(
        self,
        C_a: float = 1.0,
        *,
        C_b: float = 1.0,
        D: float = 1.0,
        eps: float = 0.1,
        kernels: Any = "gaussian",
        views: Any = None,
        tol: float = 1e-3,
        multi_class: str = "ovr",
        class_weight: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.C_a = C_a
        self.C_b = C_b
        self.D = D
        self.eps = eps
        self.kernels = kernels
        self.views = views
        self.tol = tol
        self.multi_class = multi_class
        self.class_weight = class_weight
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _fit_input(self, data: Samples, weight: Floats) -> KernelInput:
        if isinstance(data, LowRankStack):  # of which the kernels are made
            check_gram_memory(self, data, lambda M: self._arrays_beside(M) + M)
        held = super()._fit_input(data, weight)
        if len(held.names) > 2:
            raise ValueError(
                f"SVM2KClassifier joins two kernels, got {len(held.names)} of {len(data)} "
                f"samples: {quoted(held.names)}; choose two of them, or use MultiViewSVMClassifier"
            )
        return held

    def _solve(self, problem: BinaryProblem, options: Options) -> Solution:
        K = problem.K
        solution = solve_svm2k(
            K.grams() if isinstance(K, Factors) else K,
            problem.y,
            observed=problem.observed,
            C_a=self.C_a * problem.C,
            C_b=self.C_b * problem.C,
            D=self.D * problem.C,
            eps=self.eps,
            tol=options.tol,
        )
        options.report(solution.history[-1])
        return solution
