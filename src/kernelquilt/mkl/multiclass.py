"""Binary problems as arrays, and how a multi-class problem is made of them."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from kernelquilt._typing import Bools, Floats, Indices
from kernelquilt.core.solution import Options, Solution, Start
from kernelquilt.core.svm.weighted_svm import svm_with_margins
from kernelquilt.core.weights.solvers import certified_at
from kernelquilt.data.labels import Labels
from kernelquilt.kernels.inputs import KernelInput


class BinaryProblem(NamedTuple):
    """One binary problem as arrays, or L of them that share the kernel weights.

    Attributes
    ----------
    K : ndarray of shape (M, n, n), or Factors
        Kernels, zero where absent.
    observed : ndarray of shape (n, M), bool
        True where a kernel observes a sample.
    y : ndarray of shape (n,), or (L, n)
        Labels -1 and +1.
    C : ndarray of the shape of y
        Penalty of each sample, 0 for those left out.
    sample_weight : ndarray of the shape of y
        How often each sample counts in a mean over the samples, 0 for those left out.
    extra : object, or None
        What a method needs beside the kernels: inputs of gates, or decompositions of the kernels.
    """

    K: Any
    observed: Bools
    y: Floats
    C: Floats
    sample_weight: Floats
    extra: Any = None

    @property
    def allowed(self) -> Bools:
        """Kernels that at least one sample that takes part has, shape (M,)."""
        used = np.atleast_2d(self.C > 0).any(axis=0)
        return np.asarray(self.observed[used].any(axis=0))


class Prepared(NamedTuple):
    """Training data after everything that does not depend on the parameters of the solver.

    Attributes
    ----------
    input : KernelInput
        What a classifier holds of the samples.
    K : ndarray of shape (M, n, n), or Factors
        Kernels, zero where absent.
    labels : Labels
        Classes and weights, 0 for samples without any view.
    extra : object, or None
        As in `BinaryProblem`.
    """

    input: KernelInput
    K: Any
    labels: Labels
    extra: Any = None


def svm_at_weights(problem: BinaryProblem, learned: Solution) -> Solution:
    """Solve the SVM on kernels whose weights were learned, perhaps with other penalties.

    The effort spent on the weights is counted in what is returned.
    """
    svm = svm_with_margins(problem.K, problem.y, problem.C)
    options = Options(learned.tol, start=Start(dual_coef=learned.dual_coef))
    solution = certified_at(svm, learned.weights, options)
    work = learned.work + solution.work
    return replace(solution, n_iter=learned.n_iter, work=work, history=learned.history)


def signs_of(labels: Labels, multi_class: str) -> Iterator[Floats]:
    """Yield the labels of each binary problem: -1, +1, and 0 for samples that take no part.

    One against one, a class without samples that take part is in no problem.
    """
    codes, n_classes = labels.codes, len(labels.classes)
    if n_classes == 2:
        yield np.where(codes == 1, 1.0, -1.0)
    elif multi_class == "ovr":
        for positive in range(n_classes):
            yield np.where(codes == positive, 1.0, -1.0)
    else:
        for negative, positive in _pairs(active_classes(labels)):
            yield np.where(codes == positive, 1.0, np.where(codes == negative, -1.0, 0.0))


def active_classes(labels: Labels) -> Indices:
    """Return the positions of the classes of which samples take part in the fit."""
    return np.unique(labels.codes[labels.weight > 0])


def _pairs(active: Indices) -> list[tuple[int, int]]:
    return list(combinations(active.tolist(), 2))


def class_scores(scores: Floats, active: Indices, n_classes: int, multi_class: str) -> Floats:
    """Return the scores of classes (n_rows, n_classes) from those of the binary problems.

    Those of classes that took no part are below all others, so that these are never predicted.
    """
    if multi_class == "ovo":
        scores = _votes_of(scores, active, n_classes)
    idle = np.setdiff1d(np.arange(n_classes), active)
    scores[:, idle] = scores[:, active].min(axis=1, keepdims=True) - 1.0
    return scores


def _votes_of(scores: Floats, active: Indices, n_classes: int) -> Floats:
    """Return one-vs-one votes (n_rows, n_classes), ties broken by the sum of the scores."""
    votes = np.zeros((len(scores), n_classes))
    confidence = np.zeros((len(scores), n_classes))
    for score, (negative, positive) in zip(scores.T, _pairs(active), strict=True):
        votes[:, positive] += score > 0
        votes[:, negative] += score <= 0
        confidence[:, positive] += score
        confidence[:, negative] -= score
    return votes + confidence / (3.0 * (np.abs(confidence) + 1.0))
