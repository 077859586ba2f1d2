"""Classifiers on the components of NmCCA: of all views side by side, or by a vote of the views."""

import warnings
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils import column_or_1d
from sklearn.utils._param_validation import HasMethods, StrOptions
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import assert_all_finite, check_is_fitted

from kernelquilt._messages import quoted, unchanged_on_error
from kernelquilt._typing import Array, Bools, Floats
from kernelquilt.data.stack import KernelStack, as_stack
from kernelquilt.data.validation import check_alignment, validate_views
from kernelquilt.data.views import MultiView
from kernelquilt.kernels.maps import EmpiricalKernelMap
from kernelquilt.mkl.agreement.mhks import MHKSClassifier
from kernelquilt.mkl.agreement.nmcca import NmCCA
from kernelquilt.mkl.doors import DecidesByScores


class CCAFusion(DecidesByScores, ClassifierMixin, BaseEstimator):
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
    >>> bool(kq.mkl.CCAFusion(5, fusion="vote").fit(X, y).score(X, y) > 0.9)
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
            data = self._check_training_data(X)
            y = self._check_labels(data, y)
            self.classes_ = np.unique(y)
            self.map_ = self._new_map(data)
            if self.map_ is not None:
                self.map_.fit(data)
            features = self._features(data)
            self.cca_ = NmCCA(self.n_components, eps=self.eps).fit(features)
            self.scale_ = float(np.sqrt(_count_with_views(features)))
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
        data = self._check_rows(X)
        blocks = self._blocks(self._features(data))
        n_classes = len(self.classes_)
        if self.fusion == "concatenate":
            scores = self._class_scores(self.estimators_["all"], blocks["all"][0])
        else:
            scores = self._votes(blocks, len(data))
        return scores[:, 1] - scores[:, 0] if n_classes == 2 else scores

    def _features(self, data: Any) -> MultiView:
        made: MultiView = data if self.map_ is None else self.map_.transform(data)
        return made

    def _votes(self, blocks: dict[str, tuple[Floats, Bools]], n_rows: int) -> Floats:
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

    def _blocks(self, features: MultiView) -> dict[str, tuple[Floats, Bools]]:
        """Return the components for each classifier, zero where absent, and who has them."""
        Z = self.cca_.transform(features)
        blocks = {
            name: (np.where(present[:, None], self.scale_ * Z[name], 0.0), present)
            for name, present in zip(Z.names, Z.observed.T, strict=True)
        }
        if self.fusion == "vote":
            return blocks
        side_by_side = np.hstack([block for block, _ in blocks.values()])
        return {"all": (side_by_side, np.asarray(Z.observed.any(axis=1)))}

    def _new_estimator(self) -> Any:
        return MHKSClassifier(kernels="linear") if self.estimator is None else clone(self.estimator)

    def _new_map(self, data: MultiView | KernelStack) -> EmpiricalKernelMap | None:
        if isinstance(data, KernelStack):
            return EmpiricalKernelMap()
        return None if self.kernels is None else EmpiricalKernelMap(kernels=self.kernels)

    def _check_training_data(self, X: Any) -> MultiView | KernelStack:
        if not (isinstance(X, KernelStack) or self._precomputed):
            return validate_views(self, X, self.views, reset=True)
        if self.views is not None:
            raise ValueError("views= describes the columns of 2-D data; leave it None for kernels")
        stack = as_stack(X)
        self.n_features_in_ = len(stack.names)
        return stack

    def _check_rows(self, X: Any) -> MultiView | KernelStack:
        if self.map_ is not None and self.map_.view_kernels_ is None:
            return as_stack(X)
        if isinstance(X, KernelStack):
            raise ValueError(
                "X is a KernelStack, but CCAFusion was fitted on views; pass samples in the form "
                "of the training samples"
            )
        return validate_views(self, X, self.views, reset=False)

    def _check_labels(self, data: MultiView | KernelStack, y: Any) -> Array:
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


def _count_with_views(features: MultiView) -> int:
    """Return how many training samples have a view, and warn about those that have none."""
    empty = int(np.count_nonzero(~features.observed.any(axis=1)))
    if empty:
        warnings.warn(
            f"{empty} of {len(features)} training samples have no observed view and are left out "
            "of the fit",
            UserWarning,
            stacklevel=3,
        )
    return len(features) - empty
