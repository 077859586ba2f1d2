"""Completing kernels with convex combinations of each other: a semi-definite programme.

With I_m the samples that have kernel m and S (M, M), rows on the simplex and zero on the diagonal,

    min_{X, S}  sum_m |(X_m - K_m)_{I_m, I_m}|^2 + lam1 sum_m |X_m - sum_l s_ml X_l|^2
                + r sum_m |X_m|^2    subject to  X_m positive semi-definite,    (1)

problem (22) of Bhadra, Kaski and Rousu, "Multi-view kernel completion", Machine Learning 2017,
where r = 0. Without r, entries at pairs of samples that no kernel observes together would be free,
as a common shift of them costs nothing; a tiny r lets them tend to zero, and the completer tells
which they are.

For fixed S (1) is convex. With B = I - S across the kernels and E_m the difference on I_m x I_m,

    gradient 2 (E + lam1 B'B X + r X),    L = 2 (1 + lam1 |B'B| + r),

accelerated projected gradient takes steps of length 1/L and cuts negative eigenvalues off, without
momentum whenever the objective would rise with it. S is set to its minimiser, least squares on the
simplex, every ten steps.

The completed kernels keep the observed entries. With v the samples that have the kernel and h
the others, X_m is taken for the model of which samples go together: absent samples get the features

    phi(t) = sum_{i in v} a_i phi(x_i),    a = (X_vv + delta I)^-1 X_vt    (2)

and the rest as in `kernelquilt.completion.combination`.

| symbol | code |
|---|---|
| K_m, I_m | ``K[m]``, ``observed[:, m]`` |
| X_m | ``kernels[m]`` |
| S | ``between`` |
"""

from numbers import Real
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
from kernelquilt.completion.scaled_kernels import ScaledKernels
from kernelquilt.completion.transfer_regression import transferred
from kernelquilt.core.weights.sets import simplex_least_squares

_ROUND = 10  # steps between updates of S, and over which progress is averaged
_NEGLIGIBLE = 1e-3  # share of the squared entries below which a value counts as that much
_DELTA = 1e-2  # in units of the kernels; less is no better


class SDPKernels(NamedTuple):
    """The solution of (1).

    Attributes
    ----------
    kernels : ndarray of shape (M, n, n)
        X.
    between : ndarray of shape (M, M)
        S.
    history : tuple of CompletionStep
        Objective, and its mean relative decrease over the last ten steps.
    """

    kernels: Floats
    between: Floats
    history: tuple[CompletionStep, ...]


def solve_sdp(
    K: Kernel,
    observed: Bools,
    *,
    lam1: float = 0.1,
    ridge: float = 1e-8,
    between: Floats | None = None,
    sizes: Floats | None = None,
    tol: float = 1e-8,
    max_iter: int = 2000,
    on_step: OnStep = None,
) -> SDPKernels:
    """Solve (1), from the kernels of `TransferFill`.

    Parameters
    ----------
    K : ndarray of shape (M, n, n)
        Symmetric. Entries of absent samples are not used.
    observed : ndarray of bool of shape (n, M)
        With a sample for every kernel.
    lam1 : float, default=0.1
        Weight of the agreement between kernels.
    ridge : float, default=1e-8
        The r of (1).
    between : ndarray of shape (M, M), default=None
        S if it is fixed, in which case the problem is convex; by default it is learned.
    sizes : ndarray of shape (M,), default=None
        Units in which the kernels are taken, by default 1.
    tol : float, default=1e-8
        Mean relative decrease of the objective by one step at which to stop.
    max_iter : int, default=2000
        Cap on the steps.
    on_step : callable, optional
        Called with the number of every step and its CompletionStep.

    Returns
    -------
    SDPKernels
        The completed kernels and the weights between them.

    Examples
    --------
    >>> import kernelquilt as kq
    >>> stack = kq.datasets.make_toy_kernels("TOYG1", 30, random_state=0)
    >>> stack = kq.datasets.make_absent(stack, 0.3, random_state=0)
    >>> found = kq.completion.solve_sdp(stack.gram(), stack.observed, tol=1e-4)
    >>> found.kernels.shape, found.between.shape
    ((5, 30, 30), (5, 5))
    """
    M = len(K)
    X = np.empty(K.shape)
    for x, kernel in zip(X, transferred(K, observed, sizes), strict=True):
        x[...] = kernel
    pairs = (observed[:, None] & observed).transpose(2, 0, 1)
    target = X * pairs
    S = _combinations(X) if between is None else np.asarray(between, dtype=np.float64)
    lam1 = lam1 if M > 1 else 0.0

    def coupling() -> Floats:
        B = np.eye(M) - S
        return np.asarray(lam1 * B.T @ B + ridge * np.eye(M))

    def evaluate(at: Floats) -> tuple[float, Floats]:
        """Return the value and half the gradient."""
        half = (Q @ at.reshape(M, -1)).reshape(at.shape)
        E = np.where(pairs, at - target, 0.0)
        value = float(np.vdot(at, half)) + float(np.vdot(E, E))
        half += E
        return value, half

    history = History(on_step)
    # where everything can be fitted the value itself tends to zero
    least = max(_NEGLIGIBLE * float(np.vdot(target, target)), 1e-300)
    Q = coupling()
    step = 1 / (1 + float(np.linalg.norm(Q, 2)))
    value, half = evaluate(X)
    before, half_before, momentum = X, half, 1.0
    values = [value]
    for number in range(1, max_iter + 1):
        ahead_momentum = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        share = (momentum - 1) / ahead_momentum
        # the gradient is linear, that ahead follows from the last two
        ahead = (1 + share) * (X - step * half) - share * (before - step * half_before)
        trial = _positive(ahead)
        new, new_half = evaluate(trial)
        if new > value:
            trial, ahead_momentum = _positive(X - step * half), 1.0
            new, new_half = evaluate(trial)
        if new <= value:
            before, half_before, X, half, value = X, half, trial, new_half, new
        momentum = ahead_momentum
        if between is None and number % _ROUND == 0:
            S = _combinations(X)
            Q = coupling()
            step = 1 / (1 + float(np.linalg.norm(Q, 2)))
            value, half = evaluate(X)
            half_before = evaluate(before)[1]
        values = [*values[-_ROUND:], value]
        size = max(abs(value), least)
        decrease = (values[0] - value) / _ROUND / size if number >= _ROUND else np.inf
        history.record(value, decrease)
        if decrease <= tol:
            break
    return SDPKernels(X, S, tuple(history))


