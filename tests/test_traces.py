"""The programs that real Horovod ran, migrated: they must print what it printed."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from ranks import traces
from update_fixtures import Outcome, run

from migrator.config import Gradients, Settings

FOLDER = Path(__file__).parent / "horovod_traces"
HOROVOD = json.loads((FOLDER / "traces.json").read_text("utf-8"))["programs"]
PROGRAMS = sorted(path.stem for path in (FOLDER / "programs").glob("*.py"))
ONLY_AT_THE_OPTIMIZER = ("op_sum", "predivide")
DDP_ROUNDS = {"fp16_on": 1e-2, "accumulate_remainder": 1e-5}
DDP_TRAINS_DIFFERENTLY = ("unused_weight_decay",)
RUNS = [(name, gradients) for name in PROGRAMS for gradients in ("auto", "optimizer", "ddp")]


def migrated(name: str, gradients: Gradients, folder: Path) -> Outcome:
    source = (FOLDER / "programs" / f"{name}.py").read_bytes()
    return run({"program.py": source}, Settings(gradients=gradients, jobs=1), folder)


def messages(outcome: Outcome) -> str:
    return " ".join(found.message for found in outcome.result.findings)


def is_close(ours: str, theirs: str, tolerance: float) -> bool:
    if not theirs.lstrip("-").startswith(("0x", "inf")):
        return ours == theirs
    return math.isclose(float.fromhex(ours), float.fromhex(theirs), rel_tol=tolerance)


@pytest.mark.ranks
@pytest.mark.parametrize(("name", "gradients"), RUNS)
def test_trace(name: str, gradients: Gradients, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "in").mkdir()
    monkeypatch.chdir(tmp_path / "in")
    outcome = migrated(name, gradients, tmp_path / "in")
    if gradients == "ddp" and name in ONLY_AT_THE_OPTIMIZER:
        assert "--gradients ddp" in messages(outcome)
        assert not outcome.written
        return
    if gradients == "ddp" and name in DDP_TRAINS_DIFFERENTLY:
        assert "every parameter" in messages(outcome)
        return
    found = traces(outcome.written["program.py"].decode(), tmp_path / "ranks")
    expected = [HOROVOD[name]["0"], HOROVOD[name]["1"]]
    if gradients == "ddp" and name in DDP_ROUNDS:
        reason = {"fp16_on": "fp16", "accumulate_remainder": "accumulated"}[name]
        assert reason in messages(outcome)
        for ours, theirs in zip(found, expected, strict=True):
            wrong = [k for k in theirs if k != "weights" and not is_close(ours[k], theirs[k], DDP_ROUNDS[name])]
            assert wrong == []
        assert found[0]["weights"] == found[1]["weights"]
        return
    assert found == expected
