"""Filling absent kernels from a matrix of low rank: singular value thresholding.

In a single kernel whole rows are unknown, and the matrix of least nuclear norm leaves them at
zero. So the kernels are put side by side, A = [K_1 ... K_M] of shape n x nM, whose rows are known
in part, and with O the entries (i, (p, j)) for which s_ip s_jp = 1 one solves

    min_X  tau |X|_* + 1/2 |X|_F^2    subject to  X = A on O.    (1)

With D_tau(Y) = U max(S - tau, 0) V' for Y = U S V', the dual is the smooth concave problem

    max_Y  <Y, A> - 1/2 |D_tau(Y)|_F^2    over Y that are zero off O,    (2)

whose gradient is A - X on O with X = D_tau(Y). Gradient ascent on (2) is singular value
thresholding (Cai, Candes and Shen, SIAM J. Optim. 2010). It diverges for steps of 2 and more, which
its usual step 1.2/p is for an observed fraction p below 0.6, and takes thousands of steps on
kernels, whose singular values decay over many orders of magnitude; quasi-Newton steps take many
hundreds. The alternating direction method of multipliers comes to the same X in a half to a
twentieth of their time (see `kernelquilt.completion.literature.nuclear_norm`). Of the block K_oo of
the samples o that a kernel observes only the columns are kept that matter in its eigenvectors.

From X = P Q_1' ... Q_M', |X|_* = (|P|^2 + |Q|^2) / 2 (that is, P = U sqrt(S), Q = V sqrt(S)), every
sample x gets coordinates by ridge regression of its known similarities on the column factors,

    g = argmin sum_p s_p |Q_p g - k_p|^2 + mu |g|^2,    mu = tol * largest singular value of X,

and where kernel p is absent the feature vector that the row factors P_o of the n_p samples with
the kernel make of these,

    phi_p(x) = sum_i b_i phi_p(x_i),    b = P_o (P_o'P_o + mu I)^-1 g.    (3)

Between an absent and an observed sample this is the entry of X, up to mu, if the known similarities
determine g and g determines b; otherwise both are the shortest. X itself has the entry on one side
of the diagonal only: columns of absent samples, of which nothing is known, are zero in X, so that
averaging X_p with its transpose would halve it. By (3) the completed kernels are symmetric and
positive semi-definite as they are, observed entries stay, and new samples are completed as
training samples are.

| symbol | code |
|---|---|
| K_p, s_ip | ``K[p]``, ``observed[i, p]`` |
| Y / tau, on O | ``duals`` |
| P, Q_p | ``rows``, ``columns[p]`` |
| g | ``coordinates`` |
"""

from numbers import Real
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from kernelquilt._typing import Bools, Floats, Kernel
from kernelquilt.completion.completer import BaseCompleter
from kernelquilt.completion.iterations import CompletionStep, History, Iterations, OnStep
from kernelquilt.completion.linalg import solve_by_pattern
from kernelquilt.completion.literature.nuclear_norm import NuclearDual

NO_THRESHOLD = 1e-8  # of the norm of what is observed: smaller values of tau make no difference


class LowRank(NamedTuple):
    """The solution X of (1) in factors, ``X[p] = rows @ columns[p].T``.

    Attributes
    ----------
    rows : ndarray of shape (n, r)
    columns : ndarray of shape (M, n, r)
        Zero for absent samples.
    tau : float
        Weight of the nuclear norm.
    history : tuple of CompletionStep
        Value of (2), and the residual on the observed entries relative to their norm.
    """

    rows: Floats
    columns: Floats
    tau: float
    history: tuple[CompletionStep, ...]


def solve_svt(
    K: Kernel,
    observed: Bools,
    *,
    tau: float | None = None,
    tol: float = 1e-4,
    max_iter: int = 2000,
    on_step: OnStep = None,
) -> LowRank:
    """Solve (1), the nuclear norm problem on the kernels side by side.

    Parameters
    ----------
    K : ndarray of shape (M, n, n)
        Entries of absent samples are not used.
    observed : ndarray of bool of shape (n, M)
        True where a kernel observes a sample.
    tau : float, default=None
        Weight of the nuclear norm. By default the norm that the whole matrix A has if the mean
        square of its observed entries is that of all.
    tol : float, default=1e-4
        Residual on the observed entries, relative to their norm.
    max_iter : int, default=2000
        Cap on the iterations, each of ten to fifty updates.
    on_step : callable, optional
        Called with the number of every iteration and its CompletionStep.

    Returns
    -------
    LowRank
        The two factors of the matrix.

    Examples
    --------
    >>> import kernelquilt as kq
    >>> stack = kq.datasets.make_toy_kernels("TOYG1", 30, random_state=0)
    >>> stack = kq.datasets.make_absent(stack, 0.3, random_state=0)
    >>> found = kq.completion.solve_svt(stack.gram(), stack.observed)
    >>> found.history[-1].distance < 1e-4
    True
    """
    present = [np.flatnonzero(column) for column in observed.T]
    known = [k[np.ix_(o, o)].astype(np.float64) for k, o in zip(K, present, strict=True)]
    norm = np.sqrt(sum(float((block**2).sum()) for block in known))
    fraction = sum(block.size for block in known) / K.size
    tau = tau or norm / np.sqrt(fraction) or 1.0
    tau = max(tau, NO_THRESHOLD * norm)
    spectra = [np.linalg.eigh(block / tau) for block in known]
    history = History(on_step)

    def record(value: float, residual: float) -> None:
        history.record(tau**2 * value, residual)

    dual = NuclearDual(spectra, present, len(observed), tol / 2)
    if fraction == 1 or norm == 0:  # X = A, which is known or 0
        rows, columns = dual.factors(dual.target, 0.0)
        values = (rows**2).sum(axis=0)
        record(float((values + 0.5 * values**2).sum()), 0.0)
    else:
        rows, columns = dual.factors(dual.maximise(tol, max_iter, record), 1.0)
    scale = np.sqrt(tau)
    return LowRank(scale * rows, scale * columns, tau, tuple(history))


