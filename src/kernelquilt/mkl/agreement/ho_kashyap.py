r"""The published iteration of MultiK-MHKS (Table 1 of the paper), for comparison.

From margins :math:`b_l = 10^{-6}` and given outputs of the views after the first, it repeats

.. math:: b_l \leftarrow b_l + \rho (e_l + |e_l|), \quad e_l = Y_l \omega_l - 1 - b_l, \qquad
          \omega_l \leftarrow \text{Eq. (9)} \text{ for all views at once},

until Eq. (8) changes by `tol` or less. For :math:`0 < \rho < 1` Eq. (8) falls in every iteration.
But no b ever decreases: what a start makes too large stays, and the limit is in general not the
minimum.

With absent views Eq. (9) is the minimiser by :math:`\omega_l` of Eq. (8) restricted to what is
observed: sample i counts :math:`1 + \lambda (k_i - 1) / k_i` times where it has :math:`k_i` views.
"""

from collections.abc import Callable

import numpy as np

from kernelquilt._typing import Floats
from kernelquilt.core.weights.solution import Step
from kernelquilt.mkl.agreement.joint_ridge import JointRidge, Smoother
from kernelquilt.mkl.agreement.spectra import SpectrumStore
from kernelquilt.mkl.agreement.squared_hinge import AgreementProblem, Minimum, Outputs

FIRST_MARGIN = 1e-6


def ho_kashyap(
    problem: AgreementProblem,
    store: SpectrumStore,
    *,
    rho: float,
    init: str,
    tol: float,
    max_iter: int,
    on_step: Callable[[Step], None] | None = None,
) -> Minimum:
    """Run the published iteration.

    Parameters
    ----------
    problem : AgreementProblem
        What to minimise.
    store : SpectrumStore
        Where its views come from.
    rho : float
        Step size of the margins, between 0 and 1.
    init : {"zero", "unit"}
        Weight vectors of the views after the first.
    tol : float
        Change of the objective at which to stop.
    max_iter : int
        Cap on the iterations.
    on_step : callable, optional
        Called after every iteration.

    Returns
    -------
    Minimum
        With the value of Eq. (8) at its own b, and the last change in place of the gradient.
    """
    views, y, lam, counts = problem.views, problem.y, problem.lam, problem.counts
    times = 1.0 + lam * (counts - 1.0) / counts
    if (times == times[0]).all():
        spectra = [
            None if one is None else one._replace(s=times[0] * one.s) for one in views.spectra
        ]
    else:
        weight = np.zeros(len(store.observed))
        weight[views.used] = np.square(views.root) * times
        spectra = store.decompose(weight).spectra
    n = len(y)
    smoothers = [
        None if one is None else Smoother(one, c, n)
        for one, c in zip(spectra, problem.c, strict=True)
    ]
    ridge = JointRidge(smoothers, n, 0.0)

    def update(f: Floats, b: Floats) -> Outputs:
        others = np.where(views.observed, f.sum(axis=0) - f, 0.0)
        target = y * (problem.margin + b) + lam / counts * others
        z, e = ridge(target / np.sqrt(times))
        return Outputs(z / np.sqrt(times), np.sqrt(times) * e)

    def value(at: Outputs, b: Floats) -> float:
        short = y * at.f - problem.margin - b
        spread = lam * np.square(problem.apart(at.f)).sum()
        return float(np.square(short).sum() + (at.f * at.e).sum() + spread)

    b = FIRST_MARGIN * problem.margin
    f = problem.zero().f if init == "zero" else unit_outputs(problem, store)
    first = next(l for l, one in enumerate(spectra) if one is not None)
    f[first] = update(f, b).f[first]
    history: list[Step] = []
    last, change = np.inf, np.inf
    while change > tol and len(history) < max_iter:
        b = b + 2.0 * rho * np.maximum(y * f - problem.margin - b, 0.0)
        at = update(f, b)
        f = at.f
        objective = value(at, b)
        last, change = objective, abs(last - objective)
        bound = problem.lower_bound(f)
        history.append(Step(objective, objective - bound, len(history) + 1))
        if on_step is not None:
            on_step(history[-1])
    return Minimum(at, objective, bound, change, len(history), tuple(history))


def unit_outputs(problem: AgreementProblem, store: SpectrumStore) -> Floats:
    """Return the outputs (M, n) of weight vectors and biases with equal entries and norm one.

    They refer to the features of the empirical kernel map, whose signs are those that make the
    largest entry of each eigenvector positive.
    """
    f = problem.zero().f
    for l, one in enumerate(problem.views.spectra):
        if one is None:
            continue
        chosen = problem.views.used[one.rows]
        features = store.views[l][chosen]
        if not store.features:
            values, vectors = np.linalg.eigh(features[:, chosen].astype(np.float64))
            kept = values > 1e-8 * values[-1]
            values, vectors = values[kept], vectors[:, kept]
            largest = np.abs(vectors).argmax(axis=0)
            signs = np.sign(vectors[largest, np.arange(len(values))])
            features = vectors * (signs * np.sqrt(values))
        f[l, one.rows] = (features.sum(axis=1) + 1.0) / np.sqrt(features.shape[1] + 1.0)
    return f * problem.margin
