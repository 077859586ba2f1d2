"""What the commands share: errors, options, JSON."""

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kernelquilt.cli import needs
from kernelquilt.experiments.errors import UserError

if TYPE_CHECKING:
    from rich.console import Console

INTERRUPTED = "interrupted; run the same command again to go on"
BAD_INPUT, CELLS_FAILED, STOPPED = 2, 1, 130
F = TypeVar("F", bound=Callable[..., Any])


class InputError(click.ClickException):
    """An error of the user's: one line, exit code 2."""

    exit_code = BAD_INPUT


@contextmanager
def installed() -> Iterator[None]:
    """Explain which package is to be installed if an import fails."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise click.ClickException(needs(error)) from error


@contextmanager
def user_errors() -> Iterator[None]:
    """Turn errors that explain themselves into one line and exit code 2."""
    try:
        yield
    except UserError as error:
        raise InputError(str(error)) from error


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn the failure to write a result into one line and exit code 2."""
    try:
        yield
    except OSError as error:
        raise InputError(f"cannot write to {str(path)!r}: {error.strerror or error}") from error


def epilog(*examples: str) -> str:
    """Return the examples at the end of a help text, lines unwrapped."""
    return "\b\nExamples:\n" + "\n".join(f"  {example}" for example in examples)


def check_png(path: Path) -> None:
    """Refuse a path that a PNG cannot be written to."""
    if path.suffix.lower() != ".png":
        raise InputError(f"cannot write {str(path)!r}: the name must end in .png")
    existed = path.exists()
    try:
        path.open("ab").close()
    except OSError as error:
        raise InputError(f"cannot write {str(path)!r}: {error.strerror}") from error
    if not existed:
        path.unlink()


def check_directory(path: Path | None) -> None:
    """Make the directory of the output, before anything is computed."""
    if path is None:
        return
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot write to {str(path)!r}: {error.strerror}") from error


def print_json(value: Any) -> None:
    """Print a value as JSON; figures that are not there are null."""
    click.echo(json.dumps(_plain(value), indent=2, ensure_ascii=False, allow_nan=False))


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def say(console: "Console", *lines: Any) -> None:
    """Print lines as they are."""
    for line in lines:
        console.print(line, highlight=False, markup=False)


def split_names(text: str | None) -> list[str] | None:
    """Return the names in ``"a, b"``, None of None."""
    if text is None:
        return None
    # not at the comma of "(r,p)-MKL"
    names = [name.strip() for name in re.split(r",(?![^()]*\))", text) if name.strip()]
    if not names:
        raise InputError(f"there are no names in {text!r}; separate names by commas")
    return names


def seed_option(function: F) -> F:
    """Add ``--seed``."""
    return click.option(
        "--seed",
        type=click.IntRange(0, 2**31),
        default=0,
        show_default=True,
        help="Seed of the splits and of what is absent.",
    )(function)


def json_option(function: F) -> F:
    """Add ``--json``."""
    return click.option(
        "--json", "as_json", is_flag=True, help="Print JSON and nothing else on stdout."
    )(function)
