"""Methods of the paper on MultiK-MHKS: views made to agree, and what they are compared with."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

from sklearn.model_selection import GridSearchCV

from kernelquilt.experiments.methods._recipes import (
    Fitted,
    ImpossibleError,
    Method,
    OnKernels,
    Tuning,
    from_search,
    with_figures,
)
from kernelquilt.experiments.study.splits import Split
from kernelquilt.kernels.preprocessing import SelectKernels
from kernelquilt.mkl.agreement.cca_fusion import CCAFusion
from kernelquilt.mkl.agreement.mhks import MHKSClassifier
from kernelquilt.mkl.agreement.multi_mhks import MultiKernelMHKSClassifier
from kernelquilt.mkl.agreement.svm2k import SVM2KClassifier
from kernelquilt.mkl.norms.simple import SimpleMKLClassifier
from kernelquilt.mkl.norms.uniform import UniformMKLClassifier
from kernelquilt.mkl.search import MKLSearchCV

AGREEING = ("c", "lam", "max_iter")


def ridge_penalties(tuning: Tuning) -> Any:
    """Return the candidates of MHKS."""
    return tuning.candidates(("c",))


def margin_penalties(tuning: Tuning) -> Any:
    """Return the candidates of an SVM."""
    return tuning.candidates(("C",))


def joint_penalties(tuning: Tuning) -> Any:
    """Return the candidates of SVM-2K, one penalty for both margins and the disagreement."""
    return [{"C_a": [C], "C_b": [C], "D": [C]} for C in tuning.grid["C"]]


@dataclass(frozen=True)
class BestKernels:
    """Tune a classifier on every choice of so many kernels and keep the best by validation.

    Attributes
    ----------
    classifier : estimator
    candidates : callable
        Returns the grid of a `Tuning`.
    size : int
        Number of kernels to choose.
    """

    classifier: Any
    candidates: Callable[[Tuning], Any]
    size: int = 1

    def __call__(self, split: Split, tuning: Tuning) -> Fitted:
        """Fit and predict."""
        train, test = split.stacks
        if len(train.names) < self.size:
            raise ImpossibleError(f"{len(train.names)} kernels are fewer than {self.size}")
        found = []
        for chosen in combinations(train.names, self.size):
            selector = SelectKernels(list(chosen)).fit(train)
            stacks = selector.transform(train), selector.transform(test)
            search = MKLSearchCV(self.classifier, self.candidates(tuning), cv=tuning.splitter)
            fitted = from_search(search, stacks, split, tuning)
            fitted.parameters["kernels"] = list(chosen)
            found.append(fitted)
        best = max(found, key=lambda fitted: fitted.figures[f"cv_{tuning.metric}"])
        spent = sum(each.figures["search_seconds"] for each in found)
        return replace(
            with_figures(best, search_seconds=spent), n_solves=sum(f.n_solves or 0 for f in found)
        )


@dataclass(frozen=True)
class OnComponents:
    """Tune MHKS on the components of correlation analysis."""

    fusion: str

    def __call__(self, split: Split, tuning: Tuning) -> Fitted:
        """Fit and predict."""
        model = CCAFusion(fusion=self.fusion, estimator=MHKSClassifier(kernels="linear"))
        candidates = tuning.candidates(("c",), "estimator__")
        search = GridSearchCV(model, candidates, cv=tuning.splitter)
        return from_search(search, split.stacks, split, tuning)


def sum_kernel(split: Split, tuning: Tuning) -> Fitted:
    """Fit an SVM to the sum of the kernels, which is their mean with a larger penalty."""
    n_kernels = len(split.stacks[0].names)
    candidates = {"C": [n_kernels * C for C in tuning.grid["C"]]}
    search = MKLSearchCV(UniformMKLClassifier(multi_class="ovo"), candidates, cv=tuning.splitter)
    return from_search(search, split.stacks, split, tuning)


METHODS = {
    "MultiK-MHKS": Method(
        "squared-hinge classifiers of all kernels that agree, the minimum of Eq. (8)",
        OnKernels(MultiKernelMHKSClassifier(), tuned=AGREEING),
    ),
    "MultiK-MHKS hk": Method(
        "the published iteration from the published start: a diagnostic",
        OnKernels(MultiKernelMHKSClassifier(solver="hk", init="unit", tol=1e-3), tuned=AGREEING),
    ),
    "MultiK-MHKS hk0": Method(
        "the published iteration from zero: a diagnostic",
        OnKernels(MultiKernelMHKSClassifier(solver="hk", tol=1e-3), tuned=AGREEING),
    ),
    "CCA+MHKS1": Method(
        "correlation analysis, the components side by side, MHKS", OnComponents("concatenate")
    ),
    "CCA+MHKS2": Method(
        "correlation analysis, MHKS on the components of each kernel, a vote", OnComponents("vote")
    ),
    "MHKS": Method("MHKS on the best kernel", BestKernels(MHKSClassifier(), ridge_penalties)),
    "MKL (SILP)": Method(
        "l1-norm MKL by semi-infinite linear programming",
        OnKernels(SimpleMKLClassifier(solver="silp", multi_class="ovo")),
    ),
    "SVM-2K": Method(
        "SVM-2K on the best pair of kernels",
        BestKernels(SVM2KClassifier(multi_class="ovo"), joint_penalties, size=2),
    ),
    "SVM1": Method(
        "SVM on the best kernel",
        BestKernels(UniformMKLClassifier(multi_class="ovo"), margin_penalties),
    ),
    "SVM2": Method("SVM on the sum of the kernels", sum_kernel),
}
