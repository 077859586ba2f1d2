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
(:mod:`kernelquilt.optim.agreement`), on one eigendecomposition of each centred kernel, which serves
all c, :math:`\lambda` and one-vs-rest labels; the published Ho-Kashyap iteration is beside it
(:mod:`kernelquilt.optim.ho_kashyap`).

==================  =================================================
paper symbol        name here
==================  =================================================
K_l, m              ``K[l]``, ``M``
c_l, lambda         ``c``, ``lam``
omega_l             ``dual_coef[l]``, ``view_intercepts[l]``
L                   ``objective``
rho, xi             ``rho``, ``tol`` of ``solver="hk"``
==================  =================================================

References
----------
.. [1] Z. Wang, S. Chen and T. Sun, "MultiK-MHKS: a novel multiple kernel learning algorithm", IEEE
   TPAMI 30(2), 2008, Eqs. (4), (8), (9), (12) and Table 1.
"""

import warnings
from collections.abc import Callable, Iterator
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval, StrOptions

from kernelquilt._validation import BoolArray
from kernelquilt.kernels import KernelStack
from kernelquilt.mkl._problems import BinaryProblem
from kernelquilt.mkl._view_average import ViewAverageClassifier
from kernelquilt.optim.agreement import AgreementProblem, Minimum, Outputs, minimise
from kernelquilt.optim.blas import single_threaded_blas
from kernelquilt.optim.ho_kashyap import ho_kashyap
from kernelquilt.optim.spectra import SpectrumStore
from kernelquilt.solution import Solution, Step
from kernelquilt.view_kernels import ViewKernels
from kernelquilt.views import MultiView

Floats = NDArray[np.float64]


@single_threaded_blas()
def solve_mhks(
    K: NDArray[np.floating] | SpectrumStore,
    y: Floats,
    *,
    observed: NDArray[np.bool_] | None = None,
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
        Called with the :class:`~kernelquilt.solution.Step` of every Newton step.

    Returns
    -------
    Solution
        `dual_coef` (M, n) and `view_intercepts` (M,) are the functions of the views; `residual` is
        the relative gradient norm.
    """
    store, problem = _as_problem(K, y, observed, c, lam, sample_weight)
    start = problem.zero()
    if dual_coef is not None and view_intercepts is not None:
        start = _outputs(problem, dual_coef, view_intercepts)
    minimum = minimise(problem, start, tol=tol, max_iter=max_iter, on_step=on_step)
    return _as_solution(problem, minimum, len(store.observed), tol)


@single_threaded_blas()
def solve_ho_kashyap(
    K: NDArray[np.floating] | SpectrumStore,
    y: Floats,
    *,
    observed: NDArray[np.bool_] | None = None,
    c: ArrayLike = 1.0,
    lam: float = 0.0,
    sample_weight: Floats | None = None,
    rho: float = 0.99,
    init: str = "zero",
    tol: float = 1e-3,
    max_iter: int = 10_000,
    on_step: Callable[[Step], None] | None = None,
) -> Solution:
    """Run the published iteration on Eq. (8), which need not end at its minimum.

    Parameters
    ----------
    K, y, observed, c, lam, sample_weight
        As in `solve_mhks`.
    rho : float, default=0.99
        Step size of the margins b, between 0 and 1.
    init : {"zero", "unit"}, default="zero"
        Weight vectors of the views after the first: zero, or the published start of equal entries
        and norm one, whose outputs on unscaled features are large and stay in b.
    tol : float, default=1e-3
        Change of Eq. (8) at which to stop.
    max_iter : int, default=10000
        Cap on the iterations.
    on_step : callable, optional
        Called with the :class:`~kernelquilt.solution.Step` of every iteration.

    Returns
    -------
    Solution
        `objective` is Eq. (8) with the b of the iteration, `residual` the last change of it.
    """
    store, problem = _as_problem(K, y, observed, c, lam, sample_weight)
    minimum = ho_kashyap(
        problem, store, rho=rho, init=init, tol=tol, max_iter=max_iter, on_step=on_step
    )
    return _as_solution(problem, minimum, len(store.observed), tol)


