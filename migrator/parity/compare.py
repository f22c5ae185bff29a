"""Comparing a run of the original program with one of the migrated program, and saying what it means."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from migrator.parity.alignment import PairedOptimizer, paired_optimizers, paired_ranks, real_steps, with_trained
from migrator.parity.comparison import Comparison, Difference, Drift, Extent, Failure, Noise, SideName, Verdict
from migrator.parity.conditions import conditions
from migrator.parity.differences import (
    Output,
    buffer_distances,
    differences_between,
    drift_of,
    first_of_each_kind,
    in_causal_order,
    printed_differences,
)
from migrator.parity.evidence import Evidence
from migrator.parity.noise import judge, largest_by_kind
from migrator.parity.progress import divergences, step_distances
from migrator.parity.reasons import reasons
from migrator.parity.trace import Rank, Trace


@dataclass(frozen=True)
class Side:
    """One run: its trace, the lines that each rank printed on stdout, and why it failed, if it did."""

    trace: Trace
    output: Output = ()
    failure: Failure | None = None


def compare(original: Side, migrated: Side, again: Side | None = None, noise: float | None = None) -> Comparison:
    """Compare two runs, and say whether they are the same.

    ``again`` is another run of the original: what it differs by from the first is noise. So is what lies within the
    relative distance ``noise``, if that is given. ``Comparison.wants_noise`` tells whether ``again`` could matter.
    """
    original, migrated = (replace(side, trace=with_trained(side.trace)) for side in (original, migrated))
    again = again and replace(again, trace=with_trained(again.trace))
    repeated = again if again is not None and not again.failure and again.trace.ranks else None
    pairs = _pairs(original.trace, migrated.trace)
    variation = _variation(original.trace, repeated.trace) if repeated else []
    found = _differences(original, migrated, pairs, repeated)
    kept = first_of_each_kind(found, judge(found, variation, noise))
    failures = dict(_failures(original, migrated))
    comparison = Comparison(
        verdict=_verdict(failures, kept),
        extent=_extent(original.trace, migrated.trace, pairs),
        conditions=conditions(original.trace, migrated.trace, pairs),
        differences=kept,
        drifts=_drifts(original.trace, migrated.trace),
        steps=step_distances(pairs, found, variation if repeated else None),
        parameters=divergences(pairs),
        noise=Noise(noise, largest_by_kind(variation)) if repeated or noise is not None else None,
        notes=tuple(_notes(original, migrated, again, pairs)),
        failures=failures,
    )
    return replace(comparison, reasons=reasons(Evidence(original.trace, migrated.trace, pairs, comparison)))


def _pairs(original: Trace, migrated: Trace) -> tuple[PairedOptimizer, ...]:
    return tuple(pair for ranks in paired_ranks(original, migrated) for pair in paired_optimizers(*ranks))


def _differences(
    original: Side, migrated: Side, pairs: Sequence[PairedOptimizer], again: Side | None
) -> list[Difference]:
    found = list(differences_between(original.trace, migrated.trace, pairs))
    if not (original.failure or migrated.failure):
        found += printed_differences(original.output, migrated.output, again.output if again else None)
    return in_causal_order([*found, *_other_drift(original.trace, migrated.trace, "migrated")])


def _variation(original: Trace, again: Trace) -> list[Difference]:
    found = list(differences_between(original, again, _pairs(original, again)))
    return in_causal_order([*found, *_other_drift(original, again, "original")])


def _other_drift(original: Trace, other: Trace, side: SideName) -> Iterator[Difference]:
    """Where the ranks of the other run part, and those of the original do not."""
    if drift := drift_of(other, side, original):
        yield _drifted(drift, other)


def _drifts(original: Trace, migrated: Trace) -> tuple[Drift, ...]:
    """Where the ranks of one side part, and those of the other do not."""
    sides = drift_of(original, "original", migrated), drift_of(migrated, "migrated", original)
    return tuple(filter(None, sides))


def _drifted(drift: Drift, trace: Trace) -> Difference:
    number = trace.ranks[0].optimizers[drift.optimizer - 1].number
    orders = [order for order, step in enumerate(real_steps(trace.ranks[0])) if step.optimizer == number]
    return Difference(
        kind="drift",
        rank=drift.rank,
        step=drift.step,
        original="same",
        migrated="differ",
        name=drift.parameter,
        optimizer=drift.optimizer,
        count=len(drift.names),
        order=orders[drift.step - 1] if drift.step else -0.5,
    )


def _failures(original: Side, migrated: Side) -> Iterator[tuple[SideName, Failure]]:
    early = _early_end(original.trace, migrated.trace)
    if failure := original.failure or _failure_in(original.trace):
        yield "original", failure
    elif _is_nothing(original) and _is_nothing(migrated):
        yield (
            "original",
            Failure(None, "no optimizer took a step, and nothing else was recorded that could be compared"),
        )
    if failure := migrated.failure or _failure_in(migrated.trace) or early:
        yield "migrated", failure


def _failure_in(trace: Trace) -> Failure | None:
    if not trace.ranks:
        return Failure(None, "no rank left a trace")
    failed = next((rank for rank in trace.ranks if rank.end and rank.end.error), None)
    if failed and failed.end:
        return Failure(failed.rank, failed.end.error)
    lost = sorted(set(range(trace.ranks[0].size)) - {rank.rank for rank in trace.ranks})
    return Failure(lost[0], "it left no trace") if lost else None


def _early_end(original: Trace, migrated: Trace) -> Failure | None:
    for ours, theirs in paired_ranks(original, migrated):
        steps = len(real_steps(theirs))
        if theirs.end is None and steps < len(real_steps(ours)):
            return Failure(theirs.rank, f"its trace ends after step {steps}: it crashed or was killed")
    return None


def _is_nothing(side: Side) -> bool:
    return not any(side.output) and not any(map(_has_events, side.trace.ranks))


def _has_events(rank: Rank) -> bool:
    return bool(real_steps(rank) or rank.saves or (rank.end and (rank.end.collectives or rank.end.buffers)))


def _verdict(failures: Mapping[SideName, Failure], differences: Sequence[Difference]) -> Verdict:
    if failures:
        return "could-not-run"
    if not differences:
        return "equal"
    return "within-noise" if all(each.is_noise for each in differences) else "different"


def _extent(original: Trace, migrated: Trace, pairs: Sequence[PairedOptimizer]) -> Extent:
    ranks = [ours.rank for ours, _ in paired_ranks(original, migrated)]
    steps = [[step for pair in pairs if pair.rank == rank for step in pair.steps] for rank in ranks]
    longest = max(steps, key=len, default=[])
    return Extent(len(ranks), len(longest), sum(step.is_recorded for step in longest))


def _notes(original: Side, migrated: Side, again: Side | None, pairs: Sequence[PairedOptimizer]) -> Iterator[str]:
    for name, side in (("original", original), ("migrated", migrated)):
        for rank in side.trace.ranks:
            if rank.end is None:
                yield f"the {name} trace of rank {rank.rank} was cut off after step {len(real_steps(rank))}"
    steps = [step for pair in pairs for step in pair.steps]
    recorded = sum(step.is_recorded for step in steps)
    if recorded < len(steps):
        yield f"gradients and parameters were recorded in {recorded} of {len(steps)} steps"
    if steps and not any(step.original.batch and step.migrated.batch for step in steps):
        yield "no batches were recorded: the order of the data was not compared"
    if again is not None and (again.failure or not again.trace.ranks):
        yield "the original failed when it was run again: its noise is not known"
    yield from _buffer_notes(original.trace, migrated.trace)


def _buffer_notes(original: Trace, migrated: Trace) -> Iterator[str]:
    pairs = [pair for pair in paired_ranks(original, migrated) if pair[0].rank > 0]
    others = [str(ours.rank) for ours, theirs in pairs if buffer_distances(ours, theirs)]
    if others:
        yield (
            f"buffers differ on rank {', '.join(others)}, which counts as no difference: under DDP all ranks have the "
            "statistics of rank 0, under Horovod their own"
        )
