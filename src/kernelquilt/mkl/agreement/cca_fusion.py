"""Classifiers on the components of NmCCA: of all views side by side, or by a vote of the views."""

from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils._param_validation import HasMethods, StrOptions
from sklearn.utils.validation import check_is_fitted

from kernelquilt._messages import quoted
from kernelquilt._typing import Array, Bools, Floats
from kernelquilt.core.limits import check_memory, unchanged_on_error
from kernelquilt.data.training import (
    check_labels,
    check_samples,
    class_scores,
    classes_of,
    input_tags,
    weights_of_seen,
)
from kernelquilt.data.validation import check_alignment
from kernelquilt.data.views import MultiView
from kernelquilt.kernels.inputs import count_kernels, fit_input
from kernelquilt.kernels.maps import EmpiricalKernelMap
from kernelquilt.mkl.agreement.mhks import MHKSClassifier
from kernelquilt.mkl.agreement.nmcca import NmCCA


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
    input_ : KernelInput
        What is held of the training samples.
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
            The fitted classifier.
        """
        self._validate_params()
        with unchanged_on_error(self):
            data = check_samples(self, X)
            labels = check_labels(self, data, y)
            self.classes_, codes = labels.classes, labels.codes
            y = self.classes_[codes]
            if self.kernels is None and isinstance(data, MultiView):
                self.map_ = None
                self.input_ = fit_input(self, data, None, kernels="linear")
                self.input_.keep_only([])
            else:
                of_views = isinstance(data, MultiView)
                n_kernels = count_kernels(data, self.kernels)
                check_memory(len(data), n_kernels, 8 * len(data) ** 2 * (4 * n_kernels + 3))
                self.map_ = EmpiricalKernelMap(kernels=self.kernels if of_views else None).fit(data)
                self.input_ = self.map_.input_
            features = self._features(data)
            self.cca_ = NmCCA(self.n_components, eps=self.eps).fit(features)
            weight = weights_of_seen(labels.weight, features.observed)
            self.scale_ = float(np.sqrt(np.count_nonzero(weight)))
            self.estimators_ = {}
            for name, (Z, present) in self._blocks(features).items():
                if len(np.unique(y[present])) > 1:
                    self.estimators_[name] = self._new_estimator().fit(Z[present], y[present])
            if not self.estimators_:
                raise ValueError(
                    f"none of the {len(features.names)} views {quoted(features.names)} is "
                    f"observed for samples of two classes, among {len(data)} samples"
                )
            seen = codes[weight > 0]
            self.class_prior_ = np.bincount(seen, minlength=len(self.classes_)) / len(seen)
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
        data = self.input_.rows(self, X)
        blocks = self._blocks(self._features(data))
        n_classes = len(self.classes_)
        if self.fusion == "concatenate":
            scores = self._class_scores(self.estimators_["all"], blocks["all"][0])
            scores = class_scores(scores, np.flatnonzero(self.class_prior_), n_classes, "ovr")
        else:
            scores = self._votes(blocks, len(data))
        return scores[:, 1] - scores[:, 0] if n_classes == 2 else scores

    def predict(self, X: Any) -> Array:
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
        return classes_of(self.decision_function(X), self.classes_)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy of predictions.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features), DataFrame, MultiView or KernelStack
            As in `predict`.
        y : array-like of shape (n_rows,)
            True labels; refused if their index has the samples of X in another order.
        sample_weight : array-like of shape (n_rows,), optional
            How much each sample counts, equally by default.

        Returns
        -------
        score : float
            Share of samples whose class is predicted.
        """
        check_alignment(X, y, "y")
        return float(super().score(X, y, sample_weight))

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

    def __sklearn_tags__(self) -> Any:
        return input_tags(self, super().__sklearn_tags__())
