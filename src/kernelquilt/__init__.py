"""Multiple kernel learning for multi-view data in which whole views are absent for some samples."""

from kernelquilt import bounds, datasets
from kernelquilt.completion.em import EMFill, solve_em_fill
from kernelquilt.completion.fill import MeanFill, ZeroFill
from kernelquilt.completion.svt import SVTFill, solve_svt
from kernelquilt.kernel_functions import Gaussian, Jaccard, LatentSemantic, gaussian_bank
from kernelquilt.kernels import KernelStack
from kernelquilt.mkl.lp import LpMKLClassifier, solve_lp_mkl
from kernelquilt.mkl.matrix_norm import MatrixNormMKLClassifier, solve_matrix_norm_mkl
from kernelquilt.mkl.path import mkl_path
from kernelquilt.mkl.search import MKLSearchCV
from kernelquilt.mkl.simple import SimpleMKLClassifier, solve_simple_mkl
from kernelquilt.mkl.uniform import (
    ObservedFractionMKLClassifier,
    UniformMKLClassifier,
    solve_uniform_mkl,
)
from kernelquilt.preprocess import CentreKernels, ScaleKernels
from kernelquilt.solution import Solution
from kernelquilt.view_kernels import ViewKernels
from kernelquilt.view_transformer import ViewTransformer
from kernelquilt.views import MultiView, as_views

__version__ = "0.1.0"

__all__ = [
    "CentreKernels",
    "EMFill",
    "Gaussian",
    "Jaccard",
    "KernelStack",
    "LatentSemantic",
    "LpMKLClassifier",
    "MKLSearchCV",
    "MatrixNormMKLClassifier",
    "MeanFill",
    "MultiView",
    "ObservedFractionMKLClassifier",
    "SVTFill",
    "ScaleKernels",
    "SimpleMKLClassifier",
    "Solution",
    "UniformMKLClassifier",
    "ViewKernels",
    "ViewTransformer",
    "ZeroFill",
    "__version__",
    "as_views",
    "bounds",
    "datasets",
    "gaussian_bank",
    "mkl_path",
    "solve_em_fill",
    "solve_lp_mkl",
    "solve_matrix_norm_mkl",
    "solve_simple_mkl",
    "solve_svt",
    "solve_uniform_mkl",
]
