"""`kq methods`: what the methods are called."""

import click

from kernelquilt.cli._common import epilog, json_option, print_json
from kernelquilt.experiments.methods import METHODS


@click.command(epilog=epilog("kq methods", "kq methods --json"))
@json_option
def methods(as_json: bool) -> None:
    """List the methods that kq compare knows."""
    if as_json:
        print_json({name: method.summary for name, method in METHODS.items()})
        return
    width = max(map(len, METHODS))
    for name, method in METHODS.items():
        click.echo(f"{name:<{width}}  {method.summary}")
