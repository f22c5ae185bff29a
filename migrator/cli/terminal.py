"""What commands print and where, and what they end with."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO

import click

from migrator.reports.view import printable

DONE, TO_DO, FAILED, INTERRUPTED = 0, 1, 2, 130


class Failure(click.ClickException):
    """A run that cannot go on, said in one line."""

    exit_code = FAILED

    def show(self, file: object = None) -> None:
        """Print the line on stderr."""
        note(f"error: {self.message}")


def wants_color(stream: Any) -> bool:
    """Whether ``stream`` is a terminal whose user did not decline colour."""
    return bool(stream.isatty()) and not os.environ.get("NO_COLOR")


def report(text: str, output: Path | None, to_stderr: bool = False) -> None:
    """Put a report into the file ``output``, else on stdout or stderr."""
    if output:
        save(output, text.encode("utf-8", "backslashreplace"))
    else:
        print_text(text, to_stderr)


def save(path: Path, data: bytes) -> None:
    """Write a file; what prevents it is a failure of the command."""
    try:
        path.write_bytes(data)
    except OSError as error:
        raise Failure(f"{path}: {error.strerror}") from error


def print_text(text: str, to_stderr: bool = False) -> None:
    """Print ``text``; what the encoding of the stream lacks is escaped."""
    encoding = (sys.stderr if to_stderr else sys.stdout).encoding or "utf-8"
    echo(text.encode(encoding, "backslashreplace"), to_stderr)


def echo(data: bytes, to_stderr: bool = False) -> None:
    """Print ``data`` at once; a full disk is a failure of the command."""
    stream = sys.stderr if to_stderr else sys.stdout
    try:
        click.echo(data, nl=False, err=to_stderr)
        stream.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        _discard(stream)
        raise Failure(f"stdout: {error.strerror}") from error


def _discard(stream: TextIO) -> None:
    """Let what ``stream`` still holds go, so that its last flush at exit does not fail again."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def note(message: str) -> None:
    """Say something beside the report, on stderr."""
    print_text(f"hvd-migrate: {printable(message)}\n", to_stderr=True)


def internal_error(error: Exception, verbose: bool) -> None:
    """Say that ``error`` was not foreseen, with its traceback if ``verbose``."""
    if verbose:
        import traceback

        print_text("".join(traceback.format_exception(error)), to_stderr=True)
    print_text(f"internal error: {printable(f'{type(error).__name__}: {error}')} (please report)\n", to_stderr=True)
