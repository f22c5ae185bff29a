"""Fork processes from this one: the ranks of a test, from a process that has imported what takes long."""

from __future__ import annotations

import atexit
import contextlib
import os
import re
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_TRACE = re.compile(r"^TRACE (\S+) (.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Rank:
    """How one rank ended, after how many seconds, and what it printed on stdout and stderr."""

    status: int
    seconds: float
    out: str
    err: str

    @property
    def trace(self) -> dict[str, str]:
        """The values of its ``TRACE key value`` lines."""
        return dict(_TRACE.findall(self.out))


def run_forked(
    program: Callable[[], None], environments: Sequence[Mapping[str, str]], work: Path, output: Path, limit: float
) -> list[Rank]:
    """Call ``program`` in a process for each environment, in the folder ``work``; what they print goes to ``output``.

    Once one has failed, the others get five seconds more; then, or after ``limit`` seconds, all are killed.
    """
    children = [_start(program, environment, work, output, rank) for rank, environment in enumerate(environments)]
    ends = _wait(children, limit)
    return [Rank(*end, *_written(output, rank)) for rank, end in enumerate(ends)]


def _start(program: Callable[[], None], environment: Mapping[str, str], work: Path, output: Path, rank: int) -> int:
    sys.stdout.flush()
    sys.stderr.flush()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # threads do not outlive the fork, which none needs to
        child = os.fork()
    if child:
        return child
    status = 1
    try:
        _become(environment, work, output, rank)
        program()
        status = 0
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(BaseException):
            atexit._run_exitfuncs()
        with contextlib.suppress(BaseException):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


def _become(environment: Mapping[str, str], work: Path, output: Path, rank: int) -> None:
    """Make this process the rank: its output, environment and folder, and nothing left to do at exit."""
    atexit._clear()
    for name, number in (("out", 1), ("err", 2)):
        target = os.open(output / f"{name}{rank}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        os.dup2(target, number)
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, encoding="utf-8", closefd=False)  # noqa: SIM115
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(work)


def _written(output: Path, rank: int) -> tuple[str, str]:
    out, err = ((output / f"{name}{rank}").read_text("utf-8", "backslashreplace") for name in ("out", "err"))
    return out, err


def _wait(children: Sequence[int], limit: float) -> list[tuple[int, float]]:
    """The status of every child, and after how many seconds it ended."""
    start = time.monotonic()
    end = start + limit
    found: dict[int, tuple[int, float]] = {}
    while len(found) < len(children) and time.monotonic() < end:
        for child in children:
            if child not in found and (ended := os.waitpid(child, os.WNOHANG))[0]:
                found[child] = os.waitstatus_to_exitcode(ended[1]), time.monotonic() - start
                end = min(end, time.monotonic() + 5) if found[child][0] else end
        time.sleep(0.005)
    for child in children:
        if child not in found:
            os.kill(child, signal.SIGKILL)
            found[child] = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), time.monotonic() - start
    return [found[child] for child in children]
