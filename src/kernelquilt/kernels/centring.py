"""The centre and the size of a kernel, over the training samples that have it.

With weights w of sum one, zero for samples without the kernel, centring takes the weighted mean of
the feature vectors away from all of them:

    k(a, b) - sum_j w_j k(a, x_j) - sum_i w_i k(x_i, b) + sum_ij w_i w_j k(x_i, x_j).
"""

from typing import NamedTuple

import numpy as np

from kernelquilt._typing import Bools, Floats, Kernel, Numbers


def mean_diagonal(diag: Kernel, weight: Floats | None = None) -> float:
    """Return the weighted mean of a diagonal (n,), 1 if it is not positive and thus no scale."""
    mean = float(np.average(diag.astype(np.float64, copy=False), weights=weight))
    return mean if mean > 0 else 1.0


class Centring(NamedTuple):
    """How a kernel is centred over the samples that have it.

    Attributes
    ----------
    share : ndarray of shape (n,)
        Weight of each training sample in the means, zero if it lacks the kernel; sum one.
    columns : ndarray of shape (n,)
        Mean similarity of each training sample.
    overall : float
        Mean similarity.
    """

    share: Floats
    columns: Floats
    overall: float

    @classmethod
    def of(cls, kernel: Numbers, present: Bools, copies: Floats | float = 1.0) -> "Centring":
        """Take the means of a training kernel (n, n), zero where absent.

        Parameters
        ----------
        kernel : ndarray of shape (n, n)
        present : ndarray of bool of shape (n,)
            The samples that have the kernel.
        copies : ndarray of shape (n,), default=1
            As how many copies each of them counts.
        """
        share = np.where(present, copies, 0.0)
        share /= share.sum() or 1.0
        columns = np.asarray(share @ kernel, dtype=np.float64)
        return cls(share, columns, float(columns @ share))

    def centre(
        self, kernel: Numbers, diag: Floats | None = None, out: Floats | None = None
    ) -> tuple[Floats, Floats | None]:
        """Return centred rows (n_rows, n) against the training samples, and their diagonal.

        Parameters
        ----------
        kernel : ndarray of shape (n_rows, n)
            Zero where absent; there the result may hold anything finite.
        diag : ndarray of shape (n_rows,), default=None
            Similarity of each row with itself, if it is known.
        out : ndarray of shape (n_rows, n), default=None
            Where to write the rows, `kernel` itself if it may be overwritten.
        """
        # a row by itself: BLAS sums in another order where there is one row only
        rows = np.einsum("ij,j->i", kernel, self.share)
        centred = np.subtract(kernel, rows[:, None], out=out)
        centred -= self.columns
        centred += self.overall
        return centred, None if diag is None else diag - 2 * rows + self.overall
