"""A flag for elastic training keeps its meaning: one branch trains, the other one raises."""

from __future__ import annotations

from pathlib import Path

import pytest
from ranks import run_on_ranks
from update_fixtures import run

from migrator.config import Settings

PROGRAM = """\
import horovod.torch as hvd

ELASTIC = {flag}


def train(state):
    print("TRACE trained", hvd.rank(), state)
    hvd.barrier()  # a rank that ends while another one still joins brings it down


hvd.init()
if ELASTIC:
    state = hvd.elastic.TorchState(epoch=0)
    hvd.elastic.run(train)(state)
else:
    train(None)
"""


@pytest.mark.ranks
@pytest.mark.parametrize("elastic", [False, True])
def test_the_other_branch_trains(elastic: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "in").mkdir()
    monkeypatch.chdir(tmp_path / "in")
    source = PROGRAM.format(flag=elastic).encode()
    outcome = run({"program.py": source}, Settings(jobs=1), tmp_path / "in")
    ranks = run_on_ranks(outcome.written["program.py"].decode(), tmp_path / "ranks")
    if elastic:
        assert all(rank.status for rank in ranks)
        assert any("--nnodes=MIN:MAX --max-restarts=N" in rank.err for rank in ranks)
    else:
        assert [rank.trace for rank in ranks] == [{"trained": f"{number} None"} for number in range(2)]
