"""Questions to Horovod's collectives, migrated: the answers must be those that real Horovod gave."""

from __future__ import annotations

from pathlib import Path

import pytest
from answers import QUESTIONS, is_close, program, recorded
from ranks import traces
from update_fixtures import run

from migrator.config import Settings

HOROVOD = recorded(Path(__file__).parent / "horovod_answers.json")
RUNS = [(topic, int(size)) for topic, sizes in HOROVOD.items() for size in sizes]
ANY_DTYPE = "torch.distributed takes dtypes that Horovod refuses"
ANY_LAYOUT = "what is sent is made contiguous, which Horovod refuses"
NOTHING = "nothing to send is nothing to do, where Horovod fails to find a first tensor"
DEVIATIONS: dict[str, dict[str, tuple[str, str]]] = {
    "gathers": {
        "bool": ("bool[", ANY_DTYPE),
        "transposed": ("float32[", ANY_LAYOUT),
        "broadcast.transposed": ("float32[3, 2]:[[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]]", ANY_LAYOUT),
    },
    "groups": {
        "reduce.none": ("list()", NOTHING),
        "in_place.none": ("tuple()", NOTHING),
        "gather.none": ("tuple()", NOTHING),
        "scatter.none": ("list()", NOTHING),
    },
    "handles": {"waited_twice": ("float32[1]:[1.0]", "synchronize returns its result again, Horovod None")},
    "reductions": {
        "transposed": ("float32[3, 2]:", ANY_LAYOUT),
        "large.average": ("int64[2]:[9007199254740995, 1099511627777]", "Horovod goes through doubles, ours is exact"),
        "uint8.default": ("uint8[", ANY_DTYPE),
        "uint8.sum": ("uint8[", ANY_DTYPE),
        "int8.default": ("int8[", ANY_DTYPE),
        "int8.sum": ("int8[", ANY_DTYPE),
        "bfloat16.default": ("bfloat16[", ANY_DTYPE),
        "bfloat16.sum": ("bfloat16[", ANY_DTYPE),
        "bool.default": ("int64[", ANY_DTYPE),
        "bool.sum": ("bool[", ANY_DTYPE),
    },
    "scatters": {"exchange.int64": ("tuple(", "splits of 64 bits are made into the 32 bits that Horovod demands")},
}


def migrated(topic: str, folder: Path) -> str:
    """The questions of ``topic`` as the tool rewrites them."""
    source = program(QUESTIONS / f"{topic}.py")
    outcome = run({"program.py": source.encode()}, Settings(gradients="optimizer", jobs=1), folder)
    assert not outcome.result.blocked, outcome.findings
    return outcome.written["program.py"].decode()


def is_same(ours: str, theirs: str, size: int) -> bool:
    """Whether two answers are equal; two errors are the same answer, in whatever words."""
    return (ours.startswith("RAISED") and theirs.startswith("RAISED")) or is_close(ours, theirs, size)


@pytest.mark.ranks
@pytest.mark.parametrize(("topic", "size"), RUNS)
def test_answers(topic: str, size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "in").mkdir()
    monkeypatch.chdir(tmp_path / "in")
    found = traces(migrated(topic, tmp_path / "in"), tmp_path / "ranks", size)
    deviations = DEVIATIONS.get(topic, {})
    for rank, ours in enumerate(found):
        theirs = HOROVOD[topic][str(size)][str(rank)]
        assert ours.keys() == theirs.keys()
        asked = [key for key in theirs if key not in deviations]
        assert [(key, ours[key], theirs[key]) for key in asked if not is_same(ours[key], theirs[key], size)] == []
        assert [k for k, (answer, _) in deviations.items() if not ours[k].startswith(answer)] == []


def test_deviations_are_deviations() -> None:
    for topic, deviations in DEVIATIONS.items():
        for size, ranks in HOROVOD[topic].items():
            same = [key for key, (answer, _) in deviations.items() if ranks["0"].get(key, "").startswith(answer)]
            assert same == [], (topic, size)
