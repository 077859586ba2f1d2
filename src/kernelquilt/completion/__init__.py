"""Completion of kernels: transformers from stacks with absent samples to stacks without."""

from kernelquilt.completion.fill import MeanFill, ZeroFill
from kernelquilt.completion.literature.auxiliary_em import AuxiliaryEMCompletion, solve_auxiliary_em
from kernelquilt.completion.literature.em import EMFill, solve_em_fill
from kernelquilt.completion.literature.latent_factor import (
    LatentFactorCompletion,
    solve_latent_factors,
)
from kernelquilt.completion.literature.mkc.estimators import (
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

__all__ = [
    "ApproximationCompletion",
    "AuxiliaryEMCompletion",
    "CompletionSearchCV",
    "EMFill",
    "EmbeddingCompletion",
    "KNNFill",
    "LatentFactorCompletion",
    "MeanFill",
    "SDPCompletion",
    "SVTFill",
    "SharedFactorCompletion",
    "TransferFill",
    "WishartCompletion",
    "ZeroFill",
    "solve_auxiliary_em",
    "solve_em_fill",
    "solve_embedding",
    "solve_latent_factors",
    "solve_sdp",
    "solve_shared_factor",
    "solve_svt",
    "solve_transfer",
    "sparse_basis",
]
