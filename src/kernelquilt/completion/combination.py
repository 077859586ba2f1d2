"""Absent samples as combinations of the samples that have a kernel.

With v the samples that have a kernel and h those that lack it, and a_t the coefficients of t in h,

    phi(t) = sum_{i in v} a_ti phi(x_i) + r_t psi_t,    |psi_t| = 1,

so that K_vh = K_vv a' and K_hh = a K_vv a' + remainder: positive semi-definite, and exact on v.
The remainder is there if the kernel is to have diagonal 1: then r_t^2 = 1 - a_t' K_vv a_t,
coefficients that are too long are shortened, and psi_t is orthogonal to everything but psi_s of
samples s of which the same is known as of t. New samples are completed in the same way from their
own coefficients, so that a sample completed in training comes out as it was.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import StrOptions

from kernelquilt._messages import quoted
from kernelquilt._typing import Bools, Floats, Indices, Kernel
from kernelquilt.completion.linalg import block
from kernelquilt.kernels.centring import mean_diagonal

Keys = NDArray[np.void]
UNIT_DIAGONAL: dict[str, Any] = {"unit_diagonal": ["boolean", StrOptions({"auto"})]}


def row_keys(K: Kernel, observed: Bools) -> Keys:
    """Return keys (n_rows,) that are equal for samples of which the same is known.

    Parameters
    ----------
    K : ndarray of shape (M, n_rows, n)
        Zero where absent.
    observed : ndarray of bool of shape (n_rows, M)
    """
    keys = [
        blake2b((K[:, i] + 0.0).tobytes() + seen.tobytes(), digest_size=16).digest()
        for i, seen in enumerate(observed)
    ]
    return np.array(keys, dtype="V16").reshape(len(observed))


def training_places(keys: Keys, training_keys: Keys) -> Indices:
    """Return for rows (n_rows,) the first training sample that has the same key, or -1."""
    known = {key.tobytes(): t for t, key in reversed(list(enumerate(training_keys)))}
    return np.array([known.get(key.tobytes(), -1) for key in keys], dtype=np.intp)


def places_of_first(keys: Keys, among: Bools) -> Indices:
    """Return for some training samples (n,) the place among them of the first one alike.

    Samples are alike if the same is known of them, so that all or none of these are among them.
    """
    return np.searchsorted(np.flatnonzero(among), training_places(keys[among], keys))


def mean_diagonals(K: Kernel, observed: Bools) -> Floats:
    """Return the mean diagonal of each kernel (M, n, n) over the samples (n, M) that have it."""
    return np.array([mean_diagonal(k.diagonal()[o]) for k, o in zip(K, observed.T, strict=True)])


def has_unit_diagonal(kernel: Kernel, present: Bools) -> bool:
    """Whether the samples that have a kernel (n, n) have similarity 1 with themselves."""
    tolerance = 1e-5 if kernel.dtype == np.float32 else 1e-8
    return bool((np.abs(kernel.diagonal()[present] - 1.0) <= tolerance).all())


def unit_kernels(K: Kernel, observed: Bools, wanted: bool | str, names: Sequence[str]) -> Bools:
    """Return for each kernel (M,) whether its diagonal is to be 1.

    Parameters
    ----------
    K : ndarray of shape (M, n, n)
    observed : ndarray of bool of shape (n, M)
    wanted : bool or "auto"
        "auto" is where observed samples have diagonal 1, True an error where they do not.
    names : sequence of M str
    """
    if wanted is False:
        return np.zeros(len(K), dtype=bool)
    unit = np.array([has_unit_diagonal(k, o) for k, o in zip(K, observed.T, strict=True)])
    if wanted is True and not unit.all():
        others = quoted(name for name, one in zip(names, unit, strict=True) if not one)
        raise ValueError(
            f"unit_diagonal=True, but among the {len(observed)} training samples the diagonal is "
            f"not 1 in the kernels {others}; scale them by ScaleKernels(), or use "
            "unit_diagonal='auto'"
        )
    return unit


@dataclass(frozen=True)
class Combination:
    """How one kernel was completed.

    Attributes
    ----------
    present : ndarray of bool of shape (n,)
        The n_v training samples that have the kernel.
    coef : ndarray of shape (n - n_v, n_v)
        Coefficients of the others.
    rows : ndarray of shape (n_v, n)
        Completed kernel between the samples that have it and all.
    remainder : ndarray of shape (n,) or None
        r above, zero for samples that have the kernel; None if the diagonal is not imposed.
    """

    present: Bools
    coef: Floats
    rows: Floats
    remainder: Floats | None

    @classmethod
    def complete(
        cls, kernel: Kernel, present: Bools, coef: Floats, keys: Keys | None
    ) -> "Combination":
        """Complete a training kernel (n, n) in place.

        Parameters
        ----------
        kernel : ndarray of shape (n, n)
        present : ndarray of bool of shape (n,)
        coef : ndarray of shape (n - n_v, n_v)
        keys : ndarray of shape (n,) or None
            From `row_keys` if the diagonal is to be 1, else None.
        """
        absent = ~present
        known = block(kernel, present, present).astype(np.float64)
        half = coef @ known
        remainder = None
        inner = half @ coef.T
        if keys is not None:
            lengths = np.sqrt(np.maximum(inner.diagonal(), 1.0))
            coef, half = coef / lengths[:, None], half / lengths[:, None]
            inner /= lengths[:, None] * lengths
            remainder = np.zeros(len(present))
            remainder[absent] = np.sqrt(np.maximum(1.0 - inner.diagonal(), 0.0))
            inner += shared_remainder(keys[absent], keys[absent], remainder[absent])
            np.fill_diagonal(inner, 1.0)
        kernel[np.ix_(absent, present)] = half
        kernel[np.ix_(present, absent)] = half.T
        kernel[np.ix_(absent, absent)] = (inner + inner.T) / 2
        rows = np.empty((len(known), len(present)))
        rows[:, present], rows[:, absent] = known, half.T
        return cls(present, coef, rows, remainder)

    def complete_rows(
        self,
        kernel: Kernel,
        present: Bools,
        coef: Floats,
        keys: Keys | None,
        training_keys: Keys | None,
    ) -> Floats:
        """Complete rows (n_rows, n) in place; return the diagonal of those that lack the kernel.

        Parameters
        ----------
        kernel : ndarray of shape (n_rows, n)
        present : ndarray of bool of shape (n_rows,)
            Which rows have the kernel.
        coef : ndarray of shape (n_absent_rows, n_v)
            Coefficients of the others.
        keys, training_keys : ndarrays of shapes (n_rows,) and (n,), or None
            From `row_keys`, if the diagonal is to be 1.
        """
        known = block(kernel, present, self.present)
        kernel[np.ix_(present, ~self.present)] = known @ self.coef.T
        filled = coef @ self.rows
        diag = (filled[:, self.present] * coef).sum(axis=1)
        if self.remainder is not None and keys is not None and training_keys is not None:
            lengths = np.sqrt(np.maximum(diag, 1.0))
            filled /= lengths[:, None]
            rest = np.sqrt(np.maximum(1.0 - diag / lengths**2, 0.0))
            twin = keys[~present][:, None] == training_keys
            filled += twin * rest[:, None] * self.remainder
            diag = np.ones(len(diag))
        kernel[~present] = filled
        return diag


class CombinedKernels(NamedTuple):
    """How all kernels were completed.

    Attributes
    ----------
    combinations : tuple of M Combination
    unit : ndarray of bool of shape (M,)
        Which of them are to have diagonal 1.
    keys : ndarray of shape (n,) or None
        From `row_keys`, None if no diagonal is to be 1.
    """

    combinations: tuple[Combination, ...]
    unit: Bools
    keys: Keys | None

    @classmethod
    def complete(
        cls, K: Kernel, observed: Bools, coefs: list[Floats], unit: Bools, keys: Keys | None
    ) -> "CombinedKernels":
        """Complete training kernels (M, n, n) in place from coefficients as in `Combination`."""
        done = (
            Combination.complete(kernel, present, coef, keys if one else None)
            for kernel, present, coef, one in zip(K, observed.T, coefs, unit, strict=True)
        )
        return cls(tuple(done), unit, keys)

    def complete_rows(
        self, K: Kernel, observed: Bools, coefs: list[Floats], keys: Keys | None, own: Floats
    ) -> None:
        """Complete rows (M, n_rows, n) and their diagonal `own` (M, n_rows) in place."""
        for p, (combination, coef) in enumerate(zip(self.combinations, coefs, strict=True)):
            present = observed[:, p]
            own[p, ~present] = combination.complete_rows(K[p], present, coef, keys, self.keys)


def start_diagonal(K: Kernel, diag: Floats | None) -> Floats:
    """Return the diagonal (M, n_rows) of rows to complete, 1 where it is not known."""
    return np.ones(K.shape[:2]) if diag is None else diag.copy()


def known_diagonal(own: Floats, diag: Floats | None, unit: Bools) -> Floats | None:
    """Return the completed diagonal, None if that of observed entries was not known, nor is 1."""
    return None if diag is None and not unit.all() else own


def shared_remainder(keys: Keys, others: Keys, lengths: Floats) -> Floats:
    """Return the inner products of the remainders of samples (n,), zero unless keys are equal."""
    return (keys[:, None] == others) * lengths[:, None] * lengths
