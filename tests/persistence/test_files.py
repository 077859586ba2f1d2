"""Every estimator through a file and back."""

import json
import pickle
import subprocess
import sys
import zipfile

import numpy as np
import pytest
from sklearn.base import is_regressor
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline

import kernelquilt as kq
from discovery import estimators, held_to, instances, predictors, transformers
from inputs import VIEWS
from kernelquilt.kernels.inputs import fit_input
from kernelquilt.quilt.forests import TreeArrays

skops = pytest.importorskip("skops.io")
pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]


def samples(n=30):
    rng = np.random.default_rng(0)
    y = np.arange(n) % 2
    X = rng.standard_normal((n, 8)) + 0.8 * y[:, None]
    for columns in VIEWS.values():
        X[np.ix_(rng.random(n) < 0.15, columns)] = np.nan
    X[:2] = rng.standard_normal((2, 8))
    return kq.as_views(X, VIEWS), y


def said(model, data):
    methods = ("decision_function", "predict_proba", "predict", "transform")
    calls = [getattr(model, name, None) for name in methods]
    found = [call(data) for call in calls if callable(call)]
    return [arrays_of(each) for each in found]


def arrays_of(found):
    if isinstance(found, kq.KernelStack):
        return np.asarray(found.gram())
    return found.training_factors().Z if isinstance(found, kq.LowRankStack) else found


def assert_same(found, expected):
    for one, other in zip(found, expected, strict=True):
        if isinstance(one, kq.MultiView):
            for name in one.names:
                np.testing.assert_array_equal(one[name], other[name])
        else:
            np.testing.assert_array_equal(one, other)


def through_a_file(model, path):
    saved = kq.save(model, path)
    assert saved.n_bytes == path.stat().st_size
    assert saved.foreign == ()
    assert type(model).__name__ in str(saved)
    return kq.load(path)


IN_A_FRESH_PROCESS = f"""
from pathlib import Path
import numpy as np, kernelquilt as kq
X = kq.as_views(np.load("X.npy"), {VIEWS})
for path in Path().glob("*.kq"):
    model = kq.load(path)
    methods = [each for each in ("decision_function", "predict_proba", "predict")
               if hasattr(model, each)]
    np.savez(path.with_suffix(".npz"), **{{each: getattr(model, each)(X) for each in methods}})
"""


def test_every_predictor_says_the_same_in_a_fresh_process(tmp_path):
    data, y = samples()
    np.save(tmp_path / "X.npy", np.hstack([data[name] for name in data.names]))
    chosen = instances(held_to(predictors(), "more than two views"))
    chosen.append(make_pipeline(kq.ViewKernels(), kq.TransferFill(), kq.SimpleMKLClassifier()))
    models = [each.fit(data, y + 0.5 if is_regressor(each) else y) for each in chosen]
    for number, model in enumerate(models):
        saved = kq.save(model, tmp_path / f"{number}.kq")
        assert saved.n_bytes == saved.path.stat().st_size
        assert saved.foreign == (), model
        assert type(model).__name__ in str(saved)
    run = [sys.executable, "-c", IN_A_FRESH_PROCESS]
    subprocess.run(run, check=True, cwd=tmp_path, timeout=300)
    for number, model in enumerate(models):
        with np.load(tmp_path / f"{number}.npz") as found:
            assert "predict" in found
            for method in found:
                expected = getattr(model, method)(data)
                np.testing.assert_array_equal(found[method], expected, err_msg=repr(model))


@pytest.mark.parametrize("completer", instances(transformers("completion")), ids=repr)
def test_completers(completer, tmp_path):
    data, _ = samples()
    stack = kq.ViewKernels().fit_transform(data)
    if isinstance(completer, kq.completion.AuxiliaryEMCompletion):
        stack = kq.KernelStack(
            np.concatenate([stack.gram(), np.eye(len(stack))[None]]),
            observed=np.column_stack([stack.observed, np.ones(len(stack), dtype=bool)]),
        )
    model = completer.fit(stack)
    rows = stack[:5]
    assert_same(said(through_a_file(model, tmp_path / "model.kq"), rows), said(model, rows))


OTHERS = [each for each in transformers() if each not in transformers("completion") + predictors()]


@pytest.mark.parametrize("transformer", instances(OTHERS), ids=repr)
def test_transformers(transformer, tmp_path):
    data, y = samples()
    if not transformer.__sklearn_tags__().input_tags.two_d_array:
        data = kq.ViewKernels().fit_transform(data)
    model = transformer.fit(data, y)
    assert_same(said(through_a_file(model, tmp_path / "model.kq"), data), said(model, data))


def test_nothing_public_is_left_out():
    tried = {*held_to(predictors(), "more than two views"), *transformers("completion"), *OTHERS}
    searches = {kq.MKLSearchCV, kq.completion.CompletionSearchCV}
    assert set(estimators()) - tried == {kq.mkl.SVM2KClassifier, kq.QuiltSurvival, *searches}


