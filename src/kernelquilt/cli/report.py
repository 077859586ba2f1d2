"""`kq report`: tables and figures of what a store holds."""

from pathlib import Path

import click

from kernelquilt.cli._common import (
    check_directory,
    epilog,
    json_option,
    print_json,
    writing,
)
from kernelquilt.experiments.reporting.page import write_report
from kernelquilt.experiments.reporting.summary import summaries_of
from kernelquilt.experiments.running.store import PACKED, Store


@click.command(
    epilog=epilog(
        "kq report kq-absent-mkl.sqlite --output report",
        "kq report kq-compare.sqlite --study patients-1a2b3c4d",
        "kq report kq-compare.sqlite --json",
        "kq report docs/results/quilt/cells.sqlite.gz --output report",
    )
)
@click.argument("store", type=click.Path(path_type=Path))
@click.option(
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("kq-report"),
    show_default=True,
    help="Directory for the report.",
)
@click.option("--protocol", help="Only this protocol.")
@click.option("--study", help="Only this study.")
@click.option("--metric", help="Compare by this figure of the cells, such as auc.")
@json_option
def report(
    store: Path,
    output: Path,
    protocol: str | None,
    study: str | None,
    metric: str | None,
    as_json: bool,
) -> None:
    """Write tables, figures and tests of significance of what STORE holds.

    The cells themselves go there too, packed: cells.sqlite.gz is a store that a report can be made
    from again, and that gunzip turns into one that a run can go on with.
    """
    if not as_json:
        check_directory(output)
    with Store(store, create=False) as stored:
        summaries = summaries_of(stored, protocol=protocol, study=study, metric=metric)
        if as_json:
            print_json({"studies": summaries})
            return
        with writing(output):
            written = write_report(summaries, output)
            if store.suffix != PACKED:
                stored.pack(output / f"cells.sqlite{PACKED}")
    click.echo(f"Report: {written.page}")
