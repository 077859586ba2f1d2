r"""MHKS and MultiK-MHKS: one classifier for each view, and a penalty where they disagree.

.. math:: \min_{\omega_l, b_l \ge 0} \; \sum_l \|Y_l \omega_l - 1 - b_l\|^2 + c_l \|w_l\|^2
          + \lambda \sum_l \Bigl\|Y_l \omega_l - \frac1m \sum_j Y_j \omega_j\Bigr\|^2 \qquad (8)

with :math:`\omega_l = (w_l, \text{bias}_l)` in the features of the empirical kernel map of kernel
l. The best b is :math:`\max(0, Y_l \omega_l - 1)`, which leaves the squared hinge loss

.. math:: \sum_l \sum_i \max(0, 1 - y_i f_l(x_i))^2 + c_l \|w_l\|^2
          + \lambda \sum_i \sum_l (f_l(x_i) - \bar f(x_i))^2,

convex in all views at once. Where views are absent, the sums run over what is observed, and the
mean is over the views that a sample has. Sample weights multiply both terms of a sample. MHKS,
Eq. (4), is the case of one view, or of several with :math:`\lambda = 0`. The score, Eq. (12), is
the mean of :math:`f_l(x)` over the views that x has.

The problem is solved exactly by Newton's method in function values
(:mod:`kernelquilt.mkl.agreement.squared_hinge`), on one eigendecomposition of each centred kernel,
which serves all c, :math:`\lambda` and one-vs-rest labels. The published Ho-Kashyap iteration is in
:mod:`kernelquilt.mkl.agreement.multi_mhks`.

==================  =================================================
paper symbol        name here
==================  =================================================
K_l, m              ``K[l]``, ``M``
c_l, lambda         ``c``, ``lam``
omega_l             ``dual_coef[l]``, ``view_intercepts[l]``
L                   ``objective``
==================  =================================================

References
----------
.. [1] Z. Wang, S. Chen and T. Sun, "MultiK-MHKS: a novel multiple kernel learning algorithm", IEEE
   TPAMI 30(2), 2008, Eqs. (4), (8), (9), (12) and Table 1.
"""

from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval

from kernelquilt._messages import warn_user
from kernelquilt._typing import Bools, Floats, Numbers
from kernelquilt.core.limits import single_threaded_blas
from kernelquilt.core.svm.factors import Factors
from kernelquilt.core.weights.solution import Options, Solution, Step
from kernelquilt.data.training import Samples
from kernelquilt.data.views import MultiView
from kernelquilt.kernels.factor_input import FactorInput
from kernelquilt.kernels.inputs import KernelInput, fit_input
from kernelquilt.mkl.agreement.averaging import (
    CONSTRAINTS,
    kernel_outputs,
    linear_outputs,
    mean_scores,
    sample_penalties,
    store_functions,
)
from kernelquilt.mkl.agreement.spectra import SpectrumStore
from kernelquilt.mkl.agreement.squared_hinge import minimise
from kernelquilt.mkl.agreement.squared_hinge_arrays import as_outputs, as_problem, as_solution
from kernelquilt.mkl.fitting import BaseMKLClassifier, BinaryProblem, Prepared


