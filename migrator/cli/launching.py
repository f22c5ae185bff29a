"""What the verbs that start programs have in common: their options, and how they show what ranks say."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import click

from migrator.cli.terminal import DONE, INTERRUPTED, TO_DO, Failure, note, print_text, wants_color

if TYPE_CHECKING:
    from migrator.parity.launch import Device, Horovod, Launch, Recording
    from migrator.parity.supervisor import Outcome, Show

Asked = Literal["none", "auto", "real", "stand-in"]
Function = Callable[..., Any]

COLORS = ("cyan", "yellow", "green", "magenta", "blue", "red")


@dataclass(frozen=True)
class Asks:
    """How a program is asked to be run; ``horovod`` is not chosen yet."""

    size: int
    interpreter: str
    horovod: Asked
    stand_in: bool
    device: Device
    limit: float | None
    is_driver: bool | None
    is_module: bool
    on_spark: bool

    @classmethod
    def of(cls, options: dict[str, Any]) -> Asks:
        """Take the options of ``launch_options`` out of those of a command."""
        return cls(**{name: options.pop(name) for name in cls.__dataclass_fields__})

    def launch(self, program: str, arguments: tuple[str, ...], source: bytes, **settings: Any) -> Launch:
        """The launch of a program with the text ``source``. Raises Failure if it cannot be had."""
        from migrator.parity.drivers import starts_ranks
        from migrator.parity.launch import Launch

        python = found_interpreter(self.interpreter)
        return Launch(
            program=program,
            arguments=arguments,
            is_module=self.is_module,
            on_spark=self.on_spark,
            is_driver=starts_ranks(source) if self.is_driver is None else self.is_driver,
            size=self.size,
            python=python,
            horovod=chosen_horovod(self._asked(source), python, source),
            device=self.device,
            limit=self.limit or math.inf,
            **settings,
        )

    def _asked(self, source: bytes) -> Asked:
        """Which Horovod is asked for; HorovodRunner is Databricks' own, so that only the stand-in has it elsewhere."""
        is_runner = self.horovod == "auto" and b"sparkdl" in source
        return "stand-in" if self.stand_in or is_runner else self.horovod


def launch_options(horovod: Asked, limit: float | None = None) -> Callable[[Function], Function]:
    """Decorate a command with the options that say how a program is run, by default with this Horovod and limit."""
    options = (
        click.option("-np", "size", type=click.IntRange(min=1), default=2, show_default=True, help="Number of ranks."),
        click.option(
            "--python", "interpreter", metavar="PY", default=sys.executable, help="The interpreter, else this one."
        ),
        click.option(
            "--horovod",
            type=click.Choice(get_args(Asked)),
            default=horovod,
            show_default=True,
            help="Which Horovod the program gets: the one of its interpreter, or the stand-in over torch.distributed.",
        ),
        click.option("--stand-in", is_flag=True, help="The same as --horovod stand-in."),
        click.option(
            "--device", type=click.Choice(["auto", "cpu", "cuda"]), default="auto", help="Where ranks compute."
        ),
        click.option(
            "--limit",
            type=click.FloatRange(min=0, min_open=True),
            metavar="SECONDS",
            default=limit,
            show_default=limit is not None,
            help="Time for a whole run.",
        ),
        click.option(
            "--driver/--no-driver",
            "is_driver",
            default=None,
            help="Whether PROGRAM starts its ranks itself; by default its code tells.",
        ),
        click.option("-m", "is_module", is_flag=True, help="PROGRAM is the name of a module."),
        click.option(
            "--spark",
            "on_spark",
            is_flag=True,
            help="TorchDistributor is that of pyspark, which PROGRAM's session runs.",
        ),
    )
    return _decorated(options)