class SVTFill(BaseCompleter):
    """Fill absent kernels from a low-rank approximation of all kernels side by side.

    Use it when samples that are similar in the kernels they share are similar in the others. The
    completed kernels are positive semi-definite and keep all observed entries. Kernels of larger
    entries count for more; `ScaleKernels` brings them to one scale.

    Parameters
    ----------
    tau : float or "auto", default="auto"
        Weight of the nuclear norm against half the squared norm, which is for speed and fills
        with zeros: singular values well above `tau` are not kept few. "auto" is the norm of the
        matrix of all kernels, estimated from the observed entries, which no singular value
        exceeds. Five times this, the usual choice for matrices whose entries are of size 1 and
        of which more is known, takes about twice the iterations for little gain.
    tol : float, default=1e-4
        Residual on the observed entries, relative to their norm.
    max_iter : int, default=2000
        Cap on the iterations, each of ten to fifty updates.
    verbose : int, default=0
        Whether to print the progress of the solver.

    Attributes
    ----------
    tau_ : float
        Weight of the nuclear norm that was used.
    rank_ : int
        Rank of the approximation.
    n_iter_ : int
        Number of iterations.
    converged_ : bool
        Whether `tol` was met.
    history_ : tuple of CompletionStep
        Value of the dual problem and residual, by iteration.
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
    >>> bool(kq.completion.SVTFill().fit_transform(stack).observed.all())
    True
    """

    _arrays = (6.0, 2.0)
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **Iterations.constraints,
        "tau": [Interval(Real, 0, 1e100, closed="right"), StrOptions({"auto"})],
    }
    _iterations = Iterations("relative residual", "raise max_iter or tol, or lower tau")

    def __init__(
        self,
        tau: float | str = "auto",
        *,
        tol: float = 1e-4,
        max_iter: int = 2000,
        verbose: int = 0,
    ) -> None:
        self.tau = tau
        self.tol = tol
        self.max_iter = max_iter
        self.verbose = verbose

    def _complete(self, K: Kernel, observed: Bools) -> None:
        self._check_sizes(K)
        tau = None if isinstance(self.tau, str) else self.tau
        found = solve_svt(K, observed, tau=tau, **self._iterations.options(self))
        self.tau_, self.rank_ = found.tau, found.rows.shape[1]
        self._columns = found.columns
        self._ridge = self.tol * (found.rows**2).sum(axis=0).max(initial=0.0) * np.eye(self.rank_)
        self._normal = np.array([Q.T @ Q for Q in found.columns])
        # by (3), b = mixing g
        P = [found.rows * present[:, None] for present in observed.T]
        self._mixing = np.array([np.linalg.solve(A.T @ A + self._ridge, A.T).T for A in P])
        self._mixed = np.array([k @ mix for k, mix in zip(K, self._mixing, strict=True)])
        self._training_coordinates = self._coordinates(K, observed)
        self._fill(K, observed, self._training_coordinates, None)
        self._iterations.store(self, found.history)

    def _complete_rows(self, K: Kernel, observed: Bools, diag: Floats | None) -> Floats | None:
        return self._fill(K, observed, self._coordinates(K, observed), diag)

    def _fill(
        self, K: Kernel, observed: Bools, coordinates: Floats, diag: Floats | None
    ) -> Floats | None:
        training = self._training_coordinates
        found = None if diag is None else diag.copy()
        for m, (kernel, present, columns, mixing, mixed) in enumerate(
            zip(K, observed.T, self._known_observed().T, self._mixing, self._mixed, strict=True)
        ):
            own = coordinates[~present]
            inner = own @ (mixing.T @ mixed)
            kernel[:, ~columns] = (kernel @ mixing) @ training[~columns].T
            kernel[~present] = own @ mixed.T
            kernel[np.ix_(~present, ~columns)] = inner @ training[~columns].T
            if found is not None:
                found[m, ~present] = (inner * own).sum(axis=1)
        return found

    def _coordinates(self, K: Kernel, observed: Bools) -> Floats:
        """Return the coordinates g (n_rows, r) of rows."""
        known = np.zeros((len(observed), self.rank_))
        for kernel, Q in zip(K, self._columns, strict=True):
            known += kernel @ Q
        return solve_by_pattern(self._normal, observed, known, self._ridge)
