r"""Absent multiple kernel learning with penalised margins (I-AMKL-lambda).

The margin :math:`\tau_i` of a sample is a variable, and what it is off from the share of the norms
that the sample has is penalised by :math:`t_i = (\tau_i - s_{i1}, \dots, \tau_i - s_{im})`:

.. math:: \min_{\tau} \; \min_{d \in \Delta} \min_{w, b, \xi \ge 0} \;
          \tfrac12 \, \kappa(\tau) \sum_p \frac{\|w_p\|^2}{d_p} + \sum_i C_i \xi_i
          \quad \text{s.t.} \quad y_i f(x_i) \ge \tau_i (1 - \xi_i), \tag{19}

.. math:: \kappa(\tau) = 1 + \frac{\lambda}{n} \sum_i \|t_i\|^2, \qquad
          \|t_i\|^2 = m \tau_i^2 - 2 \tau_i \sum_p s_{ip} + \sum_p s_{ip},

with absent kernels filled with zeros. The method alternates between two steps neither of which
raises the objective:

* For fixed :math:`\tau`, (19) is :math:`\kappa` times l1-norm MKL with margins :math:`\tau` and the
  penalties :math:`C_i / \kappa`.
* For fixed scores :math:`u_i = y_i f(x_i)` and slacks, with :math:`v_i = 1 - \xi_i` and the
  observed fraction :math:`o_i`, the smallest :math:`\|t_i\|` is that of

  .. math:: \min_{\tau_i} \; (\tau_i - o_i)^2 \quad \text{s.t.} \quad v_i \tau_i \le u_i. \tag{23}

It follows that :math:`\tau = o` is a fixed point, at which the method started there ends after one
MKL problem; that from :math:`\tau = 1` only samples on the wrong side can keep a larger margin; and
that :math:`\lambda` acts through :math:`C / \kappa` alone, so that there is no need to tune both.

The mean over the samples in :math:`\kappa` is over those that take part, each counted as often as
its sample weight says: n is the sum of the sample weights. A weight of 2 is then the same as
repeating a sample. Factors on C by class do not count there. m is the number of kernels that some
of these samples have.

=============  ==============================================
paper symbol   name here
=============  ==============================================
K_p, s_ip      ``K[p]`` (zero where absent), ``observed[i, p]``
gamma_p        ``weights[p]``
tau_i          ``margins[i]``
lambda         ``lam``
o_i            ``fraction[i]``
alpha_i y_i    ``dual_coef[i]`` times ``margins[i]``
=============  ==============================================

References
----------
.. [1] X. Liu et al., "Absent multiple kernel learning algorithms", IEEE TPAMI 42(6), 2020, Section
   3.3. The paper goes on from (19) to (21), whose kernels have one vector of duals in common and
   use entries that are absent; here (19) is solved itself, on observed entries.
"""

from collections.abc import Callable
from dataclasses import replace
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from kernelquilt._typing import Bools, Floats, Numbers
from kernelquilt.core.limits import single_threaded_blas
from kernelquilt.core.svm.factors import Factors
from kernelquilt.core.svm.weighted_svm import combined_product
from kernelquilt.core.weights.solution import Options, Solution, Step
from kernelquilt.mkl.absent.margin_loop import (
    INNER_MAX_ITER,
    ROUNDING,
    OuterLoop,
    OuterLoopClassifier,
    taking_part,
)
from kernelquilt.mkl.fitting import BinaryProblem
from kernelquilt.mkl.norms.simple import solve_simple_mkl


def tau_step(u: Floats, v: Floats, fraction: Floats) -> Floats:
    """Return the margins nearest to the fractions with ``v * margins <= u``, Eq. (23).

    All are of shape (n,): u is the score times the label, not negative where v is 0; v is one minus
    the slack; fraction is that of the kernels that a sample has.
    """
    limit = np.divide(u, v, out=fraction.copy(), where=v != 0.0)
    return np.where(v > 0.0, np.minimum(fraction, limit), np.maximum(fraction, limit))


def penalty_factor(
    margins: Floats, fraction: Floats, M: int, lam: float, sample_weight: Floats
) -> float:
    """Return kappa; margins, observed fractions of M kernels and sample weights are (n,)."""
    squares = M * ((margins - fraction) ** 2 + fraction * (1.0 - fraction))
    return 1.0 + lam * float(sample_weight @ squares) / float(sample_weight.sum())


