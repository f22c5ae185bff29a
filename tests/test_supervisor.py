"""Ranks that die, hang, flood or multiply: each run ends in time, says why, and leaves no process."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from survivors import MARK, marked

from migrator.parity import supervisor
from migrator.parity.failures import cause, error_in, exception_in, is_communication
from migrator.parity.processes import TOKEN
from migrator.parity.supervisor import Job, Outcome, run

pytestmark = pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="looks for processes in /proc")


class Start:
    """Runs a program on some ranks and then looks whether a process of it is left."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.mark = f"{MARK}={folder}"
        self.lines: list[tuple[int, str, str]] = []

    def job(self, source: str, size: int = 2, limit: float = 20.0, **environment: str) -> Job:
        program = self.folder / "program.py"
        program.write_text("import os, signal, sys, time\nrank = int(os.environ['RANK'])\n" + textwrap.dedent(source))
        shared = {**os.environ, MARK: str(self.folder), **environment}
        environments = tuple({**shared, "RANK": str(rank)} for rank in range(size))
        command = (sys.executable, "-S", "-E", str(program))
        return Job(command, environments, self.folder, self.folder / "output", limit, grace=0.5)

    def __call__(self, source: str, size: int = 2, limit: float = 20.0, **environment: str) -> Outcome:
        job = self.job(source, size, limit, **environment)
        outcome = run(job, lambda *line: self.lines.append(line))
        assert not marked(self.mark)
        return outcome


@pytest.fixture
def start(tmp_path: Path) -> Start:
    return Start(tmp_path)


def wait_for(condition: Callable[[], bool], limit: float = 10.0) -> None:
    end = time.monotonic() + limit
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_output_comes_by_rank_and_line(start: Start) -> None:
    outcome = start("print('one'); print('two', end=''); print('three', file=sys.stderr)")
    assert outcome.ended == "finished"
    assert outcome.reason == ""
    assert outcome.culprits == ()
    assert [(rank.status, rank.code) for rank in outcome.ranks] == [("finished", 0)] * 2
    for rank in (0, 1):
        said = [(stream, text) for number, stream, text in start.lines if number == rank]
        assert sorted(said) == [("stderr", "three"), ("stdout", "one"), ("stdout", "two")]
    assert (start.folder / "output" / "rank1.stdout").read_text() == "one\ntwo"
    assert (start.folder / "output" / "rank1.stderr").read_text() == "three\n"


def test_each_rank_has_a_session_of_its_own_and_no_stdin(start: Start) -> None:
    start("print(os.getpid() == os.getsid(0) == os.getpgrp(), repr(sys.stdin.read()))")
    assert [text for _, _, text in start.lines] == ["True ''"] * 2


def test_the_first_failure_ends_the_others(start: Start) -> None:
    outcome = start(
        """
        def train():
            raise ValueError("a bad batch")
        if rank == 1:
            train()
        time.sleep(60)
        """
    )
    assert outcome.ended == "failed"
    assert outcome.seconds < 10
    assert outcome.first_failure == 1
    assert [rank.status for rank in outcome.ranks] == ["stopped", "failed"]
    (culprit,) = outcome.culprits
    assert culprit.cause == "ValueError: a bad batch"
    assert culprit.error.startswith("Traceback (most recent call last):")
    assert ", in train" in culprit.error
    assert re.fullmatch(r"rank 1 failed after \d+\.\d s: ValueError: a bad batch", outcome.reason)


def test_a_chain_of_exceptions_is_shown_whole(start: Start) -> None:
    outcome = start(
        """
        try:
            {}["key"]
        except KeyError as error:
            raise RuntimeError("no such layer") from error
        """,
        size=1,
    )
    (culprit,) = outcome.culprits
    assert culprit.error.count("Traceback") == 2
    assert "KeyError: 'key'" in culprit.error
    assert culprit.cause == "RuntimeError: no such layer"
    assert re.fullmatch(r"the program failed after \d+\.\d s: RuntimeError: no such layer", outcome.reason)


