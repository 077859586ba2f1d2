r"""What experts need of completed views, for samples with many subsets of their views.

Both passes of :mod:`kernelquilt.quilt.space.transfer` are linear in the features of the views T
that are left to a sample, and only weights depend on T:

.. math:: u_l = \sum_{k \in T} \lambda_{lk} x_{lk}, \qquad
          v_p = \sum_{l \ne p} M_{pl}' u_l = \sum_{l \ne p} \sum_{k \in T} \lambda_{lk} y_{plk}
          \quad \text{for } p \notin T,

with :math:`x_{ll} = z_l`, and :math:`x_{lk} = W_{lk}' z_k` what view k says of view l;
:math:`\lambda_{ll} = 1` where l is in T, and :math:`\lambda_{lk} = \omega_{lk} / \sum_{j \in T}
\omega_{lj}` where it is not. Where nothing serves for l, the mean takes the place of a view k.
:math:`y_{plk} = M_{pl}' x_{lk}` is computed once for a sample and serves all T. Experts see of v
only products with vectors that they know and its length: products of y with these vectors, and of y
with each other, are all that is combined.

=============  ==============================
symbol         name here
=============  ==============================
T              a row of ``subsets``
x_lk           ``x[l][:, k]``
y_plk          ``y[:, (l, k)]``
lambda         ``weights[:, l, k]``
=============  ==============================
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from kernelquilt._typing import Bools, Floats, Indices
from kernelquilt.kernels.landmark_features import Features
from kernelquilt.quilt.space.pair_maps import BySamples, Similarities, times
from kernelquilt.quilt.space.transfer import Transfer

HELD = 2**24  # numbers for all samples that are held at a time
BLOCK = 2**21  # and for those of them that are completed at a time


class Products(NamedTuple):
    """What experts need of some rows.

    Attributes
    ----------
    rows : ndarray of int of shape (k,)
        Which they are.
    products : ndarray of shape (k, e)
        Of the features of all views with given vectors.
    lengths : ndarray of shape (k,)
        Squared lengths over all views, None if they are not needed.
    """

    rows: Indices
    products: Floats
    lengths: Any


def completed_products(
    transfer: Transfer,
    Z: Features,
    present: Bools,
    lengths: Floats | None,
    sample_of: Indices,
    observed: Bools,
    right: list[Floats],
) -> Iterator[Products]:
    """Complete the views of samples with subsets of their views.

    Parameters
    ----------
    transfer : Transfer
    Z : Features of n samples
    present : ndarray of bool of shape (n, M)
        The views that they have.
    lengths : ndarray of shape (M, n), or None
        Their squared lengths; None if these are not needed.
    sample_of : ndarray of int of shape (P,)
        Sample of each row, in ascending order.
    observed : ndarray of bool of shape (P, M)
        Views that are left in it.
    right : list of M ndarrays of shape (D_p, e)
        The given vectors, by view.

    Yields
    ------
    products : Products
        Of all rows in turn, in memory that is used again; of rows without any view, anything.
    """
    M, e = len(Z), right[0].shape[1]
    n_training = max(
        (len(each.training[0]) for each in transfer.second if isinstance(each, BySamples)),
        default=0,
    )
    numbers = (M + 1) * (sum(z.shape[1] for z in Z) + M * n_training) + M * e
    size = max(1, HELD // numbers)
    for start in range(0, len(present), size):
        part = slice(start, start + size)
        begin, end = np.searchsorted(sample_of, [start, start + size])
        for rows, products, squares in _products_of(
            transfer,
            [z[part] for z in Z],
            present[part],
            None if lengths is None else lengths[:, part],
            sample_of[begin:end] - start,
            observed[begin:end],
            right,
        ):
            yield Products(begin + rows, products, squares)


def _products_of(
    transfer: Transfer,
    Z: Features,
    present: Bools,
    lengths: Floats | None,
    sample_of: Indices,
    observed: Bools,
    right: list[Floats],
) -> Iterator[Products]:
    """Yield what `completed_products` does, of samples that are held at once."""
    M, e = len(Z), right[0].shape[1]
    x = Similarities(_said(transfer, Z, present))
    known = np.stack([z @ each for z, each in zip(Z, right, strict=True)], axis=1)
    for samples, subsets, rows in _lists_of_subsets(sample_of, observed):
        weights = _weights(transfer, subsets)
        n_vectors = M * np.count_nonzero(weights.any(axis=(0, 1)))
        size = max(1, BLOCK // (n_vectors * (e + 2 * max(map(len, right))) + len(subsets) * e))
        # memory that is used again need not be mapped again, which takes longer than to fill it
        whole = np.empty((min(size, len(samples)), len(subsets), e))
        space = np.empty(len(whole) * n_vectors * e)
        for start in range(0, len(samples), size):
            part = samples[start : start + size]
            products = whole[: len(part)]
            np.matmul(subsets.astype(np.float64), known[part], out=products)
            squares = None
            if lengths is not None:
                squares = lengths.T[part] @ subsets.T.astype(np.float64)
            _add_filled(transfer, x, part, subsets, weights, right, products, squares, space)
            yield Products(
                rows[start : start + size].ravel(),
                products.reshape(-1, e),
                None if squares is None else squares.ravel(),
            )


def _said(transfer: Transfer, Z: Features, present: Bools) -> Features:
    """Return x_lk of samples by view l, (n, M + 1, D_l), zero where k is absent or does not serve.

    What stands last is the mean.
    """
    known = Similarities(Z)
    x = []
    for l, z in enumerate(Z):
        said = np.zeros((len(z), len(Z) + 1, z.shape[1]))
        said[:, l], said[:, -1] = z, transfer.means[l]
        for k, made in transfer.first[l].items():
            having = np.flatnonzero(present[:, k])
            said[having, k] = made.pieces(known, having)[0]
        x.append(said)
    return x


def _lists_of_subsets(
    sample_of: Indices, observed: Bools
) -> Iterator[tuple[Indices, Bools, Indices]]:
    """Yield samples (n,) with the same subsets (K, M) of views, and their rows (n, K)."""
    starts = np.flatnonzero(np.diff(sample_of, prepend=-1))
    ends = np.append(starts, len(sample_of))[1:]
    found: dict[bytes, list[int]] = {}
    for number, (start, end) in enumerate(zip(starts, ends, strict=True)):
        found.setdefault(observed[start:end].tobytes(), []).append(number)
    for numbers in found.values():
        first = starts[numbers]
        n_subsets = ends[numbers[0]] - first[0]
        rows = first[:, None] + np.arange(n_subsets)
        yield sample_of[first], observed[rows[0]], rows


def _weights(transfer: Transfer, subsets: Bools) -> Floats:
    """Return lambda (K, M, M + 1) of subsets (K, M); what stands last is that of the mean."""
    K, M = subsets.shape
    weights = np.zeros((K, M, M + 1))
    weights[:, :, :M] = transfer.weights * subsets[:, None, :]
    total = weights.sum(axis=2)
    served = total > 0
    weights[served] /= total[served][:, None]
    weights[:, :, M] = ~served
    weights[subsets] = np.eye(M, M + 1)[np.nonzero(subsets)[1]]
    weights[~subsets.any(axis=1)] = 0.0
    return weights


def _add_filled(
    transfer: Transfer,
    x: Similarities,
    samples: Indices,
    subsets: Bools,
    weights: Floats,
    right: list[Floats],
    products: Floats,
    squares: Floats | None,
    space: Floats,
) -> None:
    """Add those of filled views to products (n, K, e), and to squared lengths (n, K) if needed.

    There is `space` for the products of a view.
    """
    from kernelquilt.quilt.space.compiled import add_combinations

    # what is in no subset says nothing, and the mean is hardly ever needed
    sources = np.flatnonzero(weights.any(axis=(0, 1)))
    for p, each in enumerate(right):
        absent = np.flatnonzero(~subsets[:, p])
        if len(absent) == 0:
            continue
        others = sources[sources != p]
        made = transfer.second[p]
        through = each if squares is None else None  # then y itself is not needed
        if made is None:
            shares, y = {p: 1.0}, x.features[p][np.ix_(samples, others)]
            y = y if through is None else times(y, through)
        else:
            shares, y = made.shares, made.pieces(x, samples, others, right=through)
        y = y.reshape(len(samples), -1, y.shape[-1])
        own = weights[np.ix_(absent, np.array(list(shares)), others)]
        own = (own * np.reshape(list(shares.values()), (-1, 1))).reshape(len(absent), -1)
        if squares is None:
            add_combinations(own, y, absent, products)
            continue
        squares[:, absent] += np.einsum("nkj,kj->nk", own @ (y @ y.swapaxes(1, 2)), own)
        into = space[: y.shape[0] * y.shape[1] * each.shape[1]]
        add_combinations(own, times(y, each, into), absent, products)
