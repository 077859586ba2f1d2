"""Sample-adaptive MKL against exhaustive search, a conic solver and its limiting cases."""

import tracemalloc
from itertools import islice, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

import kernelquilt as kq
from kernelquilt.mkl.per_sample.switch_step import SLACK, switch_step
from kernelquilt.mkl.per_sample.switching import SwitchedProblem, adapt_switches
from problems import conic_mkl, random_kernels

SIMPLE_ATTRIBUTES = ("weights_", "dual_coef_", "intercept_", "objective_", "duality_gap_")


def random_switch_problem(rng, n=60):
    """Return c, r, reference, budget, available, previous; many rows cannot reach r."""
    M = int(rng.integers(1, 8))
    c = rng.standard_normal((n, M)) * (rng.random((n, M)) < 0.7)
    available = rng.random((n, M)) < rng.choice([1.0, 0.7])
    reference = (rng.random((n, M)) < rng.choice([0.3, 0.7, 1.0])) & available
    r = rng.standard_normal(n) * 1.5
    return c, r, reference, rng.integers(0, M + 1, n), available, rng.random((n, M)) < 0.5


def feasible_sets(c, r, reference, budget, available):
    """Return all switches of one sample that satisfy the constraints."""
    every = np.array(list(product([False, True], repeat=len(c))))
    distance = (every != reference).sum(axis=1)
    fits = (every @ c >= r - SLACK) & (distance <= budget) & ~(every & ~available).any(axis=1)
    return every[fits]


def slow_influence(c, r, reference, budget, available):
    """Return the switches of one sample as the rule says, step by step; None if there are none."""
    sets = feasible_sets(c, r, reference, budget, available)
    if not len(sets):
        return None
    sets = sets[sets.sum(axis=1) == sets.sum(axis=1).min()]
    largest = sets[(sets @ c).argmax()]
    groups = [np.flatnonzero(reference), np.flatnonzero(available & ~reference)]
    h = np.zeros(len(c), dtype=bool)
    for group in groups:
        number = largest[group].sum()
        h[group[np.argsort(-np.abs(c[group]), kind="stable")[:number]]] = True
    while c @ h < r - SLACK:
        swaps = [
            (c[i] - c[j], i, j)
            for group in groups
            for i in group[~h[group]]
            for j in group[h[group]]
        ]
        _, on, off = max(swaps, key=lambda swap: swap[0])  # the first among equals
        h[on], h[off] = True, False
    return h


@given(seed=st.integers(0, 10_000))
@settings(max_examples=60, deadline=None)
def test_switch_step_equals_exhaustive_search(seed):
    rng = np.random.default_rng(seed)
    c, r, reference, budget, available, previous = random_switch_problem(rng)
    for tie, priority in {
        "max": None,
        "influence": np.abs(c),
        "random": rng.random(c.shape),
    }.items():
        switches, feasible = switch_step(
            c, r, reference, budget, previous=previous, available=available, priority=priority
        )
        for i, h in enumerate(switches):
            limits = c[i], r[i], reference[i], budget[i], available[i]
            sets = feasible_sets(*limits)
            assert feasible[i] == (len(sets) > 0)
            if not feasible[i]:
                np.testing.assert_array_equal(h, previous[i])
                continue
            smallest = sets[sets.sum(axis=1) == sets.sum(axis=1).min()]
            assert (smallest == h).all(axis=1).any()
            if tie == "max":
                assert c[i] @ h == pytest.approx((smallest @ c[i]).max(), abs=1e-12)
            elif tie == "influence":
                np.testing.assert_array_equal(h, slow_influence(*limits))


def test_switch_step_of_infeasible_and_feasible_problems_is_seen_often():
    rng = np.random.default_rng(0)
    feasible = []
    for _ in range(40):
        c, r, reference, budget, available, previous = random_switch_problem(rng)
        feasible.append(
            switch_step(c, r, reference, budget, previous=previous, available=available)[1]
        )
    assert 0.2 < np.concatenate(feasible).mean() < 0.9


def small_problem(seed, n=22, M=5, absent=0.0):
    """Return kernels, their factors, labels that the kernels know a little of, and a mask."""
    rng = np.random.default_rng(seed)
    y = np.where(np.arange(n) % 2 == 0, 1.0, -1.0)
    _, factors = random_kernels(rng, n, M)
    for p in range(M):
        factors[p] = factors[p] + 0.25 * np.outer(y, rng.standard_normal(n)) / np.sqrt(n)
    observed = rng.random((n, M)) >= absent
    observed[np.arange(n), rng.integers(0, M, n)] = True
    factors = [F * observed[:, [p]] for p, F in enumerate(factors)]
    return np.array([F @ F.T for F in factors]), factors, y, observed


