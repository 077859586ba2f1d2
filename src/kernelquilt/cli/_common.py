"""What the commands share: exit codes, options, JSON."""

import json
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kernelquilt.experiments.errors import UserError

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions
    from rich.segment import Segment

INTERRUPTED = "interrupted; run the same command again to go on"
BAD_INPUT, CELLS_FAILED, STOPPED = 2, 1, 130
F = TypeVar("F", bound=Callable[..., Any])

json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print JSON and nothing else on stdout."
)
seed_option = click.option(
    "--seed",
    type=click.IntRange(0, 2**31),
    default=0,
    show_default=True,
    help="Seed of the splits and of what is absent.",
)


def add_options(*decorators: Callable[[Any], Any]) -> Callable[[F], F]:
    """Return a decorator that adds several options to a command, the first one on top."""

    def decorate(function: F) -> F:
        return reduce(lambda decorated, add: add(decorated), reversed(decorators), function)

    return decorate


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn the failure to write a result into one line and exit code 2."""
    try:
        yield
    except OSError as error:
        raise UserError(f"cannot write to {str(path)!r}: {error.strerror or error}") from error


def epilog(*examples: str) -> str:
    """Return the examples at the end of a help text, lines unwrapped."""
    return "\b\nExamples:\n" + "\n".join(f"  {example}" for example in examples)


def check_png(path: Path) -> None:
    """Refuse a path that a PNG cannot be written to."""
    if path.suffix.lower() != ".png":
        raise UserError(f"cannot write {str(path)!r}: the name must end in .png")
    existed = path.exists()
    with writing(path):
        path.open("ab").close()
    if not existed:
        path.unlink()


def check_directory(path: Path | None) -> None:
    """Make the directory of the output, before anything is computed."""
    if path is not None:
        with writing(path):
            path.mkdir(parents=True, exist_ok=True)


def print_json(value: Any) -> None:
    """Print a value as JSON; figures that are not there are null."""
    from kernelquilt.experiments.plain import plain

    ascii_only = not (sys.stdout.encoding or "").lower().startswith("utf")
    click.echo(json.dumps(plain(value), indent=2, ensure_ascii=ascii_only, allow_nan=False))


def printable(text: str) -> str:
    """Return a text in which characters that could command a terminal are written out."""
    return "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in text)


class _Printable:
    """A text or a table of rich whose characters are `printable`."""

    def __init__(self, line: Any) -> None:
        self.line = line

    def __rich_console__(
        self, console: "Console", options: "ConsoleOptions"
    ) -> "Iterator[Segment]":
        for segment in console.render(self.line, options):
            yield segment if segment.control else segment._replace(text=printable(segment.text))


def say(console: "Console", *lines: Any, soft_wrap: bool = False) -> None:
    """Print lines as they are; those with names of files had better not be wrapped."""
    from rich.text import Text

    for line in lines:
        made = _Printable(Text(line) if isinstance(line, str) else line)
        console.print(made, highlight=False, markup=False, soft_wrap=soft_wrap)


def split_names(text: str | None) -> list[str] | None:
    """Return the names in ``"a, b"``, None of None."""
    if text is None:
        return None
    # not at the comma of "(r,p)-MKL"
    names = [name.strip() for name in re.split(r",(?![^()]*\))", text) if name.strip()]
    if not names:
        raise UserError(f"there are no names in {text!r}; separate names by commas")
    return names
