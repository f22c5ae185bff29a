"""Run Python source on several Gloo ranks, forked from a process that has imported torch already."""

from __future__ import annotations

import atexit
import contextlib
import os
import re
import signal
import socket
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.distributed

torch.optim.SGD([torch.zeros(1)])  # loads what optimizers load late, here once and not in every rank
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


def run_on_ranks(source: str, folder: Path, size: int = 2, limit: float = 60.0) -> list[Rank]:
    """Run ``source`` as the main program on ``size`` ranks, each in an empty folder that all of them share.

    Ranks that are still running after ``limit`` seconds are killed; the status is then -9.
    """
    work = folder / "work"
    work.mkdir(parents=True)
    port = _free_port()

    def program() -> None:
        warnings.simplefilter("default")
        exec(compile(source, "program.py", "exec"), {"__name__": "__main__"})

    environments = [{**os.environ, **_variables(rank, size, port)} for rank in range(size)]
    return run_forked(program, environments, work, folder, limit)


def run_forked(
    program: Callable[[], None], environments: Sequence[Mapping[str, str]], work: Path, output: Path, limit: float
) -> list[Rank]:
    """Call ``program`` in a process for each environment, in the folder ``work``; what they print goes to ``output``.

    Once one has failed, the others get five seconds more; then, or after ``limit`` seconds, all are killed.
    """
    children = [_start(program, environment, work, output, rank) for rank, environment in enumerate(environments)]
    ends = _wait(children, limit)
    return [Rank(*end, *_written(output, rank)) for rank, end in enumerate(ends)]


def traces(source: str, folder: Path, size: int = 2, limit: float = 60.0) -> list[dict[str, str]]:
    """The TRACE lines of every rank; fails with the errors of all ranks that fail: one may bring others down."""
    ranks = run_on_ranks(source, folder, size, limit)
    failed = [(number, rank) for number, rank in enumerate(ranks) if rank.status]
    assert not failed, "\n".join(
        f"rank {number} ended with {rank.status}: {rank.err[-2000:]}" for number, rank in failed
    )
    return [rank.trace for rank in ranks]


def _start(program: Callable[[], None], environment: Mapping[str, str], work: Path, output: Path, rank: int) -> int:
    sys.stdout.flush()
    sys.stderr.flush()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # torch's threads do not outlive the fork
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
    torch.set_num_threads(1)


def _variables(rank: int, size: int, port: int) -> dict[str, str]:
    return {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(size),
        "LOCAL_WORLD_SIZE": str(size),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }


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


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
