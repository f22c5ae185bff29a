"""The verb that starts a program on several ranks."""

from __future__ import annotations

from typing import Any

import click

from migrator.cli.launching import Asks, exit_code, launch_options, shown, source_of, startable, tell


@click.command(
    "run", short_help="Start a program on several ranks.", context_settings={"allow_interspersed_args": False}
)
@launch_options(horovod="none")
@click.option("-q", "--quiet", is_flag=True, help="Print only what went wrong.")
@click.argument("program")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[ARGS]...")
@click.pass_context
def run(context: click.Context, /, program: str, arguments: tuple[str, ...], quiet: bool, **options: Any) -> None:
    """Start PROGRAM with its ARGS on several ranks of this machine, and stop all when one fails.

    Lines of output start with the rank that wrote them. A program that hands a function to HorovodRunner or
    TorchDistributor is started once, and starts its ranks itself. Exit code: 0 every rank ended well; 1 one failed, or
    the time was over; 2 bad usage; 130 interrupted.
    """
    from migrator.parity.launch import start

    asks = Asks.of(options)
    launch = asks.launch(program, arguments, source_of(program, asks.is_module), deterministic=False)
    with startable():
        outcome = start(launch, None, None if quiet else shown(1 if launch.is_driver else launch.size))
    tell(outcome, was_shown=not quiet)
    context.exit(exit_code(outcome))
