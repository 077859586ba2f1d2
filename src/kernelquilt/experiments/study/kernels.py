"""Kernels of the protocols, by name."""

from typing import Any

import numpy as np

from kernelquilt._typing import Floats
from kernelquilt.kernels.functions import Gaussian, LatentSemantic, gaussian_bank
from kernelquilt.kernels.median_gaussian import MedianGaussian


class DividedGaussian(Gaussian):
    """``exp(-|a - b|^2 / (scale * mean distance))``, which depends on the unit of the features.

    One reading of "a Gaussian of width w sigma_0": the width divides the squared distance as it
    is.
    """

    def fit_mean_distance(self, mean: float) -> "DividedGaussian":
        """Set the width from the mean distance."""
        super().fit_mean_distance(mean)
        self.width_ = float(np.sqrt(self.width_ / 2))
        return self


def polynomial_2(A: Floats, B: Floats) -> Floats:
    """Return (a'b + 1)^2."""
    return np.asarray((A @ B.T + 1) ** 2)


def polynomial_3(A: Floats, B: Floats) -> Floats:
    """Return (a'b + 1)^3."""
    return np.asarray((A @ B.T + 1) ** 3)


def unit_gaussian(A: Floats, B: Floats) -> Floats:
    """Return exp(-|a - b|^2): half the mean squared distance of one standardised column is 1."""
    squares = (A**2).sum(axis=1)[:, None] - 2 * A @ B.T + (B**2).sum(axis=1)
    return np.asarray(np.exp(-np.maximum(squares, 0.0)))


_LINEAR_BANK = gaussian_bank(20, 2**-7, 2**7, spacing="linear")

KERNELS: dict[str, Any] = {
    "gaussian": Gaussian(),
    "median_gaussian": MedianGaussian(),
    "standard_gaussian": MedianGaussian(standardize=True),
    "median_gaussian_raw": MedianGaussian(standardize=False),
    "unit_gaussian": unit_gaussian,
    "cosine": "cosine",
    "linear": "linear",
    "polynomial_2": polynomial_2,
    "polynomial_3": polynomial_3,
    "latent_semantic": LatentSemantic(),
    "bank_20_linear": _LINEAR_BANK,
    "bank_20_log": gaussian_bank(20, 2**-7, 2**7, spacing="log"),
    "bank_20_squared": [DividedGaussian(kernel.scale) for kernel in _LINEAR_BANK],
    "bank_3": [Gaussian(0.25), Gaussian(1.0), Gaussian(4.0)],
    "three_kinds": ["linear", Gaussian(), polynomial_2],
}
