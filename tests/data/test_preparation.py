"""What is done to missing cells by default, and what their gaps tell."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose, assert_array_equal

import kernelquilt as kq
from kernelquilt.data.preparation import ColumnPreparation, gap_codes, telling_gaps


@given(arrays(bool, st.tuples(st.integers(1, 12), st.integers(1, 6))), st.integers(0, 12))
def test_codes_tell_apart_what_different_samples_lack(gaps, cut):
    codes = gap_codes(gaps)
    same = (gaps[:, :, None] == gaps[:, None, :]).all(axis=0)
    assert_array_equal(codes[:, None] == codes[None, :], same)
    assert_array_equal(gap_codes(gaps[:cut]) + gap_codes(gaps[cut:]), codes)


def test_gaps_that_are_rare_or_the_rule_or_known_already_tell_nothing():
    share = np.array([0.0, 0.04, 0.05, 0.5, 0.5, 0.95, 0.96])
    codes = np.array([0, 1, 2, 3, 3, 4, 5], dtype=np.uint64)
    assert_array_equal(telling_gaps(share, codes), [2, 3, 5])


def test_columns_of_gaps_stand_behind_the_numbers():
    X = np.arange(80.0).reshape(20, 4)
    X[:5, 0] = X[:5, 2] = X[3:9, 3] = np.nan
    prepared = ColumnPreparation(scale=False, indicators=True).fit(X)
    assert_array_equal(prepared.gap_columns_, [0, 3])
    new = prepared.transform(np.array([[np.nan, 1.0, 2.0, 3.0], [4.0, 5.0, np.nan, np.nan]]))
    assert_array_equal(new[:, 4:], [[1, 0], [0, 1]])
    assert_allclose(new[0, 0], np.nanmean(X[:, 0]))
    assert ColumnPreparation().fit(X).transform(X).shape == X.shape


def test_a_weight_is_as_many_samples():
    X = np.arange(60.0).reshape(30, 2)
    X[:2, 0] = np.nan  # 7 % of these, 3 % of the others
    weight = np.r_[np.ones(2), np.full(28, 2.0)]
    repeated = np.repeat(X, weight.astype(int), axis=0)
    made = ColumnPreparation(indicators=True)
    assert_array_equal(made.fit(X).gap_columns_, [0])
    assert_array_equal(made.fit(X, sample_weight=weight).gap_columns_, [])
    assert_array_equal(made.fit(repeated).gap_columns_, [])
    assert_array_equal(made.fit(X, sample_weight=np.r_[1.0, 1.0, 0 * weight[2:]]).gap_columns_, [])


def _ordered_for_the_ill():
    """Return views of which one has a value mostly for one class, and the labels."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 120)
    laboratory, scan = rng.standard_normal((120, 3)), rng.standard_normal((120, 3))
    laboratory[(y == 0) & (rng.random(120) < 0.9), 1] = np.nan
    scan[rng.random(120) < 0.3] = np.nan
    return kq.MultiView({"laboratory": laboratory, "scan": scan}), y


def test_gaps_are_learned_from():
    X, y = _ordered_for_the_ill()
    model = kq.QuiltClassifier(experts=None).fit(X[:80], y[:80])
    assert model.score(X[80:], y[80:]) > 0.85


def test_gaps_of_samples_that_are_not_in_memory():
    X, y = _ordered_for_the_ill()
    stream = kq.MultiView.stream(lambda: (X[i : i + 50] for i in (0, 50, 100)))
    model, expected = (
        kq.QuiltClassifier(experts=None, random_state=0).fit(data, y) for data in (stream, X)
    )
    steps = [each.preparation_.transformers_["laboratory"] for each in (model, expected)]
    assert_array_equal(steps[0].gap_columns_, [1])
    assert_array_equal(steps[1].gap_columns_, [1])
    assert_allclose(model.predict_proba(X), expected.predict_proba(X), rtol=1e-6)
