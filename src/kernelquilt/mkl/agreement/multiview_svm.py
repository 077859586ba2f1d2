r"""Any number of views with an SVM each, whose outputs are pulled towards their mean.

.. math:: \min_{w, b} \; \sum_i \sum_{l \in O_i} \max(0, 1 - y_i f_l(x_i)) + \sum_l c_l \|w_l\|^2
          + \lambda \sum_i \sum_{l \in O_i} \bigl(f_l(x_i) - \bar f(x_i)\bigr)^2, \qquad
          \bar f(x_i) = \frac1{|O_i|} \sum_{l \in O_i} f_l(x_i),

with :math:`f_l = \langle w_l, \phi_l \rangle + b_l` and :math:`O_i` the views that sample i has:
the multi-view framework of [1]_, Eq. (2), with the hinge loss of the SVM instead of its squared
loss. The decision is that of :math:`\bar f`. Weights of samples and classes count in both sums over
samples. The dual, solved by :mod:`kernelquilt.mkl.agreement.interior_point`, is

.. math:: \max \; \sum_{l, i} a_{li} - \tfrac14 \sum_l g_l' K_l g_l / c_l
          - \tfrac1{4 \lambda} \sum_{l, i} v_{li}^2, \quad
          g_l = y \circ a_l - v_l, \quad 1'g_l = 0, \quad
          \sum_{l \in O_i} v_{li} = 0, \quad 0 \le a_{li} \le 1 .

=============  ====================================================
paper symbol   name here
=============  ====================================================
K_l            ``K[l]`` (zero where absent)
c_l, lambda    ``c[l]``, ``lam``
f_l            ``K[l] @ dual_coef[l] + view_intercepts[l]``
g_l            ``2 c[l] dual_coef[l]``
=============  ====================================================

Large lambda makes the views agree; with lambda = 0 each is an SVM of its own, with penalty
:math:`1 / 2 c_l`.

References
----------
.. [1] Z. Wang, S. Chen and T. Sun, "MultiK-MHKS: a novel multiple kernel learning algorithm",
   IEEE TPAMI 30(2), 2008.
"""

from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval

from kernelquilt._typing import Bools, Floats, Indices, Numbers
from kernelquilt.core.limits import single_threaded_blas
from kernelquilt.core.weights.solution import Options, Solution
from kernelquilt.mkl.agreement.averaging import ViewAverageClassifier, check_penalties
from kernelquilt.mkl.agreement.coupled_views import solve_views
from kernelquilt.mkl.agreement.disagreement import Squares
from kernelquilt.mkl.fitting import BinaryProblem


@single_threaded_blas()
def solve_multiview_svm(
    K: Numbers,
    y: Floats,
    *,
    observed: Bools | None = None,
    c: float | Floats = 0.1,
    lam: float | Floats = 0.1,
    C: float | Floats = 1.0,
    tol: float = 1e-3,
) -> Solution:
    """Solve the multi-view SVM (see the module docstring for the objective).

    Parameters
    ----------
    K : ndarray of shape (M, n, n)
        Kernels, zero where absent.
    y : ndarray of shape (n,)
        Labels -1 and +1.
    observed : ndarray of shape (n, M), bool, optional
        True where a sample has a view, everywhere by default.
    c : float or ndarray of shape (M,), default=0.1
        Weight of the squared norms, of all or of each view.
    lam : float or ndarray of shape (n,), default=0.1
        Weight of disagreement, of all or of each sample.
    C : float or ndarray of shape (n,), default=1.0
        Weight of the hinge loss, of all or of each sample; 0 leaves a sample out.
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
    >>> solution = kq.mkl.solve_multiview_svm(K, 2.0 * y - 1)
    >>> solution.converged, solution.dual_coef.shape
    (True, (3, 40))
    """
    n = len(y)
    c = check_penalties(c, lam, len(K))
    observed = np.ones((n, len(K)), dtype=np.bool_) if observed is None else observed
    U = np.broadcast_to(np.asarray(C, dtype=np.float64), n) * observed.T
    stiffness = 2.0 * np.broadcast_to(np.asarray(lam, dtype=np.float64), n)

    def disagreement(used: Bools, rows: Indices) -> Squares:
        return Squares(used, stiffness[rows])

    return solve_views(K, y, U, stiffness > 0, disagreement, scale=0.5 / c, tol=tol)


class MultiViewSVMClassifier(ViewAverageClassifier):
    """Any number of views with an SVM each, made to agree by a squared penalty.

    For views that each could tell the classes alone: what one of them gets wrong the others may
    correct. The mean of the outputs of the views that a sample has decides. Compare it with
    `UniformMKLClassifier`, which learns one function of all views.

    Parameters
    ----------
    c : float or array-like of shape (M,), default=0.1
        Penalty on the norm, of all kernels or of each: larger is smoother, unlike a `C`.
    lam : float, default=0.1
        Weight of the squared distances of the outputs from their mean.
    kernels : str, callable, list or dict, default="gaussian"
        Kernels of the views, as in `ViewKernels`; "precomputed" for plain arrays of kernels of
        shape (n, n, M). A `KernelStack` is always used as it is.
    views : dict of str to columns, "columns" or None, default=None
        The views of 2-D data, as in `as_views`.
    tol : float, default=1e-3
        Relative duality gap to warn above; what is reached is far smaller as a rule.
    multi_class : {"ovr", "ovo"}, default="ovr"
        One-vs-rest or one-vs-one for more than two classes.
    class_weight : dict, "balanced" or None, default=None
        Factors on the losses and the disagreement by class.
    n_jobs : int or None, default=None
        Threads over the binary problems of a multi-class fit.
    verbose : int, default=0
        Whether to print the progress of the solver.

    Attributes
    ----------
    dual_coef_ : ndarray of shape (n_problems, M, n)
        Coefficients of the training samples, for each view.
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
    >>> X, y = kq.datasets.make_multiview(100, 3, random_state=0)
    >>> bool(kq.mkl.MultiViewSVMClassifier().fit(X, y).score(X, y) > 0.9)
    True
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **ViewAverageClassifier._parameter_constraints,
        "c": [Interval(Real, 0, np.inf, closed="neither"), "array-like"],
        "lam": [Interval(Real, 0, np.inf, closed="left")],
    }

    def __init__(
        self,
        c: Any = 0.1,
        *,
        lam: float = 0.1,
        kernels: Any = "gaussian",
        views: Any = None,
        tol: float = 1e-3,
        multi_class: str = "ovr",
        class_weight: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.c = c
        self.lam = lam
        self.kernels = kernels
        self.views = views
        self.tol = tol
        self.multi_class = multi_class
        self.class_weight = class_weight
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _solve(self, problem: BinaryProblem, options: Options) -> Solution:
        solution = solve_multiview_svm(
            problem.K,
            problem.y,
            observed=problem.observed,
            c=self.c,
            lam=self.lam * problem.C,
            C=problem.C,
            tol=options.tol,
        )
        options.report(solution.history[-1])
        return solution