@pytest.mark.filterwarnings("ignore:Solution may be inaccurate")
@pytest.mark.parametrize("absent", [0.0, 0.3])
@pytest.mark.parametrize("h0", ["ones", "array"])
@pytest.mark.parametrize("seed", range(3))
def test_first_iterations_equal_a_conic_solver_and_the_formulas(seed, h0, absent):
    K, factors, y, observed = small_problem(seed, absent=absent)
    n, M = observed.shape
    rng = np.random.default_rng(seed)
    given_h0 = np.ones((n, M), dtype=bool) if h0 == "ones" else rng.random((n, M)) < 0.7
    given_h0[:, 0] |= ~(given_h0 & observed).any(axis=1)
    problem = SwitchedProblem(K, y, np.full(n, 5.0), observed, given_h0, 2)
    iterates = list(islice(adapt_switches(problem, "influence", None, 1e-8, 0.0), 4))
    assert len(iterates) == 4
    assert any((it.switches & given_h0 != given_h0 & observed).any() for it in iterates)
    H, tau = given_h0 & observed, np.ones(n)
    H[~H.any(axis=1)] = observed[~H.any(axis=1)]
    reference = H
    for it in iterates:
        np.testing.assert_array_equal(it.switches, H)
        np.testing.assert_allclose(it.margins, tau, rtol=1e-9)
        switched = [F * H[:, [p]] for p, F in enumerate(factors)]
        expected = conic_mkl(switched, y, tau, 5.0 / tau)
        assert it.solution.objective == pytest.approx(expected, rel=1e-6)

        a, d, b = it.solution.dual_coef, it.solution.weights, it.solution.intercept
        G = np.array([d[p] * K[p] @ (a * H[:, p]) for p in range(M)]).T
        norms = np.array([d[p] * np.linalg.norm(F.T @ a) for p, F in enumerate(switched)])
        slack = np.maximum(0.0, 1 - y / tau * ((H * G).sum(axis=1) + b))
        new, new_tau = H.copy(), np.empty(n)
        for i in range(n):
            budget = 2 if observed[i].all() else min(2, max(reference[i].sum() - 1, 0))
            c, r = y[i] / tau[i] * G[i], 1 - slack[i] - y[i] / tau[i] * b
            found = slow_influence(c, r, reference[i], budget, observed[i])
            share = (found * norms).sum() / (observed[i] * norms).sum()
            new[i] = found if share > 1e-3 else H[i]
            new_tau[i] = max(1e-3, (new[i] * norms).sum() / (observed[i] * norms).sum())
        H, tau = new, new_tau


@pytest.mark.parametrize("tie", ["influence", "max", "random"])
@pytest.mark.parametrize("absent", [0.0, 0.3])
def test_duals_switches_and_margins_belong_together(tie, absent):
    """The primal value of the scores at the stored switches and margins is the objective."""
    K, _, y, observed = small_problem(1, n=60, M=7, absent=absent)
    stack = kq.KernelStack(K, observed)
    for max_iter in (1, 2, 5):
        model = kq.mkl.SampleAdaptiveMKLClassifier(
            3.0, m0=5, tie=tie, max_iter=max_iter, outer_tol=0, tol=1e-6, random_state=0
        ).fit(stack, y)
        assert model.n_iter_ == max_iter == len(model.history_[0])
        assert model.active_.any() == (max_iter > 1)
        parts = model._parts(stack)[0]
        scores = (parts * model.switches_).sum(axis=1) + model.intercept_[0]
        squared = model.dual_coef_[0] @ (scores - model.intercept_[0])
        loss = np.maximum(0, 1 - y * scores / model.margins_).sum()
        assert model.objective_ == pytest.approx(0.5 * squared + 3.0 * loss, rel=1e-9)
        assert model.history_[0][-1].objective == model.objective_
        assert model.history_[0][-1].n_solves == model.n_solves_
        # the largest absolute score over the patterns decides
        F = parts @ model.patterns_.T + model.intercept_[0]
        decisive = F[np.arange(60), np.abs(F).argmax(axis=1)]
        np.testing.assert_allclose(model.decision_function(stack), decisive, atol=1e-12)
        own = np.where(observed, model.switches_, True)
        column = [int((model.patterns_ == row).all(axis=1).argmax()) for row in own]
        assert (model.patterns_[column] == own).all()
        np.testing.assert_allclose(F[np.arange(60), column], scores, atol=1e-12)
        off = observed & ~model.switches_
        np.testing.assert_array_equal(model.active_, off & (model.weights_ > 0))


