"""Where multi-view kernel completion starts.

Weights A_m (b_m, n) of the basis samples B_m in all samples, for the views m of
`kernelquilt.completion.literature.mkc.objectives`:

- observed samples stand for themselves, or, outside of the basis, for their projection on it,
  (K_m[B, B] + delta I)^-1 K_m[B, t]; samples that may have no weight in themselves for what the
  others of the view make of them by ridge regression;
- absent samples: "transfer" has the coefficients of `kernelquilt.completion.transfer`, projected in
  the same way, "identity" zeros, and "random" numbers between -1 and 1, as in the paper.

Weights shared by all views start, for samples with an absent view, from the ridge regression
on the other samples in the sum of the kernels that they have.
"""

import numpy as np

from kernelquilt._typing import Bools, Floats, Indices, Kernel
from kernelquilt.completion.linalg import inverse_of
from kernelquilt.completion.transfer_regression import Transfer

_DELTA = 1e-6
_EPS = 0.1


def draw_basis(observed: Bools, n_basis: int | None, rng: np.random.RandomState) -> list[Indices]:
    """Return the basis of each view: what it observes of a random choice of samples.

    Parameters
    ----------
    observed : ndarray of bool of shape (n, M)
    n_basis : int or None
        How many samples are drawn, at least; more if a view would be left without. None is all.
    rng : RandomState
    """
    present = [np.flatnonzero(column) for column in observed.T]
    if n_basis is None:
        return present
    order = rng.permutation(len(observed))
    first = max(int(np.argmax(observed[order, m])) for m in range(observed.shape[1]))
    chosen = np.zeros(len(observed), dtype=bool)
    chosen[order[: max(n_basis, first + 1)]] = True
    return [o[chosen[o]] for o in present]


def own_start(
    K: Kernel,
    observed: Bools,
    basis: list[Indices],
    transfer: Transfer,
    *,
    init: str,
    self_weights: bool,
    rng: np.random.RandomState,
) -> list[Floats]:
    """Return weights (b_m, n) of each view to start from.

    Parameters
    ----------
    K, observed, basis, self_weights
        As in `solve_embedding`.
    transfer : Transfer
    init : {"transfer", "identity", "random"}
    rng : RandomState
    """
    starts = []
    incomplete = np.asarray(~observed.all(axis=1))
    for m, (kernel, o, b) in enumerate(zip(K, observed.T, basis, strict=True)):
        own = np.eye(int(o.sum()))
        if not self_weights:
            G = transfer.sources[m].inverse
            left_out = np.flatnonzero(incomplete[o])
            own[:, left_out] = -G[:, left_out] / G.diagonal()[left_out]
            own[left_out, left_out] = 0.0
        absent = np.zeros((len(own), int((~o).sum())))
        if init == "transfer":
            absent = transfer.coefficients(K, observed, m)[0].T
        start = np.empty((len(b), len(o)))
        start[:, o], start[:, ~o] = _projected(kernel, o, b, own), _projected(kernel, o, b, absent)
        if init == "random":
            start[:, ~o] = rng.uniform(-1, 1, size=(len(b), absent.shape[1]))
        starts.append(start)
    return starts


def _projected(kernel: Kernel, present: Bools, basis: Indices, A: Floats) -> Floats:
    """Return the weights (b, k) of the basis that are nearest to weights A (n_m, k) of all."""
    if len(basis) == len(A):
        return A
    inner = kernel[np.ix_(basis, basis)].astype(np.float64)
    inner[np.diag_indices(len(inner))] += _DELTA * np.trace(inner) / len(inner) or 1.0
    product = kernel[np.ix_(basis, np.flatnonzero(present))].astype(np.float64) @ A
    return np.asarray(np.linalg.solve(inner, product), dtype=np.float64)


def shared_start(
    K: Kernel,
    observed: Bools,
    basis: list[Indices],
    sizes: Floats,
    *,
    init: str,
    self_weights: bool,
    rng: np.random.RandomState,
) -> Floats:
    """Return weights (b, n) shared by all views to start from, b the size of all bases together.

    Parameters
    ----------
    K, observed, basis, sizes, init, self_weights, rng
        As in `own_start` and `solve_embedding`.
    """
    rows, n = np.unique(np.concatenate(basis)), len(observed)
    start = np.zeros((len(rows), n))
    start[np.arange(len(rows)), rows] = 1.0
    incomplete = np.asarray(~observed.all(axis=1))
    if init == "random":
        start[:, incomplete] = rng.uniform(-1, 1, size=(len(rows), int(incomplete.sum())))
        return start
    if init == "identity" and self_weights:
        return start
    inside = np.isin(np.arange(n), rows)
    patterns, which = np.unique(observed, axis=0, return_inverse=True)
    for number, pattern in enumerate(patterns):
        samples = np.flatnonzero(which.ravel() == number)
        total = np.zeros((len(rows), n))
        for m in np.flatnonzero(pattern):
            o = np.flatnonzero(observed[:, m])
            at, shared = np.flatnonzero(observed[rows, m]), rows[observed[rows, m]]
            total[np.ix_(at, o)] += K[m][np.ix_(shared, o)] / sizes[m]
        G = inverse_of(total[:, rows] + _EPS * pattern.sum() * np.eye(len(rows)))
        outside = samples[~inside[samples]]
        start[:, outside] = G @ total[:, outside]
        left_out = samples[inside[samples] & incomplete[samples]]
        at = np.searchsorted(rows, left_out)
        start[:, left_out] = -G[:, at] / G.diagonal()[at]
        start[at, left_out] = 0.0
    return start
