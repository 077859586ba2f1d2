r"""Sample-adaptive multiple kernel learning (SAMKL): every sample has its own set of kernels.

Switches :math:`h_{ip} \in \{0, 1\}` turn kernel p on or off for sample i. The problem
is (12) of [1]_,

.. math:: \min \; \tfrac12 \sum_p \frac{\|w_p\|^2}{d_p} + \sum_i C_i \xi_i
          \quad \text{s.t.} \quad \frac{y_i}{\tau_i} \Bigl(\sum_p h_{ip} w_p' \phi_p(x_i) + b\Bigr)
          \ge 1 - \xi_i, \quad \xi \ge 0, \quad d \in \Delta, \quad |h_i - h_0|_1 \le m_0,

with the fewest kernels on that this allows, and the margins asked of the samples in proportion to
what their kernels can supply, :math:`\tau_i = \sum_p h_{ip} \|w_p\| / \sum_p \|w_p\|`. An iteration

1. solves l1-norm MKL (13) on the switched kernels ``H[i, p] K_p(x_i, x_j) H[j, p]`` for given
   switches and margins (:mod:`kernelquilt.mkl.norms.simple`);
2. finds new switches, the fewest that leave no sample with a larger loss
   (:mod:`kernelquilt.mkl.per_sample.switch_step`), which is (15) in closed form;
3. measures the margins (16) with them. Switches that leave a sample next to no margin are undone.

Switches and margins are kept with the duals they led to, never with those they came from. The
objective need not fall: with the margins fixed it would, but (16) changes them, and a smaller
margin costs a misclassified sample more. Nor is a low objective a sign of a good model, because the
switches know the labels; `validation_fraction` chooses the number of iterations by samples held
out. The penalty on the number of switches that (12) has on paper plays no part in the algorithm.

The step 2 has many solutions. The one of largest margin (``tie="max"``) turns off just those
kernels that disagree with the label, until the switches are a code of the labels and the model
knows nothing else. By default the kernels with the most influence, for or against, stay on. Those
without weight then go first: if there are `m0` or more of them, nothing else changes.

Absent kernels are off for good and count as zero, as in SimpleMKL, which this is for ``m0 = 0``: a
margin is the share of what the *observed* kernels of a sample could supply. The reference of a
sample is restricted to its observed kernels (all of them, should that leave none), and a sample
that lacks kernels keeps at least one on. New samples are scored by the learned patterns (17), (18)
that count absent kernels as in the reference, and apply to what the new sample has.

=============  ==============================================
paper symbol   name here
=============  ==============================================
K_p            ``K[p]`` (zero where absent)
gamma_p, d_p   ``weights[p]``
h_ip           ``switches[i, p]``
h_0            ``h0``, ``reference``
tau_i          ``margins[i]``
alpha_i y_i    ``dual_coef[i]`` times ``margins[i]``
g_ip           ``parts[i, p]``
=============  ==============================================

References
----------
.. [1] X. Liu, L. Wang, J. Zhang and J. Yin, "Sample-adaptive multiple kernel learning", AAAI 2014.
"""

from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, replace
from itertools import islice
from numbers import Integral, Real
from typing import Any, ClassVar, cast

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions

from kernelquilt._typing import Bools, Floats, Numbers
from kernelquilt.core.limits import single_threaded_blas
from kernelquilt.core.weights.solution import Options, Solution, Step, Work
from kernelquilt.kernels.products import kernel_products
from kernelquilt.mkl.fitting import BaseMKLClassifier, BinaryProblem, gathered
from kernelquilt.mkl.norms.simple import solve_simple_mkl
from kernelquilt.mkl.per_sample.switching import (
    MAX_SOLVES,
    TIES,
    Iterate,
    SwitchedProblem,
    adapt_switches,
    held_out,
    reference_switches,
    switch_count,
)


@dataclass(frozen=True, kw_only=True)
class AdaptiveSolution(Solution):
    """Solution of sample-adaptive MKL: that of its last MKL problem, and what defines this.

    Attributes
    ----------
    switches : ndarray of shape (n, M), bool
        Kernels that each sample has on.
    active : ndarray of shape (n, M), bool
        Observed kernels with weight that a sample has off.
    patterns : ndarray of shape (n_patterns, M), bool
        Different switches of the samples that took part, absent kernels as in ``h0``.
    at_rest : bool
        Whether the iteration ended by itself. As the number of iterations is for the caller to
        choose, no change of the objective is asked for: `outer_tol` is infinite.
    validation_scores : tuple of float
        Accuracy on the held-out samples by iteration, if there were any.
    """

    switches: Bools
    active: Bools
    patterns: Bools
    at_rest: bool
    validation_scores: tuple[float, ...] = ()