def test_survival(tmp_path):
    data, y = samples()
    model = kq.QuiltSurvival(experts=None).fit(data, (y == y[0], np.arange(1.0, len(y) + 1)))
    loaded = through_a_file(model, tmp_path / "model.kq")
    np.testing.assert_array_equal(loaded.predict(data), model.predict(data))
    found, expected = (each.predict_survival_function(data[:2]) for each in (loaded, model))
    np.testing.assert_array_equal(found[1](3.0), expected[1](3.0))


def with_a_forest(kind=kq.QuiltClassifier, **options):
    data, y = samples(60)
    return kind(random_state=0, **options).fit(data, y), data


@pytest.fixture(scope="module")
def forest():
    return with_a_forest()[0]


@pytest.mark.parametrize("kind", [kq.QuiltClassifier, kq.QuiltRegressor])
def test_forests_load_without_a_word(kind, tmp_path):
    model, data = with_a_forest(kind)
    assert len(model.experts_) == 1
    loaded = through_a_file(model, tmp_path / "model.kq")
    assert_same(said(loaded, data), said(model, data))
    for one, other in zip(
        loaded.experts_[0].estimator.estimators_,
        model.experts_[0].estimator.estimators_,
        strict=True,
    ):
        for key, value in other.tree_.__getstate__().items():
            np.testing.assert_array_equal(one.tree_.__getstate__()[key], value)


@pytest.mark.parametrize("kind", [ExtraTreesClassifier, RandomForestClassifier])
def test_forests_of_users_load_too(kind, tmp_path):
    model, data = with_a_forest(experts=[kind(5, min_samples_leaf=3)])
    assert_same(said(through_a_file(model, tmp_path / "model.kq"), data), said(model, data))


def test_trees_that_nobody_has_looked_at_have_to_be_trusted(tmp_path):
    model, _ = with_a_forest(experts=[make_pipeline(RandomForestClassifier(3))])
    saved = kq.save(model, tmp_path / "model.kq")
    assert saved.foreign == ("sklearn.tree._tree.Tree",)
    with pytest.raises(ValueError, match="Tree"):
        kq.load(saved.path)


FORGED = {
    "a cycle": lambda trees: trees.nodes["left_child"].__setitem__(slice(0, 2), [1, 1]),
    "no such node": lambda trees: trees.nodes["right_child"].__setitem__(0, 10**9),
    "another tree": lambda trees: trees.nodes["right_child"].__setitem__(0, trees.sizes[0]),
    "before the root": lambda trees: trees.nodes["left_child"].__setitem__(0, -7),
    "one child": lambda trees: trees.nodes["right_child"].__setitem__(0, -1),
    "no such column": lambda trees: trees.nodes["feature"].__setitem__(0, 8),
    "fractions": lambda trees: trees.nodes.update(left_child=trees.nodes["left_child"] + 0.5),
    "too few nodes": lambda trees: trees.nodes.update(feature=trees.nodes["feature"][:-1]),
    "longer trees": lambda trees: trees.sizes.__setitem__(0, trees.sizes[0] + 1),
    "no field": lambda trees: trees.nodes.pop("feature"),
    "other columns": lambda trees: vars(trees.shell.estimators_[0]).update(n_features_in_=9),
}


@pytest.mark.parametrize("forge", FORGED.values(), ids=list(FORGED))
def test_forged_trees_are_refused(forge, forest, tmp_path, monkeypatch):
    model = forest
    take_apart = TreeArrays.of

    def forged(forest):
        trees = take_apart(forest)
        forge(trees)
        return trees

    monkeypatch.setattr(TreeArrays, "of", forged)
    kq.save(model, tmp_path / "model.kq")
    with pytest.raises(ValueError, match=r"not sound|another version of scikit-learn"):
        kq.load(tmp_path / "model.kq")


def views_with_margins(n):
    rng = np.random.default_rng(0)
    y = np.arange(n) % 3
    blocks = {name: rng.standard_normal((n, 30)) + 2.0 * y[:, None] for name in "ab"}
    blocks["a"][rng.random(n) < 0.2] = np.nan
    return kq.MultiView(blocks), y


@pytest.mark.parametrize(
    "model",
    [
        kq.SimpleMKLClassifier(),
        kq.ObservedFractionMKLClassifier(multi_class="ovo"),
        kq.mkl.LocalizedMKLClassifier(),
        kq.mkl.SampleAdaptiveMKLClassifier(),
        kq.SimpleMKLRegressor(C=10.0, epsilon=0.5),
        kq.mkl.ObservedFractionMKLRegressor(C=10.0, epsilon=0.5),
    ],
    ids=lambda model: type(model).__name__,
)
def test_support_vectors_are_all_that_is_held(model, tmp_path):
    data, y = views_with_margins(150)
    model.fit(data, y)
    used = model.dual_coef_.reshape(-1, 150).any(axis=0)
    assert used.sum() < 120
    assert len(model.input_.views) == used.sum()
    loaded = through_a_file(model, tmp_path / "model.kq")
    assert_same(said(loaded, data), said(model, data))
    # what the others would add is nothing
    whole = pickle.loads(pickle.dumps(model))
    whole.input_ = fit_input(model, data, np.ones(150))
    for one, other in zip(said(whole, data), said(model, data), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)


