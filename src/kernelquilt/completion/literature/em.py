"""Filling absent entries with their expectation under a Gaussian over the kernels.

Every pair i <= j of training samples is one vector x_ij = (K_1(i, j), ..., K_M(i, j)) of one
Gaussian, missing where s_ip s_jp = 0. Mean and covariance are fitted by EM, with the conditional
covariances and a ridge (see `kernelquilt.completion.literature.normal_with_missing`), after each
kernel was brought to mean 0 and variance 1 over its observed pairs. Then

1. missing entries get their conditional means given the other kernels of the same pair, pairs of
   which nothing is observed the mean;
2. each kernel is projected to the nearest positive semi-definite matrix;
3. kernels whose diagonal is 1 where it is observed are scaled to have it everywhere,
   k(a, b) / sqrt(k(a, a) k(b, b)).

New rows take the same three steps with the fitted Gaussian, the projector of step 2 and the
diagonal of step 3, so that the rows of training samples come out as in training. The baseline EM of
Liu et al., "Absent Multiple Kernel Learning Algorithms", TPAMI 2020, whose text leaves open which
vectors are Gaussian.

| symbol | code |
|---|---|
| K_p | ``K[p]``, zero where absent |
| s_ip | ``observed[i, p]`` |
| x_ij | a row of ``X`` |
"""

from numbers import Real
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.utils._param_validation import Interval

from kernelquilt._typing import Bools, Floats, Indices, Kernel
from kernelquilt.completion.completer import BaseCompleter
from kernelquilt.completion.iterations import CompletionStep, History, Iterations, OnStep
from kernelquilt.completion.literature.normal_with_missing import (
    NormalWithMissing,
    Patterns,
    fit_normal,
)
from kernelquilt.completion.scaled_kernels import has_unit_diagonal, known_diagonal
from kernelquilt.core.psd import PositivePart

_TINY = 1e-12
_ENTRIES = 2**23  # entries of all kernels held at a time while rows are completed


class PairNormal(NamedTuple):
    """The Gaussian of the entries of M kernels at a pair of samples, and how it was found.

    Attributes
    ----------
    mean : ndarray of shape (M,)
    covariance : ndarray of shape (M, M)
    history : tuple of CompletionStep
        Mean penalised log likelihood of the standardised entries of a pair, and its increase by
        one EM step.
    """

    mean: Floats
    covariance: Floats
    history: tuple[CompletionStep, ...]


def solve_em_fill(
    K: Kernel,
    observed: Bools,
    *,
    ridge: float = 1e-6,
    tol: float = 1e-5,
    max_iter: int = 1000,
    on_step: OnStep = None,
) -> PairNormal:
    """Fit one Gaussian to the pairs of samples, seen as vectors over the kernels.

    Parameters
    ----------
    K : ndarray of shape (M, n, n)
        Symmetric; entries of absent samples are not used.
    observed : ndarray of bool of shape (n, M)
        With a sample for every kernel.
    ridge : float, default=1e-6
        Added to the covariance of the standardised entries.
    tol : float, default=1e-5
        Increase of the mean log likelihood of a pair by one EM step at which to stop.
    max_iter : int, default=1000
        Cap on the iterations, of three EM steps each.
    on_step : callable, optional
        Called with the number of every iteration and its CompletionStep.

    Returns
    -------
    PairNormal
        Mean and covariance of the Gaussian, and the iterations.

    Examples
    --------
    >>> import kernelquilt as kq
    >>> stack = kq.datasets.make_toy_kernels("TOYG1", 30, random_state=0)
    >>> stack = kq.datasets.make_absent(stack, 0.3, random_state=0)
    >>> normal = kq.completion.solve_em_fill(stack.gram(), stack.observed)
    >>> normal.mean.shape, normal.covariance.shape
    ((5,), (5, 5))
    """
    i, j = np.triu_indices(len(observed))
    patterns = Patterns.of_pairs(observed, observed, i, j).without_empty()
    i, j = i[patterns.order], j[patterns.order]
    X = np.empty((len(i), len(K)))
    centre, spread = np.empty(len(K)), np.empty(len(K))
    for m, (kernel, present) in enumerate(zip(K, observed.T, strict=True)):
        seen = present[i] & present[j]
        entries = kernel[i, j].astype(np.float64)
        centre[m] = entries[seen].mean()
        deviation = entries[seen].std()
        # the entries of a constant kernel differ by rounding at most
        spread[m] = deviation if deviation > 1e-12 * abs(centre[m]) else 1.0
        X[:, m] = np.where(seen, (entries - centre[m]) / spread[m], 0.0)
    history = History(on_step)
    found = fit_normal(X, patterns, ridge=ridge, tol=tol, max_iter=max_iter, record=history.record)
    return PairNormal(
        centre + spread * found.mean, spread[:, None] * found.covariance * spread, tuple(history)
    )


