r"""Explicit features of kernels: the empirical kernel map, exact or on landmarks.

With the eigenvalues of a kernel that are positive, :math:`K = Q \Lambda Q'`,

.. math:: \Phi(z) = \Lambda^{-1/2} Q' \, (k(z, x_1), \dots, k(z, x_N))'

maps samples so that the inner products of the training samples are their kernel,
:math:`B B' = K` [1]_. With K between some of the samples only, the landmarks, the same formula is
the Nystroem approximation; it is exact when all samples are landmarks.

=====================  =============================================
paper symbol           name here
=====================  =============================================
K, ker(x, x_i)         the kernels given, or computed by ``kernels``
:math:`Q \Lambda^{-1/2}`  ``maps_[p]``, (n_landmarks, n_features)
B, :math:`\Phi^e(z)`   what ``transform`` returns
=====================  =============================================

References
----------
.. [1] Z. Wang, S. Chen and T. Sun, "MultiK-MHKS: a novel multiple kernel learning algorithm", IEEE
   TPAMI 30(2), 2008, Eqs. (5)-(7).
"""

from numbers import Integral, Real
from typing import Any, ClassVar
from uuid import uuid4

import numpy as np
from scipy.linalg import eigh
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, Options, StrOptions
from sklearn.utils.validation import check_is_fitted

from kernelquilt._messages import warn_user
from kernelquilt._typing import Array, Bools, Floats, Indices
from kernelquilt.core.limits import check_memory, single_threaded_blas, unchanged_on_error
from kernelquilt.data.gram import check_kernel
from kernelquilt.data.low_rank import LowRankStack
from kernelquilt.data.stack import KernelStack, as_stack
from kernelquilt.data.training import Samples, check_samples
from kernelquilt.data.validation import check_alignment
from kernelquilt.data.views import MultiView
from kernelquilt.kernels.inputs import PART_ENTRIES, count_kernels, fit_input
from kernelquilt.kernels.landmarks import LANDMARKS, TrainingKernel, training_kernels

DEFAULT_LANDMARKS = 100
HELD_OUT = 1000  # samples on which it is measured what the features explain
_ON_LANDMARKS = "method='nystroem' works on n_components landmarks; "


