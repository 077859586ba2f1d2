r"""(r, p)-norm multiple kernel learning.

.. math:: \min_{d \ge 0, \; h(d) \le 1} \; \min_{w, b} \; \tfrac12 \sum_m \frac{\|w_m\|^2}{d_m}
          + \sum_i C_i \max\bigl(0,\, 1 - y_i f(x_i) / \tau_i\bigr), \qquad
          h(d) = \|d d'\|_{r,p} = \|d\|_r \|d\|_p, \qquad r, p \ge 1,

equation (17) of [1]_, with absent kernels filled with zeros. The optimum lies between those of
:mod:`kernelquilt.mkl.norms.lp` with exponents r and p. With :math:`q_m = b'K_m b` a solution has

.. math:: q_m = \tfrac12 (d'q) \bigl(d_m^{r-1} / \|d\|_r^r + d_m^{p-1} / \|d\|_p^p\bigr)
          \quad (\le \text{ where } d_m = 0);

the largest violation relative to :math:`\max_m q_m` is the residual that ends the descent of
:mod:`kernelquilt.mkl.norms.matrix_norm_descent`. The lower bound
:math:`s'b - \tfrac12 \max_{h(d) \le 1} d'q` comes with it but need not close: unless r = p the set
need not be convex, and there may be several local minima.

=============  ==============================================
paper symbol   name here
=============  ==============================================
K_m            ``K[m]`` (zero where absent)
beta_m         ``weights[m]``, d_m
alpha_i y_i    ``dual_coef[i]`` times ``margins[i]``
=============  ==============================================

The paper takes the problem for convex, its dual (8) for tight and its updates (11) and (12) for
equivalent, which holds for r = p only. With (13) either is unstable in general, and (12) has
another scale, that is, another C. Its four variants are

=======  ==============  ===================
variant  ``init``        ``update``
=======  ==============  ===================
MKL0     ``"random"``    ``"paper_12"``
MKL1     ``"uniform"``   ``"paper_11"``
MKL2     ``"lp"``        ``"paper_11"``
MKL3     ``"lp"``        ``"paper_12"``
=======  ==============  ===================

References
----------
.. [1] Y. Han, Y. Yang, X. Li, Q. Liu and Y. Ma, "Matrix-regularized multiple kernel learning via
   (r, p) norms", IEEE Transactions on Neural Networks and Learning Systems, 2018.
"""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions

from kernelquilt._typing import Bools, Floats, Numbers
from kernelquilt.core.svm.weighted_svm import svm_with_margins
from kernelquilt.core.weights.solution import Options, Solution, Start, Step, Work
from kernelquilt.core.weights.solvers import WeightSolver
from kernelquilt.mkl.fitting import BaseMKLClassifier, BinaryProblem
from kernelquilt.mkl.norms.lp import solve_lp_mkl
from kernelquilt.mkl.norms.matrix_norm_descent import descend, follow_published, nonzero_kernels
from kernelquilt.mkl.norms.matrix_norm_set import MatrixNormSet

UPDATES = {"exact", "paper_11", "paper_12"}
RIVAL_TOL = 1e-2  # of the l1-MKL problem that only gives another start
RIVAL_SOLVES = (3, 4)  # for that problem, and for the descent from there to prove better
SMALL_GAP = 1e-4  # relative gap that is not worth another start


