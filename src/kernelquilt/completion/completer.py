"""What the completers share: from a stack with absent samples to one without, and back for rows.

A subclass says how the training kernels are completed (`_complete`) and how new rows are
(`_complete_rows`). It meets neither kernels that no training sample has, which stay absent, nor
samples without any kernel: these get the mean feature vector of the observed training samples,

    phi_p(x) = sum_i w_pi phi_p(x_i),    w_pi = s_ip / n_p,

in every completed kernel p. Nothing here depends on how such samples are arranged in the stack.
"""

from abc import abstractmethod
from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from kernelquilt._messages import quoted, warn_user
from kernelquilt._typing import Bools, Floats, Kernel
from kernelquilt.completion.linalg import block
from kernelquilt.core.limits import check_memory
from kernelquilt.data.containers import warn_all_absent
from kernelquilt.data.stack import KernelStack
from kernelquilt.kernels.stack_transformer import StackTransformer

FEW = 3  # samples from which on a kernel can be completed in earnest
_SMALLEST = 1e-100  # sizes of entries from here to its inverse may be squared and summed


def _not_empty(observed: Bools) -> tuple[Bools, Bools]:
    """Return which kernels have a sample, and which samples have a kernel."""
    return np.asarray(observed.any(axis=0)), np.asarray(observed.any(axis=1))


def warn_means(counts: Mapping[str, int], n_samples: int, what: str, why: str) -> None:
    """Warn about samples, counted for each kernel, for which only its mean is left."""
    listed = ", ".join(f"{name!r}: {count}" for name, count in counts.items() if count)
    if listed:
        warn_user(
            f"of {n_samples} {what} some lack a kernel and {why}; they get the mean of that "
            f"kernel ({listed})"
        )


