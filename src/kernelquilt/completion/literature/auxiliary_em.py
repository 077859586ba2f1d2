"""Kernel completion from the eigenvectors of a complete kernel, by EM.

Let kernel a be known for all samples, with eigenvectors v_1, ..., v_n. A kernel K of which the
samples v are known is modelled by the covariance

    C = sum_j b_j v_j v_j',    b_j >= b_min,    (1)

and b is found by EM, which never increases tr(C_vv^-1 K_vv) + log det C_vv:

    E:  completion of K by regression (see `kernelquilt.completion.combination`, with D = I),
    M:  b_j = v_j' Kh v_j.    (2)

Tsuda, Akaho and Asai, "The em algorithm for kernel matrix completion with auxiliary data", JMLR
2003. Two things are ours: the floor b_min, without which singular kernels end the iteration, and
one b, the mean of (2), for all eigenvectors whose eigenvalue is negligible, which are arbitrary
otherwise. A new sample x gets coordinates u_j = k_a(x, .) v_j / l_j for the other eigenvalues l_j,
and C(x, .) = sum_j b_j u_j v_j'.

| symbol | code |
|---|---|
| v_j, l_j | ``vectors[:, j]``, ``values[j]`` |
| b, b_min | ``spectrum``, ``_LEAST`` |
| u | ``coordinates`` |
"""

from numbers import Integral
from typing import Any, ClassVar, NamedTuple

import numpy as np
import scipy.linalg
from sklearn.utils._param_validation import Interval

from kernelquilt._messages import quoted
from kernelquilt._typing import Bools, Floats, Kernel
from kernelquilt.completion.combination import Combination
from kernelquilt.completion.completer import BaseCompleter, warn_means
from kernelquilt.completion.iterations import CompletionStep, History, Iterations, OnStep
from kernelquilt.completion.linalg import block
from kernelquilt.completion.scaled_kernels import UNIT_DIAGONAL, ScaledKernels

_LEAST = 1e-6
_NEGLIGIBLE = 1e-8  # eigenvalues of the auxiliary kernel, relative to the largest


class Spectrum(NamedTuple):
    """The model (1), and how it was found.

    Attributes
    ----------
    spectrum : ndarray of shape (n,)
    factor : ndarray of shape (n_v, n_v)
        Lower Cholesky factor of C_vv.
    coef : ndarray of shape (n_h, n_v)
        C_hv C_vv^-1.
    residual : ndarray of shape (n_h, n_h)
    history : tuple of CompletionStep
        Objective divided by n_v, and its decrease relative to its size.
    """

    spectrum: Floats
    factor: Floats
    coef: Floats
    residual: Floats
    history: tuple[CompletionStep, ...]


def solve_auxiliary_em(
    K: Kernel,
    present: Bools,
    values: Floats,
    vectors: Floats,
    *,
    tol: float = 1e-4,
    max_iter: int = 500,
    on_step: OnStep = None,
) -> Spectrum:
    """Fit (1) to what is known of a kernel of mean diagonal 1.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        Entries of absent samples are not used.
    present : ndarray of bool of shape (n,)
        True for the samples that have the kernel.
    values : ndarray of shape (n,)
        The eigenvalues of the auxiliary kernel, in ascending order; where to start.
    vectors : ndarray of shape (n, n)
        Its eigenvectors.
    tol : float, default=1e-4
        Decrease of the objective by an iteration, relative to its size, at which to stop.
    max_iter : int, default=500
        Cap on the iterations.
    on_step : callable, optional
        Called with the number of every iteration and its CompletionStep.

    Returns
    -------
    Spectrum
        The fitted spectrum, and what new samples need.

    Examples
    --------
    >>> import numpy as np
    >>> import kernelquilt as kq
    >>> K = kq.datasets.make_toy_kernels("TOYG1", 30, random_state=0).gram()
    >>> values, vectors = np.linalg.eigh(K[1])
    >>> spectrum = kq.completion.solve_auxiliary_em(K[0], np.arange(30) < 20, values, vectors)
    >>> spectrum.history[-1].distance < 1e-4
    True
    """
    v, h = present, ~present
    known = block(K, v, v).astype(np.float64)
    negligible = values <= _NEGLIGIBLE * values[-1]
    b = np.maximum(np.where(negligible, 0.0, values), _LEAST)
    history, value = History(on_step), np.inf
    while True:
        before = value
        C = (vectors * b) @ vectors.T
        factor = np.asarray(np.linalg.cholesky(block(C, v, v)), dtype=np.float64)
        to_absent = block(C, v, h)
        coef = scipy.linalg.cho_solve((factor, True), to_absent, check_finite=False).T
        residual = block(C, h, h) - coef @ to_absent
        explained = np.trace(scipy.linalg.cho_solve((factor, True), known, check_finite=False))
        value = float(explained + 2 * np.log(factor.diagonal()).sum()) / len(known)
        change = (before - value) / max(abs(value), 1.0)
        if np.isfinite(before):
            history.record(value, change)
            if change <= tol or len(history) >= max_iter:
                return Spectrum(b, factor, coef, residual, tuple(history))
        projected = vectors[v] + coef.T @ vectors[h]
        b = (projected * (known @ projected)).sum(axis=0)
        b += (vectors[h] * (residual @ vectors[h])).sum(axis=0)
        b[negligible] = b[negligible].mean() if negligible.any() else 0.0
        b = np.maximum(b, _LEAST)


