"""Multiple kernel learning for multi-view data in which whole views are absent for some samples."""

from kernelquilt import bounds, datasets, metrics
from kernelquilt.cca import NmCCA, solve_nmcca
from kernelquilt.cca_fusion import CCAFusion
from kernelquilt.completion.auxiliary_em import AuxiliaryEMCompletion, solve_auxiliary_em
from kernelquilt.completion.em import EMFill, solve_em_fill
from kernelquilt.completion.fill import MeanFill, ZeroFill
from kernelquilt.completion.latent_factor import LatentFactorCompletion, solve_latent_factors
from kernelquilt.completion.mkc import (
    ApproximationCompletion,
    EmbeddingCompletion,
    solve_embedding,
)
from kernelquilt.completion.neighbours import KNNFill
from kernelquilt.completion.sdp import SDPCompletion, solve_sdp
from kernelquilt.completion.search import CompletionSearchCV
from kernelquilt.completion.shared_factor import SharedFactorCompletion, solve_shared_factor
from kernelquilt.completion.sparse_basis import sparse_basis
from kernelquilt.completion.svt import SVTFill, solve_svt
from kernelquilt.completion.transfer import TransferFill, solve_transfer
from kernelquilt.completion.wishart import WishartCompletion
from kernelquilt.kernel_functions import (
    Gaussian,
    Jaccard,
    LatentSemantic,
    MedianGaussian,
    gaussian_bank,
)
from kernelquilt.kernels import KernelStack
from kernelquilt.maps import EmpiricalKernelMap
from kernelquilt.mkl.adaptive import SampleAdaptiveMKLClassifier, solve_sample_adaptive_mkl
from kernelquilt.mkl.convex_absent import ConvexAbsentMKLClassifier, solve_convex_absent_mkl
from kernelquilt.mkl.iterative_absent import (
    IterativeAbsentMKLClassifier,
    solve_iterative_absent_mkl,
)
from kernelquilt.mkl.late import LateFusionClassifier
from kernelquilt.mkl.localized import LocalizedMKLClassifier, solve_localized_mkl
from kernelquilt.mkl.lp import LpMKLClassifier, solve_lp_mkl
from kernelquilt.mkl.matrix_norm import MatrixNormMKLClassifier, solve_matrix_norm_mkl
from kernelquilt.mkl.max_margin import MaxMarginAbsentClassifier, solve_max_margin_absent
from kernelquilt.mkl.mhks import MHKSClassifier, solve_mhks
from kernelquilt.mkl.multi_mhks import MultiKernelMHKSClassifier, solve_ho_kashyap
from kernelquilt.mkl.multiview_svm import MultiViewSVMClassifier, solve_multiview_svm
from kernelquilt.mkl.path import mkl_path
from kernelquilt.mkl.penalized_absent import (
    PenalizedAbsentMKLClassifier,
    solve_penalized_absent_mkl,
)
from kernelquilt.mkl.ridge import LpMKLRidgeClassifier, solve_lp_mkl_ridge
from kernelquilt.mkl.search import MKLSearchCV
from kernelquilt.mkl.simple import SimpleMKLClassifier, solve_simple_mkl
from kernelquilt.mkl.svm2k import SVM2KClassifier, solve_svm2k
from kernelquilt.mkl.uniform import (
    ObservedFractionMKLClassifier,
    UniformMKLClassifier,
    solve_uniform_mkl,
)
from kernelquilt.preprocess import CentreKernels, ScaleKernels, SelectKernels
from kernelquilt.quilt import QuiltClassifier, QuiltRegressor
from kernelquilt.solution import Solution
from kernelquilt.view_kernels import ViewKernels
from kernelquilt.view_transformer import ViewTransformer
from kernelquilt.views import MultiView, as_views

__version__ = "0.1.0"

__all__ = [
    "ApproximationCompletion",
    "AuxiliaryEMCompletion",
    "CCAFusion",
    "CentreKernels",
    "CompletionSearchCV",
    "ConvexAbsentMKLClassifier",
    "EMFill",
    "EmbeddingCompletion",
    "EmpiricalKernelMap",
    "Gaussian",
    "IterativeAbsentMKLClassifier",
    "Jaccard",
    "KNNFill",
    "KernelStack",
    "LateFusionClassifier",
    "LatentFactorCompletion",
    "LatentSemantic",
    "LocalizedMKLClassifier",
    "LpMKLClassifier",
    "LpMKLRidgeClassifier",
    "MHKSClassifier",
    "MKLSearchCV",
    "MatrixNormMKLClassifier",
    "MaxMarginAbsentClassifier",
    "MeanFill",
    "MedianGaussian",
    "MultiKernelMHKSClassifier",
    "MultiView",
    "MultiViewSVMClassifier",
    "NmCCA",
    "ObservedFractionMKLClassifier",
    "PenalizedAbsentMKLClassifier",
    "QuiltClassifier",
    "QuiltRegressor",
    "SDPCompletion",
    "SVM2KClassifier",
    "SVTFill",
    "SampleAdaptiveMKLClassifier",
    "ScaleKernels",
    "SelectKernels",
    "SharedFactorCompletion",
    "SimpleMKLClassifier",
    "Solution",
    "TransferFill",
    "UniformMKLClassifier",
    "ViewKernels",
    "ViewTransformer",
    "WishartCompletion",
    "ZeroFill",
    "__version__",
    "as_views",
    "bounds",
    "datasets",
    "gaussian_bank",
    "metrics",
    "mkl_path",
    "solve_auxiliary_em",
    "solve_convex_absent_mkl",
    "solve_em_fill",
    "solve_embedding",
    "solve_ho_kashyap",
    "solve_iterative_absent_mkl",
    "solve_latent_factors",
    "solve_localized_mkl",
    "solve_lp_mkl",
    "solve_lp_mkl_ridge",
    "solve_matrix_norm_mkl",
    "solve_max_margin_absent",
    "solve_mhks",
    "solve_multiview_svm",
    "solve_nmcca",
    "solve_penalized_absent_mkl",
    "solve_sample_adaptive_mkl",
    "solve_sdp",
    "solve_shared_factor",
    "solve_simple_mkl",
    "solve_svm2k",
    "solve_svt",
    "solve_transfer",
    "solve_uniform_mkl",
    "sparse_basis",
]
