"""Data sets with naturally absent views, read from the directory named by KERNELQUILT_DATA."""

import os
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from sklearn.impute import SimpleImputer
from sklearn.model_selection import StratifiedKFold, cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import kernelquilt as kq

pytestmark = pytest.mark.shared_data


def load(name, *more, label="y"):
    """Return the views and labels of a stored set, and more by name, or skip the test."""
    path = Path(os.environ.get("KERNELQUILT_DATA", "")) / f"{name}.npz"
    if not path.is_file():
        pytest.skip(f"KERNELQUILT_DATA names no directory with {path.name}")
    views, y = kq.read_views(path, label=label)
    with np.load(path, allow_pickle=False) as stored:
        return views, y.to_numpy(), *(stored[key] for key in more)


def prepared():
    return kq.ViewTransformer(
        make_pipeline(SimpleImputer(keep_empty_features=True), StandardScaler())
    )


@pytest.mark.parametrize("name", ["three_sources", "breast_tcga", "cll_multiomics"])
@pytest.mark.parametrize(
    "classifier",
    [
        kq.ObservedFractionMKLClassifier,
        kq.SimpleMKLClassifier,
        kq.LpMKLClassifier,
        kq.mkl.IterativeAbsentMKLClassifier,
        kq.mkl.PenalizedAbsentMKLClassifier,
        kq.mkl.MaxMarginAbsentClassifier,
        kq.ConvexAbsentMKLClassifier,
        partial(kq.ConvexAbsentMKLClassifier, formulation="shared_coef"),
    ],
)
@pytest.mark.filterwarnings("ignore:.*need not converge:sklearn.exceptions.ConvergenceWarning")
def test_naturally_absent_views(name, classifier):
    X, y = load(name)
    assert not X.observed.all()
    kernels = "cosine" if name == "three_sources" else "gaussian"
    model = make_pipeline(prepared(), classifier(C=10.0, kernels=kernels))
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    majority = np.bincount(np.unique(y, return_inverse=True)[1]).max() / len(y)
    assert cross_val_score(model, X, y, cv=folds).mean() > majority + 0.15
    assert model.fit(X, y)[-1].converged_


@pytest.mark.parametrize("name", ["three_sources", "breast_tcga", "cll_multiomics"])
@pytest.mark.parametrize(
    "classifier", [kq.QuiltClassifier, kq.LateFusionClassifier, kq.quilt.LpMKLRidgeClassifier]
)
def test_classifiers_that_tune_themselves(name, classifier):
    X, y = load(name)
    kernels = "cosine" if name == "three_sources" else "median_gaussian"
    model = make_pipeline(prepared(), classifier(kernels=kernels))
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    majority = np.bincount(np.unique(y, return_inverse=True)[1]).max() / len(y)
    assert cross_val_score(model, X, y, cv=folds).mean() > majority + 0.15


@pytest.mark.parametrize("name", ["three_sources", "breast_tcga", "cll_multiomics"])
@pytest.mark.parametrize(
    "filler",
    [kq.completion.ZeroFill, kq.completion.MeanFill, kq.completion.EMFill, kq.completion.SVTFill],
)
def test_filled_kernels(name, filler):
    X, y = load(name)
    kernels = "cosine" if name == "three_sources" else "gaussian"
    model = make_pipeline(
        prepared(), kq.ViewKernels(kernels), filler(), kq.SimpleMKLClassifier(10.0)
    )
    train, test = train_test_split(np.arange(len(y)), stratify=y, random_state=0)
    majority = np.bincount(np.unique(y, return_inverse=True)[1]).max() / len(y)
    assert model.fit(X[train], y[train]).score(X[test], y[test]) > majority + 0.15


@pytest.mark.parametrize(
    "classifier",
    [
        kq.ObservedFractionMKLClassifier,
        kq.mkl.PenalizedAbsentMKLClassifier,
        kq.ConvexAbsentMKLClassifier,
        kq.mkl.MaxMarginAbsentClassifier,
    ],
)
def test_a_view_that_no_test_sample_has(classifier):
    X, y, train, test = load("breast_tcga", "train_idx", "test_idx")
    assert not X[test].observed[:, list(X.names).index("protein")].any()
    model = make_pipeline(prepared(), classifier(10.0)).fit(X[train], y[train])
    assert model.score(X[test], y[test]) > 0.85


FOLDER = Path(os.environ.get("KERNELQUILT_DATA", "no folder"))
UNLABELLED = "mkc_"


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.npz")), ids=lambda path: path.stem)
@pytest.mark.filterwarnings("ignore:.*less than 3 training samples:UserWarning")
@pytest.mark.filterwarnings("ignore:.*absent for all .* training samples:UserWarning")
def test_every_set_goes_from_its_file_into_the_quilt(path):
    if path.stem.startswith(UNLABELLED):
        kernels = kq.read_views(path)
        assert kq.TransferFill().fit_transform(kernels).observed.all()
        return
    X, y = kq.read_views(path, label="y_death_5y" if path.stem == "pbc_mayo" else "y")
    assert X.shape[0] == len(y)
    # a few samples of each of the frequent classes
    frequent = y.groupby(y).head(8).groupby(y).filter(lambda each: len(each) == 8)
    rows = np.flatnonzero(y.index.isin(frequent.index))[:200]
    model = kq.QuiltClassifier(random_state=0).fit(X[rows], y.iloc[rows])
    np.testing.assert_allclose(model.predict_proba(X[:50]).sum(axis=1), 1.0)


NATURAL = {
    "three_sources": 0.15,
    "breast_tcga": 0.15,
    "cll_multiomics": 0.15,
    "heart_four_hospitals": 0.15,
    "thyroid_garvan": 0.3,
    "covid_einstein": -0.05,
    "communities_crime": 0.15,
    "pantheria_trophic": 0.05,
    "ccle_tissue": 0.2,
    "horse_colic": 0.0,
    "pbc_mayo": 0.05,
    "gestational_diabetes": 0.0,
    "soybean_large": 0.4,
    "hepatitis": -0.1,
    "chronic_kidney_disease": 0.2,
}


@pytest.mark.parametrize("name", list(NATURAL))
@pytest.mark.filterwarnings("ignore:.*less than 3 training samples:UserWarning")
@pytest.mark.filterwarnings("ignore:.*absent for all .* training samples:UserWarning")
def test_sets_that_are_incomplete_by_nature_need_no_preparation(name):
    X, y = load(name, label="y_death_5y" if name == "pbc_mayo" else "y")
    known = y != 0 if name == "pbc_mayo" else np.ones(len(y), dtype=bool)
    X, y = X[known], y[known]
    assert not X.observed.all()
    train, test = train_test_split(
        np.arange(len(y)), train_size=min(200, len(y) // 2), stratify=y, random_state=0
    )
    model = kq.QuiltClassifier().fit(X[train], y[train])
    majority = np.bincount(np.unique(y, return_inverse=True)[1]).max() / len(y)
    assert model.score(X[test], y[test]) > majority + NATURAL[name]
    np.testing.assert_allclose(model.predict_proba(X[test]).sum(axis=1), 1.0)