@single_threaded_blas()
def solve_penalized_absent_mkl(
    K: Numbers | Factors,
    y: Floats,
    observed: Bools,
    *,
    C: float | Floats = 1.0,
    lam: float = 1.0,
    tau0: str = "observed",
    sample_weight: Floats | None = None,
    tol: float = 1e-3,
    outer_tol: float = 1e-3,
    max_iter: int = 20,
    weights: Floats | None = None,
    dual_coef: Floats | None = None,
    on_step: Callable[[Step], None] | None = None,
) -> Solution:
    """Alternate between MKL and the margins (see the module docstring).

    Parameters
    ----------
    K, y, observed, C
        As in `solve_convex_absent_mkl`; samples without any kernel are left out.
    lam : float, default=1.0
        Penalty on margins that are off.
    tau0 : {"observed", "ones"}, default="observed"
        Margins to start from: the observed fractions or 1.
    sample_weight : ndarray of shape (n,), optional
        How often each sample counts in kappa; by default once if its penalty is positive.
    tol : float, default=1e-3
        Relative duality gap of each MKL problem.
    outer_tol : float, default=1e-3
        Relative decrease of the objective at which to stop.
    max_iter : int, default=20
        Cap on the MKL problems.
    weights, dual_coef : ndarrays of shape (M,) and (n,), optional
        Weights and signed duals to start the first MKL problem from.
    on_step : callable, optional
        Called with the :class:`~kernelquilt.core.weights.solution.Step` of every MKL problem.

    Returns
    -------
    Solution
        With the smallest objective (19) seen; `margins` are those it was solved with.

    Examples
    --------
    >>> import kernelquilt as kq
    >>> X, y = kq.datasets.make_multiview(40, 3, random_state=0)
    >>> X = kq.datasets.make_absent(X, 0.3, random_state=0)
    >>> K = kq.ViewKernels().fit_transform(X).gram()
    >>> solution = kq.mkl.solve_penalized_absent_mkl(K, 2.0 * y - 1, X.observed)
    >>> solution.converged, solution.weights.round(1)
    (True, array([0.7, 0.3, 0. ]))
    """
    C, used, allowed = taking_part(C, observed)
    sample_weight = used.astype(np.float64) if sample_weight is None else sample_weight
    fraction = np.where(used, observed[:, allowed].mean(axis=1), 1.0)
    margins = fraction if tau0 == "observed" else np.ones(len(y))
    loop = OuterLoop(Options(outer_tol, max_iter, on_step=on_step))
    last: tuple[Solution, Floats] | None = None
    while True:
        kappa = penalty_factor(margins, fraction, int(allowed.sum()), lam, sample_weight)
        inner = solve_simple_mkl(
            K,
            y,
            C=C / kappa,
            margins=margins,
            allowed=allowed,
            tol=tol,
            max_iter=INNER_MAX_ITER,
            weights=weights,
            dual_coef=dual_coef,
        )
        loop.count(inner)
        inner = replace(
            inner, objective=kappa * inner.objective, dual_bound=kappa * inner.dual_bound
        )
        change = np.inf if last is None else 1.0 - inner.objective / last[0].objective
        if last is not None and change < 0.0:  # what there is to gain is below the inner tolerance
            return loop.solution(*last, 0.0)
        loop.record(inner)
        last = inner, margins
        weights, dual_coef = inner.weights, inner.dual_coef
        u = y * (combined_product(K, weights, dual_coef) + inner.intercept)
        updated = np.where(used, tau_step(u, np.minimum(1.0, u / margins), fraction), 1.0)
        if np.abs(updated - margins).max() <= ROUNDING:
            change = 0.0
        if loop.ends(change):
            return loop.solution(inner, margins, change)
        margins = updated


