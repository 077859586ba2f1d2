"""The command `kq`."""

import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from kernelquilt import __version__
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


def _check_output(path: Path) -> str | None:
    """Return why a PNG cannot be written to `path`, None if it can."""
    if path.suffix.lower() != ".png":
        return f"cannot write {str(path)!r}: the name must end in .png"
    existed = path.exists()
    try:
        path.open("ab").close()
    except OSError as error:
        return f"cannot write {str(path)!r}: {error.strerror}"
    if not existed:
        path.unlink()
    return None


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


def commands() -> "click.Group":
    """Return the command group `kq`; needs click."""
    import click

    class OutputError(click.ClickException):
        exit_code = 2

    @click.group(name="kq", context_settings={"help_option_names": ["-h", "--help"]})
    @click.version_option(__version__, prog_name="kernelquilt")
    def kq() -> None:
        """Multiple kernel learning for data in which whole views are absent."""

    @kq.command()
    @click.option(
        "--output",
        type=click.Path(path_type=Path),
        default=Path("demo.png"),
        show_default=True,
        help="Where to write the figure (PNG).",
    )
    @click.option(
        "--seed",
        type=click.IntRange(0, 2**31),
        default=0,
        show_default=True,
        help="Seed of the splits and of what is absent.",
    )
    @click.option("--quick", is_flag=True, help="Fewer samples, ratios and splits.")
    def demo(output: Path, seed: int, quick: bool) -> None:
        """Compare classifiers on handwritten digits while views become absent.

        Prints a table and writes a figure of accuracy against the share of absent views.
        """
        try:
            import matplotlib.figure  # noqa: F401
            from rich.console import Console
        except ModuleNotFoundError as error:
            raise click.ClickException(_needs(error)) from error
        problem = _check_output(output)
        if problem:
            raise OutputError(problem)
        plan = Plan((0.0, 0.4, 0.8), n_splits=2, n_train=150, n_test=200) if quick else Plan()
        _present(plan, seed, output, Console())

    return kq


def _needs(error: ModuleNotFoundError) -> str:
    return f'kq needs {error.name}: pip install "kernelquilt[demo]"'


def main() -> None:
    """Run `kq`."""
    try:
        kq = commands()
    except ModuleNotFoundError as error:
        sys.exit(_needs(error))
    kq()


if __name__ == "__main__":
    main()
