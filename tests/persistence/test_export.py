"""Exported models in a process that has numpy and nothing else."""

import json
import subprocess
import sys
from functools import partial

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.base import is_classifier, is_regressor
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process.kernels import RBF
from sklearn.linear_model import LogisticRegression
from sklearn.metrics.pairwise import PAIRWISE_KERNEL_FUNCTIONS, rbf_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import kernelquilt as kq
from discovery import held_to, instances, predictors
from inputs import VIEWS

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]

EXPORTED = held_to(predictors(), "more than two views")
DEFAULTS = instances(EXPORTED)
METHODS = ("predict", "decision_function", "predict_proba")
SCRIPT = """
import importlib.abc, json, sys

class OnlyNumpy(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top not in {*sys.stdlib_module_names, "numpy", "numpy_predictor"}:
            raise ImportError(name + " is not at hand")

for name in [name for name in sys.modules if name.partition(".")[0] == "kernelquilt"]:
    del sys.modules[name]
sys.meta_path.insert(0, OnlyNumpy())
sys.path.insert(0, ".")
import numpy as np
from numpy_predictor import NumpyPredictor

with np.load("given.npz") as file:
    X = {name: file[name] for name in file.files}
with open("methods.json") as file:
    cases = json.load(file)
for path, methods in cases.items():
    model = NumpyPredictor.load(path)
    np.savez("found_" + path, **{each: getattr(model, each)(X) for each in methods})
print(*sorted({name.partition(".")[0] for name in sys.modules}))
"""


def samples(n=66, n_classes=2, seed=0):
    """Return views with holes, labels of text, and new samples with patterns of their own."""
    rng = np.random.default_rng(seed)
    codes = np.arange(n) % n_classes
    X = rng.standard_normal((n, 8)) + 0.8 * codes[:, None] * np.sign(rng.standard_normal(8))
    train = slice(0, n - 16)
    for columns in VIEWS.values():
        X[np.ix_(np.flatnonzero(rng.random(n) < 0.2), columns)] = np.nan
    training = X[train]
    # nobody has view b alone in training, and everyone has a view
    alone = ~np.isnan(training[:, 0]) | ~np.isnan(training[:, 5])
    training[~alone, :3] = rng.standard_normal((np.count_nonzero(~alone), 3))
    new = X[n - 16 :]
    new[0], new[1], new[2] = rng.standard_normal((3, 8))
    new[0, [0, 1, 2, 5, 6, 7]] = np.nan
    new[1] = np.nan
    labels = np.array(["mild", "none", "severe"], dtype=object)[codes[train]]
    return training, labels, new


def as_dict(X):
    return {name: X[:, columns] for name, columns in VIEWS.items()}


def methods_of(model):
    return [each for each in METHODS if hasattr(model, each)]


def assert_equal(found, expected, model):
    assert found.shape == expected.shape
    if found.dtype.kind == "f":
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12, err_msg=repr(model))
    else:
        np.testing.assert_array_equal(found, expected, err_msg=repr(model))


def assert_exported(model, X, given, tmp_path, *, diag=None):
    """Compare a model for `X` with what a file of it makes of plain arrays `given`."""
    exported = kq.export(model)
    exported.save(tmp_path / "model.npz")
    again = kq.persistence.NumpyPredictor.load(tmp_path / "model.npz")
    for method in methods_of(model):
        assert_equal(getattr(again, method)(given, diag=diag), getattr(model, method)(X), model)
    return exported


def fitted_to_views(predictor, n_classes):
    """Return a model, and new samples for it and for what is exported of it."""
    X, y, new = samples(n_classes=n_classes)
    if is_regressor(predictor):
        y = np.nan_to_num(X[:, 0]) + (y == "mild")
    return predictor.fit(kq.as_views(X, VIEWS), y), kq.as_views(new, VIEWS), as_dict(new)


