r"""Kernel weights by alternating between the SVM and a closed-form update.

For fixed weights the SVM gives the norms :math:`\|w_p\|^2 = d_p^2 q_p`; for fixed norms the weights
that minimise :math:`\tfrac12 \sum_p \|w_p\|^2 / d_p` over the weight set are known. Both steps
minimise the same objective over one block of variables, so it never rises.
"""

import numpy as np

from kernelquilt._typing import Floats
from kernelquilt.core.limits import single_threaded_blas
from kernelquilt.core.solution import Options, Solution
from kernelquilt.core.weights.certificate import Certificate
from kernelquilt.core.weights.inner import SVMAtWeights, SVMPoint
from kernelquilt.core.weights.sets import Simplex


@single_threaded_blas()
def alternate(svm: SVMAtWeights, weight_set: Simplex, options: Options) -> Solution:
    """Solve by alternation, over sets that have an `update` (a `WeightSolver`)."""
    start = options.start.weights
    weights = weight_set.weights(weight_set.start()) if start is None else start
    point = svm.solve(weights, options.start.dual_coef, options.tol)
    certificate = Certificate(svm, weight_set.support, options)
    while certificate.record(point) > options.tol and svm.work.n_solves < options.max_iter:
        point = svm.solve(weight_set.update(_norms_to_rounding(svm, point)), point, options.tol)
    return certificate.solution(point)


def _norms_to_rounding(svm: SVMAtWeights, point: SVMPoint) -> Floats:
    """Return the squared norms, none of which is less than its rounding error.

    A weight that is set to zero stays there, and the functions of kernels with large entries are
    small beside what rounding leaves of ``b'K_p b``.
    """
    error = np.finfo(np.float64).eps * svm.diag.max(axis=1) * float(np.abs(point.b).sum()) ** 2
    return np.asarray(point.weights**2 * np.maximum(point.q, error))
