"""NmCCA, the classifiers on its components, and the selection of kernels."""

from itertools import combinations

import numpy as np
import pytest
from scipy.linalg import block_diag, eigh
from sklearn.base import clone
from sklearn.cross_decomposition import CCA
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier

import kernelquilt as kq


def correlated_views(seed, sizes=(4, 3, 5), n=40):
    rng = np.random.default_rng(seed)
    shared = rng.standard_normal((n, 2))
    return {
        f"v{k}": shared @ rng.standard_normal((2, d)) + rng.standard_normal((n, d)) + 3.0
        for k, d in enumerate(sizes)
    }


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("eps", [0.3, 20.0, None])
def test_components_solve_the_generalised_eigenproblem(seed, eps):
    views = correlated_views(seed)
    model = kq.mkl.NmCCA(3, eps=eps).fit(views)
    S = [block - block.mean(axis=0) for block in views.values()]
    ridge = [0.01 * np.square(s).sum() / s.shape[1] if eps is None else eps for s in S]
    np.testing.assert_allclose(model.eps_, ridge)
    C = np.hstack(S).T @ np.hstack(S)
    D = block_diag(*[s.T @ s + e * np.eye(s.shape[1]) for s, e in zip(S, ridge, strict=True)])
    expected = eigh(C, D, eigvals_only=True)[::-1][:3]
    np.testing.assert_allclose(model.correlations_, expected, rtol=1e-10)
    W = np.vstack(model.projections_)
    np.testing.assert_allclose(C @ W, D @ W * model.correlations_, atol=1e-9)
    np.testing.assert_allclose(W.T @ D @ W, np.eye(3), atol=1e-10)
    # MAXVAR: the spectrum of the sum of the regularised projections
    hats = sum(
        s @ np.linalg.solve(s.T @ s + e * np.eye(s.shape[1]), s.T)
        for s, e in zip(S, ridge, strict=True)
    )
    values, G = np.linalg.eigh(hats)
    np.testing.assert_allclose(model.correlations_, values[::-1][:3], rtol=1e-10)
    for s, e, own in zip(S, ridge, model.projections_, strict=True):
        through = np.linalg.solve(s.T @ s + e * np.eye(s.shape[1]), s.T @ G[:, ::-1][:, :3])
        cosine = np.abs(np.sum(through * own, axis=0))
        cosine /= np.linalg.norm(through, axis=0) * np.linalg.norm(own, axis=0)
        np.testing.assert_allclose(cosine, 1.0, atol=1e-8)


def test_two_views_are_canonical_correlation_analysis():
    views = correlated_views(5, sizes=(4, 3))
    model = kq.mkl.NmCCA(3, eps=0.0).fit(views)
    theirs = CCA(3, max_iter=10_000, tol=1e-12).fit(views["v0"], views["v1"])
    a, b = theirs.transform(views["v0"], views["v1"])
    correlations = [np.corrcoef(a[:, j], b[:, j])[0, 1] for j in range(3)]
    np.testing.assert_allclose(model.correlations_ - 1, correlations, atol=1e-5)
    Z = model.transform(views)
    own = [np.corrcoef(Z["v0"][:, j], Z["v1"][:, j])[0, 1] for j in range(3)]
    np.testing.assert_allclose(own, correlations, atol=1e-5)


def test_new_samples_are_projected_like_the_training_samples():
    views = correlated_views(6)
    data = kq.MultiView(views)
    model = kq.mkl.NmCCA(2)
    Z = model.fit_transform(data)
    again = model.transform(data[10:20])
    for name in data.names:
        np.testing.assert_allclose(again[name], Z[name][10:20], atol=1e-12)
        np.testing.assert_allclose(Z[name].mean(axis=0), 0.0, atol=1e-12)
    flat = np.hstack(list(views.values()))
    columns = {"v0": slice(0, 4), "v1": slice(4, 7), "v2": slice(7, 12)}
    by_columns = kq.mkl.NmCCA(2, views=columns).fit_transform(flat)
    np.testing.assert_allclose(by_columns["v1"], Z["v1"], atol=1e-12)


