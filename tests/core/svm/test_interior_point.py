"""Problems on which SMO would not settle: large penalties, in units of kernels of low rank."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import kernelquilt as kq
from kernelquilt.core.svm.dual import BoxDual, feasible_start, signed_bounds
from kernelquilt.core.svm.interior_point import interior_point
from kernelquilt.core.svm.weighted_svm import solve_svm
from problems import conic_svm, random_problem

FEW = 500_000  # SMO took ten millions and more


@pytest.mark.parametrize("seed", range(8))
def test_equals_conic_solver(seed):
    K, factors, _, y, t, U = random_problem(np.random.default_rng(seed), m=1)
    used = U > 0
    lower, upper = (bound[used] for bound in signed_bounds(y, U))
    found = np.zeros(len(y))
    found[used] = interior_point(K[0][np.ix_(used, used)], (y * t)[used], lower, upper)
    b = feasible_start(found, *signed_bounds(y, U))
    value = (y * t) @ b - 0.5 * b @ K[0] @ b
    assert value == pytest.approx(conic_svm(factors[0], y, t, U), rel=1e-7, abs=1e-9)
    assert abs(found.sum()) <= 1e-9 * U.max()


def hard_views(n=53):
    rng = np.random.default_rng(0)
    return {
        "small": rng.normal(0.0, 0.05, (n, 3)),
        "counts": 3000.0 * rng.exponential(size=(n, 3)),
        "ones": np.ones((n, 2)),
    }, np.arange(n) % 2


def test_a_single_svm_settles_where_smo_does_not():
    views, y = hard_views()
    sign = np.where(y > 0, 1.0, -1.0)
    K = sum(A @ A.T for A in views.values())
    result = solve_svm(K, sign, 1.0, 300.0, tol=1e-4)
    assert result.n_iter < FEW
    assert result.gap <= 1e-4 * result.objective


@pytest.mark.parametrize(
    "classifier",
    [
        kq.SimpleMKLClassifier(),
        kq.LpMKLClassifier(),
        kq.mkl.MatrixNormMKLClassifier(),
        kq.ConvexAbsentMKLClassifier(),
        kq.mkl.PenalizedAbsentMKLClassifier(),
        kq.mkl.UniformMKLClassifier(),
    ],
    ids=repr,
)
def test_kernels_of_very_different_scale(classifier):
    views, y = hard_views()
    data = kq.MultiView(views)
    model = classifier.set_params(C=300.0, kernels="linear").fit(data, y)
    assert model.n_smo_iter_ < FEW
    assert model.duality_gap_ <= 1e-3 * model.objective_
    assert np.isfinite(model.decision_function(data)).all()


@pytest.mark.filterwarnings("ignore:.*stopped after:sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    "classifier",
    [
        kq.ConvexAbsentMKLClassifier(formulation="shared_coef"),
        kq.mkl.MaxMarginAbsentClassifier(),
        kq.mkl.IterativeAbsentMKLClassifier(),
    ],
    ids=repr,
)
def test_what_does_not_reach_its_tolerance_comes_back_all_the_same(classifier):
    views, y = hard_views()
    data = kq.MultiView(views)
    model = classifier.set_params(C=300.0, kernels="linear").fit(data, y)
    assert model.n_smo_iter_ < FEW
    assert np.isfinite(model.decision_function(data)).all()


@pytest.mark.parametrize("scales", [(1e8, 1e8, 1e-8), (1e-8, 1e8, 1.0)])
def test_stacks_of_very_different_scale(scales):
    rng = np.random.default_rng(0)
    y = np.arange(40) % 2
    blocks = [rng.standard_normal((40, d)) + 0.7 * y[:, None] for d in (2, 3, 4)]
    K = np.array([scale * A @ A.T for scale, A in zip(scales, blocks, strict=True)])
    observed = rng.random((40, 3)) > 0.25
    observed[np.arange(40), np.arange(40) % 3] = True
    stack = kq.KernelStack(K, observed=observed)
    for classifier in (kq.LpMKLClassifier(), kq.mkl.MatrixNormMKLClassifier()):
        model = classifier.fit(stack, y)
        assert model.n_smo_iter_ < FEW
        assert model.duality_gap_ <= 1e-3 * model.objective_


def test_rounds_of_few_iterations_are_limited_too(monkeypatch):
    rng = np.random.default_rng(0)
    y = np.arange(40) % 2
    blocks = [rng.standard_normal((40, d)) + 0.7 * y[:, None] for d in (2, 3, 4)]
    observed = rng.random((40, 3)) >= 0.25
    observed[np.arange(40), np.arange(40) % 3] = True
    K = np.array([scale * A @ A.T for scale, A in zip((1e8, 1e8, 1e-8), blocks, strict=True)])
    rounds, smo = [], BoxDual._smo
    monkeypatch.setattr(BoxDual, "_smo", lambda *given: rounds.append(1) or smo(*given))
    model = kq.LpMKLClassifier(1e4).fit(kq.KernelStack(K, observed=observed), y)
    assert model.converged_
    assert len(rounds) < 10_000  # there were 80 000, of two iterations each


def test_the_svm_after_the_weights_is_asked_whether_it_converged():
    rng = np.random.default_rng(0)
    y = np.arange(40) % 2
    X = rng.standard_normal((40, 3)) + 0.7 * y[:, None]
    model = kq.SimpleMKLClassifier(C=1e14, C_weights=0.5, kernels=["linear", "gaussian"])
    with pytest.warns(ConvergenceWarning, match="stopped"):
        model.fit(X, y)
    assert not model.converged_
