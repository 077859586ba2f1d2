import pickle
import tracemalloc
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.metrics.pairwise import laplacian_kernel, polynomial_kernel, rbf_kernel
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kernelquilt.data.transformer import ViewTransformer
from kernelquilt.data.views import MultiView
from kernelquilt.kernels.functions import (
    Gaussian,
    Jaccard,
    LatentSemantic,
    gaussian_bank,
    squared_distances,
)
from kernelquilt.kernels.view_kernels import ViewKernels

nan = np.nan


def make_views(n=12, seed=0):
    rng = np.random.default_rng(seed)
    mri, rna = rng.normal(size=(n, 3)), rng.normal(size=(n, 40)) + 5
    mri[[1, 4]] = nan
    rna[[0, 4, 7]] = nan
    return MultiView({"mri": mri, "rna": rna})


def eigenvalues(K):
    return np.linalg.eigvalsh(K)


class TestGaussian:
    def test_width_is_the_weighted_mean_distance_over_all_pairs(self):
        rng = np.random.default_rng(0)
        A, w = rng.normal(size=(300, 3)), rng.uniform(size=300)
        expected = 0.5 * (w @ cdist(A, A) @ w) / w.sum() ** 2
        assert Gaussian(0.5).fit(A, sample_weight=w).width_ == pytest.approx(expected)
        assert Gaussian().fit(A).width_ == pytest.approx(cdist(A, A).mean())

    @pytest.mark.parametrize("d", [2, 50])
    def test_weights_are_repetitions(self, d):
        rng = np.random.default_rng(1)
        A, w = rng.normal(size=(20, d)), rng.integers(0, 4, size=20)
        repeated = Gaussian().fit(np.repeat(A, w, axis=0)).width_
        assert Gaussian().fit(A, sample_weight=w).width_ == pytest.approx(repeated, rel=1e-13)

    def test_equal_samples(self):
        assert Gaussian(0.1).fit(np.ones((3, 2))).width_ == 1.0

    @pytest.mark.parametrize("d", [3, 60])
    def test_values(self, d):
        rng = np.random.default_rng(2)
        A, B = rng.normal(size=(9, d)), rng.normal(size=(5, d))
        kernel = Gaussian(2.0).fit(A)
        np.testing.assert_allclose(kernel(A, B), rbf_kernel(A, B, gamma=0.5 / kernel.width_**2))
        K = kernel(A)
        np.testing.assert_array_equal(K, K.T)
        np.testing.assert_array_equal(np.diagonal(K), 1.0)

    @given(scale=st.floats(1e-3, 1e3), shift=st.floats(-1e3, 1e3), d=st.sampled_from([2, 40]))
    @settings(max_examples=25, deadline=None)
    def test_positive_semi_definite_and_invariant_to_shift_and_scale(self, scale, shift, d):
        A = np.random.default_rng(3).normal(size=(15, d))
        K = Gaussian(0.5).fit(A)(A)
        B = scale * A + shift
        assert eigenvalues(K)[0] > -1e-12
        np.testing.assert_allclose(Gaussian(0.5).fit(B)(B), K, rtol=1e-6)

    @pytest.mark.parametrize("scale", [0.0, -1.0, nan, np.inf])
    def test_wrong_scale(self, scale):
        with pytest.raises(ValueError, match="scale of Gaussian"):
            Gaussian(scale).fit(np.ones((2, 2)))

    def test_unfitted(self):
        with pytest.raises(NotFittedError):
            Gaussian()(np.ones((2, 2)))

    def test_bank(self):
        linear = [kernel.scale for kernel in gaussian_bank()]
        assert len(linear) == 20
        assert (linear[0], linear[-1]) == (2**-7, 2**7)
        np.testing.assert_allclose(np.diff(linear), np.diff(linear)[0])
        log = [kernel.scale for kernel in gaussian_bank(15, spacing="log")]
        np.testing.assert_allclose(log, 2.0 ** np.arange(-7, 8))
        with pytest.raises(ValueError, match="spacing"):
            gaussian_bank(spacing="cubic")
        with pytest.raises(ValueError, match="low"):
            gaussian_bank(3, low=0.0)

    def test_distances_of_close_pairs_do_not_cancel(self):
        rng = np.random.default_rng(4)
        A = rng.normal(size=(30, 100)) + 1e3
        B = np.vstack([A[:10], A[10:20] + 1e-6, rng.normal(size=(5, 100)) + 1e3])
        np.testing.assert_allclose(
            squared_distances(A, B), cdist(A, B, "sqeuclidean"), rtol=1e-9, atol=0
        )
        assert (np.diagonal(squared_distances(A, A.copy())) == 0).all()


