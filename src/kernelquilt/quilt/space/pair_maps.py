"""What predicts the features of one view from those of others."""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from kernelquilt._typing import Floats, Indices
from kernelquilt.quilt.space.maps import compact, rounded

Features = list[Floats]  # of M views, (n_rows, D_p) each, zero where absent


class Similarities:
    """Features of views, and their products with those of training samples, each made once.

    Parameters
    ----------
    features : list of M ndarrays of shape (..., D_p)
    """

    def __init__(self, features: Features) -> None:
        self.features = features
        self._made: dict[tuple[int, int], Floats] = {}

    def with_training(self, training: Features, l: int) -> Floats:
        """Return the products (..., n) of the features of view l with those of n samples."""
        key = id(training), l
        if key not in self._made:
            self._made[key] = times(self.features[l], training[l].T)
        return self._made[key]


class PairMap(Protocol):
    """What predicts the features of one view, from those of others."""

    def of(self, Z: Features) -> Floats:
        """Return predictions (n_rows, D_p) from the features of samples that have what it needs."""

    @property
    def views(self) -> list[int]:
        """The L views that it needs."""

    def pieces(self, known: Similarities, rows: Any) -> Floats:
        """Return what each view adds to the predictions.

        Parameters
        ----------
        known : Similarities
        rows : index of all axes of the features but the last
            Which of them to take, (..., k).

        Returns
        -------
        pieces : ndarray of shape (..., L, k, D_p)
        """


@dataclass(frozen=True)
class ByFeatures:
    """A map from features, the sum over views l of ``Z_l W_l``."""

    maps: dict[int, Floats]

    def of(self, Z: Features) -> Floats:
        """Return predictions, as in `PairMap`."""
        return np.asarray(sum(Z[l] @ W for l, W in self.maps.items()))

    @property
    def views(self) -> list[int]:
        """As in `PairMap`."""
        return list(self.maps)

    def pieces(self, known: Similarities, rows: Any) -> Floats:
        """Return what each view adds, as in `PairMap`."""
        parts = [times(known.features[l][rows], W) for l, W in self.maps.items()]
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

    @property
    def views(self) -> list[int]:
        """As in `PairMap`."""
        return list(self.shares)

    def pieces(self, known: Similarities, rows: Any) -> Floats:
        """Return what each view adds, as in `PairMap`."""
        parts = None
        for i, (l, a) in enumerate(self.shares.items()):
            similar = known.with_training(self.training, l)[rows]
            if len(self.rows) < similar.shape[-1]:
                similar = np.take(similar, self.rows, axis=-1)
            if parts is None:
                *outer, k, size = similar.shape
                parts = np.empty((*outer, len(self.shares), k, size))
            np.multiply(similar, a, out=parts[..., i, :, :])
        return times(parts, self.coef)


def times(features: Floats, right: Floats) -> Floats:
    """Return products (..., e) of features (..., D) with columns (D, e), as one large one."""
    flat = features.reshape(-1, features.shape[-1])
    return np.asarray(flat @ right).reshape(*features.shape[:-1], right.shape[1])


def rounded_map(each: PairMap) -> PairMap:
    """Return the same in single precision, if it is a map from features."""
    if isinstance(each, ByFeatures):
        return ByFeatures({l: rounded(W) for l, W in each.maps.items()})
    return each
