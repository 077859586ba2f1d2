"""Multi-view kernel completion: absent samples from weights that the views learn from each other.

With I_m the samples that have kernel m, each kernel is approximated from a few basis samples B_m
of I_m, whose weights in all samples are the rows of A_m,

    Khat_m = A_m' K_m[B_m, B_m] A_m,

and the views are tied together through S, whose rows lie on the simplex and whose diagonal is 0:

    ht   sum_m |(Khat_m - K_m)_{I_m, I_m}|^2 + lam1 sum_m |(A_m - sum_l s_ml A_l)_{I_m}|^2
         + lam2 sum_m |A_m|_{2,1}    (24)
    app  the same, with lam1 sum_m |Khat_m - sum_l s_ml Khat_l|^2    (25)
    hm   sum_m |(Khat_m - K_m)_{I_m, I_m}|^2 + lam2 |A|_{2,1},  A_m = A    (23)

of Bhadra, Kaski and Rousu, "Multi-view kernel completion", Machine Learning 2017, where |.|_{2,1}
is the sum of the norms of the rows, so that only some samples remain in the basis. Its MKC_rnd is
ht with a random basis and without that norm. The method of minimisation is that of
`kernelquilt.completion.literature.mkc.descent`; all variants are far from convex.

The completed kernels keep the observed entries: observed columns of A_m are replaced by unit
vectors before Khat_m is formed, which leaves it positive semi-definite. Absent columns may also be
taken from the other views, sum_l s_ml A_l, which is the prediction (13).

If a view keeps weight 1 of a sample in itself, (24) pulls the columns of that sample in views that
lack it to zero. ``self_weights=False`` forbids such weights for samples with an absent view.

One view without anything absent is problem (5), a low-rank approximation that needs no factor of
K but a few of its rows, and is at least as close as that of Nystroem on the same basis (Theorem 1).

| symbol | code |
|---|---|
| K_m, I_m | ``K[m]``, ``observed[:, m]`` |
| B_m, rows of A_m | ``basis[m]``, ``weights[m]`` (b_m, n) |
| S | ``between`` |
"""

from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions

from kernelquilt._typing import Bools, Floats, Kernel
from kernelquilt.completion.completer import BaseCompleter
from kernelquilt.completion.iterations import Iterations
from kernelquilt.completion.literature.learned_coefficients import (
    LearnedCombinations,
    undetermined_pairs,
)
from kernelquilt.completion.literature.mkc.approximation import Approximations
from kernelquilt.completion.literature.mkc.embedding import solve_embedding
from kernelquilt.completion.literature.mkc.start import draw_basis
from kernelquilt.completion.scaled_kernels import ScaledKernels

__all__ = ["ApproximationCompletion", "EmbeddingCompletion", "solve_embedding"]

_ITERATIONS = Iterations(
    "mean relative decrease of the objective",
    "raise max_iter or tol; a lower objective need not be a better completion, and stopping early "
    "is a choice that CompletionSearchCV can make",
)
_CONSTRAINTS: dict[str, Any] = {
    **Iterations.constraints,
    "lam1": [Interval(Real, 0, np.inf, closed="left")],
    "lam2": [Interval(Real, 0, np.inf, closed="left")],
    "n_basis": [Interval(Integral, 1, None, closed="left"), None],
    "init": [StrOptions({"transfer", "identity", "random"})],
    "self_weights": ["boolean"],
    "exact_observed": ["boolean"],
    "random_state": ["random_state"],
}


def _arrays_needed(n_basis: int | None) -> tuple[float, float]:
    return (18.0 if n_basis is None else 8.0), 2.0


def _complete(
    completer: Any, K: Kernel, observed: Bools, n_basis: int | None, mixed: bool, **problem: Any
) -> None:
    """Complete training kernels as in `BaseCompleter`, by `solve_embedding` with these options."""
    completer._warn_little_known(observed)
    rng = check_random_state(completer.random_state)
    completer._scaled = scaled = ScaledKernels.of(K, observed, exact=completer.exact_observed)
    found = solve_embedding(
        scaled.kernels,
        observed,
        lam1=completer.lam1,
        self_weights=completer.self_weights,
        basis=draw_basis(observed, n_basis, rng),
        start=completer.init,
        random_state=rng,
        **problem,
        **_ITERATIONS.options(completer),
    )
    columns = found.mixed_columns if mixed else found.columns
    coefs = [
        columns(m, ~present if scaled.exact else np.ones_like(present), present)
        for m, present in enumerate(observed.T)
    ]
    kind = LearnedCombinations if scaled.exact else Approximations
    completer._embedded = kind.complete(scaled, coefs, found.between)
    scaled.write(K)
    training = completer.training_rows_.observed
    known, seen = np.flatnonzero(training.any(axis=1)), np.flatnonzero(training.any(axis=0))
    completer.basis_ = [np.empty(0, dtype=np.intp) for _ in range(training.shape[1])]
    for m, selected in zip(seen, found.selected, strict=True):
        completer.basis_[m] = known[selected]
    completer.between_weights_ = completer._of_all_kernels(found.between)
    completer.undetermined_ = undetermined_pairs(training)
    _ITERATIONS.store(completer, found.history)


