r"""Canonical correlation analysis of any number of views (NmCCA), and classifiers on top of it.

With the centred features :math:`S_k` of m views NmCCA looks for components that agree,

.. math:: \min_W \; \sum_k \bigl\|S_k W_k - \tfrac1m \sum_j S_j W_j\bigr\|_F^2 \quad\text{s.t.}\quad
          \sum_k W_k' (S_k' S_k + \epsilon_k I) W_k = I_q,

where :math:`\sum_k \|x_k - \bar x\|^2 = \tfrac1{2m} \sum_{k \ne l} \|x_k - x_l\|^2` makes it the
same as correlation analysis of all pairs of views. Its components are those of the largest
eigenvalues of

.. math:: C w = \rho D w, \quad C = [S_k' S_l]_{kl}, \quad
          D = \operatorname{blockdiag}(S_k' S_k + \epsilon_k I)

(for :math:`\epsilon > 0` this replaces :math:`\|S_k W_k\|^2` by its regularised form). They are
computed from the singular value decompositions :math:`S_k = U_k \Sigma_k V_k'`: with
:math:`A_k = U_k \Sigma_k (\Sigma_k^2 + \epsilon_k)^{-1/2}` the eigenvalues are the squared singular
values of :math:`[A_1 \dots A_m]`, those of MAXVAR generalised correlation analysis, between 0
and m. For two views without regularisation they are one plus the canonical correlations.

Explicit features of a kernel have as many columns as there are samples, and then every correlation
is one: :math:`\epsilon > 0` is a must. A view that is absent for a sample counts as its mean.

=============  ====================================
paper symbol   name here
=============  ====================================
S_k            features of a view, centred
W_k            ``projections_[k]``
rho            ``correlations_``
epsilon_k      ``eps_[k]``
=============  ====================================

References
----------
.. [1] Z. Wang, S. Chen and T. Sun, "MultiK-MHKS: a novel multiple kernel learning algorithm",
   IEEE TPAMI 30(2), 2008, Section 3.
"""

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin, clone
from sklearn.utils import column_or_1d
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import assert_all_finite, check_is_fitted

from kernelquilt._estimator_views import check_alignment, validate_views
from kernelquilt._validation import quoted, unchanged_on_error, warn_all_absent
from kernelquilt.kernels import KernelStack, as_stack
from kernelquilt.maps import EmpiricalKernelMap
from kernelquilt.mkl.mhks import MHKSClassifier
from kernelquilt.optim.blas import single_threaded_blas
from kernelquilt.views import MultiView

Floats = NDArray[np.float64]

MOST_COMPONENTS = 50
SHARE = 1e-2  # of the mean eigenvalue, the default regularisation
RANK_TOL = 1e-10


class Components(NamedTuple):
    """What `solve_nmcca` returns.

    Attributes
    ----------
    projections : list of m ndarrays of shape (d_k, q)
        Projections W_k.
    eigenvalues : ndarray of shape (q,)
        Eigenvalues rho, the largest first.
    eps : ndarray of shape (m,)
        Regularisation of each view.
    """

    projections: list[Floats]
    eigenvalues: Floats
    eps: Floats


def solve_nmcca(
    views: Sequence[Floats], *, n_components: int | None = None, eps: float | None = None
) -> Components:
    """Solve NmCCA (see the module docstring for the problem).

    Parameters
    ----------
    views : sequence of m ndarrays of shape (n, d_k)
        Features S_k with centred columns, zero where absent.
    n_components : int, optional
        Number of components q; by default the smallest rank of the views, at most 50.
    eps : float, optional
        Regularisation, by default a hundredth of the mean eigenvalue of each ``S_k'S_k``.

    Returns
    -------
    Components
    """
    parts, right, ranks, used = [], [], [], []
    for S in views:
        U, singular, Vt = np.linalg.svd(S, full_matrices=False)
        rank = int(np.count_nonzero(singular > RANK_TOL * singular.max(initial=0.0)))
        squares = singular[:rank] ** 2
        own = float(eps) if eps is not None else SHARE * float(squares.sum()) / max(rank, 1)
        parts.append(U[:, :rank] * (singular[:rank] / np.sqrt(squares + own)))
        right.append(Vt[:rank].T / np.sqrt(squares + own))
        ranks.append(rank)
        used.append(own)
    _, singular, Zt = np.linalg.svd(np.hstack(parts), full_matrices=False)
    rank = int(np.count_nonzero(singular > RANK_TOL * singular.max(initial=0.0)))
    if n_components is None:
        n_components = min([MOST_COMPONENTS, *(each for each in ranks if each > 0)])
    if n_components > rank:
        raise ValueError(
            f"n_components={n_components} is more than the rank {rank} of the {len(views)} views "
            f"of {len(views[0])} samples; ask for fewer"
        )
    # the sign of a singular vector is arbitrary; this makes it the same whoever computes it
    Z = Zt[:n_components].T
    Z = Z * np.sign(Z[np.abs(Z).argmax(axis=0), np.arange(n_components)])
    split = np.split(Z, np.cumsum(ranks)[:-1])
    projections = [V @ part for V, part in zip(right, split, strict=True)]
    return Components(projections, singular[:n_components] ** 2, np.array(used))


