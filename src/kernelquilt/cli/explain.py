"""`kq explain`: what views are worth to a fitted model, and to single samples."""

from pathlib import Path

import click

from kernelquilt.cli._common import epilog, writing
from kernelquilt.cli._data import data_options, load, model_options
from kernelquilt.experiments.own_data.explain import load_model, write_explanation


@click.command(
    epilog=epilog(
        "kq explain model.kq patients.csv --label diagnosis --trust sklearn.tree._tree.Tree",
        "kq explain model.kq patients.csv --index patient --sample p17 --sample p21",
    )
)
@model_options
@data_options
@click.option(
    "--sample",
    "samples",
    multiple=True,
    metavar="ID",
    help="A sample to explain: its name, or its position counted from 0. May be repeated.",
)
@click.option(
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("kq-explain.html"),
    show_default=True,
    help="File for the page.",
)
def explain(
    model: Path,
    data: Path,
    label: str | None,
    views: tuple[str, ...],
    index: str | None,
    task: str | None,
    time: str | None,
    samples: tuple[str, ...],
    trusted: tuple[str, ...],
    output: Path,
) -> None:
    """Explain what views are worth to MODEL, and to samples of DATA.

    MODEL is a fitted estimator in a file of kq.save, which executes nothing when it is read;
    classes of your own in it need --trust. Files of joblib and pickle are read too, and can run any
    code: take only those of people you trust. DATA has samples that the model has not seen, with
    the views it was fitted on; with labels, the page has scores too.
    """
    user_data = load(data, label, views, index, task, time)
    fitted = load_model(model, trusted)
    with writing(output):
        page = write_explanation(fitted, user_data, output, samples=samples)
    click.echo(f"Page: {page}")
