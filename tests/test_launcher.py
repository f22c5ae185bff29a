"""The launcher that is placed in projects, and the verb that places it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner
from survivors import alive

from migrator import launchers
from migrator.cli import main

LAUNCHER = Path(launchers.__file__).with_name("launch_workers.py")
SHOW = """
import json, os, sys
names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE")
print(json.dumps({**{name: os.environ[name] for name in names}, "config": json.loads(os.environ["TF_CONFIG"])}))
"""


def launch(folder: Path, program: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Run ``program`` by the launcher."""
    (folder / "program.py").write_text(program)
    command = [sys.executable, LAUNCHER, *options, "program.py", "--epochs", "3"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60)


def told(done: subprocess.CompletedProcess[str]) -> dict[str, dict[str, object]]:
    """What each worker was told, by the rank before its line."""
    lines = [line.split("] ", 1) for line in done.stdout.splitlines()]
    return {rank.removeprefix("["): json.loads(text) for rank, text in lines}


def test_workers_of_one_machine(tmp_path: Path) -> None:
    done = launch(tmp_path, SHOW, "-np", "2")
    assert done.returncode == 0
    workers = told(done)
    assert sorted(workers) == ["0", "1"]
    for rank, worker in workers.items():
        config = worker.pop("config")
        assert isinstance(config, dict)
        assert config["task"] == {"type": "worker", "index": int(rank)}
        addresses = config["cluster"]["worker"]
        assert len(set(addresses)) == 2
        assert all(address.startswith("localhost:") for address in addresses)
        others = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "GROUP_RANK": "0", "GROUP_WORLD_SIZE": "1"}
        assert worker == {"RANK": rank, "LOCAL_RANK": rank, **others}


def test_workers_of_one_of_several_hosts(tmp_path: Path) -> None:
    workers = told(launch(tmp_path, SHOW, "--hosts", "one:1,two:2", "--host-index", "1", "--port", "9000"))
    assert sorted(workers) == ["1", "2"]
    config = workers["2"]["config"]
    assert isinstance(config, dict)
    assert config["cluster"]["worker"] == ["one:9000", "two:9000", "two:9001"]
    assert (workers["2"]["LOCAL_RANK"], workers["2"]["GROUP_RANK"]) == ("1", "1")


def test_a_worker_that_fails_ends_the_others(tmp_path: Path) -> None:
    program = """
import os, sys, time
open(f"pid{os.environ['RANK']}", "w").write(str(os.getpid()))
while not os.path.exists("pid1"):
    time.sleep(0.01)
if os.environ["RANK"] == "1":
    sys.exit("failed")
time.sleep(60)
"""
    begin = time.monotonic()
    done = launch(tmp_path, program, "-np", "2")
    assert done.returncode == 1
    assert "[1] failed" in done.stdout
    assert time.monotonic() - begin < 30
    assert not any(alive(int((tmp_path / f"pid{rank}").read_text())) for rank in "01")


def test_a_launcher_that_is_ended_ends_its_workers(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("import os, time\nopen('pid', 'w').write(str(os.getpid()))\ntime.sleep(60)\n")
    process = subprocess.Popen([sys.executable, LAUNCHER, "program.py"], cwd=tmp_path)
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=20) == 128 + signal.SIGTERM
    assert not alive(int((tmp_path / "pid").read_text()))


def test_commands_that_are_no_python_files(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, LAUNCHER, "-np", "1", "sh", "-c", "echo $RANK of $WORLD_SIZE"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.stdout == "[0] 0 of 1\n"


def test_it_is_placed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    runner = CliRunner()
    done = runner.invoke(main, ["launcher"])
    assert done.exit_code == 0
    assert "launch_workers.py -np N" in done.output
    place = tmp_path / "launch_workers.py"
    assert place.read_bytes() == LAUNCHER.read_bytes()
    assert runner.invoke(main, ["launcher", str(tmp_path)]).exit_code == 0
    place.write_text("print('mine')\n")
    done = runner.invoke(main, ["launcher"])
    assert done.exit_code == 2
    assert "is there already" in done.output
    assert place.read_text() == "print('mine')\n"
    os.remove(place)
    assert runner.invoke(main, ["launcher", str(tmp_path / "none")]).exit_code == 2
