"""What both runs should have had in common before their numbers are compared."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from migrator.parity.alignment import PairedOptimizer, paired_ranks
from migrator.parity.comparison import Condition
from migrator.parity.trace import Rank, Trace

WORLD_SIZE = "world size"
RANDOM_STATE = "random state: "
_ABSENT = "-"
_LIBRARIES = ("numpy",)
_REMARKS = {
    "horovod": "differs of course",
    "host": "the machine's name",
    "time": "when it ran",
    "directory": "the copy is elsewhere",
    "executable": "the interpreter's path",
}
_LAUNCHER = (
    "RANK", "WORLD_SIZE", "LOCAL_", "GROUP_", "ROLE_", "MASTER_", "TORCHELASTIC_", "HOROVOD_", "OMPI_", "PMI", "PMIX",
    "HVD_MIGRATE_", "PYTHONPATH", "PWD", "OLDPWD",
)  # fmt: skip


def conditions(original: Trace, migrated: Trace, pairs: Sequence[PairedOptimizer]) -> tuple[Condition, ...]:
    """Every condition that was recorded, those that differ and matter first."""
    found = [
        _size(original, migrated),
        *_arguments(original, migrated),
        *_recorded(original, migrated, lambda rank: rank.conditions, ""),
        *_recorded(original, migrated, lambda rank: rank.random, RANDOM_STATE),
        *_data_order(pairs),
    ]
    return tuple(sorted(found, key=lambda each: (each.is_same, not each.matters)))


def _size(original: Trace, migrated: Trace) -> Condition:
    sizes = [str(trace.ranks[0].size) if trace.ranks else _ABSENT for trace in (original, migrated)]
    return Condition(WORLD_SIZE, sizes[0], sizes[1], matters=True)


def _arguments(original: Trace, migrated: Trace) -> Iterator[Condition]:
    sides = [" ".join(trace.ranks[0].arguments) if trace.ranks else "" for trace in (original, migrated)]
    if any(sides):
        yield Condition("arguments", sides[0], sides[1], matters=True)


def _recorded(
    original: Trace, migrated: Trace, values: Callable[[Rank], Mapping[str, str]], prefix: str
) -> Iterator[Condition]:
    ranks = [[values(rank) for rank in side] for side in zip(*paired_ranks(original, migrated), strict=True)]
    names = {name: None for side in ranks for rank in side for name in rank if name != WORLD_SIZE}
    for name in names:
        ours, theirs = (_shown([rank.get(name, _ABSENT) for rank in side]) for side in ranks)
        remark = _REMARKS.get(name, "")
        if _ABSENT in (ours, theirs) and (prefix or name in _LIBRARIES):
            remark = "not loaded on one side"
        matters = not remark and not name.startswith(_LAUNCHER)
        yield Condition(prefix + name, ours, theirs, matters, remark)


def _shown(values: Sequence[str]) -> str:
    if len(set(values)) <= 1:
        return values[0] if values else _ABSENT
    return ", ".join(f"rank {rank}: {value}" for rank, value in enumerate(values))


def _data_order(pairs: Sequence[PairedOptimizer]) -> Iterator[Condition]:
    steps = [(step, pair.rank) for pair in pairs for step in pair.steps if step.original.batch and step.migrated.batch]
    if not steps:
        return
    other = [(step.order, rank) for step, rank in steps if step.original.batch != step.migrated.batch]
    same = f"{len(steps)} batches"
    if not other:
        yield Condition("data order", same, same, matters=True)
        return
    order, rank = min(other)
    yield Condition(
        "data order", same, f"{len(other)} others, the first in step {order + 1} of rank {rank}", matters=True
    )
