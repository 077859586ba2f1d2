"""The compiled loops over subsets of views that are completed.

Importing this module imports numba, so it is imported by the functions that need it.
"""

import numpy as np

from kernelquilt.core.compiled import compiled


@compiled
def add_combinations(weights, vectors, rows, out):  # type: ignore[no-untyped-def]
    """Add ``weights @ vectors[i]`` to ``out[i, rows]`` for all i; most weights are zero.

    Parameters
    ----------
    weights : ndarray of shape (k, J)
    vectors : ndarray of shape (n, J, e)
    rows : ndarray of int of shape (k,)
    out : ndarray of shape (n, K, e)
    """
    # four at a time, so that totals are read and written less often; what is left over weighs zero
    used = np.zeros((len(rows), weights.shape[1] + 3), dtype=np.int64)
    weight = np.zeros(used.shape)
    counts = np.zeros(len(rows), dtype=np.int64)
    for k in range(len(rows)):
        for j in range(weights.shape[1]):
            if weights[k, j] != 0.0:
                used[k, counts[k]] = j
                weight[k, counts[k]] = weights[k, j]
                counts[k] += 1
    for i in range(len(vectors)):
        for k in range(len(rows)):
            total = out[i, rows[k]]
            for place in range(0, counts[k], 4):
                first, second = vectors[i, used[k, place]], vectors[i, used[k, place + 1]]
                third, fourth = vectors[i, used[k, place + 2]], vectors[i, used[k, place + 3]]
                a, b = weight[k, place], weight[k, place + 1]
                c, d = weight[k, place + 2], weight[k, place + 3]
                for t in range(len(total)):
                    total[t] += a * first[t] + b * second[t] + c * third[t] + d * fourth[t]


@compiled
def add_joint_scores(  # type: ignore[no-untyped-def]
    products, lengths, point_lengths, rate, coef, scores
):
    """Add the scores of the Gaussian kernel with points to `scores`.

    Parameters
    ----------
    products : ndarray of shape (k, n_points)
        Of features of the rows with those of the points.
    lengths, point_lengths : ndarrays of shape (k,) and (n_points,)
        Squared lengths.
    rate : float
        What squared distances are multiplied by.
    coef : ndarray of shape (n_points, c)
    scores : ndarray of shape (k, c)
    """
    for i in range(len(products)):
        for j in range(len(point_lengths)):
            distance = max(lengths[i] + point_lengths[j] - 2.0 * products[i, j], 0.0)
            similarity = np.exp(-rate * distance)
            for k in range(coef.shape[1]):
                scores[i, k] += similarity * coef[j, k]
