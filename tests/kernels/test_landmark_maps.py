"""Features of a kernel in the span of landmarks."""

import numpy as np
import pytest

from kernelquilt.kernels.landmark_maps import fit_map, independent_directions


def test_a_kernel_of_almost_nothing_has_no_features():
    F = np.random.default_rng(0).standard_normal((8, 3))
    everyone = np.arange(8)
    made, z = fit_map(1e-310 * (F @ F.T), everyone, everyone, np.ones(8))
    assert z.shape == (8, 0)
    assert [each.shape for each in made.back(np.zeros((0, 2)))] == [(0, 2), (2,)]
    _, z = fit_map(1e-290 * (F @ F.T), everyone, everyone, np.ones(8))
    assert z.shape == (8, 3)
    assert np.isfinite(z).all()


@pytest.mark.parametrize("rank", [3, 40])
def test_products_of_features_are_the_centred_kernel(rank):
    rng = np.random.default_rng(0)
    F = rng.standard_normal((30, rank)) + 1.0
    K, copies = F @ F.T, rng.uniform(0.5, 2.0, 30)
    made, z = fit_map(K, np.arange(30), 100 + np.arange(30), copies)
    assert z.shape == (30, min(rank, 30))
    share = copies / copies.sum()
    centred = F - share @ F
    centred /= np.sqrt(share @ np.square(centred).sum(axis=1))
    np.testing.assert_allclose(z @ z.T, centred @ centred.T, atol=1e-9)
    np.testing.assert_allclose(made.of(K[:, made.columns - 100]), z, atol=1e-9)
    np.testing.assert_allclose(made.lengths(z, K.diagonal()), np.square(z).sum(axis=1))


def test_lengths_know_what_is_outside_of_the_span():
    rng = np.random.default_rng(1)
    F = rng.standard_normal((40, 8))
    K, chosen = F @ F.T, np.arange(3, 8)
    made, z = fit_map(K[:, chosen], chosen, chosen, np.ones(40))
    mean = K[:, chosen] @ made.projection
    outside = K.diagonal() - np.square(mean).sum(axis=1)
    expected = np.square(z).sum(axis=1) + made.scale**2 * outside
    np.testing.assert_allclose(made.lengths(z, K.diagonal()), expected)


def test_nothing_is_left_of_a_constant_kernel():
    made, z = fit_map(np.full((5, 5), 2.0), np.arange(5), np.arange(5), np.ones(5))
    assert made.scale == 0
    assert len(made.columns) == 1
    np.testing.assert_array_equal(z, 0.0)
    _, z = fit_map(np.zeros((5, 5)), np.arange(5), np.arange(5), np.ones(5))
    assert z.shape == (5, 0)


def test_projections_follow_from_the_landmarks_and_their_order():
    X = np.random.default_rng(4).standard_normal((20, 3))
    X[10:] = X[:10]  # which of two equal samples is taken is left to the library below
    K = np.exp(-np.square(X[:, None] - X).sum(axis=2))
    made, z = fit_map(K, np.arange(20), np.arange(20), np.ones(20))
    assert len(made.columns) == 10
    stored = made.without_projection()
    assert stored.projection is None
    again, own = stored.with_projection(K[np.ix_(made.columns, made.columns)])
    np.testing.assert_array_equal(again.projection, made.projection)
    np.testing.assert_allclose(own, z[made.columns], atol=1e-10)


@pytest.mark.parametrize("nearly_equal", [False, True])
def test_features_of_landmarks_need_no_product(nearly_equal):
    X = np.random.default_rng(5).standard_normal((20, 3))
    if nearly_equal:
        X[10:] = X[:10] + 1e-5
    K = np.exp(-np.square(X[:, None] - X).sum(axis=2))
    made, z = fit_map(K, np.arange(20), np.arange(20), np.ones(20))
    assert len(made.columns) == 20
    assert (made.order == np.arange(20)).all() != nearly_equal
    np.testing.assert_allclose(made.of(K), z, atol=1e-8)
    again, own = made.without_projection().with_projection(K)
    np.testing.assert_array_equal(again.projection, made.projection)
    np.testing.assert_array_equal(own, z)


def test_a_little_indefinite_is_clipped_and_more_is_refused():
    rng = np.random.default_rng(2)
    Q = np.linalg.qr(rng.standard_normal((12, 12)))[0]
    values = np.r_[-0.02, np.linspace(0.5, 2.0, 11)]
    K = (Q * values) @ Q.T
    kept, T, _ = independent_directions(K)
    positive = (Q[:, 1:] * values[1:]) @ Q[:, 1:].T
    z = K[:, kept] @ T
    np.testing.assert_allclose(z @ z.T, positive, atol=1e-8)
    with pytest.raises(np.linalg.LinAlgError, match="positive semi-definite"):
        independent_directions(K - 0.5 * np.eye(12))
