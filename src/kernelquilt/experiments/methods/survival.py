"""Methods of survival: this package's, and regressions of martingale residuals."""

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.feature_selection import VarianceThreshold
from sklearn.impute import SimpleImputer
from sklearn.linear_model import RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kernelquilt._typing import Floats
from kernelquilt.experiments.methods._recipes import Method, OnFeatures, OnViews
from kernelquilt.quilt import QuiltSurvival
from kernelquilt.quilt.survival.cox import concordance, martingale_residuals
from kernelquilt.quilt.survival.targets import survival_targets


class ResidualRisk(BaseEstimator):
    """Risk scores by a regression of martingale residuals."""

    def __init__(self, regressor: Any) -> None:
        self.regressor = regressor

    def fit(self, X: Any, y: Any) -> "ResidualRisk":
        """Fit to features (n, d), and events and times."""
        residuals = martingale_residuals(*survival_targets(y))
        self.regressor_ = clone(self.regressor).fit(X, residuals)
        return self

    def predict(self, X: Any) -> Floats:
        """Return risks (n_rows,)."""
        return np.asarray(self.regressor_.predict(X))

    def score(self, X: Any, y: Any) -> float:
        """Return the concordance."""
        return concordance(self.predict(X), *survival_targets(y))


def _on_residuals(regressor: Any, prepare: Any = None) -> OnFeatures:
    prepare = VarianceThreshold() if prepare is None else prepare
    return OnFeatures(ResidualRisk(regressor), prepare=prepare)


METHODS = {
    "quilt": Method(
        "QuiltSurvival, kernels and a forest, tunes itself", OnViews(QuiltSurvival(random_state=0))
    ),
    "quilt (kernels)": Method(
        "QuiltSurvival(experts=None), tunes itself", OnViews(QuiltSurvival(experts=None))
    ),
    "HGB": Method(
        "HistGradientBoosting of martingale residuals, on features with NaN",
        _on_residuals(HistGradientBoostingRegressor(min_samples_leaf=10, random_state=0)),
    ),
    "forest": Method(
        "random forest of martingale residuals, on features with NaN",
        _on_residuals(RandomForestRegressor(400, min_samples_leaf=5, random_state=0)),
    ),
    "ridge": Method(
        "ridge regression of martingale residuals, mean imputation with indicators",
        _on_residuals(
            RidgeCV(np.logspace(-2, 4, 13)),
            make_pipeline(VarianceThreshold(), StandardScaler(), SimpleImputer(add_indicator=True)),
        ),
    ),
    "no model": Method("the same risk for all", OnFeatures(ResidualRisk(DummyRegressor()))),
}
