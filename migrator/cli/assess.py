"""The verb that takes stock of a code base before anybody migrates it."""

from __future__ import annotations

from pathlib import Path

import click

from migrator.cli.migrate import chosen_settings
from migrator.cli.terminal import report


@click.command("assess", short_help="Take stock of a code base: what uses Horovod, and what moving it takes.")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--exclude", multiple=True, metavar="GLOB", help="Leave out these files, beside those of the settings.")
@click.option("--jobs", type=click.IntRange(min=0), metavar="N", help="Number of processes; 0 is one per core.")
@click.option("--format", "format_", type=click.Choice(["text", "markdown", "json"]), default="text")
@click.option(
    "--output", type=click.Path(path_type=Path), metavar="FILE", help="Where the report goes instead of stdout."
)
def assess(
    paths: tuple[str, ...], exclude: tuple[str, ...], jobs: int | None, format_: str, output: Path | None
) -> None:
    """Take stock of the code under PATH...: programs, launchers, symbols, what moves and what a person must do.

    Nothing is written. Exit code: 0, or 2 for bad usage.
    """
    from migrator.assessment import assess as assessed
    from migrator.engine import migrate
    from migrator.registry import load_rules
    from migrator.reports.assessment import FORMATS

    settings = chosen_settings({"exclude": exclude, "jobs": jobs})
    result = migrate([Path(path) for path in paths], settings)
    report(FORMATS[format_](assessed(paths, result, load_rules())), output)
