"""Learning from multi-view data in which whole views are absent for some samples."""

from kernelquilt import bounds, completion, data, datasets, inspection, kernels, metrics, mkl, quilt
from kernelquilt.completion import TransferFill, WishartCompletion
from kernelquilt.core.solution import Solution
from kernelquilt.data import KernelStack, MultiView, ViewTransformer, as_views
from kernelquilt.kernels import (
    CentreKernels,
    EmpiricalKernelMap,
    Gaussian,
    ScaleKernels,
    ViewKernels,
    gaussian_bank,
)
from kernelquilt.mkl import (
    ConvexAbsentMKLClassifier,
    LpMKLClassifier,
    MKLSearchCV,
    ObservedFractionMKLClassifier,
    SimpleMKLClassifier,
    mkl_path,
)
from kernelquilt.quilt import LateFusionClassifier, QuiltClassifier, QuiltRegressor

__version__ = "0.1.0"

__all__ = [
    "CentreKernels",
    "ConvexAbsentMKLClassifier",
    "EmpiricalKernelMap",
    "Gaussian",
    "KernelStack",
    "LateFusionClassifier",
    "LpMKLClassifier",
    "MKLSearchCV",
    "MultiView",
    "ObservedFractionMKLClassifier",
    "QuiltClassifier",
    "QuiltRegressor",
    "ScaleKernels",
    "SimpleMKLClassifier",
    "Solution",
    "TransferFill",
    "ViewKernels",
    "ViewTransformer",
    "WishartCompletion",
    "__version__",
    "as_views",
    "bounds",
    "completion",
    "data",
    "datasets",
    "gaussian_bank",
    "inspection",
    "kernels",
    "metrics",
    "mkl",
    "mkl_path",
    "quilt",
]
