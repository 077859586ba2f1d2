"""Solving the problems of `kernelquilt.completion.literature.mkc.estimators`, numbered as there."""

from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import check_random_state

from kernelquilt._typing import Bools, Floats, Indices, Kernel
from kernelquilt.completion.iterations import CompletionStep, History, OnStep
from kernelquilt.completion.literature.mkc.descent import minimise_embedding
from kernelquilt.completion.literature.mkc.objectives import (
    ApproximationObjective,
    EmbeddingObjective,
    HeterogeneousObjective,
    HomogeneousObjective,
)
from kernelquilt.completion.literature.mkc.start import own_start, shared_start
from kernelquilt.completion.transfer_regression import solve_transfer


class Embedding(NamedTuple):
    """Weights of basis samples in all samples, and how they were found.

    Attributes
    ----------
    weights : tuple of M ndarrays of shape (b_m, n)
        Rows are zero for samples that are not needed in the basis.
    basis : tuple of M ndarrays of shape (b_m,)
        The samples that the rows stand for.
    between : ndarray of shape (M, M)
        S; uniform if the views share their weights, or there is one.
    history : tuple of CompletionStep
        Objective, and its mean relative decrease over the last ten iterations.
    """

    weights: tuple[Floats, ...]
    basis: tuple[Indices, ...]
    between: Floats
    history: tuple[CompletionStep, ...]

    @property
    def selected(self) -> list[Indices]:
        """The samples of each basis that have a weight anywhere."""
        return [b[A.any(axis=1)] for b, A in zip(self.basis, self.weights, strict=True)]

    def columns(self, m: int, samples: Bools, present: Bools) -> Floats:
        """Return the coefficients (k, n_m) of some samples over those that have kernel m."""
        coef = np.zeros((int(samples.sum()), len(present)))
        coef[:, self.basis[m]] = self.weights[m][:, samples].T
        return coef[:, present]

    def mixed_columns(self, m: int, samples: Bools, present: Bools) -> Floats:
        """Return the same from the weights of the other views, as in (13)."""
        coef = np.zeros((int(samples.sum()), len(present)))
        for s, A, b in zip(self.between[m], self.weights, self.basis, strict=True):
            coef[:, b] += s * A[:, samples].T
        return coef[:, present]


def solve_embedding(
    K: Kernel,
    observed: Bools,
    *,
    lam1: float = 0.1,
    lam2: float = 0.1,
    coupling: str = "weights",
    between: str = "observed",
    self_weights: bool = True,
    basis: list[Indices] | None = None,
    start: list[Floats] | str = "transfer",
    sizes: Floats | None = None,
    tol: float = 1e-6,
    max_iter: int = 2000,
    random_state: Any = None,
    on_step: OnStep = None,
) -> Embedding:
    """Minimise (24), (25) or (23).

    Parameters
    ----------
    K : ndarray of shape (M, n, n)
        Symmetric, positive semi-definite on the observed samples. Entries of absent samples are
        not used.
    observed : ndarray of bool of shape (n, M)
        With a sample for every kernel.
    lam1, lam2 : float
        Weight of what ties the views together, and of the l2,1 norms.
    coupling : {"weights", "kernels", "shared"}, default="weights"
        (24), (25) or (23).
    between : {"observed", "all"}, default="observed"
        Whether (24) compares the views in the rows I_m or in all.
    self_weights : bool, default=True
        Whether samples with an absent view may have weight in themselves.
    basis : list of M increasing index arrays, default=None
        What each basis is chosen from; by default all samples that have the kernel.
    start : {"transfer", "identity", "random"} or list of arrays, default="transfer"
        Weights (b_m, n) to start from, in a list of one (b, n) if they are shared.
    sizes : ndarray of shape (M,), default=None
        Units in which the kernels are taken, by default 1.
    tol : float, default=1e-6
        Mean relative decrease of the objective by one iteration at which to stop.
    max_iter : int, default=2000
        Cap on the iterations before the at most 50 exact proximal ones.
    random_state : int, RandomState instance or None, default=None
        For ``start="random"``.
    on_step : callable, optional
        Called with the number of every iteration and its CompletionStep.

    Returns
    -------
    Embedding
        Bases, weights of their samples, and weights between the kernels.

    Examples
    --------
    >>> import kernelquilt as kq
    >>> stack = kq.datasets.make_toy_kernels("TOYG1", 30, random_state=0)
    >>> stack = kq.datasets.make_absent(stack, 0.3, random_state=0)
    >>> found = kq.completion.solve_embedding(stack.gram(), stack.observed, tol=1e-4)
    >>> found.history[-1].objective < found.history[0].objective
    True
    """
    basis = [np.flatnonzero(column) for column in observed.T] if basis is None else basis
    sizes = np.ones(len(K)) if sizes is None else sizes
    frozen = None if self_weights else np.asarray(~observed.all(axis=1))
    objective: EmbeddingObjective
    if coupling == "shared":
        objective = HomogeneousObjective(K, observed, basis, 0.0, frozen, sizes)
    elif coupling == "kernels":
        objective = ApproximationObjective(K, observed, basis, lam1, frozen, sizes)
    else:
        objective = HeterogeneousObjective(
            K, observed, basis, lam1, frozen, sizes, all_rows=between == "all"
        )
    if isinstance(start, str):
        how = {"init": start, "self_weights": self_weights, "rng": check_random_state(random_state)}
        if coupling == "shared":
            start = [shared_start(K, observed, basis, sizes, **how)]
        else:
            start = own_start(K, observed, basis, solve_transfer(K, observed), **how)
    x = objective.pack(start)
    del start
    history = History(on_step)
    minimise_embedding(objective, x, lam2, tol=tol, max_iter=max_iter, record=history.record)
    weights = objective.split(x)
    if coupling == "shared":
        rows = objective.blocks[0]
        weights = [weights[0][np.searchsorted(rows, b)] for b in basis]
    return Embedding(tuple(weights), tuple(basis), objective.mixing, tuple(history))
