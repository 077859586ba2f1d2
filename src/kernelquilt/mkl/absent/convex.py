r"""Convex absent multiple kernel learning (C-AMKL).

A sample is asked for a margin in the space of the kernels it has. The problem of the paper [1]_,

.. math:: \min_{\gamma \in \Delta, w, b} \; u + \sum_i C_i \max(0, 1 - y_i f(x_i)) \quad \text{s.t.}
          \quad \tfrac12 \sum_p s_{ip} \frac{\|w_p\|^2}{\gamma_p} \le u \;\; \text{for all } i,
          \qquad (28)

with :math:`f(x_i) = \sum_p s_{ip} \langle w_p, \phi_p(x_i) \rangle + b`, is multiple kernel
learning on zero-filled kernels over another set of weights. With one row of S for each pattern
of observation, the multipliers z of the constraints and linear programming duality give

.. math:: \min_{d \in \mathcal D} \; \max_b \; y'b - \tfrac12 \sum_p d_p \, b'K_p b, \qquad
          \mathcal D = \{d \ge 0, \; S d \le 1\},

so that the weights a sample can see sum to at most one, instead of all of them. The score is
:math:`f = \sum_p d_p K_p b`, and :math:`\gamma_p = d_p (S'z)_p / \sum_k z_k`. Patterns contained in
another one, and empty ones, constrain nothing: if a single sample has all kernels, what remains is
SimpleMKL on zero-filled kernels. A kernel that nobody has gets no weight. The certificate is one
linear programme in the weights, :math:`\max_{d \in \mathcal D} \sum_p d_p \, b'K_p b`.

Two neighbours of this problem are in the paper too. They are other problems even if nothing is
absent, in spite of what it says:

- ``"shared_coef"``, Eq. (31): all kernels share one coefficient per sample, :math:`f = \sum_p K_p
  \alpha`. The weights then act as a regulariser only and never reach the score
  (:mod:`kernelquilt.mkl.absent.shared_coef`). Here absent entries are zero; the printed formula
  uses them. The certificate is that of kernels with 1e-10 of their mean diagonal added in the
  regulariser.
- ``"max_min"``, Eq. (25): the largest smallest margin itself, a second-order cone programme
  (:mod:`kernelquilt.mkl.absent.max_min`).

=============  ==============================================
paper symbol   name here
=============  ==============================================
K_p, s_ip      ``K[p]`` (zero where absent), ``observed[i, p]``
d_p            ``weights[p]``
gamma_p        ``simplex_weights[p]``
alpha_i y_i    ``dual_coef[i]``
alpha of (31)  ``dual_coef[p, i]`` where observed
=============  ==============================================

References
----------
.. [1] X. Liu et al., "Absent multiple kernel learning algorithms", IEEE TPAMI 42(6), 2020.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from scipy.optimize import linprog
from sklearn.utils._param_validation import StrOptions

from kernelquilt._typing import Array, Bools, Floats, Indices, Numbers
from kernelquilt.core.limits import single_threaded_blas
from kernelquilt.core.svm.factors import Factors
from kernelquilt.core.svm.weighted_svm import svm_with_margins
from kernelquilt.core.weights.sets import LP_OPTIONS
from kernelquilt.core.weights.solution import Options, Solution, Start, Step, Work
from kernelquilt.core.weights.solvers import WeightSet, newton
from kernelquilt.kernels.products import kernel_products
from kernelquilt.mkl.absent.shared_coef import SharedCoefSVM
from kernelquilt.mkl.fitting import BaseMKLClassifier, BinaryProblem, gathered

FORMULATIONS = {"exact", "shared_coef", "max_min"}
MAX_PIVOTS_SHARE = 4  # of the simplex method, per row and column; a few per column is usual
ENTRIES_BY_HAND = 2**16  # of the constraints, up to which it is faster than HiGHS
SHORT = 1e-10  # of the constraints that its rounding may leave open
DOMINATION_ENTRIES = 2**23  # held at a time while constraints are compared


class Polytope(WeightSet):
    """Weights ``d >= 0`` with ``A d <= 1`` for a non-negative matrix A.

    A column of zeros would leave its weight unbounded; such a weight is held at zero.

    Parameters
    ----------
    A : ndarray of shape (k, M)
        Non-negative; a row is one constraint. Rows that others dominate are dropped.
    can_vanish : bool, default=True
        Whether weights may be zero at the optimum.
    """

    def __init__(self, A: Floats, *, can_vanish: bool = True) -> None:
        A = np.asarray(A, dtype=np.float64)
        if A.ndim != 2 or not (A >= 0).all():
            raise ValueError("A must be a two-dimensional array without negative entries")
        self.allowed: Bools = np.asarray((A > 0).any(axis=0))
        if not self.allowed.any():
            raise ValueError("every column of A is zero: no weight is bounded")
        self.A: Floats = _undominated(A)
        self.can_vanish = can_vanish

    def start(self) -> Floats:
        """Return equal weights, as large as the constraints allow."""
        return self.allowed / self.A.sum(axis=1).max()

    def support(self, q: Floats) -> float:
        """Return the value of one small linear programme, from its dual so that it is safe."""
        return float(self.multipliers(q).sum())

    def multipliers(self, q: Floats) -> Floats:
        """Return the ``z >= 0`` (k,) with the smallest sum and ``A'z >= q`` where allowed."""
        q = np.where(self.allowed, np.maximum(q, 0.0), 0.0)
        top = float(q.max())
        if top == 0.0:
            return np.zeros(len(self.A))
        z = _packing_multipliers(self.A, q / top)
        # where the solver falls short of A'z >= q by rounding, one constraint makes up for it
        short = np.maximum(q / top - self.A.T @ z, 0.0)
        for p in np.flatnonzero(short):
            k = int(self.A[:, p].argmax())
            z[k] += short[p] / self.A[k, p]
        return np.asarray(top * z)

    @property
    def at_most_one(self) -> Floats:
        """The rows of A."""
        return self.A

    def without(self, u: Floats, negligible: Bools) -> Floats:
        """Drop the negligible weights."""
        return np.where(negligible, 0.0, u)


