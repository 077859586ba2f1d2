"""What users would try first, and this package's recommendations: part of every comparison."""

from dataclasses import replace

import numpy as np
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.impute import KNNImputer, SimpleImputer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from kernelquilt._typing import Floats
from kernelquilt.experiments.methods._recipes import (
    Fitted,
    ImpossibleError,
    Method,
    OnFeatures,
    OnKernels,
    Tuning,
    from_search,
)
from kernelquilt.experiments.study.splits import Split
from kernelquilt.mkl.norms.uniform import ObservedFractionMKLClassifier, UniformMKLClassifier
from kernelquilt.quilt import QuiltClassifier
from kernelquilt.quilt.late_fusion import LateFusionClassifier

PENALTIES = [0.1, 1.0, 10.0, 100.0]


def zero_filled_svc(split: Split, tuning: Tuning) -> Fitted:
    """Fit scikit-learn's SVC to the mean of the zero-filled kernels."""
    train, test = (stack.gram().mean(axis=0) for stack in split.stacks)
    return _tuned_svc(train, test, split, tuning)


def complete_only(split: Split, tuning: Tuning) -> Fitted:
    """Fit the mean kernel to the complete training samples; absent test kernels are zero."""
    train, test = split.stacks
    complete = np.flatnonzero(train.observed.all(axis=1))
    labels, counts = np.unique(split.y_train[complete], return_counts=True)
    if len(labels) < len(np.unique(split.y_train)) or counts.min() < 2:
        raise ImpossibleError(f"{len(complete)} complete training samples do not cover the classes")
    square = train.gram().mean(axis=0)[np.ix_(complete, complete)]
    rows = test.gram().mean(axis=0)[:, complete]
    fewer = replace(tuning, folds=min(tuning.folds, int(counts.min())))
    return _tuned_svc(square, rows, replace(split, y_train=split.y_train[complete]), fewer)


def _tuned_svc(train: Floats, test: Floats, split: Split, tuning: Tuning) -> Fitted:
    candidates = tuning.candidates(("C",)) or {"C": PENALTIES}
    search = GridSearchCV(SVC(kernel="precomputed"), candidates, cv=tuning.splitter)
    return from_search(search, (train, test), split)


METHODS = {
    "quilt": Method("QuiltClassifier, tunes itself", OnKernels(QuiltClassifier(), tuned=())),
    "late fusion": Method(
        "LateFusionClassifier, a kernel ridge regression per view, tunes itself",
        OnKernels(LateFusionClassifier(), tuned=()),
    ),
    "observed fraction": Method(
        "ObservedFractionMKLClassifier: uniform kernel, margins scaled by the observed fraction",
        OnKernels(ObservedFractionMKLClassifier()),
    ),
    "uniform": Method(
        "zero-filled mean kernel, one-vs-rest SVM", OnKernels(UniformMKLClassifier())
    ),
    "zero SVC": Method("zero-filled mean kernel and scikit-learn's SVC", zero_filled_svc),
    "kNN SVC": Method(
        "kNN imputation of the features and SVC",
        OnFeatures(
            SVC(),
            {"C": PENALTIES},
            make_pipeline(StandardScaler(), KNNImputer(keep_empty_features=True)),
        ),
    ),
    "mean SVC": Method(
        "mean imputation of the features and SVC",
        OnFeatures(
            SVC(),
            {"C": PENALTIES},
            make_pipeline(StandardScaler(), SimpleImputer(keep_empty_features=True)),
        ),
    ),
    "HGB": Method(
        "HistGradientBoosting on features with NaN, as it comes",
        OnFeatures(HistGradientBoostingClassifier(random_state=0)),
    ),
    "complete only": Method("mean kernel and SVC on complete samples only", complete_only),
    "majority": Method("the most frequent class", OnFeatures(DummyClassifier())),
}
