"""`kq report`: tables and figures of what a store holds."""

from pathlib import Path
from typing import TYPE_CHECKING

from kernelquilt.cli._common import (
    check_directory,
    epilog,
    installed,
    json_option,
    print_json,
    user_errors,
    writing,
)
from kernelquilt.experiments.reporting.page import write_report
from kernelquilt.experiments.reporting.summary import summaries_of
from kernelquilt.experiments.running.store import Store

if TYPE_CHECKING:
    import click


def command() -> "click.Command":
    """Return `kq report`."""
    import click

    @click.command(
        epilog=epilog(
            "kq report kq-absent-mkl.sqlite --output report",
            "kq report kq-compare.sqlite --study patients-1a2b3c4d",
            "kq report kq-compare.sqlite --json",
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
        """Write tables, figures and tests of significance of what STORE holds."""
        if not as_json:
            check_directory(output)
        with installed(), user_errors(), Store(store, create=False) as stored:
            summaries = summaries_of(stored, protocol=protocol, study=study, metric=metric)
            if as_json:
                print_json({"studies": summaries})
                return
            with writing(output):
                written = write_report(summaries, output)
        click.echo(f"Report: {written.page}")

    return report