def recording_options() -> Callable[[Function], Function]:
    """Decorate a command with the options that say what is recorded, and how far runs are made repeatable."""
    options = (
        click.option("--seed", type=int, default=0, show_default=True, help="Rank n's random generators get this + n."),
        click.option("--no-seed", is_flag=True, help="Leave the random generators alone."),
        click.option("--deterministic/--no-deterministic", default=True, help="Ask for deterministic algorithms."),
        click.option(
            "--every", type=click.IntRange(min=1), default=1, metavar="N", help="Record the tensors of every Nth step."
        ),
        click.option(
            "--first", type=click.IntRange(min=1), metavar="N", help="Record the tensors of the first N steps only."
        ),
    )
    return _decorated(options)


def recording(options: dict[str, Any], folder: Path) -> tuple[Recording, bool]:
    """Take the options of ``recording_options`` out of those of a command: a trace in ``folder``, and determinism."""
    from migrator.parity.launch import Recording

    given = {name: options.pop(name) for name in ("every", "first", "seed", "no_seed", "deterministic")}
    seed = None if given["no_seed"] else given["seed"]
    return Recording(folder, given["every"], given["first"], seed), given["deterministic"]


def _decorated(options: tuple[Callable[[Function], Function], ...]) -> Callable[[Function], Function]:
    def decorate(function: Function) -> Function:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


def source_of(program: str, is_module: bool) -> bytes:
    """What the file of a program holds; nothing for a module, which may lie anywhere. Raises Failure without a file."""
    if is_module:
        return b""
    if not (path := Path(program)).is_file():
        raise Failure(f"{program}: no such file")
    return path.read_bytes()


def found_interpreter(name: str) -> str:
    """The path of an interpreter that was given by its path or its name. Raises Failure if there is none."""
    import shutil

    found = shutil.which(name)
    if not found:
        raise Failure(f"{name}: no such interpreter")
    return str(Path(found).absolute())


def chosen_horovod(asked: Asked, python: str, source: bytes) -> Horovod:
    """Which Horovod a program with this text gets: ``auto`` is the real one where the interpreter has it.

    Raises Failure if the real one is asked for and not there.
    """
    from migrator.parity.real_horovod import find_horovod, part_in

    if asked == "none" or asked == "stand-in":
        return asked
    part = part_in(source)
    version = find_horovod(python, part)
    if asked == "real" and not version:
        raise Failure(f"{python} has no Horovod of which {part} can be imported")
    return "real" if version else "stand-in"


@contextmanager
def startable() -> Iterator[None]:
    """Turn what prevents a program from being started into a failure of the command."""
    from migrator.parity.launch import LaunchError
    from migrator.parity.real_horovod import RendezvousError

    try:
        yield
    except (LaunchError, RendezvousError) as error:
        raise Failure(str(error)) from error


def shown(size: int, title: str = "") -> Show:
    """What prints each line of several ranks behind its rank, and of one alone as it is; behind a title, if any."""

    def show(rank: int, stream: str, line: str) -> None:
        to_stderr = stream == "stderr"
        prefix = " ".join(part for part in (title, str(rank) if size > 1 else "") if part)
        text = f"[{prefix}]"
        if wants_color(sys.stderr if to_stderr else sys.stdout):
            text = click.style(text, fg=COLORS[rank % len(COLORS)])
        print_text(f"{text} {line}\n" if prefix else f"{line}\n", to_stderr or bool(title))

    return show


def exit_code(outcome: Outcome) -> int:
    """What a command that ran one program ends with."""
    return {"finished": DONE, "interrupted": INTERRUPTED}.get(outcome.ended, TO_DO)


def tell(outcome: Outcome, was_shown: bool) -> None:
    """Say on stderr what went wrong, and what the ranks say that it began with, unless nothing else was shown."""
    if outcome.reason:
        note(outcome.reason)
    for rank in outcome.culprits if len(outcome.ranks) > 1 or not was_shown else ():
        title = f"rank {rank.rank}:\n" if len(outcome.culprits) > 1 else ""
        print_text(f"{title}{rank.error}\n" if rank.error else "", to_stderr=True)
