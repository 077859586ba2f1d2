r"""l1-norm multiple kernel learning (SimpleMKL).

.. math:: \min_{d \in \Delta} \min_{w, b} \; \tfrac12 \sum_p \frac{\|w_p\|^2}{d_p}
          + \sum_i C_i \max\bigl(0,\, 1 - y_i f(x_i) / \tau_i\bigr),
          \qquad \Delta = \{d \ge 0, \; \textstyle\sum_p d_p = 1\},

with absent kernels filled with zeros. The inner minimum has the dual ``J(d)``, an SVM on ``sum_p
d_p K_p``; the outer one is solved by projected Newton (:mod:`kernelquilt.core.weights.solvers`), or
for comparison by the methods of the literature: reduced gradient [1]_
(:mod:`kernelquilt.mkl.norms.published.reduced_gradient`), the semi-infinite linear programme [2]_
and the level method [3]_ (:mod:`kernelquilt.mkl.norms.published.cutting_plane`). The duality gap is
the certificate of all of them:

.. math:: J(d) = \max_b \; s'b - \tfrac12 \sum_p d_p \, b'K_p b
          \;\ge\; s'b - \tfrac12 \max_p \, b'K_p b .

=============  ==============================================
paper symbol   name here
=============  ==============================================
K_p, s_ip      ``K[p]`` (zero where absent), ``observed[i, p]``
gamma_p, d_p   ``weights[p]``
tau_i          ``margins[i]``
alpha_i y_i    ``dual_coef[i]`` times ``margins[i]``
=============  ==============================================

References
----------
.. [1] A. Rakotomamonjy, F. Bach, S. Canu and Y. Grandvalet, "SimpleMKL", JMLR 9, 2008. The
   problem is theirs; they solve it by reduced gradient.
.. [2] S. Sonnenburg, G. Raetsch, C. Schaefer and B. Schoelkopf, "Large scale multiple kernel
   learning", JMLR 7, 2006.
.. [3] Z. Xu, R. Jin, I. King and M. Lyu, "An extended level method for efficient multiple kernel
   learning", NIPS 21, 2008.
"""

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import StrOptions

from kernelquilt._typing import Bools, Floats, Numbers
from kernelquilt.core.svm.factors import Factors
from kernelquilt.core.svm.weighted_svm import svm_with_margins
from kernelquilt.core.weights.sets import Simplex
from kernelquilt.core.weights.solution import Options, Solution, Start, Step
from kernelquilt.core.weights.solvers import WeightSolver, newton
from kernelquilt.mkl.fitting import BaseMKLClassifier, BinaryProblem
from kernelquilt.mkl.norms.published.cutting_plane import level_method, silp
from kernelquilt.mkl.norms.published.reduced_gradient import reduced_gradient

SOLVERS: dict[str, WeightSolver[Simplex]] = {
    "newton": newton,
    "reduced_gradient": reduced_gradient,
    "silp": silp,
    "level": level_method,
}