def _packing_multipliers(A: Floats, q: Floats) -> Floats:
    """Return the multipliers of ``max q'd`` over ``d >= 0, A d <= 1``, to rounding."""
    from kernelquilt.core.compiled import packing_multipliers

    pivots = MAX_PIVOTS_SHARE * sum(A.shape) if A.size <= ENTRIES_BY_HAND else 0
    z, optimal = packing_multipliers(A, q, pivots)
    if optimal and float(np.maximum(q - A.T @ z, 0.0).sum()) <= SHORT * float(q.sum()):
        return np.asarray(z)
    result = linprog(np.ones(len(A)), A_ub=-A.T, b_ub=-q, method="highs", options=LP_OPTIONS)
    return np.maximum(result.x, 0.0)


def _undominated(A: Floats) -> Floats:
    """Drop repeated rows and rows that are nowhere larger than another row."""
    A = np.unique(A[A.any(axis=1)], axis=0)
    entries: Array = (
        A.astype(np.bool_) if np.isin(A, (0.0, 1.0)).all() else A
    )  # bytes compare faster
    size = max(1, DOMINATION_ENTRIES // A.size)
    kept = [
        # every row is nowhere larger than itself, and none of the others equals it
        np.count_nonzero((part[:, None] <= entries).all(axis=2), axis=1) == 1
        for part in np.array_split(entries, -(-len(A) // size))
    ]
    return A[np.concatenate(kept)]


@single_threaded_blas()
def solve_convex_absent_mkl(
    K: Numbers | Factors,
    y: Floats,
    observed: Bools,
    *,
    C: float | Floats = 1.0,
    formulation: str = "exact",
    tol: float = 1e-3,
    max_iter: int = 200,
    weights: Floats | None = None,
    dual_coef: Floats | None = None,
    on_step: Callable[[Step], None] | None = None,
    _leaky: bool = False,
) -> Solution:
    """Solve convex absent MKL (see the module docstring for the objective).

    Parameters
    ----------
    K : ndarray of shape (M, n, n), or Factors
        Kernels, zero where absent.
    y : ndarray of shape (n,)
        Labels -1 and +1.
    observed : ndarray of shape (n, M), bool
        True where a kernel observes a sample.
    C : float or ndarray of shape (n,), default=1.0
        Penalty, of all or of each sample; 0 leaves a sample out.
    formulation : {"exact", "shared_coef", "max_min"}, default="exact"
        Eq. (28), (31) or (25).
    tol : float, default=1e-3
        Relative duality gap.
    max_iter : int, default=200
        Cap on the SVM solves.
    weights, dual_coef : ndarrays of shape (M,) and (n,), optional
        Weights and signed duals to start from; used by "exact" only.
    on_step : callable, optional
        Called with every :class:`~kernelquilt.core.weights.solution.Step`.

    Returns
    -------
    Solution
        With `simplex_weights`. Unless "exact", `dual_coef` is (M, n) and `weights` are 1.

    Examples
    --------
    >>> import kernelquilt as kq
    >>> X, y = kq.datasets.make_multiview(40, 3, random_state=0)
    >>> X = kq.datasets.make_absent(X, 0.3, random_state=0)
    >>> K = kq.ViewKernels().fit_transform(X).gram()
    >>> solution = kq.mkl.solve_convex_absent_mkl(K, 2.0 * y - 1, X.observed)
    >>> solution.converged, solution.simplex_weights.round(1)
    (True, array([0.8, 0.2, 0. ]))
    """
    if formulation not in FORMULATIONS:
        raise ValueError(f"formulation must be one of {sorted(FORMULATIONS)}, got {formulation!r}")
    C = np.broadcast_to(np.asarray(C, dtype=np.float64), y.shape)
    used = np.flatnonzero((C > 0) & observed.any(axis=1))
    patterns = observed[used].astype(np.float64)
    if formulation == "exact":
        polytope = Polytope(patterns)
        svm = svm_with_margins(K, y, np.where(observed.any(axis=1), C, 0.0))
        options = Options(tol, max_iter, Start(weights, dual_coef), on_step)
        solution = newton(svm, polytope, options)
        return replace(solution, simplex_weights=simplex_weights(polytope, solution))
    if isinstance(K, Factors):
        raise ValueError(
            f"formulation={formulation!r} needs kernels, got {len(K)} factors of {len(y)} samples; "
            "formulation='exact' works on factors"
        )
    if len(used) < len(y):
        K = np.ascontiguousarray(K[:, used][:, :, used])
    polytope = Polytope(patterns, can_vanish=False)
    if formulation == "max_min":
        return _solve_max_min(K, y, C, used, observed, polytope, tol)
    seen = np.ones_like(observed) if _leaky else observed
    options = Options(tol, max_iter, on_step=on_step)
    return _solve_shared_coef(K, y, C, used, observed, seen, polytope, options)


def simplex_weights(polytope: Polytope, solution: Solution) -> Floats:
    """Return the gamma of Eq. (28) that belongs to the weights."""
    assert solution.slopes is not None
    gamma = solution.weights * (polytope.A.T @ polytope.multipliers(solution.slopes))
    gamma = gamma if gamma.any() else polytope.start()
    return np.asarray(gamma / gamma.sum())


def _solve_shared_coef(
    K: Numbers,
    y: Floats,
    C: Floats,
    used: Indices,
    observed: Bools,
    seen: Bools,
    polytope: Polytope,
    options: Options,
) -> Solution:
    """Solve Eq. (31) on the samples used; `seen` (n, M) says where its coefficients count."""
    allowed = polytope.allowed
    svm = SharedCoefSVM(K[allowed], observed[np.ix_(used, allowed)], y[used], C[used])
    own = polytope if allowed.all() else Polytope(polytope.A[:, allowed], can_vanish=False)
    inner = newton(svm, own, options)
    coef = np.zeros((len(allowed), len(y)))
    alpha = svm.coefficients(inner.weights, inner.dual_coef)
    coef[np.ix_(allowed, used)] = seen[np.ix_(used, allowed)].T * alpha
    gamma = np.zeros(len(allowed))
    gamma[allowed] = simplex_weights(own, inner)
    return replace(
        inner,
        weights=allowed.astype(np.float64),
        dual_coef=coef,
        simplex_weights=gamma,
        slopes=None,
        indefinite=False,
    )


def _solve_max_min(
    K: Numbers,
    y: Floats,
    C: Floats,
    used: Indices,
    observed: Bools,
    polytope: Polytope,
    tol: float,
) -> Solution:
    """Solve Eq. (25) on the samples used."""
    from kernelquilt.mkl.absent.max_min import max_min_margin  # which builds on this file

    point = max_min_margin(K, y[used], C[used], polytope, tol)
    coef = np.zeros((len(K), len(y)))
    coef[:, used] = np.where(observed[used].T, point.coef, 0.0)  # zero but for rounding
    total = float(point.norms.sum())
    return Solution(
        weights=polytope.allowed.astype(np.float64),
        dual_coef=coef,
        intercept=point.intercept,
        objective=point.primal,
        dual_bound=point.bound,
        tol=tol,
        n_iter=point.n_iter,
        work=Work(),
        history=(Step(point.primal, point.primal - point.bound, 0),),
        simplex_weights=(point.norms if total > 0.0 else polytope.start()) / (total or 1.0),
    )


class ConvexAbsentMKLClassifier(BaseMKLClassifier):
    """SVM on a combination of kernels in which the weights that a sample can see sum to one.

    Use it when every sample lacks some views and these may differ in worth: weights may then be
    larger than if they had to sum to one over all kernels, and the optimum is certified by
    `duality_gap_`. As soon as one training sample has all kernels, its pattern implies all other
    constraints and the result is that of `SimpleMKLClassifier`, absent kernels zero. Compare it
    with `ObservedFractionMKLClassifier`, which learns no weights and is often as good.

    Parameters
    ----------
    C : float, default=1.0
        Penalty on margin violations.
    formulation : {"exact", "shared_coef", "max_min"}, default="exact"
        The problem to solve, see the module `kernelquilt.mkl.absent.convex`: Eq. (28) of the paper;
        its Eq. (31), with one coefficient per sample for all kernels; or its Eq. (25), for a few
        hundred samples.
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
        What multiplies each kernel in the score: the weights that sum to at most one over the
        kernels of any training sample, or 1 unless "exact".
    simplex_weights_ : ndarray of shape (M,), or (n_problems, M) if multi-class
        Kernel weights that sum to one: the paper's gamma; for "max_min" the share of each kernel in
        the sum of norms.
    dual_coef_ : ndarray of shape (n_problems, n)
        Signed duals of the training samples, without the weights. Unless "exact", the coefficients
        of each kernel, (M, n) if binary and (n_problems, M, n) otherwise.
    intercept_ : ndarray of shape (n_problems,)
        Biases.
    n_support_ : ndarray of shape (n_problems,)
        Number of samples with a coefficient.
    objective_, duality_gap_ : float, or ndarray of shape (n_problems,) if multi-class
        Certified primal value, and how far it may be above the optimum.
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
    >>> X, y = kq.datasets.make_multiview(100, 4, random_state=0)
    >>> X = kq.datasets.make_absent(X, 0.5, random_state=0)
    >>> model = kq.ConvexAbsentMKLClassifier().fit(X, y)
    >>> float((X.observed @ model.weights_).max().round(6))
    1.0
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **BaseMKLClassifier._parameter_constraints,
        "max_iter": BaseMKLClassifier._learned_weights_constraints["max_iter"],
        "formulation": [StrOptions(FORMULATIONS)],
    }

    _takes_factors = True
    _leaky: ClassVar[bool] = False  # whether absent training entries are read, for a diagnostic

    def __init__(
        self,
        C: float = 1.0,
        *,
        formulation: str = "exact",
        kernels: Any = "gaussian",
        views: Any = None,
        n_landmarks: int | None = None,
        tol: float = 1e-3,
        max_iter: int = 200,
        multi_class: str = "ovr",
        class_weight: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.C = C
        self.formulation = formulation
        self.kernels = kernels
        self.views = views
        self.n_landmarks = n_landmarks
        self.tol = tol
        self.max_iter = max_iter
        self.multi_class = multi_class
        self.class_weight = class_weight
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _solve(self, problem: BinaryProblem, options: Options) -> Solution:
        return solve_convex_absent_mkl(
            problem.K,
            problem.y,
            problem.observed,
            C=problem.C,
            formulation=self.formulation,
            _leaky=self._leaky,
            **options.keywords("weights", "dual_coef"),
        )

    def _store(self, solutions: list[Solution]) -> None:
        super()._store(solutions)
        self.simplex_weights_ = gathered(solutions, "simplex_weights")
        if self.formulation != "exact":
            self.dual_coef_ = gathered(solutions, "dual_coef")
            used = np.array([solution.dual_coef.any(axis=0) for solution in solutions])
            self.n_support_ = np.count_nonzero(used, axis=1)

    def _scores(self, rows: Any) -> Floats:
        if self.formulation == "exact":
            return super()._scores(rows)
        coef = self.dual_coef_.reshape(len(self.intercept_), *self.dual_coef_.shape[-2:])
        needed = np.asarray(coef.any(axis=(0, 2)))
        scores = np.tile(self.intercept_, (len(rows), 1))
        right = [coef[:, m].T if use else None for m, use in enumerate(needed)]
        for _, product in kernel_products(self.input_, rows, right):
            scores += product
        return scores
