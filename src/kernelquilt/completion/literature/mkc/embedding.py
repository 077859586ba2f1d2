"""Solving the problems of `kernelquilt.completion.literature.mkc.classes`, numbered as there."""

from abc import abstractmethod
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions

from kernelquilt._typing import Bools, Floats, Indices, Kernel
from kernelquilt.completion.combination import row_keys, training_places
from kernelquilt.completion.completer import CompletionStep, IterativeCompleter
from kernelquilt.completion.literature.learned import LearnedCompleter
from kernelquilt.completion.literature.mkc.approximation import Approximation
from kernelquilt.completion.literature.mkc.descent import minimise
from kernelquilt.completion.literature.mkc.objectives import (
    ApproximationProblem,
    EmbeddingProblem,
    HeterogeneousProblem,
    HomogeneousProblem,
)
from kernelquilt.completion.literature.mkc.start import own_start, shared_start
from kernelquilt.completion.transfer_regression import solve_transfer

OnStep = Callable[[int, CompletionStep], None] | None


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
    """
    basis = [np.flatnonzero(column) for column in observed.T] if basis is None else basis
    sizes = np.ones(len(K)) if sizes is None else sizes
    frozen = None if self_weights else np.asarray(~observed.all(axis=1))
    problem: EmbeddingProblem
    if coupling == "shared":
        problem = HomogeneousProblem(K, observed, basis, 0.0, frozen, sizes)
    elif coupling == "kernels":
        problem = ApproximationProblem(K, observed, basis, lam1, frozen, sizes)
    else:
        problem = HeterogeneousProblem(
            K, observed, basis, lam1, frozen, sizes, all_rows=between == "all"
        )
    if isinstance(start, str):
        how = {"init": start, "self_weights": self_weights, "rng": check_random_state(random_state)}
        if coupling == "shared":
            start = [shared_start(K, observed, basis, sizes, **how)]
        else:
            start = own_start(K, observed, basis, solve_transfer(K, observed), **how)
    x = problem.pack(start)
    del start
    history: list[CompletionStep] = []

    def record(value: float, decrease: float) -> None:
        history.append(CompletionStep(value, decrease))
        if on_step is not None:
            on_step(len(history), history[-1])

    minimise(problem, x, lam2, tol=tol, max_iter=max_iter, record=record)
    weights = problem.split(x)
    if coupling == "shared":
        rows = problem.blocks[0]
        weights = [weights[0][np.searchsorted(rows, b)] for b in basis]
    return Embedding(tuple(weights), tuple(basis), problem.mixing, tuple(history))


class EmbeddingCompleter(LearnedCompleter):
    """Base of the completers that minimise such objectives."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **IterativeCompleter._parameter_constraints,
        "lam1": [Interval(Real, 0, np.inf, closed="left")],
        "lam2": [Interval(Real, 0, np.inf, closed="left")],
        "n_basis": [Interval(Integral, 1, None, closed="left"), None],
        "init": [StrOptions({"transfer", "identity", "random"})],
        "self_weights": ["boolean"],
        "exact_observed": ["boolean"],
        "random_state": ["random_state"],
    }
    _distance_name = "mean relative decrease of the objective"
    _remedy = (
        "raise max_iter or tol; a lower objective need not be a better completion, and stopping "
        "early is a choice that CompletionSearchCV can make"
    )

    @abstractmethod
    def _solve(
        self, K: Kernel, observed: Bools, sizes: Floats, rng: np.random.RandomState
    ) -> Embedding:
        """Return the embedding of kernels (M, n, n) in units of `sizes` (M,)."""

    def _learn(self, K: Kernel, observed: Bools, sizes: Floats) -> list[Floats]:
        found = self._solve(K, observed, sizes, check_random_state(self.random_state))
        self._mix(found.between, observed)
        known = np.flatnonzero(self.training_rows_.observed.any(axis=1))
        selected = iter(found.selected)
        self.basis_ = [
            known[next(selected)] if seen else np.empty(0, dtype=np.intp)
            for seen in np.asarray(self.training_rows_.observed.any(axis=0))
        ]
        self._store_history(found.history)
        columns = self._predictor(found)
        return [
            columns(m, ~present if self.exact_observed else np.ones_like(present), present)
            for m, present in enumerate(observed.T)
        ]

    def _predictor(self, found: Embedding) -> Callable[[int, Bools, Bools], Floats]:
        return found.columns

    def _combine(self, K: Kernel, observed: Bools, coefs: list[Floats]) -> None:
        self._approximations: list[Approximation] = []
        if self.exact_observed:
            super()._combine(K, observed, coefs)
            return
        for kernel, present, coef, unit in zip(K, observed.T, coefs, self._unit, strict=True):
            keys = self._keys if unit else None
            alike = coef[training_places(self._keys, self._keys)]
            self._approximations.append(Approximation.complete(kernel, present, alike, keys))

    def _complete_rows(self, K: Kernel, observed: Bools, diag: Floats | None) -> Floats | None:
        if self.exact_observed:
            return super()._complete_rows(K, observed, diag)
        trained = training_places(row_keys(K, observed), self._keys)
        own = np.ones((len(K), len(observed))) if diag is None else diag.copy()
        nobody = np.full(len(observed), -1)
        coefs = [self._new_coefficients(K, observed, m, nobody) for m in range(len(K))]
        for m, (approximation, coef) in enumerate(zip(self._approximations, coefs, strict=True)):
            absent = ~observed[:, m]
            own[m, absent] = approximation.complete_rows(K[m], ~absent, coef, trained)
            same = trained >= 0
            own[m, same] = approximation.whole.diagonal()[trained[same]]
        return None if diag is None and not self._unit.all() else own
