"""Kernels as factors: the container `LowRankStack`.

A kernel that is ``Z Z'`` for a factor ``Z (n, r)`` needs n r numbers instead of n^2. The container
behaves like a `KernelStack`: it has names, a mask of the samples that each kernel observes, and is
sliced by rows without a copy.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.sparse import issparse

from kernelquilt._messages import quoted
from kernelquilt._typing import Array, Bools, Floats, Indices
from kernelquilt.core.psd import pivoted_factor
from kernelquilt.core.svm.factors import Factors
from kernelquilt.data.blocks import with_nan
from kernelquilt.data.containers import check_mask, check_names
from kernelquilt.data.gram import LARGEST, KernelRows
from kernelquilt.data.stack import KernelStack
from kernelquilt.data.views import MultiView

_BLOCK = 4096  # rows read at a time


@dataclass(frozen=True, eq=False)
class _Blocks:
    """What all slices of a stack of factors share."""

    factors: tuple[Array, ...]
    names: tuple[str, ...]
    explained: Floats
    origin: str | None = None  # the map that made them
    whole: Array | None = None  # the factors side by side, where they are stored like this
    checked: bool = False  # known to be finite, and zero where absent

    @property
    def dtype(self) -> np.dtype[Any]:
        single = all(factor.dtype == np.float32 for factor in self.factors)
        return np.dtype(np.float32 if single else np.float64)


class LowRankStack(KernelRows):
    """Kernels of the same samples as factors, ``K_p = Z_p Z_p'``, some absent for some samples.

    For as many samples as their features fit into memory, or on disk: classifiers of this package
    that are given one solve the same problem as on the kernels, and never make an n x n array.
    `EmpiricalKernelMap` with ``factors=True`` makes one from views, `FeatureKernels` one from any
    transformers, and `from_kernels` one from a `KernelStack`. Unseen samples are another stack of
    the same features.

    Parameters
    ----------
    factors : list or dict of M array-likes of shape (n_rows, r_p), MultiView, or one such array
        The factors. float32 and float64 are kept, other real types are used as float64. Rows of
        absent samples may hold anything. Parts of one C-contiguous array, as of
        ``np.split(Z, cuts, axis=1)``, are not copied in ``fit``, so that Z may be memory-mapped.
    observed : array-like of bool of shape (n_rows, M), default=None
        True where a kernel observes a sample. By default a sample is absent from a kernel iff
        its whole row is NaN.
    names : sequence of str of length M, default=None
        Names of the kernels, by default those of a dict or MultiView, or ``kernel_0``, ...

    Attributes
    ----------
    shape : tuple
        ``(n_rows, M)``; scikit-learn takes the first entry as the number of samples.
    names : tuple of str
        The names of the kernels.
    observed : ndarray of bool of shape (n_rows, M)
        True where a kernel observes a sample.
    ranks : ndarray of int of shape (M,)
        Numbers of columns of the factors.
    explained_trace : ndarray of shape (M,)
        Share of the trace of each kernel that its factor explains, on samples that it was not made
        from where there are such; NaN where it is not known.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelquilt.data.low_rank import LowRankStack
    >>> stack = LowRankStack({"a": np.ones((4, 2)), "b": np.eye(4)})
    >>> stack[[3, 0]].factor("b")
    array([[0., 0., 0., 1.],
           [1., 0., 0., 0.]])
    """

    _instead = "its factors are returned by factor(name)"

    def __init__(self, factors: Any, observed: Any = None, names: Any = None) -> None:
        if isinstance(factors, MultiView):
            observed = factors.observed if observed is None else observed
            factors = {name: factors[name] for name in factors.names}
        if isinstance(factors, Mapping):
            names = list(factors) if names is None else names
            factors = list(factors.values())
        elif not isinstance(factors, list | tuple):
            factors = [factors]
        if names is None:
            names = [f"kernel_{p}" for p in range(len(factors))]
        if len(factors) == 0:
            raise ValueError("a LowRankStack needs at least one factor")
        names = check_names(names, len(factors), "kernel")
        arrays = tuple(_as_factor(*pair) for pair in zip(factors, names, strict=True))
        lengths = {name: len(array) for name, array in zip(names, arrays, strict=True)}
        if len(set(lengths.values())) > 1:
            counts = ", ".join(f"{name!r} has {length}" for name, length in lengths.items())
            raise ValueError(f"factors must hold the same samples as rows, but {counts}")
        n = len(arrays[0])
        unknown = np.full(len(arrays), np.nan)
        self._shared = _Blocks(arrays, names, unknown, whole=_side_by_side(arrays))
        self._ids = None
        if observed is None:
            self._observed = np.column_stack([_present(array) for array in arrays])
        else:
            self._observed = check_mask(observed, (n, len(arrays)), "kernels")

    @classmethod
    def _computed(
        cls,
        Z: Array,
        ranks: Any,
        observed: Bools,
        names: tuple[str, ...],
        explained: Floats,
        origin: str | None = None,
    ) -> "LowRankStack":
        """Wrap factors side by side (n, D), zero where absent."""
        factors = tuple(np.split(Z, np.cumsum(ranks)[:-1], axis=1))
        return cls._build(_Blocks(factors, names, explained, origin, Z, True), None, observed)

    @classmethod
    def _of_views(cls, features: MultiView, origin: str) -> "LowRankStack":
        """Wrap the features that a map made of each view."""
        made = cls(features)
        made._shared = replace(made._shared, origin=origin)
        return made

    @classmethod
    def from_kernels(
        cls, stack: KernelStack, tol: float = 1e-6, max_rank: int | None = None
    ) -> "LowRankStack":
        """Factorise the kernels of a square stack by pivoted Cholesky decomposition.

        Parameters
        ----------
        stack : KernelStack of shape (n, M)
            Kernels, positive semi-definite.
        tol : float, default=1e-6
            Share of the trace of each kernel that may be left out.
        max_rank : int or None, default=None
            Cap on the columns of each factor; more may then be left out.

        Returns
        -------
        factors : LowRankStack of shape (n, M)
            With the ranks in `ranks` and what they explain in `explained_trace`. To predict,
            factorise training and new samples as one stack, and slice.
        """
        factors, explained = [], np.ones(len(stack.names))
        for p, (kernel, name) in enumerate(zip(stack.training_kernels(), stack.names, strict=True)):
            lowest = float(np.diagonal(kernel).min())
            if lowest < 0:
                raise ValueError(
                    f"kernel {name!r} of {len(stack)} samples is not positive semi-definite: "
                    f"its smallest k(x, x) is {lowest:.3g}"
                )
            factor, explained[p] = pivoted_factor(kernel, tol, max_rank)
            factors.append(factor.astype(stack.dtype, copy=False))
        Z, ranks = np.hstack(factors), [factor.shape[1] for factor in factors]
        return cls._computed(np.ascontiguousarray(Z), ranks, stack.observed, stack.names, explained)

    @property
    def ranks(self) -> Indices:
        """Numbers of columns of the factors, shape (M,)."""
        return np.array([factor.shape[1] for factor in self._shared.factors])

    @property
    def explained_trace(self) -> Floats:
        """Share of the trace of each kernel that its factor explains, (M,), NaN if not known."""
        return self._shared.explained

    def _with_observed(self, observed: Bools) -> "LowRankStack":
        """Return the same rows of the same factors with another mask of shape (n_rows, M)."""
        return self._build(replace(self._shared, checked=False), self._ids, observed)

    def _chosen(self, positions: list[int], names: tuple[str, ...]) -> _Blocks:
        blocks = self._shared
        chosen = tuple(blocks.factors[m] for m in positions)
        origin = None if blocks.origin is None else f"{blocks.origin}/{positions}"
        return _Blocks(chosen, names, blocks.explained[positions], origin)

    def _told(self) -> tuple[str, tuple[str, ...], list[str], Bools]:
        """Return title, names, sizes and presence of the kernels."""
        size = sum(factor.nbytes for factor in self._shared.factors) / 2**20
        held = len(self._shared.factors[0])
        of = "" if self._ids is None else f" selected of {held}"
        details = [
            f"rank {rank}"
            + ("" if np.isnan(share) else f", {100 * share:.1f} % of the trace")
            + ", "
            for rank, share in zip(self.ranks, self.explained_trace, strict=True)
        ]
        return (
            f"LowRankStack: {len(self.names)} kernels, {len(self)} rows{of}, {self.dtype}, "
            f"{size:.1f} MiB",
            self.names,
            details,
            self._observed,
        )

    def factor(self, kernel: int | str) -> Array:
        """Return the factor of one kernel.

        Parameters
        ----------
        kernel : int or str
            Position or name.

        Returns
        -------
        Z : ndarray of shape (n_rows, r), float32 or float64
            Finite, zero where absent; a copy.
        """
        m = self._position(kernel)
        Z = np.empty((len(self), self._shared.factors[m].shape[1]), dtype=self.dtype)
        self._copy(m, Z)
        return Z

    def training_factors(self) -> Factors:
        """Return the factors of the own samples as a solver needs them.

        Returns
        -------
        factors : Factors
            Side by side, contiguous, finite, zero where absent. The stored array itself if it is
            like this and no rows were sliced, otherwise one copy.
        """
        starts = np.concatenate([[0], np.cumsum(self.ranks)])
        if self._shared.whole is not None and self._ids is None and self._is_clean():
            return Factors(self._shared.whole, starts, self._observed)
        Z = np.empty((len(self), int(starts[-1])), dtype=self.dtype)
        for m, part in enumerate(np.split(Z, starts[1:-1], axis=1)):
            self._copy(m, part)
        return Factors(Z, starts, self._observed)

    def _copy(self, m: int, out: Array) -> None:
        """Copy one factor to `out`, zero where absent, a few rows at a time."""
        factor, present = self._shared.factors[m], self._observed[:, m]
        for start in range(0, len(out), _BLOCK):
            rows = slice(start, start + _BLOCK)
            out[rows] = factor[rows] if self._ids is None else factor[self._ids[rows]]
            out[rows][~present[rows]] = 0
        if not self._shared.checked:
            self._check_finite(m, out, present)

    def _is_clean(self) -> bool:
        """Whether the stored factors are zero where absent; observed entries must be finite."""
        if self._shared.checked:
            return True
        for factor, present in zip(self._shared.factors, self._observed.T, strict=True):
            if any(factor[row].any() for row in np.flatnonzero(~present)):
                return False
        for m, factor in enumerate(self._shared.factors):
            self._check_finite(m, factor, self._observed[:, m])
        return True

    def _check_finite(self, m: int, factor: Array, present: Bools) -> None:
        largest = np.sqrt(LARGEST[factor.dtype.name])
        if factor.size == 0 or (factor.min() >= -largest and factor.max() <= largest):
            return
        bad = ~np.isfinite(factor[present])
        if not bad.any():
            raise ValueError(
                f"the factor of kernel {self.names[m]!r} of {present.sum()} samples has entries up "
                f"to {np.abs(factor).max():.3g}, whose kernel is too large for {factor.dtype}; "
                "divide it by its largest entry"
            )
        raise ValueError(
            f"the factor of kernel {self.names[m]!r} has {bad.sum()} entries that are NaN or inf "
            f"in {bad.any(axis=1).sum()} of its {present.sum()} observed samples; mark samples as "
            "absent with observed=, or impute the features"
        )

    def check_like(self, names: tuple[str, ...], ranks: Indices, origin: str | None) -> None:
        """Refuse factors whose columns are not those that a model was fitted with.

        Parameters
        ----------
        names : tuple of str
            Names of the kernels at fit.
        ranks : ndarray of int of shape (M,)
            Their ranks.
        origin : str or None
            The map that made them, if one did.
        """
        if self.names != names:
            raise ValueError(
                f"X has the {len(self.names)} factors {quoted(self.names)}, but the estimator was "
                f"fitted with the {len(names)} factors {quoted(names)}"
            )
        for name, now, before in zip(names, self.ranks, ranks, strict=True):
            if now != before:
                raise ValueError(
                    f"the factor of kernel {name!r} has {now} columns, but the estimator was "
                    f"fitted with {before}; map new samples with the map of the training samples"
                )
        if origin is not None and self.origin is not None and origin != self.origin:
            raise ValueError(
                f"the factors of X ({quoted(names)}) were made by another map than those of the "
                "training samples, so that their columns mean something else; use the map that was "
                "fitted with the training samples"
            )

    @property
    def origin(self) -> str | None:
        """Identifies the map that made the factors, None if they were given."""
        return self._shared.origin


def _as_factor(factor: Any, name: str) -> Array:
    """Return a factor as a 2-D array of real numbers, without reading it."""
    if issparse(factor):
        raise ValueError(f"the factor of kernel {name!r} is sparse; give it as .toarray()")
    array = np.asanyarray(with_nan(factor))
    if array.ndim != 2 or 0 in array.shape:
        raise ValueError(
            f"the factor of kernel {name!r} must have shape (n_rows, rank) with a rank of at least "
            f"1, got {array.shape}"
        )
    if array.dtype.kind not in "fiub":
        raise ValueError(
            f"the factor of kernel {name!r} must hold real numbers, got dtype {array.dtype}"
        )
    return array


def _present(factor: Array) -> Bools:
    """Return which rows are not entirely NaN; only rows whose first cell is NaN are read."""
    if factor.dtype.kind != "f":
        return np.ones(len(factor), dtype=np.bool_)
    present = ~np.isnan(factor[:, 0])
    for row in np.flatnonzero(~present):
        present[row] = not np.isnan(factor[row]).all()
    return np.asarray(present)


def _side_by_side(factors: tuple[Array, ...]) -> Array | None:
    """Return the array whose columns the factors are, one after the other, if there is one."""
    first = factors[0]
    D = sum(factor.shape[1] for factor in factors)
    strides = (D * first.itemsize, first.itemsize)
    address = first.ctypes.data
    for factor in factors:
        alike = factor.dtype == first.dtype and factor.strides == strides
        if not alike or factor.ctypes.data != address or not factor.flags.aligned:
            return None
        address += factor.shape[1] * factor.itemsize
    if first.dtype not in (np.float32, np.float64):
        return None
    return np.lib.stride_tricks.as_strided(np.asarray(first), (len(first), D), strides)
