r"""Late fusion: a kernel ridge regression for each view, joined by learned reliabilities.

The regression of view v sees the samples I_v that have it: its kernel, centred and scaled to mean
diagonal 1 over I_v, with a constant as the bias, at the penalty of least leave-one-out error. Its
leave-one-out scores F_v are zero for samples without the view. The softmax stack

.. math:: P(x) \propto \exp\Bigl( \sum_{v \in V(x)} r_v F_v(x) + b \Bigr), \qquad r \ge 0,

weighs the views that a sample has by their reliabilities r (a convex problem,
:mod:`kernelquilt.quilt.stacking`).

Views are learned in the span of at most ``n_landmarks`` of their samples (Nystroem): with Z Z' the
kernel there, ridge regression on Z, leave-one-out included, costs :math:`O(n m^2)` for m landmarks
instead of :math:`O(n^3)`, and the kernel among all samples is never made. Of more than 10 000
samples, only sums over blocks are made, and as many samples as these decide on the penalty and on
the reliabilities.

=============  ==============================================
symbol         name here
=============  ==============================================
F_v            ``scores[v]``
r, b           ``stack_.weights``, ``stack_.bias``
Z              ``z`` of :mod:`kernelquilt.quilt.view_ridge`
=============  ==============================================

References
----------
.. [1] C. Williams and M. Seeger, "Using the Nystroem method to speed up kernel ridges",
   NIPS 2000.
"""

from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import StrOptions

from kernelquilt._typing import Floats
from kernelquilt.data.sampling import Sample
from kernelquilt.data.targets import Targets
from kernelquilt.data.training import Samples
from kernelquilt.kernels.landmark_features import LANDMARK_CONSTRAINTS
from kernelquilt.quilt.ridge_classifier import BaseRidgeClassifier, loo_accuracy
from kernelquilt.quilt.ridge_regressor import BaseRidgeRegressor, determination
from kernelquilt.quilt.stacking import solve_linear_stacking, solve_softmax_stacking
from kernelquilt.quilt.view_ridge import fit_view_ridges, fused_scores, landmarks_of

CONSTRAINTS: dict[str, Any] = {
    **LANDMARK_CONSTRAINTS,
    "kernels": "no_validation",
    "views": "no_validation",
    "prepare": [StrOptions({"auto"}), None],
    "n_jobs": [Integral, None],
    "random_state": ["random_state"],
    "verbose": ["verbose"],
}


