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
