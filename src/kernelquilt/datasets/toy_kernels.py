"""Synthetic kernels of which some follow from others, to try completion on."""

import numpy as np
from numpy.random import RandomState
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.utils import check_random_state

from kernelquilt.data.stack import KernelStack

_N_BASIS = 10
_DIMENSIONS = (5, 5, 10, 10, 10)
_SHARED = (0, 0, 1, 1, 1)  # views with the same number have the same mixing coefficients
# for each view the width of its Gaussian kernel, None if it is linear
_WIDTHS: dict[str, tuple[float | None, ...]] = {
    "TOYL": (None,) * 5,
    "TOYG5": (5.0,) * 5,
    "TOYG1": (1.0,) * 5,
    "TOYG0.1": (0.1,) * 5,
    "TOYLG5": (None, None, None, 5.0, 5.0),
    "TOYLG1": (None, None, None, 1.0, 1.0),
    "TOYLG0.1": (None, None, None, 0.1, 0.1),
}


def make_toy_kernels(
    kind: str = "TOYG1",
    n_samples: int = 100,
    *,
    random_state: int | RandomState | None = None,
) -> KernelStack:
    """Make the five kernels of the synthetic data of Bhadra, Kaski and Rousu.

    Every view has 10 basis points, uniform in [-1, 1]^5 for views 1 and 2 and in [-1, 1]^10 for
    views 3 to 5. The other samples are mixtures of these, with coefficients uniform in [0, 1] that
    views 1 and 2 share, and views 3 to 5. So the views form two groups, within which one tells much
    about another. Kernels have unit diagonal.

    Parameters
    ----------
    kind : {"TOYL", "TOYG5", "TOYG1", "TOYG0.1", "TOYLG5", "TOYLG1", "TOYLG0.1"}, default="TOYG1"
        L: linear kernels. G: Gaussian kernels exp(-d^2 / (2 w^2)) of the width w that follows.
        LG: linear for views 1 to 3, Gaussian for views 4 and 5. Kernels of width 0.1 are nearly
        diagonal: there is nothing to learn about them.
    n_samples : int, default=100
        At least 10; the basis points come first.
    random_state : int, RandomState instance or None, default=None
        For all that is drawn.

    Returns
    -------
    stack : KernelStack of shape (n_samples, 5)
        Complete; `make_absent` makes views absent.

    Notes
    -----
    The recipe of "Multi-view kernel completion", Machine Learning 2017, which leaves open how
    widths enter, and the range of the coefficients. The kernels that were published with the
    paper differ from it: they have 50 samples, linear kernels of rank 5, and other groups.

    Examples
    --------
    >>> from kernelquilt.datasets import make_toy_kernels
    >>> make_toy_kernels("TOYLG1", 50, random_state=0).shape
    (50, 5)
    """
    if kind not in _WIDTHS:
        raise ValueError(f"kind must be one of {', '.join(_WIDTHS)}, got {kind!r}")
    if n_samples < _N_BASIS:
        raise ValueError(f"n_samples must be at least {_N_BASIS}, got {n_samples}")
    rng = check_random_state(random_state)
    bases = [rng.uniform(-1, 1, size=(_N_BASIS, d)) for d in _DIMENSIONS]
    mixing = [rng.uniform(size=(n_samples - _N_BASIS, _N_BASIS)) for _ in range(2)]
    K = np.empty((len(bases), n_samples, n_samples))
    for kernel, basis, group, width in zip(K, bases, _SHARED, _WIDTHS[kind], strict=True):
        X = np.vstack([basis, mixing[group] @ basis])
        if width is None:
            X /= np.linalg.norm(X, axis=1, keepdims=True)
            kernel[:] = X @ X.T
        else:
            kernel[:] = np.exp(-euclidean_distances(X, squared=True) / (2 * width**2))
        kernel[:] = (kernel + kernel.T) / 2
        np.fill_diagonal(kernel, 1.0)
    return KernelStack(K, names=[f"view_{v + 1}" for v in range(len(bases))])
