"""Filling absent samples by ridge regression from the kernels that they have.

With I_p the samples that have kernel p and J = I_p & I_l, a sample t that lacks p gets the features

    phi_p(t) = sum_{i in I_p} a_ti phi_p(x_i),
    a_t = sum_l om_pl (K_l[J, J] + c 11' + eps I)^-1 (K_l[J, t] + c) / sum_l om_pl,    (1)

summed over the kernels l that t has and that share samples with p. The constant c makes room for a
mean; without it and far from all samples, features shrink to zero. Weights om_pl are 1, or tell
how well l predicts p: with R the inverse in (1), E = diag(R)^-1 R and

    r_pl = sum_i (E K_p[J, J] E')_ii / sum_i K_p[J, J]_ii,    R2_pl = 1 - r_pl,    (2)

the share of p that leave-one-out predictions from l explain, om_pl = r2 / (1 - r2) where r2 is
R2_pl between .001 and .99, for |J| >= 5.

A further pass takes all completed kernels Kh into account. With

    Q_p = sum_{l != p} om_pl Kh_l / sum_{l != p} om_pl,    divided by its mean diagonal on I_p,

    a_t = (Q_p[I, I] + c 11' + eps_p I)^-1 (Q_p[I, t] + c),    I = I_p,    (3)

where eps_p from {.01, .03, .1, .3, 1} has the least leave-one-out error (2). Kernels are taken in
units of their mean diagonal on I_p, so that eps and c do not depend on their scale.

If a kernel has diagonal 1, what (1) leaves of it goes into a direction of the sample's own (see
`kernelquilt.completion.combination`). Where nothing serves for (1), a sample gets the mean of I_p.

| symbol | code |
|---|---|
| K_p, I_p | ``K[p]``, ``observed[:, p]`` |
| inverse on all of I_l | ``sources[l].inverse``; those on J follow from it |
| R2_pl, om_pl | ``scores[p, l]``, ``weights[p, l]`` |
| a | ``coef``, one row for each absent sample |
"""

from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from kernelquilt._typing import Bools, Floats, Kernel
from kernelquilt.completion.combination import combine, combine_rows
from kernelquilt.completion.completer import BaseCompleter, warn_means
from kernelquilt.completion.scaled_kernels import UNIT_DIAGONAL, ScaledKernels
from kernelquilt.completion.transfer_regression import Refinement, solve_transfer

__all__ = ["TransferFill", "solve_transfer"]


