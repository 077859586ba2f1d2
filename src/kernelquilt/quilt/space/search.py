"""Penalties of ridge regression on many samples, of which a few are tried.

All eigenvectors of a kernel serve every penalty, but cost as much as nine penalties one by one. The
error of many samples falls towards the best penalty and rises behind it: going down from where some
of the samples have theirs takes about three. Errors in single precision tell which of them is the
best, in half of the time; what is returned is of double precision.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import numpy as np
from scipy.linalg import get_lapack_funcs

from kernelquilt._typing import Floats, Numbers

MANY = 1000  # samples above which penalties are searched
FEW = 700  # of the samples, which tell where to start
CLOSE = 1e-4  # relative difference of errors that single precision does not tell
SAFE = 2e-5  # least penalty, in units of the trace, at which it tells larger ones

Found = TypeVar("Found")


def least_near(
    rough: Callable[[int], float | None],
    exact: Callable[[int], tuple[float, Found]],
    count: int,
    start: int,
) -> tuple[int, Found]:
    """Go down from a start to an error that is not above those of its neighbours.

    Parameters
    ----------
    rough : callable
        From the place of a penalty in ascending order to its error up to `CLOSE`, None if that is
        not known.
    exact : callable
        To the error itself, and anything.
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
    known: dict[int, Found] = {}

    def settle(place: int) -> None:
        errors[place], known[place] = exact(place)

    def look_at(place: int) -> None:
        error = rough(place)
        if error is None:
            settle(place)
        else:
            errors[place] = error

    look_at(start)
    while True:
        best = min(errors, key=lambda place: errors[place])
        # the penalty grows with the samples, so that the best is more often above the start
        near = [place for place in (best + 1, best - 1) if 0 <= place < count]
        unseen = [place for place in near if place not in errors]
        if unseen:
            look_at(unseen[0])
            continue
        limit = (1.0 + CLOSE) * errors[best]
        doubtful = [k for k in (best, *near) if k not in known and errors[k] <= limit]
        if not doubtful:
            return best, known[best]
        settle(doubtful[0])


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


def leave_out(
    A: Numbers, Y: Floats, lam: float, held_out: Floats | None, space: Numbers
) -> LeftOut | None:
    """Solve ridge regression at one penalty; None if the matrix is not positive definite.

    Parameters
    ----------
    A : ndarray of shape (n, n)
        Kernel, symmetric, whose precision is that of the solution.
    Y : ndarray of shape (n, c)
        Targets.
    lam : float
        Positive penalty.
    held_out : ndarray of shape (n,) or None
        Share of a sample that is left out, 1 by default.
    space : ndarray like A
        For its factor; memory that is used again need not be mapped again.

    Returns
    -------
    LeftOut or None
    """
    potrf, potrs, trtri = get_lapack_funcs(("potrf", "potrs", "trtri"), (A,))
    np.copyto(space, A)
    space[np.diag_indices(len(A))] += lam
    # the transpose of a C-ordered array is what LAPACK takes without a copy
    factor, failed = potrf(space.T, lower=1, clean=1, overwrite_a=1)
    if failed:
        return None
    coef = potrs(factor, Y, lower=1)[0].astype(np.float64)
    inverse = trtri(factor, lower=1, overwrite_c=1)[0].T
    free = lam * np.einsum("ij,ij->i", inverse, inverse).astype(np.float64)  # 1 - h
    if held_out is not None:
        free = 1.0 - held_out * (1.0 - free)
    residuals = lam * coef / free[:, None]
    return LeftOut(coef, free, float(np.square(residuals).sum()))
