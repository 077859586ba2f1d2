"""Precomputed kernels: the container `KernelStack`.

A stack holds M kernels of the same samples in one Gram array (M, n_rows, n_cols) and the mask of
the samples that each kernel observes. Slicing a stack keeps the Gram and changes a list of row
ids, so cross-validation copies no kernel. Kernels are read one at a time.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np
from scipy.sparse import issparse

from kernelquilt._messages import quoted
from kernelquilt._typing import Bools, Indices, Kernel
from kernelquilt.data.blocks import is_annotated
from kernelquilt.data.containers import check_mask, check_names, row_positions
from kernelquilt.data.gram import (
    KernelRows,
    all_nan,
    as_kernels,
    check_diagonals,
    check_finite,
    check_kernel,
    copy_entries,
    zero_where_absent,
)


@dataclass(frozen=True, eq=False)
class _Gram:
    """What all slices of a stack share."""

    kernels: Sequence[Kernel] | Kernel
    names: tuple[str, ...]
    diag: Kernel | None
    square: bool
    dtype: np.dtype[Any]
    checked: bool = False  # known to be finite and symmetric
    token: str = field(default_factory=lambda: uuid4().hex)


class TrainingRows(NamedTuple):
    """What a fitted model keeps of a training stack instead of its kernels."""

    token: str
    ids: Indices
    observed: Bools
    names: tuple[str, ...]


class KernelStack(KernelRows):
    """Precomputed kernels of the same samples, some of them absent for some samples.

    Parameters
    ----------
    K : array-like of shape (M, n_rows, n_cols), or list of M arrays of shape (n_rows, n_cols)
        The kernels, for training square and symmetric; for unseen samples their rows against
        the n_cols training samples. Memory-mapped arrays are read one kernel at a time. float32
        and float64 are kept, other real types are used as float64. Entries of absent samples may
        hold anything.
    observed : array-like of bool of shape (n_rows, M), default=None
        True where a kernel observes a sample. By default a sample is absent from a kernel iff
        its whole row is NaN.
    names : sequence of str of length M, default=None
        Names of the kernels, by default ``kernel_0``, ``kernel_1``, ...
    diag : array-like of shape (M, n_rows), default=None
        Similarity k(x, x) of each row with itself, which a rectangular stack needs to be scaled.
        A stack with `diag` counts as rectangular.

    Attributes
    ----------
    shape : tuple
        ``(n_rows, M)``; scikit-learn takes the first entry as the number of samples.
    names : tuple of str
        The names of the kernels.
    observed : ndarray of bool of shape (n_rows, M)
        True where a kernel observes a sample.
    ids : ndarray of int of shape (n_rows,)
        The rows of the shared Gram that this stack selects.
    token : str
        Identifies the shared Gram, also after pickling.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelquilt.data.stack import KernelStack
    >>> X = np.arange(6.0).reshape(3, 2)
    >>> stack = KernelStack([X @ X.T, np.eye(3)], names=["linear", "identity"])
    >>> stack[[2, 0]].gram().shape
    (2, 2, 2)
    """

    _instead = "its kernels are returned by gram()"

    def __init__(
        self,
        K: Any,
        observed: Any = None,
        names: Iterable[Any] | None = None,
        diag: Any = None,
    ) -> None:
        kernels, dtype = as_kernels(K)
        M, (n_rows, n_cols) = len(kernels), kernels[0].shape
        if names is None:
            names = (f"kernel_{m}" for m in range(M))
        if diag is not None:
            diag = np.asarray(diag, dtype=dtype)
            if diag.shape != (M, n_rows):
                raise ValueError(f"diag must have shape {(M, n_rows)}, got {diag.shape}")
        square = n_rows == n_cols and diag is None
        self._shared = _Gram(kernels, check_names(names, M, "kernel"), diag, square, dtype)
        self._ids = None
        if observed is None:
            self._observed = ~np.column_stack([all_nan(kernel, square) for kernel in kernels])
        else:
            self._observed = check_mask(observed, (n_rows, M), "kernels")
        if diag is not None:
            check_diagonals(diag, self._observed, self.names)

    @classmethod
    def _computed(
        cls,
        K: Kernel,
        observed: Bools,
        names: tuple[str, ...],
        *,
        square: bool,
        diag: Kernel | None = None,
        checked: bool = False,
    ) -> "KernelStack":
        """Wrap kernels whose columns are known to be the rows, or not, and perhaps symmetric."""
        return cls._build(_Gram(K, names, diag, square, K.dtype, checked), None, observed)

    @property
    def token(self) -> str:
        """Identifies the shared Gram, also after pickling."""
        return self._shared.token

    @property
    def square(self) -> bool:
        """Whether the columns of the Gram are the same samples as its rows."""
        return self._shared.square

    @property
    def n_cols(self) -> int:
        """Number of columns: own rows of a square stack, training samples of a rectangular one."""
        return len(self) if self.square else self._shared.kernels[0].shape[1]

    @property
    def diag(self) -> Kernel | None:
        """Similarity of each row with itself, shape (M, n_rows), None if it is not known."""
        gram = self._shared
        if gram.square:
            return np.array([kernel[self.ids, self.ids] for kernel in gram.kernels], gram.dtype)
        return None if gram.diag is None else gram.diag[:, self.ids]

    def diag_of_rows(self, training: TrainingRows) -> Kernel | None:
        """Return `diag` of rows that are to be compared with training samples.

        Parameters
        ----------
        training : TrainingRows
            As in `cross_kernels`.

        Returns
        -------
        diag : ndarray of shape (M, n_rows) or None
            None if it is not known: the columns of a square stack with another token are the
            training samples, so that its diagonal is not that of its rows with themselves.
        """
        return self.diag if self.token == training.token or not self.square else None

    @property
    def training_rows(self) -> TrainingRows:
        """What a model fitted to this stack keeps for `cross_kernels`; O(n_rows M)."""
        return TrainingRows(self.token, self.ids, self.observed, self.names)

    def _with_observed(self, observed: Bools) -> "KernelStack":
        """Return the same rows of the same kernels with another mask of shape (n_rows, M)."""
        return self._build(self._shared, self._ids, observed)

    def _chosen(self, positions: list[int], names: tuple[str, ...]) -> _Gram:
        gram = self._shared
        chosen: Sequence[Kernel] | Kernel = [gram.kernels[m] for m in positions]
        if isinstance(gram.kernels, np.ndarray) and len(positions) == 1:
            chosen = gram.kernels[positions[0] : positions[0] + 1]
        diag = None if gram.diag is None else gram.diag[positions]
        token = f"{gram.token}/{'.'.join(map(str, positions))}"
        return _Gram(chosen, names, diag, gram.square, gram.dtype, gram.checked, token)

    def _told(self) -> tuple[str, tuple[str, ...], list[str], Bools]:
        """Return title, names, sizes and presence of the kernels."""
        size = sum(kernel.nbytes for kernel in self._shared.kernels) / 2**20
        held = len(self._shared.kernels[0])
        of = "" if self._ids is None else f" selected of {held}"
        return (
            f"KernelStack: {len(self.names)} kernels, {len(self)} rows{of} x {self.n_cols} "
            f"columns, {self.dtype}, {size:.1f} MiB",
            self.names,
            [""] * len(self.names),
            self._observed,
        )

    def gram(self, rows: Any = None, cols: Any = None) -> Kernel:
        """Return entries of all kernels, as they are stored.

        Parameters
        ----------
        rows : int, slice or array-like, default=None
            Positions in this stack, by default all.
        cols : int, slice or array-like, default=None
            Positions in this stack if it is square, otherwise columns; by default all.

        Returns
        -------
        K : ndarray of shape (M, r, c)
            May share memory with the stack. The entries of absent samples are whatever was stored.
        """
        row_ids = self._ids if rows is None else self.ids[row_positions(rows, len(self))]
        if self.square:
            col_ids = self._ids if cols is None else self.ids[row_positions(cols, len(self))]
        else:
            col_ids = None if cols is None else row_positions(cols, self.n_cols)
        whole = self._contiguous()
        if row_ids is None and col_ids is None and whole is not None:
            return whole
        r = len(self) if row_ids is None else len(row_ids)
        c = self.n_cols if col_ids is None else len(col_ids)
        K = np.empty((len(self.names), r, c), dtype=self.dtype)
        for kernel, out in zip(self._shared.kernels, K, strict=True):
            copy_entries(kernel, row_ids, col_ids, out)
        return K

    def training_gram(self) -> tuple[Kernel, Bools]:
        """Return the kernels among the own samples as a solver needs them.

        Returns
        -------
        K : ndarray of shape (M, n_rows, n_rows)
            Contiguous, finite, symmetric to rounding, zero where absent. The stored array
            itself if it is like this and no rows were sliced, otherwise one copy.
        observed : ndarray of bool of shape (n_rows, M)
            Which kernels the samples have.
        """
        self.check_square()
        K = self._contiguous() if self._ids is None else None
        if K is None or not all(map(zero_where_absent, K, self._observed.T)):
            K = np.empty((len(self.names), len(self), len(self)), dtype=self.dtype)
            for m, out in enumerate(K):
                self._copy_training_kernel(m, out)
        if not self._shared.checked:
            for kernel, name in zip(K, self.names, strict=True):
                check_kernel(kernel, name)
        return K, self._observed

    def training_kernels(self) -> Iterator[Kernel]:
        """Yield the kernels of `training_gram` one by one, holding one copy at a time.

        Yields
        ------
        kernel : ndarray of shape (n_rows, n_rows)
            As in `training_gram`.
        """
        self.check_square()
        for m, name in enumerate(self.names):
            kernel = np.empty((len(self), len(self)), dtype=self.dtype)
            self._copy_training_kernel(m, kernel)
            if not self._shared.checked:
                check_kernel(kernel, name)
            yield kernel

    def cross_kernels(
        self, training: TrainingRows, needed: Bools | None = None
    ) -> Iterator[Kernel]:
        """Iterate over the kernels of the own rows against training samples.

        Parameters
        ----------
        training : TrainingRows
            From the stack a model was fitted to. If it has the token of this stack, its ids say
            which columns are the training samples; otherwise the columns of this stack must be
            the training samples, in order.
        needed : ndarray of bool of shape (M,), default=None
            Which kernels are read, by default all.

        Yields
        ------
        kernel : ndarray of shape (n_rows, n_train)
            Finite, zero where the row or the column is absent.
        """
        # checks are done here, not when the first kernel is asked for
        cols = self._columns_of(training)
        chosen = range(len(self.names)) if needed is None else np.flatnonzero(needed).tolist()
        return (self._cross(m, cols, training.observed[:, m]) for m in chosen)

    def cross_kernel(self, training: TrainingRows, m: int, columns: Indices) -> Kernel:
        """Return one kernel of the own rows against some of the training samples.

        Parameters
        ----------
        training : TrainingRows
            As in `cross_kernels`.
        m : int
            The kernel.
        columns : ndarray of int of shape (n_columns,)
            Positions among the training samples.

        Returns
        -------
        kernel : ndarray of shape (n_rows, n_columns)
            As in `cross_kernels`.
        """
        cols = self._columns_of(training)
        cols = columns if cols is None else cols[columns]
        return self._cross(m, cols, training.observed[columns, m])

    def _columns_of(self, training: TrainingRows) -> Indices | None:
        """Return the columns that are the training samples, None for all in order."""
        if self.names != training.names:
            raise ValueError(
                f"X has the {len(self.names)} kernels {quoted(self.names)}, but the estimator was "
                f"fitted with the {len(training.names)} kernels {quoted(training.names)}; a plain "
                "array has shape (n_rows, n_train, M), kernels last"
            )
        if self.token == training.token:
            return training.ids
        n_cols = self._shared.kernels[0].shape[1]
        if n_cols != len(training.ids):
            raise ValueError(
                f"X has {n_cols} columns, but the estimator was fitted on {len(training.ids)} "
                "samples; the columns of a stack of new samples are the training samples, in "
                "order (or slice training and new samples from one stack)"
            )
        return None

    def _cross(self, m: int, cols: Indices | None, col_observed: Bools) -> Kernel:
        out = np.empty((len(self), len(col_observed)), dtype=self.dtype)
        copy_entries(self._shared.kernels[m], self._ids, cols, out)
        out[~self._observed[:, m]] = 0
        out[:, ~col_observed] = 0
        check_finite(out, self.names[m])
        return out

    def check_psd(self, tol: float = 1e-8) -> "KernelStack":
        """Raise a ValueError if a kernel is not positive semi-definite on its observed samples.

        Parameters
        ----------
        tol : float, default=1e-8
            Negative eigenvalues down to -`tol` times the largest one count as rounding.

        Returns
        -------
        self : KernelStack
            The stack itself.
        """
        for kernel, name, present in zip(
            self.training_kernels(), self.names, self._observed.T, strict=True
        ):
            if not present.any():
                continue
            eigenvalues = np.linalg.eigvalsh(kernel[np.ix_(present, present)].astype(np.float64))
            lowest, highest = eigenvalues[0], eigenvalues[-1]
            if lowest < -tol * max(highest, 0.0):
                raise ValueError(
                    f"kernel {name!r} is not positive semi-definite on its {present.sum()} "
                    f"observed samples: its most negative eigenvalue is {lowest:.6g}, its largest "
                    f"{highest:.6g}"
                )
        return self

    def _contiguous(self) -> Kernel | None:
        """Return the stored array if solvers can work on it as it is."""
        K = self._shared.kernels
        if not isinstance(K, np.ndarray) or isinstance(K, np.memmap):
            return None
        usable = K.flags.c_contiguous and K.flags.aligned and K.dtype == self.dtype
        return K if usable else None

    def _copy_training_kernel(self, m: int, out: Kernel) -> None:
        absent = ~self._observed[:, m]
        copy_entries(self._shared.kernels[m], self._ids, self._ids, out)
        out[absent] = 0
        out[:, absent] = 0

    def check_square(self) -> None:
        """Refuse kernels that are not those of the samples with each other."""
        if not self.square:
            raise ValueError(
                "fit needs a square stack of symmetric kernels, got "
                f"{self._shared.kernels[0].shape} kernels"
                + (" with diag=" if self._shared.diag is not None else "")
                + "; a plain array of kernels has shape (n, n, M), kernels last; of kernels first, "
                "(M, n, n), make a KernelStack(K)"
            )


def as_stack(X: Any) -> KernelStack:
    """Return a KernelStack, also from a plain array of kernels.

    Parameters
    ----------
    X : KernelStack, array-like of shape (n_rows, n_cols, M) or (n_rows, n_cols), or list
        A plain array has the kernels last, which is what scikit-learn can slice; a 2-D array is
        one kernel. A list of 2-D arrays is a list of kernels.

    Returns
    -------
    stack : KernelStack of shape (n_rows, M)
    """
    if isinstance(X, KernelStack):
        return X
    if hasattr(X, "observed") or isinstance(X, Mapping) or is_annotated(X) or issparse(X):
        raise ValueError(
            f"kernels are needed here, got a {type(X).__name__}; ViewKernels makes them of views"
        )
    if isinstance(X, list | tuple) and all(len(getattr(kernel, "shape", ())) == 2 for kernel in X):
        return KernelStack(X)
    K = np.asanyarray(X)
    if K.ndim == 2:
        return KernelStack(K[None])
    if K.ndim != 3:
        raise ValueError(
            "precomputed kernels are a KernelStack or an array of shape (n_rows, n_cols, M), got "
            f"an array with {K.ndim} dimensions"
        )
    return KernelStack(np.moveaxis(K, -1, 0))
