r"""Kernel weights by alternating between the SVM and a closed-form update.

For fixed weights the SVM gives the norms :math:`\|w_p\|^2 = d_p^2 q_p`; for fixed norms the weights
that minimise :math:`\tfrac12 \sum_p \|w_p\|^2 / d_p` over the weight set are known. Both steps
minimise the same objective over one block of variables, so it never rises.
"""

from kernelquilt.core.blas import single_threaded_blas
from kernelquilt.core.solution import Options, Solution
from kernelquilt.core.weights.certificate import Certificate
from kernelquilt.core.weights.inner import SVMAtWeights
from kernelquilt.core.weights.sets import Simplex


@single_threaded_blas()
def alternate(svm: SVMAtWeights, weight_set: Simplex, options: Options) -> Solution:
    """Solve by alternation, over sets that have an `update` (a `WeightSolver`)."""
    start = options.start.weights
    weights = weight_set.weights(weight_set.start()) if start is None else start
    point = svm.solve(weights, options.start.dual_coef, options.tol)
    certificate = Certificate(svm, weight_set.support, options)
    while certificate.record(point) > options.tol and svm.work.n_solves < options.max_iter:
        point = svm.solve(weight_set.update(point.squared_norms), point, options.tol)
    return certificate.solution(point)