class TestJaccard:
    def test_values(self):
        A = np.array([[1.0, 0, 2], [0, 0, 0], [0, 3, 1]])
        expected = [[1, 0, 1 / 3], [0, 1, 0], [1 / 3, 0, 1]]
        np.testing.assert_allclose(Jaccard()(A), expected)
        np.testing.assert_allclose(Jaccard()(A[:1], A), expected[:1])

    def test_positive_semi_definite(self):
        A = np.random.default_rng(0).integers(0, 2, size=(40, 6)).astype(float)
        assert eigenvalues(Jaccard()(A))[0] > -1e-10


class TestLatentSemantic:
    def test_all_components_give_the_cosine(self):
        A = np.random.default_rng(0).normal(size=(7, 4))
        unit = A / np.linalg.norm(A, axis=1, keepdims=True)
        np.testing.assert_allclose(LatentSemantic().fit(A)(A), unit @ unit.T)

    def test_rank_is_found_and_orthogonal_samples_are_zero(self):
        A = np.random.default_rng(0).normal(size=(7, 2)) @ np.eye(2, 5)
        kernel = LatentSemantic().fit(A)
        assert kernel.components_.shape == (2, 5)
        new = np.array([[0.0, 0, 1, 2, 3], [0, 0, 0, 0, 0], [1, 0, 9, 9, 9]])
        np.testing.assert_array_equal(kernel(new, A)[:2], 0)
        assert kernel(new)[2, 2] == pytest.approx(1)
        assert LatentSemantic().fit(np.zeros((3, 2)))(np.ones((1, 2))) == 0

    def test_weights_are_repetitions(self):
        rng = np.random.default_rng(1)
        A, w = rng.normal(size=(10, 6)), rng.integers(0, 3, size=10)
        K = LatentSemantic(2).fit(A, sample_weight=w)(A)
        np.testing.assert_allclose(K, LatentSemantic(2).fit(np.repeat(A, w, axis=0))(A), atol=1e-9)
        assert eigenvalues(K)[0] > -1e-12

    def test_wrong_number(self):
        with pytest.raises(ValueError, match="n_components"):
            LatentSemantic(0).fit(np.ones((2, 2)))


KERNELS = [
    "gaussian",
    "rbf",
    "linear",
    "latent_semantic",
    "jaccard",
    RBF(2.0),
    laplacian_kernel,
    gaussian_bank(3, 0.25, 4, spacing="log"),
    {"mri": ["linear", Gaussian(0.5)], "rna": partial(polynomial_kernel, degree=2)},
]


