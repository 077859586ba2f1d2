"""The recommended regressor for data with absent views: a quilt with the squared loss."""

from typing import Any, ClassVar

import numpy as np

from kernelquilt._typing import Floats
from kernelquilt.data.sampling import Sample
from kernelquilt.data.targets import Targets
from kernelquilt.data.training import Samples
from kernelquilt.quilt.experts import check_experts, fit_experts
from kernelquilt.quilt.fitting import CONSTRAINTS, fit_to_samples, store_attributes
from kernelquilt.quilt.members import cross_fitted, member_names, member_weights
from kernelquilt.quilt.ridge_regressor import BaseRidgeRegressor, determination
from kernelquilt.quilt.stacking import solve_linear_members, solve_linear_stacking


class QuiltRegressor(BaseRidgeRegressor):
    """The regressor to start with when views are absent: tuned by itself.

    `QuiltClassifier` with the squared loss throughout: kernel ridge regressions on completed
    kernels (early), one on each view alone (late), and a random forest on the columns. Their
    predictions are added with weights that are learned from samples they have not seen. Several
    targets may be learned at once: they share kernels, weights and penalties, and one
    factorisation serves them all.

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
        What fills absent kernels, as in `QuiltClassifier`.
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
    view_transfer_, kernel_weights_, expert_weights_, expert_gap_
        As in `QuiltClassifier`.
    reliability_, pattern_reliability_
        As in `QuiltClassifier`.
    loo_score_ : float
        Out-of-sample coefficient of determination of all members together.
    member_names_, member_weights_, experts_
        As in `QuiltClassifier`; the predictions of the members are added with these weights.
    member_scores_ : dict of str to float
        Out-of-sample coefficient of determination of each member, and of ``"all"`` together.
    early_stacking_, late_stacking_, quilt_, used_kernels_, used_samples_
        As in `QuiltClassifier`.
    preparation_ : ViewTransformer or None
        What fills cells and encodes categories.
    n_passes_, kernel_names_, n_features_in_
        As in `QuiltClassifier`.

    Examples
    --------
    >>> import kernelquilt as kq
    >>> X, _ = kq.datasets.load_example("wdbc")
    >>> target = X["mean"][:, 0]
    >>> X = kq.datasets.make_absent(X, 0.4, random_state=0)
    >>> model = kq.QuiltRegressor().fit(X[:200], target[:200])
    >>> bool(model.score(X[200:], target[200:]) > 0.7)
    True
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = CONSTRAINTS

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
        self.max_memory = max_memory
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _check_before(self, data: Samples) -> None:
        check_experts(self.experts, data, classify=False)

    def _learn(self, data: Samples, y: Floats, targets: Targets, sample: Sample) -> None:
        fitted, drawn = fit_to_samples(self, data, targets, sample)
        part = targets.part(fitted.samples)
        loo = fitted.quilt.early_loo, fitted.quilt.late_loo
        early, late = (
            solve_linear_stacking(scores, part.Y, sample_weight=part.weight) for scores in loo
        )
        store_attributes(self, fitted, early, late)
        outputs = self._outputs(loo)

        def counts(predicted: Floats) -> bool:
            return bool(_joined(np.array([*outputs, predicted]), part)[-1] > 0)

        self.experts_ = fit_experts(self, fitted, drawn, counts, classify=False)
        outputs = np.array([*outputs, *(expert.out_of_sample for expert in self.experts_)])
        if self.cross_fit:
            rows = fitted.samples
            outputs = cross_fitted(self, data[rows], y[rows], part, outputs)
        self._join(outputs, part)

    @property
    def _shares_subsets(self) -> bool:  # type: ignore[override]
        return self.completion is None

    @property
    def _entries_per_row(self) -> int:
        return self._fitted.entries_per_row

    def _join(self, outputs: Floats, part: Targets) -> None:
        """Learn the weights of the members from their out-of-sample predictions (K, n, c)."""
        self.member_names_ = member_names(self.experts_)
        self.member_weights_ = member_weights(
            outputs, lambda each: _joined(each, part), refitted=self.cross_fit
        )
        together = np.tensordot(self.member_weights_, outputs, axes=1)
        self.member_scores_ = {
            name: determination(part.Y, each, part.weight)
            for name, each in zip([*self.member_names_, "all"], [*outputs, together], strict=True)
        }
        self.loo_score_ = self.member_scores_["all"]

    def _predict_part(self, rows: Any) -> Floats:
        return np.tensordot(self.member_weights_, self._member_outputs(rows), axes=1)

    def _member_outputs(self, rows: Any) -> Floats:
        """Return the predictions (K, n_rows, c) of the members in units of the scaled targets."""
        outputs = self._outputs(self._fitted.scores(rows, self.early_stacking_.weights > 0))
        return np.array([*outputs, *(expert.outputs(rows) for expert in self.experts_)])

    def _outputs(self, scores: tuple[Floats, Floats]) -> Floats:
        """Return the predictions (2, n, c) of early and late, from their scores."""
        stackings = self.early_stacking_, self.late_stacking_
        return np.array(
            [stacking.combine(each) for stacking, each in zip(stackings, scores, strict=True)]
        )


def _joined(outputs: Floats, part: Targets) -> Floats:
    """Return the weights (K,) of members, from their predictions (K, n, c)."""
    return solve_linear_members(outputs, part.Y, sample_weight=part.weight)
