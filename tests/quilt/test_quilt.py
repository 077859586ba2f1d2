"""The quilt, and what it has in common with the other classifiers that tune themselves."""

import pickle
import warnings
from functools import partial

import numpy as np
import pytest
from sklearn.base import ClassifierMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import StackingClassifier, VotingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.impute import SimpleImputer
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import kernelquilt as kq
from discovery import estimators
from inputs import INPUTS, VIEWS, as_input
from kernelquilt.data.targets import class_targets
from kernelquilt.kernels.functions import pair_median
from kernelquilt.quilt.space.experts import EXPONENTS
from kernelquilt.quilt.space.ridge import PENALTIES, fit_ridge

# the kernels alone; what a forest beside them changes is in test_members.py
QUILT = partial(kq.QuiltClassifier, experts=None)
REGRESSOR = partial(kq.QuiltRegressor, experts=None)
every_classifier = pytest.mark.parametrize(
    "classifier",
    [
        pytest.param(QUILT if each is kq.QuiltClassifier else each, id=each.__name__)
        for each in estimators(ClassifierMixin, "quilt")
    ],
)
pytestmark = pytest.mark.filterwarnings("ignore:.*no observed view:UserWarning")


def make_samples(seed=0, n=90, share=0.2):
    """Return an array with absent views as NaN, and labels of three classes."""
    rng = np.random.default_rng(seed)
    y = np.repeat(["x", "y", "z"], n // 3)
    X = rng.standard_normal((n, 8)) + np.outer(
        np.repeat([0, 2, 4], n // 3), [1, 0, 0, 1, 0, 0, 1, 0]
    )
    for columns in VIEWS.values():
        X[np.ix_(rng.random(n) < share, columns)] = np.nan
    return X, y


@pytest.fixture(scope="module")
def samples():
    return make_samples()


class TestEveryClassifier:
    @every_classifier
    @pytest.mark.parametrize("kind", [*INPUTS, "multi_index"])
    def test_fit_and_predict(self, classifier, kind, samples):
        X, y = samples
        data, parameters = as_input(kind, X)
        model = classifier(**parameters).fit(data, y)
        assert model.score(data, y) > 0.8
        assert model.decision_function(data).shape == (90, 3)
        proba = model.predict_proba(data)
        np.testing.assert_allclose(proba.sum(axis=1), 1.0)
        np.testing.assert_array_equal(model.classes_[proba.argmax(axis=1)], model.predict(data))
        assert 0.6 < model.loo_score_ <= model.score(data, y) + 0.1

    @every_classifier
    @pytest.mark.parametrize("kind", ["array", "stack"])
    def test_meta_estimators(self, classifier, kind, samples):
        X, y = samples
        data, parameters = as_input(kind, X)
        model = classifier(**parameters)
        calibrated = CalibratedClassifierCV(model, cv=3, ensemble=False).fit(data, y)
        np.testing.assert_allclose(calibrated.predict_proba(data).sum(axis=1), 1.0)
        members = [("one", model), ("two", clone(model).set_params(class_weight="balanced"))]
        assert StackingClassifier(members, cv=3).fit(data, y).score(data, y) > 0.8
        assert VotingClassifier(members, voting="soft").fit(data, y).score(data, y) > 0.8

    @every_classifier
    def test_pipelines(self, classifier, samples):
        X, y = samples
        data = kq.as_views(X, VIEWS)
        model = make_pipeline(
            kq.ViewTransformer(make_pipeline(SimpleImputer(), StandardScaler())), classifier()
        )
        assert cross_val_score(model, data, y, cv=3).mean() > 0.6
        kernels = make_pipeline(kq.ViewKernels(), kq.CentreKernels(), classifier())
        grid = {"viewkernels__kernels": ["gaussian", "linear"]}
        assert GridSearchCV(kernels, grid, cv=3).fit(data, y).best_score_ > 0.6

    @every_classifier
    def test_one_row_at_a_time_and_in_any_order(self, classifier, samples, monkeypatch):
        X, y = samples
        model = classifier(views=VIEWS).fit(X[::2], y[::2])
        together = model.predict_proba(X)
        alone = np.vstack([model.predict_proba(row[None]) for row in X])
        np.testing.assert_allclose(alone, together, atol=1e-10)
        monkeypatch.setattr("kernelquilt.kernels.inputs.PART_ENTRIES", 2000)
        np.testing.assert_allclose(model.predict_proba(X[::-1])[::-1], together, atol=1e-10)

    @every_classifier
    def test_permuted_samples_and_views(self, classifier, samples):
        X, y = samples
        order = np.random.default_rng(2).permutation(len(y))
        one = classifier(views=VIEWS).fit(X, y).predict_proba(X)
        other = classifier(views=VIEWS).fit(X[order], y[order]).predict_proba(X)
        np.testing.assert_allclose(other, one, atol=1e-8)
        turned = dict(reversed(VIEWS.items()))
        other = classifier(views=turned).fit(X, y).predict_proba(X)
        np.testing.assert_allclose(other, one, atol=1e-8)

    @every_classifier
    def test_n_jobs_and_pickle(self, classifier, samples):
        X, y = samples
        p = {"p": [1.0, 2.0]} if classifier is kq.quilt.LpMKLRidgeClassifier else {}
        one = classifier(views=VIEWS, **p).fit(X, y)
        two = classifier(views=VIEWS, n_jobs=2, **p).fit(X, y)
        again = pickle.loads(pickle.dumps(one))
        np.testing.assert_array_equal(one.predict_proba(X), two.predict_proba(X))
        np.testing.assert_array_equal(one.predict_proba(X), again.predict_proba(X))
        with pytest.raises(NotFittedError):
            clone(one).predict(X)

    @every_classifier
    def test_weights_equal_repetition(self, classifier):
        # nothing is completed here, and completion does not look at weights
        X, y = make_samples(share=0.0 if classifier is QUILT else 0.2)
        counts = np.random.default_rng(3).integers(0, 4, len(y))
        # wider kernels of two columns are nearly singular, which blows up what is rounding
        model = classifier(views=VIEWS, kernels=kq.kernels.MedianGaussian(0.5))
        weighted = clone(model).fit(X, y, sample_weight=counts)
        repeated = clone(model).fit(np.repeat(X, counts, axis=0), np.repeat(y, counts))
        np.testing.assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), atol=1e-10)
        assert weighted.loo_score_ == pytest.approx(repeated.loo_score_)

    @every_classifier
    def test_weight_zero_is_removal(self, classifier, samples):
        X, y = samples
        weight = (np.arange(len(y)) % 3 > 0).astype(float)
        one = classifier(views=VIEWS).fit(X, y, sample_weight=weight)
        other = classifier(views=VIEWS).fit(X[weight > 0], y[weight > 0])
        np.testing.assert_allclose(one.predict_proba(X), other.predict_proba(X), atol=1e-9)

    @every_classifier
    def test_balanced_class_weight_equals_explicit_weights(self, classifier):
        X, y = make_samples(share=0.0)
        X, y = X[:75], y[:75]
        X[::4, VIEWS["a"]] = np.nan
        factor = {"x": 75 / 90, "y": 75 / 90, "z": 75 / 45}
        balanced = classifier(views=VIEWS, class_weight="balanced").fit(X, y).predict_proba(X)
        explicit = classifier(views=VIEWS, class_weight=factor).fit(X, y).predict_proba(X)
        plain = classifier(views=VIEWS).fit(X, y).predict_proba(X)
        np.testing.assert_allclose(balanced, explicit, atol=1e-9)
        assert balanced[:, 2].mean() > plain[:, 2].mean()

    @every_classifier
    def test_errors_leave_the_estimator_as_it_was(self, classifier, samples):
        X, y = samples
        model = classifier(views=VIEWS).fit(X, y)
        before = model.predict_proba(X)
        for bad_X, bad_y, message in (
            (X, np.repeat("x", 90), "two classes"),
            (X[:10], y, "10 samples, but y has 90"),
            (np.where(np.arange(8) == 0, np.inf, X), y, "inf"),
            (np.full_like(X, np.nan), y, "observed view"),
        ):
            with warnings.catch_warnings(action="ignore"), pytest.raises(ValueError, match=message):
                model.fit(bad_X, bad_y)
        np.testing.assert_array_equal(model.predict_proba(X), before)
        with pytest.raises(ValueError, match=r"'a' has NaN .* in columns '0'.*ViewTransformer"):
            classifier(views=VIEWS, prepare=None).fit(np.where(np.arange(8) == 0, np.nan, X), y)
        with pytest.raises(ValueError, match="KernelStack"):
            model.predict(as_input("stack", X)[0])

    @every_classifier
    def test_samples_and_views_of_which_nothing_is_known(self, classifier):
        X, y = make_samples(1)
        X[:2] = np.nan
        X[:, VIEWS["c"]] = np.nan
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = classifier(views=VIEWS).fit(X, y)
        messages = " ".join(str(each.message) for each in caught)
        assert "training samples have no observed view" in messages
        assert "'c'" in messages
        X[5, VIEWS["c"]] = 1e6
        proba = model.predict_proba(X)
        assert np.isfinite(proba).all()
        np.testing.assert_array_equal(proba[0], proba[1])

    @every_classifier
    @pytest.mark.parametrize("n_views", [1, 50])
    def test_one_view_and_fifty(self, classifier, n_views):
        X, y = kq.datasets.make_multiview(60, n_views, random_state=0)
        if n_views > 1:
            X = kq.datasets.make_absent(X, 0.7, random_state=0)
        with warnings.catch_warnings(action="error"):
            model = classifier().fit(X[:40], y[:40])
            assert np.isfinite(model.decision_function(X)).all()
        assert model.score(X[40:], y[40:]) >= 0.7

    @every_classifier
    def test_two_samples_per_class(self, classifier):
        X, y = make_samples(share=0.0)
        rows = [0, 1, 30, 31, 60, 61]
        model = classifier(views=VIEWS).fit(X[rows], y[rows])
        assert np.isfinite(model.predict_proba(X)).all()
        assert model.score(X, y) > 0.5

    @every_classifier
    def test_a_view_of_two_samples_and_a_class_that_a_view_does_not_have(self, classifier):
        X, y = make_samples(share=0.0)
        X[np.ix_(np.arange(2, 90), VIEWS["a"])] = np.nan
        X[np.ix_(y == "z", VIEWS["b"])] = np.nan
        with warnings.catch_warnings(action="ignore"):
            model = classifier(views=VIEWS).fit(X, y)
        assert np.isfinite(model.predict_proba(X)).all()
        assert model.score(X, y) > 0.6

    @every_classifier
    def test_constant_and_repeated_views(self, classifier):
        X, y = kq.datasets.make_multiview(50, 2, random_state=0)
        blocks = {name: X[name] for name in X.names}
        blocks["same"] = blocks[X.names[0]].copy()
        blocks["constant"] = np.full((50, 3), 7.3)
        observed = np.random.default_rng(0).random((50, 4)) < 0.7
        observed[:, 0] = True
        model = classifier().fit(kq.MultiView(blocks, observed), y)
        assert np.isfinite(model.predict_proba(blocks)).all()
        assert model.score(blocks, y) > 0.7


