"""Causes in the data: another order, another share, another number of steps."""

from __future__ import annotations

from collections.abc import Sequence

from migrator.parity.comparison import Difference, Reason
from migrator.parity.distance import ratio
from migrator.parity.evidence import Evidence, is_near


def other_batches(evidence: Evidence) -> Reason | None:
    """Another order, another share of the data, or other data."""
    found, pair = evidence.first, evidence.pair(evidence.first) if evidence.first else None
    if found is None or pair is None or found.kind != "batch" or not found.step:
        return None
    ours = [step.original.batch for step in pair.steps]
    theirs = [step.migrated.batch for step in pair.steps]
    return _repeated(ours, theirs, found.step - 1) or _other_share(evidence, found) or _other_order(ours, theirs)


def _repeated(ours: Sequence[str], theirs: Sequence[str], place: int) -> Reason | None:
    repeats = [place > 0 and batches[place] == batches[0] for batches in (ours, theirs)]
    start = f"from step {place + 1} on the"
    if repeats == [False, True]:
        text = f"{start} migrated program is given its first batches again: set_epoch is not called"
        return Reason("no-set-epoch", text, "HVD401")
    if repeats == [True, False]:
        text = f"{start} original is given its first batches again, the migrated program is not"
        return Reason("original-repeats", text, "HVD401")
    return None


def _other_share(evidence: Evidence, found: Difference) -> Reason | None:
    place = (found.step or 1) - 1
    pairs = [pair for pair in evidence.pairs if pair.number == found.optimizer and place < len(pair.steps)]
    ours = {pair.rank: pair.steps[place].original.batch for pair in pairs}
    theirs = {pair.rank: pair.steps[place].migrated.batch for pair in pairs}
    if len(set(theirs.values())) == 1 < len(set(ours.values())):
        text = "all ranks of the migrated program are given the same batches: the data is not shared out among them"
        return Reason("not-sharded", text, "HVD103")
    other = next((rank for rank, batch in ours.items() if batch == theirs[found.rank or 0]), None)
    if other is not None:
        text = f"rank {found.rank} of the migrated program is given the batches of the original's rank {other}"
        return Reason("other-shard", text, "HVD103")
    return None


def _other_order(ours: Sequence[str], theirs: Sequence[str]) -> Reason:
    if sorted(ours) == sorted(theirs):
        return Reason("other-order", "the migrated program is given the same batches in another order")
    text = "the migrated program is given other batches: another sampler, seed, batch size or share of the data"
    return Reason("other-batches", text)


def other_steps(evidence: Evidence) -> Reason | None:
    """Another number of steps."""
    found = evidence.of("steps")
    if found is None:
        return None
    if evidence.size > 1 and is_near(ratio(float(found.original), float(found.migrated)), evidence.size):
        text = (
            f"each rank takes {evidence.size} times as many steps: the data is not shared out among the ranks, or "
            "their batches are smaller"
        )
        return Reason("not-sharded", text, "HVD103")
    text = f"rank {found.rank} takes {found.migrated} steps, in the original {found.original}"
    return Reason("other-steps", text)
