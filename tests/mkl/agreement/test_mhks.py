"""MHKS and MultiK-MHKS: the minimum, its certificate, the published iteration, paths, errors."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

import kernelquilt as kq
from kernelquilt.mkl.agreement.spectra import SpectrumStore
from kernelquilt.mkl.agreement.squared_hinge import AgreementProblem, Outputs
from problems import absent_problem, random_kernels

GRID = 2.0 ** np.arange(-4, 5, 4)


def conic_mhks(factors, observed, y, c, lam, weight):
    """Return the minimum of the squared-hinge form in explicit features."""
    import cvxpy as cp

    M = observed.shape[1]
    terms, outputs = [], []
    for l, F in enumerate(factors):
        w, b = cp.Variable(F.shape[1]), cp.Variable()
        f = F @ w + b
        rows = np.flatnonzero(observed[:, l])
        hinge = cp.pos(1 - cp.multiply(y[rows], f[rows]))
        terms.append(cp.sum(cp.multiply(weight[rows], cp.square(hinge))))
        terms.append(c[l] * cp.sum_squares(w))
        outputs.append(f)
    for l in range(M):
        for j in range(l):  # sum of (f - mean)^2 = sum over pairs of (f - f')^2 / k
            both = np.flatnonzero(observed[:, l] & observed[:, j])
            if len(both):
                share = lam * weight[both] / observed[both].sum(axis=1)
                apart = outputs[l][both] - outputs[j][both]
                terms.append(cp.sum(cp.multiply(share, cp.square(apart))))
    problem = cp.Problem(cp.Minimize(sum(terms)))
    return problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)


def value_of(K, observed, y, c, lam, weight, coef, biases):
    """Return the squared-hinge form of Eq. (8) at given functions."""
    f = np.einsum("lij,lj->li", K, coef) + biases[:, None]
    f = np.where(observed.T, f, 0.0)
    mean = f.sum(axis=0) / observed.sum(axis=1)
    loss = np.where(observed.T, np.maximum(0, 1 - y * f) ** 2 + lam * (f - mean) ** 2, 0.0)
    norms = np.einsum("li,lij,lj->l", coef, K, coef)
    return (weight * loss).sum() + c @ norms


@pytest.mark.parametrize("lam", [0.0, 0.3, 20.0])
@pytest.mark.parametrize("ratio", [0.0, 0.4])
@pytest.mark.parametrize("seed", range(3))
def test_minimum_equals_conic_solver(seed, ratio, lam):
    K, factors, observed, y = absent_problem(seed, ratio, n=24, m=3)
    rng = np.random.default_rng(seed)
    c, weight = 10.0 ** rng.uniform(-2, 1, 3), rng.integers(1, 4, 24).astype(float)
    solution = kq.mkl.solve_mhks(K, y, observed=observed, c=c, lam=lam, sample_weight=weight)
    expected = conic_mhks(factors, observed, y, c, lam, weight)
    assert solution.objective == pytest.approx(expected, rel=1e-6)
    assert solution.converged
    assert -1e-12 <= solution.relative_gap < 1e-8
    again = value_of(K, observed, y, c, lam, weight, solution.dual_coef, solution.view_intercepts)
    assert solution.objective == pytest.approx(again, rel=1e-9)


@given(seed=st.integers(0, 10_000))
@example(seed=8164)  # kernels that are tiny beside c: most of the residual no function can follow
@example(seed=2497)  # rounding of coefficients that a large K / c would amplify
@settings(max_examples=40, deadline=None)
def test_gap_and_descent_on_random_problems(seed):
    rng = np.random.default_rng(seed)
    n, M = int(rng.integers(4, 40)), int(rng.integers(1, 5))
    rank, scale = int(rng.integers(1, n + 1)), 10.0 ** rng.uniform(-2, 2)
    K, _ = random_kernels(rng, n, M, rank, scale)
    observed = rng.random((n, M)) < rng.uniform(0.4, 1.0)
    y = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    observed[:2, 0], y[:2] = True, [1.0, -1.0]
    c, lam = 10.0 ** rng.uniform(-4, 3), rng.choice([0.0, 10.0 ** rng.uniform(-3, 3)])
    solution = kq.mkl.solve_mhks(K, y, observed=observed, c=c, lam=lam)
    assert solution.converged
    assert solution.duality_gap >= -1e-12 * abs(solution.objective)
    rounding = 1e-13 * (1.0 + lam) * observed.sum()  # the largest terms are lam f^2
    assert solution.duality_gap < 1e-7 * solution.objective + 1e-11 * n + rounding
    values = [step.objective for step in solution.history]
    assert (np.diff(values) <= rounding).all()


@pytest.mark.parametrize("seed", [1, 16, 28, 37])
def test_kernels_far_larger_than_c(seed):
    """Conjugate gradients, in a metric that hardly sees the norms, would go on for ever."""
    rng = np.random.default_rng(seed)
    K, _ = random_kernels(rng, 30, 1, 40, 1e3)
    y = np.where(rng.random(30) < 0.5, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    solution = kq.mkl.solve_mhks(K, y, c=1e-4)
    assert solution.converged
    assert solution.n_solves < 200
    assert -1e-12 <= solution.relative_gap < 1e-4  # of a minimum that is 1e-10 of what zero costs


def test_gradient_by_finite_differences():
    rng = np.random.default_rng(0)
    K, _, observed, y = absent_problem(1, 0.3, n=12, m=3)
    store = SpectrumStore(K, observed)
    problem = AgreementProblem(
        store.weighted(rng.uniform(0.5, 2.0, 12)), y, np.array([0.1, 1.0, 3.0]), 0.7
    )

    def functions(scale):
        return Outputs(*problem.solve(scale * rng.standard_normal(problem.margin.shape)))

    at, step = functions(3.0), functions(1.0)
    slope = 2.0 * (problem.residual(at) * step.f).sum()

    def value(t):
        return problem.objective(Outputs(at.f + t * step.f, at.e + t * step.e))

    assert slope == pytest.approx((value(1e-5) - value(-1e-5)) / 2e-5, rel=1e-6)


@pytest.mark.parametrize("features", [False, True])
def test_joint_ridge_solves_its_equations(features):
    """In the samples and in the eigenvectors, whichever are fewer, both forms of the system."""
    rng = np.random.default_rng(2)
    for rank in (3, 40):
        factors = [rng.standard_normal((40, rank)) for _ in range(2)]
        observed = rng.random((40, 2)) < 0.8
        observed[:, 0] |= ~observed[:, 1]
        views = factors if features else [F @ F.T for F in factors]
        weighted = SpectrumStore(views, observed, features=features).weighted(rng.random(40) + 0.1)
        ridge = weighted.joint_ridge(np.array([0.5, 2.0]), 1.5)
        assert ridge.low_rank == (rank == 3)
        r = np.where(observed.T, rng.standard_normal((2, 40)), 0.0)
        z, e = ridge(r)
        mean = z.sum(axis=0) / observed.sum(axis=1)
        left = np.where(observed.T, 2.5 * z - 1.5 * mean + e - r, 0.0)
        for l, one in enumerate(weighted.spectra):
            # equal as functionals of the functions of the view
            rest = left[l, one.rows]
            assert abs(one.q @ rest) < 1e-10
            assert np.abs(one.U.T @ rest).max() < 1e-10


def test_one_kernel_is_the_l2_svm():
    X, y = load_breast_cancer(return_X_y=True)
    X = StandardScaler().fit_transform(X)[::4]
    y = y[::4]
    ours = kq.mkl.MHKSClassifier(0.5, kernels="linear").fit(X, y)
    # with a large intercept_scaling its bias is next to free
    theirs = LinearSVC(C=1.0, loss="squared_hinge", intercept_scaling=1e3, tol=1e-10, dual=False)
    np.testing.assert_allclose(
        ours.decision_function(X), theirs.fit(X, y).decision_function(X), atol=1e-4
    )


@pytest.mark.parametrize("n_views", [1, 3])
def test_without_agreement_it_is_mhks_on_each_view(n_views):
    X, y = kq.datasets.make_multiview(60, n_views, random_state=0)
    X = kq.datasets.make_absent(X, 0.2, random_state=0) if n_views > 1 else X
    mhks = kq.mkl.MHKSClassifier(0.5).fit(X, y)
    multi = kq.mkl.MultiKernelMHKSClassifier(0.5, lam=0.0 if n_views > 1 else 7.0).fit(X, y)
    np.testing.assert_allclose(mhks.decision_function(X), multi.decision_function(X), atol=1e-9)
    alone = [
        kq.mkl.MHKSClassifier(0.5).fit(X.select([name])[X.observed[:, v]], y[X.observed[:, v]])
        for v, name in enumerate(X.names)
    ]
    total = np.zeros(60)
    for v, (name, model) in enumerate(zip(X.names, alone, strict=True)):
        rows = X.observed[:, v]
        total[rows] += model.decision_function(X.select([name])[rows])
    expected = total / X.observed.sum(axis=1)
    np.testing.assert_allclose(mhks.decision_function(X), expected, atol=1e-8)
    assert mhks.objective_ == pytest.approx(sum(model.objective_ for model in alone))


def test_large_lam_drives_the_views_together():
    X, y = kq.datasets.make_multiview(80, 3, random_state=0)
    K = kq.ViewKernels().fit_transform(X).gram()
    spread, objective = [], []
    for lam in (0.0, 1.0, 1e2, 1e4, 1e6):
        solution = kq.mkl.solve_mhks(K, 2.0 * y - 1, lam=lam)
        f = np.einsum("lij,lj->li", K, solution.dual_coef) + solution.view_intercepts[:, None]
        spread.append(np.abs(f - f.mean(axis=0)).max())
        objective.append(solution.objective)
    assert (np.diff(spread) < 0).all()
    assert spread[-1] < 1e-4 * spread[0]
    assert (np.diff(objective) > 0).all()


def test_linear_kernels_of_views_need_not_be_computed():
    X, y = kq.datasets.make_multiview(90, 3, n_classes=3, random_state=0)
    X = kq.datasets.make_absent(X, 0.3, random_state=0)
    stack = kq.ViewKernels("linear").fit_transform(X)
    for multi_class in ("ovo", "ovr"):
        explicit = kq.mkl.MultiKernelMHKSClassifier(
            kernels="linear", multi_class=multi_class, class_weight="balanced"
        ).fit(X[:60], y[:60])
        gram = kq.mkl.MultiKernelMHKSClassifier(multi_class=multi_class, class_weight="balanced")
        gram.fit(stack[:60], y[:60])
        np.testing.assert_allclose(explicit.objective_, gram.objective_, rtol=1e-9)
        np.testing.assert_allclose(
            explicit.decision_function(X[60:]), gram.decision_function(stack[60:]), atol=1e-7
        )
        assert [coef.shape for coef in explicit.coef_] == [(3, 5)] * 3


def test_landmark_features_approach_the_exact_fit():
    X, y = kq.datasets.make_multiview(120, 2, random_state=0)
    exact = kq.mkl.MultiKernelMHKSClassifier().fit(X[:80], y[:80])
    differences = []
    for count in (5, 20, 80):
        ekm = kq.EmpiricalKernelMap(
            1e-12,
            n_components=count,
            method="nystroem",
            landmarks="pivoted_cholesky",
            kernels="gaussian",
        ).fit(X[:80])
        model = kq.mkl.MultiKernelMHKSClassifier(kernels="linear").fit(
            ekm.transform(X[:80]), y[:80]
        )
        scores = model.decision_function(ekm.transform(X[80:]))
        differences.append(np.abs(scores - exact.decision_function(X[80:])).max())
    assert differences[2] < 1e-6
    assert differences[0] > differences[1] > differences[2]


def hk_problem(scaled):
    X, y = load_iris(return_X_y=True)
    X, y = X[50:], np.where(y[50:] == 1, 1.0, -1.0)
    X = StandardScaler().fit_transform(X) if scaled else X
    kernels = ["linear", "gaussian", "polynomial"]
    return kq.ViewKernels(kernels).fit_transform(X).gram(), y


@pytest.mark.parametrize("init", ["zero", "unit"])
@pytest.mark.parametrize("rho", [0.3, 0.99])
@pytest.mark.parametrize("ratio", [0.0, 0.4])
def test_published_iteration_descends_but_not_to_the_minimum(init, rho, ratio):
    K, _, observed, y = absent_problem(3, ratio, n=30, m=3)
    options = {"observed": observed, "c": 0.5, "lam": 2.0}
    solution = kq.mkl.solve_ho_kashyap(K, y, rho=rho, init=init, tol=1e-9, **options)
    values = np.array([step.objective for step in solution.history])
    assert (np.diff(values) <= 1e-10 * values[0]).all()
    best = kq.mkl.solve_mhks(K, y, **options).objective
    assert solution.objective >= best * (1 - 1e-10)
    assert solution.duality_gap >= -1e-12 * solution.objective
    if init == "zero":
        assert solution.objective < 1.05 * best


def test_published_update_is_equation_9():
    K, y = hk_problem(scaled=True)
    c, lam, rho, m, n = 0.7, 1.3, 0.9, len(K), len(y)
    features = [kq.EmpiricalKernelMap(1e-12).fit_transform(k)["kernel_0"] for k in K]
    Y = [y[:, None] * np.column_stack([B, np.ones(n)]) for B in features]
    b = np.full((m, n), 1e-6)
    omega = [np.zeros(Yl.shape[1]) for Yl in Y]

    def eq9(l):
        others = sum(Y[j] @ omega[j] for j in range(m) if j != l)
        penalty = c * np.diag(np.r_[np.ones(Y[l].shape[1] - 1), 0.0])
        return np.linalg.solve(
            (1 + lam * (m - 1) / m) * Y[l].T @ Y[l] + penalty,
            Y[l].T @ (b[l] + 1 + lam / m * others),
        )

    omega[0] = eq9(0)
    for _ in range(3):
        for l in range(m):
            e = Y[l] @ omega[l] - 1 - b[l]
            b[l] += rho * (e + np.abs(e))
        omega = [eq9(l) for l in range(m)]
    outputs = [Y[l] @ omega[l] for l in range(m)]
    value = sum(
        np.square(outputs[l] - 1 - b[l]).sum()
        + c * np.square(omega[l][:-1]).sum()
        + lam * np.square(outputs[l] - np.mean(outputs, axis=0)).sum()
        for l in range(m)
    )
    ours = kq.mkl.solve_ho_kashyap(K, y, c=c, lam=lam, rho=rho, tol=0.0, max_iter=3)
    assert ours.objective == pytest.approx(value, rel=1e-7)


def test_published_start_is_frozen_into_the_margins():
    K, y = hk_problem(scaled=False)
    best = kq.mkl.solve_mhks(K, y, lam=1.0).objective
    unit = kq.mkl.solve_ho_kashyap(K, y, lam=1.0, init="unit").objective
    zero = kq.mkl.solve_ho_kashyap(K, y, lam=1.0, init="zero").objective
    assert unit > 10 * best
    assert best <= zero < 1.05 * best
    stack = kq.KernelStack(K)
    model = kq.mkl.MultiKernelMHKSClassifier(solver="hk", init="unit", tol=1e-3).fit(stack, y)
    assert model.objective_ == pytest.approx(unit)
    assert model.duality_gap_ > 0.9 * (unit - best)


def test_weights_count_samples_in_both_terms():
    K, _, observed, y = absent_problem(5, 0.3, n=20, m=3)
    counts = np.random.default_rng(0).integers(0, 4, 20)
    counts[:2] = 1
    repeated = np.repeat(np.arange(20), counts)
    one = kq.mkl.solve_mhks(K, y, observed=observed, lam=2.0, sample_weight=counts.astype(float))
    other = kq.mkl.solve_mhks(
        K[:, repeated][:, :, repeated], y[repeated], observed=observed[repeated], lam=2.0
    )
    assert one.objective == pytest.approx(other.objective, rel=1e-10)
    assert (one.dual_coef[:, counts == 0] == 0).all()


def test_a_sample_is_scored_by_the_views_it_has():
    X, y = kq.datasets.make_multiview(90, 3, n_classes=3, random_state=0)
    X = kq.datasets.make_absent(X, 0.3, random_state=0)
    stack = kq.ViewKernels().fit_transform(X)
    model = kq.mkl.MultiKernelMHKSClassifier(multi_class="ovr").fit(stack[:60], y[:60])
    K, observed = stack.training_gram()
    f = np.einsum("lij,plj->lip", K[:, 60:, :60], model.dual_coef_)
    f += model.view_intercepts_.T[:, None]
    expected = np.array([f[has, i].mean(axis=0) for i, has in enumerate(observed[60:])])
    np.testing.assert_allclose(model.decision_function(stack[60:]), expected, atol=1e-12)
    np.testing.assert_allclose(model.intercept_, model.view_intercepts_.mean(axis=1))


def test_one_vs_one_ties_go_to_the_largest_sum_of_scores():
    X, y = kq.datasets.make_multiview(120, 2, n_classes=4, relevance=[0.3, 0.3], random_state=0)
    model = kq.mkl.MHKSClassifier().fit(X[:60], y[:60])
    pairwise = model._scores(model.input_.rows(model, X))
    votes, sums = np.zeros((120, 4)), np.zeros((120, 4))
    pairs = [(i, j) for i in range(4) for j in range(i + 1, 4)]
    for score, (i, j) in zip(pairwise.T, pairs, strict=True):
        votes[:, i] += score <= 0
        votes[:, j] += score > 0
        sums[:, i] -= score
        sums[:, j] += score
    best = votes == votes.max(axis=1, keepdims=True)
    assert (best.sum(axis=1) > 1).any()
    expected = np.where(best, sums, -np.inf).argmax(axis=1)
    np.testing.assert_array_equal(model.predict(X), model.classes_[expected])


@pytest.mark.parametrize("multi_class", ["ovo", "ovr"])
def test_path_decomposes_each_view_once_and_equals_independent_fits(multi_class, monkeypatch):
    X, y = kq.datasets.make_multiview(90, 3, n_classes=3, random_state=0)
    X = kq.datasets.make_absent(X, 0.3, random_state=0)
    calls = []
    eigh = np.linalg.eigh
    monkeypatch.setattr("numpy.linalg.eigh", lambda A: calls.append(len(A)) or eigh(A))
    model = kq.mkl.MultiKernelMHKSClassifier(multi_class=multi_class)
    models = kq.mkl_path(model, X, y, Cs=GRID, lams=GRID)
    assert len(calls) == (9 if multi_class == "ovo" else 3)
    assert [(m.lam, m.c) for m in models] == [(lam, c) for lam in GRID for c in GRID]
    for each in models:
        alone = kq.mkl.MultiKernelMHKSClassifier(each.c, lam=each.lam, multi_class=multi_class)
        alone.fit(X, y)
        np.testing.assert_allclose(each.objective_, alone.objective_, rtol=1e-10)
        np.testing.assert_allclose(each.decision_function(X), alone.decision_function(X), atol=1e-7)


def test_search_over_c_and_lam_equals_grid_search():
    X, y = kq.datasets.make_multiview(90, 3, n_classes=3, random_state=0)
    X = kq.datasets.make_absent(X, 0.3, random_state=0)
    grid = {"c": list(GRID), "lam": list(GRID)}
    ours = kq.MKLSearchCV(kq.mkl.MultiKernelMHKSClassifier(), grid, cv=3).fit(X, y)
    theirs = GridSearchCV(kq.mkl.MultiKernelMHKSClassifier(), grid, cv=3).fit(X, y)
    assert ours.best_params_ == theirs.best_params_
    np.testing.assert_array_equal(
        ours.cv_results_["mean_test_score"], theirs.cv_results_["mean_test_score"]
    )


def test_search_over_penalties_of_each_view():
    X, y = kq.datasets.make_multiview(60, 2, random_state=0)
    for values in ([[0.1, 2.0], [1.0, 3.0]], [0.5, np.array([0.1, 2.0]), np.array([1.0, 3.0])]):
        grid = {"c": values, "lam": [0.1, 10.0]}
        ours = kq.MKLSearchCV(kq.mkl.MultiKernelMHKSClassifier(), grid, cv=3).fit(X, y)
        theirs = GridSearchCV(kq.mkl.MultiKernelMHKSClassifier(), grid, cv=3).fit(X, y)
        np.testing.assert_array_equal(
            ours.cv_results_["mean_test_score"], theirs.cv_results_["mean_test_score"]
        )
        assert [p["c"] for p in ours.cv_results_["params"]] == list(ours.cv_results_["param_c"])


def test_one_penalty_for_each_view():
    X, y = kq.datasets.make_multiview(60, 2, random_state=0)
    K = kq.ViewKernels().fit_transform(X).gram()
    model = kq.mkl.MultiKernelMHKSClassifier([0.1, 10.0], lam=2.0).fit(kq.KernelStack(K), y)
    # a penalty is a unit of the kernel
    scaled = kq.KernelStack(K / np.array([0.1, 10.0])[:, None, None])
    other = kq.mkl.MultiKernelMHKSClassifier(1.0, lam=2.0).fit(scaled, y)
    assert model.objective_ == pytest.approx(other.objective_)
    with pytest.raises(ValueError, match=r"c has shape \(3,\) for 2 kernels"):
        kq.mkl.MultiKernelMHKSClassifier([1.0, 1.0, 1.0]).fit(X, y)
    with pytest.raises(ValueError, match="c must be positive"):
        kq.mkl.MultiKernelMHKSClassifier([1.0, -1.0]).fit(X, y)


@pytest.mark.parametrize(
    "bad",
    [{"c": -1.0}, {"lam": -0.1}, {"lam": np.nan}, {"rho": 1.0}, {"init": "ones"}, {"solver": "x"}],
)
def test_bad_parameters(bad):
    with pytest.raises(ValueError, match=f"'{next(iter(bad))}' parameter"):
        kq.mkl.MultiKernelMHKSClassifier(**bad).fit(np.eye(4), [0, 1, 0, 1])


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"c": -1.0}, "c must be positive and finite for each of 2"),
        ({"c": [1.0, np.nan]}, "c must be positive"),
        ({"c": np.inf}, "c must be positive"),
        ({"c": [1.0, 1.0, 1.0]}, r"c has shape \(3,\) for 2 kernels"),
        ({"lam": -1.0}, "lam must be finite and not negative, got -1"),
        ({"lam": np.nan}, "lam must be finite"),
    ],
)
def test_solvers_refuse_bad_penalties(bad, message):
    K, y = np.ones((2, 4, 4)), np.array([1.0, -1.0, 1.0, -1.0])
    for solve in (kq.mkl.solve_mhks, kq.mkl.solve_ho_kashyap, kq.mkl.solve_multiview_svm):
        with pytest.raises(ValueError, match=message):
            solve(K, y, **bad)


@pytest.mark.parametrize(
    ("bad", "message"), [({"rho": 1.0}, "rho must be between"), ({"init": "one"}, "'zero' or")]
)
def test_published_iteration_refuses_bad_settings(bad, message):
    with pytest.raises(ValueError, match=message):
        kq.mkl.solve_ho_kashyap(np.ones((2, 4, 4)), np.array([1.0, -1.0, 1.0, -1.0]), **bad)


@pytest.mark.parametrize("solver", ["joint", "hk"])
def test_early_stop_warns_with_measure_and_remedy(solver):
    X, y = kq.datasets.load_example("wdbc")
    measure = "relative gradient norm" if solver == "joint" else "change of the objective"
    with pytest.warns(ConvergenceWarning, match=rf"{measure} of .* above tol.*raise max_iter"):
        model = kq.mkl.MultiKernelMHKSClassifier(solver=solver, max_iter=2, tol=1e-9).fit(X, y)
    assert not model.converged_
    assert model.duality_gap_ > 0