class TestViewKernels:
    @pytest.mark.parametrize("kernels", KERNELS)
    @pytest.mark.parametrize("dtype", [np.float64, np.float32])
    def test_transform_of_the_training_samples_equals_fit_transform(self, kernels, dtype):
        X, model = make_views(), ViewKernels(kernels, dtype=dtype)
        stack = model.fit_transform(X)
        again = model.transform(X)
        rtol = 1e-12 if dtype == np.float64 else 1e-6
        np.testing.assert_allclose(again.gram(), stack.gram(), rtol=rtol, atol=rtol)
        np.testing.assert_allclose(list(model.iter_kernels(X)), again.gram(), rtol=rtol)
        np.testing.assert_allclose(again.diag, stack.diag, rtol=rtol)
        np.testing.assert_array_equal(again.observed, stack.observed)
        assert stack.square
        assert not again.square
        assert stack.dtype == again.dtype == dtype
        assert stack.names == again.names == model.kernel_names_
        assert model.get_feature_names_out().tolist() == list(stack.names)

    @pytest.mark.parametrize("kernels", KERNELS)
    def test_absent_entries_are_zero_and_training_needs_no_copy(self, kernels):
        X = make_views()
        stack = ViewKernels(kernels).fit_transform(X)
        views = [X.names.index(name.split("__")[0]) for name in stack.names]
        np.testing.assert_array_equal(stack.observed, X.observed[:, views])
        K, _ = stack.training_gram()
        assert K is stack.gram()
        for kernel, present in zip(K, stack.observed.T, strict=True):
            assert not kernel[~present].any()
            assert not kernel[:, ~present].any()
            assert (np.diagonal(kernel)[present] > 0).all()
        stack.check_psd()

    def test_statistics_use_only_samples_with_the_view(self):
        X = make_views()
        model = ViewKernels().fit(X)
        A = X["mri"][X.observed[:, 0]]
        assert model.kernels_[0].width_ == pytest.approx(cdist(A, A).mean())

    def test_sample_weight(self):
        X, w = make_views(), np.arange(12)
        weighted = ViewKernels(["gaussian", LatentSemantic(2)]).fit(X, sample_weight=w)
        repeated = ViewKernels(["gaussian", LatentSemantic(2)]).fit(X[np.repeat(np.arange(12), w)])
        assert weighted.kernels_[0].width_ == pytest.approx(repeated.kernels_[0].width_)
        for m in range(4):
            A = X[X.observed.all(axis=1)][X.names[m // 2]]
            np.testing.assert_allclose(weighted.kernels_[m](A), repeated.kernels_[m](A), atol=1e-9)
        with pytest.raises(ValueError, match="1 of 12 sample weights are negative"):
            ViewKernels().fit(X, sample_weight=w - 0.5)

    def test_new_samples(self):
        X = make_views()
        train, test = X[:8], X[8:]
        stack = ViewKernels("rbf").fit(train).transform(test)
        assert stack.shape == (4, 2)
        assert stack.n_cols == 8
        present = train.observed[:, 0]
        expected = rbf_kernel(test["mri"], train["mri"][present])
        np.testing.assert_allclose(stack.gram()[0][:, present], expected)
        np.testing.assert_array_equal(stack.diag[0], 1.0)

    def test_only_needed_kernels_are_computed(self):
        X = make_views()
        calls = []

        def counted(A, B):
            calls.append(A.shape)
            return A @ B.T

        model = ViewKernels([Gaussian(0.5), counted, "rbf"]).fit(X)
        needed = np.array([False, False, True, True, False, False])
        kernels = list(model.iter_kernels(X, needed))
        assert not calls
        np.testing.assert_allclose(kernels, model.transform(X).gram()[needed], rtol=1e-12)

    def test_new_samples_without_a_view(self):
        X = make_views()
        stack = ViewKernels(["gaussian", "rbf"]).fit(X).transform(X[[4]])
        assert not stack.observed.any()
        assert not stack.gram().any()
        assert not stack.diag.any()

    def test_two_dimensional_data(self):
        X = make_views()
        flat = np.hstack([X["mri"], X["rna"]])
        model = ViewKernels(views={"mri": slice(0, 3), "rna": slice(3, None)})
        np.testing.assert_array_equal(
            model.fit_transform(flat).gram(), ViewKernels().fit_transform(X).gram()
        )
        assert model.n_features_in_ == 43
        assert model.__sklearn_tags__().input_tags.allow_nan
        assert not ViewKernels().__sklearn_tags__().input_tags.allow_nan

    @pytest.mark.parametrize(
        ("kernels", "names"),
        [
            ("gaussian", ["gaussian_1"]),
            (Gaussian(0.25), ["gaussian_0.25"]),
            (["rbf", "rbf", "rbf"], ["rbf", "rbf_2", "rbf_3"]),
            (partial(partial(rbf_kernel, gamma=1.0)), ["rbf_kernel"]),
            (lambda A, B: A @ B.T, ["lambda"]),
            ([RBF(), "latent_semantic", Jaccard()], ["RBF", "latent_semantic_100", "jaccard"]),
        ],
    )
    def test_names(self, kernels, names):
        several = [*(kernels if isinstance(kernels, list) else [kernels]), "linear"]
        model = ViewKernels({"mri": several, "age": kernels}).fit(
            {"mri": np.eye(3), "age": np.eye(3)}
        )
        of_age = ["age"] if len(names) == 1 else [f"age__{name}" for name in names]
        assert model.kernel_names_ == (*(f"mri__{name}" for name in [*names, "linear"]), *of_age)

    def test_noise_kernel_is_the_same_for_training_and_new_samples(self):
        X, model = {"a": np.eye(3)}, ViewKernels(RBF() + WhiteKernel())
        np.testing.assert_allclose(model.fit_transform(X).diag, 1.0)
        np.testing.assert_allclose(model.transform(X).diag, 1.0)

    @pytest.mark.parametrize(
        ("kernels", "message"),
        [
            ("gausian", "unknown kernel 'gausian'; the names are 'gaussian', 'median_gaussian', "),
            ("precomputed", "unknown kernel 'precomputed'"),
            (3, "a kernel is a name"),
            (Gaussian, "a kernel is a name"),
            ([], "empty for views 'mri', 'rna'"),
            ({"mri": "rbf"}, "not given for views 'rna'"),
            ({"mri": "rbf", "rna": "rbf", "pet": "rbf"}, "unknown views 'pet'"),
            ("chi2", "'mri' could not be computed.*[Nn]egative"),
            (lambda A, B: A[:, :1], r"'mri' must return shape \(10, 10\).*\(10, 1\)"),
            (lambda A, B: np.full((len(A), len(B)), nan), "'mri' has 100 entries.*10 of"),
        ],
    )
    def test_wrong_kernels(self, kernels, message):
        model = ViewKernels(kernels)
        with pytest.raises(ValueError, match=message):
            model.fit_transform(make_views())
        assert set(vars(model)) == {"kernels", "views", "dtype"}

    def test_wrong_dtype(self):
        with pytest.raises(ValueError, match="float32 or float64"):
            ViewKernels(dtype=int).fit(np.eye(2))

    def test_view_absent_for_all_training_samples(self):
        X = make_views()
        train = MultiView({"mri": np.full((12, 3), nan), "rna": X["rna"]})
        model = ViewKernels(["gaussian", "rbf"])
        with pytest.warns(UserWarning, match=r"1 of 2 views absent for all 12 .*'mri'"):
            stack = model.fit_transform(train)
        assert not stack.observed[:, :2].any()
        assert not stack.gram()[:2].any()
        new = model.transform(X)
        assert not new.observed[:, :2].any()
        assert not new.gram()[:2].any()
        assert new.gram()[2:].any()

    def test_predicting_with_other_views(self):
        X = make_views()
        model = ViewKernels().fit(X)
        np.testing.assert_array_equal(
            model.transform(X.select(["rna", "mri"])).gram(), model.transform(X).gram()
        )
        alone = model.transform(X.select(["mri"]))
        np.testing.assert_array_equal(alone.gram()[0], model.transform(X).gram()[0])
        assert not alone.observed[:, 1].any()
        with pytest.raises(NotFittedError):
            ViewKernels().transform(X)

    def test_partial_nan_points_to_the_remedy(self):
        X = {"a": np.array([[1.0, nan], [2.0, 3.0], [4.0, 5.0]])}
        with pytest.raises(ValueError, match=r"'a' has NaN.*ViewTransformer"):
            ViewKernels().fit(X)

    def test_pipeline_clone_and_pickle(self):
        X = make_views()
        model = make_pipeline(ViewTransformer(StandardScaler()), ViewKernels())
        model = clone(model).set_params(viewkernels__kernels=[Gaussian(0.5), "rbf"])
        stack = model.fit_transform(X)
        restored = pickle.loads(pickle.dumps(model))
        np.testing.assert_allclose(restored.transform(X).gram(), stack.gram(), atol=1e-12)

    def test_parameters_are_not_changed(self):
        kernel = Gaussian()
        ViewKernels([kernel]).fit(make_views())
        assert not hasattr(kernel, "width_")

    def test_garbage_in_absent_rows_changes_no_bit(self):
        X, rng = make_views(), np.random.default_rng(5)
        noisy = {}
        for name, present in zip(X.names, X.observed.T, strict=True):
            garbage = rng.normal(size=X[name].shape) * 1e6
            noisy[name] = np.where(present[:, None], X[name], garbage)
        Y = MultiView(noisy, observed=X.observed)
        kernels = ["gaussian", "rbf", "latent_semantic"]
        first, second = ViewKernels(kernels).fit(X), ViewKernels(kernels).fit(Y)
        np.testing.assert_array_equal(first.transform(X).gram(), second.transform(Y).gram())
        np.testing.assert_array_equal(first.transform(X).diag, second.transform(Y).diag)

    def test_prediction_holds_few_kernels_at_a_time(self):
        X = MultiView({"a": np.random.default_rng(0).normal(size=(400, 3))})
        model = ViewKernels(gaussian_bank(20)).fit(X)
        tracemalloc.start()
        for kernel in model.iter_kernels(X):
            assert kernel.shape == (400, 400)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 6 * 8 * 400 * 400
