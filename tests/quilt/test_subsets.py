"""Samples with many subsets of their views: what is shared gives what is asked one by one."""

from itertools import product

import numpy as np
import pytest
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)

from kernelquilt.quilt.space import subsets
from kernelquilt.quilt.space.pair_maps import ByFeatures, BySamples
from kernelquilt.quilt.space.subsets import Products, completed_products
from kernelquilt.quilt.space.transfer import solve_transfer
from kernelquilt.quilt.subsets import raw_outputs, subset_outputs

VIEW_OF = np.array([0, 0, 1, 1, 1, 2, 3, 3])


def all_subsets(n_views):
    return np.array(list(product([False, True], repeat=n_views)))


def lists_of_subsets(n, n_views, rng):
    """All subsets for some samples, some in any order for others, none for one."""
    rows, kept = [], []
    for i in range(n):
        own = all_subsets(n_views)
        if i % 3 == 1:
            own = own[rng.permutation(len(own))[: 1 + i % 7]]
        if i != 5:
            rows.append(np.full(len(own), i))
            kept.append(own)
    return np.concatenate(rows), np.concatenate(kept)


@pytest.mark.parametrize(
    "estimator",
    [
        RandomForestClassifier(20, min_samples_leaf=2, random_state=0),
        ExtraTreesClassifier(20, random_state=0),
        RandomForestRegressor(20, random_state=0),
        ExtraTreesRegressor(20, random_state=0),
        HistGradientBoostingClassifier(max_iter=5),
    ],
    ids=lambda each: type(each).__name__,
)
@pytest.mark.parametrize("holes", [0.0, 0.3])
def test_estimators_on_columns(estimator, holes):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, len(VIEW_OF)))
    y = X[:, 0] * X[:, 2] + X[:, 5]
    X[rng.random(X.shape) < holes] = np.nan
    if hasattr(estimator, "predict_proba"):
        y = np.digitize(y, [-0.5, 0.5])
    elif holes:
        y = np.column_stack([y, -y, y**2])
    estimator.fit(X, y)
    new = rng.normal(size=(20, len(VIEW_OF)))
    new[rng.random(new.shape) < 0.2] = np.nan
    sample_of, kept = lists_of_subsets(len(new), 4, rng)
    found = subset_outputs(estimator, new, VIEW_OF, sample_of, kept)
    expected = raw_outputs(estimator, np.where(kept[:, VIEW_OF], new[sample_of], np.nan))
    np.testing.assert_allclose(found, expected, atol=1e-14)
    assert np.ptp(expected, axis=0).min() > 0.01


def features(n, sizes, observed, rng):
    hidden = rng.normal(size=(n, 3))
    Z = [hidden @ rng.normal(size=(3, d)) + rng.normal(size=(n, d)) for d in sizes]
    return [np.where(present[:, None], z, 0.0) for z, present in zip(Z, observed.T, strict=True)]


@pytest.mark.parametrize("share", [0.0, 0.4])
@pytest.mark.parametrize(
    ("sizes", "kind"), [((60, 50, 45, 70), BySamples), ((4, 6, 3, 5), ByFeatures)], ids=str
)
def test_completed_views(sizes, kind, share, monkeypatch):
    rng = np.random.default_rng(0)
    observed = rng.random((40, 4)) >= share
    Z = features(40, sizes, observed, rng)
    kernels = np.array([z @ z.T for z in Z]) if kind is BySamples else None
    transfer, _ = solve_transfer(Z, observed, kernels=kernels)
    assert all(isinstance(each, kind) for each in transfer.second)
    check_completed(transfer, sizes, rng)
    for name in ("HELD", "BLOCK"):  # one sample at a time
        monkeypatch.setattr(subsets, name, 1)
        check_completed(transfer, sizes, rng)


def test_views_that_nothing_serves():
    rng = np.random.default_rng(0)
    sizes = 4, 6, 3, 5
    observed = np.ones((40, 4), dtype=bool)
    observed[:20, 2] = observed[20:, :2] = False  # samples have the third, or the first two
    observed[:, 3] = np.arange(40) >= 36  # too few samples to learn from
    transfer, _ = solve_transfer(features(40, sizes, observed, rng), observed)
    assert transfer.second[2] is transfer.second[3] is None
    check_completed(transfer, sizes, rng)


def check_completed(transfer, sizes, rng):
    present = np.ones((9, 4), dtype=bool)
    Z = features(9, sizes, present, rng)
    lengths = rng.random((4, 9)) + 1.0
    right = [rng.normal(size=(d, 3)) for d in sizes]
    sample_of, kept = lists_of_subsets(9, 4, rng)
    some = np.flatnonzero(kept.any(axis=1))
    known = [np.where(kept[:, [p]], z[sample_of], 0.0) for p, z in enumerate(Z)]
    filled = transfer.complete(known, kept)
    expected = np.hstack(filled) @ np.vstack(right)
    squares = np.array([np.square(z).sum(axis=1) for z in filled])
    total = np.where(kept.T, lengths[:, sample_of], squares).sum(axis=0)
    found = [
        Products(each.rows, each.products.copy(), each.lengths)
        for each in completed_products(transfer, Z, present, lengths, sample_of, kept, right)
    ]
    rows = np.concatenate([each.rows for each in found])
    assert sorted(rows) == list(range(len(kept)))
    products, squares = np.empty_like(expected), np.empty_like(total)
    products[rows] = np.concatenate([each.products for each in found])
    squares[rows] = np.concatenate([each.lengths for each in found])
    np.testing.assert_allclose(products[some], expected[some], atol=1e-11)
    for each in completed_products(transfer, Z, present, None, sample_of, kept, right):
        np.testing.assert_allclose(each.products, products[each.rows], atol=1e-11)
        assert each.lengths is None
    np.testing.assert_allclose(squares[some], total[some], atol=1e-11)
