r"""What each view of a sample adds to what a model says of it: Shapley values.

A model that takes any views defines a game for each sample, whose players are the views it has:
v(T) is the output for the sample with the views T alone. The value of view p among S, m of them, is

    phi_p = sum_{T in S \ p} |T|! (m - |T| - 1)! / m! (v(T + p) - v(T)),    (1)

so that sum_p phi_p = v(S) - v(no view). It is also the mean of v(T + p) - v(T) over all orders of
the views, T being those before p. An order and its reverse make a pair with a smaller variance;
sampled values are means over pairs, each of which has the same sum [1]_.

=====================  ===========================================
symbol                 name here
=====================  ===========================================
T, v(T)                ``Game.subsets[k]``, ``table[:, k]``
(1) or one pair        ``Game.coef[r]``
v(no view)             ``base``
=====================  ===========================================

References
----------
.. [1] R. Mitchell, J. Cooper, E. Frank, G. Holmes. Sampling permutations for Shapley value
   estimation. Journal of Machine Learning Research 23, 2022.
"""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from scipy.special import comb
from sklearn.utils import check_random_state

from kernelquilt._typing import Array, Bools, Floats, Indices
from kernelquilt.inspection.samples import (
    Cohort,
    Response,
    response_of,
    response_without_views,
    samples_of,
)

EXACT, LARGEST = 10, 20  # views of a sample: all subsets, and the most without a word
PAIRS = 2**20  # of a sample and a subset of its views, held at a time
WAYS = 3  # subsets of a sample, on average, from which it pays to share what they have in common
ROWS = 2**15  # subsets of samples in a block where they share
CELLS, FEWEST, MOST = 2**25, 256, 2**14  # numbers, and samples at least and at most, of a block


@dataclass(frozen=True, eq=False)
class ViewContributions:
    """What the views of n samples add to the output of a model.

    Attributes
    ----------
    values : ndarray of shape (n, V) or (n, V, n_outputs)
        Contributions; exactly 0 for absent views.
    base : float or ndarray of shape (n_outputs,)
        The output for a sample without any view.
    output : ndarray of shape (n,) or (n, n_outputs)
        The output for the samples: ``values.sum(axis=1) + base`` to rounding.
    standard_errors : ndarray of the shape of `values`
        Of sampled contributions; 0 where all subsets were taken.
    view_names : tuple of V str
        Names of the views.
    observed : ndarray of bool of shape (n, V)
        Which views the samples have.
    output_names : tuple of n_outputs str or None
        The classes, where there are several outputs.
    what : str
        What the output is, such as ``"log odds of 1"``.
    index : ndarray of shape (n,)
        Identifiers of the samples.

    Examples
    --------
    >>> import kernelquilt as kq
    >>> X, y = kq.datasets.load_example("wdbc")
    >>> X = kq.datasets.make_absent(X, 0.3, random_state=0)
    >>> model = kq.LateFusionClassifier().fit(X[:100], y[:100])
    >>> found = kq.inspection.view_contributions(model, X[100:103])
    >>> found.values.shape, found.view_names == X.names
    ((3, 3), True)
    """

    values: Floats
    base: Any
    output: Floats
    standard_errors: Floats
    view_names: tuple[str, ...]
    observed: Bools
    output_names: tuple[str, ...] | None
    what: str
    index: Array


class Game(NamedTuple):
    """The subsets of m views that are asked for, and what values are made of.

    Attributes
    ----------
    subsets : ndarray of bool of shape (K, m)
        The first one is empty.
    coef : ndarray of shape (R, m, K)
        Of v(subsets) in R estimates of the values.
    """

    subsets: Bools
    coef: Floats


