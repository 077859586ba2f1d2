"""Penalties of ridge regression on many samples, of which a few are tried.

All eigenvectors of a kernel serve every penalty, but cost as much as nine penalties one by one. The
error of many samples falls towards the best penalty and rises behind it: going down from where some
of the samples have theirs takes about three.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs, dtrtri

from kernelquilt._typing import Floats

MANY = 1000  # samples above which penalties are searched
FEW = 700  # of the samples, which tell where to start

Found = TypeVar("Found")


def least_near(
    tried: Callable[[int], tuple[float, Found]], count: int, start: int
) -> tuple[int, Found]:
    """Go down from a start to an error that is not above those of its neighbours.

    Parameters
    ----------
    tried : callable
        From the place of a penalty in ascending order to its error, and anything.
    count : int
        Number of penalties.
    start : int
        Place to begin with.

    Returns
    -------
    place : int
        Of the least error.
    found : object
        What came with it.
    """
    errors: dict[int, float] = {}
    waiting = [start]
    while waiting:
        place = waiting[0]
        errors[place], made = tried(place)
        if errors[place] <= min(errors.values()):
            best, found = place, made
        waiting = [k for k in (best - 1, best + 1) if 0 <= k < count and k not in errors]
    return best, found


class LeftOut(NamedTuple):
    """A ridge regression at one penalty.

    Attributes
    ----------
    coef : ndarray of shape (n, c)
        ``(A + lam I)^-1 Y``.
    free : ndarray of shape (n,)
        What residuals are divided by when samples are left out.
    error : float
        Sum of the squares of these quotients.
    """

    coef: Floats
    free: Floats
    error: float


def leave_out(A: Floats, Y: Floats, lam: float, held_out: Floats | None) -> LeftOut | None:
    """Solve ridge regression at one penalty; None if the matrix is not positive definite.

    Parameters
    ----------
    A : ndarray of shape (n, n)
        Kernel, symmetric.
    Y : ndarray of shape (n, c)
        Targets.
    lam : float
        Positive penalty.
    held_out : ndarray of shape (n,) or None
        Share of a sample that is left out, 1 by default.

    Returns
    -------
    LeftOut or None
    """
    shifted = A.copy()
    shifted[np.diag_indices(len(A))] += lam
    # the transpose of a C-ordered array is what LAPACK takes without a copy
    factor, failed = dpotrf(shifted.T, lower=1, clean=1, overwrite_a=1)
    if failed:
        return None
    coef = dpotrs(factor, Y, lower=1)[0]
    inverse = dtrtri(factor, lower=1, overwrite_c=1)[0].T
    free = lam * np.einsum("ij,ij->i", inverse, inverse)  # 1 - h
    if held_out is not None:
        free = 1.0 - held_out * (1.0 - free)
    residuals = lam * coef / free[:, None]
    return LeftOut(coef, free, float(np.square(residuals).sum()))
