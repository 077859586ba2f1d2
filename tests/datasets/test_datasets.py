import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score, train_test_split

from kernelquilt.data.stack import KernelStack
from kernelquilt.data.validation import as_views
from kernelquilt.data.views import MultiView
from kernelquilt.datasets import load_example, make_absent, make_multiview, make_toy_kernels
from kernelquilt.metrics import alignment

nan = np.nan
MECHANISMS = ["balanced", "per_sample", "mcar", "block", "mnar"]


def complete(n, n_views, n_columns=2, seed=0):
    rng = np.random.default_rng(seed)
    return MultiView([rng.normal(size=(n, n_columns)) for _ in range(n_views)])


def n_absent(ratio, n_views):
    return min(int(np.floor(ratio * n_views + 0.5 + 1e-9)), n_views - 1)


class TestLoadExample:
    def test_digits(self):
        X, y = load_example()
        sizes = {name: X[name].shape[1] for name in X.names}
        assert sizes == {
            "pixels": 64,
            "profiles": 16,
            "frequencies": 21,
            "zones": 16,
            "gradients": 32,
        }
        assert X.shape == (1797, 5)
        assert np.unique(y).tolist() == list(range(10))

    def test_digits_descriptors(self):
        X, _ = load_example("digits")
        image = X["pixels"][0].reshape(8, 8)
        np.testing.assert_allclose(X["profiles"][0, :8], image.sum(axis=1))
        np.testing.assert_allclose(X["profiles"][0, 8:], image.sum(axis=0))
        assert X["zones"][0, 1] == image[:2, 2:4].mean()
        assert X["frequencies"][0, 0] == pytest.approx(image.sum() / 8)
        lengths = np.hypot(*np.gradient(image))
        quarters = X["gradients"][0].reshape(2, 2, 8).sum(axis=2)
        np.testing.assert_allclose(quarters[1, 0], lengths[4:, :4].sum())

    def test_wdbc(self):
        X, y = load_example("wdbc")
        assert X.names == ("mean", "error", "worst")
        assert X["error"].shape == (569, 10)
        assert dict(zip(*np.unique(y, return_counts=True), strict=True)) == {
            "benign": 357,
            "malignant": 212,
        }
        assert (X["worst"] >= X["mean"]).all()

    @pytest.mark.parametrize("name", ["digits", "wdbc"])
    def test_complete_and_finite(self, name):
        example = load_example(name)
        assert example.data.observed.all()
        assert all(np.isfinite(example.data[view]).all() for view in example.data.names)
        assert example.target.shape == (len(example.data),)

    def test_unknown(self):
        with pytest.raises(ValueError, match="'flowers'; the examples are 'digits', 'wdbc'"):
            load_example("flowers")


