"""Figures of learning and completion with absent views, all taken in one run.

Run with ``python benchmarks/absent.py``. Each line is a figure, the target it is held against, and
whether it was met.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import time

import numpy as np
from sklearn.datasets import load_digits
from sklearn.preprocessing import StandardScaler

import kernelquilt as kq
from core import report


def digit_stacks(n=500, ratio=0.5):
    """Yield stacks of 20 Gaussian kernels of digits with absent kernels, and complete ones."""
    rng = np.random.default_rng(0)
    X, _ = load_digits(return_X_y=True)
    X = StandardScaler().fit_transform(X[rng.permutation(len(X))[:n]])
    views = {f"pixels_{v}": X[:, rng.permutation(64)[:16]] for v in range(20)}
    stacks = {"20 subsets of pixels": kq.ViewKernels().fit_transform(views)}
    for spacing in ("log", "linear"):
        bank = kq.gaussian_bank(20, 2**-3, 2**3, spacing=spacing)
        stacks[f"20 widths, {spacing}"] = kq.ViewKernels(bank).fit_transform({"digits": X})
    for name, stack in stacks.items():
        yield name, kq.datasets.make_absent(stack, ratio, random_state=0), stack


def fillers():
    for name, stack, complete in digit_stacks():
        kq.EMFill().fit(stack[:20])  # compiles
        for filler in (kq.MeanFill(), kq.EMFill(), kq.SVTFill()):
            start = time.process_time()
            filled = filler.fit_transform(stack).gram()
            seconds = time.process_time() - start
            error = np.linalg.norm(filled - complete.gram()) / np.linalg.norm(complete.gram())
            iterations = f", {filler.n_iter_} iterations" if hasattr(filler, "n_iter_") else ""
            report(
                f"{name}: {type(filler).__name__}, n = 500, 50 % absent, seconds",
                f"{seconds:.1f}{iterations}, relative error of the kernels {error:.3f}",
                "< 120",
                seconds < 120 and getattr(filler, "converged_", True),
            )


if __name__ == "__main__":
    fillers()
