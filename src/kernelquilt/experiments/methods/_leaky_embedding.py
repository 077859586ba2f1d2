"""Multi-view kernel completion that is allowed to see the answer: a diagnostic.

The first public code of "Multi-view kernel completion" fits the weights A_m to the kernel values
between samples I_m that have kernel m and samples H_m that lack it, which are what is to be found.
Here these enter the objectives of `kernelquilt.completion.literature.mkc.objectives` as a further
term,

    2 sum_m |(Khat_m - K_m)_{I_m, H_m}|^2.
"""

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from kernelquilt._typing import Array, Bools, Floats
from kernelquilt.completion.literature.mkc.descent import minimise_embedding
from kernelquilt.completion.literature.mkc.objectives import (
    ApproximationObjective,
    EmbeddingObjective,
    HeterogeneousObjective,
)
from kernelquilt.data.stack import KernelStack


class _Leaky(EmbeddingObjective):
    """An objective with that term; the kernels hold what should be absent."""

    def __init__(self, K: Array, observed: Bools, lam1: float) -> None:
        super().__init__(K, observed, [np.flatnonzero(column) for column in observed.T], lam1)
        self._absent = [np.flatnonzero(~column) for column in observed.T]
        self._answers = [
            k[np.ix_(o, h)] for k, o, h in zip(K, self.present, self._absent, strict=True)
        ]

    def _evaluate(self, A: list[Floats], gradient: list[Floats]) -> float:
        value = super()._evaluate(A, gradient)
        for m, (a, g, o, h) in enumerate(zip(A, gradient, self.present, self._absent, strict=True)):
            L = self._factors[m]
            P = L.T @ a
            E = P[:, o].T @ P[:, h] - self._answers[m]
            value += 2 * float(np.vdot(E, E))
            g[:, o] += 4 * L @ (P[:, h] @ E.T)
            g[:, h] += 4 * L @ (P[:, o] @ E)
        return value


class _LeakyWeights(_Leaky, HeterogeneousObjective):
    """The objective of ht; views are compared in the rows that a view has."""


class _LeakyKernels(_Leaky, ApproximationObjective):
    """The objective of app."""


_PROBLEMS = {"weights": _LeakyWeights, "kernels": _LeakyKernels}


class LeakyEmbedding(BaseEstimator):
    """ht or app, fitted to a stack that still holds the entries behind its mask.

    Parameters
    ----------
    coupling : {"weights", "kernels"}
        ht or app.
    lam1, lam2 : float
        As in `EmbeddingCompletion`.
    tol : float
    max_iter : int
    """

    def __init__(
        self,
        coupling: str,
        lam1: float = 0.1,
        lam2: float = 0.1,
        tol: float = 1e-6,
        max_iter: int = 2000,
    ) -> None:
        self.coupling = coupling
        self.lam1 = lam1
        self.lam2 = lam2
        self.tol = tol
        self.max_iter = max_iter

    def fit_transform(self, X: KernelStack, y: Any = None) -> KernelStack:
        """Return the kernels (n, M), approximate where the mask says absent."""
        K, observed = X.gram(), X.observed
        problem = _PROBLEMS[self.coupling](K, observed, self.lam1)
        x = problem.pack([np.eye(len(observed))[b] for b in problem.basis])
        decreases: list[float] = []
        minimise_embedding(
            problem, x, self.lam2, tol=self.tol, max_iter=self.max_iter,
            record=lambda _, decrease: decreases.append(decrease),
        )  # fmt: skip
        self.n_iter_, self.converged_ = len(decreases), decreases[-1] <= self.tol
        completed = np.empty_like(K)
        for m, (weights, o) in enumerate(zip(problem.split(x), observed.T, strict=True)):
            weights[:, o] = np.eye(len(weights))
            completed[m] = weights.T @ K[m][np.ix_(o, o)] @ weights
            np.fill_diagonal(completed[m], 1.0)
        return KernelStack(completed, names=X.names)