def test_absent_views_count_as_their_means_and_stay_absent():
    views = correlated_views(7)
    observed = np.random.default_rng(0).random((40, 3)) < 0.8
    data = kq.MultiView(views, observed)
    garbage = {k: np.where(observed[:, [j]], v, 1e9) for j, (k, v) in enumerate(views.items())}
    Z, dirty = (
        kq.mkl.NmCCA(2).fit_transform(each) for each in (data, kq.MultiView(garbage, observed))
    )
    np.testing.assert_array_equal(Z.observed, observed)
    filled = {}
    for j, (name, block) in enumerate(views.items()):
        np.testing.assert_array_equal(Z[name], dirty[name])
        mean = block[observed[:, j]].mean(axis=0)
        filled[name] = np.where(observed[:, [j]], block, mean)
    full = kq.mkl.NmCCA(2).fit_transform(filled)
    np.testing.assert_allclose(Z["v0"][observed[:, 0]], full["v0"][observed[:, 0]], atol=1e-10)


def test_a_view_nobody_has_is_ignored():
    views = correlated_views(8)
    gone = {**views, "gone": np.full((40, 2), np.nan)}
    with pytest.warns(UserWarning, match="'gone'"):
        model = kq.mkl.NmCCA(2).fit(gone)
    np.testing.assert_allclose(model.correlations_, kq.mkl.NmCCA(2).fit(views).correlations_)
    assert not model.transform({**views, "gone": np.ones((40, 2))}).observed[:, 3].any()
    with pytest.raises(ValueError, match="all 1 views of 5 samples are absent"):
        kq.mkl.NmCCA(1).fit({"gone": np.full((5, 2), np.nan)})


def test_explicit_features_need_regularisation():
    X, _ = kq.datasets.make_multiview(30, 2, random_state=0)
    features = kq.EmpiricalKernelMap(kernels="gaussian").fit_transform(X)
    without = kq.mkl.NmCCA(5, eps=0.0).fit(features)
    np.testing.assert_allclose(without.correlations_, 2.0, atol=1e-6)
    assert kq.mkl.NmCCA(5).fit(features).correlations_[0] < 1.99
    assert kq.mkl.NmCCA().fit(features).n_components_ == 29


def test_default_number_of_components():
    views = correlated_views(9)
    assert kq.mkl.NmCCA().fit(views).n_components_ == 3
    rng = np.random.default_rng(0)
    many = {"a": rng.standard_normal((90, 70)), "b": rng.standard_normal((90, 60))}
    assert kq.mkl.NmCCA().fit(many).n_components_ == 50


def test_bad_parameters_of_nmcca():
    views = correlated_views(10)
    model = kq.mkl.NmCCA(2).fit(views)
    with pytest.raises(
        ValueError, match=r"n_components=13 .* rank 12 of the 3 views of 40 samples"
    ):
        model.set_params(n_components=13).fit(views)
    assert model.n_components_ == 2
    with pytest.raises(ValueError, match="none of the 1 views varies among the 5 samples"):
        kq.mkl.NmCCA().fit(np.ones((5, 3)))
    for parameters in ({"eps": -1.0}, {"eps": np.inf}, {"n_components": 0}):
        with pytest.raises(ValueError, match="parameter"):
            kq.mkl.NmCCA(**parameters).fit(views)


@pytest.fixture(scope="module")
def classes():
    X, y = kq.datasets.make_multiview(120, 3, n_classes=3, random_state=0)
    return kq.datasets.make_absent(X, 0.2, random_state=0), y


def components(X, q, scale):
    features = kq.EmpiricalKernelMap(kernels="gaussian").fit_transform(X)
    Z = kq.mkl.NmCCA(q, eps=1.0).fit_transform(features)
    return [np.where(Z.observed[:, [k]], scale * Z[name], 0.0) for k, name in enumerate(Z.names)], Z


def test_concatenation_is_one_classifier_of_all_components(classes):
    X, y = classes
    model = kq.mkl.CCAFusion(4, eps=1.0, estimator=LinearSVC(C=0.1, random_state=0)).fit(X, y)
    blocks, _ = components(X, 4, np.sqrt(len(y)))
    by_hand = LinearSVC(C=0.1, random_state=0).fit(np.hstack(blocks), y)
    np.testing.assert_allclose(
        model.decision_function(X), by_hand.decision_function(np.hstack(blocks)), atol=1e-6
    )