def _as_problem(
    K: Any, y: Floats, observed: Any, c: ArrayLike, lam: float, sample_weight: Floats | None
) -> tuple[SpectrumStore, AgreementProblem]:
    if isinstance(K, SpectrumStore):
        store = K
    else:
        everywhere = np.ones((len(y), len(K)), dtype=np.bool_)
        store = SpectrumStore(K, everywhere if observed is None else observed)
    weight = np.ones(len(y)) if sample_weight is None else np.asarray(sample_weight, np.float64)
    views = store.weighted(weight)
    penalties = np.array(np.broadcast_to(np.asarray(c, np.float64), len(views.spectra)))
    return store, AgreementProblem(views, y[views.used], penalties, float(lam))


def _outputs(problem: AgreementProblem, dual_coef: Floats, view_intercepts: Floats) -> Outputs:
    """Return functions given by coefficients and biases, in weighted values."""
    at = problem.zero()
    for l, one in enumerate(problem.views.spectra):
        # coefficients of a positive part do not determine those that the spectrum refers to
        if one is None or one.positive is not None:
            continue
        root = problem.views.root[one.rows]
        coef = dual_coef[l, problem.views.used[one.rows]]
        inner = one.U.T @ (coef / root)
        mean = view_intercepts[l] + one.mean_row @ coef
        at.f[l, one.rows] = one.U @ (one.s * inner) + np.linalg.norm(root) * mean * one.q
        at.e[l, one.rows] = problem.c[l] * (one.U @ inner)
    return at


def _as_solution(problem: AgreementProblem, minimum: Minimum, n: int, tol: float) -> Solution:
    """Return the functions as coefficients and biases, with zeros for samples left out."""
    views, M = problem.views, len(problem.c)
    dual_coef, biases = np.zeros((M, n)), np.zeros(M)
    trained = np.array([one is not None for one in views.spectra])
    indefinite = np.array([one is not None and one.positive is not None for one in views.spectra])
    for l, one in enumerate(views.spectra):
        if one is None:
            continue
        root = views.root[one.rows]
        inner = minimum.at.e[l, one.rows] / problem.c[l]
        mean = (one.q @ minimum.at.f[l, one.rows]) / np.linalg.norm(root)
        biases[l] = mean - one.mean_row @ (root * inner)
        if one.positive is not None:
            inner = one.positive @ (one.positive.T @ inner)
        dual_coef[l, views.used[one.rows]] = root * inner
    return Solution(
        weights=trained / np.count_nonzero(trained),
        dual_coef=dual_coef,
        intercept=float(biases[trained].mean()),
        objective=minimum.objective,
        dual_bound=minimum.bound,
        tol=tol,
        n_iter=len(minimum.history),
        n_solves=minimum.n_passes,
        history=minimum.history,
        residual=minimum.gradient,
        indefinite=indefinite,
        view_intercepts=biases,
    )


