"""How far two runs are apart over time: step by step, and parameter by parameter."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Literal

from migrator.parity.alignment import PairedOptimizer, PairedParameter, PairedStep, real_steps
from migrator.parity.comparison import Difference, Distance, Kind, ParameterDivergence, StepDistance
from migrator.parity.differences import between_gradients
from migrator.parity.distance import between_tensors, mean
from migrator.parity.trace import Step, Trace

Place = tuple[int, int]


def steps_per_second(trace: Trace) -> float | None:
    """How fast rank 0 trains: one over the median time from step to step, so that a pause does not count."""
    times = [step.seconds for step in real_steps(trace.ranks[0])] if trace.ranks else []
    intervals = sorted(later - earlier for earlier, later in pairwise(times))
    median = intervals[len(intervals) // 2] if intervals else 0.0
    return 1 / median if median > 0 else None


def step_distances(
    pairs: Sequence[PairedOptimizer], found: Sequence[Difference], variation: Sequence[Difference] | None
) -> tuple[StepDistance, ...]:
    """Every step over all ranks, in the order in which they were taken; ``variation`` is that of the original."""
    places: dict[Place, list[PairedStep]] = {}
    for pair in pairs:
        for step in pair.steps:
            places.setdefault((pair.number, step.number), []).append(step)
    worst = {kind: _worst(found, kind) for kind in _KINDS}
    noise = _worst(variation, "parameter") if variation is not None else None
    ordered = sorted(places.items(), key=lambda each: (min(step.order for step in each[1]), each[0]))
    return tuple(_step_distance(place, steps, worst, noise) for place, steps in ordered)


_KINDS: tuple[Kind, ...] = ("loss", "gradient", "parameter")


def _step_distance(
    place: Place,
    steps: Sequence[PairedStep],
    worst: dict[Kind, dict[Place, float]],
    noise: dict[Place, float] | None,
) -> StepDistance:
    ours, theirs = _loss([step.original for step in steps]), _loss([step.migrated for step in steps])
    recorded = any(step.is_recorded for step in steps)
    graded = any(step.original.gradients and step.migrated.gradients for step in steps)
    return StepDistance(
        optimizer=place[0],
        step=place[1],
        original_loss=ours,
        migrated_loss=theirs,
        loss=None if ours is None or theirs is None else worst["loss"].get(place, 0.0),
        gradient=worst["gradient"].get(place, 0.0) if graded else None,
        parameter=worst["parameter"].get(place, 0.0) if recorded else None,
        noise=noise.get(place, 0.0) if noise is not None and recorded else None,
    )


def _loss(steps: Sequence[Step]) -> float | None:
    return mean([loss for step in steps for loss in step.losses])


def _worst(differences: Sequence[Difference], kind: Kind) -> dict[Place, float]:
    worst: dict[Place, float] = {}
    for each in differences:
        if each.kind == kind and each.step is not None:
            place = each.optimizer, each.step
            worst[place] = max(each.worst, worst.get(place, 0.0))
    return worst


def divergences(pairs: Sequence[PairedOptimizer]) -> tuple[ParameterDivergence, ...]:
    """Every parameter that differs at some step, on the rank where it does so first, by that step."""
    found: dict[tuple[int, str], ParameterDivergence] = {}
    for pair in pairs:
        for parameter in pair.parameters:
            if divergence := _divergence(pair, parameter):
                key = divergence.optimizer, divergence.name
                found[key] = min(found.get(key, divergence), divergence, key=lambda each: each.step)
    return tuple(sorted(found.values(), key=lambda each: each.step))


def _divergence(pair: PairedOptimizer, each: PairedParameter) -> ParameterDivergence | None:
    states = ((step.number, what, distance) for step in pair.steps for what, distance in _distances(step, each))
    first = next(states, None)
    if first is None:
        return None
    step, what, distance = first
    recorded = [step for step in pair.steps if step.is_recorded]
    last = _parameter_distance(recorded[-1], each) if recorded else None
    name, shape = each.parameter.name, each.parameter.shape
    return ParameterDivergence(pair.number, name, shape, step, pair.rank, what, distance, last)


def _distances(step: PairedStep, each: PairedParameter) -> Iterator[tuple[Literal["gradient", "parameter"], Distance]]:
    ours, theirs = step.original.gradients, step.migrated.gradients
    if ours and theirs:
        distance = between_gradients(ours[each.original], theirs[each.migrated], each.parameter.dtype)
        if distance and distance.relative:
            yield "gradient", distance
    if step.is_recorded and (distance := _parameter_distance(step, each)):
        yield "parameter", distance


def _parameter_distance(step: PairedStep, each: PairedParameter) -> Distance | None:
    ours, theirs = step.original.parameters[each.original], step.migrated.parameters[each.migrated]
    return between_tensors(ours, theirs, each.parameter.dtype)
