r"""Late fusion: a kernel ridge regression for each view, joined by learned reliabilities.

The regression of view v sees the samples I_v that have it: its kernel, centred and scaled to mean
diagonal 1 over I_v, with a constant as the bias, at the penalty of least leave-one-out error. Its
leave-one-out scores F_v are zero for samples without the view. The softmax stack

.. math:: P(x) \propto \exp\Bigl( \sum_{v \in V(x)} r_v F_v(x) + b \Bigr), \qquad r \ge 0,

weighs the views that a sample has by their reliabilities r (a convex problem,
:mod:`kernelquilt.quilt.stacking`).

Views of more than ``n_landmarks`` samples are reduced to the span of that many of them (Nystroem):
with Z Z' the kernel there, ridge regression on Z, leave-one-out included, costs
:math:`O(n m^2)` for m landmarks instead of :math:`O(n^3)`, and the kernel among all samples is
never made.

=============  ==============================================
symbol         name here
=============  ==============================================
F_v            ``scores[v]``
r, b           ``stack_.weights``, ``stack_.bias``
Z              ``features`` of `LandmarkRidge`
=============  ==============================================

References
----------
.. [1] C. Williams and M. Seeger, "Using the Nystroem method to speed up kernel ridges",
   NIPS 2000.
"""

from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from joblib import Parallel, delayed
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions

from kernelquilt._typing import Floats, Indices
from kernelquilt.core.memory import check_memory
from kernelquilt.data.gram import check_kernel
from kernelquilt.kernels.inputs import KernelInput, Samples, fit_input
from kernelquilt.quilt.ridge_classifier import BaseRidgeClassifier, Targets, loo_accuracy
from kernelquilt.quilt.stacking import solve_softmax_stacking
from kernelquilt.quilt.view_ridge import (
    LEAST_SAMPLES,
    LandmarkRidge,
    ViewRidge,
    fit_landmark_ridge,
    fit_view_ridge,
    loo_scores,
    usable_views,
)


class LateFusionClassifier(BaseRidgeClassifier):
    """A kernel ridge classifier for each view, joined by learned reliabilities.

    The fast option: views are learned one by one, tuned by leave-one-out error in closed form, and
    what is learned jointly is one number for each view. It needs no completion, and it scales:
    with many samples every view is learned in the span of `n_landmarks` of them.
    `QuiltClassifier` has it as a part; it was more accurate where samples are few and views absent
    at random, and not where they are absent by nature.

    Kernels are centred and scaled to mean diagonal 1 by the samples that have them.

    Parameters
    ----------
    n_landmarks : int, default=700
        Views that more samples have are learned in the span of this many random ones.
    kernels : str, callable, list or dict, default="median_gaussian"
        Kernels of the views, as in `ViewKernels`; "precomputed" for plain arrays of kernels of
        shape (n, n, M). Each kernel makes a ridge classifier.
    views : dict of str to columns, "columns" or None, default=None
        The views of 2-D data, as in `as_views`.
    prepare : {"auto"} or None, default="auto"
        ``"auto"`` fills single missing cells with the mean of their column and encodes categories
        one-hot, by what the training samples show; complete numeric views stay as they are. None
        refuses both.
    class_weight : dict, "balanced" or None, default=None
        Factors on the losses by class.
    n_jobs : int or None, default=None
        Threads over the kernels.
    random_state : int, RandomState instance or None, default=None
        For the choice of landmarks.

    Attributes
    ----------
    reliability_ : ndarray of shape (M,)
        Weight of the classifier of each kernel, zero if less than 3 samples have it: what one unit
        of its score, which is 1 for a class it is sure of, adds to the log-odds of that class.
    view_ridges_ : list of M ViewRidge, LandmarkRidge or None
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
        "n_landmarks": [Interval(Integral, 1, None, closed="left")],
        "kernels": "no_validation",
        "views": "no_validation",
        "prepare": [StrOptions({"auto"}), None],
        "class_weight": [dict, StrOptions({"balanced"}), None],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        n_landmarks: int = 700,
        *,
        kernels: Any = "median_gaussian",
        views: Any = None,
        prepare: str | None = "auto",
        class_weight: Any = None,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_landmarks = n_landmarks
        self.kernels = kernels
        self.views = views
        self.prepare = prepare
        self.class_weight = class_weight
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _learn(self, data: Samples, targets: Targets) -> None:
        held = fit_input(self, data, targets.copies)
        held.describe(self)
        rng = check_random_state(self.random_state)
        having = [np.flatnonzero(o & (targets.copies > 0)) for o in held.observed.T]
        counts = np.array([len(rows) for rows in having])
        used = usable_views(type(self).__name__, self.kernel_names_, counts)
        most = min(counts.max(), self.n_landmarks)
        needed = 8 * most * (7 * most + 3 * counts.max())
        check_memory(counts.max(), 1, needed, instead="lower n_landmarks; ")
        landmarks = [
            np.sort(rng.choice(len(rows), self.n_landmarks, replace=False))
            if len(rows) > self.n_landmarks
            else None
            for rows in having
        ]
        self.view_ridges_: list[ViewRidge | LandmarkRidge | None] = Parallel(
            self.n_jobs, prefer="threads"
        )(
            delayed(_fit_ridge)(held, data, m, rows, chosen, targets)
            for m, (rows, chosen) in enumerate(zip(having, landmarks, strict=True))
        )
        scores = loo_scores(self.view_ridges_, having, len(targets.codes), targets.Y.shape[1])
        self.stacking_ = solve_softmax_stacking(scores, targets.codes, sample_weight=targets.weight)
        self.reliability_ = np.where(used, self.stacking_.weights, 0.0)
        self.view_loo_score_ = np.array(
            [
                loo_accuracy(score[rows], targets.part(rows)) if ridge is not None else np.nan
                for score, rows, ridge in zip(scores, having, self.view_ridges_, strict=True)
            ]
        )
        self.loo_score_ = loo_accuracy(self.stacking_.combine(scores), targets)

    @property
    def _entries_per_row(self) -> int:
        return max([1, *(len(each.rows) for each in self.view_ridges_ if each is not None)])

    def _log_proba(self, rows: Any) -> Floats:
        observed = self.input_.observed_of(rows)
        total = np.tile(self.stacking_.bias, (len(rows), 1))
        for m, (ridge, weight) in enumerate(zip(self.view_ridges_, self.reliability_, strict=True)):
            having = np.flatnonzero(observed[:, m])
            if ridge is not None and weight > 0 and len(having):
                part = self.input_.narrowed(rows, m)[having]
                total[having] += weight * ridge.scores(self.input_.between(part, m, ridge.rows))
        return total


def _fit_ridge(
    held: KernelInput,
    data: Samples,
    m: int,
    rows: Indices,
    landmarks: Indices | None,
    targets: Targets,
) -> ViewRidge | LandmarkRidge | None:
    """Fit the ridge regression of one kernel, on the samples `rows` that have it."""
    if len(rows) < LEAST_SAMPLES:
        return None
    columns = rows if landmarks is None else rows[landmarks]
    kernel = held.between(held.narrowed(data, m)[rows], m, columns)
    if landmarks is None:
        check_kernel(kernel, held.names[m])
        return fit_view_ridge(kernel, rows, targets.part(rows))
    return fit_landmark_ridge(kernel, landmarks, rows, targets.part(rows))
