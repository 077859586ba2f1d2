"""The default: kernel ridge experts of views and of completed kernels, joined by stacking."""

from kernelquilt.quilt.estimators import QuiltClassifier, QuiltRegressor
from kernelquilt.quilt.late_fusion import LateFusionClassifier
from kernelquilt.quilt.lp_ridge import LpMKLRidgeClassifier, solve_lp_mkl_ridge

__all__ = [
    "LateFusionClassifier",
    "LpMKLRidgeClassifier",
    "QuiltClassifier",
    "QuiltRegressor",
    "solve_lp_mkl_ridge",
]
