"""The recommended survival model for data with absent views: risk scores from a quilt."""

from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from kernelquilt._typing import Array, Bools, Floats
from kernelquilt.core.limits import single_threaded_blas, unchanged_on_error
from kernelquilt.data.training import check_weights, input_tags
from kernelquilt.data.validation import check_alignment
from kernelquilt.quilt.fitting import CONSTRAINTS
from kernelquilt.quilt.regressor import QuiltRegressor
from kernelquilt.quilt.survival.cox import (
    breslow_hazard,
    concordance,
    martingale_residuals,
    solve_cox_stacking,
)
from kernelquilt.quilt.survival.targets import survival_targets


class StepFunction:
    """A function of time that is constant between the times at which it changes.

    Parameters
    ----------
    x : ndarray of shape (k,)
        Times, ascending.
    y : ndarray of shape (k,)
        Values from these times on.
    start : float
        Value before the first of them.
    """

    def __init__(self, x: Floats, y: Floats, start: float) -> None:
        self.x, self.y, self.start = x, y, start

    @property
    def domain(self) -> tuple[float, float]:
        """From zero to the last time that was seen in training."""
        return 0.0, float(self.x[-1])

    def __call__(self, x: Any) -> Any:
        """Return the value at one time or at an array of times, within the domain."""
        times = np.asarray(x, dtype=np.float64)
        if not ((times >= 0.0) & (times <= self.x[-1])).all():
            raise ValueError(
                f"times must be within [0, {self.x[-1]:g}], the times seen in training, beyond "
                f"which nothing is known; got {np.min(times):g} to {np.max(times):g}"
            )
        values = np.r_[self.start, self.y][np.searchsorted(self.x, times, side="right")]
        return float(values) if values.ndim == 0 else values

    def __repr__(self) -> str:
        return f"StepFunction(x={self.x!r}, y={self.y!r}, start={self.start!r})"


