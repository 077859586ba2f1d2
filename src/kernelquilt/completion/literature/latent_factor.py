"""Kernels of latent factors that the views share in part.

Every kernel m is the inner product of latent factors of its own, U_m (n, r), which are near to a
mixture of factors V (n, r) common to all:

    min  sum_m |(U_m U_m' - K_m)_{I_m, I_m}|^2 + a sum_m |U_m - V W_m|^2 + b |V|^2
         + c sum_m |W_m|_{2,1}    (1)

with I_m the samples that have the kernel and |.|_{2,1} the sum of the norms of the rows, so that a
view may do without some of the factors. This is a maximum a posteriori version of the multi-view
learning with features and similarities (MLFS) of Lian, Rai, Salazar and Carin, "Integrating
features and similarities", AAAI 2015, which infers a distribution over all of these; call it
MLFS-like. For samples without the kernel, U_m = V W_m is optimal, so that (1) has only the rows
I_m of U_m for unknowns. It is minimised by L-BFGS, with the norms smoothed, from

    V = leading eigenvectors of the mean kernel of `TransferFill`, times roots of eigenvalues,
    W_m = symmetric root of the positive part of V_I^+ K_m V_I^+',    U_m = V_I W_m.

The completed kernels keep the observed entries. With v the samples that have the kernel, absent
samples get the features

    phi(t) = sum_{i in v} x_i phi(x_i),    x = (U_v U_v' + s I)^-1 U_v (V W_m)_t    (2)

where s is the mean of the observed diagonal that the factors leave open, and the rest as in
`kernelquilt.completion.combination`.

| symbol | code |
|---|---|
| K_m, I_m | ``K[m]``, ``observed[:, m]`` |
| U_m on I_m, V, W_m | ``own[m]``, ``shared``, ``mixing[m]`` |
| a, b, c | ``coupling``, ``ridge``, ``lam`` |
"""

from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.utils._param_validation import Interval

from kernelquilt._typing import Bools, Floats, Kernel
from kernelquilt.completion.completer import BaseCompleter
from kernelquilt.completion.iterations import CompletionStep, History, Iterations, OnStep
from kernelquilt.completion.literature.learned_coefficients import (
    LearnedCombinations,
    undetermined_pairs,
)
from kernelquilt.completion.literature.proximal import add_smoothed_norm
from kernelquilt.completion.scaled_kernels import ScaledKernels
from kernelquilt.completion.transfer_regression import transferred
from kernelquilt.core.lbfgs import LBFGS

_ROUND = 10
_SMOOTHING = 1e-2  # of the norms of W; less converges slowly and hardly changes the result
_NEGLIGIBLE = 1e-5  # eigenvalues, relative to the largest
_LEAST = 1e-3  # s, in units of the kernels


class LatentFactors(NamedTuple):
    """The solution of (1).

    Attributes
    ----------
    own : tuple of M ndarrays of shape (n_m, r)
    shared : ndarray of shape (n, r)
    mixing : tuple of M ndarrays of shape (r, r)
    history : tuple of CompletionStep
        Objective, and its mean relative decrease over the last ten iterations.
    """

    own: tuple[Floats, ...]
    shared: Floats
    mixing: tuple[Floats, ...]
    history: tuple[CompletionStep, ...]