def test_vote_is_the_majority_of_the_views_a_sample_has(classes):
    X, y = classes
    model = kq.mkl.CCAFusion(4, eps=1.0, fusion="vote", estimator=LinearSVC(random_state=0)).fit(
        X, y
    )
    blocks, Z = components(X, 4, np.sqrt(len(y)))
    votes = np.zeros((len(y), 3), dtype=int)
    for k, block in enumerate(blocks):
        have = Z.observed[:, k]
        member = LinearSVC(random_state=0).fit(block[have], y[have])
        predicted = np.searchsorted(member.classes_, member.predict(block))
        votes[have, predicted[have]] += 1
    ranked = np.sort(votes, axis=1)
    clear = ranked[:, -1] > ranked[:, -2]
    assert clear.sum() > 60
    np.testing.assert_array_equal(
        model.predict(X)[clear], model.classes_[votes.argmax(axis=1)[clear]]
    )
    tied = votes[np.arange(len(y)), np.searchsorted(model.classes_, model.predict(X))]
    np.testing.assert_array_equal(tied, votes.max(axis=1))


@pytest.mark.parametrize("fusion", ["concatenate", "vote"])
def test_defaults_are_the_baselines_of_the_paper(fusion, classes):
    X, y = classes
    new = kq.mkl.CCAFusion(5, eps=1.0, fusion=fusion)
    model = clone(new).fit(X, y)
    assert all(isinstance(each, kq.mkl.MHKSClassifier) for each in model.estimators_.values())
    assert len(model.estimators_) == (1 if fusion == "concatenate" else 3)
    assert model.score(X, y) > 0.7
    stack = kq.ViewKernels().fit_transform(X)
    from_stack = clone(new).fit(stack, y)
    np.testing.assert_allclose(
        from_stack.decision_function(stack), model.decision_function(X), atol=1e-6
    )
    assert cross_val_score(new, stack, y, cv=3).mean() > 0.55
    assert cross_val_score(new, X, y, cv=3).mean() > 0.55


@pytest.mark.parametrize("fusion", ["concatenate", "vote"])
@pytest.mark.parametrize("estimator", [LogisticRegression(), DecisionTreeClassifier(max_depth=3)])
def test_any_classifier_and_the_views_themselves(fusion, estimator):
    X, y = kq.datasets.load_example("wdbc")
    X = kq.ViewTransformer(StandardScaler()).fit_transform(X)
    model = kq.mkl.CCAFusion(5, fusion=fusion, estimator=estimator, kernels=None)
    assert model.fit(X, y).map_ is None
    assert model.score(X, y) > 0.85
    assert model.decision_function(X).shape == y.shape


def test_samples_and_views_that_cannot_vote():
    X, y = kq.datasets.make_multiview(60, 2, random_state=0)
    observed = np.ones((60, 2), dtype=bool)
    observed[y == np.unique(y)[0], 1] = False
    X = kq.MultiView({name: X[name] for name in X.names}, observed)
    model = kq.mkl.CCAFusion(2, fusion="vote").fit(X, y)
    assert len(model.estimators_) == 1
    nothing = kq.MultiView({name: np.full((2, X[name].shape[1]), np.nan) for name in X.names})
    common = np.unique(y)[np.argmax(np.unique(y, return_counts=True)[1])]
    assert (model.predict(nothing) == common).all()
    with pytest.raises(ValueError, match="two classes, got 1 class among 60"):
        model.fit(X, np.zeros(60))


@pytest.mark.parametrize("fusion", ["concatenate", "vote"])
def test_samples_without_views_are_left_out(fusion):
    X, y = kq.datasets.make_multiview(60, 2, random_state=0)
    stack = kq.ViewKernels("linear").fit_transform(X)
    K, empty = stack.gram(), np.arange(60) < 15
    observed = np.repeat(~empty[:, None], 2, axis=1)
    model = kq.mkl.CCAFusion(2, eps=1.0, fusion=fusion)
    with pytest.warns(UserWarning, match="15 of 60 training samples have no observed view"):
        with_them = clone(model).fit(kq.KernelStack(K, observed), y)
    assert with_them.classes_.tolist() == np.unique(y).tolist()
    without = clone(model).fit(kq.KernelStack(K)[15:], y[15:])
    np.testing.assert_allclose(
        with_them.decision_function(kq.KernelStack(K)),
        without.decision_function(kq.KernelStack(K[:, :, 15:])),
        atol=1e-8,
    )