@single_threaded_blas()
def solve_mhks(
    K: Numbers | SpectrumStore,
    y: Floats,
    *,
    observed: Bools | None = None,
    c: ArrayLike = 1.0,
    lam: float = 0.0,
    sample_weight: Floats | None = None,
    tol: float = 1e-6,
    max_iter: int = 10_000,
    dual_coef: Floats | None = None,
    view_intercepts: Floats | None = None,
    on_step: Callable[[Step], None] | None = None,
) -> Solution:
    """Minimise Eq. (8) over all views at once (see the module docstring).

    Parameters
    ----------
    K : ndarray of shape (M, n, n), or SpectrumStore
        Kernels, anything where absent; the positive part is used of those that are not positive
        semi-definite. A store keeps decompositions for several solves and has its own `observed`.
    y : ndarray of shape (n,)
        Labels -1 and +1.
    observed : ndarray of shape (n, M), bool, optional
        True where a kernel observes a sample, everywhere by default.
    c : float or array-like of shape (M,), default=1.0
        Penalty on the norm, of all views or of each, positive.
    lam : float, default=0.0
        Penalty on the disagreement of the views.
    sample_weight : ndarray of shape (n,), optional
        How often each sample counts; 0 leaves it out.
    tol : float, default=1e-6
        Norm of the gradient relative to that at zero, in the metric of the majorant.
    max_iter : int, default=10000
        Cap on the joint ridge regressions.
    dual_coef, view_intercepts : ndarrays of shape (M, n) and (M,), optional
        Where to start, zero by default.
    on_step : callable, optional
        Called with the :class:`~kernelquilt.core.weights.solution.Step` of every Newton step.

    Returns
    -------
    Solution
        `dual_coef` (M, n) and `view_intercepts` (M,) are the functions of the views; `residual` is
        the relative gradient norm.

    Examples
    --------
    >>> import kernelquilt as kq
    >>> X, y = kq.datasets.make_multiview(40, 3, random_state=0)
    >>> K = kq.ViewKernels().fit_transform(X).gram()
    >>> solution = kq.mkl.solve_mhks(K, 2.0 * y - 1, lam=0.1)
    >>> solution.converged, solution.dual_coef.shape
    (True, (3, 40))
    """
    store, problem = as_problem(K, y, observed, c, lam, sample_weight)
    start = problem.zero()
    if dual_coef is not None and view_intercepts is not None:
        start = as_outputs(problem, dual_coef, view_intercepts)
    minimum = minimise(problem, start, tol=tol, max_iter=max_iter, on_step=on_step)
    return as_solution(problem, minimum, len(store.observed), tol)


