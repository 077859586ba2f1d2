"""Approximating one kernel by the similarities of a few samples, chosen by a norm.

    min_A  |K - A' K A|^2 + lam |A|_{2,1},    (1)

where row i of A (n, n) holds the weights of sample i in all samples and |A|_{2,1} is the sum of the
norms of the rows, many of which vanish: problem (5) of Bhadra, Kaski and Rousu, "Multi-view kernel
completion", Machine Learning 2017. With B the samples whose rows do not vanish, K is approximated
by A_B' K_BB A_B, of rank |B| at most. For a given B the Nystroem approximation is one of these,
with A_B = K_BB^-1 K_B; since the error is minimised over all A_B, starting from that one, it is
never larger (Theorem 1).
"""

from typing import NamedTuple

import numpy as np

from kernelquilt._typing import Floats, Indices, Kernel
from kernelquilt.completion.iterations import CompletionStep, OnStep
from kernelquilt.completion.literature.mkc.embedding import solve_embedding


class SparseBasis(NamedTuple):
    """A low-rank approximation of a kernel.

    Attributes
    ----------
    basis : ndarray of int of shape (b,)
        The samples that remain.
    weights : ndarray of shape (b, n)
        Their weights in all samples.
    history : tuple of CompletionStep
        Objective, and its mean relative decrease over the last ten iterations.
    """

    basis: Indices
    weights: Floats
    history: tuple[CompletionStep, ...]

    def approximate(self, K: Kernel) -> Floats:
        """Return the approximation of the kernel K (n, n), of which rows of the basis are used."""
        inner = K[np.ix_(self.basis, self.basis)].astype(np.float64)
        return np.asarray(self.weights.T @ inner @ self.weights)


def sparse_basis(
    K: Kernel,
    lam: float = 0.1,
    *,
    basis: Indices | None = None,
    tol: float = 1e-6,
    max_iter: int = 2000,
    on_step: OnStep = None,
) -> SparseBasis:
    """Choose basis samples and their weights by (1), or weights for given basis samples.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        Symmetric and positive semi-definite.
    lam : float, default=0.1
        Weight of the norm; more makes the basis smaller. Without effect for a given basis.
    basis : array-like of int of shape (b,), default=None
        Basis samples, if they are given.
    tol : float, default=1e-6
        Mean relative decrease of the objective by one iteration at which to stop.
    max_iter : int, default=2000
        Cap on the iterations before the at most 50 exact proximal ones.
    on_step : callable, optional
        Called with the number of every iteration and its CompletionStep.

    Returns
    -------
    SparseBasis
        The basis samples and their weights.

    Examples
    --------
    >>> import numpy as np
    >>> import kernelquilt as kq
    >>> X = np.random.default_rng(0).normal(size=(40, 3))
    >>> K = X @ X.T
    >>> found = kq.completion.sparse_basis(K, 10.0)
    >>> len(found.basis) < 10, bool(np.abs(found.approximate(K) - K).max() < 0.5)
    (True, True)
    """
    n = len(K)
    rows, start = np.arange(n), np.asarray(np.eye(n))
    if basis is not None:
        rows = np.unique(np.asarray(basis, dtype=np.intp))
        inner = K[np.ix_(rows, rows)].astype(np.float64)
        inverse = np.linalg.pinv(inner, hermitian=True)
        start = np.asarray(inverse @ K[rows].astype(np.float64), dtype=np.float64)
    found = solve_embedding(
        K[None],
        np.ones((n, 1), dtype=bool),
        lam2=lam if basis is None else 0.0,
        basis=[rows],
        start=[start],
        tol=tol,
        max_iter=max_iter,
        on_step=on_step,
    )
    weights = found.weights[0]
    kept = weights.any(axis=1)
    return SparseBasis(rows[kept], weights[kept], found.history)
