"""Numerics on features: of the joint kernel, regressions between views, ridges."""

import numpy as np
import pytest

import kernelquilt as kq
from kernelquilt.quilt.space.experts import joint_map, times_triangular
from kernelquilt.quilt.space.pair_maps import ByFeatures, BySamples, compact, rounded
from kernelquilt.quilt.space.regressions import Copies
from kernelquilt.quilt.space.ridge import PENALTIES, Sums, fit_feature_ridge, fit_ridge
from kernelquilt.quilt.space.transfer import solve_transfer
from kernelquilt.quilt.space.weighted import kernels_of
from kernelquilt.quilt.space.weighted_ridge import WeightedFeatureRidge, WeightedRidge


def wide(z, columns=60):
    """Return the same features with columns of zeros, so that there are more than samples."""
    return np.hstack([z, np.zeros((len(z), columns))])


class TestJointKernel:
    @pytest.mark.parametrize("k", [1, 255, 256, 600])
    def test_products_with_triangular_matrices(self, k):
        rng = np.random.default_rng(6)
        rows, upper = rng.standard_normal((7, k)), np.triu(rng.standard_normal((k, k)))
        for matrix in (upper, np.asfortranarray(upper)):
            np.testing.assert_allclose(times_triangular(rows, matrix), rows @ upper, atol=1e-11)

    @pytest.mark.parametrize("nearly_equal", [False, True])
    def test_the_projection_of_the_joint_kernel_is_triangular(self, nearly_equal):
        X = np.random.default_rng(7).standard_normal((30, 3))
        if nearly_equal:
            X[15:] = X[:15] + np.r_[np.zeros(5), np.full(10, 1e-5)][:, None]
        D = np.square(X[:, None] - X).sum(axis=2)
        made = joint_map(0.5, X, np.square(X).sum(axis=1), D, exact=False)
        assert made.triangular
        assert len(made.kept) == 25 if nearly_equal else 30
        z = made.features(D)
        np.testing.assert_allclose(z @ z.T, np.exp(-0.5 * D), atol=1e-8)

    def test_rounded_numbers_take_half_of_the_memory(self):
        values = np.random.default_rng(3).standard_normal(50)
        assert compact(values) is values
        half = compact(rounded(values))
        assert half.dtype == np.float32
        np.testing.assert_array_equal(half.astype(float), rounded(values))


class TestTransfer:
    @pytest.fixture
    def views(self):
        rng = np.random.default_rng(0)
        H = rng.standard_normal((50, 3))
        Z = [
            H @ rng.standard_normal((3, d)) + 0.3 * rng.standard_normal((50, d)) for d in (4, 5, 6)
        ]
        observed = rng.random((50, 3)) < 0.7
        observed[np.arange(50), rng.integers(3, size=50)] = True
        for z, present in zip(Z, observed.T, strict=True):
            z -= z[present].mean(axis=0)
            z /= np.sqrt(np.square(z[present]).sum(axis=1).mean())
            z[~present] = 0.0
        return Z, observed

    def test_by_samples_equals_by_features(self, views):
        Z, observed = views
        by_features, one = solve_transfer(Z, observed)
        more = [wide(z) for z in Z]
        by_samples, other = solve_transfer(more, observed, kernels=kernels_of(more))
        assert isinstance(by_features.first[0][1], ByFeatures)
        assert isinstance(by_samples.first[0][1], BySamples)
        assert by_samples.by_samples
        np.testing.assert_allclose(by_features.scores, by_samples.scores, atol=1e-9)
        for narrow, padded in zip(one, other, strict=True):
            np.testing.assert_allclose(padded[:, : narrow.shape[1]], narrow, atol=1e-9)
        # samples that have been completed are completed in the same way again
        again = by_features.complete(Z, observed), by_samples.complete(more, observed)
        for done, filled in zip(again, (one, other), strict=True):
            for each, expected in zip(done, filled, strict=True):
                np.testing.assert_allclose(each, expected, atol=1e-9)

    def test_leave_one_out_errors_by_refitting(self, views):
        Z, observed = views
        transfer, _ = solve_transfer(Z, observed)
        J = np.flatnonzero(observed[:, 0] & observed[:, 1])
        own = np.flatnonzero(observed[:, 1])
        eps = 0.1 * np.square(Z[1][own]).sum(axis=1).mean()
        error = 0.0
        for i in J:
            others = J[i != J]
            known = Z[1][others]
            W = np.linalg.solve(known.T @ known + eps * np.eye(5), known.T @ Z[0][others])
            error += np.square(Z[0][i] - Z[1][i] @ W).sum()
        assert transfer.scores[0, 1] == pytest.approx(1 - error / np.square(Z[0][J]).sum())

    @pytest.mark.parametrize("by_samples", [False, True])
    def test_copies_are_repeated_samples(self, views, by_samples):
        Z, observed = views
        Z = [wide(z) for z in Z] if by_samples else Z
        number = np.random.default_rng(1).integers(1, 4, 50)
        rows = np.repeat(np.arange(50), number)
        copies = Copies(number.astype(float), 1.0 / number)
        repeated = [z[rows] for z in Z]
        found, filled = solve_transfer(Z, observed, copies=copies, kernels=kernels_of(Z))
        expected, wanted = solve_transfer(repeated, observed[rows], kernels=kernels_of(repeated))
        assert found.by_samples == by_samples
        np.testing.assert_allclose(found.scores, expected.scores, atol=1e-9)
        for one, other in zip(filled, wanted, strict=True):
            np.testing.assert_allclose(one[rows], other, atol=1e-9)

    def test_importances_are_left_out_as_a_whole(self, views):
        Z, observed = views
        weight = np.random.default_rng(1).uniform(0.2, 3.0, 50)
        copies = Copies(weight, np.ones(50))
        transfer, _ = solve_transfer(Z, observed, copies=copies)
        J = np.flatnonzero(observed[:, 0] & observed[:, 1])
        own = np.flatnonzero(observed[:, 1])
        eps = 0.1 * np.average(np.square(Z[1][own]).sum(axis=1), weights=weight[own])
        error = 0.0
        for i in J:
            others = J[i != J]
            known = Z[1][others] * weight[others, None]
            W = np.linalg.solve(known.T @ Z[1][others] + eps * np.eye(5), known.T @ Z[0][others])
            error += weight[i] * np.square(Z[0][i] - Z[1][i] @ W).sum()
        total = weight[J] @ np.square(Z[0][J]).sum(axis=1)
        assert transfer.scores[0, 1] == pytest.approx(1 - error / total)

    def test_completed_kernels_are_those_of_the_features(self, views):
        Z, observed = [wide(z) for z in views[0]], views[1]
        kernels = kernels_of(Z)
        _, filled = solve_transfer(Z, observed, kernels=kernels)
        np.testing.assert_allclose(kernels, [z @ z.T for z in filled], atol=1e-12)