@pytest.mark.parametrize("late", ["0", "1"])
def test_a_rank_that_lost_another_is_not_the_first_to_fail(start: Start, late: str) -> None:
    outcome = start(
        f"""
        if rank == 0:
            time.sleep(0.2 * (1 - {late}))
            raise RuntimeError("[1] gloo/transport/tcp/pair.cc: Connection closed by peer")
        time.sleep(1.0 * {late})
        raise ValueError("a bad batch")
        """
    )
    assert outcome.first_failure == 1
    assert [rank.status for rank in outcome.ranks] == ["failed", "failed"]


def test_an_exception_that_was_caught_does_not_make_a_rank_the_first_to_fail(start: Start) -> None:
    outcome = start(
        """
        import traceback
        if rank == 0:
            time.sleep(0.3)
            raise ConnectionResetError("Connection reset by peer")
        try:
            import no_such_module
        except ImportError:
            traceback.print_exc()
        print(*"training", sep="\\n", file=sys.stderr)
        time.sleep(60)
        """
    )
    assert outcome.first_failure == 0
    assert outcome.ranks[1].error == ""


def test_a_rank_that_cannot_end_after_its_exception_is_the_first_to_fail(start: Start) -> None:
    outcome = start(
        """
        import threading
        if rank == 0:
            time.sleep(0.3)
            raise ConnectionResetError("Connection reset by peer")
        threading.Thread(target=time.sleep, args=[60]).start()
        raise ValueError("a bad batch")
        """
    )
    assert outcome.first_failure == 1
    assert outcome.culprits[0].status == "stopped"
    assert "ValueError: a bad batch" in outcome.culprits[0].error