class NmCCA(TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):  # type: ignore[call-arg]
    """Project any number of views to components in which they agree.

    For kernels use it after `EmpiricalKernelMap`. Views stay views, and absent ones absent.

    Parameters
    ----------
    n_components : int or None, default=None
        Number of components; None takes the smallest rank of the views, at most 50.
    eps : float or None, default=None
        Regularisation, added to the eigenvalues of ``S_k'S_k``; None takes a hundredth of their
        mean, view by view. Worth tuning: explicit features of kernels need a larger one, about 1
        for Gaussian kernels, or the components are those of chance.
    views : dict of str to columns, "columns" or None, default=None
        The views of 2-D data, as in `as_views`.

    Attributes
    ----------
    projections_ : list of m ndarrays of shape (n_columns, n_components)
        What the centred views are multiplied with.
    means_ : list of m ndarrays of shape (n_columns,)
        Means of the columns over the samples that have the view.
    correlations_ : ndarray of shape (n_components,)
        Eigenvalues, from m, where all views agree, down to 0; one plus the canonical correlations
        for two views and ``eps=0``.
    eps_ : ndarray of shape (m,)
        Regularisation of each view.
    n_components_ : int
        Number of components.
    view_names_ : tuple of str
        The names of the views.
    n_features_in_ : int
        Number of columns of 2-D data, otherwise of views.

    Examples
    --------
    >>> import kernelquilt as kq
    >>> X, y = kq.datasets.load_example("wdbc")
    >>> Z = kq.NmCCA(3).fit_transform(X)
    >>> {name: Z[name].shape[1] for name in Z.names}
    {'mean': 3, 'error': 3, 'worst': 3}
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "eps": [Interval(Real, 0, None, closed="left"), None],
        "views": "no_validation",
    }

    def __init__(
        self, n_components: int | None = None, *, eps: float | None = None, views: Any = None
    ) -> None:
        self.n_components = n_components
        self.eps = eps
        self.views = views

    def fit(self, X: Any, y: Any = None) -> "NmCCA":
        """Compute the projections.

        Parameters
        ----------
        X : MultiView, or any input of `as_views`, of n_samples samples
            Features.
        y : object, default=None
            Ignored.

        Returns
        -------
        self : NmCCA
        """
        self._validate_params()
        with unchanged_on_error(self), single_threaded_blas():
            data = validate_views(self, X, self.views, reset=True)
            if not data.observed.any():
                raise ValueError(f"all {len(data.names)} views of {len(data)} samples are absent")
            warn_all_absent(data.observed, data.names, "view")
            self.means_ = [
                data[name][present].sum(axis=0) / max(int(present.sum()), 1)
                for name, present in zip(data.names, data.observed.T, strict=True)
            ]
            centred = self._centred(data)
            found = solve_nmcca(centred, n_components=self.n_components, eps=self.eps)
            self.projections_, self.correlations_, self.eps_ = found
            self.n_components_ = len(self.correlations_)
            self.trained_ = data.observed.any(axis=0)
        return self

    def transform(self, X: Any) -> MultiView:
        """Project samples.

        Parameters
        ----------
        X : MultiView, or any input of `as_views`, of n_samples samples
            Features like those of the training samples.

        Returns
        -------
        components : MultiView of n_samples samples
            Each view with `n_components_` columns, absent where it was, and where no training
            sample has it.
        """
        check_is_fitted(self, "projections_")
        data = validate_views(self, X, self.views, reset=False)
        observed = np.asarray(data.observed & self.trained_)
        with single_threaded_blas():
            blocks = {
                name: np.where(observed[:, [k]], S @ self.projections_[k], np.nan)
                for k, (name, S) in enumerate(zip(data.names, self._centred(data), strict=True))
            }
        return MultiView._build(blocks, observed, data.index)

    def _centred(self, data: MultiView) -> list[Floats]:
        """Return the views without their means, zero where absent."""
        return [
            np.where(present[:, None], data[name] - mean, 0.0)
            for name, present, mean in zip(data.names, data.observed.T, self.means_, strict=True)
        ]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.views is not None
        return tags


class CCAFusion(ClassifierMixin, BaseEstimator):
    """Classifier on the components of NmCCA, of all views together or by a vote of the views.

    Kernels, their explicit features (`EmpiricalKernelMap`), components (`NmCCA`), classifier: with
    the default classifier the baselines CCA+MHKS1 (``fusion="concatenate"``) and CCA+MHKS2
    (``fusion="vote"``) of the MultiK-MHKS paper. Components are scaled to a mean square that does
    not depend on the number of training samples.

    Parameters
    ----------
    n_components : int or None, default=None
        As in `NmCCA`.
    eps : float or None, default=None
        As in `NmCCA`.
    fusion : {"concatenate", "vote"}, default="concatenate"
        ``"concatenate"``: one classifier on the components of all views side by side, 0 where a
        view is absent. ``"vote"``: one classifier for each view, on the samples that have it, and
        the majority of those of the views that a sample has; ties are broken by their scores.
    estimator : classifier or None, default=None
        Any classifier of 2-D arrays; None is ``MHKSClassifier(kernels="linear")``.
    kernels : str, callable, list, dict or None, default="gaussian"
        Kernels of the views, as in `ViewKernels`; None takes the views themselves as features,
        "precomputed" plain arrays of kernels of shape (n, n, M). A `KernelStack` is always used
        as it is.
    views : dict of str to columns, "columns" or None, default=None
        The views of 2-D data, as in `as_views`.

    Attributes
    ----------
    map_ : EmpiricalKernelMap or None
        From kernels to features.
    cca_ : NmCCA
        From features to components.
    estimators_ : dict of str to classifier
        The fitted classifier of each view, or the only one as ``"all"``.
    classes_ : ndarray of shape (n_classes,)
        Class labels.
    n_features_in_ : int
        Number of columns of 2-D data, otherwise of views or kernels.

    Examples
    --------
    >>> import kernelquilt as kq
    >>> X, y = kq.datasets.load_example("wdbc")
    >>> bool(kq.CCAFusion(5, fusion="vote").fit(X, y).score(X, y) > 0.9)
    True
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **NmCCA._parameter_constraints,
        "fusion": [StrOptions({"concatenate", "vote"})],
        "estimator": [HasMethods(["fit", "predict"]), None],
        "kernels": "no_validation",
    }

    def __init__(
        self,
        n_components: int | None = None,
        *,
        eps: float | None = None,
        fusion: str = "concatenate",
        estimator: Any = None,
        kernels: Any = "gaussian",
        views: Any = None,
    ) -> None:
        self.n_components = n_components
        self.eps = eps
        self.fusion = fusion
        self.estimator = estimator
        self.kernels = kernels
        self.views = views

    def fit(self, X: Any, y: Any) -> "CCAFusion":
        """Fit map, components and classifiers.

        Parameters
        ----------
        X : array-like of shape (n, n_features), DataFrame, MultiView or KernelStack
            Training samples. Absent views are rows of NaN, or not observed in the container.
        y : array-like of shape (n,)
            Class labels.

        Returns
        -------
        self : CCAFusion
        """
        self._validate_params()
        with unchanged_on_error(self):
            data = self._check_data(X, reset=True)
            y = self._check_labels(data, y)
            self.classes_ = np.unique(y)
            self.map_ = self._new_map(data)
            if self.map_ is not None:
                self.map_.fit(data)
            features = self._features(data)
            self.cca_ = NmCCA(self.n_components, eps=self.eps).fit(features)
            self.scale_ = float(np.sqrt(len(data)))
            self.estimators_ = {}
            for name, (Z, present) in self._blocks(features).items():
                if len(np.unique(y[present])) > 1:
                    self.estimators_[name] = self._new_estimator().fit(Z[present], y[present])
            if not self.estimators_:
                raise ValueError(
                    f"none of the {len(features.names)} views {quoted(features.names)} is "
                    f"observed for samples of two classes, among {len(data)} samples"
                )
            counts = np.array([np.count_nonzero(y == label) for label in self.classes_])
            self.class_prior_ = counts / counts.sum()
        return self

    def decision_function(self, X: Any) -> Floats:
        """Return the scores of samples.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features), DataFrame, MultiView or KernelStack
            Samples in the form of the training samples.

        Returns
        -------
        scores : ndarray of shape (n_rows,), or (n_rows, n_classes) if multi-class
            Votes, and where they are equal the scores behind them; the scores of the classifier
            itself where there is one for all views.
        """
        check_is_fitted(self, "estimators_")
        data = self._check_data(X, reset=False)
        blocks = self._blocks(self._features(data))
        n_classes = len(self.classes_)
        if self.fusion == "concatenate":
            scores = self._class_scores(self.estimators_["all"], blocks["all"][0])
        else:
            scores = self._votes(blocks, len(data))
        return scores[:, 1] - scores[:, 0] if n_classes == 2 else scores

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class of samples.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features), DataFrame, MultiView or KernelStack
            As in `decision_function`.

        Returns
        -------
        y : ndarray of shape (n_rows,)
            Class labels.
        """
        scores = self.decision_function(X)
        codes = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        return np.asarray(self.classes_[codes])

    def _features(self, data: Any) -> MultiView:
        made: MultiView = data if self.map_ is None else self.map_.transform(data)
        return made

    def _votes(self, blocks: dict[str, tuple[Floats, NDArray[np.bool_]]], n_rows: int) -> Floats:
        """Return votes plus a fraction that breaks ties, (n_rows, n_classes)."""
        votes, confidence = np.zeros((2, n_rows, len(self.classes_)))
        for name, estimator in self.estimators_.items():
            Z, present = blocks[name]
            if present.any():
                rows = np.flatnonzero(present)
                scores = self._class_scores(estimator, Z[present])
                votes[rows, scores.argmax(axis=1)] += 1.0
                confidence[rows] += np.where(np.isfinite(scores), scores, 0.0)
        voted = votes.sum(axis=1, keepdims=True) > 0
        return np.where(
            voted, votes + confidence / (3 * (1 + np.abs(confidence))), self.class_prior_
        )

    def _class_scores(self, estimator: Any, Z: Floats) -> Floats:
        """Return the scores of a classifier for all classes, -inf for those it does not know."""
        known = np.searchsorted(self.classes_, estimator.classes_)
        scores = np.full((len(Z), len(self.classes_)), -np.inf)
        if hasattr(estimator, "decision_function"):
            own = estimator.decision_function(Z)
        else:
            own = estimator.predict_proba(Z)
        scores[:, known] = own if own.ndim == 2 else np.column_stack([-own, own]) / 2
        return scores

    def _blocks(self, features: MultiView) -> dict[str, tuple[Floats, NDArray[np.bool_]]]:
        """Return the components for each classifier, zero where absent, and who has them."""
        Z = self.cca_.transform(features)
        blocks = {
            name: (np.where(present[:, None], self.scale_ * Z[name], 0.0), present)
            for name, present in zip(Z.names, Z.observed.T, strict=True)
        }
        if self.fusion == "vote":
            return blocks
        everyone = np.ones(len(Z), dtype=np.bool_)
        return {"all": (np.hstack([block for block, _ in blocks.values()]), everyone)}

    def _new_estimator(self) -> Any:
        return MHKSClassifier(kernels="linear") if self.estimator is None else clone(self.estimator)

    def _new_map(self, data: MultiView | KernelStack) -> EmpiricalKernelMap | None:
        if isinstance(data, KernelStack):
            return EmpiricalKernelMap()
        return None if self.kernels is None else EmpiricalKernelMap(kernels=self.kernels)

    def _check_data(self, X: Any, *, reset: bool) -> MultiView | KernelStack:
        if isinstance(X, KernelStack) or self._precomputed:
            stack = as_stack(X)
            if reset:
                self.n_features_in_ = len(stack.names)
            return stack
        return validate_views(self, X, self.views, reset=reset)

    def _check_labels(self, data: MultiView | KernelStack, y: Any) -> NDArray[Any]:
        if y is None:
            raise ValueError("CCAFusion requires y to be passed, but the target y is None")
        check_alignment(data, y)
        y = column_or_1d(y, warn=True)
        assert_all_finite(y, input_name="y")
        check_classification_targets(y)
        if len(y) != len(data):
            raise ValueError(
                f"X has {len(data)} samples, but y has {len(y)} labels; give one label per sample"
            )
        if len(np.unique(y)) < 2:
            raise ValueError(
                f"CCAFusion needs samples of at least two classes, got 1 class among {len(y)} "
                "samples"
            )
        return y

    @property
    def _precomputed(self) -> bool:
        return isinstance(self.kernels, str) and self.kernels == "precomputed"

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.views is not None
        tags.input_tags.pairwise = self._precomputed
        return tags
