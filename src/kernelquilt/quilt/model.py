r"""The quilt: kernels completed by transfer, two ridge experts on them, and late fusion beside.

1. Each kernel is centred and scaled to mean diagonal 1 over the training samples that have it.
2. A completer fills the absent samples: :math:`\hat K_p`, without looking at targets.
3. Expert A is a ridge regression (:mod:`kernelquilt.quilt.ridge`) on :math:`\sum_p g_p \hat K_p`,
   with equal weights or those of lp-MKL with squared loss (:mod:`kernelquilt.quilt.lp_ridge`), p of
   1, 4/3, 2 or 4, whichever has the least leave-one-out error.
4. Expert B is a ridge regression on :math:`\exp(-\gamma D / \mathrm{median}\,D)`, the Gaussian
   kernel of all views together, :math:`D_{ij} = \sum_p (\hat K_{p,ii} + \hat K_{p,jj} - 2 \hat
   K_{p,ij})`, gamma of .3 or 1 by the same error. With one view there is nothing to join, and no
   expert B.
5. Beside them a ridge regression on each kernel alone, of the samples that have it
   (:mod:`kernelquilt.quilt.late_fusion`), and, if the pattern of absence may tell the target, one
   on the share of kernels that two samples both have or both lack.

Predictions are made of the scores of A and B by one stack, of those of 5. by another, each trained
on leave-one-out scores (:mod:`kernelquilt.quilt.stacking`), and the two are averaged. A sample
without any view has scores zero.

=====================  ===========================================
symbol                 name here
=====================  ===========================================
K_p, centred           ``K[p]``
completed              ``filled[p]``
g                      ``kernel_weights``
gamma / median D       ``Joint.rate``
=====================  ===========================================
"""

import warnings
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed

from kernelquilt._typing import Bools, Floats, Numbers
from kernelquilt.data.stack import KernelStack
from kernelquilt.kernels.centring import Centring
from kernelquilt.kernels.distances import pair_median
from kernelquilt.quilt.lp_ridge import default_penalty, solve_lp_mkl_ridge
from kernelquilt.quilt.ridge import PENALTIES, FittedRidge, fit_ridge
from kernelquilt.quilt.ridge_classifier import Targets
from kernelquilt.quilt.view_ridge import ViewRidge, loo_scores

EXPONENTS = (np.inf, 1.0, 4.0 / 3.0, 2.0, 4.0)
RATES = (0.3, 1.0)
WEIGHT_STEPS, WEIGHT_GAP = 8, 1e-3  # when to stop learning weights; predictions hardly notice


class Weighted(NamedTuple):
    """Expert A: weights of the kernels with sum one, their relative gap, and the ridge."""

    kernel_weights: Floats
    gap: float
    ridge: FittedRidge


class Joint(NamedTuple):
    """Expert B: what distances are multiplied by, and the ridge."""

    rate: float
    ridge: FittedRidge


class Pattern(NamedTuple):
    """The ridge that sees only which kernels a sample has."""

    centring: Centring
    ridge: FittedRidge

    def scores(self, observed: Bools, training: Bools) -> Floats:
        """Return scores (n_rows, c) of the patterns (n_rows, M)."""
        return self.ridge.scores(self.centring.apply(_agreement(observed, training))[0])


