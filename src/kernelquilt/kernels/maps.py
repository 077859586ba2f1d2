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

from collections.abc import Iterator
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import eigh
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from kernelquilt._messages import unchanged_on_error, warn_all_absent, warn_user
from kernelquilt._typing import Bools, Floats, Indices
from kernelquilt.core.blas import single_threaded_blas
from kernelquilt.data.stack import KernelStack, as_stack
from kernelquilt.data.views import MultiView
from kernelquilt.kernels.landmarks import LANDMARKS, TrainingKernel, computed_kernel, stored_kernel
from kernelquilt.kernels.view_kernels import ViewKernels, call_kernel

DEFAULT_LANDMARKS = 100


class EmpiricalKernelMap(TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    """Map samples to explicit features whose inner products are the kernels.

    Each kernel becomes a view; a sample that lacks the kernel lacks the view. Linear methods on
    the features are then kernel methods. With ``method="nystroem"`` and `kernels` given, no kernel
    between all samples is ever computed, which is the way to many thousands of samples.

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
    random_state : int, RandomState or None, default=None
        For the choice of landmarks.

    Attributes
    ----------
    maps_ : list of M ndarrays of shape (n_landmarks, n_features of the kernel)
        What the similarities with the landmarks are multiplied with.
    landmarks_ : list of M ndarrays of int
        The landmarks of each kernel, as positions among the training samples.
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
    >>> bool(np.allclose(features["X__linear"] @ features["X__linear"].T, X @ X.T))
    True
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "rank_tol": [Interval(Real, 0, 1, closed="left")],
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "method": [StrOptions({"exact", "nystroem", "proximity"})],
        "landmarks": [StrOptions({"uniform", "kmeans", "pivoted_cholesky"})],
        "kernels": "no_validation",
        "views": "no_validation",
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
        random_state: Any = None,
    ) -> None:
        self.rank_tol = rank_tol
        self.n_components = n_components
        self.method = method
        self.landmarks = landmarks
        self.kernels = kernels
        self.views = views
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> "EmpiricalKernelMap":
        """Choose the landmarks and compute the maps.

        Parameters
        ----------
        X : KernelStack of shape (n_train, M), array-like of shape (n_train, n_train, M), or views
            Square kernels; views, or 2-D data, if `kernels` are given.
        y : object, default=None
            Ignored.

        Returns
        -------
        self : EmpiricalKernelMap
        """
        self._validate_params()
        with unchanged_on_error(self), single_threaded_blas():
            rng = check_random_state(self.random_state)
            self.maps_: list[Floats] = []
            self.landmarks_: list[Indices] = []
            for kernel, present in self._training_kernels(X):
                chosen = self._choose(kernel, rng)
                self.maps_.append(self._map(kernel, chosen))
                self.landmarks_.append(np.flatnonzero(present)[chosen])
            if self.view_kernels_ is not None:
                self._keep_landmarks_only(self.view_kernels_)
        return self

    def transform(self, X: Any) -> MultiView:
        """Map samples.

        Parameters
        ----------
        X : as in `fit`
            Rows of the stack that was given to `fit`, a stack whose columns are the training
            samples, in order, or views like those of the training samples.

        Returns
        -------
        features : MultiView of n_rows samples and M views
            Absent where the kernel is.
        """
        check_is_fitted(self, "maps_")
        with single_threaded_blas():
            if self.view_kernels_ is None:
                stack = as_stack(X)
                similarities, observed = self._from_stack(stack), stack.observed
            else:
                data = self.view_kernels_.check_views(X)
                observed = self.view_kernels_.kernel_observed(data)
                similarities = self._from_views(data, observed)
            trained = np.array([len(rows) > 0 for rows in self.landmarks_])
            observed = np.asarray(observed & trained)
            blocks = {}
            for m, values in enumerate(similarities):
                block = np.full((len(observed), self.maps_[m].shape[1]), np.nan)
                block[observed[:, m]] = values[observed[:, m]] @ self.maps_[m]
                blocks[self.kernel_names_[m]] = block
        return MultiView._build(blocks, observed, getattr(X, "index", None))

    def _training_kernels(self, X: Any) -> Iterator[tuple[TrainingKernel, Bools]]:
        """Yield the kernels of the training samples and who has them; keep what describes them."""
        if self.kernels is None:
            stack = as_stack(X)
            warn_all_absent(stack.observed, stack.names, "kernel")
            self.view_kernels_: ViewKernels | None = None
            self.training_rows_ = stack.training_rows
            self.kernel_names_ = stack.names
            self.n_features_in_ = len(stack.names)
            for name, gram, present in zip(
                stack.names, stack.training_kernels(), stack.observed.T, strict=True
            ):
                yield stored_kernel(name, gram[np.ix_(present, present)]), present
            return
        if isinstance(X, KernelStack):
            raise ValueError(
                f"X is a KernelStack of {len(X)} samples, but kernels={self.kernels!r} are to be "
                "computed from views; leave kernels=None for kernels"
            )
        self.view_kernels_ = ViewKernels(self.kernels, views=self.views).fit(X)
        self.kernel_names_ = self.view_kernels_.kernel_names_
        self.n_features_in_ = self.view_kernels_.n_features_in_
        data = self.view_kernels_.training_views_
        observed = self.view_kernels_.kernel_observed(data)
        for m, name in enumerate(self.kernel_names_):
            block = data[data.names[self.view_kernels_.kernel_views_[m]]][observed[:, m]]
            yield computed_kernel(name, self.view_kernels_.kernels_[m], block), observed[:, m]

    def _choose(self, kernel: TrainingKernel, rng: np.random.RandomState) -> Indices:
        """Return the landmarks among the samples that have the kernel, in ascending order."""
        everyone = np.arange(kernel.n)
        if self.method == "exact" or (self.method == "proximity" and self.n_components is None):
            return everyone
        count = self.n_components or DEFAULT_LANDMARKS
        if self.n_components is not None and 0 < kernel.n < count:
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
        values, vectors = eigh(kernel.columns(chosen)[chosen])
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

    def _keep_landmarks_only(self, view_kernels: ViewKernels) -> None:
        """Replace the training samples that prediction would otherwise carry along."""
        data = view_kernels.training_views_
        names = [data.names[view] for view in view_kernels.kernel_views_]
        self.landmark_blocks_ = [
            data[name][rows] for name, rows in zip(names, self.landmarks_, strict=True)
        ]
        view_kernels.training_views_ = data[np.unique(np.concatenate(self.landmarks_))]

    def _from_stack(self, stack: KernelStack) -> Iterator[Floats]:
        for m, kernel in enumerate(stack.cross_kernels(self.training_rows_)):
            yield kernel[:, self.landmarks_[m]].astype(np.float64, copy=False)

    def _from_views(self, data: MultiView, observed: Bools) -> Iterator[Floats]:
        assert self.view_kernels_ is not None
        for m, name in enumerate(self.kernel_names_):
            out = np.zeros((len(data), len(self.landmarks_[m])))
            rows = observed[:, m]
            if rows.any() and out.shape[1]:
                block = data[data.names[self.view_kernels_.kernel_views_[m]]][rows]
                out[rows] = call_kernel(
                    name, self.view_kernels_.kernels_[m], block, self.landmark_blocks_[m]
                )
            yield out

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.views is not None
        tags.input_tags.two_d_array = self.kernels is not None
        tags.input_tags.three_d_array = self.kernels is None
        return tags
