"""The recommended classifier for data with absent views.

What it fits to kernels is described in :mod:`kernelquilt.quilt.space.model`: kernels completed by
ridge transfer between views, kernel ridge experts on the completed kernels, and beside them one on
each view alone; all closed form or convex, and tuned by leave-one-out errors. The forest on the
columns is in :mod:`kernelquilt.quilt.experts`, and how all are joined in
:mod:`kernelquilt.quilt.members`.
"""

from typing import Any, ClassVar

import numpy as np
from scipy.special import logsumexp
from sklearn.utils._param_validation import StrOptions

from kernelquilt._typing import Floats
from kernelquilt.data.sampling import Sample
from kernelquilt.data.targets import Targets
from kernelquilt.data.training import Labels, Samples
from kernelquilt.quilt.experts import check_experts, fit_experts
from kernelquilt.quilt.fitting import CONSTRAINTS, fit_to_samples, store_attributes
from kernelquilt.quilt.members import cross_fitted, member_names, member_weights
from kernelquilt.quilt.ridge_classifier import BaseRidgeClassifier, loo_accuracy
from kernelquilt.quilt.stacking import solve_member_weights, solve_softmax_stacking

SMALL = 1e-9  # added to probabilities before their logarithms are averaged


class QuiltClassifier(BaseRidgeClassifier):
    """The classifier to start with when views are absent: tuned by itself, with probabilities.

    It joins three members, which fail on different data:

    * early: absent views are filled by ridge regression from the views that a sample has, weighted
      by how well they predict each other, and two kernel ridge classifiers learn from the result;
    * late: a kernel ridge classifier for each view, of which a sample uses those it has;
    * a random forest on the columns of all views, in which nothing is filled (`experts`).

    Each tells probabilities for training samples that it has not seen, and counts by how good they
    are. Nothing has to be tuned, all classes are learned in one go, and new samples may have any
    views.

    It takes any number of samples: up to 1000 it compares all of them with each other, above it
    learns in the span of some, and time grows with the number of samples, memory does not. Samples
    need not be in memory (`MultiView.stream`, arrays of dask). `LateFusionClassifier` is the part
    of it that is fast.

    Parameters
    ----------
    kernels : str, callable, list or dict, default="median_gaussian"
        Kernels of the views, as in `ViewKernels`; "precomputed" for plain arrays of kernels of
        shape (n, n, M). All kernels, those of a `KernelStack` too, are centred and scaled by the
        samples that have them.
    views : dict of str to columns, "columns" or None, default=None
        The views of 2-D data, as in `as_views`.
    prepare : {"auto"} or None, default="auto"
        ``"auto"`` fills single missing cells with the mean of their column, with a further column
        that tells where they were if 5 to 95 % of the samples lack them, and encodes categories
        one-hot, by what the training samples show; complete numeric views stay as they are. None
        refuses both.
    n_landmarks : int or "auto", default="auto"
        Each view is learned in the span of at most so many of the samples that have it; with as
        many as there are samples, nothing is approximated. ``"auto"`` takes all of up to 1000
        samples, 240 of 10 000 and 333 of a million, fewer where kernels are more than nine.
    landmarks : {"uniform", "kmeans", "pivoted_cholesky"}, default="uniform"
        How landmarks are chosen among the training samples: at random, as those nearest to the
        centres of clusters, or one after the other where the kernel is approximated worst.
    completion : completer or None, default=None
        What fills absent kernels, after they are centred, of at most 10 000 samples; None is
        ``TransferFill(weighting="loo", n_passes=2, constant=0)``, in the span of the landmarks.
    pattern : bool, default=False
        Whether one more expert learns from which views a sample has: for absence that depends
        on what is predicted, as it will for new samples.
    experts : "auto", None or list of estimators, default="auto"
        Members beside the kernels that learn from the columns as they are, NaN where a view is
        absent or a cell is missing, categories as numbers: ``"auto"`` is a random forest, None
        nothing, or scikit-learn estimators that accept NaN, such as those of histogram gradient
        boosting. They join where there are columns and at least two views; where a view is sparse,
        ``"auto"`` is nothing, and others are refused. What they say of samples they have not seen
        is out of bag with ``oob_score=True``, otherwise by five folds.
    cross_fit : bool, default=False
        Whether the weights of the members are learned from five refits, at five times the cost,
        instead of leave-one-out and out-of-bag predictions.
    class_weight : dict, "balanced" or None, default=None
        Factors on the losses by class.
    max_memory : float, default=4.0
        GiB above which fitting is refused.
    n_jobs : int or None, default=None
        Threads over the experts and over blocks of samples; results do not depend on it.
    random_state : int, RandomState instance or None, default=None
        For the choice of landmarks, the forest and other experts; an int makes fits repeatable.
    verbose : int, default=0
        Whether to print the progress of the solver.

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
        Out-of-sample accuracy of all members together. Completion and stacking weights see all
        samples, so it is slightly optimistic.
    member_names_ : tuple of K str
        ``"early"`` (experts on completed kernels), ``"late"`` (experts of single views), and the
        class of each further expert.
    member_weights_ : ndarray of shape (K,)
        Powers of the probabilities of the members in their product.
    member_scores_ : dict of str to float
        Out-of-sample log loss of each member, and of ``"all"`` together.
    experts_ : list of ColumnExpert
        The fitted experts on columns.
    early_stacking_, late_stacking_ : StackingWeights
        Stacking weights and biases.
    quilt_ : Quilt
        The fitted experts.
    used_kernels_, used_samples_ : ndarrays of int
        Kernels that at least 3 training samples have, and training samples that have one of them;
        at most 3000 of these, by which choices are made, where not all are landmarks.
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

    Notes
    -----
    Regressions are learned from all samples. Of more than 3000, as many drawn at random decide on
    what are few numbers: ridges and penalties, and the weights of experts, members and transfers;
    scores that leave samples out are those of these. Of more than 10 000, as many decide on centres
    and widths, and the forest sees these. All samples are read four times, in blocks. With all
    samples as landmarks all of them decide.

    Of more than 1000 samples a small forest comes first, of 50 trees, and one of 200 only if that
    has a weight beside the kernels. Penalties are then searched among neighbours instead of all
    tried.

    On 15 data sets whose views are absent by nature it is more accurate, on average, than an SVM on
    zero-filled kernels (by 2.3 points), gradient boosting (3.0) and a random forest (3.2) on NaN.
    On none of them is it more than about a point below the best of nine other methods.

    New samples given as kernels need k(x, x): as `diag` of their `KernelStack`, as rows of the
    training stack, or because all training samples have the same.

    `sample_weight` counts in losses, means, widths of kernels and the completion, where not in a
    `completion` of your own. A forest draws samples whatever they weigh, so that to it a weight is
    not the same as repetitions.

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
        prepare: str | None = "auto",
        n_landmarks: int | str = "auto",
        landmarks: str = "uniform",
        completion: Any = None,
        pattern: bool = False,
        experts: Any = "auto",
        cross_fit: bool = False,
        class_weight: Any = None,
        max_memory: float = 4.0,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.kernels = kernels
        self.views = views
        self.prepare = prepare
        self.n_landmarks = n_landmarks
        self.landmarks = landmarks
        self.completion = completion
        self.pattern = pattern
        self.experts = experts
        self.cross_fit = cross_fit
        self.class_weight = class_weight
        self.max_memory = max_memory
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _learn(self, data: Samples, targets: Targets, sample: Sample) -> None:
        check_experts(self.experts, data, classify=True)
        fitted, drawn = fit_to_samples(self, data, targets, sample)
        part = targets.part(fitted.samples)
        Labels(self.classes_, part.codes, part.copies).check_two_classes(self)
        loo = fitted.quilt.early_loo, fitted.quilt.late_loo
        early, late = (
            solve_softmax_stacking(scores, part.codes, sample_weight=part.weight) for scores in loo
        )
        store_attributes(self, fitted, early, late)
        logs = self._logs(loo)

        def counts(proba: Floats) -> bool:
            return bool(_joined(np.array([*logs, np.log(proba)]), part)[-1] > 0)

        self.experts_ = fit_experts(self, fitted, drawn, counts, classify=True)
        logs = np.array([*logs, *(np.log(expert.out_of_sample) for expert in self.experts_)])
        if self.cross_fit:
            logs = cross_fitted(self, data[fitted.samples], self.classes_[part.codes], part, logs)
        self._join(logs, part)

    def _join(self, logs: Floats, part: Targets) -> None:
        """Learn the weights of the members from logarithms (K, n, c) of their probabilities."""
        self.member_names_ = member_names(self.experts_)
        self.member_weights_ = member_weights(
            logs, lambda each: _joined(each, part), refitted=self.cross_fit
        )
        together = np.tensordot(self.member_weights_, logs, axes=1)
        self.member_scores_ = {
            name: _log_loss(each, part)
            for name, each in zip([*self.member_names_, "all"], [*logs, together], strict=True)
        }
        self.loo_score_ = loo_accuracy(together, part)

    @property
    def _shares_subsets(self) -> bool:  # type: ignore[override]
        return self.completion is None

    @property
    def _entries_per_row(self) -> int:
        return self._fitted.entries_per_row

    def _log_proba(self, rows: Any) -> Floats:
        return np.tensordot(self.member_weights_, self._member_outputs(rows), axes=1)

    def _member_outputs(self, rows: Any) -> Floats:
        """Return logarithms (K, n_rows, c) of the probabilities of the members."""
        logs = self._logs(self._fitted.scores(rows, self.early_stacking_.weights > 0))
        return np.array([*logs, *(np.log(expert.outputs(rows)) for expert in self.experts_)])

    def _logs(self, scores: tuple[Floats, Floats]) -> Floats:
        """Return logarithms (2, n, c) of the probabilities of early and late, from their scores."""
        stackings = self.early_stacking_, self.late_stacking_
        kernels = [stacking.proba(each) for stacking, each in zip(stackings, scores, strict=True)]
        return np.asarray(np.log(np.array(kernels) + SMALL))


def _joined(logs: Floats, part: Targets) -> Floats:
    """Return the weights (K,) of members, from logarithms (K, n, c) of their probabilities."""
    return solve_member_weights(logs, part.codes, sample_weight=part.weight)


def _log_loss(log_proba: Floats, part: Targets) -> float:
    """Return the weighted mean log loss of logarithms of probabilities (n, c)."""
    normalised = log_proba - logsumexp(log_proba, axis=1, keepdims=True)
    losses = -normalised[np.arange(len(part.codes)), part.codes]
    return float(np.average(losses, weights=part.weight))
