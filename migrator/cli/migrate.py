"""The command without a verb: migrate what lies under the given paths."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from migrator import __version__
from migrator.cli.command import VerbOrPaths
from migrator.cli.terminal import DONE, FAILED, TO_DO, Failure, echo, note, report, save, wants_color
from migrator.config import Settings, SettingsError, load_settings, make_settings
from migrator.reports import FORMATS
from migrator.reports.view import Mode, View, held_back, printable
from migrator.result import FileResult, ProgramResult, Result

if TYPE_CHECKING:
    from migrator.engine import Progress
    from migrator.write import WriteError

PROGRESS_AFTER = 1.0
PROGRESS_EVERY = 0.1


def _commas(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(part.strip() for value in values for part in value.split(",") if part.strip())


def _paths(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    if "" in values:
        raise click.UsageError("a PATH is empty; the current directory is '.'")
    if "-" in values and len(values) > 1:
        raise click.UsageError("'-' cannot be combined with other paths")
    return values


def _in_existing_folder(context: click.Context, parameter: click.Parameter, value: Path | None) -> Path | None:
    if value and (value.is_dir() or not value.parent.is_dir()):
        raise click.UsageError(f"{parameter.opts[0]}: {printable(str(value))} cannot be written")
    return value


@click.command("hvd-migrate", cls=VerbOrPaths, no_args_is_help=True)
@click.argument("paths", nargs=-1, required=True, metavar="PATH...", callback=_paths)
@click.option("-w", "--write", is_flag=True, help="Apply the changes, each program all at once.")
@click.option("--check", is_flag=True, help="Print findings only and write nothing; for CI.")
@click.option(
    "--patch",
    type=click.Path(path_type=Path),
    metavar="FILE",
    callback=_in_existing_folder,
    help="Save the changes as a patch that git apply takes.",
)
@click.option("--partial", is_flag=True, help="Write blocked programs too, as working drafts with TODO lines.")
@click.option("--select", multiple=True, metavar="HVDnnn,...", callback=_commas, help="Apply these rules only.")
@click.option(
    "--ignore",
    multiple=True,
    metavar="HVDnnn,...",
    callback=_commas,
    help="Leave these rules out; a use that one answers for stays, and blocks its program.",
)
@click.option("--exclude", multiple=True, metavar="GLOB", help="Leave out these files, beside those of the settings.")
@click.option("--target", type=click.Choice(["auto", "ddp", "deepspeed", "ray"]), help="What to migrate to.")
@click.option("--gradients", type=click.Choice(["auto", "ddp", "optimizer", "scope"]), help="Who averages gradients.")
@click.option("--keras", type=click.Choice(["auto", "2", "3"]), help="The Keras of programs that use TensorFlow.")
@click.option("--kubeflow", type=click.Choice(["pytorchjob", "trainer"]), help="What an MPIJob of PyTorch becomes.")
@click.option("--jobs", type=click.IntRange(min=0), metavar="N", help="Number of processes; 0 is one per core.")
@click.option("--format", "format_", type=click.Choice(list(FORMATS)), default="text", help="Format of the report.")
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    callback=_in_existing_folder,
    help="Where the report goes instead of stdout.",
)
@click.option("--stdin-filename", metavar="NAME", help="The name of the source that '-' reads from stdin.")
@click.option("-q", "--quiet", is_flag=True, help="Only what a person must look at.")
@click.option("-v", "--verbose", is_flag=True, help="Diffs also where files are written; tracebacks.")
@click.version_option(__version__, message="%(prog)s %(version)s")
def main(
    paths: tuple[str, ...],
    write: bool,
    check: bool,
    patch: Path | None,
    format_: str,
    output: Path | None,
    stdin_filename: str | None,
    quiet: bool,
    verbose: bool,
    **given: object,
) -> NoReturn:
    """Migrate the Horovod programs under PATH... to what replaced it.

    Without --write, --check or --patch nothing is written: the changes are shown as a diff. '-' reads one file from
    stdin. Exit code: 0 nothing to do, or every program written; 1 something would change, or is blocked; 2 bad usage,
    unreadable input or an internal error.
    """
    context = click.get_current_context()
    mode = _mode(write, check, patch)
    _refuse_nonsense(paths, mode, stdin_filename, quiet and verbose)
    settings = chosen_settings(given)
    view = View(
        mode=mode,
        diff=mode == "preview" or (verbose and mode != "check"),
        quiet=quiet,
        color=format_ == "text" and not output and wants_color(sys.stdout),
        failures=bool(output),
    )
    if paths == ("-",):
        result = _stdin(stdin_filename or "stdin.py", settings, view, format_, output)
        context.exit(_exit_code(result, "write" if format_ == "text" and mode == "preview" else mode))
    result = _migrate([Path(path) for path in paths], settings, mode, quiet)
    if patch:
        save(patch, _patch(result, settings))
    report(FORMATS[format_](result, view), output)
    _name_failures(result)
    context.exit(_exit_code(result, mode))


def _mode(write: bool, check: bool, patch: Path | None) -> Mode:
    modes: dict[Mode, object] = {"write": write, "check": check, "patch": patch}
    chosen = [mode for mode, asked in modes.items() if asked]
    if len(chosen) > 1:
        raise click.UsageError(f"--{chosen[0]} and --{chosen[1]} exclude each other")
    return chosen[0] if chosen else "preview"


def _refuse_nonsense(paths: tuple[str, ...], mode: Mode, stdin_filename: str | None, contradiction: bool) -> None:
    if contradiction:
        raise click.UsageError("--quiet and --verbose exclude each other")
    if stdin_filename is not None and paths != ("-",):
        raise click.UsageError("--stdin-filename needs '-' as the only PATH")
    if paths == ("-",) and mode in ("write", "patch"):
        raise click.UsageError(f"--{mode} needs files; the source from stdin is migrated to stdout")


def chosen_settings(given: Mapping[str, Any]) -> Settings:
    """The settings of the working folder with what was given on the command line. Raises Failure if they are wrong."""
    try:
        base = load_settings(Path.cwd())
        chosen = vars(make_settings({key: value for key, value in given.items() if value}, "command line"))
    except SettingsError as error:
        raise Failure(str(error)) from error
    changes = {key: chosen[key] for key, value in given.items() if value or (key == "jobs" and value is not None)}
    changes["exclude"] = (*base.exclude, *chosen["exclude"])
    return replace(base, **changes)


def _migrate(paths: Sequence[Path], settings: Settings, mode: Mode, quiet: bool) -> Result:
    import migrator.engine

    if mode == "write":
        _recover(paths)
    with _progress(quiet) as progress:
        result = migrator.engine.migrate(paths, settings, progress)
    return _write(result, settings) if mode == "write" else result


def _recover(paths: Sequence[Path]) -> None:
    from migrator.write import recover

    recoveries = [recover(path) for path in paths]
    finished = [f"finished what an interrupted run began: {path}" for each in recoveries for path in each.finished]
    problems = [f"{problem.path}: {problem.reason}" for each in recoveries for problem in each.problems]
    for line in dict.fromkeys(finished + problems):
        note(line)


def _writable(result: Result, settings: Settings) -> list[tuple[ProgramResult, list[FileResult]]]:
    """The programs that may be written, each with its changed files."""
    changed = {file.path: file for file in result.changed}
    allowed = ("migrated", "partial") if settings.partial else ("migrated",)
    programs = [program for program in result.programs if program.status in allowed]
    return [(program, [changed[path] for path in program.files if path in changed]) for program in programs]


def _write(result: Result, settings: Settings) -> Result:
    from migrator.write import WriteError, write_files

    for program, files in _writable(result, settings):
        try:
            write_files([(Path(file.path), file.before, file.after) for file in files])
        except WriteError as error:
            result = _unwritten(result, program, error)
    return result


def _unwritten(result: Result, program: ProgramResult, error: WriteError) -> Result:
    """``result`` where ``program`` could not be written."""

    def failed(file: FileResult) -> FileResult:
        culprit = error.path in (Path(file.path), Path(os.path.realpath(file.path)))
        reason = error.reason if culprit else f"not written, because of {error.path}: {error.reason}"
        return replace(file, status="failed", reason=reason)

    unwritten = {file.path for file in result.changed} & set(program.files)
    files = tuple(failed(file) if file.path in unwritten else file for file in result.files)
    programs = tuple(replace(other, status="blocked") if other is program else other for other in result.programs)
    return replace(result, files=files, programs=programs)


def _patch(result: Result, settings: Settings) -> bytes:
    from migrator.write import patch

    return patch([file for _, files in _writable(result, settings) for file in files])


def _stdin(name: str, settings: Settings, view: View, format_: str, output: Path | None) -> Result:
    """Migrate stdin; as text, the source goes to stdout and the report to stderr."""
    import migrator.engine

    data = sys.stdin.buffer.read()
    result = migrator.engine.migrate_text(name, data, settings)
    if format_ != "text" or view.mode == "check":
        report(FORMATS[format_](result, view), output)
    else:
        echo(_source(result, data))
        view = replace(view, mode="write", diff=False, color=not output and wants_color(sys.stderr))
        report(FORMATS[format_](result, view), output, to_stderr=True)
    _name_failures(result)
    return result


def _source(result: Result, data: bytes) -> bytes:
    held = held_back(result)
    return next((file.after for file in result.changed if file.path not in held), data)


def _exit_code(result: Result, mode: Mode) -> int:
    if result.unread:
        return FAILED
    return TO_DO if result.blocked or (result.changed and mode != "write") else DONE


@contextmanager
def _progress(quiet: bool) -> Iterator[Progress | None]:
    """What the engine reports progress to: on a terminal one line, if the work takes long; else nothing."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    due = time.monotonic() + PROGRESS_AFTER
    shown = False

    def progress(done: int, total: int) -> None:
        nonlocal due, shown
        if (now := time.monotonic()) >= due:
            due, shown = now + PROGRESS_EVERY, True
            click.echo(f"\r\x1b[K{done}/{total} files", nl=False, err=True)

    try:
        yield progress
    finally:
        if shown:
            click.echo("\r\x1b[K", nl=False, err=True)


def _name_failures(result: Result) -> None:
    for file in result.unread:
        note(f"{file.path}: {file.reason}")
