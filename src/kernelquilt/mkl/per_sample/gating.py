r"""Gates that weigh kernels sample by sample, and what follows for the SVM on them.

A sample with features x opens the gates of its kernels according to the scores
:math:`s_m = v_m'x + v_{m0}`,

.. math:: \eta_m = \frac{e^{s_m}}{\sum_{k \in O} e^{s_k}} \;\text{(softmax)}, \qquad
          \eta_m = \frac{1}{1 + e^{-s_m}} \;\text{(sigmoid)}, \qquad
          \eta_m = 0 \;\text{for } m \notin O,

where O are the kernels that observe the sample. The SVM on the locally combined kernel
:math:`K_\eta(i, j) = \sum_m \eta_m(x_i) K_m(i, j) \eta_m(x_j)` has the value

.. math:: J(\eta) = \max_b \; s'b - \tfrac12 \sum_m (b \circ \eta_m)' K_m (b \circ \eta_m), \qquad
          \frac{\partial J}{\partial \eta_m(x_i)} = -b_i \, [K_m (b \circ \eta_m)]_i .
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import expit

from kernelquilt._typing import Bools, Floats, Numbers
from kernelquilt.core.svm.weighted_svm import svm_with_margins
from kernelquilt.core.weights.solution import Work
from kernelquilt.core.weights.solvers import SVMPoint


class Gating(NamedTuple):
    """A gate function and its derivative.

    Attributes
    ----------
    gates : callable
        Returns the gates (n, M) from the scores (n, M) and the mask of present kernels (n, M).
    chain : callable
        Returns the derivative by the scores (n, M) from the gates and the derivative by them.
    """

    gates: Callable[[Floats, Bools], Floats]
    chain: Callable[[Floats, Floats], Floats]


def _softmax(scores: Floats, present: Bools) -> Floats:
    scores = np.where(present, scores, -np.inf)
    top = scores.max(axis=1, keepdims=True)
    gates = np.exp(scores - np.where(np.isfinite(top), top, 0.0))
    return gates / np.maximum(gates.sum(axis=1, keepdims=True), np.finfo(np.float64).tiny)


def _softmax_chain(gates: Floats, slopes: Floats) -> Floats:
    return gates * (slopes - np.sum(gates * slopes, axis=1, keepdims=True))


def _sigmoid(scores: Floats, present: Bools) -> Floats:
    return np.where(present, expit(scores), 0.0)


def _sigmoid_chain(gates: Floats, slopes: Floats) -> Floats:
    return gates * (1.0 - gates) * slopes


GATINGS = {
    "softmax": Gating(_softmax, _softmax_chain),
    "sigmoid": Gating(_sigmoid, _sigmoid_chain),
}


def gate_scores(features: Floats, gate_weights: Floats) -> Floats:
    """Return the scores (n, M) of features (n, d) for gate weights (M, d + 1), bias last."""
    return features @ gate_weights[:, :-1].T + gate_weights[:, -1]


class GatePoint(NamedTuple):
    """The SVM at one choice of gates.

    Attributes
    ----------
    gate_weights : ndarray of shape (M, d + 1)
        Parameters of the gates, bias last.
    gates : ndarray of shape (n, M)
        The gates of the samples.
    svm : SVMPoint
        The SVM on the locally combined kernel.
    """

    gate_weights: Floats
    gates: Floats
    svm: SVMPoint

    @property
    def value(self) -> float:
        """The objective J, as certified by the primal of the SVM."""
        return self.svm.primal


class GatedSVM:
    """SVM on kernels that are gated sample by sample, as a function of the gate weights.

    Holds one (n, n) matrix, in which every locally combined kernel is built.

    Parameters
    ----------
    K : ndarray of shape (M, n, n), float32 or float64
        Kernels, C-contiguous, symmetric, zero where absent.
    y, U : ndarray of shape (n,)
        Labels -1 and +1, and upper bounds of the duals.
    features : ndarray of shape (n, d)
        Inputs of the gates.
    present : ndarray of shape (n, M), bool
        Kernels that each sample can open.
    gating : Gating
        The gate function.
    tol : float
        Relative duality gap that every SVM has to undercut by a factor of ten.
    """

    def __init__(
        self,
        K: Numbers,
        y: Floats,
        U: Floats,
        features: Floats,
        present: Bools,
        gating: Gating,
        tol: float,
    ) -> None:
        self.K = K
        self.y = y
        self.U = U
        self.features = features
        self.present = present
        self.gating = gating
        self.tol = tol
        self.work = Work()
        self._combined = np.empty((1, *K.shape[1:]))

    def solve(self, gate_weights: Floats, start: GatePoint | None) -> GatePoint:
        """Solve the SVM at the given gate weights, from the duals of another point if given."""
        from kernelquilt.core.compiled import combine_gated

        gates = self.gating.gates(gate_scores(self.features, gate_weights), self.present)
        combine_gated(self.K, np.ascontiguousarray(gates.T), self._combined[0])
        svm = svm_with_margins(self._combined, self.y, self.U)
        point = svm.solve(np.ones(1), None if start is None else start.svm.b, self.tol)
        self.work += Work(1, svm.work.n_smo_iter, 1.0)
        return GatePoint(gate_weights, gates, point)

    def gradient(self, point: GatePoint) -> Floats:
        """Return the derivative of J by the gate weights, shape (M, d + 1)."""
        gated = point.svm.b[0, :, None] * point.gates
        slopes = -point.svm.b[0, :, None] * self.products(gated)
        by_score = self.gating.chain(point.gates, slopes)
        return np.column_stack([by_score.T @ self.features, by_score.sum(axis=0)])

    def products(self, vectors: Floats) -> Floats:
        """Return ``K_m vectors[:, m]`` for every kernel, shape (n, M)."""
        from kernelquilt.core.compiled import accumulate_rows

        out, n_read = np.zeros((len(self.K), len(vectors))), 0
        for m, kernel in enumerate(self.K):
            rows = np.flatnonzero(vectors[:, m])
            n_read += len(rows)
            accumulate_rows(kernel[None], rows, vectors[rows, m], out[m : m + 1])
        self.work += Work(n_passes=n_read / out.size)
        return out.T

    def longest_move(self, step: Floats) -> float:
        """Return how far a step of the gate weights moves a score of the samples that count."""
        moves = np.abs(gate_scores(self.features, step))
        return float(moves.max(where=self.present & (self.U > 0)[:, None], initial=0.0))
