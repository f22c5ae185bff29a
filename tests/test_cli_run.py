"""The verb ``run``: what it prints where, and its exit codes, for programs that are really started."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from click.testing import Result as Outcome

from migrator import cli
from migrator.cli.launching import COLORS, Asks
from migrator.parity import launch

SHOW_RANK = "import os, sys\nprint('rank', os.environ['RANK'], 'of', os.environ['WORLD_SIZE'], sys.argv[1:])\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: str, source: str = SHOW_RANK) -> Outcome:
    Path("train.py").write_text(source)
    return CliRunner().invoke(cli.main, ["run", *arguments], prog_name="hvd-migrate")


def test_lines_start_with_their_rank() -> None:
    outcome = run("-np", "3", "train.py")
    assert outcome.exit_code == 0
    assert sorted(outcome.stdout.splitlines()) == [f"[{rank}] rank {rank} of 3 []" for rank in range(3)]
    assert outcome.stderr == ""


def test_options_after_the_program_are_its_own() -> None:
    outcome = run("train.py", "-np", "5", "--limit", "-q", "--", "--help")
    assert sorted(outcome.stdout.splitlines())[1] == "[1] rank 1 of 2 ['-np', '5', '--limit', '-q', '--', '--help']"


def test_a_module() -> None:
    Path("package").mkdir()
    Path("package", "train.py").write_text(SHOW_RANK)
    outcome = run("-m", "-np", "1", "package.train", "-m")
    assert outcome.stdout == "rank 0 of 1 ['-m']\n"


def test_quiet() -> None:
    outcome = run("-q", "train.py")
    assert (outcome.exit_code, outcome.output) == (0, "")


def test_streams_stay_apart() -> None:
    outcome = run("-np", "1", "train.py", source="import sys; print('out'); print('err', file=sys.stderr)")
    assert (outcome.stdout, outcome.stderr) == ("out\n", "err\n")


FAILING = """
import os, sys, time
if os.environ["RANK"] == "1":
    raise ValueError("a bad batch")
