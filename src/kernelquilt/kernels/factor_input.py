"""What an estimator holds of training samples whose kernels are factors."""

from collections.abc import Iterator
from typing import Any, NoReturn

import numpy as np

from kernelquilt._typing import Bools, Floats, Indices
from kernelquilt.core.svm.factors import Factors
from kernelquilt.data.containers import warn_all_absent
from kernelquilt.data.low_rank import LowRankStack
from kernelquilt.data.new_samples import match_views
from kernelquilt.data.views import MultiView
from kernelquilt.kernels.inputs import KernelInput
from kernelquilt.kernels.maps import EmpiricalKernelMap

SEED = 0  # of the choice of landmarks, so that a fit can be repeated
FITTED = 5000  # samples of a view from which its kernels and landmarks are fitted, at least


class FactorInput(KernelInput):
    """The input of an estimator that works on factors: given ones, or those of landmarks.

    Of views that more than 5000 samples have, kernels and landmarks are fitted to 5000 of them.

    Parameters
    ----------
    estimator : estimator
        With the parameters `kernels` and `views`, and `n_landmarks` if it was given views.
    data : LowRankStack or MultiView of n samples
        The training samples.

    Attributes
    ----------
    explained : ndarray of shape (M,)
        Share of the trace of each kernel that its factor explains, NaN where it is not known.
    """

    def __init__(self, estimator: Any, data: LowRankStack | MultiView) -> None:
        super().__init__(estimator)
        self.map: EmpiricalKernelMap | None = None
        if isinstance(data, MultiView):
            self.map = EmpiricalKernelMap(
                method="nystroem",
                n_components=estimator.n_landmarks,
                kernels=estimator.kernels,
                factors=True,
                random_state=SEED,
            )._fit_at_most(data[_some_rows(data.observed, estimator.n_landmarks)])
            stack: LowRankStack = self.map.transform(data)
        else:
            stack = data
            warn_all_absent(stack.observed, stack.names, "kernel")
        self.names, self.observed = stack.names, stack.observed
        self.ranks, self.origin, self.explained = stack.ranks, stack.origin, stack.explained_trace
        self._training: LowRankStack | None = stack

    def describe(self, estimator: Any) -> None:
        """Give an estimator this input, and what the factors explain."""
        super().describe(estimator)
        estimator.explained_trace_ = self.explained

    def training_gram(self, data: Any) -> tuple[Any, Bools]:
        """Return the factors of the training samples, which are not kept, and their mask."""
        assert self._training is not None
        factors = self._training.training_factors()
        self._training = None
        return factors, self.observed

    def _rows(self, estimator: Any, X: Any) -> Any:
        """Return new samples of the kind that the estimator was fitted on."""
        given = isinstance(X, LowRankStack)
        if given != (self.map is None):
            kind = "a LowRankStack" if self.map is None else "views"
            raise ValueError(
                f"X is a {type(X).__name__}, but {type(estimator).__name__} was fitted on {kind} "
                f"of {len(self.names)} kernels; pass {kind} like those of the training samples"
            )
        if self.map is not None:
            return match_views(estimator, X, estimator.views)
        X.check_like(self.names, self.ranks, self.origin)
        return X

    def factors(self, rows: Any) -> LowRankStack:
        """Return the factors of samples from `rows`."""
        return rows if self.map is None else self.map.transform(rows)

    def observed_of(self, rows: Any) -> Bools:
        """Return which kernels samples have, (n_rows, M)."""
        return np.asarray(rows.observed) if self.map is None else self.map._observed_of(rows)

    def parts(self, rows: Any, entries_per_row: int) -> list[Any]:
        """Cut samples into parts whose factors take a moderate amount of memory."""
        return super().parts(rows, int(self.ranks.sum()))

    def kernels(self, rows: Any, needed: Bools | None = None) -> Iterator[Any]:
        """Refuse: there are no kernels with the training samples."""
        self._refuse()

    def between(self, rows: Any, m: int, columns: Indices) -> Floats:
        """Refuse, as `kernels` does."""
        self._refuse()

    def diag(self, rows: Any, m: int) -> Floats:
        """Return k(x, x) of samples in kernel m, zero where absent."""
        return np.square(self.factors(rows).factor(m)).sum(axis=1, dtype=np.float64)

    def _refuse(self) -> NoReturn:
        raise ValueError(
            f"the factors of {len(self.names)} kernels give no kernels with the training samples, "
            "which are not kept"
        )


def coefficients(factors: Factors, dual_coef: Floats, weights: Floats | None) -> list[Floats]:
    """Return the weight vectors of functions in the columns of the factors.

    Parameters
    ----------
    factors : Factors
        Of the n training samples.
    dual_coef : ndarray of shape (n_problems, n), or (n_problems, M, n)
        Duals in common, or those of each kernel.
    weights : ndarray of shape (n_problems, M), or None
        What multiplies the kernels in the score, 1 if None.

    Returns
    -------
    coef : list of M ndarrays of shape (n_problems, r_p)
    """
    coef = []
    for m, (begin, end) in enumerate(zip(factors.starts[:-1], factors.starts[1:], strict=True)):
        duals = dual_coef if dual_coef.ndim == 2 else dual_coef[:, m]
        vectors = duals.astype(factors.Z.dtype, copy=False) @ factors.Z[:, begin:end]
        scale = 1.0 if weights is None else weights[:, [m]]
        coef.append(np.asarray(scale * vectors, dtype=np.float64))
    return coef


def _some_rows(observed: Bools, n_landmarks: int) -> Indices:
    """Return enough samples of every view to fit kernels, whose widths come from all pairs."""
    count = max(FITTED, n_landmarks)
    order = np.random.default_rng(SEED).permutation(len(observed))
    rows = [order[present[order]][:count] for present in observed.T]
    return np.unique(np.concatenate(rows))
