"""The group `kq`, which imports a command when it is asked for."""

import sys
from importlib import import_module
from typing import Any

import click

from kernelquilt import __version__
from kernelquilt.cli import needs
from kernelquilt.cli._common import BAD_INPUT, INTERRUPTED, STOPPED, printable
from kernelquilt.experiments.errors import UserError

# the help of the group must not import the commands; a test compares it with theirs
COMMANDS = {
    "demo": "Compare classifiers on handwritten digits while views become absent.",
    "describe": "Describe the views of DATA, what is absent, and what to try.",
    "compare": "Compare methods on DATA.",
    "explain": "Explain what views are worth to MODEL, and to samples of DATA.",
    "card": "Write a card of MODEL, scored on DATA that it has not seen.",
    "methods": "List the methods that kq compare knows.",
    "reproduce": "Rerun the experiments of a paper and put its figures beside ours.",
    "report": "Write tables, figures and tests of significance of what STORE holds.",
}


class LazyGroup(click.Group):
    """Commands are modules of this package; errors, those in the usage too, take one line."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = getattr(import_module(f"kernelquilt.cli.{cmd_name}"), cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def main(self, *args: Any, **options: Any) -> Any:
        """Run a command and exit."""
        run: Any = super().main
        for stream in (sys.stdout, sys.stderr):
            # names need not be in the characters of a terminal
            getattr(stream, "reconfigure", lambda **_: None)(errors="backslashreplace")
        try:
            code = run(*args, **{**options, "standalone_mode": False})
        except getattr(click.exceptions, "NoArgsIsHelpError", ()) as error:
            error.show()
            code = BAD_INPUT
        except click.UsageError as error:
            command = error.ctx.command_path if error.ctx else "kq"
            message = printable(error.format_message())
            click.echo(f"Error: {message} See {command} --help.", err=True)
            code = BAD_INPUT
        except click.ClickException as error:
            error.show()
            code = error.exit_code
        except UserError as error:
            click.echo(f"Error: {printable(str(error))}", err=True)
            code = BAD_INPUT
        except ModuleNotFoundError as error:
            click.echo(f"Error: {needs(error)}", err=True)
            code = 1
        except click.Abort:
            click.echo(INTERRUPTED, err=True)
            code = STOPPED
        sys.exit(code)


@click.group(name="kq", cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="kernelquilt")
def kq() -> None:
    """Multiple kernel learning for data in which whole views are absent."""
