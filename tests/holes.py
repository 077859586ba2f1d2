"""Small related kernels with holes in them."""

import numpy as np


def related_kernels(n=24, m=3, seed=0):
    """Return kernels (m, n, n) of noisy copies of the same features."""
    rng = np.random.default_rng(seed)
    shared = rng.normal(size=(n, 4))
    views = [shared + 0.3 * rng.normal(size=(n, 4)) + 0.3 for _ in range(m)]
    return np.array([X @ X.T for X in views])


def random_mask(n=24, m=3, seed=0, share=0.6):
    """Return a mask in which every sample and every kernel has something observed."""
    rng = np.random.default_rng(seed)
    mask = rng.random((n, m)) < share
    mask[np.arange(n), rng.integers(m, size=n)] = True
    mask[:2] = True
    return mask


def hide(K, rows, cols, value):
    K = K.copy()
    for m in range(len(K)):
        K[m, ~rows[:, m]] = value
        K[m, :, ~cols[:, m]] = value
    return K


def unit(K):
    scale = 1 / np.sqrt(np.diagonal(K, axis1=1, axis2=2))
    return K * scale[:, :, None] * scale[:, None, :]


def assert_psd(K, tol=1e-9):
    for kernel in K:
        eigenvalues = np.linalg.eigvalsh(kernel.astype(np.float64))
        assert eigenvalues[0] >= -tol * max(eigenvalues[-1], 1e-300)


def gaussian_kernels(n=40, m=4, seed=0, noise=0.5):
    """Return Gaussian kernels (m, n, n) of noisy linear images of the same points."""
    rng = np.random.default_rng(seed)
    shared = rng.normal(size=(n, 3))
    K = []
    for _ in range(m):
        X = shared @ rng.normal(size=(3, 4)) + noise * rng.normal(size=(n, 4))
        d = ((X[:, None] - X) ** 2).sum(axis=2)
        K.append(np.exp(-d / np.median(d)))
    return np.array(K)
