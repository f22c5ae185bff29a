"""Ranks as processes: started, watched, and ended so that nothing of them is left."""

from __future__ import annotations

import codecs
import contextlib
import io
import math
import os
import secrets
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal

from migrator.parity.failures import cause, error_in, exception_in, is_communication, last_lines
from migrator.parity.processes import TOKEN, processes_of, without_core_dump

TURN = 0.02
MOMENT = 0.5  # in which ranks that end together may all end by themselves
COMMUNICATION_MOMENT = 3.0  # the same where none of them has said anything yet but that it lost another
LAST = 10.0
CHUNK = TAIL = 1 << 16
STORED = 8 << 20
LONGEST_LINE = 1 << 13
AT_END = 5

Ended = Literal["finished", "failed", "timed-out", "interrupted"]
Status = Literal["finished", "failed", "hung", "stopped"]
Show = Callable[[int, str, str], None]


@dataclass(frozen=True)
class Job:
    """A command to be run once for each environment, which are those of the ranks.

    ``output`` is the folder for what the ranks write; ``limit`` seconds is what they may take together, and ``grace``
    what each has after SIGTERM.
    """

    command: tuple[str, ...]
    environments: tuple[Mapping[str, str], ...]
    folder: Path
    output: Path | None = None
    limit: float = math.inf
    grace: float = 3.0


@dataclass(frozen=True)
class RankOutcome:
    """How one rank ended: by itself (finished, failed), at the limit (hung), or because of another (stopped).

    ``error`` is its traceback, else the end of what it wrote; of a rank that hung, where it did if Python's fault
    handler was on. ``seconds`` is when it ended, from the start of the run.
    """

    rank: int
    status: Status
    code: int
    seconds: float
    cause: str = ""
    error: str = ""


@dataclass(frozen=True)
class Outcome:
    """How a run ended, and with which rank the failure began; ``seconds`` is what it took until then."""

    ranks: tuple[RankOutcome, ...]
    ended: Ended
    first_failure: int | None
    seconds: float

    @property
    def culprits(self) -> tuple[RankOutcome, ...]:
        """The ranks whose errors tell what happened: the first to fail, or all that hung."""
        if self.first_failure is not None:
            return (self.ranks[self.first_failure],)
        return tuple(rank for rank in self.ranks if rank.status == "hung")

    @property
    def reason(self) -> str:
        """What happened, in one line; empty where every rank ended well."""
        if self.ended == "finished":
            return ""
        if self.ended == "interrupted":
            return f"interrupted after {self.seconds:.1f} s"
        if self.first_failure is None:
            who = self._named([rank.rank for rank in self.culprits])
            return f"{who} did not end within {self.seconds:.0f} s{self._early()}"
        first = self.ranks[self.first_failure]
        early = self._early() if is_communication(first.error) else ""
        what, seconds = first.cause, f"after {first.seconds:.1f} s"
        if what.startswith("killed by "):
            signal_name, colon, why = what.partition(": ")
            return f"{self._named([first.rank])} was {signal_name} {seconds}{colon}{why}"
        return f"{self._named([first.rank])} failed {seconds}: {what}{early}"

    def _early(self) -> str:
        early = [rank for rank in self.ranks if rank.status == "finished"]
        if not early:
            return ""
        who = self._named([rank.rank for rank in early])
        seconds = max(rank.seconds for rank in early)
        return f"; {who} had ended well by then, after {seconds:.1f} s: perhaps with fewer steps"

    def _named(self, ranks: list[int]) -> str:
        if len(self.ranks) == 1:
            return "the program"
        return f"rank{'s' * (len(ranks) > 1)} {', '.join(map(str, ranks))}"


def run(job: Job, show: Show | None = None) -> Outcome:
    """Run ``job`` to its end, whatever that is, and leave no process behind.

    ``show`` gets each line as it comes: the rank, ``"stdout"`` or ``"stderr"``, and the text. The first rank that fails
    ends all others. SIGINT, SIGTERM and SIGHUP end the run; a second one ends it without grace.
    """
    with _noted_signals() as signals, contextlib.closing(_Run(job, show, signals)) as ranks:
        ranks.start()
        ended = ranks.watch()
        ranks.stop(ended)
        return ranks.outcome("interrupted" if signals else ended)


@contextlib.contextmanager
def _noted_signals() -> Iterator[list[int]]:
    """The signals that came and would have ended us; those that are ignored stay so."""
    received: list[int] = []
    replaced = {}
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) not in (signal.SIG_IGN, None):
                replaced[number] = signal.signal(number, lambda number, _: received.append(number))
    try:
        yield received
    finally:
        for number, handler in replaced.items():
            signal.signal(number, handler)


