r"""Kernel weights by alternating between the SVM and a closed-form update.

For fixed weights the SVM gives the norms :math:`\|w_p\|^2 = d_p^2 q_p`; for fixed norms the weights
that minimise :math:`\tfrac12 \sum_p \|w_p\|^2 / d_p` over the weight set are known. Both steps
minimise the same objective over one block of variables, so it never rises.
"""

from collections.abc import Callable

import numpy as np

from kernelquilt._typing import Floats
from kernelquilt.core.blas import single_threaded_blas
from kernelquilt.core.solution import Solution
from kernelquilt.core.svm.weighted_svm import Machine, Point
from kernelquilt.core.weights.certificate import Certificate


@single_threaded_blas()
def alternate(
    machine: Machine,
    certificate: Certificate,
    update: Callable[[Floats, Point], Floats],
    *,
    weights: Floats,
    max_iter: int,
    dual_coef: Floats | None = None,
    residual: Callable[[Point], float] | None = None,
) -> Solution:
    """Alternate until the certificate is met (see the module docstring).

    Parameters
    ----------
    machine : Machine
        The SVM, or ridge regression, with its kernels.
    certificate : Certificate
        Keeps the lower bound; its tolerance ends the iteration.
    update : callable
        Returns new weights (M,) from the squared norms (M,) and the point they belong to.
    weights : ndarray of shape (M,)
        Weights to start from.
    max_iter : int
        Cap on the SVM solves.
    dual_coef : ndarray of shape (n,), optional
        Signed duals to start from.
    residual : callable, optional
        What to compare with the tolerance instead of the relative gap, for problems in which the
        gap need not close.

    Returns
    -------
    Solution
    """
    point = machine.solve(weights, dual_coef, certificate.tol)
    while True:
        gap = certificate.record(point)
        distance = gap if residual is None else residual(point)
        if distance <= certificate.tol or machine.n_solves >= max_iter:
            return certificate.solution(point, None if residual is None else distance)
        squared_norms = point.weights**2 * np.maximum(point.q, 0.0)
        point = machine.solve(update(squared_norms, point), point, certificate.tol)
