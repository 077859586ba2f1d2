"""Kernels that are computed where they are needed, and the choice of landmarks among samples."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import issparse
from sklearn.cluster import KMeans

from kernelquilt._typing import Floats, Indices
from kernelquilt.data.training import Samples
from kernelquilt.kernels.inputs import KernelInput


class TrainingKernel(NamedTuple):
    """One kernel between the n training samples that have it, computed where it is needed."""

    name: str
    n: int
    columns: Callable[[Indices], Floats]  # (n, k) for k positions
    rows: Callable[[Indices, Indices], Floats]  # (k, l) for k and l positions
    diag: Callable[[], Floats]  # (n,)
    points: Any  # columns of the view, (n, d), if it has any


def training_kernel(held: KernelInput, having: Samples, m: int, called: Indices) -> TrainingKernel:
    """Return kernel m of training samples that all have it, `called` (n,) so by their input."""
    return TrainingKernel(
        held.names[m],
        len(called),
        lambda chosen: held.between(having, m, called[chosen]),
        lambda some, chosen: held.between(having[some], m, called[chosen]),
        lambda: np.asarray(held.diag(having, m), dtype=np.float64),
        None if held.views is None else having[having.names[0]],
    )


def training_kernels(held: KernelInput, data: Samples) -> Iterator[tuple[TrainingKernel, Indices]]:
    """Yield each kernel of the training samples `data`, and the samples that have it."""
    for m in range(len(held.names)):
        rows = np.flatnonzero(held.observed[:, m])
        yield training_kernel(held, held.narrowed(data, m)[rows], m, rows), rows


def _uniform(kernel: TrainingKernel, count: int, rng: np.random.RandomState) -> Indices:
    return rng.choice(kernel.n, count, replace=False)


def _kmeans(kernel: TrainingKernel, count: int, rng: np.random.RandomState) -> Indices:
    """Return the sample nearest to each centre, and others at random where two share one.

    Samples given by kernels alone are clustered by their similarities with random landmarks.
    """
    points = kernel.points
    if points is None:
        points = kernel.columns(_uniform(kernel, count, rng))
    clusters = KMeans(count, n_init=1, random_state=rng).fit(points)
    # the position of the closest sample of each cluster
    if issparse(points):
        own = clusters.transform(points)[np.arange(kernel.n), clusters.labels_]
    else:
        own = np.linalg.norm(points - clusters.cluster_centers_[clusters.labels_], axis=1)
    order = np.lexsort((own, clusters.labels_))
    _, first = np.unique(clusters.labels_[order], return_index=True)
    chosen = order[first]
    others = np.setdiff1d(np.arange(kernel.n), chosen)
    more = rng.choice(others, count - len(chosen), replace=False)
    return np.concatenate([chosen, more])


def _pivoted_cholesky(kernel: TrainingKernel, count: int, rng: np.random.RandomState) -> Indices:
    """Return the samples whose remaining k(x, x) is largest, one after the other."""
    remaining = kernel.diag().astype(np.float64)
    remaining_start = remaining.max()
    factor = np.zeros((kernel.n, count))
    chosen: list[int] = []
    for k in range(count):
        pivot = int(remaining.argmax())
        if remaining[pivot] <= 1e-12 * remaining_start:
            break
        chosen.append(pivot)
        column = kernel.columns(np.array([pivot]))[:, 0] - factor[:, :k] @ factor[pivot, :k]
        factor[:, k] = column / np.sqrt(remaining[pivot])
        remaining -= np.square(factor[:, k])
        remaining[chosen] = 0.0
    return np.array(chosen or [0], dtype=np.intp)


LANDMARKS: dict[str, Callable[[TrainingKernel, int, np.random.RandomState], Indices]] = {
    "uniform": _uniform,
    "kmeans": _kmeans,
    "pivoted_cholesky": _pivoted_cholesky,
}