class TestQuilt:
    def test_one_view_is_kernel_ridge_with_leave_one_out(self):
        rng = np.random.default_rng(0)
        X, y = rng.standard_normal((50, 4)), rng.integers(0, 3, 50)
        y[:25] = (X[:25, 0] > 0) + (X[:25, 1] > 0)
        model = QUILT().fit(X, y)
        K = kq.kernels.MedianGaussian().fit(X)(X)
        centred = K - K.mean(axis=0) - K.mean(axis=1)[:, None] + K.mean()
        ridge = fit_ridge(centred, class_targets(y, 3))
        weight, bias = model.early_stacking_.weights, model.early_stacking_.bias
        assert len(weight) == 1
        scores = weight * ridge.scores(centred) + bias
        scores -= np.log(np.exp(scores).sum(axis=1, keepdims=True))
        np.testing.assert_allclose(model.decision_function(X), scores, atol=1e-6)
        np.testing.assert_allclose(model.reliability_, weight, atol=1e-9)
        assert model.quilt_.weighted.ridge.lam == ridge.fit.lam

    @pytest.mark.parametrize("kernel", ["median_gaussian", "linear"])
    def test_the_algorithm_step_by_step(self, kernel):
        """Write the whole of it down once more, with explicit inverses and plain loops."""
        X, y = kq.datasets.make_multiview(60, 3, n_classes=3, random_state=0)
        X = kq.datasets.make_absent(X, 0.4, random_state=1)
        # linear kernels have fewer features than there are samples
        stack = kq.ViewKernels(kernel).fit_transform(X)
        train, test = np.arange(40), np.arange(40, 60)
        model = QUILT().fit(stack[train], y[train])
        K, s, codes = stack.gram().copy(), stack.observed, np.unique(y, return_inverse=True)[1]
        for p in range(3):
            own = train[s[train, p]]
            mean = K[p][:, own].mean(axis=1)
            K[p] += mean[own].mean() - mean[:, None] - mean
            K[p] /= K[p][own, own].mean()
        om = np.zeros((3, 3))
        first = np.zeros((3, 60, 40))
        shares = {p: train[s[train, p]] for p in range(3)}
        for p in range(3):
            total = np.zeros(60)
            for l in set(range(3)) - {p}:
                J = np.intersect1d(shares[p], shares[l])
                R = np.linalg.inv(K[l][np.ix_(J, J)] + 0.1 * np.eye(len(J)))
                E = R / R.diagonal()[:, None]
                known = K[p][np.ix_(J, J)]
                r2 = 1 - (E @ known @ E.T).diagonal().mean() / known.diagonal().mean()
                assert model.view_transfer_[p, l] == pytest.approx(r2)
                r2 = np.clip(r2, 0.001, 0.99)
                om[p, l] = r2 / (1 - r2)
                for t in np.flatnonzero(~s[:, p] & s[:, l]):
                    first[p, t, J] += om[p, l] * R @ K[l][J, t]
                    total[t] += om[p, l]
            first[p][total > 0] /= total[total > 0, None]
            first[p][shares[p], shares[p]] = 1.0

        def filled(a):
            out = np.zeros((3, 60, 60))
            for p in range(3):
                A = np.zeros((60, 60))
                A[:, :40] = a[p]
                have = s[:, p]
                A[have] = np.eye(60)[have]
                masked = K[p] * have[:, None] * have
                out[p] = A @ masked @ A.T
            return out

        once, second = filled(first), np.zeros((3, 60, 40))
        for p in range(3):
            Q = sum(om[p, l] * once[l] for l in range(3) if l != p) / om[p].sum()
            own = shares[p]
            Q = Q / Q[own, own].mean()
            best = np.inf
            for eps in (0.01, 0.03, 0.1, 0.3, 1.0):
                R = np.linalg.inv(Q[np.ix_(own, own)] + eps * np.eye(len(own)))
                E = R / R.diagonal()[:, None]
                error = np.trace(E @ K[p][np.ix_(own, own)] @ E.T)
                if error < best:
                    best = error
                    absent = np.flatnonzero(~s[:, p])
                    second[p][np.ix_(absent, own)] = Q[np.ix_(absent, own)] @ R
        twice = filled(second)
        block = np.ix_(train, train)
        Y = class_targets(codes[train], 3)
        weights = model.kernel_weights_
        combined = np.tensordot(weights, twice, axes=1)
        A = fit_ridge(combined[block], Y)
        lengths = np.einsum("pii->i", twice)
        D = lengths[:, None] + lengths - 2 * twice.sum(axis=0)
        rate = pair_median(D[block])
        joint = [np.exp(-g * D / rate) for g in (0.3, 1.0)]
        B = [fit_ridge(kernel[block], Y, PENALTIES[::2]) for kernel in joint]
        choice = int(B[1].fit.error < B[0].fit.error)
        rows = np.ix_(test, train)
        early = np.array([A.scores(combined[rows]), B[choice].scores(joint[choice][rows])])
        late = np.zeros((3, 20, 3))
        for p in range(3):
            own, having = shares[p], np.flatnonzero(s[test, p])
            ridge = fit_ridge(K[p][np.ix_(own, own)], Y[np.searchsorted(train, own)])
            late[p, having] = ridge.scores(K[p][np.ix_(test[having], own)])
        P = model.early_stacking_.proba(early), model.late_stacking_.proba(late)
        expected = np.sqrt((P[0] + 1e-9) * (P[1] + 1e-9))
        expected /= expected.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(model.predict_proba(stack[test]), expected, atol=1e-7)

    def test_the_best_weights_are_chosen(self):
        X, y = kq.datasets.make_multiview(100, 4, relevance=[2.0, 0.0, 0.0, 0.0], random_state=0)
        X = kq.datasets.make_absent(X, 0.2, random_state=0)
        model = QUILT().fit(X, y)
        assert model.kernel_weights_.argmax() == 0
        assert model.kernel_weights_.sum() == pytest.approx(1.0)
        assert model.reliability_.argmax() == 0
        assert 0 <= model.expert_gap_ < 0.05
        assert model.expert_weights_.shape == (2,)
        assert len(EXPONENTS) == 3

    def test_views_that_say_nothing_of_each_other_transfer_nothing(self):
        rng = np.random.default_rng(0)
        z = rng.standard_normal((80, 2))
        blocks = {"a": z, "b": z @ rng.standard_normal((2, 3)), "c": rng.standard_normal((80, 2))}
        model = QUILT().fit(blocks, z[:, 0] > 0)
        transfer = model.view_transfer_
        assert transfer.shape == (3, 3)
        assert transfer[0, 1] > 0.5
        assert transfer[0, 2] < 0.2
        np.testing.assert_array_equal(transfer.diagonal(), 1.0)

    def test_absent_views_are_learned_from_the_others(self):
        X, y = kq.datasets.load_example("digits")
        X = kq.datasets.make_absent(X, 0.5, random_state=0)
        rows = np.random.default_rng(0).permutation(len(y))[:500]
        train, test = rows[:200], rows[200:]
        quilt = QUILT().fit(X[train], y[train]).score(X[test], y[test])
        zero = kq.mkl.UniformMKLClassifier(10.0).fit(X[train], y[train]).score(X[test], y[test])
        assert quilt > zero + 0.01

    def test_new_samples_given_as_kernels_need_their_diagonal(self):
        rng = np.random.default_rng(0)
        F = rng.standard_normal((2, 60, 5))
        K = F @ F.transpose(0, 2, 1)
        y = (F[0, :, 0] > 0).astype(int)
        stack = kq.KernelStack(K)
        model = QUILT().fit(stack[:40], y[:40])
        expected = model.predict_proba(stack[40:])
        rows = K[:, 40:, :40]
        diag = np.einsum("mii->mi", K)[:, 40:]
        given = kq.KernelStack(rows, names=stack.names, diag=diag)
        np.testing.assert_allclose(model.predict_proba(given), expected, atol=1e-12)
        with pytest.raises(ValueError, match=r"k\(x, x\) of the 20 new samples.*diag="):
            model.predict(kq.KernelStack(rows, names=stack.names))
        unit = kq.ScaleKernels().fit_transform(stack)
        model = QUILT().fit(unit[:40], y[:40])
        without = kq.KernelStack(unit.gram()[:, 40:, :40], names=unit.names)
        np.testing.assert_allclose(
            model.predict_proba(without), model.predict_proba(unit[40:]), atol=1e-12
        )

    def test_other_completions(self):
        X, y = make_samples()
        zero = QUILT(views=VIEWS, completion=kq.completion.ZeroFill()).fit(X, y)
        plain = QUILT(views=VIEWS).fit(X, y)
        assert np.isnan(zero.view_transfer_[0, 1])
        assert np.abs(zero.predict_proba(X) - plain.predict_proba(X)).max() > 1e-3
        with pytest.raises(ValueError, match="completion"):
            QUILT(completion="zero").fit(X[:, :2][:5], y[:5])

    @pytest.mark.parametrize("estimator", [QUILT, kq.quilt.LpMKLRidgeClassifier])
    def test_an_indefinite_kernel_is_named(self, estimator):
        A = np.random.default_rng(0).standard_normal((40, 40))
        stack = kq.KernelStack([np.eye(40), A + A.T], names=["good", "bad"])
        with pytest.raises(ValueError, match="'bad' is not positive semi-definite"):
            estimator().fit(stack, np.arange(40) % 2)

    def test_a_pattern_that_tells_the_class(self):
        rng = np.random.default_rng(0)
        y = np.arange(420) % 3
        blocks = {name: rng.standard_normal((420, 3)) for name in "abcd"}
        observed = rng.random((420, 4)) < 0.6
        observed[:, 0] = True
        observed[:, 1] = rng.random(420) < np.where(y == 0, 0.95, 0.1)
        X = kq.MultiView(blocks, observed)
        train, test = np.arange(80), np.arange(80, 420)
        blind = QUILT().fit(X[train], y[train])
        seeing = QUILT(pattern=True).fit(X[train], y[train])
        assert blind.pattern_reliability_ == 0
        assert seeing.pattern_reliability_ > 0
        # the experts of single views see some of it: they have a say only where the view is there
        assert seeing.score(X[test], y[test]) > blind.score(X[test], y[test]) + 0.03
        one, other = (log_loss(y[test], m.predict_proba(X[test])) for m in (seeing, blind))
        assert one < other - 0.02
        alone = np.vstack([seeing.predict_proba(X[[i]]) for i in test])
        np.testing.assert_allclose(alone, seeing.predict_proba(X[test]), atol=1e-10)
        assert REGRESSOR(pattern=True).fit(X, (y == 0) * 1.0).loo_score_ > 0.3

    def test_too_many_landmarks_are_refused_before_kernels_are_made(self):
        X, y = np.zeros((40_000, 1)), np.arange(40_000) % 2
        with pytest.raises(ValueError, match=r"1 kernels of 10000 samples.*lower n_landmarks"):
            QUILT(n_landmarks=40_000).fit(X, y)
        with pytest.raises(ValueError, match=r"ZeroFill.*40000.*completion=None"):
            QUILT(completion=kq.completion.ZeroFill()).fit(X, y)

    @pytest.mark.parametrize(
        "kernels", [["linear", "cosine"], {"a": ["linear"] * 4, "b": "linear", "c": "cosine"}]
    )
    def test_all_kernels_of_all_views_count_in_the_memory(self, kernels):
        X, y = make_samples(share=0.0)
        model = QUILT(kernels, views=VIEWS, max_memory=1e-6)
        with pytest.raises(ValueError, match="6 kernels of 90 samples"):
            model.fit(X, y)

    def test_few_samples_are_named(self):
        X, y = make_samples(share=0.0)
        X[np.ix_(np.arange(2, 90), VIEWS["a"])] = np.nan
        with pytest.warns(UserWarning, match=r"1 of 3 kernels.*less than 3.*'a \(2\)'"):
            model = QUILT(views=VIEWS).fit(X, y)
        assert model.kernel_weights_[0] == model.reliability_[0] == 0
        only = X[:, VIEWS["a"]][:2]
        with pytest.raises(ValueError, match="at least 3 training samples"):
            QUILT().fit(only, [0, 1])

    def test_a_stack_in_single_precision(self):
        X, y = make_samples()
        stack = kq.ViewKernels(dtype=np.float32).fit_transform(kq.as_views(X, VIEWS))
        double = kq.ViewKernels().fit_transform(kq.as_views(X, VIEWS))
        one = QUILT().fit(stack, y).predict_proba(stack)
        other = QUILT().fit(double, y).predict_proba(double)
        np.testing.assert_allclose(one, other, atol=1e-3)