def solve_simple_mkl(
    K: Numbers | Factors,
    y: Floats,
    *,
    C: float | Floats = 1.0,
    margins: Floats | None = None,
    allowed: Bools | None = None,
    tol: float = 1e-3,
    max_iter: int = 200,
    solver: str = "newton",
    weights: Floats | None = None,
    dual_coef: Floats | None = None,
    on_step: Callable[[Step], None] | None = None,
) -> Solution:
    """Solve l1-norm MKL (see the module docstring for the objective).

    Parameters
    ----------
    K : ndarray of shape (M, n, n), or Factors
        Kernels, zero where absent.
    y : ndarray of shape (n,) or (L, n)
        Labels -1 and +1 of one problem, or of L problems that share the weights.
    C : float or ndarray of the shape of y, default=1.0
        Penalty, of all or of each sample; 0 leaves a sample out.
    margins : ndarray of the shape of y, optional
        Margins asked of the samples, positive; 1 by default.
    allowed : ndarray of shape (M,), bool, optional
        Kernels that may have weight, all by default.
    tol : float, default=1e-3
        Relative duality gap.
    max_iter : int, default=200
        Cap on the SVM solves; reduced gradient may need thousands.
    solver : {"newton", "reduced_gradient", "silp", "level"}, default="newton"
        Method of optimisation, see `SimpleMKLClassifier`.
    weights, dual_coef : ndarrays of shape (M,) and of y, optional
        Weights and signed duals to start from.
    on_step : callable, optional
        Called with every :class:`~kernelquilt.core.weights.solution.Step`.

    Returns
    -------
    Solution
        Weights, duals and certificate.

    Examples
    --------
    >>> import kernelquilt as kq
    >>> X, y = kq.datasets.make_multiview(40, 3, random_state=0)
    >>> K = kq.ViewKernels().fit_transform(X).gram()
    >>> solution = kq.mkl.solve_simple_mkl(K, 2.0 * y - 1)
    >>> solution.converged, solution.weights.round(1)
    (True, array([0.9, 0.1, 0. ]))
    """
    if solver not in SOLVERS:
        raise ValueError(f"solver must be one of {sorted(SOLVERS)}, got {solver!r}")
    allowed = np.ones(len(K), dtype=np.bool_) if allowed is None else allowed
    svm = svm_with_margins(K, y, C, margins)
    options = Options(tol, max_iter, Start(weights, dual_coef), on_step)
    return SOLVERS[solver](svm, Simplex(allowed), options)


class SimpleMKLClassifier(BaseMKLClassifier):
    """SVM on a learned convex combination of kernels, most of which usually get no weight.

    Use it when some views or kernels may be useless or when you want to know which ones matter.
    The optimum is certified by `duality_gap_`. Absent kernels count as zero.

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
    max_iter : int, default=200
        Cap on the SVM solves of each binary problem; raise it to thousands for
        ``solver="reduced_gradient"``.
    solver : {"newton", "reduced_gradient", "silp", "level"}, default="newton"
        Method of optimisation; all end at the same certified optimum. In brackets the SVM solves
        to a gap of 1e-3, on wdbc with 20 Gaussian kernels and C of 1 and 100, scales spaced
        logarithmically and linearly:

        - "newton": projected Newton, second order (7, 5; 7, 6).
        - "level": level method, cutting planes with a projection (8, 9; 9, 9).
        - "silp": semi-infinite linear programme, cutting planes alone (20, 21; 5, 11).
        - "reduced_gradient": SimpleMKL as published, first order (199, 4046; 32, 32). Gaps much
          below 1e-6 may be out of its reach.
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
        Kernel weights, non-negative with sum 1.
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
    >>> model = kq.SimpleMKLClassifier().fit(X, y)
    >>> bool(model.duality_gap_ <= 1e-3 * model.objective_)
    True
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **BaseMKLClassifier._learned_weights_constraints,
        "solver": [StrOptions(set(SOLVERS))],
    }

    _takes_factors = True

    def __init__(
        self,
        C: float = 1.0,
        *,
        kernels: Any = "gaussian",
        views: Any = None,
        n_landmarks: int | None = None,
        tol: float = 1e-3,
        max_iter: int = 200,
        solver: str = "newton",
        multi_class: str = "ovr",
        weights: str = "per_class",
        C_weights: float | None = None,
        class_weight: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.C = C
        self.kernels = kernels
        self.views = views
        self.n_landmarks = n_landmarks
        self.tol = tol
        self.max_iter = max_iter
        self.solver = solver
        self.multi_class = multi_class
        self.weights = weights
        self.C_weights = C_weights
        self.class_weight = class_weight
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _solve(self, problem: BinaryProblem, options: Options) -> Solution:
        return solve_simple_mkl(
            problem.K,
            problem.y,
            C=problem.C,
            allowed=problem.allowed,
            solver=self.solver,
            **options.keywords("weights", "dual_coef"),
        )
