"""Programs with the stand-in and after their migration, against what real Horovod 0.28.1 made of them.

Real Horovod's traces hold to the last bit where a processor and a PyTorch do the programs' arithmetic alike, which the
same programs tell on ranks that send nothing. Elsewhere only what does not depend on rounding is held to them. That the
stand-in and the migrated programs agree with one another is held to the last bit everywhere.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path, PurePath
from typing import Literal

import pytest
from mistakes import MISTAKES, Variation
from ranks import run_on_ranks
from record_parity_programs import ARITHMETIC, PROGRAMS, RANKS, SEED, SILENT, TRACES, arithmetic

from migrator.config import Settings
from migrator.engine import migrate
from migrator.parity.compare import Side, compare
from migrator.parity.comparison import Comparison
from migrator.parity.devices import visible_gpus
from migrator.parity.drivers import starts_ranks
from migrator.parity.launch import STAND_IN, Device, Launch, Recording
from migrator.parity.subjects import of_migration
from migrator.parity.trace import Rank, read_trace
from migrator.parity.trial import Proof, Trial, prove

How = Literal["stand-in", "auto", "ddp", "optimizer"]
NAMES = sorted(path.stem for path in PROGRAMS.glob("*.py"))
DRIVER = "runner_function"
FORKED = [name for name in NAMES if name != DRIVER]
# As facts about both strategies say: what differs from Horovod, and why.
REASONS: dict[tuple[str, How], str] = {
    ("cnn_batchnorm", "auto"): "initial-step",
    ("cnn_batchnorm", "optimizer"): "initial-step",
    ("accumulation", "ddp"): "several-reductions",
    ("sparse_embedding", "ddp"): "sparse-order",
}
OTHERS: list[tuple[str, How]] = [
    ("amp_loop", "optimizer"),
    ("mlp", "optimizer"),
    ("rnn_clipping", "optimizer"),
    ("two_optimizers", "ddp"),
    *(run for run in REASONS if run[1] != "auto"),
]
RUNS: list[tuple[str, How]] = [(name, "auto") for name in FORKED] + OTHERS
# Losses of the programs on processors without AVX-512, or without AVX2, or with other matrix products, were at most
# 2.6e-7 apart; those of wrong programs are farther apart than this.
CLOSE = 1e-5
ROUNDED = {"weights", "batch", "loss", "gradient", "parameter", "buffer", "checkpoint-values", "output"}
HOROVOD = """
import os, sys
sys.path.insert(0, {folder!r})
names = {{"RANK": "RANK", "LOCAL_RANK": "LOCAL_RANK", "WORLD_SIZE": "SIZE", "LOCAL_WORLD_SIZE": "LOCAL_SIZE"}}
os.environ.update({{"HOROVOD_" + name: os.environ[each] for each, name in names.items()}})
os.environ.update(HOROVOD_CROSS_RANK="0", HOROVOD_CROSS_SIZE="1")
"""
RECORDED = """
from migrator.parity.recorder import install
install({folder!r}, seed={seed}, is_deterministic=True)
del install
{source}
"""


def source(name: str, how: How) -> str:
    """A program as it runs with the stand-in, or migrated."""
    if how == "stand-in":
        return HOROVOD.format(folder=str(STAND_IN)) + (PROGRAMS / f"{name}.py").read_text("utf-8")
    return Variation(name, name, (), gradients=how).migrated


def forked(program: str, folder: Path) -> Side:
    """What the ranks of a program record and print; fails if one fails."""
    text = RECORDED.format(folder=str(folder / "trace"), seed=SEED, source=program)
    ranks = run_on_ranks(text, folder, RANKS)
    assert [rank.err for rank in ranks if rank.status or "hvd-migrate recorder" in rank.err] == []
    return Side(read_trace(folder / "trace"), tuple(tuple(rank.out.splitlines()) for rank in ranks))


def real(name: str) -> Side:
    """What the ranks of a program recorded and printed under real Horovod."""
    printed = [TRACES / name / f"rank{rank}.txt" for rank in range(RANKS)]
    lines = [tuple(path.read_text("utf-8").splitlines()) if path.exists() else () for path in printed]
    return Side(read_trace(TRACES / name), tuple(lines[:1] if name == DRIVER else lines))


Run = Callable[[str, How], Side]
Counts = Callable[[str], bool]


@pytest.fixture(scope="module")
def side(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """What the ranks of a program record and print, run once."""

    @cache
    def of(name: str, how: How) -> Side:
        return forked(source(name, how), tmp_path_factory.mktemp(f"{name}-{how}") / "ranks")

    return of


@pytest.fixture(scope="module")
def counts_alike(tmp_path_factory: pytest.TempPathFactory) -> Counts:
    """Whether this machine does the arithmetic of a program as that one did which recorded it."""

    @cache
    def of(name: str) -> bool:
        start = f"import sys\nsys.path.insert(0, {str(SILENT)!r})\n"
        silent = forked(start + (PROGRAMS / f"{name}.py").read_text("utf-8"), tmp_path_factory.mktemp(name) / "ranks")
        return arithmetic(silent.trace) == (TRACES / name / ARITHMETIC).read_text("utf-8").strip()

    return of


def check(found: Comparison, reason: str) -> None:
    """Equal bits, or a difference that has this reason and no other."""
    assert (found.verdict, [each.name for each in found.reasons]) == (
        ("different", [reason]) if reason else ("equal", [])
    ), found.sentence
    assert all(each.is_expected for each in found.reasons)


def is_close(found: Comparison) -> bool:
    """Whether nothing differs but by rounding, as far as that shows in losses."""
    losses = [step.loss for step in found.steps]
    return {each.kind for each in found.differences} <= ROUNDED and all(
        loss is not None and loss <= CLOSE for loss in losses
    )


def check_real(name: str, ours: Side, reason: str, counts_alike: Counts) -> None:
    """As real Horovod trained, or otherwise for this reason."""
    found = compare(real(name), ours)
    if counts_alike(name):
        check(found, reason)
    assert is_close(found) or reason
    if reason not in ("several-reductions", "sparse-order"):
        assert [does(rank) for rank in ours.trace.ranks] == [does(rank) for rank in real(name).trace.ranks]


def does(rank: Rank) -> list[object]:
    """What a rank does that no rounding changes; Horovod's initial steps and what they sent do not count."""
    assert rank.end is not None
    steps = [step for step in rank.steps if not step.is_initial]
    calls = [*(each for step in rank.steps for each in step.collectives), *rank.end.collectives]
    sent = [each for each in calls if each.purpose != "state"]
    return [
        (rank.rank, rank.size, rank.end.error),
        [(each.type, each.parameters) for each in rank.optimizers],
        [(step.optimizer, step.rates, step.backwards, len(step.losses)) for step in steps],
        [(each.kind, each.reduction, each.dtype, each.elements, each.purpose) for each in sent],
        [(each.file, each.tensors, each.keys) for each in rank.saves],
        set(rank.end.buffers),
    ]


