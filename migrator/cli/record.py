"""The verb that runs a program and records what it computes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from migrator.cli.launching import (
    Asks,
    exit_code,
    launch_options,
    recording,
    recording_options,
    shown,
    source_of,
    startable,
    tell,
)
from migrator.cli.terminal import Failure, note

TRACE = Path(".hvd-migrate/trace")


@click.command(
    "record", short_help="Run a program and record its numbers.", context_settings={"allow_interspersed_args": False}
)
@launch_options(horovod="none")
@recording_options()
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    default=TRACE,
    show_default=True,
    metavar="DIR",
    help="The folder of the trace; an earlier trace in it is replaced.",
)
@click.option("-q", "--quiet", is_flag=True, help="Print only what went wrong.")
@click.argument("program")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[ARGS]...")
@click.pass_context
def record(
    context: click.Context, /, program: str, arguments: tuple[str, ...], output: Path, quiet: bool, **options: Any
) -> None:
    """Run PROGRAM with its ARGS as `hvd-migrate run` does, and write a trace of what every rank computes.

    Two traces are compared by `hvd-migrate compare`. On a machine without hvd-migrate, the file
    migrator/parity/recorder.py records the same, with recorder_tensorflow.py beside it if TensorFlow trains. Exit code:
    as of `run`.
    """
    from migrator.parity.launch import start

    asks = Asks.of(options)
    asked, deterministic = recording(options, _emptied(output))
    source = source_of(program, asks.is_module)
    launch = asks.launch(program, arguments, source, recording=asked, deterministic=deterministic)
    with startable():
        outcome = start(launch, None, None if quiet else shown(1 if launch.is_driver else launch.size))
    tell(outcome, was_shown=not quiet)
    if not any(output.iterdir()):
        note("nothing was recorded: no rank used PyTorch or TensorFlow")
    elif not quiet:
        note(f"the trace is in {output}")
    context.exit(exit_code(outcome))


def _emptied(folder: Path) -> Path:
    """``folder``, without an earlier trace; one that holds anything else is left alone."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        earlier = list(folder.iterdir())
    except OSError as error:
        raise Failure(f"{folder}: {error.strerror}") from error
    if strange := [path.name for path in earlier if not path.match("rank*.jsonl")]:
        raise Failure(f"{folder} holds other files than a trace, such as {min(strange)}")
    for path in earlier:
        path.unlink()
    return folder
