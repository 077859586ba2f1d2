"""The same data as every kind of input."""

import numpy as np
import pandas as pd

import kernelquilt as kq

VIEWS = {"a": [0, 1, 2], "b": [3, 4], "c": [5, 6, 7]}


def as_input(kind, X):
    """Return the samples in the form asked for, and what the estimator must know about it."""
    if kind == "array":
        return X, {"views": VIEWS}
    columns = list("pqrstuvw")
    if kind == "frame":
        views = {name: [columns[c] for c in cols] for name, cols in VIEWS.items()}
        return pd.DataFrame(X, columns=columns), {"views": views}
    if kind == "multi_index":
        top = [name for name, cols in VIEWS.items() for _ in cols]
        return pd.DataFrame(X, columns=pd.MultiIndex.from_arrays([top, columns])), {}
    data = kq.as_views(X, VIEWS)
    if kind == "views":
        return data, {}
    stack = kq.ViewKernels().fit_transform(data)
    if kind == "stack":
        return stack, {}
    if kind == "factors":
        return kq.LowRankStack.from_kernels(stack, 1e-14), {}
    assert kind == "precomputed"
    K = np.moveaxis(stack.gram(), 0, -1).copy()
    K[~stack.observed[:, None, :] | ~stack.observed[None, :, :]] = np.nan
    return K, {"kernels": "precomputed"}


INPUTS = ["array", "frame", "views", "stack", "precomputed"]


# calibration, stacking, voting and train_test_split ignore scikit-learn's pairwise tag
CONTAINERS = ["array", "frame", "views", "stack"]


def as_names(data, kind):
    return data.names if kind == "stack" else None
