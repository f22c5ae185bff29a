"""Which rank, optimizer, parameter and step of one run belongs to which of another.

Steps of an optimizer are paired in their order, Horovod's initial ones set apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from migrator.parity.trace import Optimizer, Parameter, Rank, Step, Trace


@dataclass(frozen=True)
class PairedStep:
    """The same step of both runs; ``order`` is its place among all steps of the rank."""

    number: int
    order: int
    original: Step
    migrated: Step

    @property
    def is_recorded(self) -> bool:
        """Whether both sides wrote down what the step made of the parameters."""
        return bool(self.original.parameters and self.migrated.parameters)


@dataclass(frozen=True)
class PairedParameter:
    """A parameter, and its place in the optimizer of each side."""

    parameter: Parameter
    original: int
    migrated: int


@dataclass(frozen=True)
class PairedOptimizer:
    """An optimizer of one rank in both runs; ``number`` counts those of the original from 1."""

    rank: int
    number: int
    original: Optimizer
    migrated: Optimizer
    parameters: tuple[PairedParameter, ...]
    steps: tuple[PairedStep, ...]
    counts: tuple[int, int]
    original_initial: tuple[Step, ...]
    migrated_initial: tuple[Step, ...]


def plain(name: str) -> str:
    """A parameter's or buffer's name without the prefixes that wrappers put before it."""
    return name.replace("_orig_mod.", "").removeprefix("module.")


def paired_ranks(original: Trace, migrated: Trace) -> Iterator[tuple[Rank, Rank]]:
    """The ranks that both runs have."""
    others = {rank.rank: rank for rank in migrated.ranks}
    return ((rank, others[rank.rank]) for rank in original.ranks if rank.rank in others)


def with_trained(trace: Trace) -> Trace:
    """A trace without optimizers that took no step but Horovod's initial one."""
    return Trace(tuple(map(_with_trained, trace.ranks)))


def _with_trained(rank: Rank) -> Rank:
    trained = {step.optimizer for step in rank.steps if not step.is_initial}
    optimizers = tuple(each for each in rank.optimizers if each.number in trained)
    return replace(rank, optimizers=optimizers, steps=tuple(step for step in rank.steps if step.optimizer in trained))


def paired_optimizers(original: Rank, migrated: Rank) -> tuple[PairedOptimizer, ...]:
    """The optimizers of a rank by what they hold, first come first paired."""
    left = list(migrated.optimizers)
    pairs = []
    for number, optimizer in enumerate(original.optimizers, 1):
        fitting = next((each for each in left if _fits(optimizer, each)), None)
        if fitting is not None:
            left.remove(fitting)
            pairs.append(_paired(original, migrated, number, optimizer, fitting))
    return tuple(pairs)


def _fits(original: Optimizer, migrated: Optimizer) -> bool:
    """Whether two optimizers hold the same; of one that never took a step that trains nothing is known."""
    return bool(paired_parameters(original, migrated)) or not (original.parameters or migrated.parameters)


def paired_parameters(original: Optimizer, migrated: Optimizer) -> tuple[PairedParameter, ...]:
    """The parameters of two optimizers by name, or by place where names differ; none if the optimizers do not fit."""
    names = [plain(each.name) for each in original.parameters]
    others = {plain(each.name): place for place, each in enumerate(migrated.parameters)}
    if len(set(names)) == len(names) and set(names) == others.keys():
        places = [others[name] for name in names]
    else:
        places = list(range(len(names)))
    if len(names) != len(migrated.parameters):
        return ()
    pairs = [PairedParameter(each, *place) for each, place in zip(original.parameters, enumerate(places), strict=True)]
    fits = all(each.parameter.shape == migrated.parameters[each.migrated].shape for each in pairs)
    return tuple(pairs) if fits else ()


def real_steps(rank: Rank) -> tuple[Step, ...]:
    """A rank's steps without the initial ones; a step that the trace repeats at its end is one step."""
    return tuple(step for step in _once(rank.steps) if not step.is_initial)


def is_cut_off(rank: Rank) -> bool:
    """Whether a rank did not come to its end, so that nothing follows from what it did not do."""
    return rank.end is None or bool(rank.end.error)


def _once(steps: Sequence[Step]) -> Sequence[Step]:
    if len(steps) > 1 and steps[-1].number == steps[-2].number and not steps[-1].is_initial:
        return (*steps[:-2], _merged(steps[-2], steps[-1]))
    return steps


def _merged(step: Step, again: Step) -> Step:
    return replace(
        again,
        losses=step.losses,
        rates=step.rates or again.rates,
        batch=step.batch,
        gradients=step.gradients or again.gradients,
        collectives=step.collectives,
        backwards=step.backwards,
        seconds=step.seconds,
    )


def _paired(original: Rank, migrated: Rank, number: int, first: Optimizer, second: Optimizer) -> PairedOptimizer:
    ours = real_steps(original)
    order = {id(step): place for place, step in enumerate(ours)}
    own = [step for step in ours if step.optimizer == first.number]
    others = [step for step in real_steps(migrated) if step.optimizer == second.number]
    steps = [
        PairedStep(place, order[id(step)], step, other)
        for place, (step, other) in enumerate(zip(own, others, strict=False), 1)
    ]
    return PairedOptimizer(
        rank=original.rank,
        number=number,
        original=first,
        migrated=second,
        parameters=paired_parameters(first, second),
        steps=tuple(steps),
        counts=(len(own), len(others)),
        original_initial=_initial(original, first),
        migrated_initial=_initial(migrated, second),
    )


def _initial(rank: Rank, optimizer: Optimizer) -> tuple[Step, ...]:
    return tuple(step for step in rank.steps if step.is_initial and step.optimizer == optimizer.number)