@given(seed=st.integers(0, 10_000))
@settings(max_examples=30, deadline=None)
def test_limits_are_kept(seed):
    rng = np.random.default_rng(seed)
    K, _, y, observed = small_problem(seed, M=int(rng.integers(2, 7)), absent=rng.choice([0, 0.4]))
    n, M = observed.shape
    m0 = int(rng.integers(0, M))
    h0 = rng.random((n, M)) < 0.7
    h0[~h0.any(axis=1)] = True
    tie = ["influence", "max", "random"][seed % 3]
    solution = kq.mkl.solve_sample_adaptive_mkl(
        K, y, C=10.0 ** rng.uniform(-1, 3), m0=m0, h0=h0, tie=tie, observed=observed, random_state=0
    )
    assert not (solution.switches & ~observed).any()
    assert solution.switches.any(axis=1).all()
    allowed = np.where((h0 & observed).any(axis=1, keepdims=True), h0 & observed, observed)
    assert ((solution.switches != allowed).sum(axis=1) <= m0).all()
    assert (solution.margins >= 1e-3).all()
    assert (solution.margins <= 1).all()
    assert solution.duality_gap >= -1e-12 * solution.objective
    assert solution.converged


@pytest.mark.parametrize("multi_class", ["ovr", "ovo"])
@pytest.mark.parametrize("absent", [0.0, 0.3])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_without_switches_it_is_simple_mkl(multi_class, absent, n_classes):
    X, y = kq.datasets.make_multiview(90, 5, n_classes=n_classes, random_state=0)
    X = kq.datasets.make_absent(X, absent, random_state=0) if absent else X
    for m0 in (0, 0.0, 0.19):
        ours = kq.mkl.SampleAdaptiveMKLClassifier(m0=m0, multi_class=multi_class).fit(X, y)
        simple = kq.SimpleMKLClassifier(multi_class=multi_class).fit(X, y)
        for name in SIMPLE_ATTRIBUTES:
            np.testing.assert_array_equal(getattr(ours, name), getattr(simple, name))
        np.testing.assert_allclose(
            ours.decision_function(X), simple.decision_function(X), atol=1e-12
        )
        assert ours.n_iter_ == 1
        assert ours.settled_
        assert not ours.active_.any()
        assert (ours.margins_ == 1).all()


def test_one_iteration_is_simple_mkl():
    K, _, y, observed = small_problem(0, n=60)
    stack = kq.KernelStack(K, observed)
    ours = kq.mkl.SampleAdaptiveMKLClassifier(m0=3, max_iter=1).fit(stack, y)
    simple = kq.SimpleMKLClassifier().fit(stack, y)
    np.testing.assert_array_equal(ours.dual_coef_, simple.dual_coef_)


@pytest.fixture(scope="module")
def tumours():
    """Return ten views of 150 training and the other samples of wdbc, and their labels."""
    X, y = kq.datasets.load_example("wdbc")
    columns = np.hstack([X[name] for name in X.names])
    train, test = train_test_split(np.arange(len(y)), train_size=150, stratify=y, random_state=1)
    columns = StandardScaler().fit(columns[train]).transform(columns)
    views = kq.as_views(columns, {f"v{k}": [k, k + 10, k + 20] for k in range(10)})
    return views[train], y[train] == y[0], views[test], y[test] == y[0]