@dataclass(frozen=True)
class Quilt:
    """A fitted quilt of n training samples and M kernels.

    Attributes
    ----------
    names : tuple of M str
        Names of the kernels.
    observed : ndarray of bool of shape (n, M)
        Which training samples have which kernel.
    completer : completer
        Fitted to the centred kernels.
    weighted : Weighted
        Expert A.
    joint : Joint or None
        Expert B, None for one kernel.
    lengths : ndarray of shape (n,)
        Squared lengths of the completed training samples, over all kernels.
    late : list of M ViewRidge
        The ridges of single kernels, which also know how the kernels are centred.
    pattern : Pattern or None
        The ridge of the pattern of absence.
    """

    names: tuple[str, ...]
    observed: Bools
    completer: Any
    weighted: Weighted
    joint: Joint | None
    lengths: Floats
    late: list[ViewRidge]
    pattern: Pattern | None

    @property
    def early_loo(self) -> Floats:
        """Leave-one-out scores of the experts on completed kernels, shape (1 or 2, n, c)."""
        experts = [self.weighted.ridge] + ([] if self.joint is None else [self.joint.ridge])
        return np.array([ridge.fit.loo for ridge in experts])

    @property
    def late_loo(self) -> Floats:
        """Leave-one-out scores of the ridges beside, zero where absent, (M or M + 1, n, c)."""
        having = [view.rows for view in self.late]
        loo = loo_scores(self.late, having, *self.weighted.ridge.fit.loo.shape)
        return loo if self.pattern is None else np.array([*loo, self.pattern.ridge.fit.loo])

    @property
    def n_late(self) -> int:
        """Number of ridges beside the experts on completed kernels."""
        return len(self.late) + (self.pattern is not None)

    def scores(self, K: Floats, observed: Bools, diag: Floats) -> tuple[Floats, Floats]:
        """Return the scores of new samples.

        Parameters
        ----------
        K : ndarray of shape (M, n_rows, n)
            Kernels with the training samples as they were given, zero where absent.
        observed : ndarray of bool of shape (n_rows, M)
        diag : ndarray of shape (M, n_rows)
            Similarity of each sample with itself.

        Returns
        -------
        early : ndarray of shape (1 or 2, n_rows, c)
            Scores of the experts on completed kernels.
        late : ndarray of shape (M, n_rows, c), or (M + 1, n_rows, c)
            Scores of the ridges of single kernels, and of that of the pattern.
        """
        n_outputs = self.weighted.ridge.coef.shape[1]
        late = np.zeros((self.n_late, len(observed), n_outputs))
        rows, own = np.zeros(K.shape), np.zeros(diag.shape)
        for p, view in enumerate(self.late):
            having = np.flatnonzero(observed[:, p])
            if len(having) == 0:
                continue
            block = np.ix_(having, view.rows)
            rows[p][block], own[p, having] = view.centring.apply(K[p][block], diag[p][having])
            late[p, having] = view.ridge.scores(rows[p][block])
        early = np.zeros((1 if self.joint is None else 2, len(observed), n_outputs))
        some = np.flatnonzero(observed.any(axis=1))
        if self.pattern is not None:
            late[-1, some] = self.pattern.scores(observed[some], self.observed)
        if len(some):
            early[:, some] = self._early(rows[:, some], observed[some], own[:, some])
        return early, late

    def _early(self, K: Floats, observed: Bools, diag: Floats) -> Floats:
        """Return the scores (1 or 2, n_rows, c) of samples that have a kernel."""
        stack = KernelStack._computed(K, observed, self.names, square=False, diag=diag)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            completed = self.completer.transform(stack)
        filled, own = completed.gram(), completed.diag
        combined = np.tensordot(self.weighted.kernel_weights, filled, axes=1)
        scores = [self.weighted.ridge.scores(combined)]
        if self.joint is not None:
            D = np.add.outer(own.sum(axis=0), self.lengths) - 2.0 * filled.sum(axis=0)
            kernel = np.exp(-self.joint.rate * np.maximum(D, 0.0))
            scores.append(self.joint.ridge.scores(kernel))
        return np.array(scores)


