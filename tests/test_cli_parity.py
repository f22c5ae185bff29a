"""The verbs ``parity``, ``record`` and ``compare`` with programs that are really run."""

from __future__ import annotations

import fcntl
import json
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from survivors import MARK, marked

from migrator import cli

PROGRAMS = Path(__file__).parent / "parity_programs"
SEVERAL = re.compile(r"hvd-migrate: running: (.*)")

ORIGINAL = """\
import os
import horovod.torch as hvd
import torch

hvd.init()
torch.manual_seed(0)
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters())
for step in range(4):
    optimizer.zero_grad()
    loss = model(torch.full((3, 4), 1.0 + hvd.rank())).square().mean()
    loss.backward()
    optimizer.step()
if hvd.rank() == 0:
    print(f"loss {loss.item():.4f}")
"""
MIGRATED = """\
import os
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
torch.manual_seed(0)
model = DDP(torch.nn.Linear(4, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    optimizer.zero_grad()
    loss = model(torch.full((3, 4), 1.0 + dist.get_rank())).square().mean()
    loss.backward()
    optimizer.step()
if dist.get_rank() == 0:
    print(f"loss {loss.item():.4f}")
dist.destroy_process_group()
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(MARK, str(tmp_path))
    Path("train.py").write_text(ORIGINAL)
    return tmp_path


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(cli.main, arguments, prog_name="hvd-migrate")


def against(migrated: str, *options: str) -> Result:
    """The verdict on a program in the place of the migrated one."""
    Path("migrated.py").write_text(migrated)
    return invoke("parity", "train.py", "migrated.py", "-q", *options)


def saved(name: str = ".hvd-migrate/parity") -> dict[str, object]:
    found = json.loads(Path(name, "report.json").read_text())
    assert isinstance(found, dict)
    return found


def test_a_program_and_its_migration_are_equal() -> None:
    before = Path("train.py").read_bytes()
    outcome = invoke("parity", "train.py", "--", "--epochs", "1")
    assert outcome.exit_code == 0, outcome.output
    first = "train.py --epochs 1: Equal: losses, gradients and parameters have the same bits in 4 steps on 2 ranks.\n"
    assert outcome.stdout.startswith(first)
    assert "  train.py:10  HVD201  review  ran  " in outcome.stdout
    assert re.search(r"changed lines\n  train.py  \d+ of \d+ ran\n", outcome.stdout)
    assert SEVERAL.findall(outcome.stderr) == ["original, 2 ranks, the stand-in for Horovod", "migrated, 2 ranks"]
    assert Path("train.py").read_bytes() == before
    assert saved()["verdict"] == "equal"
    results = Path(".hvd-migrate/parity")
    assert {path.suffix for path in results.glob("report.*")} == {".html", ".json", ".md", ".txt"}
    assert (results / "original/output/rank0.stdout").read_text() == "loss 0.0005\n"
    assert (results / "migrated/trace/rank1.jsonl").is_file()
    assert (results / ".gitignore").read_text() == "*\n"


def test_programs_that_differ_and_the_edit_to_blame() -> None:
    shutil.copy(PROGRAMS / "accumulation.py", "train.py")
    assert invoke("--write", "train.py").exit_code == 0
    migrated = Path("train.py").read_text()
    shutil.copy(PROGRAMS / "accumulation.py", "train.py")
    outcome = against(migrated.replace("        flat /= dist.get_world_size()\n", ""), "--bisect")
    assert outcome.exit_code == 1, outcome.output
    lines = outcome.stdout.splitlines()
    assert lines[0].startswith("train.py: Different: step 1, rank 0: the gradient of 0.weight (and 3 more) differs: ")
    blamed = re.search(r"  blamed: train.py: .* → line \d+ \((.*)\) \(after \d+ runs\)", lines[2])
    assert blamed
    assert blamed[1] == "optimizer.register_step_pre_hook(average_gradients)"
    assert lines[3].startswith("  HVD201 mistake?  all gradients are 2 times the original's")


def test_files_in_another_encoding() -> None:
    cookie = "# -*- coding: latin-1 -*-\n# caf\xe9\n"
    Path("train.py").write_bytes((cookie + ORIGINAL).encode("latin-1"))
    Path("migrated.py").write_bytes((cookie + MIGRATED.replace("lr=0.1", "lr=0.2")).encode("latin-1"))
    outcome = invoke("parity", "train.py", "migrated.py", "--bisect", "-q")
    assert outcome.exit_code == 1, outcome.output
    assert "blamed: train.py: " in outcome.stdout
    assert "lr=0.2" in outcome.stdout


def test_files_that_are_no_python_to_this_interpreter() -> None:
    newer = "value = {\n  'a': 1 2\n}\n"
    Path("train.py").write_text(newer)
    Path("migrated.py").write_text(newer)
    outcome = invoke("parity", "train.py", "migrated.py", "--bisect", "-q")
    assert outcome.exit_code == 1
    assert outcome.stdout.startswith("train.py: Could not run: original: rank ")
    assert "SyntaxError" in outcome.stdout


def test_a_program_in_a_package_with_its_own_files() -> None:
    Path("app/jobs").mkdir(parents=True)
    Path("train.py").rename("app/jobs/train.py")
    Path("app/jobs/train.py").write_text("from ..size import ranks\n" + ORIGINAL + "assert ranks() == 2\n")
    Path("app/size.py").write_text("import horovod.torch as hvd\n\ndef ranks():\n    return hvd.size()\n")
    Path("other.py").write_text("import horovod.torch as hvd\nhvd.init()\nhvd.elastic.run(print)\n")
    outcome = invoke("parity", "-m", "app.jobs.train")
    assert outcome.exit_code == 0, outcome.output
    assert "  app/size.py:4 " in outcome.stdout
    assert "other.py" not in outcome.stdout


PACKAGE = "import horovod.torch as hvd\n\ndef ranks():\n    return hvd.size()\n"


def test_modules_come_from_the_copy(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("lib/app").mkdir(parents=True)
    Path("lib/app/__init__.py").write_text(PACKAGE)
    Path("train.py").write_text("import app\n" + ORIGINAL + "assert app.ranks() == 2\n")
    monkeypatch.setenv("PYTHONPATH", str(folder / "lib"))
    outcome = invoke("parity", "train.py")
    assert outcome.exit_code == 0, outcome.output
    assert "  lib/app/__init__.py:4 " in outcome.stdout


def test_modules_that_come_from_elsewhere_make_no_proof(folder: Path) -> None:
    Path("app.py").write_text(PACKAGE)
    Path("train.py").write_text(f"import sys\nsys.path.insert(0, {str(folder)!r})\nimport app\n" + ORIGINAL)
    outcome = invoke("parity", "train.py", "-q")
    assert outcome.exit_code == 1
    assert f"original: it imports {folder}/app.py from the working folder instead of its copy" in outcome.stdout


def test_a_ladder() -> None:
    outcome = invoke("parity", "train.py", "--ladder", "2,1", "--results", "out")
    assert outcome.exit_code == 0, outcome.output
    assert SEVERAL.findall(outcome.stderr)[2:] == ["ladder 1, 1 rank", "ladder 2, 2 ranks"]
    assert re.search(r"ladder\n  ranks  steps per second  efficiency\n  1 .* 100%\n  2 ", outcome.stdout)
    assert re.search(r"advice\n  Train (in one process|on one machine with 2 ranks)", outcome.stdout)


def test_a_blocked_program_is_not_run() -> None:
    Path("train.py").write_text("import horovod.torch as hvd\nhvd.init()\nhvd.elastic.run(print)\n")
    outcome = invoke("parity", "train.py")
    assert outcome.exit_code == 1
    assert outcome.stdout.startswith("train.py: Could not run: migrated: not migrated: train.py:3: HVD")
    assert "running" not in outcome.stderr


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["missing.py"], "missing.py: no such file"),
        (["-m", "missing.module"], "missing.module: no such module below the working folder"),
        (["train.py", "train.py", "train.py"], "at most two programs"),
        (["train.py", "-q", "-v"], "exclude each other"),
        (["train.py", "--ladder", "1,x"], "numbers of ranks with commas between them"),
        (["train.py", "--ladder", "0"], "at least 1"),
        (["--root", "plain", "plain/plain.py"], "plain.py: nothing to migrate"),
        (["train.py", "--results", "."], "holds other files than results"),
        (["train.py", "--python", "no-such-python"], "no-such-python: no such interpreter"),
        ([], "Missing argument"),
    ],
)
def test_bad_usage(arguments: list[str], expected: str) -> None:
    Path("plain").mkdir()
    Path("plain/plain.py").write_text("import torch\n")
    outcome = invoke("parity", *arguments)
    assert outcome.exit_code == 2
    assert expected in outcome.stderr


def test_results_that_another_run_writes() -> None:
    Path(".hvd-migrate/parity").mkdir(parents=True)
    with Path(".hvd-migrate/parity/.gitignore").open("w") as claim:
        fcntl.flock(claim, fcntl.LOCK_EX)
        outcome = invoke("parity", "train.py")
    assert outcome.exit_code == 2
    assert "another run writes into .hvd-migrate/parity" in outcome.stderr


TRAIN = "for step in range(4):\n"
MISTAKES = {
    "dies": (
        MIGRATED.replace(TRAIN, TRAIN + "    if step == 2 and dist.get_rank() == 1:\n        os._exit(3)\n"),
        r"Could not run: migrated: rank 1 failed after \S+ s: exit code 3\n$",
    ),
    "is killed": (
        MIGRATED.replace(
            TRAIN, TRAIN + "    if step == 2 and dist.get_rank() == 1:\n        os.kill(os.getpid(), 9)\n"
        ),
        r"Could not run: migrated: rank 1 was killed by SIGKILL after \S+ s: perhaps memory ran out\n$",
    ),
    "hangs": (
        MIGRATED.replace(
            TRAIN, TRAIN + "    if step == 2 and dist.get_rank() == 1:\n        import time; time.sleep(99)\n"
        ),
        r"Could not run: migrated: .*ranks 0, 1 did not end within 40 s",
    ),
    "runs out of steps early": (
        MIGRATED.replace("range(4)", "range(4 - dist.get_rank())"),
        r"Could not run: migrated: .*; rank 1 had ended well by then, after \S+ s: perhaps with fewer steps",
    ),
    "writes NaN": (
        MIGRATED.replace(
            "    optimizer.step()\n", "    optimizer.step()\n    next(model.parameters()).data.mul_(float('nan'))\n"
        ),
        r"Different: .*nan",
    ),
    "still uses Horovod": (ORIGINAL, r"Could not run: migrated.*horovod"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_rank_that(name: str, folder: Path) -> None:
    migrated, expected = MISTAKES[name]
    start = time.monotonic()
    outcome = against(migrated, "--limit", "150" if name != "hangs" else "40")
    assert outcome.exit_code == 1
    assert re.search(expected, outcome.stdout), outcome.output
    assert time.monotonic() - start < 200
    assert marked(str(folder)) == []


HARMLESS = {
    "forks": MIGRATED.replace(TRAIN, "if os.fork() == 0:\n    import time; time.sleep(99)\n" + TRAIN),
    "fills its output pipe": MIGRATED.replace(
        TRAIN, "import sys\nfor _ in range(20000):\n    print('x' * 100, file=sys.stderr)\n" + TRAIN
    ),
}


@pytest.mark.parametrize("name", HARMLESS)
def test_equal_although_a_rank(name: str, folder: Path) -> None:
    outcome = against(HARMLESS[name], "--limit", "60")
    assert outcome.exit_code == 0, outcome.output
    assert marked(str(folder)) == []


def test_ctrl_c(folder: Path) -> None:
    Path("train.py").write_text(
        ORIGINAL.replace(TRAIN, "open('here', 'w').close()\nimport time; time.sleep(99)\n" + TRAIN)
    )
    command = [sys.executable, "-m", "migrator.cli", "parity", "train.py"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        time.sleep(6)
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=20)
    assert process.returncode == 130, stderr
    assert "Traceback" not in stderr
    assert marked(str(folder)) == []


def test_record_and_compare() -> None:
    Path("migrated.py").write_text(MIGRATED)
    assert invoke("record", "--stand-in", "-q", "--output", "a", "train.py").exit_code == 0
    outcome = invoke("record", "--output", "b", "migrated.py")
    assert outcome.exit_code == 0
    assert outcome.stdout.endswith("loss 0.0005\n")
    assert outcome.stderr.endswith("hvd-migrate: the trace is in b\n")
    outcome = invoke("compare", "a", "b")
    assert outcome.exit_code == 0
    assert outcome.stdout.startswith("train.py: Equal: ")
    assert json.loads(invoke("compare", "a", "b", "--again", "a", "--format", "json").stdout)["verdict"] == "equal"
    other = MIGRATED.replace("lr=0.1", "lr=0.2")
    Path("migrated.py").write_text(other)
    assert invoke("record", "-q", "--output", "b", "migrated.py").stderr == ""
    assert invoke("compare", "a", "b", "--output", "report.md", "--format", "markdown").exit_code == 1
    assert "learning rate differs" in Path("report.md").read_text()
    assert invoke("compare", "a", "b", "-q", "--noise", "10").exit_code == 0


def test_record_a_driver_that_starts_no_ranks() -> None:
    Path("plain.py").write_text("print('done')")
    outcome = invoke("record", "--driver", "plain.py")
    assert (outcome.exit_code, outcome.stdout) == (0, "done\n")
    assert outcome.stderr == "hvd-migrate: nothing was recorded: no rank used PyTorch or TensorFlow\n"


def test_no_file_is_lost_to_a_trace() -> None:
    Path("kept").mkdir()
    Path("kept/model.pt").touch()
    outcome = invoke("record", "--output", "kept", "train.py")
    assert (outcome.exit_code, Path("kept/model.pt").exists()) == (2, True)
    assert "kept holds other files than a trace, such as model.pt" in outcome.stderr


@pytest.mark.parametrize("folders", [("missing", "missing"), (".", ".")])
def test_compare_without_a_trace(folders: tuple[str, str]) -> None:
    outcome = invoke("compare", *folders)
    assert outcome.exit_code == 2
    assert outcome.stderr.startswith(f"hvd-migrate: error: {folders[0]}: ")
