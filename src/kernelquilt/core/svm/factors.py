"""Kernels as factors, ``K_p = Z_p Z_p'``: the array that solvers work on instead of Grams."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from kernelquilt._typing import Bools, Floats, Indices, Numbers


@dataclass(frozen=True, eq=False)
class Factors:
    """The factors of M kernels of the same n samples, side by side.

    Attributes
    ----------
    Z : ndarray of shape (n, D), float32 or float64
        C-contiguous, zero where absent.
    starts : ndarray of shape (M + 1,), int
        Kernel p has the columns from ``starts[p]`` to ``starts[p + 1]``.
    observed : ndarray of shape (n, M), bool
        True where a sample has a kernel.
    """

    Z: Numbers
    starts: Indices
    observed: Bools
    _scaled: dict[bytes, "Factors"] = field(default_factory=dict, init=False, repr=False)

    def __len__(self) -> int:
        return len(self.starts) - 1

    def grams(self) -> Numbers:
        """Return the kernels themselves, (M, n, n), for methods that cannot do without."""
        return np.array([Z @ Z.T for Z in self.blocks])

    def spread(self, of_kernels: Floats | Bools) -> Any:
        """Repeat the values of the kernels (M,) for each of their columns, (D,)."""
        return np.repeat(of_kernels, np.diff(self.starts))

    def with_rows_times(self, scale: Floats) -> "Factors":
        """Return the factors of ``scale_i scale_j K_p[i, j]``: one copy, none if the scale is 1."""
        if (scale == 1.0).all():
            return self
        key = scale.tobytes()
        if key not in self._scaled:
            Z = self.Z * scale.astype(self.Z.dtype)[:, None]
            self._scaled[key] = Factors(Z, self.starts, self.observed)
        return self._scaled[key]

    @cached_property
    def diag(self) -> Floats:
        """The diagonals of the kernels, shape (M, n)."""
        return np.array([np.einsum("ij,ij->i", Z, Z) for Z in self.blocks], dtype=np.float64)

    def squared_norms(self, v: Floats) -> Floats:
        """Return ``|v_p|^2`` for every kernel, shape (M,), of a vector (D,)."""
        return np.add.reduceat(np.square(v), self.starts[:-1])

    @property
    def blocks(self) -> list[Any]:
        """The factors of the kernels, (n, r_p) each, not copied."""
        return np.split(self.Z, self.starts[1:-1], axis=1)