class EmbeddingCompletion(BaseCompleter):
    """Learn each view's weights of basis samples so that the views agree in them.

    The methods MKC_embd(ht), MKC_embd(hm) and MKC_rnd of Bhadra, Kaski and Rousu, for comparison
    with their paper. `WishartCompletion` has nothing to tune and was better in every comparison
    of ours; of the methods of the paper, `ApproximationCompletion` and `SDPCompletion` are the
    more dependable ones. A lower objective is often a worse completion here.

    The output is positive semi-definite, keeps all observed entries unless told otherwise, and
    has unit diagonal where the input has. The kernels count in units of their mean diagonals.

    Parameters
    ----------
    lam1 : float, default=0.1
        Weight of the agreement between views; without effect if they share their weights.
    lam2 : float, default=0.1
        Weight of the l2,1 norms that make bases small; without effect for a random basis.
    sharing : {"heterogeneous", "homogeneous"}, default="heterogeneous"
        Whether each view has weights of its own, or all have the same.
    basis : {"learned", "random"}, default="learned"
        Whether basis samples are chosen by the l2,1 norm, or drawn once, `n_basis` of them.
    between : {"observed", "all"}, default="observed"
        Whether views are compared in the rows of the samples that a view has, or in all rows.
    self_weights : bool, default=True
        Whether samples with an absent view may have weight in themselves, as in the paper.
    init : {"transfer", "identity", "random"}, default="transfer"
        Where absent samples start: as in `TransferFill`, at zero, or at random as in the paper.
    exact_observed : bool, default=True
        Whether observed entries are kept. Otherwise they are approximated like the others.
    predict : {"within", "between"}, default="within"
        Whether absent samples have the weights found for them in the view itself, or the mixture
        of those in the other views.
    n_basis : int or None, default=None
        How many samples are drawn at random as candidates for the bases, of which each view takes
        those that it has. None is all, and for a random basis half of them. Few candidates make
        large problems cheap.
    tol : float, default=1e-6
        Mean relative decrease of the objective by one iteration at which to stop.
    max_iter : int, default=2000
        Cap on the iterations; at most 50 proximal steps follow, which make rows exactly zero.
    random_state : int, RandomState instance or None, default=None
        For the random basis and the random start.
    verbose : int, default=0
        Whether to print the progress of the solver.

    Attributes
    ----------
    between_weights_ : ndarray of shape (M, M)
        S: how each view is made up of the others, uniform if they share their weights.
    basis_ : list of M ndarrays of int
        The training samples in the basis of each view.
    undetermined_ : ndarray of bool of shape (n_train, n_train)
        Pairs of training samples that no view observes together: what is completed there rests
        on nothing but the model.
    n_iter_ : int
        Number of iterations.
    converged_ : bool
        Whether `tol` was met.
    history_ : tuple of CompletionStep
        Objective and its mean relative decrease, by iteration.
    training_rows_ : TrainingRows
        The training samples.
    n_features_in_ : int
        Number of kernels.

    Examples
    --------
    >>> import kernelquilt as kq
    >>> X, y = kq.datasets.load_example("wdbc")
    >>> stack = kq.ViewKernels().fit_transform(X)[:60]
    >>> stack = kq.datasets.make_absent(stack, 0.3, random_state=0)
    >>> bool(kq.completion.EmbeddingCompletion(tol=1e-3).fit_transform(stack).observed.all())
    True
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **_CONSTRAINTS,
        "sharing": [StrOptions({"heterogeneous", "homogeneous"})],
        "basis": [StrOptions({"learned", "random"})],
        "between": [StrOptions({"observed", "all"})],
        "predict": [StrOptions({"within", "between"})],
    }

    def __init__(
        self,
        lam1: float = 0.1,
        *,
        lam2: float = 0.1,
        sharing: str = "heterogeneous",
        basis: str = "learned",
        between: str = "observed",
        self_weights: bool = True,
        init: str = "transfer",
        exact_observed: bool = True,
        predict: str = "within",
        n_basis: int | None = None,
        tol: float = 1e-6,
        max_iter: int = 2000,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.lam1 = lam1
        self.lam2 = lam2
        self.sharing = sharing
        self.basis = basis
        self.between = between
        self.self_weights = self_weights
        self.init = init
        self.exact_observed = exact_observed
        self.predict = predict
        self.n_basis = n_basis
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.verbose = verbose

    def _arrays_needed(self) -> tuple[float, float]:
        return _arrays_needed(self.n_basis)

    def _complete(self, K: Kernel, observed: Bools) -> None:
        if self.sharing == "homogeneous" and self.predict == "between":
            raise ValueError(
                f"predict='between' mixes the weights of the {len(K)} kernels, but with "
                "sharing='homogeneous' all have the same; use predict='within'"
            )
        drawn = self.basis == "random"
        _complete(
            self,
            K,
            observed,
            -(-len(observed) // 2) if drawn and self.n_basis is None else self.n_basis,
            mixed=self.predict == "between",
            lam2=0.0 if drawn else self.lam2,
            coupling="shared" if self.sharing == "homogeneous" else "weights",
            between=self.between,
        )

    def _complete_rows(self, K: Kernel, observed: Bools, diag: Floats | None) -> Floats | None:
        return self._scaled.complete_rows(K, observed, diag, self._embedded.complete_rows)


class ApproximationCompletion(BaseCompleter):
    """Learn each view's weights of basis samples so that the approximate kernels agree.

    The method MKC_app of Bhadra, Kaski and Rousu, for comparison with their paper; of its methods
    with weights the more dependable one. `WishartCompletion` has nothing to tune and was better
    in every comparison of ours. The kernels count in units of their mean diagonals.

    Parameters
    ----------
    lam1 : float, default=0.1
        Weight of the agreement between approximate kernels.
    lam2 : float, default=0.1
        Weight of the l2,1 norms that make bases small.
    self_weights, init, exact_observed, n_basis, tol, max_iter, random_state, verbose
        As in `EmbeddingCompletion`.

    Attributes
    ----------
    between_weights_ : ndarray of shape (M, M)
        S: how each approximate kernel is made up of the others.
    basis_ : list of M ndarrays of int
        The training samples in the basis of each view.
    undetermined_ : ndarray of bool of shape (n_train, n_train)
        Pairs of training samples that no view observes together: what is completed there rests
        on nothing but the model.
    n_iter_ : int
        Number of iterations.
    converged_ : bool
        Whether `tol` was met.
    history_ : tuple of CompletionStep
        Objective and its mean relative decrease, by iteration.
    training_rows_ : TrainingRows
        The training samples.
    n_features_in_ : int
        Number of kernels.

    Examples
    --------
    >>> import kernelquilt as kq
    >>> X, y = kq.datasets.load_example("wdbc")
    >>> stack = kq.ViewKernels().fit_transform(X)[:60]
    >>> stack = kq.datasets.make_absent(stack, 0.3, random_state=0)
    >>> bool(kq.completion.ApproximationCompletion(tol=1e-3).fit_transform(stack).observed.all())
    True
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = _CONSTRAINTS

    def __init__(
        self,
        lam1: float = 0.1,
        *,
        lam2: float = 0.1,
        self_weights: bool = True,
        init: str = "transfer",
        exact_observed: bool = True,
        n_basis: int | None = None,
        tol: float = 1e-6,
        max_iter: int = 2000,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.lam1 = lam1
        self.lam2 = lam2
        self.self_weights = self_weights
        self.init = init
        self.exact_observed = exact_observed
        self.n_basis = n_basis
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.verbose = verbose

    def _arrays_needed(self) -> tuple[float, float]:
        return _arrays_needed(self.n_basis)

    def _complete(self, K: Kernel, observed: Bools) -> None:
        _complete(self, K, observed, self.n_basis, mixed=False, lam2=self.lam2, coupling="kernels")

    def _complete_rows(self, K: Kernel, observed: Bools, diag: Floats | None) -> Floats | None:
        return self._scaled.complete_rows(K, observed, diag, self._embedded.complete_rows)
