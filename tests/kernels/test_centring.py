"""Centre and size of kernels."""

import numpy as np
import pytest

from kernelquilt.kernels.centring import Centring, mean_diagonal


@pytest.fixture
def features():
    return np.random.RandomState(0).normal(size=(12, 4)) + 3.0


def test_centres_feature_vectors_at_their_weighted_mean(features):
    copies = np.random.RandomState(1).uniform(0.5, 3.0, size=9)
    present = np.arange(9) % 4 != 0
    mean = np.average(features[:9][present], axis=0, weights=copies[present])
    centred = features - mean
    K = features @ features.T
    centring = Centring.of(np.where(np.outer(present, present), K[:9, :9], 0.0), present, copies)
    rows, diag = centring.centre(K[:, :9] * present, K.diagonal())
    np.testing.assert_allclose(rows[:, present], (centred @ centred[:9].T)[:, present], atol=1e-10)
    np.testing.assert_allclose(diag, (centred**2).sum(axis=1), atol=1e-10)


def test_copies_count_like_repeated_samples(features):
    copies = np.array([1, 3, 0, 2, 1, 1, 1, 1, 1, 1, 1, 1])
    repeated = np.repeat(features, copies, axis=0)
    K = features @ features.T
    weighted = Centring.of(K, np.ones(12, dtype=bool), copies)
    plain = Centring.of(repeated @ repeated.T, np.ones(len(repeated), dtype=bool))
    assert weighted.overall == pytest.approx(plain.overall)
    rows, _ = plain.centre(features @ repeated.T)
    expected = np.repeat(weighted.centre(K)[0], copies, axis=1)
    np.testing.assert_allclose(rows, expected, atol=1e-10)


def test_overwrites_only_when_told(features):
    K = features @ features.T
    kept = K.copy()
    centring = Centring.of(K, np.ones(12, dtype=bool))
    rows, diag = centring.centre(K)
    np.testing.assert_array_equal(K, kept)
    assert diag is None
    assert centring.centre(K, out=K)[0] is K
    np.testing.assert_array_equal(K, rows)


def test_nothing_observed_and_nothing_left():
    absent = Centring.of(np.zeros((3, 3)), np.zeros(3, dtype=bool))
    assert absent.overall == 0
    assert not absent.share.any()
    constant = Centring.of(np.full((3, 3), 2.0), np.ones(3, dtype=bool))
    assert not constant.centre(np.full((2, 3), 2.0))[0].any()


def test_mean_diagonal():
    K = np.diag([1.0, 2.0, 6.0])
    assert mean_diagonal(K.diagonal()) == 3.0
    assert mean_diagonal(K.diagonal(), np.array([1.0, 1.0, 0.0])) == 1.5
    assert mean_diagonal(np.zeros(3, dtype=np.float32)) == 1.0
