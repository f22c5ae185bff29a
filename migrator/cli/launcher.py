"""The verb that places the launcher of TensorFlow programs in a project."""

from __future__ import annotations

import os
from pathlib import Path

import click

from migrator.cli.terminal import Failure, note, save

NAME = "launch_workers.py"


@click.command("launcher", short_help="Place a launcher for TensorFlow programs in a project.")
@click.argument("folder", default=".", type=click.Path(file_okay=False, path_type=Path))
def launcher(folder: Path) -> None:
    """Write launch_workers.py into FOLDER: it starts the workers of a TensorFlow program, as horovodrun did.

    A file of that name is kept, and the exit code is 2, unless it is the same.
    """
    from importlib.resources import files

    text = files("migrator.launchers").joinpath(NAME).read_bytes()
    place = folder / NAME
    if place.exists() and place.read_bytes() != text:
        raise Failure(f"{place} is there already, and is another file")
    save(place, text)
    note(f"wrote {place}; start workers with: python {os.fspath(place)} -np N PROGRAM ARGUMENT...")
