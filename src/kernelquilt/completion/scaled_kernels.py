"""Training kernels in units of their mean diagonals, and rows that are completed against them.

Most completers work in these units, so that what they do does not depend on the scale of a kernel.
A new sample of which the same is known as of a training sample is that one, and gets its row.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import StrOptions

from kernelquilt._messages import quoted
from kernelquilt._typing import Bools, Floats, Indices, Kernel
from kernelquilt.kernels.centring import mean_diagonal

Keys = NDArray[np.void]
CompleteRows = Callable[[Floats, Floats, Bools, Floats], None]
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


def has_unit_diagonal(kernel: Kernel, present: Bools) -> bool:
    """Whether the samples that have a kernel (n, n) have similarity 1 with themselves."""
    tolerance = 1e-5 if kernel.dtype == np.float32 else 1e-8
    return bool((np.abs(kernel.diagonal()[present] - 1.0) <= tolerance).all())


def unit_kernels(K: Kernel, observed: Bools, wanted: bool | str, names: Sequence[str]) -> Bools:
    """Return for each kernel (M,) whether its diagonal is to be 1, as in `ScaledKernels.of`."""
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


def known_diagonal(own: Floats, diag: Floats | None, unit: Bools) -> Floats | None:
    """Return the completed diagonal, None if that of observed entries was not known, nor is 1."""
    return None if diag is None and not unit.all() else own


@dataclass(frozen=True)
class ScaledKernels:
    """Training kernels in units of their mean diagonals, to be completed in place.

    Attributes
    ----------
    kernels : ndarray of shape (M, n, n)
    observed : ndarray of bool of shape (n, M)
    unit : ndarray of bool of shape (M,)
        Which of them are to have diagonal 1; the unit of these is 1.
    sizes : ndarray of shape (M,)
        The units.
    keys : ndarray of shape (n,) or None
        From `row_keys`; None if training samples need not be recognised among rows.
    exact : bool
        Whether observed entries stay as they are.
    """

    kernels: Floats
    observed: Bools
    unit: Bools
    sizes: Floats
    keys: Keys | None
    exact: bool = True

    @classmethod
    def of(
        cls,
        K: Kernel,
        observed: Bools,
        unit_diagonal: bool | str = "auto",
        names: Sequence[str] = (),
        *,
        keyed: bool = True,
        exact: bool = True,
    ) -> "ScaledKernels":
        """Scale training kernels.

        Parameters
        ----------
        K : ndarray of shape (M, n, n)
            Zero where absent.
        observed : ndarray of bool of shape (n, M)
        unit_diagonal : bool or "auto", default="auto"
            Whether diagonals are to be 1: "auto" is where those of observed samples are, True an
            error that tells the `names` of kernels where they are not.
        keyed : bool, default=True
            Whether training samples are to be recognised among rows. They are in any case if a
            diagonal is to be 1.
        exact : bool, default=True
        """
        unit = unit_kernels(K, observed, unit_diagonal, names)
        means = [mean_diagonal(k.diagonal()[o]) for k, o in zip(K, observed.T, strict=True)]
        sizes = np.where(unit, 1.0, means)
        keys = row_keys(K, observed) if keyed or unit.any() else None
        return cls(K / sizes[:, None, None], observed, unit, sizes, keys, exact)

    def write(self, K: Kernel) -> None:
        """Copy what was completed to the training kernels (M, n, n)."""
        self._write(K, self.kernels, self.observed)

    def complete_rows(
        self, K: Kernel, observed: Bools, diag: Floats | None, complete: CompleteRows
    ) -> Floats | None:
        """Complete rows (M, n_rows, n) in place and return their diagonal, if it is known.

        Parameters
        ----------
        K, observed, diag
            As in `BaseCompleter`.
        complete : callable
            Takes `kernels`, rows in the same units, `observed`, and the diagonal (M, n_rows) of
            the rows, 1 where it is not known; completes rows and diagonal in place.
        """
        sizes = self.sizes[:, None]
        own = np.where(observed.T, 1.0 if diag is None else diag / sizes, 0.0)
        rows = K / sizes[:, :, None]
        complete(self.kernels, rows, observed, own)
        if self.keys is not None:
            place = training_places(row_keys(K, observed), self.keys)
            again, which = place >= 0, place[place >= 0]
            rows[:, again] = self.kernels[:, which]
            own[:, again] = self.kernels[:, which, which]
        self._write(K, rows, observed)
        if diag is not None:
            own = np.where(observed.T & self.exact, diag, own * sizes)
        return known_diagonal(own, diag, self.unit)

    def _write(self, K: Kernel, Z: Floats, observed: Bools) -> None:
        for kernel, filled, present, columns, size in zip(
            K, Z, observed.T, self.observed.T, self.sizes, strict=True
        ):
            if self.exact:
                kernel[~present] = filled[~present] * size
                kernel[:, ~columns] = filled[:, ~columns] * size
            else:
                kernel[...] = filled * size
