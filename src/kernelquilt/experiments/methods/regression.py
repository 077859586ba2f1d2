"""Methods of regression: this package's, and what users would try first."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.feature_selection import VarianceThreshold
from sklearn.impute import KNNImputer, SimpleImputer
from sklearn.linear_model import RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR

from kernelquilt.experiments.methods._recipes import (
    Fitted,
    Method,
    OnFeatures,
    OnKernels,
    OnViews,
    Recipe,
    Tuning,
)
from kernelquilt.experiments.study.splits import Split
from kernelquilt.mkl.regression.absent import ConvexAbsentMKLRegressor, ObservedFractionMKLRegressor
from kernelquilt.mkl.regression.norms import LpMKLRegressor, SimpleMKLRegressor, UniformMKLRegressor
from kernelquilt.quilt import QuiltRegressor

PENALTIES = [0.1, 1.0, 10.0, 100.0]


@dataclass(frozen=True)
class Standardised:
    """A recipe that sees targets with mean 0 and variance 1, in which penalties mean the same."""

    recipe: Recipe

    def __call__(self, split: Split, tuning: Tuning) -> Fitted:
        """Fit and predict."""
        mean, scale = float(split.y_train.mean()), float(split.y_train.std()) or 1.0
        fitted = self.recipe(replace(split, y_train=(split.y_train - mean) / scale), tuning)
        return replace(fitted, labels=mean + scale * fitted.labels)


def _small_leaves(split: Split, tuning: Tuning) -> Fitted:
    """Fit gradient boosting with leaves of a size that few samples allow."""
    leaf = int(np.clip(len(split.y_train) // 20, 2, 20))
    model = HistGradientBoostingRegressor(min_samples_leaf=leaf, random_state=0)
    return OnFeatures(model, prepare=VarianceThreshold())(split, tuning)


def _on_kernels(regressor: Any) -> Recipe:
    return Standardised(OnKernels(regressor))


METHODS = {
    "quilt": Method(
        "QuiltRegressor, kernels and a forest, tunes itself",
        OnViews(QuiltRegressor(random_state=0)),
    ),
    "quilt (kernels)": Method(
        "QuiltRegressor(experts=None), tunes itself", OnViews(QuiltRegressor(experts=None))
    ),
    "observed fraction": Method(
        "ObservedFractionMKLRegressor: mean of the kernels that a sample has",
        _on_kernels(ObservedFractionMKLRegressor()),
    ),
    "uniform": Method("zero-filled mean kernel", _on_kernels(UniformMKLRegressor())),
    "SimpleMKL": Method("l1-norm MKL, zero-filled", _on_kernels(SimpleMKLRegressor())),
    "lp MKL": Method("l2-norm MKL, zero-filled", _on_kernels(LpMKLRegressor())),
    "C-AMKL": Method("convex absent MKL", _on_kernels(ConvexAbsentMKLRegressor())),
    "kNN SVR": Method(
        "kNN imputation of the features and SVR",
        Standardised(
            OnFeatures(
                SVR(),
                {"C": PENALTIES},
                make_pipeline(StandardScaler(), KNNImputer(keep_empty_features=True)),
            )
        ),
    ),
    "HGB": Method("HistGradientBoosting on features with NaN", _small_leaves),
    "forest": Method(
        "random forest of 400 trees on features with NaN",
        OnFeatures(RandomForestRegressor(400, random_state=0), prepare=VarianceThreshold()),
    ),
    "ridge": Method(
        "mean imputation with indicators of what is missing, and ridge regression",
        OnFeatures(
            RidgeCV(np.logspace(-2, 4, 13)),
            prepare=make_pipeline(
                VarianceThreshold(), StandardScaler(), SimpleImputer(add_indicator=True)
            ),
        ),
    ),
    "mean": Method("the mean of the targets", OnFeatures(DummyRegressor())),
}
