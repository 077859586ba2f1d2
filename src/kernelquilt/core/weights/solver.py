r"""What a solver over kernel weights is: the protocol that all of them follow.

.. math:: \min_{d \in \mathcal D} J(d), \qquad
          J(d) = \max_b \; s'b - \tfrac12 \sum_p d_p \, q_p(b)

The SVM knows ``J`` and its derivatives (:mod:`kernelquilt.core.svm.weighted_svm`), the weight set
knows :math:`\mathcal D` (:mod:`kernelquilt.core.weights.sets`), and a solver brings the two
together. Every solver ends with a certificate (:mod:`kernelquilt.core.weights.certificate`).
"""

from typing import Protocol, TypeVar

from kernelquilt._typing import Floats
from kernelquilt.core.solution import Options, Solution
from kernelquilt.core.weights.certificate import Certificate
from kernelquilt.core.weights.inner import SVMAtWeights

Set_contra = TypeVar("Set_contra", contravariant=True)


class WeightSolver(Protocol[Set_contra]):
    """A method that minimises ``J`` over sets of weights of some kind."""

    def __call__(self, svm: SVMAtWeights, weight_set: Set_contra, options: Options) -> Solution:
        """Minimise ``J`` over a weight set.

        Parameters
        ----------
        svm : SVMAtWeights
            The SVM with its kernels, not solved before.
        weight_set : WeightSet
            Where the weights may lie.
        options : Options
            ``tol`` is the relative duality gap to reach, ``max_iter`` the cap on the SVM solves,
            those of line searches included. The weights to start from are a point of the set,
            the duals have the shape of the labels.

        Returns
        -------
        Solution
            With the certificate it ended with, met or not.
        """


def certified_at(svm: SVMAtWeights, weights: Floats, options: Options) -> Solution:
    """Solve at given weights (M,), as a `WeightSolver` would over the set of these alone."""
    certificate = Certificate(svm, lambda q: float(weights @ q), options)
    point = svm.solve(weights, options.start.dual_coef, options.tol)
    certificate.record(point)
    return certificate.solution(point)
