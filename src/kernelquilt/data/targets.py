"""What is to be learned of samples, as arrays: targets, and as how many copies samples count."""

from typing import Any, NamedTuple

import numpy as np

from kernelquilt._typing import Floats, Indices
from kernelquilt.data.training import without_negligible

MOST_COPIES = 1e6  # more stand for importance
WHOLE = 1e-9  # from a whole number that rounding may take a number of copies


class Targets(NamedTuple):
    """What is to be learned of n samples.

    Attributes
    ----------
    Y : ndarray of shape (n, c)
        Targets.
    codes : ndarray of shape (n,)
        Position of the class of each sample; zero in regression.
    copies : ndarray of shape (n,)
        As how many copies each sample counts in means, 0 for those left out.
    held_out : ndarray of shape (n,)
        Share of the weight that leave-one-out scores leave out.
    weight : ndarray of shape (n,)
        Weight in the losses: `copies`, times the weight of the class.
    """

    Y: Floats
    codes: Indices
    copies: Floats
    held_out: Floats
    weight: Floats

    @classmethod
    def of(cls, Y: Floats, codes: Indices, weight: Floats, factors: Any = 1.0) -> "Targets":
        """Return the targets of samples with weights (n,) and factors (n,) of their classes.

        Neither the scale of the weights nor that of the factors makes a difference.
        """
        copies, held_out = count_copies(weight)
        weighted = factors * copies
        return cls(Y, codes, copies, held_out, weighted * (copies.sum() / weighted.sum()))

    def part(self, rows: Any) -> "Targets":
        """Return the targets of some samples."""
        return Targets(*(array[rows] for array in self))


def count_copies(weight: Floats) -> tuple[Floats, Floats]:
    """Return as how many copies samples count, and which share of them one leaves out.

    Only ratios of weights mean something. If all are multiples of the smallest positive one, they
    are numbers of copies, and one copy is left out. Otherwise they say how important samples are:
    their mean is made one, and a sample is left out as a whole.

    Parameters
    ----------
    weight : ndarray of shape (n,)
        Not negative, some of them positive.

    Returns
    -------
    copies, held_out : ndarrays of shape (n,)
        The same for all multiples of `weight`.
    """
    weight = without_negligible(weight / weight.max())
    used = weight[weight > 0]
    if MOST_COPIES * used.min() >= 1.0:
        multiples = weight / used.min()
        copies = multiples.round()
        if np.abs(multiples - copies).max() <= WHOLE:
            return copies, 1.0 / np.maximum(copies, 1.0)
    return weight / used.mean(), np.ones(len(weight))


def class_targets(codes: Indices, n_classes: int) -> Floats:
    """Return 1 for the class of a sample and -1/(c - 1) for the others, shape (n, c)."""
    return np.where(codes[:, None] == np.arange(n_classes), 1.0, -1.0 / (n_classes - 1))
