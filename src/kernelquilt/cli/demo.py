"""`kq demo`: a table and a figure of methods on the digits."""

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from kernelquilt import __version__
from kernelquilt.cli._common import check_png, epilog, installed, seed_option
from kernelquilt.datasets import load_example
from kernelquilt.experiments.demo import (
    DROP,
    METHODS,
    PENALTY,
    SELF_TUNED,
    Plan,
    Row,
    compile_solvers,
    conclusions,
    run_demo,
)
from kernelquilt.inspection import AbsenceCurveDisplay

if TYPE_CHECKING:
    import click
    from rich.console import Console
    from rich.table import Table


WEIGHTED = (*SELF_TUNED, "SimpleMKL", "C-AMKL")


def _table(rows: list[Row], plus_minus: str) -> "Table":
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    table.add_column("absent", justify="right", no_wrap=True)
    table.add_column("method", no_wrap=True)
    for heading in ("train", "accuracy", "gap", "ms/fit", "weights"):
        table.add_column(heading, justify="right", no_wrap=True)
    for number, row in enumerate(rows):
        first, last = number % len(METHODS) == 0, (number + 1) % len(METHODS) == 0
        cells = ["-"] * 5
        if row.fits:
            cells = [
                f"{row.mean('n_train'):.0f}",
                f"{100 * row.scores.mean():.1f} {plus_minus} {100 * row.scores.std():.1f}",
                _gap(row),
                f"{1000 * row.mean('seconds'):.0f}",
                " ".join(f"{100 * weight:.0f}" for weight in row.mean("mean_weights"))
                if row.method in WEIGHTED
                else "",
            ]
        table.add_row(f"{row.absent:.0%}" if first else "", row.method, *cells, end_section=last)
    return table


def _gap(row: Row) -> str:
    largest = max(fit.largest_gap for fit in row.fits)
    if np.isnan(largest):
        return ""
    return f"{largest:.0e}" + ("" if all(fit.converged for fit in row.fits) else "*")


def _notes(rows: list[Row], plan: Plan, view_names: tuple[str, ...]) -> Iterator[str]:
    """Explain the columns of the table."""
    yield (
        f"accuracy: % of {plan.n_test} test samples, mean and standard deviation of "
        f"{plan.n_splits} splits; quilt and late fusion tune themselves, the others have "
        f"C = {PENALTY:g}; gap: largest relative duality gap; weights: % for "
        f"{', '.join(view_names)}, mean of the one-vs-rest problems; of the quilt those of its "
        "weighted sum of kernels, of late fusion the reliabilities."
    )
    fits = [fit for row in rows for fit in row.fits]
    failed = sum(not fit.converged for fit in fits)
    if failed:
        yield f"* {failed} of {len(fits)} fits stopped above the tolerance, a gap of 1e-03."
    if not all(row.fits for row in rows):
        yield "-: some class is left without a complete training sample in some split."


def _save_figure(rows: list[Row], plan: Plan, path: Path) -> None:
    from matplotlib.figure import Figure

    curves = {method: [row for row in rows if row.method == method] for method in METHODS}
    display = AbsenceCurveDisplay(
        [row.absent for row in curves[DROP]],
        {
            method: (
                [row.scores.mean() for row in curve],
                [row.scores.std() for row in curve],
            )
            for method, curve in curves.items()
        },
    )
    figure = Figure(figsize=(7, 4.6), layout="constrained")
    display.plot(figure.subplots())
    display.ax_.set_title(
        f"Digits in five views, {plan.n_train} training samples\n"
        f"mean and standard deviation of {plan.n_splits} splits",
        fontsize=11,
    )
    figure.savefig(path, dpi=150)


def _present(plan: Plan, seed: int, output: Path, console: "Console") -> None:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    say = partial(console.print, highlight=False, markup=False)
    names = load_example("digits").data.names
    start = time.perf_counter()
    say(
        f"kernelquilt {__version__}: digits in {len(names)} views, absent at random in training "
        f"and test samples; {plan.n_fits} fits"
    )
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as progress:
        task = progress.add_task("compiling", total=plan.n_fits)
        compile_solvers()
        progress.update(task, description="fitting")
        rows = run_demo(plan, seed, lambda: progress.advance(task))
    _save_figure(rows, plan, output)
    say()
    say(_table(rows, "±" if console.encoding.startswith("utf") else "+-"))
    say()
    for note in _notes(rows, plan, names):
        say(note)
    say()
    for sentence in conclusions(rows, plan.n_train):
        say(sentence)
    say(f"\nFigure: {output} (after {time.perf_counter() - start:.0f} s)", soft_wrap=True)


def command() -> "click.Command":
    """Return `kq demo`."""
    import click

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
        with installed():
            import matplotlib.figure  # noqa: F401
            from rich.console import Console
        check_png(output)
        plan = Plan((0.0, 0.4, 0.8), n_splits=2, n_train=150, n_test=200) if quick else Plan()
        _present(plan, seed, output, Console())

    return demo
