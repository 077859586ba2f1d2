"""Support vector regression on kernels whose weights are bounded by a norm: simple, lp, uniform."""

from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval

from kernelquilt._typing import Floats
from kernelquilt.core.weights.sets import NormBall, Simplex
from kernelquilt.mkl.regression.regressor import BaseMKLRegressor, PreparedTargets


class SimpleMKLRegressor(BaseMKLRegressor):
    """Support vector regression on a learned convex combination of kernels, most without weight.

    `SimpleMKLClassifier` with the epsilon-insensitive loss: use it when some views or kernels may
    be useless or when you want to know which ones matter. The optimum is certified by
    `duality_gap_`. Absent kernels count as zero. `C` and `epsilon` are in units of the targets:
    scale these, or tune both.

    Parameters
    ----------
    C : float, default=1.0
        Penalty on errors beyond `epsilon`, in units of the targets.
    epsilon : float, default=0.1
        Errors that cost nothing, in units of the targets.
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
        Cap on the support vector regressions solved.
    verbose : int, default=0
        Whether to print the progress of the solver.

    Attributes
    ----------
    weights_ : ndarray of shape (M,)
        Kernel weights, non-negative with sum 1.
    dual_coef_ : ndarray of shape (1, n)
        Duals of the training samples, without the weights.
    intercept_ : ndarray of shape (1,)
        Biases, here one.
    n_support_ : ndarray of shape (1,)
        Number of support vectors.
    objective_, duality_gap_ : float
        Certified primal value, and how far it may be above the optimum.
    n_iter_, n_solves_, n_smo_iter_, n_passes_ : int, int, int, float
        Iterations, solves, SMO iterations, and passes over the kernels.
    converged_ : bool
        Whether the problem met `tol`.
    history_ : list of tuple of Step
        Objective and gap by iteration, in a list of one.
    coef_ : list of M ndarrays of shape (1, r_p), only for factors
        Weight vectors in the columns of the factors.
    explained_trace_ : ndarray of shape (M,), only for factors
        Share of the trace of each kernel that its factor explains on held-out samples, if known.
    kernel_names_ : tuple of str of length M
        Names of the kernels.
    n_features_in_ : int
        Number of columns of 2-D data, otherwise of views or kernels.

    Examples
    --------
    >>> import kernelquilt as kq
    >>> X, _ = kq.datasets.load_example("wdbc")
    >>> model = kq.SimpleMKLRegressor(C=10.0).fit(X[:200], X["mean"][:200, 0])
    >>> bool(model.duality_gap_ <= 1e-3 * model.objective_)
    True
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = BaseMKLRegressor._learned_weights_constraints

    def __init__(
        self,
        C: float = 1.0,
        *,
        epsilon: float = 0.1,
        kernels: Any = "gaussian",
        views: Any = None,
        n_landmarks: int | None = None,
        tol: float = 1e-3,
        max_iter: int = 200,
        verbose: int = 0,
    ) -> None:
        self.C = C
        self.epsilon = epsilon
        self.kernels = kernels
        self.views = views
        self.n_landmarks = n_landmarks
        self.tol = tol
        self.max_iter = max_iter
        self.verbose = verbose

    def _weight_set(self, data: PreparedTargets) -> Simplex:
        return Simplex(data.allowed)


class LpMKLRegressor(BaseMKLRegressor):
    """Support vector regression on a combination of kernels whose weights have lp-norm one.

    `LpMKLClassifier` with the epsilon-insensitive loss, between `SimpleMKLRegressor` (p = 1,
    sparse) and equal weights (p to infinity): use it when most views help, though not equally. The
    optimum is certified by `duality_gap_`. Absent kernels count as zero.

    Parameters
    ----------
    C : float, default=1.0
        Penalty on errors beyond `epsilon`, in units of the targets.
    epsilon : float, default=0.1
        Errors that cost nothing, in units of the targets.
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
        Cap on the support vector regressions solved.
    verbose : int, default=0
        Whether to print the progress of the solver.

    Attributes
    ----------
    weights_ : ndarray of shape (M,)
        Kernel weights, non-negative with lp-norm 1.
    dual_coef_ : ndarray of shape (1, n)
        Duals of the training samples, without the weights.
    intercept_ : ndarray of shape (1,)
        Biases, here one.
    n_support_ : ndarray of shape (1,)
        Number of support vectors.
    objective_, duality_gap_ : float
        Certified primal value, and how far it may be above the optimum.
    n_iter_, n_solves_, n_smo_iter_, n_passes_ : int, int, int, float
        Iterations, solves, SMO iterations, and passes over the kernels.
    converged_ : bool
        Whether the problem met `tol`.
    history_ : list of tuple of Step
        Objective and gap by iteration, in a list of one.
    coef_ : list of M ndarrays of shape (1, r_p), only for factors
        Weight vectors in the columns of the factors.
    explained_trace_ : ndarray of shape (M,), only for factors
        Share of the trace of each kernel that its factor explains on held-out samples, if known.
    kernel_names_ : tuple of str of length M
        Names of the kernels.
    n_features_in_ : int
        Number of columns of 2-D data, otherwise of views or kernels.

    Examples
    --------
    >>> import kernelquilt as kq
    >>> X, _ = kq.datasets.load_example("wdbc")
    >>> model = kq.LpMKLRegressor(C=10.0, p=2).fit(X[:200], X["mean"][:200, 0])
    >>> float((model.weights_**2).sum().round(6))
    1.0
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **BaseMKLRegressor._learned_weights_constraints,
        "p": [Interval(Real, 1, np.inf, closed="left")],
    }

    def __init__(
        self,
        C: float = 1.0,
        *,
        epsilon: float = 0.1,
        p: float = 2.0,
        kernels: Any = "gaussian",
        views: Any = None,
        n_landmarks: int | None = None,
        tol: float = 1e-3,
        max_iter: int = 200,
        verbose: int = 0,
    ) -> None:
        self.C = C
        self.epsilon = epsilon
        self.p = p
        self.kernels = kernels
        self.views = views
        self.n_landmarks = n_landmarks
        self.tol = tol
        self.max_iter = max_iter
        self.verbose = verbose

    def _weight_set(self, data: PreparedTargets) -> Simplex:
        return Simplex(data.allowed) if self.p == 1.0 else NormBall(data.allowed, self.p)


