"""Well-known pitfalls of leaving Horovod: programs under ``fixtures/pitfalls``, run as they are migrated.

``test_fixtures.py`` holds what each becomes and what is said of it. Here those that print something run, and must
print what real Horovod printed; some of the numbers are checked by hand. A program per pitfall is not all there is:
``test_oracle.py`` holds every collective, ``test_traces.py`` and ``test_gradients.py`` whole trainings; the table in
``horovod_traces/README.md`` says which hold which.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from horovod_traces.pitfalls import PITFALLS, Pitfall
from ranks import run_on_ranks, traces

RECORDED = Path(__file__).parent / "horovod_traces" / "pitfalls.json"
HOROVOD = json.loads(RECORDED.read_text("utf-8"))["programs"]
BY_NAME = {program.name: program for program in PITFALLS}
ADASUM_FLAGS = {"adasum_by_a_flag": "--adasum", "adasum_by_a_flag_and_the_learning_rate": "--use-adasum"}
WITHOUT_LAUNCHER = """\
import os

for variable in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
    del os.environ[variable]
"""
# Ranks count from 0, so that a mean of what grows with the rank plus one is 1.5 on two ranks, a sum 3.
BY_HAND = {
    "mean_not_sum": {"mean": f"{(0 + 1 + 2 + 3) / 4}"},
    "sum_divided_by_hand": {"total": f"{4 * 2.0}", "mean": f"{4 * 2.0 / 4}"},
    "mean_of_integers": {"seen": f"{[(17 + 18) // 2, -((4 + 3) // 2)]} torch.int64"},
    "gather_uneven": {"everyone": f"{[0, 0, 1, 0, 1, 2]} torch.int64"},
    "object_to_all_ranks": {"settings": "{'lr': 0.1}"},
    "handle_is_not_the_result": {"out": f"{[0.5] * 4} {[0.0] * 4} ['busy']"},
    "another_name_of_the_model": {"gradient": f"{[[(1 + 2) / 2] * 2]}"},
    "two_backwards_on_one_forward": {"gradient": f"{[[2 * (1 + 2) / 2] * 2] * 2} {[2.0] * 2}"},
    "gradients_summed": {"gradient": f"{[[1.0 + 2.0] * 2]}", "moved": f"{[0.5 * (1.0 + 2.0)] * 2}"},
    "learning_rate_of_the_program": {"lr": f"{0.01 * 2 * 3}"},
    "gradients_as_fp16": {"gradient": f"{['inf', (1.0).hex(), (2.0**-24).hex()]}"},
    "started_without_a_launcher": {"identity": "0 2 0"},
}


@pytest.mark.ranks
@pytest.mark.parametrize("program", PITFALLS, ids=lambda program: program.name)
def test_pitfall(program: Pitfall, tmp_path: Path) -> None:
    found = traces(program.migrated, tmp_path / "ranks", program.ranks)
    if program.hangs:
        assert found == [BY_HAND[program.name]] * program.ranks
    else:
        assert found == [HOROVOD[program.name][str(rank)] for rank in range(program.ranks)]


@pytest.mark.parametrize("name", [name for name in BY_HAND if not BY_NAME[name].hangs])
def test_recorded_numbers_are_those_of_the_pitfall(name: str) -> None:
    recorded = HOROVOD[name]["0"]
    assert {key: recorded[key] for key in BY_HAND[name]} == BY_HAND[name]


def test_recordings_and_programs_are_the_same() -> None:
    assert {name: len(ranks) for name, ranks in HOROVOD.items()} == {p.name: p.ranks for p in PITFALLS if not p.hangs}


@pytest.mark.ranks
@pytest.mark.parametrize("name", ["started_without_a_launcher", "initialized_twice", "gather_uneven"])
def test_without_a_launcher(name: str, tmp_path: Path) -> None:
    alone = {"identity": "0 1 0", "first": "0 1", "second": "1 0", "everyone": "[0] torch.int64"}
    [found] = traces(WITHOUT_LAUNCHER + BY_NAME[name].migrated, tmp_path / "ranks", 1)
    assert found
    assert found.items() <= alone.items()


@pytest.mark.ranks
@pytest.mark.parametrize("name", ADASUM_FLAGS)
def test_a_flag_that_asks_for_adasum_raises(name: str, tmp_path: Path) -> None:
    source = BY_NAME[name].migrated
    asking = source.replace("parse_args([])", f"parse_args([{ADASUM_FLAGS[name]!r}])")
    assert asking != source
    for rank in run_on_ranks(asking, tmp_path / "ranks"):
        assert rank.status == 1
        assert "NotImplementedError: Adasum has no counterpart in torch.distributed" in rank.err
        assert not rank.trace


@pytest.mark.ranks
def test_a_resumed_optimizer_is_the_same_on_all_ranks(tmp_path: Path) -> None:
    first, second = traces(BY_NAME["resumed_on_the_first_rank"].migrated, tmp_path / "ranks")
    assert first == second
    assert first["lr"] == "0.05"
