"""The verb that runs a program before and after its migration, and compares what the two compute."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from migrator.cli.launching import Asks, launch_options, recording, recording_options, shown, startable
from migrator.cli.migrate import chosen_settings
from migrator.cli.terminal import DONE, TO_DO, Failure, note, report, save, wants_color

if TYPE_CHECKING:
    from migrator.parity.launch import Launch, Recording
    from migrator.parity.report import ParityReport
    from migrator.parity.subjects import Subject
    from migrator.parity.supervisor import Show
    from migrator.parity.trial import Shows, Trial
    from migrator.result import Diagnostic

RESULTS = Path(".hvd-migrate/parity")
LIMIT = 3600.0
FILES = {"text": "txt", "json": "json", "markdown": "md", "html": "html"}


class WithArguments(click.Command):
    """A command whose arguments behind ``--`` are those of a program: ``ctx.obj``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse what stands before ``--``."""
        own, rest = (args[: args.index("--")], args[args.index("--") + 1 :]) if "--" in args else (args, [])
        ctx.obj = tuple(rest)
        return super().parse_args(ctx, own)


def _sizes(context: click.Context, parameter: click.Parameter, value: str | None) -> tuple[int, ...]:
    try:
        sizes = {int(part) for part in value.split(",")} if value else set()
    except ValueError as error:
        raise click.BadParameter("numbers of ranks with commas between them, such as 1,2,4") from error
    if any(size < 1 for size in sizes):
        raise click.BadParameter("every number of ranks is at least 1")
    return tuple(sorted(sizes))


@click.command("parity", cls=WithArguments, short_help="Run a program before and after its migration, and compare.")
@click.argument("programs", nargs=-1, required=True, metavar="PROGRAM [MIGRATED] [-- ARGS...]")
@launch_options(horovod="auto", limit=LIMIT)
@recording_options()
@click.option("--migrated-python", metavar="PY", help="The interpreter of the migrated program, if it is another.")
@click.option("--noise", type=click.FloatRange(min=0), metavar="X", help="The relative distance that means nothing.")
@click.option("--bisect", is_flag=True, help="Where the programs differ, find the edits to blame.")
@click.option("--ladder", metavar="N,N,...", callback=_sizes, help="Measure the migrated program's speed on N ranks.")
@click.option("--root", type=click.Path(path_type=Path, file_okay=False), metavar="DIR", help="What each run copies.")
@click.option("--target", type=click.Choice(["auto", "ddp", "deepspeed", "ray"]), help="What to migrate to.")
@click.option("--gradients", type=click.Choice(["auto", "ddp", "optimizer", "scope"]), help="Who averages gradients.")
@click.option("--format", "format_", type=click.Choice(list(FILES)), default="text", help="Format of the report.")
@click.option(
    "--results",
    type=click.Path(path_type=Path),
    default=RESULTS,
    show_default=True,
    metavar="DIR",
    help="Where the report in every format, traces and outputs go.",
)
@click.option("-q", "--quiet", is_flag=True, help="Only the verdict and its reasons.")
@click.option("-v", "--verbose", is_flag=True, help="Show what the programs print.")
@click.pass_context
def parity(
    context: click.Context,
    /,
    programs: tuple[str, ...],
    migrated_python: str | None,
    noise: float | None,
    bisect: bool,
    ladder: tuple[int, ...],
    root: Path | None,
    target: str | None,
    gradients: str | None,
    format_: str,
    results: Path,
    quiet: bool,
    verbose: bool,
    **options: Any,
) -> None:
    """Migrate a copy of PROGRAM, run both with the same ARGS on the same ranks, and compare their numbers.

    With MIGRATED nothing is migrated: two programs are compared as they are. Every run has a copy of the working folder
    (or of DIR) to itself. Exit code: 0 the programs are equal, or differ by noise; 1 they differ, or one cannot run;
    2 bad usage; 130 interrupted.
    """
    from migrator.parity.account import not_migrated
    from migrator.parity.subjects import BlockedError

    if len(programs) > 2:
        raise click.UsageError("at most two programs; the program's own arguments stand behind '--'")
    if quiet and verbose:
        raise click.UsageError("--quiet and --verbose exclude each other")
    asks = Asks.of(options)
    title = " ".join((programs[0], *context.obj))
    with _claimed(results):
        try:
            before, after, findings = _subjects(
                programs, asks.is_module, root, {"target": target, "gradients": gradients}
            )
        except BlockedError as error:
            found = not_migrated(title, str(error))
        else:
            asked, deterministic = recording(options, results)
            runs = _Runs(asks, migrated_python, context.obj, asked, deterministic)
            sides = runs.original(before, programs[0]), runs.migrated(after, programs[-1])
            with startable():
                found = _report(title, sides, findings, results, noise, bisect, ladder, _told(quiet, verbose))
        _publish(found, results, format_, quiet)
    context.exit(DONE if found.comparison.is_same else TO_DO)


@contextmanager
def _claimed(results: Path) -> Iterator[None]:
    """Have the folder of the results for ourselves, without what an earlier run left there."""
    import fcntl
    import shutil

    marker = results / ".gitignore"
    try:
        results.mkdir(parents=True, exist_ok=True)
        if any(results.iterdir()) and not marker.exists():
            raise Failure(f"{results} holds other files than results; --results takes another folder")
        with marker.open("a") as claim:
            fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
            for path in results.iterdir():
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path)
                elif path != marker:
                    path.unlink()
            marker.write_text("*\n")
            yield
    except BlockingIOError as error:
        raise Failure(f"another run writes into {results}; --results takes another folder") from error
    except OSError as error:
        raise Failure(f"{error.filename or results}: {error.strerror}") from error


def _subjects(
    programs: Sequence[str], is_module: bool, root: Path | None, settings: Mapping[str, object]
) -> tuple[Subject, Subject, tuple[Diagnostic, ...]]:
    """Both sides, and what the migration found."""
    import migrator.engine
    from migrator.parity.subjects import BlockedError, SubjectError, as_script, of_migration, of_programs

    places = [_place(program, is_module) for program in programs]
    trees = [_tree(place, root) for place in places]
    try:
        if len(places) == 2:
            before, after = of_programs(places[0], places[1], (trees[0], trees[1]))
            return as_script(before), as_script(after), ()
        result = migrator.engine.migrate([trees[0]], chosen_settings(settings))
        before, after = of_migration(places[0], trees[0], result)
        return as_script(before), as_script(after), result.findings
    except BlockedError:
        raise
    except SubjectError as error:
        raise Failure(str(error)) from error


def _place(program: str, is_module: bool) -> Path:
    """The file of a program, or of a module below the working folder."""
    path = Path(*program.split(".")) if is_module else Path(program)
    places = (path.with_name(f"{path.name}.py"), path / "__main__.py") if is_module else (path,)
    if found := next((place for place in places if place.is_file()), None):
        return found
    raise Failure(f"{program}: no such {'module below the working folder' if is_module else 'file'}")


def _tree(place: Path, root: Path | None) -> Path:
    """What is copied for a run of a program: the given folder, else the working one, if the program lies in it."""
    folders = [*([root] if root else []), Path.cwd()]
    return next((folder for folder in folders if place.resolve().is_relative_to(folder.resolve())), place.parent)


@dataclass(frozen=True)
class _Runs:
    """How both sides are run."""

    asks: Asks
    migrated_python: str | None
    arguments: tuple[str, ...]
    recording: Recording
    deterministic: bool

    def original(self, subject: Subject, name: str) -> Trial:
        return self._trial(subject, name, self.asks)

    def migrated(self, subject: Subject, name: str) -> Trial:
        python = self.migrated_python or self.asks.interpreter
        return self._trial(subject, name, replace(self.asks, horovod="none", stand_in=False, interpreter=python))

    def _trial(self, subject: Subject, name: str, asks: Asks) -> Trial:
        from migrator.parity.trial import Trial

        tree = subject.files.tree.resolve()
        folder = Path.cwd().resolve().relative_to(tree) if Path.cwd().resolve().is_relative_to(tree) else Path()
        path = os.path.relpath(tree / subject.program, tree / folder)
        program = ".".join(Path(path).with_suffix("").parts).removesuffix(".__main__") if asks.is_module else path
        source = subject.files.content(subject.program) or b""
        launch = asks.launch(
            program,
            self.arguments,
            source,
            recording=self.recording,
            deterministic=self.deterministic,
            folder=folder,
        )
        return Trial(subject.files, launch, subject.changed, subject.others, name)


def _told(quiet: bool, verbose: bool) -> Shows:
    """What says on stderr which run begins, and shows what its ranks print if that is asked for."""
    horovod = {"none": "", "real": ", real Horovod", "stand-in": ", the stand-in for Horovod"}

    def show(stage: str, launch: Launch) -> Show | None:
        if not quiet:
            note(f"running: {stage}, {launch.size} rank{'s' * (launch.size > 1)}{horovod[launch.horovod]}")
        return shown(1 if launch.is_driver else launch.size, stage) if verbose else None

    return show


def _report(
    title: str,
    sides: tuple[Trial, Trial],
    findings: Sequence[Diagnostic],
    results: Path,
    noise: float | None,
    wants_blame: bool,
    sizes: Sequence[int],
    shows: Shows,
) -> ParityReport:
    from migrator.parity.account import account
    from migrator.parity.ladder import climb
    from migrator.parity.trial import bisect, prove, with_started

    proof = prove(*sides, results, noise, shows)
    original, migrated = with_started(sides[0], proof.original), with_started(sides[1], proof.migrated)
    is_guilty = wants_blame and proof.comparison.verdict == "different"
    blamed = bisect(original, migrated, results, shows) if is_guilty else None
    ladder = climb(migrated, sizes, results, shows)
    found = account(title, original, migrated, proof, findings, blamed, ladder)
    is_proof = findings and found.comparison.is_same
    return replace(found, next_steps=("hvd-migrate --write writes the migrated program",)) if is_proof else found


def _publish(found: ParityReport, results: Path, format_: str, quiet: bool) -> None:
    """Print the report, and save it in every format."""
    from migrator.reports.parity import FORMATS
    from migrator.reports.view import View

    for name, suffix in FILES.items():
        save(results / f"report.{suffix}", FORMATS[name](found, View()).encode("utf-8", "backslashreplace"))
    color = format_ == "text" and wants_color(sys.stdout)
    report(FORMATS[format_](found, View(quiet=quiet, color=color)), None)
    if not quiet:
        note(f"the report in other formats, traces and outputs are in {results}")