def test_every_predictor_in_a_process_that_has_numpy_alone(tmp_path):
    models = [fitted_to_views(predictor, 2) for predictor in DEFAULTS]
    np.savez(tmp_path / "given.npz", **models[0][2])
    for number, (model, _, _) in enumerate(models):
        exported = kq.export(model)
        exported.save(tmp_path / f"{number}.npz", code=True)
        assert type(model).__name__ in repr(exported)
    methods = {f"{number}.npz": methods_of(model) for number, (model, _, _) in enumerate(models)}
    (tmp_path / "methods.json").write_text(json.dumps(methods))
    run = [sys.executable, "-c", SCRIPT]
    done = subprocess.run(run, cwd=tmp_path, timeout=120, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert not {"scipy", "sklearn", "kernelquilt", "pandas"} & set(done.stdout.split())
    for number, (model, new, _) in enumerate(models):
        with np.load(tmp_path / f"found_{number}.npz") as found:
            for method in methods_of(model):
                assert_equal(found[method], getattr(model, method)(new), model)


@pytest.mark.parametrize("predictor", list(filter(is_classifier, DEFAULTS)), ids=repr)
def test_three_classes(predictor, tmp_path):
    assert_exported(*fitted_to_views(predictor, 3), tmp_path)


@pytest.mark.parametrize("predictor", DEFAULTS, ids=repr)
def test_predictors_of_kernels(predictor, tmp_path):
    X, y, new = samples()
    if not is_classifier(predictor):
        y = np.nan_to_num(X[:, 0]) + (y == "mild")
    kernels = kq.ViewKernels(["gaussian", "linear"]).fit(kq.as_views(X, VIEWS))
    rows = kernels.transform(kq.as_views(new, VIEWS))
    model = predictor.fit(kernels.fit_transform(kq.as_views(X, VIEWS)), y)
    K = np.where(rows.observed.T[:, :, None], rows.gram(), np.nan)
    given = dict(zip(rows.names, K, strict=True))
    diag = dict(zip(rows.names, rows.diag.tolist(), strict=True))
    assert_exported(model, rows, given, tmp_path, diag=diag)
    outputs = kq.export(model).predict(np.moveaxis(K, 0, -1), diag=rows.diag)
    np.testing.assert_array_equal(outputs, kq.export(model).predict(given, diag=diag))


@pytest.mark.parametrize("gating", ["softmax", "sigmoid"])
@pytest.mark.parametrize("gating_view", ["a", "b"])
def test_gates_of_a_view_that_is_no_kernel(gating, gating_view, tmp_path):
    X, y, new = samples(n_classes=3)
    model = kq.mkl.LocalizedMKLClassifier(
        gating=gating, gating_view=gating_view, multi_class="ovo", kernels=["linear", "gaussian"]
    )
    model.fit(kq.as_views(X, VIEWS), y)
    assert_exported(model, kq.as_views(new, VIEWS), as_dict(new), tmp_path)


@pytest.mark.parametrize("fusion", ["concatenate", "vote"])
@pytest.mark.parametrize("kernels", [None, "linear"])
def test_components_of_views_and_of_kernels(kernels, fusion, tmp_path):
    X, y, new = samples(n_classes=3)
    X[np.ix_(y == "none", VIEWS["c"])] = np.nan  # a classifier of two classes, and two of three
    model = kq.mkl.CCAFusion(2, kernels=kernels, fusion=fusion).fit(kq.as_views(X, VIEWS), y)
    assert_exported(model, kq.as_views(new, VIEWS), as_dict(new), tmp_path)


@pytest.mark.parametrize(
    "last",
    [
        kq.SimpleMKLClassifier(),
        kq.mkl.LocalizedMKLClassifier(),
        kq.LateFusionClassifier(n_landmarks=20, random_state=0),
        kq.QuiltClassifier(experts=None, random_state=0),
        kq.MKLSearchCV(kq.LpMKLClassifier(), {"C": [0.1, 1.0]}, cv=2),
    ],
    ids=lambda last: type(last).__name__,
)
def test_pipelines_that_compute_kernels_first(last, tmp_path):
    X, y, new = columns_of_all_kinds()
    pipeline = make_pipeline(kq.ViewTransformer(), kq.ViewKernels(["gaussian", "linear"]), last)
    exported = assert_exported(pipeline.fit(X, y), new, as_plain(new), tmp_path)
    assert {kernel["function"]["name"] for kernel in exported.plan["kernels"]} == {
        "gaussian",
        "linear",
    }


def test_pipelines_of_two_dimensional_data_hold_support_vectors_only(tmp_path):
    X, y, new = samples()
    pipeline = make_pipeline(kq.ViewKernels(views=VIEWS), kq.SimpleMKLClassifier(C=0.5)).fit(X, y)
    exported = assert_exported(pipeline, new, new, tmp_path)
    used, stack = pipeline[-1].dual_coef_[0] != 0, pipeline[-1].input_
    for kernel in exported.plan["kernels"]:
        present = stack.observed[:, "abc".index(kernel["name"])]
        assert len(kernel["points"]) == np.count_nonzero(used & present)


CHANGED = {
    "centred": [kq.CentreKernels()],
    "unit diagonal": [kq.ScaleKernels()],
    "unit trace": [kq.ScaleKernels("unit_trace")],
    "all in turn": [
        kq.kernels.SelectKernels(["c__linear", "a__gaussian_1", "b__gaussian_1", "b__linear"]),
        kq.CentreKernels(),
        kq.kernels.SelectKernels([1, 3, 0]),
        kq.ScaleKernels(),
    ],
}


@pytest.mark.parametrize("steps", CHANGED.values(), ids=list(CHANGED))
@pytest.mark.parametrize(
    "last",
    [
        kq.SimpleMKLClassifier(),
        kq.SimpleMKLClassifier(n_landmarks=12),
        kq.LateFusionClassifier(n_landmarks=20, random_state=0),
        kq.QuiltClassifier(experts=None, random_state=0),
    ],
    ids=["SVM", "landmarks", "late fusion", "quilt"],
)
def test_pipelines_that_centre_scale_and_select_kernels(last, steps, tmp_path):
    X, y, new = samples(n_classes=3)
    X, rows = kq.as_views(X, VIEWS), kq.as_views(new, VIEWS)
    compute = kq.ViewKernels(["gaussian", "linear"])
    pipeline = make_pipeline(compute, *steps, last).fit(X, y)
    assert_exported(pipeline, rows, as_dict(new), tmp_path)
    if len(steps) > 1:
        return  # which kernels were left out is not known without the step that computes them
    stack = compute.transform(rows)
    of_kernels = make_pipeline(*steps, last).fit(compute.fit_transform(X), y)
    K = np.where(stack.observed.T[:, :, None], stack.gram(), np.nan)
    given = dict(zip(stack.names, K, strict=True))
    assert_exported(of_kernels, stack, given, tmp_path, diag=stack.diag)


def test_kernels_that_are_scaled_need_their_diagonal():
    X, y, new = samples()
    compute = kq.ViewKernels().fit(kq.as_views(X, VIEWS))
    pipeline = make_pipeline(kq.ScaleKernels(), kq.SimpleMKLClassifier())
    exported = kq.export(pipeline.fit(compute.fit_transform(kq.as_views(X, VIEWS)), y))
    K = compute.transform(kq.as_views(new, VIEWS)).gram()
    with pytest.raises(ValueError, match=r"k\(x, x\) .* needed for kernel 'a': diag="):
        exported.predict(dict(zip("abc", K, strict=True)))


def columns_of_all_kinds(seed=0):
    """Return frames with holes, missing cells and categories, and new samples of them."""
    X, y, new = samples(n_classes=3, seed=seed)
    rng = np.random.default_rng(seed)
    both = np.vstack([X, new])
    views = {
        name: pd.DataFrame(both[:, columns]).add_prefix(name) for name, columns in VIEWS.items()
    }
    present = views["b"].notna().all(axis=1).to_numpy()
    views["b"].iloc[np.flatnonzero(present)[::5], 1] = np.nan
    kind = rng.choice(["x", "y", "z"], len(both)).astype(object)
    kind[len(X) :][::4] = "never seen"
    kind[~present] = None
    kind[np.flatnonzero(present)[2]] = None
    views["b"]["kind"] = kind
    grade = pd.array(np.where(present, rng.integers(1, 4, len(both)), 0), dtype="Int64")
    grade[~present] = pd.NA
    views["b"]["grade"] = pd.Categorical(grade)
    split = [
        {name: frame[rows] for name, frame in views.items()}
        for rows in (slice(0, len(X)), slice(len(X), None))
    ]
    return kq.MultiView(split[0]), y, kq.MultiView(split[1])


def as_plain(views):
    found = {}
    for name in views.names:
        cells = views.given(name).astype(object)
        found[name] = cells.where(cells.notna(), None).to_numpy()
    return found


@pytest.mark.parametrize("kind", ["classifier", "regressor", "two targets", "survival"])
def test_forests_missing_cells_and_categories(kind, tmp_path):
    X, y, new = columns_of_all_kinds()
    if kind == "classifier":
        model = kq.QuiltClassifier(random_state=0, pattern=True).fit(X, y)
    elif kind == "survival":
        time = np.random.default_rng(0).exponential(size=len(y)) + 0.1
        model = kq.QuiltSurvival(random_state=0).fit(X, (y == "mild", time))
    else:
        target = (y == "mild") + np.random.default_rng(0).standard_normal(len(y))
        target = np.column_stack([target, target**2]) if kind == "two targets" else target
        model = kq.QuiltRegressor(random_state=0).fit(X, target)
    assert_exported(model, new, as_plain(new), tmp_path)


def test_a_quilt_that_was_pickled_before(tmp_path):
    import pickle

    X, y, new = samples()
    model = kq.QuiltClassifier(random_state=0).fit(kq.as_views(X, VIEWS), y)
    again = pickle.loads(pickle.dumps(model))
    assert_exported(again, kq.as_views(new, VIEWS), as_dict(new), tmp_path)


@pytest.mark.parametrize("n_landmarks", [40, "auto"])
def test_quilts_of_many_smooth_kernels(n_landmarks, tmp_path):
    X, y = kq.datasets.load_example("wdbc")
    X = kq.datasets.make_absent(X, 0.4, random_state=0)
    model = kq.QuiltClassifier(n_landmarks=n_landmarks, random_state=0).fit(X[:300], y[:300])
    new = X[300:340]
    exported = assert_exported(model, new, {name: new[name] for name in new.names}, tmp_path)
    assert exported.n_bytes > 0


@pytest.mark.parametrize("name", sorted(PAIRWISE_KERNEL_FUNCTIONS))
def test_kernels_that_have_a_name(name, tmp_path):
    X, y, new = samples()
    X, new = np.abs(X), np.abs(new)  # for histograms
    model = kq.SimpleMKLClassifier(kernels=name).fit(kq.as_views(X, VIEWS), y)
    exported = kq.export(model)
    expected = model.decision_function(kq.as_views(new, VIEWS))
    np.testing.assert_allclose(
        exported.decision_function(as_dict(new)), expected, rtol=1e-12, atol=1e-12
    )


@pytest.mark.parametrize("scale", [1e-120, 1.0, 1e120])
def test_own_kernels_wide_views_and_extreme_scales(scale):
    X, y, new = samples()
    wide = [np.hstack([each] * 6) * scale for each in (X, new)]
    views = {"wide": wide[0]}
    kernels = ["gaussian", "median_gaussian", "jaccard", partial(rbf_kernel, gamma=0.1 / scale)]
    kernels = kernels if scale == 1.0 else kernels[:3]
    kernels += ["latent_semantic"] if scale == 1.0 else []
    views["wide"][np.isnan(views["wide"]).any(axis=1)] = np.nan
    wide[1][np.isnan(wide[1]).any(axis=1)] = np.nan
    y = y[: len(X)]
    model = kq.mkl.UniformMKLClassifier(kernels=kernels).fit(views, y)
    np.testing.assert_allclose(
        kq.export(model).decision_function({"wide": wide[1]}),
        model.decision_function({"wide": wide[1]}),
        rtol=1e-12,
        atol=1e-12,
    )


def test_two_dimensional_data_and_one_against_one(tmp_path):
    X, y, new = samples(n_classes=3)
    model = kq.LpMKLClassifier(views=VIEWS, multi_class="ovo").fit(X, y)
    assert_exported(model, new, new, tmp_path)


def test_factors(tmp_path):
    X, y, new = samples(n_classes=3)
    data, rows = kq.as_views(X, VIEWS), kq.as_views(new, VIEWS)
    model = kq.SimpleMKLClassifier(n_landmarks=12).fit(data, y)
    assert_exported(model, rows, as_dict(new), tmp_path)
    make = kq.EmpiricalKernelMap(kernels="gaussian", factors=True).fit(data)
    factors = make.transform(rows)
    given = {}
    for m, name in enumerate(factors.names):
        given[name] = np.where(factors.observed[:, [m]], factors.factor(m), np.nan)
    for estimator in (kq.SimpleMKLClassifier(), kq.mkl.MHKSClassifier()):
        assert_exported(estimator.fit(make.transform(data), y), factors, given, tmp_path)


@pytest.mark.parametrize("formulation", ["shared_coef", "max_min"])
def test_other_formulations(formulation, tmp_path):
    X, y, new = samples(n_classes=3)
    model = kq.ConvexAbsentMKLClassifier(formulation=formulation).fit(kq.as_views(X, VIEWS), y)
    assert_exported(model, kq.as_views(new, VIEWS), as_dict(new), tmp_path)


def test_methods_for_two_views_searches_and_pipelines(tmp_path):
    X, y, new = samples()
    two, rows = ({name: each[:, VIEWS[name]] for name in "ab"} for each in (X, new))
    assert_exported(kq.mkl.SVM2KClassifier().fit(two, y), rows, rows, tmp_path)
    views = kq.as_views(X, VIEWS)
    search = kq.MKLSearchCV(kq.SimpleMKLClassifier(), {"C": [0.1, 1.0]}, cv=2).fit(views, y)
    assert_exported(search, kq.as_views(new, VIEWS), as_dict(new), tmp_path)
    frames, y, new = columns_of_all_kinds()
    quilt = kq.QuiltClassifier(experts=[RandomForestClassifier(5)], random_state=0)
    for last in (kq.SimpleMKLClassifier(), quilt):
        pipeline = make_pipeline(kq.ViewTransformer(), last)
        assert_exported(pipeline.fit(frames, y), new, as_plain(new), tmp_path)
    grid = GridSearchCV(pipeline[-1], {"pattern": [True]}, cv=2).fit(frames, y)
    assert_exported(grid, new, as_plain(new), tmp_path)


def own_kernel(A, B):
    return A @ B.T


@pytest.mark.parametrize(
    ("model", "what"),
    [
        (kq.SimpleMKLClassifier(kernels=own_kernel), "kernel 'a', <function own_kernel"),
        (kq.SimpleMKLClassifier(kernels={"a": "linear", "b": RBF(), "c": "linear"}), "kernel 'b'"),
        (kq.QuiltClassifier(experts=None, completion=kq.TransferFill()), "completion=TransferFill"),
        (
            kq.QuiltClassifier(experts=[HistGradientBoostingClassifier(max_iter=2)]),
            "the expert HistGradient",
        ),
        (
            make_pipeline(kq.ViewTransformer(StandardScaler()), kq.SimpleMKLClassifier()),
            "the transformer StandardScaler.. of view 'a'",
        ),
        (
            make_pipeline(kq.ViewKernels(), kq.TransferFill(), kq.SimpleMKLClassifier()),
            "step 'transferfill'",
        ),
        (
            make_pipeline(kq.ViewKernels(dtype=np.float32), kq.SimpleMKLClassifier()),
            "step 'viewkernels'",
        ),
        (
            kq.mkl.CCAFusion(2, estimator=LogisticRegression(), fusion="vote"),
            "CCAFusion of LogisticRegr",
        ),
        (kq.mkl.CCAFusion(2, estimator=LogisticRegression()), "CCAFusion of LogisticRegr"),
    ],
    ids=[
        "function",
        "object",
        "completer",
        "expert",
        "transformer",
        "step",
        "single precision",
        "votes",
        "classifier",
    ],
)
def test_what_needs_more_than_numpy_is_refused_by_name(model, what):
    X, y, _ = samples()
    with pytest.raises(ValueError, match=f"{what}.* cannot be exported"):
        kq.export(model.fit(kq.as_views(X, VIEWS), y))


def test_sparse_views_and_models_that_are_not_fitted_are_refused():
    X, y, _ = samples()
    views = {"words": csr_array(np.nan_to_num(X)), "a": np.nan_to_num(X)}
    with pytest.raises(ValueError, match="sparse views 'words' cannot be exported"):
        kq.export(kq.LateFusionClassifier().fit(views, y))
    with pytest.raises(NotFittedError):
        kq.export(kq.LateFusionClassifier())


@pytest.fixture
def exported():
    X, y, _ = samples()
    return kq.export(kq.SimpleMKLClassifier().fit(kq.as_views(X, VIEWS), y))


def test_samples_that_do_not_fit_are_refused_by_name(exported):
    _, _, new = samples()
    views = as_dict(new)
    with pytest.raises(ValueError, match=r"views \['d'\] are not known"):
        exported.predict({**views, "d": views["a"]})
    with pytest.raises(ValueError, match=r"view 'a' has shape \(16, 2\)"):
        exported.predict({**views, "a": views["a"][:, :2]})
    with pytest.raises(ValueError, match="same samples"):
        exported.predict({**views, "a": views["a"][:5]})
    with pytest.raises(ValueError, match="view 'b' has 1 cells that are missing or infinite"):
        exported.predict({"b": np.array([[1.0, np.nan], [1.0, 2.0]])})
    with pytest.raises(ValueError, match="give a dict"):
        exported.predict(new)
    with pytest.raises(AttributeError, match="SimpleMKLClassifier has no predict_proba"):
        exported.predict_proba(views)
    np.testing.assert_array_equal(
        exported.decision_function({"a": views["a"], "c": None}),
        exported.decision_function({"a": views["a"]}),
    )


def test_files_hold_each_array_once_and_execute_nothing(tmp_path, exported):
    size = exported.save(tmp_path / "model.npz")
    assert size == (tmp_path / "model.npz").stat().st_size
    again = kq.persistence.NumpyPredictor.load(tmp_path / "model.npz")
    assert again.n_bytes == exported.n_bytes
    with np.load(tmp_path / "model.npz", allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    plan = json.loads(arrays["plan"].tobytes())
    plan["dict"]["format"] = 99
    arrays["plan"] = np.frombuffer(json.dumps(plan).encode(), np.uint8)
    np.savez(tmp_path / "other.npz", **arrays)
    with pytest.raises(ValueError, match="format 99"):
        kq.persistence.NumpyPredictor.load(tmp_path / "other.npz")
    np.savez(tmp_path / "objects.npz", plan=np.array([{}], dtype=object))
    (tmp_path / "text.npz").write_text("no archive")
    for name in ("objects.npz", "text.npz"):
        with pytest.raises(ValueError, match=f"'{name}' is no exported model"):
            kq.persistence.NumpyPredictor.load(tmp_path / name)


def test_only_support_vectors_are_exported():
    X, y, _ = samples()
    model = kq.SimpleMKLClassifier(C=0.5).fit(kq.as_views(X, VIEWS), y)
    used = model.dual_coef_[0] != 0
    for kernel in kq.export(model).plan["kernels"]:
        present = model.input_.observed[:, "abc".index(kernel["name"])]
        assert len(kernel["points"]) == np.count_nonzero(used & present)


def test_a_forged_tree_ends():
    X, y, new = samples()
    model = kq.QuiltClassifier(random_state=0).fit(kq.as_views(X, VIEWS), y)
    plan = kq.export(model).plan
    (forest,) = plan["head"]["experts"]
    forest["left"][:] = forest["right"][:] = 0
    forest["left"], forest["right"] = forest["left"][:500], forest["right"][:500]
    forest["roots"] = forest["roots"][:1]
    assert kq.persistence.NumpyPredictor(plan).predict(as_dict(new)).shape == (16,)
