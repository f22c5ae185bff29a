"""Where two runs part: in their numbers, step by step and rank by rank, and in what surrounds them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from migrator.parity import collectives, printed
from migrator.parity.alignment import PairedOptimizer, PairedStep, is_cut_off, paired_ranks, plain, real_steps
from migrator.parity.comparison import KINDS, Difference, Distance, Drift, Kind, SideName
from migrator.parity.distance import between_numbers, between_sequences, between_tensors
from migrator.parity.noise import Judge
from migrator.parity.trace import Optimizer, Rank, Save, Tensor, Trace

Output = tuple[tuple[str, ...], ...]
_LAST = math.inf


def in_causal_order(differences: Sequence[Difference]) -> list[Difference]:
    """Differences by step, within it by cause and effect, then by rank."""
    return sorted(differences, key=lambda each: (each.order, KINDS.index(each.kind), each.rank or 0))


def differences_between(original: Trace, migrated: Trace, pairs: Sequence[PairedOptimizer]) -> Iterator[Difference]:
    """Every difference of two traces, that of each step by itself; printed lines apart."""
    yield from _of_ranks(original, migrated)
    for ours, theirs in paired_ranks(original, migrated):
        own = [pair for pair in pairs if pair.rank == ours.rank]
        yield from _of_optimizers(ours, theirs, own)
        yield from _of_training(own)
        yield from _of_step_counts(ours, theirs, own)
        yield from _of_reductions(ours, theirs, own)
        yield from _of_values(ours, theirs)
        yield from _of_saves(ours, theirs)
        if ours.rank == 0:
            yield from _of_buffers(ours, theirs)


def printed_differences(original: Output, migrated: Output, again: Output | None) -> Iterator[Difference]:
    """The first line of each rank that prints other numbers."""
    for rank, (ours, theirs) in enumerate(zip(original, migrated, strict=False)):
        repeated = again[rank] if again is not None and rank < len(again) else None
        found = next(printed.mismatches(ours, theirs, repeated), None)
        if found is None:
            continue
        distance = between_numbers(float(found.numbers[0]), float(found.numbers[1])) if found.numbers else None
        name = " / ".join(found.numbers or ())
        yield Difference(
            "output", rank, None, found.original, found.migrated, name, 1, distance, _relative(distance), order=_LAST
        )


def drift_of(trace: Trace, side: SideName, beside: Trace | None = None) -> Drift | None:
    """The first step after which ranks do not hold the same weights, be it before the first; or None.

    Where those of the trace ``beside`` do not either, it does not count.
    """
    found = [drift for rank in trace.ranks[1:] for drift in _drifts(trace.ranks[0], rank, side)]
    others = beside.ranks[1:] if beside else ()
    known = [drift for rank in others for drift in _drifts(beside.ranks[0], rank, "original")] if beside else []
    places = {(each.optimizer, each.step) for each in known}
    new = [each for each in found if (each.optimizer, each.step) not in places]
    return min(new, key=lambda each: (each.step, each.optimizer, each.rank), default=None)


def _drifts(first: Rank, rank: Rank, side: SideName) -> Iterator[Drift]:
    """Every step after which two ranks do not hold the same."""
    for number, (ours, theirs) in enumerate(zip(first.optimizers, rank.optimizers, strict=False), 1):
        names = [each.name for each in ours.parameters]
        if not _is_same_form(ours, theirs):
            continue
        steps = [[step for step in real_steps(each) if step.optimizer == ours.number] for each in (first, rank)]
        states = [(ours.start, theirs.start)]
        states += [(step.parameters, other.parameters) for step, other in zip(*steps, strict=False)]
        for step, (own, other) in enumerate(states):
            if apart := [
                name for name, *pair in zip(names, own, other, strict=False) if between_tensors(pair[0], pair[1])
            ]:
                yield Drift(side, step, number, apart[0], rank.rank, tuple(apart))


def _is_same_form(first: Optimizer, other: Optimizer) -> bool:
    """Whether two ranks have the same optimizer; Keras numbers layers by how many there were before."""
    pairs = zip(first.parameters, other.parameters, strict=False)
    return len(first.parameters) == len(other.parameters) and all(
        each.shape == theirs.shape and (each.name == theirs.name or "/" in each.name) for each, theirs in pairs
    )


def _of_ranks(original: Trace, migrated: Trace) -> Iterator[Difference]:
    ours, theirs = (trace.ranks[0].size if trace.ranks else 0 for trace in (original, migrated))
    if ours != theirs:
        yield Difference("ranks", None, None, str(ours), str(theirs), order=-2)


def _of_optimizers(ours: Rank, theirs: Rank, pairs: Sequence[PairedOptimizer]) -> Iterator[Difference]:
    types = [[each.type for each in rank.optimizers] for rank in (ours, theirs)]
    is_cut = len(types[0]) != len(types[1]) and (is_cut_off(ours) or is_cut_off(theirs))
    paired = [(pair.original.type, pair.migrated.type) for pair in pairs]
    if is_cut or (len(pairs) == len(types[0]) == len(types[1]) and all(one == other for one, other in paired)):
        return
    yield Difference("optimizer", ours.rank, 0, _optimizers(ours), _optimizers(theirs), order=-1)


def _optimizers(rank: Rank) -> str:
    return ", ".join(f"{each.type} of {len(each.parameters)} parameters" for each in rank.optimizers) or "none"


def _of_training(pairs: Sequence[PairedOptimizer]) -> Iterator[Difference]:
    for pair in pairs:
        start = pair.original.start, pair.migrated.start
        yield from _of_tensors(pair, "weights", 0, _first_order(pair) - 0.5, *start)
        steps = [difference for step in pair.steps for difference in _of_step(pair, step)]
        is_harmless = not any(each.kind == "parameter" for each in steps)
        yield from (each for each in steps if not (is_harmless and _is_absent_zero(each)))


def _first_order(pair: PairedOptimizer) -> int:
    return pair.steps[0].order if pair.steps else 0


def _of_step(pair: PairedOptimizer, step: PairedStep) -> Iterator[Difference]:
    ours, theirs = step.original, step.migrated

    def found(kind: Kind, original: str, migrated: str, distance: Distance | None = None) -> Difference:
        return Difference(
            kind, pair.rank, step.number, original, migrated, "", pair.number, distance, _relative(distance),
            order=step.order,
        )  # fmt: skip

    if ours.batch and theirs.batch and ours.batch != theirs.batch:
        yield found("batch", ours.batch, theirs.batch)
    if ours.backwards != theirs.backwards:
        yield found("backwards", str(ours.backwards), str(theirs.backwards))
    elif distance := between_sequences(ours.losses, theirs.losses):
        yield found("loss", _numbers(ours.losses), _numbers(theirs.losses), distance)
    yield from _of_tensors(pair, "gradient", step.number, step.order, ours.gradients, theirs.gradients)
    if distance := between_sequences(ours.rates, theirs.rates, "float64"):
        yield found("rate", _numbers(ours.rates), _numbers(theirs.rates), distance)
    yield from _of_tensors(pair, "parameter", step.number, step.order, ours.parameters, theirs.parameters)


def _of_tensors(
    pair: PairedOptimizer,
    kind: Kind,
    step: int,
    order: float,
    ours: Sequence[Tensor | None],
    theirs: Sequence[Tensor | None],
) -> Iterator[Difference]:
    if not ours or not theirs:
        return
    apart = []
    for each in pair.parameters:
        own, other = ours[each.original], theirs[each.migrated]
        if distance := between_gradients(own, other, each.parameter.dtype):
            apart.append((each.parameter.name, own, other, distance))
    if apart:
        name, own, other, distance = apart[0]
        worst = max(each.relative for *_, each in apart)
        yield Difference(
            kind, pair.rank, step, shown_tensor(own), shown_tensor(other), name, pair.number, distance, worst,
            len(apart), order,
        )  # fmt: skip


def between_gradients(original: Tensor | None, migrated: Tensor | None, dtype: str) -> Distance | None:
    """The distance of two gradients, where a missing one is as far from zeros as bits can tell."""
    if original is None or migrated is None:
        if original is migrated:
            return None
        norm = (original or migrated or Tensor("", 0.0, ())).norm
        return Distance(norm, 1.0 if norm else 0.0, math.inf if norm else 0.0)
    return between_tensors(original, migrated, dtype)


def shown_tensor(tensor: Tensor | None) -> str:
    """A tensor by its norm."""
    if tensor is None:
        return "none"
    return "zeros" if tensor.norm == 0 else f"norm {tensor.norm:.6g}"


def _is_absent_zero(difference: Difference) -> bool:
    return {difference.original, difference.migrated} == {"none", "zeros"} and difference.worst == 0


def _of_step_counts(ours: Rank, theirs: Rank, pairs: Sequence[PairedOptimizer]) -> Iterator[Difference]:
    if is_cut_off(ours) or is_cut_off(theirs):
        return
    counts = [pair.counts for pair in pairs if pair.counts[0] != pair.counts[1]]
    if not pairs and bool(ours.steps) != bool(theirs.steps):
        counts = [(len(real_steps(ours)), len(real_steps(theirs)))]
    for own, other in counts[:1]:
        yield Difference("steps", ours.rank, None, str(own), str(other), order=min(own, other))


def _of_reductions(ours: Rank, theirs: Rank, pairs: Sequence[PairedOptimizer]) -> Iterator[Difference]:
    if theirs.steps and not collectives.weight_broadcasts(theirs) and (sent := collectives.weight_broadcasts(ours)):
        yield Difference("broadcast", ours.rank, 0, f"{sent[0].elements} elements", "nothing", order=-1)
    for pair in pairs:
        if missing := collectives.missing_reduction(pair, is_only=len(pairs) == 1):
            step, own, other = missing
            order = pair.steps[step - 1].order
            yield Difference("reduction", pair.rank, step, str(own), str(other), order=order)
    sums = [collectives.reduced_elements(rank) for rank in (ours, theirs)]
    if len(pairs) > 1 and sums[0] and not sums[1] and len(real_steps(theirs)):
        yield Difference("reduction", ours.rank, 1, str(sums[0]), "0")


def _of_values(ours: Rank, theirs: Rank) -> Iterator[Difference]:
    found = collectives.mismatch_of(ours, theirs)
    if found is None:
        return
    call = found.original or found.migrated
    step = call.step if call else 0
    texts = collectives.shown(found.original), collectives.shown(found.migrated)
    order = step - 1 if step else _LAST
    yield Difference("collective", ours.rank, step or None, *texts, f"number {found.place}", order=order)


def _of_saves(ours: Rank, theirs: Rank) -> Iterator[Difference]:
    for own, other in zip(ours.saves, theirs.saves, strict=False):
        if own.keys != other.keys:
            yield Difference("checkpoint-keys", ours.rank, None, *_other_keys(own, other), own.file, order=_LAST)
        elif own.values != other.values:
            yield Difference("checkpoint-values", ours.rank, None, own.values, other.values, own.file, order=_LAST)
    if len(ours.saves) != len(theirs.saves) and not (is_cut_off(ours) or is_cut_off(theirs)):
        yield Difference("checkpoints", ours.rank, None, str(len(ours.saves)), str(len(theirs.saves)), order=_LAST)


def _other_keys(ours: Save, theirs: Save) -> tuple[str, str]:
    pairs = [pair for pair in zip(ours.sample, theirs.sample, strict=False) if pair[0] != pair[1]]
    return pairs[0] if pairs else (f"{ours.tensors} tensors", f"{theirs.tensors} tensors")


def _of_buffers(ours: Rank, theirs: Rank) -> Iterator[Difference]:
    distances = buffer_distances(ours, theirs)
    if distances:
        name, own, other, distance = distances[0]
        worst = max(each.relative for *_, each in distances)
        texts = shown_tensor(own), shown_tensor(other)
        yield Difference("buffer", ours.rank, None, *texts, name, 1, distance, worst, len(distances), _LAST)


def buffer_distances(ours: Rank, theirs: Rank) -> list[tuple[str, Tensor, Tensor, Distance]]:
    """The buffers that both ranks have at their end and that differ."""
    if ours.end is None or theirs.end is None:
        return []
    others = {plain(name): tensor for name, tensor in theirs.end.buffers.items()}
    pairs = [(name, own, others[plain(name)]) for name, own in ours.end.buffers.items() if plain(name) in others]
    return [(*pair, distance) for pair in pairs if (distance := between_tensors(*pair[1:]))]


def _numbers(values: Sequence[float]) -> str:
    return ", ".join(f"{value:.9g}" for value in values) or "none"


def _relative(distance: Distance | None) -> float:
    return distance.relative if distance else 0.0


def first_of_each_kind(differences: Sequence[Difference], is_noise: Judge) -> tuple[Difference, ...]:
    """Of each kind the first difference that noise does not explain, or else the first; in causal order."""
    judged = [replace(each, is_noise=is_noise(each)) for each in in_causal_order(differences)]
    firsts: dict[Kind, Difference] = {}
    for each in sorted(judged, key=lambda each: each.is_noise):
        firsts.setdefault(each.kind, each)
    return tuple(in_causal_order(list(firsts.values())))
