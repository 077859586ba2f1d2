"""Peak memory of a fit to one sparse view, beside the size of its values.

python benchmarks/sparse_memory.py
"""

import tracemalloc

import numpy as np
from scipy import sparse

import kernelquilt as kq

N, COLUMNS, DENSITY, LANDMARKS = 20_000, 50_000, 1e-3, 700
MIB = 2**20


def peak_of(action):
    """Return the bytes that an action holds at most beyond what there was."""
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    action()
    peak = tracemalloc.get_traced_memory()[1] - before
    tracemalloc.stop()
    return peak


def main():
    """Print a line for each kernel."""
    X = sparse.random_array((N, COLUMNS), density=DENSITY, format="csr", rng=0)
    size = (X.data.nbytes + X.indices.nbytes + X.indptr.nbytes) / MIB
    landmarks = 8 * N * LANDMARKS / MIB
    print(
        f"{N} x {COLUMNS}, density {DENSITY:.1%}: {size:.0f} MiB; kernel with {LANDMARKS} ", end=""
    )
    print(f"landmarks: {landmarks:.0f} MiB; dense: {8 * N * COLUMNS / MIB:.0f} MiB")
    y, views = np.arange(N) % 2, kq.MultiView({"text": X})
    # its kernel has full rank too, so that the ridge regression takes as much
    dense = kq.MultiView({"text": np.random.default_rng(0).standard_normal((N, LANDMARKS))})
    for kernels in ("linear", "cosine", "median_gaussian"):
        model = kq.LateFusionClassifier(LANDMARKS, kernels=kernels, random_state=0)
        alone = peak_of(lambda: model.fit(dense, y)) / MIB  # noqa: B023
        peak = peak_of(lambda: model.fit(views, y)) / MIB  # noqa: B023
        fitted = kq.ViewKernels(kernels).fit(views)
        chosen = np.arange(LANDMARKS)
        kernel = peak_of(lambda: fitted.kernel_between(views, 0, chosen)) / MIB  # noqa: B023
        print(
            f"{kernels}: kernel {kernel:.0f} MiB; fit {peak:.0f} MiB, of a dense view with ", end=""
        )
        print(f"as many columns as landmarks {alone:.0f} MiB")


if __name__ == "__main__":
    main()