class _Pipe:
    """What a rank writes on one of its streams: handed on line by line, stored, and its end remembered."""

    def __init__(self, source: IO[bytes], path: Path | None, show: Callable[[str], None]) -> None:
        os.set_blocking(source.fileno(), False)
        self.source = source
        self.show = show
        self.file = path.open("wb") if path else None
        self.total = 0
        self.tail = b""
        decode = codecs.getincrementaldecoder("utf-8")("backslashreplace")
        self.decoder = io.IncrementalNewlineDecoder(decode, translate=True)
        self.line = ""

    def read(self) -> bool:
        """Take what is there; False where nothing will come any more."""
        try:
            data = os.read(self.source.fileno(), CHUNK)
        except BlockingIOError:
            return True
        if self.file:
            self.file.write(data[: max(0, STORED - self.total)])
        self.total += len(data)
        self.tail = (self.tail + data)[-TAIL:]
        self._hand_on(self.decoder.decode(data, final=not data))
        return bool(data)

    def _hand_on(self, text: str) -> None:
        *lines, self.line = (self.line + text).split("\n")
        while len(self.line) > LONGEST_LINE:
            lines.append(self.line[:LONGEST_LINE])
            self.line = self.line[LONGEST_LINE:]
        for line in lines:
            self.show(line)

    def finish(self) -> None:
        """Hand on the last line though it has no end, and store the end of what was too much."""
        if self.line:
            self.show(self.line)
        self.line = ""
        if self.file and (beyond := self.total - STORED) > 0:
            self.file.write(b"\n[%d bytes left out]\n" % (beyond - TAIL) if beyond > TAIL else b"")
            self.file.write(self.tail[-beyond:])

    def close(self) -> None:
        """Close both ends."""
        self.source.close()
        if self.file:
            self.file.close()

    @property
    def text(self) -> str:
        """The end of what was written."""
        return self.tail.decode("utf-8", "backslashreplace")


class _Rank:
    """A rank's process and its two pipes."""

    def __init__(self, number: int, process: subprocess.Popen[bytes], out: _Pipe, err: _Pipe) -> None:
        self.number = number
        self.process = process
        self.out = out
        self.err = err
        self.seconds = 0.0
        self.was_stopped = False
        self.error_before = ""  # what a rank that had to be stopped had said by then

    @property
    def is_running(self) -> bool:
        """Whether the process was still there when it was last looked at."""
        return self.process.returncode is None

    @property
    def has_failed(self) -> bool:
        """Whether it ended badly by itself."""
        return not self.is_running and not self.was_stopped and self.process.returncode != 0

    @property
    def error(self) -> str:
        """Its traceback, or ``""``."""
        return self.error_before if self.was_stopped and self.error_before else error_in(self.err.text)

    @property
    def last_error(self) -> str:
        """The traceback that its output ends with though it still runs: no earlier one, which it may have caught."""
        exception = exception_in(self.error)
        is_last = any(exception in line for line in self.err.text.splitlines()[-AT_END:])
        return self.error if exception and is_last else ""

    def look(self, now: float) -> None:
        """See whether it has ended by now, and if so what it last wrote."""
        if self.is_running and self.process.poll() is not None:
            self.seconds = now
            self.out.read()
            self.err.read()

    def outcome(self, ended: Ended) -> RankOutcome:
        """How it ended in a run that ended so."""
        code = self.process.returncode
        if not self.was_stopped and code == 0:
            return RankOutcome(self.number, "finished", code, self.seconds)
        if not self.was_stopped:
            error = self.error
            written = last_lines(self.err.text) or last_lines(self.out.text)
            return RankOutcome(self.number, "failed", code, self.seconds, cause(code, error), error or written)
        if ended == "timed-out":
            said = dict.fromkeys([self.error_before, error_in(self.err.text)])
            error = "\n\n".join(filter(None, said)) or last_lines(self.err.text) or last_lines(self.out.text)
            return RankOutcome(self.number, "hung", code, self.seconds, "still running at the limit", error)
        return RankOutcome(self.number, "stopped", code, self.seconds, "stopped", self.error_before)


