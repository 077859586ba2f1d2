"""Options and work of solvers, and how a solution carries them."""

import numpy as np
import pytest

import kernelquilt as kq
from kernelquilt.core.svm.weighted_svm import WeightedSVM
from kernelquilt.core.weights.solution import Options, Solution, Start, Step, Work
from kernelquilt.core.weights.solvers import certified_at
from problems import random_problem


def test_work_adds_up():
    parts = [Work(1, 20, 0.5), Work(n_passes=1.25), Work(2, 5)]
    assert sum(parts, Work()) == Work(3, 25, 1.75)
    assert Work() + parts[0] == parts[0]


def test_a_solution_shows_the_parts_of_its_work():
    values = {"weights": np.ones(1), "dual_coef": np.zeros(2), "intercept": 0.0}
    solution = Solution(**values, objective=1.0, dual_bound=1.0, tol=1e-3, work=Work(3, 25, 1.75))
    assert (solution.n_solves, solution.n_smo_iter, solution.n_passes) == (3, 25, 1.75)


def test_options_as_keywords_take_only_the_named_parts_of_the_start():
    steps = []
    options = Options(1e-2, 7, Start(weights=np.ones(2)), steps.append)
    assert options.keywords() == {"tol": 1e-2, "max_iter": 7, "on_step": steps.append}
    given = options.keywords("weights", "dual_coef")
    assert given["weights"] is options.start.weights
    assert given["dual_coef"] is None
    options.report(Step(1.0, 0.5, 1))
    assert steps == [Step(1.0, 0.5, 1)]
    Options(1e-2).report(Step(1.0, 0.5, 1))


def test_an_svm_counts_all_that_it_solves():
    K, _, _, y, t, U = random_problem(np.random.default_rng(0), n=30, m=3)
    svm = WeightedSVM(K, y, t, U)
    weights = np.full(3, 1 / 3)
    first = certified_at(svm, weights, Options(1e-4))
    assert first.converged
    assert first.work == svm.work
    assert first.n_solves == 1
    again = certified_at(svm, weights, Options(1e-4, start=Start(dual_coef=first.dual_coef)))
    assert again.n_solves == 2
    assert again.n_passes > first.n_passes
    assert again.objective == pytest.approx(first.objective, rel=1e-4)


def test_work_of_several_problems_is_that_of_the_estimator():
    X, y = kq.datasets.make_multiview(60, 3, random_state=0)
    y = np.where(np.arange(60) < 30, y, 2 * y + 1)
    model = kq.SimpleMKLClassifier().fit(X, y)
    assert model.n_solves_ == sum(history[-1].n_solves for history in model.history_)