class BaseCompleter(StackTransformer):
    """Base of the transformers that complete kernels."""

    _empty_get = "the mean of each kernel"
    # (n, n) arrays that completing takes at a time: for each kernel, and beside
    _arrays: ClassVar[tuple[float, float]] = (1.0, 3.0)

    @abstractmethod
    def _complete(self, K: Kernel, observed: Bools) -> None:
        """Complete training kernels in place and keep what `_complete_rows` needs.

        Parameters
        ----------
        K : ndarray of shape (M, n, n)
            Finite and zero where absent; of the kernels and samples that are not left out.
        observed : ndarray of bool of shape (n, M)
            With at least one entry in every row and column.
        """

    @abstractmethod
    def _complete_rows(self, K: Kernel, observed: Bools, diag: Floats | None) -> Floats | None:
        """Complete rows against the training samples in place and return their `diag`.

        Parameters
        ----------
        K : ndarray of shape (M, n_rows, n)
            Finite and zero where the row or the column is absent.
        observed : ndarray of bool of shape (n_rows, M)
            With at least one entry in every row.
        diag : ndarray of shape (M, n_rows) or None
            Similarity of each row with itself, zero where absent; None if it is not known.
        """

    def _arrays_needed(self) -> tuple[float, float]:
        """Return `_arrays`, or what a parameter makes of them."""
        return self._arrays

    def _empty_weights(self, observed: Bools) -> Floats:
        """Return the weights (M, n) that make the features of samples without any kernel."""
        return np.asarray((observed / observed.sum(axis=0)).T)

    def _fit(self, stack: KernelStack) -> None:
        self._fit_transform(stack)

    def _fit_transform(self, stack: KernelStack) -> KernelStack:
        seen, known = _not_empty(stack.observed)
        if not seen.any():
            raise ValueError(
                f"all {len(seen)} kernels are absent for all {len(known)} training samples; "
                "nothing can be completed from nothing"
            )
        part = stack if known.all() else stack[known]
        per_kernel, beside = self._arrays_needed()
        check_memory(*part.shape, 8 * len(part) ** 2 * (per_kernel * seen.sum() + beside))
        K = np.empty((seen.sum(), len(part), len(part)), dtype=stack.dtype)
        outs = iter(K)
        for kernel, used in zip(part.training_kernels(), seen, strict=True):
            if used:
                next(outs)[...] = kernel
        warn_all_absent(stack.observed, stack.names, "kernel")
        self._warn_empty(known, "training samples")
        self.training_rows_ = stack.training_rows
        self.n_features_in_ = len(stack.names)
        observed = part.observed[:, seen]
        try:
            self._complete(K, observed)
        except np.linalg.LinAlgError:
            part.check_psd()  # names the kernel at fault
            raise
        weights = self._empty_weights(observed)
        self._empty_rows = np.array([kernel @ w for kernel, w in zip(K, weights, strict=True)])
        self._empty_diag = (self._empty_rows * weights).sum(axis=1)
        return self._stack_of(K, known, stack.names, square=True)

    def _transform(self, stack: KernelStack) -> KernelStack:
        training = self.training_rows_
        seen, columns = _not_empty(training.observed)
        kernels = stack.cross_kernels(training, seen)  # which checks that the stack fits
        observed = stack.observed[:, seen]
        rows = np.asarray(observed.any(axis=1))
        self._warn_empty(rows, "samples")
        K = np.empty((seen.sum(), rows.sum(), columns.sum()), dtype=stack.dtype)
        for out, kernel in zip(K, kernels, strict=True):
            out[...] = block(kernel, rows, columns)
        own, diag = stack.diag_of_rows(training), None
        if own is not None:
            own = np.where(observed.T, own[seen], 0)[:, rows].astype(np.float64)
        completed = self._complete_rows(K, observed[rows], own)
        if completed is not None:
            diag = np.zeros((len(seen), len(rows)), dtype=stack.dtype)
            diag[np.ix_(seen, rows)] = completed
            diag[np.ix_(seen, ~rows)] = self._empty_diag[:, None]
        return self._stack_of(K, rows, stack.names, square=False, diag=diag)

    def _stack_of(
        self,
        K: Kernel,
        rows: Bools,
        names: tuple[str, ...],
        square: bool,
        diag: Kernel | None = None,
    ) -> KernelStack:
        """Add kernels that stay absent, and rows and columns of samples without any kernel.

        Parameters
        ----------
        K : ndarray of shape (M, n_known_rows, n)
        rows : ndarray of bool of shape (n_rows,)
            Which of all rows are in K.
        names, square, diag
            As in a stack.
        """
        seen, columns = _not_empty(self.training_rows_.observed)
        if not (seen.all() and columns.all() and rows.all()):
            whole = np.zeros((len(seen), len(rows), len(columns)), dtype=K.dtype)
            weights = self._empty_weights(self._known_observed())
            for m, kernel, empty, weight in zip(
                np.flatnonzero(seen), K, self._empty_rows, weights, strict=True
            ):
                whole[m][np.ix_(rows, columns)] = kernel
                whole[m][np.ix_(~rows, columns)] = empty
                whole[m][:, ~columns] = (whole[m][:, columns] @ weight)[:, None]
            K = whole
        filled = np.tile(seen, (len(rows), 1))
        return KernelStack._computed(K, filled, names, square=square, diag=diag)

    def _known_observed(self) -> Bools:
        """Return the mask (n, M) of the kernels and training samples that are not left out."""
        seen, known = _not_empty(self.training_rows_.observed)
        return np.asarray(self.training_rows_.observed[known][:, seen])

    def _check_sizes(self, K: Kernel) -> None:
        """Refuse kernels (M, n, n) whose squares leave the range of numbers."""
        for kernel, name in zip(K, self._kernel_names(), strict=True):
            size = float(np.abs(kernel).max())
            if size > 0 and not _SMALLEST <= size <= 1.0 / _SMALLEST:
                raise ValueError(
                    f"kernel {name!r} of {len(kernel)} samples has entries up to {size:.3g}, whose "
                    f"squares {type(self).__name__} cannot sum; put ScaleKernels() before it"
                )

    def _kernel_names(self) -> list[str]:
        """Return the names of the kernels that are not left out."""
        seen, _ = _not_empty(self.training_rows_.observed)
        return [name for name, used in zip(self.training_rows_.names, seen, strict=True) if used]

    def _of_all_kernels(self, pairs: Floats, fill: float = 0.0) -> Floats:
        """Add kernels that no sample has to a matrix of all pairs of kernels."""
        seen, _ = _not_empty(self.training_rows_.observed)
        whole = np.full((len(seen), len(seen)), fill)
        whole[np.ix_(seen, seen)] = pairs
        return whole

    def _warn_empty(self, known: Bools, what: str) -> None:
        if not known.all():
            warn_user(
                f"{(~known).sum()} of {len(known)} {what} have no observed kernel and get "
                f"{self._empty_get}"
            )

    def _warn_little_known(self, observed: Bools) -> None:
        """Warn about kernels that hardly any sample has, and that share none with another."""
        self._warn_few(observed)
        self._warn_alone(observed)

    def _warn_few(self, observed: Bools) -> None:
        """Warn about kernels that hardly any sample has."""
        names, counts = self._kernel_names(), observed.sum(axis=0)
        few = [name for name, count in zip(names, counts, strict=True) if count < FEW]
        if few and not observed.all():
            warn_user(
                f"fewer than {FEW} of {len(observed)} training samples have the kernels "
                f"{quoted(few)}; what is completed there has little to rest on, and leaving them "
                "out may be better"
            )

    def _warn_alone(self, observed: Bools) -> None:
        """Warn about kernels that share no sample with another."""
        shared = observed.T.astype(np.float64) @ observed
        np.fill_diagonal(shared, 0.0)
        alone = [
            name
            for name, others, present in zip(self._kernel_names(), shared, observed.T, strict=True)
            if not present.all() and not others.any()
        ]
        if alone:
            warn_user(
                f"the kernels {quoted(alone)} have none of the {len(observed)} training samples in "
                "common with another kernel, so that nothing can be learned about what is absent "
                "in them; it starts from their mean"
            )
