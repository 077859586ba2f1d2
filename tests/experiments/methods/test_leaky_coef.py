import numpy as np
import pytest

import kernelquilt as kq
from kernelquilt.experiments.methods.absent import LeakySharedCoef
from kernelquilt.mkl.fitting import solve_cap

CS = [0.1, 1.0, 10.0]


@pytest.fixture
def samples():
    """Return a stack that holds the entries behind its mask, and labels."""
    X, y = kq.datasets.make_multiview(60, 3, random_state=0)
    stack = kq.ViewKernels().fit_transform(X)
    observed = kq.datasets.make_absent(X, 0.5, random_state=0).observed
    return kq.KernelStack(stack.gram(), observed), y


def by_hand(stack, y, train, test, C):
    """Return the scores (n_test,) of the printed problem."""
    solution = kq.mkl.solve_convex_absent_mkl(
        stack.gram(train, train),
        2.0 * y[train] - 1.0,
        stack.observed[train],
        C=C,
        formulation="shared_coef",
        _leaky=True,
    )
    seen = np.einsum("pij,pj->ip", stack.gram(test, train), solution.dual_coef)
    return (stack.observed[test] * seen).sum(axis=1) + solution.intercept


def test_scores_are_those_of_the_printed_problem(samples):
    stack, y = samples
    train, test = np.arange(40), np.arange(40, 60)
    model = LeakySharedCoef(2.0).fit(stack[train], y[train])
    expected = by_hand(stack, y, train, test, 2.0)
    np.testing.assert_allclose(model.decision_function(stack[test]), expected, atol=1e-10)
    new = kq.KernelStack(stack.gram(test, train), stack.observed[test])
    apart = LeakySharedCoef(2.0).fit(
        kq.KernelStack(stack.gram(train, train), stack.observed[train]), y[train]
    )
    np.testing.assert_allclose(apart.decision_function(new), expected, atol=1e-10)
    own = kq.ConvexAbsentMKLClassifier(2.0, formulation="shared_coef").fit(stack[train], y[train])
    assert np.abs(own.decision_function(stack[test]) - expected).max() > 1e-3


def test_a_search_scores_what_separate_fits_score(samples):
    stack, y = samples
    folds = [(np.arange(20, 60), np.arange(20)), (np.arange(40), np.arange(40, 60))]
    search = kq.MKLSearchCV(LeakySharedCoef(), {"C": CS}, cv=folds).fit(stack, y)
    apart = [
        np.mean([np.mean((by_hand(stack, y, *fold, C) > 0) == y[fold[1]]) for fold in folds])
        for C in CS
    ]
    np.testing.assert_allclose(search.cv_results_["mean_test_score"], apart, atol=1e-12)


def test_the_cap_on_its_solves_is_that_of_the_masked_form():
    assert solve_cap(LeakySharedCoef()) == kq.ConvexAbsentMKLClassifier().max_iter
