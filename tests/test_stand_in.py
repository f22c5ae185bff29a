"""The stand-in for Horovod, run as real Horovod was: it answers alike key by key, and programs print the same."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from answers import QUESTIONS, Answers, is_close, program, recorded
from horovod_traces.gradients import CASES
from horovod_traces.pitfalls import PITFALLS
from ranks import Rank, run_on_ranks, traces

from migrator.parity.launch import STAND_IN

HERE = Path(__file__).parent
TRACES = HERE / "horovod_traces"
OWN = QUESTIONS / "stand_in"
SHARED_ANSWERS, OWN_ANSWERS = recorded(HERE / "horovod_answers.json"), recorded(OWN / "answers.json")
HOROVOD = SHARED_ANSWERS | OWN_ANSWERS
DEVIATIONS = json.loads((OWN / "deviations.json").read_text("utf-8"))
RUNS = [(topic, int(size)) for topic, sizes in HOROVOD.items() for size in sizes]
WITH_STAND_IN = f"import sys\nsys.path.insert(0, {str(STAND_IN)!r})\n"
END = "\nhvd.shutdown()\n"


def answers(topic: str, size: int, folder: Path) -> list[dict[str, str]]:
    """What the stand-in answers on each rank."""
    source = program((OWN if topic in OWN_ANSWERS else QUESTIONS) / f"{topic}.py")
    return traces(f"{WITH_STAND_IN}{source}{END}", folder, size)


def deviating(topic: str, size: int, rank: int) -> dict[str, str]:
    """The answers that are listed as other than Horovod's."""
    known = [deviation["answers"].get(topic, {}).get(str(size), {}).get(str(rank), {}) for deviation in DEVIATIONS]
    return {key: answer for found in known for key, answer in found.items()}


@pytest.mark.ranks
@pytest.mark.parametrize(("topic", "size"), RUNS)
def test_answers(topic: str, size: int, tmp_path: Path) -> None:
    found = answers(topic, size, tmp_path)
    for rank, ours in enumerate(found):
        theirs = HOROVOD[topic][str(size)][str(rank)]
        deviations = deviating(topic, size, rank)
        assert ours.keys() == theirs.keys()
        assert deviations.keys() <= theirs.keys()
        assert [key for key, answer in deviations.items() if answer == theirs[key]] == [], "does not deviate"
        expected = theirs | deviations
        wrong = [key for key in theirs if not is_close(ours[key], expected[key], size)]
        assert [(key, ours[key], expected[key]) for key in wrong] == [], f"rank {rank}"


def test_all_questions_are_asked() -> None:
    assert {path.stem for path in OWN.glob("*.py")} == OWN_ANSWERS.keys()
    assert {path.stem for path in QUESTIONS.glob("*.py")} - {"ask", "record"} == SHARED_ANSWERS.keys()


def counted(known: Answers) -> int:
    """How many answers there are, those of each rank for themselves."""
    return sum(len(keys) for sizes in known.values() for ranks in sizes.values() for keys in ranks.values())


def test_deviations_are_documented() -> None:
    page = (HERE.parent / "docs" / "stand-in.md").read_text("utf-8")
    rows = [[deviation[column] for column in ("what", "horovod", "stand_in", "why")] for deviation in DEVIATIONS]
    assert "".join(f"| {' | '.join(row)} |\n" for row in rows) in page
    others = sum(counted(deviation["answers"]) for deviation in DEVIATIONS)
    assert f"| {counted(HOROVOD)} answers by question and rank, {others} of them other" in page
    assert f"| {len(printed('traces')) + sum(map(len, TOGETHER.values()))} programs," in page


def printed(name: str) -> dict[str, dict[str, dict[str, str]]]:
    """What real Horovod printed, by program, rank and key."""
    recording = json.loads((TRACES / f"{name}.json").read_text("utf-8"))
    known: dict[str, dict[str, dict[str, str]]] = recording["cases" if name == "gradients" else "programs"]
    return known


@pytest.mark.ranks
@pytest.mark.parametrize("name", list(printed("traces")))
def test_programs_print_what_they_printed_with_horovod(name: str, tmp_path: Path) -> None:
    source = (TRACES / "programs" / f"{name}.py").read_text("utf-8")
    found = traces(f"{WITH_STAND_IN}{source}", tmp_path)
    assert found == [printed("traces")[name][str(rank)] for rank in range(2)]


# As they were recorded: one start of Horovod for all of a kind on as many ranks, in this order.
TOGETHER = {
    "gradients": [case for case in CASES if not case.unstable],
    "pitfalls": [program for program in PITFALLS if not program.hangs],
}
STARTS = sorted({(kind, one.ranks) for kind, programs in TOGETHER.items() for one in programs})


