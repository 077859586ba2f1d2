r"""Max-margin classification with absent features (MMAF).

One weight vector for all kernels; the margin of a sample is measured in the subspace of what it
has: the smallest of :math:`y_i f(x_i) / (\sum_p s_{ip} \|w_p\|^2)^{1/2}` over the samples is to be
as large as possible. With

.. math:: \tau_i^2 = \frac{\sum_p s_{ip} \|w_p\|^2}{\sum_p \|w_p\|^2}, \qquad
          \|w_p\|^2 = b' K_p b,

held fixed this is an SVM on the sum of the kernels that asks the margin :math:`\tau_i` of sample i,

.. math:: \min_{w, b} \; \tfrac12 \sum_p \|w_p\|^2
          + \sum_i C_i \max\bigl(0,\, 1 - y_i f(x_i) / \tau_i\bigr),

with absent kernels filled with zeros. The method alternates between the two, from
:math:`\tau = 1`, until no :math:`\tau_i` changes by more than `outer_tol`. It need not converge.

A kernel may stand for a view or, with one linear kernel per column, for a single feature, as in
the paper.

=============  ==============================================
paper symbol   name here
=============  ==============================================
s_i            ``margins[i]``
w^(i)          the ``w_p`` with ``observed[i, p]``
alpha_i y_i    ``dual_coef[i]`` times ``margins[i]``
=============  ==============================================

References
----------
.. [1] G. Chechik, G. Heitz, G. Elidan, P. Abbeel and D. Koller, "Max-margin classification of data
   with absent features", JMLR 9, 2008: instance-specific margins, with the scaling
   ``s_i = ||w^(i)|| / ||w||`` held fixed in turn.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from kernelquilt._typing import Bools, Floats, Numbers
from kernelquilt.core.limits import single_threaded_blas
from kernelquilt.core.svm.weighted_svm import WeightedSVM, quadratic_forms
from kernelquilt.core.weights.solution import Options, Solution, Step, Work
from kernelquilt.core.weights.solvers import clearly_negative, diagonals
from kernelquilt.mkl.absent.margin_loop import (
    MARGIN_FLOOR,
    OuterLoop,
    OuterLoopClassifier,
    observed_share,
    taking_part,
)
from kernelquilt.mkl.fitting import BinaryProblem


@single_threaded_blas()
def solve_max_margin_absent(
    K: Numbers,
    y: Floats,
    observed: Bools,
    *,
    C: float | Floats = 1.0,
    tol: float = 1e-3,
    outer_tol: float = 1e-3,
    max_iter: int = 20,
    dual_coef: Floats | None = None,
    on_step: Callable[[Step], None] | None = None,
) -> Solution:
    """Alternate between the SVM on the sum of the kernels and the margins.

    Parameters
    ----------
    K, y, observed, C
        As in `solve_convex_absent_mkl`.
    tol : float, default=1e-3
        Relative duality gap of each SVM.
    outer_tol : float, default=1e-3
        Largest change of a margin at which to stop.
    max_iter : int, default=20
        Cap on the SVM solves.
    dual_coef : ndarray of shape (n,), optional
        Signed duals to start the first SVM from.
    on_step : callable, optional
        Called with the :class:`~kernelquilt.core.weights.solution.Step` of every SVM.

    Returns
    -------
    Solution
        Of the last SVM; `margins` are those it was solved with.

    Examples
    --------
    >>> import kernelquilt as kq
    >>> X, y = kq.datasets.make_multiview(40, 3, random_state=0)
    >>> X = kq.datasets.make_absent(X, 0.3, random_state=0)
    >>> K = kq.ViewKernels().fit_transform(X).gram()
    >>> solution = kq.mkl.solve_max_margin_absent(K, 2.0 * y - 1, X.observed)
    >>> solution.margins.shape
    (40,)
    """
    C, used, allowed = taking_part(C, observed)
    total = K.sum(axis=0, dtype=np.float64)[np.newaxis]
    diag = diagonals(K)
    margins = np.ones(len(y))
    loop = OuterLoop(Options(outer_tol, max_iter, on_step=on_step))
    loop.work = Work(n_passes=1.0)
    while True:
        svm = WeightedSVM(total, y, margins, C / margins)
        point = svm.solve(np.ones(1), dual_coef, tol)
        dual_coef = point.b[0]
        q = quadratic_forms(K, dual_coef)
        n_passes = svm.work.n_passes / len(K) + np.count_nonzero(dual_coef) / len(y)
        inner = Solution(
            weights=allowed.astype(np.float64),
            dual_coef=dual_coef,
            intercept=float(point.intercept[0]),
            objective=point.primal,
            dual_bound=point.dual,
            tol=tol,
            work=replace(svm.work, n_passes=n_passes),
            indefinite=clearly_negative(q, dual_coef, diag),
            reach=svm.reach,
        )
        loop.count(inner)
        loop.record(inner)
        share = np.sqrt(observed_share(observed, np.maximum(q, 0.0)))
        updated = np.where(used, np.maximum(share, MARGIN_FLOOR), 1.0)
        change = float(np.abs(updated - margins).max())
        if loop.ends(change):
            return loop.solution(inner, margins, change)
        margins = updated


class MaxMarginAbsentClassifier(OuterLoopClassifier):
    """SVM on the sum of the kernels with margins in the subspace that a sample has (MMAF).

    No weights are learned: the sum of all kernels decides, and a sample that lacks much of what
    decides has to keep less margin. Use it for few views of about equal use, or at the level of
    features, where each column is a view with a linear kernel and single cells may be absent:
    ``MaxMarginAbsentClassifier(views="columns", kernels="linear")``. That holds one kernel of n
    times n entries per column, so it is for tens to a few hundreds of columns. The alternation has
    no convergence guarantee; a `ConvergenceWarning` says when it was cut off. Equal to an SVM on
    the sum of the kernels when nothing is absent (`UniformMKLClassifier` takes the mean, so that
    its `C` is M times this one).

    Parameters
    ----------
    C : float, default=1.0
        Penalty on margin violations.
    kernels : str, callable, list or dict, default="gaussian"
        Kernels of the views, as in `ViewKernels`; "precomputed" for plain arrays of kernels of
        shape (n, n, M). A `KernelStack` is always used as it is.
    views : dict of str to columns, "columns" or None, default=None
        The views of 2-D data, as in `as_views`.
    tol : float, default=1e-3
        Relative duality gap of each SVM.
    outer_tol : float, default=1e-3
        Largest change of a margin at which to stop.
    max_iter : int, default=20
        Cap on the SVM solves of each binary problem.
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
        1 for every kernel that some training sample has, otherwise 0.
    margins_ : ndarray of shape (n,), or (n_problems, n) if multi-class
        Margins asked of the training samples in the last SVM; 1 for those left out.
    dual_coef_ : ndarray of shape (n_problems, n)
        Signed duals of the training samples.
    intercept_ : ndarray of shape (n_problems,)
        Biases.
    n_support_ : ndarray of shape (n_problems,)
        Number of support vectors.
    objective_, duality_gap_ : float, or ndarray of shape (n_problems,) if multi-class
        Certified primal value of the last SVM, and how far it may be above its optimum.
    n_iter_, n_solves_, n_smo_iter_, n_passes_ : int, int, int, float
        Iterations, SVM solves, SMO iterations, and passes over the kernels.
    converged_ : bool
        Whether every problem met `tol` and `outer_tol`.
    history_ : list of tuple of Step
        Objective and gap of each SVM, for each binary problem.
    kernel_names_ : tuple of str of length M
        Names of the kernels.
    classes_ : ndarray of shape (n_classes,)
        Class labels.
    n_features_in_ : int
        Number of columns of 2-D data, otherwise of views or kernels.

    Examples
    --------
    Whole views absent:

    >>> import numpy as np
    >>> import kernelquilt as kq
    >>> X, y = kq.datasets.load_example("wdbc")
    >>> absent = kq.datasets.make_absent(X, 0.3, random_state=0)
    >>> bool(kq.mkl.MaxMarginAbsentClassifier().fit(absent, y).score(absent, y) > 0.9)
    True

    Single features absent:

    >>> columns = np.hstack([X[name] for name in X.names])
    >>> columns = (columns - columns.mean(axis=0)) / columns.std(axis=0)
    >>> columns[np.random.default_rng(0).random(columns.shape) < 0.3] = np.nan
    >>> options = dict(views="columns", kernels="linear", max_iter=100)
    >>> model = kq.mkl.MaxMarginAbsentClassifier(0.1, **options)
    >>> bool(model.fit(columns, y).score(columns, y) > 0.9)
    True
    """

    _change = "a largest change of the margins"

    def __init__(
        self,
        C: float = 1.0,
        *,
        kernels: Any = "gaussian",
        views: Any = None,
        tol: float = 1e-3,
        outer_tol: float = 1e-3,
        max_iter: int = 20,
        multi_class: str = "ovr",
        class_weight: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.C = C
        self.kernels = kernels
        self.views = views
        self.tol = tol
        self.outer_tol = outer_tol
        self.max_iter = max_iter
        self.multi_class = multi_class
        self.class_weight = class_weight
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _solve(self, problem: BinaryProblem, options: Options) -> Solution:
        return solve_max_margin_absent(
            problem.K,
            problem.y,
            problem.observed,
            C=problem.C,
            outer_tol=self.outer_tol,
            **options.keywords("dual_coef"),
        )
