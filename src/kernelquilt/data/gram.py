"""What containers of kernels share: rows that are selected without a copy, and checks.

Stored kernels are read and checked one kernel and a few rows at a time.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, NoReturn, Self

import numpy as np

from kernelquilt._messages import quoted
from kernelquilt._typing import Bools, Indices, Kernel
from kernelquilt.data.blocks import with_nan
from kernelquilt.data.containers import check_names, container_html, container_text, row_positions

# Rows copied at a time, and the side of the tiles in which symmetry is checked: small enough for
# the cache, large enough to hide the cost of a numpy call.
_BLOCK = 256

LARGEST = {"float32": 1e18, "float64": 1e151}  # entries whose squares may be summed
_REMEDY = "mark samples as absent with observed=, or repair the kernel"


class KernelRows(ABC):
    """Some rows of M kernels that all slices share.

    Slicing changes a list of row ids and the mask. What is shared has `names` and `dtype`; a
    container says how it looks, and how to take some of its kernels.
    """

    # Iteration could mean samples or kernels; without this line Python would try X[0], X[1], ...
    __iter__ = None

    _shared: Any
    _ids: Indices | None
    _observed: Bools
    _instead: ClassVar[str]  # what returns arrays

    @classmethod
    def _build(cls, shared: Any, ids: Indices | None, observed: Bools) -> Self:
        made = cls.__new__(cls)
        made._shared, made._ids, made._observed = shared, ids, observed
        return made

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of kernels."""
        return len(self), len(self.names)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the kernels."""
        names: tuple[str, ...] = self._shared.names
        return names

    @property
    def observed(self) -> Bools:
        """Mask of shape (n_rows, M), True where a kernel observes a sample."""
        return self._observed

    @property
    def ids(self) -> Indices:
        """The rows of what is shared that are selected here, shape (n_rows,)."""
        return np.arange(len(self)) if self._ids is None else self._ids

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the entries, float32 or float64."""
        return np.dtype(self._shared.dtype)

    def __len__(self) -> int:
        return len(self._observed)

    def __getitem__(self, rows: Any) -> Self:
        """Select rows; nothing but row ids and the mask is copied."""
        positions = row_positions(rows, len(self))
        ids = positions if self._ids is None else self._ids[positions]
        return self._build(self._shared, ids, self._observed[positions])

    def select(self, kernels: Iterable[int | str]) -> Self:
        """Return the same rows of some of the kernels; nothing is copied.

        Parameters
        ----------
        kernels : iterable of int or str
            Positions or names, in the order wanted.

        Returns
        -------
        stack : container of the same kind
            Slices of one stack remain slices of one stack if the same kernels are selected.
        """
        positions = [self._position(kernel) for kernel in kernels]
        names = check_names((self.names[m] for m in positions), len(positions), "kernel")
        if not positions:
            raise ValueError(f"select at least one of the {len(self.names)} kernels")
        chosen = self._chosen(positions, names)
        return self._build(chosen, self._ids, self._observed[:, positions])

    @abstractmethod
    def _chosen(self, positions: list[int], names: tuple[str, ...]) -> Any:
        """Return what is shared of some of the kernels."""

    def _position(self, kernel: int | str) -> int:
        if kernel in self.names:
            return self.names.index(str(kernel))
        M = len(self.names)
        if isinstance(kernel, int | np.integer) and -M <= kernel < M:
            return int(kernel) % M
        raise ValueError(
            f"there is no kernel {kernel!r} among the {M} kernels {quoted(self.names)}"
        )

    def __array__(self, dtype: Any = None, copy: Any = None) -> NoReturn:
        raise TypeError(f"a {type(self).__name__} is not an array; {self._instead}")

    def __repr__(self) -> str:
        return container_text(*self._told())

    def _repr_html_(self) -> str:
        return container_html(*self._told())

    @abstractmethod
    def _told(self) -> tuple[str, tuple[str, ...], list[str], Bools]:
        """Return title, names, sizes and presence of the kernels."""


def as_kernels(K: Any) -> tuple[list[Kernel] | Kernel, np.dtype[Any]]:
    """Return the kernels without reading them, and the type to use them in."""
    if isinstance(K, Mapping):
        raise ValueError("K is an array or a list of kernels; pass list(K.values()), names=list(K)")
    listed = isinstance(K, list | tuple)
    kernels = [np.asanyarray(with_nan(k)) for k in K] if listed else np.atleast_1d(with_nan(K))
    if len(kernels) == 0:
        raise ValueError("a KernelStack needs at least one kernel")
    shapes = {kernel.shape for kernel in kernels}
    if len(shapes) > 1:
        raise ValueError(f"kernels must have the same shape, got {sorted(shapes)}")
    shape = shapes.pop()
    if len(shape) != 2 or 0 in shape:
        raise ValueError(
            "K must have shape (M, n_rows, n_cols), kernels first, or be a list of M 2-D arrays; "
            f"got kernels of shape {shape}"
        )
    types = {kernel.dtype for kernel in kernels}
    refused = [str(kind) for kind in types if kind.kind not in "fiub"]
    if refused:
        raise ValueError(f"kernels must hold real numbers, got dtype {', '.join(refused)}")
    single = all(kind == np.float32 for kind in types)
    return kernels, np.dtype(np.float32 if single else np.float64)


