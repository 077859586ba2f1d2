"""Masks that make views absent, for experiments on complete data."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.random import RandomState
from scipy.stats import rankdata
from sklearn.utils import check_random_state

from kernelquilt._messages import quoted, warn_user
from kernelquilt._typing import Bools, Floats
from kernelquilt.data.blocks import is_frame
from kernelquilt.data.columns import (
    ViewColumns,
    has_view_level,
    resolve_columns,
    without_columns,
)
from kernelquilt.data.stack import KernelStack
from kernelquilt.data.validation import as_views, has_views
from kernelquilt.data.views import MultiView

_N_GROUPS = 4


def make_absent(
    X: Any,
    ratio: float,
    *,
    mechanism: str = "balanced",
    views: ViewColumns = None,
    random_state: int | RandomState | None = None,
) -> Any:
    """Make views absent.

    Every sample keeps at least one of the views it has, and what is absent stays absent.

    Parameters
    ----------
    X : MultiView, KernelStack, or array-like or DataFrame of shape (n_samples, n_features)
        The kernels of a stack count as views.
    ratio : float
        Fraction of the views that samples have to make absent, at least 0 and less than 1.
    mechanism : {"balanced", "per_sample", "mcar", "block", "mnar"}, default="balanced"
        - ``"balanced"``: every sample loses `ratio` times the views it has, drawn at random; where
          that is no whole number, random samples lose one more than others, so that the fraction
          over all samples is `ratio`.
        - ``"per_sample"``: every sample lacks the same number of views, ``ratio * n_views`` rounded
          half up, drawn at random. These are the masks of the literature. With few views the
          fraction is another one: of two views, 0.2 makes none absent and 0.3 every second.
        - ``"mcar"``: every view of every sample is absent independently with probability `ratio`.
        - ``"block"``: samples fall at random into a few groups, such as hospitals, and all samples
          of a group lack the same views, in number as with ``"per_sample"``. There are four
          groups, or more if it takes more for every view to be observed in a group.
        - ``"mnar"``: as ``"mcar"``, but the probability grows linearly with the rank of the
          sample's own value in the view: its mean standardised feature or, for kernels, its mean
          similarity with the other samples. The mean probability is `ratio`.

        All but ``"balanced"`` draw as if the data were complete. A warning says what fraction was
        reached if it is not `ratio`: because of rounding, or because every sample keeps a view,
        which leaves fewer absent where there are few views or `ratio` is large.
    views : dict of str to columns or "columns", default=None
        The views of 2-D data, as in `as_views`; needed unless a frame has MultiIndex columns.
    random_state : int, RandomState instance or None, default=None
        For what is made absent.

    Returns
    -------
    X : object of the type of the input
        A new object; 2-D data have NaN in all columns of an absent view. A new stack shares the
        kernels of the old one. Dicts and lists of views become a MultiView.

    Examples
    --------
    >>> from kernelquilt.datasets import load_example, make_absent
    >>> X, _ = load_example("digits")
    >>> X = make_absent(X, 0.3, random_state=0)
    >>> print(X.observed[:6].sum(axis=1), f"{1 - X.observed.mean():.3f}")
    [3 4 3 3 3 4] 0.300
    """
    if not 0 <= ratio < 1:
        raise ValueError(f"ratio must be at least 0 and less than 1, got {ratio}")
    if mechanism not in _MECHANISMS:
        raise ValueError(
            f"there is no mechanism {mechanism!r}; the mechanisms are {quoted(_MECHANISMS)}"
        )
    is_stack = isinstance(X, KernelStack)
    data: Any = X
    if is_stack and views is not None:
        raise ValueError("views= describes the columns of 2-D data; leave it None for a stack")
    two_dimensional = not (is_stack or has_views(X))
    if two_dimensional and views is None and not has_view_level(X):
        raise ValueError("2-D data are one view unless views={name: columns} says otherwise")
    if not is_stack:
        data = as_views(X, views, partial_nan="allow")
    margin = _MECHANISMS[mechanism](check_random_state(random_state), ratio, data)
    observed = data.observed & _kept(margin, data.observed)
    _warn_unless_reached(mechanism, ratio, data.observed, observed)
    if is_stack:
        return data._with_observed(observed)
    if two_dimensional:
        X = X if is_frame(X) else np.asarray(X)
        return without_columns(X, resolve_columns(X, views), observed)
    return data.with_observed(observed)


def _kept(margin: Floats, observed: Bools) -> Bools:
    """Keep what has a margin >= 0 and of every sample at least the largest that is observed."""
    last = np.where(observed, margin, -np.inf).argmax(axis=1)
    kept = margin >= 0
    kept[np.arange(len(kept)), last] |= ~(kept & observed).any(axis=1)
    return kept


def _warn_unless_reached(mechanism: str, ratio: float, before: Bools, after: Bools) -> None:
    """Say what fraction was made absent if it is not `ratio` to whole views and chance."""
    n_cells = max(int(before.sum()), 1)
    reached = 1.0 - after.sum() / n_cells
    exact = mechanism == "balanced" or (before.all() and mechanism in ("per_sample", "block"))
    chance = 0.5 / n_cells if exact else 3.0 * np.sqrt(ratio * (1.0 - ratio) / n_cells)
    if abs(reached - ratio) > 0.005 + chance:
        rounded = mechanism in ("per_sample", "block") and ratio <= 1.0 - 1.0 / before.shape[1]
        reason = (
            f"{mechanism!r} takes a whole number of views, the same from every sample, and "
            "'balanced' comes closer"
            if rounded
            else "every sample keeps one of its views"
        )
        warn_user(
            f"{100 * reached:.1f} % of the views were made absent and not {100 * ratio:.1f} %: "
            f"{reason}"
        )


def _n_absent(ratio: float, n_views: int) -> int:
    # 1e-9 because 0.35 * 10 + 0.5 must not fall short of 4 by rounding
    return min(int(np.floor(ratio * n_views + 0.5 + 1e-9)), n_views - 1)


def _balanced(rng: RandomState, ratio: float, data: Any) -> Floats:
    """Round the numbers of views that samples lose up or down so that their sum is rounded."""
    draws = np.where(data.observed, rng.uniform(size=data.shape), np.inf)
    having = data.observed.sum(axis=1)
    wanted = np.clip(ratio * having, 0, np.maximum(having - 1, 0))
    lost = np.floor(wanted + 1e-9)
    rest = np.maximum(wanted - lost, 0.0)
    order = rng.permutation(len(rest))
    lost[order] += np.diff(np.floor(np.cumsum(rest[order]) + 0.5 + 1e-9), prepend=0.0)
    return np.asarray(draws.argsort(axis=1).argsort(axis=1) - lost[:, None])


def _per_sample(rng: RandomState, ratio: float, data: Any) -> Floats:
    rank = rng.uniform(size=data.shape).argsort(axis=1).argsort(axis=1)
    return np.asarray(rank - _n_absent(ratio, data.shape[1]), dtype=np.float64)


def _mcar(rng: RandomState, ratio: float, data: Any) -> Floats:
    return rng.uniform(size=data.shape) - ratio


def _block(rng: RandomState, ratio: float, data: Any) -> Floats:
    """Go round the views in random order; each group keeps the next ones."""
    n, n_views = data.shape
    n_kept = n_views - _n_absent(ratio, n_views)
    n_groups = max(_N_GROUPS, -(-n_views // n_kept))
    distance = rng.permutation(n_views) - n_kept * np.arange(n_groups)[:, None]
    margin = n_kept - 1 - distance % n_views
    return margin[rng.randint(n_groups, size=n)].astype(np.float64)


def _mnar(rng: RandomState, ratio: float, data: Any) -> Floats:
    levels = _kernel_levels(data) if isinstance(data, KernelStack) else _view_levels(data)
    probability = np.full(data.shape, float(ratio))
    for column, present, level in zip(probability.T, data.observed.T, levels, strict=True):
        rank = (rankdata(level[present]) - 0.5) / max(present.sum(), 1)
        column[present] += min(ratio, 1 - ratio) * (2 * rank - 1)
    return rng.uniform(size=data.shape) - probability


_MECHANISMS: dict[str, Callable[[RandomState, float, Any], Floats]] = {
    "balanced": _balanced,
    "per_sample": _per_sample,
    "mcar": _mcar,
    "block": _block,
    "mnar": _mnar,
}


def _view_levels(data: MultiView) -> list[Floats]:
    """Return the mean standardised feature of each sample (n,), view by view."""
    levels = []
    for name, present in zip(data.names, data.observed.T, strict=True):
        level = np.zeros(len(data))
        values = np.ma.masked_invalid(data[name][present])
        if present.any():
            spread = values.std(axis=0)
            standardised = (values - values.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
            level[present] = standardised.mean(axis=1).filled(0.0)
        levels.append(level)
    return levels


def _kernel_levels(stack: KernelStack) -> list[Floats]:
    """Return the mean similarity of each sample (n,) up to a factor, kernel by kernel."""
    kernels = stack.training_kernels() if stack.square else stack.gram()
    return [np.nansum(kernel, axis=1, dtype=np.float64) for kernel in kernels]