def test_files_do_not_grow_with_samples_that_support_nothing(tmp_path):
    sizes = []
    for n in (150, 600):
        model = kq.SimpleMKLClassifier().fit(*views_with_margins(n))
        sizes.append(kq.save(model, tmp_path / "model.kq").n_bytes)
        n_used = np.count_nonzero(model.dual_coef_.any(axis=0))
        assert sizes[-1] < n_used * 2 * 30 * 8 + 60 * n + 40_000
    assert sizes[1] < 3 * sizes[0]


def test_searches_and_methods_for_two_views(tmp_path):
    data, y = samples()
    path = tmp_path / "model.kq"
    search = kq.MKLSearchCV(kq.SimpleMKLClassifier(), {"C": [0.1, 1.0]}, cv=2).fit(data, y)
    assert_same(said(through_a_file(search, path), data), said(search, data))
    two = kq.MultiView({name: data[name] for name in "ab"})
    model = kq.mkl.SVM2KClassifier().fit(two, y)
    assert_same(said(through_a_file(model, path), two), said(model, two))
    stack = kq.ViewKernels().fit_transform(data)
    grid = {"eps": [0.1, 1.0]}
    completer = kq.completion.CompletionSearchCV(kq.TransferFill(), grid).fit(stack)
    assert_same(said(through_a_file(completer, path), stack), said(completer, stack))


@pytest.fixture
def fitted():
    data, y = samples()
    return kq.SimpleMKLClassifier().fit(data, y)


def test_a_model_that_is_not_fitted_is_refused(tmp_path):
    with pytest.raises(NotFittedError):
        kq.save(kq.SimpleMKLClassifier(), tmp_path / "model.kq")
    assert not list(tmp_path.iterdir())


def test_what_cannot_be_saved_leaves_the_file_as_it_was(tmp_path, fitted):
    path = tmp_path / "model.kq"
    kq.save(fitted, path)
    before = path.read_bytes()
    fitted.kernels = (each for each in ())
    with pytest.raises(ValueError, match="cannot be saved"):
        kq.save(fitted, path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def with_stamp(path, **changes):
    with zipfile.ZipFile(path) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    stamp = json.loads(entries["kernelquilt.json"])
    entries["kernelquilt.json"] = json.dumps({**stamp, **changes})
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in entries.items():
            archive.writestr(name, content)


@pytest.mark.parametrize("changes", [{"kernelquilt": "9.9.1"}, {"format": 99}])
def test_a_file_of_another_version_says_which(tmp_path, fitted, changes):
    path = tmp_path / "model.kq"
    kq.save(fitted, path)
    with_stamp(path, **changes)
    with pytest.raises(
        ValueError, match=f"was written by kernelquilt .*, this is {kq.__version__}"
    ):
        kq.load(path)


def test_patches_of_a_version_exchange_files(tmp_path, fitted):
    path = tmp_path / "model.kq"
    kq.save(fitted, path)
    with_stamp(path, kernelquilt=".".join([*kq.__version__.split(".")[:2], "77"]))
    assert isinstance(kq.load(path), kq.SimpleMKLClassifier)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 and so on", b"no archive at all"])
def test_other_files_are_refused(tmp_path, content):
    path = tmp_path / "model.kq"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"'model.kq' was not written by kq.save"):
        kq.load(path)


def test_archives_of_skops_alone_are_refused(tmp_path, fitted):
    skops.dump(fitted, tmp_path / "model.skops")
    with pytest.raises(ValueError, match=r"was not written by kq.save"):
        kq.load(tmp_path / "model.skops")


def squares(A, B):
    return (A @ B.T) ** 2


def test_functions_of_others_have_to_be_named(tmp_path):
    data, y = samples()
    model = kq.SimpleMKLClassifier(kernels=squares).fit(data, y)
    saved = kq.save(model, tmp_path / "model.kq")
    (name,) = saved.foreign
    assert name.endswith("squares")
    assert "needs trusted=" in str(saved)
    with pytest.raises(ValueError, match=r"squares.* load it with trusted="):
        kq.load(saved.path)


@pytest.mark.parametrize(
    "name",
    [
        "os.system",
        "kernelquilt.core.limits.ThreadpoolController",
        "kernelquilt.persistence.files.save",
        "kernelquilt.cli.__main__.main",
        "kernelquilt.no_such_module.Thing",
        "kernelquiltish.Thing",
    ],
)
def test_only_classes_that_the_package_defines_are_its_own(name):
    from kernelquilt.persistence.files import _is_ours

    assert not _is_ours(name)
    assert _is_ours("kernelquilt.data.stack.KernelStack")


def test_the_extra_is_named_where_it_is_missing(monkeypatch, tmp_path, fitted):
    monkeypatch.setitem(sys.modules, "skops.io", None)
    with pytest.raises(ImportError, match=r"kernelquilt\[persist\]"):
        kq.save(fitted, tmp_path / "model.kq")


def test_versions_name_every_dependency(capsys):
    kq.show_versions()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"kernelquilt: {kq.__version__}"
    names = {line.partition(":")[0] for line in lines}
    assert {"python", "system", "numpy", "scikit-learn", "numba"} <= names
