"""Multiple kernel learning for multi-view data in which whole views are absent for some samples."""

from kernelquilt import bounds, datasets, metrics
from kernelquilt.completion.fill import MeanFill, ZeroFill
from kernelquilt.completion.literature.auxiliary_em import AuxiliaryEMCompletion, solve_auxiliary_em
from kernelquilt.completion.literature.em import EMFill, solve_em_fill
from kernelquilt.completion.literature.latent_factor import (
    LatentFactorCompletion,
    solve_latent_factors,
)
from kernelquilt.completion.literature.mkc.classes import (
    ApproximationCompletion,
    EmbeddingCompletion,
    solve_embedding,
)
from kernelquilt.completion.literature.sdp import SDPCompletion, solve_sdp
from kernelquilt.completion.literature.sparse_basis import sparse_basis
from kernelquilt.completion.literature.svt import SVTFill, solve_svt
from kernelquilt.completion.neighbours import KNNFill
from kernelquilt.completion.search import CompletionSearchCV
from kernelquilt.completion.shared_factor import SharedFactorCompletion, solve_shared_factor
from kernelquilt.completion.transfer import TransferFill, solve_transfer
from kernelquilt.completion.wishart import WishartCompletion
from kernelquilt.core.solution import Solution
from kernelquilt.data.stack import KernelStack
from kernelquilt.data.transformer import ViewTransformer
from kernelquilt.data.views import MultiView, as_views
from kernelquilt.kernels.functions import (
    Gaussian,
    Jaccard,
    LatentSemantic,
    MedianGaussian,
    gaussian_bank,
)
from kernelquilt.kernels.maps import EmpiricalKernelMap
from kernelquilt.kernels.preprocessing import CentreKernels, ScaleKernels, SelectKernels
from kernelquilt.kernels.view_kernels import ViewKernels
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
from kernelquilt.mkl.search import MKLSearchCV
from kernelquilt.quilt.estimators import QuiltClassifier, QuiltRegressor
from kernelquilt.quilt.late_fusion import LateFusionClassifier
from kernelquilt.quilt.lp_ridge import LpMKLRidgeClassifier, solve_lp_mkl_ridge

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
