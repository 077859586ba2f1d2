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

References
----------
.. [1] M. Kloft and G. Blanchard, "The local Rademacher complexity of lp-norm multiple kernel
   learning", NIPS 2011.
.. [2] Han et al., "Matrix-regularized multiple kernel learning via (r, p) norms", IEEE Transactions
   on Neural Networks and Learning Systems, 2018, Eqs. (29)-(37).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelquilt.kernels import as_stack

Floats = NDArray[np.float64]

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


def _check(**numbers: float) -> None:
    for name, value in numbers.items():
        least = 0.0 if name == "radius" else 1.0
        if not (np.isfinite(value) and value >= least):
            raise ValueError(f"{name} must be finite and at least {least:g}, got {value}")


def _norm(values: Floats, exponent: float) -> float:
    """Return the norm, or for exponents below 1 its formula, without overflow."""
    top = float(values.max())
    return top * float(((values / top) ** exponent).sum()) ** (1.0 / exponent) if top > 0 else 0.0