def test_the_max_tie_break_collapses_and_the_others_do_not(tumours):
    """Why "max" is not the default: its switches are a code of the labels.

    Kernels that disagree with the label are turned off, sample by sample. The objective falls to
    almost nothing because the switches give the labels away, and nothing is left to learn.
    """
    X, y, X_test, y_test = tumours
    simple = kq.SimpleMKLClassifier(1000.0).fit(X, y)
    assert simple.score(X_test, y_test) > 0.95
    accuracy, models = {}, {}
    for tie in ("max", "influence", "random"):
        models[tie] = kq.mkl.SampleAdaptiveMKLClassifier(
            1000.0, m0=3, tie=tie, max_iter=6, random_state=0
        ).fit(X, y)
        accuracy[tie] = models[tie].score(X_test, y_test)
        assert models[tie].active_.any()
    assert models["max"].objective_ < 0.05 * simple.objective_
    assert accuracy["max"] < 0.75
    assert accuracy["influence"] > 0.93
    assert accuracy["random"] > 0.93

    def share_known_from_switches(model):
        """Return how often the switches alone tell the label of a training sample."""
        _, pattern = np.unique(model.switches_, axis=0, return_inverse=True)
        majority = [np.bincount(y[pattern.ravel() == k]).max() for k in range(pattern.max() + 1)]
        return sum(majority) / len(y)

    assert share_known_from_switches(models["max"]) > 0.97
    assert share_known_from_switches(models["influence"]) < 0.95


def test_validation_finds_the_number_of_iterations(tumours):
    X, y, X_test, y_test = tumours
    parameters = {"C": 1000.0, "m0": 3, "tie": "max", "max_iter": 6, "random_state": 0}
    chosen = kq.mkl.SampleAdaptiveMKLClassifier(validation_fraction=0.3, **parameters).fit(X, y)
    (scores,) = chosen.validation_scores_
    assert len(scores) == 6
    assert chosen.n_iter_ == int(np.argmax(scores)) + 1
    assert chosen.score(X_test, y_test) > 0.9
    alone = kq.mkl.SampleAdaptiveMKLClassifier(**{**parameters, "max_iter": chosen.n_iter_}).fit(
        X, y
    )
    np.testing.assert_array_equal(alone.dual_coef_, chosen.dual_coef_)
    np.testing.assert_array_equal(alone.switches_, chosen.switches_)
    assert alone.n_solves_ < chosen.n_solves_
    again = kq.mkl.SampleAdaptiveMKLClassifier(validation_fraction=0.3, **parameters).fit(X, y)
    assert again.validation_scores_ == chosen.validation_scores_


def test_validation_scores_are_those_of_a_fit_to_the_rest(tumours):
    X, y, *_ = tumours
    parameters = {"C": 10.0, "m0": 5, "random_state": 0, "tol": 1e-8}
    model = kq.mkl.SampleAdaptiveMKLClassifier(validation_fraction=0.3, max_iter=3, **parameters)
    (scores,) = model.fit(X, y).validation_scores_
    rng = np.random.RandomState(0)
    out = np.zeros(150, dtype=bool)
    for label in (False, True):
        members = rng.permutation(np.flatnonzero(y == label))
        out[members[: round(0.3 * len(members))]] = True
    kernels = kq.ViewKernels().fit_transform(X)
    rest = kq.mkl.SampleAdaptiveMKLClassifier(max_iter=1, **parameters).fit(kernels[~out], y[~out])
    assert scores[0] == pytest.approx(rest.score(kernels[out], y[out]), abs=1e-12)


@pytest.fixture(scope="module")
def incomplete():
    """Return ten kernels of five views, some of them absent, and labels of three classes."""
    X, y = kq.datasets.make_multiview(90, 5, n_classes=3, random_state=0)
    X = kq.datasets.make_absent(X, 0.3, random_state=0)
    bank = kq.gaussian_bank(2, 0.5, 2.0)
    return kq.ViewKernels(bank).fit_transform(X), y


