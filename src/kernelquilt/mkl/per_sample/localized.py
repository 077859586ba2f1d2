r"""Localized multiple kernel learning: kernel weights that depend on the sample.

.. math:: \min_{V, v_0} \; J(V, v_0), \qquad J = \min_{w, b} \; \tfrac12 \sum_m \|w_m\|^2
          + \sum_i C_i \max\bigl(0,\, 1 - y_i f(x_i)\bigr), \qquad
          f(x) = \sum_m \eta_m(x) \langle w_m, \phi_m(x) \rangle + b,

where the gates :math:`\eta_m(x)`, softmax or sigmoid functions of :math:`v_m'x + v_{m0}`, say how
much sample x listens to kernel m. For fixed gates this is an SVM on the locally combined kernel

.. math:: K_\eta(x_i, x_j) = \sum_m \eta_m(x_i) K_m(x_i, x_j) \eta_m(x_j),

and the derivative of J by the gates follows from its duals
(:mod:`kernelquilt.mkl.per_sample.gating`). J is not convex in the gates: the descent
(:mod:`kernelquilt.mkl.per_sample.gate_descent`) lowers it with every step and ends where steps
bring next to nothing, and several starts may end differently.

The gate of an absent kernel is 0, and a softmax is taken over the observed kernels only. With equal
softmax gates the combined kernel is the mean kernel divided by M, so the same C does not mean the
same thing as in uniform MKL.

=============  ==============================================
paper symbol   name here
=============  ==============================================
K_m            ``K[m]`` (zero where absent)
x_i (gating)   ``features[i]``
v_m, v_m0      ``gate_weights[m, :-1]``, ``gate_weights[m, -1]``
eta_m(x_i)     ``gates[i, m]``
alpha_i y_i    ``dual_coef[i]``
=============  ==============================================

References
----------
.. [1] M. Goenen and E. Alpaydin, "Localized multiple kernel learning", ICML 2008.
.. [2] M. Goenen and E. Alpaydin, "Localized algorithms for multiple kernel learning", Pattern
   Recognition 46(3), 2013.
"""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from kernelquilt._typing import Bools, Floats, Numbers
from kernelquilt.core.limits import single_threaded_blas
from kernelquilt.core.weights.solution import Options, Solution, Step, warn_unless_settled
from kernelquilt.core.weights.solvers import clearly_negative
from kernelquilt.data.training import Samples, without_view
from kernelquilt.data.validation import check_dense
from kernelquilt.kernels.inputs import KernelInput
from kernelquilt.mkl.fitting import BaseMKLClassifier, BinaryProblem, Prepared, gathered
from kernelquilt.mkl.per_sample.gate_descent import descend_gates, random_starts
from kernelquilt.mkl.per_sample.gate_inputs import GateInputs, KernelFeatures, ViewFeatures
from kernelquilt.mkl.per_sample.gating import GATINGS, GatedSVM, gate_scores


@dataclass(frozen=True)
class LocalizedSolution(Solution):
    """Solution of one binary localized multiple kernel learning problem.

    The objective and its bound are those of the SVM at the gates found; no bound of J over all
    gates is known.

    Attributes
    ----------
    weights : ndarray of shape (M,)
        Mean gate of the training samples, each in proportion to its penalty.
    gate_weights : ndarray of shape (M, d + 1)
        Parameters of the gates, bias last; the bias of kernels that must not be opened is -inf.
    gates : ndarray of shape (n, M)
        Gates of the training samples.
    outer_change : float
        Relative decrease of J by which the descent stopped.
    """

    gate_weights: Floats = field(default_factory=lambda: np.empty((0, 1)))
    gates: Floats = field(default_factory=lambda: np.empty((0, 0)))


