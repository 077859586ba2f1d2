"""The command `kq`."""

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import click

__all__ = ["commands", "main", "needs"]

_EXTRAS = {"distributed": "scale", "jinja2": "experiments", "pandas": "experiments"}


def commands() -> "click.Group":
    """Return the command group `kq`; needs click."""
    from kernelquilt.cli._group import kq

    return kq


def needs(error: ModuleNotFoundError) -> str:
    """Return how to install what is not there."""
    if error.name is None:  # the text says it already
        return str(error)
    extra = _EXTRAS.get(error.name, "demo")
    return f'kq needs {error.name}: pip install "kernelquilt[{extra}]"'


def main() -> None:
    """Run `kq`."""
    try:
        kq = commands()
    except ModuleNotFoundError as error:
        sys.exit(needs(error))
    kq(prog_name="kq")
