"""MultiK-MHKS, with the minimum of Eq. (8) or by the published Ho-Kashyap iteration.

The problem and its symbols are described in :mod:`kernelquilt.mkl.agreement.mhks`, the iteration in
:mod:`kernelquilt.mkl.agreement.ho_kashyap`; the step size rho and the threshold xi of the paper are
``rho`` and ``tol`` here.

References
----------
.. [1] Z. Wang, S. Chen and T. Sun, "MultiK-MHKS: a novel multiple kernel learning algorithm", IEEE
   TPAMI 30(2), 2008, Eqs. (8), (9), (12) and Table 1.
"""

from collections.abc import Callable
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils._param_validation import Interval, StrOptions

from kernelquilt._typing import Bools, Floats, Numbers
from kernelquilt.core.limits import single_threaded_blas
from kernelquilt.core.weights.solution import Options, Solution, Step
from kernelquilt.mkl.agreement.ho_kashyap import ho_kashyap
from kernelquilt.mkl.agreement.mhks import MHKSClassifier
from kernelquilt.mkl.agreement.spectra import SpectrumStore
from kernelquilt.mkl.agreement.squared_hinge_arrays import as_problem, as_solution
from kernelquilt.mkl.fitting import BinaryProblem


@single_threaded_blas()
def solve_ho_kashyap(
    K: Numbers | SpectrumStore,
    y: Floats,
    *,
    observed: Bools | None = None,
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
        Called with the :class:`~kernelquilt.core.weights.solution.Step` of every iteration.

    Returns
    -------
    Solution
        `objective` is Eq. (8) with the b of the iteration, `residual` the last change of it.

    Examples
    --------
    >>> import kernelquilt as kq
    >>> X, y = kq.datasets.make_multiview(40, 3, random_state=0)
    >>> K = kq.ViewKernels().fit_transform(X).gram()
    >>> solution = kq.mkl.solve_ho_kashyap(K, 2.0 * y - 1)
    >>> solution.converged
    True
    """
    if not 0 < rho < 1:
        raise ValueError(f"rho must be between 0 and 1, got {rho}")
    if init not in ("zero", "unit"):
        raise ValueError(f"init must be 'zero' or 'unit', got {init!r}")
    store, problem = as_problem(K, y, observed, c, lam, sample_weight)
    minimum = ho_kashyap(
        problem, store, rho=rho, init=init, tol=tol, max_iter=max_iter, on_step=on_step
    )
    return as_solution(problem, minimum, len(store.observed), tol)


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
        Factors on the losses and the disagreement by class.
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
    >>> bool(kq.mkl.MultiKernelMHKSClassifier(c=0.1, lam=0.1).fit(X, y).score(X, y) > 0.9)
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

    @staticmethod
    def _arrays_beside(n_kernels: int) -> float:
        return 2.0 * n_kernels + 5.0

    def _solve(self, problem: BinaryProblem, options: Options) -> Solution:
        if self.solver == "joint":
            return self._by_newton(problem, self.lam, options)
        return solve_ho_kashyap(
            problem.extra,
            problem.y,
            c=self.c,
            lam=self.lam,
            sample_weight=problem.C,
            rho=self.rho,
            init=self.init,
            **options.keywords(),
        )

    def _measure(self) -> str:
        return super()._measure() if self.solver == "joint" else "change of the objective"