class LateFusionClassifier(BaseRidgeClassifier):
    """A kernel ridge classifier for each view, joined by learned reliabilities.

    The fast option: views are learned one by one, tuned by leave-one-out error in closed form, and
    what is learned jointly is one number for each view. It needs no completion, and it scales:
    with many samples every view is learned in the span of `n_landmarks` of them.
    `QuiltClassifier` has it as a part, and was more accurate where samples are few: by about a
    point where views are absent at random, by two where they are absent by nature.

    Kernels are centred and scaled to mean diagonal 1 by the samples that have them.

    Parameters
    ----------
    n_landmarks : int or "auto", default=700
        Each view is learned in the span of at most so many of the samples that have it; with as
        many as there are samples, nothing is approximated. ``"auto"`` takes all of up to 1000
        samples, 240 of 10 000 and 333 of a million, fewer where kernels are more than nine.
    landmarks : {"uniform", "kmeans", "pivoted_cholesky"}, default="uniform"
        How landmarks are chosen among the training samples: at random, as those nearest to the
        centres of clusters, or one after the other where the kernel is approximated worst.
    kernels : str, callable, list or dict, default="median_gaussian"
        Kernels of the views, as in `ViewKernels`; "precomputed" for plain arrays of kernels of
        shape (n, n, M). Each kernel makes a ridge classifier.
    views : dict of str to columns, "columns" or None, default=None
        The views of 2-D data, as in `as_views`.
    prepare : {"auto"} or None, default="auto"
        ``"auto"`` fills single missing cells with the mean of their column, with a further column
        that tells where they were if 5 to 95 % of the samples lack them, and encodes categories
        one-hot, by what the training samples show; complete numeric views stay as they are. None
        refuses both.
    class_weight : dict, "balanced" or None, default=None
        Factors on the losses by class.
    n_jobs : int or None, default=None
        Threads over the kernels and over blocks of samples.
    random_state : int, RandomState instance or None, default=None
        For the choice of landmarks.
    verbose : int, default=0
        Whether to print the progress of the solver.

    Attributes
    ----------
    reliability_ : ndarray of shape (M,)
        Weight of the classifier of each kernel, zero if less than 3 samples have it: what one unit
        of its score, which is 1 for a class it is sure of, adds to the log-odds of that class.
    view_ridges_ : list of M ViewRidge or None
        The ridge regression of each kernel.
    view_loo_score_ : ndarray of shape (M,)
        Leave-one-out accuracy of each on the samples that have its view, nan for None.
    loo_score_ : float
        Leave-one-out accuracy of all together (the reliabilities are not left out).
    stacking_ : StackingWeights
        Reliabilities and biases.
    preparation_ : ViewTransformer or None
        What fills cells and encodes categories.
    kernel_names_ : tuple of str of length M
        Names of the kernels.
    classes_ : ndarray of shape (n_classes,)
        Class labels.
    n_passes_ : int
        How often all samples were read in blocks; 0 where they were held in memory.
    n_features_in_ : int
        Number of columns of 2-D data, otherwise of views or kernels.

    Examples
    --------
    >>> import kernelquilt as kq
    >>> X, y = kq.datasets.load_example("wdbc")
    >>> X = kq.datasets.make_absent(X, 0.3, random_state=0)
    >>> bool(kq.LateFusionClassifier().fit(X, y).loo_score_ > 0.9)
    True
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **CONSTRAINTS,
        "class_weight": [dict, StrOptions({"balanced"}), None],
    }

    def __init__(
        self,
        n_landmarks: int | str = 700,
        *,
        landmarks: str = "uniform",
        kernels: Any = "median_gaussian",
        views: Any = None,
        prepare: str | None = "auto",
        class_weight: Any = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_landmarks = n_landmarks
        self.landmarks = landmarks
        self.kernels = kernels
        self.views = views
        self.prepare = prepare
        self.class_weight = class_weight
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _learn(self, data: Samples, targets: Targets, sample: Sample) -> None:
        found = fit_view_ridges(self, data, targets, sample)
        part, self.view_ridges_ = found.targets, found.ridges
        self.stacking_ = solve_softmax_stacking(found.scores, part.codes, sample_weight=part.weight)
        self.reliability_ = _reliabilities(self)
        self.view_loo_score_ = found.by_view(loo_accuracy)
        self.loo_score_ = loo_accuracy(self.stacking_.combine(found.scores), part)

    @property
    def _entries_per_row(self) -> int:
        return landmarks_of(self.view_ridges_)

    def _log_proba(self, rows: Any) -> Floats:
        return fused_scores(self, rows)


class LateFusionRegressor(BaseRidgeRegressor):
    """A kernel ridge regression for each view, joined by learned reliabilities.

    `LateFusionClassifier` with the squared loss: the prediction is the weighted sum of the scores
    of the views that a sample has. `QuiltRegressor` has it as a part.

    Parameters
    ----------
    n_landmarks : int or "auto", default=700
        Each view is learned in the span of at most so many of the samples that have it; with as
        many as there are samples, nothing is approximated. ``"auto"`` takes all of up to 1000
        samples, 240 of 10 000 and 333 of a million, fewer where kernels are more than nine.
    landmarks : {"uniform", "kmeans", "pivoted_cholesky"}, default="uniform"
        How landmarks are chosen among the training samples: at random, as those nearest to the
        centres of clusters, or one after the other where the kernel is approximated worst.
    kernels : str, callable, list or dict, default="median_gaussian"
        Kernels of the views, as in `ViewKernels`; "precomputed" for plain arrays of kernels of
        shape (n, n, M). Each kernel makes a ridge regression.
    views : dict of str to columns, "columns" or None, default=None
        The views of 2-D data, as in `as_views`.
    prepare : {"auto"} or None, default="auto"
        ``"auto"`` fills single missing cells with the mean of their column, with a further column
        that tells where they were if 5 to 95 % of the samples lack them, and encodes categories
        one-hot, by what the training samples show; complete numeric views stay as they are. None
        refuses both.
    n_jobs : int or None, default=None
        Threads over the kernels and over blocks of samples.
    random_state : int, RandomState instance or None, default=None
        For the choice of landmarks.
    verbose : int, default=0
        Whether to print the progress of the solver.

    Attributes
    ----------
    reliability_ : ndarray of shape (M,)
        Weight of the regression of each kernel, zero if less than 3 samples have it.
    view_ridges_ : list of M ViewRidge or None
        The ridge regression of each kernel.
    view_loo_score_ : ndarray of shape (M,)
        Leave-one-out coefficient of determination of each on the samples that have its view, nan
        for None.
    loo_score_ : float
        Leave-one-out coefficient of determination of all together (the reliabilities are not left
        out).
    stacking_ : StackingWeights
        Reliabilities and bias.
    preparation_ : ViewTransformer or None
        What fills cells and encodes categories.
    kernel_names_ : tuple of str of length M
        Names of the kernels.
    n_passes_ : int
        How often all samples were read in blocks; 0 where they were held in memory.
    n_features_in_ : int
        Number of columns of 2-D data, otherwise of views or kernels.

    Examples
    --------
    >>> import kernelquilt as kq
    >>> X, _ = kq.datasets.load_example("wdbc")
    >>> target = X["mean"][:, 0]
    >>> X = kq.datasets.make_absent(X, 0.3, random_state=0)
    >>> bool(kq.LateFusionRegressor().fit(X, target).loo_score_ > 0.7)
    True
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = CONSTRAINTS

    def __init__(
        self,
        n_landmarks: int | str = 700,
        *,
        landmarks: str = "uniform",
        kernels: Any = "median_gaussian",
        views: Any = None,
        prepare: str | None = "auto",
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_landmarks = n_landmarks
        self.landmarks = landmarks
        self.kernels = kernels
        self.views = views
        self.prepare = prepare
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _learn(self, data: Samples, y: Floats, targets: Targets, sample: Sample) -> None:
        found = fit_view_ridges(self, data, targets, sample)
        part, self.view_ridges_ = found.targets, found.ridges
        self.stacking_ = solve_linear_stacking(found.scores, part.Y, sample_weight=part.weight)
        self.reliability_ = _reliabilities(self)
        self.view_loo_score_ = found.by_view(_explained)
        self.loo_score_ = _explained(self.stacking_.combine(found.scores), part)

    @property
    def _entries_per_row(self) -> int:
        return landmarks_of(self.view_ridges_)

    def _predict_part(self, rows: Any) -> Floats:
        return fused_scores(self, rows)


def _reliabilities(estimator: Any) -> Floats:
    """Return the stacking weights (M,), zero for views of no use."""
    useless = [ridge is None for ridge in estimator.view_ridges_]
    return np.where(useless, 0.0, estimator.stacking_.weights)


def _explained(scores: Floats, targets: Targets) -> float:
    """Return the weighted coefficient of determination of scores (n, c)."""
    return determination(targets.Y, scores, targets.weight)
