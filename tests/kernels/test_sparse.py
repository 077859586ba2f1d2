"""Kernels of sparse matrices: the same numbers as of dense ones, and little memory."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn.gaussian_process.kernels import RBF

import kernelquilt as kq
from kernelquilt.kernels.functions import inner_products, squared_distances

KERNELS = ["linear", "cosine", "polynomial", "rbf", "gaussian", "median_gaussian", "jaccard"]


def counts(n, d, seed=0, density=0.1):
    rng = np.random.default_rng(seed)
    X = np.where(rng.random((n, d)) < density, rng.integers(1, 5, (n, d)), 0).astype(float)
    X[0] = 0.0
    return X


@pytest.mark.parametrize("kernels", [*KERNELS, kq.gaussian_bank(3, 0.5, 2), RBF()])
@pytest.mark.parametrize("form", [sparse.csr_array, sparse.coo_matrix, sparse.dok_array])
def test_kernels_equal_those_of_dense_data(kernels, form):
    X = counts(30, 60)
    observed = np.random.default_rng(1).random((30, 1)) < 0.8
    weight = np.arange(30.0)
    dense = kq.MultiView({"text": X}, observed)
    thin = kq.MultiView({"text": form(X)}, observed)
    of_dense = kq.ViewKernels(kernels).fit(dense[:20], sample_weight=weight[:20])
    if isinstance(kernels, RBF):
        with pytest.raises(ValueError, match="'text' cannot be computed of a sparse view"):
            kq.ViewKernels(kernels).fit_transform(thin)
        return
    of_thin = kq.ViewKernels(kernels).fit(thin[:20], sample_weight=weight[:20])
    for one, other in (
        (of_dense.transform(dense), of_thin.transform(thin)),
        (of_dense.transform(dense), of_dense.transform(thin)),
        (of_dense.transform(dense), of_thin.transform(dense)),
    ):
        np.testing.assert_allclose(other.gram(), one.gram(), rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(other.diag, one.diag, rtol=1e-9)
        np.testing.assert_array_equal(other.observed, one.observed)
    square = kq.ViewKernels(kernels).fit_transform(thin).gram()
    np.testing.assert_array_equal(square, square.transpose(0, 2, 1))


@given(seed=st.integers(0, 2**20), shift=st.sampled_from([0.0, 1e-9, 1e-3]))
@settings(max_examples=25, deadline=None)
def test_distances_are_exact_for_equal_and_close_rows(seed, shift):
    A = 1e3 * counts(12, 40, seed)
    B = np.vstack([A[:6] * (1 + shift), counts(4, 40, seed + 1)])
    found = squared_distances(sparse.csr_array(A), sparse.csr_array(B))
    np.testing.assert_allclose(found, cdist(A, B, "sqeuclidean"), rtol=1e-9)
    assert (np.diagonal(squared_distances(sparse.csr_array(A), sparse.csr_array(A))) == 0).all()
    np.testing.assert_allclose(inner_products(sparse.csr_array(A), sparse.csr_array(B)), A @ B.T)


def test_kernels_that_need_dense_data_say_so():
    views = {"text": sparse.csr_array(counts(20, 30))}
    for kernel, name in (("latent_semantic", "latent_semantic_100"), ("chi2", "text")):
        with pytest.raises(ValueError, match=f"{name}.*sparse view.*'cosine'.*TruncatedSVD"):
            kq.ViewKernels(kernel).fit_transform(views)


@pytest.mark.parametrize("landmarks", ["uniform", "kmeans", "pivoted_cholesky"])
def test_landmarks_of_sparse_views(landmarks):
    X = counts(60, 40)
    options = {"n_components": 8, "method": "nystroem", "landmarks": landmarks, "random_state": 0}
    thin = kq.EmpiricalKernelMap(kernels="linear", **options).fit({"text": sparse.csr_array(X)})
    assert len(thin.landmarks_[0]) == 8
    assert np.isfinite(thin.transform({"text": sparse.csr_array(X)})["text"]).all()


def test_kernels_may_return_sparse_matrices():
    X = sparse.csr_array(counts(20, 30))
    found = kq.ViewKernels(lambda A, B: A @ B.T).fit_transform({"text": X}).gram()[0]
    np.testing.assert_array_equal(found, (X @ X.T).toarray())


def peak_of(action):
    """Return the bytes that an action holds at most beyond what there was."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        action()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("kernels", ["linear", "cosine", "median_gaussian"])
def test_a_large_view_costs_no_more_than_its_values_and_its_kernel(kernels):
    n, d, per_row, n_landmarks = 20_000, 50_000, 50, 50
    rng = np.random.default_rng(0)
    columns = np.sort(rng.integers(0, d, (n, per_row), dtype=np.int32), axis=1).ravel()
    indptr = np.arange(0, n * per_row + 1, per_row, dtype=np.int32)
    X = sparse.csr_array((rng.random(n * per_row), columns, indptr), shape=(n, d))
    X.sum_duplicates()
    size = X.data.nbytes + X.indices.nbytes + X.indptr.nbytes
    y = np.arange(n) % 2
    views, plain = kq.MultiView({"text": X}), kq.MultiView({"text": rng.random((n, 1))})
    classifier = kq.LateFusionClassifier(n_landmarks, kernels=kernels, random_state=0)
    # what the classifier itself needs is what it needs for a view of one column
    of_thin = peak_of(lambda: classifier.fit(views, y).predict(views[:2000]))
    of_column = peak_of(lambda: classifier.fit(plain, y).predict(plain[:2000]))
    # 2000 samples at most, and their distances, decide on the width
    widths = 2 * 8 * 2000**2 if kernels == "median_gaussian" else 0
    assert of_thin <= max(of_column, widths) + 3 * size
    model = kq.ViewKernels(kernels).fit(views)
    landmarks = np.arange(n_landmarks)
    between = peak_of(lambda: model.kernel_between(views, 0, landmarks))
    assert between <= 8 * n * n_landmarks + 3 * size
