"""Numbers near the limits of what a float can be: the same result, or an error that helps."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import r2_score

import kernelquilt as kq
from discovery import estimators, instances
from holes import random_mask, related_kernels

FACTORS = [1e-150, 1e-8, 1e8, 1e150]
pytestmark = pytest.mark.filterwarnings("error::RuntimeWarning")


def views(n=30, seed=0, n_classes=2):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % n_classes
    blocks = {
        name: rng.standard_normal((n, d)) + 0.7 * y[:, None]
        for name, d in zip("abc", (2, 3, 40), strict=True)
    }
    observed = rng.random((n, 3)) > 0.2
    observed[np.arange(n), np.arange(n) % 3] = True
    return blocks, observed, y


@pytest.mark.parametrize("factor", [*FACTORS, 1e-170])
@pytest.mark.parametrize("kernel", [kq.Gaussian(), kq.Gaussian(0.1), kq.kernels.MedianGaussian()])
def test_gaussian_kernels_do_not_depend_on_the_unit_of_a_view(kernel, factor):
    blocks, observed, _ = views()
    scaled = {name: factor * block for name, block in blocks.items()}
    expected = kq.ViewKernels(kernel).fit_transform(kq.MultiView(blocks, observed=observed))
    found = kq.ViewKernels(kernel).fit_transform(kq.MultiView(scaled, observed=observed))
    np.testing.assert_allclose(found.gram(), expected.gram(), rtol=1e-11, atol=1e-13)


def test_median_gaussian_of_columns_as_they_are_does_not_depend_on_their_unit():
    A = np.random.default_rng(0).standard_normal((20, 3))
    kernel = kq.kernels.MedianGaussian(standardize=False)
    expected = clone(kernel).fit(A)(A)
    for factor in FACTORS:
        np.testing.assert_allclose(clone(kernel).fit(factor * A)(factor * A), expected, rtol=1e-11)


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_widths_beyond_all_distances(scale):
    A = np.random.default_rng(0).standard_normal((10, 2))
    K = kq.Gaussian(scale).fit(A)(A)
    np.testing.assert_array_equal(K, np.eye(10) if scale < 1 else np.ones((10, 10)))


GAUSSIAN = [
    each
    for each in instances(estimators(family="mkl"))
    if "kernels" in each.get_params() and type(each) is not kq.mkl.SVM2KClassifier
]


@pytest.mark.filterwarnings("ignore:.*need not converge:sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("factor", [2.0**-498, 2.0**498])
@pytest.mark.parametrize("classifier", GAUSSIAN, ids=repr)
def test_predictions_do_not_depend_on_the_unit_of_a_view(classifier, factor):
    blocks, observed, y = views()
    scaled = {**blocks, "b": factor * blocks["b"]}
    given, other = (kq.MultiView(each, observed=observed) for each in (blocks, scaled))
    expected = clone(classifier).fit(given, y)
    found = clone(classifier).fit(other, y)
    if hasattr(expected, "decision_function"):
        expected, found = expected.decision_function(given), found.decision_function(other)
        np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-9)


MKL = [
    kq.SimpleMKLClassifier,
    kq.LpMKLClassifier,
    kq.mkl.UniformMKLClassifier,
    kq.mkl.MatrixNormMKLClassifier,
    kq.ConvexAbsentMKLClassifier,
    kq.mkl.PenalizedAbsentMKLClassifier,
    kq.ObservedFractionMKLClassifier,
]


@pytest.mark.parametrize("factor", [2.0**-40, 2.0**40])
@pytest.mark.parametrize("classifier", MKL)
def test_all_kernels_times_a_constant_and_the_penalty_over_it_change_nothing(classifier, factor):
    blocks, observed, y = views()
    stack = kq.ViewKernels().fit_transform(kq.MultiView(blocks, observed=observed))
    scaled = kq.KernelStack(factor * stack.gram(), observed=observed, names=stack.names)
    expected = classifier(1.0, tol=1e-6).fit(stack, y)
    found = classifier(1.0 / factor, tol=1e-6).fit(scaled, y)
    np.testing.assert_allclose(
        found.decision_function(scaled), expected.decision_function(stack), rtol=1e-6, atol=1e-8
    )


@pytest.mark.parametrize("factor", [2.0**-60, 2.0**60])
@pytest.mark.parametrize("classifier", MKL)
def test_all_weights_times_a_constant_and_the_penalty_over_it_change_nothing(classifier, factor):
    blocks, observed, y = views()
    data = kq.MultiView(blocks, observed=observed)
    weight = np.random.default_rng(1).uniform(0.5, 2.0, len(y))
    expected = classifier(1.0, tol=1e-6).fit(data, y, sample_weight=weight)
    found = classifier(1.0 / factor, tol=1e-6).fit(data, y, sample_weight=factor * weight)
    np.testing.assert_allclose(
        found.decision_function(data), expected.decision_function(data), rtol=1e-6, atol=1e-8
    )


def test_views_and_kernels_that_cannot_be_squared_are_refused():
    blocks, _, y = views()
    with pytest.raises(ValueError, match=r"view 'b' has values up to .* divide it"):
        kq.SimpleMKLClassifier().fit({**blocks, "b": 1e155 * blocks["b"]}, y)
    with pytest.raises(ValueError, match=r"kernel 'b' has entries up to .* divide it"):
        kq.SimpleMKLClassifier(kernels="linear").fit({**blocks, "b": 1e100 * blocks["b"]}, y)
    K = related_kernels()
    for factor, dtype in ((1e160, np.float64), (1e20, np.float32)):
        stack = kq.KernelStack((factor * K).astype(dtype), observed=random_mask())
        with pytest.raises(ValueError, match=r"kernel 'kernel_0' has entries up to .* divide it"):
            kq.TransferFill().fit(stack)


@pytest.mark.parametrize(("size", "dtype"), [(1e80, np.float64), (1e12, np.float32)])
def test_factors_whose_kernels_cannot_be_squared_are_refused(size, dtype):
    blocks, observed, y = views()
    factors = {**blocks, "b": size * blocks["b"]}
    factors = {name: block.astype(dtype) for name, block in factors.items()}
    stack = kq.LowRankStack(factors, observed=observed)
    with pytest.raises(ValueError, match=r"factor of kernel 'b' of \d+ samples has entries up to"):
        kq.SimpleMKLClassifier().fit(stack, y)


def test_correlation_of_a_view_of_tiny_numbers():
    blocks, observed, _ = views()
    for eps in (None, 0.0):
        expected, found = (
            kq.mkl.NmCCA(1, eps=eps).fit_transform(
                kq.MultiView({**blocks, "a": factor * blocks["a"]}, observed=observed)
            )
            for factor in (1.0, 2.0**-600)
        )
        for name in "abc":
            np.testing.assert_allclose(np.abs(found[name]), np.abs(expected[name]), rtol=1e-6)


@pytest.mark.parametrize("factor", [1e-160, 1e120])
@pytest.mark.parametrize("completer", [kq.completion.EMFill(), kq.completion.SVTFill()], ids=repr)
def test_completers_that_square_entries_refuse_those_that_cannot_be(completer, factor):
    stack = kq.KernelStack(factor * related_kernels(), observed=random_mask())
    with pytest.raises(ValueError, match=r"'kernel_0' of 24 samples .* ScaleKernels"):
        completer.fit(stack)


SCALE_FREE = [
    kq.TransferFill(),
    kq.WishartCompletion(),
    kq.completion.KNNFill(),
    kq.completion.MeanFill(),
    kq.completion.ZeroFill(),
]


@pytest.mark.parametrize("factor", [2.0**-480, 2.0**480])
@pytest.mark.parametrize("completer", SCALE_FREE, ids=repr)
def test_completers_do_not_depend_on_the_scale_of_kernels(completer, factor):
    K, mask = related_kernels(), random_mask()
    expected = clone(completer).fit_transform(kq.KernelStack(K, observed=mask)).gram()
    found = clone(completer).fit_transform(kq.KernelStack(factor * K, observed=mask)).gram()
    np.testing.assert_allclose(found / factor, expected, rtol=1e-7, atol=1e-9)


def test_a_weight_of_the_nuclear_norm_beyond_all_numbers_is_refused():
    stack = kq.KernelStack(related_kernels(), observed=random_mask())
    with pytest.raises(ValueError, match="tau"):
        kq.completion.SVTFill(tau=1e160).fit(stack)


def test_stiffness_beyond_all_numbers_leaves_a_finite_gap():
    blocks, observed, y = views()
    model = kq.mkl.MultiViewSVMClassifier(lam=1e300)
    with pytest.warns(UserWarning, match="stopped"):
        model.fit(kq.MultiView(blocks, observed=observed), y)
    assert np.isfinite(model.duality_gap_)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -1.0])
def test_diagonals_that_are_none_are_refused(bad):
    K = related_kernels()
    diag = np.diagonal(K, axis1=1, axis2=2).copy()
    diag[1, 3] = bad
    with pytest.raises(ValueError, match=r"diag of kernel 'kernel_1' .* 1 of 24 observed rows"):
        kq.KernelStack(K, diag=diag)
    observed = np.ones((24, 3), dtype=bool)
    observed[3, 1] = False
    assert kq.KernelStack(K, diag=diag, observed=observed).shape == (24, 3)


def test_no_rows_of_a_stack_are_refused_as_no_rows_of_views_are():
    blocks, observed, y = views()
    data = kq.MultiView(blocks, observed=observed)
    stack = kq.ViewKernels().fit_transform(data)
    for given in (data, stack):
        model = kq.SimpleMKLClassifier().fit(given, y)
        with pytest.raises(ValueError, match="0 samples while a minimum of 1 is required"):
            model.predict(given[[]])


def test_a_kernel_of_samples_with_themselves_that_is_nan_is_refused():
    def kernel(A, B):
        return A @ B.T if len(A) != len(B) else np.full((len(A), len(B)), np.nan)

    blocks, _, _ = views()
    data = kq.MultiView(blocks)
    stack = kq.ViewKernels(lambda A, B: A @ B.T).fit(data)
    stack.kernels_ = [kernel] * 3
    with pytest.raises(ValueError, match="NaN or inf"):
        stack.transform(data[:5])


def test_searches_take_weights():
    blocks, observed, y = views()
    data = kq.MultiView(blocks, observed=observed)
    weight = np.where(y == 0, 1e-9, 1.0)
    search = kq.MKLSearchCV(kq.SimpleMKLClassifier(), {"C": [0.1, 1.0]}, cv=2)
    plain = clone(search).fit(data, y)
    equal = clone(search).fit(data, y, sample_weight=np.ones(len(y)))
    np.testing.assert_array_equal(
        equal.cv_results_["mean_test_score"], plain.cv_results_["mean_test_score"]
    )
    lopsided = clone(search).fit(data, y, sample_weight=weight)
    assert (lopsided.predict(data) == 1).all()
    assert (lopsided.cv_results_["mean_test_score"] == 0.5).all()


@pytest.mark.parametrize("factor", [2.0**-500, 2.0**500])
@pytest.mark.parametrize(
    "regressor",
    [kq.QuiltRegressor(experts=None), kq.LateFusionRegressor(), kq.quilt.LpMKLRidgeRegressor()],
    ids=repr,
)
def test_scores_of_regressors_do_not_depend_on_the_unit_of_targets(regressor, factor):
    blocks, observed, _ = views()
    data = kq.MultiView(blocks, observed=observed)
    y = blocks["a"][:, 0]
    model = clone(regressor)
    expected = model.fit(data, y).score(data, y)
    found = model.fit(data, factor * y).score(data, factor * y)
    assert found == pytest.approx(expected, abs=1e-3)
    assert expected == pytest.approx(r2_score(y, clone(regressor).fit(data, y).predict(data)))


def test_labels_that_are_no_integers_are_refused_without_a_warning_of_numpy():
    blocks, _, y = views()
    with pytest.raises(ValueError, match="continuous"):
        kq.MKLSearchCV(kq.SimpleMKLClassifier(), {"C": [1.0]}).fit(
            kq.MultiView(blocks), y.astype(np.float32) * 1e30 + 0.5
        )


def test_penalties_beyond_all_numbers_are_refused():
    blocks, _, y = views()
    with pytest.raises(ValueError, match=r"penalty of 30 samples, .* is 1e\+180"):
        kq.SimpleMKLClassifier(1e180).fit(blocks, y)


def test_views_that_are_constant_or_zero_give_no_warning_of_numpy():
    blocks, observed, y = views()
    data = kq.MultiView({**blocks, "c": np.zeros((len(y), 40))}, observed=observed)
    for classifier in (kq.mkl.CCAFusion(kernels="linear"), kq.mkl.MHKSClassifier(kernels="linear")):
        assert np.isfinite(classifier.fit(data, y).decision_function(data)).all()


def test_a_huge_penalty_of_weights_is_refused():
    X, y = kq.datasets.make_multiview(30, 2, random_state=0)
    with pytest.raises(ValueError, match="the largest penalty of 30 samples"):
        kq.SimpleMKLClassifier(C_weights=1e190).fit(X, y)


def test_transformers_refuse_huge_values_without_a_warning_of_numpy():
    pandas = pytest.importorskip("pandas", reason="frames need pandas")
    X = pandas.DataFrame({"a": np.ones(5), "b": np.linspace(-1, 1, 5) * 5e159})
    with pytest.raises(ValueError, match="'b' has values up to 5e"):
        kq.ViewTransformer(views={"a": ["a"], "b": ["b"]}).fit_transform(X)


def test_tiny_kernels_in_survival():
    rng = np.random.default_rng(0)
    views = {name: rng.normal(size=(40, 2)) * size for name, size in (("a", 1.0), ("b", 1e-158))}
    y = np.arange(40) % 3 > 0, rng.exponential(size=40)
    model = kq.QuiltSurvival(kernels="linear", experts=None).fit(kq.MultiView(views), y)
    assert np.isfinite(model.predict(kq.MultiView(views))).all()


def kernels_of_very_different_scale(seed, scales):
    """Return linear kernels of three views with holes, each with a scale of its own."""
    rng = np.random.default_rng(seed)
    y = np.arange(40) % 2
    blocks = {}
    for name, n_columns in zip("abc", (2, 3, 4), strict=True):
        blocks[name] = rng.standard_normal((40, n_columns)) + 0.5 * y[:, None]
        blocks[name][rng.random(40) < 0.25] = np.nan
    stack = kq.ViewKernels("linear").fit_transform(kq.MultiView(blocks))
    return kq.KernelStack(np.array(scales)[:, None, None] * stack.gram(), stack.observed), y


@pytest.mark.parametrize("exponents", [(2.0, 4.0), (1.0, 2.0)])
@pytest.mark.parametrize("scales", [(1e8, 1e8, 1e-8), (1e-8, 1.0, 1e8)])
def test_matrix_norms_of_kernels_of_very_different_scale(scales, exponents):
    stack, y = kernels_of_very_different_scale(0, scales)
    r, p = exponents
    model = kq.mkl.MatrixNormMKLClassifier(1e4, r=r, p=p).fit(stack, y)
    assert model.converged_
    assert model.n_solves_ < 60
    objectives = [step.objective for step in model.history_[0]]
    assert model.objective_ <= 1.001 * min(objectives)


def test_curvature_that_is_rounding_ends_with_a_warning(monkeypatch):
    def unsolved(*arguments):
        raise np.linalg.LinAlgError("no solution of the quadratic programme was found")

    # as of kernels of scales 1e8 and 1e-8 with a penalty of 1e4
    monkeypatch.setattr("kernelquilt.core.weights.solvers.solve_qp", unsolved)
    blocks, observed, y = views()
    data = kq.MultiView(blocks, observed=observed)
    with pytest.warns(ConvergenceWarning, match="stopped after 1 SVM solves"):
        model = kq.LpMKLClassifier(p=1.2, tol=1e-6).fit(data, y)
    assert 0.0 < model.duality_gap_ < model.objective_
    assert model.score(data, y) > 0.6


def test_alternation_ends_where_no_svm_can_be_solved():
    stack, y = kernels_of_very_different_scale(0, (1e-300, 1e100, 1.0))
    with pytest.warns(ConvergenceWarning, match="lower C, or scale the data"):
        model = kq.LpMKLClassifier().fit(stack, y)
    assert model.n_solves_ < 10
    assert np.isfinite(model.decision_function(stack)).all()


def test_matrix_norms_tell_of_an_svm_that_is_not_solved():
    stack, y = kernels_of_very_different_scale(0, (1e-300, 1e100, 1.0))
    with pytest.warns(ConvergenceWarning, match="KKT residual of 1, above"):
        model = kq.mkl.MatrixNormMKLClassifier().fit(stack, y)
    assert not model.converged_


def test_newtons_method_ends_where_no_svm_can_be_solved(monkeypatch):
    blocks, observed, y = views()
    data = kq.MultiView(blocks, observed=observed)
    model = kq.SimpleMKLClassifier(10.0, tol=1e-10, kernels=["gaussian", "linear"])
    needed = model.fit(data, y).n_solves_
    monkeypatch.setattr("kernelquilt.core.weights.solvers._is_solved", lambda *_: False)
    with pytest.warns(ConvergenceWarning, match="lower C, or scale the data"):
        model.fit(data, y)
    assert model.n_solves_ <= 6 < needed
