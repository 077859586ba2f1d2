"""Data sets with naturally absent views, read from the directory named by KERNELQUILT_DATA."""

import os
from pathlib import Path

import numpy as np
import pytest
from sklearn.impute import SimpleImputer
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import kernelquilt as kq

pytestmark = pytest.mark.shared_data


def load(name):
    """Return the views and labels of a stored set, or skip the test."""
    path = Path(os.environ.get("KERNELQUILT_DATA", "")) / f"{name}.npz"
    if not path.is_file():
        pytest.skip(f"KERNELQUILT_DATA names no directory with {path.name}")
    with np.load(path, allow_pickle=False) as stored:
        names = [str(view) for view in stored["view_names"]]
        blocks = [np.asarray(stored[f"view_{k}"], dtype=float) for k in range(len(names))]
        return kq.MultiView(dict(zip(names, blocks, strict=True))), stored["y"]


@pytest.mark.parametrize("name", ["three_sources", "breast_tcga", "cll_multiomics"])
@pytest.mark.parametrize(
    "classifier",
    [
        kq.ObservedFractionMKLClassifier,
        kq.SimpleMKLClassifier,
        kq.LpMKLClassifier,
        kq.IterativeAbsentMKLClassifier,
        kq.PenalizedAbsentMKLClassifier,
        kq.MaxMarginAbsentClassifier,
    ],
)
@pytest.mark.filterwarnings("ignore:.*need not converge:sklearn.exceptions.ConvergenceWarning")
def test_naturally_absent_views(name, classifier):
    X, y = load(name)
    assert not X.observed.all()
    kernels = "cosine" if name == "three_sources" else "gaussian"
    model = make_pipeline(
        kq.ViewTransformer(
            make_pipeline(SimpleImputer(keep_empty_features=True), StandardScaler())
        ),
        classifier(C=10.0, kernels=kernels),
    )
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    majority = np.bincount(np.unique(y, return_inverse=True)[1]).max() / len(y)
    assert cross_val_score(model, X, y, cv=folds).mean() > majority + 0.15
    assert model.fit(X, y)[-1].converged_
