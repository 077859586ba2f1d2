"""What the commands share: errors, options, JSON."""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from kernelquilt.experiments.own_data.files import DataFileError, UserData, read_data
from kernelquilt.experiments.plain import plain
from kernelquilt.experiments.running.store import StoreError
from kernelquilt.experiments.study.protocol import ProtocolError
from kernelquilt.experiments.study.sources import DataMissingError

if TYPE_CHECKING:
    import click
    from rich.console import Console

INTERRUPTED = "interrupted; run the same command again to go on"
BAD_INPUT, CELLS_FAILED, STOPPED = 2, 1, 130
_EXTRAS = {"distributed": "scale", "jinja2": "experiments", "pandas": "experiments"}
F = TypeVar("F", bound=Callable[..., Any])


def needs(error: ModuleNotFoundError) -> str:
    """Return how to install what is not there."""
    if error.name is None:  # the text says it already
        return str(error)
    extra = _EXTRAS.get(error.name, "demo")
    return f'kq needs {error.name}: pip install "kernelquilt[{extra}]"'


def bad_input(message: str) -> "click.ClickException":
    """Return an error of the user's, to be raised: one line, exit code 2."""
    import click

    class InputError(click.ClickException):
        exit_code = BAD_INPUT

    return InputError(message)


@contextmanager
def installed() -> Iterator[None]:
    """Explain which package is to be installed if an import fails."""
    import click

    try:
        yield
    except ModuleNotFoundError as error:
        raise click.ClickException(needs(error)) from error


@contextmanager
def user_errors() -> Iterator[None]:
    """Turn errors that explain themselves into one line and exit code 2."""
    try:
        yield
    except (DataFileError, DataMissingError, ProtocolError, StoreError) as error:
        raise bad_input(str(error)) from error


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn the failure to write a result into one line and exit code 2."""
    try:
        yield
    except OSError as error:
        raise bad_input(f"cannot write to {str(path)!r}: {error.strerror or error}") from error


def epilog(*examples: str) -> str:
    """Return the examples at the end of a help text, lines unwrapped."""
    return "\b\nExamples:\n" + "\n".join(f"  {example}" for example in examples)


def check_png(path: Path) -> None:
    """Refuse a path that a PNG cannot be written to."""
    if path.suffix.lower() != ".png":
        raise bad_input(f"cannot write {str(path)!r}: the name must end in .png")
    existed = path.exists()
    try:
        path.open("ab").close()
    except OSError as error:
        raise bad_input(f"cannot write {str(path)!r}: {error.strerror}") from error
    if not existed:
        path.unlink()


def check_directory(path: Path | None) -> None:
    """Make the directory of the output, before anything is computed."""
    if path is None:
        return
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise bad_input(f"cannot write to {str(path)!r}: {error.strerror}") from error


def print_json(value: Any) -> None:
    """Print a value as JSON; figures that are not there are null."""
    import click

    click.echo(json.dumps(plain(value), indent=2, ensure_ascii=False, allow_nan=False))


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
        raise bad_input(f"there are no names in {text!r}; separate names by commas")
    return names


def load(path: Path, label: str | None, views: Sequence[str], index: str | None) -> UserData:
    """Read a data file as the options of the command line say."""
    patterns: dict[str, list[str]] = {}
    for text in views:
        name, equals, columns = text.partition("=")
        if not (name and equals and columns):
            raise bad_input(
                f"--view {text!r} is not NAME=PATTERN,...; for example --view 'rna=rna_*'"
            )
        patterns.setdefault(name, []).extend(split_names(columns) or [])
    with user_errors():
        return read_data(path, label=label, views=patterns or None, index=index)


def data_options(function: F) -> F:
    """Add the data file and the options that say how it is read."""
    import click

    for decorate in (
        click.option("--index", metavar="COL", help="Column with the names of the samples."),
        click.option(
            "--view",
            "views",
            multiple=True,
            metavar="NAME=PATTERN,...",
            help="Columns of a view of a table: names, patterns such as 'rna_*', ranges "
            "'first:last'. Once for each view. By default the text before the first '__', ':' or "
            "'.' of a name is its view.",
        ),
        click.option(
            "--label", metavar="COL", help="Column or array of the labels; 'y' if there is one."
        ),
        click.argument("data", type=click.Path(path_type=Path)),
    ):
        function = decorate(function)
    return function


def seed_option(function: F) -> F:
    """Add ``--seed``."""
    import click

    return click.option(
        "--seed",
        type=click.IntRange(0, 2**31),
        default=0,
        show_default=True,
        help="Seed of the splits and of what is absent.",
    )(function)


def json_option(function: F) -> F:
    """Add ``--json``."""
    import click

    return click.option(
        "--json", "as_json", is_flag=True, help="Print JSON and nothing else on stdout."
    )(function)