class MHKSClassifier(BaseMKLClassifier):
    """Squared-hinge classifier on each kernel by itself (MHKS), the scores averaged.

    With one kernel this is MHKS, an l2-loss support vector machine with a bias that is not
    penalised. With several it is the baseline for `MultiKernelMHKSClassifier`, which makes their
    classifiers agree. A sample is scored by the views that it has. Linear kernels of views
    (``kernels="linear"``) are never computed: the views themselves are used. On the factors of a
    `LowRankStack`, as from `EmpiricalKernelMap`, it serves many thousands of samples.

    Parameters
    ----------
    c : float or array-like of shape (M,), default=1.0
        Penalty on the norm, of all kernels or of each: larger is smoother, unlike a `C`.
    kernels : str, callable, list or dict, default="gaussian"
        Kernels of the views, as in `ViewKernels`; "precomputed" for plain arrays of kernels of
        shape (n, n, M). A `KernelStack` is always used as it is.
    views : dict of str to columns, "columns" or None, default=None
        The views of 2-D data, as in `as_views`.
    tol : float, default=1e-6
        Norm of the gradient relative to that at zero.
    max_iter : int, default=10000
        Cap on the ridge regressions of each binary problem.
    multi_class : {"ovr", "ovo"}, default="ovo"
        One-vs-rest or one-vs-one for more than two classes.
    class_weight : dict, "balanced" or None, default=None
        Factors on the losses by class.
    n_jobs : int or None, default=None
        Threads over the binary problems of a multi-class fit.
    verbose : int, default=0
        Whether to print the progress of the solver.

    Attributes
    ----------
    dual_coef_ : ndarray of shape (n_problems, M, n)
        Coefficients of the training samples in the function of each kernel.
    view_intercepts_ : ndarray of shape (n_problems, M)
        Bias of each function.
    intercept_ : ndarray of shape (n_problems,)
        Their means, which are the scores of samples without any view.
    weights_ : ndarray of shape (M,), or (n_problems, M) if multi-class
        Share of each function in the score of a sample that has every view; 0 for kernels that no
        training sample has.
    coef_ : list of M ndarrays of shape (n_problems, n_columns), for linear kernels and factors
        Weight vectors.
    n_support_ : ndarray of shape (n_problems,)
        Number of samples with a coefficient.
    objective_, duality_gap_ : float, or ndarray of shape (n_problems,) if multi-class
        Value of Eq. (8), and how far it may be above the minimum.
    n_iter_, n_solves_ : int
        Newton steps, the most of any problem; ridge regressions of all.
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
    >>> X, y = kq.datasets.load_example("wdbc")
    >>> bool(kq.mkl.MHKSClassifier().fit(X, y).score(X, y) > 0.9)
    True
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **CONSTRAINTS,
        "c": [Interval(Real, 0, np.inf, closed="neither"), "array-like"],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
    }
    _penalty = "c"
    _shares_passes = False  # a path starts each from the one before
    _same_weights_for_all = False
    _takes_factors = True

    def __init__(
        self,
        c: float | ArrayLike = 1.0,
        *,
        kernels: Any = "gaussian",
        views: Any = None,
        tol: float = 1e-6,
        max_iter: int = 10_000,
        multi_class: str = "ovo",
        class_weight: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.c = c
        self.kernels = kernels
        self.views = views
        self.tol = tol
        self.max_iter = max_iter
        self.multi_class = multi_class
        self.class_weight = class_weight
        self.n_jobs = n_jobs
        self.verbose = verbose

    @staticmethod
    def _arrays_beside(n_kernels: int) -> float:
        return n_kernels + 5.0

    def _solve(self, problem: BinaryProblem, options: Options) -> Solution:
        return self._by_newton(problem, 0.0, options)

    def _by_newton(self, problem: BinaryProblem, lam: float, options: Options) -> Solution:
        return solve_mhks(
            problem.extra,
            problem.y,
            c=self.c,
            lam=lam,
            sample_weight=problem.C,
            **options.keywords("dual_coef", "view_intercepts"),
        )

    def _linear_views(self, data: Any) -> MultiView | None:
        """Return the training samples if they are views that stand for linear kernels, or None."""
        if self.kernels != "linear" or not isinstance(data, MultiView):
            return None
        sparse = any(issparse(data.given(name)) for name in data.names)
        return None if sparse else data

    def _fit_input(self, data: Samples, weight: Floats) -> KernelInput:
        if self._linear_views(data) is None:
            return super()._fit_input(data, weight)
        return fit_input(self, data, weight)

    def _training_gram(self, held: KernelInput, data: Samples) -> tuple[Numbers, Bools]:
        if self._linear_views(data) is None:
            return super()._training_gram(held, data)
        return np.empty((len(held.names), 0, 0)), held.observed

    def _extra(self, held: KernelInput, data: Samples, K: Numbers, weight: Floats) -> SpectrumStore:
        if isinstance(K, Factors):
            return SpectrumStore(K.blocks, held.observed, features=True)
        views = self._linear_views(data)
        if views is None:
            return SpectrumStore(K, held.observed)
        return SpectrumStore([views[name] for name in views.names], held.observed, features=True)

    def _penalties(self, data: Prepared) -> Floats:
        return sample_penalties(self, data)

    def _store(self, solutions: list[Solution]) -> None:
        super()._store(solutions)
        store_functions(self, solutions)
        views = self._linear_views(self.input_.views)
        if views is None:
            self.__dict__.pop("coef_", None)
        else:
            self.coef_ = [
                self.dual_coef_[:, m, present] @ views[name][present]
                for m, (name, present) in enumerate(zip(views.names, views.observed.T, strict=True))
            ]

    def _scores(self, rows: Any) -> Floats:
        columns = hasattr(self, "coef_") and not isinstance(self.input_, FactorInput)
        return mean_scores(self, rows, linear_outputs if columns else kernel_outputs)

    def _warn_unless_converged(self, solutions: list[Solution]) -> None:
        failed = [solution for solution in solutions if not solution.converged]
        if failed:
            worst = max(failed, key=lambda solution: solution.distance)
            warn_user(
                f"{type(self).__name__} stopped after {worst.n_solves} ridge regressions at a "
                f"{self._measure()} of {worst.distance:.2g}, above tol={worst.tol:.2g}, in "
                f"{len(failed)} of {len(solutions)} problems; raise max_iter or tol, raise c, or "
                "scale the data or the kernels",
                ConvergenceWarning,
            )

    def _measure(self) -> str:
        """Return what `tol` is compared with."""
        return "relative gradient norm"