class TestMakeMultiview:
    def accuracy(self, block, y):
        return cross_val_score(LogisticRegression(), block, y, cv=5).mean()

    def test_shapes_and_determinism(self):
        X, y = make_multiview(31, 3, n_features=[1, 4, 2], n_classes=3, random_state=1)
        again, y_again = make_multiview(31, 3, n_features=[1, 4, 2], n_classes=3, random_state=1)
        assert [X[name].shape for name in X.names] == [(31, 1), (31, 4), (31, 2)]
        assert set(y) == {0, 1, 2}
        np.testing.assert_array_equal(y, y_again)
        for name in X.names:
            np.testing.assert_array_equal(X[name], again[name])

    def test_relevance(self):
        X, y = make_multiview(600, 3, relevance=[2, 0.5, 0], random_state=0)
        strong, weak, none = (self.accuracy(X[name], y) for name in X.names)
        assert strong > weak + 0.05 > none + 0.1
        assert abs(none - 0.5) < 0.07

    def test_default_relevance_decreases(self):
        X, y = make_multiview(600, 3, random_state=0)
        assert self.accuracy(X["view_0"], y) > self.accuracy(X["view_2"], y) + 0.2

    @pytest.mark.parametrize(("redundancy", "gains"), [(0.0, True), (1.0, False)])
    def test_redundancy(self, redundancy, gains):
        X, y = make_multiview(
            1000,
            4,
            relevance=np.ones(4),
            redundancy=redundancy,
            feature_noise=0.1,
            random_state=0,
        )
        together = self.accuracy(np.hstack([X[name] for name in X.names]), y)
        assert (together > self.accuracy(X["view_0"], y) + 0.04) == gains

    def test_irrelevant_view_is_independent_of_redundant_signal(self):
        X, _ = make_multiview(2000, 2, relevance=[5, 0], redundancy=1, random_state=0)
        correlation = np.corrcoef(X["view_0"].T, X["view_1"].T)[:5, 5:]
        assert np.abs(correlation).max() < 0.1

    def test_feature_noise(self):
        clean, y = make_multiview(300, 1, feature_noise=0, random_state=0)
        assert np.linalg.matrix_rank(clean["view_0"]) == 1
        noisy, _ = make_multiview(300, 1, feature_noise=5, random_state=0)
        assert self.accuracy(clean["view_0"], y) > self.accuracy(noisy["view_0"], y) + 0.1

    @pytest.mark.parametrize("n_classes", [2, 4])
    def test_label_noise_flips_that_many(self, n_classes):
        options = {"n_classes": n_classes, "random_state": 3}
        _, y = make_multiview(200, 2, **options)
        _, noisy = make_multiview(200, 2, label_noise=0.1, **options)
        assert (y != noisy).sum() == 20
        assert set(noisy) <= set(range(n_classes))

    def test_proportions(self):
        _, y = make_multiview(100, 1, n_classes=3, proportions=[5, 3, 2], random_state=0)
        assert np.bincount(y).tolist() == [50, 30, 20]
        assert (np.diff(y) < 0).any()

    def test_classes_are_three_apart(self):
        X, y = make_multiview(3000, 1, n_features=400, n_classes=3, feature_noise=0, random_state=0)
        centres = [X["view_0"][y == k].mean(axis=0) for k in range(3)]
        distances = [np.linalg.norm(centres[k] - centres[k - 1]) for k in range(3)]
        np.testing.assert_allclose(distances, 3, atol=0.3)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"n_samples": 0}, "n_samples must be at least 1"),
            ({"n_views": 0}, "n_views must be at least 1"),
            ({"n_classes": 1}, "n_classes must be at least 2"),
            ({"redundancy": 1.5}, "redundancy must be between 0 and 1"),
            ({"label_noise": nan}, "label_noise must be between 0 and 1"),
            ({"feature_noise": -1}, "feature_noise must be finite"),
            ({"relevance": [1, 2]}, "relevance must be one number for each of 5 views"),
            ({"relevance": [1, 1, 1, 1, -1]}, "relevance must be finite and at least 0"),
            ({"n_features": [3, 3]}, "n_features must be one number for each of 5 views"),
            ({"n_features": 0}, "n_features must be at least 1"),
            ({"proportions": [1]}, "proportions must be one number for each of 2 classes"),
            ({"proportions": [0, 0]}, "proportions must not all be 0"),
        ],
    )
    def test_errors(self, options, message):
        with pytest.raises(ValueError, match=message):
            make_multiview(**options)


