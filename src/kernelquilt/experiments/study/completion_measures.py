"""How different and how non-linear kernels are, by their eigenvalues.

With l_m1 >= l_m2 >= ... the eigenvalues of kernel m of M, of n samples,

    heterogeneity = mean over pairs m < k of 1/n sum_i (l_mi - l_ki)^2,    (1)
    nonlinearity = mean over m of l_m,20,    (2)

the axes of Figure 4 of Bhadra, Kaski and Rousu, "Multi-view kernel completion", Machine Learning
2017, whose Figure 2 shows the eigenvalues themselves. Both grow with n, so that only values of as
many samples can be compared; the kernels have unit diagonal.
"""

from itertools import combinations

import numpy as np

from kernelquilt._typing import Floats

RANK = 20  # of the eigenvalue in (2)


def spectra(K: Floats) -> Floats:
    """Return the eigenvalues of kernels, the largest first.

    Parameters
    ----------
    K : ndarray of shape (M, n, n)
        Symmetric.

    Returns
    -------
    values : ndarray of shape (M, n)
    """
    return np.asarray(np.linalg.eigvalsh(K)[:, ::-1])


def heterogeneity(values: Floats) -> float:
    """Return the mean squared difference of the eigenvalues of all pairs of kernels, (1).

    Parameters
    ----------
    values : ndarray of shape (M, n)
        From `spectra`, with M >= 2.

    Returns
    -------
    heterogeneity : float
    """
    return float(np.mean([np.mean((a - b) ** 2) for a, b in combinations(values, 2)]))


def nonlinearity(values: Floats) -> float:
    """Return the mean of the 20th eigenvalues of the kernels, (2).

    Parameters
    ----------
    values : ndarray of shape (M, n)
        From `spectra`, with n >= 20.

    Returns
    -------
    nonlinearity : float
        About zero if all kernels have less than 20 dimensions, and 1 if all are the identity.
    """
    return float(values[:, RANK - 1].mean())
