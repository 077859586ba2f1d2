r"""Multiple kernel learning with the epsilon-insensitive loss.

.. math:: \min_{d \in \mathcal D} \min_{w, b_0} \; \tfrac12 \sum_p \frac{\|w_p\|^2}{d_p}
          + \sum_i C_i \max\bigl(0,\, |y_i - f(x_i)| - \epsilon\bigr),

with absent kernels filled with zeros, over any set of kernel weights (`WeightSet` of
:mod:`kernelquilt.core.weights.solvers`): the simplex is SimpleMKL, the ball of a norm is lp-norm
MKL, the polytope of the observed patterns is convex absent MKL, and a single point is an ordinary
support vector regression. The dual of the inner minimum is in
:mod:`kernelquilt.core.svm.weighted_svr`; Newton's method over the weights and the certificate are
those of the classifiers,

.. math:: J(d) = \max_b \; y'b - \epsilon |b|_1 - \tfrac12 \sum_p d_p \, b'K_p b
          \;\ge\; y'b - \epsilon |b|_1 - \tfrac12 \max_{d \in \mathcal D} \sum_p d_p \, b'K_p b .

=================  ==============================================
symbol             name here
=================  ==============================================
K_p                ``K[p]`` (zero where absent)
d_p                ``weights[p]``
b_i                ``dual_coef[i]``
b_0                ``intercept``
=================  ==============================================

References
----------
.. [1] A. J. Smola and B. Schoelkopf, "A tutorial on support vector regression", Statistics and
   Computing 14, 2004.
.. [2] A. Rakotomamonjy, F. Bach, S. Canu and Y. Grandvalet, "SimpleMKL", JMLR 9, 2008, section 4.1.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from kernelquilt._typing import Floats, Numbers
from kernelquilt.core.limits import single_threaded_blas
from kernelquilt.core.svm.factors import Factors
from kernelquilt.core.svm.weighted_svr import svr_with_tube
from kernelquilt.core.weights.sets import NormBall, Simplex
from kernelquilt.core.weights.solution import Options, Solution, Start, Step
from kernelquilt.core.weights.solvers import alternate, certified_at, newton
from kernelquilt.mkl.norms.lp import CLOSED_FORM_FROM


@single_threaded_blas()
def solve_mkl_regression(
    K: Numbers | Factors,
    y: Floats,
    weight_set: Any = None,
    *,
    C: float | Floats = 1.0,
    epsilon: float = 0.1,
    tol: float = 1e-3,
    max_iter: float = 200,
    weights: Floats | None = None,
    dual_coef: Floats | None = None,
    on_step: Callable[[Step], None] | None = None,
) -> Solution:
    """Solve MKL with the epsilon-insensitive loss (see the module docstring for the objective).

    Parameters
    ----------
    K : ndarray of shape (M, n, n), or Factors
        Kernels, zero where absent.
    y : ndarray of shape (n,)
        Targets.
    weight_set : WeightSet, ndarray of shape (M,) or None, default=None
        Where the weights may lie, or the weights themselves; None is the simplex.
    C : float or ndarray of shape (n,), default=1.0
        Penalty, of all or of each sample; 0 leaves a sample out.
    epsilon : float, default=0.1
        Errors that cost nothing.
    tol : float, default=1e-3
        Relative duality gap.
    max_iter : int, default=200
        Cap on the solves.
    weights, dual_coef : ndarrays of shape (M,) and (n,), optional
        Weights and duals to start from.
    on_step : callable, optional
        Called with every :class:`~kernelquilt.core.weights.solution.Step`.

    Returns
    -------
    Solution
        Weights, signed duals, bias, objective and bound.

    Examples
    --------
    >>> import kernelquilt as kq
    >>> X, _ = kq.datasets.load_example("wdbc")
    >>> K = kq.ViewKernels().fit_transform(X[:100]).gram()
    >>> solution = kq.mkl.solve_mkl_regression(K, X["mean"][:100, 0], C=10.0)
    >>> bool(solution.relative_gap <= 1e-3), float(solution.weights.sum().round(6))
    (True, 1.0)
    """
    used = y[np.broadcast_to(C, y.shape) > 0]
    # what all targets have in common is the intercept's, and only rounding would know of it
    centre = 0.5 * float(used.min() + used.max()) if len(used) else 0.0
    svr = svr_with_tube(K, y - centre, C, epsilon)
    options = Options(tol, max_iter, Start(weights, dual_coef), on_step)
    if isinstance(weight_set, np.ndarray):
        solution = certified_at(svr, weight_set, options)
    else:
        everything = Simplex(np.ones(len(K), dtype=np.bool_))
        weight_set = everything if weight_set is None else weight_set
        closed_form = isinstance(weight_set, NormBall) and weight_set.p >= CLOSED_FORM_FROM
        solution = (alternate if closed_form else newton)(svr, weight_set, options)
    return replace(solution, intercept=float(solution.intercept) + centre)