class PenalizedAbsentMKLClassifier(OuterLoopClassifier):
    """MKL that asks less margin of samples with fewer views, by a penalised fit (I-AMKL-lambda).

    With the default ``tau0="observed"`` this is `SimpleMKLClassifier` with the margin of a sample
    in proportion to the kernels it has, one certified MKL problem: use it when views are absent
    and some of them may be useless. ``tau0="ones"`` starts the alternation of the paper from full
    margins, which samples on the wrong side may keep. The objective never rises. Equal to
    `SimpleMKLClassifier` when nothing is absent.

    Parameters
    ----------
    C : float, default=1.0
        Penalty on margin violations.
    lam : float, default=1.0
        Penalty on margins that differ from what a sample has. It only divides `C` by a factor, so
        that tuning `C` suffices.
    tau0 : {"observed", "ones"}, default="observed"
        Margins to start from: the fraction of its kernels that a sample has, or 1.
    kernels : str, callable, list or dict, default="gaussian"
        Kernels of the views, as in `ViewKernels`; "precomputed" for plain arrays of kernels of
        shape (n, n, M). A `KernelStack` is always used as it is.
    views : dict of str to columns, "columns" or None, default=None
        The views of 2-D data, as in `as_views`.
    n_landmarks : int or None, default=None
        Landmarks of each kernel at most: kernels of views then become factors, as by
        `EmpiricalKernelMap`, and memory grows with n instead of n squared. None computes kernels.
    tol : float, default=1e-3
        Relative duality gap of each MKL problem, which may take 200 SVM solves.
    outer_tol : float, default=1e-3
        Relative decrease of the objective at which to stop.
    max_iter : int, default=20
        Cap on the MKL problems that each binary problem is made of.
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
        Kernel weights, non-negative with sum 1.
    margins_ : ndarray of shape (n,), or (n_problems, n) if multi-class
        Margins asked of the training samples in the last MKL problem; 1 for those left out.
    dual_coef_ : ndarray of shape (n_problems, n)
        Signed duals of the training samples, without the weights.
    intercept_ : ndarray of shape (n_problems,)
        Biases.
    n_support_ : ndarray of shape (n_problems,)
        Number of support vectors.
    objective_, duality_gap_ : float, or ndarray of shape (n_problems,) if multi-class
        Certified primal value with the penalty on the margins, and how far it may be above the
        optimum for these margins.
    n_iter_, n_solves_, n_smo_iter_, n_passes_ : int, int, int, float
        MKL problems, SVM solves in all of them, SMO iterations, and passes over the kernels.
    converged_ : bool
        Whether every problem met `tol` and `outer_tol`.
    history_ : list of tuple of Step
        Objective and gap of each MKL problem, for each binary problem.
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
    >>> X = kq.datasets.make_absent(X, 0.3, random_state=0)
    >>> model = kq.mkl.PenalizedAbsentMKLClassifier().fit(X, y)
    >>> model.n_iter_, bool((model.margins_ == X.observed.mean(axis=1)).all())
    (1, True)
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **OuterLoopClassifier._parameter_constraints,
        "lam": [Interval(Real, 0, np.inf, closed="left")],
        "tau0": [StrOptions({"observed", "ones"})],
    }
    _takes_factors = True
    _change = "a relative decrease of the objective"
    _remedy = "raise max_iter or outer_tol"

    def __init__(
        self,
        C: float = 1.0,
        *,
        lam: float = 1.0,
        tau0: str = "observed",
        kernels: Any = "gaussian",
        views: Any = None,
        n_landmarks: int | None = None,
        tol: float = 1e-3,
        outer_tol: float = 1e-3,
        max_iter: int = 20,
        multi_class: str = "ovr",
        class_weight: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.C = C
        self.lam = lam
        self.tau0 = tau0
        self.kernels = kernels
        self.views = views
        self.n_landmarks = n_landmarks
        self.tol = tol
        self.outer_tol = outer_tol
        self.max_iter = max_iter
        self.multi_class = multi_class
        self.class_weight = class_weight
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _warn_of_margins(self, margins: Floats) -> None:
        """Margins are penalised here, and never raised."""

    def _solve(self, problem: BinaryProblem, options: Options) -> Solution:
        # where a loop goes on from the result, the start must not change it
        start = ("weights", "dual_coef") if self.tau0 == "observed" else ("dual_coef",)
        return solve_penalized_absent_mkl(
            problem.K,
            problem.y,
            problem.observed,
            C=problem.C,
            lam=self.lam,
            tau0=self.tau0,
            sample_weight=problem.sample_weight,
            outer_tol=self.outer_tol,
            **options.keywords(*start),
        )
