r"""Support vector regression on a weighted sum of kernels, solved again as the weights change.

.. math:: J(d) = \min_{w, b_0} \; \tfrac12 \sum_p \frac{\|w_p\|^2}{d_p}
          + \sum_i C_i \max\bigl(0,\, |y_i - f(x_i)| - \epsilon_i\bigr)
          = \max_b \; y'b - \epsilon'|b| - \tfrac12 \sum_p d_p \, b'K_p b,
          \qquad \sum_i b_i = 0, \quad |b_i| \le C_i .

The dual is that of the SVM with bounds of both signs and a kink at zero
(:mod:`kernelquilt.core.svm.dual`); everything else, warm starts and the products that are kept, is
that of :class:`~kernelquilt.core.svm.weighted_svm.WeightedSVM`, or on factors that of
:class:`~kernelquilt.core.svm.factor_svm.FactorSVM`.
"""

import numpy as np

from kernelquilt._typing import Floats, Numbers
from kernelquilt.core.svm.factor_svm import FactorSVM
from kernelquilt.core.svm.factors import Factors
from kernelquilt.core.svm.weighted_svm import WeightedSVM
from kernelquilt.core.weights.solvers import SVMAtWeights


class WeightedSVR(WeightedSVM):
    """Support vector regression on ``sum_p d_p K_p`` with warm starts between weight vectors.

    Parameters
    ----------
    K : ndarray of shape (M, n, n), float32 or float64
        Kernels, C-contiguous, symmetric, zero where absent.
    y : ndarray of shape (n,)
        Targets; the smaller they are beside their differences, the smaller the rounding errors.
    C : float or ndarray of shape (n,)
        Penalty on errors, of all or of each sample; 0 leaves a sample out.
    epsilon : float or ndarray of shape (n,)
        Errors that cost nothing.
    """

    def __init__(self, K: Numbers, y: Floats, C: float | Floats, epsilon: float | Floats) -> None:
        y = np.asarray(y, dtype=np.float64)
        U = np.broadcast_to(np.asarray(C, dtype=np.float64), y.shape)[None]
        used = y[U[0] > 0]
        spread = float(np.abs(used - used.mean()).mean()) if len(used) else 0.0
        self._hold(K, y[None], -U, U, spread or 1.0)
        self.tube = np.broadcast_to(np.asarray(epsilon, dtype=np.float64), y.shape)


class FactorSVR(FactorSVM):
    """Support vector regression on ``sum_p d_p Z_p Z_p'``.

    Parameters
    ----------
    factors : Factors
        The kernels.
    y, C, epsilon
        As in `WeightedSVR`.
    """

    def __init__(
        self, factors: Factors, y: Floats, C: float | Floats, epsilon: float | Floats
    ) -> None:
        y = np.array(y, dtype=np.float64)
        U = np.array(np.broadcast_to(C, y.shape), dtype=np.float64)[None]
        self._hold(factors, y[None], -U, U)
        self.tube = np.array(np.broadcast_to(epsilon, y.shape), dtype=np.float64)


def svr_with_tube(
    K: Numbers | Factors, y: Floats, C: float | Floats, epsilon: float | Floats
) -> SVMAtWeights:
    """Return the support vector regression on Grams (M, n, n) or factors."""
    if isinstance(K, Factors):
        return FactorSVR(K, y, C, epsilon)
    return WeightedSVR(K, y, C, epsilon)
