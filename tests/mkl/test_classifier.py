"""The mathematics, the attributes and the errors of the classifiers."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import ClassifierMixin
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.svm import SVC

import kernelquilt as kq
from discovery import estimators, held_to
from kernelquilt.core.limits import single_threaded_blas
from problems import conic_mkl, conic_svm, random_kernels, random_problem

CLASSIFIERS = held_to(estimators(ClassifierMixin, "mkl"), "weights of kernels")
ONE_COMBINED_KERNEL = held_to(
    CLASSIFIERS, "duals in common", "one weight of a kernel for all samples"
)
every_classifier = pytest.mark.parametrize("classifier", CLASSIFIERS)
more_than_two_views = pytest.mark.parametrize(
    "classifier", held_to(CLASSIFIERS, "more than two views")
)


@pytest.fixture
def two_views():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 20)
    views = {
        "mri": rng.standard_normal((40, 3)) + y[:, None],
        "pet": rng.standard_normal((40, 2)) + 0.5 * y[:, None],
    }
    return views, y


@pytest.mark.parametrize("seed", range(10))
def test_simple_mkl_equals_conic_solver(seed):
    rng = np.random.default_rng(seed)
    n, m = 24, 4
    K, factors = random_kernels(rng, n, m)
    observed = rng.random((n, m)) < 0.8
    observed[:, 0] = True
    y = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    C = 10.0 ** rng.uniform(-1, 2)
    model = kq.SimpleMKLClassifier(C, tol=1e-7).fit(kq.KernelStack(K, observed), y)
    masked = [F * observed[:, [p]] for p, F in enumerate(factors)]
    expected = conic_mkl(masked, y, np.ones(n), np.full(n, C))
    assert model.objective_ == pytest.approx(expected, rel=1e-6)
    assert model.objective_ - model.duality_gap_ <= expected * (1 + 1e-6)


@pytest.mark.parametrize("seed", range(10))
def test_observed_fraction_equals_conic_solver(seed):
    rng = np.random.default_rng(seed)
    n, m = 24, 4
    K, factors = random_kernels(rng, n, m)
    observed = rng.random((n, m)) < 0.6
    observed[np.arange(n), rng.integers(0, m, n)] = True
    y = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    stack = kq.KernelStack(K, observed)
    margins = observed.mean(axis=1)
    joint = np.hstack([F * observed[:, [p]] for p, F in enumerate(factors)]) / np.sqrt(m)
    model = kq.ObservedFractionMKLClassifier(3.0, tol=1e-7).fit(stack, y)
    expected = conic_svm(joint, y, margins, 3.0 / margins)
    assert model.objective_ == pytest.approx(expected, rel=1e-6)
    scores = model.decision_function(stack)
    primal = (
        0.5 * model.dual_coef_[0] @ (scores - model.intercept_)
        + 3.0 * np.maximum(0, 1 - y * scores / margins).sum()
    )
    assert model.objective_ == pytest.approx(primal, rel=1e-8)


def test_uniform_equals_svc_on_the_mean_kernel():
    rng = np.random.default_rng(1)
    K, _ = random_kernels(rng, 80, 3)
    y = rng.integers(0, 2, 80)
    ours = kq.mkl.UniformMKLClassifier(2.0).fit(kq.KernelStack(K), y)
    theirs = SVC(C=2.0, kernel="precomputed", tol=1e-8).fit(K.mean(axis=0), y)
    np.testing.assert_allclose(
        ours.decision_function(kq.KernelStack(K)),
        theirs.decision_function(K.mean(axis=0)),
        atol=1e-6,
    )


def test_simple_mkl_of_one_kernel_is_the_svm():
    rng = np.random.default_rng(2)
    X = rng.standard_normal((60, 4))
    y = (X[:, 0] > 0).astype(int)
    ours = kq.SimpleMKLClassifier(kernels="rbf").fit(X, y)
    theirs = SVC(gamma=1 / 4, tol=1e-8).fit(X, y)
    new = rng.standard_normal((30, 4))
    np.testing.assert_allclose(
        ours.decision_function(new), theirs.decision_function(new), atol=1e-6
    )


def test_simple_mkl_finds_the_relevant_view():
    X, y = kq.datasets.make_multiview(150, 3, relevance=[2.0, 0.0, 0.0], random_state=0)
    model = kq.SimpleMKLClassifier().fit(X, y)
    assert model.weights_.argmax() == 0
    assert model.weights_[0] > 0.6
    assert model.n_support_.tolist() == [np.count_nonzero(model.dual_coef_)]
    assert model.weights_.sum() == pytest.approx(1.0)
    assert model.kernel_names_ == X.names


@pytest.mark.parametrize("classifier", ONE_COMBINED_KERNEL)
def test_score_is_the_sum_over_kernels(classifier):
    rng = np.random.default_rng(3)
    K, _ = random_kernels(rng, 50, 3)
    observed = rng.random((50, 3)) < 0.7
    observed[:, 0] = True
    y = rng.integers(0, 2, 50)
    stack = kq.KernelStack(K, observed)
    model = classifier().fit(stack[:30], y[:30])
    expected = np.full(20, model.intercept_[0])
    for p in range(3):
        row, col = observed[30:, p], observed[:30, p]
        block = K[p, 30:, :30] * row[:, None] * col[None, :]
        expected += model.weights_[p] * block @ model.dual_coef_[0]
    np.testing.assert_allclose(model.decision_function(stack[30:]), expected, atol=1e-12)
    rectangular = kq.KernelStack(K[:, 30:, :30], observed[30:])
    np.testing.assert_allclose(model.decision_function(rectangular), expected, atol=1e-12)


@every_classifier
def test_prediction_in_parts_equals_prediction_at_once(classifier, two_views, monkeypatch):
    views, y = two_views
    model = classifier().fit(views, y)
    at_once = model.decision_function(views)
    monkeypatch.setattr("kernelquilt.kernels.inputs.PART_ENTRIES", 7 * 40)
    np.testing.assert_allclose(model.decision_function(views), at_once, atol=1e-12)


@every_classifier
def test_balanced_class_weight_equals_explicit_weights(classifier, two_views):
    views, y = two_views
    data, y = kq.MultiView(views)[:30], y[:30]
    factor = {0: 30 / (2 * 20), 1: 30 / (2 * 10)}
    balanced = classifier(class_weight="balanced").fit(data, y).decision_function(data)
    explicit = classifier(class_weight=factor).fit(data, y).decision_function(data)
    weighted = classifier().fit(data, y, sample_weight=None).decision_function(data)
    np.testing.assert_allclose(balanced, explicit, atol=1e-9)
    assert np.abs(balanced - weighted).max() > 1e-3


@more_than_two_views
def test_one_vs_one_votes(classifier):
    X, y = kq.datasets.make_multiview(90, 3, n_classes=3, random_state=0)
    model = classifier(multi_class="ovo").fit(X, y)
    assert model.dual_coef_.shape[0] == 3
    assert model.dual_coef_.shape[-1] == 90
    assert model.decision_function(X).shape == (90, 3)
    assert model.score(X, y) > 0.8
    pairs = [(0, 1), (0, 2), (1, 2)]
    for row, pair in zip(
        np.abs(model.dual_coef_).reshape(3, -1, 90).sum(axis=1), pairs, strict=True
    ):
        assert set(y[row != 0]) <= set(model.classes_[list(pair)])


@every_classifier
def test_sample_without_views_is_left_out_and_scored_by_the_intercept(classifier, two_views):
    views, y = two_views
    for block in views.values():
        block[[3, 7]] = np.nan
    with pytest.warns(UserWarning, match="2 of 40 training samples have no observed view"):
        model = classifier().fit(views, y)
    assert (model.dual_coef_[0][..., [3, 7]] == 0).all()
    np.testing.assert_array_equal(
        model.decision_function(views)[[3, 7]], np.repeat(model.intercept_, 2)
    )
    keep = np.delete(np.arange(40), [3, 7])
    without = classifier().fit({k: v[keep] for k, v in views.items()}, y[keep])
    np.testing.assert_allclose(
        without.decision_function(views), model.decision_function(views), atol=1e-9
    )


@more_than_two_views
def test_view_absent_for_all_gets_no_weight(classifier, two_views):
    views, y = two_views
    views["gone"] = np.full((40, 4), np.nan)
    with pytest.warns(UserWarning, match=r"absent for all 40 training samples.*'gone'"):
        model = classifier().fit(views, y)
    assert model.weights_[2] == 0
    without = classifier().fit({k: views[k] for k in ("mri", "pet")}, y)
    expected = without.decision_function({k: views[k] for k in ("mri", "pet")})
    np.testing.assert_allclose(model.decision_function(views), expected, atol=1e-12)
    views["gone"] = np.ones((40, 4))
    np.testing.assert_allclose(model.decision_function(views), expected, atol=1e-12)


@more_than_two_views
def test_zero_weight_removes_a_sample_and_the_view_only_it_has(classifier, two_views):
    views, y = two_views
    views["rare"] = np.full((40, 2), np.nan)
    views["rare"][:3] = 1.0
    weight = np.r_[np.zeros(3), np.ones(37)]
    weighted = classifier().fit(views, y, sample_weight=weight)
    rest = {name: block[3:] for name, block in views.items()}
    with pytest.warns(UserWarning, match="'rare'"):
        removed = classifier().fit(rest, y[3:])
    np.testing.assert_allclose(
        weighted.decision_function(rest), removed.decision_function(rest), atol=1e-9
    )


@every_classifier
def test_read_only_kernels(classifier):
    K, _ = random_kernels(np.random.default_rng(7), 20, 1)
    K.setflags(write=False)
    y = np.arange(20) % 2
    assert classifier().fit(kq.KernelStack(K), y).converged_


@every_classifier
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_indefinite_kernels_are_named(classifier):
    rng = np.random.default_rng(8)
    A = rng.standard_normal((30, 30))
    stack = kq.KernelStack((A + A.T)[None] / 2, names=["similarity"])
    with pytest.warns(UserWarning, match=r"not positive semi-definite.*'similarity'.*check_psd"):
        classifier().fit(stack, np.arange(30) % 2)


@more_than_two_views
@pytest.mark.parametrize("C", [1e2, 1e4, 1e6])
def test_low_rank_kernels_at_large_penalties(classifier, C):
    X, y = kq.datasets.make_multiview(
        300, 3, relevance=[0.3, 0.2, 0.1], label_noise=0.1, random_state=0
    )
    model = classifier(C, kernels="linear").fit(X, y)
    assert model.converged_
    assert model.n_smo_iter_ < 100_000 * model.n_solves_


def test_history_ends_with_the_solution():
    X, y = kq.datasets.load_example("wdbc")
    model = kq.SimpleMKLClassifier(100.0, kernels=kq.gaussian_bank(8, spacing="log")).fit(X, y)
    last = model.history_[0][-1]
    assert last.objective == model.objective_
    assert last.n_solves == model.n_solves_


def test_labels_in_another_order_are_refused(two_views):
    import pandas as pd

    views, y = two_views
    ids = [f"patient {k:02}" for k in range(40)]
    X = kq.MultiView.from_frames({k: pd.DataFrame(v, index=ids) for k, v in views.items()})
    labels = pd.Series(y, index=ids)
    expected = kq.mkl.UniformMKLClassifier().fit(X, labels).decision_function(X)
    shuffled = labels.sample(frac=1, random_state=0)
    with pytest.raises(ValueError, match=r"y.loc\[X.index\]"):
        kq.mkl.UniformMKLClassifier().fit(X, shuffled)
    again = kq.mkl.UniformMKLClassifier().fit(X, shuffled.loc[X.index]).decision_function(X)
    np.testing.assert_array_equal(again, expected)


@pytest.mark.parametrize("bad", [-1.0, 0.0, np.nan, np.inf])
def test_class_weights_must_be_positive(bad, two_views):
    views, y = two_views
    with pytest.raises(ValueError, match="class_weight must be positive and finite"):
        kq.SimpleMKLClassifier(class_weight={0: bad}).fit(views, y)


@every_classifier
def test_everything_absent_is_an_error(classifier):
    X = np.full((10, 2), np.nan)
    with (
        warnings.catch_warnings(action="ignore"),
        pytest.raises(ValueError, match="observed view of at least two classes"),
    ):
        classifier(views={"a": [0], "b": [1]}).fit(X, np.repeat([0, 1], 5))


def test_early_stop_warns_with_gap_and_remedy():
    X, y = kq.datasets.load_example("wdbc")
    with pytest.warns(
        ConvergenceWarning, match=r"relative duality gap .* above tol=1e-08.*max_iter"
    ):
        model = kq.SimpleMKLClassifier(tol=1e-8, max_iter=1).fit(X, y)
    assert not model.converged_
    assert model.n_solves_ == 1


def test_verbose_reports_every_step(two_views, capsys):
    views, y = two_views
    model = kq.SimpleMKLClassifier(verbose=1).fit(views, y)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == model.n_iter_ == len(model.history_[0])
    assert all("objective" in line and "gap" in line for line in lines)


@every_classifier
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_complete_stack_is_used_without_a_copy(classifier, dtype):
    rng = np.random.default_rng(5)
    K, _ = random_kernels(rng, 40, 2)
    K = (K + K.transpose(0, 2, 1)).astype(dtype)
    y = rng.integers(0, 2, 40)
    gram, _ = kq.KernelStack(K).training_gram()
    assert gram is K or gram.base is K or np.shares_memory(gram, K)
    before = K.copy()
    model = classifier().fit(kq.KernelStack(K), y)
    np.testing.assert_array_equal(K, before)
    assert model.dual_coef_.dtype == np.float64


def test_memory_mapped_kernels_of_their_own_files(tmp_path, two_views):
    views, y = two_views
    stack = kq.ViewKernels().fit_transform(views)
    mapped = []
    for name, kernel in zip(stack.names, stack.gram(), strict=True):
        np.save(tmp_path / f"{name}.npy", kernel)
        mapped.append(np.load(tmp_path / f"{name}.npy", mmap_mode="r"))
    from_disk = kq.KernelStack(mapped, names=stack.names)
    one = kq.SimpleMKLClassifier().fit(from_disk, y)
    other = kq.SimpleMKLClassifier().fit(stack, y)
    np.testing.assert_array_equal(one.dual_coef_, other.dual_coef_)
    np.testing.assert_array_equal(one.predict(from_disk), other.predict(stack))


@given(seed=st.integers(0, 10_000), factor=st.sampled_from([0.1, 10.0]))
@settings(max_examples=25, deadline=None)
def test_scaling_kernels_up_and_penalty_down_keeps_scores(seed, factor):
    rng = np.random.default_rng(seed)
    K, _, _, y, _, _ = random_problem(rng, m=3)
    one = kq.mkl.solve_simple_mkl(K, y, C=2.0, tol=1e-9)
    other = kq.mkl.solve_simple_mkl(factor * K, y, C=2.0 / factor, tol=1e-9)
    assert factor * other.objective == pytest.approx(one.objective, rel=1e-6)


@given(seed=st.integers(0, 10_000))
@settings(max_examples=40, deadline=None)
def test_gap_is_never_negative_and_objective_grows_with_c(seed):
    rng = np.random.default_rng(seed)
    K, _, _, y, t, _ = random_problem(rng)
    values = []
    for C in (0.01, 1.0, 100.0):
        solution = kq.mkl.solve_simple_mkl(K, y, C=C, margins=t, tol=1e-4)
        assert solution.duality_gap >= -1e-12 * abs(solution.objective)
        values.append(solution.objective)
    assert values[0] <= values[1] * (1 + 1e-3) <= values[2] * (1 + 2e-3)


@every_classifier
@pytest.mark.parametrize("C", [1e-6, 1e6])
def test_extreme_penalties_give_finite_scores(classifier, C, two_views):
    views, y = two_views
    model = classifier(C).fit(views, y)
    assert np.isfinite(model.decision_function(views)).all()
    assert model.converged_


BAD_DATA = {
    "partial NaN": (lambda v: v["mri"].__setitem__((4, 1), np.nan), "NaN.*'mri'|'mri'.*NaN"),
    "infinite": (lambda v: v["pet"].__setitem__((4, 1), np.inf), "'pet'.*inf"),
    "length": (lambda v: v.__setitem__("pet", v["pet"][:39]), "'pet'"),
}


@every_classifier
@pytest.mark.parametrize("case", BAD_DATA)
def test_bad_views_are_named_and_leave_the_model_alone(classifier, case, two_views):
    views, y = two_views
    model = classifier().fit(views, y)
    before = dict(vars(model))
    spoil, message = BAD_DATA[case]
    spoil(views)
    with pytest.raises(ValueError, match=message):
        model.fit(views, y)
    assert vars(model) == before


@every_classifier
def test_bad_targets_and_parameters(classifier, two_views):
    views, y = two_views
    with pytest.raises(ValueError, match=r"two classes.*1 class"):
        classifier().fit(views, np.zeros(40))
    with pytest.raises(ValueError, match="X has 40 samples, but y has 39 labels"):
        classifier().fit(views, y[:39])
    with pytest.raises(ValueError, match="two classes with positive weight"):
        classifier().fit(views, y, sample_weight=(y == 1).astype(float))
    with pytest.raises(ValueError, match="3 of 40 sample weights are negative"):
        classifier().fit(views, y, sample_weight=np.r_[-np.ones(3), np.ones(37)])
    for C in (0.0, -1.0, np.nan, np.inf, "1"):
        with pytest.raises(ValueError, match=f"'{classifier._penalty}' parameter"):
            classifier(C).fit(views, y)
    with pytest.raises(ValueError, match=r"unknown kernel 'gausian'.*'gaussian'"):
        classifier(kernels="gausian").fit(views, y)


def test_bad_kernels_of_views_are_named(two_views):
    class Skewed(kq.kernels.MedianGaussian):
        """Says that it is a kernel that needs no check."""

        def __call__(self, A, B=None):
            return super().__call__(A, B) + np.triu(np.ones((len(A), len(B))), 1)

    X, y = two_views
    for kernel in (Skewed(), lambda A, B: A @ np.roll(B, 1, axis=1).T):
        with pytest.raises(ValueError, match="samples is not symmetric"):
            kq.SimpleMKLClassifier(kernels=kernel).fit(X, y)
    with pytest.raises(ValueError, match=r"NaN or inf .*or choose another kernel"):
        kq.SimpleMKLClassifier(kernels=lambda A, B: np.full((len(A), len(B)), np.nan)).fit(X, y)


@every_classifier
def test_bad_kernels_are_named(classifier):
    rng = np.random.default_rng(6)
    K, _ = random_kernels(rng, 12, 2)
    y = np.repeat([0, 1], 6)
    asymmetric = K.copy()
    asymmetric[1, 0, 5] += 1.0
    with pytest.raises(ValueError, match=r"kernel 'kernel_1'.*not symmetric"):
        classifier().fit(kq.KernelStack(asymmetric), y)
    broken = K.copy()
    broken[0, 2, 3] = np.nan
    with pytest.raises(ValueError, match=r"kernel 'kernel_0'.*NaN or inf"):
        classifier().fit(kq.KernelStack(broken), y)
    with pytest.raises(ValueError, match="square"):
        classifier().fit(kq.KernelStack(K[:, :, :10]), y)
    with pytest.raises(ValueError, match="observed must have shape"):
        kq.KernelStack(K, np.ones((12, 3), dtype=bool))
    with pytest.raises(ValueError, match="boolean"):
        kq.KernelStack(K, np.ones((12, 2)))


@every_classifier
def test_prediction_knows_the_views_of_the_fit(classifier, two_views):
    views, y = two_views
    model = classifier()
    with pytest.raises(NotFittedError):
        model.predict(views)
    model.fit(views, y)
    expected = model.decision_function(views)
    backwards = dict(reversed(list(views.items())))
    np.testing.assert_allclose(model.decision_function(backwards), expected, atol=1e-12)
    for name in views:
        others = {each: np.full_like(views[each], np.nan) for each in views if each != name}
        alone = {name: views[name]}
        np.testing.assert_array_equal(
            model.decision_function(alone), model.decision_function(alone | others)
        )
    with pytest.raises(ValueError, match=r"fitted with 2 \('mri', 'pet'\).*does not know 'ct'"):
        model.predict({"mri": views["mri"], "ct": views["pet"]})
    with pytest.raises(ValueError, match="KernelStack"):
        model.predict(kq.ViewKernels().fit_transform(views))


@every_classifier
def test_prediction_needs_the_kernels_of_the_fit(classifier, two_views):
    views, y = two_views
    stack = kq.ViewKernels().fit_transform(views)
    model = classifier().fit(stack[:30], y[:30])
    K = stack.gram()
    with pytest.raises(ValueError, match="fitted with the 2 kernels"):
        model.predict(kq.KernelStack(K[:1, :, :30]))
    with pytest.raises(ValueError, match="kernels 'x', 'y'"):
        model.predict(kq.KernelStack(K[:, :, :30], names=["x", "y"]))
    with pytest.raises(ValueError, match="fitted on 30 samples"):
        model.predict(kq.KernelStack(K[:, 30:, :29], names=stack.names))


def test_blas_limit_is_lifted_after_overlapping_fits():
    from threadpoolctl import threadpool_info, threadpool_limits

    def threads():
        return [info["num_threads"] for info in threadpool_info() if info["user_api"] == "blas"]

    with threadpool_limits(2, "blas"):
        before = threads()
        assert 2 in before  # some package may have brought a library that has one thread only
        first, second = single_threaded_blas(), single_threaded_blas()
        first.__enter__()
        second.__enter__()
        assert set(threads()) == {1}
        first.__exit__(None, None, None)
        assert set(threads()) == {1}
        second.__exit__(None, None, None)
        assert threads() == before


@every_classifier
@pytest.mark.parametrize("weight", [1e-170, 1e155, 5e-324])
def test_weights_without_measure_are_refused(classifier, weight, two_views):
    X, y = two_views
    with pytest.raises(ValueError, match=r"sample weights multiply the penalty.*divide them by"):
        classifier().fit(X, y, sample_weight=np.full(40, weight))


@every_classifier
@pytest.mark.filterwarnings("ignore:.*need not converge:sklearn.exceptions.ConvergenceWarning")
def test_a_negligible_weight_is_none(classifier, two_views):
    X, y = two_views
    weight = np.ones(40)
    weight[::7] = 0.0
    expected = classifier().fit(X, y, sample_weight=weight).decision_function(X)
    weight[::7] = 1e-170
    found = classifier().fit(X, y, sample_weight=weight).decision_function(X)
    np.testing.assert_allclose(found, expected, atol=1e-9)


def test_a_class_of_negligible_weight_is_none(two_views):
    X, y = two_views
    with pytest.raises(ValueError, match="at least two classes with positive weight"):
        kq.SimpleMKLClassifier().fit(X, y, sample_weight=np.where(y == 0, 1.0, 1e-40))