@pytest.mark.ranks
@pytest.mark.parametrize(("kind", "size"), STARTS)
def test_programs_that_were_recorded_together(kind: str, size: int, tmp_path: Path) -> None:
    chosen = [one for one in TOGETHER[kind] if one.ranks == size]
    paths = [tmp_path / f"{one.name}.py" for one in chosen]
    for one, path in zip(chosen, paths, strict=True):
        path.write_text(one.source, "utf-8")
    arguments = ["one_after_another.py", str(tmp_path), *map(str, paths)]
    start = f"{WITH_STAND_IN}sys.argv = {arguments!r}\nimport gc\ngc.freeze()\n"  # collects after every program
    source = (TRACES / "one_after_another.py").read_text("utf-8")
    ranks = run_on_ranks(f"{start}{source}{END}", tmp_path / "ranks", size, limit=180)
    assert [rank.status for rank in ranks] == [0] * size, ranks[0].err
    for one in chosen:
        for rank in range(size):
            ours = Rank(0, 0.0, (tmp_path / f"{one.name}.{rank}").read_text("utf-8"), "").trace
            assert ours == printed(kind)[one.name][str(rank)], f"{one.name}, rank {rank}"


@pytest.mark.ranks
def test_a_stall_ends_it_if_asked_to(tmp_path: Path) -> None:
    source = """
import os
os.environ["HOROVOD_STALL_CHECK_TIME_SECONDS"] = "0.2"
os.environ["HOROVOD_STALL_SHUTDOWN_TIME_SECONDS"] = "0.5"
import time
import torch
import horovod.torch as hvd
hvd.init()
if hvd.rank():
    time.sleep(2)
try:
    hvd.allreduce(torch.ones(1), name=f"of rank {hvd.rank()}")
except hvd.HorovodInternalError as error:
    print("TRACE ended", str(error).split(".")[0])
"""
    first, second = run_on_ranks(WITH_STAND_IN + source, tmp_path)
    assert first.trace == second.trace == {"ended": "Horovod has been shut down"}
    assert "Missing ranks:\n1: [allreduce.of rank 0]\n" in first.err
    assert "Missing ranks" not in second.err


@pytest.mark.ranks
def test_a_rank_that_dies_ends_what_the_others_wait_for(tmp_path: Path) -> None:
    source = """
import os
import torch
import horovod.torch as hvd
hvd.init()
hvd.allreduce(torch.ones(1))
if hvd.rank() == {dies}:
    os._exit(3)
try:
    hvd.allreduce(torch.ones(1), name="next")
except hvd.HorovodInternalError as error:
    print("TRACE ended", str(error).split(".")[0])
"""
    for dies in (0, 1):
        ranks = run_on_ranks(WITH_STAND_IN + source.format(dies=dies), tmp_path / str(dies), 3)
        assert [rank.status for rank in ranks] == [3 if rank == dies else 0 for rank in range(3)]
        others = [rank.trace for number, rank in enumerate(ranks) if number != dies]
        assert others == [{"ended": "Horovod has been shut down"}] * 2


@pytest.mark.ranks
def test_processes_that_a_rank_forks_leave_it_alone(tmp_path: Path) -> None:
    source = """
import os
import sys
import torch
import horovod.torch as hvd
hvd.init()
child = os.fork()
if child == 0:
    try:
        hvd.allreduce(torch.ones(1))
    except hvd.HorovodInternalError:
        hvd.shutdown()
        os._exit(5)
print("TRACE child", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
loader = torch.utils.data.DataLoader(list(range(8)), batch_size=2, num_workers=2)
for batch in loader:
    total = hvd.allreduce(batch.float().sum(), op=hvd.Sum)
print("TRACE total", total.item())
"""
    assert traces(f"{WITH_STAND_IN}{source}{END}", tmp_path) == [{"child": "5", "total": "26.0"}] * 2


@pytest.mark.ranks
def test_torch_distributed_can_be_used_beside_it(tmp_path: Path) -> None:
    source = """
import torch
import torch.distributed as dist
import horovod.torch as hvd
hvd.init()
assert not dist.is_initialized()
dist.init_process_group("gloo")
number = torch.tensor([dist.get_rank() + 1.0])
handle = hvd.allreduce_async(number, op=hvd.Sum)
dist.all_reduce(number.clone())
total = hvd.synchronize(handle)
dist.all_reduce(total)
print("TRACE total", total.item())
dist.destroy_process_group()
print("TRACE after", hvd.allreduce(number).item())
"""
    assert traces(f"{WITH_STAND_IN}{source}{END}", tmp_path) == [{"total": "6.0", "after": "1.5"}] * 2


@pytest.mark.ranks
def test_what_makes_horovod_crash_does_not(tmp_path: Path) -> None:
    source = """
import os
os.environ["HOROVOD_DYNAMIC_PROCESS_SETS"] = "1"
import torch
import horovod.torch as hvd
for start in range(3):
    hvd.init()
    print("TRACE", start, hvd.allreduce(torch.tensor([1.0 + hvd.rank()])).item())
    try:
        hvd.alltoall(torch.tensor(1.0))
    except hvd.HorovodInternalError as error:
        print("TRACE scalar", error)
    try:
        hvd.add_process_set([0, 7])
    except ValueError as error:
        print("TRACE set", error)
    hvd.shutdown()
"""
    assert traces(WITH_STAND_IN + source, tmp_path) == 2 * [
        {
            "0": "1.5",
            "1": "1.5",
            "2": "1.5",
            "scalar": "Process-set rank zero tried to ALLTOALL a rank-zero tensor.",
            "set": "A process set has ranks that are not among the 2 there are: [0, 7]",
        }
    ]
