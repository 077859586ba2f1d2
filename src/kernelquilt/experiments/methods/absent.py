"""Methods of the paper on absent MKL, and its leaky form as a diagnostic."""

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.model_selection import GridSearchCV

from kernelquilt._typing import Array, Floats
from kernelquilt.completion.fill import MeanFill, ZeroFill
from kernelquilt.completion.literature.em import EMFill
from kernelquilt.completion.literature.svt import SVTFill
from kernelquilt.data.stack import KernelStack
from kernelquilt.experiments.methods._recipes import (
    Fitted,
    ImpossibleError,
    Method,
    OnKernels,
    Tuning,
    from_search,
)
from kernelquilt.experiments.study.splits import Split
from kernelquilt.mkl.absent.convex import ConvexAbsentMKLClassifier, solve_convex_absent_mkl
from kernelquilt.mkl.absent.iterative import IterativeAbsentMKLClassifier
from kernelquilt.mkl.absent.max_margin import MaxMarginAbsentClassifier
from kernelquilt.mkl.absent.penalized import PenalizedAbsentMKLClassifier
from kernelquilt.mkl.norms.simple import SimpleMKLClassifier


class LeakySharedCoef(ClassifierMixin, BaseEstimator):
    """Eq. (31) and (32) of the paper as printed: kernels of absent training samples are read.

    Two classes only. Takes stacks that still hold the entries behind their mask.
    """

    def __init__(self, C: float = 1.0) -> None:
        self.C = C

    def fit(self, X: KernelStack, y: Any) -> "LeakySharedCoef":
        """Fit to a stack of n_train samples that is masked but not emptied."""
        self.classes_ = np.unique(y)
        signs = np.where(y == self.classes_[1], 1.0, -1.0)
        solution = solve_convex_absent_mkl(
            np.ascontiguousarray(X.gram()),
            signs,
            X.observed,
            C=self.C,
            formulation="shared_coef",
            _leaky=True,
        )
        self.coef_, self.intercept_ = solution.dual_coef, solution.intercept
        self.n_solves_, self.converged_ = solution.n_solves, solution.converged
        self.duality_gap_ = solution.objective - solution.dual_bound
        self.objective_ = solution.objective
        self.training_ = X.ids
        return self

    def decision_function(self, X: KernelStack) -> Floats:
        """Return the scores (n_rows,) of rows of the stack that was fitted, or of a new one."""
        K = X.gram() if not X.square else self._columns(X)
        seen = np.einsum("pij,pj->ip", K, self.coef_)
        return np.asarray((X.observed * seen).sum(axis=1) + self.intercept_)

    def predict(self, X: KernelStack) -> Array:
        """Return the classes (n_rows,)."""
        return np.asarray(self.classes_[(self.decision_function(X) > 0).astype(int)])

    def _columns(self, X: KernelStack) -> Floats:
        whole = X._shared.kernels
        return np.stack([kernel[np.ix_(X.ids, self.training_)] for kernel in whole])


def leaky(split: Split, tuning: Tuning) -> Fitted:
    """Tune and fit `LeakySharedCoef`."""
    if len(np.unique(split.y_train)) > 2:
        raise ImpossibleError("the leaky diagnostic is for two classes")
    search = GridSearchCV(LeakySharedCoef(), tuning.candidates(("C",)), cv=tuning.splitter)
    return from_search(search, split.leaky_stacks, split, tuning)


METHODS = {
    "I-AMKL": Method("iterative absent MKL", OnKernels(IterativeAbsentMKLClassifier())),
    "I-AMKL-lambda": Method(
        "absent MKL with a penalty on margins, from the observed fractions",
        OnKernels(PenalizedAbsentMKLClassifier()),
    ),
    "C-AMKL": Method("convex absent MKL, exact", OnKernels(ConvexAbsentMKLClassifier())),
    "C-AMKL (31)": Method(
        "convex absent MKL with one coefficient vector for all kernels, masked",
        OnKernels(ConvexAbsentMKLClassifier(formulation="shared_coef")),
    ),
    "C-AMKL leaky": Method(
        "the same as printed, reading absent training entries: a diagnostic", leaky, leaky=True
    ),
    "ZF": Method("zero filling and SimpleMKL", OnKernels(SimpleMKLClassifier(), filler=ZeroFill())),
    "MF": Method("mean filling and SimpleMKL", OnKernels(SimpleMKLClassifier(), filler=MeanFill())),
    "EM": Method("EM filling and SimpleMKL", OnKernels(SimpleMKLClassifier(), filler=EMFill())),
    "SVT": Method(
        "singular value thresholding and SimpleMKL",
        OnKernels(SimpleMKLClassifier(), filler=SVTFill()),
    ),
    "MMAF": Method("max-margin with absent features", OnKernels(MaxMarginAbsentClassifier())),
}
