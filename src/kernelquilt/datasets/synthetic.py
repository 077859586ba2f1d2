"""Synthetic multi-view classification problems."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.random import RandomState
from numpy.typing import ArrayLike
from scipy.linalg import helmert
from sklearn.utils import check_random_state

from kernelquilt._typing import Floats, Indices
from kernelquilt.core.dask_chunks import arrays_of_calls
from kernelquilt.data.views import MultiView

_CLASS_DISTANCE = 3.0


def make_multiview(
    n_samples: int = 200,
    n_views: int = 5,
    *,
    n_features: ArrayLike = 5,
    relevance: ArrayLike | None = None,
    redundancy: float = 0.0,
    feature_noise: float = 1.0,
    label_noise: float = 0.0,
    n_classes: int = 2,
    proportions: ArrayLike | None = None,
    chunks: int | Sequence[int] | None = None,
    random_state: int | RandomState | None = None,
) -> tuple[MultiView, Any]:
    r"""Make views that say more or less about the class of a sample.

    With the class centres :math:`c_k`, all 3 apart, and standard normal :math:`e`, sample i of
    class k has in view v the signal and the features

    .. math:: s_{iv} = c_k + \sqrt{\rho}\, e_i + \sqrt{1 - \rho}\, e_{iv}, \qquad
              x_{iv} = r_v A_v s_{iv} + \sigma e'_{iv},

    where r is `relevance`, :math:`\rho` `redundancy`, :math:`\sigma` `feature_noise` and the random
    :math:`A_v` has columns of length 1. Classes are linearly separable up to the noise.

    Parameters
    ----------
    n_samples : int, default=200
        Number of samples.
    n_views : int, default=5
        Number of views.
    n_features : int or array-like of int of shape (n_views,), default=5
        Columns of each view.
    relevance : array-like of float of shape (n_views,), default=None
        Size of the signal in each view; a view with 0 is pure noise. By default from 1 for the
        first view down to 0 for the last.
    redundancy : float, default=0.0
        Between 0 (given the class, the views are independent, so that they complete each other)
        and 1 (all views carry the same signal).
    feature_noise : float, default=1.0
        Standard deviation of the noise in every column.
    label_noise : float, default=0.0
        Fraction of the samples whose label is replaced by another class.
    n_classes : int, default=2
        Number of classes.
    proportions : array-like of float of shape (n_classes,), default=None
        Sizes of the classes relative to each other, before label noise; by default equal.
    chunks : int, sequence of int or None, default=None
        Number of samples in each chunk of lazy views, which dask draws when they are needed, with
        `proportions` and `label_noise` in each of them; None draws all samples now.
    random_state : int, RandomState instance or None, default=None
        For all that is drawn.

    Returns
    -------
    X : MultiView of shape (n_samples, n_views)
        Complete; `make_absent` makes views absent.
    y : ndarray of int of shape (n_samples,), or array of dask
        Classes 0 to n_classes - 1.

    Examples
    --------
    >>> from kernelquilt.datasets import make_multiview
    >>> X, y = make_multiview(100, 3, relevance=[1, 0.5, 0], random_state=0)
    >>> X.shape, X.names, X["view_0"].shape
    ((100, 3), ('view_0', 'view_1', 'view_2'), (100, 5))

    More than memory holds, if dask is there:

    >>> X, y = make_multiview(1_000_000, chunks=50_000, random_state=0)  # doctest: +SKIP
    >>> X.shape  # doctest: +SKIP
    (1000000, 5)
    """
    for name, count, least in (
        ("n_samples", n_samples, 1),
        ("n_views", n_views, 1),
        ("n_classes", n_classes, 2),
    ):
        if count < least:
            raise ValueError(f"{name} must be at least {least}, got {count}")
    for name, fraction in (("redundancy", redundancy), ("label_noise", label_noise)):
        if not 0 <= fraction <= 1:
            raise ValueError(f"{name} must be between 0 and 1, got {fraction}")
    if not 0 <= feature_noise < np.inf:
        raise ValueError(f"feature_noise must be finite and at least 0, got {feature_noise}")
    strength = _one_each(
        "relevance", np.linspace(1, 0, n_views) if relevance is None else relevance, n_views
    )
    sizes = np.full(n_views, n_features) if np.ndim(n_features) == 0 else n_features
    columns = _one_each("n_features", sizes, n_views).astype(int)
    if (columns < 1).any():
        raise ValueError(f"n_features must be at least 1, got {n_features!r}")
    shares = _one_each(
        "proportions", np.ones(n_classes) if proportions is None else proportions, n_classes
    )
    if shares.sum() == 0:
        raise ValueError("proportions must not all be 0")

    problem = _Problem(columns, strength, redundancy, feature_noise, label_noise, n_classes, shares)
    rng = check_random_state(random_state)
    if chunks is None:
        *blocks, y = _draw(problem, rng, n_samples)
        return MultiView(blocks), y
    lengths = _lengths(chunks, n_samples)
    loadings = [_loadings(rng, n_classes, size) for size in columns]
    seeds = rng.randint(2**31 - 1, size=len(lengths)).tolist()
    calls = [(problem, seed, length, loadings) for seed, length in zip(seeds, lengths, strict=True)]
    like = [np.empty((0, size)) for size in columns] + [np.empty(0, dtype=np.intp)]
    *arrays, labels = arrays_of_calls(_draw_chunk, calls, lengths, like)
    return MultiView(arrays), labels


class _Problem(NamedTuple):
    """What a sample is drawn from; the names are those of `make_multiview`."""

    columns: Indices
    strength: Floats
    redundancy: float
    feature_noise: float
    label_noise: float
    n_classes: int
    shares: Floats


def _draw(
    problem: _Problem, rng: RandomState, n: int, loadings: Sequence[Floats] | None = None
) -> tuple[Any, ...]:
    """Return the views of n samples, with given or random loadings, and their classes."""
    classes = problem.n_classes
    y = _labels(rng, n, problem.shares)
    # the columns of a Helmert matrix are the vertices of a simplex with edges of length sqrt(2)
    centres = helmert(classes).T * (_CLASS_DISTANCE / np.sqrt(2))
    shape = (n, classes - 1)
    common = centres[y] + np.sqrt(problem.redundancy) * rng.normal(size=shape)
    blocks = []
    for v, (size, factor) in enumerate(zip(problem.columns, problem.strength, strict=True)):
        signal = common + np.sqrt(1 - problem.redundancy) * rng.normal(size=shape)
        A = _loadings(rng, classes, size) if loadings is None else loadings[v]
        noise = problem.feature_noise * rng.normal(size=(n, size))
        blocks.append(factor * signal @ A + noise)
    return *blocks, _with_noise(rng, y, problem.label_noise, classes)


def _draw_chunk(
    problem: _Problem, seed: int, n: int, loadings: Sequence[Floats]
) -> tuple[Any, ...]:
    return _draw(problem, RandomState(seed), n, loadings)


def _loadings(rng: RandomState, n_classes: int, size: int) -> Floats:
    A = rng.normal(size=(n_classes - 1, size))
    return np.asarray(A / np.linalg.norm(A, axis=1, keepdims=True))


def _lengths(chunks: int | Sequence[int], n: int) -> list[int]:
    """Return the number of samples of each chunk."""
    if isinstance(chunks, int | np.integer):
        if chunks < 1:
            raise ValueError(f"chunks must be at least 1, got {chunks}")
        return [min(int(chunks), n - start) for start in range(0, n, int(chunks))]
    lengths = [int(length) for length in chunks]
    if min(lengths, default=0) < 1 or sum(lengths) != n:
        raise ValueError(f"chunks must be positive and have the sum {n}, got {chunks!r}")
    return lengths


def _one_each(name: str, values: ArrayLike, count: int) -> Floats:
    """Return `values` as an array after checking that they are `count` numbers >= 0."""
    numbers = np.asarray(values, dtype=np.float64)
    if numbers.shape != (count,):
        kind = "classes" if name == "proportions" else "views"
        raise ValueError(f"{name} must be one number for each of {count} {kind}, got {values!r}")
    if not ((numbers >= 0) & (numbers < np.inf)).all():
        raise ValueError(f"{name} must be finite and at least 0, got {values!r}")
    return numbers


def _labels(rng: RandomState, n_samples: int, shares: Floats) -> Indices:
    """Return classes in random order whose sizes have the proportions `shares`."""
    upper = np.cumsum(shares) / shares.sum()
    in_order = np.searchsorted(upper, (np.arange(n_samples) + 0.5) / n_samples)
    return np.asarray(rng.permutation(in_order))


def _with_noise(rng: RandomState, y: Indices, label_noise: float, n_classes: int) -> Indices:
    flipped = rng.permutation(len(y))[: round(label_noise * len(y))]
    noisy = y.copy()
    noisy[flipped] += rng.randint(1, n_classes, size=len(flipped))
    return noisy % n_classes
