"""What predicts the features of one view from those of others."""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from kernelquilt._typing import Floats, Indices, Numbers
from kernelquilt.kernels.landmark_features import Features


class Similarities:
    """Features of views, and their products with those of training samples, each made once.

    Parameters
    ----------
    features : list of M ndarrays of shape (..., D_p)
    """

    def __init__(self, features: Features) -> None:
        self.features = features
        self._made: dict[int, Floats] = {}

    def with_training(self, training: Features) -> Floats:
        """Return the products with n training samples.

        Parameters
        ----------
        training : Features of n samples

        Returns
        -------
        products : ndarray of shape (M, k, n) or (m, M, k, n)
            Of features (k, D_p) or (m, k, D_p).
        """
        if id(training) not in self._made:
            outer = self.features[0].shape[:-1]
            made = np.empty((len(training), *outer, len(training[0])))
            for out, z, each in zip(made, self.features, training, strict=True):
                times(z, each.T, out)
            self._made[id(training)] = np.moveaxis(made, 0, -3)
        return self._made[id(training)]


class PairMap(Protocol):
    """What predicts the features of one view, from those of others."""

    def of(self, Z: Features) -> Floats:
        """Return predictions (n_rows, D_p) from the features of samples that have what it needs."""

    @property
    def shares(self) -> dict[int, float]:
        """The L views that it needs, and what their pieces are multiplied by."""

    def pieces(self, known: Similarities, *rows: Indices, right: Floats | None = None) -> Floats:
        """Return what each view adds to the predictions, divided by its share.

        Parameters
        ----------
        known : Similarities
        *rows : one or two ndarrays of int
            Which features to take, by each axis but the last.
        right : ndarray of shape (D_p, e), optional
            What predictions are multiplied by.

        Returns
        -------
        pieces : ndarray of shape (L, k, D_p or e), or (m, L, k, D_p or e)
            Of k rows, or m and k.
        """


@dataclass(frozen=True)
class ByFeatures:
    """A map from features, the sum over views l of ``Z_l W_l``."""

    maps: dict[int, Floats]

    def of(self, Z: Features) -> Floats:
        """Return predictions, as in `PairMap`."""
        return np.asarray(sum(Z[l] @ W for l, W in self.maps.items()))

    @property
    def shares(self) -> dict[int, float]:
        """The views that it needs, as in `PairMap`."""
        return dict.fromkeys(self.maps, 1.0)

    def pieces(self, known: Similarities, *rows: Indices, right: Floats | None = None) -> Floats:
        """Return what each view adds, as in `PairMap`."""
        chosen = np.ix_(*rows)
        parts = [
            times(known.features[l][chosen], W if right is None else W @ right)
            for l, W in self.maps.items()
        ]
        return np.stack(parts, axis=-3)

    def __reduce__(self) -> Any:
        return ByFeatures._of_compact, ({l: compact(W) for l, W in self.maps.items()},)

    @staticmethod
    def _of_compact(maps: dict[int, Floats]) -> "ByFeatures":
        return ByFeatures({l: W.astype(np.float64) for l, W in maps.items()})


@dataclass(frozen=True)
class BySamples:
    """A map from similarities with training samples, of which there are fewer than features.

    Attributes
    ----------
    training : Features
        Of all training samples.
    rows : ndarray of int of shape (k,)
        Those it was learned from.
    shares : dict of int to float
        Factors of the similarities, by view.
    coef : ndarray of shape (k, D_p)
    """

    training: Features
    rows: Indices
    shares: dict[int, float]
    coef: Floats

    def of(self, Z: Features) -> Floats:
        """Return predictions, as in `PairMap`."""
        similar = sum(a * (Z[l] @ self.training[l][self.rows].T) for l, a in self.shares.items())
        return np.asarray(similar @ self.coef)

    def pieces(self, known: Similarities, *rows: Indices, right: Floats | None = None) -> Floats:
        """Return what each view adds, as in `PairMap`."""
        views = np.array(list(self.shares))
        similar = known.with_training(self.training)[np.ix_(*rows[:-1], views, rows[-1])]
        if len(self.rows) < similar.shape[-1]:
            similar = np.take(similar, self.rows, axis=-1)
        return times(similar, self.coef if right is None else self.coef @ right)


def times(features: Floats, right: Floats, out: Floats | None = None) -> Floats:
    """Return products (..., e) of features (..., D) with columns (D, e), as one large one."""
    shape = *features.shape[:-1], right.shape[1]
    flat = features.reshape(-1, features.shape[-1])
    into = None if out is None else out.reshape(-1, right.shape[1])
    return np.asarray(np.matmul(flat, right, out=into)).reshape(shape)


def rounded_map(each: PairMap) -> PairMap:
    """Return the same in single precision, if it is a map from features."""
    if isinstance(each, ByFeatures):
        return ByFeatures({l: rounded(W) for l, W in each.maps.items()})
    return each


def rounded(values: Floats) -> Floats:
    """Round to single precision, so that half of the bytes hold the same numbers (`compact`)."""
    return values.astype(np.float32).astype(np.float64)


def compact(values: Floats) -> Numbers:
    """Return numbers in single precision if none changes."""
    single = values.astype(np.float32)
    return single if np.array_equal(single, values) else values
