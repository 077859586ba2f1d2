"""Methods of the paper on absent MKL, and its leaky form as a diagnostic."""

from typing import Any

import numpy as np

from kernelquilt._typing import Bools, Floats, Numbers
from kernelquilt.completion.fill import MeanFill, ZeroFill
from kernelquilt.completion.literature.em import EMFill
from kernelquilt.completion.literature.svt import SVTFill
from kernelquilt.experiments.methods._recipes import (
    Fitted,
    ImpossibleError,
    Method,
    OnKernels,
    Tuning,
    from_search,
)
from kernelquilt.experiments.study.splits import Split
from kernelquilt.mkl.absent.convex import ConvexAbsentMKLClassifier
from kernelquilt.mkl.absent.iterative import IterativeAbsentMKLClassifier
from kernelquilt.mkl.absent.max_margin import MaxMarginAbsentClassifier
from kernelquilt.mkl.absent.penalized import PenalizedAbsentMKLClassifier
from kernelquilt.mkl.norms.simple import SimpleMKLClassifier
from kernelquilt.mkl.search import MKLSearchCV


class LeakySharedCoef(ConvexAbsentMKLClassifier):
    """Eq. (31) and (32) of the paper as printed: kernels of absent training samples are read.

    Takes stacks that still hold the entries behind their mask.
    """

    _leaky = True

    def __init__(self, C: float = 1.0, max_iter: int = 200) -> None:
        super().__init__(C, formulation="shared_coef", max_iter=max_iter)

    def _fit_input(self, data: Any, weight: Floats) -> Any:
        held: Any = super()._fit_input(data, weight)
        # the columns of absent training samples are not to be zero where scores are computed
        everything = np.ones_like(held.training.observed)
        held.training = held.training._replace(observed=everything)
        return held

    def _training_gram(self, held: Any, data: Any) -> tuple[Numbers, Bools]:
        return np.ascontiguousarray(data.gram()), data.observed


def leaky(split: Split, tuning: Tuning) -> Fitted:
    """Tune and fit `LeakySharedCoef`."""
    if len(np.unique(split.y_train)) > 2:
        raise ImpossibleError("the leaky diagnostic is for two classes")
    search = MKLSearchCV(LeakySharedCoef(), tuning.candidates(("C",)), cv=tuning.splitter)
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