class _Run:
    """The ranks of a run while it lasts."""

    def __init__(self, job: Job, show: Show | None, signals: list[int]) -> None:
        self.job = job
        self.show = show
        self.signals = signals
        self.token = secrets.token_hex(8)
        self.began = time.monotonic()
        self.seconds = 0.0
        self.selector = selectors.DefaultSelector()
        self.ranks: list[_Rank] = []

    def start(self) -> None:
        """Start every rank in a session of its own."""
        if self.job.output:
            self.job.output.mkdir(parents=True, exist_ok=True)
        for number, environment in enumerate(self.job.environments):
            process = subprocess.Popen(
                self.job.command,
                env={**environment, TOKEN: self.token},
                cwd=self.job.folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                start_new_session=True,
            )
            assert process.stdout
            assert process.stderr
            out, err = self._pipe(number, "stdout", process.stdout), self._pipe(number, "stderr", process.stderr)
            self.ranks.append(_Rank(number, process, out, err))

    def _pipe(self, number: int, name: str, source: IO[bytes]) -> _Pipe:
        path = self.job.output / f"rank{number}.{name}" if self.job.output else None
        pipe = _Pipe(source, path, lambda line: self.show(number, name, line) if self.show else None)
        self.selector.register(source, selectors.EVENT_READ, pipe)
        return pipe

    @property
    def clock(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.began

    @property
    def running(self) -> list[_Rank]:
        """The ranks that have not ended."""
        return [rank for rank in self.ranks if rank.is_running]

    @property
    def failed(self) -> list[_Rank]:
        """The ranks that ended badly by themselves."""
        return [rank for rank in self.ranks if rank.has_failed]

    def turn(self) -> None:
        """Take what ranks have written, waiting a little for it, and see which have ended."""
        for key, _ in self.selector.select(TURN):
            if not key.data.read():
                self.selector.unregister(key.fileobj)
        for rank in self.ranks:
            rank.look(self.clock)

    def watch(self) -> Ended:
        """Wait until all ranks have ended, or there is a reason to end them."""
        due = math.inf
        while self.running and not self.signals:
            self.turn()
            due = min(due, self.clock + self._moment()) if self.failed else due
            if self.clock > due:
                break
            if self.clock > self.job.limit:
                return "failed" if self.failed else "timed-out"
        if self.signals:
            return "interrupted"
        return "failed" if self.failed else "finished"

    def _moment(self) -> float:
        errors = [rank.error for rank in self.failed] + [error for rank in self.running if (error := rank.last_error)]
        return COMMUNICATION_MOMENT if all(map(is_communication, errors)) else MOMENT

    def stop(self, ended: Ended) -> None:
        """End every process of the run, and take what it wrote until then."""
        self.seconds = self.clock
        for rank in self.running:
            rank.error_before = rank.last_error
            rank.was_stopped = True
        if ended == "timed-out":
            self._ask_where()
        self._end(signal.SIGTERM, self.job.grace)
        self._end(signal.SIGKILL, LAST)
        deadline = self.clock + 1.0
        while self.selector.get_map() and self.clock < deadline:
            self.turn()
        for rank in self.ranks:
            rank.out.finish()
            rank.err.finish()

    def _ask_where(self) -> None:
        """Let Python's fault handler, where it is on, print what each rank is doing, which ends it."""
        for rank in self.running:
            if self.job.environments[rank.number].get("PYTHONFAULTHANDLER"):
                without_core_dump(rank.process.pid)
                rank.process.send_signal(signal.SIGABRT)
        deadline = self.clock + min(1.0, self.job.grace)
        while self.running and self.clock < deadline:
            self.turn()

    def _end(self, number: int, patience: float) -> None:
        """Signal all processes of the run, also those that come meanwhile, until none is left or patience is out."""
        deadline = self.clock + patience
        told: set[int] = set()
        sessions = {rank.process.pid for rank in self.ranks}
        for session in sessions:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(session, number)
        while (left := processes_of(self.token, sessions)) or self.running:
            for pid in left if number == signal.SIGKILL else left - told:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, number)
            told |= left
            if self.clock > deadline or (number != signal.SIGKILL and len(self.signals) > 1):
                return
            self.turn()

    def close(self) -> None:
        """Kill what is left, where an error came between, and close everything."""
        self.show = None
        if self.selector.get_map() or self.running:
            self._end(signal.SIGKILL, LAST)
        self.selector.close()
        for rank in self.ranks:
            rank.out.close()
            rank.err.close()

    def outcome(self, ended: Ended) -> Outcome:
        """What came of it."""
        first = self._first_failure().number if ended == "failed" else None
        return Outcome(tuple(rank.outcome(ended) for rank in self.ranks), ended, first, self.seconds)

    def _first_failure(self) -> _Rank:
        """The rank that failed first, but before those that only lost another one, that which was lost."""
        candidates = self.failed + [rank for rank in self.ranks if rank.was_stopped and rank.error_before]
        return min(candidates, key=lambda rank: (is_communication(rank.error), rank.was_stopped, rank.seconds))
