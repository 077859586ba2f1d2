"""Several labels or targets at once, through scikit-learn's wrappers, for every predictor."""

import numpy as np
import pytest
from sklearn.base import clone, is_regressor
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputClassifier, MultiOutputRegressor

from discovery import held_to, instances, predictors
from inputs import VIEWS, as_input

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*no observed view:UserWarning"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]
PREDICTORS = instances(held_to(predictors(), "more than two views"))
CLASSIFIERS = [each for each in PREDICTORS if not is_regressor(each)]


@pytest.fixture(scope="module")
def samples():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((48, 8))
    Y = np.column_stack([X[:, 0] + X[:, 3], X[:, 5] - X[:, 4]])
    for columns in VIEWS.values():
        X[np.ix_(rng.random(48) < 0.2, columns)] = np.nan
    return X, Y


@pytest.mark.parametrize("predictor", PREDICTORS, ids=repr)
@pytest.mark.parametrize("kind", ["array", "views"])
def test_wrapped_targets_are_fits_of_their_own(predictor, kind, samples):
    X, Y = samples
    wrapper = MultiOutputRegressor if is_regressor(predictor) else MultiOutputClassifier
    Y = Y if is_regressor(predictor) else (Y > 0).astype(int)
    data, parameters = as_input(kind, X)
    single = clone(predictor).set_params(**parameters)
    found = wrapper(single).fit(data, Y).predict(data)
    assert found.shape == Y.shape
    for k, y in enumerate(Y.T):
        np.testing.assert_array_equal(found[:, k], clone(single).fit(data, y).predict(data))


@pytest.mark.parametrize("classifier", CLASSIFIERS, ids=repr)
def test_multi_label(classifier, samples):
    X, Y = samples
    Y = (Y > 0).astype(int)
    model = OneVsRestClassifier(clone(classifier).set_params(views=VIEWS))
    found = model.fit(X, Y).predict(X)
    assert found.shape == Y.shape
    assert (found == Y).mean() > 0.7