@single_threaded_blas()
def solve_localized_mkl(
    K: Numbers,
    y: Floats,
    features: Floats,
    *,
    C: float | Floats = 1.0,
    observed: Bools | None = None,
    gating: str = "softmax",
    tol: float = 1e-3,
    outer_tol: float = 1e-4,
    max_iter: int = 500,
    n_restarts: int = 0,
    random_state: Any = None,
    gate_weights: Floats | None = None,
    on_step: Callable[[Step], None] | None = None,
) -> LocalizedSolution:
    """Solve localized MKL to a local minimum (see the module docstring for the objective).

    Parameters
    ----------
    K, y, C
        As in `solve_simple_mkl`, for one problem.
    features : ndarray of shape (n, d)
        Inputs of the gates, best with mean 0 and variance 1.
    observed : ndarray of shape (n, M), bool, optional
        True where a kernel observes a sample, everywhere by default. Kernels that no sample with a
        positive penalty has stay closed.
    gating : {"softmax", "sigmoid"}, default="softmax"
        The gate function.
    tol : float, default=1e-3
        Relative duality gap of every SVM.
    outer_tol : float, default=1e-4
        Relative decrease of J in an iteration that counts as next to nothing; two such iterations
        in a row end the descent.
    max_iter : int, default=500
        Cap on the iterations from one start.
    n_restarts : int, default=0
        Random starts beside the first one; the solution with the lowest J is returned.
    random_state : int, RandomState instance or None, default=None
        Of the random starts.
    gate_weights : ndarray of shape (M, d + 1), optional
        The first start, bias last; by default zeros, which means equal gates.
    on_step : callable, optional
        Called with every :class:`~kernelquilt.core.weights.solution.Step`.

    Returns
    -------
    LocalizedSolution
        With the history of the best start, and the solves of all.

    Examples
    --------
    >>> import kernelquilt as kq
    >>> X, y = kq.datasets.make_multiview(40, 3, random_state=0)
    >>> K = kq.ViewKernels().fit_transform(X).gram()
    >>> solution = kq.mkl.solve_localized_mkl(K, 2.0 * y - 1, X[X.names[0]])
    >>> solution.n_solves > 1
    True
    """
    n, M = len(y), len(K)
    if gating not in GATINGS:
        raise ValueError(f"gating must be one of {sorted(GATINGS)}, got {gating!r}")
    if features.ndim != 2 or len(features) != n:
        raise ValueError(f"features must have shape ({n}, d), got {features.shape}")
    penalty = np.array(np.broadcast_to(C, (n,)), dtype=np.float64)
    observed = np.ones((n, M), dtype=np.bool_) if observed is None else observed
    allowed = np.asarray(observed[penalty > 0].any(axis=0))
    svm = GatedSVM(K, y, penalty, features, observed & allowed, GATINGS[gating], tol)
    first = np.zeros((M, features.shape[1] + 1))
    if gate_weights is not None:
        first[allowed] = gate_weights[allowed]
    rng = check_random_state(random_state)
    drawn = random_starts(n_restarts, features[penalty > 0], allowed, rng)
    options = Options(outer_tol, max_iter, on_step=on_step)
    runs = (descend_gates(svm, start, options) for start in [first, *drawn])
    point, decrease, history = min(runs, key=lambda run: run[0].value)
    b = point.svm.b[0]
    gated = b[:, None] * point.gates
    q = np.sum(gated * svm.products(gated), axis=0)
    found = point.gate_weights.copy()
    found[~allowed, -1] = -np.inf
    return LocalizedSolution(
        weights=penalty @ point.gates / penalty.sum(),
        dual_coef=b,
        intercept=float(point.svm.intercept[0]),
        objective=point.value,
        dual_bound=point.svm.dual,
        tol=tol,
        n_iter=len(history),
        work=svm.work,
        history=history,
        indefinite=clearly_negative(q, b, np.diagonal(K, axis1=1, axis2=2)),
        gate_weights=found,
        gates=point.gates,
        outer_change=decrease,
        outer_tol=outer_tol,
    )


