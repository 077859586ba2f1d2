"""What containers of kernels have in common: rows that are selected without a copy."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, ClassVar, NoReturn, Self

import numpy as np

from kernelquilt._messages import check_names, quoted, row_positions, summary, summary_html
from kernelquilt._typing import Bools, Indices


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
        return summary(*self._told())

    def _repr_html_(self) -> str:
        return summary_html(*self._told())

    @abstractmethod
    def _told(self) -> tuple[str, tuple[str, ...], list[str], Bools]:
        """Return title, names, sizes and presence of the kernels."""
