r"""Generalisation bounds as numbers: diagnostics, not guarantees for a fitted model.

Take functions :math:`h(x) = \sum_m \langle w_m, \phi_m(x) \rangle` whose block norm
:math:`(\sum_m \|w_m\|^p)^{1/p}` is at most D. Their global Rademacher complexity on n samples is at
most, for every :math:`t \ge p` [1]_,

.. math:: D\, t^* \sqrt{\tfrac{e}{n} \bigl\| (\operatorname{tr} J_m)_m \bigr\|_{t^*/2}}
          + \frac{\sqrt{B e}\, D\, M^{1/t^*} t^*}{n},

where :math:`t^* = t / (t - 1)`, ``tr J_m`` is the mean of :math:`k_m(x, x)` and B its largest
value. A fitted model has been chosen after seeing the data, so putting its norm for D is heuristic,
and the numbers are usually far above 1. They show how the complexity grows with the number of
kernels and the exponent, and that is all they should be used for.

For weights with :math:`\|\beta \beta'\|_{r,p} = \|\beta\|_r \|\beta\|_p \le 1` the norm with the
larger exponent :math:`t_2` is at most 1, and with the smaller one, :math:`t_1`, it is at most
:math:`M^{1/(2 t_1) - 1/(2 t_2)}`. The complexity is therefore at most

.. math:: \min\bigl( M^{(1/t_1 - 1/t_2) / 4} \, R(H^{t_1}), \; R(H^{t_2}) \bigr) .

The factor printed in Theorem 2 of [2]_ is the inverse of this one, and the claim that the (r, p)
bound is lower than both others does not hold.

With absent kernels, for functions with
:math:`\tfrac12 \sum_p \|w_p\|^2 / \gamma_p \le \mu` for weights :math:`\gamma` of the simplex,
kernels with :math:`k_p(x, x) \le B`, and :math:`n_p` samples that have kernel p, the error exceeds
the share of training samples with a margin :math:`y f(x) \le \rho`, with probability at least
:math:`1 - 3 \delta`, by no more than [3]_

.. math:: \frac{2 \sqrt{2 \mu B}}{n \rho} \max_p \sqrt{n_p} + 3 \sqrt{\frac{\ln (1 / \delta)}{2 n}}
          + \frac{16}{\rho} \sqrt{\frac{\mu B \ln ((M + 1) / \delta)}{n}} . \qquad (36)

References
----------
.. [1] M. Kloft and G. Blanchard, "The local Rademacher complexity of lp-norm multiple kernel
   learning", NIPS 2011.
.. [2] Han et al., "Matrix-regularized multiple kernel learning via (r, p) norms", IEEE Transactions
   on Neural Networks and Learning Systems, 2018, Eqs. (29)-(37).
.. [3] X. Liu et al., "Absent multiple kernel learning algorithms", IEEE TPAMI 42(6), 2020,
   Theorem 2.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from kernelquilt._typing import Floats, Indices
from kernelquilt.data.stack import as_stack
from kernelquilt.kernels.factor_input import FactorInput
from kernelquilt.mkl.fitting import BaseMKLClassifier

__all__ = ["AbsentBound", "RademacherBound", "absent_mkl_bound", "lp_mkl_bound", "rp_mkl_bound"]

EXPONENTS = np.concatenate([1.0 + np.logspace(-3, 0, 61), np.linspace(2.0, 10.0, 33)[1:]])


@dataclass(frozen=True)
class RademacherBound:
    """Upper bound of a Rademacher complexity, and its parts.

    Attributes
    ----------
    value : float
        The bound, ``factor * (main + remainder)``.
    main, remainder : float
        The two terms, of order ``n^-1/2`` and ``n^-1``.
    factor : float
        Factor by which the class differs from the one the terms are for.
    exponent : float
        The t at which the bound is smallest.

    Examples
    --------
    >>> import kernelquilt as kq
    >>> X, y = kq.datasets.load_example("wdbc")
    >>> bound = kq.bounds.lp_mkl_bound(kq.ViewKernels().fit_transform(X[::10]), p=2)
    >>> abs(bound.value - bound.factor * (bound.main + bound.remainder)) < 1e-12
    True
    """

    value: float
    main: float
    remainder: float
    factor: float
    exponent: float


def lp_mkl_bound(kernels: Any, *, p: float, radius: float = 1.0) -> RademacherBound:
    """Bound the Rademacher complexity of lp-norm MKL (see the module docstring).

    Parameters
    ----------
    kernels : KernelStack, or array-like of shape (n, n, M)
        Kernels of the sample; absent entries count as zero.
    p : float
        Exponent of the block norm, at least 1.
    radius : float, default=1.0
        Bound D of the block norm.

    Returns
    -------
    RademacherBound
        The bound and its parts.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelquilt.bounds import lp_mkl_bound
    >>> few, many = (lp_mkl_bound(np.ones((100, 100, M)), p=1.0).value for M in (10, 1000))
    >>> few < many
    True
    """
    _check(p=p, radius=radius)
    stack = as_stack(kernels)
    diagonal = np.where(stack.observed.T, np.asarray(stack.diag, dtype=np.float64), 0.0)
    M, n = diagonal.shape
    traces = diagonal.mean(axis=1)
    largest = float(diagonal.max())
    best: RademacherBound | None = None
    for t in [p, *EXPONENTS[p < EXPONENTS]]:
        if t == 1.0:
            continue
        conjugate = t / (t - 1.0)
        main = radius * conjugate * np.sqrt(np.e / n * _norm(traces, conjugate / 2.0))
        remainder = np.sqrt(largest * np.e) * radius * M ** (1.0 / conjugate) * conjugate / n
        value = float(main + remainder)
        if best is None or value < best.value:
            best = RademacherBound(value, float(main), float(remainder), 1.0, float(t))
    assert best is not None
    return best


def rp_mkl_bound(kernels: Any, *, r: float, p: float, radius: float = 1.0) -> RademacherBound:
    """Bound the Rademacher complexity of (r, p)-norm MKL, with the factor corrected.

    Parameters
    ----------
    kernels : KernelStack, or array-like of shape (n, n, M)
        Kernels of the sample; absent entries count as zero.
    r, p : float
        Exponents, at least 1; the bound is symmetric in them.
    radius : float, default=1.0
        Bound D of the block norms.

    Returns
    -------
    RademacherBound
        The bound and its parts.

    Examples
    --------
    >>> import kernelquilt as kq
    >>> X, y = kq.datasets.load_example("wdbc")
    >>> stack = kq.ViewKernels().fit_transform(X[::10])
    >>> round(kq.bounds.rp_mkl_bound(stack, r=2, p=4).value, 2)
    0.74
    """
    _check(r=r, p=p, radius=radius)
    low, high = min(r, p), max(r, p)
    M = as_stack(kernels).shape[1]
    factor = float(M ** ((1.0 / low - 1.0 / high) / 4.0))
    inner = lp_mkl_bound(kernels, p=low, radius=radius)
    outer = lp_mkl_bound(kernels, p=high, radius=radius)
    if outer.value <= factor * inner.value:
        return outer
    return RademacherBound(
        factor * inner.value, inner.main, inner.remainder, factor, inner.exponent
    )


@dataclass(frozen=True)
class AbsentBound:
    """Upper bound of the error of a classifier of absent kernels, and its parts.

    Attributes
    ----------
    value : float
        The bound, the sum of the four parts; above 1 it says nothing.
    margin_error : float
        Share of the training samples with a margin of at most rho.
    complexity, confidence, remainder : float
        The three terms of (36).
    mu : float
        Half the squared sum of the norms, the smallest that the fitted functions allow.
    largest : float
        Largest k(x, x) of an observed training sample, B.

    Examples
    --------
    >>> from kernelquilt.bounds import AbsentBound
    >>> bound = AbsentBound(0.45, 0.1, 0.2, 0.1, 0.05, mu=1.0, largest=1.0)
    >>> round(bound.value - bound.margin_error, 2)
    0.35
    """

    value: float
    margin_error: float
    complexity: float
    confidence: float
    remainder: float
    mu: float
    largest: float


def absent_mkl_bound(
    model: Any, X: Any, y: Any, *, rho: float = 1.0, delta: float = 0.05
) -> AbsentBound:
    """Bound the error of a fitted classifier with absent kernels by (36), as a diagnostic.

    The theorem knows no intercept, which the scores here have, and asks for a mu that does not
    depend on the sample. The number is usually far above 1.

    Parameters
    ----------
    model : fitted binary classifier of this package
        One whose score is a weighted sum of kernels, the same for all samples.
    X : array-like, DataFrame, MultiView or KernelStack
        The training samples, in their order.
    y : array-like of shape (n,)
        Their labels.
    rho : float, default=1.0
        Margin.
    delta : float, default=0.05
        The bound holds with probability ``1 - 3 delta``.

    Returns
    -------
    AbsentBound
        The bound and its parts.

    Examples
    --------
    >>> import kernelquilt as kq
    >>> X, y = kq.datasets.make_multiview(100, 3, random_state=0)
    >>> X = kq.datasets.make_absent(X, 0.5, random_state=0)
    >>> model = kq.ConvexAbsentMKLClassifier().fit(X, y)
    >>> bound = kq.bounds.absent_mkl_bound(model, X, y, rho=1.0, delta=0.05)
    >>> bound.value > 1
    True
    """
    if not (0.0 < rho < np.inf and 0.0 < delta < 1.0 / 3.0):
        raise ValueError(
            f"rho must be positive and delta between 0 and 1/3, got rho={rho} and delta={delta}"
        )
    if not isinstance(model, BaseMKLClassifier):
        raise ValueError(
            f"the bound is for a classifier of this package, got {type(model).__name__}; of a "
            "pipeline give the last step, and what the steps before make of X"
        )
    check_is_fitted(model)
    if len(model.classes_) != 2:
        raise ValueError(f"the bound is for two classes, got {len(model.classes_)}")
    unknown = np.setdiff1d(y, model.classes_)
    if len(unknown):
        raise ValueError(f"y has labels that the model was not fitted with: {unknown.tolist()}")
    signs = np.where(np.asarray(y) == model.classes_[1], 1.0, -1.0)
    margins = signs * model.decision_function(X)
    norms, largest, counts = kernel_sizes(model, X)
    n, M = len(signs), len(norms)
    mu = 0.5 * float(norms.sum()) ** 2
    margin_error = float(np.mean(margins <= rho))
    complexity = 2.0 * np.sqrt(2.0 * mu * largest) / (n * rho) * np.sqrt(counts.max())
    confidence = 3.0 * np.sqrt(np.log(1.0 / delta) / (2.0 * n))
    remainder = 16.0 / rho * np.sqrt(mu * largest * np.log((M + 1.0) / delta) / n)
    value = margin_error + complexity + confidence + remainder
    return AbsentBound(
        float(value),
        margin_error,
        float(complexity),
        float(confidence),
        float(remainder),
        mu,
        largest,
    )


def kernel_sizes(model: BaseMKLClassifier, X: Any) -> tuple[Floats, float, Indices]:
    """Return norms of the functions, the largest k(x, x) and how many samples have a kernel.

    For a binary problem and the training samples X, in their order: shapes (M,), () and (M,).
    """
    if not model._same_weights_for_all:
        raise ValueError(
            f"the kernels of {type(model).__name__} have weights that depend on the sample, "
            "which this is not for"
        )
    rows = model.input_.rows(model, X)
    n = model.dual_coef_.shape[-1]
    if len(rows) != n:
        raise ValueError(f"X has {len(rows)} samples, but the model was fitted on {n}")
    counts = np.count_nonzero(model.input_.observed_of(rows), axis=0)
    if isinstance(model.input_, FactorInput):
        norms = np.array([np.linalg.norm(coef) for coef in model.coef_])
        return norms, max(model.input_.diag(rows, m).max() for m in range(len(norms))), counts
    needed = np.ones(len(model.kernel_names_), dtype=np.bool_)
    coef = model.weights_[:, None] * np.broadcast_to(model.dual_coef_, (len(needed), n))
    norms, largest = np.zeros(len(needed)), 0.0
    for p, kernel in enumerate(model.input_.kernels(rows, needed)):
        norms[p] = np.sqrt(max(float(coef[p] @ kernel @ coef[p]), 0.0))
        diag = model.input_.diag(rows, p)
        largest = max(largest, float((kernel.diagonal() if diag is None else diag).max()))
    return norms, largest, counts


def _check(**numbers: float) -> None:
    for name, value in numbers.items():
        least = 0.0 if name == "radius" else 1.0
        if not (np.isfinite(value) and value >= least):
            raise ValueError(f"{name} must be finite and at least {least:g}, got {value}")


def _norm(values: Floats, exponent: float) -> float:
    """Return the norm, or for exponents below 1 its formula, without overflow."""
    top = float(values.max())
    return top * float(((values / top) ** exponent).sum()) ** (1.0 / exponent) if top > 0 else 0.0
