"""Inputs of gates: standardised columns of views, or a kernel-PCA embedding of a stack.

Both are fitted to the training samples, with their weights, so that every feature has mean 0 and
variance 1 there. What is absent never enters: a feature of an absent view is 0, the mean of the
training samples, and the embedding uses the kernels that observe a sample.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.linalg import eigh

from kernelquilt._typing import Bools, Floats, Numbers
from kernelquilt.data.stack import KernelStack
from kernelquilt.data.views import MultiView
from kernelquilt.kernels.centring import Centring

CONSTANT = 1e-10  # spread of a column relative to its mean, below which it is rounding
LOWEST_EIGENVALUE = 1e-6  # relative to the largest, below which a component is rounding


@dataclass(frozen=True)
class ViewFeatures:
    """The standardised columns of views, side by side.

    Attributes
    ----------
    mean, scale : dict of str to ndarray of shape (n_columns,)
        Statistics by view of the training samples that have it; the scale of columns that do not
        vary among them is infinite, so that their feature is 0 for every sample.
    coef : ndarray of shape (n_train, 0)
        As in `KernelFeatures`: no kernel is needed.
    """

    mean: dict[str, Floats]
    scale: dict[str, Floats]
    coef: Floats

    @classmethod
    def fit(cls, data: MultiView, weight: Floats) -> "ViewFeatures":
        """Take the statistics of training samples with weights (n_train,)."""
        mean, scale = {}, {}
        for name, present in zip(data.names, data.observed.T, strict=True):
            used = present & (weight > 0)
            block, share = data[name][used], weight[used] / max(weight[used].sum(), 1e-300)
            mean[name] = share @ block
            spread = np.sqrt(share @ (block - mean[name]) ** 2)
            scale[name] = np.where(spread > CONSTANT * np.abs(mean[name]), spread, np.inf)
        return cls(mean, scale, np.zeros((len(data), 0)))

    def of_samples(self, data: MultiView, projections: Floats | None = None) -> Floats:
        """Return the features of samples, shape (n, d)."""
        blocks = []
        for name, mean in self.mean.items():
            present = data.observed[:, data.names.index(name)]
            block = np.zeros((len(data), len(mean)))
            block[present] = (data[name][present] - mean) / self.scale[name]
            blocks.append(block)
        return np.hstack(blocks)


@dataclass(frozen=True)
class KernelFeatures:
    r"""Leading components of kernel PCA on the mean kernel.

    The mean is taken over the kernels that observe a sample, in a way that keeps it positive
    semi-definite: if there are :math:`o_i` of them,
    :math:`\bar K_{ij} = \sum_m K_m(i, j) / \sqrt{o_i o_j}`.

    Attributes
    ----------
    coef : ndarray of shape (n_train, d)
        What the sum of the used kernels with the training samples is multiplied by.
    offset : ndarray of shape (d,)
        What is added after division by the root of the number of kernels.
    used : ndarray of shape (M,), bool
        The kernels that training samples with weight have.
    """

    coef: Floats
    offset: Floats
    used: Bools

    @classmethod
    def fit(
        cls, K: Numbers, observed: Bools, weight: Floats, n_components: int
    ) -> "KernelFeatures":
        """Find the components of training samples with weights (n_train,)."""
        n = len(weight)
        used = np.asarray(observed[weight > 0].any(axis=0))
        root = _root_of_count(observed[:, used])
        mean = np.zeros((n, n))
        for m in np.flatnonzero(used):
            mean += K[m]
        mean /= root[:, None]
        mean /= root
        centring = Centring.of(mean, weight > 0, weight)
        share, centre = centring.share, centring.columns
        centred, _ = centring.centre(mean, out=mean)
        centred *= np.sqrt(share)[:, None]
        centred *= np.sqrt(share)
        values, vectors = eigh(
            centred.T,  # symmetric, and in the order in which LAPACK overwrites it
            subset_by_index=(max(0, n - n_components), n - 1),
            overwrite_a=True,
            check_finite=False,
        )
        kept = values > LOWEST_EIGENVALUE * max(values[-1], np.finfo(np.float64).tiny)
        values, vectors = values[kept][::-1], vectors[:, kept][:, ::-1]
        coef = np.sqrt(share)[:, None] * vectors / values
        # the sign of an eigenvector is arbitrary: make the farthest sample positive
        counted = share > 0
        scores = vectors[counted] / np.sqrt(share[counted])[:, None]
        coef *= np.sign(scores[np.abs(scores).argmax(axis=0), range(len(values))])
        coef -= share[:, None] * coef.sum(axis=0)
        return cls(coef / root[:, None], -(centre @ coef), used)

    def projections(self, K: Numbers) -> Floats:
        """Return the sum of the used kernels (M, n, n_train) times `coef`, shape (n, d)."""
        total = np.zeros((K.shape[1], self.coef.shape[1]))
        for m in np.flatnonzero(self.used):
            total += K[m] @ self.coef
        return total

    def of_samples(self, data: KernelStack, projections: Floats) -> Floats:
        """Return the features of samples with these projections, shape (n, d)."""
        observed = data.observed[:, self.used]
        features = projections / _root_of_count(observed)[:, None] + self.offset
        features[~observed.any(axis=1)] = 0.0
        return features


class GateInputs(NamedTuple):
    """What makes the inputs of gates, and those of the training samples, (n_train, d)."""

    features: ViewFeatures | KernelFeatures
    of_training: Floats


def _root_of_count(observed: Bools) -> Floats:
    return np.sqrt(np.maximum(observed.sum(axis=1), 1.0))