class EMFill(BaseCompleter):
    """Fill absent entries of a kernel with what the other kernels of the same pair let expect.

    Use it when kernels resemble each other entry by entry, as kernels of several widths do. What
    is filled in need not fit together and is projected to a positive semi-definite kernel, so
    that observed entries change a little as well.

    Parameters
    ----------
    ridge : float, default=1e-6
        Added to the covariance of the entries, each kernel in units of its own variance.
    tol : float, default=1e-5
        Increase of the mean log likelihood of a pair of samples by one EM step at which to stop.
    max_iter : int, default=1000
        Cap on the iterations, of three EM steps each.
    verbose : int, default=0
        Whether to print the progress of the solver.

    Attributes
    ----------
    mean_ : ndarray of shape (M,)
        Mean of the entries of each kernel that is observed at all.
    covariance_ : ndarray of shape (M, M)
        Their covariance.
    n_iter_ : int
        Number of iterations.
    converged_ : bool
        Whether `tol` was met.
    history_ : tuple of CompletionStep
        Log likelihood and its increase, by iteration.
    training_rows_ : TrainingRows
        The training samples.
    n_features_in_ : int
        Number of kernels.

    Examples
    --------
    >>> import kernelquilt as kq
    >>> X, y = kq.datasets.load_example("wdbc")
    >>> stack = kq.ViewKernels(kq.gaussian_bank(3, 0.5, 2)).fit_transform(X)[:60]
    >>> stack = kq.datasets.make_absent(stack, 0.4, random_state=0)
    >>> bool(kq.completion.EMFill().fit_transform(stack).observed.all())
    True
    """

    _arrays = (3.5, 4.0)
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **Iterations.constraints,
        "ridge": [Interval(Real, 0, np.inf, closed="neither")],
    }
    _iterations = Iterations("increase of the log likelihood")

    def __init__(
        self, *, ridge: float = 1e-6, tol: float = 1e-5, max_iter: int = 1000, verbose: int = 0
    ) -> None:
        self.ridge = ridge
        self.tol = tol
        self.max_iter = max_iter
        self.verbose = verbose

    def _complete(self, K: Kernel, observed: Bools) -> None:
        self._check_sizes(K)
        found = solve_em_fill(K, observed, ridge=self.ridge, **self._iterations.options(self))
        self.mean_, self.covariance_ = found.mean, found.covariance
        n = len(observed)
        self._unit = np.array([has_unit_diagonal(k, s) for k, s in zip(K, observed.T, strict=True)])
        self._norms = np.ones((len(K), n))
        size = max(1, _ENTRIES // (n * len(K)))
        for start in range(0, n, size):
            # a part of the upper triangle, mirrored
            rows = np.arange(start, min(start + size, n))
            i, j = np.nonzero(np.arange(n) >= rows[:, None])
            filled = self._expected(K[:, rows[i], j], observed, observed, rows[i], j)
            K[:, rows[i], j] = filled
            K[:, j, rows[i]] = filled
        self._parts: list[PositivePart | None] = []
        for kernel, unit, norms in zip(K, self._unit, self._norms, strict=True):
            self._parts.append(part := PositivePart.of(kernel))
            if part is not None:
                kernel[...] = part.matrix()
            if unit:
                norms[:] = np.sqrt(np.maximum(kernel.diagonal(), _TINY))
                kernel /= norms[:, None] * norms
        self._iterations.store(self, found.history)

    def _complete_rows(self, K: Kernel, observed: Bools, diag: Floats | None) -> Floats | None:
        n_rows, n = K.shape[1:]
        columns = self._known_observed()
        size = max(1, _ENTRIES // (n * len(K)))
        for start in range(0, n_rows, size):
            rows = slice(start, min(start + size, n_rows))
            i, j = (index.ravel() for index in np.indices((rows.stop - start, n)))
            filled = self._expected(K[:, rows].reshape(len(K), -1), observed[rows], columns, i, j)
            K[:, rows] = filled.reshape(len(K), -1, n)
        known = observed if diag is not None else observed & self._unit
        own = np.ones((len(K), n_rows)) if diag is None else diag
        each = np.arange(n_rows)
        own = np.maximum(self._expected(own, known, known, each, each), 0.0)
        for kernel, unit, part, norms, lengths in zip(
            K, self._unit, self._parts, self._norms, own, strict=True
        ):
            if part is not None:
                kernel[...], lengths[:] = part.rows(kernel.astype(np.float64), lengths)
            if unit:
                # no similarity above 1 may come out
                np.maximum(lengths, ((kernel / norms) ** 2).max(axis=1), out=lengths)
                lengths[:] = np.maximum(lengths, _TINY)
                kernel /= np.sqrt(lengths)[:, None] * norms
                lengths[:] = 1.0
        return known_diagonal(own, diag, self._unit)

    def _expected(
        self, entries: Kernel, rows: Bools, columns: Bools, i: Indices, j: Indices
    ) -> Floats:
        """Replace the missing ones of the entries (M, N) at the pairs (i, j) of samples."""
        X = np.ascontiguousarray(entries.T, dtype=np.float64)
        patterns = Patterns.of_pairs(rows, columns, i, j)
        means = NormalWithMissing(self.mean_, self.covariance_).complete(X, patterns)
        return np.where((rows[i] & columns[j]), X, means).T
