"""SVMs on learned kernel weights, with absent kernels, weights per sample, agreeing views."""

from kernelquilt.mkl.absent.convex import ConvexAbsentMKLClassifier, solve_convex_absent_mkl
from kernelquilt.mkl.absent.iterative import (
    IterativeAbsentMKLClassifier,
    solve_iterative_absent_mkl,
)
from kernelquilt.mkl.absent.max_margin import MaxMarginAbsentClassifier, solve_max_margin_absent
from kernelquilt.mkl.absent.penalized import (
    PenalizedAbsentMKLClassifier,
    solve_penalized_absent_mkl,
)
from kernelquilt.mkl.agreement.cca_fusion import CCAFusion
from kernelquilt.mkl.agreement.mhks import MHKSClassifier, solve_mhks
from kernelquilt.mkl.agreement.multi_mhks import MultiKernelMHKSClassifier, solve_ho_kashyap
from kernelquilt.mkl.agreement.multiview_svm import MultiViewSVMClassifier, solve_multiview_svm
from kernelquilt.mkl.agreement.nmcca import NmCCA, solve_nmcca
from kernelquilt.mkl.agreement.svm2k import SVM2KClassifier, solve_svm2k
from kernelquilt.mkl.norms.lp import LpMKLClassifier, solve_lp_mkl
from kernelquilt.mkl.norms.matrix_norm import MatrixNormMKLClassifier, solve_matrix_norm_mkl
from kernelquilt.mkl.norms.simple import SimpleMKLClassifier, solve_simple_mkl
from kernelquilt.mkl.norms.uniform import (
    ObservedFractionMKLClassifier,
    UniformMKLClassifier,
    solve_uniform_mkl,
)
from kernelquilt.mkl.path import mkl_path
from kernelquilt.mkl.per_sample.localized import LocalizedMKLClassifier, solve_localized_mkl
from kernelquilt.mkl.per_sample.sample_adaptive import (
    SampleAdaptiveMKLClassifier,
    solve_sample_adaptive_mkl,
)
from kernelquilt.mkl.regression.absent import (
    ConvexAbsentMKLRegressor,
    ObservedFractionMKLRegressor,
)
from kernelquilt.mkl.regression.norms import (
    LpMKLRegressor,
    SimpleMKLRegressor,
    UniformMKLRegressor,
)
from kernelquilt.mkl.regression.solver import solve_mkl_regression
from kernelquilt.mkl.search import MKLSearchCV

__all__ = [
    "CCAFusion",
    "ConvexAbsentMKLClassifier",
    "ConvexAbsentMKLRegressor",
    "IterativeAbsentMKLClassifier",
    "LocalizedMKLClassifier",
    "LpMKLClassifier",
    "LpMKLRegressor",
    "MHKSClassifier",
    "MKLSearchCV",
    "MatrixNormMKLClassifier",
    "MaxMarginAbsentClassifier",
    "MultiKernelMHKSClassifier",
    "MultiViewSVMClassifier",
    "NmCCA",
    "ObservedFractionMKLClassifier",
    "ObservedFractionMKLRegressor",
    "PenalizedAbsentMKLClassifier",
    "SVM2KClassifier",
    "SampleAdaptiveMKLClassifier",
    "SimpleMKLClassifier",
    "SimpleMKLRegressor",
    "UniformMKLClassifier",
    "UniformMKLRegressor",
    "mkl_path",
    "solve_convex_absent_mkl",
    "solve_ho_kashyap",
    "solve_iterative_absent_mkl",
    "solve_localized_mkl",
    "solve_lp_mkl",
    "solve_matrix_norm_mkl",
    "solve_max_margin_absent",
    "solve_mhks",
    "solve_mkl_regression",
    "solve_multiview_svm",
    "solve_nmcca",
    "solve_penalized_absent_mkl",
    "solve_sample_adaptive_mkl",
    "solve_simple_mkl",
    "solve_svm2k",
    "solve_uniform_mkl",
]
