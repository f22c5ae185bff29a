"""Programs that were migrated to DeepSpeed train to the weights that real Horovod 0.28.1 trained the originals to.

They run on two Gloo ranks with an engine as DeepSpeed documents it and, where DEEPSPEED names an interpreter that has
DeepSpeed, with that.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Literal

import pytest
import torch
from click.testing import CliRunner
from ranks import run_on_ranks
from record_deepspeed_weights import CASES, RANKS
from test_parity_programs import HOROVOD, check, forked

from migrator import cli
from migrator.config import Settings, Target
from migrator.engine import migrate_text
from migrator.parity.compare import compare
from migrator.parity.launch import STAND_IN as HOROVOD_STAND_IN

HERE = Path(__file__).resolve().parent
STAND_IN = HERE / "deepspeed_stand_in"
WITHOUT_COMPILER = HERE / "without_compiler"
DEEPSPEED = os.environ.get("DEEPSPEED", "")
NAMES = sorted(case.parent.name for case in CASES.glob("*/weights.json"))
# The clipping of DeepSpeed rounds otherwise, by 1.5e-8; other processors by less than this. Wrong programs are farther.
CLOSE = 1e-6
Engine = Literal["stand-in", "real"]
real = pytest.param(
    "real", marks=pytest.mark.skipif(not DEEPSPEED, reason="DEEPSPEED names no interpreter that has it")
)
Weights = dict[str, torch.Tensor]
# What a migration might get wrong, and the case that shows it.
MISTAKES = {
    "DeepSpeed's default clipping": ("decay", '"gradient_clipping": 0.0,', ""),
    "divided by the engine too": (
        "accumulation",
        '"gradient_accumulation_steps": 1',
        '"gradient_accumulation_steps": 2',
    ),
    "clipping left out": ("functions", '"gradient_clipping": args.clip', '"gradient_clipping": 0.0'),
    "fp16 left out": ("half", '"communication_data_type": "fp16" if compression else None,', ""),
    "not averaged": ("adam", "engine.backward(loss)", "loss.backward()"),
}


def program(name: str) -> str:
    return (CASES / name / "after.py").read_text("utf-8")


def expected(name: str) -> Weights:
    """What real Horovod trained."""
    values = json.loads((CASES / name / "weights.json").read_text("utf-8"))
    return {key: torch.tensor(value) for key, value in values.items()}


def with_stand_in(source: str) -> str:
    """A program that finds the stand-in for DeepSpeed."""
    return f"import sys\nsys.path.insert(0, {str(STAND_IN)!r})\n{source}"


def trained(source: str, engine: Engine, folder: Path) -> Weights:
    """The weights that a program saves, run on two ranks."""
    if engine == "stand-in":
        ranks = run_on_ranks(with_stand_in(source), folder, size=RANKS)
        assert [rank.status for rank in ranks] == [0] * RANKS, "\n".join(rank.err[-2000:] for rank in ranks)
        work = folder / "work"
    else:
        work = folder
        (work / "program.py").write_text(source, "utf-8")
        start = [DEEPSPEED, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={RANKS}", "program.py"]
        environment = {**os.environ, "PYTHONPATH": str(WITHOUT_COMPILER), "OMP_NUM_THREADS": "1"}
        done = subprocess.run(start, cwd=work, env=environment, capture_output=True, text=True, timeout=300)
        assert not done.returncode, done.stderr[-4000:]
    weights: Weights = torch.load(work / "checkpoint.pt")["model"]
    return weights


def distance(first: Weights, second: Weights) -> float:
    return max((first[name].double() - second[name].double()).abs().max().item() for name in first)


@pytest.mark.ranks
@pytest.mark.parametrize("engine", ["stand-in", real])
@pytest.mark.parametrize("name", NAMES)
def test_weights_are_those_of_horovod(name: str, engine: Engine, tmp_path: Path) -> None:
    weights, wanted = trained(program(name), engine, tmp_path), expected(name)
    assert list(weights) == list(wanted)
    assert distance(weights, wanted) <= CLOSE


@pytest.mark.ranks
@pytest.mark.parametrize("engine", ["stand-in", real])
@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_seen(mistake: str, engine: Engine, tmp_path: Path) -> None:
    name, right, wrong = MISTAKES[mistake]
    source = program(name)
    assert right in source
    if engine == "real" and mistake == "not averaged":
        pytest.skip("DeepSpeed raises an error for a backward that is not its engine's")
    assert distance(trained(source.replace(right, wrong), engine, tmp_path), expected(name)) > 10 * CLOSE


@pytest.mark.ranks
@pytest.mark.parametrize("name", NAMES)
def test_the_recorder_sees_what_an_engine_does(name: str, tmp_path: Path) -> None:
    horovod = HOROVOD.format(folder=str(HOROVOD_STAND_IN))
    original = forked(horovod + (CASES / name / "before.py").read_text("utf-8"), tmp_path / "original")
    check(compare(original, forked(with_stand_in(program(name)), tmp_path / "migrated")), "")


@pytest.mark.ranks
@pytest.mark.skipif(not DEEPSPEED, reason="DEEPSPEED names no interpreter that has it")
def test_parity_with_deepspeed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(WITHOUT_COMPILER))
    (tmp_path / "train.py").write_bytes((CASES / "accumulation" / "before.py").read_bytes())
    options = ["--target", "deepspeed", "--device", "cpu", "--migrated-python", DEEPSPEED, "-q"]
    outcome = CliRunner().invoke(cli.main, ["parity", "train.py", *options], prog_name="hvd-migrate")
    first = "train.py: Equal: losses, gradients and parameters have the same bits in 8 steps on 2 ranks.\n"
    assert outcome.stdout.startswith(first), outcome.output


def test_there_are_cases() -> None:
    assert set(NAMES) >= {name for name, _, _ in MISTAKES.values()}


@pytest.mark.parametrize("target", ["auto", "ddp"])
def test_only_the_target_asks_for_it(target: Target) -> None:
    source = (CASES / "half" / "before.py").read_bytes()
    (file,) = migrate_text("program.py", source, Settings(target=target)).files
    assert b"horovod" not in file.after.replace(b"HOROVOD_SIZE", b"")
    assert b"deepspeed" not in file.after
