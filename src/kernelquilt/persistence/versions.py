"""Versions of the interpreter and of the packages that are installed."""

import platform
import re
import sys
from importlib.metadata import PackageNotFoundError, requires, version

from kernelquilt import __version__


def show_versions() -> None:
    """Print the versions of the package, of Python, of the system and of all dependencies.

    Examples
    --------
    >>> import kernelquilt as kq
    >>> kq.show_versions()  # doctest: +ELLIPSIS
    kernelquilt: ...
    """
    lines = {"kernelquilt": __version__, "python": sys.version.replace("\n", " ")}
    lines["system"] = platform.platform()
    lines |= {name: version_of(name) or "not installed" for name in dependencies()}
    sys.stdout.write("".join(f"{name}: {found}\n" for name, found in lines.items()))


def dependencies() -> list[str]:
    """Return the names of the dependencies, the optional ones included."""
    try:
        stated = requires("kernelquilt") or []
    except PackageNotFoundError:  # used from its sources
        stated = ["numpy", "scipy", "scikit-learn", "numba"]
    names = [re.split(r"[^\w.-]", each, maxsplit=1)[0] for each in stated]
    return sorted({name for name in names if name != "kernelquilt"}, key=str.lower)


def version_of(name: str) -> str | None:
    """Return the version of a package, None if it is not installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None