def view_contributions(
    model: Any,
    X: Any,
    *,
    response_method: str = "auto",
    method: str = "auto",
    n_permutations: int = 32,
    n_jobs: int | None = None,
    random_state: Any = None,
    verbose: int = 0,
) -> ViewContributions:
    """Return what each view of each sample adds to the output of a model.

    Shapley values, by leaving views out: exact for samples with up to 10 views, without data
    in the place of absent views and without background samples. The output is that of
    `response_method`: log odds, or logarithms of probabilities of several classes, because on
    this scale evidence adds up; scores; predictions of a regression; risks.

    Parameters
    ----------
    model : fitted estimator
        Any estimator of this package, a pipeline that ends in one, or a search of these.
    X : MultiView, dict, KernelStack, DataFrame or array of n samples
        In the form of the training samples. The views of a stack are its kernels.
    response_method : {"auto", "predict_proba", "decision_function", "predict"}, default="auto"
        ``"auto"`` takes the first of these that the model has. Probabilities below 1e-15 count as
        that.
    method : {"auto", "exact", "sampling"}, default="auto"
        ``"exact"`` takes all subsets of up to 20 views, of which there are a million;
        ``"sampling"`` orders of the views at random; ``"auto"`` the first for samples with up to
        10 views and the second for those with up to 20.
    n_permutations : int, default=32
        Orders that are sampled, an even number: each one with its reverse.
    n_jobs : int or None, default=None
        Threads over blocks of samples; results do not depend on it.
    random_state : int, RandomState instance or None, default=None
        For orders of views, which are the same for all samples.
    verbose : int, default=0
        Above 0, joblib reports on the blocks.

    Returns
    -------
    contributions : ViewContributions
        What each view of each sample adds.

    Notes
    -----
    A model is asked about 2^m - 1 subsets of the m views of a sample, or at most m times
    `n_permutations`, in blocks. Estimators of this package compute once for a sample what all of
    its subsets have in common; pipelines are asked about each subset as about any sample.

    Examples
    --------
    >>> import kernelquilt as kq
    >>> X, y = kq.datasets.load_example("wdbc")
    >>> model = kq.LateFusionClassifier().fit(X[:200], y[:200])
    >>> found = kq.inspection.view_contributions(model, X[200:205])
    >>> found.view_names, found.values.shape
    (('mean', 'error', 'worst'), (5, 3))
    >>> bool(abs(found.values.sum(axis=1) + found.base - found.output).max() < 1e-10)
    True
    """
    samples = samples_of(model, X)
    check_counts(samples, method)
    if n_permutations < 4 or n_permutations % 2:
        raise ValueError(
            f"n_permutations must be an even number, at least 4, got {n_permutations}: orders come "
            "with their reverse, and standard errors need two pairs"
        )
    response = response_of(model, response_method)
    base = response_without_views(model, samples, response)
    rng = check_random_state(random_state)
    drawn = [rng.permutation(len(samples.names)) for _ in range(n_permutations // 2)]
    orders = np.array([order for each in drawn for order in (each, each[::-1])])
    asked = Asked(samples, response, n_jobs, verbose)
    shape = (*samples.observed.shape, *base.shape)
    values, errors = np.zeros(shape), np.zeros(shape)
    output = np.empty((shape[0], *shape[2:]))
    output[:] = base
    for chunk in _chunks(samples.observed, method, n_permutations):
        _explain(asked, base, chunk, method, orders, values, errors, output)
    return ViewContributions(
        values,
        base if base.ndim else float(base),
        output,
        errors,
        samples.names,
        samples.observed,
        response.outputs,
        response.what,
        samples.index,
    )


def check_counts(samples: Cohort, method: str) -> None:
    """Refuse methods that there are not, and more views than all subsets can be taken of."""
    methods = "auto", "exact", "sampling"
    if method not in methods:
        raise ValueError(f"method must be one of {methods}, got {method!r}")
    largest = int(samples.observed.sum(axis=1).max())
    if largest > LARGEST and method != "sampling":
        raise ValueError(
            f"samples have up to {largest} views, and subsets are taken of at most {LARGEST}; "
            "sample them with method='sampling'"
        )


class Asked(NamedTuple):
    """A model that is asked about samples without some of their views."""

    samples: Cohort
    response: Response
    n_jobs: int | None = None
    verbose: int = 0

    def about(self, rows: Indices, kept: Bools) -> Array:
        """Return the outputs (P,) or (P, n_outputs) for samples (P,) with the views kept (P, V)."""
        shared = self.samples.shared and len(rows) >= WAYS * len(np.unique(rows))
        blocks = self._blocks_of_samples(rows) if shared else self._blocks_of_patterns(kept)
        with warnings.catch_warnings():
            # that samples lack views is as it should be here
            warnings.simplefilter("ignore", UserWarning)
            done = Parallel(self.n_jobs, prefer="threads", verbose=self.verbose)(
                delayed(self._block)(rows[block], kept[block], shared) for block in blocks
            )
        found = np.concatenate(done)
        outputs = np.empty_like(found)
        outputs[np.concatenate(blocks)] = found
        return outputs

    def _block(self, rows: Indices, kept: Bools, shared: bool) -> Array:
        subset = self.samples.subsets if shared else self.samples.subset
        return np.asarray(self.response.of(subset(rows, kept)))

    @property
    def _block_size(self) -> int:
        return int(np.clip(CELLS // self.samples.n_cells, FEWEST, MOST))

    def _blocks_of_patterns(self, kept: Bools) -> list[Indices]:
        # models do things once for all samples with the same views
        order, size = np.lexsort(kept.T), self._block_size
        return [order[start : start + size] for start in range(0, len(order), size)]

    def _blocks_of_samples(self, rows: Indices) -> list[Indices]:
        """Keep the rows of a sample together, and samples with the same views."""
        _, pattern = np.unique(self.samples.observed, axis=0, return_inverse=True)
        order = np.lexsort((rows, pattern.reshape(-1)[rows]))
        starts = np.flatnonzero(np.diff(rows[order], prepend=-1))
        block = np.array([starts // ROWS, np.arange(len(starts)) // self._block_size])
        return np.split(order, starts[1:][np.diff(block).any(axis=0)])


def _chunks(observed: Bools, method: str, n_permutations: int) -> Iterator[Indices]:
    """Yield positions of samples, together those with the same views, that make about `PAIRS`."""
    counts = observed.sum(axis=1)
    sampled = _is_sampled(counts, method)
    sizes = np.where(sampled, counts * n_permutations, 2 ** np.minimum(counts, LARGEST))
    order = np.lexsort(observed.T)
    order = order[counts[order] > 0]
    number = np.cumsum(sizes[order]) // PAIRS
    for each in np.unique(number):
        yield order[number == each]


def _is_sampled(counts: Any, method: str) -> Any:
    return (method == "sampling") | (counts > EXACT) & (method != "exact")


def _explain(
    asked: Asked,
    base: Floats,
    chunk: Indices,
    method: str,
    orders: Indices,
    values: Floats,
    errors: Floats,
    output: Floats,
) -> None:
    """Write the values, errors and outputs of some samples."""
    observed = asked.samples.observed
    patterns, group = np.unique(observed[chunk], axis=0, return_inverse=True)
    groups = [chunk[group.reshape(-1) == g] for g in range(len(patterns))]
    views = [np.flatnonzero(pattern) for pattern in patterns]
    games = [
        sampled_game(np.array([order[np.isin(order, own)] for order in orders]), own)
        if _is_sampled(len(own), method)
        else exact_game(len(own))
        for own in views
    ]
    rows, kept = [], []
    for members, own, game in zip(groups, views, games, strict=True):
        masks = np.zeros((len(game.subsets) - 1, observed.shape[1]), dtype=np.bool_)
        masks[:, own] = game.subsets[1:]
        rows.append(np.repeat(members, len(masks)))
        kept.append(np.tile(masks, (len(members), 1)))
    found = asked.about(np.concatenate(rows), np.concatenate(kept))
    ends = np.cumsum([len(each) for each in rows])[:-1]
    for members, own, game, each in zip(groups, views, games, np.split(found, ends), strict=True):
        table = each.reshape(len(members), len(game.subsets) - 1, *base.shape)
        empty = np.broadcast_to(base, (len(members), 1, *base.shape))
        table = np.concatenate([empty, table], axis=1)
        # (R, m, K) and (n, K, ...) make (R, m, n, ...)
        estimates = np.moveaxis(np.tensordot(game.coef, table, axes=(2, 1)), 1, 2)
        place = np.ix_(members, own)
        values[place] = estimates.mean(axis=0)
        if len(estimates) > 1:
            errors[place] = estimates.std(axis=0, ddof=1) / np.sqrt(len(estimates))
        output[members] = table[:, game.subsets.all(axis=1).argmax()]


def exact_game(m: int) -> Game:
    """Return all subsets of m views, and (1)."""
    subsets = (np.arange(2**m)[:, None] >> np.arange(m)) & 1 == 1
    sizes = subsets.sum(axis=1)
    without = 1.0 / (m * comb(m - 1, np.minimum(sizes, m - 1)))
    with_it = 1.0 / (m * comb(m - 1, np.maximum(sizes - 1, 0)))
    return Game(subsets, np.where(subsets.T, with_it, -without)[None])


def sampled_game(orders: Indices, views: Indices) -> Game:
    """Return the beginnings of orders (2 R, m) of the views (m,), which come in pairs."""
    n_orders, m = orders.shape
    places = np.searchsorted(views, orders)
    after = np.zeros((n_orders, m + 1, m), dtype=np.bool_)
    for step in range(m):
        after[:, step + 1] = after[:, step]
        after[np.arange(n_orders), step + 1, places[:, step]] = True
    subsets, number = np.unique(after.reshape(-1, m), axis=0, return_inverse=True)
    number = number.reshape(n_orders, m + 1)
    coef = np.zeros((n_orders // 2, m, len(subsets)))
    pair = np.repeat(np.arange(n_orders // 2), 2)
    for step in range(m):
        np.add.at(coef, (pair, places[:, step], number[:, step + 1]), 0.5)
        np.add.at(coef, (pair, places[:, step], number[:, step]), -0.5)
    return Game(subsets, coef)
