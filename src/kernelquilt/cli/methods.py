"""`kq methods`: what the methods are called."""

import click

from kernelquilt.cli._common import epilog, json_option, print_json
from kernelquilt.cli._data import TASKS
from kernelquilt.experiments.methods import METHODS_OF


@click.command(epilog=epilog("kq methods", "kq methods --task survival", "kq methods --json"))
@click.option("--task", type=click.Choice(TASKS), default=TASKS[0], show_default=True)
@json_option
def methods(task: str, as_json: bool) -> None:
    """List the methods that kq compare knows."""
    known = METHODS_OF[task]
    if as_json:
        print_json({name: method.summary for name, method in known.items()})
        return
    width = max(map(len, known))
    for name, method in known.items():
        click.echo(f"{name:<{width}}  {method.summary}")
