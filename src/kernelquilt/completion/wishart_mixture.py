"""Mixture of known kernels that explains a kernel: maximum likelihood of a Wishart model.

If the coordinates of the features of n samples are independent draws from N(0, C), the kernel K is
Wishart distributed and its mean negative log likelihood, up to constants, is

    f = [ tr(C^-1 K) + log det C ] / n,    C = sum_l s_l Z_l + s_0 11' + e I,    (1)

with kernels Z_l and positive s_l, s_0, e. Over t = log(s_1, ..., s_q, s_0, e), with G = C^-1,

    df/dt_l = s_l < B_l, G - G K G > / n,    B_l = Z_l, 11', I.    (2)
"""

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from kernelquilt._typing import Floats
from kernelquilt.completion.linalg import inverse_and_log_det

_BOUNDS = (-9.0, 5.0)
_STEPS = 30  # more change nothing that is seen in the completed kernels


class Mixture(NamedTuple):
    """The weights of (1).

    Attributes
    ----------
    kernels : ndarray of shape (q,)
        s_1, ..., s_q.
    constant, noise : float
        s_0 and e.
    """

    kernels: Floats
    constant: float
    noise: float

    @classmethod
    def start(cls, q: int) -> "Mixture":
        """Return where to start with q kernels of diagonal 1."""
        return cls(np.full(q, 1 / max(q, 1)), 1.0, 0.1)

    @classmethod
    def from_log(cls, t: Floats) -> "Mixture":
        """Return the mixture of the parameters t (q + 2,)."""
        s = np.exp(t)
        return cls(s[:-2], float(s[-2]), float(s[-1]))

    def log(self) -> Floats:
        """Return the parameters t (q + 2,)."""
        return np.log(np.append(self.kernels, [self.constant, self.noise]))


def mixture_objective(t: Floats, bases: Floats, K: Floats) -> tuple[float, Floats]:
    """Return (1) and (2).

    Parameters
    ----------
    t : ndarray of shape (q + 2,)
    bases : ndarray of shape (q, n, n)
        Z_1, ..., Z_q.
    K : ndarray of shape (n, n)

    Returns
    -------
    value : float
    gradient : ndarray of shape (q + 2,)
    """
    s, n = np.exp(t), len(K)
    C = np.tensordot(s[:-2], bases, axes=1) + s[-2]
    C[np.diag_indices(n)] += s[-1]
    try:
        G, log_det = inverse_and_log_det(C)
    except np.linalg.LinAlgError:
        # beyond the edge of positive definite matrices, which rounding alone can reach
        return np.inf, np.zeros_like(t)
    GK = G @ K
    P = G - GK @ G
    inner = np.append(bases.reshape(len(bases), n * n) @ P.ravel(), [P.sum(), np.trace(P)])
    return float((np.trace(GK) + log_det) / n), s * inner / n


def fit_mixture(bases: Floats, K: Floats, start: Mixture) -> tuple[Mixture, float]:
    """Minimise (1) by L-BFGS within bounds; return the mixture and the value.

    Parameters
    ----------
    bases, K
        As in `mixture_objective`.
    start : Mixture
    """
    arrays = [bases, K]
    found = minimize(
        lambda t: mixture_objective(t, *arrays),
        np.clip(start.log(), *_BOUNDS),
        jac=True,
        method="L-BFGS-B",
        bounds=[_BOUNDS] * (len(bases) + 2),
        options={"maxiter": _STEPS},
    )
    arrays.clear()  # older versions of scipy keep the function until garbage is collected
    return Mixture.from_log(found.x), float(found.fun)
