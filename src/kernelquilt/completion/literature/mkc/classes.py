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

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import StrOptions

from kernelquilt._typing import Bools, Floats, Kernel
from kernelquilt.completion.literature.mkc.embedding import (
    Embedding,
    EmbeddingCompleter,
    solve_embedding,
)
from kernelquilt.completion.literature.mkc.start import draw_basis

__all__ = ["ApproximationCompletion", "EmbeddingCompletion", "solve_embedding"]


class EmbeddingCompletion(EmbeddingCompleter):
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
    >>> kq.completion.EmbeddingCompletion(tol=1e-3).fit_transform(stack).observed.all()
    np.True_
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **EmbeddingCompleter._parameter_constraints,
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

    def _solve(
        self, K: Kernel, observed: Bools, sizes: Floats, rng: np.random.RandomState
    ) -> Embedding:
        if self.sharing == "homogeneous" and self.predict == "between":
            raise ValueError(
                f"predict='between' mixes the weights of the {len(K)} kernels, but with "
                "sharing='homogeneous' all have the same; use predict='within'"
            )
        n_basis = self.n_basis
        if self.basis == "random" and n_basis is None:
            n_basis = -(-len(observed) // 2)
        return solve_embedding(
            K,
            observed,
            lam1=self.lam1,
            lam2=0.0 if self.basis == "random" else self.lam2,
            coupling="shared" if self.sharing == "homogeneous" else "weights",
            between=self.between,
            self_weights=self.self_weights,
            basis=draw_basis(observed, n_basis, rng),
            start=self.init,
            sizes=sizes,
            tol=self.tol,
            max_iter=self.max_iter,
            random_state=rng,
            on_step=self._reporter(),
        )

    def _predictor(self, found: Embedding) -> Callable[[int, Bools, Bools], Floats]:
        return found.mixed_columns if self.predict == "between" else found.columns


class ApproximationCompletion(EmbeddingCompleter):
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
    >>> kq.completion.ApproximationCompletion(tol=1e-3).fit_transform(stack).observed.all()
    np.True_
    """

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

    def _solve(
        self, K: Kernel, observed: Bools, sizes: Floats, rng: np.random.RandomState
    ) -> Embedding:
        return solve_embedding(
            K,
            observed,
            lam1=self.lam1,
            lam2=self.lam2,
            coupling="kernels",
            self_weights=self.self_weights,
            basis=draw_basis(observed, self.n_basis, rng),
            start=self.init,
            sizes=sizes,
            tol=self.tol,
            max_iter=self.max_iter,
            random_state=rng,
            on_step=self._reporter(),
        )