class LocalizedMKLClassifier(BaseMKLClassifier):
    """SVM on kernels whose weights depend on the sample.

    Use it when different kernels are useful in different regions of the input space. Gates that
    are trained together with the SVM say how much each sample uses each kernel. They depend on all
    views, or on the view that `gating_view` names; if X holds kernels, on the leading components
    of their kernel PCA. Nothing restrains the gates, so many gate inputs and few samples overfit:
    choose a `gating_view` with few columns. The problem is not convex; `duality_gap_` certifies
    the SVM at the gates found, not the gates.

    An absent kernel has gate 0 and a softmax is taken over the observed kernels. The columns of
    an absent view enter the gates as the mean of the training samples.

    Parameters
    ----------
    C : float, default=1.0
        Penalty on margin violations.
    gating : {"softmax", "sigmoid"}, default="softmax"
        Whether the gates of a sample compete (and sum to one) or open independently.
    gating_view : str or None, default=None
        Name of the view on which the gates depend, which is then no kernel; to have it as a kernel
        too, give it twice under two names. None: on all views.
    n_components : int, default=5
        Kernel-PCA components on which the gates depend if X holds kernels. Their mean is
        decomposed as it is: see `ScaleKernels` if they differ in scale.
    n_restarts : int, default=0
        Random starts of the gates beside equal gates; the fit with the lowest objective is kept.
    kernels : str, callable, list or dict, default="gaussian"
        Kernels of the views, as in `ViewKernels`; "precomputed" for plain arrays of kernels of
        shape (n, n, M). A `KernelStack` is always used as it is.
    views : dict of str to columns, "columns" or None, default=None
        The views of 2-D data, as in `as_views`.
    tol : float, default=1e-3
        Relative duality gap of the SVMs.
    outer_tol : float, default=1e-4
        Relative decrease of the objective at which to stop, in two iterations in a row.
    max_iter : int, default=500
        Cap on the iterations of each binary problem from one start.
    multi_class : {"ovr", "ovo"}, default="ovr"
        One-vs-rest or one-vs-one for more than two classes, each with gates of its own.
    class_weight : dict, "balanced" or None, default=None
        Factors on `C` by class.
    n_jobs : int or None, default=None
        Threads over the binary problems of a multi-class fit.
    random_state : int, RandomState instance or None, default=None
        For the random starts, the same for all problems; an instance is copied, not advanced.
    verbose : int, default=0
        Whether to print the progress of the solver.

    Attributes
    ----------
    gate_weights_ : ndarray of shape (M, d + 1), or (n_problems, M, d + 1) if multi-class
        Parameters of the gates on the d standardised inputs (the columns of the views in their
        order, or the components), bias last. The bias of a kernel that no training sample has is
        -inf.
    training_gates_ : ndarray of shape (n, M), or (n_problems, n, M) if multi-class
        Gates of the training samples; `gates` returns those of any samples.
    weights_ : ndarray of shape (M,), or (n_problems, M) if multi-class
        Mean gate of the training samples, each in proportion to its penalty.
    dual_coef_ : ndarray of shape (n_problems, n)
        Signed duals of the training samples, without the gates.
    intercept_ : ndarray of shape (n_problems,)
        Biases.
    n_support_ : ndarray of shape (n_problems,)
        Number of support vectors.
    objective_, duality_gap_ : float, or ndarray of shape (n_problems,) if multi-class
        Value of the SVM at the gates found, and how far it may be above its optimum there.
    n_iter_, n_solves_, n_smo_iter_, n_passes_ : int, int, int, float
        Iterations, SVM solves of all line searches and starts, SMO iterations, and passes over
        the kernels.
    converged_ : bool
        Whether every problem met `tol` and `outer_tol`.
    history_ : list of tuple of Step
        Objective and gap of the SVM by iteration, for each problem, from the best start. The
        objective never rises.
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
    >>> model = kq.mkl.LocalizedMKLClassifier().fit(X, y)
    >>> model.gates(X[:5]).sum(axis=1).round(6).tolist()
    [1.0, 1.0, 1.0, 1.0, 1.0]
    """

    _same_weights_for_all = False
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **BaseMKLClassifier._parameter_constraints,
        "gating": [StrOptions(set(GATINGS))],
        "gating_view": [str, None],
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "n_restarts": [Interval(Integral, 0, None, closed="left")],
        "outer_tol": [Interval(Real, 0, np.inf, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
    }
    _shares_subsets = False  # gates read the columns of all views
    _data_parameters: ClassVar[frozenset[str]] = BaseMKLClassifier._data_parameters | {
        "gating_view",
        "n_components",
    }

    def __init__(
        self,
        C: float = 1.0,
        *,
        gating: str = "softmax",
        gating_view: str | None = None,
        n_components: int = 5,
        n_restarts: int = 0,
        kernels: Any = "gaussian",
        views: Any = None,
        tol: float = 1e-3,
        outer_tol: float = 1e-4,
        max_iter: int = 500,
        multi_class: str = "ovr",
        class_weight: Any = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.C = C
        self.gating = gating
        self.gating_view = gating_view
        self.n_components = n_components
        self.n_restarts = n_restarts
        self.kernels = kernels
        self.views = views
        self.tol = tol
        self.outer_tol = outer_tol
        self.max_iter = max_iter
        self.multi_class = multi_class
        self.class_weight = class_weight
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def gates(self, X: Any) -> Floats:
        """Return how far samples open the gates of the kernels.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features), DataFrame, MultiView or KernelStack
            As in `decision_function`.

        Returns
        -------
        gates : ndarray of shape (n_rows, M), or (n_problems, n_rows, M) if multi-class
            Between 0 and 1, 0 for absent kernels.
        """
        check_is_fitted(self, "gate_weights_")
        no_scores = np.zeros((0, *self.training_gates_.shape[-2:]))
        gates, _ = self._gates_and_parts(self.input_.rows(self, X), no_scores)
        return gates[0] if self.gate_weights_.ndim == 2 else gates

    def _solve(self, problem: BinaryProblem, options: Options) -> Solution:
        # a path ignores where its neighbour ended: it would decide which minimum is found
        return solve_localized_mkl(
            problem.K,
            problem.y,
            problem.extra.of_training,
            C=problem.C,
            observed=problem.observed,
            gating=self.gating,
            outer_tol=self.outer_tol,
            n_restarts=self.n_restarts,
            random_state=deepcopy(self.random_state),
            **options.keywords(),
        )

    def _fit_input(self, data: Samples, weight: Floats) -> KernelInput:
        if self.gating_view is not None:
            data = without_view(data, self.gating_view, "gating_view")
        return super()._fit_input(data, weight)

    def _extra(self, held: KernelInput, data: Any, K: Numbers, weight: Floats) -> GateInputs:
        if held.views is None:
            embedding = KernelFeatures.fit(K, held.observed, weight, self.n_components)
            return GateInputs(embedding, embedding.of_samples(data, embedding.projections(K)))
        inputs = data if self.gating_view is None else data.select([self.gating_view])
        check_dense(self, inputs)
        columns = ViewFeatures.fit(inputs, weight)
        return GateInputs(columns, columns.of_samples(inputs))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = False
        return tags

    def _take(self, data: Prepared) -> None:
        super()._take(data)
        self.gate_features_ = data.extra.features

    def _store(self, solutions: list[Solution]) -> None:
        super()._store(solutions)
        self.gate_weights_ = gathered(solutions, "gate_weights")
        self.training_gates_ = gathered(solutions, "gates")
        warn_unless_settled(
            type(self).__name__,
            solutions,
            "a relative decrease of the objective",
            "raise max_iter or outer_tol",
        )

    def _scores(self, rows: Any) -> Floats:
        coef = self.dual_coef_[:, :, None] * self.training_gates_
        gates, parts = self._gates_and_parts(rows, coef)
        return self.intercept_ + np.einsum("lnm,mnl->nl", gates, parts)

    def _gates_and_parts(self, rows: Any, coef: Floats) -> tuple[Floats, Floats]:
        """Return the gates of samples and the kernels times coefficients, each kernel read once.

        Parameters
        ----------
        rows : MultiView or KernelStack of n_rows samples
        coef : ndarray of shape (L, n_train, M)

        Returns
        -------
        gates : ndarray of shape (n_problems, n_rows, M)
        parts : ndarray of shape (M, n_rows, L)
        """
        gate_weights = self.gate_weights_.reshape(-1, *self.gate_weights_.shape[-2:])
        opened = np.isfinite(gate_weights[:, :, -1]).any(axis=0)
        inputs = self.gate_features_.coef * opened[:, None, None]
        right = np.concatenate([coef.transpose(2, 1, 0), inputs], axis=2)
        observed = self.input_.observed_of(rows)
        needed = np.asarray(right.any(axis=(1, 2)))
        products = np.zeros((len(right), len(rows), right.shape[2]))
        kernels = self.input_.kernels(rows, needed)
        for m, kernel in zip(np.flatnonzero(needed), kernels, strict=True):
            products[m] = kernel @ right[m]
        projections = products[:, :, len(coef) :].sum(axis=0)
        features = self.gate_features_.of_samples(rows, projections)
        gate = GATINGS[self.gating].gates
        gates = np.array([gate(gate_scores(features, each), observed) for each in gate_weights])
        return gates, products[:, :, : len(coef)]