class QuiltSurvival(BaseEstimator):
    """The survival model to start with when views are absent: tuned by itself.

    A `QuiltRegressor` learns how many events each sample has had more than expected (martingale
    residuals). The scores of its experts, of samples that they have not seen, are added with
    non-negative weights by a proportional hazards model, whose baseline gives survival functions.
    It has the interface of scikit-survival, whose metrics take what it returns.

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
    max_memory : float, default=4.0
        GiB above which fitting is refused.
    n_jobs : int or None, default=None
        Threads over the experts; results do not depend on it.
    random_state : int, RandomState instance or None, default=None
        For the forest and other experts; an int makes fits repeatable.
    verbose : int, default=0
        Whether to print the progress of the solver.

    Attributes
    ----------
    regressor_ : QuiltRegressor
        What learned the residuals.
    member_names_ : tuple of str of length J
        Names of the experts whose scores are added: those on all views (early), on each view
        (late), and on the columns.
    member_weights_ : ndarray of shape (J,)
        Their weights.
    unique_times_ : ndarray of shape (k,)
        The times that occur in training, ascending.
    baseline_hazard_ : ndarray of shape (k,)
        Cumulative hazard of a sample with risk score 0 at these times.
    loo_score_ : float
        Out-of-sample concordance.
    kernel_names_ : tuple of str of length M
        Names of the kernels.
    n_features_in_ : int
        Number of columns of 2-D data, otherwise of views or kernels.

    Examples
    --------
    >>> import numpy as np
    >>> import kernelquilt as kq
    >>> X, _ = kq.datasets.make_multiview(120, 3, random_state=0)
    >>> rng = np.random.default_rng(0)
    >>> time = rng.exponential(np.exp(-X[X.names[0]][:, 0]))
    >>> event = rng.random(120) < 0.7
    >>> X = kq.datasets.make_absent(X, 0.3, random_state=0)
    >>> model = kq.QuiltSurvival(random_state=0).fit(X, (event, time))
    >>> survival = model.predict_survival_function(X[:1])[0]
    >>> bool(survival(0.0) >= survival(0.5) >= 0.0)
    True
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        name: rule for name, rule in CONSTRAINTS.items() if name != "cross_fit"
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
        self.max_memory = max_memory
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "QuiltSurvival":
        """Fit the model.

        Parameters
        ----------
        X : array-like of shape (n, n_features), DataFrame, MultiView or KernelStack
            Training samples. Absent views are rows of NaN, or not observed in the container.
        y : structured array of shape (n,), pair of arrays of shape (n,), or frame of shape (n, 2)
            Events (booleans, or 0 and 1) and times; of two fields or columns the event is the
            boolean one, or that named so, or else the first. Only the first of these forms can be
            cut into folds by scikit-learn.
        sample_weight : array-like of shape (n,), default=None
            How often each sample counts; only ratios matter. Copies of an event are no ties to
            Efron's correction.

        Returns
        -------
        self : QuiltSurvival
            The fitted model.
        """
        self._validate_params()
        with unchanged_on_error(self), single_threaded_blas():
            check_alignment(X, y, "y")
            check_alignment(X, sample_weight, "sample_weight")
            event, time = survival_targets(y)
            weight = check_weights(sample_weight, time)
            if not event[weight > 0].any():
                weighted = "" if weight.all() else " with positive weight"
                raise ValueError(
                    f"the times of all {np.count_nonzero(weight)} samples{weighted} are censored: "
                    "without an event there is nothing to learn"
                )
            regressor = QuiltRegressor(**self.get_params(deep=False))
            self.regressor_ = regressor.fit(X, martingale_residuals(event, time, weight), weight)
            regressor.input_.describe(self)
            used = regressor.used_samples_
            self._join(event[used], time[used], weight[used])
        return self

    def _join(self, event: Bools, time: Floats, weight: Floats) -> None:
        """Learn weights and baseline from the out-of-sample scores of the experts."""
        quilt, experts = self.regressor_.quilt_, self.regressor_.experts_
        F = _side_by_side(
            (quilt.early_loo, quilt.late_loo), [each.out_of_sample for each in experts]
        )
        late = [*quilt.names, "pattern"][: len(quilt.late_loo)]
        self.member_names_ = (
            *("early", "early joint")[: len(quilt.early_loo)],
            *(f"late {name}" for name in late),
            *(expert.name for expert in experts),
        )
        self.member_weights_ = solve_cox_stacking(F, event, time, weight)
        risk = self.member_weights_ @ F
        self.loo_score_ = concordance(risk, event, time, None if (weight == 1.0).all() else weight)
        self.unique_times_, self.baseline_hazard_ = breslow_hazard(risk, event, time, weight)

    @property
    def _shares_subsets(self) -> bool:
        return self.completion is None

    def predict(self, X: Any) -> Floats:
        """Return the risk scores of samples.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features), DataFrame, MultiView or KernelStack
            Samples in the form of the training samples, as in `QuiltRegressor`.

        Returns
        -------
        risk : ndarray of shape (n_rows,)
            Logarithms of the hazards relative to the baseline, which is also what a sample without
            any view gets: the larger, the earlier the event.
        """
        check_is_fitted(self, "member_weights_")
        model = self.regressor_
        rows = model.input_.rows(model, X)
        with single_threaded_blas():
            parts = model.input_.parts(rows, model._fitted.entries_per_row)
            return np.concatenate([self._risk(part) for part in parts])

    def _risk(self, rows: Any) -> Floats:
        others = [expert.outputs(rows) for expert in self.regressor_.experts_]
        counted = self.member_weights_[: len(self.regressor_.early_stacking_.weights)] > 0
        scores = self.regressor_._fitted.scores(rows, counted)
        return self.member_weights_ @ _side_by_side(scores, others)

    def predict_cumulative_hazard_function(self, X: Any, return_array: bool = False) -> Array:
        """Return the cumulative hazard of samples as functions of time.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features), DataFrame, MultiView or KernelStack
            As in `predict`.
        return_array : bool, default=False
            Whether to return the values at `unique_times_` instead of functions.

        Returns
        -------
        hazard : ndarray of n_rows functions, or of shape (n_rows, k)
            Cumulative hazards by time.
        """
        hazard = np.outer(np.exp(self.predict(X)), self.baseline_hazard_)
        return hazard if return_array else self._functions(hazard, 0.0)

    def predict_survival_function(self, X: Any, return_array: bool = False) -> Array:
        """Return the probability of no event so far, as functions of time.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features), DataFrame, MultiView or KernelStack
            As in `predict`.
        return_array : bool, default=False
            Whether to return the values at `unique_times_` instead of functions.

        Returns
        -------
        survival : ndarray of n_rows functions, or of shape (n_rows, k)
            Probabilities by time of no event until then.
        """
        survival = np.exp(-self.predict_cumulative_hazard_function(X, return_array=True))
        return survival if return_array else self._functions(survival, 1.0)

    def _functions(self, values: Floats, start: float) -> Array:
        made = np.empty(len(values), dtype=object)
        made[:] = [StepFunction(self.unique_times_, each, start) for each in values]
        return made

    def score(self, X: Any, y: Any) -> float:
        """Return the concordance of risk scores.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features), DataFrame, MultiView or KernelStack
            As in `predict`.
        y : as in `fit`, of n_rows samples
            Events and times.

        Returns
        -------
        score : float
            Share of pairs of samples that are in the right order; 0.5 by chance.
        """
        check_alignment(X, y, "y")
        return concordance(self.predict(X), *survival_targets(y))

    def __sklearn_tags__(self) -> Any:
        tags = input_tags(self, super().__sklearn_tags__())
        tags.target_tags.required = True
        return tags


def _side_by_side(scores: tuple[Floats, Floats], others: list[Floats]) -> Floats:
    """Return the scores (J, n) of all experts from those of the quilt (j, n, 1) and others."""
    blocks = [*scores, *(each[None] for each in others)]
    return np.vstack([block[:, :, 0] for block in blocks])