class TestRidge:
    @pytest.fixture
    def problem(self):
        rng = np.random.default_rng(0)
        Z, Y = rng.standard_normal((40, 6)), rng.standard_normal((40, 2))
        return Z, Y, rng.uniform(0.3, 2.0, 40), rng.uniform(0.2, 1.0, 40)

    @pytest.mark.parametrize("factors", [None, np.linspace(0.0, 2.0, 6)])
    def test_by_features_equals_kernel_ridge(self, problem, factors):
        Z, Y, weight, share = problem
        scaled = Z if factors is None else Z * factors
        exact = fit_ridge(scaled @ scaled.T, Y, sample_weight=weight, held_out=share)
        options = {"sample_weight": weight, "held_out": share}
        ridge, fit = fit_feature_ridge(Z, Y, factors=factors, **options)
        np.testing.assert_allclose(fit.errors, exact.fit.errors, rtol=1e-9)
        np.testing.assert_allclose(fit.loo, exact.fit.loo, atol=1e-9)
        np.testing.assert_allclose(ridge.scores(Z), exact.scores(scaled @ scaled.T), atol=1e-9)
        padded = None if factors is None else np.r_[factors, np.ones(60)]
        dual, other = fit_feature_ridge(wide(Z), Y, factors=padded, **options)
        np.testing.assert_allclose(other.loo, fit.loo, atol=1e-9)
        np.testing.assert_allclose(dual.coef[:6], ridge.coef, atol=1e-9)

    def test_some_samples_and_the_sums_of_all(self, problem):
        Z, Y, weight, share = problem
        whole, fit = fit_feature_ridge(Z, Y, PENALTIES[3:4], sample_weight=weight, held_out=share)
        some = np.arange(0, 40, 3)
        part, found = fit_feature_ridge(
            Z[some],
            Y[some],
            PENALTIES[3:4],
            sample_weight=weight[some],
            held_out=share[some],
            sums=Sums.of(Z, Y, weight),
        )
        np.testing.assert_allclose(part.coef, whole.coef, atol=1e-10)
        np.testing.assert_allclose(found.loo, fit.loo[some], atol=1e-10)

    def test_weights_of_kernels_from_sums(self, problem):
        Z, Y, weight, _ = problem
        kernel_of = np.array([0, 0, 1, 1, 1, 2])
        K = np.array([Z[:, kernel_of == m] @ Z[:, kernel_of == m].T for m in range(3)])
        by_samples = WeightedRidge(K, Y.T.copy(), 0.7, weight)
        by_features = WeightedFeatureRidge(Sums.of(Z, Y, weight), kernel_of, 3, 0.7)
        for d in (np.array([0.3, 0.6, 0.1]), np.array([0.0, 0.5, 0.5])):
            one, other = by_samples.solve(d), by_features.solve(d)
            for name in ("q", "linear", "intercept", "dual"):
                np.testing.assert_allclose(getattr(other, name), getattr(one, name), rtol=1e-9)
            np.testing.assert_allclose(
                by_features.hessian(other), by_samples.hessian(one), rtol=1e-8
            )


@pytest.mark.parametrize("landmarks", ["uniform", "kmeans", "pivoted_cholesky"])
@pytest.mark.parametrize("as_stack", [False, True])
def test_landmarks_of_each_kind(landmarks, as_stack):
    X, y = kq.datasets.make_multiview(300, 3, n_classes=3, random_state=0)
    X = kq.datasets.make_absent(X, 0.3, random_state=0)
    data = kq.ViewKernels("median_gaussian").fit_transform(X) if as_stack else X
    train, test = np.arange(200), np.arange(200, 300)
    exact = kq.QuiltClassifier(experts=None).fit(data[train], y[train])
    model = kq.QuiltClassifier(
        experts=None, n_landmarks=40, landmarks=landmarks, random_state=0
    ).fit(data[train], y[train])
    assert all(len(each.columns) <= 40 for each in model._fitted.views.maps)
    assert model.score(data[test], y[test]) > exact.score(data[test], y[test]) - 0.05
    agreement = np.abs(model.predict_proba(data[test]) - exact.predict_proba(data[test]))
    assert agreement.mean() < 0.05
