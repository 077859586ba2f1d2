"""Filling absent samples with a constant feature vector: zero, or the mean.

With phi_p the feature map of kernel p and o the n_p training samples that have it, an absent
sample gets phi_p(x) = 0 or phi_p(x) = sum_{i in o} phi_p(x_i) / n_p, so that

    K_p <- B K_oo B',    B = identity rows for o, rows of 0 or of 1/n_p for the others,

which is positive semi-definite if the observed block K_oo is. (Replacing entries by row means and
keeping the old diagonal is not.) On kernels that are centred over their observed samples the two
are the same. The baselines ZF and MF of Liu et al., "Absent Multiple Kernel Learning Algorithms",
TPAMI 2020.

| symbol | code |
|---|---|
| K_p | ``K[p]``, zero where absent |
| row of the mean, B K_oo 1/n_p | ``rows[p]`` |
| squared norm of the mean | ``norms[p]`` |
"""

import numpy as np

from kernelquilt._typing import Bools, Floats, Kernel
from kernelquilt.completion.completer import BaseCompleter


class ZeroFill(BaseCompleter):
    """Let absent samples be zero in the feature space of a kernel.

    The classifiers treat absent kernels as zero anyway. Use it to make that explicit, or where a
    method takes complete kernels only; if the kernels are centred it is the same as `MeanFill`.

    Attributes
    ----------
    training_rows_ : TrainingRows
        The training samples.
    n_features_in_ : int
        Number of kernels.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelquilt.data import KernelStack
    >>> from kernelquilt.completion import ZeroFill
    >>> stack = KernelStack([[[2.0, 7.0], [7.0, 9.0]], np.eye(2)], [[True, True], [False, True]])
    >>> ZeroFill().fit_transform(stack).gram()[0].tolist()
    [[2.0, 0.0], [0.0, 0.0]]
    """

    _empty_get = "zero in every kernel"

    def _complete(self, K: Kernel, observed: Bools) -> None:
        """Leave the kernels, which are zero where absent."""

    def _complete_rows(self, K: Kernel, observed: Bools, diag: Floats | None) -> Floats | None:
        return diag

    def _empty_weights(self, observed: Bools) -> Floats:
        return np.zeros(observed.T.shape)


class MeanFill(BaseCompleter):
    """Give absent samples the mean feature vector of the training samples that have the kernel.

    The simplest completion, and hard to beat when samples tell little about each other's absent
    kernels. Followed by `SimpleMKLClassifier` it is the MF-MKL of the literature.

    Attributes
    ----------
    means_ : ndarray of shape (M, n_train)
        Similarity of the mean of each observed kernel with the training samples that have any.
    mean_norms_ : ndarray of shape (M,)
        Similarity of these means with themselves.
    training_rows_ : TrainingRows
        The training samples.
    n_features_in_ : int
        Number of kernels.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelquilt.data import KernelStack
    >>> from kernelquilt.completion import MeanFill
    >>> observed = [[True, True], [True, True], [False, True]]
    >>> stack = KernelStack([np.diag([2.0, 4.0, 0.0]), np.eye(3)], observed)
    >>> MeanFill().fit_transform(stack).gram()[0].tolist()
    [[2.0, 0.0, 1.0], [0.0, 4.0, 2.0], [1.0, 2.0, 1.5]]
    """

    def _complete(self, K: Kernel, observed: Bools) -> None:
        self.means_ = np.empty((len(K), len(observed)))
        self.mean_norms_ = np.empty(len(K))
        for m, (kernel, present) in enumerate(zip(K, observed.T, strict=True)):
            rows = kernel.sum(axis=0, dtype=np.float64) / present.sum()
            self.mean_norms_[m] = rows.sum() / present.sum()
            self.means_[m] = np.where(present, rows, self.mean_norms_[m])
            kernel[~present] = self.means_[m]
            kernel[:, ~present] = self.means_[m][:, None]

    def _complete_rows(self, K: Kernel, observed: Bools, diag: Floats | None) -> Floats | None:
        for kernel, present, columns, mean in zip(
            K, observed.T, self._known_observed().T, self.means_, strict=True
        ):
            to_mean = kernel.sum(axis=1, dtype=np.float64) / columns.sum()
            kernel[:, ~columns] = to_mean[:, None]
            kernel[~present] = mean
        return None if diag is None else np.where(observed.T, diag, self.mean_norms_[:, None])
