"""From views to kernels, from kernels to kernels, and maps into feature space."""

from kernelquilt.kernels.features import FeatureKernels
from kernelquilt.kernels.functions import (
    Gaussian,
    Jaccard,
    LatentSemantic,
    gaussian_bank,
)
from kernelquilt.kernels.maps import EmpiricalKernelMap
from kernelquilt.kernels.median_gaussian import MedianGaussian
from kernelquilt.kernels.preprocessing import CentreKernels, ScaleKernels, SelectKernels
from kernelquilt.kernels.view_kernels import ViewKernels

__all__ = [
    "CentreKernels",
    "EmpiricalKernelMap",
    "FeatureKernels",
    "Gaussian",
    "Jaccard",
    "LatentSemantic",
    "MedianGaussian",
    "ScaleKernels",
    "SelectKernels",
    "ViewKernels",
    "gaussian_bank",
]
