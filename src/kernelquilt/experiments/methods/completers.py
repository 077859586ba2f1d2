"""The completers of the comparisons, by name.

The methods of Bhadra, Kaski and Rousu, "Multi-view kernel completion", Machine Learning 2017, have
the names of its tables. Their weights are chosen from every second decade of the paper's range, and
from every decade where there is one to choose and a fit is quick.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sklearn.base import clone
from sklearn.model_selection import ParameterGrid

from kernelquilt.completion.fill import MeanFill, ZeroFill
from kernelquilt.completion.literature.auxiliary_em import AuxiliaryEMCompletion
from kernelquilt.completion.literature.latent_factor import LatentFactorCompletion
from kernelquilt.completion.literature.mkc.estimators import (
    ApproximationCompletion,
    EmbeddingCompletion,
)
from kernelquilt.completion.literature.sdp import SDPCompletion
from kernelquilt.completion.neighbours import KNNFill
from kernelquilt.completion.shared_factor import SharedFactorCompletion
from kernelquilt.completion.transfer import TransferFill
from kernelquilt.completion.wishart import WishartCompletion
from kernelquilt.experiments.methods._leaky_embedding import LeakyEmbedding

NEIGHBOURS = {"n_neighbors": [1, 2, 3, 5, 7, 10]}
PRECISION = {"tol": [1e-6]}
DECADES = [1e-3, 1e-1, 1e1, 1e3]
WEIGHTS = {"lam1": DECADES, "lam2": DECADES, **PRECISION}


@dataclass(frozen=True)
class Completer:
    """A completer of a comparison.

    Attributes
    ----------
    summary : str
    completer : transformer
        What is cloned and fitted.
    grid : dict of str to list
        Candidates of its parameters, one of which is chosen on the tuning samples.
    first_complete : bool
        Whether the first kernel is given to it complete, because it needs a complete one; its
        errors are over the other kernels.
    leaky : bool
        Whether it is a diagnostic that is given what should be absent.
    """

    summary: str
    completer: Any
    grid: dict[str, list[Any]] = field(default_factory=dict)
    first_complete: bool = False
    leaky: bool = False

    def candidates(self, grid: Mapping[str, list[Any]]) -> list[dict[str, Any]]:
        """Return the parameters to choose from; a study may have other candidates of the same."""
        own = {name: grid.get(name, values) for name, values in self.grid.items()}
        return list(ParameterGrid(own))

    def make(self, parameters: Mapping[str, Any]) -> Any:
        """Return an unfitted completer with these parameters."""
        return clone(self.completer).set_params(**parameters)


COMPLETERS = {
    "ht": Completer("MKC_embd(ht): similar weights in all kernels", EmbeddingCompletion(), WEIGHTS),
    "app": Completer("MKC_app: similar approximations", ApproximationCompletion(), WEIGHTS),
    "sdp": Completer(
        "MKC_sdp: convex combinations of each other",
        SDPCompletion(),
        {"lam1": [1e-5, *DECADES]},
    ),
    "hm": Completer(
        "MKC_embd(hm): the same weights in all kernels",
        EmbeddingCompletion(sharing="homogeneous"),
        {"lam2": [1e-3, 1e-2, 1e-1, 1.0, 1e1, 1e2, 1e3], **PRECISION},
    ),
    "rnd": Completer(
        "MKC_rnd: ht with a random basis",
        EmbeddingCompletion(basis="random", random_state=0),
        {"lam1": DECADES, **PRECISION},
    ),
    "MLFS": Completer(
        "latent factors, a maximum a posteriori version",
        LatentFactorCompletion(),
        {"rank": [5, 10], "coupling": [0.1, 1.0], **PRECISION},
    ),
    "EM": Completer(
        "EM with the first kernel complete", AuxiliaryEMCompletion(0), first_complete=True
    ),
    "Knn": Completer("nearest neighbours", KNNFill(unit_diagonal=False), NEIGHBOURS),
    "wKnn": Completer(
        "nearest neighbours by inverse distance",
        KNNFill(unit_diagonal=False, weights="distance"),
        NEIGHBOURS,
    ),
    "Wishart": Completer("WishartCompletion, nothing to tune", WishartCompletion(random_state=0)),
    "TransferFill": Completer(
        "ridge regressions between kernels",
        TransferFill(),
        {"eps": [0.001, 0.01, 0.03, 0.1, 0.3, 1.0]},
    ),
    "SharedFactor": Completer("a low-rank factor that all share", SharedFactorCompletion()),
    "KNNFill": Completer("nearest neighbours, diagonal 1", KNNFill(), NEIGHBOURS),
    "MeanFill": Completer("the mean of the observed samples", MeanFill()),
    "ZeroFill": Completer("zeros", ZeroFill()),
    "ht leaky": Completer(
        "ht fitted to kernel values of absent samples too: a diagnostic",
        LeakyEmbedding("weights"),
        WEIGHTS,
        leaky=True,
    ),
    "app leaky": Completer(
        "app fitted to kernel values of absent samples too: a diagnostic",
        LeakyEmbedding("kernels"),
        WEIGHTS,
        leaky=True,
    ),
}
