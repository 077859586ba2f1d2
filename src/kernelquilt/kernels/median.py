"""The median over pairs of samples."""

import numpy as np

from kernelquilt._typing import Floats


def pair_median(D: Floats, weight: Floats | None = None) -> float:
    """Return the lower median of the entries of D over all ordered pairs of samples.

    A sample makes a pair with itself, and a pair counts as the product of two weights: repeating a
    sample is then the same as raising its weight.

    Parameters
    ----------
    D : ndarray of shape (n, n)
        Not negative.
    weight : ndarray of shape (n,), optional
        Weights of the samples, 1 by default.

    Returns
    -------
    median : float
        If the median is zero, the mean, and if that is zero too, 1.0.
    """
    if weight is None or (weight == weight[0]).all():
        middle = (D.size + 1) // 2 - 1
        median = float(np.partition(D, middle, axis=None)[middle])
        mean = D.mean()
    else:
        order = np.argsort(D, axis=None)
        total = np.cumsum(np.outer(weight, weight).ravel()[order])
        median = float(D.ravel()[order[np.searchsorted(total, 0.5 * total[-1])]])
        mean = weight @ D @ weight / total[-1]
    return median or float(mean) or 1.0