@single_threaded_blas()
def solve_sample_adaptive_mkl(
    K: Numbers,
    y: Floats,
    *,
    C: float | Floats = 1.0,
    m0: float = 0.25,
    h0: Any = "ones",
    tie: str = "influence",
    observed: Bools | None = None,
    tol: float = 1e-3,
    max_iter: int = 10,
    outer_tol: float = 1e-4,
    validation_fraction: float | None = None,
    random_state: Any = None,
    on_step: Callable[[Step], None] | None = None,
) -> AdaptiveSolution:
    """Solve sample-adaptive MKL by alternation (see the module docstring).

    Parameters
    ----------
    K, y, C
        As in `solve_simple_mkl`, for one problem.
    m0, h0, tie, max_iter, outer_tol, validation_fraction, random_state
        As in `SampleAdaptiveMKLClassifier`.
    observed : ndarray of shape (n, M), bool, optional
        True where a kernel observes a sample, everywhere by default.
    tol : float, default=1e-3
        Relative duality gap of the MKL problems.
    on_step : callable, optional
        Called with the :class:`~kernelquilt.core.weights.solution.Step` of every iteration.

    Returns
    -------
    AdaptiveSolution
        Its work includes that of validation and of ``h0="sparse"``.

    Examples
    --------
    >>> import kernelquilt as kq
    >>> X, y = kq.datasets.make_multiview(40, 3, random_state=0)
    >>> K = kq.ViewKernels().fit_transform(X).gram()
    >>> solution = kq.mkl.solve_sample_adaptive_mkl(K, 2.0 * y - 1, m0=1)
    >>> solution.weights.round(1)
    array([0.9, 0.1, 0. ])
    """
    if tie not in TIES:
        raise ValueError(f"tie must be one of {sorted(TIES)}, got {tie!r}")
    observed = np.ones((len(y), len(K)), dtype=np.bool_) if observed is None else observed
    penalty = np.broadcast_to(np.asarray(C, dtype=np.float64), y.shape)
    count = switch_count(m0, len(K))
    work: list[Work] = []

    def problem_of(penalty: Floats) -> SwitchedProblem:
        reference = h0
        if isinstance(h0, str) and h0 == "sparse":
            allowed = np.asarray(observed[penalty > 0].any(axis=0))
            sparse = solve_simple_mkl(
                K, y, C=penalty, allowed=allowed, tol=tol, max_iter=MAX_SOLVES
            )
            work.append(sparse.work)
            reference = sparse.weights > 0
        given = reference_switches(reference, observed.shape)
        return SwitchedProblem(K, y, penalty, observed, given, count)

    def iterates(problem: SwitchedProblem, number: int) -> Iterator[Iterate]:
        rng = check_random_state(deepcopy(random_state))
        for it in islice(adapt_switches(problem, tie, rng, tol, outer_tol), number):
            work.append(it.solution.work)
            yield it

    scores = []
    if validation_fraction is not None:
        rng = check_random_state(deepcopy(random_state))
        out = held_out(y, penalty, validation_fraction, rng)
        rest = problem_of(np.where(out, 0.0, penalty))
        scores = [_accuracy(rest, it, out, penalty) for it in iterates(rest, max_iter)]
        max_iter = int(np.argmax(scores)) + 1
    problem = problem_of(penalty)
    history: list[Step] = []
    for it in iterates(problem, max_iter):
        spent = sum(work, Work())
        history.append(Step(it.solution.objective, it.solution.duality_gap, spent.n_solves))
        if on_step is not None:
            on_step(history[-1])
    last = replace(
        it.solution,
        n_iter=len(history),
        work=spent,
        history=tuple(history),
        margins=it.margins,
        outer_tol=np.inf,
        reach=np.inf,
    )
    return AdaptiveSolution(
        **vars(last),
        switches=it.switches,
        active=~it.switches & observed & (it.solution.weights > 0),
        patterns=problem.patterns(it.switches),
        at_rest=it.settled,
        validation_scores=tuple(scores),
    )


def _accuracy(problem: SwitchedProblem, it: Iterate, rows: Bools, weight: Floats) -> float:
    """Return the weighted accuracy on some samples that took no part."""
    patterns = problem.patterns(it.switches)
    scores = best_scores(it.parts[rows], patterns, it.solution.intercept, both_signs=True)
    return float(np.average((scores > 0) == (problem.y[rows] > 0), weights=weight[rows]))