def solve_matrix_norm_mkl(
    K: Numbers,
    y: Floats,
    *,
    r: float = 2.0,
    p: float = 4.0,
    C: float | Floats = 1.0,
    margins: Floats | None = None,
    allowed: Bools | None = None,
    update: str = "exact",
    tol: float = 1e-3,
    max_iter: int = 200,
    weights: Floats | None = None,
    dual_coef: Floats | None = None,
    on_step: Callable[[Step], None] | None = None,
) -> Solution:
    """Solve (r, p)-norm MKL (see the module docstring for the objective).

    With the default update the objective never rises. If r or p is 1, no weights are given and the
    relative gap exceeds `tol` and 1e-4, sparse weights near those of l1-MKL are tried as a start
    too. The better solution is returned, with the solves of both.

    Parameters
    ----------
    K, y, C, margins, weights, dual_coef, on_step
        As in `solve_simple_mkl`.
    r, p : float, default=2.0 and 4.0
        Exponents of the norm, at least 1.
    allowed : ndarray of shape (M,), bool, optional
        Kernels that may have weight, all by default; those with zero trace never have.
    update : {"exact", "paper_11", "paper_12"}, default="exact"
        By descent, or by a published update; the best point seen if that does not converge.
    tol : float, default=1e-3
        Residual of the optimality conditions; relative duality gap if r = p.
    max_iter : int, default=200
        Cap on the SVM solves from one start.

    Returns
    -------
    Solution
        Weights, duals and residual.

    Examples
    --------
    >>> import kernelquilt as kq
    >>> X, y = kq.datasets.make_multiview(40, 3, random_state=0)
    >>> K = kq.ViewKernels().fit_transform(X).gram()
    >>> solution = kq.mkl.solve_matrix_norm_mkl(K, 2.0 * y - 1, r=2, p=4)
    >>> solution.converged, solution.weights.round(1)
    (True, array([0.8, 0.5, 0.6]))
    """
    if not (1.0 <= r < np.inf and 1.0 <= p < np.inf):
        raise ValueError(f"r and p must be finite and at least 1, got r={r} and p={p}")
    if update not in UPDATES:
        raise ValueError(f"update must be one of {sorted(UPDATES)}, got {update!r}")
    allowed = nonzero_kernels(K, np.broadcast_to(C, y.shape), allowed)
    weight_set = MatrixNormSet(allowed, r, p, powers=update == "paper_12")
    lp: dict[str, Any] = {"C": C, "margins": margins, "allowed": allowed, "max_iter": max_iter}
    if r == p and update == "exact":
        start = None if weights is None else weight_set.weights(weight_set.raised(weights))
        return solve_lp_mkl(
            K, y, p=p, tol=tol, weights=start, dual_coef=dual_coef, on_step=on_step, **lp
        )

    solver: WeightSolver[MatrixNormSet] = descend if update == "exact" else follow_published

    def solve(start: Start, max_iter: int) -> Solution:
        svm = svm_with_margins(K, y, C, margins)
        return solver(svm, weight_set, Options(tol, max_iter, start, on_step))

    solution = solve(Start(weights, dual_coef), max_iter)
    may_be_local = update == "exact" and min(r, p) == 1.0 and weights is None
    if may_be_local and solution.relative_gap > max(tol, SMALL_GAP):
        lp["max_iter"], trial = np.minimum(RIVAL_SOLVES, max_iter)
        sparse = solve_lp_mkl(K, y, p=1.0, tol=RIVAL_TOL, dual_coef=solution.dual_coef, **lp)
        rival = solve(Start(sparse.weights, sparse.dual_coef), trial)
        work = solution.work + sparse.work + rival.work
        if not rival.converged and rival.objective < solution.objective:
            rival = solve(Start(rival.weights, rival.dual_coef), max_iter)
            work += rival.work
        bound = max(solution.dual_bound, rival.dual_bound)
        better = min(solution, rival, key=lambda each: each.objective)
        solution = replace(better, dual_bound=bound, work=work)
    return solution