class MHKSClassifier(ViewAverageClassifier):
    """Squared-hinge classifier on each kernel by itself (MHKS), the scores averaged.

    With one kernel this is MHKS, an l2-loss support vector machine with a bias that is not
    penalised. With several it is the baseline for `MultiKernelMHKSClassifier`, which makes their
    classifiers agree. A sample is scored by the views that it has. Linear kernels of views
    (``kernels="linear"``) are never computed: the views themselves are used, which together with
    `EmpiricalKernelMap` on landmarks serves many thousands of samples.

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
        Factors on the loss by class.
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
        Their means, the scores of samples without any view.
    weights_ : ndarray of shape (M,), or (n_problems, M) if multi-class
        Share of each function in the score of a sample that has every view; 0 for kernels that no
        training sample has.
    coef_ : list of M ndarrays of shape (n_problems, n_columns), only for linear kernels of views
        Weight vectors.
    n_support_ : ndarray of shape (n_problems,)
        Number of training samples with a coefficient.
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
    >>> bool(kq.MHKSClassifier().fit(X, y).score(X, y) > 0.9)
    True
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **ViewAverageClassifier._parameter_constraints,
        "c": [Interval(Real, 0, np.inf, closed="neither"), "array-like"],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
    }

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

    def _solve(self, problem: BinaryProblem, on_step: Callable[[Step], None] | None) -> Solution:
        return self._by_newton(problem, 0.0, on_step)

    def _by_newton(
        self, problem: BinaryProblem, lam: float, on_step: Callable[[Step], None] | None
    ) -> Solution:
        return solve_mhks(
            problem.features,
            problem.y,
            c=self._checked_c(),
            lam=lam,
            sample_weight=problem.C,
            tol=self.tol,
            max_iter=self.max_iter,
            dual_coef=problem.start.dual_coef,
            view_intercepts=problem.start.view_intercepts,
            on_step=on_step,
        )

    def _checked_c(self) -> Floats:
        c, M = np.asarray(self.c, dtype=np.float64), len(self.kernel_names_)
        if c.ndim > 0 and c.shape != (M,):
            raise ValueError(f"c has shape {c.shape} for {M} kernels; give one value for each")
        if not (np.isfinite(c).all() and (c > 0).all()):
            raise ValueError(
                f"c must be positive and finite for each of {M} kernels, got {self.c!r}"
            )
        return c

    def _training_gram(
        self, data: MultiView | KernelStack, weight: Floats
    ) -> tuple[NDArray[np.floating], BoolArray]:
        if isinstance(data, KernelStack) or self.kernels != "linear":
            return super()._training_gram(data, weight)
        self.view_kernels_ = ViewKernels(self.kernels).fit(data)
        self.training_rows_ = None
        self.kernel_names_ = self.view_kernels_.kernel_names_
        return np.empty((len(data.names), 0, 0)), self.view_kernels_.kernel_observed(data)

    def _gate_features(
        self,
        data: MultiView | KernelStack,
        K: NDArray[np.floating],
        observed: BoolArray,
        weight: Floats,
    ) -> Any:
        if K.size or isinstance(data, KernelStack):
            return SpectrumStore(K, observed)
        return SpectrumStore([data[name] for name in data.names], observed, features=True)

    def _store(self, solutions: list[Solution]) -> None:
        super()._store(solutions)
        if self.view_kernels_ is not None and self.kernels == "linear":
            data = self.view_kernels_.training_views_
            self.coef_ = [
                self.dual_coef_[:, m, present] @ data[name][present]
                for m, (name, present) in enumerate(zip(data.names, data.observed.T, strict=True))
            ]
        elif hasattr(self, "coef_"):
            del self.coef_

    def _outputs(self, rows: Any, needed: BoolArray) -> Iterator[Floats]:
        if not hasattr(self, "coef_"):
            return super()._outputs(rows, needed)
        return (rows[rows.names[m]] @ self.coef_[m].T for m in np.flatnonzero(needed))

    def _warn_unless_converged(self, solutions: list[Solution]) -> None:
        failed = [solution for solution in solutions if not solution.converged]
        if failed:
            worst = max(failed, key=lambda solution: solution.distance)
            warnings.warn(
                f"{type(self).__name__} stopped after {worst.n_solves} ridge regressions at a "
                f"{self._measure()} of {worst.distance:.2g}, above tol={worst.tol:.2g}, in "
                f"{len(failed)} of {len(solutions)} problems; raise max_iter or tol, raise c, or "
                "scale the data or the kernels",
                ConvergenceWarning,
                stacklevel=4,
            )

    def _measure(self) -> str:
        """Return what `tol` is compared with."""
        return "relative gradient norm"


class MultiKernelMHKSClassifier(MHKSClassifier):
    """Squared-hinge classifiers, one for each view, that are made to agree (MultiK-MHKS).

    Every view has its own function; a penalty on their disagreement ties them together, and their
    mean decides. It suits views that each can tell the classes, and is robust to absent views: a
    sample takes part, and is scored, with the views that it has. No kernel weights are learned.
    Linear kernels of views are never computed (see `MHKSClassifier`).

    Parameters
    ----------
    c : float or array-like of shape (M,), default=1.0
        Penalty on the norm, of all kernels or of each: larger is smoother, unlike a `C`.
    lam : float, default=1.0
        Penalty on the disagreement of the views; 0 is `MHKSClassifier`.
    solver : {"joint", "hk"}, default="joint"
        ``"joint"`` finds the minimum; ``"hk"`` is the published Ho-Kashyap iteration.
    init : {"zero", "unit"}, default="zero"
        Start of ``"hk"``; ``"unit"`` is the published one.
    rho : float, default=0.99
        Step size of ``"hk"``, between 0 and 1.
    kernels : str, callable, list or dict, default="gaussian"
        Kernels of the views, as in `ViewKernels`; "precomputed" for plain arrays of kernels of
        shape (n, n, M). A `KernelStack` is always used as it is.
    views : dict of str to columns, "columns" or None, default=None
        The views of 2-D data, as in `as_views`.
    tol : float, default=1e-6
        Norm of the gradient relative to that at zero; with ``"hk"`` the change of the objective at
        which to stop, 1e-3 in the paper.
    max_iter : int, default=10000
        Cap on the joint ridge regressions, or iterations, of each binary problem.
    multi_class : {"ovr", "ovo"}, default="ovo"
        One-vs-rest or one-vs-one for more than two classes.
    class_weight : dict, "balanced" or None, default=None
        Factors on the loss and the disagreement by class.
    n_jobs : int or None, default=None
        Threads over the binary problems of a multi-class fit.
    verbose : int, default=0
        Whether to print the progress of the solver.

    Attributes
    ----------
    dual_coef_, view_intercepts_, intercept_, weights_, coef_, n_support_
        As in `MHKSClassifier`.
    objective_, duality_gap_, n_iter_, n_solves_, converged_, history_
        As in `MHKSClassifier`.
    kernel_names_, classes_, n_features_in_
        As in `MHKSClassifier`.

    Examples
    --------
    >>> import kernelquilt as kq
    >>> X, y = kq.datasets.load_example("wdbc")
    >>> X = kq.datasets.make_absent(X, 0.3, random_state=0)
    >>> bool(kq.MultiKernelMHKSClassifier(c=0.1, lam=0.1).fit(X, y).score(X, y) > 0.9)
    True
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **MHKSClassifier._parameter_constraints,
        "lam": [Interval(Real, 0, np.inf, closed="left")],
        "solver": [StrOptions({"joint", "hk"})],
        "init": [StrOptions({"zero", "unit"})],
        "rho": [Interval(Real, 0, 1, closed="neither")],
    }

    def __init__(
        self,
        c: float | ArrayLike = 1.0,
        *,
        lam: float = 1.0,
        solver: str = "joint",
        init: str = "zero",
        rho: float = 0.99,
        kernels: Any = "gaussian",
        views: Any = None,
        tol: float = 1e-6,
        max_iter: int = 10_000,
        multi_class: str = "ovo",
        class_weight: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(
            c,
            kernels=kernels,
            views=views,
            tol=tol,
            max_iter=max_iter,
            multi_class=multi_class,
            class_weight=class_weight,
            n_jobs=n_jobs,
            verbose=verbose,
        )
        self.lam = lam
        self.solver = solver
        self.init = init
        self.rho = rho

    def _solve(self, problem: BinaryProblem, on_step: Callable[[Step], None] | None) -> Solution:
        if self.solver == "joint":
            return self._by_newton(problem, self.lam, on_step)
        return solve_ho_kashyap(
            problem.features,
            problem.y,
            c=self._checked_c(),
            lam=self.lam,
            sample_weight=problem.C,
            rho=self.rho,
            init=self.init,
            tol=self.tol,
            max_iter=self.max_iter,
            on_step=on_step,
        )

    def _measure(self) -> str:
        return super()._measure() if self.solver == "joint" else "change of the objective"
