"""The command `kq`."""

import sys
from typing import TYPE_CHECKING, Any

from kernelquilt import __version__
from kernelquilt.cli import compare, demo, describe, report, reproduce
from kernelquilt.cli._common import BAD_INPUT, INTERRUPTED, STOPPED, needs

if TYPE_CHECKING:
    import click

__all__ = ["commands", "main"]


def commands() -> "click.Group":
    """Return the command group `kq`; needs click."""
    import click

    class OneLineErrors(click.Group):
        """Errors, those in the usage too, take one line."""

        def main(self, *args: Any, **options: Any) -> Any:
            run: Any = super().main
            try:
                code = run(*args, **{**options, "standalone_mode": False})
            except getattr(click.exceptions, "NoArgsIsHelpError", ()) as error:
                error.show()
                code = BAD_INPUT
            except click.UsageError as error:
                command = error.ctx.command_path if error.ctx else "kq"
                click.echo(f"Error: {error.format_message()} See {command} --help.", err=True)
                code = BAD_INPUT
            except click.ClickException as error:
                error.show()
                code = error.exit_code
            except click.Abort:
                click.echo(INTERRUPTED, err=True)
                code = STOPPED
            sys.exit(code)

    @click.group(
        name="kq", cls=OneLineErrors, context_settings={"help_option_names": ["-h", "--help"]}
    )
    @click.version_option(__version__, prog_name="kernelquilt")
    def kq() -> None:
        """Multiple kernel learning for data in which whole views are absent."""

    for module in (demo, describe, compare, reproduce, report):
        kq.add_command(module.command())
    kq.add_command(compare.methods_command())
    return kq


def main() -> None:
    """Run `kq`."""
    try:
        kq = commands()
    except ModuleNotFoundError as error:
        sys.exit(needs(error))
    kq(prog_name="kq")