class TransferFill(BaseCompleter):
    """Predict absent samples by ridge regression from the kernels that they have.

    In closed form, without anything to tune that matters much, and a strong baseline: use it where
    `WishartCompletion` is too slow, or followed by a classifier, to which the better
    completion makes little difference. The output is positive semi-definite, keeps all observed
    entries, and has unit diagonal where the input has.

    ``TransferFill(weighting="loo", n_passes=2, constant=0)`` is for centred kernels: kernels
    that predict better count for more, and a second pass regresses on all kernels together.

    Parameters
    ----------
    eps : float, default=0.1
        Ridge, in units of the mean diagonal of each kernel.
    weighting : {"uniform", "loo"}, default="uniform"
        Whether all kernels of a sample count equally, or by the share of the absent kernel that
        they explain when samples are left out; pairs of kernels with less than 5 samples in
        common do not count then.
    n_passes : int, default=1
        Passes after the first regress on the completed kernels of the one before, with a ridge
        chosen by leave-one-out error. More than 2 do not pay.
    constant : float, default=1.0
        Weight of a constant kernel in the regression, in units of the mean diagonal of each
        kernel. 0 for centred kernels.
    unit_diagonal : {"auto", True, False}, default="auto"
        Whether completed samples have similarity 1 with themselves: "auto" in kernels in which
        observed samples have. True is an error if there is another kernel.

    Attributes
    ----------
    transfer_ : ndarray of shape (M, M)
        Only with ``weighting="loo"``: in row p and column l the share of kernel p that is
        explained by kernel l, negative if it predicts worse than zero, nan if it cannot be told.
    transfer_weights_ : ndarray of shape (M, M)
        What multiplies the predictions from kernel l of kernel p, before they are averaged over
        the kernels that a sample has.
    eps_ : ndarray of shape (n_passes, M)
        Ridge of every pass and kernel, nan for kernels that no other predicts.
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
    >>> bool(kq.TransferFill().fit_transform(stack).observed.all())
    True
    """

    _arrays = (3.0, 2.0)
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **UNIT_DIAGONAL,
        "eps": [Interval(Real, 0, np.inf, closed="neither")],
        "weighting": [StrOptions({"uniform", "loo"})],
        "n_passes": [Interval(Integral, 1, None, closed="left")],
        "constant": [Interval(Real, 0, np.inf, closed="left")],
    }

    def __init__(
        self,
        eps: float = 0.1,
        *,
        weighting: str = "uniform",
        n_passes: int = 1,
        constant: float = 1.0,
        unit_diagonal: bool | str = "auto",
    ) -> None:
        self.eps = eps
        self.weighting = weighting
        self.n_passes = n_passes
        self.constant = constant
        self.unit_diagonal = unit_diagonal

    def _complete(self, K: Kernel, observed: Bools) -> None:
        self._warn_few(observed)
        names = self._kernel_names()
        # in closed form training samples come out as they were, but for the rest of a diagonal of 1
        scaled = ScaledKernels.of(K, observed, self.unit_diagonal, names, keyed=False)
        Z, unit, keys = scaled.kernels, scaled.unit, scaled.keys
        self._transfer = solve_transfer(
            Z, observed, eps=self.eps, constant=self.constant, weighting=self.weighting
        )
        coefs = self._first_coefficients(Z, observed, "training samples")
        self._passes = [combine(Z, observed, coefs, unit, keys)]
        self._refinements: list[list[Refinement | None]] = []
        for _ in range(1, self.n_passes):
            found = [
                Refinement.of(Z, present, weights / weights.sum(), p, self.constant)
                if weights.any()
                else None
                for p, (weights, present) in enumerate(
                    zip(self._transfer.weights, observed.T, strict=True)
                )
            ]
            coefs = self._refined_coefficients(Z, observed, found, coefs)
            self._refinements.append(found)
            self._passes.append(combine(Z, observed, coefs, unit, keys))
        scaled.write(K)
        self._scaled = scaled
        self._store()

    def _complete_rows(self, K: Kernel, observed: Bools, diag: Floats | None) -> Floats | None:
        return self._scaled.complete_rows(K, observed, diag, self._complete_scaled)

    def _complete_scaled(self, Z: Floats, rows: Floats, observed: Bools, own: Floats) -> None:
        coefs = self._first_coefficients(rows, observed, "samples")
        combine_rows(self._passes[0], Z, rows, observed, own, coefs)
        for found, combinations in zip(self._refinements, self._passes[1:], strict=True):
            coefs = self._refined_coefficients(rows, observed, found, coefs)
            combine_rows(combinations, Z, rows, observed, own, coefs)

    def _first_coefficients(self, K: Kernel, observed: Bools, what: str) -> list[Floats]:
        """Return (1) for all kernels, and warn about samples that it does not serve."""
        coefs, unserved = [], {}
        for p, name in enumerate(self._kernel_names()):
            coef, served = self._transfer.coefficients(K, observed, p)
            coefs.append(coef)
            unserved[name] = int((~served).sum())
        why = "have none that shares enough training samples with it"
        warn_means(unserved, len(observed), what, why)
        return coefs

    def _refined_coefficients(
        self, K: Kernel, observed: Bools, refinements: list[Refinement | None], before: list[Floats]
    ) -> list[Floats]:
        """Return (3) for all kernels; those that nothing predicts keep what they had."""
        return [
            coef if found is None else found.coefficients(K, ~observed[:, p], source.present)
            for p, (found, source, coef) in enumerate(
                zip(refinements, self._transfer.sources, before, strict=True)
            )
        ]

    def _store(self) -> None:
        """Keep what is public, with kernels that no sample has."""
        self.transfer_weights_ = self._of_all_kernels(self._transfer.weights)
        if self._transfer.scores is not None:
            self.transfer_ = self._of_all_kernels(self._transfer.scores, np.nan)
        seen = np.asarray(self.training_rows_.observed.any(axis=0))
        self.eps_ = np.full((self.n_passes, len(seen)), np.nan)
        predicted = self._transfer.weights.any(axis=1)
        self.eps_[0, seen] = np.where(predicted, self.eps, np.nan)
        for row, found in zip(self.eps_[1:], self._refinements, strict=True):
            row[seen] = [np.nan if each is None else each.eps for each in found]
