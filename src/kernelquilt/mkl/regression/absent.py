r"""Support vector regression on kernels that are absent for some samples.

**Observed fraction.** With absent kernels filled with zeros, a sample that has half of its kernels
is predicted by half of a sum. A classifier asks of it half of the margin; a target cannot be asked
for by half. What can be done is to average over the kernels that a sample has,

.. math:: f(x) = \frac{1}{\tau(x)} \sum_p \frac1M \langle w_p, \phi_p(x) \rangle + b_0,

where :math:`\tau(x)` is the fraction of kernels that x has, in training and in prediction. It is a
support vector regression on the kernel :math:`K_{ij} / (\tau_i \tau_j)`, K the mean kernel.

**Convex absent.** In Eq. (28) of the paper [1]_ (:mod:`kernelquilt.mkl.absent.convex`) the loss may
be any convex one: the weights come from :math:`\{d \ge 0, S d \le 1\}`, S the patterns of
observation.

References
----------
.. [1] X. Liu et al., "Absent multiple kernel learning algorithms", IEEE TPAMI 42(6), 2020.
"""

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from kernelquilt._typing import Bools, Floats, Numbers
from kernelquilt.core.svm.factors import Factors
from kernelquilt.core.weights.solution import Options, Solution
from kernelquilt.mkl.absent.convex import Polytope, simplex_weights
from kernelquilt.mkl.regression.norms import UniformMKLRegressor
from kernelquilt.mkl.regression.regressor import BaseMKLRegressor, PreparedTargets
from kernelquilt.mkl.regression.solver import solve_mkl_regression


class ObservedFractionMKLRegressor(UniformMKLRegressor):
    """Support vector regression on the mean of the kernels that each sample has.

    What the kernels of a sample say is averaged over those that it has, not over all of them: as
    simple and fast as `UniformMKLRegressor`, whose parameters and attributes it has, equal to it
    when nothing is absent, and a strong baseline otherwise.

    Examples
    --------
    >>> import kernelquilt as kq
    >>> X, _ = kq.datasets.load_example("wdbc")
    >>> target = X["mean"][:, 0]
    >>> X = kq.datasets.make_absent(X, 0.3, random_state=0)
    >>> model = kq.mkl.ObservedFractionMKLRegressor(C=10.0).fit(X[:200], target[:200])
    >>> bool(model.score(X[200:], target[200:]) > 0.6)
    True
    """

    def _solve(self, data: PreparedTargets, options: Options) -> Solution:
        weights = self._weight_set(data)
        fraction = _fractions(data.observed, data.allowed)
        K: Numbers | Factors
        if isinstance(data.K, Factors):
            K, fixed = data.K.with_rows_times(1.0 / fraction), weights
        else:
            kernel = np.tensordot(weights, data.K, axes=1).astype(np.float64, copy=False)
            kernel /= np.outer(fraction, fraction)
            K, fixed = kernel[None], np.ones(1)
        start = options.start.dual_coef
        solution = solve_mkl_regression(
            K,
            data.y,
            fixed,
            C=self.C * data.weight,
            epsilon=self.epsilon,
            **options.keywords("weights")
            | {"dual_coef": None if start is None else start * fraction},
        )
        return replace(
            solution,
            weights=weights,
            dual_coef=solution.dual_coef / fraction,
            indefinite=data.allowed & solution.indefinite,
        )

    def _scores(self, rows: Any) -> Floats:
        fraction = _fractions(self.input_.observed_of(rows), self.weights_ > 0)
        return self.intercept_ + (super()._scores(rows) - self.intercept_) / fraction


def _fractions(observed: Bools, allowed: Bools) -> Floats:
    """Return which share of the allowed kernels samples have, (n,); 1 for none."""
    fraction = observed[:, allowed].mean(axis=1)
    return np.where(fraction > 0, fraction, 1.0)


class ConvexAbsentMKLRegressor(BaseMKLRegressor):
    """Support vector regression on kernels of which the weights that a sample sees sum to one.

    `ConvexAbsentMKLClassifier` with the epsilon-insensitive loss: use it when every sample lacks
    some views and these may differ in worth. As soon as one training sample has all kernels, the
    result is that of `SimpleMKLRegressor`. The optimum is certified by `duality_gap_`.

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
        What multiplies each kernel in the prediction: the weights that sum to at most one over the
        kernels of any training sample.
    simplex_weights_ : ndarray of shape (M,)
        Kernel weights that sum to one: the paper's gamma.
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
    >>> target = X["mean"][:, 0]
    >>> X = kq.datasets.make_absent(X, 0.5, random_state=0)
    >>> model = kq.mkl.ConvexAbsentMKLRegressor(C=10.0).fit(X[:200], target[:200])
    >>> float((X[:200].observed @ model.weights_).max().round(6))
    1.0
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

    def _weight_set(self, data: PreparedTargets) -> Polytope:
        return Polytope(data.observed[data.weight > 0].astype(np.float64))

    def _solve(self, data: PreparedTargets, options: Options) -> Solution:
        solution = super()._solve(data, options)
        gamma = simplex_weights(self._weight_set(data), solution)
        return replace(solution, simplex_weights=gamma)

    def _store(self, solution: Solution) -> None:
        super()._store(solution)
        self.simplex_weights_ = solution.simplex_weights