@pytest.mark.ranks
@pytest.mark.parametrize("name", FORKED)
def test_the_stand_in_trains_as_real_horovod(name: str, side: Run, counts_alike: Counts) -> None:
    check_real(name, side(name, "stand-in"), "", counts_alike)


@pytest.mark.ranks
@pytest.mark.parametrize(("name", "how"), RUNS)
def test_a_migrated_program_trains_as_real_horovod(name: str, how: How, side: Run, counts_alike: Counts) -> None:
    reason = REASONS.get((name, how), "")
    check(compare(side(name, "stand-in"), side(name, how)), reason)
    check_real(name, side(name, how), reason, counts_alike)


@pytest.mark.ranks
@pytest.mark.parametrize("mistake", ["gradients summed", "learning rate scaled twice", "clipping before averaging"])
def test_a_wrong_program_is_not_close(mistake: str, tmp_path: Path) -> None:
    wrong = next(each for each in MISTAKES if each.name == mistake)
    assert not is_close(compare(real(wrong.program), forked(wrong.migrated, tmp_path / "ranks")))


def proof(name: str, device: Device, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Proof:
    """Both sides of a program, run as the command runs them."""
    tree = folder / "tree"
    tree.mkdir()
    program = Path(f"{name}.py")
    (tree / program).write_bytes((PROGRAMS / program).read_bytes())
    monkeypatch.chdir(tree)
    before, after = of_migration(program, tree, migrate([program], Settings(jobs=1)))
    launch = Launch(
        program.name,
        is_driver=starts_ranks(program.read_bytes()),
        size=RANKS,
        device=device,
        recording=Recording(folder, seed=SEED),
        folder=Path(),
        limit=120,
    )
    original = Trial(before.files, replace(launch, horovod="stand-in"), before.changed)
    return prove(original, Trial(after.files, launch, after.changed), folder / "results", None, lambda *_: None)


@pytest.mark.ranks
def test_a_function_that_a_driver_hands_to_its_ranks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, counts_alike: Counts
) -> None:
    found = proof(DRIVER, "cpu", tmp_path, monkeypatch)
    check(found.comparison, "")
    for run in (found.original, found.migrated):
        check_real(DRIVER, run.side, "", counts_alike)
    lines = source(DRIVER, "auto").splitlines()
    ran = found.migrated.lines[PurePath(f"{DRIVER}.py")]
    assert ran is not None
    assert {lines.index("    model = DDP(model)") + 1, len(lines)} <= ran


@pytest.mark.ranks
@pytest.mark.skipif(not visible_gpus(os.environ), reason="there is no GPU")
@pytest.mark.parametrize("name", NAMES)
def test_programs_on_gpus(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = proof(name, "cuda", tmp_path, monkeypatch)
    assert found.migrated.side.trace.ranks[0].conditions["device"] == "cuda"
    check(found.comparison, REASONS.get((name, "auto"), ""))
