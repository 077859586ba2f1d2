"""Classifiers in which every view has a function of its own, and their mean decides."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from kernelquilt._typing import Bools, Floats
from kernelquilt.core.weights.solution import Solution
from kernelquilt.kernels.factor_input import FactorInput
from kernelquilt.kernels.products import kernel_products
from kernelquilt.kernels.subsets import samples_in
from kernelquilt.mkl.fitting import BaseMKLClassifier, Prepared

Outputs = Callable[[Any, Any, Bools], Iterator[Floats]]

CONSTRAINTS: dict[str, Any] = {
    name: allowed
    for name, allowed in BaseMKLClassifier._parameter_constraints.items()
    if name != "C"
}


def check_penalties(c: Any, lam: Any, n_kernels: int) -> Floats:
    """Return the penalties c of the kernels (M,), all positive, and refuse a bad lam."""
    penalties = np.asarray(c, dtype=np.float64)
    if penalties.ndim > 0 and penalties.shape != (n_kernels,):
        raise ValueError(
            f"c has shape {penalties.shape} for {n_kernels} kernels; give one number, or one for "
            "each"
        )
    if not (np.isfinite(penalties).all() and (penalties > 0).all()):
        raise ValueError(f"c must be positive and finite for each of {n_kernels} kernels, got {c}")
    if not (np.isfinite(lam).all() and np.min(lam) >= 0):
        raise ValueError(f"lam must be finite and not negative, got {np.min(lam)}")
    return np.broadcast_to(penalties, n_kernels).copy()


def sample_penalties(model: BaseMKLClassifier, data: Prepared) -> Floats:
    """Return the weights of the samples (n,), with those of their classes."""
    return data.labels.factors(model.class_weight) * data.labels.weight


def store_functions(model: Any, solutions: list[Solution]) -> None:
    """Keep the functions of the views, of solutions with `view_intercepts`."""
    model.dual_coef_ = np.array([solution.dual_coef for solution in solutions])
    model.view_intercepts_ = np.array([solution.view_intercepts for solution in solutions])
    model.n_support_ = np.count_nonzero(model.dual_coef_.any(axis=1), axis=1)


def kernel_outputs(model: Any, rows: Any, needed: Bools) -> Iterator[Floats]:
    """Yield the outputs (n_rows, n_problems) of the needed views without their biases."""
    on_factors = isinstance(model.input_, FactorInput)
    coef = model.coef_ if on_factors else model.dual_coef_.swapaxes(0, 1)
    right = [each.T if use else None for each, use in zip(coef, needed, strict=True)]
    return (product for _, product in kernel_products(model.input_, rows, right))


def linear_outputs(model: Any, rows: Any, needed: Bools) -> Iterator[Floats]:
    """Yield the same of linear functions of the columns, `coef_`."""
    samples, sample_of = samples_in(rows)
    return (
        (samples[samples.names[m]] @ model.coef_[m].T)[sample_of] for m in np.flatnonzero(needed)
    )


def mean_scores(model: Any, rows: Any, outputs: Outputs = kernel_outputs) -> Floats:
    """Return the mean (n_rows, n_problems) of the functions of the views that samples have."""
    trained = np.atleast_2d(model.weights_) > 0
    needed = np.asarray(trained.any(axis=0))
    observed = model.input_.observed_of(rows)
    total = np.zeros((len(rows), len(trained)))
    counts = np.zeros(total.shape)
    for m, output in zip(np.flatnonzero(needed), outputs(model, rows, needed), strict=True):
        counted = observed[:, m, None] & trained[:, m]
        total += np.where(counted, output + model.view_intercepts_[:, m], 0.0)
        counts += counted
    return np.where(counts > 0, total / np.maximum(counts, 1.0), model.intercept_)


class ViewAverageClassifier(BaseMKLClassifier):
    """Base of the classifiers that average the outputs of the views that a sample has.

    Their solutions have `view_intercepts`, and `dual_coef` of shape (M, n). The penalties of a
    binary problem are the weights of the samples, with those of their classes.
    """

    _penalty = "c"
    _same_weights_for_all = False
    _parameter_constraints = CONSTRAINTS

    @staticmethod
    def _arrays_beside(n_kernels: int) -> float:
        return n_kernels**2 + 3.0 * n_kernels + 3.0

    def _penalties(self, data: Prepared) -> Floats:
        return sample_penalties(self, data)

    def _store(self, solutions: list[Solution]) -> None:
        super()._store(solutions)
        store_functions(self, solutions)

    def _scores(self, rows: Any) -> Floats:
        return mean_scores(self, rows)
