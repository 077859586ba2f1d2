r"""The members of a quilt, and how they are joined.

Members are ``"early"``, the experts on completed kernels; ``"late"``, those of single views; and
experts on columns (:mod:`kernelquilt.quilt.experts`). Those of a classifier, with out-of-sample
probabilities :math:`P_k`, are joined as

.. math:: P(x) \propto \exp\bigl(\textstyle\sum_k a_k \log P_k(x)\bigr), \qquad
          \min_{a \ge 0} \; -\frac{\sum_i \omega_i \log P_{y_i}(x_i)}{\sum_i \omega_i}
          + \frac{\kappa}{\sum_i \omega_i} \sum_k (a_k - 1/K)^2,

those of a regressor, with predictions f_k, as :math:`\sum_k a_k f_k` with the squared loss and a
constant pull. Early and late alone, without experts on columns, count half each: leave-one-out
scores flatter them in different measure. Weights of the two are learned from refits only.
"""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state

from kernelquilt._typing import Floats
from kernelquilt.data.preparation import as_given
from kernelquilt.data.targets import Targets
from kernelquilt.data.training import Samples
from kernelquilt.quilt.experts import ColumnExpert, folds


def cross_fitted(estimator: Any, data: Samples, y: Any, part: Targets, outputs: Floats) -> Floats:
    """Return the outputs of members for samples that had no part in fitting them.

    Parameters
    ----------
    estimator : QuiltClassifier or QuiltRegressor
        With `_member_outputs`.
    data : MultiView or KernelStack of n samples
    y : ndarray of shape (n,)
        Their targets.
    part : Targets of n samples
    outputs : ndarray of shape (K, n, c)
        What remains where a fold is too small for all members.

    Returns
    -------
    outputs : ndarray of shape (K, n, c)
    """
    outputs = outputs.copy()
    data = as_given(data)
    rng = check_random_state(estimator.random_state)
    for held_out in folds(part.codes, rng):
        model = clone(estimator).set_params(cross_fit=False, views=None)
        try:
            with warnings.catch_warnings():
                # what there is to say of these samples the fit to all of them has said
                warnings.simplefilter("ignore", UserWarning)
                model.fit(data[~held_out], y[~held_out], sample_weight=part.copies[~held_out])
        except ValueError:
            continue
        found = model._member_outputs(model.input_.rows(model, data[held_out]))
        if found.shape[::2] == outputs.shape[::2]:
            outputs[:, held_out] = found
    return outputs


def member_weights(outputs: Floats, solve: Callable[[Floats], Floats], *, refitted: bool) -> Floats:
    """Return the weights (K,) of members, the first two of them early and late.

    Parameters
    ----------
    outputs : ndarray of shape (K, n, ...)
        Out of sample.
    solve : callable
        From the outputs of members to their weights.
    refitted : bool
        Whether the outputs are of `cross_fitted` members.

    Returns
    -------
    weights : ndarray of shape (K,)
    """
    return solve(outputs) if refitted or len(outputs) > 2 else np.array([0.5, 0.5])


def member_names(experts: list[ColumnExpert]) -> tuple[str, ...]:
    """Return the names of all members, numbered where a class of experts occurs again."""
    made = ["early", "late"]
    for expert in experts:
        again = sum(name.partition(" ")[0] == expert.name for name in made)
        made.append(f"{expert.name} {again + 1}" if again else expert.name)
    return tuple(made)