def test_views_and_kernels_are_not_mixed(classes):
    X, y = classes
    stack = kq.ViewKernels().fit_transform(X)
    model = kq.mkl.CCAFusion(2).fit(X, y)
    with pytest.raises(ValueError, match="X is a KernelStack, but CCAFusion was fitted on views"):
        model.predict(stack)
    model.fit(stack, y)
    with pytest.raises(ValueError, match="kernels are needed here"):
        model.predict(X)
    with pytest.raises(ValueError, match="leave it None for kernels"):
        model.set_params(views={"a": [0]}).fit(stack, y)


def test_selected_kernels_are_slices_of_one_stack():
    X, y = kq.datasets.make_multiview(60, 3, random_state=0)
    X = kq.datasets.make_absent(X, 0.2, random_state=0)
    stack = kq.ViewKernels().fit_transform(X)
    chosen = stack.select([stack.names[2], 0])
    assert chosen.names == (stack.names[2], stack.names[0])
    np.testing.assert_array_equal(chosen.gram(), stack.gram()[[2, 0]])
    np.testing.assert_array_equal(chosen.observed, stack.observed[:, [2, 0]])
    assert np.shares_memory(stack.select([1]).gram(), stack.gram())
    model = kq.mkl.UniformMKLClassifier().fit(stack[:40].select([2, 0]), y[:40])
    scores = model.decision_function(stack[40:].select([2, 0]))
    np.testing.assert_array_equal(scores, model.decision_function(chosen[40:]))
    by_hand = kq.mkl.UniformMKLClassifier().fit(
        kq.KernelStack(stack.gram()[[2, 0]], stack.observed[:, [2, 0]])[:40], y[:40]
    )
    np.testing.assert_allclose(by_hand.dual_coef_, model.dual_coef_)
    for bad in ([3], ["none"], [0, 0], []):
        with pytest.raises(ValueError, match="kernel"):
            stack.select(bad)


def test_best_kernel_and_best_pair_by_cross_validation():
    X, y = kq.datasets.make_multiview(90, 3, relevance=[0.0, 2.0, 0.3], random_state=0)
    stack = kq.ViewKernels().fit_transform(X)
    one = GridSearchCV(
        make_pipeline(kq.kernels.SelectKernels(), kq.mkl.UniformMKLClassifier()),
        {"selectkernels__kernels": [[k] for k in range(3)]},
        cv=3,
    ).fit(stack, y)
    assert one.best_params_["selectkernels__kernels"] == [1]
    svc = SVC(kernel="precomputed", tol=1e-8).fit(stack.gram()[1], y)
    np.testing.assert_allclose(
        one.decision_function(stack), svc.decision_function(stack.gram()[1]), atol=1e-6
    )
    pairs = GridSearchCV(
        make_pipeline(kq.kernels.SelectKernels(), kq.mkl.SVM2KClassifier()),
        {"selectkernels__kernels": list(combinations(range(3), 2))},
        cv=3,
    ).fit(stack, y)
    assert 1 in pairs.best_params_["selectkernels__kernels"]
    assert pairs.best_estimator_[-1].dual_coef_.shape == (1, 2, 90)
    assert kq.kernels.SelectKernels().fit_transform(stack) is stack


def test_concatenated_maps_are_the_sum_kernel():
    X, y = kq.datasets.make_multiview(60, 3, random_state=0)
    features = kq.EmpiricalKernelMap(kernels="gaussian").fit_transform(X)
    side_by_side = np.hstack([features[name] for name in features.names])
    svc = SVC(C=2.0, kernel="linear", tol=1e-8).fit(side_by_side, y)
    ours = kq.mkl.UniformMKLClassifier(3 * 2.0).fit(X, y)
    np.testing.assert_allclose(
        ours.decision_function(X), svc.decision_function(side_by_side), atol=1e-5
    )
