"""Inputs of gates: standardised columns of views, or a kernel-PCA embedding of a stack.

Both are fitted to the training samples, with their weights, so that every feature has mean 0 and
variance 1 there. What is absent never enters: a feature of an absent view is 0, the mean of the
training samples, and the embedding uses the kernels that observe a sample.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from kernelquilt._validation import BoolArray
from kernelquilt.views import MultiView

Floats = NDArray[np.float64]

CONSTANT = 1e-10  # spread of a column relative to its mean, below which it is rounding
LOWEST_EIGENVALUE = 1e-6  # relative to the largest, below which a component is rounding


@dataclass(frozen=True)
class ViewFeatures:
    """The standardised columns of views, side by side.

    Attributes
    ----------
    names : tuple of str
        The views.
    mean, scale : dict of str to ndarray of shape (n_columns,)
        Statistics of the training samples that have the view; the scale of columns that do not
        vary among them is infinite, so that their feature is 0 for every sample.
    """

    names: tuple[str, ...]
    mean: dict[str, Floats]
    scale: dict[str, Floats]

    @classmethod
    def fit(cls, data: MultiView, weight: Floats) -> "ViewFeatures":
        """Take the statistics of training samples with weights (n,)."""
        mean, scale = {}, {}
        for name, present in zip(data.names, data.observed.T, strict=True):
            used = present & (weight > 0)
            block, share = data[name][used], weight[used] / max(weight[used].sum(), 1e-300)
            mean[name] = share @ block
            spread = np.sqrt(share @ (block - mean[name]) ** 2)
            varies = spread > CONSTANT * np.abs(mean[name])
            scale[name] = np.where(varies, spread, np.inf)
        return cls(data.names, mean, scale)

    def of_views(self, data: MultiView) -> Floats:
        """Return the features of samples, shape (n, d)."""
        blocks = []
        for name in self.names:
            present = data.observed[:, data.names.index(name)]
            block = np.zeros(data[name].shape)
            block[present] = (data[name][present] - self.mean[name]) / self.scale[name]
            blocks.append(block)
        return np.hstack(blocks)


@dataclass(frozen=True)
class KernelFeatures:
    r"""Leading components of kernel PCA on the mean kernel.

    The mean is taken over the kernels that observe a sample, in a way that keeps it positive
    semi-definite: with :math:`o_i` of them, :math:`\bar K_{ij} = \sum_m K_m(i, j) / \sqrt{o_i o_j}`.

    Attributes
    ----------
    coef : ndarray of shape (n_train, d)
        What the sum of the kernels of a sample with the training samples is multiplied by.
    offset : ndarray of shape (d,)
        What is added after division by the root of the number of its kernels.
    used : ndarray of shape (M,), bool
        The kernels that training samples have.
    """

    coef: Floats
    offset: Floats
    used: BoolArray

    @classmethod
    def fit(
        cls, K: NDArray[np.floating], observed: BoolArray, weight: Floats, n_components: int
    ) -> "KernelFeatures":
        """Find the components of training samples with weights (n,)."""
        n = len(weight)
        used = np.asarray(observed[weight > 0].any(axis=0))
        share = weight / weight.sum()
        root = _root_of_count(observed, used)
        mean_kernel = np.zeros((n, n))
        for m in np.flatnonzero(used):
            mean_kernel += K[m]
        mean_kernel /= root[:, None]
        mean_kernel /= root
        centre = share @ mean_kernel
        mean_kernel -= centre[:, None]
        mean_kernel -= centre
        mean_kernel += centre @ share
        mean_kernel *= np.sqrt(share)[:, None]
        mean_kernel *= np.sqrt(share)
        values, vectors = eigh(
            mean_kernel,
            subset_by_index=(max(0, n - n_components), n - 1),
            overwrite_a=True,
            check_finite=False,
        )
        kept = values > LOWEST_EIGENVALUE * max(values.max(), np.finfo(np.float64).tiny)
        values, vectors = values[kept][::-1], vectors[:, kept][:, ::-1]
        coef = np.sqrt(share)[:, None] * vectors / values
        # the sign of an eigenvector is arbitrary: make the farthest sample positive
        counted = share > 0
        scores = vectors[counted] / np.sqrt(share[counted])[:, None]
        coef *= np.sign(scores[np.abs(scores).argmax(axis=0), range(len(values))])
        coef -= share[:, None] * coef.sum(axis=0)
        return cls(coef / root[:, None], -(centre @ coef), used)

    def of_kernels(self, K: NDArray[np.floating], observed: BoolArray) -> Floats:
        """Return the features (n, d) of samples with kernels (M, n, n_train)."""
        projections = sum((K[m] @ self.coef for m in np.flatnonzero(self.used)), np.zeros(()))
        return self.of_projections(projections, observed)

    def of_projections(self, projections: Floats, observed: BoolArray) -> Floats:
        """Return the features (n, d) from the sum of the `used` kernels times `coef`."""
        features = projections / _root_of_count(observed, self.used)[:, None] + self.offset
        return np.where(observed[:, self.used].any(axis=1)[:, None], features, 0.0)


def _root_of_count(observed: BoolArray, used: BoolArray) -> Floats:
    return np.sqrt(np.maximum(observed[:, used].sum(axis=1), 1))