class TestMechanisms:
    @given(
        n=st.integers(1, 30),
        n_views=st.integers(1, 9),
        ratio=st.floats(0, 1, exclude_max=True),
        mechanism=st.sampled_from(MECHANISMS),
        seed=st.integers(0, 2**32 - 1),
    )
    @settings(max_examples=150, deadline=None)
    def test_one_view_is_kept_and_absences_stay(self, n, n_views, ratio, mechanism, seed):
        X = complete(n, n_views)
        before = np.random.default_rng(seed).uniform(size=(n, n_views)) < 0.7
        X = MultiView([X[name] for name in X.names], before)
        made = make_absent(X, ratio, mechanism=mechanism, random_state=seed)
        assert not (made.observed & ~before).any()
        np.testing.assert_array_equal(made.observed.any(axis=1), before.any(axis=1))
        for name, present in zip(X.names, made.observed.T, strict=True):
            np.testing.assert_array_equal(made[name][present], X[name][present])
            assert np.isnan(made[name][~present]).all()
        again = make_absent(X, ratio, mechanism=mechanism, random_state=seed)
        np.testing.assert_array_equal(made.observed, again.observed)

    @given(
        n=st.integers(1, 60),
        n_views=st.integers(1, 9),
        share=st.floats(0, 1),
        seed=st.integers(0, 2**32 - 1),
    )
    @settings(max_examples=150, deadline=None)
    def test_balanced_reaches_the_ratio(self, n, n_views, share, seed):
        ratio = share * (1 - 1 / n_views)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            observed = make_absent(complete(n, n_views), ratio, random_state=seed).observed
        assert abs((~observed).sum() - ratio * observed.size) <= 0.5 + 1e-6
        assert np.ptp(observed.sum(axis=1)) <= 1

    def test_balanced_counts_the_views_that_samples_have(self):
        X = complete(300, 4)
        before = np.random.default_rng(0).uniform(size=(300, 4)) < 0.8
        before[:, 0] = before[:, 1] = True
        X = MultiView([X[name] for name in X.names], before)
        observed = make_absent(X, 0.4, random_state=0).observed
        assert observed.sum() == round(0.6 * before.sum())

    def test_balanced_is_per_sample_where_nothing_is_rounded(self):
        X = complete(30, 5)
        np.testing.assert_array_equal(
            make_absent(X, 0.4, random_state=7).observed,
            make_absent(X, 0.4, mechanism="per_sample", random_state=7).observed,
        )

    @pytest.mark.parametrize("ratio", [0.1, 0.2, 0.3, 0.4])
    def test_two_views_on_average_over_samples(self, ratio):
        observed = make_absent(complete(4000, 2), ratio, random_state=0).observed
        assert 1 - observed.mean() == pytest.approx(ratio, abs=1e-3)
        np.testing.assert_allclose(1 - observed.mean(axis=0), ratio, atol=0.03)

    @pytest.mark.parametrize(
        ("n_views", "ratio", "mechanism", "message"),
        [
            (2, 0.2, "per_sample", r"0\.0 % of the views were made absent and not 20\.0 %.*whole"),
            (2, 0.3, "per_sample", r"50\.0 % .* not 30\.0 %.*'balanced' comes closer"),
            (3, 0.4, "block", r"33\.3 % .* not 40\.0 %.*'block' takes a whole number"),
            (2, 0.7, "balanced", r"50\.0 % .* not 70\.0 %: every sample keeps one of its views"),
            (2, 0.7, "per_sample", r"50\.0 % .* not 70\.0 %: every sample keeps one of its views"),
            (2, 0.6, "mcar", "not 60.0 %: every sample keeps one of its views"),
            (1, 0.3, "mnar", r" 0\.0 % of the views were made absent and not 30\.0 %: every"),
        ],
    )
    def test_what_was_reached_is_said(self, n_views, ratio, mechanism, message):
        with pytest.warns(UserWarning, match=message.lstrip()) as caught:
            make_absent(complete(500, n_views), ratio, mechanism=mechanism, random_state=0)
        assert len(caught) == 1
        assert caught[0].filename == __file__

    @pytest.mark.parametrize("mechanism", MECHANISMS)
    def test_nothing_is_said_where_the_ratio_is_reached(self, mechanism):
        for seed in range(20):
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                made = make_absent(complete(60, 10), 0.3, mechanism=mechanism, random_state=seed)
            assert abs((~made.observed).mean() - 0.3) < 0.1

    @given(n_views=st.integers(1, 40), ratio=st.floats(0, 1, exclude_max=True))
    @settings(max_examples=80, deadline=None)
    @pytest.mark.parametrize("mechanism", ["per_sample", "block"])
    def test_every_sample_lacks_the_rounded_number(self, mechanism, n_views, ratio):
        made = make_absent(complete(12, n_views), ratio, mechanism=mechanism, random_state=0)
        assert (made.observed.sum(axis=1) == n_views - n_absent(ratio, n_views)).all()

    @pytest.mark.parametrize(
        ("n_views", "ratio", "expected"), [(69, 0.5, 35), (10, 0.35, 4), (5, 0.9, 4), (4, 0.1, 0)]
    )
    def test_half_is_rounded_up(self, n_views, ratio, expected):
        made = make_absent(complete(3, n_views), ratio, mechanism="per_sample", random_state=0)
        assert (~made.observed).sum(axis=1).tolist() == [expected] * 3

    def test_per_sample_takes_the_smallest_uniforms(self):
        made = make_absent(complete(20, 5), 0.4, mechanism="per_sample", random_state=7)
        uniforms = np.random.RandomState(7).uniform(size=(20, 5))
        third = np.sort(uniforms, axis=1)[:, [2]]
        np.testing.assert_array_equal(made.observed, uniforms >= third)

    def test_mcar_rate_and_independence(self):
        observed = make_absent(complete(4000, 6), 0.3, mechanism="mcar", random_state=0).observed
        np.testing.assert_allclose(1 - observed.mean(axis=0), 0.3, atol=0.03)
        assert np.abs(np.corrcoef(observed.T) - np.eye(6)).max() < 0.06
        assert len(np.unique(observed, axis=0)) == 63

    @pytest.mark.parametrize("ratio", [0.2, 0.5, 0.8, 0.95])
    def test_block_has_few_patterns_and_loses_no_view(self, ratio):
        observed = make_absent(complete(400, 8), ratio, mechanism="block", random_state=1).observed
        patterns = np.unique(observed, axis=0)
        assert len(patterns) <= 8
        assert patterns.any(axis=0).all()
        if ratio <= 0.5:
            assert len(patterns) <= 4

    @pytest.mark.parametrize("ratio", [0.2, 0.5, 0.7])
    def test_mnar_hides_large_values(self, ratio):
        X = complete(3000, 10)
        observed = make_absent(X, ratio, mechanism="mnar", random_state=0).observed
        assert 1 - observed.mean() == pytest.approx(ratio, abs=0.03)
        for name, present in zip(X.names, observed.T, strict=True):
            level = X[name].mean(axis=1)
            assert level[~present].mean() > level[present].mean() + 0.2

    def test_mnar_with_constant_column_missing_cells_and_absent_view(self):
        block = np.column_stack([np.ones(50), np.arange(50.0), np.full(50, nan)])
        block[3, 1] = nan
        X = MultiView({"a": block, "gone": np.full((50, 1), nan), "b": np.ones((50, 2))})
        made = make_absent(X, 0.5, mechanism="mnar", random_state=0)
        assert made.observed[:25, 0].sum() > made.observed[25:, 0].sum()

    @pytest.mark.parametrize("mechanism", MECHANISMS)
    def test_zero_changes_nothing(self, mechanism):
        X = complete(20, 3)
        assert make_absent(X, 0, mechanism=mechanism).observed.all()
        assert X.observed.all()

    @pytest.mark.parametrize("ratio", [-0.1, 1, 1.2, nan])
    def test_ratio_error(self, ratio):
        with pytest.raises(ValueError, match="ratio must be at least 0 and less than 1"):
            make_absent(complete(3, 2), ratio)

    def test_unknown_mechanism(self):
        with pytest.raises(
            ValueError, match="'mar'; the mechanisms are 'balanced', 'per_sample', 'mcar', 'block'"
        ):
            make_absent(complete(3, 2), 0.5, mechanism="mar")