@pytest.mark.parametrize("tie", ["influence", "max", "random"])
@pytest.mark.parametrize("multi_class", ["ovr", "ovo"])
def test_absent_kernels_are_never_on_and_garbage_changes_no_bit(tie, multi_class, incomplete):
    stack, y = incomplete
    observed = stack.observed
    absent = ~(observed.T[:, :, None] & observed.T[:, None, :])
    K = stack.gram().copy()
    K[absent] = np.resize([np.nan, np.inf, -1e9, 7.0], absent.sum())
    dirty = kq.KernelStack(K, observed, names=stack.names)
    parameters = {"m0": 8, "tie": tie, "multi_class": multi_class, "random_state": 0}
    one, other = (
        kq.mkl.SampleAdaptiveMKLClassifier(10.0, max_iter=4, outer_tol=0, **parameters).fit(
            data[:70], y[:70]
        )
        for data in (stack, dirty)
    )
    for name in ("dual_coef_", "weights_", "switches_", "active_", "margins_", "intercept_"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    for rows in (slice(None, 70), slice(70, None)):
        np.testing.assert_array_equal(
            one.decision_function(stack[rows]), other.decision_function(dirty[rows])
        )
    assert not (one.switches_ & ~observed[:70]).any()
    assert one.active_.any()


def test_scores_of_several_classes_are_the_largest_over_the_patterns(incomplete):
    stack, y = incomplete
    model = kq.mkl.SampleAdaptiveMKLClassifier(10.0, m0=8, max_iter=3, tie="random", random_state=0)
    model.fit(stack[:60], y[:60])
    K, observed = stack.gram(), stack.observed
    assert model.switches_.shape == (3, 60, 10)
    assert model.active_.shape == (3, 60, 10)
    assert model.margins_.shape == (3, 60)
    expected = np.empty((30, 3))
    for problem in range(3):
        patterns = model.patterns_[problem]
        assert len(patterns) > 3
        own = np.where(observed[:60], model.switches_[problem], True)
        np.testing.assert_array_equal(patterns, np.unique(own, axis=0))
        for i in range(30):
            scores = []
            for h in patterns & observed[60 + i]:
                score = model.intercept_[problem]
                for p in np.flatnonzero(h):
                    on = model.switches_[problem][:, p]
                    duals = model.dual_coef_[problem] * on
                    score += model.weights_[problem, p] * K[p, 60 + i, :60] @ duals
                scores.append(score)
            expected[i, problem] = max(scores)
    np.testing.assert_allclose(model.decision_function(stack[60:]), expected, atol=1e-10)
    assert (model.predict(stack[60:]) == model.classes_[expected.argmax(axis=1)]).all()


@pytest.mark.parametrize("tie", ["influence", "random"])
def test_results_do_not_depend_on_n_jobs(tie, incomplete):
    stack, y = incomplete
    one, two = (
        kq.mkl.SampleAdaptiveMKLClassifier(
            10.0, m0=8, tie=tie, validation_fraction=0.2, random_state=3, n_jobs=n_jobs
        ).fit(stack, y)
        for n_jobs in (1, 2)
    )
    np.testing.assert_array_equal(one.switches_, two.switches_)
    np.testing.assert_array_equal(one.dual_coef_, two.dual_coef_)


def test_samples_without_weight_leave_no_pattern(incomplete):
    stack, y = incomplete
    weight = np.r_[np.zeros(10), np.ones(80)]
    parameters = {"C": 10.0, "m0": 8, "tol": 1e-7, "max_iter": 2}
    weighted = kq.mkl.SampleAdaptiveMKLClassifier(**parameters).fit(stack, y, sample_weight=weight)
    removed = kq.mkl.SampleAdaptiveMKLClassifier(**parameters).fit(stack[10:], y[10:])
    np.testing.assert_array_equal(weighted.switches_[:, 10:], removed.switches_)
    np.testing.assert_allclose(
        weighted.decision_function(stack), removed.decision_function(stack), atol=1e-7
    )


def test_sparse_reference_is_that_of_simple_mkl(tumours):
    X, y, *_ = tumours
    simple = kq.SimpleMKLClassifier().fit(X, y)
    on = simple.weights_ > 0
    assert 1 < on.sum() < 10
    sparse = kq.mkl.SampleAdaptiveMKLClassifier(m0=2, h0="sparse").fit(X, y)
    given = kq.mkl.SampleAdaptiveMKLClassifier(m0=2, h0=on).fit(X, y)
    as_rows = kq.mkl.SampleAdaptiveMKLClassifier(m0=2, h0=np.tile(on, (150, 1)).astype(int)).fit(
        X, y
    )
    for model in (given, as_rows):
        np.testing.assert_array_equal(sparse.switches_, model.switches_)
        np.testing.assert_array_equal(sparse.dual_coef_, model.dual_coef_)
    assert sparse.n_solves_ > given.n_solves_
    assert not sparse.switches_[:, ~on].any()
    assert ((sparse.switches_ != on).sum(axis=1) == 2).any()
    first = kq.mkl.SampleAdaptiveMKLClassifier(m0=2, h0="sparse", max_iter=1).fit(X, y)
    assert first.objective_ == pytest.approx(simple.objective_, rel=1e-3)


def test_a_sample_without_the_kernels_of_the_reference_uses_those_it_has():
    K, _, y, observed = small_problem(4, n=40, M=4)
    observed[0] = False, False, True, False
    observed[1] = True, False, False, False
    model = kq.mkl.SampleAdaptiveMKLClassifier(m0=3, h0=[1, 1, 0, 0], max_iter=3, outer_tol=0)
    model.fit(kq.KernelStack(K, observed), y)
    assert model.switches_[0].tolist() == observed[0].tolist()
    assert model.switches_[1].tolist() == observed[1].tolist()


def test_one_stack_is_held_beside_the_given_one():
    rng = np.random.default_rng(0)
    K, _ = random_kernels(rng, 200, 12)
    K = (K + K.transpose(0, 2, 1)) / 2
    y = np.where(rng.random(200) < 0.5, 1.0, -1.0)
    model = kq.mkl.SampleAdaptiveMKLClassifier(
        m0=9, max_iter=4, outer_tol=0, validation_fraction=0.2
    )
    stack = kq.KernelStack(K)
    model.fit(stack, y)
    tracemalloc.start()
    model.fit(stack, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(model.validation_scores_[0]) > 1
    assert peak < 1.6 * K.nbytes  # the combined kernel is another 1/12


def test_verbose_reports_every_iteration(capsys, tumours):
    X, y, *_ = tumours
    model = kq.mkl.SampleAdaptiveMKLClassifier(1000.0, m0=3, max_iter=3, verbose=1).fit(X, y)
    assert len(capsys.readouterr().out.splitlines()) == model.n_iter_ == 3


@pytest.mark.parametrize("m0", [-1, 10, 1.0, -0.1, np.nan, "3", None, True])
def test_bad_m0(m0, tumours):
    X, y, *_ = tumours
    with pytest.raises(ValueError, match=r"m0 must be an int from 0 to 9.*float in \[0, 1\)"):
        kq.mkl.SampleAdaptiveMKLClassifier(m0=m0).fit(X, y)


def test_bad_h0_and_other_parameters(tumours):
    X, y, *_ = tumours
    model = kq.mkl.SampleAdaptiveMKLClassifier().fit(X, y)
    before = dict(vars(model))
    for h0 in ("all", None, np.ones(9), np.ones((149, 10)), [[1] * 10], 1, ["1"] * 10):
        model.set_params(h0=h0)
        with pytest.raises(ValueError, match=r"'sparse'.*shape \(10,\).*shape \(150, 10\); got"):
            model.fit(X, y)
    for h0 in (np.full(10, 2), np.full(10, 0.5), np.full(10, np.nan)):
        model.set_params(h0=h0)
        with pytest.raises(ValueError, match="h0 must hold 0 and 1 only"):
            model.fit(X, y)
    model.set_params(h0=np.arange(150)[:, None] * np.ones(10) > 2)
    with pytest.raises(ValueError, match="all 10 kernels off for 3 of 150 samples"):
        model.fit(X, y)
    model.set_params(h0="ones")
    assert vars(model) == before
    for bad in ({"tie": "min"}, {"max_iter": 0}, {"outer_tol": -1}, {"validation_fraction": 1.0}):
        (name,) = bad
        with pytest.raises(ValueError, match=f"'{name}' parameter"):
            kq.mkl.SampleAdaptiveMKLClassifier(**bad).fit(X, y)
    few = np.r_[0, np.ones(149)]
    with pytest.raises(ValueError, match="two samples or more on either side"):
        kq.mkl.SampleAdaptiveMKLClassifier(validation_fraction=0.2).fit(X, few)
    with pytest.raises(ValueError, match="tie must be one of"):
        kq.mkl.solve_sample_adaptive_mkl(np.eye(4)[None], np.array([1.0, 1, -1, -1]), tie="min")


def test_m0_as_a_fraction_is_rounded_down():
    K, _, y, _ = small_problem(3, n=30, M=7)
    for fraction, number in ((0.25, 1), (2 / 7, 2), (0.99, 6)):
        one = kq.mkl.solve_sample_adaptive_mkl(K, y, m0=fraction)
        other = kq.mkl.solve_sample_adaptive_mkl(K, y, m0=number)
        np.testing.assert_array_equal(one.switches, other.switches)


def test_a_fraction_of_no_kernel_is_reported():
    X, y = kq.datasets.make_multiview(40, 3, random_state=0)
    with pytest.warns(UserWarning, match="m0=0.25 of 3 kernels, rounded down, is 0"):
        kq.mkl.SampleAdaptiveMKLClassifier().fit(X, y)