class TestRegressor:
    @pytest.fixture
    def data(self):
        X, _ = kq.datasets.make_multiview(150, 3, random_state=0)
        y = 100 + 5 * (X[X.names[0]][:, 0] + X[X.names[1]][:, 0])
        return kq.datasets.make_absent(X, 0.3, random_state=0), y

    def test_prediction(self, data):
        X, y = data
        model = REGRESSOR().fit(X[:100], y[:100])
        assert model.score(X[100:], y[100:]) > 0.3
        assert model.loo_score_ > 0.3
        alone = np.array([model.predict(X[[i]])[0] for i in range(100, 150)])
        np.testing.assert_allclose(alone, model.predict(X[100:]), atol=1e-10)
        empty = kq.MultiView({name: np.full_like(X[name][:1], np.nan) for name in X.names})
        assert abs(model.predict(empty)[0] - y[:100].mean()) < y.std()

    def test_units_do_not_matter(self, data):
        X, y = data
        one = REGRESSOR().fit(X, y).predict(X)
        other = REGRESSOR().fit(X, 1e6 * y - 3.0).predict(X)
        np.testing.assert_allclose(other, 1e6 * one - 3.0, rtol=1e-9)

    def test_one_view_is_kernel_ridge(self):
        rng = np.random.default_rng(0)
        X = rng.standard_normal((40, 2))
        y = np.sin(X[:, 0])
        model = REGRESSOR().fit(X, y)
        K = kq.kernels.MedianGaussian().fit(X)(X)
        centred = K - K.mean(axis=0) - K.mean(axis=1)[:, None] + K.mean()
        Y = ((y - y.mean()) / y.std())[:, None]
        scores = fit_ridge(centred, Y).scores(centred)[:, 0]
        expected = model.early_stacking_.weights * scores + model.early_stacking_.bias
        np.testing.assert_allclose(model.predict(X), y.mean() + y.std() * expected, atol=1e-8)

    def test_warnings_point_to_the_caller(self, data):
        X, y = data
        observed = X.observed.copy()
        observed[2:, 0] = False
        observed[5] = False
        views = kq.MultiView({name: X[name] for name in X.names}, observed)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            REGRESSOR().fit(views, y)
        assert len(caught) == 2
        assert {each.filename for each in caught} == {__file__}

    def test_errors(self, data):
        X, y = data
        with pytest.raises(ValueError, match="n_samples=2"):
            REGRESSOR().fit(X[:2], y[:2])
        with pytest.raises(ValueError, match=r"3 kernels of 150 samples.*fewer samples") as caught:
            REGRESSOR(max_memory=1e-6).fit(X, y)
        assert "Classifier" not in str(caught.value)
        constant = REGRESSOR().fit(X, np.full(150, 7.0))
        np.testing.assert_allclose(constant.predict(X), 7.0)


