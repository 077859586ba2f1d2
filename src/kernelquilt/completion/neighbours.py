"""Filling absent samples with the mean of their nearest neighbours.

The distance of two samples is the mean over the kernels that both have of

    d_p(s, t) = k_p(s, s) + k_p(t, t) - 2 k_p(s, t),    (1)

each kernel in units of its mean diagonal. A sample that lacks kernel p gets the mean feature
vector, perhaps weighted by 1 / distance, of the k samples nearest to it among those that have p.
The baselines Knn and wKnn of Bhadra, Kaski and Rousu, "Multi-view kernel completion", Machine
Learning 2017, in terms of kernels.

| symbol | code |
|---|---|
| mean of d_p, or inf | ``distances`` |
| k | ``n_neighbors`` |
"""

from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from kernelquilt._typing import Bools, Floats, Kernel
from kernelquilt.completion.combination import combine, combine_rows
from kernelquilt.completion.completer import BaseCompleter, warn_means
from kernelquilt.completion.scaled_kernels import UNIT_DIAGONAL, ScaledKernels


class KNNFill(BaseCompleter):
    """Give absent samples the mean of the nearest samples that have the kernel.

    The baseline of the literature. The output is positive semi-definite and keeps all observed
    entries.

    Parameters
    ----------
    n_neighbors : int, default=5
        Samples that are averaged; fewer where fewer share a kernel with the absent sample.
    weights : {"uniform", "distance"}, default="uniform"
        Whether they count equally, or by the inverse of their distance.
    unit_diagonal : {"auto", True, False}, default="auto"
        Whether completed samples have similarity 1 with themselves: "auto" in kernels in which
        observed samples have. True is an error if there is another kernel.

    Attributes
    ----------
    training_rows_ : TrainingRows
        The training samples.
    n_features_in_ : int
        Number of kernels.

    Notes
    -----
    Distances of new samples need their similarity with themselves. Where that is not known (a
    stack without `diag`) the mean of the training samples takes its place.

    Examples
    --------
    >>> import kernelquilt as kq
    >>> X, y = kq.datasets.load_example("wdbc")
    >>> stack = kq.ViewKernels().fit_transform(X)[:60]
    >>> stack = kq.datasets.make_absent(stack, 0.3, random_state=0)
    >>> bool(kq.completion.KNNFill().fit_transform(stack).observed.all())
    True
    """

    _arrays = (2.5, 4.0)
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **UNIT_DIAGONAL,
        "n_neighbors": [Interval(Integral, 1, None, closed="left")],
        "weights": [StrOptions({"uniform", "distance"})],
    }

    def __init__(
        self, n_neighbors: int = 5, *, weights: str = "uniform", unit_diagonal: bool | str = "auto"
    ) -> None:
        self.n_neighbors = n_neighbors
        self.weights = weights
        self.unit_diagonal = unit_diagonal

    def _complete(self, K: Kernel, observed: Bools) -> None:
        self._warn_few(observed)
        names = self._kernel_names()
        self._scaled = scaled = ScaledKernels.of(K, observed, self.unit_diagonal, names)
        Z = scaled.kernels
        self._diag = np.diagonal(Z, axis1=1, axis2=2) * observed.T
        coefs = self._coefficients(Z, observed, self._diag, "training samples")
        self._combinations = combine(Z, observed, coefs, scaled.unit, scaled.keys)
        scaled.write(K)

    def _complete_rows(self, K: Kernel, observed: Bools, diag: Floats | None) -> Floats | None:
        return self._scaled.complete_rows(K, observed, diag, self._complete_scaled)

    def _complete_scaled(self, Z: Floats, rows: Floats, observed: Bools, own: Floats) -> None:
        coefs = self._coefficients(rows, observed, own, "samples")
        combine_rows(self._combinations, Z, rows, observed, own, coefs)

    def _coefficients(self, rows: Floats, observed: Bools, own: Floats, what: str) -> list[Floats]:
        """Return for each kernel the weights (n_absent, n_p) of the samples that have it."""
        training = self._scaled.observed
        distances = self._distances(rows, observed, own, training)
        coefs, alone = [], {}
        for p, name in enumerate(self._kernel_names()):
            among = distances[~observed[:, p]][:, training[:, p]]
            coef = nearest_weights(among, self.n_neighbors, self.weights == "distance")
            without = ~coef.any(axis=1)
            coef[without] = 1 / training[:, p].sum()
            coefs.append(coef)
            alone[name] = int(without.sum())
        why = "share none with the training samples that have it"
        warn_means(alone, len(observed), what, why)
        return coefs

    def _distances(self, rows: Floats, observed: Bools, own: Floats, training: Bools) -> Floats:
        """Return the means (n_rows, n) of (1), inf where no kernel is shared."""
        total = np.zeros(rows.shape[1:])
        for kernel, present, columns, diag, others in zip(
            rows, observed.T, training.T, own, self._diag, strict=True
        ):
            d = np.maximum(diag[:, None] + others - 2.0 * kernel, 0.0)
            total += np.where(present[:, None] & columns, d, 0.0)
        shared = observed.astype(float) @ training.T
        total[shared == 0] = np.inf
        return total / np.maximum(shared, 1.0)


def nearest_weights(distances: Floats, k: int, by_distance: bool) -> Floats:
    """Return the weights of the k nearest in each row, which sum to 1.

    Parameters
    ----------
    distances : ndarray of shape (n_rows, n)
        Those that are inf do not count. Rows without any other get zero weights.
    k : int
    by_distance : bool
        Whether weights are in proportion to 1 / distance; those at distance 0 are alone then.

    Returns
    -------
    weights : ndarray of shape (n_rows, n)
    """
    weights = np.zeros_like(distances)
    if distances.size == 0:
        return weights
    nearest = np.argsort(distances, axis=1, kind="stable")[:, :k]
    chosen = np.take_along_axis(distances, nearest, axis=1)
    found = np.isfinite(chosen).astype(float)
    if by_distance:
        zero = chosen <= 0
        with np.errstate(divide="ignore"):
            found = np.where(zero.any(axis=1, keepdims=True), zero, 1 / chosen)
    total = found.sum(axis=1, keepdims=True)
    np.put_along_axis(weights, nearest, found / np.where(total > 0, total, 1.0), axis=1)
    return weights
