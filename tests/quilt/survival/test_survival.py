"""QuiltSurvival: what it takes, what it refuses, what it returns."""

import pickle
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.utils.estimator_checks import parametrize_with_checks

import kernelquilt as kq
from inputs import INPUTS, VIEWS, as_input
from kernelquilt.quilt.survival.targets import survival_targets

pytestmark = pytest.mark.filterwarnings("ignore:.*no observed view:UserWarning")


def structured(event, time, names=("event", "time")):
    y = np.empty(len(time), dtype=[(names[0], bool), (names[1], float)])
    y[names[0]], y[names[1]] = event, time
    return y


@pytest.fixture(scope="module")
def samples():
    """Return an array with absent views as NaN, and events and times."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((90, 8))
    time = rng.exponential(np.exp(-1.5 * X[:, 0] - X[:, 3]))
    event = rng.random(90) < 0.7
    for columns in VIEWS.values():
        X[np.ix_(rng.random(90) < 0.2, columns)] = np.nan
    return X, event, time


@pytest.fixture(scope="module")
def model(samples):
    X, event, time = samples
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return kq.QuiltSurvival(views=VIEWS, random_state=0).fit(X, structured(event, time))


class NumbersAsTimes(kq.QuiltSurvival):
    """What scikit-learn's checks can fit: numbers are times, of which every fifth is censored."""

    def fit(self, X, y):
        return super().fit(X, self._as_times(y))

    def score(self, X, y):
        return super().score(X, self._as_times(y))

    @staticmethod
    def _as_times(y):
        if y is None:
            return y
        y = np.ravel(y)
        if y.dtype.kind not in "fiuc":
            raise ValueError("Unknown label type")
        y = y.real
        return np.arange(len(y)) % 5 > 0, y - (y.min() if np.isfinite(y).all() else 0.0)


