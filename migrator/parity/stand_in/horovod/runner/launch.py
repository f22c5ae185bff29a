"""Ranks as forks of the driver's process, with the variables of torchrun and of horovodrun.

A rank's variables are in the environment already while it is forked, so that hooks of ``os.register_at_fork`` see
them; at its end it runs what it registered with ``atexit``, and not what the driver had.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import pickle
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, Pipe, wait
from typing import Any, NoReturn

try:
    import cloudpickle as pickler
except ImportError:
    pickler = pickle

POLL_SECONDS = 0.1
END_SECONDS = 5.0


class RankError(RuntimeError):
    """A rank failed; the message is its own traceback."""


@dataclass
class Rank:
    """A forked process, and the pipe on which it reports: whether it is good, and its result or error."""

    number: int
    pid: int
    pipe: Connection
    report: tuple[bool, Any] | None = None
    is_silent: bool = False
    status: int | None = None

    def listen(self) -> None:
        """Take its report, if it has come; one that becomes another program never reports."""
        if self.report is None and not self.is_silent and self.pipe.poll():
            try:
                self.report = pickle.loads(self.pipe.recv_bytes())
            except EOFError:
                self.is_silent = True

    def has_ended(self) -> bool:
        """Whether the process is gone."""
        if self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.status = os.waitstatus_to_exitcode(status) if pid else None
        return self.status is not None


def run_ranks(function: Callable[[], Any], size: int, needs_result: bool = True) -> list[Any]:
    """Call ``function`` on ``size`` ranks and return their results; the first failure ends all ranks.

    One that becomes another program has no result, and must not need one.
    """
    port = _free_port()
    ranks: list[Rank] = []
    try:
        for number in range(size):
            ranks.append(_fork(number, variables(number, size, port), function))
        return _collect(ranks, needs_result)
    finally:
        _end(ranks)


def variables(rank: int, size: int, port: int) -> dict[str, str]:
    """What torchrun and horovodrun export to a rank on a single host."""
    place = {"RANK": rank, "LOCAL_RANK": rank, "ROLE_RANK": rank, "GROUP_RANK": 0}
    sizes = {"WORLD_SIZE": size, "LOCAL_WORLD_SIZE": size, "ROLE_WORLD_SIZE": size, "GROUP_WORLD_SIZE": 1}
    horovod = {"RANK": rank, "SIZE": size, "LOCAL_RANK": rank, "LOCAL_SIZE": size, "CROSS_RANK": 0, "CROSS_SIZE": 1}
    numbers = {**place, **sizes, "MASTER_PORT": port, **{f"HOROVOD_{name}": value for name, value in horovod.items()}}
    threads = os.environ.get("OMP_NUM_THREADS", "1")
    texts = {name: str(number) for name, number in numbers.items()}
    return {**texts, "MASTER_ADDR": "127.0.0.1", "OMP_NUM_THREADS": threads}


def _fork(number: int, environment: Mapping[str, str], function: Callable[[], Any]) -> Rank:
    reading, writing = Pipe(duplex=False)
    sys.stdout.flush()
    sys.stderr.flush()
    leaving = Leaving()
    atexit.register(leaving.leave)
    with _environment(environment):
        pid = os.fork()
        if pid == 0:
            _be_rank(function, writing, leaving)
    atexit.unregister(leaving.leave)
    writing.close()
    return Rank(number, pid, reading)


class Leaving:
    """Ends a rank's process before the exit functions that were the driver's."""

    def __init__(self) -> None:
        self.status = 0

    def leave(self) -> NoReturn:
        with contextlib.suppress(BaseException):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(self.status)


def _be_rank(function: Callable[[], Any], writing: Connection, leaving: Leaving) -> NoReturn:
    try:
        if "torch" in sys.modules:
            sys.modules["torch"].set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
        writing.send_bytes(pickler.dumps((True, function())))
    except BaseException as error:
        leaving.status = 1
        text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        with contextlib.suppress(OSError):
            writing.send_bytes(pickle.dumps((False, text)))
    finally:
        atexit._run_exitfuncs()
        leaving.leave()


@contextlib.contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _collect(ranks: Sequence[Rank], needs_result: bool) -> list[Any]:
    results: dict[int, Any] = {}
    while len(results) < len(ranks):
        left = [rank for rank in ranks if rank.number not in results]
        wait([rank.pipe for rank in left if not rank.is_silent], POLL_SECONDS)
        for rank in left:
            has_ended = rank.has_ended()
            rank.listen()
            if rank.report or has_ended:
                results[rank.number] = _result(rank, needs_result)
    while not all(rank.has_ended() for rank in ranks):
        time.sleep(POLL_SECONDS / 10)
    return [results[rank.number] for rank in ranks]


def _result(rank: Rank, needs_result: bool) -> Any:
    if rank.report is None:
        if rank.status == 0 and not needs_result:
            return None
        raise RankError(f"Rank {rank.number} ended with status {rank.status} and no result.")
    is_good, value = rank.report
    if not is_good:
        raise RankError(f"Rank {rank.number} failed:\n{value}")
    return value


def _end(ranks: Sequence[Rank]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        running = [rank for rank in ranks if not rank.has_ended()]
        for rank in running:
            os.kill(rank.pid, number)
        end = time.monotonic() + END_SECONDS
        while not all(rank.has_ended() for rank in running) and time.monotonic() < end:
            time.sleep(POLL_SECONDS / 10)
    for rank in ranks:
        rank.pipe.close()


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
