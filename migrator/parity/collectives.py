"""The collectives of two runs, and of the ranks of one, compared by kind, reduction, dtype, size, order and number."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from migrator.parity.alignment import PairedOptimizer, PairedStep, is_cut_off, real_steps
from migrator.parity.failures import is_lost
from migrator.parity.trace import Collective, Rank, Trace

NOTHING = "nothing"
UNSIZED = ("barrier", "object", "join")


@dataclass(frozen=True)
class Call:
    """A collective with the step that followed it, from 1; 0 is after the last."""

    collective: Collective
    step: int


@dataclass(frozen=True)
class Mismatch:
    """Two calls at the same place of the order; one of them may be missing."""

    place: int
    original: Call | None
    migrated: Call | None


def shown(call: Call | None) -> str:
    """A collective in words."""
    if call is None:
        return NOTHING
    each = call.collective
    reduction = f" ({each.reduction})" if each.reduction else ""
    size = "" if each.kind in UNSIZED else f" of {each.elements} {each.dtype}"
    name = "exchange of objects" if each.kind == "object" else each.kind
    return f"{name}{reduction}{size}"


def values(rank: Rank) -> tuple[Call, ...]:
    """What a program exchanges besides gradients and state, in order."""
    return tuple(call for call in _calls(rank) if call.collective.purpose == "value")


def mismatch_of(original: Rank, migrated: Rank) -> Mismatch | None:
    """Where what a rank exchanges parts; one that failed because it lost another rank waited for that in vain."""
    is_cut = any(map(is_cut_off, (original, migrated))) and not (migrated.end and is_lost(migrated.end.error))
    return first_mismatch(values(original), values(migrated), is_cut)


def first_mismatch(original: Sequence[Call], migrated: Sequence[Call], is_cut: bool) -> Mismatch | None:
    """Where two sequences part; one that was cut off says nothing about what would have followed."""
    found = _first_mismatch(original, migrated, by_step=False)
    if found is None or (found.original and found.migrated):
        return found
    return None if is_cut else _first_mismatch(original, migrated, by_step=True)


def _first_mismatch(original: Sequence[Call], migrated: Sequence[Call], by_step: bool) -> Mismatch | None:
    place = other_place = 0
    while place < len(original) or other_place < len(migrated):
        call, other = _at(original, place), _at(migrated, other_place)
        following = _at(migrated, other_place + 1)
        if other and other.collective.kind == "barrier" and _is_pair(call, following, by_step):
            other_place += 1
        elif _is_pair(call, other, by_step):
            place, other_place = place + 1, other_place + 1
        elif call and call.collective.kind == "barrier":
            place += 1
        elif other and other.collective.kind == "barrier":
            other_place += 1
        else:
            return _without_later(Mismatch(place + 1, call, other))
    return None


def _at(calls: Sequence[Call], place: int) -> Call | None:
    return calls[place] if place < len(calls) else None


def _is_pair(call: Call | None, other: Call | None, by_step: bool) -> bool:
    if call is None or other is None or (by_step and call.step != other.step):
        return False
    return _is_alike(call.collective, other.collective)


def _without_later(mismatch: Mismatch) -> Mismatch:
    """Of two calls that are alike but come before different steps, the later one has no counterpart yet."""
    ours, theirs = mismatch.original, mismatch.migrated
    if ours is None or theirs is None or ours.step == theirs.step:
        return mismatch
    is_ours_first = (ours.step or math.inf) < (theirs.step or math.inf)
    return Mismatch(mismatch.place, ours if is_ours_first else None, None if is_ours_first else theirs)


def other_order(trace: Trace) -> tuple[int, Mismatch] | None:
    """The first rank that makes the calls of rank 0 in another order, and where."""
    if not trace.ranks:
        return None
    first = values(trace.ranks[0])
    for rank in trace.ranks[1:]:
        calls = values(rank)
        pairs = enumerate(zip(first, calls, strict=False), 1)
        mixed = next((Mismatch(n, *pair) for n, pair in pairs if not _is_alike(*(c.collective for c in pair))), None)
        if mixed and _counted(first) == _counted(calls):
            return rank.rank, mixed
    return None


def reduced_elements(rank: Rank) -> int:
    """The elements of all gradients that a rank reduced."""
    return sum(reduced_in(step.collectives) for step in real_steps(rank))


def missing_reduction(paired: PairedOptimizer, is_only: bool) -> tuple[int, int, int] | None:
    """The first step whose gradients the other run does not reduce, or not all: the step, and elements of each side.

    With several optimizers a step may reduce what belongs to another: then nothing follows from one step. Where the
    original reduces fewer elements than there are, gradients are sparse.
    """
    for step in paired.steps if is_only else ():
        ours, theirs = (reduced_in(side.collectives) for side in (step.original, step.migrated))
        if ours and not theirs:
            return step.number, ours, 0
        live = live_elements(paired, step)
        if ours >= live > theirs:
            return step.number, ours, theirs
    return None


def live_elements(paired: PairedOptimizer, step: PairedStep) -> int:
    """The elements of the parameters with gradients that are not zero, in the migrated run."""
    gradients = step.migrated.gradients
    live = [each for each in paired.parameters if gradients and (found := gradients[each.migrated]) and found.norm]
    return sum(math.prod(each.parameter.shape) for each in live)


def reduced_in(collectives: Sequence[Collective]) -> int:
    """The elements of the gradients that a step reduces."""
    return sum(each.elements for each in collectives if each.purpose == "gradients")


def weight_broadcasts(rank: Rank) -> list[Collective]:
    """The broadcasts of at least as many elements as the first optimizer has."""
    size = sum(math.prod(each.shape) for optimizer in rank.optimizers[:1] for each in optimizer.parameters)
    state = [call.collective for call in _calls(rank) if call.collective.purpose == "state"]
    return [each for each in state if each.elements >= size]


def _calls(rank: Rank) -> Iterator[Call]:
    number = 0
    for step in rank.steps:
        number += not step.is_initial
        yield from (Call(each, number) for each in step.collectives)
    yield from (Call(each, 0) for each in (rank.end.collectives if rank.end else ()))


def _is_alike(original: Collective, migrated: Collective) -> bool:
    if migrated.kind == "barrier" and original.kind == "allreduce":
        return original.elements <= 1
    if original.kind == migrated.kind and original.kind in UNSIZED:
        return True
    if (original.kind, migrated.kind) == (
        "reducescatter",
        "allreduce",
    ):  # TensorFlow has no other; a rank takes its rows
        return _is_alike(original, replace(migrated, kind=original.kind))
    same = (original.kind, original.dtype, original.elements) == (migrated.kind, migrated.dtype, migrated.elements)
    return same and (original.reduction == migrated.reduction or _may_be_mean(original, migrated))


def _may_be_mean(first: Collective, second: Collective) -> bool:
    reductions = {first.reduction, second.reduction}
    return reductions == {"average", "sum"} and any(
        each.reduction == "sum" and not each.is_exact for each in (first, second)
    )


def _counted(calls: Sequence[Call]) -> Counter[Collective]:
    return Counter(call.collective for call in calls)