@pytest.mark.parametrize(
    ("source", "code", "reason"),
    [
        ("print('no data', file=sys.stderr); sys.exit(3)", 3, "failed after # s: exit code 3"),
        ("os.kill(os.getpid(), signal.SIGKILL)", -9, "was killed by SIGKILL after # s: perhaps memory ran out"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", -11, "was killed by SIGSEGV after # s"),
        ("os.close(1); os.close(2); os._exit(1)", 1, "failed after # s: exit code 1"),
    ],
)
def test_other_ends(start: Start, source: str, code: int, reason: str) -> None:
    outcome = start(f"if rank == 1:\n    {source}\ntime.sleep(60)")
    assert outcome.ended == "failed"
    assert outcome.first_failure == 1
    assert outcome.ranks[1].code == code
    assert re.sub(r"\d+\.\d", "#", outcome.reason) == f"rank 1 {reason}"
    if code == 3:
        assert outcome.ranks[1].error == "no data"


@pytest.mark.parametrize(
    "ignored", ["", "signal.signal(signal.SIGTERM, signal.SIG_IGN); signal.signal(6, signal.SIG_IGN)"]
)
def test_a_rank_that_hangs(start: Start, ignored: str) -> None:
    outcome = start(f"{ignored}\nif rank == 1:\n    time.sleep(60)", limit=1.0)
    assert outcome.ended == "timed-out"
    assert outcome.seconds < 6
    assert outcome.first_failure is None
    assert [rank.status for rank in outcome.ranks] == ["finished", "hung"]
    assert [rank.rank for rank in outcome.culprits] == [1]
    assert outcome.reason.startswith("rank 1 did not end within 1 s; ")
    assert "rank 0 had ended well by then" in outcome.reason


def test_where_a_rank_hangs_is_shown(start: Start) -> None:
    source = "def train():\n    time.sleep(60)\nimport faulthandler; faulthandler.enable(); train()"
    outcome = start(source, size=1, limit=1.0, PYTHONFAULTHANDLER="1")
    assert outcome.culprits[0].error.startswith("Fatal Python error: Aborted")
    assert " in train" in outcome.culprits[0].error
    assert not list(start.folder.glob("core*"))


LONG_LIVED = """
def stay():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True:
        time.sleep(1)
"""


@pytest.mark.parametrize("ending", ["", "sys.exit(1)", "time.sleep(60)"])
@pytest.mark.parametrize("closes", ["", "[os.close(number) for number in range(3)]"])
def test_what_a_rank_leaves_behind_is_ended(start: Start, ending: str, closes: str) -> None:
    outcome = start(
        f"""
        {textwrap.indent(LONG_LIVED, " " * 8).strip()}
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                {closes}
                stay()
            os._exit(0)
        if os.fork() == 0:
            os.execve(sys.executable, [sys.executable, "-c", "import time; time.sleep(60)"], {{}})
        time.sleep(0.3)
        {ending}
        """,
        limit=1.5,
    )
    assert outcome.ended == {"": "finished", "sys.exit(1)": "failed"}.get(ending, "timed-out")
    assert outcome.seconds < 8


def test_a_flood_without_line_ends(start: Start) -> None:
    outcome = start(
        """
        if rank == 0:
            for _ in range(100):
                os.write(2, b"x" * (1 << 20))
            os.write(2, b"\\nlast words")
            sys.exit(1)
        time.sleep(60)
        """
    )
    assert outcome.first_failure == 0
    assert outcome.ranks[0].error.endswith("last words")
    assert sum(len(text) for _, _, text in start.lines) == 100 * (1 << 20) + len("last words")
    assert max(len(text) for _, _, text in start.lines) <= supervisor.LONGEST_LINE
    stored = start.folder / "output" / "rank0.stderr"
    assert stored.stat().st_size < supervisor.STORED + supervisor.TAIL + 100
    assert stored.read_bytes().endswith(b"last words")
    assert b"bytes left out]" in stored.read_bytes()


def test_bytes_that_are_no_text(start: Start) -> None:
    written = bytes(range(256)) + b"\r\n\x1b[31mred\x1b[0m\r 50%\r100%\n" + "\u00e9".encode()[:1]
    outcome = start(f"os.write(1, {written!r})", size=1)
    assert outcome.ended == "finished"
    assert (start.folder / "output" / "rank0.stdout").read_bytes() == written
    assert [text for _, _, text in start.lines][-4:] == ["\x1b[31mred\x1b[0m", " 50%", "100%", "\\xc3"]


def test_a_command_that_cannot_be_started(start: Start) -> None:
    with pytest.raises(FileNotFoundError):
        run(Job(("/no/such/python",), ({}, {}), start.folder))


def test_a_reader_that_goes_away(start: Start) -> None:
    def show(*_: object) -> None:
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        run(start.job("print('a line', flush=True); time.sleep(60)"), show)
    assert not marked(start.mark)


def test_a_run_in_a_thread_leaves_signals_alone(start: Start) -> None:
    outcomes: list[Outcome] = []
    before = signal.getsignal(signal.SIGINT)
    thread = threading.Thread(target=lambda: outcomes.append(start("pass")))
    thread.start()
    assert signal.getsignal(signal.SIGINT) is before
    thread.join()
    assert outcomes[0].ended == "finished"


SUPERVISOR = """
import os, sys
from pathlib import Path
from migrator.parity.supervisor import Job, run
command, folder = sys.argv[1:2], Path(sys.argv[2])
source = "import os, time; open(os.environ['RANK'], 'w').close(); time.sleep(60)"
environments = tuple({**os.environ, "RANK": rank} for rank in "01")
outcome = run(Job((sys.executable, "-c", source), environments, folder, grace=0.5))
print(outcome.ended, outcome.reason)
"""


@pytest.fixture
def supervised(start: Start) -> Iterator[subprocess.Popen[str]]:
    """A supervisor in a process group of its own, whose ranks have started."""
    environment = {**os.environ, MARK: str(start.folder)}
    command = [sys.executable, "-c", SUPERVISOR, "", str(start.folder)]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True, process_group=0) as process:
        wait_for(lambda: (start.folder / "0").exists() and (start.folder / "1").exists())
        yield process
        process.kill()