class MatrixNormMKLClassifier(BaseMKLClassifier):
    """SVM on a combination of kernels whose weights have (r, p) matrix norm one.

    The norm of the weights d is ``||d||_r ||d||_p``, between those of `LpMKLClassifier` with
    exponents r and p. Use it to reproduce published results, or to search over two exponents
    instead of one; no advantage in generalisation is claimed. Unless r = p the problem need not be
    convex: the fit ends where the optimality conditions hold, and `duality_gap_`, which need not
    vanish, bounds how much better another solution could be. Absent kernels count as zero.

    Parameters
    ----------
    C : float, default=1.0
        Penalty on margin violations.
    r, p : float, default=2.0 and 4.0
        Exponents of the norm of the weights, at least 1. If either is 1, weights may vanish.
    update : {"exact", "paper_11", "paper_12"}, default="exact"
        By descent to a solution, or by a published update, for comparison only: these need not
        converge, and the second one has another scale, that is, another C.
    init : {"auto", "uniform", "random", "lp"}, default="auto"
        Weights to start from: equal, random, or those of lp-MKL with exponent `p`. "auto" is
        "uniform", with another start if r or p is 1 and the gap leaves room for better solutions;
        even then the best one need not be found.
    kernels : str, callable, list or dict, default="gaussian"
        Kernels of the views, as in `ViewKernels`; "precomputed" for plain arrays of kernels of
        shape (n, n, M). A `KernelStack` is always used as it is.
    views : dict of str to columns, "columns" or None, default=None
        The views of 2-D data, as in `as_views`.
    tol : float, default=1e-3
        Residual of the optimality conditions; relative duality gap if r = p.
    max_iter : int, default=200
        Cap on the SVM solves from one start of each binary problem.
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
    random_state : int, RandomState instance or None, default=None
        For ``init="random"``, the same for all problems; an instance is copied, not advanced.
    verbose : int, default=0
        Whether to print the progress of the solver.

    Attributes
    ----------
    weights_ : ndarray of shape (M,), or (n_problems, M) if multi-class
        Kernel weights, non-negative with ``||d||_r ||d||_p = 1``.
    dual_coef_ : ndarray of shape (n_problems, n)
        Signed duals of the training samples, without the weights.
    intercept_ : ndarray of shape (n_problems,)
        Biases.
    n_support_ : ndarray of shape (n_problems,)
        Number of support vectors.
    objective_, duality_gap_ : float, or ndarray of shape (n_problems,) if multi-class
        Primal value, and how far it may be above the optimum; of the sum of all problems if they
        share the weights.
    n_iter_, n_solves_, n_smo_iter_, n_passes_ : int, int, int, float
        Iterations, SVM solves, SMO iterations, and passes over the kernels.
    converged_ : bool
        Whether every problem met `tol`.
    history_ : list of tuple of Step
        Objective and gap by iteration, for each problem.
    kernel_names_ : tuple of str of length M
        Names of the kernels.
    classes_ : ndarray of shape (n_classes,)
        Class labels.
    n_features_in_ : int
        Number of columns of 2-D data, otherwise of views or kernels.

    Examples
    --------
    >>> import kernelquilt as kq
    >>> from kernelquilt.mkl.norms.matrix_norm import MatrixNormMKLClassifier
    >>> X, y = kq.datasets.load_example("wdbc")
    >>> d = MatrixNormMKLClassifier(r=1, p=2).fit(X, y).weights_
    >>> float((d.sum() * (d**2).sum() ** 0.5).round(6))
    1.0
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **BaseMKLClassifier._learned_weights_constraints,
        "r": [Interval(Real, 1, np.inf, closed="left")],
        "p": [Interval(Real, 1, np.inf, closed="left")],
        "update": [StrOptions(UPDATES)],
        "init": [StrOptions({"auto", "uniform", "random", "lp"})],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        C: float = 1.0,
        *,
        r: float = 2.0,
        p: float = 4.0,
        update: str = "exact",
        init: str = "auto",
        kernels: Any = "gaussian",
        views: Any = None,
        tol: float = 1e-3,
        max_iter: int = 200,
        multi_class: str = "ovr",
        weights: str = "per_class",
        C_weights: float | None = None,
        class_weight: Any = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.C = C
        self.r = r
        self.p = p
        self.update = update
        self.init = init
        self.kernels = kernels
        self.views = views
        self.tol = tol
        self.max_iter = max_iter
        self.multi_class = multi_class
        self.weights = weights
        self.C_weights = C_weights
        self.class_weight = class_weight
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @staticmethod
    def _arrays_beside(n_kernels: int) -> float:
        return 3.0

    def _solve(self, problem: BinaryProblem, options: Options) -> Solution:
        arrays: dict[str, Any] = {
            "K": problem.K,
            "y": problem.y,
            "C": problem.C,
            "allowed": problem.allowed,
        }
        weights, dual_coef = options.start.weights, options.start.dual_coef
        work = Work()
        if self.init == "lp":
            silent = replace(options, on_step=None)
            first = solve_lp_mkl(p=self.p, **arrays, **silent.keywords("dual_coef"))
            weights, dual_coef, work = first.weights, first.dual_coef, first.work
        elif self.init == "random":
            # every problem draws the same, so that the order of the threads does not matter
            rng = check_random_state(deepcopy(self.random_state))
            weights = rng.uniform(size=len(problem.K))
        elif self.init == "uniform":
            weights = np.full(len(problem.K), 1.0 / len(problem.K))
        elif self.update != "exact":
            weights = None
        solution = solve_matrix_norm_mkl(
            r=self.r,
            p=self.p,
            update=self.update,
            weights=weights,
            dual_coef=dual_coef,
            **arrays,
            **options.keywords(),
        )
        # not convex: a start that a bound has changed may lead to another solution
        return replace(solution, work=solution.work + work, reach=np.inf)
