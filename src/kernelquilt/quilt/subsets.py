"""Scores of samples with many subsets of their views, of which what they share is computed once.

Experts on kernels see completed views (:mod:`kernelquilt.quilt.space.subsets`). Of the experts on
columns, a tree sends a sample whose column is NaN to one side, so that subsets part only at nodes
where the value goes to the other side: forests walk once through each tree with all subsets of a
sample. Other estimators are asked about each subset.
"""

from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)

from kernelquilt._typing import Bools, Floats, Indices
from kernelquilt.kernels.landmark_features import Features
from kernelquilt.quilt.space.model import Quilt
from kernelquilt.quilt.space.subsets import completed_products

FORESTS = (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
BLOCK = 2**22  # numbers that are held at a time


def quilt_scores(
    quilt: Quilt,
    Z: Features,
    present: Bools,
    lengths: Floats,
    sample_of: Indices,
    observed: Bools,
    with_joint: bool,
) -> tuple[Floats, Floats]:
    """Return the scores of samples by the experts on kernels, completed by transfer.

    Parameters
    ----------
    quilt : Quilt
    Z, present, lengths
        Features of n samples, the kernels that they have and squared lengths, as in
        `Quilt.scores`.
    sample_of : ndarray of int of shape (P,)
        Sample of each row, in ascending order.
    observed : ndarray of bool of shape (P, M)
        Kernels that are left in it.
    with_joint : bool
        Whether expert B has a weight; it is the dear one.

    Returns
    -------
    early, late
        As of `Quilt.scores`, of the P rows; zero for expert B if it has none.
    """
    weighted, joint = quilt.weighted.ridge, quilt.joint if with_joint else None
    n_outputs = len(weighted.bias)
    late = np.zeros((len(quilt.late), len(observed), n_outputs))
    for out, ridge, z, kept in zip(late, quilt.late, Z, observed.T, strict=True):
        out[kept] = ridge.scores(z)[sample_of[kept]]
    vectors = [weighted.coef] if joint is None else [weighted.coef, joint.points.T]
    right = np.split(np.hstack(vectors), np.cumsum([z.shape[1] for z in Z])[:-1])
    early = np.zeros((1 if quilt.joint is None else 2, len(observed), n_outputs))
    known = None if joint is None else lengths
    for rows, products, squares in completed_products(
        quilt.completion.transfer, Z, present, known, sample_of, observed, right
    ):
        early[0, rows] = products[:, :n_outputs] + weighted.bias
        if joint is not None:
            early[1, rows] = joint.scores_of_products(products[:, n_outputs:], squares)
    early[:, ~observed.any(axis=1)] = 0.0
    return early, quilt.with_pattern(late, observed)


def raw_outputs(estimator: Any, X: Floats) -> Floats:
    """Return probabilities (n, c) of the classes that the estimator knows, or predictions."""
    if is_classifier(estimator):
        return np.asarray(estimator.predict_proba(X))
    return np.asarray(estimator.predict(X), dtype=np.float64).reshape(len(X), -1)


def subset_outputs(
    estimator: Any, X: Floats, view_of: Indices, sample_of: Indices, kept: Bools
) -> Floats:
    """Return what `raw_outputs` are if columns of views that are left out are NaN.

    Parameters
    ----------
    estimator : estimator
        Fitted to d columns.
    X : ndarray of shape (n, d)
        NaN where a value is not known.
    view_of : ndarray of int of shape (d,)
        The view of each column.
    sample_of : ndarray of int of shape (P,)
        Sample of each row, in ascending order.
    kept : ndarray of bool of shape (P, V)
        Views that are left in it.

    Returns
    -------
    outputs : ndarray of shape (P, c)
    """
    if type(estimator) in FORESTS:
        return _forest_outputs(estimator, X, view_of, sample_of, kept)
    size = max(1, BLOCK // X.shape[1])
    parts = [slice(start, start + size) for start in range(0, len(kept), size)]
    return np.concatenate(
        [
            raw_outputs(estimator, np.where(kept[part][:, view_of], X[sample_of[part]], np.nan))
            for part in parts
        ]
    )


def _forest_outputs(
    forest: Any, X: Floats, view_of: Indices, sample_of: Indices, kept: Bools
) -> Floats:
    from kernelquilt.quilt.compiled import add_leaves

    known = ~np.isnan(X)
    values = np.where(known, X, 0.0).astype(np.float32)  # as trees take them
    starts = np.searchsorted(sample_of, np.arange(len(X) + 1))
    order = np.arange(len(kept))
    total: Any = None
    for each in forest.estimators_:
        tree = each.tree_
        # of probabilities the classes stand last, of predictions the targets
        leaves = tree.value[:, 0] if is_classifier(forest) else tree.value[:, :, 0]
        if total is None:
            total = np.zeros((len(kept), leaves.shape[1]))
        add_leaves(
            tree.children_left,
            tree.children_right,
            tree.feature,
            tree.threshold,
            tree.missing_go_to_left.astype(np.bool_),
            np.ascontiguousarray(leaves),
            tree.max_depth,
            values,
            known,
            view_of,
            starts,
            kept,
            order,
            total,
        )
    return np.asarray(total / len(forest.estimators_))
