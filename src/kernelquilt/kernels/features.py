"""Kernels that are inner products of features: random Fourier features, or any transformer's."""

from typing import Any
from uuid import uuid4

from kernelquilt.core.limits import unchanged_on_error
from kernelquilt.data.low_rank import LowRankStack
from kernelquilt.data.transformer import ViewTransformer


class FeatureKernels(ViewTransformer):
    """Turn views into factors of kernels by a transformer for each view.

    The features of a view that a transformer returns, such as `Nystroem`, `RBFSampler` or
    `PolynomialCountSketch` of scikit-learn, are the factor of its kernel. Classifiers that are
    given the factors learn on these kernels without making any of them. A transformer is fitted
    to the samples that have the view. `EmpiricalKernelMap` does the same for the kernels of this
    package, on landmarks. A view that passes through is its own factor, that of the linear kernel.

    Parameters
    ----------
    transformers : dict of str to transformer, transformer or "auto", default="auto"
        As in `ViewTransformer`.
    views : dict of str to columns, "columns" or None, default=None
        The views of 2-D data, as in `as_views`.

    Attributes
    ----------
    transformers_ : dict of str to fitted transformer
        As in `ViewTransformer`.
    absent_views_ : tuple of str
        The views that are absent for all training samples.
    view_names_ : tuple of str
        The names of the views.
    n_features_in_ : int
        Number of columns of 2-D data, otherwise of views.

    Examples
    --------
    >>> import kernelquilt as kq
    >>> from sklearn.kernel_approximation import RBFSampler
    >>> from sklearn.pipeline import make_pipeline
    >>> X, y = kq.datasets.load_example("wdbc")
    >>> X = kq.ViewTransformer().fit_transform(X)
    >>> features = kq.kernels.FeatureKernels(RBFSampler(gamma=0.05, n_components=50))
    >>> bool(make_pipeline(features, kq.SimpleMKLClassifier()).fit(X, y).score(X, y) > 0.9)
    True
    """

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """Fit the transformers and return the factors of the training samples.

        Parameters
        ----------
        X, y
            As in `fit`.

        Returns
        -------
        factors : LowRankStack of n_samples samples
            Zero rows where a view is absent.
        """
        with unchanged_on_error(self):
            features = super().fit_transform(X, y)
            self._origin = uuid4().hex
            return LowRankStack._of_views(features, self._origin)

    def transform(self, X: Any) -> Any:
        """Return the factors of samples.

        Parameters
        ----------
        X : MultiView, or any input of `as_views`, of n_samples samples
            Samples in the form of the training samples.

        Returns
        -------
        factors : LowRankStack of n_samples samples
            Zero rows where a view is absent.
        """
        return LowRankStack._of_views(super().transform(X), self._origin)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = False
        return tags
