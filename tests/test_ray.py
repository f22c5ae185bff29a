"""Programs that Ray starts: every symbol has a rule, and migrated ones train on Ray as Horovod did.

``horovod_ray_symbols.tsv`` was read from the modules of Horovod 0.28.1 and of Ray. Ray is heavy: ``REAL_RAY=PYTHON``
names an interpreter that has it, with PyTorch, and starts the tests that run it.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from update_fixtures import run

from migrator.config import Settings
from migrator.registry import load_rules

FOLDER = Path(__file__).parent
REGISTRY = load_rules()
TABLE = [line.split("\t") for line in (FOLDER / "horovod_ray_symbols.tsv").read_text("utf-8").splitlines()[1:]]
SYMBOLS = [symbol for symbol, kind in TABLE if kind != "method"]
METHODS = [symbol.rpartition(".")[2] for symbol, kind in TABLE if kind == "method"]
# What two ranks of Horovod 0.28.1 had after the five steps of both programs.
WEIGHTS = [0.049705542623996735, -0.3382367789745331, 0.1935720443725586, 0.1829100400209427]
needs_ray = pytest.mark.skipif("REAL_RAY" not in os.environ, reason="REAL_RAY names no interpreter with Ray")


@pytest.mark.parametrize("use", ["", "()"])
@pytest.mark.parametrize("symbol", SYMBOLS)
def test_symbol_has_a_rule(symbol: str, use: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    module, _, name = symbol.rpartition(".")
    source = f"from {module} import {name}\n\nit = {name}{use}\n".encode()
    found = run({"program.py": source}, Settings(jobs=1), tmp_path).result.findings
    own = [one for one in found if one.symbol == REGISTRY.canonical(symbol)]
    assert own, found
    assert {one.rule for one in own} == {REGISTRY.rule_for(REGISTRY.canonical(symbol)).id}


@pytest.mark.parametrize("name", METHODS)
def test_method_of_the_executor_has_a_rule(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    source = f"from horovod.ray import RayExecutor\n\nit = RayExecutor(None, num_workers=2)\nit.{name}\n".encode()
    result = run({"program.py": source}, Settings(jobs=1), tmp_path).result
    assert [one.rule for one in result.findings if one.line == 4] == ["HVD553"]
    assert result.blocked


def migrated(name: str, folder: Path) -> Path:
    outcome = run({"program.py": (FOLDER / "ray_programs" / name).read_bytes()}, Settings(jobs=1), folder)
    path = folder / "migrated.py"
    path.write_bytes(outcome.written["program.py"])
    return path


def start(path: Path, *arguments: str) -> str:
    environment = {**os.environ, "RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"}
    command = [os.environ["REAL_RAY"], str(path), *arguments]
    return subprocess.run(command, env=environment, check=True, timeout=300, capture_output=True, text=True).stdout


@needs_ray
def test_executor_on_ray(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lines = start(migrated("executor.py", tmp_path)).splitlines()
    results = next(json.loads(line) for line in lines if line.startswith("[["))
    assert results == [[0, 3.0, WEIGHTS], [1, 3.0, WEIGHTS]]


@needs_ray
def test_trainer_on_ray(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    start(migrated("trainer.py", tmp_path), str(tmp_path))
    assert [json.loads((tmp_path / f"{rank}.json").read_text("utf-8")) for rank in range(2)] == [WEIGHTS, WEIGHTS]
