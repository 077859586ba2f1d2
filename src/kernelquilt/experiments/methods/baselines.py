"""What users would try first, and this package's recommendations: part of every comparison."""

from dataclasses import replace

import numpy as np
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.feature_selection import VarianceThreshold
from sklearn.impute import KNNImputer, SimpleImputer
from sklearn.linear_model import LogisticRegression
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
    OnViews,
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


def boosted_trees(split: Split, tuning: Tuning) -> Fitted:
    """Fit gradient boosting with leaves of a size that few samples allow."""
    leaf = int(np.clip(len(split.y_train) // 20, 2, 20))
    classifier = HistGradientBoostingClassifier(min_samples_leaf=leaf, random_state=0)
    return OnFeatures(classifier, prepare=VarianceThreshold())(split, tuning)


def light_boosted_trees(split: Split, tuning: Tuning) -> Fitted:
    """Fit LightGBM, if it is installed, with leaves as small as those of `boosted_trees`."""
    try:
        from lightgbm import LGBMClassifier
    except ImportError as error:
        raise ImpossibleError("lightgbm is not installed") from error
    leaf = int(np.clip(len(split.y_train) // 20, 2, 20))
    classifier = LGBMClassifier(min_child_samples=leaf, random_state=0, n_jobs=1, verbose=-1)
    return OnFeatures(classifier, prepare=VarianceThreshold())(split, tuning)


def _tuned_svc(train: Floats, test: Floats, split: Split, tuning: Tuning) -> Fitted:
    candidates = tuning.candidates(("C",)) or {"C": PENALTIES}
    search = GridSearchCV(SVC(kernel="precomputed"), candidates, cv=tuning.splitter)
    return from_search(search, (train, test), split, tuning)


METHODS = {
    "quilt": Method(
        "QuiltClassifier, kernels and a forest, tunes itself",
        OnViews(QuiltClassifier(random_state=0)),
    ),
    "quilt (kernels)": Method(
        "QuiltClassifier(experts=None), tunes itself", OnViews(QuiltClassifier(experts=None))
    ),
    "late fusion": Method(
        "LateFusionClassifier, a kernel ridge regression per view, tunes itself",
        OnViews(LateFusionClassifier(random_state=0)),
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
    "HGB": Method("HistGradientBoosting on features with NaN", boosted_trees),
    "LightGBM": Method("LightGBM on features with NaN, if it is installed", light_boosted_trees),
    "forest": Method(
        "random forest of 400 trees on features with NaN",
        OnFeatures(
            RandomForestClassifier(400, min_samples_leaf=2, random_state=0),
            prepare=VarianceThreshold(),
        ),
    ),
    "logistic": Method(
        "mean imputation with indicators of what is missing, and logistic regression",
        OnFeatures(
            LogisticRegression(max_iter=1000),
            {"C": [0.001, 0.01, 0.1, 1.0, 10.0]},
            make_pipeline(VarianceThreshold(), StandardScaler(), SimpleImputer(add_indicator=True)),
        ),
    ),
    "complete only": Method("mean kernel and SVC on complete samples only", complete_only),
    "majority": Method("the most frequent class", OnFeatures(DummyClassifier())),
}