def _combinations(X: Floats) -> Floats:
    """Return S that minimises (1) for kernels X (M, n, n)."""
    flat = X.reshape(len(X), -1)
    gram = flat @ flat.T
    if len(X) == 1:
        return np.zeros((1, 1))
    return np.array([simplex_least_squares(gram, m) for m in range(len(X))])


def _positive(X: Floats) -> Floats:
    """Cut the negative eigenvalues off symmetric kernels (M, n, n), in place."""
    for x, values, vectors in zip(X, *np.linalg.eigh(X), strict=True):
        negative = int(np.searchsorted(values, 0.0))
        # from the fewer eigenvectors
        if 2 * negative > len(values):
            root = vectors[:, negative:] * np.sqrt(values[negative:])
            np.matmul(root, root.T, out=x)
        else:
            root = vectors[:, :negative] * np.sqrt(-values[:negative])
            x += root @ root.T
    return X


class SDPCompletion(BaseCompleter):
    """Complete kernels so that each is close to a convex combination of the others.

    The method MKC_sdp of Bhadra, Kaski and Rousu, by accelerated projected gradient: it has one
    parameter and, for given weights between the kernels, one solution. Of the methods of that
    paper it was the most dependable one in our comparisons; `WishartCompletion` was better in
    nearly all, and faster. The output keeps all observed entries, is positive semi-definite and
    has unit diagonal where the input has. The kernels count in units of their mean diagonals.

    Parameters
    ----------
    lam1 : float, default=0.1
        Weight of the agreement between kernels, against the observed entries.
    tol : float, default=1e-8
        Mean relative decrease of the objective by one step at which to stop.
    max_iter : int, default=2000
        Cap on the steps.
    verbose : int, default=0
        Whether to print the progress of the solver.

    Attributes
    ----------
    between_weights_ : ndarray of shape (M, M)
        S: how each kernel is made up of the others.
    undetermined_ : ndarray of bool of shape (n_train, n_train)
        Pairs of training samples that no kernel observes together, for which the programme has
        no preference but the ridge.
    n_iter_ : int
        Number of steps.
    converged_ : bool
        Whether `tol` was met.
    history_ : tuple of CompletionStep
        Objective and its mean relative decrease, by step.
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
    >>> bool(kq.completion.SDPCompletion().fit_transform(stack).observed.all())
    True
    """

    _arrays = (12.5, 2.0)
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **Iterations.constraints,
        "lam1": [Interval(Real, 0, np.inf, closed="left")],
    }
    _iterations = Iterations("mean relative decrease of the objective")

    def __init__(
        self, lam1: float = 0.1, *, tol: float = 1e-8, max_iter: int = 2000, verbose: int = 0
    ) -> None:
        self.lam1 = lam1
        self.tol = tol
        self.max_iter = max_iter
        self.verbose = verbose

    def _complete(self, K: Kernel, observed: Bools) -> None:
        self._warn_little_known(observed)
        self._scaled = scaled = ScaledKernels.of(K, observed)
        options = self._iterations.options(self)
        found = solve_sdp(scaled.kernels, observed, lam1=self.lam1, **options)
        coefs = []
        for X, present in zip(found.kernels, observed.T, strict=True):
            inner = X[np.ix_(present, present)] + _DELTA * np.eye(int(present.sum()))
            coefs.append(np.linalg.solve(inner, X[np.ix_(present, ~present)]).T)
        self._learned = LearnedCombinations.complete(scaled, coefs, found.between)
        scaled.write(K)
        self.between_weights_ = self._of_all_kernels(found.between)
        self.undetermined_ = undetermined_pairs(self.training_rows_.observed)
        self._iterations.store(self, found.history)

    def _complete_rows(self, K: Kernel, observed: Bools, diag: Floats | None) -> Floats | None:
        return self._scaled.complete_rows(K, observed, diag, self._learned.complete_rows)
