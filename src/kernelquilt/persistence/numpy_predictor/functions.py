"""Kernel functions of blocks (n, d) and (m, d)."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

FEW_COLUMNS = 32  # up to which distances are summed column by column


def _squared_distances(A: NDArray[Any], B: NDArray[Any]) -> NDArray[Any]:
    if A.shape[1] <= FEW_COLUMNS:
        squared = np.zeros((len(A), len(B)))
        for a, b in zip(A.T, B.T, strict=True):
            squared += np.square(np.subtract.outer(a, b))
        return squared
    # a matrix product is faster, but cancels for close pairs
    centre = B.mean(axis=0)
    A, B = A - centre, B - centre
    lengths = np.add.outer(np.einsum("ij,ij->i", A, A), np.einsum("ij,ij->i", B, B))
    squared = lengths - 2 * (A @ B.T)
    for i, j in np.argwhere(squared <= 1e-2 * lengths):
        squared[i, j] = np.square(A[i] - B[j]).sum()
    return squared


def _gaussian(A: NDArray[Any], B: NDArray[Any], function: dict[str, Any]) -> NDArray[Any]:
    unit = function["unit"]
    width = min(max(function["width"] / unit, 1e-150), 1e150)
    with np.errstate(over="ignore"):
        return np.exp(_squared_distances(A / unit, B / unit) * (-0.5 / width**2))


def _median_gaussian(A: NDArray[Any], B: NDArray[Any], function: dict[str, Any]) -> NDArray[Any]:
    A, B = ((each - function["centres"]) / function["scales"] for each in (A, B))
    if function["draws_in"]:
        A, B = (np.clip(each, -1e100, 1e100) for each in (A, B))
        A, B = (each / np.sqrt(1.0 + np.square(each / 3.0)) for each in (A, B))
    with np.errstate(over="ignore"):
        return np.exp(_squared_distances(A, B) / -function["squared_width"])


def _jaccard(A: NDArray[Any], B: NDArray[Any], function: dict[str, Any]) -> NDArray[Any]:
    in_a, in_b = (A != 0).astype(np.float64), (B != 0).astype(np.float64)
    both = in_a @ in_b.T
    either = np.add.outer(in_a.sum(axis=1), in_b.sum(axis=1)) - both
    return np.divide(both, either, out=np.ones_like(both), where=either > 0)


def _latent_semantic(A: NDArray[Any], B: NDArray[Any], function: dict[str, Any]) -> NDArray[Any]:
    units = []
    for block in (A, B):
        projected = block @ function["components"].T
        length = np.linalg.norm(projected, axis=1)
        length[length <= 1e-10 * np.linalg.norm(block, axis=1)] = np.inf
        units.append(projected / length[:, None])
    return units[0] @ units[1].T


def _rbf(A: NDArray[Any], B: NDArray[Any], function: dict[str, Any]) -> NDArray[Any]:
    squares = [np.einsum("ij,ij->i", each, each) for each in (A, B)]
    squared = np.maximum(np.add.outer(*squares) - 2 * (A @ B.T), 0)
    return np.exp(-_gamma(A, function) * squared)


def _polynomial(A: NDArray[Any], B: NDArray[Any], function: dict[str, Any]) -> NDArray[Any]:
    inner = _gamma(A, function) * (A @ B.T) + function.get("coef0", 1)
    return np.asarray(inner ** function.get("degree", 3))


def _sigmoid(A: NDArray[Any], B: NDArray[Any], function: dict[str, Any]) -> NDArray[Any]:
    return np.tanh(_gamma(A, function) * (A @ B.T) + function.get("coef0", 1))


def _laplacian(A: NDArray[Any], B: NDArray[Any], function: dict[str, Any]) -> NDArray[Any]:
    distances = np.zeros((len(A), len(B)))
    for a, b in zip(A.T, B.T, strict=True):
        distances += np.abs(np.subtract.outer(a, b))
    return np.exp(-_gamma(A, function) * distances)


def _cosine(A: NDArray[Any], B: NDArray[Any], function: dict[str, Any]) -> NDArray[Any]:
    lengths = [np.linalg.norm(each, axis=1) for each in (A, B)]
    A, B = (
        each / np.where(length > 0, length, 1.0)[:, None]
        for each, length in zip((A, B), lengths, strict=True)
    )
    return A @ B.T


def _additive_chi2(A: NDArray[Any], B: NDArray[Any], function: dict[str, Any]) -> NDArray[Any]:
    total = np.zeros((len(A), len(B)))
    for a, b in zip(A.T, B.T, strict=True):
        sums = np.add.outer(a, b)
        total -= np.where(
            sums != 0, np.square(np.subtract.outer(a, b)) / np.where(sums, sums, 1), 0
        )
    return total


def _gamma(A: NDArray[Any], function: dict[str, Any]) -> float:
    gamma = function.get("gamma")
    return float(1.0 / A.shape[1] if gamma is None else gamma)


FUNCTIONS: dict[str, Callable[[NDArray[Any], NDArray[Any], dict[str, Any]], NDArray[Any]]] = {
    "gaussian": _gaussian,
    "median_gaussian": _median_gaussian,
    "jaccard": _jaccard,
    "latent_semantic": _latent_semantic,
    "linear": lambda A, B, function: A @ B.T,
    "polynomial": _polynomial,
    "rbf": _rbf,
    "laplacian": _laplacian,
    "sigmoid": _sigmoid,
    "cosine": _cosine,
    "additive_chi2": _additive_chi2,
    "chi2": lambda A, B, function: np.exp(
        function.get("gamma", 1.0) * _additive_chi2(A, B, function)
    ),
}
