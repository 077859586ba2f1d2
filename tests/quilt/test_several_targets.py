"""`QuiltRegressor` with several targets at once."""

from functools import partial

import numpy as np
import pytest
from sklearn.impute import SimpleImputer
from sklearn.linear_model import Ridge
from sklearn.metrics import r2_score
from sklearn.pipeline import make_pipeline

import kernelquilt as kq

# the kernels alone
REGRESSOR = partial(kq.QuiltRegressor, experts=None)


def data():
    X, _ = kq.datasets.load_example("wdbc")
    Y = np.column_stack([X["mean"][:, 0], 1e3 - 50.0 * X["mean"][:, 1]])
    return kq.datasets.make_absent(X, 0.3, random_state=0), Y


def test_each_target_is_predicted_about_as_well_as_alone():
    X, Y = data()
    train, test = slice(0, 150), slice(150, None)
    model = kq.QuiltRegressor(random_state=0).fit(X[train], Y[train])
    found = model.predict(X[test])
    assert found.shape == Y[test].shape
    for k, y in enumerate(Y.T):
        alone = kq.QuiltRegressor(random_state=0).fit(X[train], y[train])
        together = r2_score(y[test], found[:, k])
        assert together > alone.score(X[test], y[test]) - 0.1
    np.testing.assert_allclose(model.score(X[test], Y[test]), r2_score(Y[test], found))


def test_copies_of_a_target_are_that_target():
    X, Y = data()
    X, y = X[:100], Y[:100, 0]
    one = REGRESSOR().fit(X, y)
    three = REGRESSOR().fit(X, np.column_stack([y, 10.0 * y + 3.0, -y]))
    expected = one.predict(X)
    found = three.predict(X)
    np.testing.assert_allclose(found[:, 0], expected, rtol=1e-6)
    np.testing.assert_allclose(found[:, 1], 10.0 * expected + 3.0, rtol=1e-6)
    np.testing.assert_allclose(found[:, 2], -expected, rtol=1e-6)
    np.testing.assert_allclose(three.loo_score_, one.loo_score_, rtol=1e-6)


@pytest.mark.parametrize("expert", ["auto", [make_pipeline(SimpleImputer(), Ridge())]])
def test_experts_on_columns(expert):
    X, Y = data()
    model = kq.QuiltRegressor(experts=expert, random_state=0).fit(X[:100], Y[:100])
    assert model.experts_[0].out_of_sample.shape == (100, 2)
    assert model.score(X[100:], Y[100:]) > 0.6


def test_two_targets_are_not_two_classes():
    X, Y = data()
    one = REGRESSOR().fit(X[:100], Y[:100])
    other = REGRESSOR().fit(X[:100], Y[:100, ::-1])
    np.testing.assert_allclose(one.predict(X), other.predict(X)[:, ::-1], rtol=1e-6)


def test_gaps_and_wrong_numbers_are_told():
    X, Y = data()
    gap = Y.copy()
    gap[3] = np.nan
    with pytest.raises(ValueError, match=f"1 of {len(Y)} samples have no label"):
        kq.QuiltRegressor().fit(X, gap)
    with pytest.raises(ValueError, match="give one label per sample"):
        kq.QuiltRegressor().fit(X, Y[:-1])


def test_cross_fit():
    X, Y = data()
    model = kq.QuiltRegressor(experts=None, cross_fit=True).fit(X[:80], Y[:80])
    assert model.predict(X).shape == Y.shape