class TestContainers:
    def stack(self, dtype=np.float64):
        rng = np.random.default_rng(0)
        factors = rng.normal(size=(4, 30, 3)) + 1
        return KernelStack((factors @ factors.transpose(0, 2, 1)).astype(dtype), names=list("abcd"))

    @pytest.mark.parametrize("mechanism", MECHANISMS)
    def test_stack_shares_the_gram(self, mechanism):
        stack = self.stack(np.float32)
        made = make_absent(stack, 0.5, mechanism=mechanism, random_state=0)
        assert np.shares_memory(made.gram(), stack.gram())
        assert made.token == stack.token
        assert made.names == stack.names
        assert stack.observed.all()
        assert not made.observed.all()
        assert made.observed.any(axis=1).all()

    def test_sliced_stack(self):
        stack = self.stack()[[3, 5, 5, 20]]
        made = make_absent(stack, 0.5, random_state=0)
        assert made.ids.tolist() == [3, 5, 5, 20]
        np.testing.assert_array_equal(made.gram(), stack.gram())
        assert made.observed.sum(axis=1).tolist() == [2] * 4

    def test_stack_and_views_get_the_same_mask(self):
        views, stack = complete(30, 4), self.stack()
        for mechanism in ("balanced", "per_sample", "mcar", "block"):
            np.testing.assert_array_equal(
                make_absent(views, 0.4, mechanism=mechanism, random_state=5).observed,
                make_absent(stack, 0.4, mechanism=mechanism, random_state=5).observed,
            )

    def test_mnar_on_kernels_hides_the_central(self):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(500, 1))
        K = np.exp(-((X - X.T) ** 2))
        K[7] = K[:, 7] = nan
        observed = np.arange(500) != 7
        square = KernelStack([K, K], np.column_stack([observed, observed]))
        rectangular = KernelStack(np.stack([K, K])[:, :, :499], square.observed)
        for stack in (square, rectangular):
            made = make_absent(stack, 0.4, mechanism="mnar", random_state=0)
            outer = np.abs(X[:, 0]) > 1
            assert made.observed[outer, 0].mean() > made.observed[~outer, 0].mean() + 0.2
            assert not made.observed[7].any()

    def test_array(self):
        X = np.arange(24).reshape(4, 6)
        views = {"a": [0, 2], "b": slice(3, 5)}
        made = make_absent(X, 0.5, views=views, random_state=0)
        assert type(made) is np.ndarray
        assert X.dtype.kind == "i"
        observed = as_views(made, views).observed
        assert observed.sum(axis=1).tolist() == [1] * 4
        np.testing.assert_array_equal(made[:, [1, 5]], X[:, [1, 5]])
        np.testing.assert_array_equal(np.isnan(made[:, 0]), ~observed[:, 0])
        assert make_absent(X.astype(np.float32), 0.5, views=views).dtype == np.float32

    def test_frame(self):
        frame = pd.DataFrame(
            {"a": [1, 2, 3], "b": [0.5, nan, 1.5], "label": list("xyz")}, index=list("ijk")
        )
        made = make_absent(frame, 0.5, views={"one": "a", "two": "b"}, random_state=0)
        assert isinstance(made, pd.DataFrame)
        assert made["label"].tolist() == list("xyz")
        assert made.index.tolist() == list("ijk")
        assert made["a"].isna().sum() + made["b"].isna().sum() == 3
        assert made.loc["j", "a"] == 2
        assert frame["a"].tolist() == [1, 2, 3]

    def test_frame_with_view_level(self):
        columns = pd.MultiIndex.from_product([["mri", "rna"], ["x", "y"]])
        frame = pd.DataFrame(np.ones((6, 4)), columns=columns)
        made = make_absent(frame, 0.5, random_state=0)
        assert made.columns.equals(columns)
        assert as_views(made).observed.sum(axis=1).tolist() == [1] * 6

    def test_dict_becomes_multiview(self):
        made = make_absent({"a": np.ones((3, 1)), "b": np.ones((3, 2))}, 0.5, random_state=0)
        assert made.names == ("a", "b")
        assert made.observed.sum() == 3

    def test_index_is_kept(self):
        X = MultiView({"a": np.ones((2, 1)), "b": np.ones((2, 1))}, index=["s", "t"])
        assert make_absent(X, 0.5).index.tolist() == ["s", "t"]

    def test_two_dimensional_data_need_views(self):
        with pytest.raises(ValueError, match="views="):
            make_absent(np.ones((3, 2)), 0.5)

    def test_views_of_containers_are_refused(self):
        with pytest.raises(ValueError, match="views="):
            make_absent(self.stack(), 0.5, views={"a": [0]})

    def test_overlapping_views(self):
        with pytest.raises(ValueError, match="1 columns belong to several views"):
            make_absent(np.ones((3, 3)), 0.5, views={"a": [0, 1], "b": [1, 2]})

    def test_result_is_split_by_scikit_learn(self):
        X, y = load_example("wdbc")
        train, test, _, _ = train_test_split(make_absent(X, 1 / 3, random_state=0), y, stratify=y)
        assert (train.observed.sum(axis=1) == 2).all()
        assert (test.observed.sum(axis=1) == 2).all()