def fit_quilt(
    K: Numbers,
    observed: Bools,
    targets: Targets,
    *,
    names: tuple[str, ...],
    completer: Any,
    pattern: bool = False,
    n_jobs: int | None = None,
) -> Quilt:
    """Fit a quilt (see the module docstring).

    Parameters
    ----------
    K : ndarray of shape (M, n, n)
        Kernels, zero where absent.
    observed : ndarray of bool of shape (n, M)
        With a kernel for every sample and at least 3 samples for every kernel.
    targets : Targets of n samples
        With positive weights.
    names : tuple of M str
        Names of the kernels.
    completer : completer
        Unfitted; fills centred kernels.
    pattern : bool, default=False
        Whether to fit a ridge to the pattern of absence.
    n_jobs : int or None, default=None
        Threads over the ridges.

    Returns
    -------
    Quilt
    """
    centred, centrings = np.zeros(K.shape), []
    blocks = [np.ix_(*2 * [np.flatnonzero(present)]) for present in observed.T]
    for kernel, block, out in zip(K, blocks, centred, strict=True):
        rows = block[1][0]
        everyone = np.ones(len(rows), dtype=bool)
        centrings.append(Centring.of(kernel[block], everyone, targets.copies[rows]))
        out[block] = centrings[-1].apply(kernel[block])[0]
    stack = KernelStack._computed(centred, observed, names, square=True, checked=True)
    with warnings.catch_warnings():
        # where nothing can be transferred, samples get the mean, as they should here
        warnings.simplefilter("ignore", UserWarning)
        filled = completer.fit_transform(stack).gram()
    tasks = [
        delayed(_fit_ridge)(kernel[block], targets.part(block[1][0]))
        for kernel, block in zip(centred, blocks, strict=True)
    ]
    exponents = EXPONENTS if len(K) > 1 else EXPONENTS[:1]
    tasks += [delayed(_fit_weighted)(filled, targets, p) for p in exponents]
    lengths = np.einsum("pii->i", filled)
    if len(K) > 1:
        D = np.add.outer(lengths, lengths) - 2.0 * filled.sum(axis=0)
        D = np.maximum(D, 0.0)
        median = pair_median(D, targets.copies)
        tasks += [delayed(_fit_joint)(D, rate / median, targets) for rate in RATES]
    done = Parallel(n_jobs, prefer="threads")(tasks)
    late, weighted, joint = np.split(
        np.fromiter(done, dtype=object), [len(K), len(K) + len(exponents)]
    )

    def best(experts: Any) -> Any:
        return min(experts, key=lambda expert: expert.ridge.fit.error, default=None)

    return Quilt(
        names,
        observed,
        completer,
        best(weighted),
        best(joint),
        lengths,
        [ViewRidge(*each) for each in zip([b[1][0] for b in blocks], centrings, late, strict=True)],
        _fit_pattern(observed, targets) if pattern else None,
    )


def _fit_ridge(kernel: Floats, targets: Targets, lams: Floats = PENALTIES) -> FittedRidge:
    return fit_ridge(
        kernel, targets.Y, lams, sample_weight=targets.weight, held_out=targets.held_out
    )


def _agreement(observed: Bools, training: Bools) -> Floats:
    """Return the share of kernels that two samples both have or both lack, (n_rows, n)."""
    rows, columns = observed.astype(np.float64), training.astype(np.float64)
    both = rows @ columns.T + (1.0 - rows) @ (1.0 - columns.T)
    return np.asarray(both / observed.shape[1])


def _fit_pattern(observed: Bools, targets: Targets) -> Pattern:
    kernel = _agreement(observed, observed)
    centring = Centring.of(kernel, np.ones(len(kernel), dtype=bool), targets.copies)
    return Pattern(centring, _fit_ridge(centring.apply(kernel)[0], targets))


def _fit_weighted(filled: Floats, targets: Targets, p: float) -> Weighted:
    """Fit expert A with the exponent p."""
    weights, gap = np.full(len(filled), 1.0 / len(filled)), 0.0
    if p < np.inf:
        solution = solve_lp_mkl_ridge(
            filled,
            _independent(targets.Y),
            p=p,
            lam=default_penalty(p, len(filled)),
            sample_weight=targets.weight,
            tol=WEIGHT_GAP,
            max_iter=WEIGHT_STEPS,
            method="alternating",
        )
        weights, gap = solution.weights / solution.weights.sum(), solution.relative_gap
    kernel = np.tensordot(weights, filled, axes=1)
    return Weighted(weights, gap, _fit_ridge(kernel, targets))


def _independent(Y: Floats) -> Floats:
    """Return targets (n, c) without the first of two classes, which is minus the other."""
    two_classes = Y.shape[1] == 2 and bool((Y[:, 0] == -Y[:, 1]).all())
    return Y[:, 1:] if two_classes else Y


def _fit_joint(D: Floats, rate: float, targets: Targets) -> Joint:
    """Fit expert B at one rate."""
    return Joint(rate, _fit_ridge(np.exp(-rate * D), targets, PENALTIES[::2]))
