"""The rules of the project: layers, documentation, public names."""

import ast
import doctest
import importlib.util
import inspect
import os
import pkgutil
import re
import subprocess
import sys
import tokenize
import tomllib
from collections import defaultdict
from fnmatch import fnmatch
from functools import partial
from pathlib import Path

import pytest
from numpydoc.docscrape import NumpyDocString

import kernelquilt as kq
from discovery import EXCEPTIONS, FAMILIES, estimators, public, public_callables

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = Path(kq.__file__).parent
SOURCES = sorted(PACKAGE.rglob("*.py"))
MODULES = sorted(info.name for info in pkgutil.walk_packages(kq.__path__, "kernelquilt."))

PUBLIC = {f"{thing.__module__}.{thing.__name__}" for thing in public().values()}

# a folder is a layer: it may import from those further down and from itself
LAYERS = [
    ["cli"],
    ["experiments"],
    ["inspection", "persistence"],
    ["quilt"],
    ["mkl", "completion", "datasets", "bounds"],
    ["kernels", "metrics"],
    ["data"],
    ["core"],
    ["_messages", "_typing"],
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
SEPARATE = [("mkl", "completion"), ("mkl", "datasets"), ("completion", "datasets")]


def imported_modules(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            if node.module == "kernelquilt":
                yield from (f"kernelquilt.{alias.name}" for alias in node.names)
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def path_of(module):
    path = PACKAGE / Path(*module.split(".")[1:])
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def misplaced(module):
    """Yield what is wrong with the imports of a module."""
    path, own = path_of(module), module.split(".")[1]
    for name in imported_modules(path):
        parts = name.split(".")
        if parts[0] != "kernelquilt" or len(parts) == 1 or parts[1] == "__version__":
            continue
        if LEVEL[own] > LEVEL[parts[1]]:
            yield f"{module} imports {name} from a higher layer"
        if any({own, parts[1]} == set(pair) for pair in SEPARATE):
            yield f"{module} imports {name}"
        folder = path.parent.relative_to(PACKAGE.parent).parts
        for depth, part in enumerate(parts[2:], start=2):
            if part.startswith("_") and tuple(parts[:depth]) != folder:
                yield f"{module} imports {name}, which is private to another folder"


def test_layers_point_down():
    assert not [each for module in MODULES for each in misplaced(module)]


def test_numerics_on_features_import_nothing_of_the_estimators():
    own = "kernelquilt.quilt.space"
    for module in MODULES:
        if module.startswith(f"{own}."):
            used = [each for each in imported_modules(path_of(module)) if ".quilt" in each]
            assert not [each for each in used if not each.startswith(own)], module


def walks():
    """Return the figures of `benchmarks/hops.py`, by estimator."""
    path = ROOT / "benchmarks" / "hops.py"
    spec = importlib.util.spec_from_file_location("hops", path)
    hops = sys.modules["hops"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hops)
    X, y = kq.datasets.make_multiview(60, 3, random_state=0)
    X = kq.datasets.make_absent(X, 0.4, random_state=0)
    models = [estimator().fit(X, y) for estimator in hops.ESTIMATORS]
    return {type(each): hops.follow(partial(each.fit, X, y)).figures() for each in models}


def test_a_fit_is_not_thrown_between_folders():
    found = walks()
    assert found[kq.QuiltClassifier]["folder, at first sight"] <= 20
    assert found[kq.ConvexAbsentMKLClassifier]["files"] <= 16


def test_the_tree_can_be_seen_at_a_glance():
    for folder in {path.parent for path in SOURCES}:
        modules = [path.stem for path in folder.glob("*.py") if path.stem != "__init__"]
        most = 4 if folder == PACKAGE else 16
        assert len(modules) <= most, f"{folder.relative_to(PACKAGE.parent)}: {len(modules)} modules"


def test_the_map_shows_every_folder_and_layer():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    tree = text.partition("src/kernelquilt/\n")[2].partition("tests/")[0]
    shown = re.findall(r"^ +(\w+/|\w+\.py) ", tree, flags=re.MULTILINE)
    folders = {f"{path.parent.name}/" for path in SOURCES if path.parent != PACKAGE}
    assert sorted(shown) == sorted(folders | {path.name for path in PACKAGE.glob("*.py")})
    figure = (ROOT / "docs" / "layers.svg").read_text()
    assert re.findall('class="name".*>(.*)<', figure) == [
        each for layer in LAYERS for each in layer
    ]


@pytest.mark.parametrize("estimator", estimators())
def test_at_most_two_of_our_classes_stand_above_an_estimator(estimator):
    above = [
        each.__name__ for each in estimator.__mro__[1:] if each.__module__.startswith("kernelquilt")
    ]
    assert len(above) <= 2, f"above {estimator.__name__}: {above}"


def test_every_estimator_is_exported_by_its_family():
    exported = {*public().values(), *EXCEPTIONS["to be exported"]}
    for name in MODULES:
        if name.split(".")[1] not in FAMILIES:
            continue
        for thing in vars(importlib.import_module(name)).values():
            ours = inspect.isclass(thing) and thing.__module__ == name
            if ours and not inspect.isabstract(thing) and hasattr(thing, "get_params"):
                assert thing in exported, f"{name}.{thing.__name__} is in no __all__"


def test_every_type_alias_is_defined_once():
    defined = defaultdict(list)
    for path in SOURCES:
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                name = node.targets[0].id
                # such as OnStep; what is all capitals is a constant
                if re.fullmatch("_?[A-Z][a-z][A-Za-z]*", name):
                    defined[name].append(str(path.relative_to(PACKAGE)))
    assert "Floats" in defined
    assert not {name: paths for name, paths in defined.items() if len(paths) > 1}


def test_warnings_find_the_line_of_the_user_by_themselves():
    counted = [path for path in SOURCES if "stacklevel=" in path.read_text()]
    assert counted == [PACKAGE / "_messages.py"], "use warn_user of _messages"


def test_no_metaphors_in_names():
    found = set()
    for path in SOURCES:
        with path.open("rb") as file:
            tokens = list(tokenize.tokenize(file.readline))
        names = {path.stem} | {each.string for each in tokens if each.type == tokenize.NAME}
        found |= {f"{path.name}: {name}" for name in names if re.search("(?i)door|machine", name)}
    assert not found


@pytest.mark.parametrize(
    "module", [module for module in MODULES if ">>>" in path_of(module).read_text()]
)
def test_examples_in_docstrings(module):
    found = doctest.DocTestFinder().find(importlib.import_module(module), module)
    assert any(each.examples for each in found)
    # test_docstrings.py runs those of public names, without the names of their modules
    others = [each for each in found if each.name not in PUBLIC]
    assert [each.name for each in others if doctest.DocTestRunner().run(each).failed] == []


@pytest.mark.parametrize("thing", public_callables().values(), ids=list(public_callables()))
def test_docstring_lists_the_parameters(thing):
    text = inspect.getdoc(thing)
    assert text, "no docstring"
    if "whose parameters and attributes it has" in " ".join(text.split()):
        return
    page = NumpyDocString(text)
    # the parameters of a record are its attributes
    record = hasattr(thing, "__dataclass_fields__") or hasattr(thing, "_fields")
    documented = {
        name.strip().lstrip("*")
        for entry in page["Parameters"] + (page["Attributes"] if record else [])
        for name in entry.name.split(",")
    }
    expected = {name for name in inspect.signature(thing).parameters if name[0] != "_"}
    expected -= {"self", "cls"}
    assert expected <= documented, f"undocumented: {sorted(expected - documented)}"


@pytest.mark.parametrize("estimator", estimators())
def test_only_the_first_parameter_is_positional(estimator):
    kinds = [p.kind for p in inspect.signature(estimator).parameters.values()]
    # a search has two, as scikit-learn's have: what to tune, and over which values
    positional = 2 if estimator.__name__.endswith("SearchCV") else 1
    assert all(kind is inspect.Parameter.KEYWORD_ONLY for kind in kinds[positional:])


def readme_example():
    text = (ROOT / "README.md").read_text()
    return re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)


def test_readme_examples_run(tmp_path):
    examples = readme_example()
    assert examples
    for code in examples:
        subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path, timeout=300)


