"""The command `kq`."""

import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kernelquilt import __version__
from kernelquilt.datasets import load_example, make_absent
from kernelquilt.inspection import AbsenceCurveDisplay
from kernelquilt.mkl.simple import SimpleMKLClassifier
from kernelquilt.mkl.uniform import ObservedFractionMKLClassifier, UniformMKLClassifier
from kernelquilt.view_transformer import ViewTransformer
from kernelquilt.views import MultiView

if TYPE_CHECKING:
    import click
    from rich.console import Console
    from rich.table import Table

ALL, DROP = "uniform", "drop incomplete"
METHODS: dict[str, type[UniformMKLClassifier] | type[SimpleMKLClassifier]] = {
    "observed fraction": ObservedFractionMKLClassifier,
    ALL: UniformMKLClassifier,
    "SimpleMKL": SimpleMKLClassifier,
    DROP: UniformMKLClassifier,
}
PENALTY = 10.0


@dataclass(frozen=True)
class Plan:
    """How large the demo is."""

    ratios: tuple[float, ...] = (0.0, 0.15, 0.3, 0.45, 0.6, 0.75)
    n_splits: int = 5
    n_train: int = 400
    n_test: int = 1000

    @property
    def n_fits(self) -> int:
        """Number of classifiers to fit at most."""
        return len(self.ratios) * self.n_splits * len(METHODS)


@dataclass(frozen=True)
class Fit:
    """One fitted classifier, the duality gap and weights (n_views,) over its binary problems."""

    score: float
    n_train: int
    seconds: float
    largest_gap: float
    mean_weights: NDArray[np.float64]
    converged: bool


@dataclass(frozen=True)
class Row:
    """The fits of one method, one per split, at one share of absent views; none if impossible."""

    method: str
    absent: float
    fits: tuple[Fit, ...]

    def mean(self, name: str) -> Any:
        """Return the mean over the splits of a field of `Fit`."""
        return np.mean([getattr(fit, name) for fit in self.fits], axis=0)

    @property
    def scores(self) -> NDArray[np.float64]:
        """Accuracy of each split, one NaN if there is no fit."""
        return np.array([fit.score for fit in self.fits] or [np.nan])


def run_demo(plan: Plan, seed: int, on_fit: Callable[[], None]) -> list[Row]:
    """Compare methods on the digits while views become absent completely at random.

    Parameters
    ----------
    plan : Plan
    seed : int
        Of the splits and of the masks.
    on_fit : callable
        Called after each of `plan.n_fits` fits.

    Returns
    -------
    rows : list of Row
        For each ratio one row per method.
    """
    data, target = load_example("digits")
    splitter = StratifiedShuffleSplit(
        plan.n_splits, train_size=plan.n_train, test_size=plan.n_test, random_state=seed
    )
    splits = list(splitter.split(data, target))
    rows = []
    for ratio in plan.ratios:
        masked = [
            make_absent(data, ratio, mechanism="mcar", random_state=seed + number)
            for number in range(plan.n_splits)
        ]
        absent = 1 - float(np.mean([X.observed for X in masked]))
        for method in METHODS:
            fits = []
            for X, (train, test) in zip(masked, splits, strict=True):
                used = train[X.observed[train].all(axis=1)] if method == DROP else train
                if np.isin(target, target[used]).all():
                    fits.append(_fit(method, X, target, used, test))
                on_fit()
            rows.append(Row(method, absent, tuple(fits) if len(fits) == len(splits) else ()))
    return rows


def _fit(
    method: str, X: MultiView, y: NDArray[Any], train: NDArray[Any], test: NDArray[Any]
) -> Fit:
    model = make_pipeline(ViewTransformer(StandardScaler()), METHODS[method](C=PENALTY))
    start = time.perf_counter()
    with warnings.catch_warnings():
        # the table says which fits did not converge
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X[train], y[train])
    seconds = time.perf_counter() - start
    classifier = model[-1]
    return Fit(
        score=model.score(X[test], y[test]),
        n_train=len(train),
        seconds=seconds,
        largest_gap=float(np.max(classifier.duality_gap_ / classifier.objective_)),
        mean_weights=np.atleast_2d(classifier.weights_).mean(axis=0),
        converged=classifier.converged_,
    )


def _compile() -> None:
    """Have numba compile the solvers, so that no fit is timed with that."""
    X, y = load_example("digits")
    for method in METHODS:
        _fit(method, X, y, np.arange(30), np.arange(30))


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
                f"{max(fit.largest_gap for fit in row.fits):.0e}"
                + ("" if all(fit.converged for fit in row.fits) else "*"),
                f"{1000 * row.mean('seconds'):.0f}",
                " ".join(f"{100 * weight:.0f}" for weight in row.mean("mean_weights"))
                if row.method == "SimpleMKL"
                else "",
            ]
        table.add_row(f"{row.absent:.0%}" if first else "", row.method, *cells, end_section=last)
    return table


def _notes(rows: list[Row], plan: Plan, view_names: tuple[str, ...]) -> Iterator[str]:
    """Explain the columns of the table."""
    yield (
        f"accuracy: % of {plan.n_test} test samples, mean and standard deviation of "
        f"{plan.n_splits} splits, all with C = {PENALTY:g}, not tuned; gap: largest relative "
        f"duality gap; weights: % for {', '.join(view_names)}, mean of the one-vs-rest problems."
    )
    fits = [fit for row in rows for fit in row.fits]
    failed = sum(not fit.converged for fit in fits)
    if failed:
        yield f"* {failed} of {len(fits)} fits stopped above the tolerance, a gap of 1e-03."
    if not all(row.fits for row in rows):
        yield "-: some class is left without a complete training sample in some split."


def conclusions(rows: list[Row], n_train: int) -> Iterator[str]:
    """Say in words what the rows of `run_demo` with `n_train` training samples show."""
    most = rows[-1].absent
    ranked = sorted(
        (row for row in rows if row.absent == most and row.method != DROP),
        key=lambda row: -row.scores.mean(),
    )
    best, second = ranked[:2]
    lead = best.scores - second.scores
    yield (
        f"With {most:.0%} of the views absent, {best.method!r} is the most accurate: "
        f"{100 * lead.mean():.1f} points above {second.method!r}, and ahead in "
        f"{np.count_nonzero(lead > 0)} of {len(lead)} splits."
    )
    dropped = [row for row in rows if row.method == DROP and row.absent > 0]
    possible = [row for row in dropped if row.fits]
    for row in possible[-1:]:
        same = next(other for other in rows if (other.method, other.absent) == (ALL, row.absent))
        yield (
            f"Dropping incomplete samples leaves {row.mean('n_train'):.0f} of {n_train} for "
            f"training at {row.absent:.0%} and costs "
            f"{100 * (same.scores.mean() - row.scores.mean()):.1f} points against {ALL!r}."
        )
    if len(possible) < len(dropped):
        impossible = min(row.absent for row in dropped if not row.fits)
        yield f"At {impossible:.0%} there are no longer enough complete samples to train on."


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
        _compile()
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
