"""Completers of kernels, as those of users, in the place of the transfer between features."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelquilt._typing import Bools, Floats, Indices
from kernelquilt.data.stack import KernelStack
from kernelquilt.kernels.landmark_features import Features
from kernelquilt.kernels.landmark_maps import independent_directions


@dataclass(frozen=True)
class GramCompletion:
    """A completer of the kernels among all training samples, and features of what it returns.

    Attributes
    ----------
    completer : completer
        Fitted to the centred kernels.
    names : tuple of M str
        Names of the kernels.
    training : Features of the n training samples
    kept : list of M ndarrays of int
        Training samples that span each completed kernel.
    projections : list of M ndarrays
        From similarities with them to features.
    """

    completer: Any
    names: tuple[str, ...]
    training: Features
    kept: list[Indices]
    projections: list[Floats]

    @property
    def shares_explained(self) -> Any:
        """Share of each kernel that each other explains, (M, M), or None if it is not known."""
        return getattr(self.completer, "transfer_", None)

    def complete(self, Z: Features, observed: Bools, lengths: Floats) -> tuple[Features, Floats]:
        """Return the features of all views, and squared lengths.

        Parameters
        ----------
        Z : Features of n_rows samples
        observed : ndarray of bool of shape (n_rows, M)
        lengths : ndarray of shape (M, n_rows)
            Squared lengths, zero where absent.

        Returns
        -------
        completed : Features
        lengths : ndarray of shape (M, n_rows)
        """
        K = np.array([z @ each.T for z, each in zip(Z, self.training, strict=True)])
        stack = KernelStack._computed(K, observed, self.names, square=False, diag=lengths)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            done = self.completer.transform(stack)
        return self._features(done.gram()), np.asarray(done.diag)

    def _features(self, K: Floats) -> Features:
        return [
            kernel[:, kept] @ T
            for kernel, kept, T in zip(K, self.kept, self.projections, strict=True)
        ]


def complete_grams(
    completer: Any, names: tuple[str, ...], Z: Features, observed: Bools
) -> tuple[GramCompletion, Features]:
    """Complete the kernels of training samples, and return their features.

    Parameters
    ----------
    completer : completer
        Unfitted.
    names : tuple of M str
    Z : Features of n samples
        With all samples as landmarks.
    observed : ndarray of bool of shape (n, M)

    Returns
    -------
    completion : GramCompletion
    completed : Features
    """
    stack = KernelStack._computed(
        np.array([z @ z.T for z in Z]), observed, names, square=True, checked=True
    )
    with warnings.catch_warnings():
        # where nothing can be transferred, samples get the mean, as they should here
        warnings.simplefilter("ignore", UserWarning)
        filled = completer.fit_transform(stack).gram()
    directions = [independent_directions(kernel)[:2] for kernel in filled]
    completion = GramCompletion(completer, names, Z, *map(list, zip(*directions, strict=True)))
    return completion, completion._features(filled)
