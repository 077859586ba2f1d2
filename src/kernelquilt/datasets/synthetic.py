"""Synthetic multi-view classification problems."""

import numpy as np
from numpy.random import RandomState
from numpy.typing import ArrayLike
from scipy.linalg import helmert
from sklearn.utils import check_random_state

from kernelquilt._typing import Floats, Indices
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
    random_state: int | RandomState | None = None,
) -> tuple[MultiView, Indices]:
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
    random_state : int, RandomState instance or None, default=None
        For all that is drawn.

    Returns
    -------
    X : MultiView of shape (n_samples, n_views)
        Complete; `make_absent` makes views absent.
    y : ndarray of int of shape (n_samples,)
        Classes 0 to n_classes - 1.

    Examples
    --------
    >>> from kernelquilt.datasets import make_multiview
    >>> X, y = make_multiview(100, 3, relevance=[1, 0.5, 0], random_state=0)
    >>> X.shape, X.names, X["view_0"].shape
    ((100, 3), ('view_0', 'view_1', 'view_2'), (100, 5))
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

    rng = check_random_state(random_state)
    y = _labels(rng, n_samples, shares)
    # the columns of a Helmert matrix are the vertices of a simplex with edges of length sqrt(2)
    centres = helmert(n_classes).T * (_CLASS_DISTANCE / np.sqrt(2))
    shape = (n_samples, n_classes - 1)
    common = centres[y] + np.sqrt(redundancy) * rng.normal(size=shape)
    blocks = []
    for size, factor in zip(columns, strength, strict=True):
        signal = common + np.sqrt(1 - redundancy) * rng.normal(size=shape)
        loadings = rng.normal(size=(n_classes - 1, size))
        loadings /= np.linalg.norm(loadings, axis=1, keepdims=True)
        noise = feature_noise * rng.normal(size=(n_samples, size))
        blocks.append(factor * signal @ loadings + noise)
    return MultiView(blocks), _with_noise(rng, y, label_noise, n_classes)


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
