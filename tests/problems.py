"""Small random problems and their conic reference solutions."""

import numpy as np


def random_kernels(rng, n, m, rank=None, scale=1.0):
    """Return (m, n, n) positive semi-definite kernels of the given rank and their factors."""
    factors = [scale * rng.standard_normal((n, rank or n)) / np.sqrt(rank or n) for _ in range(m)]
    return np.array([F @ F.T for F in factors]), factors


def random_problem(rng, n=None, m=None):
    """Return a random MKL problem: kernels with absent rows, factors, labels, margins, bounds."""
    n = n or int(rng.integers(6, 30))
    m = m or int(rng.integers(1, 6))
    rank = int(rng.integers(2, n + 1))
    K, factors = random_kernels(rng, n, m, rank)
    observed = rng.random((n, m)) < rng.uniform(0.5, 1.0)
    K = K * observed.T[:, :, None] * observed.T[:, None, :]
    factors = [F * observed[:, [p]] for p, F in enumerate(factors)]
    y = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    t = rng.uniform(0.2, 2.0, n)
    U = rng.uniform(0.1, 2.0, n) * 10.0 ** rng.uniform(-2, 2)
    U[2:][rng.random(n - 2) < 0.1] = 0.0
    return np.ascontiguousarray(K), factors, observed, y, t, U


def mostly_absent_problem(seed):
    """Return five kernels of low rank that lack most of 50 samples, factors, labels, margins, C."""
    rng = np.random.default_rng(seed)
    n, m = 50, 5
    y = np.where(rng.random(n) < 0.3, 1.0, -1.0)
    observed = rng.random((n, m)) < 0.3
    observed[np.arange(n), rng.integers(0, m, n)] = True
    factors = [
        observed[:, [p]] * (signal * y[:, None] + rng.standard_normal((n, rank)))
        for p, (signal, rank) in enumerate([(2, 1), (1, 3), (0.3, 20), (0, 20), (0, 2)])
    ]
    K = np.array([F @ F.T for F in factors])
    C = np.full(n, 10.0 ** rng.uniform(-1, 2))
    return K, factors, y, np.ones(n), C


def conic_svm(factor, y, t, U):
    """Return the optimum of ``max t'a - |F'b|^2 / 2`` over the box with ``sum b = 0``."""
    return conic_mkl([factor], y, t, U)


def conic_mkl(factors, y, t, U, A=None):
    """Return the optimum over the simplex, or over ``{d >= 0, A d <= 1}``."""
    import cvxpy as cp

    # in units of the largest dual the solver sees a problem of moderate size
    unit = min(U.max(), 1.0 / max(np.square(F).sum(axis=1).mean() for F in factors))
    a = cp.Variable(len(y))
    b = cp.multiply(y, a)
    z = cp.Variable(1 if A is None else len(A), nonneg=True)
    limits = z[0] * np.ones(len(factors)) if A is None else A.T @ z
    constraints = [a >= 0, a <= U / unit, y @ a == 0]
    constraints += [unit * cp.sum_squares(F.T @ b) <= limits[p] for p, F in enumerate(factors)]
    problem = cp.Problem(cp.Maximize(t @ a - 0.5 * cp.sum(z)), constraints)
    return unit * problem.solve(
        solver=cp.CLARABEL, tol_gap_abs=1e-9, tol_gap_rel=1e-9, tol_feas=1e-9, max_iter=500
    )


def absent_problem(seed, ratio, n=24, m=4):
    """Return kernels with a share of absent rows, factors, mask and labels; nobody has nothing."""
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    observed = rng.random((n, m)) >= ratio
    observed[np.arange(n), rng.integers(0, m, n)] = True
    signal = np.outer(y, rng.uniform(0.0, 0.6, m))
    _, factors = random_kernels(rng, n, m)
    factors = [(F + signal[:, [p]]) * observed[:, [p]] for p, F in enumerate(factors)]
    return np.array([F @ F.T for F in factors]), factors, observed, y


def primal_mkl(factors, y, C, tau, kappa=1.0):
    """Return the optimum and the norms of l1-norm MKL with margins, in explicit features.

    min  kappa / 2 sum_p |w_p|^2 / g_p + C sum_i xi_i,  y_i f_i >= tau_i (1 - xi_i),  sum_p g_p = 1
    """
    import cvxpy as cp

    w = [cp.Variable(F.shape[1]) for F in factors]
    g = cp.Variable(len(factors), nonneg=True)
    xi = cp.Variable(len(y), nonneg=True)
    score = sum(F @ v for F, v in zip(factors, w, strict=True)) + cp.Variable()
    size = sum(cp.quad_over_lin(v, g[p]) for p, v in enumerate(w))
    problem = cp.Problem(
        cp.Minimize(0.5 * kappa * size + C * cp.sum(xi)),
        [cp.multiply(y, score) >= cp.multiply(tau, 1 - xi), cp.sum(g) == 1],
    )
    value = problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-9, tol_gap_rel=1e-9, tol_feas=1e-9)
    return value, np.array([np.linalg.norm(v.value) for v in w])


def regression_problem(seed):
    """Return kernels of any rank with absent rows, factors, mask, targets, penalties, epsilon."""
    rng = np.random.default_rng(seed)
    K, factors, observed, _, _, C = random_problem(rng)
    observed = observed | ~observed.any(axis=1, keepdims=True)
    factors = [F * observed[:, [p]] for p, F in enumerate(factors)]
    K = np.array([F @ F.T for F in factors])
    y = 10.0 ** rng.uniform(-1, 1) * rng.standard_normal(len(C)) + rng.uniform(-50, 50)
    return K, factors, observed, y, C, rng.choice([0.0, 0.1, 0.5]) * y.std()


def conic_regression(factors, y, C, epsilon, weights=None, p=None, A=None):
    """Return the optimum in explicit features, over given weights or a set of them."""
    import cvxpy as cp

    # in units of the targets the solver sees a problem of moderate size
    unit = y.std()
    y, C, epsilon = (y - y.mean()) / unit, C / unit, epsilon / unit
    w = [cp.Variable(F.shape[1]) for F in factors]
    residual = y - sum(F @ v for F, v in zip(factors, w, strict=True)) - cp.Variable()
    loss = cp.sum(cp.multiply(C, cp.pos(cp.abs(residual) - epsilon)))
    if weights is not None:
        size = sum(cp.sum_squares(v) / d for v, d in zip(w, weights, strict=True) if d > 0)
        held = [v == 0 for v, d in zip(w, weights, strict=True) if d == 0]
        problem = cp.Problem(cp.Minimize(0.5 * size + loss), held)
    else:
        g = cp.Variable(len(factors), nonneg=True)
        size = sum(cp.quad_over_lin(v, g[m]) for m, v in enumerate(w))
        inside = A @ g <= 1 if A is not None else cp.pnorm(g, p) <= 1
        problem = cp.Problem(cp.Minimize(0.5 * size + loss), [inside])
    return unit**2 * problem.solve(
        solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10, max_iter=500
    )


def random_polytope(rng):
    """Return a non-negative matrix, zero and one or real, without columns of zeros."""
    k, m = int(rng.integers(1, 60)), int(rng.integers(1, 25))
    A = (rng.random((k, m)) < rng.uniform(0.1, 1.0)).astype(float)
    if rng.random() < 0.3:
        A *= rng.uniform(0.1, 10.0, (k, m))
    A[rng.integers(0, k, m), np.arange(m)] = 1.0
    return A