class LatentObjective:
    """The objective (1) as a function of one vector; arguments as in `solve_latent_factors`."""

    def __init__(
        self,
        K: Kernel,
        observed: Bools,
        rank: int,
        coupling: float,
        ridge: float,
        lam: float,
        sizes: Floats,
    ) -> None:
        self.present = [np.flatnonzero(column) for column in observed.T]
        self.known = [
            k[np.ix_(o, o)].astype(np.float64) / size
            for k, o, size in zip(K, self.present, sizes, strict=True)
        ]
        self.coupling, self.ridge, self.lam = coupling, ridge, lam
        shapes = [(len(o), rank) for o in self.present] + [(len(observed), rank)]
        self._shapes = shapes + [(rank, rank)] * len(K)
        self._ends = np.cumsum([rows * columns for rows, columns in self._shapes]).tolist()

    def split(self, x: Floats) -> tuple[list[Floats], Floats, list[Floats]]:
        """Return U, V and W, which share the memory of x."""
        parts = [
            x[end - rows * columns : end].reshape(rows, columns)
            for end, (rows, columns) in zip(self._ends, self._shapes, strict=True)
        ]
        M = len(self.present)
        return parts[:M], parts[M], parts[M + 1 :]

    def evaluate(self, x: Floats, gradient: Floats) -> float:
        """Write the gradient at x and return the value."""
        U, V, W = self.split(x)
        dU, dV, dW = self.split(gradient)
        value = self.ridge * float(np.vdot(V, V))
        np.multiply(V, 2 * self.ridge, out=dV)
        for m, o in enumerate(self.present):
            E = U[m] @ U[m].T - self.known[m]
            D = U[m] - V[o] @ W[m]
            value += float(np.vdot(E, E)) + self.coupling * float(np.vdot(D, D))
            D *= 2 * self.coupling
            dU[m][...] = 4 * E @ U[m] + D
            dV[o] -= D @ W[m].T
            dW[m][...] = -V[o].T @ D
            value += add_smoothed_norm(W[m], dW[m], self.lam, _SMOOTHING)
        return value

    def start(self, mean: Floats) -> Floats:
        """Return where to start from, given a kernel (n, n) of all samples."""
        x = np.empty(self._ends[-1])
        U, V, W = self.split(x)
        rank = V.shape[1]
        values, vectors = np.linalg.eigh(mean)
        values, vectors = values[::-1][:rank], vectors[:, ::-1][:, :rank]
        # eigenvectors of rounding would make the start depend on it
        V[...] = vectors * np.sqrt(np.where(values > _NEGLIGIBLE * values[0], values, 0.0))
        # the sign of an eigenvector means nothing
        V *= np.where(V.sum(axis=0) < 0, -1.0, 1.0)
        for u, w, o, known in zip(U, W, self.present, self.known, strict=True):
            inverse = np.linalg.pinv(V[o], rcond=np.sqrt(_NEGLIGIBLE) / 10)
            inner = inverse @ known @ inverse.T
            values, vectors = np.linalg.eigh((inner + inner.T) / 2)
            w[...] = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
            u[...] = V[o] @ w
        return x


def solve_latent_factors(
    K: Kernel,
    observed: Bools,
    rank: int = 10,
    *,
    coupling: float = 1.0,
    ridge: float = 0.1,
    lam: float = 0.1,
    sizes: Floats | None = None,
    tol: float = 1e-6,
    max_iter: int = 2000,
    on_step: OnStep = None,
) -> LatentFactors:
    """Minimise (1).

    Parameters
    ----------
    K : ndarray of shape (M, n, n)
        Symmetric. Entries of absent samples are not used.
    observed : ndarray of bool of shape (n, M)
        With a sample for every kernel.
    rank : int, default=10
        Rank r; at most n are used.
    coupling, ridge, lam : float
        The a, b and c of (1).
    sizes : ndarray of shape (M,), default=None
        Units in which the kernels are taken, by default 1.
    tol : float, default=1e-6
        Mean relative decrease of the objective by one iteration at which to stop.
    max_iter : int, default=2000
        Cap on the iterations.
    on_step : callable, optional
        Called with the number of every iteration and its CompletionStep.

    Returns
    -------
    LatentFactors
        The factors of each kernel and those in common.

    Examples
    --------
    >>> import kernelquilt as kq
    >>> stack = kq.datasets.make_toy_kernels("TOYG1", 30, random_state=0)
    >>> stack = kq.datasets.make_absent(stack, 0.3, random_state=0)
    >>> found = kq.completion.solve_latent_factors(stack.gram(), stack.observed, 5, tol=1e-4)
    >>> found.shared.shape, found.own[0].shape
    ((30, 5), (25, 5))
    """
    sizes = np.ones(len(K)) if sizes is None else sizes
    rank = min(rank, len(observed))
    objective = LatentObjective(K, observed, rank, coupling, ridge, lam, sizes)
    mean = np.zeros(K.shape[1:])
    for kernel in transferred(K, observed, sizes):
        mean += kernel / len(K)
    descent = LBFGS(objective.evaluate, objective.start(mean))
    history = History(on_step)
    values = [descent.value]
    for number in range(1, max_iter + 1):
        moved = descent.step()
        values = [*values[-_ROUND:], descent.value]
        decrease = (values[0] - values[-1]) / _ROUND / max(abs(values[-1]), 1e-300)
        decrease = (decrease if number >= _ROUND else np.inf) if moved else 0.0
        history.record(descent.value, decrease)
        if decrease <= tol:
            break
    U, V, W = objective.split(descent.x)
    return LatentFactors(tuple(U), V, tuple(W), tuple(history))