time.sleep(60)
"""


@pytest.mark.parametrize("quiet", [["-q"], []])
def test_a_rank_that_fails(quiet: list[str]) -> None:
    outcome = run(*quiet, "train.py", source=FAILING)
    assert outcome.exit_code == 1
    assert ("[1] ValueError: a bad batch\n" in outcome.stderr) is not bool(quiet)
    said = outcome.stderr[outcome.stderr.index("hvd-migrate: ") :].splitlines()
    assert re.fullmatch(r"hvd-migrate: rank 1 failed after \d+\.\d s: ValueError: a bad batch", said[0])
    assert said[1] == "Traceback (most recent call last):"
    assert said[-1] == "ValueError: a bad batch"


def test_the_error_of_a_single_rank_is_shown_once() -> None:
    source = "raise ValueError('a bad batch')"
    assert run("-np", "1", "train.py", source=source).stderr.count("Traceback") == 1
    assert run("-q", "-np", "1", "train.py", source=source).stderr.count("Traceback") == 1


def test_ranks_that_hang() -> None:
    outcome = run("--limit", "1", "train.py", source="import time\ndef train():\n    time.sleep(60)\ntrain()")
    assert outcome.exit_code == 1
    said = outcome.stderr[outcome.stderr.index("hvd-migrate: ") :]
    assert said.startswith("hvd-migrate: ranks 0, 1 did not end within 1 s\nrank 0:\nFatal Python error: Aborted\n")
    assert said.count(" in train\n") == 2


def test_a_driver_is_found_out() -> None:
    source = "import os, sys\nif 0:\n    import sparkdl\n    sparkdl.HorovodRunner(np=2)\nprint('RANK' in os.environ)"
    assert run("train.py", source=source).stdout == "False\n"
    assert run("--no-driver", "train.py", source=source).stdout.count("True\n") == 2
    assert run("--driver", "train.py", source="print('once')").stdout == "once\n"


@pytest.mark.parametrize("option", [["--stand-in"], ["--horovod", "stand-in"], ["--horovod", "auto"]])
def test_the_stand_in(option: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    Path("stand_in/horovod").mkdir(parents=True)
    Path("stand_in/horovod/__init__.py").write_text("name = 'the stand-in'")
    monkeypatch.setattr(launch, "STAND_IN", Path("stand_in").absolute())
    outcome = run(*option, "train.py", source="import horovod; print(horovod.name)")
    assert sorted(outcome.stdout.splitlines()) == ["[0] the stand-in", "[1] the stand-in"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["missing.py"], "hvd-migrate: error: missing.py: no such file"),
        (["--python", "no-such-python", "train.py"], "hvd-migrate: error: no-such-python: no such interpreter"),
        (["--horovod", "real", "train.py"], "has no Horovod of which horovod.torch can be imported"),
        ([], "Missing argument 'PROGRAM'"),
        (["-np", "0", "train.py"], "Invalid value for '-np'"),
        (["--limit", "0", "train.py"], "Invalid value for '--limit'"),
    ],
)
def test_bad_usage(arguments: list[str], expected: str) -> None:
    outcome = run(*arguments)
    assert outcome.exit_code == 2
    assert expected in outcome.stderr


def test_without_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "visible_gpus", lambda environment: 0)
    outcome = run("--device", "cuda", "train.py")
    assert (outcome.exit_code, outcome.stderr) == (2, "hvd-migrate: error: no GPU was found\n")


def test_another_interpreter_by_name(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = folder / "old-python"
    other.write_text(f'#!/bin/sh\nOLD=yes exec {sys.executable} "$@"\n')
    other.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    outcome = run("-np", "1", "--python", "old-python", "train.py", source="import os; print(os.environ['OLD'])")
    assert outcome.stdout == "yes\n"


def test_colors_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    Path("train.py").write_text(SHOW_RANK)
    ours, theirs = os.openpty()
    command = [sys.executable, "-m", "migrator.cli", "run", "train.py"]
    subprocess.run(command, stdout=theirs, check=True)
    lines = sorted(os.read(ours, 1000).decode().splitlines())
    os.close(ours)
    os.close(theirs)
    assert lines == sorted(f"{click.style(f'[{rank}]', fg=COLORS[rank])} rank {rank} of 2 []" for rank in range(2))


WAITING = """
import os, pathlib, time
pathlib.Path(os.environ["RANK"]).write_text(str(os.getpid()))
time.sleep(60)
"""


def wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.parametrize("kill", [os.kill, os.killpg])
def test_ctrl_c(kill: Callable[[int, int], None]) -> None:
    Path("train.py").write_text(WAITING)
    command = [sys.executable, "-m", "migrator.cli", "run", "train.py"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, process_group=0) as process:
        wait_for(lambda: all(Path(rank).exists() and Path(rank).read_text() for rank in "01"))
        kill(process.pid, signal.SIGINT)
        _, stderr = process.communicate(timeout=10)
    assert process.returncode == 130
    assert stderr.startswith("hvd-migrate: interrupted after ")
    for rank in "01":
        with pytest.raises(ProcessLookupError):
            os.kill(int(Path(rank).read_text()), 0)


def test_a_reader_that_goes_away_ends_the_run() -> None:
    Path("train.py").write_text(WAITING.replace("time.sleep(60)", "[print(1) or time.sleep(.01) for _ in range(6000)]"))
    command = [sys.executable, "-m", "migrator.cli", "run", "train.py"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout
        wait_for(lambda: all(Path(rank).exists() and Path(rank).read_text() for rank in "01"))
        process.stdout.close()
        assert process.wait(timeout=10) == 1
    for rank in "01":
        with pytest.raises(ProcessLookupError):
            os.kill(int(Path(rank).read_text()), 0)


def test_nothing_of_it_is_imported_before_it_is_asked_for() -> None:
    needed = ("migrator.parity", "migrator.parity.launch", "selectors", "shutil", "subprocess")
    program = f"import sys, migrator.cli; print([name for name in {needed} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_programs_of_horovod_runner_get_the_stand_in_where_the_choice_is_free() -> None:
    asks = Asks(2, sys.executable, "auto", False, "cpu", None, None, False, on_spark=False)
    assert asks.launch("train.py", (), b"from sparkdl import HorovodRunner").horovod == "stand-in"
    assert replace(asks, horovod="none").launch("train.py", (), b"from sparkdl import HorovodRunner").horovod == "none"
    assert replace(asks, on_spark=True).launch("train.py", (), b"").on_spark