def all_nan(kernel: Kernel, square: bool) -> Bools:
    """Find the rows that are entirely NaN; only rows whose first cell looked at is NaN are read."""
    if kernel.dtype.kind != "f":
        return np.zeros(len(kernel), dtype=bool)
    # In a square kernel the column of an absent sample is NaN too, the diagonal of others is not.
    found = np.isnan(np.diagonal(kernel) if square else kernel[:, 0])
    for row in np.flatnonzero(found):
        found[row] = np.isnan(kernel[row]).all()
    return np.asarray(found)


def copy_entries(kernel: Kernel, rows: Indices | None, cols: Indices | None, out: Kernel) -> None:
    """Copy ``kernel[rows][:, cols]`` (None: all) to `out`, a few rows at a time."""
    for start in range(0, len(out), _BLOCK):
        part = slice(start, start + _BLOCK)
        strip = kernel[part] if rows is None else kernel[rows[part]]
        out[part] = strip if cols is None else np.take(strip, cols, axis=1)


def zero_where_absent(kernel: Kernel, present: Bools) -> bool:
    """Whether the rows and columns of absent samples of a square kernel are zero."""
    absent = np.flatnonzero(~present)
    return len(absent) == 0 or not (
        any(kernel[i].any() for i in absent)
        or any(
            np.take(kernel[i : i + _BLOCK], absent, axis=1).any()
            for i in range(0, len(kernel), _BLOCK)
        )
    )


def check_kernel(kernel: Kernel, name: str) -> None:
    """Check that a square kernel is finite and symmetric, reading it once."""
    n = len(kernel)
    asymmetry = np.zeros((), dtype=kernel.dtype)
    with np.errstate(invalid="ignore", over="ignore"):
        for i in range(0, n, _BLOCK):
            for j in range(i, n, _BLOCK):
                rows, cols = slice(i, i + _BLOCK), slice(j, j + _BLOCK)
                difference = kernel[rows, cols] - kernel[cols, rows].T
                np.abs(difference, out=difference)
                # NaN and inf of either side come through the difference and the maximum
                asymmetry = np.maximum(asymmetry, difference.max())
    if not np.isfinite(asymmetry):
        check_finite(kernel, name)
    # in a positive semi-definite kernel nothing is larger than the diagonal
    check_finite(np.diagonal(kernel)[:, np.newaxis], name)
    if asymmetry == 0:
        return
    largest = max(kernel.max(), -kernel.min())
    tolerance = 1e-4 if kernel.dtype == np.float32 else 1e-6
    if asymmetry > tolerance * largest:
        raise ValueError(
            f"kernel {name!r} of {n} samples is not symmetric: entries (i, j) and (j, i) differ "
            f"by up to {asymmetry:.3g}, the largest entry is {largest:.3g}; "
            "use (K + K.T) / 2 if this is rounding"
        )


def check_finite(kernel: Kernel, name: str, remedy: str = _REMEDY) -> None:
    """Check that a kernel is finite, its squares too; `remedy` is what the message advises."""
    largest = LARGEST[kernel.dtype.name]
    if kernel.size == 0 or (kernel.min() >= -largest and kernel.max() <= largest):
        return
    bad = ~np.isfinite(kernel)
    if not bad.any():
        raise ValueError(
            f"kernel {name!r} has entries up to {np.abs(kernel).max():.3g}, whose squares are too "
            f"large for {kernel.dtype}; divide it by its largest entry, or scale the view"
        )
    raise ValueError(
        f"kernel {name!r} has {bad.sum()} entries that are NaN or inf between observed "
        f"samples, in {bad.any(axis=1).sum()} of {len(kernel)} rows; {remedy}"
    )


def check_diagonals(diag: Kernel, observed: Bools, names: Sequence[str]) -> None:
    """Check that similarities of samples with themselves are finite and not negative.

    Parameters
    ----------
    diag : ndarray of shape (M, n)
    observed : ndarray of bool of shape (n, M)
        Which of them count.
    names : sequence of str of length M
    """
    for values, present, name in zip(diag, observed.T, names, strict=True):
        bad = present & ~((values >= 0.0) & (values < np.inf))
        if bad.any():
            raise ValueError(
                f"diag of kernel {name!r} is negative, NaN or inf for {bad.sum()} of "
                f"{present.sum()} observed rows; it is k(x, x) of the rows, leave it out if it is "
                "not known"
            )