class LatentFactorCompletion(BaseCompleter):
    """Complete kernels from latent factors, of which some are shared by the views.

    MLFS-like: a maximum a posteriori version of a method of the literature, for comparison. The
    output keeps all observed entries, is positive semi-definite and has unit diagonal where the
    input has. The kernels count in units of their mean diagonals. `SharedFactorCompletion` is
    the simpler model, and usually the better one. The objective is not convex: samples or kernels
    in another order, or in single precision, may end in another of its minima, with entries that
    differ by some hundredths.

    Parameters
    ----------
    rank : int, default=10
        Number of factors.
    coupling : float, default=1.0
        How strongly the factors of the views are tied to the shared ones.
    ridge : float, default=0.1
        Weight of the squared shared factors.
    lam : float, default=0.1
        Weight of the norms that let a view do without some of the shared factors.
    tol : float, default=1e-6
        Mean relative decrease of the objective by one iteration at which to stop.
    max_iter : int, default=2000
        Cap on the iterations.
    verbose : int, default=0
        Whether to print the progress of the solver.

    Attributes
    ----------
    factors_ : ndarray of shape (n, rank)
        The shared factors of the training samples that have any kernel.
    factor_norms_ : ndarray of shape (M, rank)
        How much each view uses each of them; zero for views that no sample has.
    undetermined_ : ndarray of bool of shape (n_train, n_train)
        Pairs of training samples that no view observes together.
    n_iter_ : int
        Number of iterations.
    converged_ : bool
        Whether `tol` was met.
    history_ : tuple of CompletionStep
        Objective and its mean relative decrease, by iteration.
    training_rows_ : TrainingRows
        The training samples.
    n_features_in_ : int
        Number of kernels.

    Examples
    --------
    >>> import kernelquilt as kq
    >>> X, y = kq.datasets.load_example("wdbc")
    >>> stack = kq.ViewKernels().fit_transform(X)[:60]
    >>> stack = kq.datasets.make_absent(stack, 0.3, random_state=0)
    >>> bool(kq.completion.LatentFactorCompletion(5).fit_transform(stack).observed.all())
    True
    """

    _arrays = (3.0, 5.0)
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **Iterations.constraints,
        "rank": [Interval(Integral, 1, None, closed="left")],
        "coupling": [Interval(Real, 0, np.inf, closed="neither")],
        "ridge": [Interval(Real, 0, np.inf, closed="neither")],
        "lam": [Interval(Real, 0, np.inf, closed="left")],
    }
    _iterations = Iterations("mean relative decrease of the objective")

    def __init__(
        self,
        rank: int = 10,
        *,
        coupling: float = 1.0,
        ridge: float = 0.1,
        lam: float = 0.1,
        tol: float = 1e-6,
        max_iter: int = 2000,
        verbose: int = 0,
    ) -> None:
        self.rank = rank
        self.coupling = coupling
        self.ridge = ridge
        self.lam = lam
        self.tol = tol
        self.max_iter = max_iter
        self.verbose = verbose

    def _complete(self, K: Kernel, observed: Bools) -> None:
        self._warn_little_known(observed)
        self._scaled = scaled = ScaledKernels.of(K, observed)
        found = solve_latent_factors(
            scaled.kernels,
            observed,
            self.rank,
            coupling=self.coupling,
            ridge=self.ridge,
            lam=self.lam,
            **self._iterations.options(self),
        )
        self.factors_ = found.shared
        seen = np.asarray(self.training_rows_.observed.any(axis=0))
        self.factor_norms_ = np.zeros((len(seen), found.shared.shape[1]))
        self.factor_norms_[seen] = [np.linalg.norm(W, axis=1) for W in found.mixing]
        coefs = []
        for kernel, U, W, o in zip(
            scaled.kernels, found.own, found.mixing, observed.T, strict=True
        ):
            left = kernel.diagonal()[o].mean() - (U**2).sum() / len(U)
            # x in (2) by an r x r system
            inner = U.T @ U + max(float(left), _LEAST) * np.eye(U.shape[1])
            coefs.append(found.shared[~o] @ W @ np.linalg.solve(inner, U.T))
        self._learned = LearnedCombinations.complete(scaled, coefs)
        scaled.write(K)
        self.undetermined_ = undetermined_pairs(self.training_rows_.observed)
        self._iterations.store(self, found.history)

    def _complete_rows(self, K: Kernel, observed: Bools, diag: Floats | None) -> Floats | None:
        return self._scaled.complete_rows(K, observed, diag, self._learned.complete_rows)