class AuxiliaryEMCompletion(BaseCompleter):
    """Complete kernels from the eigenvectors of one that every sample has.

    Use it to compare with the literature, or where one kernel is complete and the others
    resemble it. The output is positive semi-definite, keeps all observed entries, and has unit
    diagonal where the input has.

    Parameters
    ----------
    auxiliary : str, int or "auto", default="auto"
        Name or number of a kernel that all training samples have. "auto" takes for each kernel the
        complete one under which it is most likely.
    unit_diagonal : {"auto", True, False}, default="auto"
        Whether completed samples have similarity 1 with themselves: "auto" in kernels in which
        observed samples have. True is an error if there is another kernel.
    tol : float, default=1e-4
        Decrease of the negative log likelihood by an iteration, relative to its size, at which
        to stop.
    max_iter : int, default=500
        Cap on the iterations for each kernel.
    verbose : int, default=0
        Whether to print the progress of the solver.

    Attributes
    ----------
    auxiliary_ : dict of str to str
        The auxiliary kernel of every kernel that has one.
    history_ : tuple of CompletionStep
        Negative log likelihood and its relative decrease, by iteration, for the kernel that took
        most iterations.
    n_iter_ : int
        Number of these.
    converged_ : bool
        Whether `tol` was met.
    training_rows_ : TrainingRows
        The training samples.
    n_features_in_ : int
        Number of kernels.

    Examples
    --------
    >>> import kernelquilt as kq
    >>> X, y = kq.datasets.load_example("wdbc")
    >>> stack = kq.ViewKernels().fit_transform(X)[:60]
    >>> absent = kq.datasets.make_absent(stack, 0.3, random_state=0).observed
    >>> absent[:, 0] = True
    >>> stack = kq.KernelStack(stack.gram(), absent, names=stack.names)
    >>> bool(kq.completion.AuxiliaryEMCompletion().fit_transform(stack).observed.all())
    True
    """

    _arrays = (3.0, 6.0)
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **Iterations.constraints,
        **UNIT_DIAGONAL,
        "auxiliary": [str, Interval(Integral, 0, None, closed="left")],
    }
    _iterations = Iterations("relative decrease of the objective")

    def __init__(
        self,
        auxiliary: str | int = "auto",
        *,
        unit_diagonal: bool | str = "auto",
        tol: float = 1e-4,
        max_iter: int = 500,
        verbose: int = 0,
    ) -> None:
        self.auxiliary = auxiliary
        self.unit_diagonal = unit_diagonal
        self.tol = tol
        self.max_iter = max_iter
        self.verbose = verbose

    def _complete(self, K: Kernel, observed: Bools) -> None:
        self._warn_little_known(observed)
        names = self._kernel_names()
        self._scaled = scaled = ScaledKernels.of(K, observed, self.unit_diagonal, names)
        Z, options = scaled.kernels, self._iterations.options(self)
        candidates = self._candidates(observed, names)
        self._spectra = {a: scipy.linalg.eigh(Z[a]) for a in candidates}
        self._models: list[tuple[int, Spectrum] | None] = []
        self._combinations = []
        for m, (kernel, present) in enumerate(zip(Z, observed.T, strict=True)):
            found = [
                (a, solve_auxiliary_em(kernel, present, *self._spectra[a], **options))
                for a in candidates
                if a != m
            ]
            # a kernel without another is complete itself
            coef, R = np.empty((0, len(kernel))), np.empty((0, 0))
            best = min(found, key=lambda each: each[1].history[-1].objective) if found else None
            if best is not None:
                coef, R = best[1].coef, best[1].residual
            self._models.append(best)
            one, keys = bool(scaled.unit[m]), scaled.keys
            done = Combination.complete(kernel, present, coef, one, keys, R, _LEAST)
            self._combinations.append(done)
        scaled.write(K)
        used = [(name, *best) for name, best in zip(names, self._models, strict=True) if best]
        self.auxiliary_ = {name: names[a] for name, a, _ in used}
        longest = max((model.history for *_, model in used), key=len, default=())
        self._iterations.store(self, longest or (CompletionStep(0.0, 0.0),))

    def _complete_rows(self, K: Kernel, observed: Bools, diag: Floats | None) -> Floats | None:
        return self._scaled.complete_rows(K, observed, diag, self._complete_scaled)

    def _complete_scaled(self, Z: Floats, rows: Floats, observed: Bools, own: Floats) -> None:
        coordinates = {}
        for a, (values, vectors) in self._spectra.items():
            kept = values > _NEGLIGIBLE * values[-1]
            coordinates[a] = np.zeros(rows.shape[1:])
            coordinates[a][:, kept] = (rows[a] @ vectors[:, kept]) / values[kept]
        means = {}
        for m, (name, model, done) in enumerate(
            zip(self._kernel_names(), self._models, self._combinations, strict=True)
        ):
            v, absent = done.present, ~observed[:, m]
            # the mean, for those that lack the auxiliary kernel too
            x = np.full((absent.sum(), v.sum()), 1 / v.sum())
            R, left = np.zeros((len(x), (~v).sum())), np.full(len(x), _LEAST)
            having = np.zeros(len(x), dtype=bool) if model is None else observed[absent, model[0]]
            means[name] = int((~having).sum())
            if model is not None and having.any():
                a, found = model
                u, (_, vectors) = coordinates[a][absent][having], self._spectra[a]
                C = (u * found.spectrum) @ vectors.T
                total = (u**2 * found.spectrum).sum(axis=1) + _LEAST
                x[having], R[having], left[having] = done.regressed(found.factor, C, total, _LEAST)
            known = block(Z[m], v, v)
            own[m, absent] = done.complete_rows(rows[m], known, ~absent, x, R, left)
        warn_means(means, len(observed), "samples", "the kernel auxiliary to it")

    def _candidates(self, observed: Bools, names: list[str]) -> list[int]:
        """Return the kernels that may be auxiliary, or raise."""
        complete = [m for m, present in enumerate(observed.T) if present.all()]
        advice = "use WishartCompletion or TransferFill, which need no complete kernel"
        if self.auxiliary == "auto":
            if not complete:
                raise ValueError(
                    f"no kernel is complete: each of {quoted(names)} is absent for some of the "
                    f"{len(observed)} training samples; {advice}"
                )
            return complete
        everything = list(self.training_rows_.names)
        named: dict[str | int, str] = {**dict(enumerate(everything)), **{n: n for n in everything}}
        if self.auxiliary not in named:
            raise ValueError(
                f"auxiliary={self.auxiliary!r} is none of the {len(everything)} kernels "
                f"{quoted(everything)}"
            )
        name = named[self.auxiliary]
        if name not in [names[m] for m in complete]:
            having = observed[:, names.index(name)].sum() if name in names else 0
            raise ValueError(
                f"the auxiliary kernel {name!r} is absent for {len(observed) - having} of "
                f"{len(observed)} training samples; name a complete one, or {advice}"
            )
        return [names.index(name)]
