"""Migrated programs in a real Spark, on this machine."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from record_parity_programs import RANKS, SEED, TRACES
from test_parity_programs import DRIVER, does, is_close

from migrator.config import Settings
from migrator.engine import migrate, migrate_text
from migrator.parity.compare import Side, compare
from migrator.parity.drivers import starts_ranks
from migrator.parity.launch import Launch, Recording
from migrator.parity.subjects import of_migration
from migrator.parity.trace import read_trace
from migrator.parity.trial import Proof, Trial, prove

PROGRAMS = Path(__file__).parent / "spark_programs"
ENVIRONMENT = {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
# TorchDistributor as it is, without what the migrated program puts around the function.
AS_IT_IS = """
distributor = TorchDistributor(num_processes=2, local_mode=True, use_gpu=False)
ask("late failure, as it is", distributor.run, fails_late)
ask("rank 0 is first, as it is", distributor.run, ends_late, rank=1)
spark.stop()
"""


def migrated(name: str) -> str:
    """A program after its migration."""
    given = (PROGRAMS / name).read_bytes()
    result = migrate_text(name, given, Settings())
    (file,) = (file for file in result.files if file.path == name)
    assert file.status == "changed", result.findings
    return file.after.decode()


def in_spark(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Proof:
    """A program with the stand-in, and after its migration in Spark."""
    tree, program = folder / "tree", Path(name)
    tree.mkdir()
    (tree / name).write_bytes((PROGRAMS / name).read_bytes())
    monkeypatch.chdir(tree)
    before, after = of_migration(program, tree, migrate([program], Settings(jobs=1)))
    launch = Launch(
        name,
        is_driver=starts_ranks((tree / name).read_bytes()),
        size=RANKS,
        device="cpu",
        recording=Recording(folder, seed=SEED),
        folder=Path(),
        environment=ENVIRONMENT,
        limit=420,
    )
    original = Trial(before.files, replace(launch, horovod="stand-in"), before.changed)
    trained = Trial(after.files, replace(launch, on_spark=True), after.changed)
    return prove(original, trained, folder / "results", None, lambda *_: None)


@pytest.mark.spark
@pytest.mark.parametrize("name", ["runner.py", "notebook.py"])
def test_a_program_trains_in_spark_as_the_original_did(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = in_spark(name, tmp_path, monkeypatch)
    assert found.comparison.verdict == "equal", found.comparison.sentence
    assert [step.loss for step in found.comparison.steps]
    side = found.migrated.side
    assert side.output[0][-1].startswith(("loss 0.", "{'loss': 0."))
    assert len(side.trace.ranks) == RANKS
    if name == "runner.py":  # the same function as in the traces of real Horovod
        real = Side(read_trace(TRACES / DRIVER))
        assert is_close(compare(real, Side(side.trace)))
        assert [does(rank) for rank in side.trace.ranks] == [does(rank) for rank in real.trace.ranks]


@pytest.mark.spark
def test_what_torch_distributor_does_not_notice_is_noticed(tmp_path: Path) -> None:
    text = migrated("endings.py").replace("spark.stop()\n", AS_IT_IS)
    (tmp_path / "endings.py").write_text(text, "utf-8")
    command = [sys.executable, "endings.py"]
    done = subprocess.run(
        command, cwd=tmp_path, env=os.environ | ENVIRONMENT, capture_output=True, text=True, timeout=420, check=False
    )
    assert done.returncode == 0, done.stderr
    found = dict(line.removeprefix("RESULT ").split(" = ") for line in done.stdout.splitlines() if "RESULT" in line)
    assert found == {
        "late failure": "RuntimeError",
        "rank 0 is first": "0",
        "all values": "[(0, 'yes'), (3, 'yes')]",
        "late failure, as it is": "done",
        "rank 0 is first, as it is": "1",
    }
