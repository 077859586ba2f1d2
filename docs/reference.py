"""The pages of the API reference: every public name, by family, from what the package exports."""

import importlib
import inspect
from pathlib import Path
from types import ModuleType

import kernelquilt as kq

# from what a newcomer needs to what few need
ORDER = (
    "quilt",
    "mkl",
    "completion",
    "data",
    "kernels",
    "inspection",
    "datasets",
    "metrics",
    "bounds",
)
TITLES = {
    "quilt": "kq.quilt: the default",
    "mkl": "kq.mkl: SVMs on learned kernel weights",
    "completion": "kq.completion: fill what is absent",
    "data": "kq.data: views and stacks of kernels",
    "kernels": "kq.kernels: from views to kernels",
    "inspection": "kq.inspection: figures",
    "datasets": "kq.datasets: data to try things on",
    "metrics": "kq.metrics: how close kernels are",
    "bounds": "kq.bounds: what theory promises",
}


def families() -> dict[str, ModuleType]:
    """Return the public sub-packages by name, the known ones in order."""
    names = [name for name in kq.__all__ if isinstance(getattr(kq, name), ModuleType)]
    rank = {name: place for place, name in enumerate(ORDER)}
    names.sort(key=lambda name: rank.get(name, len(rank)))
    return {name: getattr(kq, name) for name in names}


def homes() -> dict[str, str]:
    """Return the full public name of each function and class by its last part."""
    found = {name: f"kernelquilt.{name}" for name in kq.__all__ if callable(getattr(kq, name))}
    for family, module in families().items():
        found |= {name: f"kernelquilt.{family}.{name}" for name in module.__all__}
    return found


def groups(module: ModuleType) -> dict[str, list[str]]:
    """Return the names of a family by heading: its sub-families, then what works on arrays."""
    found: dict[str, list[str]] = {}
    for name in module.__all__:
        thing = getattr(module, name)
        parts = thing.__module__.split(".")
        if inspect.isfunction(thing) and name.startswith("solve_"):
            heading = "Solvers, functions of arrays"
        elif len(parts) > 3:
            package = importlib.import_module(".".join(parts[:3]))
            heading = inspect.getdoc(package).splitlines()[0].rstrip(".")
        else:
            heading = ""
        found.setdefault(heading, []).append(name)
    last = ("", 1), ("Solvers, functions of arrays", 3)
    return dict(sorted(found.items(), key=lambda item: dict(last).get(item[0], 2)))


def table(names: list[str]) -> str:
    """Return a table of links to a page for each name."""
    lines = "".join(f"   {name}\n" for name in names)
    return f".. autosummary::\n   :toctree: generated\n   :nosignatures:\n\n{lines}\n"


def heading(text: str, line: str) -> str:
    """Return a heading."""
    return f"{text}\n{line * len(text)}\n\n"


def pages() -> dict[str, str]:
    """Return the text of each page by its file name."""
    found = {}
    for family, module in families().items():
        text = heading(TITLES.get(family, f"kq.{family}"), "=")
        text += f".. automodule:: kernelquilt.{family}\n\n"
        text += f".. currentmodule:: kernelquilt.{family}\n\n"
        for title, names in groups(module).items():
            text += (heading(title, "-") if title else "") + table(names)
        found[f"{family}.rst"] = text
    exported = {name for module in families().values() for name in module.__all__}
    top = [name for name in kq.__all__ if callable(getattr(kq, name))]
    text = heading("API reference", "=")
    text += (
        "``import kernelquilt as kq``. Every family exports its names, as in\n"
        "``from kernelquilt.completion import WishartCompletion``. The names that are typed first\n"
        "are at the top level too: "
    )
    text += ", ".join(f"`{name}`" for name in top if name in exported)
    text += ".\n\n.. toctree::\n   :maxdepth: 2\n\n"
    text += "".join(f"   {family}\n" for family in families())
    text += "\n.. currentmodule:: kernelquilt\n\n" + heading("At the top level only", "-")
    text += table([name for name in top if name not in exported])
    found["index.rst"] = text
    return found


def write(folder: Path) -> None:
    """Write the pages that have changed."""
    folder.mkdir(exist_ok=True)
    for name, text in pages().items():
        path = folder / name
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