def test_readme_is_short_and_names_the_commands():
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) <= 120
    for command in ("make demo", "make test", "make docs", "python -m pip install ."):
        assert command in text


def test_the_first_page_lists_the_extras():
    text = (ROOT / "docs" / "start.md").read_text()
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    for name in extras.keys() - {"test", "docs", "dev"}:
        assert f"\n| `{name}` |" in text


def test_what_the_commands_of_the_readme_write_is_ignored():
    ignored = (ROOT / ".gitignore").read_text().splitlines()
    text = (ROOT / "README.md").read_text()
    for name in ("demo.png", "patients.csv", "patterns.png", "kq-compare.sqlite", "report"):
        assert name in text
        assert any(fnmatch(f"/{name}", line.rstrip("/")) for line in ignored), name


def test_importing_the_package_loads_no_compiler_and_no_optional_package():
    # whatever scikit-learn loads itself cannot be helped
    code = (
        "import sys, sklearn.svm; before = set(sys.modules); from kernelquilt import *;"
        "new = {name.split('.')[0] for name in set(sys.modules) - before};"
        "heavy = {'numba', 'pandas', 'matplotlib', 'rich', 'click', 'cvxpy'} & new;"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_importing_the_package_is_free_and_editors_see_its_names():
    code = "import sys, kernelquilt; assert 'numpy' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
    tree = ast.parse((PACKAGE / "__init__.py").read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {alias.name for line in block.body for alias in line.names}
    assert seen == set(kq.__all__) - {"__version__"} <= set(dir(kq))


# the site runs all of its gallery when it is built; the first example and the scripts run here, too
EXAMPLES = [
    path
    for path in sorted((ROOT / "examples").glob("*.py"))
    if not path.name.startswith("plot_") or path.name == "plot_quilt.py"
]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_example_scripts_run(path, tmp_path):
    done = subprocess.run(
        [sys.executable, str(path)],
        cwd=tmp_path,
        timeout=300,
        env={**os.environ, "MPLBACKEND": "Agg"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr


def test_one_version_for_all():
    citation = (ROOT / "CITATION.cff").read_text()
    assert re.findall(r"^version: (.*)$", citation, flags=re.MULTILINE) == [kq.__version__]
    assert len(re.findall(r"^    title: ", citation, flags=re.MULTILINE)) == 5


def test_workflows_call_what_the_makefile_has():
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    for path in (ROOT / ".github" / "workflows").glob("*.yml"):
        called = re.findall(r"run: make ([\w-]+)", path.read_text())
        # the pages of the documentation have a target of their own
        assert set(called) <= {*targets, "docs"}, path.name
