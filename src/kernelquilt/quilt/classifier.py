"""The recommended classifier for data with absent views.

What it fits is described in :mod:`kernelquilt.quilt.model`: kernels completed by ridge transfer
between views, kernel ridge experts on the completed kernels, and beside them one on each view
alone. All is closed form or convex and tuned by leave-one-out errors, so that there is nothing to
choose.
"""

from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import StrOptions

from kernelquilt._typing import Floats
from kernelquilt.data.labels import Labels
from kernelquilt.kernels.inputs import Samples
from kernelquilt.quilt.fitting import CONSTRAINTS, fit_to_samples, store_attributes
from kernelquilt.quilt.ridge_classifier import BaseRidgeClassifier, Targets, loo_accuracy
from kernelquilt.quilt.stacking import StackingWeights, solve_softmax_stacking

SMALL = 1e-9  # added to probabilities before their logarithms are averaged


class QuiltClassifier(BaseRidgeClassifier):
    """The classifier to start with when views are absent: tuned by itself, with probabilities.

    Absent views are filled by ridge regression from the views that a sample has, weighted by how
    well they predict each other. Two kernel ridge classifiers learn from the result, and one more
    from each view alone; stacking weighs them by their leave-one-out scores. Nothing has to be
    tuned, all classes are learned in one go, and new samples may have any views.

    It costs O(M^2 n^3) for M views of n samples: seconds up to some hundred samples and ten views.
    `LateFusionClassifier` is the part of it that is fast.

    Parameters
    ----------
    kernels : str, callable, list or dict, default="median_gaussian"
        Kernels of the views, as in `ViewKernels`; "precomputed" for plain arrays of kernels of
        shape (n, n, M). All kernels, those of a `KernelStack` too, are centred and scaled by the
        samples that have them.
    views : dict of str to columns, "columns" or None, default=None
        The views of 2-D data, as in `as_views`.
    completion : completer or None, default=None
        What fills absent kernels, after they are centred; None is ``TransferFill(weighting="loo",
        n_passes=2, constant=0)``.
    pattern : bool, default=False
        Whether one more expert learns from which views a sample has: for absence that depends
        on the class, as it will for new samples.
    class_weight : dict, "balanced" or None, default=None
        Factors on the losses by class.
    max_memory : float, default=4.0
        GiB above which fitting is refused.
    n_jobs : int or None, default=None
        Threads over the experts; results do not depend on it.

    Attributes
    ----------
    view_transfer_ : ndarray of shape (M, M)
        In row p and column l the share of view p that is explained by view l alone, leaving
        samples out; negative if it predicts worse than nothing, nan if it cannot be told.
    kernel_weights_ : ndarray of shape (M,)
        Weights of the completed kernels in the first expert, with sum one.
    expert_weights_ : ndarray of shape (2,), or (1,) for one view
        Stacking weights of the weighted sum of kernels and of their joint Gaussian kernel.
    expert_gap_ : float
        Relative duality gap of `kernel_weights_`; 0 if they are equal by choice.
    reliability_ : ndarray of shape (M,)
        Stacking weights of the experts that see one view each: what one unit of their score, which
        is 1 for a class they are sure of, adds to the log-odds of that class.
    pattern_reliability_ : float
        Stacking weight of the expert that sees which views there are; 0 without `pattern`.
    loo_score_ : float
        Leave-one-out accuracy. Completion and stacking weights see all samples, so it is slightly
        optimistic.
    early_stacking_, late_stacking_ : StackingWeights
        Stacking weights and biases.
    quilt_ : Quilt
        The fitted experts.
    used_kernels_, used_samples_ : ndarrays of int
        Kernels that at least 3 training samples have, and training samples that have one of them.
    kernel_names_ : tuple of str of length M
        Names of the kernels.
    classes_ : ndarray of shape (n_classes,)
        Class labels.
    n_features_in_ : int
        Number of columns of 2-D data, otherwise of views or kernels.

    Notes
    -----
    New samples given as kernels need k(x, x): as `diag` of their `KernelStack`, as rows of the
    training stack, or because all training samples have the same.

    `sample_weight` counts in losses, means and widths of kernels; completion sees every sample of
    positive weight once.

    Examples
    --------
    >>> import kernelquilt as kq
    >>> X, y = kq.datasets.load_example("wdbc")
    >>> X = kq.datasets.make_absent(X, 0.4, random_state=0)
    >>> model = kq.QuiltClassifier().fit(X[:200], y[:200])
    >>> bool(model.score(X[200:], y[200:]) > 0.9)
    True
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **CONSTRAINTS,
        "class_weight": [dict, StrOptions({"balanced"}), None],
    }

    def __init__(
        self,
        kernels: Any = "median_gaussian",
        *,
        views: Any = None,
        completion: Any = None,
        pattern: bool = False,
        class_weight: Any = None,
        max_memory: float = 4.0,
        n_jobs: int | None = None,
    ) -> None:
        self.kernels = kernels
        self.views = views
        self.completion = completion
        self.pattern = pattern
        self.class_weight = class_weight
        self.max_memory = max_memory
        self.n_jobs = n_jobs

    def _learn(self, data: Samples, targets: Targets) -> None:
        fitted, part = fit_to_samples(
            self, data, targets, instead="LateFusionClassifier is made for many samples; "
        )
        Labels(self.classes_, part.codes, part.copies).check_two_classes(self)
        loo = fitted.quilt.early_loo, fitted.quilt.late_loo
        early, late = (
            solve_softmax_stacking(scores, part.codes, sample_weight=part.weight) for scores in loo
        )
        store_attributes(self, fitted, early, late)
        self.loo_score_ = loo_accuracy(_mean_log_proba((early, late), loo), part)

    @property
    def _entries_per_row(self) -> int:
        return self._fitted.entries_per_row

    def _log_proba(self, rows: Any) -> Floats:
        stackings = self.early_stacking_, self.late_stacking_
        return _mean_log_proba(stackings, self._fitted.scores(rows))


def _mean_log_proba(
    stackings: tuple[StackingWeights, StackingWeights], scores: tuple[Floats, Floats]
) -> Floats:
    """Return the mean of the logarithms of two sets of probabilities, (n, c)."""
    logs = [
        np.log(stacking.proba(each) + SMALL)
        for stacking, each in zip(stackings, scores, strict=True)
    ]
    return np.asarray(0.5 * (logs[0] + logs[1]))