def test_pair_median():
    rng = np.random.default_rng(0)
    D = rng.random((7, 7))
    D += D.T
    counts = rng.integers(1, 4, 7)
    where = np.repeat(np.arange(7), counts)
    assert pair_median(D, counts.astype(float)) == pair_median(D[np.ix_(where, where)])
    assert pair_median(D) == np.sort(D.ravel())[24]
    assert pair_median(np.zeros((3, 3))) == 1.0
    assert pair_median(np.diag([1.0, 2.0, 3.0])) == pytest.approx(6 / 9)


class TestMedianGaussian:
    def test_values(self):
        rng = np.random.default_rng(0)
        A = rng.standard_normal((21, 3)) * [1.0, 10.0, 0.1] + 5.0
        A[:, 2] = 4.0
        Z = (A - A.mean(axis=0)) / np.r_[A[:, :2].std(axis=0), 1.0]
        D = np.square(Z[:, None] - Z).sum(axis=2)
        kernel = kq.kernels.MedianGaussian(2.0, standardize=True).fit(A)
        np.testing.assert_allclose(kernel(A), np.exp(-D / (4 * np.median(D))))
        np.testing.assert_allclose(kernel(A[:4], A), kernel(A)[:4])
        raw = kq.kernels.MedianGaussian(standardize=False).fit(A)
        D = np.square(A[:, None] - A).sum(axis=2)
        np.testing.assert_allclose(raw(A), np.exp(-D / np.median(D)))
        with pytest.raises(ValueError, match="scale of MedianGaussian"):
            kq.kernels.MedianGaussian(0.0).fit(A)

    def test_robust_standardisation_draws_in_what_is_far_away(self):
        rng = np.random.default_rng(2)
        A = np.exp(2 * rng.standard_normal((31, 4)))
        A[:, 2] = 4.0
        A[:, 3] = A[:, 3] > 5  # mostly zero, so that its quartiles are equal
        low, middle, high = np.sort(A, axis=0)[[7, 15, 23]]
        Z = (A - middle) / np.r_[(high - low)[:2] / 1.349, 1.0, A[:, 3].std()]
        Z = Z / np.sqrt(1 + Z**2 / 9)
        D = np.square(Z[:, None] - Z).sum(axis=2)
        np.testing.assert_allclose(
            kq.kernels.MedianGaussian().fit(A)(A), np.exp(-D / np.median(D)), atol=1e-12
        )

    def test_one_wild_value_leaves_the_others_as_they_are(self):
        A = np.random.default_rng(3).standard_normal((60, 2))
        wild = A.copy()
        wild[0, 0] = 1e6
        rest = slice(1, None)

        def change(standardize):
            kernel = kq.kernels.MedianGaussian(standardize=standardize)
            before, after = (clone(kernel).fit(each)(each)[rest, rest] for each in (A, wild))
            return np.abs(after - before).max()

        assert change("robust") < 0.15 < 0.9 < change(True)
        far = kq.kernels.MedianGaussian().fit(A)(np.array([[1e300, 0.0]]), A)
        near = kq.kernels.MedianGaussian().fit(A)(np.array([[1e30, 0.0]]), A)
        np.testing.assert_allclose(far, near, rtol=1e-12)
        assert far.max() > 1e-3

    def test_a_rare_value_is_no_further_away_than_a_few_units(self):
        A = np.random.default_rng(5).standard_normal((200, 2))
        A[:, 1] = np.arange(200) < 2

        def squared_distance(standardize):  # of a sample with the rare value from one without it
            kernel = kq.kernels.MedianGaussian(standardize=standardize).fit(A)
            (likeness,) = kernel(np.array([[0.0, 1.0]]), np.array([[0.0, 0.0]])).ravel()
            return -kernel.squared_width_ * np.log(likeness)

        assert squared_distance("robust") < 9.0 < 100.0 < squared_distance(True)

    @pytest.mark.parametrize("standardize", ["soft", 2, None])
    def test_other_standardisations_are_refused(self, standardize):
        with pytest.raises(ValueError, match="standardize of MedianGaussian is 'robust', True"):
            kq.kernels.MedianGaussian(standardize=standardize).fit(np.eye(3))

    def test_weights_are_repetitions(self):
        rng = np.random.default_rng(1)
        A, counts = rng.standard_normal((15, 3)), rng.integers(0, 4, 15)
        one = kq.kernels.MedianGaussian().fit(A, counts)
        other = kq.kernels.MedianGaussian().fit(np.repeat(A, counts, axis=0))
        np.testing.assert_allclose(one(A), other(A), rtol=1e-10)