class TestToyKernels:
    @pytest.mark.parametrize("kind", ["TOYL", "TOYG5", "TOYG1", "TOYG0.1", "TOYLG1"])
    def test_unit_diagonal_and_psd(self, kind):
        stack = make_toy_kernels(kind, 40, random_state=0).check_psd()
        assert stack.shape == (40, 5)
        np.testing.assert_array_equal(stack.diag, 1.0)
        assert stack.observed.all()

    def test_kinds_of_kernels(self):
        linear, mixed, gaussian = (
            make_toy_kernels(kind, 60, random_state=0).gram()
            for kind in ("TOYL", "TOYLG1", "TOYG1")
        )
        ranks = [np.linalg.matrix_rank(kernel, tol=1e-8) for kernel in linear]
        assert ranks == [5, 5, 10, 10, 10]
        np.testing.assert_array_equal(mixed[:3], linear[:3])
        np.testing.assert_array_equal(mixed[3:], gaussian[3:])

    def test_groups_share_their_coefficients(self):
        stack = make_toy_kernels("TOYG1", 200, random_state=0)
        related = np.array([alignment(stack, kernel) for kernel in stack.gram()])
        across = related[:2, 2:].max()
        assert related[0, 1] > 2 * across
        assert related[2:, 2:].min() > 2 * across

    def test_errors(self):
        with pytest.raises(ValueError, match=r"kind must be one of TOYL, .* got 'TOY'"):
            make_toy_kernels("TOY")
        with pytest.raises(ValueError, match="at least 10, got 5"):
            make_toy_kernels("TOYL", 5)
