"""How close kernels are to each other.

The error of a completed kernel Kh against the true K, over the samples t that lacked it, is the
average relative error of Bhadra, Kaski and Rousu, "Multi-view kernel completion", Machine Learning
2017, Eq. (34)::

    ARE = 100 / |T| sum_{t in T} |kh_t - k_t| / |k_t|,

with the whole rows k_t, then averaged over the kernels. (The code published with the paper squares
the ratio, and the paper's table agrees with that.)
"""

from typing import Any

import numpy as np

from kernelquilt._typing import Bools, Floats
from kernelquilt.data.containers import check_mask
from kernelquilt.data.stack import KernelStack
from kernelquilt.kernels.centring import Centring

__all__ = ["alignment", "average_relative_error"]


def average_relative_error(
    K_true: Any, K_completed: Any, observed: Any, *, squared: bool = False
) -> float:
    """Return the error of completed kernels in the rows that were absent, in per cent.

    Parameters
    ----------
    K_true, K_completed : KernelStack, or array-like of shape (M, n_rows, n_cols)
        The kernels as they are and as they were completed.
    observed : array-like of bool of shape (n_rows, M)
        Which rows were known; the others count.
    squared : bool, default=False
        Whether to average the squares of the relative errors instead.

    Returns
    -------
    error : float
        Mean over the kernels of which something was absent; nan if nothing was.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelquilt.metrics import average_relative_error
    >>> K = np.array([[[1.0, 0.0], [0.0, 2.0]]])
    >>> average_relative_error(K, 0.75 * K, [[True], [False]])
    25.0
    """
    true, completed = _kernels(K_true), _kernels(K_completed)
    if true.shape != completed.shape:
        raise ValueError(
            f"the kernels have shape {true.shape}, the completed ones {completed.shape}"
        )
    mask = check_mask(observed, (true.shape[1], len(true)), "kernels")
    errors = []
    for k, kh, present in zip(true, completed, mask.T, strict=True):
        if present.all():
            continue
        norms = np.linalg.norm(k[~present], axis=1)
        if not norms.all():
            raise ValueError(
                f"{(norms == 0).sum()} of {len(norms)} absent rows of a true kernel are zero, "
                "so that no relative error is defined"
            )
        ratios = np.linalg.norm(kh[~present] - k[~present], axis=1) / norms
        errors.append(100 * np.mean(ratios**2 if squared else ratios))
    return float(np.mean(errors)) if errors else float("nan")


def alignment(K: Any, target: Any, *, centred: bool = True) -> Floats:
    """Return the cosine of the angle between kernels and a target.

    Parameters
    ----------
    K : KernelStack, or array-like of shape (M, n, n) or (n, n)
        A kernel of a stack is compared on the samples that have it.
    target : array-like of shape (n, n) or (n,)
        Another kernel, or labels: their kernel is 1 between samples of the same class and 0
        between others.
    centred : bool, default=True
        Whether both are centred first, as Cortes, Mohri and Rostamizadeh, "Algorithms for
        learning kernels based on centered alignment", JMLR 2012, recommend.

    Returns
    -------
    alignment : ndarray of shape (M,)
        Between -1 and 1; nan for kernels that are zero, or constant if `centred`.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelquilt.metrics import alignment
    >>> y = np.array([0, 0, 1, 1])
    >>> alignment(np.array([np.eye(4), np.equal.outer(y, y)]), y).round(3).tolist()
    [0.577, 1.0]
    """
    other = np.asarray(target)
    if other.ndim == 1:
        other = np.equal.outer(other, other)
    observed: Bools | None = K.observed if isinstance(K, KernelStack) else None
    kernels = _kernels(K)
    if other.shape != kernels.shape[1:]:
        raise ValueError(f"the target has shape {other.shape}, the kernels {kernels.shape[1:]}")
    found = np.full(len(kernels), np.nan)
    for m, kernel in enumerate(kernels):
        a, b = kernel.astype(np.float64), other.astype(np.float64)
        if observed is not None:
            present = observed[:, m]
            a, b = a[present][:, present], b[present][:, present]
        if centred:
            a, b = _centred(a), _centred(b)
        norms = np.linalg.norm(a) * np.linalg.norm(b)
        if norms > 0:
            found[m] = np.clip(np.vdot(a, b) / norms, -1.0, 1.0)
    return found


def _kernels(K: Any) -> Floats:
    """Return kernels (M, n_rows, n_cols)."""
    kernels = K.gram() if isinstance(K, KernelStack) else np.asarray(K)
    if kernels.ndim == 2:
        kernels = kernels[None]
    if kernels.ndim != 3:
        raise ValueError(f"kernels have shape (M, n_rows, n_cols), got {kernels.shape}")
    return kernels


def _centred(K: Floats) -> Floats:
    """Centre a kernel (n, n) in its feature space; exactly zero if it is constant."""
    if len(K) == 0 or np.ptp(K) == 0:
        return np.zeros_like(K)
    return Centring.of(K, np.ones(len(K), dtype=bool)).centre(K)[0]
