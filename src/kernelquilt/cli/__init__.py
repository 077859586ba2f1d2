"""The command `kq`."""

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import click

__all__ = ["EXTRAS", "commands", "main", "needs"]

EXTRAS = {  # of the packages that commands need
    **dict.fromkeys(("click", "rich", "matplotlib"), "demo"),
    **dict.fromkeys(("jinja2", "pandas"), "experiments"),
    "distributed": "scale",
}


def commands() -> "click.Group":
    """Return the command group `kq`; needs click."""
    from kernelquilt.cli._group import kq

    return kq


def needs(error: ModuleNotFoundError) -> str:
    """Return how to install what is not there; raise the error if that is none of `EXTRAS`."""
    if error.name is None:  # the text says it already
        return str(error)
    if error.name not in EXTRAS:
        raise error
    return f'kq needs {error.name}: pip install "kernelquilt[{EXTRAS[error.name]}]"'


def main() -> None:
    """Run `kq`."""
    try:
        kq = commands()
    except ModuleNotFoundError as error:
        sys.exit(needs(error))
    kq(prog_name="kq")
