"""The default: kernel ridge experts of views and of completed kernels, joined by stacking."""

from kernelquilt.quilt.classifier import QuiltClassifier
from kernelquilt.quilt.late_fusion import LateFusionClassifier, LateFusionRegressor
from kernelquilt.quilt.lp_ridge.classifier import LpMKLRidgeClassifier, solve_lp_mkl_ridge
from kernelquilt.quilt.lp_ridge.regressor import LpMKLRidgeRegressor
from kernelquilt.quilt.regressor import QuiltRegressor
from kernelquilt.quilt.survival.quilt import QuiltSurvival

__all__ = [
    "LateFusionClassifier",
    "LateFusionRegressor",
    "LpMKLRidgeClassifier",
    "LpMKLRidgeRegressor",
    "QuiltClassifier",
    "QuiltRegressor",
    "QuiltSurvival",
    "solve_lp_mkl_ridge",
]
