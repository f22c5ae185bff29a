"""The verb that compares two traces."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from migrator.cli.terminal import DONE, TO_DO, Failure, report, wants_color


@click.command("compare", short_help="Compare two recorded runs.")
@click.argument("original", type=click.Path(path_type=Path))
@click.argument("migrated", type=click.Path(path_type=Path))
@click.option(
    "--again", type=click.Path(path_type=Path), metavar="DIR", help="Another trace of the original, to measure noise."
)
@click.option("--noise", type=click.FloatRange(min=0), metavar="X", help="The relative distance that means nothing.")
@click.option("--format", "format_", type=click.Choice(["text", "json", "markdown", "html"]), default="text")
@click.option(
    "--output", type=click.Path(path_type=Path), metavar="FILE", help="Where the report goes instead of stdout."
)
@click.option("-q", "--quiet", is_flag=True, help="Only the verdict and its reasons.")
@click.pass_context
def compare(
    context: click.Context,
    /,
    original: Path,
    migrated: Path,
    again: Path | None,
    noise: float | None,
    format_: str,
    output: Path | None,
    quiet: bool,
) -> None:
    """Compare the traces in two folders, of an original and a migrated program: ORIGINAL MIGRATED.

    Traces are written by `hvd-migrate record` and by migrator/parity/recorder.py. Exit code: 0 the runs are equal, or
    differ by noise; 1 they differ, or one did not end; 2 bad usage.
    """
    from migrator.parity.account import account_of_traces
    from migrator.parity.compare import Side
    from migrator.parity.compare import compare as compared
    from migrator.parity.trace import TraceError, read_trace
    from migrator.reports.parity import FORMATS
    from migrator.reports.view import View

    try:
        first, second = read_trace(original), read_trace(migrated)
        repeated = Side(read_trace(again)) if again else None
    except TraceError as error:
        raise Failure(str(error)) from error
    comparison = compared(Side(first), Side(second), repeated, noise)
    view = View(quiet=quiet, color=format_ == "text" and not output and wants_color(sys.stdout))
    report(FORMATS[format_](account_of_traces(first, second, comparison), view), output)
    context.exit(DONE if comparison.is_same else TO_DO)