class EmpiricalKernelMap(TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    """Map samples to explicit features whose inner products are the kernels.

    Each kernel becomes a view; a sample that lacks the kernel lacks the view. Linear methods on
    the features are then kernel methods. With ``method="nystroem"`` and `kernels` given, no kernel
    between all samples is ever computed, which is the way to many thousands of samples.

    With ``concatenate=True`` the features of all kernels stand side by side in one 2-D array, so
    that any estimator of scikit-learn, or a survival model, can follow in a `Pipeline`.

    Parameters
    ----------
    rank_tol : float, default=1e-8
        Eigenvalues up to this share of the largest one are dropped: the map divides by their
        roots, which would blow up rounding.
    n_components : int or None, default=None
        Number of features of each kernel, those of the largest eigenvalues; None keeps all. For
        ``"nystroem"`` the number of landmarks, at least the number of features; None takes 100,
        or all samples that have the kernel if they are fewer.
    method : {"exact", "nystroem", "proximity"}, default="exact"
        ``"proximity"`` takes the similarities with the training samples, or with `n_components`
        landmarks, as the features themselves. It is meant for similarities that are not positive
        semi-definite; of these the other maps keep the positive eigenvalues only.
    landmarks : {"uniform", "kmeans", "pivoted_cholesky"}, default="uniform"
        How landmarks are chosen among the training samples: at random, as those nearest to the
        centres of clusters, or one after the other where the kernel is approximated worst.
    kernels : str, callable, list, dict or None, default=None
        Kernels of the views, as in `ViewKernels`; None if the samples are given as kernels.
    views : dict of str to columns, "columns" or None, default=None
        The views of 2-D data, as in `as_views`.
    concatenate : bool, default=False
        Whether to return one 2-D array, zero where a kernel is absent, instead of a `MultiView`.
    factors : bool, default=False
        Whether to return a `LowRankStack`, on which classifiers work without any kernel, instead
        of a `MultiView`; in `dtype`, of which np.float32 takes half of the memory.
    dtype : {np.float64, np.float32}, default=np.float64
        The type in which kernels are stored.
    random_state : int, RandomState instance or None, default=None
        For the choice of landmarks.

    Attributes
    ----------
    maps_ : list of M ndarrays of shape (n_landmarks, n_features of the kernel)
        What the similarities with the landmarks are multiplied with.
    landmarks_ : list of M ndarrays of int
        The landmarks of each kernel, as positions among the training samples.
    explained_trace_ : ndarray of shape (M,), with `factors`
        Share of the trace of each kernel that the features explain, on at most 1000 training
        samples that are no landmarks; 1 if there are none.
    kernel_names_ : tuple of str of length M
        Names of the kernels, and of the views of the features.
    n_features_in_ : int
        Number of columns of 2-D data, otherwise of views or kernels.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelquilt.kernels.maps import EmpiricalKernelMap
    >>> X = np.arange(6.0).reshape(3, 2)
    >>> features = EmpiricalKernelMap(kernels="linear").fit_transform(X)
    >>> bool(np.allclose(features["X"] @ features["X"].T, X @ X.T))
    True
    >>> EmpiricalKernelMap(kernels="linear", concatenate=True).fit_transform(X).shape
    (3, 2)
    """

    _at_most: bool = False  # whether fewer landmarks than n_components will do

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "rank_tol": [Interval(Real, 0, 1, closed="left")],
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "method": [StrOptions({"exact", "nystroem", "proximity"})],
        "landmarks": [StrOptions({"uniform", "kmeans", "pivoted_cholesky"})],
        "kernels": "no_validation",
        "views": "no_validation",
        "concatenate": ["boolean"],
        "factors": ["boolean"],
        "dtype": [Options(type, {np.float64, np.float32})],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        rank_tol: float = 1e-8,
        *,
        n_components: int | None = None,
        method: str = "exact",
        landmarks: str = "uniform",
        kernels: Any = None,
        views: Any = None,
        concatenate: bool = False,
        factors: bool = False,
        dtype: Any = np.float64,
        random_state: Any = None,
    ) -> None:
        self.rank_tol = rank_tol
        self.n_components = n_components
        self.method = method
        self.landmarks = landmarks
        self.kernels = kernels
        self.views = views
        self.concatenate = concatenate
        self.factors = factors
        self.dtype = dtype
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> "EmpiricalKernelMap":
        """Choose the landmarks and compute the maps.

        Parameters
        ----------
        X : KernelStack of shape (n_train, M), array-like of shape (n_train, n_train, M), or views
            Square kernels; views, or 2-D data, if `kernels` are given.
        y : object, default=None
            Ignored, unless its index says that its samples are in another order than those of `X`.

        Returns
        -------
        self : EmpiricalKernelMap
            The fitted map.
        """
        self._validate_params()
        if self.factors and (self.concatenate or self.method == "proximity"):
            raise ValueError(
                "factors=True returns a LowRankStack of features whose inner products are the "
                "kernels, which goes neither with concatenate=True nor with method='proximity'"
            )
        with unchanged_on_error(self), single_threaded_blas():
            rng = check_random_state(self.random_state)
            self.maps_: list[Floats] = []
            self.landmarks_: list[Indices] = []
            data = self._check_training_data(X)
            check_alignment(data, y, "y")
            self._check_memory(data)
            held = fit_input(self, data, None)
            explained = []
            for kernel, rows in training_kernels(held, data):
                chosen = self._choose(kernel, rng)
                self.maps_.append(self._map(kernel, chosen))
                self.landmarks_.append(rows[chosen])
                if self.factors:
                    explained.append(_explained(kernel, chosen, self.maps_[-1]))
            if self.factors:
                self.explained_trace_ = np.array(explained)
                self._origin = uuid4().hex
            held.describe(self)
            self.columns_ = held.keep_only(self.landmarks_)
        return self

    def transform(self, X: Any) -> Any:
        """Map samples.

        Parameters
        ----------
        X : as in `fit`
            Rows of the stack that was given to `fit`, a stack whose columns are the training
            samples, in order, or views like those of the training samples.

        Returns
        -------
        features : MultiView of n_rows samples and M views
            Absent where the kernel is. With `concatenate`, an ndarray of shape (n_rows,
            n_features), zero where a kernel is absent.
        """
        check_is_fitted(self, "maps_")
        with single_threaded_blas():
            data = self.input_.rows(self, X)
            observed = self._observed_of(data)
            if self.factors:
                return self._factors(data, observed)
            blocks = {}
            absent = 0.0 if self.concatenate else np.nan
            for m, name in enumerate(self.kernel_names_):
                block = np.full((len(observed), self.maps_[m].shape[1]), absent)
                self._fill(block, data, m, np.flatnonzero(observed[:, m]))
                blocks[name] = block
        if self.concatenate:
            return np.hstack(list(blocks.values()))
        return MultiView._build(blocks, observed, getattr(data, "index", None))

    def _observed_of(self, data: Samples) -> Bools:
        """Return which of the kernels that have landmarks samples have, (n_rows, M)."""
        trained = np.array([len(rows) > 0 for rows in self.landmarks_])
        return np.asarray(self.input_.observed_of(data) & trained)

    def _factors(self, data: Samples, observed: Bools) -> LowRankStack:
        ranks = [each.shape[1] for each in self.maps_]
        Z = np.zeros((len(observed), sum(ranks)), dtype=self.dtype)
        for m, part in enumerate(np.split(Z, np.cumsum(ranks)[:-1], axis=1)):
            size = max(1, PART_ENTRIES // max(1, len(self.maps_[m])))
            having = np.flatnonzero(observed[:, m])
            for begin in range(0, len(having), size):
                self._fill(part, data, m, having[begin : begin + size])
        names, explained = self.kernel_names_, self.explained_trace_
        return LowRankStack._computed(Z, ranks, observed, names, explained, self._origin)

    def _fill(self, block: Array, data: Samples, m: int, having: Indices) -> None:
        """Set the features of kernel m of the samples that have it."""
        if len(having):
            rows = self.input_.narrowed(data, m)[having]
            block[having] = self.input_.between(rows, m, self.columns_[m]) @ self.maps_[m]

    def _fit_at_most(self, data: Samples) -> "EmpiricalKernelMap":
        """Fit with no more landmarks of a kernel than samples have it."""
        self._at_most = True
        return self.fit(data)

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Return the names of the features, those of all kernels one after the other.

        Parameters
        ----------
        input_features : object, default=None
            Ignored.

        Returns
        -------
        names : ndarray of str of shape (n_features,)
            Such as ``mri__gaussian_1__0``: view, kernel (where the view has several), number.
        """
        check_is_fitted(self, "maps_")
        names = [
            f"{name}__{number}"
            for name, each in zip(self.kernel_names_, self.maps_, strict=True)
            for number in range(each.shape[1])
        ]
        return np.array(names, dtype=object)

    def _check_training_data(self, X: Any) -> Samples:
        if self.kernels is None:
            X = as_stack(X)
        elif isinstance(X, KernelStack):
            raise ValueError(
                f"X is a KernelStack of {len(X)} samples, but kernels={self.kernels!r} are to be "
                "computed from views; leave kernels=None for kernels"
            )
        return check_samples(self, X)

    def _check_memory(self, data: Samples) -> None:
        """Refuse too many landmarks before kernels are fitted, for which all pairs may count."""
        n_kernels, n = count_kernels(data, self.kernels), int(data.observed.sum(axis=0).max())
        if not self._takes_all():
            n = min(n, self.n_components or DEFAULT_LANDMARKS)
        arrays = n_kernels + (0 if self.method == "proximity" else 5)
        check_memory(n, n_kernels, 8 * n**2 * arrays, instead=_ON_LANDMARKS)

    def _takes_all(self) -> bool:
        """Whether all training samples that have a kernel are its landmarks."""
        return self.method == "exact" or (self.method == "proximity" and self.n_components is None)

    def _choose(self, kernel: TrainingKernel, rng: np.random.RandomState) -> Indices:
        """Return the landmarks among the samples that have the kernel, in ascending order."""
        everyone = np.arange(kernel.n)
        if self._takes_all():
            return everyone
        count = self.n_components or DEFAULT_LANDMARKS
        if self.n_components is not None and 0 < kernel.n < count and not self._at_most:
            raise ValueError(
                f"n_components={count} landmarks were asked for, but only {kernel.n} training "
                f"samples have kernel {kernel.name!r}; ask for fewer"
            )
        if count >= kernel.n:
            return everyone
        return np.sort(LANDMARKS[self.landmarks](kernel, count, rng))

    def _map(self, kernel: TrainingKernel, chosen: Indices) -> Floats:
        if len(chosen) == 0:
            return np.zeros((0, 1))
        if self.method == "proximity":
            return np.eye(len(chosen))
        K = kernel.columns(chosen)[chosen]
        check_kernel(K, kernel.name)
        values, vectors = eigh(K)
        values, vectors = values[::-1], vectors[:, ::-1]
        # the sign of an eigenvector is arbitrary; this makes it the same whoever computes it
        largest = np.abs(vectors).argmax(axis=0)
        vectors = vectors * np.sign(vectors[largest, np.arange(len(values))])
        top = max(float(values[0]), 0.0)
        if values[-1] < -max(self.rank_tol, 1e-8) * max(top, -float(values[-1])):
            warn_user(
                f"kernel {kernel.name!r} is not positive semi-definite (eigenvalues from "
                f"{values[-1]:.3g} to {values[0]:.3g}), and its negative part is left out; "
                "method='proximity' takes similarities as they are"
            )
        rank = int(np.count_nonzero(values > max(self.rank_tol, np.finfo(float).eps) * top))
        if self.method == "exact" and self.n_components is not None:
            if rank < self.n_components:
                raise ValueError(
                    f"n_components={self.n_components} is more than the rank {rank} of kernel "
                    f"{kernel.name!r} among its {kernel.n} training samples; ask for fewer, or "
                    f"lower rank_tol={self.rank_tol:g}"
                )
            rank = self.n_components
        if rank == 0:
            return np.zeros((len(chosen), 1))
        return np.asarray(vectors[:, :rank] / np.sqrt(values[:rank]))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.views is not None
        tags.input_tags.sparse = tags.input_tags.two_d_array = self.kernels is not None
        tags.input_tags.three_d_array = self.kernels is None
        return tags


def _explained(kernel: TrainingKernel, chosen: Indices, features: Floats) -> float:
    """Return the share of the trace that features explain on samples that are no landmarks."""
    others = np.setdiff1d(np.arange(kernel.n), chosen)
    others = others[:: max(1, len(others) // HELD_OUT)]
    trace = float(kernel.diag()[others].sum()) if len(others) else 0.0
    if trace <= 0.0:
        return 1.0
    return float(np.square(kernel.rows(others, chosen) @ features).sum()) / trace