@pytest.mark.parametrize("to", ["process", "group"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_end_the_run(start: Start, supervised: subprocess.Popen[str], number: signal.Signals, to: str) -> None:
    (os.kill if to == "process" else os.killpg)(supervised.pid, number)
    out, _ = supervised.communicate(timeout=10)
    assert supervised.returncode == 0
    assert out.startswith("interrupted interrupted after ")
    assert not marked(start.mark)


def test_signals_that_are_ignored_stay_so(start: Start) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        outcome = start("os.kill(os.getppid(), signal.SIGHUP)", size=1)
    finally:
        signal.signal(signal.SIGHUP, before)
    assert outcome.ended == "finished"


def test_runs_do_not_end_each_other(start: Start) -> None:
    job = start.job(f"print(os.environ[{TOKEN!r}]); time.sleep(1)")
    outcomes: list[Outcome] = []
    tokens: set[str] = set()
    threads = [
        threading.Thread(target=lambda: outcomes.append(run(job, lambda *line: tokens.add(line[2])))) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
        time.sleep(0.3)
    for thread in threads:
        thread.join()
    assert [outcome.ended for outcome in outcomes] == ["finished"] * 2
    assert len(tokens) == 2


TORCHRUN = """\
[rank0]: Traceback (most recent call last):
[rank1]: Traceback (most recent call last):
[rank0]:   File "t.py", line 3, in <module>
[rank1]:   File "t.py", line 9, in <module>
[rank0]: torch.distributed.DistBackendError: Connection reset by peer
[rank1]: ValueError: a bad batch
Traceback (most recent call last):
  File "run.py", line 1, in <module>
ChildFailedError
"""


def test_of_several_ranks_in_one_output_the_first_cause_is_taken() -> None:
    error = error_in(TORCHRUN)
    assert error.splitlines() == [
        "Traceback (most recent call last):",
        '  File "t.py", line 9, in <module>',
        "ValueError: a bad batch",
    ]
    assert exception_in(error) == "ValueError: a bad batch"


def test_behind_the_report_of_a_launcher_is_what_it_reports() -> None:
    plain = re.sub(r"\[rank(0.*\n|1\]: )", "", TORCHRUN)
    own = plain[: plain.index("Traceback", 1)]
    error = error_in(
        plain.replace(own, f"{own}W1130 17:42:27.1 1 api.py:1] Sending process 1 closing signal SIGTERM\n")
    )
    assert error == own.rstrip()
    assert exception_in(error_in(plain[len(own) :])) == "ChildFailedError"


def test_a_caught_exception_is_not_the_error() -> None:
    caught = "Traceback (most recent call last):\n  File x\nKeyError: 1\nlogged and forgotten\n"
    assert error_in(caught + "Traceback (most recent call last):\n  File y\nE: 2\n").endswith("File y\nE: 2")
    assert error_in("all is well\n") == ""


def test_communication_is_told_by_the_exception_not_the_frames() -> None:
    frames = 'Traceback (most recent call last):\n  File "gloo/transport/x.py", line 1, in f\n'
    assert not is_communication(f"{frames}ValueError: x")
    assert is_communication(f"{frames}RuntimeError: x\n[gloo/transport/tcp/pair.cc:547] Connection closed by peer")
    assert not is_communication("")


def test_an_abort_is_explained_by_what_was_thrown() -> None:
    error = error_in(
        "terminate called after throwing an instance of 'gloo::EnforceNotMet'\n"
        "  what():  [enforce fail at pair.cc:456] op.preamble.length <= op.nbytes. 20 vs 4\n"
        "Fatal Python error: Aborted\n\nExtension modules: a, b\n"
    )
    thrown = "[enforce fail at pair.cc:456] op.preamble.length <= op.nbytes. 20 vs 4"
    assert cause(-6, error) == f"killed by SIGABRT: {thrown}"
    assert "Extension" not in error
    assert cause(-64, "") == "killed by SIGRTMAX"
    assert cause(-100, "") == "killed by signal 100"


def test_tracebacks_of_ranks_that_joined_several_groups() -> None:
    lines = ["Traceback (most recent call last):", '  File "a.py", line 1, in <module>', "ValueError: a bad batch"]
    for times in (1, 3):
        text = "".join(f"{'[rank0]: ' * times}{line}\n" for line in lines)
        assert error_in(text) == "\n".join(lines)
