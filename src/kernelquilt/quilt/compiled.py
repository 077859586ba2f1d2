"""The compiled loop over the trees of a forest, for samples with many subsets of their views.

Importing this module imports numba, so it is imported by the functions that need it.
"""

import numpy as np

from kernelquilt.core.compiled import compiled


@compiled
def add_leaves(  # type: ignore[no-untyped-def]
    left,
    right,
    feature,
    threshold,
    missing_left,
    leaves,
    depth,
    values,
    known,
    view_of,
    starts,
    kept,
    order,
    total,
):
    """Add the leaf of a tree that each row reaches to its total.

    Parameters
    ----------
    left, right, feature, threshold, missing_left : ndarrays of shape (n_nodes,)
        As in ``tree_``; a leaf has -1 on its left.
    leaves : ndarray of shape (n_nodes, c)
        What is added.
    depth : int
        Of the tree.
    values, known : ndarrays of shape (n, d)
        Of samples, and which of them are no NaN.
    view_of : ndarray of int of shape (d,)
    starts : ndarray of int of shape (n + 1,)
        Where the rows of each sample begin.
    kept : ndarray of bool of shape (P, V)
        Views that are left in each row.
    order : ndarray of int of shape (P,)
        The rows of each sample in any order, and in another one after the call.
    total : ndarray of shape (P, c)
        Added to.
    """
    waiting = np.empty((depth + 1, 3), dtype=np.int64)
    for i in range(len(starts) - 1):
        waiting[0, 0], waiting[0, 1], waiting[0, 2] = 0, starts[i], starts[i + 1]
        n_waiting = 1
        while n_waiting > 0:
            n_waiting -= 1
            node, begin, end = waiting[n_waiting]
            while left[node] >= 0:
                j = feature[node]
                away = left[node] if missing_left[node] else right[node]
                here = away
                if known[i, j]:
                    here = left[node] if values[i, j] <= threshold[node] else right[node]
                if here == away:
                    node = here
                    continue
                # those that have the view come first; to swap others does no harm, and no branch
                # has to be guessed
                view = view_of[j]
                middle = begin
                for place in range(begin, end):
                    row = order[place]
                    order[place] = order[middle]
                    order[middle] = row
                    middle += kept[row, view]
                if middle == begin:
                    node = away
                    continue
                if middle < end:
                    waiting[n_waiting, 0] = away
                    waiting[n_waiting, 1] = middle
                    waiting[n_waiting, 2] = end
                    n_waiting += 1
                node, end = here, middle
            for place in range(begin, end):
                row = order[place]
                for k in range(leaves.shape[1]):
                    total[row, k] += leaves[node, k]
