"""What predicts the features of one view from those of others."""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from kernelquilt._typing import Floats, Indices
from kernelquilt.quilt.space.maps import compact, rounded

Features = list[Floats]  # of M views, (n_rows, D_p) each, zero where absent


class PairMap(Protocol):
    """What predicts the features of one view, from those of others."""

    def of(self, Z: Features) -> Floats:
        """Return predictions (n_rows, D_p) from the features of samples that have what it needs."""


@dataclass(frozen=True)
class ByFeatures:
    """A map from features, the sum over views l of ``Z_l W_l``."""

    maps: dict[int, Floats]

    def of(self, Z: Features) -> Floats:
        """Return predictions, as in `PairMap`."""
        return np.asarray(sum(Z[l] @ W for l, W in self.maps.items()))

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


def rounded_map(each: PairMap) -> PairMap:
    """Return the same in single precision, if it is a map from features."""
    if isinstance(each, ByFeatures):
        return ByFeatures({l: rounded(W) for l, W in each.maps.items()})
    return each
