"""The regressions of the transfer between kernels.

Equations are those of `kernelquilt.completion.transfer`.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from kernelquilt._typing import Bools, Floats, Kernel
from kernelquilt.completion.combination import Combination
from kernelquilt.completion.linalg import (
    block,
    inverse_of,
    left_out_metric,
    restricted_inverse,
    restricted_solve,
)
from kernelquilt.kernels.centring import mean_diagonal

_LEAST_SHARED = 5  # samples from which a leave-one-out error is trusted
_SCORES = (0.001, 0.99)
_RIDGES = (0.01, 0.03, 0.1, 0.3, 1.0)


class Source(NamedTuple):
    """A kernel from which others are predicted.

    Attributes
    ----------
    present : ndarray of bool of shape (n,)
        The n_l samples that have it.
    inverse : ndarray of shape (n_l, n_l)
        That of the kernel on them with constant and ridge.
    constant : float
        c, in units of the kernel.
    """

    present: Bools
    inverse: Floats
    constant: float


@dataclass(frozen=True)
class Transfer:
    """What (1) needs: the kernels to predict from, and their weights.

    Attributes
    ----------
    sources : tuple of M Source
    weights : ndarray of shape (M, M)
        om_pl in row p, zero where l does not serve.
    scores : ndarray of shape (M, M) or None
        R2_pl, nan where l does not serve; None if the weights are equal.
    fallback : Transfer or None
        What serves where no kernel of `weights` does.
    """

    sources: tuple[Source, ...]
    weights: Floats
    scores: Floats | None = None
    fallback: "Transfer | None" = None

    def weighted(self, between: Floats) -> "Transfer":
        """Return (1) with other weights (M, M), where these serve."""
        return replace(self, weights=between * (self.weights > 0), fallback=self)

    def coefficients(self, K: Kernel, observed: Bools, p: int) -> tuple[Floats, Bools]:
        """Return (1) for the rows that lack kernel p.

        Parameters
        ----------
        K : ndarray of shape (M, n_rows, n)
            Rows against the training samples; entries between observed samples are used.
        observed : ndarray of bool of shape (n_rows, M)
        p : int

        Returns
        -------
        coef : ndarray of shape (n_absent_rows, n_p)
        served : ndarray of bool of shape (n_absent_rows,)
            False where no kernel serves, and the mean is returned.
        """
        rows = np.flatnonzero(~observed[:, p])
        target = self.sources[p].present
        coef, total = np.zeros((len(rows), target.sum())), np.zeros(len(rows))
        for l in np.flatnonzero(self.weights[p]):
            source, having = self.sources[l], observed[rows, l]
            if not having.any():
                continue
            shared = target & source.present
            known = K[l][rows[having]][:, shared].T + source.constant
            found = restricted_solve(source.inverse, shared[source.present], known)
            coef[np.ix_(having, shared[target])] += self.weights[p, l] * found.T
            total[having] += self.weights[p, l]
        served = total > 0
        coef[served] /= total[served, None]
        coef[~served] = 1 / target.sum()
        if self.fallback is not None and not served.all():
            again = rows[~served]
            coef[~served], served[~served] = self.fallback.coefficients(
                K[:, again], observed[again], p
            )
        return coef, served


def solve_transfer(
    K: Kernel,
    observed: Bools,
    *,
    eps: float = 0.1,
    constant: float = 1.0,
    weighting: str = "uniform",
) -> Transfer:
    """Prepare (1) and, for leave-one-out weights, evaluate (2), for every pair of kernels.

    Parameters
    ----------
    K : ndarray of shape (M, n, n)
        Symmetric; entries of absent samples are not used.
    observed : ndarray of bool of shape (n, M)
        With a sample for every kernel.
    eps, constant : float
        Ridge and constant kernel, in units of the mean diagonal of each kernel.
    weighting : {"uniform", "loo"}, default="uniform"

    Returns
    -------
    Transfer
        What kernels are predicted from, with which weights.

    Examples
    --------
    >>> import kernelquilt as kq
    >>> stack = kq.datasets.make_toy_kernels("TOYG1", 30, random_state=0)
    >>> stack = kq.datasets.make_absent(stack, 0.3, random_state=0)
    >>> transfer = kq.completion.solve_transfer(stack.gram(), stack.observed, weighting="loo")
    >>> transfer.scores.shape
    (5, 5)
    """
    sources = []
    for l, (kernel, present) in enumerate(zip(K, observed.T, strict=True)):
        known = block(kernel, present, present).astype(np.float64)
        size = mean_diagonal(known.diagonal())
        known += constant * size
        known[np.diag_indices(len(known))] += eps * size
        try:
            inverse = inverse_of(known)
        except np.linalg.LinAlgError:
            raise np.linalg.LinAlgError(
                f"kernel number {l} is not positive semi-definite on its {len(known)} samples, "
                f"nor with {eps:g} times its mean diagonal added to the diagonal; repair it first "
                "(KernelStack.check_psd() says by how much it fails)"
            ) from None
        sources.append(Source(present, inverse, constant * size))
    if weighting == "uniform":
        shared = observed.T.astype(float) @ observed
        weights = (shared > 0).astype(float)
        np.fill_diagonal(weights, 0.0)
        return Transfer(tuple(sources), weights)
    scores = np.column_stack([_scores_of(K, observed, l, s) for l, s in enumerate(sources)])
    clipped = np.clip(np.nan_to_num(scores), *_SCORES)
    weights = np.where(np.isnan(scores), 0.0, clipped / (1 - clipped))
    return Transfer(tuple(sources), weights, scores)


def transferred(K: Kernel, observed: Bools, sizes: Floats | None = None) -> Iterator[Floats]:
    """Yield kernels (M, n, n) completed by (1), each (n, n) in units of `sizes` (M,) or 1."""
    transfer = solve_transfer(K, observed)
    for p, (kernel, present) in enumerate(zip(K, observed.T, strict=True)):
        completed = kernel.astype(np.float64)
        if sizes is not None:
            completed /= sizes[p]
        Combination.complete(completed, present, transfer.coefficients(K, observed, p)[0])
        yield completed


def _scores_of(K: Kernel, observed: Bools, l: int, source: Source) -> Floats:
    """Return (2) for the prediction of every kernel (M,) from kernel l."""
    scores = np.full(len(K), np.nan)
    shared = observed & source.present[:, None]
    workspace = np.empty((2, source.inverse.size))
    # kernels that the same samples have share what is expensive
    patterns, which = np.unique(shared.T, axis=0, return_inverse=True)
    for number, pattern in enumerate(patterns):
        targets = np.flatnonzero(which.ravel() == number)
        targets = targets[targets != l]
        if pattern.sum() < _LEAST_SHARED or len(targets) == 0:
            continue
        R = restricted_inverse(source.inverse, pattern[source.present])
        metric = left_out_metric(R, workspace)
        for p in targets:
            known = block(K[p], pattern, pattern)
            size = np.trace(known, dtype=np.float64)
            scores[p] = 1 - np.vdot(known, metric) / size if size > 0 else 0.0
    return scores


class Refinement(NamedTuple):
    """What (3) needs for one kernel.

    Attributes
    ----------
    weights : ndarray of shape (M,)
        Of the kernels in Q, in units of each.
    constant, eps : float
    inverse : ndarray of shape (n_p, n_p)
    """

    weights: Floats
    constant: float
    eps: float
    inverse: Floats

    @classmethod
    def of(
        cls, K: Kernel, present: Bools, weights: Floats, p: int, constant: float
    ) -> "Refinement":
        """Choose eps for kernel p from completed kernels K (M, n, n)."""
        Q = block(_combined(K, weights), present, present)
        size = mean_diagonal(Q.diagonal())
        Q = Q / size + constant
        known = block(K[p], present, present)
        best, found = np.inf, None
        diagonal, workspace = Q.diagonal().copy(), np.empty((2, Q.size))
        for eps in _RIDGES:
            np.fill_diagonal(Q, diagonal + eps)
            try:
                inverse = inverse_of(Q)
            except np.linalg.LinAlgError:
                # kernels that are not quite positive semi-definite need the larger ones
                continue
            error = float(np.vdot(known, left_out_metric(inverse, workspace)))
            if found is None or error < best:
                best, found = error, cls(weights / size, constant, eps, inverse)
        if found is None:
            raise np.linalg.LinAlgError("the completed kernels are not positive semi-definite")
        return found

    def coefficients(self, K: Kernel, rows: Bools, present: Bools) -> Floats:
        """Return (3) for the chosen rows of completed kernels K (M, n_rows, n)."""
        if not rows.any():
            return np.empty((0, len(self.inverse)))
        Q = block(_combined(K, self.weights), rows, present)
        return np.asarray((Q + self.constant) @ self.inverse)


def _combined(K: Kernel, weights: Floats) -> Floats:
    """Return the weighted sum of kernels (M, r, c)."""
    return np.asarray(np.tensordot(weights.astype(K.dtype), K, axes=1), dtype=np.float64)
