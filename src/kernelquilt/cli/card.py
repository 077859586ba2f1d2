"""`kq card`: what a fitted model is, how good it is, and with what it was made."""

from pathlib import Path

import click

from kernelquilt.cli._common import epilog, writing
from kernelquilt.cli._data import data_options, load, model_options
from kernelquilt.experiments.own_data.card import write_card
from kernelquilt.experiments.own_data.explain import load_model


@click.command(
    epilog=epilog(
        "kq card model.kq new_patients.csv --label diagnosis",
        "kq card model.kq new_patients.csv --label diagnosis --output card.md",
    )
)
@model_options
@data_options
@click.option("--notes", default="", metavar="TEXT", help="What else a reader should know.")
@click.option(
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("kq-card.html"),
    show_default=True,
    help="File for the card; Markdown if it ends with .md.",
)
def card(
    model: Path,
    data: Path,
    label: str | None,
    views: tuple[str, ...],
    index: str | None,
    task: str | None,
    time: str | None,
    trusted: tuple[str, ...],
    notes: str,
    output: Path,
) -> None:
    """Write a card of MODEL, scored on DATA that it has not seen.

    MODEL is a fitted estimator in a file of kq.save, which executes nothing when it is read;
    classes of your own in it need --trust. Files of joblib and pickle are read too, and can run any
    code: take only those of people you trust. DATA has the views that the model was fitted on, and
    labels.
    """
    user_data = load(data, label, views, index, task, time)
    fitted = load_model(model, trusted)
    with writing(output):
        page = write_card(fitted, user_data, output, notes=notes)
    click.echo(f"Card: {page}")
