"""I-AMKL: the alternation against explicit features, its stopping and its warnings."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import kernelquilt as kq
from kernelquilt.core.compiled import present_rows
from problems import absent_problem, primal_mkl

unsettled = pytest.mark.filterwarnings(
    "ignore:.*need not converge:sklearn.exceptions.ConvergenceWarning"
)


@pytest.mark.parametrize("ratio", [0.25, 0.5, 0.75])
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("C", [0.3, 10.0])
def test_first_iterations_equal_conic_solver(seed, ratio, C):
    K, factors, observed, y = absent_problem(seed, ratio)
    tau = np.ones(len(y))
    for n_iter in (1, 2):
        found = kq.mkl.solve_iterative_absent_mkl(
            K, y, observed, C=C, tol=1e-9, outer_tol=0.0, max_iter=n_iter
        )
        np.testing.assert_allclose(found.margins, tau, atol=1e-5)
        expected, norms = primal_mkl(factors, y, C, found.margins)
        assert found.objective == pytest.approx(expected, rel=1e-6)
        assert found.n_iter == len(found.history) == n_iter
        tau = np.maximum(observed @ norms / norms.sum(), 1e-3)


def test_score_uses_the_margins_of_its_duals():
    """The duals solve the problem at `margins`, where its primal value is the objective."""
    K, _, observed, y = absent_problem(3, 0.25)
    found = kq.mkl.solve_iterative_absent_mkl(K, y, observed, C=2.0, tol=1e-8)
    b = found.dual_coef
    scores = np.tensordot(found.weights, K @ b, 1) + found.intercept
    loss = np.maximum(0.0, 1.0 - y * scores / found.margins)
    primal = 0.5 * b @ (scores - found.intercept) + 2.0 * loss.sum()
    assert primal == pytest.approx(found.objective, rel=1e-9)
    assert (np.abs(b) <= 2.0 / found.margins * (1 + 1e-12)).all()
    assert found.settled
    assert found.outer_change <= 1e-3


def test_counts_add_up_over_the_problems():
    K, _, observed, y = absent_problem(3, 0.5)
    steps = []
    found = kq.mkl.solve_iterative_absent_mkl(K, y, observed, on_step=steps.append)
    assert tuple(steps) == found.history
    assert len(steps) == found.n_iter > 1
    assert steps[-1].n_solves == found.n_solves >= found.n_iter
    assert steps[-1].objective == found.objective
    first = kq.mkl.solve_simple_mkl(K, y)
    assert steps[0].objective == first.objective
    assert steps[0].n_solves == first.n_solves


@pytest.mark.parametrize("tol", [1e-3, 1e-7])
def test_complete_data_is_one_fit_of_simple_mkl(tol):
    K, _, observed, y = absent_problem(4, 0.0)
    found = kq.mkl.solve_iterative_absent_mkl(K, y, observed, C=3.0, tol=tol)
    simple = kq.mkl.solve_simple_mkl(K, y, C=3.0, tol=tol)
    assert observed.all()
    assert found.n_iter == 1
    assert found.converged
    np.testing.assert_array_equal(found.dual_coef, simple.dual_coef)
    np.testing.assert_array_equal(found.weights, simple.weights)
    np.testing.assert_array_equal(found.margins, 1.0)


def two_kernels(n_alone=5):
    """Return an informative kernel, a tiny one that some samples have alone, mask and labels."""
    rng = np.random.default_rng(0)
    y = np.tile([1.0, -1.0], 20)
    good = np.c_[y, 0.3 * rng.standard_normal((40, 3))]
    tiny = 1e-3 * rng.standard_normal((40, 3))
    observed = np.ones((40, 2), dtype=bool)
    observed[:n_alone, 0] = False
    return kq.KernelStack(np.array([good @ good.T, tiny @ tiny.T]), observed), y


@unsettled
def test_margins_near_zero_are_raised_and_counted():
    stack, y = two_kernels()
    with pytest.warns(UserWarning, match="^5 of 40 training samples have next to none"):
        model = kq.mkl.IterativeAbsentMKLClassifier(max_iter=2).fit(stack, y)
    np.testing.assert_array_equal(model.margins_[:5], 1e-3)
    assert np.isfinite(model.decision_function(stack)).all()
    assert (np.abs(model.dual_coef_[0, :5]) <= 1.0 / 1e-3).all()
    assert 0 <= model.duality_gap_ <= 1e-3 * model.objective_
    for C in (1e-4, 1.0, 1e4):
        with warnings.catch_warnings(action="ignore"):
            model = kq.mkl.IterativeAbsentMKLClassifier(C).fit(stack, y)
        assert np.isfinite(model.decision_function(stack)).all()
        assert model.duality_gap_ <= 1e-3 * model.objective_


def test_problems_of_several_classes_give_one_warning_of_a_kind():
    stack, y = two_kernels()
    labels = np.where(np.arange(40) < 20, y, 2 * y)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = kq.mkl.IterativeAbsentMKLClassifier(0.1, max_iter=2).fit(stack, labels)
    floored = (model.margins_ <= 1e-3).any(axis=0).sum()
    messages = sorted(str(warning.message) for warning in caught)
    assert floored >= 5
    assert len(messages) == 2
    assert messages[0].startswith(f"{floored} of 40 training samples")
    assert "of 4 problems; the alternation need not converge" in messages[1]
    assert all(warning.filename == __file__ for warning in caught)


def test_a_cut_off_loop_says_so():
    K, _, observed, y = absent_problem(3, 0.5)
    with pytest.warns(
        ConvergenceWarning,
        match=r"stopped after 2 outer iterations at a largest change of the weights of .* above "
        r"outer_tol=1e-08; .*need not converge.*max_iter",
    ):
        model = kq.mkl.IterativeAbsentMKLClassifier(max_iter=2, outer_tol=1e-8).fit(
            kq.KernelStack(K, observed), y
        )
    assert not model.converged_
    assert model.n_iter_ == 2


def test_one_vs_rest_is_made_of_binary_fits():
    X, y = kq.datasets.make_multiview(90, 3, n_classes=3, random_state=0)
    X = kq.datasets.make_absent(X, 0.4, random_state=0)
    model = kq.mkl.IterativeAbsentMKLClassifier(max_iter=40).fit(X, y)
    assert model.margins_.shape == (3, 90)
    for k, label in enumerate(model.classes_):
        binary = kq.mkl.IterativeAbsentMKLClassifier(max_iter=40).fit(X, y == label)
        np.testing.assert_allclose(model.margins_[k], binary.margins_, atol=1e-12)
        np.testing.assert_allclose(
            model.decision_function(X)[:, k], binary.decision_function(X), atol=1e-10
        )
    assert model.score(X, y) > 0.8


@unsettled
@pytest.mark.parametrize(
    "classifier",
    [
        kq.mkl.IterativeAbsentMKLClassifier(),
        kq.mkl.PenalizedAbsentMKLClassifier(tol=1e-6),
        kq.mkl.PenalizedAbsentMKLClassifier(tau0="ones"),
        kq.mkl.MaxMarginAbsentClassifier(),
    ],
    ids=str,
)
@pytest.mark.parametrize("Cs", [[0.1, 1.0, 10.0], [10.0, 1.0, 0.1]])
def test_paths_equal_independent_fits(classifier, Cs):
    X, y = kq.datasets.make_multiview(120, 4, relevance=[1, 0.7, 0.3, 0], random_state=0)
    X = kq.datasets.make_absent(X, 0.4, random_state=0)
    for C, model in zip(Cs, kq.mkl_path(classifier, X, y, Cs=Cs), strict=True):
        alone = type(classifier)(**{**classifier.get_params(), "C": C}).fit(X, y)
        assert model.n_iter_ == alone.n_iter_
        assert model.objective_ == pytest.approx(alone.objective_, rel=2e-6)
        np.testing.assert_allclose(model.margins_, alone.margins_, atol=1e-7)
        np.testing.assert_array_equal(model.predict(X), alone.predict(X))
    search = kq.MKLSearchCV(classifier, {"C": Cs}, cv=3).fit(X, y)
    assert search.best_score_ > 0.7


def test_rows_that_are_zero_are_looked_for_once(monkeypatch):
    X, y = kq.datasets.make_multiview(60, 4, random_state=0)
    X = kq.datasets.make_absent(X, 0.5, random_state=0)
    K = kq.ViewKernels().fit_transform(X).gram()
    asked = []

    def counted(K):
        asked.append(len(K))
        return present_rows(K)

    monkeypatch.setattr("kernelquilt.core.compiled.present_rows", counted)
    solution = kq.mkl.solve_iterative_absent_mkl(K, 2.0 * y - 1, X.observed)
    assert solution.n_iter > 1
    assert asked == [4]
