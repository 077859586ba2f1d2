"""The rules of the project: layers, documentation, public names."""

import ast
import doctest
import importlib
import inspect
import os
import pkgutil
import re
import subprocess
import sys
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest
from numpydoc.docscrape import NumpyDocString
from sklearn.base import BaseEstimator

import kernelquilt as kq

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = Path(kq.__file__).parent
MODULES = sorted(info.name for info in pkgutil.walk_packages(kq.__path__, "kernelquilt."))

# a folder is a layer: it may import from those further down and from itself
LAYERS = [
    {"cli"},
    {"experiments"},
    {"inspection"},
    {"quilt"},
    {"mkl", "completion", "datasets", "bounds"},
    {"kernels", "metrics"},
    {"data"},
    {"core"},
    {"_messages", "_typing"},
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


@pytest.mark.parametrize("module", MODULES)
def test_layers_point_down(module):
    path = PACKAGE / Path(*module.split(".")[1:])
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    own = module.split(".")[1]
    for name in imported_modules(path):
        parts = name.split(".")
        if parts[0] != "kernelquilt" or len(parts) == 1:
            continue
        if parts[1] == "__version__":
            continue
        assert LEVEL[own] <= LEVEL[parts[1]], f"{module} imports {name} from a higher layer"
        for pair in SEPARATE:
            assert {own, parts[1]} != set(pair), f"{module} imports {name}"
        folder = path.parent.relative_to(PACKAGE.parent).parts
        for depth, part in enumerate(parts[2:], start=2):
            private = part.startswith("_") and tuple(parts[:depth]) != folder
            assert not private, f"{module} imports {name}, which is private to another folder"


@pytest.mark.parametrize("module", MODULES)
def test_examples_in_docstrings(module):
    result = doctest.testmod(importlib.import_module(module))
    assert result.failed == 0


def public_callables():
    for name in kq.__all__:
        thing = getattr(kq, name)
        if inspect.isclass(thing) or inspect.isfunction(thing):
            yield pytest.param(thing, id=name)
            if inspect.isclass(thing):
                for method, function in inspect.getmembers(thing, inspect.isfunction):
                    if not method.startswith("_") and function.__module__.startswith("kernelquilt"):
                        yield pytest.param(function, id=f"{name}.{method}")


@pytest.mark.parametrize("thing", list(public_callables()))
def test_docstring_lists_the_parameters(thing):
    text = inspect.getdoc(thing)
    assert text, "no docstring"
    if "whose parameters and attributes it has" in " ".join(text.split()):
        return
    documented = {
        name.strip().lstrip("*")
        for entry in NumpyDocString(text)["Parameters"]
        for name in entry.name.split(",")
    }
    if hasattr(thing, "__dataclass_fields__"):
        documented |= {entry.name for entry in NumpyDocString(text)["Attributes"]}
    expected = {name for name in inspect.signature(thing).parameters if name[0] != "_"}
    expected -= {"self", "cls"}
    assert expected <= documented, f"undocumented: {sorted(expected - documented)}"


@pytest.mark.parametrize(
    "estimator",
    [
        pytest.param(thing, id=name)
        for name in kq.__all__
        if inspect.isclass(thing := getattr(kq, name)) and issubclass(thing, BaseEstimator)
    ],
)
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


@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("*.md")), ids=lambda page: page.name)
def test_examples_of_the_docs_run(page, tmp_path):
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL)
    if blocks:
        code = "\n".join(blocks)
        subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path, timeout=300)


def test_readme_names_every_classifier_and_both_commands():
    text = (ROOT / "README.md").read_text()
    assert "make demo" in text
    assert "make test" in text
    for name in kq.__all__:
        if name.endswith("Classifier"):
            assert f"`{name}`" in text, f"{name} is not in the method table"


def test_readme_lists_the_extras():
    text = (ROOT / "README.md").read_text()
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    for name in extras.keys() - {"test", "dev"}:
        assert f"\n| `{name}` |" in text
    assert "python -m pip install ." in text


def test_what_the_commands_of_the_readme_write_is_ignored():
    ignored = (ROOT / ".gitignore").read_text().splitlines()
    text = (ROOT / "README.md").read_text()
    for name in ("demo.png", "patients.csv", "patterns.png", "kq-compare.sqlite", "report"):
        assert name in text
        assert any(fnmatch(f"/{name}", line.rstrip("/")) for line in ignored), name


def test_importing_the_package_loads_no_compiler_and_no_optional_package():
    # whatever scikit-learn loads itself cannot be helped
    code = (
        "import sys, sklearn.svm; before = set(sys.modules); import kernelquilt;"
        "new = {name.split('.')[0] for name in set(sys.modules) - before};"
        "heavy = {'numba', 'pandas', 'matplotlib', 'rich', 'click', 'cvxpy'} & new;"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    "path", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.name
)
def test_example_scripts_run(path, tmp_path):
    subprocess.run(
        [sys.executable, str(path)],
        check=True,
        cwd=tmp_path,
        timeout=300,
        env={**os.environ, "MPLBACKEND": "Agg"},
    )