class UniformMKLRegressor(BaseMKLRegressor):
    """Support vector regression on the mean of the kernels.

    The baseline, hard to beat when the views are about equally useful. Absent kernels count as
    zero.

    Parameters
    ----------
    C : float, default=1.0
        Penalty on errors beyond `epsilon`, in units of the targets.
    epsilon : float, default=0.1
        Errors that cost nothing, in units of the targets.
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
    verbose : int, default=0
        Whether to print the progress of the solver.

    Attributes
    ----------
    weights_ : ndarray of shape (M,)
        Kernel weights.
    dual_coef_ : ndarray of shape (1, n)
        Duals of the training samples, without the weights.
    intercept_ : ndarray of shape (1,)
        Biases, here one.
    n_support_ : ndarray of shape (1,)
        Number of support vectors.
    objective_, duality_gap_ : float
        Certified primal value, and how far it may be above the optimum.
    n_iter_, n_solves_, n_smo_iter_, n_passes_ : int, int, int, float
        Iterations, solves, SMO iterations, and passes over the kernels.
    converged_ : bool
        Whether the problem met `tol`.
    history_ : list of tuple of Step
        Objective and gap by iteration, in a list of one.
    coef_ : list of M ndarrays of shape (1, r_p), only for factors
        Weight vectors in the columns of the factors.
    explained_trace_ : ndarray of shape (M,), only for factors
        Share of the trace of each kernel that its factor explains on held-out samples, if known.
    kernel_names_ : tuple of str of length M
        Names of the kernels.
    n_features_in_ : int
        Number of columns of 2-D data, otherwise of views or kernels.

    Examples
    --------
    >>> import kernelquilt as kq
    >>> X, _ = kq.datasets.load_example("wdbc")
    >>> model = kq.mkl.UniformMKLRegressor(C=10.0).fit(X[:200], X["mean"][:200, 0])
    >>> bool(model.score(X[200:], X["mean"][200:, 0]) > 0.8)
    True
    """

    def __init__(
        self,
        C: float = 1.0,
        *,
        epsilon: float = 0.1,
        kernels: Any = "gaussian",
        views: Any = None,
        n_landmarks: int | None = None,
        tol: float = 1e-3,
        verbose: int = 0,
    ) -> None:
        self.C = C
        self.epsilon = epsilon
        self.kernels = kernels
        self.views = views
        self.n_landmarks = n_landmarks
        self.tol = tol
        self.verbose = verbose

    def _weight_set(self, data: PreparedTargets) -> Floats:
        return np.asarray(data.allowed / np.count_nonzero(data.allowed))