def best_scores(
    parts: Floats, patterns: Bools, intercept: float | Floats, *, both_signs: bool
) -> Floats:
    """Return the scores of samples by the pattern that decides for each.

    Parameters
    ----------
    parts : ndarray of shape (n_rows, M)
        What each kernel adds to the score of each sample, 0 where absent.
    patterns : ndarray of shape (n_patterns, M), bool
        Switches to choose from.
    intercept : float
        Bias.
    both_signs : bool
        Whether the largest absolute score decides (17) or the largest (18).

    Returns
    -------
    scores : ndarray of shape (n_rows,)
    """
    scores = parts @ patterns.T.astype(np.float64) + intercept
    chosen = (np.abs(scores) if both_signs else scores).argmax(axis=1)
    return np.take_along_axis(scores, chosen[:, None], axis=1)[:, 0]


class SampleAdaptiveMKLClassifier(BaseMKLClassifier):
    """SVM on a learned combination of kernels, in which each sample turns some kernels off.

    Use it when the useful kernels may differ from sample to sample, and compare it with
    `SimpleMKLClassifier`, which it is for ``m0=0``: on the data we know the gain is small if there
    is one. More iterations need not be better; tune `max_iter` by cross-validation, or set
    `validation_fraction`. Absent kernels are off and count as zero.

    Parameters
    ----------
    C : float, default=1.0
        Penalty on margin violations.
    m0 : int or float, default=0.25
        How many switches of a sample may differ from `h0`: a number below that of the kernels,
        or a fraction of it, rounded down.
    h0 : "ones", "sparse" or array-like of 0 and 1 of shape (M,) or (n, M), default="ones"
        Reference of the switches: all kernels on; those with weight in a SimpleMKL fit; or any
        others, for all samples or for each of the training samples. Kernels that are on for no
        sample stay off.
    tie : {"influence", "max", "random"}, default="influence"
        Which kernels stay on among equally many: those with the largest part in the score,
        whatever its sign; those with the largest part in favour of the label, for study only,
        because the switches then become a code of the labels; or random ones. With "influence"
        kernels without weight are turned off first, which changes nothing (see `active_`): `m0`
        has to be larger than their number to have an effect.
    kernels : str, callable, list or dict, default="gaussian"
        Kernels of the views, as in `ViewKernels`; "precomputed" for plain arrays of kernels of
        shape (n, n, M). A `KernelStack` is always used as it is.
    views : dict of str to columns, "columns" or None, default=None
        The views of 2-D data, as in `as_views`.
    tol : float, default=1e-3
        Relative duality gap of the MKL problem of each iteration.
    max_iter : int, default=10
        Cap on the MKL problems that each binary problem is made of; 1 is SimpleMKL on the kernels
        of `h0`.
    outer_tol : float, default=1e-4
        Relative change of the objective at which to stop.
    validation_fraction : float or None, default=None
        Fraction of either class of each binary problem that is held out at first, to find the
        number of iterations, `max_iter` at most, with the highest accuracy; the fit to all samples
        then does as many. None does as many as `max_iter` and `outer_tol` say.
    multi_class : {"ovr", "ovo"}, default="ovr"
        One-vs-rest or one-vs-one for more than two classes.
    class_weight : dict, "balanced" or None, default=None
        Factors on `C` by class.
    n_jobs : int or None, default=None
        Threads over the binary problems of a multi-class fit; each holds a copy of the kernels.
    random_state : int, RandomState instance or None, default=None
        For the held-out samples and ``tie="random"``, the same for all problems; an instance is
        copied, not advanced.
    verbose : int, default=0
        Whether to print the progress of the solver.

    Attributes
    ----------
    weights_ : ndarray of shape (M,), or (n_problems, M) if multi-class
        Kernel weights, non-negative with sum 1.
    dual_coef_ : ndarray of shape (n_problems, n)
        Signed duals of the training samples, without the weights.
    intercept_ : ndarray of shape (n_problems,)
        Biases.
    switches_ : ndarray of bool of shape (n, M), or (n_problems, n, M) if multi-class
        Kernels that each training sample has on, as they were when the duals were found.
    active_ : ndarray of bool of the shape of `switches_`
        Where a switch makes a difference: the sample has the kernel off, though it is observed
        and has weight. The paper calls switches that are off without effect inactive.
    patterns_ : ndarray of bool of shape (n_patterns, M), or list of n_problems of them
        Different switches, among which prediction chooses for each new sample.
    margins_ : ndarray of shape (n,), or (n_problems, n) if multi-class
        Margins asked of the training samples, 1 where nothing with weight is switched off.
    validation_scores_ : list of tuple of float
        Accuracy on the held-out samples by iteration, for each problem.
    settled_ : bool
        Whether the iteration of every problem ended by itself. The last one counts in any case.
    n_support_ : ndarray of shape (n_problems,)
        Number of support vectors.
    objective_, duality_gap_ : float, or ndarray of shape (n_problems,) if multi-class
        Certified primal value of the last MKL problem, at `switches_` and `margins_`, and how far
        it may be above the optimum of that problem.
    n_iter_, n_solves_, n_smo_iter_, n_passes_ : int, int, int, float
        Iterations; and in all SVM solves, SMO iterations, and passes over the kernels.
    converged_ : bool
        Whether every last MKL problem met `tol`.
    history_ : list of tuple of Step
        Objective and gap by iteration, for each problem.
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
    >>> bank = kq.gaussian_bank(4, 0.25, 4, spacing="log")
    >>> model = kq.mkl.SampleAdaptiveMKLClassifier(m0=3, kernels=bank).fit(X, y)
    >>> model.switches_.shape
    (569, 12)
    >>> int((~model.switches_).sum(axis=1).max())
    3
    """

    _same_weights_for_all = False
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **BaseMKLClassifier._parameter_constraints,
        "m0": "no_validation",
        "h0": "no_validation",
        "tie": [StrOptions(set(TIES))],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "outer_tol": [Interval(Real, 0, None, closed="left")],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither"), None],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        C: float = 1.0,
        *,
        m0: float = 0.25,
        h0: Any = "ones",
        tie: str = "influence",
        kernels: Any = "gaussian",
        views: Any = None,
        tol: float = 1e-3,
        max_iter: int = 10,
        outer_tol: float = 1e-4,
        validation_fraction: float | None = None,
        multi_class: str = "ovr",
        class_weight: Any = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.C = C
        self.m0 = m0
        self.h0 = h0
        self.tie = tie
        self.kernels = kernels
        self.views = views
        self.tol = tol
        self.max_iter = max_iter
        self.outer_tol = outer_tol
        self.validation_fraction = validation_fraction
        self.multi_class = multi_class
        self.class_weight = class_weight
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @staticmethod
    def _arrays_beside(n_kernels: int) -> float:
        return n_kernels + 2.0

    def _solve(self, problem: BinaryProblem, options: Options) -> Solution:
        # a start from another fit would change the duals within `tol`, and with them switches
        return solve_sample_adaptive_mkl(
            problem.K,
            problem.y,
            C=problem.C,
            m0=self.m0,
            h0=self.h0,
            tie=self.tie,
            observed=problem.observed,
            outer_tol=self.outer_tol,
            validation_fraction=self.validation_fraction,
            random_state=self.random_state,
            **options.keywords(),
        )

    def _store(self, solutions: list[Solution]) -> None:
        super()._store(solutions)
        adaptive = cast(list[AdaptiveSolution], solutions)
        for name in ("switches", "active", "margins"):
            setattr(self, f"{name}_", gathered(solutions, name))
        patterns = [solution.patterns for solution in adaptive]
        self.patterns_ = patterns if len(patterns) > 1 else patterns[0]
        self.settled_ = all(solution.at_rest for solution in adaptive)
        self.validation_scores_ = [solution.validation_scores for solution in adaptive]

    def _scores(self, rows: Any) -> Floats:
        parts = self._parts(rows)
        patterns = self.patterns_ if isinstance(self.patterns_, list) else [self.patterns_]
        both_signs = len(self.classes_) == 2 or self.multi_class == "ovo"
        return np.column_stack(
            [
                best_scores(*each, both_signs=both_signs)
                for each in zip(parts, patterns, self.intercept_, strict=True)
            ]
        )

    def _parts(self, rows: Any) -> Floats:
        """Return what each kernel adds to the scores if it is on, (n_problems, n_rows, M)."""
        weights = np.atleast_2d(self.weights_)
        n_problems, M = weights.shape
        switches = self.switches_.reshape(n_problems, -1, M)
        needed = np.asarray(weights.any(axis=0))
        parts = np.zeros((n_problems, len(rows), M))
        right = [
            (self.dual_coef_ * switches[:, :, m]).T if use else None for m, use in enumerate(needed)
        ]
        for m, product in kernel_products(self.input_, rows, right):
            parts[:, :, m] = product.T * weights[:, [m]]
        return parts
