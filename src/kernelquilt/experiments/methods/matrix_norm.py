"""Methods of the paper on MKL with (r,p) norms: exact, as published, and chosen on test samples."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from sklearn.model_selection import ParameterGrid

from kernelquilt.experiments.methods._recipes import (
    Fitted,
    Method,
    Tuning,
    from_search,
    predictions,
    with_figures,
)
from kernelquilt.experiments.study.splits import Split
from kernelquilt.mkl.norms.lp import LpMKLClassifier
from kernelquilt.mkl.norms.matrix_norm import MatrixNormMKLClassifier
from kernelquilt.mkl.path import path_fits
from kernelquilt.mkl.search import MKLSearchCV

Candidates = list[dict[str, list[Any]]]

EXPONENTS = [1, 2, 4]  # where a study names none
PUBLISHED_SOLVES = 3  # two updates: the paper prints one or two and gives no rule to stop


def one_exponent(tuning: Tuning) -> Candidates:
    """Return the candidates of lp-MKL."""
    return [{"C": tuning.grid["C"], "p": [p]} for p in tuning.grid.get("p", EXPONENTS)]


def two_exponents(tuning: Tuning) -> Candidates:
    """Return the candidates of (r,p)-MKL; exchanging r and p changes nothing."""
    rs, ps = (tuning.grid.get(name, EXPONENTS) for name in "rp")
    pairs = [(r, p) for r in rs for p in ps if r <= p]
    return [{"C": tuning.grid["C"], "r": [r], "p": [p]} for r, p in pairs]


@dataclass(frozen=True)
class ByValidation:
    """Tune penalty and exponents by cross-validation within the training samples."""

    classifier: Any
    candidates: Callable[[Tuning], Candidates]

    def __call__(self, split: Split, tuning: Tuning) -> Fitted:
        """Fit and predict."""
        search = MKLSearchCV(self.classifier, self.candidates(tuning), cv=tuning.splitter)
        return _with_exponents(from_search(search, split.stacks, split, tuning))


@dataclass(frozen=True)
class ByTest:
    """Fit all candidates and keep the one with the highest accuracy on the test samples."""

    classifier: Any
    candidates: Callable[[Tuning], Candidates]

    def __call__(self, split: Split, tuning: Tuning) -> Fitted:
        """Fit and predict."""
        train, test = split.stacks
        grid = list(ParameterGrid(self.candidates(tuning)))
        found = []
        for parameters, (model, seconds, _) in zip(
            grid, path_fits(self.classifier, train, split.y_train, grid, None), strict=True
        ):
            fitted = replace(predictions(model, test), parameters=parameters)
            found.append(with_figures(fitted, train_seconds=seconds))
        best = max(found, key=lambda fitted: float((fitted.labels == split.y_test).mean()))
        solves = sum(fitted.n_solves or 0 for fitted in found)
        return _with_exponents(replace(best, n_solves=solves))


def _with_exponents(fitted: Fitted) -> Fitted:
    chosen = fitted.parameters
    return with_figures(fitted, **{name: float(chosen[name]) for name in "rp" if name in chosen})


def _published(update: str, init: str) -> ByValidation:
    classifier = MatrixNormMKLClassifier(
        update=update, init=init, max_iter=PUBLISHED_SOLVES, random_state=0
    )
    return ByValidation(classifier, two_exponents)


METHODS = {
    "lp-MKL": Method("lp-norm MKL, p tuned", ByValidation(LpMKLClassifier(), one_exponent)),
    "(r,p)-MKL": Method(
        "(r,p)-norm MKL, r and p tuned", ByValidation(MatrixNormMKLClassifier(), two_exponents)
    ),
    "lp-MKL on test": Method(
        "lp-norm MKL with the C and p that suit the test samples best: a diagnostic",
        ByTest(LpMKLClassifier(), one_exponent),
        leaky=True,
    ),
    "(r,p)-MKL on test": Method(
        "(r,p)-norm MKL with the C, r and p that suit the test samples best: a diagnostic",
        ByTest(MatrixNormMKLClassifier(), two_exponents),
        leaky=True,
    ),
    "(r,p)-MKL0": Method("random start, update (12)", _published("paper_12", "random")),
    "(r,p)-MKL1": Method("equal start, update (11)", _published("paper_11", "uniform")),
    "(r,p)-MKL2": Method("start from lp-MKL, update (11)", _published("paper_11", "lp")),
    "(r,p)-MKL3": Method("start from lp-MKL, update (12)", _published("paper_12", "lp")),
}