@parametrize_with_checks([NumbersAsTimes(experts=None)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_targets_in_every_form(samples):
    _, event, time = samples
    frame = pd.DataFrame({"months": time, "died": event})
    forms = [
        structured(event, time),
        structured(event, time, ("cens", "T")),
        (event, time),
        [event.astype(int), time],
        (list(event.astype(float)), list(time)),
        frame,
        frame[["died", "months"]],
        pd.DataFrame({"time": time, "event": event.astype(int)}),
        pd.DataFrame({"status": event.astype(int), "time": time}),
    ]
    for form in forms:
        found = survival_targets(form)
        np.testing.assert_array_equal(found[0], event)
        np.testing.assert_array_equal(found[1], time)
        assert found[0].dtype == bool


def test_forms_give_the_same_model(samples, model):
    X, event, time = samples
    again = kq.QuiltSurvival(views=VIEWS, random_state=0).fit(X, (event, time))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


@pytest.mark.parametrize(
    ("event", "time", "message"),
    [
        ([1, 0, 2], [1.0, 2.0, 3.0], "1 of 3 samples say otherwise, such as \\['2'\\]"),
        (["yes", "no", "no"], [1.0, 2.0, 3.0], "3 of 3 samples say otherwise"),
        ([1, 0, np.nan], [1.0, 2.0, 3.0], "1 of 3 samples tell no event"),
        ([1, 0, 1], [1.0, -2.0, 3.0], "negative times: 1 of 3"),
        ([1, 0, 1], [1.0, np.inf, 3.0], "infinity: 1 of 3"),
        ([1, 0, 1], [1.0, np.nan, 3.0], "NaN: 1 of 3"),
        ([1, 0, 1], ["a", "b", "c"], "times are numbers"),
        ([1, 0], [1.0, 2.0, 3.0], "shape \\(2,\\) do not go with times of shape \\(3,\\)"),
    ],
)
def test_bad_targets(event, time, message):
    with pytest.raises(ValueError, match=message):
        survival_targets((np.array(event), np.array(time)))


@pytest.mark.parametrize(
    "y",
    [
        np.arange(3.0),
        np.ones((3, 3)),
        pd.DataFrame({"a": [1.0], "b": [2.0], "c": [3.0]}),
        np.zeros(3, dtype=[("event", bool)]),
        None,
    ],
)
def test_what_is_no_survival_data_is_refused_with_the_forms(y):
    with pytest.raises(ValueError, match="give a structured array with a boolean field"):
        kq.QuiltSurvival().fit(np.ones((3, 2)), y)


def test_samples_in_another_order_are_refused(samples):
    X, event, time = samples
    index = [f"s{k}" for k in range(90)]
    data = pd.DataFrame(X, index=index, columns=list("pqrstuvw"))
    y = pd.DataFrame({"event": event, "time": time}, index=index[::-1])
    views = {name: [list("pqrstuvw")[c] for c in cols] for name, cols in VIEWS.items()}
    with pytest.raises(ValueError, match="another order"):
        kq.QuiltSurvival(views=views).fit(data, y)


def test_two_samples_are_refused_without_naming_another_class(samples):
    X, _, time = samples
    with pytest.raises(ValueError, match=r"^at least 3 samples .* n_samples=2"):
        kq.QuiltSurvival(views=VIEWS).fit(X[:2], (np.ones(2, dtype=bool), time[:2]))


def test_all_censored_is_refused_and_changes_nothing(samples):
    X, event, time = samples
    fresh = kq.QuiltSurvival(views=VIEWS)
    with pytest.raises(ValueError, match="the times of all 90 samples are censored"):
        fresh.fit(X, (~event & event, time))
    assert not hasattr(fresh, "regressor_")


@pytest.mark.parametrize(
    "kind", ["one event", "all events", "equal times", "zero times", "events at zero"]
)
def test_data_at_the_edge(kind, samples):
    X, event, time = samples
    X, event, time = X.copy(), event.copy(), time.copy()
    if kind == "one event":
        event[:] = np.arange(90) == 7
    elif kind == "all events":
        event[:] = True
    elif kind == "equal times":
        time[:] = 3.0
    elif kind == "zero times":
        time[:] = 0.0
    else:
        time[:10], event[:10] = 0.0, True
    fitted = kq.QuiltSurvival(views=VIEWS, experts=None).fit(X, (event, time))
    risk = fitted.predict(X)
    survival = fitted.predict_survival_function(X, return_array=True)
    assert np.isfinite(risk).all()
    assert ((survival >= 0) & (survival <= 1)).all()
    assert (np.diff(survival, axis=1) <= 0).all()
    if kind in ("equal times", "zero times"):
        # nothing tells the samples apart but whether there was an event
        assert fitted.baseline_hazard_.shape == (1,)


def test_samples_without_views(samples, model):
    X, event, time = samples
    nothing = np.full((3, 8), np.nan)
    np.testing.assert_array_equal(model.predict(nothing), 0.0)
    hazard = model.predict_cumulative_hazard_function(nothing, return_array=True)
    np.testing.assert_allclose(hazard, np.tile(model.baseline_hazard_, (3, 1)))
    seen = ~np.isnan(X).all(axis=1)
    with pytest.warns(UserWarning, match="of 93 training samples have no observed view"):
        more = kq.QuiltSurvival(views=VIEWS, random_state=0).fit(
            np.vstack([X, nothing]), (np.r_[event, True, True, True], np.r_[time, 1.0, 2.0, 3.0])
        )
    # their events count for the residuals of the others, and for nothing else
    assert len(more.regressor_.used_samples_) == np.count_nonzero(seen)
    assert np.isfinite(more.predict(X)).all()


@pytest.mark.parametrize("kind", INPUTS)
def test_every_input(kind, samples):
    X, event, time = samples
    data, parameters = as_input(kind, X)
    fitted = kq.QuiltSurvival(experts=None, **parameters).fit(data, structured(event, time))
    assert fitted.score(data, (event, time)) > 0.75
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.predict(data), fitted.predict(data))


def test_garbage_in_absent_cells_changes_no_bit(samples):
    X, event, time = samples
    views = kq.as_views(X, VIEWS)
    rng = np.random.default_rng(1)
    dirty = kq.MultiView(
        {
            name: np.where(views.observed[:, [p]], views[name], 1e6 * rng.standard_normal())
            for p, name in enumerate(views.names)
        },
        views.observed,
    )
    fits = [
        kq.QuiltSurvival(random_state=0).fit(each, (event, time)).predict(each)
        for each in (views, dirty)
    ]
    np.testing.assert_array_equal(*fits)


def test_members_and_functions(samples, model):
    X, _, time = samples
    assert model.member_names_ == (
        *("early", "early joint"),
        *(f"late {name}" for name in model.kernel_names_),
        "RandomForestRegressor",
    )
    assert (model.member_weights_ >= 0).all()
    assert model.loo_score_ > 0.65
    survival = model.predict_survival_function(X[:5])
    hazard = model.predict_cumulative_hazard_function(X[:5])
    at = np.linspace(0.0, time.max(), 7)
    for one, other in zip(survival, hazard, strict=True):
        np.testing.assert_allclose(one(at), np.exp(-other(at)))
        assert one(0.0) == 1.0
        assert one.domain == (0.0, model.unique_times_[-1])
        assert isinstance(one(0.5), float)
    values = model.predict_survival_function(X[:5], return_array=True)
    np.testing.assert_array_equal(survival[2](model.unique_times_), values[2])
    with pytest.raises(ValueError, match="beyond which nothing is known"):
        survival[0](2 * time.max())


def test_the_score_is_the_concordance(samples, model):
    X, event, time = samples
    y = structured(event, time)
    assert model.score(X, y) == model.score(X, (event, time))
    assert 0.7 < model.score(X, y) <= 1.0


def test_cross_validation_and_search(samples):
    X, event, time = samples
    y = structured(event, time)
    survival = kq.QuiltSurvival(views=VIEWS, experts=None)
    assert cross_val_score(survival, X, y, cv=3).mean() > 0.6
    search = GridSearchCV(survival, {"pattern": [True, False]}, cv=3).fit(X, y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_results_do_not_depend_on_n_jobs(samples, model):
    X, event, time = samples
    two = clone(model).set_params(n_jobs=2).fit(X, (event, time))
    np.testing.assert_array_equal(two.predict(X), model.predict(X))


def test_metrics_of_scikit_survival_take_what_is_returned(samples, model):
    metrics = pytest.importorskip("sksurv.metrics")
    util = pytest.importorskip("sksurv.util")
    X, event, time = samples
    y = util.Surv.from_arrays(event, time)
    assert survival_targets(y)[1].tolist() == time.tolist()
    theirs = metrics.concordance_index_censored(event, time, model.predict(X))[0]
    np.testing.assert_allclose(model.score(X, y), theirs)
    times = np.quantile(time[event], np.linspace(0.1, 0.8, 10))
    estimates = np.vstack([each(times) for each in model.predict_survival_function(X)])
    assert 0.0 < metrics.integrated_brier_score(y, y, estimates, times) < 0.25
    scorer = metrics.as_integrated_brier_score_scorer(
        kq.QuiltSurvival(views=VIEWS, experts=None), times=times
    )
    assert -0.25 < scorer.fit(X, y).score(X, y) < 0.0
    hazards = np.vstack([each(times) for each in model.predict_cumulative_hazard_function(X)])
    _, mean = metrics.cumulative_dynamic_auc(y, y, hazards, times)
    assert mean > 0.7


def test_the_baseline_is_that_of_scikit_survival(samples, model):
    coxph = pytest.importorskip("sksurv.linear_model.coxph")
    _, event, time = samples
    risk = np.random.default_rng(0).standard_normal(90)
    from kernelquilt.quilt.survival.cox import breslow_hazard

    theirs = coxph.BreslowEstimator().fit(risk, event, time).cum_baseline_hazard_
    times, hazard = breslow_hazard(risk, event, time)
    np.testing.assert_array_equal(times, theirs.x)
    np.testing.assert_allclose(hazard, theirs.y)


def test_the_package_never_imports_scikit_survival():
    # its licence would be that of the package
    for path in Path(kq.__file__).parent.rglob("*.py"):
        assert "sksurv" not in path.read_text(encoding="utf-8"), path


def test_sample_weights(samples):
    X, event, time = samples
    keep = kq.as_views(X, VIEWS).observed.any(axis=1)
    X, y = X[keep], structured(event[keep], time[keep])
    model = kq.QuiltSurvival(views=VIEWS, experts=None)
    weight = np.random.default_rng(0).integers(0, 4, len(y)).astype(float)
    weighted = clone(model).fit(X, y, sample_weight=weight)
    for other in (
        clone(model).fit(X, y, sample_weight=0.3 * weight),
        clone(model).fit(X[weight > 0], y[weight > 0], sample_weight=weight[weight > 0]),
    ):
        np.testing.assert_allclose(other.predict(X), weighted.predict(X), atol=1e-6)
        assert other.loo_score_ == pytest.approx(weighted.loo_score_)
    assert weighted.score(X, y) > 0.7


def test_members_learn_from_weights_as_from_copies(samples):
    X, event, time = samples
    keep = ~np.isnan(X[:, 0])
    X, event, time = X[keep, :3], event[keep], time[keep]
    model = kq.QuiltSurvival(experts=None)
    weight = np.random.default_rng(0).integers(0, 4, len(X)).astype(float)
    weight[0] = 1.0
    rows = np.repeat(np.arange(len(X)), weight.astype(int))
    weighted = clone(model).fit(X, (event, time), sample_weight=0.3 * weight)
    repeated = clone(model).fit(X[rows], (event[rows], time[rows]))
    one, other = (each.regressor_.predict(X) for each in (weighted, repeated))
    np.testing.assert_allclose(one, other, atol=1e-7)
    # to the join of their scores copies of an event are ties, of which Efron makes less
    difference = weighted.predict(X) - repeated.predict(X)
    assert 0.0 < np.abs(difference).max() < 0.1 * np.ptp(weighted.predict(X))


def test_bad_sample_weights(samples):
    X, event, time = samples
    y, model = structured(event, time), kq.QuiltSurvival(views=VIEWS)
    with pytest.raises(ValueError, match="90 of 90 sample weights are negative"):
        model.fit(X, y, sample_weight=-np.ones(90))
    with pytest.raises(ValueError, match="with positive weight are censored"):
        model.fit(X, y, sample_weight=~event)
    with pytest.raises(ValueError, match="sample_weight"):
        model.fit(X, y, sample_weight=np.ones(89))
    assert not hasattr(model, "regressor_")
