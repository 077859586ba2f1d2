"""`kq demo`: a table and a figure of methods on the digits."""

import time
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from kernelquilt import __version__
from kernelquilt.cli._common import CELLS_FAILED, check_png, epilog, say, seed_option
from kernelquilt.cli._running import RunOptions, run, show_tables
from kernelquilt.datasets import load_example
from kernelquilt.experiments.demo import absences, conclusions, costs, demo_figure, demo_study
from kernelquilt.experiments.study.sources import UserSource


@click.command(epilog=epilog("kq demo", "kq demo --quick --output digits.png"))
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    default=Path("demo.png"),
    show_default=True,
    help="Where to write the figure (PNG).",
)
@seed_option
@click.option("--quick", is_flag=True, help="Fewer samples, ratios and splits.")
def demo(output: Path, seed: int, quick: bool) -> None:
    """Compare classifiers on handwritten digits while views become absent.

    Prints a table and writes a figure of accuracy against the share of absent views.
    """
    import matplotlib.figure  # noqa: F401 - it had better be missed before anything is computed
    from rich.console import Console

    check_png(output)
    begun = time.perf_counter()
    console, study = Console(), demo_study(quick=quick)
    load = UserSource(*load_example("digits"))
    say(console, f"kernelquilt {__version__}: {len(list(study.cells()))} fits", "")
    with TemporaryDirectory() as folder:
        found = run([study], load, RunOptions(Path(folder) / "demo.sqlite", seed))
    show_tables(found.summaries, console)
    if found.n_failed:
        click.get_current_context().exit(CELLS_FAILED)
    summary, absent = found.summaries[0], absences(study, load(study.datasets[0]), seed)
    demo_figure(summary, absent).savefig(output, dpi=150)
    say(console, *costs(summary), "", *conclusions(summary, absent))
    seconds = time.perf_counter() - begun
    say(console, f"\nFigure: {output} (after {seconds:.0f} s)", soft_wrap=True)
